/*
 * Tests of hf_cancel: an event is settled without a handler, wherever it is: not read, in hand, in
 * a handler, waiting, claimed; and what others see of it.
 */
#include "support_actor.h"
#include "support_retention.h"
#include "support_scene.h"
#include "support_tables.h"

#include <sys/wait.h>

#ifdef HF_FAULTS
#include "base/point.h"
#endif

#define IDS_MAX 16
#define SHORT_MS 300

/* Ids of events that were published, by position from 1. */
static char ids[IDS_MAX][HF_ID_BYTES];

/* Publishes one event for each letter, which is its key, and remembers the ids. */
static void publish_keys(hf_bus *bus, const char *letters)
{
    for (size_t i = 0; letters[i]; i++) {
        char key[2] = {letters[i], '\0'};
        const hf_receipt *receipt = publish(bus, "x", key, "{}");
        memcpy(ids[i + 1], receipt->id, HF_ID_BYTES);
    }
}

static hf_status cancel(hf_bus *bus, const char *subscription, int64_t number, int64_t wait_ms)
{
    hf_cancel_options options = HF_CANCEL_OPTIONS_INIT;
    options.by = "ann";
    options.reason = "sent by hand";
    options.wait_ms = wait_ms;
    return hf_cancel(bus, subscription, ids[number], &options);
}

static hf_state state_at(hf_bus *bus, const char *subscription, int64_t number)
{
    int32_t attempts;
    return state_of(bus, subscription, ids[number], &attempts);
}

static hf_subscription_options options_of(hf_mode mode)
{
    hf_subscription_options options = quick_options();
    options.mode = mode;
    options.concurrency = 1;
    return options;
}

static void create(hf_bus *bus, const char *name, const hf_subscription_options *options)
{
    int32_t created;
    assert_ok(hf_subscription_create(bus, name, (const char *[]){"*"}, 1, options, &created));
}

/* ---- While no process works ------------------------------------------------------------------ */

struct shown {
    const char *subscription;
    hf_state state;
    int64_t at_us;
    char by[32];
    char reason[32];
};

static int note_shown(const hf_event_state *state, void *ctx)
{
    struct shown *told = ctx;
    if (strcmp(state->subscription, told->subscription) == 0) {
        told->state = state->state;
        told->at_us = state->cancelled_at_us;
        snprintf(told->by, sizeof told->by, "%s", state->cancelled_by ? state->cancelled_by : "");
        snprintf(told->reason, sizeof told->reason, "%s",
                 state->cancel_reason ? state->cancel_reason : "");
    }
    return 0;
}

static void a_cancelled_event_is_not_delivered_and_says_so(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    struct shown told = {.subscription = "a"};
    struct shown other = {.subscription = "b"};
    int64_t before_us = wall_us();

    create(scene->bus, "b", &options);
    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kkk");
    assert_ok(cancel(scene->bus, "a", 2, -1));
    assert_ok(hf_event_states(scene->bus, ids[2], note_shown, &told));
    assert_int_equal(told.state, HF_STATE_CANCELLED);
    assert_ok(hf_wait(scene->bus, "a", 2, 0)); /* it is settled */
    assert_true(told.at_us > before_us - 60000000 && told.at_us < wall_us() + 60000000);
    assert_string_equal(told.by, "ann");
    assert_string_equal(told.reason, "sent by hand");
    assert_ok(hf_event_states(scene->bus, ids[2], note_shown, &other));
    assert_int_equal(other.state, HF_STATE_PENDING);
    assert_string_equal(other.by, "");
    assert_ok(hf_wait(scene->bus, "a", 2, 0));

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    assert_int_equal(state_at(scene->bus, "a", 2), HF_STATE_CANCELLED);
    assert_int_equal(state_at(scene->bus, "a", 3), HF_STATE_DONE);
    assert_ok(cancel(scene->bus, "a", 2, -1)); /* again */
    assert_status(cancel(scene->bus, "a", 3, -1), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "is done"));
}

static void a_position_names_the_event_too(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = options_of(HF_MODE_SHARED);
    hf_cancel_options by_position = HF_CANCEL_OPTIONS_INIT;

    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kk");
    by_position.position = 2;
    assert_ok(hf_cancel(scene->bus, "a", NULL, &by_position));
    assert_int_equal(state_at(scene->bus, "a", 1), HF_STATE_PENDING);
    assert_int_equal(state_at(scene->bus, "a", 2), HF_STATE_CANCELLED);
    by_position.position = 999;
    assert_status(hf_cancel(scene->bus, "a", NULL, &by_position), HF_NOTFOUND);
}

