/*
 * test_timers.c - what the store keeps for later: schedules and their ledger, delayed events; and
 * several processes that fire the same schedule, with kills.
 */
#include "support_timers.h"

#include <time.h>

#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/common/checksum.h"
#include "support/sqlite.h"

/* ---- Short forms ----------------------------------------------------------------------------- */

static int due_count(struct store *store, int64_t now_us)
{
    struct seen seen = {0};
    struct due_page page = {.now_us = now_us, .max = 100, .after_us = STORE_NEVER};
    bool more;
    must_answer(HF_OK, store_schedules_due(store, &page, &more, note_schedule, &seen));
    return seen.count;
}

struct ledger {
    size_t count;
    struct schedule_run runs[STORE_RUNS_KEPT + 10];
};

static int note_run(const struct schedule_run *run, void *ctx)
{
    struct ledger *ledger = ctx;
    ledger->runs[ledger->count] = *run;
    ledger->runs[ledger->count++].node = TEXT_ABSENT;
    return 0;
}

static size_t read_ledger(struct store *store, const uint8_t id[16], struct ledger *ledger)
{
    ledger->count = 0;
    must_answer(
        HF_OK, store_schedule_runs(store, id, STORE_NEVER, STORE_RUNS_KEPT + 10, note_run, ledger));
    return ledger->count;
}

/* ---- Schedules ------------------------------------------------------------------------------- */

static void a_schedule_is_kept_as_it_was_put(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct schedule_put put = schedule_of("nightly", T0 + SECOND);
    must_answer(HF_OK, RUN(store, &put));
    must_hold(put.ret_created);
    struct seen seen = schedule(store, "nightly");
    must_hold(memcmp(seen.id, put.id, sizeof put.id) == 0);
    must_read("nightly", seen.name);
    must_read("* * * * * *", seen.expression);
    must_read("{\"n\": 1.50}", seen.payload);
    must_hold(!seen.has_tenant);
    must_equal(1, seen.generation);
    must_equal(T0 + SECOND, seen.next_us);
    must_equal(-1, seen.paused_at_us);
}

static void changing_a_schedule_keeps_its_id_and_raises_its_generation(void **state)
{
    struct store *store = fixture_open(*state, "a");
    add_schedule(store, "s", T0);
    struct seen before = schedule(store, "s");
    struct schedule_put put = schedule_of("s", STORE_NEVER);
    put.definition.expression = text_of("@daily");
    must_answer(HF_OK, RUN(store, &put));
    must_hold(!put.ret_created);
    struct seen after = schedule(store, "s");
    must_hold(memcmp(before.id, after.id, sizeof after.id) == 0);
    must_equal(before.generation + 1, after.generation);
    must_read("@daily", after.expression);
    must_equal(STORE_NEVER, after.next_us);
}

static void due_schedules_are_those_whose_time_has_come(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    int64_t due_us = 0;
    must_answer(HF_OK, store_timers_due(store, &due_us));
    must_equal(STORE_NEVER, due_us);
    add_schedule(store, "late", T0 + 20);
    add_schedule(store, "early", T0 + 10);
    add_schedule(store, "never", STORE_NEVER);
    add_schedule(other, "elsewhere", T0);
    must_equal(0, due_count(store, T0 + 9));
    must_equal(1, due_count(store, T0 + 10));
    must_equal(2, due_count(store, T0 + 20));
    must_answer(HF_OK, store_timers_due(store, &due_us));
    must_equal(T0 + 10, due_us);
    must_answer(HF_OK, pause_schedule(store, "early", true, 0));
    must_equal(1, due_count(store, T0 + 20));
    must_answer(HF_OK, store_timers_due(store, &due_us));
    must_equal(T0 + 20, due_us);
}

