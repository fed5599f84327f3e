/*
 * verbs.h - what the PostgreSQL engine can do to a subscription: its changes and queries.
 *
 * Contracts are those of store.h; this header only says how they are called.
 *
 * A change is one statement, a call of a function of the schema: postgres_<change>_fill writes its
 * parameters, postgres_<change>_read takes its answer. round.c stands between them: it sends many
 * at once, and one again (fill and all) that met a passing trouble. So fill must not change
 * anything, and read answers the status of the change, with its message; anything but HF_OK means
 * that the function has left no trace. *ret_ring is false before; read sets it if others should
 * hear of it.
 *
 * Queries run by pg_lookup.h. They have the types of struct engine_class, so that engine.c can name
 * them in its table.
 */
#ifndef HF_STORE_POSTGRES_VERBS_H
#define HF_STORE_POSTGRES_VERBS_H

#include "store/membership.h"
#include "store/namespace.h"
#include "store/postgres/postgres.h"
#include "store/retention.h"

/* How a change is called. */
struct verb {
    enum postgres_query query;
    enum postgres_query (*choose)(const struct change *change); /* NULL: always `query` */
    hf_status (*fill)(struct postgres_engine *engine, struct params *params, struct change *change);
    hf_status (*read)(struct postgres_engine *engine, struct change *change, const PGresult *result,
                      bool *ret_ring);
    bool sets_commit; /* its last parameter, which is not for `fill`, is synchronous_commit: that
                         saves a statement for those that are sent all the time (commit_mode.h) */
};

/* The verb of a change, and the statement that it is. (verbs.c) */
const struct verb *verb_of(const struct change *change);
enum postgres_query verb_query(const struct change *change);

/* One per kind, `extern const struct verb postgres_verb_settle` and so on, in the file that its
 * functions live in. */
extern const struct verb postgres_verb_append;           /* append.c: event by event */
extern const struct verb postgres_verb_subscription_put; /* subscription.c */
extern const struct verb postgres_verb_subscription_remove;
extern const struct verb postgres_verb_pause;
extern const struct verb postgres_verb_breaker_put;
extern const struct verb postgres_verb_seek;
extern const struct verb postgres_verb_members_refresh; /* members_refresh.c */
extern const struct verb postgres_verb_repartition;
extern const struct verb postgres_verb_acquire; /* partition.c */
extern const struct verb postgres_verb_give_back;
extern const struct verb postgres_verb_settle; /* settle.c */
extern const struct verb postgres_verb_checkpoints;
extern const struct verb postgres_verb_claim;        /* claim.c */
extern const struct verb postgres_verb_settle_lease; /* settle.c */
extern const struct verb postgres_verb_dead_retry;   /* dead.c */
extern const struct verb postgres_verb_dead_resolve;
extern const struct verb postgres_verb_dead_purge;
extern const struct verb postgres_verb_namespace_put; /* namespace.c */
extern const struct verb postgres_verb_namespace_remove;
extern const struct verb postgres_verb_namespace_grant;
extern const struct verb postgres_verb_namespace_revoke;
extern const struct verb postgres_verb_schedule_put; /* timers.c */
extern const struct verb postgres_verb_schedule_remove;
extern const struct verb postgres_verb_schedule_pause;
extern const struct verb postgres_verb_delay;
extern const struct verb postgres_verb_release;
extern const struct verb postgres_verb_fire;     /* firing.c */
extern const struct verb postgres_verb_retain;   /* retention.c */
extern const struct verb postgres_verb_transfer; /* transfer.c */

/* The answer of a function: `status` in this column, `message` in the next. HF_OK or that status,
 * with the message. (answer.c) */
hf_status postgres_answer(const PGresult *result, int row, int column);
/* The `read` of a change that answers nothing else, and rings. (answer.c) */
hf_status postgres_read_ringing(struct postgres_engine *engine, struct change *change,
                                const PGresult *result, bool *ret_ring);
/* An event with its story, as change_claim and lease_read answer it, into the batch. On failure the
 * caller takes the entry out again. The last row of such an answer has its status in this column.
 * (claim.c) */
#define CLAIMED_STATUS 22
hf_status postgres_claimed_push(struct batch *batch, const PGresult *result, int row);

