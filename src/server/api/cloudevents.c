/*
 * cloudevents.c - requests that publish CloudEvents: in structured mode, as a batch, or in binary
 * mode, where the attributes are headers ce-* and the body is the data.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/text/json_check.h"
#include "server/api/publish.h"
#include "server/cloudevent/names.h"

#include <microhttpd.h>
#include <strings.h>

#define PREFIX "ce-"

enum mode publish_mode(const struct exchange *exchange)
{
    const char *type = exchange_header(exchange, "Content-Type");
    size_t length = type ? strcspn(type, "; \t") : 0;

    if (length == strlen(CLOUDEVENT_TYPE) && strncasecmp(type, CLOUDEVENT_TYPE, length) == 0) {
        return MODE_STRUCTURED;
    }
    if (length == strlen(CLOUDEVENT_BATCH_TYPE) &&
        strncasecmp(type, CLOUDEVENT_BATCH_TYPE, length) == 0) {
        return MODE_BATCH;
    }
    if (length > 23 && strncasecmp(type, "application/cloudevents", 23) == 0) {
        return MODE_UNKNOWN;
    }
    return exchange_header(exchange, PREFIX "specversion") ? MODE_BINARY : MODE_NATIVE;
}

/* ---- Binary mode ----------------------------------------------------------------------------- */

struct taking {
    struct cloudevent cloudevent;
    hf_status status;
};

/* The attribute as JSON has it. */
static hf_status take_string(struct cloudevent *cloudevent, const char *name, const char *value)
{
    struct json_out json;
    struct buf raw;
    hf_status status;

    buf_init(&raw, HF_METADATA_BYTES_MAX);
    json_out_init(&json, &raw);
    json_string(&json, text_of(value));
    status = buf_status(&raw);
    if (!status) {
        status = cloudevent_attribute(cloudevent, name, value, buf_text(&raw));
    }
    buf_release(&raw);
    return status;
}

static hf_status take_attribute(struct cloudevent *cloudevent, const char *header,
                                const char *encoded)
{
    char name[CLOUDEVENT_NAME_BYTES];
    size_t length = strlen(header);
    const char *value = cloudevent_header(encoded, cloudevent->arena);

    if (length == 0 || length >= sizeof name) {
        return fail(HF_INVALID,
                    "the header " PREFIX "%.64s is no attribute: its name has 1 to 64 characters",
                    header);
    }
    for (size_t i = 0; i <= length; i++) {
        char c = header[i];
        name[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789")]) {
        return fail(HF_INVALID,
                    "the header " PREFIX "%.64s is no attribute: its name has letters and digits",
                    name);
    }
    if (!value) {
        return fail(HF_INVALID, "the attribute %.64s is no UTF-8", name);
    }
    return take_string(cloudevent, name, value);
}

static enum MHD_Result see_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct taking *taking = ctx;

    (void)kind;
    if (strncasecmp(name, PREFIX, strlen(PREFIX)) == 0) {
        taking->status =
            take_attribute(&taking->cloudevent, name + strlen(PREFIX), value ? value : "");
    }
    return taking->status ? MHD_NO : MHD_YES;
}

hf_status publish_read_binary(struct exchange *exchange, hf_new_event *ret_event)
{
    const char *type = exchange_header(exchange, "Content-Type");
    const struct json_limits limits = {0, HF_JSON_DEPTH_MAX};
    const struct buf *body = &exchange->body;
    struct text data = body->length ? buf_text(body) : TEXT_ABSENT;
    struct taking taking = {.status = HF_OK};

    cloudevent_begin(&taking.cloudevent, &exchange->memory);
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, see_header, &taking);
    if (!taking.status && type && data.bytes) {
        taking.status = take_string(&taking.cloudevent, "datacontenttype", type);
    }
    if (!taking.status && data.bytes) {
        taking.status = json_check(data.bytes, data.length, &limits, "the data");
    }
    return cloudevent_end(&taking.cloudevent, data, taking.status, ret_event);
}
