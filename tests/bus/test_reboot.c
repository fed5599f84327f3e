/*
 * Tests of what comes after a power loss or a reboot: the last owner is gone and so is what it
 * noted about the handlers that ran. What was in flight runs carefully; nothing is lost, effects
 * are exactly once, and an event that brings the machine down every time still comes to an end.
 *
 * The child (support_actor.h) is killed in the middle of its work; then every file but the database
 * and its log is removed.
 */
#include "support_actor.h"
#include "support_tables.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

static const char *diary;

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    diary_write(diary, "D %s %lld %d", event->type, (long long)event->position,
                (int)hf_delivery_attempt(delivery));
    if (delivery_has_connection(delivery) &&
        !delivery_run(delivery, "INSERT INTO effects VALUES (%lld)", (long long)event->position)) {
        return HF_DEAD;
    }
    if (strcmp(event->type, "fails") == 0 && hf_delivery_attempt(delivery) < 3) {
        return HF_RETRY;
    }
    if (strcmp(event->type, "kill") == 0) {
        raise(SIGKILL);
    }
    if (strcmp(event->type, "hang") == 0 && diary_count(diary, "GO") == 0) {
        for (;;) {
            pause();
        }
    }
    return HF_ACK;
}

/* work URL DIARY: processes "a" until killed, or until there is a line "END". */
static int work(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    diary = argv[1];
    return actor_consume(argv[0], diary, handle, NULL);
}

static const struct part parts[] = {{"work", work}};

/* ---- The parent's side ----------------------------------------------------------------------- */

static char diary_path[512];

/* Everything but the database, its log and the diary is gone. */
static void forget(struct scene *scene)
{
    DIR *dir = opendir(scene->dir);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (strncmp(entry->d_name, "bus.db-", 7) == 0 && strcmp(entry->d_name, "bus.db-wal") != 0) {
            unlink(scene_file(scene, entry->d_name));
        }
    }
    closedir(dir);
}

static void prepare(struct scene *scene, const hf_subscription_options *options)
{
    const char *patterns[] = {"*"};

    snprintf(diary_path, sizeof diary_path, "%s", scene_file(scene, "diary"));
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    assert_ok(hf_subscription_create(scene->bus, "a", patterns, 1, options, NULL));
    tables_run(scene, "CREATE TABLE effects (position INTEGER)");
}

/* 10 events, one that hangs, 10 events; the machine goes down while it hangs, and comes back. */
static void go_down_and_come_back(struct scene *scene, hf_subscription_options options)
{
    char line[64];
    pid_t pid;

    options.tx_max_ms = 60000;
    options.checkpoint_events = 7;
    prepare(scene, &options);
    for (int i = 0; i < 21; i++) {
        publish(scene->bus, i == 10 ? "hang" : "x", i % 3 ? "k" : NULL, "1");
    }
    assert_ok(hf_close(&scene->bus));
    pid = actor_start("work", scene->url, diary_path, NULL);
    if (!diary_wait(diary_path, "D hang 11 1", 1)) {
        actor_kill(pid);
        fail_msg("the eleventh event did not come");
    }
    actor_kill(pid);
    forget(scene);
    diary_write(diary_path, "GO");
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    pid = actor_start("work", scene->url, diary_path, NULL);
    if (hf_wait(scene->bus, "a", -1, DEADLINE_MS) != HF_OK) {
        actor_kill(pid);
    }
    diary_write(diary_path, "END");
    assert_int_equal(actor_wait(pid), 0);
    settle_all(scene->bus, "a");
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    for (int position = 1; position <= 21; position++) {
        size_t calls;

        snprintf(line, sizeof line, "D %s %d ", position == 11 ? "hang" : "x", position);
        calls = diary_count(diary_path, line);
        assert_in_range(calls, 1, 2);
    }
}

static void an_ordered_subscription_goes_on_after_a_reboot(void **state)
{
    go_down_and_come_back(*state, quick_options());
}

static void an_ordered_subscription_with_many_workers_goes_on_after_a_reboot(void **state)
{
    hf_subscription_options options = quick_options();

    options.concurrency = 4;
    go_down_and_come_back(*state, options);
}

static void a_shared_subscription_goes_on_after_a_reboot(void **state)
{
    hf_subscription_options options = quick_options();

    options.mode = HF_MODE_SHARED;
    go_down_and_come_back(*state, options);
}

static void effects_are_exactly_once_over_reboots(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    go_down_and_come_back(scene, options);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 21);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 21);
}

static void effects_of_shared_work_are_exactly_once_over_reboots(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    options.mode = HF_MODE_SHARED;
    go_down_and_come_back(scene, options);
    assert_int_equal(tables_number(scene, "SELECT count(DISTINCT position) FROM effects"), 21);
    assert_int_equal(tables_number(scene, "SELECT count(*) FROM effects"), 21);
}

