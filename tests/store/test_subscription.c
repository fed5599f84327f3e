/*
 * test_subscription.c - subscriptions as rows: created, changed, listed, paused, removed.
 */
#include "support/make.h"

/* A row, copied out of its callback. */
struct row {
    int calls;
    int64_t id;
    char name[HF_NAME_BYTES_MAX + 1];
    char patterns[512];
    char options[512];
    hf_mode mode;
    int32_t partitions;
    int64_t generation;
    int64_t created_at_us;
    int64_t start;
    int64_t paused_at_us;
    char paused_by[64]; /* "(absent)" */
    char paused_reason[64];
    char breaker[64];
};

static void copy_text(char *out, size_t bytes, struct text text)
{
    snprintf(out, bytes, "%" TEXT_PRI, TEXT_ARG(text));
    if (text_is_absent(text)) {
        snprintf(out, bytes, "(absent)");
    }
}

static int copy_row(const struct subscription_row *from, void *ctx)
{
    struct row *row = ctx;
    row->calls++;
    row->id = from->id;
    copy_text(row->name, sizeof row->name, from->name);
    copy_text(row->patterns, sizeof row->patterns, from->patterns_json);
    copy_text(row->options, sizeof row->options, from->options_json);
    row->mode = from->mode;
    row->partitions = from->partitions;
    row->generation = from->generation;
    row->created_at_us = from->created_at_us;
    row->start = from->start;
    row->paused_at_us = from->paused_at_us;
    copy_text(row->paused_by, sizeof row->paused_by, from->paused_by);
    copy_text(row->paused_reason, sizeof row->paused_reason, from->paused_reason);
    copy_text(row->breaker, sizeof row->breaker, from->breaker_json);
    return 0;
}

static struct row row_of(struct store *store, const char *name)
{
    struct row row = {0};
    must_answer(HF_OK, store_subscription_get(store, text_of(name), copy_row, &row));
    must_equal(1, row.calls);
    return row;
}

static hf_status put_breaker(struct store *store, int64_t id, const char *json)
{
    struct breaker_put change = {.change = {.kind = CHANGE_BREAKER, .now_us = T0},
                                 .subscription_id = id,
                                 .state_json = text_of(json)};
    return RUN(store, &change);
}

/* ---- Creating and changing ------------------------------------------------------------------- */

static void a_missing_subscription_is_created_as_requested(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 9);
    struct subscription_put put = put_of("mail", HF_MODE_ORDERED, 3);
    put.change.now_us = T0 + 5;
    put.patterns_json = text_of("[\"user.*\", \"order.**\"]");
    put.options_json = text_of("{\"x\": 1.50}");
    put.start = 4;
    must_answer(HF_OK, RUN(store, &put));
    must_equal(true, put.ret_created);

    struct row row = row_of(store, "mail");
    must_equal(put.ret_id, row.id);
    must_read("mail", row.name);
    must_read("[\"user.*\", \"order.**\"]", row.patterns);
    must_read("{\"x\": 1.50}", row.options);
    must_equal(HF_MODE_ORDERED, row.mode);
    must_equal(3, row.partitions);
    must_equal(T0 + 5, row.created_at_us);
    must_equal(4, row.start);
    must_equal(-1, row.paused_at_us);
    must_read("(absent)", row.paused_by);
    must_read("(absent)", row.paused_reason);
    must_read("(absent)", row.breaker);
}

static void every_partition_begins_at_the_start(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 9);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 3);
    put.start = 4;
    must_answer(HF_OK, RUN(store, &put));
    for (int32_t partition = 0; partition < 3; partition++) {
        must_equal(4, own(store, put.ret_id, partition).checkpoint);
    }
    struct progress progress = progress_of(store, put.ret_id);
    must_equal(4, progress.checkpoint);
    must_equal(-1, progress.cursor);
}

static void the_cursor_of_a_shared_subscription_begins_at_the_start(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 9);
    struct subscription_put put = put_of("s", HF_MODE_SHARED, 1);
    put.start = 6;
    must_answer(HF_OK, RUN(store, &put));
    must_equal(6, progress_of(store, put.ret_id).cursor);
    must_equal(6, progress_of(store, put.ret_id).checkpoint);
    struct claim claim = take(*state, store, put.ret_id, 10, T0);
    must_read("7 8 9", list_batch(claim.batch));
}

