/*
 * hash.c - what the hashes are of: MD5 of messages that are put together here.
 *
 * A lane is encoded so that no two pairs share an encoding: each part is a presence byte, and if
 * present its length as 8 bytes and its bytes. Lanes are 64 bits of MD5: two of them being equal by
 * chance would only make two lanes wait for each other.
 *
 * A message goes into a sink: into MD5 piece by piece (one event), or into a set beside others. Its
 * length is known before.
 */
#include "base/hash.h"

#include "base/banned.h"
#include "base/uuid.h"

#define EPOCH_2000_US INT64_C(946684800000000)

/* ---- Messages -------------------------------------------------------------------------------- */

struct sink {
    struct md5 *md5; /* NULL: to `to` */
    uint8_t *to;
};

static void put(struct sink *sink, const void *bytes, size_t length)
{
    if (sink->md5) {
        md5_add(sink->md5, bytes, length);
    } else if (length > 0) {
        memcpy(sink->to, bytes, length);
        sink->to += length;
    }
}

/* Big-endian; compilers make one store of it. */
static void put_uint32(struct sink *sink, uint32_t number)
{
    uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                        (uint8_t)number};

    put(sink, bytes, sizeof bytes);
}

#define CONTENT_BYTES_FIXED 48 /* id, emitted_at, and the lengths of six texts */

static size_t content_length(const struct hash_content *content)
{
    return CONTENT_BYTES_FIXED + content->type.length + content->key.length +
           content->tenant.length + content->metadata.length + content->producer.length +
           content->schedule_id.length + content->payload.length;
}

static void put_content_text(struct sink *sink, struct text text)
{
    put_uint32(sink, text_is_absent(text) ? UINT32_MAX : (uint32_t)text.length);
    put(sink, text.bytes, text.length);
}

static void put_content(struct sink *sink, const struct hash_content *content)
{
    uint64_t emitted_at = (uint64_t)(content->emitted_at_us - EPOCH_2000_US);

    put(sink, content->id, UUID_BYTES);
    put_uint32(sink, (uint32_t)(emitted_at >> 32));
    put_uint32(sink, (uint32_t)emitted_at);
    put_content_text(sink, content->type);
    put_content_text(sink, content->key);
    put_content_text(sink, content->tenant);
    put_content_text(sink, content->metadata);
    put_content_text(sink, content->producer);
    put_content_text(sink, content->schedule_id);
    put(sink, content->payload.bytes, content->payload.length);
}

static size_t lane_text_length(struct text text)
{
    return text_is_absent(text) ? 1 : 9 + text.length;
}

static void put_lane_text(struct sink *sink, struct text text)
{
    uint64_t length = text.length;
    uint8_t head[9] = {text_is_absent(text) ? 0 : 1};

    for (int i = 0; i < 8; i++) { /* little-endian, whatever the machine */
        head[1 + i] = (uint8_t)(length >> 8 * i);
    }
    put(sink, head, text_is_absent(text) ? 1 : sizeof head);
    put(sink, text.bytes, text.length);
}

/* What the partition hash of an event is of. */
static struct text event_text(struct text tenant, struct text key, const uint8_t id[16],
                              char id_text[UUID_TEXT_BYTES])
{
    if (!text_is_absent(tenant)) {
        return tenant;
    }
    if (!text_is_absent(key)) {
        return key;
    }
    uuid_format(id, id_text);
    return (struct text){id_text, UUID_TEXT_BYTES - 1};
}

/* ---- One event ------------------------------------------------------------------------------- */

/* Compilers make one load of it. */
static uint64_t load_big_endian(const uint8_t *bytes)
{
    return (uint64_t)bytes[0] << 56 | (uint64_t)bytes[1] << 48 | (uint64_t)bytes[2] << 40 |
           (uint64_t)bytes[3] << 32 | (uint64_t)bytes[4] << 24 | (uint64_t)bytes[5] << 16 |
           (uint64_t)bytes[6] << 8 | (uint64_t)bytes[7];
}

static uint64_t finish(struct md5 *md5)
{
    uint8_t digest[MD5_BYTES];

    md5_finish(md5, digest);
    return load_big_endian(digest);
}

void hash_md5(const void *bytes, size_t length, uint8_t out[MD5_BYTES])
{
    struct md5 md5;

    md5_init(&md5);
    md5_add(&md5, bytes, length);
    md5_finish(&md5, out);
}

int64_t hash_partition(struct text text)
{
    uint8_t digest[MD5_BYTES];

    hash_md5(text.bytes, text.length, digest);
    return (int64_t)(load_big_endian(digest) & INT64_MAX);
}

int64_t hash_event(struct text tenant, struct text key, const uint8_t id[16])
{
    char id_text[UUID_TEXT_BYTES];

    return hash_partition(event_text(tenant, key, id, id_text));
}

int64_t hash_kind(struct text subscription, struct text type, struct text reason, struct text error)
{
    struct md5 md5;

    md5_init(&md5);
    md5_add(&md5, subscription.bytes, subscription.length);
    md5_add(&md5, "\n", 1);
    md5_add(&md5, type.bytes, type.length);
    md5_add(&md5, "\n", 1);
    md5_add(&md5, reason.bytes, reason.length);
    md5_add(&md5, "\n", 1);
    md5_add(&md5, error.bytes, error.length);
    return (int64_t)(finish(&md5) & INT64_MAX);
}

