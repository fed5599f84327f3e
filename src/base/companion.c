/*
 * companion.c - threads that can be left behind. See companion.h.
 *
 * pthread_join knows no deadline, so the thread says on a condition that it is about to end, and is
 * joined after that. Whether it ends first or is left first is decided under the mutex: of the two
 * exactly one learns of the other.
 */
#include "base/companion.h"

hf_status companion_init(struct companion *companion)
{
    *companion = (struct companion){0};
    hf_status status = mutex_init(&companion->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&companion->changed);
    if (status) {
        pthread_mutex_destroy(&companion->mutex);
    }
    return status;
}

void companion_release(struct companion *companion)
{
    pthread_cond_destroy(&companion->changed);
    pthread_mutex_destroy(&companion->mutex);
}

hf_status companion_start(struct companion *companion, const char *name, void *(*run)(void *ctx),
                          void *ctx)
{
    companion->ended = false;
    hf_status status = thread_start(&companion->thread, name, run, ctx);
    companion->present = !status;
    return status;
}

bool companion_end(struct companion *companion)
{
    pthread_mutex_lock(&companion->mutex);
    companion->ended = true;
    bool left = companion->left;
    pthread_cond_broadcast(&companion->changed);
    pthread_mutex_unlock(&companion->mutex);
    return left;
}

static void join(struct companion *companion)
{
    pthread_join(companion->thread, NULL);
    companion->present = false;
}

bool companion_join(struct companion *companion, struct deadline deadline)
{
    if (!companion->present) {
        return true;
    }
    pthread_mutex_lock(&companion->mutex);
    bool in_time = true;
    while (!companion->ended && in_time) {
        in_time = cond_wait_until(&companion->changed, &companion->mutex, deadline);
    }
    bool ended = companion->ended;
    pthread_mutex_unlock(&companion->mutex);
    if (ended) {
        join(companion);
    }
    return ended;
}

bool companion_leave(struct companion *companion)
{
    if (!companion->present) {
        return false;
    }
    pthread_mutex_lock(&companion->mutex);
    companion->left = !companion->ended;
    bool left = companion->left;
    if (left) {
        pthread_detach(companion->thread);
        companion->present = false;
    }
    pthread_mutex_unlock(&companion->mutex);
    if (!left) {
        join(companion);
    }
    return left;
}
