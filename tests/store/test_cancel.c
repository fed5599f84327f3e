/*
 * test_cancel.c - deliveries that are cancelled (store/cancel.h): where the event may be, who has
 * it, and what comes of a request.
 */
#include "store/cancel.h"

#include "support/puppet.h"
#include "support_scene.h"

#define NOW (T0 + 5)

static struct cancel cancel_of(struct fixture *f, struct store *store, int64_t id, int64_t position,
                               enum cancel_part part)
{
    return (struct cancel){
        .change = {.kind = CHANGE_CANCEL, .now_us = NOW},
        .subscription_id = id,
        .position = position,
        .hash = entry_at(f, store, position)->hash,
        .part = part,
        .by = text_of("ann"),
        .reason = text_of("not wanted"),
        .ret_state = (enum cancel_state) - 1,
    };
}

/* Requests it, and answers what becomes of that. */
static enum cancel_state request(struct fixture *f, struct store *store, int64_t id,
                                 int64_t position)
{
    struct cancel cancel = cancel_of(f, store, id, position, CANCEL_REQUEST);
    must_answer(HF_OK, RUN(store, &cancel));
    return cancel.ret_state;
}

static enum cancel_state withdraw(struct fixture *f, struct store *store, int64_t id,
                                  int64_t position)
{
    struct cancel cancel = cancel_of(f, store, id, position, CANCEL_WITHDRAW);
    must_answer(HF_OK, RUN(store, &cancel));
    return cancel.ret_state;
}

/* The owner answers a request. */
static struct cancel answer_of(struct fixture *f, const struct owner *owner, int64_t position,
                               enum cancel_part part)
{
    struct cancel cancel = cancel_of(f, owner->store, owner->subscription_id, position, part);
    cancel.hold = (struct hold){.subscription_id = owner->subscription_id,
                                .partition = owner->partition,
                                .epoch = owner->epoch};
    return cancel;
}

static enum cancel_state answer(struct fixture *f, const struct owner *owner, int64_t position,
                                enum cancel_part part)
{
    struct cancel cancel = answer_of(f, owner, position, part);
    must_answer(HF_OK, RUN(owner->store, &cancel));
    return cancel.ret_state;
}

struct requests {
    int64_t positions[8];
    int count;
};

static int note_request(int64_t position, int64_t hash, void *ctx)
{
    struct requests *requests = ctx;
    (void)hash;
    requests->positions[requests->count++] = position;
    return 0;
}

static int request_count(struct store *store, int64_t id)
{
    struct requests requests = {.count = 0};
    must_answer(HF_OK, store_cancels(store, id, 8, note_request, &requests));
    return requests.count;
}

static bool is_cancelled(struct fixture *f, struct store *store, int64_t id, int64_t position)
{
    return facts_of(f, store, id, position, NULL).cancelled_at_us >= 0;
}

/* ---- Ordered, without an owner --------------------------------------------------------------- */

static void an_event_that_was_not_read_is_passed_over_by_the_next_owner(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aab");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_equal(CANCEL_MARKED, request(*state, store, id, 2));
    must_read("2", list_ahead(store, id, 0, 0));
    must_equal(2, pending_of(store, id, "*", 100).count);
    struct text story; /* which keeps the texts of the facts, too */
    struct delivery_facts facts = facts_of(*state, store, id, 2, &story);
    must_equal(NOW, facts.cancelled_at_us);
    must_equal(-1, facts.cancel_asked_us);
    must_hold(text_equal(facts.cancelled_by, text_of("ann")));
    must_hold(text_equal(facts.cancel_reason, text_of("not wanted")));
    must_hold(!is_cancelled(*state, store, id, 1));
}

static void cancelling_twice_keeps_the_first(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    struct cancel again = cancel_of(*state, store, id, 1, CANCEL_REQUEST);
    again.change.now_us = NOW + SECOND;
    again.by = text_of("bob");
    must_answer(HF_OK, RUN(store, &again));
    must_equal(CANCEL_BEFORE, again.ret_state);
    struct text story;
    struct delivery_facts facts = facts_of(*state, store, id, 1, &story);
    must_equal(NOW, facts.cancelled_at_us);
    must_hold(text_equal(facts.cancelled_by, text_of("ann")));
    must_equal(CANCEL_BEFORE, withdraw(*state, store, id, 1));
}

