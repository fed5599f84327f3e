/*
 * test_deliveries.c - what people see of deliveries that are not over: pages of retries, what is
 * held behind them, and what runs.
 */
#include "support_scene.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "store/deliveries.h"

/* A listing as text: "3 1" are positions, "3<1" one that has position 1 before it in its lane, and
 * "1+2" one that has two behind it. */
struct listed {
    char text[512];
    size_t length;
    int64_t last_due; /* of the last row, for the next page */
    int64_t last;
    int64_t stop_after; /* rows; 0: no limit */
    int64_t rows;
};

static void say(struct listed *listed, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(listed->text + listed->length, sizeof listed->text - listed->length,
                           format, args);
    va_end(args);
    listed->length += (size_t)length;
    must_hold(listed->length < sizeof listed->text);
}

static int list_row(const struct waiting_row *row, void *ctx)
{
    struct listed *listed = ctx;
    say(listed, "%s%" PRId64, listed->length ? " " : "", row->position);
    if (row->first != row->position) {
        say(listed, "<%" PRId64, row->first);
    }
    if (row->held > 0) {
        say(listed, "+%" PRId64, row->held);
    }
    listed->last_due = row->due;
    listed->last = row->position;
    return ++listed->rows == listed->stop_after;
}

static struct retry_query query_of(int64_t id)
{
    return (struct retry_query){
        .subscription_id = id, .behind = -1, .after = -1, .max = 100, .held_max = 100};
}

static struct listed list_of(struct store *store, const struct retry_query *query)
{
    struct listed listed = {.length = 0};
    must_answer(HF_OK, store_retry_list(store, query, list_row, &listed));
    return listed;
}

#define must_list(expected, store, query) must_read((expected), list_of((store), (query)).text)

/* Lane a: 1 waits, 2 and 3 are held. Lane b: 4 waits. Lane c: 5 waits. */
static struct scene failing(struct fixture *f)
{
    struct scene s = scene_of(f, "aaabc");
    must_answer(HF_OK,
                SETTLE(&s.owner, 5, retry(1, "a", T0 + 3 * SECOND), held(2, "a"), held(3, "a"),
                       retry(4, "b", T0 + 1 * SECOND), retry(5, "c", T0 + 2 * SECOND)));
    return s;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static void retries_are_listed_by_the_time_of_their_next_attempt(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id);
    must_list("4 5 1+2", s.store, &query);
}

static void a_page_begins_behind_the_last_row_of_the_one_before(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id);
    query.max = 2;
    struct listed first = list_of(s.store, &query);
    must_read("4 5", first.text);
    query.after_due = first.last_due;
    query.after = first.last;
    struct listed second = list_of(s.store, &query);
    must_read("1+2", second.text);
    query.after_due = second.last_due;
    query.after = second.last;
    must_list("", s.store, &query);
}

static void retries_that_are_due_at_the_same_time_are_listed_by_position(void **state)
{
    struct scene s = scene_of(*state, "dcba");
    must_answer(HF_OK, SETTLE(&s.owner, 4, retry(3, "b", T0), retry(1, "d", T0), retry(4, "a", T0),
                              retry(2, "c", T0)));
    struct retry_query query = query_of(s.id);
    must_list("1 2 3 4", s.store, &query);
    query.after_due = list_of(s.store, &query).last_due;
    query.after = 2;
    must_list("3 4", s.store, &query);
}

static void retries_of_all_partitions_are_merged_by_time(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 4);
    const char *keys[] = {key_in(0, 4, 0), key_in(1, 4, 0), key_in(2, 4, 0), key_in(3, 4, 0)};
    for (int i = 0; i < 4; i++) {
        append_one(store, "t", keys[i]);
    }
    for (int32_t i = 0; i < 4; i++) {
        struct owner owner = own(store, id, i);
        must_answer(HF_OK, SETTLE(&owner, 4, retry(i + 1, keys[i], T0 + (4 - i) * SECOND)));
    }
    struct retry_query query = query_of(id);
    must_list("4 3 2 1", store, &query);
    query.max = 2;
    must_list("4 3", store, &query);
}

static void a_callback_ends_a_list_of_retries(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id);
    struct listed listed = {.stop_after = 1};
    must_answer(HF_OK, store_retry_list(s.store, &query, list_row, &listed));
    must_read("4", listed.text);
}

