/*
 * server.c - see server.h.
 */
#include "server/server.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "base/time/deadline.h"
#include "server/http/router.h"
#include "server/page/page.h"

#include <microhttpd.h>
#include <poll.h>

#define AT_ONCE_MAX 256     /* publishes that the bus answers; more wait in workers */
#define AT_ONCE_BYTES 16384 /* of their bodies */
#define AT_ONCE_STEP_MS 5   /* between two looks whether they are answered */
#define QUEUE_MAX 4096      /* requests that wait for a worker */
#define WATCH_PART 2        /* of the threads: one in so many may wait for events */
#define LONG_PART 4         /* and one in so many may work for long */
#define LOOK_MS 60000       /* between two looks whether streams may go on ... */
#define AGAIN_MS 2000       /* ... and after one that something has changed for */
#define STREAMS_MS 1000     /* for clients of streams to take what was sent to them */
#define ANSWERS_MS 5000     /* for clients to take their answers, when all are made */

/* ---- Waiting --------------------------------------------------------------------------------- */

static bool is_closed(const struct exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd socket = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};

    return poll(&socket, 1, 0) > 0;
}

void exchange_begins_wait(struct exchange *exchange, int64_t wait_ms)
{
    exchange->wait.until_us = clock_mono_us() + wait_ms * 1000;
    exchange->wait.half_closed = is_closed(exchange);
}

bool exchange_is_left(const struct exchange *exchange)
{
    return (!exchange->wait.half_closed && is_closed(exchange)) ||
           !access_goes_on(&exchange->server->access, &exchange->bearer, exchange->route->role,
                           exchange->namespace_name);
}

bool exchange_watch(struct exchange *exchange, const char *awaited)
{
    return waits_watch(exchange->server->waits, exchange, awaited);
}

void exchange_park(struct exchange *exchange, void (*run_out)(struct exchange *))
{
    exchange->wait.parks = true;
    exchange->wait.run_out = run_out;
}

bool exchange_begins_long(struct exchange *exchange)
{
    struct server *server = exchange->server;

    if (atomic_load(&server->stopping)) {
        return false;
    }
    if (atomic_fetch_add(&server->long_ones, 1) >= server->options->threads / LONG_PART) {
        atomic_fetch_sub(&server->long_ones, 1);
        return false;
    }
    return true;
}

void exchange_ends_long(struct exchange *exchange)
{
    atomic_fetch_sub(&exchange->server->long_ones, 1);
}

bool exchange_has_own_bus(const struct exchange *exchange)
{
    return exchange->bus == buses_own(exchange->server->buses);
}

bool exchange_let_go_of(struct exchange *exchange, const char *namespace_name)
{
    return buses_let_go_of(exchange->server->buses, namespace_name);
}

bool exchange_is_stopping(const struct exchange *exchange)
{
    return atomic_load(&exchange->server->stopping);
}

struct sampler *sampler_of(struct exchange *exchange)
{
    return exchange->server->sampler;
}

struct followers *followers_of(struct exchange *exchange)
{
    return exchange->server->followers;
}

/* ---- One request ----------------------------------------------------------------------------- */

/* Opens what the route works with, and runs it. */
static void run_route(struct exchange *exchange)
{
    struct server *server = exchange->server;
    hf_status status = buses_get(server->buses, exchange->namespace_name, &exchange->bus);

    if (status) {
        answer_failure(exchange, status);
        return;
    }
    exchange->route->run(exchange);
    buses_put(server->buses, exchange->bus);
}

static void run_global(struct exchange *exchange)
{
    exchange->bus = buses_whole(exchange->server->buses);
    exchange->route->run(exchange);
}

/* A request for the page, and not for the API. */
static bool answer_page(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct page_facts facts = {
        .namespace_name = buses_own_name(server->buses),
        .url = server->options->url,
        .secure = server->options->certificate != NULL,
    };

    exchange->bus = buses_whole(server->buses);
    return page_answer(exchange, &server->access, &facts);
}

/* Finds the route. False after a refusal: there is none, or the caller may not use it. */
static bool admit(struct exchange *exchange)
{
    exchange->admitted =
        router_find(exchange) &&
        access_check_role(&exchange->server->access, exchange, exchange->route->role,
                          exchange->route->scope == SCOPE_DATABASE ? NULL
                                                                   : exchange->namespace_name);
    return exchange->admitted;
}

/* Before a large body is taken, so that a stranger cannot fill the memory. */
static bool admit_body(struct exchange *exchange)
{
    if (!access_check_source(&exchange->server->access, exchange)) {
        return false;
    }
    if (strncmp(exchange->path, "/v1/", 4) == 0 && !admit(exchange)) {
        return false;
    }
    if (!exchange->route || !exchange->route->body[0]) {
        return answer_problem(exchange, MHD_HTTP_CONTENT_TOO_LARGE,
                              "this path takes no body as large as that");
    }
    return true;
}