static void a_waiting_one_goes_with_its_story_and_its_lane_goes_on(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0 + 60 * SECOND), held(2, "a")));
    must_answer(HF_OK, give_back(&s.owner));
    must_equal(CANCEL_MARKED, request(*state, s.store, s.id, 1));
    must_read("2", list_due(s.store, s.id, 0, NOW));
    must_read("1", list_lanes(s.store, s.id, 0, "a"));
    struct text story;
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 1, &story);
    must_equal(NOW, facts.cancelled_at_us);
    must_equal(1, facts.attempts);
    must_hold(!facts.waiting);
    must_hold(text_equal(story, text_of(STORY_ONE)));
}

static void a_held_one_leaves_its_lane(void **state)
{
    struct scene s = scene_of(*state, "aaa");
    must_answer(HF_OK,
                SETTLE(&s.owner, 3, retry(1, "a", T0 + 60 * SECOND), held(2, "a"), held(3, "a")));
    must_answer(HF_OK, give_back(&s.owner));
    must_equal(CANCEL_MARKED, request(*state, s.store, s.id, 2));
    must_read("2", list_lanes(s.store, s.id, 0, "a"));
    must_read("", list_due(s.store, s.id, 0, NOW)); /* 1 is still before 3 */
}

static void what_is_settled_stays_so(void **state)
{
    struct scene s = scene_of(*state, "abcd");
    must_answer(HF_OK, SETTLE(&s.owner, 2, done(1, "a"), block(2, "b"), done(4, "d")));
    must_answer(HF_OK, give_back(&s.owner));
    must_equal(CANCEL_SETTLED, request(*state, s.store, s.id, 1));
    must_equal(CANCEL_SETTLED, request(*state, s.store, s.id, 2));
    must_equal(CANCEL_SETTLED, request(*state, s.store, s.id, 4));
    must_hold(!is_cancelled(*state, s.store, s.id, 1));
    must_equal(0, request_count(s.store, s.id));
}

static void a_paused_subscription_and_a_missing_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, subscription_pause(store, id, true, T0));
    struct cancel cancel = cancel_of(*state, store, 999, 1, CANCEL_REQUEST);
    must_answer(HF_NOTFOUND, RUN(store, &cancel));
    must_equal(CANCEL_MARKED, request(*state, store, id, 1)); /* though it is paused */
}

/* ---- Ordered, with an owner ------------------------------------------------------------------ */

static void a_living_owner_is_asked_and_decides(void **state)
{
    struct scene s = scene_of(*state, "aab");
    int64_t generation = generation_of(s.store, s.id);
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 2));
    must_hold(generation_of(s.store, s.id) > generation);
    must_equal(1, request_count(s.store, s.id));
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 2, NULL);
    must_equal(NOW, facts.cancel_asked_us);
    must_equal(-1, facts.cancelled_at_us);
    must_read("", list_ahead(s.store, s.id, 0, 0));

    must_equal(CANCEL_MARKED, answer(*state, &s.owner, 2, CANCEL_UNREAD));
    must_equal(0, request_count(s.store, s.id));
    must_read("2", list_ahead(s.store, s.id, 0, 0));
    struct text story;
    facts = facts_of(*state, s.store, s.id, 2, &story);
    must_equal(NOW, facts.cancelled_at_us);
    must_hold(text_equal(facts.cancelled_by, text_of("ann")));
}

static void an_owner_of_an_earlier_epoch_decides_nothing(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 1));
    struct owner old = s.owner;
    struct acquire again = acquire_of(s.id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(s.store, &again));
    struct cancel late = answer_of(*state, &old, 1, CANCEL_IN_HAND);
    must_answer(HF_STALE, RUN(s.store, &late));
    must_hold(!is_cancelled(*state, s.store, s.id, 1));
    must_equal(1, request_count(s.store, s.id));
    s.owner.epoch = again.ret_epoch;
    must_equal(CANCEL_MARKED, answer(*state, &s.owner, 1, CANCEL_IN_HAND));
}

