/*
 * namespace.h - the part of the store's contract (store.h) that is about namespaces as such.
 *
 * A store may look after any namespace of its database. One that was opened without a namespace can
 * do nothing else.
 */
#ifndef HF_STORE_NAMESPACE_H
#define HF_STORE_NAMESPACE_H

#include "store/retention.h"
#include "store/store.h"

/* The index on types of a namespace. */
enum type_index {
    TYPE_INDEX_OFF,
    TYPE_INDEX_BUILDING, /* new events are in it; older ones follow by steps */
    TYPE_INDEX_ON,       /* it is complete: what looks for few of many events asks it */
    TYPE_INDEX_DROPPING
};

/*
 * Makes or changes a namespace of the database, which need not be the store's own.
 *   absent:  made with what is given if `create`, ret_created = true; else HF_NOTFOUND.
 *   present: what is given replaces what is stored. HF_CONFLICT if gapless is given and another,
 *            where the engine knows the difference. HF_BUSY: being removed.
 */
struct namespace_put {
    struct change change;
    struct text name;
    struct text metadata_json; /* an object */
    hf_toggle gapless;
    int64_t retention_ms;    /* -1: not given; 0: for ever (retention.h) */
    int64_t retention_bytes; /* -1: not given; 0: no limit */
    hf_lagging lagging;
    hf_toggle type_index; /* steps of struct type_steps do what that needs */
    bool create;
    bool ret_created;
};

/*
 * One step of removing a namespace, which is not the store's own: at most about
 * STORE_REMOVE_STEP_ROWS rows, or a month of a log. ret_more: call it again. The first step marks
 * it: from then on it cannot be opened, nor changed by struct namespace_put. Without `force` that
 * step answers HF_CONFLICT if a store that is alive has it open, and names some. The last step
 * frees the name; the namespace's number is never given again, so a process that still has it open
 * can do no harm: appends and new subscriptions fail. HF_NOTFOUND. Rings.
 */
struct namespace_remove {
    struct change change;
    struct text name;
    bool force;
    bool ret_more;
};

#define STORE_REMOVE_STEP_ROWS 1000

/*
 * One step of building the index on types of a namespace, or of dropping it, as its setting says:
 * at most STORE_TYPES_STEP_ROWS events, or a month of a log. ret_more: call it again. A process
 * that dies between two steps leaves nothing that another one's step would not find. HF_NOTFOUND.
 * HF_BUSY: another process is at it, or a transaction in the way. To be handed to
 * store_type_steps, not to store_run.
 */
struct type_steps {
    struct change change;
    struct text name; /* absent: the store's own */
    bool ret_more;
    char ret_command[STORE_COMMAND_BYTES_MAX]; /* the engine's: what is left to do; "": nothing */
};

#define STORE_TYPES_STEP_ROWS 2000

hf_status store_type_steps(struct store *store, struct type_steps *steps, struct deadline deadline);

/*
 * Reads by the index on types: appends up to `max` events after position `after` that match the
 * filter's patterns, by position. *ret_through: all that match up to there are among them.
 * *ret_used is false, and nothing was read, if the namespace has no complete index, if the patterns
 * match more than STORE_TYPES_MAX types, or if reading on from `after` is about as fast.
 */
hf_status store_read_types(struct store *store, const struct filter *filter, int64_t after,
                           int32_t max, struct batch *batch, bool *ret_used, int64_t *ret_through);

#define STORE_TYPES_MAX 64
#define STORE_TYPES_WALK_MAX 256 /* types that are compared with a pattern to find them */

/*
 * Gives a role of the database's server a part in a namespace, or takes it back (two kinds of
 * change, one struct). ret_changed: it was not so before. HF_INVALID: no such part. HF_NOTFOUND: no
 * such namespace, or no such role of the server. HF_MISUSE: the engine knows no roles. HF_DENIED:
 * the store's own role is not the owner.
 */
struct namespace_grant {
    struct change change;
    struct text role; /* "viewer", "publisher", "consumer", "owner" */
    struct text name; /* of the namespace */
    struct text grantee;
    bool ret_changed;
};

/* A namespace as stored. -1: not known. */
struct namespace_row {
    struct text name;
    struct text metadata_json;
    int64_t created_at_us;
    int64_t removing_at_us; /* -1: it is not being removed */
    bool gapless;
    int64_t head;
    int64_t subscriptions;
    int64_t retention_ms;
    int64_t retention_bytes;
    bool drops_lagging;
    enum type_index type_index;
    bool copying;            /* it is the target of a copy that is not complete */
    struct text grants_json; /* [{"role", "to"}, ...]; absent: none, or no roles */
};

/* All of the database by name, or the one of this name (absent: all). */
typedef int (*namespace_row_fn)(const struct namespace_row *row, void *ctx);
hf_status store_namespace_list(struct store *store, struct text name, namespace_row_fn found,
                               void *ctx);

#endif
