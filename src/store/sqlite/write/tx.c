/*
 * tx.c - transactions for handlers.
 *
 * A handler gets a connection of its own, so that the writer's statements never mix with it, and
 * runs under the gate like every writer. The connection has four guards, because the code that uses
 * it is not ours:
 *
 *   authorizer         no BEGIN, COMMIT, ROLLBACK, no savepoint called holdfast_..., no ATTACH,
 *                      DETACH, PRAGMA, no write to holdfast_... tables. Other savepoints are fine.
 *   commit hook        refuses every commit but tx_commit's. SQLite rolls a transaction back by
 *                      itself on some errors, and tx_abort does; what the handler writes after that
 *                      would otherwise be committed statement by statement.
 *   progress handler   ends the statement that runs, and any other, once the transaction is
 *                      aborted. (Not sqlite3_interrupt: while the handler has a statement open
 *                      that would stay in force and fail our own ROLLBACK, too.)
 *   SQLite's mutex     tx_abort comes from another thread. Every function here holds it. An abort
 *                      only tries to take it: while a statement of the handler runs nothing can be
 *                      rolled back, and the caller comes again.
 *
 * Deliveries inside share one commit, a savepoint each:
 *
 *     BEGIN IMMEDIATE   SAVEPOINT holdfast_delivery  settle, handler  RELEASE | ROLLBACK TO
 *     COMMIT
 *
 * An aborted connection is never used again: the handler may still hold it. Its owner closes it
 * when it ends the transaction. Statements that the handler has open are left alone until then: the
 * handler may be looking at the row that one of them stands on. Such a statement keeps a reader's
 * snapshot, which holds up no writer.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "store/sqlite/core.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"

#define PROGRESS_STEPS 1000 /* of SQLite's machine between two looks at `aborted` */

struct tx_conn {
    struct conn conn;
    bool ours;           /* our own statements run: the guards let them. Under SQLite's mutex */
    bool may_commit;     /* tx_commit runs */
    atomic_bool aborted; /* nothing works on this connection any more */
};

struct sqlite_tx {
    struct tx head; /* first: engine.h */
    struct tx_conn *link;
    bool over;      /* rolled back, and the gate given: only the memory is left */
    bool inside;    /* between enter and leave */
    enum ring ring; /* before the delivery began */
    bool lane_busy; /* sqlite_enter's answer, handed out by leave */
};

/* ---- The guarded connection ------------------------------------------------------------------ */

static bool is_ours(const char *name)
{
    return name && sqlite3_strnicmp(name, "holdfast_", 9) == 0;
}

static int tx_authorize(void *ctx, int action, const char *a, const char *b, const char *schema,
                        const char *trigger)
{
    (void)schema;
    (void)trigger;
    const struct tx_conn *link = ctx;
    if (link->ours) {
        return SQLITE_OK;
    }
    if (atomic_load(&link->aborted)) {
        return SQLITE_DENY;
    }
    switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
        return SQLITE_DENY;
    case SQLITE_SAVEPOINT:
        return is_ours(b) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_INDEX:
        return is_ours(a) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_ALTER_TABLE:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_DROP_TRIGGER:
        return is_ours(b) ? SQLITE_DENY : SQLITE_OK;
    default:
        return SQLITE_OK;
    }
}

static int tx_refuse_commit(void *ctx)
{
    const struct tx_conn *link = ctx;
    return !link->may_commit;
}

static int tx_progress(void *ctx)
{
    const struct tx_conn *link = ctx;
    return !link->ours && atomic_load(&link->aborted);
}

static void tx_conn_free(struct tx_conn *link)
{
    if (link) {
        conn_close(&link->conn);
        mem_free(link);
    }
}

/* NULL: *status says why. */
static struct tx_conn *tx_conn_open(struct sqlite_engine *engine, struct deadline deadline,
                                    hf_status *status)
{
    struct tx_conn *link = mem_calloc(1, sizeof *link);
    if (!link) {
        *status = fail(HF_NOMEM, "no memory for a connection");
        return NULL;
    }
    struct conn *conn = &link->conn;
    *status = conn_open(conn, engine->files.db, CONN_HANDLER, false, deadline);
    if (*status == HF_OK) {
        bool full = engine->durability == HF_DURABILITY_POWER;
        conn->full_sync = !full;
        *status = conn_set_sync(conn, full);
    }
    if (*status != HF_OK) {
        tx_conn_free(link);
        return NULL;
    }
    sqlite3_set_authorizer(conn->db, tx_authorize, link);
    sqlite3_commit_hook(conn->db, tx_refuse_commit, link);
    sqlite3_progress_handler(conn->db, PROGRESS_STEPS, tx_progress, link);
    return link;
}

