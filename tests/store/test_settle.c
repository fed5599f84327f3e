/*
 * test_settle.c - what becomes of deliveries of an ordered subscription: checkpoints, waiting, held
 * and blocked rows, promotion in the order of a lane, and what is remembered above the checkpoint.
 */
#include "support_scene.h"

#include "base/uuid.h"

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static void a_checkpoint_is_stored_with_event_and_time(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_equal(-1, progress_of(s.store, s.id).checkpoint_at_us);
    must_equal(false, progress_of(s.store, s.id).has_event_id);
    uint8_t id[16];
    memcpy(id, entry_at(*state, s.store, 2)->id, 16);
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = T0 + 3},
                            .subscription_id = s.id,
                            .epoch = s.owner.epoch,
                            .checkpoint = 2,
                            .last_event_id = id};
    must_answer(HF_OK, RUN(s.store, &change));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(2, progress.checkpoint);
    must_equal(T0 + 3, progress.checkpoint_at_us);
    must_equal(true, progress.has_event_id);
    must_hold(memcmp(id, progress.checkpoint_event_id, 16) == 0);

    s.owner.now_us = T0 + 4;
    must_answer(HF_OK, settle(&s.owner, 3, NULL, 0)); /* no id: unchanged */
    progress = progress_of(s.store, s.id);
    must_equal(3, progress.checkpoint);
    must_equal(T0 + 4, progress.checkpoint_at_us);
    must_hold(memcmp(id, progress.checkpoint_event_id, 16) == 0);
}

static void a_settle_without_a_checkpoint_leaves_the_checkpoint(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, settle(&s.owner, 2, NULL, 0));
    must_answer(HF_OK, SETTLE(&s.owner, -1, done(3, "c")));
    must_equal(2, progress_of(s.store, s.id).checkpoint);
    must_read("3", list_ahead(s.store, s.id, 0, 2));
}

static void a_checkpoint_never_goes_back(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    must_answer(HF_OK, settle(&s.owner, 4, NULL, 0));
    must_answer(HF_MISUSE, SETTLE(&s.owner, 3, done(5, "e"), retry(6, "f", T0), dead(5, "e")));
    must_equal(4, progress_of(s.store, s.id).checkpoint);
    must_read("", list_ahead(s.store, s.id, 0, 0));
    must_equal(0, progress_of(s.store, s.id).dead);
    must_answer(HF_OK, settle(&s.owner, 4, NULL, 0));
    must_answer(HF_OK, settle(&s.owner, 6, NULL, 0));
    must_equal(6, progress_of(s.store, s.id).checkpoint);
}

static void the_present_generation_is_answered(void **state)
{
    struct scene s = scene_of(*state, "abc");
    int64_t before = s.owner.generation;
    must_answer(HF_OK, subscription_pause(s.store, s.id, true, T0));
    must_answer(HF_OK, settle(&s.owner, 1, NULL, 0));
    must_equal(before + 1, s.owner.generation);
}

static void a_settle_by_an_older_definition_conflicts_and_changes_nothing(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct outcome outcomes[2] = {done(2, "b"), retry(3, "c", T0)};
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = T0},
                            .subscription_id = s.id,
                            .epoch = s.owner.epoch,
                            .checkpoint = 1,
                            .generation = s.owner.generation,
                            .outcomes = outcomes,
                            .count = 2};
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = text_of("[\"t\"]");
    must_answer(HF_OK, RUN(s.store, &put));
    must_answer(HF_CONFLICT, RUN(s.store, &change));
    must_equal(0, progress_of(s.store, s.id).checkpoint);
    must_read("", list_ahead(s.store, s.id, 0, 0));
    change.generation = generation_of(s.store, s.id) + 1;
    must_answer(HF_CONFLICT, RUN(s.store, &change));
    change.generation = generation_of(s.store, s.id);
    must_answer(HF_OK, RUN(s.store, &change));
    must_equal(1, progress_of(s.store, s.id).checkpoint);
    must_read("2 3", list_ahead(s.store, s.id, 0, 1));
    must_equal(change.generation, change.ret_generation);
}

static void a_settle_of_nothing_is_a_settle(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, settle(&s.owner, -1, NULL, 0));
    must_equal(generation_of(s.store, s.id), s.owner.generation);
}

