/*
 * Tests of clocks that jump: the wall clock goes an hour or a day forward or back while the bus
 * works. Leases of owners do not care, nothing is lost, and nothing comes twice.
 *
 * The process's clocks are faked (base/time/clock.h); a thread lets them run, and the test makes
 * the wall clock jump while processes run.
 */
#include "support_scene.h"

#include "base/point.h"
#include "base/time/clock.h"
#include "bus/bus.h"
#include "store/timers.h"

#include <stdatomic.h>

#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)

static atomic_bool ticking;
static pthread_t ticker;

static void *tick(void *ctx)
{
    int64_t last_us = mono_us();

    (void)ctx;
    while (atomic_load(&ticking)) {
        int64_t now_us = mono_us();

        clock_fake_advance(now_us - last_us);
        last_us = now_us;
        usleep(1000);
    }
    return NULL;
}

/* Jumps of the wall clock are made by the ticker's own rhythm: no other thread sets the clocks. */
static void jump(int64_t us)
{
    atomic_store(&ticking, false);
    pthread_join(ticker, NULL);
    clock_fake_set(clock_wall_us() + us, clock_mono_us());
    atomic_store(&ticking, true);
    pthread_create(&ticker, NULL, tick, NULL);
}

static int fake_setup(void **state)
{
    clock_fake_set(wall_us(), mono_us());
    atomic_store(&ticking, true);
    if (pthread_create(&ticker, NULL, tick, NULL) != 0) {
        return -1;
    }
    return scene_setup(state);
}

static int fake_teardown(void **state)
{
    int result = scene_teardown(state);

    atomic_store(&ticking, false);
    pthread_join(ticker, NULL);
    clock_fake_off();
    return result;
}

#define clock_test(test) cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)

static const int64_t JUMPS_US[] = {HOUR_US, -HOUR_US, DAY_US, -DAY_US, -DAY_US, DAY_US};

static void work_through_jumps(struct scene *scene, hf_mode mode)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    int64_t published = 0;

    options.mode = mode;
    options.concurrency = 2;
    options.lease_ms = 10000; /* far less than a jump, far more than a pause of the machine */
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i < COUNTED(JUMPS_US); i++) {
        for (int j = 0; j < 20; j++, published++) {
            publish(scene->bus, "x", j % 2 ? "k" : NULL, "1");
        }
        jump(JUMPS_US[i]);
        for (int j = 0; j < 20; j++, published++) {
            publish(scene->bus, "x", j % 2 ? "k" : NULL, "1");
        }
        settle_all(scene->bus, "a");
    }
    assert_int_equal(recorder_count(recorder), published);
    /* A server's positions may have gaps. */
    for (int64_t position = 1; scene->path && position <= published; position++) {
        assert_int_equal(recorder_calls(recorder, position, NULL), 1);
    }
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
}

static void ordered_delivery_survives_jumps_of_the_clock(void **state)
{
    work_through_jumps(*state, HF_MODE_ORDERED);
}

static void shared_delivery_survives_jumps_of_the_clock(void **state)
{
    work_through_jumps(*state, HF_MODE_SHARED);
}

static void a_jump_of_the_clock_does_not_change_the_owner(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *standby = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    hf_bus *other = scene_open(scene, NULL);

    recorder->door = scene_door(scene);
    options.lease_ms = 10000; /* far less than a jump, far more than a pause of the machine */
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->door, 1));
    subscribe(other, "a", "*", standby, NULL);
    assert_ok(hf_start(other));
    for (size_t i = 0; i < COUNTED(JUMPS_US); i++) {
        jump(JUMPS_US[i]);
        assert_status(hf_wait(scene->bus, "a", 1, 150), HF_TIMEOUT);
    }
    assert_int_equal(recorder_count(standby), 0);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(recorder_count(standby), 0);
}

static void a_jump_of_the_clock_does_not_time_a_handler_out(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();

    recorder->door = scene_door(scene);
    options.handler_timeout_ms = 60000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(door_wait_inside(recorder->door, 1));
    jump(DAY_US);
    assert_status(hf_wait(scene->bus, "a", 1, 100), HF_TIMEOUT);
    jump(-DAY_US);
    door_open(recorder->door);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 1);
}