/* lease.c: the memory of signs of life. */
hf_status signs_new(struct signs **ret_signs);
void signs_free(struct signs *signs);

/* Closing: gives back all partitions that this store's token still owns, and ends the leases bound
 * to it. On the writer's session, in a statement of its own. */
hf_status postgres_give_back_all(struct postgres_engine *engine, struct session *session,
                                 int64_t now_us, bool *ret_ring);

/* Opening: makes this process known as a node, on the keeper's session. `again`: not for the first
 * time; then what speaks against it goes into the log. HF_CONFLICT, HF_BUSY. (node.c) */
hf_status postgres_node_register(struct postgres_engine *engine, struct session *session,
                                 bool locked, bool again);

/* ---- Queries (subscription.c, query.c, progress.c, membership.c, dead.c) --------------------- */

/* timers.c */
hf_status postgres_schedule_get(struct engine *engine, struct text name, schedule_row_fn found,
                                void *ctx);
hf_status postgres_schedule_list(struct engine *engine, struct text after, int32_t max,
                                 bool *ret_more, schedule_row_fn found, void *ctx);
hf_status postgres_schedules_due(struct engine *engine, const struct due_page *page, bool *ret_more,
                                 schedule_row_fn found, void *ctx);
hf_status postgres_schedule_runs(struct engine *engine, const uint8_t schedule_id[16],
                                 int64_t before_us, int32_t max, schedule_run_fn found, void *ctx);
hf_status postgres_timers_due(struct engine *engine, int64_t *ret_due_us);
int64_t postgres_time(struct engine *engine, int64_t now_us);

hf_status postgres_subscription_get(struct engine *engine, struct text name,
                                    subscription_row_fn found, void *ctx);
hf_status postgres_subscription_by_id(struct engine *engine, int64_t id, subscription_row_fn found,
                                      void *ctx);
hf_status postgres_subscription_list(struct engine *engine, subscription_row_fn found, void *ctx);
hf_status postgres_namespace_list(struct engine *engine, struct text name, namespace_row_fn found,
                                  void *ctx);
hf_status postgres_node_list(struct engine *engine, struct text id, node_row_fn found, void *ctx);
hf_status postgres_retention_plan(struct engine *engine, struct text name, int64_t now_us,
                                  struct retention_plan *ret_plan);
hf_status postgres_retain_command(struct engine *engine, const char *command,
                                  struct deadline deadline);
hf_status postgres_standing(struct engine *engine, int64_t id, struct standing *ret_standing,
                            epoch_fn found, void *ctx);
hf_status postgres_progress(struct engine *engine, const int64_t *ids, size_t count, int64_t now_us,
                            progress_fn found, void *ctx);
hf_status postgres_partitions(struct engine *engine, int64_t subscription_id, member_row_fn member,
                              partition_row_fn partition, void *ctx);
hf_status postgres_blocked(struct engine *engine, int64_t subscription_id, int64_t after,
                           int32_t max, blocked_row_fn found, void *ctx);
hf_status postgres_delivery_facts(struct engine *engine, int64_t subscription_id,
                                  const uint8_t id[16], int64_t position, int64_t hash,
                                  struct arena *arena, struct delivery_facts *ret_facts,
                                  struct text *ret_attempts_json);
hf_status postgres_event_find(struct engine *engine, const uint8_t id[16], struct batch *batch);
hf_status postgres_head(struct engine *engine, int64_t *ret_head, int64_t *ret_first);
hf_status postgres_last(struct engine *engine, int64_t *ret_position);
hf_status postgres_gaps(struct engine *engine, int64_t subscription_id,
                        struct gap_facts *ret_facts);
/* Fills in held_ms and holders and, if there is a holder, pid. (holders.c) */
hf_status postgres_holders(struct engine *engine, struct gap_facts *facts);
hf_status postgres_position_before(struct engine *engine, int64_t at_us, int64_t disorder,
                                   int64_t *ret_position);
hf_status postgres_retries_due(struct engine *engine, const struct due_query *query,
                               struct batch *batch, int64_t *ret_next_us);
hf_status postgres_lanes(struct engine *engine, int64_t subscription_id, int32_t partition,
                         lane_fn found, void *ctx);
