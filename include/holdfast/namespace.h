/*
 * holdfast/namespace.h - the namespaces of a database: making, changing, listing, removing them.
 *
 * A namespace is a bus of its own: its log and positions, subscriptions and dead letters have
 * nothing to do with those of another, whatever the names are. hf_open makes the one that it is
 * asked for; here they are made with settings, looked at and removed. Any bus on the database can
 * do that, also one that was opened with no_namespace.
 */
#ifndef HOLDFAST_NAMESPACE_H
#define HOLDFAST_NAMESPACE_H

#include <holdfast/bus.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What retention does with a subscription that has not finished events that are to go. */
typedef enum hf_lagging {
    HF_LAGGING_DEFAULT = 0, /* HF_LAGGING_KEEP */
    HF_LAGGING_KEEP = 1,    /* the events stay until it has */
    HF_LAGGING_DROP = 2     /* it is moved past them; logged, and shown with the subscription */
} hf_lagging;

#define HF_RETENTION_DEFAULT_MS INT64_C(15897600000) /* 184 days */

typedef struct hf_namespace_options {
    size_t size;
    const char *metadata_json; /* a JSON object, for people and programs; none */
    hf_toggle gapless;         /* off: PostgreSQL leaves out positions of publishes that were rolled
                                  back; on: it does not, and publishers wait for each other's
                                  commits. Cannot be changed. SQLite never leaves one out. */
    int64_t retention_ms;      /* HF_RETENTION_DEFAULT_MS: events stay at least so long; 0: for
                                  ever. PostgreSQL removes whole months. */
    int64_t retention_bytes;   /* 0: no limit; else the oldest events go while the log is larger */
    hf_lagging lagging;        /* keep */
    hf_toggle type_index;      /* off; on: events of rare types are found without reading the log,
                                  by hf_read and by subscriptions that are far behind. Every
                                  publish pays for it (docs/adr/0001-storage-model.md). Of a log
                                  that is large it is built, or dropped, by many small steps before
                                  the call returns; a started bus goes on with what a call has left
                                  that ended early */
} hf_namespace_options;

#define HF_NAMESPACE_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(hf_namespace_options), NULL, HF_TOGGLE_DEFAULT, -1, -1, HF_LAGGING_DEFAULT,         \
            HF_TOGGLE_DEFAULT                                                                      \
    }

/* Makes a namespace, or changes what is given of one that exists. A name is 1 to
 * HF_NAMESPACE_BYTES_MAX bytes of printable text. HF_CONFLICT: it exists and `gapless` is another.
 * HF_BUSY: it is being removed. `options` and ret_created may be NULL. */
HF_API hf_status hf_namespace_create(hf_bus *bus, const char *name,
                                     const hf_namespace_options *options, int32_t *ret_created);
/* Changes what is given. HF_NOTFOUND; else as hf_namespace_create. */
HF_API hf_status hf_namespace_set(hf_bus *bus, const char *name,
                                  const hf_namespace_options *options);

/* Numbers that are not known are -1. */
typedef struct hf_namespace_info {
    const char *name;
    const char *metadata_json; /* NULL: none */
    int64_t created_at_us;
    int64_t removing_at_us; /* since when it is being removed; -1: it is not */
    int32_t copying;        /* 1: it is the target of a copy that is not complete (hf_copy) */
    int32_t gapless;        /* 1: no position is left out */
    int64_t head;           /* the log's newest position */
    int64_t subscriptions;
    int64_t retention_ms;    /* 0: for ever */
    int64_t retention_bytes; /* 0: no limit */
    hf_lagging lagging;      /* never DEFAULT */
    const char *grants_json; /* [{"role", "to"}, ...]; NULL: nothing is granted */
    const char *type_index;  /* "off", "building", "on", "dropping" */
} hf_namespace_info;

typedef int (*hf_namespace_fn)(const hf_namespace_info *info, void *ctx);

/* All namespaces of the database by name. */
HF_API hf_status hf_namespace_list(hf_bus *bus, hf_namespace_fn found, void *ctx);
/* One. HF_NOTFOUND. */
HF_API hf_status hf_namespace_get(hf_bus *bus, const char *name, hf_namespace_fn found, void *ctx);

/*
 * Removes a namespace and all that is in it: events, subscriptions, dead letters, for ever. It goes
 * in steps that let other writers through, and cannot be opened any more from the first one on. If
 * the call ends early (HF_TIMEOUT, HF_UNKNOWN, the process dies) call it again: it goes on where it
 * was. HF_CONFLICT, and nothing happens: processes have it open, and `force` is not HF_ON. With
 * HF_ON their calls fail from now on with HF_NOTFOUND or another status, and what they publish
 * while it is being removed goes with it. HF_NOTFOUND. HF_MISUSE: it is the bus's own.
 */
HF_API hf_status hf_namespace_remove(hf_bus *bus, const char *name, hf_toggle force);

/* ---- Retention ------------------------------------------------------------------------------- */

/* What a run of retention has taken away so far, or would. Numbers are about right: PostgreSQL
 * counts positions and the disk's bytes, SQLite the events' own. */
typedef struct hf_retention_info {
    int64_t events;
    int64_t bytes;
    int64_t planned_events;   /* all that the run will take */
    int64_t planned_bytes;    /* -1: not known; SQLite adds them up only if the size has a limit */
    int64_t through;          /* the highest position that goes; 0: nothing does */
    int32_t by_size;          /* 1: some go because the log is too large, not only for their age */
    const char *kept_by;      /* a subscription that keeps others from going; NULL: none */
    const char *dropped_name; /* a subscription that this step moved (lagging=drop); NULL: none */
    int64_t dropped_from;     /* the position that it was moved from */
    int64_t dropped_through;  /* the position that it was moved to */
} hf_retention_info;

/* Not 0: that is enough, the run ends with HF_OK. */
typedef int (*hf_retention_fn)(const hf_retention_info *info, void *ctx);

/*
 * Deletes the events of a namespace (NULL: the bus's own) that are past its retention, in steps
 * that let others through. Every started bus does that about hourly, one process at a time; this
 * does it now. `progress` (may be NULL) is called after every step, and at least once. dry_run
 * HF_ON: only looks, and calls it once. Dead letters stay. If it ends early, however, the next run
 * goes on.
 * HF_NOTFOUND. HF_BUSY: transactions of others use what is to go for too long; try again later.
 */
HF_API hf_status hf_retention_run(hf_bus *bus, const char *name, hf_toggle dry_run,
                                  hf_retention_fn progress, void *ctx);

/* ---- Roles ----------------------------------------------------------------------------------- */

/*
 * On PostgreSQL a namespace is a boundary: a role of the server that does not own the schema may do
 * in it what it was granted, and nothing elsewhere. `role` is "viewer" (reads), "publisher"
 * (publishes, reads no payloads), "consumer" (reads, subscribes, delivers, resolves dead letters)
 * or "owner" (all of these); `grantee` is the server's role. For the owner of the schema.
 * HF_INVALID: no such `role`. HF_NOTFOUND: no such namespace or grantee. HF_MISUSE: SQLite, which
 * knows no roles, or PostgreSQL 14. ret_changed (may be NULL): 0 if it was so before.
 */
HF_API hf_status hf_namespace_grant(hf_bus *bus, const char *name, const char *role,
                                    const char *grantee, int32_t *ret_changed);
HF_API hf_status hf_namespace_revoke(hf_bus *bus, const char *name, const char *role,
                                     const char *grantee, int32_t *ret_changed);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_NAMESPACE_H */
