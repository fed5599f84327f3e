/*
 * dlq_act.c - the commands that change dead letters: `dlq retry`, `edit`, `resolve`, `purge`.
 *
 * Retrying all at a rate goes oldest first, as the bus does without a rate: the numbers that match
 * are collected newest first and then worked off from the end. What others have retried
 * meanwhile is passed over. Ctrl-C stops between two.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "cli/command/dlq.h"
#include "cli/core/args_value.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"

#define COLLECT_MAX 10000000 /* dead letters of one retry at a rate */

static void print_count(const struct cli *cli, const char *what, int64_t count, bool dry_run)
{
    struct show_line line;

    if (!cli->json) {
        printf("%" PRId64 " %s%s\n", count, dry_run ? "would be " : "", what);
        return;
    }
    struct json_out *json = show_line_begin(&line);
    show_int(json, what, count);
    show_bool(json, "dry_run", dry_run);
    show_line_end(&line);
}

/* Opens the bus if every word is the number of a dead letter. An exit code; 0: it is open. */
static int open_for_ids(struct cli *cli)
{
    const struct args *args = &cli->args;

    for (size_t i = 0; i < args->word_count; i++) {
        int64_t dead_id;
        int code = dlq_id(cli, args->words[i], &dead_id);
        if (code) {
            return code;
        }
    }
    return cli_open(cli, HF_OPEN_EXISTING);
}

/* ---- retry ----------------------------------------------------------------------------------- */

/* The numbers that match, newest first. */
struct collection {
    int64_t *ids;
    size_t count;
    size_t capacity;
    bool failed;
};

static int collect_one(const hf_dead_letter *letter, void *ctx)
{
    struct collection *all = ctx;

    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? all->capacity * 2 : 1024;
        int64_t *ids =
            capacity <= COLLECT_MAX ? mem_realloc(all->ids, capacity * sizeof *ids) : NULL;
        if (!ids) {
            all->failed = true;
            return 1;
        }
        all->ids = ids;
        all->capacity = capacity;
    }
    all->ids[all->count++] = letter->dead_id;
    return stop_requested();
}

/* One after another, the oldest first, `rate` per second. */
static int retry_paced(struct cli *cli, const struct collection *all, double rate,
                       int64_t *ret_count)
{
    struct progress progress;
    int64_t started_us = clock_mono_us();
    hf_status status = HF_OK;

    progress_begin(&progress, "retried");
    for (size_t i = 0; i < all->count; i++) {
        int64_t due_us = started_us + (int64_t)((double)i * 1e6 / rate);

        while (!stop_requested() && clock_mono_us() < due_us) {
            stop_wait(-1, (due_us - clock_mono_us() + 999) / 1000);
        }
        if (stop_requested()) {
            break;
        }
        status = hf_dead_retry(cli->bus, all->ids[all->count - 1 - i], NULL, 0);
        if (!status) {
            ++*ret_count;
        } else if (status == HF_NOTFOUND ||
                   status == HF_CONFLICT) { /* gone or resolved meanwhile */
            status = HF_OK;
        } else {
            break;
        }
        progress_update(&progress, *ret_count, (int64_t)i + 1, (int64_t)all->count);
    }
    progress_end(&progress);
    return cli_fail(status);
}

static int retry_at_rate(struct cli *cli, const hf_dead_filter *filter, double rate)
{
    struct collection all = {NULL, 0, 0, false};
    int64_t count = 0;
    int code;

    stop_catch();
    code = cli_fail(dlq_each(cli->bus, filter, collect_one, &all));
    if (!code && all.failed) {
        out_complain("too many dead letters at once; narrow the filter");
        code = EXIT_ERROR;
    }
    if (!code) {
        code = retry_paced(cli, &all, rate, &count);
    }
    if (!all.failed) {
        print_count(cli, "retried", count, false);
    }
    if (!code && stop_requested()) {
        out_complain("interrupted");
        code = EXIT_ERROR;
    }
    mem_free(all.ids);
    return code;
}

