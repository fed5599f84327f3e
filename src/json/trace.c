/*
 * trace.c - see trace.h.
 */
#include "json/trace.h"

#include "base/banned.h"
#include "base/text/buf.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"

#define PARENT_BYTES 55 /* of version 00: 2-32-16-2 digits */
#define STATE_MEMBERS_MAX 32
#define STATE_KEY_BYTES_MAX 256
#define STATE_VALUE_BYTES_MAX 256

/* ---- Rules ----------------------------------------------------------------------------------- */

/* So many lower case digits, not all of them 0 if `not_zero`. */
static bool is_hex(const char *at, size_t length, bool not_zero)
{
    bool zero = true;

    for (size_t i = 0; i < length; i++) {
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) {
            return false;
        }
        zero = zero && at[i] == '0';
    }
    return !(zero && not_zero);
}

/* What all versions begin with: digits of 2-32-16-2, the second and third not all 0. */
static bool has_ids(const char *at)
{
    return is_hex(at, 2, false) && at[2] == '-' && is_hex(at + 3, 32, true) && at[35] == '-' &&
           is_hex(at + 36, 16, true) && at[52] == '-' && is_hex(at + 53, 2, false);
}

bool trace_parent_is_valid(struct text text)
{
    const char *at = text.bytes;

    if (text.length < PARENT_BYTES || text.length > TRACE_PARENT_BYTES_MAX || !has_ids(at) ||
        memcmp(at, "ff", 2) == 0) {
        return false;
    }
    if (text.length == PARENT_BYTES) {
        return true;
    }
    for (size_t i = PARENT_BYTES; i < text.length; i++) {
        if (at[i] < '!' || at[i] > '~') {
            return false;
        }
    }
    return memcmp(at, "00", 2) != 0 && at[PARENT_BYTES] == '-'; /* later versions may have more */
}

static bool is_state_key(struct text key)
{
    if (key.length == 0 || key.length > STATE_KEY_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < key.length; i++) {
        char c = key.bytes[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || !strchr("_-*/@", c) || !c)) {
            return false;
        }
    }
    return true;
}

static bool is_state_value(struct text value)
{
    if (value.length == 0 || value.length > STATE_VALUE_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < value.length; i++) {
        char c = value.bytes[i];
        if (c < ' ' || c > '~' || c == '=') {
            return false;
        }
    }
    return true;
}

static struct text trim(struct text text)
{
    while (text.length > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t')) {
        text.bytes++;
        text.length--;
    }
    while (text.length > 0 &&
           (text.bytes[text.length - 1] == ' ' || text.bytes[text.length - 1] == '\t')) {
        text.length--;
    }
    return text;
}

bool trace_state_is_valid(struct text text)
{
    size_t members = 0;

    if (text.length == 0 || text.length > TRACE_STATE_BYTES_MAX) {
        return false;
    }
    while (text.length > 0) {
        struct text member = trim(text_cut(&text, ','));
        const char *equals = memchr(member.bytes, '=', member.length);
        if (member.length > 0) { /* empty ones are allowed */
            size_t key = equals ? (size_t)(equals - member.bytes) : 0;
            if (!equals || !is_state_key((struct text){member.bytes, key}) ||
                !is_state_value((struct text){equals + 1, member.length - key - 1})) {
                return false;
            }
            members++;
        }
    }
    return members > 0 && members <= STATE_MEMBERS_MAX;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

/* The object with the trace as its last members: what stands before its end stays as it is. */
static void write_with(struct buf *buf, struct text object, struct text parent, struct text state)
{
    struct json_iter iter;
    struct text value;
    struct json_out json;
    bool more;

    json_iter_init(&iter, object);
    more = json_iter_next(&iter, NULL, &value);
    while (object.bytes[object.length - 1] != '}') {
        object.length--; /* white space */
    }
    buf_append(buf, object.bytes, object.length - 1);
    json_out_init(&json, buf);
    json.comma = more;
    json_key(&json, "traceparent");
    json_string(&json, parent);
    if (state.bytes) {
        json_key(&json, "tracestate");
        json_string(&json, state);
    }
    buf_char(buf, '}');
}

hf_status trace_take(const char *parent, const char *state, struct arena *arena,
                     hf_new_event *event)
{
    struct text object = text_of(event->metadata ? event->metadata : "{}");
    struct text with_state = text_of(state);
    struct text there;
    struct buf buf;
    hf_status status;

    if (!parent || !trace_parent_is_valid(text_of(parent)) ||
        json_check_object(object.bytes, object.length, NULL, "metadata") ||
        json_find(object, "traceparent", &there)) {
        return HF_OK; /* metadata that are wrong are refused by the bus */
    }
    if (state && (!trace_state_is_valid(with_state) || json_find(object, "tracestate", &there))) {
        with_state = TEXT_ABSENT;
    }
    buf_init(&buf, object.length + TRACE_PARENT_BYTES_MAX + TRACE_STATE_BYTES_MAX * 2 + 64);
    write_with(&buf, object, text_of(parent), with_state);
    status = buf_status(&buf);
    if (!status) {
        event->metadata = arena_text(arena, buf_text(&buf)).bytes;
        status = arena_status(arena);
    }
    buf_release(&buf);
    return status;
}
