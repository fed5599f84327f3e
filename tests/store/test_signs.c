/*
 * test_signs.c - wake-ups: what rings, which processes wake, and that none misses it.
 *
 * A consumer reads the number, looks at the store, and waits for the number to change. A ring that
 * is missed between looking and waiting would cost it a whole waiting time.
 */
#include "support/crowd.h"
#include "support/make.h"
#include "support/puppet.h"

#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define LONG_MS (DEADLINE_MS / 2)

/* ---- What rings ------------------------------------------------------------------------------ */

struct bell {
    struct store *near; /* does it */
    struct store *far;  /* hears it too */
    bool slow;          /* rings travel */
    uint64_t near_seen;
    uint64_t far_seen;
};

static struct bell bell_of(struct fixture *f)
{
    return (struct bell){
        .near = fixture_open(f, "near"), .far = fixture_open(f, "far"), .slow = !f->sqlite};
}

/* Where rings come through a server they may still be on their way; on a slow machine for longer
 * than that. What rings does so every time, so of several times one has to be silent. */
#define SETTLE_MS 60
#define SILENCE_TRIES_MAX 50

static void bell_read(struct bell *bell)
{
    uint64_t seen = store_news(bell->far);
    while (bell->slow && seen != store_wait(bell->far, seen, SETTLE_MS)) {
        seen = store_news(bell->far);
    }
    bell->near_seen = store_news(bell->near);
    bell->far_seen = store_news(bell->far);
}

#define must_ring(bell, call)                                                                      \
    do {                                                                                           \
        bell_read(bell);                                                                           \
        must_answer(HF_OK, call);                                                                  \
        must_hold(store_news((bell)->near) != (bell)->near_seen);                                  \
        must_hold(store_wait((bell)->far, (bell)->far_seen, LONG_MS) != (bell)->far_seen);         \
    } while (0)

static bool bell_is_silent(const struct bell *bell)
{
    return store_news(bell->near) == bell->near_seen && store_news(bell->far) == bell->far_seen;
}

#define must_be_silent(bell, deed)                                                                 \
    do {                                                                                           \
        int tries = (bell)->slow ? SILENCE_TRIES_MAX : 1;                                          \
        do {                                                                                       \
            bell_read(bell);                                                                       \
            deed;                                                                                  \
        } while (!bell_is_silent(bell) && --tries > 0);                                            \
        must_hold(tries > 0);                                                                      \
    } while (0)

static void the_news_counter_stands_still_while_nothing_happens(void **state)
{
    struct bell bell = bell_of(*state);
    append_one(bell.near, "t", NULL);
    must_be_silent(&bell, head_of(bell.near));
    must_be_silent(&bell, head_of(bell.far));
}

static void an_append_rings(void **state)
{
    struct bell bell = bell_of(*state);
    for (int i = 0; i < 5; i++) {
        struct new_event event = event_of("t", NULL);
        must_ring(&bell, append_event(bell.near, &event));
    }
}

static void changes_of_a_subscription_ring_but_its_breaker_does_not(void **state)
{
    struct bell bell = bell_of(*state);
    append_count(bell.near, "t", 3);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    must_ring(&bell, RUN(bell.near, &put));
    must_ring(&bell, subscription_pause(bell.near, put.ret_id, true, T0));
    must_ring(&bell, subscription_pause(bell.near, put.ret_id, false, T0));
    must_ring(&bell, subscription_seek(bell.near, put.ret_id, 1));
    struct breaker_put breaker = {.change = {.kind = CHANGE_BREAKER, .now_us = T0},
                                  .subscription_id = put.ret_id,
                                  .state_json = text_of("{}")};
    must_be_silent(&bell, must_answer(HF_OK, RUN(bell.near, &breaker)));
    must_ring(&bell, subscription_drop(bell.near, "s"));
}

static void a_partition_that_is_given_back_rings(void **state)
{
    struct bell bell = bell_of(*state);
    int64_t id = subscribe_ordered(bell.near, "s", 1);
    struct owner owner = own(bell.near, id, 0);
    must_ring(&bell, give_back(&owner));
    must_be_silent(&bell, must_answer(HF_STALE, give_back(&owner)));
}

static void a_release_and_a_retry_that_is_due_ring(void **state)
{
    struct bell bell = bell_of(*state);
    append_count(bell.near, "t", 4);
    int64_t id = subscribe_shared(bell.near, "s");
    struct claim claim = take(*state, bell.near, id, 10, T0);
    must_ring(&bell, finish(bell.near, &claim, OUTCOME_RELEASE, "1", T0, 0));
    must_ring(&bell, finish(bell.near, &claim, OUTCOME_RETRY, "2", T0, T0));
    struct settle_lease release = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                   .subscription_id = id,
                                   .release_all = true};
    memcpy(release.lease, claim.ret_lease, STORE_TOKEN_BYTES);
    must_ring(&bell, RUN(bell.near, &release));
}

