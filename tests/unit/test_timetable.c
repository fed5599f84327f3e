/* Unit tests of base/timetable: what happens when clocks are changed, and random expressions in
 * odd zones against a plain walk through every minute or second. */
#include "base/mem.h"
#include "base/time/time.h"
#include "base/time/timetable.h"
#include "expression.h"
#include "instant.h"
#include "unit.h"
#include "wall.h"

#define SECOND_US INT64_C(1000000)

static struct cron cron_of(const char *text)
{
    struct cron cron;

    if (cron_parse(text_of(text), &cron) != HF_OK) {
        fail_msg("\"%s\": %s", text, err_message());
    }
    return cron;
}

#define TIMES_MAX 8

/* The times that follow `after` are these; and back again. */
static void assert_times(const char *expression, const char *zone_name, const char *after,
                         const char *const times[TIMES_MAX])
{
    struct cron cron = cron_of(expression);
    struct zone *zone = zone_of(zone_name);
    int64_t at_us = instant_us(after), back_us;

    for (size_t i = 0; i < TIMES_MAX && times[i]; i++) {
        char out[TIME_TEXT_BYTES];

        assert_true(timetable_next(&cron, zone, at_us, &at_us));
        time_format(at_us, out);
        if (at_us != instant_us(times[i])) {
            fail_msg("\"%s\" in %s, time %zu: %s, not %s", expression, zone_name, i + 1, out,
                     times[i]);
        }
        if (i > 0) {
            assert_true(timetable_previous(&cron, zone, at_us, &back_us));
            assert_int_equal(back_us, instant_us(times[i - 1]));
        }
        assert_true(timetable_previous(&cron, zone, at_us + 1, &back_us));
        assert_int_equal(back_us, at_us);
    }
    zone_free(zone);
}

#define TIMES(...) ((const char *const[TIMES_MAX]){__VA_ARGS__})

static void a_fixed_time_that_is_skipped_runs_when_the_clocks_jump(void **state)
{
    (void)state;
    assert_times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
                 TIMES("2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"));
    assert_times("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
                 TIMES("2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"));
    /* Half an hour, at two o'clock in the south. */
    assert_times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
                 TIMES("2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"));
    /* At midnight: the day begins at one o'clock. */
    assert_times("@daily", "America/Santiago", "2026-09-05T12:00:00Z",
                 TIMES("2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"));
}

static void a_period_takes_no_notice_of_clocks(void **state)
{
    (void)state;
    assert_times("@every 40m", "Europe/Berlin", "2026-03-29T00:10:00Z",
                 TIMES("2026-03-29T00:40:00Z", "2026-03-29T01:20:00Z", "2026-03-29T02:00:00Z"));
    assert_times("@every 12h", "Asia/Kathmandu", "2026-10-24T23:00:00Z",
                 TIMES("2026-10-25T00:00:00Z", "2026-10-25T12:00:00Z"));
}

static void several_skipped_times_run_once(void **state)
{
    (void)state;
    assert_times("*/10 2 * * *", "Europe/Berlin", "2026-03-28T01:45:00Z",
                 TIMES("2026-03-28T01:50:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"));
    /* Three of a list; 03:00 is the moment of the jump itself. */
    assert_times("0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
                 TIMES("2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"));
}

static void a_skipped_day_runs_once_when_the_next_begins(void **state)
{
    (void)state;
    /* Samoa went over the date line: no 30 December 2011. */
    assert_times("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z",
                 TIMES("2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"));
    assert_times("15 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z",
                 TIMES("2011-12-30T09:15:00Z", "2011-12-30T10:15:00Z"));
}

static void a_fixed_time_that_comes_twice_runs_the_first_time(void **state)
{
    (void)state;
    assert_times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
                 TIMES("2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"));
    /* Also when asked between the two. */
    assert_times("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z",
                 TIMES("2026-10-26T01:30:00Z"));
    assert_times("30 1 * * *", "America/St_Johns", "2026-10-31T12:00:00Z",
                 TIMES("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"));
    assert_times("*/30 2,3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
                 TIMES("2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z",
                       "2026-10-25T02:30:00Z", "2026-10-26T01:00:00Z"));
}

