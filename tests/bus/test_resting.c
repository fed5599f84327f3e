/*
 * Tests of resting: a follower that has taken everything is not called for what it does not want,
 * is called for what it wants, and gets every event once all the same. The same for followers of
 * subscriptions that claim, which rest and take nothing.
 */
#include "bus/support_takers.h"

#include <time.h>

#include "base/time/clock.h"
#include "support/faulty.h"
#include "support/rig.h"

#define GUESTS 6
#define SEEDS 8
#define STEPS 300
#define CLAIMERS 5
#define CROWD 30 /* claimers, too */
#define AT_ONCE (TAIL_SWEEP_US / TAIL_CLAIM_TURN_US)
#define LOOKS_MAX 1000 /* a few milliseconds apart */

/* The owner of a follower. Its seat is never queued: a turn of it is being taken all the time, so a
 * call is noted, and no thread comes. */
struct guest {
    struct taker taker;
    struct seat seat;
    atomic_bool rests;
    int looks; /* how often it was told to look */
};

struct inn {
    struct store *store;
    struct dispatchers dispatchers;
    struct tail *tail;
    struct guest guests[GUESTS];
};

static void note_look(void *ctx)
{
    struct guest *guest = ctx;
    must_hold(!atomic_load(&guest->rests));
    guest->looks++;
}

/* Every third one wants all, the others "a" or "b"; every second one in strict order. */
static const char *pattern_of(int i)
{
    static const char *const patterns[] = {"a", "b", "*"};
    return patterns[i % 3];
}

static void inn_open(struct inn *inn, struct store *store)
{
    *inn = (struct inn){.store = store};
    must_answer(HF_OK, dispatchers_init(&inn->dispatchers, (struct dispatchers_owner){0}));
    must_answer(HF_OK, tail_new(store, &inn->dispatchers, &inn->tail));
    for (int i = 0; i < GUESTS; i++) {
        struct guest *guest = &inn->guests[i];
        guest->taker = taker_of(inn->tail, pattern_of(i), i % 2 == 1);
        atomic_store(&guest->seat.state, SEAT_RUNNING);
        follower_own(guest->taker.follower,
                     (struct follower_owner){&guest->seat, note_look, guest, &guest->rests, false});
    }
}

static void inn_close(struct inn *inn)
{
    for (int i = 0; i < GUESTS; i++) {
        taker_end(&inn->guests[i].taker);
    }
    must_equal(0, tail_resting(inn->tail));
    tail_free(inn->tail);
    dispatchers_release(&inn->dispatchers);
}

/* News comes as it does from the watch, and a turn begins. */
static void tell(struct inn *inn)
{
    tail_news(inn->tail);
    tail_serve(inn->tail);
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* All have taken everything, and rest. News may come late. */
static void all_rest(struct inn *inn)
{
    for (int i = 0; tail_resting(inn->tail) < GUESTS && i < LOOKS_MAX; i++) {
        for (int j = 0; j < GUESTS; j++) {
            taker_drain(&inn->guests[j].taker, 100);
        }
        pause_a_little();
    }
    must_equal(GUESTS, tail_resting(inn->tail));
    for (int i = 0; i < GUESTS; i++) {
        inn->guests[i].looks = 0;
        atomic_store(&inn->guests[i].seat.state, SEAT_RUNNING);
    }
}

static bool wants(int i, char type)
{
    return pattern_of(i)[0] == '*' || pattern_of(i)[0] == type;
}

static bool is_called(struct guest *guest)
{
    return atomic_load(&guest->seat.state) == SEAT_RUNNING_AGAIN;
}

static void only_those_that_want_an_event_are_told_to_look(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct inn inn;
    inn_open(&inn, store);
    all_rest(&inn);
    append_count(store, "a", 3);
    tell(&inn);
    for (int i = 0; i < GUESTS; i++) {
        struct guest *guest = &inn.guests[i];
        must_equal(wants(i, 'a'), guest->looks);
        must_equal(!wants(i, 'a'), atomic_load(&guest->rests));
        must_hold(is_called(guest) || !wants(i, 'a'));
        taker_drain(&guest->taker, 2);
        must_equal(wants(i, 'a') ? 3 : 0, set64_count(&guest->taker.handed));
        must_hold(guest->taker.floor >= 3);
    }
    inn_close(&inn);
    fixture_close(*state, store);
}

/* They look when they are told to, and some now and then by themselves; at the end those that were
 * not told to have nothing to take. */
static void those_that_rest_get_every_event_once(void **state)
{
    int64_t passed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct chance chance;
        struct inn inn;
        bool more;
        chance_seed(&chance, seed);
        struct store *store = fixture_open(*state, "one");
        inn_open(&inn, store);
        all_rest(&inn);
        for (int step = 0; step < STEPS; step++) {
            if (chance_percent(&chance, 30)) {
                append_count(store, chance_percent(&chance, 50) ? "a" : "b",
                             1 + chance_below(&chance, chance_percent(&chance, 5) ? 800 : 20));
            }
            if (chance_percent(&chance, 50)) {
                tell(&inn);
            }
            struct guest *guest = &inn.guests[chance_below(&chance, GUESTS)];
            if (!atomic_load(&guest->rests) || chance_percent(&chance, 10)) {
                must_answer(HF_OK, taker_step(&guest->taker, 1 + chance_below(&chance, 300),
                                              chance_percent(&chance, 5), &more));
            }
        }
        for (int i = 0; i < LOOKS_MAX && tail_resting(inn.tail) < GUESTS; i++) {
            tell(&inn);
            for (int j = 0; j < GUESTS; j++) {
                if (!atomic_load(&inn.guests[j].rests)) {
                    must_answer(HF_OK, taker_step(&inn.guests[j].taker, 300, false, &more));
                }
            }
        }
        for (int i = 0; i < GUESTS; i++) {
            must_hold(taker_is_complete(&inn.guests[i].taker, store));
            passed += inn.guests[i].looks;
        }
        inn_close(&inn);
        fixture_close(*state, store);
    }
    must_hold(passed > 0); /* or the test shows nothing */
}

