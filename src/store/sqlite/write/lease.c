/*
 * lease.c - leases: the list of positions, and the row. See lease.h.
 *
 * The token is the fence. A settle must name it; whatever ends a lease (expiry and handing out
 * again, release, the owner's death) gives the row another token or removes it, in the same
 * transaction that hands the events on. So of two processes that believe to have an event exactly
 * one finds its token, and the other gets HF_STALE, however the two interleave: writers of the file
 * come one after another.
 *
 * A decoded list is trusted no further than its checks: a damaged blob answers HF_CORRUPT and is
 * never read beyond its end.
 */
#include "store/sqlite/write/lease.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/uuid.h"
#include "store/sqlite/file/conn.h"
#include "store/sqlite/file/live.h"
#include "store/sqlite/sqlite.h"

/* ---- The list -------------------------------------------------------------------------------- */

static char *put_varint(char *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (char)(uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (char)(uint8_t)value;
    return at;
}

/* Where the number ends; NULL if it does not end before `end` or is too large. */
static const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (int shift = 0; at < end && shift < 7 * LEASE_VARINT_BYTES_MAX; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return at;
        }
    }
    return NULL;
}

void lease_encode(const int64_t *positions, size_t count, struct buf *out)
{
    char *start = buf_reserve(out, count * LEASE_VARINT_BYTES_MAX);
    if (!start) {
        return;
    }
    char *at = start;
    int64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        at = put_varint(at, (uint64_t)(positions[i] - before));
        before = positions[i];
    }
    buf_advance(out, (size_t)(at - start));
}

static hf_status damaged(void)
{
    return fail(HF_CORRUPT, "the list of positions of a lease is damaged");
}

hf_status lease_decode(const void *bytes, size_t length, int64_t *ret_positions, size_t count)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + length;
    int64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = 0;
        at = get_varint(at, end, &distance);
        if (!at || distance == 0 || distance > (uint64_t)(INT64_MAX - before)) {
            return damaged();
        }
        before += (int64_t)distance;
        ret_positions[i] = before;
    }
    return at == end ? HF_OK : damaged();
}

/* Appends how often each of `count` positions was handed out, as the row has it: nothing if each
 * was once, and 0 for a number that is not known. */
static void encode_times(const int32_t *times, size_t count, struct buf *out)
{
    bool again = false;
    for (size_t i = 0; times && i < count; i++) {
        again |= times[i] != 1;
    }
    char *start = again ? buf_reserve(out, count * LEASE_VARINT_BYTES_MAX) : NULL;
    if (!start) {
        return;
    }
    char *at = start;
    for (size_t i = 0; i < count; i++) {
        at = put_varint(at, times[i] < 0 ? 0 : (uint64_t)times[i]);
    }
    buf_advance(out, (size_t)(at - start));
}

/* HF_CORRUPT unless there are exactly `count` numbers, or none. */
static hf_status decode_times(const void *bytes, size_t length, int32_t *ret_times, size_t count)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + length;
    for (size_t i = 0; i < count; i++) {
        uint64_t times = 0;
        at = length > 0 ? get_varint(at, end, &times) : at;
        if ((length > 0 && !at) || times > INT32_MAX) {
            return fail(HF_CORRUPT, "the numbers of hand-outs of a lease are damaged");
        }
        ret_times[i] = times == 0 ? -1 : (int32_t)times;
    }
    return at == end ? HF_OK : fail(HF_CORRUPT, "the numbers of hand-outs of a lease are damaged");
}

