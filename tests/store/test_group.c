/*
 * test_group.c - changes of many threads share commits, and each keeps its own answer.
 */
#include "support/crowd.h"
#include "support/faulty.h"
#include "support/make.h"

#include "store/timers.h"

#define THREADS 16
#define APPENDS 100

static int64_t commits_of(struct store *store)
{
    struct store_sizes sizes;
    must_answer(HF_OK, store_sizes_get(store, &sizes));
    return sizes.commits;
}

/* ---- Together -------------------------------------------------------------------------------- */

struct ledger {
    struct store *store;
    int64_t positions[THREADS][APPENDS];
};

static void append_many(int index, void *ctx)
{
    struct ledger *ledger = ctx;
    for (int i = 0; i < APPENDS; i++) {
        ledger->positions[index][i] = append_one(ledger->store, "t", NULL);
    }
}

static void many_threads_get_positions_without_gaps(void **state)
{
    static struct ledger ledger;
    struct store_options options = fixture_options(*state, "a");
    options.durability = HF_DURABILITY_POWER;
    ledger.store = fixture_open_with(*state, &options);
    int64_t before = commits_of(ledger.store);
    crowd_run(THREADS, append_many, &ledger);
    int64_t commits = commits_of(ledger.store) - before;

    static bool seen[THREADS * APPENDS + 1];
    memset(seen, 0, sizeof seen);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < APPENDS; i++) {
            int64_t position = ledger.positions[t][i];
            must_hold(position >= 1 && position <= THREADS * APPENDS);
            must_hold(!seen[position]);
            seen[position] = true;
            must_hold(i == 0 || position > ledger.positions[t][i - 1]);
        }
    }
    must_equal(THREADS * APPENDS, head_of(ledger.store));
    must_hold(commits > 0 && commits <= THREADS * APPENDS);
}

static void every_commit_is_counted_once(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t before = commits_of(store);
    append_one(store, "t", NULL);
    append_count(store, "t", 10);
    must_equal(before + 2, commits_of(store));
}

struct mixture {
    struct store *store;
    int64_t subscription_id;
    hf_status statuses[THREADS];
};

/* Every third succeeds, every third conflicts, every third changes another noun or misses it. */
static void change_something(int index, void *ctx)
{
    struct mixture *mixture = ctx;
    struct append append;
    struct new_event event;
    for (int i = 0; i < 30; i++) {
        switch (index % 4) {
        case 0:
            append_one(mixture->store, "t", NULL);
            break;
        case 1:
            must_answer(HF_CONFLICT, append_version(mixture->store, "k", 999, &append, &event));
            must_equal(0, append.failed_index);
            must_say("0");
            break;
        case 2:
            must_answer(HF_OK,
                        subscription_pause(mixture->store, mixture->subscription_id, i % 2, T0));
            break;
        default:
            must_answer(HF_NOTFOUND, subscription_pause(mixture->store, 987654, true, T0));
        }
    }
}

static void a_failing_change_does_not_disturb_the_others(void **state)
{
    struct mixture mixture = {.store = fixture_open(*state, "a")};
    mixture.subscription_id = subscribe_ordered(mixture.store, "s", 1);
    crowd_run(THREADS, change_something, &mixture);
    must_equal(THREADS / 4 * 30, head_of(mixture.store));
}

static void status_and_message_are_in_the_change_and_the_thread(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct append append;
    struct new_event event;
    must_answer(HF_CONFLICT, append_version(store, "k", 3, &append, &event));
    must_equal(HF_CONFLICT, append.change.status);
    must_hold(append.change.message[0] != '\0');
    must_read(append.change.message, err_message());
    append.change.status = HF_IO;
    event.expected_version = 0;
    must_answer(HF_OK, RUN(store, &append));
    must_equal(HF_OK, append.change.status);
}

/* ---- Several of one thread ------------------------------------------------------------------- */

#define TOGETHER 250 /* more than one commit takes of them */

