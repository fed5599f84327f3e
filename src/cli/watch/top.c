/*
 * top.c - the command `top`: the subscriptions of a namespace, live.
 *
 * A frame is made in memory and written at once, so the screen does not flicker. It fits the
 * terminal: names are cut, numbers never; columns that a narrow terminal has no room for are left
 * out, and rows that there is no room for are counted below. A line is cleared before it is
 * written: a terminal whose last column was written clears that one, too, when it is told to clear
 * the rest of the line. A database that does not answer is reported on the screen, and asked again.
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
#include "cli/terminal/out.h"
#include "cli/terminal/screen.h"
#include "cli/terminal/stop.h"
#include "cli/terminal/table.h"
#include "cli/watch/stats.h"
#include "cli/watch/sub_state.h"

#define FRAME_BYTES_MAX ((size_t)16 << 20)
#define INTERVAL_MS 2000
#define HEAD_ROWS 5 /* above the rows of subscriptions */
#define NAME_WIDTH_MIN 8
#define PLAIN_COLUMNS 80
#define CLOCK_COLUMNS 22 /* what the time of the first line takes, with a gap */

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
    bool hidden; /* the subscriptions, from the role of the server */
};

/* Beside the name, from left to right. `needs`: a terminal with fewer columns does not have it. */
enum column {
    COLUMN_STATE,
    COLUMN_PENDING,
    COLUMN_OLDEST,
    COLUMN_RATE,
    COLUMN_IN_FLIGHT,
    COLUMN_RETRYING,
    COLUMN_DEAD,
    COLUMNS
};

static const struct {
    const char *title;
    int width; /* negative: on the left */
    int needs;
} columns[COLUMNS] = {
    [COLUMN_STATE] = {"STATE", -12, 22},    [COLUMN_PENDING] = {"PENDING", 7, 30},
    [COLUMN_OLDEST] = {"OLDEST", 7, 44},    [COLUMN_RATE] = {"POS/S", 7, 65},
    [COLUMN_IN_FLIGHT] = {"FLIGHT", 6, 57}, [COLUMN_RETRYING] = {"RETRY", 5, 50},
    [COLUMN_DEAD] = {"DEAD", 5, 36},
};

/* A row without its name. */
struct cells {
    struct buf bytes;
    size_t width; /* in columns */
};

/* ---- Making a frame -------------------------------------------------------------------------- */

