/*
 * postgres.h - the PostgreSQL engine as its own files see it. docs/architecture.md has the map
 * of its folders.
 *
 * What must be atomic is a function of the schema `holdfast` (sql/postgres), so a change is one
 * statement; verbs.h says how it is called. C brings what one statement cannot: the group commit,
 * the memory of what was seen when, and waiting.
 *
 * Sessions: the writer's is used only by the thread that runs apply (one at a time, see group.h),
 * the keeper's only by the keeper's thread, those of the pool by the thread that took them.
 */
#ifndef HF_STORE_POSTGRES_POSTGRES_H
#define HF_STORE_POSTGRES_POSTGRES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/set64.h"
#include "store/engine.h"
#include "store/postgres/keeper/keeper.h"
#include "store/postgres/wire/address.h"
#include "store/postgres/wire/checker.h"
#include "store/postgres/wire/era.h"
#include "store/postgres/wire/pool.h"
#include "store/postgres/wire/session.h"
#include "store/postgres/wire/single.h"
#include "store/postgres/wire/skew.h"
#include "store/schema/fit.h"

#define POSTGRES_VERSION_MIN 140000 /* server_version_num */
#define OWNED_MAX 1000000           /* partitions that a process has ever taken */

struct signs;  /* lease.c: what was seen of other processes' signs of life, and when */
struct prober; /* probe.c: the one that reads the holders of the sequence's lock */
struct ahead;  /* ahead.c: the one that reads on for readers that are behind */

extern const struct fit_program postgres_program; /* migrate.c */

struct postgres_engine {
    struct engine head; /* first: engine.h */
    struct address address;
    const char *place;       /* the address's: "host:port/database" for messages */
    atomic_size_t host;      /* of the address: where the last connection was made */
    char *namespace_name;    /* NUL-terminated */
    char *node_bytes;        /* owns what follows */
    struct text node_name;   /* NUL-terminated; application_name, owner_name */
    struct arena node_arena; /* owns the texts of: */
    struct node_facts node;
    int32_t namespace_id;
    bool gapless;
    struct fit_schema schema; /* as it was when the store was opened; postgres_schema says how it
                                 is now */
    atomic_int_least64_t schema_number; /* as the keeper saw it last, else at opening */
    atomic_int_least64_t programs_from; /* likewise */
    hf_functions functions;             /* whose the schema had then */
    hf_durability durability;
    int64_t timeout_ms; /* of a statement without a deadline of its own */
    struct log *log;
    uint8_t token[STORE_TOKEN_BYTES]; /* of this opened store: what `owner` columns hold */

    char *sql[POSTGRES_QUERY_COUNT]; /* texts with the namespace's number filled in; NULL: as is */

    struct skew skew;

    struct session writer; /* apply's */
    struct single single;
    bool passed; /* apply's: the server knows that this process was there (process_pass) */
    struct keeper keeper;

    struct session *sessions; /* all with a connection; engine.c, for fork and for era.c */
    atomic_bool opened;       /* from now on a server that is away is waited for */
    struct session_pool pool;
    struct era era;
    struct checker checker;
    atomic_int_least64_t refused_until_us; /* dial.c: monotonic; the server has no session left */

    struct set64 owned; /* partition.c: partition -> the writer's connection that took it */
    struct signs *signs;
    struct prober *prober;
    struct ahead *ahead;

    atomic_uint_least64_t connections; /* ever made: numbers sessions */
    atomic_int dialing;                /* sessions that wait for a server that is away */
    atomic_int_least64_t leaving_us;   /* store_leave: since when, on the monotonic clock; 0: no */
    atomic_bool mute;                  /* the server was silent for too long after that */
    atomic_int_least64_t commits;
    atomic_int_least64_t gap_timeouts; /* positions that readers have given up */
    atomic_bool poisoned;              /* we are in a forked child */
    struct postgres_engine *next_open; /* engine.c: all engines of the process, for fork */
};

/* engine.c: remembers and forgets a session with a connection, which a forked child must not
 * use. */
void engine_add_session(struct postgres_engine *engine, struct session *session);
void engine_drop_session(struct postgres_engine *engine, struct session *session);
/* engine.c: gives the connection of a session to one that has none. */
void engine_move_session(struct session *from, struct session *to);
/* engine.c: notes the era of a session, and when its server's process began. */
void engine_date_session(struct session *session, uint64_t era, int64_t birth_us);
/* engine.c: the server's processes of sessions of this era, at most `max`. Returns how many. */
size_t engine_list_kin(struct postgres_engine *engine, uint64_t era, struct kin *kin, size_t max);
/* engine.c: in a forked child, keeps what must neither be used nor freed. */
void engine_abandon(void *what);

/* engine.c: notes the schema's numbers; a program that a migration has left behind may not write
 * any more. 0: not read. */
void engine_note_schema(struct postgres_engine *engine, int64_t number, int64_t programs_from);
/* migrate.c: what is known of the schema now. */
struct fit_schema postgres_schema(const struct postgres_engine *engine);

/* partition.c: the epoch to settle with. If the connection on which the partition was taken is
 * lost, one that no owner ever had: the server may have crashed, lost events that were not synced,
 * and give their positions again; what was read and done before must not pass for those. So the
 * owner is told that it has lost the partition, takes it again, and begins at what is stored. */
int64_t partition_epoch(const struct postgres_engine *engine, int64_t subscription_id,
                        int32_t partition, int64_t epoch);

static inline struct postgres_engine *postgres_of(struct engine *engine)
{
    return (struct postgres_engine *)engine;
}

#endif
