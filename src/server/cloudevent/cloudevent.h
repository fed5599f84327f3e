/*
 * cloudevent.h - events as CloudEvents 1.0, in both directions: one mapping for what is published
 * over HTTP, for answers, for streams and for webhooks.
 *
 *     CloudEvents            event
 *     id                     id, if it is a UUID; else a UUID made of source and id
 *     type, subject, time    type, key, emitted_at
 *     tenant, producer       the fields of these names
 *     traceparent/-state     metadata of these names
 *     data                   payload, which is JSON
 *     position               the position (not taken)
 *     source, all others     metadata.cloudevents, so that they come out as they went in; also the
 *                            id, if it is no UUID
 *
 * An event that was not published as a CloudEvent has the source /holdfast/NAMESPACE.
 */
#ifndef HF_SERVER_CLOUDEVENT_CLOUDEVENT_H
#define HF_SERVER_CLOUDEVENT_CLOUDEVENT_H

#include "base/arena.h"
#include "base/text/buf.h"
#include "base/text/json_scan.h"
#include "base/text/json_write.h"

#include <holdfast.h>
#include <stdbool.h>

#define CLOUDEVENT_TYPE "application/cloudevents+json"
#define CLOUDEVENT_BATCH_TYPE "application/cloudevents-batch+json"

/* ---- Out ------------------------------------------------------------------------------------- */

/* Called for each attribute but specversion and datacontenttype. `quoted`: it is a string; else an
 * integer or a boolean, as JSON has them. The value is gone afterwards. */
typedef void (*cloudevent_fn)(const char *name, const char *value, bool quoted, void *ctx);
void cloudevent_attributes(const hf_event *event, cloudevent_fn visit, void *ctx);

/* The content type of its data. */
const char *cloudevent_content_type(const hf_event *event, struct buf *buf);

/* The event in structured mode: an object. */
void cloudevent_write(struct json_out *json, const hf_event *event);

/* ---- In -------------------------------------------------------------------------------------- */

/* What is put together from attributes. */
struct cloudevent {
    struct arena *arena; /* that all texts but the data are allocated in */
    hf_new_event event;
    const char *id;
    const char *source;
    const char *trace_parent;
    const char *trace_state;
    bool has_version;
    struct buf names;  /* of the attributes so far, each between spaces */
    struct buf others; /* members of metadata.cloudevents */
};

void cloudevent_begin(struct cloudevent *cloudevent, struct arena *arena);
/* An attribute. `raw` is what it is in JSON: a string, an integer or a boolean. HF_INVALID names
 * the attribute. */
hf_status cloudevent_attribute(struct cloudevent *cloudevent, const char *name, const char *value,
                               struct text raw);
/* The data as JSON; absent: null. HF_INVALID: an attribute is missing, or wrong. Ends it in any
 * case. */
hf_status cloudevent_end(struct cloudevent *cloudevent, struct text data, hf_status status,
                         hf_new_event *ret_event);

/* Reads an object of structured mode, which is called `what` in failures. The payload is a part of
 * it. */
hf_status cloudevent_read(struct text object, const char *what, struct arena *arena,
                          hf_new_event *ret_event);
/* The same for the value that comes next in a scan. */
hf_status cloudevent_scan(struct json_scan *scan, const char *what, struct arena *arena,
                          hf_new_event *ret_event);

/* The value of a header of binary mode: without the quotes of a quoted string, and with %XX
 * decoded. NULL: that is no UTF-8, or no memory. */
const char *cloudevent_header(const char *value, struct arena *arena);

#endif
