/*
 * raw.c - the bare engine: what SQLite alone needs for the same rows.
 *
 * The table, its index and the INSERT are the bus's own; the connection is ours, with prepared
 * statements, WAL, and the synchronous setting of the durability asked for. Nothing is checked, no
 * thread is woken, no position is stored: no bus can be faster than this on one connection without
 * sharing commits. This is the only file of the command that knows the engine.
 */
#include "base/banned.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "cli/bench/bench.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"

#include "sqlite_sql.h"

#include <sqlite3.h>

#define PLACE_SHIFT 44 /* holdfast_events.place = namespace << 44 | position */

struct raw {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *insert;
    sqlite3_stmt *commit;
    int64_t namespace_id;
    char payload[BENCH_SIZE_MAX];
};

static bool complain(struct raw *raw, const char *doing)
{
    out_complain("the bare engine cannot %s: %s", doing,
                 raw->db ? sqlite3_errmsg(raw->db) : "out of memory");
    return false;
}

static bool execute(struct raw *raw, enum sqlite_query query)
{
    if (sqlite3_exec(raw->db, sqlite_queries[query].sql, NULL, NULL, NULL) == SQLITE_OK) {
        return true;
    }
    return complain(raw, sqlite_queries[query].name);
}

static bool prepare(struct raw *raw, enum sqlite_query query, sqlite3_stmt **ret_stmt)
{
    if (sqlite3_prepare_v3(raw->db, sqlite_queries[query].sql, -1, SQLITE_PREPARE_PERSISTENT,
                           ret_stmt, NULL) == SQLITE_OK) {
        return true;
    }
    return complain(raw, "prepare a statement");
}

static bool step(struct raw *raw, sqlite3_stmt *stmt, const char *doing)
{
    int code = sqlite3_step(stmt);

    sqlite3_reset(stmt);
    return code == SQLITE_DONE || complain(raw, doing);
}

static bool find_namespace(struct raw *raw, const char *name)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;

    if (prepare(raw, SQLITE_QUERY_NAMESPACE_FIND, &stmt) &&
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        raw->namespace_id = sqlite3_column_int64(stmt, 0);
        found = true;
    }
    sqlite3_finalize(stmt);
    return found || complain(raw, "find the namespace");
}

static bool raw_open(struct raw *raw, const struct bench_raw *setup)
{
    if (sqlite3_open_v2(setup->path, &raw->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        return complain(raw, "open the database");
    }
    if (!execute(raw, SQLITE_QUERY_SET_WAL) || !execute(raw, SQLITE_QUERY_SET_CONNECTION) ||
        !execute(raw, SQLITE_QUERY_SET_WRITER) ||
        !execute(raw, setup->durability == HF_DURABILITY_PROCESS ? SQLITE_QUERY_SYNC_NORMAL
                                                                 : SQLITE_QUERY_SYNC_FULL) ||
        !find_namespace(raw, setup->namespace_name)) {
        return false;
    }
    return prepare(raw, SQLITE_QUERY_BEGIN, &raw->begin) &&
           prepare(raw, SQLITE_QUERY_APPEND_EVENT, &raw->insert) &&
           prepare(raw, SQLITE_QUERY_COMMIT, &raw->commit);
}

static bool insert_one(struct raw *raw, const struct bench_raw *setup, int64_t position)
{
    uint8_t id[UUID_BYTES];
    int64_t now_us = clock_wall_us();
    sqlite3_stmt *stmt = raw->insert;

    uuid_v7(now_us, id);
    bench_payload(raw->payload, (size_t)setup->size, position);
    sqlite3_bind_int64(stmt, 1, raw->namespace_id << PLACE_SHIFT | position);
    sqlite3_bind_blob(stmt, 2, id, sizeof id, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, "bench.event", -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 4, raw->payload, (int)setup->size, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 5, "bench", -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 8, "bench", -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 10, position);
    sqlite3_bind_int64(stmt, 11, now_us);
    sqlite3_bind_int64(stmt, 12, now_us);
    sqlite3_bind_int64(stmt, 14, position);
    return step(raw, stmt, "insert an event");
}

static bool insert_all(struct raw *raw, const struct bench_raw *setup)
{
    int64_t position = 0;

    while (position < setup->events && !stop_requested()) {
        if (!step(raw, raw->begin, "begin")) {
            return false;
        }
        for (int64_t i = 0; i < setup->batch && position < setup->events; i++) {
            if (!insert_one(raw, setup, ++position)) {
                return false;
            }
        }
        if (!step(raw, raw->commit, "commit")) {
            return false;
        }
    }
    return true;
}

double bench_raw_publish(const struct bench_raw *setup)
{
    static struct raw raw; /* too large for a stack */
    double rate = -1;

    if (raw_open(&raw, setup)) {
        int64_t before_ns = bench_now_ns();
        if (insert_all(&raw, setup)) {
            rate = (double)setup->events * 1e9 / (double)(bench_now_ns() - before_ns);
        }
    }
    sqlite3_finalize(raw.begin);
    sqlite3_finalize(raw.insert);
    sqlite3_finalize(raw.commit);
    sqlite3_close(raw.db);
    raw.begin = raw.insert = raw.commit = NULL;
    raw.db = NULL;
    return rate;
}
