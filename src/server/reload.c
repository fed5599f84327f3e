/*
 * reload.c - see reload.h.
 */
#include "server/reload.h"

#include "base/banned.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "server/notify.h"

/* From the file to handlers. 0, or the exit code after complaints. */
static int carry_out(struct work *work, struct work_changes *ret_changes)
{
    struct cli cli = *work->cli; /* planning notes in it which database the file names */
    struct work next = {.cli = &cli, .log = work->log};
    hf_options options = cli_options(&cli, HF_OPEN_CREATE);
    int code;

    cli.started_at_us = clock_wall_us();
    code = work_plan_serve(&next, &options);
    next.cli = work->cli;
    code = code ? code : work_change(work, &next, ret_changes);
    work_release(&next);
    return code;
}

bool reload_has_file(const struct reload *reload)
{
    const char *file = reload->work->file;

    return file && strcmp(file, "-") != 0;
}

/* The certificate and its key. */
static void renew_tls(const struct reload *reload)
{
    const struct server_settings *settings = reload->settings;
    struct server_settings again;
    int code = settings_read_again(settings, &again);

    if (!code) {
        code = cli_fail(listener_renew(reload->server->listener, again.certificate, again.key));
    }
    if (code) {
        work_log_complain(NULL, "SIGHUP: %s is not taken; the certificate and key before it go on",
                          settings->certificate_file);
    } else {
        work_log_say(NULL, "SIGHUP: the certificate %s and its key were read again",
                     settings->certificate_file);
    }
    settings_release(&again);
}

static void change_work(struct work *work)
{
    struct work_changes changes;

    if (carry_out(work, &changes)) {
        work_log_complain(NULL, "SIGHUP: %s is not taken, and everything stays as it was",
                          work->file);
        notify_send("READY=1\nSTATUS=works as before: the changed configuration is not taken");
    } else {
        work_log_say(NULL,
                     "SIGHUP: %s was read again: works for %zu subscription%s (%zu new, %zu "
                     "changed, %zu gone)",
                     work->file, work->count, work->count == 1 ? "" : "s", changes.added,
                     changes.changed, changes.removed);
        notify_send("READY=1\nSTATUS=works for %zu subscription%s", work->count,
                    work->count == 1 ? "" : "s");
    }
}

static void *run(void *ctx)
{
    struct reload *reload = ctx;

    notify_send("RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_mono_us());
    if (reload->settings->certificate) {
        renew_tls(reload);
    }
    if (reload_has_file(reload)) {
        change_work(reload->work);
    } else {
        notify_send("READY=1");
    }
    atomic_store(&reload->ended, true);
    return NULL;
}

static void begin(struct reload *reload)
{
    atomic_store(&reload->ended, false);
    reload->runs = !thread_start(&reload->thread, "hf-reload", run, reload);
    if (!reload->runs) {
        work_log_complain(NULL, "SIGHUP: no thread to read the configuration: %s", hf_errmsg());
    }
}

void reload_request(struct reload *reload)
{
    if (reload->runs) {
        reload->again = true;
    } else {
        begin(reload);
    }
}

void reload_look(struct reload *reload)
{
    if (!reload->runs || !atomic_load(&reload->ended)) {
        return;
    }
    reload_finish(reload);
    if (reload->again) {
        reload->again = false;
        begin(reload);
    }
}

void reload_finish(struct reload *reload)
{
    if (reload->runs) {
        pthread_join(reload->thread, NULL);
        reload->runs = false;
    }
}
