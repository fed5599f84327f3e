/*
 * lease.c - settling what was claimed: hf_ack, hf_nack, hf_release, hf_release_after, hf_bury,
 * hf_touch.
 *
 * Settling names the lease by its text, in this process or another, so nothing about the batch is
 * in memory. Acknowledging and releasing need only the lease and the positions. Failing, and
 * releasing for later, need the story so far, which the store is asked for; whatever happened to
 * the lease between the question and the settling is found out by the settling, which then answers
 * HF_STALE and changes nothing.
 *
 * All of a call is one change of the store, so all of it happens or nothing.
 *
 * Acknowledgements, releases and extensions need not wait for the disk: lost in a power failure,
 * the work is done again. Failed attempts, dead letters and releases for later are records, and
 * wait.
 */
#include "bus/api/lease.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "base/text/hex.h"
#include "base/time/clock.h"
#include "base/time/retry.h"
#include "base/uuid.h"
#include "bus/api/claimed.h"
#include "bus/api/definition_cache.h"
#include "bus/deliver/work/verdict.h"

/* ---- The text -------------------------------------------------------------------------------- */

void lease_format(const uint8_t lease[STORE_TOKEN_BYTES], char out[HF_LEASE_BYTES])
{
    *hex_write(out, lease, STORE_TOKEN_BYTES) = '\0';
}

static int lower_digit(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

hf_status lease_parse(const char *text, uint8_t ret_lease[STORE_TOKEN_BYTES])
{
    size_t length = strlen(text);
    if (length != HF_LEASE_BYTES - 1) {
        return fail(HF_INVALID, "lease is %zu characters; it has %d hexadecimal digits", length,
                    HF_LEASE_BYTES - 1);
    }
    uint8_t lease[STORE_TOKEN_BYTES];
    for (size_t i = 0; i < STORE_TOKEN_BYTES; i++) {
        int high = lower_digit(text[2 * i]);
        int low = lower_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return fail(HF_INVALID, "lease has no lower-case hexadecimal digit at byte %zu",
                        high < 0 ? 2 * i : 2 * i + 1);
        }
        lease[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret_lease, lease, sizeof lease);
    return HF_OK;
}

hf_status lease_check_mode(hf_mode mode, struct text name)
{
    return mode == HF_MODE_SHARED
               ? HF_OK
               : fail(HF_MISUSE,
                      "subscription %" TEXT_PRI " is ordered; only shared ones hand out leases "
                      "(handlers process its events, or holdfast work)",
                      TEXT_ARG(name));
}

void lease_keep_texts(struct arena *arena, struct outcome *outcome)
{
    outcome->attempts_json = arena_text(arena, outcome->attempts_json);
    outcome->error = arena_text(arena, outcome->error);
}

/* ---- What is to be settled ------------------------------------------------------------------- */

/* The arguments that all calls have, checked. */
struct target {
    int64_t subscription_id;
    uint8_t lease[STORE_TOKEN_BYTES];
    int64_t *positions; /* ascending, each once; owned */
    size_t count;
    bool all;        /* no positions were given: everything that is left */
    bool remembered; /* the subscription of that name may be another one by now */
};

static void target_release(struct target *target)
{
    mem_free(target->positions);
    target->positions = NULL;
}

static int compare_positions(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* A position that is named twice is meant once. */
static hf_status positions_copy(const int64_t *positions, size_t count, struct target *target)
{
    if (!positions && count > 0) {
        return fail(HF_INVALID, "positions is NULL but count is %zu", count);
    }
    if (count > HF_CLAIM_MAX) {
        return fail(HF_INVALID, "count is %zu; the limit is %d", count, HF_CLAIM_MAX);
    }
    target->all = !positions;
    target->positions = mem_calloc(count, sizeof *positions);
    if (!target->positions) {
        return fail(HF_NOMEM, "out of memory for %zu positions", count);
    }
    if (count > 0) {
        memcpy(target->positions, positions, count * sizeof *positions);
        qsort(target->positions, count, sizeof *positions, compare_positions);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || target->positions[kept - 1] != target->positions[i]) {
            target->positions[kept++] = target->positions[i];
        }
    }
    target->count = kept;
    return HF_OK;
}

/* Just enough of a subscription for an acknowledgement: no options, no patterns. */
struct brief {
    int64_t id;
    hf_mode mode;
};

static int brief_row(const struct subscription_row *row, void *ctx)
{
    struct brief *brief = ctx;
    *brief = (struct brief){row->id, row->mode};
    return 0;
}

static hf_status subscription_brief(hf_bus *bus, const char *name, int64_t *ret_id)
{
    struct text text = text_of(name);
    hf_status status = glob_check_name(text, "subscription name", HF_NAME_BYTES_MAX);
    if (status) {
        return status;
    }
    struct brief brief = {0};
    status = store_subscription_get(bus->store, text, brief_row, &brief);
    if (status == HF_NOTFOUND) {
        return fail(HF_NOTFOUND, "there is no subscription %s", name);
    }
    if (!status) {
        status = lease_check_mode(brief.mode, text);
    }
    if (!status) {
        *ret_id = brief.id;
    }
    return status;
}

/* Checks what does not need the store. */
static hf_status target_check(const hf_bus *bus, const char *subscription, const char *lease,
                              struct target *target)
{
    *target = (struct target){0};
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!subscription || !lease) {
        return fail(HF_INVALID, "%s is NULL", subscription ? "lease" : "subscription");
    }
    return lease_parse(lease, target->lease);
}

