/*
 * new_event.c - see new_event.h.
 *
 * The text is checked while its members are taken. Strings are decoded, the metadata are copied
 * byte for byte, the payload stays where it is. The bus checks limits again: it is the authority,
 * this file only finds the text.
 */
#include "json/new_event.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/json_scan.h"
#include "base/text/suggest.h"
#include "base/time/time.h"

#define UNKNOWN_SHOWN 64 /* bytes of a name that is none */

enum field {
    FIELD_TYPE,
    FIELD_PAYLOAD,
    FIELD_ID,
    FIELD_KEY,
    FIELD_TENANT,
    FIELD_METADATA,
    FIELD_PRODUCER,
    FIELD_EMITTED_AT,
    FIELD_EXPECTED_VERSION,
    FIELD_UNIQUE,
    FIELD_UNIQUE_FOR,
    FIELD_DELIVER_AT,
    FIELD_REPLACE,
    FIELD_IGNORED, /* the first of those that are only printed */
    FIELD_COUNT = FIELD_IGNORED + 6
};

static const struct text field_names[FIELD_COUNT] = {
    TEXT_LITERAL("type"),        TEXT_LITERAL("payload"),     TEXT_LITERAL("id"),
    TEXT_LITERAL("key"),         TEXT_LITERAL("tenant"),      TEXT_LITERAL("metadata"),
    TEXT_LITERAL("producer"),    TEXT_LITERAL("emitted_at"),  TEXT_LITERAL("expected_version"),
    TEXT_LITERAL("unique"),      TEXT_LITERAL("unique_for"),  TEXT_LITERAL("deliver_at"),
    TEXT_LITERAL("replace"),     TEXT_LITERAL("position"),    TEXT_LITERAL("entered_at"),
    TEXT_LITERAL("key_version"), TEXT_LITERAL("schedule_id"), TEXT_LITERAL("namespace"),
    TEXT_LITERAL("deliveries")};

/* What one line is read into. */
struct reading {
    struct arena *arena;
    struct buf *word; /* for decoding */
    hf_new_event *event;
};

/* The characters of a raw string, in the raw string itself if none is escaped, else in the word. */
static hf_status decode(struct reading *reading, struct text raw, struct text *ret_text)
{
    hf_status status;

    if (!memchr(raw.bytes, '\\', raw.length)) {
        *ret_text = (struct text){raw.bytes + 1, raw.length - 2};
        return HF_OK;
    }
    buf_clear(reading->word);
    status = json_string_decode(raw, reading->word);
    *ret_text = buf_text(reading->word);
    return status;
}

static hf_status read_string(struct reading *reading, const char *name, struct text raw,
                             const char **ret_string)
{
    struct text decoded;

    if (json_kind(raw) != JSON_STRING) {
        return fail(HF_INVALID, "\"%s\" is not a string", name);
    }
    if (decode(reading, raw, &decoded)) {
        return fail(HF_INVALID, "\"%s\": %s", name, err_message());
    }
    *ret_string = arena_text(reading->arena, decoded).bytes;
    return arena_status(reading->arena);
}

static hf_status read_time(struct reading *reading, const char *name, struct text raw,
                           int64_t *ret_us)
{
    const char *string = NULL;
    hf_status status = read_string(reading, name, raw, &string);

    if (status) {
        return status;
    }
    if (time_parse(text_of(string), ret_us) != HF_OK) {
        return fail(HF_INVALID, "\"%s\" is not a time such as 2026-01-31T12:00:00Z", name);
    }
    return HF_OK;
}

static hf_status read_unique_for(struct reading *reading, struct text raw)
{
    const char *string = NULL;
    hf_status status = read_string(reading, "unique_for", raw, &string);

    if (status) {
        return status;
    }
    if (duration_parse(text_of(string), &reading->event->unique_for_ms) != HF_OK) {
        return fail(HF_INVALID, "\"unique_for\" is not a duration such as 10m or 1h30m");
    }
    return HF_OK;
}

/* The fields that say how often it is stored, and when it enters the log. */
static hf_status read_terms(struct reading *reading, enum field field, struct text raw)
{
    hf_new_event *event = reading->event;

    switch (field) {
    case FIELD_UNIQUE:
        return read_string(reading, "unique", raw, &event->unique);
    case FIELD_UNIQUE_FOR:
        return read_unique_for(reading, raw);
    case FIELD_DELIVER_AT:
        return read_time(reading, "deliver_at", raw, &event->deliver_at_us);
    case FIELD_REPLACE:
        if (json_kind(raw) != JSON_BOOL) {
            return fail(HF_INVALID, "\"replace\" is not true or false");
        }
        event->replace = raw.bytes[0] == 't';
        return HF_OK;
    case FIELD_EXPECTED_VERSION:
        if (json_int_decode(raw, &event->expected_version) != HF_OK ||
            event->expected_version < 0) {
            return fail(HF_INVALID, "\"expected_version\" is not a whole number from 0");
        }
        return HF_OK;
    default:
        return HF_OK;
    }
}

