/*
 * intake.h - checking a new event against every limit of holdfast.h.
 */
#ifndef HF_BUS_INTAKE_H
#define HF_BUS_INTAKE_H

#include "bus/bus.h"

/* Turns what the caller gave into what the store takes, or answers HF_INVALID with a sentence that
 * names the field, its value and the limit. The texts of `ret` are the caller's, the bus's node
 * name or static; nothing is allocated. `ret` is unspecified on failure. */
hf_status intake_check(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                       struct new_event *ret);

/* The same for an array of `count` (at least 1), in less time. The caller may have been compiled
 * against a struct of another size: the array has steps of that size, which every element says. The
 * sentence begins with the number of the event. */
hf_status intake_check_all(const hf_bus *bus, const hf_new_event *events, size_t count,
                           int64_t now_us, struct new_event *ret);

/* The same for an event that may be for later: ret_deliver_at_us is -1 if it is not. intake_check
 * refuses such an event. */
hf_status intake_check_later(const hf_bus *bus, const hf_new_event *event, int64_t now_us,
                             struct new_event *ret, int64_t *ret_deliver_at_us);

/* A payload: valid JSON within the bus's limit. HF_AUTO_LENGTH is understood, NULL is "null". */
hf_status intake_payload(const hf_bus *bus, const char *payload, size_t payload_bytes,
                         struct text *ret_payload);

/* An optional text of at most bytes_max bytes of valid UTF-8; NULL gives an absent one. `what`
 * begins the sentence: "key is 70000 bytes; the limit is 65536". */
hf_status intake_text(const char *string, const char *what, size_t bytes_max,
                      struct text *ret_text);

#endif
