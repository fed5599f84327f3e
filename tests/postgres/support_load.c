/*
 * support_load.c - see support_load.h.
 */
#include "postgres/support_load.h"

#include "base/time/clock.h"
#include "base/uuid.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 15000
#define PAUSE_MS 1

/* ---- Publishing ------------------------------------------------------------------------------ */

static hf_status publish_once(struct load *load, const hf_new_event *event)
{
    hf_status status = hf_publish(load->bus, event, NULL);
    atomic_fetch_add(&load->full_disk, status == HF_NOSPACE);
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    return status;
}

/* Publishes until it is clear what became of it. After an open answer the next one speaks for
 * itself alone: whatever it refuses, the event of the first may be there. */
static hf_status publish_surely(struct load *load, const hf_new_event *event)
{
    hf_status status = publish_once(load, event);
    if (status != HF_UNKNOWN) {
        return status;
    }
    while (status && !atomic_load(&load->stop)) {
        status = publish_once(load, event);
    }
    return status == HF_OK ? HF_OK : HF_UNKNOWN;
}

static void *publisher_main(void *ctx)
{
    struct load_publisher *publisher = ctx;
    struct load *load = publisher->load;
    char key[16];
    snprintf(key, sizeof key, "k%d", (int)(publisher - load->publishers));
    while (!atomic_load(&load->stop)) {
        if (publisher->count == LOAD_EVENTS_MAX) {
            atomic_store(&load->full, true);
            break;
        }
        struct load_sent *sent = &publisher->sent[publisher->count++];
        uint8_t id[UUID_BYTES];
        uuid_v7(clock_wall_us(), id);
        uuid_format(id, sent->id);
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = "t";
        event.id = sent->id;
        event.key = key;
        sent->status = publish_surely(load, &event);
        atomic_fetch_add(&load->acknowledged, sent->status == HF_OK);
    }
    return NULL;
}

static hf_verdict take(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct load_inbox *inbox = ctx;
    (void)delivery;
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->count < LOAD_EVENTS_MAX) {
        snprintf(inbox->ids[inbox->count++], HF_ID_BYTES, "%s", event->id);
    }
    pthread_mutex_unlock(&inbox->mutex);
    return HF_ACK;
}

static void subscribe(struct load *load, const char *name, hf_mode mode, hf_toggle transactional,
                      struct load_inbox *inbox)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.mode = mode;
    options.transactional = transactional;
    options.from.kind = HF_PLACE_START;
    pthread_mutex_init(&inbox->mutex, NULL);
    inbox->ids = malloc(LOAD_EVENTS_MAX * sizeof *inbox->ids);
    must_hold(inbox->ids);
    must_answer(HF_OK, hf_subscribe(load->bus, name, "*", take, inbox, &options, NULL));
}

static void say(const hf_log_record *record, void *ctx)
{
    (void)ctx;
    if (getenv("LOAD_LOG")) {
        fprintf(stderr, "# %lld %s: %s: %s\n", (long long)(clock_mono_us() / 1000),
                record->subscription ? record->subscription : "-", record->message,
                record->error ? record->error : "");
    }
}

void load_start(struct load *load, const char *url)
{
    hf_options options = HF_OPTIONS_INIT;
    options.log = say;
    *load = (struct load){0};
    options.timeout_ms = DEADLINE_MS; /* making the schema takes its time */
    must_answer(HF_OK, hf_open(url, &options, &load->bus));
    must_answer(HF_OK, hf_close(&load->bus));
    options.timeout_ms = TIMEOUT_MS;
    must_answer(HF_OK, hf_open(url, &options, &load->bus));
    subscribe(load, "o", HF_MODE_ORDERED, HF_OFF, &load->ordered);
    subscribe(load, "s", HF_MODE_SHARED, HF_OFF, &load->shared);
    subscribe(load, "t", HF_MODE_ORDERED, HF_ON, &load->transactional);
    must_answer(HF_OK, hf_start(load->bus));
    for (int i = 0; i < LOAD_PUBLISHERS; i++) {
        struct load_publisher *publisher = &load->publishers[i];
        publisher->load = load;
        publisher->sent = calloc(LOAD_EVENTS_MAX, sizeof *publisher->sent);
        must_hold(publisher->sent);
        must_equal(0, pthread_create(&publisher->thread, NULL, publisher_main, publisher));
    }
}

