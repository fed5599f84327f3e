/*
 * stream.c - see stream.h.
 *
 * libmicrohttpd asks for bytes by calling take_bytes on its one thread whenever the socket of a
 * connection takes some. If there are none, take_bytes suspends the connection under the lock of
 * the stream and notes that it is `parked`. While it is, no other writes to the socket, so the
 * thread that flushes writes to it itself: one system call for all that waits. Going through
 * libmicrohttpd instead takes five for each connection, and a look at all that are suspended. Only
 * if the socket does not take everything the connection is resumed, and libmicrohttpd sends the
 * rest when there is room. So no message is left behind between the look at the queue and the
 * suspension.
 *
 * Both write the same bytes, because the answer has no chunks: it ends with its connection. With
 * TLS only libmicrohttpd can write.
 *
 * A stream has ended as soon as `ended` is set: by stream_end, by a queue that is too long, by the
 * drain, or by the end of the connection. After `ended` nothing is appended. `connection` is
 * NULL from the moment on that libmicrohttpd has let go of the request, and used only under the
 * lock, which is held before locks of libmicrohttpd.
 *
 * Locks: streams->mutex before stream->mutex. The hooks are called with none held.
 */
#include "server/http/stream.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/http/peer.h"
#include "server/http/router.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MESSAGE_BYTES_MAX 67108864
#define BLOCK_BYTES 8192 /* that libmicrohttpd asks for at once, if only it writes ... */
#define PIECE_BYTES 512  /* ... and if not */
#define QUEUE_LENGTH 4   /* messages that a queue has room for at first */
#define PARTS_MAX 64     /* messages that are written at once */

struct message {
    atomic_int refs;
    size_t length;
    char bytes[];
};

struct stream {
    struct streams *streams;
    struct stream *next; /* in the list of streams; protected by streams->mutex */
    struct stream **at;
    struct peer address;
    struct bearer bearer; /* of the request */
    enum role role;       /* that it needed, and in which namespace */
    char namespace_name[HF_NAMESPACE_BYTES_MAX + 1];
    struct stream_hooks hooks;
    atomic_int refs;
    int fd;                            /* of the connection; -1: only libmicrohttpd writes to it */
    pthread_mutex_t mutex;             /* protects what follows */
    struct MHD_Connection *connection; /* NULL: it is gone */
    bool parked;                       /* the connection is suspended */
    bool ended;                        /* nothing is appended any more */
    bool dropped;                      /* what waits is not sent either */
    bool has_closed;                   /* the client its sending side, and got a comment since */
    struct message **queue;            /* a ring */
    size_t capacity;                   /* of the ring: a power of two */
    size_t first;
    size_t count;
    size_t offset; /* bytes of the first message that have been taken */
    size_t bytes;  /* that wait */
    int64_t active_us;
};

struct streams {
    size_t streams_max;
    size_t per_address_max;
    struct message *greeting;
    struct message *beat;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    struct stream *first;
    struct stream_counts counts;
    bool draining;
};

/* ---- Messages -------------------------------------------------------------------------------- */

static struct message *message_of(struct text bytes)
{
    struct message *message = mem_alloc(sizeof *message + bytes.length);

    if (!message) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    atomic_init(&message->refs, 1);
    message->length = bytes.length;
    memcpy(message->bytes, bytes.bytes, bytes.length);
    return message;
}

/* CR, LF, and both together end a line of a message. */
static void append_data(struct buf *buf, struct text data)
{
    size_t at = 0;

    do {
        size_t end = at;
        while (end < data.length && data.bytes[end] != '\n' && data.bytes[end] != '\r') {
            end++;
        }
        buf_append(buf, "data: ", 6);
        buf_append(buf, data.bytes + at, end - at);
        buf_char(buf, '\n');
        at = end + 1;
        if (end + 1 < data.length && data.bytes[end] == '\r' && data.bytes[end + 1] == '\n') {
            at++;
        }
    } while (at < data.length);
}

