/*
 * unique.c - unique keys of events. See unique.h.
 *
 * A row has the key, the event that was stored with it, and until when no other is. Writers come
 * one after the other, so the row that is found is the truth, and a transaction that is rolled back
 * takes its row along.
 *
 * An event for later has no position when it is stored. Where it is now is looked up when the key
 * is asked for: it waits, it is in the log, or it was cancelled and the key is free. So bringing,
 * cancelling and moving an event know nothing of keys.
 */
#include "store/sqlite/write/unique.h"

#include "base/err.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/write/append.h"

#define SWEEP_ROWS 4 /* keys whose time is over that go with one that is stored */

/* The event that has a key. */
struct holder {
    struct new_event event; /* id and position; -1: not known */
    int64_t until_us;
    int64_t number; /* of its row in holdfast_delayed; -1: it does not wait */
};

static hf_status read_holder(struct sqlite_engine *engine, struct conn *conn, struct text key,
                             struct holder *ret_holder, bool *ret_found)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_UNIQUE_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, key);
    hf_status status = conn_row(conn, stmt, ret_found);
    if (status || !*ret_found) {
        return status;
    }
    *ret_holder = (struct holder){
        .event = {.position = column_int(stmt, 1, -1)},
        .until_us = sqlite3_column_int64(stmt, 2),
        .number = -1,
    };
    bool whole = column_blob(stmt, 0, ret_holder->event.id, sizeof ret_holder->event.id);
    conn_done(stmt);
    return whole ? HF_OK : fail(HF_CORRUPT, "the id of an event with a unique key is damaged");
}

static hf_status find_waiting(struct sqlite_engine *engine, struct conn *conn,
                              struct holder *holder)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DELAYED_EXISTS);
    bool found;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_blob(stmt, 2, holder->event.id, sizeof holder->event.id);
    hf_status status = conn_row(conn, stmt, &found);
    if (!status && found) {
        holder->number = sqlite3_column_int64(stmt, 0);
        conn_done(stmt);
    }
    return status;
}

/* Whether it still has the key. Finds out where an event that was for later is now. */
static hf_status judge(struct sqlite_engine *engine, struct conn *conn, struct holder *holder,
                       int64_t now_us, bool *ret_has)
{
    bool found = holder->event.position >= 0;
    hf_status status = HF_OK;
    if (!found) {
        status = find_waiting(engine, conn, holder);
    }
    if (!status && !found && holder->number < 0) {
        status = append_find(engine, conn, &holder->event, &found);
    }
    *ret_has = holder->number >= 0 || (found && holder->until_us > now_us);
    return status;
}

hf_status unique_take(struct sqlite_engine *engine, struct conn *conn, struct new_event *event,
                      bool replace, int64_t now_us, bool *ret_free)
{
    struct holder holder;
    bool has = false;
    hf_status status = read_holder(engine, conn, event->unique, &holder, &has);
    if (!status && has) {
        status = judge(engine, conn, &holder, now_us, &has);
    }
    if (status) {
        return status;
    }
    *ret_free = !has;
    if (has && replace && holder.number >= 0) {
        event->replaced = true;
        *ret_free = true;
        return STATEMENT_RUN(conn, SQLITE_QUERY_DELAYED_DELETE, holder.number);
    }
    if (has) {
        event->duplicate = true;
        event->is_second = true;
        event->position = holder.number >= 0 ? 0 : holder.event.position;
        memcpy(event->first_id, holder.event.id, sizeof event->first_id);
    }
    return HF_OK;
}

hf_status unique_keep(struct sqlite_engine *engine, struct conn *conn,
                      const struct new_event *event, int64_t now_us, int64_t due_us)
{
    int64_t until_us = now_us + event->unique_us;
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_UNIQUE_PUT);
    bool more;
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_text(stmt, 2, event->unique);
    bind_blob(stmt, 3, event->id, sizeof event->id);
    if (event->position > 0) {
        bind_int(stmt, 4, event->position);
    }
    bind_int(stmt, 5, until_us);
    bind_int(stmt, 6, until_us > due_us ? until_us : due_us);
    hf_status status = conn_run(conn, stmt);
    return status ? status : unique_sweep(conn, engine->namespace_id, now_us, SWEEP_ROWS, &more);
}

hf_status unique_sweep(struct conn *conn, int64_t namespace_id, int64_t now_us, int64_t max,
                       bool *ret_more)
{
    hf_status status = STATEMENT_RUN(conn, SQLITE_QUERY_UNIQUE_POSTPONE, namespace_id, now_us, max);
    int64_t rows = conn_changes(conn);
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_UNIQUE_SWEEP, namespace_id, now_us, max);
        rows += conn_changes(conn);
    }
    *ret_more = !status && rows >= max;
    return status;
}
