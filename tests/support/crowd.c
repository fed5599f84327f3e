/*
 * crowd.c - starts threads behind a barrier and collects what they found.
 */
#include "support/crowd.h"

#include "base/time/clock.h"
#include "support/check.h"

#include <sched.h>
#include <sys/syscall.h>

/* So often in a row all threads must be seen asleep: one may sleep on its way, for a moment. */
#define ASLEEP_TIMES 5

static void leave_thread(void)
{
    pthread_exit(NULL);
}

static void *member_main(void *ctx)
{
    struct crowd_member *member = ctx;
    check_escape(leave_thread);
    pthread_barrier_wait(&member->crowd->gate);
    atomic_store(&member->tid, (int)syscall(SYS_gettid));
    member->run(member->index, member->ctx);
    member->passed = true;
    return NULL;
}

void crowd_start(struct crowd *crowd, int count, crowd_fn run, void *ctx)
{
    must_hold(count <= CROWD_MAX);
    crowd->count = count;
    pthread_barrier_init(&crowd->gate, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        struct crowd_member *member = &crowd->members[i];
        *member = (struct crowd_member){.crowd = crowd, .index = i, .run = run, .ctx = ctx};
        if (pthread_create(&member->thread, NULL, member_main, member)) {
            abort(); /* the others would wait at the barrier for ever */
        }
    }
}

/* Whether the thread runs its function and sleeps in it. */
static bool member_asleep(struct crowd_member *member)
{
    char path[64];
    char line[512];
    int tid = atomic_load(&member->tid);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = tid ? fopen(path, "re") : NULL;
    if (!file) {
        return false;
    }
    char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    bool asleep = end && strncmp(end, ") S", 3) == 0;
    fclose(file);
    return asleep;
}

void crowd_settle(struct crowd *crowd)
{
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    int times = 0;
    while (times < ASLEEP_TIMES && clock_mono_us() < until_us) {
        bool all = true;
        for (int i = 0; i < crowd->count; i++) {
            all = all && member_asleep(&crowd->members[i]);
        }
        times = all ? times + 1 : 0;
        sched_yield();
    }
}

void crowd_join(struct crowd *crowd)
{
    int failed = 0;
    for (int i = 0; i < crowd->count; i++) {
        pthread_join(crowd->members[i].thread, NULL);
        failed += !crowd->members[i].passed;
    }
    pthread_barrier_destroy(&crowd->gate);
    must_equal(0, failed);
}

void crowd_run(int count, crowd_fn run, void *ctx)
{
    struct crowd crowd;
    crowd_start(&crowd, count, run, ctx);
    crowd_join(&crowd);
}
