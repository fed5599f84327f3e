/*
 * test_partition.c - the owner of a partition: one process at a time, succeeded when it is dead or
 * frozen; no other process can settle.
 */
#include "store/common/story.h"
#include "support/make.h"
#include "support/puppet.h"

#define FROZEN_MS 50
#define SHOWN_MS 2000
#define SHOWN_MS_MAX 32000

static int64_t settle_to(struct owner *owner, int64_t checkpoint)
{
    return settle(owner, checkpoint, NULL, 0);
}

/* Tries to acquire until it works, bounded; how many times the answer was HF_BUSY. */
static int acquire_patiently(struct store *store, struct acquire *acquire)
{
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    int busy = 0;
    hf_status status;
    while ((status = RUN(store, acquire)) == HF_BUSY) {
        busy++;
        must_hold(mono_ms() < until_ms);
    }
    must_equal(HF_OK, status);
    return busy;
}

/* ---- Acquiring ------------------------------------------------------------------------------- */

static void a_free_partition_is_acquired(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 3);
    int64_t id = subscribe_ordered(store, "s", 2);
    struct acquire acquire = acquire_of(id, 1, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_hold(acquire.ret_epoch >= 1);
    must_equal(0, acquire.ret_checkpoint);
    must_equal(generation_of(store, id), acquire.ret_generation);
    must_equal(0, acquire.ret_crashed);
    must_equal(false, acquire.ret_unclean);
}

static void a_partition_of_no_subscription_is_not_found(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct acquire acquire = acquire_of(4711, 0, LEASE_MS);
    must_answer(HF_NOTFOUND, RUN(store, &acquire));
}

static void a_partition_of_another_owner_is_busy_and_the_owner_named(void **state)
{
    struct store *a = fixture_open(*state, "node-of-a");
    struct store *b = fixture_open(*state, "node-of-b");
    append_count(a, "t", 3);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_BUSY, RUN(b, &acquire));
    must_say("node-of-a");
    must_answer(HF_OK, settle_to(&owner, 2)); /* the refused acquire changed nothing */
}

static void partitions_have_owners_of_their_own(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct owner zero = own(a, id, 0);
    struct owner one = own(b, id, 1);
    must_answer(HF_OK, settle_to(&zero, 3));
    must_answer(HF_OK, settle_to(&one, 5));
    must_equal(3, progress_of(a, id).checkpoint);
    struct owner crossed = zero;
    crossed.partition = 1;
    must_answer(HF_STALE, settle_to(&crossed, 4));
}

static void acquiring_again_gives_a_new_epoch_and_fences_the_old(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner old = own(store, id, 0);
    must_answer(HF_OK, settle_to(&old, 2));
    struct owner fresh = own(store, id, 0);
    must_hold(fresh.epoch > old.epoch);
    must_equal(2, fresh.checkpoint);
    must_answer(HF_STALE, settle_to(&old, 3));
    must_answer(HF_STALE, give_back(&old));
    must_answer(HF_OK, settle_to(&fresh, 4));
}

static void a_settle_with_a_future_or_foreign_epoch_is_stale(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    struct owner wrong = owner;
    wrong.epoch++;
    must_answer(HF_STALE, settle_to(&wrong, 1));
    wrong = owner;
    wrong.store = b; /* knows the epoch, but is not the owner */
    must_answer(HF_STALE, settle_to(&wrong, 1));
    must_answer(HF_STALE, give_back(&wrong));
    must_equal(0, progress_of(a, id).checkpoint);
    must_answer(HF_OK, settle_to(&owner, 1));
}

static void a_stale_settle_changes_nothing(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_lanes(a, "abcd");
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner old = own(a, id, 0);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(b, &acquire));
    must_answer(HF_STALE, SETTLE(&old, 1, retry(2, "b", T0), dead(3, "c"), done(4, "d")));
    struct progress progress = progress_of(b, id);
    must_equal(0, progress.checkpoint);
    must_equal(0, progress.retrying);
    must_equal(0, progress.dead);
    must_read("", list_ahead(b, id, 0, 0));
}

/* ---- Giving back ----------------------------------------------------------------------------- */

