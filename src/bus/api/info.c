/*
 * info.c - everything about a subscription: hf_subscription_list and hf_subscription_get.
 *
 * Most of it is copied from the definition and the store's progress. What is made here is the
 * sentence that says why it is not moving. The first reason that holds is told, the one that must
 * be dealt with first:
 *
 *     paused                                    by whom, why
 *     its number of partitions changes          from, to, who is slowest
 *     nothing is left to do                     no sentence
 *     the breaker is open                       until when
 *     ordered, it has no owner                  no process with handlers for it is started
 *     ordered, its owner is dead                waits for another process to take over
 *     shared, nothing is in flight, and what
 *     could be claimed was not for a second     since when, and how many leases have ended
 *     a partition has no owner, and none
 *     may take it                               which ones
 *     all that is left is in keys that are
 *     blocked by dead letters                   how many, and what frees them
 *     all that is left waits for its retry      how many, and until when
 *     a position below visible ones may still
 *     come from an open transaction             which one that is
 *
 * Otherwise no reason is known and it counts as moving. Whether a shared subscription has workers
 * is not written down anywhere: a worker is known by what it claims.
 */
#include "base/breaker.h"
#include "base/err.h"
#include "base/ranges.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "base/uuid.h"
#include "bus/api/inspect.h"

#define SENTENCE_BYTES_MAX 4096
#define GAP_NEWS_MS 1000               /* for so long a publisher may be under way */
#define CLAIM_NEWS_US INT64_C(1000000) /* for so long a worker may be about to claim */

/* One subscription being told about; reused for the next one. */
struct telling {
    struct definition definition;
    struct progress progress;
    struct pending pending;
    int64_t looks; /* at the log, so far */
    const char *patterns[HF_PATTERNS_MAX];
    char event_id[UUID_TEXT_BYTES];
    struct buf sentence;
    hf_subscription_info info;
};

static void telling_init(struct telling *telling)
{
    definition_init(&telling->definition);
    telling->looks = 0;
    buf_init(&telling->sentence, SENTENCE_BYTES_MAX);
}

static void telling_release(struct telling *telling)
{
    buf_release(&telling->sentence);
    definition_release(&telling->definition);
}

/* ---- The breaker ----------------------------------------------------------------------------- */

/* "open" becomes "half_open" when the pause is over: the next delivery is the probe. */
static void tell_breaker(const struct definition *definition, int64_t now_us,
                         hf_subscription_info *info)
{
    info->breaker = NULL;
    info->breaker_until_us = -1;
    if (definition->options.breaker != HF_ON) {
        return;
    }
    struct breaker breaker;
    breaker_init(&breaker);
    if (!text_is_absent(definition->breaker_json) &&
        breaker_read(definition->breaker_json, &breaker)) {
        breaker_init(&breaker);
    }
    if (breaker.state == BREAKER_OPEN) {
        int64_t longest_us = now_us + definition->options.breaker_pause_ms * 1000;
        info->breaker_until_us = breaker.until_us < longest_us ? breaker.until_us : longest_us;
        if (breaker.until_us <= now_us) {
            breaker.state = BREAKER_HALF_OPEN;
        }
    }
    info->breaker = breaker_state_name(breaker.state);
}

/* ---- The sentence ---------------------------------------------------------------------------- */

static void say_paused(const struct definition *definition, struct buf *out)
{
    char at[TIME_TEXT_BYTES];
    time_format(definition->paused_at_us, at);
    buf_printf(out, "it was paused at %s", at);
    if (!text_is_absent(definition->paused_by)) {
        buf_printf(out, " by %" TEXT_PRI, TEXT_ARG(definition->paused_by));
    }
    if (!text_is_absent(definition->paused_reason)) {
        buf_printf(out, ": %" TEXT_PRI, TEXT_ARG(definition->paused_reason));
    }
}

static void say_breaker(const hf_subscription_info *info, struct buf *out)
{
    char until[TIME_TEXT_BYTES];
    time_format(info->breaker_until_us, until);
    buf_printf(out,
               "its circuit breaker is open: too many first attempts failed; the next probe "
               "is due at %s",
               until);
}

