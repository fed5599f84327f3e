/*
 * measure.c - measures one system at one work, once, and prints one JSON object.
 *
 *     measure SYSTEM WORK ADDRESS [NAME=VALUE ...]
 *
 * SYSTEM is holdfast, or one of the peers: sqlite and disk (without anything), redis, beanstalkd,
 * nats, and in PostgreSQL bare (a table), skiplocked (a queue of one's own), pgq, pgmq,
 * graphile-worker, holdfast-sql (its functions). WORK is
 *
 *     publish       `links` connections, or threads, publish `batch` events at a time, for
 *                   `seconds`;
 *                   the library also by one thread that does not wait, with `flight` under way
 *     transaction   events are published inside one transaction, in PL/pgSQL
 *     consume       a backlog of `events` is worked off in order; claim, shared: by workers
 *     fail          the same, and each event fails three times (fail-shared: by a shared
 *                   subscription)
 *     follow        one publishes while `subscriptions` follow: how long a publish takes
 *     burst         `events` for each of `subscriptions`: deliveries per second
 *     latency       `rate` events per second for `seconds`: how long until each is handled; due:
 *                   only its publisher, for a consumer that is another program
 *
 * and of Holdfast only, for bench/growth: tail and tail-shared (a backlog at the end of a long log
 * is worked off), steady (`rate` events per second for `seconds`, `batch` at a time, which an
 * ordered and a shared subscription follow; one in a hundred fails once), and what makes a database
 * large by the number `events` and prints nothing: grow-events, grow-namespaces, grow-letters,
 * grow-retries.
 *
 * `server` is the number of the server's process. `ids` is the version of UUIDs that publishers
 * give, 4 or 7. The database is private, and empty but for growth.
 */
#include "library.h"

#include <string.h>

static const struct peer *peer_find(const char *name)
{
    static const struct peer *const peers[] = {&peer_redis, &peer_beanstalkd, &peer_nats,
                                               &peer_sqlite};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        if (strcmp(peers[i]->name, name) == 0) {
            return peers[i];
        }
    }
    return peer_in_postgres(name);
}

static void usage(const char *what)
{
    fprintf(stderr, BENCH ": %s\nusage: measure SYSTEM WORK ADDRESS [NAME=VALUE ...]\n", what);
    exit(2);
}

static long long within(const char *text, long long most)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*end || value < 0 || value > most) {
        usage("a value is no number, or too large");
    }
    return value;
}

static void take_option(struct task *task, char *option)
{
    char *value = strchr(option, '=');
    if (!value) {
        usage(option);
    }
    *value++ = '\0';
    if (strcmp(option, "links") == 0) {
        task->links = (int)within(value, LINKS_MAX);
    } else if (strcmp(option, "batch") == 0) {
        task->batch = (int)within(value, BATCH_MAX);
    } else if (strcmp(option, "flight") == 0) {
        task->flight = (int)within(value, LINKS_MAX);
    } else if (strcmp(option, "subscriptions") == 0) {
        task->subscriptions = (int)within(value, LINKS_MAX);
    } else if (strcmp(option, "ids") == 0) {
        task->ids = (int)within(value, 7);
    } else if (strcmp(option, "server") == 0) {
        task->server = (long)within(value, INT32_MAX);
    } else if (strcmp(option, "events") == 0) {
        task->events = within(value, 1000000000);
    } else if (strcmp(option, "seconds") == 0) {
        task->seconds = strtod(value, NULL);
    } else if (strcmp(option, "rate") == 0) {
        task->rate = strtod(value, NULL);
    } else {
        usage(option);
    }
}

/* Whether this is something that makes a database large; then it is done. */
static bool grow(const struct task *task, const char *work)
{
    static const struct {
        const char *work;
        void (*grow)(const struct task *task);
    } ways[] = {{"grow-events", grow_events},
                {"grow-namespaces", grow_namespaces},
                {"grow-letters", grow_letters},
                {"grow-retries", grow_retries}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].work, work) == 0) {
            ways[i].grow(task);
            return true;
        }
    }
    return false;
}

