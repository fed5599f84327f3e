/*
 * verify.c - what `verify` asks of this engine. See store/verify.h.
 *
 * The checks are statements of queries/verify.sql that answer sentences. What is found is asked for
 * once more, and only the second answer counts: the journal of checkpoints is emptied by TRUNCATE,
 * which also empties it for snapshots that are older, so that an answer may miss rows that are
 * there.
 *
 * The events come one namespace after the other: each is a table of its own, so the statement is
 * planned for each chunk, with only that table in the plan.
 *
 * The schema is compared with what was recorded when it was migrated (migrate.c), and what each
 * namespace has of its own with the log and the texts that its functions are made of.
 *
 * Whether pages and indexes are sound is the server's business: data checksums tell when a page is
 * read, and pg_amcheck examines indexes.
 */
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define VERIFY_TIMEOUT_MS (INT64_C(30) * 60 * 1000) /* one statement; a check reads whole tables */

static struct params *ask_for(struct pg_lookup *lookup, struct engine *engine,
                              enum postgres_query query)
{
    struct params *params = pg_lookup_begin(lookup, engine, query);
    lookup->plan_anew = true;
    if (lookup->session) {
        lookup->session->deadline = deadline_after_ms(VERIFY_TIMEOUT_MS);
    }
    return params;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* POSTGRES_QUERY_COUNT: nothing to ask. */
static const enum postgres_query check_queries[VERIFY_CHECKS] = {
    [VERIFY_FILE] = POSTGRES_QUERY_COUNT,
    [VERIFY_SCHEMA] = POSTGRES_QUERY_VERIFY_SCHEMA, /* see check_schema */
    [VERIFY_ORPHAN] = POSTGRES_QUERY_VERIFY_ORPHAN,
    [VERIFY_TIP] = POSTGRES_QUERY_VERIFY_TIP,
    [VERIFY_MONTH] = POSTGRES_QUERY_VERIFY_MONTH,
    [VERIFY_LOST] = POSTGRES_QUERY_VERIFY_LOST,
    [VERIFY_DOUBLED] = POSTGRES_QUERY_VERIFY_DOUBLED,
    [VERIFY_PARTITIONS] = POSTGRES_QUERY_VERIFY_PARTITIONS,
    [VERIFY_CHECKPOINT] = POSTGRES_QUERY_VERIFY_CHECKPOINT,
    [VERIFY_RETRY] = POSTGRES_QUERY_VERIFY_RETRY,
    [VERIFY_HELD] = POSTGRES_QUERY_VERIFY_HELD,
    [VERIFY_SLICE] = POSTGRES_QUERY_VERIFY_SLICE,
    [VERIFY_COPY] = POSTGRES_QUERY_VERIFY_COPY,
    [VERIFY_SETTLED] = POSTGRES_QUERY_VERIFY_SETTLED,
    [VERIFY_LEASE] = POSTGRES_QUERY_VERIFY_LEASE,
    [VERIFY_TYPES] = POSTGRES_QUERY_COUNT, /* the server keeps it itself */
    [VERIFY_UNIQUE] = POSTGRES_QUERY_VERIFY_UNIQUE,
    [VERIFY_RATE] = POSTGRES_QUERY_VERIFY_RATE,
    [VERIFY_DEAD_KIND] = POSTGRES_QUERY_VERIFY_DEAD_KIND,
    [VERIFY_RIGHTS] = POSTGRES_QUERY_VERIFY_RIGHTS,
};

static void ask_check(struct pg_lookup *lookup, struct engine *engine, enum verify_check check,
                      int32_t max)
{
    param_int8(ask_for(lookup, engine, check_queries[check]), max);
    pg_lookup_run(lookup);
}

/* Two lists are compared: the objects that are there, which the first statement answers, and those
 * that were recorded when the schema was migrated. */
static void ask_schema(struct pg_lookup *lookup, struct engine *engine, int32_t max)
{
    struct pg_lookup objects;
    ask_for(&objects, engine, POSTGRES_QUERY_SCHEMA_OBJECTS);
    pg_lookup_run(&objects);
    struct params *params = ask_for(lookup, engine, POSTGRES_QUERY_VERIFY_SCHEMA);
    param_int8(params, max);
    param_text(params, objects.rows > 0 ? result_text(objects.result, 0, 0) : TEXT_ABSENT);
    param_int8(params, postgres_program.number);
    if (objects.status) {
        lookup->status = objects.status;
    }
    pg_lookup_run(lookup);
    pg_lookup_end(&objects);
}

/* Tells what was found. Whether there is room for more. */
static bool tell_rows(const struct pg_lookup *lookup, int32_t *max, verify_said_fn said, void *ctx)
{
    for (int row = 0; row<lookup->rows && * max> 0; row++, (*max)--) {
        if (said(result_text(lookup->result, row, 0), ctx) != 0) {
            *max = 0;
            return false;
        }
    }
    return *max > 0;
}

/* The objects of the schema, then what each namespace has of its own. */
static hf_status check_schema(struct engine *engine, int32_t max, verify_said_fn said, void *ctx)
{
    struct pg_lookup lookup;
    ask_schema(&lookup, engine, max);
    if (lookup.rows > 0) {
        pg_lookup_end(&lookup);
        ask_schema(&lookup, engine, max);
    }
    bool more = tell_rows(&lookup, &max, said, ctx);
    hf_status status = pg_lookup_end(&lookup);
    if (status || !more) {
        return status;
    }
    param_int8(ask_for(&lookup, engine, POSTGRES_QUERY_VERIFY_LOG), max);
    if (pg_lookup_run(&lookup) && lookup.rows > 0) {
        pg_lookup_end(&lookup);
        param_int8(ask_for(&lookup, engine, POSTGRES_QUERY_VERIFY_LOG), max);
        pg_lookup_run(&lookup);
    }
    tell_rows(&lookup, &max, said, ctx);
    return pg_lookup_end(&lookup);
}

hf_status postgres_verify_check(struct engine *engine, enum verify_check check, int32_t max,
                                verify_said_fn said, void *ctx)
{
    struct pg_lookup lookup;
    if (check == VERIFY_SCHEMA) {
        return check_schema(engine, max, said, ctx);
    }
    if (check_queries[check] == POSTGRES_QUERY_COUNT) {
        return HF_OK;
    }
    ask_check(&lookup, engine, check, max);
    if (lookup.rows > 0) {
        pg_lookup_end(&lookup);
        ask_check(&lookup, engine, check, max);
    }
    tell_rows(&lookup, &max, said, ctx);
    return pg_lookup_end(&lookup);
}

/* ---- Scans ----------------------------------------------------------------------------------- */

static const enum postgres_query scan_queries[VERIFY_TABLES] = {
    [VERIFY_EVENTS] = POSTGRES_QUERY_VERIFY_EVENTS,
    [VERIFY_COPIES] = POSTGRES_QUERY_VERIFY_COPIES,
    [VERIFY_DEAD_LETTERS] = POSTGRES_QUERY_VERIFY_DEAD_LETTERS,
    [VERIFY_RETRIES] = POSTGRES_QUERY_VERIFY_RETRIES,
    [VERIFY_OUTCOMES] = POSTGRES_QUERY_VERIFY_OUTCOMES,
    [VERIFY_SUBSCRIPTIONS] = POSTGRES_QUERY_VERIFY_SUBSCRIPTIONS,
    [VERIFY_SCHEDULES] = POSTGRES_QUERY_VERIFY_SCHEDULES,
    [VERIFY_DELAYED] = POSTGRES_QUERY_VERIFY_DELAYED,
};

static struct verify_row row_of(const PGresult *result, int row)
{
    struct verify_row seen = {
        .subject = result_text(result, row, VERIFY_COLUMN_SUBJECT),
        .first = result_int8(result, row, VERIFY_COLUMN_FIRST, 0),
        .second = result_int8(result, row, VERIFY_COLUMN_SECOND, 0),
        .is_event = !result_is_null(result, row, VERIFY_COLUMN_HASH),
        .id = result_text(result, row, VERIFY_COLUMN_ID),
        .hash = result_int8(result, row, VERIFY_COLUMN_HASH, 0),
        .type = result_text(result, row, VERIFY_COLUMN_TYPE),
        .tenant = result_text(result, row, VERIFY_COLUMN_TENANT),
        .key = result_text(result, row, VERIFY_COLUMN_KEY),
        .payload = result_text(result, row, VERIFY_COLUMN_PAYLOAD),
        .metadata = result_text(result, row, VERIFY_COLUMN_METADATA),
        .story = result_text(result, row, VERIFY_COLUMN_STORY),
    };
    if (seen.is_event) {
        seen.producer = result_text(result, row, VERIFY_COLUMN_PRODUCER);
        seen.schedule_id = result_text(result, row, VERIFY_COLUMN_SCHEDULE_ID);
        seen.key_version = result_int8(result, row, VERIFY_COLUMN_KEY_VERSION, -1);
        seen.emitted_at_us = result_time(result, row, VERIFY_COLUMN_EMITTED_AT, 0);
        seen.entered_at_us = result_time(result, row, VERIFY_COLUMN_ENTERED_AT, 0);
        seen.checksum = result_int8(result, row, VERIFY_COLUMN_CHECKSUM, 0);
    }
    return seen;
}

/* Moves the cursor to before the first event of the next namespace. */
static hf_status next_namespace(struct engine *engine, struct verify_cursor *cursor, bool *ret_more)
{
    struct pg_lookup lookup;
    param_int8(ask_for(&lookup, engine, POSTGRES_QUERY_VERIFY_NEXT_NAMESPACE), cursor->first);
    if (pg_lookup_run(&lookup)) {
        *ret_more = !result_is_null(lookup.result, 0, 0);
        *cursor = (struct verify_cursor){.first = result_int8(lookup.result, 0, 0, 0),
                                         .second = INT64_MIN};
    }
    return pg_lookup_end(&lookup);
}

hf_status postgres_verify_scan(struct engine *engine, enum verify_table table, int32_t max,
                               struct verify_cursor *cursor, bool *ret_more, verify_row_fn found,
                               void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = ask_for(&lookup, engine, scan_queries[table]);
    param_int8(params, cursor->first);
    param_int8(params, cursor->second);
    param_uuid(params, cursor->id);
    param_int8(params, max);
    pg_lookup_run(&lookup);
    for (int row = 0; row < lookup.rows; row++) {
        struct verify_row seen = row_of(lookup.result, row);
        cursor->first = seen.first;
        cursor->second = seen.second;
        result_uuid(lookup.result, row, VERIFY_COLUMN_ID, cursor->id);
        found(&seen, ctx);
    }
    *ret_more = lookup.rows > 0;
    hf_status status = pg_lookup_end(&lookup);
    if (!status && table == VERIFY_EVENTS && !*ret_more) {
        status = next_namespace(engine, cursor, ret_more);
    }
    return status;
}
