/*
 * json_write.c - the JSON writer.
 *
 * One bit decides about commas: whether a key or value stands before the next one at this level.
 * Opening a level clears it, a key clears it (its value follows the colon), a value or the end of a
 * level sets it, for an ended level is itself a value of the level around it. No stack is needed.
 *
 * Strings are appended in runs of bytes that need no escape; json_plain.h finds most of them. C1
 * controls, DEL, U+2028 and U+2029 are valid in JSON but not in a terminal or in JavaScript of old,
 * so they are escaped too.
 */
#include "base/text/json_write.h"
#include "base/banned.h"
#include "base/text/json_plain.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

#include <assert.h>
#include <math.h>

#define INT_TEXT_BYTES 20 /* of the longest integer: a sign and 19 digits */

void json_out_init(struct json_out *out, struct buf *buf)
{
    *out = (struct json_out){.buf = buf};
}

static void before_value(struct json_out *out)
{
    if (out->comma) {
        buf_char(out->buf, ',');
    }
    out->comma = true;
}

static void begin_level(struct json_out *out, char bracket)
{
    before_value(out);
    buf_char(out->buf, bracket);
    out->comma = false;
    out->depth++;
}

static void end_level(struct json_out *out, char bracket)
{
    assert(out->depth > 0);
    buf_char(out->buf, bracket);
    out->comma = true;
    out->depth--;
}

void json_object_begin(struct json_out *out)
{
    begin_level(out, '{');
}

void json_object_end(struct json_out *out)
{
    end_level(out, '}');
}

void json_array_begin(struct json_out *out)
{
    begin_level(out, '[');
}

void json_array_end(struct json_out *out)
{
    end_level(out, ']');
}

static void write_escape(struct buf *buf, uint32_t code)
{
    switch (code) {
    case '"':
        buf_append(buf, "\\\"", 2);
        return;
    case '\\':
        buf_append(buf, "\\\\", 2);
        return;
    case '\n':
        buf_append(buf, "\\n", 2);
        return;
    case '\r':
        buf_append(buf, "\\r", 2);
        return;
    case '\t':
        buf_append(buf, "\\t", 2);
        return;
    default:
        buf_printf(buf, "\\u%04x", (unsigned)code);
    }
}

static bool needs_escape(uint32_t code)
{
    return code == '"' || code == '\\' || utf8_is_control(code) || code == 0x2028 || code == 0x2029;
}

static void write_string(struct buf *buf, struct text text)
{
    size_t at = 0, plain = 0; /* text from plain to at needs no escape and is not yet appended */

    buf_char(buf, '"');
    for (;;) {
        at += json_plain_bytes(text.bytes + at, text.length - at);
        if (at == text.length) {
            break;
        }

        uint32_t code = 0xFFFD;
        size_t bytes = utf8_decode(text.bytes + at, text.length - at, &code);

        if (bytes > 0 && !needs_escape(code)) {
            at += bytes;
            continue;
        }
        buf_append(buf, text.bytes + plain, at - plain);
        write_escape(buf, code == 0 ? 0xFFFD : code);
        at += bytes ? bytes : 1;
        plain = at;
    }
    buf_append(buf, text.bytes + plain, at - plain);
    buf_char(buf, '"');
}

void json_key(struct json_out *out, const char *key)
{
    json_key_text(out, text_of(key));
}

/* A string that needs no escape, with a comma before it and a colon behind it if need be: in one
 * piece. False: it needs one. */
static bool write_plain(struct json_out *out, struct text text, bool is_key)
{
    char *to;
    size_t bytes = text.length + 2 + out->comma + is_key;

    if (json_plain_bytes(text.bytes, text.length) < text.length) {
        return false;
    }
    to = buf_reserve(out->buf, bytes);
    if (to) {
        if (out->comma) {
            *to++ = ',';
        }
        *to++ = '"';
        to = (char *)memcpy(to, text.bytes, text.length) + text.length;
        *to++ = '"';
        if (is_key) {
            *to = ':';
        }
        buf_advance(out->buf, bytes);
    }
    return true;
}

void json_key_text(struct json_out *out, struct text key)
{
    if (!write_plain(out, key, true)) {
        before_value(out);
        write_string(out->buf, key);
        buf_char(out->buf, ':');
    }
    out->comma = false;
}

void json_string(struct json_out *out, struct text text)
{
    if (text_is_absent(text)) {
        json_null(out);
        return;
    }
    if (!write_plain(out, text, false)) {
        before_value(out);
        write_string(out->buf, text);
    }
    out->comma = true;
}

void json_int(struct json_out *out, int64_t value)
{
    char digits[INT_TEXT_BYTES];
    char *end = digits + sizeof digits;
    char *at = end;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

    before_value(out);
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0) {
        *--at = '-';
    }
    buf_append(out->buf, at, (size_t)(end - at));
}

void json_double(struct json_out *out, double value)
{
    char digits[NUMBER_TEXT_BYTES];

    if (!isfinite(value)) {
        json_null(out);
        return;
    }
    before_value(out);
    number_format(value, digits);
    buf_append_text(out->buf, text_of(digits));
}

void json_bool(struct json_out *out, bool value)
{
    before_value(out);
    buf_append_text(out->buf, text_of(value ? "true" : "false"));
}

void json_null(struct json_out *out)
{
    before_value(out);
    buf_append(out->buf, "null", 4);
}

void json_raw(struct json_out *out, struct text json)
{
    if (text_is_absent(json)) {
        json_null(out);
        return;
    }
    before_value(out);
    buf_append_text(out->buf, json);
}
