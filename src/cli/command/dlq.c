/*
 * dlq.c - the commands `dlq list` and `dlq show`, and what the dead letter commands share.
 *
 * Lists are newest first and paged by the number of the last one shown (--before), which stays
 * right while others add and remove dead letters.
 */
#include "cli/command/dlq.h"

#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define LIST_LIMIT 100
#define PAGE 1000 /* dead letters read at once */

const struct option_row dlq_filter_rows[] = {
    {"subscription", 's', OPTION_TEXT, "SUB", NULL, 0, 0, "only of this subscription"},
    {"type", 0, OPTION_TEXT, "PATTERN", NULL, 0, 0, "only types that match"},
    {"error", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "only errors that contain this text"},
    {"reason", 0, OPTION_CHOICE, "REASON", "attempts|rejected|decode|no_handler|lease|corrupt", 0,
     0, "only of this reason"},
    {"older-than", 0, OPTION_DURATION, "TIME", NULL, 0, 0,
     "only those that failed so long ago or earlier"},
    {"newer-than", 0, OPTION_DURATION, "TIME", NULL, 0, 0,
     "only those that failed since so long ago"},
    OPTION_END,
};

/* So long ago, but not before there were dead letters. */
static int64_t before(int64_t now_us, int64_t ms)
{
    return ms >= now_us / 1000 ? 0 : now_us - ms * 1000;
}

hf_dead_filter dlq_filter(const struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;

    filter.subscription = args_text(args, "subscription");
    filter.type = args_text(args, "type");
    filter.error = args_text(args, "error");
    filter.reason = args_text(args, "reason");
    if (args_given(args, "older-than")) {
        filter.failed_before_us = before(cli->started_at_us, args_number(args, "older-than", 0));
    }
    if (args_given(args, "newer-than")) {
        filter.failed_after_us = before(cli->started_at_us, args_number(args, "newer-than", 0));
    }
    return filter;
}

bool dlq_filter_given(const struct cli *cli)
{
    for (const struct option_row *row = dlq_filter_rows; row->name; row++) {
        if (args_given(&cli->args, row->name)) {
            return true;
        }
    }
    return false;
}

int dlq_id(const struct cli *cli, const char *word, int64_t *ret_dead_id)
{
    if (args_value_number(word, 1, INT64_MAX, ret_dead_id)) {
        return 0;
    }
    return args_usage(&cli->args, "'%s' is not the number of a dead letter", word);
}

/* ---- All pages ------------------------------------------------------------------------------- */

/* Reading page by page. */
struct pages {
    hf_dead_letter_fn found;
    void *ctx;
    int64_t last; /* number of the last one seen */
    int64_t seen; /* of this page */
    bool stopped;
};

static int next_letter(const hf_dead_letter *letter, void *ctx)
{
    struct pages *pages = ctx;

    pages->last = letter->dead_id;
    pages->seen++;
    pages->stopped = pages->found(letter, pages->ctx) != 0;
    return pages->stopped;
}

hf_status dlq_each(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found, void *ctx)
{
    struct pages pages = {found, ctx, -1, 0, false};
    hf_dead_filter page = *filter;
    int64_t left = filter->limit < 0 ? INT64_MAX : filter->limit;
    hf_status status = HF_OK;

    while (left > 0 && !status && !pages.stopped) {
        page.limit = left < PAGE ? (int32_t)left : PAGE;
        pages.seen = 0;
        status = hf_dead_list(bus, &page, next_letter, &pages);
        if (pages.seen < page.limit) {
            break;
        }
        left -= pages.seen;
        page.before_dead_id = pages.last;
        page.offset = -1;
    }
    return status;
}

/* ---- dlq list -------------------------------------------------------------------------------- */

static void print_json(const hf_dead_letter *letter)
{
    struct show_line line;

    show_dead_letter(show_line_begin(&line), letter);
    show_line_end(&line);
}

struct listing {
    const struct cli *cli;
    struct out_table table;
    int64_t count;
    int64_t last;
};

