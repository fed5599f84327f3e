/*
 * test_claim.c - leases of shared subscriptions: who gets what, until when, and how it ends.
 */
#include "support/crowd.h"
#include "support/make.h"
#include "support/puppet.h"

struct scene {
    struct fixture *f;
    struct store *store;
    int64_t id;
};

/* A store with count events and a shared subscription to them. */
static struct scene scene_of(struct fixture *f, size_t count)
{
    struct scene scene = {.f = f, .store = fixture_open(f, "a")};
    if (count > 0) {
        append_count(scene.store, "t", count);
    }
    scene.id = subscribe_shared(scene.store, "s");
    return scene;
}

static hf_status release_all(struct store *store, const struct claim *claim)
{
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                  .subscription_id = claim->subscription_id,
                                  .release_all = true};
    memcpy(change.lease, claim->ret_lease, sizeof change.lease);
    return RUN(store, &change);
}

/* ---- From the log ---------------------------------------------------------------------------- */

static void a_claim_takes_from_the_log_in_order_and_moves_the_cursor(void **state)
{
    struct scene s = scene_of(*state, 7);
    struct claim one = take(*state, s.store, s.id, 3, T0);
    must_read("1 2 3", list_batch(one.batch));
    must_equal(T0 + LEASE_US, one.ret_expires_at_us);
    must_equal(false, one.ret_paused);
    must_equal(true, one.ret_more);
    struct progress progress = progress_of(s.store, s.id);
    must_equal(3, progress.cursor);
    must_equal(3, progress.in_flight);
    must_equal(0, progress.checkpoint);
    struct claim two = take(*state, s.store, s.id, 10, T0);
    must_read("4 5 6 7", list_batch(two.batch));
    must_hold(memcmp(one.ret_lease, two.ret_lease, STORE_TOKEN_BYTES) != 0);
    must_equal(7, progress_of(s.store, s.id).in_flight);
    const struct entry *entry = &two.batch->entries[0];
    must_read("{}", entry->event.payload);
    must_equal(0, entry->attempts);
    must_hold(text_is_absent(entry->attempts_json));
    must_equal(false, entry->waited);
}

static void an_empty_claim_makes_no_lease(void **state)
{
    struct scene s = scene_of(*state, 0);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_equal(0, claim.batch->count);
    must_equal(false, claim.ret_more);
    must_equal(-1, claim.ret_wake_us);
    must_equal(0, progress_of(s.store, s.id).in_flight);
    must_equal(0, progress_of(s.store, s.id).cursor);
}

static void a_claim_never_passes_the_head(void **state)
{
    struct scene s = scene_of(*state, 2);
    take(*state, s.store, s.id, 100, T0);
    take(*state, s.store, s.id, 100, T0);
    must_equal(2, progress_of(s.store, s.id).cursor);
    append_one(s.store, "t", NULL);
    must_read("3", list_batch(take(*state, s.store, s.id, 100, T0).batch));
    must_equal(3, progress_of(s.store, s.id).cursor);
}

static void events_that_do_not_match_are_passed_by_the_cursor(void **state)
{
    struct scene s = scene_of(*state, 0);
    append_one(s.store, "no", NULL);
    append_one(s.store, "yes", NULL);
    append_one(s.store, "no", NULL);
    struct text pattern = text_of("yes");
    struct claim claim = claim_of(s.id, 10, T0, fixture_batch(*state));
    claim.filter = (struct filter){.patterns = &pattern, .count = 1};
    must_answer(HF_OK, RUN(s.store, &claim));
    must_read("2", list_batch(claim.batch));
    must_equal(3, progress_of(s.store, s.id).cursor);
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    append_count(s.store, "no", 5);
    claim.batch = fixture_batch(*state);
    must_answer(HF_OK, RUN(s.store, &claim));
    must_equal(0, claim.batch->count);
    must_equal(8, progress_of(s.store, s.id).cursor);
    must_equal(8, progress_of(s.store, s.id).checkpoint);
}

