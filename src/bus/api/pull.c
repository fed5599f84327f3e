/*
 * pull.c - claiming events of a shared subscription without handlers. lease.c settles them.
 *
 *     hf_claim -> hf_batch -> (hf_ack | hf_nack | hf_release | hf_bury | hf_touch)
 *
 * A claim is one change of the store. Before the caller sees the batch, entries that must not run
 * are taken out of it and settled: those whose recorded attempts are used up (their processes died,
 * or their leases expired) and those outside the patterns, where the subscription wants them as
 * dead letters. If that settling fails they are left out all the same; they stay in the lease until
 * it expires and come up again.
 *
 * The definition is remembered from claim to claim (definition_cache.c), and read again when the
 * store says that it has been changed, also while this waits. It tries at least every
 * wait_period_ms, because a wake-up is only a hint.
 *
 * What is due comes first: schedules fire and delayed events enter the log here, where no bus is
 * started that would see to it (timers/bring.c).
 *
 * A claim need not wait for the disk: lost in a power failure, the events are handed out again.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/api/claimed.h"
#include "bus/api/definition_cache.h"
#include "bus/api/lease.h"
#include "bus/deliver/work/verdict.h"
#include "bus/timers/bring.h"
#include "bus/watch.h"
#include "store/membership.h"

struct hf_batch {
    struct batch batch;
    uint8_t lease[STORE_TOKEN_BYTES];
    char lease_text[HF_LEASE_BYTES];
    int64_t expires_at_us; /* -1: the batch is empty */
};

/* ---- Claiming -------------------------------------------------------------------------------- */

static hf_status options_claim(const hf_claim_options *given, hf_claim_options *ret_options)
{
    hf_claim_options own = HF_CLAIM_OPTIONS_INIT;
    if (given) {
        hf_status status =
            bus_read_options(&own, sizeof own, sizeof own, given, "hf_claim_options");
        if (status) {
            return status;
        }
    }
    if (own.max != -1 && (own.max < 1 || own.max > HF_CLAIM_MAX)) {
        return fail(HF_INVALID, "max is %d; it must be 1 to %d", own.max, HF_CLAIM_MAX);
    }
    if (own.lease_ms != -1 && (own.lease_ms < 1 || own.lease_ms > STORE_LEASE_MS_MAX)) {
        return fail(HF_INVALID, "lease_ms is %" PRId64 "; it must be 1 to %d", own.lease_ms,
                    STORE_LEASE_MS_MAX);
    }
    if (own.wait_ms < -1) {
        return fail(HF_INVALID, "wait_ms is %" PRId64 "; it must be 0 or more", own.wait_ms);
    }
    if (own.detached < HF_TOGGLE_DEFAULT || own.detached > HF_ON) {
        return fail(HF_INVALID, "detached is %d, which is no hf_toggle", (int)own.detached);
    }
    if (own.wait_ms == -1) {
        own.wait_ms = 0;
    }
    *ret_options = own;
    return HF_OK;
}

/* True, with an outcome, if the caller must not see the entry. */
static bool is_weed(const struct definition *definition, const struct entry *entry,
                    struct buf *story, struct outcome *ret_outcome)
{
    if (entry->damaged) {
        *ret_outcome = verdict_damaged(&definition->options, entry);
        return true;
    }
    if (entry->unhandled) {
        *ret_outcome = verdict_unhandled(entry);
        return true;
    }
    buf_clear(story);
    return verdict_is_spent(&definition->options, entry) &&
           verdict_spent(&definition->options, entry, story, ret_outcome) == HF_OK;
}

/* Takes the weeds out of the batch; outcomes has room for all of them. */
static size_t batch_weed(const struct definition *definition, struct batch *batch,
                         struct outcome *outcomes)
{
    struct buf story;
    buf_init(&story, LEASE_STORY_BYTES_MAX);
    size_t weeds = 0;
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (is_weed(definition, &batch->entries[i], &story, &outcomes[weeds])) {
            lease_keep_texts(&batch->arena, &outcomes[weeds]);
            weeds++;
        } else {
            batch->entries[kept++] = batch->entries[i];
        }
    }
    batch->count = kept;
    buf_release(&story);
    return weeds;
}

