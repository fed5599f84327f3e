/*
 * thread.c - starting threads and waiting on conditions.
 *
 * A new thread inherits its creator's signal mask, so the creator blocks everything around
 * pthread_create and restores its own mask after: there is no moment at which the new thread could
 * take a signal. The thread names itself: its creator may not touch a thread that may be gone.
 */
#include "base/thread.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define THREAD_NAME_BYTES 16 /* Linux's limit, the NUL included */

/* Handed from the creator to the thread, which frees it. */
struct start {
    void *(*run)(void *ctx);
    void *ctx;
    char name[THREAD_NAME_BYTES];
};

static void *thread_main(void *arg)
{
    struct start start = *(struct start *)arg;

    mem_free(arg);
    pthread_setname_np(pthread_self(), start.name);
    return start.run(start.ctx);
}

hf_status thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *ctx), void *ctx)
{
    struct start *start = mem_alloc(sizeof *start);

    if (!start) {
        return fail(HF_NOMEM, "out of memory for thread %s", name);
    }
    *start = (struct start){.run = run, .ctx = ctx};
    snprintf(start->name, sizeof start->name, "%.*s", THREAD_NAME_BYTES - 1, name);

    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    pthread_t thread;
    int error = pthread_create(&thread, NULL, thread_main, start);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        mem_free(start);
        return fail(HF_NOMEM, "cannot start thread %s: %s", name, strerror(error));
    }
    *ret_thread = thread;
    return HF_OK;
}

hf_status mutex_init(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_init(mutex, NULL);

    return error ? fail(HF_NOMEM, "cannot make a mutex: %s", strerror(error)) : HF_OK;
}

hf_status cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int error = pthread_condattr_init(&attr);

    if (error == 0) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        error = pthread_cond_init(cond, &attr);
        pthread_condattr_destroy(&attr);
    }
    return error ? fail(HF_NOMEM, "cannot make a condition: %s", strerror(error)) : HF_OK;
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, struct deadline deadline)
{
    struct timespec until = deadline_timespec(deadline);
    int error = pthread_cond_timedwait(cond, mutex, &until);

    assert(error == 0 || error == ETIMEDOUT);
    return error == 0 || !deadline_passed(deadline);
}
