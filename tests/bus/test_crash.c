/*
 * Tests of handlers that take the process with them: attempts are counted although no process is
 * left to count, the event is dead after exactly attempts_max, and its neighbours live.
 *
 * A child works for the subscription "a" and dies in the handler of types "kill", "exit" and
 * "trap". The test starts it again until everything is settled. Before anything else every call
 * writes "D type position attempt" to the scene's diary.
 */
#include "support_actor.h"
#include "support_tables.h"

#include <signal.h>
#include <sys/wait.h>

#define STARTS_MAX 40

static const char *diary;

static void die(const char *type)
{
    if (strcmp(type, "kill") == 0) {
        raise(SIGKILL);
    }
    if (strcmp(type, "exit") == 0) {
        _exit(3);
    }
    if (strcmp(type, "trap") == 0) {
        __builtin_trap();
    }
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    diary_write(diary, "D %s %lld %d", event->type, (long long)event->position,
                (int)hf_delivery_attempt(delivery));
    if (delivery_has_connection(delivery) &&
        !delivery_run(delivery, "INSERT INTO effects VALUES (%lld)", (long long)event->position)) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "slow") == 0) {
        usleep(60000);
    } else if (strcmp(event->type, "x") != 0) {
        usleep(20000);
    } /* slow neighbours are inside when this one dies */
    die(event->type);
    return HF_ACK;
}

/* The healthy subscription "b": every call takes a while. */
static hf_verdict handle_healthy(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    diary_write(diary, "B %s %lld %d", event->type, (long long)event->position,
                (int)hf_delivery_attempt(delivery));
    usleep(30000);
    return HF_ACK;
}

/* work URL DIARY: processes "a", and "b" if there is one, until killed, or until there is a line
 * "END". */
static int work(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    return actor_consume(argv[0], diary, handle,
                         diary_count(diary, "TWO") > 0 ? handle_healthy : NULL);
}

static const struct part parts[] = {{"work", work}};

/* ---- The parent's side ----------------------------------------------------------------------- */

static char diary_path[512];

/* Starts a worker again and again until everything is settled; how often it was started. */
static int work_until_settled(struct scene *scene)
{
    int starts = 0;
    pid_t pid = 0;
    bool settled = false;
    int64_t end_us = mono_us() + 2 * DEADLINE_MS * 1000;

    while (!settled && starts < STARTS_MAX && mono_us() < end_us) {
        if (pid == 0) {
            pid = actor_start("work", scene->url, diary_path, NULL);
            starts++;
        }
        settled = hf_wait(scene->bus, NULL, -1, 20) == HF_OK;
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            pid = 0;
        }
    }
    diary_write(diary_path, "END");
    if (pid && actor_wait(pid) != 0) {
        fail_msg("the last worker did not leave in peace");
    }
    if (!settled) {
        fail_msg("not settled after %d starts", starts);
    }
    return starts;
}

static void create(struct scene *scene, const hf_subscription_options *options)
{
    const char *patterns[] = {"*"};

    snprintf(diary_path, sizeof diary_path, "%s", scene_file(scene, "diary"));
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, options, NULL));
}

/* Calls of the event: attempts 1 to max, each exactly once; then dead with as many errors. */
static void expect_dead_after(struct scene *scene, const hf_receipt *receipt, const char *type,
                              int attempts)
{
    struct dead dead[4];
    size_t count = dead_of(scene->bus, "a", dead, COUNTED(dead));
    bool found = false;
    char line[64];

    for (int attempt = 1; attempt <= attempts + 1; attempt++) {
        snprintf(line, sizeof line, "D %s %lld %d\n", type, (long long)receipt->position, attempt);
        size_t ran = diary_count(diary_path, line);
        /* Where it is unknown what ran when a process died, the first run is not counted. */
        if (attempt == 1 && !scene->path && ran == 2) {
            continue;
        }
        assert_int_equal(ran, attempt <= attempts ? 1 : 0);
    }
    for (size_t i = 0; i < count && i < COUNTED(dead); i++) {
        if (strcmp(dead[i].event_id, receipt->id) != 0) {
            continue;
        }
        found = true;
        assert_int_equal(dead[i].attempts, attempts);
        assert_int_equal(occurrences(dead[i].story, "\"attempt\":"), attempts);
        assert_int_not_equal(dead[i].error[0], 0);
        assert_string_equal(dead[i].cause, "process_died");
    }
    assert_true(found);
}

