/*
 * postgres.c - benchmarks of the PostgreSQL engine that need a second opinion: libpq on its own.
 *
 *     postgres many URL [ROUNDS]       publish_many of 1000, against a bare INSERT from arrays
 *     postgres singles URL [ROUNDS]    32 threads publish one by one through one bus, against 32
 *                                      connections that each commit a bare INSERT
 *     postgres drain URL MODE [N]      a new subscription works off a backlog of N (1 000 000)
 *     postgres snapshot URL [N [MODE]] the same while another session keeps a snapshot, against not
 *     postgres follow URL [SECONDS]    a subscription that consumes what others publish
 *     postgres hole URL [TRIALS]       a publisher rolls back: how long until what waits behind its
 *                                      position is delivered in strict order
 *     postgres tuples URL [N [MODE [held]]]
 *                                      dead rows after N events (1 000 000) were published and
 *                                      consumed, also while another session keeps a snapshot; the
 *                                      server's autovacuum should be off
 *     postgres idle URL LOG [SECONDS]  statements of a process that has nothing to do, counted in
 *                                      the server's log; the database must log all statements
 *
 * Each prints one JSON object. The database is a private one on this machine. Two things that are
 * compared are measured in turns, and every round gives a ratio of its own: "ratio" is their
 * median, "low" and "high" are the extremes. What the server's processes and this one need of the
 * CPU per event depends less on who else uses the machine than rates do, so it is printed too.
 */
#include <ctype.h>
#include <dirent.h>
#include <endian.h>
#include <holdfast.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BENCH "postgres"
#include "common.h"

#define MANY 1000         /* events of one publish_many */
#define MANY_CALLS 100    /* in one round */
#define PUBLISHERS 32     /* threads, or connections */
#define SINGLES_SECONDS 2 /* of one round */
#define ROUNDS_MAX 100
#define TRIALS_MAX 1000
#define PAYLOAD                                                                                    \
    "{\"n\":1,\"name\":\"somebody\",\"mail\":\"somebody@example.invalid\",\"pad\":\"xxxx\"}"
#define EPOCH_US 946684800000000 /* of PostgreSQL's times */

static atomic_llong handled;
static _Atomic double handled_at;

/* ---- Small things ---------------------------------------------------------------------------- */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "postgres: %s: %s\n", what, why);
    exit(1);
}

/* Sorts. */
static double quantile(double *values, int count, double part)
{
    qsort(values, (size_t)count, sizeof values[0], compare);
    int at = (int)(part * (count - 1) + 0.5);
    return values[at];
}

static void print_ratio(const char *name, double *ours, double *bare, int rounds)
{
    double ratios[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        ratios[i] = ours[i] / bare[i];
    }
    double median = quantile(ratios, rounds, 0.5);
    printf("{\"bench\":\"%s\",\"rounds\":%d,\"ours\":%.0f,\"bare\":%.0f,"
           "\"ratio\":%.3f,\"low\":%.3f,\"high\":%.3f}\n",
           name, rounds, quantile(ours, rounds, 0.5), quantile(bare, rounds, 0.5), median,
           ratios[0], ratios[rounds - 1]);
}

/* ---- The server's and our own CPU ------------------------------------------------------------ */

/* Fields 4 (parent) and 14 to 17 (times, of ended children too) of a process's stat. */
static double cpu_of(const char *pid, int *ret_parent, double *ret_children)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    char *at = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    unsigned long user = 0;
    unsigned long system = 0;
    long child_user = 0;
    long child_system = 0;
    *ret_parent = 0;
    if (at) {
        sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", ret_parent,
               &user, &system, &child_user, &child_system);
    }
    if (file) {
        fclose(file);
    }
    double tick = (double)sysconf(_SC_CLK_TCK);
    *ret_children = (double)(child_user + child_system) / tick;
    return (double)(user + system) / tick;
}

/* Of all processes of the server that `pg` is connected to; 0 if it is not on this machine. */
static double server_cpu(PGconn *pg)
{
    char pid[16];
    int postmaster;
    int parent;
    double ended;
    double sum = 0;
    snprintf(pid, sizeof pid, "%d", PQbackendPID(pg));
    cpu_of(pid, &postmaster, &ended);
    DIR *dir = postmaster > 1 ? opendir("/proc") : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            double cpu = cpu_of(entry->d_name, &parent, &ended);
            sum += parent == postmaster ? cpu : 0;
            sum += strtol(entry->d_name, NULL, 10) == postmaster ? cpu + ended : 0;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return sum;
}

