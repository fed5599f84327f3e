/*
 * openapi.c - the API as an OpenAPI 3.1 document.
 *
 * The document is written from routes.def, which the router works with, and from words.def. Paths
 * are relative to two servers, /v1 and /v1/namespaces/{namespace}, as the router takes them;
 * routes of the database as a whole are at the first alone. What every request may be answered with
 * besides (401, 403, and the failures of docs/http.md as `default`) is not repeated in the tables.
 */
#include "base/banned.h"
#include "server/api/api.h"
#include "server/cloudevent/cloudevent.h"
#include "server/http/words.h"

#include <assert.h>
#include <microhttpd.h>

struct word {
    const char *name;
    const char *type;
    const char *description;
};

struct schema {
    const char *name;
    const char *fields;
};

#define WORD(name, type, description) {#name, type, description},
static const struct word words[] = {
#include "server/api/words.def"
};
#define SCHEMA(name, fields) {#name, fields},
static const struct schema schemas[] = {
#include "server/api/words.def"
};

#define CHOICE(field, last, initial, others, flag, key, help) {#field, "string", help},
#define NUMBER(field, initial, min, max, flag, unit, key, help) {#field, "int", help},
#define PERIOD(field, initial, min, max, flag, key, help) {#field, "int", help},
#define FACTOR(field, initial, min, max, flag, unit, key, help) {#field, "number", help},
static const struct word options[] = {
#include "bus/options.def"
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- Types ----------------------------------------------------------------------------------- */

static void write_type(struct json_out *json, struct text type);

static bool starts_with(struct text type, const char *word)
{
    return type.length >= strlen(word) && memcmp(type.bytes, word, strlen(word)) == 0;
}

static void write_text(struct json_out *json, const char *key, struct text text)
{
    json_key(json, key);
    json_string(json, text);
}

/* "int(1..1000)": what stands between the brackets, and the name before them. */
static struct text cut_limits(struct text *type)
{
    const char *open = memchr(type->bytes, '(', type->length);
    struct text limits = TEXT_ABSENT;

    if (open) {
        limits.bytes = open + 1;
        limits.length = type->length - (size_t)(limits.bytes - type->bytes) - 1;
        type->length = (size_t)(open - type->bytes);
    }
    return limits;
}

static void write_range(struct json_out *json, struct text limits)
{
    char *end = NULL;

    if (limits.bytes) {
        json_key(json, "minimum");
        json_int(json, strtoll(limits.bytes, &end, 10));
        json_key(json, "maximum");
        json_int(json, strtoll(end + 2, NULL, 10));
    }
}

static void write_choices(struct json_out *json, struct text choices)
{
    json_key(json, "enum");
    json_array_begin(json);
    while (choices.length > 0) {
        json_string(json, text_cut(&choices, ','));
    }
    json_array_end(json);
}

/* The types that are JSON's own, with a name each. False: it is none of them. */
static bool write_simple(struct json_out *json, struct text type, bool nullable)
{
    static const struct {
        const char *name;
        const char *type;
        const char *format;
    } simple[] = {
        {"int", "integer", "int64"},     {"number", "number", NULL}, {"string", "string", NULL},
        {"bool", "boolean", NULL},       {"object", "object", NULL}, {"uuid", "string", "uuid"},
        {"time", "string", "date-time"}, {"choice", "string", NULL}, {"stream", "string", NULL},
    };
    struct text limits = cut_limits(&type);
    size_t i = 0;

    while (i < COUNT(simple) && !text_equal(type, text_of(simple[i].name))) {
        i++;
    }
    if (i == COUNT(simple)) {
        return false;
    }
    json_object_begin(json);
    json_key(json, "type");
    if (nullable) {
        json_array_begin(json);
    }
    json_string(json, text_of(simple[i].type));
    if (nullable) {
        json_string(json, text_of("null"));
        json_array_end(json);
    }
    if (simple[i].format) {
        show_string(json, "format", simple[i].format);
    }
    if (starts_with(type, "choice")) {
        write_choices(json, limits);
    } else {
        write_range(json, limits);
    }
    json_object_end(json);
    return true;
}

static void write_either(struct json_out *json, struct text one, struct text other)
{
    json_object_begin(json);
    json_key(json, "oneOf");
    json_array_begin(json);
    write_type(json, one);
    write_type(json, other);
    json_array_end(json);
    json_object_end(json);
}

static void write_array(struct json_out *json, struct text of)
{
    json_object_begin(json);
    show_string(json, "type", "array");
    json_key(json, "items");
    write_type(json, of);
    json_object_end(json);
}

/* {"items": [...], "next": ...} */
static void write_list(struct json_out *json, struct text of)
{
    json_object_begin(json);
    show_string(json, "type", "object");
    json_key(json, "properties");
    json_object_begin(json);
    json_key(json, "items");
    write_array(json, of);
    json_key(json, "next");
    write_type(json, text_of("string?"));
    json_object_end(json);
    json_key(json, "required");
    json_array_begin(json);
    json_string(json, text_of("items"));
    json_string(json, text_of("next"));
    json_array_end(json);
    json_object_end(json);
}

static void write_ref(struct json_out *json, const char *kind, struct text name)
{
    struct buf ref;

    buf_init(&ref, 256);
    buf_printf(&ref, "#/components/%s/%" TEXT_PRI, kind, TEXT_ARG(name));
    json_object_begin(json);
    write_text(json, "$ref", buf_text(&ref));
    json_object_end(json);
    buf_release(&ref);
}

/* Types that are made of others, or defined elsewhere. */
static void write_composed(struct json_out *json, struct text type)
{
    struct text inner = {type.bytes + 1, type.length - 2};
    const char *bar = memchr(type.bytes, '|', type.length);

    if (bar) {
        size_t length = (size_t)(bar - type.bytes);
        write_either(json, (struct text){type.bytes, length},
                     (struct text){bar + 1, type.length - length - 1});
    } else if (type.bytes[0] == '[') {
        write_array(json, inner);
    } else if (type.bytes[0] == '{') {
        write_list(json, inner);
    } else if (text_equal(type, text_of("place"))) {
        write_either(json, text_of("int(0..9223372036854775807)"), text_of("string"));
    } else if (text_equal(type, text_of("any"))) {
        json_object_begin(json);
        json_object_end(json);
    } else {
        write_ref(json, "schemas", type);
    }
}

static void write_type(struct json_out *json, struct text type)
{
    struct text inner = {type.bytes, type.length - 1};
    bool nullable = type.bytes[type.length - 1] == '?';

    if (write_simple(json, nullable ? inner : type, nullable)) {
        return;
    }
    if (!nullable) {
        write_composed(json, type);
        return;
    }
    json_object_begin(json);
    json_key(json, "oneOf");
    json_array_begin(json);
    write_composed(json, inner);
    json_object_begin(json);
    show_string(json, "type", "null");
    json_object_end(json);
    json_array_end(json);
    json_object_end(json);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static const struct word *find_word(struct text name)
{
    for (size_t i = 0; i < COUNT(words); i++) {
        if (text_equal(text_of(words[i].name), name)) {
            return &words[i];
        }
    }
    assert(!"words.def has no such word");
    return NULL;
}

static const struct schema *find_schema(struct text name)
{
    for (size_t i = 0; i < COUNT(schemas); i++) {
        if (text_equal(text_of(schemas[i].name), name)) {
            return &schemas[i];
        }
    }
    assert(!"words.def has no such schema");
    return NULL;
}

static void write_described(struct json_out *json, const struct word *word)
{
    json_object_begin(json);
    json_key(json, "schema");
    write_type(json, text_of(word->type));
    if (word->description[0]) {
        show_string(json, "description", word->description);
    }
}

/* The fields of a schema, or the names of those that are always there. */
static void write_fields(struct json_out *json, const char *fields, bool names)
{
    struct text field;

    while (words_next(&fields, &field)) {
        const char *colon = memchr(field.bytes, ':', field.length);
        if (field.bytes[0] == '+') {
            struct text other = {field.bytes + 1, field.length - 1};
            write_fields(json, find_schema(other)->fields, names);
        } else if (field.bytes[0] == '*') {
            for (size_t i = 0; i < COUNT(options); i++) {
                if (names) {
                    json_string(json, text_of(options[i].name));
                } else {
                    json_key(json, options[i].name);
                    write_type(json, text_of(options[i].type));
                }
            }
        } else {
            struct text name = {field.bytes, (size_t)(colon - field.bytes)};
            struct text type = {colon + 1, field.length - name.length - 1};
            bool optional = name.bytes[name.length - 1] == '*';
            name.length -= optional;
            if (!names) {
                json_key_text(json, name);
                write_type(json, type);
            } else if (!optional) {
                json_string(json, name);
            }
        }
    }
}

static void write_schema(struct json_out *json, const struct schema *schema)
{
    json_key(json, schema->name);
    json_object_begin(json);
    show_string(json, "type", "object");
    json_key(json, "properties");
    json_object_begin(json);
    write_fields(json, schema->fields, false);
    json_object_end(json);
    json_key(json, "required");
    json_array_begin(json);
    write_fields(json, schema->fields, true);
    json_array_end(json);
    json_object_end(json);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* What words.def calls the word of a list. */
static const struct word *meaning(struct text word)
{
    const char *equals = memchr(word.bytes, '=', word.length);
    size_t from = equals ? (size_t)(equals + 1 - word.bytes) : 0;

    return find_word(word_name((struct text){word.bytes + from, word.length - from}));
}

static bool is_needed(struct text word)
{
    return word.bytes[word.length - 1] == '!';
}

static void write_parameter(struct json_out *json, struct text name, const char *in,
                            const struct word *word, bool required)
{
    write_described(json, word);
    write_text(json, "name", name);
    show_string(json, "in", in);
    show_bool(json, "required", required);
    json_object_end(json);
}

static void write_parameters(struct json_out *json, const struct route *route)
{
    const char *at = route->template_text;
    struct text word;

    json_key(json, "parameters");
    json_array_begin(json);
    while ((at = strchr(at, '{'))) {
        struct text name = {at + 1, strcspn(at + 1, "}")};
        write_parameter(json, name, "path", find_word(name), true);
        at += name.length;
    }
    at = route->query;
    while (words_next(&at, &word)) {
        write_parameter(json, word_name(word), "query", meaning(word), is_needed(word));
    }
    if (strstr(route->answers, ":stream")) {
        write_parameter(json, text_of("Last-Event-ID"), "header", find_word(text_of("last_id")),
                        false);
    }
    json_array_end(json);
}

static void write_property(struct json_out *json, struct text name, const struct word *word)
{
    struct buf type;

    buf_init(&type, 256);
    buf_printf(&type, "%s", word->type);
    json_key_text(json, name);
    write_type(json, buf_text(&type));
    buf_release(&type);
}

/* The body as an object of the members that the route takes. */
static void write_members(struct json_out *json, const char *body)
{
    const char *at = body;
    struct text word;

    json_object_begin(json);
    show_string(json, "type", "object");
    json_key(json, "properties");
    json_object_begin(json);
    while (words_next(&at, &word)) {
        for (size_t i = 0; word.bytes[0] == '*' && i < COUNT(options); i++) {
            write_property(json, text_of(options[i].name), &options[i]);
        }
        if (word.bytes[0] != '*') {
            write_property(json, word_name(word), meaning(word));
        }
    }
    json_object_end(json);
    json_key(json, "required");
    json_array_begin(json);
    while (words_next(&body, &word)) {
        if (is_needed(word)) {
            json_string(json, word_name(word));
        }
    }
    json_array_end(json);
    json_key(json, "additionalProperties");
    json_bool(json, false);
    json_object_end(json);
}

static const char *media_type(struct text type)
{
    if (text_equal(type, text_of("Problem"))) {
        return "application/problem+json";
    }
    if (text_equal(type, text_of("CloudEvent"))) {
        return CLOUDEVENT_TYPE;
    }
    if (text_equal(type, text_of("[CloudEvent]"))) {
        return CLOUDEVENT_BATCH_TYPE;
    }
    return text_equal(type, text_of("stream")) ? "text/event-stream" : "application/json";
}

static void write_content(struct json_out *json, struct text type)
{
    json_key(json, media_type(type));
    json_object_begin(json);
    json_key(json, "schema");
    write_type(json, type);
    json_object_end(json);
}

/* A type, or several of them with & between. */
static void write_contents(struct json_out *json, struct text types)
{
    json_key(json, "content");
    json_object_begin(json);
    while (types.length > 0) {
        write_content(json, text_cut(&types, '&'));
    }
    json_object_end(json);
}

static void write_body(struct json_out *json, const struct route *route)
{
    if (!route->body[0]) {
        return;
    }
    json_key(json, "requestBody");
    json_object_begin(json);
    if (route->body[0] == '#') {
        write_contents(json, text_of("NewEvent|[NewEvent]&CloudEvent&[CloudEvent]"));
    } else {
        json_key(json, "content");
        json_object_begin(json);
        json_key(json, "application/json");
        json_object_begin(json);
        json_key(json, "schema");
        write_members(json, route->body);
        json_object_end(json);
        json_object_end(json);
    }
    json_object_end(json);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void write_problem(struct json_out *json, const char *status)
{
    json_key(json, status);
    write_ref(json, "responses", text_of("Problem"));
}

/* "200:{Event}": the status and the type of the body. */
static void write_answer(struct json_out *json, struct text word)
{
    char status[] = {word.bytes[0], word.bytes[1], word.bytes[2], '\0'};

    if (status[0] >= '4') {
        write_problem(json, status);
        return;
    }
    json_key(json, status);
    json_object_begin(json);
    show_string(json, "description",
                MHD_get_reason_phrase_for((unsigned)strtoul(status, NULL, 10)));
    if (word.length > 4) {
        write_contents(json, (struct text){word.bytes + 4, word.length - 4});
    }
    json_object_end(json);
}

static void write_answers(struct json_out *json, const struct route *route)
{
    const char *at = route->answers;
    struct text word;

    json_key(json, "responses");
    json_object_begin(json);
    while (words_next(&at, &word)) {
        write_answer(json, word);
    }
    write_problem(json, "400");
    write_problem(json, "401");
    write_problem(json, "403");
    write_problem(json, "default");
    json_object_end(json);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void write_operation(struct json_out *json, const struct route *route)
{
    static const char *const roles[] = {"none", "viewer", "operator", "admin"};
    char method[8];
    size_t length = strlen(route->method);

    for (size_t i = 0; i <= length; i++) {
        method[i] = (char)(route->method[i] ? route->method[i] | 0x20 : '\0');
    }
    json_key(json, method);
    json_object_begin(json);
    show_string(json, "operationId", route->name);
    show_string(json, "summary", route->summary);
    show_string(json, "x-role", roles[route->role]);
    json_key(json, "tags");
    json_array_begin(json);
    json_string(json, (struct text){route->template_text, strcspn(route->template_text, "/")});
    json_array_end(json);
    write_parameters(json, route);
    write_body(json, route);
    write_answers(json, route);
    json_object_end(json);
}

static void write_server(struct json_out *json, const char *url)
{
    json_object_begin(json);
    show_string(json, "url", url);
    if (strchr(url, '{')) {
        json_key(json, "variables");
        json_object_begin(json);
        json_key(json, "namespace");
        json_object_begin(json);
        show_string(json, "default", "default");
        json_object_end(json);
        json_object_end(json);
    }
    json_object_end(json);
}

static void write_servers(struct json_out *json, bool namespaces)
{
    json_key(json, "servers");
    json_array_begin(json);
    write_server(json, "/v1");
    if (namespaces) {
        write_server(json, "/v1/namespaces/{namespace}");
    }
    json_array_end(json);
}

/* All methods of one path, unless they have been written with an earlier route. */
static void write_path(struct json_out *json, size_t first)
{
    const char *template_text = routes[first].template_text;
    struct buf path;

    for (size_t i = 0; i < first; i++) {
        if (strcmp(routes[i].template_text, template_text) == 0) {
            return;
        }
    }
    buf_init(&path, 256);
    buf_printf(&path, "/%s", template_text);
    json_key(json, buf_terminate(&path));
    json_object_begin(json);
    if (routes[first].scope == SCOPE_DATABASE) {
        write_servers(json, false);
    }
    for (size_t i = first; i < route_count; i++) {
        if (strcmp(routes[i].template_text, template_text) == 0) {
            write_operation(json, &routes[i]);
        }
    }
    json_object_end(json);
    buf_release(&path);
}

static void write_components(struct json_out *json)
{
    json_key(json, "components");
    json_object_begin(json);
    json_key(json, "securitySchemes");
    json_object_begin(json);
    json_key(json, "token");
    json_object_begin(json);
    show_string(json, "type", "http");
    show_string(json, "scheme", "bearer");
    json_object_end(json);
    json_object_end(json);
    json_key(json, "responses");
    json_object_begin(json);
    json_key(json, "Problem");
    json_object_begin(json);
    show_string(json, "description", "a failure; `detail` is a sentence for people");
    json_key(json, "content");
    json_object_begin(json);
    write_content(json, text_of("Problem"));
    json_object_end(json);
    json_object_end(json);
    json_object_end(json);
    json_key(json, "schemas");
    json_object_begin(json);
    for (size_t i = 0; i < COUNT(schemas); i++) {
        write_schema(json, &schemas[i]);
    }
    json_object_end(json);
    json_object_end(json);
}

void openapi_show(struct exchange *exchange)
{
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);

    json_object_begin(&json);
    show_string(&json, "openapi", "3.1.0");
    json_key(&json, "info");
    json_object_begin(&json);
    show_string(&json, "title", "Holdfast");
    show_string(&json, "version", HF_VERSION);
    json_object_end(&json);
    write_servers(&json, true);
    json_key(&json, "security"); /* a token, or none on this machine */
    json_array_begin(&json);
    json_object_begin(&json);
    json_key(&json, "token");
    json_array_begin(&json);
    json_array_end(&json);
    json_object_end(&json);
    json_object_begin(&json);
    json_object_end(&json);
    json_array_end(&json);
    json_key(&json, "paths");
    json_object_begin(&json);
    for (size_t i = 0; i < route_count; i++) {
        write_path(&json, i);
    }
    json_object_end(&json);
    write_components(&json);
    json_object_end(&json);
}