static void every_hour_is_every_real_hour(void **state)
{
    (void)state;
    assert_times("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
                 TIMES("2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"));
    assert_times("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
                 TIMES("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"));
    /* In a step the hour that comes twice runs twice, and one that is skipped does not run. */
    assert_times("0 */2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z",
                 TIMES("2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T03:00:00Z"));
    assert_times("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z",
                 TIMES("2026-03-29T02:00:00Z", "2026-03-29T04:00:00Z"));
    /* Half an hour: the minutes 30 to 59 come twice. */
    assert_times("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z",
                 TIMES("2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"));
}

static void odd_offsets_are_kept(void **state)
{
    (void)state;
    assert_times("0 9 * * MON", "Asia/Kathmandu", "2026-11-15T00:00:00Z",
                 TIMES("2026-11-16T03:15:00Z", "2026-11-23T03:15:00Z"));
    assert_times("0 0 * * *", "America/St_Johns", "2026-01-01T12:00:00Z",
                 TIMES("2026-01-02T03:30:00Z"));
    /* Ramadan of 2026: the clocks are put back in February and forward in March. */
    assert_times("30 2 22 3 *", "Africa/Casablanca", "2026-01-01T00:00:00Z",
                 TIMES("2026-03-22T02:00:00Z"));
}

static void rare_dates_are_found_far_away(void **state)
{
    (void)state;
    assert_times("30 2 29 2 *", "Europe/Berlin", "2096-03-01T00:00:00Z",
                 TIMES("2104-02-29T01:30:00Z", "2108-02-29T01:30:00Z"));
    assert_times("0 */12 29 2 *", "Europe/Berlin", "2096-03-01T00:00:00Z",
                 TIMES("2104-02-28T23:00:00Z", "2104-02-29T11:00:00Z", "2108-02-28T23:00:00Z"));
    /* 29 February on a Sunday, and 40 years. */
    assert_times("0 */12 29 2 */7", "Europe/Berlin", "2088-03-01T00:00:00Z",
                 TIMES("2128-02-28T23:00:00Z", "2128-02-29T11:00:00Z"));
}

static void the_ends_of_time_are_answered(void **state)
{
    struct zone *zone = zone_of("Europe/Berlin");
    struct cron fixed = cron_of("0 0 1 1 *"), running = cron_of("0 * * * *");
    int64_t at_us = 77;

    (void)state;
    assert_false(timetable_next(&fixed, zone, INT64_MAX, &at_us));
    assert_false(timetable_next(&running, zone, INT64_MAX, &at_us));
    assert_false(timetable_next(&fixed, zone, TIME_US_MAX, &at_us));
    assert_false(timetable_next(&running, zone, instant_us("9998-12-31T23:30:00Z"), &at_us));
    assert_false(timetable_previous(&fixed, zone, INT64_MIN, &at_us));
    assert_false(timetable_previous(&running, zone, INT64_MIN, &at_us));
    assert_false(timetable_previous(&running, zone, TIME_US_MIN, &at_us));
    assert_int_equal(at_us, 77);
    assert_true(timetable_next(&fixed, zone, INT64_MIN, &at_us));
    assert_true(timetable_next(&running, zone, INT64_MIN, &at_us));
    assert_true(timetable_previous(&fixed, zone, INT64_MAX, &at_us));
    assert_true(timetable_previous(&running, zone, INT64_MAX, &at_us));
    zone_free(zone);
}

