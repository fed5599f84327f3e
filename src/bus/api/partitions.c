/*
 * partitions.c - looking at partitions and at blocked keys: hf_partition_list, hf_blocked_list.
 *
 * The store returns the owner of each partition and the members of the subscription. The state of a
 * partition follows from what the members may take, as share.c decides: a partition that is
 * assigned belongs to the first member that was assigned it, and may be taken by the other members
 * that were; any other may be taken by every member that shares.
 *
 *     a living process has it       and it is assigned to another     moving
 *                                   else                              owned
 *     it has no owner               a process may take it             moving
 *                                   no process may                    unowned
 *
 * Everything is collected before the first callback, so callbacks may do what they like.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/ranges.h"
#include "base/uuid.h"
#include "bus/api/inspect.h"
#include "store/claimants.h"
#include "store/membership.h"

const char *hf_partition_state_name(hf_partition_state state)
{
    switch (state) {
    case HF_PARTITION_UNOWNED:
        return "unowned";
    case HF_PARTITION_OWNED:
        return "owned";
    case HF_PARTITION_MOVING:
        return "moving";
    }
    return "?";
}

/* ---- Partitions ------------------------------------------------------------------------------ */

#define NAMES_BYTES_MAX (2 * HF_PARTITIONS_MAX * (HF_PRODUCER_BYTES_MAX + 1))

/* One look at all partitions. */
struct look {
    struct arena arena; /* names of owners */
    struct claimants claimants;
    int32_t members;
    int32_t sharers;                       /* of them, those who are assigned nothing */
    int16_t wanting[HF_PARTITIONS_MAX];    /* of each partition: how many are assigned it */
    int16_t members_of[HF_PARTITIONS_MAX]; /* of each partition: its owner's number, or -1 */
    int32_t count;
    hf_partition_info infos[HF_PARTITIONS_MAX];
};

static int see_member(struct text assigned, void *ctx)
{
    struct look *look = ctx;
    struct ranges ranges;
    if (look->members == STORE_MEMBERS_MAX) {
        return 1;
    }
    claimants_note(&look->claimants, look->members, assigned);
    look->sharers += look->claimants.fixed[look->members] ? 0 : 1;
    look->members++;
    if (!text_is_absent(assigned) && ranges_parse(assigned, HF_PARTITIONS_MAX, &ranges) == HF_OK) {
        for (int32_t i = 0; i < HF_PARTITIONS_MAX; i++) {
            look->wanting[i] = (int16_t)(look->wanting[i] + (ranges_has(&ranges, i) ? 1 : 0));
        }
    }
    return 0;
}

static int see_partition(const struct partition_row *row, void *ctx)
{
    struct look *look = ctx;
    if (look->count == HF_PARTITIONS_MAX || row->partition != look->count) {
        return 1;
    }
    look->members_of[look->count] = (int16_t)row->member;
    look->infos[look->count++] = (hf_partition_info){
        .partition = row->partition,
        .owner = row->owned ? arena_text(&look->arena, row->owner_name).bytes : NULL,
        .owner_alive = row->owned && row->owner_alive ? 1 : 0,
        .epoch = row->epoch,
        .checkpoint = row->checkpoint,
        .checkpoint_at_us = row->checkpoint_at_us,
        .retrying = row->retrying,
        .held = row->held,
        .blocked = row->blocked,
    };
    return 0;
}

/* What the members make of it. */
static void judge(const struct look *look, int64_t head, hf_partition_info *info)
{
    int32_t claimant = look->claimants.first[info->partition];
    int32_t owner = look->members_of[info->partition];
    bool owner_may =
        owner >= 0 && (claimant >= 0 ? owner == claimant : !look->claimants.fixed[owner]);
    int32_t may = claimant >= 0 ? look->wanting[info->partition] : look->sharers;
    info->assigned = claimant >= 0 ? 1 : 0;
    info->standby = may - (owner_may ? 1 : 0);
    info->lag = head > info->checkpoint ? head - info->checkpoint : 0;
    if (info->owner_alive) {
        bool yields = claimant >= 0 && owner != claimant;
        info->state = yields ? HF_PARTITION_MOVING : HF_PARTITION_OWNED;
    } else {
        info->state = may > 0 ? HF_PARTITION_MOVING : HF_PARTITION_UNOWNED;
    }
}

