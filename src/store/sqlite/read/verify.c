/*
 * verify.c - what `verify` asks of this engine. See store/verify.h.
 *
 * The checks are statements of queries/verify.sql that answer sentences, but for the leases, whose
 * list of positions only C can read, and the schema (schema.h). The first check is SQLite's own: it
 * reads every page of the file, the application's tables as well, and compares all indexes with
 * their tables, the one of event ids among them, by which publishing twice is noticed.
 *
 * Each statement is a read transaction of its own. While one runs the WAL cannot start over, so the
 * log is read in chunks. The file's own check has no chunks: on a busy bus the WAL grows meanwhile.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/sqlite/core.h"
#include "store/sqlite/file/lookup.h"
#include "store/sqlite/file/schema.h"
#include "store/sqlite/file/statement.h"
#include "store/sqlite/write/lease.h"

#define SENTENCE_BYTES 1024
#define LIMIT_MS (INT64_C(30) * 60 * 1000) /* until the next row of a statement */
#define LIMIT_DAMAGED_MS 10000             /* the same in a file that is known to be damaged */

static void note_defect(struct sqlite_engine *engine, enum defect defect, bool found)
{
    if (found) {
        atomic_fetch_or(&engine->defects, defect);
    } else {
        atomic_fetch_and(&engine->defects, ~(unsigned)defect);
    }
}

/* A statement that may take long, but not for ever. Pages of a damaged file can refer to each other
 * so that the number of rows to step over has no end in practice; the file's own check finds that
 * first, and then the others get less time. */
static bool verify_begin(struct lookup *lookup, struct engine *engine, enum sqlite_query query)
{
    bool going = lookup_begin(lookup, engine, query);
    if (going) {
        lookup->conn->step_ms =
            (lookup->engine->defects & DEFECT_FILE) ? LIMIT_DAMAGED_MS : LIMIT_MS;
    }
    return going;
}

/* What took too long in a damaged file cannot be read, and neither can what a schema that is not
 * ours does not have: a finding, not the end. */
