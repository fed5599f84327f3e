/* early.c - a list that grows by doubling and is sifted in place. See early.h. */
#include "bus/deliver/early.h"

#include "base/mem.h"

static bool make_room(struct early *early)
{
    if (early->count < early->capacity) {
        return true;
    }
    size_t capacity = early->capacity ? early->capacity * 2 : EARLY_LOOK;
    if (capacity > EARLY_MAX) {
        return false;
    }
    struct early_event *events = mem_realloc(early->events, capacity * sizeof *events);
    if (!events) {
        return false;
    }
    early->events = events;
    early->capacity = capacity;
    return true;
}

void early_add(struct early *early, int64_t position, int32_t partition)
{
    if (make_room(early)) {
        early->events[early->count++] = (struct early_event){position, partition};
    }
}

bool early_is_long(const struct early *early)
{
    return early->count >= EARLY_LOOK + 2 * early->kept || early->count == EARLY_MAX;
}

void early_sift(struct early *early, bool (*keep)(const struct early_event *event, void *ctx),
                void *ctx)
{
    size_t kept = 0;
    for (size_t i = 0; i < early->count; i++) {
        if (keep(&early->events[i], ctx)) {
            early->events[kept++] = early->events[i];
        }
    }
    early->count = kept;
    early->kept = kept;
}

void early_clear(struct early *early)
{
    early->count = 0;
    early->kept = 0;
}

void early_release(struct early *early)
{
    mem_free(early->events);
    *early = (struct early){0};
}
