/*
 * deliveries.c - looking at deliveries that are not over: hf_retry_list, hf_running_list.
 *
 * A retry whose next attempt runs has the same row as one that waits for it. Of an ordered
 * subscription the notes of what runs tell them apart; in a shared one it has another kind and is
 * in a lease, so it is not listed.
 *
 * A cursor is "DUE-POSITION" of the row, both as the store has them: a time that was moved to this
 * machine's clock could come back as another one.
 *
 * Everything is collected before the first callback, so callbacks may do what they like.
 */
#include "store/deliveries.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/set64.h"
#include "base/text/json_read.h"
#include "base/uuid.h"
#include "bus/api/inspect.h"

#define LIMIT_DEFAULT 100
#define LIST_BYTES_MAX ((size_t)256 << 20) /* texts of one listing */
#define CURSOR_BYTES 48

static const char *copy_id(struct arena *arena, const struct event_label *event)
{
    char id[UUID_TEXT_BYTES];
    uuid_format(event->id, id);
    return event->known ? arena_text(arena, text_of(id)).bytes : NULL;
}

/* ---- Retries --------------------------------------------------------------------------------- */

struct retry_look {
    struct arena arena;
    struct set64 running; /* positions */
    struct buf error;
    hf_retry_info *infos;
    size_t count;
    size_t limit;
    hf_status status;
};

static int note_running(const struct handler_row *row, void *ctx)
{
    struct retry_look *look = ctx;
    look->status = set64_put(&look->running, (uint64_t)row->position, 1);
    return look->status != HF_OK;
}

/* The error of the last attempt in a story, which may be absent; NULL if it has none. */
static const char *last_error(struct retry_look *look, struct text story)
{
    struct json_iter iter;
    struct text attempt;
    struct text last = TEXT_ABSENT;
    if (text_is_absent(story) || !json_iter_init(&iter, story)) {
        return NULL;
    }
    while (json_iter_next(&iter, NULL, &attempt)) {
        last = attempt;
    }
    buf_clear(&look->error);
    bool found = !text_is_absent(last) && !json_find_string(last, "error", &look->error);
    return found ? arena_text(&look->arena, buf_text(&look->error)).bytes : NULL;
}

static hf_state state_of(const struct retry_look *look, const struct waiting_row *row)
{
    if (set64_get(&look->running, (uint64_t)row->position, NULL)) {
        return HF_STATE_PROCESSING;
    }
    if (row->kind == RETRY_BLOCKED) {
        return HF_STATE_DEAD;
    }
    bool follows = row->kind == RETRY_HELD || row->next_attempt_us == 0;
    return follows ? HF_STATE_HELD : HF_STATE_RETRYING;
}

static int see_retry(const struct waiting_row *row, void *ctx)
{
    struct retry_look *look = ctx;
    char cursor[CURSOR_BYTES];
    if (look->count == look->limit) {
        return 1;
    }
    snprintf(cursor, sizeof cursor, "%" PRId64 "-%" PRId64, row->due, row->position);
    hf_state state = state_of(look, row);
    look->infos[look->count++] = (hf_retry_info){
        .position = row->position,
        .event_id = copy_id(&look->arena, &row->event),
        .type = arena_text(&look->arena, row->event.type).bytes,
        .tenant = arena_text(&look->arena, row->event.tenant).bytes,
        .key = arena_text(&look->arena, row->event.key).bytes,
        .partition = row->partition,
        .state = state,
        .attempts = row->attempts,
        .cause = cause_name(row->cause).bytes,
        .error = last_error(look, row->story),
        .failed_at_us = row->failed_at_us,
        .next_attempt_at_us = state == HF_STATE_RETRYING ? row->next_attempt_us : -1,
        .behind = row->first == row->position ? -1 : row->first,
        .held = row->held < HF_RETRY_HELD_MAX ? row->held : HF_RETRY_HELD_MAX,
        .held_more = row->held > HF_RETRY_HELD_MAX ? 1 : 0,
        .cursor = arena_text(&look->arena, text_of(cursor)).bytes,
    };
    return 0;
}

static hf_status read_cursor(const char *text, struct retry_query *query)
{
    char *end;
    char *last = NULL;
    query->after_due = strtoll(text, &end, 10);
    if (end != text && *end == '-') {
        query->after = strtoll(end + 1, &last, 10);
    }
    bool whole = last && last != end + 1 && *last == '\0' && query->after >= 0;
    return whole ? HF_OK : fail(HF_INVALID, "after is not the cursor of a retry: \"%.64s\"", text);
}

