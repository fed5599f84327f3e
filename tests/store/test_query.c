/*
 * test_query.c - the questions that are no listing: progress, facts, places in time, leases, sizes.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/time/clock.h"
#include "base/uuid.h"
#include "support/crowd.h"
#include "support/make.h"
#include "support/postgres.h"

static int64_t an_hour_ago(void)
{
    return clock_wall_us() / 1000 * 1000 - 3600 * SECOND;
}

/* ---- Progress -------------------------------------------------------------------------------- */

static void a_fresh_ordered_subscription_has_done_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct progress progress = progress_of(store, id);
    must_equal(0, progress.checkpoint);
    must_equal(-1, progress.checkpoint_at_us);
    must_equal(false, progress.has_event_id);
    must_equal(-1, progress.cursor);
    must_equal(3, progress.head);
    must_equal(0, progress.in_flight);
    must_equal(0, progress.retrying);
    must_equal(0, progress.held);
    must_equal(0, progress.blocked);
    must_equal(0, progress.dead);
    must_equal(entered_of(*state, store, 1), oldest_of(store, id));
    must_equal(false, progress.owned);
    must_equal(false, progress.owner_alive);
}

static void the_checkpoint_is_the_lowest_of_the_partitions(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 9);
    int64_t id = subscribe_ordered(store, "s", 3);
    static const int64_t checkpoints[] = {7, 4, 9};
    for (int32_t partition = 0; partition < 3; partition++) {
        struct owner owner = own(store, id, partition);
        must_answer(HF_OK, settle(&owner, checkpoints[partition], NULL, 0));
    }
    must_equal(4, progress_of(store, id).checkpoint);
}

static void the_checkpoint_of_a_shared_subscription_is_below_cursor_leases_and_retries(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 9);
    int64_t id = subscribe_shared(store, "s");
    struct claim one = take(*state, store, id, 2, T0);   /* 1 2 */
    struct claim two = take(*state, store, id, 2, T0);   /* 3 4 */
    struct claim three = take(*state, store, id, 2, T0); /* 5 6 */
    must_equal(0, progress_of(store, id).checkpoint);
    must_equal(6, progress_of(store, id).cursor);
    must_answer(HF_OK, finish_all(store, &two, T0));
    must_equal(0, progress_of(store, id).checkpoint);
    must_answer(HF_OK, finish_all(store, &one, T0));
    must_equal(4, progress_of(store, id).checkpoint);
    must_answer(HF_OK, finish(store, &three, OUTCOME_RETRY, "5", T0, T0 + SECOND));
    must_answer(HF_OK, finish_all(store, &three, T0));
    must_equal(4, progress_of(store, id).checkpoint);
    must_equal(0, progress_of(store, id).in_flight);
    must_equal(1, progress_of(store, id).retrying);
    struct claim again = take(*state, store, id, 1, T0 + SECOND);
    must_answer(HF_OK, finish_all(store, &again, T0));
    must_equal(6, progress_of(store, id).checkpoint);
    must_equal(false, progress_of(store, id).owned);
}

/* An event that enters the log at this time. A server goes by its own clock, so there the row is
 * changed afterwards. */
static void append_at(struct fixture *fixture, struct store *store, int64_t now_us)
{
    struct new_event event = event_of("t", "k");
    struct append append = append_of(&event, 1);
    append.change.now_us = now_us;
    must_answer(HF_OK, RUN(store, &append));
    if (!fixture->sqlite) {
        char id[HF_ID_BYTES];
        char sql[256];
        uuid_format(event.id, id);
        snprintf(sql, sizeof sql,
                 "UPDATE holdfast_private.events SET entered_at = timestamptz 'epoch' + %" PRId64
                 " * interval '1 us' WHERE id = '%s'",
                 now_us, id);
        must_equal(true, postgres_run(fixture->url, sql));
    }
}

