/*
 * apply.c - one write transaction for a list of changes. See engine.h for the contract.
 *
 *     gate -> BEGIN IMMEDIATE -> each change -> COMMIT -> still the same file? -> wake others
 *          -> checkpoint the WAL if it is time -> give the gate
 *
 * A change that fails must leave no trace and must not disturb the others, so each has a savepoint
 * around it, except where one statement is the whole change (a single event) or the change is alone
 * in its transaction.
 *
 * When the disk is full
 *   Publishing may stop; settling must go on, or every consumer would do its work again and again.
 *   So appends are refused while there would not be room left to move the WAL into the database and
 *   to settle. If other programs fill the disk it comes to the end of it all the same:
 *   The whole transaction is rolled back and the WAL is moved into the database, which gives its
 *   space back; then it is tried again. If there is still no room the appends answer HF_NOSPACE and
 *   the others are tried without them; at last with the space of the spare file (spare.h). While
 *   that is spent, appends are refused before they are tried.
 *
 * When a commit fails midway (an error of fsync, or after it)
 *   The answer is HF_UNKNOWN. What this connection believes of the file cannot be trusted any more,
 *   and neither can the end of the WAL: frames that the kernel failed to write may lie in front of
 *   whatever would be appended next, and after a power failure recovery would stop at them. So
 *   before the next write all our connections are closed, a new one is opened, which makes SQLite
 *   read the WAL again where no other process has it open, and the WAL is moved into the database
 *   and emptied. Only when that has succeeded is anything acknowledged again.
 */
#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "store/common/change.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/append.h"
#include "store/sqlite/write/node.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#define LOOK_AGAIN_TIMES 5             /* tries to look at the file after a commit */
#define LOOK_AGAIN_US 2000             /* between two of those tries */
#define CHECKPOINT_PAGES_MAX 4000      /* of the WAL between two checkpoints, in the long run */
#define CHECKPOINT_GROWTH_PART 8       /* see started_over */
#define CHECKPOINT_BYTES (1 << 20)     /* the same of events, by appended_bytes: about 100 pages */
#define CHECKPOINT_BYTES_MAX (8 << 20) /* the same if checkpoints are slow: see appended_much */
#define CHECKPOINT_REST_TIMES 40       /* a checkpoint's length, from its end to the next one */
#define CHECKPOINT_FULL_PAGES 64       /* the same while the disk is full */
#define CHECKPOINT_INSIST_PAGES 8000   /* readers kept the WAL from starting over: wait for them */
#define CHECKPOINT_INSIST_MS 10        /* how long to wait for those readers */
#define LIMIT_TIGHT_BYTES (64 << 20)   /* files may not become larger: keep the WAL short */
#define APPEND_BYTES_FIXED 512         /* what an event may take besides its texts */
#define CLOCK_TOLERANCE_US 1000000     /* threads read the clock at slightly different times */
#define CLOCK_BACK_US 10000000         /* so long times of a clock that was set back may come */
#define WAL_WARN_BYTES (INT64_C(64) << 20) /* behind a reader; then at every doubling */
#define WAL_FRAME_HEADER_BYTES 24
#define PAGE_BYTES_MAX 65536
#define WAL_PAGE_BYTES 4120 /* a page and its header */

/* ---- After a commit -------------------------------------------------------------------------- */

static hf_status checkpoint(struct conn *conn, int mode, struct deadline deadline, bool *ret_whole)
{
    int log = 0;
    int moved = 0;
    conn->deadline = deadline;
    HF_POINT("mid_checkpoint");
    int code = sqlite3_wal_checkpoint_v2(conn->db, "main", mode, &log, &moved);
    HF_POINT("mid_checkpoint");
    if (code != SQLITE_OK && code != SQLITE_BUSY) {
        return conn_fail_code(conn, code, "checkpoint the write-ahead log");
    }
    *ret_whole = code == SQLITE_OK && log == moved;
    conn->wal_pages = log >= 0 ? log : conn->wal_pages;
    return HF_OK;
}

/* After a checkpoint that could not move everything: a reader keeps its snapshot, and the log
 * cannot start over until it ends. */