static void changes_of_dead_letters_ring(void **state)
{
    struct bell bell = bell_of(*state);
    append_lanes(bell.near, "abc");
    int64_t id = subscribe_ordered(bell.near, "s", 1);
    struct owner owner = own(bell.near, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 3, dead(1, "a"), dead(2, "b"), dead(3, "c")));
    int64_t ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = dead_id_of(bell.near, i + 1);
    }
    struct dead_retry retry_change = {
        .change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0}, .dead_ids = &ids[0], .count = 1};
    must_ring(&bell, RUN(bell.near, &retry_change));
    struct dead_resolve resolve = {.change = {.kind = CHANGE_DEAD_RESOLVE, .now_us = T0},
                                   .dead_id = ids[1]};
    must_ring(&bell, RUN(bell.near, &resolve));
    struct dead_purge purge = {
        .change = {.kind = CHANGE_DEAD_PURGE, .now_us = T0}, .dead_ids = &ids[2], .count = 1};
    must_ring(&bell, RUN(bell.near, &purge));
}

static void an_event_published_in_a_transaction_rings_when_it_commits(void **state)
{
    struct bell bell = bell_of(*state);
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(bell.near, deadline_after_ms(DEADLINE_MS), &tx));
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    must_answer(HF_OK, tx_append(tx, &append));
    must_ring(&bell, tx_commit(tx));
}

static void a_ring_of_another_process_ends_a_wait(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct child *puppet = puppet_start(*state, "b");
    for (int i = 0; i < 20; i++) {
        uint64_t seen = store_news(store);
        puppet_do(puppet, "append t - 1");
        must_hold(store_wait(store, seen, LONG_MS) != seen);
        must_equal(i + 1, head_of(store));
    }
    child_finish(puppet);
}

/* What a store appends is news of events, for that store and for those of other processes. On
 * PostgreSQL looks of its own find other things now and then, so of several times one has to be
 * silent. */
static void news_of_events_alone_is_no_other_news(void **state)
{
    struct bell bell = bell_of(*state);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    int tries = bell.slow ? SILENCE_TRIES_MAX : 1;
    uint64_t near;
    uint64_t far;
    do {
        struct new_event event = event_of("t", NULL);
        bell_read(&bell);
        near = store_other_news(bell.near);
        far = store_other_news(bell.far);
        must_ring(&bell, append_event(bell.near, &event));
    } while ((store_other_news(bell.near) != near || store_other_news(bell.far) != far) &&
             --tries > 0);
    must_hold(tries > 0);
    must_ring(&bell, RUN(bell.near, &put));
    must_hold(store_other_news(bell.near) != near);
    must_hold(store_other_news(bell.far) != far);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void waiting_for_an_old_number_returns_at_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    uint64_t seen = store_news(store);
    append_one(store, "t", NULL);
    int64_t begun_ms = mono_ms();
    must_equal(store_news(store), store_wait(store, seen, LONG_MS));
    must_hold(mono_ms() - begun_ms < LONG_MS / 2);
}

static void waiting_without_news_lasts_until_the_deadline(void **state)
{
    struct bell bell = bell_of(*state);
    struct store *store = bell.near;
    int64_t spent_ms = 0;
    must_be_silent(&bell, (spent_ms = -mono_ms(), store_wait(store, bell.near_seen, 120),
                           spent_ms += mono_ms()));
    must_hold(spent_ms >= 119);
    must_be_silent(&bell, must_equal(bell.near_seen, store_wait(store, bell.near_seen, 0)));
}

static void a_foreign_program_that_writes_ends_a_wait(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    struct store *store = fixture_open(f, "a");
    sqlite3 *db = NULL;
    must_equal(SQLITE_OK, sqlite3_open(fixture_path(f), &db));
    sqlite3_busy_timeout(db, DEADLINE_MS);
    store_wait(store, store_news(store), 0); /* it has seen the database as it is */
    must_equal(SQLITE_OK, sqlite3_exec(db, "CREATE TABLE foreign_table (x)", NULL, NULL, NULL));
    int64_t begun_ms = mono_ms();
    store_wait(store, store_news(store), LONG_MS);
    must_hold(mono_ms() - begun_ms < LONG_MS);
    sqlite3_close(db);
}

struct sleeper {
    struct store *store;
    atomic_int ready;
    atomic_bool stop;
    atomic_int returned;
};

static void sleep_until_woken(int index, void *ctx)
{
    (void)index;
    struct sleeper *sleeper = ctx;
    uint64_t seen = store_news(sleeper->store);
    atomic_fetch_add(&sleeper->ready, 1);
    int64_t begun_ms = mono_ms();
    store_wait(sleeper->store, seen, LONG_MS);
    must_hold(mono_ms() - begun_ms < LONG_MS);
    atomic_fetch_add(&sleeper->returned, 1);
}

