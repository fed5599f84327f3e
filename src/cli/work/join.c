/*
 * join.c - from a plan to handlers of the bus.
 *
 * A subscription is prepared (what its handler needs is opened), stored (it becomes what the file
 * says, or fits the command line), and then registered, from when on the bus runs its handler. The
 * three are apart so that a plan which cannot be carried out is refused before anything of it runs.
 */
#include "cli/work/work.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/glob.h"
#include "cli/config/suboptions.h"
#include "cli/core/args_value.h"
#include "cli/terminal/out.h"
#include "cli/work/handlers.h"

/* ---- Items ----------------------------------------------------------------------------------- */

struct work_source *work_source_new(void)
{
    struct work_source *source = mem_calloc(1, sizeof *source);

    if (!source) {
        out_complain("out of memory");
        return NULL;
    }
    source->users = 1;
    return source;
}

void work_source_put(struct work_source *source)
{
    if (source && --source->users == 0) {
        config_release(&source->config);
        mem_free(source);
    }
}

struct work_item *work_item_new(struct work *work)
{
    struct work_item *item = mem_calloc(1, sizeof *item);

    if (!item) {
        out_complain("out of memory");
        return NULL;
    }
    item->source = work->source;
    item->source->users++;
    work->items[work->count++] = item;
    return item;
}

void work_item_free(struct work_item *item)
{
    if (item) {
        deliver_release(&item->deliver);
        work_source_put(item->source);
        mem_free(item);
    }
}

