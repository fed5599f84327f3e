/*
 * Tests of copying a bus into another database: what arrives is what was there, whatever happens on
 * the way; half of it cannot be seen; and consumers go on where they were.
 * support_copy.h says where to.
 */
#include "base/point.h"
#include "support_actor.h"
#include "support_copy.h"
#include "support_tables.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define EVENTS 5600 /* more than one chunk */

static void publish_plenty(hf_bus *bus, size_t count)
{
    hf_new_event *events = calloc(count, sizeof *events);

    for (size_t i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = i % 2 ? "plenty.odd" : "plenty.even";
        events[i].key = i % 3 ? "k" : NULL;
        events[i].payload = "{\"a\": [1, 2.50,  \"\\u00e9\"]}";
    }
    assert_ok(hf_publish_many(bus, events, count, NULL));
    free(events);
}

/* ---- What is copied -------------------------------------------------------------------------- */

static hf_verdict fail_some(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)delivery;
    (void)recorder;
    return strcmp(event->type, "bad") == 0 ? HF_DEAD : HF_ACK;
}

/* Events, dead letters, a claimed and a failed delivery, a version, and a gap if there can be. */
static void furnish(struct scene *scene)
{
    hf_subscription_options options = quick_options();
    hf_new_event versioned = HF_NEW_EVENT_INIT;
    struct recorder *recorder = scene_recorder(scene, fail_some);
    const char *all[] = {"*", "**"};

    publish(scene->bus, "bad", "k", "{}");
    publish(scene->bus, "good", "k", "{}");
    publish(scene->bus, "bad", NULL, "[]");
    versioned.type = "good";
    versioned.key = "v";
    versioned.expected_version = 0;
    assert_ok(hf_publish(scene->bus, &versioned, NULL));
    versioned.expected_version = 7; /* refused; it may use up a position */
    assert_status(hf_publish(scene->bus, &versioned, NULL), HF_CONFLICT);
    subscribe(scene->bus, "o'rdered \"one\" \xe6\x97\xa5", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, NULL);
    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "shared", all, 2, &options, NULL));
}

static void a_copy_has_everything_that_its_source_has(void **state)
{
    struct scene *scene = *state;
    hf_copy_report report;

    furnish(scene);
    publish_plenty(scene->bus, EVENTS);
    close_bus(scene);
    report = copy_all(scene->url, there);
    assert_int_equal(report.events, EVENTS + 4);
    assert_int_equal(report.resumed, 0);
    assert_same(scene->url, there);
    copy_all(there, back);
    assert_same(scene->url, back);
}

static void an_id_that_was_copied_is_not_published_again(void **state)
{
    struct scene *scene = *state;
    const char *urls[] = {there, back};
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt first = {0};
    char fresh[HF_ID_BYTES];

    event.type = "a";
    event.id = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
    assert_ok(hf_publish(scene->bus, &event, NULL));
    event.id = NULL;
    assert_ok(hf_publish(scene->bus, &event, &first));
    snprintf(fresh, sizeof fresh, "%s", first.id);
    close_bus(scene);
    copy_all(scene->url, there);
    copy_all(there, back);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        hf_receipt again = {0};
        hf_bus *bus = NULL;

        assert_ok(open_default(urls[i], &bus));
        event.id = fresh;
        assert_ok(hf_publish(bus, &event, &again));
        assert_int_equal(again.duplicate, 1);
        assert_int_equal(again.position, first.position);
        event.id = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
        assert_ok(hf_publish(bus, &event, &again));
        assert_int_equal(again.duplicate, 1);
        event.id = NULL;
        assert_ok(hf_publish(bus, &event, &again));
        assert_int_equal(again.duplicate, 0);
        assert_true(again.position > first.position);
        assert_ok(hf_close(&bus));
    }
}

