/*
 * question.c - a query: a session of the pool, one statement, its answer. See question.h.
 *
 * The session is taken before the parameters are written, because they are written into its
 * memory, which is reused from query to query. If there is none they are written nowhere: a verb
 * then need not look whether it has a session, only whether it has an answer.
 *
 * A query only reads. So if its connection is lost it is asked again, by session_query, and if it
 * fails nothing has happened.
 */
#include "store/postgres/wire/question.h"

struct params *question_begin(struct question *question, struct engine *engine,
                              enum postgres_query query)
{
    *question = (struct question){.engine = postgres_of(engine), .query = query};
    question->status = session_take(question->engine, &question->session);
    if (question->status != HF_OK) {
        params_init(&question->nowhere);
        return &question->nowhere;
    }
    return session_params(question->session);
}

bool question_run(struct question *question)
{
    if (question->status != HF_OK) {
        return false;
    }
    PQclear(question->result);
    question->result = NULL;
    question->status = (question->plan_anew ? session_query_once : session_query)(
        question->session, question->query, &question->result);
    question->rows = PQntuples(question->result);
    return question->status == HF_OK;
}

void question_give(struct question *question)
{
    session_give(question->engine, question->session);
    question->session = NULL;
}

bool question_ask(struct question *question)
{
    bool answered = question_run(question);
    question_give(question);
    return answered;
}

hf_status question_end(struct question *question)
{
    question_give(question);
    params_release(&question->nowhere);
    PQclear(question->result);
    question->result = NULL;
    return question->status;
}
