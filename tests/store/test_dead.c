/*
 * test_dead.c - dead letters: complete copies, retried, resolved, purged. (Listing them has its own
 * program.)
 */
#include "support_scene.h"

#include "base/uuid.h"
#include "store/cancel.h"

static hf_status retry_dead(struct store *store, int64_t dead_id, const char *payload,
                            int64_t *ret_count)
{
    struct dead_retry change = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0 + SECOND},
                                .dead_ids = &dead_id,
                                .count = 1,
                                .payload = text_of(payload),
                                .ret_count = -7};
    hf_status status = RUN(store, &change);
    *ret_count = change.ret_count;
    return status;
}

static int64_t purge(struct store *store, const int64_t *dead_ids, size_t count)
{
    struct dead_purge change = {.change = {.kind = CHANGE_DEAD_PURGE, .now_us = T0 + 5},
                                .dead_ids = dead_ids,
                                .count = count,
                                .ret_count = -7};
    must_answer(HF_OK, RUN(store, &change));
    return change.ret_count;
}

static int64_t count_of(struct store *store, const struct dead_query *query)
{
    int64_t count = -7;
    must_answer(HF_OK, store_dead_count(store, query, &count));
    return count;
}

/* ---- The copy -------------------------------------------------------------------------------- */

struct expectation {
    const struct new_event *event;
    struct store *store;
    int64_t dead_id;
    int calls;
};

static int check_letter(const hf_dead_letter *letter, void *ctx)
{
    struct expectation *wanted = ctx;
    wanted->calls++;
    char id[UUID_TEXT_BYTES];
    uuid_format(wanted->event->id, id);
    must_equal(wanted->dead_id, letter->dead_id);
    must_read("s", letter->subscription);
    must_read(id, letter->event.id);
    must_read("user.created", letter->event.type);
    must_read("{ \"a\" : 1}", letter->event.payload);
    must_equal(10, letter->event.payload_bytes);
    must_read("key", letter->event.key);
    must_read("tenant", letter->event.tenant);
    must_read("{\"m\":1}", letter->event.metadata);
    must_read("me", letter->event.producer);
    must_read(NULL, letter->event.schedule_id);
    must_equal(1, letter->event.position);
    must_equal(1, letter->event.key_version);
    must_equal(T0 - 1, letter->event.emitted_at_us);
    must_enter(wanted->store, T0, letter->event.entered_at_us);
    must_read("rejected", letter->reason);
    must_read("said no", letter->error);
    must_equal(2, letter->attempts);
    must_read(STORY_TWO, letter->attempts_json);
    must_equal(T0 + 77, letter->failed_at_us);
    must_equal(-1, letter->resolved_at_us);
    must_read(NULL, letter->resolved_by);
    must_read(NULL, letter->resolved_note);
    must_read("undecodable", letter->cause);
    return 0;
}

static void a_dead_letter_is_a_complete_copy(void **state)
{
    struct scene s = {.store = fixture_open(*state, "a")};
    struct new_event event = event_of("user.created", "key");
    event.payload = text_of("{ \"a\" : 1}");
    event.tenant = text_of("tenant");
    event.metadata = text_of("{\"m\":1}");
    event.producer = text_of("me");
    event.expected_version = 0;
    must_answer(HF_OK, append_event(s.store, &event));
    s.id = subscribe_ordered(s.store, "s", 1);
    s.owner = own(s.store, s.id, 0);
    s.owner.now_us = T0 + 77;
    struct outcome outcome = dead(1, "key");
    outcome.reason = text_of("rejected");
    outcome.error = text_of("said no");
    outcome.cause = CAUSE_UNDECODABLE;
    must_answer(HF_OK, settle(&s.owner, 1, &outcome, 1));

    struct expectation wanted = {
        .event = &event, .store = s.store, .dead_id = dead_id_of(s.store, 1)};
    must_answer(HF_OK, store_dead_get(s.store, wanted.dead_id, check_letter, &wanted));
    must_equal(1, wanted.calls);
    struct dead_query any = dead_query_any();
    must_answer(HF_OK, store_dead_list(s.store, &any, check_letter, &wanted));
    must_equal(2, wanted.calls);
}

