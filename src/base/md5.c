/*
 * md5.c - MD5 as RFC 1321 describes it. See md5.h.
 *
 * MD5 works on blocks of 64 bytes; the message is followed by 0x80, zeros, and its length in bits
 * as the last 8 bytes of the last block. A message may come in pieces, so an unfinished block is
 * collected in the state.
 *
 * The 64 steps of a block wait for each other, so a processor that has one message is idle most of
 * the time. There are two ways to give it more to do. The steps of two messages may alternate: the
 * two take no longer than one. Or a step is done for MD5_ROWS messages at once: a vector has a word
 * of each. A row that is through with its message takes the next one, so that messages of different
 * lengths keep the rows busy; the last message is finished alone.
 */
#include "base/md5.h"

#include "base/banned.h"

#define MD5_ROWS 8 /* two vectors of SSE2 or NEON for each word: their steps alternate, too */

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

static const int shifts[4][4] = {
    {7, 12, 17, 22},
    {5, 9, 14, 20},
    {4, 11, 16, 23},
    {6, 10, 15, 21},
};

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* What the four rounds mix. A step waits for the one before it only by b, so what b takes part in
 * is written to come last and to be short; the first two have the values of RFC 1321 in other
 * words. */
#define MD5_MIX_0(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define MD5_MIX_1(b, c, d) ((~(d) & (c)) + ((d) & (b)))
#define MD5_MIX_2(b, c, d) ((b) ^ (c) ^ (d))
#define MD5_MIX_3(b, c, d) ((c) ^ ((b) | ~(d)))

/* One step, of words or of vectors of words. */
#define MD5_STEP(a, b, c, d, words, round, i, word)                                                \
    do {                                                                                           \
        __typeof__(a) sum = (a) + sines[16 * (round) + (i)] + (words)[(word) % 16];                \
        int bits = shifts[round][(i) % 4];                                                         \
        sum += MD5_MIX_##round(b, c, d);                                                           \
        (a) = (d);                                                                                 \
        (d) = (c);                                                                                 \
        (c) = (b);                                                                                 \
        (b) += sum << bits | sum >> (32 - bits);                                                   \
    } while (0)

/* All steps: STEP(round, i, word). Unrolled, so that sines, shifts and words are constants: a third
 * faster. */
#define MD5_STEPS(STEP)                                                                            \
    do {                                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)                                      \
        {                                                                                          \
            STEP(0, i, i);                                                                         \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)                                      \
        {                                                                                          \
            STEP(1, i, 5 * i + 1);                                                                 \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)                                      \
        {                                                                                          \
            STEP(2, i, 3 * i + 5);                                                                 \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)                                      \
        {                                                                                          \
            STEP(3, i, 7 * i);                                                                     \
        }                                                                                          \
    } while (0)

static const uint32_t beginning[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

/* Little-endian, whatever the machine; compilers make one load of it. */
static uint32_t load_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void load_words(const uint8_t block[MD5_BLOCK_BYTES], uint32_t words[16])
{
    for (size_t i = 0; i < 16; i++) {
        words[i] = load_word(block + 4 * i);
    }
}

static void md5_block(uint32_t state[4], const uint8_t block[MD5_BLOCK_BYTES])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t words[16];

    load_words(block, words);
#define STEP(round, i, word) MD5_STEP(a, b, c, d, words, round, i, word)
    MD5_STEPS(STEP);
#undef STEP
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* A block of each of two messages. */
static void md5_two_blocks(uint32_t state[4], const uint8_t block[MD5_BLOCK_BYTES],
                           uint32_t other[4], const uint8_t other_block[MD5_BLOCK_BYTES])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = other[0], f = other[1], g = other[2], h = other[3];
    uint32_t words[16];
    uint32_t others[16];

    load_words(block, words);
    load_words(other_block, others);
#define STEP(round, i, word)                                                                       \
    do {                                                                                           \
        MD5_STEP(a, b, c, d, words, round, i, word);                                               \
        MD5_STEP(e, f, g, h, others, round, i, word);                                              \
    } while (0)
    MD5_STEPS(STEP);
#undef STEP
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    other[0] += e;
    other[1] += f;
    other[2] += g;
    other[3] += h;
}

