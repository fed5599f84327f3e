/*
 * listener.c - see listener.h.
 *
 * libmicrohttpd calls serve() several times for a request, and the exchange knows in which phase it
 * is:
 *
 *     PHASE_HEAD --(headers)--> PHASE_BODY --(all of the body)--> PHASE_WHOLE --> PHASE_GIVEN
 *          \_________________________\___ refused: too large, no room ___                |
 *                                                                        \--> PHASE_ANSWERED
 *
 * In PHASE_GIVEN the connection is suspended and the exchange is a worker's. PHASE_WHOLE lasts
 * until the next call. When libmicrohttpd resumes a connection that was suspended in the call in
 * which it had read the request, it reads again before it sends the answer, and closes the
 * connection of a client that has closed its sending side behind the request. Suspended in the next
 * call, the connection waits for the answer alone.
 */
#include "server/http/listener.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/http/credentials.h"
#include "server/http/head.h"
#include "server/http/origins.h"
#include "server/http/stream.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES_MAX 20480       /* of a request: its line and headers, and what lists them */
#define HEADERS_BYTES_MAX 4096     /* of an answer */
#define ANSWER_BYTES_MAX 268435456 /* of an answer that is no stream */
#define MEMORY_BYTES 1048576       /* that a route may take besides what is in the body */
#define OWN_CONNECTIONS 2          /* of the server itself, above the limit */
#define BODY_FREE_BYTES 16384      /* of a body, before it is known who sends it */
#define BODIES_FREE_BYTES 8388608  /* of all such bodies together */
#define BODIES_MAX 4               /* how many of the largest bodies there may be at a time */
#define ANSWER_FREE_BYTES 65536    /* answers up to this length are not counted */
#define GUARD_PERIOD_MS 1000       /* between two looks for connections that are too slow */
#define CLOSINGS_MAX 64            /* closed sides of clients that are taken note of at a time */

struct listener {
    struct MHD_Daemon *daemon;
    struct listener_options options;
    pthread_t guard;
    int closings;          /* epoll: clients that have closed their sending side */
    atomic_bool draining;  /* no connection gets another request */
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t woken;
    struct client *clients;
    size_t client_count;             /* without those of the server itself */
    size_t busy;                     /* that have begun a request which is not answered yet */
    struct origins origins;          /* where they are from */
    struct credentials *credentials; /* that new connections get; NULL: no TLS */
    bool stopping;
    /* Of the thread of libmicrohttpd alone: bytes of all bodies, and those of them that callers
     * have sent who are not known yet. */
    size_t body_bytes;
    size_t free_bytes;
    size_t answer_bytes; /* of all long answers that are on their way */
};

/* A connection, for the guard. */
struct client {
    struct client *next;
    struct client **at; /* what points to it */
    struct listener *listener;
    int fd;
    struct credentials *credentials; /* of its session; NULL: no TLS */
    struct peer peer;
    bool is_own;      /* of the server itself (listener_connect): without limits */
    bool is_local;    /* of a socket in the file system, or not counted */
    bool has_begun;   /* a request is on its way in */
    bool has_closed;  /* its sending side: no other byte will come */
    int64_t until_us; /* when a complete request must be there; INT64_MAX: one is being answered */
    int64_t seen_us;  /* until_us when the guard last looked, if has_closed */
};

/* ---- Connections that bring no request ------------------------------------------------------- */

static int64_t request_deadline(const struct listener *listener)
{
    return clock_mono_us() + listener->options.request_ms * 1000;
}

/* Whether a connection is taken at all. */
static enum MHD_Result admit(void *ctx, const struct sockaddr *address, socklen_t bytes)
{
    struct listener *listener = ctx;
    const struct listener_options *options = &listener->options;
    struct peer peer = peer_of(address);
    bool is_taken;

    (void)bytes;
    if (address->sa_family == AF_UNSPEC) {
        return MHD_YES; /* listener_connect */
    }
    pthread_mutex_lock(&listener->mutex);
    is_taken = listener->client_count < options->connections_max &&
               (address->sa_family == AF_UNIX || options->per_address_max == 0 ||
                origins_count(&listener->origins, &peer) < options->per_address_max);
    pthread_mutex_unlock(&listener->mutex);
    return is_taken ? MHD_YES : MHD_NO;
}

/* The handshake has not begun yet. The credentials that libmicrohttpd has given to the session are
 * those of the start, which may have been renewed meanwhile. */