static hf_verdict fail_once(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static bool is_waiting(void *ctx)
{
    struct scene *scene = ctx;

    return info_of(scene->bus, "a").retrying == 1;
}

static void a_waiting_retry_comes_early_at_worst_after_a_jump_forward(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_once);
    hf_subscription_options options = quick_options();

    options.retry_base_ms = 600000;
    options.retry_max_ms = 600000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    assert_true(wait_until(is_waiting, scene)); /* its time is stored */
    jump(HOUR_US);
    if (!scene->path) { /* there the server's clock counts, which has not jumped */
        assert_status(hf_wait(scene->bus, "a", -1, 500), HF_TIMEOUT);
        assert_int_equal(recorder_count(recorder), 1);
        return;
    }
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void a_waiting_retry_does_not_wait_for_a_jump_back(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_once);
    hf_subscription_options options = quick_options();

    options.retry_base_ms = 300;
    options.retry_max_ms = 300;
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    jump(-DAY_US);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 2);
}

static void a_claimed_lease_does_not_outlast_a_jump_back(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    const char *patterns[] = {"*"};
    hf_batch *lost = NULL, *found = NULL;

    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    claim.lease_ms = 300;
    assert_ok(hf_claim(scene->bus, "a", &claim, &lost));
    assert_int_equal(hf_batch_count(lost), 1);
    jump(-DAY_US);
    claim.wait_ms = DEADLINE_MS;
    assert_ok(hf_claim(scene->bus, "a", &claim, &found));
    assert_int_equal(hf_batch_count(found), 1);
    hf_batch_free(lost);
    hf_batch_free(found);
}

#define YEARS_US (3650 * DAY_US)

/* A retry is stored while the clock is ahead by so much; then the process ends, and the next one
 * has the right clock. */
static void retry_over_a_restart(struct scene *scene, hf_mode mode, int64_t ahead_us)
{
    struct recorder *recorder = scene_recorder(scene, fail_once);
    hf_subscription_options options = quick_options();
    hf_bus *bus;

    options.mode = mode;
    options.retry_base_ms = 2000;
    options.retry_max_ms = 2000;
    jump(ahead_us);
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", "k", "1");
    assert_true(recorder_wait(recorder, 1));
    assert_true(wait_until(is_waiting, scene)); /* its time is stored */
    assert_ok(hf_stop(scene->bus, -1));
    scene_close(scene, scene->bus);
    jump(-ahead_us);
    bus = scene_open(scene, NULL);
    publish(bus, "y", "k", "1");
    subscribe(bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(bus));
    settle_all(bus, "a");
    assert_int_equal(recorder_count(recorder), 4); /* each failed once */
}

static void a_retry_of_a_clock_that_was_ahead_comes_after_a_restart(void **state)
{
    retry_over_a_restart(*state, HF_MODE_ORDERED, HOUR_US);
}

static void a_retry_of_a_clock_that_was_years_ahead_comes_after_a_restart(void **state)
{
    retry_over_a_restart(*state, HF_MODE_ORDERED, YEARS_US);
}

static void a_shared_retry_of_a_clock_that_was_ahead_comes_after_a_restart(void **state)
{
    retry_over_a_restart(*state, HF_MODE_SHARED, HOUR_US);
}

static void a_long_delay_that_was_asked_for_is_kept_over_a_restart(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_bus *bus;
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    const char *patterns[] = {"*"};
    hf_batch *batch = NULL;

    options.mode = HF_MODE_SHARED;
    options.retry_max_ms = 300;
    options.retry_base_ms = 300;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_claim(scene->bus, "a", NULL, &batch));
    assert_ok(hf_nack(scene->bus, "a", hf_batch_lease(batch), NULL, 0, 3600000, "later"));
    hf_batch_free(batch);
    scene_close(scene, scene->bus);
    bus = scene_open(scene, NULL);
    claim.wait_ms = 1500;
    assert_ok(hf_claim(bus, "a", &claim, &batch));
    assert_int_equal(hf_batch_count(batch), 0);
    hf_batch_free(batch);
}

static void a_lease_of_a_clock_that_was_ahead_ends_after_a_restart(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_bus *bus;
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    const char *patterns[] = {"*"};
    hf_batch *lost = NULL, *found = NULL;

    options.mode = HF_MODE_SHARED;
    jump(HOUR_US);
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
    publish(scene->bus, "x", NULL, "1");
    claim.lease_ms = 2000;
    claim.detached = HF_ON;
    assert_ok(hf_claim(scene->bus, "a", &claim, &lost));
    assert_int_equal(hf_batch_count(lost), 1);
    hf_batch_free(lost);
    scene_close(scene, scene->bus);
    jump(-HOUR_US);
    bus = scene_open(scene, NULL);
    claim.wait_ms = DEADLINE_MS;
    assert_ok(hf_claim(bus, "a", &claim, &found));
    assert_int_equal(hf_batch_count(found), 1);
    hf_batch_free(found);
}