void tx_forget_idle(struct sqlite_engine *engine)
{
    tx_conn_free(engine->tx_idle);
    engine->tx_idle = NULL;
}

/* ---- Holding the connection ------------------------------------------------------------------ */

/* From here to tx_unlock no other thread uses the connection and its statements. */
static struct sqlite_tx *tx_lock(struct tx *base)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;
    sqlite3_mutex_enter(sqlite3_db_mutex(tx->link->conn.db));
    tx->link->ours = true;
    return tx;
}

static hf_status tx_unlock(struct sqlite_tx *tx, hf_status status)
{
    tx->link->ours = false;
    sqlite3_mutex_leave(sqlite3_db_mutex(tx->link->conn.db));
    return status;
}

/* HF_OK while the transaction is what it was. */
static hf_status tx_check(const struct sqlite_tx *tx)
{
    if (atomic_load(&tx->link->aborted)) {
        return fail(HF_TIMEOUT, "the transaction was aborted at its time limit");
    }
    if (sqlite3_get_autocommit(tx->link->conn.db)) {
        return fail(HF_MISUSE, "a statement of the handler rolled the transaction back: nothing of "
                               "it is kept");
    }
    return HF_OK;
}

/* Resets what the handler left running: a running statement would hold up savepoints and commit. */
static void tx_reset_statements(struct sqlite_tx *tx)
{
    sqlite3 *db = tx->link->conn.db;
    for (sqlite3_stmt *at = sqlite3_next_stmt(db, NULL); at; at = sqlite3_next_stmt(db, at)) {
        if (sqlite3_stmt_busy(at)) {
            sqlite3_reset(at);
        }
    }
}

static hf_status tx_run(struct sqlite_tx *tx, enum sqlite_query query)
{
    sqlite3_stmt *stmt = conn_statement(&tx->link->conn, query);
    return stmt ? conn_run(&tx->link->conn, stmt) : conn_error(&tx->link->conn);
}

/* Ends the transaction. True: the caller now has the gate to give. The lock is held. */
static bool tx_end(struct sqlite_tx *tx)
{
    if (tx->over) {
        return false;
    }
    tx->over = true;
    conn_rollback(&tx->link->conn);
    return true;
}

/* The owner's end: keeps the connection for the next transaction if it is still good. */
static hf_status tx_release(struct sqlite_tx *tx, hf_status status)
{
    struct sqlite_engine *engine = sqlite_of(tx->head.engine);
    struct tx_conn *link = tx->link;
    tx_reset_statements(tx);
    bool ended = tx_end(tx);
    tx_unlock(tx, status);
    mem_free(tx);
    if (ended && !atomic_load(&link->aborted) && !engine->writer_lost) {
        engine->tx_idle = link;
    } else {
        tx_conn_free(link);
    }
    if (ended) {
        gate_give(&engine->gate);
    }
    return status;
}

/* ---- The verbs ------------------------------------------------------------------------------- */

static hf_status tx_begin_gated(struct sqlite_engine *engine, struct deadline deadline,
                                struct sqlite_tx *tx)
{
    hf_status status = apply_ready(engine, deadline);
    if (status) {
        return status;
    }
    struct tx_conn *link = engine->tx_idle;
    engine->tx_idle = NULL;
    if (!link) {
        link = tx_conn_open(engine, deadline, &status);
    }
    if (!link) {
        return status;
    }
    tx->link = link;
    tx_lock(&tx->head);
    status = tx_unlock(tx, conn_begin(&link->conn, deadline));
    if (status) {
        engine->tx_idle = link;
    }
    return status;
}

hf_status sqlite_tx_begin(struct engine *base, struct deadline deadline, struct tx **ret_tx)
{
    struct sqlite_engine *engine = sqlite_of(base);
    if (gate_held_by_caller(&engine->gate)) {
        return fail(HF_MISUSE, "this thread is inside a transaction of this store already");
    }
    struct sqlite_tx *tx = mem_calloc(1, sizeof *tx);
    if (!tx) {
        return fail(HF_NOMEM, "no memory for a transaction");
    }
    tx->head.engine = base;
    hf_status status = gate_take(&engine->gate, deadline);
    if (!status) {
        status = tx_begin_gated(engine, deadline, tx);
        if (status) {
            gate_give(&engine->gate);
        }
    }
    if (status) {
        mem_free(tx);
        return status;
    }
    *ret_tx = &tx->head;
    return HF_OK;
}

