/*
 * states.c - where an event is in each subscription: hf_event_states.
 *
 * The state of an event in a subscription is not stored; it follows from what the store knows
 * (struct delivery_facts). The first rule that fits decides:
 *
 *     in a lease, or noted as running           processing
 *     in a lease that has ended                 pending
 *     a retry row that waits                    retrying
 *     a retry row that is held                  held
 *     cancelled                                 cancelled
 *     a retry row that is blocked               dead         (its dead letter blocks the key)
 *     a dead letter                             dead
 *     at or before the start                    not for it   (the start moves with a seek)
 *     no pattern matches                        not for it   (unless on_unhandled=dead_letter, and
 *                                                            it has not come to it yet)
 *     settled ahead, or up to the checkpoint
 *     (ordered) or the cursor (shared)          done
 *     otherwise                                 pending
 *
 * Rows come first because they say what is true now: a dead letter that was retried waits again,
 * wherever the checkpoint is.
 *
 * The store is asked about all subscriptions at once. What it answers is collected before the first
 * callback, so callbacks may do what they like, and comes back in the order of the names.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/set64.h"
#include "base/time/clock.h"
#include "bus/api/inspect.h"
#include "store/common/filter.h"

#define STATES_BYTES_MAX ((size_t)256 << 20) /* texts about one event */

/* ---- States ---------------------------------------------------------------------------------- */

