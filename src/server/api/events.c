/*
 * events.c - publishing, and looking at events.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/json_scan.h"
#include "server/api/api.h"
#include "server/api/event_states.h"
#include "server/api/publish.h"
#include "json/new_event.h"
#include "json/trace.h"

#include <microhttpd.h>

#define POSITION_DIGITS_MAX 18
#define CANCEL_WAIT_MS_MAX 60000

/* ---- Publishing ------------------------------------------------------------------------------ */

/* The trace that the request belongs to goes with the event, unless that has one of its own. */
static hf_status add_trace(struct exchange *exchange, hf_new_event *event)
{
    return trace_take(exchange_header(exchange, "traceparent"),
                      exchange_header(exchange, "tracestate"), &exchange->memory, event);
}

static hf_status add_trace_to_all(struct exchange *exchange, hf_new_event *events, size_t count)
{
    hf_status status = HF_OK;

    if (exchange_header(exchange, "traceparent")) {
        for (size_t i = 0; i < count && !status; i++) {
            status = add_trace(exchange, &events[i]);
        }
    }
    return status;
}

/* 201: stored now; 200: it was there before; 202: it waits for its time. */
static int status_of(const hf_receipt *receipt)
{
    if (receipt->duplicate) {
        return MHD_HTTP_OK;
    }
    return receipt->position == 0 ? MHD_HTTP_ACCEPTED : MHD_HTTP_CREATED;
}

/* The one event of the request. */
static hf_status read_event(struct exchange *exchange, enum mode mode, hf_new_event *ret_event)
{
    struct text body = buf_text(&exchange->body);

    switch (mode) {
    case MODE_BINARY:
        return publish_read_binary(exchange, ret_event);
    case MODE_STRUCTURED:
        return cloudevent_read(body, "the body", &exchange->memory, ret_event);
    default:
        return new_event_read(body, "the body", &exchange->memory, ret_event);
    }
}

static void write_receipt(struct exchange *exchange, const hf_receipt *receipt, int64_t due_us)
{
    struct json_out json = answer_json(exchange, status_of(receipt));

    json_object_begin(&json);
    show_receipt(&json, receipt, due_us);
    json_object_end(&json);
}

/* On a thread of the bus. */
static void take_receipt(hf_status status, const hf_receipt *receipt, const char *message,
                         void *ctx)
{
    struct exchange *exchange = ctx;

    if (status) {
        answer_failure(exchange, fail(status, "%s", message));
    } else {
        write_receipt(exchange, receipt, -1);
    }
    exchange->answered(exchange);
}

bool events_publish_at_once(struct exchange *exchange)
{
    hf_new_event event;
    hf_status status;

    if (publish_mode(exchange) != MODE_NATIVE ||
        json_kind(buf_text(&exchange->body)) != JSON_OBJECT) {
        return false;
    }
    status = read_event(exchange, MODE_NATIVE, &event);
    if (!status && (event.deliver_at_us != -1 || event.unique)) {
        return false; /* the answer may need another look into the database */
    }
    status = status ? status : add_trace(exchange, &event);
    status = status ? status : hf_publish_async(exchange->bus, &event, take_receipt, exchange);
    if (status) {
        answer_failure(exchange, status);
        exchange->answered(exchange);
    }
    return true;
}

static void publish_one(struct exchange *exchange, enum mode mode)
{
    hf_new_event event;
    hf_receipt receipt;
    hf_status status = read_event(exchange, mode, &event);

    if (!status) {
        status = add_trace(exchange, &event);
    }
    if (!status) {
        status = hf_publish(exchange->bus, &event, &receipt);
    }
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    write_receipt(exchange, &receipt, receipt_due_us(exchange->bus, &receipt, event.deliver_at_us));
}

/* Reads the events of an array into ret_events, which has room for HF_PUBLISH_MANY_MAX. The body is
 * read once: it is checked on the way. */
