/*
 * holdfast.h - the public interface of Holdfast, a durable event bus.
 *
 * You publish an event; every subscription that wants it either processes it or holds it in its
 * dead letters with the whole story of what went wrong. This header is the API and its
 * documentation of record. It compiles as C11 and as C++.
 *
 * The life of a program
 *
 *     hf_open -> hf_subscribe (handlers) -> hf_start -> hf_publish ... -> hf_close
 *
 * Conventions
 *   - Every call that can fail returns hf_status. hf_errmsg() is the calling thread's last message:
 *     what happened, to what, and the limit that was passed.
 *   - Out-parameters are named ret_... and are untouched on failure; most may be NULL.
 *   - Options structs start with their own size and are initialised with their _INIT macro. In them
 *     a number of -1, an enum of 0 and a pointer of NULL mean "not given": the default, or, for a
 *     subscription that exists, what is stored.
 *   - Strings passed in are NUL-terminated UTF-8 and are copied. Payloads carry a length.
 *   - Timestamps (..._us) are microseconds since 1970-01-01T00:00:00Z; durations are milliseconds.
 *   - A callback gets memory that is valid until it returns. If a call that takes a callback fails
 *     before it begins, the callback never runs. Returning non-zero from a listing callback stops
 *     the listing, which is not an error.
 *
 * Threads
 *   An hf_bus may be used by any number of threads. Handlers and completion callbacks run on
 *   threads of the bus, which block all signals. hf_close is the exception: nobody may use the
 *   handle during or after it. After fork() the child must not use the parent's handle: every call
 *   there answers HF_MISUSE; hf_close in the child only frees memory.
 *
 * Blocking
 *   Calls that touch the database wait at most `timeout_ms` of hf_options and then answer
 *   HF_TIMEOUT (nothing was done) or HF_UNKNOWN (it may have been done; ask by id). The library
 *   never prints, never exits, and reads no environment variables (libpq reads PG...).
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION "0.1.0"

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#define HF_PRINTF(text_at, args_at) __attribute__((format(printf, text_at, args_at)))
#else
#define HF_API
#define HF_PRINTF(text_at, args_at)
#endif

/* ---- Limits ---------------------------------------------------------------------------------- */

#define HF_TYPE_BYTES_MAX 255              /* event type and pattern */
#define HF_NAME_BYTES_MAX 255              /* subscription name */
#define HF_NAMESPACE_BYTES_MAX 128         /* namespace name */
#define HF_KEY_BYTES_MAX 65536             /* key and tenant, each */
#define HF_PRODUCER_BYTES_MAX 255          /* producer and node name */
#define HF_METADATA_BYTES_MAX 65536        /* metadata, a JSON object */
#define HF_PAYLOAD_BYTES_MAX_DEFAULT 1048576 /* payload; raised with hf_options */
#define HF_JSON_DEPTH_MAX 64               /* nesting of payload and metadata */
#define HF_PATTERNS_MAX 64                 /* patterns of one subscription */
#define HF_PARTITIONS_MAX 1024             /* partitions of one subscription */
#define HF_PUBLISH_MANY_MAX 100000         /* events in one hf_publish_many */
#define HF_CLAIM_MAX 10000                 /* events in one hf_claim */
#define HF_ERROR_BYTES_MAX 2048            /* stored text of one attempt's error */
#define HF_ID_BYTES 37                     /* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and NUL */
#define HF_LEASE_BYTES 33                  /* 32 hexadecimal digits and NUL */
#define HF_AUTO_LENGTH ((size_t)-1)        /* payload_bytes: the payload is NUL-terminated */

/* ---- Status ---------------------------------------------------------------------------------- */

/* X(name, value, retriable, text). Values never change. */
#define HF_STATUS_MAP(X)                                                                           \
    X(HF_OK, 0, 0, "ok")                                                                           \
    X(HF_INVALID, 1, 0, "an argument or the data is outside its limits")                           \
    X(HF_MISUSE, 2, 0, "the call is not allowed in this state")                                    \
    X(HF_NOTFOUND, 3, 0, "no such thing")                                                          \
    X(HF_CONFLICT, 4, 0, "the stored state is not what the caller expected")                       \
    X(HF_STALE, 5, 0, "the lease was lost: somebody else has the work now")                        \
    X(HF_CLOSED, 6, 0, "the bus is shut down")                                                     \
    X(HF_TIMEOUT, 7, 1, "the deadline passed and nothing was done")                                \
    X(HF_UNKNOWN, 8, 1, "the outcome is unknown: ask by id, or repeat with the same id")           \
    X(HF_NOSPACE, 9, 1, "the disk is full")                                                        \
    X(HF_NOMEM, 10, 1, "out of memory")                                                            \
    X(HF_BUSY, 11, 1, "somebody else has it now")                                                  \
    X(HF_UNAVAILABLE, 12, 1, "the database cannot be opened or reached")                           \
    X(HF_DENIED, 13, 0, "permission denied")                                                       \
    X(HF_CORRUPT, 14, 0, "the database is damaged")                                                \
    X(HF_SCHEMA, 15, 0, "the database was made by a newer program")                                \
    X(HF_IO, 16, 1, "input or output failed")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, value, retriable, text) name = value,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* "HF_OK", "HF_INVALID" ...; never NULL. */
