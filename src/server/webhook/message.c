/*
 * message.c - see message.h.
 *
 * The attributes of a CloudEvent: id, type, source ("/holdfast/NAMESPACE"), time (when the producer
 * says that it happened), subject (the key), and the extensions tenant, producer and position. In
 * binary mode their values are percent-encoded as the specification demands, so a header is always
 * printable ASCII.
 */
#include "server/webhook/message.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/time/time.h"
#include "cli/webhook/trace.h"
#include "json/fields.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define LINES_BYTES_MAX 65536
#define BODY_BYTES_MAX SIZE_MAX / 4
#define ID_BYTES 64
#define BATCH_ID_DIGITS 32
#define SIGNATURE_BYTES_MAX 1024

/* ---- Headers --------------------------------------------------------------------------------- */

/* Begins a header; its value is appended to message->lines, and end_header ends it. */
static void begin_header(struct message *message, const char *name)
{
    message->header_count++;
    buf_printf(&message->lines, "%s: ", name);
}

static void end_header(struct message *message)
{
    buf_char(&message->lines, '\0');
}

static void add_header(struct message *message, const char *name, const char *value)
{
    begin_header(message, name);
    buf_append(&message->lines, value, strlen(value));
    end_header(message);
}

/* What is not printable ASCII, and space, quote and percent, as %XX. */
static void append_encoded(struct buf *buf, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c > '~' || c == '"' || c == '%') {
            buf_printf(buf, "%%%02X", c);
        } else {
            buf_char(buf, (char)c);
        }
    }
}

static void add_attribute(struct message *message, const char *name, const char *value)
{
    if (value) {
        begin_header(message, name);
        append_encoded(&message->lines, value);
        end_header(message);
    }
}

/* The lines do not move any more: finds where each begins. */
static void point_headers(struct message *message)
{
    const char *at = message->lines.bytes;

    for (size_t i = 0; i < message->header_count; i++) {
        message->headers[i] = at;
        at += strlen(at) + 1;
    }
}

/* ---- CloudEvents ----------------------------------------------------------------------------- */

static void append_source(struct buf *buf, const hf_event *event)
{
    buf_printf(buf, "/holdfast/");
    append_encoded(buf, event->namespace_name ? event->namespace_name : "default");
}

static void add_binary(struct message *message, const hf_event *event)
{
    char time[TIME_TEXT_BYTES];
    char position[32];

    time_format(event->emitted_at_us, time);
    snprintf(position, sizeof position, "%" PRId64, event->position);
    add_header(message, "content-type", "application/json");
    add_header(message, "ce-specversion", "1.0");
    add_attribute(message, "ce-id", event->id);
    begin_header(message, "ce-source");
    append_source(&message->lines, event);
    end_header(message);
    add_attribute(message, "ce-type", event->type);
    add_attribute(message, "ce-time", time);
    add_attribute(message, "ce-subject", event->key && event->key[0] ? event->key : NULL);
    add_attribute(message, "ce-tenant", event->tenant);
    add_attribute(message, "ce-producer", event->producer);
    add_attribute(message, "ce-position", position);
}

static void write_structured(struct json_out *json, const hf_event *event)
{
    char position[32];
    struct buf source;

    buf_init(&source, LINES_BYTES_MAX);
    append_source(&source, event);
    snprintf(position, sizeof position, "%" PRId64, event->position);
    json_object_begin(json);
    show_string(json, "specversion", "1.0");
    show_string(json, "id", event->id);
    show_string(json, "source", buf_terminate(&source));
    show_string(json, "type", event->type);
    show_time(json, "time", event->emitted_at_us);
    if (event->key && event->key[0]) {
        show_string(json, "subject", event->key);
    }
    if (event->tenant) {
        show_string(json, "tenant", event->tenant);
    }
    if (event->producer) {
        show_string(json, "producer", event->producer);
    }
    show_string(json, "position", position);
    show_string(json, "datacontenttype", "application/json");
    show_raw(json, "data", event->payload, event->payload_bytes);
    json_object_end(json);
    buf_release(&source);
}