struct letter_facts {
    int64_t dead_id;
    char payload[64];
    char reason[32];
    char error[64];
    int32_t attempts;
    int64_t resolved_at_us;
    char resolved_by[32];
    char resolved_note[32];
};

static int copy_letter(const hf_dead_letter *letter, void *ctx)
{
    struct letter_facts *facts = ctx;
    facts->dead_id = letter->dead_id;
    snprintf(facts->payload, sizeof facts->payload, "%s", letter->event.payload);
    snprintf(facts->reason, sizeof facts->reason, "%s", letter->reason);
    snprintf(facts->error, sizeof facts->error, "%s", letter->error ? letter->error : "(absent)");
    facts->attempts = letter->attempts;
    facts->resolved_at_us = letter->resolved_at_us;
    snprintf(facts->resolved_by, sizeof facts->resolved_by, "%s",
             letter->resolved_by ? letter->resolved_by : "(absent)");
    snprintf(facts->resolved_note, sizeof facts->resolved_note, "%s",
             letter->resolved_note ? letter->resolved_note : "(absent)");
    return 0;
}

static struct letter_facts letter_of(struct store *store, int64_t dead_id)
{
    struct letter_facts facts;
    must_answer(HF_OK, store_dead_get(store, dead_id, copy_letter, &facts));
    return facts;
}

static void the_last_error_may_be_absent(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct outcome outcome = dead(1, "a");
    outcome.error = TEXT_ABSENT;
    must_answer(HF_OK, settle(&s.owner, 1, &outcome, 1));
    must_read("(absent)", letter_of(s.store, dead_id_of(s.store, 1)).error);
}

static void a_missing_dead_letter_is_not_found(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct letter_facts facts;
    must_answer(HF_NOTFOUND, store_dead_get(s.store, 4711, copy_letter, &facts));
    must_answer(HF_NOTFOUND, resolve(s.store, 4711));
}

static void an_event_has_one_open_letter_per_subscription(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, 2, dead(1, "a")));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0));
    s.owner = own(s.store, s.id, 0);
    struct outcome again = dead(1, "a");
    again.reason = text_of("rejected");
    again.error = text_of("later");
    again.attempts = 9;
    must_answer(HF_OK, settle(&s.owner, 2, &again, 1));
    struct dead_query any = dead_query_any();
    must_equal(1, count_of(s.store, &any));
    struct letter_facts facts = letter_of(s.store, dead_id_of(s.store, 1));
    must_read("rejected", facts.reason);
    must_read("later", facts.error);
    must_equal(9, facts.attempts);
    must_equal(-1, facts.resolved_at_us);

    int64_t other = subscribe_ordered(s.store, "other", 1);
    struct owner owner = own(s.store, other, 0);
    must_answer(HF_OK, SETTLE(&owner, 1, dead(1, "a")));
    must_equal(2, count_of(s.store, &any));
    must_equal(1, progress_of(s.store, s.id).dead);
    must_equal(1, progress_of(s.store, other).dead);
}

static void numbers_of_dead_letters_are_never_used_again(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, 1, dead(1, "a")));
    int64_t first = dead_id_of(s.store, 1);
    must_equal(1, purge(s.store, &first, 1));
    must_answer(HF_OK, SETTLE(&s.owner, 2, dead(2, "b")));
    must_hold(dead_id_of(s.store, 2) > first);
}

/* ---- Again ----------------------------------------------------------------------------------- */

