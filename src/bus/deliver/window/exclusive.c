/*
 * exclusive.c - see exclusive.h.
 */
#include "bus/deliver/window/exclusive.h"

#include "base/thread.h"

#define EXCLUSIVE_LOOK_MS 20 /* how often a thread that waits looks whether it is cancelled */

hf_status exclusive_init(struct exclusive *exclusive)
{
    *exclusive = (struct exclusive){0};
    hf_status status = mutex_init(&exclusive->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&exclusive->changed);
    if (status) {
        pthread_mutex_destroy(&exclusive->mutex);
    }
    return status;
}

void exclusive_release(struct exclusive *exclusive)
{
    pthread_cond_destroy(&exclusive->changed);
    pthread_mutex_destroy(&exclusive->mutex);
}

static bool must_wait(const struct exclusive *exclusive, bool crash_suspect,
                      struct deadline give_up)
{
    if (!crash_suspect) {
        return exclusive->crash_suspects > 0;
    }
    return exclusive->taken || (exclusive->running > 0 && !deadline_passed(give_up));
}

bool exclusive_enter(struct exclusive *exclusive, bool crash_suspect, const atomic_bool *cancelled)
{
    struct deadline give_up = deadline_after_ms(EXCLUSIVE_WAIT_MS);
    pthread_mutex_lock(&exclusive->mutex);
    exclusive->crash_suspects += crash_suspect ? 1 : 0;
    while (must_wait(exclusive, crash_suspect, give_up) && !atomic_load(cancelled)) {
        cond_wait_until(&exclusive->changed, &exclusive->mutex,
                        deadline_after_ms(EXCLUSIVE_LOOK_MS));
    }
    bool entered = !must_wait(exclusive, crash_suspect, give_up);
    if (entered) {
        exclusive->running++;
        exclusive->taken |= crash_suspect;
    } else {
        exclusive->crash_suspects -= crash_suspect ? 1 : 0;
        pthread_cond_broadcast(&exclusive->changed);
    }
    pthread_mutex_unlock(&exclusive->mutex);
    return entered;
}

void exclusive_leave(struct exclusive *exclusive, bool crash_suspect)
{
    pthread_mutex_lock(&exclusive->mutex);
    exclusive->running--;
    if (crash_suspect) {
        exclusive->crash_suspects--;
        exclusive->taken = false;
    }
    if (exclusive->crash_suspects > 0 || crash_suspect) {
        pthread_cond_broadcast(&exclusive->changed);
    }
    pthread_mutex_unlock(&exclusive->mutex);
}