static void one_that_rests_can_be_closed(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct inn inn;
    inn_open(&inn, store);
    all_rest(&inn);
    taker_end(&inn.guests[0].taker);
    append_count(store, "a", 1);
    tell(&inn);
    must_equal(0, inn.guests[0].looks);
    must_equal(1, inn.guests[2].looks);
    inn.guests[0].taker = taker_of(inn.tail, "a", false);
    inn_close(&inn);
    fixture_close(*state, store);
}

/* With too few followers none is called by the tail: they are told to look. */
static void those_that_are_left_are_called_when_the_tail_ends(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct inn inn;
    inn_open(&inn, store);
    all_rest(&inn);
    for (int i = 0; i < 3; i++) {
        taker_end(&inn.guests[i].taker);
    }
    must_equal(0, tail_resting(inn.tail));
    for (int i = 3; i < GUESTS; i++) {
        must_equal(1, inn.guests[i].looks);
        must_hold(is_called(&inn.guests[i]));
    }
    for (int i = 0; i < 3; i++) {
        inn.guests[i].taker = taker_of(inn.tail, "a", false);
    }
    inn_close(&inn);
    fixture_close(*state, store);
}

/* Else its checkpoint would never move over what it does not want. */
static void one_that_events_have_passed_is_called_after_a_while(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct inn inn;
    int64_t floors[GUESTS];
    inn_open(&inn, store);
    all_rest(&inn);
    clock_fake_set(clock_wall_us(), clock_mono_us());
    clock_fake_advance(TAIL_PASSED_US + 1);
    tail_sweep(inn.tail);
    must_equal(GUESTS, tail_resting(inn.tail)); /* nothing has passed them */
    append_count(store, "a", 1);
    tell(&inn);
    tail_sweep(inn.tail);
    for (int i = 0; i < GUESTS; i++) {
        floors[i] = inn.guests[i].taker.floor;
        must_equal(1, inn.guests[i].looks);
        taker_drain(&inn.guests[i].taker, 100);
        must_hold(inn.guests[i].taker.floor > floors[i]);
    }
    clock_fake_off();
    inn_close(&inn);
    fixture_close(*state, store);
}

/* ---- Subscriptions that claim ---------------------------------------------------------------- */

/* Its claims are stood for by the newest position that they see. */
struct claimer {
    struct guest guest; /* without its taker */
    struct follower *follower;
    struct text pattern;
    int64_t claimed;
};

static void claimers_open(struct inn *inn, struct claimer *claimers, int count)
{
    for (int i = 0; i < count; i++) {
        struct guest *guest = &claimers[i].guest;
        claimers[i].pattern = text_of(pattern_of(i));
        atomic_store(&guest->seat.state, SEAT_RUNNING);
        must_answer(HF_OK, follower_open(inn->tail, 0, false, 0, &claimers[i].follower));
        follower_own(claimers[i].follower,
                     (struct follower_owner){&guest->seat, note_look, guest, &guest->rests, true});
    }
}

