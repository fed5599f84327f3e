/*
 * Tests of answers that get lost: every change of the store, one after the other, happens but
 * answers HF_UNKNOWN, or does not happen and answers so (support/faulty.h). Nothing is lost,
 * nothing stands still, and what an operator has edited stays edited.
 */
#include "support_trouble.h"

#define CHANGES 6 /* that lose their answer, one per run */

/* One run on a subscription of its own: the nth change after the start loses its answer. */
static void lose_one(struct scene *scene, const char *name, hf_subscription_options options,
                     int64_t nth, bool happens)
{
    static const char *const types[] = {"x", "once", "x", "bad", "x"};
    struct recorder *recorder = scene_recorder(scene, trouble_handle);
    int64_t first = 0;

    options.attempts_max = 2;
    options.concurrency = 2;
    options.checkpoint_events = 2;
    options.lease_ms = 500;
    options.retry_base_ms = 1;
    options.retry_max_ms = 2;
    options.from.kind = HF_PLACE_NOW;
    trouble_open(scene);
    subscribe(scene->bus, name, "*", recorder, &options);
    for (int i = 0; i < 10; i++) {
        int64_t position = publish(scene->bus, types[i % 5], i % 2 ? "k" : NULL, "1")->position;

        first = i ? first : position;
    }
    if (happens) {
        faulty_lose(FAULTY_APPLY, nth, 1, HF_UNKNOWN);
    } else {
        faulty_fail(FAULTY_APPLY, nth, 1, HF_UNKNOWN);
    }
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, name);
    for (int64_t position = first; position < first + 10; position++) {
        assert_true(recorder_calls(recorder, position, NULL) >= 1);
    }
    assert_int_equal(info_of(scene->bus, name).dead, 2);
    assert_int_equal(info_of(scene->bus, name).retrying, 0);
    faulty_reset();
    assert_ok(hf_close(&scene->bus));
}

static void lose_each(struct scene *scene, hf_subscription_options options)
{
    char name[32];

    for (int64_t nth = 1; nth <= CHANGES; nth++) {
        snprintf(name, sizeof name, "happens%d", (int)nth);
        lose_one(scene, name, options, nth, true);
        snprintf(name, sizeof name, "fails%d", (int)nth);
        lose_one(scene, name, options, nth, false);
    }
}

static void ordered_work_survives_each_lost_answer(void **state)
{
    lose_each(*state, quick_options());
}

static void shared_work_survives_each_lost_answer(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    lose_each(*state, options);
}

static void transactional_work_survives_each_lost_answer(void **state)
{
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    lose_each(*state, options);
}

static void shared_transactional_work_survives_each_lost_answer(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    options.transactional = HF_ON;
    lose_each(*state, options);
}

static void an_edited_payload_survives_a_lost_answer(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    trouble_open(scene);
    options.attempts_max = 1;
    subscribe(scene->bus, "a", "*", scene_recorder(scene, trouble_handle), &options);
    for (int64_t nth = 1; nth <= 6; nth++) {
        struct dead dead;

        publish(scene->bus, "bad", NULL, "\"original\"");
        assert_ok(hf_start(scene->bus));
        settle_all(scene->bus, "a");
        assert_ok(hf_stop(scene->bus, -1));
        assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
        assert_ok(hf_dead_retry(scene->bus, dead.dead_id, "\"edited\"", HF_AUTO_LENGTH));
        faulty_lose(FAULTY_APPLY, nth, 1, HF_UNKNOWN);
        assert_ok(hf_start(scene->bus));
        settle_all(scene->bus, "a");
        faulty_reset();
        assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
        assert_string_equal(dead.payload, "\"edited\"");
        assert_ok(hf_stop(scene->bus, -1));
        assert_ok(hf_dead_purge(scene->bus, NULL, NULL));
    }
}

/* What was edited ends only when the bus is stopped. */
static hf_verdict reject_late(const hf_event *event, hf_delivery *delivery,
                              struct recorder *recorder)
{
    if (strstr(event->payload, "edited")) {
        until_cancelled(event, delivery, recorder);
    }
    return HF_DEAD;
}

/* It is unknown whether the event is dead: it must not die twice, for its copy goes with the first
 * time. */
