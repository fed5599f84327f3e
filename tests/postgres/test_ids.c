/*
 * test_ids.c - events with ids that have no time inside (version 4), many of them in one append.
 *
 * They are stored by one statement, which must not make anything of what one by one would do: an id
 * that another transaction is publishing is waited for, and has one position whatever becomes of
 * that transaction; two that publish the same ids in another order do not keep each other waiting.
 */
#include "postgres/support_side.h"
#include "support/crowd.h"
#include "support/fixture.h"
#include "support/make.h"

#include "base/uuid.h"

#define COUNT 20

struct scene {
    struct fixture *f;
    struct store *store;
    PGconn *side;
    struct new_event events[COUNT];
};

static void take_ids(struct scene *s)
{
    for (int i = 0; i < COUNT; i++) {
        s->events[i] = event_of("t", NULL);
        random_bytes(s->events[i].id, sizeof s->events[i].id);
        s->events[i].id[6] = (uint8_t)(0x40 | (s->events[i].id[6] & 0x0f));
        s->events[i].id[8] = (uint8_t)(0x80 | (s->events[i].id[8] & 0x3f));
    }
}

static struct scene scene_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f, .store = fixture_open(f, "a"), .side = side_open(f)};
    take_ids(&s);
    return s;
}

static hf_status append_all(struct scene *s)
{
    struct append append = append_of(s->events, COUNT);
    return RUN(s->store, &append);
}

/* How many rows of event_ids the namespace has, or how many times of entering these tell. */
static int64_t listed(struct scene *s, const char *what)
{
    return side_number(s->side,
                       "SELECT count(%s) FROM holdfast_private.event_ids WHERE namespace_id = %lld",
                       what, (long long)side_namespace(s->side, s->f));
}

static int64_t events_of(struct scene *s)
{
    return side_number(s->side,
                       "SELECT count(*) FROM holdfast_private.events WHERE namespace_id = %lld",
                       (long long)side_namespace(s->side, s->f));
}

/* One by one each of them would have a time of its own. */
static void many_are_stored_by_one_statement(void **state)
{
    struct scene s = scene_of(*state);
    must_answer(HF_OK, append_all(&s));
    must_equal(COUNT, events_of(&s));
    must_equal(COUNT, listed(&s, "*"));
    must_equal(1, listed(&s, "DISTINCT guard_at"));
    PQfinish(s.side);
}

/* ---- Beside another transaction -------------------------------------------------------------- */

/* Another session publishes the id of the tenth, and holds its transaction. */
static int64_t publish_tenth(struct scene *s)
{
    char id[UUID_TEXT_BYTES];
    uuid_format(s->events[10].id, id);
    side_must(s->side, "BEGIN");
    return side_number(s->side, "SELECT position FROM holdfast.publish('%s', 'x', '1', id => '%s')",
                       s->f->namespace_name, id);
}

static void append_beside(int index, void *ctx)
{
    (void)index;
    must_answer(HF_OK, append_all(ctx));
}