static hf_status read_events(struct exchange *exchange, enum mode mode, hf_new_event *ret_events,
                             size_t *ret_count)
{
    hf_status (*read)(struct json_scan *, const char *, struct arena *, hf_new_event *) =
        mode == MODE_BATCH ? cloudevent_scan : new_event_scan;
    struct json_scan scan;

    *ret_count = 0;
    json_scan_begin(&scan, buf_text(&exchange->body), HF_JSON_DEPTH_MAX + 2);
    json_scan_enter(&scan, JSON_ARRAY);
    while (json_scan_more(&scan, NULL)) {
        if (*ret_count == HF_PUBLISH_MANY_MAX) {
            return fail(HF_INVALID, "at most %d events are published at once", HF_PUBLISH_MANY_MAX);
        }
        hf_status status = read(&scan, "it", &exchange->memory, &ret_events[*ret_count]);
        if (scan.reason) {
            break;
        }
        if (status) {
            return fail(status, "event %zu: %s", *ret_count, err_message());
        }
        ++*ret_count;
    }
    return json_scan_end(&scan) ? add_trace_to_all(exchange, ret_events, *ret_count)
                                : json_scan_failure(&scan, "the body");
}

/* How many elements the array has at most: one more than its commas. */
static size_t elements_max(const struct buf *body)
{
    size_t count = 1;

    for (size_t i = 0; i < body->length && count < HF_PUBLISH_MANY_MAX; i++) {
        count += body->bytes[i] == ',';
    }
    return count;
}

static void publish_many(struct exchange *exchange, enum mode mode)
{
    size_t room = elements_max(&exchange->body);
    hf_new_event *events = mem_calloc(room, sizeof *events);
    hf_receipt *receipts = mem_calloc(room, sizeof *receipts);
    size_t count = 0;
    hf_status status = events && receipts ? read_events(exchange, mode, events, &count)
                                          : fail(HF_NOMEM, "out of memory");

    if (!status && count > 0) {
        status = hf_publish_many(exchange->bus, events, count, receipts);
    }
    if (status) {
        answer_failure(exchange, status);
    } else {
        struct json_out json = answer_json(exchange, MHD_HTTP_CREATED);
        json_array_begin(&json);
        for (size_t i = 0; i < count; i++) {
            json_object_begin(&json);
            show_receipt(&json, &receipts[i],
                         receipt_due_us(exchange->bus, &receipts[i], events[i].deliver_at_us));
            json_object_end(&json);
        }
        json_array_end(&json);
    }
    mem_free(receipts);
    mem_free(events);
}

