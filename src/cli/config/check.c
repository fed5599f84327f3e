/*
 * check.c - the rules of a configuration file that are not about one value's form.
 *
 * The library would find most of these mistakes, too, but only one at a time, without a line, and
 * after the first subscriptions had been created.
 */
#include "cli/config/check.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/ranges.h"
#include "base/text/glob.h"
#include "base/text/json_check.h"
#include "base/time/cron.h"
#include "base/time/zone.h"
#include "cli/core/endpoint.h"
#include "cli/core/guard.h"
#include "cli/webhook/webhook.h"

#include <inttypes.h>

#define ORIGIN_BYTES 32

static hf_status check_by(const struct config_key *key, struct text text)
{
    switch (key->text) {
    case CONFIG_TEXT_SUBSCRIPTION:
        return glob_check_name(text, "the name", HF_NAME_BYTES_MAX);
    case CONFIG_TEXT_NAMESPACE:
        return glob_check_name(text, "the namespace", HF_NAMESPACE_BYTES_MAX);
    case CONFIG_TEXT_NODE:
        return glob_check_name(text, "the node's name", HF_PRODUCER_BYTES_MAX);
    case CONFIG_TEXT_PATTERN:
        return glob_check_pattern(text);
    case CONFIG_TEXT_PARTITIONS: {
        struct ranges ranges;
        return text.length > 0 ? ranges_parse(text, HF_PARTITIONS_MAX, &ranges)
                               : fail(HF_INVALID, "it must not be empty");
    }
    case CONFIG_TEXT_SCHEDULE:
        return glob_check_name(text, "the name", HF_SCHEDULE_NAME_BYTES_MAX);
    case CONFIG_TEXT_CRON: {
        struct cron cron;
        return cron_parse(text, &cron);
    }
    case CONFIG_TEXT_ZONE: {
        struct zone *zone = NULL;
        hf_status status = zone_new(text, NULL, &zone);
        zone_free(zone);
        return status;
    }
    case CONFIG_TEXT_URL:
        return webhook_url_check(text, NULL);
    case CONFIG_TEXT_NETWORK: {
        struct network network;
        return network_parse(text, &network);
    }
    case CONFIG_TEXT_LISTEN: {
        struct endpoint endpoint;
        return endpoint_parse(text.bytes, &endpoint);
    }
    case CONFIG_TEXT_HOST:
        return endpoint_check_host(text.bytes);
    case CONFIG_TEXT_TYPE:
        return glob_check_type(text);
    case CONFIG_TEXT_JSON:
        return json_check(text.bytes, text.length, NULL, "it");
    case CONFIG_TEXT_OBJECT:
        return json_check_object(text.bytes, text.length, NULL, "it");
    case CONFIG_TEXT_ANY:
    case CONFIG_TEXT_FILE:
    case CONFIG_TEXT_COMMAND:
        return text.length > 0 || key->text == CONFIG_TEXT_COMMAND
                   ? HF_OK
                   : fail(HF_INVALID, "it must not be empty");
    }
    return HF_OK;
}

void config_check_text(const struct config_key *key, const char *text, const char *shown,
                       struct config_place place, struct config_problems *problems)
{
    if (check_by(key, text_of(text)) != HF_OK) {
        config_problem(problems, place, "%s: %s", shown, err_message());
    }
}

static const struct config_value *value_of(const struct config_value *values,
                                           enum config_scope scope, const char *path)
{
    return &values[config_key_known(scope, path)];
}

/* A file of other programs often has ${VARIABLE}. Taken as it is, it would be the name of a new
 * database. */
static void check_variables(const struct config_value *url, struct config_problems *problems)
{
    const char *begin = url->place.line ? strstr(url->value.text, "${") : NULL;
    const char *end = begin ? strchr(begin, '}') : NULL;

    if (end) {
        config_problem(problems, url->place,
                       "database.url: variables (%.*s) are not replaced; leave the url out and set "
                       "$HOLDFAST_URL, or name a file that has it (url_file)",
                       (int)(end - begin + 1 < 64 ? end - begin + 1 : 64), begin);
    }
}

void config_check_database(const struct config *config, struct config_problems *problems)
{
    const struct config_value *url = value_of(config->database, CONFIG_DATABASE, "url");
    const struct config_value *url_file = value_of(config->database, CONFIG_DATABASE, "url_file");
    const struct config_value *password =
        value_of(config->database, CONFIG_DATABASE, "password_file");

    check_variables(url, problems);
    if (url->place.line && url_file->place.line) {
        config_problem(problems, url_file->place,
                       "database.url_file: there is also database.url in line %d; only one may be",
                       url->place.line);
    }
    if (password->place.line && !url->place.line && !url_file->place.line) {
        config_problem(problems, password->place,
                       "database.password_file: the password belongs to database.url or url_file, "
                       "and there is none");
    } else if (password->place.line && url->place.line && !strstr(url->value.text, "://")) {
        config_problem(problems, password->place,
                       "database.password_file: the database of line %d has no password",
                       url->place.line);
    }
}

