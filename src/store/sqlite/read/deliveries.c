/*
 * deliveries.c - for people who look: what waits for its next attempt, what is held behind it, and
 * what runs (store/deliveries.h).
 *
 * Retries are in an index by partition, kind and time. A page is merged from all partitions: each
 * is read until it has nothing that comes before the last one of a full page, so that the cost is
 * that of the page and of the number of partitions. Only then the rows themselves are read.
 *
 * What runs is in the notes of the processes that own a partition. Each process is asked once.
 */
#include "store/deliveries.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/sqlite/file/row.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/verbs.h"
#include "store/sqlite/write/subscription.h"

/* ---- A page in the making -------------------------------------------------------------------- */

/* A delivery that may be on the page; `rank` goes before the position. */
struct place {
    int64_t rank;
    int64_t position;
    int64_t since_us; /* of what runs */
    size_t owner;     /* of what runs */
};

/* The first `max` of all that were offered, in order. */
struct page {
    struct place *places;
    size_t count;
    size_t max;
};

static hf_status page_init(struct page *page, int32_t max)
{
    *page = (struct page){.max = (size_t)max};
    page->places = mem_calloc(page->max, sizeof *page->places);
    return page->places ? HF_OK : fail(HF_NOMEM, "no memory for a list of deliveries");
}

static bool comes_before(const struct place *one, const struct place *other)
{
    return one->rank != other->rank ? one->rank < other->rank : one->position < other->position;
}

/* False: the page is full, and nothing that comes after this one can get on it. */
static bool page_offer(struct page *page, struct place place)
{
    if (page->count == page->max && !comes_before(&place, &page->places[page->count - 1])) {
        return false;
    }
    size_t at = page->count < page->max ? page->count++ : page->count - 1;
    for (; at > 0 && comes_before(&place, &page->places[at - 1]); at--) {
        page->places[at] = page->places[at - 1];
    }
    page->places[at] = place;
    return true;
}

/* Offers what a statement has, whose columns are the position and, if `ranked`, before it the
 * rank. */
static hf_status page_take(struct page *page, struct conn *conn, sqlite3_stmt *stmt, bool ranked)
{
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        struct place place = {
            .rank = ranked ? sqlite3_column_int64(stmt, 0) : 0,
            .position = sqlite3_column_int64(stmt, ranked ? 1 : 0),
        };
        if (!page_offer(page, place)) {
            conn_done(stmt);
            return HF_OK;
        }
    }
}

/* Reads the event of a delivery, whose texts last until conn_done(*ret_stmt). */
static hf_status label_event(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                             int64_t position, struct event_label *label, sqlite3_stmt **ret_stmt)
{
    hf_status status = row_find(engine, conn, id, position, true, ret_stmt);
    sqlite3_stmt *event = *ret_stmt;
    if (!status && event) {
        label->known = column_blob(event, ROW_ID, label->id, sizeof label->id);
        label->type = row_type(event);
        label->key = column_text(event, ROW_KEY);
        label->tenant = column_text(event, ROW_TENANT);
    }
    return status;
}

/* ---- Retries --------------------------------------------------------------------------------- */

static hf_status take_due(struct conn *conn, const struct retry_query *query, int32_t partition,
                          enum retry_kind kind, struct page *page)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRIES_PAGE);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, query->subscription_id);
    bind_int(stmt, 2, partition);
    bind_int(stmt, 3, kind);
    bind_int(stmt, 4, query->after < 0 ? INT64_MIN : query->after_due);
    bind_int(stmt, 5, query->after);
    bind_int(stmt, 6, query->max);
    return page_take(page, conn, stmt, true);
}

static hf_status take_behind(struct conn *conn, const struct retry_query *query, struct page *page)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRIES_BEHIND);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, query->subscription_id);
    bind_int(stmt, 2, query->behind);
    bind_int(stmt, 3, query->after);
    bind_int(stmt, 4, query->max);
    return page_take(page, conn, stmt, false);
}

