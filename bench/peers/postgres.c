/*
 * postgres.c - systems that live in PostgreSQL and are called in SQL: a table without anything, a
 * queue of one's own with SKIP LOCKED, PgQ, pgmq, graphile-worker's functions, and Holdfast's.
 *
 * They differ in their statements only (struct dialect). Requests are prepared statements, sent
 * without waiting, so that one thread drives all connections, as pgbench does it. A request to
 * consume is a chain of statements: the first takes events, the last acknowledges them, and each
 * gets what the one before has answered as its parameter.
 */
#include "peer.h"

#include <endian.h>
#include <libpq-fe.h>
#include <string.h>

#define TEXT_OID 25
#define LOOP 10000        /* events of one transaction of work_transaction */
#define TICK_EVENTS 10000 /* of one batch of PgQ */

enum { STEPS_MAX = 3 };

struct dialect {
    const char *name;
    const char *setup;
    const char *one;  /* publishes the payload $1 */
    const char *many; /* publishes the payloads $1::text[] */
    const char *call; /* in PL/pgSQL: publishes the payload p */
    /* Consuming. The steps after the first are given the first column of its first row, or of all
     * of its rows as an array if they say bigint[]; no row, or NULL, ends the chain. */
    const char *steps[STEPS_MAX];
    int events_at;    /* the step that answers events: all columns that say something of them */
    int payload_at;   /* which of the columns is the payload */
    const char *tick; /* after so many events, when filling; NULL: nothing */
    bool by_library;  /* the library makes the schema */
    bool has_count;   /* the first step takes the number of events as its parameter */
};

static const struct dialect dialects[] = {
    {.name = "bare",
     .setup = "CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
              "at timestamptz NOT NULL DEFAULT now(), type text NOT NULL, payload json NOT NULL);"
              "CREATE TABLE cursor_of_log AS SELECT 0::bigint AS id",
     .one = "INSERT INTO log (type, payload) VALUES ('bench.event', $1::json)",
     .many = "INSERT INTO log (type, payload) "
             "SELECT 'bench.event', x::json FROM unnest($1::text[]) x",
     .call = "INSERT INTO log (type, payload) VALUES ('bench.event', p)",
     .steps =
         {"SELECT id, at, type, payload FROM log WHERE id > (SELECT c.id FROM cursor_of_log c) "
          "ORDER BY id LIMIT $1::bigint",
          "UPDATE cursor_of_log SET id = (SELECT max(x) FROM unnest($1::bigint[]) x)"},
     .payload_at = 3,
     .has_count = true},
    {.name = "skiplocked",
     .setup = "CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
              "leased_until timestamptz, type text NOT NULL, payload json NOT NULL)",
     .many = "INSERT INTO queue (type, payload) "
             "SELECT 'bench.event', x::json FROM unnest($1::text[]) x",
     .steps = {"UPDATE queue q SET leased_until = now() + interval '30 s' "
               "FROM (SELECT id FROM queue WHERE leased_until IS NULL OR leased_until < now() "
               "ORDER BY id LIMIT $1::bigint FOR UPDATE SKIP LOCKED) t "
               "WHERE q.id = t.id RETURNING q.id, q.type, q.payload",
               "DELETE FROM queue WHERE id = ANY ($1::bigint[])"},
     .payload_at = 2,
     .has_count = true},
    {.name = "pgq",
     .setup = "SELECT pgq.create_queue('bench'); SELECT pgq.register_consumer('bench', 'c')",
     .one = "SELECT pgq.insert_event('bench', 'bench.event', $1::text)",
     .many = "SELECT count(pgq.insert_event('bench', 'bench.event', x)) FROM unnest($1::text[]) x",
     .call = "PERFORM pgq.insert_event('bench', 'bench.event', p::text)",
     .steps = {"SELECT pgq.next_batch('bench', 'c')",
               "SELECT * FROM pgq.get_batch_events($1::bigint)",
               "SELECT pgq.finish_batch($1::bigint)"},
     .events_at = 1,
     .payload_at = 5,
     .tick = "SELECT pgq.ticker('bench')"},
    {.name = "pgmq",
     .setup = "SELECT pgmq.create('bench')",
     .one = "SELECT pgmq.send('bench', $1::text::jsonb)",
     .many = "SELECT count(*) FROM pgmq.send_batch('bench', $1::text[]::jsonb[])",
     .call = "PERFORM pgmq.send('bench', p::jsonb)",
     .steps = {"SELECT * FROM pgmq.read('bench', 30, $1::integer)",
               "SELECT count(*) FROM pgmq.delete('bench', $1::bigint[])"},
     .payload_at = 4,
     .has_count = true},
    {.name = "graphile-worker",
     .one = "SELECT 1 FROM graphile_worker.add_job('bench', $1::json)",
     .many =
         "SELECT count(*) FROM graphile_worker.add_jobs((SELECT array_agg(ROW('bench', x::json, "
         "NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec) "
         "FROM unnest($1::text[]) x))",
     .call = "PERFORM graphile_worker.add_job('bench', p)"},
    {.name = "holdfast-sql",
     .by_library = true,
     .one = "SELECT holdfast.publish('default', 'bench.event', $1::json)",
     .many = "SELECT count(*) FROM holdfast.publish_many('default', "
             "array_fill('bench.event'::text, ARRAY[cardinality($1::text[])]), "
             "$1::text[]::json[])",
     .call = "PERFORM holdfast.publish('default', 'bench.event', p)"},
};

