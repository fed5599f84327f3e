/*
 * question.h - a query: a session of the pool, one statement, its answer.
 *
 *     struct question question;
 *     struct params *params = question_begin(&question, engine, POSTGRES_QUERY_LANES);
 *     param_int8(params, subscription_id);
 *     question_ask(&question);
 *     for (int row = 0; row < question.rows; row++) {
 *         uint64_t lane = (uint64_t)result_int8(question.result, row, 0, 0);      (row.h)
 *         ...
 *     }
 *     return question_end(&question);
 *
 * Nothing has to be checked on the way: what fails first is kept in `status`, what follows it does
 * nothing, and question_end answers it. Whoever finds the answer wanting sets `status` itself.
 *
 * question_ask gives the session back, so whoever is handed the answer may ask again without a
 * second one. The answer, and every text in it, lives until question_end.
 *
 * Changes do not come here: they ride on the writer's session (apply.c).
 */
#ifndef HF_STORE_POSTGRES_WIRE_QUESTION_H
#define HF_STORE_POSTGRES_WIRE_QUESTION_H

#include "store/postgres/postgres.h"

struct question {
    struct postgres_engine *engine;
    enum postgres_query query;
    bool plan_anew;          /* false: the statement is prepared; see session_query_once */
    struct session *session; /* NULL: none could be had, or it has been given back */
    struct params nowhere;   /* what would be the parameters, if there is no session */
    PGresult *result;        /* NULL: not answered */
    int rows;                /* 0 without an answer */
    hf_status status;
};

/* Takes a session, whose deadline begins now. Answers where the parameters go, never NULL. */
struct params *question_begin(struct question *question, struct engine *engine,
                              enum postgres_query query);
/* Runs the statement and gives the session back. Whether there is an answer. */
bool question_ask(struct question *question);
/* The two steps of that, for whoever runs it again if the answer will not do. */
bool question_run(struct question *question);
void question_give(struct question *question);
/* Frees everything. HF_OK, or the first failure; its message is the thread's. */
hf_status question_end(struct question *question);

#endif