static void retries_of_a_subscription_that_is_not_there_are_not_found(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id + 1);
    struct listed listed = {.length = 0};
    must_answer(HF_NOTFOUND, store_retry_list(s.store, &query, list_row, &listed));
    must_equal(0, listed.rows);
}

static void retries_of_other_subscriptions_are_not_listed(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(subscribe_ordered(s.store, "other", 1));
    must_list("", s.store, &query);
    query.behind = 1;
    must_list("", s.store, &query);
}

/* ---- What a row says ------------------------------------------------------------------------- */

static int check_row(const struct waiting_row *row, void *ctx)
{
    int *calls = ctx;
    ++*calls;
    must_equal(1, row->position);
    must_equal(0, row->partition);
    must_equal(RETRY_WAITING, row->kind);
    must_equal(1, row->attempts);
    must_equal(CAUSE_HANDLER, row->cause);
    must_equal(T0 + 7 * SECOND, row->next_attempt_us);
    must_equal(T0 + 5, row->failed_at_us);
    must_hold(text_equal(row->story, text_of(STORY_ONE)));
    must_equal(true, row->event.known);
    must_hold(text_equal(row->event.type, text_of("t")));
    must_hold(text_equal(row->event.key, text_of("a")));
    must_hold(text_is_absent(row->event.tenant));
    return 0;
}

static void a_retry_is_listed_with_its_event_and_its_last_failure(void **state)
{
    struct scene s = scene_of(*state, "a");
    struct outcome outcome = retry(1, "a", T0 + 7 * SECOND);
    outcome.cause = CAUSE_HANDLER;
    outcome.attempts_json = text_of(STORY_ONE);
    s.owner.now_us = T0 + 5;
    must_answer(HF_OK, settle(&s.owner, 1, &outcome, 1));
    struct retry_query query = query_of(s.id);
    int calls = 0;
    must_answer(HF_OK, store_retry_list(s.store, &query, check_row, &calls));
    must_equal(1, calls);
}

static void held_events_are_counted_up_to_the_limit_and_one_more(void **state)
{
    struct scene s = scene_of(*state, "aaaaaa");
    must_answer(HF_OK, SETTLE(&s.owner, 6, retry(1, "a", T0), held(2, "a"), held(3, "a"),
                              held(4, "a"), held(5, "a"), held(6, "a")));
    struct retry_query query = query_of(s.id);
    must_list("1+5", s.store, &query);
    query.held_max = 3;
    must_list("1+4", s.store, &query);
}

/* ---- Behind one ------------------------------------------------------------------------------ */

static void what_is_held_behind_a_retry_is_listed_by_position(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id);
    query.behind = 1;
    must_list("2<1+1 3<1", s.store, &query);
    query.max = 1;
    struct listed first = list_of(s.store, &query);
    must_read("2<1+1", first.text);
    query.after_due = first.last_due;
    query.after = first.last;
    must_list("3<1", s.store, &query);
}

static void nothing_is_held_behind_a_retry_that_is_alone_or_over(void **state)
{
    struct scene s = failing(*state);
    struct retry_query query = query_of(s.id);
    query.behind = 4;
    must_list("", s.store, &query);
    must_answer(HF_OK, SETTLE(&s.owner, 5, waited(done(1, "a"))));
    query.behind = 1;
    must_list("", s.store, &query);
}

static void what_a_dead_letter_blocks_is_listed_behind_it(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK,
                SETTLE(&s.owner, 3, block(1, "a"), held(2, "a"), retry(3, "b", T0 + SECOND)));
    struct retry_query query = query_of(s.id);
    must_list("3", s.store, &query);
    query.behind = 1;
    must_list("2<1", s.store, &query);
}

/* ---- Shared ---------------------------------------------------------------------------------- */

static void retries_of_a_shared_subscription_have_nothing_behind_them(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aaab");
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 10, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1 3", T0, T0 + 2 * SECOND));
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    struct retry_query query = query_of(id);
    must_list("2 1 3", store, &query);
    query.behind = 2;
    must_list("", store, &query);
}

static void a_retry_that_is_claimed_again_is_not_listed(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 10, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1 2", T0, T0));
    struct claim again = take(*state, store, id, 1, T0 + SECOND);
    must_read("1", list_batch(again.batch));
    struct retry_query query = query_of(id);
    must_list("2", store, &query);
}

