/*
 * faulty.c - forwards each verb after asking `pass` what is to happen to it.
 *
 * The wrapper's engine, reader and tx hold the inner ones behind the same heads that engine.h asks
 * for, so store.c cannot tell the difference. All settings live behind one mutex and its condition.
 */
#include "support/faulty.h"

#ifdef HF_FAULTS

#include <stdatomic.h>

#include "base/thread.h"
#include "base/time/deadline.h"
#include "store/engine.h"
#include "support/check.h"

struct faulty {
    struct engine head;
    struct engine *inner;
};

struct faulty_reader {
    struct reader head;
    struct reader *inner;
};

struct faulty_tx {
    struct tx head;
    struct tx *inner;
};

static struct rule {
    int64_t calls;
    int64_t fail_from; /* call numbers; 0: never */
    int64_t fail_to;
    hf_status status;
    bool lose; /* do the work, then fail */
    int64_t stop_at;
    bool stopped; /* whoever is let go does not count, however long it takes him to wake */
} rules[FAULTY_VERBS];
static _Atomic int64_t changes_max; /* one store at a time is measured */
static atomic_bool refuse_late, doubt_next;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

static const struct engine_class faulty_engine_class;

/* ---- Settings -------------------------------------------------------------------------------- */

void faulty_fail(enum faulty_verb verb, int64_t nth, int64_t times, hf_status status)
{
    pthread_mutex_lock(&mutex);
    rules[verb].fail_from = rules[verb].calls + nth;
    rules[verb].fail_to = rules[verb].fail_from + times - 1;
    rules[verb].status = status;
    rules[verb].lose = false;
    pthread_mutex_unlock(&mutex);
}

void faulty_lose(enum faulty_verb verb, int64_t nth, int64_t times, hf_status status)
{
    faulty_fail(verb, nth, times, status);
    pthread_mutex_lock(&mutex);
    rules[verb].lose = true;
    pthread_mutex_unlock(&mutex);
}

void faulty_doubt(void)
{
    doubt_next = true;
}

void faulty_refuse_late(void)
{
    refuse_late = true;
}

