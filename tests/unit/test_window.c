/* Unit tests of bus/window: who leaves the log, and what is kept of them. */
#include "base/hash.h"
#include "bus/deliver/window/window.h"
#include "unit.h"

#define SLOTS 8
#define FAILING 7 /* a lane */

struct scene {
    struct window window;
    struct batch_pool batch_pool;
};

static void scene_begin(struct scene *scene)
{
    *scene = (struct scene){0};
    assert_int_equal(window_init(&scene->window, SLOTS, 2, true, 1), HF_OK);
    assert_int_equal(window_prepare(&scene->window), HF_OK);
    assert_true(window_fail_lane(&scene->window, FAILING, 0));
}

static void scene_end(struct scene *scene)
{
    window_release(&scene->window, &scene->batch_pool);
    batch_pool_release(&scene->batch_pool);
}

/* An event that comes alone: its event_batch is its own. */
static struct slot *put(struct scene *scene, int64_t position, uint64_t lane, const char *payload)
{
    struct event_batch *event_batch = batch_pool_take(&scene->batch_pool);
    assert_non_null(event_batch);
    struct entry *entry = batch_push(&event_batch->batch);
    assert_non_null(entry);
    struct text text = arena_text(&event_batch->batch.arena, text_of(payload));
    entry->event.position = position;
    entry->event.type = arena_text(&event_batch->batch.arena, text_of("a.b")).bytes;
    entry->event.payload = text.bytes;
    entry->event.payload_bytes = text.length;
    entry->lane = lane;
    entry->damaged = false;
    struct slot *slot = window_put(&scene->window, &scene->window.log, event_batch, entry);
    slot_set(slot, TRAIT_FROM_LOG, true);
    batch_pool_return(&scene->batch_pool, event_batch);
    return slot;
}

/* Takes the next one that may run, which is at this position, and has it done. */
static void run(struct scene *scene, int64_t position)
{
    struct slot *slot = window_take(&scene->window, NULL);
    assert_non_null(slot);
    assert_int_equal(slot->entry->event.position, position);
    slot->ending = ENDED_VERDICT;
    slot->verdict = HF_ACK;
    window_settle(&scene->window, slot);
}

/* One that is held at position 1, and three behind it that are done. */
static struct slot *hold_one(struct scene *scene)
{
    struct slot *held = put(scene, 1, FAILING, "{\"n\":1}");
    for (int64_t position = 2; position <= 4; position++) {
        put(scene, position, (uint64_t)position, "{}");
        run(scene, position);
    }
    assert_int_equal(scene->window.held, 1);
    window_reap(&scene->window, &scene->batch_pool);
    return held;
}

static void a_finished_event_passes_a_held_one_and_is_remembered(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    hold_one(&scene);
    assert_int_equal(scene.window.log.count, 1);
    assert_int_equal(scene.window.passed, 3);
    assert_int_equal(scene.window.done_ahead.count, 3);
    window_survey(&scene.window);
    assert_int_equal(scene.window.shares[0].lowest, 1); /* its checkpoint stays below it */
    scene_end(&scene);
}

static void a_unit_that_waits_is_set_aside_whole_and_runs_when_its_lane_is_free(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    struct slot *held = hold_one(&scene);
    const struct event_batch *aside = held->event_batch;
    assert_ptr_equal(aside, scene.window.aside);
    window_reap(&scene.window, &scene.batch_pool); /* once is enough */
    assert_ptr_equal(held->event_batch, aside);
    window_free_lane(&scene.window, FAILING);
    assert_int_equal(scene.window.held, 0);
    assert_int_equal(scene.window.passed, 0);
    assert_string_equal(held->entry->event.payload, "{\"n\":1}");
    assert_string_equal(held->entry->event.type, "a.b");
    assert_null(held->entry->event.key);
    run(&scene, 1);
    window_reap(&scene.window, &scene.batch_pool);
    assert_int_equal(scene.window.log.count, 0);
    assert_int_equal(scene.window.bytes, 0);
    scene_end(&scene);
}

static bool is_remembered(const struct window *window, int64_t position)
{
    bool found = false;
    for (size_t i = 0; i < window->done_ahead.count; i++) {
        found |= window->done_ahead.events[i].position == position;
    }
    return found;
}

