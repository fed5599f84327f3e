/*
 * router.c - see router.h.
 *
 * The path is cut at its slashes before it is decoded, so a name with a slash in it is one part if
 * it is written with %2F.
 */
#include "server/http/router.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "server/http/words.h"

#include <assert.h>
#include <microhttpd.h>

#define PARTS_MAX 8
#define METHODS_BYTES 64
#define NAMES_BYTES 256 /* of the parameters of a route */

struct path {
    const char *parts[PARTS_MAX]; /* decoded, in exchange->parts */
    size_t count;
};

/* ---- Parts of a path ------------------------------------------------------------------------- */

/* Decodes a part in place, up to a slash or the end. Answers where the part ends in `from`; NULL:
 * it is no text. */
static char *decode_part(char *from)
{
    char *to = from;
    struct text part = {from, 0};

    for (; *from && *from != '/'; from++) {
        char c = *from;
        if (c == '%') {
            int32_t byte = hex_number(from + 1, 2);
            if (byte <= 0) {
                return NULL;
            }
            c = (char)byte;
            from += 2;
        }
        *to++ = c;
    }
    part.length = (size_t)(to - part.bytes);
    if (!utf8_is_valid(part)) {
        return NULL;
    }
    if (to < from) {
        *to = '\0';
    }
    return from;
}

/* Cuts exchange->path into parts. False: it is no path. */
static bool cut(struct exchange *exchange, struct path *ret_path)
{
    char *at = exchange->parts;

    ret_path->count = 0;
    while (*at == '/') {
        char *end;
        if (ret_path->count == PARTS_MAX) {
            return false;
        }
        *at++ = '\0';
        ret_path->parts[ret_path->count++] = at;
        end = decode_part(at);
        if (!end) {
            return false;
        }
        at = end;
    }
    return *at == '\0' && ret_path->count > 0;
}

/* ---- Templates ------------------------------------------------------------------------------- */

/* Takes the next part off a template; false at its end. */
static bool next_part(const char **at, struct text *ret_part)
{
    if (!**at) {
        return false;
    }
    *ret_part = (struct text){*at, strcspn(*at, "/")};
    *at += ret_part->length + ((*at)[ret_part->length] == '/');
    return true;
}

/* Does the template stand for these parts? Notes what its open parts are. */
static bool matches(struct exchange *exchange, const char *template_text, const char *const *parts,
                    size_t count)
{
    struct text part;
    size_t i = 0;

    exchange->param_count = 0;
    while (next_part(&template_text, &part)) {
        if (i == count) {
            return false;
        }
        if (part.bytes[0] == '{') {
            exchange->params[exchange->param_count++] =
                (struct path_param){{part.bytes + 1, part.length - 2}, parts[i]};
        } else if (!text_equal(part, text_of(parts[i]))) {
            return false;
        }
        i++;
    }
    return i == count;
}

static void add_method(char methods[METHODS_BYTES], const char *method)
{
    size_t length = strlen(methods);

    snprintf(methods + length, METHODS_BYTES - length, "%s%s", length ? ", " : "", method);
}

struct parameters {
    const char *query;    /* what the route takes */
    uint32_t seen;        /* of these: a bit each */
    const char *stranger; /* the first that it does not take; NULL: none */
    const char *repeated; /* the first that is there twice and may not be; NULL: none */
    const char *garbled;  /* the first whose value is no text; NULL: none */
};

static enum MHD_Result see_parameter(void *ctx, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct parameters *parameters = ctx;
    int number = words_find(parameters->query, name);

    (void)kind;
    if (number < 0) {
        parameters->stranger = name;
        return MHD_NO;
    }
    if (value && !utf8_is_valid(text_of(value))) {
        parameters->garbled = name;
        return MHD_NO;
    }
    if (parameters->seen & UINT32_C(1) << number && !words_is_many(parameters->query, number)) {
        parameters->repeated = name;
        return MHD_NO;
    }
    parameters->seen |= UINT32_C(1) << number;
    return MHD_YES;
}

/* A parameter that the route does not take is likely to be another's name, misspelled. One that is
 * there twice is read in one way here, and may be in another elsewhere. */
bool router_check_query(struct exchange *exchange, const char *query)
{
    struct parameters parameters = {.query = query};
    char names[NAMES_BYTES];

    MHD_get_connection_values(exchange->connection, MHD_GET_ARGUMENT_KIND, see_parameter,
                              &parameters);
    if (parameters.repeated) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST, "the parameter %s is there twice",
                              parameters.repeated);
    }
    if (parameters.garbled) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST, "the parameter %s is not valid UTF-8",
                              parameters.garbled);
    }
    if (!parameters.stranger) {
        return true;
    }
    words_names(query, names, sizeof names);
    return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                          "there is no parameter \"%.64s\"; this path takes %s",
                          parameters.stranger, names[0] ? names : "none");
}

void router_check_asked(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    const char *body = route->body;
    int members = words_count(body) - (words_find(body, "*") >= 0);

    if (exchange->status < MHD_HTTP_BAD_REQUEST) {
        assert(exchange->asked_query == (UINT64_C(1) << words_count(route->query)) - 1);
        assert(body[0] == '#' || exchange->asked_body == (UINT64_C(1) << members) - 1);
    }
}

bool router_find(struct exchange *exchange)
{
    struct path path;
    char methods[METHODS_BYTES] = "";
    const char *const *parts = path.parts + 1;

    exchange->namespace_name = "default";
    exchange->parts = mem_dup(exchange->path, strlen(exchange->path));
    if (!exchange->parts) {
        return answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    }
    if (!cut(exchange, &path) || strcmp(path.parts[0], "v1") != 0) {
        return answer_problem(exchange, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
    }
    path.count--;
    if (path.count > 2 && strcmp(parts[0], "namespaces") == 0) {
        exchange->namespace_name = parts[1];
        parts += 2;
        path.count -= 2;
    }
    for (size_t i = 0; i < route_count; i++) {
        if (!matches(exchange, routes[i].template_text, parts, path.count)) {
            continue;
        }
        if (strcmp(routes[i].method, exchange->method) == 0) {
            exchange->route = &routes[i];
            return router_check_query(exchange, routes[i].query);
        }
        add_method(methods, routes[i].method);
    }
    if (methods[0]) {
        answer_header(exchange, "Allow", "%s", methods);
        return answer_problem(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "this path takes %s", methods);
    }
    return answer_problem(exchange, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
}
