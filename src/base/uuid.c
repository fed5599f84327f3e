/*
 * uuid.c - version 7 ids, and the random numbers inside them.
 *
 *     48 bits  milliseconds since the epoch  \  together one number, the tick,
 *      4 bits  version 7                      > which ascends strictly within the process:
 *     12 bits  fraction of the millisecond   /   max(now, the last tick + 1)
 *      2 bits  variant
 *     62 bits  random
 *
 * The last tick is one atomic number for the whole process, so "ascending" holds across threads;
 * the compare-and-swap is the only thing they share. The random bits come from a xoshiro256**
 * generator per thread: no lock, no system call. A child of fork inherits the states of its parent
 * and would repeat its numbers, so an atfork handler advances a generation that each state is
 * compared with; a state of an older generation is seeded anew.
 *
 * random_bytes asks the kernel each time. Should the kernel refuse (a seccomp filter without
 * getrandom, no /dev), the bytes are derived from clocks, addresses and a counter: unique enough
 * for ids, and a bus that runs is better than one that does not. The library never aborts for it.
 */
#include "base/uuid.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text/hex.h"
#include "base/time/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>

#define TICKS_PER_MS 4096
#define MS_MAX ((INT64_C(1) << 48) - 1)
#define AHEAD_TICKS_MAX ((uint64_t)UUID_AHEAD_MS_MAX * TICKS_PER_MS)

struct generator {
    uint64_t state[4];
    uint64_t generation; /* 0: never seeded */
};

static _Thread_local struct generator generator;
static _Atomic uint64_t generation = 1; /* one more in every child of a fork */
static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t last_tick;

static ssize_t read_urandom(uint8_t *out, size_t length)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }

    ssize_t got = read(fd, out, length);

    close(fd);
    return got;
}

/* At least one byte, whatever happens; at most eight. */
static size_t derive_bytes(uint8_t *out, size_t length)
{
    static _Atomic uint64_t counter;
    uint64_t mixed = hash_mix((uint64_t)clock_wall_us() ^ hash_mix((uint64_t)(uintptr_t)&mixed));

    mixed = hash_mix(mixed ^ (uint64_t)getpid() << 32 ^ (uint64_t)clock_mono_us());
    mixed = hash_mix(mixed + atomic_fetch_add(&counter, 1));
    if (length > sizeof mixed) {
        length = sizeof mixed;
    }
    memcpy(out, &mixed, length);
    return length;
}

void random_bytes(void *out, size_t length)
{
    uint8_t *at = out;
    int errno_before = errno;

    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            got = read_urandom(at, length);
        }
        if (got <= 0) {
            got = (ssize_t)derive_bytes(at, length);
        }
        at += got;
        length -= (size_t)got;
    }
    errno = errno_before;
}

static void after_fork_in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void seed(struct generator *g)
{
    pthread_once(&atfork_once, watch_forks);
    do {
        random_bytes(g->state, sizeof g->state);
    } while ((g->state[0] | g->state[1] | g->state[2] | g->state[3]) == 0); /* its one bad state */
    g->generation = atomic_load_explicit(&generation, memory_order_relaxed);
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

uint64_t random_u64(void)
{
    struct generator *g = &generator;

    if (g->generation != atomic_load_explicit(&generation, memory_order_relaxed)) {
        seed(g);
    }

    /* xoshiro256** by David Blackman and Sebastiano Vigna, in the public domain. */
    uint64_t *s = g->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The tick of a wall time; times outside the 48 bits become the nearest inside. */
static uint64_t tick_of(int64_t wall_us)
{
    if (wall_us < 0) {
        wall_us = 0;
    }

    int64_t ms = wall_us / 1000;
    int64_t us_of_ms = wall_us % 1000;

    if (ms > MS_MAX) {
        ms = MS_MAX;
    }
    return (uint64_t)(ms * TICKS_PER_MS + us_of_ms * TICKS_PER_MS / 1000);
}

static uint64_t next_tick(int64_t wall_us)
{
    uint64_t now = tick_of(wall_us);
    uint64_t last = atomic_load_explicit(&last_tick, memory_order_relaxed);
    uint64_t next;

    do {
        bool keeps_ascending = last >= now && last - now < AHEAD_TICKS_MAX;

        next = keeps_ascending ? last + 1 : now;
    } while (!atomic_compare_exchange_weak_explicit(&last_tick, &last, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return next;
}

static void store_big_endian(uint64_t value, uint8_t out[8])
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

void uuid_v7(int64_t wall_us, uint8_t out[UUID_BYTES])
{
    uint64_t tick = next_tick(wall_us);
    uint64_t ms = tick / TICKS_PER_MS;
    uint64_t fraction = tick % TICKS_PER_MS;

    store_big_endian(ms << 16 | UINT64_C(0x7000) | fraction, out);
    store_big_endian(UINT64_C(1) << 63 | random_u64() >> 2, out + 8);
}

int64_t uuid_v7_time_us(const uint8_t id[UUID_BYTES])
{
    int64_t ms = 0;

    if (id[6] >> 4 != 7 || id[8] >> 6 != 2) {
        return -1;
    }
    for (int i = 0; i < 6; i++) {
        ms = ms << 8 | id[i];
    }
    return ms * 1000;
}

/* Whether the text has a '-' before this byte of the id. */
static bool dash_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void uuid_format(const uint8_t id[UUID_BYTES], char out[UUID_TEXT_BYTES])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};

    for (size_t i = 0; i < sizeof groups; i++) {
        out = hex_write(out, id, groups[i]);
        *out++ = '-';
        id += groups[i];
    }
    out[-1] = '\0'; /* in place of the last dash */
}

hf_status uuid_parse(struct text text, uint8_t ret_id[UUID_BYTES])
{
    uint8_t id[UUID_BYTES];
    const char *at = text.bytes;

    if (text.length != UUID_TEXT_BYTES - 1) {
        return fail(HF_INVALID, "id is %zu characters; a UUID has %d", text.length,
                    UUID_TEXT_BYTES - 1);
    }
    for (int i = 0; i < UUID_BYTES; i++) {
        if (dash_before(i) && *at++ != '-') {
            return fail(HF_INVALID, "id is not a UUID: '-' expected at byte %td",
                        at - 1 - text.bytes);
        }

        int high = hex_digit(*at++);
        int low = hex_digit(*at++);

        if (high < 0 || low < 0) {
            return fail(HF_INVALID, "id is not a UUID: no hexadecimal digit at byte %td",
                        at - (high < 0 ? 2 : 1) - text.bytes);
        }
        id[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret_id, id, UUID_BYTES);
    return HF_OK;
}