void faulty_stop(enum faulty_verb verb, int64_t nth)
{
    pthread_mutex_lock(&mutex);
    rules[verb].stop_at = rules[verb].calls + nth;
    rules[verb].stopped = false;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

bool faulty_stopped(enum faulty_verb verb, int64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000 + 1;
    pthread_mutex_lock(&mutex);
    int late = 0;
    while (!rules[verb].stopped && !late) {
        late = pthread_cond_timedwait(&moved, &mutex, &until);
    }
    bool stopped = rules[verb].stopped;
    pthread_mutex_unlock(&mutex);
    return stopped;
}

void faulty_go(enum faulty_verb verb)
{
    pthread_mutex_lock(&mutex);
    rules[verb].stop_at = 0;
    rules[verb].stopped = false;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

int64_t faulty_calls(enum faulty_verb verb)
{
    pthread_mutex_lock(&mutex);
    int64_t calls = rules[verb].calls;
    pthread_mutex_unlock(&mutex);
    return calls;
}

int64_t faulty_changes_max(void)
{
    return changes_max;
}

void faulty_reset(void)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < FAULTY_VERBS; i++) {
        rules[i] = (struct rule){0};
    }
    changes_max = 0;
    refuse_late = doubt_next = false;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

void faulty_install(void)
{
    faulty_reset();
    store_engine_add(&faulty_engine_class);
}

/* What is to happen to a call. */
struct verdict {
    bool fails;
    bool works; /* the engine does its work */
    hf_status status;
};

/* Counts a call, stops it if it is to stop, and says how it goes on. */
static struct verdict pass(enum faulty_verb verb)
{
    pthread_mutex_lock(&mutex);
    struct rule *rule = &rules[verb];
    int64_t call = ++rule->calls;
    if (call == rule->stop_at) {
        rule->stopped = true;
        pthread_cond_broadcast(&moved);
        while (rule->stop_at == call) {
            pthread_cond_wait(&moved, &mutex);
        }
    }
    struct verdict verdict = {.works = true, .status = HF_OK};
    if (rule->fail_from > 0 && call >= rule->fail_from && call <= rule->fail_to) {
        verdict = (struct verdict){.fails = true, .works = rule->lose, .status = rule->status};
    }
    pthread_mutex_unlock(&mutex);
    return verdict;
}

static hf_status verdict_fail(struct verdict verdict)
{
    return (fail)(verdict.status, "the faulty engine was told to fail");
}

/* Runs the inner call unless the verdict forbids it, and answers what the verdict says. */
#define FORWARD(verb, call)                                                                        \
    do {                                                                                           \
        struct verdict verdict = pass(verb);                                                       \
        hf_status status = verdict.works ? (call) : HF_OK;                                         \
        return verdict.fails ? verdict_fail(verdict) : status;                                     \
    } while (0)

static struct engine *inner(struct engine *engine)
{
    return ((struct faulty *)engine)->inner;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static hf_status faulty_open(const char *location, const struct store_options *options,
                             struct engine **ret_engine)
{
    struct verdict verdict = pass(FAULTY_OPEN);
    if (verdict.fails) {
        return verdict_fail(verdict);
    }
    const char *inner_location = NULL;
    const struct engine_class *class = store_engine_find(location, &inner_location);
    if (!class) {
        return (fail)(HF_INVALID, "the faulty engine needs a URL with a scheme: \"%s\"", location);
    }
    struct faulty *faulty = calloc(1, sizeof *faulty);
    if (!faulty) {
        return (fail)(HF_NOMEM, "out of memory");
    }
    faulty->head.class = &faulty_engine_class;
    hf_status status = class->open(inner_location, options, &faulty->inner);
    if (status != HF_OK) {
        free(faulty);
        return status;
    }
    *ret_engine = &faulty->head;
    return HF_OK;
}

static void faulty_close(struct engine *engine)
{
    struct engine *to = inner(engine);
    to->class->close(to);
    free(engine);
}

/* ---- Changes --------------------------------------------------------------------------------- */

static hf_status faulty_apply(struct engine *engine, struct change *changes,
                              struct deadline deadline)
{
    struct engine *to = inner(engine);
    int64_t count = 0;
    for (struct change *change = changes; change; change = change->next) {
        count++;
    }
    changes_max = count > changes_max ? count : changes_max;
    if (refuse_late && deadline_passed(deadline)) {
        return (fail)(HF_TIMEOUT, "the deadline has passed");
    }
    bool doubted = atomic_exchange(&doubt_next, false);
    struct verdict verdict = pass(FAULTY_APPLY);
    hf_status status = verdict.works ? to->class->apply(to, changes, deadline) : HF_OK;
    for (struct change *change = changes; change && doubted; change = change->next) {
        change->doubtful = change->again = true;
        change->status = (fail)(HF_BUSY, "the faulty engine was told to doubt");
    }
    if (!verdict.fails || status != HF_OK) {
        return status;
    }
    bool begun = verdict.status != HF_TIMEOUT && verdict.status != HF_BUSY &&
                 verdict.status != HF_UNAVAILABLE;
    if (!begun) {
        return verdict_fail(verdict);
    }
    for (struct change *change = changes; change; change = change->next) {
        if (change->status == HF_OK || !verdict.works) {
            change->status = verdict_fail(verdict);
            snprintf(change->message, sizeof change->message, "%s", err_message());
        }
    }
    return HF_OK;
}

static bool faulty_held_by_caller(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->held_by_caller(to);
}

static bool faulty_poisoned(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->poisoned(to);
}

/* ---- Queries --------------------------------------------------------------------------------- */

static hf_status faulty_subscription_get(struct engine *engine, struct text name,
                                         subscription_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->subscription_get(to, name, found, ctx));
}

static hf_status faulty_subscription_by_id(struct engine *engine, int64_t id,
                                           subscription_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->subscription_by_id(to, id, found, ctx));
}