/* A word of each row. Compilers make of it what the processor has. */
typedef uint32_t vector __attribute__((vector_size(4 * MD5_ROWS)));

/* A block of each row. */
static void md5_rows_block(vector state[4], const uint8_t *const blocks[MD5_ROWS])
{
    vector a = state[0], b = state[1], c = state[2], d = state[3];
    vector words[16];

    for (int row = 0; row < MD5_ROWS; row++) {
        for (size_t i = 0; i < 16; i++) {
            words[i][row] = load_word(blocks[row] + 4 * i);
        }
    }
#define STEP(round, i, word) MD5_STEP(a, b, c, d, words, round, i, word)
    MD5_STEPS(STEP);
#undef STEP
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* ---- A message that comes in pieces ---------------------------------------------------------- */

void md5_init(struct md5 *md5)
{
    memcpy(md5->state, beginning, sizeof md5->state);
    md5->length_bytes = 0;
}

void md5_add(struct md5 *md5, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    while (length > 0) {
        size_t filled = md5->length_bytes % MD5_BLOCK_BYTES;

        if (filled == 0 && length >= MD5_BLOCK_BYTES) {
            md5_block(md5->state, at);
            md5->length_bytes += MD5_BLOCK_BYTES;
            at += MD5_BLOCK_BYTES;
            length -= MD5_BLOCK_BYTES;
            continue;
        }
        size_t taken = MD5_BLOCK_BYTES - filled < length ? MD5_BLOCK_BYTES - filled : length;

        memcpy(md5->block + filled, at, taken);
        md5->length_bytes += taken;
        if (filled + taken == MD5_BLOCK_BYTES) {
            md5_block(md5->state, md5->block);
        }
        at += taken;
        length -= taken;
    }
}

/* Writes words little-endian; compilers make one store of each. */
static void store_words(const uint32_t *words, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        out[4 * i] = (uint8_t)words[i];
        out[4 * i + 1] = (uint8_t)(words[i] >> 8);
        out[4 * i + 2] = (uint8_t)(words[i] >> 16);
        out[4 * i + 3] = (uint8_t)(words[i] >> 24);
    }
}

/* Writes what follows a message of so many bytes: from `filled` on, to the end of the blocks. */
static void pad(uint8_t *blocks, size_t filled, size_t count, uint64_t length_bytes)
{
    uint64_t length_bits = length_bytes * 8;
    uint32_t words[2] = {(uint32_t)length_bits, (uint32_t)(length_bits >> 32)};
    uint8_t *end = blocks + count * MD5_BLOCK_BYTES;

    blocks[filled] = 0x80;
    memset(blocks + filled + 1, 0, (size_t)(end - blocks) - 8 - (filled + 1));
    store_words(words, 2, end - 8);
}

/* What is left of the message, with what follows it: one block or two. Answers how many. */
static size_t md5_last_blocks(const struct md5 *md5, uint8_t out[2 * MD5_BLOCK_BYTES])
{
    size_t filled = md5->length_bytes % MD5_BLOCK_BYTES;
    size_t count = md5_blocks(filled);

    memcpy(out, md5->block, filled);
    pad(out, filled, count, md5->length_bytes);
    return count;
}

void md5_finish(struct md5 *md5, uint8_t out[MD5_BYTES])
{
    uint8_t last[2 * MD5_BLOCK_BYTES];
    size_t blocks = md5_last_blocks(md5, last);

    for (size_t i = 0; i < blocks; i++) {
        md5_block(md5->state, last + i * MD5_BLOCK_BYTES);
    }
    store_words(md5->state, 4, out);
}

