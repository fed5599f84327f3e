/*
 * orphan.c - leases that have ended without an answer.
 *
 * When a lease is over
 *   by time            expires_at has come, unless it is kept
 *   kept               expires_at has come, and its owner is dead, or has been silent for as long
 *                      as the lease was made for and the claim asks for, whichever is longer: a
 *                      process that shows signs of life keeps its leases however long a handler
 *                      takes, also beside a claim that asks for a short one
 *   bound              its owner is dead, at once
 * The few owners are walked through by the index, each one's state is asked for once, and each has
 * its leases in the order of their ends: a claim that finds nothing costs three searches and no
 * write.
 *
 * What becomes of it
 *   notes tell         The dead process was running handlers and its notes are whole. The events
 *                      that it was handling are recorded as failed attempts, the others were only
 *                      waiting in its memory and are free for the next claim, as they were. Notes
 *                      speak for a lease if it is kept (handlers do that) or if they name one of
 *                      its events; a program that pulls events and works on them by itself writes
 *                      none.
 *   one event          It is recorded as a failed attempt. Also if the owner exists and is only
 *                      frozen: what froze it may be the handler of this very event (which uses up
 *                      the machine's memory, say), and nothing else would keep the event from
 *                      freezing one process after the other. docs/guarantees.md, G7, says so.
 *   several events     One of them may be the reason. The lease is handed out again in halves, each
 *                      in a lease of its own, with nothing else in it, so that after some rounds
 *                      the guilty one is alone. If a half were filled up with other events the
 *                      suspects would never get fewer. Until the first half is handed out the old
 *                      token is still good: a slow owner may finish late.
 *
 * All of this is in the claim's transaction. A crash before its commit leaves the leases as they
 * were, to be found by the next claim; after it the recorded ones are no longer in any lease, so no
 * attempt is counted twice.
 */
#include "store/sqlite/write/orphan.h"

#include "base/err.h"
#include "base/mem.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/write/lease.h"

struct note {
    int64_t position;
    int32_t attempt;
};

/* One walk through the owners. */
struct walk {
    struct sqlite_engine *engine;
    struct conn *conn;
    const struct outcome_scope *scope;
    struct orphans *orphans;
    size_t looked_at;
    /* of the present owner */
    const uint8_t *frozen; /* its token, if it is frozen by the claim's measure */
    int64_t lease_ms;      /* that measure */
    bool dead;
    bool exact;
    struct note *notes; /* room for STORE_NOTES_MAX; NULL until needed */
    size_t note_count;
    int32_t running; /* handlers of all subscriptions that ran in the dead process */
};

/* One ended lease as the index gives it. */
struct ended {
    uint8_t token[STORE_TOKEN_BYTES];
    int64_t expires_at_us;
    int32_t piece;
    int64_t count;
    int64_t lease_ms;
};

/* ---- Notes of a dead owner ------------------------------------------------------------------- */

static hf_status keep_note(const struct handler_note *note, void *ctx)
{
    struct walk *walk = ctx;
    if (walk->note_count < STORE_NOTES_MAX) {
        walk->notes[walk->note_count++] = (struct note){note->position, note->attempt};
    }
    return HF_OK;
}

static hf_status load_notes(struct walk *walk, const uint8_t owner[STORE_TOKEN_BYTES])
{
    if (!walk->notes) {
        walk->notes = mem_alloc(STORE_NOTES_MAX * sizeof *walk->notes);
        if (!walk->notes) {
            return fail(HF_NOMEM, "no memory for the notes of a dead process");
        }
    }
    walk->note_count = 0;
    walk->exact = false;
    return live_notes(walk->engine, owner, walk->scope->subscription_id, keep_note, walk,
                      &walk->exact, &walk->running);
}