static hf_status faulty_subscription_list(struct engine *engine, subscription_row_fn found,
                                          void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->subscription_list(to, found, ctx));
}

static hf_status faulty_namespace_list(struct engine *engine, struct text name,
                                       namespace_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->namespace_list(to, name, found, ctx));
}

static hf_status faulty_node_list(struct engine *engine, struct text id, node_row_fn found,
                                  void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->node_list(to, id, found, ctx));
}

static hf_status faulty_retention_plan(struct engine *engine, struct text name, int64_t now_us,
                                       struct retention_plan *ret_plan)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->retention_plan(to, name, now_us, ret_plan));
}

static hf_status faulty_retain_command(struct engine *engine, const char *command,
                                       struct deadline deadline)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SUBSCRIPTION_GET, to->class->retain_command(to, command, deadline));
}

static hf_status faulty_schedule_get(struct engine *engine, struct text name, schedule_row_fn found,
                                     void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_TIMERS, to->class->schedule_get(to, name, found, ctx));
}

static hf_status faulty_schedule_list(struct engine *engine, struct text after, int32_t max,
                                      bool *ret_more, schedule_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_TIMERS, to->class->schedule_list(to, after, max, ret_more, found, ctx));
}

static hf_status faulty_schedules_due(struct engine *engine, const struct due_page *page,
                                      bool *ret_more, schedule_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_TIMERS, to->class->schedules_due(to, page, ret_more, found, ctx));
}

static hf_status faulty_schedule_runs(struct engine *engine, const uint8_t id[16],
                                      int64_t before_us, int32_t max, schedule_run_fn found,
                                      void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_TIMERS, to->class->schedule_runs(to, id, before_us, max, found, ctx));
}

static hf_status faulty_timers_due(struct engine *engine, int64_t *ret_due_us)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_TIMERS, to->class->timers_due(to, ret_due_us));
}

static uint64_t faulty_timers_news(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->timers_news ? to->class->timers_news(to) : to->class->news(to);
}

static int64_t faulty_time(struct engine *engine, int64_t now_us)
{
    struct engine *to = inner(engine);
    return to->class->time ? to->class->time(to, now_us) : now_us;
}

static hf_status faulty_standing(struct engine *engine, int64_t id, struct standing *ret_standing,
                                 epoch_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_STANDING, to->class->standing(to, id, ret_standing, found, ctx));
}

static hf_status faulty_progress(struct engine *engine, const int64_t *ids, size_t count,
                                 int64_t now_us, progress_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_PROGRESS, to->class->progress(to, ids, count, now_us, found, ctx));
}

static hf_status faulty_delivery_facts(struct engine *engine, int64_t subscription_id,
                                       const uint8_t id[16], int64_t position, int64_t hash,
                                       struct arena *arena, struct delivery_facts *ret_facts,
                                       struct text *ret_story)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_DELIVERY_FACTS, to->class->delivery_facts(to, subscription_id, id, position,
                                                             hash, arena, ret_facts, ret_story));
}

static hf_status faulty_event_find(struct engine *engine, const uint8_t id[16], struct batch *batch)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_EVENT_FIND, to->class->event_find(to, id, batch));
}

static hf_status faulty_head(struct engine *engine, int64_t *ret_head, int64_t *ret_first)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_HEAD, to->class->head(to, ret_head, ret_first));
}

static hf_status faulty_last(struct engine *engine, int64_t *ret_position)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_HEAD, to->class->last(to, ret_position));
}

static hf_status faulty_gaps(struct engine *engine, int64_t after, struct gap_facts *ret_facts)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_HEAD, to->class->gaps(to, after, ret_facts));
}

