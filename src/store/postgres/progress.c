/*
 * progress.c - how far a subscription is, and where one event is in it.
 *
 * Nothing here scans the log. How much is left is the difference of two positions; how much waits
 * is counted in an index; what is in flight is summed over the leases, of which there is one per
 * batch. Each answer is one statement, so its numbers belong together; only the head of the log and
 * whether the owner is alive are looked at beside it, because neither is kept in rows.
 *
 * The journal that checkpoints are appended to is emptied from time to time, which even older
 * snapshots notice (holdfast.rotate). Then a partition has no checkpoint, and the statement is run
 * again: the newest rows are on the other side.
 */
#include "base/err.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

#define AGAIN_MAX 10 /* rotations in a row */

/* Runs a query whose column `checkpoint` must not be NULL. The parameters are filled in. */
static hf_status ask(struct postgres_engine *engine, struct session *session,
                     enum postgres_query query, int checkpoint, int64_t subscription_id,
                     PGresult **ret_result)
{
    hf_status status = HF_OK;
    PGresult *result = NULL;
    for (int i = 0; status == HF_OK && i < AGAIN_MAX; i++) {
        PQclear(result);
        status = session_query(session, query, &result);
        if (status != HF_OK || PQntuples(result) == 0 || !result_is_null(result, 0, checkpoint)) {
            break;
        }
    }
    session_give(engine, session);
    if (status != HF_OK) {
        return status;
    }
    if (PQntuples(result) == 0) {
        PQclear(result);
        return fail(HF_NOTFOUND, "there is no subscription with id %lld",
                    (long long)subscription_id);
    }
    if (result_is_null(result, 0, checkpoint)) {
        PQclear(result);
        return fail(HF_UNAVAILABLE, "the journal of checkpoints keeps moving: try again");
    }
    *ret_result = result;
    return HF_OK;
}

/* ---- Progress -------------------------------------------------------------------------------- */

enum progress_column {
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
    PROGRESS_OWNER_ALIVE
};

static void read_owner(struct postgres_engine *engine, const PGresult *result,
                       struct progress *progress)
{
    uint8_t owner[STORE_TOKEN_BYTES];
    progress->owned = result_uuid(result, 0, PROGRESS_OWNER, owner);
    if (progress->owned) {
        progress->owner_alive = memcmp(owner, engine->token, sizeof owner) == 0 ||
                                result_bool(result, 0, PROGRESS_OWNER_ALIVE);
        snprintf(progress->owner_name, sizeof progress->owner_name, "%" TEXT_PRI,
                 TEXT_ARG(result_text(result, 0, PROGRESS_OWNER_NAME)));
    }
}

static void read_progress(const PGresult *result, struct progress *progress)
{
    int64_t checkpoint = result_int8(result, 0, PROGRESS_CHECKPOINT, 0);
    bool shared = result_int8(result, 0, PROGRESS_MODE, 0) == HF_MODE_SHARED;
    progress->checkpoint = checkpoint;
    progress->cursor = -1;
    progress->checkpoint_at_us = result_time(result, 0, PROGRESS_CHECKPOINT_AT, -1);
    progress->has_event_id =
        result_uuid(result, 0, PROGRESS_EVENT_ID, progress->checkpoint_event_id);
    progress->head = result_int8(result, 0, PROGRESS_HEAD, 0);
    progress->retrying = result_int8(result, 0, PROGRESS_RETRYING, 0);
    progress->held = result_int8(result, 0, PROGRESS_HELD, 0);
    progress->blocked = result_int8(result, 0, PROGRESS_BLOCKED, 0);
    progress->dead = result_int8(result, 0, PROGRESS_DEAD, 0);
    progress->oldest_waiting_us = result_time(result, 0, PROGRESS_OLDEST_AT, -1);
    if (shared) {
        int64_t lowest = result_int8(result, 0, PROGRESS_LOWEST, INT64_MAX);
        progress->cursor = checkpoint;
        progress->checkpoint = lowest <= checkpoint ? lowest - 1 : checkpoint;
        progress->in_flight = result_int8(result, 0, PROGRESS_IN_FLIGHT, 0);
    }
}

hf_status postgres_progress(struct engine *engine, int64_t subscription_id, int64_t now_us,
                            struct progress *ret_progress)
{
    (void)now_us; /* whether an owner is alive is no question of time here */
    struct postgres_engine *self = postgres_of(engine);
    struct session *session;
    hf_status status = session_take(self, &session);
    if (status != HF_OK) {
        return status;
    }
    struct params *params = session_params(session);
    param_int4(params, self->namespace_id);
    param_int8(params, subscription_id);
    PGresult *result;
    status =
        ask(self, session, POSTGRES_QUERY_PROGRESS, PROGRESS_CHECKPOINT, subscription_id, &result);
    if (status != HF_OK) {
        return status;
    }
    struct progress progress = {0};
    read_progress(result, &progress);
    read_owner(self, result, &progress);
    PQclear(result);
    *ret_progress = progress;
    return HF_OK;
}

/* ---- Gaps ------------------------------------------------------------------------------------ */

enum gap_column { GAP_CHECKPOINT, GAP_MISSING, GAP_COUNT, GAP_HOLDERS, GAP_PID };

