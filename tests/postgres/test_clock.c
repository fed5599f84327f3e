/*
 * test_clock.c - wrong clocks: times in the store are the server's whatever this machine's clock
 * shows, and a server whose clock is set back strands nothing.
 *
 * A server's clock cannot be set here. What is stored is moved into the future instead, which is
 * the same to every process.
 */
#include "support_side.h"

#include "base/time/clock.h"
#include "support/make.h"

#include <string.h>
#include <time.h>

#define DAY_US INT64_C(86400000000)
#define HOUR_US INT64_C(3600000000)
#define SLACK_US INT64_C(30000000) /* for a slow machine: next to nothing beside an hour */

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void must_be_near(int64_t wanted_us, int64_t actual_us)
{
    must_hold(actual_us > wanted_us - SLACK_US && actual_us < wanted_us + SLACK_US);
}

/* The wall clock is wrong by this from now on; the steady one goes on, in steps. */
static void set_clock(int64_t us)
{
    clock_fake_off();
    clock_fake_set(clock_wall_us() + us, clock_mono_us());
}

static int64_t seconds_until(PGconn *pg, const char *what)
{
    return side_number(pg, "SELECT extract(epoch FROM %s - clock_timestamp())::bigint", what);
}

/* A claim with a lease of an hour, and what the store says of its end. */
static void claim_an_hour(struct fixture *f, struct store *store, PGconn *pg, int64_t id)
{
    struct claim claim = claim_of(id, 1, clock_wall_us(), fixture_batch(f));
    claim.lease_ms = HOUR_US / 1000;
    must_answer(HF_OK, run(store, &claim.change));
    must_equal(1, (int64_t)claim.batch->count);
    must_be_near(clock_wall_us() + HOUR_US, claim.ret_expires_at_us);
    must_be_near(HOUR_US,
                 1000000 * seconds_until(pg, "(SELECT max(expires_at) FROM holdfast_private.leases "
                                             "WHERE piece IS NULL)"));
    must_answer(HF_OK, finish_all(store, &claim, clock_wall_us()));
}

static void a_lease_ends_by_the_servers_clock_whatever_ours_shows(void **state)
{
    struct fixture *f = *state;
    static const int64_t wrong_us[] = {0, -HOUR_US, HOUR_US, -DAY_US, DAY_US};
    struct store *store = fixture_open(f, "a");
    PGconn *pg = side_open(f);
    int64_t id = subscribe_shared(store, "s");
    for (size_t i = 0; i < sizeof wrong_us / sizeof wrong_us[0]; i++) {
        append_one(store, "t", NULL);
        set_clock(wrong_us[i]); /* while the store is open */
        claim_an_hour(f, store, pg, id);
        append_one(store, "t", NULL);
        struct store *late = fixture_open(f, "b"); /* and from the beginning */
        claim_an_hour(f, late, pg, id);
        fixture_close(f, late);
    }
    clock_fake_off();
    PQfinish(pg);
}

static void a_retry_comes_by_the_servers_clock_whatever_ours_shows(void **state)
{
    struct fixture *f = *state;
    struct store *wrong = fixture_open(f, "wrong");
    PGconn *pg = side_open(f);
    append_one(wrong, "t", "k");
    int64_t id = subscribe_ordered(wrong, "s", 1);
    struct owner owner = own(wrong, id, 0);
    set_clock(-DAY_US);
    struct outcome outcome = retry(1, "k", clock_wall_us() + HOUR_US);
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = clock_wall_us()},
                            .subscription_id = id,
                            .epoch = owner.epoch,
                            .checkpoint = -1,
                            .outcomes = &outcome,
                            .count = 1};
    must_answer(HF_OK, run(wrong, &change.change));
    must_be_near(HOUR_US, 1000000 * seconds_until(pg, "(SELECT next_attempt_at FROM "
                                                      "holdfast_private.retries)"));
    struct batch *batch = fixture_batch(f);
    int64_t next_us = -1;
    must_answer(HF_OK, retries_due(wrong, id, clock_wall_us(), 10, batch, &next_us));
    must_equal(0, (int64_t)batch->count);
    must_be_near(clock_wall_us() + HOUR_US, next_us);
    must_be_near(clock_wall_us() + HOUR_US, progress_of(wrong, id).next_attempt_us);
    /* A reading of before the clock was set is understood as that. */
    int64_t before_us = clock_wall_us();
    set_clock(DAY_US);
    must_answer(HF_OK, retries_due(wrong, id, before_us, 10, batch, &next_us));
    must_equal(0, (int64_t)batch->count);
    must_be_near(clock_wall_us() + HOUR_US, next_us);
    clock_fake_off();
    PQfinish(pg);
}

