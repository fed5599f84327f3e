/*
 * Tests with several processes on one file: one publishes and another consumes, the next takes over
 * when the owner is killed or frozen, and shared work of a dead process comes to the others.
 *
 * Children are this program started again (support_actor.h). A consumer writes a line "D name
 * position attempt" to the scene's diary for every call, "R name" when it is ready. The consumer
 * "first" hangs at events of type "hang" until a line "GO" is there.
 */
#include "support_actor.h"

#include <signal.h>
#include <sys/wait.h>

/* Of consumers that are killed: far longer than what they are waited for. */
#define LEASE_MS "60000"
#define LEASE_US 60000000
/* Of consumers that are stopped: the others must not seem to be on a machine that pauses. */
#define FROZEN_MS "2000"

/* ---- Parts ----------------------------------------------------------------------------------- */

static const char *diary;
static const char *self;

static hf_verdict write_down(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    diary_write(diary, "D %s %lld %d", self, (long long)event->position,
                (int)hf_delivery_attempt(delivery));
    if (strcmp(event->type, "hang") == 0 && strcmp(self, "first") == 0) {
        while (diary_count(diary, "GO") == 0) {
            usleep(1000);
        }
    }
    return HF_ACK;
}

/* consume URL DIARY NAME MODE LEASE_MS INSTANCE: works for the subscription "a" until killed. */
static int consume(int argc, char **argv)
{
    hf_subscription_options options = quick_options();
    hf_options bus_options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    if (argc < 6) {
        return 2;
    }
    diary = argv[1];
    self = argv[2];
    bus_options.node_name = self;
    options.mode = strcmp(argv[3], "shared") == 0 ? HF_MODE_SHARED : HF_MODE_ORDERED;
    options.lease_ms = strtoll(argv[4], NULL, 10);
    options.checkpoint_events = 1;
    if (strcmp(argv[5], "single") == 0) {
        options.instance_mode = HF_INSTANCE_SINGLE;
    }
    if (hf_open(argv[0], &bus_options, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", write_down, NULL, &options, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        diary_write(diary, "E %s %s", self, hf_errmsg());
        return 1;
    }
    diary_write(diary, "R %s", self);
    for (;;) {
        pause();
    }
}

/* publish URL DIARY COUNT: publishes events of type "x" and leaves without a word. */
static int publish_events(int argc, char **argv)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_bus *bus = NULL;

    if (argc < 3 || hf_open(argv[0], NULL, &bus) != HF_OK) {
        return 1;
    }
    event.type = "x";
    for (int64_t i = strtoll(argv[2], NULL, 10); i > 0; i--) {
        if (hf_publish(bus, &event, NULL) != HF_OK) {
            return 1;
        }
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

/* ---- The parent's side ----------------------------------------------------------------------- */

static char diary_path[512];

static const char *diary_of(struct scene *scene)
{
    snprintf(diary_path, sizeof diary_path, "%s", scene_file(scene, "diary"));
    return diary_path;
}

static pid_t consumer(struct scene *scene, const char *name, const char *mode, const char *lease_ms,
                      const char *instance)
{
    char ready[32];
    pid_t pid =
        actor_start("consume", scene->url, diary_of(scene), name, mode, lease_ms, instance, NULL);

    snprintf(ready, sizeof ready, "R %s", name);
    if (!diary_wait(diary_of(scene), ready, 1)) {
        actor_kill(pid);
        fail_msg("%s did not start", name);
    }
    return pid;
}

/* Waits until "D name" lines are there, and kills the children if they do not come. */
static void expect_lines(const char *prefix, size_t count, pid_t one, pid_t two)
{
    if (diary_wait(diary_path, prefix, count)) {
        return;
    }
    actor_kill(one);
    actor_kill(two);
    fail_msg("%zu lines \"%s\", not %zu", diary_count(diary_path, prefix), prefix, count);
}

static void events_published_by_one_process_are_consumed_by_another(void **state)
{
    struct scene *scene = *state;
    pid_t pid = consumer(scene, "first", "ordered", LEASE_MS, "coordinated");
    pid_t publisher;

    publisher = actor_start("publish", scene->url, diary_of(scene), "50", NULL);
    assert_int_equal(actor_wait(publisher), 0);
    expect_lines("D first", 50, pid, 0);
    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 51, pid, 0);
    settle_all(scene->bus, "a");
    actor_kill(pid);
    assert_int_equal(diary_count(diary_path, "D first"), 51);
}

static void only_one_process_works_and_the_other_stands_by(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", LEASE_MS, "coordinated");
    pid_t second;

    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 1, first, 0);
    second = consumer(scene, "second", "ordered", LEASE_MS, "coordinated");
    for (int i = 0; i < 30; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    assert_string_equal(info_of(scene->bus, "a").owner, "first");
    assert_int_equal(info_of(scene->bus, "a").owner_alive, 1);
    actor_kill(first);
    actor_kill(second);
    assert_int_equal(diary_count(diary_path, "D first"), 31);
    assert_int_equal(diary_count(diary_path, "D second"), 0);
}

static void a_standby_takes_over_at_once_when_the_owner_is_killed(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", LEASE_MS, "coordinated");
    pid_t second;
    int64_t begin_us, took_us;

    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 1, first, 0);
    second = consumer(scene, "second", "ordered", LEASE_MS, "coordinated");
    begin_us = mono_us();
    actor_kill(first);
    publish(scene->bus, "x", NULL, "1");
    expect_lines("D second", 1, second, 0);
    took_us = mono_us() - begin_us;
    settle_all(scene->bus, "a");
    actor_kill(second);
    print_message("# taken over after %lld ms\n", (long long)took_us / 1000);
    assert_true(took_us < LEASE_US / 2); /* what a busy machine adds; not by the lease's end */
}

