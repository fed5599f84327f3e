/*
 * points.c - the process is killed at every fault point, and nothing may be lost.
 *
 * A script tries everything once: it creates the database, publishes in all ways, delivers to
 * ordered, shared, transactional and pulling consumers with poison among the events, seeks, and
 * closes. It is run once undisturbed to learn which points there are and how often each is hit;
 * then once for each point and for its first, second and middle hit, killed there, recovered by a
 * fresh process, and judged (ledger.h).
 *
 *     points [--hits 2] [--seed N]      --hits 3: also in the middle of all hits
 */
#include "base/point.h"
#include "support/workload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 30
#define SETTLE_MS 60000

/* Without these a run proves nothing. */
static const char *const WINDOWS[] = {
    "after_commit_before_ack", "after_handler_before_settle", "mid_checkpoint", "mid_dead_letter",
    "mid_migration",           "handler_tx_after_commit",
};

/* ---- The script ------------------------------------------------------------------------------ */

static hf_status steer(hf_bus *bus)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_place start = {HF_PLACE_START, -1};
    const char *pattern = "*";
    hf_status status;

    /* A subscription without handlers that is in no ledger. */
    options.from = start;
    status = hf_subscription_create(bus, "x", &pattern, 1, &options, NULL);
    if (!status) {
        status = hf_seek(bus, "x", (hf_place){HF_PLACE_NOW, -1}, HF_OFF, NULL);
    }
    if (!status) {
        status = hf_pause(bus, "x", "torture");
    }
    if (!status) {
        status = hf_resume(bus, "x");
    }
    return status == HF_OK ? hf_subscription_remove(bus, "x") : status;
}

static void write_points(const char *dir)
{
    const char *names[POINT_COUNT_MAX];
    size_t count = point_list(names, POINT_COUNT_MAX);
    char path[RIG_PATH_BYTES + 32];
    int fd;

    snprintf(path, sizeof path, "%s/points", dir);
    fd = rig_append_open(path);
    for (size_t i = 0; i < count; i++) {
        rig_append(fd, "%s %lld", names[i], (long long)point_hits(names[i]));
    }
    close(fd);
}

/* script DIR SEED POINT NTH */
static int script(int argc, char **argv)
{
    static struct workload workload;
    static struct publisher publisher;
    static struct consumer consumer;
    hf_status status;

    rig_child();
    if (argc < 6) {
        return 2;
    }
    workload_init(&workload, argv[2]);
    if (strcmp(argv[4], "-") != 0) {
        point_arm(argv[4], strtoll(argv[5], NULL, 10), POINT_KILL);
    }
    status = workload_prepare(&workload);
    if (!status) {
        status = publisher_open(&publisher, &workload, 0, strtoull(argv[3], NULL, 10));
    }
    publisher.poison_percent = 25;
    if (!status) {
        status = consumer_open(&consumer, &workload);
    }
    for (int i = 0; i < STEPS && status == HF_OK; i++) {
        status = publisher_step(&publisher);
    }
    if (!status) {
        status = publisher_bulk(&publisher, 50, 100000);
    }
    if (!status) {
        status = steer(publisher.bus);
    }
    if (!status) {
        status = workload_settled(publisher.bus, SETTLE_MS);
    }
    if (!status) {
        status = consumer_close(&consumer);
    }
    if (!status) {
        status = publisher_close(&publisher);
    }
    if (status) {
        fprintf(stderr, "# script: %s: %s\n", hf_status_name(status), hf_errmsg());
    }
    write_points(argv[2]);
    return status == HF_OK ? 0 : 3;
}

/* ---- The runs -------------------------------------------------------------------------------- */

struct found {
    char name[64];
    long long hits;
};

static size_t read_points(const char *dir, struct found *found, size_t max)
{
    char path[RIG_PATH_BYTES + 32], line[200];
    size_t count = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/points", dir);
    file = fopen(path, "re");
    while (file && count < max && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %lld", found[count].name, &found[count].hits) == 2 &&
            found[count].hits > 0) {
            count++;
        }
    }
    if (file) {
        fclose(file);
    }
    return count;
}