static void append_field(struct buf *buf, const char *name, const char *value)
{
    if (value) {
        assert(!strpbrk(value, "\r\n"));
        buf_printf(buf, "%s: %s\n", name, value);
    }
}

struct message *message_new(const char *id, const char *event, struct text data)
{
    struct message *message = NULL;
    struct buf buf;

    buf_init(&buf, MESSAGE_BYTES_MAX);
    append_field(&buf, "id", id);
    append_field(&buf, "event", event);
    if (data.bytes) {
        append_data(&buf, data);
    }
    buf_char(&buf, '\n');
    if (buf_status(&buf) == HF_OK) {
        message = message_of(buf_text(&buf));
    }
    buf_release(&buf);
    return message;
}

struct message *message_ref(struct message *message)
{
    atomic_fetch_add(&message->refs, 1);
    return message;
}

void message_put(struct message *message)
{
    if (message && atomic_fetch_sub(&message->refs, 1) == 1) {
        mem_free(message);
    }
}

/* ---- The queue of a stream; its lock is held ------------------------------------------------- */

static bool queue_grow(struct stream *stream)
{
    size_t capacity = stream->capacity ? stream->capacity * 2 : QUEUE_LENGTH;
    struct message **queue = mem_calloc(capacity, sizeof *queue);

    if (!queue) {
        return false;
    }
    for (size_t i = 0; i < stream->count; i++) {
        queue[i] = stream->queue[(stream->first + i) % stream->capacity];
    }
    mem_free(stream->queue);
    stream->queue = queue;
    stream->capacity = capacity;
    stream->first = 0;
    return true;
}

static bool queue_append(struct stream *stream, struct message *message)
{
    if (stream->count == stream->capacity && !queue_grow(stream)) {
        return false;
    }
    stream->queue[(stream->first + stream->count) % stream->capacity] = message_ref(message);
    stream->count++;
    stream->bytes += message->length;
    return true;
}

static void queue_remove_first(struct stream *stream)
{
    message_put(stream->queue[stream->first]);
    stream->first = (stream->first + 1) % stream->capacity;
    stream->count--;
    stream->offset = 0;
}

static void queue_clear(struct stream *stream)
{
    while (stream->count > 0) {
        queue_remove_first(stream);
    }
    stream->bytes = 0;
}

/* So many bytes have left. */
static void queue_advance(struct stream *stream, size_t sent)
{
    stream->bytes -= sent;
    while (sent > 0) {
        size_t left = stream->queue[stream->first]->length - stream->offset;
        if (sent < left) {
            stream->offset += sent;
            return;
        }
        sent -= left;
        queue_remove_first(stream);
    }
}

/* The first that wait, as parts for one call. */
static size_t queue_parts(const struct stream *stream, struct iovec parts[PARTS_MAX])
{
    size_t count = stream->count < PARTS_MAX ? stream->count : PARTS_MAX;

    for (size_t i = 0; i < count; i++) {
        struct message *message = stream->queue[(stream->first + i) % stream->capacity];
        size_t begin = i == 0 ? stream->offset : 0;
        parts[i] = (struct iovec){message->bytes + begin, message->length - begin};
    }
    return count;
}

/* Moves up to `room` bytes to `to`. */
static size_t queue_take(struct stream *stream, char *to, size_t room)
{
    size_t taken = 0;

    while (stream->count > 0 && taken < room) {
        const struct message *message = stream->queue[stream->first];
        size_t part = message->length - stream->offset;
        part = part < room - taken ? part : room - taken;
        memcpy(to + taken, message->bytes + stream->offset, part);
        taken += part;
        queue_advance(stream, part);
    }
    return taken;
}

/* ---- One stream ------------------------------------------------------------------------------ */

/* Lets the connection go on, so that it sends what waits or ends. The lock is held. */
static void wake(struct stream *stream)
{
    if (stream->parked && stream->connection) {
        stream->parked = false;
        MHD_resume_connection(stream->connection);
    }
}

