/*
 * Tests of G5: transactional handlers have exactly-once effects, wherever in the life of a delivery
 * the process is killed.
 *
 * A child works for the subscription "a": for each event it writes a row and publishes one event,
 * both in the delivery's transaction. It is killed (SIGKILL) at a named point, the nth time that it
 * comes there; then another child finishes the work. Whatever the point, in the end there is one
 * row and one published event for each event. A point at which no process was ever killed fails the
 * test: it would have shown nothing. See support_units.h for the moments and for what is judged,
 * and test_batch_once.c for handlers of batches.
 */
#include "support_units.h"

#ifdef HF_FAULTS

static const struct part parts[] = {{"work", units_work_singly}};

/* chunks: deliveries share commits. */
static void be_killed_everywhere(struct scene *scene, hf_subscription_options options, bool chunks)
{
    options.checkpoint_events = chunks ? 1000 : 1;
    units_be_killed_everywhere(scene, options);
}

static hf_subscription_options shared_options(void)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    options.batch = 5; /* several leases */
    return options;
}

static void effects_of_single_ordered_deliveries_are_exactly_once(void **state)
{
    be_killed_everywhere(*state, quick_options(), false);
}

static void effects_of_ordered_deliveries_that_share_a_commit_are_exactly_once(void **state)
{
    be_killed_everywhere(*state, quick_options(), true);
}

static void effects_of_ordered_deliveries_with_many_workers_are_exactly_once(void **state)
{
    hf_subscription_options options = quick_options();

    options.concurrency = 3;
    be_killed_everywhere(*state, options, false);
}

static void effects_of_ordered_deliveries_in_partitions_are_exactly_once(void **state)
{
    hf_subscription_options options = quick_options();

    options.partitions = 4;
    options.concurrency = 3;
    be_killed_everywhere(*state, options, true);
}

static void effects_of_single_shared_deliveries_are_exactly_once(void **state)
{
    be_killed_everywhere(*state, shared_options(), false);
}

static void effects_of_shared_deliveries_that_share_a_commit_are_exactly_once(void **state)
{
    be_killed_everywhere(*state, shared_options(), true);
}

static const struct CMUnitTest tests[] = {
    scene_test(effects_of_single_ordered_deliveries_are_exactly_once),
    scene_test(effects_of_ordered_deliveries_that_share_a_commit_are_exactly_once),
    scene_test(effects_of_ordered_deliveries_with_many_workers_are_exactly_once),
    scene_test(effects_of_ordered_deliveries_in_partitions_are_exactly_once),
    scene_test(effects_of_single_shared_deliveries_are_exactly_once),
    scene_test(effects_of_shared_deliveries_that_share_a_commit_are_exactly_once),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