static void a_standby_takes_over_after_a_jump_back(void **state)
{
    struct scene *scene = *state;
    struct recorder *owner = scene_recorder(scene, NULL);
    struct recorder *standby = scene_recorder(scene, NULL);
    hf_bus *other = scene_open(scene, NULL);

    subscribe(scene->bus, "a", "*", owner, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    subscribe(other, "a", "*", standby, NULL);
    assert_ok(hf_start(other));
    jump(-DAY_US);
    assert_ok(hf_close(&scene->bus));
    publish(other, "x", NULL, "2");
    settle_all(other, "a");
    assert_int_equal(recorder_count(standby), 1);
}

/* Planned times in the order of the log. */
struct planned {
    int64_t cursor;
    int64_t count;
    int64_t last_us;
    int64_t repeated; /* not after the one before */
};

static int look_at_planned(const hf_event *event, void *ctx)
{
    struct planned *planned = ctx;

    planned->repeated += event->emitted_at_us <= planned->last_us;
    planned->last_us = event->emitted_at_us;
    planned->count++;
    return 0;
}

static void schedules_fire_each_planned_time_once_through_jumps(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    static struct planned planned;

    memset(&planned, 0, sizeof planned);
    schedule.name = "s";
    schedule.expression = "* * * * * *";
    schedule.type = "tick";
    schedule.misfire = HF_MISFIRE_ALL;
    schedule.misfire_cap = 3;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i <= COUNTED(JUMPS_US); i++) {
        int64_t before = planned.count;
        int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);

        /* A clock that was set back has to come to where it was; a server's was not set. */
        while (planned.count == before && (!scene->path || clock_wall_us() > planned.last_us)) {
            assert_true(mono_us() < until_us);
            assert_ok(
                hf_read(scene->bus, NULL, 100, 100, &planned.cursor, look_at_planned, &planned));
        }
        if (i < COUNTED(JUMPS_US)) {
            jump(JUMPS_US[i]);
        }
    }
    assert_int_equal(planned.repeated, 0);
}

/* ---- After a pause --------------------------------------------------------------------------- */

/* Hits of a point, more than which are waited for. */
struct hits {
    const char *name;
    int64_t before;
};

static bool is_hit(void *ctx)
{
    const struct hits *hits = ctx;
    return point_hits(hits->name) > hits->before;
}

/* Were it stored at once, one event would make each of a thousand subscriptions write. */
static void an_event_for_others_after_a_pause_is_not_stored_at_once(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "s", "mine", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "mine", NULL, "1");
    settle_all(scene->bus, "s");
    jump(HOUR_US);
    struct hits turns = {"after_step", point_hits("after_step")};
    struct hits stored = {"before_settle", point_hits("before_settle")};
    publish(scene->bus, "other", NULL, "1");
    assert_true(wait_until(is_hit, &turns));
    usleep(200000); /* a turn that would follow it */
    assert_int_equal(point_hits("before_settle"), stored.before);
    assert_true(wait_until(is_hit, &stored)); /* but stored it is, after a while */
}

/* ---- Schedules that were planned while the clock was ahead ----------------------------------- */

struct waiting {
    struct fire fire;
    int64_t next_us;
};

static int look_at_schedule(const struct schedule_row *row, void *ctx)
{
    struct waiting *waiting = ctx;

    waiting->next_us = row->next_us;
    waiting->fire.generation = row->generation;
    waiting->fire.waited_us = row->next_us;
    memcpy(waiting->fire.schedule_id, row->id, sizeof waiting->fire.schedule_id);
    return 0;
}

static struct waiting waiting_of(struct scene *scene)
{
    struct waiting waiting = {.fire = {.change = {.kind = CHANGE_FIRE, .now_us = clock_wall_us()},
                                       .skipped_first_us = STORE_NEVER,
                                       .skipped_last_us = STORE_NEVER,
                                       .node = text_of("clock")}};

    assert_ok(store_schedule_get(scene->bus->store, text_of("s"), look_at_schedule, &waiting));
    return waiting;
}