static void a_partition_that_is_given_back_is_free_at_once(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner first = own(a, id, 0);
    must_answer(HF_OK, settle_to(&first, 3));
    must_answer(HF_OK, give_back(&first));
    must_equal(false, progress_of(a, id).owned);
    must_answer(HF_STALE, settle_to(&first, 4));
    must_answer(HF_STALE, give_back(&first));
    struct owner second = own(b, id, 0);
    must_hold(second.epoch > first.epoch);
    must_equal(3, second.checkpoint);
    must_answer(HF_OK, give_back(&second));
    struct owner third = own(a, id, 0);
    must_hold(third.epoch > second.epoch);
}

static void giving_one_partition_back_keeps_the_others(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 3);
    struct owner zero = own(a, id, 0);
    struct owner one = own(a, id, 1);
    struct owner two = own(a, id, 2);
    must_answer(HF_OK, give_back(&one));
    must_answer(HF_OK, settle_to(&zero, 3));
    must_answer(HF_OK, settle_to(&two, 4));
    must_answer(HF_STALE, settle_to(&one, 5));
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_BUSY, RUN(b, &acquire));
    acquire = acquire_of(id, 2, LEASE_MS);
    must_answer(HF_BUSY, RUN(b, &acquire));
    must_equal(0, own(b, id, 1).checkpoint);
    must_answer(HF_OK, settle_to(&zero, 5)); /* another one's owner is none of its business */
    must_equal(0, progress_of(b, id).checkpoint);
}

static void closing_a_store_gives_back_what_it_owns(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct owner zero = own(a, id, 0);
    struct owner one = own(a, id, 1);
    must_answer(HF_OK, settle_to(&zero, 2));
    must_answer(HF_OK, settle_to(&one, 5));
    fixture_close(*state, a);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(b, &acquire));
    must_equal(2, acquire.ret_checkpoint);
    must_equal(0, acquire.ret_crashed);
    must_equal(false, acquire.ret_unclean);
    must_equal(5, own(b, id, 1).checkpoint);
}

/* ---- Death and frost ------------------------------------------------------------------------- */

static void a_dead_owner_is_succeeded_at_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    int64_t epoch = puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "settle 3");
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_BUSY, RUN(store, &acquire));
    must_say("mortal");
    struct progress progress = progress_of(store, id);
    must_equal(true, progress.owned);
    must_equal(true, progress.owner_alive);
    must_read("mortal", progress.owner_name);

    child_kill(puppet);
    must_equal(false, progress_of(store, id).owner_alive);
    must_answer(HF_OK, RUN(store, &acquire));
    must_hold(acquire.ret_epoch > epoch);
    must_equal(3, acquire.ret_checkpoint);
}

static void an_owner_that_exits_without_closing_is_dead(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "careless");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    child_tell(puppet, "exit");
    child_finish(puppet);
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (progress_of(store, id).owner_alive) { /* a server has to notice */
        must_hold(mono_ms() < until_ms && !((struct fixture *)*state)->sqlite);
    }
    own(store, id, 0);
}

static void a_frozen_owner_is_succeeded_after_its_lease_and_then_refused(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_count(store, "t", 5);
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "frozen");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    child_freeze(puppet);
    int64_t begun_ms = mono_ms();
    struct acquire acquire = acquire_of(id, 0, FROZEN_MS);
    must_hold(acquire_patiently(store, &acquire) >= 1);
    must_hold(mono_ms() - begun_ms >= FROZEN_MS - 1);
    child_thaw(puppet);
    must_equal(HF_STALE, puppet_try(puppet, "settle 2"));
    must_equal(0, progress_of(store, id).checkpoint);
    must_equal(HF_BUSY, puppet_try(puppet, "acquire %" PRId64 " 0", id));
    child_finish(puppet);
}

/* Whether an owner that shows life is left alone for two leases. */
static bool owner_stays(struct fixture *f, int64_t lease_ms)
{
    static int made;
    char name[32];
    snprintf(name, sizeof name, "owned%d", ++made);
    struct store *a = fixture_open(f, "a");
    struct store *b = fixture_open(f, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, name, 1);
    struct acquire first = acquire_of(id, 0, lease_ms); /* says how often signs are to come */
    must_answer(HF_OK, RUN(a, &first));
    struct owner owner = own(a, id, 0);
    int64_t until_ms = mono_ms() + 2 * lease_ms;
    hf_status status = HF_BUSY;
    while (mono_ms() < until_ms && status == HF_BUSY) {
        store_alive(a);
        struct acquire acquire = acquire_of(id, 0, lease_ms);
        status = RUN(b, &acquire);
    }
    if (status == HF_BUSY) {
        must_answer(HF_OK, settle_to(&owner, 5));
    }
    fixture_close(f, a);
    fixture_close(f, b);
    must_hold(status == HF_BUSY || status == HF_OK);
    return status == HF_BUSY;
}

