/*
 * test_members_refresh.c - a subscription with more members than a process has room for.
 *
 * No program of ours lets so many in. Here they are written beside the store, as a program with
 * another limit would: processes without a lock, which must not be called dead.
 */
#include "support_side.h"

#include "store/claimants.h"
#include "support/make.h"

static void add_members(PGconn *pg, const struct fixture *f, int64_t id, int count)
{
    side_must(pg,
              "WITH others AS (INSERT INTO holdfast_private.processes (token, started_at, seen_at, "
              "namespace_id, locked, node_name, role_id) SELECT gen_random_uuid(), now(), now(), "
              "%lld, false, 'other', current_user::regrole FROM generate_series(1, %d) "
              "RETURNING token) INSERT INTO holdfast_private.members (subscription_id, token) "
              "SELECT %lld, token FROM others",
              (long long)side_namespace(pg, f), count, (long long)id);
}

static hf_status refresh(struct store *store, int64_t id,
                         struct members_refresh *ret_members_refresh)
{
    *ret_members_refresh =
        (struct members_refresh){.change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = T0},
                                 .subscription_id = id,
                                 .lease_ms = LEASE_MS};
    return RUN(store, ret_members_refresh);
}

/* A process joins, then so many others do, and it looks again. */
static hf_status members_refresh_among(struct fixture *f, int others,
                                       struct members_refresh *ret_members_refresh)
{
    struct store *store = fixture_open(f, "a");
    PGconn *pg = side_open(f);
    int64_t id = subscribe_ordered(store, "s", 2);
    must_answer(HF_OK, refresh(store, id, ret_members_refresh));
    add_members(pg, f, id, others);
    PQfinish(pg);
    return refresh(store, id, ret_members_refresh);
}

static void a_refresh_returns_as_many_members_as_there_may_be(void **state)
{
    struct members_refresh seen;
    must_answer(HF_OK, members_refresh_among(*state, STORE_MEMBERS_MAX - 1, &seen));
    must_equal(STORE_MEMBERS_MAX, seen.ret_members);
    must_equal(0, seen.ret_self);
}

static void more_members_than_there_may_be_are_refused(void **state)
{
    struct members_refresh seen;
    must_answer(HF_BUSY, members_refresh_among(*state, STORE_MEMBERS_MAX, &seen));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_refresh_returns_as_many_members_as_there_may_be),
    CLAIM(more_members_than_there_may_be_are_refused),
};

FIXTURE_MAIN("refresh", claims, NULL)
