/*
 * json_read.c - slicing JSON that was checked before.
 *
 * Because the text passed json_check, finding the end of a value is easy: a string ends at the
 * first quote that no backslash precedes, an array or object where the brackets outside strings
 * balance, anything else at the next comma, bracket or white space. Every step is bounded by the
 * end of the input all the same: a text that was not checked gives `broken`, never a read outside.
 */
#include "base/text/json_read.h"
#include "base/err.h"
#include "base/text/hex.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    return at;
}

/* at is an opening quote. The place after the closing one, or NULL. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"') {
            return at + 1;
        }
        if (*at == '\\') {
            at++;
        }
    }
    return NULL;
}

/* at is an opening bracket. The place after the one that closes it, or NULL. */
static const char *skip_level(const char *at, const char *end)
{
    size_t depth = 0;

    while (at && at < end) {
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        }
        at++;
        if (depth == 0) {
            return at;
        }
    }
    return NULL;
}

/* The place after a number or word; NULL if there is none. */
static const char *skip_scalar(const char *at, const char *end)
{
    const char *start = at;

    while (at < end && *at != '\0' && !strchr(",:]}[{\" \n\r\t", *at)) {
        at++;
    }
    return at > start ? at : NULL;
}

static const char *skip_value(const char *at, const char *end)
{
    if (at == end) {
        return NULL;
    }
    switch (*at) {
    case '"':
        return skip_string(at, end);
    case '{':
    case '[':
        return skip_level(at, end);
    default:
        return skip_scalar(at, end);
    }
}

enum json_kind json_kind(struct text raw)
{
    if (text_is_absent(raw)) {
        return JSON_NOTHING;
    }

    const char *end = raw.bytes + raw.length;
    const char *at = skip_space(raw.bytes, end);

    if (at == end) {
        return JSON_NOTHING;
    }
    switch (*at) {
    case 'n':
        return JSON_NULL;
    case 't':
    case 'f':
        return JSON_BOOL;
    case '"':
        return JSON_STRING;
    case '[':
        return JSON_ARRAY;
    case '{':
        return JSON_OBJECT;
    default:
        return *at == '-' || (*at >= '0' && *at <= '9') ? JSON_NUMBER : JSON_NOTHING;
    }
}

/* --- Walking --- */

bool json_iter_init(struct json_iter *iter, struct text raw)
{
    enum json_kind kind = json_kind(raw);

    if (kind != JSON_ARRAY && kind != JSON_OBJECT) {
        return false;
    }

    const char *end = raw.bytes + raw.length;

    *iter = (struct json_iter){
        .at = skip_space(raw.bytes, end) + 1,
        .end = end,
        .object = kind == JSON_OBJECT,
    };
    return true;
}

static bool iter_break(struct json_iter *iter)
{
    iter->broken = true;
    iter->at = iter->end;
    return false;
}

/* Takes "key": off the front. */
static bool take_key(struct json_iter *iter, struct text *ret_key)
{
    const char *start = iter->at;

    if (start == iter->end || *start != '"') {
        return false;
    }

    const char *end = skip_string(start, iter->end);

    if (!end) {
        return false;
    }
    iter->at = skip_space(end, iter->end);
    if (iter->at == iter->end || *iter->at != ':') {
        return false;
    }
    iter->at = skip_space(iter->at + 1, iter->end);
    *ret_key = (struct text){start, (size_t)(end - start)};
    return true;
}

bool json_iter_next(struct json_iter *iter, struct text *ret_key, struct text *ret_value)
{
    struct text key = TEXT_ABSENT;

    if (iter->broken) {
        return false;
    }
    iter->at = skip_space(iter->at, iter->end);
    if (iter->at < iter->end && *iter->at == (iter->object ? '}' : ']')) {
        return false;
    }
    if (iter->at < iter->end && *iter->at == ',') {
        iter->at = skip_space(iter->at + 1, iter->end);
    }
    if (iter->object && !take_key(iter, &key)) {
        return iter_break(iter);
    }

    const char *start = iter->at;
    const char *end = skip_value(start, iter->end);

    if (!end) {
        return iter_break(iter);
    }
    iter->at = end;
    if (ret_key) {
        *ret_key = key;
    }
    *ret_value = (struct text){start, (size_t)(end - start)};
    return true;
}

/* --- Strings --- */

/* The characters between the quotes of a raw string; absent if it is not one. */
static struct text string_inside(struct text raw)
{
    if (raw.length < 2 || raw.bytes[0] != '"' || raw.bytes[raw.length - 1] != '"') {
        return TEXT_ABSENT;
    }
    return (struct text){raw.bytes + 1, raw.length - 2};
}

/* Four hexadecimal digits after "\u"; -1 if they are not there. */
static int32_t hex4_at(const char *at, const char *end)
{
    return end - at < 4 ? -1 : hex_number(at, 4);
}

