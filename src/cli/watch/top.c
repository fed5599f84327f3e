/*
 * top.c - the command `top`: the subscriptions of a namespace, live.
 *
 * A frame is made in memory and written at once, so the screen does not flicker. It fits the
 * terminal: names are cut, numbers never, and rows that there is no room for are counted below. A
 * database that does not answer is reported on the screen, and asked again.
 *
 * Where stdout is no terminal it prints one frame as text, with all rows, or as many as --count
 * says; with --json the objects of `stats --json`.
 */
#include "base/banned.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/out.h"
#include "cli/core/screen.h"
#include "cli/core/stop.h"
#include "cli/core/table.h"
#include "cli/watch/stats.h"
#include "cli/watch/sub_state.h"

#define FRAME_BYTES_MAX ((size_t)16 << 20)
#define INTERVAL_MS 2000
#define HEAD_ROWS 5      /* above the rows of subscriptions */
#define NUMBERS_WIDTH 57 /* of a row without its name */
#define NAME_WIDTH_MIN 8
#define PLAIN_COLUMNS 80

/* The frame that is being made. */
struct frame {
    struct cli *cli;
    struct buf out;
    int64_t now_us;
    int columns;
    int64_t rows_max; /* INT64_MAX: all */
    int64_t skip;     /* scrolled past */
    int64_t rows;     /* subscriptions that there are */
    bool screen;
};

/* ---- Making a frame -------------------------------------------------------------------------- */

/* Ends a line; on a screen what the last frame had there goes. */
static void end_line(struct frame *frame)
{
    buf_append(&frame->out, frame->screen ? "\033[K\r\n" : "\n", frame->screen ? 5 : 1);
}

/* A text from data in so many columns: cut with an ellipsis, or filled up. */
static void put_text(struct frame *frame, const char *text, size_t width)
{
    struct buf safe;
    size_t used;

    buf_init(&safe, OUT_TABLE_CELL_BYTES_MAX);
    utf8_sanitize(text_of(text), &safe);
    used = out_width(buf_terminate(&safe));
    if (used > width) {
        size_t bytes = out_fit(safe.bytes, width - 1);

        buf_append(&frame->out, safe.bytes, bytes);
        buf_append(&frame->out, "…", strlen("…"));
        safe.length = bytes;
        used = out_width(buf_terminate(&safe)) + 1;
    } else {
        buf_append(&frame->out, safe.bytes, safe.length);
    }
    buf_printf(&frame->out, "%*s", (int)(used < width ? width - used : 0), "");
    buf_release(&safe);
}

static size_t name_width(const struct frame *frame)
{
    int width = frame->columns - NUMBERS_WIDTH;

    return width < NAME_WIDTH_MIN ? NAME_WIDTH_MIN : (size_t)width;
}

/* How long it has waited, in at most seven characters. */
static const char *age_words(int64_t us, int64_t now_us, char words[OUT_WORDS_BYTES])
{
    int64_t seconds = us < 0 ? -1 : now_us > us ? (now_us - us) / 1000000 : 0;

    if (seconds >= 86400) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "d%" PRId64 "h", seconds / 86400,
                 seconds / 3600 % 24);
    } else if (seconds >= 3600) {
        snprintf(words, OUT_WORDS_BYTES, "%" PRId64 "h%" PRId64 "m", seconds / 3600,
                 seconds / 60 % 60);
    } else {
        out_duration(seconds < 0 ? -1 : seconds * 1000, words);
    }
    return words;
}

static const char *style_on(const struct frame *frame, enum out_style style)
{
    return frame->screen && style != OUT_PLAIN ? out_on(style) : "";
}

static const char *style_off(const struct frame *frame, enum out_style style)
{
    return frame->screen && style != OUT_PLAIN ? out_off() : "";
}

