/*
 * test_standing.c - what stands before a subscription: pending events, leases, what runs.
 */
#include "base/hash.h"
#include "support/make.h"
#include "support/puppet.h"

/* ---- Pending events -------------------------------------------------------------------------- */

/* A subscription to one pattern, from the beginning. */
static int64_t subscribe(struct store *store, const char *name, hf_mode mode, int32_t partitions,
                         const char *patterns_json)
{
    struct subscription_put put = put_of(name, mode, partitions);
    put.patterns_json = text_of(patterns_json);
    must_answer(HF_OK, RUN(store, &put));
    return put.ret_id;
}

static void only_events_that_match_are_pending(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe(store, "s", HF_MODE_SHARED, 1, "[\"mail.*\"]");
    must_equal(0, pending_of(store, id, "mail.*", 100).count);
    must_equal(-1, pending_of(store, id, "mail.*", 100).first_at_us);
    append_count(store, "order", 2);
    must_equal(0, pending_of(store, id, "mail.*", 100).count);
    must_equal(false, pending_of(store, id, "mail.*", 100).more);
    append_count(store, "mail.sent", 3);
    append_count(store, "order", 1);
    struct pending pending = pending_of(store, id, "mail.*", 100);
    must_equal(3, pending.count);
    must_equal(false, pending.more);
    must_equal(entered_of(*state, store, 3), pending.first_at_us);
}

static void pending_events_are_counted_up_to_the_maximum(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 300);
    must_equal(300, pending_of(store, id, "*", 300).count);
    must_equal(false, pending_of(store, id, "*", 300).more);
    must_equal(299, pending_of(store, id, "*", 299).count);
    must_equal(true, pending_of(store, id, "*", 299).more);
    must_equal(1, pending_of(store, id, "*", 1).count);
    must_equal(true, pending_of(store, id, "*", 1).more);
}

static void claimed_events_are_not_pending(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 5);
    struct claim claim = take(*state, store, id, 2, T0);
    must_equal(3, pending_of(store, id, "*", 100).count);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1", T0, T0 + SECOND));
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_equal(3, pending_of(store, id, "*", 100).count);
}

static void events_settled_ahead_or_retrying_are_not_pending(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 9);
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 2, done(4, "a"), retry(5, "b", T0 + SECOND), held(7, "b")));
    must_equal(4, pending_of(store, id, "*", 100).count); /* 3 6 8 9 */
}

static void each_partition_counts_behind_its_own_checkpoint(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 3);
    append_count(store, "t", 60);
    int64_t expected = 60;
    for (int32_t partition = 0; partition < 3; partition++) {
        struct owner owner = own(store, id, partition);
        must_answer(HF_OK, settle(&owner, 20 * partition, NULL, 0));
        for (int64_t p = 1; p <= 20 * partition; p++) {
            expected -= hash_slice(entry_at(*state, store, p)->hash, 3) == partition;
        }
    }
    must_hold(expected > 0 && expected < 60);
    must_equal(expected, pending_of(store, id, "*", 100).count);
}

static void events_outside_the_patterns_are_pending_if_they_are_to_die(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct subscription_put put = put_of("s", HF_MODE_SHARED, 1);
    put.patterns_json = text_of("[\"mail.*\"]");
    put.options_json = text_of("{\"on_unhandled\":\"dead_letter\"}");
    must_answer(HF_OK, RUN(store, &put));
    append_count(store, "order", 2);
    struct text patterns[] = {text_of("mail.*")};
    struct pending_query query = {
        .subscription_id = put.ret_id,
        .filter = {.patterns = patterns, .count = 1, .unhandled_too = true},
        .max = 100,
    };
    struct pending pending;
    must_answer(HF_OK, store_pending(store, &query, &pending));
    must_equal(2, pending.count);
}

static void a_brief_look_counts_no_more_than_a_bounded_part(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 2 * STORE_PENDING_BRIEF_ROWS);
    struct pending_query query = {
        .subscription_id = id, .filter = filter_all, .max = HF_PENDING_MAX, .brief = true};
    struct pending pending;
    must_answer(HF_OK, store_pending(store, &query, &pending));
    must_hold(pending.more);
    must_hold(pending.count <= STORE_PENDING_BRIEF_ROWS);
    query.brief = false;
    must_answer(HF_OK, store_pending(store, &query, &pending));
    must_equal(2 * STORE_PENDING_BRIEF_ROWS, pending.count);
}

