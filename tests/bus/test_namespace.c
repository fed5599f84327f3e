/*
 * Tests of namespaces: made with settings, listed, isolated whatever their names are, and removed
 * with everything that is in them and nothing else.
 */
#include "support_scene.h"

#define EVENTS 2500 /* more than two steps of a removal */

/* ---- Looking --------------------------------------------------------------------------------- */

struct looked {
    int calls;
    char names[1024]; /* of all calls, each followed by '|' */
    char metadata[256];
    int64_t head;
    int64_t subscriptions;
    int64_t removing_at_us;
    int32_t gapless;
};

static int note(const hf_namespace_info *info, void *ctx)
{
    struct looked *looked = ctx;
    size_t length = strlen(looked->names);

    looked->calls++;
    snprintf(looked->names + length, sizeof looked->names - length, "%s|", info->name);
    snprintf(looked->metadata, sizeof looked->metadata, "%s",
             info->metadata_json ? info->metadata_json : "(none)");
    looked->head = info->head;
    looked->subscriptions = info->subscriptions;
    looked->removing_at_us = info->removing_at_us;
    looked->gapless = info->gapless;
    return 0;
}

static struct looked look_at(hf_bus *bus, const char *name)
{
    struct looked looked = {0};

    assert_ok(hf_namespace_get(bus, name, note, &looked));
    assert_int_equal(looked.calls, 1);
    return looked;
}

static hf_bus *open_in(struct scene *scene, const char *name)
{
    hf_options options = scene->options;

    options.namespace_name = name;
    return scene_open(scene, &options);
}

static hf_bus *open_whole(struct scene *scene)
{
    hf_options options = scene->options;

    options.namespace_name = NULL;
    options.no_namespace = 1;
    return scene_open(scene, &options);
}

static hf_status try_open(struct scene *scene, const char *name)
{
    hf_options options = scene->options;
    hf_bus *bus = NULL;
    hf_status status;

    options.namespace_name = name;
    options.open_mode = HF_OPEN_EXISTING;
    status = hf_open(scene->url, &options, &bus);
    hf_close(&bus);
    return status;
}

/* ---- Making and changing --------------------------------------------------------------------- */

static void a_namespace_is_made_once_with_its_settings(void **state)
{
    struct scene *scene = *state;
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    struct looked looked;
    int32_t created = -1;

    options.metadata_json = "{\"team\": \"web\", \"n\": 1.50}";
    options.gapless = HF_ON;
    assert_ok(hf_namespace_create(scene->bus, "shop", &options, &created));
    assert_int_equal(created, 1);
    looked = look_at(scene->bus, "shop");
    assert_string_equal(looked.metadata, "{\"team\": \"web\", \"n\": 1.50}");
    assert_int_equal(looked.gapless, 1);
    assert_int_equal(looked.head, 0);
    assert_int_equal(looked.subscriptions, 0);
    assert_int_equal(looked.removing_at_us, -1);
    assert_ok(hf_namespace_create(scene->bus, "shop", NULL, &created));
    assert_int_equal(created, 0);
    assert_string_equal(look_at(scene->bus, "shop").metadata, "{\"team\": \"web\", \"n\": 1.50}");
    options = (hf_namespace_options)HF_NAMESPACE_OPTIONS_INIT;
    options.metadata_json = "{}";
    assert_ok(hf_namespace_set(scene->bus, "shop", &options));
    assert_string_equal(look_at(scene->bus, "shop").metadata, "{}");
    assert_ok(try_open(scene, "shop"));
}