/* Every third change cannot succeed. */
static void run_together(struct store *store)
{
    struct new_event *events = calloc(TOGETHER, sizeof *events);
    struct append *appends = calloc(TOGETHER, sizeof *appends);
    struct change *changes[TOGETHER];
    must_hold(events && appends);
    for (int i = 0; i < TOGETHER; i++) {
        events[i] = event_of("t", "k");
        events[i].expected_version = i % 3 == 0 ? 999999 : -1;
        appends[i] = append_of(&events[i], 1);
        changes[i] = &appends[i].change;
    }
    store_run_together(store, changes, TOGETHER, deadline_after_ms(60000));
    for (int i = 0; i < TOGETHER; i++) {
        must_equal(i % 3 == 0 ? HF_CONFLICT : HF_OK, changes[i]->status);
        must_hold((changes[i]->message[0] != '\0') == (i % 3 == 0));
        must_hold(i < 2 || i % 3 != 2 || events[i].position > events[i - 1].position);
    }
    free(appends);
    free(events);
}

static void changes_of_one_thread_share_a_commit_and_keep_their_answers(void **state)
{
    struct store *store = fixture_open(*state, "a");
    int64_t before = commits_of(store);
    run_together(store);
    must_equal(TOGETHER - (TOGETHER + 2) / 3, head_of(store));
    must_hold(commits_of(store) - before < TOGETHER / 10);
}

static void run_together_at(int index, void *ctx)
{
    (void)index;
    run_together(ctx);
}

static void changes_of_many_threads_go_together(void **state)
{
    struct store *store = fixture_open(*state, "a");
    crowd_run(THREADS, run_together_at, store);
    must_hold(head_of(store) >= (int64_t)THREADS * (TOGETHER - (TOGETHER + 2) / 3));
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

/* Another process that holds the database: a transaction of a second store. */
static struct tx *hold_database(struct fixture *f)
{
    fixture_sqlite_only(f);
    struct store *other = fixture_open(f, "holder");
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(other, deadline_after_ms(DEADLINE_MS), &tx));
    return tx;
}

static void a_change_that_timed_out_is_never_done_later(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct tx *tx = hold_database(*state);
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    int64_t begun_ms = mono_ms();
    hf_status status = store_run(store, &append.change, deadline_after_ms(60));
    int64_t spent_ms = mono_ms() - begun_ms;
    tx_rollback(tx);
    must_equal(HF_TIMEOUT, status);
    must_hold(spent_ms >= 59);
    must_hold(spent_ms < DEADLINE_MS / 2);
    must_equal(SIZE_MAX, append.failed_index);
    must_equal(1, append_one(store, "t", NULL));
    must_equal(1, head_of(store));
}

static void a_passed_deadline_does_not_wait(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct tx *tx = hold_database(*state);
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    int64_t begun_ms = mono_ms();
    hf_status status = store_run(store, &append.change, deadline_after_ms(0));
    int64_t spent_ms = mono_ms() - begun_ms;
    tx_rollback(tx);
    must_equal(HF_TIMEOUT, status);
    must_equal(HF_TIMEOUT, append.change.status);
    must_equal(SIZE_MAX, append.failed_index);
    must_hold(spent_ms < DEADLINE_MS / 2);
    must_equal(1, append_one(store, "t", NULL));
}

struct waiting {
    struct store *store;
    hf_status statuses[THREADS];
    int64_t deadline_ms[THREADS];
};

static void append_with_deadline(int index, void *ctx)
{
    struct waiting *waiting = ctx;
    struct new_event event = event_of("t", NULL);
    event.payload = text_of("\"0123456789012345678901234567890123456789\"");
    struct append append = append_of(&event, 1);
    waiting->statuses[index] =
        store_run(waiting->store, &append.change, deadline_after_ms(waiting->deadline_ms[index]));
}