static hf_status verify_end(struct lookup *lookup)
{
    bool refused = lookup->conn && lookup->conn->refused;
    hf_status status = lookup_end(lookup);
    if (status == HF_IO && (lookup->engine->defects & DEFECT_SCHEMA) && refused) {
        return fail(HF_CORRUPT, "%s", err_message());
    }
    return status == HF_TIMEOUT && (lookup->engine->defects & DEFECT_FILE)
               ? fail(HF_CORRUPT, "it took longer than %d s, in a file that is damaged",
                      LIMIT_DAMAGED_MS / 1000)
               : status;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* SQLITE_QUERY_COUNT: there is nothing that could be wrong. Positions are the log's own key, and
 * the newest one is read from it; months there are none. */
static const enum sqlite_query check_queries[VERIFY_CHECKS] = {
    [VERIFY_FILE] = SQLITE_QUERY_VERIFY_FILE,
    [VERIFY_SCHEMA] = SQLITE_QUERY_VERIFY_SCHEMA,
    [VERIFY_ORPHAN] = SQLITE_QUERY_VERIFY_ORPHAN,
    [VERIFY_TIP] = SQLITE_QUERY_COUNT,
    [VERIFY_MONTH] = SQLITE_QUERY_COUNT,
    [VERIFY_LOST] = SQLITE_QUERY_VERIFY_LOST,
    [VERIFY_DOUBLED] = SQLITE_QUERY_VERIFY_DOUBLED,
    [VERIFY_PARTITIONS] = SQLITE_QUERY_VERIFY_PARTITIONS,
    [VERIFY_CHECKPOINT] = SQLITE_QUERY_VERIFY_CHECKPOINT,
    [VERIFY_RETRY] = SQLITE_QUERY_VERIFY_RETRY,
    [VERIFY_HELD] = SQLITE_QUERY_VERIFY_HELD,
    [VERIFY_SLICE] = SQLITE_QUERY_VERIFY_SLICE,
    [VERIFY_COPY] = SQLITE_QUERY_VERIFY_COPY,
    [VERIFY_SETTLED] = SQLITE_QUERY_VERIFY_SETTLED,
    [VERIFY_LEASE] = SQLITE_QUERY_VERIFY_LEASE,
    [VERIFY_TYPES] = SQLITE_QUERY_VERIFY_TYPES,
    [VERIFY_UNIQUE] = SQLITE_QUERY_VERIFY_UNIQUE,
    [VERIFY_RATE] = SQLITE_QUERY_VERIFY_RATE,
    [VERIFY_DEAD_KIND] = SQLITE_QUERY_VERIFY_DEAD_KIND,
    [VERIFY_RIGHTS] = SQLITE_QUERY_COUNT, /* a file is read as a whole, or not at all */
};

enum lease_column {
    LEASE_SUBJECT,
    LEASE_SUBSCRIPTION,
    LEASE_PLACE,
    LEASE_COUNT,
    LEASE_FIRST,
    LEASE_POSITIONS
};

/* The first position of a lease that has no event; 0: all have one. */
static hf_status find_missing(struct lookup *lookup, const int64_t *positions, size_t count,
                              int64_t *ret_missing)
{
    int64_t subscription_id = sqlite3_column_int64(lookup->stmt, LEASE_SUBSCRIPTION);
    int64_t place = sqlite3_column_int64(lookup->stmt, LEASE_PLACE);
    hf_status status = HF_OK;
    *ret_missing = 0;
    for (size_t i = 0; i < count && !status && *ret_missing == 0; i++) {
        bool found;
        int64_t is_there = 0;
        status = STATEMENT_INT(lookup->conn, SQLITE_QUERY_VERIFY_LEASE_EVENT, &found, &is_there,
                               place + positions[i], subscription_id, positions[i]);
        if (!status && !is_there) {
            *ret_missing = positions[i];
        }
    }
    return status;
}

/* What is wrong with the lease of the present row; "" if nothing is. */
static hf_status look_at_lease(struct lookup *lookup, int64_t *positions, char *out, size_t bytes)
{
    int64_t count = sqlite3_column_int64(lookup->stmt, LEASE_COUNT);
    struct text subject = column_text(lookup->stmt, LEASE_SUBJECT);
    int64_t missing = 0;
    out[0] = '\0';
    if (count < 1 || count > LEASE_POSITIONS_MAX ||
        lease_decode(sqlite3_column_blob(lookup->stmt, LEASE_POSITIONS),
                     (size_t)sqlite3_column_bytes(lookup->stmt, LEASE_POSITIONS), positions,
                     (size_t)count) != HF_OK) {
        snprintf(out, bytes, "%" TEXT_PRI ": the list of its positions is damaged",
                 TEXT_ARG(subject));
        return HF_OK;
    }
    if (positions[0] != sqlite3_column_int64(lookup->stmt, LEASE_FIRST)) {
        snprintf(out, bytes, "%" TEXT_PRI ": its first position is not that of its list",
                 TEXT_ARG(subject));
        return HF_OK;
    }
    hf_status status = find_missing(lookup, positions, (size_t)count, &missing);
    if (!status && missing != 0) {
        snprintf(out, bytes,
                 "%" TEXT_PRI ": the event at position %lld is neither in the log nor among the "
                 "copies",
                 TEXT_ARG(subject), (long long)missing);
    }
    return status;
}

static hf_status check_leases(struct engine *engine, int32_t max, verify_said_fn said, void *ctx)
{
    struct lookup lookup;
    char sentence[SENTENCE_BYTES];
    int64_t *positions = mem_alloc(LEASE_POSITIONS_MAX * sizeof *positions);
    if (!positions) {
        return fail(HF_NOMEM, "no memory for the positions of a lease");
    }
    bool going = verify_begin(&lookup, engine, SQLITE_QUERY_VERIFY_LEASE);
    while (going && max > 0 && lookup_next(&lookup)) {
        lookup.status = look_at_lease(&lookup, positions, sentence, sizeof sentence);
        going = lookup.status == HF_OK;
        if (going && sentence[0]) {
            max--;
            going = said(text_of(sentence), ctx) == 0;
        }
    }
    hf_status status = verify_end(&lookup);
    mem_free(positions);
    return status;
}

struct heard {
    verify_said_fn said;
    void *ctx;
    bool any;
};

static int hear(struct text sentence, void *ctx)
{
    struct heard *heard = ctx;
    heard->any = true;
    return heard->said(sentence, heard->ctx);
}

static hf_status check_schema(struct engine *engine, int32_t max, verify_said_fn said, void *ctx)
{
    struct heard heard = {said, ctx, false};
    struct lookup lookup;
    if (verify_begin(&lookup, engine, SQLITE_QUERY_VERIFY_SCHEMA)) {
        lookup.conn->limit = deadline_after_ms(lookup.conn->step_ms);
        lookup.status = schema_compare(lookup.conn, max, hear, &heard);
    }
    note_defect(lookup.engine, DEFECT_SCHEMA, heard.any);
    return verify_end(&lookup);
}

hf_status sqlite_verify_check(struct engine *engine, enum verify_check check, int32_t max,
                              verify_said_fn said, void *ctx)
{
    struct lookup lookup;
    if (check == VERIFY_LEASE) {
        return check_leases(engine, max, said, ctx);
    }
    if (check == VERIFY_SCHEMA) {
        return check_schema(engine, max, said, ctx);
    }
    if (check_queries[check] == SQLITE_QUERY_COUNT) {
        return HF_OK;
    }
    if (verify_begin(&lookup, engine, check_queries[check])) {
        bind_int(lookup.stmt, 1, max);
    }
    while (lookup_next(&lookup) && said(column_text(lookup.stmt, 0), ctx) == 0) {
    }
    if (check == VERIFY_FILE) {
        note_defect(lookup.engine, DEFECT_FILE, lookup.any || lookup.status == HF_CORRUPT);
    }
    return verify_end(&lookup);
}

/* ---- Scans ----------------------------------------------------------------------------------- */

static const enum sqlite_query scan_queries[VERIFY_TABLES] = {
    [VERIFY_EVENTS] = SQLITE_QUERY_VERIFY_EVENTS,
    [VERIFY_COPIES] = SQLITE_QUERY_VERIFY_COPIES,
    [VERIFY_DEAD_LETTERS] = SQLITE_QUERY_VERIFY_DEAD_LETTERS,
    [VERIFY_RETRIES] = SQLITE_QUERY_VERIFY_RETRIES,
    [VERIFY_OUTCOMES] = SQLITE_QUERY_VERIFY_OUTCOMES,
    [VERIFY_SUBSCRIPTIONS] = SQLITE_QUERY_VERIFY_SUBSCRIPTIONS,
    [VERIFY_SCHEDULES] = SQLITE_QUERY_VERIFY_SCHEDULES,
    [VERIFY_DELAYED] = SQLITE_QUERY_VERIFY_DELAYED,
};

static struct verify_row row_of(sqlite3_stmt *stmt)
{
    struct verify_row row = {
        .subject = column_text(stmt, VERIFY_COLUMN_SUBJECT),
        .first = sqlite3_column_int64(stmt, VERIFY_COLUMN_FIRST),
        .second = sqlite3_column_int64(stmt, VERIFY_COLUMN_SECOND),
        .is_event = !column_is_null(stmt, VERIFY_COLUMN_HASH),
        .id = {sqlite3_column_blob(stmt, VERIFY_COLUMN_ID),
               (size_t)sqlite3_column_bytes(stmt, VERIFY_COLUMN_ID)},
        .hash = sqlite3_column_int64(stmt, VERIFY_COLUMN_HASH),
        .type = column_text(stmt, VERIFY_COLUMN_TYPE),
        .tenant = column_text(stmt, VERIFY_COLUMN_TENANT),
        .key = column_text(stmt, VERIFY_COLUMN_KEY),
        .payload = column_text(stmt, VERIFY_COLUMN_PAYLOAD),
        .metadata = column_text(stmt, VERIFY_COLUMN_METADATA),
        .story = column_text(stmt, VERIFY_COLUMN_STORY),
    };
    if (row.is_event) {
        row.producer = column_text(stmt, VERIFY_COLUMN_PRODUCER);
        row.schedule_id = column_text(stmt, VERIFY_COLUMN_SCHEDULE_ID);
        row.key_version = column_int(stmt, VERIFY_COLUMN_KEY_VERSION, -1);
        row.emitted_at_us = sqlite3_column_int64(stmt, VERIFY_COLUMN_EMITTED_AT);
        row.entered_at_us = sqlite3_column_int64(stmt, VERIFY_COLUMN_ENTERED_AT);
        row.checksum = sqlite3_column_int64(stmt, VERIFY_COLUMN_CHECKSUM);
    }
    return row;
}

hf_status sqlite_verify_scan(struct engine *engine, enum verify_table table, int32_t max,
                             struct verify_cursor *cursor, bool *ret_more, verify_row_fn found,
                             void *ctx)
{
    struct lookup lookup;
    int32_t rows = 0;
    if (verify_begin(&lookup, engine, scan_queries[table])) {
        bind_int(lookup.stmt, 1, cursor->first);
        bind_int(lookup.stmt, 2, cursor->second);
        bind_int(lookup.stmt, 4, max);
    }
    while (lookup_next(&lookup)) {
        struct verify_row row = row_of(lookup.stmt);
        rows++;
        cursor->first = row.first;
        cursor->second = row.second;
        found(&row, ctx);
    }
    *ret_more = rows == max;
    return verify_end(&lookup);
}
