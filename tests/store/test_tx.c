/*
 * test_tx.c - transactions that handlers run in: the delivery is settled and its effects are kept
 * together, or neither is.
 */
#include "support/crowd.h"
#include "support/make.h"
#include "support/puppet.h"
#include "support/sqlite.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

struct scene {
    struct fixture *f;
    struct store *store;
    int64_t id;
    struct owner owner;
};

static struct scene scene_of(struct fixture *f, const char *letters)
{
    struct scene scene = {.f = f, .store = fixture_open(f, "a")};
    append_lanes(scene.store, letters);
    scene.id = subscribe_ordered(scene.store, "s", 1);
    scene.owner = own(scene.store, scene.id, 0);
    return scene;
}

static struct tx *begin(struct store *store)
{
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    must_hold(tx);
    return tx;
}

static struct hold hold_of(const struct owner *owner)
{
    return (struct hold){.subscription_id = owner->subscription_id,
                         .partition = owner->partition,
                         .epoch = owner->epoch};
}

static struct hold hold_of_lease(const struct claim *claim)
{
    struct hold hold = {.subscription_id = claim->subscription_id, .leased = true};
    memcpy(hold.lease, claim->ret_lease, STORE_TOKEN_BYTES);
    return hold;
}

/* Enters with the entry as the log has it. The entry must have been read before the begin. */
static hf_status enter(struct tx *tx, const struct scene *s, const struct entry *entry)
{
    struct hold hold = hold_of(&s->owner);
    return tx_enter(tx, &hold, entry, T0 + 3);
}

static void leave(struct tx *tx, bool keep)
{
    bool lane_busy = true;
    must_answer(HF_OK, tx_leave(tx, keep, &lane_busy));
}

static int64_t append_in(struct tx *tx, const char *key)
{
    struct new_event event = event_of("inside", key);
    struct append append = append_of(&event, 1);
    must_answer(HF_OK, tx_append(tx, &append));
    return event.position;
}

/* ---- Settling inside ------------------------------------------------------------------------- */

static void a_committed_delivery_is_settled(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_hold(tx_connection(tx));
    must_answer(HF_OK, enter(tx, &s, entry));
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    must_read("2", list_ahead(s.store, s.id, 0, 0));
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).settled);
    must_answer(HF_OK, settle(&s.owner, 2, NULL, 0)); /* the checkpointer folds it */
    must_read("", list_ahead(s.store, s.id, 0, 0));
}

static void a_rolled_back_delivery_never_was(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    append_in(tx, NULL);
    leave(tx, true);
    tx_rollback(tx);
    must_read("", list_ahead(s.store, s.id, 0, 0));
    must_equal(3, last_of(s.store));
    must_follow(s.store, 3, append_one(s.store, "t", NULL));
    tx_rollback(NULL);
}

static void a_rollback_inside_a_delivery_undoes_it(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    append_in(tx, NULL);
    tx_rollback(tx);
    must_read("", list_ahead(s.store, s.id, 0, 0));
    must_equal(3, last_of(s.store));
}

static void many_deliveries_share_a_transaction_and_each_may_be_undone(void **state)
{
    struct scene s = scene_of(*state, "abcde");
    const struct entry *entries[5];
    for (int i = 0; i < 5; i++) {
        entries[i] = entry_at(*state, s.store, i + 1);
    }
    int64_t last = 5;
    int64_t appended[5];
    struct tx *tx = begin(s.store);
    for (int i = 0; i < 5; i++) {
        must_answer(HF_OK, enter(tx, &s, entries[i]));
        appended[i] = append_in(tx, i % 2 ? "undone" : "kept");
        must_follow(s.store, last, appended[i]);
        last = i % 2 ? last : appended[i];
        leave(tx, i % 2 == 0);
    }
    must_answer(HF_OK, tx_commit(tx));
    must_read("1 3 5", list_ahead(s.store, s.id, 0, 0));
    must_equal(appended[4], last_of(s.store));
    for (int i = 0; i < 5; i += 2) {
        must_read("kept", entry_at(*state, s.store, appended[i])->event.key);
    }
}