static void a_retried_letter_waits_with_a_clean_record_and_is_not_listed(void **state)
{
    struct scene s = scene_of(*state, "abc");
    bury_all(&s, 3);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 2), NULL, &count));
    must_equal(1, count);
    struct dead_query any = dead_query_any();
    must_read("3 1", list_dead(s.store, &any));
    struct text story;
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 2, &story);
    must_equal(true, facts.waiting);
    must_equal(0, facts.attempts);
    must_equal(T0 + SECOND, facts.next_attempt_us);
    must_equal(-1, facts.dead_id);
    must_hold(text_is_absent(story) || story.length == 0 || strcmp(story.bytes, "[]") == 0);

    struct batch *batch = fixture_batch(*state);
    int64_t next_us;
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + SECOND, 10, batch, &next_us));
    must_read("2", list_batch(batch));
    must_equal(0, batch->entries[0].attempts);
    must_equal(true, batch->entries[0].waited);
    must_read("b", batch->entries[0].event.key);
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(2, "b"))));
    must_equal(0, progress_of(s.store, s.id).retrying);
}

static void an_edited_payload_is_delivered_and_the_log_keeps_the_old(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 1);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 1), "{\"edited\": true}", &count));
    struct batch *batch = fixture_batch(*state);
    int64_t next_us;
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + SECOND, 10, batch, &next_us));
    must_read("{\"edited\": true}", batch->entries[0].event.payload);
    must_equal(16, batch->entries[0].event.payload_bytes);
    must_read("{}", entry_at(*state, s.store, 1)->event.payload);

    /* it fails again: the copy stays with it, and dies with it */
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(retry(1, "a", T0 + SECOND))));
    batch = fixture_batch(*state);
    must_answer(HF_OK, retries_due(s.store, s.id, T0 + SECOND, 10, batch, &next_us));
    must_read("{\"edited\": true}", batch->entries[0].event.payload);
    must_equal(1, batch->entries[0].attempts);
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(dead(1, "a"))));
    must_read("{\"edited\": true}", letter_of(s.store, dead_id_of(s.store, 1)).payload);
}

/* What was edited is edited for that one delivery only. */
static void an_edited_payload_goes_with_its_delivery(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 2);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 1), "[1]", &count));
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 2), "[2]", &count));
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(1, "a"))));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0)); /* ends the delivery of 2 */
    s.owner = own(s.store, s.id, 0);
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0), dead(2, "b")));
    struct batch *batch = fixture_batch(*state);
    int64_t next_us;
    must_answer(HF_OK, retries_due(s.store, s.id, T0, 10, batch, &next_us));
    must_read("1", list_batch(batch));
    must_read("{}", batch->entries[0].event.payload);
    must_read("{}", letter_of(s.store, dead_id_of(s.store, 2)).payload);
}

static void a_retried_letter_of_a_shared_subscription_is_claimed(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 10, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DEAD, "2", T0, 0));
    must_answer(HF_OK, finish_all(store, &claim, T0));
    int64_t count;
    must_answer(HF_OK, retry_dead(store, dead_id_of(store, 2), "[7]", &count));
    must_equal(1, progress_of(store, id).checkpoint); /* below every retry */
    claim = take(*state, store, id, 10, T0 + SECOND);
    must_read("2", list_batch(claim.batch));
    must_read("[7]", claim.batch->entries[0].event.payload);
    must_equal(0, claim.batch->entries[0].attempts);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    claim = take(*state, store, id, 10, T0 + SECOND);
    must_read("[7]", claim.batch->entries[0].event.payload);
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_equal(3, progress_of(store, id).checkpoint);
}

struct id_list {
    int64_t ids[STORE_DEAD_STEP_MAX];
    size_t count;
};

static int collect_id(const hf_dead_letter *letter, void *ctx)
{
    struct id_list *list = ctx;
    must_hold(list->count < STORE_DEAD_STEP_MAX);
    list->ids[list->count++] = letter->dead_id;
    return 0;
}

