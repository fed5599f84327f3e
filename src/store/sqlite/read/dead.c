/*
 * dead.c - looking at dead letters: one, lists, their number, and groups.
 *
 * Lists are read in the order of numbers from one of three indexes; a type's pattern and the
 * error's text are compared row by row, before the large columns are fetched. A listing reads one
 * snapshot; its callback may change what is listed.
 *
 * Groups are made of the kinds, whose letters are counted along (write/outcome.h): of each kind its
 * newest letter says what the kind is, and the first and the last come from an index. So a group
 * costs what its kinds cost, however many letters there are. Conditions that hold for some letters
 * of a kind and not for others (times, numbers, resolved ones) are answered by reading the list.
 */
#include "base/err.h"
#include "base/text/glob.h"
#include "store/common/dead_groups.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"

/* ---- Listing --------------------------------------------------------------------------------- */

static hf_status hand_up(sqlite3_stmt *stmt, hf_dead_letter_fn found, void *ctx, int *ret_answer)
{
    char id_text[HF_ID_BYTES];
    hf_dead_letter letter = {
        .dead_id = sqlite3_column_int64(stmt, DEAD_ID),
        .subscription = column_text(stmt, DEAD_SUBSCRIPTION).bytes,
        .reason = column_text(stmt, DEAD_REASON).bytes,
        .error = column_text(stmt, DEAD_ERROR).bytes,
        .attempts = sqlite3_column_int(stmt, DEAD_ATTEMPTS),
        .attempts_json = column_text(stmt, DEAD_STORY).bytes,
        .failed_at_us = sqlite3_column_int64(stmt, DEAD_FAILED_AT),
        .resolved_at_us = column_int(stmt, DEAD_RESOLVED_AT, -1),
        .resolved_by = column_text(stmt, DEAD_RESOLVED_BY).bytes,
        .resolved_note = column_text(stmt, DEAD_RESOLVED_NOTE).bytes,
        .cause = column_text(stmt, DEAD_CAUSE).bytes,
    };
    hf_status status = row_event(stmt, id_text, &letter.event);
    letter.event.deliveries = (int32_t)column_int(stmt, DEAD_DELIVERIES, -1);
    if (!status) {
        *ret_answer = found(&letter, ctx);
    }
    return status;
}

hf_status sqlite_dead_get(struct engine *engine, int64_t dead_id, hf_dead_letter_fn found,
                          void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take(self, &conn);
    if (status) {
        return status;
    }
    sqlite3_stmt *stmt = NULL;
    status = row_dead(self, conn, dead_id, &stmt);
    if (!status && stmt) {
        int answer;
        status = hand_up(stmt, found, ctx, &answer);
        conn_done(stmt);
    } else if (!status) {
        status = fail(HF_NOTFOUND, "there is no dead letter %lld", (long long)dead_id);
    }
    pool_give(self, conn);
    return status;
}

/* The statement whose index serves the query best. */
static enum sqlite_query list_statement(const struct dead_query *query)
{
    if (query->resolved_too) {
        return query->oldest_first ? SQLITE_QUERY_DEAD_ALL_OLDEST : SQLITE_QUERY_DEAD_ALL_NEWEST;
    }
    if (text_is_absent(query->subscription)) {
        return query->oldest_first ? SQLITE_QUERY_DEAD_OPEN_OLDEST : SQLITE_QUERY_DEAD_OPEN_NEWEST;
    }
    return query->oldest_first ? SQLITE_QUERY_DEAD_OPEN_OF_OLDEST
                               : SQLITE_QUERY_DEAD_OPEN_OF_NEWEST;
}

/* Columns of the list statements: id, type, reason, error, failed_at. */
static bool matches(sqlite3_stmt *stmt, const struct dead_query *query)
{
    int64_t failed_at_us = sqlite3_column_int64(stmt, 4);
    if ((query->failed_before_us >= 0 && failed_at_us > query->failed_before_us) ||
        (query->failed_after_us >= 0 && failed_at_us < query->failed_after_us)) {
        return false;
    }
    if (!text_is_absent(query->reason) && !text_equal(query->reason, column_text(stmt, 2))) {
        return false;
    }
    if (!text_is_absent(query->type) && !glob_match(query->type, column_text(stmt, 1))) {
        return false;
    }
    if (text_is_absent(query->error)) {
        return true;
    }
    struct text error = column_text(stmt, 3);
    return error.bytes &&
           memmem(error.bytes, error.length, query->error.bytes, query->error.length);
}

