/*
 * probe.h - who holds the lock of the sequence: the looks that the gap proof (base/gap.h) rests on.
 *
 * One prober serves all readers of an engine. It looks only while a reader watches, that is, has
 * holes in what it has read: then at most every PROBE_PERIOD_MS, by a thread of its own, on a
 * session that it borrows for the look. When a look may have decided something it makes news, and
 * the readers come and read.
 */
#ifndef HF_STORE_POSTGRES_READ_PROBE_H
#define HF_STORE_POSTGRES_READ_PROBE_H

#include "base/gap.h"
#include "store/postgres/postgres.h"

#define PROBE_DELAY_MS 5   /* most holes fill by themselves in this time */
#define PROBE_PERIOD_MS 40 /* between two looks */

/* What is known. */
struct proof {
    struct gap_look look;    /* complete */
    uint64_t era;            /* of the session that it was made on */
    int64_t server_start_us; /* of the server that it was made on: a pooler may have several */
    bool blind;              /* the server does not let us see its locks */
};

/* Whether the look was made at the server that a reader reads from, in the same life. */
static inline bool proof_is_of(const struct proof *proof, struct reader_life life)
{
    return proof->era == life.era &&
           (life.started_us == 0 || proof->server_start_us == life.started_us);
}

/* The last complete look: to be asked before the log is read. */
struct proof prober_proof(struct prober *prober);
/* The number of the last look that has begun: to be asked after the log was read. */
uint64_t prober_begun(struct prober *prober);

/* Looks now, on this session: for a reader that can hand up nothing before it knows. */
hf_status prober_look(struct prober *prober, struct session *session);

/* One more reader has holes, or one less. HF_NOMEM: no thread could be started to look. */
hf_status prober_watch(struct prober *prober);
void prober_unwatch(struct prober *prober);
/* There are holes that no look has seen yet: readers are to be called when one has. */
void prober_ask(struct prober *prober);

#endif
