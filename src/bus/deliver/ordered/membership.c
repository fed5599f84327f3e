/*
 * membership.c - sharing the partitions of a subscription with other processes, and owning ours.
 *
 *              acquire            too many, or stopping             all is stored
 *     (free) -----------> OURS ------------------------> LEAVING -----------------> (free)
 *                          |                                |
 *                          |    another has taken over      |
 *                          +-------------> LOST <-----------+
 *                                           |   nothing of it runs
 *                                           +------------------------> (not ours)
 *
 * Every process that has handlers for the subscription is a member. A refresh tells who they are
 * and whose each partition is; share.c says from that which are ours. What is more than our share
 * we give back; what is free we take. Which are ours may also be fixed (assign.c): then we take
 * these and no others, and those who share out leave them to us. A process that joins, leaves or
 * gives back changes the subscription's version of the members and rings, so the others refresh the
 * members at once. A death is not announced, so while there are others we refresh the members every
 * now and then.
 *
 * A partition that comes to us is read from its checkpoint, while the others are far ahead: the
 * reader goes back to the lowest floor, and what was put into the window before is not put again.
 * A partition that goes is closed: nothing more of it begins, what runs ends and is stored, what is
 * done above its checkpoint is remembered in the store, and then it is given back. So the process
 * that gets it neither misses nor repeats an event, and no two processes work on one key.
 *
 * Another number of partitions (struct repartition): while it is requested, nothing is handed out
 * beyond the barrier, which is the highest checkpoint of all partitions as a refresh tells it. So
 * each of us ends what is in hand, and a member that is behind comes up to the barrier. When all
 * are there each gives its partitions back, and the last one fulfils the request; all refresh the
 * members again and share out the new ones. What was done beyond the barrier (above a gap) is
 * remembered in the store.
 *
 * If this process dies, others see it and take over from the checkpoint. If it is frozen and wakes
 * up later its settles are refused: the partition is lost, and what is in hand of it is dropped.
 */
#include "bus/deliver/ordered/ordered.h"

#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/deliver/ordered/assign.h"
#include "bus/deliver/ordered/share.h"

#define MEMBERS_REFRESH_AGAIN_US                                                                   \
    200000                    /* between two refreshes for the sake of others, at least ... */
#define REFRESHES_PER_LEASE 4 /* refreshes per lease, to notice a member that stands still */

struct part *ordered_part(struct ordered *ordered, int32_t partition)
{
    int16_t place = partition < ordered->room ? ordered->places[partition] : -1;
    return place < 0 ? NULL : &ordered->parts[place];
}

/* ---- What is ours ---------------------------------------------------------------------------- */

static void set_bit(struct ordered *ordered, int32_t partition, bool on)
{
    uint64_t bit = UINT64_C(1) << (partition % 64);
    uint64_t *word = &ordered->bits[partition / 64];
    *word = on ? *word | bit : *word & ~bit;
}

/* Nothing more of it begins. The mutex is held. */
static void part_close(struct runner *runner, struct part *part, enum part_state state)
{
    part->state = state;
    set_bit(runner->ordered, part->number, false);
    window_close(&runner->window, part->number);
}

/* It is not in hand any more, and what was handed up of it has gone with it: if it comes back it is
 * read again from its checkpoint. Nothing of it runs. */
static void part_forget(struct runner *runner, struct part *part)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    set_bit(ordered, part->number, false);
    window_forget(&runner->window, part->number);
    set64_remove_value(&ordered->handed, part->number);
    set64_remove_value(&ordered->ahead, part->number);
    ordered->places[part->number] = -1;
    ordered->part_count--;
    if (part != &ordered->parts[ordered->part_count]) {
        *part = ordered->parts[ordered->part_count];
        ordered->places[part->number] = (int16_t)(part - ordered->parts);
    }
    pthread_mutex_unlock(&runner->mutex);
}

void membership_lose(struct runner *runner, int32_t partition)
{
    struct part *part = ordered_part(runner->ordered, partition);
    if (part && part->state != PART_LOST) {
        part_close(runner, part, PART_LOST);
        meter_count(&runner->meter->leases_lost, 1);
        runner_call(runner, 0);
    }
}