/* Whether the library has this work; then it is done. */
static bool measure_library(const struct task *task, const char *work, struct result *ret_result)
{
    if (strcmp(work, "publish") == 0 && task->flight > 0) {
        library_publish_async(task, ret_result);
    } else if (strcmp(work, "publish") == 0) {
        library_publish(task, ret_result);
    } else if (strcmp(work, "consume") == 0) {
        library_consume(task, false, ret_result);
    } else if (strcmp(work, "shared") == 0) {
        library_consume(task, true, ret_result);
    } else if (strcmp(work, "claim") == 0) {
        library_claim(task, ret_result);
    } else if (strcmp(work, "fail") == 0) {
        library_fail(task, false, ret_result);
    } else if (strcmp(work, "fail-shared") == 0) {
        library_fail(task, true, ret_result);
    } else if (strcmp(work, "follow") == 0) {
        library_follow(task, ret_result);
    } else if (strcmp(work, "burst") == 0) {
        library_burst(task, ret_result);
    } else if (strcmp(work, "latency") == 0) {
        library_latency(task, ret_result);
    } else if (strncmp(work, "tail", 4) == 0) {
        library_tail(task, strcmp(work, "tail-shared") == 0, ret_result);
    } else if (strcmp(work, "steady") == 0) {
        library_steady(task, ret_result);
    } else {
        return false;
    }
    return true;
}

static bool measure_peer(const struct task *task, const struct peer *peer, const char *work,
                         struct result *ret_result)
{
    bool consumes =
        strcmp(work, "consume") == 0 || strcmp(work, "shared") == 0 || strcmp(work, "claim") == 0;
    if (strcmp(work, "publish") == 0) {
        work_publish(peer, task, ret_result);
    } else if (strcmp(work, "due") == 0) {
        work_due(peer, task, ret_result);
    } else if (strcmp(work, "transaction") == 0) {
        work_transaction(peer->name, task, ret_result);
    } else if (consumes && peer->consume) {
        work_consume(peer, task, ret_result);
    } else if (strncmp(work, "fail", 4) == 0 && peer->fail) {
        work_fail(peer, task, ret_result);
    } else if (strcmp(work, "follow") == 0 && peer->follow) {
        work_follow(peer, task, ret_result);
    } else if (strcmp(work, "latency") == 0 && peer->consume && strcmp(peer->name, "sqlite") != 0) {
        work_latency(peer, task, ret_result);
    } else {
        return false;
    }
    return true;
}

/* The same for the disk. */
static bool measure_disk(const struct task *task, const char *work, struct result *ret_result)
{
    if (strcmp(work, "latency") != 0) {
        return false;
    }
    disk_latency(task, ret_result);
    return true;
}

int main(int argc, char **argv)
{
    struct task task = {.links = 1, .batch = 1, .subscriptions = 1, .seconds = 1, .rate = 1000};
    struct result result = RESULT_INIT;
    if (argc < 4) {
        usage("what is to be measured?");
    }
    task.address = argv[3];
    for (int i = 4; i < argc; i++) {
        take_option(&task, argv[i]);
    }
    bool is_library = strcmp(argv[1], "holdfast") == 0;
    if (is_library && grow(&task, argv[2])) {
        return 0;
    }
    bool is_disk = strcmp(argv[1], "disk") == 0;
    const struct peer *peer = is_library || is_disk ? NULL : peer_find(argv[1]);
    if (!peer && !is_library && !is_disk) {
        usage(argv[1]);
    }
    if (!(is_library ? measure_library(&task, argv[2], &result)
          : is_disk  ? measure_disk(&task, argv[2], &result)
                     : measure_peer(&task, peer, argv[2], &result))) {
        usage("this system does not do this work");
    }
    double events = result.events > 0 ? (double)result.events : 1;
    printf("{\"system\":\"%s\",\"work\":\"%s\",\"events\":%lld,\"seconds\":%.3f,\"rate\":%.1f,"
           "\"cpu_us\":%.3f,\"bytes\":%.1f",
           argv[1], argv[2], result.events, result.seconds, events / result.seconds,
           result.cpu * 1e6 / events, result.bytes / events);
    if (result.p50_ms >= 0) {
        printf(",\"p50_ms\":%.3f,\"p99_ms\":%.3f", result.p50_ms, result.p99_ms);
    }
    puts("}");
    return 0;
}
