/*
 * suboptions.c - one table between the command line and hf_subscription_options.
 *
 * A field names its option, its key in a configuration file, its default, its place in the struct
 * and how it is stored; reading the command line and the file, JSON and text are loops over the
 * table. A new field of the struct is one row here and one in the options.
 *
 * Limits and defaults are those of the library, which has them where the command does not look; a
 * unit test compares the two tables row by row. One default differs: the time limit of commands.
 */
#include "cli/config/suboptions.h"

#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/core/out.h"
#include "cli/core/show.h"

#include <assert.h>

#define MODES "ordered|shared"
#define ORDERS "relaxed|strict"
#define INSTANCE_MODES "coordinated|single"
#define UNHANDLED "skip|dead_letter"
#define POISON "skip|block_key|halt"
#define TOGGLE "off|on"
#define BATCH_BY "none|key"
#define BATCH_FAILURE "dead_letter_unit|split"

#define HOUR_MS 3600000
#define DAY_MS INT64_C(86400000)
#define RETRY_MS_MAX (366 * DAY_MS)

const struct option_row suboptions_rows[] = {
    {"from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "where a new subscription starts: start, now, a position, a time, or how long ago (2h)"},
    {"mode", 0, OPTION_CHOICE, "MODE", MODES, 0, 0,
     "ordered (the default): one owner, order per key; shared: many workers, no order"},
    {"order", 0, OPTION_CHOICE, "ORDER", ORDERS, 0, 0,
     "relaxed (the default): order per key; strict: the order of positions"},
    {"instance-mode", 0, OPTION_CHOICE, "MODE", INSTANCE_MODES, 0, 0,
     "coordinated (the default): others stand by; single: the newest process takes over"},
    {"on-unhandled", 0, OPTION_CHOICE, "WHAT", UNHANDLED, 0, 0,
     "types outside the patterns: skip (the default) or make them dead letters"},
    {"on-poison", 0, OPTION_CHOICE, "WHAT", POISON, 0, 0,
     "after the last attempt: skip the event (the default), block its key, or halt"},
    {"transactional", 0, OPTION_CHOICE, "OFF", TOGGLE, 0, 0,
     "handlers run in a transaction of the database; not for commands run by work (off)"},
    {"partitions", 0, OPTION_NUMBER, "N", NULL, 1, HF_PARTITIONS_MAX,
     "shares that several processes work on, by hash of tenant or key (1)"},
    {"batch", 0, OPTION_NUMBER, "N", NULL, 1, 10000, "events read or claimed at once (100)"},
    {"concurrency", 0, OPTION_NUMBER, "N", NULL, 1, 256, "handlers at once in one process (1)"},
    {"inflight-max", 0, OPTION_NUMBER, "N", NULL, 1, 100000,
     "events read ahead of the checkpoint (1000)"},
    {"attempts-max", 0, OPTION_NUMBER, "N", NULL, 1, 100, "attempts before an event is dead (4)"},
    {"retries", 0, OPTION_NUMBER, "N", NULL, 0, 99, "the same, without the first attempt (3)"},
    {"retry-base", 0, OPTION_DURATION, "TIME", NULL, 0, RETRY_MS_MAX,
     "wait before the first retry (1s)"},
    {"retry-max", 0, OPTION_DURATION, "TIME", NULL, 0, RETRY_MS_MAX,
     "longest wait before a retry (30s)"},
    {"retry-multiplier", 0, OPTION_DECIMAL, "X", NULL, 1, 100,
     "each wait is this many times the one before (2)"},
    {"retry-jitter", 0, OPTION_NUMBER, "PERCENT", NULL, 0, 100, "random part of a wait (10)"},
    {"timeout", 0, OPTION_DURATION, "TIME", NULL, 1, SUBOPTIONS_TIMEOUT_MS,
     "end a command that runs for longer (1d, which is the longest)"},
    {"lease", 0, OPTION_DURATION, "TIME", NULL, 10, 7 * DAY_MS,
     "after it the work of a frozen process is taken over (30s)"},
    {"checkpoint-events", 0, OPTION_NUMBER, "N", NULL, 1, 100000,
     "store the checkpoint after so many events; 1 is after each (100)"},
    {"checkpoint-time", 0, OPTION_DURATION, "TIME", NULL, 0, HOUR_MS,
     "store the checkpoint after this time, too (1s)"},
    {"wait-period", 0, OPTION_DURATION, "TIME", NULL, 1, HOUR_MS,
     "look for work at least this often without a wake-up (1s; PostgreSQL: 10s)"},
    {"tx-max", 0, OPTION_DURATION, "TIME", NULL, 1, 60000,
     "longest run of a transactional handler (1s)"},
    {"gap-timeout", 0, OPTION_DURATION, "TIME", NULL, 0, DAY_MS,
     "skip a missing position after this time; 0 is never (0)"},
    {"stuck-max", 0, OPTION_NUMBER, "N", NULL, 1, 256,
     "handlers past their timeout before it pauses (16)"},
    {"breaker", 0, OPTION_CHOICE, "OFF", TOGGLE, 0, 0,
     "pause when most first attempts fail, then probe (off)"},
    {"breaker-events", 0, OPTION_NUMBER, "N", NULL, 1, 100000,
     "first attempts in the window before it may open (20)"},
    {"breaker-percent", 0, OPTION_NUMBER, "PERCENT", NULL, 0, 99,
     "it opens when more than this failed (50)"},
    {"breaker-window", 0, OPTION_DURATION, "TIME", NULL, 10, DAY_MS, "its window (1m)"},
    {"breaker-pause", 0, OPTION_DURATION, "TIME", NULL, 1, DAY_MS, "how long it stays open (30s)"},
    {"batch-by", 0, OPTION_CHOICE, "WHAT", BATCH_BY, 0, 0,
     "batches: the next events (none), or those of one key; they succeed or fail as one"},
    {"on-batch-failure", 0, OPTION_CHOICE, "WHAT", BATCH_FAILURE, 0, 0,
     "after the last attempt at a batch: all die (the default), or it is halved"},
    {"batch-extend-max", 0, OPTION_NUMBER, "N", NULL, 0, 10000,
     "by how many events a batch may grow so as not to cut a run of one key (1000)"},
    OPTION_END,
};

/* Rows: option, member of the struct, key in a configuration file, default. */
#define FIELD(option, member, key, initial, kind, words)                                           \
    {                                                                                              \
        option, #member, key, initial, kind, offsetof(hf_subscription_options, member), words      \
    }
#define CHOICE(option, member, key, initial, words)                                                \
    FIELD(option, member, key, initial, FIELD_ENUM, words)
#define NUMBER(option, member, key, initial) FIELD(option, member, key, initial, FIELD_INT32, NULL)
#define FACTOR(option, member, key, initial) FIELD(option, member, key, initial, FIELD_DOUBLE, NULL)
#define PERIOD(option, member, key, initial)                                                       \
    FIELD(option, member, key, initial, FIELD_DURATION, NULL)

const struct suboption suboptions_fields[] = {
    CHOICE("mode", mode, "mode", "ordered", MODES),
    CHOICE("order", order, "order", "relaxed", ORDERS),
    CHOICE("instance-mode", instance_mode, "instance_mode", "coordinated", INSTANCE_MODES),
    CHOICE("on-unhandled", on_unhandled, "on_unhandled", "skip", UNHANDLED),
    CHOICE("on-poison", on_poison, "on_poison", "skip", POISON),
    CHOICE("transactional", transactional, NULL, "off", TOGGLE),
    NUMBER("partitions", partitions, "partitions", "1"),
    NUMBER("batch", batch, "batch", "100"),
    NUMBER("concurrency", concurrency, "concurrency", "1"),
    NUMBER("inflight-max", inflight_max, "inflight_max", "1000"),
    NUMBER("attempts-max", attempts_max, "retry.attempts", "4"),
    PERIOD("retry-base", retry_base_ms, "retry.base", "1s"),
    PERIOD("retry-max", retry_max_ms, "retry.max", "30s"),
    FACTOR("retry-multiplier", retry_multiplier, "retry.multiplier", "2"),
    NUMBER("retry-jitter", retry_jitter_percent, "retry.jitter", "10"),
    PERIOD("timeout", handler_timeout_ms, "handler.timeout", "1d"),
    PERIOD("lease", lease_ms, "lease", "30s"),
    NUMBER("checkpoint-events", checkpoint_events, "checkpoint.events", "100"),
    PERIOD("checkpoint-time", checkpoint_ms, "checkpoint.time", "1s"),
    PERIOD("wait-period", wait_period_ms, "wait_period", "1s"),
    PERIOD("tx-max", tx_max_ms, NULL, "1s"),
    PERIOD("gap-timeout", gap_timeout_ms, "gap_timeout", "0"),
    NUMBER("stuck-max", stuck_max, "stuck_max", "16"),
    CHOICE("breaker", breaker, "breaker.enabled", "off", TOGGLE),
    NUMBER("breaker-events", breaker_events, "breaker.events", "20"),
    NUMBER("breaker-percent", breaker_percent, "breaker.percent", "50"),
    PERIOD("breaker-window", breaker_window_ms, "breaker.window", "1m"),
    PERIOD("breaker-pause", breaker_pause_ms, "breaker.pause", "30s"),
    CHOICE("batch-by", batch_by, "batch_by", "none", BATCH_BY),
    CHOICE("on-batch-failure", on_batch_failure, "on_batch_failure", "dead_letter_unit",
           BATCH_FAILURE),
    NUMBER("batch-extend-max", batch_extend_max, "batch_extend_max", "1000"),
};

#define FIELD_COUNT (sizeof suboptions_fields / sizeof suboptions_fields[0])

const size_t suboptions_count = FIELD_COUNT;
_Static_assert(FIELD_COUNT <= SUBOPTIONS_MAX, "SUBOPTIONS_MAX is too small");

const struct option_row *suboptions_row(const char *option)
{
    const struct option_row *row = suboptions_rows;

    while (row->name && strcmp(row->name, option) != 0) {
        row++;
    }
    assert(row->name);
    return row;
}

/* The enums of the options are unsigned int in this ABI; memcpy keeps the compiler out of it. */
static void field_set(hf_subscription_options *options, const struct suboption *field,
                      int64_t number, double decimal)
{
    char *at = (char *)options + field->offset;
    int32_t small = (int32_t)number;

    switch (field->kind) {
    case FIELD_ENUM:
    case FIELD_INT32:
        memcpy(at, &small, sizeof small);
        return;
    case FIELD_INT64:
    case FIELD_DURATION:
        memcpy(at, &number, sizeof number);
        return;
    case FIELD_DOUBLE:
        memcpy(at, &decimal, sizeof decimal);
        return;
    }
}

static int64_t field_number(const hf_subscription_options *options, const struct suboption *field)
{
    const char *at = (const char *)options + field->offset;
    int32_t small;
    int64_t number;

    if (field->kind == FIELD_ENUM || field->kind == FIELD_INT32) {
        memcpy(&small, at, sizeof small);
        return small;
    }
    memcpy(&number, at, sizeof number);
    return number;
}

void suboptions_set(hf_subscription_options *options, const struct suboption *field,
                    const struct arg_value *value)
{
    field_set(options, field, value->number, value->decimal);
}

int suboptions_check(const struct args *args)
{
    if (args_given(args, "attempts-max") && args_given(args, "retries")) {
        return args_usage(args, "--retries is --attempts-max without the first attempt; give one");
    }
    return 0;
}

void suboptions_for_commands(hf_subscription_options *options)
{
    if (options->handler_timeout_ms == -1) {
        options->handler_timeout_ms = SUBOPTIONS_TIMEOUT_MS;
    }
}

hf_subscription_options suboptions_read(const struct args *args)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    _Static_assert(sizeof(hf_mode) == sizeof(int32_t), "enums are stored as 32 bits");
    args_place(args, "from", &options.from);
    if (args_given(args, "retries")) {
        options.attempts_max = (int32_t)args_number(args, "retries", 0) + 1;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct arg_value *value = args_value(args, suboptions_fields[i].option);
        if (value) {
            suboptions_set(&options, &suboptions_fields[i], value);
        }
    }
    return options;
}

void suboptions_json(struct json_out *json, const hf_subscription_options *options)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct suboption *field = &suboptions_fields[i];
        if (field->kind == FIELD_ENUM) {
            show_choice(json, field->name, field->choices, (int)field_number(options, field));
        } else if (field->kind == FIELD_DOUBLE) {
            show_double(json, field->name, options->retry_multiplier);
        } else {
            show_int(json, field->name, field_number(options, field));
        }
    }
}

void suboptions_print(const hf_subscription_options *options)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct suboption *field = &suboptions_fields[i];
        char words[OUT_WORDS_BYTES];
        int64_t number = field->kind == FIELD_DOUBLE ? 0 : field_number(options, field);

        if (field->kind == FIELD_ENUM) {
            show_choice_word(field->choices, (int)number, words, sizeof words);
        } else if (field->kind == FIELD_DURATION) {
            out_duration(number, words);
        } else if (field->kind == FIELD_DOUBLE) {
            snprintf(words, sizeof words, "%g", options->retry_multiplier);
        } else {
            out_number(number, words);
        }
        printf("  --%-20s %s\n", field->option, words);
    }
}
