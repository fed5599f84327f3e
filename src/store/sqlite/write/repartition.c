/*
 * repartition.c - giving a subscription another number of partitions.
 *
 * The request is in the subscription's row. The bus hands out nothing beyond the highest checkpoint
 * any more, so all checkpoints come to stand there; then everything up to it is settled or has a
 * row, whatever partition it was of, and the rows can be given to other partitions. What was done
 * beyond it before the request was noticed has rows in `settled`, which go along.
 *
 * It happens in one transaction: who dies before its commit has changed nothing, and the next one
 * does it. All new epochs are above all old ones, so that what a process still holds is refused. A
 * dead owner's notes are turned into failed attempts as an acquisition does; if it left none, the
 * new partitions are given its name, so that the process that acquires one finds that its owner is
 * dead.
 */
#include "base/err.h"
#include "base/point.h"
#include "store/common/missing.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/partition.h"

struct request {
    int32_t wanted;     /* 0: there is none */
    int32_t partitions; /* at present */
    int64_t lowest;     /* checkpoint of them ... */
    int64_t highest;
    int64_t epoch;            /* the highest of them */
    int64_t doubt_through;    /* the highest of all partitions */
    struct partition unclean; /* owned: its owner died, and it is not known what it was doing */
};

static hf_status load_request(struct sqlite_engine *engine, struct conn *conn,
                              int64_t subscription_id, struct request *request)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITIONS_REQUEST_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, subscription_id);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return missing_subscription(subscription_id);
    }
    request->wanted = sqlite3_column_int(stmt, 0);
    request->partitions = sqlite3_column_int(stmt, 1);
    request->lowest = sqlite3_column_int64(stmt, 2);
    request->highest = sqlite3_column_int64(stmt, 3);
    request->epoch = sqlite3_column_int64(stmt, 4);
    request->doubt_through = sqlite3_column_int64(stmt, 5);
    conn_done(stmt);
    return HF_OK;
}

/* Does a process that is alive own any partition? */
static hf_status check_owners(struct sqlite_engine *engine, struct conn *conn,
                              const struct repartition *repartition, const struct request *request)
{
    hf_status status = HF_OK;
    for (int32_t i = 0; !status && i < request->partitions; i++) {
        struct partition partition;
        status = partition_load(engine, conn, repartition->subscription_id, i, &partition);
        if (status || !partition.owned) {
            continue;
        }
        enum live_state state = live_state(engine, partition.owner, repartition->lease_ms);
        if (state == LIVE_SELF || state == LIVE_ALIVE) {
            return fail(HF_BUSY, "partition %d is still in the hands of %s", i,
                        partition.owner_name);
        }
    }
    return status;
}

/* Records what dead owners were doing. */
static hf_status recover(struct sqlite_engine *engine, struct conn *conn,
                         const struct repartition *repartition, struct request *request)
{
    hf_status status = HF_OK;
    for (int32_t i = 0; !status && i < request->partitions; i++) {
        struct partition partition;
        status = partition_load(engine, conn, repartition->subscription_id, i, &partition);
        if (status || !partition.owned) {
            continue;
        }
        struct acquire acquire = {
            .change = repartition->change,
            .subscription_id = repartition->subscription_id,
            .partition = i,
            .lease_ms = repartition->lease_ms,
            .attempts_max = repartition->attempts_max,
        };
        status = sqlite_acquire(engine, conn, &acquire);
        request->epoch = acquire.ret_epoch > request->epoch ? acquire.ret_epoch : request->epoch;
        if (acquire.ret_doubt_through > request->doubt_through) {
            request->doubt_through = acquire.ret_doubt_through;
        }
        if (acquire.ret_unclean) {
            request->unclean = partition;
        }
    }
    return status;
}

static hf_status renew(struct conn *conn, const struct repartition *repartition,
                       const struct request *request, int32_t partition)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_RENEW);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, repartition->subscription_id);
    bind_int(stmt, 2, partition);
    bind_int(stmt, 3, request->highest);
    bind_int(stmt, 4, repartition->change.now_us);
    bind_int(stmt, 5, request->epoch + 1);
    if (request->unclean.owned) {
        bind_blob(stmt, 6, request->unclean.owner, sizeof request->unclean.owner);
        bind_text(stmt, 7, text_of(request->unclean.owner_name));
    } else {
        bind_text(stmt, 6, TEXT_ABSENT);
        bind_text(stmt, 7, TEXT_ABSENT);
    }
    bind_int(stmt, 8, span_number(repartition->change.now_us));
    bind_int(stmt, 9, request->doubt_through);
    return conn_run(conn, stmt);
}

/* Replaces the partitions and gives every row to the one it belongs to now. */
static hf_status fulfil(struct sqlite_engine *engine, struct conn *conn,
                        const struct repartition *repartition, const struct request *request)
{
    int64_t id = repartition->subscription_id;
    int64_t place = place_of(engine, 0);
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_SUBSCRIPTION_DROP_PARTITIONS, id);
    for (int32_t i = 0; !status && i < request->wanted; i++) {
        status = renew(conn, repartition, request, i);
    }
    HF_POINT("mid_repartition");
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_RETRIES_REHOME, id, request->wanted, place);
    }
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_SETTLED_REHOME, id, request->wanted, place);
    }
    return status ? status : STATEMENT_RUN(conn, SQLITE_QUERY_PARTITIONS_REQUEST_END, id);
}

hf_status sqlite_repartition(struct sqlite_engine *engine, struct conn *conn,
                             struct repartition *repartition)
{
    struct request request = {0};
    repartition->ret_changed = false;
    hf_status status = load_request(engine, conn, repartition->subscription_id, &request);
    if (status || request.wanted == 0) {
        return status;
    }
    if (request.lowest < request.highest) {
        return fail(HF_BUSY, "the slowest partition is at position %lld, and has to come to %lld",
                    (long long)request.lowest, (long long)request.highest);
    }
    status = check_owners(engine, conn, repartition, &request);
    if (!status) {
        status = recover(engine, conn, repartition, &request);
    }
    if (!status) {
        status = fulfil(engine, conn, repartition, &request);
    }
    if (!status) {
        conn->ring = RING_ALL;
        repartition->ret_changed = true;
    }
    return status;
}