static void bad_and_missing_namespaces_are_refused(void **state)
{
    struct scene *scene = *state;
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;
    struct looked looked = {0};
    char longest[HF_NAMESPACE_BYTES_MAX + 2];

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_status(hf_namespace_create(scene->bus, longest, NULL, NULL), HF_INVALID);
    assert_status(hf_namespace_create(scene->bus, "", NULL, NULL), HF_INVALID);
    assert_status(hf_namespace_create(scene->bus, " a", NULL, NULL), HF_INVALID);
    assert_status(hf_namespace_create(scene->bus, "a\nb", NULL, NULL), HF_INVALID);
    assert_status(hf_namespace_create(scene->bus, "\xff", NULL, NULL), HF_INVALID);
    assert_status(hf_namespace_create(scene->bus, NULL, NULL, NULL), HF_INVALID);
    options.metadata_json = "[1]";
    assert_status(hf_namespace_create(scene->bus, "a", &options, NULL), HF_INVALID);
    assert_status(hf_namespace_set(scene->bus, "a", NULL), HF_NOTFOUND);
    assert_status(hf_namespace_get(scene->bus, "a", note, &looked), HF_NOTFOUND);
    assert_status(hf_namespace_remove(scene->bus, "a", HF_OFF), HF_NOTFOUND);
    assert_status(hf_namespace_remove(scene->bus, "default", HF_ON), HF_MISUSE);
    assert_int_equal(looked.calls, 0);
}

static void a_bus_without_a_namespace_serves_namespaces_only(void **state)
{
    struct scene *scene = *state;
    hf_bus *whole = open_whole(scene);
    struct looked looked = {0};
    hf_stats stats = {.size = sizeof stats};

    assert_ok(hf_namespace_create(whole, "b", NULL, NULL));
    assert_ok(hf_namespace_list(whole, note, &looked));
    assert_string_equal(looked.names, "b|default|");
    assert_status(hf_stats_get(whole, &stats), HF_MISUSE);
    assert_status(hf_start(whole), HF_MISUSE);
    assert_status(hf_pause(whole, "s", NULL), HF_MISUSE);
    assert_ok(hf_namespace_remove(whole, "b", HF_OFF));
    scene_close(scene, whole);
}

/* ---- Isolation ------------------------------------------------------------------------------- */

/* Names that would collide, or break something, if a name were ever part of a path, an identifier,
 * a pattern or a statement. */
static const char *const hostile[] = {
    "a",
    "A",
    "a.b",
    "a_b",
    "a%",
    "*",
    "'; DROP TABLE holdfast_private.events; --",
    "\"x\"",
    "../../etc",
    "{namespace}",
    "$1",
    "?1",
    "%s%n",
    "\\",
    "1",
    "events_1",
    "\xc3\xa4",
    "a\xcc\x88",
    "NULL",
    "x y",
};

static void hostile_names_are_names_like_any_other(void **state)
{
    struct scene *scene = *state;
    char longest[HF_NAMESPACE_BYTES_MAX + 1];

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i <= COUNTED(hostile); i++) {
        const char *name = i < COUNTED(hostile) ? hostile[i] : longest;
        hf_subscription_options options = quick_options();
        const char *pattern = "*";
        hf_bus *bus = open_in(scene, name);

        assert_int_equal(publish(bus, "x", NULL, "1")->position, 1);
        assert_ok(hf_subscription_create(bus, name, &pattern, 1, &options, NULL));
        scene_close(scene, bus);
    }
    for (size_t i = 0; i < COUNTED(hostile); i++) {
        struct looked looked = look_at(scene->bus, hostile[i]);

        assert_int_equal(looked.head, 1);
        assert_int_equal(looked.subscriptions, 1);
        assert_ok(hf_namespace_remove(scene->bus, hostile[i], HF_OFF));
        assert_status(try_open(scene, hostile[i]), HF_NOTFOUND);
        assert_int_equal(look_at(scene->bus, longest).head, 1);
    }
}

/* ---- Removing -------------------------------------------------------------------------------- */

static hf_verdict bury(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    hf_delivery_error(delivery, "no use");
    return HF_DEAD;
}

