/*
 * ledger.h - the oracle of every fault test: what was sent, answered, delivered, and whether the
 * promises were kept.
 *
 * All processes write lines (rig.h) to files outside of what is being broken:
 *
 *   a publisher, in a file of its own
 *     S id key hash            before it sends; key "-" is none
 *     A id position            acknowledged
 *     F id status              refused: it must not exist
 *     U id                     unknown: it may exist
 *     J id                     sent in a transaction that writes the id to the outbox table, too
 *   consumers, all of them in one file, so that its order is the order of the deliveries
 *     D subscription id attempt hash verdict pid    verdict: a ack, r retry, d dead, k kills itself
 *     N subscription id        that delivery was not acknowledged after all
 *     K pid                    the process is gone (written by who watched it)
 *     Z pid                    it was frozen and went on: what it had in hand comes again
 *                              elsewhere, and it may still run it
 *   every process
 *     P name                   a fault point was hit
 *
 * When the faults have stopped and everything is settled, the log, the dead letters and the effects
 * table are read into the ledger, and ledger_judge compares:
 *
 *   lost        acknowledged, but not in the log, or neither delivered nor dead in a subscription
 *   invented    delivered or stored but never sent, or with other bytes
 *   denied      refused, but stored or delivered
 *   twice       an id with two places in the log, or an acknowledged position that is not its own
 *   effects     not exactly one per settled delivery of a transactional subscription; none for a
 *               dead one
 *   joined      in the outbox and not in the log, or the other way round; what a handler published
 *               inside its transaction without its effect, or the other way round
 *   unexplained delivered again although the last delivery was acknowledged by a process that
 *               lives, and neither of the two was frozen
 *   order       in an ordered subscription: e1 was acknowledged before e2 of its key was sent, but
 *               e2 came before e1 was done with
 *   position    in a subscription that promises it, a lower position came after a higher one
 *   attempts    an attempt number above the maximum
 *   stories     a dead letter without every attempt's error
 */
#ifndef HF_TESTS_SUPPORT_LEDGER_H
#define HF_TESTS_SUPPORT_LEDGER_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_SUBSCRIPTIONS_MAX 4

/* What a subscription promises. */
struct ledger_subscription {
    const char *name;
    const char *type; /* only events of this type are for it; NULL: all */
    bool ordered;
    bool transactional; /* leaves one effect for each event */
    bool derives;       /* publishes one event (rig_derived_id) in the transaction */
    bool repeats;       /* a call may be undone and come again for no reason that is told here */
    int32_t attempts_max;
    int64_t after;    /* only positions above it are for it */
    bool strict;      /* first deliveries come in the order of positions */
    bool by_position; /* first deliveries of a key do: its publisher published one by one */
};

struct ledger;

struct ledger *ledger_new(const struct ledger_subscription *subscriptions, size_t count);
void ledger_free(struct ledger *ledger);

/* Reads a file of lines; a missing file is an empty one. An incomplete last line is ignored. */
void ledger_read(struct ledger *ledger, const char *path);

/* Reads the log and the dead letters of an open bus. HF_OK, or what went wrong. */
hf_status ledger_inspect(struct ledger *ledger, hf_bus *bus);
/* Reads the tables effects (id) and outbox (id) of the database: a SQLite file's path, or a
 * server's URL. */
hf_status ledger_inspect_tables(struct ledger *ledger, const char *database);

/* Judges; prints the first few breaches as TAP comments and answers how many there are. */
int64_t ledger_judge(struct ledger *ledger);
/* Tells where the events of the first breaches are in each subscription, by the store. */
void ledger_explain(const struct ledger *ledger, hf_bus *bus);

/* The number of events that were acknowledged; of calls of handlers; of dead letters. */
int64_t ledger_acknowledged(const struct ledger *ledger);
int64_t ledger_delivered(const struct ledger *ledger);
int64_t ledger_dead(const struct ledger *ledger);
/* Events that were sent and have no answer: ask by id, or send again. */
typedef void (*ledger_open_fn)(const char *id, const char *key, void *ctx);
void ledger_unanswered(const struct ledger *ledger, ledger_open_fn found, void *ctx);
/* How many events of the subscription first came before one with a lower position. */
int64_t ledger_overtaking(const struct ledger *ledger, const char *subscription);
/* How often a point was hit. */
int64_t ledger_hits(const struct ledger *ledger, const char *point);

#endif