/* The append has begun, and waits for the other session. */
static void await_waiter(const struct scene *s)
{
    PGconn *looker = side_open(s->f);
    while (side_number(looker, "SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                               "locktype = 'transactionid'") == 0) {
        usleep(1000);
    }
    PQfinish(looker);
}

static void append_while_the_tenth_is_open(struct scene *s, const char *end)
{
    struct crowd crowd;
    crowd_start(&crowd, 1, append_beside, s);
    await_waiter(s);
    side_must(s->side, "%s", end);
    crowd_join(&crowd);
}

static void an_id_that_another_transaction_commits_has_its_position(void **state)
{
    struct scene s = scene_of(*state);
    int64_t first = publish_tenth(&s);
    append_while_the_tenth_is_open(&s, "COMMIT");
    for (int i = 0; i < COUNT; i++) {
        must_equal(i == 10, s.events[i].duplicate);
    }
    must_equal(first, s.events[10].position);
    must_equal(COUNT, events_of(&s));
    must_equal(COUNT, listed(&s, "*"));
    PQfinish(s.side);
}

static void an_id_that_another_transaction_rolls_back_is_stored(void **state)
{
    struct scene s = scene_of(*state);
    int64_t first = publish_tenth(&s);
    append_while_the_tenth_is_open(&s, "ROLLBACK");
    for (int i = 0; i < COUNT; i++) {
        must_equal(false, s.events[i].duplicate);
    }
    must_hold(s.events[10].position != first);
    must_equal(COUNT, events_of(&s));
    must_equal(COUNT, listed(&s, "*"));
    PQfinish(s.side);
}

/* ---- In another order ------------------------------------------------------------------------ */

#define STORES 4
#define ROUNDS 10

struct race {
    struct store *stores[STORES];
    struct new_event events[STORES][COUNT];
};

static void append_in_turn(int index, void *ctx)
{
    struct race *race = ctx;
    struct append append = append_of(race->events[index], COUNT);
    must_answer(HF_OK, RUN(race->stores[index], &append));
}

static void the_same_ids_in_another_order_have_one_position_each(void **state)
{
    struct scene s = scene_of(*state);
    struct race race = {.stores = {s.store, fixture_open(s.f, "b"), fixture_open(s.f, "c"),
                                   fixture_open(s.f, "d")}};
    for (int round = 1; round <= ROUNDS; round++) {
        take_ids(&s);
        for (int i = 0; i < COUNT; i++) {
            for (int by = 0; by < STORES; by++) {
                race.events[by][by % 2 ? COUNT - 1 - i : i] = s.events[i];
            }
        }
        crowd_run(STORES, append_in_turn, &race);
        for (int i = 0; i < COUNT; i++) {
            int originals = 0;
            for (int by = 0; by < STORES; by++) {
                const struct new_event *event = &race.events[by][by % 2 ? COUNT - 1 - i : i];
                must_equal(race.events[0][i].position, event->position);
                originals += !event->duplicate;
            }
            must_equal(1, originals);
        }
    }
    must_equal(ROUNDS * COUNT, events_of(&s));
    must_equal(ROUNDS * COUNT, listed(&s, "*"));
    PQfinish(s.side);
}

/* Half of the sessions publish the first event, and so on; the others begin with the last one. */
static void publish_in_turn(int index, void *ctx)
{
    const struct scene *s = ctx;
    PGconn *pg = side_open(s->f);
    for (int round = 0; round < ROUNDS; round++) {
        side_must(pg,
                  "SELECT count(*) FROM holdfast.publish_many('%s', array_fill('x'::text, "
                  "ARRAY[%d]), array_fill('1'::json, ARRAY[%d]), ids => ARRAY(SELECT "
                  "('%08d-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid "
                  "FROM generate_series(1, %d) i ORDER BY i %s))",
                  s->f->namespace_name, COUNT, COUNT, round, COUNT, index % 2 ? "DESC" : "");
    }
    PQfinish(pg);
}

static void calls_of_publish_many_with_the_same_ids_in_another_order_all_succeed(void **state)
{
    struct scene s = scene_of(*state);
    crowd_run(STORES, publish_in_turn, &s);
    must_equal(ROUNDS * COUNT, events_of(&s));
    must_equal(ROUNDS * COUNT, listed(&s, "*"));
    must_equal(ROUNDS, listed(&s, "DISTINCT guard_at"));
    PQfinish(s.side);
}

static const struct CMUnitTest claims[] = {
    CLAIM(many_are_stored_by_one_statement),
    CLAIM(an_id_that_another_transaction_commits_has_its_position),
    CLAIM(an_id_that_another_transaction_rolls_back_is_stored),
    CLAIM(the_same_ids_in_another_order_have_one_position_each),
    CLAIM(calls_of_publish_many_with_the_same_ids_in_another_order_all_succeed),
};

static const struct role roles[] = {{NULL, NULL}};

FIXTURE_MAIN("ids", claims, roles)
