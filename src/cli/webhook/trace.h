/*
 * trace.h - the trace that an event belongs to (W3C Trace Context), which is in its metadata.
 *
 * Metadata is whatever a producer wrote, and what is found here goes into headers and into the
 * environment of commands. So only what has exactly the form of the specification is taken.
 */
#ifndef HF_CLI_WEBHOOK_TRACE_H
#define HF_CLI_WEBHOOK_TRACE_H

#include "base/text/text.h"

#include <holdfast.h>
#include <stdbool.h>

#define TRACE_PARENT_BYTES 56 /* "00-<32>-<16>-<2>" with its NUL */
#define TRACE_STATE_BYTES 513 /* the longest that is passed on, with its NUL */

struct event_trace {
    char parent[TRACE_PARENT_BYTES]; /* traceparent */
    char state[TRACE_STATE_BYTES];   /* tracestate; "": none */
};

/* Whether the text has the form of a traceparent of version 00 whose ids are not all 0. */
bool event_trace_is_parent(struct text text);

/* The trace of an event. False: it has none. */
bool event_trace(const hf_event *event, struct event_trace *ret_trace);

#endif
