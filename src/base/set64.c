/*
 * set64.c - open addressing with linear probing and backward-shift removal.
 *
 * Invariant: from the home slot of any key, hash_mix(key) modulo capacity, the slots up to the one
 * that holds the key are all used. So a search ends at the key or at the first unused slot. Removal
 * keeps the invariant by moving later entries of the run into the gap. At most three quarters of
 * the slots are used; the table doubles and never shrinks, and count_max bounds it.
 *
 * Growing is the only thing that can fail, before anything has changed.
 */
#include "base/set64.h"

#include <stdatomic.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#define CAPACITY_MIN 16

#ifdef HF_FAULTS
static atomic_size_t bound; /* 0: none */

void set64_bound(size_t count_max)
{
    atomic_store(&bound, count_max);
}
#endif

void set64_init(struct set64 *set, size_t count_max)
{
    *set = (struct set64){.count_max = count_max};
#ifdef HF_FAULTS
    size_t most = atomic_load(&bound);
    set->count_max = most > 0 && most < count_max ? most : count_max;
#endif
}

static size_t home_of(const struct set64 *set, uint64_t key)
{
    return (size_t)hash_mix(key) & (set->capacity - 1);
}

/* The slot that holds the key, or the unused one where it would go. capacity > count. */
static struct set64_slot *find(const struct set64 *set, uint64_t key)
{
    size_t at = home_of(set, key);

    while (set->slots[at].used && set->slots[at].key != key) {
        at = (at + 1) & (set->capacity - 1);
    }
    return &set->slots[at];
}

static hf_status grow(struct set64 *set)
{
    struct set64 larger = *set;

    larger.capacity = set->capacity ? set->capacity * 2 : CAPACITY_MIN;
    larger.slots = mem_calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) {
        return fail(HF_NOMEM, "out of memory for a table of %zu entries", larger.capacity);
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i].used) {
            *find(&larger, set->slots[i].key) = set->slots[i];
        }
    }
    mem_free(set->slots);
    *set = larger;
    return HF_OK;
}

/* A new key is about to be added: is there room? */
static hf_status make_room(struct set64 *set)
{
    if (set->count >= set->count_max) {
        return fail(HF_INVALID, "the table has %zu entries; the limit is %zu", set->count,
                    set->count_max);
    }
    if (set->count >= set->capacity - set->capacity / 4) {
        return grow(set);
    }
    return HF_OK;
}

static hf_status insert(struct set64 *set, uint64_t key, int64_t value)
{
    hf_status status = make_room(set);

    if (status) {
        return status;
    }
    *find(set, key) = (struct set64_slot){key, value, true};
    set->count++;
    return HF_OK;
}

hf_status set64_put(struct set64 *set, uint64_t key, int64_t value)
{
    struct set64_slot *slot = set->capacity ? find(set, key) : NULL;

    if (!slot || !slot->used) {
        return insert(set, key, value);
    }
    slot->value = value;
    return HF_OK;
}

hf_status set64_add(struct set64 *set, uint64_t key, int64_t delta)
{
    struct set64_slot *slot = set->capacity ? find(set, key) : NULL;

    if (!slot || !slot->used) {
        return delta ? insert(set, key, delta) : HF_OK;
    }
    slot->value += delta;
    if (slot->value == 0) {
        set64_remove(set, key);
    }
    return HF_OK;
}

bool set64_get(const struct set64 *set, uint64_t key, int64_t *ret_value)
{
    const struct set64_slot *slot = set->capacity ? find(set, key) : NULL;

    if (!slot || !slot->used) {
        return false;
    }
    if (ret_value) {
        *ret_value = slot->value;
    }
    return true;
}

bool set64_remove(struct set64 *set, uint64_t key)
{
    struct set64_slot *slot = set->capacity ? find(set, key) : NULL;

    if (!slot || !slot->used) {
        return false;
    }

    size_t mask = set->capacity - 1;
    size_t gap = (size_t)(slot - set->slots);

    for (size_t at = (gap + 1) & mask; set->slots[at].used; at = (at + 1) & mask) {
        size_t home = home_of(set, set->slots[at].key);

        /* The entry may move into the gap if its home is not between the gap and itself. */
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            set->slots[gap] = set->slots[at];
            gap = at;
        }
    }
    set->slots[gap].used = false;
    set->count--;
    return true;
}

void set64_remove_value(struct set64 *set, int64_t value)
{
    for (size_t i = 0; i < set->capacity; i++) {
        /* What moves into the gap is looked at, too. What wraps around to the end of the table was
         * looked at before. */
        while (set->slots[i].used && set->slots[i].value == value) {
            set64_remove(set, set->slots[i].key);
        }
    }
}

size_t set64_count(const struct set64 *set)
{
    return set->count;
}

bool set64_next(const struct set64 *set, size_t *cursor, uint64_t *ret_key, int64_t *ret_value)
{
    while (*cursor < set->capacity) {
        const struct set64_slot *slot = &set->slots[(*cursor)++];

        if (!slot->used) {
            continue;
        }
        *ret_key = slot->key;
        *ret_value = slot->value;
        return true;
    }
    return false;
}

void set64_clear(struct set64 *set)
{
    for (size_t i = 0; i < set->capacity; i++) {
        set->slots[i].used = false;
    }
    set->count = 0;
}

void set64_release(struct set64 *set)
{
    mem_free(set->slots);
    set64_init(set, set->count_max);
}
