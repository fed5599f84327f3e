/*
 * Tests of schedules with several processes that all fire, and are killed while they do: every
 * planned time is published once, and none is left out.
 *
 * Children are this program started again (support_actor.h). Each has a bus that is started and
 * writes "R name" to the scene's diary when it is. The schedule fires every second and makes up for
 * everything that was missed, so however slow the machine is, the log must show second after second
 * without a hole.
 */
#include "support_actor.h"

#include <signal.h>

#define SECOND_US INT64_C(1000000)
#define FIRERS_MAX 8
#define GRACE_MS 86400000

/* ---- Parts ----------------------------------------------------------------------------------- */

/* fire URL DIARY NAME: fires what is due until it is killed. */
static int fire(int argc, char **argv)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    if (argc < 3) {
        return 2;
    }
    options.node_name = argv[2];
    if (hf_open(argv[0], &options, &bus) != HF_OK || hf_start(bus) != HF_OK) {
        diary_write(argv[1], "E %s %s", argv[2], hf_errmsg());
        return 1;
    }
    diary_write(argv[1], "R %s", argv[2]);
    for (;;) {
        pause();
    }
}

/* ---- The parent's side ----------------------------------------------------------------------- */

/* What is in the log. */
struct seen_log {
    int64_t cursor;
    int64_t count;
    int64_t first_us; /* planned time of the first event, and of the last */
    int64_t last_us;
    int64_t holes; /* events that are not one second after the one before */
    char schedule_id[HF_ID_BYTES];
    int64_t strangers; /* events that no schedule has fired */
};

static int look_at(const hf_event *event, void *ctx)
{
    struct seen_log *seen = ctx;

    if (seen->count++ == 0) {
        seen->first_us = event->emitted_at_us;
    } else if (event->emitted_at_us != seen->last_us + SECOND_US) {
        seen->holes++;
    }
    if (!event->schedule_id || strcmp(event->schedule_id, seen->schedule_id) != 0) {
        seen->strangers++;
    }
    seen->last_us = event->emitted_at_us;
    return 0;
}

/* Waits for one event more than there were. */
static bool wait_for_more(hf_bus *bus, struct seen_log *seen)
{
    int64_t until_us = mono_us() + DEADLINE_MS * INT64_C(1000);
    int64_t before = seen->count;

    while (seen->count == before && mono_us() < until_us) {
        if (hf_read(bus, NULL, 100, 100, &seen->cursor, look_at, seen) != HF_OK) {
            return false;
        }
    }
    return seen->count > before;
}

struct firers {
    pid_t pids[FIRERS_MAX];
    int started; /* ever */
    char diary[512];
};

static struct firers firers;

static int kill_all(void **state)
{
    for (int i = 0; i < FIRERS_MAX; i++) {
        actor_kill(firers.pids[i]);
        firers.pids[i] = 0;
    }
    return scene_teardown(state);
}

/* Starts one in this place; it need not be ready yet. */
static void start_firer(struct scene *scene, int place)
{
    char name[32];

    snprintf(name, sizeof name, "firer-%d", ++firers.started);
    firers.pids[place] = actor_start("fire", scene->url, firers.diary, name, NULL);
}

static int note_id(const hf_schedule_info *info, void *ctx)
{
    struct seen_log *seen = ctx;

    snprintf(seen->schedule_id, sizeof seen->schedule_id, "%s", info->id);
    seen->first_us = info->next_at_us;
    return 0;
}

/* So many processes fire; whenever something has been fired one of them is killed, and another
 * takes its place. At last all are killed, and one comes to make up for what was missed. */
static void fire_and_kill(struct scene *scene, int count)
{
    static struct seen_log seen;
    hf_schedule schedule = HF_SCHEDULE_INIT;

    memset(&seen, 0, sizeof seen);
    memset(&firers, 0, sizeof firers);
    snprintf(firers.diary, sizeof firers.diary, "%s", scene_file(scene, "diary"));
    schedule.name = "s";
    schedule.expression = "* * * * * *";
    schedule.type = "tick";
    schedule.misfire = HF_MISFIRE_ALL;
    schedule.grace_ms = GRACE_MS;
    assert_ok(hf_schedule_put(scene->bus, &schedule, NULL));
    assert_ok(hf_schedule_get(scene->bus, "s", note_id, &seen));
    int64_t first_us = seen.first_us;
    for (int i = 0; i < count; i++) {
        start_firer(scene, i);
    }
    assert_true(diary_wait(firers.diary, "R ", (size_t)count));
    for (int i = 0; i < count; i++) {
        assert_true(wait_for_more(scene->bus, &seen));
        actor_kill(firers.pids[i]);
        start_firer(scene, i);
    }
    assert_true(diary_wait(firers.diary, "R ", (size_t)count * 2));
    for (int i = 0; i < count; i++) {
        actor_kill(firers.pids[i]);
        firers.pids[i] = 0;
    }
    int64_t killed_us = wall_us();
    start_firer(scene, 0);
    while (seen.last_us < killed_us + 2 * SECOND_US) {
        assert_true(wait_for_more(scene->bus, &seen));
    }
    assert_int_equal(seen.first_us, first_us);
    assert_int_equal(seen.holes, 0);
    assert_int_equal(seen.strangers, 0);
    assert_int_equal(seen.count, (seen.last_us - seen.first_us) / SECOND_US + 1);
    assert_int_equal(diary_count(firers.diary, "E "), 0);
}

static void two_processes_that_are_killed_fire_each_planned_time_once(void **state)
{
    fire_and_kill(*state, 2);
}

static void eight_processes_that_are_killed_fire_each_planned_time_once(void **state)
{
    fire_and_kill(*state, FIRERS_MAX);
}

static const struct part parts[] = {{"fire", fire}};

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(two_processes_that_are_killed_fire_each_planned_time_once,
                                    scene_setup, kill_all),
    cmocka_unit_test_setup_teardown(eight_processes_that_are_killed_fire_each_planned_time_once,
                                    scene_setup, kill_all),
};

ACTOR_MAIN(tests, parts)
