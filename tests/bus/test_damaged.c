/*
 * Tests of events that were damaged in the database after they were published: no handler gets one,
 * each becomes a dead letter, and what comes with it or behind it is treated as the subscription's
 * options say. What verify says about them is tested in tests/cli/verify.sh.
 */
#include "support_tables.h"

/* Changes the payload of those events whose payload is the number 7 into 8. */
static void damage(struct scene *scene)
{
    tables_run(scene, scene->path ? "UPDATE holdfast_events SET payload = '8' WHERE payload = '7'"
                                  : "UPDATE holdfast_private.events SET payload = '8' "
                                    "WHERE payload::text = '7'");
}

/* Expects that the one dead letter is that of the damaged event, and answers it. */
static struct dead the_dead_one(struct scene *scene, const hf_receipt *damaged)
{
    struct dead dead[2];

    assert_int_equal(dead_of(scene->bus, "a", dead, 2), 1);
    assert_string_equal(dead[0].event_id, damaged->id);
    assert_string_equal(dead[0].reason, "corrupt");
    assert_int_equal(dead[0].attempts, 0);
    return dead[0];
}

struct search {
    hf_bus *bus;
    const char *id;
    hf_state state;
};

static bool is_in_state(void *ctx)
{
    struct search *search = ctx;

    return state_of(search->bus, "a", search->id, NULL) == search->state;
}

/* ---- Alone ----------------------------------------------------------------------------------- */

/* Of three events the one in the middle is damaged. */
static void the_others_are_delivered(struct scene *scene, const hf_subscription_options *options)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_receipt damaged;
    struct dead dead;

    publish(scene->bus, "x", "k", "1");
    damaged = *publish(scene->bus, "x", "k", "7");
    publish(scene->bus, "x", "k", "2");
    damage(scene);
    subscribe(scene->bus, "a", "*", recorder, options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_calls(recorder, damaged.position, NULL), 0);
    dead = the_dead_one(scene, &damaged);
    /* As it is it dies again. */
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, NULL, 0));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    dead = the_dead_one(scene, &damaged);
    /* A payload that was given for it is whole. */
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, "7", 1));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 3);
    assert_string_equal(recorder_get(recorder, 2).payload, "7");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 0);
}

static void a_damaged_event_of_an_ordered_subscription_dies_alone(void **state)
{
    hf_subscription_options options = quick_options();

    the_others_are_delivered(*state, &options);
}

static void a_damaged_event_of_a_shared_subscription_dies_alone(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    the_others_are_delivered(*state, &options);
}

static void a_damaged_event_of_a_transactional_subscription_dies_alone(void **state)
{
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    the_others_are_delivered(*state, &options);
}

/* ---- Its key --------------------------------------------------------------------------------- */

static void with_block_key_its_key_waits_behind_a_damaged_event(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_receipt before, damaged, behind, later, other;
    struct dead dead;

    before = *publish(scene->bus, "x", "k", "1");
    damaged = *publish(scene->bus, "x", "k", "7");
    behind = *publish(scene->bus, "x", "k", "2");
    other = *publish(scene->bus, "x", "free", "3");
    damage(scene);
    options.on_poison = HF_POISON_BLOCK_KEY;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "a", other.position, DEADLINE_MS));
    assert_true(wait_until(is_in_state, &(struct search){scene->bus, before.id, HF_STATE_DONE}));
    assert_true(wait_until(is_in_state, &(struct search){scene->bus, behind.id, HF_STATE_HELD}));
    later = *publish(scene->bus, "x", "k", "4");
    assert_true(wait_until(is_in_state, &(struct search){scene->bus, later.id, HF_STATE_HELD}));
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_calls(recorder, before.position, NULL), 1);
    assert_int_equal(recorder_calls(recorder, other.position, NULL), 1);
    assert_int_equal(info_of(scene->bus, "a").blocked, 1);
    dead = the_dead_one(scene, &damaged);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, "7", 1));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 5);
    assert_int_equal(recorder_get(recorder, 2).position, damaged.position);
    assert_int_equal(recorder_get(recorder, 3).position, behind.position);
    assert_int_equal(recorder_get(recorder, 4).position, later.position);
    assert_int_equal(info_of(scene->bus, "a").blocked, 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(a_damaged_event_of_an_ordered_subscription_dies_alone),
    scene_test(a_damaged_event_of_a_shared_subscription_dies_alone),
    scene_test(a_damaged_event_of_a_transactional_subscription_dies_alone),
    scene_test(with_block_key_its_key_waits_behind_a_damaged_event),
};

SCENE_MAIN(tests)
