/*
 * test_large_schedules.c - schedules with large payloads, of which a page of the store holds only a
 * few: the list is whole nevertheless, and each of them fires once.
 */
#include "support_scene.h"
#include "support_tables.h"

#define SCHEDULES 14
#define PAYLOAD_BYTES 700000 /* several pages together */

static const char *name_of(int number)
{
    static char name[16];
    snprintf(name, sizeof name, "s%02d", number);
    return name;
}

static void put_all(struct scene *scene)
{
    static char payload[PAYLOAD_BYTES];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    for (int i = SCHEDULES - 1; i >= 0; i--) {
        hf_schedule schedule = HF_SCHEDULE_INIT;
        schedule.name = name_of(i);
        schedule.expression = "@yearly";
        schedule.type = name_of(i);
        schedule.payload = payload;
        schedule.payload_bytes = sizeof payload;
        schedule.grace_ms = 86400000;
        assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    }
}

/* ---- The list -------------------------------------------------------------------------------- */

struct listed {
    hf_bus *bus;
    int count;
    int wanted;   /* it has had enough then */
    bool removes; /* each that it is shown */
};

/* They come by name, from the first. */
static int list_one(const hf_schedule_info *info, void *ctx)
{
    struct listed *listed = ctx;
    assert_string_equal(info->schedule.name, name_of(listed->count));
    assert_int_equal(info->schedule.payload_bytes, PAYLOAD_BYTES);
    if (listed->removes) {
        assert_ok(hf_schedule_remove(listed->bus, info->schedule.name));
    }
    return ++listed->count == listed->wanted;
}

static void the_list_of_large_schedules_is_whole(void **state)
{
    struct scene *scene = *state;
    struct listed listed = {0};
    put_all(scene);
    assert_ok(hf_schedule_list(scene->bus, list_one, &listed));
    assert_int_equal(listed.count, SCHEDULES);
}

/* At the first, within a page, and with its last one. */
static void a_callback_that_has_had_enough_is_not_called_again(void **state)
{
    static const int wanted[] = {1, 5, 6, 7};
    struct scene *scene = *state;
    put_all(scene);
    for (size_t i = 0; i < COUNTED(wanted); i++) {
        struct listed listed = {.wanted = wanted[i]};
        assert_ok(hf_schedule_list(scene->bus, list_one, &listed));
        assert_int_equal(listed.count, wanted[i]);
    }
}

static void schedules_removed_during_a_listing_hide_no_others(void **state)
{
    struct scene *scene = *state;
    struct listed listed = {.bus = scene->bus, .removes = true};
    struct listed left = {0};
    put_all(scene);
    assert_ok(hf_schedule_list(scene->bus, list_one, &listed));
    assert_int_equal(listed.count, SCHEDULES);
    assert_ok(hf_schedule_list(scene->bus, list_one, &left));
    assert_int_equal(left.count, 0);
}

/* ---- Firing ---------------------------------------------------------------------------------- */

/* How often each type is in the log. */
struct fired {
    int64_t cursor;
    int times[SCHEDULES];
    int count;
};

static int note(const hf_event *event, void *ctx)
{
    struct fired *fired = ctx;
    for (int i = 0; i < SCHEDULES; i++) {
        fired->times[i] += strcmp(event->type, name_of(i)) == 0;
    }
    fired->count++;
    return 0;
}

/* All are due in the same microsecond, and two buses are there to fire them. */
static void large_schedules_that_are_due_together_fire_once_each(void **state)
{
    struct scene *scene = *state;
    hf_bus *other = scene_open(scene, NULL);
    struct fired fired = {0};
    put_all(scene);
    tables_run(scene, scene->path
                          ? "UPDATE holdfast_schedules SET next_at = strftime('%s') * 1000000"
                          : "UPDATE holdfast_private.schedules "
                            "SET next_at = date_trunc('second', clock_timestamp())");
    assert_ok(hf_start(scene->bus));
    assert_ok(hf_start(other));
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    while (fired.count < SCHEDULES) {
        assert_true(mono_us() < until_us);
        assert_ok(hf_read(scene->bus, NULL, 100, 100, &fired.cursor, note, &fired));
    }
    hf_stop(other, -1);
    hf_stop(scene->bus, -1);
    assert_ok(hf_read(scene->bus, NULL, 100, 0, &fired.cursor, note, &fired));
    for (int i = 0; i < SCHEDULES; i++) {
        assert_int_equal(fired.times[i], 1);
    }
}

static bool unknown_zone_was_logged(void *ctx)
{
    return scene_said(ctx, "No/Where");
}

/* They fill more than a page, and stay first in the line. */
static void large_schedules_that_cannot_be_read_delay_no_others(void **state)
{
    struct scene *scene = *state;
    struct fired fired = {0};
    put_all(scene);
    tables_run(scene,
               scene->path
                   ? "UPDATE holdfast_schedules SET next_at = (strftime('%s') - 9) * 1000000 + "
                     "(name = 's05'), zone = CASE name WHEN 's05' THEN zone ELSE 'No/Where' END"
                   : "UPDATE holdfast_private.schedules "
                     "SET next_at = date_trunc('second', clock_timestamp()) - interval '9 s' + "
                     "interval '1 us' * (name = 's05')::integer, "
                     "zone = CASE name WHEN 's05' THEN zone ELSE 'No/Where' END");
    assert_ok(hf_start(scene->bus));
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    while (fired.count < 1) {
        assert_true(mono_us() < until_us);
        assert_ok(hf_read(scene->bus, NULL, 100, 100, &fired.cursor, note, &fired));
    }
    assert_int_equal(fired.times[5], 1);
    assert_true(wait_until(unknown_zone_was_logged, scene)); /* after what can be read has fired */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(the_list_of_large_schedules_is_whole),
        scene_test(a_callback_that_has_had_enough_is_not_called_again),
        scene_test(schedules_removed_during_a_listing_hide_no_others),
        scene_test(large_schedules_that_are_due_together_fire_once_each),
        scene_test(large_schedules_that_cannot_be_read_delay_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