static void warn_of_wal(struct sqlite_engine *engine, struct conn *conn)
{
    int64_t page_bytes = 0;
    if ((int64_t)conn->wal_pages * PAGE_BYTES_MAX < WAL_WARN_BYTES ||
        conn_number(conn, SQLITE_QUERY_READ_PAGE_SIZE, 0, &page_bytes) != HF_OK) {
        return;
    }
    int64_t bytes = conn->wal_pages * (page_bytes + WAL_FRAME_HEADER_BYTES);
    if (engine->wal_warn_bytes < WAL_WARN_BYTES) {
        engine->wal_warn_bytes = WAL_WARN_BYTES;
    }
    if (bytes >= engine->wal_warn_bytes) {
        log_about(engine->log, HF_LOG_WARN, NULL,
                  "%s has %lld MiB and grows, because a reader has "
                  "kept a transaction open: end it (a query whose statement was not reset, a "
                  "backup, a verify), or the disk will be full",
                  engine->files.wal, (long long)(bytes >> 20));
    }
    while (engine->wal_warn_bytes <= bytes) {
        engine->wal_warn_bytes *= 2;
    }
}

/* The WAL has started over. Small commits write the same pages again and again, and publishers wait
 * for a checkpoint, so checkpoints become rarer, but only slowly: syncing a file that grows takes
 * longer than one that is written over. */
static void started_over(struct sqlite_engine *engine)
{
    int64_t pages = engine->checkpoint_pages;
    if (engine->wal_pages >= pages) { /* the file is that long now */
        pages += pages / CHECKPOINT_GROWTH_PART;
    }
    engine->checkpoint_pages = pages < CHECKPOINT_PAGES_MAX ? pages : CHECKPOINT_PAGES_MAX;
    engine->checkpoint_after_pages = engine->checkpoint_pages;
    engine->wal_warn_bytes = 0;
}

/* Has so much been appended that it is to be moved? What is appended fills pages of its own, so it
 * makes a checkpoint last, and publishers and handlers wait for it: many short checkpoints keep
 * none of them waiting for long. But each has syncs of its own, so where they take more than a
 * small part of the time they come later and move more. */
static bool appended_much(const struct sqlite_engine *engine)
{
    return engine->appended_bytes >= CHECKPOINT_BYTES_MAX ||
           (engine->appended_bytes >= CHECKPOINT_BYTES &&
            clock_real_us() - engine->checkpoint_end_us >=
                engine->checkpoint_us * CHECKPOINT_REST_TIMES);
}

/* A checkpoint that fails costs nothing but space: it is tried again after the next pages. */
static void checkpoint_if_due(struct sqlite_engine *engine, struct conn *conn)
{
    if (conn->wal_pages < engine->wal_pages) {
        started_over(engine);
    }
    engine->wal_pages = conn->wal_pages;
    /* If the spare is spent the WAL must not eat what its own emptying needs. */
    bool full = engine->spare.spent || engine->limited;
    if (conn->wal_pages < (full ? CHECKPOINT_FULL_PAGES : engine->checkpoint_after_pages) &&
        !appended_much(engine)) {
        return;
    }
    engine->appended_bytes = 0;
    /* Readers may keep even a WAL that was moved as a whole from starting over. */
    engine->checkpoint_after_pages = conn->wal_pages + engine->checkpoint_pages;
    bool whole = false;
    bool insist = conn->wal_pages >= CHECKPOINT_INSIST_PAGES;
    int mode = full     ? SQLITE_CHECKPOINT_TRUNCATE
               : insist ? SQLITE_CHECKPOINT_RESTART
                        : SQLITE_CHECKPOINT_PASSIVE;
    struct deadline deadline = deadline_after_ms(full || insist ? CHECKPOINT_INSIST_MS : 0);
    int64_t begun_us = clock_real_us();
    hf_status status = checkpoint(conn, mode, deadline, &whole);
    engine->checkpoint_end_us = clock_real_us();
    engine->checkpoint_us = engine->checkpoint_end_us - begun_us;
    if (status) {
        log_about(engine->log, HF_LOG_WARN, NULL, "%s", err_message());
    } else if (!whole) {
        warn_of_wal(engine, conn);
    }
}

void apply_checkpoint(struct sqlite_engine *engine)
{
    bool whole;
    if (checkpoint(&engine->writer, SQLITE_CHECKPOINT_PASSIVE, deadline_after_ms(0), &whole) !=
        HF_OK) {
        log_about(engine->log, HF_LOG_WARN, NULL, "%s", err_message());
    } else if (!whole) {
        warn_of_wal(engine, &engine->writer);
    }
}