/* Nothing is appended from now on. The lock is held. */
static void finish(struct stream *stream)
{
    stream->ended = true;
    wake(stream);
}

/* The socket of the connection; -1: it is gone. The lock is held. */
static int socket_of(const struct stream *stream)
{
    const union MHD_ConnectionInfo *info =
        stream->connection
            ? MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            : NULL;

    return info ? info->connect_fd : -1;
}

/* The client is gone or too slow, or there is no memory for it. The lock is held. */
static void drop(struct stream *stream)
{
    int fd = socket_of(stream);

    stream->dropped = true;
    queue_clear(stream);
    if (fd >= 0) {
        shutdown(fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
    }
    finish(stream);
}

/* Writes what waits to a connection on which libmicrohttpd has nothing left to send. What the
 * socket does not take, or why it takes nothing any more, is left to libmicrohttpd. The lock is
 * held. */
static void write_queue(struct stream *stream)
{
    while (stream->count > 0) {
        struct iovec parts[PARTS_MAX];
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = queue_parts(stream, parts)};
        ssize_t sent = sendmsg(stream->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return;
        }
        if (sent > 0) {
            queue_advance(stream, (size_t)sent);
            stream->active_us = clock_mono_us();
        }
    }
}

/* Lets what waits leave. The lock is held. */
static void flush(struct stream *stream)
{
    if (stream->parked && stream->connection && stream->fd >= 0) {
        write_queue(stream);
    }
    if (stream->count > 0) {
        wake(stream);
    }
}

bool stream_append(struct stream *stream, struct message *message)
{
    bool appended;
    bool dropped = false;

    pthread_mutex_lock(&stream->mutex);
    if (!stream->ended && (stream->bytes > STREAM_QUEUE_BYTES || !queue_append(stream, message))) {
        drop(stream);
        dropped = true;
    }
    appended = !stream->ended;
    pthread_mutex_unlock(&stream->mutex);
    if (dropped) {
        pthread_mutex_lock(&stream->streams->mutex);
        stream->streams->counts.dropped++;
        pthread_mutex_unlock(&stream->streams->mutex);
    }
    return appended;
}

void stream_flush(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    flush(stream);
    pthread_mutex_unlock(&stream->mutex);
}

bool stream_send(struct stream *stream, struct message *message)
{
    bool sent = stream_append(stream, message);

    if (sent) {
        stream_flush(stream);
    }
    return sent;
}

size_t stream_queued(struct stream *stream)
{
    size_t bytes;

    pthread_mutex_lock(&stream->mutex);
    bytes = stream->bytes;
    pthread_mutex_unlock(&stream->mutex);
    return bytes;
}

void stream_end(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    finish(stream);
    pthread_mutex_unlock(&stream->mutex);
}

void stream_put(struct stream *stream)
{
    if (stream && atomic_fetch_sub(&stream->refs, 1) == 1) {
        queue_clear(stream);
        mem_free(stream->queue);
        pthread_mutex_destroy(&stream->mutex);
        mem_free(stream);
    }
}

/* ---- The connection; the thread of libmicrohttpd --------------------------------------------- */

static ssize_t take_bytes(void *ctx, uint64_t position, char *to, size_t room)
{
    struct stream *stream = ctx;
    bool emptied;
    ssize_t taken;

    (void)position;
    pthread_mutex_lock(&stream->mutex);
    emptied = stream->count > 0;
    if (stream->fd >= 0) {
        write_queue(stream);
    }
    taken = (ssize_t)queue_take(stream, to, room);
    emptied = emptied && stream->count == 0 && !stream->ended;
    if (taken > 0) {
        stream->active_us = clock_mono_us();
    } else if (stream->dropped) {
        taken = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (stream->ended) {
        taken = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->parked = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&stream->mutex);
    if (emptied && stream->hooks.room) {
        stream->hooks.room(stream->hooks.ctx);
    }
    return taken;
}

static void forget(void *ctx)
{
    stream_put(ctx);
}

struct MHD_Response *stream_response(struct exchange *exchange)
{
    struct stream *stream = exchange->stream;
    struct MHD_Response *response;

    atomic_fetch_add(&stream->refs, 1);
    response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, stream->fd >= 0 ? PIECE_BYTES : BLOCK_BYTES, take_bytes, stream, forget);
    if (!response) {
        stream_put(stream);
        return NULL;
    }
    MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, /* no chunks */
                             MHD_RO_END);
    return response;
}

