/*
 * regex.c - patterns for the server. See regex.h and base/text/glob.h.
 *
 * The server uses it only to leave out payloads that are not wanted; whether an event is for the
 * subscription is decided by filter_matches, in one place for all engines. So the expression may
 * match too much, but never too little. A backslash before any punctuation is that character; all
 * others (letters, digits, '_', what is not ASCII) stand for themselves.
 */
#include "store/postgres/read/regex.h"

static bool is_everything(struct text pattern)
{
    return text_equal(pattern, text_of("*")) || text_equal(pattern, text_of("**"));
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static void add_pattern(struct buf *out, struct text pattern)
{
    for (size_t i = 0; i < pattern.length; i++) {
        char c = pattern.bytes[i];
        if (c == '*') { /* always a whole segment */
            bool tail = i + 1 < pattern.length && pattern.bytes[i + 1] == '*';
            buf_append_text(out, text_of(tail ? ".+" : "[^.]+"));
            i += tail;
        } else {
            if (!is_plain(c)) {
                buf_char(out, '\\');
            }
            buf_char(out, c);
        }
    }
}

hf_status regex_of(struct buf *out, const struct filter *filter)
{
    buf_clear(out);
    if (filter->unhandled_too) {
        return HF_OK;
    }
    buf_append_text(out, text_of("^(?:"));
    for (size_t i = 0; i < filter->count && out->length <= REGEX_BYTES_MAX; i++) {
        if (is_everything(filter->patterns[i])) {
            buf_clear(out);
            return HF_OK;
        }
        buf_append_text(out, text_of(i > 0 ? "|" : ""));
        add_pattern(out, filter->patterns[i]);
    }
    buf_append_text(out, text_of(")$"));
    hf_status status = buf_status(out);
    if (!status && out->length > REGEX_BYTES_MAX) {
        buf_clear(out);
    }
    return status;
}
