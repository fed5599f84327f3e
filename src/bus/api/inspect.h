/*
 * inspect.h - what looking at events and waiting for them share.
 */
#ifndef HF_BUS_API_INSPECT_H
#define HF_BUS_API_INSPECT_H

#include "bus/subscription.h"

/* Where an event at `position` is in a subscription; the rules are in states.c. `type` may be
 * absent if the log does not have the event any more. */
hf_state inspect_state(const struct definition *definition, int64_t position, struct text type,
                       const struct delivery_facts *facts);

/* Appends the one event with this id. HF_INVALID; HF_NOTFOUND. */
hf_status inspect_find_event(hf_bus *bus, const char *id, struct batch *batch);

/* The subscription that a listing is about, and its mode. HF_INVALID without a name or a callback;
 * HF_NOTFOUND. */
hf_status inspect_find(hf_bus *bus, const char *name, bool has_callback, int64_t *ret_id,
                       hf_mode *ret_mode);

/* Every partition of an ordered subscription, by number. (partitions.c) */
hf_status partitions_look(hf_bus *bus, int64_t subscription_id, hf_partition_fn found, void *ctx);

/* Of subscriptions that are behind a call that asks about all looks at the log of so many as it
 * would for one alone, and of the others briefly (struct pending_query): so thousands of them take
 * bounded time. */
#define LIST_LOOKS_MAX 200

/* Ids of subscriptions. */
struct subscription_ids {
    int64_t *ids;
    size_t count;
    size_t capacity;
};

void subscription_ids_init(struct subscription_ids *ids);
void subscription_ids_release(struct subscription_ids *ids);
hf_status subscription_ids_add(struct subscription_ids *ids, int64_t id);
/* Adds all of the namespace, by name. */
hf_status subscription_ids_load(hf_bus *bus, struct subscription_ids *ids);

#endif
