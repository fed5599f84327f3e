/*
 * exchange.c - reading a request, and writing its answer.
 */
#include "server/http/exchange.h"

#include "base/banned.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "server/http/router.h"
#include "server/http/words.h"
#include "json/fields.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <strings.h>

/* ---- The request ----------------------------------------------------------------------------- */

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

bool exchange_accepts(const struct exchange *exchange, const char *media_type)
{
    const char *at = exchange_header(exchange, "Accept");
    size_t length = strlen(media_type);

    for (; at; at = strchr(at, ',')) {
        at += strspn(at, ", \t");
        if (strncasecmp(at, media_type, length) == 0 && strchr(", \t;", at[length])) {
            const char *weight = memmem(at, strcspn(at, ","), "q=0", 3);
            return !weight || weight[3 + strspn(weight + 3, ".0")] > '0';
        }
    }
    return false;
}

const char *exchange_cookie(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_COOKIE_KIND, name);
}

const char *exchange_param(const struct exchange *exchange, const char *name)
{
    for (size_t i = 0; i < exchange->param_count; i++) {
        if (text_equal(exchange->params[i].name, text_of(name))) {
            return exchange->params[i].value;
        }
    }
    assert(!"the route's template has no such part");
    return NULL;
}

const char *exchange_query(struct exchange *exchange, const char *name)
{
    int number = exchange->route ? words_find(exchange->route->query, name) : -1;

    assert(!exchange->route || number >= 0);
    exchange->asked_query |= number >= 0 ? UINT32_C(1) << number : 0;
    return MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool exchange_query_number(struct exchange *exchange, const char *name, int64_t min, int64_t max,
                           int64_t *ret_value)
{
    const char *text = exchange_query(exchange, name);
    int64_t number;

    if (!text) {
        return true;
    }
    if (json_int_decode(text_of(text), &number) || number < min || number > max) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter %s takes a number from %" PRId64 " to %" PRId64, name,
                              min, max);
    }
    *ret_value = number;
    return true;
}

bool exchange_query_flag(struct exchange *exchange, const char *name, bool *ret_value)
{
    const char *text = exchange_query(exchange, name);

    if (!text) {
        return true;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter %s takes true or false", name);
    }
    *ret_value = text[0] == 't';
    return true;
}

bool exchange_query_choice(struct exchange *exchange, const char *name, const char *choices,
                           int *ret_choice)
{
    const char *text = exchange_query(exchange, name);
    const char *at = choices;

    for (int number = 0; text && *at; number++) {
        struct text word = {at, strcspn(at, "|")};
        if (text_equal(word, text_of(text))) {
            *ret_choice = number;
            return true;
        }
        at += word.length + (at[word.length] == '|');
    }
    return !text || answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                                   "the parameter %s takes one of %s", name, choices);
}

struct words_taken {
    const char *name;
    const char **words;
    size_t words_max;
    size_t count; /* also of those that have no room */
    bool empty;   /* one is */
};

static enum MHD_Result take_word(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct words_taken *taken = ctx;

    (void)kind;
    if (strcmp(name, taken->name) == 0) {
        taken->empty = taken->empty || !value || !value[0];
        if (taken->count < taken->words_max) {
            taken->words[taken->count] = value;
        }
        taken->count++;
    }
    return MHD_YES;
}

bool exchange_query_words(struct exchange *exchange, const char *name, const char **ret_words,
                          size_t words_max, size_t *ret_count)
{
    struct words_taken taken = {.name = name, .words = ret_words, .words_max = words_max};

    exchange_query(exchange, name); /* notes that it was asked for */
    assert(words_is_many(exchange->route->query, words_find(exchange->route->query, name)));
    MHD_get_connection_values(exchange->connection, MHD_GET_ARGUMENT_KIND, take_word, &taken);
    if (taken.empty || taken.count > words_max) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                              "the parameter %s takes a text, and may be given up to %zu times",
                              name, words_max);
    }
    *ret_count = taken.count;
    return true;
}