/* Where a thread of the store's shows life it may be late; on a slow machine it is given longer. */
static void an_owner_that_shows_life_keeps_its_partition(void **state)
{
    struct fixture *f = *state;
    int64_t lease_ms = f->sqlite ? FROZEN_MS : SHOWN_MS;
    bool stays = owner_stays(f, lease_ms);
    while (!stays && !f->sqlite && lease_ms < SHOWN_MS_MAX) {
        lease_ms *= 2;
        stays = owner_stays(f, lease_ms);
    }
    must_hold(stays);
}

static void a_process_whose_signs_of_life_stand_still_for_a_lease_is_frozen(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    store_alive(a);
    struct acquire acquire = acquire_of(id, 0, FROZEN_MS);
    int64_t begun_ms = mono_ms();
    must_hold(acquire_patiently(b, &acquire) >= 1);
    must_hold(mono_ms() - begun_ms >= FROZEN_MS - 1);
    must_answer(HF_STALE, settle_to(&owner, 5));
}

static void the_wall_clock_does_not_decide_which_process_is_frozen(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 1);
    own(a, id, 0);
    for (int day = -1; day <= 2; day++) {
        struct acquire acquire = acquire_of(id, 0, LEASE_MS);
        acquire.change.now_us = T0 + day * 86400 * SECOND;
        must_answer(HF_BUSY, RUN(b, &acquire));
    }
}

static void a_forced_acquire_takes_over_at_once(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 5);
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner owner = own(a, id, 0);
    must_answer(HF_OK, settle_to(&owner, 2));
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(b, &acquire));
    must_hold(acquire.ret_epoch > owner.epoch);
    must_equal(2, acquire.ret_checkpoint);
    must_answer(HF_STALE, settle_to(&owner, 3));
    must_read("b", progress_of(a, id).owner_name);
}

static void an_owner_that_took_over_gives_the_next_one_all_that_was_stored(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_lanes(a, "aabbc");
    int64_t id = subscribe_ordered(a, "s", 1);
    struct owner first = own(a, id, 0);
    must_answer(HF_OK, SETTLE(&first, 0, retry(1, "a", T0 + SECOND), held(2, "a"), done(5, "c")));
    must_answer(HF_OK, give_back(&first));
    struct owner second = own(b, id, 0);
    must_equal(0, second.checkpoint);
    must_read("1 2 5", list_ahead(b, id, 0, 0));
    must_read("2 0 0", list_lanes(b, id, 0, "abc"));
    must_read("1", list_due(b, id, 0, T0 + SECOND));
}

/* ---- Notes of the dead ----------------------------------------------------------------------- */

/* Kills the puppet and takes its partition. */
static struct acquire succeed(struct store *store, struct child *puppet, int64_t id)
{
    child_kill(puppet);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    acquire.change.now_us = T0 + 7;
    must_answer(HF_OK, RUN(store, &acquire));
    return acquire;
}

/* An engine that cannot know says so, and these claims say nothing about it. */
static void need_notes(const struct acquire *acquire)
{
    if (acquire->ret_unclean) {
        skip();
    }
}

static void handlers_that_ran_at_death_are_recorded_once_and_exactly(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abcdef");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 0 %" PRId64 " 2 1", id);
    puppet_do(puppet, "note 7 %" PRId64 " 4 1", id);
    puppet_do(puppet, "note 3 %" PRId64 " 5 1", id);
    puppet_do(puppet, "clear 3");
    puppet_do(puppet, "note 1023 %" PRId64 " 6 1", id);
    struct acquire acquire = succeed(store, puppet, id);
    need_notes(&acquire);
    must_equal(3, acquire.ret_crashed);
    must_read("2 4 6", list_due(store, id, 0, T0 + 7));
    must_read("", list_due(store, id, 0, T0 + 6));
    must_equal(3, progress_of(store, id).retrying);

    struct text story;
    struct delivery_facts facts = facts_of(*state, store, id, 4, &story);
    must_equal(true, facts.waiting);
    must_equal(1, facts.attempts);
    must_equal(T0 + 7, facts.next_attempt_us);
    must_equal(CAUSE_DIED, facts.cause);
    must_contain(STORY_ERROR_DIED, story.bytes);
    must_contain("\"attempt\":1", story.bytes);
    must_contain("mortal", story.bytes); /* the node that died */

    /* the next acquire finds nothing more */
    acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_equal(0, acquire.ret_crashed);
    must_equal(1, facts_of(*state, store, id, 2, NULL).attempts);
}

