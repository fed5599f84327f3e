/*
 * node.c - nodes: who is there, by the live files, and who was, by a table. See node.h.
 *
 * A node that is there needs no row: its live file has its card, whose heartbeat is a small write
 * to the file, and its lock tells whether it lives. So opening and beating write nothing to the
 * database. When the file goes, a row in holdfast_past_nodes takes its place: closing writes it in
 * the transaction that gives everything back, and for a dead process the one that removes its file
 * writes it, in the transaction that took the last of their work over, or when the next store is
 * opened.
 *
 * A process that dies between the two leaves the file or the row or both; both are about the same
 * end, and the listing shows one node per id that is gone. If the row cannot be written (a full
 * disk), the file goes all the same, and the node is forgotten early.
 */
#include "store/sqlite/write/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "base/time/time.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/verbs.h"

#define LISTED_MAX 10000          /* nodes that are listed at most */
#define LISTED_BYTES_MAX 67108864 /* of their texts */
#define KEEP_US (STORE_NODE_KEEP_MS * 1000)

/* ---- One id, one node ------------------------------------------------------------------------ */

/* Who has the id that we want. */
struct rival {
    struct text id;
    bool found;
    int64_t pid;
    int64_t started_at_us;
    char host[STORE_HOST_BYTES_MAX + 1];
};

static void look_at_rival(struct sqlite_engine *engine, const struct live_card *card,
                          enum live_state state, void *ctx)
{
    struct rival *rival = ctx;
    if (state == LIVE_ALIVE && card->namespace_id == engine->namespace_id &&
        text_equal(text_of(card->id), rival->id) && !live_is_stale(card)) {
        rival->found = true;
        rival->pid = card->pid;
        rival->started_at_us = card->started_at_us;
        memcpy(rival->host, card->host, sizeof rival->host);
    }
}

hf_status node_check_id(struct sqlite_engine *engine, const struct node_facts *node)
{
    struct rival rival = {.id = node->id};
    if (!node->given || engine->namespace_id == 0) {
        return HF_OK;
    }
    hf_status status = live_cards(engine, look_at_rival, &rival);
    if (status || !rival.found) {
        return status;
    }
    char since[TIME_TEXT_BYTES];
    time_format(rival.started_at_us, since);
    return fail(HF_CONFLICT, "node %" TEXT_PRI " is live already: process %lld on %s, since %s",
                TEXT_ARG(node->id), (long long)rival.pid, rival.host, since);
}

/* ---- Those who end --------------------------------------------------------------------------- */

static struct text card_text(const char *text)
{
    return text[0] ? text_of(text) : TEXT_ABSENT;
}

/* Inside a transaction. stopped_at_us -1: it did not say so. */
static hf_status remember(struct conn *conn, const struct live_card *card, int64_t stopped_at_us,
                          int64_t now_us)
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_PAST_NODE_PUT);
    if (!stmt) {
        return conn_error(conn);
    }
    bind_int(stmt, 1, card->namespace_id);
    bind_text(stmt, 2, text_of(card->id));
    bind_int(stmt, 3, card->started_at_us);
    bind_int(stmt, 4, stopped_at_us == -1 ? atomic_load(&card->seen_at_us) : stopped_at_us);
    if (stopped_at_us != -1) {
        bind_int(stmt, 5, stopped_at_us);
    }
    bind_int(stmt, 6, now_us);
    bind_int(stmt, 7, card->heartbeat_ms);
    bind_int(stmt, 8, card->pid);
    bind_text(stmt, 9, text_of(card->name));
    bind_text(stmt, 10, card_text(card->host));
    bind_text(stmt, 11, card_text(card->version));
    bind_text(stmt, 12, card_text(card->description));
    bind_text(stmt, 13, card_text(card->metadata_json));
    hf_status status = conn_run(conn, stmt);
    if (!status) {
        status = STATEMENT_RUN(conn, SQLITE_QUERY_PAST_NODE_FORGET, card->namespace_id,
                               now_us - KEEP_US, HF_NODES_GONE_MAX - 1);
    }
    return status;
}

