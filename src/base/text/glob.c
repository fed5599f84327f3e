/*
 * glob.c - rules for types and patterns, matching, and inclusion of patterns.
 *
 * A checked pattern is a list of fixed segments, each a literal or '*', and perhaps a tail '**'
 * that stands for one or more segments; a lone '*' means a lone '**'. There is no choice to go back
 * to, so matching walks both texts once, from left to right.
 *
 * Inclusion, too, is decided segment by segment. Let H have h fixed segments and S have s. Every
 * type of S is a type of H iff each of H's fixed segments is '*' or the same literal as S's segment
 * at that place, and
 *     neither has a tail:        s == h
 *     only H has one:            s > h      (something is left for H's tail)
 *     both have one:             s >= h     (S's tail gives at least one more)
 *     only S has one:            never      (S has types of every greater length, H of one)
 */
#include "base/text/glob.h"
#include "base/err.h"
#include "base/text/utf8.h"

/* --- The rules --- */

enum glob_kind { GLOB_TYPE, GLOB_PATTERN };

static const char *kind_name(enum glob_kind kind)
{
    return kind == GLOB_TYPE ? "type" : "pattern";
}

static hf_status check_length(struct text text, const char *what, size_t bytes_max)
{
    if (text.length == 0) {
        return fail(HF_INVALID, "%s is %s", what, text_is_absent(text) ? "missing" : "empty");
    }
    if (text.length > bytes_max) {
        return fail(HF_INVALID, "%s is %zu bytes; the limit is %zu", what, text.length, bytes_max);
    }
    return HF_OK;
}

/* The character at a place: valid, and no control character. ret_bytes is its length. */
static hf_status check_char(struct text text, size_t at, const char *what, uint32_t *ret_code,
                            size_t *ret_bytes)
{
    uint32_t code = 0;
    size_t bytes = utf8_decode(text.bytes + at, text.length - at, &code);

    if (bytes == 0) {
        return fail(HF_INVALID, "%s is not valid UTF-8 at byte %zu", what, at);
    }
    if (utf8_is_control(code)) {
        return fail(HF_INVALID, "%s has the control character U+%04X at byte %zu", what,
                    (unsigned)code, at);
    }
    *ret_code = code;
    *ret_bytes = bytes;
    return HF_OK;
}

static hf_status check_chars(struct text text, const char *what)
{
    for (size_t at = 0, bytes = 0; at < text.length; at += bytes) {
        uint32_t code;
        hf_status status = check_char(text, at, what, &code, &bytes);

        if (status) {
            return status;
        }
        if (utf8_is_space(code)) {
            return fail(HF_INVALID, "%s has white space at byte %zu", what, at);
        }
    }
    return HF_OK;
}

/* Takes the first segment off rest, with the '.' behind it. The last one leaves rest absent. */
static struct text take_segment(struct text *rest)
{
    const char *dot = memchr(rest->bytes, '.', rest->length);

    if (!dot) {
        struct text last = *rest;

        *rest = TEXT_ABSENT;
        return last;
    }

    struct text segment = {rest->bytes, (size_t)(dot - rest->bytes)};

    rest->bytes += segment.length + 1;
    rest->length -= segment.length + 1;
    return segment;
}

static bool is_star(struct text segment)
{
    return segment.length == 1 && segment.bytes[0] == '*';
}

static bool is_tail(struct text segment)
{
    return segment.length == 2 && memcmp(segment.bytes, "**", 2) == 0;
}

static hf_status check_segment(struct text segment, size_t at, bool last, enum glob_kind kind)
{
    const char *what = kind_name(kind);

    if (segment.length == 0) {
        return fail(HF_INVALID, "%s has an empty segment at byte %zu", what, at);
    }

    const char *star = memchr(segment.bytes, '*', segment.length);

    if (!star) {
        return HF_OK;
    }
    at += (size_t)(star - segment.bytes);
    if (kind == GLOB_TYPE) {
        return fail(HF_INVALID, "type has '*' at byte %zu; only patterns may", at);
    }
    if (is_tail(segment) && !last) {
        return fail(HF_INVALID, "pattern has '**' at byte %zu; it may only be the last segment",
                    at);
    }
    if (!is_star(segment) && !is_tail(segment)) {
        return fail(HF_INVALID,
                    "pattern has '*' inside a segment at byte %zu; '*' stands for a whole segment",
                    at);
    }
    return HF_OK;
}

static hf_status check_glob(struct text text, enum glob_kind kind)
{
    hf_status status = check_length(text, kind_name(kind), HF_TYPE_BYTES_MAX);

    if (!status) {
        status = check_chars(text, kind_name(kind));
    }
    for (struct text rest = text; !status && !text_is_absent(rest);) {
        size_t at = (size_t)(rest.bytes - text.bytes);
        struct text segment = take_segment(&rest);

        status = check_segment(segment, at, text_is_absent(rest), kind);
    }
    return status;
}

hf_status glob_check_type(struct text type)
{
    return check_glob(type, GLOB_TYPE);
}

hf_status glob_check_pattern(struct text pattern)
{
    return check_glob(pattern, GLOB_PATTERN);
}

hf_status glob_check_name(struct text name, const char *what, size_t bytes_max)
{
    hf_status status = check_length(name, what, bytes_max);

    if (status) {
        return status;
    }
    for (size_t at = 0, bytes = 0; at < name.length; at += bytes) {
        uint32_t code;

        status = check_char(name, at, what, &code, &bytes);
        if (status) {
            return status;
        }

        bool at_an_end = at == 0 || at + bytes == name.length;

        if (at_an_end && utf8_is_space(code)) {
            return fail(HF_INVALID, "%s %s with white space", what, at == 0 ? "begins" : "ends");
        }
    }
    return HF_OK;
}

/* --- Matching --- */

static bool matches_everything(struct text pattern)
{
    return is_star(pattern) || is_tail(pattern);
}

bool glob_match(struct text pattern, struct text type)
{
    if (matches_everything(pattern)) {
        return true;
    }
    while (!text_is_absent(pattern) && !text_is_absent(type)) {
        struct text wanted = take_segment(&pattern);

        if (is_tail(wanted)) {
            return true;
        }

        struct text segment = take_segment(&type);

        if (!is_star(wanted) && !text_equal(wanted, segment)) {
            return false;
        }
    }
    return text_is_absent(pattern) && text_is_absent(type);
}

bool glob_covers(struct text handler_pattern, struct text stored_pattern)
{
    if (matches_everything(handler_pattern)) {
        return true;
    }
    if (matches_everything(stored_pattern)) {
        return false;
    }
    while (!text_is_absent(handler_pattern) && !text_is_absent(stored_pattern)) {
        struct text wide = take_segment(&handler_pattern);

        if (is_tail(wide)) {
            return true;
        }

        struct text narrow = take_segment(&stored_pattern);

        if (is_tail(narrow) || (!is_star(wide) && !text_equal(wide, narrow))) {
            return false;
        }
    }
    return text_is_absent(handler_pattern) && text_is_absent(stored_pattern);
}
