/*
 * test_tick.c - what is due is brought by calls that look for work, and by hf_tick, where no bus is
 * started.
 */
#include "support/crowd.h"
#include "support_scene.h"
#include "support_tables.h"

#define SECOND_US INT64_C(1000000)
#define MANY 2500 /* more than enter the log in one portion */

static void keep(hf_bus *bus, const char *type, int64_t delay_us)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = type;
    event.deliver_at_us = wall_us() + delay_us;
    assert_ok(hf_publish(bus, &event, NULL));
}

static void every_second(hf_bus *bus, const char *name)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;
    schedule.name = name;
    schedule.expression = "* * * * * *";
    schedule.type = "job.planned";
    assert_ok(hf_schedule_put(bus, &schedule, NULL));
}

static void create(hf_bus *bus)
{
    const char *patterns[] = {"job.*"};
    hf_subscription_options options = quick_options();
    options.mode = HF_MODE_SHARED;
    options.wait_period_ms = 3600000; /* whatever wakes a claim, it is not this */
    assert_ok(hf_subscription_create(bus, "s", patterns, 1, &options, NULL));
}

static size_t claim(hf_bus *bus, int64_t wait_ms)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    options.wait_ms = wait_ms;
    assert_ok(hf_claim(bus, "s", &options, &batch));
    size_t count = hf_batch_count(batch);
    hf_batch_free(batch);
    return count;
}

static hf_tick_info tick(hf_bus *bus)
{
    hf_tick_info info = {.size = sizeof info};
    assert_ok(hf_tick(bus, &info));
    return info;
}

static int64_t head(hf_bus *bus)
{
    hf_stats stats = {.size = sizeof stats};
    assert_ok(hf_stats_get(bus, &stats));
    return stats.head;
}

static int count_one(const hf_event *event, void *ctx)
{
    (void)event;
    ++*(int *)ctx;
    return 0;
}

/* ---- Looking for work ------------------------------------------------------------------------ */

static void a_claim_brings_an_event_whose_time_has_come(void **state)
{
    struct scene *scene = *state;
    create(scene->bus);
    keep(scene->bus, "job.late", -SECOND_US);
    assert_int_equal(claim(scene->bus, 0), 1);
    assert_int_equal(claim(scene->bus, 0), 0);
}

static void a_claim_in_another_process_brings_an_event_whose_time_has_come(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    create(scene->bus);
    assert_int_equal(claim(other, 0), 0);
    keep(scene->bus, "job.late", -SECOND_US);
    assert_int_equal(claim(other, 0), 1);
}

static void a_waiting_claim_gets_an_event_when_it_is_due(void **state)
{
    struct scene *scene = *state;
    create(scene->bus);
    int64_t begun_us = mono_us();
    keep(scene->bus, "job.soon", SECOND_US);
    assert_int_equal(claim(scene->bus, DEADLINE_MS), 1);
    assert_true(mono_us() - begun_us >= SECOND_US - 10000);
    assert_true(mono_us() - begun_us < DEADLINE_MS * INT64_C(1000) / 2);
}

struct claimant {
    hf_bus *bus;
    size_t count;
};

static void wait_for_work(int index, void *ctx)
{
    struct claimant *claimant = ctx;
    (void)index;
    claimant->count = claim(claimant->bus, DEADLINE_MS);
}

static void a_waiting_claim_gets_an_event_that_is_delayed_meanwhile(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    struct claimant claimant = {.bus = scene->bus};
    struct crowd crowd;
    create(scene->bus);
    crowd_start(&crowd, 1, wait_for_work, &claimant);
    crowd_settle(&crowd);
    int64_t begun_us = mono_us();
    keep(other, "job.soon", SECOND_US / 2);
    crowd_join(&crowd);
    assert_int_equal(claimant.count, 1);
    /* A claim that did not go by the news would ask again after ten seconds. */
    assert_true(mono_us() - begun_us < 8 * SECOND_US);
}

static void a_claim_fires_a_schedule(void **state)
{
    struct scene *scene = *state;
    create(scene->bus);
    every_second(scene->bus, "s");
    assert_true(claim(scene->bus, DEADLINE_MS) > 0);
}

static void a_claim_that_finds_enough_work_brings_due_events_all_the_same(void **state)
{
    struct scene *scene = *state;
    int64_t published = 0;
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    create(scene->bus);
    assert_int_equal(claim(scene->bus, 0), 0);
    keep(scene->bus, "job.late", SECOND_US / 2);
    while (head(scene->bus) == published) {
        assert_true(mono_us() < until_us);
        publish(scene->bus, "job.now", NULL, NULL);
        published++;
        assert_true(claim(scene->bus, 0) > 0);
        usleep(10000);
    }
}