static void pending_events_of_no_subscription_are_not_found(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct pending_query query = {.subscription_id = 4711, .filter = filter_all, .max = 1};
    struct pending pending;
    must_answer(HF_NOTFOUND, store_pending(store, &query, &pending));
}

/* ---- Leases ---------------------------------------------------------------------------------- */

struct seen {
    size_t count;
    size_t ended;
    size_t events;
    int64_t first;
    int64_t claimed_at_us;
    int64_t expires_at_us;
    char node[64];
};

static int see(const struct lease_row *row, void *ctx)
{
    struct seen *seen = ctx;
    if (seen->count == 0) {
        seen->first = row->positions[0];
        seen->claimed_at_us = row->claimed_at_us;
        seen->expires_at_us = row->expires_at_us;
        snprintf(seen->node, sizeof seen->node, "%" TEXT_PRI, TEXT_ARG(row->node));
    }
    seen->count++;
    seen->ended += row->ended;
    seen->events += row->count;
    return 0;
}

static struct seen leases_of(struct store *store, int64_t id, int64_t now_us)
{
    struct seen seen = {0};
    must_answer(HF_OK, store_lease_list(store, id, now_us, see, &seen));
    return seen;
}

static void a_lease_shows_its_owner_events_and_start(void **state)
{
    struct store *store = fixture_open(*state, "node-a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 5);
    must_equal(0, leases_of(store, id, T0).count);
    struct claim claim = take(*state, store, id, 3, T0);
    struct seen seen = leases_of(store, id, T0);
    must_equal(1, seen.count);
    must_equal(3, seen.events);
    must_equal(1, seen.first);
    must_equal(T0, seen.claimed_at_us);
    must_equal(T0 + LEASE_US, seen.expires_at_us);
    must_read("node-a", seen.node);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_DONE, "1", T0, 0));
    must_equal(2, leases_of(store, id, T0).events);
    must_equal(2, leases_of(store, id, T0).first);
    must_answer(HF_OK, finish_all(store, &claim, T0));
    must_equal(0, leases_of(store, id, T0).count);
}

static void leases_of_no_subscription_are_not_found(void **state)
{
    struct seen seen = {0};
    struct store *store = fixture_open(*state, "a");
    must_answer(HF_NOTFOUND, store_lease_list(store, 4711, T0, see, &seen));
}

static struct progress progress_at(struct store *store, int64_t id, int64_t now_us)
{
    struct progress progress;
    must_answer(HF_OK, store_progress(store, id, now_us, &progress));
    return progress;
}

static void events_in_an_ended_lease_are_not_in_flight(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 5);
    must_equal(-1, progress_at(store, id, T0).claimed_at_us);
    take(*state, store, id, 3, T0);
    must_equal(3, progress_at(store, id, T0).in_flight);
    must_equal(0, progress_at(store, id, T0).lease_ended);
    must_equal(-1, progress_at(store, id, T0).lease_ended_us);
    must_equal(T0, progress_at(store, id, T0).claimed_at_us);
    must_equal(true, facts_of(*state, store, id, 2, NULL).leased);
    int64_t later_us = T0 + LEASE_US + SECOND;
    struct progress progress = progress_at(store, id, later_us);
    must_equal(0, progress.in_flight);
    must_equal(3, progress.lease_ended);
    must_equal(T0 + LEASE_US, progress.lease_ended_us);
    must_equal(1, leases_of(store, id, later_us).ended);
}

