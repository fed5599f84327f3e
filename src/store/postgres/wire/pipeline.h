/*
 * pipeline.h - a few statements in one round trip, inside of a transaction.
 *
 *     struct pipeline pipeline;
 *     pipeline_begin(&pipeline, session);
 *     session_params(session);
 *     pipeline_add(&pipeline, POSTGRES_QUERY_TX_SAVE);
 *     param_int8(session_params(session), position);
 *     pipeline_add(&pipeline, POSTGRES_QUERY_TX_ENTER);
 *     hf_status status = pipeline_end(&pipeline);
 *     if (status == HF_OK) {
 *         ... pipeline.items[1].result ...
 *     }
 *     pipeline_release(&pipeline);
 *
 * The first statement that fails ends the pipeline: those after it are not run. pipeline_end
 * answers its status, and session->sqlstate is its code ("": the connection was lost, or silent).
 * `status` keeps the first failure, so only the status of pipeline_end has to be checked.
 *
 * A statement that the session has not prepared yet is prepared on the way.
 */
#ifndef HF_STORE_POSTGRES_WIRE_PIPELINE_H
#define HF_STORE_POSTGRES_WIRE_PIPELINE_H

#include "store/postgres/wire/session.h"

#define PIPELINE_STATEMENTS_MAX 6

struct pipeline {
    struct session *session;
    hf_status status; /* of sending; then of the first that failed */
    int count;
    int failed; /* the number of that one; count if none is known */
    struct pipeline_item {
        enum postgres_query query;
        bool prepares;    /* its preparation goes before it */
        PGresult *result; /* NULL unless it succeeded */
    } items[PIPELINE_STATEMENTS_MAX];
};

void pipeline_begin(struct pipeline *pipeline, struct session *session);
/* Adds a statement with the session's parameters. */
void pipeline_add(struct pipeline *pipeline, enum postgres_query query);
/* Sends all statements and takes the answers. HF_TIMEOUT, HF_UNAVAILABLE: not all were answered;
 * then a session of this engine is closed, and one of the application is cancelled. */
hf_status pipeline_end(struct pipeline *pipeline);
/* Clears the results. */
void pipeline_release(struct pipeline *pipeline);

#endif