static void a_pause_keeps_its_first_reason_and_ends_once_at_a_new_time(void **state)
{
    struct store *store = fixture_open(*state, "a");
    add_schedule(store, "s", T0);
    must_answer(HF_OK, pause_schedule(store, "s", true, 0));
    struct seen paused = schedule(store, "s");
    must_equal(T0 + 5, paused.paused_at_us);
    must_answer(HF_OK, pause_schedule(store, "s", true, 0));
    must_equal(paused.generation, schedule(store, "s").generation);
    must_answer(HF_OK, pause_schedule(store, "s", false, T0 + 99));
    must_equal(-1, schedule(store, "s").paused_at_us);
    must_equal(T0 + 99, schedule(store, "s").next_us);
    struct seen running = schedule(store, "s");
    must_answer(HF_OK, pause_schedule(store, "s", false, T0 + 999)); /* it runs: as it was */
    must_equal(running.next_us, schedule(store, "s").next_us);
    must_equal(running.generation, schedule(store, "s").generation);
    must_answer(HF_NOTFOUND, pause_schedule(store, "none", true, 0));
    must_answer(HF_NOTFOUND, pause_schedule(store, "none", false, 0));
}

static void a_removed_schedule_is_gone_with_its_ledger(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct ledger ledger;
    add_schedule(store, "s", T0);
    struct seen seen = schedule(store, "s");
    must_answer(HF_OK, fire_seen(store, &seen, T0 + 1, false));
    must_equal(1, read_ledger(store, seen.id, &ledger));
    must_answer(HF_OK, remove_schedule(store, "s"));
    must_answer(HF_NOTFOUND, remove_schedule(store, "s"));
    must_answer(HF_NOTFOUND, store_schedule_get(store, text_of("s"), note_schedule, &seen));
    must_equal(0, read_ledger(store, seen.id, &ledger));
    must_answer(HF_STALE, fire_seen(store, &seen, T0 + 2, false));
    must_answer(HF_STALE, fire_seen(store, &seen, T0 + 2, true));
}

/* ---- Firing ---------------------------------------------------------------------------------- */

static void firing_publishes_writes_the_ledger_and_moves_on(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    struct ledger ledger;
    add_schedule(store, "s", T0);
    struct seen seen = schedule(store, "s");
    must_answer(HF_OK, fire_seen(store, &seen, T0 + SECOND, false));
    must_equal(T0 + SECOND, schedule(store, "s").next_us);
    must_equal(seen.generation, schedule(store, "s").generation);
    struct batch *batch = fixture_batch(fixture);
    read_log(fixture, store, batch);
    must_equal(1, batch->count);
    char id[37];
    uuid_format(seen.id, id);
    must_read(id, batch->entries[0].event.schedule_id);
    must_equal(1, read_ledger(store, seen.id, &ledger));
    must_equal(RUN_FIRED, ledger.runs[0].kind);
    must_equal(T0, ledger.runs[0].planned_us);
    must_equal(T0 + 10, ledger.runs[0].fired_us);
    must_equal(batch->entries[0].event.position, ledger.runs[0].position);
}

static void a_planned_time_that_was_fired_is_stale_and_publishes_nothing(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    struct ledger ledger;
    add_schedule(a, "s", T0);
    struct seen seen = schedule(b, "s");
    must_answer(HF_OK, fire_seen(a, &seen, T0 + SECOND, false));
    must_answer(HF_STALE, fire_seen(b, &seen, T0 + SECOND, false));
    must_equal(1, log_count(*state, a));
    must_equal(1, read_ledger(a, seen.id, &ledger));
    must_equal(T0 + SECOND, schedule(b, "s").next_us);
}

static void a_schedule_that_was_changed_or_paused_does_not_fire(void **state)
{
    struct store *store = fixture_open(*state, "a");
    add_schedule(store, "s", T0);
    struct seen seen = schedule(store, "s");
    add_schedule(store, "s", T0); /* the same again, but it may say something else now */
    must_answer(HF_STALE, fire_seen(store, &seen, T0 + 1, false));
    must_answer(HF_OK, pause_schedule(store, "s", true, 0));
    seen = schedule(store, "s");
    must_answer(HF_STALE, fire_seen(store, &seen, T0 + 1, false));
    must_equal(0, log_count(*state, store));
}