/* The same, and what fails leaves no trace. */
static void remember_if_possible(struct conn *conn, const struct live_card *card,
                                 int64_t stopped_at_us, int64_t now_us)
{
    if (conn_save(conn) != HF_OK) {
        return;
    }
    hf_status status = remember(conn, card, stopped_at_us, now_us);
    if (!status) {
        conn_release(conn);
    } else if (!sqlite3_get_autocommit(conn->db)) {
        conn_undo(conn);
    }
}

static void bury_card(struct sqlite_engine *engine, const struct live_card *card,
                      enum live_state state, void *ctx)
{
    (void)engine;
    (void)state;
    struct conn *conn = ctx;
    if (!sqlite3_get_autocommit(conn->db)) { /* the whole transaction may have failed */
        remember_if_possible(conn, card, -1, clock_wall_us());
    }
}

void node_exhume(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    if (live->buried_count > 0) {
        live->buried_count = 0;
        atomic_store(&live->sweep_due, true);
    }
}

bool node_bury(struct sqlite_engine *engine, struct conn *conn)
{
    live_bury(engine, conn, bury_card, conn);
    bool lost = sqlite3_get_autocommit(conn->db);
    if (lost) {
        node_exhume(engine); /* who names the dead may be in the database again */
    }
    return !lost;
}

void node_sweep(struct sqlite_engine *engine)
{
    struct conn *conn = &engine->writer;
    live_sweep_unfinished(engine);
    if (!live_any_dead(engine) || conn_begin(conn, deadline_after_ms(0)) != HF_OK) {
        return; /* another program writes: opening does not wait for that, the files can */
    }
    if (!node_bury(engine, conn)) {
        return;
    }
    hf_status status = conn_commit(conn);
    if (!status) {
        apply_committed(engine, conn, RING_NONE);
    } else {
        node_exhume(engine);
        engine->writer_lost = status == HF_UNKNOWN;
    }
}

bool node_is_remembered(struct sqlite_engine *engine)
{
    const struct live_card *card = live_own_card(&engine->live);
    return engine->namespace_id != 0 &&
           (card->given || clock_wall_us() - card->started_at_us >= card->heartbeat_ms * 1000);
}

void node_stop(struct sqlite_engine *engine, struct conn *conn)
{
    if (node_is_remembered(engine)) {
        int64_t now_us = clock_wall_us();
        remember_if_possible(conn, live_own_card(&engine->live), now_us, now_us);
    }
}

/* ---- Listing --------------------------------------------------------------------------------- */

struct listing {
    struct text id; /* absent: all */
    struct arena arena;
    struct node_row *rows;
    size_t count;
    size_t capacity;
    int64_t now_us;
    hf_status status;
};

static void add_row(struct listing *listing, const struct node_row *row)
{
    if (listing->count == LISTED_MAX || listing->status) {
        return;
    }
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 16;
        struct node_row *rows = mem_realloc(listing->rows, capacity * sizeof *rows);
        if (!rows) {
            listing->status = fail(HF_NOMEM, "no memory for a list of nodes");
            return;
        }
        listing->rows = rows;
        listing->capacity = capacity;
    }
    struct node_row *own = &listing->rows[listing->count++];
    *own = *row;
    own->id = arena_text(&listing->arena, row->id);
    own->name = arena_text(&listing->arena, row->name);
    own->description = arena_text(&listing->arena, row->description);
    own->metadata_json = arena_text(&listing->arena, row->metadata_json);
    own->host = arena_text(&listing->arena, row->host);
    own->version = arena_text(&listing->arena, row->version);
    listing->status = arena_status(&listing->arena);
}