static void claimers_close(struct claimer *claimers, int count)
{
    for (int i = 0; i < count; i++) {
        follower_close(claimers[i].follower);
    }
}

/* What comes between the claim and the rest. */
static void claim_with(struct claimer *claimer, struct store *store, const char *type)
{
    struct filter filter = {.patterns = &claimer->pattern, .count = 1};
    follower_mark(claimer->follower);
    must_answer(HF_OK, store_last(store, &claimer->claimed));
    if (type) {
        append_count(store, type, 1);
    }
    follower_rest(claimer->follower, &filter);
}

static void claim(struct claimer *claimer, struct store *store)
{
    claim_with(claimer, store, NULL);
}

/* News may come late. */
static void all_claim_and_rest(struct claimer *claimers, struct store *store, int count)
{
    for (int i = 0; i < count; i++) {
        for (int j = 0; !atomic_load(&claimers[i].guest.rests) && j < LOOKS_MAX; j++) {
            claim(&claimers[i], store);
            pause_a_little();
        }
        must_hold(atomic_load(&claimers[i].guest.rests));
        claimers[i].guest.looks = 0;
    }
}

/* An inn without guests. */
static void hall_open(struct inn *inn, struct store *store)
{
    *inn = (struct inn){.store = store};
    must_answer(HF_OK, dispatchers_init(&inn->dispatchers, (struct dispatchers_owner){0}));
    must_answer(HF_OK, tail_new(store, &inn->dispatchers, &inn->tail));
}

static void hall_close(struct inn *inn)
{
    must_equal(0, tail_resting(inn->tail));
    tail_free(inn->tail);
    dispatchers_release(&inn->dispatchers);
}

static void one_that_claims_is_only_called_for_events_that_it_wants(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct claimer claimers[CLAIMERS] = {0};
    struct inn inn;
    append_count(store, "a", 2); /* before the tail begins */
    hall_open(&inn, store);
    claimers_open(&inn, claimers, CLAIMERS);
    all_claim_and_rest(claimers, store, CLAIMERS);
    append_count(store, "a", 1);
    tell(&inn);
    for (int i = 0; i < CLAIMERS; i++) {
        must_equal(wants(i, 'a'), claimers[i].guest.looks);
        must_equal(!wants(i, 'a'), atomic_load(&claimers[i].guest.rests));
    }
    claimers_close(claimers, CLAIMERS);
    hall_close(&inn);
    fixture_close(*state, store);
}

static void one_that_claims_does_not_rest_if_an_event_for_it_came_after_its_claim(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct claimer claimers[CLAIMERS] = {0};
    struct inn inn;
    hall_open(&inn, store);
    claimers_open(&inn, claimers, CLAIMERS);
    all_claim_and_rest(claimers, store, CLAIMERS);
    claim_with(&claimers[0], store, "a");
    must_hold(!atomic_load(&claimers[0].guest.rests));
    all_claim_and_rest(claimers, store, CLAIMERS);
    claim_with(&claimers[0], store, "b");
    must_hold(claimers[0].guest.looks == 0);
    all_claim_and_rest(claimers, store, CLAIMERS);
    claimers_close(claimers, CLAIMERS);
    hall_close(&inn);
    fixture_close(*state, store);
}

static int64_t looks_of(const struct claimer *claimers, int count)
{
    int64_t looks = 0;
    for (int i = 0; i < count; i++) {
        looks += claimers[i].guest.looks;
    }
    return looks;
}

/* Else a thousand claims that find nothing would stand before the one for an event that comes. */
static void those_that_claim_are_called_one_after_the_other_to_move_on(void **state)
{
    struct store *store = fixture_open(*state, "one");
    struct claimer claimers[CROWD] = {0};
    struct inn inn;
    hall_open(&inn, store);
    claimers_open(&inn, claimers, CROWD);
    all_claim_and_rest(claimers, store, CROWD);
    append_count(store, "c", 1);
    tell(&inn);
    clock_fake_set(clock_wall_us(), clock_mono_us());
    int32_t passed = tail_resting(inn.tail);
    must_hold(passed > AT_ONCE);
    must_hold(!tail_sweep(inn.tail)); /* it has not been long enough */
    clock_fake_advance(TAIL_CLAIM_US);
    for (int32_t left = passed - AT_ONCE; left >= 0; left--) {
        must_equal(left > 0, tail_sweep(inn.tail));
        must_equal(left, tail_resting(inn.tail));
        must_equal(left > 0, tail_sweep(inn.tail));
        must_equal(left, tail_resting(inn.tail));
        clock_fake_advance(TAIL_CLAIM_TURN_US);
    }
    must_equal(CROWD, looks_of(claimers, CROWD));
    clock_fake_off();
    claimers_close(claimers, CROWD);
    hall_close(&inn);
    fixture_close(*state, store);
}

