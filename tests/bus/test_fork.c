/*
 * Tests of fork: the child must not use the parent's handle, every call says so, closing it there
 * only frees memory, and the parent does not notice.
 *
 * The child is a plain fork without exec, because that is what is tested; it uses nothing but the
 * library and leaves with _exit.
 */
#include "support/ignore.h"
#include "support_scene.h"

#include <sys/wait.h>

/* Runs the check in a forked child; the child's exit status, 0 if the check held. */
static int in_child(int (*check)(struct scene *scene), struct scene *scene)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(check(scene));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        number++;                                                                                  \
        if ((call) != HF_MISUSE)                                                                   \
            return number;                                                                         \
    } while (0)

static int note_node(const hf_node_info *info, void *ctx)
{
    (void)info;
    (void)ctx;
    return 0;
}

/* The number of the first call that was not refused; 0 if all were. */
static int every_call_is_refused(struct scene *scene)
{
    hf_bus *bus = scene->bus;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_subscription_options options = quick_options();
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    hf_stats stats = {.size = sizeof stats};
    hf_place start = {HF_PLACE_START, -1};
    const char *patterns[] = {"*"};
    hf_batch *batch = NULL;
    int64_t value = 0;
    int number = 0;
    int fd = -1;

    event.type = "x";
    REFUSED(hf_publish(bus, &event, NULL));
    REFUSED(hf_publish_many(bus, &event, 1, NULL));
    REFUSED(hf_publish_async(bus, &event, NULL, NULL));
    REFUSED(hf_flush(bus, 100));
    REFUSED(hf_start(bus));
    REFUSED(hf_stop(bus, 100));
    REFUSED(hf_shutdown(bus, 100));
    REFUSED(hf_subscribe(bus, "b", "*", recorder_handle, NULL, &options, NULL));
    REFUSED(hf_unsubscribe(bus, 1));
    REFUSED(hf_subscription_create(bus, "b", patterns, 1, &options, NULL));
    REFUSED(hf_subscription_remove(bus, "a"));
    REFUSED(hf_claim(bus, "a", NULL, &batch));
    REFUSED(hf_ack(bus, "a", "00000000000000000000000000000000", NULL, 0));
    REFUSED(hf_touch(bus, "a", "00000000000000000000000000000000", -1));
    REFUSED(hf_seek(bus, "a", start, HF_OFF, NULL));
    REFUSED(hf_pause(bus, "a", NULL));
    REFUSED(hf_resume(bus, "a"));
    REFUSED(hf_wait(bus, NULL, -1, 100));
    REFUSED(hf_event_get(bus, "00000000-0000-0000-0000-000000000000", ignore_event, NULL));
    REFUSED(hf_read(bus, NULL, 10, 0, &value, ignore_event, NULL));
    REFUSED(hf_locate(bus, start, &value));
    REFUSED(hf_subscription_list(bus, ignore_info, NULL));
    REFUSED(hf_subscription_get(bus, "a", ignore_info, NULL));
    REFUSED(hf_stats_get(bus, &stats));
    REFUSED(hf_verify(bus, ignore_finding, NULL, NULL));
    REFUSED(hf_dead_list(bus, &filter, ignore_letter, NULL));
    REFUSED(hf_dead_count(bus, &filter, &value));
    REFUSED(hf_dead_groups(bus, HF_DEAD_BY_TYPE, &filter, ignore_group, NULL, NULL));
    REFUSED(hf_dead_retry(bus, 1, NULL, 0));
    REFUSED(hf_dead_purge(bus, &filter, NULL));
    REFUSED(hf_namespace_create(bus, "a", NULL, NULL));
    REFUSED(hf_node_list(bus, note_node, NULL));
    REFUSED(hf_namespace_remove(bus, "a", HF_ON));
    REFUSED(hf_copy(bus, bus, NULL, NULL, NULL, NULL));
    REFUSED(hf_fd(bus, &fd));
    return 0;
}

static void every_call_in_the_child_is_misuse(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    assert_int_equal(in_child(every_call_is_refused, scene), 0);
}

static int close_only(struct scene *scene)
{
    hf_close(&scene->bus);
    return scene->bus != NULL;
}

static void closing_in_the_child_does_not_disturb_the_parent(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    publish(scene->bus, "x", NULL, "1");
    settle_all(scene->bus, "a");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(in_child(close_only, scene), 0);
        publish(scene->bus, "x", NULL, "2");
        settle_all(scene->bus, "a");
    }
    assert_int_equal(recorder_count(recorder), 6);
    assert_int_equal(info_of(scene->bus, "a").owner_alive, 1);
}

static int use_own_handle(struct scene *scene)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_bus *bus = NULL;
    hf_status status;

    event.type = "x";
    status = hf_open(scene->url, NULL, &bus);
    if (!status) {
        status = hf_publish(bus, &event, NULL);
    }
    if (!status) {
        status = hf_close(&bus);
    }
    return (int)status;
}

/* SQLite's memory of its locks is the parent's. A server has none, but no more is promised there
 * than by the system: beside running threads a child may do little before exec. */
static void a_child_of_a_process_with_an_open_bus_cannot_open_sqlite(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* their allocators are not made for a fork beside running threads */
#endif
    if (!scene->path) {
        skip();
    }
    subscribe(scene->bus, "a", "*", recorder, NULL);
    assert_ok(hf_start(scene->bus));
    assert_int_equal(in_child(use_own_handle, scene), HF_MISUSE);
    publish(scene->bus, "x", NULL, "1");
    assert_true(recorder_wait(recorder, 1));
    settle_all(scene->bus, "a");
}

static void after_the_parent_has_closed_its_bus_a_child_opens_one(void **state)
{
    struct scene *scene = *state;
    hf_stats stats = {.size = sizeof stats};

    assert_ok(hf_close(&scene->bus));
    assert_int_equal(in_child(use_own_handle, scene), HF_OK);
    assert_ok(hf_open(scene->url, NULL, &scene->bus));
    assert_ok(hf_stats_get(scene->bus, &stats));
    assert_int_equal(stats.head, 1);
}

static const struct CMUnitTest tests[] = {
    scene_test(every_call_in_the_child_is_misuse),
    scene_test(closing_in_the_child_does_not_disturb_the_parent),
    scene_test(a_child_of_a_process_with_an_open_bus_cannot_open_sqlite),
    scene_test(after_the_parent_has_closed_its_bus_a_child_opens_one),
};

SCENE_MAIN(tests)