static hf_status take_retries(struct conn *conn, const struct about *about,
                              const struct retry_query *query, struct page *page)
{
    bool shared = about->mode == HF_MODE_SHARED;
    if (query->behind >= 0) {
        return shared ? HF_OK : take_behind(conn, query, page);
    }
    hf_status status = HF_OK;
    for (int32_t i = 0; i < (shared ? 1 : about->partitions) && !status; i++) {
        status = take_due(conn, query, i, RETRY_WAITING, page);
    }
    /* Only shared subscriptions have rows of that kind. */
    return !status && shared ? take_due(conn, query, 0, RETRY_ALONE, page) : status;
}

/* Reads the row at a position and hands it up. */
static hf_status tell_retry(struct sqlite_engine *engine, struct conn *conn,
                            const struct about *about, const struct retry_query *query,
                            int64_t position, waiting_row_fn found, void *ctx, bool *ret_stop)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_RETRY_LOOK);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, about->id);
    bind_int(stmt, 2, position);
    bind_int(stmt, 3, query->held_max + 1);
    bool there;
    hf_status status = conn_row(conn, stmt, &there);
    if (status || !there) {
        return status;
    }
    bool shared = about->mode == HF_MODE_SHARED;
    struct waiting_row row = {
        .position = position,
        .kind = (enum retry_kind)sqlite3_column_int(stmt, 0),
        .partition = sqlite3_column_int(stmt, 1),
        .attempts = sqlite3_column_int(stmt, 2),
        .due = sqlite3_column_int64(stmt, 3),
        .next_attempt_us = sqlite3_column_int64(stmt, 3),
        .failed_at_us = column_int(stmt, 4, -1),
        .story = column_text(stmt, 5),
        .cause = cause_of(column_text(stmt, 6)),
        .first = shared ? position : sqlite3_column_int64(stmt, 7),
        .held = shared ? 0 : sqlite3_column_int64(stmt, 8),
    };
    sqlite3_stmt *event = NULL;
    status = label_event(engine, conn, about->id, position, &row.event, &event);
    if (!status) {
        *ret_stop = found(&row, ctx) != 0;
    }
    if (event) {
        conn_done(event);
    }
    conn_done(stmt);
    return status;
}

static hf_status list_retries(struct sqlite_engine *engine, struct conn *conn,
                              const struct retry_query *query, struct page *page,
                              waiting_row_fn found, void *ctx)
{
    struct about about;
    hf_status status = subscription_about(engine, conn, query->subscription_id, &about);
    if (!status) {
        status = take_retries(conn, &about, query, page);
    }
    bool stop = false;
    for (size_t i = 0; i < page->count && !status && !stop; i++) {
        status =
            tell_retry(engine, conn, &about, query, page->places[i].position, found, ctx, &stop);
    }
    return status;
}

hf_status sqlite_retry_list(struct engine *engine, const struct retry_query *query,
                            waiting_row_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct page page;
    struct conn *conn;
    hf_status status = page_init(&page, query->max);
    if (status) {
        return status;
    }
    status = pool_take_snapshot(self, &conn);
    if (!status) {
        status = list_retries(self, conn, query, &page, found, ctx);
        pool_give(self, conn);
    }
    mem_free(page.places);
    return status;
}

/* ---- What runs ------------------------------------------------------------------------------- */

/* A process that owns a partition. */
struct owner_seen {
    uint8_t token[STORE_TOKEN_BYTES];
    char name[HF_PRODUCER_BYTES_MAX + 1];
    struct live_place place;
};

struct running_look {
    struct page page;
    int64_t after;
    struct owner_seen *owners; /* STORE_MEMBERS_MAX of them */
    size_t owner_count;
};

static hf_status take_note(const struct handler_note *note, void *ctx)
{
    struct running_look *look = ctx;
    if (note->position > look->after) {
        page_offer(&look->page, (struct place){.position = note->position,
                                               .since_us = note->now_us > 0 ? note->now_us : -1,
                                               .owner = look->owner_count - 1});
    }
    return HF_OK;
}

