/*
 * test_silence.c - connections that say nothing any more, and servers that take their time.
 *
 * The deadline of every call here is far away: what is noticed is noticed by asking
 * (src/store/postgres/wire/backend_check.c).
 */
#include "postgres/support_proxy.h"
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/make.h"

#include "base/uuid.h"
#include "store/postgres/wire/session.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define NOTICED_MS 10000 /* on a fast machine a silence is noticed within this time */
#define GRACE_MS 20000   /* on a slow machine it may take that much longer */
#define FAR_MS (10 * DEADLINE_MS)
#define CANCELS 8 /* as in session.c */

struct scene {
    struct fixture *f;
    struct proxy *proxy;
    struct store *store; /* behind the proxy */
    struct store *direct;
    PGconn *side;
    int64_t namespace_id;
};

static struct scene scene_of(struct fixture *f)
{
    const char *dir = getenv("TEST_POSTGRES");
    if (f->sqlite || !dir) {
        skip();
    }
    char url[sizeof f->url + 64];
    struct scene s = {.f = f, .proxy = proxy_start(dir), .direct = fixture_open(f, "direct")};
    struct store_options options = fixture_options(f, "proxied");
    options.timeout_ms = FAR_MS;
    proxy_url(s.proxy, f->url, url, sizeof url);
    must_answer(HF_OK, store_open(url, &options, &s.store));
    s.side = side_open(f);
    s.namespace_id = side_namespace(s.side, f);
    append_one(s.store, "t", NULL); /* everything is prepared */
    return s;
}

static void scene_end(struct scene *s)
{
    store_close(s->store);
    proxy_stop(s->proxy);
    PQfinish(s->side);
}

static hf_status publish(struct scene *s, struct new_event *event, int64_t timeout_ms)
{
    *event = event_of("t", NULL);
    struct append append = append_of(event, 1);
    return store_run(s->store, &append.change, deadline_after_ms(timeout_ms));
}

static int64_t stored(struct scene *s, const struct new_event *event)
{
    char id[UUID_TEXT_BYTES];
    uuid_format(event->id, id);
    return side_number(s->side,
                       "SELECT count(*) FROM holdfast_private.events WHERE namespace_id = %" PRId64
                       " AND id = '%s'",
                       s->namespace_id, id);
}

static void stall(struct scene *s, enum proxy_side side, bool all)
{
    proxy_arm(s->proxy,
              (struct proxy_fault){.action = PROXY_STALL, .side = side, .nth = 1, .all = all});
}

/* Another connection asks, and the publish is resolved by its id. */
static void a_publish_on_a_silent_connection_is_resolved(void **state)
{
    struct scene s = scene_of(*state);
    struct new_event event;
    stall(&s, PROXY_SERVER, false);
    int64_t begun_ms = mono_ms();
    must_answer(HF_OK, publish(&s, &event, FAR_MS));
    must_hold(proxy_struck(s.proxy));
    must_hold(mono_ms() - begun_ms < NOTICED_MS + GRACE_MS);
    must_equal(true, event.duplicate); /* the answer was lost, not the event */
    proxy_calm(s.proxy);
    must_equal(1, stored(&s, &event));
    scene_end(&s);
}

/* The server answers no more: the publish is open, which is said, and later it is clear. */
static void a_server_that_falls_silent_is_noticed(void **state)
{
    struct scene s = scene_of(*state);
    struct new_event event;
    stall(&s, PROXY_CLIENT, true);
    int64_t begun_ms;
    int64_t timeout_ms = 50;
    hf_status status;
    do { /* on a slow machine the time may be over before anything is sent */
        timeout_ms *= 2;
        begun_ms = mono_ms();
        status = publish(&s, &event, timeout_ms);
    } while (status == HF_TIMEOUT && !proxy_struck(s.proxy) && timeout_ms < DEADLINE_MS);
    must_answer(HF_UNKNOWN, status);
    must_hold(mono_ms() - begun_ms < timeout_ms + NOTICED_MS + GRACE_MS);
    must_equal(0, stored(&s, &event));
    proxy_calm(s.proxy); /* what was held up comes late */
    int64_t late = stored(&s, &event);
    must_answer(HF_OK, append_event(s.direct, &event));
    must_equal(late, event.duplicate);
    must_equal(1, stored(&s, &event));
    scene_end(&s);
}