/* Half of the events done in the source, and one more claimed; the others come in the copy. */
static void consumers_go_on_where_they_were(void **state)
{
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    struct recorder *before = scene_recorder(scene, NULL);
    struct recorder *after = scene_recorder(scene, NULL);
    hf_batch *batch = NULL;
    hf_options opening = HF_OPTIONS_INIT;
    const char *all[] = {"*"};
    hf_bus *bus;

    for (int i = 0; i < 5; i++) {
        publish(scene->bus, "a", "k", "{}");
    }
    subscribe(scene->bus, "s", "*", before, &options);
    assert_ok(hf_start(scene->bus));
    settle_all(scene->bus, NULL);
    options.mode = HF_MODE_SHARED;
    assert_ok(hf_subscription_create(scene->bus, "shared", all, 1, &options, NULL));
    assert_ok(hf_claim(scene->bus, "shared", NULL, &batch));
    hf_batch_free(batch);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    for (int i = 0; i < 3; i++) {
        publish(scene->bus, "a", "k", "{}");
    }
    close_bus(scene);
    copy_all(scene->url, there);
    copy_all(there, back);

    opening.timeout_ms = DEADLINE_MS;
    assert_ok(hf_open(back, &opening, &bus));
    assert_ok(hf_subscribe(bus, "s", "*", recorder_handle, after, NULL, NULL));
    assert_ok(hf_start(bus));
    assert_ok(hf_wait(bus, "s", -1, DEADLINE_MS));
    assert_ok(hf_claim(bus, "shared", NULL, &batch));
    assert_int_equal(hf_batch_count(batch), 8);
    hf_batch_free(batch);
    assert_ok(hf_close(&bus));
    assert_int_equal(recorder_count(before), 5);
    assert_int_equal(recorder_count(after), 3);
}

/* ---- Interrupted ----------------------------------------------------------------------------- */

/* copy FROM TO POINT NTH */
static int copy_part(int argc, char **argv)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *from = NULL;
    hf_bus *to = NULL;

    if (argc != 4) {
        return 2;
    }
    options.no_namespace = 1;
    options.timeout_ms = DEADLINE_MS;
    if (hf_open(argv[0], &options, &from) != HF_OK || hf_open(argv[1], &options, &to) != HF_OK) {
        return 3;
    }
    point_arm(argv[2], strtoll(argv[3], NULL, 10), POINT_KILL);
    if (hf_copy(from, to, NULL, NULL, NULL, NULL) != HF_OK) {
        fprintf(stderr, "# %s\n", hf_errmsg());
        return 4;
    }
    return 0;
}

static const struct part parts[] = {{"copy", copy_part}};

static void be_killed(const char *from, const char *to, const char *point, const char *nth)
{
    int status = actor_wait(actor_start("copy", from, to, point, nth, NULL));

    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        fail_msg("at %s the copy ended with %d", point, status);
    }
}

/* One target lives through all these deaths, in the order in which a copy comes to the points. */
static void killed_anywhere_it_goes_on(const char *from, const char *to)
{
    static const struct {
        const char *point;
        const char *nth;
    } deaths[] = {
        {"copy_marked", "1"},         {"copy_before_portion", "1"}, {"copy_after_portion", "1"},
        {"copy_before_portion", "4"}, {"copy_mid_clear", "1"},      {"copy_before_proof", "1"},
        {"copy_before_end", "1"},
    };
    hf_copy_report report;

    for (size_t i = 0; i < COUNTED(deaths); i++) {
        hf_bus *bus = NULL;

        be_killed(from, to, deaths[i].point, deaths[i].nth);
        assert_status(open_default(to, &bus), HF_BUSY);
        assert_non_null(strstr(hf_errmsg(), "holdfast copy"));
    }
    report = copy_all(from, to);
    assert_int_equal(report.resumed, 1);
    assert_int_equal(report.events, 0); /* all were there */
    assert_same(from, to);
}

static void a_copy_that_is_killed_anywhere_goes_on(void **state)
{
    struct scene *scene = *state;

    furnish(scene);
    publish_plenty(scene->bus, EVENTS);
    close_bus(scene);
    killed_anywhere_it_goes_on(scene->url, there);
    killed_anywhere_it_goes_on(there, back);
}

