/*
 * running.c - which handlers of this process run. See running.h.
 *
 * While no handler runs the keeper does not look: the first note after that wakes it. A worker that
 * notes something while the keeper stops looking is not overlooked: the keeper says first that it
 * does not look any more, and then looks once more.
 */
#include "store/postgres/keeper/running.h"

#include <assert.h>

#include "base/mem.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"
#include "store/postgres/verbs.h"

#define LOOK_US INT64_C(1000000)
#define LOOK_FAKE_US INT64_C(5000) /* where a test has stopped the clocks */

bool running_note(struct running *running, int32_t slot, const struct handler_note *note)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    struct running_row *row = &running->rows[slot];
    atomic_store_explicit(&row->position, 0, memory_order_relaxed);
    atomic_store_explicit(&row->subscription_id, note->subscription_id, memory_order_relaxed);
    atomic_store_explicit(&row->since_us, note->now_us, memory_order_relaxed);
    atomic_store_explicit(&row->began_us, clock_mono_us(), memory_order_relaxed);
    atomic_store(&row->position, note->position);
    return !atomic_load(&running->watched) && !atomic_exchange(&running->watched, true);
}

void running_note_clear(struct running *running, int32_t slot)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    atomic_store(&running->rows[slot].position, 0);
}

void running_forget(struct running *running)
{
    running->told = 0;
    atomic_store(&running->watched, true);
}

/* What runs, as the keeper has found it. */
struct found {
    size_t count; /* that have run for long enough to be shown */
    uint16_t slots[STORE_NOTES_MAX];
    bool any; /* something runs */
    uint64_t digest;
};

static uint64_t mix(uint64_t digest, int64_t word)
{
    return (digest ^ (uint64_t)word) * UINT64_C(0x9E3779B97F4A7C15);
}

static void find(struct running *running, int64_t now_us, struct found *found)
{
    *found = (struct found){0};
    for (int32_t i = 0; i < STORE_NOTES_MAX; i++) {
        struct running_row *row = &running->rows[i];
        int64_t position = atomic_load(&row->position);
        int64_t began_us = atomic_load(&row->began_us);
        if (position == 0) {
            continue;
        }
        found->any = true;
        if (now_us - began_us >= RUNNING_SHOWN_US) {
            found->digest = mix(mix(mix(found->digest, i), position), began_us) | 1;
            found->slots[found->count++] = (uint16_t)i;
        }
    }
}

static void fill(struct postgres_engine *engine, const struct found *found)
{
    const struct running_row *rows = engine->keeper.running.rows;
    struct params *params = session_params(&engine->keeper.session);
    param_uuid(params, engine->token);
    param_array(params, PARAM_INT8, found->count);
    for (size_t i = 0; i < found->count; i++) {
        element_int8(params, atomic_load(&rows[found->slots[i]].subscription_id));
    }
    param_array(params, PARAM_INT8, found->count);
    for (size_t i = 0; i < found->count; i++) {
        element_int8(params, atomic_load(&rows[found->slots[i]].position));
    }
    param_array(params, PARAM_TIME, found->count);
    for (size_t i = 0; i < found->count; i++) {
        element_local(params, atomic_load(&rows[found->slots[i]].since_us));
    }
}

hf_status running_tell(struct postgres_engine *engine, int64_t now_us, int64_t *wait_us)
{
    struct running *running = &engine->keeper.running;
    if (!atomic_load(&running->watched)) {
        return HF_OK;
    }
    int64_t gap_us = clock_is_fake() ? LOOK_FAKE_US : LOOK_US;
    int64_t left_us = running->looked_at_us + gap_us - now_us;
    hf_status status = HF_OK;
    if (left_us <= 0) {
        struct found *found = mem_alloc(sizeof *found);
        if (found) {
            atomic_store(&running->watched, false);
            find(running, now_us, found);
            if (found->digest != running->told) {
                fill(engine, found);
                status = session_run(&engine->keeper.session, POSTGRES_QUERY_KEEPER_RUNNING);
                running->told = found->digest;
            }
            if (found->any || found->digest != 0) {
                atomic_store(&running->watched, true);
            }
            mem_free(found);
        }
        running->looked_at_us = now_us;
        left_us = gap_us;
    }
    if (atomic_load(&running->watched) && left_us < *wait_us) {
        *wait_us = left_us;
    }
    /* If the server refuses it, signs of life go on all the same; a new connection tells again. */
    return session_is_lost(&engine->keeper.session) ? status : HF_OK;
}
