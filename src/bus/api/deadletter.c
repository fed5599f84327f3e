/*
 * deadletter.c - listing, counting, grouping, retrying, resolving and purging dead letters.
 *
 * Nothing here needs a started bus, or a subscription that still exists: a dead letter is complete
 * in itself.
 *
 * Retrying and purging all that match go in steps, oldest first, each step a transaction of its
 * own: collect the numbers of up to STORE_DEAD_STEP_MAX, change them, go on after the last. So
 * other writers never wait for more than a step, and a failure in the middle leaves whole steps
 * done. The newest number at the beginning is the end of the walk: a letter that is retried, fails
 * and dies again gets a higher number, and would otherwise be met again and again.
 */
#include "base/err.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "bus/intake.h"

#define LIST_LIMIT_DEFAULT 100

/* ---- Which ----------------------------------------------------------------------------------- */

/* What no dead letter can have is a mistake; a server would refuse it in its own words. */
static hf_status check_texts(const hf_dead_filter *filter)
{
    struct text text;
    hf_status status = intake_text(filter->subscription, "subscription", SIZE_MAX, &text);
    if (!status) {
        status = intake_text(filter->error, "error", SIZE_MAX, &text);
    }
    return status ? status : intake_text(filter->reason, "reason", SIZE_MAX, &text);
}

static hf_status check_filter(const hf_dead_filter *filter)
{
    hf_status status = check_texts(filter);
    if (status) {
        return status;
    }
    if (filter->type) {
        status = glob_check_pattern(text_of(filter->type));
        if (status) {
            return fail(status, "type: %s", err_message());
        }
    }
    if (filter->resolved < HF_TOGGLE_DEFAULT || filter->resolved > HF_ON) {
        return fail(HF_INVALID, "resolved is %d, which is no hf_toggle", (int)filter->resolved);
    }
    if (filter->limit < -1) {
        return fail(HF_INVALID, "limit is %d; it must be 0 or more", filter->limit);
    }
    if (filter->offset < -1) {
        return fail(HF_INVALID, "offset is %d; it must be 0 or more", filter->offset);
    }
    if (filter->failed_before_us < -1 || filter->failed_after_us < -1) {
        return fail(HF_INVALID,
                    "failed_before_us and failed_after_us must be 0 or more, or -1: any");
    }
    if (filter->before_dead_id < -1) {
        return fail(HF_INVALID, "before_dead_id is %" PRId64 "; it must be 0 or more",
                    filter->before_dead_id);
    }
    return HF_OK;
}

/* limit_default: what "not given" means for the call at hand. */
static hf_status query_of(const hf_dead_filter *filter, int64_t limit_default,
                          struct dead_query *ret_query)
{
    hf_dead_filter own = HF_DEAD_FILTER_INIT;
    hf_status status =
        filter ? bus_read_options(&own, sizeof own, sizeof own, filter, "hf_dead_filter") : HF_OK;
    if (!status) {
        status = check_filter(&own);
    }
    if (status) {
        return status;
    }
    *ret_query = (struct dead_query){
        .subscription = text_of(own.subscription),
        .type = text_of(own.type),
        .error = text_of(own.error),
        .reason = text_of(own.reason),
        .failed_before_us = own.failed_before_us,
        .failed_after_us = own.failed_after_us,
        .before_dead_id = own.before_dead_id,
        .after_dead_id = -1,
        .resolved_too = own.resolved == HF_ON,
        .limit = own.limit == -1 ? limit_default : own.limit,
        .offset = own.offset == -1 ? 0 : own.offset,
    };
    return HF_OK;
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct showing {
    const char *namespace_name;
    hf_dead_letter_fn found;
    void *ctx;
};

/* The store does not know the event's namespace by name. */
static int show(const hf_dead_letter *letter, void *ctx)
{
    const struct showing *showing = ctx;
    hf_dead_letter own = *letter;
    own.event.namespace_name = showing->namespace_name;
    return showing->found(&own, showing->ctx);
}

hf_status hf_dead_list(hf_bus *bus, const hf_dead_filter *filter, hf_dead_letter_fn found,
                       void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    struct dead_query query;
    status = query_of(filter, LIST_LIMIT_DEFAULT, &query);
    struct showing showing = {bus->namespace_name, found, ctx};
    return status ? status : store_dead_list(bus->store, &query, show, &showing);
}

static hf_status not_found(int64_t dead_id)
{
    return fail(HF_NOTFOUND, "there is no dead letter %" PRId64, dead_id);
}

hf_status hf_dead_get(hf_bus *bus, int64_t dead_id, hf_dead_letter_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    struct showing showing = {bus->namespace_name, found, ctx};
    status = store_dead_get(bus->store, dead_id, show, &showing);
    return status == HF_NOTFOUND ? not_found(dead_id) : status;
}

hf_status hf_dead_count(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!ret_count) {
        return fail(HF_INVALID, "ret_count is NULL");
    }
    struct dead_query query;
    status = query_of(filter, -1, &query);
    return status ? status : store_dead_count(bus->store, &query, ret_count);
}

hf_status hf_dead_groups(hf_bus *bus, hf_dead_by by, const hf_dead_filter *filter,
                         hf_dead_group_fn found, void *ctx, hf_dead_totals *ret_totals)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    if (by < HF_DEAD_BY_ERROR || by > HF_DEAD_BY_REASON) {
        return fail(HF_INVALID, "by is %d, which is no hf_dead_by", (int)by);
    }
    struct dead_query query;
    status = query_of(filter, LIST_LIMIT_DEFAULT, &query);
    hf_dead_totals totals = {0};
    hf_dead_totals given = {0};
    if (!status && ret_totals) {
        status = bus_read_options(&given, sizeof given, sizeof given, ret_totals, "hf_dead_totals");
    }
    if (!status) {
        status = store_dead_groups(bus->store, &query, by, found, ctx, &totals);
    }
    if (!status && ret_totals) {
        totals.size = ret_totals->size;
        memcpy(ret_totals, &totals, sizeof totals);
    }
    return status;
}

