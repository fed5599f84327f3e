/*
 * listener.c - see listener.h.
 *
 * libmicrohttpd calls serve() several times for a request, and the exchange knows in which phase it
 * is:
 *
 *     PHASE_HEAD --(headers)--> PHASE_BODY --(all of the body)--> PHASE_GIVEN --> PHASE_ANSWERED
 *          \_________________________\____ refused: too large, no room _____________/
 *
 * In PHASE_GIVEN the connection is suspended and the exchange is a worker's.
 */
#include "server/http/listener.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/http/router.h"
#include "server/http/stream.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_BYTES_MAX 32768       /* of a request: its line and headers */
#define ANSWER_BYTES_MAX 268435456 /* of an answer that is no stream */
#define MEMORY_BYTES 1048576       /* that a route may take besides what is in the body */
#define GUARD_PERIOD_MS 1000       /* between two looks for connections that are too slow */

struct listener {
    struct MHD_Daemon *daemon;
    struct listener_options options;
    pthread_t guard;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t woken;
    struct client *clients;
    bool stopping;
};

/* A connection, for the guard. */
struct client {
    struct client *next;
    struct client **at; /* what points to it */
    struct listener *listener;
    int fd;
    int64_t until_us; /* when a complete request must be there; INT64_MAX: one is being answered */
};

/* ---- Connections that are too slow ----------------------------------------------------------- */

static int64_t request_deadline(const struct listener *listener)
{
    return clock_mono_us() + listener->options.request_ms * 1000;
}

static void add_client(struct listener *listener, struct MHD_Connection *connection,
                       void **ret_client)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct client *client = info ? mem_calloc(1, sizeof *client) : NULL;

    *ret_client = client;
    if (!client) {
        return; /* it is bounded by the timeout of libmicrohttpd alone */
    }
    client->listener = listener;
    client->fd = info->connect_fd;
    client->until_us = request_deadline(listener);
    pthread_mutex_lock(&listener->mutex);
    client->next = listener->clients;
    client->at = &listener->clients;
    if (client->next) {
        client->next->at = &client->next;
    }
    listener->clients = client;
    pthread_mutex_unlock(&listener->mutex);
}

static void remove_client(struct client *client)
{
    pthread_mutex_lock(&client->listener->mutex);
    *client->at = client->next;
    if (client->next) {
        client->next->at = client->at;
    }
    pthread_mutex_unlock(&client->listener->mutex);
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

/* Until when the connection must have brought a request. */
static void set_deadline(struct MHD_Connection *connection, int64_t until_us)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct client *client = info ? info->socket_context : NULL;

    if (client) {
        pthread_mutex_lock(&client->listener->mutex);
        client->until_us = until_us;
        pthread_mutex_unlock(&client->listener->mutex);
    }
}

