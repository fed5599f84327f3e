/*
 * json_check.c - a JSON validator: one pass, no allocation, no recursion.
 *
 * The text is a sequence of steps: a value, a key, or what may follow a value. What may follow
 * depends on the innermost open array or object, so the checker keeps one bit per level (set: an
 * object) and a depth; that is all the state there is.
 *
 * Most bytes of a payload are inside strings, so runs of ordinary string bytes are tested eight at
 * a time with the usual zero-byte trick. Measured at -O2, a long plain string is checked about nine
 * times as fast, per byte, as a small object of short keys and numbers or a string without any
 * ASCII; and the small object takes about as long as the MD5 that finds its partition.
 *
 * Refused although RFC 8259 allows them: \u0000 (no engine stores it in a text) and unpaired
 * surrogate escapes (PostgreSQL refuses them). Duplicate keys are the publisher's business.
 */
#include "base/text/json_check.h"
#include "base/err.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"

#include <assert.h>

struct checker {
    const char *start;
    const char *at;
    const char *end;
    const char *reason; /* why the text is not valid; set once, at `at` */
    int32_t depth;
    int32_t depth_max;
    uint64_t is_object[JSON_DEPTH_MAX / 64]; /* bit i: level i is an object */
};

/* What is expected next. */
enum step {
    STEP_VALUE,
    STEP_KEY,
    STEP_AFTER_VALUE,
    STEP_DONE,
    STEP_REFUSED,
};

static enum step refuse(struct checker *c, const char *reason)
{
    c->reason = reason;
    return STEP_REFUSED;
}

static bool refuse_false(struct checker *c, const char *reason)
{
    c->reason = reason;
    return false;
}

static void skip_space(struct checker *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) {
        c->at++;
    }
}

/* The next byte, or NUL at the end. A NUL is valid nowhere, so the two may look alike. */
static char peek(const struct checker *c)
{
    return c->at < c->end ? *c->at : '\0';
}

/* --- Strings --- */

#define EVERY_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Nonzero iff a byte of word is zero. */
static uint64_t has_zero(uint64_t word)
{
    return (word - EVERY_BYTE(0x01)) & ~word & EVERY_BYTE(0x80);
}

/* Whether all eight bytes are ASCII, printable or DEL, neither quote nor backslash. */
static bool is_ordinary_word(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);

    uint64_t below_space = (word - EVERY_BYTE(0x20)) & ~word;
    uint64_t quote = has_zero(word ^ EVERY_BYTE('"'));
    uint64_t backslash = has_zero(word ^ EVERY_BYTE('\\'));

    return ((word | below_space) & EVERY_BYTE(0x80)) == 0 && (quote | backslash) == 0;
}

/* The value of the four digits after "\u", at `at`; -1 if there are not four. */
static int32_t peek_hex4(const struct checker *c, const char *at)
{
    return c->end - at < 4 ? -1 : hex_number(at, 4);
}

static bool is_high_surrogate(int32_t code)
{
    return code >= 0xD800 && code <= 0xDBFF;
}

static bool is_low_surrogate(int32_t code)
{
    return code >= 0xDC00 && code <= 0xDFFF;
}

/* At the 'u' of an escape. */
static bool check_unicode_escape(struct checker *c)
{
    int32_t code = peek_hex4(c, c->at + 1);

    if (code < 0) {
        return refuse_false(c, "\\u must be followed by four hexadecimal digits");
    }
    if (code == 0) {
        return refuse_false(c, "\\u0000 cannot be stored");
    }
    if (is_low_surrogate(code)) {
        return refuse_false(c, "a low surrogate has no high surrogate before it");
    }
    if (is_high_surrogate(code)) {
        const char *pair = c->at + 5;

        if (c->end - pair < 6 || pair[0] != '\\' || pair[1] != 'u' ||
            !is_low_surrogate(peek_hex4(c, pair + 2))) {
            return refuse_false(c, "a high surrogate has no low surrogate after it");
        }
        c->at = pair + 1;
    }
    c->at += 5;
    return true;
}

/* At a backslash. */
static bool check_escape(struct checker *c)
{
    c->at++;
    switch (peek(c)) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        c->at++;
        return true;
    case 'u':
        return check_unicode_escape(c);
    default:
        return refuse_false(c, "no such escape");
    }
}

/* At the opening quote; leaves at after the closing one. */
static bool check_string(struct checker *c)
{
    c->at++;
    for (;;) {
        while (c->end - c->at >= 8 && is_ordinary_word(c->at)) {
            c->at += 8;
        }
        if (c->at == c->end) {
            return refuse_false(c, "the string has no end");
        }

        unsigned char byte = (unsigned char)*c->at;
        uint32_t code;
        size_t bytes = 1;

        if (byte == '"') {
            c->at++;
            return true;
        }
        if (byte == '\\') {
            if (!check_escape(c)) {
                return false;
            }
            continue;
        }
        if (byte < 0x20) {
            return refuse_false(c, "a control character in a string must be escaped");
        }
        if (byte >= 0x80) {
            bytes = utf8_decode(c->at, (size_t)(c->end - c->at), &code);
        }
        if (bytes == 0) {
            return refuse_false(c, "not valid UTF-8");
        }
        c->at += bytes;
    }
}