static double own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- libpq ----------------------------------------------------------------------------------- */

static PGconn *pq_open(const char *url)
{
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK) {
        die("connecting", PQerrorMessage(pg));
    }
    return pg;
}

/* Runs a statement; the first value of its answer, as a number. */
static double pq_number(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    ExecStatusType kind = PQresultStatus(result);
    if (kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK) {
        die(sql, PQerrorMessage(pg));
    }
    double value = PQntuples(result) > 0 ? strtod(PQgetvalue(result, 0, 0), NULL) : 0;
    PQclear(result);
    return value;
}

static int namespace_id(PGconn *pg)
{
    return (int)pq_number(pg, "SELECT id FROM holdfast_private.namespaces WHERE name = 'default'");
}

static void pq_prepare(PGconn *pg, const char *sql)
{
    PGresult *result = PQprepare(pg, "insert", sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        die("preparing", PQerrorMessage(pg));
    }
    PQclear(result);
}

static void pq_insert(PGconn *pg, int count, const char *const *values, const int *lengths,
                      const int *formats)
{
    PGresult *result = PQexecPrepared(pg, "insert", count, values, lengths, formats, 1);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        die("a bare INSERT", PQerrorMessage(pg));
    }
    PQclear(result);
}

/* A UUID of version 7; answers the time inside, in PostgreSQL's microseconds. */
static int64_t make_id(uint8_t id[16])
{
    static _Thread_local uint64_t counter;
    static _Thread_local uint64_t salt;
    if (!salt && getrandom(&salt, sizeof salt, 0) != sizeof salt) {
        die("getrandom", "failed");
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t high = htobe64(ms << 16 | 0x7000 | (++counter & 0xfff));
    uint64_t low = htobe64((salt + (counter >> 12)) >> 2 | UINT64_C(1) << 63);
    memcpy(id, &high, 8);
    memcpy(id + 8, &low, 8);
    return (int64_t)ms * 1000 - EPOCH_US;
}

/* ---- Bare arrays ----------------------------------------------------------------------------- */

struct array {
    char *bytes;
    int length;
};

static void array_word(struct array *array, uint32_t word)
{
    uint32_t big = htobe32(word);
    memcpy(array->bytes + array->length, &big, 4);
    array->length += 4;
}

static void array_begin(struct array *array, uint32_t type)
{
    array->length = 0;
    array_word(array, 1);
    array_word(array, 0);
    array_word(array, type);
    array_word(array, MANY);
    array_word(array, 1);
}

static void array_put(struct array *array, const void *bytes, size_t length)
{
    array_word(array, (uint32_t)length);
    memcpy(array->bytes + array->length, bytes, length);
    array->length += (int)length;
}

static void array_time(struct array *array, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    array_put(array, &big, sizeof big);
}

enum { ID, TYPE, BODY, KEY, PRODUCER, EMITTED, ENTERED, HASH, COLUMNS };

/* The INSERT of the arrays, with what an event of the benchmark has. */
static void many_prepare(PGconn *pg)
{
    char sql[1024];
    int id = namespace_id(pg);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO holdfast_private.events_%d (position, hash, checksum, emitted_at, entered_at, "
        "guard_at, id, namespace_id, type, producer, key, payload) "
        "SELECT nextval('holdfast_private.events_%d_position'), hash, hash, emitted_at, "
        "entered_at, "
        "entered_at, id, %d, "
        "type, producer, key, payload "
        "FROM unnest($1::uuid[], $2::text[], $3::json[], $4::text[], $5::text[], "
        "$6::timestamptz[], $7::timestamptz[], $8::bigint[]) "
        "AS e (id, type, payload, key, producer, emitted_at, entered_at, hash)",
        id, id, id);
    pq_prepare(pg, sql);
}

static void many_bare(PGconn *pg, struct array arrays[COLUMNS])
{
    static const uint32_t types[COLUMNS] = {2950, 25, 114, 25, 25, 1184, 1184, 20};
    static const int formats[COLUMNS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const char *values[COLUMNS];
    int lengths[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        array_begin(&arrays[i], types[i]);
    }
    for (int64_t i = 0; i < MANY; i++) {
        uint8_t id[16];
        int64_t time_us = make_id(id);
        array_put(&arrays[ID], id, sizeof id);
        array_put(&arrays[TYPE], "bench.event", 11);
        array_put(&arrays[BODY], PAYLOAD, sizeof PAYLOAD - 1);
        array_put(&arrays[KEY], "bench", 5);
        array_put(&arrays[PRODUCER], "bench", 5);
        array_time(&arrays[EMITTED], time_us);
        array_time(&arrays[ENTERED], time_us);
        array_time(&arrays[HASH], i);
    }
    for (int i = 0; i < COLUMNS; i++) {
        values[i] = arrays[i].bytes;
        lengths[i] = arrays[i].length;
    }
    pq_insert(pg, COLUMNS, values, lengths, formats);
}

/* ---- The bus --------------------------------------------------------------------------------- */

static hf_new_event one_event(void)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "bench.event";
    event.key = "bench";
    event.payload = PAYLOAD;
    return event;
}

static void publish_thousand(hf_bus *bus)
{
    hf_new_event events[MANY];
    for (int i = 0; i < MANY; i++) {
        events[i] = one_event();
    }
    check(hf_publish_many(bus, events, MANY, NULL), "hf_publish_many");
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
    return HF_ACK;
}

static void subscribe(hf_bus *bus, const char *name, hf_mode mode, hf_place_kind from)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = from;
    options.mode = mode;
    check(hf_subscribe(bus, name, "*", handle, NULL, &options, NULL), "hf_subscribe");
}

