/*
 * settle.c - settling: what became of deliveries of a partition, or of a lease.
 *
 * Both are a call of one function with the outcomes as arrays, an element per outcome, so that a
 * settle is one round trip however many deliveries it settles. The function checks that the
 * deliveries are ours (owner and epoch, or the lease's token) while it holds the lock of that row,
 * then writes everything; a refused settle has written nothing.
 *
 * A settle may be lost with the server's memory if it is relaxed: then the work is done again, or,
 * for a transactional handler, found to be done (tx.c).
 */
#include "base/err.h"
#include "base/point.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

/* ---- Outcomes as parameters ------------------------------------------------------------------ */

static bool is_waiting(const struct outcome *outcome)
{
    return outcome->kind == OUTCOME_RETRY;
}

static void fill_numbers(struct params *params, const struct outcome *outcomes, size_t count)
{
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        element_int4(params, (int32_t)outcomes[i].kind);
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, outcomes[i].position);
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, (int64_t)outcomes[i].lane);
    }
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].attempts < 0) {
            element_null(params);
        } else {
            element_int4(params, outcomes[i].attempts);
        }
    }
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        element_int4(params, outcomes[i].uncounted);
    }
}

/* What is known of the last failed attempts: causes, unit_firsts, unit_events. Few settles have
 * any, so that most send no arrays. */
static void fill_causes(struct params *params, const struct outcome *outcomes, size_t count)
{
    bool failed = false;
    bool units = false;
    for (size_t i = 0; i < count; i++) {
        failed |= outcomes[i].cause != CAUSE_NONE;
        units |= outcomes[i].unit.events > 1;
    }
    if (failed) {
        param_array(params, PARAM_TEXT, count);
    } else {
        param_no_array(params, PARAM_TEXT);
    }
    for (size_t i = 0; failed && i < count; i++) {
        element_text(params, cause_name(outcomes[i].cause));
    }
    if (!units) {
        param_no_array(params, PARAM_INT8);
        param_no_array(params, PARAM_INT4);
        return;
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].unit.events > 1) {
            element_int8(params, outcomes[i].unit.first);
        } else {
            element_null(params);
        }
    }
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].unit.events > 1) {
            element_int4(params, outcomes[i].unit.events);
        } else {
            element_null(params);
        }
    }
}

/* kinds, positions, lanes, attempts, uncounted, stories, next, reasons, errors, causes,
 * unit_firsts, unit_events: twelve arrays. */
static void fill_outcomes(struct params *params, const struct outcome *outcomes, size_t count)
{
    fill_numbers(params, outcomes, count);
    param_array(params, PARAM_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        element_text(params, outcomes[i].attempts_json);
    }
    param_array(params, PARAM_TIME, count);
    for (size_t i = 0; i < count; i++) {
        if (is_waiting(&outcomes[i]) && outcomes[i].next_attempt_us == 0) {
            element_time(params, 0); /* no clock's: the same whichever process stores it */
        } else if (is_waiting(&outcomes[i])) {
            element_local(params, outcomes[i].next_attempt_us);
        } else {
            element_null(params);
        }
    }
    param_array(params, PARAM_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        element_text(params, outcomes[i].reason);
    }
    param_array(params, PARAM_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        element_text(params, outcomes[i].error);
    }
    fill_causes(params, outcomes, count);
}

/* The pause that comes with the settle, if there is one. */
static void fill_pause(struct params *params, const struct pause_request *request)
{
    param_text(params, request->by);
    param_text(params, request->reason);
}

static hf_status check_count(size_t count)
{
    if (count > STORE_OUTCOMES_MAX) {
        return fail(HF_INVALID, "%zu outcomes in one settle; the limit is %d", count,
                    STORE_OUTCOMES_MAX);
    }
    return HF_OK;
}

/* ---- Of a partition -------------------------------------------------------------------------- */

static hf_status settle_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    const struct settle *settle = (const struct settle *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, settle->subscription_id);
    param_int4(params, settle->partition);
    param_uuid(params, engine->token);
    param_int8(params,
               partition_epoch(engine, settle->subscription_id, settle->partition, settle->epoch));
    param_int8(params, settle->generation);
    param_int8(params, settle->checkpoint);
    param_uuid(params, settle->last_event_id);
    param_local(params, change->now_us);
    fill_outcomes(params, settle->outcomes, settle->count);
    param_array(params, PARAM_BOOL, settle->count);
    for (size_t i = 0; i < settle->count; i++) {
        element_bool(params, settle->outcomes[i].waited);
    }
    fill_pause(params, &settle->pause);
    HF_POINT("mid_settle");
    return check_count(settle->count);
}

static hf_status settle_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct settle *settle = (struct settle *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    *ret_ring = !text_is_absent(settle->pause.reason);
    settle->ret_generation = result_int8(result, 0, 2, 0);
    struct result_array busy = result_array(result, 0, 3);
    for (size_t i = 0; i < settle->count; i++) {
        struct outcome *outcome = &settle->outcomes[i];
        bool told = i < busy.count && array_int8(&busy, 0) != 0;
        outcome->ret_lane_busy = told && outcome->kind != OUTCOME_HELD;
        outcome->ret_due = told && outcome->kind == OUTCOME_HELD;
    }
    return HF_OK;
}

