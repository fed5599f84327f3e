/*
 * objects.h - the structs of holdfast.h as JSON, for all that Holdfast says in JSON.
 *
 * Each function writes the fields of one struct into the object that is open. The names of the
 * fields are those of the struct: one vocabulary for C, for `--json` and for HTTP. Times lose their
 * "_us".
 */
#ifndef HF_JSON_OBJECTS_H
#define HF_JSON_OBJECTS_H

#include "base/time/coming.h"
#include "json/fields.h"

#include <holdfast.h>

/* The words of hf_misfire, hf_driver, hf_lagging and hf_dead_by. */
#define SHOW_MISFIRES "skip|once|all"
#define SHOW_DRIVERS "own|pg_cron"
#define SHOW_LAGGING "keep|drop"
#define SHOW_DEAD_BY "error|type|subscription|reason"

void show_event(struct json_out *json, const hf_event *event);
void show_event_state(struct json_out *json, const hf_event_state *state);
/* When the event of a receipt enters the log, if it waits for its time: deliver_at_us as it was
 * published, or the time of the event that waits under this id or unique key already. -1 if the
 * event is in the log, or if that other event could not be found. */
int64_t receipt_due_us(hf_bus *bus, const hf_receipt *receipt, int64_t deliver_at_us);
/* due_us is what receipt_due_us returns, as `deliver_at`. An event that waits has a position of
 * null. */
void show_receipt(struct json_out *json, const hf_receipt *receipt, int64_t due_us);
/* An event of a claim, with its lease. */
void show_claimed(struct json_out *json, const hf_batch *batch, size_t index);
void show_lease(struct json_out *json, const hf_lease_info *info);
/* A delivery that waits for its next attempt, and one whose handler runs. */
void show_retry(struct json_out *json, const hf_retry_info *info);
void show_running(struct json_out *json, const hf_running_info *info);
void show_dead_letter(struct json_out *json, const hf_dead_letter *letter);
/* The word for it: what a group's text is called. */
const char *dead_by_name(hf_dead_by by);
void show_dead_group(struct json_out *json, hf_dead_by by, const hf_dead_group *group);

/* An event that waits for its time: all of it, and without payload and metadata for lists. */
void show_later(struct json_out *json, const hf_later_info *info);
void show_later_row(struct json_out *json, const hf_later_info *info);

void show_subscription(struct json_out *json, const hf_subscription_info *info);
/* Of it: how far it is, and what waits or is at work for it. */
void show_numbers(struct json_out *json, const hf_subscription_info *info);
/* All options but `from`. */
void show_subscription_options(struct json_out *json, const hf_subscription_options *options);
void show_partition(struct json_out *json, const hf_partition_info *info);
void show_blocked_key(struct json_out *json, const hf_blocked_key *blocked);

/* What a run of retention did, or would do: noted after each of its steps. */
struct retention_result {
    bool dry_run;
    hf_retention_info last; /* without the texts */
    char kept_by[HF_NAME_BYTES_MAX + 1];
    int64_t dropped; /* subscriptions that were moved */
};
void retention_note(struct retention_result *result, const hf_retention_info *info);
void show_retention(struct json_out *json, const struct retention_result *result);

void show_namespace(struct json_out *json, const hf_namespace_info *info);
void show_stats(struct json_out *json, const hf_stats *stats);
/* A subscription as the stats of its namespace have it. */
void show_stats_row(struct json_out *json, const hf_subscription_info *info);
void show_node(struct json_out *json, const hf_node_info *info);
void show_schedule(struct json_out *json, const hf_schedule_info *info);
void show_schedule_run(struct json_out *json, const hf_schedule_run_info *run);
void show_coming(struct json_out *json, const struct coming *coming, const struct zone *zone);
void show_tick(struct json_out *json, const hf_tick_info *info);

#endif