static void say_blocked(const hf_subscription_info *info, struct buf *out)
{
    buf_printf(out,
               "%" PRId64 " %s blocked by dead letters and %" PRId64
               " events wait behind %s; retry "
               "or resolve the dead letters",
               info->blocked, info->blocked == 1 ? "key is" : "keys are", info->held,
               info->blocked == 1 ? "it" : "them");
}

static void say_retrying(const hf_subscription_info *info, int64_t next_attempt_us, struct buf *out)
{
    /* Whether they failed is not said: some were only released for later. */
    buf_printf(out, "%" PRId64 " %s next attempt", info->retrying,
               info->retrying == 1 ? "event waits for its" : "events wait for their");
    if (info->held > 0) {
        buf_printf(out, ", and %" PRId64 " behind %s", info->held,
                   info->retrying == 1 ? "it" : "them");
    }
    if (next_attempt_us >= 0) {
        char at[TIME_TEXT_BYTES];
        time_format(next_attempt_us, at);
        buf_printf(out, "; %s due at %s", info->retrying == 1 ? "it is" : "the first is", at);
    }
}

/* Events that are visible above a position that may still come. Publishers of the last moment are
 * no news. */
static void say_gaps(const struct gap_facts *gaps, bool strict, struct buf *out)
{
    if (gaps->missing == 0 || gaps->pid == 0) {
        return; /* a gap that no transaction may fill is passed by itself */
    }
    if (gaps->held_ms >= 0 && gaps->held_ms < GAP_NEWS_MS) {
        return;
    }
    buf_printf(out,
               "position %" PRId64 " may still come, from a transaction that has published and "
               "has not ended: %s; ",
               gaps->missing, gaps->holders);
    if (gaps->count >= STORE_GAPS_MAX) {
        buf_printf(out, "%d gaps are open, so nothing is read ahead", STORE_GAPS_MAX);
    } else if (strict) {
        buf_printf(out, "order is strict, so later events wait for it");
    } else {
        buf_printf(out, "later events are delivered, the checkpoint waits");
    }
}

static void say_changing(const struct definition *definition, const hf_subscription_info *info,
                         struct buf *out)
{
    buf_printf(out,
               "it is changing from %d to %d partitions: nothing new begins until all are equally "
               "far; the slowest is at position %" PRId64,
               definition->options.partitions, definition->wanted, info->checkpoint);
    if (!info->owner) {
        buf_printf(out, "; no worker is running for it");
    }
}

