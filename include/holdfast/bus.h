/*
 * holdfast/bus.h - opening, starting, stopping and closing a bus.
 */
#ifndef HOLDFAST_BUS_H
#define HOLDFAST_BUS_H

#include <holdfast/log.h>
#include <holdfast/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_bus hf_bus;

typedef enum hf_durability {
    HF_DURABILITY_DEFAULT = 0, /* HF_DURABILITY_POWER */
    HF_DURABILITY_POWER = 1,   /* an acknowledged publish survives power loss */
    HF_DURABILITY_PROCESS = 2  /* it survives a process crash, not power loss; faster */
} hf_durability;

/* What hf_open makes of what is missing or old. An empty database gets a schema from CREATE and
 * MIGRATE. An existing schema that is older than the library is changed by MIGRATE; and, in an
 * SQLite file, by CREATE and EXISTING, too. A schema that is not changed is used as it is, if that
 * is possible (hf_open). */
typedef enum hf_open_mode {
    HF_OPEN_DEFAULT = 0,   /* HF_OPEN_CREATE */
    HF_OPEN_CREATE = 1,    /* create the database and the namespace if they are missing */
    HF_OPEN_EXISTING = 2,  /* HF_NOTFOUND if the database or the namespace is missing */
    HF_OPEN_NOMIGRATE = 3, /* as EXISTING, and never changes a schema: to look */
    HF_OPEN_MIGRATE = 4    /* as CREATE, and brings an older schema up to date on every engine */
} hf_open_mode;

typedef struct hf_options {
    size_t size;
    const char *namespace_name; /* "default" */
    const char *node_name;      /* shown as producer and lease owner; default "HOST:PID" */
    hf_open_mode open_mode;
    hf_durability durability;
    int64_t timeout_ms;        /* 10 000: the longest that a call waits for the database */
    int64_t shutdown_ms;       /* 30 000: how long hf_close waits for running handlers */
    int64_t payload_bytes_max; /* 1 MiB; at most 256 MiB */
    int64_t queue_events_max;  /* 65 536: waiting publishes of all threads, events ... */
    int64_t queue_bytes_max;   /* 64 MiB: ... and bytes; beyond, publishing waits its turn */
    hf_log_level log_level;    /* records below it are not made */
    hf_log_fn log;             /* NULL: no log */
    void *log_ctx;
    int32_t no_namespace; /* 1: the database as a whole, to look after its namespaces: only
                                   hf_namespace_..., hf_copy, hf_verify and hf_doctor work, all else
                                   answers HF_MISUSE */
    const char *node_id;  /* names this node in its namespace (holdfast/node.h): the same when
                                   it comes again. What is not a letter, a digit or one of ._:-
                                   becomes '-', and such an id gets a number so that different ones
                                   stay different. HF_CONFLICT from hf_open: another node that is
                                   live has it; from one that is stale it is taken. NULL: one that
                                   no other node ever has */
    const char *node_description;   /* for people; none */
    const char *node_metadata_json; /* a JSON object, for people and programs; none */
    int64_t heartbeat_ms; /* 30 000: between two signs that the node lives, at least 1 000 */
    int32_t brief; /* 1: a program that publishes or looks, or claims detached and settles, and
                            ends. On PostgreSQL it needs one session for all of that, whose start
                            costs the server more than a publish, until it works or waits, or a
                            second is over. Until then it is no node, and not in the way of removing
                            the namespace. With node_id: no difference */
} hf_options;

#define HF_OPTIONS_INIT                                                                            \
    {                                                                                              \
        sizeof(hf_options), NULL, NULL, HF_OPEN_DEFAULT, HF_DURABILITY_DEFAULT, -1, -1, -1, -1,    \
            -1, HF_LOG_DEFAULT, NULL, NULL, 0, NULL, NULL, NULL, -1, 0                             \
    }

