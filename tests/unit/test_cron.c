/* Unit tests of base/cron: what is accepted, what is refused and how, and the search against a
 * plain look at every day and second. */
#include "base/time/cron.h"
#include "base/time/date.h"
#include "base/time/time.h"
#include "expression.h"
#include "unit.h"

static int64_t wall(const char *text)
{
    int64_t us;

    assert_ok(time_parse(text_of(text), &us));
    return us / 1000000;
}

static struct cron parsed(const char *text)
{
    struct cron cron;

    if (cron_parse(text_of(text), &cron) != HF_OK) {
        fail_msg("\"%s\": %s", text, err_message());
    }
    return cron;
}

static void assert_next(const char *expression, const char *from, const char *expected)
{
    struct cron cron = parsed(expression);
    char out[TIME_TEXT_BYTES];
    int64_t next_s;

    assert_true(cron_next(&cron, wall(from), &next_s));
    time_format(next_s * 1000000, out);
    if (wall(expected) != next_s) {
        fail_msg("\"%s\" after %s: %s, not %s", expression, from, out, expected);
    }
}

static void assert_previous(const char *expression, const char *from, const char *expected)
{
    struct cron cron = parsed(expression);
    char out[TIME_TEXT_BYTES];
    int64_t previous_s;

    assert_true(cron_previous(&cron, wall(from), &previous_s));
    time_format(previous_s * 1000000, out);
    if (wall(expected) != previous_s) {
        fail_msg("\"%s\" before %s: %s, not %s", expression, from, out, expected);
    }
}

