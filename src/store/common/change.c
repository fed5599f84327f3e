/*
 * change.c - the events that a change carries, and its answer. See change.h.
 *
 * Who bounds what is done at once, in a commit or on a disk, weighs by this: a kind of change that
 * learns to bring events is to be added here, or it weighs nothing.
 */
#include "store/common/change.h"

#include <stdio.h>

#include "base/err.h"

struct new_event *change_events(const struct change *change, size_t *ret_count)
{
    switch ((int)change->kind) {
    case CHANGE_APPEND:
        *ret_count = ((const struct append *)change)->count;
        return ((const struct append *)change)->events;
    case CHANGE_FIRE:
        *ret_count = ((const struct fire *)change)->count;
        return ((const struct fire *)change)->events;
    case CHANGE_DELAY:
        *ret_count = ((const struct delay *)change)->count;
        return ((const struct delay *)change)->events;
    default:
        *ret_count = 0;
        return NULL;
    }
}

int64_t change_bytes(const struct change *change, int64_t fixed_bytes)
{
    size_t count;
    const struct new_event *events = change_events(change, &count);
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct new_event *event = &events[i];
        bytes += fixed_bytes;
        bytes += (int64_t)(event->payload.length + event->metadata.length + event->key.length +
                           event->tenant.length + event->unique.length);
    }
    return bytes;
}

static void keep_message(struct change *change, hf_status status)
{
    snprintf(change->message, sizeof change->message, "%s", status == HF_OK ? "" : err_message());
}

void change_undone(struct change *change)
{
    if (change->kind == CHANGE_CLAIM) {
        ((struct claim *)change)->batch->count = 0;
    }
}

void change_answer(struct change *change, hf_status status)
{
    change->status = status;
    keep_message(change, status);
    if (status) {
        change_undone(change);
    }
}

void change_draft(struct change *change, hf_status status)
{
    change->draft = status;
    keep_message(change, status);
}
