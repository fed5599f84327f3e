/*
 * verbs.h - what the SQLite engine can do to a subscription: its changes and queries.
 *
 * Contracts are those of store.h; this header only says how they are called.
 *
 * Changes run inside a write transaction on `conn`. The caller has opened a SAVEPOINT unless the
 * change is the only one of its transaction, and undoes it when the answer is not HF_OK. A change
 * that rings sets conn->ring; the bell is rung after the commit.
 *
 * Queries take a connection from the pool themselves and read one snapshot. They have the types of
 * struct engine_class, so that engine.c can name them in its table.
 */
#ifndef HF_STORE_SQLITE_VERBS_H
#define HF_STORE_SQLITE_VERBS_H

#include "store/engine.h"

struct sqlite_engine;
struct conn;

/* ---- Changes (subscription.c, members_refresh.c, partition.c, settle.c, claim.c, dead.c) ----- */

hf_status sqlite_subscription_put(struct sqlite_engine *engine, struct conn *conn,
                                  struct subscription_put *put);
hf_status sqlite_subscription_remove(struct sqlite_engine *engine, struct conn *conn,
                                     struct subscription_remove *remove);
hf_status sqlite_pause(struct sqlite_engine *engine, struct conn *conn, struct pause *pause);
hf_status sqlite_breaker_put(struct sqlite_engine *engine, struct conn *conn,
                             struct breaker_put *put);
hf_status sqlite_seek(struct sqlite_engine *engine, struct conn *conn, struct seek *seek);
hf_status sqlite_members_refresh(struct sqlite_engine *engine, struct conn *conn,
                                 struct members_refresh *refresh);
hf_status sqlite_repartition(struct sqlite_engine *engine, struct conn *conn,
                             struct repartition *repartition);
hf_status sqlite_acquire(struct sqlite_engine *engine, struct conn *conn, struct acquire *acquire);
hf_status sqlite_give_back(struct sqlite_engine *engine, struct conn *conn,
                           struct give_back *give_back);
hf_status sqlite_settle(struct sqlite_engine *engine, struct conn *conn, struct settle *settle);
hf_status sqlite_checkpoints(struct sqlite_engine *engine, struct conn *conn,
                             struct checkpoints *checkpoints);
hf_status sqlite_claim(struct sqlite_engine *engine, struct conn *conn, struct claim *claim);
hf_status sqlite_settle_lease(struct sqlite_engine *engine, struct conn *conn,
                              struct settle_lease *settle);
hf_status sqlite_dead_retry(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_retry *retry);
hf_status sqlite_dead_resolve(struct sqlite_engine *engine, struct conn *conn,
                              struct dead_resolve *resolve);
hf_status sqlite_dead_purge(struct sqlite_engine *engine, struct conn *conn,
                            struct dead_purge *purge);
hf_status sqlite_namespace_put(struct sqlite_engine *engine, struct conn *conn,
                               struct namespace_put *put);
hf_status sqlite_namespace_remove(struct sqlite_engine *engine, struct conn *conn,
                                  struct namespace_remove *remove);
hf_status sqlite_retain(struct sqlite_engine *engine, struct conn *conn, struct retain *retain);

hf_status sqlite_transfer(struct sqlite_engine *engine, struct conn *conn,
                          struct transfer *transfer);

/* Finds a namespace within the present transaction, or makes it. HF_NOTFOUND; HF_BUSY: it is being
 * removed; HF_INVALID: there are too many. (namespace.c) */
hf_status sqlite_namespace_find(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created, bool *ret_copying);
/* Takes out at most *left rows of all that a namespace has beside its events, and counts them off:
 * if some are left over nothing is in it any more. (namespace.c) */
hf_status sqlite_namespace_empty(struct conn *conn, int64_t id, int64_t *left);
/* The same as find, for a caller that wants to use it: HF_BUSY also if it is a copy that is not
 * complete. (namespace.c) */
hf_status sqlite_namespace_open(struct conn *conn, struct text name, bool create, int64_t now_us,
                                int64_t *ret_id, bool *ret_created);

/* The settling half of tx_enter: checks the hold (HF_STALE, HF_NOTFOUND), settles the position as
 * OUTCOME_DONE does, HF_CONFLICT if it is settled already. Ordered deliveries get their row in
 * `settled`. The caller has opened the SAVEPOINT. */
