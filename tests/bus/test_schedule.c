/*
 * test_schedule.c - schedules and delayed events through the public API: what is refused, what
 * fires, and that several buses fire each planned time once.
 */
#include "support_scene.h"
#include "support_tables.h"

#include <libpq-fe.h>

#include "base/point.h"
#include "support/faulty.h"

#define SECOND_US INT64_C(1000000)
#define UNREADABLE "1100" /* more than the 1000 that are fired in one turn */

static void assert_said(const char *words)
{
    if (!strstr(hf_errmsg(), words)) {
        fail_msg("\"%s\" does not say \"%s\"", hf_errmsg(), words);
    }
}

static hf_schedule schedule_of(const char *name, const char *expression)
{
    hf_schedule schedule = HF_SCHEDULE_INIT;
    schedule.name = name;
    schedule.expression = expression;
    schedule.type = "tick";
    schedule.payload = "{\"n\": 1.50}";
    schedule.key = "k";
    return schedule;
}

/* A copy of what matters of a schedule. */
struct known {
    int count;
    char id[HF_ID_BYTES];
    char expression[64];
    char zone[64];
    int64_t next_at_us;
    int64_t paused_at_us;
    char paused_reason[64];
};

static int note(const hf_schedule_info *info, void *ctx)
{
    struct known *known = ctx;
    known->count++;
    snprintf(known->id, sizeof known->id, "%s", info->id);
    snprintf(known->expression, sizeof known->expression, "%s", info->schedule.expression);
    snprintf(known->zone, sizeof known->zone, "%s", info->schedule.zone);
    known->next_at_us = info->next_at_us;
    known->paused_at_us = info->paused_at_us;
    snprintf(known->paused_reason, sizeof known->paused_reason, "%s",
             info->paused_reason ? info->paused_reason : "");
    return 0;
}

static struct known known_of(hf_bus *bus, const char *name)
{
    struct known known = {0};
    assert_ok(hf_schedule_get(bus, name, note, &known));
    assert_int_equal(known.count, 1);
    return known;
}

/* The log, event by event. */
#define EVENTS_MAX 64
struct events {
    size_t count;
    int64_t cursor;
    char types[EVENTS_MAX][32];
    char ids[EVENTS_MAX][HF_ID_BYTES];
    char schedule_ids[EVENTS_MAX][HF_ID_BYTES];
    char producers[EVENTS_MAX][32];
    int64_t emitted_at_us[EVENTS_MAX];
    int64_t positions[EVENTS_MAX];
};

static int take(const hf_event *event, void *ctx)
{
    struct events *events = ctx;
    size_t at = events->count;
    if (at == EVENTS_MAX) {
        return 1;
    }
    snprintf(events->types[at], sizeof events->types[at], "%s", event->type);
    snprintf(events->ids[at], sizeof events->ids[at], "%s", event->id);
    snprintf(events->schedule_ids[at], sizeof events->schedule_ids[at], "%s",
             event->schedule_id ? event->schedule_id : "");
    snprintf(events->producers[at], sizeof events->producers[at], "%s", event->producer);
    events->emitted_at_us[at] = event->emitted_at_us;
    events->positions[at] = event->position;
    events->count++;
    return 0;
}

/* Waits until the log has so many events. */
static void read_events(hf_bus *bus, struct events *events, size_t count)
{
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    while (events->count < count) {
        assert_true(mono_us() < until_us);
        assert_ok(hf_read(bus, NULL, 100, 100, &events->cursor, take, events));
    }
}

/* ---- Putting --------------------------------------------------------------------------------- */

static void a_schedule_is_kept_as_it_was_put(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("nightly", "30 2 * * *");
    int32_t created = 7;
    schedule.zone = "Europe/Berlin";
    assert_ok(hf_schedule_put(scene->bus, &schedule, &created));
    assert_int_equal(created, 1);
    struct known known = known_of(scene->bus, "nightly");
    assert_string_equal(known.expression, "30 2 * * *");
    assert_string_equal(known.zone, "Europe/Berlin");
    assert_true(known.next_at_us > wall_us() - 60 * SECOND_US);
    assert_true(known.next_at_us < wall_us() + 26 * 3600 * SECOND_US);
    assert_int_equal(known.paused_at_us, -1);
}

