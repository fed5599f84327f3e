/*
 * doctor.c - sizes, and settings and conditions that matter to whoever runs the database.
 *
 * One statement reads them all; what is worth a warning is decided here. Nothing scans the log.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/postgres/postgres.h"
#include "store/postgres/row.h"
#include "store/postgres/verbs.h"

#define PREPARED_OLD_S 60
#define TRANSACTION_OLD_S 300
#define SKEW_LARGE_MS 60000
#define JOURNAL_LARGE_BYTES (INT64_C(64) << 20)
#define IDS_FEW 200000000

hf_status postgres_sizes(struct engine *base, struct store_sizes *ret_sizes)
{
    struct postgres_engine *engine = postgres_of(base);
    struct session *session;
    hf_status status = session_take(engine, &session);
    if (status != HF_OK) {
        return status;
    }
    PGresult *result;
    session_params(session);
    status = session_query(session, POSTGRES_QUERY_SIZES, &result);
    if (status == HF_OK) {
        *ret_sizes = (struct store_sizes){
            .store_bytes = result_int8(result, 0, 0, -1),
            .wal_bytes = result_int8(result, 0, 2, -1),
            .commits = atomic_load(&engine->commits),
        };
        PQclear(result);
    }
    session_give(engine, session);
    return status;
}

/* ---- Findings -------------------------------------------------------------------------------- */

static int64_t number_in(struct text value)
{
    int64_t number = 0;
    char text[32];
    snprintf(text, sizeof text, "%" TEXT_PRI, TEXT_ARG(value));
    return sscanf(text, "%" SCNd64, &number) == 1 ? number : 0;
}

static bool is(struct text value, const char *word)
{
    return text_equal(value, text_of(word));
}

static const char *advice_on_settings(const char *name, struct text value)
{
    if (strcmp(name, "fsync") == 0 && !is(value, "on")) {
        return "a crash of the server's machine destroys the database: switch fsync on";
    }
    if (strcmp(name, "full_page_writes") == 0 && !is(value, "on")) {
        return "a crash of the server's machine may damage pages: switch full_page_writes on";
    }
    if (strcmp(name, "server_encoding") == 0 && !is(value, "UTF8")) {
        return "events are UTF-8: use a database with that encoding";
    }
    return NULL;
}

/* NULL: all is well. */
static const char *advice_on(const char *name, struct text value, int64_t connections_max)
{
    int64_t number = number_in(value);
    if (strcmp(name, "oldest_prepared_s") == 0 && number >= PREPARED_OLD_S) {
        return "a prepared transaction is forgotten: if it has published, readers wait for it; see "
               "pg_prepared_xacts";
    }
    if (strcmp(name, "oldest_transaction_s") == 0 && number >= TRANSACTION_OLD_S) {
        return "a session is idle in a transaction for long: it keeps dead rows alive, and holes "
               "open if it has published; see pg_stat_activity";
    }
    if (strcmp(name, "clock_skew_ms") == 0 && (number > SKEW_LARGE_MS || number < -SKEW_LARGE_MS)) {
        return "the clocks of this machine and the server differ by more than a minute";
    }
    if (strcmp(name, "months_ahead") == 0 && number == 0) {
        return "next month's table is missing: the role may lack the right to make it";
    }
    if (strcmp(name, "journal_bytes") == 0 && number >= JOURNAL_LARGE_BYTES) {
        return "the journal of checkpoints is not rotated: something holds a lock on it";
    }
    if (strcmp(name, "transaction_ids_left") == 0 && number < IDS_FEW) {
        return "autovacuum does not keep up with freezing: the server will stop writing";
    }
    if (strcmp(name, "connections") == 0 && number * 10 >= connections_max * 9) {
        return "nearly all connections of the server are in use";
    }
    return advice_on_settings(name, value);
}

/* Hands findings to the callback until it has had enough. */
struct doctor {
    hf_finding_fn found;
    void *ctx;
    bool stopped;
};

static void doctor_say(struct doctor *doctor, const char *name, const char *value,
                       const char *advice)
{
    if (!doctor->stopped) {
        hf_log_level level = advice ? HF_LOG_WARN : HF_LOG_INFO;
        doctor->stopped = doctor->found(name, value, level, advice, doctor->ctx) != 0;
    }
}

static void say_all(struct postgres_engine *engine, struct doctor *doctor, const PGresult *result,
                    bool pooled)
{
    bool power = engine->durability == HF_DURABILITY_POWER;
    int64_t connections_max = INT64_MAX / 10;
    doctor_say(doctor, "engine", "postgres", NULL);
    doctor_say(doctor, "place", engine->place, NULL);
    doctor_say(doctor, "durability", power ? "power" : "process",
               power ? NULL : "what was published last may be lost if the server crashes");
    doctor_say(doctor, "pooler", pooled ? "yes" : "no",
               pooled ? "behind a transaction pooler wake-ups come by looking every second: give "
                        "the server's own address" : NULL);
    for (int row = 0; row < PQntuples(result); row++) {
        struct text name = result_text(result, row, 0);
        struct text value = result_text(result, row, 1);
        if (is(name, "max_connections")) {
            connections_max = number_in(value);
        }
        doctor_say(doctor, name.bytes, value.bytes ? value.bytes : "",
                   advice_on(name.bytes, value, connections_max));
    }
}

hf_status postgres_doctor(struct engine *base, hf_finding_fn found, void *ctx)
{
    struct postgres_engine *engine = postgres_of(base);
    struct session *session;
    hf_status status = session_take(engine, &session);
    if (status != HF_OK) {
        return status;
    }
    PGresult *result = NULL;
    bool pooled = session->pooled;
    param_time(session_params(session), clock_wall_us());
    status = session_query(session, POSTGRES_QUERY_DOCTOR, &result);
    session_give(engine, session);
    if (status == HF_OK) {
        struct doctor doctor = {found, ctx, false};
        say_all(engine, &doctor, result, pooled);
    }
    PQclear(result);
    return status;
}
