/*
 * test_catchup.c - a subscription that begins with a long log catches up while publishing goes on:
 * every event comes once, and the moment at which it has caught up is none.
 *
 * CATCHUP_EVENTS (200000) are in the log before; four sessions go on publishing, some of them
 * rolled back and some late, until the subscriptions are at the end of what was there before.
 */
#include "postgres/support_stage.h"

#include "support/crowd.h"

#include <stdatomic.h>

#define BEFORE 200000
#define POSITIONS_MAX 2000000
#define PUBLISHERS 4
#define PACKS 2000 /* transactions of a publisher, at most */

/* What a subscription was given. */
struct tally {
    atomic_uchar *calls; /* by position */
    atomic_llong count;
    atomic_llong last; /* strict: the position of the last call */
    atomic_bool disordered;
    bool strict;
};

static hf_verdict count_call(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct tally *tally = ctx;
    (void)delivery;
    if (event->position > 0 && event->position < POSITIONS_MAX) {
        atomic_fetch_add(&tally->calls[event->position], 1);
    }
    if (tally->strict && atomic_exchange(&tally->last, event->position) >= event->position) {
        atomic_store(&tally->disordered, true);
    }
    atomic_fetch_add(&tally->count, 1);
    return HF_ACK;
}

struct rush {
    const char *url;
    atomic_bool stop;
};

static void publish_on(int index, void *ctx)
{
    struct rush *rush = ctx;
    PGconn *pg = side_open_url(rush->url);
    for (int i = 0; i < PACKS && !atomic_load(&rush->stop); i++) {
        side_must(pg, "BEGIN");
        stage_publish(pg);
        if ((i + index) % 7 == 0) {
            usleep(20000);
        }
        stage_publish(pg);
        side_must(pg, (i + index) % 5 == 0 ? "ROLLBACK" : "COMMIT");
        usleep(1000);
    }
    PQfinish(pg);
}

static void catching_up_while_publishing_goes_on_skips_and_repeats_nothing(void **state)
{
    static struct tally tallies[2];
    static struct rush rush;
    static struct crowd crowd;
    struct scene *scene = *state;
    const char *given = getenv("CATCHUP_EVENTS");
    long long before = given ? strtoll(given, NULL, 10) : BEFORE;
    if (scene->path) {
        skip();
    }
    PGconn *pg = side_open_url(scene->url);
    long long id = (long long)stage_namespace(pg);
    side_must(
        pg,
        "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
        "entered_at, id, "
        "namespace_id, type, key, payload) SELECT e.position, e.i, holdfast_private.checksum_of("
        "holdfast_private.content_of(e.id, now(), 't', e.key, NULL, NULL, NULL, NULL, '{}'), e.i, "
        "e.position, now(), NULL), now(), now(), e.id, %lld, 't', e.key, '{}' "
        "FROM (SELECT holdfast_private.draw(%lld) AS position, i, "
        "gen_random_uuid() AS id, 'k' || i %% 100 AS key "
        "FROM generate_series(1, %lld) i) e",
        id, id, before);
    rush.url = scene->url;
    crowd_start(&crowd, PUBLISHERS, publish_on, &rush);
    hf_subscription_options options = quick_options();
    for (int i = 0; i < 2; i++) {
        tallies[i].calls = calloc(POSITIONS_MAX, sizeof *tallies[i].calls);
        assert_non_null(tallies[i].calls);
        tallies[i].strict = i == 1;
        options.order = i == 1 ? HF_ORDER_STRICT : HF_ORDER_RELAXED;
        assert_ok(hf_subscribe(scene->bus, i == 1 ? "strict" : "loose", "*", count_call,
                               &tallies[i], &options, NULL));
    }
    int64_t begin_us = mono_us();
    assert_ok(hf_start(scene->bus));
    int64_t end_us = begin_us + 8 * DEADLINE_MS * 1000;
    while ((tallies[0].count <= before || tallies[1].count <= before) && mono_us() < end_us) {
        usleep(10000);
    }
    int64_t caught_up_us = mono_us() - begin_us;
    atomic_store(&rush.stop, true);
    crowd_join(&crowd);
    settle_all(scene->bus, NULL);
    long long all = side_number(pg, "SELECT count(*) FROM holdfast_private.events");
    printf("# %lld events before and %lld meanwhile; caught up after %lld ms\n", before,
           all - before, (long long)(caught_up_us / 1000));
    assert_true(all > before);
    for (int i = 0; i < 2; i++) {
        PGresult *rows = PQexec(pg, "SELECT position FROM holdfast_private.events");
        assert_int_equal(tallies[i].count, all); /* nothing else came */
        for (int row = 0; row < PQntuples(rows); row++) {
            long long position = strtoll(PQgetvalue(rows, row, 0), NULL, 10);
            if (tallies[i].calls[position] != 1) {
                fail_msg("position %lld came %d times", position, (int)tallies[i].calls[position]);
            }
        }
        PQclear(rows);
        assert_false(tallies[i].disordered);
    }
    PQfinish(pg);
    scene_close(scene, scene->bus);
    free(tallies[0].calls);
    free(tallies[1].calls);
}

static const struct CMUnitTest tests[] = {
    scene_test(catching_up_while_publishing_goes_on_skips_and_repeats_nothing),
};

SCENE_MAIN(tests)
