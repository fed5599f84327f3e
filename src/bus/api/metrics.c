/*
 * metrics.c - what a handle has done, from its meters (bus/meters.h).
 *
 * Nothing here asks the store for more than numbers that it has in memory, so it works whatever
 * becomes of the database, and also when the bus is shut down.
 */
#include <stddef.h>

#include "base/err.h"
#include "bus/bus.h"

int64_t hf_histogram_bound_us(size_t bucket)
{
    return timing_bound_us(bucket);
}

static int64_t count_of(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static int add_meter(const struct meter *meter, void *ctx)
{
    hf_metrics *metrics = ctx;
    metrics->delivered += count_of(&meter->delivered);
    metrics->failed += count_of(&meter->failed);
    metrics->retries += count_of(&meter->retries);
    metrics->leases_lost += count_of(&meter->leases_lost);
    metrics->dead_attempts += count_of(&meter->dead[DEAD_ATTEMPTS]);
    metrics->dead_rejected += count_of(&meter->dead[DEAD_REJECTED]);
    metrics->dead_decode += count_of(&meter->dead[DEAD_DECODE]);
    metrics->dead_no_handler += count_of(&meter->dead[DEAD_NO_HANDLER]);
    metrics->dead_corrupt += count_of(&meter->dead[DEAD_CORRUPT]);
    metrics->dead_lease += count_of(&meter->dead[DEAD_LEASE]);
    timing_read(&meter->handler, &metrics->handler);
    timing_read(&meter->end_to_end, &metrics->end_to_end);
    return 0;
}

hf_status hf_metrics_get(hf_bus *bus, hf_metrics *ret_metrics)
{
    hf_metrics metrics = {0};
    hf_status status = bus_check(bus);
    if (!status && !ret_metrics) {
        status = fail(HF_INVALID, "ret_metrics is NULL");
    }
    if (!status) {
        status = bus_check_size(ret_metrics->size, sizeof metrics, sizeof metrics, "hf_metrics");
    }
    if (status) {
        return status;
    }
    metrics.published = atomic_load(&bus->published);
    metrics.publish_failures = count_of(&bus->meters.publish_failures);
    metrics.schedules_fired = count_of(&bus->meters.schedules_fired);
    metrics.gap_timeouts = store_gap_timeouts(bus->store);
    timing_read(&bus->meters.publish, &metrics.publish);
    timing_read(&bus->meters.schedule_late, &metrics.schedule_late);
    timing_read(store_commits(bus->store), &metrics.commit);
    meters_each(&bus->meters, add_meter, &metrics);
    size_t bytes = ret_metrics->size < sizeof metrics ? ret_metrics->size : sizeof metrics;
    metrics.size = ret_metrics->size;
    memcpy(ret_metrics, &metrics, bytes);
    return HF_OK;
}

struct listing {
    hf_subscription_metrics_fn found;
    void *ctx;
};

static int list_meter(const struct meter *meter, void *ctx)
{
    const struct listing *listing = ctx;
    hf_subscription_metrics metrics = {
        .size = sizeof metrics,
        .name = meter->name,
        .delivered = count_of(&meter->delivered),
        .failed = count_of(&meter->failed),
        .retries = count_of(&meter->retries),
        .leases_lost = count_of(&meter->leases_lost),
    };
    if (!meter->name) {
        return 0;
    }
    for (size_t i = 0; i < DEAD_REASONS; i++) {
        metrics.dead += count_of(&meter->dead[i]);
    }
    timing_read(&meter->handler, &metrics.handler);
    timing_read(&meter->end_to_end, &metrics.end_to_end);
    return listing->found(&metrics, listing->ctx);
}

hf_status hf_subscription_metrics_list(hf_bus *bus, hf_subscription_metrics_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (!status && !found) {
        status = fail(HF_INVALID, "found is NULL");
    }
    if (!status) {
        struct listing listing = {found, ctx};
        meters_each(&bus->meters, list_meter, &listing);
    }
    return status;
}