static bool take_credentials(struct client *client, struct MHD_Connection *connection)
{
    struct listener *listener = client->listener;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!info) {
        return true; /* no TLS */
    }
    pthread_mutex_lock(&listener->mutex);
    client->credentials = credentials_take(listener->credentials);
    pthread_mutex_unlock(&listener->mutex);
    return credentials_use(client->credentials, info->tls_session);
}

/* Without it the client has until the end of its time for a request. */
static void watch_closing(struct client *client)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = client};

    epoll_ctl(client->listener->closings, EPOLL_CTL_ADD, client->fd, &event);
}

static void add_client(struct listener *listener, struct MHD_Connection *connection,
                       void **ret_client)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct client *client = info ? mem_calloc(1, sizeof *client) : NULL;

    *ret_client = client;
    if (!client) {
        if (info && listener->options.certificate) {
            shutdown(info->connect_fd, SHUT_RDWR); /* its certificate may be an old one */
        }
        return; /* it is bounded by the timeout of libmicrohttpd alone */
    }
    client->listener = listener;
    client->fd = info->connect_fd;
    client->peer = peer_of_connection(connection);
    client->is_own = address && address->client_addr->sa_family == AF_UNSPEC;
    client->is_local = !address || address->client_addr->sa_family == AF_UNIX;
    client->until_us = client->is_own ? INT64_MAX : request_deadline(listener);
    if (!take_credentials(client, connection)) {
        shutdown(client->fd, SHUT_RDWR);
    }
    if (client->is_own) {
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    }
    watch_closing(client);
    pthread_mutex_lock(&listener->mutex);
    client->next = listener->clients;
    client->at = &listener->clients;
    if (client->next) {
        client->next->at = &client->next;
    }
    listener->clients = client;
    listener->client_count += !client->is_own;
    if (!client->is_own && !client->is_local && !origins_add(&listener->origins, &client->peer)) {
        client->is_local = true;
    }
    pthread_mutex_unlock(&listener->mutex);
}

/* A request of the client has begun, or has been answered. The mutex is held. */
static void note_request(struct client *client, bool has_begun)
{
    struct listener *listener = client->listener;

    if (client->has_begun != has_begun) {
        client->has_begun = has_begun;
        listener->busy += has_begun ? 1 : SIZE_MAX;
        if (listener->busy == 0 && atomic_load(&listener->draining)) {
            pthread_cond_broadcast(&listener->woken);
        }
    }
}

static void remove_client(struct client *client)
{
    struct listener *listener = client->listener;

    pthread_mutex_lock(&listener->mutex);
    epoll_ctl(listener->closings, EPOLL_CTL_DEL, client->fd, NULL); /* it is not closed yet */
    *client->at = client->next;
    if (client->next) {
        client->next->at = client->at;
    }
    listener->client_count -= !client->is_own;
    note_request(client, false);
    if (!client->is_own && !client->is_local) {
        origins_remove(&listener->origins, &client->peer);
    }
    pthread_mutex_unlock(&listener->mutex);
    credentials_put(client->credentials); /* the session has ended */
    mem_free(client);
}

static void see_connection(void *ctx, struct MHD_Connection *connection, void **client,
                           enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        add_client(ctx, connection, client);
    } else if (*client) {
        remove_client(*client);
    }
}

/* Notes how far the connection is with its request, and until when it must have brought one. */
static void set_deadline(struct MHD_Connection *connection, bool has_begun, int64_t until_us)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct client *client = info ? info->socket_context : NULL;

    if (client) {
        pthread_mutex_lock(&client->listener->mutex);
        note_request(client, has_begun);
        if (until_us != 0 && !client->is_own) {
            client->until_us = until_us;
        }
        pthread_mutex_unlock(&client->listener->mutex);
    }
}

/* Takes note of the clients that have closed their sending side. The mutex is held, so that they
 * are not freed meanwhile. */
static void note_closings(struct listener *listener)
{
    struct epoll_event events[CLOSINGS_MAX];
    int count;

    do {
        count = epoll_wait(listener->closings, events, CLOSINGS_MAX, 0);
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            client->has_closed = true;
        }
    } while (count == CLOSINGS_MAX);
}

/* Whether a client that sends no more has left a request half, or has had all its answers.
 * libmicrohttpd does not notice a closing that came together with the last bytes. The client is
 * looked at twice, because what was read may be a whole request that is not taken up yet. */
