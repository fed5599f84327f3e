/*
 * outcome.c - what becomes of one delivery, in rows. See outcome.h.
 *
 * Everything here runs inside the caller's write transaction, so a crash leaves all of a change or
 * nothing: there is no moment at which a delivery has both its dead letter and its retry row, or
 * neither. (A power failure may take back a whole relaxed transaction, never a part of one; the
 * delivery then happens again.)
 *
 * A delivery is in one of these places at any time: not yet read (above the checkpoint or the
 * cursor), in `retries`, in a lease, in `settled`, in dead_letters, or done. What moves it from one
 * to another is in this file and in claim.c, and removes the one before it adds the other, within
 * one transaction.
 */
#include "store/sqlite/write/outcome.h"

#include "base/err.h"
#include "base/point.h"
#include "store/common/story.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"

/* A row of holdfast_retries to be written. */
struct retry_row {
    int64_t position;
    enum retry_kind kind;
    uint64_t lane;
    int32_t attempts;
    int32_t uncounted;
    int64_t next_attempt_us;
    struct text story;
    enum cause cause;
    struct unit_mark unit;
    int32_t deliveries; /* of one that has no row yet; -1: not known */
};

static void bind_known(sqlite3_stmt *stmt, int at, int32_t value)
{
    if (value >= 0) {
        bind_int(stmt, at, value);
    }
}

static hf_status retry_put(struct conn *conn, const struct outcome_scope *scope,
                           const struct retry_row *row)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, row->position);
    bind_int(stmt, 3, row->kind);
    bind_int(stmt, 4, scope->partition);
    bind_int(stmt, 5, (int64_t)row->lane);
    bind_int(stmt, 6, row->attempts);
    bind_int(stmt, 7, row->uncounted);
    bind_int(stmt, 8, row->next_attempt_us);
    bind_int(stmt, 9, scope->now_us);
    bind_text(stmt, 10, row->story);
    bind_text(stmt, 11, cause_name(row->cause));
    if (row->unit.events > 1) {
        bind_int(stmt, 12, row->unit.first);
        bind_int(stmt, 13, row->unit.events);
    }
    bind_known(stmt, 14, row->deliveries);
    bind_int(stmt, 15, scope->ordered ? 1 : 0);
    return conn_run(conn, stmt);
}

/* Takes the delivery out of retries, with its copy. ret_left: there was a row, of this lane. */
static hf_status remove_retry(struct conn *conn, const struct outcome_scope *scope,
                              int64_t position, bool *ret_left, uint64_t *ret_lane)
{
    bool left = false;
    int64_t lane = 0;
    hf_status status = STATEMENT_INT(
        conn, scope->ordered ? SQLITE_QUERY_RETRY_REMOVE : SQLITE_QUERY_RETRY_REMOVE_LEASED, &left,
        &lane, scope->subscription_id, position);
    if (!status && left) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_COPY_REMOVE, scope->subscription_id, position);
    }
    if (!status) {
        *ret_left = left;
        *ret_lane = (uint64_t)lane;
    }
    return status;
}

/* Keeps the story of a delivery that failed before it succeeded. */
static hf_status keep(struct conn *conn, const struct outcome_scope *scope, int64_t position,
                      int32_t attempts)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_OUTCOME_KEEP);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, position);
    bind_int(stmt, 3, scope->now_us);
    bind_known(stmt, 4, attempts);
    bind_int(stmt, 5, scope->ordered ? 1 : 0);
    bind_int(stmt, 6, scope->doubt_through);
    hf_status status = conn_run(conn, stmt);
    return status || conn_changes(conn) == 0
               ? status
               : STATEMENT_RUN(conn, SQLITE_QUERY_OUTCOMES_TRIM, scope->subscription_id);
}

hf_status outcome_finish(struct conn *conn, const struct outcome_scope *scope, int64_t position,
                         int32_t attempts, bool *ret_left, uint64_t *ret_lane)
{
    hf_status status = keep(conn, scope, position, attempts);
    return status ? status : remove_retry(conn, scope, position, ret_left, ret_lane);
}