const struct verb postgres_verb_settle = {
    .query = POSTGRES_QUERY_CHANGE_SETTLE,
    .fill = settle_fill,
    .read = settle_read,
};

static size_t count_held(const struct mark *marks, size_t count)
{
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        held += marks[i].held_count;
    }
    return held;
}

/* The held ones of all marks: their partitions, positions and lanes. */
static void fill_held(struct params *params, const struct mark *marks, size_t count, size_t held)
{
    param_array(params, PARAM_INT4, held);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < marks[i].held_count; j++) {
            element_int4(params, marks[i].partition);
        }
    }
    param_array(params, PARAM_INT8, held);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < marks[i].held_count; j++) {
            element_int8(params, marks[i].held[j].position);
        }
    }
    param_array(params, PARAM_INT8, held);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < marks[i].held_count; j++) {
            element_int8(params, (int64_t)marks[i].held[j].lane);
        }
    }
}

static hf_status checkpoints_fill(struct postgres_engine *engine, struct params *params,
                                  struct change *change)
{
    const struct checkpoints *checkpoints = (const struct checkpoints *)change;
    const struct mark *marks = checkpoints->marks;
    size_t count = checkpoints->count;
    param_int4(params, engine->namespace_id);
    param_int8(params, checkpoints->subscription_id);
    param_uuid(params, engine->token);
    param_int8(params, checkpoints->generation);
    param_array(params, PARAM_INT4, count);
    for (size_t i = 0; i < count; i++) {
        element_int4(params, marks[i].partition);
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, partition_epoch(engine, checkpoints->subscription_id,
                                             marks[i].partition, marks[i].epoch));
    }
    param_array(params, PARAM_INT8, count);
    for (size_t i = 0; i < count; i++) {
        element_int8(params, marks[i].checkpoint);
    }
    param_array(params, PARAM_UUID, count);
    for (size_t i = 0; i < count; i++) {
        element_uuid(params, marks[i].last_event_id);
    }
    param_local(params, change->now_us);
    size_t held = count_held(marks, count);
    fill_held(params, marks, count, held);
    HF_POINT("mid_settle");
    return check_count(held);
}

static hf_status checkpoints_read(struct postgres_engine *engine, struct change *change,
                                  const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring;
    struct checkpoints *checkpoints = (struct checkpoints *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    checkpoints->ret_generation = result_int8(result, 0, 2, 0);
    struct result_array stale = result_array(result, 0, 3);
    for (size_t i = 0; i < checkpoints->count; i++) {
        checkpoints->marks[i].ret_stale = i < stale.count && array_int8(&stale, 0) != 0;
    }
    struct result_array due = result_array(result, 0, 4);
    size_t at = 0;
    for (size_t i = 0; i < checkpoints->count; i++) {
        for (size_t j = 0; j < checkpoints->marks[i].held_count; j++, at++) {
            checkpoints->marks[i].held[j].ret_due = at < due.count && array_int8(&due, 0) != 0;
        }
    }
    return HF_OK;
}

const struct verb postgres_verb_checkpoints = {
    .query = POSTGRES_QUERY_CHANGE_CHECKPOINTS,
    .fill = checkpoints_fill,
    .read = checkpoints_read,
};

/* ---- Of a lease ------------------------------------------------------------------------------ */

static hf_status settle_lease_fill(struct postgres_engine *engine, struct params *params,
                                   struct change *change)
{
    const struct settle_lease *settle = (const struct settle_lease *)change;
    param_int4(params, engine->namespace_id);
    param_int8(params, settle->subscription_id);
    param_uuid(params, settle->lease);
    param_bool(params, settle->all);
    param_bool(params, settle->release_all);
    if (settle->extend_us > 0) {
        param_local(params, settle->extend_us);
    } else {
        param_null(params, PARAM_TIME);
    }
    param_local(params, change->now_us);
    size_t count = settle->all || settle->release_all ? 0 : settle->count;
    fill_outcomes(params, settle->outcomes, count);
    fill_pause(params, &settle->pause);
    HF_POINT("mid_settle");
    return check_count(count);
}

static hf_status settle_lease_read(struct postgres_engine *engine, struct change *change,
                                   const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct settle_lease *settle = (struct settle_lease *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    *ret_ring = result_bool(result, 0, 2);
    for (size_t i = 0; i < settle->count; i++) {
        settle->outcomes[i].ret_lane_busy = false;
    }
    return HF_OK;
}

const struct verb postgres_verb_settle_lease = {
    .query = POSTGRES_QUERY_CHANGE_SETTLE_LEASE,
    .fill = settle_lease_fill,
    .read = settle_lease_read,
    .sets_commit = true,
};
