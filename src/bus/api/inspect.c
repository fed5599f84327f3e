/*
 * inspect.c - looking: events, the log, the namespace's numbers.
 *
 * Callbacks run after the data was collected, or while a listing of the store goes on, which may be
 * nested (pools of connections grow); so a callback may use the bus.
 */
#include "bus/api/inspect.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/set64.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "bus/timers/bring.h"
#include "bus/watch.h"
#include "store/common/filter.h"
#include "store/namespace.h"
#include "store/timers.h"
#include "store/verify.h"

#define READ_AGAIN_MAX 3    /* lost connections in a row, without anything read between */
#define READ_BATCH_MAX 1000 /* events in one look at the log */
#define READ_PERIOD_MS 1000 /* look at least so often: a wake-up is only a hint */
#define RATE_SECONDS 60     /* a rate is that of the last minute */

/* ---- All subscriptions ----------------------------------------------------------------------- */

void subscription_ids_init(struct subscription_ids *ids)
{
    *ids = (struct subscription_ids){0};
}

void subscription_ids_release(struct subscription_ids *ids)
{
    mem_free(ids->ids);
    subscription_ids_init(ids);
}

hf_status subscription_ids_add(struct subscription_ids *ids, int64_t id)
{
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        int64_t *grown = mem_realloc(ids->ids, capacity * sizeof *grown);
        if (!grown) {
            return fail(HF_NOMEM, "out of memory for the list of subscriptions");
        }
        ids->ids = grown;
        ids->capacity = capacity;
    }
    ids->ids[ids->count++] = id;
    return HF_OK;
}

/* Carries our own failure past the store's listing, which it ends. */
struct listing {
    struct subscription_ids *ids;
    hf_status status;
};

static int list_row(const struct subscription_row *row, void *ctx)
{
    struct listing *listing = ctx;
    listing->status = subscription_ids_add(listing->ids, row->id);
    return listing->status != HF_OK;
}

hf_status subscription_ids_load(hf_bus *bus, struct subscription_ids *ids)
{
    struct listing listing = {.ids = ids};
    hf_status status = store_subscription_list(bus->store, list_row, &listing);
    return status ? status : listing.status;
}

hf_status inspect_find(hf_bus *bus, const char *name, bool has_callback, int64_t *ret_id,
                       hf_mode *ret_mode)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!name || !has_callback) {
        return fail(HF_INVALID, "%s is NULL", name ? "found" : "subscription");
    }
    struct definition definition;
    definition_init(&definition);
    status = definition_load(bus, name, &definition);
    *ret_id = definition.id;
    *ret_mode = definition.options.mode;
    definition_release(&definition);
    return status;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* HF_CORRUPT if the event is not what was published. */
static hf_status check_whole(const struct entry *entry)
{
    return entry->damaged ? fail(HF_CORRUPT,
                                 "the event at position %" PRId64 " is damaged: its checksum does "
                                 "not match. holdfast verify looks for more",
                                 entry->event.position)
                          : HF_OK;
}

/* The event as one that looks for it sees it: it was not delivered. */
static const hf_event *as_read(const hf_bus *bus, struct entry *entry)
{
    entry->event.namespace_name = bus->namespace_name;
    entry->event.deliveries = -1;
    return &entry->event;
}

hf_status inspect_find_event(hf_bus *bus, const char *id, struct batch *batch)
{
    uint8_t bytes[UUID_BYTES];
    hf_status status = uuid_parse(text_of(id), bytes);
    if (status) {
        return status;
    }
    status = store_event_find(bus->store, bytes, batch);
    return status == HF_NOTFOUND ? fail(HF_NOTFOUND, "there is no event %s in the log", id)
                                 : status;
}

hf_status hf_event_get(hf_bus *bus, const char *id, hf_event_fn found, void *ctx)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!id || !found) {
        return fail(HF_INVALID, "%s is NULL", id ? "found" : "id");
    }
    struct batch batch;
    batch_init(&batch);
    status = inspect_find_event(bus, id, &batch);
    if (!status) {
        status = check_whole(&batch.entries[0]);
    }
    if (!status) {
        found(as_read(bus, &batch.entries[0]), ctx);
    }
    batch_release(&batch);
    return status;
}

/* ---- The log --------------------------------------------------------------------------------- */

/* One hf_read under way. */
struct reading {
    const hf_bus *bus;
    struct reader *reader; /* strict; NULL: it could not be opened again */
    struct filter filter;
    struct batch batch;
    size_t left; /* events still wanted */
    int64_t cursor;
    bool any;  /* something was handed over */
    bool more; /* the log may have more right now */
    hf_event_fn found;
    void *ctx;
};

