/*
 * doctor.c - sizes, and settings and conditions that matter to the operator of the database.
 *
 * One statement reads them all; what is worth a warning, and what to do then, is in the table of
 * rules here. Nothing scans the log. A role that may not see other sessions (pg_monitor) is not
 * told how long they have been in their transactions, so it is not warned of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/common/doctor.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define PUBLISHER_OLD_S 5 /* checkpoints wait for a transaction that has published */
#define PREPARED_OLD_S 60 /* others must not be forgotten, either */
#define TRANSACTION_OLD_S 300
#define SKEW_LARGE_MS 60000
#define JOURNAL_LARGE_BYTES (INT64_C(64) << 20)
#define IDS_FEW 200000000
#define CONNECTIONS_PERCENT 90
#define NOTIFY_QUEUE_PERCENT 1 /* of 8 GB; from 50 on wake-ups are left out (log/bell.sql) */
#define ENCRYPTION_BYTES_MAX 200
#define SESSIONS_BYTES_MAX 80

#define ADVICE_PREPARED                                                                            \
    "checkpoints wait for it: as that role or a superuser, in this database, ROLLBACK PREPARED "   \
    "with this name; or COMMIT PREPARED if its transaction manager has decided so"
#define ADVICE_PUBLISHER                                                                           \
    "checkpoints wait for it: end the transaction, or pg_terminate_backend(pid)"
#define ADVICE_ENCRYPT                                                                             \
    "events and statements can be read and changed on the network: switch ssl on at the server, "  \
    "and set sslmode=verify-full in the URL or PGSSLMODE"

hf_status postgres_sizes_get(struct engine *engine, struct store_sizes *ret_sizes)
{
    struct pg_lookup lookup;
    pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_SIZES);
    if (pg_lookup_run(&lookup)) {
        *ret_sizes = (struct store_sizes){
            .store_bytes = result_int8(lookup.result, 0, 0, -1),
            .wal_bytes = result_int8(lookup.result, 0, 1, -1),
            .commits = atomic_load(&postgres_of(engine)->commits),
        };
    }
    return pg_lookup_end(&lookup);
}

/* ---- Findings -------------------------------------------------------------------------------- */

/* When a value is worth a warning. */
enum rule_kind {
    RULE_IS_NOT,  /* the word */
    RULE_IS,      /* the word */
    RULE_SAID,    /* not empty */
    RULE_BELOW,   /* the number */
    RULE_AT_LEAST /* the number, whatever the sign of the value */
};

static const struct rule {
    const char *name;
    enum rule_kind kind;
    const char *word;
    int64_t number;
    const char *advice;
} rules[] = {
    {"fsync", RULE_IS_NOT, "on", 0,
     "a crash of the server's machine destroys the database: switch fsync on"},
    {"full_page_writes", RULE_IS_NOT, "on", 0,
     "a crash of the server's machine may damage pages: switch full_page_writes on"},
    {"server_encoding", RULE_IS_NOT, "UTF8", 0,
     "events are UTF-8: use a database with that encoding"},
    {"autovacuum", RULE_IS_NOT, "on", 0,
     "dead rows and old statistics pile up, and transaction ids run out: switch autovacuum on"},
    {"not_vacuumed", RULE_SAID, NULL, 0,
     "autovacuum is switched off for these tables: ALTER TABLE ... RESET (autovacuum_enabled)"},
    {"idle_session_timeout", RULE_IS_NOT, "0", 0,
     "it ends the connection by which others see that a process lives: ALTER ROLE ... SET "
     "idle_session_timeout = 0"},
    {"locks_readable", RULE_IS, "no", 0,
     "a rolled-back position cannot be told from one that is late: GRANT SELECT ON pg_locks to the "
     "role, or set gap_timeout for its subscriptions"},
    {"connections_percent", RULE_AT_LEAST, NULL, CONNECTIONS_PERCENT,
     "nearly all connections of the server are in use: raise max_connections, or use fewer "
     "processes"},
    {"long_transaction", RULE_SAID, NULL, 0,
     "it keeps dead rows of the whole database alive: end it, or pg_terminate_backend(pid)"},
    {"notify_queue_percent", RULE_AT_LEAST, NULL, NOTIFY_QUEUE_PERCENT,
     "a session of the server listens inside of a transaction that does not end, so nothing leaves "
     "the queue of notifications: end the oldest transactions of pg_stat_activity, in all "
     "databases"},
    {"clock_skew_ms", RULE_AT_LEAST, NULL, SKEW_LARGE_MS,
     "the clocks of this machine and the server differ by more than a minute: correct them"},
    {"months_ahead", RULE_BELOW, NULL, 1,
     "next month's table is missing: the role may lack the right to make it"},
    {"journal_bytes", RULE_AT_LEAST, NULL, JOURNAL_LARGE_BYTES,
     "the journal of checkpoints is not rotated: something holds a lock on it"},
    {"transaction_ids_left", RULE_BELOW, NULL, IDS_FEW,
     "autovacuum does not keep up with freezing: the server will stop writing"},
};

static int64_t number_in(struct text value)
{
    int64_t number = 0;
    char text[32];
    snprintf(text, sizeof text, "%" TEXT_PRI, TEXT_ARG(value));
    return sscanf(text, "%" SCNd64, &number) == 1 ? number : 0;
}

static bool is_broken(const struct rule *rule, struct text value)
{
    int64_t number = number_in(value);
    switch (rule->kind) {
    case RULE_IS_NOT:
        return !text_equal(value, text_of(rule->word));
    case RULE_IS:
        return text_equal(value, text_of(rule->word));
    case RULE_SAID:
        return value.length > 0;
    case RULE_BELOW:
        return number < rule->number;
    case RULE_AT_LEAST:
        return number >= rule->number || number <= -rule->number;
    }
    return false;
}

