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
#include "cli/core/out.h"
#include "cli/core/progress.h"
#include "cli/core/show.h"

#define LINE_BYTES_MAX 65536

struct showing {
    struct progress progress;
    hf_retention_info last; /* without the texts */
    char kept_by[HF_NAME_BYTES_MAX + 1];
    int64_t dropped; /* subscriptions that were moved */
};

static int note_step(const hf_retention_info *info, void *ctx)
{
    struct showing *showing = ctx;

    showing->last = *info;
    showing->last.dropped_name = NULL;
    showing->last.kept_by = NULL;
    snprintf(showing->kept_by, sizeof showing->kept_by, "%s", info->kept_by ? info->kept_by : "");
    if (info->dropped_name) {
        showing->dropped++;
        out_complain("subscription %s lost what it had not finished up to position %" PRId64 ".",
                     info->dropped_name, info->dropped_through);
    }
    progress_update(&showing->progress, info->events, info->events, info->planned_events);
    return 0;
}

static void print_json(const struct showing *showing, bool dry)
{
    const hf_retention_info *last = &showing->last;
    struct buf line;
    struct json_out json;

    buf_init(&line, LINE_BYTES_MAX);
    json_out_init(&json, &line);
    json_object_begin(&json);
    show_bool(&json, "dry_run", dry);
    show_int(&json, "events", dry ? last->planned_events : last->events);
    show_int(&json, "bytes", dry ? last->planned_bytes : last->bytes);
    show_int(&json, "through", last->through);
    show_bool(&json, "by_size", last->by_size != 0);
    show_string(&json, "kept_by", showing->kept_by[0] ? showing->kept_by : NULL);
    show_int(&json, "dropped_subscriptions", showing->dropped);
    json_object_end(&json);
    out_json_line(&line);
    buf_release(&line);
}

static void print_words(const struct showing *showing, bool dry)
{
    const hf_retention_info *last = &showing->last;
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
    if (showing->kept_by[0]) {
        out_say("Subscription %s has not finished older ones: they stay.", showing->kept_by);
    }
}

static int run_retention(struct cli *cli)
{
    bool dry = args_given(&cli->args, "dry-run");
    struct showing showing = {.dropped = 0};
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
        print_json(&showing, dry);
    } else {
        print_words(&showing, dry);
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