struct work {
    struct scene *scene;
    struct new_event event;
};

static void publish_slowly(int index, void *ctx)
{
    struct work *work = ctx;
    (void)index;
    must_answer(HF_OK, publish(work->scene, &work->event, FAR_MS));
}

/* A statement that takes its time is not given up: this one takes until it was asked about. */
static void a_server_that_works_is_waited_for(void **state)
{
    struct scene s = scene_of(*state);
    struct work work = {.scene = &s};
    struct crowd crowd;
    side_must(s.side, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                      "$$ BEGIN WHILE NOT pg_try_advisory_xact_lock(4711) LOOP "
                      "PERFORM pg_sleep(0.01); END LOOP; RETURN NULL; END $$");
    side_must(s.side,
              "CREATE TRIGGER slow AFTER INSERT ON holdfast_private.events_%" PRId64
              " FOR EACH STATEMENT EXECUTE FUNCTION slow()",
              s.namespace_id);
    side_must(s.side, "SELECT pg_advisory_lock(4711)");
    int64_t before = proxy_connections(s.proxy);
    crowd_start(&crowd, 1, publish_slowly, &work);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (proxy_connections(s.proxy) < before + 2 && mono_ms() < until_ms) { /* it asks twice */
        usleep(1000);
    }
    bool asked = proxy_connections(s.proxy) >= before + 2;
    side_must(s.side, "SELECT pg_advisory_unlock(4711)");
    crowd_join(&crowd);
    must_hold(asked);
    must_equal(false, work.event.duplicate);
    side_must(s.side, "DROP FUNCTION slow() CASCADE");
    must_equal(1, stored(&s, &work.event));
    scene_end(&s);
}

/* A stalled keeper hears nothing, but the news come when it has found out. */
static void a_silent_keeper_connects_again(void **state)
{
    struct scene s = scene_of(*state);
    proxy_shut(s.proxy, true); /* all its connections, the keeper's too */
    uint64_t seen = store_news(s.store);
    append_one(s.direct, "t", NULL);
    must_hold(store_wait(s.store, seen, DEADLINE_MS) != seen);
    scene_end(&s);
}

/* Threads of this process with this name. */
static int threads_named(const char *name)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    must_hold(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300];
        char line[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            (void)!fgets(line, sizeof line, file);
            fclose(file);
        }
        line[strcspn(line, "\n")] = '\0';
        found += strcmp(line, name) == 0;
    }
    closedir(tasks);
    return found;
}

/* Each is a connection and a thread, and a network that swallows everything ends none of them. */
static void requests_to_stop_do_not_pile_up(void **state)
{
    struct scene s = scene_of(*state);
    char url[sizeof s.f->url + 64];
    proxy_url(s.proxy, s.f->url, url, sizeof url);
    PGconn *pg = side_open_url(url);
    stall(&s, PROXY_CLIENT, true);
    must_equal(1, PQsendQuery(pg, "SELECT 1"));
    int64_t begun_ms = mono_ms();
    while (!proxy_struck(s.proxy)) {
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        usleep(1000);
    }
    while (threads_named("hf-cancel") < CANCELS) { /* a thread gives itself its name */
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        session_cancel(PQgetCancel(pg));
        usleep(1000);
    }
    for (int i = 0; i < 100; i++) {
        session_cancel(PQgetCancel(pg));
        usleep(1000);
        must_equal(CANCELS, threads_named("hf-cancel"));
    }
    proxy_calm(s.proxy);
    begun_ms = mono_ms();
    while (threads_named("hf-cancel") > 0) { /* and then there is room for others again */
        must_hold(mono_ms() - begun_ms < DEADLINE_MS);
        usleep(1000);
    }
    PQfinish(pg);
    scene_end(&s);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_publish_on_a_silent_connection_is_resolved),
    CLAIM(a_server_that_falls_silent_is_noticed),
    CLAIM(a_server_that_works_is_waited_for),
    CLAIM(requests_to_stop_do_not_pile_up),
    CLAIM(a_silent_keeper_connects_again),
};

FIXTURE_MAIN("silence", claims, NULL)