static void an_edited_payload_survives_an_answer_that_is_lost_while_stopping(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, reject_late);
    hf_subscription_options options = quick_options();
    struct dead dead;

    trouble_open(scene);
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "\"original\"");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_ok(hf_dead_retry(scene->bus, dead.dead_id, "\"edited\"", HF_AUTO_LENGTH));
    assert_true(recorder_wait_begun(recorder, 2));
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    faulty_reset();
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.payload, "\"edited\"");
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static int note_position(const hf_event *event, void *ctx)
{
    *(int64_t *)ctx = event->position;
    return 0;
}

static void a_schedule_that_was_run_is_found_by_its_id(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    int64_t position = 0;
    hf_receipt receipt;

    schedule.name = "s";
    schedule.expression = "@yearly";
    schedule.type = "tock";
    trouble_open(scene);
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_status(hf_schedule_run(scene->bus, "s", &receipt), HF_UNKNOWN);
    faulty_reset();
    assert_int_equal(receipt.position, -1);
    assert_ok(hf_event_get(scene->bus, receipt.id, note_position, &position));
    assert_int_equal(position, 1);
    faulty_fail(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_status(hf_schedule_run(scene->bus, "s", &receipt), HF_UNKNOWN);
    faulty_reset();
    assert_status(hf_event_get(scene->bus, receipt.id, note_position, &position), HF_NOTFOUND);
}

static int count_event(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 0;
}

/* An event is in the log under that id, once. */
static void assert_found(hf_bus *bus, const char *id)
{
    int found = 0;

    assert_ok(hf_event_get(bus, id, count_event, &found));
    assert_int_equal(found, 1);
}

static void a_publish_of_unknown_outcome_returns_the_id_that_was_tried(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt = {.position = 7};
    hf_receipt again;

    trouble_open(scene);
    event.type = "x";
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_status(hf_publish(scene->bus, &event, &receipt), HF_UNKNOWN);
    assert_int_equal(receipt.position, -1);
    assert_int_equal(receipt.key_version, -1);
    assert_int_equal(strlen(receipt.id), HF_ID_BYTES - 1);
    assert_non_null(strstr(hf_errmsg(), receipt.id));
    assert_found(scene->bus, receipt.id);
    event.id = receipt.id;
    assert_ok(hf_publish(scene->bus, &event, &again));
    assert_int_equal(again.duplicate, 1);
}

static void a_publish_many_of_unknown_outcome_returns_all_ids(void **state)
{
    struct scene *scene = *state;
    hf_new_event events[3] = {HF_NEW_EVENT_INIT, HF_NEW_EVENT_INIT, HF_NEW_EVENT_INIT};
    hf_receipt receipts[3];

    trouble_open(scene);
    memset(receipts, 0, sizeof receipts);
    events[0].type = events[1].type = events[2].type = "x";
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_status(hf_publish_many(scene->bus, events, 3, receipts), HF_UNKNOWN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(receipts[i].position, -1);
        assert_found(scene->bus, receipts[i].id);
    }
}

static void a_delayed_publish_of_unknown_outcome_returns_its_id(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt = {.position = 7};

    trouble_open(scene);
    event.type = "x";
    event.deliver_at_us = wall_us() + 3600000000LL;
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    assert_status(hf_publish(scene->bus, &event, &receipt), HF_UNKNOWN);
    assert_int_equal(receipt.position, -1);
    assert_int_equal(strlen(receipt.id), HF_ID_BYTES - 1);
    assert_non_null(strstr(hf_errmsg(), receipt.id));
}

static const struct CMUnitTest tests[] = {
    trouble_test(ordered_work_survives_each_lost_answer),
    trouble_test(shared_work_survives_each_lost_answer),
    trouble_test(transactional_work_survives_each_lost_answer),
    trouble_test(shared_transactional_work_survives_each_lost_answer),
    trouble_test(an_edited_payload_survives_a_lost_answer),
    trouble_test(an_edited_payload_survives_an_answer_that_is_lost_while_stopping),
    trouble_test(a_schedule_that_was_run_is_found_by_its_id),
    trouble_test(a_publish_of_unknown_outcome_returns_the_id_that_was_tried),
    trouble_test(a_publish_many_of_unknown_outcome_returns_all_ids),
    trouble_test(a_delayed_publish_of_unknown_outcome_returns_its_id),
};

SCENE_MAIN(tests)
