/*
 * core.h - the verbs of struct engine_class that are not in verbs.h, by the file they live in.
 * `base` is the head of the engine's own struct.
 */
#ifndef HF_STORE_SQLITE_CORE_H
#define HF_STORE_SQLITE_CORE_H

#include "store/sqlite/sqlite.h"

/* apply.c */
hf_status sqlite_apply(struct engine *base, struct change *changes, struct deadline deadline);
/* What follows a commit, under the gate: the inodes are compared, others are woken, and the log is
 * checkpointed when it is time. HF_UNKNOWN: the file is not the one we opened (engine->replaced),
 * or that could not be looked at. */
hf_status apply_committed(struct sqlite_engine *engine, struct conn *conn, bool ring);
/* The files are not those that were opened: nothing works from now on, and to others this store is
 * gone, so that one that is healthy takes over. Said once. Any thread. */
void apply_give_up(struct sqlite_engine *engine);
/* Before a write: HF_UNAVAILABLE if the file was replaced; recovers the writer if a commit failed
 * midway. Under the gate. */
hf_status apply_ready(struct sqlite_engine *engine, struct deadline deadline);
/* Moves the WAL into the database as far as readers allow; under the gate. */
void apply_checkpoint(struct sqlite_engine *engine);

/* reader.c */
hf_status sqlite_reader_open(struct engine *engine, int64_t after, bool strict,
                             struct reader **ret_reader);
hf_status sqlite_reader_next(struct reader *base, const struct filter *filter, int32_t max,
                             struct batch *batch, int64_t *ret_floor, bool *ret_more);
void sqlite_reader_close(struct reader *reader);

/* tx.c */
/* Closes the connection that is kept for the next transaction; under the gate. */
void tx_forget_idle(struct sqlite_engine *engine);
hf_status sqlite_tx_begin(struct engine *base, struct deadline deadline, struct tx **ret_tx);
hf_status sqlite_tx_enter(struct tx *base, const struct hold *hold, const struct entry *entry,
                          int64_t now_us);
hf_status sqlite_tx_leave(struct tx *base, bool keep, bool *ret_lane_busy);
hf_status sqlite_tx_append(struct tx *base, struct append *append);
void *sqlite_tx_connection(struct tx *base);
bool sqlite_tx_abort(struct tx *base);
hf_status sqlite_tx_commit(struct tx *base);
void sqlite_tx_rollback(struct tx *base);

/* join.c */
hf_status sqlite_join_begin(struct engine *base, void *connection, struct deadline deadline);
hf_status sqlite_join_append(struct engine *base, void *connection, struct append *append);
hf_status sqlite_join_commit(struct engine *base, void *connection);
hf_status sqlite_join_rollback(struct engine *base, void *connection);

/* doctor.c */
hf_status sqlite_sizes(struct engine *base, struct store_sizes *ret_sizes);
hf_status sqlite_doctor(struct engine *base, hf_finding_fn found, void *ctx);

/* verify.c */
hf_status sqlite_verify_check(struct engine *engine, enum verify_check check, int32_t max,
                              verify_said_fn said, void *ctx);
hf_status sqlite_verify_scan(struct engine *engine, enum verify_table table, int32_t max,
                             struct verify_cursor *cursor, bool *ret_more, verify_row_fn found,
                             void *ctx);

#endif