static int count_status(const struct waiting *waiting, hf_status status)
{
    int count = 0;
    for (int i = 0; i < THREADS; i++) {
        count += waiting->statuses[i] == status;
    }
    return count;
}

/* The patient go on when the impatient one has given up. */
static void each_change_has_its_own_deadline(void **state)
{
    struct waiting waiting = {.store = fixture_open(*state, "a")};
    struct tx *tx = hold_database(*state);
    struct crowd crowd;
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    struct waiting impatient = waiting;
    impatient.deadline_ms[0] = 80;
    crowd_start(&crowd, THREADS, append_with_deadline, &waiting);
    crowd_settle(&crowd);
    append_with_deadline(0, &impatient);
    tx_rollback(tx);
    crowd_join(&crowd);
    must_equal(HF_TIMEOUT, impatient.statuses[0]);
    must_equal(THREADS, count_status(&waiting, HF_OK));
    must_equal(THREADS, head_of(waiting.store));
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Sixteen patient appends wait for a queue with room for four while no process can write. One more
 * that is not patient finds no room until its deadline. */
static void fill_queue(struct fixture *f, int64_t events_max, int64_t bytes_max)
{
    struct store_options options = fixture_options(f, "a");
    options.queue_events_max = events_max;
    options.queue_bytes_max = bytes_max;
    struct waiting waiting = {.store = fixture_open_with(f, &options)};
    struct waiting impatient = {.store = waiting.store, .deadline_ms = {60}};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    struct tx *tx = hold_database(f);
    struct crowd crowd;
    crowd_start(&crowd, THREADS, append_with_deadline, &waiting);
    crowd_settle(&crowd);
    append_with_deadline(0, &impatient);
    tx_rollback(tx);
    crowd_join(&crowd);
    must_equal(HF_BUSY, impatient.statuses[0]);
    must_equal(THREADS, count_status(&waiting, HF_OK));
    must_equal(THREADS, head_of(waiting.store)); /* and not the impatient */
}

static void a_queue_full_of_events_answers_busy_at_the_deadline(void **state)
{
    fill_queue(*state, 4, INT64_C(1) << 20);
}

static void a_queue_full_of_bytes_answers_busy_at_the_deadline(void **state)
{
    fill_queue(*state, 65536, 4 * 45);
}

static void a_full_queue_takes_more_when_there_is_room_again(void **state)
{
    struct store_options options = fixture_options(*state, "a");
    options.queue_events_max = 2;
    struct waiting waiting = {.store = fixture_open_with(*state, &options)};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    for (int round = 1; round <= 10; round++) {
        crowd_run(THREADS, append_with_deadline, &waiting);
        must_equal(THREADS, count_status(&waiting, HF_OK));
    }
    must_equal(10 * THREADS, head_of(waiting.store));
}

static void an_append_larger_than_the_queue_is_taken_alone(void **state)
{
    struct store_options options = fixture_options(*state, "a");
    options.queue_events_max = 4;
    options.queue_bytes_max = 100;
    struct store *store = fixture_open_with(*state, &options);
    must_equal(1, append_count(store, "t", 10));
    struct new_event event = event_of("t", NULL);
    char payload[400];
    memset(payload, '1', sizeof payload);
    event.payload = (struct text){payload, sizeof payload};
    must_answer(HF_OK, append_event(store, &event));
    must_equal(11, head_of(store));
}

/* ---- A failing engine ------------------------------------------------------------------------ */

#ifdef HF_FAULTS

/* A store on the same database whose engine fails on command. */
static struct store *open_faulty(struct fixture *f)
{
    faulty_install();
    char url[sizeof f->url + 8];
    snprintf(url, sizeof url, "faulty:%s", f->url);
    struct store_options options = fixture_options(f, "faulty");
    struct store *store = NULL;
    must_answer(HF_OK, store_open(url, &options, &store));
    return store;
}

static void changes_that_wait_together_are_applied_together(void **state)
{
    struct waiting waiting = {.store = open_faulty(*state)};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    faulty_stop(FAULTY_APPLY, 1);
    struct crowd crowd;
    crowd_start(&crowd, THREADS, append_with_deadline, &waiting);
    bool stopped = faulty_stopped(FAULTY_APPLY, DEADLINE_MS);
    crowd_settle(&crowd); /* all others queue up behind the one that stands */
    faulty_go(FAULTY_APPLY);
    crowd_join(&crowd);
    must_hold(stopped);
    must_equal(THREADS, count_status(&waiting, HF_OK));
    must_equal(THREADS, head_of(waiting.store));
    must_hold(faulty_changes_max() >= THREADS / 2);
    must_hold(faulty_calls(FAULTY_APPLY) <= 4);
    store_close(waiting.store);
}

/* One stands in the engine, and all others wait behind it. Their leader does not get the database
 * before its deadline; the others have their own. */
static void a_leader_that_gives_up_fails_alone(void **state)
{
    static const hf_status statuses[] = {HF_TIMEOUT, HF_BUSY, HF_UNAVAILABLE};
    struct waiting waiting = {.store = open_faulty(*state)};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    struct waiting first = waiting;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        struct crowd one, others;
        faulty_fail(FAULTY_APPLY, 2, 1, statuses[i]);
        faulty_stop(FAULTY_APPLY, 1);
        crowd_start(&one, 1, append_with_deadline, &first);
        bool stopped = faulty_stopped(FAULTY_APPLY, DEADLINE_MS);
        crowd_start(&others, THREADS, append_with_deadline, &waiting);
        crowd_settle(&others);
        faulty_go(FAULTY_APPLY);
        crowd_join(&one);
        crowd_join(&others);
        must_hold(stopped);
        must_equal(HF_OK, first.statuses[0]);
        must_equal(1, count_status(&waiting, statuses[i]));
        must_equal(THREADS - 1, count_status(&waiting, HF_OK));
        faulty_reset();
    }
    store_close(waiting.store);
}