/* Publishes until the log has so many events. */
static void fill(const char *url, PGconn *pg, long long count)
{
    hf_bus *bus = open_as(url, "bench");
    long long present = 0;
    if (count > 0) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM holdfast_private.events_%d",
                 namespace_id(pg));
        present = (long long)pq_number(pg, sql);
    }
    for (; present < count; present += MANY) {
        publish_thousand(bus);
    }
    check(hf_close(&bus), "hf_close");
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static void bench_many(const char *url, int rounds)
{
    double ours[ROUNDS_MAX];
    double bare[ROUNDS_MAX];
    struct array arrays[COLUMNS];
    hf_bus *bus = open_as(url, "bench");
    PGconn *pg = pq_open(url);
    for (int i = 0; i < COLUMNS; i++) {
        arrays[i].bytes = malloc(MANY * (sizeof PAYLOAD + 16));
        if (!arrays[i].bytes) {
            die("malloc", "no memory");
        }
    }
    many_prepare(pg);
    publish_thousand(bus);
    for (int round = 0; round < rounds; round++) {
        /* Call by call in turns, so that both meet the same checkpoints and the same neighbours. */
        double our_time = 0;
        double bare_time = 0;
        for (int i = 0; i < MANY_CALLS; i++) {
            double began = seconds();
            publish_thousand(bus);
            double between = seconds();
            many_bare(pg, arrays);
            our_time += between - began;
            bare_time += seconds() - between;
        }
        ours[round] = MANY * MANY_CALLS / our_time;
        bare[round] = MANY * MANY_CALLS / bare_time;
    }
    print_ratio("many", ours, bare, rounds);
    for (int i = 0; i < COLUMNS; i++) {
        free(arrays[i].bytes);
    }
    PQfinish(pg);
    check(hf_close(&bus), "hf_close");
}

struct crowd {
    hf_bus *bus;
    const char *url;
    pthread_barrier_t ready;
    atomic_bool over;
    atomic_llong done;
};

static void *publish_one_by_one(void *ctx)
{
    struct crowd *crowd = ctx;
    pthread_barrier_wait(&crowd->ready);
    while (!atomic_load(&crowd->over)) {
        hf_new_event event = one_event();
        check(hf_publish(crowd->bus, &event, NULL), "hf_publish");
        atomic_fetch_add(&crowd->done, 1);
    }
    return NULL;
}