/* Events come, are read and are claimed in any order; at the end none that rests has left an event
 * that it wants unclaimed. */
static void those_that_claim_and_rest_leave_no_event_unclaimed(void **state)
{
    int64_t looks = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct claimer claimers[CLAIMERS] = {0};
        struct chance chance;
        struct inn inn;
        int64_t newest[2] = {0};
        chance_seed(&chance, seed);
        struct store *store = fixture_open(*state, "one");
        hall_open(&inn, store);
        claimers_open(&inn, claimers, CLAIMERS);
        all_claim_and_rest(claimers, store, CLAIMERS);
        for (int step = 0; step < STEPS; step++) {
            bool b = chance_percent(&chance, 50);
            struct claimer *claimer = &claimers[chance_below(&chance, CLAIMERS)];
            if (chance_percent(&chance, 20)) {
                append_count(store, b ? "b" : "a", 1 + chance_below(&chance, 20));
                must_answer(HF_OK, store_last(store, &newest[b]));
            }
            if (chance_percent(&chance, 30)) {
                tell(&inn);
            }
            if (!atomic_load(&claimer->guest.rests) || chance_percent(&chance, 10)) {
                bool beside = chance_percent(&chance, 20);
                claim_with(claimer, store, beside ? "a" : NULL);
                must_answer(HF_OK, beside ? store_last(store, &newest[0]) : HF_OK);
            }
        }
        for (int i = 0; i < LOOKS_MAX && tail_resting(inn.tail) < CLAIMERS; i++) {
            tell(&inn);
            for (int j = 0; j < CLAIMERS; j++) {
                if (!atomic_load(&claimers[j].guest.rests)) {
                    claim(&claimers[j], store);
                }
            }
            pause_a_little();
        }
        must_equal(CLAIMERS, tail_resting(inn.tail));
        for (int i = 0; i < CLAIMERS; i++) {
            must_hold(!wants(i, 'b') || claimers[i].claimed >= newest[1]);
            must_hold(!wants(i, 'a') || claimers[i].claimed >= newest[0]);
            looks += claimers[i].guest.looks;
        }
        claimers_close(claimers, CLAIMERS);
        hall_close(&inn);
        fixture_close(*state, store);
    }
    must_hold(looks > 0); /* or the test shows nothing */
}

#ifdef HF_FAULTS

static void all_are_called_when_the_tail_cannot_be_read(void **state)
{
    struct fixture *f = *state;
    char url[sizeof f->url + 8];
    struct store *store = NULL;
    struct inn inn;
    faulty_install();
    snprintf(url, sizeof url, "faulty:%s", f->url);
    struct store_options options = fixture_options(f, "faulty");
    must_answer(HF_OK, store_open(url, &options, &store));
    inn_open(&inn, store);
    all_rest(&inn);
    append_count(store, "a", 1);
    faulty_fail(FAULTY_READER_NEXT, 1, 1, HF_UNAVAILABLE);
    tell(&inn);
    must_equal(0, tail_resting(inn.tail));
    for (int i = 0; i < GUESTS; i++) {
        must_equal(1, inn.guests[i].looks);
        taker_drain(&inn.guests[i].taker, 100);
        must_equal(wants(i, 'a'), set64_count(&inn.guests[i].taker.handed));
    }
    inn_close(&inn);
    store_close(store);
}

#endif

static const struct CMUnitTest claims[] = {
    CLAIM(only_those_that_want_an_event_are_told_to_look),
    CLAIM(those_that_rest_get_every_event_once),
    CLAIM(one_that_rests_can_be_closed),
    CLAIM(those_that_are_left_are_called_when_the_tail_ends),
    CLAIM(one_that_events_have_passed_is_called_after_a_while),
    CLAIM(one_that_claims_is_only_called_for_events_that_it_wants),
    CLAIM(one_that_claims_does_not_rest_if_an_event_for_it_came_after_its_claim),
    CLAIM(those_that_claim_are_called_one_after_the_other_to_move_on),
    CLAIM(those_that_claim_and_rest_leave_no_event_unclaimed),
#ifdef HF_FAULTS
    CLAIM(all_are_called_when_the_tail_cannot_be_read),
#endif
};

FIXTURE_MAIN("resting", claims, NULL)