static int stop_once(const hf_copy_progress *progress, void *ctx)
{
    (void)ctx;
    return progress->events > 0;
}

static int note_copying(const hf_namespace_info *info, void *ctx)
{
    *(int32_t *)ctx = info->copying;
    return 0;
}

static int32_t is_copying(hf_bus *bus)
{
    int32_t copying = -1;
    assert_ok(hf_namespace_get(bus, "default", note_copying, &copying));
    return copying;
}

static void a_copy_that_was_stopped_can_be_removed_or_gone_on_with(void **state)
{
    struct scene *scene = *state;
    hf_copy_report report = HF_COPY_REPORT_INIT;
    hf_bus *bus;

    publish_plenty(scene->bus, EVENTS);
    close_bus(scene);
    assert_ok(copy_with(scene->url, there, NULL, stop_once, NULL, &report));
    assert_int_equal(report.complete, 0);
    assert_true(report.events > 0 && report.events < EVENTS);
    bus = open_whole(there);
    assert_int_equal(is_copying(bus), 1);
    assert_ok(hf_namespace_remove(bus, "default", HF_OFF));
    assert_ok(hf_close(&bus));
    assert_ok(copy_with(scene->url, there, NULL, stop_once, NULL, &report));
    assert_int_equal(report.resumed, 0);
    assert_int_equal(copy_all(scene->url, there).resumed, 1);
    assert_same(scene->url, there);
    bus = open_whole(there);
    assert_int_equal(is_copying(bus), 0);
    assert_ok(hf_close(&bus));
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void a_source_in_use_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_copy_options live = HF_COPY_OPTIONS_INIT;

    publish(scene->bus, "a", NULL, "{}");
    assert_status(copy_with(scene->url, there, NULL, NULL, NULL, NULL), HF_CONFLICT);
    live.live = HF_ON;
    assert_ok(copy_with(scene->url, there, &live, NULL, NULL, NULL));
    close_bus(scene);
    assert_same(scene->url, there);
}

static void a_target_that_is_not_empty_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = NULL;

    publish(scene->bus, "a", NULL, "{}");
    close_bus(scene);
    assert_ok(open_default(there, &bus));
    assert_status(copy_with(scene->url, there, NULL, NULL, NULL, NULL), HF_CONFLICT); /* open */
    publish(bus, "b", NULL, "{}");
    assert_ok(hf_close(&bus));
    assert_status(copy_with(scene->url, there, NULL, NULL, NULL, NULL), HF_CONFLICT);
    assert_int_equal(content_of(there).count, 1);
    assert_status(copy_with(scene->url, scene->url, NULL, NULL, NULL, NULL), HF_INVALID);
    assert_ok(open_default(back, &bus)); /* an empty one is taken */
    assert_ok(hf_close(&bus));
    copy_all(scene->url, back);
    assert_same(scene->url, back);
}

/* Its log is empty; but what else it has, or had, must not be mixed with the copy. */
static void must_be_refused(struct scene *scene)
{
    assert_status(copy_with(there, scene->url, NULL, NULL, NULL, NULL), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "not empty"));
    assert_int_equal(content_of(scene->url).count, 0);
}