static int put_row(const hf_subscription_info *info, void *ctx)
{
    struct frame *frame = ctx;
    char pending[OUT_WORDS_BYTES];
    char oldest[OUT_WORDS_BYTES];
    char rate[OUT_WORDS_BYTES];
    char flight[OUT_WORDS_BYTES];
    enum out_style style = sub_state_style(info);
    enum out_style dead = info->dead > 0 ? OUT_RED : OUT_PLAIN;
    int64_t row = frame->rows++;

    if (row < frame->skip || row - frame->skip >= frame->rows_max) {
        return 0;
    }
    put_text(frame, info->name, name_width(frame));
    buf_printf(&frame->out, "  %s%-12s%s", style_on(frame, style), sub_state_word(info),
               style_off(frame, style));
    buf_printf(&frame->out, " %7s %7s %7s %6s %5" PRId64 " %s%5" PRId64 "%s",
               out_at_least(info->pending, info->pending_more == 1, pending),
               age_words(info->oldest_waiting_us, frame->now_us, oldest),
               out_rate(info->rate, rate), out_number(info->in_flight, flight), info->retrying,
               style_on(frame, dead), info->dead, style_off(frame, dead));
    end_line(frame);
    return 0;
}

static void put_head(struct frame *frame, const hf_stats *stats)
{
    char at[TIME_TEXT_BYTES];
    char words[OUT_WORDS_BYTES];
    char nodes[OUT_WORDS_BYTES];
    char age[OUT_WORDS_BYTES];
    struct buf place;

    time_format(frame->now_us, at);
    buf_init(&place, OUT_TABLE_CELL_BYTES_MAX);
    buf_printf(&place, "holdfast top: namespace %s",
               frame->cli->namespace_name ? frame->cli->namespace_name : "default");
    put_text(frame, buf_terminate(&place), (size_t)frame->columns - 24);
    buf_release(&place);
    buf_printf(&frame->out, "  %.19sZ", at);
    end_line(frame);
    buf_printf(&frame->out, "head %" PRId64 ", %s events/s, %s node%s, oldest waiting %s",
               stats->head, out_rate(stats->rate, words), out_number(stats->nodes, nodes),
               stats->nodes == 1 ? "" : "s",
               age_words(stats->oldest_waiting_us, frame->now_us, age));
    end_line(frame);
    buf_printf(&frame->out, "in flight %s", out_number(stats->in_flight, words));
    buf_printf(&frame->out, ", retrying %s", out_number(stats->retrying, words));
    buf_printf(&frame->out, ", held %s", out_number(stats->held, words));
    buf_printf(&frame->out, ", dead %s", out_number(stats->dead, words));
    buf_printf(&frame->out, ", for later %s", out_number(stats->later, words));
    if (stats->later_due + stats->schedules_due > 0) {
        buf_printf(&frame->out, ", due %" PRId64, stats->later_due + stats->schedules_due);
    }
    end_line(frame);
    end_line(frame);
    put_text(frame, "SUBSCRIPTION", name_width(frame));
    buf_printf(&frame->out, "  %-12s %7s %7s %7s %6s %5s %5s", "STATE", "PENDING", "OLDEST",
               "PER S", "FLIGHT", "RETRY", "DEAD");
    end_line(frame);
}

/* All of it; the callers print. */
static hf_status make_frame(struct frame *frame)
{
    hf_stats stats = {.size = sizeof stats};
    hf_status status = hf_stats_get(frame->cli->bus, &stats);

    frame->now_us = clock_wall_us();
    frame->rows = 0;
    buf_clear(&frame->out);
    if (status) {
        return status;
    }
    put_head(frame, &stats);
    if (stats.subscriptions != -1) {
        status = hf_subscription_list(frame->cli->bus, put_row, frame);
    }
    return status ? status : buf_status(&frame->out);
}

/* ---- On a screen ----------------------------------------------------------------------------- */

static void put_foot(struct frame *frame)
{
    int64_t shown = frame->rows - frame->skip;

    shown = shown > frame->rows_max ? frame->rows_max : shown;
    if (frame->rows == 0) {
        buf_printf(&frame->out, "No subscriptions.");
        end_line(frame);
    }
    buf_printf(&frame->out, "%sq: end", style_on(frame, OUT_DIM));
    if (shown < frame->rows) {
        buf_printf(&frame->out, "  j, k: %" PRId64 " to %" PRId64 " of %" PRId64, frame->skip + 1,
                   frame->skip + shown, frame->rows);
    }
    buf_printf(&frame->out, "%s\033[J", style_off(frame, OUT_DIM));
}

