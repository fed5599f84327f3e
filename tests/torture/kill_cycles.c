/*
 * kill_cycles.c - publishers and consumers are killed again and again, and nothing may be lost.
 *
 * Two publishers and two consumers work on one file (workload.h). In each cycle one of them is
 * drawn and killed with SIGKILL: at a random moment within 50 ms, or, in a third of the cycles, by
 * itself at a named fault point, so that the narrow windows are hit, too. Then it is started again.
 * At the end consumers work undisturbed until everything is settled, and the ledger is judged.
 *
 *     kill_cycles [--seconds 20] [--cycles 1000000] [--freeze 0] [--seed N]
 *
 * With --freeze 1 leases are short, and half of the victims that consume are not killed but stopped
 * until their leases have been taken over, and then continued: what they answer must be refused.
 *
 * A run in which one of the windows was never hit fails as too weak: it proves nothing.
 */
#include "base/point.h"
#include "support/workload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUBLISHERS 2
#define CONSUMERS 2
#define ROLES (PUBLISHERS + CONSUMERS)
#define KILL_WITHIN_US 50000
#define PUBLISH_REST_US 6000 /* at most: a backlog would be worked off after the last kill */
#define LONGER_US 60000000   /* on a slow machine, until the run was strong enough */
#define DRAIN_MS 60000
#define FREEZE_LEASE_MS 300

/* Where a publisher and a consumer can be hit; each must have been. */
static const char *const PUBLISHER_WINDOWS[] = {
    "after_append_before_commit",
    "before_commit",
    "after_commit_before_ack",
    "async_taken",
};
static const char *const CONSUMER_WINDOWS[] = {
    "after_commit_before_ack", "before_handler",     "after_handler_before_settle",
    "before_settle",           "after_settle",       "mid_settle",
    "mid_checkpoint",          "mid_dead_letter",    "after_claim",
    "before_settle_lease",     "after_settle_lease", "handler_tx_before_commit",
    "handler_tx_after_commit",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The children ---------------------------------------------------------------------------- */

/* publisher|consumer DIR NUMBER SEED POINT NTH */
static int child_main(int argc, char **argv)
{
    static struct workload workload;
    static struct publisher publisher;
    static struct consumer consumer;

    rig_child();
    if (argc < 7) {
        return 2;
    }
    workload_init(&workload, argv[2]);
    if (strcmp(argv[5], "-") != 0) {
        point_arm(argv[5], strtoll(argv[6], NULL, 10), POINT_KILL);
    }
    if (strcmp(argv[1], "publisher") == 0) {
        if (publisher_open(&publisher, &workload, (int)strtol(argv[3], NULL, 10),
                           strtoull(argv[4], NULL, 10)) != HF_OK) {
            fprintf(stderr, "# publisher: %s\n", hf_errmsg());
            return 3;
        }
        publisher.kills_too = true;
        publisher_resolve(&publisher);
        for (;;) {
            hf_status status = publisher_step(&publisher);

            if (status) {
                fprintf(stderr, "# publish: %s: %s\n", hf_status_name(status), hf_errmsg());
                return 4;
            }
            usleep((useconds_t)chance_below(&publisher.chance, PUBLISH_REST_US));
        }
    }
    if (consumer_open(&consumer, &workload) != HF_OK) {
        fprintf(stderr, "# consumer: %s\n", hf_errmsg());
        return 5;
    }
    for (;;) {
        pause();
    }
}

/* ---- The killer ------------------------------------------------------------------------------ */

struct role {
    pid_t pid;
    const char *point; /* armed; NULL: none */
};

struct run {
    struct workload workload;
    struct chance chance;
    struct role roles[ROLES];
    int ledger; /* the consumers' */
    int64_t cycles, hits;
    int64_t publisher_hits[COUNT(PUBLISHER_WINDOWS)];
    int64_t consumer_hits[COUNT(CONSUMER_WINDOWS)];
    bool freeze;      /* some victims are stopped instead of killed */
    int64_t frozen;   /* how often a victim was stopped */
    int64_t failures; /* children that ended by themselves otherwise */
};

static bool is_publisher(int number)
{
    return number < PUBLISHERS;
}

/* Draws a window, preferring one that has not been hit. */
static const char *draw_window(struct run *run, int number)
{
    const char *const *windows = is_publisher(number) ? PUBLISHER_WINDOWS : CONSUMER_WINDOWS;
    const int64_t *hits = is_publisher(number) ? run->publisher_hits : run->consumer_hits;
    size_t count = is_publisher(number) ? COUNT(PUBLISHER_WINDOWS) : COUNT(CONSUMER_WINDOWS);
    size_t drawn = chance_below(&run->chance, count);

    for (size_t i = 0; i < count && hits[drawn] > 0; i++) {
        drawn = (drawn + 1) % count;
    }
    if (hits[drawn] > 0) {
        drawn = chance_below(&run->chance, count);
    }
    return windows[drawn];
}

static void start_role(struct run *run, int number, bool with_window)
{
    struct role *role = &run->roles[number];
    char text[16], seed[24], nth[16];

    role->point = with_window ? draw_window(run, number) : NULL;
    snprintf(text, sizeof text, "%d", number);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)chance_next(&run->chance));
    snprintf(nth, sizeof nth, "%d", 1 + (int)chance_below(&run->chance, 3));
    role->pid = rig_start(is_publisher(number) ? "publisher" : "consumer", run->workload.dir, text,
                          seed, role->point ? role->point : "-", nth, NULL);
    /* Where leases are short a slow machine is reason enough for a duplicate. */
    if (run->freeze && !is_publisher(number)) {
        rig_append(run->ledger, "K %d", (int)role->pid);
    }
}

