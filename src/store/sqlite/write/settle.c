/*
 * settle.c - telling the store what became of deliveries: of a partition, of a lease, and within a
 * handler's transaction.
 *
 * A settle checks that the work is still the caller's, then writes; both within one transaction,
 * so no other process can take the work over in between. Whatever it writes is in one transaction
 * too: after a crash all of it is there or nothing.
 *
 * Rows that leave a lane make the next one wait instead of being held. That happens after all
 * outcomes of a settle were applied, so that it does not matter in which order the caller lists
 * them: the event that goes and the one that is held behind it may come in one settle. A row that
 * is held in a lane where nothing moves would wait for ever: the lane was freed (by an operator, by
 * another settle) while the caller did not know; so it becomes waiting.
 *
 * Losing a settle (they are relaxed: a power failure may take back the last ones) means that the
 * checkpoint is lower, the lease is back, or the retry is due again: the work is done again. What a
 * handler wrote in its own transaction is safe from that, because `settled` or the lease changed in
 * the same transaction: the checkpoint may fall back, those rows do not, and sqlite_enter finds
 * them.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/uuid.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/lease.h"
#include "store/sqlite/write/outcome.h"
#include "store/sqlite/write/partition.h"

/* ---- Of a partition -------------------------------------------------------------------------- */

/* Loads the partition of a mark: it must be ours, of this generation, and not go back. */
static hf_status check_mark(struct sqlite_engine *engine, struct conn *conn,
                            int64_t subscription_id, int64_t generation, const struct mark *mark,
                            struct partition *ret_partition)
{
    hf_status status =
        partition_load(engine, conn, subscription_id, mark->partition, ret_partition);
    if (!status) {
        status = partition_check(engine, ret_partition, mark->partition, mark->epoch);
    }
    if (!status) {
        status = partition_check_generation(ret_partition, generation);
    }
    if (!status && mark->checkpoint >= 0 && mark->checkpoint < ret_partition->checkpoint) {
        status = fail(HF_MISUSE, "checkpoint %lld is below the stored one, %lld",
                      (long long)mark->checkpoint, (long long)ret_partition->checkpoint);
    }
    return status;
}

static hf_status move_checkpoint(struct conn *conn, int64_t subscription_id,
                                 const struct mark *mark, const struct partition *stored,
                                 int64_t now_us)
{
    hf_status status = partition_move(conn, subscription_id, mark, stored, now_us);
    HF_POINT("mid_settle");
    if (status || mark->checkpoint == stored->checkpoint) {
        return status;
    }
    return STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_FOLD, subscription_id, mark->partition,
                         mark->checkpoint);
}

/* The pause that comes with the settle, if there is one. */
static hf_status pause_as_requested(struct sqlite_engine *engine, struct conn *conn,
                                    int64_t subscription_id, const struct pause_request *request,
                                    int64_t now_us)
{
    if (text_is_absent(request->reason)) {
        return HF_OK;
    }
    struct pause pause = {
        .change = {.now_us = now_us},
        .subscription_id = subscription_id,
        .paused = true,
        .by = request->by,
        .reason = request->reason,
    };
    return sqlite_pause(engine, conn, &pause);
}

static hf_status apply_each(struct sqlite_engine *engine, struct conn *conn,
                            const struct outcome_scope *scope, struct outcome *outcomes,
                            size_t count, bool *ret_any_left, bool *ret_any_held)
{
    struct dead_kinds kinds = {.count = 0};
    struct outcome_scope counting = *scope;
    counting.kinds = &kinds;
    for (size_t i = 0; i < count; i++) {
        bool left = false;
        hf_status status = outcome_apply(engine, conn, &counting, &outcomes[i], &left);
        if (status) {
            return status;
        }
        outcomes[i].ret_lane_busy = left || outcomes[i].kind == OUTCOME_BLOCK;
        *ret_any_left = *ret_any_left || left;
        *ret_any_held = *ret_any_held || outcomes[i].kind == OUTCOME_HELD;
    }
    return dead_kinds_store(engine, conn, &kinds);
}

