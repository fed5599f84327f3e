/*
 * schedule.c - schedules: putting, pausing, listing, and firing them.
 *
 * The store keeps what a schedule says and the one planned time that it waits for. Everything that
 * is known about calendars is here and in base/: the next planned time is worked out when a
 * schedule is put or resumed, and with each firing. A firing names the time that it has read, so
 * the store lets only one of many processes do it.
 *
 * The id of a fired event is made from the schedule's id and the planned time. If the answer of a
 * firing is lost, the next look shows whether it happened; and should the store's table be older
 * than its log (a restored backup), the log knows the event already.
 */
#include "bus/timers/schedule.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/text/glob.h"
#include "base/time/clock.h"
#include "base/time/misfire.h"
#include "base/uuid.h"
#include "bus/intake.h"
#include "store/common/checksum.h"

#define CAP_DEFAULT 100
#define GRACE_MS_DEFAULT 60000
#define GRACE_MS_MAX 86400000
#define EVENT_BYTES 128 /* of an event besides its texts */

_Static_assert(MISFIRE_TIMES_MAX <= STORE_FIRE_MAX, "a firing fits into one change");
_Static_assert((int)HF_MISFIRE_SKIP == (int)MISFIRE_SKIP && (int)HF_MISFIRE_ALL == (int)MISFIRE_ALL,
               "policies have the same numbers");
_Static_assert((int)HF_DRIVER_OWN == (int)DRIVER_OWN &&
                   (int)HF_DRIVER_PG_CRON == (int)DRIVER_PG_CRON,
               "drivers have the same numbers");

/* ---- What it says ---------------------------------------------------------------------------- */

/* An expression in a zone. */
struct plan {
    struct cron cron;
    struct zone *zone;
};

static hf_status plan_open(struct plan *plan, struct text expression, struct text zone)
{
    hf_status status = cron_parse(expression, &plan->cron);
    return status ? status : zone_new(zone, NULL, &plan->zone);
}

static int64_t plan_next(const struct plan *plan, int64_t after_us)
{
    int64_t next_us;
    return timetable_next(&plan->cron, plan->zone, after_us, &next_us) ? next_us : STORE_NEVER;
}

/* The event that a schedule publishes. */
static hf_new_event event_of(const hf_schedule *schedule)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = schedule->type;
    event.payload = schedule->payload;
    event.payload_bytes = schedule->payload_bytes;
    event.key = schedule->key;
    event.tenant = schedule->tenant;
    event.metadata = schedule->metadata;
    event.producer = "scheduler";
    return event;
}

static hf_status check_numbers(hf_schedule *schedule)
{
    if (schedule->misfire == HF_MISFIRE_DEFAULT) {
        schedule->misfire = HF_MISFIRE_SKIP;
    }
    if (schedule->misfire_cap == -1) {
        schedule->misfire_cap = CAP_DEFAULT;
    }
    if (schedule->grace_ms == -1) {
        schedule->grace_ms = GRACE_MS_DEFAULT;
    }
    if (schedule->driver == HF_DRIVER_DEFAULT) {
        schedule->driver = HF_DRIVER_OWN;
    }
    if (schedule->driver < HF_DRIVER_OWN || schedule->driver > HF_DRIVER_PG_CRON) {
        return fail(HF_INVALID, "driver is %d, which is no hf_driver", (int)schedule->driver);
    }
    if (schedule->misfire < HF_MISFIRE_SKIP || schedule->misfire > HF_MISFIRE_ALL) {
        return fail(HF_INVALID, "misfire is %d, which is no hf_misfire", (int)schedule->misfire);
    }
    if (schedule->misfire_cap < 1 || schedule->misfire_cap > HF_MISFIRE_CAP_MAX) {
        return fail(HF_INVALID, "misfire_cap is %d; it takes 1 to %d", (int)schedule->misfire_cap,
                    HF_MISFIRE_CAP_MAX);
    }
    if (schedule->grace_ms < 0 || schedule->grace_ms > GRACE_MS_MAX) {
        return fail(HF_INVALID, "grace_ms is %lld; it takes 0 to %d", (long long)schedule->grace_ms,
                    GRACE_MS_MAX);
    }
    return HF_OK;
}

