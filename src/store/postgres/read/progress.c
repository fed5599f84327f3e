/*
 * progress.c - how far subscriptions are, and where one event is in one.
 *
 * Nothing here scans the log. How much is left is the difference of two positions; how much waits
 * is counted in an index; what is in flight is summed over the leases, of which there is one per
 * batch. Each answer is one statement, so its numbers belong together; only the head of the log and
 * whether the owner is alive are looked at beside it, because neither is kept in rows.
 *
 * The journal that checkpoints are appended to is emptied from time to time, which even older
 * snapshots notice (rotate). Then a partition has no checkpoint, and the statement is run
 * again: the newest rows are on the other side.
 */
#include "base/err.h"
#include "store/common/missing.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"
#include "store/retry.h"

#define AGAIN_MAX 10             /* rotations in a row */
#define TOGETHER_MAX 256         /* subscriptions that are asked for by one statement */
#define FACTS_TOGETHER_MAX 10000 /* the same, of one event */

/* Asks until column `checkpoint` is not NULL in any row. */
static bool ask(struct pg_lookup *lookup, int checkpoint)
{
    bool known = false;
    for (int i = 0; !known && i < AGAIN_MAX && pg_lookup_execute(lookup); i++) {
        known = true;
        for (int row = 0; known && row < lookup->rows; row++) {
            known = !result_is_null(lookup->result, row, checkpoint);
        }
    }
    pg_lookup_return_session(lookup);
    if (!lookup->status && !known) {
        lookup->status = fail(HF_UNAVAILABLE, "the journal of checkpoints keeps moving: try again");
    }
    return known;
}

/* The same about one subscription, whose row it is. */
static bool ask_one(struct pg_lookup *lookup, int checkpoint, int64_t subscription_id)
{
    bool known = ask(lookup, checkpoint);
    if (known && lookup->rows == 0) {
        lookup->status = missing_subscription(subscription_id);
    }
    return known && lookup->rows > 0;
}

/* ---- Progress -------------------------------------------------------------------------------- */

enum progress_column {
    PROGRESS_ID,
    PROGRESS_MODE,
    PROGRESS_CHECKPOINT,
    PROGRESS_CHECKPOINT_AT,
    PROGRESS_EVENT_ID,
    PROGRESS_OWNER,
    PROGRESS_OWNER_NAME,
    PROGRESS_HEAD,
    PROGRESS_IN_FLIGHT,
    PROGRESS_RETRYING,
    PROGRESS_HELD,
    PROGRESS_BLOCKED,
    PROGRESS_DEAD,
    PROGRESS_LOWEST,
    PROGRESS_OLDEST_AT,
    PROGRESS_OWNER_ALIVE,
    PROGRESS_UNOWNED,
    PROGRESS_MICRO_RATE,
    PROGRESS_NEXT_ATTEMPT_AT,
    PROGRESS_LEASE_ENDED,
    PROGRESS_LEASE_ENDED_AT,
    PROGRESS_CLAIMED_AT
};

static void read_owner(const PGresult *result, int row, struct progress *progress)
{
    uint8_t owner[STORE_TOKEN_BYTES];
    progress->owned = result_uuid(result, row, PROGRESS_OWNER, owner);
    progress->unowned = (int32_t)result_int8(result, row, PROGRESS_UNOWNED, 0);
    if (progress->owned) {
        progress->owner_alive = result_bool(result, row, PROGRESS_OWNER_ALIVE);
        snprintf(progress->owner_name, sizeof progress->owner_name, "%" TEXT_PRI,
                 TEXT_ARG(result_text(result, row, PROGRESS_OWNER_NAME)));
    }
}

/* A time that is compared with ours; -1 if it is NULL. */
static int64_t read_local(struct postgres_engine *engine, const PGresult *result, int row,
                          int column)
{
    int64_t us = result_time(result, row, column, -1);
    return us < 0 ? -1 : skew_local(engine, us);
}

