/*
 * peer.h - what a system must be able to do to be measured beside others, and what a measurement
 * is.
 *
 * A system (struct peer) has links: connections to its server, or to its file. A link is given one
 * request at a time, to publish or to consume some events, and says when that is done. All links of
 * a measurement are driven by one thread that waits for their sockets, as the benchmarks that come
 * with Redis and PostgreSQL do it: on a small machine a thread for each connection would take the
 * CPU from the server.
 *
 * A request to publish is done when the system has said that its events are stored; servers are
 * started so that they sync to disk before they say so (bench/peers/servers).
 */
#ifndef HF_BENCH_PEER_H
#define HF_BENCH_PEER_H

#define BENCH "measure"
#include "../common.h"

#include <stdbool.h>
#include <stdint.h>

#define PAYLOAD_BYTES 90
#define BATCH_MAX 10000
#define LINKS_MAX 1000

/* What is to be measured. */
struct task {
    const char *address; /* URL of a database, path of a socket or of a file, port of NATS */
    int links;           /* connections, or threads of a library */
    int batch;           /* events of one request */
    int flight;        /* events that one thread has under way, by hf_publish_async; 0: by links */
    int subscriptions; /* that follow while events are published */
    int ids;           /* version of the ids that are given, 4 or 7; 0: the library makes them */
    bool waits;        /* consuming waits for events */
    long server;       /* the server's process, whose children count too; 0: there is none */
    long long events;  /* to be consumed; of a burst, to be published; or how large it grows */
    double seconds;    /* of publishing */
    double rate;       /* events per second, of an open loop */
};

/* What was measured. A latency that was not measured is -1. */
struct result {
    long long events;
    double seconds;
    double cpu; /* seconds, of this process and of the server's */
    double bytes;
    double p50_ms;
    double p99_ms;
};

#define RESULT_INIT                                                                                \
    {                                                                                              \
        0, 0, 0, 0, -1, -1                                                                         \
    }

/* A connection. Each system has a struct of its own that begins with this. */
struct link {
    int fd;        /* readable when `proceed` may find something; -1: requests are done at once */
    long long got; /* events that the last request has consumed */
    void (*received)(const char *payload, void *ctx); /* called for each of them; may be NULL */
    void *ctx;
};

struct peer {
    const char *name;
    /* Makes what links need: a table, a queue. May be NULL. */
    void (*prepare)(const struct task *task);
    struct link *(*open)(const struct task *task);
    /* Begins to publish `count` events; the payload of each begins with `number`. */
    void (*publish)(struct link *link, int count, int64_t number);
    /* Begins to take up to `count` events and to acknowledge them. May be NULL. */
    void (*consume)(struct link *link, int count);
    /* Begins to read events that come after those that the link has read. May be NULL. */
    void (*follow)(struct link *link, int count);
    /* Begins to take up to `count` events and to say of each that it has failed; after the third
     * time it stays aside. `got` is the number of failures. May be NULL. */
    void (*fail)(struct link *link, int count);
    /* Goes on with what has come; true: the request is done. */
    bool (*proceed)(struct link *link);
    void (*close)(struct link *link);
};

/* Systems with a server. */
extern const struct peer peer_redis;
extern const struct peer peer_beanstalkd;
extern const struct peer peer_nats;
/* The one of this name that is in PostgreSQL, or NULL. */
const struct peer *peer_in_postgres(const char *name);
/* SQLite alone. */
extern const struct peer peer_sqlite;

/* The works, for any peer (works.c). */
void work_publish(const struct peer *peer, const struct task *task, struct result *ret_result);
void work_consume(const struct peer *peer, const struct task *task, struct result *ret_result);
void work_fail(const struct peer *peer, const struct task *task, struct result *ret_result);
void work_follow(const struct peer *peer, const struct task *task, struct result *ret_result);
/* Publishes as work_latency does, for consumers that are other programs. */
void work_due(const struct peer *peer, const struct task *task, struct result *ret_result);
void work_latency(const struct peer *peer, const struct task *task, struct result *ret_result);
/* Many events inside one transaction of PostgreSQL, called from PL/pgSQL (postgres.c). */
void work_transaction(const char *name, const struct task *task, struct result *ret_result);

/* What is due is written and synced, and counts when it is: the disk alone (disk.c). */
void disk_latency(const struct task *task, struct result *ret_result);

/* The same by the library (holdfast.c); `shared`: by a shared subscription. */
void library_publish(const struct task *task, struct result *ret_result);
void library_publish_async(const struct task *task, struct result *ret_result);
void library_consume(const struct task *task, bool shared, struct result *ret_result);
void library_claim(const struct task *task, struct result *ret_result);
void library_fail(const struct task *task, bool shared, struct result *ret_result);
void library_follow(const struct task *task, struct result *ret_result);
void library_burst(const struct task *task, struct result *ret_result);
void library_latency(const struct task *task, struct result *ret_result);

/* Ends the program with a message. */
void die(const char *what, const char *why) __attribute__((noreturn));
/* Memory, or the end. */
void *need(void *memory);
/* A JSON object of PAYLOAD_BYTES bytes and a NUL, in which `number` stands. */
void payload_make(char ret_payload[PAYLOAD_BYTES + 1], int64_t number);
int64_t payload_number(const char *payload);
int64_t now_ns(void);
void sleep_until_ns(int64_t at_ns);

/* What was spent until now: the CPU time of this process and of the server's, and the bytes that
 * were written (cost.c). */
struct cost {
    double cpu;
    double bytes;
};
struct cost cost_now(long server);
/* Adds what has been spent since then to a result. */
void cost_add(struct result *result, const struct cost *before, long server);

/* Latencies that are being collected; one thread adds. */
struct latencies {
    double *ms;
    long long count;
    long long room;
};
void latencies_add(struct latencies *latencies, double ms);
/* Sorts them, writes the median and the 99th percentile into the result, and frees them. */
void latencies_end(struct latencies *latencies, struct result *ret_result);

#endif
