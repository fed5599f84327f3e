/*
 * fetch.c - asking the log. See fetch.h.
 *
 * All queries go out in one pipeline: one round trip, and one transaction, in which settings that
 * are local to it make the plans what they must be. The transaction is READ COMMITTED, so what is
 * asked later is seen later; the order of the queries is part of the proof (reader.c).
 */
#include "store/postgres/read/fetch.h"

#include "base/err.h"
#include "store/postgres/wire/row.h"

#define QUERIES_MAX 5

typedef void (*fill_fn)(struct params *params, const struct fetch *fetch);

struct fetch_query {
    enum postgres_query statement;
    fill_fn fill;
    struct fetched **ret_rows; /* NULL: they do not matter */
};

static void fill_nothing(struct params *params, const struct fetch *fetch)
{
    (void)params;
    (void)fetch;
}

/* What is wanted: the regular expression, the number of partitions, and a bit for each of them. */
static void fill_wanted(struct params *params, const struct fetch *fetch)
{
    param_text(params, fetch->regex);
    if (fetch->owned.total == 0) {
        param_null(params, PARAM_INT4);
        param_array(params, PARAM_INT8, 0);
        return;
    }
    size_t words = ((size_t)fetch->owned.total + 63) / 64;
    param_int4(params, fetch->owned.total);
    param_array(params, PARAM_INT8, words);
    for (size_t i = 0; i < words; i++) {
        element_int8(params, (int64_t)fetch->owned.bits[i]);
    }
}

static bool wants_all(const struct fetch *fetch)
{
    return text_is_absent(fetch->regex) && fetch->owned.total == 0;
}

static void fill_tail(struct params *params, const struct fetch *fetch)
{
    param_int8(params, fetch->after);
    param_int8(params, fetch->limit);
    if (!wants_all(fetch)) {
        fill_wanted(params, fetch);
    }
}

static void fill_holes(struct params *params, const struct fetch *fetch)
{
    param_array(params, PARAM_INT8, fetch->hole_count);
    for (size_t i = 0; i < fetch->hole_count; i++) {
        element_int8(params, fetch->holes[i].first);
    }
    param_array(params, PARAM_INT8, fetch->hole_count);
    for (size_t i = 0; i < fetch->hole_count; i++) {
        element_int8(params, fetch->holes[i].last);
    }
    fill_wanted(params, fetch);
    param_int8(params, fetch->limit);
}

static void fill_large(struct params *params, const struct fetch *fetch)
{
    param_array(params, PARAM_INT8, fetch->position_count);
    for (size_t i = 0; i < fetch->position_count; i++) {
        element_int8(params, fetch->positions[i]);
    }
}

static hf_status prepare(struct session *session, const struct fetch *fetch,
                         const struct fetch_query *query)
{
    if (session_has(session, SESSION_POOLED) || session->prepared[query->statement]) {
        return HF_OK;
    }
    query->fill(session_params(session), fetch);
    hf_status status = params_finish(&session->params);
    return status ? status : session_prepare(session, query->statement);
}

/* One answer, taken over. */
static hf_status take_answer(struct session *session, const struct fetch_query *query,
                             PGresult *result)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        hf_status status = session_fail(session, result, query->statement);
        PQclear(result);
        return status;
    }
    if (!query->ret_rows) {
        PQclear(result);
        return HF_OK;
    }
    return fetched_new(result, query->ret_rows);
}

/* All answers, whatever happens, up to the end of the pipeline. The first failure counts: those
 * after it only say that there was one. */
static hf_status take_answers(struct session *session, const struct fetch_query *queries,
                              size_t count)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i <= count; i++) {
        PGresult *result;
        hf_status next = session_pipe_next(session, &result);
        if (next) {
            session_close(session);
            return next;
        }
        if (i == count || status) {
            PQclear(result);
        } else {
            status = take_answer(session, &queries[i], result);
        }
    }
    return status;
}