static void a_settled_delivery_conflicts_and_the_transaction_goes_on(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, SETTLE(&s.owner, 0, done(2, "b")));
    const struct entry *two = entry_at(*state, s.store, 2);
    const struct entry *three = entry_at(*state, s.store, 3);
    struct tx *tx = begin(s.store);
    must_answer(HF_CONFLICT, enter(tx, &s, two));
    must_answer(HF_OK, enter(tx, &s, three));
    leave(tx, true);
    must_answer(HF_CONFLICT, enter(tx, &s, three)); /* within the same transaction, too */
    must_answer(HF_OK, tx_commit(tx));
    must_read("2 3", list_ahead(s.store, s.id, 0, 0));
}

static void a_delivery_below_the_checkpoint_conflicts(void **state)
{
    struct scene s = scene_of(*state, "abc");
    must_answer(HF_OK, settle(&s.owner, 2, NULL, 0));
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_CONFLICT, enter(tx, &s, entry));
    tx_rollback(tx);
}

static void a_stale_hold_is_refused(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct store *other = fixture_open(*state, "b");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct acquire acquire = acquire_of(s.id, 0, LEASE_MS);
    acquire.force = true;
    must_answer(HF_OK, RUN(other, &acquire));
    struct tx *tx = begin(s.store);
    must_answer(HF_STALE, enter(tx, &s, entry));
    tx_rollback(tx);

    struct owner thief = s.owner; /* the right epoch in the wrong hands */
    thief.epoch = acquire.ret_epoch;
    struct hold hold = hold_of(&thief);
    tx = begin(s.store);
    must_answer(HF_STALE, tx_enter(tx, &hold, entry, T0));
    must_answer(HF_OK, tx_commit(tx));
    must_read("", list_ahead(s.store, s.id, 0, 0));
}

/* The entry of a retry, as the bus gets it. */
static const struct entry *due_entry(struct scene *s, int64_t now_us)
{
    struct batch *batch = fixture_batch(s->f);
    int64_t next_us;
    must_answer(HF_OK, retries_due(s->store, s->id, now_us, 10, batch, &next_us));
    must_equal(1, batch->count);
    return &batch->entries[0];
}

static void a_retry_row_goes_and_its_lane_is_promoted(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, 3, retry(1, "a", T0), held(2, "a")));
    const struct entry *entry = due_entry(&s, T0);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    bool lane_busy = false;
    must_answer(HF_OK, tx_leave(tx, true, &lane_busy));
    must_equal(true, lane_busy);
    must_answer(HF_OK, tx_commit(tx));
    must_read("2", list_due(s.store, s.id, 0, T0 + 3));
    must_read("", list_due(s.store, s.id, 0, T0 + 2));

    entry = due_entry(&s, T0 + 3);
    tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    lane_busy = true;
    must_answer(HF_OK, tx_leave(tx, true, &lane_busy));
    must_equal(false, lane_busy);
    must_answer(HF_OK, tx_commit(tx));
    must_read("0 0", list_lanes(s.store, s.id, 0, "ab"));
}

static void an_undone_retry_waits_on(void **state)
{
    struct scene s = scene_of(*state, "aab");
    must_answer(HF_OK, SETTLE(&s.owner, 3, retry(1, "a", T0), held(2, "a")));
    const struct entry *entry = due_entry(&s, T0);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    leave(tx, false);
    must_answer(HF_OK, tx_commit(tx));
    must_read("1", list_due(s.store, s.id, 0, T0 + 100 * SECOND));
    struct text story;
    must_equal(1, facts_of(*state, s.store, s.id, 1, &story).attempts);
    must_match(text_of(STORY_ONE), story);
    must_equal(true, facts_of(*state, s.store, s.id, 2, NULL).held);
}