/* Each second event matches: as many rows as events are wanted have only half of them. */
static void a_claim_gets_as_many_as_it_asks_for_whatever_lies_between(void **state)
{
    struct scene s = scene_of(*state, 0);
    for (int i = 0; i < 12; i++) {
        append_one(s.store, i % 2 == 0 ? "yes" : "no", NULL);
    }
    struct text pattern = text_of("yes");
    struct claim claim = claim_of(s.id, 5, T0, fixture_batch(*state));
    claim.filter = (struct filter){.patterns = &pattern, .count = 1};
    must_answer(HF_OK, RUN(s.store, &claim));
    must_read("1 3 5 7 9", list_batch(claim.batch));
    must_equal(true, claim.ret_more);
    claim.batch = fixture_batch(*state);
    must_answer(HF_OK, RUN(s.store, &claim));
    must_read("11", list_batch(claim.batch));
    must_equal(false, claim.ret_more);
    must_equal(12, progress_of(s.store, s.id).cursor);
}

static void unhandled_events_are_claimed_marked_if_asked_for(void **state)
{
    struct scene s = scene_of(*state, 0);
    append_one(s.store, "yes", NULL);
    append_one(s.store, "no", NULL);
    struct text pattern = text_of("yes");
    struct claim claim = claim_of(s.id, 10, T0, fixture_batch(*state));
    claim.filter = (struct filter){.patterns = &pattern, .count = 1, .unhandled_too = true};
    must_answer(HF_OK, RUN(s.store, &claim));
    must_read("1 2", list_batch(claim.batch));
    must_equal(false, claim.batch->entries[0].unhandled);
    must_equal(true, claim.batch->entries[1].unhandled);
}

static void a_claim_stops_at_the_batchs_bytes(void **state)
{
    struct scene s = scene_of(*state, 0);
    size_t bytes = STORE_BATCH_BYTES_MAX / 3;
    char *payload = malloc(bytes);
    must_hold(payload);
    memset(payload, '1', bytes);
    struct new_event events[6];
    for (int i = 0; i < 6; i++) {
        events[i] = event_of("t", NULL);
        events[i].payload = (struct text){payload, bytes};
    }
    struct append append = append_of(events, 6);
    must_answer(HF_OK, RUN(s.store, &append));
    free(payload);
    struct claim claim = take(*state, s.store, s.id, 100, T0);
    must_hold(claim.batch->count >= 1 && claim.batch->count <= 4);
    must_equal(true, claim.ret_more);
    size_t taken = claim.batch->count;
    must_equal(taken, progress_of(s.store, s.id).cursor);
    while (taken < 6) {
        claim = take(*state, s.store, s.id, 100, T0);
        must_hold(claim.batch->count > 0);
        must_equal(taken + 1, claim.batch->entries[0].event.position);
        taken += claim.batch->count;
    }
    must_equal(6, taken);
}

static void a_paused_subscription_gives_nothing(void **state)
{
    struct scene s = scene_of(*state, 3);
    must_answer(HF_OK, subscription_pause(s.store, s.id, true, T0));
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_equal(0, claim.batch->count);
    must_equal(true, claim.ret_paused);
    must_equal(0, progress_of(s.store, s.id).in_flight);
    must_answer(HF_OK, subscription_pause(s.store, s.id, false, T0));
    claim = take(*state, s.store, s.id, 10, T0);
    must_read("1 2 3", list_batch(claim.batch));
    must_equal(false, claim.ret_paused);
}

static void a_lease_of_a_paused_subscription_can_still_be_settled(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, subscription_pause(s.store, s.id, true, T0));
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    must_equal(3, progress_of(s.store, s.id).checkpoint);
}

static void a_claim_by_an_older_definition_conflicts_and_takes_nothing(void **state)
{
    struct scene s = scene_of(*state, 3);
    int64_t generation = generation_of(s.store, s.id);
    struct subscription_put put = put_of("s", HF_MODE_SHARED, 1);
    put.patterns_json = text_of("[\"t\"]");
    must_answer(HF_OK, RUN(s.store, &put));
    struct claim claim = claim_of(s.id, 2, T0, fixture_batch(*state));
    claim.generation = generation;
    must_answer(HF_CONFLICT, RUN(s.store, &claim));
    must_equal(0, claim.batch->count);
    must_equal(0, progress_of(s.store, s.id).cursor);
    must_equal(0, progress_of(s.store, s.id).in_flight);
    claim.generation = generation + 1;
    must_answer(HF_OK, RUN(s.store, &claim));
    must_read("1 2", list_batch(claim.batch));
    must_equal(generation + 1, generation_of(s.store, s.id)); /* claiming is no change of it */
}