static void mistakes_in_a_schedule_are_named(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "0 25 * * *");
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("hour \"25\" at byte 2 is out of range; the field takes 0 to 23");
    schedule = schedule_of("s", "0 0 30 2 *");
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("never fires");
    schedule = schedule_of("s", "@daily");
    schedule.zone = "../../etc/passwd";
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    schedule.zone = "Europe/Atlantis";
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_NOTFOUND);
    assert_said("no time zone Europe/Atlantis");
    schedule = schedule_of("", "@daily");
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("schedule name is empty");
    schedule = schedule_of("s", "@daily");
    schedule.payload = "{";
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("payload");
    schedule = schedule_of("s", "@daily");
    schedule.misfire_cap = 1001;
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("misfire_cap is 1001; it takes 1 to 1000");
    schedule = schedule_of("s", "@daily");
    schedule.driver = (hf_driver)7;
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("driver is 7");
    assert_status(hf_schedule_get(scene->bus, "s", note, NULL), HF_NOTFOUND);
}

static void a_driver_that_is_not_there_is_refused_and_changes_nothing(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "@daily");
    schedule.driver = HF_DRIVER_PG_CRON;
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_MISUSE);
    assert_said("driver is pg_cron");
    assert_status(hf_schedule_get(scene->bus, "s", note, NULL), HF_NOTFOUND);
    schedule.driver = HF_DRIVER_OWN;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    schedule.expression = "@hourly";
    schedule.driver = HF_DRIVER_PG_CRON;
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_MISUSE);
    assert_string_equal(known_of(scene->bus, "s").expression, "@daily");
}

static void putting_the_same_schedule_again_changes_nothing(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    int32_t created = 7;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    struct known before = known_of(scene->bus, "s");
    /* When its time has passed, it still waits for that time. */
    while (wall_us() <= before.next_at_us) {
        usleep(10000);
    }
    assert_ok(hf_schedule_put(scene->bus, &schedule, &created));
    assert_int_equal(created, 0);
    assert_int_equal(known_of(scene->bus, "s").next_at_us, before.next_at_us);
    schedule.expression = "@yearly";
    assert_ok(hf_schedule_put(scene->bus, &schedule, &created));
    assert_int_equal(created, 0);
    assert_true(known_of(scene->bus, "s").next_at_us > before.next_at_us);
    assert_string_equal(known_of(scene->bus, "s").id, before.id);
}

static void schedules_are_paused_run_by_hand_and_removed(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("b", "@yearly");
    struct known listed = {0};
    struct events events = {0};
    hf_receipt receipt;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    schedule.name = "a";
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    assert_ok(hf_schedule_list(scene->bus, note, &listed));
    assert_int_equal(listed.count, 2);
    assert_ok(hf_schedule_pause(scene->bus, "a", "moving"));
    assert_string_equal(known_of(scene->bus, "a").paused_reason, "moving");
    memset(&receipt, 0xff, sizeof receipt); /* every field is written */
    assert_ok(hf_schedule_run(scene->bus, "a", &receipt));
    assert_int_equal(receipt.duplicate, 0);
    assert_int_equal(receipt.replaced, 0);
    assert_int_equal(receipt.key_version, -1);
    read_events(scene->bus, &events, 1);
    assert_string_equal(events.ids[0], receipt.id);
    assert_string_equal(events.schedule_ids[0], known_of(scene->bus, "a").id);
    assert_string_equal(events.producers[0], "scheduler");
    assert_ok(hf_schedule_resume(scene->bus, "a"));
    assert_int_equal(known_of(scene->bus, "a").paused_at_us, -1);
    assert_ok(hf_schedule_remove(scene->bus, "a"));
    assert_status(hf_schedule_remove(scene->bus, "a"), HF_NOTFOUND);
    assert_status(hf_schedule_run(scene->bus, "a", NULL), HF_NOTFOUND);
    assert_status(hf_schedule_resume(scene->bus, "a"), HF_NOTFOUND);
}

/* ---- Firing ---------------------------------------------------------------------------------- */

static void three_buses_fire_each_planned_time_once(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    static struct events events;
    memset(&events, 0, sizeof events);
    hf_bus *second = scene_open(scene, NULL);
    hf_bus *third = scene_open(scene, NULL);
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(second));
    assert_ok(hf_start(third));
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    struct known known = known_of(scene->bus, "s");
    read_events(scene->bus, &events, 5);
    for (size_t i = 0; i < events.count; i++) {
        assert_string_equal(events.types[i], "tick");
        assert_string_equal(events.schedule_ids[i], known.id);
        assert_string_equal(events.producers[i], "scheduler");
        assert_int_equal(events.emitted_at_us[i] % SECOND_US, 0);
        assert_int_equal(events.emitted_at_us[i], events.emitted_at_us[0] + (int64_t)i * SECOND_US);
    }
}