void config_check_serve(const struct config *config, struct config_problems *problems)
{
    const struct config_value *certificate = value_of(config->serve, CONFIG_SERVE, "tls.cert");
    const struct config_value *key = value_of(config->serve, CONFIG_SERVE, "tls.key");

    if (!certificate->place.line != !key->place.line) {
        config_problem(problems, key->place.line ? key->place : certificate->place,
                       "serve.tls: cert and key go together; %s is missing",
                       key->place.line ? "cert" : "key");
    }
}

/* What is given, else its default: a number, milliseconds, or which choice. */
static int64_t number_of(const struct config_entry *subscription, const char *path)
{
    const struct config_value *value = value_of(subscription->values, CONFIG_SUBSCRIPTION, path);
    struct config_key key =
        config_key_at(CONFIG_SUBSCRIPTION, config_key_known(CONFIG_SUBSCRIPTION, path));

    return value->place.line ? value->value.number : config_initial(&key).number;
}

static void check_retry(const struct config_entry *subscription, size_t index,
                        struct config_problems *problems)
{
    const struct config_value *base =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "retry.base");
    const struct config_value *max =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "retry.max");

    if ((base->place.line || max->place.line) &&
        number_of(subscription, "retry.max") < number_of(subscription, "retry.base")) {
        config_problem(problems, max->place.line ? max->place : base->place,
                       "subscriptions[%zu].retry: max is less than base; it must be at least that "
                       "(the defaults are 1s and 30s)",
                       index);
    }
}

bool config_blank(const char *command)
{
    return command[strspn(command, " \t\r\n")] == '\0';
}

/* The shell runs an empty command with success: every event would be settled and none handled. */
static void check_command(const struct config_entry *subscription, size_t index,
                          struct config_problems *problems)
{
    const struct config_value *command =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "handler.exec");
    const struct config_value *url =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "handler.http");

    if (command->place.line && url->place.line) {
        config_problem(problems, url->place,
                       "subscriptions[%zu].handler.http: there is also handler.exec in line %d; "
                       "only one may be",
                       index, command->place.line);
    }
    if (command->place.line && command->item_count > 0 && config_blank(command->items[0])) {
        config_problem(problems, command->place,
                       "subscriptions[%zu].handler.exec is empty: every event would be settled "
                       "without doing anything; if that is meant, write 'true'",
                       index);
    }
}

/* What belongs to the other kind of handler would be without effect. */
static void check_handler(const struct config_entry *subscription, size_t index,
                          struct config_problems *problems)
{
    static const char *const of_http[] = {"http_format",   "http_timeout",  "connect_timeout",
                                          "max_per_host",  "secret_file",   "ca_file",
                                          "allow_private", "allow_networks"};
    const struct config_value *url =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "handler.http");
    const struct config_value *command =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "handler.exec");
    const struct config_value *output =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "handler.output");

    if (url->place.line && output->place.line) {
        config_problem(problems, output->place,
                       "subscriptions[%zu].handler.output is for commands, and the handler is "
                       "http",
                       index);
    }
    for (size_t i = 0; i < sizeof of_http / sizeof of_http[0]; i++) {
        char path[CONFIG_PATH_BYTES];
        const struct config_value *value;

        snprintf(path, sizeof path, "handler.%s", of_http[i]);
        value = value_of(subscription->values, CONFIG_SUBSCRIPTION, path);
        if (value->place.line && command->place.line && !url->place.line) {
            config_problem(problems, value->place,
                           "subscriptions[%zu].%s is for webhooks (handler.http), and the handler "
                           "is a command",
                           index, path);
        }
    }
}

/* Options that are good by themselves and not together. */
static void check_options(const struct config_entry *subscription, size_t index,
                          struct config_problems *problems)
{
    bool shared = number_of(subscription, "mode") == HF_MODE_SHARED;
    bool strict = number_of(subscription, "order") == HF_ORDER_STRICT;
    const struct {
        const char *path;
        bool wrong;
        const char *why;
    } rules[] = {
        {"partitions", shared && number_of(subscription, "partitions") > 1,
         "a shared subscription has 1; any number of processes work for it as it is"},
        {"partitions", strict && number_of(subscription, "partitions") > 1,
         "in strict order there can only be 1"},
        {"order", shared && strict, "a shared subscription has no order"},
        {"on_batch_failure",
         number_of(subscription, "on_batch_failure") == HF_BATCH_SPLIT &&
             number_of(subscription, "on_poison") == HF_POISON_BLOCK_KEY,
         "split does not go with on_poison: block_key"},
        {"on_poison", shared && number_of(subscription, "on_poison") == HF_POISON_BLOCK_KEY,
         "a shared subscription has no order of keys to keep; use skip or halt, or mode: ordered"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct config_value *value =
            value_of(subscription->values, CONFIG_SUBSCRIPTION, rules[i].path);
        if (rules[i].wrong && value->place.line) {
            config_problem(problems, value->place, "subscriptions[%zu].%s: %s", index,
                           rules[i].path, rules[i].why);
        }
    }
}

/* " (line 7)" of a key, or " (the default)". */
static const char *origin_of(const struct config_entry *subscription, const char *path,
                             char ret_words[ORIGIN_BYTES])
{
    const struct config_value *value = value_of(subscription->values, CONFIG_SUBSCRIPTION, path);

    if (value->place.line) {
        snprintf(ret_words, ORIGIN_BYTES, " (line %d)", value->place.line);
    } else {
        snprintf(ret_words, ORIGIN_BYTES, " (the default)");
    }
    return ret_words;
}

/* Fixed partitions: the file says how many there are, so it can be told here what is none. */
static void check_partition(const struct config_entry *subscription, size_t index,
                            struct config_problems *problems)
{
    const struct config_value *list =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "partition");
    const struct config_value *total =
        value_of(subscription->values, CONFIG_SUBSCRIPTION, "total_partitions");
    int32_t partitions = (int32_t)number_of(subscription, "partitions");
    char origin[ORIGIN_BYTES];
    struct ranges ranges;