static void given_patterns_and_options_replace_the_stored_ones(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = text_of("[\"a\",\"b\"]");
    put.options_json = text_of("{\"n\":2}");
    put.start = 77;
    must_answer(HF_OK, RUN(store, &put));
    must_equal(false, put.ret_created);
    must_equal(id, put.ret_id);
    struct row row = row_of(store, "s");
    must_read("[\"a\",\"b\"]", row.patterns);
    must_read("{\"n\":2}", row.options);
    must_equal(0, row.start);
    must_equal(T0, row.created_at_us);
    must_equal(0, progress_of(store, id).checkpoint);
}

static void absent_patterns_and_options_leave_the_stored_ones(void **state)
{
    struct store *store = fixture_open(*state, "a");
    subscribe_ordered(store, "s", 1);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = text_of("[\"a\"]");
    put.options_json = TEXT_ABSENT;
    must_answer(HF_OK, RUN(store, &put));
    must_read("[\"a\"]", row_of(store, "s").patterns);
    must_read("{}", row_of(store, "s").options);
    put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = TEXT_ABSENT;
    put.options_json = text_of("{\"n\":3}");
    must_answer(HF_OK, RUN(store, &put));
    must_read("[\"a\"]", row_of(store, "s").patterns);
    must_read("{\"n\":3}", row_of(store, "s").options);
}

static void another_mode_conflicts_and_changes_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    subscribe_ordered(store, "s", 4);
    struct row before = row_of(store, "s");

    struct subscription_put put = put_of("s", HF_MODE_SHARED, 4);
    put.patterns_json = text_of("[\"changed\"]");
    must_answer(HF_CONFLICT, RUN(store, &put));
    must_say("mode");

    struct row after = row_of(store, "s");
    must_hold(memcmp(&before, &after, sizeof before) == 0);
}

static void an_expected_generation_must_be_the_stored_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    int64_t generation = generation_of(store, id);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = text_of("[\"a\"]");
    put.expect_generation = generation;
    must_answer(HF_OK, RUN(store, &put));
    must_equal(generation + 1, generation_of(store, id));

    put.patterns_json = text_of("[\"b\"]");
    must_answer(HF_CONFLICT, RUN(store, &put));
    must_read("[\"a\"]", row_of(store, "s").patterns);
    must_equal(generation + 1, generation_of(store, id));
    put.expect_generation = generation + 2;
    must_answer(HF_CONFLICT, RUN(store, &put));
    put.expect_generation = 0;
    must_answer(HF_CONFLICT, RUN(store, &put));
}

static void a_caller_that_expects_none_creates_a_subscription_or_changes_nothing(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.expect_generation = 0;
    must_answer(HF_OK, RUN(store, &put));
    must_hold(put.ret_created);
    put.patterns_json = text_of("[\"late\"]");
    must_answer(HF_CONFLICT, RUN(store, &put));
    must_read("[\"*\"]", row_of(store, "s").patterns);
}

static void every_change_raises_the_generation_by_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    int64_t generation = generation_of(store, id);
    must_hold(generation >= 0);
    struct subscription_put put = put_of("s", HF_MODE_ORDERED, 1);
    put.patterns_json = text_of("[\"a\"]");
    must_answer(HF_OK, RUN(store, &put));
    must_equal(generation + 1, generation_of(store, id));
    must_answer(HF_OK, subscription_pause(store, id, true, T0));
    must_equal(generation + 2, generation_of(store, id));
    must_answer(HF_OK, subscription_pause(store, id, false, T0));
    must_equal(generation + 3, generation_of(store, id));
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"open\"}"));
    must_equal(generation + 4, generation_of(store, id));
    must_answer(HF_OK, subscription_seek(store, id, 3));
    must_equal(generation + 5, generation_of(store, id));
}

static void work_does_not_raise_the_generation(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    int64_t generation = generation_of(store, id);
    struct owner owner = own(store, id, 0);
    must_equal(generation, owner.generation);
    must_answer(HF_OK, settle(&owner, 3, NULL, 0));
    must_equal(generation, owner.generation);
    must_equal(generation, generation_of(store, id));
}

/* ---- Listing --------------------------------------------------------------------------------- */

static int collect_name(const struct subscription_row *row, void *ctx)
{
    char *names = ctx;
    size_t used = strlen(names);
    snprintf(names + used, 512 - used, "%" TEXT_PRI " ", TEXT_ARG(row->name));
    return 0;
}

