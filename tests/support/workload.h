/*
 * workload.h - publishers and consumers that try everything and write it all down (ledger.h).
 *
 * A directory holds one database and the ledgers of all who worked on it. Four subscriptions exist:
 * "o" is ordered with four workers, "s" shared with two, "t" transactional: it writes the event's
 * id into the table `effects` and publishes one event of type "derived" inside its transaction. "p"
 * has no handlers; a thread of the consumer claims its events and acknowledges, nacks or releases
 * them.
 *
 * A publisher publishes alone, in batches, asynchronously, in a transaction of its own with a row
 * in the table `outbox`, and some ids twice. It uses its own few keys, so that its file tells which
 * event came before which. For what a predecessor left unanswered it asks by id.
 *
 * About one event in a hundred is poison: it fails once, or always, or kills the process.
 */
#ifndef HF_TESTS_SUPPORT_WORKLOAD_H
#define HF_TESTS_SUPPORT_WORKLOAD_H

#include "support/ledger.h"
#include "support/rig.h"

#include <pthread.h>
#include <stdatomic.h>

#define WORKLOAD_ATTEMPTS 3
#define WORKLOAD_SUBSCRIPTIONS 4
#define WORKLOAD_RECENT 64

extern const struct ledger_subscription workload_subscriptions[WORKLOAD_SUBSCRIPTIONS];

struct workload {
    char dir[RIG_PATH_BYTES];
    char path[RIG_PATH_BYTES + 32]; /* of the database */
    char url[RIG_PATH_BYTES + 40];
    char consumers[RIG_PATH_BYTES + 32]; /* the consumers' ledger */
    int64_t lease_ms;                    /* of new subscriptions; -1: the default */
    hf_durability durability;            /* of publishers and consumers */
};

/* Names everything in the directory. */
void workload_init(struct workload *workload, const char *dir);
/* Creates the database, the subscriptions and the application's tables. */
hf_status workload_prepare(const struct workload *workload);
/* The ledger of a publisher. */
const char *workload_publisher(const struct workload *workload, int number);

/* ---- Publishing ------------------------------------------------------------------------------ */

struct publisher {
    const struct workload *workload;
    int number;
    struct chance chance;
    hf_bus *bus;
    struct sqlite3 *app; /* the application's own connection */
    int fd;
    int poison_percent; /* 1; kills_too: also those that kill the process */
    bool kills_too;
    int64_t count; /* events sent */
    struct sent {
        char id[HF_ID_BYTES];
        char payload[2400];
        bool acknowledged;
    } recent[WORKLOAD_RECENT];
};

hf_status publisher_open(struct publisher *publisher, const struct workload *workload, int number,
                         uint64_t seed);
/* Asks for what has no answer in its ledger. */
hf_status publisher_resolve(struct publisher *publisher);
/* One of the ways to publish; the status of the last call. */
hf_status publisher_step(struct publisher *publisher);
/* One call with many large events: enough for SQLite's log to be folded back into the file. */
hf_status publisher_bulk(struct publisher *publisher, size_t count, size_t bytes);
hf_status publisher_close(struct publisher *publisher);

/* ---- Consuming ------------------------------------------------------------------------------- */

struct consumer {
    const struct workload *workload;
    hf_bus *bus;
    int fd;
    pthread_t puller;
    bool pulling;
    atomic_bool stop;
};

hf_status consumer_open(struct consumer *consumer, const struct workload *workload);
hf_status consumer_close(struct consumer *consumer);

/* Waits until everything is settled in the four and nothing is published any more. HF_TIMEOUT. */
hf_status workload_settled(hf_bus *bus, int64_t timeout_ms);

/* Says on stderr how far each subscription is. */
void workload_tell(hf_bus *bus);
/* The main of a fresh process, "recover DIR": what is unknown of the last run is found out, and
 * everything is settled within settle_ms. Answers the exit status. */
int workload_recover(int argc, char **argv, int64_t settle_ms);

/* ---- Judging --------------------------------------------------------------------------------- */

/* Reads all ledgers (publishers 0 .. publishers - 1) and the database, and judges. The breaches;
 * -1 if the database could not be read. */
int64_t workload_judge(const struct workload *workload, int publishers, struct ledger **ret_ledger);

#endif