static void count_hit(struct run *run, int number)
{
    const char *point = run->roles[number].point;

    run->hits++;
    for (size_t i = 0; is_publisher(number) && i < COUNT(PUBLISHER_WINDOWS); i++) {
        run->publisher_hits[i] += strcmp(point, PUBLISHER_WINDOWS[i]) == 0;
    }
    for (size_t i = 0; !is_publisher(number) && i < COUNT(CONSUMER_WINDOWS); i++) {
        run->consumer_hits[i] += strcmp(point, CONSUMER_WINDOWS[i]) == 0;
    }
}

/* Takes note of a child that is gone. `killed`: by us. */
static void bury(struct run *run, int number, int status, bool killed)
{
    struct role *role = &run->roles[number];

    rig_append(run->ledger, "K %d", (int)role->pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        rig_say("a %s ended with status %d", is_publisher(number) ? "publisher" : "consumer",
                status);
        run->failures++;
    } else if (!killed && role->point) {
        count_hit(run, number);
    }
    role->pid = 0;
}

/* Starts processes again that died by themselves: at a window, or by an event that kills. */
static void reap(struct run *run)
{
    for (int i = 0; i < ROLES; i++) {
        int status = 0;

        if (run->roles[i].pid &&
            waitpid(run->roles[i].pid, &status, WNOHANG) == run->roles[i].pid) {
            bury(run, i, status, false);
        }
        if (!run->roles[i].pid) {
            start_role(run, i, chance_percent(&run->chance, 33));
        }
    }
}

/* Stops a consumer until others have taken over, and lets it go on. */
static void freeze(struct run *run, int victim)
{
    kill(run->roles[victim].pid, SIGSTOP);
    for (int64_t end_us = rig_mono_us() + 2 * FREEZE_LEASE_MS * 1000; rig_mono_us() < end_us;) {
        usleep(2000);
        reap(run);
    }
    if (run->roles[victim].pid) {
        kill(run->roles[victim].pid, SIGCONT);
    }
    run->frozen++;
}

static void cycle(struct run *run)
{
    int victim = (int)chance_below(&run->chance, ROLES);
    int64_t end_us = rig_mono_us() + (int64_t)chance_below(&run->chance, KILL_WITHIN_US);
    int status = 0;

    while (rig_mono_us() < end_us) {
        reap(run);
        usleep(500);
    }
    /* One that waits for its window gets a little longer to reach it. */
    if (run->freeze && !is_publisher(victim) && run->roles[victim].pid &&
        chance_percent(&run->chance, 50)) {
        freeze(run, victim);
        return;
    }
    if (run->roles[victim].pid && !(run->roles[victim].point && chance_percent(&run->chance, 70))) {
        kill(run->roles[victim].pid, SIGKILL);
        waitpid(run->roles[victim].pid, &status, 0);
        bury(run, victim, status, true);
        run->cycles++;
    }
    reap(run);
}

/* ---- The end --------------------------------------------------------------------------------- */

