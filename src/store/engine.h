/*
 * engine.h - what a database engine implements; the contracts are those of store.h.
 *
 * verbs.def lists the verbs: store.c forwards each of store.h to the engine's function of the same
 * name. Changes do not come one by one: group.c collects those of all threads and hands them to
 * `apply` as a list.
 */
#ifndef HF_STORE_ENGINE_H
#define HF_STORE_ENGINE_H

#include "store/cancel.h"
#include "store/deliveries.h"
#include "store/membership.h"
#include "store/namespace.h"
#include "store/retention.h"
#include "store/store.h"
#include "store/timers.h"
#include "store/transfer.h"
#include "store/verify.h"

/* The head of every engine's own struct. */
struct engine {
    const struct engine_class *class;
};

/* The heads of an engine's reader, transaction and exporter. */
struct reader {
    struct engine *engine;
};
struct tx {
    struct engine *engine;
};
struct exporter {
    struct engine *engine;
};

struct engine_class {
    const char *name; /* "sqlite"; also the URL's scheme */

    /* `location` is the URL without "scheme:", or all of it (store.c says of which engine). */
    hf_status (*open)(const char *location, const struct store_options *options,
                      struct engine **ret_engine);
    void (*close)(struct engine *engine);
    /* Appends the SQL that makes the schema or brings it up to date. NULL: only opening does. */
    void (*schema_script)(struct buf *out);
    /* Tells what a migration would do. `options` say no namespace, and HF_OPEN_NOMIGRATE. */
    hf_status (*schema_plan)(const char *location, const struct store_options *options,
                             hf_migration_fn found, void *ctx);

    /*
     * Applies a list of changes in order, together if it can, sets status and message of each.
     * A change that fails leaves no trace and does not disturb the others. If the common commit
     * fails, every change of it that had succeeded answers why (HF_NOSPACE, HF_IO, HF_UNKNOWN ...).
     * HF_OK: every change has its answer. HF_TIMEOUT, HF_BUSY, HF_UNAVAILABLE: the database could
     * not be had before the deadline, no change was begun, none has an answer. The deadline is that
     * of the first change.
     * Only one thread at a time calls it. The commit waits for the disk unless all are `relaxed`.
     */
    hf_status (*apply)(struct engine *engine, struct change *changes, struct deadline deadline);
    /* True if the calling thread holds what apply would wait for: it would wait for itself. */
    bool (*held_by_caller)(struct engine *engine);

    /* The verbs, by their kinds; those that are OPTIONAL may be NULL. */
#define VERB(result, name, params, args) result(*name) params;
#include "store/verbs.def"

    /* What follows may be NULL, too, and is not in verbs.def because store.c does more than to
     * forward: it does without. */

    /* Runs what a step of retention has left to be done outside of its transaction. NULL: nothing
     * ever is. HF_BUSY: another transaction was in the way. */
    hf_status (*retain_command)(struct engine *engine, const char *command,
                                struct deadline deadline);
    /* The same for a step of the index on types, which may take long. */
    hf_status (*index_command)(struct engine *engine, const char *command);
    /* NULL: positions have no gaps */
    void (*reader_gap_timeout)(struct reader *reader, int64_t timeout_ms);
    /* NULL, both: there is no server that may crash */
    struct reader_life (*reader_life)(const struct reader *reader);
    void (*reader_continue)(struct reader *reader, struct reader_life life);
    /* NULL: it is tx_leave and tx_commit */
    hf_status (*tx_finish)(struct tx *tx, bool *ret_lane_busy);
    /* NULL: it is tx_leave and tx_enter of each, then tx_finish */
    hf_status (*tx_finish_unit)(struct tx *tx, struct tx_member *others, size_t count,
                                bool *ret_lane_busy, size_t *ret_settled);

    int64_t look_ms;  /* store_look_ms */
    bool keeps_notes; /* store_takes_notes */
};

extern const struct engine_class sqlite_engine_class;
extern const struct engine_class postgres_engine_class;

/*
 * The class of the PostgreSQL engine. A program has one of three definitions of this function, by
 * what it is linked from:
 *
 *     module/opened.c   opens libholdfast-postgres.so, once: libholdfast.so, and the command
 *     module/linked.c   the engine is part of the program: libholdfast-postgres.a, and all tests
 *     module/absent.c   there is none: libholdfast.a
 *
 * HF_UNAVAILABLE if the engine cannot be had; the sentence says what to install or to link.
 */
hf_status postgres_class_get(const struct engine_class **ret_class);

#ifdef HF_FAULTS
/* Lets store_open know one more engine by its name as URL scheme (NULL forgets it): the seam
 * through which tests slip an engine that fails on purpose under everything above. */
void store_engine_add(const struct engine_class *class);
/* The engine that the URL's scheme names and what it opens; NULL if there is none. */
const struct engine_class *store_engine_find(const char *url, const char **ret_location);
#endif

#endif
