/*
 * retention.c - the command `retention run`: deletes now the events that are past their retention.
 *
 * Running processes do that by themselves, about hourly; this is for those who run none, for a
 * disk that is full today, and with --dry-run to see first what would go.
 */
#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/show.h"

struct showing {
    struct progress progress;
    struct retention_result result;
};

static int note_step(const hf_retention_info *info, void *ctx)
{
    struct showing *showing = ctx;

    retention_note(&showing->result, info);
    if (info->dropped_name) {
        out_complain("subscription %s lost what it had not finished up to position %" PRId64 ".",
                     info->dropped_name, info->dropped_through);
    }
    progress_update(&showing->progress, info->events, info->events, info->planned_events);
    return 0;
}

static void print_json(const struct retention_result *result)
{
    struct show_line line;

    show_retention(show_line_begin(&line), result);
    show_line_end(&line);
}

static void print_words(const struct retention_result *result)
{
    const hf_retention_info *last = &result->last;
    bool dry = result->dry_run;
    int64_t events = dry ? last->planned_events : last->events;
    int64_t bytes = dry ? last->planned_bytes : last->bytes;
    char count[OUT_WORDS_BYTES];
    char words[OUT_WORDS_BYTES];
    char size[OUT_WORDS_BYTES + 8] = "";

    if (bytes >= 0) {
        snprintf(size, sizeof size, " (%s)", out_bytes(bytes, words));
    }
    if (last->through == 0) {
        out_say("Nothing %s.", dry ? "would go" : "had to go");
    } else {
        out_say("About %s event%s%s %s, up to position %" PRId64 ".", out_number(events, count),
                events == 1 ? "" : "s", size,
                dry           ? "would go"
                : events == 1 ? "is gone"
                              : "are gone",
                last->through);
    }
    if (result->kept_by[0]) {
        out_say("Subscription %s has not finished older ones: they stay.", result->kept_by);
    }
}

static int run_retention(struct cli *cli)
{
    bool dry = args_given(&cli->args, "dry-run");
    struct showing showing = {.result = {.dry_run = dry}};
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    progress_begin(&showing.progress, "events removed");
    code = cli_fail(hf_retention_run(cli->bus, NULL, dry ? HF_ON : HF_OFF, note_step, &showing));
    progress_end(&showing.progress);
    if (code) {
        return code;
    }
    if (cli->json) {
        print_json(&showing.result);
    } else {
        print_words(&showing.result);
    }
    return EXIT_OK;
}

static const struct option_row run_options[] = {
    {"dry-run", 0, OPTION_FLAG, NULL, NULL, 0, 0, "only say what would go"},
    OPTION_END,
};

const struct command command_retention_run = {
    .name = "retention run",
    .usage = "",
    .summary = "deletes events past their retention",
    .examples = "  holdfast retention run --dry-run\n"
                "  holdfast namespace set shop --retain-age 30d\n"
                "  holdfast retention run --namespace shop\n",
    .details = "Every running worker does this about hourly. Events that a subscription has not\n"
               "finished stay, unless the namespace says --lagging drop. Dead letters stay.\n"
               "PostgreSQL removes whole months, when all of their events are old enough.\n",
    .options = run_options,
    .run = run_retention,
};