void md5_finish_two(struct md5 *md5, uint8_t out[MD5_BYTES], struct md5 *other,
                    uint8_t other_out[MD5_BYTES])
{
    uint8_t last[2 * MD5_BLOCK_BYTES];
    uint8_t other_last[2 * MD5_BLOCK_BYTES];
    size_t blocks = md5_last_blocks(md5, last);
    size_t other_blocks = md5_last_blocks(other, other_last);

    for (size_t i = 0; i < 2; i++) {
        if (i < blocks && i < other_blocks) {
            md5_two_blocks(md5->state, last + i * MD5_BLOCK_BYTES, other->state,
                           other_last + i * MD5_BLOCK_BYTES);
        } else if (i < blocks) {
            md5_block(md5->state, last + i * MD5_BLOCK_BYTES);
        } else if (i < other_blocks) {
            md5_block(other->state, other_last + i * MD5_BLOCK_BYTES);
        }
    }
    store_words(md5->state, 4, out);
    store_words(other->state, 4, other_out);
}

/* ---- Messages side by side ------------------------------------------------------------------- */

size_t md5_blocks(size_t length)
{
    return (length + 8) / MD5_BLOCK_BYTES + 1;
}

void md5_pad(uint8_t *bytes, size_t length)
{
    pad(bytes, length, md5_blocks(length), length);
}

struct rows {
    const struct md5_message *messages;
    uint8_t (*out)[MD5_BYTES];
    size_t count;
    size_t next; /* message that no row has yet */
    size_t busy; /* rows with a message */
    vector state[4];
    const uint8_t *at[MD5_ROWS]; /* the next block of each; of an idle row any block */
    size_t left[MD5_ROWS];       /* blocks of the message; 0: the row is idle */
    size_t message[MD5_ROWS];
};

/* Gives the row the next message, if there is one. */
static void row_begin(struct rows *rows, int row)
{
    rows->left[row] = 0;
    if (rows->next == rows->count) {
        rows->at[row] = rows->messages[0].blocks;
        return;
    }
    for (int i = 0; i < 4; i++) {
        rows->state[i][row] = beginning[i];
    }
    rows->at[row] = rows->messages[rows->next].blocks;
    rows->left[row] = rows->messages[rows->next].count;
    rows->message[row] = rows->next++;
    rows->busy++;
}

/* The row is through with its message. */
static void row_end(struct rows *rows, int row, const uint32_t state[4])
{
    store_words(state, 4, rows->out[rows->message[row]]);
    rows->busy--;
    row_begin(rows, row);
}

static void row_state(const struct rows *rows, int row, uint32_t ret_state[4])
{
    for (int i = 0; i < 4; i++) {
        ret_state[i] = rows->state[i][row];
    }
}

/* One block of each row. */
static void rows_proceed(struct rows *rows)
{
    md5_rows_block(rows->state, rows->at);
    for (int row = 0; row < MD5_ROWS; row++) {
        uint32_t state[4];

        if (rows->left[row] > 1) {
            rows->at[row] += MD5_BLOCK_BYTES;
            rows->left[row]--;
        } else if (rows->left[row] == 1) {
            row_state(rows, row, state);
            row_end(rows, row, state);
        }
    }
}

/* What is left of the message of this row. */
static void row_finish(struct rows *rows, int row)
{
    uint32_t state[4];

    row_state(rows, row, state);
    for (; rows->left[row] > 0; rows->left[row]--) {
        md5_block(state, rows->at[row]);
        rows->at[row] += MD5_BLOCK_BYTES;
    }
    row_end(rows, row, state);
}

void md5_many(const struct md5_message *messages, size_t count, uint8_t (*out)[MD5_BYTES])
{
    struct rows rows = {.messages = messages, .out = out, .count = count};

    if (count == 0) {
        return;
    }
    for (int row = 0; row < MD5_ROWS; row++) {
        row_begin(&rows, row);
    }
    while (rows.busy > 1) {
        rows_proceed(&rows);
    }
    for (int row = 0; row < MD5_ROWS; row++) {
        if (rows.left[row] > 0) {
            row_finish(&rows, row);
        }
    }
}