/* A retry below the checkpoint is done once: its row is the proof that it is not settled. */
static void a_retry_below_the_checkpoint_is_done_once(void **state)
{
    struct scene s = scene_of(*state, "ab");
    must_answer(HF_OK, SETTLE(&s.owner, 2, retry(1, "a", T0)));
    const struct entry *entry = due_entry(&s, T0);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    tx = begin(s.store);
    must_answer(HF_CONFLICT, enter(tx, &s, entry));
    tx_rollback(tx);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void a_leased_delivery_is_taken_out_of_its_lease(void **state)
{
    struct scene s = {.f = *state, .store = fixture_open(*state, "a")};
    append_count(s.store, "t", 3);
    s.id = subscribe_shared(s.store, "shared");
    struct claim claim = take(*state, s.store, s.id, 10, T0);
    struct hold hold = hold_of_lease(&claim);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, tx_enter(tx, &hold, &claim.batch->entries[1], T0));
    leave(tx, true);
    must_answer(HF_CONFLICT, tx_enter(tx, &hold, &claim.batch->entries[1], T0));
    must_answer(HF_OK, tx_enter(tx, &hold, &claim.batch->entries[2], T0));
    leave(tx, false);
    must_answer(HF_OK, tx_commit(tx));
    must_equal(2, progress_of(s.store, s.id).in_flight);
    must_answer(HF_STALE, finish(s.store, &claim, OUTCOME_DONE, "2", T0, 0));
    must_answer(HF_OK, finish(s.store, &claim, OUTCOME_DONE, "1 3", T0, 0));
    must_equal(3, progress_of(s.store, s.id).checkpoint);
}

static void a_lease_that_passed_to_others_is_stale(void **state)
{
    struct scene s = {.f = *state, .store = fixture_open(*state, "a")};
    append_count(s.store, "t", 1);
    s.id = subscribe_shared(s.store, "shared");
    struct claim late = take(*state, s.store, s.id, 10, T0);
    struct claim next = take(*state, s.store, s.id, 10, T0 + 2 * LEASE_US);
    if (next.batch->count == 0) {
        next = take(*state, s.store, s.id, 10, T0 + 2 * LEASE_US);
    }
    must_read("1", list_batch(next.batch));
    struct hold hold = hold_of_lease(&late);
    struct tx *tx = begin(s.store);
    must_answer(HF_STALE, tx_enter(tx, &hold, &late.batch->entries[0], T0 + 2 * LEASE_US));
    hold = hold_of_lease(&next);
    must_answer(HF_OK, tx_enter(tx, &hold, &next.batch->entries[0], T0 + 2 * LEASE_US));
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    must_equal(0, progress_of(s.store, s.id).in_flight);
    must_equal(0, progress_of(s.store, s.id).retrying);
    must_equal(1, progress_of(s.store, s.id).checkpoint);
}

/* ---- Appending inside ------------------------------------------------------------------------ */

static void an_event_appended_inside_exists_if_and_only_if_it_commits(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct store *other = fixture_open(*state, "b");
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    must_equal(4, append_in(tx, NULL));
    must_equal(5, append_in(tx, NULL));
    leave(tx, true);
    must_equal(3, last_of(other)); /* it cannot be seen yet */
    must_answer(HF_OK, tx_commit(tx));
    must_equal(5, last_of(other));
    must_read("inside", entry_at(*state, other, 5)->event.type);
    must_equal(6, append_one(other, "t", NULL));
}

static void the_contract_of_append_holds_in_a_handlers_transaction(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct new_event known = event_of("t", NULL);
    must_answer(HF_OK, append_event(s.store, &known));
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    struct new_event events[3] = {event_of("t", "k"), event_of("t", NULL), event_of("t", NULL)};
    events[0].expected_version = 0;
    memcpy(events[1].id, known.id, 16);
    struct append append = append_of(events, 3);
    must_answer(HF_OK, tx_append(tx, &append));
    must_equal(5, events[0].position);
    must_equal(1, events[0].key_version);
    must_equal(true, events[1].duplicate);
    must_equal(4, events[1].position);
    must_follow(s.store, 5, events[2].position);

    struct new_event wrong[2] = {event_of("t", NULL), event_of("t", "k")};
    wrong[1].expected_version = 0;
    append = append_of(wrong, 2);
    must_answer(HF_CONFLICT, tx_append(tx, &append)); /* leaves nothing, disturbs nothing */
    must_equal(1, append.failed_index);
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    must_equal(events[2].position, last_of(s.store));
}

/* ---- Misuse and deadlines -------------------------------------------------------------------- */

static void changes_from_inside_a_transaction_are_misuse(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct tx *tx = begin(s.store);
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    hf_status status = store_run(s.store, &append.change, deadline_after_ms(DEADLINE_MS));
    tx_rollback(tx);
    must_equal(HF_MISUSE, status);
    must_answer(HF_OK, append_event(s.store, &event));
    must_equal(4, event.position);
}