/* ---- Settled above the checkpoint ------------------------------------------------------------ */

static void events_done_above_the_checkpoint_are_remembered_until_it_passes(void **state)
{
    struct scene s = scene_of(*state, "abcdefg");
    must_answer(HF_OK, SETTLE(&s.owner, 1, done(3, "c"), done(6, "f"), dead(4, "d"), done(1, "a")));
    must_read("3 4 6", list_ahead(s.store, s.id, 0, 1));
    must_equal(true, facts_of(*state, s.store, s.id, 3, NULL).settled);
    must_equal(true, facts_of(*state, s.store, s.id, 4, NULL).settled);
    must_equal(false, facts_of(*state, s.store, s.id, 5, NULL).settled);
    must_answer(HF_OK, settle(&s.owner, 3, NULL, 0));
    must_read("4 6", list_ahead(s.store, s.id, 0, 0));
    must_equal(false, facts_of(*state, s.store, s.id, 3, NULL).settled);
    must_answer(HF_OK, settle(&s.owner, 6, NULL, 0));
    must_read("", list_ahead(s.store, s.id, 0, 0));
}

static void only_events_above_the_given_checkpoint_are_listed_as_done_ahead(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    must_answer(HF_OK,
                SETTLE(&s.owner, -1, done(2, "b"), retry(3, "c", T0), held(4, "c"), block(5, "e")));
    must_read("2 3 4 5", list_ahead(s.store, s.id, 0, 0));
    must_read("3 4 5", list_ahead(s.store, s.id, 0, 2));
    must_read("5", list_ahead(s.store, s.id, 0, 4));
    must_read("", list_ahead(s.store, s.id, 0, 5));
}

static int stop_at_once(int64_t position, void *ctx)
{
    *(int64_t *)ctx += position;
    return 1;
}

static int stop_at_lane(uint64_t lane, int64_t rows, void *ctx)
{
    (void)lane;
    *(int64_t *)ctx += rows;
    return 1;
}

static void listings_can_be_stopped(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(3, "c", T0), retry(4, "d", T0)));
    int64_t sum = 0;
    must_answer(HF_OK, store_ahead(s.store, s.id, 0, 0, stop_at_once, &sum));
    must_equal(3, sum);
    sum = 0;
    must_answer(HF_OK, store_lanes(s.store, s.id, 0, stop_at_lane, &sum));
    must_equal(1, sum);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void a_retry_waits_with_its_story_until_it_is_due(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct outcome outcome = retry(2, "b", T0 + 5 * SECOND);
    outcome.attempts = 3;
    outcome.uncounted = 2;
    outcome.cause = CAUSE_TIMEOUT;
    outcome.unit = (struct unit_mark){.first = 1, .events = 3};
    must_answer(HF_OK, SETTLE(&s.owner, 3, outcome));
    must_equal(1, progress_of(s.store, s.id).retrying);

    struct batch *batch = fixture_batch(*state);
    int64_t next_us = -7;
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + 5 * SECOND - 1, 10, batch, &next_us));
    must_equal(0, batch->count);
    must_equal(T0 + 5 * SECOND, next_us);
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + 5 * SECOND, 10, batch, &next_us));
    must_equal(1, batch->count);
    must_equal(-1, next_us);
    const struct entry *entry = &batch->entries[0];
    must_equal(2, entry->event.position);
    must_read("t", entry->event.type);
    must_read("b", entry->event.key);
    must_read("{}", entry->event.payload);
    must_equal(lane_of("b"), entry->lane);
    must_equal(3, entry->attempts);
    must_equal(2, entry->uncounted);
    must_match(text_of(STORY_ONE), entry->attempts_json);
    must_equal(CAUSE_TIMEOUT, entry->cause);
    must_equal(1, entry->unit.first);
    must_equal(3, entry->unit.events);
    must_equal(true, entry->waited);
}

