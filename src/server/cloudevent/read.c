/*
 * read.c - CloudEvents become events to publish. See cloudevent.h.
 *
 * Failures name the attribute. Limits of types, keys and payloads are the bus's, which checks them
 * when the event is published.
 */
#include "server/cloudevent/cloudevent.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "base/time/time.h"
#include "base/uuid.h"
#include "server/cloudevent/names.h"
#include "json/trace.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define NAMES_BYTES_MAX 8192 /* of all attributes of an event */

/* ---- Attributes ------------------------------------------------------------------------------ */

void cloudevent_begin(struct cloudevent *cloudevent, struct arena *arena)
{
    *cloudevent = (struct cloudevent){.arena = arena, .event = HF_NEW_EVENT_INIT};
    buf_init(&cloudevent->names, NAMES_BYTES_MAX);
    buf_init(&cloudevent->others, HF_METADATA_BYTES_MAX);
}

/* An attribute that is there twice is read in one way here, and may be in another elsewhere. */
static hf_status note_name(struct cloudevent *cloudevent, const char *name)
{
    char word[CLOUDEVENT_NAME_BYTES + 2];

    snprintf(word, sizeof word, " %s ", name);
    if (strstr(buf_terminate(&cloudevent->names), word)) {
        return fail(HF_INVALID, "the attribute %s is there twice", name);
    }
    buf_append_text(&cloudevent->names, text_of(word));
    return cloudevent->names.failed ? fail(HF_INVALID, "there are too many attributes") : HF_OK;
}

/* One that comes out again as it is. */
static void keep(struct cloudevent *cloudevent, const char *name, struct text raw)
{
    buf_printf(&cloudevent->others, "%s\"%s\":", cloudevent->others.length ? "," : "", name);
    buf_append_text(&cloudevent->others, raw);
}

static hf_status take_time(struct cloudevent *cloudevent, const char *value)
{
    if (time_parse(text_of(value), &cloudevent->event.emitted_at_us)) {
        return fail(HF_INVALID,
                    "the attribute time is '%.64s'; it must be a time such as "
                    "2026-01-31T12:00:00Z",
                    value);
    }
    return HF_OK;
}

static hf_status take_version(struct cloudevent *cloudevent, const char *value)
{
    cloudevent->has_version = true;
    return strcmp(value, "1.0") == 0
               ? HF_OK
               : fail(HF_INVALID, "the attribute specversion is '%.64s'; it must be 1.0", value);
}

static hf_status take_content_type(struct cloudevent *cloudevent, const char *value,
                                   struct text raw)
{
    if (!cloudevent_is_json(value)) {
        return fail(HF_INVALID,
                    "the attribute datacontenttype is '%.128s'; data must be JSON: "
                    "application/json, or a type that ends with +json",
                    value);
    }
    if (strcmp(value, "application/json") != 0) {
        keep(cloudevent, "datacontenttype", raw);
    }
    return HF_OK;
}

hf_status cloudevent_attribute(struct cloudevent *cloudevent, const char *name, const char *value,
                               struct text raw)
{
    const struct {
        const char *name;
        const char **field;
    } fields[] = {
        {"id", &cloudevent->id},
        {"source", &cloudevent->source},
        {"type", &cloudevent->event.type},
        {"subject", &cloudevent->event.key},
        {"tenant", &cloudevent->event.tenant},
        {"producer", &cloudevent->event.producer},
        {"traceparent", &cloudevent->trace_parent},
        {"tracestate", &cloudevent->trace_state},
    };

    hf_status status = note_name(cloudevent, name);

    if (status) {
        return status;
    }
    if (!value[0]) {
        return fail(HF_INVALID, "the attribute %s is empty", name);
    }
    if (strcmp(name, "specversion") == 0) {
        return take_version(cloudevent, value);
    }
    if (strcmp(name, "time") == 0) {
        return take_time(cloudevent, value);
    }
    if (strcmp(name, "datacontenttype") == 0) {
        return take_content_type(cloudevent, value, raw);
    }
    if (strcmp(name, "position") == 0) {
        return HF_OK;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(name, fields[i].name) == 0) {
            *fields[i].field = arena_text(cloudevent->arena, text_of(value)).bytes;
            return arena_status(cloudevent->arena);
        }
    }
    keep(cloudevent, name, raw);
    return HF_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* A string as a member of metadata.cloudevents. */
