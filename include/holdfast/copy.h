/*
 * holdfast/copy.h - copying a bus into another database, of any engine.
 *
 * The copy has the same events at the same positions with the same ids and times, gaps included,
 * the same versions of keys, and every subscription with its options, checkpoints, waiting, held
 * and blocked deliveries with their stories, what is settled ahead, and the dead letters: consumers
 * go on there exactly where they were. What processes hold is let go: leases become free, and
 * partitions have no owner. The source is only read.
 *
 * The target may be empty, or have other namespaces, which are left alone; a namespace that is
 * copied must not be in it, or be empty. No process can open it until the copy is complete and
 * proved. A copy that ends early, however it ends, is continued by calling again.
 */
#ifndef HOLDFAST_COPY_H
#define HOLDFAST_COPY_H

#include <holdfast/bus.h>
#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_copy_options {
    size_t size;
    const char *namespace_name; /* only this one; all of the source */
    hf_toggle live;             /* off: the source must stand still, from beginning to end. On: it
                                   may be in use; the copy is its state at one moment, for each
                                   namespace, and what comes later is not in it */
} hf_copy_options;

#define HF_COPY_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(hf_copy_options), NULL, HF_TOGGLE_DEFAULT                                           \
    }

typedef struct hf_copy_progress {
    const char *namespace_name;
    const char *phase; /* "events", "state", "verify", "index": complete, and being indexed */
    int64_t events;    /* copied by this call */
    int64_t rows;      /* of all kinds, read and written, or read to compare, by this call */
    int64_t position;  /* of the namespace's log, up to where this phase has come */
    int64_t head;      /* the log's newest position */
} hf_copy_progress;

/* Non-zero stops the copy, which can be gone on with. */
typedef int (*hf_copy_progress_fn)(const hf_copy_progress *progress, void *ctx);

typedef struct hf_copy_report {
    size_t size;
    int32_t complete;   /* 0: it was stopped by the callback */
    int32_t resumed;    /* 1: it went on with a copy that was interrupted */
    int64_t namespaces; /* complete */
    int64_t events;     /* copied by this call; those of an earlier one are not counted */
    int64_t rows;       /* of all other kinds */
    int64_t later;      /* `live`: positions that were given after the moment of the copy */
    int64_t undriven;   /* schedules that pg_cron drives in the source; in the copy only processes
                           fire them, unless they are put again with their driver */
} hf_copy_report;

#define HF_COPY_REPORT_INIT                                                                        \
    {                                                                                              \
        sizeof(hf_copy_report), 0, 0, 0, 0, 0, 0, 0                                                \
    }

/*
 * Copies from one bus to another; both may have been opened with no_namespace. When it answers
 * HF_OK and the report says that it is complete, both sides have been read again and are equal,
 * number by number and byte by byte. `options` and `progress` may be NULL. With `to` NULL it copies
 * nothing and only answers whether the source can be copied now: for programs that open the target
 * with HF_OPEN_CREATE, and do not want to make a database that remains empty.
 *   HF_CONFLICT  the source is in use, or was used meanwhile (without `live`); or a namespace of
 *                the target is not empty, is open somewhere, or is the unfinished copy of another
 *                database. The message names it. All namespaces are looked at before the first is
 *                changed: those that were empty can still be used.
 *   HF_STALE     another call copies into the same target, and has taken over.
 *   HF_CORRUPT   the two sides are not equal.
 *   HF_NOTFOUND  there is no such namespace.
 */
HF_API hf_status hf_copy(hf_bus *from, hf_bus *to, const hf_copy_options *options,
                         hf_copy_progress_fn progress, void *ctx, hf_copy_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_COPY_H */
