/*
 * fuzz_glob.c - a pattern, a type and another pattern, one per line.
 *
 * Properties: a type is a pattern and matches itself; a pattern covers itself; if one pattern
 * covers another it matches whatever the other matches, here the type of the input and a type made
 * from the other pattern; '*' matches and covers everything.
 */
#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/glob.h"
#include "base/text/utf8.h"
#include "fuzz.h"

/* The first line of rest, taken off it. */
static struct text take_line(struct text *rest)
{
    const char *end = memchr(rest->bytes, '\n', rest->length);
    struct text line = {rest->bytes, end ? (size_t)(end - rest->bytes) : rest->length};
    size_t taken = line.length + (end ? 1 : 0);

    rest->bytes += taken;
    rest->length -= taken;
    return line;
}

/* A type that the pattern matches: every '*' becomes a segment. */
static void example_of(struct text pattern, struct buf *buf)
{
    for (size_t i = 0; i < pattern.length; i++) {
        buf_char(buf, pattern.bytes[i] == '*' ? 'q' : pattern.bytes[i]);
    }
}

static void check_type(struct text type)
{
    struct text everything = text_of("*");

    HOLDS(type.length >= 1 && type.length <= HF_TYPE_BYTES_MAX);
    HOLDS(utf8_is_printable(type));
    HOLDS(glob_check_name(type, "name", HF_TYPE_BYTES_MAX) == HF_OK);
    HOLDS(glob_check_pattern(type) == HF_OK);
    HOLDS(glob_match(type, type));
    HOLDS(glob_match(everything, type));
}

static void check_pattern(struct text pattern)
{
    struct buf example;

    buf_init(&example, HF_TYPE_BYTES_MAX);
    example_of(pattern, &example);
    HOLDS(glob_check_type(buf_text(&example)) == HF_OK);
    HOLDS(glob_match(pattern, buf_text(&example)));
    HOLDS(glob_covers(pattern, buf_text(&example)));
    HOLDS(glob_covers(pattern, pattern));
    HOLDS(glob_covers(text_of("*"), pattern));
    HOLDS(glob_covers(text_of("**"), pattern));
    buf_release(&example);
}

static void check_cover(struct text wide, struct text narrow)
{
    struct buf example;

    if (!glob_covers(wide, narrow)) {
        return;
    }
    buf_init(&example, HF_TYPE_BYTES_MAX);
    example_of(narrow, &example);
    HOLDS(glob_match(wide, buf_text(&example)));
    buf_release(&example);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text rest = {size ? (const char *)data : "", size};
    struct text pattern = take_line(&rest);
    struct text type = take_line(&rest);
    struct text other = take_line(&rest);
    bool pattern_ok = glob_check_pattern(pattern) == HF_OK;
    bool type_ok = glob_check_type(type) == HF_OK;
    bool other_ok = glob_check_pattern(other) == HF_OK;

    if (pattern_ok) {
        check_pattern(pattern);
    }
    if (type_ok) {
        check_type(type);
    }
    if (pattern_ok && type_ok) { /* for a type, covering and matching are the same question */
        HOLDS(glob_match(pattern, type) == glob_covers(pattern, type));
    }
    if (pattern_ok && other_ok) {
        check_cover(pattern, other);
        check_cover(other, pattern);
    }
    if (pattern_ok && other_ok && type_ok && glob_covers(pattern, other) &&
        glob_match(other, type)) {
        HOLDS(glob_match(pattern, type));
    }
    return 0;
}
