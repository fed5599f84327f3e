/*
 * checksum.c - the checksum of new events and of those that were read. See checksum.h.
 */
#include "store/common/checksum.h"

#include "base/hash.h"

void checksum_seal(struct new_event *event)
{
    struct hash_content content = {
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
    hash_new(&content, &event->content, &event->hash);
}

int64_t checksum_of_new(const struct new_event *event, int64_t position, int64_t entered_at_us)
{
    return hash_checksum(event->content, event->hash, position, entered_at_us, event->key_version);
}

int64_t checksum_of_event(const hf_event *event, const uint8_t id[16], int64_t hash)
{
    struct hash_content content = {
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
    return hash_checksum(hash_content(&content), hash, event->position, event->entered_at_us,
                         event->key_version);
}
