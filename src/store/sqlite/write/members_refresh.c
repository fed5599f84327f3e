/*
 * members_refresh.c - who works for an ordered subscription: its members, and whose its partitions
 * are.
 *
 * A member is a row with the token of a process; whether that process lives is not in the row but
 * asked each time (live.h), so a member that was killed is struck off by the next one that looks,
 * and one that froze after a lease. One that was struck off while it was frozen finds out when it
 * refreshes next: it is a member again, the newest.
 *
 * Everything happens in one write transaction, so what is answered is one moment. Two members that
 * refresh the members at the same time therefore see each other, one of them before the other's
 * change; the change rings, so that one looks again.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/ranges.h"
#include "store/claimants.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/partition.h"

#define ROLL_BYTES_MAX (STORE_MEMBERS_MAX * RANGES_BYTES_MAX)

struct roll {
    struct arena arena; /* the texts below */
    bool changed;       /* a member has joined, left or been struck off */
    size_t count;
    uint8_t tokens[STORE_MEMBERS_MAX][STORE_TOKEN_BYTES];
    struct text assigned[STORE_MEMBERS_MAX];
};

static hf_status add(struct conn *conn, struct roll *roll, const struct members_refresh *refresh,
                     const uint8_t token[STORE_TOKEN_BYTES])
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_MEMBER_ADD);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, refresh->subscription_id);
    bind_blob(stmt, 2, token, STORE_TOKEN_BYTES);
    bind_text(stmt, 3, refresh->assigned);
    memcpy(roll->tokens[roll->count], token, STORE_TOKEN_BYTES);
    roll->assigned[roll->count++] = refresh->assigned;
    roll->changed = true;
    return conn_run(conn, stmt);
}

static hf_status strike(struct conn *conn, struct roll *roll, int64_t subscription_id,
                        const uint8_t token[STORE_TOKEN_BYTES])
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_MEMBER_REMOVE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bind_blob(stmt, 2, token, STORE_TOKEN_BYTES);
    roll->changed = true;
    return conn_run(conn, stmt);
}

static hf_status read_roll(struct conn *conn, int64_t subscription_id, struct roll *roll)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_MEMBER_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, subscription_id);
    bool row = true;
    hf_status status = HF_OK;
    while (roll->count < STORE_MEMBERS_MAX) {
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        if (column_blob(stmt, 0, roll->tokens[roll->count], STORE_TOKEN_BYTES)) {
            roll->assigned[roll->count++] = arena_text(&roll->arena, column_text(stmt, 1));
        }
    }
    conn_done(stmt);
    return arena_status(&roll->arena);
}

/* Strikes off those who do not live, and us if we leave or want something else than before. */
static hf_status strike_off(struct sqlite_engine *engine, struct conn *conn,
                            const struct members_refresh *refresh, struct roll *roll)
{
    size_t kept = 0;
    hf_status status = HF_OK;
    for (size_t i = 0; !status && i < roll->count; i++) {
        const uint8_t *token = roll->tokens[i];
        enum live_state state = live_state(engine, token, refresh->lease_ms);
        bool same = text_equal(roll->assigned[i], refresh->assigned);
        if (state == LIVE_ALIVE || (state == LIVE_SELF && !refresh->leaves && same)) {
            roll->assigned[kept] = roll->assigned[i];
            memmove(roll->tokens[kept++], token, STORE_TOKEN_BYTES);
        } else {
            status = strike(conn, roll, refresh->subscription_id, token);
        }
    }
    roll->count = kept;
    return status;
}

