/*
 * hash.h - the hashes that decide where an event belongs, and the checksum that proves it whole.
 *
 * The partition hash is stored with the event and computed by C and SQL alike, so it can never
 * change: the first 8 bytes of MD5, big-endian, sign bit cleared. In PostgreSQL:
 *     ('x' || substr(md5(t), 1, 16))::bit(64)::bigint & x'7fffffffffffffff'::bigint
 * MD5 serves here as a well-spread hash that every engine has, not as a safeguard.
 */
#ifndef HF_BASE_HASH_H
#define HF_BASE_HASH_H

#include "base/md5.h"
#include "base/text/text.h"

#include <stdint.h>

void hash_md5(const void *bytes, size_t length, uint8_t out[MD5_BYTES]);

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

/* The partition hash of these four, joined by line ends: of dead letters that agree in all of them.
 * An absent error counts as an empty one. SQL: the column kind_hash of the dead letters. */
int64_t hash_kind(struct text subscription, struct text type, struct text reason,
                  struct text error);

/* What the publisher gave of an event. */
struct hash_content {
    const uint8_t *id;     /* 16 bytes */
    int64_t emitted_at_us; /* since 1970 */
    struct text type;
    struct text key; /* these five may be absent */
    struct text tenant;
    struct text metadata;
    struct text producer;
    struct text schedule_id;
    struct text payload;
};

/*
 * The first 8 bytes of MD5, big-endian, over these bytes; content_of of PostgreSQL is the same:
 *
 *     id            16 bytes
 *     emitted_at    8 bytes, big-endian: microseconds since 2000-01-01 00:00:00 UTC
 *     type, key, tenant, metadata, producer, schedule_id
 *                   each 4 bytes, big-endian: its length, and its bytes; absent: 4 bytes 0xff
 *     payload       its bytes
 */
int64_t hash_content(const struct hash_content *content);

/* hash_content and hash_event of a new event, in less time than one after the other. */
void hash_new(const struct hash_content *content, int64_t *ret_content, int64_t *ret_hash);

/*
 * The hashes of many events, in a third of the time: they are collected, and computed side by side
 * (md5.h) when the set is full, and when it is finished. An answer is there then and not before.
 */
#define HASH_SET_MESSAGES 64
#define HASH_SET_BLOCKS 192

struct hash_set {
    size_t count;
    size_t used; /* blocks */
    struct md5_message messages[HASH_SET_MESSAGES];
    uint64_t *answers[HASH_SET_MESSAGES];
    uint64_t masks[HASH_SET_MESSAGES]; /* the bits that are wanted */
    uint8_t blocks[HASH_SET_BLOCKS * MD5_BLOCK_BYTES];
};

void hash_set_init(struct hash_set *set);
void hash_set_content(struct hash_set *set, const struct hash_content *content,
                      int64_t *ret_content);
void hash_set_event(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                    int64_t *ret_hash);
void hash_set_lane(struct hash_set *set, struct text tenant, struct text key, const uint8_t id[16],
                   uint64_t *ret_lane);
/* Computes what is left; the set is empty again. */
void hash_set_finish(struct hash_set *set);

/*
 * The checksum that is stored with an event: the content's hash XOR the partition hash XOR what the
 * store has added, so that a store can complete it, and can pass on the checksum of an event that
 * has no position yet (position and entered_at_us 0), without reading the event. key_version: -1
 * if there is none, which counts as 0.
 */
int64_t hash_checksum(int64_t content, int64_t hash, int64_t position, int64_t entered_at_us,
                      int64_t key_version);

/* Spreads the bits of a number, for tables in memory: a bijection, not stable across releases. */
uint64_t hash_mix(uint64_t value);

#endif
