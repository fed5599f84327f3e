/*
 * faulty.c - forwards each verb of verbs.def after asking `pass` what is to happen to it.
 *
 * The wrapper's engine, reader and tx hold the inner ones behind the same heads that engine.h asks
 * for, so store.c cannot tell the difference. All settings live behind one mutex and its condition.
 */
#include "support/faulty.h"

#ifdef HF_FAULTS

#include <stdatomic.h>
#include <time.h>

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
    bool stopped; /* a thread that is let go does not count, however late it wakes */
    int64_t slow_ms;
} rules[FAULTY_VERBS];
static _Atomic int64_t changes_max; /* one store at a time is measured */
static atomic_bool refuse_late, doubt_next;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

static struct engine_class faulty_engine_class;

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

void faulty_slow(enum faulty_verb verb, int64_t ms)
{
    pthread_mutex_lock(&mutex);
    rules[verb].slow_ms = ms;
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
    int64_t slow_ms = rule->slow_ms;
    pthread_mutex_unlock(&mutex);
    if (slow_ms > 0) {
        nanosleep(&(struct timespec){slow_ms / 1000, slow_ms % 1000 * 1000000}, NULL);
    }
    return verdict;
}

static hf_status verdict_fail(struct verdict verdict)
{
    return (fail)(verdict.status, "the faulty engine was told to fail");
}

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
    if (status) {
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
    if (!verdict.fails || status) {
        return status;
    }
    bool begun = verdict.status != HF_TIMEOUT && verdict.status != HF_BUSY &&
                 verdict.status != HF_UNAVAILABLE;
    if (!begun) {
        return verdict_fail(verdict);
    }
    for (struct change *change = changes; change; change = change->next) {
        if (!change->status || !verdict.works) {
            change->status = verdict_fail(verdict);
            snprintf(change->message, sizeof change->message, "%s", err_message());
        }
    }
    return HF_OK;
}

static bool faulty_held_by_caller(struct engine *outer)
{
    struct engine *engine = inner(outer);
    return engine->class->held_by_caller(engine);
}

/* ---- Verbs that are forwarded ---------------------------------------------------------------- */

/* By which name tests speak of a verb; those without one are FAULTY_OTHER. */
#define VERB(result, name, params, args) VERB_##name,
enum verb {
#include "store/verbs.def"
    VERB_COUNT
};
static const enum faulty_verb called[VERB_COUNT] = {
    [VERB_subscription_get] = FAULTY_SUBSCRIPTION,
    [VERB_subscription_by_id] = FAULTY_SUBSCRIPTION,
    [VERB_subscription_list] = FAULTY_SUBSCRIPTION,
    [VERB_standing] = FAULTY_STANDING,
    [VERB_now] = FAULTY_NOW,
    [VERB_retries_due] = FAULTY_RETRIES_DUE,
    [VERB_lanes] = FAULTY_LANES,
    [VERB_schedule_get] = FAULTY_TIMERS,
    [VERB_schedule_list] = FAULTY_TIMERS,
    [VERB_schedules_due] = FAULTY_TIMERS,
    [VERB_schedule_runs] = FAULTY_TIMERS,
    [VERB_timers_due] = FAULTY_TIMERS,
    [VERB_reader_open] = FAULTY_READER_OPEN,
    [VERB_reader_next] = FAULTY_READER_NEXT,
    [VERB_tx_begin] = FAULTY_TX_BEGIN,
};

static struct reader *inner_reader(struct reader *outer)
{
    return ((struct faulty_reader *)outer)->inner;
}

static struct tx *inner_tx(struct tx *outer)
{
    return ((struct faulty_tx *)outer)->inner;
}

/* Runs the inner call unless the verdict forbids it, and answers what the verdict says. */
#define FORWARD(verb, call)                                                                        \
    do {                                                                                           \
        struct verdict verdict = pass(called[verb]);                                               \
        hf_status status = verdict.works ? (call) : HF_OK;                                         \
        return verdict.fails ? verdict_fail(verdict) : status;                                     \
    } while (0)