static void a_stopped_bus_fires_nothing_and_a_started_one_catches_up(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    static struct events events;
    memset(&events, 0, sizeof events);
    schedule.misfire = HF_MISFIRE_ALL;
    schedule.misfire_cap = 2;
    schedule.grace_ms = 0;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    int64_t first_us = known_of(scene->bus, "s").next_at_us;
    while (wall_us() < first_us + 4 * SECOND_US) {
        usleep(10000);
    }
    assert_int_equal(known_of(scene->bus, "s").next_at_us, first_us);
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 3);
    assert_true(events.emitted_at_us[0] >= first_us + 2 * SECOND_US);
    assert_int_equal(events.emitted_at_us[1], events.emitted_at_us[0] + SECOND_US);
}

/* A second that a busy machine misses is skipped; there are many of them. */
static void a_schedule_without_grace_that_skips_what_is_missed_fires(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    static struct events events;
    memset(&events, 0, sizeof events);
    schedule.misfire = HF_MISFIRE_SKIP;
    schedule.grace_ms = 0;
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    read_events(scene->bus, &events, 2);
}

/* While the bus fires: it cannot come between the making and the pause. */
static void a_schedule_that_is_made_paused_never_fires(void **state)
{
    struct scene *scene = *state;
    hf_schedule paused = schedule_of("paused", "* * * * * *");
    hf_schedule other = schedule_of("other", "* * * * * *");
    static struct events events;
    memset(&events, 0, sizeof events);
    paused.type = "never";
    paused.paused = "until tested";
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_schedule_put(scene->bus, &paused, NULL));
    assert_ok(hf_schedule_put(scene->bus, &other, NULL));
    read_events(scene->bus, &events, 3);
    for (size_t i = 0; i < events.count; i++) {
        assert_string_equal(events.types[i], "tick");
    }
    struct known known = known_of(scene->bus, "paused");
    assert_true(known.paused_at_us > 0);
    assert_string_equal(known.paused_reason, "until tested");
    assert_ok(hf_schedule_remove(scene->bus, "other"));
    other.paused = "";
    assert_ok(hf_schedule_put(scene->bus, &other, NULL));
    known = known_of(scene->bus, "other");
    assert_true(known.paused_at_us > 0);
    assert_string_equal(known.paused_reason, "");
    assert_ok(hf_schedule_resume(scene->bus, "paused"));
    assert_ok(hf_schedule_put(scene->bus, &paused, NULL)); /* one that exists stays as it is */
    assert_int_equal(known_of(scene->bus, "paused").paused_at_us, -1);
    do { /* the other may have fired once more before it was removed */
        read_events(scene->bus, &events, events.count + 1);
    } while (strcmp(events.types[events.count - 1], "tick") == 0);
    assert_string_equal(events.types[events.count - 1], "never");
}

struct meddler {
    hf_bus *bus;
    int count;
    int inner;
};

static int count_one(const hf_schedule_info *info, void *ctx)
{
    (void)info;
    ++*(int *)ctx;
    return 0;
}

/* Removes the one that it is shown, makes another, and lists them all. */
static int meddle(const hf_schedule_info *info, void *ctx)
{
    struct meddler *meddler = ctx;
    char name[64];
    snprintf(name, sizeof name, "z%s", info->schedule.name);
    hf_schedule another = schedule_of(name, "@yearly");
    another.payload = info->schedule.payload;
    assert_ok(hf_schedule_remove(meddler->bus, info->schedule.name));
    assert_ok(hf_schedule_put(meddler->bus, &another, NULL));
    assert_ok(hf_schedule_list(meddler->bus, count_one, &meddler->inner));
    meddler->count++;
    return 0;
}

static void schedules_can_be_changed_while_they_are_listed(void **state)
{
    struct scene *scene = *state;
    struct meddler meddler = {.bus = scene->bus};
    int left = 0;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        hf_schedule schedule = schedule_of(name, "@yearly");
        assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    }
    assert_ok(hf_schedule_list(scene->bus, meddle, &meddler));
    assert_int_equal(meddler.count, 20);
    assert_int_equal(meddler.inner, 20 * 20);
    assert_ok(hf_schedule_list(scene->bus, count_one, &left));
    assert_int_equal(left, 20);
    assert_ok(hf_schedule_get(scene->bus, "zs7", note, &(struct known){0}));
}

