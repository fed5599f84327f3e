/*
 * definition_cache.c - the definitions of a few shared subscriptions. See definition_cache.h.
 *
 * Claiming and acknowledging name the subscription in every call. Reading its row each time would
 * be half of the round trips of a worker that claims and acknowledges. So the cache keeps the
 * definitions that claims have read. Each counts its references: a claim that waits keeps the
 * definition that it took while another thread removes it from the cache.
 *
 * A cached definition may be out of date, and the store checks that. The id of a removed
 * subscription is never used again, and the generation rises with every change, so the store
 * refuses a claim or an acknowledgement that names an old one and changes nothing.
 */
#include "bus/api/definition_cache.h"

#include "base/err.h"
#include "base/mem.h"

#define DEFINITIONS_MAX 8

struct definition_cache {
    pthread_mutex_t mutex;
    struct cached_definition *list[DEFINITIONS_MAX]; /* NULL: free */
    size_t next; /* the place that is taken next when all are in use */
};

void definition_cache_give(struct cached_definition *cached)
{
    if (cached && atomic_fetch_sub(&cached->references, 1) == 1) {
        definition_release(&cached->definition);
        mem_free(cached);
    }
}

hf_status definition_cache_new(struct definition_cache **ret_cache)
{
    struct definition_cache *cache = mem_calloc(1, sizeof *cache);
    if (!cache || pthread_mutex_init(&cache->mutex, NULL) != 0) {
        mem_free(cache);
        return fail(HF_NOMEM, "out of memory");
    }
    *ret_cache = cache;
    return HF_OK;
}

void definition_cache_free(struct definition_cache *cache)
{
    if (!cache) {
        return;
    }
    for (size_t i = 0; i < DEFINITIONS_MAX; i++) {
        definition_cache_give(cache->list[i]);
    }
    pthread_mutex_destroy(&cache->mutex);
    mem_free(cache);
}

/* The place of that name; NULL: it is not remembered. The mutex is held. */
static struct cached_definition **place_of(struct definition_cache *cache, const char *name)
{
    struct text text = text_of(name);
    for (size_t i = 0; i < DEFINITIONS_MAX; i++) {
        if (cache->list[i] && text_equal(cache->list[i]->definition.name, text)) {
            return &cache->list[i];
        }
    }
    return NULL;
}

static struct cached_definition *recall(struct definition_cache *cache, const char *name)
{
    pthread_mutex_lock(&cache->mutex);
    struct cached_definition **place = place_of(cache, name);
    struct cached_definition *cached = place ? *place : NULL;
    if (cached) {
        atomic_fetch_add(&cached->references, 1);
    }
    pthread_mutex_unlock(&cache->mutex);
    return cached;
}

static void remember(struct definition_cache *cache, const char *name,
                     struct cached_definition *cached)
{
    pthread_mutex_lock(&cache->mutex);
    struct cached_definition **place = place_of(cache, name);
    if (!place) {
        place = &cache->list[cache->next++ % DEFINITIONS_MAX];
    }
    struct cached_definition *old = *place;
    atomic_fetch_add(&cached->references, 1);
    *place = cached;
    pthread_mutex_unlock(&cache->mutex);
    definition_cache_give(old);
}

hf_status definition_cache_take(hf_bus *bus, const char *name,
                                struct cached_definition **ret_cached, bool *ret_remembered)
{
    struct cached_definition *cached = recall(bus->definition_cache, name);
    *ret_remembered = cached != NULL;
    if (cached) {
        *ret_cached = cached;
        return HF_OK;
    }
    cached = mem_calloc(1, sizeof *cached);
    if (!cached) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    atomic_init(&cached->references, 1);
    definition_init(&cached->definition);
    hf_status status = definition_load(bus, name, &cached->definition);
    if (status) {
        definition_cache_give(cached);
        return status;
    }
    if (cached->definition.options.mode == HF_MODE_SHARED) {
        remember(bus->definition_cache, name, cached);
    }
    *ret_cached = cached;
    return HF_OK;
}

bool definition_cache_id(hf_bus *bus, const char *name, int64_t *ret_id)
{
    struct cached_definition *cached = recall(bus->definition_cache, name);
    if (cached) {
        *ret_id = cached->definition.id;
    }
    definition_cache_give(cached);
    return cached != NULL;
}

void definition_cache_forget(hf_bus *bus, const char *name)
{
    struct definition_cache *cache = bus->definition_cache;
    pthread_mutex_lock(&cache->mutex);
    struct cached_definition **place = place_of(cache, name);
    struct cached_definition *cached = place ? *place : NULL;
    if (place) {
        *place = NULL;
    }
    pthread_mutex_unlock(&cache->mutex);
    definition_cache_give(cached);
}