static void the_list_is_of_the_namespace_and_by_name(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    subscribe_ordered(store, "mail", 1);
    subscribe_shared(store, "audit");
    subscribe_ordered(store, "zebra", 1);
    subscribe_ordered(store, "billing", 1);
    struct store *other = fixture_open_other(f, "b");
    subscribe_ordered(other, "foreign", 1);

    char names[512] = "";
    must_answer(HF_OK, store_subscription_list(store, collect_name, names));
    must_read("audit billing mail zebra ", names);
    must_answer(HF_OK, subscription_drop(other, "foreign"));
}

static int stop_at_second(const struct subscription_row *row, void *ctx)
{
    (void)row;
    int *calls = ctx;
    return ++*calls == 2;
}

static void a_listing_that_is_stopped_is_no_error(void **state)
{
    struct store *store = fixture_open(*state, "a");
    subscribe_ordered(store, "a", 1);
    subscribe_ordered(store, "b", 1);
    subscribe_ordered(store, "c", 1);
    int calls = 0;
    must_answer(HF_OK, store_subscription_list(store, stop_at_second, &calls));
    must_equal(2, calls);
}

static void an_empty_list_does_not_call_back(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int calls = 0;
    must_answer(HF_OK, store_subscription_list(store, stop_at_second, &calls));
    must_equal(0, calls);
}

static void changes_of_a_missing_subscription_are_not_found(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct row row = {0};
    must_answer(HF_NOTFOUND, store_subscription_get(store, text_of("t"), copy_row, &row));
    must_answer(HF_NOTFOUND, store_subscription_get(store, text_of("S"), copy_row, &row));
    must_answer(HF_NOTFOUND, store_subscription_by_id(store, id + 1, copy_row, &row));
    must_equal(0, row.calls);
    must_answer(HF_OK, store_subscription_by_id(store, id, copy_row, &row));
    must_equal(1, row.calls);
    must_read("s", row.name);
    must_answer(HF_NOTFOUND, subscription_drop(store, "t"));
    must_answer(HF_NOTFOUND, subscription_pause(store, id + 1, true, T0));
    must_answer(HF_NOTFOUND, subscription_pause(store, id + 1, false, T0));
    must_answer(HF_NOTFOUND, put_breaker(store, id + 1, "{}"));
    must_answer(HF_NOTFOUND, subscription_seek(store, id + 1, 0));
    struct progress progress;
    must_answer(HF_NOTFOUND, store_progress(store, id + 1, T0, &progress));
}

static void odd_names_are_names(void **state)
{
    static const char *const odd[] = {"'", "\"", "%", "_", "a b", ";--", "\xc3\xa9", "s/t", "*"};
    struct store *store = fixture_open(*state, "a");
    char longest[HF_NAME_BYTES_MAX + 1];
    memset(longest, 'n', HF_NAME_BYTES_MAX);
    longest[HF_NAME_BYTES_MAX] = '\0';
    int64_t id = subscribe_ordered(store, longest, 1);
    must_equal(id, row_of(store, longest).id);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        id = subscribe_ordered(store, odd[i], 1);
        must_equal(id, row_of(store, odd[i]).id);
    }
}

static void a_store_touches_only_its_own_namespace(void **state)
{
    struct fixture *f = *state;
    struct store *store = fixture_open(f, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct store *other = fixture_open_other(f, "b");

    struct row row = {0};
    must_answer(HF_NOTFOUND, store_subscription_by_id(other, id, copy_row, &row));
    must_answer(HF_NOTFOUND, store_subscription_get(other, text_of("s"), copy_row, &row));
    must_equal(0, row.calls);
    must_answer(HF_NOTFOUND, subscription_drop(other, "s"));
    must_answer(HF_NOTFOUND, subscription_pause(other, id, true, T0));
    must_answer(HF_NOTFOUND, subscription_seek(other, id, 0));
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_NOTFOUND, RUN(other, &acquire));
    must_equal(-1, row_of(store, "s").paused_at_us);
    must_answer(HF_OK, subscription_pause(store, id, true, T0));
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"open\"}"));
    must_answer(HF_NOTFOUND, subscription_pause(other, id, false, T0));
    must_answer(HF_NOTFOUND, put_breaker(other, id, NULL));
    must_equal(T0, row_of(store, "s").paused_at_us);
    must_read("{\"state\":\"open\"}", row_of(store, "s").breaker);
    struct owner owner = own(store, id, 0);
    owner.store = other;
    must_hold(settle(&owner, 0, NULL, 0) != HF_OK);
    must_hold(give_back(&owner) != HF_OK);
    int64_t shared = subscribe_shared(store, "shared");
    struct claim claim = claim_of(shared, 1, T0, fixture_batch(f));
    must_answer(HF_NOTFOUND, RUN(other, &claim));
    struct progress progress;
    must_answer(HF_NOTFOUND, store_progress(other, id, T0, &progress));
    struct standing standing;
    must_answer(HF_NOTFOUND, store_standing(other, id, &standing, NULL, NULL));
}

