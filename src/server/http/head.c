/*
 * head.c - see head.h.
 *
 * libmicrohttpd takes the first of several headers with one name, ignores a Content-Length beside
 * chunks, and reads a body to the end of the connection if it does not know its encoding. Before
 * version 1.0 it puts a line that goes on with the header before it (out of use since RFC 7230)
 * behind the name of that header, and not behind its value: then the request has a
 * "Content-Length17".
 *
 * Of chunks it takes a LF alone as the end of a line, also within an extension, and this cannot be
 * switched off. A proxy that does not could take what follows for the rest of the body, which would
 * be another request here. So the connection of a chunked request ends with the answer to it.
 *
 * It ends texts with NUL where they stand in the request, so for it a NUL that a client has sent
 * ends a text, too, and what follows is not seen. In the memory of the head there is then more
 * between two texts than the end of a line. It answers nothing to a request with more parameters
 * than its memory for a connection has room for.
 */
#include "server/http/head.h"

#include "base/banned.h"

#include <microhttpd.h>
#include <strings.h>

/* When libmicrohttpd takes the query apart, it has read up to half of the memory of a connection
 * (HEAD_BYTES_MAX of listener.c), if the target is not longer than that; a parameter takes 64 bytes
 * of the other half. */
#define TARGET_BYTES_MAX 8192
#define PARAMETERS_MAX 140

/* Headers of which a request has at most one. */
static const char *const single[] = {"Host",         "Content-Length",  "Transfer-Encoding",
                                     "Origin",       "Authorization",   "Last-Event-ID",
                                     "Content-Type", "Content-Encoding"};
#define SINGLE_COUNT (sizeof single / sizeof single[0])

struct head {
    size_t counts[SINGLE_COUNT]; /* of the headers above */
    const char *at;              /* in its memory: the end of the text that was seen last */
    const char *end;             /* of its memory */
    bool has_bad_name;           /* a name of a header is no token */
    bool has_folded;             /* a header has more than one line */
    bool has_bad_value;          /* a value has a control character */
    bool has_nul;                /* a header or a parameter of the query has a NUL */
};

/* ---- The line of the request ----------------------------------------------------------------- */

static size_t count_parameters(const char *query)
{
    size_t count = 0;

    for (; query; query = strchr(query + 1, '&')) {
        count++;
    }
    return count;
}

/* Bytes that no target has: blanks, control characters, and a NUL, behind which there is something
 * else than the version. */
static bool has_bad_byte(const char *target, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)target[i] <= ' ' || target[i] == 127) {
            return true;
        }
    }
    return strncmp(target + length + 1, "HTTP/", 5) != 0;
}

void head_see_target(struct exchange *exchange, char *target)
{
    size_t length = strlen(target);
    char *query = strchr(target, '?');

    exchange->target = TARGET_RIGHT;
    if (has_bad_byte(target, length)) {
        exchange->target = TARGET_WRONG;
    } else if (length > TARGET_BYTES_MAX || count_parameters(query) > PARAMETERS_MAX) {
        exchange->target = TARGET_TOO_LONG;
        if (query) {
            query[1] = '\0';
        }
    }
}

/* ---- Headers --------------------------------------------------------------------------------- */

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

/* Goes to the next text, which is on the next line. */
static void see_next_line(struct head *head, const char *text, const char *end_of_text)
{
    size_t between = (size_t)(text - head->at); /* the end of a line: CR and LF, or LF */

    if (text <= head->at || text >= head->end) {
        head->has_folded = true; /* it was put together elsewhere */
    } else if (between > 2) {
        head->has_nul = true;
    }
    head->at = end_of_text;
}

static enum MHD_Result see_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct head *head = ctx;

    (void)kind;
    head->has_bad_name = head->has_bad_name || !is_token(name);
    see_next_line(head, name, value + strlen(value));
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

/* All of the head. */
static struct head see_head(const struct exchange *exchange, const char *method,
                            const char *version)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head head = {.at = version + strlen(version), .end = method + info->header_size};

    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, see_header, &head);
    MHD_get_connection_values_n(exchange->connection, MHD_GET_ARGUMENT_KIND, see_parameter, &head);
    head.has_nul = head.has_nul || head.end - head.at > 4; /* the line's end, and an empty line */
    return head;
}

/* Why the texts of the head are refused; NULL: they are not. */
static const char *find_fault(const struct head *head)
{
    if (head->has_bad_name) {
        return "the name of a header has a character that none may have";
    }
    if (head->has_folded) {
        return "a header goes on in the next line";
    }
    if (head->has_nul) {
        return "a header has no name, or a NUL character, or a parameter of the query has one";
    }
    return head->has_bad_value ? "a header has a control character" : NULL;
}

static bool check_target(struct exchange *exchange)
{
    switch (exchange->target) {
    case TARGET_WRONG:
        return refuse(exchange, MHD_HTTP_BAD_REQUEST,
                      "the path or query has a character that has to be percent-encoded");
    case TARGET_TOO_LONG:
        return refuse(exchange, MHD_HTTP_URI_TOO_LONG,
                      "the path and query are too long, or have too many parameters");
    case TARGET_RIGHT:
        break;
    }
    return true;
}

bool head_check(struct exchange *exchange, const char *method, const char *version)
{
    const char *encoding = exchange_header(exchange, "Transfer-Encoding");
    const char *packing = exchange_header(exchange, "Content-Encoding");
    struct head head = see_head(exchange, method, version);
    const char *fault = find_fault(&head);

    for (size_t i = 0; i < SINGLE_COUNT; i++) {
        if (head.counts[i] > 1) {
            answer_header(exchange, "Connection", "close");
            return answer_problem(exchange, MHD_HTTP_BAD_REQUEST,
                                  "the request has several headers %s", single[i]);
        }
    }
    if (!check_target(exchange)) {
        return false;
    }
    if (fault) {
        return refuse(exchange, MHD_HTTP_BAD_REQUEST, fault);
    }
    if (packing && strcasecmp(packing, "identity") != 0) {
        return refuse(exchange, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                      "bodies that are packed (Content-Encoding) are not taken");
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
    if (encoding) {
        answer_header(exchange, "Connection", "close");
    }
    return true;
}
