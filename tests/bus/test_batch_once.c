/*
 * Tests of G5 for batch handlers: what a unit writes and publishes is there exactly once and whole,
 * wherever in the life of the unit the process is killed. See support_units.h for the moments and
 * for what is judged, and test_exactly_once.c for handlers of single events.
 */
#include "support_units.h"

#ifdef HF_FAULTS

static const struct part parts[] = {{"work", units_work}};

static hf_subscription_options batch_options(hf_batch_by by)
{
    hf_subscription_options options = quick_options();

    options.batch_by = by;
    return options;
}

static void effects_of_units_by_key_are_exactly_once(void **state)
{
    units_be_killed_everywhere(*state, batch_options(HF_BATCH_KEY));
}

static void effects_of_units_without_keys_are_exactly_once(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_NONE);

    options.batch = 5; /* a round has several units */
    units_be_killed_everywhere(*state, options);
}

static void effects_of_units_in_partitions_with_many_workers_are_exactly_once(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.partitions = 4;
    options.concurrency = 3;
    options.batch = 3;
    units_be_killed_everywhere(*state, options);
}

static void effects_of_units_in_a_lease_are_exactly_once(void **state)
{
    hf_subscription_options options = batch_options(HF_BATCH_KEY);

    options.mode = HF_MODE_SHARED;
    options.batch = 5; /* several leases */
    units_be_killed_everywhere(*state, options);
}

static const struct CMUnitTest tests[] = {
    scene_test(effects_of_units_by_key_are_exactly_once),
    scene_test(effects_of_units_without_keys_are_exactly_once),
    scene_test(effects_of_units_in_partitions_with_many_workers_are_exactly_once),
    scene_test(effects_of_units_in_a_lease_are_exactly_once),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