static void read_progress(struct postgres_engine *engine, const PGresult *result, int row,
                          struct progress *progress)
{
    int64_t checkpoint = result_int8(result, row, PROGRESS_CHECKPOINT, 0);
    bool shared = result_int8(result, row, PROGRESS_MODE, 0) == HF_MODE_SHARED;
    progress->checkpoint = checkpoint;
    progress->cursor = -1;
    progress->checkpoint_at_us = result_time(result, row, PROGRESS_CHECKPOINT_AT, -1);
    progress->has_event_id =
        result_uuid(result, row, PROGRESS_EVENT_ID, progress->checkpoint_event_id);
    progress->head = result_int8(result, row, PROGRESS_HEAD, 0);
    progress->retrying = result_int8(result, row, PROGRESS_RETRYING, 0);
    progress->held = result_int8(result, row, PROGRESS_HELD, 0);
    progress->blocked = result_int8(result, row, PROGRESS_BLOCKED, 0);
    progress->dead = result_int8(result, row, PROGRESS_DEAD, 0);
    progress->oldest_open_us = result_time(result, row, PROGRESS_OLDEST_AT, -1);
    progress->in_flight = result_int8(result, row, PROGRESS_IN_FLIGHT, 0);
    progress->lease_ended = result_int8(result, row, PROGRESS_LEASE_ENDED, 0);
    progress->lease_ended_us = read_local(engine, result, row, PROGRESS_LEASE_ENDED_AT);
    progress->claimed_at_us = read_local(engine, result, row, PROGRESS_CLAIMED_AT);
    progress->next_attempt_us = read_local(engine, result, row, PROGRESS_NEXT_ATTEMPT_AT);
    int64_t micro_rate = result_int8(result, row, PROGRESS_MICRO_RATE, -1);
    progress->rate = micro_rate < 0 ? -1 : (double)micro_rate / 1e6;
    if (shared) {
        int64_t lowest = result_int8(result, row, PROGRESS_LOWEST, INT64_MAX);
        progress->cursor = checkpoint;
        progress->checkpoint = lowest <= checkpoint ? lowest - 1 : checkpoint;
    }
}

/* Those of the namespace among some subscriptions. */
static hf_status progress_together(struct engine *engine, const int64_t *ids, size_t count,
                                   int64_t now_us, progress_fn found, void *ctx, bool *ret_stop)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_PROGRESS);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, ids[i]);
    }
    param_uuid(params, postgres_of(engine)->token);
    param_local(params, now_us);
    int rows = ask(&lookup, PROGRESS_CHECKPOINT) ? lookup.rows : 0;
    for (int row = 0; row < rows && !*ret_stop; row++) {
        struct progress progress = {0};
        read_progress(postgres_of(engine), lookup.result, row, &progress);
        read_owner(lookup.result, row, &progress);
        *ret_stop = found(result_int8(lookup.result, row, PROGRESS_ID, 0), &progress, ctx) != 0;
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_progress_each(struct engine *engine, const int64_t *ids, size_t count,
                                 int64_t now_us, progress_fn found, void *ctx)
{
    hf_status status = HF_OK;
    bool stop = false;
    for (size_t i = 0; i < count && !status && !stop; i += TOGETHER_MAX) {
        size_t some = count - i < TOGETHER_MAX ? count - i : TOGETHER_MAX;
        status = progress_together(engine, &ids[i], some, now_us, found, ctx, &stop);
    }
    return status;
}

/* ---- Gaps ------------------------------------------------------------------------------------ */

enum gap_column { GAP_CHECKPOINT, GAP_MISSING, GAP_COUNT, GAP_HOLDERS, GAP_PID };

hf_status postgres_gaps(struct engine *engine, int64_t subscription_id, struct gap_facts *ret_facts)
{
    struct gap_facts facts = {0};
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_GAPS);
    param_int4(params, postgres_of(engine)->namespace_id);
    param_int8(params, subscription_id);
    param_int8(params, STORE_GAPS_MAX);
    if (ask_one(&lookup, GAP_CHECKPOINT, subscription_id)) {
        const PGresult *result = lookup.result;
        bool held = result_int8(result, 0, GAP_HOLDERS, 0) > 0;
        facts.missing = result_int8(result, 0, GAP_MISSING, 0);
        facts.count = result_int8(result, 0, GAP_COUNT, 0);
        facts.pid = held ? result_int8(result, 0, GAP_PID, -1) : 0;
    }
    hf_status status = pg_lookup_end(&lookup);
    if (!status && facts.missing != 0 && facts.pid != 0) {
        status = postgres_holders(engine, &facts);
    }
    if (!status) {
        *ret_facts = facts;
    }
    return status;
}