/* Buries what the caller must not see. ret_weeds: there was some. */
static hf_status weed_out(hf_bus *bus, const struct definition *definition, hf_batch *batch,
                          int64_t now_us, bool *ret_weeds)
{
    bool any = false;
    for (size_t i = 0; i < batch->batch.count; i++) {
        const struct entry *entry = &batch->batch.entries[i];
        any = any || entry->damaged || entry->unhandled ||
              verdict_is_spent(&definition->options, entry);
    }
    *ret_weeds = any;
    if (!any) {
        return HF_OK;
    }
    struct outcome *outcomes = mem_calloc(batch->batch.count, sizeof *outcomes);
    if (!outcomes) {
        return fail(HF_NOMEM, "out of memory for %zu outcomes", batch->batch.count);
    }
    struct settle_lease settle = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = now_us},
        .subscription_id = definition->id,
        .outcomes = outcomes,
        .count = batch_weed(definition, &batch->batch, outcomes),
    };
    memcpy(settle.lease, batch->lease, sizeof settle.lease);
    struct halt halt;
    settle.pause =
        verdict_halt(&definition->options, outcomes, settle.count, bus->node_name, &halt);
    hf_status status = arena_status(&batch->batch.arena);
    if (!status) {
        status = bus_run(bus, &settle.change);
    }
    struct meter *meter = meters_of(&bus->meters, definition->name.bytes);
    for (size_t i = 0; !status && i < settle.count; i++) {
        meter_outcome(meter, &outcomes[i]);
    }
    if (status) {
        log_about(
            &bus->log, HF_LOG_WARN, definition->name.bytes,
            "%zu claimed events that are damaged, used up or have no handler could not be buried "
            "and stay in lease %s: %s",
            settle.count, batch->lease_text, err_message());
    }
    mem_free(outcomes);
    return HF_OK;
}

/* The events as the caller sees them. The batch may outlive the bus. */
static hf_status batch_name(const hf_bus *bus, hf_batch *batch)
{
    const char *name = arena_text(&batch->batch.arena, text_of(bus->namespace_name)).bytes;
    for (size_t i = 0; i < batch->batch.count; i++) {
        struct entry *entry = &batch->batch.entries[i];
        entry->event.namespace_name = name;
        entry->event.deliveries = entry->handed < 0 ? -1 : entry->handed + 1;
    }
    return arena_status(&batch->batch.arena);
}

/* The caller gets `why` and not the batch: no other claim should have to wait until its lease
 * expires. Keeps the message of that failure. */
static hf_status give_back(hf_bus *bus, const struct definition *definition, const hf_batch *batch,
                           int64_t now_us, hf_status why)
{
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    struct settle_lease settle = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = now_us, .relaxed = true},
        .subscription_id = definition->id,
        .release_all = true,
    };
    memcpy(settle.lease, batch->lease, sizeof settle.lease);
    bus_run(bus, &settle.change);
    return err_set(why, message);
}

/* What one try found. */
struct found {
    bool again;      /* look again at once */
    bool refused;    /* the rate is used up, as far as the definition says that there is one */
    int64_t wake_us; /* when something is due; -1: not known */
    int64_t period_ms;
};

/* Takes from the rate of the subscription, if it has one, for up to *max events, and leaves there
 * how many are granted; a negative number gives so many back. ret_wait_us: when there is more. */
static hf_status take_rate(hf_bus *bus, const struct definition *definition, int32_t *max,
                           int64_t *ret_wait_us)
{
    const hf_subscription_options *stored = &definition->options;
    struct rate_take take = {
        .change = {.kind = CHANGE_RATE_TAKE, .relaxed = true, .now_us = clock_wall_us()},
        .subscription_id = definition->id,
        .events = stored->rate_events,
        .period_us = stored->rate_ms * 1000,
        .want = *max,
    };
    if (stored->rate_events == 0 || *max == 0) {
        return HF_OK;
    }
    hf_status status = bus_run(bus, &take.change);
    if (!status) {
        *max = (int32_t)take.ret_granted;
        *ret_wait_us = take.ret_wait_us;
    }
    return status;
}

