/*
 * Tests of many subscriptions in one process: a few threads serve all of them, and one that waits
 * for the store does not make the others wait.
 */
#include "support_actor.h"
#include "support_scene.h"
#include "support_trouble.h"

#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/point.h"
#include "bus/bus.h"
#include "bus/deliver/tail/tail.h"

#define NAMES 40      /* of each mode */
#define THREADS_MAX 8 /* of the whole process, while no handler runs */
#define ALONE 50      /* events for one of them */
#define STARTING 250  /* subscriptions that start at once */
#define SLOW_MS 20    /* what a call of a slow store takes: longer than DISPATCHERS_LATE_US */

/* The name of a thread of this process; "" if it has ended. */
static void read_name(const char *task, char *name, int room)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    name[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(name, room, file)) {
            name[0] = '\0';
        }
        fclose(file);
    }
}

struct threads {
    int workers;
    int dispatchers;
    int supervisors; /* at most 1; a dispatcher has this name until it gives itself its own */
    int others;
};

/* The threads of the library, counted in one pass: between two passes some may begin or end. The
 * program may have others, as those of a sanitizer. */
static struct threads count_threads(void)
{
    struct threads threads = {0};
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[64];
        if (task->d_name[0] == '.') {
            continue;
        }
        read_name(task->d_name, name, sizeof name);
        if (strncmp(name, "hf-worker", 9) == 0) {
            threads.workers++;
        } else if (strncmp(name, "hf-dispatch", 11) == 0) {
            threads.dispatchers++;
        } else if (strncmp(name, "hf-supervisor", 13) == 0) {
            threads.supervisors++;
        } else if (strncmp(name, "hf-", 3) == 0) {
            threads.others++;
        }
    }
    closedir(tasks);
    return threads;
}

static void print_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[64];
        if (task->d_name[0] != '.') {
            read_name(task->d_name, name, sizeof name);
            print_error("thread %s %s", task->d_name, name);
        }
    }
    closedir(tasks);
}

static hf_subscription_options options_of(hf_mode mode)
{
    hf_subscription_options options = quick_options();
    options.mode = mode;
    options.concurrency = 4;
    options.wait_period_ms = 3600000; /* they are to be called, not to look by themselves */
    return options;
}

/* NAMES subscriptions to their own type of event each, and to "all". */
static void subscribe_many(struct scene *scene, struct recorder *recorder, hf_mode mode,
                           hf_handler_id *ids)
{
    hf_subscription_options options = options_of(mode);
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        char type[32];
        snprintf(name, sizeof name, "%d-%d", (int)mode, i);
        snprintf(type, sizeof type, "own.%d", i);
        ids[2 * i] = subscribe(scene->bus, name, type, recorder, &options);
        ids[2 * i + 1] = subscribe(scene->bus, name, "all", recorder, NULL);
    }
}

static void settle_many(struct scene *scene, hf_mode mode)
{
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d-%d", (int)mode, i);
        settle_all(scene->bus, name);
    }
}

/* No handler runs, and there are no more threads than there may be, also if turns last and there
 * are as many dispatchers as the store serves side by side. */
static bool has_few_threads(void *ctx)
{
    const struct scene *scene = ctx;
    struct threads threads = count_threads();
    int busy_max = (int)scene->bus->dispatchers.busy_max;
    return threads.workers == 0 && threads.supervisors == 1 && threads.dispatchers <= busy_max &&
           1 + threads.others + threads.supervisors + busy_max <= THREADS_MAX; /* 1: this thread */
}

static bool has_none_of_ours(void *ctx)
{
    (void)ctx;
    struct threads threads = count_threads();
    return threads.workers + threads.dispatchers + threads.supervisors == 0;
}

static void many_subscriptions_have_few_threads(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id ordered[2 * NAMES];
    hf_handler_id shared[2 * NAMES];

    assert_ok(hf_start(scene->bus));
    subscribe_many(scene, recorder, HF_MODE_ORDERED, ordered);
    subscribe_many(scene, recorder, HF_MODE_SHARED, shared);
    publish(scene->bus, "all", NULL, "1");
    settle_many(scene, HF_MODE_ORDERED);
    settle_many(scene, HF_MODE_SHARED);
    assert_int_equal(recorder_count(recorder), 2 * NAMES);
    if (!wait_until(has_few_threads, scene)) {
        print_threads();
        fail();
    }
    publish(scene->bus, "own.7", NULL, "1"); /* for one of each mode */
    settle_many(scene, HF_MODE_ORDERED);
    settle_many(scene, HF_MODE_SHARED);
    assert_int_equal(recorder_count(recorder), 2 * NAMES + 2);
    for (int i = 0; i < 2 * NAMES; i++) {
        assert_ok(hf_unsubscribe(scene->bus, ordered[i]));
        assert_ok(hf_unsubscribe(scene->bus, shared[i]));
    }
    assert_true(wait_until(has_none_of_ours, NULL));
}

