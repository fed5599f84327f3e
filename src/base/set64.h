/*
 * set64.h - a bounded hash map from uint64_t to int64_t.
 *
 * Counts deliveries per lane, remembers positions processed ahead. Open addressing with linear
 * probing; removal shifts entries back, so there are no tombstones and a map that is filled and
 * emptied for ever stays as fast as a new one. Any key and any value may be stored.
 */
#ifndef HF_BASE_SET64_H
#define HF_BASE_SET64_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct set64_slot {
    uint64_t key;
    int64_t value;
    bool used;
};

struct set64 {
    struct set64_slot *slots; /* NULL until the first put */
    size_t capacity;          /* slots: 0 or a power of two, at least 4/3 of count */
    size_t count;
    size_t count_max;
};

/* Allocates nothing yet. */
void set64_init(struct set64 *set, size_t count_max);

/* Adds or replaces. HF_NOMEM, or HF_INVALID when a new key would exceed count_max; the map is then
 * unchanged. */
hf_status set64_put(struct set64 *set, uint64_t key, int64_t value);

/* Adds delta to the value (0 if the key is new) and removes the key when the sum is 0: a counter.
 * Fails as set64_put does, and only for a new key. */
hf_status set64_add(struct set64 *set, uint64_t key, int64_t delta);

/* False if there is no such key. ret_value may be NULL. */
bool set64_get(const struct set64 *set, uint64_t key, int64_t *ret_value);

/* False if there was no such key. */
bool set64_remove(struct set64 *set, uint64_t key);

/* Removes all entries with this value. */
void set64_remove_value(struct set64 *set, int64_t value);

size_t set64_count(const struct set64 *set);

/* Walks all entries in no order: start with *cursor = 0, until false. The map must not change
 * meanwhile. */
bool set64_next(const struct set64 *set, size_t *cursor, uint64_t *ret_key, int64_t *ret_value);

/* Empties it, keeps the memory. */
void set64_clear(struct set64 *set);

/* Gives the memory back; the map may be used again. */
void set64_release(struct set64 *set);

#ifdef HF_FAULTS
/* Maps that are made from now on hold at most so many, whatever they are asked for; 0: that. */
void set64_bound(size_t count_max);
#endif

#endif