void membership_drop(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    window_clear(&runner->window, &runner->batch_pool);
    runner_lower(runner, BAR_LOST);
    while (ordered->part_count > 0) {
        struct part *part = &ordered->parts[--ordered->part_count];
        set_bit(ordered, part->number, false);
        ordered->places[part->number] = -1;
    }
    pthread_mutex_unlock(&runner->mutex);
    follower_close(ordered->follower);
    ordered->follower = NULL;
    set64_clear(&ordered->ahead);
    set64_clear(&ordered->handed);
    ordered->handed_top = 0;
    ordered->handed_short = false;
    ordered->ahead_end = INT64_MAX;
    ordered->unflushed_us = 0;
    ordered->passed_us = 0;
    runner_take(runner, NEED_LOG_REST | NEED_CHECKPOINT);
    settlement_clear(&runner->settlement);
}

/* ---- Is it still ours? ----------------------------------------------------------------------- */

static int confirm(int32_t partition, int64_t epoch, void *ctx)
{
    struct part *part = ordered_part(ctx, partition);
    if (part) {
        part->confirmed = part->epoch == epoch;
    }
    return 0;
}

void membership_say_lost(struct runner *runner, int64_t generation)
{
    bool same = generation == runner->ordered->generation;
    runner_say(runner, HF_LOG_WARN, "lost the subscription: %s",
               same ? "another process has taken over" : "it was moved or changed");
}