static void expect_poison_dies_alone(struct scene *scene, hf_subscription_options options,
                                     const char *poison, const char *neighbour)
{
    hf_receipt bad, first = {.position = 0};
    char line[64];
    int starts;

    options.attempts_max = 3;
    create(scene, &options);
    for (int i = 0; i < 5; i++) {
        first = *publish(scene->bus, neighbour, NULL, "1");
    }
    bad = *publish(scene->bus, poison, NULL, "1");
    for (int i = 0; i < 5; i++) {
        publish(scene->bus, neighbour, NULL, "1");
    }
    assert_int_equal(first.position, 5);
    starts = work_until_settled(scene);
    assert_in_range(starts, 4, STARTS_MAX);
    expect_dead_after(scene, &bad, poison, 3);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    for (int64_t position = 1; position <= 11; position++) {
        snprintf(line, sizeof line, "D %s %lld ", neighbour, (long long)position);
        if (position != bad.position) {
            assert_true(diary_count(diary_path, line) >= 1);
        }
    }
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static void an_event_that_kills_the_process_is_dead_after_attempts_max(void **state)
{
    expect_poison_dies_alone(*state, quick_options(), "kill", "x");
}

static void a_handler_that_exits_the_process_counts_as_a_crash(void **state)
{
    expect_poison_dies_alone(*state, quick_options(), "exit", "x");
}

static void a_fatal_signal_counts_as_a_crash(void **state)
{
    expect_poison_dies_alone(*state, quick_options(), "trap", "x");
}

static void events_that_run_beside_a_crashing_event_do_not_die(void **state)
{
    hf_subscription_options options = quick_options();

    options.concurrency = 4;
    expect_poison_dies_alone(*state, options, "kill", "slow");
}

static void events_beside_a_crashing_event_in_strict_order_do_not_die(void **state)
{
    hf_subscription_options options = quick_options();

    options.order = HF_ORDER_STRICT;
    expect_poison_dies_alone(*state, options, "kill", "x");
}

static void shared_events_that_run_beside_a_crashing_event_do_not_die(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    expect_poison_dies_alone(*state, options, "kill", "x");
}

static void with_many_shared_workers_events_beside_a_crashing_event_do_not_die(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    options.concurrency = 4;
    expect_poison_dies_alone(*state, options, "kill", "slow");
}

/* What dies in one subscription takes the process with it, and whatever runs there for others. */
static void expect_others_live(struct scene *scene, hf_mode mode)
{
    hf_subscription_options options = quick_options();
    const char *patterns[] = {"*"};
    hf_receipt bad;

    options.mode = mode;
    options.attempts_max = 3;
    create(scene, &options);
    assert_ok(hf_subscription_create(scene->bus, "b", patterns, 1, &options, NULL));
    diary_write(diary_path, "TWO");
    bad = *publish(scene->bus, "kill", NULL, "1");
    for (int i = 0; i < 8; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    work_until_settled(scene);
    settle_all(scene->bus, "b");
    expect_dead_after(scene, &bad, "kill", 3);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
    assert_int_equal(info_of(scene->bus, "b").dead, 0);
}

static void ordered_events_of_another_subscription_do_not_die_in_a_crash(void **state)
{
    expect_others_live(*state, HF_MODE_ORDERED);
}

static void shared_events_of_another_subscription_do_not_die_in_a_crash(void **state)
{
    expect_others_live(*state, HF_MODE_SHARED);
}

static void a_crashing_transactional_event_leaves_no_effect_and_the_others_one_each(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
    options.transactional = HF_ON;
    expect_poison_dies_alone(scene, options, "kill", "x");
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 10);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 10);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects WHERE position = 6"), 0);
}

static void two_crashing_events_have_their_own_counts_of_attempts(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_receipt one, two;

    options.attempts_max = 2;
    create(scene, &options);
    one = *publish(scene->bus, "kill", "k", "1");
    two = *publish(scene->bus, "exit", "k", "1");
    publish(scene->bus, "x", "k", "1");
    work_until_settled(scene);
    expect_dead_after(scene, &one, "kill", 2);
    expect_dead_after(scene, &two, "exit", 2);
    assert_int_equal(info_of(scene->bus, "a").dead, 2);
    assert_int_equal(diary_count(diary_path, "D x 3 1"), 1);
}

static void with_one_attempt_a_crashing_event_is_dead_after_the_first_crash(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    hf_receipt bad;

    options.attempts_max = 1;
    create(scene, &options);
    publish(scene->bus, "x", NULL, "1");
    bad = *publish(scene->bus, "kill", NULL, "1");
    publish(scene->bus, "x", NULL, "1");
    work_until_settled(scene);
    expect_dead_after(scene, &bad, "kill", 1);
    assert_int_equal(info_of(scene->bus, "a").dead, 1);
}

static bool is_idle(void *ctx)
{
    struct scene *scene = ctx;
    struct info info = info_of(scene->bus, "a");

    return info.checkpoint == info.head;
}

/* By these options nothing but idleness is a reason to store a checkpoint. */
static void what_an_idle_process_has_done_does_not_come_again_after_its_death(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    options.checkpoint_events = 100000;
    options.checkpoint_ms = 3600000;
    options.attempts_max = 1;
    create(scene, &options);
    pid_t pid = actor_start("work", scene->url, diary_path, NULL);
    for (int i = 0; i < 20; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    bool stored = wait_until(is_idle, scene);
    publish(scene->bus, "kill", NULL, "1");
    actor_wait(pid);
    assert_true(stored);
    work_until_settled(scene);
    assert_int_equal(diary_count(diary_path, "D x "), 20);
}

static const struct CMUnitTest tests[] = {
    scene_test(an_event_that_kills_the_process_is_dead_after_attempts_max),
    scene_test(a_handler_that_exits_the_process_counts_as_a_crash),
    scene_test(a_fatal_signal_counts_as_a_crash),
    scene_test(events_that_run_beside_a_crashing_event_do_not_die),
    scene_test(events_beside_a_crashing_event_in_strict_order_do_not_die),
    scene_test(shared_events_that_run_beside_a_crashing_event_do_not_die),
    scene_test(with_many_shared_workers_events_beside_a_crashing_event_do_not_die),
    scene_test(ordered_events_of_another_subscription_do_not_die_in_a_crash),
    scene_test(shared_events_of_another_subscription_do_not_die_in_a_crash),
    scene_test(a_crashing_transactional_event_leaves_no_effect_and_the_others_one_each),
    scene_test(two_crashing_events_have_their_own_counts_of_attempts),
    scene_test(with_one_attempt_a_crashing_event_is_dead_after_the_first_crash),
    scene_test(what_an_idle_process_has_done_does_not_come_again_after_its_death),
};

ACTOR_MAIN(tests, parts)
