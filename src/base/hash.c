/*
 * hash.c - what the hashes are of: MD5 of messages that are put together here.
 *
 * A lane is encoded so that no two pairs share an encoding: each part is a presence byte, and if
 * present its length as 8 bytes and its bytes. Lanes are 64 bits of MD5: two of them being equal by
 * chance would only make two lanes wait for each other.
 *
 * A message is a list of pieces, most of which stay where they are. So the same list is hashed
 * piece by piece (one event), or copied into one text beside others (hash_set).
 */
#include "base/hash.h"

#include "base/banned.h"
#include "base/uuid.h"

#include <assert.h>

#define EPOCH_2000_US INT64_C(946684800000000)
#define PIECES_MAX 16
#define NUMBERS_BYTES 40

/* ---- Messages -------------------------------------------------------------------------------- */

struct message {
    struct text pieces[PIECES_MAX];
    size_t count;
    size_t length;                  /* of all pieces */
    uint8_t numbers[NUMBERS_BYTES]; /* pieces that are no texts of the event */
    size_t numbers_used;
    char id_text[UUID_TEXT_BYTES];
};

static void message_init(struct message *message)
{
    message->count = 0;
    message->length = 0;
    message->numbers_used = 0;
}

static void add(struct message *message, const void *bytes, size_t length)
{
    if (length > 0) {
        assert(message->count < PIECES_MAX);
        message->pieces[message->count++] = (struct text){bytes, length};
        message->length += length;
    }
}

/* Room for a number that is the next piece. */
static uint8_t *add_number(struct message *message, size_t bytes)
{
    assert(message->numbers_used + bytes <= sizeof message->numbers);
    uint8_t *number = message->numbers + message->numbers_used;
    message->numbers_used += bytes;
    add(message, number, bytes);
    return number;
}

/* Big-endian; compilers make one store of it. */
static void add_uint32(struct message *message, uint32_t number)
{
    uint8_t *out = add_number(message, 4);

    out[0] = (uint8_t)(number >> 24);
    out[1] = (uint8_t)(number >> 16);
    out[2] = (uint8_t)(number >> 8);
    out[3] = (uint8_t)number;
}

static void add_content_text(struct message *message, struct text text)
{
    add_uint32(message, text_is_absent(text) ? UINT32_MAX : (uint32_t)text.length);
    add(message, text.bytes, text.length);
}

static void message_content(struct message *message, const struct hash_content *content)
{
    uint64_t emitted_at = (uint64_t)(content->emitted_at_us - EPOCH_2000_US);

    message_init(message);
    add(message, content->id, UUID_BYTES);
    add_uint32(message, (uint32_t)(emitted_at >> 32));
    add_uint32(message, (uint32_t)emitted_at);
    add_content_text(message, content->type);
    add_content_text(message, content->key);
    add_content_text(message, content->tenant);
    add_content_text(message, content->metadata);
    add_content_text(message, content->producer);
    add_content_text(message, content->schedule_id);
    add(message, content->payload.bytes, content->payload.length);
}

/* What the partition hash of an event is of. */
static void message_event(struct message *message, struct text tenant, struct text key,
                          const uint8_t id[16])
{
    struct text text = text_is_absent(tenant) ? key : tenant;

    message_init(message);
    if (text_is_absent(text)) {
        uuid_format(id, message->id_text);
        text = (struct text){message->id_text, UUID_TEXT_BYTES - 1};
    }
    add(message, text.bytes, text.length);
}

static void add_lane_text(struct message *message, struct text text)
{
    uint8_t *head = add_number(message, text_is_absent(text) ? 1 : 9);

    head[0] = !text_is_absent(text);
    for (int i = 0; head[0] && i < 8; i++) { /* little-endian, whatever the machine */
        head[1 + i] = (uint8_t)((uint64_t)text.length >> 8 * i);
    }
    add(message, text.bytes, text.length);
}

