/*
 * test_storm.c - publishers that do everything that is allowed, consumers that are killed, and a
 * ledger that must balance.
 *
 * Twenty-four publishers, each with a connection of its own, publish in SQL transactions that
 * sleep, roll back, roll back to savepoints, stay open for seconds, draw numbers and leave them,
 * are prepared; and now and then through the library. Each has keys of its own and publishes one
 * event after the other. Two processes consume: "r" ordered, "x" in strict order, "s" shared, and
 * from the middle on "n", which begins now. They are killed and started again. At the end the
 * consumers work undisturbed until everything is settled, and the ledger (ledger.h) is judged:
 * nothing lost, nothing invented, nothing refused that exists, nothing twice without a kill, every
 * key in its order, "x" in the order of positions, and all checkpoints at the end of the log.
 *
 * STORM_SECONDS (6) says how long at least, SEED which dice. A run in which no event overtook one
 * with a lower position never had an open hole, and fails as too weak.
 */
#include "postgres/support_consumer.h"
#include "postgres/support_side.h"

#include "support/ledger.h"
#include "support/rig.h"
#include "support/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PUBLISHERS 24
#define CONSUMERS 2
#define KEYS 3
#define OPEN_MAX 16
#define SETTLE_MS 90000
#define LONGER_US 60000000 /* on a slow machine, until the run was strong enough */
#define LONG_US 1000000    /* and up to twice as much more */

/* An event of the present transaction. */
struct open_event {
    char id[HF_ID_BYTES];
    int64_t position;
    bool undone; /* its savepoint was rolled back */
};

struct storm {
    char dir[RIG_PATH_BYTES];
    char url[1024];
    char consumers[RIG_PATH_BYTES + 32]; /* the consumers' ledger */
    int consumers_fd;
    hf_bus *bus;
    int64_t namespace_id;
    atomic_bool over;
    _Atomic int64_t prepared, rolled_back, lasted, left, kept;
    atomic_int failed;
    struct publisher {
        struct storm *storm;
        pthread_t thread;
        int number;
        struct chance chance;
        PGconn *pg;
        int fd;
        struct open_event open[OPEN_MAX];
        size_t open_count;
    } publishers[PUBLISHERS];
    pid_t pids[CONSUMERS];
    char letters[8];
};

/* ---- Publishing ------------------------------------------------------------------------------ */

static const char *publisher_path(const struct storm *storm, int number)
{
    static _Thread_local char path[RIG_PATH_BYTES + 32];

    snprintf(path, sizeof path, "%s/publisher-%d", storm->dir, number);
    return path;
}