/* Hands over what is in the batch. All up to `floor` was read. The callback's request to stop ends
 * the reading. */
static hf_status hand_over(struct reading *reading, int64_t floor)
{
    for (size_t i = 0; i < reading->batch.count; i++) {
        const hf_event *event = as_read(reading->bus, &reading->batch.entries[i]);
        hf_status status = check_whole(&reading->batch.entries[i]);
        if (status) {
            reading->cursor = event->position - 1;
            return status;
        }
        reading->any = true;
        reading->left--;
        if (reading->found(event, reading->ctx) != 0) {
            reading->left = 0;
            reading->cursor = event->position;
            return HF_OK;
        }
    }
    reading->cursor = floor > reading->cursor ? floor : reading->cursor;
    return HF_OK;
}

static int32_t batch_max(const struct reading *reading)
{
    return reading->left < READ_BATCH_MAX ? (int32_t)reading->left : READ_BATCH_MAX;
}

/* Reads one batch and hands it over. */
static hf_status read_batch(struct reading *reading)
{
    int64_t floor = reading->cursor;
    batch_clear(&reading->batch);
    hf_status status = store_reader_next(reading->reader, &reading->filter, batch_max(reading),
                                         &reading->batch, &floor, &reading->more);
    return status ? status : hand_over(reading, floor);
}

/* Reads as far as the index on types can tell, if there is one; the reader goes on from there. */
static hf_status read_indexed(hf_bus *bus, struct reading *reading)
{
    bool used = true;
    hf_status status = HF_OK;
    while (!status && used && reading->left > 0) {
        int64_t through = reading->cursor;
        batch_clear(&reading->batch);
        status = store_read_types(bus->store, &reading->filter, reading->cursor, batch_max(reading),
                                  &reading->batch, &used, &through);
        if (!status && used) {
            used = reading->batch.count > 0 && through > reading->cursor;
            status = hand_over(reading, through);
        }
    }
    return status;
}

/* A reader that lost its connection has lost what it knew: another one begins at the cursor, for
 * all before it has been handed over. */
static hf_status read_again(hf_bus *bus, struct reading *reading)
{
    store_reader_close(reading->reader);
    reading->reader = NULL;
    return store_reader_open(bus->store, reading->cursor, true, &reading->reader);
}

/* Reads what there is right now. */
static hf_status read_on(hf_bus *bus, struct reading *reading)
{
    hf_status status = HF_OK;
    int again = 0;
    do {
        status = read_batch(reading);
        bool lost = status == HF_STALE || status == HF_UNAVAILABLE;
        again = lost ? again + 1 : 0;
        if (lost && again <= READ_AGAIN_MAX) {
            reading->more = true;
            status = read_again(bus, reading);
        }
    } while (!status && reading->more && reading->left > 0);
    return status;
}

static hf_status read_loop(hf_bus *bus, int64_t wait_ms, struct reading *reading)
{
    struct deadline deadline = deadline_after_ms(wait_ms);
    for (;;) {
        uint64_t seen = wait_ms != 0 ? watch_seen(bus) : 0;
        hf_status status = read_on(bus, reading);
        if (status) {
            return status;
        }
        if (reading->any || reading->left == 0 || deadline_passed(deadline) || !bus_admits(bus)) {
            return HF_OK;
        }
        struct brought brought = timers_bring(bus, BRING_WAITING);
        if (brought.count == 0) {
            int64_t period_ms = brought.wait_ms < READ_PERIOD_MS ? brought.wait_ms : READ_PERIOD_MS;
            watch_wait(bus, seen, deadline_earlier(deadline, deadline_after_ms(period_ms)));
        }
    }
}

static hf_status check_read(hf_bus *bus, const char *pattern, int64_t wait_ms,
                            const int64_t *cursor, hf_event_fn found)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!cursor || !found) {
        return fail(HF_INVALID, "%s is NULL", cursor ? "found" : "cursor");
    }
    if (*cursor < 0) {
        return fail(HF_INVALID, "cursor is %" PRId64 "; it must be 0 or more", *cursor);
    }
    if (wait_ms < -1) {
        return fail(HF_INVALID, "wait_ms is %" PRId64 "; it must be 0 or more, or -1: no end",
                    wait_ms);
    }
    return pattern ? glob_check_pattern(text_of(pattern)) : HF_OK;
}