/*
 * Opens a bus. `url` picks the engine:
 *   "sqlite:PATH" or a bare path: a file, created in WAL mode if it is missing. The tables are
 *       called holdfast_... and may live in the application's own file. ":memory:", empty paths and
 *       files on network filesystems are refused (HF_INVALID).
 *   "postgres://..." or "postgresql://...": a database of a server (14 or newer), shared by many
 *       machines. The URL is libpq's, the database must exist; the tables are in schema `holdfast`.
 *       One parameter is ours: holdfast_sessions=N, 4 to 1000, is how many sessions with the server
 *       the bus may have open (8), besides one for each transactional handler that runs.
 *       The engine is libholdfast-postgres.so, which the first such URL loads; HF_UNAVAILABLE if it
 *       is missing or of another build. A static library has it in itself or not.
 * The schema need not be of this library's version (docs/upgrading.md). A newer one is used if it
 * takes programs of this version, else refused. An older one that open_mode leaves as it is is used
 * if the library can work on it; if not, it is refused, or with HF_OPEN_NOMIGRATE opened to look:
 * calls that write answer HF_SCHEMA. Whatever the schema lacks for a call, that call answers
 * HF_SCHEMA, and the others work. HF_SCHEMA names both versions and what to do. It is also the
 * answer if a schema is to be migrated and others have changed it. `options` may be NULL.
 * HF_UNAVAILABLE, HF_DENIED, HF_CORRUPT, HF_NOSPACE, HF_IO: file or server say no. Blocks.
 * The handle is the caller's; end it with hf_close.
 */
HF_API hf_status hf_open(const char *url, const hf_options *options, hf_bus **ret_bus);

/* A text of `length` bytes. */
typedef void (*hf_text_fn)(const char *text, size_t length, void *ctx);

/*
 * Hands over the SQL that makes the schema of this library: one script, which psql or any driver
 * can run, in one transaction. It does what HF_OPEN_MIGRATE does to a schema: it makes one in an
 * empty database, brings an older one up to date, leaves its own and a newer one alone, and refuses
 * a newer one that does not take programs of this version. `url` only names the engine:
 * "postgres:". Nothing is opened. HF_MISUSE: SQLite, whose files are migrated by opening them.
 */
HF_API hf_status hf_schema_script(const char *url, hf_text_fn found, void *ctx);

/* A step of a migration. Versions count steps: a schema of version 7 has gone through seven. */
typedef struct hf_migration_step {
    size_t size;
    int64_t number;         /* the version that the schema has after it */
    const char *name;       /* of its file in sql/ENGINE/tables */
    int32_t older_programs; /* 1: programs of the version before can work on beside it */
} hf_migration_step;

/* The functions of a schema on PostgreSQL, compared with the library's. */
typedef enum hf_functions {
    HF_FUNCTIONS_NONE = 0,  /* there is no schema yet; or SQLite, whose files have no functions */
    HF_FUNCTIONS_SAME = 1,  /* the library's */
    HF_FUNCTIONS_OTHER = 2, /* those of another build of this release */
    HF_FUNCTIONS_OLDER = 3, /* those of an older release */
    HF_FUNCTIONS_NEWER = 4  /* those of a newer release */
} hf_functions;

/* What a migration would do. The texts live as long as the call that hands it over. */
typedef struct hf_migration {
    size_t size;
    const char *engine;          /* "sqlite" or "postgres" */
    int64_t version;             /* of the schema as it is; 0: there is none */
    int64_t version_after;       /* the same if it is newer than the library */
    int64_t programs_from;       /* the oldest version whose programs may use it as it is */
    int64_t programs_from_after; /* the same as it will be */
    const char *release;         /* that made it so, "0.1.0"; NULL: not recorded, or no schema */
    hf_functions functions;
    int32_t functions_applied; /* 1: the library's functions would take their place */
    size_t step_count;         /* steps that would run */
    const hf_migration_step *const *steps;
} hf_migration;

typedef void (*hf_migration_fn)(const hf_migration *migration, void *ctx);

