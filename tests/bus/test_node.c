/*
 * Tests of nodes: what an open bus says about itself, who else is there, and how each of them ends.
 *
 * Buses of one process are nodes of their own. A child is this program started again
 * (support_actor.h): it writes "R" when it is there, and is frozen or killed.
 */
#include "support_actor.h"
#include "support_tables.h"

#include <signal.h>
#include <sys/stat.h>

#define OPENERS 6

/* ---- Parts ----------------------------------------------------------------------------------- */

/* stay URL ID DIARY: is there as a node, and does nothing. */
static int stay(int argc, char **argv)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    options.heartbeat_ms = 1000;
    options.timeout_ms = DEADLINE_MS;
    options.node_id = argc > 2 ? argv[1] : NULL;
    if (argc < 3 || hf_open(argv[0], &options, &bus) != HF_OK) {
        return 1;
    }
    diary_write(argv[2], "R");
    for (;;) {
        pause();
    }
}

static hf_verdict never_end(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    diary_write(ctx, "B");
    for (;;) {
        pause();
    }
    return HF_ACK;
}

/* work URL ID DIARY: gets an event of subscription "a" and keeps it. */
static int work(int argc, char **argv)
{
    hf_subscription_options subscription = quick_options();
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    options.node_id = argc > 2 ? argv[1] : NULL;
    options.timeout_ms = DEADLINE_MS;
    if (argc < 3 || hf_open(argv[0], &options, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", never_end, argv[2], &subscription, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* What hf_node_list says about the nodes of one id; "" : about all. */
struct looked {
    const char *id;
    int count;
    int self;
    hf_node_state state; /* of the first, as are: */
    int64_t pid;
    int64_t heartbeat_ms;
    int64_t started_at_us;
    int64_t seen_at_us;
    int64_t stopped_at_us;
    char name[128];
    char first_id[HF_NODE_ID_BYTES_MAX + 1];
    char description[HF_NODE_DESCRIPTION_BYTES_MAX + 1];
    char metadata[HF_NODE_METADATA_BYTES_MAX + 1];
    char host[128];
    char version[64];
};

static int note(const hf_node_info *info, void *ctx)
{
    struct looked *looked = ctx;

    if (looked->id[0] && strcmp(looked->id, info->node_id) != 0) {
        return 0;
    }
    looked->self += info->self;
    if (looked->count++ > 0) {
        return 0;
    }
    looked->state = info->state;
    looked->pid = info->pid;
    looked->heartbeat_ms = info->heartbeat_ms;
    looked->started_at_us = info->started_at_us;
    looked->seen_at_us = info->seen_at_us;
    looked->stopped_at_us = info->stopped_at_us;
    snprintf(looked->first_id, sizeof looked->first_id, "%s", info->node_id);
    snprintf(looked->name, sizeof looked->name, "%s", info->name);
    snprintf(looked->description, sizeof looked->description, "%s",
             info->description ? info->description : "(none)");
    snprintf(looked->metadata, sizeof looked->metadata, "%s",
             info->metadata_json ? info->metadata_json : "(none)");
    snprintf(looked->host, sizeof looked->host, "%s", info->host ? info->host : "(none)");
    snprintf(looked->version, sizeof looked->version, "%s",
             info->version ? info->version : "(none)");
    return 0;
}

static struct looked look_at(hf_bus *bus, const char *id)
{
    struct looked looked = {.id = id};

    assert_ok(hf_node_list(bus, note, &looked));
    return looked;
}

static struct looked look_at_self(hf_bus *bus)
{
    struct looked looked = {.id = ""};

    assert_ok(hf_node_get(bus, NULL, note, &looked));
    assert_int_equal(looked.count, 1);
    return looked;
}

static hf_bus *open_as(struct scene *scene, const char *id)
{
    hf_options options = scene->options;

    options.node_id = id;
    return scene_open(scene, &options);
}

static hf_status try_open(struct scene *scene, const char *id)
{
    hf_options options = scene->options;
    hf_bus *bus = NULL;
    hf_status status;

    options.node_id = id;
    status = hf_open(scene->url, &options, &bus);
    hf_close(&bus);
    return status;
}

struct expected {
    hf_bus *bus;
    const char *id;
    hf_node_state state;
};

static bool is_in_state(void *ctx)
{
    struct expected *expected = ctx;
    struct looked looked = look_at(expected->bus, expected->id);

    return looked.count > 0 && looked.state == expected->state;
}

static void await_state(hf_bus *bus, const char *id, hf_node_state state)
{
    struct expected expected = {bus, id, state};

    assert_true(wait_until(is_in_state, &expected));
}

static int is_brief(const hf_node_info *info, void *ctx)
{
    *(bool *)ctx |= strcmp(info->name, "brief") == 0;
    return 0;
}

static bool has_brief(void *ctx)
{
    bool found = false;

    assert_ok(hf_node_list(ctx, is_brief, &found));
    return found;
}

/* Changes the database behind the back of the bus. */
static void change_rows(struct scene *scene, const char *on_sqlite, const char *on_postgres)
{
    tables_run(scene, scene->path ? on_sqlite : on_postgres);
}

/* ---- A brief bus ----------------------------------------------------------------------------- */

static void a_brief_bus_that_stays_becomes_a_node_by_itself(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    hf_bus *bus;
    char id[HF_NODE_ID_BYTES_MAX + 1] = "";

    options.brief = 1;
    options.node_name = "brief";
    options.heartbeat_ms = 3600000; /* it is not the second heartbeat */
    bus = scene_open(scene, &options);
    assert_true(wait_until(has_brief, scene->bus));
    snprintf(id, sizeof id, "%s", look_at_self(bus).first_id);
    assert_int_equal(look_at(scene->bus, id).state, HF_NODE_LIVE);
}

/* ---- What a node says about itself ----------------------------------------------------------- */

static void an_open_bus_is_a_node_with_its_id_and_metadata(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    int64_t before_us = wall_us();
    struct looked looked;
    hf_bus *bus;

    options.node_id = "api-1";
    options.node_name = "the API, first of three";
    options.node_description = "answers questions; \xE2\x82\xAC 'quoted' \"twice\" %s \\";
    options.node_metadata_json = "{\"zone\": \"b\", \"n\": 1.50}";
    options.heartbeat_ms = 60000;
    bus = scene_open(scene, &options);
    looked = look_at(scene->bus, "api-1");
    assert_int_equal(looked.count, 1);
    assert_int_equal(looked.self, 0);
    assert_int_equal(looked.state, HF_NODE_LIVE);
    assert_string_equal(looked.name, options.node_name);
    assert_string_equal(looked.description, options.node_description);
    assert_string_equal(looked.metadata, options.node_metadata_json);
    assert_string_equal(looked.version, HF_VERSION);
    assert_int_equal(looked.pid, getpid());
    assert_int_equal(looked.heartbeat_ms, 60000);
    assert_int_equal(looked.stopped_at_us, -1);
    assert_in_range(looked.started_at_us, before_us - 60000000, wall_us() + 60000000);
    assert_true(looked.seen_at_us >= looked.started_at_us);
    assert_true(strlen(looked.host) > 0);
    assert_string_equal(look_at_self(bus).first_id, "api-1");
    assert_int_equal(look_at_self(bus).self, 1);
    /* The scene's bus is the other one. */
    assert_int_equal(look_at(bus, "").count, 2);
}

static void a_generated_id_is_unlike_any_other(void **state)
{
    struct scene *scene = *state;
    char first[HF_NODE_ID_BYTES_MAX + 1];
    hf_bus *other = scene_open(scene, NULL);

    snprintf(first, sizeof first, "%s", look_at_self(scene->bus).first_id);
    assert_string_not_equal(first, look_at_self(other).first_id);
    assert_int_equal(look_at(other, first).count, 1);
    assert_string_equal(look_at_self(other).description, "(none)");
    assert_string_equal(look_at_self(other).metadata, "(none)");
    scene_reopen(scene);
    assert_string_not_equal(first, look_at_self(scene->bus).first_id);
}

static void hostile_ids_become_harmless_and_stay_different_and_are_found(void **state)
{
    static const char *const given[] = {
        "a b",
        "a/b",
        "a'b",
        "a\"b",
        "a;b --",
        "\xE6\x9D\xB1\xE4\xBA\xAC",
        "\xE5\xA4\xA7\xE9\x98\xAA",
        " ",
        "%s%n",
        "a\nb",
        "../../etc",
        "\xff\xfe",
        "$(reboot)",
        "{\"a\": [1]}",
        "holdfast_private.processes",
    };
    struct scene *scene = *state;
    char ids[COUNTED(given)][HF_NODE_ID_BYTES_MAX + 1];
    char longest[3 * HF_NODE_ID_BYTES_MAX];

    for (size_t i = 0; i < COUNTED(given); i++) {
        hf_bus *bus = open_as(scene, given[i]);

        snprintf(ids[i], sizeof ids[i], "%s", look_at_self(bus).first_id);
        assert_int_equal(strspn(ids[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789._:-"),
                         strlen(ids[i]));
        assert_true(strlen(ids[i]) > 0);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(ids[i], ids[j]);
        }
        assert_int_equal(look_at(scene->bus, ids[i]).state, HF_NODE_LIVE);
        struct looked looked = {.id = ""};
        assert_ok(hf_node_get(scene->bus, given[i], note, &looked));
        assert_string_equal(looked.first_id, ids[i]);
        scene_close(scene, bus);
        assert_int_equal(look_at(scene->bus, ids[i]).state, HF_NODE_GONE);
        bus = open_as(scene, given[i]);
        assert_string_equal(look_at_self(bus).first_id, ids[i]);
        scene_close(scene, bus);
    }
    assert_string_equal(ids[COUNTED(given) - 1], "holdfast_private.processes");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(strlen(look_at_self(open_as(scene, longest)).first_id), HF_NODE_ID_BYTES_MAX);
    longest[HF_NODE_ID_BYTES_MAX] = '\0';
    assert_string_equal(look_at_self(open_as(scene, longest)).first_id, longest);
}

static hf_status open_with(struct scene *scene, const hf_options *options)
{
    hf_bus *bus = NULL;
    hf_status status = hf_open(scene->url, options, &bus);

    hf_close(&bus);
    return status;
}

static void bad_ids_and_settings_of_a_node_are_refused(void **state)
{
    struct scene *scene = *state;
    char longest[HF_NODE_METADATA_BYTES_MAX + 16];
    hf_options options = scene->options;

    assert_status(try_open(scene, ""), HF_INVALID);
    options.node_metadata_json = "[1]";
    assert_status(open_with(scene, &options), HF_INVALID);
    options.node_metadata_json = "{";
    assert_status(open_with(scene, &options), HF_INVALID);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "{\"a\":\"", 6);
    memcpy(longest + sizeof longest - 3, "\"}", 3);
    options.node_metadata_json = longest;
    assert_status(open_with(scene, &options), HF_INVALID);
    options.node_metadata_json = NULL;
    longest[HF_NODE_DESCRIPTION_BYTES_MAX + 1] = '\0';
    options.node_description = longest;
    assert_status(open_with(scene, &options), HF_INVALID);
    options.node_description = "two\nlines";
    assert_status(open_with(scene, &options), HF_INVALID);
    options.node_description = "\xff";
    assert_status(open_with(scene, &options), HF_INVALID);
    options.node_description = NULL;
    options.heartbeat_ms = 999;
    assert_status(open_with(scene, &options), HF_INVALID);
    assert_status(hf_node_list(scene->bus, NULL, NULL), HF_INVALID);
    assert_status(hf_node_get(scene->bus, "missing", note, &(struct looked){.id = ""}),
                  HF_NOTFOUND);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void a_clean_stop_is_listed_with_its_time_until_the_node_comes_again(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = open_as(scene, "api");
    int64_t started_at_us = look_at(scene->bus, "api").started_at_us;
    struct looked looked;

    scene_close(scene, bus);
    looked = look_at(scene->bus, "api");
    assert_int_equal(looked.count, 1);
    assert_int_equal(looked.state, HF_NODE_GONE);
    assert_int_equal(looked.started_at_us, started_at_us);
    assert_true(looked.stopped_at_us >= started_at_us);
    assert_int_equal(looked.seen_at_us, looked.stopped_at_us);
    bus = open_as(scene, "api");
    looked = look_at(scene->bus, "api");
    assert_int_equal(looked.count, 1);
    assert_int_equal(looked.state, HF_NODE_LIVE);
    assert_int_equal(looked.stopped_at_us, -1);
    scene_close(scene, bus);
    assert_int_equal(look_at(scene->bus, "api").count, 1);
    assert_true(look_at(scene->bus, "api").started_at_us > started_at_us);
}

static void a_node_that_comes_and_goes_without_an_id_leaves_no_trace(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    hf_bus *bus;

    options.heartbeat_ms = 3600000; /* however slow the machine is */
    bus = scene_open(scene, &options);
    publish(bus, "x", NULL, "1");
    assert_int_equal(look_at(scene->bus, "").count, 2);
    scene_close(scene, bus);
    assert_int_equal(look_at(scene->bus, "").count, 1);
}

static void a_node_that_is_gone_is_forgotten_after_a_day(void **state)
{
    struct scene *scene = *state;

    assert_ok(try_open(scene, "old"));
    change_rows(scene, "UPDATE holdfast_past_nodes SET ended_at = ended_at - 86300000000",
                "UPDATE holdfast_private.past_nodes SET ended_at = ended_at - interval '86300 s'");
    assert_int_equal(look_at(scene->bus, "old").count, 1);
    change_rows(scene, "UPDATE holdfast_past_nodes SET ended_at = ended_at - 101000000",
                "UPDATE holdfast_private.past_nodes SET ended_at = ended_at - interval '101 s'");
    assert_int_equal(look_at(scene->bus, "old").count, 0);
    assert_status(hf_node_get(scene->bus, "old", note, &(struct looked){.id = ""}), HF_NOTFOUND);
}

static void only_the_last_thousand_that_are_gone_are_kept(void **state)
{
    struct scene *scene = *state;

    assert_ok(try_open(scene, "first"));
    change_rows(
        scene,
        "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 1000) "
        "INSERT INTO holdfast_past_nodes (namespace_id, node_id, started_at, seen_at, "
        "ended_at, heartbeat_ms, pid, node_name) SELECT namespace_id, 'n' || n, "
        "started_at, seen_at, ended_at + n, heartbeat_ms, pid, node_name "
        "FROM holdfast_past_nodes, g",
        "INSERT INTO holdfast_private.past_nodes (namespace_id, node_id, started_at, seen_at, "
        "ended_at, heartbeat_ms, pid, node_name) SELECT namespace_id, 'n' || n, "
        "started_at, seen_at, ended_at + n * interval '1 us', heartbeat_ms, pid, node_name "
        "FROM holdfast_private.past_nodes, generate_series(1, 1000) n");
    assert_ok(try_open(scene, "last"));
    assert_int_equal(look_at(scene->bus, "first").count, 0);
    assert_int_equal(look_at(scene->bus, "n1").count, 0);
    assert_int_equal(look_at(scene->bus, "n2").count, 1);
    assert_int_equal(look_at(scene->bus, "n1000").count, 1);
    assert_int_equal(look_at(scene->bus, "last").count, 1);
}

static void a_killed_node_is_gone_at_once_and_its_id_is_free(void **state)
{
    struct scene *scene = *state;
    char diary[512];
    struct looked looked;
    pid_t pid;

    snprintf(diary, sizeof diary, "%s", scene_file(scene, "diary"));
    pid = actor_start("stay", scene->url, "victim", diary, NULL);
    assert_true(diary_wait(diary, "R", 1));
    assert_int_equal(look_at(scene->bus, "victim").pid, pid);
    actor_kill(pid);
    await_state(scene->bus, "victim", HF_NODE_GONE);
    looked = look_at(scene->bus, "victim");
    assert_int_equal(looked.count, 1);
    assert_int_equal(looked.stopped_at_us, -1);
    assert_int_equal(looked.pid, pid);
    assert_ok(try_open(scene, "victim"));
    looked = look_at(scene->bus, "victim");
    assert_int_equal(looked.count, 1);
    assert_int_equal(looked.pid, getpid());
    assert_int_not_equal(looked.stopped_at_us, -1);
}

static void events_in_flight_on_a_killed_node_go_to_another_node(void **state)
{
    struct scene *scene = *state;
    struct recorder *recorder = scene_recorder(scene, NULL);
    hf_subscription_options options = quick_options();
    char diary[512];
    pid_t pid;

    snprintf(diary, sizeof diary, "%s", scene_file(scene, "diary"));
    publish(scene->bus, "x", NULL, "1");
    pid = actor_start("work", scene->url, "victim", diary, NULL);
    assert_true(diary_wait(diary, "B", 1));
    subscribe(scene->bus, "a", "*", recorder, &options);
    assert_ok(hf_start(scene->bus));
    actor_kill(pid);
    assert_true(recorder_wait(recorder, 1));
    await_state(scene->bus, "victim", HF_NODE_GONE);
    settle_all(scene->bus, "a");
    /* Its sign of life goes when its work has been taken over; the node stays known. */
    scene_reopen(scene);
    assert_int_equal(look_at(scene->bus, "victim").state, HF_NODE_GONE);
    assert_int_equal(look_at(scene->bus, "victim").stopped_at_us, -1);
}

static void a_frozen_node_is_stale_until_it_wakes_up(void **state)
{
    struct scene *scene = *state;
    char diary[512];
    pid_t pid;

    snprintf(diary, sizeof diary, "%s", scene_file(scene, "diary"));
    pid = actor_start("stay", scene->url, "sleeper", diary, NULL);
    assert_true(diary_wait(diary, "R", 1));
    await_state(scene->bus, "sleeper", HF_NODE_LIVE);
    actor_freeze(scene, pid);
    await_state(scene->bus, "sleeper", HF_NODE_STALE);
    assert_int_equal(look_at(scene->bus, "sleeper").stopped_at_us, -1);
    assert_ok(try_open(scene, "sleeper")); /* its place can be taken */
    kill(pid, SIGCONT);
    await_state(scene->bus, "sleeper", HF_NODE_LIVE);
    assert_int_equal(look_at(scene->bus, "sleeper").pid, pid);
    actor_kill(pid);
}

/* ---- Heartbeats ------------------------------------------------------------------------------ */

struct beat {
    hf_bus *bus;
    int64_t after_us;
};

static bool has_beaten(void *ctx)
{
    struct beat *beat = ctx;

    return look_at_self(beat->bus).seen_at_us > beat->after_us;
}

static int64_t file_bytes(const char *path, const char *suffix)
{
    char name[512];
    struct stat found;

    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &found) == 0 ? (int64_t)found.st_size : -1;
}

static void an_idle_bus_shows_heartbeats_and_on_sqlite_writes_nothing(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    struct beat beat;
    int64_t wal_bytes = 0;

    options.heartbeat_ms = 1000;
    beat.bus = scene_open(scene, &options);
    publish(beat.bus, "x", NULL, "1");
    if (scene->path) {
        wal_bytes = file_bytes(scene->path, "-wal");
    }
    for (int i = 0; i < 3; i++) {
        beat.after_us = look_at_self(beat.bus).seen_at_us;
        assert_true(wait_until(has_beaten, &beat));
    }
    if (scene->path) {
        assert_int_equal(file_bytes(scene->path, "-wal"), wal_bytes);
    }
}

static void a_node_of_a_server_without_heartbeats_is_stale(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    hf_bus *bus;

    if (scene->path) {
        skip();
    } /* a file has no clock of its own; see tests/store/test_node */
    options.node_id = "quiet";
    options.heartbeat_ms = 3600000;
    bus = scene_open(scene, &options);
    change_rows(scene, NULL,
                "UPDATE holdfast_private.processes SET seen_at = seen_at - interval '2 h' "
                "WHERE node_id = 'quiet'");
    assert_int_equal(look_at(scene->bus, "quiet").state, HF_NODE_LIVE);
    assert_status(try_open(scene, "quiet"), HF_CONFLICT);
    change_rows(scene, NULL,
                "UPDATE holdfast_private.processes SET seen_at = seen_at - interval '2 h' "
                "WHERE node_id = 'quiet'");
    assert_int_equal(look_at(scene->bus, "quiet").state, HF_NODE_STALE);
    assert_ok(try_open(scene, "quiet"));
    /* Its own end says so all the same. */
    scene_close(scene, bus);
    assert_int_equal(look_at(scene->bus, "quiet").state, HF_NODE_GONE);
}

/* ---- One id, one node ------------------------------------------------------------------------ */

static void a_second_live_node_of_one_id_is_refused_with_the_name_of_the_first(void **state)
{
    struct scene *scene = *state;
    hf_bus *bus = open_as(scene, "api");
    hf_options options = scene->options;
    char pid[32];

    assert_status(try_open(scene, "api"), HF_CONFLICT);
    snprintf(pid, sizeof pid, "process %d ", (int)getpid());
    assert_non_null(strstr(hf_errmsg(), "node api"));
    assert_non_null(strstr(hf_errmsg(), pid));
    assert_non_null(strstr(hf_errmsg(), look_at(scene->bus, "api").host));
    assert_non_null(strstr(hf_errmsg(), "since 20"));
    /* In another namespace it is another node. */
    options.node_id = "api";
    options.namespace_name = "other";
    scene_open(scene, &options);
    assert_int_equal(look_at(scene->bus, "api").count, 1);
    scene_close(scene, bus);
    assert_int_equal(look_at(scene->bus, "api").state, HF_NODE_GONE);
    open_as(scene, "api");
    assert_int_equal(look_at(scene->bus, "api").state, HF_NODE_LIVE);
}

struct opener {
    pthread_t thread;
    const char *url;
    hf_options options;
    hf_bus *bus;
    hf_status status;
};

static void *open_now(void *ctx)
{
    struct opener *opener = ctx;

    opener->status = hf_open(opener->url, &opener->options, &opener->bus);
    return NULL;
}

static void of_several_processes_that_open_with_one_id_one_gets_it(void **state)
{
    struct scene *scene = *state;
    struct opener openers[OPENERS];
    int opened = 0;
    int refused = 0;

    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (struct opener){.url = scene->url, .options = scene->options};
        openers[i].options.node_id = "one";
        assert_int_equal(pthread_create(&openers[i].thread, NULL, open_now, &openers[i]), 0);
    }
    for (int i = 0; i < OPENERS; i++) {
        pthread_join(openers[i].thread, NULL);
    }
    for (int i = 0; i < OPENERS; i++) {
        opened += openers[i].status == HF_OK;
        refused += openers[i].status == HF_CONFLICT;
        hf_close(&openers[i].bus);
    }
    assert_int_equal(opened, 1);
    assert_int_equal(refused, OPENERS - 1);
}

static void a_removed_namespace_takes_its_nodes_along(void **state)
{
    struct scene *scene = *state;
    hf_options options = scene->options;
    hf_bus *bus;

    options.namespace_name = "trial";
    options.node_id = "api";
    bus = scene_open(scene, &options);
    assert_status(hf_namespace_remove(scene->bus, "trial", HF_OFF), HF_CONFLICT);
    scene_close(scene, bus);
    assert_ok(hf_namespace_remove(scene->bus, "trial", HF_OFF));
    options.node_id = "other";
    bus = scene_open(scene, &options);
    assert_int_equal(look_at(bus, "").count, 1);
    assert_int_equal(look_at(bus, "api").count, 0);
    /* One that was not asked leaves nothing behind either. */
    assert_ok(hf_namespace_remove(scene->bus, "trial", HF_ON));
    scene_close(scene, bus);
    assert_int_equal(tables_number(scene, scene->path
                                              ? "SELECT count(*) FROM holdfast_past_nodes"
                                              : "SELECT count(*) FROM holdfast_private.past_nodes"),
                     0);
}

static const struct CMUnitTest tests[] = {
    scene_test(an_open_bus_is_a_node_with_its_id_and_metadata),
    scene_test(a_generated_id_is_unlike_any_other),
    scene_test(hostile_ids_become_harmless_and_stay_different_and_are_found),
    scene_test(bad_ids_and_settings_of_a_node_are_refused),
    scene_test(a_clean_stop_is_listed_with_its_time_until_the_node_comes_again),
    scene_test(a_node_that_comes_and_goes_without_an_id_leaves_no_trace),
    scene_test(a_node_that_is_gone_is_forgotten_after_a_day),
    scene_test(only_the_last_thousand_that_are_gone_are_kept),
    scene_test(a_killed_node_is_gone_at_once_and_its_id_is_free),
    scene_test(events_in_flight_on_a_killed_node_go_to_another_node),
    scene_test(a_frozen_node_is_stale_until_it_wakes_up),
    scene_test(an_idle_bus_shows_heartbeats_and_on_sqlite_writes_nothing),
    scene_test(a_node_of_a_server_without_heartbeats_is_stale),
    scene_test(a_second_live_node_of_one_id_is_refused_with_the_name_of_the_first),
    scene_test(of_several_processes_that_open_with_one_id_one_gets_it),
    scene_test(a_removed_namespace_takes_its_nodes_along),
    scene_test(a_brief_bus_that_stays_becomes_a_node_by_itself),
};

static const struct part parts[] = {{"stay", stay}, {"work", work}};

ACTOR_MAIN(tests, parts)
