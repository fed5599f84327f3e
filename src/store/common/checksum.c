/*
 * checksum.c - the checksum of new events and of those that were read. See checksum.h.
 */
#include "store/common/checksum.h"

#include "base/hash.h"

#define GROUP 64 /* events whose hashes are in hand at a time */

static struct hash_content content_of_new(const struct new_event *event)
{
    return (struct hash_content){
        .id = event->id,
        .emitted_at_us = event->emitted_at_us,
        .type = event->type,
        .key = event->key,
        .tenant = event->tenant,
        .metadata = event->metadata,
        .producer = event->producer,
        .schedule_id = event->schedule_id,
        .payload = event->payload,
    };
}

static struct hash_content content_of(const hf_event *event, const uint8_t id[16])
{
    return (struct hash_content){
        .id = id,
        .emitted_at_us = event->emitted_at_us,
        .type = text_of(event->type),
        .key = text_of(event->key),
        .tenant = text_of(event->tenant),
        .metadata = text_of(event->metadata),
        .producer = text_of(event->producer),
        .schedule_id = text_of(event->schedule_id),
        .payload = {event->payload, event->payload_bytes},
    };
}

void checksum_seal(struct new_event *event)
{
    struct hash_content content = content_of_new(event);
    hash_new(&content, &event->content, &event->hash);
}

void checksum_seal_all(struct new_event *events, size_t count)
{
    struct hash_set set;
    hash_set_init(&set);
    for (size_t i = 0; i < count; i++) {
        struct hash_content content = content_of_new(&events[i]);
        hash_set_content(&set, &content, &events[i].content);
        hash_set_event(&set, content.tenant, content.key, content.id, &events[i].hash);
    }
    hash_set_finish(&set);
}

int64_t checksum_of_new(const struct new_event *event, int64_t position, int64_t entered_at_us)
{
    return hash_checksum(event->content, event->hash, position, entered_at_us, event->key_version);
}

int64_t checksum_of_event(const hf_event *event, const uint8_t id[16], int64_t hash)
{
    struct hash_content content = content_of(event, id);
    return hash_checksum(hash_content(&content), hash, event->position, event->entered_at_us,
                         event->key_version);
}

/* The same for at most GROUP entries. */
static void check_group(struct entry *entries, size_t count)
{
    struct hash_set set;
    int64_t contents[GROUP];
    hash_set_init(&set);
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = &entries[i];
        struct hash_content content = content_of(&entry->event, entry->id);
        hash_set_content(&set, &content, &contents[i]);
        hash_set_lane(&set, content.tenant, content.key, content.id, &entry->lane);
    }
    hash_set_finish(&set);
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = &entries[i];
        const hf_event *event = &entry->event;
        entry->damaged = entry->checksum != hash_checksum(contents[i], entry->hash, event->position,
                                                          event->entered_at_us, event->key_version);
    }
}

void checksum_check(struct batch *batch, size_t first)
{
    for (size_t i = first; i < batch->count; i += GROUP) {
        size_t left = batch->count - i;
        check_group(&batch->entries[i], left < GROUP ? left : GROUP);
    }
}