HF_API const char *hf_status_name(hf_status status);
/* The sentence of the map; never NULL. */
HF_API const char *hf_status_text(hf_status status);
/* 1 if repeating the call later may succeed, else 0. */
HF_API int hf_status_retriable(hf_status status);
/* The calling thread's last failure in words; "" before the first. Valid until the thread's next
 * failing call. */
HF_API const char *hf_errmsg(void);
/* HF_VERSION of the library that is linked. */
HF_API const char *hf_version(void);

/* ---- Log ------------------------------------------------------------------------------------- */

typedef enum hf_log_level {
    HF_LOG_DEFAULT = 0, /* not given: HF_LOG_INFO */
    HF_LOG_DEBUG = 1,
    HF_LOG_INFO = 2,
    HF_LOG_WARN = 3,
    HF_LOG_ERROR = 4
} hf_log_level;

/* One thing worth telling. Fields that do not apply are NULL or -1. Each failed attempt, the last
 * one included, makes one record with all of them. */
typedef struct hf_log_record {
    hf_log_level level;
    int64_t at_us;
    const char *message;
    const char *subscription;
    const char *event_id;
    const char *event_type;
    int64_t position;
    int32_t attempt;
    int32_t attempts_max;
    int64_t delay_ms; /* until the next attempt; -1: there is none */
    const char *error;
} hf_log_record;

/* May run on any thread, also several at once; must not call back into the bus. */
typedef void (*hf_log_fn)(const hf_log_record *record, void *ctx);

/* ---- Opening and closing --------------------------------------------------------------------- */

typedef struct hf_bus hf_bus;

typedef enum hf_durability {
    HF_DURABILITY_DEFAULT = 0, /* HF_DURABILITY_POWER */
    HF_DURABILITY_POWER = 1,   /* an acknowledged publish survives power loss */
    HF_DURABILITY_PROCESS = 2  /* ... survives a process crash, not power loss; faster */
} hf_durability;

typedef enum hf_open_mode {
    HF_OPEN_DEFAULT = 0,  /* HF_OPEN_CREATE */
    HF_OPEN_CREATE = 1,   /* create the database and the namespace if they are missing, migrate */
    HF_OPEN_EXISTING = 2, /* HF_NOTFOUND if the database or the namespace is missing; migrate */
    HF_OPEN_NOMIGRATE = 3 /* as EXISTING, and HF_SCHEMA if a migration would be needed */
} hf_open_mode;

typedef struct hf_options {
    size_t size;
    const char *namespace_name; /* "default" */
    const char *node_name;      /* shown as producer and lease owner; default "HOST:PID" */
    hf_open_mode open_mode;
    hf_durability durability;
    int64_t timeout_ms;         /* 10 000: the longest that a call waits for the database */
    int64_t shutdown_ms;        /* 30 000: how long hf_close waits for running handlers */
    int64_t payload_bytes_max;  /* 1 MiB; at most 256 MiB */
    int64_t queue_events_max;   /* 65 536: waiting publishes of all threads, events ... */
    int64_t queue_bytes_max;    /* 64 MiB: ... and bytes; beyond, publishing waits its turn */
    hf_log_level log_level;     /* records below it are not made */
    hf_log_fn log;              /* NULL: no log */
    void *log_ctx;
} hf_options;

#define HF_OPTIONS_INIT                                                                            \
    {                                                                                              \
        sizeof(hf_options), NULL, NULL, HF_OPEN_DEFAULT, HF_DURABILITY_DEFAULT, -1, -1, -1, -1,    \
            -1, HF_LOG_DEFAULT, NULL, NULL                                                         \
    }

/*
 * Opens a bus. `url` picks the engine:
 *   "sqlite:PATH" or a bare path: a file, created in WAL mode if it is missing. The tables are
 *       called holdfast_... and may live in the application's own file. ":memory:", empty paths and
 *       files on network filesystems are refused (HF_INVALID).
 *   "postgres://..." or "postgresql://...": a database of a server (14 or newer), shared by many
 *       machines. The URL is libpq's, the database must exist; the tables are in schema `holdfast`.
 * An older schema is migrated; a newer one is refused (HF_SCHEMA). `options` may be NULL.
 * HF_UNAVAILABLE, HF_DENIED, HF_CORRUPT, HF_NOSPACE, HF_IO: file or server say no. Blocks.
 * The handle is the caller's; end it with hf_close.
 */
HF_API hf_status hf_open(const char *url, const hf_options *options, hf_bus **ret_bus);

/* Starts delivering to handlers, those that are registered and those that will be. HF_OK if it is
 * already started. HF_CLOSED after hf_shutdown. */
HF_API hf_status hf_start(hf_bus *bus);

/* Stops delivering: takes no new events, waits up to timeout_ms (-1: shutdown_ms) for running
 * handlers, stores the checkpoints and gives the leases back. Publishing remains possible; hf_start
 * starts again. HF_TIMEOUT: handlers still run; their results will be refused and their events
 * delivered again. HF_MISUSE from inside a handler. */
HF_API hf_status hf_stop(hf_bus *bus, int64_t timeout_ms);

/* Refuses new publishes and subscriptions from now on (HF_CLOSED), answers all asynchronous
 * publishes, then does what hf_stop does. Calling it twice is safe. */
HF_API hf_status hf_shutdown(hf_bus *bus, int64_t timeout_ms);

/* Shuts down if that has not been done, closes the database, frees the handle and sets *bus to
 * NULL. NULL and a pointer to NULL are allowed, so closing twice is safe. HF_TIMEOUT: a handler
 * still runs; the memory it needs stays until it returns. HF_MISUSE (and nothing happens) from
 * inside a handler. */