static void *insert_one_by_one(void *ctx)
{
    struct crowd *crowd = ctx;
    char sql[512];
    PGconn *pg = pq_open(crowd->url);
    int namespace = namespace_id(pg);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO holdfast_private.events_%d (position, hash, checksum, emitted_at, entered_at, "
        "guard_at, id, namespace_id, type, producer, key, payload) VALUES "
        "(nextval('holdfast_private.events_%d_position'), $1::bigint, 0, $2::timestamptz, "
        "$3::timestamptz, $3::timestamptz, $4::uuid, %d, $5::text, $6::text, $7::text, $8::json)",
        namespace, namespace, namespace);
    pq_prepare(pg, sql);
    pthread_barrier_wait(&crowd->ready);
    while (!atomic_load(&crowd->over)) {
        uint8_t id[16];
        int64_t time_us = (int64_t)htobe64((uint64_t)make_id(id));
        const char *values[] = {(char *)&time_us, (char *)&time_us, (char *)&time_us, (char *)id,
                                "bench.event",    "bench",          "bench",          PAYLOAD};
        static const int lengths[] = {8, 8, 8, 16, 11, 5, 5, sizeof PAYLOAD - 1};
        static const int formats[] = {1, 1, 1, 1, 1, 1, 1, 1};
        pq_insert(pg, COLUMNS, values, lengths, formats);
        atomic_fetch_add(&crowd->done, 1);
    }
    PQfinish(pg);
    return NULL;
}

/* Events per second of so many threads. */
static double run_crowd(struct crowd *crowd, void *(*main)(void *))
{
    pthread_t threads[PUBLISHERS];
    pthread_barrier_init(&crowd->ready, NULL, PUBLISHERS + 1);
    atomic_store(&crowd->over, false);
    atomic_store(&crowd->done, 0);
    for (int i = 0; i < PUBLISHERS; i++) {
        if (pthread_create(&threads[i], NULL, main, crowd) != 0) {
            die("pthread_create", "failed");
        }
    }
    pthread_barrier_wait(&crowd->ready);
    double began = seconds();
    sleep(SINGLES_SECONDS);
    atomic_store(&crowd->over, true);
    for (int i = 0; i < PUBLISHERS; i++) {
        pthread_join(threads[i], NULL);
    }
    double rate = (double)atomic_load(&crowd->done) / (seconds() - began);
    pthread_barrier_destroy(&crowd->ready);
    return rate;
}

static void bench_singles(const char *url, int rounds)
{
    double ours[ROUNDS_MAX];
    double bare[ROUNDS_MAX];
    struct crowd crowd = {.bus = open_as(url, "bench"), .url = url};
    for (int round = 0; round < rounds; round++) {
        ours[round] = run_crowd(&crowd, publish_one_by_one);
        bare[round] = run_crowd(&crowd, insert_one_by_one);
    }
    print_ratio("singles", ours, bare, rounds);
    check(hf_close(&crowd.bus), "hf_close");
}

/* ---- Consuming ------------------------------------------------------------------------------- */

struct drained {
    double rate;
    double own_us; /* of CPU, per event */
    double server_us;
    double mib[4]; /* resident, in each quarter */
    double max_mib;
};

/* A subscription of that name, from the start of the log to its end. */
static struct drained drain(const char *url, PGconn *pg, const char *name, hf_mode mode,
                            long long count)
{
    struct drained drained = {0};
    hf_bus *bus = open_as(url, "bench");
    subscribe(bus, name, mode, HF_PLACE_START);
    atomic_store(&handled, 0);
    double own = own_cpu();
    double server = server_cpu(pg);
    double began = seconds();
    check(hf_start(bus), "hf_start");
    for (long long done; (done = atomic_load(&handled)) < count;) {
        double mib = resident_mib();
        drained.mib[done * 4 / count] = mib;
        drained.max_mib = mib > drained.max_mib ? mib : drained.max_mib;
        usleep(2000);
    }
    check(hf_wait(bus, name, -1, 60000), "hf_wait");
    drained.rate = (double)count / (seconds() - began);
    drained.own_us = (own_cpu() - own) * 1e6 / (double)count;
    drained.server_us = (server_cpu(pg) - server) * 1e6 / (double)count;
    check(hf_close(&bus), "hf_close");
    return drained;
}

/* A name that was not used before. */
static const char *fresh_name(PGconn *pg)
{
    static char name[64];
    static int uses;
    snprintf(name, sizeof name, "drain-%.0f-%d",
             pq_number(pg, "SELECT extract(epoch FROM clock_timestamp()) * 1000"), ++uses);
    return name;
}

