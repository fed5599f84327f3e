/*
 * engine.c - opening and closing a SQLite database as a store, and the table of its verbs.
 *
 * Opening, under the gate from the schema on, so that two processes do not do it at once:
 *
 *     refuse what cannot work -> open -> gate -> WAL mode -> schema -> namespace -> settings
 *         -> bell, own live file, sweep of the dead, spare -> give the gate
 *
 * If another process keeps the gate and there is nothing to write, it is opened without.
 *
 * fork(): a child has the parent's memory and descriptors but none of its threads, and SQLite
 * forbids to carry a connection across. The handler that runs in the child closes the descriptors
 * of locks (a child that kept one would keep a dead parent's locks alive) and marks every open
 * engine as poisoned; nothing of it is used there again, and closing it only frees memory. Nor can
 * such a child open a database: SQLite keeps in memory, once per process and file, which locks it
 * has. The child has a copy of that, but not the locks, and it may have been copied in the middle
 * of a change by a thread that the child does not have. So opening is refused there; a process that
 * forks before it opens, or after it has closed, has no such memory.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/migrate.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/node.h"

#define OPEN_GATE_MS 100   /* for the gate, if opening has nothing to write */
#define CLOSE_WAIT_MS 5000 /* for the gate, to give back what we own */
#define GOODBYE_WAIT_MS 50 /* the same, only to be remembered as a node */
#define CHECKPOINT_FIRST_PAGES 1000
#define SYNC_FULL 2
#define SYNC_NORMAL 1

/* ---- fork ------------------------------------------------------------------------------------ */

static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct sqlite_engine *open_engines; /* under open_mutex */
static atomic_bool forked_open;            /* we are the child of a process that had one open */

static void fork_prepare(void)
{
    pthread_mutex_lock(&open_mutex);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&open_mutex);
}

static void fork_child(void)
{
    for (struct sqlite_engine *engine = open_engines; engine; engine = engine->next_open) {
        atomic_store(&engine->poisoned, true);
        gate_abandon(&engine->gate);
        bell_close(&engine->bell);
        live_abandon(&engine->live);
    }
    atomic_store(&forked_open, open_engines || atomic_load(&forked_open));
    open_engines = NULL;
    pthread_mutex_unlock(&open_mutex);
}

