/*
 * options.c - the options of a subscription, driven by the list in options.def. See options.h.
 *
 * A row of `rows` is what options.def says about an option: where it is in the struct, what kind of
 * value it is, its default and its limits. Defaults, merging, checking, writing as JSON and reading
 * back are loops over the table, so a new option is one line there and one field of holdfast.h.
 *
 * Limits are kept as double, which holds every one of them exactly (they are far below 2^53).
 *
 * What is stored was checked when it was stored. Reading still checks everything: the row may have
 * been edited by hand, or written by a newer program. Members that this version does not know are
 * ignored, missing ones get their default; a known one with a value that cannot be is HF_CORRUPT.
 */
#include "bus/options.h"

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/text/glob.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "base/time/time.h"
#include "store/store.h"

#define PATTERNS_JSON_BYTES_MAX (HF_PATTERNS_MAX * (6 * HF_TYPE_BYTES_MAX + 3) + 2)

enum row_kind {
    ROW_WORD, /* an enum, stored as a word: its value is the word's number, from 1 */
    ROW_INT32,
    ROW_INT64,
    ROW_DOUBLE,
};

struct row {
    const char *name; /* as in holdfast.h, JSON and the command */
    size_t offset;    /* in hf_subscription_options */
    enum row_kind kind;
    double initial; /* the default */
    double min;
    double max;
    const char *words; /* ROW_WORD: max of them, as "ordered|shared" */
};

#define ROW(field, kind, initial, min, max, words)                                                 \
    {#field,        offsetof(hf_subscription_options, field),                                      \
     kind,          (double)(initial),                                                             \
     (double)(min), (double)(max),                                                                 \
     words},
#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    ROW(field, ROW_WORD, 1, 1, last, initial "|" others)
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    ROW(field, ROW_INT32, initial, min, max, NULL)
#define PERIOD(field, initial, min, max, flag, key, help)                                          \
    ROW(field, ROW_INT64, initial, min, max, NULL)
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    ROW(field, ROW_DOUBLE, initial, min, max, NULL)
static const struct row rows[] = {
#include "bus/options.def"
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* Fields are read and written by their kind; an enum as int, which is what the compiler makes of
 * it. */
#define WIDE(field, type)                                                                          \
    _Static_assert(sizeof((hf_subscription_options *)0)->field == sizeof(type),                    \
                   #field " is not as wide as its kind");
#define CHOICE(field, last, initial, others, flag, key, help) WIDE(field, int32_t)
#define NUMBER(field, initial, min, max, flag, unit, key, help) WIDE(field, int32_t)
#define PERIOD(field, initial, min, max, flag, key, help) WIDE(field, int64_t)
#define FACTOR(field, initial, min, max, flag, unit, key, help) WIDE(field, double)
#include "bus/options.def"

/* What the modules behind the options can bear. */
#define NUMBER(field, initial, min, max, flag, unit, key, help)                                    \
    MIN_##field = min, MAX_##field = max,
#define PERIOD(field, initial, min, max, flag, key, help) MIN_##field = min, MAX_##field = max,
#define FACTOR(field, initial, min, max, flag, unit, key, help)                                    \
    MIN_##field = min, MAX_##field = max,
enum limit {
#include "bus/options.def"
};
_Static_assert(MAX_attempts_max == RETRY_ATTEMPTS_MAX && MAX_retry_base_ms == RETRY_DELAY_MS_MAX &&
                   MAX_retry_max_ms == RETRY_DELAY_MS_MAX &&
                   MAX_retry_multiplier == (int)RETRY_MULTIPLIER_MAX,
               "limits of retries differ from those of retry.h");
_Static_assert(MIN_breaker_window_ms == BREAKER_STEPS && MAX_breaker_window_ms == BREAKER_MS_MAX &&
                   MAX_breaker_pause_ms == BREAKER_MS_MAX,
               "limits of the breaker differ from those of breaker.h");
_Static_assert(MAX_lease_ms == STORE_LEASE_MS_MAX, "leases are as long here as in hf_claim");

/* ---- Words ----------------------------------------------------------------------------------- */

/* The word of this number, which is one of 1 to max. */
static struct text word_of(const struct row *row, size_t number)
{
    const char *at = row->words;
    for (; number > 1; number--) {
        at += strcspn(at, "|") + 1;
    }
    return (struct text){at, strcspn(at, "|")};
}

/* ---- One value ------------------------------------------------------------------------------- */

static double value_get(const hf_subscription_options *options, const struct row *row)
{
    const char *at = (const char *)options + row->offset;
    int32_t small;
    int64_t large;
    double real;
    switch (row->kind) {
    case ROW_WORD:
    case ROW_INT32:
        memcpy(&small, at, sizeof small);
        return small;
    case ROW_INT64:
        memcpy(&large, at, sizeof large);
        return (double)large;
    case ROW_DOUBLE:
        memcpy(&real, at, sizeof real);
        return real;
    }
    return 0;
}

/* `value` is within the row's limits, so that the conversions lose nothing. */
static void value_set(hf_subscription_options *options, const struct row *row, double value)
{
    char *at = (char *)options + row->offset;
    int32_t small;
    int64_t large;
    switch (row->kind) {
    case ROW_WORD:
    case ROW_INT32:
        small = (int32_t)value;
        memcpy(at, &small, sizeof small);
        break;
    case ROW_INT64:
        large = (int64_t)value;
        memcpy(at, &large, sizeof large);
        break;
    case ROW_DOUBLE:
        memcpy(at, &value, sizeof value);
        break;
    }
}

static size_t value_bytes(const struct row *row)
{
    switch (row->kind) {
    case ROW_WORD:
    case ROW_INT32:
        return sizeof(int32_t);
    case ROW_INT64:
        return sizeof(int64_t);
    case ROW_DOUBLE:
        return sizeof(double);
    }
    return 0;
}

static bool value_given(const hf_subscription_options *options, const struct row *row)
{
    return value_get(options, row) != (row->kind == ROW_WORD ? 0.0 : -1.0);
}

/* False for NaN too. */
static bool value_allowed(double value, const struct row *row)
{
    return value >= row->min && value <= row->max;
}

/* ---- All of them ----------------------------------------------------------------------------- */

void options_default(hf_subscription_options *ret_options)
{
    *ret_options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        value_set(ret_options, &rows[i], rows[i].initial);
    }
}

void options_merge(hf_subscription_options *options, const hf_subscription_options *given)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (value_given(given, &rows[i])) {
            /* Bytes, not values: what is outside the limits must reach options_check as it is. */
            memcpy((char *)options + rows[i].offset, (const char *)given + rows[i].offset,
                   value_bytes(&rows[i]));
        }
    }
    if (given->from.kind != HF_PLACE_NONE) {
        options->from = given->from;
    }
}

