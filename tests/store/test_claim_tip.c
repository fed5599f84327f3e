/*
 * test_claim_tip.c - claims at the end of the log.
 *
 * A claim that moves more than what it hands out loses events without a trace: those of another
 * subscription or partition, or those that are published later at the positions that it has passed.
 */
#include "support/crowd.h"
#include "support/make.h"

#include <sched.h>

#define TIP 250
#define LATER 91
#define PARTITIONS 3

/* Claims with room for `max`; how many came, which must be the next ones. */
static int64_t claim_next(struct fixture *f, struct store *store, int64_t id, int32_t max,
                          int64_t *cursor)
{
    struct claim claim = take(f, store, id, max, T0);
    for (size_t i = 0; i < claim.batch->count; i++) {
        must_equal(*cursor + 1 + (int64_t)i, claim.batch->entries[i].event.position);
    }
    *cursor += (int64_t)claim.batch->count;
    must_hold(*cursor <= head_of(store));
    must_equal(*cursor, progress_of(store, id).cursor);
    return (int64_t)claim.batch->count;
}

/* Reads all of a filter after a position into a new batch. */
static struct batch *read_log(struct fixture *f, struct store *store, const struct filter *filter,
                              int64_t after)
{
    struct batch *batch = fixture_batch(f);
    struct reader *reader = fixture_reader(f, store, after);
    int64_t floor = after;
    for (bool more = true; more;) {
        must_answer(HF_OK, store_reader_next(reader, filter, 1000, batch, &floor, &more));
    }
    return batch;
}

/* Every event of the partition after this position is read for it. */
static void must_read_partition(struct fixture *f, struct store *store, int32_t partition,
                                int64_t after)
{
    uint64_t bits[1] = {UINT64_C(1) << partition};
    struct partition_set owned = {.total = PARTITIONS, .bits = bits};
    struct filter filter = filter_all;
    filter.owned = &owned;
    const struct batch *all = read_log(f, store, &filter_all, after);
    const struct batch *ours = read_log(f, store, &filter, after);
    size_t at = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (all->entries[i].hash % PARTITIONS == partition) {
            must_hold(at < ours->count);
            must_equal(all->entries[i].event.position, ours->entries[at++].event.position);
        }
    }
    must_equal((int64_t)ours->count, (int64_t)at);
    must_hold(at > 0);
}

/* Two shared subscriptions and the partitions of an ordered one on one log. */
static void a_claim_never_passes_the_tip_or_moves_another_partition(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", TIP);
    int64_t one = subscribe_shared(store, "one");
    int64_t two = subscribe_shared(store, "two");
    int64_t ordered = subscribe_ordered(store, "ordered", PARTITIONS);
    int64_t at_one = 0;
    int64_t at_two = 0;
    must_equal(100, claim_next(*state, store, one, 100, &at_one));
    must_equal(100, claim_next(*state, store, one, 100, &at_one));
    must_equal(50, claim_next(*state, store, one, 100, &at_one)); /* and not 300 */
    must_equal(0, claim_next(*state, store, one, 100, &at_one));
    must_equal(0, progress_of(store, two).cursor);

    struct owner first = own(store, ordered, 0);
    must_answer(HF_OK, settle(&first, TIP, NULL, 0));
    for (int32_t i = 1; i < PARTITIONS; i++) {
        struct acquire acquire = acquire_of(ordered, i, LEASE_MS);
        must_answer(HF_OK, RUN(store, &acquire));
        must_equal(0, acquire.ret_checkpoint);
    }

    append_count(store, "t", LATER);
    must_equal(LATER, claim_next(*state, store, one, 1000, &at_one));
    must_equal(TIP + LATER, claim_next(*state, store, two, 1000, &at_two));
    must_equal(0, claim_next(*state, store, two, 1000, &at_two));
    must_read_partition(*state, store, 0, TIP);
    for (int32_t i = 1; i < PARTITIONS; i++) {
        must_read_partition(*state, store, i, 0);
    }
}

/* ---- Races ----------------------------------------------------------------------------------- */

#define PUBLISHERS 3
#define CLAIMERS 3
#define ROUNDS 24
#define POSITIONS_MAX 4000

struct race {
    struct fixture *f;
    struct store *stores[PUBLISHERS + CLAIMERS];
    struct owner owners[PUBLISHERS]; /* their deliveries are the transactions that publish */
    const struct entry *entries[ROUNDS + 1]; /* the events of those deliveries */
    int64_t id;
    atomic_int publishing;
    pthread_mutex_t mutex;
    int taken[POSITIONS_MAX];
    bool passed_head;
};