/* The number of the line of this call; lines are counted from 0. */
static int64_t line_of(const char *call)
{
    FILE *file = fopen(diary_path, "re");
    char line[256];
    int64_t number = 0, found = -1;

    assert_non_null(file);
    for (; found < 0 && fgets(line, sizeof line, file); number++) {
        if (strncmp(line, call, strlen(call)) == 0) {
            found = number;
        }
    }
    fclose(file);
    return found;
}

/* A failing event still holds back its key when what was in flight runs carefully. */
static void keep_order_over_a_reboot(struct scene *scene, hf_subscription_options options)
{
    pid_t pid;

    options.tx_max_ms = 60000;
    options.retry_base_ms = 30;
    prepare(scene, &options);
    publish(scene->bus, "hang", NULL, "1");
    publish(scene->bus, "fails", "k", "1");
    for (int i = 3; i <= 10; i++) {
        publish(scene->bus, "x", i % 2 ? "k" : NULL, "1");
    }
    assert_ok(hf_close(&scene->bus));
    pid = actor_start("work", scene->url, diary_path, NULL);
    if (!diary_wait(diary_path, "D hang 1 1", 1)) {
        fail_msg("the first event did not come");
    }
    actor_kill(pid);
    forget(scene);
    diary_write(diary_path, "GO");
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
    pid = actor_start("work", scene->url, diary_path, NULL);
    if (hf_wait(scene->bus, "a", -1, DEADLINE_MS) != HF_OK) {
        actor_kill(pid);
    }
    diary_write(diary_path, "END");
    assert_int_equal(actor_wait(pid), 0);
    assert_int_equal(info_of(scene->bus, "a").dead, 0);
    assert_true(line_of("D fails 2 3") > 0);
    assert_true(line_of("D x 3 1") > line_of("D fails 2 3"));
    assert_true(line_of("D x 5 1") > line_of("D x 3 1"));
    assert_true(line_of("D x 9 1") > line_of("D x 7 1"));
}

static void a_failing_event_holds_back_its_key_over_a_reboot(void **state)
{
    keep_order_over_a_reboot(*state, quick_options());
}

static void a_failing_transactional_event_holds_back_its_key_over_a_reboot(void **state)
{
    hf_subscription_options options = quick_options();

    options.transactional = HF_ON;
    keep_order_over_a_reboot(*state, options);
}

/* "on SQLite none": at most one run that was not recorded if even the notes are lost. */
static void an_event_that_brings_the_machine_down_every_time_is_dead_in_the_end(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    struct dead dead;
    int starts = 0;
    pid_t pid = 0;

    options.attempts_max = 3;
    prepare(scene, &options);
    for (int i = 0; i < 7; i++) {
        publish(scene->bus, i == 3 ? "kill" : "x", NULL, "1");
    }
    for (; starts < 12 && hf_wait(scene->bus, "a", -1, 0) != HF_OK; starts++) {
        assert_ok(hf_close(&scene->bus));
        forget(scene);
        assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
        pid = actor_start("work", scene->url, diary_path, NULL);
        for (int i = 0; i < 1000 && waitpid(pid, NULL, WNOHANG) == 0; i++) {
            if (hf_wait(scene->bus, "a", -1, 20) == HF_OK) {
                break;
            }
        }
        actor_kill(pid);
    }
    settle_all(scene->bus, "a");
    assert_int_equal(dead_of(scene->bus, "a", &dead, 1), 1);
    assert_string_equal(dead.type, "kill");
    assert_int_equal(dead.attempts, 3);
    assert_in_range(diary_count(diary_path, "D kill"), 3, 4);
    for (int position = 1; position <= 7; position++) {
        char line[32];

        snprintf(line, sizeof line, "D x %d ", position);
        if (position != 4) {
            assert_true(diary_count(diary_path, line) >= 1);
        }
    }
}

static const struct CMUnitTest tests[] = {
    bare_test(an_ordered_subscription_goes_on_after_a_reboot),
    bare_test(an_ordered_subscription_with_many_workers_goes_on_after_a_reboot),
    bare_test(a_shared_subscription_goes_on_after_a_reboot),
    bare_test(effects_are_exactly_once_over_reboots),
    bare_test(effects_of_shared_work_are_exactly_once_over_reboots),
    bare_test(a_failing_event_holds_back_its_key_over_a_reboot),
    bare_test(a_failing_transactional_event_holds_back_its_key_over_a_reboot),
    bare_test(an_event_that_brings_the_machine_down_every_time_is_dead_in_the_end),
};

ACTOR_MAIN(tests, parts)