static void bench_drain(const char *url, const char *mode_name, long long count)
{
    hf_mode mode = strcmp(mode_name, "shared") == 0 ? HF_MODE_SHARED : HF_MODE_ORDERED;
    PGconn *pg = pq_open(url);
    fill(url, pg, count);
    struct drained drained = drain(url, pg, fresh_name(pg), mode, count);
    printf("{\"bench\":\"drain\",\"mode\":\"%s\",\"events\":%lld,\"rate\":%.0f,\"own_us\":%.2f,"
           "\"server_us\":%.2f,\"rss_mib\":[%.1f,%.1f,%.1f,%.1f],\"max_mib\":%.1f}\n",
           mode_name, count, drained.rate, drained.own_us, drained.server_us, drained.mib[0],
           drained.mib[1], drained.mib[2], drained.mib[3], drained.max_mib);
    PQfinish(pg);
}

static hf_mode mode_of(int argc, char **argv, int at)
{
    return argc > at && strcmp(argv[at], "shared") == 0 ? HF_MODE_SHARED : HF_MODE_ORDERED;
}

/* A session that sees the database as it is now until it ends. */
static void keep_snapshot(PGconn *pg)
{
    pq_number(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    pq_number(pg, "SELECT count(*) FROM holdfast_private.subscriptions");
}

static void bench_snapshot(const char *url, long long count, hf_mode mode, int rounds)
{
    double with[ROUNDS_MAX];
    double without[ROUNDS_MAX];
    PGconn *pg = pq_open(url);
    PGconn *holder = pq_open(url);
    fill(url, pg, count);
    for (int round = 0; round < rounds; round++) {
        without[round] = drain(url, pg, fresh_name(pg), mode, count).rate;
        keep_snapshot(holder);
        with[round] = drain(url, pg, fresh_name(pg), mode, count).rate;
        pq_number(holder, "COMMIT");
    }
    print_ratio("snapshot", with, without, rounds);
    PQfinish(holder);
    PQfinish(pg);
}

static void bench_follow(const char *url, unsigned length)
{
    hf_bus *bus = open_as(url, "bench");
    subscribe(bus, "follow", HF_MODE_ORDERED, HF_PLACE_NOW);
    check(hf_start(bus), "hf_start");
    sleep(length);
    printf("{\"bench\":\"follow\",\"handled\":%lld}\n", (long long)atomic_load(&handled));
    check(hf_close(&bus), "hf_close");
}

/* ---- Holes ----------------------------------------------------------------------------------- */

static hf_verdict note_time(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)event;
    (void)delivery;
    (void)ctx;
    atomic_store(&handled_at, seconds());
    atomic_fetch_add(&handled, 1);
    return HF_ACK;
}

static void bench_hole(const char *url, int trials)
{
    double took[TRIALS_MAX];
    hf_bus *bus = open_as(url, "bench");
    PGconn *slow = pq_open(url);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_START;
    options.order = HF_ORDER_STRICT;
    check(hf_subscribe(bus, "strict", "*", note_time, NULL, &options, NULL), "hf_subscribe");
    check(hf_start(bus), "hf_start");
    for (int i = 0; i < trials; i++) {
        hf_new_event event = one_event();
        pq_number(slow, "BEGIN");
        pq_number(slow, "SELECT position FROM holdfast.publish('default', 'bench.lost')");
        check(hf_publish(bus, &event, NULL), "hf_publish");
        usleep(30000 + 1000 * (useconds_t)(i % 40)); /* at no particular moment of a period */
        if (atomic_load(&handled) != i) {
            die("hole", "an event was delivered past a hole in strict order");
        }
        pq_number(slow, "ROLLBACK");
        double began = seconds();
        while (atomic_load(&handled) == i) {
            usleep(100);
        }
        took[i] = (atomic_load(&handled_at) - began) * 1e3;
    }
    double median = quantile(took, trials, 0.5);
    printf("{\"bench\":\"hole\",\"trials\":%d,\"median_ms\":%.1f,\"max_ms\":%.1f}\n", trials,
           median, took[trials - 1]);
    PQfinish(slow);
    check(hf_close(&bus), "hf_close");
}

/* ---- Dead rows ------------------------------------------------------------------------------- */

