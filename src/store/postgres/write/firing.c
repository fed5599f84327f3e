/*
 * firing.c - firing schedules, as a bundle and as a verb. See
 * sql/postgres/functions/timers/timers.sql for what makes a planned time fire once.
 *
 * A thousand schedules may be due in the same second, and a statement for each would make the last
 * one late. So change_fire takes columns as arrays, one element for each firing, and one for each
 * event with the number of its firing. The statement fails as a whole or answers each firing for
 * itself: that another process was first is no failure. The verb is the same for one.
 */
#include "base/err.h"
#include "store/common/change.h"
#include "store/postgres/wire/bundle.h"
#include "store/postgres/wire/row.h"
#include "store/timers.h"

/* ---- Parameters ------------------------------------------------------------------------------ */

enum fire_column {
    FIRE_SCHEDULE,
    FIRE_GENERATION,
    FIRE_WAITED,
    FIRE_NEXT,
    FIRE_SKIPPED_FIRST,
    FIRE_SKIPPED_LAST,
    FIRE_COLUMNS
};

static void element_timer_time(struct params *params, int64_t us)
{
    if (us == STORE_NEVER) {
        element_null(params);
    } else {
        element_time(params, us);
    }
}

static void put_element(struct params *params, const struct fire *fire, enum fire_column column)
{
    switch (column) {
    case FIRE_SCHEDULE:
        element_uuid(params, fire->schedule_id);
        break;
    case FIRE_GENERATION:
        element_int8(params, fire->generation);
        break;
    case FIRE_WAITED:
        element_timer_time(params, fire->waited_us);
        break;
    case FIRE_NEXT:
        element_timer_time(params, fire->next_us);
        break;
    case FIRE_SKIPPED_FIRST:
        element_timer_time(params, fire->skipped_first_us);
        break;
    case FIRE_SKIPPED_LAST:
        element_timer_time(params, fire->skipped_last_us);
        break;
    case FIRE_COLUMNS:
        break;
    }
}

/* Of each event: of which firing it is, from 1, and for when it was planned. */
static void fill_plans(struct params *params, change_walk_fn next, void *ctx)
{
    size_t events = events_count(next, ctx);
    int32_t number = 0;
    param_array(params, PARAM_INT4, events);
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        number++;
        for (size_t i = 0; i < ((const struct fire *)at)->count; i++) {
            element_int4(params, number);
        }
    }
    param_array(params, PARAM_TIME, events);
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        const struct fire *fire = (const struct fire *)at;
        for (size_t i = 0; i < fire->count; i++) {
            element_time(params, fire->planned_us[i]);
        }
    }
}

/* All firings are of one node, and happen now as the first one does. */
static void firings_fill(struct postgres_engine *engine, struct params *params, change_walk_fn next,
                         void *ctx)
{
    static const enum param_type types[FIRE_COLUMNS] = {
        [FIRE_SCHEDULE] = PARAM_UUID,      [FIRE_GENERATION] = PARAM_INT8,
        [FIRE_WAITED] = PARAM_TIME,        [FIRE_NEXT] = PARAM_TIME,
        [FIRE_SKIPPED_FIRST] = PARAM_TIME, [FIRE_SKIPPED_LAST] = PARAM_TIME,
    };
    struct change *first = next(ctx, NULL);
    const struct fire *fire = (const struct fire *)first;
    size_t firings = 0;
    for (struct change *at = first; at; at = next(ctx, at)) {
        firings++;
    }
    params->shift_us = skew_shift(engine, first->now_us);
    param_int4(params, engine->namespace_id);
    param_bool(params, fire->by_hand);
    param_text(params, fire->node);
    param_local(params, first->now_us);
    param_int4(params, STORE_RUNS_KEPT);
    for (enum fire_column column = 0; column < FIRE_COLUMNS; column++) {
        param_array(params, types[column], firings);
        for (struct change *at = first; at; at = next(ctx, at)) {
            put_element(params, (const struct fire *)at, column);
        }
    }
    fill_plans(params, next, ctx);
    event_columns_fill(params, NEW_COLUMNS_FIRE, next, ctx);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Taken in the order of the firings. */
struct answers {
    struct result_array ours;
    struct result_array positions;
    struct result_array duplicates;
};

static hf_status answers_begin(const PGresult *result, struct answers *ret_answers)
{
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        *ret_answers = (struct answers){
            .ours = result_array(result, 0, 2),
            .positions = result_array(result, 0, 3),
            .duplicates = result_array(result, 0, 4),
        };
    }
    return status;
}

static hf_status answers_take(struct answers *answers, struct change *change)
{
    struct fire *fire = (struct fire *)change;
    if (answers->ours.count == 0 || answers->positions.count < fire->count ||
        answers->duplicates.count < fire->count) {
        return fail(HF_CORRUPT, "the server answered for fewer firings than it was asked for");
    }
    bool ours = array_int8(&answers->ours, 0) != 0;
    answers->ours.count--;
    for (size_t i = 0; i < fire->count; i++) {
        struct new_event *event = &fire->events[i];
        int64_t position = array_int8(&answers->positions, 0);
        bool duplicate = array_int8(&answers->duplicates, 0) != 0;
        answers->positions.count--;
        answers->duplicates.count--;
        if (ours) {
            event->position = position;
            event->duplicate = duplicate;
            event->key_version = -1;
        }
    }
    return ours ? HF_OK
                : fail(HF_STALE,
                       "another process fires the schedule or has done so, or it was changed");
}

/* ---- Many, and one --------------------------------------------------------------------------- */

/* One by hand is no member: it waits for a process that is at its schedule. */
static bool firings_admit(const struct postgres_engine *engine, const struct change *change,
                          int64_t now_us)
{
    (void)engine;
    (void)now_us;
    return change->kind == CHANGE_FIRE && !((const struct fire *)change)->by_hand;
}

static void firings_take(const PGresult *result, change_walk_fn next, void *ctx)
{
    struct answers answers;
    hf_status status = answers_begin(result, &answers);
    for (struct change *at = next(ctx, NULL); at; at = next(ctx, at)) {
        change_draft(at, status == HF_OK ? answers_take(&answers, at) : status);
    }
}

const struct bundle postgres_bundle_fire = {
    .query = POSTGRES_QUERY_CHANGE_FIRE,
    .admits = firings_admit,
    .fill = firings_fill,
    .take = firings_take,
};

static hf_status fire_fill(struct postgres_engine *engine, struct params *params,
                           struct change *change)
{
    firings_fill(engine, params, change_walk_one, change);
    return HF_OK;
}

static hf_status fire_read(struct postgres_engine *engine, struct change *change,
                           const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct answers answers;
    hf_status status = answers_begin(result, &answers);
    if (!status) {
        status = answers_take(&answers, change);
    }
    *ret_ring = status == HF_OK;
    return status;
}

const struct verb postgres_verb_fire = {
    .query = POSTGRES_QUERY_CHANGE_FIRE,
    .fill = fire_fill,
    .read = fire_read,
};