/* `recall`: with the subscription as it is remembered, if it is. */
static hf_status target_init(hf_bus *bus, const char *subscription, const char *lease,
                             const int64_t *positions, size_t count, bool recall,
                             struct target *target)
{
    hf_status status = target_check(bus, subscription, lease, target);
    if (!status) {
        status = positions_copy(positions, count, target);
    }
    if (!status && recall) {
        target->remembered = definition_cache_id(bus, subscription, &target->subscription_id);
    }
    if (!status && !target->remembered) {
        status = subscription_brief(bus, subscription, &target->subscription_id);
    }
    return status;
}

/* How the call has ended, for the metrics. */
static void note_settled(hf_bus *bus, const char *subscription, const struct target *target,
                         enum outcome_kind kind, hf_status status)
{
    struct claimed_part part = {target->lease, target->positions, target->count, target->all};
    claimed_settled(bus, subscription, &part, kind, status);
}

static struct settle_lease settle_of(const struct target *target, int64_t now_us, bool relaxed)
{
    struct settle_lease settle = {
        .change = {.kind = CHANGE_SETTLE_LEASE, .now_us = now_us, .relaxed = relaxed},
        .subscription_id = target->subscription_id,
    };
    memcpy(settle.lease, target->lease, sizeof settle.lease);
    return settle;
}

/* ---- Done, given back ------------------------------------------------------------------------ */

/* Settles every position the same way. */
static hf_status settle_plain(hf_bus *bus, const struct target *target, enum outcome_kind kind)
{
    struct settle_lease settle = settle_of(target, clock_wall_us(), true);
    settle.all = target->all && kind == OUTCOME_DONE;
    settle.release_all = target->all && kind == OUTCOME_RELEASE;
    settle.count = target->count;
    settle.outcomes = mem_calloc(target->count, sizeof *settle.outcomes);
    if (!settle.outcomes) {
        return fail(HF_NOMEM, "out of memory for %zu outcomes", target->count);
    }
    for (size_t i = 0; i < target->count; i++) {
        settle.outcomes[i] =
            (struct outcome){.kind = kind, .position = target->positions[i], .attempts = -1};
    }
    hf_status status = bus_run(bus, &settle.change);
    mem_free(settle.outcomes);
    return status;
}

/* A lease that is not in the subscription as we remember it may be in another one that has its name
 * now: that is looked up. Nothing has happened yet, so it is done again. */
static hf_status settle_named(hf_bus *bus, const char *subscription, const char *lease,
                              const int64_t *positions, size_t count, enum outcome_kind kind)
{
    for (bool recall = true;; recall = false) {
        struct target target;
        hf_status status = target_init(bus, subscription, lease, positions, count, recall, &target);
        if (!status) {
            status = settle_plain(bus, &target, kind);
        }
        bool over = !target.remembered || (status != HF_STALE && status != HF_NOTFOUND);
        if (over) {
            note_settled(bus, subscription, &target, kind, status);
        }
        target_release(&target);
        if (over) {
            return status;
        }
        definition_cache_forget(bus, subscription);
    }
}