/* After a stop there is none either, and the next start has all that it needs. */
static void a_stop_ends_the_threads_of_all_subscriptions(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id ids[2 * NAMES];

    subscribe_many(scene, recorder, HF_MODE_ORDERED, ids);
    for (size_t round = 1; round <= 3; round++) {
        publish(scene->bus, "all", NULL, "1");
        assert_ok(hf_start(scene->bus));
        settle_many(scene, HF_MODE_ORDERED);
        assert_ok(hf_stop(scene->bus, -1));
        assert_true(wait_until(has_none_of_ours, NULL)); /* they have ended, or are about to */
        assert_int_equal(recorder_count(recorder), round * NAMES);
    }
}

static bool all_rest(void *ctx)
{
    const struct scene *scene = ctx;
    return tail_resting(scene->bus->tail) == NAMES;
}

/* Publishes events for one of many subscriptions of this mode, one after the other, and answers how
 * often this point was hit meanwhile. */
static int64_t hits_for_one_of_many(struct scene *scene, hf_mode mode, const char *point)
{
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_handler_id ids[2 * NAMES];

    assert_ok(hf_start(scene->bus));
    subscribe_many(scene, recorder, mode, ids);
    for (int i = 0; i < 3; i++) { /* until then they look by themselves */
        publish(scene->bus, "all", NULL, "1");
        assert_true(recorder_wait(recorder, (i + 1) * NAMES));
    }
    settle_many(scene, mode); /* calls them all once more */
    assert_true(wait_until(all_rest, scene));
    int64_t hits = point_hits(point);
    for (int i = 0; i < ALONE; i++) {
        publish(scene->bus, "own.7", NULL, "1");
        assert_true(recorder_wait(recorder, 3 * NAMES + i + 1));
    }
    hits = point_hits(point) - hits;
    print_message("# %s: %lld\n", point, (long long)hits);
    return hits;
}

static void an_event_is_looked_at_only_by_those_that_it_is_for(void **state)
{
    int64_t turns = hits_for_one_of_many(*state, HF_MODE_ORDERED, "dispatch_taken");
    assert_true(turns < ALONE * NAMES / 2);
}

static bool has_no_lag(void *ctx)
{
    struct scene *scene = ctx;
    int64_t lag = 0;
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d-%d", (int)HF_MODE_SHARED, i);
        lag += info_of(scene->bus, name).lag;
    }
    return lag == 0;
}

