/*
 * line.c - a few statements in one round trip. See line.h.
 *
 * They go as one pipeline that ends with a sync. It is the server that stops at the first failure:
 * it skips everything up to the sync. So a COMMIT at the end of a line happens only if all before
 * it succeeded.
 *
 * When the deadline passes, answers are still on their way. A session of ours is closed, and the
 * server rolls back. The application's connection is not ours to close: the server is asked to stop
 * and has a moment to say so; if it does not, the connection stays as it is, in the middle of a
 * pipeline, and is of no use any more.
 */
#include "store/postgres/wire/line.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres.h"

#define STOP_WAIT_MS 2000 /* for the answers to a line that was cancelled */

void line_begin(struct line *line, struct session *session)
{
    *line = (struct line){.session = session};
    session->sqlstate[0] = '\0';
    line->status = session_is_lost(session)
                       ? fail(HF_UNAVAILABLE, "%s: the connection was lost", session->engine->place)
                       : session_pipe_enter(session);
}

void line_add(struct line *line, enum postgres_query query)
{
    struct session *session = line->session;
    if (line->status != HF_OK) {
        return;
    }
    if (line->count == LINE_STATEMENTS_MAX) {
        line->status = fail(HF_MISUSE, "more than %d statements in a line", LINE_STATEMENTS_MAX);
        return;
    }
    bool prepares = !session->pooled && !session->prepared[query];
    if (prepares) {
        line->status = session_pipe_prepare(session, query);
    }
    if (line->status == HF_OK) {
        line->items[line->count++] = (struct line_item){.query = query, .prepares = prepares};
        line->status = session_pipe_send(session, query);
    }
}

/* Takes one answer: its result, if it succeeded. */
static hf_status take(struct line *line, int number, PGresult **ret_result)
{
    PGresult *result;
    hf_status status = session_pipe_next(line->session, &result);
    if (status != HF_OK) {
        return status;
    }
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) {
        *ret_result = result;
        return HF_OK;
    }
    if (kind != PGRES_PIPELINE_ABORTED && line->status == HF_OK) {
        line->status = session_fail(line->session, result, line->items[number].query);
        line->failed = number;
        if (strcmp(line->session->sqlstate, "26000") == 0) { /* somebody took them away */
            memset(line->session->prepared, 0, sizeof line->session->prepared);
        }
    }
    PQclear(result);
    return HF_OK;
}

/* Takes all answers. Anything but HF_OK: the connection is lost or silent. */
static hf_status take_all(struct line *line)
{
    struct session *session = line->session;
    hf_status status = HF_OK;
    for (int i = 0; i < line->count && status == HF_OK; i++) {
        struct line_item *item = &line->items[i];
        if (item->prepares) {
            PGresult *prepared = NULL;
            status = take(line, i, &prepared);
            session->prepared[item->query] = prepared != NULL;
            PQclear(prepared);
        }
        if (status == HF_OK) {
            status = take(line, i, &item->result);
        }
    }
    PGresult *sync = NULL;
    if (status == HF_OK) {
        status = session_pipe_next(session, &sync);
        PQclear(sync);
    }
    return status;
}

/* The deadline has passed: nobody waits for the answers any more. */
static void stop(struct line *line)
{
    struct session *session = line->session;
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

hf_status line_end(struct line *line)
{
    struct session *session = line->session;
    line->failed = line->count;
    if (line->status != HF_OK) { /* it could not be sent as a whole: none of it counts */
        char message[STORE_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", err_message());
        if (!session_is_lost(session)) {
            (void)session_pipe_sync(session);
            stop(line);
        }
        return err_set(line->status, message);
    }
    hf_status status = session_pipe_sync(session);
    if (status == HF_OK) {
        status = take_all(line);
    }
    if (status == HF_OK) {
        session_pipe_leave(session);
        return line->status;
    }
    char message[STORE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", err_message());
    if (status == HF_TIMEOUT) {
        stop(line);
    }
    line->status = err_set(status, message);
    return line->status;
}

void line_release(struct line *line)
{
    for (int i = 0; i < line->count; i++) {
        PQclear(line->items[i].result);
        line->items[i].result = NULL;
    }
}