static int64_t await_more(atomic_int_least64_t *number, int64_t more)
{
    int64_t begun_us = clock_mono_us();
    int64_t wanted = atomic_load(number) + more;
    while (atomic_load(number) < wanted) {
        must_hold(clock_mono_us() - begun_us < DEADLINE_MS * INT64_C(1000));
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    }
    return (clock_mono_us() - begun_us) / 1000;
}

int64_t load_await(struct load *load, int64_t more)
{
    return await_more(&load->acknowledged, more);
}

int64_t load_await_full_disk(struct load *load, int64_t more)
{
    return await_more(&load->full_disk, more);
}

/* What keeps a subscription. */
static int tell(const hf_subscription_info *info, void *ctx)
{
    (void)ctx;
    print_message("# %s: checkpoint %lld of %lld, in flight %lld, retrying %lld, held %lld, %s\n",
                  info->name, (long long)info->checkpoint, (long long)info->head,
                  (long long)info->in_flight, (long long)info->retrying, (long long)info->held,
                  info->not_moving ? info->not_moving : "moving");
    return 0;
}

void load_finish(struct load *load)
{
    atomic_store(&load->stop, true);
    for (int i = 0; i < LOAD_PUBLISHERS; i++) {
        pthread_join(load->publishers[i].thread, NULL);
    }
    must_hold(!atomic_load(&load->full));
    hf_status status = hf_wait(load->bus, NULL, -1, DEADLINE_MS);
    if (status) {
        hf_subscription_list(load->bus, tell, NULL);
    }
    must_answer(HF_OK, status);
    must_answer(HF_OK, hf_stop(load->bus, DEADLINE_MS));
    must_answer(HF_OK, hf_close(&load->bus));
}

/* ---- Judging --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* All ids in the log, sorted by the server. */
static bool is_in(PGresult *log, const char *id)
{
    int low = 0;
    int high = PQntuples(log);
    while (low < high) {
        int middle = (low + high) / 2;
        int order = strcmp(PQgetvalue(log, middle, 0), id);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

static void judge_inbox(struct load_inbox *inbox, PGresult *log, const char *name)
{
    qsort(inbox->ids, inbox->count, sizeof *inbox->ids, compare);
    for (size_t i = 0; i < inbox->count; i++) {
        if (!is_in(log, inbox->ids[i])) {
            check_fail(__FILE__, __LINE__, "invented: %s got %s, which is not in the log", name,
                       inbox->ids[i]);
        }
    }
    for (int i = 0; i < PQntuples(log); i++) {
        const char *id = PQgetvalue(log, i, 0);
        if (!bsearch(id, inbox->ids, inbox->count, sizeof *inbox->ids, compare)) {
            check_fail(__FILE__, __LINE__, "lost: %s is in the log, but %s did not get it", id,
                       name);
        }
    }
}

static size_t judge_publisher(struct load_publisher *publisher, PGresult *log)
{
    for (size_t i = 0; i < publisher->count; i++) {
        const struct load_sent *sent = &publisher->sent[i];
        bool stored = is_in(log, sent->id);
        if (sent->status != HF_UNKNOWN && stored != (sent->status == HF_OK)) {
            check_fail(__FILE__, __LINE__, "%s: %s was answered %s", stored ? "denied" : "lost",
                       sent->id, hf_status_name(sent->status));
        }
    }
    return publisher->count;
}

void load_judge(struct load *load, PGconn *pg)
{
    PGresult *log =
        PQexec(pg, "SELECT id::text COLLATE \"C\" FROM holdfast_private.events ORDER BY 1");
    must_equal(PGRES_TUPLES_OK, PQresultStatus(log));
    size_t sent = 0;
    for (int i = 0; i < LOAD_PUBLISHERS; i++) {
        sent += judge_publisher(&load->publishers[i], log);
        free(load->publishers[i].sent);
    }
    must_hold((size_t)PQntuples(log) <= sent); /* nothing but what was sent */
    for (int i = 1; i < PQntuples(log); i++) {
        must_hold(strcmp(PQgetvalue(log, i - 1, 0), PQgetvalue(log, i, 0)) != 0); /* twice */
    }
    judge_inbox(&load->ordered, log, "o");
    judge_inbox(&load->shared, log, "s");
    judge_inbox(&load->transactional, log, "t");
    PQclear(log);
    free(load->ordered.ids);
    free(load->shared.ids);
    free(load->transactional.ids);
}