static void many_letters_are_retried_in_one_step_and_missing_ones_not_counted(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", STORE_DEAD_STEP_MAX);
    struct scene s = {.store = store, .id = subscribe_ordered(store, "s", 1)};
    s.owner = own(store, s.id, 0);
    static struct outcome outcomes[STORE_DEAD_STEP_MAX];
    for (int i = 0; i < STORE_DEAD_STEP_MAX; i++) {
        outcomes[i] = dead(i + 1, "x");
    }
    must_answer(HF_OK, settle(&s.owner, STORE_DEAD_STEP_MAX, outcomes, STORE_DEAD_STEP_MAX));
    static struct id_list list;
    struct dead_query any = dead_query_any();
    list.count = 0;
    must_answer(HF_OK, store_dead_list(store, &any, collect_id, &list));
    must_equal(STORE_DEAD_STEP_MAX, list.count);
    list.ids[3] = 999999;
    struct dead_retry change = {.change = {.kind = CHANGE_DEAD_RETRY, .now_us = T0},
                                .dead_ids = list.ids,
                                .count = STORE_DEAD_STEP_MAX};
    must_answer(HF_OK, RUN(store, &change));
    must_equal(STORE_DEAD_STEP_MAX - 1, change.ret_count);
    must_equal(STORE_DEAD_STEP_MAX - 1, progress_of(store, s.id).retrying);
    must_equal(1, progress_of(store, s.id).dead);
}

static void a_dead_letter_whose_subscription_is_gone_is_left(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 2);
    must_answer(HF_OK, subscription_drop(s.store, "s"));
    int64_t dead_id = dead_id_of(s.store, 1);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id, NULL, &count));
    must_equal(0, count);
    struct dead_query any = dead_query_any();
    must_read("2 1", list_dead(s.store, &any));
    /* a new subscription of the same name may have it */
    int64_t id = subscribe_ordered(s.store, "s", 1);
    must_answer(HF_OK, retry_dead(s.store, dead_id, NULL, &count));
    must_equal(1, count);
    must_read("1", list_due(s.store, id, 0, T0 + SECOND));
}

static void a_retried_letter_above_the_checkpoint_is_not_read_again(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, SETTLE(&s.owner, 0, dead(2, "b")));
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 2), NULL, &count));
    must_read("2", list_ahead(s.store, s.id, 0, 0)); /* once, not twice */
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(2, "b"))));
    must_read("2", list_ahead(s.store, s.id, 0, 0));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).settled);
}

/* What becomes of the request to cancel the event at position 1. */
static enum cancel_state cancel_first(struct fixture *f, const struct scene *s)
{
    struct cancel cancel = {.change = {.kind = CHANGE_CANCEL, .now_us = T0 + 5},
                            .subscription_id = s->id,
                            .position = 1,
                            .hash = entry_at(f, s->store, 1)->hash,
                            .part = CANCEL_REQUEST,
                            .by = text_of("ann")};
    must_answer(HF_OK, RUN(s->store, &cancel));
    return cancel.ret_state;
}

/* An event died, the subscription was moved back, and it was cancelled before it came again. */
static void a_retried_letter_is_delivered_though_its_event_was_cancelled(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 1);
    must_answer(HF_OK, give_back(&s.owner));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0));
    must_equal(CANCEL_MARKED, cancel_first(*state, &s));
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 1), NULL, &count));
    must_equal(1, count);
    must_read("1", list_due(s.store, s.id, 0, T0 + SECOND));
    struct delivery_facts facts = facts_of(*state, s.store, s.id, 1, NULL);
    must_hold(facts.waiting);
    must_equal(-1, facts.cancelled_at_us);
}

static int note_request(int64_t position, int64_t hash, void *ctx)
{
    (void)hash;
    *(int64_t *)ctx = position;
    return 0;
}

/* It was requested while a handler ran, and the owner did not answer before the event died. */
static void a_request_to_cancel_what_died_is_not_about_the_retried_letter(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_equal(CANCEL_ASKED, cancel_first(*state, &s));
    bury_all(&s, 1);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 1), NULL, &count));
    must_equal(1, count);
    int64_t requested = 0;
    must_answer(HF_OK, store_cancels(s.store, s.id, 8, note_request, &requested));
    must_equal(0, requested);
}

/* ---- Blocked lanes --------------------------------------------------------------------------- */