static void an_attempt_that_was_lost_with_its_lease_is_listed_as_a_retry(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_shared(store, "s");
    struct claim lost = take(*state, store, id, 1, T0);
    must_read("1", list_batch(lost.batch));
    struct claim next = take(*state, store, id, 1, T0 + LEASE_US + SECOND);
    must_hold(next.batch->count <= 1);
    struct retry_query query = query_of(id);
    must_equal(progress_of(store, id).retrying, list_of(store, &query).rows);
}

/* ---- What runs ------------------------------------------------------------------------------- */

static int list_running(const struct handler_row *row, void *ctx)
{
    struct listed *listed = ctx;
    say(listed, "%s%" PRId64 ":%" TEXT_PRI, listed->length ? " " : "", row->position,
        TEXT_ARG(row->event.key));
    must_equal(0, row->partition);
    must_hold(row->node.length > 0);
    must_equal(getpid(), row->pid);
    must_equal(T0, row->since_us);
    return ++listed->rows == listed->stop_after;
}

static struct listed running_of(struct store *store, int64_t id, int64_t after, int32_t max)
{
    struct listed listed = {.length = 0};
    must_answer(HF_OK, store_running_list(store, id, after, max, list_running, &listed));
    return listed;
}

static void await_in_flight(const struct scene *s, int64_t count)
{
    while (progress_of(s->store, s->id).in_flight != count) {
        store_alive(s->store); /* a server is told after a while */
    }
}

static void what_runs_is_listed_by_position_with_its_process(void **state)
{
    struct scene s = scene_of(*state, "abc");
    note_handler(s.store, 0, s.id, 3, 1);
    note_handler(s.store, 1, s.id, 1, 1);
    await_in_flight(&s, 2);
    must_read("1:a 3:c", running_of(s.store, s.id, 0, 10).text);
    must_read("1:a", running_of(s.store, s.id, 0, 1).text);
    must_read("3:c", running_of(s.store, s.id, 1, 10).text);
    store_note_clear(s.store, 0);
    store_note_clear(s.store, 1);
}

static void what_runs_for_others_is_not_listed(void **state)
{
    struct scene s = scene_of(*state, "abc");
    int64_t other = subscribe_ordered(s.store, "other", 1);
    int64_t shared = subscribe_shared(s.store, "shared");
    note_handler(s.store, 0, s.id, 3, 1);
    await_in_flight(&s, 1);
    must_read("", running_of(s.store, other, 0, 10).text);
    must_read("", running_of(s.store, shared, 0, 10).text);
    struct listed listed = {.length = 0};
    must_answer(HF_NOTFOUND, store_running_list(s.store, shared + 1, 0, 10, list_running, &listed));
    store_note_clear(s.store, 0);
}

static const struct CMUnitTest claims[] = {
    CLAIM(retries_are_listed_by_the_time_of_their_next_attempt),
    CLAIM(a_page_begins_behind_the_last_row_of_the_one_before),
    CLAIM(retries_that_are_due_at_the_same_time_are_listed_by_position),
    CLAIM(retries_of_all_partitions_are_merged_by_time),
    CLAIM(a_callback_ends_a_list_of_retries),
    CLAIM(retries_of_a_subscription_that_is_not_there_are_not_found),
    CLAIM(retries_of_other_subscriptions_are_not_listed),
    CLAIM(a_retry_is_listed_with_its_event_and_its_last_failure),
    CLAIM(held_events_are_counted_up_to_the_limit_and_one_more),
    CLAIM(what_is_held_behind_a_retry_is_listed_by_position),
    CLAIM(nothing_is_held_behind_a_retry_that_is_alone_or_over),
    CLAIM(what_a_dead_letter_blocks_is_listed_behind_it),
    CLAIM(retries_of_a_shared_subscription_have_nothing_behind_them),
    CLAIM(a_retry_that_is_claimed_again_is_not_listed),
    CLAIM(an_attempt_that_was_lost_with_its_lease_is_listed_as_a_retry),
    CLAIM(what_runs_is_listed_by_position_with_its_process),
    CLAIM(what_runs_for_others_is_not_listed),
};

FIXTURE_MAIN("deliveries", claims, NULL)
