/*
 * support_replica.h - servers that follow each other, which a test may kill
 * (scripts/postgres-cluster).
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_REPLICA_H
#define HF_TESTS_POSTGRES_SUPPORT_REPLICA_H

#include <libpq-fe.h>
#include <stddef.h>

#define REPLICA_DIR_BYTES 64
#define REPLICA_DATABASE "hf"

struct replica {
    char dir[REPLICA_DIR_BYTES];
};

/* A server with the database REPLICA_DATABASE, which ends with the test's process at the latest. */
struct replica replica_start(void);
/* One that follows it. */
struct replica replica_standby(const struct replica *primary);
void replica_stop(const struct replica *cluster);
/* All its processes die at once. */
void replica_kill(const struct replica *cluster);
void replica_revive(const struct replica *cluster);
/* A standby becomes the primary. */
void replica_promote(const struct replica *cluster);

/* The database's URL; `other` NULL, or a second host. */
void replica_url(const struct replica *cluster, const struct replica *other, char *out,
                 size_t out_bytes);
/* A superuser's connection to it. */
PGconn *replica_open(const struct replica *cluster);
/* Changes a setting for good; NULL: as it was at first. */
void replica_set(PGconn *pg, const char *name, const char *value);

#endif