bool options_equal(const hf_subscription_options *a, const hf_subscription_options *b)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (memcmp((const char *)a + rows[i].offset, (const char *)b + rows[i].offset,
                   value_bytes(&rows[i])) != 0) {
            return false;
        }
    }
    return true;
}

static hf_status check_place(hf_place place)
{
    switch (place.kind) {
    case HF_PLACE_NONE:
    case HF_PLACE_START:
    case HF_PLACE_NOW:
        return HF_OK;
    case HF_PLACE_POSITION:
        return place.value >= 0
                   ? HF_OK
                   : fail(HF_INVALID, "from is position %" PRId64 "; it must be 0 or more",
                          place.value);
    case HF_PLACE_TIME:
        return place.value >= TIME_US_MIN && place.value <= TIME_US_MAX
                   ? HF_OK
                   : fail(HF_INVALID,
                          "from is the time %" PRId64 ", which is outside the years 0001 to 9999",
                          place.value);
    }
    return fail(HF_INVALID, "from is of kind %d, which is no hf_place_kind", (int)place.kind);
}

static hf_status refuse(double value, const struct row *row)
{
    if (row->kind == ROW_WORD) {
        struct buf words;
        buf_init(&words, 256);
        for (size_t i = 0; i < (size_t)row->max; i++) {
            buf_printf(&words, "%s%" TEXT_PRI, i ? ", " : "", TEXT_ARG(word_of(row, i + 1)));
        }
        hf_status status = fail(HF_INVALID, "%s is %.0f; it must be one of 1 to %.0f (%s)",
                                row->name, value, row->max, buf_terminate(&words));
        buf_release(&words);
        return status;
    }
    int digits = row->kind == ROW_DOUBLE ? 2 : 0;
    return fail(HF_INVALID, "%s is %.*f; it must be %.*f to %.*f", row->name, digits, value, digits,
                row->min, digits, row->max);
}

