/*
 * test_groups.c - eight processes work for one subscription while they are killed, frozen, stopped
 * and started, and a ledger that must balance.
 *
 * Publishers with keys of their own publish one event after the other. Eight processes consume "p",
 * ordered with 16 partitions, "s", shared, and "b", ordered with 8 partitions and a transactional
 * batch handler by key (in every third process: on SQLite its transactions keep out all writers).
 * Twice a second one of them is killed with SIGKILL, stopped for a part of its lease or for longer
 * than it, asked to stop, or started again, and now and then the number of partitions is changed.
 * At the end all of them work undisturbed until everything is settled, are asked to stop, and the
 * ledger (ledger.h) is judged: nothing is lost or invented, every key of "p" and "b" comes in the
 * order of its positions, whatever came twice was in the hands of a process that was killed or
 * frozen, and each event of "b" has one effect.
 *
 * The lines of "b" are written for units that succeed only: in one that fails all events come
 * again, those before the culprit, too.
 *
 * One event in a hundred fails at first, one in five hundred always: exactly those are dead
 * letters. One more process that comes when all is done finds nothing to do: the checkpoints, also
 * of what was settled ahead of them, have passed everything.
 *
 * GROUPS_SECONDS (7) says how long at least, SEED which dice. A run without each kind of
 * disturbance lasts longer, and fails as too weak if that does not help.
 */
#include "support_tables.h"

#include "support/ledger.h"
#include "support/rig.h"
#include "support/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8
#define PUBLISHERS 3
#define PARTITIONS 16
#define BATCH_PARTITIONS 8
#define KEYS 20
#define LEASE_MS 1500
#define PAUSE_MS (LEASE_MS / 3) /* who did not run for so long says so */
#define ATTEMPTS_MAX 12         /* more than one event is killed with */
#define TRIES_MAX 20            /* of a publish that is not answered in time */
#define SETTLE_MS 120000
#define LEAVE_MS 60000
#define OPENS_MAX 20          /* of a handle that has little time */
#define LONGER_US 60000000    /* on a slow machine, until the run was strong enough */
#define PUBLISH_REST_US 80000 /* at most: consumers under a sanitizer follow */
#define URL_BYTES 1024

static const char *const NAMES[] = {"p", "s", "b"};
#define GROUPS (sizeof(NAMES) / sizeof(NAMES[0]))

static hf_subscription_options group_options(const char *name)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;

    options.from.kind = HF_PLACE_START;
    options.mode = name[0] == 's' ? HF_MODE_SHARED : HF_MODE_ORDERED;
    if (name[0] == 'p') {
        options.partitions = PARTITIONS;
    }
    if (name[0] == 'b') {
        options.partitions = BATCH_PARTITIONS;
        options.batch_by = HF_BATCH_KEY;
        options.on_batch_failure = HF_BATCH_SPLIT;
        options.transactional = HF_ON;
    }
    options.concurrency = 2;
    options.batch = 20;
    options.inflight_max = 100; /* so many are run one by one after a kill */
    options.lease_ms = LEASE_MS;
    options.checkpoint_ms = 100;
    options.attempts_max = ATTEMPTS_MAX;
    options.retry_base_ms = 5;
    options.retry_max_ms = 40;
    return options;
}

/* ---- A process of the group ------------------------------------------------------------------ */

static bool fails(const hf_event *event, int32_t attempt)
{
    return strstr(event->payload, "\"always\"") ||
           (strstr(event->payload, "\"once\"") && attempt == 1);
}

static void write_down(int fd, const hf_event *event, hf_delivery *delivery, char verdict)
{
    rig_append(fd, "D %s %s %d %llx %c %d", hf_delivery_subscription(delivery), event->id,
               (int)hf_delivery_attempt(delivery),
               (unsigned long long)rig_hash(event->payload, event->payload_bytes), verdict,
               (int)getpid());
}