/* What is known of an attempt does not outlive the next one. */
static void a_retry_that_fails_again_has_the_newer_cause_and_unit(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct outcome outcome = retry(2, "b", T0);
    outcome.unit = (struct unit_mark){.first = 1, .events = 2};
    must_answer(HF_OK, SETTLE(&s.owner, 3, outcome));
    outcome.cause = CAUSE_DIED;
    outcome.unit = (struct unit_mark){.first = 2, .events = 1};
    must_answer(HF_OK, SETTLE(&s.owner, 3, waited(outcome)));

    struct batch *batch = fixture_batch(*state);
    int64_t next_us;
    must_answer(HF_OK, retries_due(s.store, s.id, T0, 10, batch, &next_us));
    must_equal(1, batch->count);
    must_equal(CAUSE_DIED, batch->entries[0].cause);
    must_equal(0, batch->entries[0].unit.events);
    must_equal(CAUSE_DIED, facts_of(*state, s.store, s.id, 2, NULL).cause);
}

static void facts_show_the_retry(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, SETTLE(&s.owner, 1, retry(2, "b", T0 + 9)));
    struct text story;
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 2, &story);
    must_equal(true, facts.waiting);
    must_equal(false, facts.held);
    must_equal(false, facts.blocked);
    must_equal(false, facts.settled);
    must_equal(1, facts.attempts);
    must_equal(CAUSE_HANDLER, facts.cause);
    must_equal(T0 + 9, facts.next_attempt_us);
    must_equal(-1, facts.dead_id);
    must_equal(1, facts.checkpoint);
    must_equal(-1, facts.cursor);
    must_equal(0, facts.start);
    must_match(text_of(STORY_ONE), story);
    facts = facts_of(*state, s.store, s.id, 3, &story);
    must_equal(false, facts.waiting);
    must_equal(0, facts.attempts);
    must_equal(CAUSE_NONE, facts.cause);
    must_hold(text_is_absent(story));
}

static void due_retries_come_by_due_time_up_to_max(void **state)
{
    struct scene s = scene_of(*state, "abcdef");
    must_answer(HF_OK,
                SETTLE(&s.owner, -1, retry(1, "a", T0 + 40), retry(2, "b", T0 + 10),
                       retry(3, "c", T0 + 30), retry(4, "d", T0 + 20), retry(5, "e", T0 + 50)));
    must_read("2 4 3", list_due(s.store, s.id, 0, T0 + 30));
    struct batch *batch = fixture_batch(*state);
    int64_t next_us = -7;
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + 40, 2, batch, &next_us));
    must_read("2 4", list_batch(batch));
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + 40, 1, batch, &next_us));
    must_read("2 4 2", list_batch(batch)); /* appended, and looking takes nothing away */
    batch = fixture_batch(*state);
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + 40, 10, batch, &next_us));
    must_equal(T0 + 50, next_us);
}

/* Nor do they take the place of others. */
static void retries_that_are_in_hand_are_not_answered(void **state)
{
    struct scene s = scene_of(*state, "abcd");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0 + 10), retry(2, "b", T0 + 20),
                              retry(3, "c", T0 + 30), retry(4, "d", T0 + 40)));
    static const int64_t in_hand[] = {1, 3, 7};
    struct due_query query = {
        .subscription_id = s.id,
        .partitions = &(const int32_t){0},
        .partition_count = 1,
        .now_us = T0 + 30,
        .max = 2,
        .in_hand = in_hand,
        .in_hand_count = 3,
    };
    struct batch *batch = fixture_batch(*state);
    int64_t next_us = -7;
    must_answer(HF_OK, store_retries_due(s.store, &query, batch, &next_us));
    must_read("2", list_batch(batch));
    must_equal(T0 + 40, next_us);
    query.now_us = T0 + 40;
    query.max = 1;
    query.in_hand_count = 1;
    must_answer(HF_OK, store_retries_due(s.store, &query, batch, &next_us));
    must_read("2 2", list_batch(batch));
    query.max = 2;
    must_answer(HF_OK, store_retries_due(s.store, &query, batch, &next_us));
    must_read("2 2 2 3", list_batch(batch));
}

/* The second and the third follow the first, which failed; one was stored before the first one's
 * next attempt was due, the other one after that. */
