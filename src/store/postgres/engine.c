/*
 * engine.c - opening and closing a PostgreSQL database as a store, and the table of its verbs.
 *
 * Opening:
 *
 *     connect the writer -> schema -> namespace -> the keeper (lock, LISTEN, first sign of life)
 *
 * The keeper of a store that is brief comes when it is needed (keeper.c).
 *
 * fork(): a child has the parent's descriptors but none of its threads. A byte sent by the child,
 * or libpq's farewell when it closes, would come to the server as the parent's; and a descriptor
 * that the child keeps open would keep the parent's session, with its locks, alive after the
 * parent's death. So the handler that runs in the child closes the sockets of all sessions and
 * marks every open engine as poisoned. What libpq has allocated stays, reachable and unused.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/postgres/postgres.h"
#include "store/postgres/read/reader.h"
#include "store/postgres/verbs.h"
#include "store/postgres/write/migrate.h"
#include "store/postgres/write/script.h"

#define NODE_BYTES_MAX 16384 /* what a node says about itself */
#define CLOSE_WAIT_MS 5000   /* for the server, to give back what we own */

/* ---- fork ------------------------------------------------------------------------------------ */

static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct postgres_engine *open_engines; /* under open_mutex, as are their lists of sessions */

/* In a child: what belongs to the parent's connections and threads. It is never touched again, and
 * not lost either. */
struct abandoned {
    void *what;
    struct abandoned *next;
};
static struct abandoned *abandoned;

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
    for (struct postgres_engine *engine = open_engines; engine; engine = engine->next_open) {
        atomic_store(&engine->poisoned, true);
        keeper_abandon(&engine->keeper);
        for (struct session *at = engine->sessions; at; at = at->next_open) {
            int fd = PQsocket(at->pg);
            if (fd >= 0) {
                close(fd);
            }
        }
    }
    open_engines = NULL;
    pthread_mutex_unlock(&open_mutex);
}

static void fork_register(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* From now on the engine's connections are known to fork. */
static void engine_list(struct postgres_engine *engine)
{
    pthread_once(&fork_once, fork_register);
    pthread_mutex_lock(&open_mutex);
    engine->next_open = open_engines;
    open_engines = engine;
    pthread_mutex_unlock(&open_mutex);
}

static void engine_unlist(struct postgres_engine *engine)
{
    pthread_mutex_lock(&open_mutex);
    struct postgres_engine **at = &open_engines;
    while (*at && *at != engine) {
        at = &(*at)->next_open;
    }
    if (*at) {
        *at = engine->next_open;
    }
    pthread_mutex_unlock(&open_mutex);
}

/* The caller holds open_mutex. */
static void list_session(struct postgres_engine *engine, struct session *session)
{
    session->next_open = engine->sessions;
    engine->sessions = session;
}

/* The caller holds open_mutex. */
static void unlist_session(struct postgres_engine *engine, struct session *session)
{
    struct session **at = &engine->sessions;
    while (*at && *at != session) {
        at = &(*at)->next_open;
    }
    if (*at) {
        *at = session->next_open;
    }
}

void engine_add_session(struct postgres_engine *engine, struct session *session)
{
    pthread_mutex_lock(&open_mutex);
    list_session(engine, session);
    pthread_mutex_unlock(&open_mutex);
}

void engine_drop_session(struct postgres_engine *engine, struct session *session)
{
    pthread_mutex_lock(&open_mutex);
    unlist_session(engine, session);
    pthread_mutex_unlock(&open_mutex);
}

void engine_move_session(struct session *from, struct session *to)
{
    struct postgres_engine *engine = from->engine;
    pthread_mutex_lock(&open_mutex);
    unlist_session(engine, from);
    session_move(from, to);
    list_session(engine, to);
    pthread_mutex_unlock(&open_mutex);
}

void engine_date_session(struct session *session, uint64_t era, int64_t birth_us)
{
    pthread_mutex_lock(&open_mutex);
    session->era = era;
    session->birth_us = birth_us;
    pthread_mutex_unlock(&open_mutex);
}

size_t engine_list_kin(struct postgres_engine *engine, uint64_t era, struct kin *kin, size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&open_mutex);
    for (struct session *at = engine->sessions; at && count < max; at = at->next_open) {
        if (at->era != 0 && at->era == era && at->birth_us != 0) {
            kin[count++] = (struct kin){PQbackendPID(at->pg), at->birth_us};
        }
    }
    pthread_mutex_unlock(&open_mutex);
    return count;
}