hf_status postgres_ahead(struct engine *engine, int64_t subscription_id, int32_t partition,
                         int64_t checkpoint, position_fn found, void *ctx);
hf_status postgres_lease_read(struct engine *engine, int64_t subscription_id,
                              const uint8_t lease[STORE_TOKEN_BYTES], struct batch *batch);
hf_status postgres_dead_list(struct engine *engine, const struct dead_query *query,
                             hf_dead_letter_fn found, void *ctx);
hf_status postgres_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                            void *ctx);
hf_status postgres_dead_count(struct engine *engine, const struct dead_query *query,
                              int64_t *ret_count);

/* ---- Copying (transfer.c) -------------------------------------------------------------------- */

hf_status postgres_identity(struct engine *engine, char ret_identity[TRANSFER_IDENTITY_BYTES]);
hf_status postgres_transfer_facts(struct engine *engine, struct text name,
                                  struct transfer_facts *ret_facts);
hf_status postgres_export_open(struct engine *engine, struct exporter **ret_exporter);
hf_status postgres_export_rows(struct exporter *base, int64_t namespace_id,
                               enum transfer_table table, int64_t after, int64_t upto,
                               transfer_row_fn row, void *ctx);
void postgres_export_close(struct exporter *base);

/* ---- Reading the log (reader.c, probe.c) ----------------------------------------------------- */

hf_status prober_new(struct postgres_engine *engine, struct prober **ret_prober);
void prober_free(struct prober *prober);

hf_status postgres_now(struct engine *engine, struct deadline deadline, int64_t *ret_position);
hf_status postgres_reader_open(struct engine *engine, int64_t after, bool strict,
                               struct reader **ret_reader);
hf_status postgres_reader_next(struct reader *reader, const struct filter *filter, int32_t max,
                               struct batch *batch, int64_t *ret_floor, bool *ret_more);
void postgres_reader_close(struct reader *reader);

/* ---- Transactions (tx.c, join.c) ------------------------------------------------------------- */

/* Whether the calling thread is inside a transaction that postgres_tx_begin began: it must not wait
 * for locks that it holds itself. */
bool postgres_held_by_caller(struct engine *engine);

hf_status postgres_tx_begin(struct engine *engine, struct deadline deadline, struct tx **ret_tx);
hf_status postgres_tx_enter(struct tx *tx, const struct hold *hold, const struct entry *entry,
                            int64_t now_us);
hf_status postgres_tx_leave(struct tx *tx, bool keep, bool *ret_lane_busy);
hf_status postgres_tx_finish(struct tx *tx, bool *ret_lane_busy);
hf_status postgres_tx_finish_unit(struct tx *tx, struct tx_member *others, size_t count,
                                  bool *ret_lane_busy, size_t *ret_settled);
hf_status postgres_tx_append(struct tx *tx, struct append *append);
void *postgres_tx_connection(struct tx *tx);
bool postgres_tx_abort(struct tx *tx);
hf_status postgres_tx_commit(struct tx *tx);
void postgres_tx_rollback(struct tx *tx);

/* Appends within the transaction that the session is in. If the answer is not HF_OK the transaction
 * goes on as if nothing had been tried. Sets *ret_ring if others should hear of it. (join.c) */
hf_status postgres_append_within(struct session *session, struct append *append, bool *ret_ring);

hf_status postgres_join_begin(struct engine *engine, void *connection, struct deadline deadline);
hf_status postgres_join_append(struct engine *engine, void *connection, struct append *append);
hf_status postgres_join_commit(struct engine *engine, void *connection);
hf_status postgres_join_rollback(struct engine *engine, void *connection);

/* ---- The rest of the core -------------------------------------------------------------------- */

hf_status postgres_apply(struct engine *base, struct change *changes, struct deadline deadline);
hf_status postgres_sizes(struct engine *engine, struct store_sizes *ret_sizes);
hf_status postgres_doctor(struct engine *engine, hf_finding_fn found, void *ctx);
hf_status postgres_verify_check(struct engine *engine, enum verify_check check, int32_t max,
                                verify_said_fn said, void *ctx);
hf_status postgres_verify_scan(struct engine *engine, enum verify_table table, int32_t max,
                               struct verify_cursor *cursor, bool *ret_more, verify_row_fn found,
                               void *ctx);

#endif