static void firing_by_hand_changes_nothing_of_the_plan(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct ledger ledger;
    add_schedule(store, "s", T0 + SECOND);
    must_answer(HF_OK, pause_schedule(store, "s", true, 0));
    struct seen seen = schedule(store, "s");
    must_answer(HF_OK, fire_seen(store, &seen, STORE_NEVER, true));
    must_equal(T0 + SECOND, schedule(store, "s").next_us);
    must_equal(1, log_count(*state, store));
    must_equal(1, read_ledger(store, seen.id, &ledger));
    must_equal(RUN_BY_HAND, ledger.runs[0].kind);
}

static void the_ledger_is_read_before_a_planned_time(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct ledger ledger;
    add_schedule(store, "s", T0);
    for (int64_t i = 0; i < 5; i++) {
        struct seen seen = schedule(store, "s");
        must_answer(HF_OK, fire_seen(store, &seen, T0 + (i + 1) * SECOND, false));
    }
    struct seen seen = schedule(store, "s");
    ledger.count = 0;
    must_answer(HF_OK, store_schedule_runs(store, seen.id, T0 + 3 * SECOND, 2, note_run, &ledger));
    must_equal(2, ledger.count);
    must_equal(T0 + 2 * SECOND, ledger.runs[0].planned_us);
    must_equal(T0 + SECOND, ledger.runs[1].planned_us);
    must_answer(HF_OK, store_schedule_runs(store, seen.id, T0, 2, note_run, &ledger));
    must_equal(2, ledger.count);
}

/* What makes one of them stale must not touch the others. `id_us`: the time inside the ids. */
static void fire_together(struct fixture *fixture, int64_t id_us)
{
    static const char *const names[] = {"good", "fired", "repeated", "paused", "also good", "gone"};
    enum { GOOD, FIRED, REPEATED, PAUSED, ALSO_GOOD, GONE, COUNT };
    struct store *store = fixture_open(fixture, "a");
    struct shot shots[COUNT];
    struct change *changes[COUNT];
    struct ledger ledger;
    for (int i = 0; i < COUNT; i++) {
        add_schedule(store, names[i], T0);
        struct seen seen = schedule(store, names[i]);
        aim(&shots[i], &seen, T0 + SECOND, false);
        uuid_v7(id_us, shots[i].event.id);
        checksum_seal(&shots[i].event);
        changes[i] = &shots[i].fire.change;
    }
    struct seen fired = schedule(store, names[FIRED]);
    must_answer(HF_OK, fire_seen(store, &fired, T0 + SECOND, false));
    struct new_event first = shots[REPEATED].event;
    must_answer(HF_OK, append_event(store, &first));
    must_answer(HF_OK, pause_schedule(store, names[PAUSED], true, 0));
    must_answer(HF_OK, remove_schedule(store, names[GONE]));
    store_run_together(store, changes, COUNT, deadline_after_ms(DEADLINE_MS));
    must_answer(HF_OK, changes[GOOD]->status);
    must_answer(HF_STALE, changes[FIRED]->status);
    must_answer(HF_OK, changes[REPEATED]->status);
    must_answer(HF_STALE, changes[PAUSED]->status);
    must_answer(HF_OK, changes[ALSO_GOOD]->status);
    must_answer(HF_STALE, changes[GONE]->status);
    must_hold(!shots[GOOD].event.duplicate && !shots[ALSO_GOOD].event.duplicate);
    must_hold(shots[REPEATED].event.duplicate);
    must_equal(first.position, shots[REPEATED].event.position);
    must_hold(shots[GOOD].event.position > first.position);
    must_hold(shots[ALSO_GOOD].event.position > shots[GOOD].event.position);
    must_equal(4, log_count(fixture, store)); /* two of them before */
    must_equal(T0 + SECOND, schedule(store, names[GOOD]).next_us);
    must_equal(T0, schedule(store, names[PAUSED]).next_us);
    must_equal(1, read_ledger(store, shots[ALSO_GOOD].fire.schedule_id, &ledger));
    must_equal(shots[ALSO_GOOD].event.position, ledger.runs[0].position);
    must_equal(1, read_ledger(store, shots[REPEATED].fire.schedule_id, &ledger));
    must_equal(first.position, ledger.runs[0].position);
    must_equal(0, read_ledger(store, shots[PAUSED].fire.schedule_id, &ledger));
}