static void a_request_that_was_withdrawn_cancels_nothing(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 1));
    must_equal(CANCEL_NONE, withdraw(*state, s.store, s.id, 1));
    must_equal(CANCEL_NONE, answer(*state, &s.owner, 1, CANCEL_IN_HAND));
    must_hold(!is_cancelled(*state, s.store, s.id, 1));
    must_read("", list_ahead(s.store, s.id, 0, 0));
}

static void what_the_owner_has_read_is_cancelled_only_if_it_waits(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, SETTLE(&s.owner, -1, retry(1, "a", T0 + 60 * SECOND)));
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 1));
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 2));
    must_equal(CANCEL_MARKED, answer(*state, &s.owner, 1, CANCEL_WAITING));
    must_equal(CANCEL_SETTLED, answer(*state, &s.owner, 2, CANCEL_WAITING));
    must_equal(0, request_count(s.store, s.id));
    must_hold(!is_cancelled(*state, s.store, s.id, 2));
    must_read("0", list_lanes(s.store, s.id, 0, "a"));
}

static void an_event_of_a_dead_owner_is_cancelled_at_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    int64_t epoch = puppet_do(puppet, "acquire %" PRId64 " 0", id);
    must_equal(CANCEL_ASKED, request(*state, store, id, 2));
    child_kill(puppet);
    must_equal(CANCEL_MARKED, request(*state, store, id, 2));
    struct acquire heir = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(store, &heir));
    must_hold(heir.ret_epoch > epoch + 1); /* what was on its way from the dead one is refused */
    must_read("2", list_ahead(store, id, 0, heir.ret_checkpoint));
}

static void an_owner_that_stands_still_is_asked(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "frozen");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    child_freeze(puppet);
    must_equal(CANCEL_ASKED, request(*state, store, id, 2));
    must_equal(CANCEL_NONE, withdraw(*state, store, id, 2));
    must_hold(!is_cancelled(*state, store, id, 2));
    child_thaw(puppet);
}

static void the_owner_hears_whether_the_lane_is_free(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0 + 60 * SECOND), held(2, "a")));
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 1));
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 2));
    struct cancel first = answer_of(*state, &s.owner, 1, CANCEL_WAITING);
    must_answer(HF_OK, RUN(s.store, &first));
    must_equal(1, first.ret_waited);
    must_equal(1, first.ret_lane_busy);
    struct cancel second = answer_of(*state, &s.owner, 2, CANCEL_WAITING);
    must_answer(HF_OK, RUN(s.store, &second));
    must_equal(1, second.ret_waited);
    must_equal(0, second.ret_lane_busy);
}

/* ---- Shared ---------------------------------------------------------------------------------- */

static void claims_pass_over_what_is_cancelled_ahead(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_shared(store, "s");
    must_equal(CANCEL_MARKED, request(*state, store, id, 2));
    must_equal(CANCEL_MARKED, request(*state, store, id, 3));
    must_equal(3, pending_of(store, id, "*", 100).count);
    struct claim claim = take(*state, store, id, 2, T0 + SECOND);
    must_read("1 4", list_batch(claim.batch));
    must_read("", list_ahead(store, id, 0, 4));
    must_hold(is_cancelled(*state, store, id, 2));
    must_equal(1, pending_of(store, id, "*", 100).count);
    struct claim rest = take(*state, store, id, 10, T0 + SECOND);
    must_read("5", list_batch(rest.batch));
    must_answer(HF_OK, finish_all(store, &claim, T0 + SECOND));
    must_answer(HF_OK, finish_all(store, &rest, T0 + SECOND));
    must_equal(5, progress_of(store, id).checkpoint);
    must_equal(CANCEL_BEFORE, request(*state, store, id, 3));
}