static bool first_owns(void *ctx)
{
    return strcmp(info_of(ctx, "a").owner, "first") == 0;
}

static bool second_owns(void *ctx)
{
    return strcmp(info_of(ctx, "a").owner, "second") == 0;
}

static void in_single_mode_the_newest_process_takes_over_without_asking(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", LEASE_MS, "single");
    pid_t second;
    hf_status settled;
    bool owned;

    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 1, first, 0);
    settle_all(scene->bus, "a");
    second = consumer(scene, "second", "ordered", LEASE_MS, "single");
    owned = wait_until(second_owns, scene->bus);
    publish(scene->bus, "x", NULL, "2");
    publish(scene->bus, "x", NULL, "3");
    settled = hf_wait(scene->bus, "a", -1, DEADLINE_MS);
    actor_kill(first);
    actor_kill(second);
    assert_true(owned);
    assert_status(settled, HF_OK);
    assert_int_equal(diary_count(diary_path, "D second 3"), 1);
}

/* The one that lost stands by; two of them do not take it from each other for ever. */
static void in_single_mode_the_older_process_gives_up(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", LEASE_MS, "single");
    pid_t second;
    bool owned = wait_until(first_owns, scene->bus), still = true; /* else it were the newest */
    hf_status settled = HF_OK;

    second = consumer(scene, "second", "ordered", LEASE_MS, "single");
    owned &= wait_until(second_owns, scene->bus);
    for (int i = 0; i < 20 && settled == HF_OK; i++) {
        publish(scene->bus, "x", NULL, "1");
        settled = hf_wait(scene->bus, "a", -1, DEADLINE_MS);
        still &= second_owns(scene->bus);
        usleep(50000); /* long enough for the other to want it back */
    }
    actor_kill(first);
    actor_kill(second);
    assert_true(owned);
    assert_true(still);
    assert_status(settled, HF_OK);
    assert_int_equal(diary_count(diary_path, "D second"), 20);
    assert_int_equal(diary_count(diary_path, "D first"), 0);
}

/* From now on no process that a busy machine lets wait seems to be frozen. */
static void make_leases_long(struct scene *scene)
{
    const char *patterns[] = {"*"};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.lease_ms = LEASE_US / 1000;
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, &options, NULL));
}

/* "else within one lease": a stopped process holds its lock but shows no sign of life. */
static void the_work_of_a_frozen_owner_is_taken_over_within_a_lease(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", FROZEN_MS, "coordinated");
    pid_t second;

    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 1, first, 0);
    second = consumer(scene, "second", "ordered", FROZEN_MS, "coordinated");
    settle_all(scene->bus, "a");
    actor_freeze(scene, first);
    publish(scene->bus, "x", NULL, "2");
    expect_lines("D second 2", 1, first, second);
    settle_all(scene->bus, "a");
    make_leases_long(scene);
    kill(first, SIGCONT);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "3");
    }
    settle_all(scene->bus, "a");
    actor_kill(first);
    actor_kill(second);
    /* The first may have run what it still had in hand, in vain; the second did all of it. */
    for (int position = 2; position <= 22; position++) {
        char line[32];

        snprintf(line, sizeof line, "D second %d 1\n", position);
        assert_int_equal(diary_count(diary_path, line), 1);
    }
}

/* Nothing is published and no process asks: the standby itself notices. */
static void a_standby_notices_by_itself_that_the_owner_was_killed(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "ordered", LEASE_MS, "coordinated");
    pid_t second;
    int64_t begin_us, took_us;

    publish(scene->bus, "x", NULL, "1");
    expect_lines("D first", 1, first, 0);
    settle_all(scene->bus, "a");
    second = consumer(scene, "second", "ordered", LEASE_MS, "coordinated");
    usleep(1500000); /* it has come to rest */
    begin_us = mono_us();
    actor_kill(first);
    do {
        usleep(10000);
        took_us = mono_us() - begin_us;
    } while (strcmp(info_of(scene->bus, "a").owner, "second") != 0 && took_us < LEASE_US);
    actor_kill(second);
    print_message("# taken over after %lld ms\n", (long long)took_us / 1000);
    assert_true(took_us < LEASE_US / 2); /* a second, and what a busy machine adds */
}