/* ---- Pausing and the breaker ----------------------------------------------------------------- */

static void a_pause_records_its_time_author_and_reason(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, subscription_pause(store, id, true, T0 + 9));
    struct row row = row_of(store, "s");
    must_equal(T0 + 9, row.paused_at_us);
    must_read("operator", row.paused_by);
    must_read("because", row.paused_reason);
}

static void a_second_pause_keeps_the_first(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, subscription_pause(store, id, true, T0));
    struct pause again = {.change = {.kind = CHANGE_PAUSE, .now_us = T0 + SECOND},
                          .subscription_id = id,
                          .paused = true,
                          .by = text_of("somebody else"),
                          .reason = text_of("another reason")};
    must_answer(HF_OK, RUN(store, &again));
    struct row row = row_of(store, "s");
    must_equal(T0, row.paused_at_us);
    must_read("operator", row.paused_by);
    must_read("because", row.paused_reason);
}

static void resuming_clears_the_pause_and_the_breaker(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"open\"}"));
    must_answer(HF_OK, subscription_pause(store, id, true, T0));
    must_answer(HF_OK, subscription_pause(store, id, false, T0));
    struct row row = row_of(store, "s");
    must_equal(-1, row.paused_at_us);
    must_read("(absent)", row.paused_by);
    must_read("(absent)", row.paused_reason);
    must_read("(absent)", row.breaker);
}

static void resuming_a_running_subscription_clears_the_breaker(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"open\"}"));
    must_answer(HF_OK, subscription_pause(store, id, false, T0));
    must_read("(absent)", row_of(store, "s").breaker);
}

static void a_pause_needs_neither_name_nor_reason(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct pause pause = {
        .change = {.kind = CHANGE_PAUSE, .now_us = T0}, .subscription_id = id, .paused = true};
    must_answer(HF_OK, RUN(store, &pause));
    must_equal(T0, row_of(store, "s").paused_at_us);
    must_read("(absent)", row_of(store, "s").paused_reason);
}

static void the_breaker_is_stored_replaced_and_removed(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"open\"}"));
    must_read("{\"state\":\"open\"}", row_of(store, "s").breaker);
    must_answer(HF_OK, put_breaker(store, id, "{\"state\":\"closed\"}"));
    must_read("{\"state\":\"closed\"}", row_of(store, "s").breaker);
    must_answer(HF_OK, put_breaker(store, id, NULL));
    must_read("(absent)", row_of(store, "s").breaker);
}

/* ---- Removing -------------------------------------------------------------------------------- */

static void removal_takes_all_but_the_dead_letters(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aabb");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK,
                SETTLE(&owner, 0, retry(1, "a", T0), held(2, "a"), dead(3, "b"), done(4, "b")));
    must_answer(HF_OK, subscription_drop(store, "s"));
    struct row row = {0};
    must_answer(HF_NOTFOUND, store_subscription_get(store, text_of("s"), copy_row, &row));
    must_answer(HF_NOTFOUND, SETTLE(&owner, 1, done(2, "a")));
    struct dead_query any = dead_query_any();
    must_read("3", list_dead(store, &any));

    int64_t again = subscribe_ordered(store, "s", 1);
    struct progress progress = progress_of(store, again);
    must_equal(0, progress.checkpoint);
    must_equal(0, progress.retrying);
    must_equal(0, progress.held);
    must_equal(false, progress.owned);
    must_read("", list_ahead(store, again, 0, 0));
    must_read("", list_due(store, again, 0, T0 + SECOND));
}

static void removal_ends_leases(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 4);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 4, T0);
    must_answer(HF_OK, subscription_drop(store, "s"));
    hf_status status = finish_all(store, &claim, T0);
    must_hold(status == HF_STALE || status == HF_NOTFOUND);
    int64_t again = subscribe_shared(store, "s");
    must_equal(0, progress_of(store, again).in_flight);
    claim = take(*state, store, again, 10, T0);
    must_read("1 2 3 4", list_batch(claim.batch));
}

