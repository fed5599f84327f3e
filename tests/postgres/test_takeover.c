/*
 * test_takeover.c - the process that owns a subscription is killed in the middle of a handler,
 * under load, again and again; the other one takes over, and the ledger balances.
 *
 * A handler takes a few milliseconds and there is always more to do, so whenever the owner is
 * killed it is in one. TAKEOVER_ROUNDS (4) says how often.
 */
#include "postgres/support_consumer.h"

#include "support/ledger.h"
#include "support/rig.h"
#include "support/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONSUMERS 2
#define HANDLER_US 3000
#define PERIOD_US 2000 /* between two publishes */
#define KEYS 7
#define DEADLINE_US 60000000
#define TAKEOVER_US_MAX 15000000 /* less than 1 s on a machine that has nothing else to do */

struct drama {
    char dir[RIG_PATH_BYTES];
    char url[1024];
    char consumers[RIG_PATH_BYTES + 32];
    char publisher[RIG_PATH_BYTES + 32];
    int fd;
    hf_bus *bus;
    pid_t pids[CONSUMERS];
    atomic_bool stop;
    atomic_int failed;
    struct chance chance;
};

static void *publish_on(void *ctx)
{
    struct drama *drama = ctx;
    int fd = rig_append_open(drama->publisher);

    for (int64_t i = 0; !drama->stop; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        hf_receipt receipt;
        char id[HF_ID_BYTES], key[16], payload[32];

        chance_id(&drama->chance, id);
        snprintf(key, sizeof key, "k%d", (int)chance_below(&drama->chance, KEYS));
        snprintf(payload, sizeof payload, "%lld", (long long)i);
        event.type = "t";
        event.id = id;
        event.key = key;
        event.payload = payload;
        rig_append(fd, "S %s %s %llx", id, key,
                   (unsigned long long)rig_hash(payload, strlen(payload)));
        if (hf_publish(drama->bus, &event, &receipt) == HF_OK) {
            rig_append(fd, "A %s %lld", id, (long long)receipt.position);
        } else {
            drama->failed++;
        }
        usleep(PERIOD_US);
    }
    return NULL;
}

static int keep_owner(const hf_subscription_info *info, void *ctx)
{
    int *owner = ctx;

    *owner = info->owner && info->owner[0] == 'c' ? info->owner[1] - '0' : -1;
    return 0;
}

/* The number of the consumer that owns "r"; -1 if none does in time. */
static int owner_of(struct drama *drama)
{
    int64_t end_us = rig_mono_us() + DEADLINE_US;
    int owner = -1;

    while (owner < 0 && rig_mono_us() < end_us) {
        if (hf_subscription_get(drama->bus, "r", keep_owner, &owner) != HF_OK) {
            return -1;
        }
        usleep(owner < 0 ? 2000 : 0);
    }
    return owner;
}

/* Waits until the ledger has a line of "r" by this process after the offset. */
static bool await_call(struct drama *drama, pid_t pid, long offset)
{
    int64_t end_us = rig_mono_us() + DEADLINE_US;
    char line[600], tail[32];

    snprintf(tail, sizeof tail, " %d ", (int)pid);
    while (rig_mono_us() < end_us) {
        FILE *file = fopen(drama->consumers, "re");
        bool found = false;

        if (!file || fseek(file, offset, SEEK_SET) != 0) {
            return false;
        }
        while (!found && fgets(line, sizeof line, file)) {
            found = strncmp(line, "D r ", 4) == 0 && strstr(line, tail);
        }
        fclose(file);
        if (found) {
            return true;
        }
        usleep(2000);
    }
    return false;
}

static void start_consumer(struct drama *drama, int number)
{
    char name[16];

    snprintf(name, sizeof name, "c%d", number);
    drama->pids[number] = consumer_start(drama->url, drama->consumers, "rs", name, HANDLER_US);
}