/* One run that ends at the point. 1: killed and all is well; 0: not reached; -1: broken. */
static int try_point(const char *point, long long nth, uint64_t seed)
{
    struct workload workload;
    char dir[RIG_PATH_BYTES], seed_text[24], nth_text[24];
    int status, result = 1;
    pid_t pid;

    rig_directory(dir);
    workload_init(&workload, dir);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
    snprintf(nth_text, sizeof nth_text, "%lld", nth);
    pid = rig_start("script", dir, seed_text, point, nth_text, NULL);
    status = rig_wait(pid, 3 * SETTLE_MS);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        rig_remove(dir);
        return status == 0 ? 0 : -1;
    }
    int fd = rig_append_open(workload.consumers);

    rig_append(fd, "K %d", (int)pid);
    close(fd);
    status = rig_wait(rig_start("recover", dir, NULL), 3 * SETTLE_MS);
    if (status != 0) {
        rig_say("%s, hit %lld: the next process ended with status %d", point, nth, status);
        result = -1;
    } else if (workload_judge(&workload, 1, NULL) != 0) {
        result = -1;
    }
    if (result == 1) {
        rig_remove(dir);
    } else {
        rig_say("kept: %s", dir);
    }
    return result;
}

static bool is_window(const char *name)
{
    for (size_t w = 0; w < sizeof WINDOWS / sizeof WINDOWS[0]; w++) {
        if (strcmp(name, WINDOWS[w]) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * How often a point is hit depends on the moment; a run that does not reach it says nothing. Some,
 * such as a thread that wakes up for nothing, may not come again in any of them.
 */
static void torture_point(const struct found *found, long long nth, struct chance *chance)
{
    int result = 0;

    for (int i = 0; i < 5 && result == 0; i++) {
        result = try_point(found->name, nth, chance_next(chance));
    }
    if (result == 0 && !is_window(found->name)) {
        rig_say("not reached: %s, hit %lld", found->name, nth);
    } else {
        rig_ok(result == 1, "a process that is killed at %s, hit %lld, breaks no promise%s",
               found->name, nth, result == 0 ? ": not reached" : "");
    }
}

static int torture(int argc, char **argv)
{
    static struct found found[POINT_COUNT_MAX];
    int64_t hits = rig_option(argc, argv, "--hits", 2);
    char dir[RIG_PATH_BYTES], seed[24];
    struct workload workload;
    struct chance chance;
    size_t count;
    int status;

    chance_seed(&chance, rig_seed(argc, argv));
    rig_directory(dir);
    workload_init(&workload, dir);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)chance_next(&chance));
    status = rig_wait(rig_start("script", dir, seed, "-", "0", NULL), 3 * SETTLE_MS);
    rig_ok(status == 0, "setup: the script runs to its end: %d", status);
    rig_ok(workload_judge(&workload, 1, NULL) == 0,
           "a script that is not killed breaks no promise");
    count = read_points(dir, found, POINT_COUNT_MAX);
    rig_ok(count >= 20, "setup: the script hits %zu fault points", count);
    for (size_t w = 0; w < sizeof WINDOWS / sizeof WINDOWS[0]; w++) {
        bool hit = false;

        for (size_t i = 0; i < count; i++) {
            hit |= strcmp(found[i].name, WINDOWS[w]) == 0;
        }
        rig_ok(hit, "setup: the script hits the window %s", WINDOWS[w]);
    }
    rig_remove(dir);
    for (size_t i = 0; i < count; i++) {
        for (long long nth = 1; nth <= 2 && nth <= found[i].hits; nth++) {
            torture_point(&found[i], nth, &chance);
        }
        if (hits > 2 && found[i].hits > 5) {
            torture_point(&found[i], found[i].hits / 2, &chance);
        }
    }
    return rig_done();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "script") == 0) {
        return script(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], "recover") == 0) {
        return workload_recover(argc, argv, SETTLE_MS);
    }
    return torture(argc, argv);
}