hf_status hf_read(hf_bus *bus, const char *pattern, size_t limit, int64_t wait_ms, int64_t *cursor,
                  hf_event_fn found, void *ctx)
{
    hf_status status = check_read(bus, pattern, wait_ms, cursor, found);
    if (status || limit == 0) {
        return status;
    }
    if (wait_ms != 0) {
        watch_want(bus);
    }
    struct text wanted = text_of(pattern ? pattern : "*");
    struct reading reading = {
        .bus = bus,
        .filter = {.patterns = &wanted, .count = 1},
        .left = limit,
        .cursor = *cursor,
        .found = found,
        .ctx = ctx,
    };
    batch_init(&reading.batch);
    if (pattern && strcmp(pattern, "*") != 0 && strcmp(pattern, "**") != 0) {
        status = read_indexed(bus, &reading);
    }
    if (!status && reading.left > 0) {
        status = store_reader_open(bus->store, reading.cursor, true, &reading.reader);
    }
    if (!status && reading.left > 0) {
        status = read_loop(bus, reading.any ? 0 : wait_ms, &reading);
    }
    /* Also after a failure: what was handed over must not come again. */
    *cursor = reading.cursor;
    batch_release(&reading.batch);
    store_reader_close(reading.reader);
    return status;
}

/* ---- The namespace and the engine ------------------------------------------------------------ */

static void note_oldest(hf_stats *stats, int64_t at_us)
{
    if (at_us >= 0 && (stats->oldest_waiting_us < 0 || at_us < stats->oldest_waiting_us)) {
        stats->oldest_waiting_us = at_us;
    }
}

/* Adding up. */
struct adding {
    hf_stats *stats;
    struct set64 behind; /* ids of subscriptions that are not at the end of the log */
    hf_status status;
};

static int add_progress(int64_t subscription_id, const struct progress *progress, void *ctx)
{
    struct adding *adding = ctx;
    hf_stats *stats = adding->stats;
    if (progress->head > progress->checkpoint) {
        adding->status = set64_put(&adding->behind, (uint64_t)subscription_id, 1);
    }
    stats->subscriptions++;
    stats->retrying += progress->retrying;
    stats->held += progress->held;
    stats->in_flight += progress->in_flight;
    stats->lease_ended += progress->lease_ended;
    note_oldest(stats, progress->oldest_open_us);
    return adding->status != HF_OK;
}

/* The first pending event of each subscription that is behind. */
struct oldest {
    hf_bus *bus;
    const struct adding *adding;
    int64_t looks;
    struct definition definition;
    hf_status status;
};

static int see_oldest(const struct subscription_row *row, void *ctx)
{
    struct oldest *oldest = ctx;
    if (!set64_get(&oldest->adding->behind, (uint64_t)row->id, NULL)) {
        return 0;
    }
    oldest->status = definition_parse(row, &oldest->definition);
    struct pending_query query = {
        .subscription_id = row->id,
        .filter = definition_filter(&oldest->definition),
        .max = 1,
        .brief = oldest->looks++ >= LIST_LOOKS_MAX,
    };
    struct pending pending = {.first_at_us = -1};
    if (!oldest->status) {
        oldest->status = store_pending(oldest->bus->store, &query, &pending);
    }
    note_oldest(oldest->adding->stats, pending.first_at_us);
    if (oldest->status == HF_NOTFOUND) {
        oldest->status = HF_OK; /* removed while we look */
    }
    return oldest->status != HF_OK;
}

static hf_status find_oldest(hf_bus *bus, const struct adding *adding)
{
    struct oldest oldest = {.bus = bus, .adding = adding};
    definition_init(&oldest.definition);
    hf_status status = store_subscription_list(bus->store, see_oldest, &oldest);
    definition_release(&oldest.definition);
    return status ? status : oldest.status;
}

/* Events are not counted as they come: what lies above the last position of a minute ago has come
 * since. What retention has taken out of the log does not count. */
static hf_status read_rate(hf_bus *bus, int64_t now_us, hf_stats *stats)
{
    int64_t last = 0;
    int64_t before = 0;
    hf_status status = store_last(bus->store, &last);
    if (!status) {
        int64_t since_us = now_us - RATE_SECONDS * INT64_C(1000000);
        status = store_position_before(bus->store, since_us, 0, &before);
    }
    if (status) {
        return status;
    }
    if (before < stats->first - 1) {
        before = stats->first - 1;
    }
    stats->rate = last > before ? (double)(last - before) / RATE_SECONDS : 0;
    return HF_OK;
}

/* What adds up over subscriptions, and dead letters. A role of the server from whom they are hidden
 * may still see the other numbers. */