/* NULL: all is well. */
static const char *advice_on(const char *name, struct text value)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, name) == 0 && is_broken(&rules[i], value)) {
            return rules[i].advice;
        }
    }
    return NULL;
}

static void doctor_say_ruled(struct doctor *doctor, const char *name, struct text value)
{
    doctor_say(doctor, name, value.bytes, advice_on(name, value));
}

/* What protects a connection from those who can read the network. */
struct encryption {
    char told[ENCRYPTION_BYTES_MAX];
    const char *advice; /* NULL: all is well */
};

static const char *said(const char *text)
{
    return text ? text : "unknown";
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static struct encryption encryption_of(PGconn *pg)
{
    struct encryption is = {.advice = NULL};
    const char *host = PQhost(pg);
    const char *address = PQhostaddr(pg);
    if (PQsslInUse(pg)) {
        snprintf(is.told, sizeof is.told, "%.40s, %.100s", said(PQsslAttribute(pg, "protocol")),
                 said(PQsslAttribute(pg, "cipher")));
    } else if (PQgssEncInUse(pg)) {
        snprintf(is.told, sizeof is.told, "GSSAPI");
    } else if (host && (host[0] == '/' || host[0] == '@')) {
        snprintf(is.told, sizeof is.told, "none: a Unix socket");
    } else if (address && is_loopback(address)) {
        snprintf(is.told, sizeof is.told, "none: %.60s is this machine", address);
    } else {
        snprintf(is.told, sizeof is.told, "none: TCP to %.100s", said(host));
        is.advice = ADVICE_ENCRYPT;
    }
    return is;
}

/* What is to be said of the schema, whose numbers and functions the engine knows. NULL: nothing. */
static const char *schema_advice(const struct postgres_engine *engine, const char *name)
{
    struct fit_schema schema = postgres_schema(engine);
    if (strcmp(name, "schema_version") == 0) {
        return fit_advice(&postgres_program, &schema);
    }
    bool ours = engine->functions != HF_FUNCTIONS_OTHER && engine->functions != HF_FUNCTIONS_OLDER;
    return strcmp(name, "schema_functions") == 0 && !ours &&
                   schema.number == postgres_program.number
               ? "they are not this program's: run `holdfast migrate` as the owner of the schema"
               : NULL;
}

/* What this process has open: at most so many, and apart from those what handlers have. */
static void say_sessions(struct postgres_engine *engine, struct doctor *doctor)
{
    char told[SESSIONS_BYTES_MAX];
    struct session_pool_counts counts = session_pool_count(engine);
    snprintf(told, sizeof told, "%d of %d, and %d of handlers", counts.open,
             (int)engine->address.sessions_max, counts.handlers);
    doctor_say(doctor, "sessions", told, NULL);
}

static void say_all(struct postgres_engine *engine, struct doctor *doctor, const PGresult *result,
                    bool pooled)
{
    bool power = engine->durability == HF_DURABILITY_POWER;
    doctor_say(doctor, "engine", "postgres", NULL);
    doctor_say(doctor, "place", engine->place, NULL);
    doctor_say(doctor, "durability", power ? "power" : "process",
               power ? NULL : "what was published last may be lost if the server crashes");
    doctor_say(doctor, "pooler", pooled ? "yes" : "no", NULL);
    say_sessions(engine, doctor);
    doctor_say(doctor, "wake_up", pooled ? "looking every second" : "LISTEN",
               pooled ? "behind a transaction pooler LISTEN is impossible: give consumers the "
                        "server's own address"
                      : NULL);
    for (int row = 0; row < PQntuples(result); row++) {
        struct text name = result_text(result, row, 0);
        struct text value = result_text(result, row, 1);
        /* What says something only if there is something to say. */
        struct text advice = result_text(result, row, 2);
        if (!text_is_absent(advice)) {
            doctor_say(doctor, name.bytes, value.bytes, advice.bytes);
        } else if (!text_is_absent(value) && schema_advice(engine, name.bytes)) {
            doctor_say(doctor, name.bytes, value.bytes, schema_advice(engine, name.bytes));
        } else if (!text_is_absent(value)) {
            doctor_say_ruled(doctor, name.bytes, value);
        }
    }
}

/* Publishers whose transactions stay open. Not every role has the right to read that. */
static void say_publishers(struct engine *engine, struct doctor *doctor)
{
    struct gap_facts facts = {0};
    hf_status status = postgres_holders(engine, &facts);
    doctor_say_ruled(doctor, "locks_readable", text_of(status == HF_OK ? "yes" : "no"));
    if (!status && facts.held_ms >= PUBLISHER_OLD_S * 1000) {
        doctor_say(doctor, "open_publisher", facts.holders,
                   facts.pid < 0 ? ADVICE_PREPARED : ADVICE_PUBLISHER);
    }
}

hf_status postgres_doctor(struct engine *engine, hf_finding_fn found, void *ctx)
{
    struct pg_lookup lookup;
    struct params *params = pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_DOCTOR);
    bool pooled = lookup.session && session_has(lookup.session, SESSION_POOLED);
    param_time(params, clock_wall_us());
    param_int8(params, PREPARED_OLD_S);
    param_int8(params, TRANSACTION_OLD_S);
    if (pg_lookup_execute(&lookup)) {
        struct doctor doctor = {found, ctx, false};
        struct encryption encryption = encryption_of(lookup.session->pg);
        pg_lookup_return_session(&lookup);
        say_all(postgres_of(engine), &doctor, lookup.result, pooled);
        doctor_say(&doctor, "encryption", encryption.told, encryption.advice);
        if (postgres_of(engine)->namespace_id > 0) {
            say_publishers(engine, &doctor);
        }
    }
    return pg_lookup_end(&lookup);
}