/* Everything but the expression and the zone. The texts of the definition are the caller's. */
static hf_status check_schedule(hf_bus *bus, hf_schedule *schedule, int64_t now_us,
                                struct schedule_definition *ret_definition)
{
    hf_status status =
        glob_check_name(text_of(schedule->name), "schedule name", HF_SCHEDULE_NAME_BYTES_MAX);
    if (!status) {
        status = check_numbers(schedule);
    }
    struct new_event checked;
    if (!status) {
        hf_new_event event = event_of(schedule);
        status = intake_check(bus, &event, now_us, &checked);
    }
    if (status) {
        return status;
    }
    *ret_definition = (struct schedule_definition){
        .expression = text_of(schedule->expression),
        .zone = text_of(schedule->zone ? schedule->zone : "UTC"),
        .type = checked.type,
        .payload = checked.payload,
        .key = checked.key,
        .tenant = checked.tenant,
        .metadata = checked.metadata,
        .policy = (int32_t)schedule->misfire,
        .cap = schedule->misfire_cap,
        .grace_us = schedule->grace_ms * 1000,
        .driver = (enum schedule_driver)schedule->driver,
    };
    return HF_OK;
}

/* ---- Putting --------------------------------------------------------------------------------- */

struct comparison {
    const struct schedule_definition *wanted;
    bool same; /* all but the driver */
    bool same_driver;
    int64_t next_us;
};

static int compare(const struct schedule_row *row, void *ctx)
{
    struct comparison *comparison = ctx;
    const struct schedule_definition *a = &row->definition;
    const struct schedule_definition *b = comparison->wanted;
    comparison->same = text_equal(a->expression, b->expression) && text_equal(a->zone, b->zone) &&
                       text_equal(a->type, b->type) && text_equal(a->payload, b->payload) &&
                       text_equal(a->key, b->key) && text_equal(a->tenant, b->tenant) &&
                       text_equal(a->metadata, b->metadata) && a->policy == b->policy &&
                       a->cap == b->cap && a->grace_us == b->grace_us;
    comparison->same_driver = a->driver == b->driver;
    comparison->next_us = row->next_us;
    return 0;
}

/* A program puts its schedules whenever it starts. Times that it has missed must not be forgotten
 * by that, so what is there already stays as it is; and if only the driver changes, it goes on
 * waiting for the same time. (If that is fired meanwhile, it is fired again: its event has the same
 * id, and is known.) */
static hf_status put_if_different(hf_bus *bus, struct schedule_put *put)
{
    struct comparison comparison = {.wanted = &put->definition};
    hf_status status = store_schedule_get(bus->store, put->name, compare, &comparison);
    if (!status && comparison.same) {
        put->next_us = comparison.next_us;
    }
    if (!status && comparison.same && comparison.same_driver) {
        return HF_OK;
    }
    return !status || status == HF_NOTFOUND ? bus_run(bus, &put->change) : status;
}

hf_status hf_schedule_put(hf_bus *bus, const hf_schedule *schedule, int32_t *ret_created)
{
    hf_schedule own = HF_SCHEDULE_INIT;
    hf_status status = bus_check_open(bus);
    if (!status && !schedule) {
        status = fail(HF_INVALID, "schedule is NULL");
    }
    if (!status) {
        status = bus_read_options(&own, sizeof own, sizeof own, schedule, "hf_schedule");
    }
    struct schedule_put put = {
        .change = {.kind = CHANGE_SCHEDULE_PUT, .now_us = clock_wall_us()},
        .name = text_of(own.name),
    };
    struct plan plan = {.zone = NULL};
    if (!status) {
        status = check_schedule(bus, &own, put.change.now_us, &put.definition);
    }
    if (!status && own.paused) {
        put.paused = true;
        put.paused_by = text_of(bus->node_name);
        status = intake_text(own.paused[0] ? own.paused : NULL, "paused", HF_METADATA_BYTES_MAX,
                             &put.paused_reason);
    }
    if (!status) {
        status = plan_open(&plan, put.definition.expression, put.definition.zone);
    }
    if (!status) {
        uuid_v7(put.change.now_us, put.id);
        put.next_us = plan_next(&plan, store_time(bus->store, put.change.now_us));
        status = put_if_different(bus, &put);
    }
    zone_free(plan.zone);
    if (!status && ret_created) {
        *ret_created = put.ret_created ? 1 : 0;
    }
    return status;
}

