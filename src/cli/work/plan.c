/*
 * plan.c - decides what `work` works for.
 *
 * Without a configuration file the command line names one subscription and its command; what it
 * does not say stays as it is stored. With one, the file says everything about its subscriptions,
 * and the command line chooses among them and overrides.
 */
#include "cli/work/work.h"

#include "base/banned.h"
#include "base/err.h"
#include "cli/config/check.h"
#include "cli/config/setting.h"
#include "cli/config/suboptions.h"
#include "cli/core/args_value.h"
#include "cli/core/guard.h"
#include "cli/terminal/out.h"

#include <assert.h>

#define DRAIN_MS 30000
#define DRAIN_MARGIN_MS 1500   /* the longest margin_ms */
#define ARGS_ARENA_BYTES 65536 /* for lists of the command line */

static struct config_setting item_setting(struct work *work,
                                          const struct config_entry *subscription, const char *path)
{
    return config_setting_of(&work->source->config, subscription->values, &work->cli->args,
                             CONFIG_SUBSCRIPTION, path);
}

/* Commands are ended so long before the end of the drain that their ends can be stored in it. */
static void set_drain(struct work *work, int64_t drain_ms)
{
    work->drain_ms = drain_ms;
    work->margin_ms = drain_ms / 4 < DRAIN_MARGIN_MS ? drain_ms / 4 : DRAIN_MARGIN_MS;
}

/* ---- Webhooks -------------------------------------------------------------------------------- */

static int plan_networks(struct work *work, struct work_item *item,
                         const struct config_setting *setting)
{
    struct network_rules *rules = &item->webhook.networks;

    if (setting->item_count > NETWORKS_MAX) {
        return args_usage(&work->cli->args, "more than %d networks", NETWORKS_MAX);
    }
    for (size_t i = 0; i < setting->item_count; i++) {
        if (network_parse(text_of(setting->items[i]), &rules->networks[rules->count++])) {
            return args_usage(&work->cli->args, "--allow-network: %s", err_message());
        }
    }
    return EXIT_OK;
}

/* How events are posted, if they are: --http wins over a command of the file, and --exec over a URL
 * of it. 0, or the exit code. */
static int plan_webhook(struct work *work, struct work_item *item,
                        const struct config_entry *subscription)
{
    const struct args *args = &work->cli->args;
    struct webhook_options *options = &item->webhook;
    struct config_setting url = item_setting(work, subscription, "handler.http");
    struct config_setting networks = item_setting(work, subscription, "handler.allow_networks");

    struct config_setting command = item_setting(work, subscription, "handler.exec");

    if (!url.value.text || (command.origin == CONFIG_BY_FLAG && url.origin != CONFIG_BY_FLAG)) {
        return EXIT_OK;
    }
    if (webhook_url_check(text_of(url.value.text), NULL)) {
        return args_usage(args, "--http: %s", err_message());
    }
    options->url = url.value.text;
    options->secret_file = item_setting(work, subscription, "handler.secret_file").value.text;
    options->ca_file = item_setting(work, subscription, "handler.ca_file").value.text;
    options->structured = item_setting(work, subscription, "handler.http_format").value.number == 2;
    options->per_host_max =
        (int)item_setting(work, subscription, "handler.max_per_host").value.number;
    options->timeout_ms = item_setting(work, subscription, "handler.http_timeout").value.number;
    options->connect_ms = item_setting(work, subscription, "handler.connect_timeout").value.number;
    options->networks.allow_private =
        item_setting(work, subscription, "handler.allow_private").value.number == HF_ON;
    item->deliver.command = NULL;
    item->output = NULL;
    if (work->file && strcmp(work->file, "-") == 0) {
        return args_usage(args, "a file with http handlers is read twice: give it by its name");
    }
    return plan_networks(work, item, &networks);
}

/* ---- The command line ------------------------------------------------------------------------ */