/* ---- One ------------------------------------------------------------------------------------- */

hf_status hf_dead_retry(hf_bus *bus, int64_t dead_id, const char *payload, size_t payload_bytes)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    struct dead_retry retry = {
        .change = {.kind = CHANGE_DEAD_RETRY, .now_us = clock_wall_us()},
        .dead_ids = &dead_id,
        .count = 1,
    };
    if (payload) {
        status = intake_payload(bus, payload, payload_bytes, &retry.payload);
        if (status) {
            return status;
        }
    }
    status = bus_run(bus, &retry.change);
    if (!status && retry.ret_resolved > 0) {
        return fail(HF_CONFLICT,
                    "dead letter %" PRId64 " is resolved: it stays as it is and is not delivered "
                    "again. Seek the subscription, or publish the event anew",
                    dead_id);
    }
    if (!status && retry.ret_count == 0) {
        return fail(HF_NOTFOUND,
                    "there is no dead letter %" PRId64 ", or its subscription was removed",
                    dead_id);
    }
    return status;
}

hf_status hf_dead_resolve(hf_bus *bus, int64_t dead_id, const char *by, const char *note)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    struct dead_resolve resolve = {
        .change = {.kind = CHANGE_DEAD_RESOLVE, .now_us = clock_wall_us()},
        .dead_id = dead_id,
    };
    status = intake_text(by ? by : bus->node_name, "by", HF_PRODUCER_BYTES_MAX, &resolve.by);
    if (!status) {
        status = intake_text(note, "note", HF_ERROR_BYTES_MAX, &resolve.note);
    }
    if (status) {
        return status;
    }
    status = bus_run(bus, &resolve.change);
    return status == HF_NOTFOUND ? not_found(dead_id) : status;
}

/* ---- All that match -------------------------------------------------------------------------- */

struct ids {
    int64_t ids[STORE_DEAD_STEP_MAX];
    size_t count;
};

static int collect_id(const hf_dead_letter *letter, void *ctx)
{
    struct ids *ids = ctx;
    ids->ids[ids->count++] = letter->dead_id;
    return ids->count == STORE_DEAD_STEP_MAX;
}

/* Changes one step's letters; ret_count: how many of them were still there. */
typedef hf_status (*step_fn)(hf_bus *bus, const struct ids *ids, int64_t *ret_count);

static hf_status retry_step(hf_bus *bus, const struct ids *ids, int64_t *ret_count)
{
    struct dead_retry retry = {
        .change = {.kind = CHANGE_DEAD_RETRY, .now_us = clock_wall_us()},
        .dead_ids = ids->ids,
        .count = ids->count,
    };
    hf_status status = bus_run(bus, &retry.change);
    *ret_count = status ? 0 : retry.ret_count;
    return status;
}

static hf_status purge_step(hf_bus *bus, const struct ids *ids, int64_t *ret_count)
{
    struct dead_purge purge = {
        .change = {.kind = CHANGE_DEAD_PURGE, .now_us = clock_wall_us()},
        .dead_ids = ids->ids,
        .count = ids->count,
    };
    hf_status status = bus_run(bus, &purge.change);
    *ret_count = status ? 0 : purge.ret_count;
    return status;
}

/* Nothing that dies from now on is met. */
static hf_status bound_walk(hf_bus *bus, struct dead_query *query)
{
    struct dead_query newest = {
        .failed_before_us = -1,
        .failed_after_us = -1,
        .before_dead_id = -1,
        .after_dead_id = -1,
        .resolved_too = true,
        .limit = 1,
    };
    struct ids ids = {.count = 0};
    hf_status status = store_dead_list(bus->store, &newest, collect_id, &ids);
    if (status) {
        return status;
    }
    int64_t end = ids.count > 0 ? ids.ids[0] + 1 : 0;
    if (query->before_dead_id < 0 || query->before_dead_id > end) {
        query->before_dead_id = end;
    }
    return HF_OK;
}

static hf_status walk(hf_bus *bus, struct dead_query *query, step_fn step, int64_t *count)
{
    hf_status status = bound_walk(bus, query);
    int64_t left = query->limit;
    while (!status && left != 0) {
        struct ids ids = {.count = 0};
        query->limit = left < 0 || left > STORE_DEAD_STEP_MAX ? STORE_DEAD_STEP_MAX : left;
        status = store_dead_list(bus->store, query, collect_id, &ids);
        if (status || ids.count == 0) {
            break;
        }
        int64_t changed;
        status = step(bus, &ids, &changed);
        *count += changed;
        query->after_dead_id = ids.ids[ids.count - 1];
        query->offset = 0;
        left = left < 0 ? left : left - (int64_t)ids.count;
    }
    return status;
}

static hf_status change_all(hf_bus *bus, const hf_dead_filter *filter, step_fn step,
                            int64_t *ret_count)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    struct dead_query query;
    status = query_of(filter, -1, &query);
    if (status) {
        return status;
    }
    query.oldest_first = true;
    int64_t count = 0;
    status = walk(bus, &query, step, &count);
    if (ret_count) {
        *ret_count = count;
    }
    return status;
}

hf_status hf_dead_retry_all(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count)
{
    return change_all(bus, filter, retry_step, ret_count);
}

hf_status hf_dead_purge(hf_bus *bus, const hf_dead_filter *filter, int64_t *ret_count)
{
    return change_all(bus, filter, purge_step, ret_count);
}
