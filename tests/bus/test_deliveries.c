/*
 * test_deliveries.c - looking at deliveries that are not over: which wait for their next attempt
 * and why, what is held behind them, which run and where.
 */
#include "support_scene.h"

#define SEEN_MAX 16

struct listing {
    size_t count;
    hf_retry_info infos[SEEN_MAX];
    char key[SEEN_MAX][16];
    char error[SEEN_MAX][64];
    char cause[SEEN_MAX][32];
    char event_id[SEEN_MAX][HF_ID_BYTES];
    char cursor[SEEN_MAX][64];
};

static int note_retry(const hf_retry_info *info, void *ctx)
{
    struct listing *listing = ctx;
    size_t i = listing->count++;
    listing->infos[i] = *info;
    snprintf(listing->key[i], 16, "%s", info->key ? info->key : "NULL");
    snprintf(listing->error[i], 64, "%s", info->error ? info->error : "NULL");
    snprintf(listing->cause[i], 32, "%s", info->cause ? info->cause : "NULL");
    snprintf(listing->event_id[i], HF_ID_BYTES, "%s", info->event_id ? info->event_id : "NULL");
    snprintf(listing->cursor[i], 64, "%s", info->cursor);
    return listing->count == SEEN_MAX;
}

static struct listing list(hf_bus *bus, int64_t behind, const char *after, int32_t limit)
{
    struct listing listing = {.count = 0};
    hf_retry_filter filter = HF_RETRY_FILTER_INIT;
    filter.behind = behind;
    filter.after = after;
    filter.limit = limit;
    assert_ok(hf_retry_list(bus, "s", &filter, note_retry, &listing));
    return listing;
}

/* Keys that begin with "bad" fail. */
static hf_verdict refuse_bad(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)recorder;
    if (event->key && strncmp(event->key, "bad", 3) == 0) {
        hf_delivery_error(delivery, "no such account");
        return HF_RETRY;
    }
    return HF_ACK;
}

/* The next attempt is far away. */
static hf_subscription_options patient(void)
{
    hf_subscription_options options = quick_options();
    options.retry_base_ms = 3600000;
    options.retry_max_ms = 3600000;
    return options;
}

static bool one_retries_and_two_are_held(void *ctx)
{
    struct info info = info_of(ctx, "s");
    return info.retrying == 2 && info.held == 2;
}

/* bad1 at 1, 3 and 4, bad2 at 5; 2 is done. */
static void fail_some(struct scene *scene)
{
    hf_subscription_options options = patient();
    subscribe(scene->bus, "s", "*", scene_recorder(scene, refuse_bad), &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "bad1", "1");
    publish(scene->bus, "x", "good", "1");
    publish(scene->bus, "x", "bad1", "2");
    publish(scene->bus, "x", "bad1", "3");
    publish(scene->bus, "x", "bad2", "1");
    if (!wait_until(one_retries_and_two_are_held, scene->bus)) {
        fail_msg("two events of bad1 are not held behind the first");
    }
}

static void retries_are_listed_with_their_error_and_next_time(void **state)
{
    struct scene *scene = *state;
    int64_t began_us = wall_us();
    fail_some(scene);
    struct listing listing = list(scene->bus, -1, NULL, -1);
    assert_int_equal(listing.count, 2);
    size_t first = listing.infos[0].position == 1 ? 0 : 1;
    const hf_retry_info *info = &listing.infos[first];
    assert_int_equal(info->position, 1);
    assert_int_equal(info->state, HF_STATE_RETRYING);
    assert_int_equal(info->attempts, 1);
    assert_int_equal(info->behind, -1);
    assert_int_equal(info->held, 2);
    assert_int_equal(info->held_more, 0);
    assert_true(info->next_attempt_at_us > began_us + 1000 * INT64_C(1000000));
    assert_true(info->failed_at_us >= began_us - 1000 * INT64_C(1000));
    assert_string_equal(listing.key[first], "bad1");
    assert_string_equal(listing.error[first], "no such account");
    assert_string_equal(listing.cause[first], "handler");
    assert_int_equal(strlen(listing.event_id[first]), HF_ID_BYTES - 1);
    assert_string_equal(listing.key[1 - first], "bad2");
    assert_int_equal(listing.infos[1 - first].held, 0);
    assert_true(listing.infos[0].next_attempt_at_us <= listing.infos[1].next_attempt_at_us);
}