static hf_verdict handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    int32_t attempt = hf_delivery_attempt(delivery);
    bool failing = fails(event, attempt);

    write_down(*(const int *)ctx, event, delivery, failing ? 'r' : 'a');
    usleep((useconds_t)(event->position % 5) * 400);
    if (!failing) {
        return HF_ACK;
    }
    hf_delivery_error(delivery, "poison, attempt %d", (int)attempt);
    return HF_RETRY;
}

static hf_verdict handle_batch(const hf_event *const *events, size_t count, hf_delivery *delivery,
                               void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        if (!delivery_run(delivery, "INSERT INTO effects VALUES ('%s')", events[i]->id)) {
            return HF_RETRY_UNCOUNTED;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (fails(events[i], hf_delivery_attempt(delivery))) {
            hf_delivery_error(delivery, "poison among %zu", count);
            return HF_RETRY;
        }
    }
    for (size_t i = 0; i < count; i++) {
        write_down(*(const int *)ctx, events[i], delivery, 'a');
    }
    return HF_ACK;
}

static hf_status subscribe_group(hf_bus *bus, const char *name, int *fd)
{
    hf_subscription_options stored = HF_SUBSCRIPTION_OPTIONS_INIT;

    if (name[0] == 'b') {
        return hf_subscribe_batch(bus, name, "*", handle_batch, fd, &stored, NULL);
    }
    return hf_subscribe(bus, name, "*", handle, fd, &stored, NULL);
}

/* A process that a busy machine did not let run was frozen, too, without a record of that. */
static void *note_pauses(void *ctx)
{
    int64_t last_us = rig_mono_us();

    for (;;) {
        int64_t now_us;

        usleep(50000);
        now_us = rig_mono_us();
        if (now_us - last_us > PAUSE_MS * 1000) {
            rig_append(*(const int *)ctx, "Z %d", (int)getpid());
        }
        last_us = now_us;
    }
    return NULL;
}

