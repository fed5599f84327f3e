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

static const int shifts[4][4] = {
    {7, 12, 17, 22},
    {5, 9, 14, 20},
    {4, 11, 16, 23},
    {6, 10, 15, 21},
};

static void load_words(const uint8_t block[BLOCK_BYTES], uint32_t words[16])
{
    for (int i = 0; i < 16; i++) {
        words[i] = load_word(block + 4 * i);
    }
}

#define MD5_STEP(a, b, c, d, words, round, i, mixed, word)                                         \
    do {                                                                                           \
        uint32_t sum = (a) + sines[16 * (round) + (i)] + (words)[(word) % 16];                     \
        sum += (mixed);                                                                            \
        (a) = (d);                                                                                 \
        (d) = (c);                                                                                 \
        (c) = (b);                                                                                 \
        (b) += rotate_left(sum, shifts[round][(i) % 4]);                                           \
    } while (0)

/* What the four rounds mix. A step waits for the one before it only by b, so what b takes part in
 * is written to come last and to be short; the first two have the values of RFC 1321 in other
 * words. */
#define MD5_MIX_0(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define MD5_MIX_1(b, c, d) ((~(d) & (c)) + ((d) & (b)))
#define MD5_MIX_2(b, c, d) ((b) ^ (c) ^ (d))
#define MD5_MIX_3(b, c, d) ((c) ^ ((b) | ~(d)))

static void md5_block(uint32_t state[4], const uint8_t block[BLOCK_BYTES])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t words[16];

    load_words(block, words);
    /* Unrolled, so that sines, shifts and words are constants: a third faster. */
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(a, b, c, d, words, 0, i, MD5_MIX_0(b, c, d), i);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(a, b, c, d, words, 1, i, MD5_MIX_1(b, c, d), 5 * i + 1);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(a, b, c, d, words, 2, i, MD5_MIX_2(b, c, d), 3 * i + 5);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP(a, b, c, d, words, 3, i, MD5_MIX_3(b, c, d), 7 * i);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

#define MD5_STEP_OF_BOTH(round, i, word)                                                           \
    do {                                                                                           \
        MD5_STEP(a, b, c, d, words, round, i, MD5_MIX_##round(b, c, d), word);                     \
        MD5_STEP(e, f, g, h, others, round, i, MD5_MIX_##round(f, g, h), word);                    \
    } while (0)

/* A block of each of two messages. It takes no longer than one block: the steps of a message wait
 * for each other, and a processor has time for those of another one meanwhile. */
static void md5_two_blocks(uint32_t state[4], const uint8_t block[BLOCK_BYTES], uint32_t other[4],
                           const uint8_t other_block[BLOCK_BYTES])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = other[0], f = other[1], g = other[2], h = other[3];
    uint32_t words[16];
    uint32_t others[16];

    load_words(block, words);
    load_words(other_block, others);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP_OF_BOTH(0, i, i);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP_OF_BOTH(1, i, 5 * i + 1);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP_OF_BOTH(2, i, 3 * i + 5);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        MD5_STEP_OF_BOTH(3, i, 7 * i);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    other[0] += e;
    other[1] += f;
    other[2] += g;
    other[3] += h;
}
#undef MD5_STEP
#undef MD5_STEP_OF_BOTH

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

static void md5_digest(const struct md5 *md5, uint8_t out[HASH_MD5_BYTES])
{
    for (int i = 0; i < HASH_MD5_BYTES; i++) {
        out[i] = (uint8_t)(md5->state[i / 4] >> 8 * (i % 4));
    }
}

/* What is left of the message, with what follows it: one block or two. Answers how many. */
static size_t md5_last_blocks(const struct md5 *md5, uint8_t out[2 * BLOCK_BYTES])
{
    size_t filled = md5->length_bytes % BLOCK_BYTES;
    size_t blocks = filled < 56 ? 1 : 2;

    memcpy(out, md5->block, filled);
    out[filled] = 0x80;
    memset(out + filled + 1, 0, blocks * BLOCK_BYTES - 8 - (filled + 1));
    store_number(md5->length_bytes * 8, out + blocks * BLOCK_BYTES - 8);
    return blocks;
}

static void md5_finish(struct md5 *md5, uint8_t out[HASH_MD5_BYTES])
{
    uint8_t last[2 * BLOCK_BYTES];
    size_t blocks = md5_last_blocks(md5, last);

    for (size_t i = 0; i < blocks; i++) {
        md5_block(md5->state, last + i * BLOCK_BYTES);
    }
    md5_digest(md5, out);
}

/* The same for two messages. */
static void md5_finish_two(struct md5 *md5, uint8_t out[HASH_MD5_BYTES], struct md5 *other,
                           uint8_t other_out[HASH_MD5_BYTES])
{
    uint8_t last[2 * BLOCK_BYTES];
    uint8_t other_last[2 * BLOCK_BYTES];
    size_t blocks = md5_last_blocks(md5, last);
    size_t other_blocks = md5_last_blocks(other, other_last);

    for (size_t i = 0; i < 2; i++) {
        if (i < blocks && i < other_blocks) {
            md5_two_blocks(md5->state, last + i * BLOCK_BYTES, other->state,
                           other_last + i * BLOCK_BYTES);
        } else if (i < blocks) {
            md5_block(md5->state, last + i * BLOCK_BYTES);
        } else if (i < other_blocks) {
            md5_block(other->state, other_last + i * BLOCK_BYTES);
        }
    }
    md5_digest(md5, out);
    md5_digest(other, other_out);
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

/* What the partition hash of an event is of. */
static struct text partition_text(struct text tenant, struct text key, const uint8_t id[16],
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

int64_t hash_event(struct text tenant, struct text key, const uint8_t id[16])
{
    char id_text[UUID_TEXT_BYTES];

    return hash_partition(partition_text(tenant, key, id, id_text));
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

static void md5_add_content(struct md5 *md5, const struct hash_content *content)
{
    const struct text *parts[] = {&content->type,     &content->key,      &content->tenant,
                                  &content->metadata, &content->producer, &content->schedule_id};
    uint8_t number[8];

    md5_init(md5);
    md5_add(md5, content->id, UUID_BYTES);
    store_big_endian((uint64_t)(content->emitted_at_us - EPOCH_2000_US), 8, number);
    md5_add(md5, number, 8);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        store_big_endian(text_is_absent(*parts[i]) ? UINT32_MAX : parts[i]->length, 4, number);
        md5_add(md5, number, 4);
        md5_add(md5, parts[i]->bytes, parts[i]->length);
    }
    md5_add(md5, content->payload.bytes, content->payload.length);
}

int64_t hash_content(const struct hash_content *content)
{
    uint8_t digest[HASH_MD5_BYTES];
    struct md5 md5;

    md5_add_content(&md5, content);
    md5_finish(&md5, digest);
    return (int64_t)load_big_endian(digest);
}

void hash_new(const struct hash_content *content, int64_t *ret_content, int64_t *ret_hash)
{
    char id_text[UUID_TEXT_BYTES];
    struct text text = partition_text(content->tenant, content->key, content->id, id_text);
    uint8_t digest[HASH_MD5_BYTES];
    uint8_t partition[HASH_MD5_BYTES];
    struct md5 md5;
    struct md5 other;

    md5_add_content(&md5, content);
    md5_init(&other);
    md5_add(&other, text.bytes, text.length);
    md5_finish_two(&md5, digest, &other, partition);
    *ret_content = (int64_t)load_big_endian(digest);
    *ret_hash = (int64_t)(load_big_endian(partition) & INT64_MAX);
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