static void the_oldest_waiting_is_the_first_unsettled_event(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_equal(-1, oldest_of(store, id));
    int64_t t = an_hour_ago();
    for (int i = 1; i <= 4; i++) {
        append_at(*state, store, t + i * SECOND);
    }
    must_equal(t + SECOND, oldest_of(store, id));
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, settle(&owner, 2, NULL, 0));
    must_equal(t + 3 * SECOND, oldest_of(store, id));
    must_answer(HF_OK, SETTLE(&owner, 4, retry(3, "k", T0 + 99 * SECOND)));
    must_equal(t + 3 * SECOND, oldest_of(store, id));
    must_answer(HF_OK, SETTLE(&owner, 4, waited(done(3, "k"))));
    must_equal(-1, oldest_of(store, id));
}

static void the_oldest_waiting_event_of_a_shared_subscription_may_be_leased(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_shared(store, "s");
    must_equal(-1, oldest_of(store, id));
    int64_t t = an_hour_ago();
    for (int i = 1; i <= 3; i++) {
        append_at(*state, store, t + i * SECOND);
    }
    struct claim claim = take(*state, store, id, 2, T0);
    must_equal(t + SECOND, oldest_of(store, id));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DONE, "1", T0, 0));
    must_equal(t + 2 * SECOND, oldest_of(store, id));
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_equal(t + 3 * SECOND, oldest_of(store, id));
    claim = take(*state, store, id, 2, T0);
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_equal(-1, oldest_of(store, id));
}

static void the_owner_of_the_first_partition_that_has_one_is_shown(void **state)
{
    struct store *a = fixture_open(*state, "node-a");
    struct store *b = fixture_open(*state, "node-b");
    int64_t id = subscribe_ordered(a, "s", 2);
    must_equal(false, progress_of(a, id).owned);
    must_equal(2, progress_of(a, id).unowned);
    own(b, id, 1);
    must_read("node-b", progress_of(a, id).owner_name);
    must_equal(1, progress_of(a, id).unowned);
    struct owner owner = own(a, id, 0);
    struct progress progress = progress_of(b, id);
    must_equal(true, progress.owned);
    must_equal(true, progress.owner_alive);
    must_equal(0, progress.unowned);
    must_read("node-a", progress.owner_name);
    must_answer(HF_OK, give_back(&owner));
    must_read("node-b", progress_of(b, id).owner_name);
}

#define SEVERAL_MAX 4

/* Whom the callback was told about, and what. */
struct several {
    struct store *store;
    int64_t ids[SEVERAL_MAX];
    int64_t checkpoints[SEVERAL_MAX];
    size_t count;
    size_t enough;
};

static int hear(int64_t id, const struct progress *progress, void *ctx)
{
    struct several *several = ctx;
    must_hold(several->count < SEVERAL_MAX);
    must_equal(progress->checkpoint, progress_of(several->store, id).checkpoint);
    several->ids[several->count] = id;
    several->checkpoints[several->count++] = progress->checkpoint;
    return several->count == several->enough;
}

static void several_subscriptions_are_described_in_the_order_of_their_ids(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 4);
    int64_t gone = subscribe_ordered(store, "gone", 1);
    must_answer(HF_OK, subscription_drop(store, "gone"));
    int64_t ids[] = {0, gone, 0, 0};
    ids[2] = subscribe_ordered(store, "one", 2);
    ids[3] = subscribe_shared(store, "three");
    ids[0] = subscribe_ordered(store, "two", 1);
    must_answer(HF_OK, subscription_seek(store, ids[0], 3));
    must_answer(HF_OK, subscription_seek(store, ids[2], 1));
    must_answer(HF_OK, subscription_seek(store, ids[3], 2));
    struct several several = {.store = store};
    must_answer(HF_OK, store_progress_each(store, ids, 4, T0, hear, &several));
    must_equal(3, several.count);
    must_equal(ids[0], several.ids[0]);
    must_equal(ids[2], several.ids[1]);
    must_equal(ids[3], several.ids[2]);
    must_equal(3, several.checkpoints[0]);
    must_equal(1, several.checkpoints[1]);
    must_equal(2, several.checkpoints[2]);
    several = (struct several){.store = store, .enough = 2};
    must_answer(HF_OK, store_progress_each(store, ids, 4, T0, hear, &several));
    must_equal(2, several.count);
    must_answer(HF_OK, store_progress_each(store, &gone, 1, T0, hear, &several));
    must_answer(HF_OK, store_progress_each(store, NULL, 0, T0, hear, &several));
    must_equal(2, several.count);
    struct progress progress;
    must_answer(HF_NOTFOUND, store_progress(store, gone, T0, &progress));
}

