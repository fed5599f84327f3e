/* Unit tests of base/misfire: each policy by example, and random outages against a plain list of
 * all planned times. */
#include "base/time/misfire.h"
#include "base/time/time.h"
#include "instant.h"
#include "unit.h"

#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define GRACE_US MINUTE_US

/* What a schedule in Berlin does. */
static struct firing plan(const char *expression, struct misfire misfire, const char *next,
                          const char *now)
{
    struct zone *zone = zone_of("Europe/Berlin");
    struct firing firing;
    struct cron cron;

    assert_ok(cron_parse(text_of(expression), &cron));
    misfire_plan(&cron, zone, &misfire, instant_us(next), instant_us(now), &firing);
    zone_free(zone);
    return firing;
}

static const struct misfire skip = {MISFIRE_SKIP, 0, GRACE_US, MISFIRE_TIMES_MAX};
static const struct misfire once = {MISFIRE_ONCE, 0, GRACE_US, MISFIRE_TIMES_MAX};
static const struct misfire all3 = {MISFIRE_ALL, 3, GRACE_US, MISFIRE_TIMES_MAX};

static void assert_fired(const struct firing *firing, size_t count, const char *first,
                         const char *next)
{
    assert_int_equal(firing->count, count);
    if (count > 0) {
        assert_int_equal(firing->times_us[0], instant_us(first));
    }
    assert_int_equal(firing->next_us, instant_us(next));
}

static void assert_skipped(const struct firing *firing, const char *first, const char *last)
{
    assert_int_equal(firing->skipped_first_us, first ? instant_us(first) : -1);
    assert_int_equal(firing->skipped_last_us, last ? instant_us(last) : -1);
}

static void before_its_time_a_schedule_does_not_fire(void **state)
{
    struct firing firing =
        plan("0 * * * *", once, "2026-01-01T10:00:00Z", "2026-01-01T09:59:59.9Z");

    (void)state;
    assert_fired(&firing, 0, NULL, "2026-01-01T10:00:00Z");
    assert_skipped(&firing, NULL, NULL);
}