static void what_cannot_be_cancelled_says_why(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_always);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);
    hf_new_event later = HF_NEW_EVENT_INIT;
    hf_cancel_options bad = HF_CANCEL_OPTIONS_INIT;
    hf_receipt receipt;

    options.attempts_max = 1;
    subscribe(scene->bus, "a", "x", recorder, &options);
    publish_keys(scene->bus, "k");
    const hf_receipt *other = publish(scene->bus, "y", NULL, "{}");
    assert_status(hf_cancel(scene->bus, "a", other->id, NULL), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "no pattern"));
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_wait(scene->bus, "a", 1, DEADLINE_MS));
    assert_status(cancel(scene->bus, "a", 1, -1), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "dead letter 1"));
    assert_non_null(strstr(hf_errmsg(), "resolve"));

    later.type = "x";
    later.deliver_at_us = wall_us() + INT64_C(3600000000);
    assert_ok(hf_publish(scene->bus, &later, &receipt));
    assert_status(hf_cancel(scene->bus, "a", receipt.id, NULL), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "later cancel"));
    assert_status(hf_cancel(scene->bus, "a", "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55", NULL),
                  HF_NOTFOUND);
    assert_status(hf_cancel(scene->bus, "b", ids[1], NULL), HF_NOTFOUND);
    assert_status(hf_cancel(scene->bus, "a", "nonsense", NULL), HF_INVALID);
    assert_status(hf_cancel(scene->bus, "a", NULL, NULL), HF_INVALID);
    assert_status(hf_cancel(scene->bus, NULL, ids[1], NULL), HF_INVALID);
    assert_status(hf_cancel(NULL, "a", ids[1], NULL), HF_INVALID);
    bad.size = 3;
    assert_status(hf_cancel(scene->bus, "a", ids[1], &bad), HF_INVALID);
    bad = (hf_cancel_options)HF_CANCEL_OPTIONS_INIT;
    bad.reason = "\xFF";
    assert_status(hf_cancel(scene->bus, "a", ids[1], &bad), HF_INVALID);
}

static void it_survives_closing_and_opening(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = options_of(HF_MODE_SHARED);
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch;

    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kk");
    assert_ok(cancel(scene->bus, "a", 1, -1));
    scene_reopen(scene);
    assert_int_equal(state_at(scene->bus, "a", 1), HF_STATE_CANCELLED);
    claim.max = 10;
    assert_ok(hf_claim(scene->bus, "a", &claim, &batch));
    assert_int_equal(hf_batch_count(batch), 1);
    assert_int_equal(hf_batch_event(batch, 0)->position, 2);
    hf_batch_free(batch);
}

/* ---- Claimed --------------------------------------------------------------------------------- */

static void a_claimer_hears_that_it_is_not_his_any_more(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_SHARED);
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch;
    int64_t first = 1;

    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kk");
    claim.max = 10;
    assert_ok(hf_claim(scene->bus, "a", &claim, &batch));
    assert_int_equal(hf_batch_count(batch), 2);
    assert_ok(cancel(other, "a", 1, -1));
    assert_status(hf_ack(scene->bus, "a", hf_batch_lease(batch), &first, 1), HF_STALE);
    assert_ok(hf_ack(scene->bus, "a", hf_batch_lease(batch), NULL, 0));
    assert_int_equal(state_at(other, "a", 1), HF_STATE_CANCELLED);
    assert_int_equal(state_at(other, "a", 2), HF_STATE_DONE);
    hf_batch_free(batch);
}

/* ---- In hand, and in a handler --------------------------------------------------------------- */

/* A process works for the subscription, and its only worker is at the first event. */
static struct recorder *work_at_first(struct scene *scene, hf_mode mode, decide_fn decide,
                                      const char *letters)
{
    struct recorder *recorder = scene_recorder(scene, decide);
    hf_subscription_options options = options_of(mode);

    recorder->door = scene_door(scene);
    options.retry_base_ms = 600000;
    options.retry_max_ms = 600000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_keys(scene->bus, letters);
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->door, 1));
    return recorder;
}