const char *hf_state_name(hf_state state)
{
    switch (state) {
    case HF_STATE_NOT_FOR_IT:
        return "not_for_it";
    case HF_STATE_PENDING:
        return "pending";
    case HF_STATE_PROCESSING:
        return "processing";
    case HF_STATE_RETRYING:
        return "retrying";
    case HF_STATE_HELD:
        return "held";
    case HF_STATE_DONE:
        return "done";
    case HF_STATE_DEAD:
        return "dead";
    case HF_STATE_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

/* What a subscription makes of an event of some type. */
struct interest {
    hf_mode mode;
    bool wanted;
    bool unhandled_too; /* what is not wanted becomes a dead letter */
};

static struct interest interest_of(const struct definition *definition, struct text type)
{
    struct filter filter = definition_filter(definition);
    return (struct interest){
        .mode = definition->options.mode,
        .wanted = text_is_absent(type) || filter_matches(&filter, type),
        .unhandled_too = filter.unhandled_too,
    };
}

/* The state of an event of which only checkpoint and cursor tell. */
static hf_state plain_state(struct interest interest, int64_t position,
                            const struct delivery_facts *facts)
{
    int64_t reached = interest.mode == HF_MODE_SHARED ? facts->cursor : facts->checkpoint;
    bool past = facts->settled || position <= reached;
    if (!interest.wanted && (past || !interest.unhandled_too)) {
        return HF_STATE_NOT_FOR_IT;
    }
    return past ? HF_STATE_DONE : HF_STATE_PENDING;
}

static hf_state state_of(struct interest interest, int64_t position,
                         const struct delivery_facts *facts)
{
    if (facts->leased) {
        return HF_STATE_PROCESSING;
    }
    if (facts->holder.ended) {
        return HF_STATE_PENDING;
    }
    if (facts->waiting) {
        return HF_STATE_RETRYING;
    }
    if (facts->held) {
        return HF_STATE_HELD;
    }
    if (facts->cancelled_at_us >= 0) {
        return HF_STATE_CANCELLED;
    }
    if (facts->blocked || facts->dead_id >= 0) {
        return HF_STATE_DEAD;
    }
    if (position <= facts->start) {
        return HF_STATE_NOT_FOR_IT;
    }
    return plain_state(interest, position, facts);
}

hf_state inspect_state(const struct definition *definition, int64_t position, struct text type,
                       const struct delivery_facts *facts)
{
    return state_of(interest_of(definition, type), position, facts);
}

/* ---- All subscriptions ----------------------------------------------------------------------- */

/* A subscription, and what the store knows of the event in it. */
struct lane {
    int64_t id;
    const char *name;
    struct interest interest;
    bool known; /* the store has answered: it was not removed meanwhile */
    struct delivery_facts facts;
    struct text story;
};

struct looking {
    struct text type;
    int64_t now_us;
    struct arena arena; /* all texts */
    struct definition definition;
    struct lane *lanes; /* by name */
    size_t count, capacity;
    struct set64 places; /* of the lanes by the ids of their subscriptions */
    hf_status status;
};

static hf_status add_lane(struct looking *looking, const struct subscription_row *row)
{
    if (looking->count == looking->capacity) {
        size_t capacity = looking->capacity ? 2 * looking->capacity : 64;
        struct lane *grown = mem_realloc(looking->lanes, capacity * sizeof *grown);
        if (!grown) {
            return fail(HF_NOMEM, "out of memory for the states of an event");
        }
        looking->lanes = grown;
        looking->capacity = capacity;
    }
    hf_status status = definition_parse(row, &looking->definition);
    if (!status) {
        status = set64_put(&looking->places, (uint64_t)row->id, (int64_t)looking->count);
    }
    if (!status) {
        looking->lanes[looking->count++] = (struct lane){
            .id = row->id,
            .name = arena_text(&looking->arena, row->name).bytes,
            .interest = interest_of(&looking->definition, looking->type),
        };
        status = arena_status(&looking->arena);
    }
    return status;
}

static int see_subscription(const struct subscription_row *row, void *ctx)
{
    struct looking *looking = ctx;
    looking->status = add_lane(looking, row);
    return looking->status != HF_OK;
}

static int see_facts(int64_t subscription_id, const struct delivery_facts *facts, struct text story,
                     void *ctx)
{
    struct looking *looking = ctx;
    int64_t place;
    if (set64_get(&looking->places, (uint64_t)subscription_id, &place)) {
        struct lane *lane = &looking->lanes[place];
        lane->known = true;
        lane->facts = *facts;
        lane->facts.cancelled_by = arena_text(&looking->arena, facts->cancelled_by);
        lane->facts.cancel_reason = arena_text(&looking->arena, facts->cancel_reason);
        lane->story = arena_text(&looking->arena, story);
    }
    return 0;
}

static hf_status ask_facts(hf_bus *bus, const struct entry *entry, struct looking *looking)
{
    struct delivery_query query = {
        .id = entry->id,
        .position = entry->event.position,
        .hash = entry->hash,
        .now_us = looking->now_us,
    };
    int64_t *ids = mem_calloc(looking->count + 1, sizeof *ids);
    if (!ids) {
        return fail(HF_NOMEM, "out of memory for the states of an event");
    }
    for (size_t i = 0; i < looking->count; i++) {
        ids[i] = looking->lanes[i].id;
    }
    hf_status status =
        store_delivery_facts_each(bus->store, &query, ids, looking->count, see_facts, looking);
    mem_free(ids);
    return status ? status : arena_status(&looking->arena);
}

static hf_event_state tell(const struct lane *lane, int64_t position, int64_t now_us)
{
    const struct delivery_facts *facts = &lane->facts;
    hf_event_state told = {
        .subscription = lane->name,
        .state = state_of(lane->interest, position, facts),
        .attempts = facts->attempts,
        .attempts_json = lane->story.bytes,
        .next_attempt_at_us = -1,
        .dead_id = -1,
        .cause = cause_name(facts->cause).bytes,
        .deliveries = facts->deliveries,
        .since_us = -1,
        .cancelled_at_us = -1,
        .cancel_requested = facts->cancel_asked_us >= 0,
    };
    if (told.state == HF_STATE_CANCELLED || told.cancel_requested) {
        told.cancelled_at_us = facts->cancelled_at_us;
        told.cancelled_by = facts->cancelled_by.bytes;
        told.cancel_reason = facts->cancel_reason.bytes;
    }
    if (told.state == HF_STATE_PROCESSING) {
        told.node = facts->holder.node[0] ? facts->holder.node : NULL;
        told.since_us = facts->holder.since_us;
    }
    if (told.state == HF_STATE_RETRYING) {
        told.next_attempt_at_us = facts->next_attempt_us;
    }
    if (told.state == HF_STATE_DEAD) {
        told.dead_id = facts->dead_id;
    }
    if (told.state == HF_STATE_RETRYING && facts->cursor < 0 && facts->next_attempt_us <= now_us) {
        told.deliveries = -1; /* its owner may have handed it out again by now */
    }
    return told;
}

/* Collects everything, then calls back. */
static hf_status tell_states(hf_bus *bus, const struct entry *entry, struct looking *looking,
                             hf_event_state_fn found, void *ctx)
{
    hf_status status = store_subscription_list(bus->store, see_subscription, looking);
    status = status ? status : looking->status;
    if (!status) {
        status = ask_facts(bus, entry, looking);
    }
    for (size_t i = 0; i < looking->count && !status; i++) {
        const struct lane *lane = &looking->lanes[i];
        if (lane->known) {
            hf_event_state told = tell(lane, entry->event.position, looking->now_us);
            if (found(&told, ctx) != 0) {
                break;
            }
        }
    }
    return status;
}

static hf_status look(hf_bus *bus, const struct entry *entry, hf_event_state_fn found, void *ctx)
{
    struct looking looking = {
        .type = text_of(entry->event.type),
        .now_us = clock_wall_us(),
    };
    arena_init(&looking.arena, STATES_BYTES_MAX);
    definition_init(&looking.definition);
    set64_init(&looking.places, SIZE_MAX);
    hf_status status = tell_states(bus, entry, &looking, found, ctx);
    set64_release(&looking.places);
    definition_release(&looking.definition);
    arena_release(&looking.arena);
    mem_free(looking.lanes);
    return status;
}

hf_status hf_event_states(hf_bus *bus, const char *id, hf_event_state_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!id || !found) {
        return fail(HF_INVALID, "%s is NULL", id ? "found" : "id");
    }
    struct batch batch;
    batch_init(&batch);
    status = inspect_find_event(bus, id, &batch);
    if (!status) {
        status = look(bus, &batch.entries[0], found, ctx);
    }
    batch_release(&batch);
    return status;
}
