/*
 * exchange.h - one HTTP request and the answer to it.
 *
 * listener.c makes an exchange when a request is complete, and a worker gives it to the route that
 * its method and path name. The route reads the request by the functions below, and writes one
 * answer. An exchange belongs to one thread at a time.
 */
#ifndef HF_SERVER_HTTP_EXCHANGE_H
#define HF_SERVER_HTTP_EXCHANGE_H

#include "base/arena.h"
#include "base/text/buf.h"
#include "base/text/json_write.h"
#include "base/text/text.h"

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

#define EXCHANGE_PARAMS_MAX 4
#define BEARER_HASH_BYTES 32
#define EXCHANGE_HEADER_BYTES_MAX 512 /* of the value of one that is answered */

/* What a caller may do in a namespace; each role may do what those before it may. */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };

/* How it is known who asks: the server has no tokens, the request has one, or a browser's session
 * stands for one. */
enum via { VIA_NONE, VIA_LOCAL, VIA_TOKEN, VIA_SESSION };

/* The same with what can be looked at again while an answer goes on. */
struct bearer {
    enum via via;
    unsigned char token[BEARER_HASH_BYTES];   /* the hash of the token, for the last two */
    unsigned char session[BEARER_HASH_BYTES]; /* that of the session's id, for the last */
};

/* How far it is (listener.c). */
enum phase { PHASE_HEAD, PHASE_BODY, PHASE_WHOLE, PHASE_GIVEN, PHASE_ANSWERED };

/* Whether the path and query can be read (head.h). */
enum target { TARGET_RIGHT, TARGET_WRONG, TARGET_TOO_LONG };

/* Whether it waits for events, and how (waits.h). */
enum wait_state { WAIT_NONE, WAIT_WOKEN, WAIT_WATCHES };

struct MHD_Connection;
struct exchange;
struct listener;
struct server;
struct route;
struct stream;
struct streams;

/* A part of the path that the route left open: {name} of /v1/subscriptions/{name}. */
struct path_param {
    struct text name;  /* in the route's template */
    const char *value; /* decoded; in exchange->parts */
};

struct exchange_wait {
    enum wait_state state;
    bool parks;          /* it was not answered, and is to be kept until it is woken */
    bool half_closed;    /* the client had closed its side before; it still takes an answer */
    bool found;          /* what it has waited for was there */
    int64_t until_us;    /* monotonic; 0: it has not begun to wait */
    const char *awaited; /* for what; in exchange->parts */
    void (*run_out)(struct exchange *); /* writes the answer when nothing has come */
};

struct exchange {
    struct server *server;
    struct exchange *next; /* in the queue of the workers */
    struct listener *listener;
    struct MHD_Connection *connection;
    enum phase phase;
    struct streams *streams; /* of the server */
    struct arena memory;     /* for what lives as long as the exchange */

    /* The request. */
    const char *method; /* "GET" */
    char *path;         /* as it came, without the query */
    enum target target;
    struct buf body;
    size_t free_bytes; /* of the body, taken before it was known that the caller may send one */
    size_t sent_bytes; /* of an answer that is on its way, if it is counted */
    bool admitted;     /* the route is known, and the caller may use it */
    const struct route *route;
    char *parts; /* of the path, decoded, each with its NUL (router.c) */
    struct path_param params[EXCHANGE_PARAMS_MAX];
    size_t param_count;
    uint32_t asked_query; /* which parameters the route has read: a bit each, as route->query */
    uint32_t asked_body;  /* which members of the body, as route->body */
    const char *namespace_name;        /* of the path; "default" if that names none */
    hf_bus *bus;                       /* for the route; not to be closed */
    char actor[HF_NAME_BYTES_MAX + 1]; /* who asks: the name of a token, or "local" */
    struct bearer bearer;              /* how that is known */
    struct exchange_wait wait;

    /* The answer. */
    void (*answered)(struct exchange *); /* of one that a thread of the bus answers */
    int status;                          /* of HTTP; 0: none yet */
    const char *content_type;
    struct buf answer;
    struct stream *stream; /* in place of the bytes above (stream.h); NULL: none */
    struct buf headers;    /* names and values by turns, each with its NUL */
};

/* ---- The request ----------------------------------------------------------------------------- */