static void an_event_waits_for_all_before_it_in_its_lane_whenever_it_was_stored(void **state)
{
    struct scene s = scene_of(*state, "aaa");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0 + 40), retry(2, "a", 0)));
    must_read("", list_due(s.store, s.id, 0, T0 + 30));
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(3, "a", 0)));
    must_read("1", list_due(s.store, s.id, 0, T0 + 50));
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0 + 90)));
    must_read("", list_due(s.store, s.id, 0, T0 + 80));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(1, "a"))));
    must_read("2 3", list_due(s.store, s.id, 0, T0 + 60));
}

static void a_retry_replaces_the_row_of_its_position(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0)));
    struct outcome again = waited(retry(1, "a", T0 + SECOND));
    again.attempts = 2;
    again.attempts_json = text_of(STORY_TWO);
    must_answer(HF_OK, SETTLE(&s.owner, -1, again));
    must_equal(1, progress_of(s.store, s.id).retrying);
    struct text story;
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 1, &story);
    must_equal(2, facts.attempts);
    must_equal(T0 + SECOND, facts.next_attempt_us);
    must_match(text_of(STORY_TWO), story);
    must_read("1 0", list_lanes(s.store, s.id, 0, "ab"));
}

static void holding_replaces_the_row_of_its_position(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0)));
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(2, "a", T0)));
    must_read("1 2", list_due(s.store, s.id, 0, T0));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(held(2, "a"))));
    must_read("1", list_due(s.store, s.id, 0, T0 + 1000 * SECOND));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).held);
    must_read("2 0", list_lanes(s.store, s.id, 0, "ab"));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(retry(2, "a", T0))));
    must_read("1 2", list_due(s.store, s.id, 0, T0));
}

static void a_retry_that_is_done_is_removed(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0)));
    struct outcome outcome[] = {waited(done(1, "a"))};
    outcome[0].ret_lane_busy = true;
    must_answer(HF_OK, settle(&s.owner, -1, outcome, 1));
    must_equal(false, outcome[0].ret_lane_busy);
    must_equal(0, progress_of(s.store, s.id).retrying);
    must_read("0 0", list_lanes(s.store, s.id, 0, "ab"));
    must_read("", list_due(s.store, s.id, 0, T0 + SECOND));
    must_read("", list_ahead(s.store, s.id, 0, 2));
}

/* ---- Held and promoted ----------------------------------------------------------------------- */

static void held_rows_wait_behind_their_lane(void **state)
{
    struct scene s = scene_of(*state, "aaab");
    must_answer(HF_OK, SETTLE(&s.owner, 4, retry(1, "a", T0), held(2, "a"), held(3, "a")));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(1, progress.retrying);
    must_equal(2, progress.held);
    must_read("1", list_due(s.store, s.id, 0, T0 + 1000 * SECOND));
    must_read("3 0", list_lanes(s.store, s.id, 0, "ab"));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).held);
    must_equal(false, facts_of(*state, s.store, s.id, 2, NULL).waiting);
}

static void the_lanes_lowest_held_row_follows_what_is_done_or_dead(void **state)
{
    struct scene s = scene_of(*state, "aaaa");
    must_answer(HF_OK,
                SETTLE(&s.owner, 4, retry(1, "a", T0), held(3, "a"), held(2, "a"), held(4, "a")));
    s.owner.now_us = T0 + 100;
    struct outcome outcome[] = {waited(done(1, "a"))};
    must_answer(HF_OK, settle(&s.owner, -1, outcome, 1));
    must_equal(true, outcome[0].ret_lane_busy);
    must_read("2", list_due(s.store, s.id, 0, T0 + 100));
    must_read("", list_due(s.store, s.id, 0, T0 + 99));
    must_equal(0, facts_of(*state, s.store, s.id, 2, NULL).attempts);

    outcome[0] = waited(dead(2, "a"));
    must_answer(HF_OK, settle(&s.owner, -1, outcome, 1));
    must_equal(true, outcome[0].ret_lane_busy);
    must_read("3", list_due(s.store, s.id, 0, T0 + 100));

    outcome[0] = waited(done(3, "a"));
    must_answer(HF_OK, settle(&s.owner, -1, outcome, 1));
    must_equal(true, outcome[0].ret_lane_busy);
    must_read("4", list_due(s.store, s.id, 0, T0 + 100));

    outcome[0] = waited(done(4, "a"));
    must_answer(HF_OK, settle(&s.owner, -1, outcome, 1));
    must_equal(false, outcome[0].ret_lane_busy);
    must_read("0", list_lanes(s.store, s.id, 0, "a"));
}

