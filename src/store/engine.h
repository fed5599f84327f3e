/*
 * engine.h - what a database engine implements; the contracts are those of store.h.
 *
 * store.c forwards each verb of store.h to the engine's function of the same name. Changes do not
 * come one by one: group.c collects those of all threads and hands them to `apply` as a list.
 */
#ifndef HF_STORE_ENGINE_H
#define HF_STORE_ENGINE_H

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
    /* True in a forked child of the process that opened it. */
    bool (*poisoned)(struct engine *engine);

    hf_status (*subscription_get)(struct engine *, struct text, subscription_row_fn, void *);
    hf_status (*subscription_by_id)(struct engine *, int64_t, subscription_row_fn, void *);
    hf_status (*subscription_list)(struct engine *, subscription_row_fn, void *);
    hf_status (*namespace_list)(struct engine *, struct text, namespace_row_fn, void *);
    hf_status (*node_list)(struct engine *, struct text, node_row_fn, void *);
    hf_status (*retention_plan)(struct engine *, struct text, int64_t, struct retention_plan *);
    /* Runs what a step of retention has left to be done outside of its transaction. NULL: nothing
     * ever is. HF_BUSY: somebody else's transaction was in the way. */
    hf_status (*retain_command)(struct engine *, const char *command, struct deadline);
    hf_status (*standing)(struct engine *, int64_t, struct standing *, epoch_fn, void *);
    hf_status (*progress)(struct engine *, const int64_t *, size_t, int64_t, progress_fn, void *);
    hf_status (*partitions)(struct engine *, int64_t, member_row_fn, partition_row_fn, void *);
    hf_status (*blocked)(struct engine *, int64_t, int64_t, int32_t, blocked_row_fn, void *);
    hf_status (*delivery_facts)(struct engine *, int64_t, const uint8_t[16], int64_t, int64_t,
                                struct arena *, struct delivery_facts *, struct text *);
    hf_status (*event_find)(struct engine *, const uint8_t[16], struct batch *);
    hf_status (*head)(struct engine *, int64_t *, int64_t *);
    hf_status (*last)(struct engine *, int64_t *);
    hf_status (*gaps)(struct engine *, int64_t, struct gap_facts *);
    hf_status (*now)(struct engine *, struct deadline, int64_t *);
    hf_status (*position_before)(struct engine *, int64_t, int64_t, int64_t *);
    hf_status (*retries_due)(struct engine *, const struct due_query *, struct batch *, int64_t *);
    hf_status (*lanes)(struct engine *, int64_t, int32_t, lane_fn, void *);
    hf_status (*ahead)(struct engine *, int64_t, int32_t, int64_t, position_fn, void *);
    hf_status (*lease_read)(struct engine *, int64_t, const uint8_t[STORE_TOKEN_BYTES],
                            struct batch *);
    hf_status (*dead_list)(struct engine *, const struct dead_query *, hf_dead_letter_fn, void *);
    hf_status (*dead_get)(struct engine *, int64_t, hf_dead_letter_fn, void *);
    hf_status (*dead_count)(struct engine *, const struct dead_query *, int64_t *);
    hf_status (*sizes)(struct engine *, struct store_sizes *);
    hf_status (*doctor)(struct engine *, hf_finding_fn, void *);
    hf_status (*verify_check)(struct engine *, enum verify_check, int32_t, verify_said_fn, void *);
    hf_status (*verify_scan)(struct engine *, enum verify_table, int32_t, struct verify_cursor *,
                             bool *, verify_row_fn, void *);

    hf_status (*schedule_get)(struct engine *, struct text, schedule_row_fn, void *);
    hf_status (*schedule_list)(struct engine *, struct text, int32_t, bool *, schedule_row_fn,
                               void *);
    hf_status (*schedules_due)(struct engine *, const struct due_page *, bool *, schedule_row_fn,
                               void *);
    hf_status (*schedule_runs)(struct engine *, const uint8_t[16], int64_t, int32_t,
                               schedule_run_fn, void *);
    hf_status (*timers_due)(struct engine *, int64_t *);
    uint64_t (*timers_news)(struct engine *);  /* NULL: any news may be of timers */
    int64_t (*time)(struct engine *, int64_t); /* NULL: the store's clock is ours */
    hf_status (*identity)(struct engine *, char[TRANSFER_IDENTITY_BYTES]);
    hf_status (*transfer_facts)(struct engine *, struct text, struct transfer_facts *);
    hf_status (*export_open)(struct engine *, struct exporter **);
    hf_status (*export_rows)(struct exporter *, int64_t, enum transfer_table, int64_t, int64_t,
                             transfer_row_fn, void *);
    void (*export_close)(struct exporter *);

    hf_status (*reader_open)(struct engine *, int64_t, bool, struct reader **);
    hf_status (*reader_next)(struct reader *, const struct filter *, int32_t, struct batch *,
                             int64_t *, bool *);
    void (*reader_close)(struct reader *);
    void (*reader_gap_timeout)(struct reader *, int64_t); /* NULL: positions have no gaps */

    hf_status (*tx_begin)(struct engine *, struct deadline, struct tx **);
    hf_status (*tx_enter)(struct tx *, const struct hold *, const struct entry *, int64_t);
    hf_status (*tx_leave)(struct tx *, bool, bool *);
    hf_status (*tx_finish)(struct tx *, bool *); /* NULL: it is tx_leave and tx_commit */
    hf_status (*tx_finish_unit)(struct tx *, struct tx_member *, size_t, bool *, size_t *);
    /* NULL: it is tx_leave and tx_enter of each, then tx_finish */
    hf_status (*tx_append)(struct tx *, struct append *);
    void *(*tx_connection)(struct tx *);
    bool (*tx_abort)(struct tx *);
    hf_status (*tx_commit)(struct tx *);
    void (*tx_rollback)(struct tx *);

    hf_status (*join_begin)(struct engine *, void *, struct deadline);
    hf_status (*join_append)(struct engine *, void *, struct append *);
    hf_status (*join_commit)(struct engine *, void *);
    hf_status (*join_rollback)(struct engine *, void *);

    int64_t look_ms; /* store_look_ms */
    uint64_t (*news)(struct engine *);
    uint64_t (*losses)(struct engine *);
    bool (*is_away)(struct engine *);     /* NULL: it is never waited for */
    void (*leave)(struct engine *);       /* NULL: the same */
    bool (*is_replaced)(struct engine *); /* NULL: it never is */
    uint64_t (*wait)(struct engine *, uint64_t, int64_t);
    void (*wake)(struct engine *);
    void (*note)(struct engine *, int32_t, int64_t, int64_t, int32_t); /* NULL: takes none */
    void (*note_clear)(struct engine *, int32_t);                      /* NULL: the same */
    void (*alive)(struct engine *);
};

extern const struct engine_class sqlite_engine_class;
extern const struct engine_class postgres_engine_class;

/*
 * The class of the PostgreSQL engine. A program has one of three definitions of this function, by
 * what it is linked from:
 *
 *     engine_module.c   opens libholdfast-postgres.so, once: libholdfast.so, and the command
 *     engine_linked.c   the engine is part of the program: libholdfast-postgres.a, and all tests
 *     engine_absent.c   there is none: libholdfast.a
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