static void a_commit_that_fails_is_answered_to_every_change_of_it(void **state)
{
    static const hf_status statuses[] = {HF_NOSPACE, HF_IO, HF_UNKNOWN, HF_CORRUPT};
    struct waiting waiting = {.store = open_faulty(*state)};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = DEADLINE_MS;
    }
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        faulty_fail(FAULTY_APPLY, 1, 1000, statuses[i]);
        crowd_run(THREADS, append_with_deadline, &waiting);
        must_equal(THREADS, count_status(&waiting, statuses[i]));
    }
    faulty_reset();
    must_equal(0, head_of(waiting.store));
    must_equal(1, append_one(waiting.store, "t", NULL));
    store_close(waiting.store);
}

static void a_database_that_is_unavailable_leaves_every_change_unbegun(void **state)
{
    static const hf_status statuses[] = {HF_TIMEOUT, HF_UNAVAILABLE, HF_BUSY};
    struct store *store = open_faulty(*state);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        faulty_fail(FAULTY_APPLY, 1, 1000000, statuses[i]);
        struct new_event event = event_of("t", NULL);
        struct append append = append_of(&event, 1);
        int64_t begun_ms = mono_ms();
        hf_status status = store_run(store, &append.change, deadline_after_ms(50));
        must_hold(status == HF_TIMEOUT || status == statuses[i]);
        must_hold(mono_ms() - begun_ms < DEADLINE_MS / 2);
        must_equal(SIZE_MAX, append.failed_index);
    }
    faulty_reset();
    must_equal(1, append_one(store, "t", NULL));
    store_close(store);
}

