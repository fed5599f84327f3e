/* workload.c - see workload.h. */
#include "support/workload.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 5

const struct ledger_subscription workload_subscriptions[WORKLOAD_SUBSCRIPTIONS] = {
    {"o", NULL, true, false, false, WORKLOAD_ATTEMPTS},
    {"s", NULL, false, false, false, WORKLOAD_ATTEMPTS},
    {"t", "work", true, true, true, WORKLOAD_ATTEMPTS},
};

void workload_init(struct workload *workload, const char *dir)
{
    snprintf(workload->dir, sizeof(workload->dir), "%s", dir);
    snprintf(workload->path, sizeof(workload->path), "%s/bus.db", dir);
    snprintf(workload->url, sizeof(workload->url), "sqlite:%s", workload->path);
    snprintf(workload->consumers, sizeof(workload->consumers), "%s/consumers.ledger", dir);
}

const char *workload_publisher(const struct workload *workload, int number)
{
    static _Thread_local char path[RIG_PATH_BYTES + 40];

    snprintf(path, sizeof(path), "%s/publisher%d.ledger", workload->dir, number);
    return path;
}

static hf_subscription_options options_of(size_t index)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.attempts_max = WORKLOAD_ATTEMPTS;
    options.retry_base_ms = 5;
    options.retry_max_ms = 20;
    options.checkpoint_events = 20;
    options.checkpoint_ms = 20;
    options.batch = 20;
    options.mode = workload_subscriptions[index].ordered ? HF_MODE_ORDERED : HF_MODE_SHARED;
    options.transactional = workload_subscriptions[index].transactional ? HF_ON : HF_OFF;
    options.concurrency = index == 0 ? 4 : index == 1 ? 2 : 1;
    return options;
}