static void a_target_with_an_empty_log_and_other_rows_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = HF_SCHEDULE_INIT;
    hf_new_event later = HF_NEW_EVENT_INIT;
    hf_subscription_options options = quick_options();
    const char *all[] = {"*"};
    hf_bus *bus = NULL;

    assert_ok(open_default(there, &bus));
    publish(bus, "a", NULL, "{}");
    assert_ok(hf_close(&bus));
    schedule.name = "s";
    schedule.expression = "@yearly";
    schedule.type = "a";
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    close_bus(scene);
    must_be_refused(scene);

    assert_ok(open_default(scene->url, &bus));
    assert_ok(hf_schedule_remove(bus, "s"));
    assert_ok(hf_subscription_create(bus, "s", all, 1, &options, NULL));
    assert_ok(hf_close(&bus));
    must_be_refused(scene);

    assert_ok(open_default(scene->url, &bus));
    assert_ok(hf_subscription_remove(bus, "s"));
    later.type = "a";
    later.deliver_at_us = wall_us() + INT64_C(86400000000);
    assert_ok(hf_publish(bus, &later, NULL));
    assert_ok(hf_close(&bus));
    must_be_refused(scene);

    tables_run(scene, scene->path ? "DELETE FROM holdfast_delayed"
                                  : "DELETE FROM holdfast_private.delayed");
    assert_ok(open_default(scene->url, &bus));
    publish(bus, "a", NULL, "{}"); /* a position that was given */
    assert_ok(hf_close(&bus));
    tables_run(scene,
               scene->path ? "DELETE FROM holdfast_events" : "DELETE FROM holdfast_private.events");
    must_be_refused(scene);
}

/* A copy in a thread of its own, which stops at a fault point. */
struct stopped_copy {
    const char *from;
    const char *to;
    hf_status status;
};

static void *copy_in_thread(void *ctx)
{
    struct stopped_copy *copy = ctx;

    copy->status = copy_with(copy->from, copy->to, NULL, NULL, NULL, NULL);
    return NULL;
}

static void publish_to(const char *url, const char *namespace_name)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    options.timeout_ms = DEADLINE_MS;
    options.namespace_name = namespace_name;
    assert_ok(hf_open(url, &options, &bus));
    publish(bus, "a", NULL, "{}");
    assert_ok(hf_close(&bus));
}

/* One of the two is marked before the other is refused, whichever comes first. */
static void a_copy_that_is_refused_while_it_marks_removes_its_marks(void **state)
{
    static const char *const names[] = {"default", "second"};
    struct scene *scene = *state;
    const char *urls[] = {there, back};
    struct stopped_copy copy = {.from = scene->url};

    close_bus(scene);
    publish_to(scene->url, names[0]);
    publish_to(scene->url, names[1]);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        for (size_t n = 0; n < COUNTED(names); n++) {
            pthread_t thread;
            hf_bus *bus = NULL;

            copy.to = urls[i];
            point_reset();
            point_arm("copy_checked", 1, POINT_STOP_THREAD);
            assert_int_equal(pthread_create(&thread, NULL, copy_in_thread, &copy), 0);
            assert_true(point_wait_blocked("copy_checked", DEADLINE_MS));
            publish_to(urls[i], names[n]);
            point_release("copy_checked");
            assert_int_equal(pthread_join(thread, NULL), 0);
            assert_status(copy.status, HF_CONFLICT);
            publish_to(urls[i], names[1 - n]);
            bus = open_whole(urls[i]);
            assert_ok(hf_namespace_remove(bus, names[0], HF_OFF));
            assert_ok(hf_namespace_remove(bus, names[1], HF_OFF));
            assert_ok(hf_close(&bus));
        }
    }
    point_reset();
}

static void the_unfinished_copy_of_another_is_refused(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = NULL;

    publish_plenty(scene->bus, EVENTS);
    close_bus(scene);
    assert_ok(copy_with(scene->url, there, NULL, stop_once, NULL, NULL));
    assert_status(copy_with(there, back, NULL, NULL, NULL, NULL), HF_CONFLICT);
    assert_ok(open_default(back, &bus));
    publish(bus, "a", NULL, "{}");
    assert_ok(hf_close(&bus));
    assert_status(copy_with(back, there, NULL, NULL, NULL, NULL), HF_CONFLICT);
    copy_all(scene->url, there);
    assert_same(scene->url, there);
}

/* ---- A source that moves --------------------------------------------------------------------- */

struct intruder {
    const char *url;
    int times;         /* that it comes */
    const char *phase; /* in this one; NULL: in all */
};