static int plan_by_args(struct work *work, hf_options *options)
{
    const struct args *args = &work->cli->args;
    struct work_item *item;
    const char *patterns[HF_PATTERNS_MAX + 1];
    size_t count = args_all(args, "on", patterns, HF_PATTERNS_MAX + 1);
    static const struct config_entry none; /* nothing is in a file */
    int code;

    arena_init(&work->source->config.arena, ARGS_ARENA_BYTES);
    if (args->word_count == 0) {
        return args_usage(args,
                          "SUB is missing: holdfast work SUB --exec COMMAND; or describe "
                          "subscriptions in a file: --config FILE, or %s here",
                          CONFIG_FILE_DEFAULT);
    }
    if (args->word_count > 1) {
        return args_usage(args,
                          "'%s' is one word too many: several subscriptions need a file "
                          "(--config FILE)",
                          args->words[1]);
    }
    if (args_given(args, "exec") && args_given(args, "http")) {
        return args_usage(args, "--exec and --http: give one of them");
    }
    if (!args_given(args, "exec") && !args_given(args, "http")) {
        return args_usage(args,
                          "--exec is missing: the command to run for each event; or --http, the "
                          "URL to post it to%s",
                          access(CONFIG_FILE_DEFAULT, F_OK) == 0
                              ? "; or --config " CONFIG_FILE_DEFAULT " for the one of the file"
                              : "");
    }
    if (count > HF_PATTERNS_MAX) {
        return args_usage(args, "more than %d patterns", HF_PATTERNS_MAX);
    }
    item = work_item_new(work);
    if (!item) {
        return EXIT_ERROR;
    }
    item->name = args->words[0];
    item->pattern_count = count;
    memcpy(item->patterns, patterns, count * sizeof patterns[0]);
    item->options = suboptions_read(args);
    item->assigned = args_text(args, "partition");
    item->total = (int32_t)args_number(args, "total-partitions", -1);
    item->batches = args_given(args, "batch-by");
    item->deliver.command = args_text(args, "exec");
    item->output = args_text(args, "output");
    code = plan_webhook(work, item, &none);
    if (code) {
        return code;
    }
    set_drain(work, args_number(args, "drain", DRAIN_MS));
    options->node_name = args_text(args, "node");
    options->node_id = args_text(args, "node-id");
    options->node_description = args_text(args, "node-description");
    options->node_metadata_json = args_text(args, "node-metadata");
    options->heartbeat_ms = args_number(args, "heartbeat", -1);
    return EXIT_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

const char *work_config_file(const struct args *args)
{
    if (args_given(args, "config")) {
        return args_text(args, "config");
    }
    if (args->word_count == 0 && access(CONFIG_FILE_DEFAULT, F_OK) == 0) {
        return CONFIG_FILE_DEFAULT;
    }
    return NULL;
}

static struct config_entry *find_named(const struct args *args, const struct config *config,
                                       const char *file, const char *name)
{
    struct suggest suggest;

    suggest_init(&suggest, name);
    for (size_t i = 0; i < config->subscription_count; i++) {
        if (strcmp(config->subscriptions[i]->name, name) == 0) {
            return config->subscriptions[i];
        }
        suggest_offer(&suggest, config->subscriptions[i]->name);
    }
    args_usage(args, "%s has no subscription '%s'%s%s%s", file, name,
               suggest.best ? "; did you mean " : "", suggest.best ? suggest.best : "",
               suggest.best ? "?" : "");
    return NULL;
}

bool work_select(const struct args *args, const struct config *config, const char *file,
                 struct config_entry **ret_chosen, size_t *ret_count)
{
    static const char *const of_one[] = {"exec", "http",      "on",
                                         "from", "partition", "total-partitions"};
    size_t count = args->word_count ? args->word_count : config->subscription_count;

    assert(count <= CONFIG_SUBSCRIPTIONS_MAX); /* of words, by the table of commands */
    for (size_t i = 0; i < count; i++) {
        ret_chosen[i] = args->word_count ? find_named(args, config, file, args->words[i])
                                         : config->subscriptions[i];
        if (!ret_chosen[i]) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (ret_chosen[j] == ret_chosen[i]) {
                args_usage(args, "'%s' is named twice", args->words[i]);
                return false;
            }
        }
    }
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0] && count > 1; i++) {
        if (args_given(args, of_one[i])) {
            args_usage(args, "--%s is for one subscription: name it", of_one[i]);
            return false;
        }
    }
    *ret_count = count;
    return true;
}

static int plan_item(struct work *work, struct work_item *item, struct config_entry *subscription)
{
    const struct args *args = &work->cli->args;
    struct config_setting patterns = item_setting(work, subscription, "on");
    struct config_setting command = item_setting(work, subscription, "handler.exec");
    struct config_setting output = item_setting(work, subscription, "handler.output");
    struct config_setting batch_by = item_setting(work, subscription, "batch_by");
    struct config_setting assigned = item_setting(work, subscription, "partition");
    struct config_setting total = item_setting(work, subscription, "total_partitions");

    if (patterns.item_count > HF_PATTERNS_MAX) {
        return args_usage(args, "more than %d patterns", HF_PATTERNS_MAX);
    }
    item->assigned = assigned.value.text;
    item->total = total.origin == CONFIG_BY_DEFAULT ? -1 : (int32_t)total.value.number;
    item->batches = batch_by.origin != CONFIG_BY_DEFAULT;
    item->name = subscription->name;
    item->entry = subscription;
    item->line = subscription->place.line;
    item->pattern_count = patterns.item_count;
    memcpy(item->patterns, patterns.items, patterns.item_count * sizeof item->patterns[0]);
    item->options = config_options(&work->source->config, subscription, args);
    item->deliver.command = config_command(&work->source->config, &command);
    item->output = output.value.text;
    if ((command.value.text && !item->deliver.command) || patterns.item_count == 0) {
        out_complain("there is no memory for the configuration");
        return EXIT_ERROR;
    }
    return plan_webhook(work, item, subscription);
}