static void keep_string(struct cloudevent *cloudevent, const char *name, const char *value)
{
    struct json_out json;
    struct buf raw;

    buf_init(&raw, HF_METADATA_BYTES_MAX);
    json_out_init(&json, &raw);
    json_string(&json, text_of(value));
    keep(cloudevent, name, buf_text(&raw));
    buf_release(&raw);
}

/* The same source and id always become the same UUID (version 8), so that an event that is sent
 * again is known. */
static hf_status make_id(const struct cloudevent *cloudevent, char ret_id[UUID_TEXT_BYTES])
{
    uint8_t digest[32];
    gnutls_hash_hd_t hash;

    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        return fail(HF_NOMEM, "out of memory");
    }
    gnutls_hash(hash, cloudevent->source, strlen(cloudevent->source) + 1);
    gnutls_hash(hash, cloudevent->id, strlen(cloudevent->id));
    gnutls_hash_deinit(hash, digest);
    digest[6] = (uint8_t)((digest[6] & 0x0f) | 0x80);
    digest[8] = (uint8_t)((digest[8] & 0x3f) | 0x80);
    uuid_format(digest, ret_id);
    return HF_OK;
}

static hf_status take_id(struct cloudevent *cloudevent)
{
    uint8_t bytes[UUID_BYTES];
    char text[UUID_TEXT_BYTES];
    bool is_uuid = uuid_parse(text_of(cloudevent->id), bytes) == HF_OK;
    hf_status status = HF_OK;

    if (is_uuid) {
        uuid_format(bytes, text);
    } else {
        status = make_id(cloudevent, text);
    }
    if (status) {
        return status;
    }
    if (strcmp(text, cloudevent->id) != 0) {
        keep_string(cloudevent, "id", cloudevent->id);
    }
    cloudevent->event.id = arena_text(cloudevent->arena, text_of(text)).bytes;
    return arena_status(cloudevent->arena);
}

static hf_status take_metadata(struct cloudevent *cloudevent)
{
    struct buf metadata;
    hf_status status;

    keep_string(cloudevent, "source", cloudevent->source);
    buf_init(&metadata, HF_METADATA_BYTES_MAX);
    buf_printf(&metadata, "{\"" CLOUDEVENT_KEPT "\":{");
    buf_append_text(&metadata, buf_text(&cloudevent->others));
    buf_printf(&metadata, "}}");
    if (buf_status(&cloudevent->others) || buf_status(&metadata)) {
        status = fail(HF_INVALID, "the attributes are longer than %d bytes in all",
                      HF_METADATA_BYTES_MAX);
    } else {
        cloudevent->event.metadata = arena_text(cloudevent->arena, buf_text(&metadata)).bytes;
        status = arena_status(cloudevent->arena);
    }
    buf_release(&metadata);
    return status ? status
                  : trace_take(cloudevent->trace_parent, cloudevent->trace_state, cloudevent->arena,
                               &cloudevent->event);
}

static hf_status check_needed(const struct cloudevent *cloudevent)
{
    const char *missing = !cloudevent->has_version  ? "specversion"
                          : !cloudevent->id         ? "id"
                          : !cloudevent->source     ? "source"
                          : !cloudevent->event.type ? "type"
                                                    : NULL;

    return missing ? fail(HF_INVALID, "the attribute %s is missing", missing) : HF_OK;
}

hf_status cloudevent_end(struct cloudevent *cloudevent, struct text data, hf_status status,
                         hf_new_event *ret_event)
{
    status = status ? status : check_needed(cloudevent);
    status = status ? status : take_id(cloudevent);
    status = status ? status : take_metadata(cloudevent);
    if (!status && data.bytes) {
        cloudevent->event.payload = data.bytes;
        cloudevent->event.payload_bytes = data.length;
    }
    buf_release(&cloudevent->names);
    buf_release(&cloudevent->others);
    if (!status) {
        *ret_event = cloudevent->event;
    }
    return status;
}