/* The place in the roll; -1: not in it. */
static int32_t find(const struct roll *roll, const uint8_t token[STORE_TOKEN_BYTES])
{
    for (size_t i = 0; i < roll->count; i++) {
        if (memcmp(roll->tokens[i], token, STORE_TOKEN_BYTES) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

static hf_status join(struct sqlite_engine *engine, struct conn *conn,
                      const struct members_refresh *refresh, struct roll *roll)
{
    if (refresh->leaves || find(roll, engine->token) >= 0) {
        return HF_OK;
    }
    if (roll->count == STORE_MEMBERS_MAX) {
        return fail(HF_BUSY, "%d processes work for this subscription already, which is the limit",
                    STORE_MEMBERS_MAX);
    }
    return add(conn, roll, refresh, engine->token);
}

/* Whose a partition is, as struct members_refresh says it. */
static int32_t owner_of(struct sqlite_engine *engine, const struct roll *roll, bool owned,
                        const uint8_t owner[STORE_TOKEN_BYTES], int64_t lease_ms)
{
    if (!owned) {
        return MEMBERS_REFRESH_FREE;
    }
    int32_t member = find(roll, owner);
    if (member >= 0) {
        return member;
    }
    enum live_state state = live_state(engine, owner, lease_ms);
    return state == LIVE_SELF    ? MEMBERS_REFRESH_SELF
           : state == LIVE_ALIVE ? MEMBERS_REFRESH_OTHER
                                 : MEMBERS_REFRESH_FREE;
}

static hf_status read_owners(struct sqlite_engine *engine, struct conn *conn,
                             struct members_refresh *refresh, const struct roll *roll)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, refresh->subscription_id);
    refresh->ret_partitions = 0;
    refresh->ret_lowest = INT64_MAX;
    refresh->ret_highest = 0;
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        if (refresh->ret_partitions == HF_PARTITIONS_MAX) {
            conn_done(stmt);
            return fail(HF_CORRUPT, "the subscription has more than %d partitions",
                        HF_PARTITIONS_MAX);
        }
        int64_t checkpoint = sqlite3_column_int64(stmt, 1);
        refresh->ret_lowest = checkpoint < refresh->ret_lowest ? checkpoint : refresh->ret_lowest;
        refresh->ret_highest =
            checkpoint > refresh->ret_highest ? checkpoint : refresh->ret_highest;
        uint8_t owner[STORE_TOKEN_BYTES];
        bool owned = column_blob(stmt, 4, owner, sizeof owner);
        int32_t whose = owner_of(engine, roll, owned, owner, refresh->lease_ms);
        refresh->ret_owners[refresh->ret_partitions++] = whose;
        if (refresh->ret_other_name[0] == '\0' &&
            (whose == MEMBERS_REFRESH_OTHER ||
             (whose >= 0 && memcmp(owner, engine->token, sizeof owner) != 0))) {
            snprintf(refresh->ret_other_name, sizeof refresh->ret_other_name, "%" TEXT_PRI,
                     TEXT_ARG(column_text(stmt, 5)));
        }
    }
}

static hf_status read_members(struct conn *conn, struct members_refresh *refresh, bool changed,
                              bool others)
{
    hf_status status = HF_OK;
    if (changed) {
        conn->ring = others ? RING_ALL : conn->ring;
        status = STATEMENT_RUN(conn, SQLITE_QUERY_MEMBERS_CHANGED, refresh->subscription_id);
    }
    bool found;
    return status ? status
                  : STATEMENT_INT(conn, SQLITE_QUERY_MEMBERS_GET, &found,
                                  &refresh->ret_members_version, refresh->subscription_id);
}

hf_status sqlite_members_refresh(struct sqlite_engine *engine, struct conn *conn,
                                 struct members_refresh *refresh)
{
    struct partition partition;
    hf_status status = partition_load(engine, conn, refresh->subscription_id, 0, &partition);
    if (!status && partition.mode != HF_MODE_ORDERED) {
        status = fail(HF_MISUSE, "a shared subscription has no members");
    }
    if (status) {
        return status;
    }
    struct roll *roll = mem_calloc(1, sizeof *roll);
    if (!roll) {
        return fail(HF_NOMEM, "no memory for the members of a subscription");
    }
    arena_init(&roll->arena, ROLL_BYTES_MAX);
    status = read_roll(conn, refresh->subscription_id, roll);
    if (!status) {
        status = strike_off(engine, conn, refresh, roll);
    }
    if (!status) {
        status = join(engine, conn, refresh, roll);
    }
    if (!status) {
        status = read_owners(engine, conn, refresh, roll);
    }
    if (!status) {
        size_t self = find(roll, engine->token) >= 0 ? 1 : 0;
        status = read_members(conn, refresh, roll->changed, roll->count > self);
    }
    if (!status) {
        refresh->ret_members = (int32_t)roll->count;
        refresh->ret_self = find(roll, engine->token);
        claimants_init(&refresh->ret_claimants);
        for (size_t i = 0; i < roll->count; i++) {
            claimants_note(&refresh->ret_claimants, (int32_t)i, roll->assigned[i]);
        }
    }
    arena_release(&roll->arena);
    mem_free(roll);
    return status;
}