void stream_close(struct exchange *exchange)
{
    struct stream *stream = exchange->stream;
    struct streams *streams = stream->streams;

    pthread_mutex_lock(&streams->mutex);
    *stream->at = stream->next;
    if (stream->next) {
        stream->next->at = stream->at;
    }
    streams->counts.open--;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);

    pthread_mutex_lock(&stream->mutex);
    stream->connection = NULL;
    finish(stream);
    pthread_mutex_unlock(&stream->mutex);
    if (stream->hooks.gone) {
        stream->hooks.gone(stream->hooks.ctx);
    }
    exchange->stream = NULL;
    stream_put(stream);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Why no stream can begin; NULL if one can. The lock is held. */
static const char *find_obstacle(struct streams *streams, const struct peer *address)
{
    size_t same = 0;

    if (streams->draining) {
        return "the server is about to stop";
    }
    if ((size_t)streams->counts.open >= streams->streams_max) {
        return "too many streams are open";
    }
    if (streams->per_address_max == 0) {
        return NULL;
    }
    for (struct stream *stream = streams->first; stream; stream = stream->next) {
        same += memcmp(&stream->address, address, sizeof *address) == 0;
    }
    return same >= streams->per_address_max ? "too many streams of this address are open" : NULL;
}

/* Puts it into the list, or says why not. */
static const char *enlist(struct streams *streams, struct stream *stream)
{
    const char *obstacle;

    pthread_mutex_lock(&streams->mutex);
    obstacle = find_obstacle(streams, &stream->address);
    if (obstacle) {
        streams->counts.refused++;
    } else {
        stream->next = streams->first;
        stream->at = &streams->first;
        if (stream->next) {
            stream->next->at = &stream->next;
        }
        streams->first = stream;
        streams->counts.open++;
        streams->counts.begun++;
    }
    pthread_mutex_unlock(&streams->mutex);
    return obstacle;
}

/* The socket of a connection that others than libmicrohttpd can write to; -1: there is none. */
static int find_socket(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int at_once = 1;

    if (!info || MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)) {
        return -1;
    }
    /* Fails on a socket in the file system, which has no delay. */
    setsockopt(info->connect_fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return info->connect_fd;
}

struct stream *stream_begin(struct exchange *exchange, const struct stream_hooks *hooks)
{
    struct streams *streams = exchange->streams;
    struct stream *stream = mem_calloc(1, sizeof *stream);
    const char *obstacle = "out of memory";