/* A header of the request; NULL: absent. */
const char *exchange_header(const struct exchange *exchange, const char *name);
/* Does Accept name this media type (and not only a range that has it, and not with q=0)? */
bool exchange_accepts(const struct exchange *exchange, const char *media_type);
/* A cookie of the request; NULL: absent. */
const char *exchange_cookie(const struct exchange *exchange, const char *name);
/* A part of the path by its name in the template (asserted). */
const char *exchange_param(const struct exchange *exchange, const char *name);

/* A parameter of the query, decoded; NULL: absent. The route must have it in its list (asserted).
 * It lives as long as the exchange. */
const char *exchange_query(struct exchange *exchange, const char *name);
/* The same as a number, or as true or false. False after the request was refused because the value
 * is none; an absent one leaves *ret_value alone. */
bool exchange_query_number(struct exchange *exchange, const char *name, int64_t min, int64_t max,
                           int64_t *ret_value);
bool exchange_query_flag(struct exchange *exchange, const char *name, bool *ret_value);

/* One of the words of "keep|drop", by its number from 0. As above. */
bool exchange_query_choice(struct exchange *exchange, const char *name, const char *choices,
                           int *ret_choice);
/* All values of a parameter that may be given several times. False after a refusal: more than
 * words_max, or one that is empty. */
bool exchange_query_words(struct exchange *exchange, const char *name, const char **ret_words,
                          size_t words_max, size_t *ret_count);

/* The body as a JSON object, checked. False after a refusal. An empty body is an empty object. */
bool exchange_object(struct exchange *exchange, struct text *ret_object);
/* For a path that takes no body. False after a refusal: the request has one that says something. */
bool exchange_has_no_body(struct exchange *exchange);
/* For a path that takes GET alone. False after a refusal: it is another method, or has a body. */
bool exchange_is_get(struct exchange *exchange);

/*
 * Waiting for events. A route that may wait calls exchange_begins_wait the first time that it is
 * run, and then exchange_watch. True: it waits itself until exchange->wait.until_us, in calls of
 * the library, looks now and then whether the server stops or the client has left, and answers.
 * False: it only looks, and if there is nothing it calls exchange_park and returns without an
 * answer: later it is run again from its beginning, or `run_out` answers. `awaited` is what is
 * waited for, a part of the path.
 */
void exchange_begins_wait(struct exchange *exchange, int64_t wait_ms);
bool exchange_watch(struct exchange *exchange, const char *awaited);
void exchange_park(struct exchange *exchange, void (*run_out)(struct exchange *));
/* Whether the client has closed its side of the connection since the wait began, or its token is
 * gone: then it gets no events. */
bool exchange_is_left(const struct exchange *exchange);

/* For a route that works for long: whether another one may, so that enough workers are left for
 * others. If so exchange_ends_long follows. */
bool exchange_begins_long(struct exchange *exchange);
void exchange_ends_long(struct exchange *exchange);
/* Whether the server is about to stop: who waits for events waits no longer. */
bool exchange_is_stopping(const struct exchange *exchange);

/* Whether it is about the namespace that the server works for: there it is a process itself. */
bool exchange_has_own_bus(const struct exchange *exchange);

/* The server is to keep no bus of a namespace that is about to be removed, as soon as no request
 * uses it. False: it is the namespace that the server works for. */
bool exchange_let_go_of(struct exchange *exchange, const char *namespace_name);

/* ---- The answer ------------------------------------------------------------------------------ */

/* An answer of JSON: the caller writes one value. */
struct json_out answer_json(struct exchange *exchange, int status);
/* Without a body. */
void answer_empty(struct exchange *exchange, int status);
/* Bytes that live as long as the program. */
void answer_static(struct exchange *exchange, const char *content_type, struct text bytes);
/* A header of the answer; what does not fit is left out (asserted in tests). */
void answer_header(struct exchange *exchange, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* application/problem+json (RFC 9457) in place of whatever was written so far: `detail` is a
 * sentence for people. Answers false, so that a check can end with it. */
bool answer_problem(struct exchange *exchange, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The failure of a call of the library, with its sentence and the name of its status. */
void answer_failure(struct exchange *exchange, hf_status status);

/* Which status of HTTP a status of the library is. */
int http_status_of(hf_status status);

#endif
