/*
 * server.c - see server.h.
 */
#include "server/server.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "server/http/router.h"
#include "server/page/page.h"

#define QUEUE_MAX 4096 /* requests that wait for a worker */
#define DRAIN_MS 1000  /* for clients of streams to take what was sent to them */

/* ---- Waiting --------------------------------------------------------------------------------- */

int64_t exchange_may_wait(struct exchange *exchange, int64_t wait_ms)
{
    struct server *server = exchange->server;

    if (wait_ms == 0) {
        return 0;
    }
    if (atomic_fetch_add(&server->waiting, 1) >= server->options->threads / 2) {
        atomic_fetch_sub(&server->waiting, 1);
        return 0;
    }
    return wait_ms;
}

void exchange_waited(struct exchange *exchange, int64_t wait_ms)
{
    if (wait_ms > 0) {
        atomic_fetch_sub(&exchange->server->waiting, 1);
    }
}

struct sampler *sampler_of(struct exchange *exchange)
{
    return exchange->server->sampler;
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

static void answer(struct exchange *exchange)
{
    const struct access *access = &exchange->server->access;

    if (access_check_source(access, exchange) && !answer_page(exchange) && router_find(exchange)) {
        const struct route *route = exchange->route;
        bool global = route->scope == SCOPE_DATABASE;
        if (access_check_role(access, exchange, route->role,
                              global ? NULL : exchange->namespace_name)) {
            (global ? run_global : run_route)(exchange);
            router_check_asked(exchange);
        }
    }
    listener_answer(exchange);
}

static bool give(struct exchange *exchange)
{
    return workers_give(exchange->server->workers, exchange);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static hf_status open_socket(const struct server_options *options, int *ret_socket)
{
    bool loopback = false;
    hf_status status = listener_socket(options->listen, ret_socket, &loopback);

    if (!status && !loopback && !options->tokens) {
        return fail(HF_DENIED,
                    "%s can be reached from other machines: give a file of tokens (--tokens), or "
                    "listen on 127.0.0.1",
                    options->listen);
    }
    return status;
}

static hf_status listen_for(struct server *server, int socket)
{
    const struct server_options *options = server->options;
    struct listener_options listener = {
        .server = server,
        .socket = socket,
        .certificate = options->certificate,
        .key = options->key,
        .body_bytes_max = options->body_bytes_max,
        .connections_max = options->connections_max,
        .per_address_max = options->per_address_max,
        .request_ms = options->request_ms,
        .give = give,
    };

    listener_name(socket, options->listen, server->name);
    server->workers = workers_start(options->threads, QUEUE_MAX, answer);
    server->streams = streams_new(options->streams_max, options->streams_per_address_max);
    listener.streams = server->streams;
    server->sampler = sampler_open(server->buses);
    if (server->workers && server->streams && server->sampler) {
        server->listener = listener_start(&listener);
    }
    if (!server->listener) {
        close(socket);
        return HF_UNAVAILABLE;
    }
    return HF_OK;
}

hf_status server_start(const struct server_options *options, struct server **ret_server)
{
    struct server *server = mem_calloc(1, sizeof *server);
    int socket = -1;
    hf_status status;

    if (!server) {
        return fail(HF_NOMEM, "out of memory");
    }
    server->options = options;
    server->access.hosts = options->hosts;
    server->access.host_count = options->host_count;
    server->access.sessions = sessions_new();
    status = server->access.sessions ? open_socket(options, &socket) : HF_NOMEM;
    if (!status && options->tokens) {
        status = tokens_open(options->tokens, options->bus.log, options->bus.log_ctx,
                             &server->access.tokens);
    }
    if (!status) {
        status = buses_open(options->url, &options->bus, &server->buses);
    }
    if (status) {
        if (socket >= 0) {
            close(socket);
        }
    } else {
        status = listen_for(server, socket);
    }
    if (status) {
        server_stop(server);
        return status;
    }
    *ret_server = server;
    return HF_OK;
}

void server_stop(struct server *server)
{
    if (!server) {
        return;
    }
    if (server->listener) {
        listener_quiesce(server->listener);
        streams_drain(server->streams, DRAIN_MS);
    }
    workers_stop(server->workers);
    sampler_close(server->sampler);
    listener_stop(server->listener);
    streams_free(server->streams);
    buses_close(server->buses);
    tokens_close(server->access.tokens);
    sessions_free(server->access.sessions);
    mem_free(server);
}