/* member URL LEDGER NAME: works until SIGTERM. */
static int member_main(int argc, char **argv)
{
    static int fd;
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;
    hf_status status;
    pthread_t thread;
    sigset_t set;
    int got;

    rig_child();
    sigemptyset(&set);
    sigaddset(&set, SIGTERM); /* it is blocked since before the program began */
    if (argc < 5) {
        return 2;
    }
    fd = rig_append_open(argv[3]);
    if (pthread_create(&thread, NULL, note_pauses, &fd) != 0 || pthread_detach(thread) != 0) {
        abort();
    }
    options.node_name = argv[4];
    options.timeout_ms = LEAVE_MS / 3;
    status = hf_open(argv[2], &options, &bus);
    for (size_t i = 0; i < GROUPS && status == HF_OK; i++) {
        if (NAMES[i][0] != 'b' || strtol(argv[4] + 1, NULL, 10) % 3 == 0) {
            status = subscribe_group(bus, NAMES[i], &fd);
        }
    }
    if (!status) {
        status = hf_start(bus);
    }
    if (status) {
        fprintf(stderr, "# member: %s: %s\n", hf_status_name(status), hf_errmsg());
        return 3;
    }
    sigwait(&set, &got);
    status = hf_close(&bus);
    if (status) {
        fprintf(stderr, "# leaving: %s: %s\n", hf_status_name(status), hf_errmsg());
    }
    return status == HF_OK ? 0 : 4;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

struct storm {
    char dir[RIG_PATH_BYTES];
    char url[URL_BYTES];
    char members[RIG_PATH_BYTES + 32]; /* path of the ledger of the members */
    int fd;                            /* the same ledger, opened to record members that are gone */
    struct scene scene;                /* for the application's tables */
    hf_bus *bus;
    hf_bus *probe; /* gives up soon */
    struct chance chance;
    atomic_bool over;
    atomic_int failed, always, published;
    pid_t pids[PROCESSES];
    int killed, frozen, outlived, stopped, unclean;
    int changes;                /* of the number of partitions */
    int32_t partitions[GROUPS]; /* requested */
    struct publisher {
        struct storm *storm;
        pthread_t thread;
        int number;
        int fd;
        struct chance chance;
    } publishers[PUBLISHERS];
};

static const char *publisher_path(const struct storm *storm, int number)
{
    static char path[RIG_PATH_BYTES + 32];

    snprintf(path, sizeof path, "%s/publisher-%d", storm->dir, number);
    return path;
}

static void publish_some(struct publisher *self)
{
    hf_new_event events[8];
    hf_receipt receipts[8];
    char ids[8][HF_ID_BYTES], keys[8][16], payloads[8][64];
    size_t count = 1 + chance_below(&self->chance, 8);
    hf_status status;
    int tries = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t dice = chance_below(&self->chance, 500);
        const char *kind = dice == 0 ? "always" : dice < 6 ? "once" : "ok";

        chance_id(&self->chance, ids[i]);
        snprintf(keys[i], sizeof keys[i], "k%d-%d", self->number,
                 (int)chance_below(&self->chance, KEYS));
        snprintf(payloads[i], sizeof payloads[i], "{\"kind\":\"%s\",\"n\":%llu}", kind,
                 (unsigned long long)chance_next(&self->chance));
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "t";
        events[i].id = ids[i];
        events[i].key = keys[i];
        events[i].payload = payloads[i];
        rig_append(self->fd, "S %s %s %llx", ids[i], keys[i],
                   (unsigned long long)rig_hash(payloads[i], strlen(payloads[i])));
        self->storm->always += dice == 0;
    }
    /* A machine that is too slow answers HF_TIMEOUT or HF_UNKNOWN: the same once more, until it is
     * known to be there. */
    while ((status = hf_publish_many(self->storm->bus, events, count, receipts)) != HF_OK) {
        rig_say("publisher %d: %s", self->number, hf_errmsg());
        if ((status != HF_TIMEOUT && status != HF_UNKNOWN) || ++tries == TRIES_MAX) {
            self->storm->failed++;
            return;
        }
    }
    for (size_t i = 0; i < count; i++) {
        rig_append(self->fd, "A %s %lld", ids[i], (long long)receipts[i].position);
    }
    self->storm->published += (int)count;
}

static void *publisher_main(void *ctx)
{
    struct publisher *self = ctx;

    while (!self->storm->over && self->storm->failed == 0) {
        publish_some(self);
        usleep((useconds_t)chance_below(&self->chance, PUBLISH_REST_US));
    }
    return NULL;
}

/* ---- Disturbing ------------------------------------------------------------------------------ */