/* The statement of the listing with its parameters; NULL: conn_error says why not. */
static sqlite3_stmt *begin_list(struct sqlite_engine *engine, struct conn *conn,
                                const struct dead_query *query)
{
    sqlite3_stmt *stmt = conn_statement(conn, list_statement(query));
    if (stmt) {
        bind_int(stmt, 1, engine->namespace_id);
        bind_int(stmt, 2, query->after_dead_id >= 0 ? query->after_dead_id : 0);
        bind_int(stmt, 3, query->before_dead_id >= 0 ? query->before_dead_id : INT64_MAX);
        if (sqlite3_bind_parameter_count(stmt) >= 4) {
            bind_text(stmt, 4, query->subscription);
        }
    }
    return stmt;
}

/* Hands up the letter that a row of the listing names, if it is still there. */
static hf_status hand_up_row(struct sqlite_engine *engine, struct conn *conn, sqlite3_stmt *stmt,
                             hf_dead_letter_fn found, void *ctx, int *answer)
{
    sqlite3_stmt *letter = NULL;
    hf_status status = row_dead(engine, conn, sqlite3_column_int64(stmt, 0), &letter);
    if (!status && letter) {
        status = hand_up(letter, found, ctx, answer);
        conn_done(letter);
    }
    return status;
}

/* Hands up what matches, or only counts it if `found` is NULL. */
static hf_status list(struct sqlite_engine *engine, struct conn *conn,
                      const struct dead_query *query, hf_dead_letter_fn found, void *ctx,
                      int64_t *ret_count)
{
    sqlite3_stmt *stmt = begin_list(engine, conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    int64_t skip = query->offset > 0 ? query->offset : 0;
    int64_t count = 0;
    int answer = 0;
    hf_status status = HF_OK;
    while (!status && answer == 0 && (query->limit < 0 || count < query->limit)) {
        bool row;
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        if (!matches(stmt, query) || skip-- > 0) {
            continue;
        }
        count++;
        if (found) {
            status = hand_up_row(engine, conn, stmt, found, ctx, &answer);
        }
    }
    conn_done(stmt);
    *ret_count = count;
    return status;
}

hf_status sqlite_dead_list(struct engine *engine, const struct dead_query *query,
                           hf_dead_letter_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t count;
    status = list(self, conn, query, found, ctx, &count);
    pool_give(self, conn);
    return status;
}

/* All open ones: the index alone counts them. */
static bool is_all_open(const struct dead_query *query)
{
    return text_is_absent(query->subscription) && text_is_absent(query->type) &&
           text_is_absent(query->error) && text_is_absent(query->reason) &&
           query->failed_before_us < 0 && query->failed_after_us < 0 && query->before_dead_id < 0 &&
           query->after_dead_id < 0 && !query->resolved_too && query->limit < 0 &&
           query->offset == 0;
}

hf_status sqlite_dead_count(struct engine *engine, const struct dead_query *query,
                            int64_t *ret_count)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct conn *conn;
    hf_status status = pool_take_snapshot(self, &conn);
    if (status) {
        return status;
    }
    int64_t count = 0;
    bool found;
    status = is_all_open(query) ? STATEMENT_INT(conn, SQLITE_QUERY_DEAD_COUNT_OPEN, &found, &count,
                                                self->namespace_id)
                                : list(self, conn, query, NULL, NULL, &count);
    pool_give(self, conn);
    if (!status) {
        *ret_count = count;
    }
    return status;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* What the group of a letter is called. Columns of the list statements. */
static struct text text_by(sqlite3_stmt *stmt, hf_dead_by by)
{
    static const int columns[] = {[HF_DEAD_BY_ERROR] = 3,
                                  [HF_DEAD_BY_TYPE] = 1,
                                  [HF_DEAD_BY_SUBSCRIPTION] = 5,
                                  [HF_DEAD_BY_REASON] = 2};
    return column_text(stmt, columns[by]);
}

static hf_status group_kind(struct sqlite_engine *engine, struct conn *conn,
                            const struct dead_query *query, hf_dead_by by, int64_t kind,
                            int64_t letters, struct dead_groups *groups)
{
    sqlite3_stmt *newest = conn_statement(conn, SQLITE_QUERY_DEAD_KIND_NEWEST);
    sqlite3_stmt *oldest = newest ? conn_statement(conn, SQLITE_QUERY_DEAD_KIND_OLDEST) : NULL;
    if (!oldest) {
        return conn_error(conn);
    }
    bind_int(newest, 1, engine->namespace_id);
    bind_int(newest, 2, kind);
    bool row;
    hf_status status = conn_row(conn, newest, &row);
    if (status || !row || !matches(newest, query) ||
        (!text_is_absent(query->subscription) &&
         !text_equal(query->subscription, column_text(newest, 5)))) {
        conn_done(newest);
        return status;
    }
    bind_int(oldest, 1, engine->namespace_id);
    bind_int(oldest, 2, kind);
    status = conn_row(conn, oldest, &row);
    if (!status && row) {
        struct dead_part part = {
            .text = text_by(newest, by),
            .letters = letters,
            .newest_id = sqlite3_column_int64(newest, 0),
            .newest_us = sqlite3_column_int64(newest, 4),
            .oldest_id = sqlite3_column_int64(oldest, 0),
            .oldest_us = sqlite3_column_int64(oldest, 1),
        };
        status = dead_groups_add(groups, &part);
        conn_done(oldest);
    }
    conn_done(newest);
    return status;
}

static hf_status group_kinds(struct sqlite_engine *engine, struct conn *conn,
                             const struct dead_query *query, hf_dead_by by,
                             struct dead_groups *groups)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_DEAD_KINDS_LARGEST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, engine->namespace_id);
    bind_int(stmt, 2, STORE_DEAD_KINDS_MAX + 1);
    bool row = true;
    int64_t seen = 0;
    hf_status status = HF_OK;
    while (!status && seen <= STORE_DEAD_KINDS_MAX) {
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        if (++seen > STORE_DEAD_KINDS_MAX) {
            groups->more = true;
        } else {
            status = group_kind(engine, conn, query, by, sqlite3_column_int64(stmt, 0),
                                sqlite3_column_int64(stmt, 1), groups);
        }
    }
    conn_done(stmt);
    return status;
}