size_t lease_find(const int64_t *positions, size_t count, int64_t position)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (positions[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && positions[low] == position ? low : SIZE_MAX;
}

/* ---- The row --------------------------------------------------------------------------------- */

enum lease_column {
    LEASE_SUBSCRIPTION,
    LEASE_EXPIRES_AT,
    LEASE_LEASE_MS,
    LEASE_OWNER,
    LEASE_BOUND,
    LEASE_KEPT,
    LEASE_PIECE,
    LEASE_HAS_RETRIES,
    LEASE_COUNT,
    LEASE_OWNER_NAME,
    LEASE_POSITIONS,
    LEASE_TIMES,
    LEASE_CLAIMED_AT
};

void lease_init(struct lease *lease)
{
    *lease = (struct lease){.piece = LEASE_HELD, .claimed_at_us = -1};
}

void lease_release(struct lease *lease)
{
    mem_free(lease->positions);
    mem_free(lease->times);
    lease->positions = NULL;
    lease->times = NULL;
    lease->count = 0;
}

int32_t lease_times(const struct lease *lease, size_t at)
{
    return lease->times ? lease->times[at] : 1;
}

void lease_move(struct lease *lease, size_t to, size_t from)
{
    lease->positions[to] = lease->positions[from];
    if (lease->times) {
        lease->times[to] = lease->times[from];
    }
}

void lease_cut(struct lease *lease, size_t at)
{
    lease->count--;
    for (size_t i = at; i < lease->count; i++) {
        lease_move(lease, i, i + 1);
    }
}

static hf_status read_times(sqlite3_stmt *stmt, struct lease *lease)
{
    if (column_is_null(stmt, LEASE_TIMES)) {
        return HF_OK;
    }
    lease->times = mem_alloc(lease->count * sizeof *lease->times);
    if (!lease->times) {
        return fail(HF_NOMEM, "no memory for a lease of %zu events", lease->count);
    }
    const void *bytes = sqlite3_column_blob(stmt, LEASE_TIMES);
    return decode_times(bytes, (size_t)sqlite3_column_bytes(stmt, LEASE_TIMES), lease->times,
                        lease->count);
}

static hf_status lease_read(sqlite3_stmt *stmt, struct lease *lease)
{
    int64_t count = sqlite3_column_int64(stmt, LEASE_COUNT);
    if (count < 1 || count > LEASE_POSITIONS_MAX) {
        return damaged();
    }
    lease->positions = mem_alloc((size_t)count * sizeof *lease->positions);
    if (!lease->positions) {
        return fail(HF_NOMEM, "no memory for a lease of %lld events", (long long)count);
    }
    lease->count = (size_t)count;
    lease->subscription_id = sqlite3_column_int64(stmt, LEASE_SUBSCRIPTION);
    lease->expires_at_us = sqlite3_column_int64(stmt, LEASE_EXPIRES_AT);
    lease->lease_ms = sqlite3_column_int64(stmt, LEASE_LEASE_MS);
    lease->owned = column_blob(stmt, LEASE_OWNER, lease->owner, sizeof lease->owner);
    lease->bound = sqlite3_column_int(stmt, LEASE_BOUND) != 0;
    lease->kept = sqlite3_column_int(stmt, LEASE_KEPT) != 0;
    lease->piece = (int32_t)column_int(stmt, LEASE_PIECE, LEASE_HELD);
    lease->has_retries = sqlite3_column_int(stmt, LEASE_HAS_RETRIES) != 0;
    snprintf(lease->owner_name, sizeof lease->owner_name, "%" TEXT_PRI,
             TEXT_ARG(column_text(stmt, LEASE_OWNER_NAME)));
    lease->claimed_at_us = column_int(stmt, LEASE_CLAIMED_AT, -1);
    const void *bytes = sqlite3_column_blob(stmt, LEASE_POSITIONS);
    hf_status status = lease_decode(bytes, (size_t)sqlite3_column_bytes(stmt, LEASE_POSITIONS),
                                    lease->positions, lease->count);
    return status ? status : read_times(stmt, lease);
}

hf_status lease_load(struct conn *conn, const uint8_t token[STORE_TOKEN_BYTES],
                     struct lease *ret_lease)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_GET);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, token, STORE_TOKEN_BYTES);
    bool row;
    hf_status status = conn_row(conn, stmt, &row);
    if (status) {
        return status;
    }
    if (!row) {
        return HF_NOTFOUND;
    }
    struct lease lease;
    lease_init(&lease);
    memcpy(lease.token, token, sizeof lease.token);
    status = lease_read(stmt, &lease);
    conn_done(stmt);
    if (status) {
        lease_release(&lease);
        return status;
    }
    lease_release(ret_lease);
    *ret_lease = lease;
    return HF_OK;
}

bool lease_is_over(struct sqlite_engine *engine, const struct lease *lease, int64_t now_us)
{
    if (lease->piece != LEASE_HELD || (!lease->kept && lease->expires_at_us <= now_us)) {
        return true;
    }
    if (!lease->owned || !(lease->bound || lease->kept)) {
        return false;
    }
    enum live_state state = live_state(engine, lease->owner, INT64_MAX);
    return state == LIVE_DEAD || state == LIVE_GONE;
}

static void bind_flag(sqlite3_stmt *stmt, int at, bool value)
{
    bind_int(stmt, at, value ? 1 : 0);
}

