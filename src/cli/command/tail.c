/*
 * tail.c - the command `tail`: shows the end of the log, or reads it forward from a place, and
 * follows it if asked.
 *
 * The log is read forward only, so the last events that match are found by reading an ever longer
 * end of it, until it has as many of them as are wanted.
 *
 * It reads by hf_read, in the order of positions, and never moves a checkpoint. While following it
 * sleeps on the bus's descriptor; the time limit of that sleep is for the case that a wake-up is
 * lost, and for what is due: nothing else may be there to bring it.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"

#define READ_EVENTS 500 /* in one call */
#define FOLLOW_WAIT_MS 1000
#define LAST_EVENTS 10  /* are shown if nothing else is said */
#define SPAN_FIRST 1000 /* positions that are looked through for them at first */
#define SPAN_GROWTH 8   /* how many times more if these were not enough */

struct tail {
    bool json;
    int64_t left; /* events until the limit; -1: no limit */
    int64_t end;  /* the last position to show; -1: no end */
    bool shown;   /* one at least */
};

static int show_one(const hf_event *event, void *ctx)
{
    struct tail *tail = ctx;

    if (tail->end >= 0 && event->position > tail->end) {
        return 1;
    }
    if (tail->json) {
        struct show_line line;
        show_event(show_line_begin(&line), event);
        show_line_end(&line);
    } else {
        show_event_line(event);
    }
    tail->shown = true;
    if (tail->left > 0) {
        tail->left--;
    }
    return out_failed() || tail->left == 0;
}

/* Brings what is due, so that it is seen when its time has come although nothing works. What that
 * fails for, such as a role that may only look, is no matter of a reader. Returns how long to wait
 * for more, in ms; 0: there is more. */
static int64_t bring_due(hf_bus *bus)
{
    hf_tick_info info = {.size = sizeof info};
    int64_t left_us;

    if (hf_tick(bus, &info) != HF_OK) {
        return FOLLOW_WAIT_MS;
    }
    if (info.fired + info.released > 0) {
        return 0;
    }
    left_us = info.next_due_at_us - clock_wall_us();
    if (info.next_due_at_us == -1 || left_us <= 0 || left_us > FOLLOW_WAIT_MS * INT64_C(1000)) {
        return FOLLOW_WAIT_MS;
    }
    return left_us / 1000 + 1;
}

static void wait_for_more(hf_bus *bus)
{
    uint64_t count;
    int fd = -1;
    int64_t wait_ms;

    if (hf_fd(bus, &fd) != HF_OK) {
        fd = -1;
    }
    wait_ms = bring_due(bus);
    if (wait_ms > 0 && stop_wait(fd, wait_ms) && read(fd, &count, sizeof count) < 0) {
        /* Another reader took it away; the log is read again all the same. */
    }
}

static const char *pattern_of(const struct cli *cli)
{
    return cli->args.word_count > 0 ? cli->args.words[0] : NULL;
}

/* The last positions that match, in a ring. */
struct last {
    int64_t *positions;
    int64_t wanted;
    int64_t found; /* so far; of more than are wanted the first ones are gone */
    int64_t end;   /* those behind it do not count */
};

static int note_one(const hf_event *event, void *ctx)
{
    struct last *last = ctx;

    if (event->position > last->end) {
        return 1;
    }
    last->positions[last->found++ % last->wanted] = event->position;
    return stop_requested();
}

/* Notes what matches after `from`. */
static hf_status note_last(struct cli *cli, struct last *last, int64_t from)
{
    hf_status status = HF_OK;

    last->found = 0;
    for (int64_t before = -1; !status && from != before && from < last->end && !stop_requested();) {
        before = from;
        status = hf_read(cli->bus, pattern_of(cli), READ_EVENTS, 0, &from, note_one, last);
    }
    return status;
}

/* The position after which the last `wanted` events that match begin, `floor` at least; an exit
 * status. */