/* A wake ends the waits that are under way; who comes later may wait, so it is repeated. */
static void a_wake_ends_the_waits_of_the_stores_own_threads(void **state)
{
    struct sleeper sleeper = {.store = fixture_open(*state, "a")};
    struct crowd crowd;
    crowd_start(&crowd, 4, sleep_until_woken, &sleeper);
    int64_t until_ms = mono_ms() + LONG_MS / 2;
    while (atomic_load(&sleeper.returned) < 4 && mono_ms() < until_ms) {
        store_wake(sleeper.store);
        sched_yield();
    }
    crowd_join(&crowd);
    must_equal(4, atomic_load(&sleeper.returned));
}

static void a_ring_ends_the_waits_of_all_threads(void **state)
{
    struct sleeper sleeper = {.store = fixture_open(*state, "a")};
    struct store *other = fixture_open(*state, "b");
    struct crowd crowd;
    crowd_start(&crowd, 4, sleep_until_woken, &sleeper);
    while (atomic_load(&sleeper.ready) < 4) {
        sched_yield();
    }
    append_one(other, "t", NULL);
    crowd_join(&crowd);
    must_equal(4, atomic_load(&sleeper.returned));
}

/* ---- No ring is missed ----------------------------------------------------------------------- */

#define WAIT_MS 20000
#define RALLY 1000
#define ROUNDS 5000 /* two rings each; a tenth where each costs several statements */
/* The backstop for foreign writers ends a wait early, too, so a missed ring shows as a slow wait:
 * on SQLite of a tenth of a second, behind a server of up to ten. On a busy machine a few waits are
 * slow for want of a processor, and on a very busy one many are for a while: who misses rings does
 * so in every match. */
#define SLOW_MS(sqlite) ((sqlite) ? 80 : 4000)
#define SLOW_MAX(rounds) ((rounds) / 5)
#define MATCHES_MAX 4

struct player {
    struct store *store;
    int64_t slow_ms; /* from here on a wait is slow */
    int64_t slow;
    int64_t slowest_ms;
};

/* Waits until the head is at least `head`: read, look, wait. */
static void await_head(struct player *player, int64_t head)
{
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    for (;;) {
        uint64_t seen = store_news(player->store);
        if (head_of(player->store) >= head) {
            return;
        }
        must_hold(mono_ms() < until_ms);
        int64_t begun_ms = mono_ms();
        store_wait(player->store, seen, WAIT_MS);
        int64_t spent_ms = mono_ms() - begun_ms;
        player->slow += spent_ms >= player->slow_ms;
        player->slowest_ms = spent_ms > player->slowest_ms ? spent_ms : player->slowest_ms;
    }
}

/* Returns every odd event with an even one. The argument: how many, after which position. */
static int player_role(struct fixture *f, const char *argument)
{
    struct player player = {.store = fixture_open(f, "pong"), .slow_ms = SLOW_MS(f->sqlite)};
    char *rest;
    int64_t rounds = strtoll(argument, &rest, 10);
    int64_t base = strtoll(rest, NULL, 10);
    role_report("ready", 0);
    for (int64_t i = 0; i < rounds; i++) {
        await_head(&player, base + 2 * i + 1);
        must_equal(base + 2 * i + 2, append_one(player.store, "t", NULL));
    }
    role_report("slow", player.slow);
    return 0;
}

/* Whether all of them were quick. */
static bool match_with_another_process(struct fixture *f, struct store *store)
{
    struct player player = {.store = store, .slow_ms = SLOW_MS(f->sqlite)};
    int rounds = f->sqlite ? ROUNDS : ROUNDS / 10;
    int64_t base = head_of(store);
    char argument[64];
    snprintf(argument, sizeof argument, "%d %" PRId64, rounds, base);
    struct child *child = fixture_child(f, "player", argument);
    child_hear(child, "ready");
    for (int64_t i = 0; i < rounds; i++) {
        must_equal(base + 2 * i + 1, append_one(player.store, "t", NULL));
        await_head(&player, base + 2 * i + 2);
    }
    int64_t slow = player.slow + child_hear(child, "slow");
    child_finish(child);
    must_equal(base + 2 * rounds, head_of(player.store));
    printf("# %d of %d waits were slow, the slowest took %d ms\n", (int)slow, 2 * rounds,
           (int)player.slowest_ms);
    return slow <= SLOW_MAX(rounds) && player.slowest_ms < WAIT_MS / 2;
}

