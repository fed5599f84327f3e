/*
 * subscription.c - subscriptions, their options, partitions and blocked keys, as JSON.
 */
#include "json/objects.h"

#include "base/banned.h"

#define NO_KEY NULL

/* A field of hf_subscription_options. */
struct option {
    const char *name;
    const char *choices; /* of an enum: the words of 1, 2, ... */
    size_t offset;
    enum { OPTION_INT32, OPTION_INT64, OPTION_DOUBLE } kind;
};

#define FIELD(field, kind, choices)                                                                \
    {#field, choices, offsetof(hf_subscription_options, field), kind},
#define CHOICE(field, last, initial, others, flag, key, help)                                      \
    FIELD(field, OPTION_INT32, initial "|" others)
#define NUMBER(field, initial, min, max, flag, unit, key, help) FIELD(field, OPTION_INT32, NULL)
#define PERIOD(field, initial, min, max, flag, key, help) FIELD(field, OPTION_INT64, NULL)
#define FACTOR(field, initial, min, max, flag, unit, key, help) FIELD(field, OPTION_DOUBLE, NULL)
static const struct option options_fields[] = {
#include "bus/options.def"
};

/* The enums of the options are unsigned int in this ABI; memcpy keeps the compiler out of it. */
static void show_option(struct json_out *json, const struct option *option,
                        const hf_subscription_options *options)
{
    const char *at = (const char *)options + option->offset;
    int32_t small = 0;
    int64_t number = 0;
    double decimal = 0;

    if (option->kind == OPTION_DOUBLE) {
        memcpy(&decimal, at, sizeof decimal);
        show_double(json, option->name, decimal);
    } else if (option->kind == OPTION_INT64) {
        memcpy(&number, at, sizeof number);
        show_int(json, option->name, number);
    } else {
        memcpy(&small, at, sizeof small);
        if (option->choices) {
            show_choice(json, option->name, option->choices, small);
        } else {
            show_int(json, option->name, small);
        }
    }
}

void show_subscription_options(struct json_out *json, const hf_subscription_options *options)
{
    for (size_t i = 0; i < sizeof options_fields / sizeof options_fields[0]; i++) {
        show_option(json, &options_fields[i], options);
    }
}

void show_numbers(struct json_out *json, const hf_subscription_info *info)
{
    show_int(json, "checkpoint", info->checkpoint);
    show_int(json, "lag", info->lag);
    show_int(json, "pending", info->pending);
    show_bool(json, "pending_more", info->pending_more == 1);
    show_time(json, "oldest_waiting", info->oldest_waiting_us);
    show_double(json, "rate", info->rate);
    show_int(json, "in_flight", info->in_flight);
    show_int(json, "lease_ended", info->lease_ended);
    show_time(json, "claimed_at", info->claimed_at_us);
    show_int(json, "retrying", info->retrying);
    show_int(json, "held", info->held);
    show_int(json, "blocked", info->blocked);
    show_int(json, "dead", info->dead);
}

void show_subscription(struct json_out *json, const hf_subscription_info *info)
{
    show_string(json, "name", info->name);
    show_string(json, "not_moving", info->not_moving);
    json_key(json, "patterns");
    json_array_begin(json);
    for (size_t i = 0; i < info->pattern_count; i++) {
        json_string(json, text_of(info->patterns[i]));
    }
    json_array_end(json);
    show_time(json, "created_at", info->created_at_us);
    show_int(json, "start_position", info->start_position);
    show_time(json, "checkpoint_at", info->checkpoint_at_us);
    show_string(json, "checkpoint_event_id", info->checkpoint_event_id);
    show_int(json, "cursor", info->cursor);
    show_int(json, "head", info->head);
    show_numbers(json, info);
    show_int(json, "dropped_through", info->dropped_through);
    show_int(json, "dropped", info->dropped);
    show_time(json, "paused_at", info->paused_at_us);
    show_string(json, "paused_by", info->paused_by);
    show_string(json, "paused_reason", info->paused_reason);
    show_string(json, "breaker", info->breaker);
    show_time(json, "breaker_until", info->breaker_until_us);
    show_string(json, "owner", info->owner);
    show_bool(json, "owner_alive", info->owner_alive == 1);
    json_key(json, "options");
    json_object_begin(json);
    show_subscription_options(json, &info->options);
    json_object_end(json);
}

void show_partition(struct json_out *json, const hf_partition_info *info)
{
    show_int(json, "partition", info->partition);
    show_string(json, "state", hf_partition_state_name(info->state));
    show_string(json, "owner", info->owner);
    show_bool(json, "owner_alive", info->owner_alive == 1);
    show_bool(json, "assigned", info->assigned == 1);
    show_int(json, "standby", info->standby);
    show_int(json, "epoch", info->epoch);
    show_int(json, "checkpoint", info->checkpoint);
    show_time(json, "checkpoint_at", info->checkpoint_at_us);
    show_int(json, "lag", info->lag);
    show_int(json, "retrying", info->retrying);
    show_int(json, "held", info->held);
    show_int(json, "blocked", info->blocked);
}

void show_blocked_key(struct json_out *json, const hf_blocked_key *blocked)
{
    show_string(json, "tenant", blocked->tenant);
    show_string(json, "key", blocked->key);
    show_int(json, "partition", blocked->partition);
    show_int(json, "position", blocked->position);
    show_string(json, "event_id", blocked->event_id);
    show_string(json, "type", blocked->type);
    show_id(json, "dead_id", blocked->dead_id);
    show_time(json, "since", blocked->since_us);
    show_int(json, "held", blocked->held);
}
