/*
 * trace.c - see trace.h.
 */
#include "cli/webhook/trace.h"

#include "base/banned.h"
#include "base/text/json_read.h"

#define PARENT_LENGTH (TRACE_PARENT_BYTES - 1)
#define TRACE_AT 3
#define SPAN_AT 36

static bool is_zero(const char *digits, size_t count)
{
    return strspn(digits, "0") >= count;
}

bool event_trace_is_parent(struct text text)
{
    static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

    if (text.length != PARENT_LENGTH) {
        return false;
    }
    for (size_t i = 0; i < PARENT_LENGTH; i++) {
        char c = text.bytes[i];
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (form[i] == 'x' ? !is_digit : c != form[i]) {
            return false;
        }
    }
    return !is_zero(text.bytes + TRACE_AT, 32) && !is_zero(text.bytes + SPAN_AT, 16);
}

static bool is_state(struct text text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < ' ' || text.bytes[i] > '~') {
            return false;
        }
    }
    return text.length > 0 && text.length < TRACE_STATE_BYTES;
}

bool event_trace(const hf_event *event, struct event_trace *ret_trace)
{
    struct text metadata = text_of(event->metadata);
    struct buf word;
    bool found;

    if (!event->metadata) {
        return false;
    }
    buf_init(&word, TRACE_STATE_BYTES);
    found = json_find_string(metadata, "traceparent", &word) == HF_OK &&
            event_trace_is_parent(buf_text(&word));
    if (found) {
        memcpy(ret_trace->parent, buf_terminate(&word), TRACE_PARENT_BYTES);
        ret_trace->state[0] = '\0';
        buf_clear(&word);
        if (json_find_string(metadata, "tracestate", &word) == HF_OK && is_state(buf_text(&word))) {
            memcpy(ret_trace->state, buf_terminate(&word), word.length + 1);
        }
    }
    buf_release(&word);
    return found;
}