static int retry_all(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_dead_filter filter = dlq_filter(cli);
    double rate = args_decimal(args, "rate", 0);
    int64_t count = 0;
    hf_status status;

    if (args_given(args, "dry-run")) {
        status = hf_dead_count(cli->bus, &filter, &count);
    } else if (rate > 0) {
        return retry_at_rate(cli, &filter, rate);
    } else {
        status = hf_dead_retry_all(cli->bus, &filter, &count);
    }
    if (!status || count > 0) {
        print_count(cli, "retried", count, args_given(args, "dry-run"));
    }
    return cli_fail(status);
}

static int note_one(const hf_dead_letter *letter, void *ctx)
{
    (void)letter;
    (void)ctx;
    return 0;
}

static int retry_named(struct cli *cli)
{
    const struct args *args = &cli->args;
    bool dry_run = args_given(args, "dry-run");
    int64_t count = 0;
    int worst = EXIT_OK;

    for (size_t i = 0; i < args->word_count; i++) {
        int64_t dead_id = 0;
        int code = dlq_id(cli, args->words[i], &dead_id);
        if (code) {
            return code;
        }
        code = cli_fail(dry_run ? hf_dead_get(cli->bus, dead_id, note_one, NULL)
                                : hf_dead_retry(cli->bus, dead_id, NULL, 0));
        if (code == EXIT_OK) {
            count++;
        } else if (worst == EXIT_OK) {
            worst = code;
        }
    }
    print_count(cli, "retried", count, dry_run);
    return worst;
}

static int run_retry(struct cli *cli)
{
    const struct args *args = &cli->args;
    bool all = args_given(args, "all");
    int code;

    if (all == (args->word_count > 0)) {
        return args_usage(args, "name dead letters by their ID, or say --all (with a filter)");
    }
    if (!all && (dlq_filter_given(cli) || args_given(args, "rate"))) {
        return args_usage(args, "a filter or --rate goes with --all");
    }
    code = open_for_ids(cli);
    if (code) {
        return code;
    }
    return all ? retry_all(cli) : retry_named(cli);
}

static const struct option_row retry_options[] = {
    {"all", 0, OPTION_FLAG, NULL, NULL, 0, 0, "all that match the filter, the oldest first"},
    {"rate", 0, OPTION_RATE, "N/s", NULL, 0, 0, "at most so many per second (50/s, 100/m)"},
    {"dry-run", 0, OPTION_FLAG, NULL, NULL, 0, 0, "change nothing; say how many there are"},
    OPTION_END,
};

const struct command command_dlq_retry = {
    .name = "dlq retry",
    .usage = "[ID...]",
    .summary = "delivers dead letters again with a clean record",
    .examples = "  holdfast dlq retry 17 18\n"
                "  holdfast dlq retry --all --subscription mailer --dry-run\n"
                "  holdfast dlq retry --all --error 'connection refused' --rate 50/s\n",
    .options = retry_options,
    .more = dlq_filter_rows,
    .words_max = ARGS_WORDS_MAX,
    .run = run_retry,
};

/* ---- edit ------------------------------------------------------------------------------------ */

static int run_edit(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *given = args_text(args, "payload");
    const char *payload = NULL;
    size_t payload_bytes = 0;
    char *owned = NULL;
    int64_t dead_id = 0;
    int code = dlq_id(cli, args->words[0], &dead_id);

    if (code) {
        return code;
    }
    if (!given) {
        return args_usage(args, "the new payload is missing: --payload JSON, or --payload - for "
                                "stdin");
    }
    if (!cli_payload(given, &payload, &payload_bytes, &owned)) {
        return EXIT_ERROR;
    }
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (!code) {
        code = cli_fail(hf_dead_retry(cli->bus, dead_id, payload, payload_bytes));
    }
    if (!code) {
        print_count(cli, "retried", 1, false);
    }
    mem_free(owned);
    return code;
}