static struct config_setting database_setting(struct work *work, const char *path)
{
    return config_setting_of(&work->source->config, work->source->config.database, &work->cli->args,
                             CONFIG_DATABASE, path);
}

static int plan_database(struct work *work, hf_options *options)
{
    struct cli *cli = work->cli;
    struct config_setting name = database_setting(work, "namespace");
    struct config_setting node = database_setting(work, "node");
    struct config_setting node_id = database_setting(work, "node_id");
    struct config_setting description = database_setting(work, "node_description");
    struct config_setting metadata = database_setting(work, "node_metadata");
    struct config_setting heartbeat = database_setting(work, "heartbeat");
    struct config_setting durability = database_setting(work, "durability");
    struct config_setting timeout = database_setting(work, "timeout");
    struct config_setting drain = database_setting(work, "drain");

    if (name.origin != CONFIG_BY_DEFAULT) {
        cli->namespace_name = name.value.text;
    }
    options->namespace_name = cli->namespace_name;
    options->node_name = node.value.text;
    options->node_id = node_id.value.text;
    options->node_description = description.value.text;
    options->node_metadata_json = metadata.value.text;
    options->heartbeat_ms = heartbeat.value.number;
    options->durability =
        durability.value.number == 2 ? HF_DURABILITY_PROCESS : HF_DURABILITY_POWER;
    options->timeout_ms = timeout.value.number;
    set_drain(work, drain.value.number);
    return config_url(&work->source->config, &cli->args, &cli->url);
}

/* The file was checked for all this, but flags may say something else. */
static int check_commands(const struct work *work)
{
    int64_t total = 0;

    for (size_t i = 0; i < work->count; i++) {
        if (!work->items[i]->webhook.url && config_blank(work->items[i]->deliver.command)) {
            return args_usage(&work->cli->args,
                              "--exec is empty, which would settle every event without doing "
                              "anything; if that is meant, say --exec true");
        }
        total += work->items[i]->options.concurrency;
    }
    if (total <= GUARD_GROUPS_MAX) {
        return EXIT_OK;
    }
    return args_usage(&work->cli->args,
                      "--concurrency counts for each of %zu subscriptions: more than %d commands "
                      "could run at once, which is the limit of one process",
                      work->count, GUARD_GROUPS_MAX);
}

/* All that is chosen, of a configuration that was read. */
static int plan_chosen(struct work *work, struct config_entry *const *chosen, size_t count,
                       hf_options *options)
{
    int code = plan_database(work, options);

    for (size_t i = 0; i < count && !code; i++) {
        struct work_item *item = work_item_new(work);
        code = item ? plan_item(work, item, chosen[i]) : EXIT_ERROR;
    }
    return code;
}

static int plan_by_file(struct work *work, hf_options *options)
{
    const struct cli *cli = work->cli;
    struct config_entry *chosen[CONFIG_SUBSCRIPTIONS_MAX] = {NULL};
    int code = config_open(&work->source->config, work->file, cli->started_at_us);
    size_t count = 0;

    if (code) {
        return code;
    }
    if (!work_select(&cli->args, &work->source->config, work->file, chosen, &count)) {
        return EXIT_USAGE;
    }
    if (count == 0) {
        return args_usage(&cli->args, "%s has no subscriptions to work for", work->file);
    }
    return plan_chosen(work, chosen, count, options);
}

int work_plan(struct work *work, hf_options *options)
{
    int code = suboptions_check(&work->cli->args);

    if (code) {
        return code;
    }
    work->file = work_config_file(&work->cli->args);
    work->source = work_source_new();
    if (!work->source) {
        return EXIT_ERROR;
    }
    code = work->file ? plan_by_file(work, options) : plan_by_args(work, options);
    return code ? code : check_commands(work);
}

int work_plan_serve(struct work *work, hf_options *options)
{
    struct config *config;
    int code = EXIT_OK;

    work->serves = true;
    work->file = work_config_file(&work->cli->args);
    work->source = work_source_new();
    if (!work->source) {
        return EXIT_ERROR;
    }
    config = &work->source->config;
    if (work->file) {
        code = config_open_serve(config, work->file, work->cli->started_at_us);
    } else {
        arena_init(&config->arena, ARGS_ARENA_BYTES);
    }
    return code ? code
                : plan_chosen(work, config->subscriptions, config->subscription_count, options);
}