HF_API hf_status hf_close(hf_bus **bus);

/* ---- Events ---------------------------------------------------------------------------------- */

/* An event as it was stored. Absent texts are NULL. Every text and the payload end with a NUL that
 * is not counted. */
typedef struct hf_event {
    const char *id;         /* UUID, 36 characters */
    const char *type;       /* "user.created" */
    const char *payload;    /* JSON, the bytes that were published */
    size_t payload_bytes;
    const char *key;        /* ordering key */
    const char *tenant;     /* what partitions are hashed by */
    const char *metadata;   /* JSON object */
    const char *producer;   /* who published it */
    const char *schedule_id;
    int64_t position;       /* its place in the namespace's log, from 1 */
    int64_t key_version;    /* -1 unless published with an expected version */
    int64_t emitted_at_us;  /* when the producer says that it happened */
    int64_t entered_at_us;  /* when it entered the log */
} hf_event;

/* An event to be published. */
typedef struct hf_new_event {
    size_t size;
    const char *type;         /* required: 1..255 bytes, segments separated by dots */
    const char *payload;      /* JSON; NULL is the JSON value null */
    size_t payload_bytes;     /* HF_AUTO_LENGTH: up to the NUL */
    const char *id;           /* UUID; NULL: a new UUID v7 */
    const char *key;
    const char *tenant;
    const char *metadata;     /* a JSON object */
    const char *producer;     /* NULL: the node's name */
    int64_t emitted_at_us;    /* -1: now */
    int64_t expected_version; /* -1: any; 0: the key is new; n: the key's version is n */
} hf_new_event;

#define HF_NEW_EVENT_INIT                                                                          \
    {                                                                                              \
        sizeof(hf_new_event), NULL, NULL, HF_AUTO_LENGTH, NULL, NULL, NULL, NULL, NULL, -1, -1     \
    }

/* What publishing answers. */
typedef struct hf_receipt {
    int64_t position;
    int64_t key_version;   /* -1 unless an expected version was given */
    int32_t duplicate;     /* 1: this id was in the log already; position is the first one's */
    char id[HF_ID_BYTES];
} hf_receipt;

/* ---- Publishing ------------------------------------------------------------------------------ */

/* Publishes one event and returns when it is durable. Publishing an id again stores nothing and
 * answers the first position. Threads that publish at the same time share one commit.
 *
 * HF_INVALID: type, payload, key ... outside its limits; the message names the field and the limit.
 * HF_CONFLICT: expected_version is not the key's version; the message says which it is.
 * HF_NOSPACE, HF_TIMEOUT, HF_BUSY: nothing was stored. HF_UNKNOWN: it may have been; publish again
 * with the same id, or look it up. HF_CLOSED after shutdown. Inside a transactional handler the
 * event joins the handler's transaction: it exists if and only if that commits. */
HF_API hf_status hf_publish(hf_bus *bus, const hf_new_event *event, hf_receipt *ret_receipt);

/* Publishes `count` events in order in one transaction: all or none. ret_receipts is NULL or an
 * array of `count`. On failure the message names the index of the offending event. */
HF_API hf_status hf_publish_many(hf_bus *bus, const hf_new_event *events, size_t count,
                                 hf_receipt *ret_receipts);

/* Runs once, on a thread of the bus, when an asynchronous publish is answered. `message` explains a
 * failure, else "". It may publish asynchronously again but must not call hf_stop, hf_shutdown,
 * hf_flush or hf_close. */
typedef void (*hf_published_fn)(hf_status status, const hf_receipt *receipt, const char *message,
                                void *ctx);

/* Copies the event, queues it and returns; `done` is called when it is durable or has failed.
 * Events of one thread enter the log in the order of its calls. A full queue makes the call wait
 * up to timeout_ms, then HF_BUSY. If the call fails, `done` never runs. It never joins a
 * transaction, also not from inside a transactional handler. */
HF_API hf_status hf_publish_async(hf_bus *bus, const hf_new_event *event, hf_published_fn done,
                                  void *ctx);

/* Waits until everything that was published asynchronously before has been answered (timeout_ms -1:
 * as long as it takes). HF_TIMEOUT; HF_MISUSE from inside a completion callback. */
HF_API hf_status hf_flush(hf_bus *bus, int64_t timeout_ms);

/* ---- Publishing in the application's own SQLite transaction ---------------------------------- */

struct sqlite3;

/* Begins a transaction on the application's own connection to the same file, in which
 * hf_sqlite_publish may be called: the events exist if and only if hf_sqlite_commit succeeds.
 * The connection must be open on the very file of the bus, in WAL mode, outside a transaction
 * (HF_MISUSE otherwise); its automatic checkpoints are switched off. All other writers of the file
 * wait until commit or rollback, so keep it short. One thread does all of begin, publish and
 * commit; it must not call other writing functions of the bus in between (HF_MISUSE). */
HF_API hf_status hf_sqlite_begin(hf_bus *bus, struct sqlite3 *db);
/* HF_MISUSE if `db` was not begun with hf_sqlite_begin (the connection of a transactional handler
 * needs no beginning: there it is hf_publish), or the bus is not on SQLite. */
HF_API hf_status hf_sqlite_publish(hf_bus *bus, struct sqlite3 *db, const hf_new_event *event,
                                   hf_receipt *ret_receipt);
