/*
 * utf8.c - decoding, checking and cleaning UTF-8.
 *
 * Validity is Unicode's table 3-7: the first byte fixes the length, and for four first bytes the
 * range of the second byte is narrower than 80..BF, which excludes overlong forms (E0, F0),
 * surrogates (ED) and what lies above U+10FFFF (F4). Plain ASCII is skipped eight bytes at a time.
 */
#include "base/text/utf8.h"
#include "base/banned.h"

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Whether `second` may follow `first`, the first byte of a sequence of two or more. */
static bool is_second(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xE0:
        return second >= 0xA0 && second <= 0xBF;
    case 0xED:
        return second >= 0x80 && second <= 0x9F;
    case 0xF0:
        return second >= 0x90 && second <= 0xBF;
    case 0xF4:
        return second >= 0x80 && second <= 0x8F;
    default:
        return is_continuation(second);
    }
}

size_t utf8_decode(const char *bytes, size_t length, uint32_t *ret_code)
{
    const unsigned char *u = (const unsigned char *)bytes;

    if (length == 0) {
        return 0;
    }
    if (u[0] < 0x80) {
        *ret_code = u[0];
        return 1;
    }
    if (u[0] < 0xC2 || u[0] > 0xF4 || length < 2 || !is_second(u[0], u[1])) {
        return 0;
    }
    if (u[0] < 0xE0) {
        *ret_code = (uint32_t)(u[0] & 0x1F) << 6 | (u[1] & 0x3F);
        return 2;
    }
    if (length < 3 || !is_continuation(u[2])) {
        return 0;
    }
    if (u[0] < 0xF0) {
        *ret_code = (uint32_t)(u[0] & 0x0F) << 12 | (uint32_t)(u[1] & 0x3F) << 6 | (u[2] & 0x3F);
        return 3;
    }
    if (length < 4 || !is_continuation(u[3])) {
        return 0;
    }
    *ret_code = (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3F) << 12 |
                (uint32_t)(u[2] & 0x3F) << 6 | (u[3] & 0x3F);
    return 4;
}

size_t utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

static bool is_ascii_word(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

size_t utf8_valid_bytes(struct text text)
{
    size_t at = 0;

    while (at < text.length) {
        uint32_t code;

        if (text.length - at >= 8 && is_ascii_word(text.bytes + at)) {
            at += 8;
            continue;
        }

        size_t bytes = utf8_decode(text.bytes + at, text.length - at, &code);

        if (bytes == 0) {
            break;
        }
        at += bytes;
    }
    return at;
}

bool utf8_is_valid(struct text text)
{
    return utf8_valid_bytes(text) == text.length;
}

struct text utf8_cut(struct text text, size_t bytes_max)
{
    if (text.length > bytes_max) {
        text.length = bytes_max;
        while (text.length > 0 && is_continuation((unsigned char)text.bytes[text.length])) {
            text.length--;
        }
    }
    return text;
}

bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code <= 0x9F);
}

bool utf8_is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool utf8_is_printable(struct text text)
{
    for (size_t at = 0; at < text.length;) {
        uint32_t code;
        size_t bytes = utf8_decode(text.bytes + at, text.length - at, &code);

        if (bytes == 0 || utf8_is_control(code)) {
            return false;
        }
        at += bytes;
    }
    return true;
}

/* Line separators, and the marks, embeddings, overrides and isolates that change the direction of
 * writing: a terminal obeys them, so a stored text could show something that is not there. */
static bool is_unsafe_to_show(uint32_t code)
{
    return utf8_is_control(code) || code == 0x2028 || code == 0x2029 || code == 0x061C ||
           code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

void utf8_sanitize(struct text text, struct buf *buf)
{
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    size_t at = 0, plain = 0; /* text from plain to at is good and not yet appended */

    if (text_is_absent(text)) {
        return;
    }
    while (at < text.length) {
        uint32_t code = 0;
        size_t bytes = utf8_decode(text.bytes + at, text.length - at, &code);

        if (bytes > 0 && !is_unsafe_to_show(code)) {
            at += bytes;
            continue;
        }
        buf_append(buf, text.bytes + plain, at - plain);
        if (bytes > 0 && (code == '\t' || code == '\n' || code == '\r')) {
            buf_char(buf, ' ');
        } else {
            buf_append(buf, replacement, sizeof replacement - 1);
        }
        at += bytes ? bytes : 1;
        plain = at;
    }
    buf_append(buf, text.bytes + plain, at - plain);
}
