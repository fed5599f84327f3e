/*
 * bus.h - the handle: what all files of the bus share. docs/architecture.md
 * has the map of its folders.
 *
 * Lock order: bus->life, bus->making, bus->mutex, the timekeeper's mutex, a runner's, then
 * that of the dispatchers. The last four are not held while the store is called.
 */
#ifndef HF_BUS_BUS_H
#define HF_BUS_BUS_H

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/set64.h"
#include "base/text/text.h"
#include "bus/deliver/departures.h"
#include "bus/deliver/ordered/assign.h"
#include "bus/deliver/turn/dispatchers.h"
#include "bus/deliver/turn/timekeeper.h"
#include "bus/deliver/window/exclusive.h"
#include "bus/meters.h"
#include "store/store.h"

struct async;
struct claimed;
struct scheduler;
struct definition_cache;
struct retention;
struct subscription;
struct tail;
struct watch;

#define HF_TIMEOUT_DEFAULT_MS 10000
#define HF_SHUTDOWN_DEFAULT_MS 30000
#define HF_HEARTBEAT_DEFAULT_MS 30000

/*
 * How a bus ends. It only goes down this list, and only bus_end (bus.c) moves it.
 *
 *     BUS_OPEN      everything is allowed
 *     BUS_DRAINING  hf_shutdown or hf_close waits for running handlers. What runs inside a handler
 *                   of this bus may call everything as before, so that a handler that is allowed to
 *                   finish can finish; every other thread gets HF_CLOSED
 *     BUS_CLOSED    all handlers have ended, or their time is over: HF_CLOSED for all threads. A
 *                   handler that is refused a call now was given up; its attempt does not count
 */
enum bus_end { BUS_OPEN, BUS_DRAINING, BUS_CLOSED };

/* What calls that look for work know of timers (timers/bring.c). */
struct timers_seen {
    atomic_bool served;            /* the scheduler runs */
    atomic_bool busy;              /* a thread does what is due */
    atomic_bool delegated;         /* our role may not do it: the database does (struct bring) */
    atomic_bool refused;           /* the schema does not let us, and the log was told */
    atomic_int_fast64_t looked_us; /* when the store was asked (monotonic); 0: never */
    atomic_int_fast64_t again_us;  /* what is due is not tried again before (monotonic) */
    atomic_int_fast64_t due_us;    /* the store's answer */
    atomic_uint_fast64_t news;     /* store_timers_news() before it was asked */
};

struct hf_bus {
    struct store *store;
    struct log log;
    char *node_name;      /* producer and owner name; NUL-terminated */
    char *namespace_name; /* NUL-terminated; NULL: none */
    bool no_namespace;    /* only calls about namespaces are allowed */
    int64_t timeout_ms;
    int64_t shutdown_ms;
    int64_t heartbeat_ms;
    int64_t payload_bytes_max;
    int64_t queue_events_max;
    int64_t queue_bytes_max;

    atomic_int references;    /* the handle, and every thread that may outlive hf_close */
    _Atomic enum bus_end end; /* how far hf_shutdown is */

    pthread_mutex_t life;   /* held while starting and stopping: one at a time */
    atomic_bool reap_due;   /* see subscriptions_reap_if_due */
    pthread_mutex_t making; /* held while a subscription is made or changed: one at a time */
    pthread_mutex_t mutex;  /* guards what follows */
    bool started;
    struct subscription *subscriptions; /* those with handlers in this process ... */
    struct set64 entries;               /* those of them that have a runner: id -> the entry */
    struct subscription *not_idle;      /* a stop: those before it are idle. The stop's own */
    pthread_cond_t retired;             /* one has left the list */
    hf_handler_id last_handler_id;
    struct async *async;         /* made by the first asynchronous publish */
    struct watch *watch;         /* NULL: no namespace */
    struct scheduler *scheduler; /* while started; guarded by life */
    struct retention *retention; /* while started; guarded by life */
    struct timers_seen timers;

    struct definition_cache *definition_cache; /* of shared subscriptions, by name */
    struct assignments assignments;            /* which partitions are fixed */
    struct exclusive exclusive;                /* who runs handlers, and who must run alone */
    struct tail *tail;                         /* of the log; NULL: no namespace */
    struct dispatchers dispatchers;            /* serve all subscriptions of the list */
    struct timekeeper timekeeper;              /* ends handlers whose time is up */
    struct departures departures;              /* who gives back together with others */
    atomic_bool notes[STORE_NOTES_MAX];        /* which notes are in use by workers */
    atomic_int waiters; /* threads in hf_wait: runners store checkpoints at once for them */
    atomic_int_fast64_t published;
    atomic_int_fast64_t delivered;
    atomic_int_fast64_t failed;
    struct meters meters;
    struct claimed *claimed; /* what hf_claim has handed out and is not settled */
};

/* HF_INVALID for NULL, HF_MISUSE in a forked child. */
hf_status bus_check_handle(const hf_bus *bus);
/* The same, and HF_MISUSE for a bus without a namespace. */
hf_status bus_check(const hf_bus *bus);
/* The same, and HF_CLOSED if the bus ends and the calling thread may not call it any more (enum
 * bus_end). */
hf_status bus_check_open(const hf_bus *bus);
/* May the calling thread still call a bus that ends? */
bool bus_admits(const hf_bus *bus);
/* HF_CLOSED; the attempt of the handler that the calling thread runs, if any, will not count. */
hf_status bus_refuse(const hf_bus *bus);
/* The deadline of one call. */
struct deadline bus_deadline(const hf_bus *bus);
/* Hands a change over with the call's deadline. */
hf_status bus_run(hf_bus *bus, struct change *change);

void bus_reference(hf_bus *bus);
/* Frees the handle with the last reference. */
void bus_unreference(hf_bus *bus);

/* Reads a size-first options struct of the caller, who may have been compiled against an older
 * header, over our defaults. first_bytes is the smallest size that a header has given the struct.
 * HF_INVALID if no header can have given it the size that it says. */
hf_status bus_read_options(void *own, size_t own_bytes, size_t first_bytes, const void *given,
                           const char *what);
/* The options of a call, which may be NULL, with defaults in the place of -1. Refuses what is out
 * of range. */
hf_status bus_take_options(const hf_options *given, hf_options *own);
/* Is this a size that a header can have given a struct? The same answer. */
hf_status bus_check_size(size_t size, size_t own_bytes, size_t first_bytes, const char *what);

#endif