bool exchange_object(struct exchange *exchange, struct text *ret_object)
{
    static const char nothing[] = "{}";
    const struct buf *body = &exchange->body;

    if (body->length == 0) {
        *ret_object = (struct text){nothing, 2};
        return true;
    }
    if (json_check_object(body->bytes, body->length, NULL, "the body")) {
        return answer_problem(exchange, MHD_HTTP_BAD_REQUEST, "%s", hf_errmsg());
    }
    *ret_object = buf_text(body);
    return true;
}

/* Some clients send an empty object with every POST. */
bool exchange_has_no_body(struct exchange *exchange)
{
    const struct buf *body = &exchange->body;
    struct json_iter iter;
    struct text key;
    struct text raw;

    if (body->length == 0) {
        return true;
    }
    if (json_check_object(body->bytes, body->length, NULL, "the body") == HF_OK) {
        json_iter_init(&iter, buf_text(body));
        if (!json_iter_next(&iter, &key, &raw)) {
            return true;
        }
    }
    return answer_problem(exchange, MHD_HTTP_BAD_REQUEST, "%s takes no body at this path",
                          exchange->method);
}

bool exchange_is_get(struct exchange *exchange)
{
    if (strcmp(exchange->method, "GET") == 0) {
        return exchange_has_no_body(exchange);
    }
    answer_header(exchange, "Allow", "GET");
    return answer_problem(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "this path takes GET");
}

/* ---- The answer ------------------------------------------------------------------------------ */

struct json_out answer_json(struct exchange *exchange, int status)
{
    struct json_out json;

    exchange->status = status;
    exchange->content_type = "application/json";
    buf_clear(&exchange->answer);
    json_out_init(&json, &exchange->answer);
    return json;
}

void answer_empty(struct exchange *exchange, int status)
{
    exchange->status = status;
    exchange->content_type = NULL;
    buf_clear(&exchange->answer);
}

void answer_static(struct exchange *exchange, const char *content_type, struct text bytes)
{
    exchange->status = MHD_HTTP_OK;
    exchange->content_type = content_type;
    buf_clear(&exchange->answer);
    buf_append_text(&exchange->answer, bytes);
}

void answer_header(struct exchange *exchange, const char *name, const char *format, ...)
{
    char value[EXCHANGE_HEADER_BYTES_MAX];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    assert(length >= 0 && (size_t)length < sizeof value);
    buf_append(&exchange->headers, name, strlen(name) + 1);
    buf_append(&exchange->headers, value, strlen(value) + 1);
    assert(exchange->headers.failed != HF_INVALID);
}

static void write_problem(struct exchange *exchange, int status, const char *code,
                          const char *detail)
{
    struct json_out json;

    exchange->status = status;
    exchange->content_type = "application/problem+json";
    buf_clear(&exchange->answer);
    json_out_init(&json, &exchange->answer);
    json_object_begin(&json);
    show_string(&json, "title", MHD_get_reason_phrase_for((unsigned)status));
    show_int(&json, "status", status);
    show_string(&json, "detail", detail);
    if (code) {
        show_string(&json, "code", code);
    }
    json_object_end(&json);
}

bool answer_problem(struct exchange *exchange, int status, const char *format, ...)
{
    char detail[HF_ERROR_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    write_problem(exchange, status, NULL, detail);
    return false;
}

int http_status_of(hf_status status)
{
    switch (status) {
    case HF_OK:
        return MHD_HTTP_OK;
    case HF_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case HF_DENIED:
        return MHD_HTTP_FORBIDDEN;
    case HF_NOTFOUND:
        return MHD_HTTP_NOT_FOUND;
    case HF_MISUSE:
    case HF_CONFLICT:
    case HF_STALE:
        return MHD_HTTP_CONFLICT;
    case HF_BUSY:
    case HF_CLOSED:
    case HF_NOMEM:
    case HF_SCHEMA:
    case HF_UNAVAILABLE:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case HF_TIMEOUT:
    case HF_UNKNOWN:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    case HF_NOSPACE:
        return MHD_HTTP_INSUFFICIENT_STORAGE;
    case HF_CORRUPT:
    case HF_IO:
        break;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

void answer_failure(struct exchange *exchange, hf_status status)
{
    write_problem(exchange, http_status_of(status), hf_status_name(status), hf_errmsg());
}