static void on_time_a_schedule_fires_once_under_every_policy(void **state)
{
    static const struct misfire *const policies[] = {&skip, &once, &all3};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct firing firing =
            plan("0 * * * *", *policies[i], "2026-01-01T10:00:00Z", "2026-01-01T10:00:00.02Z");

        assert_fired(&firing, 1, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
        assert_skipped(&firing, NULL, NULL);
        /* A minute late is still on time. */
        firing = plan("0 * * * *", *policies[i], "2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z");
        assert_fired(&firing, 1, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
    }
}

static void without_grace_a_time_fires_until_its_second_is_over(void **state)
{
    static const enum misfire_policy policies[] = {MISFIRE_SKIP, MISFIRE_ONCE, MISFIRE_ALL};
    static const int64_t graces_us[] = {0, 1, SECOND_US / 2, SECOND_US - 1};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(policies) * COUNT_OF(graces_us); i++) {
        struct misfire misfire = {policies[i % COUNT_OF(policies)], 3,
                                  graces_us[i / COUNT_OF(policies)], MISFIRE_TIMES_MAX};
        struct firing firing =
            plan("0 * * * *", misfire, "2026-01-01T10:00:00Z", "2026-01-01T10:00:00.000001Z");
        assert_fired(&firing, 1, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
        assert_skipped(&firing, NULL, NULL);
        firing = plan("0 * * * *", misfire, "2026-01-01T10:00:00Z", "2026-01-01T10:00:00.999999Z");
        assert_fired(&firing, 1, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
        assert_skipped(&firing, NULL, NULL);
    }
    struct misfire none = {MISFIRE_SKIP, 0, 0, MISFIRE_TIMES_MAX};
    struct firing firing = plan("0 * * * *", none, "2026-01-01T10:00:00Z", "2026-01-01T10:00:01Z");
    assert_fired(&firing, 0, NULL, "2026-01-01T11:00:00Z");
    assert_skipped(&firing, "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z");
}

static void after_an_outage_skip_fires_nothing(void **state)
{
    struct firing firing = plan("0 * * * *", skip, "2026-01-01T10:00:00Z", "2026-01-01T14:30:00Z");

    (void)state;
    assert_fired(&firing, 0, NULL, "2026-01-01T15:00:00Z");
    assert_skipped(&firing, "2026-01-01T10:00:00Z", "2026-01-01T14:00:00Z");
}

static void after_an_outage_once_fires_the_latest(void **state)
{
    struct firing firing = plan("0 * * * *", once, "2026-01-01T10:00:00Z", "2026-01-01T14:30:00Z");

    (void)state;
    assert_fired(&firing, 1, "2026-01-01T14:00:00Z", "2026-01-01T15:00:00Z");
    assert_skipped(&firing, "2026-01-01T10:00:00Z", "2026-01-01T13:00:00Z");
    firing = plan("0 * * * *", once, "2026-01-01T14:00:00Z", "2026-01-01T14:30:00Z");
    assert_fired(&firing, 1, "2026-01-01T14:00:00Z", "2026-01-01T15:00:00Z");
    assert_skipped(&firing, NULL, NULL);
}

static void after_an_outage_all_fires_up_to_its_cap(void **state)
{
    struct firing firing = plan("0 * * * *", all3, "2026-01-01T10:00:00Z", "2026-01-01T14:30:00Z");

    (void)state;
    assert_fired(&firing, 3, "2026-01-01T12:00:00Z", "2026-01-01T15:00:00Z");
    assert_skipped(&firing, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
    firing = plan("0 * * * *", all3, "2026-01-01T12:00:00Z", "2026-01-01T14:30:00Z");
    assert_fired(&firing, 3, "2026-01-01T12:00:00Z", "2026-01-01T15:00:00Z");
    assert_skipped(&firing, NULL, NULL);
}

static void a_time_on_time_fires_beside_a_missed_one(void **state)
{
    struct firing firing = plan("0 * * * *", once, "2026-01-01T10:00:00Z", "2026-01-01T14:00:30Z");

    (void)state;
    assert_fired(&firing, 2, "2026-01-01T13:00:00Z", "2026-01-01T15:00:00Z");
    assert_skipped(&firing, "2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z");
}

static void a_year_of_seconds_is_decided_at_once(void **state)
{
    struct firing firing =
        plan("* * * * * *", skip, "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z");

    (void)state;
    /* 61 seconds are on time. */
    assert_fired(&firing, 61, "2025-12-31T23:59:00Z", "2026-01-01T00:00:01Z");
    assert_skipped(&firing, "2025-01-01T00:00:00Z", "2025-12-31T23:58:59Z");
}

static void missed_times_that_do_not_fit_come_with_the_next_firing(void **state)
{
    struct misfire many = {MISFIRE_ALL, MISFIRE_CAP_MAX, 0, MISFIRE_TIMES_MAX};
    struct misfire few = {MISFIRE_ALL, 50, 0, 2};
    const char *now = "2026-01-01T12:00:00Z";
    struct firing firing = plan("* * * * *", many, "2026-01-01T00:00:00Z", now);

    (void)state;
    assert_fired(&firing, 100, "2026-01-01T00:00:00Z", "2026-01-01T01:40:00Z");
    firing = plan("* * * * *", many, "2026-01-01T01:40:00Z", now);
    assert_fired(&firing, 100, "2026-01-01T01:40:00Z", "2026-01-01T03:20:00Z");
    assert_skipped(&firing, NULL, NULL);
    firing = plan("* * * * *", few, "2026-01-01T00:00:00Z", now);
    assert_fired(&firing, 2, "2026-01-01T11:10:00Z", "2026-01-01T11:12:00Z");
    assert_skipped(&firing, "2026-01-01T00:00:00Z", "2026-01-01T11:09:00Z");
    firing = plan("* * * * *", few, "2026-01-01T11:12:00Z", now);
    assert_fired(&firing, 2, "2026-01-01T11:12:00Z", "2026-01-01T11:14:00Z");
    assert_skipped(&firing, NULL, NULL);
}

static void a_time_that_is_planned_no_longer_fires_all_the_same(void **state)
{
    /* It waits for half past, but the expression (or the zone's rule) says something else now. */
    struct firing firing = plan("0 * * * *", once, "2026-01-01T10:30:00Z", "2026-01-01T10:30:01Z");

    (void)state;
    assert_fired(&firing, 1, "2026-01-01T10:30:00Z", "2026-01-01T11:00:00Z");
    firing = plan("0 * * * *", all3, "2026-01-01T10:30:00Z", "2026-01-01T12:30:00Z");
    assert_fired(&firing, 3, "2026-01-01T10:30:00Z", "2026-01-01T13:00:00Z");
}

static void the_last_time_of_all_is_followed_by_none(void **state)
{
    struct firing firing = plan("0 0 1 6 *", skip, "9998-05-31T22:00:00Z", "9998-05-31T22:00:01Z");

    (void)state;
    assert_int_equal(firing.count, 1);
    assert_int_equal(firing.next_us, -1);
    firing = plan("0 0 1 6 *", skip, "9998-05-31T22:00:00Z", "9998-07-01T00:00:00Z");
    assert_int_equal(firing.count, 0);
    assert_int_equal(firing.next_us, -1);
    assert_skipped(&firing, "9998-05-31T22:00:00Z", "9998-05-31T22:00:00Z");
}

/* --- Against a plain list --- */

#define LIST_MAX 4000

struct list {
    int64_t times_us[LIST_MAX];
    size_t count; /* up to now, and one after it */
};

static void list_times(struct list *list, const struct cron *cron, const struct zone *zone,
                       int64_t next_us, int64_t now_us)
{
    list->count = 0;
    list->times_us[list->count++] = next_us;
    while (list->times_us[list->count - 1] <= now_us) {
        assert_true(list->count < LIST_MAX);
        assert_true(timetable_next(cron, zone, list->times_us[list->count - 1],
                                   &list->times_us[list->count]));
        list->count++;
    }
}

static void assert_as_listed(const struct list *list, const struct misfire *misfire, int64_t now_us,
                             const struct firing *firing)
{
    size_t due = list->count - 1, missed = 0;

    int64_t on_time_us = misfire->grace_us > 0 ? misfire->grace_us : SECOND_US - 1;
    while (missed < due && list->times_us[missed] < now_us - on_time_us) {
        missed++;
    }

    size_t kept = misfire->policy == MISFIRE_SKIP   ? 0
                  : misfire->policy == MISFIRE_ONCE ? 1
                                                    : (size_t)misfire->cap;
    size_t skipped = missed > kept ? missed - kept : 0;
    size_t fired = due - skipped > misfire->times_max ? misfire->times_max : due - skipped;

    assert_int_equal(firing->count, fired);
    for (size_t i = 0; i < fired; i++) {
        assert_int_equal(firing->times_us[i], list->times_us[skipped + i]);
    }
    assert_int_equal(firing->next_us, list->times_us[skipped + fired]);
    assert_int_equal(firing->skipped_first_us, skipped ? list->times_us[0] : -1);
    assert_int_equal(firing->skipped_last_us, skipped ? list->times_us[skipped - 1] : -1);
}

static void random_outages_agree_with_a_list_of_all_times(void **state)
{
    static const char *const expressions[] = {
        "*/7 * * * *", "30 2 * * *", "15 */3 * * MON-FRI", "*/20 1-3 * * *", "0 0 1,15 * *",
    };
    struct zone *zone = zone_of("Europe/Berlin");
    uint64_t seed = 11;
    static struct list list;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct misfire misfire = {
            .policy = (enum misfire_policy)(1 + chance_below(&seed, 3)),
            .cap = 1 + (int32_t)chance_below(&seed, 12),
            .grace_us = (int64_t)chance_below(&seed, 4) * 20 * MINUTE_US,
            .times_max = 1 + chance_below(&seed, MISFIRE_TIMES_MAX),
        };
        struct cron cron;
        struct firing firing;
        /* 2026, around the changes of the clocks and elsewhere; outages of up to two weeks. */
        int64_t from_us =
            instant_us("2026-03-20") + (int64_t)chance_below(&seed, 230) * 1440 * MINUTE_US;
        int64_t now_us = from_us + (int64_t)(chance_below(&seed, 20160) * 60) * SECOND_US;
        int64_t next_us;

        assert_ok(cron_parse(text_of(expressions[(size_t)i % COUNT_OF(expressions)]), &cron));
        assert_true(timetable_next(&cron, zone, from_us, &next_us));
        list_times(&list, &cron, zone, next_us, now_us);
        misfire_plan(&cron, zone, &misfire, next_us, now_us, &firing);
        assert_as_listed(&list, &misfire, now_us, &firing);
    }
    zone_free(zone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_its_time_a_schedule_does_not_fire),
        cmocka_unit_test(on_time_a_schedule_fires_once_under_every_policy),
        cmocka_unit_test(without_grace_a_time_fires_until_its_second_is_over),
        cmocka_unit_test(after_an_outage_skip_fires_nothing),
        cmocka_unit_test(after_an_outage_once_fires_the_latest),
        cmocka_unit_test(after_an_outage_all_fires_up_to_its_cap),
        cmocka_unit_test(a_time_on_time_fires_beside_a_missed_one),
        cmocka_unit_test(a_year_of_seconds_is_decided_at_once),
        cmocka_unit_test(missed_times_that_do_not_fit_come_with_the_next_firing),
        cmocka_unit_test(a_time_that_is_planned_no_longer_fires_all_the_same),
        cmocka_unit_test(the_last_time_of_all_is_followed_by_none),
        cmocka_unit_test(random_outages_agree_with_a_list_of_all_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
