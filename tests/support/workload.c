/* workload.c - see workload.h. */
#include "support/workload.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 5
#define PULL_MAX 13
#define PULL_LEASE_MS 2000 /* what could not be settled comes again after this time */

const struct ledger_subscription workload_subscriptions[WORKLOAD_SUBSCRIPTIONS] = {
    {.name = "o", .ordered = true, .attempts_max = WORKLOAD_ATTEMPTS},
    {.name = "s", .attempts_max = WORKLOAD_ATTEMPTS},
    {.name = "t",
     .type = "work",
     .ordered = true,
     .transactional = true,
     .derives = true,
     .attempts_max = WORKLOAD_ATTEMPTS},
    {.name = "p", .attempts_max = WORKLOAD_ATTEMPTS},
};
#define PULLED 3

void workload_init(struct workload *workload, const char *dir)
{
    workload->lease_ms = -1;
    workload->durability = HF_DURABILITY_DEFAULT;
    snprintf(workload->dir, sizeof workload->dir, "%s", dir);
    snprintf(workload->path, sizeof workload->path, "%s/bus.db", dir);
    snprintf(workload->url, sizeof workload->url, "sqlite:%s", workload->path);
    snprintf(workload->consumers, sizeof workload->consumers, "%s/consumers.ledger", dir);
}