/* Copies of the only schedule, which are due when it is. */
#define COPIED "next_at, created_at, policy, cap, grace_us, expression, zone, type, payload"
static const char copies_in_file[] =
    "WITH RECURSIVE numbers (n) AS "
    "(VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < " UNREADABLE ") "
    "INSERT INTO holdfast_schedules (id, namespace_id, name, " COPIED ") "
    "SELECT randomblob(16), namespace_id, name || n, " COPIED " FROM holdfast_schedules, numbers";
static const char copies_on_server[] =
    "INSERT INTO holdfast_private.schedules (id, namespace_id, name, " COPIED ") "
    "SELECT gen_random_uuid(), namespace_id, name || n, " COPIED " "
    "FROM holdfast_private.schedules, generate_series(1, " UNREADABLE ") AS n";

/* So many come first in every portion. They are known on the machine that made them. */
static void schedules_that_cannot_be_read_delay_no_others(void **state)
{
    struct scene *scene = *state;
    static struct events events;
    hf_schedule bad = schedule_of("bad", "* * * * * *");
    memset(&events, 0, sizeof events);
    assert_ok(hf_schedule_put(scene->bus, &bad, NULL));
    tables_run(scene, scene->path ? copies_in_file : copies_on_server);
    tables_run(scene, scene->path
                          ? "UPDATE holdfast_schedules SET zone = 'Europe/Atlantis'"
                          : "UPDATE holdfast_private.schedules SET zone = 'Europe/Atlantis'");
    sleep(1);
    hf_schedule good = schedule_of("good", "* * * * * *");
    assert_ok(hf_schedule_put(scene->bus, &good, NULL));
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 3);
    assert_true(scene_said(scene, "Europe/Atlantis"));
}

static int note_lateness(const hf_schedule_run_info *run, void *ctx)
{
    *(int64_t *)ctx = run->fired_at_us - run->planned_at_us;
    return 0;
}

static const char soon_in_file[] =
    "UPDATE holdfast_schedules "
    "SET zone = CASE name WHEN 'bad' THEN 'Europe/Atlantis' ELSE zone END, "
    "next_at = (strftime('%s') + 3) * 1000000 + CASE name WHEN 'good' THEN 300000 ELSE 0 END";
static const char soon_on_server[] =
    "UPDATE holdfast_private.schedules "
    "SET zone = CASE name WHEN 'bad' THEN 'Europe/Atlantis' ELSE zone END, "
    "next_at = date_trunc('second', clock_timestamp()) + interval '3 s' "
    "+ CASE name WHEN 'good' THEN interval '0.3 s' ELSE interval '0 s' END";

/* One that cannot be read comes due while nothing else happens, and another 0.3 s later: that does
 * not wait for the next look at the first, which is after a second. Of several times one has to
 * show it, for a machine may be slow. */
static void a_schedule_behind_one_that_cannot_be_read_is_on_time(void **state)
{
    struct scene *scene = *state;
    hf_schedule bad = schedule_of("bad", "@yearly");
    hf_schedule good = schedule_of("good", "@yearly");
    int64_t late_us = INT64_MAX;
    static struct events events;
    memset(&events, 0, sizeof events);
    for (int i = 0; i < 15 && late_us > SECOND_US / 2; i++) {
        assert_ok(hf_schedule_put(scene->bus, &bad, NULL));
        assert_ok(hf_schedule_put(scene->bus, &good, NULL));
        tables_run(scene, scene->path ? soon_in_file : soon_on_server);
        assert_ok(hf_start(scene->bus));
        read_events(scene->bus, &events, events.count + 1);
        assert_ok(hf_stop(scene->bus, DEADLINE_MS));
        assert_ok(hf_schedule_runs(scene->bus, "good", -1, -1, note_lateness, &late_us));
        assert_ok(hf_schedule_remove(scene->bus, "good"));
        assert_ok(hf_schedule_remove(scene->bus, "bad"));
    }
    assert_true(late_us <= SECOND_US / 2);
}

/* How many planned times each firing brought: those of one have the same time in the ledger. */
struct portions {
    int64_t fired_at_us;
    int count; /* of the present one */
    int largest;
    int total;
};