    if (total->place.line && !list->place.line) {
        config_problem(problems, total->place,
                       "subscriptions[%zu].total_partitions: it says of how many those of "
                       "partition are, and there is no partition",
                       index);
    }
    if (!list->place.line ||
        ranges_parse(text_of(list->value.text), HF_PARTITIONS_MAX, &ranges) != HF_OK) {
        return;
    }
    if (number_of(subscription, "mode") == HF_MODE_SHARED) {
        config_problem(problems, list->place,
                       "subscriptions[%zu].partition: mode is shared%s, which has no partitions to "
                       "assign",
                       index, origin_of(subscription, "mode", origin));
    } else if (number_of(subscription, "instance_mode") == HF_INSTANCE_SINGLE) {
        config_problem(problems, list->place,
                       "subscriptions[%zu].partition: instance_mode is single%s: the newest "
                       "process takes all partitions, so none can be assigned",
                       index, origin_of(subscription, "instance_mode", origin));
    } else if (ranges_parse(text_of(list->value.text), partitions, &ranges) != HF_OK) {
        config_problem(problems, list->place,
                       "subscriptions[%zu].partition: %s; partitions is "
                       "%d%s",
                       index, err_message(), partitions,
                       origin_of(subscription, "partitions", origin));
    } else if (total->place.line && total->value.number != partitions) {
        config_problem(problems, total->place,
                       "subscriptions[%zu].total_partitions: it is %" PRId64 ", and partitions is "
                       "%d%s; they must be the same",
                       index, total->value.number, partitions,
                       origin_of(subscription, "partitions", origin));
    }
}

/* What a job of pg_cron can have is the server's to say, when the schedule is put. This much is
 * said before, because it needs no server and there is a line to name. */
static void check_driver(const struct config_entry *schedule, size_t index,
                         struct config_problems *problems)
{
    const struct config_value *driver = value_of(schedule->values, CONFIG_SCHEDULE, "driver");
    const struct config_value *zone = value_of(schedule->values, CONFIG_SCHEDULE, "zone");

    if (driver->place.line && driver->value.number == HF_DRIVER_PG_CRON && zone->place.line &&
        strcmp(zone->value.text, "UTC") != 0) {
        config_problem(problems, zone->place,
                       "schedules[%zu].zone: pg_cron knows none but UTC, and is the driver in "
                       "line %d",
                       index, driver->place.line);
    }
}

void config_check_entry(struct config_entry *const *entries, size_t index, const char *key,
                        enum config_scope scope, struct config_problems *problems)
{
    const struct config_entry *entry = entries[index];
    const struct config_value *name = value_of(entry->values, scope, "name");

    if (scope == CONFIG_SUBSCRIPTION) {
        check_command(entry, index, problems);
        check_handler(entry, index, problems);
        check_retry(entry, index, problems);
        check_options(entry, index, problems);
        check_partition(entry, index, problems);
    } else {
        check_driver(entry, index, problems);
    }
    for (size_t i = 0; i < index && entry->name; i++) {
        const struct config_entry *other = entries[i];
        if (other->name && strcmp(other->name, entry->name) == 0) {
            config_problem(problems, name->place,
                           "%s[%zu].name: '%.64s' is also the name of the one in line %d", key,
                           index, entry->name, other->place.line);
            return;
        }
    }
}

void config_check_all(const struct config *config, struct config_problems *problems)
{
    size_t key = config_key_known(CONFIG_SUBSCRIPTION, "concurrency");
    int64_t total = 0;

    for (size_t i = 0; i < config->subscription_count; i++) {
        const struct config_value *value = &config->subscriptions[i]->values[key];
        int64_t before = total;

        total += value->place.line ? value->value.number : 1;
        if (total > GUARD_GROUPS_MAX && before <= GUARD_GROUPS_MAX) {
            config_problem(problems, config->subscriptions[i]->place,
                           "subscriptions[%zu]: with this one, more than %d commands could run at "
                           "once, which is the limit of one process; lower concurrency, or use two "
                           "files",
                           i, GUARD_GROUPS_MAX);
        }
    }
}