static void check_behind_a_handler(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = work_at_first(scene, mode, NULL, "kkmk");
    hf_bus *other = scene_open(scene, NULL);

    assert_ok(cancel(other, "a", 2, DEADLINE_MS));
    assert_ok(cancel(other, "a", 3, DEADLINE_MS));
    assert_int_equal(state_at(other, "a", 2), HF_STATE_CANCELLED);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    assert_int_equal(recorder_calls(recorder, 3, NULL), 0);
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(state_at(other, "a", 3), HF_STATE_CANCELLED);
    assert_int_equal(state_at(other, "a", 4), HF_STATE_DONE);
}

static void what_waits_behind_a_handler_is_given_up(void **state)
{
    check_behind_a_handler(*state, HF_MODE_ORDERED);
}

static void what_waits_behind_a_handler_is_given_up_shared(void **state)
{
    check_behind_a_handler(*state, HF_MODE_SHARED);
}

static void check_running(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = work_at_first(scene, mode, NULL, "kk");
    hf_bus *other = scene_open(scene, NULL);

    assert_status(cancel(other, "a", 1, SHORT_MS), HF_BUSY);
    assert_non_null(strstr(hf_errmsg(), "was not cancelled"));
    assert_int_not_equal(state_at(other, "a", 1), HF_STATE_CANCELLED);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
    assert_int_equal(state_at(other, "a", 1), HF_STATE_DONE);
    assert_status(cancel(other, "a", 1, SHORT_MS), HF_CONFLICT);
}

static void a_handler_that_runs_is_not_said_to_be_cancelled(void **state)
{
    check_running(*state, HF_MODE_ORDERED);
}

static void a_handler_that_runs_is_not_said_to_be_cancelled_shared(void **state)
{
    check_running(*state, HF_MODE_SHARED);
}

/* A thread that cancels and waits for long. */
struct canceller {
    pthread_t thread;
    hf_bus *bus;
    int64_t number;
    hf_status status;
};

static void *cancel_patiently(void *ctx)
{
    struct canceller *canceller = ctx;
    canceller->status = cancel(canceller->bus, "a", canceller->number, DEADLINE_MS);
    return NULL;
}

static int note_requested(const hf_event_state *state, void *ctx)
{
    *(int32_t *)ctx |= state->cancel_requested;
    return 0;
}

static bool is_requested(void *ctx)
{
    const struct canceller *canceller = ctx;
    int32_t requested = 0;
    return hf_event_states(canceller->bus, ids[canceller->number], note_requested, &requested) ==
               HF_OK &&
           requested;
}

/* Begins to cancel the event, and comes back when the process that has it was asked. */
static struct canceller *begin_to_cancel(hf_bus *bus, int64_t number)
{
    static struct canceller canceller;
    canceller = (struct canceller){.bus = bus, .number = number};
    assert_int_equal(pthread_create(&canceller.thread, NULL, cancel_patiently, &canceller), 0);
    assert_true(wait_until(is_requested, &canceller));
    return &canceller;
}

static void check_failing(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = work_at_first(scene, mode, fail_always, "kk");
    hf_bus *other = scene_open(scene, NULL);
    struct canceller *canceller = begin_to_cancel(other, 1);
    int32_t attempts = -1;

    door_open(recorder->door);
    assert_int_equal(pthread_join(canceller->thread, NULL), 0);
    assert_status(canceller->status, HF_OK);
    assert_int_equal(state_of(other, "a", ids[1], &attempts), HF_STATE_CANCELLED);
    assert_int_equal(attempts, 1);
    assert_true(recorder_wait(recorder, 2)); /* the next one of its key */
    assert_int_equal(recorder_calls(recorder, 1, NULL), 1);
}

static void an_attempt_that_fails_is_the_last_if_it_is_to_be_cancelled(void **state)
{
    check_failing(*state, HF_MODE_ORDERED);
}

static void check_succeeding(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = work_at_first(scene, mode, NULL, "kk");
    hf_bus *other = scene_open(scene, NULL);
    struct canceller *canceller = begin_to_cancel(other, 1);

    door_open(recorder->door);
    assert_int_equal(pthread_join(canceller->thread, NULL), 0);
    assert_status(canceller->status, HF_CONFLICT);
    assert_int_equal(state_at(other, "a", 1), HF_STATE_DONE);
}

