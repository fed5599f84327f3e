/*
 * workers.c - see workers.h.
 */
#include "server/http/workers.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>

struct workers {
    void (*run)(struct exchange *);
    pthread_mutex_t mutex;
    pthread_cond_t given;
    struct exchange *first; /* the queue */
    struct exchange **last; /* where the next one is put */
    size_t queued;
    size_t queue_max;
    size_t running; /* exchanges in the hands of threads */
    bool stopping;
    pthread_cond_t ended; /* one of them has ended, while stopping */
    int thread_count;
    pthread_t threads[];
};

static struct exchange *take(struct workers *workers)
{
    struct exchange *exchange;

    pthread_mutex_lock(&workers->mutex);
    while (!workers->first && !workers->stopping) {
        pthread_cond_wait(&workers->given, &workers->mutex);
    }
    exchange = workers->first;
    if (exchange) {
        workers->first = exchange->next;
        workers->last = workers->first ? workers->last : &workers->first;
        workers->queued--;
        workers->running++;
    }
    pthread_mutex_unlock(&workers->mutex);
    return exchange;
}

static void note_end(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->running--;
    if (workers->stopping) {
        pthread_cond_broadcast(&workers->ended);
    }
    pthread_mutex_unlock(&workers->mutex);
}

static void *work(void *ctx)
{
    struct workers *workers = ctx;
    struct exchange *exchange;

    while ((exchange = take(workers))) {
        workers->run(exchange);
        note_end(workers);
    }
    return NULL;
}

bool workers_give(struct workers *workers, struct exchange *exchange)
{
    bool taken;

    pthread_mutex_lock(&workers->mutex);
    taken = !workers->stopping && workers->queued < workers->queue_max;
    if (taken) {
        exchange->next = NULL;
        *workers->last = exchange;
        workers->last = &exchange->next;
        workers->queued++;
        pthread_cond_signal(&workers->given);
    }
    pthread_mutex_unlock(&workers->mutex);
    return taken;
}

struct workers *workers_start(int threads, size_t queue_max, void (*run)(struct exchange *))
{
    struct workers *workers =
        mem_calloc(1, sizeof *workers + (size_t)threads * sizeof workers->threads[0]);

    if (!workers) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    workers->run = run;
    workers->queue_max = queue_max;
    workers->last = &workers->first;
    if (mutex_init(&workers->mutex) || cond_init(&workers->given) || cond_init(&workers->ended)) {
        mem_free(workers);
        return NULL;
    }
    while (workers->thread_count < threads) {
        if (thread_start(&workers->threads[workers->thread_count], "hf-http", work, workers)) {
            workers_stop(workers);
            return NULL;
        }
        workers->thread_count++;
    }
    return workers;
}

bool workers_drain(struct workers *workers, int64_t wait_ms)
{
    struct deadline deadline = deadline_after_ms(wait_ms);
    bool ended;

    if (!workers) {
        return true;
    }
    pthread_mutex_lock(&workers->mutex);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->given);
    while ((workers->first || workers->running > 0) &&
           cond_wait_until(&workers->ended, &workers->mutex, deadline)) {
    }
    ended = !workers->first && workers->running == 0;
    pthread_mutex_unlock(&workers->mutex);
    return ended;
}

void workers_stop(struct workers *workers)
{
    if (!workers) {
        return;
    }
    workers_drain(workers, -1);
    for (int i = 0; i < workers->thread_count; i++) {
        pthread_join(workers->threads[i], NULL);
    }
    pthread_cond_destroy(&workers->ended);
    pthread_cond_destroy(&workers->given);
    pthread_mutex_destroy(&workers->mutex);
    mem_free(workers);
}
