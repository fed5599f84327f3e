/*
 * fields.c - fields of a JSON object. See fields.h.
 *
 * A payload is embedded as it was published, so that a number never goes through a float. Two
 * things are changed on the way, neither of which changes the value: line ends and tabs between
 * tokens become spaces (one object is one line), and characters that could steer a terminal, which
 * JSON allows inside strings, become escapes.
 */
#include "json/fields.h"

#include "base/banned.h"
#include "base/text/utf8.h"
#include "base/time/time.h"

void show_string(struct json_out *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, text_of(value));
}

void show_int(struct json_out *json, const char *key, int64_t value)
{
    json_key(json, key);
    if (value == -1) {
        json_null(json);
    } else {
        json_int(json, value);
    }
}

void show_bool(struct json_out *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void show_double(struct json_out *json, const char *key, double value)
{
    json_key(json, key);
    if (value < 0) {
        json_null(json);
    } else {
        json_double(json, value);
    }
}

void show_time(struct json_out *json, const char *key, int64_t us)
{
    char text[TIME_TEXT_BYTES];

    json_key(json, key);
    if (us == -1) {
        json_null(json);
        return;
    }
    time_format(us, text);
    json_string(json, text_of(text));
}

/* Whether a character of published JSON is written differently. */
static bool needs_care(uint32_t code)
{
    return utf8_is_control(code) || code == 0x2028 || code == 0x2029;
}

void show_raw(struct json_out *json, const char *key, const char *bytes, size_t length)
{
    struct buf safe;
    size_t kept = 0; /* bytes before this are in `safe` */
    size_t at = 0;

    json_key(json, key);
    if (!bytes) {
        json_null(json);
        return;
    }
    buf_init(&safe, length * 6 + 1);
    while (at < length) {
        uint32_t code = 0;
        size_t size = utf8_decode(bytes + at, length - at, &code);
        size = size ? size : 1;
        if (needs_care(code)) {
            buf_append(&safe, bytes + kept, at - kept);
            if (code == '\n' || code == '\r' || code == '\t') {
                buf_char(&safe, ' ');
            } else {
                buf_printf(&safe, "\\u%04x", (unsigned)code);
            }
            kept = at + size;
        }
        at += size;
    }
    if (kept == 0) {
        json_raw(json, (struct text){bytes, length});
    } else {
        buf_append(&safe, bytes + kept, length - kept);
        if (safe.failed && !json->buf->failed) {
            json->buf->failed = safe.failed; /* no memory: the line as a whole has failed */
        }
        json_raw(json, buf_text(&safe));
    }
    buf_release(&safe);
}

const char *show_choice_word(const char *choices, int value, char *ret_word, size_t bytes)
{
    const char *at = choices;

    for (int i = 1; i < value && *at; i++) {
        at += strcspn(at, "|");
        at += *at == '|';
    }
    if (value >= 1) {
        snprintf(ret_word, bytes, "%.*s", (int)strcspn(at, "|"), at);
    } else {
        snprintf(ret_word, bytes, "-");
    }
    return ret_word;
}

void show_choice(struct json_out *json, const char *key, const char *choices, int value)
{
    char word[32];

    json_key(json, key);
    if (value < 1) {
        json_null(json);
    } else {
        json_string(json, text_of(show_choice_word(choices, value, word, sizeof word)));
    }
}

void show_id(struct json_out *json, const char *key, int64_t id)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%" PRId64, id);
    show_string(json, key, id == -1 ? NULL : digits);
}

void show_json(struct json_out *json, const char *key, const char *text)
{
    show_raw(json, key, text, text ? strlen(text) : 0);
}