/* Applies all, then promotes in the lanes that rows have left. */
static hf_status apply_outcomes(struct sqlite_engine *engine, struct conn *conn,
                                const struct outcome_scope *scope, struct outcome *outcomes,
                                size_t count)
{
    bool any_left = false;
    bool any_held = false;
    hf_status status = apply_each(engine, conn, scope, outcomes, count, &any_left, &any_held);
    if (status) {
        return status;
    }
    for (size_t i = 0; any_left && i < count; i++) {
        struct outcome *outcome = &outcomes[i];
        if (outcome->ret_lane_busy && outcome->kind != OUTCOME_BLOCK) {
            status = outcome_promote(conn, scope, outcome->left_lane, &outcome->ret_lane_busy);
            if (status) {
                return status;
            }
        }
    }
    for (size_t i = 0; any_held && i < count; i++) {
        if (outcomes[i].kind == OUTCOME_HELD) {
            status = outcome_check_held(conn, scope, outcomes[i].lane, &outcomes[i].ret_due);
            if (status) {
                return status;
            }
        }
    }
    return HF_OK;
}

hf_status sqlite_settle(struct sqlite_engine *engine, struct conn *conn, struct settle *settle)
{
    struct mark mark = {
        .partition = settle->partition,
        .epoch = settle->epoch,
        .checkpoint = settle->checkpoint,
        .last_event_id = settle->last_event_id,
    };
    struct partition partition;
    hf_status status =
        check_mark(engine, conn, settle->subscription_id, settle->generation, &mark, &partition);
    if (status) {
        return status;
    }
    struct outcome_scope scope = {
        .subscription_id = settle->subscription_id,
        .partition = settle->partition,
        .ordered = true,
        .checkpoint = settle->checkpoint >= 0 ? settle->checkpoint : partition.checkpoint,
        .now_us = settle->change.now_us,
        .doubt_through = partition.doubt_through,
    };
    status = apply_outcomes(engine, conn, &scope, settle->outcomes, settle->count);
    if (!status && settle->checkpoint >= 0) {
        status = move_checkpoint(conn, settle->subscription_id, &mark, &partition,
                                 settle->change.now_us);
    }
    if (!status) {
        status = pause_as_requested(engine, conn, settle->subscription_id, &settle->pause,
                                    settle->change.now_us);
    }
    if (!status) {
        settle->ret_generation = partition.generation;
    }
    return status;
}

hf_status sqlite_checkpoints(struct sqlite_engine *engine, struct conn *conn,
                             struct checkpoints *checkpoints)
{
    for (size_t i = 0; i < checkpoints->count; i++) {
        struct mark *mark = &checkpoints->marks[i];
        struct partition partition;
        hf_status status = check_mark(engine, conn, checkpoints->subscription_id,
                                      checkpoints->generation, mark, &partition);
        mark->ret_stale = status == HF_STALE;
        if (!status) {
            checkpoints->ret_generation = partition.generation;
            struct outcome_scope scope = {
                .subscription_id = checkpoints->subscription_id,
                .partition = mark->partition,
                .ordered = true,
                .checkpoint = mark->checkpoint,
                .now_us = checkpoints->change.now_us,
            };
            status = apply_outcomes(engine, conn, &scope, mark->held, mark->held_count);
        }
        if (!status) {
            status = move_checkpoint(conn, checkpoints->subscription_id, mark, &partition,
                                     checkpoints->change.now_us);
        }
        if (status && status != HF_STALE) {
            return status;
        }
    }
    return HF_OK;
}

/* ---- Of a lease ------------------------------------------------------------------------------ */

static hf_status stale_lease(void)
{
    return fail(HF_STALE, "the lease has ended: its events were handed out again or are settled");
}

/* The lease, if it is held and of this subscription; HF_STALE. */
static hf_status load_held(struct conn *conn, const uint8_t token[STORE_TOKEN_BYTES],
                           int64_t subscription_id, struct lease *ret_lease)
{
    hf_status status = lease_load(conn, token, ret_lease);
    if (status == HF_NOTFOUND) {
        return stale_lease();
    }
    if (!status &&
        (ret_lease->subscription_id != subscription_id || ret_lease->piece != LEASE_HELD)) {
        return stale_lease();
    }
    return status;
}

/* Moves the positions whose outcomes are named out of the lease; those to be released into
 * `released`, which has room for all. HF_STALE if one is not there (or is named twice). */