hf_status hf_ack(hf_bus *bus, const char *subscription, const char *lease, const int64_t *positions,
                 size_t count)
{
    return settle_named(bus, subscription, lease, positions, count, OUTCOME_DONE);
}

hf_status hf_release(hf_bus *bus, const char *subscription, const char *lease,
                     const int64_t *positions, size_t count)
{
    return settle_named(bus, subscription, lease, positions, count, OUTCOME_RELEASE);
}

/* ---- Failed ---------------------------------------------------------------------------------- */

/* Keeps those entries that the target names; without positions, all. HF_STALE if one is missing. */
static hf_status choose(const struct target *target, struct batch *left)
{
    if (target->all) {
        return HF_OK;
    }
    size_t at = 0;
    size_t kept = 0;
    for (size_t i = 0; i < target->count; i++) {
        int64_t position = target->positions[i];
        while (at < left->count && left->entries[at].event.position < position) {
            at++;
        }
        if (at == left->count || left->entries[at].event.position != position) {
            return fail(HF_STALE, "position %" PRId64 " is not in the lease (any more)", position);
        }
        left->entries[kept++] = left->entries[at++];
    }
    left->count = kept;
    return HF_OK;
}

/* Waits until `next_us` with the story that it has: no attempt is added to it. */
static struct outcome put_off(const struct entry *entry, int64_t next_us)
{
    return (struct outcome){
        .kind = OUTCOME_RETRY,
        .position = entry->event.position,
        .lane = entry->lane,
        .attempts = entry->attempts,
        .uncounted = entry->uncounted,
        .attempts_json = entry->attempts_json,
        .cause = entry->cause,
        .unit = entry->unit,
        .next_attempt_us = next_us,
        .waited = entry->waited,
    };
}

static hf_status judge(hf_bus *bus, const struct definition *definition, struct batch *left,
                       const struct ending *ending, int64_t now_us, struct outcome *outcomes)
{
    struct buf story;
    buf_init(&story, LEASE_STORY_BYTES_MAX);
    hf_status status = HF_OK;
    for (size_t i = 0; i < left->count && !status; i++) {
        if (ending->verdict == HF_ACK) { /* hf_release_after: it has not failed */
            outcomes[i] = put_off(&left->entries[i], now_us + ending->delay_ms * 1000);
            continue;
        }
        buf_clear(&story);
        status =
            verdict_outcome(&definition->options, &left->entries[i], ending,
                            text_of(bus->node_name), now_us, random_u64(), &story, &outcomes[i]);
        if (!status) {
            lease_keep_texts(&left->arena, &outcomes[i]);
            status = arena_status(&left->arena);
        }
    }
    buf_release(&story);
    return status;
}

static hf_status settle_failed(hf_bus *bus, const struct target *target,
                               const struct definition *definition, const struct ending *ending,
                               struct batch *left)
{
    int64_t now_us = clock_wall_us();
    struct settle_lease settle = settle_of(target, now_us, false);
    settle.count = left->count;
    settle.outcomes = mem_calloc(left->count, sizeof *settle.outcomes);
    if (!settle.outcomes) {
        return fail(HF_NOMEM, "out of memory for %zu outcomes", left->count);
    }
    hf_status status = judge(bus, definition, left, ending, now_us, settle.outcomes);
    struct halt halt;
    settle.pause =
        verdict_halt(&definition->options, settle.outcomes, settle.count, bus->node_name, &halt);
    HF_POINT("lease_read_before_settle");
    if (!status) {
        status = bus_run(bus, &settle.change);
    }
    for (size_t i = 0; !status && ending->verdict != HF_ACK && i < left->count; i++) {
        meter_outcome(meters_of(&bus->meters, definition->name.bytes), &settle.outcomes[i]);
        verdict_log(&bus->log, definition->name.bytes, &definition->options, &left->entries[i],
                    &settle.outcomes[i], ending->error.bytes, now_us);
    }
    mem_free(settle.outcomes);
    return status;
}

/* Finds the subscription, which must be shared. */
static hf_status target_load(hf_bus *bus, const char *subscription, struct definition *definition,
                             struct target *target)
{
    hf_status status = definition_load(bus, subscription, definition);
    if (!status) {
        status = lease_check_mode(definition->options.mode, definition->name);
    }
    if (!status) {
        target->subscription_id = definition->id;
    }
    return status;
}