HF_API hf_status hf_sqlite_publish_many(hf_bus *bus, struct sqlite3 *db,
                                        const hf_new_event *events, size_t count,
                                        hf_receipt *ret_receipts);
/* On failure the transaction is rolled back, except HF_UNKNOWN: it may have been committed. */
HF_API hf_status hf_sqlite_commit(hf_bus *bus, struct sqlite3 *db);
HF_API hf_status hf_sqlite_rollback(hf_bus *bus, struct sqlite3 *db);

/* ---- Publishing in the application's own PostgreSQL transaction ------------------------------ */

struct pg_conn; /* libpq's PGconn */

/*
 * Publishes in the transaction that `pg`, a connection of the application to the bus's database, is
 * in, however it was begun: the event exists if and only if that transaction commits. A failure
 * leaves the transaction as it was, so that it can go on, unless the connection is lost. A weaker
 * synchronous_commit is raised for this transaction. For two-phase commit say SET LOCAL
 * holdfast.notify = off before: PostgreSQL does not PREPARE what has notified.
 * HF_MISUSE: no transaction, one that has failed or is read-only, pipeline mode, a client_encoding
 * other than UTF8, another database, or the bus is not on PostgreSQL. HF_UNAVAILABLE: the
 * connection is lost. HF_INVALID, HF_CONFLICT, HF_BUSY, HF_TIMEOUT as hf_publish. On the connection
 * of a transactional handler it is hf_publish.
 */
HF_API hf_status hf_postgres_publish(hf_bus *bus, struct pg_conn *pg, const hf_new_event *event,
                                     hf_receipt *ret_receipt);
HF_API hf_status hf_postgres_publish_many(hf_bus *bus, struct pg_conn *pg,
                                          const hf_new_event *events, size_t count,
                                          hf_receipt *ret_receipts);

/* BEGIN, COMMIT and ROLLBACK, for convenience: hf_postgres_commit tells a commit that failed from
 * one of which nobody knows (HF_UNKNOWN: the connection was lost, or silent for timeout_ms; end
 * it), and rings itself. It also commits what was begun otherwise. HF_MISUSE: the connection is, or
 * is not, in a transaction, or in one that has failed. Any other failure: nothing was committed. */
HF_API hf_status hf_postgres_begin(hf_bus *bus, struct pg_conn *pg);
HF_API hf_status hf_postgres_commit(hf_bus *bus, struct pg_conn *pg);
HF_API hf_status hf_postgres_rollback(hf_bus *bus, struct pg_conn *pg);

/* ---- Subscriptions --------------------------------------------------------------------------- */

typedef enum hf_mode {
    HF_MODE_DEFAULT = 0, /* HF_MODE_ORDERED */
    HF_MODE_ORDERED = 1, /* one owner at a time; order per (tenant, key) */
    HF_MODE_SHARED = 2   /* any number of workers claim batches; no order */
} hf_mode;

typedef enum hf_order {
    HF_ORDER_DEFAULT = 0, /* HF_ORDER_RELAXED */
    HF_ORDER_RELAXED = 1, /* order per (tenant, key) */
    HF_ORDER_STRICT = 2   /* the order of positions */
} hf_order;

typedef enum hf_instance_mode {
    HF_INSTANCE_DEFAULT = 0,     /* HF_INSTANCE_COORDINATED */
    HF_INSTANCE_COORDINATED = 1, /* one active process, the others stand by */
    HF_INSTANCE_SINGLE = 2       /* the newest process takes over without asking */
} hf_instance_mode;

typedef enum hf_on_unhandled {
    HF_UNHANDLED_DEFAULT = 0,    /* HF_UNHANDLED_SKIP */
    HF_UNHANDLED_SKIP = 1,       /* types outside the patterns are not for this subscription */
    HF_UNHANDLED_DEAD_LETTER = 2 /* ... become dead letters, reason "no_handler" */
} hf_on_unhandled;

typedef enum hf_on_poison {
    HF_POISON_DEFAULT = 0,   /* HF_POISON_SKIP */
    HF_POISON_SKIP = 1,      /* the event dies, the next of its key goes on */
    HF_POISON_BLOCK_KEY = 2, /* ... its key waits until the dead letter is retried or resolved */
    HF_POISON_HALT = 3       /* ... the subscription pauses and says why */
} hf_on_poison;

typedef enum hf_toggle { HF_TOGGLE_DEFAULT = 0, HF_OFF = 1, HF_ON = 2 } hf_toggle;

/* What a batch handler gets in one call: the next events, or those of one (tenant, key). */
typedef enum hf_batch_by { HF_BATCH_DEFAULT = 0, HF_BATCH_NONE = 1, HF_BATCH_KEY = 2 } hf_batch_by;

typedef enum hf_on_batch_failure {
    HF_BATCH_FAILURE_DEFAULT = 0,  /* HF_BATCH_DEAD_LETTER_UNIT */
    HF_BATCH_DEAD_LETTER_UNIT = 1, /* after the last attempt all its events die */
    HF_BATCH_SPLIT = 2 /* it is halved until what fails is alone and dies; not with block_key */
} hf_on_batch_failure;

typedef enum hf_place_kind {
    HF_PLACE_NONE = 0,
    HF_PLACE_START = 1,    /* the first event that the log still has */
    HF_PLACE_NOW = 2,      /* only what is published from now on */
    HF_PLACE_POSITION = 3, /* the first event after position `value` */
    HF_PLACE_TIME = 4      /* the first event that entered the log at `value` (us) or later */
} hf_place_kind;