/* Partitions of one owner mostly stand together; one that comes up again is found. */
static bool is_seen(const struct running_look *look, const uint8_t token[STORE_TOKEN_BYTES])
{
    for (size_t i = look->owner_count; i > 0; i--) {
        if (memcmp(look->owners[i - 1].token, token, STORE_TOKEN_BYTES) == 0) {
            return true;
        }
    }
    return look->owner_count == STORE_MEMBERS_MAX;
}

/* Takes the notes of the owner in the row of a partition, if it lives. */
static hf_status take_owner(struct sqlite_engine *engine, int64_t subscription_id,
                            sqlite3_stmt *stmt, struct running_look *look)
{
    uint8_t token[STORE_TOKEN_BYTES];
    if (!column_blob(stmt, 4, token, sizeof token) || is_seen(look, token) ||
        !sqlite_owner_is_alive(engine, token)) {
        return HF_OK;
    }
    struct owner_seen *owner = &look->owners[look->owner_count++];
    memcpy(owner->token, token, sizeof token);
    snprintf(owner->name, sizeof owner->name, "%" TEXT_PRI, TEXT_ARG(column_text(stmt, 5)));
    live_place(engine, token, &owner->place);
    bool exact;
    int32_t running;
    return live_notes(engine, token, subscription_id, take_note, look, &exact, &running);
}

static hf_status take_owners(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                             struct running_look *look)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PARTITION_LIST);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, id);
    for (;;) {
        bool row;
        hf_status status = conn_row(conn, stmt, &row);
        if (status || !row) {
            return status;
        }
        status = take_owner(engine, id, stmt, look);
        if (status) {
            conn_done(stmt);
            return status;
        }
    }
}

static hf_status tell_running(struct sqlite_engine *engine, struct conn *conn,
                              const struct about *about, const struct running_look *look,
                              const struct place *place, handler_row_fn found, void *ctx,
                              bool *ret_stop)
{
    const struct owner_seen *owner = &look->owners[place->owner];
    struct handler_row row = {
        .position = place->position,
        .partition = -1,
        .since_us = place->since_us,
        .node = text_of(owner->name),
        .host = owner->place.host[0] ? text_of(owner->place.host) : TEXT_ABSENT,
        .pid = owner->place.pid,
    };
    sqlite3_stmt *event = NULL;
    hf_status status = label_event(engine, conn, about->id, place->position, &row.event, &event);
    if (!status && event) {
        row.partition = hash_slice(row_hash(event), about->partitions);
    }
    if (!status) {
        *ret_stop = found(&row, ctx) != 0;
    }
    if (event) {
        conn_done(event);
    }
    return status;
}

static hf_status list_running(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                              struct running_look *look, handler_row_fn found, void *ctx)
{
    struct about about;
    hf_status status = subscription_about(engine, conn, id, &about);
    if (!status && about.mode == HF_MODE_ORDERED) {
        status = take_owners(engine, conn, id, look);
    }
    bool stop = false;
    for (size_t i = 0; i < look->page.count && !status && !stop; i++) {
        status = tell_running(engine, conn, &about, look, &look->page.places[i], found, ctx, &stop);
    }
    return status;
}

hf_status sqlite_running_list(struct engine *engine, int64_t subscription_id, int64_t after,
                              int32_t max, handler_row_fn found, void *ctx)
{
    struct sqlite_engine *self = sqlite_of(engine);
    struct running_look look = {.after = after};
    hf_status status = page_init(&look.page, max);
    look.owners = status ? NULL : mem_calloc(STORE_MEMBERS_MAX, sizeof *look.owners);
    if (!status && !look.owners) {
        status = fail(HF_NOMEM, "no memory for the owners of a subscription");
    }
    struct conn *conn;
    if (!status) {
        status = pool_take_snapshot(self, &conn);
    }
    if (!status) {
        status = list_running(self, conn, subscription_id, &look, found, ctx);
        pool_give(self, conn);
    }
    mem_free(look.owners);
    mem_free(look.page.places);
    return status;
}
