/*
 * test_group.c - changes of many threads share commits, and each keeps its own answer.
 */
#include "support/crowd.h"
#include "support/make.h"

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

static void many_threads_get_positions_without_gaps_in_few_commits(void **state)
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
    must_hold(commits > 0);
    must_hold(commits * 3 < THREADS * APPENDS);
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
            must_answer(HF_OK, subscription_pause(mixture->store, mixture->subscription_id, i % 2,
                                                  T0));
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

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void a_passed_deadline_means_that_nothing_is_begun(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = event_of("t", NULL);
    struct append append = append_of(&event, 1);
    struct deadline passed = deadline_after_ms(0);
    must_answer(HF_TIMEOUT, store_run(store, &append.change, passed));
    must_equal(HF_TIMEOUT, append.change.status);
    must_equal(SIZE_MAX, append.failed_index);
    must_equal(0, head_of(store));
    must_equal(1, append_one(store, "t", NULL));
}

/* Another process that holds the database: a transaction of a second store. */
static struct tx *hold_database(struct fixture *f)
{
    fixture_sqlite_only(f);
    struct store *other = fixture_open(f, "holder");
    struct tx *tx = NULL;
    must_answer(HF_OK, store_tx_begin(other, deadline_after_ms(PATIENCE_MS), &tx));
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
    must_hold(spent_ms < PATIENCE_MS / 2);
    must_equal(SIZE_MAX, append.failed_index);
    must_equal(1, append_one(store, "t", NULL));
    must_equal(1, head_of(store));
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
    waiting->statuses[index] = store_run(waiting->store, &append.change,
                                         deadline_after_ms(waiting->deadline_ms[index]));
}

static int count_status(const struct waiting *waiting, hf_status status)
{
    int count = 0;
    for (int i = 0; i < THREADS; i++) {
        count += waiting->statuses[i] == status;
    }
    return count;
}

/* The patient are released by the impatient one's end: no sleep decides the order. */
static void each_change_has_its_own_deadline(void **state)
{
    struct waiting waiting = {.store = fixture_open(*state, "a")};
    struct tx *tx = hold_database(*state);
    struct crowd crowd;
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = PATIENCE_MS;
    }
    struct waiting impatient = waiting;
    impatient.deadline_ms[0] = 80;
    crowd_start(&crowd, THREADS, append_with_deadline, &waiting);
    append_with_deadline(0, &impatient);
    tx_rollback(tx);
    crowd_join(&crowd);
    must_equal(HF_TIMEOUT, impatient.statuses[0]);
    must_equal(THREADS, count_status(&waiting, HF_OK));
    must_equal(THREADS, head_of(waiting.store));
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Sixteen appends wait for a queue of four events while nobody writes: most cannot even queue. */
static void fill_queue(struct fixture *f, int64_t events_max, int64_t bytes_max)
{
    struct store_options options = fixture_options(f, "a");
    options.queue_events_max = events_max;
    options.queue_bytes_max = bytes_max;
    struct waiting waiting = {.store = fixture_open_with(f, &options)};
    for (int i = 0; i < THREADS; i++) {
        waiting.deadline_ms[i] = 150;
    }
    struct tx *tx = hold_database(f);
    crowd_run(THREADS, append_with_deadline, &waiting);
    tx_rollback(tx);
    int busy = count_status(&waiting, HF_BUSY);
    int late = count_status(&waiting, HF_TIMEOUT);
    must_equal(THREADS, busy + late);
    must_hold(busy >= THREADS - 8);
    must_hold(late >= 1);
    must_equal(0, head_of(waiting.store));
    must_equal(1, append_one(waiting.store, "t", NULL));
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
        waiting.deadline_ms[i] = PATIENCE_MS;
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

static void relaxed_changes_are_kept_too(void **state)
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
    CLAIM(many_threads_get_positions_without_gaps_in_few_commits),
    CLAIM(every_commit_is_counted_once),
    CLAIM(a_failing_change_does_not_disturb_the_others),
    CLAIM(status_and_message_are_in_the_change_and_the_thread),
    CLAIM(a_passed_deadline_means_that_nothing_is_begun),
    CLAIM(a_change_that_timed_out_is_never_done_later),
    CLAIM(each_change_has_its_own_deadline),
    CLAIM(a_queue_full_of_events_answers_busy_at_the_deadline),
    CLAIM(a_queue_full_of_bytes_answers_busy_at_the_deadline),
    CLAIM(a_full_queue_takes_more_when_there_is_room_again),
    CLAIM(an_append_larger_than_the_queue_is_taken_alone),
    CLAIM(relaxed_changes_are_kept_too),
};

FIXTURE_MAIN("group", claims, NULL)