/*
 * Finds out what HF_OPEN_MIGRATE would do to the schema of a database, without doing it. `found` is
 * called once, if a migration would not be refused: HF_SCHEMA if it would, because the schema is
 * newer and does not take programs of this version, or has been changed by others; HF_DENIED if the
 * role may not. A database or file without a schema is no failure. Of the options only timeout_ms
 * and the log are used; NULL is allowed. Blocks.
 */
HF_API hf_status hf_schema_plan(const char *url, const hf_options *options, hf_migration_fn found,
                                void *ctx);

/* Starts delivering to handlers, those that are registered and those that will be. HF_OK if it is
 * already started. HF_CLOSED after hf_shutdown. HF_TIMEOUT: what an hf_stop did not wait for still
 * waits for the database. HF_MISUSE from inside a handler while the bus is being stopped. */
HF_API hf_status hf_start(hf_bus *bus);

/* Whether the bus can go on by itself. HF_UNAVAILABLE: never again, because the SQLite file was
 * replaced or deleted while it was open; close the bus and open it again, or exit and let a
 * supervisor restart you. Its work has been given up to other processes, and the log function was
 * told. A server that is away for a while is no reason. Costs no I/O: ask it once a second. */
HF_API hf_status hf_check(hf_bus *bus);

/* Whether the database can be reached and takes changes of this program, found out by a transaction
 * that changes nothing; waits for it up to timeout_ms (-1: as long as other calls). HF_UNAVAILABLE:
 * it cannot be reached, or as hf_check. HF_TIMEOUT, HF_BUSY: it does not answer in time, or another
 * program keeps it locked. HF_SCHEMA: a migration has left this program behind, and calls that
 * write are refused. Meant for probes of readiness, every few seconds. */
HF_API hf_status hf_ping(hf_bus *bus, int64_t timeout_ms);

/* Stops delivering: takes no new events, waits up to timeout_ms (-1: shutdown_ms) for running
 * handlers, stores the checkpoints and gives the leases back. Publishing remains possible; hf_start
 * starts again. HF_TIMEOUT: handlers still run; their results will be refused and their events
 * delivered again. Or the store did not answer in time (and a moment: up to two seconds are spent
 * on giving back, whatever timeout_ms is): then other processes may have to wait for what could not
 * be given back until the store answers, or hf_stop is called again, or hf_start, or hf_close.
 * HF_MISUSE from inside a handler. */
HF_API hf_status hf_stop(hf_bus *bus, int64_t timeout_ms);

/* Does what hf_stop does, answers all asynchronous publishes, and refuses new publishes and
 * subscriptions (HF_CLOSED): those of other threads from now on, those of running handlers when it
 * has stopped waiting for them. So a handler can publish, also asynchronously, and query until it
 * returns; calls that it makes on threads of its own are refused. A handler that still runs at the
 * deadline is refused, too, and its attempt does not count. A publish that is being stored when the
 * time is over is waited for, up to hf_options.timeout_ms: no callback runs later. If nothing runs
 * and nothing is to be stored, a database that is locked, away or silent is not waited for longer
 * than a second: what cannot be given back then goes to others when the bus is closed. Calling it
 * twice is safe. */
HF_API hf_status hf_shutdown(hf_bus *bus, int64_t timeout_ms);

/* Shuts down if that has not been done, closes the database, frees the handle and sets *bus to
 * NULL. NULL and a pointer to NULL are allowed, so closing twice is safe. HF_TIMEOUT: a handler
 * still runs, or a thread of the bus still waits for the database; until that returns the memory
 * that it needs stays, the database stays open and the log function may be called. Closing a
 * database that does not answer may take longer than shutdown_ms: a second with a PostgreSQL
 * server, ten with an SQLite file that another program keeps locked. HF_MISUSE (and nothing
 * happens) from inside a handler. */
HF_API hf_status hf_close(hf_bus **bus);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_BUS_H */
