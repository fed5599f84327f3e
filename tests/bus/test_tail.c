/*
 * Tests of the tail: the newest events of the log are read once for all that follow it, and each of
 * those gets every event once, wherever it reads.
 */
#include "bus/support_takers.h"

#include "support/faulty.h"
#include "support/rig.h"

#define TAKERS 6
#define SEEDS 5
#define STEPS 300
#define MORE_THAN_IS_KEPT 9000 /* events; the tail keeps 16 pages of 512 */

/* Takers of all and of some events, every second one in strict order, that have caught up. */
static void begin(struct tail *tail, struct taker *takers, int count)
{
    for (int i = 0; i < count; i++) {
        takers[i] = taker_of(tail, i % 3 == 2 ? "a" : "*", i % 2 == 1);
    }
    for (int i = 0; i < 2 * count; i++) { /* from the second time on there are enough of them */
        taker_drain(&takers[i % count], 100);
    }
}

static void end(struct tail *tail, struct taker *takers, int count)
{
    for (int i = 0; i < count; i++) {
        taker_end(&takers[i]);
    }
    tail_free(tail);
}

static void every_follower_gets_every_event_once(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct chance chance;
        chance_seed(&chance, seed);
        struct store *store = fixture_open(*state, "one");
        struct tail *tail;
        must_answer(HF_OK, tail_new(store, NULL, &tail));
        struct taker takers[TAKERS];
        begin(tail, takers, TAKERS);
        for (int step = 0; step < STEPS; step++) {
            bool more;
            if (chance_percent(&chance, 30)) {
                append_count(store, chance_percent(&chance, 50) ? "a" : "b",
                             1 + chance_below(&chance, chance_percent(&chance, 5) ? 800 : 20));
            }
            struct taker *taker = &takers[chance_below(&chance, TAKERS)];
            int32_t max =
                1 + (int32_t)chance_below(&chance, chance_percent(&chance, 20) ? 900 : 30);
            must_answer(HF_OK, taker_step(taker, max, chance_percent(&chance, 5), &more));
        }
        int64_t at_tail = 0;
        int64_t alone = 0;
        for (int i = 0; i < TAKERS; i++) {
            taker_drain(&takers[i], 100);
            must_hold(taker_is_complete(&takers[i], store));
            at_tail += takers[i].at_tail;
            alone += takers[i].alone;
        }
        must_hold(at_tail > 0 && alone > 0); /* or the test shows nothing */
        end(tail, takers, TAKERS);
        fixture_close(*state, store);
    }
}

static void a_follower_that_was_slow_reads_alone_until_it_has_caught_up(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct tail *tail;
    struct taker takers[TAKERS];
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAKERS);
    must_hold(follower_is_at_tail(takers[0].follower));
    for (int i = 0; i < MORE_THAN_IS_KEPT; i += 500) {
        append_count(store, "b", 500);
        taker_drain(&takers[1], 100);
    }
    must_hold(follower_is_at_tail(takers[1].follower));
    bool more;
    must_answer(HF_OK, taker_step(&takers[0], 10, false, &more));
    must_hold(!follower_is_at_tail(takers[0].follower));
    taker_drain(&takers[0], 500);
    must_hold(follower_is_at_tail(takers[0].follower));
    must_hold(taker_is_complete(&takers[0], store));
    append_count(store, "b", 1);
    taker_drain(&takers[0], 500);
    must_hold(follower_is_at_tail(takers[0].follower));
    must_hold(taker_is_complete(&takers[0], store));
    end(tail, takers, TAKERS);
}

static void few_followers_read_alone(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct tail *tail;
    struct taker takers[TAIL_FOLLOWERS_MIN];
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAIL_FOLLOWERS_MIN);
    must_hold(follower_is_at_tail(takers[0].follower));
    taker_end(&takers[TAIL_FOLLOWERS_MIN - 1]);
    append_count(store, "a", 3);
    for (int i = 0; i < TAIL_FOLLOWERS_MIN - 1; i++) {
        taker_drain(&takers[i], 2);
        must_hold(!follower_is_at_tail(takers[i].follower));
        must_hold(taker_is_complete(&takers[i], store));
    }
    end(tail, takers, TAIL_FOLLOWERS_MIN - 1);
}

#ifdef HF_FAULTS

static struct store *open_faulty(struct fixture *f)
{
    faulty_install();
    char url[sizeof f->url + 8];
    snprintf(url, sizeof url, "faulty:%s", f->url);
    struct store_options options = fixture_options(f, "faulty");
    struct store *store = NULL;
    must_answer(HF_OK, store_open(url, &options, &store));
    return store;
}

