/*
 * md5.h - MD5 of one message, of two, or of many side by side.
 *
 * One message costs about 300 cycles for each block of 64 bytes, and two that are finished together
 * cost no more than the longer one: that is for an event that is published alone. Of many messages
 * a block costs about 70 cycles: that is for events that are published or read together.
 */
#ifndef HF_BASE_MD5_H
#define HF_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

#define MD5_BYTES 16
#define MD5_BLOCK_BYTES 64

/* ---- A message that comes in pieces ---------------------------------------------------------- */

struct md5 {
    uint32_t state[4];
    uint64_t length_bytes;
    uint8_t block[MD5_BLOCK_BYTES]; /* the unfinished block: length_bytes % MD5_BLOCK_BYTES */
};

void md5_init(struct md5 *md5);
void md5_add(struct md5 *md5, const void *bytes, size_t length);
void md5_finish(struct md5 *md5, uint8_t out[MD5_BYTES]);
/* The same for two messages. */
void md5_finish_two(struct md5 *md5, uint8_t out[MD5_BYTES], struct md5 *other,
                    uint8_t other_out[MD5_BYTES]);

/* ---- Messages side by side ------------------------------------------------------------------- */

/* A message that was padded: whole blocks. */
struct md5_message {
    const uint8_t *blocks;
    size_t count; /* blocks; at least 1 */
};

/* How many blocks a message of so many bytes is when it was padded. */
size_t md5_blocks(size_t length);
/* Pads the message at `bytes`, which has room for that many blocks. */
void md5_pad(uint8_t *bytes, size_t length);
/* out[i]: the digest of messages[i]. */
void md5_many(const struct md5_message *messages, size_t count, uint8_t (*out)[MD5_BYTES]);

#endif
