/*
 * test_options.c - defaults, merging, limits and JSON of subscription options; patterns as JSON.
 */
#include "unit/unit.h"

#include <math.h>

#include "base/arena.h"
#include "base/text/json_check.h"
#include "bus/options.h"
#include "support/option_fields.h"

static hf_subscription_options defaults(void)
{
    hf_subscription_options options;
    options_default(&options);
    return options;
}

/* By value: padding between the fields may hold anything. */
static void assert_same(const hf_subscription_options *a, const hf_subscription_options *b)
{
    struct buf left;
    struct buf right;
    buf_init(&left, 4096);
    buf_init(&right, 4096);
    assert_ok(options_write(a, &left));
    assert_ok(options_write(b, &right));
    assert_string_equal(buf_terminate(&left), buf_terminate(&right));
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->from.kind, b->from.kind);
    buf_release(&left);
    buf_release(&right);
}

/* ---- Defaults and merging -------------------------------------------------------------------- */

static void defaults_are_those_of_the_header(void **state)
{
    (void)state;
    hf_subscription_options o = defaults();
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.from.kind, HF_PLACE_NONE);
    assert_int_equal(o.mode, HF_MODE_ORDERED);
    assert_int_equal(o.order, HF_ORDER_RELAXED);
    assert_int_equal(o.instance_mode, HF_INSTANCE_COORDINATED);
    assert_int_equal(o.on_unhandled, HF_UNHANDLED_SKIP);
    assert_int_equal(o.on_poison, HF_POISON_SKIP);
    assert_int_equal(o.transactional, HF_OFF);
    assert_int_equal(o.breaker, HF_OFF);
    assert_int_equal(o.partitions, 1);
    assert_int_equal(o.batch, 100);
    assert_int_equal(o.concurrency, 1);
    assert_int_equal(o.inflight_max, 1000);
    assert_int_equal(o.attempts_max, 4);
    assert_int_equal(o.retry_jitter_percent, 10);
    assert_int_equal(o.retry_base_ms, 1000);
    assert_int_equal(o.retry_max_ms, 30000);
    assert_true(o.retry_multiplier == 2.0);
    assert_int_equal(o.handler_timeout_ms, 30000);
    assert_int_equal(o.lease_ms, 30000);
    assert_int_equal(o.checkpoint_events, 100);
    assert_int_equal(o.checkpoint_ms, 100);
    assert_int_equal(o.wait_period_ms, 1000);
    assert_int_equal(o.tx_max_ms, 1000);
    assert_int_equal(o.gap_timeout_ms, 0);
    assert_int_equal(o.stuck_max, 16);
    assert_int_equal(o.breaker_events, 20);
    assert_int_equal(o.breaker_percent, 50);
    assert_int_equal(o.breaker_window_ms, 60000);
    assert_int_equal(o.breaker_pause_ms, 30000);
    assert_ok(options_check(&o));
}

static void absent_options_change_nothing(void **state)
{
    (void)state;
    hf_subscription_options given = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_subscription_options before = defaults();
    hf_subscription_options after = before;
    options_merge(&after, &given);
    assert_same(&before, &after);
}

