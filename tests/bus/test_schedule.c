/*
 * test_schedule.c - schedules and delayed events through the public API: what is refused, what
 * fires, and that several buses fire each planned time once.
 */
#include "support_scene.h"

#define SECOND_US INT64_C(1000000)

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
    events->count++;
    return 0;
}

/* Waits until the log has so many events. */
static void read_events(hf_bus *bus, struct events *events, size_t count)
{
    int64_t until_us = mono_us() + PATIENCE_MS * INT64_C(1000);
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

static void what_is_wrong_with_a_schedule_is_said(void **state)
{
    struct scene *scene = *state;
    hf_schedule schedule = schedule_of("s", "0 25 * * *");
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("hour \"25\" at byte 2 is out of range; the field takes 0 to 23");
    schedule = schedule_of("s", "0 0 30 2 *");
    assert_status(hf_schedule_put(scene->bus, &schedule, NULL), HF_INVALID);
    assert_said("never comes true");
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
    assert_status(hf_schedule_get(scene->bus, "s", note, NULL), HF_NOTFOUND);
}

static void putting_the_same_again_changes_nothing(void **state)
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
    assert_ok(hf_schedule_run(scene->bus, "a", &receipt));
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
        assert_int_equal(events.emitted_at_us[i],
                         events.emitted_at_us[0] + (int64_t)i * SECOND_US);
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

/* ---- Later ----------------------------------------------------------------------------------- */

static void events_for_later_enter_in_the_order_of_their_times(void **state)
{
    struct scene *scene = *state;
    static const char *const types[] = {"third", "first", "second"};
    static const int64_t delays_ms[] = {900, 300, 600};
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
    /* Only now: on a slow machine the first one could be due before the last is published. */
    assert_ok(hf_start(scene->bus));
    read_events(scene->bus, &events, 3);
    assert_true(mono_us() - begun_us >= 890000);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_schedule_is_kept_as_it_was_put),
        scene_test(what_is_wrong_with_a_schedule_is_said),
        scene_test(putting_the_same_again_changes_nothing),
        scene_test(schedules_are_paused_run_by_hand_and_removed),
        scene_test(three_buses_fire_each_planned_time_once),
        scene_test(a_stopped_bus_fires_nothing_and_a_started_one_catches_up),
        scene_test(events_for_later_enter_in_the_order_of_their_times),
        scene_test(events_for_later_are_refused_where_they_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