#define DIALECTS (sizeof dialects / sizeof dialects[0])

struct postgres {
    struct link link;
    PGconn *pg;
    const struct dialect *dialect;
    int step;            /* that is being answered; -1: publishing */
    long long published; /* since the last tick */
    bool ends;           /* the chain, after this step */
    char *array;         /* the parameter of a step, in binary */
    int array_length;
    char value[32];
};

static const struct dialect *current; /* which one a measurement is about */

/* ---- Sessions -------------------------------------------------------------------------------- */

static PGconn *session(const char *url)
{
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK) {
        die("connecting", PQerrorMessage(pg));
    }
    return pg;
}

static void expect(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        die("PostgreSQL", PQerrorMessage(pg));
    }
}

static void execute(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    expect(pg, result);
    PQclear(result);
}

static void prepare(PGconn *pg, const char *name, const char *sql)
{
    PGresult *result = sql ? PQprepare(pg, name, sql, 0, NULL) : NULL;
    if (result) {
        expect(pg, result);
    }
    PQclear(result);
}

static void postgres_prepare(const struct task *task)
{
    PGconn *pg = session(task->address);
    if (current->by_library) {
        hf_bus *bus = NULL;
        check(hf_open(task->address, NULL, &bus), "hf_open");
        check(hf_close(&bus), "hf_close");
    }
    if (current->setup) {
        execute(pg, current->setup);
    }
    PQfinish(pg);
}

static struct link *postgres_open(const struct task *task)
{
    static const char *const names[STEPS_MAX] = {"0", "1", "2"};
    struct postgres *postgres = need(calloc(1, sizeof *postgres));
    postgres->dialect = current;
    postgres->pg = session(task->address);
    prepare(postgres->pg, "one", current->one);
    prepare(postgres->pg, "many", current->many);
    for (int i = 0; i < STEPS_MAX; i++) {
        prepare(postgres->pg, names[i], current->steps[i]);
    }
    postgres->link.fd = PQsocket(postgres->pg);
    return &postgres->link;
}

static void postgres_close(struct link *link)
{
    struct postgres *postgres = (struct postgres *)link;
    if (postgres->dialect->tick && postgres->published > 0) {
        execute(postgres->pg, postgres->dialect->tick);
    }
    PQfinish(postgres->pg);
    free(postgres->array);
    free(postgres);
}