hf_status options_check(const hf_subscription_options *options)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        double value = value_get(options, &rows[i]);
        if (!value_allowed(value, &rows[i])) {
            return refuse(value, &rows[i]);
        }
    }
    if (options->retry_max_ms < options->retry_base_ms) {
        return fail(HF_INVALID,
                    "retry_max_ms is %" PRId64 "; it must be at least retry_base_ms (%" PRId64 ")",
                    options->retry_max_ms, options->retry_base_ms);
    }
    if (options->partitions > 1 && options->mode == HF_MODE_SHARED) {
        return fail(HF_INVALID,
                    "partitions is %d; a shared subscription has 1: any number of processes work "
                    "for it as it is",
                    options->partitions);
    }
    if (options->order == HF_ORDER_STRICT && options->mode == HF_MODE_SHARED) {
        return fail(HF_INVALID,
                    "order is strict, and a shared subscription has no order: its workers take "
                    "batches at the same time");
    }
    if (options->partitions > 1 && options->order == HF_ORDER_STRICT) {
        return fail(HF_INVALID,
                    "partitions is %d; in strict order there can only be 1, because all events "
                    "come one after another",
                    options->partitions);
    }
    if (options->on_batch_failure == HF_BATCH_SPLIT && options->on_poison == HF_POISON_BLOCK_KEY) {
        return fail(HF_INVALID,
                    "on_batch_failure is split, which goes with on_poison skip or halt: the "
                    "neighbours of a poison event live, and block_key would keep them back");
    }
    if (options->on_poison == HF_POISON_BLOCK_KEY && options->mode == HF_MODE_SHARED) {
        return fail(HF_INVALID,
                    "on_poison is block_key, and a shared subscription has no order of keys to "
                    "keep: use skip or halt, or an ordered subscription");
    }
    return check_place(options->from);
}

hf_status options_write(const hf_subscription_options *options, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out);
    json_object_begin(&json);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        double value = value_get(options, row);
        json_key(&json, row->name);
        if (row->kind == ROW_WORD) {
            json_string(&json,
                        value_allowed(value, row) ? word_of(row, (size_t)value) : TEXT_ABSENT);
        } else if (row->kind == ROW_DOUBLE) {
            json_double(&json, value);
        } else {
            json_int(&json, (int64_t)value);
        }
    }
    json_object_end(&json);
    return buf_status(out);
}

/* ---- Reading back ---------------------------------------------------------------------------- */

static hf_status corrupt(const struct row *row, struct text raw)
{
    return fail(HF_CORRUPT, "the stored option %s is %" TEXT_PRI ", which it cannot be", row->name,
                TEXT_ARG(raw));
}

/* The word's number, from 1; 0 if it is none of the row's. Words need no escaping, so the raw
 * string is the word between two quotes. */
static size_t word_find(const struct row *row, struct text raw)
{
    for (size_t i = 0; i < (size_t)row->max; i++) {
        struct text word = word_of(row, i + 1);
        struct text inner = {raw.bytes + 1, word.length};
        if (raw.length == word.length + 2 && raw.bytes[0] == '"' && text_equal(inner, word)) {
            return i + 1;
        }
    }
    return 0;
}

static hf_status value_read(const struct row *row, struct text raw,
                            hf_subscription_options *options)
{
    double value = 0;
    int64_t whole;
    switch (row->kind) {
    case ROW_WORD:
        value = (double)word_find(row, raw);
        break;
    case ROW_INT32:
    case ROW_INT64:
        if (json_int_decode(raw, &whole)) {
            return corrupt(row, raw);
        }
        value = (double)whole;
        break;
    case ROW_DOUBLE:
        if (json_double_decode(raw, &value)) {
            return corrupt(row, raw);
        }
        break;
    }
    if (!value_allowed(value, row)) {
        return corrupt(row, raw);
    }
    value_set(options, row, value);
    return HF_OK;
}

/* The row of a raw key; ROW_COUNT: none. They are stored in the order of the rows, so the search
 * begins where the next one should be. */
static size_t row_find(struct text key, size_t from)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t at = (from + i) % ROW_COUNT;
        if (json_key_is(key, text_of(rows[at].name))) {
            return at;
        }
    }
    return ROW_COUNT;
}