static void list_card(struct sqlite_engine *engine, const struct live_card *card,
                      enum live_state state, void *ctx)
{
    struct listing *listing = ctx;
    struct text id = text_of(card->id);
    int64_t seen_at_us = atomic_load(&card->seen_at_us);
    bool wanted = text_is_absent(listing->id) || text_equal(listing->id, id);
    bool dead = state == LIVE_DEAD;
    if (card->namespace_id != engine->namespace_id || !wanted ||
        (dead && seen_at_us < listing->now_us - KEEP_US)) {
        return;
    }
    struct node_row row = {
        .id = id,
        .name = text_of(card->name),
        .description = card_text(card->description),
        .metadata_json = card_text(card->metadata_json),
        .host = card_text(card->host),
        .version = card_text(card->version),
        .pid = card->pid,
        .heartbeat_ms = card->heartbeat_ms,
        .started_at_us = card->started_at_us,
        .seen_at_us = seen_at_us,
        .stopped_at_us = -1,
        .state = dead                                         ? HF_NODE_GONE
                 : state == LIVE_ALIVE && live_is_stale(card) ? HF_NODE_STALE
                                                              : HF_NODE_LIVE,
        .self = state == LIVE_SELF,
    };
    add_row(listing, &row);
}

static hf_status list_past(struct engine *engine, struct listing *listing)
{
    struct lookup lookup;
    if (lookup_begin(&lookup, engine, SQLITE_QUERY_PAST_NODE_LIST)) {
        bind_int(lookup.stmt, 1, sqlite_of(engine)->namespace_id);
        bind_int(lookup.stmt, 2, listing->now_us - KEEP_US);
        bind_text(lookup.stmt, 3, listing->id);
    }
    while (lookup_next(&lookup)) {
        sqlite3_stmt *stmt = lookup.stmt;
        struct node_row row = {
            .id = column_text(stmt, 0),
            .name = column_text(stmt, 1),
            .description = column_text(stmt, 2),
            .metadata_json = column_text(stmt, 3),
            .host = column_text(stmt, 4),
            .version = column_text(stmt, 5),
            .pid = sqlite3_column_int64(stmt, 6),
            .heartbeat_ms = sqlite3_column_int64(stmt, 7),
            .started_at_us = sqlite3_column_int64(stmt, 8),
            .seen_at_us = sqlite3_column_int64(stmt, 9),
            .stopped_at_us = column_int(stmt, 10, -1),
            .state = HF_NODE_GONE,
        };
        add_row(listing, &row);
    }
    return lookup_end(&lookup);
}

/* By id, the living of one id first, and of the others the last first. */
static int compare(const void *left, const void *right)
{
    const struct node_row *a = left;
    const struct node_row *b = right;
    int order = strcmp(a->id.bytes, b->id.bytes); /* they end in NUL */
    if (order == 0) {
        order = (a->state > b->state) - (a->state < b->state);
    }
    return order ? order
                 : (a->started_at_us < b->started_at_us) - (a->started_at_us > b->started_at_us);
}

static void hand_up(const struct listing *listing, node_row_fn found, void *ctx)
{
    for (size_t i = 0, enough = 0; i < listing->count && !enough; i++) {
        const struct node_row *row = &listing->rows[i];
        bool first = i == 0 || !text_equal(row->id, listing->rows[i - 1].id);
        if (first || row->state != HF_NODE_GONE) {
            enough = found(row, ctx) != 0;
        }
    }
}

/* The files before the table: who closes in between is still seen in a file. */
hf_status sqlite_node_list(struct engine *engine, struct text id, node_row_fn found, void *ctx)
{
    struct listing listing = {.id = id, .now_us = clock_wall_us()};
    arena_init(&listing.arena, LISTED_BYTES_MAX);
    hf_status status = live_cards(sqlite_of(engine), list_card, &listing);
    if (!status) {
        status = list_past(engine, &listing);
    }
    if (!status) {
        status = listing.status;
    }
    if (!status && listing.count > 0) {
        qsort(listing.rows, listing.count, sizeof *listing.rows, compare);
        hand_up(&listing, found, ctx);
    }
    mem_free(listing.rows);
    arena_release(&listing.arena);
    return status;
}