/* "65 s", "12 min", "3 h", "2 d" */
static void say_time(int64_t us, struct buf *out)
{
    static const struct {
        int64_t from_s;
        int64_t unit_s;
        const char *unit;
    } units[] = {{172800, 86400, "d"}, {7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};
    int64_t seconds = us / 1000000;
    size_t i = 0;
    while (seconds < units[i].from_s) {
        i++;
    }
    buf_printf(out, "%" PRId64 " %s", seconds / units[i].unit_s, units[i].unit);
}

/* A shared subscription without claims. */
static void say_unclaimed(const hf_subscription_info *info, int64_t now_us, struct buf *out)
{
    if (info->claimed_at_us < 0) {
        buf_printf(out, "no worker has claimed anything yet");
    } else {
        buf_printf(out, "no worker has claimed anything for ");
        say_time(now_us > info->claimed_at_us ? now_us - info->claimed_at_us : 0, out);
    }
    if (info->lease_ended == 1) {
        buf_printf(out, "; the lease of the 1 event that was handed out has ended");
    } else if (info->lease_ended > 1) {
        buf_printf(out, "; the leases of all %" PRId64 " events that were handed out have ended",
                   info->lease_ended);
    }
}

/* Why a subscription does not move. */
enum stillness {
    STILL_NOT, /* it moves, or has nothing to do */
    STILL_PAUSED,
    STILL_CHANGING,
    STILL_BREAKER,
    STILL_BLOCKED, /* all that is left waits behind a dead letter */
    STILL_UNOWNED,
    STILL_ORPHANED,  /* its owner is dead */
    STILL_UNCLAIMED, /* shared: no worker takes what is there */
    STILL_RETRYING,
};

/* Whether there are events that no delivery was begun of; also if that is not known. */
static bool has_fresh(const hf_subscription_info *info)
{
    return info->pending > 0 || info->pending_more;
}

/* Since when something could have been claimed and was not; INT64_MAX: nothing could. */
static int64_t unclaimed_since_us(const struct telling *telling, const hf_subscription_info *info,
                                  int64_t now_us)
{
    const struct progress *progress = &telling->progress;
    const struct pending *pending = &telling->pending;
    int64_t since_us = INT64_MAX;
    if (pending->count > 0) {
        since_us = pending->first_at_us;
    } else if (pending->more) {
        since_us = info->created_at_us;
    }
    if (progress->lease_ended > 0 && progress->lease_ended_us < since_us) {
        since_us = progress->lease_ended_us;
    }
    if (progress->next_attempt_us >= 0 && progress->next_attempt_us < since_us &&
        progress->next_attempt_us <= now_us) {
        since_us = progress->next_attempt_us;
    }
    return since_us < progress->claimed_at_us ? progress->claimed_at_us : since_us;
}

/* Nothing is in flight, and for a while no worker has come. */
static bool is_unclaimed(const struct telling *telling, const hf_subscription_info *info,
                         int64_t now_us)
{
    int64_t since_us = unclaimed_since_us(telling, info, now_us);
    return info->options.mode == HF_MODE_SHARED && info->in_flight == 0 && since_us != INT64_MAX &&
           now_us - since_us >= CLAIM_NEWS_US;
}

static bool has_work(const hf_subscription_info *info)
{
    return has_fresh(info) || info->retrying + info->held > 0 || info->in_flight > 0;
}

/* Whether a worker runs a handler, or could begin with an event. In strict order nothing passes a
 * delivery that waits. */
static bool is_moving(const hf_subscription_info *info)
{
    bool strict = info->options.mode == HF_MODE_ORDERED && info->options.order == HF_ORDER_STRICT;
    bool stands = strict && info->retrying + info->blocked > 0;
    return info->in_flight > 0 || (has_fresh(info) && !stands);
}

/* Why no process works for it, if none does. */
static enum stillness why_alone(const struct telling *telling, const hf_subscription_info *info,
                                int64_t now_us)
{
    if (info->options.mode == HF_MODE_ORDERED && !(info->owner && info->owner_alive)) {
        return info->owner ? STILL_ORPHANED : STILL_UNOWNED;
    }
    return is_unclaimed(telling, info, now_us) ? STILL_UNCLAIMED : STILL_NOT;
}

/* The first reason that holds. Of a subscription without work only a pause or a change of its
 * partitions is worth a word, because these were asked for. */
static enum stillness why_still(const struct telling *telling, const hf_subscription_info *info,
                                int64_t now_us)
{
    const struct definition *definition = &telling->definition;
    bool blocked = info->retrying == 0 && info->blocked > 0;
    if (definition->paused_at_us >= 0) {
        return STILL_PAUSED;
    }
    if (definition->wanted > 0) {
        return STILL_CHANGING;
    }
    if (!has_work(info)) {
        return STILL_NOT;
    }
    if (info->breaker && strcmp(info->breaker, "open") == 0) {
        return STILL_BREAKER;
    }
    if (blocked && !has_fresh(info)) {
        return STILL_BLOCKED; /* no process could help */
    }
    enum stillness alone = why_alone(telling, info, now_us);
    if (alone != STILL_NOT || is_moving(info)) {
        return alone;
    }
    return blocked ? STILL_BLOCKED : STILL_RETRYING;
}

/* Leaves the sentence empty if there is no reason. */
static void say_why(const struct telling *telling, const hf_subscription_info *info, int64_t now_us,
                    struct buf *out)
{
    const struct definition *definition = &telling->definition;
    switch (why_still(telling, info, now_us)) {
    case STILL_NOT:
        return;
    case STILL_PAUSED:
        say_paused(definition, out);
        return;
    case STILL_CHANGING:
        say_changing(definition, info, out);
        return;
    case STILL_BREAKER:
        say_breaker(info, out);
        return;
    case STILL_BLOCKED:
        say_blocked(info, out);
        return;
    case STILL_UNOWNED:
        buf_printf(out, "no worker is running for it: no started process has handlers for all its "
                        "patterns");
        return;
    case STILL_ORPHANED:
        buf_printf(out, "its owner %s is dead and no other process has taken over", info->owner);
        return;
    case STILL_UNCLAIMED:
        say_unclaimed(info, now_us, out);
        return;
    case STILL_RETRYING:
        say_retrying(info, telling->progress.next_attempt_us, out);
        return;
    }
}

static int see_unowned(const hf_partition_info *partition, void *ctx)
{
    if (partition->state == HF_PARTITION_UNOWNED) {
        ranges_put(ctx, partition->partition);
    }
    return 0;
}

/* Partitions that no process may take, because all that run were assigned others. */
static hf_status say_unowned(hf_bus *bus, int64_t id, struct buf *out)
{
    struct ranges unowned = {{0}};
    hf_status status = partitions_look(bus, id, see_unowned, &unowned);
    int32_t count = ranges_count(&unowned);
    if (!status && count > 0) {
        char text[RANGES_BYTES_MAX];
        ranges_format(&unowned, text);
        buf_printf(out, "%spartition%s %s %s no owner, and no process that runs may take %s",
                   out->length > 0 ? "; " : "", count == 1 ? "" : "s", text,
                   count == 1 ? "has" : "have", count == 1 ? "it" : "them");
    }
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* When the oldest unsettled event of a subscription entered the log; -1: there is none, or none was
 * found. */
static int64_t oldest_unsettled_us(const struct progress *progress, const struct pending *pending)
{
    int64_t open_us = progress->oldest_open_us;
    int64_t first_us = pending->first_at_us;
    return open_us < 0 || (first_us >= 0 && first_us < open_us) ? first_us : open_us;
}

/* What is pending: what was counted in the log, and what ended leases have left. */
static void tell_pending(const struct telling *telling, hf_subscription_info *info)
{
    info->pending = telling->pending.count + telling->progress.lease_ended;
    info->pending_more = telling->pending.more ? 1 : 0;
    if (info->pending > HF_PENDING_MAX) {
        info->pending = HF_PENDING_MAX;
        info->pending_more = 1;
    }
    info->oldest_waiting_us = oldest_unsettled_us(&telling->progress, &telling->pending);
}

static void tell_progress(struct telling *telling, hf_subscription_info *info)
{
    const struct progress *progress = &telling->progress;
    info->checkpoint = progress->checkpoint;
    info->checkpoint_at_us = progress->checkpoint_at_us;
    info->checkpoint_event_id = NULL;
    if (progress->has_event_id) {
        uuid_format(progress->checkpoint_event_id, telling->event_id);
        info->checkpoint_event_id = telling->event_id;
    }
    bool shared = info->options.mode == HF_MODE_SHARED;
    info->cursor = shared ? progress->cursor : -1;
    info->head = progress->head;
    info->lag = progress->head > progress->checkpoint ? progress->head - progress->checkpoint : 0;
    info->in_flight = progress->in_flight;
    info->lease_ended = shared ? progress->lease_ended : -1;
    info->claimed_at_us = shared ? progress->claimed_at_us : -1;
    info->retrying = progress->retrying;
    info->held = progress->held;
    info->blocked = progress->blocked;
    info->dead = progress->dead;
    info->rate = progress->rate;
    info->owner = !shared && progress->owned ? progress->owner_name : NULL;
    info->owner_alive = info->owner && progress->owner_alive ? 1 : 0;
}

/* Why nothing is said: partitions that no process may take, a position that may still come. */
static hf_status say_rest(hf_bus *bus, struct telling *telling, hf_subscription_info *info)
{
    const struct definition *definition = &telling->definition;
    hf_status status = HF_OK;
    bool moves = telling->sentence.length == 0 && info->lag > 0;
    if (telling->progress.unowned > 0 && info->owner_alive && (moves || definition->wanted > 0)) {
        status = say_unowned(bus, definition->id, &telling->sentence);
    }
    if (!status && telling->sentence.length == 0 && info->lag > 0) {
        struct gap_facts gaps;
        status = store_gaps(bus->store, definition->id, &gaps);
        if (!status) {
            info->holes = gaps.count;
            say_gaps(&gaps, info->options.order == HF_ORDER_STRICT, &telling->sentence);
        }
    }
    return status;
}

/* What is pending of a subscription that is not at the end of the log. Of a list the first
 * LIST_LOOKS_MAX of them are looked at as one alone would be, the others briefly. */
static hf_status look_for_pending(hf_bus *bus, struct telling *telling)
{
    struct pending_query query = {
        .subscription_id = telling->definition.id,
        .filter = definition_filter(&telling->definition),
        .max = HF_PENDING_MAX,
        .brief = telling->looks >= LIST_LOOKS_MAX,
    };
    telling->pending = (struct pending){.first_at_us = -1};
    if (telling->progress.head <= telling->progress.checkpoint) {
        return HF_OK;
    }
    telling->looks++;
    return store_pending(bus->store, &query, &telling->pending);
}

/* The definition and the progress are loaded. */
static hf_status tell(hf_bus *bus, struct telling *telling, int64_t now_us,
                      hf_subscription_fn found, void *ctx, bool *ret_stop)
{
    const struct definition *definition = &telling->definition;
    hf_subscription_info *info = &telling->info;
    hf_status status = look_for_pending(bus, telling);
    if (status) {
        return status;
    }
    *info = (hf_subscription_info){
        .name = definition->name.bytes,
        .patterns = telling->patterns,
        .pattern_count = definition->pattern_count,
        .options = definition->options,
        .created_at_us = definition->created_at_us,
        .start_position = definition->start,
        .dropped_through = definition->dropped_through,
        .dropped = definition->dropped,
        .paused_at_us = definition->paused_at_us,
        .paused_by = definition->paused_by.bytes,
        .paused_reason = definition->paused_reason.bytes,
    };
    for (size_t i = 0; i < definition->pattern_count; i++) {
        telling->patterns[i] = definition->patterns[i].bytes;
    }
    tell_progress(telling, info);
    info->holes = info->lag == 0 || !store_has_gaps(bus->store) ? 0 : -1;
    tell_pending(telling, info);
    tell_breaker(definition, now_us, info);
    buf_clear(&telling->sentence);
    say_why(telling, info, now_us, &telling->sentence);
    status = say_rest(bus, telling, info);
    if (status) {
        return status;
    }
    if (telling->sentence.length > 0) {
        info->not_moving = buf_terminate(&telling->sentence);
    }
    *ret_stop = found(info, ctx) != 0;
    return HF_OK;
}

/* Telling about several. */
struct telling_all {
    hf_bus *bus;
    struct telling *telling;
    int64_t now_us;
    hf_subscription_fn found;
    void *ctx;
    hf_status status;
};

static int tell_next(int64_t id, const struct progress *progress, void *ctx)
{
    struct telling_all *all = ctx;
    bool stop = false;
    all->telling->progress = *progress;
    hf_status status = definition_load_id(all->bus, id, &all->telling->definition);
    if (!status) {
        status = tell(all->bus, all->telling, all->now_us, all->found, all->ctx, &stop);
    }
    /* One that was removed while we look is not one of the namespace's any more. */
    all->status = status == HF_NOTFOUND ? HF_OK : status;
    return all->status || stop;
}

static hf_status tell_all(hf_bus *bus, const struct subscription_ids *ids, struct telling *telling,
                          hf_subscription_fn found, void *ctx)
{
    struct telling_all all = {
        .bus = bus,
        .telling = telling,
        .now_us = clock_wall_us(),
        .found = found,
        .ctx = ctx,
    };
    hf_status status =
        store_progress_each(bus->store, ids->ids, ids->count, all.now_us, tell_next, &all);
    return status ? status : all.status;
}

hf_status hf_subscription_list(hf_bus *bus, hf_subscription_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    struct subscription_ids ids;
    struct telling telling;
    subscription_ids_init(&ids);
    telling_init(&telling);
    status = subscription_ids_load(bus, &ids);
    if (!status) {
        status = tell_all(bus, &ids, &telling, found, ctx);
    }
    telling_release(&telling);
    subscription_ids_release(&ids);
    return status;
}

hf_status hf_subscription_get(hf_bus *bus, const char *name, hf_subscription_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!name || !found) {
        return fail(HF_INVALID, "%s is NULL", name ? "found" : "name");
    }
    struct telling telling;
    telling_init(&telling);
    int64_t now_us = clock_wall_us();
    bool stop;
    status = definition_load(bus, name, &telling.definition);
    if (!status) {
        status = store_progress(bus->store, telling.definition.id, now_us, &telling.progress);
    }
    if (!status) {
        status = tell(bus, &telling, now_us, found, ctx, &stop);
    }
    telling_release(&telling);
    return status;
}