static void a_handler_that_succeeds_meanwhile_has_done_it(void **state)
{
    check_succeeding(*state, HF_MODE_ORDERED);
}

static void a_handler_that_succeeds_meanwhile_has_done_it_shared(void **state)
{
    check_succeeding(*state, HF_MODE_SHARED);
}

static void an_attempt_that_fails_is_the_last_if_it_is_to_be_cancelled_shared(void **state)
{
    check_failing(*state, HF_MODE_SHARED);
}

/* ---- Waiting, with a worker ------------------------------------------------------------------ */

/* Events of key "k" fail, all others are done. */
static hf_verdict fail_k(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return event->position == 1 ? HF_RETRY : HF_ACK;
}

static bool is_held(void *ctx)
{
    return state_at(ctx, "a", 2) == HF_STATE_HELD;
}

static void check_key_goes_on(struct scene *scene, hf_order order)
{
    struct recorder *recorder = scene_recorder(scene, fail_k);
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    options.order = order;
    options.concurrency = order == HF_ORDER_STRICT ? 1 : 4;
    options.retry_base_ms = 600000;
    options.retry_max_ms = 600000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_keys(scene->bus, "kkmk");
    assert_ok(hf_start(scene->bus));
    assert_true(recorder_wait(recorder, 1));
    if (order != HF_ORDER_STRICT) {
        assert_true(wait_until(is_held, other));
        assert_ok(cancel(other, "a", 4, DEADLINE_MS)); /* held, too */
    }
    assert_ok(cancel(other, "a", 1, DEADLINE_MS));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 1);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
    assert_int_equal(recorder_calls(recorder, 4, NULL), order == HF_ORDER_STRICT ? 1 : 0);
    assert_int_equal(state_at(other, "a", 1), HF_STATE_CANCELLED);
    struct info info = info_of(other, "a");
    assert_int_equal(info.retrying, 0);
    assert_int_equal(info.held, 0);
    publish(scene->bus, "x", "k", "{}"); /* the key is free for what comes */
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 5, NULL), 1);
}

static void the_next_of_its_key_goes_on(void **state)
{
    check_key_goes_on(*state, HF_ORDER_RELAXED);
}

static void in_strict_order_everything_goes_on(void **state)
{
    check_key_goes_on(*state, HF_ORDER_STRICT);
}

static void a_paused_subscription_lets_go_of_it(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "z", "{}");
    settle_all(scene->bus, "a");
    assert_ok(hf_pause(other, "a", "wait"));
    publish_keys(scene->bus, "kk"); /* positions 2 and 3 */
    assert_ok(cancel(other, "a", 1, DEADLINE_MS));
    assert_ok(hf_resume(other, "a"));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    assert_int_equal(recorder_calls(recorder, 3, NULL), 1);
}

static void partitions_of_two_processes(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *mate = scene_open(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    recorder->door = scene_door(scene);
    options.partitions = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    subscribe(mate, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(mate));
    publish_keys(other, "abcdabcdabcd");
    assert_true(door_wait_inside(recorder->door, 2));
    for (int64_t i = 9; i <= 12; i++) {
        assert_ok(cancel(other, "a", i, DEADLINE_MS));
    }
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    for (int64_t i = 9; i <= 12; i++) {
        assert_int_equal(recorder_calls(recorder, i, NULL), 0);
    }
    assert_int_equal(recorder_count(recorder), 8);
}

static void a_transactional_subscription_passes_it_over(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    options.transactional = HF_ON;
    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kkk");
    assert_ok(cancel(other, "a", 2, DEADLINE_MS));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    assert_int_equal(recorder_count(recorder), 2);
}

static void a_seek_back_delivers_it_again(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_SHARED);

    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kk");
    assert_ok(cancel(scene->bus, "a", 1, -1));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 0);
    assert_ok(hf_seek(scene->bus, "a", (hf_place){HF_PLACE_START, -1}, HF_OFF, NULL));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 1);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 2);
    assert_int_equal(state_at(scene->bus, "a", 1), HF_STATE_DONE);
}

/* What a batch handler has seen: the positions of its last call, and how many calls there were. */
struct units_seen {
    pthread_mutex_t mutex;
    int calls;
    char last[64];
    bool fails;
};

