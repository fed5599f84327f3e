/*
 * test_full_disk.c - the server's disk is full: publishing says so and stores nothing, handlers
 * lose nothing, and everything goes on when there is room again.
 *
 * The server is the program's own, with a library in its processes that refuses to let files grow
 * (tests/preload/full_disk.c). LOAD_LOG shows what the bus says meanwhile.
 */
#include "postgres/support_cluster.h"
#include "postgres/support_load.h"
#include "postgres/support_side.h"
#include "support/check.h"
#include "support/server.h"

#include "base/time/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TABLES "/base/"
#define LOG "/pg_wal/"
#define WARM_EVENTS 100
#define REFUSED_EVENTS 50
#define TIMES_FULL 3
#define MANY 200
#define PAYLOAD_BYTES 20000 /* so much that tables must grow for MANY of them */
#define URL_BYTES 512

static struct cluster cluster;

/* ---- The disk -------------------------------------------------------------------------------- */

static void flag_path(char out[300])
{
    snprintf(out, 300, "%s/full", cluster.dir);
}

/* From now on these files do not grow. */
static void disk_fill(const char *part)
{
    char path[300];
    char fresh[310];
    flag_path(path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    must_hold(file && fputs(part, file) >= 0);
    must_equal(0, fclose(file));
    must_equal(0, rename(fresh, path));
}

static void disk_free(void)
{
    char path[300];
    flag_path(path);
    must_equal(0, unlink(path));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* ---- Publishing ------------------------------------------------------------------------------ */

struct parcel {
    char ids[MANY][HF_ID_BYTES];
    hf_new_event events[MANY];
};

static void parcel_make(struct parcel *parcel, int number)
{
    static char payload[PAYLOAD_BYTES];
    uint32_t noise = 1; /* so that nothing is gained by compressing it */
    for (int i = 1; i < PAYLOAD_BYTES - 2; i++) {
        noise = noise * 1664525 + 1013904223;
        payload[i] = (char)('a' + (noise >> 16) % 26);
    }
    payload[0] = '"';
    payload[PAYLOAD_BYTES - 2] = '"';
    payload[PAYLOAD_BYTES - 1] = '\0';
    for (int i = 0; i < MANY; i++) {
        snprintf(parcel->ids[i], HF_ID_BYTES, "%08x-0000-4000-8000-%012x", number, i);
        parcel->events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        parcel->events[i].type = "t";
        parcel->events[i].id = parcel->ids[i];
        parcel->events[i].payload = payload;
    }
}

static int64_t count_of(PGconn *pg)
{
    return side_number(pg, "SELECT count(*) FROM holdfast_private.events");
}

static void a_full_disk_is_named_and_nothing_is_published(void **state)
{
    (void)state;
    static struct parcel parcel;
    char url[URL_BYTES];
    hf_bus *bus = NULL;
    hf_receipt receipts[MANY];
    cluster_database(&cluster, "named", url, sizeof url);
    must_answer(HF_OK, hf_open(url, NULL, &bus));
    hf_new_event small = HF_NEW_EVENT_INIT;
    small.type = "t";
    must_answer(HF_OK, hf_publish(bus, &small, NULL));
    PGconn *pg = side_open_url(url);

    disk_fill(TABLES);
    parcel_make(&parcel, 1);
    hf_status status = hf_publish_many(bus, parcel.events, MANY, receipts);
    char message[512];
    snprintf(message, sizeof message, "%s", hf_errmsg());
    disk_free();
    must_equal(HF_NOSPACE, status);
    must_hold(strstr(message, "the server's disk is full"));
    must_hold(strstr(message, "No space left on device"));
    must_equal(1, count_of(pg));

    must_answer(HF_OK, hf_publish_many(bus, parcel.events, MANY, receipts));
    for (int i = 0; i < MANY; i++) {
        must_equal(false, receipts[i].duplicate);
    }
    must_equal(1 + MANY, count_of(pg));
    PQfinish(pg);
    must_answer(HF_OK, hf_close(&bus));
}

/* ---- Under load ------------------------------------------------------------------------------ */

/* Ends the load: everything that is in the log must be delivered, without a dead letter. */
static void end_and_judge(struct load *load, const char *url)
{
    load_finish(load);
    PGconn *pg = side_open_url(url);
    must_equal(0, side_number(pg, "SELECT count(*) FROM holdfast.dead_letters"));
    load_judge(load, pg);
    PQfinish(pg);
}

static void tables_that_cannot_grow_lose_nothing_and_cost_no_attempt(void **state)
{
    (void)state;
    static struct load load;
    char url[URL_BYTES];
    cluster_database(&cluster, "grow", url, sizeof url);
    load_start(&load, url);
    load_await(&load, WARM_EVENTS);
    for (int i = 0; i < TIMES_FULL; i++) {
        disk_fill(TABLES);
        load_await_full_disk(&load, REFUSED_EVENTS);
        disk_free();
        load_await(&load, WARM_EVENTS);
    }
    end_and_judge(&load, url);
}

/* A server that cannot write its log stops, and cannot start either. */
static void a_server_without_room_for_its_log_is_waited_for(void **state)
{
    (void)state;
    static struct load load;
    char url[URL_BYTES];
    cluster_database(&cluster, "log", url, sizeof url);
    load_start(&load, url);
    load_await(&load, WARM_EVENTS);
    PGconn *pg = side_open_url(url);
    disk_fill(LOG);
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    while (cluster_lives(&cluster)) { /* what was made ahead is used up */
        must_hold(clock_mono_us() < until_us);
        PQclear(PQexec(pg, "SELECT pg_switch_wal()"));
        if (PQstatus(pg) != CONNECTION_OK) {
            PQreset(pg); /* it may have stopped and started with a last bit of room */
        }
        nap();
    }
    PQfinish(pg);
    disk_free();
    cluster_revive(&cluster);
    load_await(&load, WARM_EVENTS);
    end_and_judge(&load, url);
}

static const struct CMUnitTest claims[] = {
    cmocka_unit_test(a_full_disk_is_named_and_nothing_is_published),
    cmocka_unit_test(tables_that_cannot_grow_lose_nothing_and_cost_no_attempt),
    cmocka_unit_test(a_server_without_room_for_its_log_is_waited_for),
};

int main(int argc, char **argv)
{
    const char *urls = getenv("HOLDFAST_TEST_URLS");
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    if (!urls || !server_is(urls)) {
        printf("1..0 # SKIP there is no server\n");
        return 0;
    }
    cluster_start_with(&cluster, "full_disk");
    int failed = cmocka_run_group_tests(claims, NULL, NULL);
    cluster_stop(&cluster);
    return failed;
}