static hf_status take_out(struct lease *lease, const struct settle_lease *settle,
                          struct lease *released)
{
    enum { STAYS, GOES, RELEASED };
    uint8_t *fate = mem_calloc(lease->count, sizeof *fate);
    if (!fate) {
        return fail(HF_NOMEM, "no memory to settle %zu events", settle->count);
    }
    for (size_t i = 0; i < settle->count; i++) {
        struct outcome *outcome = &settle->outcomes[i];
        size_t at = lease_find(lease->positions, lease->count, outcome->position);
        if (at == SIZE_MAX || fate[at] != STAYS) {
            mem_free(fate);
            return fail(HF_STALE, "position %lld is not in the lease",
                        (long long)outcome->position);
        }
        fate[at] = outcome->kind == OUTCOME_RELEASE ? RELEASED : GOES;
        outcome->times = lease_times(lease, at);
    }
    size_t stay = 0;
    for (size_t i = 0; i < lease->count; i++) {
        if (fate[i] == RELEASED) {
            released->times[released->count] = lease_times(lease, i);
            released->positions[released->count++] = lease->positions[i];
        } else if (fate[i] == STAYS) {
            lease_move(lease, stay++, i);
        }
    }
    mem_free(fate);
    lease->count = stay;
    return HF_OK;
}

/* Frees positions of a lease for the next claim. Those that waited wait again, due now, with their
 * story; the others go into a lease without a holder. `freed` loses the former. */
static hf_status set_free(struct conn *conn, int64_t subscription_id, bool has_retries,
                          struct lease *freed, int64_t now_us)
{
    size_t fresh = 0;
    for (size_t i = 0; i < freed->count; i++) {
        if (has_retries) {
            hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_RELEASE, subscription_id,
                                             freed->positions[i], now_us);
            if (status) {
                return status;
            }
            if (conn_changes(conn) > 0) {
                continue;
            }
        }
        lease_move(freed, fresh++, i);
    }
    if (fresh == 0) {
        return HF_OK;
    }
    struct lease rest = {
        .subscription_id = subscription_id,
        .expires_at_us = now_us,
        .piece = LEASE_FREE,
        .positions = freed->positions,
        .times = freed->times,
        .count = fresh,
    };
    random_bytes(rest.token, sizeof rest.token);
    return lease_store(conn, &rest);
}

static hf_status settle_all(struct conn *conn, const struct settle_lease *settle)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_FINISH);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, settle->lease, sizeof settle->lease);
    bind_int(stmt, 2, settle->subscription_id);
    hf_status status = conn_run(conn, stmt);
    if (status || conn_changes(conn) > 0) {
        return status;
    }
    struct lease lease;
    lease_init(&lease);
    status = load_held(conn, settle->lease, settle->subscription_id, &lease);
    struct outcome_scope scope = {
        .subscription_id = settle->subscription_id,
        .now_us = settle->change.now_us,
    };
    for (size_t i = 0; !status && i < lease.count; i++) {
        bool left;
        uint64_t lane;
        status = outcome_finish(conn, &scope, lease.positions[i], -1, &left, &lane);
    }
    if (!status) {
        status = lease_remove(conn, &lease);
    }
    lease_release(&lease);
    return status;
}

static hf_status release_all(struct conn *conn, const struct settle_lease *settle)
{
    struct lease lease;
    lease_init(&lease);
    hf_status status = load_held(conn, settle->lease, settle->subscription_id, &lease);
    if (!status) {
        status = lease_remove(conn, &lease);
    }
    if (!status) {
        status =
            set_free(conn, lease.subscription_id, lease.has_retries, &lease, settle->change.now_us);
    }
    conn->ring = RING_ALL;
    lease_release(&lease);
    return status;
}

static hf_status settle_some(struct sqlite_engine *engine, struct conn *conn,
                             struct settle_lease *settle, struct lease *lease,
                             struct lease *released)
{
    hf_status status = take_out(lease, settle, released);
    struct dead_kinds kinds = {.count = 0};
    struct outcome_scope scope = {
        .subscription_id = settle->subscription_id,
        .now_us = settle->change.now_us,
        .kinds = &kinds,
    };
    for (size_t i = 0; !status && i < settle->count; i++) {
        struct outcome *outcome = &settle->outcomes[i];
        outcome->ret_lane_busy = false;
        if (outcome->kind == OUTCOME_RELEASE ||
            (outcome->kind == OUTCOME_DONE && !lease->has_retries)) {
            continue;
        }
        bool left;
        status = outcome_apply(engine, conn, &scope, outcome, &left);
        if (outcome->kind == OUTCOME_RETRY && outcome->next_attempt_us <= scope.now_us) {
            conn->ring = RING_ALL;
        }
    }
    if (!status) {
        status = dead_kinds_store(engine, conn, &kinds);
    }
    if (!status && released->count > 0) {
        conn->ring = RING_ALL;
        status = set_free(conn, lease->subscription_id, lease->has_retries, released, scope.now_us);
    }
    HF_POINT("mid_settle");
    if (settle->extend_us > 0) {
        lease->expires_at_us = settle->extend_us;
    }
    if (!status && (settle->count > 0 || settle->extend_us > 0)) {
        status = lease_update(conn, lease);
    }
    return status;
}

