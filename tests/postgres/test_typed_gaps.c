/*
 * test_typed_gaps.c - reading by the index on types while positions are not visible yet: what a
 * transaction has drawn and not committed is neither passed by a reader nor by a claim.
 */
#include "store/common/batch.h"
#include "store/namespace.h"
#include "support/make.h"
#include "support_side.h"

#include <unistd.h>

#define ROWS                                                                                       \
    7000 /* before and behind the event: more than are read about as fast without an index */
#define LOOKS 12

struct scene {
    struct fixture *fixture;
    struct store *store;
    PGconn *side;
    struct reader *reader;
    struct batch *batch;
    int64_t floor;
    int64_t id; /* of a shared subscription */
    int64_t claimed[8];
    size_t claimed_count;
};

static const struct text rare = {"rare", 4};
static const struct filter filter_rare = {.patterns = &rare, .count = 1};

static void append_rows(struct store *store)
{
    for (int i = 0; i < ROWS / 1000; i++) {
        append_count(store, "common", 1000);
    }
}

/* An event of the rare type that is not committed, in the middle of a long log with an index. */
static struct scene scene_of(struct fixture *fixture, int64_t *ret_position)
{
    if (fixture->sqlite) {
        skip();
    }
    struct scene s = {.fixture = fixture, .store = fixture_open(fixture, "a")};
    s.side = side_open(fixture);
    s.batch = fixture_batch(fixture);
    struct namespace_put put = {
        .change = {.kind = CHANGE_NAMESPACE_PUT, .now_us = T0},
        .name = text_of(fixture->namespace_name),
        .retention_ms = -1,
        .retention_bytes = -1,
        .type_index = HF_ON,
    };
    must_answer(HF_OK, RUN(s.store, &put));
    struct type_steps steps = {.change = {.kind = CHANGE_TYPE_STEPS, .now_us = T0},
                               .ret_more = true};
    while (steps.ret_more) {
        must_answer(HF_OK, store_type_steps(s.store, &steps, deadline_after_ms(60000)));
    }
    append_rows(s.store);
    side_must(s.side, "BEGIN");
    *ret_position = side_publish(s.side, fixture, "rare", NULL);
    append_rows(s.store);
    s.reader = fixture_reader(fixture, s.store, 0);
    struct subscription_put sub = put_of("s", HF_MODE_SHARED, 1);
    sub.patterns_json = text_of("[\"rare\"]");
    must_answer(HF_OK, RUN(s.store, &sub));
    s.id = sub.ret_id;
    return s;
}

/* Reads and claims all that there is right now. */
static void look(struct scene *s)
{
    bool more = true;
    while (more) {
        must_answer(HF_OK,
                    store_reader_next(s->reader, &filter_rare, 10, s->batch, &s->floor, &more));
    }
    for (more = true; more;) {
        struct batch batch;
        batch_init(&batch);
        struct claim claim = claim_of(s->id, 10, T0, &batch);
        claim.filter = filter_rare;
        must_answer(HF_OK, RUN(s->store, &claim));
        for (size_t i = 0; i < batch.count; i++) {
            must_hold(s->claimed_count < sizeof s->claimed / sizeof s->claimed[0]);
            s->claimed[s->claimed_count++] = batch.entries[i].event.position;
        }
        more = claim.ret_more;
        batch_release(&batch);
    }
}

static void look_often(struct scene *s)
{
    for (int i = 0; i < LOOKS; i++) {
        look(s);
        usleep(30000);
    }
}

static void an_event_that_is_not_committed_is_not_passed(void **state)
{
    int64_t position = 0;
    struct scene s = scene_of(*state, &position);
    look_often(&s);
    must_equal(0, (int64_t)s.batch->count);
    must_equal(0, (int64_t)s.claimed_count);
    must_hold(s.floor < position);
    side_must(s.side, "COMMIT");
    look_often(&s);
    must_equal(1, (int64_t)s.batch->count);
    must_equal(position, s.batch->entries[0].event.position);
    must_equal(1, (int64_t)s.claimed_count);
    must_equal(position, s.claimed[0]);
    must_equal(last_of(s.store), s.floor);
    PQfinish(s.side);
}

static void one_that_is_rolled_back_is(void **state)
{
    int64_t position = 0;
    struct scene s = scene_of(*state, &position);
    look_often(&s);
    must_hold(s.floor < position);
    side_must(s.side, "ROLLBACK");
    look_often(&s);
    must_equal(0, (int64_t)s.batch->count);
    must_equal(0, (int64_t)s.claimed_count);
    must_equal(last_of(s.store), s.floor);
    PQfinish(s.side);
}

/* Committed while no reader looks, and a later one of another transaction is there first. */
static void what_two_transactions_publish_comes_once_each(void **state)
{
    int64_t first = 0;
    struct scene s = scene_of(*state, &first);
    PGconn *other = side_open(s.fixture);
    int64_t second = side_publish(other, s.fixture, "rare", NULL);
    append_rows(s.store);
    look_often(&s);
    must_equal(1, (int64_t)s.batch->count);
    must_equal(second, s.batch->entries[0].event.position);
    side_must(s.side, "COMMIT");
    append_rows(s.store);
    look_often(&s);
    must_equal(2, (int64_t)s.batch->count);
    must_equal(first, s.batch->entries[1].event.position);
    must_equal(2, (int64_t)s.claimed_count);
    must_equal(first + second, s.claimed[0] + s.claimed[1]);
    must_equal(last_of(s.store), s.floor);
    PQfinish(other);
    PQfinish(s.side);
}

static const struct CMUnitTest claims[] = {
    CLAIM(an_event_that_is_not_committed_is_not_passed),
    CLAIM(one_that_is_rolled_back_is),
    CLAIM(what_two_transactions_publish_comes_once_each),
};

FIXTURE_MAIN("typed_gaps", claims, NULL)
