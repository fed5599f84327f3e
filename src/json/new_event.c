/*
 * new_event.c - see new_event.h.
 *
 * The object as a whole is checked once; its members are then slices of it. Strings are decoded,
 * the payload and the metadata are copied byte for byte. The bus checks limits again: it is the
 * authority, this file only finds the text.
 */
#include "json/new_event.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/text/suggest.h"
#include "base/time/time.h"

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

static const char *const field_names[FIELD_COUNT] = {
    "type",        "payload",     "id",
    "key",         "tenant",      "metadata",
    "producer",    "emitted_at",  "expected_version",
    "unique",      "unique_for",  "deliver_at",
    "replace",     "position",    "entered_at",
    "key_version", "schedule_id", "namespace",
    "deliveries"};

/* What one line is read into. */
struct reading {
    struct arena *arena;
    struct buf *word; /* for decoding */
    hf_new_event *event;
};

static hf_status read_string(struct reading *reading, const char *name, struct text raw,
                             const char **ret_string)
{
    struct text copy;

    if (json_kind(raw) != JSON_STRING) {
        return fail(HF_INVALID, "\"%s\" is not a string", name);
    }
    buf_clear(reading->word);
    if (json_string_decode(raw, reading->word) != HF_OK) {
        return fail(HF_INVALID, "\"%s\": %s", name, err_message());
    }
    copy = arena_text(reading->arena, buf_text(reading->word));
    *ret_string = copy.bytes;
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
    struct text copy;

    if (field == FIELD_PAYLOAD) {
        copy = arena_text(reading->arena, raw);
        event->payload = copy.bytes;
        event->payload_bytes = copy.length;
        return arena_status(reading->arena);
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

static hf_status unknown_field(const char *name)
{
    struct suggest suggest;

    suggest_init(&suggest, name);
    for (size_t i = 0; i < FIELD_IGNORED; i++) {
        suggest_offer(&suggest, field_names[i]);
    }
    if (suggest.best) {
        return fail(HF_INVALID, "there is no field \"%.64s\"; did you mean \"%s\"?", name,
                    suggest.best);
    }
    return fail(
        HF_INVALID,
        "there is no field \"%.64s\"; an event has type, payload, id, key, tenant, metadata, "
        "producer, emitted_at, expected_version, unique, unique_for, deliver_at, replace",
        name);
}

static hf_status read_members(struct reading *reading, struct text object)
{
    struct json_iter iter;
    struct text key;
    struct text raw;
    uint32_t seen = 0;

    json_iter_init(&iter, object);
    while (json_iter_next(&iter, &key, &raw)) {
        hf_status status;
        size_t field = 0;
        buf_clear(reading->word);
        if (json_string_decode(key, reading->word) != HF_OK) {
            return fail(HF_INVALID, "a field's name cannot be read: %s", err_message());
        }
        while (field < FIELD_COUNT &&
               !text_equal(buf_text(reading->word), text_of(field_names[field]))) {
            field++;
        }
        if (field == FIELD_COUNT) {
            return unknown_field(buf_terminate(reading->word));
        }
        if (seen & (UINT32_C(1) << field)) {
            return fail(HF_INVALID, "\"%s\" is there twice", field_names[field]);
        }
        seen |= UINT32_C(1) << field;
        status = read_field(reading, (enum field)field, raw);
        if (status) {
            return status;
        }
    }
    if (!(seen & (UINT32_C(1) << FIELD_TYPE))) {
        return fail(HF_INVALID, "\"type\" is missing");
    }
    return HF_OK;
}

hf_status new_event_read(struct text object, const char *what, struct arena *arena,
                         hf_new_event *ret_event)
{
    const struct json_limits limits = {0, HF_JSON_DEPTH_MAX + 1}; /* it is one level more */
    hf_new_event event = HF_NEW_EVENT_INIT;
    struct buf word;
    struct reading reading = {arena, &word, &event};
    hf_status status = json_check_object(object.bytes, object.length, &limits, what);

    if (status) {
        return status;
    }
    buf_init(&word, object.length + 1);
    status = read_members(&reading, object);
    buf_release(&word);
    if (!status) {
        *ret_event = event;
    }
    return status;
}