static bool has_left(struct client *client)
{
    int64_t seen_us = client->seen_us;
    int unread = 0;

    if (!client->has_closed) {
        return false;
    }
    client->seen_us = client->until_us;
    return client->until_us != INT64_MAX && client->until_us == seen_us &&
           ioctl(client->fd, FIONREAD, &unread) == 0 && unread == 0;
}

static void *guard_clients(void *ctx)
{
    struct listener *listener = ctx;

    pthread_mutex_lock(&listener->mutex);
    while (!listener->stopping) {
        int64_t now_us = clock_mono_us();
        note_closings(listener);
        for (struct client *client = listener->clients; client; client = client->next) {
            if (client->until_us <= now_us || has_left(client)) {
                shutdown(client->fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
            }
        }
        pthread_mutex_unlock(&listener->mutex);
        listener->options.look(listener->options.server);
        streams_beat(listener->options.streams, now_us);
        pthread_mutex_lock(&listener->mutex);
        if (listener->stopping) {
            break;
        }
        cond_wait_until(&listener->woken, &listener->mutex, deadline_after_ms(GUARD_PERIOD_MS));
    }
    pthread_mutex_unlock(&listener->mutex);
    return NULL;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* The first that is known of a request: its line. */
static void *begin(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct listener *listener = ctx;
    struct exchange *exchange = mem_calloc(1, sizeof *exchange);

    set_deadline(connection, true, 0);
    if (!exchange) {
        return NULL;
    }
    exchange->server = listener->options.server;
    exchange->listener = listener;
    exchange->streams = listener->options.streams;
    exchange->connection = connection;
    exchange->path = mem_dup(uri, strcspn(uri, "?"));
    head_see_target(exchange, (char *)(uintptr_t)uri); /* it is in the memory of the connection */
    arena_init(&exchange->memory, listener->options.body_bytes_max * 2 + MEMORY_BYTES);
    buf_init(&exchange->body, listener->options.body_bytes_max);
    buf_init(&exchange->answer, ANSWER_BYTES_MAX);
    buf_init(&exchange->headers, HEADERS_BYTES_MAX);
    return exchange;
}

static void end(void *ctx, struct MHD_Connection *connection, void **request,
                enum MHD_RequestTerminationCode why)
{
    struct listener *listener = ctx;
    struct exchange *exchange = *request;

    (void)why;
    set_deadline(connection, false, request_deadline(listener));
    if (!exchange) {
        return;
    }
    if (exchange->stream) {
        stream_close(exchange);
    }
    listener->body_bytes -= exchange->body.length;
    listener->free_bytes -= exchange->free_bytes;
    listener->answer_bytes -= exchange->sent_bytes;
    mem_free(exchange->parts);
    arena_release(&exchange->memory);
    buf_release(&exchange->body);
    buf_release(&exchange->answer);
    buf_release(&exchange->headers);
    mem_free(exchange->path);
    mem_free(exchange);
    *request = NULL;
}

static void free_answer(void *bytes)
{
    mem_free(bytes);
}

/* Counts a long answer, which stays in memory until its client has read it. If the others take too
 * much already, the client has to ask again. What a request has changed is told in any case. */
static void count_answer(struct exchange *exchange)
{
    struct listener *listener = exchange->listener;
    size_t most = listener->options.body_bytes_max * BODIES_MAX;

    if (exchange->answer.length <= ANSWER_FREE_BYTES) {
        return;
    }
    if (listener->answer_bytes > most && strcmp(exchange->method, "GET") == 0) {
        buf_release(&exchange->answer);
        answer_header(exchange, "Retry-After", "1");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "too many clients have long answers to read");
        return;
    }
    exchange->sent_bytes = exchange->answer.length;
    listener->answer_bytes += exchange->sent_bytes;
}

static struct MHD_Response *make_response(struct exchange *exchange)
{
    size_t length;
    char *bytes;
    struct MHD_Response *response;

    if (exchange->answer.failed) {
        answer_problem(exchange, MHD_HTTP_INTERNAL_SERVER_ERROR, "the answer is too large");
    }
    count_answer(exchange);
    length = exchange->answer.length;
    bytes = exchange->answer.length ? buf_detach(&exchange->answer, &length) : NULL;
    response = MHD_create_response_from_buffer_with_free_callback_cls(bytes ? length : 0, bytes,
                                                                      free_answer, bytes);
    if (!response) {
        mem_free(bytes);
    }
    return response;
}

/* Adds those that the answer was given by answer_header. False: there was no memory for them. */
static bool add_headers(const struct exchange *exchange, struct MHD_Response *response)
{
    const char *at = exchange->headers.bytes;
    const char *end = at ? at + exchange->headers.length : NULL;

    while (at < end) {
        const char *value = at + strlen(at) + 1;
        MHD_add_response_header(response, at, value);
        at = value + strlen(value) + 1;
    }
    return !exchange->headers.failed;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
    struct MHD_Response *response =
        exchange->stream ? stream_response(exchange) : make_response(exchange);
    enum MHD_Result sent = MHD_NO;

    if (!response) {
        return MHD_NO;
    }
    if (exchange->content_type) {
        MHD_add_response_header(response, "Content-Type", exchange->content_type);
    }
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (atomic_load(&exchange->listener->draining)) {
        MHD_add_response_header(response, "Connection", "close");
    }
    if (add_headers(exchange, response)) {
        sent = MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    }
    MHD_destroy_response(response);
    buf_release(&exchange->headers);
    return sent;
}

/* Answers a request that no worker gets. */
static enum MHD_Result refuse(struct exchange *exchange)
{
    exchange->listener->options.record(exchange);
    return send_answer(exchange);
}

/* The headers are there. */
static enum MHD_Result take_head(struct exchange *exchange, const char *method, const char *version)
{
    const struct listener *listener = exchange->listener;
    size_t bytes_max = exchange->body.bytes_max;
    const char *header = exchange_header(exchange, "Content-Length");
    uint64_t length = header ? strtoull(header, NULL, 10) : 0;

    exchange->method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    exchange->phase = PHASE_BODY;
    if (!exchange->path) {
        return MHD_NO;
    }
    if (!head_check(exchange, method, version)) {
        return refuse(exchange);
    }
    if (length > bytes_max) {
        answer_problem(exchange, MHD_HTTP_CONTENT_TOO_LARGE,
                       "the body is %s bytes; the limit is %zu", header, bytes_max);
        return refuse(exchange);
    }
    if (length > BODY_FREE_BYTES && !listener->options.admit(exchange)) {
        return refuse(exchange);
    }
    if (listener->body_bytes + length > bytes_max * BODIES_MAX) {
        answer_header(exchange, "Retry-After", "1");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "too many large bodies come in");
        return refuse(exchange);
    }
    return MHD_YES;
}

