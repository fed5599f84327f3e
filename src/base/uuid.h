/*
 * uuid.h - ids and random numbers.
 *
 * An id is 16 bytes in network order, so that memcmp and the text sort alike. Generated ids are
 * version 7: time first, so they arrive in the log's indexes in order.
 */
#ifndef HF_BASE_UUID_H
#define HF_BASE_UUID_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdint.h>

#define UUID_BYTES 16
#define UUID_TEXT_BYTES 37 /* 36 characters and a NUL */

/* The time inside an id may run ahead of the clock by this much to keep ids ascending. */
#define UUID_AHEAD_MS_MAX 60000

/*
 * A new id for the given wall time (usually clock_wall_us()). Ids of one process ascend, whichever
 * thread makes them, also while the clock stands still or steps back by less than
 * UUID_AHEAD_MS_MAX; after a larger step back ids follow the clock. May be called from any thread,
 * and in the child of a fork.
 */
void uuid_v7(int64_t wall_us, uint8_t out[UUID_BYTES]);

/* The millisecond inside a version 7 id, as microseconds; -1 if the id is not version 7. */
int64_t uuid_v7_time_us(const uint8_t id[UUID_BYTES]);

/* Lower case, 8-4-4-4-12. */
void uuid_format(const uint8_t id[UUID_BYTES], char out[UUID_TEXT_BYTES]);

/* Exactly 8-4-4-4-12 hexadecimal digits of either case, any version: no braces, no "urn:uuid:". */
hf_status uuid_parse(struct text text, uint8_t ret_id[UUID_BYTES]);

/* Unpredictable bytes from the kernel: for fencing tokens and seeds. */
void random_bytes(void *out, size_t length);

/* A fast per-thread generator, seeded from the kernel, reseeded in the child of a fork: for jitter
 * and ids, not for secrets. */
uint64_t random_u64(void);

#endif