void apply_give_up(struct sqlite_engine *engine)
{
    if (!atomic_exchange(&engine->replaced, true)) {
        live_retire(engine);
        log_about(
            engine->log, HF_LOG_ERROR, NULL,
            "%s, its -wal or -shm was replaced or deleted while in use: nothing that this process "
            "does is stored any more; close the bus and open it again",
            engine->files.db);
    }
}

/* Looks a few times if it is not sure: mostly that passes at once. */
static enum files_answer look_patiently(struct sqlite_engine *engine, int *ret_errno)
{
    enum files_answer answer = files_look(&engine->files, ret_errno);
    for (int i = 0; i < LOOK_AGAIN_TIMES && answer == FILES_UNSURE; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_US * 1000}, NULL);
        answer = files_look(&engine->files, ret_errno);
    }
    return answer;
}

hf_status apply_committed(struct sqlite_engine *engine, struct conn *conn, enum ring ring)
{
    atomic_fetch_add_explicit(&engine->commits, 1, memory_order_relaxed);
    int error;
    enum files_answer answer = look_patiently(engine, &error);
    if (answer == FILES_REPLACED) {
        apply_give_up(engine);
        return fail(HF_UNKNOWN,
                    "%s, its -wal or -shm was replaced or deleted while in use: what was "
                    "just written may be lost",
                    engine->files.db);
    }
    bell_commit(&engine->bell, ring);
    if (conn->kind != CONN_FOREIGN) {
        checkpoint_if_due(engine, conn);
    }
    if (conn == &engine->writer) {
        live_sweep(engine);
    }
    return answer == FILES_SAME ? HF_OK
                                : fail(HF_UNKNOWN,
                                       "cannot look whether %s is still the file that "
                                       "was opened: %s. What was just written is lost if it is not",
                                       engine->files.db, strerror(error));
}

/* ---- Before a write -------------------------------------------------------------------------- */

static hf_status recover(struct sqlite_engine *engine, struct deadline deadline)
{
    struct conn *conn = &engine->writer;
    conn_close(conn);
    tx_forget_idle(engine);
    pool_drain(&engine->pool);
    hf_status status = conn_open(conn, engine->files.db, CONN_WRITER, false, deadline);
    if (status) {
        return status;
    }
    bool whole = false;
    status = conn_exec(conn, SQLITE_QUERY_SYNC_FULL);
    conn->full_sync = status == HF_OK;
    if (!status) {
        status = checkpoint(conn, SQLITE_CHECKPOINT_TRUNCATE, deadline, &whole);
    }
    if (!status && !whole) {
        status = fail(HF_TIMEOUT, "readers kept the write-ahead log from being recovered");
    }
    if (status) {
        conn_close(conn);
        return status;
    }
    engine->writer_lost = false;
    log_about(engine->log, HF_LOG_INFO, NULL, "recovered %s after a failed commit",
              engine->files.db);
    return HF_OK;
}

hf_status apply_ready(struct sqlite_engine *engine, struct deadline deadline)
{
    if (!engine->writer_lost && files_look_shm(&engine->files) == FILES_REPLACED) {
        apply_give_up(engine);
    }
    if (atomic_load(&engine->replaced)) {
        return fail(HF_UNAVAILABLE,
                    "%s, its -wal or -shm was replaced or deleted while in use: close it "
                    "and open it again",
                    engine->files.db);
    }
    if (!engine->writer_lost) {
        return HF_OK;
    }
    hf_status status = recover(engine, deadline);
    return !status || status == HF_TIMEOUT
               ? status
               : fail(HF_UNAVAILABLE, "cannot recover from a failed commit: %s", err_message());
}

/* ---- One transaction ------------------------------------------------------------------------- */

static hf_status run_change(struct sqlite_engine *engine, struct conn *conn, struct change *change)
{
    switch (change->kind) {
#define CHANGE(KIND, name)                                                                         \
    case CHANGE_##KIND:                                                                            \
        return sqlite_##name(engine, conn, (struct name *)change);
#define ROLES(KIND, name)                                                                          \
    case CHANGE_##KIND:                                                                            \
        return fail(HF_MISUSE, "SQLite has no roles: every user who may write the file may do all");
#include "store/changes.def"
    case CHANGE_KINDS:
        break;
    }
    return fail(HF_MISUSE, "unknown change %d", (int)change->kind);
}