/* A UUID v7 of now, as most publishers use; or any other, which goes another way. */
static void draw_id(struct publisher *self, char id[HF_ID_BYTES])
{
    struct timespec now;
    uint64_t ms, a = chance_next(&self->chance), b = chance_next(&self->chance);

    if (chance_percent(&self->chance, 20)) {
        chance_id(&self->chance, id);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    snprintf(id, HF_ID_BYTES, "%08llx-%04llx-7%03llx-8%03llx-%012llx",
             (unsigned long long)(ms >> 16 & 0xffffffff), (unsigned long long)(ms & 0xffff),
             (unsigned long long)(a & 0xfff), (unsigned long long)(a >> 12 & 0xfff),
             (unsigned long long)(b & 0xffffffffffff));
}

static void send_event(struct publisher *self, char id[HF_ID_BYTES], char key[16], char payload[64])
{
    draw_id(self, id);
    snprintf(key, 16, "k%d-%d", self->number, (int)chance_below(&self->chance, KEYS));
    snprintf(payload, 64, "{\"by\": %d, \"n\": %llu}", self->number,
             (unsigned long long)chance_next(&self->chance));
    rig_append(self->fd, "S %s %s %llx", id, key,
               (unsigned long long)rig_hash(payload, strlen(payload)));
}

static void publish_one(struct publisher *self)
{
    struct open_event *event = &self->open[self->open_count];
    char key[16], payload[64];

    if (self->open_count == OPEN_MAX) {
        return;
    }
    send_event(self, event->id, key, payload);
    event->undone = false;
    event->position = side_number(self->pg,
                                  "SELECT position FROM holdfast.publish('default', 't', '%s', "
                                  "id => '%s', key => '%s')",
                                  payload, event->id, key);
    self->open_count++;
}

static void publish_some(struct publisher *self)
{
    size_t wanted = 1 + chance_below(&self->chance, chance_percent(&self->chance, 20) ? 6 : 2);

    while (wanted-- > 0) {
        size_t before = self->open_count;
        bool save = chance_percent(&self->chance, 30);

        if (save) {
            side_must(self->pg, "SAVEPOINT s");
        }
        publish_one(self);
        if (chance_percent(&self->chance, 5)) {
            side_must(self->pg, "SELECT holdfast_private.draw(%lld)",
                      (long long)self->storm->namespace_id);
            self->storm->left++;
        }
        if (save && chance_percent(&self->chance, 50)) {
            side_must(self->pg, "ROLLBACK TO s");
            for (size_t i = before; i < self->open_count; i++) {
                self->open[i].undone = true;
            }
        }
    }
}

/* Ends the transaction in some way; true if it committed. */
static bool end_transaction(struct publisher *self, bool prepare, int64_t number)
{
    bool keep = chance_percent(&self->chance, 75);

    if (prepare) {
        char name[64];

        snprintf(name, sizeof name, "storm-%d-%d-%lld", (int)getpid(), self->number,
                 (long long)number);
        side_must(self->pg, "PREPARE TRANSACTION '%s'", name);
        usleep((useconds_t)chance_below(&self->chance, 60000));
        side_must(self->pg, "%s PREPARED '%s'", keep ? "COMMIT" : "ROLLBACK", name);
        self->storm->prepared++;
    } else {
        side_must(self->pg, keep ? "COMMIT" : "ROLLBACK");
    }
    return keep;
}

static void run_transaction(struct publisher *self, int64_t number)
{
    bool prepare = chance_percent(&self->chance, 8);
    uint64_t pause = chance_below(&self->chance, 100);
    bool kept;

    self->open_count = 0;
    side_must(self->pg, "BEGIN");
    if (prepare) {
        side_must(self->pg, "SET LOCAL holdfast.notify = off");
    }
    publish_some(self);
    if (pause == 0) {
        usleep((useconds_t)(LONG_US + chance_below(&self->chance, 2 * LONG_US)));
        self->storm->lasted++;
    } else if (pause < 20) {
        usleep((useconds_t)chance_below(&self->chance, 50000));
    }
    publish_some(self);
    kept = end_transaction(self, prepare, number);
    for (size_t i = 0; i < self->open_count; i++) {
        if (kept && !self->open[i].undone) {
            rig_append(self->fd, "A %s %lld", self->open[i].id, (long long)self->open[i].position);
        } else {
            rig_append(self->fd, "F %s rolled-back", self->open[i].id);
        }
        self->storm->rolled_back += !kept || self->open[i].undone;
        self->storm->kept += kept && !self->open[i].undone;
    }
}

/* Several events at once through the library, which has one connection for all. */
static bool run_library(struct publisher *self)
{
    hf_new_event events[4];
    hf_receipt receipts[4];
    char ids[4][HF_ID_BYTES], keys[4][16], payloads[4][64];
    size_t count = 1 + chance_below(&self->chance, 4);

    for (size_t i = 0; i < count; i++) {
        send_event(self, ids[i], keys[i], payloads[i]);
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "t";
        events[i].id = ids[i];
        events[i].key = keys[i];
        events[i].payload = payloads[i];
    }
    if (hf_publish_many(self->storm->bus, events, count, receipts) != HF_OK) {
        rig_say("publisher %d: %s", self->number, hf_errmsg());
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        rig_append(self->fd, "A %s %lld", ids[i], (long long)receipts[i].position);
    }
    return true;
}

static void *publisher_main(void *ctx)
{
    struct publisher *self = ctx;

    for (int64_t number = 0; !self->storm->over; number++) {
        if (!chance_percent(&self->chance, 20)) {
            run_transaction(self, number);
        } else if (!run_library(self)) {
            self->storm->failed++;
        }
        usleep((useconds_t)chance_below(&self->chance, 4000));
    }
    return NULL;
}

/* ---- The run --------------------------------------------------------------------------------- */

static void start_consumer(struct storm *storm, int number)
{
    char name[16];

    snprintf(name, sizeof name, "c%d", number);
    storm->pids[number] =
        consumer_start(storm->url, storm->consumers, storm->letters, name, number * 100);
}

static bool storm_begin(struct storm *storm, uint64_t seed)
{
    hf_place start = {HF_PLACE_START, -1};
    hf_options options = HF_OPTIONS_INIT;

    options.timeout_ms = CONSUMER_TIMEOUT_MS;
    rig_directory(storm->dir);
    server_make(getenv("HOLDFAST_TEST_URLS"), storm->url, sizeof storm->url);
    snprintf(storm->consumers, sizeof storm->consumers, "%s/consumers", storm->dir);
    storm->consumers_fd = rig_append_open(storm->consumers);
    snprintf(storm->letters, sizeof storm->letters, "rxs");
    if (hf_open(storm->url, &options, &storm->bus) != HF_OK ||
        consumer_subscribe(storm->bus, 'r', start) != HF_OK ||
        consumer_subscribe(storm->bus, 'x', start) != HF_OK ||
        consumer_subscribe(storm->bus, 's', start) != HF_OK) {
        rig_say("%s", hf_errmsg());
        return false;
    }
    for (int i = 0; i < PUBLISHERS; i++) {
        struct publisher *self = &storm->publishers[i];

        self->storm = storm;
        self->number = i;
        chance_seed(&self->chance, seed + (uint64_t)i * 1000003);
        self->pg = side_open_url(storm->url);
        self->fd = rig_append_open(publisher_path(storm, i));
    }
    storm->namespace_id =
        side_number(storm->publishers[0].pg, "SELECT id FROM holdfast_private.namespaces");
    for (int i = 0; i < CONSUMERS; i++) {
        start_consumer(storm, i);
    }
    return true;
}

static bool is_strong(const struct storm *storm, int kills)
{
    return storm->rolled_back > 50 && storm->prepared > 0 && storm->kept > 500 && kills > 1;
}

/* Kills consumers now and then; in the middle one more subscription begins. The number of kills. */
static int disturb(struct storm *storm, struct chance *chance, int64_t middle_us, int64_t end_us)
{
    hf_place now = {HF_PLACE_NOW, -1};
    int kills = 0;

    while (rig_mono_us() < end_us ||
           (!is_strong(storm, kills) && rig_mono_us() < end_us + LONGER_US)) {
        int victim = (int)chance_below(chance, CONSUMERS);

        usleep((useconds_t)(200000 + chance_below(chance, 800000)));
        if (rig_mono_us() > middle_us && strlen(storm->letters) == 3) {
            if (consumer_subscribe(storm->bus, 'n', now) != HF_OK) {
                rig_say("n: %s", hf_errmsg());
                storm->failed++;
                return kills;
            }
            snprintf(storm->letters, sizeof storm->letters, "rxsn");
        }
        consumer_kill(storm->pids[victim], storm->consumers_fd);
        start_consumer(storm, victim);
        kills++;
    }
    return kills;
}

struct end {
    int64_t start;
    int64_t checkpoint;
    int64_t lag;
    int64_t waiting;
};

static int keep_end(const hf_subscription_info *info, void *ctx)
{
    struct end *end = ctx;

    *end = (struct end){info->start_position, info->checkpoint, info->lag,
                        info->retrying + info->held + (info->in_flight > 0 ? info->in_flight : 0)};
    return 0;
}

static void judge(struct storm *storm, int kills)
{
    struct ledger_subscription subscriptions[] = {
        {.name = "r", .ordered = true, .attempts_max = 4, .by_position = true},
        {.name = "x", .ordered = true, .attempts_max = 4, .strict = true},
        {.name = "s", .attempts_max = 4},
        {.name = "n", .ordered = true, .attempts_max = 4, .by_position = true},
    };
    bool ended = true;
    struct ledger *ledger;
    int64_t overtaking;

    for (int i = 0; i < 4; i++) {
        struct end end = {0};

        ended &= hf_subscription_get(storm->bus, subscriptions[i].name, keep_end, &end) == HF_OK;
        if (end.lag > 0 || end.waiting > 0) {
            rig_say("%s: checkpoint %lld, lag %lld, %lld wait", subscriptions[i].name,
                    (long long)end.checkpoint, (long long)end.lag, (long long)end.waiting);
        }
        ended &= end.lag == 0 && end.waiting == 0;
        if (i == 3) {
            subscriptions[i].after = end.start;
        }
    }
    rig_ok(ended, "all checkpoints come to the end of the log");
    ledger = ledger_new(subscriptions, 4);
    for (int i = 0; i < PUBLISHERS; i++) {
        ledger_read(ledger, publisher_path(storm, i));
    }
    ledger_read(ledger, storm->consumers);
    rig_ok(ledger_inspect(ledger, storm->bus) == HF_OK, "the log can be read");
    rig_ok(ledger_judge(ledger) == 0, "nothing is lost, invented, doubled or out of order");
    overtaking = ledger_overtaking(ledger, "r");
    rig_say("%lld acknowledged, %lld rolled back, %lld drawn and left, %lld transactions prepared, "
            "%lld long; %lld calls, %lld overtaking, %d kills; n began after %lld",
            (long long)ledger_acknowledged(ledger), (long long)storm->rolled_back,
            (long long)storm->left, (long long)storm->prepared, (long long)storm->lasted,
            (long long)ledger_delivered(ledger), (long long)overtaking, kills,
            (long long)subscriptions[3].after);
    rig_ok(overtaking > 0 && is_strong(storm, kills) && subscriptions[3].after > 0 &&
               ledger_acknowledged(ledger) > 500,
           "the run was strong enough");
    ledger_free(ledger);
}

static int storm_run(uint64_t seed, int64_t seconds)
{
    static struct storm storm;
    struct chance chance;
    int kills;
    int64_t begin_us;
    hf_status status;

    chance_seed(&chance, seed);
    if (!storm_begin(&storm, seed)) {
        return 1;
    }
    begin_us = rig_mono_us();
    for (int i = 0; i < PUBLISHERS; i++) {
        if (pthread_create(&storm.publishers[i].thread, NULL, publisher_main,
                           &storm.publishers[i]) != 0) {
            abort();
        }
    }
    kills =
        disturb(&storm, &chance, begin_us + seconds * 1000000 / 3, begin_us + seconds * 1000000);
    storm.over = true;
    for (int i = 0; i < PUBLISHERS; i++) {
        pthread_join(storm.publishers[i].thread, NULL);
    }
    rig_ok(storm.failed == 0, "every publish is answered");
    for (int i = 0; i < CONSUMERS; i++) { /* the late subscription's handlers, too */
        consumer_kill(storm.pids[i], storm.consumers_fd);
        start_consumer(&storm, i);
    }
    status = hf_wait(storm.bus, NULL, -1, SETTLE_MS);
    rig_ok(status == HF_OK, "everything is settled");
    judge(&storm, kills);
    for (int i = 0; i < CONSUMERS; i++) {
        rig_kill(storm.pids[i]);
    }
    for (int i = 0; i < PUBLISHERS; i++) {
        PQfinish(storm.publishers[i].pg);
    }
    hf_close(&storm.bus);
    server_remove(storm.url);
    rig_remove(storm.dir);
    return 0;
}

int main(int argc, char **argv)
{
    const char *seconds = getenv("STORM_SECONDS"), *seed = getenv("SEED");
    uint64_t drawn = seed ? strtoull(seed, NULL, 10) : (uint64_t)rig_mono_us();

    if (consumer_is_asked_for(argc, argv)) {
        return consumer_main(argc, argv);
    }
    if (!getenv("HOLDFAST_TEST_URLS") || !server_is(getenv("HOLDFAST_TEST_URLS"))) {
        printf("1..0 # SKIP there is no server\n");
        return 0;
    }
    rig_say("seed %llu", (unsigned long long)drawn);
    if (storm_run(drawn, seconds ? strtoll(seconds, NULL, 10) : 6) != 0) {
        rig_ok(false, "the storm begins");
    }
    return rig_done();
}