/* A schedule of every second, and what a process did to it whose clock was ahead by so much. */
static void plan_ahead(struct scene *scene, int64_t ahead_us)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;

    schedule.name = "s";
    schedule.expression = "* * * * * *";
    schedule.type = "tick";
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    struct waiting waiting = waiting_of(scene);
    waiting.fire.next_us = waiting.next_us + ahead_us;
    assert_ok(store_run(scene->bus->store, &waiting.fire.change, DEADLINE_NEVER));
    assert_int_equal(waiting_of(scene).next_us, waiting.fire.next_us);
}

static void a_schedule_does_not_wait_for_a_clock_that_was_a_year_ahead(void **state)
{
    struct scene *scene = *state;
    static struct planned planned;

    memset(&planned, 0, sizeof planned);
    plan_ahead(scene, 365 * DAY_US);
    assert_ok(hf_start(scene->bus));
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000) / 4;
    while (planned.count < 2 && mono_us() < until_us) {
        assert_ok(hf_read(scene->bus, NULL, 100, 100, &planned.cursor, look_at_planned, &planned));
    }
    assert_true(planned.count >= 2);
    assert_int_equal(planned.repeated, 0);
    assert_true(planned.last_us < clock_wall_us() + HOUR_US);
}

/* A process whose clock is behind sees the same: for a few days it leaves such a schedule alone. */
static void a_schedule_waits_for_a_clock_that_was_a_day_ahead(void **state)
{
    struct scene *scene = *state;

    plan_ahead(scene, DAY_US);
    int64_t next_us = waiting_of(scene).next_us;
    struct hits looks = {"schedules_planned_anew", point_hits("schedules_planned_anew")};
    assert_ok(hf_start(scene->bus));
    assert_true(wait_until(is_hit, &looks));
    assert_int_equal(waiting_of(scene).next_us, next_us);
}

/* While the clock was ahead the time that comes next was fired: it is not fired once more. */
static void a_time_that_was_fired_ahead_is_not_fired_again(void **state)
{
    struct scene *scene = *state;
    static struct planned planned;

    memset(&planned, 0, sizeof planned);
    hf_schedule schedule = HF_SCHEDULE_INIT;
    schedule.name = "s";
    schedule.expression = "* * * * * *";
    schedule.type = "tick";
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    assert_ok(hf_start(scene->bus));
    while (planned.count < 3) {
        assert_ok(hf_read(scene->bus, NULL, 100, 1000, &planned.cursor, look_at_planned, &planned));
    }
    assert_ok(hf_stop(scene->bus, -1));
    struct waiting waiting = waiting_of(scene);
    waiting.fire.next_us = waiting.next_us - 3000000; /* three times that are in the log */
    assert_ok(store_run(scene->bus->store, &waiting.fire.change, DEADLINE_NEVER));
    assert_ok(hf_start(scene->bus));
    int64_t before = planned.count;
    while (planned.count < before + 3) {
        assert_ok(hf_read(scene->bus, NULL, 100, 1000, &planned.cursor, look_at_planned, &planned));
    }
    assert_int_equal(planned.repeated, 0);
}

static const struct CMUnitTest tests[] = {
    clock_test(ordered_delivery_survives_jumps_of_the_clock),
    clock_test(shared_delivery_survives_jumps_of_the_clock),
    clock_test(a_jump_of_the_clock_does_not_change_the_owner),
    clock_test(a_jump_of_the_clock_does_not_time_a_handler_out),
    clock_test(an_event_for_others_after_a_pause_is_not_stored_at_once),
    clock_test(a_schedule_does_not_wait_for_a_clock_that_was_a_year_ahead),
    clock_test(a_schedule_waits_for_a_clock_that_was_a_day_ahead),
    clock_test(a_time_that_was_fired_ahead_is_not_fired_again),
    clock_test(a_waiting_retry_comes_early_at_worst_after_a_jump_forward),
    clock_test(a_waiting_retry_does_not_wait_for_a_jump_back),
    clock_test(a_claimed_lease_does_not_outlast_a_jump_back),
    clock_test(a_retry_of_a_clock_that_was_ahead_comes_after_a_restart),
    clock_test(a_retry_of_a_clock_that_was_years_ahead_comes_after_a_restart),
    clock_test(a_shared_retry_of_a_clock_that_was_ahead_comes_after_a_restart),
    clock_test(a_long_delay_that_was_asked_for_is_kept_over_a_restart),
    clock_test(a_lease_of_a_clock_that_was_ahead_ends_after_a_restart),
    clock_test(a_standby_takes_over_after_a_jump_back),
    clock_test(schedules_fire_each_planned_time_once_through_jumps),
};

SCENE_MAIN(tests)
