/*
 * claims.c - pulling: claiming events of shared subscriptions, settling them, and leases.
 */
#include "base/banned.h"
#include "base/text/json_read.h"
#include "base/time/clock.h"
#include "base/time/deadline.h"
#include "server/api/api.h"

#include <microhttpd.h>

#define WAIT_STEP_MS 1000 /* between two looks whether the server is about to stop */
#define WAIT_MS_MAX 60000
#define LEASE_MS_MAX (INT64_C(86400000) * 7)
#define DELAY_MS_MAX INT64_C(31622400000)

/* ---- Claiming -------------------------------------------------------------------------------- */

/* NULL: no events. */
static void answer_batch(struct exchange *exchange, const hf_batch *batch)
{
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    size_t count = batch ? hf_batch_count(batch) : 0;

    json_object_begin(&json);
    show_string(&json, "lease", count ? hf_batch_lease(batch) : NULL);
    show_time(&json, "expires_at", count ? hf_batch_expires_at_us(batch) : -1);
    json_key(&json, "events");
    json_array_begin(&json);
    for (size_t i = 0; i < count; i++) {
        json_object_begin(&json);
        show_int(&json, "attempt", hf_batch_attempt(batch, i));
        show_event(&json, hf_batch_event(batch, i));
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
}

static void answer_nothing(struct exchange *exchange)
{
    answer_batch(exchange, NULL);
}

static bool is_empty(const hf_batch *batch)
{
    return !batch || hf_batch_count(batch) == 0;
}

/* Waits for events in steps, because the server may be stopped and the client may leave. */
static hf_status wait_for_events(struct exchange *exchange, const char *name,
                                 hf_claim_options *options, hf_batch **ret_batch)
{
    struct deadline deadline = {exchange->wait.until_us};

    for (;;) {
        int64_t left_ms = deadline_left_ms(deadline);
        hf_status status;

        options->wait_ms = left_ms < WAIT_STEP_MS ? left_ms : WAIT_STEP_MS;
        status = hf_claim(exchange->bus, name, options, ret_batch);
        if (status || !is_empty(*ret_batch) || left_ms <= WAIT_STEP_MS ||
            exchange_is_stopping(exchange) || exchange_is_left(exchange)) {
            return status;
        }
        if (deadline_left_ms(deadline) > left_ms - WAIT_STEP_MS / 2) {
            return status; /* it has not waited: there is nothing to wait for */
        }
        hf_batch_free(*ret_batch);
        *ret_batch = NULL;
    }
}

/* A client that has given up waiting will not answer for the events: others get them at once, and
 * the attempt does not count. */
static hf_status give_back(struct exchange *exchange, const char *name, hf_batch **batch)
{
    hf_status status = hf_release(exchange->bus, name, hf_batch_lease(*batch), NULL, 0);

    hf_batch_free(*batch);
    *batch = NULL;
    return status;
}

/* Claims for a request that may wait. False: it parks, and has no answer yet. */
static bool claim_or_park(struct exchange *exchange, const char *name, hf_claim_options *options,
                          hf_status *ret_status, hf_batch **ret_batch)
{
    bool watches = exchange_watch(exchange, name);

    if (watches) {
        *ret_status = wait_for_events(exchange, name, options, ret_batch);
    } else if (exchange->wait.state == WAIT_WOKEN && exchange_is_left(exchange)) {
        return true;
    } else {
        options->wait_ms = 0;
        *ret_status = hf_claim(exchange->bus, name, options, ret_batch);
    }
    if (*ret_status) {
        return true;
    }
    if (is_empty(*ret_batch)) {
        bool parks = !watches && !exchange_is_stopping(exchange) &&
                     clock_mono_us() < exchange->wait.until_us;
        if (parks) {
            exchange_park(exchange, answer_nothing);
        }
        return !parks;
    }
    exchange->wait.found = true;
    if (exchange_is_left(exchange)) {
        *ret_status = give_back(exchange, name, ret_batch);
    }
    return true;
}

void claims_claim(struct exchange *exchange)
{
    const char *name = exchange_param(exchange, "name");
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    struct members members;
    hf_batch *batch = NULL;
    int64_t wait_ms;
    hf_status status = HF_OK;
    bool answered = true;

    members_begin(&members, exchange);
    options.max = (int32_t)members_number(&members, "max", 1, HF_CLAIM_MAX, -1);
    options.lease_ms = members_number(&members, "lease_ms", 1, LEASE_MS_MAX, -1);
    wait_ms = members_number(&members, "wait_ms", 0, WAIT_MS_MAX, 0);
    if (!members_end(&members)) {
        return;
    }
    options.detached = HF_ON; /* its worker is another program */
    if (wait_ms == 0 || exchange_is_stopping(exchange)) {
        options.wait_ms = 0;
        status = hf_claim(exchange->bus, name, &options, &batch);
    } else {
        if (exchange->wait.until_us == 0) {
            exchange_begins_wait(exchange, wait_ms);
        }
        answered = claim_or_park(exchange, name, &options, &status, &batch);
    }
    if (status) {
        answer_failure(exchange, status);
    } else if (answered) {
        answer_batch(exchange, batch);
    }
    hf_batch_free(batch);
}

/* ---- Settling -------------------------------------------------------------------------------- */

/* What is settled: all of the lease, or some of its positions. */
struct settled {
    const char *lease;
    int64_t *positions; /* NULL: all */
    size_t count;
};

/* Takes "lease" and "positions". */
static void take_settled(struct members *members, struct settled *ret_settled)
{
    struct text raw;
    struct json_iter iter;
    struct text element;
    size_t room = 0;

    *ret_settled = (struct settled){.lease = members_text(members, "lease")};
    if (!ret_settled->lease) {
        members_mistake(members, "\"lease\" is missing");
    }
    raw = members_raw(members, "positions");
    if (!raw.bytes) {
        return;
    }
    if (json_kind(raw) == JSON_ARRAY) {
        json_iter_init(&iter, raw);
        while (json_iter_next(&iter, NULL, &element)) {
            room++;
        }
        ret_settled->positions =
            arena_alloc(&members->exchange->memory, (room + 1) * sizeof(int64_t));
    }
    if (!ret_settled->positions || room == 0 || room > HF_CLAIM_MAX) {
        members_mistake(members, "\"positions\" takes an array of 1 to %d numbers", HF_CLAIM_MAX);
        return;
    }
    json_iter_init(&iter, raw);
    while (json_iter_next(&iter, NULL, &element)) {
        if (json_int_decode(element, &ret_settled->positions[ret_settled->count++])) {
            members_mistake(members, "\"positions\" takes numbers");
        }
    }
}

void claims_ack(struct exchange *exchange)
{
    struct members members;
    struct settled settled;

    members_begin(&members, exchange);
    take_settled(&members, &settled);
    if (members_end(&members)) {
        answer_done(exchange, hf_ack(exchange->bus, exchange_param(exchange, "name"), settled.lease,
                                     settled.positions, settled.count));
    }
}

void claims_nack(struct exchange *exchange)
{
    struct members members;
    struct settled settled;
    int64_t delay_ms;
    const char *error;

    members_begin(&members, exchange);
    take_settled(&members, &settled);
    delay_ms = members_number(&members, "delay_ms", 0, DELAY_MS_MAX, -1);
    error = members_text(&members, "error");
    if (members_end(&members)) {
        answer_done(exchange,
                    hf_nack(exchange->bus, exchange_param(exchange, "name"), settled.lease,
                            settled.positions, settled.count, delay_ms, error));
    }
}

void claims_release(struct exchange *exchange)
{
    const char *name = exchange_param(exchange, "name");
    struct members members;
    struct settled settled;
    int64_t delay_ms;
    hf_status status;

    members_begin(&members, exchange);
    take_settled(&members, &settled);
    delay_ms = members_number(&members, "delay_ms", 0, DELAY_MS_MAX, -1);
    if (!members_end(&members)) {
        return;
    }
    if (delay_ms == -1) {
        status = hf_release(exchange->bus, name, settled.lease, settled.positions, settled.count);
    } else {
        status = hf_release_after(exchange->bus, name, settled.lease, settled.positions,
                                  settled.count, delay_ms);
    }
    answer_done(exchange, status);
}

void claims_bury(struct exchange *exchange)
{
    struct members members;
    struct settled settled;
    const char *error;

    members_begin(&members, exchange);
    take_settled(&members, &settled);
    error = members_text(&members, "error");
    if (members_end(&members)) {
        answer_done(exchange, hf_bury(exchange->bus, exchange_param(exchange, "name"),
                                      settled.lease, settled.positions, settled.count, error));
    }
}

void claims_touch(struct exchange *exchange)
{
    struct members members;
    const char *lease;
    int64_t lease_ms;

    members_begin(&members, exchange);
    lease = members_text(&members, "lease");
    lease_ms = members_number(&members, "lease_ms", 1, LEASE_MS_MAX, -1);
    if (!lease) {
        members_mistake(&members, "\"lease\" is missing");
    }
    if (members_end(&members)) {
        answer_done(exchange,
                    hf_touch(exchange->bus, exchange_param(exchange, "name"), lease, lease_ms));
    }
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static int list_lease(const hf_lease_info *info, void *ctx)
{
    struct list *list = ctx;

    show_lease(list_item(list), info);
    list_item_end(list);
    return list->count == list->limit;
}

void leases_list(struct exchange *exchange)
{
    struct list list;

    if (list_begin(&list, exchange)) {
        const char *subscription = exchange_query(exchange, "subscription");
        list_end(&list, hf_lease_list(exchange->bus, subscription, list_lease, &list), NULL);
    }
}

void leases_revoke(struct exchange *exchange)
{
    int64_t count = 0;
    hf_status status = hf_lease_revoke(exchange->bus, exchange_param(exchange, "subscription"),
                                       exchange_param(exchange, "lease"), &count);

    answer_count(exchange, status, "events", count);
}