static void what_is_held_behind_a_retry_is_listed(void **state)
{
    struct scene *scene = *state;
    fail_some(scene);
    struct listing listing = list(scene->bus, 1, NULL, -1);
    assert_int_equal(listing.count, 2);
    assert_int_equal(listing.infos[0].position, 3);
    assert_int_equal(listing.infos[0].state, HF_STATE_HELD);
    assert_int_equal(listing.infos[0].behind, 1);
    assert_int_equal(listing.infos[0].attempts, 0);
    assert_int_equal(listing.infos[0].next_attempt_at_us, -1);
    assert_string_equal(listing.error[0], "NULL");
    assert_int_equal(listing.infos[1].position, 4);
    assert_int_equal(list(scene->bus, 5, NULL, -1).count, 0);
    assert_int_equal(list(scene->bus, 1, NULL, 1).count, 1);
    assert_int_equal(list(scene->bus, 1, listing.cursor[0], -1).infos[0].position, 4);
}

static void the_cursor_of_a_retry_leads_to_the_next_page(void **state)
{
    struct scene *scene = *state;
    fail_some(scene);
    struct listing first = list(scene->bus, -1, NULL, 1);
    assert_int_equal(first.count, 1);
    struct listing second = list(scene->bus, -1, first.cursor[0], 1);
    assert_int_equal(second.count, 1);
    assert_int_equal(first.infos[0].position + second.infos[0].position, 1 + 5);
    assert_int_equal(list(scene->bus, -1, second.cursor[0], 1).count, 0);
}

static void a_list_of_retries_refuses_what_it_cannot_mean(void **state)
{
    struct scene *scene = *state;
    static const char *const cursors[] = {"", "x", "1", "1-", "-", "1-2x", "1--2"};
    struct listing listing = {.count = 0};
    hf_retry_filter filter = HF_RETRY_FILTER_INIT;
    fail_some(scene);
    for (size_t i = 0; i < COUNTED(cursors); i++) {
        filter.after = cursors[i];
        assert_status(hf_retry_list(scene->bus, "s", &filter, note_retry, &listing), HF_INVALID);
    }
    filter = (hf_retry_filter)HF_RETRY_FILTER_INIT;
    filter.limit = 0;
    assert_status(hf_retry_list(scene->bus, "s", &filter, note_retry, &listing), HF_INVALID);
    filter.limit = HF_RETRY_LIST_MAX + 1;
    assert_status(hf_retry_list(scene->bus, "s", &filter, note_retry, &listing), HF_INVALID);
    assert_status(hf_retry_list(scene->bus, "none", NULL, note_retry, &listing), HF_NOTFOUND);
    assert_status(hf_retry_list(scene->bus, "s", NULL, NULL, NULL), HF_INVALID);
    assert_int_equal(listing.count, 0);
    assert_ok(hf_retry_list(scene->bus, "s", NULL, note_retry, &listing));
    assert_int_equal(listing.count, 2);
}

static void a_nacked_event_of_a_shared_subscription_is_listed(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = patient();
    const char *patterns[] = {"*"};
    hf_batch *batch;
    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "s", patterns, 1, &options, NULL));
    publish(scene->bus, "x", "k", "1");
    publish(scene->bus, "x", "k", "2");
    assert_ok(hf_claim(scene->bus, "s", NULL, &batch));
    int64_t position = 1;
    assert_ok(hf_nack(scene->bus, "s", hf_batch_lease(batch), &position, 1, -1, "too early"));
    hf_batch_free(batch);
    struct listing listing = list(scene->bus, -1, NULL, -1);
    assert_int_equal(listing.count, 1);
    assert_int_equal(listing.infos[0].position, 1);
    assert_int_equal(listing.infos[0].state, HF_STATE_RETRYING);
    assert_int_equal(listing.infos[0].behind, -1);
    assert_int_equal(listing.infos[0].held, 0);
    assert_string_equal(listing.error[0], "too early");
}

/* ---- What runs ------------------------------------------------------------------------------- */

