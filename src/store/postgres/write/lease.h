/*
 * lease.h - what this process has seen of the signs of life of others.
 *
 * A process that owns something shows that it lives by raising its number (processes,
 * `renewals`). Clocks of two machines need not agree, so no process compares times: a process that
 * finds an owner in its way remembers the number and when it first saw it, by its own monotonic
 * clock, and hands both down with the next attempt. The function that takes over looks at the
 * number once more, under the lock, so an owner that has moved meanwhile is safe.
 *
 * Used by the thread that runs apply, so by one at a time.
 */
#ifndef HF_STORE_POSTGRES_WRITE_LEASE_H
#define HF_STORE_POSTGRES_WRITE_LEASE_H

#include "store/postgres/postgres.h"

/* Remembers that the owner's number is `renewals` now. */
void signs_see(struct postgres_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
               int64_t renewals);

/* Adds two parameters, or three with `how_long`: those who have stood still for lease_ms or longer
 * (uuid[]), their numbers (bigint[]), and for how many ms (bigint[]). */
void signs_fill(struct postgres_engine *engine, struct params *params, int64_t lease_ms,
                bool how_long);

/* Whether a claim should look for dead owners. That reads the server's table of locks, so a process
 * that claims one batch after another does it only a few times a second. */
bool signs_look(struct postgres_engine *engine);
/* A claim has brought so many events. */
void signs_claimed(struct postgres_engine *engine, int count);

#endif