/* Whether the change is one statement, which SQLite undoes by itself. */
static bool is_one_statement(const struct change *change)
{
    const struct append *append = (const struct append *)change;
    return change->kind == CHANGE_APPEND && append->count == 1 &&
           append->events[0].expected_version < 0 && text_is_absent(append->events[0].unique);
}

/* Runs one change and gives it its answer. Anything but HF_OK: the transaction as a whole is over,
 * or the disk is full. */
static hf_status run_guarded(struct sqlite_engine *engine, struct conn *conn, struct change *change,
                             bool alone)
{
    bool guard = !alone && !is_one_statement(change);
    hf_status status = guard ? conn_save(conn) : HF_OK;
    if (status) {
        return status;
    }
    enum ring ring = conn->ring;
    status = run_change(engine, conn, change);
    change_answer(change, status);
    if (!status) {
        return guard ? conn_release(conn) : HF_OK;
    }
    conn->ring = ring;
    if (sqlite3_get_autocommit(conn->db) || status == HF_NOSPACE) {
        return status;
    }
    if (guard && conn_undo(conn) != HF_OK) {
        return err_set(status, change->message);
    }
    if (alone) {
        conn_rollback(conn);
    }
    return HF_OK;
}

/* Whether it brings events into the database, which must stop when the disk is full. */
static bool adds_events(const struct change *change)
{
    return change->kind == CHANGE_APPEND || change->kind == CHANGE_FIRE ||
           change->kind == CHANGE_DELAY || change->kind == CHANGE_RELEASE;
}

static bool is_skipped(const struct change *change, bool skip_appends)
{
    return skip_appends && adds_events(change);
}

/* Gives `status` and the thread's message to every change that had succeeded or had not run. */
static void answer_all(struct change *changes, bool skip_appends, hf_status status)
{
    for (struct change *at = changes; at; at = at->next) {
        if (!is_skipped(at, skip_appends)) {
            change_undone(at);
            if (!at->status) {
                change_answer(at, status);
            }
        }
    }
}

/* When the clock was set back, what is stored for later would come later by as much. Leases then
 * end lease_ms from now at the latest, and retries that were recorded in the future are due now:
 * early at worst. For a while this is done with every write: changes that were made before the
 * clock was set, and wait for their turn, still bring times of the old one. */
static hf_status mind_the_clock(struct sqlite_engine *engine, struct conn *conn)
{
    int64_t wall_us = clock_wall_us();
    int64_t mono_us = clock_mono_us();
    if (wall_us < engine->latest_us - CLOCK_TOLERANCE_US) {
        engine->set_back_until_us = mono_us + CLOCK_BACK_US;
    }
    engine->latest_us = wall_us;
    if (mono_us >= engine->set_back_until_us) {
        return HF_OK;
    }
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRIES_CLOCK_BACK, wall_us);
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_LEASES_CLOCK_BACK, wall_us);
    }
    conn->ring = RING_ALL;
    return status;
}

/* It is committed, and it could not be looked whether in the file that has the name. Changes that
 * may be lost are done; of the others that is not known. The thread's message says why. */
static void answer_unsure(struct change *changes, bool skip_appends)
{
    for (struct change *at = changes; at; at = at->next) {
        if (!is_skipped(at, skip_appends) && !at->relaxed && !at->status) {
            change_answer(at, HF_UNKNOWN);
        }
    }
}

/* Whether the changes move the end of the log by appends alone and leave its namespace as it is. */
static bool are_ordinary(const struct change *changes)
{
    bool ordinary = true;
    for (const struct change *at = changes; at; at = at->next) {
        ordinary &= at->kind == CHANGE_APPEND || at->kind == CHANGE_SETTLE ||
                    at->kind == CHANGE_CHECKPOINTS || at->kind == CHANGE_CLAIM ||
                    at->kind == CHANGE_SETTLE_LEASE;
    }
    return ordinary;
}