struct running {
    size_t count;
    hf_running_info infos[SEEN_MAX];
    char key[SEEN_MAX][16];
    char node[SEEN_MAX][64];
};

static int note_running(const hf_running_info *info, void *ctx)
{
    struct running *running = ctx;
    size_t i = running->count++;
    running->infos[i] = *info;
    snprintf(running->key[i], 16, "%s", info->key ? info->key : "NULL");
    snprintf(running->node[i], 64, "%s", info->node ? info->node : "NULL");
    return running->count == SEEN_MAX;
}

static struct running running_of(hf_bus *bus, int64_t after, size_t limit)
{
    struct running running = {.count = 0};
    assert_ok(hf_running_list(bus, "s", after, limit, note_running, &running));
    return running;
}

static bool two_are_in_flight(void *ctx)
{
    return info_of(ctx, "s").in_flight == 2;
}

static void what_runs_is_listed_with_the_process_that_has_it(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t began_us = wall_us();
    recorder->door = scene_door(scene);
    options.concurrency = 2;
    subscribe(scene->bus, "s", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "k1", "1");
    publish(scene->bus, "x", "k2", "1");
    publish(scene->bus, "x", "k3", "1");
    assert_true(wait_until(two_are_in_flight, scene->bus));
    struct running running = running_of(scene->bus, 0, 100);
    assert_int_equal(running.count, 2);
    assert_int_equal(running.infos[0].position, 1);
    assert_int_equal(running.infos[0].pid, getpid());
    assert_true(running.infos[0].since_us > began_us - 2000 * INT64_C(1000));
    assert_int_equal(running.infos[0].partition, 0);
    assert_string_equal(running.key[0], "k1");
    assert_true(strcmp(running.node[0], "NULL") != 0);
    assert_int_equal(running.infos[1].position, 2);
    assert_int_equal(running_of(scene->bus, 1, 100).infos[0].position, 2);
    assert_int_equal(running_of(scene->bus, 0, 1).count, 1);
    assert_int_equal(running_of(scene->bus, 0, 0).count, 0);
    assert_status(hf_running_list(scene->bus, "none", 0, 1, note_running, &running), HF_NOTFOUND);
    assert_status(hf_running_list(scene->bus, "s", -1, 1, note_running, &running), HF_INVALID);
    door_open(recorder->door);
    settle_all(scene->bus, "s");
}

/* A decide_fn: fails at once, and the second attempt waits at the door in `extra`. */
static hf_verdict fail_then_wait(const hf_event *event, hf_delivery *delivery,
                                 struct recorder *recorder)
{
    (void)event;
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    door_pass(recorder->extra);
    return HF_ACK;
}

static bool is_processing(void *ctx)
{
    struct listing listing = list(ctx, -1, NULL, -1);
    return listing.count == 1 && listing.infos[0].state == HF_STATE_PROCESSING;
}

static void a_retry_whose_next_attempt_runs_is_processing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_then_wait);
    hf_subscription_options options = quick_options();
    recorder->extra = scene_door(scene);
    subscribe(scene->bus, "s", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "k", "1");
    assert_true(door_wait_inside(recorder->extra, 1));
    if (!wait_until(is_processing, scene->bus)) {
        fail_msg("the retry that runs is listed as one that waits");
    }
    assert_int_equal(list(scene->bus, -1, NULL, -1).infos[0].next_attempt_at_us, -1);
    door_open(recorder->extra);
    settle_all(scene->bus, "s");
    assert_int_equal(list(scene->bus, -1, NULL, -1).count, 0);
}

static const struct CMUnitTest tests[] = {
    scene_test(retries_are_listed_with_their_error_and_next_time),
    scene_test(what_is_held_behind_a_retry_is_listed),
    scene_test(the_cursor_of_a_retry_leads_to_the_next_page),
    scene_test(a_list_of_retries_refuses_what_it_cannot_mean),
    scene_test(a_nacked_event_of_a_shared_subscription_is_listed),
    scene_test(what_runs_is_listed_with_the_process_that_has_it),
    scene_test(a_retry_whose_next_attempt_runs_is_processing),
};

SCENE_MAIN(tests)