/* Publishes while the copy is under way, and leaves. */
static int intrude(const hf_copy_progress *progress, void *ctx)
{
    struct intruder *intruder = ctx;
    hf_bus *bus = NULL;

    if (progress->events > 0 &&
        (!intruder->phase || strcmp(intruder->phase, progress->phase) == 0) &&
        intruder->times-- > 0) {
        assert_ok(open_default(intruder->url, &bus));
        publish(bus, "late", NULL, "{}");
        assert_ok(hf_close(&bus));
    }
    return 0;
}

static void events_published_during_a_copy_are_copied_by_the_next_run(void **state)
{
    struct scene *scene = *state;
    struct intruder intruder = {scene->url, 1, "state"};
    hf_copy_report report;

    publish_plenty(scene->bus, 10);
    close_bus(scene);
    assert_status(copy_with(scene->url, there, NULL, intrude, &intruder, NULL), HF_CONFLICT);
    report = copy_all(scene->url, there);
    assert_int_equal(report.events, 1);
    assert_same(scene->url, there);
}

/* Intrusions in every phase: the copy is a beginning of the log, and says how much is missing. */
static void a_live_copy_is_one_moment_of_its_source(void **state)
{
    struct scene *scene = *state;
    struct intruder intruder = {scene->url, 1000, NULL};
    hf_copy_options live = HF_COPY_OPTIONS_INIT;
    hf_copy_report report = HF_COPY_REPORT_INIT;
    struct content source;
    struct content copied;

    furnish(scene);
    publish_plenty(scene->bus, 10);
    live.live = HF_ON;
    assert_ok(copy_with(scene->url, there, &live, intrude, &intruder, &report));
    assert_int_equal(report.complete, 1);
    close_bus(scene);
    source = content_of(scene->url);
    copied = content_of(there);
    assert_true(report.later > 0);
    assert_int_equal(source.last - copied.last, report.later);
    assert_sound(there);
}

/* ---- The proof ------------------------------------------------------------------------------- */

/* Changes something in the target behind the copy's back. */
struct vandal {
    const char *url;
    const char *phase; /* in which it comes */
    const char *file_sql;
    const char *server_sql;
};

static int vandalise(const hf_copy_progress *progress, void *ctx)
{
    const struct vandal *vandal = ctx;
    struct scene target = {.path = NULL};

    if (strcmp(progress->phase, vandal->phase) != 0) {
        return 0;
    }
    snprintf(target.url, sizeof target.url, "%s", vandal->url);
    if (strncmp(target.url, "sqlite:", 7) == 0) {
        target.path = target.url + 7;
    }
    tables_run(&target, target.path ? vandal->file_sql : vandal->server_sql);
    return 0;
}

/* Of the same length, so that only the content tells. */
static void a_copy_that_is_not_the_same_is_not_opened(void **state)
{
    static const char *const phases[] = {"events", "state", "state"};
    static const char *const file_sql[] = {
        "UPDATE holdfast_events SET payload = '{\"n\":2}' WHERE type = 'good'",
        "UPDATE holdfast_subscriptions SET dropped = 1",
        "UPDATE holdfast_namespaces SET head = 99"};
    static const char *const server_sql[] = {
        "UPDATE holdfast_private.events SET payload = '{\"n\":2}' WHERE type = 'good'",
        "UPDATE holdfast_private.subscriptions SET dropped = 1",
        "DO $$ BEGIN PERFORM setval(('holdfast_private.events_' || id || "
        "'_position')::regclass, 99) "
        "FROM holdfast_private.namespaces WHERE name = 'default'; END $$"};
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *urls[] = {there, back};
    const char *all[] = {"*"};

    publish(scene->bus, "good", NULL, "{\"n\":1}");
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    close_bus(scene);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        hf_bus *bus = NULL;

        for (size_t p = 0; p < COUNTED(phases); p++) {
            struct vandal vandal = {urls[i], phases[p], file_sql[p], server_sql[p]};

            assert_status(copy_with(scene->url, urls[i], NULL, vandalise, &vandal, NULL),
                          HF_CORRUPT);
            assert_status(open_default(urls[i], &bus), HF_BUSY);
            bus = open_whole(urls[i]);
            assert_ok(hf_namespace_remove(bus, "default", HF_OFF));
            assert_ok(hf_close(&bus));
        }
        copy_all(scene->url, urls[i]);
        assert_same(scene->url, urls[i]);
    }
}

