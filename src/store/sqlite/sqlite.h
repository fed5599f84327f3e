/*
 * sqlite.h - the SQLite engine as its own files see it. docs/architecture.md has the map of
 * its folders.
 *
 * Lock order: gate, then SQLite's own locks. The writer connection is used only by the thread that
 * runs apply (one at a time, see group.h) and only under the gate.
 *
 * A change is a function  hf_status sqlite_<change>(engine, conn, change)  that runs inside a write
 * transaction on `conn`. If it answers anything but HF_OK, its caller undoes what it wrote. A
 * change that others should hear of sets conn->ring.
 */
#ifndef HF_STORE_SQLITE_SQLITE_H
#define HF_STORE_SQLITE_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "store/engine.h"
#include "store/sqlite/file/bell.h"
#include "store/sqlite/file/conn.h"
#include "store/sqlite/file/files.h"
#include "store/sqlite/file/gate.h"
#include "store/sqlite/file/live.h"
#include "store/sqlite/file/pool.h"
#include "store/sqlite/file/spare.h"
#include "store/sqlite/write/ahead.h"

/* place = namespace_id * 2^44 + position; see sql/sqlite/tables/0001_init.sql. */
#define PLACE_BITS 44
#define PLACE_POSITION_MAX (((int64_t)1 << PLACE_BITS) - 1)
#define NAMESPACE_ID_MAX (((int64_t)1 << (63 - PLACE_BITS)) - 1)

enum defect {
    DEFECT_FILE = 1 << 0,   /* the file is damaged */
    DEFECT_SCHEMA = 1 << 1, /* the schema was altered */
};

/* Of these, tx_idle, join, writer and what belongs to it are touched only under the gate. */
struct sqlite_engine {
    struct engine head;    /* first: engine.h */
    struct files files;    /* paths and inodes */
    char *namespace_name;  /* NUL-terminated */
    char *node_name_bytes; /* NUL-terminated */
    struct text node_name; /* the same; goes into owner_name */
    int64_t namespace_id;
    hf_durability durability;
    int64_t timeout_ms;       /* for reads that meet a busy database */
    _Atomic unsigned defects; /* enum defect: what verify has found */
    struct log *log;
    uint8_t token[STORE_TOKEN_BYTES]; /* of this opened store: what `owner` columns hold */

    struct gate gate;
    struct bell bell;
    struct live live;
    struct spare spare;
    struct pool pool;

    struct conn writer;             /* apply's; only under the gate */
    bool writer_lost;               /* a commit failed midway: recover before the next one */
    bool limited;                   /* files may not become large (spare.h): keep the WAL short */
    int64_t wal_pages;              /* of the WAL when apply last looked */
    int64_t wal_warn_bytes;         /* at which its growth is told next; 0: as at first */
    int64_t latest_us;              /* wall clock, when something was last written */
    int64_t set_back_until_us;      /* monotonic: the clock was set back a moment before this */
    struct ahead_memory ahead;      /* the writer's */
    int64_t checkpoint_pages;       /* from one checkpoint to the next */
    int64_t checkpoint_after_pages; /* at which it checkpoints next */
    int64_t appended_bytes;         /* about how many since the last one */
    int64_t checkpoint_us;          /* how long the last one took ... */
    int64_t checkpoint_end_us;      /* ... and when it ended (real time) */
    struct tx_conn *tx_idle;        /* tx.c's connection between two transactions, or NULL */
    struct join *join;              /* join.c's: the application's transaction, or NULL */
    int64_t join_commits;           /* since the WAL was last checkpointed for them */

    atomic_int_least64_t commits;
    atomic_bool replaced;            /* the file is not the one we opened: nothing works any more */
    atomic_bool poisoned;            /* we are in a forked child */
    struct sqlite_engine *next_open; /* engine.c: all engines of the process, for fork */
};

static inline struct sqlite_engine *sqlite_of(struct engine *engine)
{
    return (struct sqlite_engine *)engine;
}

static inline int64_t place_of(const struct sqlite_engine *engine, int64_t position)
{
    return (engine->namespace_id << PLACE_BITS) + position;
}

static inline int64_t position_of(int64_t place)
{
    return place & PLACE_POSITION_MAX;
}

#endif
