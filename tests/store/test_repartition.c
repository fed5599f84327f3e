/*
 * test_repartition.c - another number of partitions: the request, and what becomes of checkpoints,
 * retries and settled rows when it is fulfilled.
 */
#include "support/make.h"
#include "support/puppet.h"

#define FROZEN_MS 50

struct request {
    int32_t partitions;
    int32_t wanted;
};

static int copy_request(const struct subscription_row *row, void *ctx)
{
    *(struct request *)ctx = (struct request){row->partitions, row->wanted};
    return 0;
}

static struct request request_of(struct store *store)
{
    struct request request;
    must_answer(HF_OK, store_subscription_get(store, text_of("s"), copy_request, &request));
    return request;
}

static void must_be_requested(struct store *store, int32_t partitions, int32_t wanted)
{
    struct request request = request_of(store);
    must_equal(partitions, request.partitions);
    must_equal(wanted, request.wanted);
}

static void request_for(struct store *store, int32_t partitions)
{
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, partitions);
    must_answer(HF_OK, RUN(store, &put));
    must_equal(false, put.ret_created);
}

static hf_status repartition_within(struct store *store, int64_t id, int64_t lease_ms,
                                    bool *ret_changed)
{
    struct repartition change = {
        .change = {.kind = CHANGE_REPARTITION, .now_us = T0},
        .subscription_id = id,
        .lease_ms = lease_ms,
        .attempts_max = 3,
    };
    hf_status status = RUN(store, &change);
    *ret_changed = change.ret_changed;
    return status;
}

static hf_status repartition(struct store *store, int64_t id)
{
    bool changed;
    return repartition_within(store, id, LEASE_MS, &changed);
}

/* Moves a partition's checkpoint and gives it back. */
static void move_to(struct store *store, int64_t id, int32_t partition, int64_t checkpoint)
{
    struct owner owner = own(store, id, partition);
    must_answer(HF_OK, settle(&owner, checkpoint, NULL, 0));
    must_answer(HF_OK, give_back(&owner));
}

/* ---- The request ----------------------------------------------------------------------------- */

static void a_requested_number_is_stored_and_changes_nothing_else(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 3);
    must_be_requested(a, 3, 0);
    move_to(a, id, 1, 7);
    int64_t generation = generation_of(a, id);
    request_for(a, 5);
    must_be_requested(a, 3, 5);
    must_hold(generation_of(a, id) > generation);
    generation = generation_of(a, id);
    request_for(a, 5);
    must_equal(generation, generation_of(a, id));
}

static void a_new_request_replaces_the_old_and_the_present_number_cancels_it(void **state)
{
    struct store *a = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(a, "s", 3);
    request_for(a, 5);
    request_for(a, 2);
    must_be_requested(a, 3, 2);
    int64_t generation = generation_of(a, id);
    request_for(a, 3);
    must_be_requested(a, 3, 0);
    must_hold(generation_of(a, id) > generation);
    bool changed = true;
    must_answer(HF_OK, repartition_within(a, id, LEASE_MS, &changed));
    must_equal(false, changed);
}

static void after_a_seek_all_partitions_are_equally_far(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 2);
    move_to(a, id, 0, 8);
    request_for(a, 3);
    must_answer(HF_BUSY, repartition(a, id));
    must_answer(HF_OK, subscription_seek(a, id, 4));
    must_be_requested(a, 2, 3);
    must_answer(HF_OK, repartition(a, id));
    must_be_requested(a, 3, 0);
    must_equal(4, progress_of(a, id).checkpoint);
    must_answer(HF_OK, subscription_seek(a, id, 2));
    must_be_requested(a, 3, 0);
}

/* ---- Fulfilling it --------------------------------------------------------------------------- */

static void a_change_of_partitions_waits_until_all_are_equally_far(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 3);
    move_to(a, id, 0, 6);
    request_for(a, 2);
    must_answer(HF_BUSY, repartition(a, id));
    must_say("position 0");
    move_to(a, id, 1, 6);
    must_answer(HF_BUSY, repartition(a, id));
    move_to(a, id, 2, 6);
    bool changed = false;
    must_answer(HF_OK, repartition_within(a, id, LEASE_MS, &changed));
    must_equal(true, changed);
    must_be_requested(a, 2, 0);
    for (int32_t i = 0; i < 2; i++) {
        must_equal(6, own(a, id, i).checkpoint);
    }
    struct acquire gone = acquire_of(id, 2, LEASE_MS);
    must_answer(HF_INVALID, RUN(a, &gone));
}

