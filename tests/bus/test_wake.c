/*
 * Tests of waking and resting: a published event is handed over in milliseconds, in the same
 * process and from another, and a bus that has nothing to do writes nothing.
 */
#include "support_actor.h"

#include "base/point.h"
#include "support/faulty.h"
#include "support/sqlite.h"

#include <sys/resource.h>
#include <sys/stat.h>

#define ROUNDS 30
#define SLEEPY_MS 30000
#define PROMPT_US 200000
#define REST_US 1500000
#define RESTS_MAX 20 /* one of them must be undisturbed: a slow machine is late to come to rest */

static int compare(const void *a, const void *b)
{
    int64_t difference = *(const int64_t *)a - *(const int64_t *)b;

    return difference < 0 ? -1 : difference > 0;
}

/* wait_period_ms is far away, so only a wake-up can be fast, and none may be missed. A busy machine
 * lets some of them wait, but hardly all. What a slow disk takes to publish does not count. */
static void assert_woken(int64_t took_us[ROUNDS])
{
    qsort(took_us, ROUNDS, sizeof took_us[0], compare);
    print_message("# fastest %lld us, median %lld us, slowest %lld us\n", (long long)took_us[0],
                  (long long)took_us[ROUNDS / 2], (long long)took_us[ROUNDS - 1]);
    assert_true(took_us[0] < PROMPT_US);
    assert_true(took_us[ROUNDS - 1] < SLEEPY_MS * 1000 / 2);
}

/* How long does it take from the end of the publish to the begin of the handler? */
static void wake_again_and_again(struct scene *scene, hf_bus *publisher,
                                 const hf_subscription_options *how)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    int64_t took_us[ROUNDS];

    subscribe(scene->bus, "a", "*", recorder, how);
    assert_ok(hf_start(scene->bus));
    for (size_t i = 0; i < ROUNDS; i++) {
        publish(publisher, "x", NULL, "1");
        int64_t published_us = mono_us();
        assert_true(recorder_wait(recorder, i + 1));
        took_us[i] = recorder_get(recorder, i).begin_us - published_us;
        if (i % 10 == 9) {
            usleep(20000);
        } /* so that the bus goes to sleep now and then */
    }
    assert_woken(took_us);
}

static hf_subscription_options sleepy_options(hf_mode mode)
{
    hf_subscription_options options = quick_options();

    options.mode = mode;
    options.wait_period_ms = SLEEPY_MS;
    return options;
}

static void an_ordered_handler_is_woken_in_milliseconds(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = sleepy_options(HF_MODE_ORDERED);

    wake_again_and_again(scene, scene->bus, &options);
}

static void a_shared_handler_is_woken_in_milliseconds(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = sleepy_options(HF_MODE_SHARED);

    wake_again_and_again(scene, scene->bus, &options);
}

static void another_handle_of_the_process_wakes_a_handler(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = sleepy_options(HF_MODE_ORDERED);

    wake_again_and_again(scene, scene_open(scene, NULL), &options);
}

