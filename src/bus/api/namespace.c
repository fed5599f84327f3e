/*
 * namespace.c - the namespaces of a database: making, changing, listing, removing them.
 *
 * What is asked for is checked here, the store does it. A removal is a loop of small changes, each
 * of which other writers may come before; it has no memory of its own, so if the loop ends early,
 * however it ends, calling again goes on from what is left.
 */
#include "store/namespace.h"
#include "base/err.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "base/text/json_check.h"
#include "base/time/clock.h"
#include "bus/bus.h"
#include "bus/intake.h"
#include "bus/timers/types.h"

#define RETENTION_MS_MAX (INT64_C(86400000) * 366 * 1000) /* a thousand years */

static hf_status check(const hf_bus *bus, const char *name)
{
    hf_status status = bus_check_handle(bus);
    if (!status && !name) {
        status = fail(HF_INVALID, "the namespace name is NULL");
    }
    return status ? status
                  : glob_check_name(text_of(name), "namespace name", HF_NAMESPACE_BYTES_MAX);
}

static hf_status check_metadata(const char *metadata_json)
{
    if (!metadata_json) {
        return HF_OK;
    }
    struct text text = text_of(metadata_json);
    if (text.length > HF_METADATA_BYTES_MAX) {
        return fail(HF_INVALID, "metadata is %zu bytes; the limit is %d", text.length,
                    HF_METADATA_BYTES_MAX);
    }
    return json_check_object(text.bytes, text.length, NULL, "metadata");
}

static hf_status check_retention(const hf_namespace_options *options)
{
    if (options->retention_ms < -1 || options->retention_ms > RETENTION_MS_MAX) {
        return fail(HF_INVALID, "retention_ms is %lld; it takes 0 to %lld",
                    (long long)options->retention_ms, (long long)RETENTION_MS_MAX);
    }
    if (options->retention_bytes < -1) {
        return fail(HF_INVALID, "retention_bytes is %lld; it takes 0 and more",
                    (long long)options->retention_bytes);
    }
    if (options->lagging < HF_LAGGING_DEFAULT || options->lagging > HF_LAGGING_DROP) {
        return fail(HF_INVALID, "lagging is %d, which is no hf_lagging", (int)options->lagging);
    }
    if (options->type_index < HF_TOGGLE_DEFAULT || options->type_index > HF_ON) {
        return fail(HF_INVALID, "type_index is %d, which is no hf_toggle",
                    (int)options->type_index);
    }
    return HF_OK;
}

static hf_status put(hf_bus *bus, const char *name, const hf_namespace_options *options,
                     bool create, int32_t *ret_created)
{
    hf_namespace_options own = HF_NAMESPACE_OPTIONS_INIT;
    hf_status status = check(bus, name);
    if (!status && options) {
        status = bus_read_options(&own, sizeof own, sizeof own, options, "hf_namespace_options");
    }
    if (!status) {
        status = check_metadata(own.metadata_json);
    }
    if (!status && (own.gapless < HF_TOGGLE_DEFAULT || own.gapless > HF_ON)) {
        status = fail(HF_INVALID, "gapless is %d, which is no hf_toggle", (int)own.gapless);
    }
    if (!status) {
        status = check_retention(&own);
    }
    if (status) {
        return status;
    }
    struct namespace_put change = {
        .change = {.kind = CHANGE_NAMESPACE_PUT, .now_us = clock_wall_us()},
        .name = text_of(name),
        .metadata_json = own.metadata_json ? text_of(own.metadata_json) : TEXT_ABSENT,
        .gapless = own.gapless,
        .retention_ms = own.retention_ms,
        .retention_bytes = own.retention_bytes,
        .lagging = own.lagging,
        .type_index = own.type_index,
        .create = create,
    };
    status = bus_run(bus, &change.change);
    if (!status && ret_created) {
        *ret_created = change.ret_created ? 1 : 0;
    }
    if (!status && own.type_index != HF_TOGGLE_DEFAULT) {
        status = types_run(bus, text_of(name), NULL, NULL);
    }
    return status;
}

hf_status hf_namespace_create(hf_bus *bus, const char *name, const hf_namespace_options *options,
                              int32_t *ret_created)
{
    return put(bus, name, options, true, ret_created);
}