/* Lane a: 1 blocked, 2 and 3 held. */
static struct scene blocked_scene(struct fixture *f)
{
    struct scene s = scene_of(f, "aaab");
    must_answer(HF_OK, SETTLE(&s.owner, -1, block(1, "a")));
    must_answer(HF_OK, SETTLE(&s.owner, 4, held(2, "a"), held(3, "a")));
    must_read("", list_due(s.store, s.id, 0, T0 + 100 * SECOND));
    must_equal(1, progress_of(s.store, s.id).blocked);
    return s;
}

static void a_retry_replaces_the_blocked_row_and_the_lane_goes_on_behind_it(void **state)
{
    struct scene s = blocked_scene(*state);
    int64_t count;
    must_answer(HF_OK, retry_dead(s.store, dead_id_of(s.store, 1), NULL, &count));
    must_equal(1, count);
    struct progress progress = progress_of(s.store, s.id);
    must_equal(0, progress.blocked);
    must_equal(1, progress.retrying);
    must_equal(2, progress.held);
    must_equal(0, progress.dead);
    must_read("1", list_due(s.store, s.id, 0, T0 + 100 * SECOND));
    must_equal(0, facts_of(*state, s.store, s.id, 1, NULL).attempts);
    must_answer(HF_OK, SETTLE(&s.owner, -1, waited(done(1, "a"))));
    must_read("2", list_due(s.store, s.id, 0, T0 + 100 * SECOND));
}

static void resolving_frees_the_lane(void **state)
{
    struct scene s = blocked_scene(*state);
    int64_t dead_id = dead_id_of(s.store, 1);
    must_answer(HF_OK, resolve(s.store, dead_id));
    must_equal(0, progress_of(s.store, s.id).blocked);
    must_read("2 0", list_lanes(s.store, s.id, 0, "ab"));
    must_read("2", list_due(s.store, s.id, 0, T0 + 5));
    must_equal(true, facts_of(*state, s.store, s.id, 3, NULL).held);
    struct letter_facts facts = letter_of(s.store, dead_id);
    must_equal(T0 + 5, facts.resolved_at_us);
    must_read("operator", facts.resolved_by);
    must_read("not worth it", facts.resolved_note);
}

static void purging_frees_the_lane(void **state)
{
    struct scene s = blocked_scene(*state);
    int64_t dead_id = dead_id_of(s.store, 1);
    must_equal(1, purge(s.store, &dead_id, 1));
    must_equal(0, progress_of(s.store, s.id).blocked);
    must_equal(0, progress_of(s.store, s.id).dead);
    must_read("2", list_due(s.store, s.id, 0, T0 + 5));
}

static void a_freed_event_above_the_checkpoint_is_not_delivered_again(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, 0, block(1, "a")));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
    must_answer(HF_OK, resolve(s.store, dead_id_of(s.store, 1)));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
}

/* An event died, the subscription was moved back, and it waits again: the old letter's end is not
 * the new delivery's. */
static void an_old_letter_can_be_ended_without_harm_to_a_new_delivery(void **state)
{
    struct scene s = scene_of(*state, "aabb");
    must_answer(HF_OK, SETTLE(&s.owner, 4, dead(1, "a"), dead(3, "b")));
    must_answer(HF_OK, subscription_seek(s.store, s.id, 0));
    s.owner = own(s.store, s.id, 0);
    must_answer(HF_OK, SETTLE(&s.owner, 4, retry(1, "a", T0), held(2, "a"), retry(3, "b", T0),
                              held(4, "b")));
    must_answer(HF_OK, resolve(s.store, dead_id_of(s.store, 1)));
    int64_t dead_id = dead_id_of(s.store, 3);
    must_equal(1, purge(s.store, &dead_id, 1));
    must_read("2 2", list_lanes(s.store, s.id, 0, "ab"));
    must_read("1 3", list_due(s.store, s.id, 0, T0 + SECOND));
    must_equal(2, progress_of(s.store, s.id).held);
}

/* ---- Resolving, purging ---------------------------------------------------------------------- */

