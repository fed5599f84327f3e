/* Unit tests of base/time. */
#include "base/time/time.h"
#include "unit.h"

static void known_instants_are_formatted(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } table[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
        {INT64_C(1794714878123456), "2026-11-15T03:54:38.123456Z"},
        {INT64_C(951782400000000), "2000-02-29T00:00:00.000000Z"},
        {INT64_C(-2203891200000000), "1900-03-01T00:00:00.000000Z"},
        {INT64_C(4107542400000000), "2100-03-01T00:00:00.000000Z"},
        {TIME_US_MIN, "0001-01-01T00:00:00.000000Z"},
        {TIME_US_MAX, "9999-12-31T23:59:59.999999Z"},
        {INT64_MIN, "0001-01-01T00:00:00.000000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999999Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char out[TIME_TEXT_BYTES];

        time_format(table[i].us, out);
        assert_string_equal(out, table[i].text);
    }
}

static void accepted_forms_are_parsed(void **state)
{
    static const struct {
        const char *text;
        const char *same; /* in our own form */
    } table[] = {
        {"2026-11-15", "2026-11-15T00:00:00.000000Z"},
        {"2026-11-15T03:54:38Z", "2026-11-15T03:54:38.000000Z"},
        {"2026-11-15t03:54:38z", "2026-11-15T03:54:38.000000Z"},
        {"2026-11-15T03:54:38.1Z", "2026-11-15T03:54:38.100000Z"},
        {"2026-11-15T03:54:38.123456789Z", "2026-11-15T03:54:38.123456Z"},
        {"1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"},
        {"2026-11-15T03:54:38+05:30", "2026-11-14T22:24:38.000000Z"},
        {"2026-12-31T23:00:00-01:00", "2027-01-01T00:00:00.000000Z"},
        {"2026-11-15T03:54:38-00:00", "2026-11-15T03:54:38.000000Z"},
        {"2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"},
        {"2000-02-29", "2000-02-29T00:00:00.000000Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char out[TIME_TEXT_BYTES];
        int64_t us;

        assert_ok(time_parse(text_of(table[i].text), &us));
        time_format(us, out);
        assert_string_equal(out, table[i].same);
    }
}

static void anything_else_is_refused_and_the_result_untouched(void **state)
{
    static const char *const table[] = {
        "",
        "2026",
        "2026-11",
        "0000-01-01",
        "2026-00-01",
        "2026-13-01",
        "2026-11-00",
        "2026-11-31",
        "2025-02-29",
        "1900-02-29",
        "26-11-15",
        "2026-1-5",
        "2026/11/15",
        " 2026-11-15",
        "2026-11-15 ",
        "2026-11-15T",
        "2026-11-15 03:54:38Z",
        "2026-11-15T03:54Z",
        "2026-11-15T03:54:38",
        "2026-11-15T24:00:00Z",
        "2026-11-15T03:60:00Z",
        "2026-12-31T23:59:60Z",
        "2026-11-15T03:54:38.Z",
        "2026-11-15T03:54:38,5Z",
        "2026-11-15T03:54:38.1234567890Z",
        "2026-11-15T03:54:38+0100",
        "2026-11-15T03:54:38+01",
        "2026-11-15T03:54:38+24:00",
        "2026-11-15T03:54:38+01:60",
        "2026-11-15T03:54:38Z ",
        "2026-11-15T03:54:38ZZ",
        "+2026-11-15",
        "-001-11-15",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "now",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        int64_t us = 77;

        if (time_parse(text_of(table[i]), &us) != HF_INVALID) {
            fail_msg("\"%s\" was accepted", table[i]);
        }
        assert_int_equal(us, 77);
        assert_message("not a time");
    }
    assert_int_equal(time_parse((struct text){"2026-11-15\0", 11}, &(int64_t){0}), HF_INVALID);
}

static void format_and_parse_are_inverse_for_random_instants(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t span = (uint64_t)(TIME_US_MAX - TIME_US_MIN);
        int64_t us = TIME_US_MIN + (int64_t)chance_below(&seed, span + 1);
        char out[TIME_TEXT_BYTES];
        int64_t back;

        time_format(us, out);
        assert_int_equal(strlen(out), TIME_TEXT_BYTES - 1);
        assert_ok(time_parse((struct text){out, TIME_TEXT_BYTES - 1}, &back));
        assert_int_equal(back, us);
    }
}

/* Every day of 800 years, counted by the plain rules of the calendar. */
static void every_day_follows_the_one_before(void **state)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t us;

    (void)state;
    assert_ok(time_parse(text_of("1600-01-01"), &us));
    for (int year = 1600; year < 2400; year++) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

        for (int month = 1; month <= 12; month++) {
            int last = days[month - 1] + (month == 2 && leap);

            for (int day = 1; day <= last; day++, us += INT64_C(86400000000)) {
                char expected[64], out[TIME_TEXT_BYTES];

                snprintf(expected, sizeof expected, "%04d-%02d-%02dT00:00:00.000000Z", year, month,
                         day);
                time_format(us, out);
                assert_string_equal(out, expected);
            }
        }
    }
}

static void durations_need_a_number_and_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"30d", INT64_C(2592000000)},
        {"12h", 43200000},
        {"5m", 300000},
        {"10s", 10000},
        {"250ms", 250},
        {"2w", INT64_C(1209600000)},
        {"1h30m", 5400000},
        {"1d12h5s1ms", INT64_C(129605001)},
        {"0s", 0},
        {"007s", 7000},
        {"9223372036854775807ms", INT64_MAX},
        {"106751991167d", INT64_C(106751991167) * 86400000},
    };
    static const char *const bad[] = {
        "",
        "30",
        "s",
        "ms",
        "-5s",
        "+5s",
        "1.5h",
        "5 m",
        " 5m",
        "5m ",
        "5M",
        "5min",
        "30m1h",
        "1h1h",
        "1h30",
        "1h 30m",
        "1y",
        "5mss",
        "0x5s",
        "1e3ms",
        "9223372036854775808ms",
        "106751991168d",
        "106751991167d99999999h",
        "99999999999999999999s",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        int64_t ms = -1;

        assert_ok(duration_parse(text_of(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t ms = -1;

        if (duration_parse(text_of(bad[i]), &ms) != HF_INVALID) {
            fail_msg("\"%s\" was accepted", bad[i]);
        }
        assert_int_equal(ms, -1);
        assert_message("not a duration");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_instants_are_formatted),
        cmocka_unit_test(accepted_forms_are_parsed),
        cmocka_unit_test(anything_else_is_refused_and_the_result_untouched),
        cmocka_unit_test(format_and_parse_are_inverse_for_random_instants),
        cmocka_unit_test(every_day_follows_the_one_before),
        cmocka_unit_test(durations_need_a_number_and_a_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