/* ---- Structured mode ------------------------------------------------------------------------- */

/* A member of the object that is not the data. */
static hf_status read_member(struct cloudevent *cloudevent, struct text key, struct text raw,
                             struct buf *word)
{
    char name[CLOUDEVENT_NAME_BYTES];
    int kind = json_kind(raw);

    if (text_equal(key, text_of("\"data_base64\""))) {
        return fail(HF_INVALID, "data_base64 cannot be stored: data must be JSON, in data");
    }
    if (!cloudevent_name(key, name)) {
        return fail(HF_INVALID,
                    "%.80s is no attribute: its name has 1 to 64 lower case letters and digits",
                    arena_text(cloudevent->arena, key).bytes);
    }
    if (kind == JSON_NULL) {
        return HF_OK;
    }
    if (kind != JSON_STRING && kind != JSON_BOOL && !cloudevent_is_integer(raw)) {
        return fail(HF_INVALID,
                    "the attribute %s must be a string, an integer of 32 bits or a boolean", name);
    }
    buf_clear(word);
    if (kind != JSON_STRING) {
        buf_append_text(word, raw);
    } else if (json_string_decode(raw, word)) {
        return fail(HF_INVALID, "the attribute %s: %s", name, err_message());
    }
    return cloudevent_attribute(cloudevent, name, buf_terminate(word), raw);
}

hf_status cloudevent_scan(struct json_scan *scan, const char *what, struct arena *arena,
                          hf_new_event *ret_event)
{
    struct cloudevent cloudevent;
    struct text data = TEXT_ABSENT;
    struct text key;
    struct text raw;
    struct buf word;
    hf_status status = json_scan_object(scan, what);

    if (status) {
        return status;
    }
    cloudevent_begin(&cloudevent, arena);
    buf_init(&word, (size_t)(scan->end - scan->at) + 1);
    while (!status && json_scan_next(scan, &key, &raw)) {
        if (text_equal(key, text_of("\"data\""))) {
            status = data.bytes ? fail(HF_INVALID, "data is there twice") : HF_OK;
            data = raw;
        } else {
            status = read_member(&cloudevent, key, raw, &word);
        }
    }
    if (!status && scan->reason) {
        status = json_scan_failure(scan, what);
    }
    buf_release(&word);
    return cloudevent_end(&cloudevent, data, status, ret_event);
}

hf_status cloudevent_read(struct text object, const char *what, struct arena *arena,
                          hf_new_event *ret_event)
{
    struct json_scan scan;
    hf_status status;

    json_scan_begin(&scan, object, HF_JSON_DEPTH_MAX + 1); /* it is one level more */
    status = cloudevent_scan(&scan, what, arena, ret_event);
    return status || json_scan_end(&scan) ? status : json_scan_failure(&scan, what);
}

/* ---- Binary mode ----------------------------------------------------------------------------- */

const char *cloudevent_header(const char *value, struct arena *arena)
{
    size_t length = strlen(value);
    bool quoted = length >= 2 && value[0] == '"' && value[length - 1] == '"';
    const char *end = value + length - quoted;
    char *text = arena_alloc(arena, length + 1);
    size_t count = 0;

    for (const char *at = value + quoted; text && at < end; at++) {
        int32_t byte = *at == '%' && end - at > 2 ? hex_number(at + 1, 2) : -1;
        if (quoted && *at == '\\' && at + 1 < end) {
            text[count++] = *++at;
        } else if (byte >= 0) {
            text[count++] = (char)byte;
            at += 2;
        } else {
            text[count++] = *at;
        }
    }
    if (!text || !utf8_is_valid((struct text){text, count}) || memchr(text, '\0', count)) {
        return NULL;
    }
    text[count] = '\0';
    return text;
}