static void answers_lie_strictly_after_and_strictly_before(void **state)
{
    struct zone *zone = zone_of("UTC");
    struct cron cron = cron_of("* * * * * *");
    int64_t at_us;

    (void)state;
    for (int64_t second = -2; second <= 2; second++) {
        int64_t us = second * SECOND_US;

        assert_true(timetable_next(&cron, zone, us, &at_us));
        assert_int_equal(at_us, us + SECOND_US);
        assert_true(timetable_next(&cron, zone, us - 1, &at_us));
        assert_int_equal(at_us, us);
        assert_true(timetable_next(&cron, zone, us + 1, &at_us));
        assert_int_equal(at_us, us + SECOND_US);
        assert_true(timetable_previous(&cron, zone, us, &at_us));
        assert_int_equal(at_us, us - SECOND_US);
        assert_true(timetable_previous(&cron, zone, us + 1, &at_us));
        assert_int_equal(at_us, us);
        assert_true(timetable_previous(&cron, zone, us - 1, &at_us));
        assert_int_equal(at_us, us - SECOND_US);
    }
    zone_free(zone);
}

/* --- Against a plain walk --- */

/*
 * A walk looks at one instant after the other, `step_s` apart, by the C library alone. Real hours:
 * it is a time if what the clocks show matches. Fixed hours: it is a time if any of the wall times
 * that are shown or passed now for the first time matches. Before it begins to count it walks long
 * enough to know what the clocks have shown already.
 */
#define WALK_POINTS_MAX 8000
#define WALK_WARM_S (54 * 3600)

struct walk {
    const char *zone;
    int64_t begin_s;
    int64_t end_s;
    int64_t step_s;
    size_t count;
    struct wall *points; /* from WALK_WARM_S before begin_s */
};

static void walk_begin(struct walk *walk)
{
    wall_set_zone(walk->zone);
    walk->count = 0;
    for (int64_t at_s = walk->begin_s - WALK_WARM_S; at_s <= walk->end_s;
         at_s += at_s < walk->begin_s - 60 ? 60 : walk->step_s) {
        assert_true(walk->count < WALK_POINTS_MAX);
        walk->points[walk->count++] = wall_at(at_s);
    }
}

static bool passes_match(const struct expression *expression, int64_t above_s,
                         const struct wall *wall, int64_t step_s)
{
    for (int64_t wall_s = above_s + step_s; wall_s < wall->wall_s; wall_s += step_s) {
        struct wall passed = wall_parts(wall_s);

        if (expression_matches(expression, &passed)) {
            return true;
        }
    }
    return wall->wall_s > above_s && expression_matches(expression, wall);
}

static size_t walk_times(const struct walk *walk, const struct expression *expression,
                         int64_t *ret_times)
{
    int64_t highest_s = INT64_MIN;
    size_t count = 0;

    for (size_t i = 0; i < walk->count; i++) {
        const struct wall *wall = &walk->points[i];
        int64_t at_s = wall->wall_s - wall->offset_s;

        if (at_s >= walk->begin_s &&
            (expression->hours_run ? expression_matches(expression, wall)
                                   : passes_match(expression, highest_s, wall, walk->step_s))) {
            ret_times[count++] = at_s;
        }
        if (wall->wall_s > highest_s) {
            highest_s = wall->wall_s;
        }
    }
    return count;
}

static void compare_walk(const struct walk *walk, const struct zone *zone,
                         const struct expression *expression, uint64_t seed)
{
    static int64_t times[WALK_POINTS_MAX];
    struct cron cron = cron_of(expression->text);
    size_t count = walk_times(walk, expression, times), i = 0;
    int64_t at_us = walk->begin_s * SECOND_US - 1;

    while (timetable_next(&cron, zone, at_us, &at_us) && at_us <= walk->end_s * SECOND_US) {
        if (i >= count || at_us != times[i] * SECOND_US) {
            fail_msg("seed %" PRIu64 ", \"%s\" in %s: %" PRId64 " after %zu times, not %" PRId64,
                     seed, expression->text, walk->zone, at_us / SECOND_US, i,
                     i < count ? times[i] : -1);
        }
        i++;
    }
    if (i < count) {
        fail_msg("seed %" PRIu64 ", \"%s\" in %s: %" PRId64 " is missing", seed, expression->text,
                 walk->zone, times[i]);
    }
    at_us = walk->end_s * SECOND_US + 1;
    while (timetable_previous(&cron, zone, at_us, &at_us) && at_us >= walk->begin_s * SECOND_US) {
        if (i == 0 || at_us != times[i - 1] * SECOND_US) {
            fail_msg("seed %" PRIu64 ", \"%s\" in %s, back: %" PRId64, seed, expression->text,
                     walk->zone, at_us / SECOND_US);
        }
        i--;
    }
    assert_int_equal(i, 0);
}