static void reading_from_inside_a_transaction_is_allowed(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct tx *tx = begin(s.store);
    int64_t head = head_of(s.store);
    tx_rollback(tx);
    must_equal(3, head);
}

static void a_database_that_is_held_answers_timeout_at_the_deadline(void **state)
{
    fixture_sqlite_only(*state);
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    struct tx *holder = begin(b);
    struct tx *tx = NULL;
    int64_t begun_ms = mono_ms();
    hf_status status = store_tx_begin(a, deadline_after_ms(60), &tx);
    int64_t spent_ms = mono_ms() - begun_ms;
    tx_rollback(holder);
    must_equal(HF_TIMEOUT, status);
    must_hold(!tx);
    must_hold(spent_ms >= 59 && spent_ms < DEADLINE_MS / 2);
    tx_rollback(begin(a));
}

struct waiting_append {
    struct store *store;
    int64_t position;
};

static void append_while_held(int index, void *ctx)
{
    (void)index;
    struct waiting_append *waiting = ctx;
    waiting->position = append_one(waiting->store, "t", NULL);
}

static void other_threads_of_the_store_write_when_the_transaction_has_ended(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct waiting_append waiting = {.store = s.store};
    struct tx *tx = begin(s.store);
    struct crowd crowd;
    crowd_start(&crowd, 1, append_while_held, &waiting);
    crowd_settle(&crowd);
    append_in(tx, NULL);
    hf_status status = tx_commit(tx);
    crowd_join(&crowd);
    must_equal(HF_OK, status);
    must_equal(5, last_of(s.store));
    must_hold(waiting.position == 5 || (!s.f->sqlite && waiting.position == 4));
}

/* ---- Abort ----------------------------------------------------------------------------------- */

static void abort_it(int index, void *ctx)
{
    (void)index;
    must_hold(tx_abort(ctx));
}

static void an_aborted_transaction_keeps_nothing_and_lets_others_write(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct store *other = fixture_open(*state, "b");
    const struct entry *entry = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    append_in(tx, NULL);
    crowd_run(1, abort_it, tx);
    int64_t after = append_one(other, "t", NULL); /* before the owner has ended it */
    must_follow(other, 3, after);
    bool lane_busy;
    must_answer(HF_TIMEOUT, tx_leave(tx, true, &lane_busy));
    must_answer(HF_TIMEOUT, tx_commit(tx));
    must_read("", list_ahead(s.store, s.id, 0, 0));
    must_equal(after, last_of(s.store));

    tx = begin(s.store); /* the store goes on */
    must_answer(HF_OK, enter(tx, &s, entry));
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    must_read("2", list_ahead(s.store, s.id, 0, 0));
}

static void an_abort_between_deliveries_undoes_all_of_them(void **state)
{
    struct scene s = scene_of(*state, "abc");
    const struct entry *one = entry_at(*state, s.store, 1);
    const struct entry *two = entry_at(*state, s.store, 2);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, one));
    leave(tx, true);
    must_hold(tx_abort(tx));
    hf_status status = enter(tx, &s, two);
    must_hold(status != HF_OK);
    must_answer(HF_TIMEOUT, tx_commit(tx));
    must_read("", list_ahead(s.store, s.id, 0, 0));
}

