/*
 * import.c - reads lines, collects them into batches, publishes each batch in one transaction.
 *
 * The promise: events enter the log in the order of the lines; when the import ends early, the
 * lines before the one it names are published and no other is. So a mistake found while reading
 * first publishes what is complete, and a batch that the bus refuses is published again line by
 * line to find the one that is at fault. A batch whose outcome is unknown is sent again with the
 * ids that were tried. A pipe that pauses does not hold up the lines that have come: they are
 * published as a smaller batch.
 *
 * An event that is in the log already is a duplicate if it was there before this import, or came
 * from elsewhere, and a repeat if an earlier line brought it. It is neither if its id was made for
 * this line: then the first try stored it, and only the answer was lost. An event whose id the line
 * gives counts as a duplicate then, because the import cannot tell which of the two it is. The
 * import remembers the positions that it has published, as ranges: one range as long as no other
 * program publishes. An event whose unique key another one has counts by the same rule: as a repeat
 * if that one is of an earlier line, else as a duplicate.
 */
#include "cli/command/import.h"

#include "base/arena.h"
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/terminal/lines.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"
#include "json/new_event.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define TRIES_MAX 5     /* of a batch whose publishing may succeed later */
#define LIVE_WAIT_MS 20 /* no line for so long: publish what there is */
#define LINE_BYTES_MAX (CLI_PAYLOAD_BYTES_MAX + (int64_t)1048576)

#define RANGES_MAX 65536 /* then the last one grows, over positions of other publishers */

/* Positions that were published one after the other. */
struct range {
    int64_t first;
    int64_t last;
};

struct import {
    hf_bus *bus;
    const char *name; /* of the file, for messages */
    struct lines input;
    int64_t file_bytes;         /* 0: not known */
    int64_t line_number;        /* of the line read last */
    struct arena arena;         /* texts of the batch */
    hf_new_event *events;       /* IMPORT_BATCH_LINES */
    int64_t *lines;             /* their line numbers */
    char (*tried)[HF_ID_BYTES]; /* ids that were made by a try whose outcome is unknown; "": none */
    hf_receipt *receipts;
    size_t count;       /* of the batch */
    size_t bytes;       /* of the batch */
    int64_t published;  /* new in the log */
    int64_t duplicates; /* in the log, but not from an earlier line */
    int64_t repeats;    /* of earlier lines */
    int64_t later;      /* kept until their time */
    int64_t lowest;     /* position of all these events; -1: none yet */
    int64_t highest;
    struct range *own; /* RANGES_MAX, ascending: what this import has published */
    size_t own_count;
    int64_t done_line; /* all lines up to here are in the log */
    struct progress progress;
};

static int complain_line(struct import *import, int64_t line, hf_status status)
{
    progress_end(&import->progress);
    out_complain("%s:%" PRId64 ": %s", import->name, line, hf_errmsg());
    return status == HF_INVALID ? EXIT_ERROR : cli_exit_code(status);
}

/* Positions come in ascending order. */
static void remember_own(struct import *import, int64_t position)
{
    struct range *last = import->own_count > 0 ? &import->own[import->own_count - 1] : NULL;

    if (last && (position == last->last + 1 || import->own_count == RANGES_MAX)) {
        last->last = position;
    } else {
        import->own[import->own_count++] = (struct range){position, position};
    }
}

static bool is_own(const struct import *import, int64_t position)
{
    size_t low = 0;
    size_t high = import->own_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (import->own[middle].last < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < import->own_count && import->own[low].first <= position;
}

/* Whether the line's event is in the log, or kept, because of this line. A try whose answer was
 * lost has stored it, unless another event has its unique key. */
static bool is_new(const struct import *import, size_t i)
{
    const hf_receipt *receipt = &import->receipts[i];
    return !receipt->duplicate ||
           (import->tried[i][0] && strcmp(receipt->id, import->tried[i]) == 0);
}

static void count_receipts(struct import *import, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++) {
        int64_t position = import->receipts[i].position;
        if (is_new(import, i) && position == 0) {
            import->later++;
        } else if (is_new(import, i)) {
            import->published++;
            remember_own(import, position);
        } else if (is_own(import, position)) {
            import->repeats++;
        } else {
            import->duplicates++;
        }
        if (position > 0 && (import->lowest < 0 || position < import->lowest)) {
            import->lowest = position;
        }
        if (position > import->highest) {
            import->highest = position;
        }
    }
    import->done_line = import->lines[from + count - 1];
}