static hf_status look_at(hf_bus *bus, int64_t subscription_id, struct look *look)
{
    int64_t head;
    hf_status status =
        store_partitions(bus->store, subscription_id, see_member, see_partition, look);
    if (!status) {
        status = arena_status(&look->arena);
    }
    if (!status) {
        status = store_last(bus->store, &head);
    }
    for (int32_t i = 0; i < look->count && !status; i++) {
        judge(look, head, &look->infos[i]);
    }
    return status;
}

hf_status partitions_look(hf_bus *bus, int64_t subscription_id, hf_partition_fn found, void *ctx)
{
    struct look *look = mem_calloc(1, sizeof *look);
    if (!look) {
        return fail(HF_NOMEM, "out of memory for the partitions of a subscription");
    }
    arena_init(&look->arena, NAMES_BYTES_MAX);
    claimants_init(&look->claimants);
    hf_status status = look_at(bus, subscription_id, look);
    for (int32_t i = 0; i < look->count && !status; i++) {
        if (found(&look->infos[i], ctx) != 0) {
            break;
        }
    }
    arena_release(&look->arena);
    mem_free(look);
    return status;
}

hf_status hf_partition_list(hf_bus *bus, const char *subscription, hf_partition_fn found, void *ctx)
{
    int64_t id;
    hf_mode mode;
    hf_status status = inspect_find(bus, subscription, found != NULL, &id, &mode);
    if (status || mode == HF_MODE_SHARED) {
        return status;
    }
    return partitions_look(bus, id, found, ctx);
}

/* ---- Blocked keys ---------------------------------------------------------------------------- */

#define BLOCKED_BYTES_MAX (256 << 20) /* texts of one listing */

struct blocked_look {
    struct arena arena;
    hf_blocked_key *keys;
    size_t count;
    size_t limit;
};

static int see_blocked(const struct blocked_row *row, void *ctx)
{
    struct blocked_look *look = ctx;
    if (look->count == look->limit) {
        return 1;
    }
    char id[UUID_TEXT_BYTES];
    uuid_format(row->event_id, id);
    look->keys[look->count++] = (hf_blocked_key){
        .tenant = arena_text(&look->arena, row->tenant).bytes,
        .key = arena_text(&look->arena, row->key).bytes,
        .partition = row->partition,
        .position = row->position,
        .event_id = row->has_event ? arena_text(&look->arena, text_of(id)).bytes : NULL,
        .type = arena_text(&look->arena, row->type).bytes,
        .dead_id = row->dead_id,
        .since_us = row->since_us,
        .held = row->held,
    };
    return 0;
}

hf_status hf_blocked_list(hf_bus *bus, const char *subscription, int64_t after, size_t limit,
                          hf_blocked_fn found, void *ctx)
{
    int64_t id;
    hf_mode mode;
    hf_status status = inspect_find(bus, subscription, found != NULL, &id, &mode);
    if (status) {
        return status;
    }
    if (after < 0) {
        return fail(HF_INVALID, "after is %lld; it must be 0 or more", (long long)after);
    }
    struct blocked_look look = {
        .limit = limit < HF_BLOCKED_LIST_MAX ? limit : HF_BLOCKED_LIST_MAX,
    };
    if (look.limit == 0) {
        return HF_OK;
    }
    look.keys = mem_calloc(look.limit, sizeof *look.keys);
    if (!look.keys) {
        return fail(HF_NOMEM, "out of memory for blocked keys");
    }
    arena_init(&look.arena, BLOCKED_BYTES_MAX);
    status = store_blocked(bus->store, id, after, (int32_t)look.limit, see_blocked, &look);
    if (!status) {
        status = arena_status(&look.arena);
    }
    for (size_t i = 0; i < look.count && !status; i++) {
        if (found(&look.keys[i], ctx) != 0) {
            break;
        }
    }
    arena_release(&look.arena);
    mem_free(look.keys);
    return status;
}
