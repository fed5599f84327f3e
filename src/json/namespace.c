/*
 * namespace.c - namespaces, their numbers, schedules and nodes, as JSON.
 */
#include "json/objects.h"

#include "base/banned.h"

void show_namespace(struct json_out *json, const hf_namespace_info *info)
{
    show_string(json, "name", info->name);
    show_int(json, "head", info->head);
    show_int(json, "subscriptions", info->subscriptions);
    show_bool(json, "gapless", info->gapless != 0);
    show_int(json, "retention_ms", info->retention_ms);
    show_int(json, "retention_bytes", info->retention_bytes);
    show_choice(json, "lagging", SHOW_LAGGING, (int)info->lagging);
    show_string(json, "type_index", info->type_index);
    show_time(json, "created_at", info->created_at_us);
    show_time(json, "removing_at", info->removing_at_us);
    show_bool(json, "copying", info->copying != 0);
    show_json(json, "metadata", info->metadata_json);
    show_json(json, "grants", info->grants_json);
}

void show_stats(struct json_out *json, const hf_stats *stats)
{
    show_time(json, "oldest_waiting", stats->oldest_waiting_us);
    show_int(json, "head", stats->head);
    show_int(json, "first", stats->first);
    show_int(json, "subscriptions", stats->subscriptions);
    show_int(json, "in_flight", stats->in_flight);
    show_int(json, "lease_ended", stats->lease_ended);
    show_int(json, "retrying", stats->retrying);
    show_int(json, "held", stats->held);
    show_int(json, "dead", stats->dead);
    show_int(json, "later", stats->later);
    show_time(json, "later_next", stats->later_next_us);
    show_int(json, "later_due", stats->later_due);
    show_time(json, "schedules_next", stats->schedules_next_us);
    show_int(json, "schedules_due", stats->schedules_due);
    show_int(json, "nodes", stats->nodes);
    show_double(json, "rate", stats->rate);
    show_int(json, "store_bytes", stats->store_bytes);
    show_int(json, "wal_bytes", stats->wal_bytes);
}

void show_stats_row(struct json_out *json, const hf_subscription_info *info)
{
    show_string(json, "name", info->name);
    show_string(json, "mode", info->options.mode == HF_MODE_SHARED ? "shared" : "ordered");
    show_string(json, "not_moving", info->not_moving);
    show_bool(json, "paused", info->paused_at_us != -1);
    show_numbers(json, info);
}

void show_node(struct json_out *json, const hf_node_info *info)
{
    show_string(json, "node_id", info->node_id);
    show_choice(json, "state", "live|stale|gone", (int)info->state);
    show_string(json, "name", info->name);
    show_string(json, "host", info->host);
    show_int(json, "pid", info->pid);
    show_string(json, "version", info->version);
    show_int(json, "heartbeat_ms", info->heartbeat_ms);
    show_time(json, "started_at", info->started_at_us);
    show_time(json, "seen_at", info->seen_at_us);
    show_time(json, "stopped_at", info->stopped_at_us);
    show_string(json, "description", info->description);
    show_json(json, "metadata", info->metadata_json);
}

void show_schedule(struct json_out *json, const hf_schedule_info *info)
{
    const hf_schedule *schedule = &info->schedule;

    show_string(json, "name", schedule->name);
    show_string(json, "id", info->id);
    show_string(json, "expression", schedule->expression);
    show_string(json, "zone", schedule->zone);
    show_time(json, "next_at", info->next_at_us);
    show_string(json, "type", schedule->type);
    show_raw(json, "payload", schedule->payload, schedule->payload_bytes);
    show_string(json, "key", schedule->key);
    show_string(json, "tenant", schedule->tenant);
    show_json(json, "metadata", schedule->metadata);
    show_choice(json, "misfire", SHOW_MISFIRES, (int)schedule->misfire);
    show_int(json, "misfire_cap", schedule->misfire_cap);
    show_int(json, "grace_ms", schedule->grace_ms);
    show_choice(json, "driver", SHOW_DRIVERS, (int)schedule->driver);
    show_time(json, "paused_at", info->paused_at_us);
    show_string(json, "paused_by", info->paused_by);
    show_string(json, "paused_reason", info->paused_reason);
    show_time(json, "created_at", info->created_at_us);
}

void show_schedule_run(struct json_out *json, const hf_schedule_run_info *run)
{
    show_choice(json, "kind", "fired|by_hand|skipped", (int)run->kind);
    show_time(json, "planned_at", run->planned_at_us);
    show_time(json, "until_at", run->until_at_us);
    show_time(json, "fired_at", run->fired_at_us);
    show_int(json, "position", run->position);
    show_string(json, "event_id", run->event_id);
    show_string(json, "node", run->node);
}

void show_coming(struct json_out *json, const struct coming *coming, const struct zone *zone)
{
    show_time(json, "at", coming->at_us);
    show_string(json, "local", coming->local);
    show_string(json, "zone", zone_name(zone));
    show_string(json, "abbreviation", coming->abbreviation);
    show_string(json, "note", coming->note[0] ? coming->note : NULL);
}

void show_tick(struct json_out *json, const hf_tick_info *info)
{
    show_int(json, "fired", info->fired);
    show_int(json, "released", info->released);
    show_int(json, "refused", info->refused);
    show_time(json, "next_due_at", info->next_due_at_us);
}

void retention_note(struct retention_result *result, const hf_retention_info *info)
{
    result->last = *info;
    result->last.dropped_name = NULL;
    result->last.kept_by = NULL;
    result->dropped += info->dropped_name != NULL;
    snprintf(result->kept_by, sizeof result->kept_by, "%s", info->kept_by ? info->kept_by : "");
}

void show_retention(struct json_out *json, const struct retention_result *result)
{
    const hf_retention_info *last = &result->last;

    show_bool(json, "dry_run", result->dry_run);
    show_int(json, "events", result->dry_run ? last->planned_events : last->events);
    show_int(json, "bytes", result->dry_run ? last->planned_bytes : last->bytes);
    show_int(json, "through", last->through);
    show_bool(json, "by_size", last->by_size != 0);
    show_string(json, "kept_by", result->kept_by[0] ? result->kept_by : NULL);
    show_int(json, "dropped_subscriptions", result->dropped);
}
