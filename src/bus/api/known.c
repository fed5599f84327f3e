/*
 * known.c - remembering what a subscription's name means. See known.h.
 *
 * Claiming and acknowledging name the subscription in every call. Reading its row each time would
 * be half of the round trips of a worker that claims and acknowledges. So what a claim has read
 * stays here, a few definitions, each counted by those who use it: a claim that waits goes on with
 * the one it has while another thread forgets it.
 *
 * Nothing here is ever trusted. The id of a removed subscription is not given again, and the
 * generation rises with every change, so a claim or an acknowledgement that comes with an old one
 * changes nothing and says so.
 */
#include "bus/api/known.h"

#include "base/err.h"
#include "base/mem.h"

#define KNOWN_MAX 8

struct memory {
    pthread_mutex_t mutex;
    struct known *list[KNOWN_MAX]; /* NULL: free */
    size_t next;                   /* whose place is taken when all are */
};

void known_give(struct known *known)
{
    if (known && atomic_fetch_sub(&known->references, 1) == 1) {
        definition_release(&known->definition);
        mem_free(known);
    }
}

hf_status memory_new(struct memory **ret_memory)
{
    struct memory *memory = mem_calloc(1, sizeof *memory);
    if (!memory || pthread_mutex_init(&memory->mutex, NULL) != 0) {
        mem_free(memory);
        return fail(HF_NOMEM, "out of memory");
    }
    *ret_memory = memory;
    return HF_OK;
}

void memory_free(struct memory *memory)
{
    if (!memory) {
        return;
    }
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        known_give(memory->list[i]);
    }
    pthread_mutex_destroy(&memory->mutex);
    mem_free(memory);
}

/* The place of that name; NULL: it is not remembered. The mutex is held. */
static struct known **place_of(struct memory *memory, const char *name)
{
    struct text text = text_of(name);
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        if (memory->list[i] && text_equal(memory->list[i]->definition.name, text)) {
            return &memory->list[i];
        }
    }
    return NULL;
}

static struct known *recall(struct memory *memory, const char *name)
{
    pthread_mutex_lock(&memory->mutex);
    struct known **place = place_of(memory, name);
    struct known *known = place ? *place : NULL;
    if (known) {
        atomic_fetch_add(&known->references, 1);
    }
    pthread_mutex_unlock(&memory->mutex);
    return known;
}

static void remember(struct memory *memory, const char *name, struct known *known)
{
    pthread_mutex_lock(&memory->mutex);
    struct known **place = place_of(memory, name);
    if (!place) {
        place = &memory->list[memory->next++ % KNOWN_MAX];
    }
    struct known *old = *place;
    atomic_fetch_add(&known->references, 1);
    *place = known;
    pthread_mutex_unlock(&memory->mutex);
    known_give(old);
}

hf_status known_take(hf_bus *bus, const char *name, struct known **ret_known, bool *ret_remembered)
{
    struct known *known = recall(bus->memory, name);
    *ret_remembered = known != NULL;
    if (known) {
        *ret_known = known;
        return HF_OK;
    }
    known = mem_calloc(1, sizeof *known);
    if (!known) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    atomic_init(&known->references, 1);
    definition_init(&known->definition);
    hf_status status = definition_load(bus, name, &known->definition);
    if (status) {
        known_give(known);
        return status;
    }
    if (known->definition.options.mode == HF_MODE_SHARED) {
        remember(bus->memory, name, known);
    }
    *ret_known = known;
    return HF_OK;
}

bool known_id(hf_bus *bus, const char *name, int64_t *ret_id)
{
    struct known *known = recall(bus->memory, name);
    if (known) {
        *ret_id = known->definition.id;
    }
    known_give(known);
    return known != NULL;
}

void known_forget(hf_bus *bus, const char *name)
{
    struct memory *memory = bus->memory;
    pthread_mutex_lock(&memory->mutex);
    struct known **place = place_of(memory, name);
    struct known *known = place ? *place : NULL;
    if (place) {
        *place = NULL;
    }
    pthread_mutex_unlock(&memory->mutex);
    known_give(known);
}
