/*
 * json_scan.c - the parser of JSON: one pass, no allocation, no recursion.
 *
 * The text is a sequence of steps: a value, a key, or what may follow a value. What may follow
 * depends on the innermost open array or object, so the scan keeps one bit per level (set: an
 * object) and a depth; that is all the state there is. A member is taken by making steps until the
 * depth is what it was before.
 *
 * Most bytes of a payload are inside strings, so runs of plain bytes are tested eight at a time.
 *
 * Refused although RFC 8259 allows them: \u0000 (no engine stores it in a text) and unpaired
 * surrogate escapes (PostgreSQL refuses them). Duplicate keys are the publisher's business.
 */
#include "base/text/json_scan.h"
#include "base/err.h"
#include "base/text/hex.h"
#include "base/text/json_plain.h"
#include "base/text/utf8.h"

#include <assert.h>

static void refuse(struct json_scan *scan, const char *reason)
{
    scan->reason = reason;
    scan->step = JSON_STEP_REFUSED;
}

static bool refuse_false(struct json_scan *scan, const char *reason)
{
    refuse(scan, reason);
    return false;
}

static void skip_space(struct json_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t')) {
        scan->at++;
    }
}

/* The next byte, or NUL at the end. A NUL is valid nowhere, so the two may look alike. */
static char peek(const struct json_scan *scan)
{
    return scan->at < scan->end ? *scan->at : '\0';
}

/* --- Strings --- */

/* The value of the four digits after "\u", at `at`; -1 if there are not four. */
static int32_t peek_hex4(const struct json_scan *scan, const char *at)
{
    return scan->end - at < 4 ? -1 : hex_number(at, 4);
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
static bool check_unicode_escape(struct json_scan *scan)
{
    int32_t code = peek_hex4(scan, scan->at + 1);

    if (code < 0) {
        return refuse_false(scan, "\\u must be followed by four hexadecimal digits");
    }
    if (code == 0) {
        return refuse_false(scan, "\\u0000 cannot be stored");
    }
    if (is_low_surrogate(code)) {
        return refuse_false(scan, "a low surrogate has no high surrogate before it");
    }
    if (is_high_surrogate(code)) {
        const char *pair = scan->at + 5;

        if (scan->end - pair < 6 || pair[0] != '\\' || pair[1] != 'u' ||
            !is_low_surrogate(peek_hex4(scan, pair + 2))) {
            return refuse_false(scan, "a high surrogate has no low surrogate after it");
        }
        scan->at = pair + 1;
    }
    scan->at += 5;
    return true;
}

/* At a backslash. */
static bool check_escape(struct json_scan *scan)
{
    scan->at++;
    switch (peek(scan)) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        scan->at++;
        return true;
    case 'u':
        return check_unicode_escape(scan);
    default:
        return refuse_false(scan, "no such escape");
    }
}

/* At the opening quote; leaves at after the closing one. */
static bool check_string(struct json_scan *scan)
{
    scan->at++;
    for (;;) {
        scan->at += json_plain_bytes(scan->at, (size_t)(scan->end - scan->at));
        if (scan->at == scan->end) {
            return refuse_false(scan, "the string has no end");
        }

        unsigned char byte = (unsigned char)*scan->at;
        uint32_t code;
        size_t bytes = 1;

        if (byte == '"') {
            scan->at++;
            return true;
        }
        if (byte == '\\') {
            if (!check_escape(scan)) {
                return false;
            }
            continue;
        }
        if (byte < 0x20) {
            return refuse_false(scan, "a control character in a string must be escaped");
        }
        if (byte >= 0x80) {
            bytes = utf8_decode(scan->at, (size_t)(scan->end - scan->at), &code);
        }
        if (bytes == 0) {
            return refuse_false(scan, "not valid UTF-8");
        }
        scan->at += bytes;
    }
}

/* --- Numbers and words --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool check_digits(struct json_scan *scan)
{
    if (!is_digit(peek(scan))) {
        return refuse_false(scan, "a digit was expected");
    }
    while (is_digit(peek(scan))) {
        scan->at++;
    }
    return true;
}

static bool check_number(struct json_scan *scan)
{
    if (peek(scan) == '-') {
        scan->at++;
    }
    if (peek(scan) == '0') {
        scan->at++;
        if (is_digit(peek(scan))) {
            return refuse_false(scan, "a number must not begin with 0");
        }
    } else if (!check_digits(scan)) {
        return false;
    }
    if (peek(scan) == '.') {
        scan->at++;
        if (!check_digits(scan)) {
            return false;
        }
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-') {
            scan->at++;
        }
        return check_digits(scan);
    }
    return true;
}

static bool check_word(struct json_scan *scan, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0) {
        return refuse_false(scan, "a value was expected");
    }
    scan->at += length;
    return true;
}

/* --- Arrays and objects --- */

static bool innermost_is_object(const struct json_scan *scan)
{
    int32_t level = scan->depth - 1;

    return scan->is_object[level / 64] >> (level % 64) & 1;
}

/* At the opening bracket. */
static void open_level(struct json_scan *scan, bool object)
{
    if (scan->depth == scan->depth_max) {
        refuse(scan, "arrays and objects are nested too deeply");
        return;
    }

    uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *word = &scan->is_object[scan->depth / 64];

    *word = object ? *word | bit : *word & ~bit;
    scan->depth++;
    scan->at++;
    skip_space(scan);
    if (peek(scan) == (object ? '}' : ']')) {
        scan->step = JSON_STEP_AFTER_VALUE; /* which closes it */
    } else {
        scan->step = object ? JSON_STEP_KEY : JSON_STEP_VALUE;
    }
}