/* All that match are read, in the order of the list. */
static hf_status group_letters(struct sqlite_engine *engine, struct conn *conn,
                               const struct dead_query *query, hf_dead_by by,
                               struct dead_groups *groups)
{
    sqlite3_stmt *stmt = begin_list(engine, conn, query);
    if (!stmt) {
        return conn_error(conn);
    }
    hf_status status = HF_OK;
    while (!status) {
        bool row;
        status = conn_row(conn, stmt, &row);
        if (status || !row) {
            break;
        }
        if (!matches(stmt, query)) {
            continue;
        }
        struct dead_part part = {
            .text = text_by(stmt, by),
            .letters = 1,
            .newest_id = sqlite3_column_int64(stmt, 0),
            .newest_us = sqlite3_column_int64(stmt, 4),
            .oldest_id = sqlite3_column_int64(stmt, 0),
            .oldest_us = sqlite3_column_int64(stmt, 4),
        };
        status = dead_groups_add(groups, &part);
    }
    conn_done(stmt);
    return status;
}

hf_status sqlite_dead_groups(struct engine *engine, const struct dead_query *query, hf_dead_by by,
                             hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct dead_groups groups;
    struct conn *conn;
    hf_status status = dead_groups_init(&groups);
    if (!status) {
        status = pool_take_snapshot(self, &conn);
    }
    if (!status) {
        status = dead_query_is_of_kinds(query) ? group_kinds(self, conn, query, by, &groups)
                                               : group_letters(self, conn, query, by, &groups);
        pool_give(self, conn);
    }
    if (!status) {
        dead_groups_show(&groups, query->limit, query->offset, found, ctx, ret_totals);
    }
    dead_groups_release(&groups);
    return status;
}