/* Events, a subscription that is behind, and dead letters. */
static void fill(struct scene *scene, const char *name)
{
    hf_bus *bus = open_in(scene, name);
    hf_subscription_options options = quick_options();
    struct recorder *recorder = scene_recorder(scene, bury);
    const char *pattern = "**";

    for (int i = 0; i < EVENTS / 100; i++) {
        hf_new_event items[100];

        for (size_t j = 0; j < COUNTED(items); j++) {
            items[j] = (hf_new_event)HF_NEW_EVENT_INIT;
            items[j].type = "x";
            items[j].payload = "{}";
        }
        assert_ok(hf_publish_many(bus, items, COUNTED(items), NULL));
    }
    assert_ok(hf_subscription_create(bus, "behind", &pattern, 1, &options, NULL));
    subscribe(bus, "deadly", "y", recorder, NULL);
    assert_ok(hf_start(bus));
    publish(bus, "y", "k", "1");
    settle_all(bus, "deadly");
    scene_close(scene, bus);
}

static void removing_takes_everything_and_nothing_else(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus;
    struct dead dead[2];

    fill(scene, "a");
    fill(scene, "b");
    assert_true(look_at(scene->bus, "a").head > EVENTS);
    assert_ok(hf_namespace_remove(scene->bus, "a", HF_OFF));
    assert_status(try_open(scene, "a"), HF_NOTFOUND);

    bus = open_in(scene, "a"); /* a new one: nothing of the old is in it */
    assert_int_equal(look_at(scene->bus, "a").head, 0);
    assert_int_equal(look_at(scene->bus, "a").subscriptions, 0);
    assert_int_equal(dead_of(bus, NULL, dead, 2), 0);
    assert_int_equal(publish(bus, "x", NULL, "1")->position, 1);

    bus = open_in(scene, "b");
    assert_int_equal(dead_of(bus, NULL, dead, 2), 1);
    assert_int_equal(info_of(bus, "behind").lag, look_at(scene->bus, "b").head);
    assert_int_equal(look_at(scene->bus, "b").subscriptions, 2);
}

static void a_namespace_that_processes_have_open_is_not_removed(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    hf_bus *user;
    hf_receipt receipt;
    hf_new_event item = HF_NEW_EVENT_INIT;
    hf_subscription_options quick = quick_options();
    const char *pattern = "*";

    options.namespace_name = "a";
    options.node_name = "the user";
    user = scene_open(scene, &options);
    publish(user, "x", NULL, "1");
    assert_status(hf_namespace_remove(scene->bus, "a", HF_OFF), HF_CONFLICT);
    assert_non_null(strstr(hf_errmsg(), "the user"));
    publish(user, "x", NULL, "2");
    assert_int_equal(look_at(scene->bus, "a").removing_at_us, -1);

    assert_ok(hf_namespace_remove(scene->bus, "a", HF_ON));
    item.type = "x";
    item.payload = "3";
    assert_status(hf_publish(user, &item, &receipt), HF_NOTFOUND);
    assert_non_null(strstr(hf_errmsg(), "namespace a is gone"));
    assert_status(hf_subscription_create(user, "s", &pattern, 1, &quick, NULL), HF_NOTFOUND);
    assert_non_null(strstr(hf_errmsg(), "namespace a is gone"));
    /* Its number is not given to another one, so it cannot get in there. */
    assert_ok(hf_namespace_create(scene->bus, "a", NULL, NULL));
    assert_status(hf_publish(user, &item, &receipt), HF_NOTFOUND);
    assert_int_equal(look_at(scene->bus, "a").head, 0);
    assert_int_equal(look_at(scene->bus, "a").subscriptions, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_namespace_is_made_once_with_its_settings),
        scene_test(bad_and_missing_namespaces_are_refused),
        scene_test(a_bus_without_a_namespace_serves_namespaces_only),
        scene_test(hostile_names_are_names_like_any_other),
        scene_test(removing_takes_everything_and_nothing_else),
        scene_test(a_namespace_that_processes_have_open_is_not_removed),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