static bool notes_name(const struct walk *walk, const struct lease *lease)
{
    for (size_t i = 0; i < walk->note_count; i++) {
        if (lease_find(lease->positions, lease->count, walk->notes[i].position) != SIZE_MAX) {
            return true;
        }
    }
    return false;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static hf_status record(struct walk *walk, const struct lease *lease, size_t at, int32_t attempt,
                        bool *ret_recorded)
{
    struct lost_attempt lost = {
        .position = lease->positions[at],
        .attempt = attempt,
        .deliveries = lease_times(lease, at),
        .cause = walk->dead ? CAUSE_DIED : CAUSE_EXPIRED,
        .node = lease->owner_name[0] ? text_of(lease->owner_name) : TEXT_ABSENT,
        .doubtful = attempt > 0 && walk->running > 1,
    };
    return outcome_record(walk->engine, walk->conn, walk->scope, &lost, ret_recorded);
}

/* Records what was being handled and sets the rest free. */
static hf_status settle_by_notes(struct walk *walk, struct lease *lease)
{
    for (size_t i = 0; i < walk->note_count; i++) {
        const struct note *note = &walk->notes[i];
        size_t at = lease_find(lease->positions, lease->count, note->position);
        bool recorded = false;
        if (at != SIZE_MAX) {
            hf_status status = record(walk, lease, at, note->attempt, &recorded);
            if (status) {
                return status;
            }
        }
        if (recorded) {
            lease_cut(lease, at);
        }
    }
    return lease_set_free(walk->conn, lease, LEASE_FREE, walk->scope->now_us);
}

static hf_status settle_single(struct walk *walk, struct lease *lease)
{
    bool recorded;
    hf_status status = record(walk, lease, 0, 0, &recorded);
    return status ? status : lease_remove(walk->conn, lease);
}

/* ---- The walk -------------------------------------------------------------------------------- */

static void suspect(struct orphans *orphans, const struct ended *ended)
{
    if (!orphans->suspect || ended->expires_at_us < orphans->suspect_since_us) {
        orphans->suspect = true;
        memcpy(orphans->suspect_token, ended->token, sizeof orphans->suspect_token);
        orphans->suspect_since_us = ended->expires_at_us;
    }
}

/* Whether the owner, silent for as long as the claim asks for, may still be at it by the lease's
 * own measure. */
static bool is_kept(struct walk *walk, const struct ended *ended)
{
    return walk->frozen && ended->lease_ms > walk->lease_ms &&
           live_state(walk->engine, walk->frozen, ended->lease_ms) != LIVE_FROZEN;
}

static hf_status look_at(struct walk *walk, const struct ended *ended)
{
    struct orphans *orphans = walk->orphans;
    if (ended->piece == LEASE_FREE) {
        if (orphans->free_count < ORPHAN_LEASES_MAX) {
            memcpy(orphans->free[orphans->free_count++], ended->token, STORE_TOKEN_BYTES);
        }
        return HF_OK;
    }
    if (ended->piece > 0 || (ended->count > 1 && !walk->exact)) {
        suspect(orphans, ended);
        return HF_OK;
    }
    struct lease lease;
    lease_init(&lease);
    hf_status status = lease_load(walk->conn, ended->token, &lease);
    if (!status) {
        if (walk->exact && (lease.kept || notes_name(walk, &lease))) {
            status = settle_by_notes(walk, &lease);
        } else if (lease.count == 1) {
            status = settle_single(walk, &lease);
        } else {
            suspect(orphans, ended);
        }
    }
    lease_release(&lease);
    return status;
}

/* Collects the ended leases of an owner (NULL: those without), then looks at each: looking changes
 * the rows that the statement walks on. */
static hf_status look_through(struct walk *walk, const uint8_t *owner, bool kept, int64_t until_us)
{
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_LEASE_OVER);
    if (!stmt) {
        return conn_error(walk->conn);
    }
    size_t room = ORPHAN_LEASES_MAX - walk->looked_at;
    bind_int(stmt, 1, walk->scope->subscription_id);
    bind_blob(stmt, 2, owner, STORE_TOKEN_BYTES);
    bind_int(stmt, 3, kept ? 1 : 0);
    bind_int(stmt, 4, until_us);
    bind_int(stmt, 5, walk->scope->now_us);
    bind_int(stmt, 6, (int64_t)room);
    struct ended ended[ORPHAN_LEASES_MAX];
    size_t count = 0;
    for (;;) {
        bool row;
        hf_status status = conn_row(walk->conn, stmt, &row);
        if (status) {
            return status;
        }
        if (!row) {
            break;
        }
        if (!column_blob(stmt, 0, ended[count].token, STORE_TOKEN_BYTES)) {
            conn_done(stmt);
            return fail(HF_CORRUPT, "the token of a lease is not %d bytes", STORE_TOKEN_BYTES);
        }
        ended[count].expires_at_us = sqlite3_column_int64(stmt, 1);
        ended[count].piece = (int32_t)column_int(stmt, 2, LEASE_HELD);
        ended[count].count = sqlite3_column_int64(stmt, 3);
        ended[count++].lease_ms = sqlite3_column_int64(stmt, 4);
    }
    walk->looked_at += count;
    walk->orphans->more = walk->orphans->more || (room > 0 && count == room);
    hf_status status = HF_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (!kept || !is_kept(walk, &ended[i])) {
            status = look_at(walk, &ended[i]);
        }
    }
    return status;
}