static int weigh(const hf_schedule_run_info *run, void *ctx)
{
    struct portions *portions = ctx;
    if (run->kind != HF_RUN_FIRED) {
        return 0;
    }
    portions->count = run->fired_at_us == portions->fired_at_us ? portions->count + 1 : 1;
    portions->fired_at_us = run->fired_at_us;
    portions->largest = portions->count > portions->largest ? portions->count : portions->largest;
    portions->total++;
    return 0;
}

/* Twenty times with a megabyte each: no commit carries all of them. */
static void a_firing_brings_no_more_than_a_commit_should_carry(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("large", "0 * * * *");
    static struct events events;
    static char payload[1000003];
    struct portions portions = {0};
    memset(&events, 0, sizeof events);
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 2] = '"';
    payload[sizeof payload - 1] = '\0';
    schedule.payload = payload;
    schedule.misfire = HF_MISFIRE_ALL;
    schedule.misfire_cap = 20;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    tables_run(scene, scene->path ? "UPDATE holdfast_schedules SET next_at = next_at - 108000000000"
                                  : "UPDATE holdfast_private.schedules SET next_at = next_at - "
                                    "interval '30 hours'");
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 20);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    for (size_t i = 1; i < events.count; i++) {
        assert_int_equal(events.emitted_at_us[i], events.emitted_at_us[i - 1] + 3600 * SECOND_US);
    }
    assert_ok(hf_schedule_runs(scene->bus, "large", -1, -1, weigh, &portions));
    assert_true(portions.total >= 20);
    assert_int_equal(portions.largest, 4);
}

#ifdef HF_FAULTS
/* How often the scheduler reads what is due is bounded, and another schedule fires to the second.
 * On a machine that is too slow to look more often this proves nothing. */
static void a_schedule_that_another_process_holds_is_tried_ever_less_often(void **state)
{
    struct scene *scene = *state;
    static struct events events;
    static char url[600];
    if (scene->path) {
        skip(); /* one row of a file cannot be held */
    }
    memset(&events, 0, sizeof events);
    faulty_install();
    snprintf(url, sizeof url, "faulty:%s", scene->url);
    assert_ok(hf_open(url, &scene->options, &scene->bus));
    hf_schedule held = schedule_of("held", "* * * * * *");
    hf_schedule good = schedule_of("good", "*/2 * * * * *");
    held.type = "held";
    assert_ok(hf_schedule_put(scene->bus, &held, NULL));
    assert_ok(hf_schedule_put(scene->bus, &good, NULL));
    PGconn *holder = PQconnectdb(scene->url);
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(
        PQexec(holder, "SELECT FROM holdfast_private.schedules WHERE name = 'held' FOR UPDATE"));
    assert_int_equal(PQtransactionStatus(holder), PQTRANS_INTRANS);

    int64_t begin_us = mono_us();
    int64_t before = faulty_calls(FAULTY_TIMERS);
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 3);
    int64_t looks = faulty_calls(FAULTY_TIMERS) - before;
    int64_t seconds = (mono_us() - begin_us) / SECOND_US + 1;
    PQfinish(holder);
    for (size_t i = 0; i < events.count; i++) {
        assert_string_equal(events.types[i], "tick");
    }
    if (looks > 60 * seconds) {
        fail_msg("%lld looks in %lld s", (long long)looks, (long long)seconds);
    }
    read_events(scene->bus, &events, 6);
}
#endif

/* ---- The ledger ------------------------------------------------------------------------------ */

#define RUNS_MAX 128
struct runs {
    size_t count;
    size_t enough; /* 0: all are wanted */
    hf_schedule_run_info runs[RUNS_MAX];
    char event_ids[RUNS_MAX][HF_ID_BYTES];
    hf_bus *bus; /* to use while listing */
};

static int take_run(const hf_schedule_run_info *run, void *ctx)
{
    struct runs *runs = ctx;
    assert_true(runs->count < RUNS_MAX);
    assert_int_equal(run->size, sizeof *run);
    assert_non_null(run->node);
    if (runs->bus) {
        known_of(runs->bus, "s");
    }
    runs->runs[runs->count] = *run;
    snprintf(runs->event_ids[runs->count], HF_ID_BYTES, "%s", run->event_id ? run->event_id : "");
    runs->count++;
    return runs->count == runs->enough;
}

