/*
 * support_cluster.h - a server of the test's own, to be crashed and started again.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_CLUSTER_H
#define HF_TESTS_POSTGRES_SUPPORT_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

struct cluster {
    char dir[256];
};

/* Starts one that syncs what it writes. It ends with this process at the latest. */
void cluster_start(struct cluster *cluster);
/* The same, with a library of tests/preload in its processes. */
void cluster_start_with(struct cluster *cluster, const char *preload);
void cluster_stop(struct cluster *cluster);
/* The pattern of the URLs of its databases: see server.h. */
void cluster_pattern(const struct cluster *cluster, char *out, size_t out_bytes);
/* Makes a database, and its URL. */
void cluster_database(const struct cluster *cluster, const char *name, char *out, size_t out_bytes);

/* Stops it as a power failure would, in the way of `pg_ctl stop -m immediate`, and starts it
 * again. */
void cluster_crash(struct cluster *cluster);
/* The same by killing its first process: the others end when they notice. */
void cluster_kill(struct cluster *cluster);
/* Starts it again when it has ended by itself. */
void cluster_revive(struct cluster *cluster);
/* Whether its first process lives. */
bool cluster_lives(const struct cluster *cluster);
/* Runs one of the server's programs with these arguments on it; they are words for a shell. */
void cluster_run(const struct cluster *cluster, const char *program, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
