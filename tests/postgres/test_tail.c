/*
 * Tests of the tail where positions become visible out of order, or never: followers get every
 * event once, and in strict order none before what may still come below it.
 */
#include "bus/support_takers.h"

#include <unistd.h>

#include "postgres/support_side.h"
#include "support/rig.h"

#define TAKERS 6
#define SIDES 4
#define SEEDS 4
#define STEPS 250
#define DEADLINE_S 20

struct publishers {
    PGconn *sides[SIDES];
    bool open[SIDES]; /* a transaction */
};

/* One of them begins, publishes, ends well or badly. */
static void publish_something(struct publishers *publishers, struct fixture *fixture,
                              struct chance *chance)
{
    uint64_t i = chance_below(chance, SIDES);
    PGconn *side = publishers->sides[i];
    if (!publishers->open[i] && chance_percent(chance, 60)) {
        side_must(side, "BEGIN");
        publishers->open[i] = true;
    }
    for (uint64_t n = chance_below(chance, 4); n > 0; n--) {
        side_publish(side, fixture, chance_percent(chance, 50) ? "a" : "b", NULL);
    }
    if (publishers->open[i] && chance_percent(chance, 40)) {
        side_must(side, chance_percent(chance, 30) ? "ROLLBACK" : "COMMIT");
        publishers->open[i] = false;
    }
}

/* What is news comes from the server, later. */
static void await_complete(struct taker *taker, struct store *store)
{
    bool complete = false;
    for (int i = 0; i < DEADLINE_S * 100 && !complete; i++) {
        taker_drain(taker, 50);
        complete = taker_is_complete(taker, store);
        if (!complete) {
            usleep(10000);
        }
    }
    must_hold(complete);
}

static void followers_get_what_becomes_visible_late_once(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct chance chance;
        chance_seed(&chance, seed);
        struct store *store = fixture_open(*state, "one");
        struct publishers publishers = {0};
        for (int i = 0; i < SIDES; i++) {
            publishers.sides[i] = side_open(*state);
        }
        struct tail *tail;
        struct taker takers[TAKERS];
        must_answer(HF_OK, tail_new(store, NULL, &tail));
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = taker_of(tail, i % 3 == 2 ? "a" : "*", i % 2 == 1);
        }
        for (int step = 0; step < STEPS; step++) {
            bool more;
            publish_something(&publishers, *state, &chance);
            struct taker *taker = &takers[chance_below(&chance, TAKERS)];
            int32_t max = 1 + (int32_t)chance_below(&chance, 12);
            must_answer(HF_OK, taker_step(taker, max, chance_percent(&chance, 4), &more));
        }
        for (int i = 0; i < SIDES; i++) {
            side_must(publishers.sides[i], publishers.open[i] ? "COMMIT" : "SELECT");
            PQfinish(publishers.sides[i]);
        }
        int64_t at_tail = 0;
        int64_t alone = 0;
        for (int i = 0; i < TAKERS; i++) {
            await_complete(&takers[i], store);
            at_tail += takers[i].at_tail;
            alone += takers[i].alone;
        }
        must_hold(at_tail > 0 && alone > 0); /* or the test shows nothing */
        for (int i = 0; i < TAKERS; i++) {
            taker_end(&takers[i]);
        }
        tail_free(tail);
        fixture_close(*state, store);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(followers_get_what_becomes_visible_late_once),
};

FIXTURE_MAIN("tail", claims, NULL)
