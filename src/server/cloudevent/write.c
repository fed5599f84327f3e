/*
 * write.c - events as CloudEvents, for answers, streams and webhooks. See cloudevent.h.
 *
 * What metadata.cloudevents holds may have been written by any producer, so only what can be an
 * attribute is taken from there: names of lower case letters and digits, and simple values.
 */
#include "server/cloudevent/cloudevent.h"

#include "base/banned.h"
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/time/time.h"
#include "server/cloudevent/names.h"
#include "json/fields.h"

#define SOURCE_BYTES_MAX 4096
#define NUMBER_BYTES 32

/* The object metadata.cloudevents; absent: there is none. */
static struct text kept_attributes(const hf_event *event)
{
    struct text metadata = text_of(event->metadata);
    struct text kept = TEXT_ABSENT;

    if (!metadata.bytes || json_check_object(metadata.bytes, metadata.length, NULL, "metadata") ||
        !json_find(metadata, CLOUDEVENT_KEPT, &kept) || json_kind(kept) != JSON_OBJECT) {
        return TEXT_ABSENT;
    }
    return kept;
}

/* A string that the metadata have; NULL: none. */
static const char *kept_string(struct text object, const char *name, struct buf *word)
{
    struct text raw;

    buf_clear(word);
    if (!object.bytes || !json_find(object, name, &raw) || json_kind(raw) != JSON_STRING ||
        json_string_decode(raw, word) || word->length == 0) {
        return NULL;
    }
    return buf_terminate(word);
}

static void visit_source(const hf_event *event, struct text kept, struct buf *word,
                         cloudevent_fn visit, void *ctx)
{
    const char *source = kept_string(kept, "source", word);

    if (!source) {
        const char *at = event->namespace_name ? event->namespace_name : "default";
        buf_clear(word);
        buf_printf(word, "/holdfast/");
        for (; *at; at++) {
            unsigned char c = (unsigned char)*at;
            bool plain = c > ' ' && c <= '~' && c != '"' && c != '%';
            buf_printf(word, plain ? "%c" : "%%%02X", c);
        }
        source = buf_terminate(word);
    }
    visit("source", source, true, ctx);
}

/* Attributes that have no field of their own. */
static void visit_kept(struct text kept, struct buf *word, cloudevent_fn visit, void *ctx)
{
    struct json_iter iter;
    struct text key;
    struct text raw;

    json_iter_init(&iter, kept);
    while (kept.bytes && json_iter_next(&iter, &key, &raw)) {
        char name[CLOUDEVENT_NAME_BYTES];
        int kind = json_kind(raw);
        buf_clear(word);
        if (!cloudevent_name(key, name) || cloudevent_is_field(name) ||
            (kind != JSON_STRING && kind != JSON_BOOL && !cloudevent_is_integer(raw))) {
            continue;
        }
        if (kind == JSON_STRING ? json_string_decode(raw, word) != HF_OK : false) {
            continue;
        }
        if (kind != JSON_STRING) {
            buf_append_text(word, raw);
        }
        visit(name, buf_terminate(word), kind == JSON_STRING, ctx);
    }
}

void cloudevent_attributes(const hf_event *event, cloudevent_fn visit, void *ctx)
{
    struct text kept = kept_attributes(event);
    char text[TIME_TEXT_BYTES + NUMBER_BYTES];
    struct buf word;
    const char *id;

    buf_init(&word, HF_METADATA_BYTES_MAX);
    id = kept_string(kept, "id", &word);
    visit("id", id ? id : event->id, true, ctx);
    visit_source(event, kept, &word, visit, ctx);
    visit("type", event->type, true, ctx);
    time_format(event->emitted_at_us, text);
    visit("time", text, true, ctx);
    if (event->key && event->key[0]) {
        visit("subject", event->key, true, ctx);
    }
    if (event->tenant) {
        visit("tenant", event->tenant, true, ctx);
    }
    if (event->producer) {
        visit("producer", event->producer, true, ctx);
    }
    if (event->position > 0) {
        snprintf(text, sizeof text, "%" PRId64, event->position);
        visit("position", text, true, ctx);
    }
    visit_kept(kept, &word, visit, ctx);
    buf_release(&word);
}

const char *cloudevent_content_type(const hf_event *event, struct buf *buf)
{
    const char *type = kept_string(kept_attributes(event), "datacontenttype", buf);

    return type && cloudevent_is_json(type) ? type : "application/json";
}

static void write_attribute(const char *name, const char *value, bool quoted, void *ctx)
{
    struct json_out *json = ctx;

    json_key(json, name);
    if (quoted) {
        json_string(json, text_of(value));
    } else {
        json_raw(json, text_of(value));
    }
}

void cloudevent_write(struct json_out *json, const hf_event *event)
{
    struct buf type;

    buf_init(&type, HF_METADATA_BYTES_MAX);
    json_object_begin(json);
    show_string(json, "specversion", "1.0");
    cloudevent_attributes(event, write_attribute, json);
    show_string(json, "datacontenttype", cloudevent_content_type(event, &type));
    show_raw(json, "data", event->payload, event->payload_bytes);
    json_object_end(json);
    buf_release(&type);
}