/* A place in the log. */
typedef struct hf_place {
    hf_place_kind kind;
    int64_t value;
} hf_place;

/* What is stored with a subscription. The defaults are those of a new one. */
typedef struct hf_subscription_options {
    size_t size;
    hf_place from;                /* where a new subscription starts; required for a new one */
    hf_mode mode;                 /* ordered; cannot be changed later */
    hf_order order;               /* relaxed; cannot be changed later */
    hf_instance_mode instance_mode; /* coordinated */
    hf_on_unhandled on_unhandled; /* skip */
    hf_on_poison on_poison;       /* skip */
    hf_toggle transactional;      /* off: handlers run in a transaction of the database */
    hf_toggle breaker;            /* off: circuit breaker */
    int32_t partitions;           /* 1..1024, for processes to share; 1 if shared or strict */
    int32_t batch;                /* 100: events read or claimed at once; 1..10 000 */
    int32_t concurrency;          /* 1: handlers at once in one process; 1..256 */
    int32_t inflight_max;         /* 1000: events read ahead of the checkpoint; 1..100 000 */
    int32_t attempts_max;         /* 4: one try and three retries; 1..100 */
    int32_t retry_jitter_percent; /* 10; 0..100 */
    int64_t retry_base_ms;        /* 1000 */
    int64_t retry_max_ms;         /* 30 000 */
    double retry_multiplier;      /* 2.0; 1..100. -1: not given */
    int64_t handler_timeout_ms;   /* 30 000; 1..86 400 000 */
    int64_t lease_ms;             /* 30 000: after it, the work of a frozen process is taken over */
    int32_t checkpoint_events;    /* 100: store the checkpoint after so many; 1 is after each */
    int64_t checkpoint_ms;        /* 1000: ... or after this time */
    int64_t wait_period_ms;       /* 1000, on PostgreSQL 10 000: look for work at least this often
                                     without a wake-up */
    int64_t tx_max_ms;            /* 1000: the longest that a transactional handler may run */
    int64_t gap_timeout_ms;       /* 0, off; only where a server hides its locks */
    int32_t stuck_max;            /* 16: handlers past their timeout before it pauses */
    int32_t breaker_events;       /* 20: first attempts in the window before it may open */
    int32_t breaker_percent;      /* 50: opens when more than this failed */
    int64_t breaker_window_ms;    /* 60 000 */
    int64_t breaker_pause_ms;     /* 30 000: then one probe */
    hf_batch_by batch_by;         /* none; this and what follows: for batch handlers */
    hf_on_batch_failure on_batch_failure; /* dead_letter_unit */
    int32_t batch_extend_max;     /* 1000: with batch_by key, by how many more than `batch` events a
                                     run of consecutive positions is not cut; 0..10 000 */
} hf_subscription_options;

#define HF_SUBSCRIPTION_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(hf_subscription_options), {HF_PLACE_NONE, -1}, HF_MODE_DEFAULT, HF_ORDER_DEFAULT,   \
            HF_INSTANCE_DEFAULT, HF_UNHANDLED_DEFAULT, HF_POISON_DEFAULT, HF_TOGGLE_DEFAULT,       \
            HF_TOGGLE_DEFAULT, -1, -1, -1, -1, -1, -1, -1, -1, -1.0, -1, -1, -1, -1, -1, -1, -1,   \
            -1, -1, -1, -1, -1, HF_BATCH_DEFAULT, HF_BATCH_FAILURE_DEFAULT, -1                     \
    }

/* Creates a durable subscription, or changes the stored one: its patterns become these, and the
 * options that are given replace the stored ones. `from` counts for a new one only. HF_CONFLICT: it
 * exists with another mode or order. HF_INVALID: no `from` for a new one, a bad name, pattern or
 * option. Other partitions wait until all are equally far. ret_created: 1 if it is new, else 0. */
HF_API hf_status hf_subscription_create(hf_bus *bus, const char *name,
                                        const char *const *patterns, size_t pattern_count,
                                        const hf_subscription_options *options,
                                        int32_t *ret_created);

/* Removes a subscription with its progress, retries and leases. Its dead letters stay. A process
 * that is working for it stops within its next settle. HF_NOTFOUND. */
HF_API hf_status hf_subscription_remove(hf_bus *bus, const char *name);

/* ---- Handlers -------------------------------------------------------------------------------- */

typedef enum hf_verdict {
    HF_ACK = 0,             /* done */
    HF_RETRY = 1,           /* failed: try again by the retry policy, then dead letter */
    HF_RETRY_UNCOUNTED = 2, /* not the event's fault (lock, shutdown): try again; at most 100 */
    HF_DEAD = 3,            /* will never work: dead letter now, reason "rejected" */
    HF_UNDECODABLE = 4      /* the payload cannot be understood: dead letter now, reason "decode" */
} hf_verdict;

/* One attempt at one event, as the handler sees it. */
typedef struct hf_delivery hf_delivery;

/* Handles one event. Runs on a thread of the bus. `event` and `delivery` are valid until it
 * returns. If several handlers of a subscription match, they run in the order of registration and
 * fail as one: the first that does not answer HF_ACK decides. Past handler_timeout_ms the attempt
 * counts as failed and whatever the handler answers later is refused. */
typedef hf_verdict (*hf_handler_fn)(const hf_event *event, hf_delivery *delivery, void *ctx);