/* Who is to come next, in turns. */
struct turns {
    const int64_t *ids;
    size_t count;
};

static int take_turn(int64_t id, const struct progress *progress, void *ctx)
{
    (void)progress;
    struct turns *turns = ctx;
    must_equal(turns->ids[turns->count++], id);
    return 0;
}

static void none_of_many_subscriptions_is_left_out(void **state)
{
    enum { MANY = 700 }; /* more than an engine asks for together */
    struct store *store = fixture_open(*state, "a");
    int64_t two[] = {subscribe_ordered(store, "a", 1), subscribe_ordered(store, "b", 1)};
    int64_t ids[MANY];
    for (int i = 0; i < MANY; i++) {
        ids[i] = two[i % 3 == 0];
    }
    struct turns turns = {.ids = ids};
    must_answer(HF_OK, store_progress_each(store, ids, MANY, T0, take_turn, &turns));
    must_equal(MANY, turns.count);
}

/* ---- Has anything changed? ------------------------------------------------------------------- */

struct epochs {
    int64_t generation;
    int64_t epoch;
};

struct epochs_found {
    int32_t partition;
    int32_t last;
    int64_t epoch;
};

static int note_epoch(int32_t partition, int64_t epoch, void *ctx)
{
    struct epochs_found *found = ctx;
    must_hold(partition > found->last);
    found->last = partition;
    if (partition == found->partition) {
        found->epoch = epoch;
    }
    return 0;
}

/* The epoch is 0 unless the store owns the partition. */
static struct epochs epochs_of(struct store *store, int64_t id, int32_t partition)
{
    struct standing standing = {.generation = -7};
    struct epochs_found found = {.partition = partition, .last = -1};
    must_answer(HF_OK, store_standing(store, id, &standing, note_epoch, &found));
    must_equal(generation_of(store, id), standing.generation);
    return (struct epochs){standing.generation, found.epoch};
}

static void generation_and_epoch_count_changes_and_takeovers(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct owner zero = own(a, id, 0);
    struct owner one = own(b, id, 1);
    must_equal(zero.epoch, epochs_of(a, id, 0).epoch);
    must_equal(one.epoch, epochs_of(b, id, 1).epoch);
    must_equal(0, epochs_of(a, id, 1).epoch);
    must_answer(HF_OK, settle(&zero, 2, NULL, 0));
    must_equal(zero.epoch, epochs_of(a, id, 0).epoch);
    int64_t generation = epochs_of(a, id, 0).generation;
    must_answer(HF_OK, subscription_pause(b, id, true, T0));
    must_equal(generation + 1, epochs_of(a, id, 0).generation);
    must_equal(zero.epoch, epochs_of(a, id, 0).epoch);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(b, &acquire));
    must_equal(acquire.ret_epoch, epochs_of(b, id, 0).epoch);
    must_equal(0, epochs_of(a, id, 0).epoch);
    must_answer(HF_OK, subscription_seek(a, id, 0));
    must_equal(acquire.ret_epoch + 1, epochs_of(b, id, 0).epoch);
    must_equal(one.epoch + 1, epochs_of(b, id, 1).epoch);
}

