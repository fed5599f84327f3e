/*
 * test_node.c - nodes by the clock: what a heartbeat is measured by, who is kept, and what it may
 * cost.
 *
 * Two stores of this process are two nodes. On SQLite the fake clock is the machine's; a server has
 * its own, so there the claims are made by changing what it has stored (tests/bus/test_node).
 */
#include "base/time/clock.h"
#include "support/make.h"
#include "support/puppet.h"
#include "support/sqlite.h"

#define HEARTBEAT_MS 30000
#define S INT64_C(1000000)

struct sight {
    const char *id;
    int count;
    hf_node_state state;
    int64_t seen_at_us;
    int64_t stopped_at_us;
};

static int note(const struct node_row *row, void *ctx)
{
    struct sight *sight = ctx;
    if (text_equal(row->id, text_of(sight->id))) {
        sight->count++;
        sight->state = row->state;
        sight->seen_at_us = row->seen_at_us;
        sight->stopped_at_us = row->stopped_at_us;
    }
    return 0;
}

static struct sight see(struct store *store, const char *id)
{
    struct sight sight = {.id = id};
    must_answer(HF_OK, store_node_list(store, TEXT_ABSENT, note, &sight));
    return sight;
}

static void a_heartbeat_is_judged_by_a_clock_that_cannot_be_set(void **state)
{
    struct fixture *fixture = *state;
    fixture_sqlite_only(fixture);
    int64_t mono_us = clock_mono_us();
    clock_fake_set(T0, mono_us);
    struct store *store = fixture_open(fixture, "a");
    struct store *other = fixture_open(fixture, "b");
    must_equal(HF_NODE_LIVE, see(store, "b").state);
    clock_fake_set(T0 + 86400 * S, mono_us);
    must_equal(HF_NODE_LIVE, see(store, "b").state);
    clock_fake_set(T0 - 86400 * S, mono_us);
    must_equal(HF_NODE_LIVE, see(store, "b").state);
    clock_fake_set(T0, mono_us + 3 * HEARTBEAT_MS * 1000);
    must_equal(HF_NODE_LIVE, see(store, "b").state);
    clock_fake_advance(1 * S);
    must_equal(HF_NODE_STALE, see(store, "b").state);
    must_equal(T0, see(store, "b").seen_at_us);
    must_equal(HF_NODE_LIVE, see(store, "a").state); /* who asks lives */
    store_alive(other);
    must_equal(HF_NODE_LIVE, see(store, "b").state);
    must_equal(T0 + 1 * S, see(store, "b").seen_at_us);
    clock_fake_off();
}

static void a_generated_id_is_kept_if_it_was_there_for_a_heartbeat(void **state)
{
    struct fixture *fixture = *state;
    fixture_sqlite_only(fixture);
    clock_fake_set(T0, clock_mono_us());
    struct store *store = fixture_open(fixture, "a");
    struct store *brief = fixture_open(fixture, "brief");
    struct store *longer = fixture_open(fixture, "longer");
    clock_fake_advance(HEARTBEAT_MS * 1000 - 1);
    fixture_close(fixture, brief);
    must_equal(0, see(store, "brief").count);
    clock_fake_advance(1);
    fixture_close(fixture, longer);
    must_equal(1, see(store, "longer").count);
    must_equal(HF_NODE_GONE, see(store, "longer").state);
    must_equal(T0 + HEARTBEAT_MS * 1000, see(store, "longer").stopped_at_us);
    clock_fake_off();
}

/* As a full disk may do: the statement fails, and takes its whole transaction with it. */
static void a_failure_to_record_past_nodes_fails_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    fixture_sqlite_only(fixture);
    struct store *store = fixture_open(fixture, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(fixture, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    child_kill(puppet);
    sqlite3 *db = NULL;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(fixture), &db));
    must_equal(SQLITE_OK, sqlite3_exec(db,
                                       "CREATE TRIGGER forget BEFORE INSERT ON holdfast_past_nodes "
                                       "BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
                                       NULL, NULL, NULL));
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, settle(&owner, 0, NULL, 0));
    must_equal(1, progress_of(store, id).owned);
    must_equal(SQLITE_OK, sqlite3_exec(db, "DROP TRIGGER forget", NULL, NULL, NULL));
    sqlite3_close(db);
    append_one(store, "t", NULL);
    must_equal(HF_NODE_GONE, see(store, "mortal").state);
    must_equal(1,
               sqlite_number_in(fixture_path(fixture), "SELECT count(*) FROM holdfast_past_nodes"));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_heartbeat_is_judged_by_a_clock_that_cannot_be_set),
    CLAIM(a_generated_id_is_kept_if_it_was_there_for_a_heartbeat),
    CLAIM(a_failure_to_record_past_nodes_fails_nothing_else),
};

FIXTURE_MAIN("node", claims, NULL)
