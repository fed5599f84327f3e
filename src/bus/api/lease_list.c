/*
 * lease_list.c - looking at leases, and taking one away: hf_lease_list, hf_lease_revoke.
 *
 * To revoke is to release for another: the events are freed in the transaction that ends the lease,
 * so what its holder settles afterwards finds no lease (HF_STALE), and what it settled before stays
 * settled.
 */
#include "base/err.h"
#include "base/time/clock.h"
#include "bus/api/inspect.h"
#include "bus/api/lease.h"

/* ---- Looking --------------------------------------------------------------------------------- */

struct telling {
    const char *subscription;
    hf_lease_fn found;
    void *ctx;
    bool stopped;
};

static int tell_lease(const struct lease_row *row, void *ctx)
{
    struct telling *telling = ctx;
    char text[HF_LEASE_BYTES];
    char node[HF_PRODUCER_BYTES_MAX + 1];
    lease_format(row->token, text);
    snprintf(node, sizeof node, "%" TEXT_PRI, TEXT_ARG(row->node));
    hf_lease_info info = {
        .size = sizeof info,
        .subscription = telling->subscription,
        .lease = text,
        .node = text_is_absent(row->node) ? NULL : node,
        .claimed_at_us = row->claimed_at_us,
        .expires_at_us = row->expires_at_us,
        .kept = row->kept ? 1 : 0,
        .ended = row->ended ? 1 : 0,
        .positions = row->positions,
        .count = row->count,
    };
    telling->stopped = telling->found(&info, telling->ctx) != 0;
    return telling->stopped;
}

static hf_status tell_leases(hf_bus *bus, const struct definition *definition,
                             struct telling *telling)
{
    telling->subscription = definition->name.bytes;
    return store_lease_list(bus->store, definition->id, clock_wall_us(), tell_lease, telling);
}

static hf_status tell_all(hf_bus *bus, struct definition *definition, struct telling *telling)
{
    struct subscription_ids ids;
    subscription_ids_init(&ids);
    hf_status status = subscription_ids_load(bus, &ids);
    for (size_t i = 0; i < ids.count && !status && !telling->stopped; i++) {
        status = definition_load_id(bus, ids.ids[i], definition);
        if (!status && definition->options.mode == HF_MODE_SHARED) {
            status = tell_leases(bus, definition, telling);
        }
        status = status == HF_NOTFOUND ? HF_OK : status; /* removed while we look */
    }
    subscription_ids_release(&ids);
    return status;
}

hf_status hf_lease_list(hf_bus *bus, const char *subscription, hf_lease_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    struct telling telling = {.found = found, .ctx = ctx};
    struct definition definition;
    definition_init(&definition);
    if (!subscription) {
        status = tell_all(bus, &definition, &telling);
    } else {
        status = definition_load(bus, subscription, &definition);
        if (!status) {
            status = lease_check_mode(definition.options.mode, definition.name);
        }
        if (!status) {
            status = tell_leases(bus, &definition, &telling);
        }
    }
    definition_release(&definition);
    return status;
}

/* ---- Taking away ----------------------------------------------------------------------------- */

/* One lease among those of its subscription. */
struct search {
    const char *lease;
    bool found;
    int64_t count;
};

static int see_lease(const hf_lease_info *info, void *ctx)
{
    struct search *search = ctx;
    search->found = strcmp(info->lease, search->lease) == 0;
    search->count = (int64_t)info->count;
    return search->found;
}

static hf_status no_lease(const char *subscription, const char *lease)
{
    return fail(HF_NOTFOUND, "subscription %s has no lease %s (any more)", subscription, lease);
}

hf_status hf_lease_revoke(hf_bus *bus, const char *subscription, const char *lease,
                          int64_t *ret_count)
{
    hf_status status = bus_check(bus);
    uint8_t token[STORE_TOKEN_BYTES];
    if (!status && (!subscription || !lease)) {
        status = fail(HF_INVALID, "%s is NULL", subscription ? "lease" : "subscription");
    }
    if (!status) {
        status = lease_parse(lease, token);
    }
    struct search search = {.lease = lease};
    if (!status) {
        status = hf_lease_list(bus, subscription, see_lease, &search);
    }
    if (!status && !search.found) {
        status = no_lease(subscription, lease);
    }
    if (!status) {
        status = hf_release(bus, subscription, lease, NULL, 0);
        status = status == HF_STALE ? no_lease(subscription, lease) : status;
    }
    if (!status && ret_count) {
        *ret_count = search.count;
    }
    return status;
}
