/*
 * serve.c - the command `serve`, in the program that has an HTTP server: from options to a server
 * that runs until it is told to stop.
 */
#include "cli/core/serve.h"

#include "base/banned.h"
#include "base/mem.h"
#include "cli/core/args_value.h"
#include "cli/core/out.h"
#include "cli/core/stop.h"
#include "cli/core/url.h"
#include "cli/work/log.h"
#include "server/server.h"

#define THREADS 32
#define CONNECTIONS_MAX 10000
#define REQUEST_MS 30000
#define PEM_BYTES_MAX 1048576
#define CHECK_MS 1000

struct serving {
    struct server_options options;
    struct work_log log;
    char *certificate;
    char *key;
};

/* 0, or the exit status after a complaint. */
static int read_options(struct cli *cli, struct serving *serving)
{
    const struct args *args = &cli->args;
    struct server_options *options = &serving->options;
    size_t length;

    *options = (struct server_options){
        .url = cli->url,
        .bus = cli_options(cli, HF_OPEN_CREATE),
        .listen = args_text(args, "listen") ? args_text(args, "listen") : SERVE_LISTEN,
        .tokens = args_text(args, "tokens"),
        .threads = (int)args_number(args, "threads", THREADS),
        .body_bytes_max = (size_t)args_number(args, "max-body", SERVE_BODY_BYTES),
        .connections_max = CONNECTIONS_MAX,
        .per_address_max = (unsigned)args_number(args, "max-per-address", 0),
        .streams_max = (unsigned)args_number(args, "max-streams", SERVE_STREAMS),
        .streams_per_address_max = (unsigned)args_number(args, "max-streams-per-address", 0),
        .request_ms = REQUEST_MS,
    };
    work_log_options(&options->bus, &serving->log);
    if (args_given(args, "tls-cert") != args_given(args, "tls-key")) {
        return args_usage(args, "--tls-cert and --tls-key go together");
    }
    if (args_given(args, "tls-cert")) {
        serving->certificate = cli_read_file(args_text(args, "tls-cert"), PEM_BYTES_MAX, &length);
        serving->key = cli_read_file(args_text(args, "tls-key"), PEM_BYTES_MAX, &length);
        options->certificate = serving->certificate;
        options->key = serving->key;
        return serving->certificate && serving->key ? 0 : EXIT_ERROR;
    }
    return 0;
}

/* Until a signal comes, or the database is gone for good. */
static int wait_for_end(struct server *server)
{
    while (!stop_requested()) {
        hf_status status = hf_check(buses_own(server->buses));
        if (status) {
            return cli_fail(status);
        }
        stop_wait(-1, CHECK_MS);
    }
    return EXIT_OK;
}

int serve_run(struct cli *cli)
{
    static struct serving serving;
    struct server *server = NULL;
    char shown[URL_SHOWN_BYTES];
    int code = read_options(cli, &serving);

    if (!code) {
        stop_catch();
        code = cli_fail(server_start(&serving.options, &server));
    }
    if (!code) {
        work_log_say(NULL, "serves %s on %s://%s%s", url_shown(cli->url, shown),
                     serving.certificate ? "https" : "http", server->name,
                     serving.options.tokens ? "" : ", for this machine only and without tokens");
        code = wait_for_end(server);
        work_log_say(NULL, "stops");
    }
    server_stop(server);
    mem_free(serving.certificate);
    mem_free(serving.key);
    return code;
}