void events_publish(struct exchange *exchange)
{
    enum mode mode = publish_mode(exchange);
    bool many = json_kind(buf_text(&exchange->body)) == JSON_ARRAY;

    if (mode == MODE_UNKNOWN) {
        answer_problem(exchange, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                       "CloudEvents are taken as " CLOUDEVENT_TYPE ", as " CLOUDEVENT_BATCH_TYPE
                       " or in headers ce-*");
    } else if (mode == MODE_BATCH && !many) {
        answer_problem(exchange, MHD_HTTP_BAD_REQUEST, "a batch of CloudEvents is an array");
    } else if (mode == MODE_BATCH || (mode == MODE_NATIVE && many)) {
        publish_many(exchange, mode);
    } else {
        publish_one(exchange, mode);
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int add_cloudevent(const hf_event *event, void *ctx)
{
    struct list *list = ctx;

    cloudevent_write(&list->json, event);
    list->count++;
    return list_is_full(list);
}

/* An array of CloudEvents. It has no `next`: the events have their positions. */
static hf_status list_cloudevents(struct exchange *exchange, struct list *list, int64_t after)
{
    hf_status status;

    list->json = answer_json(exchange, MHD_HTTP_OK);
    exchange->content_type = CLOUDEVENT_BATCH_TYPE;
    json_array_begin(&list->json);
    status = hf_read(exchange->bus, exchange_query(exchange, "type"), (size_t)list->limit, 0,
                     &after, add_cloudevent, list);
    json_array_end(&list->json);
    return status;
}

static int list_event(const hf_event *event, void *ctx)
{
    struct list *list = ctx;

    show_event(list_item(list), event);
    list_item_end(list);
    return list_is_full(list);
}

void events_list(struct exchange *exchange)
{
    struct list list;
    int64_t after = 0;
    char next[24];
    hf_status status;

    if (!exchange_query_number(exchange, "after", 0, INT64_MAX, &after) ||
        !list_begin(&list, exchange)) {
        return;
    }
    if (exchange_accepts(exchange, CLOUDEVENT_BATCH_TYPE)) {
        status = list_cloudevents(exchange, &list, after);
        if (status) {
            answer_failure(exchange, status);
        }
        return;
    }
    status = hf_read(exchange->bus, exchange_query(exchange, "type"), (size_t)list.limit, 0, &after,
                     list_event, &list);
    snprintf(next, sizeof next, "%" PRId64, after);
    list_end(&list, status, list_is_full(&list) ? next : NULL);
}

/* The event that a part of the path names. */
struct event_view {
    struct json_out json;
    struct exchange *exchange;
    char id[HF_ID_BYTES];
    int64_t position;
};

static void note_event(struct event_view *view, const hf_event *event)
{
    memcpy(view->id, event->id, sizeof view->id);
    view->position = event->position;
}

static int view_event(const hf_event *event, void *ctx)
{
    struct event_view *view = ctx;

    note_event(view, event);
    view->json = answer_json(view->exchange, MHD_HTTP_OK);
    json_object_begin(&view->json);
    show_event(&view->json, event);
    return 1;
}

static int view_cloudevent(const hf_event *event, void *ctx)
{
    struct event_view *view = ctx;

    note_event(view, event);
    view->json = answer_json(view->exchange, MHD_HTTP_OK);
    view->exchange->content_type = CLOUDEVENT_TYPE;
    cloudevent_write(&view->json, event);
    return 1;
}

static int view_payload(const hf_event *event, void *ctx)
{
    struct event_view *view = ctx;

    note_event(view, event);
    answer_static(view->exchange, "application/json",
                  (struct text){event->payload, event->payload_bytes});
    return 1;
}

/* The position that a part of the path says; -1: it is an id. */
static int64_t position_of(const char *word)
{
    size_t digits = strspn(word, "0123456789");

    return digits == 0 || digits > POSITION_DIGITS_MAX || word[digits] ? -1
                                                                       : strtoll(word, NULL, 10);
}

/* Finds it by its id, or by its position. */
static hf_status find(struct event_view *view, hf_event_fn found)
{
    const char *word = exchange_param(view->exchange, "id");
    int64_t position = position_of(word);
    int64_t cursor = position - 1;
    hf_status status;

    if (position == -1) {
        return hf_event_get(view->exchange->bus, word, found, view);
    }
    status = position == 0 ? HF_OK : hf_read(view->exchange->bus, NULL, 1, 0, &cursor, found, view);
    if (!status && (!view->id[0] || view->position != position)) {
        return fail(HF_NOTFOUND, "there is no event at position %s", word);
    }
    return status;
}

void events_show(struct exchange *exchange)
{
    struct event_view view = {.exchange = exchange};
    struct states_wanted wanted;
    bool cloudevent = exchange_accepts(exchange, CLOUDEVENT_TYPE);
    hf_status status;

    if (!states_query(exchange, &wanted)) {
        return;
    }
    status = find(&view, cloudevent ? view_cloudevent : view_event);

    if (!status && !cloudevent) {
        status = states_show(exchange, &view.json, view.id, &wanted);
        json_object_end(&view.json);
    }
    if (status) {
        answer_failure(exchange, status);
    }
}

void events_cancel(struct exchange *exchange)
{
    hf_cancel_options options = HF_CANCEL_OPTIONS_INIT;
    const char *word = exchange_param(exchange, "id");
    const char *subscription;
    struct members members;

    members_begin(&members, exchange);
    subscription = members_text(&members, "subscription");
    options.reason = members_text(&members, "reason");
    options.by = exchange->actor;
    options.position = position_of(word);
    options.wait_ms = members_number(&members, "wait_ms", 0, CANCEL_WAIT_MS_MAX, -1);
    if (!subscription) {
        members_mistake(&members, "\"subscription\" is missing: for which one?");
    }
    if (members_end(&members)) {
        const char *id = options.position == -1 ? word : NULL;
        answer_done(exchange, hf_cancel(exchange->bus, subscription, id, &options));
    }
}

void events_payload(struct exchange *exchange)
{
    struct event_view view = {.exchange = exchange};
    hf_status status = find(&view, view_payload);

    if (status) {
        answer_failure(exchange, status);
    }
}