hf_status sqlite_settle_lease(struct sqlite_engine *engine, struct conn *conn,
                              struct settle_lease *settle)
{
    if (settle->all) {
        return settle_all(conn, settle);
    }
    if (settle->release_all) {
        return release_all(conn, settle);
    }
    struct lease lease;
    lease_init(&lease);
    hf_status status = load_held(conn, settle->lease, settle->subscription_id, &lease);
    if (status) {
        lease_release(&lease);
        return status;
    }
    struct lease released;
    lease_init(&released);
    released.positions = mem_alloc(lease.count * sizeof *released.positions);
    released.times = mem_alloc(lease.count * sizeof *released.times);
    if (released.positions && released.times) {
        status = settle_some(engine, conn, settle, &lease, &released);
    } else {
        status = fail(HF_NOMEM, "no memory to settle %zu events", settle->count);
    }
    if (!status) {
        status = pause_as_requested(engine, conn, settle->subscription_id, &settle->pause,
                                    settle->change.now_us);
    }
    lease_release(&released);
    lease_release(&lease);
    return status;
}

/* ---- Within a handler's transaction ---------------------------------------------------------- */

static hf_status settled_already(int64_t position)
{
    return fail(HF_CONFLICT, "the event at position %lld is settled already", (long long)position);
}

static hf_status enter_lease(struct conn *conn, const struct hold *hold, const struct entry *entry,
                             int64_t now_us)
{
    int64_t position = entry->event.position;
    struct lease lease;
    lease_init(&lease);
    hf_status status = load_held(conn, hold->lease, hold->subscription_id, &lease);
    if (!status) {
        size_t at = lease_find(lease.positions, lease.count, position);
        if (at == SIZE_MAX) {
            status = settled_already(position);
        } else {
            lease_cut(&lease, at);
            status = lease_update(conn, &lease);
        }
    }
    if (!status && lease.has_retries) {
        struct outcome_scope scope = {
            .subscription_id = hold->subscription_id,
            .now_us = now_us,
        };
        bool left;
        uint64_t lane;
        status = outcome_finish(conn, &scope, position, entry->attempts, &left, &lane);
    }
    lease_release(&lease);
    return status;
}

/* At or below the checkpoint only what waits is open. Above it the row in `settled` decides, and a
 * second one cannot be written. */
static hf_status enter_partition(struct sqlite_engine *engine, struct conn *conn,
                                 const struct hold *hold, const struct entry *entry, int64_t now_us,
                                 bool *ret_lane_busy)
{
    struct partition partition;
    hf_status status =
        partition_load(engine, conn, hold->subscription_id, hold->partition, &partition);
    if (!status) {
        status = partition_check(engine, &partition, hold->partition, hold->epoch);
    }
    if (status) {
        return status;
    }
    struct outcome_scope scope = {
        .subscription_id = hold->subscription_id,
        .partition = hold->partition,
        .ordered = true,
        .checkpoint = partition.checkpoint,
        .now_us = now_us,
        .doubt_through = partition.doubt_through,
    };
    int64_t position = entry->event.position;
    bool left = false;
    uint64_t lane = 0;
    if (entry->waited || position <= partition.checkpoint) {
        status = outcome_finish(conn, &scope, position, entry->attempts, &left, &lane);
        if (!status && !left && position <= partition.checkpoint) {
            return settled_already(position);
        }
    }
    if (!status && position > partition.checkpoint) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_ADD, scope.subscription_id,
                               scope.partition, position);
        if (!status && conn_changes(conn) == 0) {
            return settled_already(position);
        }
    }
    bool busy = false;
    if (!status && left) {
        status = outcome_promote(conn, &scope, lane, &busy);
    }
    if (!status) {
        *ret_lane_busy = busy;
    }
    return status;
}

hf_status sqlite_enter(struct sqlite_engine *engine, struct conn *conn, const struct hold *hold,
                       const struct entry *entry, int64_t now_us, bool *ret_lane_busy)
{
    if (!hold->leased) {
        return enter_partition(engine, conn, hold, entry, now_us, ret_lane_busy);
    }
    hf_status status = enter_lease(conn, hold, entry, now_us);
    if (!status) {
        *ret_lane_busy = false;
    }
    return status;
}
