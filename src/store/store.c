/*
 * store.c - a store is an engine and a group; this file forwards, by the list of verbs.def.
 *
 * It is the one place that checks what holds for every engine: a forked child must not touch its
 * parent's database, and a thread inside a transaction must not wait for itself.
 */
#include "store/store.h"

#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "store/common/missing.h"
#include "store/engine.h"
#include "store/group.h"

struct store {
    struct engine *engine;
    struct group group;
};

static hf_status sqlite_class_get(const struct engine_class **ret_class)
{
    *ret_class = &sqlite_engine_class;
    return HF_OK;
}

/* What a URL says about its engine, which may have to be loaded first. */
struct scheme {
    const char *name;
    const char *other_name; /* NULL: none */
    bool whole_url;         /* the engine's open gets the URL as it is, scheme and all */
    hf_status (*class_get)(const struct engine_class **ret_class);
};

static const struct scheme schemes[] = {
    {.name = "sqlite", .class_get = sqlite_class_get},
    {.name = "postgres",
     .other_name = "postgresql",
     .whole_url = true,
     .class_get = postgres_class_get},
};

#define SCHEME_COUNT (sizeof schemes / sizeof schemes[0])

/* What follows "name:" in the URL; NULL if it begins with another one. */
static const char *after_scheme(const char *url, const char *name)
{
    size_t length = strlen(name);
    bool named = strncmp(url, name, length) == 0 && url[length] == ':';
    return named ? url + length + 1 : NULL;
}

/* Does the URL have this scheme? Then what its engine opens, else NULL. */
static const char *location_in(const char *url, const struct scheme *scheme)
{
    const char *location = after_scheme(url, scheme->name);
    if (!location && scheme->other_name) {
        location = after_scheme(url, scheme->other_name);
    }
    return location && scheme->whole_url ? url : location;
}

/* The scheme of the URL and what its engine opens; NULL if it has none of them. */
static const struct scheme *find_scheme(const char *url, const char **ret_location)
{
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        const char *location = location_in(url, &schemes[i]);
        if (location) {
            *ret_location = location;
            return &schemes[i];
        }
    }
    return NULL;
}

#ifdef HF_FAULTS
static const struct engine_class *extra_class;

void store_engine_add(const struct engine_class *class)
{
    extra_class = class;
}

const struct engine_class *store_engine_find(const char *url, const char **ret_location)
{
    const struct engine_class *class = NULL;
    const struct scheme *scheme = find_scheme(url, ret_location);
    return scheme && scheme->class_get(&class) == HF_OK ? class : NULL;
}
#endif

