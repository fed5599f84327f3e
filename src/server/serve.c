/*
 * serve.c - the command `serve`, in the program that has an HTTP server: from options and a
 * configuration file to a process that answers requests and works for the file's subscriptions
 * until it is told to stop.
 *
 * There is one bus for both: requests in the server's own namespace use the bus that runs the
 * handlers. What the file declares is planned, prepared and stored by the code of `work`.
 */
#include "cli/core/serve.h"

#include "base/banned.h"
#include "base/time/clock.h"
#include "base/time/deadline.h"
#include "cli/core/guard.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"
#include "cli/work/log.h"
#include "server/notify.h"
#include "server/reload.h"
#include "server/selfcheck.h"
#include "server/settings.h"

#define CHECK_MS 1000
#define WATCHDOG_PARTS 4 /* the server is asked so often in the time that systemd allows */

struct serving {
    struct cli *cli;
    struct work work; /* what the file declares */
    struct work_log log;
    struct server_settings settings;
    struct server *server;
    struct selfcheck *check; /* NULL: systemd does not watch */
    struct deadline watch;
    struct reload reload;
};

/* ---- The watchdog of systemd ----------------------------------------------------------------- */

/* Asks the server itself, and tells systemd when it has answered. How long it may take until the
 * next look. */
static int64_t watch(struct serving *serving)
{
    int64_t left_ms;

    if (!serving->check) {
        return CHECK_MS;
    }
    if (deadline_passed(serving->watch)) {
        selfcheck_ask(serving->check);
        serving->watch = deadline_after_ms(notify_watchdog_ms() / WATCHDOG_PARTS);
    }
    if (selfcheck_look(serving->check)) {
        notify_send("WATCHDOG=1");
    }
    left_ms = deadline_left_ms(serving->watch) + 1; /* not a moment before it has passed */
    return left_ms < CHECK_MS ? left_ms : CHECK_MS;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* SIGHUP: another program has renamed the audit file, and wants its old one to be let go of. */
static void reopen_audit(struct serving *serving)
{
    if (audit_reopen(serving->server->audit)) {
        work_log_complain(NULL, "%s", hf_errmsg());
    } else if (audit_has_file(serving->server->audit)) {
        work_log_say(NULL, "SIGHUP: the audit file is opened again");
    }
}

/* SIGHUP: a file that other programs have replaced, or people have changed, is read anew. */
static void reload(struct serving *serving)
{
    reopen_audit(serving);
    if (!reload_has_file(&serving->reload)) {
        work_log_say(NULL, "SIGHUP: there is no configuration file to read again");
    }
    if (reload_has_file(&serving->reload) || serving->settings.certificate) {
        reload_request(&serving->reload);
    }
}

/* Until a signal comes, or the database is gone for good. */
static int wait_for_end(struct serving *serving)
{
    while (!stop_requested()) {
        hf_status status = hf_check(serving->cli->bus);
        if (status) {
            return cli_fail(status);
        }
        if (stop_take_reload()) {
            reload(serving);
        }
        reload_look(&serving->reload);
        int64_t look_ms = watch(serving);
        stop_wait(serving->check ? selfcheck_fd(serving->check) : -1, look_ms);
    }
    return EXIT_OK;
}

static void say_begin(const struct serving *serving)
{
    const struct work *work = &serving->work;
    char shown[URL_SHOWN_BYTES];

    work_log_say(NULL, "serves %s on %s://%s%s", url_shown(serving->cli->url, shown),
                 serving->settings.certificate ? "https" : "http", serving->server->socket.name,
                 serving->settings.options.tokens ? ""
                                                  : ", for this machine only and without tokens");
    notify_send("READY=1\nSTATUS=serves %s on %s, works for %zu subscription%s", shown,
                serving->server->socket.name, work->count, work->count == 1 ? "" : "s");
    if (work->count > 0) {
        work_log_say(NULL, "works for %zu subscription%s of %s", work->count,
                     work->count == 1 ? "" : "s", work->file);
    }
}

/* Ends requests and handlers, both within the drain. */
static void stop_all(struct serving *serving)
{
    struct work *work = &serving->work;
    struct deadline deadline;
    hf_status status;

    reload_finish(&serving->reload);
    deadline = deadline_after_ms(work->drain_ms);
    notify_send("STOPPING=1\nSTATUS=stops: answers what is under way, lets handlers finish");
    work_log_say(NULL,
                 "stops: what is under way may finish for %s; a second signal ends it at once",
                 out_duration(work->drain_ms, (char[OUT_WORDS_BYTES]){""}));
    work_drain(work, clock_mono_us() + (work->drain_ms - work->margin_ms) * 1000);
    server_quiesce(serving->server);
    status = hf_stop(serving->cli->bus, deadline_left_ms(deadline));
    if (status) {
        work_log_complain(NULL, "%s", hf_errmsg());
    }
    if (!server_drain(serving->server, deadline_left_ms(deadline))) {
        work_log_complain(NULL, "requests have not ended in time, and are cut off");
        socket_remove(&serving->server->socket);
        _exit(EXIT_OK); /* their threads use all that there is */
    }
}

/* From the plan to a server that answers. */
static int start(struct serving *serving, hf_options *options)
{
    struct cli *cli = serving->cli;
    struct work *work = &serving->work;
    struct server_options *server = &serving->settings.options;
    int code;

    if (work->file && !guard_start()) {
        return EXIT_ERROR;
    }
    options->shutdown_ms = work->drain_ms;
    server->url = cli->url;
    server->bus = *options;
    stop_catch_service();
    /* Before the handlers take the environment, of which this removes the variables of systemd. */
    code = cli_fail(server_open(server, &serving->server));
    if (!code) {
        code = work_prepare(work);
    }
    if (!code) {
        code = cli_open_with(cli, options);
    }
    if (!code) {
        code = work_join(work);
    }
    if (!code) {
        code = cli_fail(hf_start(cli->bus));
    }
    if (!code) {
        code = cli_fail(server_start(serving->server, cli->bus));
    }
    if (!code && notify_watchdog_ms() > 0) {
        serving->check = selfcheck_new(serving->server->listener, server->certificate != NULL);
        code = serving->check ? EXIT_OK : cli_fail(HF_NOMEM);
    }
    return code;
}

int serve_run(struct cli *cli)
{
    static struct serving serving; /* threads that are left behind may use it until the exit */
    hf_options options = cli_options(cli, HF_OPEN_CREATE);
    int code;

    notify_begin();
    serving.cli = cli;
    serving.work.cli = cli;
    serving.work.log = &serving.log;
    serving.reload.work = &serving.work;
    serving.reload.settings = &serving.settings;
    work_log_options(&options, &serving.log);
    code = work_plan_serve(&serving.work, &options);
    if (!code) {
        code = settings_read(&serving.settings, &serving.work);
    }
    if (!code) {
        out_date_messages();
        if (serving.settings.json_log) {
            out_json_messages();
        }
        code = start(&serving, &options);
    }
    if (!code) {
        serving.reload.server = serving.server;
        say_begin(&serving);
        code = wait_for_end(&serving);
        stop_all(&serving);
    }
    selfcheck_free(serving.check);
    server_close(serving.server);
    if (code == EXIT_OK) {
        work_log_say(NULL, "has stopped");
    }
    if (cli->bus && hf_close(&cli->bus) != HF_OK) {
        return code; /* a handler still uses all of it */
    }
    work_release(&serving.work);
    settings_release(&serving.settings);
    return code;
}
