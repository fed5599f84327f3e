/*
 * pace.h - how durably a transaction of the writer's commits, and what it must be told for that.
 *
 * The session commits as the store was opened for: PACE_NORMAL needs no word. A transaction that
 * differs has to set synchronous_commit for itself. Either a statement of its own goes ahead of it,
 * or, for the changes that are sent all the time, their function takes the setting as its last
 * parameter (`sets_commit` in verbs.h).
 *
 * Behind a transaction pooler nothing of a session lasts, so there every transaction sets all that
 * it needs, always by a statement of its own.
 */
#ifndef HF_STORE_POSTGRES_WIRE_PACE_H
#define HF_STORE_POSTGRES_WIRE_PACE_H

#include "store/postgres/wire/session.h"
#include "store/store.h"

#define WRITER_LOCK_TIMEOUT "100ms" /* for a lock: what does not get it is tried again (apply.c) */

enum pace {
    PACE_NORMAL,  /* as durably as the store was opened for */
    PACE_RELAXED, /* without waiting for the disk */
    PACE_FIRM     /* durably in any case */
};

/* That of a change with a transaction of its own. */
enum pace pace_of(const struct change *change);

/* Whether a transaction of this pace begins with the statement that sets something, `tx_settings`.
 * `rides`: its function can set synchronous_commit on the way. */
bool pace_has_statement(const struct session *session, enum pace pace, bool rides);
/* The parameters of that statement. */
void pace_fill(struct session *session, enum pace pace);
/* What a function that can set synchronous_commit is told; absent: nothing. */
struct text pace_riding(const struct session *session, enum pace pace);

#endif