/* As retention would, while the copy is on its way: first half of them, then all that are left. */
static void events_that_retention_deletes_during_a_live_copy_are_in_the_copy(void **state)
{
    static const char *const file_sql[] = {"DELETE FROM holdfast_events WHERE place % 16 <= 5",
                                           "DELETE FROM holdfast_events"};
    static const char *const server_sql[] = {
        "DELETE FROM holdfast_private.events WHERE position <= 5",
        "DELETE FROM holdfast_private.events"};
    struct scene *scene = *state;
    const char *urls[] = {there, back};
    hf_copy_options live = HF_COPY_OPTIONS_INIT;

    publish_plenty(scene->bus, 10);
    close_bus(scene);
    live.live = HF_ON;
    for (size_t i = 0; i < COUNTED(urls); i++) {
        struct vandal retention = {scene->url, "events", file_sql[i], server_sql[i]};
        int64_t before = content_of(scene->url).count;

        assert_ok(copy_with(scene->url, urls[i], &live, vandalise, &retention, NULL));
        assert_int_equal(content_of(urls[i]).count, before);
        assert_int_equal(content_of(scene->url).count, before - 5);
        assert_sound(urls[i]);
    }
}

/* ---- Two at once ----------------------------------------------------------------------------- */

struct rival {
    const char *from;
    const char *to;
    const char *phase; /* of the first run, in which it begins */
    bool begun;
};

static int stop_soon(const hf_copy_progress *progress, void *ctx)
{
    (void)progress;
    (void)ctx;
    return 1;
}

/* Another run begins, and stops as soon as it has the target. */
static int compete(const hf_copy_progress *progress, void *ctx)
{
    struct rival *rival = ctx;
    hf_copy_report report = HF_COPY_REPORT_INIT;

    if (!rival->begun && progress->events > 0 && strcmp(progress->phase, rival->phase) == 0) {
        rival->begun = true;
        assert_ok(copy_with(rival->from, rival->to, NULL, stop_soon, NULL, &report));
        assert_int_equal(report.resumed, 1);
        assert_int_equal(report.complete, 0);
    }
    return 0;
}

static void of_two_copies_at_once_the_later_goes_on(void **state)
{
    static const char *const phases[] = {"events", "state", "verify"};
    struct scene *scene = *state;
    hf_subscription_options options = quick_options();
    const char *urls[] = {there, back};
    const char *all[] = {"*"};

    publish_plenty(scene->bus, EVENTS);
    assert_ok(hf_subscription_create(scene->bus, "s", all, 1, &options, NULL));
    close_bus(scene);
    for (size_t i = 0; i < COUNTED(urls); i++) {
        for (size_t p = 0; p < COUNTED(phases); p++) {
            struct rival rival = {scene->url, urls[i], phases[p], false};
            hf_bus *bus = NULL;

            assert_status(copy_with(scene->url, urls[i], NULL, compete, &rival, NULL), HF_STALE);
            assert_true(rival.begun);
            bus = open_whole(urls[i]);
            assert_ok(hf_namespace_remove(bus, "default", HF_OFF));
            assert_ok(hf_close(&bus));
        }
        copy_all(scene->url, urls[i]);
        assert_same(scene->url, urls[i]);
    }
}

/* ---- Without gaps ---------------------------------------------------------------------------- */

