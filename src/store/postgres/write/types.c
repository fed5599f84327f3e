/*
 * types.c - the index on types of a namespace: building and dropping it. See
 * sql/postgres/functions/log/types.sql, which decides everything; what no function can do is run
 * here, outside of a transaction:
 *
 *     CREATE INDEX CONCURRENTLY   reads a month while publishers write into it, and waits for
 *                                 transactions that are older than its steps
 *     DROP INDEX CONCURRENTLY     the same without an end for those who read by it
 *
 * Either may take long, and the caller waits for it: interrupting it would only leave an index that
 * the next step has to drop.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

#define COMMAND_MS 86400000 /* a day: the month of a large log */

static hf_status steps_fill(struct postgres_engine *engine, struct params *params,
                            struct change *change)
{
    param_text(params, ((const struct type_steps *)change)->name);
    param_int4(params, engine->namespace_id);
    return HF_OK;
}

static hf_status steps_read(struct postgres_engine *engine, struct change *change,
                            const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)ret_ring;
    struct type_steps *steps = (struct type_steps *)change;
    hf_status status = postgres_answer(result, 0, 0);
    if (!status) {
        struct text command = result_text(result, 0, 3);
        steps->ret_more = result_bool(result, 0, 2);
        snprintf(steps->ret_command, sizeof steps->ret_command, "%" TEXT_PRI, TEXT_ARG(command));
    }
    return status;
}

const struct verb postgres_verb_type_steps = {
    .query = POSTGRES_QUERY_CHANGE_TYPE_STEPS,
    .fill = steps_fill,
    .read = steps_read,
};

/* What the last failure of a command means: a month that is gone, or that another session is at,
 * is for the next step to see. */
static hf_status judge(struct session *session, hf_status status)
{
    bool passing = postgres_is_passing(session->sqlstate) ||
                   strcmp(session->sqlstate, "42P01") == 0 || /* it is gone */
                   strcmp(session->sqlstate, "42P07") == 0;   /* it is there */
    return !status || !passing ? status : fail(HF_BUSY, "the log is in use: %s", err_message());
}

hf_status postgres_index_command(struct engine *base, const char *command)
{
    struct postgres_engine *engine = postgres_of(base);
    struct session *session = NULL;
    HF_POINT("before_index");
    hf_status status = session_take(engine, &session);
    if (status) {
        return status;
    }
    session->deadline = deadline_after_ms(COMMAND_MS);
    if (!session_has(session, SESSION_POOLED)) { /* else others would get the settings */
        status = session_script(session, postgres_queries[POSTGRES_QUERY_TYPE_STEPS_DEADLINE].sql);
    }
    if (!status) {
        session->sqlstate[0] = '\0';
        status = judge(session, session_script(session, command));
    }
    session_close(session); /* with its settings */
    session_give(engine, session);
    HF_POINT("after_index");
    return status;
}