static void where_there_is_no_partition_there_is_no_epoch(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t shared = subscribe_shared(store, "s");
    must_equal(0, epochs_of(store, shared, 0).epoch);
    must_equal(0, epochs_of(store, subscribe_ordered(store, "o", 1), 7).epoch);
    struct standing standing = {.generation = -7};
    struct epochs_found found = {.last = -1};
    must_answer(HF_NOTFOUND, store_standing(store, 4711, &standing, note_epoch, &found));
    must_equal(-7, standing.generation);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void facts_of_an_untouched_event_are_empty(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.start = 1;
    must_answer(HF_OK, RUN(store, &put));
    struct text story;
    struct delivery_facts facts = facts_of(*state, store, put.ret_id, 2, &story);
    must_equal(1, facts.start);
    must_equal(1, facts.checkpoint);
    must_equal(-1, facts.cursor);
    must_hold(!facts.settled && !facts.leased && !facts.waiting && !facts.held && !facts.blocked);
    must_equal(0, facts.attempts);
    must_equal(-1, facts.dead_id);
    must_hold(text_is_absent(story));
}

static void facts_of_a_shared_delivery_follow_its_life(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_shared(store, "s");
    struct delivery_facts facts = facts_of(*state, store, id, 2, NULL);
    must_equal(-1, facts.checkpoint);
    must_equal(0, facts.cursor);
    must_equal(false, facts.leased);
    struct claim claim = take(*state, store, id, 2, T0);
    must_equal(true, facts_of(*state, store, id, 2, NULL).leased);
    must_equal(2, facts_of(*state, store, id, 2, NULL).cursor);
    must_equal(false, facts_of(*state, store, id, 3, NULL).leased);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    facts = facts_of(*state, store, id, 2, NULL);
    must_hold(facts.waiting && !facts.leased);
    must_equal(1, facts.attempts);
    must_equal(T0 + SECOND, facts.next_attempt_us);
    struct claim again = take(*state, store, id, 1, T0 + SECOND);
    facts = facts_of(*state, store, id, 2, NULL);
    must_hold(facts.leased && !facts.waiting);
    must_equal(1, facts.attempts);
    must_answer(HF_OK, finish(store, &again, OUTCOME_DEAD, "2", T0, 0));
    facts = facts_of(*state, store, id, 2, NULL);
    must_hold(!facts.leased && !facts.waiting);
    must_equal(dead_id_of(store, 2), facts.dead_id);
}

static void facts_of_no_subscription_are_not_found(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 1);
    const struct entry *entry = entry_at(*state, store, 1);
    struct batch *batch = fixture_batch(*state);
    struct delivery_facts facts;
    struct text story;
    struct delivery_query query = {.id = entry->id, .position = 1};
    must_answer(HF_NOTFOUND,
                store_delivery_facts(store, 4711, &query, &batch->arena, &facts, &story));
}

/* Facts of several subscriptions: for each a letter of what they say, by the order of the ids. */
struct many_facts {
    const int64_t *ids;
    size_t count;
    char said[16];
    int calls;
    int stop_after; /* 0: no limit */
};

static int note_facts(int64_t subscription_id, const struct delivery_facts *facts,
                      struct text story, void *ctx)
{
    struct many_facts *many = ctx;
    size_t at = 0;
    while (at < many->count && many->ids[at] != subscription_id) {
        at++;
    }
    must_hold(at < many->count);
    must_equal('-', many->said[at]); /* each once */
    many->said[at] = facts->waiting        ? 'w'
                     : facts->held         ? 'h'
                     : facts->dead_id >= 0 ? 'd'
                     : facts->leased       ? 'l'
                     : facts->settled      ? 's'
                                           : '.';
    must_equal(facts->waiting || facts->dead_id >= 0, !text_is_absent(story));
    return ++many->calls == many->stop_after;
}

