/*
 * json_plain.h - the bytes that most strings of JSON consist of, eight at a time.
 */
#ifndef HF_BASE_TEXT_JSON_PLAIN_H
#define HF_BASE_TEXT_JSON_PLAIN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define JSON_EVERY_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Printable ASCII, neither quote nor backslash. */
static inline bool json_is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/* Nonzero iff a byte of word is zero; the lowest bit that is set is in the first such byte. */
static inline uint64_t json_has_zero(uint64_t word)
{
    return (word - JSON_EVERY_BYTE(0x01)) & ~word & JSON_EVERY_BYTE(0x80);
}

/* How many of the first bytes are plain. */
static inline size_t json_plain_bytes(const char *bytes, size_t length)
{
    size_t at = 0;

    while (length - at >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        word = le64toh(word);
        uint64_t below_space = (word - JSON_EVERY_BYTE(0x20)) & ~word;
        uint64_t special = ((word | below_space) & JSON_EVERY_BYTE(0x80)) |
                           json_has_zero(word ^ JSON_EVERY_BYTE('"')) |
                           json_has_zero(word ^ JSON_EVERY_BYTE('\\')) |
                           json_has_zero(word ^ JSON_EVERY_BYTE(0x7F));
        if (special) {
            return at + (size_t)__builtin_ctzll(special) / 8;
        }
        at += sizeof word;
    }
    while (at < length && json_is_plain((unsigned char)bytes[at])) {
        at++;
    }
    return at;
}

#endif
