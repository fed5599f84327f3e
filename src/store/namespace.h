/*
 * namespace.h - the part of the store's contract (store.h) that is about namespaces as such.
 *
 * A store may look after any namespace of its database. One that was opened without a namespace can
 * do nothing else.
 */
#ifndef HF_STORE_NAMESPACE_H
#define HF_STORE_NAMESPACE_H

#include "store/store.h"

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
    bool copying;            /* it is the target of a copy that is not complete */
    struct text grants_json; /* [{"role", "to"}, ...]; absent: none, or no roles */
};

/* All of the database by name, or the one of this name (absent: all). */
typedef int (*namespace_row_fn)(const struct namespace_row *row, void *ctx);
hf_status store_namespace_list(struct store *store, struct text name, namespace_row_fn found,
                               void *ctx);

#endif