static void fork_register(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void engine_list(struct sqlite_engine *engine)
{
    pthread_once(&fork_once, fork_register);
    pthread_mutex_lock(&open_mutex);
    engine->next_open = open_engines;
    open_engines = engine;
    pthread_mutex_unlock(&open_mutex);
}

static void engine_unlist(struct sqlite_engine *engine)
{
    pthread_mutex_lock(&open_mutex);
    struct sqlite_engine **at = &open_engines;
    while (*at && *at != engine) {
        at = &(*at)->next_open;
    }
    if (*at) {
        *at = engine->next_open;
    }
    pthread_mutex_unlock(&open_mutex);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static hf_status engine_copy_names(struct sqlite_engine *engine,
                                   const struct store_options *options)
{
    engine->namespace_name =
        text_is_absent(options->namespace_name)
            ? mem_dup("", 0)
            : mem_dup(options->namespace_name.bytes, options->namespace_name.length);
    engine->node_name_bytes = mem_dup(options->node_name.bytes, options->node_name.length);
    if (!engine->namespace_name || !engine->node_name_bytes) {
        return fail(HF_NOMEM, "no memory for names");
    }
    engine->node_name = (struct text){engine->node_name_bytes, options->node_name.length};
    return HF_OK;
}

/* synchronous as the durability asks for, read back. */
static hf_status engine_set_sync(struct sqlite_engine *engine)
{
    struct conn *conn = &engine->writer;
    bool full = engine->durability == HF_DURABILITY_POWER;
    conn->full_sync = !full;
    hf_status status = conn_set_sync(conn, full);
    sqlite3_stmt *stmt = status == HF_OK ? conn_statement(conn, SQLITE_QUERY_READ_SYNC) : NULL;
    bool found;
    if (!stmt) {
        return status ? status : conn_error(conn);
    }
    status = conn_row(conn, stmt, &found);
    if (!status && (!found || sqlite3_column_int(stmt, 0) != (full ? SYNC_FULL : SYNC_NORMAL))) {
        status = fail(HF_UNAVAILABLE, "%s: SQLite does not take the synchronous setting",
                      engine->files.db);
    }
    conn_done(stmt);
    return status;
}

/* The files beside the database that a store cannot be without. */
static hf_status engine_make_files(struct sqlite_engine *engine, const struct node_facts *node)
{
    hf_status status = engine->bell.page ? HF_OK : bell_open(&engine->bell, &engine->files);
    if (!status) {
        status = node_check_id(engine, node);
    }
    return status ? status : live_open(engine, node);
}

/* The files, and the full disk on which they cannot be made. */
static hf_status engine_settle_in(struct sqlite_engine *engine, const struct node_facts *node)
{
    hf_status status = engine_set_sync(engine);
    if (!status) {
        status = files_remember(&engine->files);
    }
    engine->spare.files = &engine->files;
    if (!status) {
        status = engine_make_files(engine, node);
        if (status == HF_NOSPACE && spare_spend(&engine->spare)) {
            /* Reading and settling must be possible on a full disk. */
            status = engine_make_files(engine, node);
        }
    }
    return status;
}

/* What happens under the gate. */
static hf_status engine_prepare(struct sqlite_engine *engine, const struct store_options *options,
                                struct deadline deadline)
{
    hf_status status = migrate_schema(engine, options->open_mode, deadline);
    if (!status) {
        status = migrate_namespace(engine, options->open_mode, clock_wall_us(), deadline);
    }
    if (!status) {
        status = engine_settle_in(engine, &options->node);
    }
    if (!status) {
        node_sweep(engine);
        spare_open(&engine->spare, &engine->files);
    }
    return status;
}

/* Frees whatever engine_open got so far. */
static void engine_free(struct sqlite_engine *engine)
{
    mem_free(engine->namespace_name);
    mem_free(engine->node_name_bytes);
    files_release(&engine->files);
    mem_free(engine);
}

/* Another process writes, perhaps for long: a command that only reads does not wait for it if the
 * database is as it has to be. What is left undone is done by the first write: the dead are swept,
 * the spare is allocated. Only an id that was given needs the gate, to be the only one of its name.
 * The holder of the gate may be about to remove the namespace, or to copy another into it: see
 * gate.c. If it migrates the schema with a newer program, then what is seen is the schema before or
 * after a step, because each is a transaction; before the last one is as if this store had been
 * opened before the migration began, which no migration waits for or prevents.
 * ret_entered: HF_OK, or why it cannot be opened. False: it needs the gate. */
static bool engine_enter_beside(struct sqlite_engine *engine, const struct store_options *options,
                                struct deadline deadline, hf_status *ret_entered)
{
    if (options->node.given || !migrate_is_done(engine, options->open_mode, deadline)) {
        return false;
    }
    hf_status status = engine_settle_in(engine, &options->node);
    HF_POINT("opened_beside");
    if (!status && (!gate_await_door(&engine->gate, deadline) ||
                    !migrate_is_done(engine, options->open_mode, deadline))) {
        live_close(engine);
        return false;
    }
    *ret_entered = status;
    spare_look(&engine->spare, &engine->files);
    engine->live.sweep_due = true;
    return true;
}

static hf_status engine_enter(struct sqlite_engine *engine, const struct store_options *options,
                              struct deadline deadline)
{
    struct deadline briefly = deadline_earlier(deadline, deadline_after_ms(OPEN_GATE_MS));
    hf_status status = gate_take(&engine->gate, briefly);
    if (status == HF_TIMEOUT && engine_enter_beside(engine, options, deadline, &status)) {
        return status;
    }
    if (status == HF_TIMEOUT) {
        status = gate_take(&engine->gate, deadline);
    }
    if (!status) {
        status = engine_prepare(engine, options, deadline);
        gate_give(&engine->gate);
    }
    return status;
}

static hf_status engine_open_files(struct sqlite_engine *engine,
                                   const struct store_options *options, struct deadline deadline)
{
    hf_status status = files_init(&engine->files, sqlite3_db_filename(engine->writer.db, "main"));
    if (!status) {
        status = gate_open(&engine->gate, &engine->files);
    }
    if (status) {
        return status;
    }
    notes_sweep();
    status = engine_enter(engine, options, deadline);
    if (!status) {
        status = pool_init(&engine->pool);
    }
    if (status) {
        live_close(engine);
        bell_close(&engine->bell);
        gate_close(&engine->gate);
    }
    return status;
}

static hf_status sqlite_open(const char *location, const struct store_options *options,
                             struct engine **ret_engine)
{
    if (atomic_load(&forked_open)) {
        return fail(HF_MISUSE,
                    "the parent process had a SQLite database open when it forked, so "
                    "this one cannot use SQLite safely; fork before opening, or exec after fork()");
    }
    bool wal_missing = false;
    hf_status status = files_check(location);
    if (!status) {
        status = files_check_wal(location, &wal_missing);
    }
    if (status) {
        return status;
    }
    struct sqlite_engine *engine = mem_calloc(1, sizeof *engine);
    if (!engine) {
        return fail(HF_NOMEM, "no memory for a store");
    }
    struct deadline deadline = deadline_after_ms(options->timeout_ms);
    engine->head.class = &sqlite_engine_class;
    engine->durability = options->durability;
    engine->timeout_ms = options->timeout_ms;
    engine->log = options->log;
    engine->bell.fd = -1;
    engine->live.fd = -1;
    engine->live.directory = -1;
    engine->checkpoint_pages = CHECKPOINT_FIRST_PAGES;
    engine->checkpoint_after_pages = CHECKPOINT_FIRST_PAGES;
    random_bytes(engine->token, sizeof engine->token);
    status = engine_copy_names(engine, options);
    if (!status) {
        status = conn_open(&engine->writer, location, CONN_WRITER,
                           open_mode_creates(options->open_mode), deadline);
    }
    if (!status) {
        status = engine_open_files(engine, options, deadline);
    }
    if (status) {
        conn_close(&engine->writer);
        engine_free(engine);
        return status;
    }
    if (wal_missing) {
        log_about(engine->log, HF_LOG_WARN, NULL,
                  "%s was missing although %s was in use before: "
                  "if it was deleted, the commits in it are lost. Run `holdfast verify`",
                  engine->files.wal, engine->files.db);
    }
    pool_changed(engine); /* from now on a foreign write is seen */
    engine_list(engine);
    *ret_engine = &engine->head;
    return HF_OK;
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* Whether partitions, leases or memberships name us. True also if that cannot be known. */
static bool engine_has_something(struct sqlite_engine *engine)
{
    struct conn *conn;
    if (pool_take(engine, &conn) != HF_OK) {
        return true;
    }
    bool has = true;
    bool row = false;
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TOKEN_HAS_SOMETHING);
    if (stmt) {
        bind_blob(stmt, 1, engine->token, sizeof engine->token);
        if (conn_row(conn, stmt, &row) == HF_OK && row) {
            has = sqlite3_column_int(stmt, 0) != 0;
            conn_done(stmt);
        }
    }
    pool_give(engine, conn);
    return has;
}

/* One transaction: what names us goes, and we are remembered as a node that was there. */
static hf_status engine_say_goodbye(struct sqlite_engine *engine, struct deadline deadline)
{
    struct conn *conn = &engine->writer;
    hf_status status = conn_begin(conn, deadline);
    if (status) {
        return status;
    }
    status = sqlite_give_back_all(engine, conn, clock_wall_us());
    if (!status) {
        node_stop(engine, conn);
    }
    enum ring ring = conn->ring;
    if (status) {
        conn_rollback(conn);
    } else if (conn_commit(conn) == HF_OK) {
        HF_POINT("mid_close");
        apply_committed(engine, conn, ring);
    }
    return HF_OK;
}

/* Gives back what we own and moves the WAL into the database, so that what stays behind is one
 * file. Whatever fails here is done later by others: they see that we are gone. A store that has
 * nothing to give back waits for no other writer. */
static void engine_give_back(struct sqlite_engine *engine)
{
    bool owes = engine_has_something(engine);
    bool speaks = owes || node_is_remembered(engine);
    struct deadline deadline = deadline_after_ms(owes     ? CLOSE_WAIT_MS
                                                 : speaks ? GOODBYE_WAIT_MS
                                                          : 0);
    struct conn *conn = &engine->writer;
    if (gate_take(&engine->gate, deadline) != HF_OK) {
        return;
    }
    hf_status status = apply_ready(engine, deadline);
    if (!status && speaks) {
        status = engine_say_goodbye(engine, deadline);
    }
    if (!status) {
        conn->deadline = deadline_after_ms(0);
        sqlite3_wal_checkpoint_v2(conn->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    gate_give(&engine->gate);
}

static void sqlite_close(struct engine *base)
{
    struct sqlite_engine *engine = sqlite_of(base);
    if (atomic_load(&engine->poisoned)) {
        engine_free(engine); /* connections, mappings and locks are the parent's */
        return;
    }
    engine_unlist(engine);
    engine_give_back(engine);
    live_close(engine);
    tx_forget_idle(engine);
    conn_close(&engine->writer);
    pool_release(&engine->pool);
    bell_close(&engine->bell);
    gate_close(&engine->gate);
    engine_free(engine);
}

/* ---- Verbs that are one line ----------------------------------------------------------------- */

static bool sqlite_held_by_caller(struct engine *engine)
{
    return gate_held_by_caller(&sqlite_of(engine)->gate);
}

bool sqlite_poisoned(struct engine *engine)
{
    return atomic_load(&sqlite_of(engine)->poisoned);
}

/* A relaxed commit outlives every process; what an outage of the machine takes, takes us, too. */
uint64_t sqlite_losses(struct engine *engine)
{
    (void)engine;
    return 0;
}

uint64_t sqlite_other_news(struct engine *engine)
{
    return sqlite_poisoned(engine) ? 0 : bell_other_news(sqlite_of(engine));
}

uint64_t sqlite_news(struct engine *engine)
{
    return sqlite_poisoned(engine) ? 0 : bell_news(sqlite_of(engine));
}

uint64_t sqlite_wait(struct engine *engine, uint64_t seen, int64_t timeout_ms)
{
    return sqlite_poisoned(engine) ? seen : bell_wait(sqlite_of(engine), seen, timeout_ms);
}

void sqlite_wake(struct engine *engine)
{
    if (!sqlite_poisoned(engine)) {
        bell_wake(&sqlite_of(engine)->bell);
    }
}

void sqlite_note(struct engine *engine, int32_t slot, const struct handler_note *note)
{
    if (!sqlite_poisoned(engine)) {
        live_note(&sqlite_of(engine)->live, slot, note);
    }
}

void sqlite_note_clear(struct engine *engine, int32_t slot)
{
    if (!sqlite_poisoned(engine)) {
        live_note_clear(&sqlite_of(engine)->live, slot);
    }
}

void sqlite_alive(struct engine *engine)
{
    if (sqlite_poisoned(engine)) {
        return;
    }
    if (files_look_db(&sqlite_of(engine)->files) == FILES_REPLACED) {
        apply_give_up(sqlite_of(engine));
    }
    live_renew(sqlite_of(engine));
}

bool sqlite_is_replaced(struct engine *engine)
{
    return atomic_load(&sqlite_of(engine)->replaced);
}

static hf_status sqlite_schema_plan(const char *location, const struct store_options *options,
                                    hf_migration_fn found, void *ctx)
{
    struct engine *engine = NULL;
    hf_status status = sqlite_open(location, options, &engine);
    if (status == HF_NOTFOUND) {
        return migrate_plan(NULL, found, ctx);
    }
    if (!status) {
        status = migrate_plan(sqlite_of(engine), found, ctx);
        sqlite_close(engine);
    }
    return status;
}

const struct engine_class sqlite_engine_class = {
    .name = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .schema_plan = sqlite_schema_plan,
    .apply = sqlite_apply,
    .held_by_caller = sqlite_held_by_caller,
#define VERB(result, name, params, args) .name = sqlite_##name,
#define OPTIONAL(result, name, params, args, otherwise)
#include "store/verbs.def"
    .other_news = sqlite_other_news,
    .is_replaced = sqlite_is_replaced,
    .note = sqlite_note,
    .note_clear = sqlite_note_clear,
    .keeps_notes = true,
};
