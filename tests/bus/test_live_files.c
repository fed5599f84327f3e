/*
 * Live files that are deleted under running consumers, as a cleaner of temporary files does:
 * no process died, so no attempt is counted, no event becomes a dead letter, nothing is done twice,
 * and the consumers do not take over from each other.
 *
 * Consumers are this program started again (support_actor.h). They write "R name" when they are
 * ready and "D name position attempt" for every call.
 */
#include "support_actor.h"

#include <dirent.h>

#define EVENTS 300
#define LEASE_MS 60000 /* far longer than a busy machine lets a process wait */

static const char *diary;
static const char *self;

static hf_verdict write_down(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    diary_write(diary, "D %s %lld %d", self, (long long)event->position,
                (int)hf_delivery_attempt(delivery));
    return HF_ACK;
}

/* consume URL DIARY NAME MODE: works for the subscription "a" until killed. */
static int consume(int argc, char **argv)
{
    hf_subscription_options options = quick_options();
    hf_options bus_options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    if (argc < 4) {
        return 2;
    }
    diary = argv[1];
    self = argv[2];
    bus_options.node_name = self;
    options.mode = strcmp(argv[3], "shared") == 0 ? HF_MODE_SHARED : HF_MODE_ORDERED;
    if (options.mode == HF_MODE_ORDERED) {
        options.partitions = 4;
    }
    options.lease_ms = LEASE_MS;
    options.attempts_max = 2;
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

static char diary_path[512];

static pid_t consumer(struct scene *scene, const char *name, const char *mode)
{
    char ready[32];
    pid_t pid = actor_start("consume", scene->url, diary_path, name, mode, NULL);

    snprintf(ready, sizeof ready, "R %s", name);
    if (!diary_wait(diary_path, ready, 1)) {
        actor_kill(pid);
        fail_msg("%s did not start", name);
    }
    return pid;
}

static size_t delete_live_files(struct scene *scene)
{
    char path[1024];
    const char *db = scene_sqlite(scene);
    const char *slash = strrchr(db, '/');
    DIR *directory;
    struct dirent *entry;
    size_t count = 0;

    snprintf(path, sizeof path, "%.*s", (int)(slash - db), db);
    directory = opendir(path);
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        if (strstr(entry->d_name, "-live-")) {
            count += unlinkat(dirfd(directory), entry->d_name, 0) == 0;
        }
    }
    closedir(directory);
    return count;
}

/* Two consumers, whose live files are deleted `times` times while events come. */
static void consume_beside_a_cleaner(struct scene *scene, const char *mode, int times)
{
    size_t deleted = 0;
    pid_t one;
    pid_t two;
    hf_stats stats = {.size = sizeof stats};

    scene_sqlite(scene);
    snprintf(diary_path, sizeof diary_path, "%s", scene_file(scene, "diary"));
    one = consumer(scene, "one", mode);
    two = consumer(scene, "two", mode);
    for (int i = 0; i < EVENTS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % 16);
        publish(scene->bus, "x", key, "1");
        if (i % (EVENTS / times) == 0) {
            deleted += delete_live_files(scene);
            usleep(2000);
        }
    }
    settle_all(scene->bus, "a");
    assert_int_equal(hf_stats_get(scene->bus, &stats), HF_OK);
    actor_kill(one);
    actor_kill(two);
    assert_true(deleted > 0);
    assert_int_equal(stats.dead, 0);
    assert_int_equal(stats.retrying, 0);
    assert_int_equal(diary_count(diary_path, "D"), EVENTS);
    for (int64_t position = 1; position <= EVENTS; position++) {
        char one_line[64];
        char two_line[64];
        snprintf(one_line, sizeof one_line, "D one %lld 1", (long long)position);
        snprintf(two_line, sizeof two_line, "D two %lld 1", (long long)position);
        assert_true(diary_count(diary_path, one_line) + diary_count(diary_path, two_line) > 0);
    }
}

static void live_files_deleted_once_cost_no_attempt_of_an_ordered_subscription(void **state)
{
    consume_beside_a_cleaner(*state, "ordered", 1);
}

static void live_files_deleted_repeatedly_cost_no_attempt_of_ordered_work(void **state)
{
    consume_beside_a_cleaner(*state, "ordered", EVENTS);
}

static void live_files_deleted_once_cost_no_attempt_of_a_shared_subscription(void **state)
{
    consume_beside_a_cleaner(*state, "shared", 1);
}

static void live_files_deleted_repeatedly_cost_no_attempt_of_shared_work(void **state)
{
    consume_beside_a_cleaner(*state, "shared", EVENTS);
}

static const struct part parts[] = {{"consume", consume}};

static const struct CMUnitTest tests[] = {
    scene_test(live_files_deleted_once_cost_no_attempt_of_an_ordered_subscription),
    scene_test(live_files_deleted_repeatedly_cost_no_attempt_of_ordered_work),
    scene_test(live_files_deleted_once_cost_no_attempt_of_a_shared_subscription),
    scene_test(live_files_deleted_repeatedly_cost_no_attempt_of_shared_work),
};

ACTOR_MAIN(tests, parts)
