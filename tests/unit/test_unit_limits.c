/* Unit tests of bus/unit: the limits of units, from the options and the kind of the handlers. */
#include "bus/deliver/work/chunk.h"
#include "unit.h"

static hf_subscription_options options_of(hf_mode mode, hf_batch_by by, int32_t batch,
                                          int32_t extend_max)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.mode = mode;
    options.batch_by = by;
    options.batch = batch;
    options.batch_extend_max = extend_max;
    return options;
}

static void handlers_of_one_event_have_units_of_one_whatever_the_options_say(void **state)
{
    (void)state;
    hf_subscription_options options = options_of(HF_MODE_ORDERED, HF_BATCH_KEY, 100, 1000);
    struct unit_limits limits = unit_limits(&options, HANDLERS_SINGLE);
    assert_int_equal(limits.events, 1);
    assert_int_equal(limits.events_max, 1);
    assert_int_equal(limits.per_chunk, CHUNK_MAX);
    assert_false(limits.by_key);
    assert_false(limits.whole);
}

static void a_unit_of_a_key_is_extended_only_where_the_log_is_read_in_order(void **state)
{
    (void)state;
    hf_subscription_options ordered = options_of(HF_MODE_ORDERED, HF_BATCH_KEY, 100, 1000);
    hf_subscription_options shared = options_of(HF_MODE_SHARED, HF_BATCH_KEY, 100, 1000);
    hf_subscription_options any = options_of(HF_MODE_ORDERED, HF_BATCH_NONE, 100, 1000);
    assert_int_equal(unit_limits(&ordered, HANDLERS_BATCH).events_max, 1100);
    assert_int_equal(unit_limits(&shared, HANDLERS_BATCH).events_max, 100);
    assert_int_equal(unit_limits(&any, HANDLERS_BATCH).events_max, 100);
    assert_true(unit_limits(&shared, HANDLERS_BATCH).by_key);
    assert_false(unit_limits(&any, HANDLERS_BATCH).by_key);
}

static void a_unit_is_never_larger_than_can_be_settled_at_once(void **state)
{
    (void)state;
    hf_subscription_options options =
        options_of(HF_MODE_ORDERED, HF_BATCH_KEY, UNIT_EVENTS_MAX + 1, 10000);
    struct unit_limits limits = unit_limits(&options, HANDLERS_BATCH);
    assert_int_equal(limits.events, UNIT_EVENTS_MAX);
    assert_int_equal(limits.events_max, UNIT_EVENTS_MAX);
}

static void a_worker_takes_one_unit_of_batch_handlers_at_once_even_a_small_one(void **state)
{
    (void)state;
    hf_subscription_options options = options_of(HF_MODE_ORDERED, HF_BATCH_NONE, 1, 0);
    struct unit_limits limits = unit_limits(&options, HANDLERS_BATCH);
    assert_int_equal(limits.events, 1);
    assert_int_equal(limits.per_chunk, 1);
    assert_true(limits.whole); /* one that failed when `batch` was larger comes again as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_of_one_event_have_units_of_one_whatever_the_options_say),
        cmocka_unit_test(a_unit_of_a_key_is_extended_only_where_the_log_is_read_in_order),
        cmocka_unit_test(a_unit_is_never_larger_than_can_be_settled_at_once),
        cmocka_unit_test(a_worker_takes_one_unit_of_batch_handlers_at_once_even_a_small_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