    if (stream && mutex_init(&stream->mutex) == HF_OK) {
        stream->streams = streams;
        atomic_init(&stream->refs, 2); /* of the caller, and of the exchange */
        stream->connection = exchange->connection;
        stream->fd = find_socket(exchange->connection);
        stream->address = peer_of_connection(exchange->connection);
        stream->bearer = exchange->bearer;
        stream->role = exchange->route ? exchange->route->role : ROLE_NONE;
        snprintf(stream->namespace_name, sizeof stream->namespace_name, "%s",
                 exchange->namespace_name);
        stream->hooks = *hooks;
        stream->active_us = clock_mono_us();
        queue_append(stream, streams->greeting);
        obstacle = enlist(streams, stream);
    }
    if (obstacle) {
        if (stream) {
            atomic_store(&stream->refs, 1);
            stream_put(stream);
        }
        answer_header(exchange, "Retry-After", "5");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", obstacle);
        return NULL;
    }
    answer_empty(exchange, MHD_HTTP_OK);
    exchange->content_type = "text/event-stream";
    answer_header(exchange, "Cache-Control", "no-store");
    answer_header(exchange, "X-Accel-Buffering", "no"); /* a proxy passes on what it gets */
    exchange->stream = stream;
    return stream;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Sends a comment if nothing was sent for long, or the client has closed its sending side: one that
 * has closed the whole connection answers it with a reset, which the next look finds. The lock is
 * held. */
static void beat(struct stream *stream, int64_t now_us)
{
    struct pollfd side = {.fd = socket_of(stream), .events = POLLRDHUP};
    bool is_idle = now_us - stream->active_us >= STREAM_BEAT_MS * INT64_C(1000);
    bool has_closed = poll(&side, 1, 0) > 0;

    if (side.revents & (POLLERR | POLLHUP)) {
        drop(stream);
    } else if (stream->count == 0 && (is_idle || (has_closed && !stream->has_closed))) {
        stream->has_closed = has_closed;
        queue_append(stream, stream->streams->beat);
        flush(stream);
    }
}

struct streams *streams_new(size_t streams_max, size_t per_address_max)
{
    struct streams *streams = mem_calloc(1, sizeof *streams);
    char greeting[32];

    if (!streams || mutex_init(&streams->mutex) || cond_init(&streams->changed)) {
        mem_free(streams);
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    snprintf(greeting, sizeof greeting, "retry: %d\n\n", STREAM_RETRY_MS);
    streams->streams_max = streams_max;
    streams->per_address_max = per_address_max;
    streams->greeting = message_of(text_of(greeting));
    streams->beat = message_of(text_of(":\n\n"));
    if (!streams->greeting || !streams->beat) {
        streams_free(streams);
        return NULL;
    }
    return streams;
}

struct stream_counts streams_count(struct streams *streams)
{
    struct stream_counts counts;

    pthread_mutex_lock(&streams->mutex);
    counts = streams->counts;
    pthread_mutex_unlock(&streams->mutex);
    return counts;
}

void streams_check(struct streams *streams, stream_allowed_fn is_allowed, void *ctx)
{
    pthread_mutex_lock(&streams->mutex);
    for (struct stream *stream = streams->first; stream; stream = stream->next) {
        if (!is_allowed(&stream->bearer, stream->role, stream->namespace_name, ctx)) {
            stream_end(stream);
        }
    }
    pthread_mutex_unlock(&streams->mutex);
}

void streams_beat(struct streams *streams, int64_t now_us)
{
    pthread_mutex_lock(&streams->mutex);
    for (struct stream *stream = streams->first; stream; stream = stream->next) {
        pthread_mutex_lock(&stream->mutex);
        if (!stream->ended) {
            beat(stream, now_us);
        }
        pthread_mutex_unlock(&stream->mutex);
    }
    pthread_mutex_unlock(&streams->mutex);
}

void streams_drain(struct streams *streams, int64_t wait_ms)
{
    struct deadline deadline = deadline_after_ms(wait_ms);

    pthread_mutex_lock(&streams->mutex);
    streams->draining = true;
    for (struct stream *stream = streams->first; stream; stream = stream->next) {
        pthread_mutex_lock(&stream->mutex);
        finish(stream);
        pthread_mutex_unlock(&stream->mutex);
    }
    while (streams->counts.open > 0 &&
           cond_wait_until(&streams->changed, &streams->mutex, deadline)) {
    }
    pthread_mutex_unlock(&streams->mutex);
}

void streams_free(struct streams *streams)
{
    if (!streams) {
        return;
    }
    assert(!streams->first);
    message_put(streams->greeting);
    message_put(streams->beat);
    pthread_cond_destroy(&streams->changed);
    pthread_mutex_destroy(&streams->mutex);
    mem_free(streams);
}