/* Is it a connection string of libpq, and no path? */
static bool is_conninfo(const char *url)
{
    static const char *const words[] = {
        "host=", "hostaddr=", "port=", "dbname=", "user=", "password=", "service="};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(url, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Splits a URL into the engine and the rest. "C:x" style surprises are refused: a scheme that is
 * no engine's is an error, unless the text looks like a path. What is refused may hold a password,
 * and is not told. */
static hf_status find_engine(const char *url, const struct engine_class **ret_class,
                             const char **ret_location)
{
    if (!url || !*url) {
        return fail(HF_INVALID, "the database URL is empty; give sqlite:PATH or postgres://...");
    }
    const struct scheme *named = find_scheme(url, ret_location);
    if (named) {
        return named->class_get(ret_class);
    }
#ifdef HF_FAULTS
    if (extra_class && after_scheme(url, extra_class->name)) {
        *ret_class = extra_class;
        *ret_location = after_scheme(url, extra_class->name);
        return HF_OK;
    }
#endif
    if (is_conninfo(url)) {
        return fail(HF_INVALID, "the database is given by a URL: postgres://USER@HOST/DATABASE");
    }
    const char *slashes = strstr(url, "://");
    size_t scheme =
        slashes ? (size_t)(slashes - url) : strspn(url, "abcdefghijklmnopqrstuvwxyz0123456789+");
    if (scheme > 1 && url[scheme] == ':') {
        return fail(HF_INVALID,
                    "no engine for URL scheme \"%.*s\"; this build has: sqlite, postgres",
                    (int)scheme, url);
    }
    *ret_location = url; /* a path */
    return sqlite_class_get(ret_class);
}

hf_status store_open(const char *url, const struct store_options *options, struct store **ret_store)
{
    const struct engine_class *class = NULL;
    const char *location = NULL;
    hf_status status = find_engine(url, &class, &location);
    if (status) {
        return status;
    }
    struct store *store = mem_calloc(1, sizeof *store);
    if (!store) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = class->open(location, options, &store->engine);
    if (status) {
        mem_free(store);
        return status;
    }
    status = group_init(&store->group, store->engine, options->queue_events_max,
                        options->queue_bytes_max);
    if (status) {
        class->close(store->engine);
        mem_free(store);
        return status;
    }
    *ret_store = store;
    return HF_OK;
}

hf_status store_schema_script(const char *url, struct buf *out)
{
    const struct engine_class *class = NULL;
    const char *location = NULL;
    hf_status status = find_engine(url, &class, &location);
    if (status) {
        return status;
    }
    if (!class->schema_script) {
        return fail(HF_MISUSE, "a database of %s is migrated by opening it, not by a script",
                    class->name);
    }
    class->schema_script(out);
    return buf_status(out);
}

hf_status store_schema_plan(const char *url, const struct store_options *options,
                            hf_migration_fn found, void *ctx)
{
    const struct engine_class *class = NULL;
    const char *location = NULL;
    hf_status status = find_engine(url, &class, &location);
    if (!status && !class->schema_plan) {
        status = fail(HF_MISUSE, "an engine %s has no schema", class->name);
    }
    return status ? status : class->schema_plan(location, options, found, ctx);
}

void store_close(struct store *store)
{
    if (!store) {
        return;
    }
    bool poisoned = store->engine->class->poisoned(store->engine);
    store->engine->class->close(store->engine);
    if (!poisoned) {
        /* In a forked child the mutex may be locked by a thread that does not exist there. */
        group_release(&store->group);
    }
    mem_free(store);
}

const char *store_engine_name(const struct store *store)
{
    return store->engine->class->name;
}

static hf_status check_process(struct store *store)
{
    return store_poisoned(store)
               ? fail(HF_MISUSE, "this handle belongs to the parent process; open one after fork()")
               : HF_OK;
}

/* ---- Verbs that are forwarded ---------------------------------------------------------------- */

#define ENGINE struct store *store

/* Refuses in a forked child. */
#define ASK(name, params, args)                                                                    \
    hf_status store_##name params                                                                  \
    {                                                                                              \
        struct engine *engine = store->engine;                                                     \
        hf_status refused = check_process(store);                                                  \
        return refused ? refused : engine->class->name args;                                       \
    }
#define SIGN(result, name, params, args)                                                           \
    result store_##name params                                                                     \
    {                                                                                              \
        struct engine *engine = store->engine;                                                     \
        return engine->class->name args;                                                           \
    }
#define OPTIONAL(result, name, params, args, otherwise)                                            \
    result store_##name params                                                                     \
    {                                                                                              \
        struct engine *engine = store->engine;                                                     \
        return engine->class->name ? engine->class->name args : otherwise;                         \
    }
#define READ(result, name, params, args)                                                           \
    result store_##name params                                                                     \
    {                                                                                              \
        return reader->engine->class->name args;                                                   \
    }
#define COPY(result, name, params, args)                                                           \
    result store_##name params                                                                     \
    {                                                                                              \
        return exporter->engine->class->name args;                                                 \
    }
#define WITHIN(result, name, params, args)                                                         \
    result name params                                                                             \
    {                                                                                              \
        return tx->engine->class->name args;                                                       \
    }
#include "store/verbs.def"

/* ---- Changes --------------------------------------------------------------------------------- */

#define AGAIN_FIRST_MS 2 /* the first pause between attempts; each is twice the last */
#define AGAIN_LAST_MS 50 /* the longest pause between attempts */

/* Of a change whose first answer was lost only these are an answer: it is done, or what stands in
 * the log shows that it was not. */
static hf_status doubt(const struct change *change, hf_status status)
{
    if (!change->doubtful || !status || status == HF_CONFLICT || status == HF_INVALID ||
        status == HF_UNKNOWN) {
        return status;
    }
    return fail(HF_UNKNOWN,
                "it is not known whether it was stored; the connection was lost, then: %s",
                err_message());
}

/* Runs the change, again and again while another transaction is in its way. The pause is taken
 * here and not in the engine, so that no other changes wait behind this one. A doubt from an
 * earlier run stays. */
static hf_status run_until(struct store *store, struct change *change, struct deadline deadline)
{
    int64_t begun_us = clock_mono_us();
    for (int64_t pause_ms = AGAIN_FIRST_MS;; pause_ms *= 2) {
        change->again = false;
        hf_status status = group_run(&store->group, change, deadline);
        int64_t left_ms = deadline_left_ms(deadline);
        pause_ms = pause_ms > AGAIN_LAST_MS ? AGAIN_LAST_MS : pause_ms;
        bool in_time = left_ms < 0 || left_ms > pause_ms;
        if (status && change->again && !in_time) {
            status = fail(status, "%s; it was tried for %lld ms", err_message(),
                          (long long)((clock_mono_us() - begun_us) / 1000));
        }
        if (!status || !change->again || !in_time) {
            return change->status = doubt(change, status);
        }
        struct timespec time = {.tv_nsec = pause_ms * 1000000};
        nanosleep(&time, NULL);
    }
}

/* May this thread hand changes over? */
static hf_status check_caller(struct store *store)
{
    hf_status status = check_process(store);
    if (!status && store->engine->class->held_by_caller(store->engine)) {
        status = fail(HF_MISUSE, "this thread is inside a transaction of the same database and "
                                 "would wait for itself");
    }
    return status;
}

hf_status store_run(struct store *store, struct change *change, struct deadline deadline)
{
    hf_status status = check_caller(store);
    change->doubtful = false;
    return status ? (change->status = status) : run_until(store, change, deadline);
}

void store_run_together(struct store *store, struct change *const *changes, size_t count,
                        struct deadline deadline)
{
    hf_status refused = check_caller(store);
    for (size_t at = 0; at < count && !refused;) {
        size_t left = count - at;
        for (size_t i = at; i < count; i++) {
            changes[i]->again = changes[i]->doubtful = false;
        }
        at += group_run_together(&store->group, changes + at,
                                 left < GROUP_TOGETHER_MAX ? left : GROUP_TOGETHER_MAX, deadline);
    }
    for (size_t i = 0; i < count; i++) {
        struct change *change = changes[i];
        if (refused) {
            change->status = refused;
        } else if (change->status && change->again) {
            run_until(store, change, deadline);
        } else if (change->status) {
            err_set(change->status, change->message);
            change->status = doubt(change, change->status);
        }
        if (change->status) {
            snprintf(change->message, sizeof change->message, "%s", err_message());
        }
    }
}

hf_status store_retain(struct store *store, struct retain *retain, struct deadline deadline)
{
    const struct engine_class *class = store->engine->class;
    hf_status status = store_run(store, &retain->change, deadline);
    if (!status && retain->ret_command[0]) {
        status = class->retain_command(store->engine, retain->ret_command, deadline);
    }
    return status;
}

hf_status store_type_steps(struct store *store, struct type_steps *steps, struct deadline deadline)
{
    const struct engine_class *class = store->engine->class;
    hf_status status = store_run(store, &steps->change, deadline);
    if (!status && steps->ret_command[0]) {
        status = class->index_command(store->engine, steps->ret_command);
    }
    return status;
}

/* Of the only one that was asked for. */
struct sole_progress {
    struct progress *progress;
    bool found;
};

static int keep_progress(int64_t subscription_id, const struct progress *progress, void *ctx)
{
    (void)subscription_id;
    struct sole_progress *sole = ctx;
    *sole->progress = *progress;
    sole->found = true;
    return 0;
}

hf_status store_progress(struct store *store, int64_t subscription_id, int64_t now_us,
                         struct progress *ret_progress)
{
    struct sole_progress sole = {.progress = ret_progress};
    hf_status status =
        store_progress_each(store, &subscription_id, 1, now_us, keep_progress, &sole);
    if (!status && !sole.found) {
        status = missing_subscription(subscription_id);
    }
    return status;
}

/* The facts about the only subscription that was asked for. */
struct sole_facts {
    struct arena *arena;
    struct delivery_facts *facts;
    struct text *story;
    bool found;
};

static int keep_facts(int64_t subscription_id, const struct delivery_facts *facts,
                      struct text story, void *ctx)
{
    (void)subscription_id;
    struct sole_facts *sole = ctx;
    sole->found = true;
    *sole->facts = *facts;
    sole->facts->cancelled_by = arena_text(sole->arena, facts->cancelled_by);
    sole->facts->cancel_reason = arena_text(sole->arena, facts->cancel_reason);
    *sole->story = arena_text(sole->arena, story);
    return 0;
}

hf_status store_delivery_facts(struct store *store, int64_t subscription_id,
                               const struct delivery_query *query, struct arena *arena,
                               struct delivery_facts *ret_facts, struct text *ret_attempts_json)
{
    struct delivery_facts facts;
    struct text story;
    struct sole_facts sole = {.arena = arena, .facts = &facts, .story = &story};
    hf_status status =
        store_delivery_facts_each(store, query, &subscription_id, 1, keep_facts, &sole);
    if (!status) {
        status = sole.found ? arena_status(arena) : missing_subscription(subscription_id);
    }
    if (!status) {
        *ret_facts = facts;
        *ret_attempts_json = story;
    }
    return status;
}

hf_status store_verify(struct store *store, hf_finding_fn found, hf_verify_progress_fn progress,
                       void *ctx)
{
    hf_status refused = check_process(store);
    return refused ? refused : verify_engine(store->engine, found, progress, ctx);
}

void store_export_close(struct exporter *exporter)
{
    if (exporter) {
        exporter->engine->class->export_close(exporter);
    }
}

void store_reader_close(struct reader *reader)
{
    if (reader) {
        reader->engine->class->reader_close(reader);
    }
}

void store_reader_gap_timeout(struct reader *reader, int64_t timeout_ms)
{
    if (reader->engine->class->reader_gap_timeout) {
        reader->engine->class->reader_gap_timeout(reader, timeout_ms);
    }
}

struct reader_life store_reader_life(const struct reader *reader)
{
    const struct engine_class *class = reader->engine->class;
    return class->reader_life ? class->reader_life(reader) : (struct reader_life){0};
}

void store_reader_continue(struct reader *reader, struct reader_life life)
{
    if (reader->engine->class->reader_continue) {
        reader->engine->class->reader_continue(reader, life);
    }
}

const struct timing *store_commits(const struct store *store)
{
    return &store->group.commits;
}

bool store_has_gaps(const struct store *store)
{
    return store->engine->class->reader_gap_timeout != NULL;
}

hf_status tx_finish(struct tx *tx, bool *ret_lane_busy)
{
    const struct engine_class *class = tx->engine->class;
    if (class->tx_finish) {
        return class->tx_finish(tx, ret_lane_busy);
    }
    bool lane_busy;
    hf_status status = class->tx_leave(tx, true, &lane_busy);
    if (status) {
        char message[STORE_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", err_message());
        class->tx_rollback(tx);
        return err_set(status == HF_CONFLICT ? HF_STALE : status, message);
    }
    status = class->tx_commit(tx);
    if (!status) {
        *ret_lane_busy = lane_busy;
    }
    return status;
}

hf_status tx_finish_unit(struct tx *tx, struct tx_member *others, size_t count, bool same,
                         int64_t now_us, bool *ret_lane_busy, size_t *ret_settled)
{
    const struct engine_class *class = tx->engine->class;
    if (same && class->tx_finish_unit) {
        return class->tx_finish_unit(tx, others, count, ret_lane_busy, ret_settled);
    }
    *ret_settled = SIZE_MAX;
    bool *lane_busy = ret_lane_busy;
    for (size_t i = 0; i < count; i++) {
        hf_status status = class->tx_leave(tx, true, lane_busy);
        bool left = status == HF_OK;
        if (left) {
            lane_busy = &others[i].ret_lane_busy;
            status = class->tx_enter(tx, &others[i].hold, others[i].entry, now_us);
        }
        if (status) {
            *ret_settled = status == HF_CONFLICT ? (left ? i + 1 : i) : SIZE_MAX;
            char message[STORE_MESSAGE_BYTES];
            snprintf(message, sizeof message, "%s", err_message());
            class->tx_rollback(tx);
            return err_set(status, message);
        }
    }
    return tx_finish(tx, lane_busy);
}

void tx_rollback(struct tx *tx)
{
    if (tx) {
        tx->engine->class->tx_rollback(tx);
    }
}

int64_t store_look_ms(const struct store *store)
{
    return store->engine->class->look_ms;
}

bool store_takes_notes(const struct store *store)
{
    return store->engine->class->keeps_notes;
}
