/*
 * support_units.h - a worker with a transactional handler that is killed at a named point, and what
 * must hold afterwards.
 *
 * A unit is what one call of the handler gets: a batch, or a single event. For every unit the
 * handler writes a row for each event (its position, the number of the call, how many events the
 * call had) and publishes one event, all in the unit's transaction. Then it fails if one of the
 * payloads is poison, or if one is shy and this is the first attempt. So whatever happened to the
 * worker, in the end
 *   - every event has one row and is done, or has no row and is a dead letter;
 *   - every call whose rows are there has all of them, and published one event.
 */
#ifndef TESTS_BUS_SUPPORT_UNITS_H
#define TESTS_BUS_SUPPORT_UNITS_H

#include "support_actor.h"
#include "support_tables.h"

#define UNITS_EVENTS_MAX 2000
#define UNITS_POISON "\"poison\""
#define UNITS_SHY "\"shy\""

struct units {
    struct scene *scene;
    hf_batch_by by;
    char ids[UNITS_EVENTS_MAX][HF_ID_BYTES]; /* of what was published */
    int64_t positions[UNITS_EVENTS_MAX];
    bool poison[UNITS_EVENTS_MAX];
    int shy; /* which one of those that are published at once; -1: none */
    size_t count;
    size_t kills;
};

/* Creates the table and the subscription "a" with these options, transactional. Static memory. */
struct units *units_begin(struct scene *scene, hf_subscription_options options);
/* Publishes so many events of two keys; the one at `poison`, if there is one (-1: none), is. */
void units_publish(struct units *units, size_t count, int poison);

/* The handler; parts that work for "a", with batches or with single events, until all is settled:
 * units_work URL [POINT NTH]. */
hf_verdict units_handle(const hf_event *const *events, size_t count, hf_delivery *delivery,
                        void *ctx);
int units_work(int argc, char **argv);
int units_work_singly(int argc, char **argv);

/* Runs the part "work", which may be killed at the point, and then, if it was, another one that is
 * not. Answers whether it was. */
bool units_round(struct units *units, const char *point, int nth);

/* A moment in the life of a unit: the point is passed for the nth time. */
struct moment {
    const char *point;
    int nth;
    bool optional; /* not every engine and mode comes there so often */
};
/* At each moment a worker that has so many new events is killed. One that is not optional and
 * kills no process fails the test: it would have shown nothing. */
void units_go_through(struct units *units, const struct moment *moments, size_t count,
                      size_t events, int poison);
/* Works for "a" with these options, and is killed at every moment in the life of a delivery that
 * they have: from what is read or claimed until it is part of a stored checkpoint, or its lease is
 * over. Among the events are shy ones. Nothing may die, and then what is said above is judged. */
void units_be_killed_everywhere(struct scene *scene, hf_subscription_options options);
/* What is said above, and: all that is poison is dead. Answers how many are dead. */
size_t units_judge(struct units *units);

#endif