/* How often a delivery that dies was handed out; -1: not known. If it has a row, that is there. */
static hf_status deliveries_of(struct conn *conn, const struct outcome_scope *scope,
                               const struct outcome *outcome, int32_t *ret_deliveries)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, outcome->position);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    int32_t stored = row ? (int32_t)column_int(stmt, 8, -1) : -1;
    if (row) {
        conn_done(stmt);
    }
    if (scope->ordered) {
        bool known = stored >= 0 || outcome->position > scope->doubt_through;
        *ret_deliveries = known ? outcome->attempts + outcome->uncounted : -1;
    } else {
        *ret_deliveries = row ? stored : outcome->times;
    }
    return HF_OK;
}

/* The delivery is over: it must not be read again from above the checkpoint. */
static hf_status remember_settled(struct conn *conn, const struct outcome_scope *scope,
                                  int64_t position)
{
    if (!scope->ordered || position <= scope->checkpoint) {
        return HF_OK;
    }
    return STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_ADD, scope->subscription_id, scope->partition,
                         position);
}

/* ret_added: there was such an event, and no open letter of the delivery. */
static hf_status dead_add_from(struct sqlite_engine *engine, struct conn *conn,
                               enum sqlite_query query, const struct outcome_scope *scope,
                               const struct outcome *outcome, int32_t deliveries, bool *ret_added)
{
    sqlite3_stmt *stmt = conn_statement(conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, outcome->position);
    bind_int(stmt, 3, place_of(engine, outcome->position));
    bind_int(stmt, 4, scope->now_us);
    bind_int(stmt, 5, outcome->attempts);
    bind_text(stmt, 6, outcome->reason);
    bind_text(stmt, 7, outcome->error);
    bind_text(stmt, 8, outcome->attempts_json);
    bind_text(stmt, 9, cause_name(outcome->cause));
    bind_known(stmt, 10, deliveries);
    hf_status status = conn_row(conn, stmt, ret_added);
    if (status || !*ret_added) {
        return status;
    }
    int64_t kind = sqlite3_column_int64(stmt, 0);
    conn_done(stmt);
    return dead_kinds_note(engine, conn, kind, 1, scope->kinds);
}

/* From the copy of the event, if there is one, else from the log. */
static hf_status dead_add_once(struct sqlite_engine *engine, struct conn *conn,
                               const struct outcome_scope *scope, const struct outcome *outcome,
                               int32_t deliveries, bool *ret_added)
{
    hf_status status = dead_add_from(engine, conn, SQLITE_QUERY_DEAD_ADD_COPY, scope, outcome,
                                     deliveries, ret_added);
    if (!status && !*ret_added) {
        status = dead_add_from(engine, conn, SQLITE_QUERY_DEAD_ADD, scope, outcome, deliveries,
                               ret_added);
    }
    return status;
}

/* The open letter of a delivery that dies again leaves its place to the new one. ret_found: there
 * was one. */
static hf_status dead_replace(struct sqlite_engine *engine, struct conn *conn,
                              const struct outcome_scope *scope, int64_t position, bool *ret_found)
{
    int64_t kind = 0;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_DEAD_REPLACE, ret_found, &kind,
                                     scope->subscription_id, position, place_of(engine, position));
    return status || !*ret_found ? status : dead_kinds_note(engine, conn, kind, -1, scope->kinds);
}

/* The retry row, and its copy with it, must still be there. */
static hf_status dead_add(struct sqlite_engine *engine, struct conn *conn,
                          const struct outcome_scope *scope, const struct outcome *outcome)
{
    if (text_is_absent(outcome->reason)) {
        return fail(HF_MISUSE, "a dead letter needs a reason");
    }
    int32_t times = -1;
    hf_status status = deliveries_of(conn, scope, outcome, &times);
    bool added = false;
    if (!status) {
        status = dead_add_once(engine, conn, scope, outcome, times, &added);
    }
    bool replaces = false;
    if (!status && !added) {
        status = dead_replace(engine, conn, scope, outcome->position, &replaces);
    }
    if (!status && replaces) {
        status = dead_add_once(engine, conn, scope, outcome, times, &added);
    }
    if (!status && !added) {
        return fail(HF_CORRUPT,
                    "the event at position %lld is not in the log, so it cannot become "
                    "a dead letter",
                    (long long)outcome->position);
    }
    HF_POINT("mid_dead_letter");
    return status;
}