/* A request of a monitoring system, which may see one namespace. */
static bool answer_metrics(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct metrics_source source = {
        .probes = &server->probes,
        .url = server->options->url,
        .started_at_us = server->started_at_us,
        .requests = server->requests,
    };
    const char *name = buses_own_name(server->buses);
    hf_status status;

    if (!metrics_wanted(exchange)) {
        return false;
    }
    if (!metrics_namespace(exchange, &name) ||
        !access_check_role(&server->access, exchange, ROLE_VIEWER, name)) {
        return true;
    }
    exchange->namespace_name = name;
    status = buses_get(server->buses, name, &exchange->bus);
    if (status) {
        answer_failure(exchange, status);
        return true;
    }
    metrics_answer(exchange, &source);
    buses_put(server->buses, exchange->bus);
    return true;
}

/* The answer is ready to be sent. */
static void finish(struct exchange *exchange)
{
    size_t first_digit = (size_t)(exchange->status / 100) % METRICS_DIGITS;

    atomic_fetch_add_explicit(&exchange->server->requests[first_digit], 1, memory_order_relaxed);
    listener_answer(exchange);
}

static void answer(struct exchange *exchange)
{
    struct server *server = exchange->server;
    const struct access *access = &server->access;

    if (probes_answer_ready(&server->probes, buses_own(server->buses), exchange)) {
        finish(exchange);
        return;
    }
    if (exchange->admitted || (access_check_source(access, exchange) && !answer_metrics(exchange) &&
                               !answer_page(exchange) && admit(exchange))) {
        bool global = exchange->route->scope == SCOPE_DATABASE;
        if (exchange->route->body[0] || exchange_has_no_body(exchange)) {
            (global ? run_global : run_route)(exchange);
        }
        if (exchange->wait.parks) {
            waits_park(server->waits, exchange);
            return;
        }
        router_check_asked(exchange);
    }
    waits_end(server->waits, exchange);
    audit_record(server->audit, exchange);
    finish(exchange);
}

/* A request that was parked, and for which nothing has come. */
static void run_out(struct exchange *exchange)
{
    exchange->wait.run_out(exchange);
    audit_record(exchange->server->audit, exchange);
    finish(exchange);
}

static bool give_again(struct exchange *exchange)
{
    return workers_give(exchange->server->workers, exchange);
}

/* ---- Publishing without a worker ------------------------------------------------------------- */

/* A worker that publishes would sleep until the commit, and be woken twice for each event. The bus
 * has a thread that appends what waits and knows whom to tell. So a single event goes to it from
 * the thread of libmicrohttpd, which must not wait: neither for room in the queue of the bus, of
 * which AT_ONCE_MAX is a part, nor for a file of the audit. */

static void end_at_once(struct exchange *exchange)
{
    struct server *server = exchange->server;

    router_check_asked(exchange);
    finish(exchange);
    atomic_fetch_sub(&server->at_once, 1);
}

/* Whether it may be such a request, as far as its line and its length tell. */
static bool is_for_at_once(const struct server *server, const struct exchange *exchange)
{
    size_t length = strlen(exchange->path);

    return strcmp(exchange->method, "POST") == 0 && length >= 7 &&
           strcmp(exchange->path + length - 7, "/events") == 0 &&
           exchange->body.length <= AT_ONCE_BYTES && !audit_has_file(server->audit);
}

static bool publish_at_once(struct exchange *exchange)
{
    struct server *server = exchange->server;

    if (!exchange->admitted &&
        (!access_check_source(&server->access, exchange) || !admit(exchange))) {
        audit_record(server->audit, exchange);
        finish(exchange);
        atomic_fetch_sub(&server->at_once, 1);
        return true;
    }
    exchange->bus = buses_own(server->buses);
    exchange->answered = end_at_once;
    return strcmp(exchange->route->template_text, "events") == 0 &&
           strcmp(exchange->namespace_name, buses_own_name(server->buses)) == 0 &&
           events_publish_at_once(exchange);
}

static bool take_at_once(struct exchange *exchange)
{
    struct server *server = exchange->server;

    if (!is_for_at_once(server, exchange)) {
        return false;
    }
    if (atomic_fetch_add(&server->at_once, 1) < AT_ONCE_MAX && !atomic_load(&server->stopping) &&
        publish_at_once(exchange)) {
        return true;
    }
    atomic_fetch_sub(&server->at_once, 1);
    return false;
}

/* Waits until those are answered; false: not in time. */
static bool drain_at_once(struct server *server, struct deadline deadline)
{
    while (atomic_load(&server->at_once) > 0) {
        if (deadline_passed(deadline)) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = AT_ONCE_STEP_MS * 1000000}, NULL);
    }
    return true;
}

static bool give(struct exchange *exchange)
{
    if (probes_answer_health(exchange)) {
        finish(exchange);
        return true;
    }
    if (take_at_once(exchange)) {
        return true;
    }
    return workers_give(exchange->server->workers, exchange);
}

static void record(const struct exchange *exchange)
{
    audit_record(exchange->server->audit, exchange);
}

/* ---- Streams whose tokens are gone ----------------------------------------------------------- */

static bool is_allowed(const struct bearer *bearer, enum role role, const char *namespace_name,
                       void *ctx)
{
    return access_goes_on(ctx, bearer, role, namespace_name);
}