static struct units_seen units_seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static hf_verdict see_unit(const hf_event *const *events, size_t count, hf_delivery *delivery,
                           void *ctx)
{
    (void)delivery;
    (void)ctx;
    pthread_mutex_lock(&units_seen.mutex);
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        length += (size_t)snprintf(units_seen.last + length, sizeof units_seen.last - length,
                                   "%lld ", (long long)events[i]->position);
    }
    units_seen.calls++;
    bool fails = units_seen.calls == 1;
    pthread_mutex_unlock(&units_seen.mutex);
    return fails ? HF_RETRY : HF_ACK;
}

static bool has_failed(void *ctx)
{
    return info_of(ctx, "a").retrying >= 4;
}

/* A unit that has failed comes again with those that are left of it. */
static void a_unit_comes_again_without_the_cancelled_event(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    options.batch = 4;
    options.batch_by = HF_BATCH_NONE;
    options.retry_base_ms = 2000;
    options.retry_max_ms = 2000;
    units_seen.calls = 0;
    publish_keys(scene->bus, "kmkm");
    assert_ok(hf_subscribe_batch(scene->bus, "a", "*", see_unit, NULL, &options, NULL));
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(has_failed, other));
    assert_ok(cancel(other, "a", 2, DEADLINE_MS));
    settle_all(scene->bus, "a");
    pthread_mutex_lock(&units_seen.mutex);
    assert_string_equal(units_seen.last, "1 3 4 ");
    assert_int_equal(units_seen.calls, 2);
    pthread_mutex_unlock(&units_seen.mutex);
    assert_int_equal(state_at(other, "a", 2), HF_STATE_CANCELLED);
}

static int64_t mark_count(struct scene *scene)
{
    return tables_number(scene, scene->path ? "SELECT count(*) FROM holdfast_cancels"
                                            : "SELECT count(*) FROM holdfast_private.cancels");
}

static void marks_go_with_their_events(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_SHARED);

    create(scene->bus, "a", &options);
    publish_keys(scene->bus, "kkk");
    assert_ok(cancel(scene->bus, "a", 1, -1));
    assert_ok(cancel(scene->bus, "a", 3, -1));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    grow_old(scene);
    publish(scene->bus, "x", NULL, "{}");
    assert_int_equal(mark_count(scene), 2);
    set_retention(scene->bus, INT64_C(1000) * 3600 * 24 * 30, -1, HF_LAGGING_KEEP);
    retain(scene->bus, HF_OFF);
    assert_int_equal(mark_count(scene), 0);
    assert_status(cancel(scene->bus, "a", 1, -1), HF_NOTFOUND);
}

/* ---- Forced interleavings -------------------------------------------------------------------- */

#ifdef HF_FAULTS
static int points_teardown(void **state)
{
    point_reset(); /* no thread may stay stopped while the bus is closed */
    return scene_teardown(state);
}

/* The owner has taken the event out of its workers' reach, and has not stored that: the request is
 * withdrawn at this moment, so the event must be delivered. */
static void check_withdrawn(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = work_at_first(scene, mode, NULL, "kk");
    hf_bus *other = scene_open(scene, NULL);

    point_arm("before_cancel", 1, POINT_STOP_THREAD);
    assert_status(cancel(other, "a", 2, SHORT_MS), HF_BUSY);
    assert_true(point_wait_blocked("before_cancel", DEADLINE_MS));
    door_open(recorder->door);
    point_release("before_cancel");
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
    assert_int_equal(state_at(other, "a", 2), HF_STATE_DONE);
}

static void a_withdrawn_request_gives_the_event_back(void **state)
{
    check_withdrawn(*state, HF_MODE_ORDERED);
}

static void a_withdrawn_request_gives_the_event_back_shared(void **state)
{
    check_withdrawn(*state, HF_MODE_SHARED);
}

/* The worker is free while the owner stores the answer: it must not take the event. */
static void no_worker_begins_what_is_being_cancelled(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = work_at_first(scene, HF_MODE_ORDERED, NULL, "kkk");
    hf_bus *other = scene_open(scene, NULL);
    struct canceller *canceller;

    point_arm("before_cancel", 1, POINT_STOP_THREAD);
    canceller = begin_to_cancel(other, 2);
    assert_true(point_wait_blocked("before_cancel", DEADLINE_MS));
    door_open(recorder->door);
    assert_true(recorder_wait(recorder, 2)); /* 1, and the one behind it: 3 */
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
    point_release("before_cancel");
    assert_int_equal(pthread_join(canceller->thread, NULL), 0);
    assert_status(canceller->status, HF_OK);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 2, NULL), 0);
}