static void each_of_many_schedules_that_fire_together_has_its_own_answer(void **state)
{
    fire_together(*state, clock_wall_us());
}

static void schedules_with_old_ids_that_fire_together_have_their_own_answers(void **state)
{
    fire_together(*state, T0);
}

#define HEAVY_COUNT 6
#define HEAVY_BYTES (4 << 20) /* a commit carries 16 MiB: three of these */

static int64_t commits_of(struct store *store)
{
    struct store_sizes sizes;
    must_answer(HF_OK, store_sizes_get(store, &sizes));
    return sizes.commits;
}

static struct text heavy_payload(void)
{
    static char payload[HEAVY_BYTES];
    memset(payload, '1', sizeof payload);
    return (struct text){payload, sizeof payload};
}

static void firings_of_one_commit_are_bounded(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct text payload = heavy_payload();
    struct shot shots[HEAVY_COUNT];
    struct change *changes[HEAVY_COUNT];
    for (int i = 0; i < HEAVY_COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        add_schedule(store, name, T0);
        struct seen seen = schedule(store, name);
        aim(&shots[i], &seen, T0 + SECOND, false);
        shots[i].event.payload = payload;
        changes[i] = &shots[i].fire.change;
    }
    int64_t before = commits_of(store);
    store_run_together(store, changes, HEAVY_COUNT, deadline_after_ms(DEADLINE_MS));
    for (int i = 0; i < HEAVY_COUNT; i++) {
        must_answer(HF_OK, changes[i]->status);
    }
    must_hold(commits_of(store) - before >= 2);
}

/* PostgreSQL delays with a commit each anyway. */
static void delayed_events_of_one_commit_are_bounded(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct text payload = heavy_payload();
    struct new_event events[HEAVY_COUNT];
    struct delay delays[HEAVY_COUNT];
    struct change *changes[HEAVY_COUNT];
    for (int i = 0; i < HEAVY_COUNT; i++) {
        events[i] = event_of("later", NULL);
        events[i].payload = payload;
        delays[i] = (struct delay){.change = {.kind = CHANGE_DELAY, .now_us = T0},
                                   .events = &events[i],
                                   .count = 1,
                                   .due_us = T0 + SECOND};
        changes[i] = &delays[i].change;
    }
    int64_t before = commits_of(store);
    store_run_together(store, changes, HEAVY_COUNT, deadline_after_ms(DEADLINE_MS));
    for (int i = 0; i < HEAVY_COUNT; i++) {
        must_answer(HF_OK, changes[i]->status);
    }
    must_hold(commits_of(store) - before >= 2);
}

static void the_ledger_keeps_the_newest_rows_and_what_was_left_out(void **state)
{
    struct store *store = fixture_open(*state, "a");
    static struct ledger ledger;
    add_schedule(store, "s", T0);
    for (int64_t i = 0; i < STORE_RUNS_KEPT + 5; i++) {
        struct seen seen = schedule(store, "s");
        must_answer(HF_OK, fire_seen(store, &seen, T0 + (i + 1) * SECOND, false));
    }
    struct seen seen = schedule(store, "s");
    struct fire skip = {.change = {.kind = CHANGE_FIRE, .now_us = T0 + 1000 * SECOND},
                        .generation = seen.generation,
                        .waited_us = seen.next_us,
                        .next_us = T0 + 1001 * SECOND,
                        .skipped_first_us = seen.next_us,
                        .skipped_last_us = T0 + 999 * SECOND};
    memcpy(skip.schedule_id, seen.id, sizeof skip.schedule_id);
    must_answer(HF_OK, RUN(store, &skip));
    must_equal(STORE_RUNS_KEPT, read_ledger(store, seen.id, &ledger));
    must_equal(RUN_SKIPPED, ledger.runs[0].kind);
    must_equal(seen.next_us, ledger.runs[0].planned_us);
    must_equal(T0 + 999 * SECOND, ledger.runs[0].until_us);
    must_equal(-1, ledger.runs[0].position);
    must_equal(STORE_RUNS_KEPT + 5, log_count(*state, store));
}

