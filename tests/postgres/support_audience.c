/*
 * support_audience.c - see support_audience.h.
 */
#include "postgres/support_audience.h"

#include <inttypes.h>

void audience_open(struct audience *audience, struct store *store, int64_t after, bool strict,
                   const char *pattern)
{
    *audience = (struct audience){
        .store = store,
        .strict = strict,
        .max = 1000,
        .floor = after,
        .pattern = text_of(pattern),
        .positions = calloc(AUDIENCE_MAX, sizeof *audience->positions),
        .seen = calloc(AUDIENCE_MAX, sizeof *audience->seen),
    };
    must_hold(audience->positions && audience->seen);
    audience->filter.count = 1;
    batch_init(&audience->batch);
    must_answer(HF_OK, store_reader_open(store, after, strict, &audience->reader));
}

void audience_close(struct audience *audience)
{
    store_reader_close(audience->reader);
    batch_release(&audience->batch);
    free(audience->positions);
    free(audience->seen);
}

static void take_entry(struct audience *audience, const struct entry *entry)
{
    int64_t position = entry->event.position;
    must_hold(position > 0 && position < AUDIENCE_MAX && audience->count < AUDIENCE_MAX);
    must_hold(position > audience->floor);
    must_hold(!audience->seen[position]);
    must_hold(!audience->strict || position > audience->highest);
    audience->highest = position > audience->highest ? position : audience->highest;
    audience->seen[position] = true;
    audience->positions[audience->count++] = position;
    if (audience->found) {
        audience->found(entry, audience->ctx);
    }
}

void audience_read(struct audience *audience)
{
    bool more = true;
    audience->filter.patterns = &audience->pattern; /* it may have been moved */
    while (more) {
        int64_t floor = -7;
        batch_clear(&audience->batch);
        must_answer(HF_OK, store_reader_next(audience->reader, &audience->filter, audience->max,
                                             &audience->batch, &floor, &more));
        must_hold((int64_t)audience->batch.count <= audience->max);
        for (size_t i = 0; i < audience->batch.count; i++) {
            take_entry(audience, &audience->batch.entries[i]);
        }
        must_hold(floor >= audience->floor);
        audience->floor = floor;
    }
}

int64_t audience_await(struct audience *audience, int64_t floor)
{
    int64_t begin = mono_ms();
    for (;;) {
        uint64_t seen = store_news(audience->store);
        audience_read(audience);
        int64_t spent = mono_ms() - begin;
        if (audience->floor >= floor) {
            return spent;
        }
        if (spent > DEADLINE_MS) {
            check_fail(__FILE__, __LINE__, "the floor stays at %" PRId64 ", wanted %" PRId64,
                       audience->floor, floor);
        }
        store_wait(audience->store, seen, 5000);
    }
}

const char *audience_list(const struct audience *audience)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < audience->count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? " " : "",
                                 audience->positions[i]);
        must_hold(used < sizeof text);
    }
    return text;
}