static void given_options_replace_field_by_field(void **state)
{
    (void)state;
    hf_subscription_options given = HF_SUBSCRIPTION_OPTIONS_INIT;
    given.mode = HF_MODE_SHARED;
    given.attempts_max = 1;
    given.retry_base_ms = 0;
    given.retry_jitter_percent = 0;
    given.retry_multiplier = 1.5;
    given.from = (hf_place){HF_PLACE_POSITION, 7};
    hf_subscription_options o = defaults();
    options_merge(&o, &given);
    assert_int_equal(o.mode, HF_MODE_SHARED);
    assert_int_equal(o.attempts_max, 1);
    assert_int_equal(o.retry_base_ms, 0);
    assert_int_equal(o.retry_jitter_percent, 0);
    assert_true(o.retry_multiplier == 1.5);
    assert_int_equal(o.from.value, 7);
    assert_int_equal(o.retry_max_ms, 30000);
    assert_int_equal(o.batch, 100);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void options_are_equal_by_value_and_not_by_padding(void **state)
{
    (void)state;
    hf_subscription_options a;
    hf_subscription_options b;
    hf_subscription_options given = defaults();
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xff, sizeof b);
    a.from.kind = HF_PLACE_START;
    options_merge(&a, &given);
    options_merge(&b, &given);
    assert_true(options_equal(&a, &b));
    b.retry_multiplier = 3.0;
    assert_false(options_equal(&a, &b));
    b.retry_multiplier = a.retry_multiplier;
    b.breaker_pause_ms++;
    assert_false(options_equal(&a, &b));
}

/* The defaults, but that no other option speaks against a retry_base_ms or retry_max_ms. */
static hf_subscription_options loose(void)
{
    hf_subscription_options o = defaults();
    o.retry_base_ms = 0;
    return o;
}

/* The option with a value beyond its limits is refused by a sentence that names it, its value and
 * the limit. */
static void refused(const struct option_field *field, double value)
{
    hf_subscription_options o = loose();
    int digits = field->kind == OPTION_DOUBLE ? 2 : 0;
    char part[128];
    option_field_set(&o, field, value);
    assert_int_equal(options_check(&o), HF_INVALID);
    snprintf(part, sizeof part, "%s is %.*f; it must be ", field->name, digits, value);
    assert_message(part);
    snprintf(part, sizeof part, " to %.*f", digits, field->max);
    assert_message(part);
}

static void limits_of_every_option_are_exact_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_FIELDS; i++) {
        const struct option_field *field = &option_fields[i];
        hf_subscription_options o = loose();
        option_field_set(&o, field, field->min);
        assert_ok(options_check(&o));
        o = loose();
        o.retry_max_ms = INT64_C(366) * 86400000;
        option_field_set(&o, field, field->max);
        assert_ok(options_check(&o));
        refused(field, field->min - 1);
        refused(field, field->max + 1);
    }
}

static void every_word_of_an_option_has_its_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_FIELDS; i++) {
        const struct option_field *field = &option_fields[i];
        const char *word = field->words;
        for (int number = 1; word && number <= (int)field->max; number++) {
            char json[128];
            int length = (int)strcspn(word, "|");
            hf_subscription_options expected = defaults();
            hf_subscription_options o;
            snprintf(json, sizeof json, "{\"%s\":\"%.*s\"}", field->name, length, word);
            option_field_set(&expected, field, number);
            assert_ok(options_read(text_of(json), &o));
            assert_same(&expected, &o);
            word += length + (word[length] == '|');
        }
        assert_true(!word || *word == '\0'); /* there are no more words than values */
    }
}

static void every_option_of_the_wrong_type_is_corrupt_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_FIELDS; i++) {
        const struct option_field *field = &option_fields[i];
        const char *const wrong[] = {field->words ? "1" : "\"1\"", "null", "true", "[1]", "{}"};
        for (size_t j = 0; j < COUNT_OF(wrong); j++) {
            char json[128];
            hf_subscription_options o;
            snprintf(json, sizeof json, "{\"%s\":%s}", field->name, wrong[j]);
            assert_int_equal(options_read(text_of(json), &o), HF_CORRUPT);
            assert_message(field->name);
        }
    }
}

static void extreme_values_are_refused_and_not_wrapped(void **state)
{
    (void)state;
    hf_subscription_options given = HF_SUBSCRIPTION_OPTIONS_INIT;
    given.lease_ms = INT64_MAX;
    hf_subscription_options o = defaults();
    options_merge(&o, &given);
    assert_int_equal(o.lease_ms, INT64_MAX);
    assert_int_equal(options_check(&o), HF_INVALID);
    o = defaults();
    o.checkpoint_ms = INT64_MIN;
    assert_int_equal(options_check(&o), HF_INVALID);
    assert_message("checkpoint_ms");
}

