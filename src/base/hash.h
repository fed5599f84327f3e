/*
 * hash.h - the hashes that decide where an event belongs.
 *
 * The partition hash is stored with the event and computed by C and SQL alike, so it can never
 * change: the first 8 bytes of MD5, big-endian, sign bit cleared. In PostgreSQL:
 *     ('x' || substr(md5(t), 1, 16))::bit(64)::bigint & x'7fffffffffffffff'::bigint
 * MD5 serves here as a well-spread hash that every engine has, not as a safeguard.
 */
#ifndef HF_BASE_HASH_H
#define HF_BASE_HASH_H

#include "base/text.h"

#include <stdint.h>

#define HASH_MD5_BYTES 16

void hash_md5(const void *bytes, size_t length, uint8_t out[HASH_MD5_BYTES]);

/* 0 .. INT64_MAX. */
int64_t hash_partition(struct text text);

/* The partition hash of an event: of its tenant; if absent, of its key; if that is absent too, of
 * its id as 36 lower-case characters. */
int64_t hash_event(struct text tenant, struct text key, const uint8_t id[16]);

/* Which of so many partitions (at least 1) a partition hash belongs to: 0 .. partitions - 1, also
 * for a number that is no partition hash. SQL: hash % partitions. */
int32_t hash_slice(int64_t hash, int32_t partitions);

/* Names the lane (tenant, key), the unit of order; an event without both is a lane of its own.
 * Absent and empty differ, and ("a", "b") differs from ("ab", absent). */
uint64_t hash_lane(struct text tenant, struct text key, const uint8_t id[16]);

/* Spreads the bits of a number, for tables in memory: a bijection, not stable across releases. */
uint64_t hash_mix(uint64_t value);

#endif