static void a_retry_of_the_first_keeps_the_others_held(void **state)
{
    struct scene s = scene_of(*state, "aa");
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0), held(2, "a")));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(retry(1, "a", T0 + SECOND))));
    must_read("1", list_due(s.store, s.id, 0, T0 + 100 * SECOND));
    must_equal(1, progress_of(s.store, s.id).held);
}

static void lanes_do_not_promote_each_other(void **state)
{
    struct scene s = scene_of(*state, "aabb");
    must_answer(HF_OK, SETTLE(&s.owner, 4, retry(1, "a", T0), held(2, "a"), retry(3, "b", T0 + 1),
                              held(4, "b")));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(1, "a"))));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).waiting);
    must_equal(true, facts_of(*state, s.store, s.id, 4, NULL).held);
    must_read("1 2", list_lanes(s.store, s.id, 0, "ab"));
}

static void several_outcomes_of_a_lane_in_one_settle_promote_in_order(void **state)
{
    struct scene s = scene_of(*state, "aaab");
    must_answer(HF_OK, SETTLE(&s.owner, 4, retry(1, "a", T0), held(2, "a"), held(3, "a")));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(1, "a"))));
    struct outcome outcomes[] = {waited(done(2, "a")), done(4, "b")};
    must_answer(HF_OK, settle(&s.owner, -1, outcomes, 2));
    must_equal(true, outcomes[0].ret_lane_busy);
    must_read("3", list_due(s.store, s.id, 0, T0));
}

static void a_held_event_whose_lane_is_free_waits_at_once(void **state)
{
    struct scene s = scene_of(*state, "aab");
    s.owner.now_us = T0 + 50;
    must_answer(HF_OK, SETTLE(&s.owner, -1, held(2, "a")));
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 2, NULL);
    must_equal(true, facts.waiting);
    must_equal(false, facts.held);
    must_equal(T0 + 50, facts.next_attempt_us);
    must_equal(0, facts.attempts);
    must_read("2", list_due(s.store, s.id, 0, T0 + 50));
}

static void promotion_and_holding_in_one_settle_agree(void **state)
{
    struct scene s = scene_of(*state, "aaa");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0)));
    /* the first is done while the next two are put behind it: one of them must become first */
    must_answer(HF_OK, SETTLE(&s.owner, 3, waited(done(1, "a")), held(2, "a"), held(3, "a")));
    must_read("2", list_due(s.store, s.id, 0, T0));
    must_equal(true, facts_of(*state, s.store, s.id, 3, NULL).held);
}

/* ---- Dead and blocked ------------------------------------------------------------------------ */

static void a_dead_event_becomes_a_dead_letter_and_is_settled(void **state)
{
    struct scene s = scene_of(*state, "abc");
    s.owner.now_us = T0 + 11;
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(2, "b", T0)));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(dead(2, "b"))));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(1, progress.dead);
    must_equal(0, progress.retrying);
    must_equal(0, progress.blocked);
    must_read("2", list_ahead(s.store, s.id, 0, 0));
    struct text story;
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 2, &story);
    must_equal(dead_id_of(s.store, 2), facts.dead_id);
    must_match(text_of(STORY_TWO), story);
    must_equal(2, facts.attempts);
}

static void a_blocked_event_is_dead_and_its_lane_waits(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, 3, retry(1, "a", T0), held(2, "a")));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(block(1, "a"))));
    struct progress progress = progress_of(s.store, s.id);
    must_equal(1, progress.dead);
    must_equal(1, progress.blocked);
    must_equal(0, progress.retrying);
    must_equal(1, progress.held);
    must_read("2 0", list_lanes(s.store, s.id, 0, "ab"));
    must_read("", list_due(s.store, s.id, 0, T0 + 1000 * SECOND));
    must_equal(true, facts_of(*state, s.store, s.id, 1, NULL).blocked);
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).held);
    must_hold(dead_id_of(s.store, 1) >= 0);
}