static void a_change_of_partitions_waits_for_live_owners_and_names_them(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "node-b");
    int64_t id = subscribe_ordered(a, "s", 2);
    struct owner theirs = own(b, id, 1);
    request_for(a, 4);
    must_answer(HF_BUSY, repartition(a, id));
    must_say("node-b");
    must_answer(HF_BUSY, repartition(b, id));
    must_answer(HF_OK, give_back(&theirs));
    must_answer(HF_OK, repartition(a, id));
    must_be_requested(a, 4, 0);
}

static void a_dead_owner_does_not_delay_a_change_of_partitions(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 1", id);
    request_for(a, 3);
    child_kill(puppet);
    must_answer(HF_OK, repartition(a, id));
    must_be_requested(a, 3, 0);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(a, &acquire));
    /* Where no notes are taken the next owner has to be careful. */
    must_equal(!store_takes_notes(a), acquire.ret_unclean);
}

static void events_that_a_dead_owner_ran_are_recorded_in_their_new_partition(void **state)
{
    struct store *a = fixture_open(*state, "a");
    if (!store_takes_notes(a)) {
        skip();
    }
    append_lanes(a, "abcdef");
    int64_t id = subscribe_ordered(a, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 0 %" PRId64 " 3 1", id);
    request_for(a, 4);
    child_kill(puppet);
    must_answer(HF_OK, repartition(a, id));
    int32_t partition = (int32_t)(entry_at(*state, a, 3)->hash % 4);
    must_read("3", list_due(a, id, partition, T0));
    must_equal(1, facts_of(*state, a, id, 3, NULL).attempts);
}

static void a_frozen_owner_delays_a_change_of_partitions_by_a_lease_and_is_refused(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct child *puppet = puppet_start(*state, "frozen");
    puppet_do(puppet, "acquire %" PRId64 " 1", id);
    child_freeze(puppet);
    request_for(a, 3);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    bool changed = false;
    while (repartition_within(a, id, FROZEN_MS, &changed) == HF_BUSY) {
        must_hold(mono_ms() < until_ms);
    }
    must_equal(true, changed);
    child_thaw(puppet);
    must_answer(HF_STALE, puppet_try(puppet, "settle 2"));
    child_finish(puppet);
}

static void former_epochs_are_refused_after_a_change_of_partitions(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 2);
    for (int i = 0; i < 5; i++) {
        move_to(a, id, 1, 0);
    }
    struct owner before = own(a, id, 1);
    must_answer(HF_OK, give_back(&before));
    request_for(a, 1);
    must_answer(HF_OK, repartition(a, id));
    request_for(a, 2);
    must_answer(HF_OK, repartition(a, id));
    struct owner after = own(a, id, 1);
    must_hold(after.epoch > before.epoch);
    must_answer(HF_STALE, settle(&before, 2, NULL, 0));
    must_equal(0, own(a, id, 1).checkpoint);
}

static void retries_and_settled_rows_move_to_the_partition_of_their_event(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_lanes(a, "abcdefghijab");
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 4, retry(1, "a", T0), block(2, "b"), done(7, "g"),
                              done(9, "i"), held(11, "a"), held(12, "b")));
    must_answer(HF_OK, give_back(&owner));
    request_for(a, 5);
    must_answer(HF_OK, repartition(a, id));
    for (int64_t position = 1; position <= 12; position++) {
        int32_t partition = (int32_t)(entry_at(*state, a, position)->hash % 5);
        char word[32];
        snprintf(word, sizeof word, "%" PRId64, position);
        bool ahead = position == 7 || position == 9 || position > 10;
        bool found = false;
        for (int32_t i = 0; i < 5; i++) {
            char list[64];
            snprintf(list, sizeof list, " %s ", list_ahead(a, id, i, 4));
            char padded[64];
            snprintf(padded, sizeof padded, " %s ", word);
            bool here = strstr(list, padded) != NULL;
            must_hold(!here || i == partition);
            found |= here;
        }
        must_equal(ahead, found);
    }
    int32_t of_a = (int32_t)(entry_at(*state, a, 1)->hash % 5);
    int32_t of_b = (int32_t)(entry_at(*state, a, 2)->hash % 5);
    must_read("1", list_due(a, id, of_a, T0));
    must_read("2", list_lanes(a, id, of_a, "a"));
    must_read("2", list_lanes(a, id, of_b, "b"));
    /* The lane goes on in its new partition. */
    struct owner next = own(a, id, of_a);
    must_answer(HF_OK, SETTLE(&next, -1, waited(done(1, "a"))));
    must_read("11", list_due(a, id, of_a, T0));
}