void engine_note_schema(struct postgres_engine *engine, int64_t number, int64_t programs_from)
{
    if (number > 0) {
        atomic_store(&engine->schema_number, number);
        atomic_store(&engine->programs_from, programs_from);
    }
}

void engine_abandon(void *what)
{
    struct abandoned *one = mem_alloc(sizeof *one);
    if (one) {
        pthread_mutex_lock(&open_mutex);
        *one = (struct abandoned){what, abandoned};
        abandoned = one;
        pthread_mutex_unlock(&open_mutex);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static hf_status engine_copy_names(struct postgres_engine *engine, const char *url,
                                   const struct store_options *options)
{
    hf_status status = address_init(&engine->address, url);
    if (status) {
        return status;
    }
    engine->place = engine->address.place;
    engine->pool.limit = engine->address.sessions_max - POOL_APART;
    engine->namespace_name =
        text_is_absent(options->namespace_name)
            ? mem_dup("", 0)
            : mem_dup(options->namespace_name.bytes, options->namespace_name.length);
    engine->node_bytes = mem_dup(options->node_name.bytes, options->node_name.length);
    engine->node_name = (struct text){engine->node_bytes, options->node_name.length};
    if (!engine->namespace_name || !engine->node_bytes) {
        return fail(HF_NOMEM, "no memory for names");
    }
    struct arena *arena = &engine->node_arena;
    engine->node = options->node;
    engine->node.id = arena_text(arena, options->node.id);
    engine->node.description = arena_text(arena, options->node.description);
    engine->node.metadata_json = arena_text(arena, options->node.metadata_json);
    engine->node.host = arena_text(arena, options->node.host);
    return arena_status(arena);
}

/* Frees whatever engine_open got so far. */
static void engine_free(struct postgres_engine *engine)
{
    for (int i = 0; i < POSTGRES_QUERY_COUNT; i++) {
        mem_free(engine->sql[i]);
    }
    address_release(&engine->address);
    set64_release(&engine->owned);
    mem_free(engine->namespace_name);
    mem_free(engine->node_bytes);
    arena_release(&engine->node_arena);
    mem_free(engine);
}

static hf_status engine_connect(struct postgres_engine *engine, const struct store_options *options,
                                struct deadline deadline)
{
    hf_status status = session_connect(&engine->writer, deadline);
    if (!status) {
        status = postgres_migrate(engine, options->open_mode, deadline);
    }
    if (!status) {
        status = postgres_namespace(engine, options->open_mode, deadline);
    }
    if (!status) {
        status = signs_new(&engine->signs);
    }
    if (engine->namespace_id == 0) {
        return status; /* the database as a whole: there is nothing to listen for */
    }
    if (!status) {
        status = prober_new(engine, &engine->prober);
    }
    if (!status) {
        status = ahead_new(engine, &engine->ahead);
    }
    if (!status) {
        status = keeper_init(engine);
    }
    if (!status && !options->brief) {
        status = keeper_start(engine, deadline);
    }
    return status;
}

/* What has locks of its own. */
static hf_status engine_init_rooms(struct postgres_engine *engine)
{
    hf_status status = session_pool_init(&engine->pool);
    if (status) {
        return status;
    }
    status = era_init(&engine->era);
    if (status) {
        session_pool_release(&engine->pool);
        return status;
    }
    status = checker_init(&engine->checker);
    if (status) {
        era_release(&engine->era);
        session_pool_release(&engine->pool);
        return status;
    }
    status = single_init(&engine->single);
    if (status) {
        checker_release(&engine->checker);
        era_release(&engine->era);
        session_pool_release(&engine->pool);
    }
    return status;
}

static struct postgres_engine *engine_new(const struct store_options *options)
{
    struct postgres_engine *engine = mem_calloc(1, sizeof *engine);
    if (!engine) {
        return NULL;
    }
    engine->head.class = &postgres_engine_class;
    engine->durability = options->durability;
    engine->timeout_ms = options->timeout_ms;
    engine->log = options->log;
    engine->single.wanted = options->brief;
    engine->keeper.wake_fd = -1;
    random_bytes(engine->token, sizeof engine->token);
    if (engine_init_rooms(engine) != HF_OK) {
        mem_free(engine);
        return NULL;
    }
    session_init(&engine->writer, engine, SESSION_WRITER);
    set64_init(&engine->owned, OWNED_MAX);
    arena_init(&engine->node_arena, NODE_BYTES_MAX);
    return engine;
}

static void engine_end(struct postgres_engine *engine)
{
    prober_free(engine->prober); /* its thread may be making news */
    ahead_free(engine->ahead);
    keeper_stop(engine);
    signs_free(engine->signs);
    session_pool_close(engine);
    session_release(&engine->writer);
    engine_unlist(engine);
    single_release(&engine->single);
    checker_release(&engine->checker);
    era_release(&engine->era);
    session_pool_release(&engine->pool);
    engine_free(engine);
}

/* Ends it, and answers the status with the message that it had. */
static hf_status engine_end_with(struct postgres_engine *engine, hf_status status)
{
    char message[HF_ERR_BYTES_MAX];
    snprintf(message, sizeof message, "%s", err_message());
    engine_end(engine);
    return status ? err_set(status, message) : HF_OK;
}

/* An engine that has not connected. */
static hf_status engine_begin(const char *url, const struct store_options *options,
                              struct postgres_engine **ret_engine)
{
    struct postgres_engine *engine = engine_new(options);
    if (!engine) {
        return fail(HF_NOMEM, "no memory for a store");
    }
    engine_list(engine);
    hf_status status = engine_copy_names(engine, url, options);
    if (status) {
        return engine_end_with(engine, status);
    }
    *ret_engine = engine;
    return HF_OK;
}

static hf_status postgres_open(const char *url, const struct store_options *options,
                               struct engine **ret_engine)
{
    struct deadline deadline = deadline_after_ms(options->timeout_ms);
    struct postgres_engine *engine;
    hf_status status = engine_begin(url, options, &engine);
    if (status) {
        return status;
    }
    status = engine_connect(engine, options, deadline);
    if (status) {
        return engine_end_with(engine, status);
    }
    atomic_store(&engine->opened, true);
    *ret_engine = &engine->head;
    return HF_OK;
}

static hf_status postgres_schema_plan(const char *url, const struct store_options *options,
                                      hf_migration_fn found, void *ctx)
{
    struct deadline deadline = deadline_after_ms(options->timeout_ms);
    struct postgres_engine *engine;
    hf_status status = engine_begin(url, options, &engine);
    if (status) {
        return status;
    }
    status = session_connect(&engine->writer, deadline);
    if (!status) {
        status = postgres_migrate_plan(engine, deadline, found, ctx);
    }
    return engine_end_with(engine, status);
}

/* ---- Closing --------------------------------------------------------------------------------- */

void postgres_leave(struct engine *base)
{
    int64_t never = 0;
    atomic_compare_exchange_strong(&postgres_of(base)->leaving_us, &never, clock_mono_us());
}

/* Whatever fails here is done later by others: they see that we are gone. */
static void engine_give_back(struct postgres_engine *engine)
{
    bool ring = false;
    if (engine->namespace_id == 0 || !keeper_is_running(engine)) {
        return; /* it owned nothing */
    }
    postgres_leave(&engine->head); /* a server that is away or silent is not waited for */
    engine->writer.publishes = false;
    engine->writer.deadline = deadline_after_ms(CLOSE_WAIT_MS);
    if (!session_is_up(&engine->writer)) {
        session_close(&engine->writer);
    }
    if (session_connect(&engine->writer, engine->writer.deadline) == HF_OK &&
        postgres_give_back_all(engine, &engine->writer, clock_wall_us(), &ring) == HF_OK && ring) {
        HF_POINT("mid_close");
        keeper_ring(engine);
    }
}

/* In a child: only our own memory. Threads of these may have been in the middle of anything. */
static void engine_forget(struct postgres_engine *engine)
{
    engine_abandon(engine->prober);
    engine_abandon(engine->ahead);
    session_pool_close(engine);
    session_release(&engine->writer);
    session_release(&engine->keeper.session);
    signs_free(engine->signs);
    engine_free(engine);
}

static void postgres_close(struct engine *base)
{
    struct postgres_engine *engine = postgres_of(base);
    if (atomic_load(&engine->poisoned)) {
        engine_forget(engine);
        return;
    }
    engine_give_back(engine);
    engine_end(engine);
}

/* ---- Verbs that are one line ----------------------------------------------------------------- */

bool postgres_poisoned(struct engine *engine)
{
    return atomic_load(&postgres_of(engine)->poisoned);
}

/* The server's crash ends the keeper's connection. */
uint64_t postgres_losses(struct engine *engine)
{
    uint64_t connects = atomic_load(&postgres_of(engine)->keeper.connects);
    return connects > 0 ? connects : 1; /* the first one, however late, loses nothing */
}

uint64_t postgres_era(struct engine *engine)
{
    return era_now(postgres_of(engine));
}

bool postgres_is_away(struct engine *engine)
{
    return atomic_load(&postgres_of(engine)->dialing) > 0;
}

uint64_t postgres_news(struct engine *engine)
{
    return postgres_poisoned(engine) ? 0 : keeper_news(postgres_of(engine));
}

uint64_t postgres_other_news(struct engine *engine)
{
    return atomic_load(&postgres_of(engine)->keeper.other_news);
}

/* Sessions of the pool, but for one of the scheduler and one for calls of the application. */
int32_t postgres_calls_max(struct engine *engine)
{
    return postgres_of(engine)->pool.limit - 2;
}

uint64_t postgres_timers_news(struct engine *engine)
{
    return atomic_load(&postgres_of(engine)->keeper.timers_news);
}

uint64_t postgres_wait(struct engine *engine, uint64_t seen, int64_t timeout_ms)
{
    return postgres_poisoned(engine) ? seen : keeper_wait(postgres_of(engine), seen, timeout_ms);
}

void postgres_wake(struct engine *engine)
{
    if (!postgres_poisoned(engine)) {
        keeper_wake(postgres_of(engine));
    }
}

void postgres_alive(struct engine *engine)
{
    if (!postgres_poisoned(engine)) {
        keeper_alive(postgres_of(engine));
    }
}

int64_t postgres_gap_timeouts(struct engine *engine)
{
    return atomic_load(&postgres_of(engine)->gap_timeouts);
}

void postgres_note(struct engine *engine, int32_t slot, const struct handler_note *note)
{
    struct keeper *keeper = &postgres_of(engine)->keeper;
    if (!postgres_poisoned(engine) && running_note(&keeper->running, slot, note)) {
        keeper_poke(keeper);
    }
}

void postgres_note_clear(struct engine *engine, int32_t slot)
{
    if (!postgres_poisoned(engine)) {
        running_note_clear(&postgres_of(engine)->keeper.running, slot);
    }
}

const struct engine_class postgres_engine_class = {
    .name = "postgres",
    .open = postgres_open,
    .close = postgres_close,
    .schema_script = script_whole,
    .schema_plan = postgres_schema_plan,
    .apply = postgres_apply,
    .held_by_caller = postgres_held_by_caller,
#define VERB(result, name, params, args) .name = postgres_##name,
#define OPTIONAL(result, name, params, args, otherwise)
#include "store/verbs.def"
    .retain_command = postgres_retain_command,
    .index_command = postgres_index_command,
    .timers_news = postgres_timers_news,
    .other_news = postgres_other_news,
    .calls_max = postgres_calls_max,
    .gap_timeouts = postgres_gap_timeouts,
    .time = postgres_time,
    .reader_gap_timeout = postgres_reader_gap_timeout,
    .reader_life = postgres_reader_life,
    .reader_continue = postgres_reader_continue,
    .era = postgres_era,
    .tx_finish = postgres_tx_finish,
    .tx_finish_unit = postgres_tx_finish_unit,
    .is_away = postgres_is_away,
    .leave = postgres_leave,
    .look_ms = KEEPER_LOOK_MS,
    /* Notes are shown, not kept: there is no place that the next process could look at. See
     * ret_unclean of struct acquire, ret_prerecord of struct claim. */
    .note = postgres_note,
    .note_clear = postgres_note_clear,
};