/* Ends a line; on a screen what the last frame had in the next one goes. */
static void end_line(struct frame *frame)
{
    buf_append(&frame->out, frame->screen ? "\r\n\033[K" : "\n", frame->screen ? 5 : 1);
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

/* A line of its own; on a screen not longer than that. */
static void put_line(struct frame *frame, struct buf *line)
{
    const char *text = buf_terminate(line);

    if (frame->screen && out_width(text) > (size_t)frame->columns) {
        put_text(frame, text, (size_t)frame->columns);
    } else {
        buf_append(&frame->out, text, strlen(text));
    }
    end_line(frame);
    buf_clear(line);
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

static void put_cell(const struct frame *frame, struct cells *cells, enum column column,
                     const char *text, enum out_style style)
{
    char padded[2 * OUT_WORDS_BYTES];

    if (frame->columns < columns[column].needs) {
        return;
    }
    snprintf(padded, sizeof padded, "%*s", columns[column].width, text);
    buf_printf(&cells->bytes, " %s%s%s", style_on(frame, style), padded, style_off(frame, style));
    cells->width += 1 + strlen(padded);
}

/* A row: the name has the room that the other cells leave. */
static void put_cells(struct frame *frame, const char *name, struct cells *cells)
{
    size_t taken = cells->width + 1;
    size_t room = (size_t)frame->columns;

    put_text(frame, name, room < taken + NAME_WIDTH_MIN ? NAME_WIDTH_MIN : room - taken);
    buf_char(&frame->out, ' ');
    buf_append(&frame->out, buf_terminate(&cells->bytes), cells->bytes.length);
    end_line(frame);
    buf_release(&cells->bytes);
}

static int put_row(const hf_subscription_info *info, void *ctx)
{
    struct frame *frame = ctx;
    struct cells cells = {.width = 0};
    char words[OUT_WORDS_BYTES];
    int64_t row = frame->rows++;

    if (row < frame->skip || row - frame->skip >= frame->rows_max) {
        return 0;
    }
    buf_init(&cells.bytes, OUT_TABLE_CELL_BYTES_MAX);
    put_cell(frame, &cells, COLUMN_STATE, sub_state_word(info), sub_state_style(info));
    put_cell(frame, &cells, COLUMN_PENDING,
             out_at_least(info->pending, info->pending_more == 1, words), OUT_PLAIN);
    put_cell(frame, &cells, COLUMN_OLDEST, age_words(info->oldest_waiting_us, frame->now_us, words),
             OUT_PLAIN);
    put_cell(frame, &cells, COLUMN_RATE, out_rate(info->rate, words), OUT_PLAIN);
    put_cell(frame, &cells, COLUMN_IN_FLIGHT, out_number(info->in_flight, words), OUT_PLAIN);
    put_cell(frame, &cells, COLUMN_RETRYING, out_number(info->retrying, words), OUT_PLAIN);
    put_cell(frame, &cells, COLUMN_DEAD, out_number(info->dead, words),
             info->dead > 0 ? OUT_RED : OUT_PLAIN);
    put_cells(frame, info->name, &cells);
    return 0;
}

static void put_titles(struct frame *frame)
{
    struct cells cells = {.width = 0};

    buf_init(&cells.bytes, OUT_TABLE_CELL_BYTES_MAX);
    for (int i = 0; i < COLUMNS; i++) {
        put_cell(frame, &cells, (enum column)i, columns[i].title, OUT_PLAIN);
    }
    put_cells(frame, "SUBSCRIPTION", &cells);
}

/* Where this is, and when. */
static void put_place(struct frame *frame, struct buf *line)
{
    bool has_clock = frame->columns >= 2 * CLOCK_COLUMNS;
    char at[TIME_TEXT_BYTES];

    time_format(frame->now_us, at);
    buf_printf(line, "holdfast top: namespace %s",
               frame->cli->namespace_name ? frame->cli->namespace_name : "default");
    put_text(frame, buf_terminate(line),
             (size_t)(has_clock ? frame->columns - CLOCK_COLUMNS : frame->columns));
    if (has_clock) {
        buf_printf(&frame->out, "  %.19sZ", at);
    }
    end_line(frame);
    buf_clear(line);
}

static void put_head(struct frame *frame, const hf_stats *stats)
{
    char words[OUT_WORDS_BYTES];
    char nodes[OUT_WORDS_BYTES];
    char age[OUT_WORDS_BYTES];
    struct buf line;

    buf_init(&line, OUT_TABLE_CELL_BYTES_MAX);
    put_place(frame, &line);
    buf_printf(&line, "head %" PRId64 ", %s events/s, %s node%s, oldest waiting %s", stats->head,
               out_rate(stats->rate, words), out_number(stats->nodes, nodes),
               stats->nodes == 1 ? "" : "s",
               age_words(stats->oldest_waiting_us, frame->now_us, age));
    put_line(frame, &line);
    buf_printf(&line, "in flight %s", out_number(stats->in_flight, words));
    buf_printf(&line, ", retrying %s", out_number(stats->retrying, words));
    buf_printf(&line, ", held %s", out_number(stats->held, words));
    buf_printf(&line, ", dead %s", out_number(stats->dead, words));
    buf_printf(&line, ", for later %s", out_number(stats->later, words));
    if (stats->later_due + stats->schedules_due > 0) {
        buf_printf(&line, ", due %" PRId64, stats->later_due + stats->schedules_due);
    }
    put_line(frame, &line);
    end_line(frame);
    buf_release(&line);
    put_titles(frame);
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
    frame->hidden = stats.subscriptions == -1;
    if (frame->hidden) {
        buf_printf(&frame->out, "This role may not see the subscriptions.");
        end_line(frame);
    } else {
        status = hf_subscription_list(frame->cli->bus, put_row, frame);
    }
    return status ? status : buf_status(&frame->out);
}

/* ---- On a screen ----------------------------------------------------------------------------- */

static void put_foot(struct frame *frame)
{
    int64_t shown = frame->rows - frame->skip;

    shown = shown > frame->rows_max ? frame->rows_max : shown;
    if (frame->rows == 0 && !frame->hidden) {
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
    if (!status && frame->skip > 0 && frame->skip + frame->rows_max > frame->rows) {
        /* Subscriptions were removed, or there is more room: nothing is scrolled past in vain. */
        frame->skip = frame->rows > frame->rows_max ? frame->rows - frame->rows_max : 0;
        status = make_frame(frame);
    }
    if (status) {
        buf_clear(&frame->out);
        put_text(frame, hf_errmsg(), (size_t)frame->columns);
        end_line(frame);
        buf_printf(&frame->out, "\033[J");
    } else {
        put_foot(frame);
    }
    out_write(STDOUT_FILENO, "\033[H\033[K", 6);
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