static hf_status claim_granted(hf_bus *bus, const struct definition *definition,
                               const hf_claim_options *options, int32_t max, hf_batch *batch,
                               struct found *ret_found)
{
    const hf_subscription_options *stored = &definition->options;
    struct claim claim = {
        .change = {.kind = CHANGE_CLAIM, .relaxed = true, .now_us = clock_wall_us()},
        .subscription_id = definition->id,
        .generation = definition->generation,
        .filter = definition_filter(definition),
        .max = max,
        .lease_ms = options->lease_ms == -1 ? stored->lease_ms : options->lease_ms,
        .attempts_max = stored->attempts_max,
        .retry_max_ms = stored->retry_max_ms,
        .bound = options->detached != HF_ON,
        .batch = &batch->batch,
        .ret_wake_us = -1,
    };
    random_bytes(claim.lease, sizeof claim.lease);
    hf_status status = bus_run(bus, &claim.change);
    if (status == HF_UNKNOWN) {
        memcpy(batch->lease, claim.lease, sizeof batch->lease); /* it may have happened */
        return give_back(bus, definition, batch, claim.change.now_us, status);
    }
    if (status) {
        return status;
    }
    bool weeds = false;
    if (batch->batch.count > 0) {
        memcpy(batch->lease, claim.ret_lease, sizeof batch->lease);
        lease_format(batch->lease, batch->lease_text);
        batch->expires_at_us = claim.ret_expires_at_us;
        status = weed_out(bus, definition, batch, claim.change.now_us, &weeds);
        if (!status) {
            status = batch_name(bus, batch);
        }
        if (status) {
            status = give_back(bus, definition, batch, claim.change.now_us, status);
        } else if (batch->batch.count > 0) {
            claimed_add(bus, definition->name.bytes, batch->lease, &batch->batch);
        }
    }
    ret_found->again = weeds || (claim.ret_more && !claim.ret_paused);
    ret_found->wake_us = claim.ret_wake_us;
    return status;
}

/* Not more than the rate allows. What it allowed and was not there is given back. */
static hf_status claim_once(hf_bus *bus, const struct definition *definition,
                            const hf_claim_options *options, hf_batch *batch,
                            struct found *ret_found)
{
    int32_t max = options->max == -1 ? definition->options.batch : options->max;
    int64_t wait_us = 0;
    batch_clear(&batch->batch);
    hf_status status = take_rate(bus, definition, &max, &wait_us);
    if (status || max == 0) {
        ret_found->refused = !status;
        ret_found->wake_us = clock_wall_us() + wait_us;
        return status;
    }
    status = claim_granted(bus, definition, options, max, batch, ret_found);
    int32_t unused = (int32_t)batch->batch.count - max;
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    (void)take_rate(bus, definition, &unused, &wait_us); /* lost, if that fails */
    return status ? err_set(status, message) : HF_OK;
}

/* When to look again at the latest: at the deadline, when something is due, after the period. */
static struct deadline next_look(struct deadline deadline, int64_t wake_us, int64_t period_ms)
{
    if (wake_us >= 0) {
        int64_t left_us = wake_us - clock_wall_us();
        int64_t left_ms = left_us <= 0 ? 1 : left_us / 1000 + 1;
        period_ms = left_ms < period_ms ? left_ms : period_ms;
    }
    return deadline_earlier(deadline, deadline_after_ms(period_ms));
}

/* One try with the definition that is remembered, or has been read. What is out of date is
 * forgotten, and tried again at once. */
