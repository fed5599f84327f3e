/*
 * arena.c - a bump allocator whose blocks merge into one.
 *
 * The first batch finds its size by doubling: each new block is as large as all before it. When the
 * batch is cleared and it took more than one block, all are freed and the largest batch so far
 * (peak_bytes) becomes the size of the next block. So after a batch or two there is exactly one
 * block, it is large enough, and clearing is setting its offset to 0.
 *
 * Whether a batch fits must not depend on how it happens to be cut into blocks. Padding is
 * therefore computed from used_bytes, as if all blocks were one, and a new block starts at the same
 * offset modulo ALIGN_BYTES. The memory held is at most about twice bytes_max.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>

#define ALIGN_BYTES alignof(max_align_t)
#define BLOCK_BYTES_MIN 1024

struct arena_block {
    struct arena_block *older;
    size_t capacity; /* of bytes[] */
    size_t offset;   /* congruent to the arena's used_bytes modulo ALIGN_BYTES */
    alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *arena, size_t bytes_max)
{
    assert(bytes_max <= SIZE_MAX / 2); /* so that no sum below overflows */
    *arena = (struct arena){.bytes_max = bytes_max};
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A new newest block with room for bytes at the current alignment. */
static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t offset = arena->used_bytes % ALIGN_BYTES;
    size_t wanted = larger(arena->used_bytes, larger(arena->peak_bytes, BLOCK_BYTES_MIN));
    size_t capacity = larger(wanted, offset + bytes);
    struct arena_block *block = mem_alloc(sizeof *block + capacity);

    if (!block) {
        return NULL;
    }
    *block = (struct arena_block){arena->blocks, capacity, offset};
    arena->blocks = block;
    return block;
}

static void *take(struct arena *arena, size_t bytes, size_t align)
{
    struct arena_block *block = arena->blocks;
    size_t padding = -arena->used_bytes & (align - 1);
    size_t left = arena_left(arena);

    if (arena->failed) {
        return NULL;
    }
    if (bytes > left || padding > left - bytes) {
        arena->failed = HF_INVALID;
        return NULL;
    }
    if (!block || block->capacity - block->offset < padding + bytes) {
        block = add_block(arena, padding + bytes);
    }
    if (!block) {
        arena->failed = HF_NOMEM;
        return NULL;
    }

    void *taken = block->bytes + block->offset + padding;

    block->offset += padding + bytes;
    arena->used_bytes += padding + bytes;
    return taken;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    return take(arena, bytes, ALIGN_BYTES);
}

struct text arena_text(struct arena *arena, struct text from)
{
    if (text_is_absent(from)) {
        return TEXT_ABSENT;
    }

    char *copy = take(arena, from.length + 1, 1);

    if (!copy) {
        return TEXT_ABSENT;
    }
    memcpy(copy, from.bytes, from.length);
    copy[from.length] = '\0';
    return (struct text){copy, from.length};
}

size_t arena_left(const struct arena *arena)
{
    return arena->bytes_max - arena->used_bytes;
}

hf_status arena_status(const struct arena *arena)
{
    if (!arena->failed) {
        return HF_OK;
    }
    if (arena->failed == HF_NOMEM) {
        return fail(HF_NOMEM, "out of memory for a batch of %zu bytes", arena->used_bytes);
    }
    return fail(arena->failed, "the batch is larger than its limit of %zu bytes", arena->bytes_max);
}

static void free_blocks(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *older = arena->blocks->older;

        mem_free(arena->blocks);
        arena->blocks = older;
    }
}

void arena_clear(struct arena *arena)
{
    arena->peak_bytes = larger(arena->peak_bytes, arena->used_bytes);
    if (arena->blocks && arena->blocks->older) {
        free_blocks(arena);
    }
    if (arena->blocks) {
        arena->blocks->offset = 0;
    }
    arena->used_bytes = 0;
    arena->failed = HF_OK;
}

void arena_release(struct arena *arena)
{
    free_blocks(arena);
    arena_init(arena, arena->bytes_max);
}
