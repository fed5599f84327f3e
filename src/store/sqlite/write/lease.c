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
    LEASE_POSITIONS
};

void lease_init(struct lease *lease)
{
    *lease = (struct lease){.piece = LEASE_HELD};
}

void lease_release(struct lease *lease)
{
    mem_free(lease->positions);
    lease->positions = NULL;
    lease->count = 0;
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
    const void *bytes = sqlite3_column_blob(stmt, LEASE_POSITIONS);
    return lease_decode(bytes, (size_t)sqlite3_column_bytes(stmt, LEASE_POSITIONS),
                        lease->positions, lease->count);
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

static void bind_flag(sqlite3_stmt *stmt, int at, bool value)
{
    bind_int(stmt, at, value ? 1 : 0);
}

hf_status lease_store(struct conn *conn, const struct lease *lease)
{
    struct buf list;
    buf_init(&list, LEASE_POSITIONS_MAX * LEASE_VARINT_BYTES_MAX);
    lease_encode(lease->positions, lease->count, &list);
    hf_status status = buf_status(&list);
    sqlite3_stmt *stmt = status == HF_OK ? conn_statement(conn, SQLITE_QUERY_LEASE_PUT) : NULL;
    if (!stmt) {
        buf_release(&list);
        return status ? status : conn_error(conn);
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
    bind_blob(stmt, 12, list.bytes, list.length);
    bind_int(stmt, 13, lease->lease_ms);
    status = conn_run(conn, stmt);
    buf_release(&list);
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
    struct buf list;
    buf_init(&list, LEASE_POSITIONS_MAX * LEASE_VARINT_BYTES_MAX);
    lease_encode(lease->positions, lease->count, &list);
    hf_status status = buf_status(&list);
    sqlite3_stmt *stmt = status == HF_OK ? conn_statement(conn, SQLITE_QUERY_LEASE_CHANGE) : NULL;
    if (!stmt) {
        buf_release(&list);
        return status ? status : conn_error(conn);
    }
    bind_blob(stmt, 1, lease->token, sizeof lease->token);
    bind_int(stmt, 2, lease->expires_at_us);
    bind_int(stmt, 3, (int64_t)lease->count);
    bind_int(stmt, 4, lease->positions[0]);
    bind_blob(stmt, 5, list.bytes, list.length);
    status = conn_run(conn, stmt);
    buf_release(&list);
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
    if (lease->expires_at_us > now_us) {
        lease->expires_at_us = now_us;
    }
    return lease_store(conn, lease);
}