/* --- Numbers and words --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool check_digits(struct checker *c)
{
    if (!is_digit(peek(c))) {
        return refuse_false(c, "a digit was expected");
    }
    while (is_digit(peek(c))) {
        c->at++;
    }
    return true;
}

static bool check_number(struct checker *c)
{
    if (peek(c) == '-') {
        c->at++;
    }
    if (peek(c) == '0') {
        c->at++;
        if (is_digit(peek(c))) {
            return refuse_false(c, "a number must not begin with 0");
        }
    } else if (!check_digits(c)) {
        return false;
    }
    if (peek(c) == '.') {
        c->at++;
        if (!check_digits(c)) {
            return false;
        }
    }
    if (peek(c) == 'e' || peek(c) == 'E') {
        c->at++;
        if (peek(c) == '+' || peek(c) == '-') {
            c->at++;
        }
        return check_digits(c);
    }
    return true;
}

static bool check_word(struct checker *c, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) {
        return refuse_false(c, "a value was expected");
    }
    c->at += length;
    return true;
}

/* --- Arrays and objects --- */

static bool innermost_is_object(const struct checker *c)
{
    int32_t level = c->depth - 1;

    return c->is_object[level / 64] >> (level % 64) & 1;
}

/* At the opening bracket. */
static enum step open_level(struct checker *c, bool object)
{
    if (c->depth == c->depth_max) {
        return refuse(c, "arrays and objects are nested too deeply");
    }

    uint64_t bit = UINT64_C(1) << (c->depth % 64);
    uint64_t *word = &c->is_object[c->depth / 64];

    *word = object ? *word | bit : *word & ~bit;
    c->depth++;
    c->at++;
    skip_space(c);
    if (peek(c) == (object ? '}' : ']')) {
        return STEP_AFTER_VALUE; /* which closes it */
    }
    return object ? STEP_KEY : STEP_VALUE;
}

static enum step check_value(struct checker *c)
{
    bool ok;

    skip_space(c);
    switch (peek(c)) {
    case '{':
        return open_level(c, true);
    case '[':
        return open_level(c, false);
    case '"':
        ok = check_string(c);
        break;
    case 't':
        ok = check_word(c, "true");
        break;
    case 'f':
        ok = check_word(c, "false");
        break;
    case 'n':
        ok = check_word(c, "null");
        break;
    default:
        if (peek(c) != '-' && !is_digit(peek(c))) {
            return refuse(c, "a value was expected");
        }
        ok = check_number(c);
    }
    return ok ? STEP_AFTER_VALUE : STEP_REFUSED;
}

static enum step check_key(struct checker *c)
{
    skip_space(c);
    if (peek(c) != '"') {
        return refuse(c, "a key in double quotes was expected");
    }
    if (!check_string(c)) {
        return STEP_REFUSED;
    }
    skip_space(c);
    if (peek(c) != ':') {
        return refuse(c, "':' was expected after the key");
    }
    c->at++;
    return STEP_VALUE;
}

static enum step check_after_value(struct checker *c)
{
    skip_space(c);
    if (c->depth == 0) {
        return c->at == c->end ? STEP_DONE : refuse(c, "something follows the value");
    }

    bool object = innermost_is_object(c);

    if (peek(c) == ',') {
        c->at++;
        return object ? STEP_KEY : STEP_VALUE;
    }
    if (peek(c) == (object ? '}' : ']')) {
        c->at++;
        c->depth--;
        return STEP_AFTER_VALUE;
    }
    return refuse(c, object ? "',' or '}' was expected" : "',' or ']' was expected");
}

static bool check_text(struct checker *c)
{
    enum step step = STEP_VALUE;

    for (;;) {
        switch (step) {
        case STEP_VALUE:
            step = check_value(c);
            break;
        case STEP_KEY:
            step = check_key(c);
            break;
        case STEP_AFTER_VALUE:
            step = check_after_value(c);
            break;
        case STEP_DONE:
            return true;
        case STEP_REFUSED:
            return false;
        }
    }
}

hf_status json_check(const char *bytes, size_t length, const struct json_limits *limits,
                     const char *what)
{
    size_t bytes_max = limits ? limits->bytes_max : 0;
    int32_t depth_max = limits && limits->depth_max ? limits->depth_max : JSON_DEPTH_DEFAULT;
    struct checker c = {
        .start = bytes,
        .at = bytes,
        .end = bytes ? bytes + length : NULL,
        .depth_max = depth_max,
    };

    assert(depth_max >= 1 && depth_max <= JSON_DEPTH_MAX);
    if (!bytes || length == 0) {
        return fail(HF_INVALID, "%s is %s; JSON was expected", what, bytes ? "empty" : "missing");
    }
    if (bytes_max > 0 && length > bytes_max) {
        return fail(HF_INVALID, "%s is %zu bytes; the limit is %zu", what, length, bytes_max);
    }
    if (!check_text(&c)) {
        return fail(HF_INVALID, "%s is not valid JSON at byte %td: %s", what, c.at - c.start,
                    c.reason);
    }
    return HF_OK;
}

hf_status json_check_object(const char *bytes, size_t length, const struct json_limits *limits,
                            const char *what)
{
    hf_status status = json_check(bytes, length, limits, what);

    if (status) {
        return status;
    }
    while (*bytes == ' ' || *bytes == '\n' || *bytes == '\r' || *bytes == '\t') {
        bytes++; /* there is a value, so this ends */
    }
    if (*bytes != '{') {
        return fail(HF_INVALID, "%s is JSON but not an object; it must begin with '{'", what);
    }
    return HF_OK;
}