/* The commit happened, its answer was lost: repeating the publish with the same id is safe. */
static void an_unknown_outcome_is_resolved_by_publishing_the_same_id_again(void **state)
{
    struct store *store = open_faulty(*state);
    struct new_event event = event_of("t", NULL);
    faulty_lose(FAULTY_APPLY, 1, 1, HF_UNKNOWN);
    must_answer(HF_UNKNOWN, append_event(store, &event));
    must_answer(HF_OK, append_event(store, &event));
    must_equal(1, event.position);
    must_equal(true, event.duplicate);
    faulty_fail(FAULTY_APPLY, 1, 1, HF_UNKNOWN); /* and if it had not happened */
    struct new_event other = event_of("t", NULL);
    must_answer(HF_UNKNOWN, append_event(store, &other));
    must_answer(HF_OK, append_event(store, &other));
    bool exact = ((struct fixture *)*state)->sqlite; /* else the duplicate used up a position */
    must_hold(exact ? other.position == 2 : other.position > 1);
    must_equal(false, other.duplicate);
    store_close(store);
}

/* However it came to the store: alone, or with others of its thread. */
static void a_change_that_may_have_happened_has_an_unknown_outcome(void **state)
{
    struct store *store = open_faulty(*state);
    for (int i = 0; i < 2; i++) {
        struct new_event event = event_of("t", NULL);
        struct append append = append_of(&event, 1);
        struct change *changes[] = {&append.change};
        faulty_doubt();
        faulty_fail(FAULTY_APPLY, 2, 1, HF_TIMEOUT);
        if (i == 0) {
            must_answer(HF_UNKNOWN, RUN(store, &append));
        } else {
            store_run_together(store, changes, 1, deadline_after_ms(DEADLINE_MS));
            must_equal(HF_UNKNOWN, append.change.status);
        }
        must_answer(HF_OK, append_event(store, &event));
        must_equal(true, event.duplicate);
    }
    store_close(store);
}

#endif

static void relaxed_changes_are_kept(void **state)
{
    struct store_options options = fixture_options(*state, "a");
    options.durability = HF_DURABILITY_POWER;
    struct store *store = fixture_open_with(*state, &options);
    int64_t id = subscribe_ordered(store, "s", 1);
    append_count(store, "t", 3);
    struct owner owner = own(store, id, 0);
    struct settle change = {.change = {.kind = CHANGE_SETTLE, .now_us = T0, .relaxed = true},
                            .subscription_id = id,
                            .epoch = owner.epoch,
                            .checkpoint = 3};
    must_answer(HF_OK, RUN(store, &change));
    fixture_close(*state, store);
    store = fixture_open(*state, "b");
    must_equal(3, progress_of(store, id).checkpoint);
}

static const struct CMUnitTest claims[] = {
    CLAIM(many_threads_get_positions_without_gaps),
    CLAIM(every_commit_is_counted_once),
    CLAIM(a_failing_change_does_not_disturb_the_others),
    CLAIM(status_and_message_are_in_the_change_and_the_thread),
    CLAIM(changes_of_one_thread_share_a_commit_and_keep_their_answers),
    CLAIM(changes_of_many_threads_go_together),
    CLAIM(a_passed_deadline_does_not_wait),
    CLAIM(a_change_that_timed_out_is_never_done_later),
    CLAIM(each_change_has_its_own_deadline),
    CLAIM(a_queue_full_of_events_answers_busy_at_the_deadline),
    CLAIM(a_queue_full_of_bytes_answers_busy_at_the_deadline),
    CLAIM(a_full_queue_takes_more_when_there_is_room_again),
    CLAIM(an_append_larger_than_the_queue_is_taken_alone),
    CLAIM(relaxed_changes_are_kept),
#ifdef HF_FAULTS
    CLAIM(changes_that_wait_together_are_applied_together),
    CLAIM(a_leader_that_gives_up_fails_alone),
    CLAIM(a_commit_that_fails_is_answered_to_every_change_of_it),
    CLAIM(a_database_that_is_unavailable_leaves_every_change_unbegun),
    CLAIM(an_unknown_outcome_is_resolved_by_publishing_the_same_id_again),
    CLAIM(a_change_that_may_have_happened_has_an_unknown_outcome),
#endif
};

FIXTURE_MAIN("group", claims, NULL)
