/*
 * event.c - events, where they are, what waits for its time, and who has what, as JSON.
 */
#include "json/objects.h"

#include "base/banned.h"

/* An event that waits for its time has no position yet: null. */
static void show_position(struct json_out *json, int64_t position)
{
    show_int(json, "position", position > 0 ? position : -1);
}

void show_event(struct json_out *json, const hf_event *event)
{
    show_position(json, event->position);
    show_string(json, "id", event->id);
    show_string(json, "type", event->type);
    show_raw(json, "payload", event->payload, event->payload_bytes);
    show_string(json, "key", event->key);
    show_string(json, "tenant", event->tenant);
    show_json(json, "metadata", event->metadata);
    show_string(json, "producer", event->producer);
    show_string(json, "schedule_id", event->schedule_id);
    show_int(json, "key_version", event->key_version);
    show_time(json, "emitted_at", event->emitted_at_us);
    show_time(json, "entered_at", event->entered_at_us);
    show_string(json, "namespace", event->namespace_name);
    show_int(json, "deliveries", event->deliveries);
}

void show_event_state(struct json_out *json, const hf_event_state *state)
{
    show_string(json, "subscription", state->subscription);
    show_string(json, "state", hf_state_name(state->state));
    show_int(json, "attempts", state->attempts);
    show_int(json, "deliveries", state->deliveries);
    show_string(json, "cause", state->cause);
    show_json(json, "attempts_json", state->attempts_json);
    show_time(json, "next_attempt_at", state->next_attempt_at_us);
    show_string(json, "node", state->node);
    show_time(json, "since", state->since_us);
    show_id(json, "dead_id", state->dead_id);
    show_time(json, "cancelled_at", state->cancelled_at_us);
    show_string(json, "cancelled_by", state->cancelled_by);
    show_string(json, "cancel_reason", state->cancel_reason);
    show_bool(json, "cancel_requested", state->cancel_requested == 1);
}

static int take_due(const hf_later_info *info, void *ctx)
{
    *(int64_t *)ctx = info->due_at_us;
    return 0;
}

int64_t receipt_due_us(hf_bus *bus, const hf_receipt *receipt, int64_t deliver_at_us)
{
    int64_t due_us = -1;

    if (receipt->position > 0) {
        return -1;
    }
    if (!receipt->duplicate) {
        return deliver_at_us;
    }
    /* The event that waits is another one. It may have come or been cancelled meanwhile. */
    if (hf_later_get(bus, receipt->id, take_due, &due_us)) {
        return -1;
    }
    return due_us;
}

void show_receipt(struct json_out *json, const hf_receipt *receipt, int64_t due_us)
{
    show_position(json, receipt->position);
    show_string(json, "id", receipt->id);
    show_int(json, "key_version", receipt->key_version);
    show_bool(json, "duplicate", receipt->duplicate != 0);
    show_bool(json, "replaced", receipt->replaced != 0);
    show_time(json, "deliver_at", due_us);
}

void show_later(struct json_out *json, const hf_later_info *info)
{
    show_time(json, "due_at", info->due_at_us);
    show_int(json, "number", info->number);
    show_event(json, &info->event);
}

void show_later_row(struct json_out *json, const hf_later_info *info)
{
    const hf_event *event = &info->event;

    show_time(json, "due_at", info->due_at_us);
    show_int(json, "number", info->number);
    show_string(json, "id", event->id);
    show_string(json, "type", event->type);
    show_string(json, "key", event->key);
    show_string(json, "tenant", event->tenant);
    show_string(json, "producer", event->producer);
    show_time(json, "emitted_at", event->emitted_at_us);
    show_int(json, "payload_bytes", (int64_t)event->payload_bytes);
}

void show_claimed(struct json_out *json, const hf_batch *batch, size_t index)
{
    show_string(json, "lease", hf_batch_lease(batch));
    show_time(json, "expires_at", hf_batch_expires_at_us(batch));
    show_int(json, "attempt", hf_batch_attempt(batch, index));
    show_event(json, hf_batch_event(batch, index));
}

void show_lease(struct json_out *json, const hf_lease_info *info)
{
    show_string(json, "subscription", info->subscription);
    show_string(json, "lease", info->lease);
    show_string(json, "node", info->node);
    show_time(json, "claimed_at", info->claimed_at_us);
    show_time(json, "expires_at", info->expires_at_us);
    show_bool(json, "kept", info->kept == 1);
    show_bool(json, "ended", info->ended == 1);
    show_int(json, "count", (int64_t)info->count);
    json_key(json, "positions");
    json_array_begin(json);
    for (size_t i = 0; i < info->count; i++) {
        json_int(json, info->positions[i]);
    }
    json_array_end(json);
}

void show_dead_letter(struct json_out *json, const hf_dead_letter *letter)
{
    show_id(json, "dead_id", letter->dead_id);
    show_string(json, "subscription", letter->subscription);
    show_string(json, "reason", letter->reason);
    show_string(json, "cause", letter->cause);
    show_string(json, "error", letter->error);
    show_int(json, "attempts", letter->attempts);
    show_json(json, "attempts_json", letter->attempts_json);
    show_time(json, "failed_at", letter->failed_at_us);
    show_time(json, "resolved_at", letter->resolved_at_us);
    show_string(json, "resolved_by", letter->resolved_by);
    show_string(json, "resolved_note", letter->resolved_note);
    json_key(json, "event");
    json_object_begin(json);
    show_event(json, &letter->event);
    json_object_end(json);
}

const char *dead_by_name(hf_dead_by by)
{
    static const char *const names[] = {[HF_DEAD_BY_ERROR] = "error",
                                        [HF_DEAD_BY_TYPE] = "type",
                                        [HF_DEAD_BY_SUBSCRIPTION] = "subscription",
                                        [HF_DEAD_BY_REASON] = "reason"};

    return names[by];
}

void show_dead_group(struct json_out *json, hf_dead_by by, const hf_dead_group *group)
{
    show_int(json, "count", group->count);
    show_string(json, dead_by_name(by), group->text);
    show_id(json, "newest_dead_id", group->newest_dead_id);
    show_time(json, "newest_failed_at", group->newest_us);
    show_time(json, "oldest_failed_at", group->oldest_us);
}