static void known_expressions_have_known_next_times(void **state)
{
    static const struct {
        const char *expression;
        const char *from;
        const char *next;
    } table[] = {
        {"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
        {"* * * * *", "2026-01-01T00:00:01Z", "2026-01-01T00:01:00Z"},
        {"* * * * * *", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"},
        {"*/15 * * * *", "2026-01-01T00:46:00Z", "2026-01-01T01:00:00Z"},
        {"30 3 * * *", "2026-01-01T03:30:01Z", "2026-01-02T03:30:00Z"},
        {"59 59 23 31 12 *", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z"},
        {"0 0 * * MON", "2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"},
        {"0 0 * * 7", "2026-11-15T00:00:00Z", "2026-11-15T00:00:00Z"},
        {"0 0 * * 0", "2026-11-15T00:00:01Z", "2026-11-22T00:00:00Z"},
        {"0 0 31 * *", "2026-02-01T00:00:00Z", "2026-03-31T00:00:00Z"},
        {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        {"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
        {"0 9-17/4 * * 1-5", "2026-11-13T17:00:01Z", "2026-11-16T09:00:00Z"},
        {"5,10,55 1 * jan,jul *", "2026-01-31T01:56:00Z", "2026-07-01T01:05:00Z"},
        {"10/20 * * * *", "2026-01-01T00:31:00Z", "2026-01-01T00:50:00Z"},
        {"0 0 * * FRI-SUN", "2026-11-16T00:00:00Z", "2026-11-20T00:00:00Z"},
        {"  0\t0 1 1 ?  ", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"0 0 1 1 *", "9998-06-01T00:00:00Z", "9999-01-01T00:00:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_next(table[i].expression, table[i].from, table[i].next);
    }
}

static void previous_times_mirror_next_times(void **state)
{
    (void)state;
    assert_previous("* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:00:00Z");
    assert_previous("30 3 * * *", "2026-01-01T03:29:59Z", "2025-12-31T03:30:00Z");
    assert_previous("0 0 29 2 *", "2104-02-28T23:59:59Z", "2096-02-29T00:00:00Z");
    assert_previous("*/20 10,12 * * *", "2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z");
    assert_previous("*/20 10,12 * * *", "2026-01-01T11:59:00Z", "2026-01-01T10:40:00Z");
    assert_previous("0 0 1 1 *", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
    assert_previous("0 0 1 1 *", "1969-12-31T00:00:00Z", "1969-01-01T00:00:00Z");
}

static void nicknames_of_expressions_mean_the_same_as_their_fields(void **state)
{
    static const struct {
        const char *word;
        const char *fields;
    } table[] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"}, {" @Daily ", "0 0 * * *"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct cron word = parsed(table[i].word), fields = parsed(table[i].fields);

        assert_int_equal(word.minutes, fields.minutes);
        assert_int_equal(word.hours, fields.hours);
        assert_int_equal(word.days_of_month, fields.days_of_month);
        assert_int_equal(word.months, fields.months);
        assert_int_equal(word.days_of_week, fields.days_of_week);
        assert_int_equal(word.either_day, fields.either_day);
        assert_int_equal(word.hours_run, fields.hours_run);
    }
}

static void a_period_means_its_multiples_since_1970(void **state)
{
    (void)state;
    assert_next("@every 5m", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    assert_next("@every 5m", "2026-01-01T00:00:01Z", "2026-01-01T00:05:00Z");
    assert_next(" @Every\t1h30m ", "1970-01-01T00:00:01Z", "1970-01-01T01:30:00Z");
    assert_next("@every 7s", "1969-12-31T23:59:50Z", "1969-12-31T23:59:53Z");
    assert_next("@every 1s", "2026-01-01T00:00:07Z", "2026-01-01T00:00:07Z");
    assert_next("@every 365d", "1970-01-02T00:00:00Z", "1971-01-01T00:00:00Z");
    assert_previous("@every 7s", "1969-12-31T23:59:58Z", "1969-12-31T23:59:53Z");
    assert_previous("@every 1d", "2026-01-01T23:59:59Z", "2026-01-01T00:00:00Z");
    assert_int_equal(parsed("@every 1000ms").every_s, 1);
    assert_true(cron_matches(&(struct cron){.every_s = 60}, 120));
    assert_false(cron_matches(&(struct cron){.every_s = 60}, 121));
}

static void a_period_outside_its_limits_is_refused(void **state)
{
    static const struct {
        const char *expression;
        const char *said;
    } table[] = {
        {"@every", "is none of @yearly"},    {"@every 5", "is no period"},
        {"@every -5m", "is no period"},      {"@every 5m1h", "is no period"},
        {"@every 1.5h", "is no period"},     {"@every 0s", "from 1s to 365d"},
        {"@every 999ms", "from 1s to 365d"}, {"@every 1500ms", "whole seconds"},
        {"@every 366d", "from 1s to 365d"},  {"@every 5m 3m", "has 3 fields"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct cron cron = {.seconds = 7};

        assert_int_equal(cron_parse(text_of(table[i].expression), &cron), HF_INVALID);
        if (!strstr(err_message(), table[i].said)) {
            fail_msg("\"%s\": %s", table[i].expression, err_message());
        }
        assert_int_equal(cron.seconds, 7);
    }
}

static void two_restricted_day_fields_need_only_one_match(void **state)
{
    (void)state;
    /* Friday 13 November, the days before and after it, and the next Friday. */
    assert_next("0 0 13 * FRI", "2026-11-07T00:00:00Z", "2026-11-13T00:00:00Z");
    assert_next("0 0 13 * FRI", "2026-11-13T00:00:01Z", "2026-11-20T00:00:00Z");
    assert_next("0 0 13 * FRI", "2026-12-12T00:00:00Z", "2026-12-13T00:00:00Z");
    /* A star at the beginning does not restrict, even with a step: both must match. */
    assert_next("0 0 */2 * FRI", "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z");
    assert_next("0 0 13 * */5", "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z");
    assert_next("0 0 13 * */5", "2026-11-14T00:00:00Z", "2026-12-13T00:00:00Z");
    /* "1-31" restricts, though to everything. */
    assert_next("0 0 1-31 * FRI", "2026-11-14T00:00:00Z", "2026-11-14T00:00:00Z");
}

static void wrong_expressions_are_refused_with_field_place_and_range(void **state)
{
    static const struct {
        struct text expression;
        const char *reason;
    } table[] = {
        {{NULL, 0}, "has 0 fields; it takes 5"},
        {TEXT_LITERAL(""), "has 0 fields; it takes 5"},
        {TEXT_LITERAL("* * * *"), "has 4 fields"},
        {TEXT_LITERAL("0 0 0 1 1 ? 2026"), "has 7 fields"},
        {TEXT_LITERAL("60 * * * *"),
         "minute \"60\" at byte 0 is out of range; the field takes 0 to"},
        {TEXT_LITERAL("60 * * * * *"), "seconds \"60\" at byte 0 is out of range"},
        {TEXT_LITERAL("0 24 * * *"),
         "hour \"24\" at byte 2 is out of range; the field takes 0 to 23"},
        {TEXT_LITERAL("0 0 0 * *"), "day of month \"0\" at byte 4 is out of range"},
        {TEXT_LITERAL("0 0 32 * *"), "day of month \"32\" at byte 4"},
        {TEXT_LITERAL("0 0 1 13 *"), "month \"13\" at byte 6 is out of range"},
        {TEXT_LITERAL("0 0 1 0 *"), "month \"0\" at byte 6"},
        {TEXT_LITERAL("0 0 * * 8"),
         "day of week \"8\" at byte 8 is out of range; the field takes 0"},
        {TEXT_LITERAL("0 0 * * 99999999999999999999"), "is out of range"},
        {TEXT_LITERAL("0 0 * MON *"), "month \"MON\" at byte 6 is neither a number nor a name"},
        {TEXT_LITERAL("0 0 * * MONDAY"), "day of week \"MONDAY\""},
        {TEXT_LITERAL("MON * * * *"), "minute \"MON\" at byte 0 is not a number"},
        {TEXT_LITERAL("-5 * * * *"), "minute \"\" at byte 0 is empty"},
        {TEXT_LITERAL("5- * * * *"), "minute \"\" at byte 2 is empty"},
        {TEXT_LITERAL("1,,2 * * * *"), "minute \"\" at byte 2 is empty"},
        {TEXT_LITERAL("1, * * * *"), "minute \"\" at byte 2 is empty"},
        {TEXT_LITERAL("*5 * * * *"), "minute \"*5\" at byte 0 has something behind the star"},
        {TEXT_LITERAL("*-5 * * * *"), "has something behind the star"},
        {TEXT_LITERAL("? * * * *"), "minute \"?\" at byte 0 is not a number"},
        {TEXT_LITERAL("0 22-2 * * *"), "hour \"22-2\" at byte 2 runs backwards"},
        {TEXT_LITERAL("0 0 * * 6-0"), "day of week \"6-0\" at byte 8 runs backwards"},
        {TEXT_LITERAL("0 0 * DEC-JAN *"), "month \"DEC-JAN\" at byte 6 runs backwards"},
        {TEXT_LITERAL("*/0 * * * *"), "minute \"0\" at byte 2 is no step: it is from 1 to 60"},
        {TEXT_LITERAL("*/90 * * * *"), "minute \"90\" at byte 2 is no step: it is from 1 to 60"},
        {TEXT_LITERAL("*/ * * * *"), "minute \"\" at byte 2 is no step"},
        {TEXT_LITERAL("*/2/3 * * * *"), "minute \"2/3\" at byte 2 is no step"},
        {TEXT_LITERAL("1.5 * * * *"), "minute \"1.5\" at byte 0 is not a number"},
        {TEXT_LITERAL("0 0 L * *"), "day of month \"L\" at byte 4 is not supported: L, W and #"},
        {TEXT_LITERAL("0 0 15W * *"), "day of month \"15W\" at byte 4 is not supported"},
        {TEXT_LITERAL("0 0 * * 5#3"), "day of week \"5#3\" at byte 8 is not supported"},
        {TEXT_LITERAL("0 0 * * 5L"), "day of week \"5L\" at byte 8 is not supported"},
        {TEXT_LITERAL("H * * * *"), "minute \"H\" at byte 0 is not a number"},
        {TEXT_LITERAL("0 0 30 2 *"), "never fires"},
        {TEXT_LITERAL("0 0 31 4,6,9,11 *"), "never fires"},
        {TEXT_LITERAL("0 0 30-31 FEB ?"), "never fires"},
        {TEXT_LITERAL("@"), "\"@\" is none of @yearly"},
        {TEXT_LITERAL("@every"), "\"@every\" is none of"},
        {TEXT_LITERAL("@reboot"), "\"@reboot\" is none of"},
        {TEXT_LITERAL("* * * *\n*"), "the byte 0x0A at byte 7"},
        {TEXT_LITERAL("* * * * \0*"), "the byte 0x00 at byte 8"},
        {TEXT_LITERAL("\xC3\xA4 * * * *"), "the byte 0xC3 at byte 0"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct cron cron = {.seconds = 77};

        assert_int_equal(cron_parse(table[i].expression, &cron), HF_INVALID);
        assert_message(table[i].reason);
        assert_int_equal(cron.seconds, 77);
    }
}

static void an_expression_may_have_255_bytes(void **state)
{
    char text[CRON_BYTES_MAX + 2];
    struct cron cron;

    (void)state;
    memset(text, ' ', sizeof text);
    memcpy(text, "* * * * *", 9);
    assert_ok(cron_parse((struct text){text, CRON_BYTES_MAX}, &cron));
    assert_int_equal(cron_parse((struct text){text, CRON_BYTES_MAX + 1}, &cron), HF_INVALID);
    assert_message("is 256 bytes; the limit is 255");
}

static void a_day_that_only_some_months_have_is_possible(void **state)
{
    (void)state;
    assert_next("0 0 31 2,3 *", "2026-01-01T00:00:00Z", "2026-03-31T00:00:00Z");
    assert_next("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z");
    /* With a weekday beside it, 30 February is only one of two ways to match. */
    assert_next("0 0 30 2 MON", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z");
}

/* The argument of cron.c that no search is needed, and how long a wait can be. */
static void each_date_falls_on_each_weekday_within_40_years(void **state)
{
    (void)state;
    for (int32_t month = 1; month <= 12; month++) {
        for (int32_t day = 1; day <= date_days_in_month(2000, month); day++) {
            int32_t last[7] = {0};

            for (int32_t year = 1600; year <= 2440; year++) {
                if (day > date_days_in_month(year, month)) {
                    continue;
                }

                int32_t weekday = date_weekday(date_to_days((struct date){year, month, day}));

                assert_true(year < 1640 || last[weekday] > 0);
                assert_true(last[weekday] == 0 || year - last[weekday] <= 40);
                last[weekday] = year;
            }
        }
    }
    assert_next("0 0 29 2 */7", "2072-03-01T00:00:00Z", "2088-02-29T00:00:00Z");
}

static void nothing_is_found_beyond_the_year_9999(void **state)
{
    struct cron cron = parsed("0 0 1 1 *");
    int64_t found = 77;

    (void)state;
    assert_false(cron_next(&cron, wall("9999-01-01T00:00:01Z"), &found));
    assert_false(cron_previous(&cron, wall("0001-01-01T00:00:00Z") - 1, &found));
    assert_int_equal(found, 77);
}

/* Looks at each day, and at each second of the days that match. */
static int64_t plain_next(const struct expression *expression, int64_t from_s)
{
    for (int64_t day = from_s / 86400;; day++) {
        struct wall wall = wall_parts(day * 86400);

        if (!expression_matches_day(expression, &wall)) {
            continue;
        }
        for (int64_t second = day * 86400; second < (day + 1) * 86400; second++) {
            int of_day = (int)(second - day * 86400);

            wall.hour = of_day / 3600;
            wall.minute = of_day / 60 % 60;
            wall.second = of_day % 60;
            if (second >= from_s && expression_matches(expression, &wall)) {
                return second;
            }
        }
    }
}

static bool is_possible(const struct expression *expression)
{
    if (!expression->day_star && !expression->weekday_star) {
        return true;
    }
    for (int month = 1; month <= 12; month++) {
        for (int day = 1; day <= date_days_in_month(2000, month); day++) {
            if (expression->values[EXPRESSION_MONTH][month] &&
                expression->values[EXPRESSION_DAY][day]) {
                return true;
            }
        }
    }
    return false;
}

static void random_expressions_agree_with_a_plain_look_at_every_second(void **state)
{
    uint64_t seed = 5;
    int refused = 0;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        uint64_t this_seed = seed;
        struct expression expression = expression_random(&seed, i % 2, i % 3);
        int64_t from_s = (int64_t)chance_below(&seed, INT64_C(4100000000));
        int64_t next_s = 0, again_s = 0;
        struct cron cron;

        if (cron_parse(text_of(expression.text), &cron) != HF_OK) {
            if (is_possible(&expression)) {
                fail_msg("seed %" PRIu64 ", \"%s\": %s", this_seed, expression.text, err_message());
            }
            refused++;
            continue;
        }
        assert_true(is_possible(&expression));
        assert_int_equal(cron.hours_run, expression.hours_run);
        assert_true(cron_next(&cron, from_s, &next_s));

        int64_t expected_s = plain_next(&expression, from_s);

        if (next_s != expected_s) {
            fail_msg("seed %" PRIu64 ", \"%s\" after %" PRId64 ": %" PRId64 ", not %" PRId64,
                     this_seed, expression.text, from_s, next_s, expected_s);
        }
        assert_true(cron_matches(&cron, next_s));
        assert_true(next_s == from_s || !cron_matches(&cron, from_s));
        /* Looking back from before it, from it, and from just before the match after it. */
        assert_true(cron_previous(&cron, next_s, &again_s));
        assert_int_equal(again_s, next_s);
        assert_true(!cron_previous(&cron, next_s - 1, &again_s) || again_s < from_s);
        assert_true(cron_next(&cron, next_s + 1, &again_s));
        assert_true(cron_previous(&cron, again_s - 1, &again_s));
        assert_int_equal(again_s, next_s);
    }
    assert_true(refused < 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_expressions_have_known_next_times),
        cmocka_unit_test(previous_times_mirror_next_times),
        cmocka_unit_test(nicknames_of_expressions_mean_the_same_as_their_fields),
        cmocka_unit_test(a_period_means_its_multiples_since_1970),
        cmocka_unit_test(a_period_outside_its_limits_is_refused),
        cmocka_unit_test(two_restricted_day_fields_need_only_one_match),
        cmocka_unit_test(wrong_expressions_are_refused_with_field_place_and_range),
        cmocka_unit_test(an_expression_may_have_255_bytes),
        cmocka_unit_test(a_day_that_only_some_months_have_is_possible),
        cmocka_unit_test(each_date_falls_on_each_weekday_within_40_years),
        cmocka_unit_test(nothing_is_found_beyond_the_year_9999),
        cmocka_unit_test(random_expressions_agree_with_a_plain_look_at_every_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