static void facts_of_many_subscriptions_are_those_of_each(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aa");
    int64_t ids[7];
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "o%d", i);
        ids[i] = subscribe_ordered(store, name, 1);
    }
    ids[5] = subscribe_shared(store, "shared");
    ids[6] = ids[5] + 1; /* is none */
    struct owner waits = own(store, ids[0], 0);
    struct owner holds = own(store, ids[1], 0);
    struct owner dies = own(store, ids[2], 0);
    struct owner ends = own(store, ids[3], 0);
    struct outcome failed = retry(2, "a", T0);
    failed.attempts_json = text_of(STORY_ONE);
    must_answer(HF_OK, settle(&waits, 0, &failed, 1));
    must_answer(HF_OK, SETTLE(&holds, 0, retry(1, "a", T0), held(2, "a")));
    must_answer(HF_OK, SETTLE(&dies, 0, dead(2, "a")));
    must_answer(HF_OK, SETTLE(&ends, 0, done(2, "a")));
    take(*state, store, ids[5], 10, T0);
    const struct entry *entry = entry_at(*state, store, 2);
    struct delivery_query query = {
        .id = entry->id, .position = 2, .hash = entry->hash, .now_us = T0};
    struct many_facts many = {.ids = ids, .count = 7, .said = "-------"};
    must_answer(HF_OK, store_delivery_facts_each(store, &query, ids, 7, note_facts, &many));
    must_read("whds.l-", many.said);
    struct many_facts first = {.ids = ids, .count = 7, .said = "-------", .stop_after = 1};
    must_answer(HF_OK, store_delivery_facts_each(store, &query, ids, 7, note_facts, &first));
    must_equal(1, first.calls);
    must_answer(HF_OK, store_delivery_facts_each(store, &query, ids, 0, note_facts, &first));
    must_equal(1, first.calls);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

static void ordered_subscriptions_do_not_see_each_others_deliveries(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aabbcd");
    int64_t one = subscribe_ordered(store, "one", 1);
    int64_t two = subscribe_ordered(store, "two", 1);
    struct owner owner = own(store, one, 0);
    own(store, two, 0);
    must_answer(HF_OK, SETTLE(&owner, 0, retry(1, "a", T0), held(2, "a"), dead(3, "b"),
                              done(5, "c"), block(6, "d")));
    struct progress progress = progress_of(store, two);
    must_equal(0, progress.retrying + progress.held + progress.blocked + progress.dead);
    must_read("", list_ahead(store, two, 0, 0));
    must_read("", list_due(store, two, 0, T0 + SECOND));
    must_read("0 0 0 0", list_lanes(store, two, 0, "abcd"));
    for (int64_t p = 1; p <= 6; p++) {
        struct text story;
        struct delivery_facts facts = facts_of(*state, store, two, p, &story);
        must_hold(!facts.settled && !facts.waiting && !facts.held && !facts.blocked);
        must_equal(0, facts.attempts);
        must_equal(-1, facts.dead_id);
        must_hold(text_is_absent(story));
    }
    must_equal(2, progress_of(store, one).dead);
    must_equal(1, progress_of(store, one).blocked);
    must_read("1 2 3 5 6", list_ahead(store, one, 0, 0));
}

