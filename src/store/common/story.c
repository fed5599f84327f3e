/*
 * story.c - adding an attempt to a delivery's story. See story.h.
 *
 * The old story is our own JSON, an array; the new attempt goes before its closing bracket. A story
 * that would pass STORY_BYTES_MAX keeps its beginning and loses nothing but this attempt's details:
 * the count of attempts is kept elsewhere.
 */
#include "store/common/story.h"

#include <holdfast.h>

#include "base/text/json_write.h"
#include "base/text/utf8.h"
#include "base/time/time.h"

struct text story_whole(struct text stored)
{
    return text_is_absent(stored) ? (struct text)TEXT_LITERAL("[]") : stored;
}

/* The bytes of the old story without its closing bracket; empty if there is none. */
static struct text open_story(struct text old)
{
    while (old.length > 0 && old.bytes[old.length - 1] != ']') {
        old.length--;
    }
    return old.length > 1 ? (struct text){old.bytes, old.length - 1} : TEXT_ABSENT;
}

hf_status story_add(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                    struct text error, struct text node, bool counted)
{
    return story_add_unit(out, old, attempt, at_us, error, node, counted, (struct unit_mark){0});
}

hf_status story_add_unit(struct buf *out, struct text old, int32_t attempt, int64_t at_us,
                         struct text error, struct text node, bool counted, struct unit_mark unit)
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
    json_string(&json, utf8_cut(error, HF_ERROR_BYTES_MAX));
    json_key(&json, "node");
    json_string(&json, node);
    if (!counted) {
        json_key(&json, "counted");
        json_bool(&json, false);
    }
    if (unit.events > 1) {
        json_key(&json, "unit");
        json_object_begin(&json);
        json_key(&json, "first");
        json_int(&json, unit.first);
        json_key(&json, "events");
        json_int(&json, unit.events);
        json_object_end(&json);
    }
    json_object_end(&json);
    buf_char(out, ']');
    return buf_status(out);
}
