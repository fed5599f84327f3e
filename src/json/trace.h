/*
 * trace.h - W3C Trace Context: which trace an event belongs to.
 *
 * It is kept in the metadata, as "traceparent" and "tracestate". What is no trace by the standard's
 * rules is left out, as the standard wants it; the event is published all the same.
 */
#ifndef HF_JSON_TRACE_H
#define HF_JSON_TRACE_H

#include "base/arena.h"

#include <holdfast.h>
#include <stdbool.h>

#define TRACE_PARENT_BYTES_MAX 512
#define TRACE_STATE_BYTES_MAX 512

/* "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", or of a later version. */
bool trace_parent_is_valid(struct text text);
/* "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7": up to 32 members. */
bool trace_state_is_valid(struct text text);

/* Puts the trace of a request (NULL: none) into the event's metadata, unless that has one. */
hf_status trace_take(const char *parent, const char *state, struct arena *arena,
                     hf_new_event *event);

#endif
