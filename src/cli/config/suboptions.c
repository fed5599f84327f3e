/*
 * suboptions.c - one table between the command line and hf_subscription_options.
 *
 * A field names its option, its key in a configuration file, its default, its place in the struct
 * and how it is stored; reading the command line and the file, JSON and text are loops over the
 * table. Rows and fields are made from the library's own list, bus/options.def.
 */
#include "cli/config/suboptions.h"

#include "base/banned.h"
#include "cli/core/args_value.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

#include <assert.h>

#define NO_KEY NULL
#define RATE_MAX 1000000

#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    {flag, 0, OPTION_CHOICE, "WHAT", initial "|" others, 0, 0, help},
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    {flag, 0, OPTION_NUMBER, unit, NULL, min, max, help},
#define PERIOD(field, initial, min, max, flag, key, help)                                          \
    {flag, 0, OPTION_DURATION, "TIME", NULL, min, max, help},
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    {flag, 0, OPTION_DECIMAL, unit, NULL, min, max, help},
#define ALSO(flag, unit, min, max, help) {flag, 0, OPTION_NUMBER, unit, NULL, min, max, help},
const struct option_row suboptions_rows[] = {
    {"from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0,
     "where a new subscription starts: start, now, a position, a time, or how long ago (2h)"},
    {"rate", 0, OPTION_RATE, "N/s", NULL, 0, 0,
     "--rate-events and --rate-time in one: 100/s, 30/m, 10/h"},
#include "bus/options.def"
    OPTION_END,
};

/* Defaults as one would write them: a period is its number and its unit. */
#define MS(n) #n "ms"
#define SECONDS(n) #n "s"
#define MINUTES(n) #n "m"
#define HOURS(n) #n "h"
#define DAYS(n) #n "d"
#define ZERO "0"
#define FIELD(field, flag, key, initial, kind, words)                                              \
    {flag, #field, key, initial, kind, offsetof(hf_subscription_options, field), words},
#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    FIELD(field, flag, key, initial, FIELD_ENUM, initial "|" others)
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    FIELD(field, flag, key, #initial, FIELD_INT32, NULL)
#define PERIOD(field, initial, min, max, flag, key, help)                                          \
    FIELD(field, flag, key, initial, FIELD_DURATION, NULL)
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    FIELD(field, flag, key, #initial, FIELD_DOUBLE, NULL)
#define LIMIT(field, initial, commands, min, max, flag, key, help)                                 \
    FIELD(field, flag, key, commands, FIELD_DURATION, NULL)
const struct suboption suboptions_fields[] = {
#include "bus/options.def"
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
    if (args_given(args, "rate") &&
        (args_given(args, "rate-events") || args_given(args, "rate-time"))) {
        return args_usage(args, "--rate is --rate-events and --rate-time in one; give it alone");
    }
    if (args_decimal(args, "rate", 0) > RATE_MAX) {
        return args_usage(args, "--rate takes up to %d/s", RATE_MAX);
    }
    return 0;
}

void suboptions_for_commands(hf_subscription_options *options)
{
#define LIMIT(field, initial, commands, min, max, flag, key, help)                                 \
    if (options->field == -1) {                                                                    \
        options->field = commands;                                                                 \
    }
#include "bus/options.def"
}

/* So many per second, as the shortest of a second, a minute and an hour in which it is a whole
 * number. */
static void read_rate(double per_second, hf_subscription_options *options)
{
    static const int64_t periods_s[] = {1, 60, 3600};

    for (size_t i = 0; i < 3; i++) {
        double events = per_second * (double)periods_s[i];
        options->rate_events = (int32_t)(events + 0.5);
        options->rate_ms = periods_s[i] * 1000;
        if (events - options->rate_events < 1e-6 && options->rate_events - events < 1e-6) {
            return;
        }
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
    if (args_given(args, "rate")) {
        read_rate(args_decimal(args, "rate", 0), &options);
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct arg_value *value = args_value(args, suboptions_fields[i].option);
        if (value) {
            suboptions_set(&options, &suboptions_fields[i], value);
        }
    }
    return options;
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