static void an_aborted_transaction_can_be_rolled_back(void **state)
{
    struct scene s = scene_of(*state, "abc");
    struct tx *tx = begin(s.store);
    must_hold(tx_abort(tx));
    must_hold(tx_abort(tx)); /* twice is nothing new */
    tx_rollback(tx);
    must_equal(4, append_one(s.store, "t", NULL));
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void death_before_the_commit_keeps_nothing_death_after_it_everything(void **state)
{
    struct store *store = fixture_open(*state, "a");
    append_lanes(store, "abc");
    int64_t id = subscribe_ordered(store, "s", 1);
    struct child *puppet = puppet_start(*state, "mortal");
    puppet_do(puppet, "acquire %" PRId64 " 0", id);
    puppet_do(puppet, "enter 1");
    puppet_do(puppet, "txappend x");
    puppet_do(puppet, "leave");
    puppet_do(puppet, "commit");
    puppet_do(puppet, "enter 2");
    puppet_do(puppet, "txappend y");
    puppet_do(puppet, "leave");
    child_kill(puppet);
    own(store, id, 0);
    must_read("1", list_ahead(store, id, 0, 0));
    must_equal(4, last_of(store));
    must_read("x", entry_at(*state, store, 4)->event.key);
    must_follow(store, 4, append_one(store, "t", NULL));
}

/* ---- The application's own tables: SQLite ---------------------------------------------------- */

static int sql(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static int64_t sql_count(struct fixture *f, const char *text)
{
    return sqlite_number_in(fixture_path(f), text);
}

static void make_effects(struct scene *s)
{
    struct tx *tx = begin(s->store);
    must_equal(SQLITE_OK, sql(tx_connection(tx), "CREATE TABLE effects (position INTEGER)"));
    must_answer(HF_OK, tx_commit(tx));
}

static void effects_are_kept_with_the_delivery_and_undone_with_it(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    make_effects(&s);
    const struct entry *entries[3];
    for (int i = 0; i < 3; i++) {
        entries[i] = entry_at(*state, s.store, i + 1);
    }
    struct tx *tx = begin(s.store);
    for (int i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "INSERT INTO effects VALUES (%d)", i + 1);
        must_answer(HF_OK, enter(tx, &s, entries[i]));
        must_equal(SQLITE_OK, sql(tx_connection(tx), text));
        leave(tx, i != 1);
    }
    must_answer(HF_OK, tx_commit(tx));
    must_equal(2, sql_count(*state, "SELECT count(*) FROM effects"));
    must_equal(4, sql_count(*state, "SELECT sum(position) FROM effects"));
    must_read("1 3", list_ahead(s.store, s.id, 0, 0));
}

/* The same deliveries from two owners, one of them out of date, with deaths in between: every
 * effect is there exactly once. */
static void effects_happen_exactly_once_however_often_it_is_tried(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abcdefghij");
    make_effects(&s);
    struct store *other = fixture_open(*state, "b");
    struct scene t = {.f = *state, .store = other, .id = s.id};
    for (int round = 0; round < 6; round++) {
        struct scene *worker = round % 2 ? &t : &s;
        struct acquire acquire = acquire_of(s.id, 0, LEASE_MS);
        acquire.force = true;
        must_answer(HF_OK, RUN(worker->store, &acquire));
        worker->owner = (struct owner){.store = worker->store,
                                       .subscription_id = s.id,
                                       .epoch = acquire.ret_epoch,
                                       .now_us = T0};
        for (int p = 1; p <= 10; p++) {
            char text[64];
            snprintf(text, sizeof text, "INSERT INTO effects VALUES (%d)", p);
            const struct entry *entry = entry_at(*state, worker->store, p);
            struct batch *used = &((struct fixture *)*state)->batches[0];
            struct tx *tx = begin(worker->store);
            hf_status status = enter(tx, worker, entry);
            must_hold(status == HF_OK || status == HF_CONFLICT);
            if (!status) {
                must_equal(SQLITE_OK, sql(tx_connection(tx), text));
                leave(tx, true);
            }
            if ((p + round) % 4 == 0) {
                tx_rollback(tx);
            } else {
                must_answer(HF_OK, tx_commit(tx));
            }
            batch_release(used);
            ((struct fixture *)*state)->batch_count = 0;
        }
    }
    must_equal(10, sql_count(*state, "SELECT count(*) FROM effects"));
    must_equal(10, sql_count(*state, "SELECT count(DISTINCT position) FROM effects"));
    must_read("1 2 3 4 5 6 7 8 9 10", list_ahead(s.store, s.id, 0, 0));
}

static void the_handler_cannot_end_the_transaction_or_change_the_connection(void **state)
{
    static const char *const refused[] = {"COMMIT",
                                          "END",
                                          "ROLLBACK",
                                          "BEGIN",
                                          "ATTACH ':memory:' AS other",
                                          "DETACH main",
                                          "PRAGMA journal_mode=DELETE",
                                          "PRAGMA synchronous=OFF",
                                          "PRAGMA wal_checkpoint"};
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    make_effects(&s);
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    must_answer(HF_OK, enter(tx, &s, entry));
    must_equal(SQLITE_OK, sql(tx_connection(tx), "INSERT INTO effects VALUES (1)"));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (sql(tx_connection(tx), refused[i]) == SQLITE_OK) {
            check_fail(__FILE__, __LINE__, "\"%s\" is not refused", refused[i]);
        }
    }
    leave(tx, true);
    must_answer(HF_OK, tx_commit(tx));
    must_equal(1, sql_count(*state, "SELECT count(*) FROM effects"));
    must_read("1", list_ahead(s.store, s.id, 0, 0));
}