static double dead_rows(PGconn *pg, const char *schema)
{
    char sql[256];
    pq_number(pg, "SELECT pg_stat_clear_snapshot()");
    snprintf(sql, sizeof sql,
             "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_all_tables WHERE schemaname %s",
             schema);
    return pq_number(pg, sql);
}

static void bench_tuples(const char *url, long long count, hf_mode mode, bool held)
{
    hf_bus *bus = open_as(url, "bench");
    PGconn *pg = pq_open(url);
    PGconn *holder = pq_open(url);
    if (held) {
        keep_snapshot(holder);
    }
    double before = dead_rows(pg, "<> 'holdfast_private'");
    subscribe(bus, "tuples", mode, HF_PLACE_START);
    check(hf_start(bus), "hf_start");
    for (long long done = 0; done < count; done += MANY) {
        publish_thousand(bus);
    }
    check(hf_wait(bus, "tuples", -1, 600000), "hf_wait");
    check(hf_close(&bus), "hf_close");
    sleep(2); /* the server's counters are not written at once */
    printf("{\"bench\":\"tuples\",\"events\":%lld,\"dead\":%.0f,\"catalogue\":%.0f}\n", count,
           dead_rows(pg, "= 'holdfast_private'"), dead_rows(pg, "<> 'holdfast_private'") - before);
    PQfinish(holder);
    PQfinish(pg);
}

/* ---- Nothing to do --------------------------------------------------------------------------- */

static long long count_statements(const char *path)
{
    char line[65536];
    long long count = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        die(path, "cannot be read");
    }
    while (fgets(line, sizeof line, file)) {
        count += strstr(line, " LOG:  execute ") || strstr(line, " LOG:  statement: ");
    }
    fclose(file);
    return count;
}

static void bench_idle(const char *url, const char *log, unsigned length)
{
    hf_bus *bus = open_as(url, "bench");
    subscribe(bus, "ordered", HF_MODE_ORDERED, HF_PLACE_START);
    subscribe(bus, "shared", HF_MODE_SHARED, HF_PLACE_START);
    check(hf_start(bus), "hf_start");
    publish_thousand(bus);
    check(hf_wait(bus, NULL, -1, 60000), "hf_wait");
    sleep(12); /* checkpoints, and falling asleep */
    double cpu = own_cpu();
    long long before = count_statements(log);
    sleep(length);
    long long after = count_statements(log);
    cpu = own_cpu() - cpu;
    printf("{\"bench\":\"idle\",\"seconds\":%u,\"statements\":%lld,\"per_10s\":%.2f,"
           "\"cpu_percent\":%.3f}\n",
           length, after - before, (double)(after - before) * 10 / length, cpu * 100 / length);
    check(hf_close(&bus), "hf_close");
}

/* ---- Which one ------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[1] : "";
    const char *url = argc > 2 ? argv[2] : "";
    if (strcmp(name, "many") == 0) {
        bench_many(url, (int)number(argc, argv, 3, 5, ROUNDS_MAX));
    } else if (strcmp(name, "singles") == 0) {
        bench_singles(url, (int)number(argc, argv, 3, 5, ROUNDS_MAX));
    } else if (strcmp(name, "drain") == 0 && argc > 3) {
        bench_drain(url, argv[3], number(argc, argv, 4, 1000000, 1000000000));
    } else if (strcmp(name, "snapshot") == 0) {
        bench_snapshot(url, number(argc, argv, 3, 300000, 1000000000), mode_of(argc, argv, 4), 3);
    } else if (strcmp(name, "follow") == 0) {
        bench_follow(url, (unsigned)number(argc, argv, 3, 10, 86400));
    } else if (strcmp(name, "hole") == 0) {
        bench_hole(url, (int)number(argc, argv, 3, 50, TRIALS_MAX));
    } else if (strcmp(name, "tuples") == 0) {
        bench_tuples(url, number(argc, argv, 3, 1000000, 1000000000), mode_of(argc, argv, 4),
                     argc > 5 && strcmp(argv[5], "held") == 0);
    } else if (strcmp(name, "idle") == 0 && argc > 3) {
        bench_idle(url, argv[3], (unsigned)number(argc, argv, 4, 30, 86400));
    } else {
        fprintf(stderr, "usage: postgres many|singles|drain|snapshot|follow|hole|tuples|idle URL "
                        "...\n");
        return 2;
    }
    return 0;
}