/* A part of the body. A request that lies about its length, or whose caller is not known and sends
 * more than a little, gets no answer: there is no place for one before the end of its body. */
static enum MHD_Result take_body(struct exchange *exchange, const char *bytes, size_t count)
{
    struct listener *listener = exchange->listener;
    bool is_free = exchange->body.length + count <= BODY_FREE_BYTES &&
                   listener->free_bytes + count <= BODIES_FREE_BYTES;

    if (!exchange->admitted && !is_free) {
        if (!listener->options.admit(exchange)) {
            listener->options.record(exchange);
            return MHD_NO;
        }
        listener->free_bytes -= exchange->free_bytes;
        exchange->free_bytes = 0;
    }
    if (listener->body_bytes + count > listener->options.body_bytes_max * BODIES_MAX) {
        return MHD_NO;
    }
    buf_append(&exchange->body, bytes, count);
    if (exchange->body.failed) {
        return MHD_NO;
    }
    listener->body_bytes += count;
    if (!exchange->admitted) {
        listener->free_bytes += count;
        exchange->free_bytes += count;
    }
    return MHD_YES;
}

/* All of the request is there. */
static enum MHD_Result take_end(struct exchange *exchange)
{
    set_deadline(exchange->connection, true, INT64_MAX);
    exchange->phase = PHASE_WHOLE;
    return MHD_YES;
}

/* A worker's turn. The connection is suspended first, because the answer may come before this
 * returns. */
static enum MHD_Result give(struct exchange *exchange)
{
    struct listener *listener = exchange->listener;

    exchange->phase = PHASE_GIVEN;
    MHD_suspend_connection(exchange->connection);
    if (!listener->options.give(exchange)) {
        answer_header(exchange, "Retry-After", "1");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "too many requests wait to be answered");
        listener->options.record(exchange);
        listener_answer(exchange);
    }
    return MHD_YES;
}

static enum MHD_Result serve(void *ctx, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_bytes, void **request)
{
    struct exchange *exchange = *request;
    size_t count;