HF_API const char *hf_delivery_subscription(const hf_delivery *delivery);
/* 1 for the first attempt. */
HF_API int32_t hf_delivery_attempt(const hf_delivery *delivery);
HF_API int32_t hf_delivery_attempts_max(const hf_delivery *delivery);
HF_API hf_bus *hf_delivery_bus(const hf_delivery *delivery);
/* 1 once the attempt has timed out or the bus is stopping: a long handler should return. */
HF_API int hf_delivery_cancelled(const hf_delivery *delivery);
/* The connection of the transaction that the handler runs in; NULL unless the subscription is
 * transactional and the bus is on SQLite. Valid during the call. COMMIT, ROLLBACK, ATTACH and
 * PRAGMA are refused on it; finalize your statements before returning. */
HF_API struct sqlite3 *hf_delivery_sqlite(const hf_delivery *delivery);
/*
 * The same on PostgreSQL (NULL elsewhere): READ COMMITTED, blocking, UTF8. A handler that ends the
 * transaction, or leaves it with a failed statement (use savepoints), an unread result, a COPY or
 * pipeline mode, and answers HF_ACK, has failed. Use SET LOCAL, neither LISTEN nor PREPARE: the
 * connection goes on to other deliveries. If the transaction failed by something that passes
 * (SQLSTATE 40xxx, 55P03, 57P0x, 08xxx, a lost connection), HF_RETRY and HF_ACK do not count.
 */
HF_API struct pg_conn *hf_delivery_postgres(const hf_delivery *delivery);
/* Says why the attempt failed; kept with the attempt (up to 2048 bytes), shown in dead letters. */
HF_API void hf_delivery_error(hf_delivery *delivery, const char *format, ...) HF_PRINTF(2, 3);

typedef int64_t hf_handler_id;

/* Registers a handler for a pattern of a subscription ("user.created", "user.*", "order.*.shipped",
 * "order.**", "*"). A missing subscription is created with this pattern (options->from is then
 * required); an existing one gets the pattern added if it has none that covers it, and the given
 * options replace the stored ones. On a started bus delivery begins at once.
 *
 * A process works for a subscription only while its handlers cover all stored patterns, so an old
 * program cannot skip what a newer one has subscribed to. */
HF_API hf_status hf_subscribe(hf_bus *bus, const char *name, const char *pattern,
                              hf_handler_fn handler, void *ctx,
                              const hf_subscription_options *options, hf_handler_id *ret_id);

/* Handles several events, in the order of the log, as one: the verdict is that of them all. They
 * fail, wait and come again together, and with `transactional` what the handler writes and the
 * settling of all of them are one transaction. See docs/delivery.md, "Batches". */
typedef hf_verdict (*hf_batch_handler_fn)(const hf_event *const *events, size_t count,
                                          hf_delivery *delivery, void *ctx);

/* As hf_subscribe. HF_MISUSE: the subscription has handlers of the other kind in this process. */
HF_API hf_status hf_subscribe_batch(hf_bus *bus, const char *name, const char *pattern,
                                    hf_batch_handler_fn handler, void *ctx,
                                    const hf_subscription_options *options, hf_handler_id *ret_id);

/* Unregisters a handler and waits until it does not run any more (from inside a handler it does not
 * wait). The durable subscription stays. HF_NOTFOUND. */
HF_API hf_status hf_unsubscribe(hf_bus *bus, hf_handler_id id);

/* ---- Pulling: shared subscriptions without handlers ------------------------------------------ */

typedef struct hf_claim_options {
    size_t size;
    int32_t max;         /* 1..10 000; default: the subscription's batch */
    int64_t lease_ms;    /* default: the subscription's */
    int64_t wait_ms;     /* 0: how long to wait for an event if there is none */
    hf_toggle detached;  /* off: the lease ends when this process dies; on: only by time */
} hf_claim_options;

#define HF_CLAIM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(hf_claim_options), -1, -1, -1, HF_TOGGLE_DEFAULT                                    \
    }

/* Events claimed under one lease. */
typedef struct hf_batch hf_batch;

/*
 * Claims up to `max` events of a shared subscription: for lease_ms they are the caller's, and then,
 * unless settled, anybody's again. HF_OK with an empty batch if there is nothing within wait_ms.
 * A paused subscription gives an empty batch. HF_NOTFOUND; HF_MISUSE for an ordered subscription.
 * End the batch with hf_batch_free, which settles nothing.
 */
HF_API hf_status hf_claim(hf_bus *bus, const char *subscription, const hf_claim_options *options,
                          hf_batch **ret_batch);
HF_API size_t hf_batch_count(const hf_batch *batch);
HF_API const hf_event *hf_batch_event(const hf_batch *batch, size_t index);
/* The attempt that this delivery is, from 1. */
HF_API int32_t hf_batch_attempt(const hf_batch *batch, size_t index);
/* The lease's text: what ack and the others take, also in another process; "" if empty. */
HF_API const char *hf_batch_lease(const hf_batch *batch);
HF_API int64_t hf_batch_expires_at_us(const hf_batch *batch);
HF_API void hf_batch_free(hf_batch *batch);

/*
 * Settling. `positions` names events of the lease; NULL with count 0 means all that are left in it.
 * All of a call happens or nothing. HF_STALE: the lease has ended and its events were handed out
 * again, or a position is not in it (any more); nothing was changed. A lease that is over but that
 * nobody else has got yet is still good.
 */
