/*
 * support_replica.c - see support_replica.h.
 */
#include "postgres/support_replica.h"

#include "postgres/support_side.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_BYTES 1024

/* Runs the script with these arguments; the first line that it prints. */
static void run(char out[REPLICA_DIR_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void run(char out[REPLICA_DIR_BYTES], const char *format, ...)
{
    const char *root = getenv("ROOT");
    char command[COMMAND_BYTES];
    va_list args;
    size_t used = (size_t)snprintf(command, sizeof command, "'%s/scripts/postgres-cluster' ",
                                   root ? root : ".");
    must_hold(used < sizeof command);
    va_start(args, format);
    vsnprintf(command + used, sizeof command - used, format, args);
    va_end(args);
    FILE *pipe = popen(command, "r");
    must_hold(pipe);
    if (!fgets(out, REPLICA_DIR_BYTES, pipe)) {
        out[0] = '\0';
    }
    out[strcspn(out, "\n")] = '\0';
    if (pclose(pipe) != 0) {
        check_fail(__FILE__, __LINE__, "%s failed", command);
    }
}

struct replica replica_start(void)
{
    struct replica cluster;
    char none[REPLICA_DIR_BYTES];
    run(cluster.dir, "start --with %d", (int)getpid());
    run(none, "createdb %s %s", cluster.dir, REPLICA_DATABASE);
    return cluster;
}

struct replica replica_standby(const struct replica *primary)
{
    struct replica cluster;
    run(cluster.dir, "standby %s --with %d", primary->dir, (int)getpid());
    return cluster;
}

static void command(const char *verb, const struct replica *cluster)
{
    char none[REPLICA_DIR_BYTES];
    run(none, "%s %s", verb, cluster->dir);
}

void replica_stop(const struct replica *cluster)
{
    command("stop", cluster);
}

void replica_kill(const struct replica *cluster)
{
    command("kill", cluster);
}

void replica_revive(const struct replica *cluster)
{
    command("revive", cluster);
}

void replica_promote(const struct replica *cluster)
{
    command("promote", cluster);
}

void replica_url(const struct replica *cluster, const struct replica *other, char *out,
                 size_t out_bytes)
{
    int length =
        snprintf(out, out_bytes, "postgresql:///%s?host=%s%s%s&user=holdfast", REPLICA_DATABASE,
                 cluster->dir, other ? "," : "", other ? other->dir : "");
    must_hold(length > 0 && (size_t)length < out_bytes);
}

PGconn *replica_open(const struct replica *cluster)
{
    char url[COMMAND_BYTES];
    replica_url(cluster, NULL, url, sizeof url);
    return side_open_url(url);
}

void replica_set(PGconn *pg, const char *name, const char *value)
{
    if (value) {
        side_must(pg, "ALTER SYSTEM SET %s = '%s'", name, value);
    } else {
        side_must(pg, "ALTER SYSTEM RESET %s", name);
    }
    side_must(pg, "SELECT pg_reload_conf()");
}