/* It is not known whether these events were stored: the next try is with the same ids. */
static void keep_ids(struct import *import, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++) {
        if (!import->events[i].id) {
            memcpy(import->tried[i], import->receipts[i].id, HF_ID_BYTES);
            import->events[i].id = import->tried[i];
        }
    }
}

/* Says with which ids lines were tried that may be in the log. */
static void say_ids(struct import *import, size_t from, size_t count)
{
    progress_end(&import->progress);
    for (size_t i = from; i < from + count; i++) {
        out_complain("%s:%" PRId64 ": may be in the log, with id %s", import->name,
                     import->lines[i], import->receipts[i].id);
    }
}

/* Publishes events [from, from + count) in one transaction, again if it may help. */
static hf_status publish_range(struct import *import, size_t from, size_t count)
{
    hf_status status = HF_OK;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        if (count == 1) { /* its message needs no index */
            status = hf_publish(import->bus, import->events + from, import->receipts + from);
        } else {
            status =
                hf_publish_many(import->bus, import->events + from, count, import->receipts + from);
        }
        if (!status) {
            count_receipts(import, from, count);
        }
        if (status == HF_UNKNOWN) {
            keep_ids(import, from, count);
        }
        if (status != HF_TIMEOUT && status != HF_UNKNOWN && status != HF_BUSY) {
            return status;
        }
        if (stop_requested()) {
            break;
        }
    }
    if (status == HF_UNKNOWN) {
        say_ids(import, from, count);
    }
    return status;
}

/* Publishes events [from, from + count). 0, or the exit code after the complaint. */
static int publish_run(struct import *import, size_t from, size_t count)
{
    hf_status status = publish_range(import, from, count);
    int code = 0;

    if (status == HF_INVALID || status == HF_CONFLICT) {
        /* One of them is at fault. Alone, each is accepted or named. */
        status = HF_OK;
        for (size_t i = from; i < from + count && !status; i++) {
            status = publish_range(import, i, 1);
            if (status) {
                code = complain_line(import, import->lines[i], status);
            }
        }
    } else if (status) {
        code = complain_line(import, import->lines[from], status);
    }
    return code;
}

/* How many events from this one on go into one transaction. One for later goes by itself. */
static size_t run_length(const struct import *import, size_t from)
{
    size_t end = from;

    while (end < import->count && import->events[end].deliver_at_us == -1) {
        end++;
    }
    return end > from ? end - from : 1;
}

/* 0, or the exit code after the complaint. */
static int flush_batch(struct import *import)
{
    int code = 0;
    size_t length = 0;

    if (import->count == 0) {
        return 0;
    }
    for (size_t from = 0; from < import->count && !code; from += length) {
        length = run_length(import, from);
        code = publish_run(import, from, length);
    }
    import->count = 0;
    import->bytes = 0;
    arena_clear(&import->arena);
    progress_update(&import->progress,
                    import->published + import->duplicates + import->repeats + import->later,
                    import->input.read_bytes, import->file_bytes);
    return code;
}

static bool is_blank(struct text line)
{
    for (size_t i = 0; i < line.length; i++) {
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t') {
            return false;
        }
    }
    return true;
}

/* Adds a line to the batch, and publishes the batch if it is full. */
static int import_line(struct import *import, struct text line)
{
    char message[HF_ERR_BYTES_MAX];
    struct text copy = arena_text(&import->arena, line); /* of which the payload is a part */
    hf_status status = arena_status(&import->arena);
    int code;

    if (!status) {
        status = new_event_read(copy, "the line", &import->arena, &import->events[import->count]);
    }

    if (status) {
        snprintf(message, sizeof message, "%s", hf_errmsg());
        code = flush_batch(import);
        if (code) {
            return code;
        }
        err_set(status, message);
        return complain_line(import, import->line_number, status);
    }
    import->tried[import->count][0] = '\0';
    import->lines[import->count++] = import->line_number;
    import->bytes += line.length;
    if (import->count < IMPORT_BATCH_LINES && import->bytes < IMPORT_BATCH_BYTES) {
        return 0;
    }
    return flush_batch(import);
}