static void a_claim_that_finds_only_cancelled_events_moves_on(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    must_equal(CANCEL_MARKED, request(*state, store, id, 2));
    struct claim claim = take(*state, store, id, 10, T0 + SECOND);
    must_read("", list_batch(claim.batch));
    must_equal(2, progress_of(store, id).checkpoint);
}

static void a_lease_loses_the_event_that_is_cancelled(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 3, T0);
    must_equal(CANCEL_MARKED, request(*state, store, id, 2));
    must_answer(HF_STALE, finish(store, &claim, OUTCOME_DONE, "2", NOW, 0));
    must_answer(HF_STALE, finish(store, &claim, OUTCOME_DONE, "1 2", NOW, 0));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DONE, "1", NOW, 0));
    must_answer(HF_OK, finish_all(store, &claim, NOW));
    must_hold(is_cancelled(*state, store, id, 2));
    must_hold(!is_cancelled(*state, store, id, 1));
    must_equal(3, progress_of(store, id).checkpoint);
    must_equal(CANCEL_SETTLED, request(*state, store, id, 1));
}

static void a_lease_of_one_event_ends_when_that_is_cancelled(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 1);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 1, T0);
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    must_answer(HF_STALE, finish_all(store, &claim, NOW));
    struct claim next = take(*state, store, id, 1, T0 + 2 * LEASE_US);
    must_read("", list_batch(next.batch));
}

static void a_waiting_one_of_a_shared_subscription_is_not_claimed(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 2, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1 2", T0, T0 + SECOND));
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    struct claim next = take(*state, store, id, 2, T0 + 2 * SECOND);
    must_read("2", list_batch(next.batch));
    must_equal(1, facts_of(*state, store, id, 1, NULL).attempts);
    must_equal(CANCEL_MARKED, request(*state, store, id, 2)); /* claimed again */
    must_answer(HF_STALE, finish_all(store, &next, T0 + 2 * SECOND));
    must_equal(0, progress_of(store, id).retrying);
}

static struct claim take_kept(struct fixture *f, struct store *store, int64_t id, int32_t max)
{
    struct claim claim = claim_of(id, max, T0, fixture_batch(f));
    claim.kept = true;
    claim.bound = true;
    must_answer(HF_OK, RUN(store, &claim));
    return claim;
}

static void the_holder_of_a_kept_lease_is_asked(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take_kept(*state, store, id, 2);
    must_equal(CANCEL_ASKED, request(*state, store, id, 1));
    must_hold(!is_cancelled(*state, store, id, 1));
    struct cancel mine = cancel_of(*state, store, id, 1, CANCEL_IN_HAND);
    mine.hold = (struct hold){.subscription_id = id, .leased = true};
    must_answer(HF_STALE, RUN(store, &mine)); /* not that lease */
    memcpy(mine.hold.lease, claim.ret_lease, sizeof mine.hold.lease);
    must_answer(HF_OK, RUN(store, &mine));
    must_equal(CANCEL_MARKED, mine.ret_state);
    must_answer(HF_OK, finish_all(store, &claim, NOW));
    must_hold(is_cancelled(*state, store, id, 1));
}

static void an_event_in_the_lease_of_a_dead_process_is_cancelled_at_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    struct child *puppet = puppet_start(*state, "mortal");
    must_equal(2, puppet_do(puppet, "claim %" PRId64 " 2 30000 1 1", id));
    must_equal(CANCEL_ASKED, request(*state, store, id, 1));
    child_kill(puppet);
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    struct claim next = take(*state, store, id, 2, T0 + 2 * LEASE_US);
    must_read("2", list_batch(next.batch));
}

static void what_the_holder_gives_back_is_cancelled_by_the_next_request(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take_kept(*state, store, id, 2);
    must_equal(CANCEL_ASKED, request(*state, store, id, 1));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RELEASE, "1", NOW, 0));
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    struct claim next = take(*state, store, id, 2, NOW);
    must_read("", list_batch(next.batch));
}

/* ---- Moving and removing --------------------------------------------------------------------- */