static void shared_subscriptions_do_not_see_each_others_deliveries(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t one = subscribe_shared(store, "one");
    int64_t two = subscribe_shared(store, "two");
    struct claim claim = take(*state, store, one, 4, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1", T0, T0));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RELEASE, "2", T0, 0));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DEAD, "3", T0, 0));
    struct progress progress = progress_of(store, two);
    must_equal(0, progress.in_flight + progress.retrying + progress.dead + progress.cursor);
    struct delivery_facts facts = facts_of(*state, store, two, 4, NULL);
    must_equal(false, facts.leased);
    must_equal(-1, facts_of(*state, store, two, 3, NULL).dead_id);
    must_equal(false, facts_of(*state, store, two, 1, NULL).waiting);
    struct claim other = take(*state, store, two, 10, T0 + 10 * LEASE_US);
    must_read("1 2 3 4 5", list_batch(other.batch));
    must_equal(0, other.batch->entries[0].attempts);
    must_answer(HF_OK, finish_all(store, &other, T0));
    must_equal(1, progress_of(store, one).in_flight);
    must_equal(1, progress_of(store, one).retrying);
    must_equal(1, progress_of(store, one).dead);
}

static void changes_of_one_subscription_leave_the_others(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aab");
    int64_t one = subscribe_ordered(store, "one", 1);
    int64_t two = subscribe_ordered(store, "two", 1);
    struct owner of_one = own(store, one, 0);
    struct owner of_two = own(store, two, 0);
    must_answer(HF_OK, SETTLE(&of_one, 0, retry(1, "a", T0), held(2, "a"), done(3, "b")));
    must_answer(HF_OK, SETTLE(&of_two, 0, retry(1, "a", T0), held(2, "a"), done(3, "b")));
    int64_t generation = generation_of(store, two);
    must_answer(HF_OK, SETTLE(&of_one, 3, waited(done(1, "a"))));
    must_answer(HF_OK, subscription_pause(store, one, true, T0));
    must_read("1", list_due(store, two, 0, T0 + SECOND)); /* not promoted */
    must_read("1 2 3", list_ahead(store, two, 0, 0));     /* not folded */
    must_equal(0, progress_of(store, two).checkpoint);
    must_answer(HF_OK, subscription_seek(store, one, 1));
    must_answer(HF_OK, subscription_drop(store, "one"));
    must_equal(generation, generation_of(store, two));
    must_read("1 2 3", list_ahead(store, two, 0, 0));
    must_answer(HF_OK, SETTLE(&of_two, 3, waited(done(1, "a")))); /* not fenced */
    must_read("2", list_due(store, two, 0, T0 + SECOND));
}

/* ---- Places in time -------------------------------------------------------------------------- */

static int64_t before(struct store *store, int64_t at_us)
{
    int64_t position = -7;
    must_answer(HF_OK, store_position_before(store, at_us, STORE_DISORDER, &position));
    return position;
}

static void a_time_is_a_place_in_the_log(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t t = an_hour_ago();
    must_equal(0, before(store, t));
    for (int i = 1; i <= 30; i++) {
        append_at(*state, store, t + (i / 3) * 10000); /* three at a time */
    }
    must_equal(0, before(store, 0));
    must_equal(0, before(store, t));
    must_equal(2, before(store, t + 1000));
    must_equal(2, before(store, t + 10000));
    must_equal(5, before(store, t + 11000));
    must_equal(5, before(store, t + 20000));
    must_equal(29, before(store, t + 100000));
    must_equal(30, before(store, t + 101000));
    must_equal(30, before(store, INT64_MAX));
}

/* Publishers may wait, for a lock or the server, and their events bring the time they began at. */
static void finding_a_time_skips_nothing_that_entered_then_or_later(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t t = an_hour_ago();
    for (int i = 1; i <= 20; i++) {
        append_at(*state, store, t + i * SECOND);
    }
    for (int i = 0; i < 100; i++) { /* where a search looks first */
        append_at(*state, store, t + 10 * SECOND);
    }
    for (int i = 21; i <= 40; i++) {
        append_at(*state, store, t + i * SECOND);
    }
    must_equal(4, before(store, t + 5 * SECOND));
    must_equal(10, before(store, t + 11 * SECOND));
    must_equal(14, before(store, t + 15 * SECOND));
    must_equal(19, before(store, t + 20 * SECOND));
    must_equal(120, before(store, t + 21 * SECOND));
    must_equal(139, before(store, t + 40 * SECOND));
}

static void a_time_is_a_place_in_the_stores_own_log(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    int64_t t = an_hour_ago();
    append_at(*state, store, t);
    append_at(*state, other, t);
    append_at(*state, other, t + 1000);
    must_equal(1, before(store, t + 5000));
    must_equal(2, before(other, t + 5000));
}

static int64_t now_of(struct store *store)
{
    int64_t position = -7;
    must_answer(HF_OK, store_now(store, deadline_after_ms(DEADLINE_MS), &position));
    return position;
}

static void now_is_between_what_was_acknowledged_and_what_begins(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    must_equal(0, now_of(a));
    for (int i = 1; i <= 5; i++) {
        int64_t acknowledged = append_one(b, "t", NULL);
        int64_t now = now_of(a);
        must_hold(now >= acknowledged);
        must_hold(append_one(b, "t", NULL) > now);
    }
    must_equal(10, now_of(a));
}

struct now_race {
    struct store *stores[2];
};

static void ask_for_now(int index, void *ctx)
{
    struct now_race *race = ctx;
    for (int i = 0; i < 100; i++) {
        int64_t acknowledged = append_one(race->stores[index % 2], "t", NULL);
        int64_t now = now_of(race->stores[1 - index % 2]);
        must_hold(now >= acknowledged);
        must_hold(append_one(race->stores[index % 2], "t", NULL) > now);
    }
}

static void now_holds_its_promise_while_others_publish(void **state)
{
    struct now_race race = {{fixture_open(*state, "a"), fixture_open(*state, "b")}};
    crowd_run(4, ask_for_now, &race);
}

/* ---- What is left in a lease ----------------------------------------------------------------- */

static void a_lease_can_be_read_with_its_stories(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 5, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "4", T0, T0));
    must_answer(HF_OK, finish_all(store, &claim, T0));
    append_count(store, "t", 2);
    claim = take(*state, store, id, 5, T0); /* 4 again, 6 and 7 */
    must_read("4 6 7", list_batch(claim.batch));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DONE, "6", T0, 0));

    struct store *other = fixture_open(*state, "b");
    struct batch *batch = fixture_batch(*state);
    must_answer(HF_OK, store_lease_read(other, id, claim.ret_lease, batch));
    must_read("4 7", list_batch(batch));
    must_equal(1, batch->entries[0].attempts);
    must_match(text_of(STORY_ONE), batch->entries[0].attempts_json);
    must_equal(CAUSE_HANDLER, batch->entries[0].cause);
    must_equal(CAUSE_NONE, batch->entries[1].cause);
    must_equal(true, batch->entries[0].waited);
    must_read("{}", batch->entries[0].event.payload);
    must_equal(0, batch->entries[1].attempts);
    must_equal(false, batch->entries[1].waited);
}