static hf_status faulty_now(struct engine *engine, struct deadline deadline, int64_t *ret_position)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_NOW, to->class->now(to, deadline, ret_position));
}

static hf_status faulty_position_before(struct engine *engine, int64_t at_us, int64_t disorder,
                                        int64_t *ret_position)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_POSITION_BEFORE, to->class->position_before(to, at_us, disorder, ret_position));
}

static hf_status faulty_retries_due(struct engine *engine, const struct due_query *query,
                                    struct batch *batch, int64_t *ret_next_us)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_RETRIES_DUE, to->class->retries_due(to, query, batch, ret_next_us));
}

static hf_status faulty_partitions(struct engine *engine, int64_t id, member_row_fn member,
                                   partition_row_fn partition, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_PROGRESS, to->class->partitions(to, id, member, partition, ctx));
}

static hf_status faulty_blocked(struct engine *engine, int64_t id, int64_t after, int32_t max,
                                blocked_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_PROGRESS, to->class->blocked(to, id, after, max, found, ctx));
}

static hf_status faulty_lanes(struct engine *engine, int64_t id, int32_t partition, lane_fn found,
                              void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_LANES, to->class->lanes(to, id, partition, found, ctx));
}

static hf_status faulty_ahead(struct engine *engine, int64_t id, int32_t partition,
                              int64_t checkpoint, position_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_AHEAD, to->class->ahead(to, id, partition, checkpoint, found, ctx));
}

static hf_status faulty_lease_read(struct engine *engine, int64_t id,
                                   const uint8_t lease[STORE_TOKEN_BYTES], struct batch *batch)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_LEASE_READ, to->class->lease_read(to, id, lease, batch));
}

static hf_status faulty_dead_list(struct engine *engine, const struct dead_query *query,
                                  hf_dead_letter_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_DEAD, to->class->dead_list(to, query, found, ctx));
}

static hf_status faulty_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                                 void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_DEAD, to->class->dead_get(to, dead_id, found, ctx));
}

static hf_status faulty_dead_count(struct engine *engine, const struct dead_query *query,
                                   int64_t *ret_count)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_DEAD, to->class->dead_count(to, query, ret_count));
}

static hf_status faulty_sizes(struct engine *engine, struct store_sizes *ret_sizes)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_SIZES, to->class->sizes(to, ret_sizes));
}

static hf_status faulty_doctor(struct engine *engine, hf_finding_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_DOCTOR, to->class->doctor(to, found, ctx));
}

static hf_status faulty_verify_check(struct engine *engine, enum verify_check check, int32_t max,
                                     verify_said_fn said, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_VERIFY, to->class->verify_check(to, check, max, said, ctx));
}

static hf_status faulty_verify_scan(struct engine *engine, enum verify_table table, int32_t max,
                                    struct verify_cursor *cursor, bool *ret_more,
                                    verify_row_fn found, void *ctx)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_VERIFY, to->class->verify_scan(to, table, max, cursor, ret_more, found, ctx));
}

/* ---- Reader ---------------------------------------------------------------------------------- */

static hf_status faulty_reader_open(struct engine *engine, int64_t after, bool strict,
                                    struct reader **ret_reader)
{
    struct verdict verdict = pass(FAULTY_READER_OPEN);
    struct engine *to = inner(engine);
    if (verdict.fails) {
        return verdict_fail(verdict);
    }
    struct faulty_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        return (fail)(HF_NOMEM, "out of memory");
    }
    reader->head.engine = engine;
    hf_status status = to->class->reader_open(to, after, strict, &reader->inner);
    if (status != HF_OK) {
        free(reader);
        return status;
    }
    *ret_reader = &reader->head;
    return HF_OK;
}

static hf_status faulty_reader_next(struct reader *reader, const struct filter *filter, int32_t max,
                                    struct batch *batch, int64_t *ret_floor, bool *ret_more)
{
    struct reader *to = ((struct faulty_reader *)reader)->inner;
    FORWARD(FAULTY_READER_NEXT,
            to->engine->class->reader_next(to, filter, max, batch, ret_floor, ret_more));
}