static hf_status read_subscriptions(hf_bus *bus, int64_t now_us, hf_stats *stats)
{
    struct dead_query open = {
        .failed_before_us = -1,
        .failed_after_us = -1,
        .before_dead_id = -1,
        .after_dead_id = -1,
        .limit = -1,
    };
    struct adding adding = {.stats = stats};
    struct subscription_ids ids;
    subscription_ids_init(&ids);
    set64_init(&adding.behind, SIZE_MAX);
    hf_status status = subscription_ids_load(bus, &ids);
    if (!status) {
        status = store_progress_each(bus->store, ids.ids, ids.count, now_us, add_progress, &adding);
        status = status ? status : adding.status;
    }
    subscription_ids_release(&ids);
    if (!status) {
        status = find_oldest(bus, &adding);
    }
    set64_release(&adding.behind);
    if (!status) {
        status = store_dead_count(bus->store, &open, &stats->dead);
    }
    if (status == HF_DENIED) {
        stats->subscriptions = stats->retrying = stats->held = -1;
        stats->in_flight = stats->dead = stats->oldest_waiting_us = stats->lease_ended = -1;
        return HF_OK;
    }
    return status;
}

/* What waits for its time; hidden from those who may not publish. */
static hf_status read_later(hf_bus *bus, int64_t now_us, hf_stats *stats)
{
    struct timers_count count = {0};
    hf_status status = store_timers_count(bus->store, now_us, &count);
    if (status == HF_DENIED) {
        stats->later = stats->later_next_us = stats->later_due = -1;
        stats->schedules_due = stats->schedules_next_us = -1;
        return HF_OK;
    }
    stats->later = count.later;
    stats->later_next_us = count.later_next_us;
    stats->later_due = count.later_due;
    stats->schedules_due = count.schedules_due;
    stats->schedules_next_us =
        count.schedules_next_us == STORE_NEVER ? -1 : count.schedules_next_us;
    return status;
}

static int count_node(const struct node_row *row, void *ctx)
{
    hf_stats *stats = ctx;
    stats->nodes += !row->self && row->state == HF_NODE_LIVE;
    return 0;
}

static hf_status stats_read(hf_bus *bus, hf_stats *stats)
{
    int64_t now_us = clock_wall_us();
    hf_status status = store_head(bus->store, &stats->head, &stats->first);
    if (!status) {
        status = read_subscriptions(bus, now_us, stats);
    }
    if (!status) {
        status = read_rate(bus, now_us, stats);
    }
    if (!status) {
        status = read_later(bus, now_us, stats);
    }
    if (!status) {
        status = store_node_list(bus->store, TEXT_ABSENT, count_node, stats);
    }
    struct store_sizes sizes;
    if (!status) {
        status = store_sizes_get(bus->store, &sizes);
    }
    if (status) {
        return status;
    }
    stats->store_bytes = sizes.store_bytes;
    stats->wal_bytes = sizes.wal_bytes;
    stats->commits = sizes.commits;
    return HF_OK;
}

/* A bus that is shut down does not ask the store any more, which may be away. */
static void stats_unknown(hf_stats *stats)
{
    *stats = (hf_stats){
        .head = -1,
        .first = -1,
        .subscriptions = -1,
        .retrying = -1,
        .held = -1,
        .in_flight = -1,
        .dead = -1,
        .oldest_waiting_us = -1,
        .store_bytes = -1,
        .wal_bytes = -1,
        .commits = -1,
        .rate = -1,
        .later = -1,
        .later_next_us = -1,
        .later_due = -1,
        .schedules_due = -1,
        .schedules_next_us = -1,
        .nodes = -1,
        .lease_ended = -1,
    };
}

hf_status hf_stats_get(hf_bus *bus, hf_stats *ret_stats)
{
    hf_status status = bus_check(bus);
    if (status) {
        return status;
    }
    if (!ret_stats) {
        return fail(HF_INVALID, "ret_stats is NULL");
    }
    hf_stats stats = {.oldest_waiting_us = -1};
    /* Checks the size that the caller gave; the values come from here. */
    hf_stats given = {0};
    status = bus_read_options(&given, sizeof given, offsetof(hf_stats, subscriptions), ret_stats,
                              "hf_stats");
    if (status) {
        return status;
    }
    if (atomic_load(&bus->end) == BUS_CLOSED) {
        stats_unknown(&stats);
    } else {
        status = stats_read(bus, &stats);
    }
    if (status) {
        return status;
    }
    stats.published = atomic_load(&bus->published);
    stats.delivered = atomic_load(&bus->delivered);
    stats.failed = atomic_load(&bus->failed);
    size_t bytes = ret_stats->size < sizeof stats ? ret_stats->size : sizeof stats;
    stats.size = ret_stats->size;
    memcpy(ret_stats, &stats, bytes);
    return HF_OK;
}

hf_status hf_verify(hf_bus *bus, hf_finding_fn found, hf_verify_progress_fn progress, void *ctx)
{
    hf_status status = bus_check_handle(bus);
    if (status) {
        return status;
    }
    if (!found) {
        return fail(HF_INVALID, "found is NULL");
    }
    return store_verify(bus->store, found, progress, ctx);
}