static void whatever_the_handler_does_after_an_abort_fails(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    make_effects(&s);
    const struct entry *entry = entry_at(*state, s.store, 1);
    struct tx *tx = begin(s.store);
    sqlite3 *db = tx_connection(tx);
    must_answer(HF_OK, enter(tx, &s, entry));
    must_equal(SQLITE_OK, sql(db, "INSERT INTO effects VALUES (1)"));
    must_hold(tx_abort(tx));
    for (int i = 0; i < 3; i++) {
        must_hold(sql(db, "INSERT INTO effects VALUES (2)") != SQLITE_OK);
        must_hold(sql(db, "SELECT count(*) FROM effects") != SQLITE_OK);
    }
    bool lane_busy;
    must_answer(HF_TIMEOUT, tx_leave(tx, true, &lane_busy));
    must_answer(HF_TIMEOUT, tx_commit(tx));
    must_equal(0, sql_count(*state, "SELECT count(*) FROM effects"));
}

struct endless {
    struct tx *tx;
    atomic_bool running;
};

/* An SQL function: tells that the statement has begun. */
static void tell_running(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    struct endless *endless = sqlite3_user_data(context);
    atomic_store(&endless->running, true);
    sqlite3_result_int(context, 1);
}

static void abort_what_runs(int index, void *ctx)
{
    (void)index;
    struct endless *endless = ctx;
    int64_t until_ms = mono_ms() + DEADLINE_MS;
    while (!atomic_load(&endless->running)) {
        must_hold(mono_ms() < until_ms);
        sched_yield();
    }
    while (!tx_abort(endless->tx)) {
        must_hold(mono_ms() < until_ms);
        sched_yield();
    }
}

static void an_abort_ends_a_statement_that_runs(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    struct store *other = fixture_open(*state, "b");
    struct endless endless = {.tx = begin(s.store)};
    sqlite3 *db = tx_connection(endless.tx);
    must_equal(SQLITE_OK, sqlite3_create_function(db, "running", 0, SQLITE_UTF8, &endless,
                                                  tell_running, NULL, NULL));
    struct crowd crowd;
    crowd_start(&crowd, 1, abort_what_runs, &endless);
    int result = sql(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + running() FROM n) "
                         "SELECT max(i) FROM n");
    crowd_join(&crowd);
    must_hold(result != SQLITE_OK);
    must_equal(4, append_one(other, "t", NULL));
    must_answer(HF_TIMEOUT, tx_commit(endless.tx));
}

struct held {
    struct tx *tx;
    sem_t inside;
    sem_t leave;
    int result;
};

/* An SQL function that does not return until it is let. */
static void hold_on(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    struct held *held = sqlite3_user_data(context);
    sem_post(&held->inside);
    while (sem_wait(&held->leave) != 0) {
    }
    sqlite3_result_int(context, 1);
}

static void run_what_holds_on(int index, void *ctx)
{
    (void)index;
    struct held *held = ctx;
    held->result = sql(tx_connection(held->tx), "INSERT INTO effects VALUES (hold_on())");
}

