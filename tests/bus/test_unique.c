/*
 * test_unique.c - unique keys of events in hf_publish, hf_publish_many, hf_publish_async and inside
 * of handlers; replacing one that waits. What the store does is in tests/store/test_unique.c.
 */
#include "support_scene.h"

#define HOUR_MS INT64_C(3600000)
#define MANY 32

static hf_new_event unique_event(const char *key, int64_t for_ms)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "job.new";
    event.unique = key;
    event.unique_for_ms = for_ms;
    return event;
}

static hf_receipt publish_unique(hf_bus *bus, const hf_new_event *event)
{
    hf_receipt receipt = {.position = -7};
    assert_ok(hf_publish(bus, event, &receipt));
    return receipt;
}

static int64_t head(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    return stats.head;
}

static void assert_same_event(const hf_receipt *second, const hf_receipt *first)
{
    assert_int_equal(second->duplicate, 1);
    assert_int_equal(second->position, first->position);
    assert_string_equal(second->id, first->id);
}

static void a_second_publish_with_the_unique_key_returns_position_and_id_of_the_first(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = unique_event("k", HOUR_MS);
    hf_receipt first = publish_unique(scene->bus, &event);
    hf_receipt second = publish_unique(scene->bus, &event);
    assert_int_equal(first.duplicate, 0);
    assert_same_event(&second, &first);
    event.id = "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55";
    second = publish_unique(scene->bus, &event);
    assert_same_event(&second, &first);
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.published, 1);
}

static void of_many_events_with_one_unique_key_in_a_call_the_first_is_stored(void **state)
{
    struct scene *scene = *state;
    hf_new_event events[4];
    hf_receipt receipts[4];
    for (size_t i = 0; i < COUNTED(events); i++) {
        events[i] = unique_event(i % 2 ? "odd" : "even", HOUR_MS);
    }
    assert_ok(hf_publish_many(scene->bus, events, COUNTED(events), receipts));
    assert_int_equal(receipts[0].duplicate + receipts[1].duplicate, 0);
    assert_same_event(&receipts[2], &receipts[0]);
    assert_same_event(&receipts[3], &receipts[1]);
}

struct answers {
    pthread_mutex_t mutex;
    int stored;
    int seconds;
};

static void count_answer(hf_status status, const hf_receipt *receipt, const char *message,
                         void *ctx)
{
    struct answers *answers = ctx;
    (void)message;
    pthread_mutex_lock(&answers->mutex);
    answers->stored += !status && !receipt->duplicate;
    answers->seconds += !status && receipt->duplicate;
    pthread_mutex_unlock(&answers->mutex);
}

static struct answers answers = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void of_asynchronous_publishes_with_one_unique_key_one_is_stored(void **state)
{
    struct scene *scene = *state;
    char key[] = "k"; /* it is copied */
    hf_new_event event = unique_event(key, HOUR_MS);
    answers.stored = answers.seconds = 0;
    for (int i = 0; i < MANY; i++) {
        key[0] = 'k';
        assert_ok(hf_publish_async(scene->bus, &event, count_answer, &answers));
        key[0] = 'x';
    }
    assert_ok(hf_flush(scene->bus, DEADLINE_MS));
    assert_int_equal(answers.stored, 1);
    assert_int_equal(answers.seconds, MANY - 1);
}

static void a_delayed_event_keeps_its_unique_key_while_it_waits_and_can_be_replaced(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = unique_event("k", -1);
    hf_tick_info info = {.size = sizeof info};
    event.deliver_at_us = wall_us() + HOUR_MS * 1000;
    hf_receipt first = publish_unique(scene->bus, &event);
    hf_receipt second = publish_unique(scene->bus, &event);
    assert_int_equal(first.position, 0);
    assert_same_event(&second, &first);
    event.replace = 1;
    event.deliver_at_us = wall_us() - 1;
    event.payload = "{\"n\": 2}";
    hf_receipt third = publish_unique(scene->bus, &event);
    assert_int_equal(third.duplicate, 0);
    assert_int_equal(third.replaced, 1);
    assert_string_not_equal(third.id, first.id);
    assert_ok(hf_tick(scene->bus, &info));
    assert_int_equal(info.released, 1);
    assert_int_equal(info.next_due_at_us, -1);
    assert_int_equal(head(scene->bus), 1);
    hf_receipt fourth = publish_unique(scene->bus, &event); /* the key is free: a new one waits */
    assert_int_equal(fourth.duplicate + fourth.replaced, 0);
}

