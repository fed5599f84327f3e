/*
 * Tests of G5 for batch handlers: what a unit writes and publishes is there exactly once and whole,
 * wherever in the life of the unit the process is killed. See support_units.h for what is judged,
 * and test_exactly_once.c for handlers of single events.
 *
 * A point at which nobody was killed fails the test: it would have shown nothing.
 */
#include "support_units.h"

#ifdef HF_FAULTS

#define ROUND_EVENTS 12

static const struct part parts[] = {{"work", units_work}};

/* From what is read until it is part of a stored checkpoint. */
static const struct moment ordered_moments[] = {
    {"before_handler", 1, false},
    {"before_handler", 2, true}, /* one unit is committed */
    {"after_handler_before_settle", 1, false},
    {"handler_tx_before_commit", 1, false},
    {"tx_after_settle", 1, true},
    {"tx_after_settle", 5, true}, /* some of the unit's events are settled, and not committed */
    {"tx_before_commit", 1, false},
    {"tx_after_commit", 1, false},
    {"handler_tx_after_commit", 1, false},
    {"before_settle", 1, false},
    {"after_settle", 1, false},
};

static const struct moment shared_moments[] = {
    {"after_claim", 1, false},
    {"before_handler", 1, false},
    {"handler_tx_before_commit", 1, false},
    {"tx_after_settle", 3, true},
    {"tx_before_commit", 1, false},
    {"tx_after_commit", 1, false},
    {"handler_tx_after_commit", 2, true},
};

static void be_killed_in(struct scene *scene, hf_subscription_options options,
                         const struct moment *moments, size_t count)
{
    struct units *units;

    options.attempts_max = 100;
    units = units_begin(scene, options);
    units_go_through(units, moments, count, ROUND_EVENTS, -1);
    assert_int_equal(units_judge(units), 0);
}

static hf_subscription_options batch_options(hf_batch_by by)
{
    hf_subscription_options options = quick_options();

    options.batch_by = by;
    return options;
}

static void of_units_by_key_effects_are_exactly_once(void **state)
{
    be_killed_in(*state, batch_options(HF_BATCH_KEY), ordered_moments, COUNTED(ordered_moments));
}

static void of_units_without_keys_too(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_NONE);

    options.batch = 5; /* a round has several units */
    be_killed_in(*state, options, ordered_moments, COUNTED(ordered_moments));
}

static void of_units_in_partitions_with_many_workers_too(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.partitions = 4;
    options.concurrency = 3;
    options.batch = 3;
    be_killed_in(*state, options, ordered_moments + 1, 4);
}

static void of_units_in_a_lease_too(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.mode = HF_MODE_SHARED;
    be_killed_in(*state, options, shared_moments, COUNTED(shared_moments));
}

static const struct CMUnitTest tests[] = {
    scene_test(of_units_by_key_effects_are_exactly_once),
    scene_test(of_units_without_keys_too),
    scene_test(of_units_in_partitions_with_many_workers_too),
    scene_test(of_units_in_a_lease_too),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