/* One kill; how long it took until the other worked, -1 if it never did. */
static int64_t round_of(struct drama *drama)
{
    int owner = owner_of(drama);
    int64_t begin_us;
    long offset;

    if (owner < 0 || !await_call(drama, drama->pids[owner], 0)) {
        return -1;
    }
    begin_us = rig_mono_us();
    consumer_kill(drama->pids[owner], drama->fd);
    offset = (long)lseek(drama->fd, 0, SEEK_END);
    if (!await_call(drama, drama->pids[!owner], offset)) {
        return -1;
    }
    begin_us = rig_mono_us() - begin_us;
    start_consumer(drama, owner);
    return begin_us;
}

static void judge(struct drama *drama)
{
    static const struct ledger_subscription subscriptions[] = {
        {.name = "r", .ordered = true, .attempts_max = 4, .by_position = true},
        {.name = "s", .attempts_max = 4},
    };
    struct ledger *ledger = ledger_new(subscriptions, 2);

    ledger_read(ledger, drama->publisher);
    ledger_read(ledger, drama->consumers);
    rig_ok(ledger_inspect(ledger, drama->bus) == HF_OK, "the log can be read");
    rig_ok(ledger_judge(ledger) == 0, "nothing is lost, doubled without a kill, or out of order");
    rig_say("%lld acknowledged, %lld calls", (long long)ledger_acknowledged(ledger),
            (long long)ledger_delivered(ledger));
    rig_ok(ledger_acknowledged(ledger) > 100, "the run was strong enough");
    ledger_free(ledger);
}

static void play(struct drama *drama, int rounds)
{
    hf_place start = {HF_PLACE_START, -1};
    hf_options options = HF_OPTIONS_INIT;
    int64_t worst_us = 0;
    pthread_t thread;
    bool ok;

    options.timeout_ms = CONSUMER_TIMEOUT_MS;
    ok = hf_open(drama->url, &options, &drama->bus) == HF_OK &&
         consumer_subscribe(drama->bus, 'r', start) == HF_OK &&
         consumer_subscribe(drama->bus, 's', start) == HF_OK;
    for (int i = 0; i < CONSUMERS; i++) {
        start_consumer(drama, i);
    }
    if (!ok || pthread_create(&thread, NULL, publish_on, drama) != 0) {
        abort();
    }
    for (int i = 0; i < rounds && ok; i++) {
        int64_t spent_us = round_of(drama);

        ok = spent_us >= 0;
        worst_us = spent_us > worst_us ? spent_us : worst_us;
    }
    rig_say("the other process worked %lld ms after the kill at worst",
            (long long)(worst_us / 1000));
    rig_ok(ok && worst_us < TAKEOVER_US_MAX, "the other process takes over soon");
    drama->stop = true;
    pthread_join(thread, NULL);
    rig_ok(drama->failed == 0, "every publish is answered");
    rig_ok(hf_wait(drama->bus, NULL, -1, DEADLINE_US / 1000) == HF_OK, "everything is settled");
    judge(drama);
    for (int i = 0; i < CONSUMERS; i++) {
        rig_kill(drama->pids[i]);
    }
    hf_close(&drama->bus);
}

int main(int argc, char **argv)
{
    static struct drama drama;
    const char *rounds = getenv("TAKEOVER_ROUNDS");

    if (consumer_is_asked_for(argc, argv)) {
        return consumer_main(argc, argv);
    }
    if (!getenv("HOLDFAST_TEST_URLS") || !server_is(getenv("HOLDFAST_TEST_URLS"))) {
        printf("1..0 # SKIP there is no server\n");
        return 0;
    }
    chance_seed(&drama.chance, rig_seed(argc, argv));
    rig_directory(drama.dir);
    server_make(getenv("HOLDFAST_TEST_URLS"), drama.url, sizeof drama.url);
    snprintf(drama.consumers, sizeof drama.consumers, "%s/consumers", drama.dir);
    snprintf(drama.publisher, sizeof drama.publisher, "%s/publisher", drama.dir);
    drama.fd = rig_append_open(drama.consumers);
    play(&drama, rounds ? (int)strtol(rounds, NULL, 10) : 4);
    server_remove(drama.url);
    rig_remove(drama.dir);
    return rig_done();
}
