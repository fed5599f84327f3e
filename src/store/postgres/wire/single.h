/*
 * single.h - the one session of a store that is brief.
 *
 * A program that looks or changes something and ends, like most commands, would have a session that
 * reads besides the writer's. Making it costs the server more than both do. So as long as a brief
 * store has no keeper, its writer and its readers hand one connection to each other: it is the
 * writer's from the opening on, a thread that finds no session to read with takes it, and the
 * writer takes it back when no thread reads. Threads that need both at the same time have a session
 * each, as everywhere else.
 */
#ifndef HF_STORE_POSTGRES_WIRE_SINGLE_H
#define HF_STORE_POSTGRES_WIRE_SINGLE_H

#include <pthread.h>

#include "store/postgres/wire/session.h"

struct single {
    bool wanted;           /* the store is brief */
    pthread_mutex_t mutex; /* held by the thread that uses the writer's session */
};

hf_status single_init(struct single *single);
void single_release(struct single *single);

/* Around all that uses the writer's session once the store is open. */
void single_enter_writer(struct postgres_engine *engine);
void single_leave_writer(struct postgres_engine *engine);

/* Gives the writer, or a session of the pool, the connection that the store has for the other
 * purpose, if it is not in use: then session->pg is not NULL. The writer's caller is between enter
 * and leave. */
void single_take(struct session *session);

/* Whether the writer has a connection now. */
bool single_writer_is_connected(struct postgres_engine *engine);

#endif
