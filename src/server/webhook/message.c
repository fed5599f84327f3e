/*
 * message.c - see message.h.
 *
 * Which attributes an event has as a CloudEvent: see server/cloudevent/cloudevent.h. In binary mode
 * their values are percent-encoded as the specification demands, so a header is always
 * printable ASCII.
 */
#include "server/webhook/message.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/text/hex.h"
#include "cli/webhook/trace.h"
#include "server/cloudevent/cloudevent.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define LINES_BYTES_MAX 65536
#define BODY_BYTES_MAX SIZE_MAX / 4
#define ID_BYTES 64
#define BATCH_ID_DIGITS 32
#define SIGNATURE_BYTES_MAX 1024
#define OTHER_HEADERS_MAX 16 /* besides attributes */
#define ATTRIBUTES_MAX (MESSAGE_HEADERS_MAX - OTHER_HEADERS_MAX)
#define ATTRIBUTES_BYTES_MAX 8192 /* of all attributes as headers; common servers take as much */

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

/* What is not printable ASCII, and space, quote and percent, becomes %XX. */
static bool is_encoded(unsigned char c)
{
    return c <= ' ' || c > '~' || c == '"' || c == '%';
}

static size_t encoded_length(const char *text)
{
    size_t length = 0;

    for (; *text; text++) {
        length += is_encoded((unsigned char)*text) ? 3 : 1;
    }
    return length;
}

static void append_encoded(struct buf *buf, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (is_encoded(c)) {
            buf_printf(buf, "%%%02X", c);
        } else {
            buf_char(buf, (char)c);
        }
    }
}

/* A media type is ASCII; anything else of one that was published is left out. */
static void append_content_type(struct buf *buf, const char *type)
{
    for (; *type; type++) {
        if (*type >= ' ' && *type <= '~') {
            buf_char(buf, *type);
        }
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

static void add_ce(const char *name, const char *value, bool quoted, void *ctx)
{
    struct message *message = ctx;

    (void)quoted;
    message->header_count++;
    buf_printf(&message->lines, "ce-%s: ", name);
    append_encoded(&message->lines, value);
    end_header(message);
}

/* What the attributes of an event take as headers. */
struct extent {
    size_t count;
    size_t bytes;
};

static void measure_attribute(const char *name, const char *value, bool quoted, void *ctx)
{
    struct extent *extent = ctx;

    (void)quoted;
    extent->count++;
    extent->bytes += strlen("ce-: ") + strlen(name) + encoded_length(value);
}

static bool fits_headers(const hf_event *event)
{
    struct extent extent = {0, 0};

    cloudevent_attributes(event, measure_attribute, &extent);
    return extent.count <= ATTRIBUTES_MAX && extent.bytes <= ATTRIBUTES_BYTES_MAX;
}

static void add_binary(struct message *message, const hf_event *event)
{
    struct buf type;

    buf_init(&type, LINES_BYTES_MAX);
    begin_header(message, "content-type");
    append_content_type(&message->lines, cloudevent_content_type(event, &type));
    end_header(message);
    buf_release(&type);
    add_header(message, "ce-specversion", "1.0");
    cloudevent_attributes(event, add_ce, message);
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
        cloudevent_write(&json, events[i]);
    }
    buf_char(body, ']');
}

static void add_events(struct message *message, const hf_event *const *events, size_t count,
                       bool batch, bool structured)
{
    struct json_out json;

    if (batch) {
        add_header(message, "content-type", CLOUDEVENT_BATCH_TYPE "; charset=UTF-8");
        write_batch(&message->own, events, count);
    } else if (structured || !fits_headers(events[0])) {
        add_header(message, "content-type", CLOUDEVENT_TYPE "; charset=UTF-8");
        json_out_init(&json, &message->own);
        cloudevent_write(&json, events[0]);
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
    *hex_write(ret_id + length, digest, BATCH_ID_DIGITS / 2) = '\0';
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
