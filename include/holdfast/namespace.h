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

typedef struct hf_namespace_options {
    size_t size;
    const char *metadata_json; /* a JSON object, for people and programs; none */
    hf_toggle gapless;         /* off: PostgreSQL leaves out positions of publishes that were rolled
                                  back; on: it does not, and publishers wait for each other's
                                  commits. Cannot be changed. SQLite never leaves one out. */
} hf_namespace_options;

#define HF_NAMESPACE_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(hf_namespace_options), NULL, HF_TOGGLE_DEFAULT                                      \
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
    int32_t gapless;        /* 1: no position is left out */
    int64_t head;           /* the log's newest position */
    int64_t subscriptions;
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

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_NAMESPACE_H */