/* ---- Delayed events -------------------------------------------------------------------------- */

static hf_status delay_event(struct store *store, struct new_event *event, int64_t due_us)
{
    struct delay delay = {.change = {.kind = CHANGE_DELAY, .now_us = T0},
                          .events = event,
                          .count = 1,
                          .due_us = due_us};
    checksum_seal(event);
    return RUN(store, &delay);
}

static void delay_type(struct store *store, const char *type, int64_t due_us)
{
    struct new_event event = event_of(type, NULL);
    must_answer(HF_OK, delay_event(store, &event, due_us));
    must_equal(0, event.position);
    must_hold(!event.duplicate);
}

static struct release release_at(struct store *store, int64_t now_us, int32_t max)
{
    struct release release = {.change = {.kind = CHANGE_RELEASE, .now_us = now_us}, .max = max};
    must_answer(HF_OK, RUN(store, &release));
    return release;
}

/* The types in the log, in their order. */
static const char *types_of(struct fixture *fixture, struct store *store)
{
    static char text[256];
    struct batch *batch = fixture_batch(fixture);
    read_log(fixture, store, batch);
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < batch->count && at < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "",
                               batch->entries[i].event.type);
    }
    return text;
}

static void delayed_events_enter_the_log_when_due_in_order_of_their_times(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    int64_t due_us = 0;
    delay_type(store, "third", T0 + 30);
    delay_type(store, "first", T0 + 10);
    delay_type(store, "second", T0 + 20);
    delay_type(store, "also.second", T0 + 20);
    delay_type(store, "far", T0 + 1000);
    must_read("", types_of(fixture, store));
    must_answer(HF_OK, store_timers_due(store, &due_us));
    must_equal(T0 + 10, due_us);
    struct release release = release_at(store, T0 + 9, 100);
    must_equal(0, release.ret_count);
    must_equal(T0 + 10, release.ret_next_us);
    release = release_at(store, T0 + 30, 2);
    must_equal(2, release.ret_count);
    must_equal(T0 + 20, release.ret_next_us);
    release = release_at(store, T0 + 30, 100);
    must_equal(2, release.ret_count);
    must_equal(T0 + 1000, release.ret_next_us);
    must_read("first second also.second third", types_of(fixture, store));
    must_equal(1, release_at(store, T0 + 1000, 100).ret_count);
    must_equal(STORE_NEVER, release_at(store, T0 + 1000, 100).ret_next_us);
}

/* The same names, times and ids in both; whatever is done in one, the other stays as it was. */
static void namespaces_have_schedules_and_delayed_events_of_their_own(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    static struct ledger ledger;
    struct new_event event = event_of("later", NULL);
    struct new_event same = event;
    int64_t due_us = 0;
    add_schedule(store, "s", T0);
    add_schedule(other, "s", T0);
    must_answer(HF_OK, delay_event(store, &event, T0 + 10));
    must_answer(HF_OK, delay_event(other, &same, T0 + 10));
    must_hold(!same.duplicate);
    struct seen theirs = schedule(other, "s");

    must_equal(1, due_count(store, T0));
    struct seen seen = schedule(store, "s");
    must_answer(HF_STALE, fire_seen(store, &theirs, T0 + SECOND, false)); /* by its id: not here */
    must_answer(HF_OK, fire_seen(store, &seen, T0 + SECOND, false));
    must_equal(1, release_at(store, T0 + 20, 10).ret_count);
    must_answer(HF_OK, pause_schedule(store, "s", true, 0));
    must_answer(HF_OK, remove_schedule(store, "s"));
    must_answer(HF_OK, store_timers_due(store, &due_us));
    must_equal(STORE_NEVER, due_us);
    must_equal(2, log_count(*state, store));

    struct seen after = schedule(other, "s");
    must_equal(theirs.generation, after.generation);
    must_equal(T0, after.next_us);
    must_equal(-1, after.paused_at_us);
    must_equal(0, read_ledger(other, after.id, &ledger));
    must_equal(0, log_count(*state, other));
    must_equal(1, due_count(other, T0));
    must_equal(1, release_at(other, T0 + 20, 10).ret_count);
    must_read("later", types_of(*state, other));
}