static int note_gapless(const hf_namespace_info *info, void *ctx)
{
    if (strcmp(info->name, "tight") == 0) {
        *(int *)ctx = info->gapless;
    }
    return 0;
}

/* The earlier one has marked the target when the later one marks it, too. */
static void of_two_copies_that_have_marked_the_source_the_later_goes_on(void **state)
{
    struct scene *scene = *state;
    struct stopped_copy earlier = {scene->url, there, HF_OK};
    struct stopped_copy later = {scene->url, there, HF_OK};
    pthread_t threads[2];

    publish(scene->bus, "x", NULL, "1");
    close_bus(scene);
    point_arm("copy_marked", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&threads[0], NULL, copy_in_thread, &earlier), 0);
    assert_true(point_wait_blocked("copy_marked", DEADLINE_MS));
    point_arm("copy_mid_clear", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&threads[1], NULL, copy_in_thread, &later), 0);
    assert_true(point_wait_blocked("copy_mid_clear", DEADLINE_MS));
    point_release("copy_marked");
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    point_release("copy_mid_clear");
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_status(earlier.status, HF_STALE);
    assert_ok(later.status);
    assert_same(scene->url, there);
}

/* Nothing is written for it, so no target is needed. */
static void whether_a_source_can_be_copied_is_answered_without_a_target(void **state)
{
    struct scene *scene = *state;
    hf_copy_options options = HF_COPY_OPTIONS_INIT;
    hf_copy_report report = HF_COPY_REPORT_INIT;
    hf_bus *from = open_whole(scene->url);

    assert_status(hf_copy(from, NULL, NULL, NULL, NULL, NULL), HF_CONFLICT); /* it is in use */
    close_bus(scene);
    assert_ok(hf_copy(from, NULL, NULL, NULL, NULL, &report));
    assert_int_equal(report.complete, 0);
    options.namespace_name = "none";
    assert_status(hf_copy(from, NULL, &options, NULL, NULL, NULL), HF_NOTFOUND);
    assert_ok(hf_close(&from));
}

static void a_gapless_namespace_stays_gapless(void **state)
{
    struct scene *scene = *state;
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    int gapless = 0;
    hf_bus *bus;

    if (scene->path) {
        skip();
    } /* a file never has gaps */
    options.gapless = HF_ON;
    assert_ok(hf_namespace_create(scene->bus, "tight", &options, NULL));
    close_bus(scene);
    copy_all(scene->url, back);
    bus = open_whole(back);
    assert_ok(hf_namespace_list(bus, note_gapless, &gapless));
    assert_ok(hf_close(&bus));
    assert_int_equal(gapless, 1);
}

static const struct CMUnitTest tests[] = {
    copy_test(a_copy_has_everything_that_its_source_has),
    copy_test(an_id_that_was_copied_is_not_published_again),
    copy_test(consumers_go_on_where_they_were),
    copy_test(a_copy_that_is_killed_anywhere_goes_on),
    copy_test(a_copy_that_was_stopped_can_be_removed_or_gone_on_with),
    copy_test(a_source_in_use_is_refused),
    copy_test(a_target_that_is_not_empty_is_refused),
    copy_test(a_target_with_an_empty_log_and_other_rows_is_refused),
    copy_test(a_copy_that_is_refused_while_it_marks_removes_its_marks),
    copy_test(the_unfinished_copy_of_another_is_refused),
    copy_test(events_published_during_a_copy_are_copied_by_the_next_run),
    copy_test(a_live_copy_is_one_moment_of_its_source),
    copy_test(a_copy_that_is_not_the_same_is_not_opened),
    copy_test(events_that_retention_deletes_during_a_live_copy_are_in_the_copy),
    copy_test(of_two_copies_at_once_the_later_goes_on),
    copy_test(of_two_copies_that_have_marked_the_source_the_later_goes_on),
    copy_test(whether_a_source_can_be_copied_is_answered_without_a_target),
    copy_test(a_gapless_namespace_stays_gapless),
};

ACTOR_MAIN(tests, parts)
