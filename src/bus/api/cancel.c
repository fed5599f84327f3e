/*
 * cancel.c - hf_cancel: settling an event without a handler. store/cancel.h has how it is stored.
 *
 * The store cancels the event at once, unless a living process may have it in hand. Then it keeps a
 * request, and that process answers (deliver/cancels.c), which is waited for:
 *
 *     request --> marked, settled                                    the answer
 *        |
 *        v asked
 *     look at the event, until the time is up: is it cancelled, or has the request gone?
 *        |  now and then: request again, for the process may have died, and another have taken over
 *        v
 *     withdraw --> it was cancelled at the last moment, or nothing has happened: HF_BUSY
 *
 * What the sentence of a refusal says is looked up afterwards; what was decided is what the store
 * has answered.
 */
#include "store/cancel.h"
#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "base/uuid.h"
#include "bus/api/inspect.h"
#include "bus/intake.h"
#include "bus/watch.h"
#include "store/timers.h"

#define POLL_MS 50       /* between two looks, if there is no news */
#define ASK_AGAIN_MS 500 /* between two requests */
#define FACTS_BYTES_MAX ((size_t)4 << 20)

/* One hf_cancel under way. */
struct work {
    hf_bus *bus;
    struct definition definition;
    struct batch batch; /* the event */
    struct arena arena;
    struct delivery_facts facts;
    hf_state state; /* by the facts */
    struct text by;
    struct text reason;
    int64_t wait_ms;
};

static const struct entry *event_of(const struct work *work)
{
    return &work->batch.entries[0];
}

/* ---- The event ------------------------------------------------------------------------------- */

static int skip_row(const struct later_row *row, void *ctx)
{
    (void)row;
    (void)ctx;
    return 1;
}

static hf_status find_by_id(struct work *work, const char *id)
{
    uint8_t bytes[UUID_BYTES];
    hf_status status = uuid_parse(text_of(id), bytes);
    if (status) {
        return status;
    }
    status = store_event_find(work->bus->store, bytes, &work->batch);
    if (status != HF_NOTFOUND) {
        return status;
    }
    if (store_later_get(work->bus->store, bytes, skip_row, NULL) == HF_OK) {
        return fail(HF_CONFLICT,
                    "event %s is not in the log yet: it waits for its time. To cancel it for all "
                    "subscriptions use hf_later_cancel, or holdfast later cancel",
                    id);
    }
    return fail(HF_NOTFOUND, "there is no event %s in the log", id);
}

static hf_status find_by_position(struct work *work, int64_t position)
{
    struct text all = TEXT_LITERAL("*");
    struct filter filter = {.patterns = &all, .count = 1};
    struct reader *reader;
    hf_status status = store_reader_open(work->bus->store, position - 1, false, &reader);
    if (status) {
        return status;
    }
    int64_t floor;
    bool more;
    status = store_reader_next(reader, &filter, 1, &work->batch, &floor, &more);
    store_reader_close(reader);
    bool found = !status && work->batch.count == 1 && event_of(work)->event.position == position;
    return status || found ? status
                           : fail(HF_NOTFOUND, "there is no event at position %" PRId64, position);
}