/* ---- By name --------------------------------------------------------------------------------- */

hf_status schedule_check_name(hf_bus *bus, const char *name)
{
    hf_status status = bus_check(bus);
    return status ? status
                  : glob_check_name(text_of(name), "schedule name", HF_SCHEDULE_NAME_BYTES_MAX);
}

hf_status hf_schedule_remove(hf_bus *bus, const char *name)
{
    hf_status status = schedule_check_name(bus, name);
    struct schedule_remove remove = {
        .change = {.kind = CHANGE_SCHEDULE_REMOVE, .now_us = clock_wall_us()},
        .name = text_of(name),
    };
    return status ? status : bus_run(bus, &remove.change);
}

hf_status hf_schedule_pause(hf_bus *bus, const char *name, const char *reason)
{
    struct schedule_pause pause = {
        .change = {.kind = CHANGE_SCHEDULE_PAUSE, .now_us = clock_wall_us()},
        .name = text_of(name),
        .paused = true,
    };
    hf_status status = schedule_check_name(bus, name);
    if (!status) {
        pause.by = text_of(bus->node_name);
        status = intake_text(reason, "reason", HF_METADATA_BYTES_MAX, &pause.reason);
    }
    return status ? status : bus_run(bus, &pause.change);
}

/* The next planned time after at_us, of the row that is handed up. */
struct next {
    int64_t at_us;
    int64_t next_us;
    hf_status status;
};

static int find_next(const struct schedule_row *row, void *ctx)
{
    struct next *next = ctx;
    struct plan plan = {.zone = NULL};
    next->status = plan_open(&plan, row->definition.expression, row->definition.zone);
    if (!next->status) {
        next->next_us = plan_next(&plan, next->at_us);
    }
    zone_free(plan.zone);
    return 0;
}

