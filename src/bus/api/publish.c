/*
 * publish.c - publishing one event or many. See publish.h.
 *
 * A publish is checked (intake.c), made into an append and handed to a carrier, which decides when
 * it is durable:
 *
 *     hf_publish, hf_publish_many   store_run: a commit shared with all that publish now; durable
 *                                   when the call returns
 *     inside a transactional handler   tx_append: durable if and when the handler's transaction
 *                                   commits
 *     hf_sqlite_publish, hf_postgres_publish ...   the same for the application's own (join.c)
 *
  * The receipts are written after everything succeeded, so a failure leaves them untouched; all but
  * HF_UNKNOWN, with which they have the ids that were tried, so that the same can be published
  * again. `published` counts what was stored durably here; events in a caller's transaction are not
  * counted, because whether they exist is not ours to know.
 */
#include "bus/api/publish.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/deliver/work/attempt.h"
#include "bus/intake.h"
#include "store/timers.h"

#include <stddef.h>

void receipt_fill(const struct new_event *event, hf_receipt *ret_receipt)
{
    ret_receipt->position = event->position;
    ret_receipt->key_version = event->key_version;
    ret_receipt->duplicate = event->duplicate ? 1 : 0;
    ret_receipt->replaced = event->replaced ? 1 : 0;
    uuid_format(event->is_second ? event->first_id : event->id, ret_receipt->id);
}

/* It is not known whether the event was stored: the receipt (may be NULL) has the id. */
static void receipt_unknown(const struct new_event *event, hf_receipt *ret_receipt)
{
    if (ret_receipt) {
        *ret_receipt = (hf_receipt){.position = -1, .key_version = -1};
        uuid_format(event->id, ret_receipt->id);
    }
}

/* Answers for one event: fills the receipt, and names the id of what may have been stored. */
static hf_status receipt_of(hf_status status, const struct new_event *event,
                            hf_receipt *ret_receipt)
{
    char id[HF_ID_BYTES];
    if (status == HF_UNKNOWN) {
        receipt_unknown(event, ret_receipt);
        uuid_format(event->id, id);
        return fail(status, "%s; the event has id %s: with that id it can be published again",
                    err_message(), id);
    }
    if (!status && ret_receipt) {
        receipt_fill(event, ret_receipt);
    }
    return status;
}

static struct append append_of(struct new_event *events, size_t count, int64_t now_us)
{
    return (struct append){
        .change = {.kind = CHANGE_APPEND, .now_us = now_us},
        .events = events,
        .count = count,
        .failed_index = SIZE_MAX,
    };
}

static void count_published(hf_bus *bus, const struct append *append)
{
    int64_t stored = 0;
    for (size_t i = 0; i < append->count; i++) {
        stored += !append->events[i].duplicate;
    }
    atomic_fetch_add_explicit(&bus->published, stored, memory_order_relaxed);
}

/* Stores it, and notes how long that took. */
static hf_status publish_run(hf_bus *bus, struct change *change)
{
    int64_t begun_us = clock_mono_us();
    hf_status status = bus_run(bus, change);
    meters_publish(&bus->meters, status, clock_mono_us() - begun_us);
    return status;
}

/* Through the handler's transaction if the thread is in one, else through the group. */
static hf_status carry(hf_bus *bus, void *ctx, struct append *append)
{
    (void)ctx;
    struct tx *tx = attempt_tx(bus);
    if (tx) {
        return tx_append(tx, append);
    }
    hf_status status = publish_run(bus, &append->change);
    if (!status) {
        count_published(bus, append);
    }
    return status;
}

hf_status publish_one(hf_bus *bus, const hf_new_event *event, carry_fn carrier, void *ctx,
                      hf_receipt *ret_receipt)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!event) {
        return fail(HF_INVALID, "event is NULL");
    }
    int64_t now_us = clock_wall_us();
    struct new_event checked;
    status = intake_check(bus, event, now_us, &checked);
    if (status) {
        return status;
    }
    struct append append = append_of(&checked, 1, now_us);
    return receipt_of(carrier(bus, ctx, &append), &checked, ret_receipt);
}

static hf_status publish_checked(hf_bus *bus, struct append *append, carry_fn carrier, void *ctx,
                                 hf_receipt *ret_receipts)
{
    hf_status status = carrier(bus, ctx, append);
    for (size_t i = 0; !status && ret_receipts && i < append->count; i++) {
        receipt_fill(&append->events[i], &ret_receipts[i]);
    }
    for (size_t i = 0; status == HF_UNKNOWN && ret_receipts && i < append->count; i++) {
        receipt_unknown(&append->events[i], &ret_receipts[i]);
    }
    if (status && append->failed_index < append->count) {
        return fail(status, "event %zu: %s", append->failed_index, err_message());
    }
    return status;
}

hf_status publish_many(hf_bus *bus, const hf_new_event *events, size_t count, carry_fn carrier,
                       void *ctx, hf_receipt *ret_receipts)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (count > HF_PUBLISH_MANY_MAX) {
        return fail(HF_INVALID, "count is %zu; the limit is %d", count, HF_PUBLISH_MANY_MAX);
    }
    if (count == 0) {
        return HF_OK;
    }
    if (!events) {
        return fail(HF_INVALID, "events is NULL but count is %zu", count);
    }
    struct new_event *checked = mem_calloc(count, sizeof *checked);
    if (!checked) {
        return fail(HF_NOMEM, "out of memory for %zu events", count);
    }
    int64_t now_us = clock_wall_us();
    status = intake_check_all(bus, events, count, now_us, checked);
    if (!status) {
        struct append append = append_of(checked, count, now_us);
        status = publish_checked(bus, &append, carrier, ctx, ret_receipts);
    }
    mem_free(checked);
    return status;
}

/* Keeps an event until its time has come. The time is by our clock; the store has its own. */
static hf_status publish_later(hf_bus *bus, struct new_event *event, int64_t now_us,
                               int64_t deliver_at_us, bool replace, hf_receipt *ret_receipt)
{
    struct delay delay = {
        .change = {.kind = CHANGE_DELAY, .now_us = now_us},
        .events = event,
        .count = 1,
        .due_us = store_time(bus->store, now_us) + (deliver_at_us - now_us),
        .replace = replace,
    };
    if (attempt_tx(bus)) {
        return fail(HF_MISUSE, "an event with deliver_at_us cannot join a handler's transaction");
    }
    return receipt_of(publish_run(bus, &delay.change), event, ret_receipt);
}

/* Is it for later? What is wrong with it is found when it is published. */
static bool is_for_later(const hf_new_event *event)
{
    return event && event->size > offsetof(hf_new_event, deliver_at_us) &&
           event->deliver_at_us != -1;
}

hf_status hf_publish(hf_bus *bus, const hf_new_event *event, hf_receipt *ret_receipt)
{
    if (!is_for_later(event)) {
        return publish_one(bus, event, carry, NULL, ret_receipt);
    }
    struct new_event checked;
    int64_t now_us = clock_wall_us();
    int64_t deliver_at_us = -1;
    hf_status status = bus_check_open(bus);
    if (!status) {
        status = intake_check_later(bus, event, now_us, &checked, &deliver_at_us);
    }
    if (status) {
        return status;
    }
    bool replace = event->size > offsetof(hf_new_event, replace) && event->replace == 1;
    return publish_later(bus, &checked, now_us, deliver_at_us, replace, ret_receipt);
}

hf_status hf_publish_many(hf_bus *bus, const hf_new_event *events, size_t count,
                          hf_receipt *ret_receipts)
{
    return publish_many(bus, events, count, carry, NULL, ret_receipts);
}