hf_status hf_namespace_set(hf_bus *bus, const char *name, const hf_namespace_options *options)
{
    return put(bus, name, options, false, NULL);
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct listing {
    hf_namespace_fn found;
    void *ctx;
    int64_t calls;
};

static const char *type_index_word(enum type_index state)
{
    switch (state) {
    case TYPE_INDEX_OFF:
        return "off";
    case TYPE_INDEX_BUILDING:
        return "building";
    case TYPE_INDEX_ON:
        return "on";
    case TYPE_INDEX_DROPPING:
        return "dropping";
    }
    return "off";
}

static int hand_up(const struct namespace_row *row, void *ctx)
{
    struct listing *listing = ctx;
    hf_namespace_info info = {
        .name = row->name.bytes,
        .metadata_json = row->metadata_json.bytes,
        .created_at_us = row->created_at_us,
        .removing_at_us = row->removing_at_us,
        .copying = row->copying ? 1 : 0,
        .gapless = row->gapless ? 1 : 0,
        .head = row->head,
        .subscriptions = row->subscriptions,
        .retention_ms = row->retention_ms,
        .retention_bytes = row->retention_bytes,
        .lagging = row->drops_lagging ? HF_LAGGING_DROP : HF_LAGGING_KEEP,
        .grants_json = row->grants_json.bytes,
        .type_index = type_index_word(row->type_index),
    };
    listing->calls++;
    return listing->found(&info, listing->ctx);
}

hf_status hf_namespace_list(hf_bus *bus, hf_namespace_fn found, void *ctx)
{
    struct listing listing = {found, ctx, 0};
    hf_status status = bus_check_handle(bus);
    if (!status && !found) {
        status = fail(HF_INVALID, "the callback is NULL");
    }
    return status ? status : store_namespace_list(bus->store, TEXT_ABSENT, hand_up, &listing);
}

hf_status hf_namespace_get(hf_bus *bus, const char *name, hf_namespace_fn found, void *ctx)
{
    struct listing listing = {found, ctx, 0};
    hf_status status = check(bus, name);
    if (!status && !found) {
        status = fail(HF_INVALID, "the callback is NULL");
    }
    if (!status) {
        status = store_namespace_list(bus->store, text_of(name), hand_up, &listing);
    }
    return status || listing.calls > 0 ? status
                                       : fail(HF_NOTFOUND, "there is no namespace %s", name);
}

/* ---- Granting -------------------------------------------------------------------------------- */

static hf_status grant(hf_bus *bus, enum change_kind kind, const char *name, const char *role,
                       const char *grantee, int32_t *ret_changed)
{
    hf_status status = check(bus, name);
    if (!status && (!role || !grantee)) {
        status = fail(HF_INVALID, "%s is NULL", role ? "grantee" : "role");
    }
    if (status) {
        return status;
    }
    struct namespace_grant change = {
        .change = {.kind = kind, .now_us = clock_wall_us()},
        .name = text_of(name),
    };
    status = intake_text(role, "role", SIZE_MAX, &change.role);
    if (!status) {
        status = intake_text(grantee, "grantee", SIZE_MAX, &change.grantee);
    }
    if (!status) {
        status = bus_run(bus, &change.change);
    }
    if (!status && ret_changed) {
        *ret_changed = change.ret_changed ? 1 : 0;
    }
    return status;
}

hf_status hf_namespace_grant(hf_bus *bus, const char *name, const char *role, const char *grantee,
                             int32_t *ret_changed)
{
    return grant(bus, CHANGE_NAMESPACE_GRANT, name, role, grantee, ret_changed);
}

hf_status hf_namespace_revoke(hf_bus *bus, const char *name, const char *role, const char *grantee,
                              int32_t *ret_changed)
{
    return grant(bus, CHANGE_NAMESPACE_REVOKE, name, role, grantee, ret_changed);
}

/* ---- Removing -------------------------------------------------------------------------------- */

hf_status hf_namespace_remove(hf_bus *bus, const char *name, hf_toggle force)
{
    hf_status status = check(bus, name);
    bool more = true;
    while (!status && more) {
        struct namespace_remove change = {
            .change = {.kind = CHANGE_NAMESPACE_REMOVE, .now_us = clock_wall_us()},
            .name = text_of(name),
            .force = force == HF_ON,
        };
        status = bus_run(bus, &change.change);
        more = change.ret_more;
        HF_POINT("mid_namespace_remove");
    }
    return status;
}