static void no_ring_is_missed_between_two_processes(void **state)
{
    struct store *store = fixture_open(*state, "ping");
    bool quick = false;
    for (int i = 0; i < MATCHES_MAX && !quick; i++) {
        quick = match_with_another_process(*state, store);
    }
    must_hold(quick);
}

struct rally {
    struct store *stores[2];
    int64_t slow_ms;
    int64_t base;
    int64_t slow[2];
};

static void play(int index, void *ctx)
{
    struct rally *rally = ctx;
    struct player player = {.store = rally->stores[index], .slow_ms = rally->slow_ms};
    for (int64_t i = 0; i < RALLY; i++) {
        int64_t odd = rally->base + 2 * i + 1;
        if (index == 0) {
            must_equal(odd, append_one(player.store, "t", NULL));
            await_head(&player, odd + 1);
        } else {
            await_head(&player, odd);
            must_equal(odd + 1, append_one(player.store, "t", NULL));
        }
    }
    rally->slow[index] = player.slow;
}

static void must_rally(struct fixture *f, struct store *first, struct store *second)
{
    bool quick = false;
    for (int i = 0; i < MATCHES_MAX && !quick; i++) {
        struct rally rally = {
            .stores = {first, second}, .slow_ms = SLOW_MS(f->sqlite), .base = head_of(first)};
        crowd_run(2, play, &rally);
        quick = rally.slow[0] + rally.slow[1] <= SLOW_MAX(RALLY);
    }
    must_hold(quick);
}

static void no_ring_is_missed_between_two_stores_of_one_process(void **state)
{
    struct store *first = fixture_open(*state, "ping");
    must_rally(*state, first, fixture_open(*state, "pong"));
}

static void no_ring_is_missed_between_two_threads_of_one_store(void **state)
{
    struct store *store = fixture_open(*state, "one");
    must_rally(*state, store, store);
}

/* ---- Robustness ------------------------------------------------------------------------------ */

static void notes_can_be_written_without_looking(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (int32_t slot = 0; slot < STORE_NOTES_MAX; slot++) {
        note_handler(store, slot, 1, slot + 1, 1);
    }
    for (int32_t slot = 0; slot < STORE_NOTES_MAX; slot++) {
        store_note_clear(store, slot);
    }
    for (int i = 0; i < 1000; i++) {
        store_alive(store);
    }
    must_equal(1, append_one(store, "t", NULL));
}

/* Rings and waits, for ever. */
static int noisy_role(struct fixture *f, const char *argument)
{
    struct store *store = fixture_open(f, argument);
    role_report("ready", 0);
    for (int64_t i = 0; i < INT64_C(1000000000); i++) {
        append_one(store, "t", NULL);
        store_wait(store, store_news(store), i % 3);
    }
    return 1; /* it was not killed */
}

static void a_process_that_dies_waiting_or_ringing_disturbs_no_other(void **state)
{
    struct store *store = fixture_open(*state, "a");
    for (int i = 0; i < 5; i++) {
        struct child *child = fixture_child(*state, "noisy", "noisy");
        child_hear(child, "ready");
        int64_t head = head_of(store);
        while (head_of(store) < head + 10 + i) {
            store_wait(store, store_news(store), 10);
        }
        child_kill(child);
        uint64_t seen = store_news(store);
        append_one(store, "t", NULL);
        must_hold(store_wait(store, seen, LONG_MS) != seen);
    }
}

static const struct role roles[] = {{"player", player_role}, {"noisy", noisy_role}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(the_news_counter_stands_still_while_nothing_happens),
    CLAIM(an_append_rings),
    CLAIM(changes_of_a_subscription_ring_but_its_breaker_does_not),
    CLAIM(a_partition_that_is_given_back_rings),
    CLAIM(a_release_and_a_retry_that_is_due_ring),
    CLAIM(changes_of_dead_letters_ring),
    CLAIM(an_event_published_in_a_transaction_rings_when_it_commits),
    CLAIM(a_ring_of_another_process_ends_a_wait),
    CLAIM(news_of_events_alone_is_no_other_news),
    CLAIM(waiting_for_an_old_number_returns_at_once),
    CLAIM(waiting_without_news_lasts_until_the_deadline),
    CLAIM(a_foreign_program_that_writes_ends_a_wait),
    CLAIM(a_wake_ends_the_waits_of_the_stores_own_threads),
    CLAIM(a_ring_ends_the_waits_of_all_threads),
    CLAIM(no_ring_is_missed_between_two_processes),
    CLAIM(no_ring_is_missed_between_two_stores_of_one_process),
    CLAIM(no_ring_is_missed_between_two_threads_of_one_store),
    CLAIM(notes_can_be_written_without_looking),
    CLAIM(a_process_that_dies_waiting_or_ringing_disturbs_no_other),
};

FIXTURE_MAIN("signs", claims, roles)