static void take_value(struct json_scan *scan)
{
    bool ok;

    skip_space(scan);
    switch (peek(scan)) {
    case '{':
        open_level(scan, true);
        return;
    case '[':
        open_level(scan, false);
        return;
    case '"':
        ok = check_string(scan);
        break;
    case 't':
        ok = check_word(scan, "true");
        break;
    case 'f':
        ok = check_word(scan, "false");
        break;
    case 'n':
        ok = check_word(scan, "null");
        break;
    default:
        if (peek(scan) != '-' && !is_digit(peek(scan))) {
            refuse(scan, "a value was expected");
            return;
        }
        ok = check_number(scan);
    }
    if (ok) {
        scan->step = JSON_STEP_AFTER_VALUE;
    }
}

static void take_key(struct json_scan *scan, struct text *ret_key)
{
    const char *start;

    skip_space(scan);
    start = scan->at;
    if (peek(scan) != '"') {
        refuse(scan, "a key in double quotes was expected");
        return;
    }
    if (!check_string(scan)) {
        return;
    }
    *ret_key = (struct text){start, (size_t)(scan->at - start)};
    skip_space(scan);
    if (peek(scan) != ':') {
        refuse(scan, "':' was expected after the key");
        return;
    }
    scan->at++;
    scan->step = JSON_STEP_VALUE;
}

static void go_on(struct json_scan *scan)
{
    skip_space(scan);
    if (scan->depth == 0) {
        if (scan->at == scan->end) {
            scan->step = JSON_STEP_DONE;
        } else {
            refuse(scan, "something follows the value");
        }
        return;
    }

    bool object = innermost_is_object(scan);

    if (peek(scan) == ',') {
        scan->at++;
        scan->step = object ? JSON_STEP_KEY : JSON_STEP_VALUE;
    } else if (peek(scan) == (object ? '}' : ']')) {
        scan->at++;
        scan->depth--;
    } else {
        refuse(scan, object ? "',' or '}' was expected" : "',' or ']' was expected");
    }
}

/* --- The walk --- */

void json_scan_begin(struct json_scan *scan, struct text text, int32_t depth_max)
{
    scan->start = scan->at = text.bytes;
    scan->end = text.bytes ? text.bytes + text.length : NULL;
    scan->reason = NULL;
    scan->step = JSON_STEP_VALUE;
    scan->depth = 0;
    scan->depth_max = depth_max ? depth_max : JSON_DEPTH_DEFAULT;
    assert(scan->depth_max >= 1 && scan->depth_max <= JSON_DEPTH_MAX);
}

bool json_scan_enter(struct json_scan *scan, enum json_kind kind)
{
    bool object = kind == JSON_OBJECT;

    assert(object || kind == JSON_ARRAY);
    if (scan->step != JSON_STEP_VALUE) {
        return false;
    }
    skip_space(scan);
    if (peek(scan) != (object ? '{' : '[')) {
        return false;
    }
    open_level(scan, object);
    return scan->step != JSON_STEP_REFUSED;
}

bool json_scan_more(struct json_scan *scan, struct text *ret_key)
{
    struct text key = TEXT_ABSENT;
    int32_t level = scan->depth;

    if (scan->step == JSON_STEP_AFTER_VALUE) {
        go_on(scan);
    }
    if (scan->depth < level) {
        return false;
    }
    if (scan->step == JSON_STEP_KEY) {
        take_key(scan, &key);
    }
    if (ret_key) {
        *ret_key = key;
    }
    return scan->step == JSON_STEP_VALUE;
}

bool json_scan_value(struct json_scan *scan, struct text *ret_value)
{
    struct text ignored;
    int32_t level = scan->depth;
    const char *start;

    if (scan->step != JSON_STEP_VALUE) {
        return false;
    }
    skip_space(scan);
    start = scan->at;
    take_value(scan);
    while (scan->depth > level && scan->step != JSON_STEP_REFUSED) {
        switch (scan->step) {
        case JSON_STEP_VALUE:
            take_value(scan);
            break;
        case JSON_STEP_KEY:
            take_key(scan, &ignored);
            break;
        default:
            go_on(scan);
        }
    }
    *ret_value = (struct text){start, (size_t)(scan->at - start)};
    return scan->step != JSON_STEP_REFUSED;
}

bool json_scan_next(struct json_scan *scan, struct text *ret_key, struct text *ret_value)
{
    return json_scan_more(scan, ret_key) && json_scan_value(scan, ret_value);
}

bool json_scan_end(struct json_scan *scan)
{
    struct text value;

    if (scan->step == JSON_STEP_VALUE && scan->depth == 0) {
        json_scan_value(scan, &value);
    }
    if (scan->step == JSON_STEP_AFTER_VALUE && scan->depth == 0) {
        go_on(scan);
    }
    return scan->step == JSON_STEP_DONE;
}

hf_status json_scan_object(struct json_scan *scan, const char *what)
{
    struct text value;

    if (json_scan_enter(scan, JSON_OBJECT)) {
        return HF_OK;
    }
    if (!json_scan_value(scan, &value)) {
        return json_scan_failure(scan, what);
    }
    return fail(HF_INVALID, "%s is JSON but not an object; it must begin with '{'", what);
}

hf_status json_scan_failure(const struct json_scan *scan, const char *what)
{
    if (scan->end == scan->start) {
        return fail(HF_INVALID, "%s is %s; JSON was expected", what,
                    scan->start ? "empty" : "missing");
    }
    assert(scan->reason);
    return fail(HF_INVALID, "%s is not valid JSON at byte %td: %s", what, scan->at - scan->start,
                scan->reason);
}