/* *at is after "\u"; moves it past the digits, those of a surrogate pair included. */
static size_t decode_unicode_escape(const char **at, const char *end, char out[4])
{
    int32_t code = hex4_at(*at, end);

    if (code < 0) {
        return 0;
    }
    *at += 4;
    if (code >= 0xD800 && code <= 0xDBFF && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        int32_t low = hex4_at(*at + 2, end);

        if (low >= 0xDC00 && low <= 0xDFFF) {
            *at += 6;
            return utf8_encode((uint32_t)(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), out);
        }
    }
    if (code >= 0xD800 && code <= 0xDFFF) {
        code = 0xFFFD;
    }
    return utf8_encode((uint32_t)code, out);
}

/* Decodes the escape at *at, which is its backslash: how many bytes it stands for, 0 if none. */
static size_t decode_escape(const char **at, const char *end, char out[4])
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";

    if (end - *at < 2) {
        return 0;
    }

    char letter = (*at)[1];

    *at += 2;
    if (letter == 'u') {
        return decode_unicode_escape(at, end, out);
    }

    const char *known = letter ? strchr(letters, letter) : NULL;

    if (!known) {
        return 0;
    }
    out[0] = meanings[known - letters];
    return 1;
}

hf_status json_string_decode(struct text raw, struct buf *buf)
{
    struct text inside = string_inside(raw);

    if (text_is_absent(inside)) {
        return fail(HF_INVALID, "a JSON string was expected");
    }

    const char *at = inside.bytes;
    const char *end = at + inside.length;

    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const char *plain_end = escape ? escape : end;
        char decoded[4];

        buf_append(buf, at, (size_t)(plain_end - at));
        at = plain_end;
        if (!escape) {
            break;
        }

        size_t bytes = decode_escape(&at, end, decoded);

        if (bytes == 0) {
            return fail(HF_INVALID, "a JSON string has an escape that does not exist");
        }
        buf_append(buf, decoded, bytes);
    }
    return buf_status(buf);
}

bool json_key_is(struct text raw, struct text key)
{
    struct text inside = string_inside(raw);

    if (text_is_absent(inside)) {
        return false;
    }
    if (!memchr(inside.bytes, '\\', inside.length)) {
        return text_equal(inside, key);
    }

    const char *at = inside.bytes;
    const char *end = at + inside.length;
    size_t matched = 0;

    while (at < end) {
        char decoded[4] = {*at};
        size_t bytes = 1;

        if (*at == '\\') {
            bytes = decode_escape(&at, end, decoded);
        } else {
            at++;
        }
        if (bytes == 0 || key.length - matched < bytes ||
            memcmp(key.bytes + matched, decoded, bytes) != 0) {
            return false;
        }
        matched += bytes;
    }
    return matched == key.length;
}

bool json_find(struct text object, const char *key, struct text *ret_raw)
{
    struct text wanted = text_of(key);
    struct text name, value;
    struct json_iter iter;

    if (!json_iter_init(&iter, object) || !iter.object) {
        return false;
    }
    while (json_iter_next(&iter, &name, &value)) {
        if (!json_key_is(name, wanted)) {
            continue;
        }
        *ret_raw = value;
        return true;
    }
    return false;
}

/* --- Other values --- */

hf_status json_int_decode(struct text raw, int64_t *ret_value)
{
    size_t at = raw.length > 0 && raw.bytes[0] == '-';
    bool negative = at == 1;
    bool ok = at < raw.length;
    int64_t value = 0;

    /* Towards the sign, so that INT64_MIN is reached without overflow. */
    for (; ok && at < raw.length; at++) {
        int digit = raw.bytes[at] - '0';

        ok = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(value, 10, &value) &&
             !__builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    if (!ok) {
        return fail(HF_INVALID, "a whole number of at most 64 bits was expected");
    }
    *ret_value = value;
    return HF_OK;
}

hf_status json_double_decode(struct text raw, double *ret_value)
{
    if (!number_parse(raw, ret_value)) {
        return fail(HF_INVALID, "a number was expected");
    }
    return HF_OK;
}

/* --- Finding and decoding --- */

static hf_status find_value(struct text object, const char *key, struct text *ret_raw)
{
    struct text raw;

    if (!json_find(object, key, &raw) || json_kind(raw) == JSON_NULL) {
        return fail(HF_NOTFOUND, "there is no \"%s\"", key);
    }
    *ret_raw = raw;
    return HF_OK;
}

/* Says which value was not what was expected. */
static hf_status name_key(hf_status status, const char *key)
{
    return status == HF_INVALID ? fail(status, "\"%s\": %s", key, err_message()) : status;
}

hf_status json_find_string(struct text object, const char *key, struct buf *buf)
{
    struct text raw;
    hf_status status = find_value(object, key, &raw);

    return status ? status : name_key(json_string_decode(raw, buf), key);
}

hf_status json_find_int(struct text object, const char *key, int64_t *ret_value)
{
    struct text raw;
    hf_status status = find_value(object, key, &raw);

    return status ? status : name_key(json_int_decode(raw, ret_value), key);
}
