/*
 * pipeline.c - a few statements in one round trip. See pipeline.h.
 *
 * They go as one pipeline that ends with a sync. It is the server that stops at the first failure:
 * it skips everything up to the sync. So a COMMIT at the end of a pipeline happens only if all
 * before it succeeded.
 *
 * When the deadline passes, answers are still on their way. A session of ours is closed, and the
 * server rolls back. The application's connection is not ours to close: the server is asked to stop
 * and has a moment to say so; if it does not, the connection stays as it is, in the middle of a
 * pipeline, and is of no use any more.
 */
#include "store/postgres/wire/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres.h"

#define STOP_WAIT_MS 2000 /* for the answers to a pipeline that was cancelled */

void pipeline_begin(struct pipeline *pipeline, struct session *session)
{
    *pipeline = (struct pipeline){.session = session};
    session->sqlstate[0] = '\0';
    pipeline->status =
        session_is_lost(session)
            ? fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place)
            : session_pipe_enter(session);
}

void pipeline_add(struct pipeline *pipeline, enum postgres_query query)
{
    struct session *session = pipeline->session;
    if (pipeline->status) {
        return;
    }
    if (pipeline->count == PIPELINE_STATEMENTS_MAX) {
        pipeline->status =
            fail(HF_MISUSE, "more than %d statements in a pipeline", PIPELINE_STATEMENTS_MAX);
        return;
    }
    bool prepares = !session_has(session, SESSION_POOLED) && !session->prepared[query];
    if (prepares) {
        pipeline->status = session_pipe_prepare(session, query);
    }
    if (!pipeline->status) {
        pipeline->items[pipeline->count++] =
            (struct pipeline_item){.query = query, .prepares = prepares};
        pipeline->status = session_pipe_send(session, query);
    }
}

/* Takes one answer: its result, if it succeeded. */
static hf_status take(struct pipeline *pipeline, int number, PGresult **ret_result)
{
    PGresult *result;
    hf_status status = session_pipe_next(pipeline->session, &result);
    if (status) {
        return status;
    }
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) {
        *ret_result = result;
        return HF_OK;
    }
    if (kind != PGRES_PIPELINE_ABORTED && !pipeline->status) {
        pipeline->status = session_fail(pipeline->session, result, pipeline->items[number].query);
        pipeline->failed = number;
        if (strcmp(pipeline->session->sqlstate, "26000") == 0) { /* they were deallocated */
            memset(pipeline->session->prepared, 0, sizeof pipeline->session->prepared);
        }
    }
    PQclear(result);
    return HF_OK;
}

/* Takes all answers. Anything but HF_OK: the connection is lost or silent. */
static hf_status take_all(struct pipeline *pipeline)
{
    struct session *session = pipeline->session;
    hf_status status = HF_OK;
    for (int i = 0; i < pipeline->count && !status; i++) {
        struct pipeline_item *item = &pipeline->items[i];
        if (item->prepares) {
            PGresult *prepared = NULL;
            status = take(pipeline, i, &prepared);
            session->prepared[item->query] = prepared != NULL;
            PQclear(prepared);
        }
        if (!status) {
            status = take(pipeline, i, &item->result);
        }
    }
    PGresult *sync = NULL;
    if (!status) {
        status = session_pipe_next(session, &sync);
        PQclear(sync);
    }
    return status;
}

/* The deadline has passed: the caller does not wait for the answers any more. */
static void stop(struct pipeline *pipeline)
{
    struct session *session = pipeline->session;
    if (session->kind != SESSION_FOREIGN) {
        session_cut(session);
    } else {
        bool more = true;
        PGresult *result = NULL;
        session_cancel(PQgetCancel(session->pg));
        session->deadline = deadline_after_ms(STOP_WAIT_MS);
        while (more && session_pipe_next(session, &result) == HF_OK) {
            more = PQresultStatus(result) != PGRES_PIPELINE_SYNC;
            PQclear(result);
        }
        session_pipe_leave(session);
    }
}

hf_status pipeline_end(struct pipeline *pipeline)
{
    struct session *session = pipeline->session;
    pipeline->failed = pipeline->count;
    if (pipeline->status) { /* it could not be sent as a whole: none of it counts */
        char message[STORE_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", err_message());
        if (!session_is_lost(session)) {
            (void)session_pipe_sync(session);
            stop(pipeline);
        }
        return err_set(pipeline->status, message);
    }
    hf_status status = session_pipe_sync(session);
    if (!status) {
        status = take_all(pipeline);
    }
    if (!status) {
        session_pipe_leave(session);
        return pipeline->status;
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    if (status == HF_TIMEOUT) {
        stop(pipeline);
    }
    pipeline->status = err_set(status, message);
    return pipeline->status;
}

void pipeline_release(struct pipeline *pipeline)
{
    for (int i = 0; i < pipeline->count; i++) {
        PQclear(pipeline->items[i].result);
        pipeline->items[i].result = NULL;
    }
}