hf_status hf_schedule_resume(hf_bus *bus, const char *name)
{
    struct schedule_pause resume = {
        .change = {.kind = CHANGE_SCHEDULE_PAUSE, .now_us = clock_wall_us()},
        .name = text_of(name),
    };
    hf_status status = schedule_check_name(bus, name);
    if (status) {
        return status;
    }
    struct next next = {.at_us = store_time(bus->store, resume.change.now_us)};
    status = store_schedule_get(bus->store, resume.name, find_next, &next);
    if (!status) {
        status = next.status;
    }
    resume.next_us = next.next_us;
    return status ? status : bus_run(bus, &resume.change);
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct listing {
    hf_schedule_fn found;
    void *ctx;
    bool enough; /* the callback says so, or it cannot go on */
    hf_status status;
    char last[HF_SCHEDULE_NAME_BYTES_MAX + 1]; /* name that was handed up */
};

static int hand_up(const struct schedule_row *row, void *ctx)
{
    struct listing *listing = ctx;
    const struct schedule_definition *definition = &row->definition;
    char id[UUID_TEXT_BYTES];
    if (row->name.length >= sizeof listing->last) {
        listing->status = fail(HF_CORRUPT, "a schedule's name has %zu bytes", row->name.length);
        return listing->enough = true;
    }
    uuid_format(row->id, id);
    hf_schedule_info info = {
        .size = sizeof info,
        .id = id,
        .schedule =
            {
                .size = sizeof info.schedule,
                .name = row->name.bytes,
                .expression = definition->expression.bytes,
                .zone = definition->zone.bytes,
                .type = definition->type.bytes,
                .payload = definition->payload.bytes,
                .payload_bytes = definition->payload.length,
                .key = definition->key.bytes,
                .tenant = definition->tenant.bytes,
                .metadata = definition->metadata.bytes,
                .misfire = (hf_misfire)definition->policy,
                .misfire_cap = definition->cap,
                .grace_ms = definition->grace_us / 1000,
                .driver = (hf_driver)definition->driver,
            },
        .next_at_us = row->next_us,
        .paused_at_us = row->paused_at_us,
        .paused_by = row->paused_by.bytes,
        .paused_reason = row->paused_reason.bytes,
        .created_at_us = row->created_at_us,
    };
    snprintf(listing->last, sizeof listing->last, "%" TEXT_PRI, TEXT_ARG(row->name));
    return listing->enough = listing->found(&info, listing->ctx) != 0;
}

hf_status hf_schedule_get(hf_bus *bus, const char *name, hf_schedule_fn found, void *ctx)
{
    struct listing listing = {.found = found, .ctx = ctx};
    hf_status status = schedule_check_name(bus, name);
    if (!status && !found) {
        status = fail(HF_INVALID, "found is NULL");
    }
    return status ? status : store_schedule_get(bus->store, text_of(name), hand_up, &listing);
}

hf_status hf_schedule_list(hf_bus *bus, hf_schedule_fn found, void *ctx)
{
    struct listing listing = {.found = found, .ctx = ctx};
    hf_status status = bus_check(bus);
    if (!status && !found) {
        status = fail(HF_INVALID, "found is NULL");
    }
    bool more = true;
    while (!status && more && !listing.enough) {
        status = store_schedule_list(bus->store, text_of(listing.last), STORE_SCHEDULES_MAX, &more,
                                     hand_up, &listing);
    }
    return status ? status : listing.status;
}

/* ---- Firing ---------------------------------------------------------------------------------- */

void schedule_event_id(const uint8_t schedule_id[UUID_BYTES], int64_t planned_us,
                       uint8_t out[UUID_BYTES])
{
    uint8_t source[UUID_BYTES + 8];
    uint8_t digest[MD5_BYTES];
    uint64_t ms = (uint64_t)(planned_us / 1000);
    memcpy(source, schedule_id, UUID_BYTES);
    for (int i = 0; i < 8; i++) {
        source[UUID_BYTES + i] = (uint8_t)((uint64_t)planned_us >> (56 - 8 * i));
    }
    hash_md5(source, sizeof source, digest);
    memcpy(out, digest, UUID_BYTES);
    for (int i = 0; i < 6; i++) {
        out[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    out[6] = (uint8_t)((out[6] & 0x0f) | 0x70);
    out[8] = (uint8_t)((out[8] & 0x3f) | 0x80);
}

static struct new_event make_event(const struct schedule_row *row, const char *schedule_id,
                                   int64_t planned_us)
{
    const struct schedule_definition *definition = &row->definition;
    struct new_event event = {
        .type = definition->type,
        .payload = definition->payload,
        .key = definition->key,
        .tenant = definition->tenant,
        .metadata = definition->metadata,
        .producer = TEXT_LITERAL("scheduler"),
        .schedule_id = text_of(schedule_id),
        .emitted_at_us = planned_us,
        .expected_version = -1,
        .key_version = -1,
    };
    schedule_event_id(row->id, planned_us, event.id);
    checksum_seal(&event);
    return event;
}

static struct fire fire_of(hf_bus *bus, const struct schedule_row *row, int64_t now_us)
{
    struct fire fire = {
        .change = {.kind = CHANGE_FIRE, .now_us = now_us},
        .generation = row->generation,
        .waited_us = row->next_us,
        .skipped_first_us = STORE_NEVER,
        .skipped_last_us = STORE_NEVER,
        .node = text_of(bus->node_name),
    };
    memcpy(fire.schedule_id, row->id, sizeof fire.schedule_id);
    return fire;
}

/* A copy of the firing in the arena, with the texts of the row. */
static hf_status keep_firing(hf_bus *bus, const struct schedule_row *row,
                             const struct firing *firing, int64_t now_us, struct arena *arena,
                             struct due **ret_due)
{
    char id[UUID_TEXT_BYTES];
    struct schedule_row own = *row;
    struct schedule_definition *definition = &own.definition;
    uuid_format(row->id, id);
    definition->type = arena_text(arena, definition->type);
    definition->payload = arena_text(arena, definition->payload);
    definition->key = arena_text(arena, definition->key);
    definition->tenant = arena_text(arena, definition->tenant);
    definition->metadata = arena_text(arena, definition->metadata);
    struct text schedule_id = arena_text(arena, text_of(id));
    struct text name = arena_text(arena, row->name);
    struct due *due = arena_alloc(arena, sizeof *due);
    struct new_event *events = arena_alloc(arena, (firing->count + 1) * sizeof *events);
    int64_t *planned_us = arena_alloc(arena, (firing->count + 1) * sizeof *planned_us);
    hf_status status = arena_status(arena);
    if (status) {
        return status;
    }
    *due = (struct due){.fire = fire_of(bus, row, now_us), .name = name};
    for (size_t i = 0; i < firing->count; i++) {
        events[i] = make_event(&own, schedule_id.bytes, firing->times_us[i]);
        planned_us[i] = firing->times_us[i];
    }
    due->fire.events = events;
    due->fire.planned_us = planned_us;
    due->fire.count = firing->count;
    due->fire.next_us = firing->next_us;
    due->fire.skipped_first_us = firing->skipped_first_us;
    due->fire.skipped_last_us = firing->skipped_last_us;
    *ret_due = due;
    return HF_OK;
}

/* Of each event all is sent that the schedule says, however often. */
static size_t times_that_fit(const struct schedule_definition *definition)
{
    size_t bytes = EVENT_BYTES + definition->type.length + definition->payload.length +
                   definition->key.length + definition->tenant.length + definition->metadata.length;
    size_t fit = STORE_BATCH_BYTES_MAX / bytes;
    return fit < 1 ? 1 : fit < MISFIRE_TIMES_MAX ? fit : MISFIRE_TIMES_MAX;
}

hf_status schedule_due(hf_bus *bus, const struct schedule_row *row, int64_t now_us, int64_t at_us,
                       struct arena *arena, struct due **ret_due)
{
    const struct schedule_definition *definition = &row->definition;
    struct misfire misfire = {(enum misfire_policy)definition->policy, definition->cap,
                              definition->grace_us, times_that_fit(definition)};
    struct plan plan = {.zone = NULL};
    struct firing firing;
    hf_status status = plan_open(&plan, definition->expression, definition->zone);
    *ret_due = NULL;
    if (!status) {
        misfire_plan(&plan.cron, plan.zone, &misfire, row->next_us, at_us, &firing);
        if (firing.next_us != row->next_us) {
            status = keep_firing(bus, row, &firing, now_us, arena, ret_due);
        }
    }
    zone_free(plan.zone);
    return status ? fail(status, "schedule %" TEXT_PRI ": %s", TEXT_ARG(row->name), err_message())
                  : HF_OK;
}

/* ---- A clock that was ahead ------------------------------------------------------------------ */

#define ANEW_MAX 100 /* schedules of one page */

/* A page of all schedules, and those of it that are to be planned anew. */
struct anew {
    hf_bus *bus;
    int64_t now_us;
    int64_t at_us;
    struct fire fires[ANEW_MAX]; /* of no event: only what they wait for changes */
    size_t count;
    char last[HF_SCHEDULE_NAME_BYTES_MAX + 1]; /* name of the page */
};

static int find_ahead(const struct schedule_row *row, void *ctx)
{
    struct anew *anew = ctx;
    struct next next = {.at_us = anew->at_us};
    if (row->name.length >= sizeof anew->last) {
        return 1;
    }
    memcpy(anew->last, row->name.bytes, row->name.length);
    anew->last[row->name.length] = '\0';
    if (row->paused_at_us >= 0 || row->next_us <= anew->at_us + SCHEDULE_AHEAD_US) {
        return 0;
    }
    find_next(row, &next);
    if (!next.status && next.next_us != STORE_NEVER &&
        row->next_us - next.next_us > SCHEDULE_AHEAD_US) {
        struct fire fire = fire_of(anew->bus, row, anew->now_us);
        fire.next_us = next.next_us;
        anew->fires[anew->count++] = fire;
        log_about(&anew->bus->log, HF_LOG_WARN, NULL,
                  "schedule %" TEXT_PRI " was planned while the clock was %lld days ahead; it goes "
                  "on with the next time",
                  TEXT_ARG(row->name),
                  (long long)((row->next_us - next.next_us) / INT64_C(86400000000)));
    }
    return 0;
}

hf_status schedules_plan_anew(hf_bus *bus, int64_t now_us, int64_t at_us,
                              const atomic_bool *stopping)
{
    struct anew *anew = mem_calloc(1, sizeof *anew);
    if (!anew) {
        return fail(HF_NOMEM, "out of memory for schedules");
    }
    *anew = (struct anew){.bus = bus, .now_us = now_us, .at_us = at_us};
    hf_status status = HF_OK;
    bool more = true;
    while (!status && more && !atomic_load(stopping)) {
        anew->count = 0;
        status =
            store_schedule_list(bus->store, text_of(anew->last), ANEW_MAX, &more, find_ahead, anew);
        for (size_t i = 0; i < anew->count && !status && !atomic_load(stopping); i++) {
            status = bus_run(bus, &anew->fires[i].change);
            status = status == HF_STALE ? HF_OK : status; /* another process has done it */
        }
    }
    mem_free(anew);
    HF_POINT("schedules_planned_anew");
    return status == HF_DENIED ? HF_OK : status;
}

/* ---- By hand --------------------------------------------------------------------------------- */

struct by_hand {
    hf_bus *bus;
    int64_t now_us;
    hf_status status;
    struct new_event event;
};

static int run_by_hand(const struct schedule_row *row, void *ctx)
{
    struct by_hand *hand = ctx;
    char schedule_id[UUID_TEXT_BYTES];
    int64_t at_us = store_time(hand->bus->store, hand->now_us);
    struct fire fire = fire_of(hand->bus, row, hand->now_us);
    uuid_format(row->id, schedule_id);
    hand->event = make_event(row, schedule_id, at_us);
    uuid_v7(hand->now_us, hand->event.id);
    checksum_seal(&hand->event);
    fire.events = &hand->event;
    fire.planned_us = &at_us;
    fire.count = 1;
    fire.by_hand = true;
    fire.next_us = STORE_NEVER;
    hand->status = bus_run(hand->bus, &fire.change);
    return 0;
}

hf_status hf_schedule_run(hf_bus *bus, const char *name, hf_receipt *ret_receipt)
{
    struct by_hand hand = {.bus = bus, .now_us = clock_wall_us()};
    hf_status status = schedule_check_name(bus, name);
    if (!status) {
        status = bus_check_open(bus);
    }
    if (!status) {
        status = store_schedule_get(bus->store, text_of(name), run_by_hand, &hand);
    }
    if (!status) {
        status = hand.status;
    }
    /* Of an unknown outcome at least the id is returned: by that the event can be looked up. */
    if ((!status || status == HF_UNKNOWN) && ret_receipt) {
        *ret_receipt =
            (hf_receipt){.position = status ? -1 : hand.event.position, .key_version = -1};
        uuid_format(hand.event.id, ret_receipt->id);
    }
    return status;
}
