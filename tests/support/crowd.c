/*
 * crowd.c - starts threads behind a barrier and collects what they found.
 */
#include "support/crowd.h"

#include "support/check.h"

static void leave_thread(void)
{
    pthread_exit(NULL);
}

static void *member_main(void *ctx)
{
    struct crowd_member *member = ctx;
    check_escape(leave_thread);
    pthread_barrier_wait(&member->crowd->gate);
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
        crowd->members[i] = (struct crowd_member){
            .crowd = crowd, .index = i, .run = run, .ctx = ctx};
        if (pthread_create(&crowd->members[i].thread, NULL, member_main, &crowd->members[i])) {
            abort(); /* the others would wait at the barrier for ever */
        }
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