hf_status options_read(struct text json, hf_subscription_options *ret_options)
{
    hf_subscription_options options;
    options_default(&options);
    if (json_check_object(json.bytes, json.length, NULL, "what is stored as options")) {
        return err_set(HF_CORRUPT, err_message());
    }
    bool seen[ROW_COUNT] = {false};
    size_t next = 0;
    struct json_iter iter;
    struct text key;
    struct text raw;
    json_iter_init(&iter, json);
    while (json_iter_next(&iter, &key, &raw)) {
        size_t at = row_find(key, next);
        if (at == ROW_COUNT || seen[at]) {
            continue; /* of another version; or a second one, which does not count */
        }
        seen[at] = true;
        next = at + 1;
        hf_status status = value_read(&rows[at], raw, &options);
        if (status) {
            return status;
        }
    }
    if (options_check(&options)) {
        return fail(HF_CORRUPT, "the stored options cannot be: %s", err_message());
    }
    *ret_options = options;
    return HF_OK;
}

struct retry_policy options_retry(const hf_subscription_options *options)
{
    return (struct retry_policy){
        .attempts_max = options->attempts_max,
        .base_ms = options->retry_base_ms,
        .multiplier = options->retry_multiplier,
        .max_ms = options->retry_max_ms,
        .jitter_percent = options->retry_jitter_percent,
    };
}

struct breaker_policy options_breaker(const hf_subscription_options *options)
{
    return (struct breaker_policy){
        .events_min = options->breaker_events,
        .failed_percent = options->breaker_percent,
        .window_ms = options->breaker_window_ms,
        .pause_ms = options->breaker_pause_ms,
    };
}

/* ---- Patterns -------------------------------------------------------------------------------- */

hf_status patterns_check(const struct text *patterns, size_t count)
{
    if (count < 1 || count > HF_PATTERNS_MAX) {
        return fail(HF_INVALID, "a subscription has 1 to %d patterns; this one has %zu",
                    HF_PATTERNS_MAX, count);
    }
    for (size_t i = 0; i < count; i++) {
        hf_status status = glob_check_pattern(patterns[i]);
        if (status) {
            return fail(status, "pattern %zu: %s", i, err_message());
        }
    }
    return HF_OK;
}

hf_status patterns_write(const struct text *patterns, size_t count, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out);
    json_array_begin(&json);
    for (size_t i = 0; i < count; i++) {
        json_string(&json, patterns[i]);
    }
    json_array_end(&json);
    return buf_status(out);
}

/* Walks an array that passed json_check. */
static hf_status patterns_collect(struct text json, struct arena *arena, struct buf *scratch,
                                  struct text *ret_patterns, size_t max, size_t *ret_count)
{
    struct json_iter iter;
    if (json_kind(json) != JSON_ARRAY || !json_iter_init(&iter, json)) {
        return fail(HF_CORRUPT, "what is stored as patterns is not an array");
    }
    size_t count = 0;
    struct text raw;
    while (json_iter_next(&iter, NULL, &raw)) {
        if (count == max) {
            return fail(HF_CORRUPT, "more than %zu patterns are stored", max);
        }
        buf_clear(scratch);
        hf_status status = json_string_decode(raw, scratch);
        if (!status) {
            status = glob_check_pattern(buf_text(scratch));
        }
        if (status) {
            return fail(status == HF_NOMEM ? HF_NOMEM : HF_CORRUPT, "stored pattern %zu: %s", count,
                        err_message());
        }
        ret_patterns[count] = arena_text(arena, buf_text(scratch));
        count++;
    }
    *ret_count = count;
    return arena_status(arena);
}

hf_status patterns_read(struct text json, struct arena *arena, struct text *ret_patterns,
                        size_t max, size_t *ret_count)
{
    struct json_limits limits = {.bytes_max = PATTERNS_JSON_BYTES_MAX};
    if (json_check(json.bytes, json.length, &limits, "what is stored as patterns")) {
        return err_set(HF_CORRUPT, err_message());
    }
    struct buf scratch;
    buf_init(&scratch, (size_t)4 * HF_TYPE_BYTES_MAX);
    hf_status status = patterns_collect(json, arena, &scratch, ret_patterns, max, ret_count);
    buf_release(&scratch);
    return status;
}