static hf_status drain(struct run *run)
{
    int64_t end_us = rig_mono_us() + DRAIN_MS * 1000;
    hf_status status = HF_TIMEOUT;
    hf_bus *bus = NULL;

    for (int i = 0; i < ROLES; i++) {
        if (run->roles[i].pid) {
            rig_kill(run->roles[i].pid);
            rig_append(run->ledger, "K %d", (int)run->roles[i].pid);
            run->roles[i].pid = 0;
        }
    }
    if (hf_open(run->workload.url, NULL, &bus) != HF_OK) {
        return HF_UNAVAILABLE;
    }
    while (status == HF_TIMEOUT && rig_mono_us() < end_us) {
        int died = 0;

        for (int i = PUBLISHERS; i < ROLES; i++) {
            if (run->roles[i].pid && waitpid(run->roles[i].pid, &died, WNOHANG) != 0) {
                bury(run, i, died, true);
            }
            if (!run->roles[i].pid) {
                start_role(run, i, false);
            }
        }
        status = workload_settled(bus, 50);
    }
    if (status) {
        workload_tell(bus);
    }
    for (int i = PUBLISHERS; i < ROLES; i++) {
        rig_kill(run->roles[i].pid);
    }
    hf_close(&bus);
    return status;
}

static bool is_strong(const struct run *run)
{
    bool all = true;

    for (size_t i = 0; i < COUNT(PUBLISHER_WINDOWS); i++) {
        all &= run->publisher_hits[i] > 0;
    }
    for (size_t i = 0; i < COUNT(CONSUMER_WINDOWS); i++) {
        all &= run->consumer_hits[i] > 0;
    }
    return run->freeze ? run->frozen > 3 : all;
}

static void judge_windows(const struct run *run)
{
    for (size_t i = 0; i < COUNT(PUBLISHER_WINDOWS); i++) {
        rig_say("publisher %s: %lld", PUBLISHER_WINDOWS[i], (long long)run->publisher_hits[i]);
    }
    for (size_t i = 0; i < COUNT(CONSUMER_WINDOWS); i++) {
        rig_say("consumer %s: %lld", CONSUMER_WINDOWS[i], (long long)run->consumer_hits[i]);
    }
    rig_ok(is_strong(run), "setup: processes were killed in every window");
}

static int torture(int argc, char **argv)
{
    static struct run run;
    int64_t end_us = rig_mono_us() + rig_option(argc, argv, "--seconds", 20) * 1000000;
    int64_t cycles = rig_option(argc, argv, "--cycles", 1000000);
    char dir[RIG_PATH_BYTES];
    struct ledger *ledger = NULL;
    int64_t breaches;
    hf_status drained;

    chance_seed(&run.chance, rig_seed(argc, argv));
    rig_directory(dir);
    workload_init(&run.workload, dir);
    run.freeze = rig_option(argc, argv, "--freeze", 0) != 0;
    run.workload.lease_ms = run.freeze ? FREEZE_LEASE_MS : -1;
    if (workload_prepare(&run.workload) != HF_OK) {
        rig_ok(false, "setup: the database is made: %s", hf_errmsg());
        return rig_done();
    }
    run.ledger = rig_append_open(run.workload.consumers);
    for (int i = 0; i < ROLES; i++) {
        start_role(&run, i, false);
    }
    while ((rig_mono_us() < end_us || (!is_strong(&run) && rig_mono_us() < end_us + LONGER_US)) &&
           run.cycles + run.hits < cycles) {
        cycle(&run);
    }
    drained = drain(&run);
    breaches = workload_judge(&run.workload, PUBLISHERS, &ledger);
    rig_say("%lld killed at random, %lld at a window, %lld frozen; %lld acknowledged, %lld "
            "delivered, %lld dead",
            (long long)run.cycles, (long long)run.hits, (long long)run.frozen,
            (long long)ledger_acknowledged(ledger), (long long)ledger_delivered(ledger),
            (long long)ledger_dead(ledger));
    rig_ok(drained == HF_OK, "everything is settled when the killing stops: %s",
           hf_status_name(drained));
    rig_ok(breaches == 0, "killing processes breaks no promise: %lld breaches",
           (long long)breaches);
    rig_ok(run.failures == 0, "no process ends in another way than by a kill: %lld did",
           (long long)run.failures);
    rig_ok(ledger_acknowledged(ledger) > 100 && ledger_dead(ledger) > 0,
           "setup: there was something to lose");
    if (run.freeze) {
        rig_ok(is_strong(&run), "setup: consumers were frozen past their leases");
    } else {
        judge_windows(&run);
    }
    ledger_free(ledger);
    if (breaches == 0 && !drained) {
        rig_remove(dir);
    } else {
        rig_say("kept: %s", dir);
    }
    return rig_done();
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "publisher") == 0 || strcmp(argv[1], "consumer") == 0)) {
        return child_main(argc, argv);
    }
    return torture(argc, argv);
}