#define ENGINE struct engine *outer
#define READER struct reader *outer
#define TX struct tx *outer
#define ASK(name, params, args)                                                                    \
    static hf_status forward_##name params                                                         \
    {                                                                                              \
        struct engine *engine = inner(outer);                                                      \
        FORWARD(VERB_##name, engine->class->name args);                                            \
    }
#define STEP(name, params, args) ASK(name, params, args)
#define SIGN(result, name, params, args)                                                           \
    static result forward_##name params                                                            \
    {                                                                                              \
        struct engine *engine = inner(outer);                                                      \
        return engine->class->name args;                                                           \
    }
#define OPTIONAL(result, name, params, args, otherwise)                                            \
    static result forward_##name params                                                            \
    {                                                                                              \
        struct engine *engine = inner(outer);                                                      \
        return engine->class->name ? engine->class->name args : otherwise;                         \
    }
#define READ(result, name, params, args)                                                           \
    static result forward_##name params                                                            \
    {                                                                                              \
        struct reader *reader = inner_reader(outer);                                               \
        FORWARD(VERB_##name, reader->engine->class->name args);                                    \
    }
#define WITHIN(result, name, params, args)                                                         \
    static result forward_##name params                                                            \
    {                                                                                              \
        struct tx *tx = inner_tx(outer);                                                           \
        return tx->engine->class->name args;                                                       \
    }
#include "store/verbs.def"

/* Only an engine that has it hands out such a command. */
static hf_status faulty_retain_command(struct engine *outer, const char *command,
                                       struct deadline deadline)
{
    struct engine *engine = inner(outer);
    return engine->class->retain_command(engine, command, deadline);
}

static hf_status faulty_index_command(struct engine *outer, const char *command)
{
    struct engine *engine = inner(outer);
    return engine->class->index_command(engine, command);
}

/* ---- Reader ---------------------------------------------------------------------------------- */

static hf_status faulty_reader_open(struct engine *outer, int64_t after, bool strict,
                                    struct reader **ret_reader)
{
    struct faulty_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        return (fail)(HF_NOMEM, "out of memory");
    }
    reader->head.engine = outer;
    hf_status status = forward_reader_open(outer, after, strict, &reader->inner);
    if (status) {
        free(reader);
        return status;
    }
    *ret_reader = &reader->head;
    return HF_OK;
}

static void faulty_reader_close(struct reader *outer)
{
    struct reader *reader = inner_reader(outer);
    reader->engine->class->reader_close(reader);
    free(outer);
}

/* ---- Transactions ---------------------------------------------------------------------------- */

static hf_status faulty_tx_begin(struct engine *outer, struct deadline deadline, struct tx **ret_tx)
{
    struct faulty_tx *tx = calloc(1, sizeof *tx);
    if (!tx) {
        return (fail)(HF_NOMEM, "out of memory");
    }
    tx->head.engine = outer;
    hf_status status = forward_tx_begin(outer, deadline, &tx->inner);
    if (status) {
        free(tx);
        return status;
    }
    *ret_tx = &tx->head;
    return HF_OK;
}

static void faulty_tx_rollback(struct tx *outer)
{
    struct tx *tx = inner_tx(outer);
    tx->engine->class->tx_rollback(tx);
    free(outer);
}

/* A commit ends the tx in every case: one that fails without reaching the engine rolls back. */
static hf_status faulty_tx_commit(struct tx *outer)
{
    struct verdict verdict = pass(FAULTY_TX_COMMIT);
    hf_status status = HF_OK;
    if (verdict.works) {
        status = forward_tx_commit(outer);
        free(outer);
    } else {
        faulty_tx_rollback(outer);
    }
    return verdict.fails ? verdict_fail(verdict) : status;
}

/* ---- The engine ------------------------------------------------------------------------------ */

/* A reader and a transaction are ours; an exporter is the inner engine's. tx_finish is left out, so
 * that it is done step by step. */
static struct engine_class faulty_engine_class = {
    .name = "faulty",
    .open = faulty_open,
    .close = faulty_close,
    .apply = faulty_apply,
    .held_by_caller = faulty_held_by_caller,
    .retain_command = faulty_retain_command,
    .index_command = faulty_index_command,
    .reader_close = faulty_reader_close,
    .tx_rollback = faulty_tx_rollback,
    .keeps_notes = true,
#define VERB(result, name, params, args) .name = forward_##name,
#define BY_HAND(result, name, params, args)
#define COPY(result, name, params, args)
#include "store/verbs.def"
};

void faulty_install(void)
{
    faulty_reset();
    faulty_engine_class.reader_open = faulty_reader_open;
    faulty_engine_class.tx_begin = faulty_tx_begin;
    faulty_engine_class.tx_commit = faulty_tx_commit;
    store_engine_add(&faulty_engine_class);
}

#endif