static const char *const walked_zones[] = {
    "UTC",
    "Europe/Berlin",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Africa/Casablanca",
    "America/Santiago",
    "Antarctica/Troll",
    "Pacific/Apia",
    "Europe/Dublin",
    "America/Nuuk",
    "Asia/Gaza",
    "Asia/Tehran",
    "America/Sao_Paulo",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
    "America/New_York",
    "Asia/Pyongyang",
    "America/Caracas",
    "Africa/Cairo",
};

/* An instant near a change of the clocks, if there is one in the ten years after `from_s`. */
static int64_t near_change(const struct zone *zone, int64_t from_s, uint64_t *seed)
{
    for (int i = 0; i < 5; i++) {
        struct zone_span span = zone_span(zone, from_s);

        if (span.end_s > from_s + INT64_C(315360000)) {
            break;
        }
        from_s = span.end_s;
        if (chance_below(seed, 3) == 0) {
            break;
        }
    }
    return from_s - from_s % 60;
}

static void walk_windows(int windows, int64_t step_s, int64_t around_s, uint64_t seed)
{
    struct walk walk = {.step_s = step_s};

    walk.points = mem_calloc(WALK_POINTS_MAX, sizeof *walk.points);
    assert_non_null(walk.points);
    for (int i = 0; i < windows; i++) {
        uint64_t this_seed = seed;

        walk.zone = walked_zones[(size_t)i % COUNT_OF(walked_zones)];

        struct zone *zone = zone_of(walk.zone);
        /* 1973 to 2110: since then no offset has seconds, which a walk by minutes would miss. */
        int64_t from_s = 94694400 + (int64_t)chance_below(&seed, UINT64_C(4323456000));
        int64_t middle_s = near_change(zone, from_s, &seed);

        walk.begin_s = middle_s - around_s;
        walk.end_s = middle_s + around_s;
        walk_begin(&walk);
        for (int j = 0; j < 25; j++) {
            struct expression expression = expression_random(&seed, step_s == 1, true);
            struct cron ignored;

            if (cron_parse(text_of(expression.text), &ignored) == HF_OK) {
                compare_walk(&walk, zone, &expression, this_seed);
            }
        }
        zone_free(zone);
    }
    mem_free(walk.points);
}

static void random_expressions_agree_with_a_walk_by_minutes(void **state)
{
    (void)state;
    walk_windows(80, 60, 30 * 3600, 1);
}

static void random_expressions_with_seconds_agree_with_a_walk_by_seconds(void **state)
{
    (void)state;
    walk_windows(40, 1, 2000, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_time_that_is_skipped_runs_when_the_clocks_jump),
        cmocka_unit_test(a_period_takes_no_notice_of_clocks),
        cmocka_unit_test(several_skipped_times_run_once),
        cmocka_unit_test(a_skipped_day_runs_once_when_the_next_begins),
        cmocka_unit_test(a_fixed_time_that_comes_twice_runs_the_first_time),
        cmocka_unit_test(every_hour_is_every_real_hour),
        cmocka_unit_test(odd_offsets_are_kept),
        cmocka_unit_test(rare_dates_are_found_far_away),
        cmocka_unit_test(the_ends_of_time_are_answered),
        cmocka_unit_test(answers_lie_strictly_after_and_strictly_before),
        cmocka_unit_test(random_expressions_agree_with_a_walk_by_minutes),
        cmocka_unit_test(random_expressions_with_seconds_agree_with_a_walk_by_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