/* Done. */
HF_API hf_status hf_ack(hf_bus *bus, const char *subscription, const char *lease,
                        const int64_t *positions, size_t count);
/* Failed: again after delay_ms (-1: the retry policy), or dead if it was the last attempt. */
HF_API hf_status hf_nack(hf_bus *bus, const char *subscription, const char *lease,
                         const int64_t *positions, size_t count, int64_t delay_ms,
                         const char *error);
/* Given back; the attempt does not count. */
HF_API hf_status hf_release(hf_bus *bus, const char *subscription, const char *lease,
                            const int64_t *positions, size_t count);
/* Dead letter now, reason "rejected". */
HF_API hf_status hf_bury(hf_bus *bus, const char *subscription, const char *lease,
                         const int64_t *positions, size_t count, const char *error);
/* The lease lasts lease_ms (-1: the subscription's) from now. */
HF_API hf_status hf_touch(hf_bus *bus, const char *subscription, const char *lease,
                          int64_t lease_ms);

/*
 * A descriptor that becomes readable when there may be something new, for programs with their own
 * event loop: read 8 bytes from it (eventfd), then claim or read until nothing is left. The bus
 * owns it; it is closed by hf_close. Every call returns the same one.
 */
HF_API hf_status hf_fd(hf_bus *bus, int *ret_fd);

/* ---- Steering a subscription ----------------------------------------------------------------- */

/*
 * Moves a subscription to another place: the checkpoint is set, leases end, waiting retries and
 * held events go, dead letters stay. Works while it is being processed; results of what ran before
 * the seek are refused. ret_count (may be NULL): how many log positions will come (again).
 * With dry_run HF_ON nothing is changed.
 */
HF_API hf_status hf_seek(hf_bus *bus, const char *subscription, hf_place to, hf_toggle dry_run,
                         int64_t *ret_count);
/* Stops handing out events everywhere until hf_resume; running handlers finish. */
HF_API hf_status hf_pause(hf_bus *bus, const char *subscription, const char *reason);
/* Also closes an open breaker. HF_OK if it was not paused. */
HF_API hf_status hf_resume(hf_bus *bus, const char *subscription);

/*
 * Waits until the event at `position` is settled (done, dead, or not for it) in the subscription,
 * or, with subscription NULL, in all of the namespace. position -1: everything published before the
 * call (not what handlers publish meanwhile), and no retry is waiting. HF_TIMEOUT (timeout_ms -1:
 * as long as it takes).
 */
HF_API hf_status hf_wait(hf_bus *bus, const char *subscription, int64_t position,
                         int64_t timeout_ms);

/* ---- Looking --------------------------------------------------------------------------------- */

typedef enum hf_state {
    HF_STATE_NOT_FOR_IT = 0, /* the patterns do not match, or it is before the start */
    HF_STATE_PENDING = 1,    /* not yet handed out */
    HF_STATE_PROCESSING = 2, /* handed out, or in a handler now */
    HF_STATE_RETRYING = 3,   /* waits for its next attempt */
    HF_STATE_HELD = 4,       /* waits behind an earlier event of its key */
    HF_STATE_DONE = 5,
    HF_STATE_DEAD = 6
} hf_state;

/* "not_for_it", "pending", "processing", "retrying", "held", "done", "dead". */
HF_API const char *hf_state_name(hf_state state);

/* Where an event is in one subscription. */
typedef struct hf_event_state {
    const char *subscription;
    hf_state state;
    int32_t attempts;           /* recorded attempts that failed */
    const char *attempts_json;  /* [{"attempt","at","error","node"}, ...]; NULL if none */
    int64_t next_attempt_at_us; /* -1 unless retrying */
    int64_t dead_id;            /* -1 unless dead */
} hf_event_state;

typedef int (*hf_event_fn)(const hf_event *event, void *ctx);
typedef int (*hf_event_state_fn)(const hf_event_state *state, void *ctx);

/* Finds an event by id and calls back once. HF_NOTFOUND. */
HF_API hf_status hf_event_get(hf_bus *bus, const char *id, hf_event_fn found, void *ctx);
/* The state of an event in every subscription of the namespace, by name. HF_NOTFOUND. */
HF_API hf_status hf_event_states(hf_bus *bus, const char *id, hf_event_state_fn found, void *ctx);

/*
 * Reads the log in the order of positions without moving any checkpoint: up to `limit` events after
 * position *cursor that match the pattern (NULL: all). *cursor becomes the position up to which
 * everything has been seen, so that the next call goes on. With nothing to read it waits up to
 * wait_ms.
 */
HF_API hf_status hf_read(hf_bus *bus, const char *pattern, size_t limit, int64_t wait_ms,
                         int64_t *cursor, hf_event_fn found, void *ctx);
/* The position after which reading from a place begins. */
HF_API hf_status hf_locate(hf_bus *bus, hf_place place, int64_t *ret_position);