hf_status workload_prepare(const struct workload *workload)
{
    hf_bus *bus = NULL;
    sqlite3 *db = NULL;
    hf_status status = hf_open(workload->url, NULL, &bus);

    for (size_t i = 0; i < WORKLOAD_SUBSCRIPTIONS && status == HF_OK; i++) {
        hf_subscription_options options = options_of(i);
        const char *pattern = workload_subscriptions[i].type ? workload_subscriptions[i].type : "*";

        status = hf_subscription_create(bus, workload_subscriptions[i].name, &pattern, 1, &options,
                                        NULL);
    }
    if (status == HF_OK &&
        (sqlite3_open_v2(workload->path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
         sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK ||
         sqlite3_exec(db, "CREATE TABLE effects (id TEXT); CREATE TABLE outbox (id TEXT)", NULL,
                      NULL, NULL) != SQLITE_OK))
        status = HF_IO;
    sqlite3_close(db);
    hf_close(&bus);
    return status;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

hf_status publisher_open(struct publisher *publisher, const struct workload *workload, int number,
                         uint64_t seed)
{
    hf_status status;

    memset(publisher, 0, sizeof(*publisher));
    publisher->workload = workload;
    publisher->number = number;
    publisher->poison_percent = 1;
    chance_seed(&publisher->chance, seed);
    publisher->fd = rig_append_open(workload_publisher(workload, number));
    status = hf_open(workload->url, NULL, &publisher->bus);
    if (status == HF_OK &&
        sqlite3_open_v2(workload->path, &publisher->app, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        status = HF_IO;
    if (publisher->app) {
        sqlite3_busy_timeout(publisher->app, 10000);
        sqlite3_db_config(publisher->app, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    return status;
}

hf_status publisher_close(struct publisher *publisher)
{
    hf_status status;

    sqlite3_close(publisher->app);
    publisher->app = NULL;
    status = hf_close(&publisher->bus);
    close(publisher->fd);
    return status;
}

static const char *draw_kind(struct publisher *publisher)
{
    if (!chance_percent(&publisher->chance, publisher->poison_percent))
        return "ok";
    switch (chance_below(&publisher->chance, publisher->kills_too ? 4 : 3)) {
    case 0:
        return "fails";
    case 3:
        return "kills";
    default:
        return "once";
    }
}

/* Draws an event, writes S, and remembers it; *ret_key is in static memory of the number. */
static struct sent *draw(struct publisher *publisher, hf_new_event *ret_event)
{
    static const char *const names[KEYS] = {"k0", "k1", "k2", "k3", "k4"};
    struct sent *sent = &publisher->recent[publisher->count % WORKLOAD_RECENT];
    uint64_t key = chance_below(&publisher->chance, KEYS + 1);
    static const char filler[] = "................................................................";
    int length;

    sent->acknowledged = false;
    chance_id(&publisher->chance, sent->id);
    length = snprintf(sent->payload, sizeof(sent->payload), "{\"n\":%lld,\"kind\":\"%s\",\"x\":\"",
                      (long long)publisher->count++, draw_kind(publisher));
    for (uint64_t i = chance_below(&publisher->chance, 30); i > 0; i--)
        length +=
            snprintf(sent->payload + length, sizeof(sent->payload) - (size_t)length, "%s", filler);
    snprintf(sent->payload + length, sizeof(sent->payload) - (size_t)length, "\"}");
    *ret_event = (hf_new_event)HF_NEW_EVENT_INIT;
    ret_event->type = "work";
    ret_event->id = sent->id;
    ret_event->payload = sent->payload;
    if (key < KEYS) {
        ret_event->key = names[key];
        ret_event->tenant = publisher->number % 2 ? "one" : "zero";
    }
    rig_append(publisher->fd, "S %s %s %llx", sent->id, key < KEYS ? names[key] : "-",
               (unsigned long long)rig_hash(sent->payload, strlen(sent->payload)));
    return sent;
}

static void answer(int fd, hf_status status, const char *id, int64_t position)
{
    if (status == HF_OK)
        rig_append(fd, "A %s %lld", id, (long long)position);
    else if (status == HF_UNKNOWN)
        rig_append(fd, "U %s", id);
    else
        rig_append(fd, "F %s %s", id, hf_status_name(status));
}

static hf_status publish_one(struct publisher *publisher)
{
    hf_new_event event;
    hf_receipt receipt;
    struct sent *sent = draw(publisher, &event);
    hf_status status = hf_publish(publisher->bus, &event, &receipt);

    sent->acknowledged = status == HF_OK;
    answer(publisher->fd, status, sent->id, receipt.position);
    return status;
}

static hf_status publish_several(struct publisher *publisher)
{
    hf_new_event events[6];
    hf_receipt receipts[6];
    size_t count = 2 + chance_below(&publisher->chance, 5);
    hf_status status;

    for (size_t i = 0; i < count; i++)
        draw(publisher, &events[i]);
    status = hf_publish_many(publisher->bus, events, count, receipts);
    for (size_t i = 0; i < count; i++)
        answer(publisher->fd, status, events[i].id, receipts[i].position);
    return status;
}

struct pending {
    char id[HF_ID_BYTES];
    int fd;
    atomic_int *worst;
};

static void published(hf_status status, const hf_receipt *receipt, const char *message, void *ctx)
{
    struct pending *pending = ctx;

    (void)message;
    answer(pending->fd, status, pending->id, status == HF_OK ? receipt->position : 0);
    if (status != HF_OK)
        atomic_store(pending->worst, (int)status);
    free(pending);
}

static hf_status publish_later(struct publisher *publisher)
{
    static atomic_int worst;
    hf_status status = HF_OK;

    atomic_store(&worst, HF_OK);
    for (uint64_t i = 1 + chance_below(&publisher->chance, 8); i > 0 && status == HF_OK; i--) {
        struct pending *pending = malloc(sizeof(*pending));
        hf_new_event event;

        if (!pending)
            abort();
        draw(publisher, &event);
        *pending = (struct pending){.fd = publisher->fd, .worst = &worst};
        memcpy(pending->id, event.id, HF_ID_BYTES);
        status = hf_publish_async(publisher->bus, &event, published, pending);
        if (status != HF_OK) {
            answer(publisher->fd, status, event.id, 0);
            free(pending);
        }
    }
    hf_flush(publisher->bus, 20000);
    return status != HF_OK ? status : (hf_status)atomic_load(&worst);
}

static hf_status publish_joined(struct publisher *publisher)
{
    hf_new_event event;
    hf_receipt receipt;
    hf_status status;
    char sql[100];

    draw(publisher, &event);
    rig_append(publisher->fd, "J %s", event.id);
    status = hf_sqlite_begin(publisher->bus, publisher->app);
    if (status != HF_OK) {
        answer(publisher->fd, status, event.id, 0);
        return status;
    }
    snprintf(sql, sizeof(sql), "INSERT INTO outbox VALUES ('%s')", event.id);
    if (sqlite3_exec(publisher->app, sql, NULL, NULL, NULL) != SQLITE_OK)
        status = HF_IO;
    if (status == HF_OK)
        status = hf_sqlite_publish(publisher->bus, publisher->app, &event, &receipt);
    if (status != HF_OK || chance_percent(&publisher->chance, 10)) {
        hf_status undone = hf_sqlite_rollback(publisher->bus, publisher->app);

        rig_append(publisher->fd, "F %s rolled back", event.id);
        return status != HF_OK ? status : undone;
    }
    status = hf_sqlite_commit(publisher->bus, publisher->app);
    answer(publisher->fd, status, event.id, receipt.position);
    return status;
}

/* An id that was acknowledged before: it must answer the first position. */
static hf_status publish_again(struct publisher *publisher)
{
    struct sent *sent = &publisher->recent[chance_below(&publisher->chance, WORKLOAD_RECENT)];
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    hf_status status;

    if (!sent->acknowledged)
        return HF_OK;
    event.type = "work";
    event.id = sent->id;
    event.payload = sent->payload;
    status = hf_publish(publisher->bus, &event, &receipt);
    if (status == HF_OK)
        rig_append(publisher->fd, "A %s %lld", sent->id, (long long)receipt.position);
    return status;
}

hf_status publisher_step(struct publisher *publisher)
{
    uint64_t way = chance_below(&publisher->chance, 100);

    if (way < 50)
        return publish_one(publisher);
    if (way < 65)
        return publish_several(publisher);
    if (way < 85)
        return publish_later(publisher);
    if (way < 97)
        return publish_joined(publisher);
    return publish_again(publisher);
}

static int look_up(const hf_event *event, void *ctx)
{
    *(int64_t *)ctx = event->position;
    return 0;
}

/* What its predecessor sent without an answer: is it there? */
static void resolve_one(const char *id, const char *key, void *ctx)
{
    struct publisher *publisher = ctx;
    int64_t position = 0;

    (void)key;
    if (hf_event_get(publisher->bus, id, look_up, &position) == HF_OK)
        rig_append(publisher->fd, "A %s %lld", id, (long long)position);
}

hf_status publisher_resolve(struct publisher *publisher)
{
    struct ledger *ledger = ledger_new(workload_subscriptions, WORKLOAD_SUBSCRIPTIONS);

    ledger_read(ledger, workload_publisher(publisher->workload, publisher->number));
    ledger_unanswered(ledger, resolve_one, publisher);
    ledger_free(ledger);
    return HF_OK;
}

/* ---- Consuming ------------------------------------------------------------------------------- */

static hf_verdict verdict_of(const hf_event *event, hf_delivery *delivery, char *ret_letter)
{
    *ret_letter = 'a';
    if (strstr(event->payload, "\"kind\":\"ok\""))
        return HF_ACK;
    if (strstr(event->payload, "\"kind\":\"kills\"")) {
        *ret_letter = 'k';
        return HF_DEAD;
    }
    if (strstr(event->payload, "\"kind\":\"once\"") && hf_delivery_attempt(delivery) > 1)
        return HF_ACK;
    *ret_letter = 'r';
    hf_delivery_error(delivery, "poison, attempt %d", (int)hf_delivery_attempt(delivery));
    return HF_RETRY;
}

/* The effect and the derived event of the transactional subscription. */
static hf_verdict act(struct consumer *consumer, const hf_event *event, hf_delivery *delivery)
{
    hf_new_event derived = HF_NEW_EVENT_INIT;
    char id[HF_ID_BYTES], payload[80], sql[100];

    rig_derived_id(event->id, id);
    snprintf(payload, sizeof(payload), "{\"kind\":\"ok\",\"of\":%lld}", (long long)event->position);
    rig_append(consumer->fd, "S %s - %llx", id,
               (unsigned long long)rig_hash(payload, strlen(payload)));
    snprintf(sql, sizeof(sql), "INSERT INTO effects VALUES ('%s')", event->id);
    if (sqlite3_exec(hf_delivery_sqlite(delivery), sql, NULL, NULL, NULL) != SQLITE_OK)
        return HF_RETRY_UNCOUNTED;
    derived.type = "derived";
    derived.id = id;
    derived.payload = payload;
    return hf_publish(hf_delivery_bus(delivery), &derived, NULL) == HF_OK ? HF_ACK
                                                                          : HF_RETRY_UNCOUNTED;
}

static hf_verdict consume(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct consumer *consumer = ctx;
    char letter;
    hf_verdict verdict = verdict_of(event, delivery, &letter);

    rig_append(consumer->fd, "D %s %s %d %llx %c %d", hf_delivery_subscription(delivery), event->id,
               (int)hf_delivery_attempt(delivery),
               (unsigned long long)rig_hash(event->payload, event->payload_bytes), letter,
               (int)getpid());
    if (letter == 'k')
        raise(SIGKILL);
    if (hf_delivery_sqlite(delivery)) {
        hf_verdict acted = act(consumer, event, delivery);

        if (acted != HF_ACK) {
            rig_append(consumer->fd, "N %s %s", hf_delivery_subscription(delivery), event->id);
            return acted;
        }
    }
    return verdict;
}

hf_status consumer_open(struct consumer *consumer, const struct workload *workload)
{
    hf_status status;

    memset(consumer, 0, sizeof(*consumer));
    consumer->workload = workload;
    consumer->fd = rig_append_open(workload->consumers);
    status = hf_open(workload->url, NULL, &consumer->bus);
    for (size_t i = 0; i < WORKLOAD_SUBSCRIPTIONS && status == HF_OK; i++) {
        const char *type = workload_subscriptions[i].type;

        status = hf_subscribe(consumer->bus, workload_subscriptions[i].name, type ? type : "*",
                              consume, consumer, NULL, NULL);
    }
    return status == HF_OK ? hf_start(consumer->bus) : status;
}

hf_status consumer_close(struct consumer *consumer)
{
    hf_status status = hf_close(&consumer->bus);

    close(consumer->fd);
    return status;
}

hf_status workload_settled(hf_bus *bus, int64_t timeout_ms)
{
    int64_t end_us = rig_mono_us() + timeout_ms * 1000;
    hf_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    hf_status status;

    do {
        int64_t left_ms = (end_us - rig_mono_us()) / 1000;

        status = hf_stats_get(bus, &before);
        if (status == HF_OK)
            status = hf_wait(bus, NULL, -1, left_ms > 0 ? left_ms : 0);
        if (status == HF_OK)
            status = hf_stats_get(bus, &after);
    } while (status == HF_OK && after.head != before.head);
    return status;
}

/* ---- Judging --------------------------------------------------------------------------------- */

int64_t workload_judge(const struct workload *workload, int publishers, struct ledger **ret_ledger)
{
    struct ledger *ledger = ledger_new(workload_subscriptions, WORKLOAD_SUBSCRIPTIONS);
    hf_bus *bus = NULL;
    hf_status status = hf_open(workload->url, NULL, &bus);
    int64_t breaches = -1;

    for (int i = 0; i < publishers; i++)
        ledger_read(ledger, workload_publisher(workload, i));
    ledger_read(ledger, workload->consumers);
    if (status == HF_OK)
        status = ledger_inspect(ledger, bus);
    if (status == HF_OK)
        status = ledger_inspect_file(ledger, workload->path);
    if (status == HF_OK)
        breaches = ledger_judge(ledger);
    else
        rig_say("the database cannot be read: %s: %s", hf_status_name(status), hf_errmsg());
    hf_close(&bus);
    if (ret_ledger)
        *ret_ledger = ledger;
    else
        ledger_free(ledger);
    return breaches;
}