static void *guard_clients(void *ctx)
{
    struct listener *listener = ctx;

    pthread_mutex_lock(&listener->mutex);
    while (!listener->stopping) {
        int64_t now_us = clock_mono_us();
        for (struct client *client = listener->clients; client; client = client->next) {
            if (client->until_us <= now_us) {
                shutdown(client->fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
            }
        }
        pthread_mutex_unlock(&listener->mutex);
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

    if (!exchange) {
        return NULL;
    }
    exchange->server = listener->options.server;
    exchange->listener = listener;
    exchange->streams = listener->options.streams;
    exchange->connection = connection;
    exchange->path = mem_dup(uri, strcspn(uri, "?"));
    arena_init(&exchange->memory, listener->options.body_bytes_max * 2 + MEMORY_BYTES);
    buf_init(&exchange->body, listener->options.body_bytes_max);
    buf_init(&exchange->answer, ANSWER_BYTES_MAX);
    return exchange;
}

static void end(void *ctx, struct MHD_Connection *connection, void **request,
                enum MHD_RequestTerminationCode why)
{
    struct listener *listener = ctx;
    struct exchange *exchange = *request;

    (void)why;
    set_deadline(connection, request_deadline(listener));
    if (!exchange) {
        return;
    }
    if (exchange->stream) {
        stream_close(exchange);
    }
    router_release(exchange);
    arena_release(&exchange->memory);
    buf_release(&exchange->body);
    buf_release(&exchange->answer);
    mem_free(exchange->path);
    mem_free(exchange);
    *request = NULL;
}

static void free_answer(void *bytes)
{
    mem_free(bytes);
}

static struct MHD_Response *make_response(struct exchange *exchange)
{
    size_t length = exchange->answer.length;
    char *bytes;
    struct MHD_Response *response;

    if (exchange->answer.failed) {
        answer_problem(exchange, MHD_HTTP_INTERNAL_SERVER_ERROR, "the answer is too large");
    }
    bytes = exchange->answer.length ? buf_detach(&exchange->answer, &length) : NULL;
    response = MHD_create_response_from_buffer_with_free_callback_cls(bytes ? length : 0, bytes,
                                                                      free_answer, bytes);
    if (!response) {
        mem_free(bytes);
    }
    return response;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
    struct MHD_Response *response =
        exchange->stream ? stream_response(exchange) : make_response(exchange);
    enum MHD_Result sent;

    if (!response) {
        return MHD_NO;
    }
    if (exchange->content_type) {
        MHD_add_response_header(response, "Content-Type", exchange->content_type);
    }
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < exchange->header_count; i++) {
        MHD_add_response_header(response, exchange->headers[i].name, exchange->headers[i].value);
    }
    sent = MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    return sent;
}

/* The headers are there. */
static enum MHD_Result take_head(struct exchange *exchange, const char *method)
{
    size_t bytes_max = exchange->body.bytes_max;
    const char *length = exchange_header(exchange, "Content-Length");

    exchange->method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    exchange->phase = PHASE_BODY;
    if (!exchange->path) {
        return MHD_NO;
    }
    if (length && strtoull(length, NULL, 10) > bytes_max) {
        answer_problem(exchange, MHD_HTTP_CONTENT_TOO_LARGE,
                       "the body is %s bytes; the limit is %zu", length, bytes_max);
        return send_answer(exchange);
    }
    return MHD_YES;
}

/* All of the request is there: a worker's turn. The connection is suspended first, because the
 * answer may come before this returns. */
static enum MHD_Result give(struct exchange *exchange)
{
    struct listener *listener = exchange->listener;

    set_deadline(exchange->connection, INT64_MAX);
    exchange->phase = PHASE_GIVEN;
    MHD_suspend_connection(exchange->connection);
    if (!listener->options.give(exchange)) {
        answer_header(exchange, "Retry-After", "1");
        answer_problem(exchange, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "too many requests wait to be answered");
        listener_answer(exchange);
    }
    return MHD_YES;
}

static enum MHD_Result serve(void *ctx, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_bytes, void **request)
{
    struct exchange *exchange = *request;

    (void)ctx;
    (void)connection;
    (void)url;
    (void)version;
    if (!exchange) {
        return MHD_NO;
    }
    switch (exchange->phase) {
    case PHASE_HEAD:
        return take_head(exchange, method);
    case PHASE_BODY:
        if (*upload_bytes == 0) {
            return give(exchange);
        }
        buf_append(&exchange->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return exchange->body.failed ? MHD_NO : MHD_YES; /* it has lied about its length */
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
        flags, 0, NULL, NULL, serve, listener, MHD_OPTION_LISTEN_SOCKET, options->socket,
        MHD_OPTION_URI_LOG_CALLBACK, begin, listener, MHD_OPTION_NOTIFY_COMPLETED, end, listener,
        MHD_OPTION_NOTIFY_CONNECTION, see_connection, listener, MHD_OPTION_CONNECTION_LIMIT,
        options->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->per_address_max,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(options->request_ms / 1000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
}

struct listener *listener_start(const struct listener_options *options)
{
    struct listener *listener = mem_calloc(1, sizeof *listener);

    if (!listener) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    listener->options = *options;
    if (mutex_init(&listener->mutex) || cond_init(&listener->woken) ||
        thread_start(&listener->guard, "hf-http-guard", guard_clients, listener)) {
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

void listener_quiesce(struct listener *listener)
{
    int fd = MHD_quiesce_daemon(listener->daemon);

    if (fd >= 0) {
        close(fd);
    }
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
    pthread_cond_destroy(&listener->woken);
    pthread_mutex_destroy(&listener->mutex);
    mem_free(listener);
}

/* ---- The socket ------------------------------------------------------------------------------ */

#define BACKLOG 511
#define HOST_BYTES 256

static hf_status listen_on(const struct sockaddr *address, socklen_t bytes, const char *text,
                           int *ret_socket)
{
    int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && address->sa_family != AF_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (fd < 0 || bind(fd, address, bytes) || listen(fd, BACKLOG)) {
        hf_status status = fail(errno == EACCES ? HF_DENIED : HF_UNAVAILABLE,
                                "cannot listen on %s: %s", text, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *ret_socket = fd;
    return HF_OK;
}

static hf_status listen_on_path(const char *path, const char *text, int *ret_socket)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof address.sun_path) {
        return fail(HF_INVALID, "the path of %s is too long; the limit is %zu bytes", text,
                    sizeof address.sun_path - 1);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return listen_on((struct sockaddr *)&address, sizeof address, text, ret_socket);
}

/* "127.0.0.1:7070" and "[::1]:7070" in two. False: it is no address. */
static bool split(const char *address, char ret_host[HOST_BYTES], const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;

    if (length == 0 || length >= HOST_BYTES || !colon[1]) {
        return false;
    }
    if (address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    } else if (memchr(address, ':', length)) {
        return false;
    }
    snprintf(ret_host, HOST_BYTES, "%.*s", (int)length, address);
    *ret_port = colon + 1;
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family == AF_INET) {
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

hf_status listener_socket(const char *address, int *ret_socket, bool *ret_loopback)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[HOST_BYTES];
    const char *port;
    hf_status status;
    int error;

    if (strncmp(address, "unix:", 5) == 0) {
        *ret_loopback = true;
        return listen_on_path(address + 5, address, ret_socket);
    }
    if (!split(address, host, &port)) {
        return fail(HF_INVALID,
                    "'%s' is no address to listen on: HOST:PORT, [IPV6]:PORT or unix:PATH",
                    address);
    }
    error = getaddrinfo(host, port, &hints, &found);
    if (error) {
        return fail(HF_INVALID, "cannot listen on %s: %s", address, gai_strerror(error));
    }
    *ret_loopback = is_loopback(found->ai_addr);
    status = listen_on(found->ai_addr, found->ai_addrlen, address, ret_socket);
    freeaddrinfo(found);
    return status;
}

const char *listener_name(int socket, const char *address, char ret_name[LISTENER_NAME_BYTES])
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char port[16] = "";
    const char *colon = strrchr(address, ':');

    if (getsockname(socket, (struct sockaddr *)&bound, &bytes) == 0 && bound.ss_family != AF_UNIX &&
        colon) {
        getnameinfo((struct sockaddr *)&bound, bytes, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    }
    if (port[0]) {
        snprintf(ret_name, LISTENER_NAME_BYTES, "%.*s:%s", (int)(colon - address), address, port);
    } else {
        snprintf(ret_name, LISTENER_NAME_BYTES, "%s", address);
    }
    return ret_name;
}
