/*
 * tail.c - the command `tail`: reads the log forward from a place, and follows it if asked.
 *
 * It reads by hf_read, in the order of positions, and never moves a checkpoint. While following it
 * sleeps on the bus's descriptor; the time limit of that sleep is only for the case that a wake-up
 * is lost.
 */
#include "base/banned.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/out.h"
#include "cli/core/show.h"
#include "cli/core/stop.h"

#define READ_EVENTS 500 /* in one call */
#define FOLLOW_WAIT_MS 1000
#define LINE_BYTES_MAX (CLI_PAYLOAD_BYTES_MAX * (size_t)7)

struct tail {
    bool json;
    int64_t left; /* events until the limit; -1: no limit */
    int64_t end;  /* the last position to show; -1: no end */
    struct buf line;
};

static int show_one(const hf_event *event, void *ctx)
{
    struct tail *tail = ctx;

    if (tail->end >= 0 && event->position > tail->end) {
        return 1;
    }
    if (tail->json) {
        struct json_out json;
        json_out_init(&json, &tail->line);
        json_object_begin(&json);
        show_event(&json, event);
        json_object_end(&json);
        out_json_line(&tail->line);
    } else {
        show_event_line(event);
    }
    if (tail->left > 0) {
        tail->left--;
    }
    return out_failed() || tail->left == 0;
}

static void wait_for_more(hf_bus *bus)
{
    uint64_t count;
    int fd = -1;

    if (hf_fd(bus, &fd) != HF_OK) {
        fd = -1;
    }
    if (stop_wait(fd, FOLLOW_WAIT_MS) && read(fd, &count, sizeof count) < 0) {
        /* Somebody else took it away; the log is read again all the same. */
    }
}

static hf_status read_log(struct cli *cli, struct tail *tail, int64_t cursor, bool follow)
{
    const char *pattern = cli->args.word_count > 0 ? cli->args.words[0] : NULL;
    hf_status status = HF_OK;

    /* Without --follow: everything up to what is the end now, not a moving target. */
    if (!follow) {
        status = hf_locate(cli->bus, (hf_place){HF_PLACE_NOW, -1}, &tail->end);
    }
    while (!status && !stop_requested() && !out_failed() && tail->left != 0) {
        int64_t before = cursor;
        if (tail->end >= 0 && cursor >= tail->end) {
            break;
        }
        status =
            hf_read(cli->bus, pattern,
                    tail->left >= 0 && tail->left < READ_EVENTS ? (size_t)tail->left : READ_EVENTS,
                    0, &cursor, show_one, tail);
        if (!status && cursor == before) {
            if (!follow) {
                break;
            }
            fflush(stdout);
            wait_for_more(cli->bus);
        }
    }
    return status;
}

static int run_tail(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct tail tail = {.json = cli->json, .left = args_number(args, "limit", -1), .end = -1};
    bool follow = args_given(args, "follow");
    hf_place from = {follow ? HF_PLACE_NOW : HF_PLACE_START, -1};
    int64_t cursor = 0;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    args_place(args, "from", &from);
    code = cli_fail(hf_locate(cli->bus, from, &cursor));
    if (code) {
        return code;
    }
    stop_catch();
    buf_init(&tail.line, LINE_BYTES_MAX);
    code = cli_fail(read_log(cli, &tail, cursor, follow));
    buf_release(&tail.line);
    return code;
}

static const struct option_row options[] = {
    {"from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "start, now, a position (the first event after it), a time, or how long ago (2h); "
     "without it: start, or now with --follow"},
    {"follow", 'f', OPTION_FLAG, NULL, NULL, 0, 0, "wait for more"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 0, INT64_MAX, "end after so many events"},
    OPTION_END,
};

const struct command command_tail = {
    .name = "tail",
    .usage = "[PATTERN]",
    .summary = "reads the log; never moves a checkpoint",
    .examples = "  holdfast tail\n"
                "  holdfast tail 'order.*' --follow\n"
                "  holdfast tail --from 2h --json\n"
                "  holdfast tail --from 2026-01-31T12:00:00Z --limit 10\n",
    .details = "Patterns: user.created, user.* (one segment), user.** (one or more), * (all).\n",
    .options = options,
    .words_max = 1,
    .run = run_tail,
};