static void a_delayed_event_outlives_its_process(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    delay_type(store, "later", T0 + 10);
    fixture_close(fixture, store);
    store = fixture_open(fixture, "b");
    must_equal(1, release_at(store, T0 + 10, 100).ret_count);
    must_read("later", types_of(fixture, store));
}

static void an_id_is_published_once_delayed_or_not(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "a");
    struct new_event event = event_of("once", NULL);
    must_answer(HF_OK, delay_event(store, &event, T0 + 10));
    must_answer(HF_OK, delay_event(store, &event, T0 + 5));
    must_hold(event.duplicate);
    must_equal(0, event.position);
    must_equal(0, release_at(store, T0 + 9, 100).ret_count); /* the first one's time stands */
    must_answer(HF_OK, append_event(store, &event));
    must_hold(!event.duplicate);
    int64_t position = event.position;
    must_equal(1, release_at(store, T0 + 10, 100).ret_count);
    must_read("once", types_of(fixture, store));
    must_answer(HF_OK, delay_event(store, &event, T0 + 99));
    must_hold(event.duplicate);
    must_equal(position, event.position);
    must_equal(STORE_NEVER, release_at(store, T0 + 99, 100).ret_next_us);
}

/* An id of a server cannot be damaged so. */
static void a_release_that_fails_leaves_no_hole_in_the_log(void **state)
{
    fixture_sqlite_only(*state);
    struct store *store = fixture_open(*state, "a");
    delay_type(store, "whole", T0 + 10);
    delay_type(store, "damaged", T0 + 20);
    must_equal(2, sqlite_number_in(fixture_path(*state),
                                   "UPDATE holdfast_delayed SET id = x'00' WHERE type = 'damaged' "
                                   "RETURNING number"));
    struct release release = {.change = {.kind = CHANGE_RELEASE, .now_us = T0 + 30}, .max = 100};
    struct new_event event = event_of("after", NULL);
    struct append append = append_of(&event, 1);
    struct change *changes[] = {&release.change, &append.change}; /* of one transaction */
    store_run_together(store, changes, 2, deadline_after_ms(DEADLINE_MS));
    must_answer(HF_CORRUPT, release.change.status);
    must_answer(HF_OK, append.change.status);
    must_equal(1, event.position);
    must_read("after", types_of(*state, store));
}

static void a_new_timer_rings(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    uint64_t seen = store_news(a);
    add_schedule(b, "s", T0);
    must_hold(store_wait(a, seen, DEADLINE_MS) != seen);
    seen = store_news(a);
    delay_type(b, "t", T0);
    must_hold(store_wait(a, seen, DEADLINE_MS) != seen);
}

/* The thread that fires has nothing else to go by: its own commits are not foreign to it. */
static void what_is_kept_for_later_and_moved_is_news_to_its_own_store(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = event_of("t", NULL);
    uint64_t seen = store_timers_news(store);
    must_answer(HF_OK, delay_event(store, &event, T0 + 1000));
    must_hold(store_timers_news(store) != seen);
    struct later_move move = {.change = {.kind = CHANGE_LATER_MOVE, .now_us = T0}, .due_us = T0};
    memcpy(move.id, event.id, sizeof move.id);
    seen = store_timers_news(store);
    must_answer(HF_OK, RUN(store, &move));
    must_hold(store_timers_news(store) != seen);
}

/* ---- Several processes ----------------------------------------------------------------------- */

#define PROCESSES 8
#define PLANNED 150 /* times, a second apart */