static void join(struct storm *storm, int number)
{
    char name[16];
    sigset_t set;

    snprintf(name, sizeof name, "m%d", number);
    /* It may be asked to stop before its main function begins: that waits, as it does later. */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    storm->pids[number] = rig_start("member", storm->url, storm->members, name, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void leave(struct storm *storm, int number)
{
    int status;

    kill(storm->pids[number], SIGTERM);
    status = rig_wait(storm->pids[number], LEAVE_MS);
    if (status != 0) {
        rig_say("m%d ended with %d", number, status);
        storm->unclean++;
        rig_append(storm->fd, "K %d", (int)storm->pids[number]);
    }
    storm->pids[number] = 0;
}

/* Stops it at a moment when it neither holds nor waits for a lock of the database: one that is
 * stopped in the middle of a write keeps all others from renewing leases, and nothing can be done
 * about that. Whatever it has in its hands may come again from now on. False: no such moment was
 * found. */
static bool freeze(struct storm *storm, int number)
{
    pid_t pid = storm->pids[number];

    rig_append(storm->fd, "Z %d", (int)pid);
    for (int i = 0; i < 10; i++) {
        hf_status status;

        kill(pid, SIGSTOP);
        waitpid(pid, NULL, WUNTRACED); /* until every thread of it stands */
        status = hf_pause(storm->probe, "probe", "is the database free?");
        if (!status) {
            status = hf_resume(storm->probe, "probe");
        }
        if (!status) {
            return true;
        }
        kill(pid, SIGCONT);
    }
    return false;
}

static int keep_partitions(const hf_subscription_info *info, void *ctx)
{
    *(int32_t *)ctx = info->options.partitions;
    return 0;
}

/* Requests more or fewer partitions of one group. */
static void change_partitions(struct storm *storm, int turn)
{
    size_t group = turn / 8 % 2 ? 0 : 2;
    hf_subscription_options options = group_options(NAMES[group]);
    const char *all = "*";
    hf_status status;

    options.partitions = 1 + (int32_t)chance_below(&storm->chance, 20);
    status = hf_subscription_create(storm->bus, NAMES[group], &all, 1, &options, NULL);
    if (status) {
        rig_say("%s, %d partitions: %s", NAMES[group], options.partitions, hf_errmsg());
    }
    storm->failed += status != HF_OK;
    storm->partitions[group] = options.partitions;
    storm->changes++;
}

/* Has it come to what was requested last? */
static bool are_partitions_changed(struct storm *storm)
{
    int64_t end_us = rig_mono_us() + SETTLE_MS * INT64_C(1000);
    size_t i = 0;

    while (i < GROUPS && rig_mono_us() < end_us) {
        int32_t now = 0;

        if (storm->partitions[i] > 0) {
            hf_subscription_get(storm->bus, NAMES[i], keep_partitions, &now);
        }
        if (now == storm->partitions[i]) {
            i++;
        } else {
            usleep(20000);
        }
    }
    return i == GROUPS;
}

static void disturb(struct storm *storm, int turn)
{
    int victim = (int)chance_below(&storm->chance, PROCESSES);
    bool longer = turn % 8 == 2;

    if (turn % 8 == 1) {
        change_partitions(storm, turn);
    }
    switch (turn % 4) {
    case 0:
        rig_kill(storm->pids[victim]);
        rig_append(storm->fd, "K %d", (int)storm->pids[victim]);
        storm->killed++;
        break;
    case 1:
        leave(storm, victim);
        storm->stopped++;
        break;
    case 2:
        if (freeze(storm, victim)) {
            storm->frozen++;
            storm->outlived += longer;
            usleep(longer ? LEASE_MS * 1500
                          : (useconds_t)chance_below(&storm->chance, LEASE_MS * 700));
        }
        kill(storm->pids[victim], SIGCONT);
        return;
    default: /* two at once */
        for (int i = 0; i < 2; i++) {
            int other = (victim + i) % PROCESSES;

            rig_kill(storm->pids[other]);
            rig_append(storm->fd, "K %d", (int)storm->pids[other]);
            join(storm, other);
            storm->killed++;
        }
        return;
    }
    if (chance_percent(&storm->chance, 50)) {
        usleep((useconds_t)chance_below(&storm->chance, 400000));
    }
    join(storm, victim);
}

/* ---- The run --------------------------------------------------------------------------------- */

static hf_status storm_open(struct storm *storm)
{
    hf_options patient = HF_OPTIONS_INIT, impatient = HF_OPTIONS_INIT;
    hf_subscription_options from = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *all = "*", *none = "none";
    hf_status status;

    patient.timeout_ms = LEAVE_MS / 3;
    impatient.timeout_ms = 1000;
    from.from.kind = HF_PLACE_START;
    status = hf_open(storm->url, &patient, &storm->bus);
    for (size_t i = 0; i < GROUPS && status == HF_OK; i++) {
        hf_subscription_options options = group_options(NAMES[i]);

        status = hf_subscription_create(storm->bus, NAMES[i], &all, 1, &options, NULL);
    }
    if (!status) {
        status = hf_subscription_create(storm->bus, "probe", &none, 1, &from, NULL);
    }
    for (int i = 0; i < OPENS_MAX && status == HF_OK && !storm->probe; i++) {
        hf_open(storm->url, &impatient, &storm->probe);
    }
    return status == HF_OK && !storm->probe ? HF_TIMEOUT : status;
}

static bool storm_begin(struct storm *storm, uint64_t seed)
{
    const char *urls = getenv("HOLDFAST_TEST_URLS");

    rig_directory(storm->dir);
    if (urls && server_is(urls)) {
        server_make(urls, storm->url, sizeof storm->url);
    } else {
        snprintf(storm->url, sizeof storm->url, "sqlite:%s/bus.db", storm->dir);
    }
    if (strlen(storm->url) >= sizeof storm->scene.url) {
        abort();
    }
    memcpy(storm->scene.url, storm->url, strlen(storm->url) + 1);
    if (!server_is(storm->url)) {
        storm->scene.path = storm->scene.url + strlen("sqlite:");
    }
    snprintf(storm->members, sizeof storm->members, "%s/members", storm->dir);
    storm->fd = rig_append_open(storm->members);
    chance_seed(&storm->chance, seed);
    if (storm_open(storm) != HF_OK) {
        rig_say("%s", hf_errmsg());
        return false;
    }
    tables_run(&storm->scene, "CREATE TABLE effects (id TEXT); CREATE TABLE outbox (id TEXT)");
    for (int i = 0; i < PUBLISHERS; i++) {
        struct publisher *self = &storm->publishers[i];

        self->storm = storm;
        self->number = i;
        chance_seed(&self->chance, seed + (uint64_t)(i + 1) * 1000003);
        self->fd = rig_append_open(publisher_path(storm, i));
        if (pthread_create(&self->thread, NULL, publisher_main, self) != 0) {
            abort();
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        join(storm, i);
    }
    return true;
}

struct end {
    int64_t checkpoint, head, lag, waiting;
};

static int keep_end(const hf_subscription_info *info, void *ctx)
{
    struct end *end = ctx;

    *end = (struct end){info->checkpoint, info->head, info->lag,
                        info->retrying + info->held + (info->in_flight > 0 ? info->in_flight : 0)};
    return 0;
}

static void judge_ends(struct storm *storm)
{
    bool ended = true;

    for (size_t i = 0; i < GROUPS; i++) {
        struct end end = {0};

        ended &= hf_subscription_get(storm->bus, NAMES[i], keep_end, &end) == HF_OK;
        if (end.checkpoint != end.head || end.lag > 0 || end.waiting > 0) {
            rig_say("%s: checkpoint %lld of %lld, lag %lld, %lld wait", NAMES[i],
                    (long long)end.checkpoint, (long long)end.head, (long long)end.lag,
                    (long long)end.waiting);
        }
        ended &= end.checkpoint == end.head && end.lag == 0 && end.waiting == 0;
    }
    rig_ok(ended, "all checkpoints come to the end of the log");
}

static struct ledger *read_ledger(struct storm *storm)
{
    const struct ledger_subscription subscriptions[] = {
        {.name = "p", .ordered = true, .attempts_max = ATTEMPTS_MAX, .by_position = true},
        {.name = "s", .attempts_max = ATTEMPTS_MAX},
        {.name = "b",
         .ordered = true,
         .attempts_max = ATTEMPTS_MAX,
         .by_position = true,
         .transactional = true,
         .repeats = true},
    };
    struct ledger *ledger = ledger_new(subscriptions, GROUPS);

    for (int i = 0; i < PUBLISHERS; i++) {
        ledger_read(ledger, publisher_path(storm, i));
    }
    ledger_read(ledger, storm->members);
    return ledger;
}

static bool is_strong(const struct storm *storm)
{
    return storm->published > 200 && storm->killed > 1 && storm->frozen > 0 &&
           storm->outlived > 0 && storm->stopped > 0 && storm->changes > 0;
}

static bool judge(struct storm *storm)
{
    struct ledger *ledger = read_ledger(storm), *later;
    int64_t calls = ledger_delivered(ledger), sent = ledger_acknowledged(ledger), breaches;

    rig_ok(ledger_inspect(ledger, storm->bus) == HF_OK &&
               ledger_inspect_tables(ledger, storm->scene.path ? storm->scene.path : storm->url) ==
                   HF_OK,
           "the log can be read");
    breaches = ledger_judge(ledger);
    rig_ok(breaches == 0, "nothing is lost, invented, doubled without a reason or out of order");
    rig_ok(ledger_dead(ledger) == (int64_t)GROUPS * storm->always,
           "those that always fail are dead letters, and no others: %lld of %d",
           (long long)ledger_dead(ledger), (int)GROUPS * storm->always);
    join(storm, 0);
    usleep(700000); /* it may do what it likes meanwhile: there is nothing to do */
    leave(storm, 0);
    later = read_ledger(storm);
    rig_ok(ledger_delivered(later) == calls, "nothing comes again: %lld did",
           (long long)(ledger_delivered(later) - calls));
    rig_say("%lld published, %lld calls, %d killed, %d frozen (%d past the lease), %d stopped, "
            "partitions changed %d times",
            (long long)sent, (long long)calls, storm->killed, storm->frozen, storm->outlived,
            storm->stopped, storm->changes);
    rig_ok(is_strong(storm), "the run was strong enough");
    ledger_free(later);
    ledger_free(ledger);
    return breaches == 0;
}

static int storm_run(uint64_t seed, int64_t seconds)
{
    static struct storm storm;
    hf_status status = HF_OK;
    int64_t end_us;
    bool fine;

    if (!storm_begin(&storm, seed)) {
        return 1;
    }
    end_us = rig_mono_us() + seconds * 1000000;
    for (int turn = 0;
         rig_mono_us() < end_us || (!is_strong(&storm) && rig_mono_us() < end_us + LONGER_US);
         turn++) {
        usleep(300000);
        disturb(&storm, turn);
    }
    storm.over = true;
    for (int i = 0; i < PUBLISHERS; i++) {
        pthread_join(storm.publishers[i].thread, NULL);
    }
    rig_ok(storm.failed == 0, "every publish is answered");
    for (size_t i = 0; i < GROUPS && status == HF_OK; i++) {
        status = hf_wait(storm.bus, NAMES[i], -1, SETTLE_MS);
    }
    rig_ok(status == HF_OK, "everything is settled: %s", hf_status_name(status));
    rig_ok(are_partitions_changed(&storm), "there are as many partitions as were requested last");
    for (int i = 0; i < PROCESSES; i++) {
        leave(&storm, i);
    }
    rig_ok(storm.unclean == 0, "a process that is asked to stop ends cleanly: %d did not",
           storm.unclean);
    judge_ends(&storm);
    fine = judge(&storm) && status == HF_OK;
    hf_close(&storm.probe);
    hf_close(&storm.bus);
    if (fine) {
        server_remove(storm.url);
        rig_remove(storm.dir);
    } else {
        rig_say("kept: %s and %s", storm.dir, storm.url);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *seconds = getenv("GROUPS_SECONDS"), *seed = getenv("SEED");
    uint64_t drawn = seed ? strtoull(seed, NULL, 10) : (uint64_t)rig_mono_us();

    if (argc > 1 && strcmp(argv[1], "member") == 0) {
        return member_main(argc, argv);
    }
    rig_say("seed %llu", (unsigned long long)drawn);
    if (storm_run(drawn, seconds ? strtoll(seconds, NULL, 10) : 7) != 0) {
        rig_ok(false, "the storm begins");
    }
    return rig_done();
}