static void claiming_for_no_subscription_is_not_found(void **state)
{
    struct scene s = scene_of(*state, 1);
    struct claim claim = claim_of(s.id + 99, 1, T0, fixture_batch(*state));
    must_answer(HF_NOTFOUND, RUN(s.store, &claim));
    must_equal(0, claim.batch->count);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static void an_acknowledged_lease_is_gone(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(0, progress.in_flight);
    must_equal(3, progress.checkpoint);
    must_answer(HF_STALE, finish_all(s.store, &claim, T0));
    must_equal(0, take(*state, s.store, s.id, 10, T0 + 10 * LEASE_US).batch->count);
}

static void parts_of_a_lease_are_settled_one_after_another(void **state)
{
    struct scene s = scene_of(*state, 5);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "2 5", T0, 0));
    must_equal(3, progress_of(s.store, s.id).in_flight);
    must_equal(0, progress_of(s.store, s.id).checkpoint);
    must_answer(HF_STALE, finish(s.store, &claim, OUTCOME_DONE, "2", T0, 0));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "1", T0, 0));
    must_equal(2, progress_of(s.store, s.id).checkpoint);
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    must_equal(5, progress_of(s.store, s.id).checkpoint);
}

static void a_position_that_is_not_in_the_lease_spoils_the_whole_settle(void **state)
{
    struct scene s = scene_of(*state, 6);
    struct claim one = take(*state, s.store, s.id, 3, T0);
    take(*state, s.store, s.id, 2, T0);
    must_answer(HF_STALE, finish(s.store, &one, OUTCOME_DONE, "1 2 4", T0, 0));
    must_answer(HF_STALE, finish(s.store, &one, OUTCOME_DEAD, "1 6", T0, 0));
    must_answer(HF_STALE, finish(s.store, &one, OUTCOME_RETRY, "1 99", T0, T0));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(5, progress.in_flight);
    must_equal(0, progress.dead);
    must_equal(0, progress.retrying);
    must_answer(HF_OK, finish(s.store, &one, OUTCOME_DONE, "1 2 3", T0, 0));
}

static void an_unknown_token_is_stale(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    struct claim wrong = claim;
    wrong.ret_lease[7] ^= 1;
    must_answer(HF_STALE, finish_all(s.store, &wrong, T0));
    must_answer(HF_STALE, lease_extend(s.store, &wrong, T0 + SECOND));
    must_answer(HF_STALE, release_all(s.store, &wrong));
    int64_t other = subscribe_shared(s.store, "other");
    wrong = claim;
    wrong.subscription_id = other;
    must_answer(HF_STALE, finish_all(s.store, &wrong, T0));
    must_equal(3, progress_of(s.store, s.id).in_flight);
}

static void settling_all_does_not_look_at_outcomes(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    struct outcome outcome = {.kind = OUTCOME_DEAD, .position = 4711};
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                  .subscription_id = s.id,
                                  .all = true,
                                  .outcomes = &outcome,
                                  .count = 1};
    memcpy(change.lease, claim.ret_lease, STORE_TOKEN_BYTES);
    must_answer(HF_OK, RUN(s.store, &change));
    must_equal(3, progress_of(s.store, s.id).checkpoint);
    must_equal(0, progress_of(s.store, s.id).dead);
}

static void outcomes_of_one_settle_may_differ(void **state)
{
    struct scene s = scene_of(*state, 5);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    struct outcome outcomes[4] = {
        {.kind = OUTCOME_DONE, .position = 1},
        retry(2, "x", T0 + SECOND),
        dead(3, "x"),
        {.kind = OUTCOME_RELEASE, .position = 4},
    };
    for (int i = 0; i < 4; i++) {
        outcomes[i].lane = claim.batch->entries[i].lane;
    }
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0},
                                  .subscription_id = s.id,
                                  .outcomes = outcomes,
                                  .count = 4};
    memcpy(change.lease, claim.ret_lease, STORE_TOKEN_BYTES);
    must_answer(HF_OK, RUN(s.store, &change));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(1, progress.in_flight);
    must_equal(1, progress.retrying);
    must_equal(1, progress.dead);
    must_equal(1, progress.checkpoint);
    must_read("4", list_batch(take(*state, s.store, s.id, 10, T0).batch));
}

static void a_lease_can_be_settled_by_another_process(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    struct store *other = fixture_open(*state, "b");
    must_answer(HF_OK, finish_all(other, &claim, T0));
}