static int find_last(struct cli *cli, int64_t wanted, int64_t floor, int64_t *ret_cursor)
{
    struct last last = {.wanted = wanted};
    hf_status status = hf_locate(cli->bus, (hf_place){HF_PLACE_NOW, -1}, &last.end);
    int64_t from = last.end;

    if (status || wanted == 0 || wanted >= last.end - floor) {
        *ret_cursor = wanted == 0 && last.end > floor ? last.end : floor;
        return cli_fail(status);
    }
    last.positions = mem_calloc((size_t)wanted, sizeof *last.positions);
    if (!last.positions) {
        out_complain("out of memory for the last %" PRId64 " events", wanted);
        return EXIT_ERROR;
    }
    for (int64_t span = SPAN_FIRST > wanted ? SPAN_FIRST : wanted;
         !status && last.found < wanted && from > floor && !stop_requested(); span *= SPAN_GROWTH) {
        from = last.end - floor > span ? last.end - span : floor;
        status = note_last(cli, &last, from);
    }
    *ret_cursor = last.found < wanted ? floor : last.positions[last.found % wanted] - 1;
    mem_free(last.positions);
    return cli_fail(status);
}

static hf_status read_log(struct cli *cli, struct tail *tail, int64_t cursor, bool follow)
{
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
            hf_read(cli->bus, pattern_of(cli),
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

/* Where reading begins, and how many events are to be shown; an exit status. */
static int find_place(struct cli *cli, struct tail *tail, bool follow, int64_t *ret_cursor)
{
    const struct args *args = &cli->args;
    hf_place from = {follow ? HF_PLACE_NOW : HF_PLACE_START, -1};
    bool has_place = args_place(args, "from", &from) || follow;
    int64_t last =
        args_number(args, "last", has_place ? -1 : args_number(args, "limit", LAST_EVENTS));
    int64_t floor = 0;
    int code = EXIT_OK;

    if (args_given(args, "from") || last < 0) {
        code = cli_fail(hf_locate(cli->bus, from, &floor));
    }
    *ret_cursor = floor;
    if (code || last < 0) {
        return code;
    }
    if (!follow) {
        tail->left = tail->left >= 0 && tail->left < last ? tail->left : last;
    }
    return find_last(cli, last, floor, ret_cursor);
}

static int run_tail(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct tail tail = {.json = cli->json, .left = args_number(args, "limit", -1), .end = -1};
    bool follow = args_given(args, "follow");
    int64_t cursor = 0;
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    stop_catch_reader();
    code = find_place(cli, &tail, follow, &cursor);
    if (code) {
        return code;
    }
    code = cli_fail(read_log(cli, &tail, cursor, follow));
    if (!code && !follow && !tail.shown) {
        out_say("No events.");
    }
    return code;
}

static const struct option_row options[] = {
    {"from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "start, now, a position (the first event after it), a time, or how long ago (2h); "
     "without it: the end, or now with --follow"},
    {"follow", 'f', OPTION_FLAG, NULL, NULL, 0, 0, "wait for more"},
    {"last", 'n', OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "begin with the last so many (10 without --from and --follow)"},
    {"limit", 0, OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "show so many at most: with --from or --follow the first ones, else the last"},
    OPTION_END,
};

const struct command command_tail = {
    .name = "tail",
    .usage = "[PATTERN]",
    .summary = "shows the end of the log, or all from a place on",
    .examples = "  holdfast tail\n"
                "  holdfast tail 'order.*' -n 50\n"
                "  holdfast tail 'order.*' --follow\n"
                "  holdfast tail -n 20 -f\n"
                "  holdfast tail --from 2h --json\n"
                "  holdfast tail --from 2026-01-31T12:00:00Z --limit 10\n",
    .details = "It never moves a checkpoint.\n"
               "Patterns: user.created, user.* (one segment), user.** (one or more), * (all).\n"
               "With --follow, events for later and schedules that are due enter the log, as far\n"
               "as the role may do that.\n",
    .options = options,
    .words_max = 1,
    .run = run_tail,
};