static void send_prepared(struct postgres *postgres, const char *name, const char *value,
                          int length, int format)
{
    int count = value ? 1 : 0;
    if (!PQsendQueryPrepared(postgres->pg, name, count, &value, &length, &format, 0)) {
        die("sending", PQerrorMessage(postgres->pg));
    }
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static void array_word(struct postgres *postgres, uint32_t word)
{
    uint32_t big = htobe32(word);
    memcpy(postgres->array + postgres->array_length, &big, 4);
    postgres->array_length += 4;
}

/* An array of one dimension, whose elements follow. */
static void array_begin(struct postgres *postgres, uint32_t type, int count, size_t element_bytes)
{
    postgres->array =
        need(realloc(postgres->array, 32 + (size_t)count * (element_bytes + sizeof(uint32_t))));
    postgres->array_length = 0;
    array_word(postgres, 1);
    array_word(postgres, 0);
    array_word(postgres, type);
    array_word(postgres, (uint32_t)count);
    array_word(postgres, 1);
}

static void array_put(struct postgres *postgres, const void *bytes, size_t length)
{
    array_word(postgres, (uint32_t)length);
    memcpy(postgres->array + postgres->array_length, bytes, length);
    postgres->array_length += (int)length;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void postgres_publish(struct link *link, int count, int64_t number)
{
    struct postgres *postgres = (struct postgres *)link;
    char payload[PAYLOAD_BYTES + 1];
    payload_make(payload, number);
    postgres->step = -1;
    postgres->published += count;
    if (count == 1) {
        send_prepared(postgres, "one", payload, PAYLOAD_BYTES, 0);
        return;
    }
    array_begin(postgres, TEXT_OID, count, PAYLOAD_BYTES);
    for (int i = 0; i < count; i++) {
        payload_make(payload, number + i);
        array_put(postgres, payload, PAYLOAD_BYTES);
    }
    send_prepared(postgres, "many", postgres->array, postgres->array_length, 1);
}

static void postgres_consume(struct link *link, int count)
{
    struct postgres *postgres = (struct postgres *)link;
    link->got = 0;
    postgres->step = 0;
    postgres->ends = false;
    snprintf(postgres->value, sizeof postgres->value, "%d", count);
    send_prepared(postgres, "0", postgres->dialect->has_count ? postgres->value : NULL, 0, 0);
}

/* The first columns as an array of bigint. */
static void array_of_ids(struct postgres *postgres, const PGresult *result)
{
    int count = PQntuples(result);
    array_begin(postgres, 20, count, 8);
    for (int i = 0; i < count; i++) {
        uint64_t big = htobe64(strtoull(PQgetvalue(result, i, 0), NULL, 10));
        array_put(postgres, &big, 8);
    }
}

/* Takes the answer to a step, and from it what the next one is given. */
static void take_step(struct postgres *postgres, const PGresult *result)
{
    const struct dialect *dialect = postgres->dialect;
    int rows = PQntuples(result);
    if (postgres->step == dialect->events_at) {
        for (int i = 0; i < rows && postgres->link.received; i++) {
            postgres->link.received(PQgetvalue(result, i, dialect->payload_at), postgres->link.ctx);
        }
        postgres->link.got += rows;
    }
    /* An empty batch of PgQ is finished, too; its number is kept. */
    if (postgres->step == 0 && (rows == 0 || PQgetisnull(result, 0, 0))) {
        postgres->ends = true;
    } else if (postgres->step == 0) {
        if (strstr(dialect->steps[1], "bigint[]")) {
            array_of_ids(postgres, result);
        } else {
            snprintf(postgres->value, sizeof postgres->value, "%s", PQgetvalue(result, 0, 0));
        }
    }
}

/* Sends what follows the step that is done; false: nothing does. */
static bool send_next(struct postgres *postgres)
{
    static const char *const names[STEPS_MAX] = {"0", "1", "2"};
    const struct dialect *dialect = postgres->dialect;
    if (postgres->step < 0) {
        if (!dialect->tick || postgres->published < TICK_EVENTS) {
            return false;
        }
        postgres->published = 0;
        return PQsendQuery(postgres->pg, dialect->tick) == 1;
    }
    int next = postgres->step + 1;
    if (postgres->ends || next >= STEPS_MAX || !dialect->steps[next]) {
        return false;
    }
    postgres->step = next;
    if (strstr(dialect->steps[next], "bigint[]")) {
        send_prepared(postgres, names[next], postgres->array, postgres->array_length, 1);
    } else {
        send_prepared(postgres, names[next], postgres->value, 0, 0);
    }
    return true;
}

static bool postgres_proceed(struct link *link)
{
    struct postgres *postgres = (struct postgres *)link;
    if (!PQconsumeInput(postgres->pg)) {
        die("receiving", PQerrorMessage(postgres->pg));
    }
    while (!PQisBusy(postgres->pg)) {
        PGresult *result = PQgetResult(postgres->pg);
        if (!result) {
            return !send_next(postgres);
        }
        expect(postgres->pg, result);
        if (postgres->step >= 0) {
            take_step(postgres, result);
        }
        PQclear(result);
    }
    return false;
}

const struct peer *peer_in_postgres(const char *name)
{
    static struct peer peer = {
        .prepare = postgres_prepare,
        .open = postgres_open,
        .publish = postgres_publish,
        .consume = postgres_consume,
        .proceed = postgres_proceed,
        .close = postgres_close,
    };
    for (size_t i = 0; i < DIALECTS; i++) {
        if (strcmp(dialects[i].name, name) == 0) {
            current = &dialects[i];
            peer.name = name;
            peer.consume = current->steps[0] ? postgres_consume : NULL;
            return &peer;
        }
    }
    return NULL;
}

/* ---- Inside one transaction ------------------------------------------------------------------ */

void work_transaction(const char *name, const struct task *task, struct result *ret_result)
{
    char payload[PAYLOAD_BYTES + 1];
    char sql[1024];
    if (!peer_in_postgres(name)) {
        die(name, "is not in PostgreSQL");
    }
    postgres_prepare(task);
    payload_make(payload, 1);
    snprintf(sql, sizeof sql,
             "DO $do$ DECLARE p json := '%s'; "
             "BEGIN FOR i IN 1..%d LOOP %s; END LOOP; END $do$",
             payload, LOOP, current->call);
    PGconn *pg = session(task->address);
    execute(pg, sql);
    struct cost before = cost_now(task->server);
    double began = seconds();
    while (seconds() - began < task->seconds) {
        execute(pg, sql);
        ret_result->events += LOOP;
    }
    ret_result->seconds = seconds() - began;
    cost_add(ret_result, &before, task->server);
    PQfinish(pg);
}