static void an_event_that_passed_is_remembered_until_the_checkpoint_is_above_it(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    for (int64_t round = 0; round < 3 * DONE_AHEAD_LOOK; round++) {
        int64_t position = 4 * round;
        put(&scene, position + 1, FAILING, "{}");
        put(&scene, position + 2, 1, "{}");
        run(&scene, position + 2);
        window_reap(&scene.window, &scene.batch_pool);
        assert_true(is_remembered(&scene.window, position + 2));
        struct slot *held = scene.window.log.used.first;
        window_settle(&scene.window, held); /* it is stored */
        window_checkpoint(&scene.window, 0, position + 1);
        assert_true(is_remembered(&scene.window, position + 2));
        window_reap(&scene.window, &scene.batch_pool);
    }
    assert_in_range(scene.window.done_ahead.count, 1, DONE_AHEAD_LOOK + 2);
    scene_end(&scene);
}

static void no_event_passes_one_that_runs(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put(&scene, 1, 1, "{}");
    assert_non_null(window_take(&scene.window, NULL));
    put(&scene, 2, 2, "{}");
    run(&scene, 2);
    window_reap(&scene.window, &scene.batch_pool);
    assert_int_equal(scene.window.log.count, 2);
    window_untake(&scene.window, scene.window.log.used.first);
    scene_end(&scene);
}

static void no_event_passes_a_held_one_that_is_stored_at_once(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene.window.whole = true;
    hold_one(&scene);
    assert_int_equal(scene.window.log.count, 4);
    scene_end(&scene);
}

static void a_slot_has_the_mark_of_its_event_only_where_units_come_again_whole(void **state)
{
    struct window window = {.whole = true};
    struct entry entry = {.unit = {.first = 7, .events = 3}};
    (void)state;
    assert_int_equal(window_mark(&window, &entry).first, 7);
    assert_int_equal(window_mark(&window, &entry).events, 3);
    window.whole = false;
    assert_int_equal(window_mark(&window, &entry).events, 0);
}

static void held_events_that_have_let_many_pass_crowd_the_window(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put(&scene, 1, FAILING, "{}");
    for (int64_t position = 2; position <= SLOTS + 1; position++) {
        assert_false(window_crowded(&scene.window));
        put(&scene, position, 1, "{}");
        run(&scene, position);
        window_reap(&scene.window, &scene.batch_pool);
    }
    assert_true(window_crowded(&scene.window));
    window_settle(&scene.window, scene.window.log.used.first);
    assert_false(window_crowded(&scene.window));
    scene_end(&scene);
}

static void many_held_events_crowd_the_window(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    for (int64_t position = 1; position <= SLOTS / 4 + 1; position++) {
        assert_false(window_crowded(&scene.window));
        put(&scene, position, FAILING, "{}");
        assert_null(window_take(&scene.window, NULL));
    }
    assert_true(window_crowded(&scene.window));
    scene_end(&scene);
}

static void memory_is_put_away_when_nothing_is_in_hand_or_done_ahead(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    struct slot *held = hold_one(&scene);
    assert_false(window_put_away(&scene.window, &scene.batch_pool));
    window_settle(&scene.window, held);
    window_reap(&scene.window, &scene.batch_pool);
    assert_int_equal(scene.window.log.count, 0);
    assert_false(window_put_away(&scene.window, &scene.batch_pool)); /* 1 to 4 are done ahead */
    window_checkpoint(&scene.window, 0, 4);
    assert_true(window_put_away(&scene.window, &scene.batch_pool));
    assert_null(scene.window.log.slots);
    assert_null(scene.window.done_ahead.events);
    assert_int_equal(window_prepare(&scene.window), HF_OK);
    put(&scene, 5, 1, "{}");
    run(&scene, 5);
    scene_end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_put_away_when_nothing_is_in_hand_or_done_ahead),
        cmocka_unit_test(a_finished_event_passes_a_held_one_and_is_remembered),
        cmocka_unit_test(a_unit_that_waits_is_set_aside_whole_and_runs_when_its_lane_is_free),
        cmocka_unit_test(an_event_that_passed_is_remembered_until_the_checkpoint_is_above_it),
        cmocka_unit_test(no_event_passes_one_that_runs),
        cmocka_unit_test(no_event_passes_a_held_one_that_is_stored_at_once),
        cmocka_unit_test(a_slot_has_the_mark_of_its_event_only_where_units_come_again_whole),
        cmocka_unit_test(held_events_that_have_let_many_pass_crowd_the_window),
        cmocka_unit_test(many_held_events_crowd_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
