/*
 * delivery.c - deliveries that are not over, as JSON: retries, and what runs.
 */
#include "json/objects.h"

#include "base/banned.h"

void show_retry(struct json_out *json, const hf_retry_info *info)
{
    show_int(json, "position", info->position);
    show_string(json, "event_id", info->event_id);
    show_string(json, "type", info->type);
    show_string(json, "tenant", info->tenant);
    show_string(json, "key", info->key);
    show_int(json, "partition", info->partition);
    show_string(json, "state", hf_state_name(info->state));
    show_int(json, "attempts", info->attempts);
    show_string(json, "cause", info->cause);
    show_string(json, "error", info->error);
    show_time(json, "failed_at", info->failed_at_us);
    show_time(json, "next_attempt_at", info->next_attempt_at_us);
    show_int(json, "behind", info->behind);
    show_int(json, "held", info->held);
    show_bool(json, "held_more", info->held_more == 1);
    show_string(json, "cursor", info->cursor);
}

void show_running(struct json_out *json, const hf_running_info *info)
{
    show_int(json, "position", info->position);
    show_string(json, "event_id", info->event_id);
    show_string(json, "type", info->type);
    show_string(json, "tenant", info->tenant);
    show_string(json, "key", info->key);
    show_int(json, "partition", info->partition);
    show_string(json, "node", info->node);
    show_string(json, "host", info->host);
    show_int(json, "pid", info->pid);
    show_time(json, "since", info->since_us);
}
