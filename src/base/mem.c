/*
 * mem.c - malloc, with a seam.
 *
 * In a release build these are the C library's functions and nothing more. With HF_FAULTS every
 * allocation first asks should_fail, which counts down an atomic number; the count of live blocks
 * goes up with each success and down with each free, so a test can compare it before and after.
 */
#include "base/mem.h"
#include "base/banned.h"

#include <stdlib.h>
#include <string.h>

#ifdef HF_FAULTS

#include <stdatomic.h>

static _Atomic int64_t fail_countdown; /* 0: no failure planned; 1: the next one fails */
static _Atomic bool fail_sticky;
static _Atomic int64_t live_blocks;

void mem_fail_at(int64_t nth, bool sticky)
{
    atomic_store(&fail_sticky, sticky);
    atomic_store(&fail_countdown, nth);
}

int64_t mem_live(void)
{
    return atomic_load(&live_blocks);
}

static bool should_fail(void)
{
    int64_t left = atomic_load(&fail_countdown);

    while (left > 0) {
        if (left == 1 && atomic_load(&fail_sticky)) {
            return true;
        }
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {
            return left == 1;
        }
    }
    return false;
}

static void count_blocks(int64_t change)
{
    atomic_fetch_add(&live_blocks, change);
}

#else

static inline bool should_fail(void)
{
    return false;
}

static inline void count_blocks(int64_t change)
{
    (void)change;
}

#endif

void *mem_alloc(size_t bytes)
{
    void *block = should_fail() ? NULL : malloc(bytes ? bytes : 1);

    if (block) {
        count_blocks(1);
    }
    return block;
}

void *mem_calloc(size_t count, size_t bytes)
{
    size_t total;

    /* calloc would notice too, but sanitizers take that for a mistake and end the program. */
    if (__builtin_mul_overflow(count, bytes, &total) || should_fail()) {
        return NULL;
    }

    void *block = calloc(1, total ? total : 1);

    if (block) {
        count_blocks(1);
    }
    return block;
}

void *mem_realloc(void *block, size_t bytes)
{
    bool is_new = !block;
    void *moved = should_fail() ? NULL : realloc(block, bytes ? bytes : 1);

    if (moved && is_new) {
        count_blocks(1);
    }
    return moved;
}

void *mem_dup(const void *bytes, size_t length)
{
    char *copy = length < SIZE_MAX ? mem_alloc(length + 1) : NULL;

    if (!copy) {
        return NULL;
    }
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    copy[length] = '\0';
    return copy;
}

void mem_free(void *block)
{
    if (block) {
        count_blocks(-1);
    }
    free(block);
}