hf_status sqlite_tx_enter(struct tx *base, const struct hold *hold, const struct entry *entry,
                          int64_t now_us)
{
    struct sqlite_tx *tx = tx_lock(base);
    struct conn *conn = &tx->link->conn;
    hf_status status = tx_check(tx);
    if (!status && tx->inside) {
        status = fail(HF_MISUSE, "the delivery before this one has not been ended");
    }
    if (!status) {
        status = tx_run(tx, SQLITE_QUERY_SAVE_DELIVERY);
    }
    if (status) {
        return tx_unlock(tx, status);
    }
    tx->ring = conn->ring;
    tx->lane_busy = false;
    status = sqlite_enter(sqlite_of(base->engine), conn, hold, entry, now_us, &tx->lane_busy);
    if (!status) {
        tx->inside = true;
        return tx_unlock(tx, HF_OK);
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    if (!sqlite3_get_autocommit(conn->db)) {
        tx_run(tx, SQLITE_QUERY_UNDO_DELIVERY);
        tx_run(tx, SQLITE_QUERY_RELEASE_DELIVERY);
    }
    conn->ring = tx->ring;
    return tx_unlock(tx, err_set(status, message));
}

hf_status sqlite_tx_leave(struct tx *base, bool keep, bool *ret_lane_busy)
{
    struct sqlite_tx *tx = tx_lock(base);
    hf_status status = tx_check(tx);
    if (!status && !tx->inside) {
        status = fail(HF_MISUSE, "no delivery has been begun");
    }
    if (!status) {
        tx->inside = false;
        tx_reset_statements(tx);
        if (!keep) {
            tx->link->conn.ring = tx->ring;
            status = tx_run(tx, SQLITE_QUERY_UNDO_DELIVERY);
        }
    }
    if (!status) {
        status = tx_run(tx, SQLITE_QUERY_RELEASE_DELIVERY);
    }
    if (!status) {
        *ret_lane_busy = keep && tx->lane_busy;
    }
    return tx_unlock(tx, status);
}

hf_status sqlite_tx_append(struct tx *base, struct append *append)
{
    struct sqlite_tx *tx = tx_lock(base);
    append->failed_index = SIZE_MAX;
    hf_status status = tx_check(tx);
    if (!status) {
        status = append_now(sqlite_of(base->engine), &tx->link->conn, append);
    }
    append->change.status = status;
    return tx_unlock(tx, status);
}

void *sqlite_tx_connection(struct tx *base)
{
    return ((struct sqlite_tx *)base)->link->conn.db;
}

bool sqlite_tx_abort(struct tx *base)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;
    struct sqlite_engine *engine = sqlite_of(base->engine);
    atomic_store(&tx->link->aborted, true);
    if (sqlite3_mutex_try(sqlite3_db_mutex(tx->link->conn.db)) != SQLITE_OK) {
        return false;
    }
    tx->link->ours = true;
    sqlite3_progress_handler(tx->link->conn.db, 1, tx_progress, tx->link);
    bool ended = tx_end(tx);
    tx_unlock(tx, HF_OK); /* from here on its owner may free it */
    if (ended) {
        gate_give(&engine->gate);
    }
    return true;
}

/* COMMIT and what follows it. The lock of the connection is held. */
static hf_status tx_commit_locked(struct sqlite_tx *tx)
{
    struct sqlite_engine *engine = sqlite_of(tx->head.engine);
    struct conn *conn = &tx->link->conn;
    hf_status status = tx_check(tx);
    if (!status && tx->inside) {
        status = fail(HF_MISUSE, "a delivery inside the transaction has not been ended");
    }
    if (status) {
        return status;
    }
    tx_reset_statements(tx);
    HF_POINT("tx_before_commit");
    enum ring ring = conn->ring;
    tx->link->may_commit = true;
    status = conn_commit(conn);
    tx->link->may_commit = false;
    if (!status) {
        HF_POINT("tx_after_commit");
        status = apply_committed(engine, conn, ring);
    } else if (status == HF_UNKNOWN) {
        engine->writer_lost = true;
    }
    return status;
}

hf_status sqlite_tx_commit(struct tx *base)
{
    struct sqlite_tx *tx = tx_lock(base);
    return tx_release(tx, tx_commit_locked(tx));
}

void sqlite_tx_rollback(struct tx *base)
{
    tx_release(tx_lock(base), HF_OK);
}