const char *workload_publisher(const struct workload *workload, int number)
{
    static _Thread_local char path[RIG_PATH_BYTES + 40];

    snprintf(path, sizeof path, "%s/publisher%d.ledger", workload->dir, number);
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

static hf_options bus_options_of(const struct workload *workload)
{
    hf_options options = HF_OPTIONS_INIT;

    options.durability = workload->durability;
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

        options.lease_ms = workload->lease_ms;
        status = hf_subscription_create(bus, workload_subscriptions[i].name, &pattern, 1, &options,
                                        NULL);
    }
    if (!status &&
        (sqlite3_open_v2(workload->path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
         sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK ||
         sqlite3_exec(db,
                      "CREATE TABLE IF NOT EXISTS effects (id TEXT);"
                      "CREATE TABLE IF NOT EXISTS outbox (id TEXT)",
                      NULL, NULL, NULL) != SQLITE_OK)) {
        status = HF_IO;
    }
    sqlite3_close(db);
    hf_close(&bus);
    return status;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

hf_status publisher_open(struct publisher *publisher, const struct workload *workload, int number,
                         uint64_t seed)
{
    hf_options options = bus_options_of(workload);
    hf_status status;

    memset(publisher, 0, sizeof *publisher);
    publisher->workload = workload;
    publisher->number = number;
    publisher->poison_percent = 1;
    chance_seed(&publisher->chance, seed);
    publisher->fd = rig_append_open(workload_publisher(workload, number));
    status = hf_open(workload->url, &options, &publisher->bus);
    if (!status && sqlite3_open_v2(workload->path, &publisher->app, SQLITE_OPEN_READWRITE, NULL) !=
                       SQLITE_OK) {
        status = HF_IO;
    }
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
    if (!chance_percent(&publisher->chance, publisher->poison_percent)) {
        return "ok";
    }
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
    length = snprintf(sent->payload, sizeof sent->payload, "{\"n\":%lld,\"kind\":\"%s\",\"x\":\"",
                      (long long)publisher->count++, draw_kind(publisher));
    for (uint64_t i = chance_below(&publisher->chance, 30); i > 0; i--) {
        length +=
            snprintf(sent->payload + length, sizeof sent->payload - (size_t)length, "%s", filler);
    }
    snprintf(sent->payload + length, sizeof sent->payload - (size_t)length, "\"}");
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
    if (!status) {
        rig_append(fd, "A %s %lld", id, (long long)position);
    } else if (status == HF_UNKNOWN) {
        rig_append(fd, "U %s", id);
    } else {
        rig_append(fd, "F %s %s", id, hf_status_name(status));
    }
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

    for (size_t i = 0; i < count; i++) {
        draw(publisher, &events[i]);
    }
    status = hf_publish_many(publisher->bus, events, count, receipts);
    for (size_t i = 0; i < count; i++) {
        answer(publisher->fd, status, events[i].id, receipts[i].position);
    }
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
    if (status) {
        atomic_store(pending->worst, (int)status);
    }
    free(pending);
}

static hf_status publish_later(struct publisher *publisher)
{
    static atomic_int worst;
    hf_status status = HF_OK;

    atomic_store(&worst, HF_OK);
    for (uint64_t i = 1 + chance_below(&publisher->chance, 8); i > 0 && status == HF_OK; i--) {
        struct pending *pending = malloc(sizeof *pending);
        hf_new_event event;

        if (!pending) {
            abort();
        }
        draw(publisher, &event);
        *pending = (struct pending){.fd = publisher->fd, .worst = &worst};
        memcpy(pending->id, event.id, HF_ID_BYTES);
        status = hf_publish_async(publisher->bus, &event, published, pending);
        if (status) {
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
    if (status) {
        answer(publisher->fd, status, event.id, 0);
        return status;
    }
    snprintf(sql, sizeof sql, "INSERT INTO outbox VALUES ('%s')", event.id);
    if (sqlite3_exec(publisher->app, sql, NULL, NULL, NULL) != SQLITE_OK) {
        status = HF_IO;
    }
    if (!status) {
        status = hf_sqlite_publish(publisher->bus, publisher->app, &event, &receipt);
    }
    if (status || chance_percent(&publisher->chance, 10)) {
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

    if (!sent->acknowledged) {
        return HF_OK;
    }
    event.type = "work";
    event.id = sent->id;
    event.payload = sent->payload;
    status = hf_publish(publisher->bus, &event, &receipt);
    if (!status) {
        rig_append(publisher->fd, "A %s %lld", sent->id, (long long)receipt.position);
    }
    return status;
}

hf_status publisher_bulk(struct publisher *publisher, size_t count, size_t bytes)
{
    hf_new_event *events = calloc(count, sizeof *events);
    hf_receipt *receipts = calloc(count, sizeof *receipts);
    char(*ids)[HF_ID_BYTES] = calloc(count, sizeof *ids);
    char *payload = malloc(bytes + 64);
    hf_status status;
    int head;

    if (!events || !receipts || !ids || !payload) {
        abort();
    }
    head =
        snprintf(payload, 64, "{\"n\":%lld,\"kind\":\"ok\",\"x\":\"", (long long)publisher->count);
    memset(payload + head, '.', bytes);
    memcpy(payload + head + bytes, "\"}", 3);
    for (size_t i = 0; i < count; i++) {
        chance_id(&publisher->chance, ids[i]);
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "work";
        events[i].id = ids[i];
        events[i].payload = payload;
        rig_append(publisher->fd, "S %s - %llx", ids[i],
                   (unsigned long long)rig_hash(payload, strlen(payload)));
    }
    status = hf_publish_many(publisher->bus, events, count, receipts);
    for (size_t i = 0; i < count; i++) {
        answer(publisher->fd, status, ids[i], receipts[i].position);
    }
    free(events);
    free(receipts);
    free(ids);
    free(payload);
    return status;
}

hf_status publisher_step(struct publisher *publisher)
{
    uint64_t way = chance_below(&publisher->chance, 100);

    if (way < 50) {
        return publish_one(publisher);
    }
    if (way < 65) {
        return publish_several(publisher);
    }
    if (way < 85) {
        return publish_later(publisher);
    }
    if (way < 97) {
        return publish_joined(publisher);
    }
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
    if (hf_event_get(publisher->bus, id, look_up, &position) == HF_OK) {
        rig_append(publisher->fd, "A %s %lld", id, (long long)position);
    }
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

/* What becomes of this attempt: a, r or k (ledger.h). */
static char verdict_of(const hf_event *event, int32_t attempt)
{
    if (strstr(event->payload, "\"kind\":\"ok\"")) {
        return 'a';
    }
    if (strstr(event->payload, "\"kind\":\"kills\"")) {
        return 'k';
    }
    return strstr(event->payload, "\"kind\":\"once\"") && attempt > 1 ? 'a' : 'r';
}

/* Writes D, and dies if the event is one that kills. */
static char enter(struct consumer *consumer, const char *name, const hf_event *event,
                  int32_t attempt)
{
    char letter = verdict_of(event, attempt);

    rig_append(consumer->fd, "D %s %s %d %llx %c %d", name, event->id, (int)attempt,
               (unsigned long long)rig_hash(event->payload, event->payload_bytes), letter,
               (int)getpid());
    if (letter == 'k') {
        raise(SIGKILL);
    }
    return letter;
}

/* The effect and the derived event of the transactional subscription. */
static hf_verdict act(struct consumer *consumer, const hf_event *event, hf_delivery *delivery)
{
    hf_new_event derived = HF_NEW_EVENT_INIT;
    char id[HF_ID_BYTES], payload[80], sql[100];

    rig_derived_id(event->id, id);
    snprintf(payload, sizeof payload, "{\"kind\":\"ok\",\"of\":%lld}", (long long)event->position);
    rig_append(consumer->fd, "S %s - %llx", id,
               (unsigned long long)rig_hash(payload, strlen(payload)));
    snprintf(sql, sizeof sql, "INSERT INTO effects VALUES ('%s')", event->id);
    if (sqlite3_exec(hf_delivery_sqlite(delivery), sql, NULL, NULL, NULL) != SQLITE_OK) {
        return HF_RETRY_UNCOUNTED;
    }
    derived.type = "derived";
    derived.id = id;
    derived.payload = payload;
    return hf_publish(hf_delivery_bus(delivery), &derived, NULL) == HF_OK ? HF_ACK
                                                                          : HF_RETRY_UNCOUNTED;
}

static hf_verdict consume(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct consumer *consumer = ctx;
    const char *name = hf_delivery_subscription(delivery);
    char letter = enter(consumer, name, event, hf_delivery_attempt(delivery));

    if (hf_delivery_sqlite(delivery)) {
        hf_verdict acted = act(consumer, event, delivery);

        if (acted != HF_ACK) {
            rig_append(consumer->fd, "N %s %s", name, event->id);
            return acted;
        }
    }
    if (letter == 'a') {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "poison, attempt %d", (int)hf_delivery_attempt(delivery));
    return HF_RETRY;
}

/* Settles a claimed batch: the first third may be given back unseen, poison is nacked, the rest is
 * acknowledged together at the end. */
static void settle_batch(struct consumer *consumer, const hf_batch *batch, uint64_t round)
{
    const char *name = workload_subscriptions[PULLED].name;
    const char *lease = hf_batch_lease(batch);
    size_t count = hf_batch_count(batch), done = 0;
    size_t released = round % 4 == 0 ? count / 3 : 0;
    int64_t positions[PULL_MAX];

    for (size_t i = 0; i < released; i++) {
        hf_release(consumer->bus, name, lease, &hf_batch_event(batch, i)->position, 1);
    }
    if (round % 3 == 0) {
        hf_touch(consumer->bus, name, lease, PULL_LEASE_MS);
    }
    for (size_t i = released; i < count; i++) {
        const hf_event *event = hf_batch_event(batch, i);

        if (enter(consumer, name, event, hf_batch_attempt(batch, i)) == 'a') {
            positions[done++] = event->position;
        } else {
            hf_nack(consumer->bus, name, lease, &event->position, 1, 5, "poison");
        }
    }
    if (done == 0 || hf_ack(consumer->bus, name, lease, positions, done) == HF_OK) {
        return;
    }
    for (size_t i = released; i < count; i++) {
        rig_append(consumer->fd, "N %s %s", name, hf_batch_event(batch, i)->id);
    }
}

static void *pull(void *ctx)
{
    struct consumer *consumer = ctx;
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;

    options.wait_ms = 50;
    options.lease_ms = PULL_LEASE_MS;
    for (uint64_t round = 1; !atomic_load(&consumer->stop); round++) {
        hf_batch *batch = NULL;

        options.max = (int32_t)(1 + round * 7 % PULL_MAX);
        if (hf_claim(consumer->bus, workload_subscriptions[PULLED].name, &options, &batch) !=
            HF_OK) {
            usleep(10000);
        } else if (hf_batch_count(batch) > 0) {
            settle_batch(consumer, batch, round);
        }
        hf_batch_free(batch);
    }
    return NULL;
}

hf_status consumer_open(struct consumer *consumer, const struct workload *workload)
{
    hf_options options = bus_options_of(workload);
    hf_status status;

    memset(consumer, 0, sizeof *consumer);
    consumer->workload = workload;
    consumer->fd = rig_append_open(workload->consumers);
    status = hf_open(workload->url, &options, &consumer->bus);
    for (size_t i = 0; i < PULLED && status == HF_OK; i++) {
        const char *type = workload_subscriptions[i].type;

        status = hf_subscribe(consumer->bus, workload_subscriptions[i].name, type ? type : "*",
                              consume, consumer, NULL, NULL);
    }
    if (!status) {
        status = hf_start(consumer->bus);
    }
    if (!status) {
        consumer->pulling = pthread_create(&consumer->puller, NULL, pull, consumer) == 0;
    }
    return status;
}

hf_status consumer_close(struct consumer *consumer)
{
    hf_status status;

    atomic_store(&consumer->stop, true);
    if (consumer->pulling) {
        pthread_join(consumer->puller, NULL);
    }
    status = hf_close(&consumer->bus);
    close(consumer->fd);
    return status;
}

hf_status workload_settled(hf_bus *bus, int64_t timeout_ms)
{
    int64_t end_us = rig_mono_us() + timeout_ms * 1000;
    hf_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    hf_status status;

    do {
        status = hf_stats_get(bus, &before);
        for (size_t i = 0; i < WORKLOAD_SUBSCRIPTIONS && status == HF_OK; i++) {
            int64_t left_ms = (end_us - rig_mono_us()) / 1000;

            status = hf_wait(bus, workload_subscriptions[i].name, -1, left_ms > 0 ? left_ms : 0);
        }
        if (!status) {
            status = hf_stats_get(bus, &after);
        }
    } while (!status && after.head != before.head);
    return status;
}

static int tell(const hf_subscription_info *info, void *ctx)
{
    (void)ctx;
    fprintf(stderr,
            "# %s: checkpoint %lld of %lld, %lld in flight, %lld retrying, %lld held, %lld dead; "
            "owner %s; paused: %s; not moving: %s\n",
            info->name, (long long)info->checkpoint, (long long)info->head,
            (long long)info->in_flight, (long long)info->retrying, (long long)info->held,
            (long long)info->dead, info->owner ? info->owner : "-",
            info->paused_reason ? info->paused_reason : "-",
            info->not_moving ? info->not_moving : "-");
    return 0;
}

void workload_tell(hf_bus *bus)
{
    if (hf_subscription_list(bus, tell, NULL) != HF_OK) {
        fprintf(stderr, "# the subscriptions cannot be listed: %s\n", hf_errmsg());
    }
}

int workload_recover(int argc, char **argv, int64_t settle_ms)
{
    static struct workload workload;
    static struct publisher publisher;
    static struct consumer consumer;
    hf_status status;

    rig_child();
    if (argc < 3) {
        return 2;
    }
    workload_init(&workload, argv[2]);
    /* The last run may have ended before there was anything: preparing again must work. */
    status = workload_prepare(&workload);
    if (!status) {
        status = publisher_open(&publisher, &workload, 0, 1);
    }
    if (!status) {
        status = publisher_resolve(&publisher);
    }
    if (!status) {
        status = consumer_open(&consumer, &workload);
    }
    if (!status) {
        status = workload_settled(consumer.bus, settle_ms);
    }
    if (!status) {
        status = consumer_close(&consumer);
    }
    if (!status) {
        status = publisher_close(&publisher);
    }
    if (status) {
        fprintf(stderr, "# recover: %s: %s\n", hf_status_name(status), hf_errmsg());
    }
    return status == HF_OK ? 0 : 3;
}

/* ---- Judging --------------------------------------------------------------------------------- */

int64_t workload_judge(const struct workload *workload, int publishers, struct ledger **ret_ledger)
{
    struct ledger *ledger = ledger_new(workload_subscriptions, WORKLOAD_SUBSCRIPTIONS);
    hf_bus *bus = NULL;
    hf_status status = hf_open(workload->url, NULL, &bus);
    int64_t breaches = -1;

    for (int i = 0; i < publishers; i++) {
        ledger_read(ledger, workload_publisher(workload, i));
    }
    ledger_read(ledger, workload->consumers);
    if (!status) {
        status = ledger_inspect(ledger, bus);
    }
    if (!status) {
        status = ledger_inspect_tables(ledger, workload->path);
    }
    if (!status) {
        breaches = ledger_judge(ledger);
    } else {
        rig_say("the database cannot be read: %s: %s", hf_status_name(status), hf_errmsg());
    }
    if (breaches > 0) {
        ledger_explain(ledger, bus);
        workload_tell(bus);
    }
    hf_close(&bus);
    if (ret_ledger) {
        *ret_ledger = ledger;
    } else {
        ledger_free(ledger);
    }
    return breaches;
}
