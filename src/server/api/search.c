/*
 * search.c - the newest events of a type or a key, newest first.
 *
 * The log is read backwards in windows of WINDOW positions, so an answer takes a bounded time
 * however long the log is: it ends when there are enough events, or when SEARCH_MS have passed, and
 * `next` says before which position to go on.
 */
#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"
#include "server/api/api.h"

#include <microhttpd.h>

#define WINDOW 500
#define SEARCH_MS 60

/* An event that was found, without its payload. */
struct found {
    int64_t position;
    int64_t entered_at_us;
    size_t payload_bytes;
    char id[HF_ID_BYTES];
    const char *type; /* in the exchange's memory, as is the key */
    const char *key;
};

struct finding {
    struct exchange *exchange;
    const char *key;  /* NULL: of any */
    int64_t before;   /* not at or behind this position */
    struct found *of; /* those of one window, in the order of the log */
    size_t count;
};

static const char *keep(struct exchange *exchange, const char *text)
{
    return text ? arena_text(&exchange->memory, text_of(text)).bytes : NULL;
}

static int see_event(const hf_event *event, void *ctx)
{
    struct finding *finding = ctx;

    if (event->position >= finding->before || finding->count == WINDOW) {
        return 1;
    }
    if (finding->key && (!event->key || strcmp(event->key, finding->key) != 0)) {
        return 0;
    }
    struct found *found = &finding->of[finding->count++];
    *found = (struct found){
        .position = event->position,
        .entered_at_us = event->entered_at_us,
        .payload_bytes = event->payload_bytes,
        .type = keep(finding->exchange, event->type),
        .key = keep(finding->exchange, event->key),
    };
    memcpy(found->id, event->id, sizeof found->id);
    return 0;
}

static void list_found(struct list *list, const struct found *found)
{
    struct json_out *json = list_item(list);

    show_int(json, "position", found->position);
    show_string(json, "id", found->id);
    show_string(json, "type", found->type);
    show_string(json, "key", found->key);
    show_time(json, "entered_at", found->entered_at_us);
    show_int(json, "payload_bytes", (int64_t)found->payload_bytes);
    list_item_end(list);
}

/* Lists what one window has, and moves `before` down to what was listed last. */
static hf_status search_window(struct finding *finding, const char *type, struct list *list)
{
    int64_t from = finding->before > WINDOW ? finding->before - WINDOW - 1 : 0;
    int64_t cursor = from;
    hf_status status;

    finding->count = 0;
    status = hf_read(finding->exchange->bus, type, WINDOW, 0, &cursor, see_event, finding);
    if (status) {
        return status;
    }
    while (finding->count > 0 && list->count < list->limit) {
        finding->count--;
        list_found(list, &finding->of[finding->count]);
        finding->before = finding->of[finding->count].position;
    }
    if (finding->count == 0 && list->count < list->limit) {
        finding->before = from + 1;
    }
    return arena_status(&finding->exchange->memory);
}

static void search(struct finding *finding, struct list *list, const char *type, int64_t first)
{
    int64_t until_us = clock_mono_us() + SEARCH_MS * 1000;
    char next[24];
    hf_status status = HF_OK;

    do {
        status = search_window(finding, type, list);
    } while (!status && finding->before > first && list->count < list->limit &&
             clock_mono_us() < until_us);
    snprintf(next, sizeof next, "%" PRId64, finding->before);
    list_end(list, status, finding->before > first ? next : NULL);
}

void events_search(struct exchange *exchange)
{
    struct finding finding = {.exchange = exchange, .before = INT64_MAX};
    struct list list;
    int64_t head = 0;
    int64_t start = 0; /* the first position is behind it */
    hf_status status = hf_locate(exchange->bus, (hf_place){.kind = HF_PLACE_NOW}, &head);

    status = status ? status : hf_locate(exchange->bus, (hf_place){.kind = HF_PLACE_START}, &start);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    if (!exchange_query_number(exchange, "before", 1, INT64_MAX, &finding.before) ||
        !list_begin(&list, exchange)) {
        return;
    }
    if (finding.before > head) {
        finding.before = head + 1;
    }
    finding.key = exchange_query(exchange, "key");
    finding.of = mem_calloc(WINDOW, sizeof *finding.of);
    if (!finding.of) {
        answer_failure(exchange, fail(HF_NOMEM, "out of memory"));
        return;
    }
    search(&finding, &list, exchange_query(exchange, "type"), start + 1);
    mem_free(finding.of);
}