static void the_last_note_of_a_slot_counts(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 4 %" PRId64 " 1 1", id);
    puppet_do(puppet, "note 4 %" PRId64 " 3 1", id);
    struct acquire acquire = succeed(store, puppet, id);
    need_notes(&acquire);
    must_equal(1, acquire.ret_crashed);
    must_read("3", list_due(store, id, 0, T0 + 7));
}

static void a_crash_is_one_more_attempt_of_what_had_failed_before(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "aab");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct owner owner = own(store, id, 0);
    must_answer(HF_OK, SETTLE(&owner, 0, retry(1, "a", T0), held(2, "a")));
    must_answer(HF_OK, give_back(&owner));
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 0 %" PRId64 " 1 2", id);
    struct acquire acquire = succeed(store, puppet, id);
    need_notes(&acquire);
    must_equal(1, acquire.ret_crashed);
    struct text story;
    struct delivery_facts facts = facts_of(*state, store, id, 1, &story);
    must_equal(2, facts.attempts);
    must_equal(CAUSE_DIED, facts.cause);
    must_equal(true, facts.waiting);
    must_contain("\"error\":\"one\"", story.bytes);
    must_contain("\"attempt\":2", story.bytes);
    must_contain(STORY_ERROR_DIED, story.bytes);
    must_equal(true, facts_of(*state, store, id, 2, NULL).held);
    must_read("2 0", list_lanes(store, id, 0, "ab"));
}

static void a_note_of_another_subscription_waits_for_its_own_successor(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t one = subscribe_ordered(store, "one", 1);
    int64_t two = subscribe_ordered(store, "two", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", one);
    puppet_do(puppet, "acquire %" PRId64 " 0", two);
    puppet_do(puppet, "note 0 %" PRId64 " 1 1", one);
    puppet_do(puppet, "note 1 %" PRId64 " 2 1", two);
    puppet_do(puppet, "note 2 %" PRId64 " 3 1", two);
    struct acquire acquire = succeed(store, puppet, one);
    need_notes(&acquire);
    must_equal(1, acquire.ret_crashed);
    must_read("1", list_due(store, one, 0, T0 + 7));
    must_read("", list_due(store, two, 0, T0 + 7));
    acquire = acquire_of(two, 0, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_equal(2, acquire.ret_crashed);
    must_read("2 3", list_due(store, two, 0, T0 + 7));
}

static void a_note_of_another_partition_waits_for_its_own_successor(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_one(store, "t", key_in(0, 2, 0));
    append_one(store, "t", key_in(1, 2, 0));
    int64_t id = subscribe_ordered(store, "s", 2);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "acquire %" PRId64 " 1", id);
    puppet_do(puppet, "note 0 %" PRId64 " 1 1", id);
    puppet_do(puppet, "note 1 %" PRId64 " 2 1", id);
    struct acquire acquire = succeed(store, puppet, id);
    need_notes(&acquire);
    must_equal(1, acquire.ret_crashed);
    must_read("1", list_due(store, id, 0, T0 + 7));
    must_read("", list_due(store, id, 1, T0 + 7));
    acquire = acquire_of(id, 1, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_equal(1, acquire.ret_crashed);
    must_read("2", list_due(store, id, 1, T0 + 7));
}

static void a_note_of_a_settled_event_is_no_crash(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abcde");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "note 0 %" PRId64 " 1 1", id);
    puppet_do(puppet, "note 1 %" PRId64 " 4 1", id);
    puppet_do(puppet, "note 2 %" PRId64 " 5 1", id);
    puppet_do(puppet, "settle 2"); /* 1 is done by a settle */
    puppet_do(puppet, "enter 4");  /* 4 is done in a transaction */
    puppet_do(puppet, "leave");
    puppet_do(puppet, "commit");
    struct acquire acquire = succeed(store, puppet, id);
    need_notes(&acquire);
    must_equal(1, acquire.ret_crashed);
    must_read("5", list_due(store, id, 0, T0 + 7));
    must_read("4 5", list_ahead(store, id, 0, 2));
}

static void crash_after_crash_counts_every_attempt(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_ordered(store, "s", 1);
    for (int attempt = 1; attempt <= 4; attempt++) {
        struct child *puppet = puppet_start(*state, "mortal");
        puppet_do(puppet, "acquire %" PRId64 " 0", id);
        puppet_do(puppet, "note 0 %" PRId64 " 1 %d", id, attempt);
        struct acquire acquire = succeed(store, puppet, id);
        need_notes(&acquire);
        must_equal(1, acquire.ret_crashed);
        must_equal(attempt, facts_of(*state, store, id, 1, NULL).attempts);
        struct owner owner = own(store, id, 0);
        must_answer(HF_OK, give_back(&owner));
    }
    must_equal(0, facts_of(*state, store, id, 2, NULL).attempts);
}

static void a_note_counts_as_running_while_its_process_lives(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "ab");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_OK, RUN(store, &acquire));
    must_equal(false, facts_of(*state, store, id, 1, NULL).leased);
    note_handler(store, 5, id, 1, 1);
    if (((struct fixture *)*state)->sqlite) {
        must_equal(true, facts_of(*state, store, id, 1, NULL).leased);
    }
    must_equal(false, facts_of(*state, store, id, 2, NULL).leased);
    store_note_clear(store, 5);
    must_equal(false, facts_of(*state, store, id, 1, NULL).leased);
}