/* A retry and a lease that were made a day from now. */
static int64_t make_future(struct fixture *f, struct store *store, PGconn *pg)
{
    append_one(store, "t", "k");
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = claim_of(id, 1, clock_wall_us(), fixture_batch(f));
    must_answer(HF_OK, run(store, &claim.change));
    struct outcome outcome = retry(1, "k", clock_wall_us() + HOUR_US);
    struct settle_lease change = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = clock_wall_us()},
        .subscription_id = id,
        .outcomes = &outcome,
        .count = 1};
    memcpy(change.lease, claim.ret_lease, sizeof change.lease);
    must_answer(HF_OK, run(store, &change.change));
    append_one(store, "t", "k");
    claim = claim_of(id, 1, clock_wall_us(), fixture_batch(f));
    claim.lease_ms = 50;
    must_answer(HF_OK, run(store, &claim.change));
    must_equal(1, (int64_t)claim.batch->count);
    side_must(
        pg,
        "UPDATE holdfast_private.retries SET next_attempt_at = next_attempt_at + interval '1 day', "
        "last_retry_at = last_retry_at + interval '1 day'");
    side_must(pg, "UPDATE holdfast_private.leases SET expires_at = expires_at + interval '1 day'");
    return id;
}

/* Both come, soon. */
static void must_come(struct fixture *f, struct store *store, int64_t id)
{
    struct batch *batch = fixture_batch(f);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (batch->count < 2) {
        must_hold(mono_ms() < until_ms);
        struct claim claim = claim_of(id, 2, clock_wall_us(), batch);
        claim.lease_ms = 50000;
        must_answer(HF_OK, run(store, &claim.change));
        pause_ms(5);
    }
}

static void a_server_that_is_set_back_strands_nothing(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    PGconn *pg = side_open(f);
    int64_t id = make_future(f, store, pg);
    side_must(pg, "UPDATE holdfast_private.processes SET seen_at = seen_at + interval '1 day'");
    fixture_open(f, "b"); /* registers, and finds it */
    must_come(f, store, id);
    must_equal(0, side_number(pg, "SELECT count(*) FROM holdfast_private.processes "
                                  "WHERE seen_at > clock_timestamp()"));
    PQfinish(pg);
}

static void a_server_that_is_set_back_while_no_process_runs_strands_nothing(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    PGconn *pg = side_open(f);
    int64_t id = make_future(f, store, pg);
    fixture_close(f, store);
    must_equal(1, side_number(pg,
                              "WITH moved AS (UPDATE holdfast_private.namespaces "
                              "SET closed_at = closed_at + interval '1 day' "
                              "WHERE closed_at IS NOT NULL AND id = %lld RETURNING 1) "
                              "SELECT count(*) FROM moved",
                              (long long)side_namespace(pg, f)));
    must_come(f, fixture_open(f, "b"), id);
    PQfinish(pg);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_lease_ends_by_the_servers_clock_whatever_ours_shows),
    CLAIM(a_retry_comes_by_the_servers_clock_whatever_ours_shows),
    CLAIM(a_server_that_is_set_back_strands_nothing),
    CLAIM(a_server_that_is_set_back_while_no_process_runs_strands_nothing),
};

FIXTURE_MAIN("clock", claims, NULL)
