/*
 * test_later.c - events that wait for their time: listed, shown, cancelled and moved; and a cancel
 * or a move at the moment at which the event enters the log.
 */
#include "support_scene.h"
#include "support_tables.h"

#define SECOND_US INT64_C(1000000)
#define HOUR_US (3600 * SECOND_US)
#define SEEN_MAX 64

/* What was listed. */
struct seen_later {
    size_t count;
    char ids[SEEN_MAX][HF_ID_BYTES];
    char types[SEEN_MAX][32];
    bool has_payload;
    int64_t payload_bytes;
    int64_t due_at_us;
    int64_t number;
};

static int note(const hf_later_info *info, void *ctx)
{
    struct seen_later *seen = ctx;
    if (seen->count == SEEN_MAX) {
        return 1;
    }
    snprintf(seen->ids[seen->count], HF_ID_BYTES, "%s", info->event.id);
    snprintf(seen->types[seen->count++], sizeof seen->types[0], "%s", info->event.type);
    seen->has_payload = info->event.payload != NULL;
    seen->payload_bytes = (int64_t)info->event.payload_bytes;
    seen->due_at_us = info->due_at_us;
    seen->number = info->number;
    return 0;
}

static struct seen_later list(hf_bus *bus, const hf_later_filter *filter)
{
    struct seen_later seen = {0};
    assert_ok(hf_later_list(bus, filter, note, &seen));
    return seen;
}

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

/* Keeps an event until so long from now; its id. */
static hf_receipt keep(hf_bus *bus, const char *type, const char *key, int64_t delay_us)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    event.type = type;
    event.key = key;
    event.payload = "{\"n\": 1.50}";
    event.deliver_at_us = wall_us() + delay_us;
    assert_ok(hf_publish(bus, &event, &receipt));
    assert_int_equal(receipt.position, 0);
    return receipt;
}

static int64_t head(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    return stats.head;
}

static int64_t cancel(hf_bus *bus, const char *id)
{
    int64_t position = 77;
    assert_ok(hf_later_cancel(bus, id, &position));
    return position;
}

static int64_t move(hf_bus *bus, const char *id, int64_t delay_us)
{
    int64_t position = 77;
    assert_ok(hf_later_move(bus, id, wall_us() + delay_us, &position));
    return position;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void delayed_events_are_listed_in_the_order_of_their_times(void **state)
{
    struct scene *scene = *state;
    keep(scene->bus, "b.two", "k", 2 * HOUR_US);
    hf_receipt first = keep(scene->bus, "a.one", NULL, HOUR_US);
    keep(scene->bus, "b.three", NULL, 3 * HOUR_US);
    struct seen_later seen = list(scene->bus, NULL);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.ids[0], first.id);
    assert_string_equal(seen.types[1], "b.two");
    assert_string_equal(seen.types[2], "b.three");
    assert_false(seen.has_payload);
    assert_int_equal(seen.payload_bytes, 11);
    hf_later_filter filter = HF_LATER_FILTER_INIT;
    filter.type = "b.*";
    assert_int_equal(list(scene->bus, &filter).count, 2);
    filter.key = "k";
    seen = list(scene->bus, &filter);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.types[0], "b.two");
    filter = (hf_later_filter)HF_LATER_FILTER_INIT;
    filter.due_before_us = wall_us() + HOUR_US * 3 / 2;
    seen = list(scene->bus, &filter);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], first.id);
}

static void the_next_page_of_delayed_events_begins_after_the_last(void **state)
{
    struct scene *scene = *state;
    hf_later_filter filter = HF_LATER_FILTER_INIT;
    hf_new_event event = HF_NEW_EVENT_INIT;
    int64_t due_us = wall_us() + HOUR_US;
    char all[10][HF_ID_BYTES];
    for (int i = 0; i < 10; i++) {
        hf_receipt receipt;
        event.type = "t";
        event.deliver_at_us = due_us + (i / 5) * SECOND_US; /* five have the same time */
        assert_ok(hf_publish(scene->bus, &event, &receipt));
        snprintf(all[i], sizeof all[i], "%s", receipt.id);
    }
    filter.limit = 3;
    for (int i = 0; i < 10;) {
        struct seen_later seen = list(scene->bus, &filter);
        assert_int_equal(seen.count, i < 9 ? 3 : 1);
        for (size_t j = 0; j < seen.count; j++, i++) {
            assert_string_equal(seen.ids[j], all[i]);
        }
        filter.after_due_at_us = seen.due_at_us;
        filter.after_number = seen.number;
        cancel(scene->bus, seen.ids[0]); /* a page does not depend on those before it */
    }
    assert_int_equal(list(scene->bus, &filter).count, 0);
}

static void a_delayed_event_is_shown_with_its_payload(void **state)
{
    struct scene *scene = *state;
    struct seen_later seen = {0};
    hf_receipt receipt = keep(scene->bus, "t", "k", HOUR_US);
    assert_ok(hf_later_get(scene->bus, receipt.id, note, &seen));
    assert_int_equal(seen.count, 1);
    assert_true(seen.has_payload);
    assert_in_range(seen.due_at_us, wall_us() + HOUR_US - 60 * SECOND_US,
                    wall_us() + HOUR_US + 60 * SECOND_US);
    int64_t now = publish(scene->bus, "t", NULL, NULL)->position;
    assert_int_equal(now, 1);
    assert_status(hf_later_get(scene->bus, "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55", note, &seen),
                  HF_NOTFOUND);
    assert_said("waits for its time");
}