static void a_reader_that_waits_brings_due_events(void **state)
{
    struct scene *scene = *state;
    int64_t cursor = 0;
    int count = 0;
    keep(scene->bus, "job.late", SECOND_US / 2);
    assert_ok(hf_read(scene->bus, NULL, 10, 0, &cursor, count_one, &count));
    assert_int_equal(count, 0);
    assert_ok(hf_read(scene->bus, NULL, 10, DEADLINE_MS, &cursor, count_one, &count));
    assert_int_equal(count, 1);
}

static void a_reader_that_does_not_wait_writes_nothing(void **state)
{
    struct scene *scene = *state;
    int64_t cursor = 0;
    int count = 0;
    keep(scene->bus, "job.late", -SECOND_US);
    assert_ok(hf_read(scene->bus, NULL, 10, 0, &cursor, count_one, &count));
    assert_int_equal(count, 0);
    assert_int_equal(head(scene->bus), 0);
}

static void waiting_for_a_position_brings_its_event(void **state)
{
    struct scene *scene = *state;
    hf_bus *worker = scene_open(scene, NULL);
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    subscribe(worker, "a", "*", recorder, &options);
    keep(scene->bus, "job.late", -SECOND_US);
    /* No bus is started: nothing processes it, but it is in the log. */
    assert_status(hf_wait(scene->bus, "a", 1, 200), HF_TIMEOUT);
    assert_int_equal(head(scene->bus), 1);
}

/* ---- hf_tick --------------------------------------------------------------------------------- */

static void a_tick_does_all_that_is_due_and_returns_the_next_time(void **state)
{
    struct scene *scene = *state;
    hf_tick_info info = tick(scene->bus);
    assert_int_equal(info.fired + info.released + info.refused, 0);
    assert_int_equal(info.next_due_at_us, -1);
    keep(scene->bus, "one", -2 * SECOND_US);
    keep(scene->bus, "two", -SECOND_US);
    int64_t before_us = wall_us();
    keep(scene->bus, "three", 3600 * SECOND_US);
    info = tick(scene->bus);
    assert_int_equal(info.released, 2);
    assert_int_equal(info.fired, 0);
    assert_in_range(info.next_due_at_us, before_us + 3590 * SECOND_US,
                    before_us + 3660 * SECOND_US);
    assert_int_equal(head(scene->bus), 2);
    assert_int_equal(tick(scene->bus).released, 0);
    every_second(scene->bus, "s");
    sleep(2);
    info = tick(scene->bus);
    assert_true(info.fired >= 1);
    assert_int_equal(info.released, 0);
    assert_int_equal(head(scene->bus), 2 + info.fired);
}

static void a_tick_brings_more_than_one_portion(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < MANY; i++) {
        keep(scene->bus, "one", -SECOND_US);
    }
    assert_int_equal(tick(scene->bus).released, MANY);
    assert_int_equal(head(scene->bus), MANY);
}

static void a_tick_without_a_place_for_its_answer_works(void **state)
{
    struct scene *scene = *state;
    hf_tick_info small = {.size = 8};
    keep(scene->bus, "one", -SECOND_US);
    assert_status(hf_tick(scene->bus, &small), HF_INVALID);
    assert_status(hf_tick(NULL, NULL), HF_INVALID);
    assert_int_equal(head(scene->bus), 0);
    assert_ok(hf_tick(scene->bus, NULL));
    assert_int_equal(head(scene->bus), 1);
    assert_ok(hf_shutdown(scene->bus, -1));
    assert_status(hf_tick(scene->bus, NULL), HF_CLOSED);
}

static void a_schedule_that_this_machine_cannot_read_is_counted(void **state)
{
    struct scene *scene = *state;
    every_second(scene->bus, "far");
    tables_run(scene, scene->path
                          ? "UPDATE holdfast_schedules SET zone = 'Europe/Atlantis'"
                          : "UPDATE holdfast_private.schedules SET zone = 'Europe/Atlantis'");
    every_second(scene->bus, "near");
    sleep(2);
    hf_tick_info info = tick(scene->bus);
    assert_int_equal(info.refused, 1);
    assert_true(info.fired >= 1);
    assert_true(info.next_due_at_us <= wall_us());
    assert_true(scene_said(scene, "Europe/Atlantis"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_claim_brings_an_event_whose_time_has_come),
        scene_test(a_claim_in_another_process_brings_an_event_whose_time_has_come),
        scene_test(a_waiting_claim_gets_an_event_when_it_is_due),
        scene_test(a_waiting_claim_gets_an_event_that_is_delayed_meanwhile),
        scene_test(a_claim_fires_a_schedule),
        scene_test(a_claim_that_finds_enough_work_brings_due_events_all_the_same),
        scene_test(a_reader_that_waits_brings_due_events),
        scene_test(a_reader_that_does_not_wait_writes_nothing),
        scene_test(waiting_for_a_position_brings_its_event),
        scene_test(a_tick_does_all_that_is_due_and_returns_the_next_time),
        scene_test(a_tick_brings_more_than_one_portion),
        scene_test(a_tick_without_a_place_for_its_answer_works),
        scene_test(a_schedule_that_this_machine_cannot_read_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