static hf_status ask(struct session *session, const struct fetch *fetch,
                     const struct fetch_query *queries, size_t count)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = prepare(session, fetch, &queries[i]);
    }
    if (!status) {
        status = session_pipe_enter(session);
    }
    if (status) {
        return status;
    }
    for (size_t i = 0; i < count && !status; i++) {
        queries[i].fill(session_params(session), fetch);
        status = session_pipe_send(session, queries[i].statement);
    }
    if (!status) {
        status = session_pipe_sync(session);
    }
    if (status) {
        session_close(session); /* something was sent, and its answer will not be taken */
        return status;
    }
    status = take_answers(session, queries, count);
    if (session->pg) {
        session_pipe_leave(session);
    }
    return status;
}

hf_status fetch_run(struct fetch *fetch, struct session *session)
{
    struct fetch_query queries[QUERIES_MAX] = {
        {fetch->many ? POSTGRES_QUERY_READ_SETTINGS : POSTGRES_QUERY_READ_SETTINGS_FEW,
         fill_nothing, NULL},
    };
    size_t count = 1;
    if (fetch->asks_start) {
        queries[count++] =
            (struct fetch_query){POSTGRES_QUERY_READ_SERVER_START, fill_nothing, &fetch->start_row};
    }
    if (fetch->tail) {
        queries[count++] = (struct fetch_query){wants_all(fetch) ? POSTGRES_QUERY_READ_TAIL_WHOLE
                                                                 : POSTGRES_QUERY_READ_TAIL,
                                                fill_tail, &fetch->tail_rows};
    }
    if (fetch->hole_count > 0) {
        queries[count++] =
            (struct fetch_query){POSTGRES_QUERY_READ_HOLES, fill_holes, &fetch->late_rows};
    }
    if (fetch->position_count > 0) {
        queries[count++] =
            (struct fetch_query){POSTGRES_QUERY_READ_LARGE, fill_large, &fetch->large_rows};
    }
    if (!session->pg) {
        return fail(HF_UNAVAILABLE, "the connection was lost");
    }
    return ask(session, fetch, queries, count);
}

void fetch_release(struct fetch *fetch)
{
    fetched_done(fetch->start_row);
    fetched_done(fetch->tail_rows);
    fetched_done(fetch->late_rows);
    fetched_done(fetch->large_rows);
}

size_t fetched_runs(const struct fetched *fetched, struct gap_run *ret_runs)
{
    size_t count = 0;
    int rows = PQntuples(fetched->result);
    for (int row = 0; row < rows; row++) {
        int64_t position = position_at(fetched->result, row);
        if (count > 0 && ret_runs[count - 1].last == position - 1) {
            ret_runs[count - 1].last = position;
        } else {
            ret_runs[count++] = (struct gap_run){position, position};
        }
    }
    return count;
}

void fetched_queue(struct fetched *fetched, struct queue *queue, int64_t through)
{
    int rows = PQntuples(fetched->result);
    for (int row = 0; row < rows; row++) {
        int64_t position = position_at(fetched->result, row);
        if (position <= through && !result_is_null(fetched->result, row, READ_BYTES_COLUMN)) {
            queue_put(queue, fetched, row, position,
                      result_int8(fetched->result, row, READ_BYTES_COLUMN, 0));
        }
    }
}

void fetched_complete(const struct fetch *fetch, struct queue *queue, size_t count)
{
    for (size_t i = 0; i < fetch->position_count; i++) {
        struct queued *queued = queue_find(queue, count, fetch->positions[i]);
        queued->row = -1; /* retention was faster, unless it is found */
    }
    int rows = PQntuples(fetch->large_rows->result);
    for (int row = 0; row < rows; row++) {
        struct queued *queued =
            queue_find(queue, count, position_at(fetch->large_rows->result, row));
        if (queued) {
            queue_move(queued, fetch->large_rows, row);
            queued->bytes = 0; /* it is whole now */
        }
    }
}

int64_t fetched_bytes(const struct fetched *fetched, int64_t large)
{
    int64_t bytes = 0;
    int rows = PQntuples(fetched->result);
    for (int row = 0; row < rows; row++) {
        int64_t size = result_int8(fetched->result, row, READ_BYTES_COLUMN, 0);
        bytes += size > large ? 0 : size;
    }
    return bytes;
}