static void a_failed_event_waits_and_comes_back_with_its_story(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(1, progress.retrying);
    must_equal(0, progress.in_flight);
    must_equal(1, progress.checkpoint);
    struct claim early = take(*state, s.store, s.id, 10, T0 + SECOND - 1);
    must_equal(0, early.batch->count);
    must_equal(T0 + SECOND, early.ret_wake_us);
    struct claim again = take(*state, s.store, s.id, 10, T0 + SECOND);
    must_read("2", list_batch(again.batch));
    const struct entry *entry = &again.batch->entries[0];
    must_equal(1, entry->attempts);
    must_match(text_of(STORY_ONE), entry->attempts_json);
    must_equal(CAUSE_HANDLER, entry->cause);
    must_equal(0, entry->unit.events);
    must_equal(true, entry->waited);
    must_read("{}", entry->event.payload);
    /* no other process gets it while it is leased */
    must_equal(0, take(*state, s.store, s.id, 10, T0 + 2 * SECOND).batch->count);
    must_equal(1, progress_of(s.store, s.id).in_flight);
    must_answer(HF_OK, finish_all(s.store, &again, T0 + SECOND));
    progress = progress_of(s.store, s.id);
    must_equal(0, progress.retrying);
    must_equal(0, progress.in_flight);
    must_equal(3, progress.checkpoint);
    must_equal(0, take(*state, s.store, s.id, 10, T0 + 100 * LEASE_US).batch->count);
}

static void a_buried_event_is_a_dead_letter(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DEAD, "2", T0 + 4, 0));
    must_equal(1, progress_of(s.store, s.id).dead);
    must_equal(2, progress_of(s.store, s.id).in_flight);
    must_hold(dead_id_of(s.store, 2) >= 0);
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    must_equal(0, take(*state, s.store, s.id, 10, T0 + 10 * LEASE_US).batch->count);
    must_equal(3, progress_of(s.store, s.id).checkpoint);
}

static void a_lease_whose_last_event_is_settled_is_gone(void **state)
{
    struct scene s = scene_of(*state, 2);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "1", T0, 0));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    must_answer(HF_STALE, lease_extend(s.store, &claim, T0 + 10 * LEASE_US));
    must_answer(HF_STALE, finish_all(s.store, &claim, T0));
}

/* ---- Releasing ------------------------------------------------------------------------------- */

static void a_released_event_is_free_for_the_next_claim(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct claim claim = take(*state, s.store, s.id, 3, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RELEASE, "2", T0, 0));
    must_equal(2, progress_of(s.store, s.id).in_flight);
    must_answer(HF_STALE, finish(s.store, &claim, OUTCOME_DONE, "2", T0, 0));
    must_equal(0, progress_of(s.store, s.id).checkpoint);
    struct claim next = take(*state, s.store, s.id, 10, T0);
    must_read("2 4", list_batch(next.batch));
    must_equal(0, next.batch->entries[0].attempts);
    must_hold(text_is_absent(next.batch->entries[0].attempts_json));
}

static void a_released_retry_keeps_its_story(void **state)
{
    struct scene s = scene_of(*state, 1);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "1", T0, T0));
    claim = take(*state, s.store, s.id, 10, T0);
    must_read("1", list_batch(claim.batch));
    must_answer(HF_OK, release_all(s.store, &claim));
    must_equal(0, progress_of(s.store, s.id).in_flight);
    claim = take(*state, s.store, s.id, 10, T0);
    must_read("1", list_batch(claim.batch));
    must_equal(1, claim.batch->entries[0].attempts);
    must_match(text_of(STORY_ONE), claim.batch->entries[0].attempts_json);
    must_equal(CAUSE_HANDLER, claim.batch->entries[0].cause);
    must_equal(true, claim.batch->entries[0].waited);
    must_answer(HF_OK, finish_all(s.store, &claim, T0));
    must_equal(0, progress_of(s.store, s.id).retrying);
    must_equal(1, progress_of(s.store, s.id).checkpoint);
}

static void everything_left_is_released_together(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "3", T0, 0));
    must_answer(HF_OK, release_all(s.store, &claim));
    must_answer(HF_STALE, finish_all(s.store, &claim, T0));
    must_read("1 2 4", list_batch(take(*state, s.store, s.id, 10, T0).batch));
}

/* ---- The order of sources -------------------------------------------------------------------- */

