/*
 * Tests of the index on types: it has every event whenever it was published, a build that is killed
 * is gone on with, and what it says is what reading the log says.
 */
#include "base/point.h"
#include "support_actor.h"
#include "support_retention.h"
#include "support_tables.h"

#define MANY 4500 /* more than two steps, where events are counted in steps */

static void set_index(hf_bus *bus, hf_toggle on)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    options.type_index = on;
    assert_ok(hf_namespace_set(bus, "default", &options));
}

static int note_index(const hf_namespace_info *info, void *ctx)
{
    snprintf(ctx, 16, "%s", info->type_index);
    return 0;
}

static void assert_index(hf_bus *bus, const char *wanted)
{
    char found[16] = "";
    assert_ok(hf_namespace_get(bus, "default", note_index, found));
    assert_string_equal(found, wanted);
}

struct sighting {
    int64_t positions[16];
    size_t count;
};

static int see(const hf_event *event, void *ctx)
{
    struct sighting *seen = ctx;
    assert_string_equal(event->namespace_name, "default");
    assert_int_equal(event->deliveries, -1);
    assert_true(seen->count < COUNTED(seen->positions));
    seen->positions[seen->count++] = event->position;
    return 0;
}

/* The events that match are at exactly these positions. */
static void assert_found(hf_bus *bus, const char *pattern, const int64_t *positions, size_t count)
{
    struct sighting seen = {.count = 0};
    int64_t cursor = 0;
    for (int64_t before = -1; cursor != before;) {
        before = cursor;
        assert_ok(hf_read(bus, pattern, 5, 0, &cursor, see, &seen));
    }
    assert_int_equal(seen.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(seen.positions[i], positions[i]);
    }
}

/* Rows that the index lacks, or months without one. */
static int64_t lacking(struct scene *scene)
{
    return tables_number(
        scene, scene->path
                   ? "SELECT (SELECT count(*) FROM holdfast_events) - "
                     "(SELECT count(*) FROM holdfast_types)"
                   : "SELECT count(*) FROM pg_inherits h WHERE h.inhparent = "
                     "'holdfast_private.events_1'::regclass AND NOT EXISTS (SELECT FROM pg_index i "
                     "WHERE i.indrelid = h.inhrelid AND i.indisvalid AND i.indnatts = 2 "
                     "AND NOT i.indisunique)");
}

static void events_published_before_and_after_the_index_are_found(void **state)
{
    struct scene *scene = *state;
    int64_t found[3];

    publish_bulk(scene->bus, "common", MANY);
    found[0] = publish(scene->bus, "rare.one", NULL, "1")->position;
    publish_bulk(scene->bus, "common", MANY);
    assert_index(scene->bus, "off");
    assert_found(scene->bus, "rare.*", found, 1);
    set_index(scene->bus, HF_ON);
    assert_index(scene->bus, "on");
    assert_int_equal(lacking(scene), 0);
    assert_found(scene->bus, "rare.*", found, 1);
    found[1] = publish(scene->bus, "rare.two", NULL, "1")->position;
    publish_bulk(scene->bus, "common", MANY);
    found[2] = publish(scene->bus, "rare.one", NULL, "1")->position;
    assert_found(scene->bus, "rare.*", found, 3);
    assert_found(scene->bus, "rare.two", found + 1, 1);
    assert_found(scene->bus, "rare.three", NULL, 0);
    set_index(scene->bus, HF_OFF);
    assert_index(scene->bus, "off");
    assert_found(scene->bus, "rare.**", found, 3);
}

#ifdef HF_FAULTS

/* url, on or off, point, number of the hit at which it dies */
static int run_set(int argc, char **argv)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    hf_bus *bus = NULL;

    options.type_index = strcmp(argv[1], "on") == 0 ? HF_ON : HF_OFF;
    if (argc > 3) {
        point_arm(argv[2], strtoll(argv[3], NULL, 10), POINT_KILL);
    }
    if (hf_open(argv[0], NULL, &bus) || hf_namespace_set(bus, "default", &options)) {
        fprintf(stderr, "%s\n", hf_errmsg());
        return 1;
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

static void an_index_whose_builder_is_killed_is_completed_by_the_next_process(void **state)
{
    static const char *const points[] = {"mid_type_steps", "mid_types", "before_index",
                                         "after_index"};
    struct scene *scene = *state;
    int64_t found[2 * COUNTED(points) + 1];
    size_t count = 0;
    int killed = 0;

    publish_bulk(scene->bus, "common", MANY);
    found[count++] = publish(scene->bus, "rare", NULL, "1")->position;
    for (size_t i = 0; i < COUNTED(points); i++) {
        for (int hit = 1; hit <= 2; hit++) {
            char number[16];
            snprintf(number, sizeof number, "%d", hit);
            killed +=
                actor_wait(actor_start("set", scene->url, "on", points[i], number, NULL)) != 0;
            found[count++] = publish(scene->bus, "rare", NULL, "1")->position;
            assert_found(scene->bus, "rare", found, count);
            set_index(scene->bus, HF_ON);
            assert_index(scene->bus, "on");
            assert_int_equal(lacking(scene), 0);
            assert_found(scene->bus, "rare", found, count);
            actor_wait(actor_start("set", scene->url, "off", points[i], number, NULL));
            assert_found(scene->bus, "rare", found, count);
            set_index(scene->bus, HF_OFF);
            assert_index(scene->bus, "off");
        }
    }
    assert_true(killed >= 4); /* not every point is on this engine's way */
}

#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        scene_test(events_published_before_and_after_the_index_are_found),
#ifdef HF_FAULTS
        scene_test(an_index_whose_builder_is_killed_is_completed_by_the_next_process),
#endif
    };
#ifdef HF_FAULTS
    static const struct part parts[] = {{"set", run_set}};
    if (actor_is_asked_for(argc, argv)) {
        return actor_run(argc, argv, parts, COUNTED(parts));
    }
#endif
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