/* A schedule that missed some times, fired, was stopped, and was run by hand. */
static void make_history(struct scene *scene, struct events *events, hf_receipt *ret_receipt)
{
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    schedule.misfire = HF_MISFIRE_ONCE;
    schedule.grace_ms = 0;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    int64_t first_us = known_of(scene->bus, "s").next_at_us;
    while (wall_us() < first_us + 3 * SECOND_US) {
        usleep(10000);
    }
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, events, 2);
    assert_ok(hf_stop(scene->bus, DEADLINE_MS));
    assert_ok(hf_read(scene->bus, NULL, 100, 0, &events->cursor, take, events));
    assert_ok(hf_schedule_run(scene->bus, "s", ret_receipt));
}

static void the_ledger_shows_firings_skipped_times_and_runs_by_hand(void **state)
{
    struct scene *scene = *state;
    static struct events events;
    static struct runs runs;
    hf_receipt receipt;
    memset(&events, 0, sizeof events);
    memset(&runs, 0, sizeof runs);
    runs.bus = scene->bus;
    make_history(scene, &events, &receipt);
    assert_ok(hf_schedule_runs(scene->bus, "s", -1, -1, take_run, &runs));
    assert_true(runs.count > events.count + 1);
    assert_int_equal(runs.runs[0].kind, HF_RUN_BY_HAND);
    assert_int_equal(runs.runs[0].position, receipt.position);
    size_t fired = events.count;
    size_t skipped = 0;
    for (size_t i = 1; i < runs.count; i++) {
        const hf_schedule_run_info *run = &runs.runs[i];
        assert_true(run->planned_at_us < runs.runs[i - 1].planned_at_us);
        if (run->kind == HF_RUN_SKIPPED) {
            skipped++;
            assert_int_equal(run->position, -1);
            assert_true(run->until_at_us >= run->planned_at_us);
            assert_string_equal(runs.event_ids[i], "");
            continue;
        }
        assert_int_equal(run->kind, HF_RUN_FIRED);
        fired--;
        assert_int_equal(run->planned_at_us, events.emitted_at_us[fired]);
        assert_int_equal(run->position, events.positions[fired]);
        assert_string_equal(runs.event_ids[i], events.ids[fired]);
        assert_true(run->fired_at_us >= run->planned_at_us);
    }
    assert_int_equal(fired, 0);
    assert_true(skipped >= 1);
}

static void the_ledger_is_read_in_pages_and_after_a_mistake_the_callback_is_not_called(void **state)
{
    struct scene *scene = *state;
    static struct events events;
    static struct runs all;
    static struct runs paged;
    hf_receipt receipt;
    memset(&events, 0, sizeof events);
    memset(&all, 0, sizeof all);
    memset(&paged, 0, sizeof paged);
    make_history(scene, &events, &receipt);
    assert_ok(hf_schedule_runs(scene->bus, "s", -1, HF_SCHEDULE_RUNS_MAX, take_run, &all));
    int64_t before_us = -1;
    for (size_t count = 1; paged.count < all.count; count++) {
        assert_ok(hf_schedule_runs(scene->bus, "s", before_us, 1, take_run, &paged));
        assert_int_equal(paged.count, count);
        before_us = paged.runs[count - 1].planned_at_us;
        assert_int_equal(before_us, all.runs[count - 1].planned_at_us);
    }
    assert_ok(hf_schedule_runs(scene->bus, "s", before_us, 1, take_run, &paged));
    assert_int_equal(paged.count, all.count);
    paged.enough = paged.count + 1;
    assert_ok(hf_schedule_runs(scene->bus, "s", -1, -1, take_run, &paged));
    assert_int_equal(paged.count, all.count + 1);
    assert_status(hf_schedule_runs(scene->bus, "t", -1, -1, take_run, &paged), HF_NOTFOUND);
    assert_status(hf_schedule_runs(scene->bus, "", -1, -1, take_run, &paged), HF_INVALID);
    assert_status(hf_schedule_runs(scene->bus, "s", -2, -1, take_run, &paged), HF_INVALID);
    assert_status(hf_schedule_runs(scene->bus, "s", -1, 0, take_run, &paged), HF_INVALID);
    assert_said("limit is 0; it takes 1 to 1000");
    assert_status(hf_schedule_runs(scene->bus, "s", -1, 1001, take_run, &paged), HF_INVALID);
    assert_status(hf_schedule_runs(scene->bus, "s", -1, -1, NULL, NULL), HF_INVALID);
    assert_int_equal(paged.count, all.count + 1);
}