static const struct option_row edit_options[] = {
    {"payload", 0, OPTION_TEXT, "JSON", NULL, 0, 0, "the payload to deliver instead; - is stdin"},
    OPTION_END,
};

const struct command command_dlq_edit = {
    .name = "dlq edit",
    .usage = "ID --payload JSON",
    .summary = "delivers a dead letter again with another payload",
    .examples = "  holdfast dlq edit 17 --payload '{\"id\": 1, \"email\": \"a@example.org\"}'\n"
                "  holdfast dlq show 17 --json | jq -c '.event.payload | .email = \"x\"' |\n"
                "      holdfast dlq edit 17 --payload -\n",
    .details = "The event in the log stays as it was published.\n",
    .options = edit_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_edit,
};

/* ---- resolve --------------------------------------------------------------------------------- */

static int run_resolve(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *by = args_text(args, "by");
    int64_t count = 0;
    int64_t dead_id = 0;
    int worst = EXIT_OK;
    int code;

    if (!by) {
        by = getenv("USER");
    }
    code = open_for_ids(cli);
    if (code) {
        return code;
    }
    for (size_t i = 0; i < args->word_count; i++) {
        dlq_id(cli, args->words[i], &dead_id);
        code = cli_fail(hf_dead_resolve(cli->bus, dead_id, by, args_text(args, "note")));
        if (code == EXIT_OK) {
            count++;
        } else if (worst == EXIT_OK) {
            worst = code;
        }
    }
    print_count(cli, "resolved", count, false);
    return worst;
}

static const struct option_row resolve_options[] = {
    {"note", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "what was done about it"},
    {"by", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "who did it ($USER)"},
    OPTION_END,
};

const struct command command_dlq_resolve = {
    .name = "dlq resolve",
    .usage = "ID...",
    .summary = "marks dead letters as dealt with; they stay until purged",
    .examples = "  holdfast dlq resolve 17 --note 'refunded by hand'\n",
    .options = resolve_options,
    .words_min = 1,
    .words_max = ARGS_WORDS_MAX,
    .run = run_resolve,
};

/* ---- purge ----------------------------------------------------------------------------------- */

static int run_purge(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_dead_filter filter = dlq_filter(cli);
    bool dry_run = args_given(args, "dry-run");
    int64_t count = 0;
    hf_status status;
    int code;

    if (!dlq_filter_given(cli) && !args_given(args, "all")) {
        return args_usage(args, "which ones? Give a filter such as --older-than 30d, or --all");
    }
    filter.resolved = args_given(args, "open-only") ? HF_OFF : HF_ON;
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    code = cli_fail(hf_dead_count(cli->bus, &filter, &count));
    if (code) {
        return code;
    }
    if (!dry_run && count > 0) {
        code = cli_confirm(cli, "Delete %" PRId64 " dead letter%s for ever", count,
                           count == 1 ? "" : "s");
        if (code) {
            return code;
        }
        count = 0;
        status = hf_dead_purge(cli->bus, &filter, &count);
        code = cli_fail(status);
    }
    print_count(cli, "purged", count, dry_run);
    return code;
}

static const struct option_row purge_options[] = {
    {"all", 0, OPTION_FLAG, NULL, NULL, 0, 0, "all of the namespace"},
    {"open-only", 0, OPTION_FLAG, NULL, NULL, 0, 0, "keep those that are resolved"},
    {"dry-run", 0, OPTION_FLAG, NULL, NULL, 0, 0, "change nothing; say how many there are"},
    CLI_OPTION_YES,
    OPTION_END,
};

const struct command command_dlq_purge = {
    .name = "dlq purge",
    .usage = "",
    .summary = "deletes dead letters that match, open and resolved ones",
    .examples = "  holdfast dlq purge --older-than 30d\n"
                "  holdfast dlq purge --subscription mailer --all --dry-run\n"
                "  holdfast dlq purge --older-than 90d --yes\n",
    .options = purge_options,
    .more = dlq_filter_rows,
    .run = run_purge,
};
