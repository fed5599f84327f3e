/*
 * core.h - one write transaction for a list of changes, and what other files need around a commit.
 */
#ifndef HF_STORE_SQLITE_CORE_H
#define HF_STORE_SQLITE_CORE_H

#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

/* apply.c */
hf_status sqlite_apply(struct engine *base, struct change *changes, struct deadline deadline);
/* What follows a commit, under the gate: the inodes are compared, others are woken, and the log is
 * checkpointed when it is time. HF_UNKNOWN: the file is not the one we opened (engine->replaced),
 * or that could not be looked at. */
hf_status apply_committed(struct sqlite_engine *engine, struct conn *conn, enum ring ring);
/* The files are not those that were opened: nothing works from now on, and to others this store is
 * gone, so that one that is healthy takes over. Said once. Any thread. */
void apply_give_up(struct sqlite_engine *engine);
/* Before a write: HF_UNAVAILABLE if the file was replaced; recovers the writer if a commit failed
 * midway. Under the gate. */
hf_status apply_ready(struct sqlite_engine *engine, struct deadline deadline);
/* Moves the WAL into the database as far as readers allow; under the gate. */
void apply_checkpoint(struct sqlite_engine *engine);

/* tx.c */
/* Closes the connection that is kept for the next transaction; under the gate. */
void tx_forget_idle(struct sqlite_engine *engine);

#endif