static hf_status outcome_done(struct conn *conn, const struct outcome_scope *scope,
                              struct outcome *outcome, bool *ret_left)
{
    hf_status status =
        outcome->kind == OUTCOME_DONE
            ? outcome_finish(conn, scope, outcome->position, outcome->attempts, ret_left,
                             &outcome->left_lane)
            : remove_retry(conn, scope, outcome->position, ret_left, &outcome->left_lane);
    return status ? status : remember_settled(conn, scope, outcome->position);
}

static hf_status outcome_wait(struct conn *conn, const struct outcome_scope *scope,
                              const struct outcome *outcome, enum retry_kind kind)
{
    return retry_put(
        conn, scope,
        &(struct retry_row){
            .position = outcome->position,
            .kind = kind,
            .lane = outcome->lane,
            .attempts = outcome->attempts,
            .uncounted = outcome->uncounted,
            .next_attempt_us = kind == RETRY_WAITING ? outcome->next_attempt_us : scope->now_us,
            .story = outcome->attempts_json,
            .cause = outcome->cause,
            .unit = outcome->unit,
            .deliveries = scope->ordered ? -1 : outcome->times,
        });
}

static hf_status outcome_hold(struct conn *conn, const struct outcome_scope *scope,
                              const struct outcome *outcome)
{
    return STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_HOLD, scope->subscription_id, outcome->position,
                         scope->partition, (int64_t)outcome->lane, scope->now_us);
}

hf_status outcome_apply(struct sqlite_engine *engine, struct conn *conn,
                        const struct outcome_scope *scope, struct outcome *outcome, bool *ret_left)
{
    *ret_left = false;
    hf_status status;
    switch (outcome->kind) {
    case OUTCOME_DONE:
        return outcome_done(conn, scope, outcome, ret_left);
    case OUTCOME_DEAD:
        status = dead_add(engine, conn, scope, outcome);
        return status ? status : outcome_done(conn, scope, outcome, ret_left);
    case OUTCOME_BLOCK:
        status = dead_add(engine, conn, scope, outcome);
        return status ? status : outcome_wait(conn, scope, outcome, RETRY_BLOCKED);
    case OUTCOME_RETRY:
        return outcome_wait(conn, scope, outcome, RETRY_WAITING);
    case OUTCOME_HELD:
        if (!scope->ordered) {
            return fail(HF_MISUSE, "a shared subscription has no lanes to be held behind");
        }
        return outcome_hold(conn, scope, outcome);
    case OUTCOME_RELEASE:
        return fail(HF_MISUSE, "only events of a lease can be released");
    case OUTCOME_BEGUN:
        return fail(HF_MISUSE, "notes tell what has begun; it needs no record");
    }
    return fail(HF_MISUSE, "unknown outcome %d", (int)outcome->kind);
}

hf_status outcome_promote(struct conn *conn, const struct outcome_scope *scope, uint64_t lane,
                          bool *ret_busy)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LANE_FIRST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, scope->partition);
    bind_int(stmt, 3, (int64_t)lane);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    int64_t position = row ? sqlite3_column_int64(stmt, 0) : -1;
    bool held = row && sqlite3_column_int(stmt, 1) == RETRY_HELD;
    conn_done(stmt);
    if (held) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_TURN, scope->subscription_id, position,
                               RETRY_WAITING, scope->now_us);
    }
    if (!status) {
        *ret_busy = row;
    }
    return status;
}

hf_status outcome_check_held(struct conn *conn, const struct outcome_scope *scope, uint64_t lane,
                             bool *ret_due)
{
    bool moving;
    int64_t one;
    hf_status status = STATEMENT_INT(conn, SQLITE_QUERY_LANE_MOVING, &moving, &one,
                                     scope->subscription_id, scope->partition, (int64_t)lane);
    if (status) {
        return status;
    }
    *ret_due = !moving;
    bool busy;
    return moving ? HF_OK : outcome_promote(conn, scope, lane, &busy);
}

/* ---- Attempts that ended without a result ---------------------------------------------------- */

/* The lane of a delivery that has no row yet. ret_found: the log has the event. */
static hf_status lane_of(struct sqlite_engine *engine, struct conn *conn,
                         const struct outcome_scope *scope, int64_t position, uint64_t *ret_lane,
                         bool *ret_found)
{
    sqlite3_stmt *stmt = NULL;
    hf_status status = row_find(engine, conn, scope->subscription_id, position, false, &stmt);
    if (status) {
        return status;
    }
    *ret_found = stmt != NULL;
    if (stmt) {
        status = row_lane(stmt, ret_lane);
        conn_done(stmt);
    }
    return status;
}