static void due_retries_come_first_then_orphans_then_the_log(void **state)
{
    struct scene s = scene_of(*state, 9);
    struct claim orphan = claim_of(s.id, 2, T0, fixture_batch(*state));
    orphan.lease_ms = 1000;
    must_answer(HF_OK, RUN(s.store, &orphan));               /* 1 2 */
    struct claim claim = take(*state, s.store, s.id, 2, T0); /* 3 4 */
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "4", T0, T0 + SECOND));
    must_answer(HF_OK, finish_all(s.store, &claim, T0));

    int64_t now_us = T0 + 2 * SECOND;
    struct claim first = take(*state, s.store, s.id, 1, now_us);
    must_read("4", list_batch(first.batch));
    struct claim second = take(*state, s.store, s.id, 1, now_us);
    must_equal(1, second.batch->count);
    must_hold(second.batch->entries[0].event.position <= 2);
    int64_t seen = second.batch->entries[0].event.position;
    struct claim third = take(*state, s.store, s.id, 1, now_us);
    must_equal(1, third.batch->count);
    must_equal(3 - seen, third.batch->entries[0].event.position);
    must_read("5", list_batch(take(*state, s.store, s.id, 1, now_us).batch));
}

static void due_retries_come_by_due_time(void **state)
{
    struct scene s = scene_of(*state, 3);
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "1", T0, T0 + 30));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "2", T0, T0 + 10));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "3", T0, T0 + 20));
    struct claim again = take(*state, s.store, s.id, 2, T0 + 30);
    must_read("2 3", list_batch(again.batch));
    must_equal(true, again.ret_more);
    must_read("1", list_batch(take(*state, s.store, s.id, 2, T0 + 30).batch));
}

static void a_batch_is_in_the_order_of_the_log(void **state)
{
    struct scene s = scene_of(*state, 7);
    struct claim claim = take(*state, s.store, s.id, 5, T0);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "4", T0, T0 + 10));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "2", T0, T0 + 30));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "5", T0, T0 + 20));
    must_answer(HF_OK, release_all(s.store, &claim)); /* 1 3 */
    struct claim again = take(*state, s.store, s.id, 10, T0 + 30);
    must_read("1 2 3 4 5 6 7", list_batch(again.batch));
    for (size_t i = 0; i < again.batch->count; i++) { /* an entry has moved as a whole */
        const struct entry *entry = &again.batch->entries[i];
        int64_t position = entry->event.position;
        must_equal(position == 2 || position == 4 || position == 5, entry->waited);
    }
    must_answer(HF_OK, finish(s.store, &again, OUTCOME_DONE, "4 1 7", T0 + 30, 0));
    must_answer(HF_OK, finish_all(s.store, &again, T0 + 30));
    must_equal(7, progress_of(s.store, s.id).checkpoint);
}

/* ---- When to look again ---------------------------------------------------------------------- */

static void the_wake_hint_is_the_next_retry_or_lease(void **state)
{
    struct scene s = scene_of(*state, 4);
    struct claim claim = take(*state, s.store, s.id, 2, T0);
    must_equal(T0 + LEASE_US, take(*state, s.store, s.id, 3, T0 + 5).ret_wake_us);
    struct claim empty = take(*state, s.store, s.id, 2, T0 + 10);
    must_equal(0, empty.batch->count);
    must_equal(T0 + LEASE_US, empty.ret_wake_us);
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_RETRY, "1", T0, T0 + 3 * SECOND));
    must_equal(T0 + 3 * SECOND, take(*state, s.store, s.id, 2, T0 + 10).ret_wake_us);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define RACE_EVENTS 1200
#define RACE_THREADS 9

struct race {
    struct store *stores[3];
    int64_t id;
    int taken[RACE_EVENTS + 1];
    pthread_mutex_t mutex;
};

static void claim_until_empty(int index, void *ctx)
{
    struct race *race = ctx;
    struct store *store = race->stores[index % 3];
    struct batch batch;
    batch_init(&batch);
    for (;;) {
        batch_clear(&batch);
        struct claim claim = claim_of(race->id, 1 + index * 3, T0, &batch);
        must_answer(HF_OK, RUN(store, &claim));
        if (batch.count == 0 && !claim.ret_more) {
            break;
        }
        pthread_mutex_lock(&race->mutex);
        for (size_t i = 0; i < batch.count; i++) {
            race->taken[batch.entries[i].event.position]++;
        }
        pthread_mutex_unlock(&race->mutex);
        if (batch.count > 0) {
            must_answer(HF_OK, finish_all(store, &claim, T0));
        }
    }
    batch_release(&batch);
}