/* ---- Later ----------------------------------------------------------------------------------- */

static void events_for_later_enter_in_the_order_of_their_times(void **state)
{
    struct scene *scene = *state;
    static const char *const types[] = {"third", "first", "second"};
    static const int64_t delays_ms[] = {1500, 500, 1000};
    static struct events events;
    memset(&events, 0, sizeof events);
    hf_receipt receipt;
    int64_t begun_us = mono_us();
    int64_t now_us = wall_us();
    for (int i = 0; i < 3; i++) {
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = types[i];
        event.deliver_at_us = now_us + delays_ms[i] * 1000;
        assert_ok(hf_publish(scene->bus, &event, &receipt));
        assert_int_equal(receipt.position, 0);
        assert_int_equal(receipt.duplicate, 0);
    }
    /* Only now: on a slow machine the first one could be due before the last is published. Those
     * that are due together enter the log in the order of their times, too. */
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 3);
    assert_true(mono_us() - begun_us >= 1490000);
    assert_string_equal(events.types[0], "first");
    assert_string_equal(events.types[1], "second");
    assert_string_equal(events.types[2], "third");
    assert_string_equal(events.ids[1], receipt.id);
}

static void events_for_later_are_refused_where_they_make_no_sense(void **state)
{
    struct scene *scene = *state;
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "t";
    event.key = "k";
    event.deliver_at_us = wall_us();
    event.expected_version = 0;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("cannot expect a version");
    event.expected_version = -1;
    assert_status(hf_publish_many(scene->bus, &event, 1, NULL), HF_INVALID);
    assert_said("only for hf_publish");
    event.deliver_at_us = INT64_MAX;
    assert_status(hf_publish(scene->bus, &event, NULL), HF_INVALID);
    assert_said("outside the years");
}

#ifdef HF_FAULTS
/* Something was published, and the process that fires has just seen that no schedule has changed:
 * one that is made now wakes it up, too. */
static void a_schedule_made_right_after_a_look_at_them_is_on_time(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "* * * * * *");
    static struct events events;
    memset(&events, 0, sizeof events);
    assert_ok(hf_start(scene->bus));
    point_arm("after_timers_look", 1, POINT_STOP_THREAD);
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    size_t published = 0;
    do { /* what is published before its first look is no news for it */
        assert_true(mono_us() < until_us);
        publish(scene->bus, "x", NULL, "1");
        published++;
        /* On SQLite any event is news of timers, so the look that finds no news comes a second
         * after the last event: the wait is longer than that second. */
    } while (!point_wait_blocked("after_timers_look", 4000));
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    usleep(200000); /* its news has come, most likely: else the claim holds anyway */
    point_release("after_timers_look");
    read_events(scene->bus, &events, published + 1);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_schedule_is_kept_as_it_was_put),
        scene_test(mistakes_in_a_schedule_are_named),
        scene_test(a_driver_that_is_not_there_is_refused_and_changes_nothing),
        scene_test(putting_the_same_schedule_again_changes_nothing),
        scene_test(schedules_are_paused_run_by_hand_and_removed),
        scene_test(three_buses_fire_each_planned_time_once),
        scene_test(a_stopped_bus_fires_nothing_and_a_started_one_catches_up),
        scene_test(a_schedule_without_grace_that_skips_what_is_missed_fires),
        scene_test(a_schedule_that_is_made_paused_never_fires),
        scene_test(schedules_can_be_changed_while_they_are_listed),
        scene_test(schedules_that_cannot_be_read_delay_no_others),
        scene_test(a_schedule_behind_one_that_cannot_be_read_is_on_time),
        scene_test(a_firing_brings_no_more_than_a_commit_should_carry),
#ifdef HF_FAULTS
        cmocka_unit_test_setup_teardown(
            a_schedule_that_another_process_holds_is_tried_ever_less_often, scene_bare,
            scene_teardown),
        scene_test(a_schedule_made_right_after_a_look_at_them_is_on_time),
#endif
        scene_test(the_ledger_shows_firings_skipped_times_and_runs_by_hand),
        scene_test(the_ledger_is_read_in_pages_and_after_a_mistake_the_callback_is_not_called),
        scene_test(events_for_later_enter_in_the_order_of_their_times),
        scene_test(events_for_later_are_refused_where_they_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
