/*
 * fuzz.h - what a fuzz target is: one function that is fed bytes and must hold its properties.
 *
 * tests/fuzz/fuzz_<target>.c is linked either with libFuzzer, which invents inputs, or with
 * replay.c, which feeds the files of corpus/<target>/. A broken property traps; it is not an
 * assert, so that it holds in every build.
 */
#ifndef HF_TESTS_FUZZ_H
#define HF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define HOLDS(property)                                                                            \
    do {                                                                                           \
        if (!(property))                                                                           \
            __builtin_trap();                                                                      \
    } while (0)

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