/* The two lists of a row. */
struct lists {
    struct buf positions;
    struct buf times;
};

static void lists_release(struct lists *lists)
{
    buf_release(&lists->positions);
    buf_release(&lists->times);
}

/* Encodes the lists and binds them to the statement of a row; the caller releases them when it has
 * run. NULL: it failed, *ret_status says why, and nothing is to be released. */
static sqlite3_stmt *bind_lists(struct conn *conn, enum sqlite_query query,
                                const struct lease *lease, int positions_at, int times_at,
                                struct lists *lists, hf_status *ret_status)
{
    buf_init(&lists->positions, LEASE_POSITIONS_MAX * LEASE_VARINT_BYTES_MAX);
    buf_init(&lists->times, LEASE_POSITIONS_MAX * LEASE_VARINT_BYTES_MAX);
    lease_encode(lease->positions, lease->count, &lists->positions);
    encode_times(lease->times, lease->count, &lists->times);
    *ret_status = buf_status(&lists->positions);
    *ret_status = *ret_status ? *ret_status : buf_status(&lists->times);
    sqlite3_stmt *stmt = *ret_status == HF_OK ? conn_statement(conn, query) : NULL;
    if (!stmt) {
        *ret_status = *ret_status ? *ret_status : conn_error(conn);
        lists_release(lists);
        return NULL;
    }
    bind_blob(stmt, positions_at, lists->positions.bytes, lists->positions.length);
    if (lists->times.length > 0) {
        bind_blob(stmt, times_at, lists->times.bytes, lists->times.length);
    }
    return stmt;
}

hf_status lease_store(struct conn *conn, const struct lease *lease)
{
    struct lists lists;
    hf_status status;
    sqlite3_stmt *stmt = bind_lists(conn, SQLITE_QUERY_LEASE_PUT, lease, 12, 14, &lists, &status);
    if (!stmt) {
        return status;
    }
    bind_blob(stmt, 1, lease->token, sizeof lease->token);
    bind_int(stmt, 2, lease->subscription_id);
    bind_int(stmt, 3, lease->expires_at_us);
    bind_blob(stmt, 4, lease->owned ? lease->owner : NULL, sizeof lease->owner);
    bind_flag(stmt, 5, lease->bound);
    bind_flag(stmt, 6, lease->kept);
    if (lease->piece != LEASE_HELD) {
        bind_int(stmt, 7, lease->piece);
    }
    bind_flag(stmt, 8, lease->has_retries);
    bind_int(stmt, 9, (int64_t)lease->count);
    bind_int(stmt, 10, lease->positions[0]);
    bind_text(stmt, 11, lease->owner_name[0] ? text_of(lease->owner_name) : TEXT_ABSENT);
    bind_int(stmt, 13, lease->lease_ms);
    if (lease->claimed_at_us >= 0) {
        bind_int(stmt, 15, lease->claimed_at_us);
    }
    status = conn_run(conn, stmt);
    lists_release(&lists);
    return status;
}

hf_status lease_remove(struct conn *conn, const struct lease *lease)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_LEASE_REMOVE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_blob(stmt, 1, lease->token, sizeof lease->token);
    return conn_run(conn, stmt);
}

hf_status lease_update(struct conn *conn, const struct lease *lease)
{
    if (lease->count == 0) {
        return lease_remove(conn, lease);
    }
    struct lists lists;
    hf_status status;
    sqlite3_stmt *stmt = bind_lists(conn, SQLITE_QUERY_LEASE_CHANGE, lease, 5, 6, &lists, &status);
    if (!stmt) {
        return status;
    }
    bind_blob(stmt, 1, lease->token, sizeof lease->token);
    bind_int(stmt, 2, lease->expires_at_us);
    bind_int(stmt, 3, (int64_t)lease->count);
    bind_int(stmt, 4, lease->positions[0]);
    status = conn_run(conn, stmt);
    lists_release(&lists);
    return status;
}

hf_status lease_set_free(struct conn *conn, struct lease *lease, int32_t piece, int64_t now_us)
{
    hf_status status = lease_remove(conn, lease);
    if (status || lease->count == 0) {
        return status;
    }
    random_bytes(lease->token, sizeof lease->token);
    lease->owned = false;
    lease->bound = false;
    lease->kept = false;
    lease->piece = piece;
    lease->claimed_at_us = -1;
    if (lease->expires_at_us > now_us) {
        lease->expires_at_us = now_us;
    }
    return lease_store(conn, lease);
}