static void faulty_reader_close(struct reader *reader)
{
    struct reader *to = ((struct faulty_reader *)reader)->inner;
    to->engine->class->reader_close(to);
    free(reader);
}

/* ---- Transactions ---------------------------------------------------------------------------- */

static hf_status faulty_tx_begin(struct engine *engine, struct deadline deadline,
                                 struct tx **ret_tx)
{
    struct verdict verdict = pass(FAULTY_TX_BEGIN);
    struct engine *to = inner(engine);
    if (verdict.fails) {
        return verdict_fail(verdict);
    }
    struct faulty_tx *tx = calloc(1, sizeof *tx);
    if (!tx) {
        return (fail)(HF_NOMEM, "out of memory");
    }
    tx->head.engine = engine;
    hf_status status = to->class->tx_begin(to, deadline, &tx->inner);
    if (status != HF_OK) {
        free(tx);
        return status;
    }
    *ret_tx = &tx->head;
    return HF_OK;
}

static struct tx *inner_tx(struct tx *tx)
{
    return ((struct faulty_tx *)tx)->inner;
}

static hf_status faulty_tx_enter(struct tx *tx, const struct hold *hold, const struct entry *entry,
                                 int64_t now_us)
{
    struct tx *to = inner_tx(tx);
    FORWARD(FAULTY_TX_ENTER, to->engine->class->tx_enter(to, hold, entry, now_us));
}

static hf_status faulty_tx_leave(struct tx *tx, bool keep, bool *ret_lane_busy)
{
    struct tx *to = inner_tx(tx);
    FORWARD(FAULTY_TX_LEAVE, to->engine->class->tx_leave(to, keep, ret_lane_busy));
}

static hf_status faulty_tx_append(struct tx *tx, struct append *append)
{
    struct tx *to = inner_tx(tx);
    FORWARD(FAULTY_TX_APPEND, to->engine->class->tx_append(to, append));
}

static void *faulty_tx_connection(struct tx *tx)
{
    struct tx *to = inner_tx(tx);
    return to->engine->class->tx_connection(to);
}

static bool faulty_tx_abort(struct tx *tx)
{
    struct tx *to = inner_tx(tx);
    return to->engine->class->tx_abort(to);
}

static void faulty_tx_rollback(struct tx *tx)
{
    if (tx) {
        struct tx *to = inner_tx(tx);
        to->engine->class->tx_rollback(to);
        free(tx);
    }
}

/* A commit ends the tx in every case: one that fails without reaching the engine rolls back. */
static hf_status faulty_tx_commit(struct tx *tx)
{
    struct tx *to = inner_tx(tx);
    struct verdict verdict = pass(FAULTY_TX_COMMIT);
    hf_status status = HF_OK;
    if (verdict.works) {
        status = to->engine->class->tx_commit(to);
    } else {
        to->engine->class->tx_rollback(to);
    }
    free(tx);
    return verdict.fails ? verdict_fail(verdict) : status;
}

/* ---- Joining --------------------------------------------------------------------------------- */

static hf_status faulty_join_begin(struct engine *engine, void *connection,
                                   struct deadline deadline)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_JOIN, to->class->join_begin(to, connection, deadline));
}

static hf_status faulty_join_append(struct engine *engine, void *connection, struct append *append)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_JOIN, to->class->join_append(to, connection, append));
}

static hf_status faulty_join_commit(struct engine *engine, void *connection)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_JOIN, to->class->join_commit(to, connection));
}

static hf_status faulty_join_rollback(struct engine *engine, void *connection)
{
    struct engine *to = inner(engine);
    FORWARD(FAULTY_JOIN, to->class->join_rollback(to, connection));
}

/* ---- Signs ----------------------------------------------------------------------------------- */