static void message_lane(struct message *message, struct text tenant, struct text key)
{
    message_init(message);
    add_lane_text(message, tenant);
    add_lane_text(message, key);
}

/* ---- One event ------------------------------------------------------------------------------- */

static void md5_begin(struct md5 *md5, const struct message *message)
{
    md5_init(md5);
    for (size_t i = 0; i < message->count; i++) {
        md5_add(md5, message->pieces[i].bytes, message->pieces[i].length);
    }
}

/* Compilers make one load of it. */
static uint64_t load_big_endian(const uint8_t *bytes)
{
    return (uint64_t)bytes[0] << 56 | (uint64_t)bytes[1] << 48 | (uint64_t)bytes[2] << 40 |
           (uint64_t)bytes[3] << 32 | (uint64_t)bytes[4] << 24 | (uint64_t)bytes[5] << 16 |
           (uint64_t)bytes[6] << 8 | (uint64_t)bytes[7];
}

static uint64_t hash_message(const struct message *message)
{
    uint8_t digest[MD5_BYTES];
    struct md5 md5;

    md5_begin(&md5, message);
    md5_finish(&md5, digest);
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
    struct message message;

    message_event(&message, tenant, key, id);
    return (int64_t)(hash_message(&message) & INT64_MAX);
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
    struct message message;

    if (text_is_absent(tenant) && text_is_absent(key)) {
        return lane_of_id(id);
    }
    message_lane(&message, tenant, key);
    return hash_message(&message);
}

int64_t hash_content(const struct hash_content *content)
{
    struct message message;

    message_content(&message, content);
    return (int64_t)hash_message(&message);
}

void hash_new(const struct hash_content *content, int64_t *ret_content, int64_t *ret_hash)
{
    struct message message;
    struct message other;
    uint8_t digest[MD5_BYTES];
    uint8_t other_digest[MD5_BYTES];
    struct md5 md5;
    struct md5 other_md5;

    message_content(&message, content);
    message_event(&other, content->tenant, content->key, content->id);
    md5_begin(&md5, &message);
    md5_begin(&other_md5, &other);
    md5_finish_two(&md5, digest, &other_md5, other_digest);
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

/* Copies the message into the set; one that is too long for that is hashed at once. */
static void set_add(struct hash_set *set, const struct message *message, uint64_t mask,
                    uint64_t *ret_hash)
{
    size_t blocks = md5_blocks(message->length);

    if (blocks > HASH_SET_BLOCKS / 4) {
        *ret_hash = hash_message(message) & mask;
        return;
    }
    if (set->count == HASH_SET_MESSAGES || set->used + blocks > HASH_SET_BLOCKS) {
        hash_set_finish(set);
    }
    uint8_t *to = set->blocks + set->used * MD5_BLOCK_BYTES;

    set->messages[set->count] = (struct md5_message){to, blocks};
    set->answers[set->count] = ret_hash;
    set->masks[set->count++] = mask;
    set->used += blocks;
    for (size_t i = 0; i < message->count; i++) {
        memcpy(to, message->pieces[i].bytes, message->pieces[i].length);
        to += message->pieces[i].length;
    }
    md5_pad(to - message->length, message->length);
}

void hash_set_content(struct hash_set *set, const struct hash_content *content,
                      int64_t *ret_content)
{
    struct message message;

    message_content(&message, content);
    set_add(set, &message, UINT64_MAX, (uint64_t *)ret_content);
}

void hash_set_event(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                    int64_t *ret_hash)
{
    struct message message;

    message_event(&message, tenant, key, id);
    set_add(set, &message, INT64_MAX, (uint64_t *)ret_hash);
}

void hash_set_lane(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                   uint64_t *ret_lane)
{
    struct message message;

    if (text_is_absent(tenant) && text_is_absent(key)) {
        *ret_lane = lane_of_id(id);
        return;
    }
    message_lane(&message, tenant, key);
    set_add(set, &message, UINT64_MAX, ret_lane);
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
