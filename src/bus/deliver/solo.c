/*
 * solo.c - see solo.h.
 */
#include "bus/deliver/solo.h"

#include "base/thread.h"

#define SOLO_LOOK_MS 20 /* how often somebody who waits looks whether it is cancelled */

hf_status solo_init(struct solo *solo)
{
    *solo = (struct solo){0};
    hf_status status = mutex_init(&solo->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&solo->changed);
    if (status) {
        pthread_mutex_destroy(&solo->mutex);
    }
    return status;
}

void solo_release(struct solo *solo)
{
    pthread_cond_destroy(&solo->changed);
    pthread_mutex_destroy(&solo->mutex);
}

static bool must_wait(const struct solo *solo, bool suspect, struct deadline patience)
{
    if (!suspect) {
        return solo->suspects > 0;
    }
    return solo->taken || (solo->running > 0 && !deadline_passed(patience));
}

bool solo_enter(struct solo *solo, bool suspect, const atomic_bool *cancelled)
{
    struct deadline patience = deadline_after_ms(SOLO_WAIT_MS);
    pthread_mutex_lock(&solo->mutex);
    solo->suspects += suspect ? 1 : 0;
    while (must_wait(solo, suspect, patience) && !atomic_load(cancelled)) {
        cond_wait_until(&solo->changed, &solo->mutex, deadline_after_ms(SOLO_LOOK_MS));
    }
    bool entered = !must_wait(solo, suspect, patience);
    if (entered) {
        solo->running++;
        solo->taken |= suspect;
    } else {
        solo->suspects -= suspect ? 1 : 0;
        pthread_cond_broadcast(&solo->changed);
    }
    pthread_mutex_unlock(&solo->mutex);
    return entered;
}

void solo_leave(struct solo *solo, bool suspect)
{
    pthread_mutex_lock(&solo->mutex);
    solo->running--;
    if (suspect) {
        solo->suspects--;
        solo->taken = false;
    }
    if (solo->suspects > 0 || suspect) {
        pthread_cond_broadcast(&solo->changed);
    }
    pthread_mutex_unlock(&solo->mutex);
}