/* What is asked of the store; HF_INVALID. */
static hf_status make_query(const hf_retry_filter *given, struct retry_query *query)
{
    hf_retry_filter filter = HF_RETRY_FILTER_INIT;
    hf_status status =
        given ? bus_read_options(&filter, sizeof filter, offsetof(hf_retry_filter, behind), given,
                                 "hf_retry_filter")
              : HF_OK;
    if (status) {
        return status;
    }
    int32_t limit = filter.limit == -1 ? LIMIT_DEFAULT : filter.limit;
    if (limit < 1 || limit > HF_RETRY_LIST_MAX) {
        return fail(HF_INVALID, "limit is %d; it must be 1 to %d", limit, HF_RETRY_LIST_MAX);
    }
    if (filter.behind < -1) {
        return fail(HF_INVALID, "behind is %" PRId64 "; it must be a position, or -1",
                    filter.behind);
    }
    query->behind = filter.behind;
    query->after = -1;
    query->max = limit;
    query->held_max = HF_RETRY_HELD_MAX;
    return filter.after ? read_cursor(filter.after, query) : HF_OK;
}

static hf_status look_at_retries(hf_bus *bus, const struct retry_query *query, hf_mode mode,
                                 struct retry_look *look)
{
    hf_status status = HF_OK;
    if (mode == HF_MODE_ORDERED) {
        status = store_running_list(bus->store, query->subscription_id, 0, HF_RUNNING_LIST_MAX,
                                    note_running, look);
        status = status ? status : look->status;
    }
    if (!status) {
        status = store_retry_list(bus->store, query, see_retry, look);
    }
    return status ? status : arena_status(&look->arena);
}

hf_status hf_retry_list(hf_bus *bus, const char *subscription, const hf_retry_filter *filter,
                        hf_retry_fn found, void *ctx)
{
    struct retry_query query = {0};
    hf_mode mode;
    hf_status status =
        inspect_find(bus, subscription, found != NULL, &query.subscription_id, &mode);
    if (!status) {
        status = make_query(filter, &query);
    }
    if (status) {
        return status;
    }
    struct retry_look look = {.limit = (size_t)query.max};
    look.infos = mem_calloc(look.limit, sizeof *look.infos);
    if (!look.infos) {
        return fail(HF_NOMEM, "out of memory for a list of retries");
    }
    arena_init(&look.arena, LIST_BYTES_MAX);
    buf_init(&look.error, LIST_BYTES_MAX);
    set64_init(&look.running, HF_RUNNING_LIST_MAX);
    status = look_at_retries(bus, &query, mode, &look);
    for (size_t i = 0; i < look.count && !status; i++) {
        if (found(&look.infos[i], ctx) != 0) {
            break;
        }
    }
    set64_release(&look.running);
    buf_release(&look.error);
    arena_release(&look.arena);
    mem_free(look.infos);
    return status;
}

/* ---- What runs ------------------------------------------------------------------------------- */

struct running_look {
    struct arena arena;
    hf_running_info *infos;
    size_t count;
    size_t limit;
};

static int see_running(const struct handler_row *row, void *ctx)
{
    struct running_look *look = ctx;
    if (look->count == look->limit) {
        return 1;
    }
    look->infos[look->count++] = (hf_running_info){
        .position = row->position,
        .event_id = copy_id(&look->arena, &row->event),
        .type = arena_text(&look->arena, row->event.type).bytes,
        .tenant = arena_text(&look->arena, row->event.tenant).bytes,
        .key = arena_text(&look->arena, row->event.key).bytes,
        .partition = row->partition,
        .node = arena_text(&look->arena, row->node).bytes,
        .host = arena_text(&look->arena, row->host).bytes,
        .pid = row->pid,
        .since_us = row->since_us,
    };
    return 0;
}

hf_status hf_running_list(hf_bus *bus, const char *subscription, int64_t after, size_t limit,
                          hf_running_fn found, void *ctx)
{
    int64_t id;
    hf_mode mode;
    hf_status status = inspect_find(bus, subscription, found != NULL, &id, &mode);
    if (status) {
        return status;
    }
    if (after < 0) {
        return fail(HF_INVALID, "after is %" PRId64 "; it must be 0 or more", after);
    }
    struct running_look look = {
        .limit = limit < HF_RUNNING_LIST_MAX ? limit : HF_RUNNING_LIST_MAX,
    };
    if (look.limit == 0 || mode == HF_MODE_SHARED) {
        return HF_OK;
    }
    look.infos = mem_calloc(look.limit, sizeof *look.infos);
    if (!look.infos) {
        return fail(HF_NOMEM, "out of memory for a list of events in hand");
    }
    arena_init(&look.arena, LIST_BYTES_MAX);
    status = store_running_list(bus->store, id, after, (int32_t)look.limit, see_running, &look);
    if (!status) {
        status = arena_status(&look.arena);
    }
    for (size_t i = 0; i < look.count && !status; i++) {
        if (found(&look.infos[i], ctx) != 0) {
            break;
        }
    }
    arena_release(&look.arena);
    mem_free(look.infos);
    return status;
}