bool membership_check(struct runner *runner, int64_t generation)
{
    struct ordered *ordered = runner->ordered;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        ordered->parts[i].confirmed = false;
    }
    struct standing standing;
    hf_status status =
        store_standing(runner->bus->store, runner->definition.id, &standing, confirm, ordered);
    bool same = !status && standing.generation == generation;
    bool all = !status;
    pthread_mutex_lock(&runner->mutex);
    runner->members_version = status ? runner->members_version : standing.members_version;
    for (int32_t i = 0; i < ordered->part_count && !status; i++) {
        if (!ordered->parts[i].confirmed && ordered->parts[i].state != PART_LOST) {
            membership_lose(runner, ordered->parts[i].number);
            all = false;
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    if (!status && !all) {
        membership_say_lost(runner, standing.generation);
    }
    if (!all || !same) {
        runner_need(runner, NEED_DEFINITION);
    }
    return all && same;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* What cannot be given back is owed: no process can take it while ours lives. */
static void give_back(struct runner *runner, int32_t number, int64_t epoch, int64_t now_us)
{
    struct give_back give_back = {
        .change = {.kind = CHANGE_GIVE_BACK, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = number,
        .epoch = epoch,
    };
    hf_status status = runner_run(runner, &give_back.change);
    bool failed = status && status != HF_STALE && status != HF_NOTFOUND;
    runner->ordered->owing[number] = failed ? epoch : 0;
    if (failed) {
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name, "cannot give partition %d back: %s",
                  number, err_message());
    }
}

static void give_back_part(struct runner *runner, const struct part *part, int64_t now_us)
{
    give_back(runner, part->number, part->epoch, now_us);
}

static void tell_of_crash(struct runner *runner, const struct acquire *acquire)
{
    if (acquire->ret_crashed > 0 || acquire->ret_unclean) {
        log_about(&runner->bus->log, HF_LOG_WARN, runner->name,
                  "the previous worker died; %d attempt%s counted%s", acquire->ret_crashed,
                  acquire->ret_crashed == 1 ? "" : "s",
                  acquire->ret_unclean ? "; going on carefully, one event at a time" : "");
    }
}

/* Adds a partition that was acquired. */
static hf_status part_add(struct runner *runner, const struct acquire *acquire)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    struct part *part = &ordered->parts[ordered->part_count];
    *part = (struct part){
        .number = acquire->partition,
        .epoch = acquire->ret_epoch,
        .checkpoint = acquire->ret_checkpoint,
        .floor = acquire->ret_checkpoint,
        .unclean = acquire->ret_unclean,
        .doubt_through = acquire->ret_doubt_through,
    };
    ordered->places[part->number] = (int16_t)ordered->part_count++;
    ordered->owing[part->number] = 0;
    set_bit(ordered, part->number, true);
    window_checkpoint(&runner->window, part->number, part->checkpoint);
    pthread_mutex_unlock(&runner->mutex);
    hf_status status = ordered_load(runner, part);
    if (!status && part->unclean) {
        int64_t first;
        ordered->prerecord = runner->definition.options.inflight_max;
        status = store_head(runner->bus->store, &ordered->prerecord_end, &first);
    }
    if (status) {
        runner_store_failed(runner, status, "loading the subscription's state");
        runner_need(runner, NEED_MEMBERS);
        give_back_part(runner, part, acquire->change.now_us);
        part_forget(runner, part);
        return status;
    }
    if (acquire->ret_generation != runner->definition.generation) {
        runner_need(runner, NEED_DEFINITION);
    }
    if (ordered->generation != runner->definition.generation) {
        runner_need(runner, NEED_OWNERSHIP); /* unless it is the first: take_share */
    }
    tell_of_crash(runner, acquire);
    return HF_OK;
}

/* It was acquired by another definition than ours: is it what we think it is? */
static bool is_stranger(struct runner *runner, const struct acquire *acquire)
{
    if (acquire->ret_generation == runner->definition.generation) {
        return false;
    }
    runner_need(runner, NEED_DEFINITION);
    runner_refresh(runner, clock_mono_us());
    return runner_needs(runner, NEED_DEFINITION) ||
           runner->definition.options.partitions != runner->window.partitions;
}

/* HF_BUSY: another process has it. */
static hf_status take(struct runner *runner, int32_t partition, bool force, int64_t now_us)
{
    const hf_subscription_options *options = &runner->definition.options;
    struct acquire acquire = {
        .change = {.kind = CHANGE_ACQUIRE, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .partition = partition,
        .lease_ms = options->lease_ms,
        .attempts_max = options->attempts_max,
        .retry_max_ms = options->retry_max_ms,
        .lane = options->order == HF_ORDER_STRICT ? STRICT_LANE : 0,
        .force = force,
    };
    hf_status status = runner_run(runner, &acquire.change);
    if (!status && is_stranger(runner, &acquire)) {
        struct part stranger = {.number = partition, .epoch = acquire.ret_epoch};
        give_back_part(runner, &stranger, now_us);
        runner_need(runner, NEED_MEMBERS);
        return HF_CONFLICT;
    }
    if (!status) {
        return part_add(runner, &acquire);
    }
    if (status == HF_NOTFOUND || status == HF_INVALID) { /* removed, or it has fewer partitions */
        runner_need(runner, NEED_DEFINITION);
    } else if (status != HF_BUSY) {
        runner_store_failed(runner, status, "taking over the subscription");
        runner_need(runner, NEED_MEMBERS);
    }
    return status;
}

/* The runner's follower rested, and there is something for it. */
static void look_at_log(void *ctx)
{
    struct runner *runner = ctx;
    pthread_mutex_lock(&runner->mutex);
    runner_need(runner, NEED_LOG | NEED_TURN);
    pthread_mutex_unlock(&runner->mutex);
}

/*
 * The reader must begin at the lowest floor, also if that is its own: above a gap it has passed
 * events of the partition that is new. What it has handed up above a partition's floor is not to be
 * put again.
 */
static hf_status open_reader(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    int64_t lowest = INT64_MAX;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        const struct part *part = &ordered->parts[i];
        lowest = part->state == PART_OURS && part->floor < lowest ? part->floor : lowest;
    }
    if (lowest == INT64_MAX) {
        return HF_OK;
    }
    size_t cursor = 0;
    uint64_t position;
    int64_t partition;
    hf_status status = ordered->handed_short
                           ? fail(HF_NOMEM, "more events were read above a gap than can be known")
                           : HF_OK;
    while (!status && set64_next(&ordered->handed, &cursor, &position, &partition)) {
        status = set64_put(&ordered->ahead, position, partition);
    }
    struct follower *follower = NULL;
    if (!status) {
        status = follower_open(runner->bus->tail, lowest, ordered_is_strict(runner),
                               runner->definition.options.gap_timeout_ms, &follower);
    }
    if (status) {
        return status;
    }
    follower_close(ordered->follower);
    follower_own(follower, (struct follower_owner){&runner->seat, look_at_log, runner,
                                                   &runner->rests, false});
    ordered->follower = follower;
    ordered->floor = lowest;
    runner_need(runner, NEED_LOG);
    set64_clear(&ordered->handed);
    ordered->handed_top = 0;
    return HF_OK;
}

void membership_read_again(struct runner *runner)
{
    hf_status status = open_reader(runner);
    if (status) {
        runner_store_failed(runner, status, "reading the log");
        pthread_mutex_lock(&runner->mutex);
        runner_raise(runner, BAR_LOST); /* drop all, and begin again */
        pthread_mutex_unlock(&runner->mutex);
    }
}

/* ---- Sharing --------------------------------------------------------------------------------- */

/* How many are ours and shall stay so. */
static int32_t count_ours(const struct ordered *ordered)
{
    int32_t ours = 0;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        ours += ordered->parts[i].state == PART_OURS ? 1 : 0;
    }
    return ours;
}