/* When the next lease of this owner ends by itself. */
static hf_status look_ahead(struct walk *walk, const uint8_t *owner, bool kept)
{
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_LEASE_EXPIRY_NEXT);
    if (!stmt) {
        return conn_error(walk->conn);
    }
    bind_int(stmt, 1, walk->scope->subscription_id);
    bind_blob(stmt, 2, owner, STORE_TOKEN_BYTES);
    bind_int(stmt, 3, kept ? 1 : 0);
    bind_int(stmt, 4, walk->scope->now_us);
    bool row;
    hf_status status = conn_row(walk->conn, stmt, &row);
    if (!status && row) {
        int64_t at_us = sqlite3_column_int64(stmt, 0);
        if (at_us < walk->orphans->wake_us) {
            walk->orphans->wake_us = at_us;
        }
        conn_done(stmt);
    }
    return status;
}

static hf_status visit_owner(struct walk *walk, const uint8_t owner[STORE_TOKEN_BYTES],
                             int64_t lease_ms)
{
    int64_t now_us = walk->scope->now_us;
    bool self = memcmp(owner, walk->engine->token, STORE_TOKEN_BYTES) == 0;
    enum live_state state = self ? LIVE_SELF : live_state(walk->engine, owner, lease_ms);
    hf_status status = HF_OK;
    walk->dead = state == LIVE_DEAD || state == LIVE_GONE;
    if (walk->dead) {
        walk->engine->live.sweep_due = true;
        status = load_notes(walk, owner);
    }
    if (!status) {
        status = look_through(walk, owner, false, walk->dead ? INT64_MAX : now_us);
    }
    walk->frozen = state == LIVE_FROZEN ? owner : NULL;
    walk->lease_ms = lease_ms;
    if (!status && (walk->dead || walk->frozen)) {
        status = look_through(walk, owner, true, walk->dead ? INT64_MAX : now_us);
    }
    if (!status) {
        status = look_ahead(walk, owner, false);
    }
    if (!status && !self) {
        status = look_ahead(walk, owner, true);
    }
    walk->frozen = NULL;
    walk->dead = false;
    walk->exact = false;
    walk->note_count = 0;
    return status;
}

static hf_status next_owner(struct walk *walk, uint8_t owner[STORE_TOKEN_BYTES], size_t length,
                            bool *ret_found)
{
    sqlite3_stmt *stmt = conn_statement(walk->conn, SQLITE_QUERY_LEASE_OWNER_NEXT);
    if (!stmt) {
        return conn_error(walk->conn);
    }
    bind_int(stmt, 1, walk->scope->subscription_id);
    bind_blob(stmt, 2, owner, length);
    bool row;
    hf_status status = conn_row(walk->conn, stmt, &row);
    if (status) {
        return status;
    }
    *ret_found = row && column_blob(stmt, 0, owner, STORE_TOKEN_BYTES);
    if (row) {
        conn_done(stmt);
    }
    return HF_OK;
}

hf_status orphans_find(struct sqlite_engine *engine, struct conn *conn,
                       const struct outcome_scope *scope, int64_t lease_ms,
                       struct orphans *ret_orphans)
{
    ret_orphans->free_count = 0;
    ret_orphans->suspect = false;
    ret_orphans->wake_us = INT64_MAX;
    ret_orphans->more = false;
    struct walk walk = {
        .engine = engine,
        .conn = conn,
        .scope = scope,
        .orphans = ret_orphans,
    };
    uint8_t owner[STORE_TOKEN_BYTES] = {0};
    bool found;
    hf_status status = next_owner(&walk, owner, 0, &found); /* the empty blob is before all */
    while (!status && found) {
        status = visit_owner(&walk, owner, lease_ms);
        if (!status) {
            status = next_owner(&walk, owner, sizeof owner, &found);
        }
    }
    /* Last, because what was set free above is among these, and with room of their own: else the
     * claims that deal with a great many leases of the dead would hand out nothing. */
    walk.looked_at = 0;
    if (!status) {
        status = look_through(&walk, NULL, false, scope->now_us);
    }
    if (!status) {
        status = look_ahead(&walk, NULL, false);
    }
    mem_free(walk.notes);
    return status;
}
