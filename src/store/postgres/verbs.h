/*
 * verbs.h - what the PostgreSQL engine can do: its changes and verbs.
 *
 * Contracts are those of store.h; this header only says how they are called. The lists are
 * changes.def and verbs.def; a function is in the file that is named after its noun.
 *
 * A change is one statement, a call of a function of the schema: postgres_<change>_fill writes its
 * parameters, postgres_<change>_read takes its answer. (A claim has a second one, which reads the
 * events that the first has leased.) round.c stands between them: it sends many
 * at once, and one again (fill and all) that met a passing trouble. So fill must not change
 * anything, and read answers the status of the change, with its message; anything but HF_OK means
 * that the function has left no trace. *ret_ring is false before; read sets it if others are to
 * be woken.
 *
 * Queries run by pg_lookup.h.
 */
#ifndef HF_STORE_POSTGRES_VERBS_H
#define HF_STORE_POSTGRES_VERBS_H

#include "store/deliveries.h"
#include "store/membership.h"
#include "store/namespace.h"
#include "store/postgres/postgres.h"
#include "store/retention.h"

/* The second statement of a change, in the same transaction, sent before the first one has its
 * answer. `read` gets both answers, and is called if that of the first was HF_OK. */
struct verb_second {
    enum postgres_query query;
    void (*fill)(struct params *params, const struct change *change);
    hf_status (*read)(struct postgres_engine *engine, struct change *change, const PGresult *first,
                      const PGresult *second);
};

/* How a change is called. */
struct verb {
    enum postgres_query query;
    enum postgres_query (*choose)(const struct change *change); /* NULL: always `query` */
    hf_status (*fill)(struct postgres_engine *engine, struct params *params, struct change *change);
    hf_status (*read)(struct postgres_engine *engine, struct change *change, const PGresult *result,
                      bool *ret_ring);
    const struct verb_second *second; /* NULL: it is one statement */
    bool sets_commit; /* its last parameter, which is not for `fill`, is synchronous_commit: that
                         saves a statement for those that are sent all the time (commit_mode.h) */
};

/* The verb of a change, and the statement that it is. (verbs.c) */
const struct verb *verb_of(const struct change *change);
enum postgres_query verb_query(const struct change *change);

/* One per kind, postgres_verb_append and so on, in the file that is named after its noun. */
#define CHANGE(KIND, name) extern const struct verb postgres_verb_##name;
#include "store/changes.def"

/* The answer of a function: `status` in this column, `message` in the next. HF_OK or that status,
 * with the message. (answer.c) */
hf_status postgres_answer(const PGresult *result, int row, int column);
/* The `read` of a change that answers nothing else, and rings. (answer.c) */
hf_status postgres_read_ringing(struct postgres_engine *engine, struct change *change,
                                const PGresult *result, bool *ret_ring);
/* An event of a lease with its story (the type leased_event of the schema) into the batch. On
 * failure the caller takes the entry out again. The columns of a query are followed by others from
 * LEASED_COLUMNS on. (claim.c) */
#define LEASED_COLUMNS 22
hf_status postgres_leased_push(struct batch *batch, const PGresult *result, int row);

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

/* ---- Verbs ----------------------------------------------------------------------------------- */

/* postgres_subscription_get and so on */
#define VERB(result, name, params, args) result postgres_##name params;
#include "store/verbs.def"

hf_status postgres_retain_command(struct engine *engine, const char *command,
                                  struct deadline deadline);
hf_status postgres_index_command(struct engine *engine, const char *command);
/* Whether the calling thread is inside a transaction that postgres_tx_begin began: it must not wait
 * for locks that it holds itself. */
bool postgres_held_by_caller(struct engine *engine);
hf_status postgres_apply(struct engine *base, struct change *changes, struct deadline deadline);
hf_status postgres_tx_finish(struct tx *tx, bool *ret_lane_busy);
hf_status postgres_tx_finish_unit(struct tx *tx, struct tx_member *others, size_t count,
                                  bool *ret_lane_busy, size_t *ret_settled);

/* ---- What they share ------------------------------------------------------------------------- */

/* Fills in held_ms and holders and, if there is a holder, pid. (holders.c) */
hf_status postgres_holders(struct engine *engine, struct gap_facts *facts);
/* Takes the next of `firsts`, the ids that functions of the schema answer for unique keys that are
 * taken, and says so in the event. (append.c) */
struct result_array;
void unique_read(struct result_array *firsts, struct new_event *event);
/* probe.c */
hf_status prober_new(struct postgres_engine *engine, struct prober **ret_prober);
void prober_free(struct prober *prober);
/* ahead.c */
hf_status ahead_new(struct postgres_engine *engine, struct ahead **ret_ahead);
void ahead_free(struct ahead *ahead);

/* Appends within the transaction that the session is in. If the answer is not HF_OK the transaction
 * goes on as if nothing had been tried. Sets *ret_ring if others are to be woken. (join.c) */
hf_status postgres_append_within(struct session *session, struct append *append, bool *ret_ring);

#endif