static void draw(struct frame *frame)
{
    struct screen_size size = screen_size();
    hf_status status;

    frame->columns = size.columns;
    frame->rows_max = size.rows > HEAD_ROWS + 2 ? size.rows - HEAD_ROWS - 1 : 1;
    status = make_frame(frame);
    if (status) {
        buf_clear(&frame->out);
        put_text(frame, hf_errmsg(), (size_t)frame->columns);
        end_line(frame);
        buf_printf(&frame->out, "\033[J");
    } else {
        put_foot(frame);
    }
    out_write(STDOUT_FILENO, "\033[H", 3);
    out_write(STDOUT_FILENO, frame->out.bytes, frame->out.length);
}

/* What a key does. True: the command ends. */
static bool obey(struct frame *frame, int key)
{
    switch (key) {
    case 'q':
    case 'Q':
    case 4: /* Ctrl-D */
        return true;
    case 'j':
        frame->skip += frame->skip + frame->rows_max < frame->rows;
        return false;
    case 'k':
        frame->skip -= frame->skip > 0;
        return false;
    default:
        return false;
    }
}

static int run_screen(struct frame *frame, int64_t interval_ms, int64_t count)
{
    bool over = false;
    int64_t drawn = 0;

    if (!screen_open()) {
        out_complain("the terminal cannot be used as a screen");
        return EXIT_ERROR;
    }
    while (!over && !stop_requested() && !out_failed()) {
        draw(frame);
        drawn++;
        over = drawn == count;
        if (!over) {
            over = obey(frame, screen_key(interval_ms));
        }
    }
    screen_close();
    return EXIT_OK;
}

/* ---- Without a screen ------------------------------------------------------------------------ */

static hf_status print_json(struct cli *cli)
{
    hf_stats stats = {.size = sizeof stats};
    hf_status status = hf_stats_get(cli->bus, &stats);

    return status ? status : stats_json(cli->bus, &stats);
}

static int run_plain(struct frame *frame, int64_t interval_ms, int64_t count)
{
    hf_status status = HF_OK;

    stop_catch();
    frame->columns = PLAIN_COLUMNS;
    frame->rows_max = INT64_MAX;
    for (int64_t i = 0; i < count && !status && !stop_requested() && !out_failed(); i++) {
        if (i > 0) {
            stop_wait(-1, interval_ms);
        }
        if (frame->cli->json) {
            status = print_json(frame->cli);
        } else {
            status = make_frame(frame);
            printf("%s%s", i > 0 ? "\n" : "", status ? "" : buf_terminate(&frame->out));
        }
        fflush(stdout);
    }
    return cli_fail(status);
}

static int run_top(struct cli *cli)
{
    const struct args *args = &cli->args;
    int64_t interval_ms = args_number(args, "interval", INTERVAL_MS);
    int64_t count = args_number(args, "count", -1);
    struct frame frame = {.cli = cli};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    frame.screen = !cli->json && screen_possible();
    buf_init(&frame.out, FRAME_BYTES_MAX);
    code = frame.screen ? run_screen(&frame, interval_ms, count)
                        : run_plain(&frame, interval_ms, count == -1 ? 1 : count);
    buf_release(&frame.out);
    return code;
}

static const struct option_row top_options[] = {
    {"interval", 0, OPTION_DURATION, "TIME", NULL, 100, 3600000, "how often it looks (2s)"},
    {"count", 'n', OPTION_NUMBER, "N", NULL, 1, INT64_MAX,
     "end after so many looks (at a terminal: never, else 1)"},
    OPTION_END,
};

const struct command command_top = {
    .name = "top",
    .usage = "",
    .summary = "shows the subscriptions and what waits, live",
    .examples = "  holdfast top\n"
                "  holdfast top --interval 500ms\n"
                "  holdfast top --count 60 --json >> numbers.jsonl\n",
    .details = "Keys: q ends it, j and k scroll. Without a terminal it prints one look as text;\n"
               "with --json the object of `stats --json`.\n",
    .options = top_options,
    .run = run_top,
};