/* ---- One delivery ---------------------------------------------------------------------------- */

enum facts_column {
    FACTS_ID,
    FACTS_MODE,
    FACTS_START,
    FACTS_CHECKPOINT,
    FACTS_SETTLED,
    FACTS_LEASED,
    FACTS_LEASE_ENDED,
    FACTS_NODE,
    FACTS_SINCE,
    FACTS_RETRY_KIND,
    FACTS_RETRY_ATTEMPTS,
    FACTS_RETRY_NEXT,
    FACTS_RETRY_STORY,
    FACTS_RETRY_CAUSE,
    FACTS_DEAD_ID,
    FACTS_DEAD_ATTEMPTS,
    FACTS_DEAD_STORY,
    FACTS_DEAD_CAUSE,
    FACTS_RETRY_DELIVERIES,
    FACTS_DEAD_DELIVERIES,
    FACTS_KEPT,
    FACTS_KEPT_ATTEMPTS,
    FACTS_KEPT_STORY,
    FACTS_KEPT_CAUSE,
    FACTS_KEPT_DELIVERIES,
    FACTS_LEASE_TIMES,
    FACTS_CANCEL_ASKED,
    FACTS_CANCELLED_AT,
    FACTS_CANCELLED_BY,
    FACTS_CANCEL_REASON
};

/* What is kept of a delivery that is over: its dead letter, or the outcome of one that failed
 * first. Answers the story. */
static struct text read_over(const PGresult *result, int row, struct delivery_facts *facts)
{
    bool dead = facts->dead_id >= 0;
    facts->attempts =
        (int32_t)result_int8(result, row, dead ? FACTS_DEAD_ATTEMPTS : FACTS_KEPT_ATTEMPTS, 0);
    facts->cause = cause_of(result_text(result, row, dead ? FACTS_DEAD_CAUSE : FACTS_KEPT_CAUSE));
    facts->deliveries =
        (int32_t)result_int8(result, row, dead ? FACTS_DEAD_DELIVERIES : FACTS_KEPT_DELIVERIES, -1);
    return result_text(result, row, dead ? FACTS_DEAD_STORY : FACTS_KEPT_STORY);
}

/* Is it in a lease, also in one that has ended? */
static bool is_lent(const struct delivery_facts *facts)
{
    return facts->leased || facts->holder.ended;
}