static void an_edited_dead_letter_that_waits_goes_by_its_copy(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_lanes(a, "abc");
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 3, dead(2, "b")));
    must_answer(HF_OK, give_back(&owner));
    int64_t dead_id = dead_id_of(a, 2);
    struct dead_retry again = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0},
                               .dead_ids = &dead_id,
                               .count = 1,
                               .payload = text_of("{\"edited\":1}")};
    must_answer(HF_OK, RUN(a, &again));
    request_for(a, 7);
    must_answer(HF_OK, repartition(a, id));
    must_read("2", list_due(a, id, (int32_t)(entry_at(*state, a, 2)->hash % 7), T0));
}

static void members_stay_and_are_notified_of_a_change_of_partitions(void **state)
{
    struct store *a = fixture_open(*state, "a");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct members_refresh refresh = {.change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = T0},
                                      .subscription_id = id,
                                      .lease_ms = LEASE_MS};
    must_answer(HF_OK, RUN(a, &refresh));
    move_to(a, id, 1, 3);
    request_for(a, 4);
    must_answer(HF_OK, RUN(a, &refresh));
    must_equal(0, refresh.ret_lowest);
    must_equal(3, refresh.ret_highest);
    move_to(a, id, 0, 3);
    must_answer(HF_OK, RUN(a, &refresh));
    must_equal(3, refresh.ret_lowest);
    int64_t members_version = refresh.ret_members_version;
    int64_t generation = generation_of(a, id);
    uint64_t seen = store_news(a);
    must_answer(HF_OK, repartition(a, id));
    must_hold(store_wait(a, seen, DEADLINE_MS) != seen);
    must_hold(generation_of(a, id) > generation);
    must_answer(HF_OK, RUN(a, &refresh));
    must_hold(refresh.ret_members_version > members_version);
    must_equal(1, refresh.ret_members);
    must_equal(4, refresh.ret_partitions);
}

static void shared_and_missing_subscriptions_cannot_be_repartitioned(void **state)
{
    struct store *a = fixture_open(*state, "a");
    must_answer(HF_NOTFOUND, repartition(a, 4711));
    subscribe_shared(a, "s");
    struct subscription_put put = put_of("s", HF_MODE_SHARED, 2);
    must_answer(HF_CONFLICT, RUN(a, &put));
    must_say("partitions");
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_requested_number_is_stored_and_changes_nothing_else),
    CLAIM(a_new_request_replaces_the_old_and_the_present_number_cancels_it),
    CLAIM(after_a_seek_all_partitions_are_equally_far),
    CLAIM(a_change_of_partitions_waits_until_all_are_equally_far),
    CLAIM(a_change_of_partitions_waits_for_live_owners_and_names_them),
    CLAIM(a_dead_owner_does_not_delay_a_change_of_partitions),
    CLAIM(events_that_a_dead_owner_ran_are_recorded_in_their_new_partition),
    CLAIM(a_frozen_owner_delays_a_change_of_partitions_by_a_lease_and_is_refused),
    CLAIM(former_epochs_are_refused_after_a_change_of_partitions),
    CLAIM(retries_and_settled_rows_move_to_the_partition_of_their_event),
    CLAIM(an_edited_dead_letter_that_waits_goes_by_its_copy),
    CLAIM(members_stay_and_are_notified_of_a_change_of_partitions),
    CLAIM(shared_and_missing_subscriptions_cannot_be_repartitioned),
};

FIXTURE_MAIN("repartition", claims, NULL)