static int list_one(const hf_dead_letter *letter, void *ctx)
{
    struct listing *listing = ctx;
    struct out_table *table = &listing->table;
    char words[OUT_WORDS_BYTES];

    listing->count++;
    listing->last = letter->dead_id;
    if (listing->cli->json) {
        print_json(letter);
        return out_failed();
    }
    out_table_number(table, letter->dead_id);
    out_table_cell(table, letter->subscription);
    out_table_cell(table, letter->event.type);
    out_table_cell(table, letter->event.key);
    out_table_cell(table, letter->reason);
    out_table_number(table, letter->attempts);
    out_table_cell(table, out_ago(letter->failed_at_us, listing->cli->started_at_us, words));
    out_table_printf(table, "%s%.900s", letter->resolved_at_us == -1 ? "" : "[resolved] ",
                     letter->error ? letter->error : "-");
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"ID", true, 0, 0},      {"SUBSCRIPTION", false, 32, 0}, {"TYPE", false, 32, 0},
        {"KEY", false, 24, 2},   {"REASON", false, 0, 0},        {"ATTEMPTS", true, 0, 3},
        {"FAILED", false, 0, 0}, {"ERROR", false, 0, 0}};
    const struct args *args = &cli->args;
    hf_dead_filter filter = dlq_filter(cli);
    struct listing listing = {.cli = cli};
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    filter.before_dead_id = args_number(args, "before", -1);
    filter.resolved = args_given(args, "resolved") ? HF_ON : HF_OFF;
    filter.limit = (int32_t)args_number(args, "limit", LIST_LIMIT);
    if (args_given(args, "group-by")) {
        return dlq_group(cli, &filter, args_text(args, "group-by"));
    }
    out_table_init(&listing.table, columns, 8);
    code = cli_fail(dlq_each(cli->bus, &filter, list_one, &listing));
    out_table_end(&listing.table);
    fflush(stdout);
    if (!code && listing.count == 0) {
        out_say("No dead letters.");
    } else if (!code && listing.count == filter.limit) {
        out_say("There may be more: --before %" PRId64, listing.last);
    }
    return code;
}

static const struct option_row list_options[] = {
    {"group-by", 0, OPTION_CHOICE, "FIELD", SHOW_DEAD_BY, 0, 0,
     "count instead of list, the largest group first"},
    {"before", 0, OPTION_NUMBER, "ID", NULL, 1, INT64_MAX,
     "the next page: those after the one with this number"},
    {"resolved", 0, OPTION_FLAG, NULL, NULL, 0, 0, "also those that are resolved"},
    {"limit", 'n', OPTION_NUMBER, "N", NULL, 0, INT32_MAX,
     "at most so many, or so many groups (100)"},
    OPTION_END,
};

const struct command command_dlq_list = {
    .name = "dlq list",
    .usage = "",
    .summary = "lists dead letters, the newest first, or counts them",
    .examples = "  holdfast dlq list\n"
                "  holdfast dlq list --group-by error\n"
                "  holdfast dlq list --subscription mailer --error 'smtp' --limit 20\n"
                "  holdfast dlq list --before 4711\n",
    .options = list_options,
    .more = dlq_filter_rows,
    .run = run_list,
};

/* ---- dlq show -------------------------------------------------------------------------------- */

static int show_one(const hf_dead_letter *letter, void *ctx)
{
    const struct cli *cli = ctx;
    char words[OUT_WORDS_BYTES];

    if (cli->json) {
        print_json(letter);
        return 0;
    }
    show_field("dead letter", out_number(letter->dead_id, words));
    show_field("subscription", letter->subscription);
    show_field("reason", letter->reason);
    show_field("cause", letter->cause);
    show_field("error", letter->error);
    show_field("failed_at", out_time(letter->failed_at_us, words));
    if (letter->resolved_at_us != -1) {
        show_field("resolved_at", out_time(letter->resolved_at_us, words));
        show_field("resolved_by", letter->resolved_by);
        show_field("resolved_note", letter->resolved_note);
    }
    printf("attempts:          %" PRId32 "\n", letter->attempts);
    if (letter->event.deliveries != -1) {
        printf("deliveries:        %" PRId32 "\n", letter->event.deliveries);
    }
    show_attempts(letter->attempts_json);
    printf("event:\n");
    show_event_block(&letter->event, cli->started_at_us);
    return 0;
}

static int run_show(struct cli *cli)
{
    int64_t dead_id;
    int code = dlq_id(cli, cli->args.words[0], &dead_id);

    if (!code) {
        code = cli_open(cli, HF_OPEN_NOMIGRATE);
    }
    if (code) {
        return code;
    }
    return cli_fail(hf_dead_get(cli->bus, dead_id, show_one, cli));
}

const struct command command_dlq_show = {
    .name = "dlq show",
    .usage = "ID",
    .summary = "shows a dead letter: the event and every attempt's error",
    .examples = "  holdfast dlq show 17\n"
                "  holdfast dlq show 17 --json\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};
