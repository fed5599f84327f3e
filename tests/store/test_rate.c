/*
 * test_rate.c - how fast a subscription moves: counted in half minutes, so that the answer covers
 * the last 30 to 60 seconds without a row per event. Time is the test's, so this is SQLite's alone:
 * a server has a clock of its own (tests/postgres/views.sh).
 */
#include "support_scene.h"

#define SECOND INT64_C(1000000)
#define LATER (T0 + 120 * SECOND) /* a half minute begins; the subscriptions of T0 are not young */

/* At so many seconds after LATER; in thousandths of an event per second, -1: not known. */
static int64_t rate_at(const struct scene *s, int64_t seconds)
{
    struct progress progress;
    must_answer(HF_OK, store_progress(s->store, s->id, LATER + seconds * SECOND, &progress));
    return progress.rate < 0 ? -1 : (int64_t)(progress.rate * 1000 + 0.5);
}

static void settle_at(struct scene *s, int64_t seconds, int64_t checkpoint)
{
    s->owner.now_us = LATER + seconds * SECOND;
    must_answer(HF_OK, settle(&s->owner, checkpoint, NULL, 0));
}

static void a_rate_is_that_of_the_last_minute(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abcdefghij");
    must_equal(0, rate_at(&s, 0)); /* it has never moved */
    settle_at(&s, 0, 1);
    settle_at(&s, 10, 3);
    must_equal(3 * 1000 / 40, rate_at(&s, 10)); /* since the half minute before this one began */
    must_equal(3 * 1000 / 50, rate_at(&s, 20));
    must_equal(3 * 1000 / 40, rate_at(&s, 40));
    settle_at(&s, 40, 7);
    must_equal(7 * 1000 / 40, rate_at(&s, 40));
    must_equal(4 * 1000 / 40, rate_at(&s, 70)); /* what was settled before second 30 is past */
    settle_at(&s, 75, 9);
    must_equal((4 + 2) * 1000 / 50, rate_at(&s, 80));
    must_equal(2 * 1000 / 40, rate_at(&s, 100));
    must_equal(0, rate_at(&s, 120));
    must_equal(0, rate_at(&s, 86400));
    settle_at(&s, 86400, 10); /* after a pause only what comes then counts */
    must_equal(1000 / 40, rate_at(&s, 86410));
}

static void partitions_have_the_mean_of_their_rates(void **state)
{
    fixture_sqlite_only(*state);
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abcdefgh");
    struct scene s = {.store = store, .id = subscribe_ordered(store, "s", 2)};
    s.owner = own(store, s.id, 0);
    settle_at(&s, 0, 8);
    must_equal(8 * 1000 / 2 / 40, rate_at(&s, 10));
    s.owner = own(store, s.id, 1);
    settle_at(&s, 10, 8);
    must_equal(8 * 1000 / 40, rate_at(&s, 10));
}

static void a_cursor_has_a_rate(void **state)
{
    fixture_sqlite_only(*state);
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abcdefgh");
    struct scene s = {.store = store, .id = subscribe_shared(store, "s")};
    must_equal(0, rate_at(&s, 0));
    take(*state, store, s.id, 8, LATER);
    must_equal(8 * 1000 / 40, rate_at(&s, 10));
    must_equal(0, rate_at(&s, 60));
}

static void a_rate_is_not_known_after_a_jump(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abcdefghij");
    settle_at(&s, 0, 8);
    must_equal(-1, rate_at(&s, -1)); /* the clock was set back */
    struct seek seek = {.change = {.kind = CHANGE_SEEK, .now_us = LATER + 10 * SECOND},
                        .subscription_id = s.id,
                        .position = 2};
    must_answer(HF_OK, RUN(s.store, &seek));
    must_equal(-1, rate_at(&s, 20));
    must_equal(-1, rate_at(&s, 40));
    must_equal(0, rate_at(&s, 60));
    s.owner = own(s.store, s.id, 0);
    settle_at(&s, 65, 4);
    must_equal(2 * 1000 / 40, rate_at(&s, 70));
    settle_at(&s, 0, 5); /* the clock was set back */
    must_equal(-1, rate_at(&s, 0));
    settle_at(&s, 35, 6);
    must_equal(-1, rate_at(&s, 40));
    settle_at(&s, 65, 7);
    must_equal(2 * 1000 / 40, rate_at(&s, 70));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_rate_is_that_of_the_last_minute),
    CLAIM(partitions_have_the_mean_of_their_rates),
    CLAIM(a_cursor_has_a_rate),
    CLAIM(a_rate_is_not_known_after_a_jump),
};

FIXTURE_MAIN("rate", claims, NULL)
