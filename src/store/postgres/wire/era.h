/*
 * era.h - which sessions speak to the same life of the same server.
 *
 * What a process remembers of positions and of other transactions is true for one server, from its
 * start to its end: a server that has crashed may give positions again, and names of transactions
 * begin anew; another server has other transactions. A direct connection belongs to one life of one
 * server, because it does not outlive the server. So what was seen through one session may be put
 * together with what is seen through another if both belong to the same life. An era is the set of
 * sessions of a store that are proven to do so (era.c), and its number is in each of them. Numbers
 * rise; the highest is the present era, and a session of an older one is not used any more.
 *
 * Who remembers something notes the era of the session that it was seen through, and forgets it
 * when the next session is of another one. docs/ordering.md has the proof.
 */
#ifndef HF_STORE_POSTGRES_WIRE_ERA_H
#define HF_STORE_POSTGRES_WIRE_ERA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "store/postgres/wire/session.h"

struct era {
    atomic_uint_least64_t number; /* of the present era; 0: no session was ever connected */
    pthread_mutex_t mutex;        /* guards what follows, and raising the number */
    int64_t server_start_us;      /* when the server of the present era was started */
};

/* A process of the server that works for a session of ours. */
struct kin {
    int32_t pid;
    int64_t birth_us; /* see session_birth in sql/postgres/queries/core.sql */
};

hf_status era_init(struct era *era);
void era_release(struct era *era);

/* Finds out to which era a session that has just been connected belongs; if to none that is known,
 * it begins a new one. */
hf_status era_join(struct session *session);
/* The present era. */
uint64_t era_now(const struct postgres_engine *engine);
/* Whether another era has begun since the session was connected. */
bool era_is_over(const struct session *session);

#endif