/* Appends in a transaction that stays open for a while; one in three is rolled back. */
static void append_openly(struct race *race, int index, int round)
{
    struct tx *tx = NULL;
    struct hold hold = {.subscription_id = race->owners[index].subscription_id,
                        .epoch = race->owners[index].epoch};
    bool lane_busy;
    must_answer(HF_OK, store_tx_begin(race->stores[index], deadline_after_ms(DEADLINE_MS), &tx));
    must_answer(HF_OK, tx_enter(tx, &hold, race->entries[round], T0));
    for (int i = 0; i < 3; i++) {
        struct new_event event = event_of("t", NULL);
        struct append append = append_of(&event, 1);
        must_answer(HF_OK, tx_append(tx, &append));
        sched_yield();
    }
    must_answer(HF_OK, tx_leave(tx, true, &lane_busy));
    if (round % 3 == 0) {
        tx_rollback(tx);
    } else {
        must_answer(HF_OK, tx_commit(tx));
    }
}

static void claim_at_tip(struct race *race, int index, struct batch *batch)
{
    struct store *store = race->stores[index];
    bool last = false;
    for (bool more = true; more || !last;) {
        last = atomic_load(&race->publishing) == 0; /* before the claim */
        batch_clear(batch);
        struct claim claim = claim_of(race->id, 1 + index * 3, T0, batch);
        must_answer(HF_OK, RUN(store, &claim));
        int64_t head = head_of(store);
        pthread_mutex_lock(&race->mutex);
        for (size_t i = 0; i < batch->count; i++) {
            int64_t position = batch->entries[i].event.position;
            race->passed_head |= position > head;
            race->taken[position % POSITIONS_MAX]++;
        }
        pthread_mutex_unlock(&race->mutex);
        more = batch->count > 0 || claim.ret_more;
        if (batch->count > 0) {
            must_answer(HF_OK, finish_all(store, &claim, T0));
        }
    }
}

static void race_at_tip(int index, void *ctx)
{
    struct race *race = ctx;
    if (index >= PUBLISHERS) {
        struct batch batch;
        batch_init(&batch);
        claim_at_tip(race, index, &batch);
        batch_release(&batch);
        return;
    }
    for (int round = 1; round <= ROUNDS; round++) {
        append_openly(race, index, round);
        append_count(race->stores[index], "t", 2);
    }
    atomic_fetch_sub(&race->publishing, 1);
}

static void claims_that_race_at_the_tip_take_each_event_once_and_pass_none(void **state)
{
    static struct race race;
    race = (struct race){.f = *state, .mutex = PTHREAD_MUTEX_INITIALIZER};
    atomic_store(&race.publishing, PUBLISHERS);
    for (int i = 0; i < PUBLISHERS + CLAIMERS; i++) {
        race.stores[i] = fixture_open(*state, "racer");
    }
    append_count(race.stores[0], "t", ROUNDS);
    race.id = subscribe_shared(race.stores[0], "s");
    struct batch *log = read_log(*state, race.stores[0], &filter_all, 0);
    must_equal(ROUNDS, (int64_t)log->count);
    for (int i = 1; i <= ROUNDS; i++) {
        race.entries[i] = &log->entries[i - 1];
    }
    for (int i = 0; i < PUBLISHERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        race.owners[i] = own(race.stores[i], subscribe_ordered(race.stores[i], name, 1), 0);
    }
    crowd_run(PUBLISHERS + CLAIMERS, race_at_tip, &race);
    must_equal(false, race.passed_head);

    struct store *store = race.stores[0];
    int64_t last = last_of(store);
    must_hold(last < POSITIONS_MAX);
    /* Numbers that were rolled back may have to be given up first. */
    struct batch *left = fixture_batch(*state);
    for (int64_t end = mono_ms() + DEADLINE_MS;
         progress_of(store, race.id).cursor < last && mono_ms() < end;) {
        struct claim claim = claim_of(race.id, 100, T0, left);
        must_answer(HF_OK, RUN(store, &claim));
        must_equal(0, (int64_t)left->count);
    }
    int64_t events = 0;
    for (int64_t p = 1; p < POSITIONS_MAX; p++) {
        must_hold(race.taken[p] <= 1);
        events += race.taken[p];
    }
    int64_t kept = ROUNDS - ROUNDS / 3;
    must_equal(ROUNDS + PUBLISHERS * (2 * ROUNDS + 3 * kept), events);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_claim_never_passes_the_tip_or_moves_another_partition),
    CLAIM(claims_that_race_at_the_tip_take_each_event_once_and_pass_none),
};

FIXTURE_MAIN("claims at the tip", claims, NULL)