hf_status postgres_gaps(struct engine *engine, int64_t subscription_id, struct gap_facts *ret_facts)
{
    struct postgres_engine *self = postgres_of(engine);
    struct session *session;
    hf_status status = session_take(self, &session);
    if (status != HF_OK) {
        return status;
    }
    struct params *params = session_params(session);
    param_int4(params, self->namespace_id);
    param_int8(params, subscription_id);
    param_int8(params, STORE_GAPS_MAX);
    PGresult *result;
    status = ask(self, session, POSTGRES_QUERY_GAPS, GAP_CHECKPOINT, subscription_id, &result);
    if (status != HF_OK) {
        return status;
    }
    struct gap_facts facts = {
        .missing = result_int8(result, 0, GAP_MISSING, 0),
        .count = result_int8(result, 0, GAP_COUNT, 0),
        .pid = result_int8(result, 0, GAP_HOLDERS, 0) > 0 ? result_int8(result, 0, GAP_PID, -1) : 0,
    };
    PQclear(result);
    if (facts.missing != 0 && facts.pid != 0) {
        status = postgres_holders(self, &facts);
    }
    if (status == HF_OK) {
        *ret_facts = facts;
    }
    return status;
}

/* ---- One delivery ---------------------------------------------------------------------------- */

enum facts_column {
    FACTS_MODE,
    FACTS_START,
    FACTS_CHECKPOINT,
    FACTS_SETTLED,
    FACTS_LEASED,
    FACTS_RETRY_KIND,
    FACTS_RETRY_ATTEMPTS,
    FACTS_RETRY_NEXT,
    FACTS_RETRY_STORY,
    FACTS_DEAD_ID,
    FACTS_DEAD_ATTEMPTS,
    FACTS_DEAD_STORY
};

/* Column `kind` of holdfast.retries. */
enum retry_kind {
    RETRY_NONE = 0, /* no row */
    RETRY_WAITING = 1,
    RETRY_HELD = 2,
    RETRY_BLOCKED = 3,
    RETRY_LEASED = 4,
    RETRY_ALONE = 5 /* waiting, to be handed out alone (shared) */
};

/* What the row in retries says, or the dead letter if there is none. Answers the story. */
static struct text read_story(struct postgres_engine *engine, const PGresult *result,
                              struct delivery_facts *facts)
{
    enum retry_kind kind = (enum retry_kind)result_int8(result, 0, FACTS_RETRY_KIND, RETRY_NONE);
    facts->waiting = kind == RETRY_WAITING || kind == RETRY_ALONE;
    facts->held = kind == RETRY_HELD;
    facts->blocked = kind == RETRY_BLOCKED;
    facts->leased = facts->leased || kind == RETRY_LEASED;
    facts->next_attempt_us =
        facts->waiting ? skew_local(engine, result_time(result, 0, FACTS_RETRY_NEXT, -1)) : -1;
    facts->dead_id = result_int8(result, 0, FACTS_DEAD_ID, -1);
    if (facts->dead_id >= 0 && kind == RETRY_NONE && !facts->leased) {
        facts->attempts = (int32_t)result_int8(result, 0, FACTS_DEAD_ATTEMPTS, 0);
        return result_text(result, 0, FACTS_DEAD_STORY);
    }
    facts->attempts = (int32_t)result_int8(result, 0, FACTS_RETRY_ATTEMPTS, 0);
    return result_text(result, 0, FACTS_RETRY_STORY);
}

hf_status postgres_delivery_facts(struct engine *engine, int64_t subscription_id,
                                  const uint8_t id[16], int64_t position, int64_t hash,
                                  struct arena *arena, struct delivery_facts *ret_facts,
                                  struct text *ret_attempts_json)
{
    struct postgres_engine *self = postgres_of(engine);
    struct session *session;
    hf_status status = session_take(self, &session);
    if (status != HF_OK) {
        return status;
    }
    struct params *params = session_params(session);
    param_int4(params, self->namespace_id);
    param_int8(params, subscription_id);
    param_uuid(params, id);
    param_int8(params, position);
    param_int8(params, hash);
    PGresult *result;
    status = ask(self, session, POSTGRES_QUERY_DELIVERY_FACTS, FACTS_CHECKPOINT, subscription_id,
                 &result);
    if (status != HF_OK) {
        return status;
    }
    bool shared = result_int8(result, 0, FACTS_MODE, 0) == HF_MODE_SHARED;
    int64_t checkpoint = result_int8(result, 0, FACTS_CHECKPOINT, 0);
    struct delivery_facts facts = {
        .start = result_int8(result, 0, FACTS_START, 0),
        .checkpoint = shared ? -1 : checkpoint,
        .cursor = shared ? checkpoint : -1,
        .settled = result_bool(result, 0, FACTS_SETTLED),
        .leased = result_bool(result, 0, FACTS_LEASED),
    };
    struct text story = arena_text(arena, read_story(self, result, &facts));
    PQclear(result);
    status = arena_status(arena);
    if (status == HF_OK) {
        *ret_facts = facts;
        *ret_attempts_json = story;
    }
    return status;
}
