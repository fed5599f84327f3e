/* done_ahead.c - a list that grows by doubling and is sifted in place. See done_ahead.h. */
#include "bus/deliver/window/done_ahead.h"

#include "base/mem.h"

static bool make_room(struct done_ahead *done_ahead)
{
    if (done_ahead->count < done_ahead->capacity) {
        return true;
    }
    size_t capacity = done_ahead->capacity ? done_ahead->capacity * 2 : DONE_AHEAD_LOOK;
    if (capacity > DONE_AHEAD_MAX) {
        return false;
    }
    struct done_ahead_event *events = mem_realloc(done_ahead->events, capacity * sizeof *events);
    if (!events) {
        return false;
    }
    done_ahead->events = events;
    done_ahead->capacity = capacity;
    return true;
}

void done_ahead_add(struct done_ahead *done_ahead, int64_t position, int32_t partition)
{
    if (make_room(done_ahead)) {
        done_ahead->events[done_ahead->count++] = (struct done_ahead_event){position, partition};
    }
}

bool done_ahead_is_long(const struct done_ahead *done_ahead)
{
    return done_ahead->count >= DONE_AHEAD_LOOK + 2 * done_ahead->kept ||
           done_ahead->count == DONE_AHEAD_MAX;
}

void done_ahead_sift(struct done_ahead *done_ahead,
                     bool (*keep)(const struct done_ahead_event *event, void *ctx), void *ctx)
{
    size_t kept = 0;
    for (size_t i = 0; i < done_ahead->count; i++) {
        if (keep(&done_ahead->events[i], ctx)) {
            done_ahead->events[kept++] = done_ahead->events[i];
        }
    }
    done_ahead->count = kept;
    done_ahead->kept = kept;
}

void done_ahead_clear(struct done_ahead *done_ahead)
{
    done_ahead->count = 0;
    done_ahead->kept = 0;
}

void done_ahead_release(struct done_ahead *done_ahead)
{
    mem_free(done_ahead->events);
    *done_ahead = (struct done_ahead){0};
}