static void followers_that_look_for_the_same_news_make_the_store_be_read_once(void **state)
{
    struct store *store = open_faulty(*state);
    struct tail *tail;
    struct taker takers[TAKERS];
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAKERS);
    append_count(store, "a", 1);
    int64_t reads = faulty_calls(FAULTY_READER_NEXT);
    for (int i = 0; i < TAKERS; i++) {
        bool more;
        must_answer(HF_OK, taker_step(&takers[i], 10, false, &more));
        must_equal(1, set64_count(&takers[i].handed));
    }
    /* Once for the event; but news may come twice, and what was read long ago is read again. */
    must_hold(faulty_calls(FAULTY_READER_NEXT) - reads < TAKERS);
    end(tail, takers, TAKERS);
    store_close(store);
}

static void a_read_that_the_store_refuses_is_repeated_by_the_next_follower(void **state)
{
    struct store *store = open_faulty(*state);
    struct tail *tail;
    struct taker takers[TAKERS];
    bool more;
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAKERS);
    append_count(store, "a", 2);
    faulty_fail(FAULTY_READER_NEXT, 1, 1, HF_UNAVAILABLE);
    must_answer(HF_UNAVAILABLE, taker_step(&takers[0], 10, false, &more));
    for (int i = 0; i < TAKERS; i++) {
        taker_drain(&takers[i], 10);
        must_equal(2, set64_count(&takers[i].handed));
    }
    end(tail, takers, TAKERS);
    store_close(store);
}

static void all_followers_are_stale_when_their_reader_is(void **state)
{
    struct store *store = open_faulty(*state);
    struct tail *tail;
    struct taker takers[TAKERS];
    bool more;
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAKERS);
    append_count(store, "a", 2);
    faulty_fail(FAULTY_READER_NEXT, 1, 1, HF_STALE);
    for (int i = 0; i < TAKERS; i++) {
        must_answer(HF_STALE, taker_step(&takers[i], 10, false, &more));
        must_equal(0, set64_count(&takers[i].handed));
    }
    struct taker again = taker_of(tail, "*", false); /* a new one begins again */
    taker_drain(&again, 10);
    must_equal(2, set64_count(&again.handed));
    taker_end(&again);
    end(tail, takers, TAKERS);
    store_close(store);
}

/* While the store does not answer one of them, another one can be closed, and a third waits. */
struct stopped {
    struct taker *taker;
    hf_status status;
};

static void *step_once(void *ctx)
{
    struct stopped *stopped = ctx;
    bool more;
    stopped->status = taker_step(stopped->taker, 10, false, &more);
    return NULL;
}

static void a_follower_is_closed_while_another_one_waits_for_the_store(void **state)
{
    struct store *store = open_faulty(*state);
    struct tail *tail;
    struct taker takers[TAKERS];
    must_answer(HF_OK, tail_new(store, NULL, &tail));
    begin(tail, takers, TAKERS);
    append_count(store, "a", 1);
    faulty_stop(FAULTY_READER_NEXT, 1);
    pthread_t threads[2];
    struct stopped stopped[2] = {{&takers[0], HF_OK}, {&takers[1], HF_OK}};
    for (int i = 0; i < 2; i++) {
        must_hold(pthread_create(&threads[i], NULL, step_once, &stopped[i]) == 0);
    }
    must_hold(faulty_stopped(FAULTY_READER_NEXT, 10000));
    for (int i = 2; i < TAKERS; i++) {
        taker_end(&takers[i]); /* with the last one there are too few to follow a tail */
    }
    faulty_go(FAULTY_READER_NEXT);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        must_answer(HF_OK, stopped[i].status);
        taker_drain(&takers[i], 10);
        must_equal(1, set64_count(&takers[i].handed));
    }
    end(tail, takers, 2);
    store_close(store);
}

#endif

static const struct CMUnitTest claims[] = {
    CLAIM(every_follower_gets_every_event_once),
    CLAIM(a_follower_that_was_slow_reads_alone_until_it_has_caught_up),
    CLAIM(few_followers_read_alone),
#ifdef HF_FAULTS
    CLAIM(followers_that_look_for_the_same_news_make_the_store_be_read_once),
    CLAIM(a_read_that_the_store_refuses_is_repeated_by_the_next_follower),
    CLAIM(all_followers_are_stale_when_their_reader_is),
    CLAIM(a_follower_is_closed_while_another_one_waits_for_the_store),
#endif
};

FIXTURE_MAIN("tail", claims, NULL)