/* The others claim after a while, once for many events, so that their cursors move. */
static void an_event_is_claimed_only_by_those_that_it_is_for(void **state)
{
    int64_t claims = hits_for_one_of_many(*state, HF_MODE_SHARED, "after_claim");
    assert_true(claims < ALONE * NAMES / 2);
    assert_true(wait_until(has_no_lag, *state));
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Counts the dispatcher threads of a bus again and again. (By their names more would be found: a
 * worker has the name of the dispatcher that starts it until it gives itself another.) */
struct counter {
    struct dispatchers *dispatchers;
    pthread_t thread;
    atomic_bool stopping;
    int32_t most;
};

static void *count_dispatchers(void *ctx)
{
    struct counter *counter = ctx;
    while (!atomic_load(&counter->stopping)) {
        pthread_mutex_lock(&counter->dispatchers->mutex);
        int32_t threads = counter->dispatchers->threads;
        pthread_mutex_unlock(&counter->dispatchers->mutex);
        counter->most = threads > counter->most ? threads : counter->most;
        usleep(2000);
    }
    return NULL;
}

static void start_many(struct scene *scene, hf_mode mode)
{
    static struct counter counter;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(mode);
    for (int i = 0; i < STARTING; i++) {
        char name[32];
        snprintf(name, sizeof name, "s-%d", i);
        subscribe(scene->bus, name, "all", recorder, &options);
    }
    counter = (struct counter){.dispatchers = &scene->bus->dispatchers};
    /* A machine that is busy must not look like a store that does not answer. */
    pthread_mutex_lock(&counter.dispatchers->mutex);
    counter.dispatchers->stuck_us = DEADLINE_MS * INT64_C(1000);
    pthread_mutex_unlock(&counter.dispatchers->mutex);
    assert_int_equal(pthread_create(&counter.thread, NULL, count_dispatchers, &counter), 0);
    hf_status started = hf_start(scene->bus);
    publish(scene->bus, "all", NULL, "1");
    bool all = recorder_wait(recorder, STARTING);
    atomic_store(&counter.stopping, true);
    pthread_join(counter.thread, NULL);
    print_message("# %d threads\n", (int)counter.most);
    assert_ok(started);
    assert_true(all);
    assert_in_range(counter.most, 1, scene->bus->dispatchers.busy_max);
}

/* Each of them waits for the store again and again when it starts. That turns last is no reason for
 * more threads than the store serves side by side. */
static void many_ordered_subscriptions_start_with_few_threads(void **state)
{
    struct scene *scene = *state;
    trouble_open(scene);
    faulty_slow(FAULTY_SUBSCRIPTION, SLOW_MS);
    start_many(scene, HF_MODE_ORDERED);
}

static void many_shared_subscriptions_start_with_few_threads(void **state)
{
    struct scene *scene = *state;
    trouble_open(scene);
    faulty_slow(FAULTY_SUBSCRIPTION, SLOW_MS);
    start_many(scene, HF_MODE_SHARED);
}

/* The same without anything that makes the store slow: 250 starts at once do that. */
static void many_subscriptions_start_with_few_threads_at_full_speed(void **state)
{
    start_many(*state, HF_MODE_ORDERED);
}

static bool is_hit_more_often(void *ctx)
{
    const int64_t *hits = ctx;
    return point_hits("after_refresh") > *hits;
}

/* Turns that wait for the store (here: stopped after reading the definition) do not keep others
 * from theirs. */
static void slow_subscriptions_do_not_slow_the_others(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_ORDERED);

    assert_ok(hf_start(scene->bus));
    for (int i = 0; i < 8; i++) { /* more threads than quick turns get */
        char name[32];
        snprintf(name, sizeof name, "slow-%d", i);
        int64_t hits = point_hits("after_refresh");
        point_arm("after_refresh", 1, POINT_STOP_THREAD);
        subscribe(scene->bus, name, "*", recorder, &options);
        assert_true(wait_until(is_hit_more_often, &hits));
    }
    subscribe(scene->bus, "quick", "*", recorder, &options);
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "quick");
    assert_int_equal(recorder_count(recorder), 1);
    point_release("after_refresh");
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "slow-%d", i);
        settle_all(scene->bus, name);
    }
    assert_int_equal(recorder_count(recorder), 9);
}

/* ---- What another process had ---------------------------------------------------------------- */

static hf_verdict hang(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    diary_write(ctx, "D");
    while (pause() == -1) {
    }
    return HF_ACK;
}

/* hang URL DIARY: has an event of the subscription "a" in hand until it is killed. */
static int hang_until_killed(int argc, char **argv)
{
    hf_subscription_options options = options_of(HF_MODE_SHARED);
    hf_bus *bus = NULL;

    if (argc < 2 || hf_open(argv[0], NULL, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "own.a", hang, argv[1], &options, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

/* Nothing rings for that, and many subscriptions do not look by themselves every second: whose
 * lease it is is looked at again by its own clock. */
static void the_lease_of_a_killed_process_is_taken_over_by_one_of_many_subscriptions(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = options_of(HF_MODE_SHARED);
    hf_handler_id ids[2 * NAMES];
    char diary[512];
    pid_t other;

    snprintf(diary, sizeof diary, "%s", scene_file(scene, "diary"));
    assert_ok(hf_start(scene->bus));
    subscribe_many(scene, recorder, HF_MODE_ORDERED, ids);
    subscribe_many(scene, recorder, HF_MODE_SHARED, ids);
    publish(scene->bus, "own.a", NULL, "1");
    other = actor_start("hang", scene->url, diary, NULL);
    assert_true(diary_wait(diary, "D", 1));
    subscribe(scene->bus, "a", "own.a", recorder, &options);
    sleep(3); /* all have looked; the next look of their own is a minute away */
    assert_int_equal(recorder_count(recorder), 0);
    actor_kill(other);
    assert_true(recorder_wait(recorder, 1));
}

static const struct part parts[] = {{"hang", hang_until_killed}};

static const struct CMUnitTest tests[] = {
    scene_test(many_subscriptions_have_few_threads),
    scene_test(a_stop_ends_the_threads_of_all_subscriptions),
    scene_test(an_event_is_looked_at_only_by_those_that_it_is_for),
    scene_test(an_event_is_claimed_only_by_those_that_it_is_for),
    trouble_test(many_ordered_subscriptions_start_with_few_threads),
    trouble_test(many_shared_subscriptions_start_with_few_threads),
    scene_test(many_subscriptions_start_with_few_threads_at_full_speed),
    scene_test(slow_subscriptions_do_not_slow_the_others),
    scene_test(the_lease_of_a_killed_process_is_taken_over_by_one_of_many_subscriptions),
};

ACTOR_MAIN(tests, parts)