static void the_id_of_a_removed_subscription_is_not_used_again(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 4);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, subscription_drop(store, "s"));
    must_hold(subscribe_ordered(store, "s", 1) != id);
    must_answer(HF_NOTFOUND, settle(&owner, 2, NULL, 0));
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_NOTFOUND, RUN(store, &acquire));
}

/* ---- Seeking --------------------------------------------------------------------------------- */

static void a_seek_moves_start_checkpoints_and_clears_what_waits(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aabbccdd");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 2, retry(3, "b", T0), held(4, "b"), dead(5, "c"),
                              block(6, "c"), done(7, "d")));
    must_answer(HF_OK, subscription_seek(store, id, 1));
    struct progress progress = progress_of(store, id);
    must_equal(1, progress.checkpoint);
    must_equal(0, progress.retrying);
    must_equal(0, progress.held);
    must_equal(0, progress.blocked);
    must_equal(2, progress.dead);
    must_equal(1, row_of(store, "s").start);
    must_read("", list_ahead(store, id, 0, 0));
    must_read("0 0 0 0", list_lanes(store, id, 0, "abcd"));
}

static void a_seek_moves_the_cursor_and_ends_leases(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 6);
    int64_t id = subscribe_shared(store, "s");
    struct claim claim = take(*state, store, id, 4, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "2", T0, T0 + SECOND));
    must_answer(HF_OK, subscription_seek(store, id, 3));
    must_answer(HF_STALE, finish_all(store, &claim, T0));
    struct progress progress = progress_of(store, id);
    must_equal(3, progress.cursor);
    must_equal(0, progress.in_flight);
    must_equal(0, progress.retrying);
    claim = take(*state, store, id, 10, T0 + 10 * SECOND);
    must_read("4 5 6", list_batch(claim.batch));
}

static void a_seek_beyond_the_head_is_invalid(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_ordered(store, "s", 1);
    must_answer(HF_INVALID, subscription_seek(store, id, 4));
    must_equal(0, progress_of(store, id).checkpoint);
    must_answer(HF_OK, subscription_seek(store, id, 3));
    must_equal(3, progress_of(store, id).checkpoint);
    must_answer(HF_OK, subscription_seek(store, id, 0));
    must_equal(0, progress_of(store, id).checkpoint);
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_missing_subscription_is_created_as_requested),
    CLAIM(every_partition_begins_at_the_start),
    CLAIM(the_cursor_of_a_shared_subscription_begins_at_the_start),
    CLAIM(given_patterns_and_options_replace_the_stored_ones),
    CLAIM(absent_patterns_and_options_leave_the_stored_ones),
    CLAIM(another_mode_conflicts_and_changes_nothing),
    CLAIM(an_expected_generation_must_be_the_stored_one),
    CLAIM(a_caller_that_expects_none_creates_a_subscription_or_changes_nothing),
    CLAIM(every_change_raises_the_generation_by_one),
    CLAIM(work_does_not_raise_the_generation),
    CLAIM(the_list_is_of_the_namespace_and_by_name),
    CLAIM(a_listing_that_is_stopped_is_no_error),
    CLAIM(an_empty_list_does_not_call_back),
    CLAIM(changes_of_a_missing_subscription_are_not_found),
    CLAIM(odd_names_are_names),
    CLAIM(a_store_touches_only_its_own_namespace),
    CLAIM(a_pause_records_its_time_author_and_reason),
    CLAIM(a_second_pause_keeps_the_first),
    CLAIM(resuming_clears_the_pause_and_the_breaker),
    CLAIM(resuming_a_running_subscription_clears_the_breaker),
    CLAIM(a_pause_needs_neither_name_nor_reason),
    CLAIM(the_breaker_is_stored_replaced_and_removed),
    CLAIM(removal_takes_all_but_the_dead_letters),
    CLAIM(removal_ends_leases),
    CLAIM(the_id_of_a_removed_subscription_is_not_used_again),
    CLAIM(a_seek_moves_start_checkpoints_and_clears_what_waits),
    CLAIM(a_seek_moves_the_cursor_and_ends_leases),
    CLAIM(a_seek_beyond_the_head_is_invalid),
};

FIXTURE_MAIN("subscription", claims, NULL)