/* ---- Seeking --------------------------------------------------------------------------------- */

static void a_seek_fences_the_owner_but_leaves_it_the_partition(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    append_count(a, "t", 9);
    int64_t id = subscribe_ordered(a, "s", 2);
    struct owner zero = own(a, id, 0);
    struct owner one = own(a, id, 1);
    must_answer(HF_OK, settle_to(&zero, 6));
    must_answer(HF_OK, subscription_seek(b, id, 4));
    must_answer(HF_STALE, settle_to(&zero, 7));
    must_answer(HF_STALE, settle_to(&one, 7));
    must_equal(4, progress_of(a, id).checkpoint);
    struct acquire acquire = acquire_of(id, 0, LEASE_MS);
    must_answer(HF_BUSY, RUN(b, &acquire)); /* still a's */
    struct owner again = own(a, id, 0);
    must_equal(4, again.checkpoint);
    must_hold(again.epoch > zero.epoch + 1); /* once for the seek, once for the acquire */
    must_answer(HF_OK, settle_to(&again, 5));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_free_partition_is_acquired),
    CLAIM(a_partition_of_no_subscription_is_not_found),
    CLAIM(a_partition_of_another_owner_is_busy_and_the_owner_named),
    CLAIM(partitions_have_owners_of_their_own),
    CLAIM(acquiring_again_gives_a_new_epoch_and_fences_the_old),
    CLAIM(a_settle_with_a_future_or_foreign_epoch_is_stale),
    CLAIM(a_stale_settle_changes_nothing),
    CLAIM(a_partition_that_is_given_back_is_free_at_once),
    CLAIM(giving_one_partition_back_keeps_the_others),
    CLAIM(closing_a_store_gives_back_what_it_owns),
    CLAIM(a_dead_owner_is_succeeded_at_once),
    CLAIM(an_owner_that_exits_without_closing_is_dead),
    CLAIM(a_frozen_owner_is_succeeded_after_its_lease_and_then_refused),
    CLAIM(an_owner_that_shows_life_keeps_its_partition),
    CLAIM(a_process_whose_signs_of_life_stand_still_for_a_lease_is_frozen),
    CLAIM(the_wall_clock_does_not_decide_which_process_is_frozen),
    CLAIM(a_forced_acquire_takes_over_at_once),
    CLAIM(an_owner_that_took_over_gives_the_next_one_all_that_was_stored),
    CLAIM(handlers_that_ran_at_death_are_recorded_once_and_exactly),
    CLAIM(the_last_note_of_a_slot_counts),
    CLAIM(a_crash_is_one_more_attempt_of_what_had_failed_before),
    CLAIM(a_note_of_another_subscription_waits_for_its_own_successor),
    CLAIM(a_note_of_another_partition_waits_for_its_own_successor),
    CLAIM(a_note_of_a_settled_event_is_no_crash),
    CLAIM(crash_after_crash_counts_every_attempt),
    CLAIM(a_note_counts_as_running_while_its_process_lives),
    CLAIM(a_seek_fences_the_owner_but_leaves_it_the_partition),
};

FIXTURE_MAIN("partition", claims, NULL)