static hf_status read_field(struct reading *reading, enum field field, struct text raw)
{
    hf_new_event *event = reading->event;

    if (field == FIELD_PAYLOAD) {
        event->payload = raw.bytes;
        event->payload_bytes = raw.length;
        return HF_OK;
    }
    if (json_kind(raw) == JSON_NULL) {
        return field == FIELD_TYPE ? fail(HF_INVALID, "\"type\" is null") : HF_OK;
    }
    switch (field) {
    case FIELD_TYPE:
        return read_string(reading, "type", raw, &event->type);
    case FIELD_ID:
        return read_string(reading, "id", raw, &event->id);
    case FIELD_KEY:
        return read_string(reading, "key", raw, &event->key);
    case FIELD_TENANT:
        return read_string(reading, "tenant", raw, &event->tenant);
    case FIELD_PRODUCER:
        return read_string(reading, "producer", raw, &event->producer);
    case FIELD_METADATA:
        if (json_kind(raw) != JSON_OBJECT) {
            return fail(HF_INVALID, "\"metadata\" is not an object");
        }
        event->metadata = arena_text(reading->arena, raw).bytes;
        return arena_status(reading->arena);
    case FIELD_EMITTED_AT:
        return read_time(reading, "emitted_at", raw, &event->emitted_at_us);
    default:
        return read_terms(reading, field, raw);
    }
}

static hf_status unknown_field(struct text key)
{
    struct suggest suggest;
    char name[UNKNOWN_SHOWN + 1];

    snprintf(name, sizeof name, "%" TEXT_PRI, TEXT_ARG(key));
    suggest_init(&suggest, name);
    for (size_t i = 0; i < FIELD_IGNORED; i++) {
        suggest_offer(&suggest, field_names[i].bytes);
    }
    if (suggest.best) {
        return fail(HF_INVALID, "there is no field \"%s\"; did you mean \"%s\"?", name,
                    suggest.best);
    }
    return fail(HF_INVALID,
                "there is no field \"%s\"; an event has type, payload, id, key, tenant, metadata, "
                "producer, emitted_at, expected_version, unique, unique_for, deliver_at, replace",
                name);
}

/* Which field a raw key names. */
static hf_status find_field(struct reading *reading, struct text key, size_t *ret_field)
{
    struct text name;
    size_t field = 0;

    if (decode(reading, key, &name)) {
        return fail(HF_INVALID, "a field's name cannot be read: %s", err_message());
    }
    while (field < FIELD_COUNT && !text_equal(name, field_names[field])) {
        field++;
    }
    *ret_field = field;
    return field < FIELD_COUNT ? HF_OK : unknown_field(name);
}

static hf_status read_members(struct reading *reading, struct json_scan *scan)
{
    struct text key;
    struct text raw;
    uint32_t seen = 0;

    while (json_scan_next(scan, &key, &raw)) {
        size_t field = FIELD_COUNT;
        hf_status status = find_field(reading, key, &field);
        if (status) {
            return status;
        }
        if (seen & (UINT32_C(1) << field)) {
            return fail(HF_INVALID, "\"%s\" is there twice", field_names[field].bytes);
        }
        seen |= UINT32_C(1) << field;
        status = read_field(reading, (enum field)field, raw);
        if (status) {
            return status;
        }
    }
    if (!scan->reason && !(seen & (UINT32_C(1) << FIELD_TYPE))) {
        return fail(HF_INVALID, "\"type\" is missing");
    }
    return HF_OK;
}

hf_status new_event_scan(struct json_scan *scan, const char *what, struct arena *arena,
                         hf_new_event *ret_event)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    struct buf word;
    struct reading reading = {arena, &word, &event};
    hf_status status = json_scan_object(scan, what);

    if (status) {
        return status;
    }
    buf_init(&word, (size_t)(scan->end - scan->at) + 1);
    status = read_members(&reading, scan);
    buf_release(&word);
    if (!status && scan->reason) {
        status = json_scan_failure(scan, what);
    }
    if (!status) {
        *ret_event = event;
    }
    return status;
}

hf_status new_event_read(struct text object, const char *what, struct arena *arena,
                         hf_new_event *ret_event)
{
    struct json_scan scan;
    hf_status status;

    json_scan_begin(&scan, object, HF_JSON_DEPTH_MAX + 1); /* it is one level more */
    status = new_event_scan(&scan, what, arena, ret_event);
    return status || json_scan_end(&scan) ? status : json_scan_failure(&scan, what);
}
