/*
 * unit.h - what every unit test includes: cmocka in the order it needs, and repeatable chance.
 *
 * Random tests draw from a generator with a fixed seed, so a failure repeats.
 */
#ifndef HF_TESTS_UNIT_H
#define HF_TESTS_UNIT_H

#include "base/err.h" /* before cmocka.h, which has a macro named fail */
#include "base/hash.h"
#include "base/text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define assert_ok(call) assert_int_equal((call), HF_OK)

/* The calling thread's sentence contains these words. */
#define assert_message(words)                                                                      \
    do {                                                                                           \
        if (!strstr(err_message(), (words)))                                                       \
            fail_msg("message \"%s\" does not say \"%s\"", err_message(), (words));                \
    } while (0)

static inline uint64_t chance(uint64_t *seed)
{
    return hash_mix(*seed += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 .. below - 1 */
static inline uint64_t chance_below(uint64_t *seed, uint64_t below)
{
    return chance(seed) % below;
}

#endif