/* What the row in retries says, or what is over if there is none. Answers the story. */
static struct text read_story(struct postgres_engine *engine, const PGresult *result, int row,
                              struct delivery_facts *facts)
{
    enum retry_kind kind = (enum retry_kind)result_int8(result, row, FACTS_RETRY_KIND, RETRY_NONE);
    int64_t next_us = result_time(result, row, FACTS_RETRY_NEXT, -1);
    facts->waiting = (kind == RETRY_WAITING || kind == RETRY_ALONE) && next_us != 0;
    facts->held = kind == RETRY_HELD || (kind == RETRY_WAITING && next_us == 0);
    facts->blocked = kind == RETRY_BLOCKED;
    facts->leased = facts->leased || (kind == RETRY_LEASED && !facts->holder.ended);
    facts->next_attempt_us = facts->waiting ? skew_local(engine, next_us) : -1;
    facts->dead_id = result_int8(result, row, FACTS_DEAD_ID, -1);
    bool over = facts->dead_id >= 0 || result_bool(result, row, FACTS_KEPT);
    bool lent = is_lent(facts);
    if (over && kind == RETRY_NONE && !lent) {
        return read_over(result, row, facts);
    }
    if (kind != RETRY_NONE) {
        facts->deliveries = (int32_t)result_int8(result, row, FACTS_RETRY_DELIVERIES, -1);
    } else if (lent) {
        facts->deliveries = (int32_t)result_int8(result, row, FACTS_LEASE_TIMES, -1);
    }
    facts->attempts = (int32_t)result_int8(result, row, FACTS_RETRY_ATTEMPTS, 0);
    facts->cause = cause_of(result_text(result, row, FACTS_RETRY_CAUSE));
    return result_text(result, row, FACTS_RETRY_STORY);
}

static struct delivery_facts read_facts(struct postgres_engine *engine, const PGresult *result,
                                        int row, int64_t position)
{
    bool shared = result_int8(result, row, FACTS_MODE, 0) == HF_MODE_SHARED;
    int64_t checkpoint = result_int8(result, row, FACTS_CHECKPOINT, 0);
    struct delivery_facts facts = {
        .start = result_int8(result, row, FACTS_START, 0),
        .checkpoint = shared ? -1 : checkpoint,
        .cursor = shared ? checkpoint : -1,
        .settled = result_bool(result, row, FACTS_SETTLED),
        .leased = result_bool(result, row, FACTS_LEASED),
        .deliveries = shared && position > checkpoint ? 0 : -1,
        .holder = {.ended = result_bool(result, row, FACTS_LEASE_ENDED),
                   .since_us = read_local(engine, result, row, FACTS_SINCE)},
        .cancel_asked_us = read_local(engine, result, row, FACTS_CANCEL_ASKED),
        .cancelled_at_us = read_local(engine, result, row, FACTS_CANCELLED_AT),
    };
    snprintf(facts.holder.node, sizeof facts.holder.node, "%" TEXT_PRI,
             TEXT_ARG(result_text(result, row, FACTS_NODE)));
    return facts;
}

/* In some of the subscriptions. */
static hf_status facts_together(struct engine *engine, const struct delivery_query *query,
                                const int64_t *ids, size_t count, delivery_facts_fn found,
                                void *ctx, bool *ret_stop)
{
    struct postgres_engine *self = postgres_of(engine);
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_DELIVERY_FACTS);
    param_int4(params, self->namespace_id);
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, ids[i]);
    }
    param_uuid(params, query->id);
    param_int8(params, query->position);
    param_int8(params, query->hash);
    param_local(params, query->now_us);
    param_uuid(params, self->token);
    int rows = ask(&lookup, FACTS_CHECKPOINT) ? lookup.rows : 0;
    for (int row = 0; row < rows && !*ret_stop; row++) {
        const PGresult *result = lookup.result;
        struct delivery_facts facts = read_facts(self, result, row, query->position);
        struct text story = read_story(self, result, row, &facts);
        facts.cancelled_by = result_text(result, row, FACTS_CANCELLED_BY);
        facts.cancel_reason = result_text(result, row, FACTS_CANCEL_REASON);
        *ret_stop = found(result_int8(result, row, FACTS_ID, 0), &facts, story, ctx) != 0;
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_delivery_facts_each(struct engine *engine, const struct delivery_query *query,
                                       const int64_t *ids, size_t count, delivery_facts_fn found,
                                       void *ctx)
{
    hf_status status = HF_OK;
    bool stop = false;
    for (size_t i = 0; i < count && !status && !stop; i += FACTS_TOGETHER_MAX) {
        size_t some = count - i < FACTS_TOGETHER_MAX ? count - i : FACTS_TOGETHER_MAX;
        status = facts_together(engine, query, &ids[i], some, found, ctx, &stop);
    }
    return status;
}
