/*
 * retention.c - the months of the log that may go. See sql/postgres/functions/timers/retention.sql,
 * which decides and does everything but one thing: detaching a month, which no function can do.
 *
 * A step that needs that answers the command. It is run on a session of the pool, outside of any
 * transaction:
 *
 *     DETACH ... CONCURRENTLY   marks the month as being detached, so that a statement that is
 *                               planned from now on does not see it; waits for those that do;
 *                               ends it. It needs no lock that a publisher or reader minds.
 *     DETACH ... FINALIZE       ends what such a command has left that was interrupted.
 *
 * Both wait for transactions that still use the log, up to the session's lock_timeout. If these
 * last longer the answer is HF_BUSY, the month stays half detached, and the next step, in whatever
 * process, finds it. No other statement waits behind them meanwhile.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define COMMAND_MS 60000 /* the longest that one command may take */

static void copy_text(char *to, size_t bytes, struct text text)
{
    snprintf(to, bytes, "%" TEXT_PRI, TEXT_ARG(text));
}

hf_status postgres_retention_plan(struct engine *engine, struct text name, int64_t now_us,
                                  struct retention_plan *ret_plan)
{
    struct pg_lookup lookup;
    (void)now_us; /* months go by the clock of the server, which puts events into them */
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_RETENTION_PLAN);
    param_text(params, name);
    param_int4(params, postgres_of(engine)->namespace_id);
    if (pg_lookup_run(&lookup) && lookup.rows == 0) {
        lookup.status = fail(HF_NOTFOUND, "there is no namespace %" TEXT_PRI, TEXT_ARG(name));
    }
    if (lookup.rows > 0) {
        const PGresult *result = lookup.result;
        *ret_plan = (struct retention_plan){
            .due = result_bool(result, 0, 0),
            .through = result_int8(result, 0, 1, 0),
            .events = result_int8(result, 0, 2, 0),
            .bytes = result_int8(result, 0, 3, 0),
            .by_size = result_bool(result, 0, 4),
            .drops = result_bool(result, 0, 5),
        };
        copy_text(ret_plan->lagging, sizeof ret_plan->lagging, result_text(result, 0, 6));
    }
    return pg_lookup_end(&lookup);
}

static hf_status retain_fill(struct postgres_engine *engine, struct params *params,
                             struct change *change)
{
    const struct retain *retain = (const struct retain *)change;
    param_text(params, retain->name);
    param_int4(params, engine->namespace_id);
    param_int8(params, retain->through);
    if (retain->every_ms > 0) {
        param_int8(params, retain->every_ms);
    } else {
        param_null(params, PARAM_INT8);
    }
    param_int8(params, STORE_RETAIN_IDS);
    return HF_OK;
}

static hf_status retain_read(struct postgres_engine *engine, struct change *change,
                             const PGresult *result, bool *ret_ring)
{
    (void)engine;
    struct retain *retain = (struct retain *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (status) {
        return status;
    }
    retain->ret_taken = result_bool(result, 0, 2);
    retain->ret_more = result_bool(result, 0, 3);
    copy_text(retain->ret_command, sizeof retain->ret_command, result_text(result, 0, 4));
    retain->ret_events = result_int8(result, 0, 5, 0);
    retain->ret_bytes = result_int8(result, 0, 6, 0);
    copy_text(retain->ret_dropped_name, sizeof retain->ret_dropped_name, result_text(result, 0, 7));
    retain->ret_dropped_from = result_int8(result, 0, 8, 0);
    retain->ret_dropped_through = result_int8(result, 0, 9, 0);
    *ret_ring = retain->ret_dropped_name[0] != '\0';
    return HF_OK;
}

const struct verb postgres_verb_retain = {
    .query = POSTGRES_QUERY_CHANGE_RETAIN,
    .fill = retain_fill,
    .read = retain_read,
};

/* What the last failure of a command means. A month that another session detaches now is
 * as good as one that is in use: the next step looks again. */
static hf_status judge(struct session *session, hf_status status)
{
    bool passing = postgres_is_passing(session->sqlstate) ||
                   strcmp(session->sqlstate, "55000") == 0 || /* a detach is pending */
                   strcmp(session->sqlstate, "42P01") == 0 || /* it is gone */
                   strcmp(session->sqlstate, "42809") == 0;   /* it is no partition any more */
    return !status || !passing ? status : fail(HF_BUSY, "the log is in use: %s", err_message());
}

hf_status postgres_retain_command(struct engine *base, const char *command,
                                  struct deadline deadline)
{
    struct postgres_engine *engine = postgres_of(base);
    struct session *session = NULL;
    (void)deadline; /* of the step; interrupting this one would only make it be done twice */
    HF_POINT("before_detach");
    hf_status status = session_take(engine, &session);
    if (status) {
        return status;
    }
    session->deadline = deadline_after_ms(COMMAND_MS);
    if (!session_has(session, SESSION_POOLED)) { /* else others would get the settings */
        status = session_script(session, postgres_queries[POSTGRES_QUERY_RETAIN_DEADLINE].sql);
    }
    if (!status) {
        session->sqlstate[0] = '\0';
        status = judge(session, session_script(session, command));
    }
    session_close(session); /* with its settings */
    session_give(engine, session);
    HF_POINT("after_detach");
    return status;
}