static void an_abort_does_not_wait_for_a_statement_and_works_when_it_has_ended(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    make_effects(&s);
    struct store *other = fixture_open(*state, "b");
    struct held held = {.tx = begin(s.store)};
    sem_init(&held.inside, 0, 0);
    sem_init(&held.leave, 0, 0);
    must_equal(SQLITE_OK, sqlite3_create_function(tx_connection(held.tx), "hold_on", 0, SQLITE_UTF8,
                                                  &held, hold_on, NULL, NULL));
    struct crowd crowd;
    crowd_start(&crowd, 1, run_what_holds_on, &held);
    while (sem_wait(&held.inside) != 0) {
    }
    must_hold(!tx_abort(held.tx));
    must_hold(!tx_abort(held.tx));
    sem_post(&held.leave);
    crowd_join(&crowd);
    must_hold(tx_abort(held.tx));
    must_equal(4, append_one(other, "t", NULL)); /* before the owner has ended it */
    must_answer(HF_TIMEOUT, tx_commit(held.tx));
    must_equal(0, sql_count(*state, "SELECT count(*) FROM effects"));
    sem_destroy(&held.inside);
    sem_destroy(&held.leave);
}

static void a_row_that_the_handler_looks_at_outlives_the_abort(void **state)
{
    fixture_sqlite_only(*state);
    struct scene s = scene_of(*state, "abc");
    make_effects(&s);
    struct store *other = fixture_open(*state, "b");
    struct tx *tx = begin(s.store);
    sqlite3 *db = tx_connection(tx);
    sqlite3_stmt *stmt;
    must_equal(SQLITE_OK, sql(db, "INSERT INTO effects VALUES (1), (2)"));
    must_equal(SQLITE_OK,
               sqlite3_prepare_v2(db, "SELECT 'row ' || position FROM effects", -1, &stmt, NULL));
    must_equal(SQLITE_ROW, sqlite3_step(stmt));
    const char *row = (const char *)sqlite3_column_text(stmt, 0);
    crowd_run(1, abort_it, tx);
    must_equal(4, append_one(other, "t", NULL));
    must_read("row 1", row);
    must_hold(sqlite3_step(stmt) != SQLITE_ROW);
    must_answer(HF_TIMEOUT, tx_commit(tx));
    sqlite3_finalize(stmt);
    must_equal(0, sql_count(*state, "SELECT count(*) FROM effects"));
}

static const struct CMUnitTest claims[] = {
    CLAIM(a_committed_delivery_is_settled),
    CLAIM(a_rolled_back_delivery_never_was),
    CLAIM(a_rollback_inside_a_delivery_undoes_it),
    CLAIM(many_deliveries_share_a_transaction_and_each_may_be_undone),
    CLAIM(a_settled_delivery_conflicts_and_the_transaction_goes_on),
    CLAIM(a_delivery_below_the_checkpoint_conflicts),
    CLAIM(a_stale_hold_is_refused),
    CLAIM(a_retry_row_goes_and_its_lane_is_promoted),
    CLAIM(an_undone_retry_waits_on),
    CLAIM(a_retry_below_the_checkpoint_is_done_once),
    CLAIM(a_leased_delivery_is_taken_out_of_its_lease),
    CLAIM(a_lease_that_passed_to_others_is_stale),
    CLAIM(an_event_appended_inside_exists_if_and_only_if_it_commits),
    CLAIM(the_contract_of_append_holds_in_a_handlers_transaction),
    CLAIM(changes_from_inside_a_transaction_are_misuse),
    CLAIM(reading_from_inside_a_transaction_is_allowed),
    CLAIM(a_database_that_is_held_answers_timeout_at_the_deadline),
    CLAIM(other_threads_of_the_store_write_when_the_transaction_has_ended),
    CLAIM(an_aborted_transaction_keeps_nothing_and_lets_others_write),
    CLAIM(an_abort_between_deliveries_undoes_all_of_them),
    CLAIM(an_aborted_transaction_can_be_rolled_back),
    CLAIM(death_before_the_commit_keeps_nothing_death_after_it_everything),
    CLAIM(effects_are_kept_with_the_delivery_and_undone_with_it),
    CLAIM(effects_happen_exactly_once_however_often_it_is_tried),
    CLAIM(the_handler_cannot_end_the_transaction_or_change_the_connection),
    CLAIM(whatever_the_handler_does_after_an_abort_fails),
    CLAIM(an_abort_ends_a_statement_that_runs),
    CLAIM(an_abort_does_not_wait_for_a_statement_and_works_when_it_has_ended),
    CLAIM(a_row_that_the_handler_looks_at_outlives_the_abort),
};

FIXTURE_MAIN("tx", claims, NULL)