/* Looks where it is in the subscription. */
static hf_status look(struct work *work)
{
    struct text story;
    struct delivery_query query = {
        .id = event_of(work)->id,
        .position = event_of(work)->event.position,
        .hash = event_of(work)->hash,
        .now_us = clock_wall_us(),
    };
    arena_clear(&work->arena);
    hf_status status = store_delivery_facts(work->bus->store, work->definition.id, &query,
                                            &work->arena, &work->facts, &story);
    if (!status) {
        work->state = inspect_state(&work->definition, query.position,
                                    text_of(event_of(work)->event.type), &work->facts);
    }
    return status;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Why it cannot be cancelled in this state; HF_OK: it can. */
static hf_status check_state(const struct work *work)
{
    const char *id = event_of(work)->event.id;
    const char *name = work->definition.name.bytes;
    switch (work->state) {
    case HF_STATE_DONE:
        return fail(HF_CONFLICT, "event %s is done in subscription %s", id, name);
    case HF_STATE_DEAD:
        return fail(HF_CONFLICT,
                    "event %s is dead letter %" PRId64 " of subscription %s: resolve that instead "
                    "(hf_dead_resolve, holdfast dlq resolve)",
                    id, work->facts.dead_id, name);
    case HF_STATE_NOT_FOR_IT:
        return fail(HF_CONFLICT, "event %s is not for subscription %s: %s", id, name,
                    event_of(work)->event.position <= work->facts.start
                        ? "it is before its start"
                        : "no pattern of it matches");
    case HF_STATE_PENDING:
    case HF_STATE_PROCESSING:
    case HF_STATE_RETRYING:
    case HF_STATE_HELD:
    case HF_STATE_CANCELLED:
        break;
    }
    return HF_OK;
}

/* The process that may have it in hand has not given it up in time. */
static hf_status busy(struct work *work)
{
    const char *id = event_of(work)->event.id;
    const struct lease_holder *holder = &work->facts.holder;
    if (!look(work) && work->facts.leased && holder->since_us > 0) {
        char since[TIME_TEXT_BYTES];
        time_format(holder->since_us, since);
        return fail(HF_BUSY,
                    "event %s was not cancelled: %s has had it since %s, and did not end with it "
                    "within %" PRId64 " ms",
                    id, holder->node[0] ? holder->node : "a process", since, work->wait_ms);
    }
    return fail(HF_BUSY,
                "event %s was not cancelled: the process that works for subscription %s has it, "
                "and did not give it up within %" PRId64 " ms",
                id, work->definition.name.bytes, work->wait_ms);
}

/* It is settled, as the store says; the facts may not tell it yet. */
static hf_status too_late(struct work *work)
{
    hf_status status = look(work);
    if (!status) {
        status = check_state(work);
    }
    return status ? status
                  : fail(HF_CONFLICT, "event %s is done in subscription %s",
                         event_of(work)->event.id, work->definition.name.bytes);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static hf_status run(struct work *work, enum cancel_part part, enum cancel_state *ret_state)
{
    struct cancel cancel = {
        .change = {.kind = CHANGE_CANCEL, .now_us = clock_wall_us()},
        .subscription_id = work->definition.id,
        .position = event_of(work)->event.position,
        .hash = event_of(work)->hash,
        .part = part,
        .by = work->by,
        .reason = work->reason,
    };
    hf_status status = bus_run(work->bus, &cancel.change);
    if (!status) {
        *ret_state = cancel.ret_state;
    }
    return status;
}

/* Waits until the process that was asked has answered, or it is time to ask again. */
static hf_status wait_for_answer(struct work *work, struct deadline deadline)
{
    for (;;) {
        uint64_t seen = watch_seen(work->bus);
        hf_status status = look(work);
        if (!status) {
            status = bus_check_open(work->bus);
        }
        if (status || work->facts.cancel_asked_us < 0 || deadline_passed(deadline)) {
            return status;
        }
        watch_wait(work->bus, seen, deadline_earlier(deadline, deadline_after_ms(POLL_MS)));
    }
}

/* Takes the request back. */
static hf_status withdraw(struct work *work)
{
    enum cancel_state state;
    hf_status status = run(work, CANCEL_WITHDRAW, &state);
    if (status) {
        return status;
    }
    return state == CANCEL_BEFORE ? HF_OK : busy(work);
}

static hf_status cancel(struct work *work)
{
    struct deadline deadline = deadline_after_ms(work->wait_ms);
    for (;;) {
        enum cancel_state state;
        hf_status status = run(work, CANCEL_REQUEST, &state);
        if (status) {
            return status;
        }
        switch (state) {
        case CANCEL_MARKED:
        case CANCEL_BEFORE:
            return HF_OK;
        case CANCEL_SETTLED:
            return too_late(work);
        case CANCEL_ASKED:
        case CANCEL_NONE:
            break;
        }
        status = wait_for_answer(work, deadline_earlier(deadline, deadline_after_ms(ASK_AGAIN_MS)));
        if (status || work->facts.cancelled_at_us >= 0) {
            return status;
        }
        if (deadline_passed(deadline)) {
            return withdraw(work);
        }
    }
}

static hf_status read_options(struct work *work, const char *id, const hf_cancel_options *given,
                              int64_t *ret_position)
{
    hf_cancel_options options = HF_CANCEL_OPTIONS_INIT;
    hf_status status = HF_OK;
    if (given) {
        status =
            bus_read_options(&options, sizeof options, sizeof options, given, "hf_cancel_options");
    }
    if (!status && !id && options.position < 1) {
        status = fail(HF_INVALID, "neither an id nor a position is given");
    }
    if (!status && options.wait_ms < -1) {
        status = fail(HF_INVALID, "wait_ms is %" PRId64 "; it must be 0 or more", options.wait_ms);
    }
    if (!status) {
        status = intake_text(options.by ? options.by : work->bus->node_name, "by",
                             HF_PRODUCER_BYTES_MAX, &work->by);
    }
    if (!status) {
        status = intake_text(options.reason, "reason", HF_ERROR_BYTES_MAX, &work->reason);
    }
    work->wait_ms = options.wait_ms < 0 ? HF_CANCEL_WAIT_MS : options.wait_ms;
    *ret_position = options.position;
    return status;
}

static hf_status cancel_found(struct work *work, const char *subscription, const char *id,
                              int64_t position)
{
    hf_status status = definition_load(work->bus, subscription, &work->definition);
    if (!status) {
        status = id ? find_by_id(work, id) : find_by_position(work, position);
    }
    if (!status) {
        status = look(work);
    }
    if (!status) {
        status = check_state(work);
    }
    return status ? status : cancel(work);
}

hf_status hf_cancel(hf_bus *bus, const char *subscription, const char *id,
                    const hf_cancel_options *options)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!subscription) {
        return fail(HF_INVALID, "subscription is NULL");
    }
    struct work work = {.bus = bus};
    int64_t position = -1;
    definition_init(&work.definition);
    batch_init(&work.batch);
    arena_init(&work.arena, FACTS_BYTES_MAX);
    status = read_options(&work, id, options, &position);
    if (!status) {
        watch_want(bus);
        status = cancel_found(&work, subscription, id, position);
    }
    arena_release(&work.arena);
    batch_release(&work.batch);
    definition_release(&work.definition);
    return status;
}
