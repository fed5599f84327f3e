/*
 * copy.c - copy: the whole bus into another database.
 *
 * Nothing is lost by ending it at any time: the target stays closed until it is complete, and the
 * same command goes on with it. Ctrl-C ends it after the chunk that is on its way; a command that
 * is killed at once leaves just the same.
 */
#include "base/banned.h"
#include "base/text/json_write.h"
#include "base/time/clock.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/url.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"

#include <inttypes.h>

#define COMMAND_BYTES_MAX 65536 /* that goes on with a copy */
#define JSON_PERIOD_US 1000000  /* between two lines of progress */

struct copy {
    bool json;
    const char *phase; /* that the bar is of */
    int64_t printed_us;
    struct progress progress;
};

static void print_progress(const hf_copy_progress *now)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "namespace", now->namespace_name);
    show_string(json, "phase", now->phase);
    show_int(json, "events", now->events);
    show_int(json, "rows", now->rows);
    show_int(json, "position", now->position);
    show_int(json, "head", now->head);
    show_line_end(&line);
    fflush(stdout);
}

static int show_progress(const hf_copy_progress *now, void *ctx)
{
    struct copy *copy = ctx;
    int64_t now_us = clock_mono_us();

    if (copy->json && now_us - copy->printed_us >= JSON_PERIOD_US) {
        copy->printed_us = now_us;
        print_progress(now);
    }
    copy->progress.what = strcmp(now->phase, "verify") == 0  ? "rows, verifying"
                          : strcmp(now->phase, "index") == 0 ? "rows, indexing"
                                                             : "rows";
    progress_update(&copy->progress, now->rows, now->position, now->head);
    return stop_requested() || out_failed();
}

static void print_report(const hf_copy_report *report)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_bool(json, "complete", report->complete != 0);
    show_bool(json, "resumed", report->resumed != 0);
    show_int(json, "namespaces", report->namespaces);
    show_int(json, "events", report->events);
    show_int(json, "rows", report->rows);
    show_int(json, "later", report->later);
    show_int(json, "undriven", report->undriven);
    show_line_end(&line);
}

static void say_report(const hf_copy_report *report)
{
    out_say("%" PRId64 " namespace%s copied%s and verified: %" PRId64 " event%s, %" PRId64
            " other row%s.",
            report->namespaces, report->namespaces == 1 ? "" : "s",
            report->resumed ? " (what an earlier run had begun was gone on with)" : "",
            report->events, report->events == 1 ? "" : "s", report->rows,
            report->rows == 1 ? "" : "s");
    if (report->later > 0) {
        out_say("%" PRId64 " position%s of the source came later and %s not in the copy.",
                report->later, report->later == 1 ? "" : "s", report->later == 1 ? "is" : "are");
    }
    if (report->undriven > 0) {
        out_say("%" PRId64 " schedule%s lost %s job of pg_cron: only processes that work fire %s "
                "now. To give it back: holdfast schedule add NAME ... --driver pg_cron",
                report->undriven, report->undriven == 1 ? "" : "s",
                report->undriven == 1 ? "its" : "their", report->undriven == 1 ? "it" : "them");
    }
}

static hf_copy_options copy_options_of(const struct cli *cli)
{
    hf_copy_options options = HF_COPY_OPTIONS_INIT;

    options.namespace_name = args_text(&cli->args, "namespace");
    options.live = args_given(&cli->args, "live") ? HF_ON : HF_TOGGLE_DEFAULT;
    return options;
}

/* The target is made only for a source that can be copied. */
static int open_both(struct cli *cli, hf_bus **ret_from)
{
    hf_copy_options wanted = copy_options_of(cli);
    hf_options options = cli_options(cli, HF_OPEN_EXISTING);
    int code;

    options.namespace_name = NULL;
    options.no_namespace = 1;
    code = cli_fail(hf_open(cli->args.words[0], &options, ret_from));
    if (!code) {
        code = cli_fail(hf_copy(*ret_from, NULL, &wanted, NULL, NULL, NULL));
    }
    if (code) {
        return code;
    }
    options.open_mode = HF_OPEN_CREATE;
    return cli_fail(hf_open(cli->args.words[1], &options, &cli->bus));
}

/* What to do when it did not come to its end: the whole command, for without --namespace it would
 * copy all of them. */
static void say_how_to_go_on(const struct cli *cli)
{
    const char *name = args_text(&cli->args, "namespace");
    char shown[URL_SHOWN_BYTES];
    struct buf line;

    buf_init(&line, COMMAND_BYTES_MAX);
    for (int i = 0; i < 2; i++) {
        buf_char(&line, ' ');
        out_quote(&line, url_shown(cli->args.words[i], shown));
    }
    if (name) {
        buf_printf(&line, " --namespace ");
        out_quote(&line, name);
    }
    if (args_given(&cli->args, "live")) {
        buf_printf(&line, " --live");
    }
    out_hint("Namespaces of the target that were begun stay closed until the copy is complete. To "
             "go on: holdfast copy%" TEXT_PRI,
             TEXT_ARG(buf_text(&line)));
    buf_release(&line);
}

static int copy_between(struct cli *cli, hf_bus *from, struct copy *copy)
{
    hf_copy_options options = copy_options_of(cli);
    hf_copy_report report = HF_COPY_REPORT_INIT;
    hf_status status;

    progress_begin(&copy->progress, "rows");
    status = hf_copy(from, cli->bus, &options, show_progress, copy, &report);
    progress_end(&copy->progress);
    if (status) {
        int code = cli_fail(status);
        if (hf_status_retriable(status)) {
            say_how_to_go_on(cli);
        }
        return code;
    }
    if (copy->json) {
        print_report(&report);
    }
    if (!report.complete) {
        out_complain("stopped after %" PRId64 " event%s", report.events,
                     report.events == 1 ? "" : "s");
        say_how_to_go_on(cli);
        return EXIT_ERROR;
    }
    if (!copy->json) {
        say_report(&report);
    }
    return EXIT_OK;
}

static int run_copy(struct cli *cli)
{
    struct copy copy = {.json = cli->json};
    hf_bus *from = NULL;
    hf_status status;
    int code;

    stop_catch();
    code = open_both(cli, &from);
    if (!code) {
        code = copy_between(cli, from, &copy);
    }
    status = hf_close(&from);
    return code ? code : cli_fail(status);
}

static const struct option_row copy_options[] = {
    {"live", 0, OPTION_FLAG, NULL, NULL, 0, 0, "copy a bus that is in use, as it is at one moment"},
    OPTION_END,
};

const struct command command_copy = {
    .name = "copy",
    .usage = "FROM TO",
    .summary = "copies a whole bus into another database, of any engine",
    .examples = "  holdfast copy sqlite:shop.db postgres://localhost/shop\n"
                "  holdfast copy postgres://localhost/shop sqlite:/tmp/look.db --namespace orders\n"
                "  holdfast copy sqlite:shop.db postgres://localhost/shop --live\n",
    .details = "Copies all namespaces, or the one that --namespace names: events with their ids\n"
               "and positions, keys, subscriptions with checkpoints and all that waits, dead\n"
               "letters, schedules, events for later. What has been copied is read again on both\n"
               "sides and compared. The target is made if it is missing; a namespace of it that\n"
               "is not empty is left alone, and the command refused before it changes any.\n"
               "Without --live the source must not be in use: exits with 4 if it is, or was\n"
               "meanwhile. May be ended at any time; the same command goes on. Until the\n"
               "copy is complete no process can open the target.\n",
    .options = copy_options,
    .words_min = 2,
    .words_max = 2,
    .places_itself = true,
    .run = run_copy,
};