/* Closes what is not for us, then what is more than our share, the newest first. */
static void close_surplus(struct runner *runner, const struct share *share)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    for (int32_t i = 0; i < ordered->part_count; i++) {
        struct part *part = &ordered->parts[i];
        if (part->state == PART_OURS && !ranges_has(&share->may, part->number)) {
            part_close(runner, part, PART_LEAVING);
        }
    }
    int32_t ours = count_ours(ordered);
    for (int32_t i = ordered->part_count - 1; i >= 0 && ours > share->size; i--) {
        if (ordered->parts[i].state == PART_OURS) {
            part_close(runner, &ordered->parts[i], PART_LEAVING);
            ours--;
        }
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* How many of the partitions that we may have are free. */
static int32_t count_free(const struct members_refresh *refresh, const struct share *share)
{
    int32_t count = 0;
    for (int32_t i = 0; i < refresh->ret_partitions; i++) {
        count += refresh->ret_owners[i] == MEMBERS_REFRESH_FREE && ranges_has(&share->may, i);
    }
    return count;
}

/* Takes what is free, up to our share. Members begin at different places, so that two of them
 * seldom reach for the same one. */
static void take_share(struct runner *runner, const struct members_refresh *refresh,
                       const struct share *share, bool force, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    int32_t total = refresh->ret_partitions;
    int32_t ours = count_ours(ordered);
    int32_t start = (int32_t)((int64_t)total * refresh->ret_self / refresh->ret_members);
    bool first = ordered->part_count == 0; /* what leaves was read by the old patterns */
    int32_t taken = 0;
    for (int32_t i = 0; i < total && ours < share->size; i++) {
        int32_t partition = (start + i) % total;
        int32_t owner = refresh->ret_owners[partition];
        bool free = owner == MEMBERS_REFRESH_FREE || owner == MEMBERS_REFRESH_SELF ||
                    owner == refresh->ret_self;
        if ((!free && !force) || ordered->places[partition] >= 0 ||
            !ranges_has(&share->may, partition)) {
            continue;
        }
        hf_status status = take(runner, partition, force, now_us);
        if (!status) {
            ours++;
            taken++;
        } else if (status != HF_BUSY) {
            break;
        }
    }
    if (taken == 0) {
        return;
    }
    runner_store_worked(runner);
    if (first) {
        ordered->generation = runner->definition.generation;
        runner_take(runner, NEED_RESET | NEED_OWNERSHIP);
    }
    ordered->retry_at_us = now_us;
    ordered->owned_before = true;
    /* When several take at once, each leaves the remainder to one that has more by then, and in the
     * end none may have it. No news comes of that: look again. */
    if (count_free(refresh, share) > taken) {
        runner_need(runner, NEED_MEMBERS_SOON);
    }
    membership_read_again(runner);
    runner_say(runner, HF_LOG_INFO, "processing %d of %d partitions from position %lld", ours,
               total, (long long)ordered->floor);
}

/* Another number of partitions is requested: are all equally far, and ours to stay so? */
static bool is_drained(const struct runner *runner, const struct members_refresh *refresh)
{
    const struct ordered *ordered = runner->ordered;
    bool drained = runner->definition.wanted > 0 && refresh->ret_lowest == refresh->ret_highest;
    for (int32_t i = 0; i < ordered->part_count && drained; i++) {
        drained = ordered->parts[i].floor <= refresh->ret_highest;
    }
    return drained;
}

/* What the store says is ours though it is not in hand (a seek takes it away from us like that, or
 * we have dropped all) and is more than our share is taken only to be given back: no other process
 * can take it while we live. */
static void return_forgotten(struct runner *runner, const struct members_refresh *refresh,
                             int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    hf_status status = HF_OK;
    for (int32_t i = 0; i < refresh->ret_partitions && !status; i++) {
        int32_t owner = refresh->ret_owners[i];
        bool ours = owner == MEMBERS_REFRESH_SELF || (owner >= 0 && owner == refresh->ret_self);
        if (!ours || ordered->places[i] >= 0) {
            continue;
        }
        status = take(runner, i, false, now_us);
        if (!status) {
            pthread_mutex_lock(&runner->mutex);
            part_close(runner, ordered_part(ordered, i), PART_LEAVING);
            pthread_mutex_unlock(&runner->mutex);
        }
    }
}

/* What should be ours. `force`: it is to be taken from the process that has it. */
static struct share our_share(const struct runner *runner, const struct members_refresh *refresh,
                              bool *ret_force)
{
    *ret_force = false;
    if (runner->definition.options.instance_mode != HF_INSTANCE_SINGLE) {
        return share_of(refresh);
    }
    struct share share = {0};
    bool newest = refresh->ret_self == refresh->ret_members - 1;
    if (newest && !refresh->ret_claimants.fixed[refresh->ret_self]) {
        *ret_force = !runner->ordered->owned_before;
        share.size = refresh->ret_partitions;
        for (int32_t i = 0; i < share.size; i++) {
            ranges_put(&share.may, i);
        }
    }
    return share;
}

static void say_standing_by(struct runner *runner, const struct members_refresh *refresh)
{
    const struct ordered *ordered = runner->ordered;
    if (refresh->ret_claimants.fixed[refresh->ret_self]) {
        assign_say_waiting(runner);
    } else if (ordered->part_count == 0 && !runner->retry_store_us && !ordered->drained) {
        runner_say(runner, HF_LOG_INFO, "stands by: %s has it, and is alive",
                   refresh->ret_other_name[0] ? refresh->ret_other_name : "another process");
    }
}

static void refresh_members(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    const hf_subscription_options *options = &runner->definition.options;
    char assigned[RANGES_BYTES_MAX];
    struct members_refresh refresh = {
        .change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .lease_ms = options->lease_ms,
        .assigned = assign_text(runner, assigned),
    };
    hf_status status = runner_run(runner, &refresh.change);
    if (status == HF_NOTFOUND) {
        runner_need(runner, NEED_DEFINITION);
        return;
    }
    if (status) {
        runner_store_failed(runner, status, "taking part in the subscription");
        runner_need(runner, NEED_MEMBERS); /* when the store may be asked again */
        return;
    }
    ordered->membership = MEMBERSHIP_SHARED;
    ordered->members_version = refresh.ret_members_version;
    pthread_mutex_lock(&runner->mutex);
    runner->members_version = refresh.ret_members_version;
    pthread_mutex_unlock(&runner->mutex);
    ordered->barrier = refresh.ret_highest;
    ordered->drained = is_drained(runner, &refresh);
    if (refresh.ret_partitions != runner->window.partitions) {
        runner_need(runner, NEED_DEFINITION);
        runner_need(runner, NEED_MEMBERS);
        return;
    }
    bool force;
    struct share share = our_share(runner, &refresh, &force);
    if (ordered->drained) {
        share = (struct share){0};
    }
    close_surplus(runner, &share);
    take_share(runner, &refresh, &share, force, now_us);
    return_forgotten(runner, &refresh, now_us);
    /* No death is news for us: there is nothing more that we would take. */
    if ((refresh.ret_members == 1 && count_ours(ordered) == refresh.ret_partitions) ||
        assign_has_all(runner)) {
        ordered->membership = MEMBERSHIP_ALONE;
    }
    say_standing_by(runner, &refresh);
}

/* Does something of the closed partition run? What has only been taken is taken back. */
static bool is_busy(struct runner *runner, const struct part *part)
{
    struct window *window = &runner->window;
    pthread_mutex_lock(&runner->mutex);
    if (window->shares[part->number].busy > 0) {
        chunk_cut_all(runner);
        window_close(window, part->number);
        runner_signal_work(runner);
    }
    bool busy = window->shares[part->number].busy > 0;
    pthread_mutex_unlock(&runner->mutex);
    return busy;
}

/* Lets go of partitions that are closed and of which nothing runs any more. */
static void let_go(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    for (int32_t i = ordered->part_count - 1; i >= 0; i--) {
        struct part *part = &ordered->parts[i];
        if (part->state == PART_OURS || is_busy(runner, part)) {
            continue; /* the worker's report comes */
        }
        bool all = true;
        hf_status status = HF_OK;
        if (part->state == PART_LEAVING) {
            status =
                ordered_flush_part(runner, part, now_us, !runner_needs(runner, NEED_RESET), &all);
            if (!status && all) {
                status = ordered_remember(runner, part, now_us);
            }
            if (status) {
                ordered_not_settled(runner, part, status);
                runner_need(runner, ordered_is_answered(status) ? NEED_TURN : 0);
                continue;
            }
            if (!all) {
                runner_need(runner, NEED_TURN);
                continue;
            }
            give_back_part(runner, part, now_us);
        }
        part_forget(runner, part);
        runner_need(runner,
                    NEED_MEMBERS); /* a seek takes it away from us, too, and leaves it ours */
    }
}

hf_status membership_leave(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    if (ordered->membership == MEMBERSHIP_NONE) {
        return HF_OK;
    }
    struct members_refresh refresh = {
        .change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .lease_ms = runner->definition.options.lease_ms,
        .leaves = true,
    };
    hf_status status = runner_run(runner, &refresh.change);
    runner_need(runner, NEED_MEMBERS);
    if (status && status != HF_NOTFOUND) {
        return status;
    }
    ordered->membership = MEMBERSHIP_NONE;
    return HF_OK;
}

bool membership_give_back(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool all = true;
    for (int32_t i = 0; i < ordered->part_count; i++) {
        if (ordered->parts[i].state != PART_LOST) {
            give_back_part(runner, &ordered->parts[i], now_us);
        }
    }
    membership_drop(runner);
    runner_need(runner, NEED_MEMBERS);
    for (int32_t i = 0; i < ordered->room; i++) {
        all = all && !ordered->owing[i];
    }
    return all;
}

bool membership_give_back_pending(struct runner *runner, int64_t now_us)
{
    struct ordered *ordered = runner->ordered;
    bool all = true;
    for (int32_t i = 0; i < ordered->room; i++) {
        if (ordered->owing[i]) {
            give_back(runner, i, ordered->owing[i], now_us);
            all = all && !ordered->owing[i];
        }
    }
    return all;
}

/* When to refresh the members next (monotonic). Where the store does not look for the end of
 * others by itself, that is for us to do; else it makes news of it, and we only watch for one
 * that stands still. */
static int64_t members_refresh_at(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    pthread_mutex_lock(&runner->mutex);
    bool now = runner_needs(runner, NEED_MEMBERS) ||
               runner->members_version != ordered->members_version ||
               ordered->membership == MEMBERSHIP_NONE || assign_changed(runner);
    pthread_mutex_unlock(&runner->mutex);
    if (now) {
        return 0;
    }
    if (runner->definition.wanted > 0) { /* how far are the others? */
        return ordered->members_refreshed_us + MEMBERS_REFRESH_AGAIN_US;
    }
    if (ordered->membership == MEMBERSHIP_ALONE) {
        return INT64_MAX;
    }
    int64_t look_us = store_look_ms(runner->bus->store) * 1000;
    int64_t again_us = runner->definition.options.lease_ms * 1000 / REFRESHES_PER_LEASE;
    again_us = again_us < look_us ? again_us : look_us;
    bool soon = runner_needs(runner, NEED_MEMBERS_SOON) || again_us < MEMBERS_REFRESH_AGAIN_US;
    return ordered->members_refreshed_us + (soon ? MEMBERS_REFRESH_AGAIN_US : again_us);
}

bool membership_make_room(struct runner *runner)
{
    struct ordered *ordered = runner->ordered;
    int32_t partitions = runner->definition.options.partitions;
    if (ordered->part_count > 0 || partitions == runner->window.partitions) {
        return true;
    }
    hf_status status = ordered_make_room(ordered, partitions);
    pthread_mutex_lock(&runner->mutex);
    bool busy = runner->window.busy > 0;
    if (!status && !busy) {
        status = window_repartition(&runner->window, &runner->batch_pool, partitions);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (status) {
        runner_store_failed(runner, status, "changing the number of partitions");
    }
    return !status && !busy;
}

/* All partitions have come to the barrier, and we have none any more. */
static void fulfil(struct runner *runner, int64_t now_us)
{
    struct repartition repartition = {
        .change = {.kind = CHANGE_REPARTITION, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .lease_ms = runner->definition.options.lease_ms,
        .attempts_max = runner->definition.options.attempts_max,
    };
    HF_POINT("before_repartition");
    hf_status status = runner_run(runner, &repartition.change);
    HF_POINT("after_repartition");
    if (status == HF_BUSY) {
        runner_say(runner, HF_LOG_INFO, "waits for %d partitions: %s", runner->definition.wanted,
                   err_message());
        return;
    }
    if (status && status != HF_NOTFOUND) {
        runner_store_failed(runner, status, "changing the number of partitions");
        return;
    }
    if (repartition.ret_changed) {
        runner_say(runner, HF_LOG_INFO, "has %d partitions now, from position %lld on",
                   runner->definition.wanted, (long long)runner->ordered->barrier);
    }
    runner_need(runner, NEED_DEFINITION);
    runner_need(runner, NEED_MEMBERS);
}

/* While we are a member no other process takes our share. */
static void leave_to_others(struct runner *runner, int64_t now_us)
{
    bool member = runner->ordered->membership != MEMBERSHIP_NONE;
    hf_status status = membership_leave(runner, now_us);
    if (status) {
        runner_store_failed(runner, status, "leaving the others to work");
    } else if (member) {
        runner_store_worked(runner);
    }
}

/* Do our handlers not cover the patterns? Those of others may. What is only paused we keep. */
static bool is_leaving(struct runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool leaving = (runner->bars & BAR_HELD_BACK) && runner->definition.paused_at_us < 0 &&
                   !runner_needs(runner, NEED_DEFINITION | NEED_ADMISSION);
    pthread_mutex_unlock(&runner->mutex);
    return leaving;
}

/* Refreshes the members if it is time. */
static void members_refresh_in_time(struct runner *runner, const struct turn *turn)
{
    struct ordered *ordered = runner->ordered;
    int64_t mono_us = clock_mono_us();
    if (mono_us < members_refresh_at(runner)) {
        return;
    }
    ordered->members_refreshed_us = mono_us;
    runner_take(runner, NEED_MEMBERS | NEED_MEMBERS_SOON);
    if (ordered->membership == MEMBERSHIP_ALONE) {
        ordered->membership = MEMBERSHIP_SHARED;
    }
    refresh_members(runner, turn->now_us);
    let_go(runner, turn->now_us);
    if (ordered->drained && ordered->part_count == 0) {
        fulfil(runner, turn->now_us);
        runner_need(runner, runner_needs(runner, NEED_DEFINITION) ? NEED_TURN : 0);
    }
}

void membership_tend(struct runner *runner, struct turn *turn)
{
    bool leaving = is_leaving(runner);
    if (leaving) {
        close_surplus(runner, &(struct share){0});
    }
    let_go(runner, turn->now_us);
    if (leaving && runner->ordered->part_count == 0) {
        leave_to_others(runner, turn->now_us);
    }
    if (!runner_may_work(runner)) {
        return;
    }
    members_refresh_in_time(runner, turn);
    int64_t at_us = members_refresh_at(runner);
    if (at_us < INT64_MAX) {
        turn_wake(turn, turn->now_us + (at_us - turn->mono_us));
    }
}