int32_t hash_slice(int64_t hash, int32_t partitions)
{
    return (int32_t)((hash & INT64_MAX) % partitions);
}

/* An event without tenant and key is a lane of its own. */
static uint64_t lane_of_id(const uint8_t id[16])
{
    return hash_mix(load_big_endian(id) ^ hash_mix(load_big_endian(id + 8)));
}

uint64_t hash_lane(struct text tenant, struct text key, const uint8_t id[16])
{
    struct md5 md5;
    struct sink sink = {.md5 = &md5};

    if (text_is_absent(tenant) && text_is_absent(key)) {
        return lane_of_id(id);
    }
    md5_init(&md5);
    put_lane_text(&sink, tenant);
    put_lane_text(&sink, key);
    return finish(&md5);
}

int64_t hash_content(const struct hash_content *content)
{
    struct md5 md5;
    struct sink sink = {.md5 = &md5};

    md5_init(&md5);
    put_content(&sink, content);
    return (int64_t)finish(&md5);
}

void hash_new(const struct hash_content *content, int64_t *ret_content, int64_t *ret_hash)
{
    char id_text[UUID_TEXT_BYTES];
    struct text text = event_text(content->tenant, content->key, content->id, id_text);
    uint8_t digest[MD5_BYTES];
    uint8_t other_digest[MD5_BYTES];
    struct md5 md5;
    struct md5 other;
    struct sink sink = {.md5 = &md5};

    md5_init(&md5);
    put_content(&sink, content);
    md5_init(&other);
    md5_add(&other, text.bytes, text.length);
    md5_finish_two(&md5, digest, &other, other_digest);
    *ret_content = (int64_t)load_big_endian(digest);
    *ret_hash = (int64_t)(load_big_endian(other_digest) & INT64_MAX);
}

int64_t hash_checksum(int64_t content, int64_t hash, int64_t position, int64_t entered_at_us,
                      int64_t key_version)
{
    return content ^ hash ^ position ^ entered_at_us ^ (key_version > 0 ? key_version : 0);
}

/* ---- Many events ----------------------------------------------------------------------------- */

void hash_set_init(struct hash_set *set)
{
    set->count = 0;
    set->used = 0;
}

void hash_set_finish(struct hash_set *set)
{
    uint8_t digests[HASH_SET_MESSAGES][MD5_BYTES];

    md5_many(set->messages, set->count, digests);
    for (size_t i = 0; i < set->count; i++) {
        *set->answers[i] = load_big_endian(digests[i]) & set->masks[i];
    }
    hash_set_init(set);
}

/* Where the message goes, with its place in the set; NULL if it is too long for one. */
static uint8_t *set_add(struct hash_set *set, size_t length, uint64_t mask, uint64_t *ret_hash)
{
    size_t blocks = md5_blocks(length);

    if (blocks > HASH_SET_BLOCKS / 4) {
        return NULL;
    }
    if (set->count == HASH_SET_MESSAGES || set->used + blocks > HASH_SET_BLOCKS) {
        hash_set_finish(set);
    }
    uint8_t *to = set->blocks + set->used * MD5_BLOCK_BYTES;

    set->messages[set->count] = (struct md5_message){to, blocks};
    set->answers[set->count] = ret_hash;
    set->masks[set->count++] = mask;
    set->used += blocks;
    md5_pad(to, length);
    return to;
}

void hash_set_content(struct hash_set *set, const struct hash_content *content,
                      int64_t *ret_content)
{
    uint8_t *to = set_add(set, content_length(content), UINT64_MAX, (uint64_t *)ret_content);
    struct sink sink = {.to = to};

    if (to) {
        put_content(&sink, content);
    } else {
        *ret_content = hash_content(content);
    }
}

void hash_set_event(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                    int64_t *ret_hash)
{
    char id_text[UUID_TEXT_BYTES];
    struct text text = event_text(tenant, key, id, id_text);
    uint8_t *to = set_add(set, text.length, INT64_MAX, (uint64_t *)ret_hash);
    struct sink sink = {.to = to};

    if (to) {
        put(&sink, text.bytes, text.length);
    } else {
        *ret_hash = hash_partition(text);
    }
}

void hash_set_lane(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                   uint64_t *ret_lane)
{
    if (text_is_absent(tenant) && text_is_absent(key)) {
        *ret_lane = lane_of_id(id);
        return;
    }
    size_t length = lane_text_length(tenant) + lane_text_length(key);
    uint8_t *to = set_add(set, length, UINT64_MAX, ret_lane);
    struct sink sink = {.to = to};

    if (to) {
        put_lane_text(&sink, tenant);
        put_lane_text(&sink, key);
    } else {
        *ret_lane = hash_lane(tenant, key, id);
    }
}

uint64_t hash_mix(uint64_t value)
{
    /* The finalizer of splitmix64 by Sebastiano Vigna, in the public domain. */
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}
