/*
 * commit_mode.h - how durably a transaction of the writer's session commits, and which settings
 * that needs.
 *
 * The session commits as the store was opened for: COMMIT_NORMAL needs no setting. A transaction
 * that differs has to set synchronous_commit for itself. Either a statement of its own goes ahead
 * of it, or, for the changes that are sent all the time, their function takes the setting as its
 * last parameter (`sets_commit` in verbs.h).
 *
 * Behind a transaction pooler nothing of a session lasts, so there every transaction sets all that
 * it needs, always by a statement of its own.
 */
#ifndef HF_STORE_POSTGRES_WIRE_COMMIT_MODE_H
#define HF_STORE_POSTGRES_WIRE_COMMIT_MODE_H

#include "store/postgres/wire/session.h"
#include "store/store.h"

#define WRITER_LOCK_MS 100 /* for a lock: what does not get it is tried again (apply.c) */
#define WRITER_LOCK_TIMEOUT COMMIT_MODE_TEXT(WRITER_LOCK_MS) /* the same as a setting */
#define COMMIT_MODE_TEXT(number) COMMIT_MODE_QUOTE(number)
#define COMMIT_MODE_QUOTE(number) #number

enum commit_mode {
    COMMIT_NORMAL,  /* as durably as the store was opened for */
    COMMIT_RELAXED, /* without waiting for the disk */
    COMMIT_FIRM     /* durably in any case */
};

/* The mode of a change that has a transaction of its own. */
enum commit_mode commit_mode_of(const struct change *change);

/* Whether a transaction of this mode begins with the statement that sets something, `tx_settings`.
 * `rides`: its function can set synchronous_commit on the way. */
bool commit_mode_has_statement(const struct session *session, enum commit_mode mode, bool rides);
/* The parameters of that statement. */
void commit_mode_fill(struct session *session, enum commit_mode mode);
/* The setting that a function with that parameter gets; absent: none. */
struct text commit_mode_riding(const struct session *session, enum commit_mode mode);

#endif