static void a_first_attempt_can_block_its_lane(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, -1, block(1, "a")));
    must_read("1 0", list_lanes(s.store, s.id, 0, "ab"));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
    must_answer(HF_OK, SETTLE(&s.owner, 2, held(2, "a")));
    must_read("", list_due(s.store, s.id, 0, T0 + 1000 * SECOND));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).held);
}

/* ---- Partitions ------------------------------------------------------------------------------ */

static void queries_of_a_partition_return_its_rows_only(void **state)
{
    struct store *store = fixture_open(*state, "a");
    const char *zero = key_in(0, 2, 0);
    const char *one = key_in(1, 2, 0);
    append_one(store, "t", zero);
    append_one(store, "t", one);
    append_one(store, "t", zero);
    append_one(store, "t", one);
    append_one(store, "t", one);
    int64_t id = subscribe_ordered(store, "s", 2);
    struct owner of_zero = own(store, id, 0);
    struct owner of_one = own(store, id, 1);
    must_answer(HF_OK, SETTLE(&of_zero, -1, retry(1, zero, T0), done(3, zero)));
    must_answer(HF_OK, SETTLE(&of_one, -1, retry(2, one, T0), held(4, one), done(5, one)));
    must_read("1", list_due(store, id, 0, T0));
    must_read("2", list_due(store, id, 1, T0));
    must_read("1 3", list_ahead(store, id, 0, 0));
    must_read("2 4 5", list_ahead(store, id, 1, 0));
    must_read("1", list_lanes(store, id, 0, zero));
    must_read("2", list_lanes(store, id, 1, one));
    must_equal(2, progress_of(store, id).retrying);

    must_answer(HF_OK, settle(&of_zero, 5, NULL, 0)); /* folds its own settled rows only */
    must_read("2 4 5", list_ahead(store, id, 1, 0));
    must_read("1", list_ahead(store, id, 0, 0));
    must_equal(0, progress_of(store, id).checkpoint);
    must_equal(5, facts_of(*state, store, id, 1, NULL).checkpoint);
    must_equal(0, facts_of(*state, store, id, 2, NULL).checkpoint);
}

static void the_most_outcomes_fit_in_one_settle(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", STORE_OUTCOMES_MAX);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    static struct outcome outcomes[STORE_OUTCOMES_MAX];
    for (int i = 0; i < STORE_OUTCOMES_MAX; i++) {
        outcomes[i] = i % 2 ? retry(i + 1, "x", T0 + i) : done(i + 1, "x");
    }
    must_answer(HF_OK, settle(&owner, 0, outcomes, STORE_OUTCOMES_MAX));
    must_equal(STORE_OUTCOMES_MAX / 2, progress_of(store, id).retrying);
    must_answer(HF_OK, settle(&owner, STORE_OUTCOMES_MAX, NULL, 0));
    must_equal(STORE_OUTCOMES_MAX / 2, progress_of(store, id).retrying);
}

/* ---- Pausing --------------------------------------------------------------------------------- */

struct pause_seen {
    int64_t at_us;
    char by[32];
    char reason[32];
};

static int see_pause(const struct subscription_row *row, void *ctx)
{
    struct pause_seen *seen = ctx;
    seen->at_us = row->paused_at_us;
    snprintf(seen->by, sizeof seen->by, "%" TEXT_PRI, TEXT_ARG(row->paused_by));
    snprintf(seen->reason, sizeof seen->reason, "%" TEXT_PRI, TEXT_ARG(row->paused_reason));
    return 0;
}

static struct pause_seen pause_of(struct store *store, int64_t id)
{
    struct pause_seen seen;
    must_answer(HF_OK, store_subscription_by_id(store, id, see_pause, &seen));
    return seen;
}