    (void)ctx;
    (void)connection;
    (void)url;
    if (!exchange) {
        return MHD_NO;
    }
    switch (exchange->phase) {
    case PHASE_HEAD:
        return take_head(exchange, method, version);
    case PHASE_BODY:
        if (*upload_bytes == 0) {
            return take_end(exchange);
        }
        count = *upload_bytes;
        *upload_bytes = 0;
        return take_body(exchange, upload, count);
    case PHASE_WHOLE:
        return give(exchange);
    case PHASE_GIVEN:
        return MHD_YES;
    case PHASE_ANSWERED:
        break;
    }
    return send_answer(exchange);
}

void listener_answer(struct exchange *exchange)
{
    exchange->phase = PHASE_ANSWERED;
    MHD_resume_connection(exchange->connection);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static struct MHD_Daemon *start_daemon(struct listener *listener)
{
    const struct listener_options *options = &listener->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     (options->certificate ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)options->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!options->certificate) {
        tls[0] = tls[2];
    }
    return MHD_start_daemon(
        flags, 0, admit, listener, serve, listener, MHD_OPTION_LISTEN_SOCKET, options->socket,
        MHD_OPTION_URI_LOG_CALLBACK, begin, listener, MHD_OPTION_NOTIFY_COMPLETED, end, listener,
        MHD_OPTION_NOTIFY_CONNECTION, see_connection, listener, MHD_OPTION_CONNECTION_LIMIT,
        options->connections_max + OWN_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(options->request_ms / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEAD_BYTES_MAX, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

/* Makes what the guard and the connections need, and starts it. False after a failure. */
static bool start_guard(struct listener *listener)
{
    const struct listener_options *options = &listener->options;

    if (options->certificate &&
        credentials_new(options->certificate, options->key, &listener->credentials)) {
        return false;
    }
    listener->closings = epoll_create1(EPOLL_CLOEXEC);
    if (listener->closings < 0) {
        fail(HF_UNAVAILABLE, "the HTTP server does not start: %s", strerror(errno));
        return false;
    }
    if (mutex_init(&listener->mutex) || cond_init(&listener->woken) ||
        thread_start(&listener->guard, "hf-http-guard", guard_clients, listener)) {
        close(listener->closings);
        return false;
    }
    return true;
}

struct listener *listener_start(const struct listener_options *options)
{
    struct listener *listener = mem_calloc(1, sizeof *listener);

    if (!listener) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    listener->options = *options;
    if (!start_guard(listener)) {
        credentials_put(listener->credentials);
        mem_free(listener);
        return NULL;
    }
    listener->daemon = start_daemon(listener);
    if (!listener->daemon) {
        fail(HF_UNAVAILABLE, "the HTTP server does not start: %s", strerror(errno));
        listener_stop(listener);
        return NULL;
    }
    return listener;
}

hf_status listener_renew(struct listener *listener, const char *certificate, const char *key)
{
    struct credentials *renewed;
    struct credentials *before;
    hf_status status = credentials_new(certificate, key, &renewed);

    if (status) {
        return status;
    }
    pthread_mutex_lock(&listener->mutex);
    before = listener->credentials;
    listener->credentials = renewed;
    pthread_mutex_unlock(&listener->mutex);
    credentials_put(before);
    return HF_OK;
}

int listener_connect(struct listener *listener)
{
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    /* It closes its end also if it fails. */
    if (MHD_add_connection(listener->daemon, ends[1], &nowhere, sizeof nowhere) != MHD_YES) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

void listener_quiesce(struct listener *listener)
{
    int fd = MHD_quiesce_daemon(listener->daemon);

    if (fd >= 0) {
        close(fd);
    }
    atomic_store(&listener->draining, true);
}

bool listener_drain(struct listener *listener, int64_t wait_ms)
{
    struct deadline deadline = deadline_after_ms(wait_ms);
    bool is_idle;

    pthread_mutex_lock(&listener->mutex);
    while (listener->busy > 0 && cond_wait_until(&listener->woken, &listener->mutex, deadline)) {
    }
    is_idle = listener->busy == 0;
    pthread_mutex_unlock(&listener->mutex);
    return is_idle;
}

void listener_stop(struct listener *listener)
{
    if (!listener) {
        return;
    }
    if (listener->daemon) {
        MHD_stop_daemon(listener->daemon);
    }
    pthread_mutex_lock(&listener->mutex);
    listener->stopping = true;
    pthread_cond_broadcast(&listener->woken);
    pthread_mutex_unlock(&listener->mutex);
    pthread_join(listener->guard, NULL);
    close(listener->closings);
    pthread_cond_destroy(&listener->woken);
    pthread_mutex_destroy(&listener->mutex);
    credentials_put(listener->credentials);
    mem_free(listener);
}