static void a_lease_that_is_gone_is_stale(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_shared(store, "s");
    int64_t other = subscribe_shared(store, "other");
    struct claim claim = take(*state, store, id, 5, T0);
    struct batch *batch = fixture_batch(*state);
    must_answer(HF_STALE, store_lease_read(store, other, claim.ret_lease, batch));
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_answer(HF_STALE, store_lease_read(store, id, claim.ret_lease, batch));
    must_equal(0, batch->count);
}

/* ---- The engine about itself ----------------------------------------------------------------- */

static void sizes_are_numbers_or_not_known(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 1000);
    struct store_sizes sizes = {-7, -7, -7};
    must_answer(HF_OK, store_sizes_get(store, &sizes));
    must_hold(sizes.store_bytes == -1 || sizes.store_bytes > 0);
    must_hold(sizes.wal_bytes >= -1);
    must_hold(sizes.commits >= 2);
}

static int count_finding(const char *name, const char *value, hf_log_level level,
                         const char *advice, void *ctx)
{
    must_hold(name && name[0]);
    must_hold(value);
    must_hold(level >= HF_LOG_DEBUG && level <= HF_LOG_ERROR);
    (void)advice;
    ++*(int *)ctx;
    return 0;
}

static void the_doctor_finds_something_to_say(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int findings = 0;
    must_answer(HF_OK, store_doctor(store, count_finding, &findings));
    must_hold(findings > 0);
    must_hold(store_engine_name(store)[0]);
    if (((struct fixture *)*state)->sqlite) {
        must_read("sqlite", store_engine_name(store));
    }
}