static void a_multiplier_that_is_no_number_is_refused(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, 0.99, 100.01, -2};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        hf_subscription_options given = HF_SUBSCRIPTION_OPTIONS_INIT;
        given.retry_multiplier = bad[i];
        hf_subscription_options o = defaults();
        options_merge(&o, &given);
        assert_int_equal(options_check(&o), HF_INVALID);
        assert_message("retry_multiplier");
    }
}

static void retry_max_below_base_is_refused(void **state)
{
    (void)state;
    hf_subscription_options o = defaults();
    o.retry_base_ms = 5000;
    o.retry_max_ms = 4999;
    assert_int_equal(options_check(&o), HF_INVALID);
    assert_message("retry_max_ms is 4999; it must be at least retry_base_ms (5000)");
    o.retry_max_ms = 5000;
    assert_ok(options_check(&o));
}

static void places_in_the_log_are_checked(void **state)
{
    (void)state;
    hf_subscription_options o = defaults();
    o.from = (hf_place){HF_PLACE_POSITION, 0};
    assert_ok(options_check(&o));
    o.from.value = -1;
    assert_int_equal(options_check(&o), HF_INVALID);
    assert_message("position -1");
    o.from = (hf_place){HF_PLACE_TIME, INT64_MAX};
    assert_int_equal(options_check(&o), HF_INVALID);
    o.from = (hf_place){(hf_place_kind)5, 0};
    assert_int_equal(options_check(&o), HF_INVALID);
    assert_message("kind 5");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void written_options_read_back_as_they_were(void **state)
{
    (void)state;
    hf_subscription_options o = defaults();
    o.mode = HF_MODE_SHARED;
    o.instance_mode = HF_INSTANCE_SINGLE;
    o.on_unhandled = HF_UNHANDLED_DEAD_LETTER;
    o.on_poison = HF_POISON_HALT;
    o.transactional = HF_ON;
    o.retry_multiplier = 1.1;
    o.retry_max_ms = INT64_C(31622400000);
    o.stuck_max = 3;
    struct buf buf;
    buf_init(&buf, 4096);
    assert_ok(options_write(&o, &buf));
    assert_ok(json_check_object(buf.bytes, buf.length, NULL, "options"));
    assert_non_null(strstr(buf.bytes, "\"mode\":\"shared\""));
    assert_non_null(strstr(buf.bytes, "\"on_poison\":\"halt\""));
    assert_non_null(strstr(buf.bytes, "\"transactional\":\"on\""));
    assert_non_null(strstr(buf.bytes, "\"retry_multiplier\":1.1"));
    assert_null(strstr(buf.bytes, "\"from\""));
    assert_null(strstr(buf.bytes, "\"size\""));
    hf_subscription_options back;
    assert_ok(options_read(buf_text(&buf), &back));
    assert_same(&o, &back);
    assert_int_equal(back.retry_max_ms, INT64_C(31622400000));
    assert_int_equal(back.on_poison, HF_POISON_HALT);
    assert_true(back.retry_multiplier == 1.1);
    buf_release(&buf);
}

static void missing_members_get_defaults_and_unknown_ones_are_ignored(void **state)
{
    (void)state;
    hf_subscription_options expected = defaults();
    expected.batch = 7;
    hf_subscription_options o;
    assert_ok(options_read(text_of("{\"batch\":7,\"of_the_future\":{\"a\":[1]}}"), &o));
    assert_same(&expected, &o);
}

static void stored_nonsense_is_corrupt_and_leaves_the_target_alone(void **state)
{
    (void)state;
    const char *bad[] = {
        "",
        "[]",
        "{",
        "{\"mode\":\"sideways\"}",
        "{\"mode\":1}",
        "{\"mode\":null}",
        "{\"batch\":\"7\"}",
        "{\"batch\":0}",
        "{\"batch\":7.5}",
        "{\"batch\":99999999999999999999}",
        "{\"retry_multiplier\":\"2\"}",
        "{\"retry_base_ms\":60000}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        hf_subscription_options o;
        memset(&o, 0x5A, sizeof o);
        hf_subscription_options before = o;
        assert_int_equal(options_read(text_of(bad[i]), &o), HF_CORRUPT);
        assert_memory_equal(&before, &o, sizeof o);
    }
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static void patterns_read_back_as_written(void **state)
{
    (void)state;
    const struct text patterns[] = {TEXT_LITERAL("user.*"), TEXT_LITERAL("gr\xC3\xBC\xC3\x9F.**"),
                                    TEXT_LITERAL("a\"b\\c")};
    struct buf buf;
    struct arena arena;
    buf_init(&buf, 4096);
    arena_init(&arena, 4096);
    assert_ok(patterns_write(patterns, COUNT_OF(patterns), &buf));
    struct text back[HF_PATTERNS_MAX];
    size_t count = 0;
    assert_ok(patterns_read(buf_text(&buf), &arena, back, HF_PATTERNS_MAX, &count));
    assert_int_equal(count, COUNT_OF(patterns));
    for (size_t i = 0; i < count; i++) {
        assert_true(text_equal(patterns[i], back[i]));
        assert_int_equal(back[i].bytes[back[i].length], '\0');
    }
    arena_release(&arena);
    buf_release(&buf);
}

static void sixty_four_patterns_are_allowed_and_one_more_is_not(void **state)
{
    (void)state;
    struct text patterns[HF_PATTERNS_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        patterns[i] = text_of("a.b");
    }
    assert_ok(patterns_check(patterns, HF_PATTERNS_MAX));
    assert_int_equal(patterns_check(patterns, HF_PATTERNS_MAX + 1), HF_INVALID);
    assert_message("1 to 64");
    assert_int_equal(patterns_check(patterns, 0), HF_INVALID);
    patterns[3] = text_of("a..b");
    assert_int_equal(patterns_check(patterns, 5), HF_INVALID);
    assert_message("pattern 3: ");
}

static void stored_patterns_that_cannot_be_are_corrupt(void **state)
{
    (void)state;
    const char *bad[] = {"", "{}", "\"a\"", "[1]", "[\"a..b\"]", "[\"a\",\"b\",\"c\"]", "[null]"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct arena arena;
        struct text back[2];
        size_t count = 99;
        arena_init(&arena, 4096);
        assert_int_equal(patterns_read(text_of(bad[i]), &arena, back, 2, &count), HF_CORRUPT);
        assert_int_equal(count, 99);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_header),
        cmocka_unit_test(absent_options_change_nothing),
        cmocka_unit_test(given_options_replace_field_by_field),
        cmocka_unit_test(options_are_equal_by_value_and_not_by_padding),
        cmocka_unit_test(limits_of_every_option_are_exact_and_named),
        cmocka_unit_test(every_word_of_an_option_has_its_number),
        cmocka_unit_test(every_option_of_the_wrong_type_is_corrupt_by_name),
        cmocka_unit_test(extreme_values_are_refused_and_not_wrapped),
        cmocka_unit_test(a_multiplier_that_is_no_number_is_refused),
        cmocka_unit_test(retry_max_below_base_is_refused),
        cmocka_unit_test(places_in_the_log_are_checked),
        cmocka_unit_test(written_options_read_back_as_they_were),
        cmocka_unit_test(missing_members_get_defaults_and_unknown_ones_are_ignored),
        cmocka_unit_test(stored_nonsense_is_corrupt_and_leaves_the_target_alone),
        cmocka_unit_test(patterns_read_back_as_written),
        cmocka_unit_test(sixty_four_patterns_are_allowed_and_one_more_is_not),
        cmocka_unit_test(stored_patterns_that_cannot_be_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