/* Ends the streams of tokens that were taken out of the file and of sessions that have ended; of
 * sessions that are too old (sessions.h) after LOOK_MS. A stream that has begun meanwhile, and was
 * allowed before, is looked at after AGAIN_MS. */
static void look_at_streams(struct server *server)
{
    struct access_look *look = &server->look;
    uint64_t version = access_version(&server->access);
    int64_t now_us = clock_mono_us();

    if (server->access.tokens && (version != look->version || now_us > look->next_us)) {
        int64_t wait_ms = version != look->version ? AGAIN_MS : LOOK_MS;
        *look = (struct access_look){version, now_us + wait_ms * 1000};
        streams_check(server->streams, is_allowed, &server->access);
    }
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static hf_status open_socket(struct server *server)
{
    const struct server_options *options = server->options;
    hf_status status = socket_inherit(&server->socket);

    if (status == HF_NOTFOUND) {
        status = socket_listen(options->listen, &server->socket);
    }
    if (!status && !server->socket.loopback && !options->tokens) {
        return fail(HF_DENIED,
                    "%s can be reached from other machines: give a file of tokens (--tokens), or "
                    "listen on 127.0.0.1",
                    server->socket.name);
    }
    return status;
}

hf_status server_open(const struct server_options *options, struct server **ret_server)
{
    struct server *server = mem_calloc(1, sizeof *server);
    hf_status status;

    if (!server) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = probes_init(&server->probes);
    if (status) {
        mem_free(server);
        return status;
    }
    server->options = options;
    server->started_at_us = clock_wall_us();
    server->socket.fd = -1;
    server->access.hosts = options->hosts;
    server->access.host_count = options->host_count;
    server->access.sessions = sessions_new();
    status = server->access.sessions ? open_socket(server) : HF_NOMEM;
    if (!status && options->tokens) {
        status = tokens_open(options->tokens, options->bus.log, options->bus.log_ctx,
                             &server->access.tokens);
    }
    status = status ? status : audit_open(options->audit, &server->audit);
    if (status) {
        server_close(server);
        return status;
    }
    *ret_server = server;
    return HF_OK;
}

hf_status server_start(struct server *server, hf_bus *bus)
{
    const struct server_options *options = server->options;
    struct listener_options listener = {
        .server = server,
        .socket = server->socket.fd,
        .certificate = options->certificate,
        .key = options->key,
        .body_bytes_max = options->body_bytes_max,
        .connections_max = options->connections_max,
        .per_address_max = options->per_address_max,
        .request_ms = options->request_ms,
        .admit = admit_body,
        .give = give,
        .record = record,
        .look = look_at_streams,
    };
    const struct waits_options waits = {
        .watchers_max = (size_t)(options->threads / WATCH_PART),
        .again = give_again,
        .run_out = run_out,
    };
    hf_status status = buses_open(options->url, &options->bus, bus, &server->buses);

    if (status) {
        return status;
    }
    server->waits = waits_start(&waits);
    server->workers = workers_start(options->threads, QUEUE_MAX, answer);
    server->streams = streams_new(options->streams_max, options->streams_per_address_max);
    listener.streams = server->streams;
    server->sampler = sampler_open(server->buses);
    server->followers = followers_open(server->buses);
    if (server->waits && server->workers && server->streams && server->sampler &&
        server->followers) {
        server->listener = listener_start(&listener);
    }
    if (!server->listener) {
        return HF_UNAVAILABLE;
    }
    server->socket.fd = -1; /* the listener's */
    return HF_OK;
}

void server_quiesce(struct server *server)
{
    atomic_store(&server->stopping, true);
    atomic_store(&server->probes.draining, true);
    if (server->listener) {
        listener_quiesce(server->listener);
        followers_stop(server->followers);
        waits_stop(server->waits);
        streams_drain(server->streams, STREAMS_MS);
    }
}

bool server_drain(struct server *server, int64_t wait_ms)
{
    struct deadline deadline = deadline_after_ms(wait_ms);
    bool ended = workers_drain(server->workers, wait_ms) && drain_at_once(server, deadline);

    if (server->listener) {
        int64_t left_ms = deadline_left_ms(deadline);
        listener_drain(server->listener, left_ms < ANSWERS_MS ? left_ms : ANSWERS_MS);
    }
    return ended;
}

void server_close(struct server *server)
{
    if (!server) {
        return;
    }
    if (!atomic_load(&server->stopping)) {
        server_quiesce(server);
    }
    workers_stop(server->workers);
    drain_at_once(server, DEADLINE_NEVER);
    waits_free(server->waits);
    sampler_close(server->sampler);
    listener_stop(server->listener);
    socket_remove(&server->socket);
    if (server->socket.fd >= 0) {
        close(server->socket.fd);
    }
    followers_free(server->followers);
    streams_free(server->streams);
    buses_close(server->buses);
    tokens_close(server->access.tokens);
    sessions_free(server->access.sessions);
    audit_close(server->audit);
    probes_release(&server->probes);
    mem_free(server);
}
