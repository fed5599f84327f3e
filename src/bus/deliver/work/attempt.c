/*
 * attempt.c - running the handlers of a subscription for one event. See attempt.h.
 *
 * The thread remembers what it is running, so that a publish from inside a transactional handler
 * finds its transaction, and a call that would wait for the handler itself is refused.
 */
#include "bus/deliver/work/attempt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/glob.h"
#include "base/time/retry.h"

static _Thread_local struct hf_delivery *current;

/* What is no verdict is a failure; a failure that is excused does not count. */
static hf_verdict check_verdict(struct hf_delivery *delivery, hf_verdict verdict)
{
    if (verdict < HF_ACK || verdict > HF_UNDECODABLE) {
        hf_delivery_error(delivery, "the handler answered %d, which is no hf_verdict",
                          (int)verdict);
        verdict = HF_RETRY;
    }
    return verdict == HF_RETRY && delivery->excused ? HF_RETRY_UNCOUNTED : verdict;
}

static bool matches_any(const struct handlers *handlers, const hf_event *event)
{
    for (size_t i = 0; i < handlers->count; i++) {
        if (glob_match(handlers->items[i].pattern, text_of(event->type))) {
            return true;
        }
    }
    return false;
}

static bool matches_all(const struct handlers *handlers, const hf_event *const *events,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!matches_any(handlers, events[i])) {
            return false;
        }
    }
    return true;
}

/* Those that match the handler, in order, to `ret_picked`; answers how many. */
static size_t pick(const struct handler *handler, const hf_event *const *events, size_t count,
                   const hf_event **ret_picked)
{
    size_t picked = 0;
    for (size_t i = 0; i < count; i++) {
        if (glob_match(handler->pattern, text_of(events[i]->type))) {
            ret_picked[picked++] = events[i];
        }
    }
    return picked;
}

bool attempt_run(struct hf_delivery *delivery, const struct handlers *handlers,
                 const hf_event *const *events, size_t count, const hf_event **scratch,
                 hf_verdict *ret_verdict)
{
    if (count > 1 && !matches_all(handlers, events, count)) { /* of one it shows below */
        return false;
    }
    hf_verdict verdict = HF_ACK;
    bool any = false;
    delivery->error[0] = '\0';
    delivery->excused = false;
    delivery->retry_in_ms = 0;
    current = delivery;
    for (size_t i = 0; i < handlers->count && verdict == HF_ACK; i++) {
        const struct handler *handler = &handlers->items[i];
        size_t picked = pick(handler, events, count, scratch);
        if (picked == 0) {
            continue;
        }
        any = true;
        verdict = handler->run_batch ? handler->run_batch(scratch, picked, delivery, handler->ctx)
                                     : handler->run(scratch[0], delivery, handler->ctx);
    }
    current = NULL;
    *ret_verdict = check_verdict(delivery, verdict);
    return any;
}

struct tx *attempt_tx(const hf_bus *bus)
{
    return current && current->bus == bus ? current->tx : NULL;
}

bool attempt_inside(const hf_bus *bus)
{
    return current && current->bus == bus;
}

void attempt_excuse(const hf_bus *bus)
{
    if (attempt_inside(bus)) {
        current->excused = true;
    }
}

const char *hf_delivery_subscription(const hf_delivery *delivery)
{
    return delivery->subscription;
}

int32_t hf_delivery_attempt(const hf_delivery *delivery)
{
    return delivery->attempt;
}

int32_t hf_delivery_attempts_max(const hf_delivery *delivery)
{
    return delivery->attempts_max;
}

hf_bus *hf_delivery_bus(const hf_delivery *delivery)
{
    return delivery->bus;
}

int hf_delivery_cancelled(const hf_delivery *delivery)
{
    return atomic_load(delivery->cancelled) ? 1 : 0;
}

/* The transaction's connection, if the bus is on this engine: a pointer of another type would be
 * taken for one of this. */
static void *connection_of(const hf_delivery *delivery, const char *engine)
{
    bool here = delivery->tx && strcmp(store_engine_name(delivery->bus->store), engine) == 0;
    return here ? tx_connection(delivery->tx) : NULL;
}

struct sqlite3 *hf_delivery_sqlite(const hf_delivery *delivery)
{
    return connection_of(delivery, "sqlite");
}

struct pg_conn *hf_delivery_postgres(const hf_delivery *delivery)
{
    return connection_of(delivery, "postgres");
}

void hf_delivery_error(hf_delivery *delivery, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(delivery->error, sizeof delivery->error, format, args);
    va_end(args);
}

void hf_delivery_retry_in(hf_delivery *delivery, int64_t delay_ms)
{
    delivery->retry_in_ms = delay_ms < 0                    ? 0
                            : delay_ms > RETRY_DELAY_MS_MAX ? RETRY_DELAY_MS_MAX
                                                            : delay_ms;
}
