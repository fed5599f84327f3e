/*
 * hex.h - bytes as hexadecimal digits, and back.
 */
#ifndef HF_BASE_TEXT_HEX_H
#define HF_BASE_TEXT_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a digit of either case stands for; -1: it is none. */
int hex_digit(char c);

/* The number of so many digits, at most seven; -1: one of them is none, after which nothing is
 * read. */
int32_t hex_number(const char *digits, size_t count);

/* The bytes of twice as many digits of either case. False: one is no digit; `out` is undefined. */
bool hex_read(const char *digits, size_t count, uint8_t *out);

/* Writes two lower-case digits for each byte, without a NUL at the end. Answers where they end. */
char *hex_write(char *out, const uint8_t *bytes, size_t count);

#endif