/* die URL ID: cancels the event for "a", and is killed in the middle of it. */
static int die_cancelling(int argc, char **argv)
{
    hf_cancel_options options = HF_CANCEL_OPTIONS_INIT;
    hf_bus *bus = NULL;

    if (argc < 2 || hf_open(argv[0], NULL, &bus)) {
        return 2;
    }
    point_arm("mid_cancel", 1, POINT_KILL);
    hf_status status = hf_cancel(bus, "a", argv[1], &options);
    hf_close(&bus);
    return status ? 3 : 0;
}

/* On PostgreSQL a cancel is one statement: there is no middle. */
static void a_process_that_dies_while_cancelling_has_changed_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_k);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    if (!scene->path) {
        return;
    }
    options.retry_base_ms = 600000;
    options.retry_max_ms = 600000;
    options.concurrency = 4;
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish_keys(scene->bus, "kkmk");
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_held, scene->bus));
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    struct info before = info_of(scene->bus, "a");
    int ended = actor_wait(actor_start("die", scene->url, ids[1], NULL));
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    struct info after = info_of(scene->bus, "a");
    assert_int_equal(after.retrying, before.retrying);
    assert_int_equal(after.held, before.held);
    assert_int_equal(state_at(scene->bus, "a", 1), HF_STATE_RETRYING);
    assert_int_equal(state_at(scene->bus, "a", 2), HF_STATE_HELD);
    assert_int_equal(mark_count(scene), 0);
    assert_ok(cancel(scene->bus, "a", 1, -1));
    assert_int_equal(state_at(scene->bus, "a", 1), HF_STATE_CANCELLED);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_calls(recorder, 1, NULL), 1);
    assert_int_equal(recorder_calls(recorder, 2, NULL), 1);
}

static const struct part parts[] = {{"die", die_cancelling}};
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_cancelled_event_is_not_delivered_and_says_so),
        scene_test(a_position_names_the_event_too),
        scene_test(what_cannot_be_cancelled_says_why),
        scene_test(it_survives_closing_and_opening),
        scene_test(a_claimer_hears_that_it_is_not_his_any_more),
        scene_test(what_waits_behind_a_handler_is_given_up),
        scene_test(what_waits_behind_a_handler_is_given_up_shared),
        scene_test(a_handler_that_runs_is_not_said_to_be_cancelled),
        scene_test(a_handler_that_runs_is_not_said_to_be_cancelled_shared),
        scene_test(an_attempt_that_fails_is_the_last_if_it_is_to_be_cancelled),
        scene_test(an_attempt_that_fails_is_the_last_if_it_is_to_be_cancelled_shared),
        scene_test(a_handler_that_succeeds_meanwhile_has_done_it),
        scene_test(a_handler_that_succeeds_meanwhile_has_done_it_shared),
        scene_test(the_next_of_its_key_goes_on),
        scene_test(in_strict_order_everything_goes_on),
        scene_test(a_paused_subscription_lets_go_of_it),
        scene_test(partitions_of_two_processes),
        scene_test(a_transactional_subscription_passes_it_over),
        scene_test(a_seek_back_delivers_it_again),
        scene_test(a_unit_comes_again_without_the_cancelled_event),
        scene_test(marks_go_with_their_events),
#ifdef HF_FAULTS
        cmocka_unit_test_setup_teardown(a_withdrawn_request_gives_the_event_back, scene_setup,
                                        points_teardown),
        cmocka_unit_test_setup_teardown(a_withdrawn_request_gives_the_event_back_shared,
                                        scene_setup, points_teardown),
        cmocka_unit_test_setup_teardown(no_worker_begins_what_is_being_cancelled, scene_setup,
                                        points_teardown),
        scene_test(a_process_that_dies_while_cancelling_has_changed_nothing),
#endif
    };
#ifdef HF_FAULTS
    if (actor_is_asked_for(argc, argv)) {
        return actor_run(argc, argv, parts, COUNTED(parts));
    }
#endif
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