hf_status sqlite_enter(struct sqlite_engine *engine, struct conn *conn, const struct hold *hold,
                       const struct entry *entry, int64_t now_us, bool *ret_lane_busy);

/* Closing: gives back all partitions that this store's token still owns, and ends the leases bound
 * to it so that the next claim hands their events out at once. Sets conn->ring if there were
 * any. */
hf_status sqlite_give_back_all(struct sqlite_engine *engine, struct conn *conn, int64_t now_us);

/* ---- Copying (transfer.c) -------------------------------------------------------------------- */

hf_status sqlite_identity(struct engine *engine, char ret_identity[TRANSFER_IDENTITY_BYTES]);
hf_status sqlite_transfer_facts(struct engine *engine, struct text name,
                                struct transfer_facts *ret_facts);
hf_status sqlite_export_open(struct engine *engine, struct exporter **ret_exporter);
hf_status sqlite_export_rows(struct exporter *base, int64_t namespace_id, enum transfer_table table,
                             int64_t after, int64_t upto, transfer_row_fn row, void *ctx);
void sqlite_export_close(struct exporter *base);

/* ---- Queries (subscription.c, query.c, progress.c, membership.c, dead.c) --------------------- */

hf_status sqlite_subscription_get(struct engine *engine, struct text name,
                                  subscription_row_fn found, void *ctx);
hf_status sqlite_subscription_by_id(struct engine *engine, int64_t id, subscription_row_fn found,
                                    void *ctx);
hf_status sqlite_subscription_list(struct engine *engine, subscription_row_fn found, void *ctx);
hf_status sqlite_retention_plan(struct engine *engine, struct text name, int64_t now_us,
                                struct retention_plan *ret_plan);
hf_status sqlite_namespace_list(struct engine *engine, struct text name, namespace_row_fn found,
                                void *ctx);
hf_status sqlite_node_list(struct engine *engine, struct text id, node_row_fn found, void *ctx);
hf_status sqlite_standing(struct engine *engine, int64_t id, struct standing *ret_standing,
                          epoch_fn found, void *ctx);
hf_status sqlite_progress(struct engine *engine, const int64_t *ids, size_t count, int64_t now_us,
                          progress_fn found, void *ctx);
hf_status sqlite_partitions(struct engine *engine, int64_t subscription_id, member_row_fn member,
                            partition_row_fn partition, void *ctx);
/* Does the process of this token exist, frozen or not? */
bool sqlite_owner_is_alive(struct sqlite_engine *engine, const uint8_t owner[STORE_TOKEN_BYTES]);
hf_status sqlite_blocked(struct engine *engine, int64_t subscription_id, int64_t after, int32_t max,
                         blocked_row_fn found, void *ctx);
hf_status sqlite_delivery_facts(struct engine *engine, int64_t subscription_id,
                                const uint8_t id[16], int64_t position, int64_t hash,
                                struct arena *arena, struct delivery_facts *ret_facts,
                                struct text *ret_attempts_json);
hf_status sqlite_event_find(struct engine *engine, const uint8_t id[16], struct batch *batch);
hf_status sqlite_head(struct engine *engine, int64_t *ret_head, int64_t *ret_first);
hf_status sqlite_last(struct engine *engine, int64_t *ret_position);
hf_status sqlite_gaps(struct engine *engine, int64_t subscription_id, struct gap_facts *ret_facts);
hf_status sqlite_now(struct engine *engine, struct deadline deadline, int64_t *ret_position);
hf_status sqlite_position_before(struct engine *engine, int64_t at_us, int64_t disorder,
                                 int64_t *ret_position);
hf_status sqlite_retries_due(struct engine *engine, const struct due_query *query,
                             struct batch *batch, int64_t *ret_next_us);
hf_status sqlite_lanes(struct engine *engine, int64_t subscription_id, int32_t partition,
                       lane_fn found, void *ctx);
hf_status sqlite_ahead(struct engine *engine, int64_t subscription_id, int32_t partition,
                       int64_t checkpoint, position_fn found, void *ctx);
hf_status sqlite_lease_read(struct engine *engine, int64_t subscription_id,
                            const uint8_t lease[STORE_TOKEN_BYTES], struct batch *batch);
hf_status sqlite_dead_list(struct engine *engine, const struct dead_query *query,
                           hf_dead_letter_fn found, void *ctx);
hf_status sqlite_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                          void *ctx);
hf_status sqlite_dead_count(struct engine *engine, const struct dead_query *query,
                            int64_t *ret_count);

#endif