/* Runs the changes that are not skipped, inside the transaction. Anything but HF_OK ends it. */
static hf_status run_all(struct sqlite_engine *engine, struct conn *conn, struct change *changes,
                         bool skip_appends)
{
    assert(changes);
    bool alone = !changes->next;
    hf_status status = HF_OK;
    for (struct change *at = changes; at; at = at->next) {
        if (!is_skipped(at, skip_appends)) {
            at->status = HF_OK; /* an attempt before this one may have left its answer */
        }
    }
    for (struct change *at = changes; at && !status; at = at->next) {
        if (!is_skipped(at, skip_appends)) {
            status = run_guarded(engine, conn, at, alone);
            HF_POINT("mid_group");
        }
    }
    return status;
}

/* transact; `bury`: it remembers the dead along the way. That is for people and may fail nothing
 * else: if it took the transaction with it, `*ret_lost` is set and no change has an answer. */
static hf_status transact_once(struct sqlite_engine *engine, struct change *changes,
                               bool skip_appends, bool bury, struct deadline deadline,
                               bool *ret_begun, bool *ret_lost)
{
    struct conn *conn = &engine->writer;
    hf_status status = conn_begin(conn, deadline);
    if (status) {
        return status;
    }
    *ret_begun = true;
    status = mind_the_clock(engine, conn);
    if (!status) {
        status = run_all(engine, conn, changes, skip_appends);
    }
    if (!status && sqlite3_get_autocommit(conn->db)) {
        return HF_OK; /* the only change failed, and was rolled back */
    }
    if (status) {
        conn_rollback(conn);
        return status;
    }
    if (bury && atomic_load(&engine->live.sweep_due) && !node_bury(engine, conn)) {
        *ret_lost = true;
        return HF_OK;
    }
    HF_POINT("before_commit");
    enum ring ring = conn->ring;
    bool lasts = conn->head_known && are_ordinary(changes);
    status = conn_commit(conn);
    if (status) {
        node_exhume(engine);
        engine->writer_lost = status == HF_UNKNOWN;
        return status;
    }
    conn->head_known = lasts && conn->checked;
    HF_POINT("after_commit_before_ack");
    status = apply_committed(engine, conn, ring);
    if (status == HF_UNKNOWN && !atomic_load(&engine->replaced)) {
        answer_unsure(changes, skip_appends);
        return HF_OK;
    }
    return status;
}

static void undo_all(struct change *changes)
{
    for (struct change *at = changes; at; at = at->next) {
        change_undone(at);
    }
}

/* One whole transaction. HF_OK: every change that was not skipped has its answer. HF_NOSPACE:
 * rolled back, and it may be tried again. Anything else: no change was begun (`*ret_begun` false),
 * or the transaction failed and this is the answer of all. */
static hf_status transact(struct sqlite_engine *engine, struct change *changes, bool skip_appends,
                          struct deadline deadline, bool *ret_begun)
{
    bool lost = false;
    hf_status status =
        transact_once(engine, changes, skip_appends, true, deadline, ret_begun, &lost);
    if (!lost) {
        return status;
    }
    undo_all(changes);
    return transact_once(engine, changes, skip_appends, false, deadline, ret_begun, &lost);
}

/* ---- The disk is full ------------------------------------------------------------------------ */

static bool has_appends(const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (adds_events(at)) {
            return true;
        }
    }
    return false;
}

static bool has_others(const struct change *changes)
{
    for (const struct change *at = changes; at; at = at->next) {
        if (!adds_events(at)) {
            return true;
        }
    }
    return false;
}

/* About how much the appends of a list add to the database. What a release adds in one place it
 * takes away in another. */
static int64_t appended_bytes(const struct change *changes)
{
    int64_t bytes = 0;
    for (const struct change *at = changes; at; at = at->next) {
        bytes += change_bytes(at, APPEND_BYTES_FIXED);
    }
    return bytes;
}

/* Whether the appends leave room below a limit on the size of files. Whatever is in the WAL must
 * fit into the database one day, or the WAL can never be emptied again. */
static bool appends_fit_limit(struct sqlite_engine *engine, int64_t added_bytes)
{
    int64_t bytes_max = spare_file_bytes_max();
    engine->limited = bytes_max < LIMIT_TIGHT_BYTES;
    if (bytes_max == INT64_MAX) {
        return true;
    }
    int64_t pages;
    int64_t page_bytes;
    if (conn_number(&engine->writer, SQLITE_QUERY_READ_PAGE_COUNT, 0, &pages) != HF_OK ||
        conn_number(&engine->writer, SQLITE_QUERY_READ_PAGE_SIZE, 0, &page_bytes) != HF_OK) {
        return false;
    }
    return pages * page_bytes + spare_bytes() + added_bytes <= bytes_max;
}