static void write_batch(struct buf *body, const hf_event *const *events, size_t count)
{
    buf_char(body, '[');
    for (size_t i = 0; i < count; i++) {
        struct json_out json;
        if (i > 0) {
            buf_char(body, ',');
        }
        json_out_init(&json, body);
        write_structured(&json, events[i]);
    }
    buf_char(body, ']');
}

static void add_events(struct message *message, const hf_event *const *events, size_t count,
                       bool batch, bool structured)
{
    struct json_out json;

    if (batch) {
        add_header(message, "content-type", "application/cloudevents-batch+json; charset=UTF-8");
        write_batch(&message->own, events, count);
    } else if (structured) {
        add_header(message, "content-type", "application/cloudevents+json; charset=UTF-8");
        json_out_init(&json, &message->own);
        write_structured(&json, events[0]);
    } else {
        add_binary(message, events[0]);
        message->body = (struct text){events[0]->payload, events[0]->payload_bytes};
        return;
    }
    message->body = buf_text(&message->own);
}

/* ---- Standard Webhooks ----------------------------------------------------------------------- */

/* The event's id; of a batch a digest of its events' ids, which is the same for the same events. */
static hf_status make_id(const hf_event *const *events, size_t count, bool batch,
                         char ret_id[ID_BYTES])
{
    unsigned char digest[32];
    gnutls_hash_hd_t hash;
    size_t length;

    if (!batch) {
        snprintf(ret_id, ID_BYTES, "%s", events[0]->id);
        return HF_OK;
    }
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        return fail(HF_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        gnutls_hash(hash, events[i]->id, strlen(events[i]->id));
    }
    gnutls_hash_deinit(hash, digest);
    length = (size_t)snprintf(ret_id, ID_BYTES, "batch_");
    for (size_t i = 0; i < BATCH_ID_DIGITS / 2; i++) {
        length += (size_t)snprintf(ret_id + length, ID_BYTES - length, "%02x", digest[i]);
    }
    return HF_OK;
}

static hf_status add_signature(struct message *message, const char *id, int64_t now_us,
                               struct secrets *secrets)
{
    int64_t now_s = now_us / 1000000;
    char timestamp[32];
    struct buf value;
    hf_status status;

    snprintf(timestamp, sizeof timestamp, "%" PRId64, now_s);
    add_header(message, "webhook-id", id);
    add_header(message, "webhook-timestamp", timestamp);
    if (!secrets) {
        return HF_OK;
    }
    buf_init(&value, SIGNATURE_BYTES_MAX);
    status = secrets_sign(secrets, id, now_s, message->body, &value);
    if (!status) {
        add_header(message, "webhook-signature", buf_terminate(&value));
    }
    buf_release(&value);
    return status;
}

static void add_trace(struct message *message, const hf_event *event)
{
    struct event_trace trace;

    if (event_trace(event, &trace)) {
        add_header(message, "traceparent", trace.parent);
        if (trace.state[0]) {
            add_header(message, "tracestate", trace.state);
        }
    }
}

hf_status message_init(struct message *message, const hf_event *const *events, size_t count,
                       bool batch, bool structured, struct secrets *secrets, int64_t now_us)
{
    char id[ID_BYTES];
    hf_status status = make_id(events, count, batch, id);

    *message = (struct message){.header_count = 0};
    buf_init(&message->lines, LINES_BYTES_MAX);
    buf_init(&message->own, BODY_BYTES_MAX);
    add_header(message, "user-agent", "holdfast/" HF_VERSION);
    add_header(message, "expect", ""); /* libcurl sends none then */
    add_header(message, "accept", "*/*");
    add_events(message, events, count, batch, structured);
    if (!batch) {
        add_trace(message, events[0]);
    }
    status = status ? status : buf_status(&message->own);
    status = status ? status : add_signature(message, id, now_us, secrets);
    status = status ? status : buf_status(&message->lines);
    if (status) {
        message_release(message);
        return status;
    }
    point_headers(message);
    return HF_OK;
}

void message_release(struct message *message)
{
    buf_release(&message->lines);
    buf_release(&message->own);
}
