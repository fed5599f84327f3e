/*
 * fuzz_config.c - any bytes as a configuration file.
 *
 * Properties: a file is taken or has problems, never both; problems have places inside the file, in
 * order, and sentences. Of a file that is taken, names are there and differ, lists are within their
 * limits, the options that come of it are ones that the library takes, and the command is there.
 * Schedules have a name of their own and an expression, a zone and a type that are good.
 */
#include "base/text/glob.h"
#include "base/time/cron.h"
#include "bus/options.h"
#include "cli/config/setting.h"
#include "cli/config/yaml.h"
#include "fuzz.h"

#include <string.h>

#define NOW_US (INT64_C(1800000000) * 1000000)

static struct config config;
static struct config_problems problems;
static struct args args;

static void check_problems(struct text bytes)
{
    int lines = 2; /* the end of the file counts as a line of its own */
    struct config_place before = {1, 1};

    for (size_t i = 0; i < bytes.length; i++) {
        lines += bytes.bytes[i] == '\n' || bytes.bytes[i] == '\r' ||
                 (unsigned char)bytes.bytes[i] >= 0x80;
    } /* YAML has more ends of a line */
    HOLDS(problems.count > 0);
    for (size_t i = 0; i < problems.count && i < CONFIG_PROBLEMS_MAX; i++) {
        const struct config_problem *problem = &problems.kept[i];

        HOLDS(problem->place.line >= 1 && problem->place.line <= lines);
        HOLDS(problem->place.column >= 1);
        HOLDS(problem->place.line > before.line ||
              (problem->place.line == before.line && problem->place.column >= before.column));
        HOLDS(problem->text[0] &&
              strnlen(problem->text, sizeof problem->text) < sizeof problem->text);
        before = problem->place;
    }
}

static void check_subscription(const struct config_entry *subscription)
{
    hf_subscription_options options = config_options(&config, subscription, &args);
    struct config_setting on =
        config_setting_of(&config, subscription->values, &args, CONFIG_SUBSCRIPTION, "on");
    struct config_setting exec = config_setting_of(&config, subscription->values, &args,
                                                   CONFIG_SUBSCRIPTION, "handler.exec");
    hf_subscription_options whole;

    HOLDS(glob_check_name(text_of(subscription->name), "name", HF_NAME_BYTES_MAX) == HF_OK);
    HOLDS(on.item_count >= 1 && on.item_count <= HF_PATTERNS_MAX);
    for (size_t i = 0; i < on.item_count; i++) {
        HOLDS(glob_check_pattern(text_of(on.items[i])) == HF_OK);
    }
    options_default(&whole);
    options_merge(&whole, &options);
    HOLDS(options_check(&whole) == HF_OK);
    HOLDS(options.from.kind != HF_PLACE_NONE);
    HOLDS(config_command(&config, &exec) != NULL);
}

static void check_schedule(const struct config_entry *schedule)
{
    struct config_setting expression =
        config_setting_of(&config, schedule->values, &args, CONFIG_SCHEDULE, "cron");
    struct config_setting type =
        config_setting_of(&config, schedule->values, &args, CONFIG_SCHEDULE, "type");
    struct cron cron;

    HOLDS(glob_check_name(text_of(schedule->name), "name", HF_SCHEDULE_NAME_BYTES_MAX) == HF_OK);
    HOLDS(cron_parse(text_of(expression.value.text), &cron) == HF_OK);
    HOLDS(glob_check_type(text_of(type.value.text)) == HF_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char program[] = "holdfast";
    static char command[] = "work";
    static char *words[] = {program, command, NULL};
    struct text bytes = {size ? (const char *)data : "", size};

    if (!args.command) {
        HOLDS(args_parse(&args, 2, words, NOW_US) == 0);
    }
    if (!config_read(&config, bytes, NOW_US, &problems)) {
        check_problems(bytes);
        return 0;
    }
    HOLDS(problems.count == 0);
    HOLDS(config.subscription_count >= 1);
    HOLDS(config.subscription_count <= CONFIG_SUBSCRIPTIONS_MAX);
    for (size_t i = 0; i < config.subscription_count; i++) {
        for (size_t j = 0; j < i; j++) {
            HOLDS(strcmp(config.subscriptions[i]->name, config.subscriptions[j]->name) != 0);
        }
        check_subscription(config.subscriptions[i]);
    }
    HOLDS(config.schedule_count <= CONFIG_SCHEDULES_MAX);
    for (size_t i = 0; i < config.schedule_count; i++) {
        for (size_t j = 0; j < i; j++) {
            HOLDS(strcmp(config.schedules[i]->name, config.schedules[j]->name) != 0);
        }
        check_schedule(config.schedules[i]);
    }
    config_release(&config);
    return 0;
}