/* Fires whatever is due until the last planned time has been fired; then stays until told. */
static int role_fire(struct fixture *fixture, const char *argument)
{
    struct store *store = fixture_open(fixture, argument);
    role_report("ready", 0);
    for (;;) {
        struct seen seen = {0};
        must_answer(HF_OK, store_schedule_get(store, text_of("s"), note_schedule, &seen));
        if (seen.next_us >= T0 + PLANNED * SECOND) {
            char line[CHILD_LINE_BYTES];
            role_listen(line);
            return 0;
        }
        hf_status status = fire_seen(store, &seen, seen.next_us + SECOND, false);
        must_hold(status == HF_OK || status == HF_STALE);
    }
}

static void eight_processes_with_kills_fire_each_planned_time_once(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture_open(fixture, "parent");
    struct child *children[PROCESSES];
    add_schedule(store, "s", T0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fixture_child(fixture, "fire", "child");
    }
    for (int i = 0; i < PROCESSES; i++) {
        child_hear(children[i], "ready");
    }
    /* All but one die somewhere on the way, each when some more times have been fired. */
    for (int i = 0; i < PROCESSES - 1; i++) {
        int64_t until_us = T0 + (i + 1) * (PLANNED / (PROCESSES + 1)) * SECOND;
        for (int64_t deadline = mono_ms() + DEADLINE_MS; schedule(store, "s").next_us < until_us;) {
            must_hold(mono_ms() < deadline);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        child_kill(children[i]);
    }
    child_finish(children[PROCESSES - 1]);
    struct ledger ledger;
    struct seen seen = schedule(store, "s");
    must_equal(T0 + PLANNED * SECOND, seen.next_us);
    must_equal(PLANNED, log_count(fixture, store));
    must_equal(STORE_RUNS_KEPT, read_ledger(store, seen.id, &ledger));
    for (int i = 0; i < STORE_RUNS_KEPT; i++) {
        must_equal(T0 + (PLANNED - 1 - i) * SECOND, ledger.runs[i].planned_us);
        must_hold(i == 0 || ledger.runs[i].position < ledger.runs[i - 1].position);
    }
}

static const struct role roles[] = {{"fire", role_fire}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(a_schedule_is_kept_as_it_was_put),
    CLAIM(changing_a_schedule_keeps_its_id_and_raises_its_generation),
    CLAIM(due_schedules_are_those_whose_time_has_come),
    CLAIM(a_pause_keeps_its_first_reason_and_ends_once_at_a_new_time),
    CLAIM(a_removed_schedule_is_gone_with_its_ledger),
    CLAIM(firing_publishes_writes_the_ledger_and_moves_on),
    CLAIM(a_planned_time_that_was_fired_is_stale_and_publishes_nothing),
    CLAIM(a_schedule_that_was_changed_or_paused_does_not_fire),
    CLAIM(firing_by_hand_changes_nothing_of_the_plan),
    CLAIM(the_ledger_is_read_before_a_planned_time),
    CLAIM(each_of_many_schedules_that_fire_together_has_its_own_answer),
    CLAIM(schedules_with_old_ids_that_fire_together_have_their_own_answers),
    CLAIM(firings_of_one_commit_are_bounded),
    CLAIM(delayed_events_of_one_commit_are_bounded),
    CLAIM(the_ledger_keeps_the_newest_rows_and_what_was_left_out),
    CLAIM(delayed_events_enter_the_log_when_due_in_order_of_their_times),
    CLAIM(namespaces_have_schedules_and_delayed_events_of_their_own),
    CLAIM(a_delayed_event_outlives_its_process),
    CLAIM(an_id_is_published_once_delayed_or_not),
    CLAIM(a_release_that_fails_leaves_no_hole_in_the_log),
    CLAIM(a_new_timer_rings),
    CLAIM(what_is_kept_for_later_and_moved_is_news_to_its_own_store),
    CLAIM(eight_processes_with_kills_fire_each_planned_time_once),
};

FIXTURE_MAIN("timers", claims, roles)