/* How many records of the scene's buses hold this text. */
static int times_said(struct scene *scene, const char *text)
{
    int times = 0;

    pthread_mutex_lock(&scene->mutex);
    for (size_t i = 0; i < scene->logged; i++) {
        times += strstr(scene->log[i].message, text) != NULL;
    }
    pthread_mutex_unlock(&scene->mutex);
    return times;
}

static bool a_process_stands_by(void *ctx)
{
    return times_said(ctx, "stands by: ") > 0;
}

static void a_standby_logs_once_which_process_is_the_owner(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_options bus_options = scene->options;
    hf_bus *owner, *standby;

    bus_options.node_name = "the-owner";
    owner = scene_open(scene, &bus_options);
    options.lease_ms = 10000; /* far more than a pause of the machine */
    subscribe(owner, "a", "*", scene_recorder(scene, NULL), &options);
    publish(owner, "x", NULL, "1");
    assert_ok(hf_start(owner));
    settle_all(owner, "a");
    standby = scene_open(scene, NULL);
    subscribe(standby, "a", "*", scene_recorder(scene, NULL), NULL);
    assert_ok(hf_start(standby));
    assert_true(wait_until(a_process_stands_by, scene));
    for (int i = 0; i < 10; i++) { /* each wakes it, and it tries again */
        publish(owner, "x", NULL, "1");
        settle_all(owner, "a");
        usleep(100000);
    }
    assert_int_equal(times_said(scene, "stands by: "), 1);
    assert_int_equal(times_said(scene, "stands by: the-owner has it"), 1);
    assert_string_equal(info_of(standby, "a").owner, "the-owner");
    assert_true(info_of(standby, "a").owner_alive);
}

static void shared_work_of_a_killed_process_comes_to_another(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "shared", LEASE_MS, "coordinated");
    pid_t second;
    int64_t begin_us;

    publish(scene->bus, "hang", NULL, "1");
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    expect_lines("D first 1 1", 1, first, 0);
    second = consumer(scene, "second", "shared", LEASE_MS, "coordinated");
    actor_kill(first);
    begin_us = mono_us();
    settle_all(scene->bus, "a");
    assert_true(mono_us() - begin_us < LEASE_US / 2);
    actor_kill(second);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    /* The hanging one was an attempt that ended with the process; where no notes are taken the
     * first such attempt is not counted. */
    assert_int_equal(diary_count(diary_path, scene->path ? "D second 1 2" : "D second 1 1"), 1);
}

static void shared_work_of_a_frozen_process_comes_to_another_within_a_lease(void **state)
{
    struct scene *scene = *state;
    pid_t first = consumer(scene, "first", "shared", FROZEN_MS, "coordinated");
    pid_t second;

    publish(scene->bus, "hang", NULL, "1");
    expect_lines("D first 1 1", 1, first, 0);
    actor_freeze(scene, first);
    second = consumer(scene, "second", "shared", FROZEN_MS, "coordinated");
    expect_lines("D second 1", 1, first, second);
    settle_all(scene->bus, "a");
    /* Its late acknowledgement is refused and does no harm. */
    make_leases_long(scene);
    kill(first, SIGCONT);
    diary_write(diary_path, "GO");
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, "a");
    actor_kill(first);
    actor_kill(second);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_int_equal(diary_count(diary_path, "D second 1 "), 1);
    assert_int_equal(diary_count(diary_path, "D "), 12);
}

static void many_processes_publish_and_consume_on_one_file(void **state)
{
    struct scene *scene = *state;
    pid_t consumers[3], publishers[4];
    char name[16];
    int failed = 0;

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "c%d", i);
        consumers[i] = consumer(scene, name, "shared", LEASE_MS, "coordinated");
    }
    for (int i = 0; i < 4; i++) {
        publishers[i] = actor_start("publish", scene->url, diary_of(scene), "100", NULL);
    }
    for (int i = 0; i < 4; i++) {
        failed += actor_wait(publishers[i]) != 0;
    }
    settle_all(scene->bus, "a");
    for (int i = 0; i < 3; i++) {
        actor_kill(consumers[i]);
    }
    assert_int_equal(failed, 0);
    assert_int_equal(diary_count(diary_path, "D c"), 400);
}

static const struct CMUnitTest tests[] = {
    scene_test(events_published_by_one_process_are_consumed_by_another),
    scene_test(only_one_process_works_and_the_other_stands_by),
    scene_test(a_standby_takes_over_at_once_when_the_owner_is_killed),
    scene_test(a_standby_notices_by_itself_that_the_owner_was_killed),
    scene_test(a_standby_logs_once_which_process_is_the_owner),
    scene_test(in_single_mode_the_newest_process_takes_over_without_asking),
    scene_test(in_single_mode_the_older_process_gives_up),
    scene_test(the_work_of_a_frozen_owner_is_taken_over_within_a_lease),
    scene_test(shared_work_of_a_killed_process_comes_to_another),
    scene_test(shared_work_of_a_frozen_process_comes_to_another_within_a_lease),
    scene_test(many_processes_publish_and_consume_on_one_file),
};

static const struct part parts[] = {
    {"consume", consume},
    {"publish", publish_events},
};

ACTOR_MAIN(tests, parts)