/* The same for the disk: after the appends there must be room to move the whole WAL into the
 * database and something to settle with, as long as no other program fills the disk meanwhile. */
static bool appends_fit_disk(const struct sqlite_engine *engine, int64_t added_bytes)
{
    int64_t free_bytes = spare_disk_free(&engine->spare, NULL);
    int64_t wal_bytes = (int64_t)engine->writer.wal_pages * WAL_PAGE_BYTES;
    return free_bytes < 0 || free_bytes >= wal_bytes + 3 * added_bytes + SPARE_BYTES;
}

static void refuse_appends(const struct sqlite_engine *engine, struct change *changes)
{
    hf_status status = spare_refuse(&engine->spare);
    for (struct change *at = changes; at; at = at->next) {
        if (at->kind == CHANGE_APPEND) {
            ((struct append *)at)->failed_index = SIZE_MAX;
        }
        if (adds_events(at)) {
            change_answer(at, status);
        }
    }
}

/* Moves the WAL into the database and gives its space back. */
static bool empty_wal(struct sqlite_engine *engine)
{
    bool whole = false;
    hf_status status = checkpoint(&engine->writer, SQLITE_CHECKPOINT_TRUNCATE,
                                  deadline_after_ms(CHECKPOINT_INSIST_MS), &whole);
    if (!status && whole) {
        engine->writer.wal_pages = 0;
    }
    return !status && whole;
}

/* Moving the WAL needs space in the database first; the spare lends it. */
static void make_room(struct sqlite_engine *engine)
{
    if (!empty_wal(engine) && spare_spend(&engine->spare) && empty_wal(engine)) {
        spare_restore(&engine->spare, true);
    }
}

/* Is there room for the appends, and for settling after them? */
static bool has_room(struct sqlite_engine *engine, const struct change *changes)
{
    int64_t added_bytes = appended_bytes(changes);
    engine->appended_bytes += added_bytes;
    if (!spare_restore(&engine->spare, false) || !appends_fit_limit(engine, added_bytes)) {
        return false;
    }
    if (!appends_fit_disk(engine, added_bytes)) {
        empty_wal(engine);
        return appends_fit_disk(engine, added_bytes);
    }
    return true;
}

/* Transacts with less and less until it fits. Contract of transact, but HF_NOSPACE is an answer. */
static hf_status transact_in_space(struct sqlite_engine *engine, struct change *changes,
                                   struct deadline deadline, bool *ret_begun, bool *ret_skipped)
{
    bool skip = has_appends(changes) && !has_room(engine, changes);
    bool made_room = false;
    for (;;) {
        if (skip) {
            *ret_skipped = true;
            *ret_begun = true;
            refuse_appends(engine, changes);
            if (!has_others(changes)) {
                return HF_OK;
            }
        }
        hf_status status = transact(engine, changes, skip, deadline, ret_begun);
        if (status != HF_NOSPACE || !*ret_begun) {
            return status;
        }
        undo_all(changes);
        if (!made_room) {
            made_room = true;
            make_room(engine);
        } else if (!skip && has_appends(changes)) {
            skip = true;
        } else if (spare_spend(&engine->spare)) {
            empty_wal(engine);
        } else {
            return fail(HF_NOSPACE, "the disk is full, and so is what was kept for this case");
        }
    }
}

hf_status sqlite_apply(struct engine *base, struct change *changes, struct deadline deadline)
{
    struct sqlite_engine *engine = sqlite_of(base);
    bool relaxed = true;
    for (struct change *at = changes; at; at = at->next) {
        relaxed = relaxed && at->relaxed;
    }
    hf_status status = gate_take(&engine->gate, deadline);
    if (status) {
        return status;
    }
    bool begun = false;
    bool skipped = false;
    status = apply_ready(engine, deadline);
    if (!status) {
        bool full = engine->durability == HF_DURABILITY_POWER && !relaxed;
        status = conn_set_sync(&engine->writer, full);
    }
    if (!status) {
        status = transact_in_space(engine, changes, deadline, &begun, &skipped);
    }
    gate_give(&engine->gate);
    if (status && begun) {
        answer_all(changes, skipped, status);
        return HF_OK;
    }
    return status;
}
