/*
 * sqlite.c - SQLite alone: the same rows in the same table with the same index as Holdfast stores
 * them, prepared statements on one connection, FULL.
 *
 * Nothing is checked, no thread is woken, no event is found by its id, and a consumer is a SELECT
 * and a cursor that is stored after each batch: no bus on SQLite can be much faster than this
 * without sharing commits.
 */
#include "peer.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/random.h>

#define PLACE_SHIFT 44 /* holdfast_events.place = namespace << 44 | position */

enum statement { BEGIN, COMMIT, INSERT, SELECT, CURSOR, STATEMENTS };

struct raw {
    struct link link;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int64_t namespace_id;
    int64_t position;
    int64_t cursor;
    uint64_t salt;
};

static void raw_die(struct raw *raw)
{
    die("SQLite", raw->db ? sqlite3_errmsg(raw->db) : "out of memory");
}

static void run(struct raw *raw, enum statement which)
{
    int code = sqlite3_step(raw->statements[which]);
    sqlite3_reset(raw->statements[which]);
    if (code != SQLITE_DONE) {
        raw_die(raw);
    }
}

/* The number that a query answers. */
static int64_t ask(struct raw *raw, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(raw->db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        raw_die(raw);
    }
    int64_t answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

static struct link *raw_open(const struct task *task)
{
    static const char *const texts[STATEMENTS] = {
        "BEGIN IMMEDIATE",
        "COMMIT",
        "INSERT INTO holdfast_events (place, id, type, payload, key, producer, hash, emitted_at, "
        "entered_at, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?7)",
        "SELECT place, id, type, key, payload FROM holdfast_events WHERE place > ?1 ORDER BY place "
        "LIMIT ?2",
        "UPDATE bench_cursor SET place = ?1",
    };
    struct raw *raw = need(calloc(1, sizeof *raw));
    hf_bus *bus = NULL;
    check(hf_open(task->address, NULL, &bus), "hf_open"); /* makes the tables */
    check(hf_close(&bus), "hf_close");
    if (sqlite3_open(task->address, &raw->db) != SQLITE_OK ||
        sqlite3_exec(raw->db,
                     "PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;"
                     "CREATE TABLE IF NOT EXISTS bench_cursor AS SELECT 0 AS place",
                     NULL, NULL, NULL) != SQLITE_OK) {
        raw_die(raw);
    }
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(raw->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &raw->statements[i], NULL) != SQLITE_OK) {
            raw_die(raw);
        }
    }
    raw->namespace_id = ask(raw, "SELECT id FROM holdfast_namespaces WHERE name = 'default'");
    raw->link.fd = -1;
    if (getrandom(&raw->salt, sizeof raw->salt, 0) != sizeof raw->salt) {
        die("getrandom", "failed");
    }
    return &raw->link;
}

static void insert(struct raw *raw, const char *payload)
{
    sqlite3_stmt *statement = raw->statements[INSERT];
    struct timespec now;
    uint8_t id[16];
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    /* As ids of version 7: they ascend, and end at random. */
    uint64_t high = __builtin_bswap64((uint64_t)(now_us / 1000) << 16 | 0x7000);
    uint64_t low = __builtin_bswap64((uint64_t)++raw->position << 32 | (raw->salt >> 32));
    memcpy(id, &high, 8);
    memcpy(id + 8, &low, 8);
    sqlite3_bind_int64(statement, 1, raw->namespace_id << PLACE_SHIFT | raw->position);
    sqlite3_bind_blob(statement, 2, id, sizeof id, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, "bench.event", -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, payload, PAYLOAD_BYTES, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, "bench", -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, "bench", -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 7, (int64_t)(raw->salt ^ (uint64_t)raw->position));
    sqlite3_bind_int64(statement, 8, now_us);
    run(raw, INSERT);
}

static void raw_publish(struct link *link, int count, int64_t number)
{
    struct raw *raw = (struct raw *)link;
    char payload[PAYLOAD_BYTES + 1];
    run(raw, BEGIN);
    for (int i = 0; i < count; i++) {
        payload_make(payload, number + i);
        insert(raw, payload);
    }
    run(raw, COMMIT);
}

static void raw_consume(struct link *link, int count)
{
    struct raw *raw = (struct raw *)link;
    sqlite3_stmt *statement = raw->statements[SELECT];
    link->got = 0;
    sqlite3_bind_int64(statement, 1, raw->cursor);
    sqlite3_bind_int64(statement, 2, count);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *payload = (const char *)sqlite3_column_text(statement, 4);
        raw->cursor = sqlite3_column_int64(statement, 0);
        link->got++;
        if (link->received) {
            link->received(payload, link->ctx);
        }
    }
    sqlite3_reset(statement);
    sqlite3_bind_int64(raw->statements[CURSOR], 1, raw->cursor);
    run(raw, CURSOR);
}

static void raw_close(struct link *link)
{
    struct raw *raw = (struct raw *)link;
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(raw->statements[i]);
    }
    sqlite3_close(raw->db);
    free(raw);
}

const struct peer peer_sqlite = {
    .name = "sqlite",
    .open = raw_open,
    .publish = raw_publish,
    .consume = raw_consume,
    .close = raw_close,
};