static void a_unique_key_needs_a_time_and_has_its_limits(void **state)
{
    struct scene *scene = *state;
    char longest[HF_UNIQUE_BYTES_MAX + 2];
    memset(longest, 'k', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    struct {
        const char *key;
        int64_t for_ms;
        int32_t replace;
        const char *said;
    } bad[] = {
        {"k", -1, 0, "unique_for_ms is missing"},
        {"k", 0, 0, "unique_for_ms is 0; it must be 1 to 31622400000"},
        {"k", INT64_C(31622400001), 0, "unique_for_ms is 31622400001"},
        {"", HOUR_MS, 0, "unique is empty"},
        {longest, HOUR_MS, 0, "unique is 256 bytes; the limit is 255"},
        {"\xff", HOUR_MS, 0, "unique is not valid UTF-8"},
        {NULL, HOUR_MS, 0, "unique_for_ms is 3600000 but unique is NULL"},
        {NULL, -1, 1, "replace is 1"},
        {"k", HOUR_MS, 1, "replace is 1"},
        {"k", HOUR_MS, 2, "replace is 2"},
    };
    for (size_t i = 0; i < COUNTED(bad); i++) {
        hf_new_event event = unique_event(bad[i].key, bad[i].for_ms);
        event.replace = bad[i].replace;
        assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
        if (!strstr(hf_errmsg(), bad[i].said)) {
            fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), bad[i].said);
        }
    }
    longest[HF_UNIQUE_BYTES_MAX] = '\0';
    hf_new_event good = unique_event(longest, INT64_C(31622400000));
    assert_int_equal(publish_unique(scene->bus, &good).duplicate, 0);
}

/* ---- From a handler -------------------------------------------------------------------------- */

static int failures_left;

static hf_verdict publish_and_fail_once(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    hf_new_event made = unique_event("made", HOUR_MS);
    hf_receipt *receipt = ctx;
    (void)event;
    made.type = "made";
    if (hf_publish(hf_delivery_bus(delivery), &made, receipt) != HF_OK) {
        return HF_DEAD;
    }
    return failures_left-- > 0 ? HF_RETRY : HF_ACK;
}

/* An attempt that is rolled back leaves neither the event nor its key. */
static void a_publish_that_a_handler_rolls_back_takes_no_unique_key(void **state)
{
    struct scene *scene = *state;
    static hf_receipt receipt;
    hf_subscription_options options = quick_options();
    options.transactional = HF_ON;
    failures_left = 1;
    assert_ok(
        hf_subscribe(scene->bus, "s", "job.*", publish_and_fail_once, &receipt, &options, NULL));
    publish(scene->bus, "job.new", NULL, "{}");
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "s", -1, DEADLINE_MS));
    assert_int_equal(failures_left, -1);
    assert_int_equal(receipt.duplicate, 0);
    hf_new_event again = unique_event("made", HOUR_MS);
    hf_receipt second = publish_unique(scene->bus, &again);
    assert_same_event(&second, &receipt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_second_publish_with_the_unique_key_returns_position_and_id_of_the_first),
        scene_test(of_many_events_with_one_unique_key_in_a_call_the_first_is_stored),
        scene_test(of_asynchronous_publishes_with_one_unique_key_one_is_stored),
        scene_test(a_delayed_event_keeps_its_unique_key_while_it_waits_and_can_be_replaced),
        scene_test(a_unique_key_needs_a_time_and_has_its_limits),
        scene_test(a_publish_that_a_handler_rolls_back_takes_no_unique_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