static void concurrent_claimers_get_every_event_exactly_once(void **state)
{
    struct scene s = scene_of(*state, RACE_EVENTS);
    static struct race race;
    race = (struct race){.stores = {s.store, fixture_open(*state, "b"), fixture_open(*state, "c")},
                         .id = s.id,
                         .mutex = PTHREAD_MUTEX_INITIALIZER};
    crowd_run(RACE_THREADS, claim_until_empty, &race);
    for (int p = 1; p <= RACE_EVENTS; p++) {
        must_equal(1, race.taken[p]);
    }
    struct progress progress = progress_of(s.store, s.id);
    must_equal(RACE_EVENTS, progress.checkpoint);
    must_equal(0, progress.in_flight);
}

static int claimer_role(struct fixture *f, const char *argument)
{
    struct store *store = fixture_open(f, "claimer");
    struct batch *batch = fixture_batch(f);
    char line[CHILD_LINE_BYTES];
    role_report("ready", 0);
    must_hold(role_listen(line));
    for (;;) {
        batch_clear(batch);
        struct claim claim = claim_of(strtoll(argument, NULL, 10), 7, T0, batch);
        must_answer(HF_OK, RUN(store, &claim));
        if (batch->count == 0 && !claim.ret_more) {
            role_report("end", 0);
            return 0;
        }
        for (size_t i = 0; i < batch->count; i++) {
            role_report("took", batch->entries[i].event.position);
        }
        must_answer(HF_OK, finish_all(store, &claim, T0));
    }
}

static void claimers_in_other_processes_get_every_event_exactly_once(void **state)
{
    struct scene s = scene_of(*state, 400);
    struct child *children[3];
    char argument[32];
    snprintf(argument, sizeof argument, "%" PRId64, s.id);
    for (int i = 0; i < 3; i++) {
        children[i] = fixture_child(*state, "claimer", argument);
        child_hear(children[i], "ready");
    }
    for (int i = 0; i < 3; i++) {
        child_tell(children[i], "go");
    }
    int taken[401] = {0};
    for (int i = 0; i < 3; i++) {
        char line[CHILD_LINE_BYTES];
        while (child_line(children[i], line, DEADLINE_MS) && strncmp(line, "took ", 5) == 0) {
            taken[strtoll(line + 5, NULL, 10)]++;
        }
        must_read("end 0", line);
        child_finish(children[i]);
    }
    for (int p = 1; p <= 400; p++) {
        must_equal(1, taken[p]);
    }
}

static const struct role roles[] = {{"claimer", claimer_role}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(a_claim_takes_from_the_log_in_order_and_moves_the_cursor),
    CLAIM(an_empty_claim_makes_no_lease),
    CLAIM(a_claim_never_passes_the_head),
    CLAIM(events_that_do_not_match_are_passed_by_the_cursor),
    CLAIM(a_claim_gets_as_many_as_it_asks_for_whatever_lies_between),
    CLAIM(unhandled_events_are_claimed_marked_if_asked_for),
    CLAIM(a_claim_stops_at_the_batchs_bytes),
    CLAIM(a_paused_subscription_gives_nothing),
    CLAIM(a_lease_of_a_paused_subscription_can_still_be_settled),
    CLAIM(a_claim_by_an_older_definition_conflicts_and_takes_nothing),
    CLAIM(claiming_for_no_subscription_is_not_found),
    CLAIM(an_acknowledged_lease_is_gone),
    CLAIM(parts_of_a_lease_are_settled_one_after_another),
    CLAIM(a_position_that_is_not_in_the_lease_spoils_the_whole_settle),
    CLAIM(an_unknown_token_is_stale),
    CLAIM(settling_all_does_not_look_at_outcomes),
    CLAIM(outcomes_of_one_settle_may_differ),
    CLAIM(a_lease_can_be_settled_by_another_process),
    CLAIM(a_failed_event_waits_and_comes_back_with_its_story),
    CLAIM(a_buried_event_is_a_dead_letter),
    CLAIM(a_lease_whose_last_event_is_settled_is_gone),
    CLAIM(a_released_event_is_free_for_the_next_claim),
    CLAIM(a_released_retry_keeps_its_story),
    CLAIM(everything_left_is_released_together),
    CLAIM(due_retries_come_first_then_orphans_then_the_log),
    CLAIM(due_retries_come_by_due_time),
    CLAIM(a_batch_is_in_the_order_of_the_log),
    CLAIM(the_wake_hint_is_the_next_retry_or_lease),
    CLAIM(concurrent_claimers_get_every_event_exactly_once),
    CLAIM(claimers_in_other_processes_get_every_event_exactly_once),
};

FIXTURE_MAIN("claim", claims, roles)
