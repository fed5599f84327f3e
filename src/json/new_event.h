/*
 * new_event.h - a JSON object becomes an event to publish.
 *
 *     {"type":"user.created","payload":{"id":1},"key":"u1","emitted_at":"2026-01-31T12:00:00Z"}
 *
 * Required: type. Optional: payload (null), id, key, tenant, metadata, producer, emitted_at,
 * expected_version, unique, unique_for, deliver_at, replace. What `tail --json` prints besides
 * these (position, entered_at, key_version, schedule_id ...) is understood and left out, so its
 * output can be imported. Anything else is a mistake. The payload's bytes are taken as they are: a
 * number never goes through a float.
 */
#ifndef HF_JSON_NEW_EVENT_H
#define HF_JSON_NEW_EVENT_H

#include "base/arena.h"
#include "base/text/json_scan.h"

#include <holdfast.h>

/* Fills ret_event. Its payload is a part of the text, its other texts are allocated in the arena.
 * HF_INVALID with a sentence, in which the object is called `what`: "the line". */
hf_status new_event_read(struct text object, const char *what, struct arena *arena,
                         hf_new_event *ret_event);

/* The same for the value that comes next in a scan. */
hf_status new_event_scan(struct json_scan *scan, const char *what, struct arena *arena,
                         hf_new_event *ret_event);

#endif
