/*
 * stream.h - answers that do not end: server-sent events (text/event-stream).
 *
 * A route begins a stream in place of an answer, and from then on any thread may send messages to
 * it. No thread is held by a stream that is idle: its connection is suspended until there is
 * something to send.
 *
 *     static void gone(void *ctx);               // the connection has ended
 *
 *     void live_route(struct exchange *exchange)
 *     {
 *         struct stream *stream = stream_begin(exchange, &(struct stream_hooks){.gone = gone,
 *                                                                               .ctx = page});
 *         if (!stream) {
 *             return;                            // refused: the answer says why
 *         }
 *         page->stream = stream;                 // a reference of the caller's
 *     }
 *
 *     // once a second, on a thread of the caller's: one message for all pages
 *     struct message *message = message_new(NULL, "stats", json);
 *     for (each page) {
 *         if (!stream_send(page->stream, message)) {
 *             forget the page                    // stream_put(page->stream)
 *         }
 *     }
 *     message_put(message);
 *
 * What a client can cost is bounded. A message is stored once, however many streams it waits in. If
 * more than STREAM_QUEUE_BYTES wait in a stream that does not take them, the client is dropped: it
 * connects again by itself, and says in Last-Event-ID what the id of its last message was. There is
 * a limit for the streams of the server and for those of one address; beyond, the request is
 * answered with 503. Idle streams get a comment every STREAM_BEAT_MS, so that proxies keep them and
 * clients that are gone without a word are noticed. One that has closed its connection is noticed
 * within two seconds.
 *
 * When the server drains, every stream ends after what was sent to it, and no new one begins.
 */
#ifndef HF_SERVER_HTTP_STREAM_H
#define HF_SERVER_HTTP_STREAM_H

#include "server/http/exchange.h"

#define STREAM_QUEUE_BYTES 262144 /* that may wait in one stream, besides its newest message */
#define STREAM_BEAT_MS 15000      /* without a message, until a comment is sent */
#define STREAM_RETRY_MS 1000      /* what a client is told to wait before it connects again */

struct message;
struct stream;
struct streams;

/* ---- Messages -------------------------------------------------------------------------------- */

/*
 * A message with one reference. `id` is what a client sends in Last-Event-ID, `event` the name of
 * its kind; both may be NULL, and have no line ends (asserted). Lines of `data` become lines of the
 * message, so it may be any text without NUL; absent data are a message that only has an id, which
 * the client notes. NULL: no memory, or larger than 64 MiB (err).
 */
struct message *message_new(const char *id, const char *event, struct text data);
struct message *message_ref(struct message *message);
void message_put(struct message *message); /* NULL is allowed */

/* ---- Streams --------------------------------------------------------------------------------- */

/*
 * Both are called on the thread that writes to all sockets, so they must not wait for anything.
 * Each may be NULL. `gone` comes once, and is the last call.
 */
struct stream_hooks {
    void (*room)(void *ctx); /* the last message that a flush had left has been taken */
    void (*gone)(void *ctx); /* the connection has ended; nothing can be sent any more */
    void *ctx;
};

/* The answer to this exchange is a stream from now on. The caller has a reference, to be given back
 * by stream_put. NULL after a refusal (503: too many streams, or the server drains). The first
 * bytes leave when the route has returned; what is sent before waits until then. */
struct stream *stream_begin(struct exchange *exchange, const struct stream_hooks *hooks);

/* Sends a message, on any thread. False: the stream has ended (its client is gone, was too slow, or
 * the server drains), and the message goes nowhere. The caller keeps its reference. */
bool stream_send(struct stream *stream, struct message *message);
/* The same in two steps, so that several messages leave together: each waits until the flush. */
bool stream_append(struct stream *stream, struct message *message);
void stream_flush(struct stream *stream);

/* How many bytes wait. */
size_t stream_queued(struct stream *stream);

/* Ends the stream behind what has been sent. */
void stream_end(struct stream *stream);

/* Gives a reference back; the stream goes on without it. NULL is allowed. */
void stream_put(struct stream *stream);

/* ---- All of them ----------------------------------------------------------------------------- */

struct stream_counts {
    int64_t open;    /* now */
    int64_t begun;   /* since the start */
    int64_t refused; /* because there were too many */
    int64_t dropped; /* because they were too slow */
};

/* The server has one. 0 as per_address_max: as many as there are. NULL: no memory (err). */
struct streams *streams_new(size_t streams_max, size_t per_address_max);
struct stream_counts streams_count(struct streams *streams);
/* Ends those that are not allowed any more. */
typedef bool (*stream_allowed_fn)(const struct bearer *bearer, enum role role,
                                  const char *namespace_name, void *ctx);
void streams_check(struct streams *streams, stream_allowed_fn is_allowed, void *ctx);
/* Sends comments to those that have been idle for STREAM_BEAT_MS, and ends those whose clients are
 * gone. Is called once a second. */
void streams_beat(struct streams *streams, int64_t now_us);
/* Ends all, refuses new ones, and waits up to wait_ms for the clients to take what is left. */
void streams_drain(struct streams *streams, int64_t wait_ms);
/* All connections have ended, and all references are back. NULL is allowed. */
void streams_free(struct streams *streams);

/* ---- For the listener ------------------------------------------------------------------------ */

/* The response that sends exchange->stream; NULL: no memory. */
struct MHD_Response *stream_response(struct exchange *exchange);
/* The exchange has ended, so its stream has. */
void stream_close(struct exchange *exchange);

#endif