static void events_in_an_ended_lease_are_pending(void **state)
{
    struct store *store = fixture_open(*state, "node-a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 1);
    take(*state, store, id, 1, T0 - LEASE_US);
    struct delivery_facts facts = facts_of(*state, store, id, 1, NULL); /* at T0 */
    must_equal(false, facts.leased);
    must_equal(true, facts.holder.ended);
}

static void facts_show_the_owner_of_an_events_lease_and_its_start(void **state)
{
    struct store *store = fixture_open(*state, "node-a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 2);
    take(*state, store, id, 2, T0);
    struct delivery_facts facts = facts_of(*state, store, id, 2, NULL);
    must_equal(true, facts.leased);
    must_read("node-a", facts.holder.node);
    must_equal(T0, facts.holder.since_us);
}

static void a_claim_of_retries_alone_is_remembered(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 1);
    struct claim claim = take(*state, store, id, 1, T0);
    must_answer(HF_OK, finish(store, &claim, OUTCOME_RETRY, "1", T0, T0 + SECOND));
    take(*state, store, id, 1, T0 + 5 * SECOND);
    must_equal(T0 + 5 * SECOND, progress_at(store, id, T0).claimed_at_us);
    must_answer(HF_OK, subscription_seek(store, id, 1));
    must_equal(T0 + 5 * SECOND, progress_at(store, id, T0).claimed_at_us);
    take(*state, store, id, 1, T0 + 9 * SECOND); /* nothing is there */
    must_equal(T0 + 5 * SECOND, progress_at(store, id, T0).claimed_at_us);
}

static void a_lease_that_is_bound_ends_with_its_process(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t id = subscribe_shared(store, "s");
    append_count(store, "t", 2);
    struct child *puppet = puppet_start(*state, "node-b");
    puppet_do(puppet, "claim %lld 2 %d 1 0", (long long)id, LEASE_MS);
    must_equal(2, progress_at(store, id, T0).in_flight);
    child_kill(puppet);
    struct progress progress = progress_at(store, id, T0);
    while (progress.in_flight > 0) { /* a server notices it in its own time */
        progress = progress_at(store, id, T0);
    }
    must_equal(2, progress.lease_ended);
    must_equal(1, leases_of(store, id, T0).ended);
}

/* ---- What runs ------------------------------------------------------------------------------- */

static void events_that_a_living_owner_runs_are_in_flight(void **state)
{
    struct store *store = fixture_open(*state, "node-a");
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 3);
    own(store, id, 0);
    must_equal(0, progress_at(store, id, T0).in_flight);
    note_handler(store, 0, id, 1, 1);
    note_handler(store, 7, id, 3, 1);
    while (progress_at(store, id, T0).in_flight < 2) {
        store_alive(store); /* a server is told after a while */
    }
    must_equal(2, progress_at(store, id, T0).in_flight);
    struct delivery_facts facts = facts_of(*state, store, id, 3, NULL);
    must_equal(true, facts.leased);
    must_read("node-a", facts.holder.node);
    must_equal(T0, facts.holder.since_us);
    must_equal(false, facts_of(*state, store, id, 2, NULL).leased);
    store_note_clear(store, 0);
    store_note_clear(store, 7);
    while (progress_at(store, id, T0).in_flight > 0) {
        store_alive(store);
    }
    must_equal(false, facts_of(*state, store, id, 3, NULL).leased);
}

static const struct role roles[] = {{"puppet", puppet_run}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(only_events_that_match_are_pending),
    CLAIM(pending_events_are_counted_up_to_the_maximum),
    CLAIM(claimed_events_are_not_pending),
    CLAIM(events_settled_ahead_or_retrying_are_not_pending),
    CLAIM(each_partition_counts_behind_its_own_checkpoint),
    CLAIM(events_outside_the_patterns_are_pending_if_they_are_to_die),
    CLAIM(a_brief_look_counts_no_more_than_a_bounded_part),
    CLAIM(pending_events_of_no_subscription_are_not_found),
    CLAIM(a_lease_shows_its_owner_events_and_start),
    CLAIM(leases_of_no_subscription_are_not_found),
    CLAIM(events_in_an_ended_lease_are_not_in_flight),
    CLAIM(events_in_an_ended_lease_are_pending),
    CLAIM(facts_show_the_owner_of_an_events_lease_and_its_start),
    CLAIM(a_claim_of_retries_alone_is_remembered),
    CLAIM(a_lease_that_is_bound_ends_with_its_process),
    CLAIM(events_that_a_living_owner_runs_are_in_flight),
};

FIXTURE_MAIN("standing", claims, roles)
