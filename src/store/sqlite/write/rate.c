/*
 * rate.c - the rate of a subscription: a bucket that all processes take from. See struct rate_take
 * in store/membership.h.
 *
 * It is a row with one number, read and written in the transaction of whatever else is written at
 * that moment. A take that is granted nothing writes nothing, but for a time that has not come: the
 * clock was set back since, and the bucket would stay empty until it comes.
 */
#include "base/err.h"
#include "base/limiter.h"
#include "store/membership.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

hf_status sqlite_rate_take(struct sqlite_engine *engine, struct conn *conn, struct rate_take *take)
{
    struct limiter limiter = {take->events, take->period_us};
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RATE_GET);
    bool row;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, take->subscription_id);
    bind_int(stmt, 2, engine->namespace_id);
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return fail(HF_NOTFOUND, "there is no such subscription");
    }
    int64_t empty_us = column_int(stmt, 0, LIMITER_NEW);
    conn_done(stmt);
    struct limiter_answer answer =
        limiter_take(&limiter, empty_us, take->change.now_us, take->want);
    take->ret_granted = answer.granted;
    take->ret_wait_us = answer.wait_us;
    return answer.granted == 0 && empty_us <= take->change.now_us
               ? HF_OK
               : STATEMENT_RUN(conn, SQLITE_QUERY_RATE_PUT, take->subscription_id, answer.empty_us);
}