static void resolving_twice_conflicts(void **state)
{
    struct scene s = scene_of(*state, "a");
    bury_all(&s, 1);
    int64_t dead_id = dead_id_of(s.store, 1);
    must_answer(HF_OK, resolve(s.store, dead_id));
    must_answer(HF_CONFLICT, resolve(s.store, dead_id));
    must_equal(T0 + 5, letter_of(s.store, dead_id).resolved_at_us);
}

static void purged_letters_are_gone_and_missing_ones_not_counted(void **state)
{
    struct scene s = scene_of(*state, "abc");
    bury_all(&s, 3);
    int64_t ids[] = {dead_id_of(s.store, 1), 999999, dead_id_of(s.store, 3), 888888};
    must_equal(2, purge(s.store, ids, 4));
    struct dead_query any = dead_query_any();
    must_read("2", list_dead(s.store, &any));
    must_equal(0, purge(s.store, ids, 4));
}

static void dead_letters_survive_their_subscription(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 2);
    must_answer(HF_OK, subscription_drop(s.store, "s"));
    int64_t dead_id = dead_id_of(s.store, 2);
    must_read("error 2", letter_of(s.store, dead_id).error);
    must_answer(HF_OK, resolve(s.store, dead_id));
    must_equal(1, purge(s.store, &dead_id, 1));
}

static void dead_letters_of_another_namespace_are_out_of_reach(void **state)
{
    struct scene s = scene_of(*state, "ab");
    bury_all(&s, 2);
    int64_t dead_id = dead_id_of(s.store, 1);
    struct store *other = fixture_open_other(*state, "b");
    subscribe_ordered(other, "s", 1);
    struct dead_query any = dead_query_any();
    must_read("", list_dead(other, &any));
    must_equal(0, count_of(other, &any));
    struct letter_facts facts;
    must_answer(HF_NOTFOUND, store_dead_get(other, dead_id, copy_letter, &facts));
    must_answer(HF_NOTFOUND, resolve(other, dead_id));
    must_equal(0, purge(other, &dead_id, 1));
    int64_t count;
    must_answer(HF_OK, retry_dead(other, dead_id, NULL, &count));
    must_equal(0, count);
    must_read("2 1", list_dead(s.store, &any));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_dead_letter_is_a_complete_copy),
    CLAIM(the_last_error_may_be_absent),
    CLAIM(a_missing_dead_letter_is_not_found),
    CLAIM(an_event_has_one_open_letter_per_subscription),
    CLAIM(numbers_of_dead_letters_are_never_used_again),
    CLAIM(a_retried_letter_waits_with_a_clean_record_and_is_not_listed),
    CLAIM(an_edited_payload_is_delivered_and_the_log_keeps_the_old),
    CLAIM(an_edited_payload_goes_with_its_delivery),
    CLAIM(a_retried_letter_of_a_shared_subscription_is_claimed),
    CLAIM(many_letters_are_retried_in_one_step_and_missing_ones_not_counted),
    CLAIM(a_dead_letter_whose_subscription_is_gone_is_left),
    CLAIM(a_retried_letter_above_the_checkpoint_is_not_read_again),
    CLAIM(a_retried_letter_is_delivered_though_its_event_was_cancelled),
    CLAIM(a_request_to_cancel_what_died_is_not_about_the_retried_letter),
    CLAIM(a_retry_replaces_the_blocked_row_and_the_lane_goes_on_behind_it),
    CLAIM(resolving_frees_the_lane),
    CLAIM(purging_frees_the_lane),
    CLAIM(a_freed_event_above_the_checkpoint_is_not_delivered_again),
    CLAIM(an_old_letter_can_be_ended_without_harm_to_a_new_delivery),
    CLAIM(resolving_twice_conflicts),
    CLAIM(purged_letters_are_gone_and_missing_ones_not_counted),
    CLAIM(dead_letters_survive_their_subscription),
    CLAIM(dead_letters_of_another_namespace_are_out_of_reach),
};

FIXTURE_MAIN("dead", claims, NULL)