/* publish URL DIARY COUNT: for each line "GO" one event; writes "T microseconds" after it. */
static int publish_when_told(int argc, char **argv)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_bus *bus = NULL;

    if (argc < 3 || hf_open(argv[0], NULL, &bus) != HF_OK) {
        return 1;
    }
    event.type = "x";
    for (size_t i = 1; i <= (size_t)strtoll(argv[2], NULL, 10); i++) {
        while (diary_count(argv[1], "GO") < i) {
            usleep(1000);
        }
        if (hf_publish(bus, &event, NULL) != HF_OK) {
            return 1;
        }
        diary_write(argv[1], "T %lld", (long long)mono_us());
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static void another_process_wakes_a_handler_in_milliseconds(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = sleepy_options(HF_MODE_ORDERED);
    int64_t took_us[ROUNDS];
    char diary[512];
    pid_t pid;

    snprintf(diary, sizeof diary, "%s", scene_file(scene, "diary"));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    pid = actor_start("publish", scene->url, diary, "30", NULL);
    for (size_t i = 0; i < ROUNDS; i++) {
        diary_write(diary, "GO");
        if (!recorder_wait(recorder, i + 1)) {
            actor_kill(pid);
        }
    }
    assert_int_equal(actor_wait(pid), 0);
    for (size_t i = 0; i < ROUNDS; i++) {
        took_us[i] = recorder_get(recorder, i).begin_us - diary_number(diary, "T ", i);
    }
    assert_woken(took_us);
}

static void a_waiting_retry_is_run_at_its_time(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = sleepy_options(HF_MODE_SHARED);
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_claim_options claim = HF_CLAIM_OPTIONS_INIT;
    hf_batch *batch = NULL;
    int64_t begin_us;

    /* Another process nacks with a delay; the handler must not sleep through it. */
    subscribe(scene->bus, "a", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    assert_ok(hf_claim(scene->bus, "a", &claim, &batch));
    assert_int_equal(hf_batch_count(batch), 1);
    assert_ok(hf_start(scene->bus));
    begin_us = mono_us();
    assert_ok(hf_nack(scene->bus, "a", hf_batch_lease(batch), NULL, 0, 200, "later"));
    hf_batch_free(batch);
    assert_true(recorder_wait(recorder, 1));
    assert_in_range(mono_us() - begin_us, 190000, SLEEPY_MS * 1000 / 2);
}

static void the_descriptor_becomes_readable_when_something_is_published(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    uint64_t number = 0;
    int fd = -1, again = -1;

    assert_ok(hf_fd(scene->bus, &fd));
    assert_ok(hf_fd(scene->bus, &again));
    assert_int_equal(fd, again);
    for (int i = 0; i < 3; i++) {
        fd_set readable;
        struct timeval timeout = {.tv_sec = DEADLINE_MS / 1000};

        publish(i % 2 ? scene->bus : other, "x", NULL, "1");
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        assert_int_equal(select(fd + 1, &readable, NULL, NULL, &timeout), 1);
        assert_int_equal(read(fd, &number, sizeof number), sizeof number);
    }
}

/* ---- Rest ------------------------------------------------------------------------------------ */

static int64_t data_version(sqlite3 *db)
{
    return sqlite_number(db, "PRAGMA data_version");
}

struct footprint {
    struct timespec db, wal;
    off_t db_bytes, wal_bytes;
};

static struct footprint footprint_of(struct scene *scene)
{
    struct footprint footprint;
    struct stat info;
    char wal[512];

    memset(&footprint, 0, sizeof footprint);
    assert_int_equal(stat(scene_sqlite(scene), &info), 0);
    footprint.db = info.st_mtim;
    footprint.db_bytes = info.st_size;
    snprintf(wal, sizeof wal, "%s-wal", scene_sqlite(scene));
    if (stat(wal, &info) == 0) {
        footprint.wal = info.st_mtim;
        footprint.wal_bytes = info.st_size;
    }
    return footprint;
}

static void an_idle_bus_writes_nothing(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    struct recorder *other = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    struct footprint before, after;
    sqlite3 *db = NULL;
    int64_t version;
    bool rested = false;

    options.lease_ms = 1000;
    subscribe(scene->bus, "a", "*", recorder, &options);
    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "b", "*", other, &options);
    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 10; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    settle_all(scene->bus, NULL);
    assert_int_equal(sqlite3_open_v2(scene_sqlite(scene), &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    usleep(300000); /* the last checkpoint is stored, the log is folded back */
    for (int i = 0; i < RESTS_MAX && !rested; i++) {
        before = footprint_of(scene);
        version = data_version(db);
        usleep(REST_US);
        after = footprint_of(scene);
        rested = data_version(db) == version && memcmp(&before, &after, sizeof before) == 0;
    }
    sqlite3_close(db);
    assert_true(rested);
}

static hf_verdict fail_first(const hf_event *event, hf_delivery *delivery,
                             struct recorder *recorder)
{
    (void)event;
    if (hf_delivery_attempt(delivery) == 1) {
        return HF_RETRY;
    }
    door_pass(recorder->extra);
    return HF_ACK;
}

static int64_t cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

/* More retries are due than fit, and the handler does not move: no reason to run in circles. */
static void waiting_for_a_slow_handler_takes_no_processor_time(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, fail_first);
    hf_subscription_options options = quick_options();
    int64_t spent_us = INT64_MAX;

    recorder->extra = scene_door(scene);
    options.retry_base_ms = 1;
    options.retry_max_ms = 1;
    options.batch = 50;
    subscribe(scene->bus, "a", "*", recorder, &options);
    for (int i = 0; i < 200; i++) {
        publish(scene->bus, "x", NULL, "1");
    }
    assert_ok(hf_start(scene->bus));
    assert_true(door_wait_inside(recorder->extra, 1));
    usleep(300000); /* everything has failed once and is due */
    for (int i = 0; i < RESTS_MAX && spent_us >= 150000; i++) {
        spent_us = -cpu_us();
        usleep(1000000);
        spent_us += cpu_us();
    }
    print_message("# %lld us of processor time in a second\n", (long long)spent_us);
    assert_true(spent_us < 150000);
    door_open(recorder->extra);
    settle_all(scene->bus, "a");
    assert_int_equal(recorder_count(recorder), 400);
}

/* ---- What concerns other subscriptions ------------------------------------------------------- */

/* What a thread makes that is not the test's. */
static struct {
    hf_bus *bus;
    struct recorder *recorder;
    hf_status status;
    int64_t nudges; /* before it was made */
    bool woken;
} making;

static bool nudged_again(void *ctx)
{
    (void)ctx;
    return point_hits("after_nudge") > making.nudges;
}

static void *subscribe_b(void *ctx)
{
    hf_status *status = ctx;
    struct recorder *recorder = making.recorder;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_NOW;
    *status = hf_subscribe(making.bus, "b", "*", recorder_handle, recorder, &options, NULL);
    return NULL;
}

/* The store takes as long as it likes to answer who makes it; meanwhile signs of life are shown
 * and news is passed on to all others. */
static void a_subscription_that_is_being_made_delays_no_wakeup(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = sleepy_options(HF_MODE_ORDERED);
    char url[600];
    pthread_t thread;
    hf_bus *other = scene_open(scene, NULL);

    faulty_install();
    snprintf(url, sizeof url, "faulty:%s", scene->url);
    scene_close(scene, scene->bus);
    assert_ok(hf_open(url, &scene->options, &scene->bus));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    publish(other, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    making.bus = scene->bus;
    making.recorder = scene_recorder(scene, NULL);
    faulty_stop(FAULTY_NOW, 1);
    assert_int_equal(pthread_create(&thread, NULL, subscribe_b, &making.status), 0);
    assert_true(faulty_stopped(FAULTY_NOW, DEADLINE_MS));
    making.nudges = point_hits("after_nudge");
    publish(other, "x", NULL, "2");
    making.woken = wait_until(nudged_again, NULL);
    faulty_reset();
    pthread_join(thread, NULL);
    assert_true(making.woken);
    assert_ok(making.status);
}

static const struct CMUnitTest tests[] = {
    scene_test(an_ordered_handler_is_woken_in_milliseconds),
    scene_test(a_shared_handler_is_woken_in_milliseconds),
    scene_test(another_handle_of_the_process_wakes_a_handler),
    scene_test(another_process_wakes_a_handler_in_milliseconds),
    scene_test(a_waiting_retry_is_run_at_its_time),
    scene_test(a_subscription_that_is_being_made_delays_no_wakeup),
    scene_test(the_descriptor_becomes_readable_when_something_is_published),
    scene_test(an_idle_bus_writes_nothing),
    scene_test(waiting_for_a_slow_handler_takes_no_processor_time),
};

static const struct part parts[] = {{"publish", publish_when_told}};

ACTOR_MAIN(tests, parts)