static struct text error_of(enum cause cause)
{
    return cause == CAUSE_DIED ? (struct text)TEXT_LITERAL(STORY_ERROR_DIED)
                               : (struct text)TEXT_LITERAL(STORY_ERROR_EXPIRED);
}

/* How the event waits after a lost attempt: of a shared subscription alone, if it is not known
 * which of the events in hand it was. */
static enum retry_kind kind_after(const struct outcome_scope *scope,
                                  const struct lost_attempt *lost)
{
    return !scope->ordered && lost->attempt == 0 ? RETRY_ALONE : RETRY_WAITING;
}

/* Writes the row with the story's new end. `old` may point into a statement that is not reset. */
static hf_status record_row(struct conn *conn, const struct outcome_scope *scope,
                            const struct lost_attempt *lost, struct retry_row *row,
                            struct buf *story)
{
    row->position = lost->position;
    row->kind = kind_after(scope, lost);
    row->next_attempt_us = scope->now_us;
    row->story = buf_text(story);
    row->cause = lost->cause;
    if (!scope->ordered) {
        row->deliveries = lost->deliveries;
    } else if (row->deliveries >= 0) {
        row->deliveries = row->attempts + row->uncounted;
    }
    return retry_put(conn, scope, row);
}

/* Whether the event may not be run once more: it was handed out only to be buried. */
static bool is_used_up(const struct outcome_scope *scope, const struct retry_row *row)
{
    return scope->attempts_max > 0 && row->attempts >= scope->attempts_max;
}

/* Adds the attempt to the story `old`, which may point into a statement, and to the counts of the
 * row. A doubtful attempt does not use up the last one that the event has. */
static hf_status add_attempt(const struct outcome_scope *scope, const struct lost_attempt *lost,
                             struct text old, struct retry_row *row, struct buf *story)
{
    bool counts =
        !lost->doubtful || scope->attempts_max == 0 || row->attempts + 1 < scope->attempts_max;
    hf_status status = story_add(story, old, row->attempts + 1, scope->now_us,
                                 error_of(lost->cause), lost->node, counts);
    row->attempts += counts ? 1 : 0;
    row->uncounted += counts ? 0 : 1;
    return status;
}

hf_status outcome_record(struct sqlite_engine *engine, struct conn *conn,
                         const struct outcome_scope *scope, const struct lost_attempt *lost,
                         bool *ret_recorded)
{
    *ret_recorded = false;
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, scope->subscription_id);
    bind_int(stmt, 2, lost->position);
    bool found;
    hf_status status = conn_row(conn, stmt, &found);
    if (status) {
        return status;
    }
    struct retry_row row = {.deliveries = -1};
    struct text old = TEXT_ABSENT;
    enum retry_kind kind = RETRY_NONE;
    if (found) {
        kind = (enum retry_kind)sqlite3_column_int(stmt, 0);
        row.lane = (uint64_t)sqlite3_column_int64(stmt, 2);
        row.attempts = sqlite3_column_int(stmt, 3);
        row.uncounted = sqlite3_column_int(stmt, 4);
        row.deliveries = (int32_t)column_int(stmt, 8, -1);
        old = column_text(stmt, 6);
    } else {
        status = lane_of(engine, conn, scope, lost->position, &row.lane, &found);
        row.lane = scope->lane != 0 ? scope->lane : row.lane;
    }
    if (lost->position > scope->doubt_through) {
        row.deliveries = 0; /* it is known */
    }
    bool recorded_before = lost->attempt > 0 && row.attempts >= lost->attempt;
    if (status || !found || kind == RETRY_BLOCKED || recorded_before) {
        conn_done(stmt);
        return status;
    }
    if (is_used_up(scope, &row)) {
        conn_done(stmt);
        *ret_recorded = true;
        return STATEMENT_RUN(conn, SQLITE_QUERY_RETRY_TURN, scope->subscription_id, lost->position,
                             kind_after(scope, lost), scope->now_us);
    }
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    status = add_attempt(scope, lost, old, &row, &story);
    conn_done(stmt);
    if (!status) {
        status = record_row(conn, scope, lost, &row, &story);
    }
    buf_release(&story);
    *ret_recorded = status == HF_OK;
    return status;
}
