/*
 * utf8.h - UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef HF_BASE_TEXT_UTF8_H
#define HF_BASE_TEXT_UTF8_H

#include "base/text/buf.h"
#include "base/text/text.h"

#include <stdbool.h>
#include <stdint.h>

/* How many bytes the first character takes: 1 to 4; 0 if it is not valid UTF-8 or length is 0. */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *ret_code);

/* Writes 1 to 4 bytes and returns how many. code must be a Unicode scalar value. */
size_t utf8_encode(uint32_t code, char out[4]);

/* How many bytes from the start are valid: text.length if all are. */
size_t utf8_valid_bytes(struct text text);
bool utf8_is_valid(struct text text);

/* The beginning of a text: at most so many bytes, and no half of a character. */
struct text utf8_cut(struct text text, size_t bytes_max);

/* U+0000-001F, U+007F-009F. */
bool utf8_is_control(uint32_t code);

/* Unicode White_Space. */
bool utf8_is_space(uint32_t code);

/* Valid and without control characters. */
bool utf8_is_printable(struct text text);

/*
 * Appends the text made safe for a terminal or a log line: TAB, LF and CR become a space; bytes
 * that are not UTF-8, other control characters, line separators and the characters that reverse
 * the direction of writing become U+FFFD. An absent text appends nothing.
 */
void utf8_sanitize(struct text text, struct buf *buf);

#endif