static void a_pause_comes_with_its_settle_or_not_at_all(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    int64_t generation = generation_of(store, id);
    struct outcome outcome = dead(1, "a");
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = T0 + 5},
                            .subscription_id = id,
                            .epoch = owner.epoch - 1,
                            .checkpoint = 1,
                            .outcomes = &outcome,
                            .count = 1,
                            .pause = {.by = text_of("bus"), .reason = text_of("it died")}};
    must_answer(HF_STALE, RUN(store, &change));
    must_equal(-1, pause_of(store, id).at_us);
    must_equal(generation, generation_of(store, id));

    change.epoch = owner.epoch;
    must_answer(HF_OK, RUN(store, &change));
    struct pause_seen seen = pause_of(store, id);
    must_equal(T0 + 5, seen.at_us);
    must_read("bus", seen.by);
    must_read("it died", seen.reason);
    must_equal(generation + 1, generation_of(store, id));
    must_equal(1, progress_of(store, id).dead);
    must_equal(1, progress_of(store, id).checkpoint);

    must_answer(HF_OK, SETTLE(&owner, 2, done(2, "b"))); /* what ran is settled all the same */
    must_equal(T0 + 5, pause_of(store, id).at_us);
}

static void a_pause_comes_with_the_settle_of_a_lease(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 3, T0);
    struct outcome outcome = dead(2, NULL);
    struct settle_lease change = {.change = {.kind = CHANGE_SETTLE_LEASE, .now_us = T0 + 5},
                                  .subscription_id = id,
                                  .outcomes = &outcome,
                                  .count = 1,
                                  .pause = {.by = text_of("bus"), .reason = text_of("it died")}};
    must_answer(HF_STALE, RUN(store, &change)); /* no lease */
    must_equal(-1, pause_of(store, id).at_us);
    memcpy(change.lease, claim.ret_lease, sizeof change.lease);
    must_answer(HF_OK, RUN(store, &change));
    must_equal(T0 + 5, pause_of(store, id).at_us);
    must_read("it died", pause_of(store, id).reason);
    must_equal(1, progress_of(store, id).dead);
    must_equal(2, progress_of(store, id).in_flight);
    must_equal(true, take(*state, store, id, 3, T0 + 6).ret_paused);
    must_answer(HF_OK, finish_all(store, &claim, T0 + 6));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_checkpoint_is_stored_with_event_and_time),
    CLAIM(a_settle_without_a_checkpoint_leaves_the_checkpoint),
    CLAIM(a_checkpoint_never_goes_back),
    CLAIM(the_present_generation_is_answered),
    CLAIM(a_settle_by_an_older_definition_conflicts_and_changes_nothing),
    CLAIM(a_settle_of_nothing_is_a_settle),
    CLAIM(events_done_above_the_checkpoint_are_remembered_until_it_passes),
    CLAIM(only_events_above_the_given_checkpoint_are_listed_as_done_ahead),
    CLAIM(listings_can_be_stopped),
    CLAIM(a_retry_waits_with_its_story_until_it_is_due),
    CLAIM(a_retry_that_fails_again_has_the_newer_cause_and_unit),
    CLAIM(facts_show_the_retry),
    CLAIM(due_retries_come_by_due_time_up_to_max),
    CLAIM(retries_that_are_in_hand_are_not_answered),
    CLAIM(an_event_waits_for_all_before_it_in_its_lane_whenever_it_was_stored),
    CLAIM(a_retry_replaces_the_row_of_its_position),
    CLAIM(holding_replaces_the_row_of_its_position),
    CLAIM(a_retry_that_is_done_is_removed),
    CLAIM(held_rows_wait_behind_their_lane),
    CLAIM(the_lanes_lowest_held_row_follows_what_is_done_or_dead),
    CLAIM(a_retry_of_the_first_keeps_the_others_held),
    CLAIM(lanes_do_not_promote_each_other),
    CLAIM(several_outcomes_of_a_lane_in_one_settle_promote_in_order),
    CLAIM(a_held_event_whose_lane_is_free_waits_at_once),
    CLAIM(promotion_and_holding_in_one_settle_agree),
    CLAIM(a_dead_event_becomes_a_dead_letter_and_is_settled),
    CLAIM(a_blocked_event_is_dead_and_its_lane_waits),
    CLAIM(a_first_attempt_can_block_its_lane),
    CLAIM(queries_of_a_partition_return_its_rows_only),
    CLAIM(the_most_outcomes_fit_in_one_settle),
    CLAIM(a_pause_comes_with_its_settle_or_not_at_all),
    CLAIM(a_pause_comes_with_the_settle_of_a_lease),
};

FIXTURE_MAIN("settle", claims, NULL)
