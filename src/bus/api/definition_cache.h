/*
 * definition_cache.h - definitions of shared subscriptions that were claimed from, by name.
 *
 *     struct cached_definition *cached;
 *     bool remembered;
 *     hf_status status = definition_cache_take(bus, name, &cached, &remembered);
 *     if (status == HF_OK) {
 *         ... cached->definition ...        (it never changes)
 *         definition_cache_give(cached);
 *     }
 *
 * The subscription may have been changed or removed since its definition was read. So the caller
 * names the definition's id and generation to the store, which refuses one that is out of date.
 * Then the caller calls definition_cache_forget and takes the definition again.
 */
#ifndef HF_BUS_API_DEFINITION_CACHE_H
#define HF_BUS_API_DEFINITION_CACHE_H

#include "bus/subscription.h"

struct cached_definition {
    atomic_int references;
    struct definition definition;
};

/* The bus makes its cache when it is opened, and frees it with its last reference. */
hf_status definition_cache_new(struct definition_cache **ret_cache);
void definition_cache_free(struct definition_cache *cache);
/* The definition of that name, for the caller to give back. *ret_remembered: it was not read now.
 * HF_NOTFOUND names the subscription. */
hf_status definition_cache_take(hf_bus *bus, const char *name,
                                struct cached_definition **ret_cached, bool *ret_remembered);
void definition_cache_give(struct cached_definition *cached);
/* True, with its id, if it is remembered. */
bool definition_cache_id(hf_bus *bus, const char *name, int64_t *ret_id);
/* Removes it from the cache: the store said that it is out of date. */
void definition_cache_forget(hf_bus *bus, const char *name);

#endif
