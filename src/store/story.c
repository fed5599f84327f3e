/*
 * story.c - adding an attempt to a delivery's story. See story.h.
 *
 * The old story is our own JSON, an array; the new attempt goes before its closing bracket. A story
 * that would pass STORY_BYTES_MAX keeps its beginning and loses nothing but this attempt's details:
 * the count of attempts is kept elsewhere.
 */
#include "store/story.h"

#include <holdfast.h>

#include "base/json_write.h"
#include "base/time.h"
#include "base/utf8.h"

/* The bytes of the old story without its closing bracket; empty if there is none. */
static struct text open_story(struct text old)
{
    while (old.length > 0 && old.bytes[old.length - 1] != ']') {
        old.length--;
    }
    return old.length > 1 ? (struct text){old.bytes, old.length - 1} : TEXT_ABSENT;
}

/* Cut at a character's beginning, so that what is left stays UTF-8. */
static struct text cut_error(struct text error)
{
    if (error.length > HF_ERROR_BYTES_MAX) {
        error.length = HF_ERROR_BYTES_MAX;
        while (error.length > 0 && (error.bytes[error.length] & 0xC0) == 0x80) {
            error.length--;
        }
    }
    return error;
}

hf_status story_add(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                    struct text error, struct text node, bool counted)
{
    struct text before = open_story(old);
    if (before.length + HF_ERROR_BYTES_MAX * 6 > STORY_BYTES_MAX) {
        buf_append_text(out, old);
        return buf_status(out);
    }
    if (before.length > 0) {
        buf_append_text(out, before);
        if (before.bytes[before.length - 1] == '}') {
            buf_char(out, ',');
        }
    } else {
        buf_char(out, '[');
    }
    char at[TIME_TEXT_BYTES];
    time_format(at_us, at);
    struct json_out json;
    json_out_init(&json, out);
    json_object_begin(&json);
    json_key(&json, "attempt");
    json_int(&json, attempt);
    json_key(&json, "at");
    json_string(&json, text_of(at));
    json_key(&json, "error");
    json_string(&json, cut_error(error));
    json_key(&json, "node");
    json_string(&json, node);
    if (!counted) {
        json_key(&json, "counted");
        json_bool(&json, false);
    }
    json_object_end(&json);
    buf_char(out, ']');
    return buf_status(out);
}

bool story_ends_in_death(struct text story)
{
    static const char key[] = "\"error\":\"";
    static const char died[] = STORY_ERROR_DIED;
    const char *last = NULL;
    const char *from = story.bytes;
    const char *end = story.bytes ? story.bytes + story.length : NULL;
    /* Quotes inside an error are escaped, so the key cannot occur within one. */
    while (from && (from = memmem(from, (size_t)(end - from), key, sizeof key - 1)) != NULL) {
        from += sizeof key - 1;
        last = from;
    }
    size_t left = last ? (size_t)(end - last) : 0;
    return left >= sizeof died - 1 && memcmp(last, died, sizeof died - 1) == 0;
}