/* hf_nack, hf_bury and hf_release_after, whose verdict is HF_ACK. */
static hf_status settle_with_story(hf_bus *bus, const char *subscription, const char *lease,
                                   const int64_t *positions, size_t count,
                                   const struct ending *ending)
{
    struct target target;
    struct definition definition;
    struct batch left;
    definition_init(&definition);
    batch_init(&left);
    hf_status status = target_check(bus, subscription, lease, &target);
    if (!status) {
        status = positions_copy(positions, count, &target);
    }
    if (!status) {
        status = target_load(bus, subscription, &definition, &target);
    }
    if (!status) {
        status = store_lease_read(bus->store, definition.id, target.lease, &left);
    }
    if (!status) {
        status = choose(&target, &left);
    }
    if (!status) {
        status = settle_failed(bus, &target, &definition, ending, &left);
    }
    if (!status || status == HF_STALE) {
        note_settled(bus, subscription, &target,
                     ending->verdict == HF_ACK ? OUTCOME_RELEASE : OUTCOME_RETRY, status);
    }
    batch_release(&left);
    definition_release(&definition);
    target_release(&target);
    return status;
}

static struct text error_or(const char *error, const char *general)
{
    return text_of(error && *error ? error : general);
}

hf_status hf_nack(hf_bus *bus, const char *subscription, const char *lease,
                  const int64_t *positions, size_t count, int64_t delay_ms, const char *error)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (delay_ms < -1 || delay_ms > RETRY_DELAY_MS_MAX) {
        return fail(HF_INVALID,
                    "delay_ms is %" PRId64 "; it must be -1 (by the retry policy) or 0 to %" PRId64,
                    delay_ms, RETRY_DELAY_MS_MAX);
    }
    struct ending ending = {
        .verdict = HF_RETRY,
        .delay_ms = delay_ms,
        .error = error_or(error, "hf_nack was called without an error text"),
    };
    return settle_with_story(bus, subscription, lease, positions, count, &ending);
}

hf_status hf_release_after(hf_bus *bus, const char *subscription, const char *lease,
                           const int64_t *positions, size_t count, int64_t delay_ms)
{
    struct ending ending = {.verdict = HF_ACK, .delay_ms = delay_ms};
    hf_status status = bus_check(bus);
    if (!status && (delay_ms < 0 || delay_ms > RETRY_DELAY_MS_MAX)) {
        status = fail(HF_INVALID, "delay_ms is %" PRId64 "; it must be 0 to %" PRId64, delay_ms,
                      RETRY_DELAY_MS_MAX);
    }
    return status ? status : settle_with_story(bus, subscription, lease, positions, count, &ending);
}

hf_status hf_bury(hf_bus *bus, const char *subscription, const char *lease,
                  const int64_t *positions, size_t count, const char *error)
{
    struct ending ending = {
        .verdict = HF_DEAD,
        .delay_ms = -1,
        .error = error_or(error, "hf_bury was called without an error text"),
    };
    return settle_with_story(bus, subscription, lease, positions, count, &ending);
}

/* ---- More time ------------------------------------------------------------------------------- */

hf_status hf_touch(hf_bus *bus, const char *subscription, const char *lease, int64_t lease_ms)
{
    struct target target;
    struct definition definition;
    definition_init(&definition);
    hf_status status = target_check(bus, subscription, lease, &target);
    if (!status && lease_ms != -1 && (lease_ms < 1 || lease_ms > STORE_LEASE_MS_MAX)) {
        status = fail(HF_INVALID, "lease_ms is %" PRId64 "; it must be -1 (as stored) or 1 to %d",
                      lease_ms, STORE_LEASE_MS_MAX);
    }
    if (!status) {
        status = target_load(bus, subscription, &definition, &target);
    }
    if (!status) {
        int64_t now_us = clock_wall_us();
        struct settle_lease settle = settle_of(&target, now_us, true);
        settle.extend_us =
            now_us + (lease_ms == -1 ? definition.options.lease_ms : lease_ms) * 1000;
        status = bus_run(bus, &settle.change);
    }
    definition_release(&definition);
    return status;
}
