/*
 * hash.c - MD5 as RFC 1321 describes it, and the hashes built on it.
 *
 * MD5 works on blocks of 64 bytes; the message is followed by 0x80, zeros, and its length in bits
 * as the last 8 bytes of the last block. The input here comes in pieces (a lane is encoded from
 * several), so unfinished blocks are collected in the state.
 *
 * A lane is encoded so that no two pairs share an encoding: each part is a presence byte, and if
 * present its length as 8 bytes and its bytes. Lanes are 64 bits of MD5: two of them being equal by
 * chance would only make two lanes wait for each other.
 */
#include "base/hash.h"
#include "base/banned.h"
#include "base/uuid.h"

#define BLOCK_BYTES 64
#define EPOCH_2000_US INT64_C(946684800000000)

struct md5 {
    uint32_t state[4];
    uint64_t length_bytes;
    uint8_t block[BLOCK_BYTES]; /* the unfinished block: length_bytes % BLOCK_BYTES bytes */
};

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static uint32_t rotate_left(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

/* Little-endian, whatever the machine; compilers make one load of it. */
static uint32_t load_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void md5_block(uint32_t state[4], const uint8_t block[BLOCK_BYTES])
{
    static const int shifts[4][4] = {
        {7, 12, 17, 22},
        {5, 9, 14, 20},
        {4, 11, 16, 23},
        {6, 10, 15, 21},
    };
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t words[16];

    for (int i = 0; i < 16; i++) {
        words[i] = load_word(block + 4 * i);
    }

#define MD5_STEP(round, i, mixed, word)                                                            \
    do {                                                                                           \
        uint32_t sum = a + (mixed) + sines[16 * (round) + (i)] + words[(word) % 16];               \
        a = d;                                                                                     \
        d = c;                                                                                     \
        c = b;                                                                                     \
        b += rotate_left(sum, shifts[round][(i) % 4]);                                             \
    } while (0)

    /* Unrolled, so that sines, shifts and words are constants: a third faster. */
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(0, i, (b & c) | (~b & d), i);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(1, i, (d & b) | (~d & c), 5 * i + 1);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(2, i, b ^ c ^ d, 3 * i + 5);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(3, i, c ^ (b | ~d), 7 * i);
    }
#undef MD5_STEP

    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static void md5_init(struct md5 *md5)
{
    md5->state[0] = 0x67452301;
    md5->state[1] = 0xefcdab89;
    md5->state[2] = 0x98badcfe;
    md5->state[3] = 0x10325476;
    md5->length_bytes = 0;
}

static void md5_add(struct md5 *md5, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    while (length > 0) {
        size_t filled = md5->length_bytes % BLOCK_BYTES;

        if (filled == 0 && length >= BLOCK_BYTES) {
            md5_block(md5->state, at);
            md5->length_bytes += BLOCK_BYTES;
            at += BLOCK_BYTES;
            length -= BLOCK_BYTES;
            continue;
        }
        size_t taken = BLOCK_BYTES - filled < length ? BLOCK_BYTES - filled : length;

        memcpy(md5->block + filled, at, taken);
        md5->length_bytes += taken;
        if (filled + taken == BLOCK_BYTES) {
            md5_block(md5->state, md5->block);
        }
        at += taken;
        length -= taken;
    }
}

/* Little-endian, whatever the machine. */
static void store_number(uint64_t number, uint8_t out[8])
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(number >> 8 * i);
    }
}

static void md5_finish(struct md5 *md5, uint8_t out[HASH_MD5_BYTES])
{
    static const uint8_t padding[BLOCK_BYTES] = {0x80};
    size_t filled = md5->length_bytes % BLOCK_BYTES;
    uint8_t tail[8];

    store_number(md5->length_bytes * 8, tail);
    md5_add(md5, padding, (filled < 56 ? 56 : 120) - filled);
    md5_add(md5, tail, sizeof tail);
    for (int i = 0; i < HASH_MD5_BYTES; i++) {
        out[i] = (uint8_t)(md5->state[i / 4] >> 8 * (i % 4));
    }
}

void hash_md5(const void *bytes, size_t length, uint8_t out[HASH_MD5_BYTES])
{
    struct md5 md5;

    md5_init(&md5);
    md5_add(&md5, bytes, length);
    md5_finish(&md5, out);
}

static uint64_t load_big_endian(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

int64_t hash_partition(struct text text)
{
    uint8_t digest[HASH_MD5_BYTES];

    hash_md5(text.bytes, text.length, digest);
    return (int64_t)(load_big_endian(digest) & INT64_MAX);
}

int64_t hash_event(struct text tenant, struct text key, const uint8_t id[16])
{
    char id_text[UUID_TEXT_BYTES];

    if (!text_is_absent(tenant)) {
        return hash_partition(tenant);
    }
    if (!text_is_absent(key)) {
        return hash_partition(key);
    }
    uuid_format(id, id_text);
    return hash_partition((struct text){id_text, UUID_TEXT_BYTES - 1});
}

int32_t hash_slice(int64_t hash, int32_t partitions)
{
    return (int32_t)((hash & INT64_MAX) % partitions);
}

static void md5_add_part(struct md5 *md5, struct text part)
{
    uint8_t present = !text_is_absent(part);
    uint8_t length[8];

    md5_add(md5, &present, 1);
    if (!present) {
        return;
    }
    store_number(part.length, length);
    md5_add(md5, length, sizeof length);
    md5_add(md5, part.bytes, part.length);
}

uint64_t hash_lane(struct text tenant, struct text key, const uint8_t id[16])
{
    uint8_t digest[HASH_MD5_BYTES];
    struct md5 md5;

    if (text_is_absent(tenant) && text_is_absent(key)) {
        return hash_mix(load_big_endian(id) ^ hash_mix(load_big_endian(id + 8)));
    }
    md5_init(&md5);
    md5_add_part(&md5, tenant);
    md5_add_part(&md5, key);
    md5_finish(&md5, digest);
    return load_big_endian(digest);
}

static void store_big_endian(uint64_t number, size_t bytes, uint8_t *out)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
    }
}

int64_t hash_content(const struct hash_content *content)
{
    const struct text *parts[] = {&content->type,     &content->key,      &content->tenant,
                                  &content->metadata, &content->producer, &content->schedule_id};
    uint8_t digest[HASH_MD5_BYTES];
    uint8_t number[8];
    struct md5 md5;

    md5_init(&md5);
    md5_add(&md5, content->id, UUID_BYTES);
    store_big_endian((uint64_t)(content->emitted_at_us - EPOCH_2000_US), 8, number);
    md5_add(&md5, number, 8);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        store_big_endian(text_is_absent(*parts[i]) ? UINT32_MAX : parts[i]->length, 4, number);
        md5_add(&md5, number, 4);
        md5_add(&md5, parts[i]->bytes, parts[i]->length);
    }
    md5_add(&md5, content->payload.bytes, content->payload.length);
    md5_finish(&md5, digest);
    return (int64_t)load_big_endian(digest);
}

int64_t hash_checksum(int64_t content, int64_t hash, int64_t position, int64_t entered_at_us,
                      int64_t key_version)
{
    return content ^ hash ^ position ^ entered_at_us ^ (key_version > 0 ? key_version : 0);
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