/* Everything about a subscription. Numbers that are not known are -1. */
typedef struct hf_subscription_info {
    const char *name;
    const char *const *patterns;
    size_t pattern_count;
    hf_subscription_options options; /* complete: no "not given" in it, but `from` */
    int64_t created_at_us;
    int64_t start_position;     /* it began (or was last sought) after this position */
    int64_t checkpoint;         /* everything up to here is settled */
    int64_t checkpoint_at_us;
    const char *checkpoint_event_id; /* the last event settled; NULL if none */
    int64_t cursor;             /* shared: everything up to here has been handed out */
    int64_t head;               /* the log's newest position */
    int64_t lag;                /* head - checkpoint */
    int64_t in_flight;          /* shared: leased and unsettled */
    int64_t retrying;
    int64_t held;
    int64_t blocked;            /* keys parked by on_poison=block_key */
    int64_t dead;               /* unresolved dead letters */
    int64_t oldest_waiting_us;  /* when the oldest unsettled event entered the log */
    int64_t paused_at_us;       /* -1: not paused */
    const char *paused_by;
    const char *paused_reason;
    const char *breaker;        /* "closed", "open", "half_open"; NULL: off */
    int64_t breaker_until_us;   /* when the probe may run; -1 */
    const char *owner;          /* node that processes it (ordered); NULL: nobody */
    int32_t owner_alive;        /* 1, 0 */
    const char *not_moving;     /* a sentence: why it is not moving; NULL if it is, or is done */
} hf_subscription_info;

typedef int (*hf_subscription_fn)(const hf_subscription_info *info, void *ctx);

/* All subscriptions of the namespace by name. */
HF_API hf_status hf_subscription_list(hf_bus *bus, hf_subscription_fn found, void *ctx);
/* One. HF_NOTFOUND. */
HF_API hf_status hf_subscription_get(hf_bus *bus, const char *name, hf_subscription_fn found,
                                     void *ctx);

/* Numbers of the namespace. -1: not known. */
typedef struct hf_stats {
    size_t size;              /* in: sizeof(hf_stats) */
    int64_t head;             /* newest position */
    int64_t first;            /* oldest position that the log still has; head + 1 if empty */
    int64_t subscriptions;
    int64_t retrying;
    int64_t held;
    int64_t in_flight;
    int64_t dead;
    int64_t oldest_waiting_us;
    int64_t store_bytes;
    int64_t wal_bytes;
    int64_t published;        /* by this handle since it was opened */
    int64_t commits;          /* ... in so many commits */
    int64_t delivered;        /* handlers of this handle: acknowledged */
    int64_t failed;           /* ... failed attempts */
} hf_stats;

HF_API hf_status hf_stats_get(hf_bus *bus, hf_stats *ret_stats);

/* What the engine says about itself, for `doctor`: name ("journal_mode"), value ("wal"), level and
 * advice (NULL if all is well). */
typedef int (*hf_finding_fn)(const char *name, const char *value, hf_log_level level,
                             const char *advice, void *ctx);
HF_API hf_status hf_doctor(hf_bus *bus, hf_finding_fn found, void *ctx);

/* ---- Dead letters ---------------------------------------------------------------------------- */

typedef struct hf_dead_letter {
    int64_t dead_id;           /* its number; never used again */
    const char *subscription;
    hf_event event;            /* a complete copy: the log may have forgotten it */
    const char *reason;        /* "attempts", "rejected", "decode", "no_handler", "lease" */
    const char *error;         /* the last attempt's; NULL if none */
    int32_t attempts;
    const char *attempts_json; /* [{"attempt","at","error","node"}, ...] */
    int64_t failed_at_us;
    int64_t resolved_at_us;    /* -1: open */
    const char *resolved_by;
    const char *resolved_note;
} hf_dead_letter;

/* Which dead letters. NULL and -1: no condition. */
typedef struct hf_dead_filter {
    size_t size;
    const char *subscription;
    const char *type;           /* a pattern */
    const char *error;          /* a part of the error's text */
    const char *reason;
    int64_t failed_before_us;   /* failed_at <= this */
    int64_t failed_after_us;    /* failed_at >= this */
    int64_t before_dead_id;     /* keyset paging: after the entry with this number, newest first */
    hf_toggle resolved;         /* off (default): only open ones; on: resolved ones too */
    int32_t limit;              /* 100 for listing, no limit otherwise; 0: nothing */
    int32_t offset;             /* 0; for small lists */
} hf_dead_filter;

#define HF_DEAD_FILTER_INIT                                                                        \
    {                                                                                              \
        sizeof(hf_dead_filter), NULL, NULL, NULL, NULL, -1, -1, -1, HF_TOGGLE_DEFAULT, -1, -1      \
    }

typedef int (*hf_dead_letter_fn)(const hf_dead_letter *letter, void *ctx);

/* Newest first. None of these needs a started bus. */
HF_API hf_status hf_dead_list(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found,
                              void *ctx);
HF_API hf_status hf_dead_get(hf_bus *bus, int64_t dead_id, hf_dead_letter_fn found, void *ctx);
/* How many match (counts rows: for confirmation and dry runs). */
HF_API hf_status hf_dead_count(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);
/* Delivers it again to its subscription with a clean record; the dead letter goes in the same
 * transaction. HF_NOTFOUND: no such dead letter, or its subscription is gone. `payload` NULL: as it
 * was; else it is delivered with this payload instead (the log is not changed). */
HF_API hf_status hf_dead_retry(hf_bus *bus, int64_t dead_id, const char *payload,
                               size_t payload_bytes);
/* All that match, oldest first, in steps; ret_count so many, also on failure. */
HF_API hf_status hf_dead_retry_all(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);
/* Marks it as dealt with; it stays until purged. HF_NOTFOUND. HF_CONFLICT: already resolved. */
HF_API hf_status hf_dead_resolve(hf_bus *bus, int64_t dead_id, const char *by, const char *note);
/* Deletes all that match, in steps. */
HF_API hf_status hf_dead_purge(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_H */
