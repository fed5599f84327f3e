/*
 * Tests of units that fail while the process is killed: whatever the moment, an event ends as done
 * with its effect, or as a dead letter without one, and what dies as a unit dies whole.
 *
 * Every round has one poison event among healthy ones of two keys. A crash takes a unit apart
 * (it is unknown which event it was), so with dead_letter_unit the healthy ones of the poison
 * event's unit may live or die, but the unit that dies is whole; with split they always live.
 */
#include "support_units.h"

#ifdef HF_FAULTS

#define ROUND_EVENTS 8
#define ROUND_POISON 4 /* of key "k", which has five of them */

static const struct part parts[] = {{"work", units_work}};

/* The first attempt fails, its failure is stored, the second fails, the deaths are stored. */
static const struct moment moments[] = {
    {"before_handler", 1, false}, {"after_handler_before_settle", 2, false},
    {"before_handler", 3, true},  {"before_settle", 1, false},
    {"mid_settle", 1, false},     {"after_settle", 1, false},
    {"before_settle", 2, true},   {"mid_dead_letter", 1, true},
    {"mid_dead_letter", 3, true}, {"mid_settle", 2, true},
    {"after_settle", 2, true},
};

/* The moments of a unit that is split: each half is tried, and halved again. */
static const struct moment split_moments[] = {
    {"before_handler", 4, true},           {"after_handler_before_settle", 5, true},
    {"tx_before_commit", 2, true},         {"tx_after_commit", 2, true},
    {"handler_tx_before_commit", 3, true}, {"handler_tx_after_commit", 3, true},
};

static struct units *fail_in(struct scene *scene, hf_batch_by by, hf_on_batch_failure how,
                             hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.batch_by = by;
    options.on_batch_failure = how;
    options.mode = mode;
    options.attempts_max = 2;
    return units_begin(scene, options);
}

static void go_through(struct units *units, const struct moment *list, size_t count)
{
    units_go_through(units, list, count, ROUND_EVENTS, ROUND_POISON);
}

static void a_unit_that_dies_dies_whole_wherever_the_process_is_killed(void **state)
{
    struct units *units = fail_in(*state, HF_BATCH_KEY, HF_BATCH_DEAD_LETTER_UNIT, HF_MODE_ORDERED);
    size_t dead;

    go_through(units, moments, COUNTED(moments));
    dead = units_judge(units);
    assert_true(units->kills >= 5);
    assert_true(dead >= COUNTED(moments) && dead <= 5 * COUNTED(moments)); /* only key "k" */
}

static void a_unit_without_keys_that_dies_dies_whole(void **state)
{
    struct units *units =
        fail_in(*state, HF_BATCH_NONE, HF_BATCH_DEAD_LETTER_UNIT, HF_MODE_ORDERED);

    go_through(units, moments, 6);
    assert_true(units_judge(units) >= 6);
}

static void a_unit_that_is_split_loses_only_the_poison_event(void **state)
{
    struct units *units = fail_in(*state, HF_BATCH_KEY, HF_BATCH_SPLIT, HF_MODE_ORDERED);

    go_through(units, moments, 4);
    go_through(units, split_moments, COUNTED(split_moments));
    assert_int_equal(units_judge(units), 4 + COUNTED(split_moments));
    assert_true(units->kills >= 6);
}

static void a_unit_in_a_lease_that_is_split_loses_only_the_poison_event(void **state)
{
    struct units *units = fail_in(*state, HF_BATCH_NONE, HF_BATCH_SPLIT, HF_MODE_SHARED);

    go_through(units, split_moments, COUNTED(split_moments));
    assert_int_equal(units_judge(units), COUNTED(split_moments));
    assert_true(units->kills >= 3);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_unit_that_dies_dies_whole_wherever_the_process_is_killed),
    scene_test(a_unit_without_keys_that_dies_dies_whole),
    scene_test(a_unit_that_is_split_loses_only_the_poison_event),
    scene_test(a_unit_in_a_lease_that_is_split_loses_only_the_poison_event),
};

ACTOR_MAIN(tests, parts)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