static uint64_t faulty_losses(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->losses(to);
}

static bool faulty_is_away(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->is_away && to->class->is_away(to);
}

static uint64_t faulty_news(struct engine *engine)
{
    struct engine *to = inner(engine);
    return to->class->news(to);
}

static uint64_t faulty_wait(struct engine *engine, uint64_t seen, int64_t timeout_ms)
{
    struct engine *to = inner(engine);
    return to->class->wait(to, seen, timeout_ms);
}

static void faulty_wake(struct engine *engine)
{
    struct engine *to = inner(engine);
    to->class->wake(to);
}

static void faulty_note(struct engine *engine, int32_t slot, int64_t subscription_id,
                        int64_t position, int32_t attempt)
{
    struct engine *to = inner(engine);
    if (to->class->note) {
        to->class->note(to, slot, subscription_id, position, attempt);
    }
}

static void faulty_note_clear(struct engine *engine, int32_t slot)
{
    struct engine *to = inner(engine);
    if (to->class->note_clear) {
        to->class->note_clear(to, slot);
    }
}

static void faulty_alive(struct engine *engine)
{
    struct engine *to = inner(engine);
    to->class->alive(to);
}

static const struct engine_class faulty_engine_class = {
    .name = "faulty",
    .open = faulty_open,
    .close = faulty_close,
    .apply = faulty_apply,
    .held_by_caller = faulty_held_by_caller,
    .poisoned = faulty_poisoned,
    .subscription_get = faulty_subscription_get,
    .subscription_by_id = faulty_subscription_by_id,
    .subscription_list = faulty_subscription_list,
    .namespace_list = faulty_namespace_list,
    .node_list = faulty_node_list,
    .retention_plan = faulty_retention_plan,
    .retain_command = faulty_retain_command,
    .standing = faulty_standing,
    .progress = faulty_progress,
    .partitions = faulty_partitions,
    .blocked = faulty_blocked,
    .delivery_facts = faulty_delivery_facts,
    .event_find = faulty_event_find,
    .head = faulty_head,
    .last = faulty_last,
    .gaps = faulty_gaps,
    .now = faulty_now,
    .position_before = faulty_position_before,
    .retries_due = faulty_retries_due,
    .lanes = faulty_lanes,
    .ahead = faulty_ahead,
    .lease_read = faulty_lease_read,
    .dead_list = faulty_dead_list,
    .dead_get = faulty_dead_get,
    .dead_count = faulty_dead_count,
    .sizes = faulty_sizes,
    .doctor = faulty_doctor,
    .verify_check = faulty_verify_check,
    .verify_scan = faulty_verify_scan,
    .schedule_get = faulty_schedule_get,
    .schedule_list = faulty_schedule_list,
    .schedules_due = faulty_schedules_due,
    .schedule_runs = faulty_schedule_runs,
    .timers_due = faulty_timers_due,
    .timers_news = faulty_timers_news,
    .time = faulty_time,
    .reader_open = faulty_reader_open,
    .reader_next = faulty_reader_next,
    .reader_close = faulty_reader_close,
    .tx_begin = faulty_tx_begin,
    .tx_enter = faulty_tx_enter,
    .tx_leave = faulty_tx_leave,
    .tx_append = faulty_tx_append,
    .tx_connection = faulty_tx_connection,
    .tx_abort = faulty_tx_abort,
    .tx_commit = faulty_tx_commit,
    .tx_rollback = faulty_tx_rollback,
    .join_begin = faulty_join_begin,
    .join_append = faulty_join_append,
    .join_commit = faulty_join_commit,
    .join_rollback = faulty_join_rollback,
    .news = faulty_news,
    .losses = faulty_losses,
    .is_away = faulty_is_away,
    .wait = faulty_wait,
    .wake = faulty_wake,
    .note = faulty_note,
    .note_clear = faulty_note_clear,
    .alive = faulty_alive,
};

#endif
