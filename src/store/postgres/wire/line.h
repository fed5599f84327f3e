/*
 * line.h - a few statements in one round trip, inside of a transaction.
 *
 *     struct line line;
 *     line_begin(&line, session);
 *     session_params(session);
 *     line_add(&line, POSTGRES_QUERY_TX_SAVE);
 *     param_int8(session_params(session), position);
 *     line_add(&line, POSTGRES_QUERY_TX_ENTER);
 *     hf_status status = line_end(&line);
 *     if (status == HF_OK) {
 *         ... line.items[1].result ...
 *     }
 *     line_release(&line);
 *
 * The first statement that fails ends the line: those after it are not run. line_end answers its
 * status, and session->sqlstate is its code ("": the connection was lost, or silent). What does not
 * fit or cannot be sent is remembered, so only line_end has to be asked.
 *
 * A statement that the session has not prepared yet is prepared on the way.
 */
#ifndef HF_STORE_POSTGRES_WIRE_LINE_H
#define HF_STORE_POSTGRES_WIRE_LINE_H

#include "store/postgres/wire/session.h"

#define LINE_STATEMENTS_MAX 6

struct line {
    struct session *session;
    hf_status status; /* of sending; then of the first that failed */
    int count;
    int failed; /* the number of that one; count if none is known */
    struct line_item {
        enum postgres_query query;
        bool prepares;    /* its preparation goes before it */
        PGresult *result; /* NULL unless it succeeded */
    } items[LINE_STATEMENTS_MAX];
};

void line_begin(struct line *line, struct session *session);
/* Adds a statement with the session's parameters. */
void line_add(struct line *line, enum postgres_query query);
/* Sends it all and takes the answers. HF_TIMEOUT, HF_UNAVAILABLE: not all were answered; a session
 * of ours is closed then, somebody else's is asked to stop. */
hf_status line_end(struct line *line);
/* Clears the results. */
void line_release(struct line *line);

#endif