void work_release(struct work *work)
{
    work_forget_handlers(work);
    work_sweep(work);
    for (size_t i = 0; i < work->count; i++) {
        work_item_free(work->items[i]);
    }
    work->count = 0;
    work_source_put(work->source);
    work_source_put(work->first);
    work->source = NULL;
    work->first = NULL;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static int open_webhook(struct work *work, struct work_item *item)
{
    struct deliver *deliver = &item->deliver;

    if (!item->webhook.url) {
        return EXIT_OK;
    }
    deliver->client = webhook_client(work->cli);
    if (!deliver->client) {
        return EXIT_UNAVAILABLE;
    }
    item->webhook.log = work_log_record;
    item->webhook.log_ctx = work->log;
    if (deliver->client->open(&item->webhook, &deliver->webhook)) {
        out_complain("subscription %s: %s", item->name, err_message());
        return EXIT_ERROR;
    }
    return EXIT_OK;
}

int work_prepare_item(struct work *work, struct work_item *item)
{
    struct deliver *deliver = &item->deliver;

    deliver->stop_grace_ms = work->margin_ms * 2 / 3;
    deliver->url = work->cli->url;
    deliver->logs_output = work->serves;
    if (!deliver_init(deliver)) {
        out_complain("out of memory");
        return EXIT_ERROR;
    }
    return output_open(&deliver->output, item->output) ? open_webhook(work, item) : EXIT_ERROR;
}

/* ---- Storing --------------------------------------------------------------------------------- */

static int note_stored(const hf_subscription_info *info, void *ctx)
{
    struct work_stored *stored = ctx;

    stored->exists = true;
    stored->created_at_us = info->created_at_us;
    stored->options = info->options;
    stored->pattern_count = 0;
    for (size_t i = 0; i < info->pattern_count && i < HF_PATTERNS_MAX; i++) {
        snprintf(stored->patterns[stored->pattern_count++], HF_TYPE_BYTES_MAX + 1, "%s",
                 info->patterns[i]);
    }
    return 0;
}

static bool is_covered(const struct work_item *item, const char *stored)
{
    for (size_t i = 0; i < item->pattern_count; i++) {
        if (glob_check_pattern(text_of(item->patterns[i])) == HF_OK &&
            glob_covers(text_of(item->patterns[i]), text_of(stored))) {
            return true;
        }
    }
    return false;
}

/* The stored subscription and the command line must fit; 0 or the exit code. */
static int check_fit(const struct args *args, struct work_item *item)
{
    struct work_stored *stored = &item->stored;

    if (!stored->exists && item->pattern_count == 0) {
        return args_usage(args,
                          "subscription %s does not exist yet: say which types it takes with "
                          "--on",
                          item->name);
    }
    if (!stored->exists && item->options.from.kind == HF_PLACE_NONE) {
        return args_usage(args,
                          "subscription %s does not exist yet: say where it starts with "
                          "--from start, now, a position or a time",
                          item->name);
    }
    if (item->pattern_count == 0) {
        for (size_t i = 0; i < stored->pattern_count; i++) {
            item->patterns[item->pattern_count++] = stored->patterns[i];
        }
    }
    for (size_t i = 0; stored->exists && i < stored->pattern_count; i++) {
        if (!is_covered(item, stored->patterns[i])) {
            return args_usage(args,
                              "subscription %s also takes '%s', which --on does not cover, "
                              "so nothing would be delivered; add --on '%s', or change the "
                              "subscription with `holdfast sub create`",
                              item->name, stored->patterns[i], stored->patterns[i]);
        }
    }
    return 0;
}

/* Makes the stored subscription what the file says. */
static int declare(struct work *work, struct work_item *item)
{
    hf_status status = hf_subscription_create(work->cli->bus, item->name, item->patterns,
                                              item->pattern_count, &item->options, NULL);

    if (status) {
        out_complain("%s:%d: subscription %s: %s", work->file, item->line, item->name, hf_errmsg());
    }
    return cli_exit_code(status);
}

/* A command cannot run inside a transaction of the database. */
static int refuse_transactional(const struct work *work, const struct work_item *item)
{
    bool stored = item->stored.exists && item->stored.options.transactional == HF_ON;
    if (!stored && item->options.transactional != HF_ON) {
        return EXIT_OK;
    }
    return args_usage(&work->cli->args,
                      "subscription %s is transactional: its handlers run inside a "
                      "transaction of the database, which a command cannot",
                      item->name);
}

int work_check_item(struct work *work, struct work_item *item)
{
    hf_status status = hf_subscription_get(work->cli->bus, item->name, note_stored, &item->stored);
    int code;

    if (status && status != HF_NOTFOUND) {
        return cli_fail(status);
    }
    code = refuse_transactional(work, item);
    return code ? code : work_assign_check(work, item);
}

int work_store_item(struct work *work, struct work_item *item)
{
    if (!item->stored.exists) {
        suboptions_for_commands(&item->options);
    }
    return work->file ? declare(work, item) : check_fit(&work->cli->args, item);
}

/* ---- Registering ----------------------------------------------------------------------------- */

/* How the handlers of a subscription run, now that its stored options are known. */
static int plan_runs(const struct work *work, struct work_item *item)
{
    struct deliver *deliver = &item->deliver;
    hf_status status = hf_subscription_get(work->cli->bus, item->name, note_stored, &item->stored);

    if (status) {
        return cli_fail(status);
    }
    deliver->handler_timeout_ms = item->stored.options.handler_timeout_ms;
    deliver->timeout_option = work->file ? "handler.timeout" : "--timeout";
    deliver->inherit_stdout = !work->serves && work->count == 1 &&
                              item->stored.options.concurrency == 1 && !deliver->output.path;
    return EXIT_OK;
}

/* Without a file it is stored by being registered; else it is there, and events may come at
 * once. */
int work_register_item(struct work *work, struct work_item *item)
{
    int code = EXIT_OK;

    item->batches |=
        !work->file && item->stored.exists && item->stored.options.batch_by == HF_BATCH_KEY;
    if (!work->file) {
        code = work_attach(work, item);
    }
    code = code ? code : plan_runs(work, item);
    code = code ? code : work_assign(work, item);
    return code || !work->file ? code : work_attach(work, item);
}

/* ---- All of it ------------------------------------------------------------------------------- */

int work_prepare(struct work *work)
{
    int code = EXIT_OK;

    for (size_t i = 0; i < work->count && !code; i++) {
        code = work_prepare_item(work, work->items[i]);
    }
    return code;
}

int work_join(struct work *work)
{
    int code = EXIT_OK;

    for (size_t i = 0; i < work->count && !code; i++) {
        code = work_check_item(work, work->items[i]);
        code = code ? code : work_store_item(work, work->items[i]);
        code = code ? code : work_register_item(work, work->items[i]);
    }
    return !code && work->file ? work_declare(work) : code;
}

void work_drain(struct work *work, int64_t until_us)
{
    for (size_t i = 0; i < work->count; i++) {
        atomic_store(&work->items[i]->deliver.drain_until_us, until_us);
    }
    for (struct work_item *item = work->retired; item; item = item->next) {
        atomic_store(&item->deliver.drain_until_us, until_us);
    }
}
