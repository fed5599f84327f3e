/*
 * batch.c - entries and their memory. See batch.h.
 *
 * The arena's own maximum is far above STORE_BATCH_BYTES_MAX: a batch stops being filled when it is
 * full, but the one event that fills it may be as large as an event can be.
 */
#include "store/common/batch.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/uuid.h"

#define BATCH_ARENA_BYTES_MAX ((size_t)1 << 30)
#define BATCH_FIRST_CAPACITY 16

void batch_init(struct batch *batch)
{
    *batch = (struct batch){0};
    arena_init(&batch->arena, BATCH_ARENA_BYTES_MAX);
}

void batch_clear(struct batch *batch)
{
    arena_clear(&batch->arena);
    batch->count = 0;
}

void batch_release(struct batch *batch)
{
    arena_release(&batch->arena);
    mem_free(batch->entries);
    batch->entries = NULL;
    batch->count = 0;
    batch->capacity = 0;
}

struct entry *batch_push(struct batch *batch)
{
    if (batch->count == batch->capacity) {
        size_t capacity = batch->capacity ? 2 * batch->capacity : BATCH_FIRST_CAPACITY;
        struct entry *entries = mem_realloc(batch->entries, capacity * sizeof *entries);
        if (!entries) {
            return NULL;
        }
        batch->entries = entries;
        batch->capacity = capacity;
    }
    struct entry *entry = &batch->entries[batch->count++];
    *entry = (struct entry){.damaged = true};
    return entry;
}

bool batch_full(const struct batch *batch)
{
    return batch->arena.used_bytes >= STORE_BATCH_BYTES_MAX;
}

hf_status batch_identify(struct batch *batch, struct entry *entry, const uint8_t id[16])
{
    char *text = arena_alloc(&batch->arena, UUID_TEXT_BYTES);
    if (!text) {
        return arena_status(&batch->arena);
    }
    uuid_format(id, text);
    memcpy(entry->id, id, sizeof entry->id);
    entry->event.id = text;
    return HF_OK;
}

/* Makes `copy` a copy of the entry whose texts are in the arena. */
static hf_status copy_entry(struct arena *arena, const struct entry *entry, struct entry *copy)
{
    *copy = *entry;
    hf_event *event = &copy->event;
    const char **texts[] = {&event->id,       &event->type,     &event->key,        &event->tenant,
                            &event->metadata, &event->producer, &event->schedule_id};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = arena_text(arena, text_of(*texts[i])).bytes;
    }
    event->payload = arena_text(arena, (struct text){event->payload, event->payload_bytes}).bytes;
    copy->attempts_json = arena_text(arena, entry->attempts_json);
    return arena_status(arena);
}

struct entry *batch_copy(struct batch *batch, const struct entry *entry)
{
    struct entry *copy = batch_push(batch);
    if (copy && copy_entry(&batch->arena, entry, copy)) {
        batch->count--;
        return NULL;
    }
    return copy;
}

const struct entry *batch_keep(struct batch *batch, const struct entry *entry)
{
    struct entry *kept = arena_alloc(&batch->arena, sizeof *kept);
    return kept && !copy_entry(&batch->arena, entry, kept) ? kept : NULL;
}