/* What ended the reading early, after the batch so far was published. */
static int end_reading(struct import *import, enum lines_result result)
{
    int error = errno;
    int code = flush_batch(import);

    if (code) {
        return code;
    }
    progress_end(&import->progress);
    if (result == LINES_TOO_LONG) {
        out_complain("%s:%" PRId64 ": the line is longer than %" PRId64 " bytes", import->name,
                     import->line_number + 1, (int64_t)LINE_BYTES_MAX);
        return EXIT_ERROR;
    }
    if (result == LINES_FAILED) {
        out_complain("cannot read %s: %s", import->name, strerror(error));
        return EXIT_ERROR;
    }
    if (import->line_number < import->done_line) {
        out_complain("%s has %" PRId64 " lines, so there is nothing from line %" PRId64 " on",
                     import->name, import->line_number, import->done_line + 1);
        return EXIT_USAGE;
    }
    return 0;
}

static int import_lines(struct import *import, int64_t first_line)
{
    while (!stop_requested()) {
        struct text line;
        enum lines_result result =
            lines_next(&import->input, import->count > 0 ? LIVE_WAIT_MS : -1, &line);
        int code = 0;

        if (result == LINES_NONE) {
            code = flush_batch(import);
        } else if (result != LINES_LINE) {
            return end_reading(import, result);
        } else if (++import->line_number >= first_line && !is_blank(line)) {
            code = import_line(import, line);
        }
        if (code) {
            return code;
        }
    }
    return flush_batch(import);
}

static void print_summary(const struct cli *cli, const struct import *import)
{
    struct show_line line;

    if (!cli->json) {
        printf("published %" PRId64 ", duplicates %" PRId64, import->published, import->duplicates);
        if (import->repeats > 0) {
            printf(", repeated lines %" PRId64, import->repeats);
        }
        if (import->later > 0) {
            printf(", for later %" PRId64, import->later);
        }
        if (import->lowest >= 0) {
            printf(", positions %" PRId64 " to %" PRId64, import->lowest, import->highest);
        }
        printf("\n");
        return;
    }
    struct json_out *json = show_line_begin(&line);
    show_int(json, "published", import->published);
    show_int(json, "duplicates", import->duplicates);
    show_int(json, "repeats", import->repeats);
    show_int(json, "later", import->later);
    show_int(json, "first_position", import->lowest);
    show_int(json, "last_position", import->highest);
    show_int(json, "last_line", import->done_line);
    show_line_end(&line);
}

static int run_import(struct cli *cli, struct import *import, int64_t first_line)
{
    int code;

    stop_catch();
    progress_begin(&import->progress, "events");
    code = import_lines(import, first_line);
    progress_end(&import->progress);
    print_summary(cli, import);
    fflush(stdout);
    if (!code && stop_requested()) {
        out_complain("interrupted");
        code = EXIT_ERROR;
    }
    if (code && (import->lowest >= 0 || import->later > 0)) {
        out_hint("All lines up to %" PRId64 " are published. Go on with --from-line %" PRId64 ".",
                 import->done_line, import->done_line + 1);
    } else if (code) {
        out_hint("No line was published.");
    }
    return code;
}

static int import_from(struct cli *cli, int fd, const char *name, int64_t first_line)
{
    struct import import = {
        .bus = cli->bus, .name = name, .lowest = -1, .highest = -1, .done_line = first_line - 1};
    struct stat info;
    int code = EXIT_ERROR;

    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        import.file_bytes = info.st_size;
    }
    lines_init(&import.input, fd, LINE_BYTES_MAX);
    arena_init(&import.arena, (size_t)2 * LINE_BYTES_MAX);
    import.events = mem_calloc(IMPORT_BATCH_LINES, sizeof *import.events);
    import.lines = mem_calloc(IMPORT_BATCH_LINES, sizeof *import.lines);
    import.tried = mem_calloc(IMPORT_BATCH_LINES, sizeof *import.tried);
    import.receipts = mem_calloc(IMPORT_BATCH_LINES, sizeof *import.receipts);
    import.own = mem_calloc(RANGES_MAX, sizeof *import.own);
    if (import.events && import.lines && import.tried && import.receipts && import.own) {
        code = run_import(cli, &import, first_line);
    } else {
        out_complain("out of memory");
    }
    mem_free(import.own);
    mem_free(import.receipts);
    mem_free(import.tried);
    mem_free(import.lines);
    mem_free(import.events);
    arena_release(&import.arena);
    lines_release(&import.input);
    return code;
}

int import_file(struct cli *cli, const hf_options *options, const char *path, int64_t first_line)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int code;

    if (fd < 0) {
        out_complain("cannot open %s: %s", path, strerror(errno));
        return EXIT_ERROR;
    }
    code = cli_open_with(cli, options);
    if (!code) {
        code = import_from(cli, fd, is_stdin ? "stdin" : path, first_line);
    }
    if (!is_stdin) {
        close(fd);
    }
    return code;
}
