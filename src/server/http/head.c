/*
 * head.c - see head.h.
 *
 * libmicrohttpd takes the first of several headers with one name, ignores a Content-Length beside
 * chunks, and reads a body to the end of the connection if it does not know its encoding. Before
 * version 1.0 it puts a line that goes on with the header before it (out of use since RFC 7230)
 * behind the name of that header, and not behind its value: then the request has a
 * "Content-Length17".
 */
#include "server/http/head.h"

#include "base/banned.h"

#include <microhttpd.h>
#include <strings.h>

/* Headers of which a request has at most one. */
static const char *const single[] = {"Host",   "Content-Length", "Transfer-Encoding",
                                     "Origin", "Authorization",  "Last-Event-ID"};
#define SINGLE_COUNT (sizeof single / sizeof single[0])

/* Headers that say where a request ends. */
static const char *const framing[] = {"Content-Length", "Transfer-Encoding"};

struct head {
    size_t counts[SINGLE_COUNT]; /* of the headers above */
    bool has_bad_name;           /* a name of a header is no token */
    bool has_folded;             /* a header that says where the request ends has two lines */
    bool has_bad_value;          /* a value has a control character */
    bool has_nul;                /* a parameter of the query has a NUL */
};

/* Characters of a name of a header (RFC 9110). */
static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (const char *at = name; *at; at++) {
        char lower = (char)(*at | 0x20);
        bool is_plain = (lower >= 'a' && lower <= 'z') || (*at >= '0' && *at <= '9');
        if (!is_plain && !strchr(others, *at)) {
            return false;
        }
    }
    return name[0] != '\0';
}

/* A value has no control characters but tabs (RFC 9110, 5.5). A CR alone, which libmicrohttpd takes
 * for a part of the value, is the end of the line for some. */
static bool has_control(const char *value)
{
    for (const char *at = value; at && *at; at++) {
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == 127) {
            return true;
        }
    }
    return false;
}

/* More than the name of a header that says where the request ends. */
static bool is_folded(const char *name)
{
    bool is_it = false;

    for (size_t i = 0; i < sizeof framing / sizeof framing[0]; i++) {
        size_t length = strlen(framing[i]);
        is_it = is_it || (strncasecmp(name, framing[i], length) == 0 && name[length]);
    }
    return is_it;
}

static enum MHD_Result see_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct head *head = ctx;

    (void)kind;
    head->has_bad_name = head->has_bad_name || !is_token(name);
    head->has_folded = head->has_folded || is_folded(name);
    head->has_bad_value = head->has_bad_value || has_control(value);
    for (size_t i = 0; i < SINGLE_COUNT; i++) {
        head->counts[i] += strcasecmp(name, single[i]) == 0;
    }
    return MHD_YES;
}

static enum MHD_Result see_parameter(void *ctx, enum MHD_ValueKind kind, const char *name,
                                     size_t name_bytes, const char *value, size_t value_bytes)
{
    struct head *head = ctx;

    (void)kind;
    head->has_nul = head->has_nul || memchr(name, '\0', name_bytes) ||
                    (value && memchr(value, '\0', value_bytes));
    return MHD_YES;
}

static bool refuse(struct exchange *exchange, int status, const char *why)
{
    answer_header(exchange, "Connection", "close");
    return answer_problem(exchange, status, "%s", why);
}

bool head_check(struct exchange *exchange, const char *version)
{
    const char *encoding = exchange_header(exchange, "Transfer-Encoding");
    struct head head = {.has_nul = false};

    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, see_header, &head);
    MHD_get_connection_values_n(exchange->connection, MHD_GET_ARGUMENT_KIND, see_parameter, &head);
    for (size_t i = 0; i < SINGLE_COUNT; i++) {
        if (head.counts[i] > 1) {
            answer_header(exchange, "Connection", "close");
            return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                                  "the request has several headers %s", single[i]);
        }
    }
    if (head.has_bad_name || head.has_nul) {
        return refuse(exchange, MHD_HTTP_BAD_REQUEST,
                      head.has_nul ? "a parameter of the query has a NUL character"
                                   : "the name of a header has a character that none may have");
    }
    if (head.has_bad_value || head.has_folded) {
        return refuse(exchange, MHD_HTTP_BAD_REQUEST,
                      head.has_folded ? "a header goes on in the next line"
                                      : "a header has a control character");
    }
    if (encoding && strcmp(version, "HTTP/1.0") == 0) {
        return refuse(exchange, MHD_HTTP_BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding");
    }
    if (encoding && exchange_header(exchange, "Content-Length")) {
        return refuse(exchange, MHD_HTTP_BAD_REQUEST,
                      "Content-Length and Transfer-Encoding cannot go together");
    }
    if (encoding && strcasecmp(encoding, "chunked") != 0) {
        return refuse(exchange, MHD_HTTP_NOT_IMPLEMENTED,
                      "the only Transfer-Encoding that is taken is chunked");
    }
    return true;
}