static void bad_arguments_of_a_listing_are_named(void **state)
{
    struct scene *scene = *state;
    hf_later_filter filter = HF_LATER_FILTER_INIT;
    struct seen_later seen = {0};
    int64_t position;
    filter.limit = 1001;
    assert_status(hf_later_list(scene->bus, &filter, note, &seen), HF_INVALID);
    assert_said("limit is 1001; it takes 1 to 1000");
    filter = (hf_later_filter)HF_LATER_FILTER_INIT;
    filter.after_number = 3;
    assert_status(hf_later_list(scene->bus, &filter, note, &seen), HF_INVALID);
    filter = (hf_later_filter)HF_LATER_FILTER_INIT;
    filter.type = "a..b";
    assert_status(hf_later_list(scene->bus, &filter, note, &seen), HF_INVALID);
    assert_status(hf_later_list(scene->bus, NULL, NULL, NULL), HF_INVALID);
    assert_status(hf_later_get(scene->bus, "x", note, &seen), HF_INVALID);
    assert_status(hf_later_cancel(scene->bus, NULL, &position), HF_INVALID);
    assert_status(hf_later_move(scene->bus, "x", 0, &position), HF_INVALID);
    assert_status(
        hf_later_move(scene->bus, "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55", INT64_MAX, &position),
        HF_INVALID);
    assert_said("outside the years");
    assert_int_equal(seen.count, 0);
}

/* ---- Cancelling and moving ------------------------------------------------------------------- */

static void a_cancelled_delayed_event_is_never_delivered(void **state)
{
    struct scene *scene = *state;
    hf_receipt receipt = keep(scene->bus, "t", NULL, -SECOND_US);
    int64_t position = 77;
    assert_int_equal(cancel(scene->bus, receipt.id), 0);
    assert_ok(hf_tick(scene->bus, NULL));
    assert_int_equal(head(scene->bus), 0);
    assert_int_equal(list(scene->bus, NULL).count, 0);
    assert_status(hf_later_cancel(scene->bus, receipt.id, &position), HF_NOTFOUND);
    assert_int_equal(position, 77);
    /* Its id is free. */
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "t";
    event.id = receipt.id;
    assert_ok(hf_publish(scene->bus, &event, &receipt));
    assert_int_equal(receipt.duplicate, 0);
    assert_int_equal(receipt.position, 1);
}

static void an_event_in_the_log_cannot_be_cancelled_or_moved(void **state)
{
    struct scene *scene = *state;
    publish(scene->bus, "other", NULL, NULL);
    hf_receipt receipt = keep(scene->bus, "t", NULL, -SECOND_US);
    assert_ok(hf_tick(scene->bus, NULL));
    assert_int_equal(cancel(scene->bus, receipt.id), 2);
    assert_int_equal(move(scene->bus, receipt.id, HOUR_US), 2);
    assert_int_equal(head(scene->bus), 2);
}

static void a_moved_delayed_event_is_delivered_at_its_new_time(void **state)
{
    struct scene *scene = *state;
    hf_receipt late = keep(scene->bus, "late", NULL, -SECOND_US);
    hf_receipt soon = keep(scene->bus, "soon", NULL, HOUR_US);
    assert_int_equal(move(scene->bus, late.id, HOUR_US), 0);
    assert_ok(hf_tick(scene->bus, NULL));
    assert_int_equal(head(scene->bus), 0);
    assert_int_equal(move(scene->bus, soon.id, -SECOND_US), 0);
    assert_ok(hf_tick(scene->bus, NULL));
    assert_int_equal(head(scene->bus), 1);
    assert_int_equal(cancel(scene->bus, soon.id), 1);
    assert_int_equal(cancel(scene->bus, late.id), 0);
}

static void moving_wakes_a_process_that_sleeps_until_the_old_time(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_receipt receipt = keep(scene->bus, "t", NULL, HOUR_US);
    subscribe(other, "a", "*", recorder, &options);
    assert_ok(hf_start(other));
    assert_int_equal(move(scene->bus, receipt.id, SECOND_US / 2), 0);
    assert_true(recorder_wait(recorder, 1));
}

#define RACES 40

struct racer {
    pthread_t thread;
    hf_bus *bus;
};

static void *tick_on(void *ctx)
{
    hf_tick(((struct racer *)ctx)->bus, NULL);
    return NULL;
}

/* A tick and a cancel at the same time: one of them wins, and the answer says which. */
static void of_a_cancel_and_a_tick_exactly_one_wins(void **state)
{
    struct scene *scene = *state;
    struct racer racer = {.bus = scene_open(scene, NULL)};
    int64_t expected = 0;
    for (int i = 0; i < RACES; i++) {
        hf_receipt receipt = keep(scene->bus, "t", NULL, -SECOND_US);
        assert_int_equal(pthread_create(&racer.thread, NULL, tick_on, &racer), 0);
        usleep((useconds_t)(i * 50));
        int64_t position = cancel(scene->bus, receipt.id);
        assert_int_equal(pthread_join(racer.thread, NULL), 0);
        assert_ok(hf_tick(scene->bus, NULL));
        expected += position > 0;
        assert_int_equal(tables_events(scene), expected);
        assert_int_equal(list(scene->bus, NULL).count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(delayed_events_are_listed_in_the_order_of_their_times),
        scene_test(the_next_page_of_delayed_events_begins_after_the_last),
        scene_test(a_delayed_event_is_shown_with_its_payload),
        scene_test(bad_arguments_of_a_listing_are_named),
        scene_test(a_cancelled_delayed_event_is_never_delivered),
        scene_test(an_event_in_the_log_cannot_be_cancelled_or_moved),
        scene_test(a_moved_delayed_event_is_delivered_at_its_new_time),
        scene_test(moving_wakes_a_process_that_sleeps_until_the_old_time),
        scene_test(of_a_cancel_and_a_tick_exactly_one_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
