/*
 * mem.h - the one seam through which the library allocates.
 *
 * Each function returns NULL when there is no memory; the caller answers HF_NOMEM. In a build with
 * HF_FAULTS tests can make the nth next allocation fail and count the blocks that are alive, so a
 * test can fail the 1st, 2nd, ... Nth allocation of an operation and see that nothing leaks.
 */
#ifndef HF_BASE_MEM_H
#define HF_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A size of 0 gives a block that may be freed and not touched. */
void *mem_alloc(size_t bytes) __attribute__((malloc, warn_unused_result));

/* count * bytes, zeroed; NULL also when the product does not fit. */
void *mem_calloc(size_t count, size_t bytes) __attribute__((malloc, warn_unused_result));

/* On failure the old block is untouched and still the caller's. */
void *mem_realloc(void *block, size_t bytes) __attribute__((warn_unused_result));

/* A copy of length bytes and a final NUL after them. bytes may be NULL if length is 0. */
void *mem_dup(const void *bytes, size_t length) __attribute__((malloc, warn_unused_result));

/* Accepts NULL. */
void mem_free(void *block);

#ifdef HF_FAULTS
/* The nth next allocation of any thread (1 is the very next) fails; with sticky so do all after
 * it. 0 stops failing. */
void mem_fail_at(int64_t nth, bool sticky);

/* How many blocks are allocated and not yet freed. */
int64_t mem_live(void);
#endif

#endif