/* ---- Any thread, any time -------------------------------------------------------------------- */

struct busy {
    struct store *store;
    int64_t id;
};

static void ask_everything(int index, void *ctx)
{
    struct busy *busy = ctx;
    for (int i = 0; i < 60; i++) {
        if (index < 2) {
            append_one(busy->store, "t", NULL);
            continue;
        }
        struct progress progress;
        must_answer(HF_OK, store_progress(busy->store, busy->id, T0, &progress));
        /* one snapshot: what is counted together belongs together */
        must_hold(progress.checkpoint <= progress.head);
        must_hold(progress.head <= 120);
        int64_t oldest_us = oldest_of(busy->store, busy->id);
        if (oldest_us >= 0) {
            must_enter(busy->store, T0, oldest_us); /* another look, so it may be newer */
        } else if (gapless(busy->store)) {
            must_equal(0, progress.head);
        }
        int64_t head;
        int64_t first;
        must_answer(HF_OK, store_head(busy->store, &head, &first));
        must_hold(head >= progress.head);
        must_hold(first >= 1 && first <= head + 1);
        if (gapless(busy->store)) {
            must_equal(1, first);
        }
    }
}

static void queries_of_many_threads_see_consistent_snapshots(void **state)
{
    struct busy busy = {.store = fixture_open(*state, "a")};
    busy.id = subscribe_ordered(busy.store, "s", 1);
    crowd_run(8, ask_everything, &busy);
    must_equal(120, head_of(busy.store));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_fresh_ordered_subscription_has_done_nothing),
    CLAIM(the_checkpoint_is_the_lowest_of_the_partitions),
    CLAIM(the_checkpoint_of_a_shared_subscription_is_below_cursor_leases_and_retries),
    CLAIM(the_oldest_waiting_is_the_first_unsettled_event),
    CLAIM(the_oldest_waiting_event_of_a_shared_subscription_may_be_leased),
    CLAIM(the_owner_of_the_first_partition_that_has_one_is_shown),
    CLAIM(several_subscriptions_are_described_in_the_order_of_their_ids),
    CLAIM(none_of_many_subscriptions_is_left_out),
    CLAIM(generation_and_epoch_count_changes_and_takeovers),
    CLAIM(where_there_is_no_partition_there_is_no_epoch),
    CLAIM(facts_of_an_untouched_event_are_empty),
    CLAIM(facts_of_a_shared_delivery_follow_its_life),
    CLAIM(facts_of_no_subscription_are_not_found),
    CLAIM(facts_of_many_subscriptions_are_those_of_each),
    CLAIM(ordered_subscriptions_do_not_see_each_others_deliveries),
    CLAIM(shared_subscriptions_do_not_see_each_others_deliveries),
    CLAIM(changes_of_one_subscription_leave_the_others),
    CLAIM(a_time_is_a_place_in_the_log),
    CLAIM(finding_a_time_skips_nothing_that_entered_then_or_later),
    CLAIM(a_time_is_a_place_in_the_stores_own_log),
    CLAIM(now_is_between_what_was_acknowledged_and_what_begins),
    CLAIM(now_holds_its_promise_while_others_publish),
    CLAIM(a_lease_can_be_read_with_its_stories),
    CLAIM(a_lease_that_is_gone_is_stale),
    CLAIM(sizes_are_numbers_or_not_known),
    CLAIM(the_doctor_finds_something_to_say),
    CLAIM(queries_of_many_threads_see_consistent_snapshots),
};

FIXTURE_MAIN("query", claims, NULL)