static hf_status claim_named(hf_bus *bus, const char *name, const hf_claim_options *options,
                             hf_batch *batch, struct found *ret_found)
{
    struct cached_definition *cached = NULL;
    bool remembered = false;
    hf_status status = definition_cache_take(bus, name, &cached, &remembered);
    if (status) {
        return status;
    }
    const struct definition *definition = &cached->definition;
    *ret_found = (struct found){.wake_us = -1};
    status = lease_check_mode(definition->options.mode, definition->name);
    if (!status) {
        status = claim_once(bus, definition, options, batch, ret_found);
    }
    ret_found->period_ms = definition->options.wait_period_ms;
    definition_cache_give(cached);
    bool outdated = status == HF_NOTFOUND || status == HF_MISUSE || ret_found->refused;
    if (status == HF_CONFLICT || (remembered && outdated)) {
        definition_cache_forget(bus, name);
        ret_found->again = true;
        return HF_OK;
    }
    return status;
}

/* Tries until there is something or the time is over. */
static hf_status claim_loop(hf_bus *bus, const char *name, const hf_claim_options *options,
                            hf_batch *batch)
{
    struct deadline deadline = deadline_after_ms(options->wait_ms);
    for (;;) {
        uint64_t seen = options->wait_ms > 0 ? watch_seen(bus) : 0;
        struct found found;
        struct brought brought = timers_bring(bus, BRING_BEFORE);
        hf_status status = claim_named(bus, name, options, batch, &found);
        if (status || batch->batch.count > 0) {
            return status;
        }
        status = bus_check_open(bus);
        if (status) {
            return status;
        }
        bool over = deadline_passed(deadline);
        if (!found.again && !brought.looked) {
            brought = timers_bring(bus, over ? BRING_NOTHING : BRING_WAITING);
            found.again = brought.count > 0;
        }
        if (found.again) {
            continue;
        }
        if (over) {
            return HF_OK;
        }
        int64_t period_ms = brought.wait_ms < found.period_ms ? brought.wait_ms : found.period_ms;
        watch_wait(bus, seen, next_look(deadline, found.wake_us, period_ms));
    }
}

hf_status hf_claim(hf_bus *bus, const char *subscription, const hf_claim_options *options,
                   hf_batch **ret_batch)
{
    hf_status status = bus_check_open(bus);
    if (status) {
        return status;
    }
    if (!subscription || !ret_batch) {
        return fail(HF_INVALID, "%s is NULL", subscription ? "ret_batch" : "subscription");
    }
    hf_claim_options own = HF_CLAIM_OPTIONS_INIT;
    status = options_claim(options, &own);
    if (status) {
        return status;
    }
    if (own.wait_ms > 0) {
        watch_want(bus);
    }
    hf_batch *batch = mem_calloc(1, sizeof *batch);
    if (!batch) {
        return fail(HF_NOMEM, "out of memory for a batch");
    }
    batch_init(&batch->batch);
    status = claim_loop(bus, subscription, &own, batch);
    if (status) {
        hf_batch_free(batch);
        return status;
    }
    if (batch->batch.count == 0) {
        batch->lease_text[0] = '\0';
        batch->expires_at_us = -1;
    }
    *ret_batch = batch;
    return HF_OK;
}

size_t hf_batch_count(const hf_batch *batch)
{
    return batch ? batch->batch.count : 0;
}

const hf_event *hf_batch_event(const hf_batch *batch, size_t index)
{
    return index < hf_batch_count(batch) ? &batch->batch.entries[index].event : NULL;
}

int32_t hf_batch_attempt(const hf_batch *batch, size_t index)
{
    return index < hf_batch_count(batch) ? batch->batch.entries[index].attempts + 1 : -1;
}

const char *hf_batch_lease(const hf_batch *batch)
{
    return batch ? batch->lease_text : "";
}

int64_t hf_batch_expires_at_us(const hf_batch *batch)
{
    return batch ? batch->expires_at_us : -1;
}

void hf_batch_free(hf_batch *batch)
{
    if (batch) {
        batch_release(&batch->batch);
        mem_free(batch);
    }
}