static void a_seek_back_delivers_what_was_passed_again(void **state)
{
    struct scene s = scene_of(*state, "abcd");
    must_answer(HF_OK, SETTLE(&s.owner, 1, done(1, "a"), retry(2, "b", T0 + 60 * SECOND)));
    must_answer(HF_OK, SETTLE(&s.owner, 2));
    must_answer(HF_OK, give_back(&s.owner));
    must_equal(CANCEL_MARKED, request(*state, s.store, s.id, 2)); /* passed */
    must_equal(CANCEL_MARKED, request(*state, s.store, s.id, 4)); /* ahead */
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0));
    must_hold(!is_cancelled(*state, s.store, s.id, 2));
    must_hold(is_cancelled(*state, s.store, s.id, 4));
    must_read("4", list_ahead(s.store, s.id, 0, 0));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 4)); /* over it */
    must_hold(is_cancelled(*state, s.store, s.id, 4));
    must_read("", list_ahead(s.store, s.id, 0, 0));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0)); /* and back: it was passed */
    must_hold(!is_cancelled(*state, s.store, s.id, 4));
}

static void a_seek_forgets_requests(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_equal(CANCEL_ASKED, request(*state, s.store, s.id, 1));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0));
    must_equal(0, request_count(s.store, s.id));
}

static void nothing_is_left_of_it_when_the_subscription_goes(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    must_answer(HF_OK, subscription_drop(store, "s"));
    int64_t again = subscribe_shared(store, "s");
    must_hold(!is_cancelled(*state, store, again, 1));
    struct claim claim = take(*state, store, again, 10, T0);
    must_read("1 2", list_batch(claim.batch));
}

static void other_subscriptions_get_it_as_before(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 2);
    int64_t id = subscribe_shared(store, "s");
    int64_t other = subscribe_shared(store, "o");
    must_equal(CANCEL_MARKED, request(*state, store, id, 1));
    struct claim claim = take(*state, store, other, 10, T0);
    must_read("1 2", list_batch(claim.batch));
    must_hold(!is_cancelled(*state, store, other, 1));
}

static const struct CMUnitTest claims[] = {
    CLAIM(an_event_that_was_not_read_is_passed_over_by_the_next_owner),
    CLAIM(cancelling_twice_keeps_the_first),
    CLAIM(a_waiting_one_goes_with_its_story_and_its_lane_goes_on),
    CLAIM(a_held_one_leaves_its_lane),
    CLAIM(what_is_settled_stays_so),
    CLAIM(a_paused_subscription_and_a_missing_one),
    CLAIM(a_living_owner_is_asked_and_decides),
    CLAIM(an_owner_of_an_earlier_epoch_decides_nothing),
    CLAIM(a_request_that_was_withdrawn_cancels_nothing),
    CLAIM(what_the_owner_has_read_is_cancelled_only_if_it_waits),
    CLAIM(an_event_of_a_dead_owner_is_cancelled_at_once),
    CLAIM(an_owner_that_stands_still_is_asked),
    CLAIM(the_owner_hears_whether_the_lane_is_free),
    CLAIM(claims_pass_over_what_is_cancelled_ahead),
    CLAIM(a_claim_that_finds_only_cancelled_events_moves_on),
    CLAIM(a_lease_loses_the_event_that_is_cancelled),
    CLAIM(a_lease_of_one_event_ends_when_that_is_cancelled),
    CLAIM(a_waiting_one_of_a_shared_subscription_is_not_claimed),
    CLAIM(the_holder_of_a_kept_lease_is_asked),
    CLAIM(an_event_in_the_lease_of_a_dead_process_is_cancelled_at_once),
    CLAIM(what_the_holder_gives_back_is_cancelled_by_the_next_request),
    CLAIM(a_seek_back_delivers_what_was_passed_again),
    CLAIM(a_seek_forgets_requests),
    CLAIM(nothing_is_left_of_it_when_the_subscription_goes),
    CLAIM(other_subscriptions_get_it_as_before),
};

FIXTURE_MAIN("cancel", claims, NULL)
