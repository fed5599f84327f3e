/* Unit tests of base/ranges: sets of numbers as people write them. */
#include "base/err.h"
#include "base/ranges.h"
#include "unit.h"

/* What a text reads as, written again; "!" if it is refused. */
static const char *again(const char *text, int32_t limit)
{
    static char out[RANGES_BYTES_MAX];
    struct ranges ranges;

    if (ranges_parse(text_of(text), limit, &ranges) != HF_OK) {
        return "!";
    }
    ranges_format(&ranges, out);
    return out;
}

static void lists_and_ranges_are_read_and_written_in_order(void **state)
{
    (void)state;
    assert_string_equal(again("3", 8), "3");
    assert_string_equal(again("3,5-7", 8), "3,5-7");
    assert_string_equal(again("7,5,6,3,3,5-6", 8), "3,5-7");
    assert_string_equal(again("0-1023", 1024), "0-1023");
    assert_string_equal(again("63,64", 1024), "63-64");
    assert_string_equal(again("000", 1), "0");
    assert_string_equal(again("", 8), "");
}

static void text_that_is_no_list_of_ranges_is_refused(void **state)
{
    static const char *const bad[] = {",", "3,",  ",3",    "3,,4", "-3", "3-",  "7-5",
                                      "a", "3 4", "3-4-5", "3, 4", "+3", "0x1", "1.5"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (strcmp(again(bad[i], 8), "!") != 0) {
            fail_msg("'%s' was read", bad[i]);
        }
        assert_non_null(strstr(err_message(), "3,5-7"));
    }
}

static void numbers_beyond_the_limit_are_refused_with_the_limit(void **state)
{
    (void)state;
    assert_string_equal(again("7", 8), "7");
    assert_string_equal(again("8", 8), "!");
    assert_non_null(strstr(err_message(), "above 7"));
    assert_string_equal(again("0-8", 8), "!");
    assert_string_equal(again("99999999999999999999", 8), "!");
    assert_string_equal(again("0-99999999999999999999", 1024), "!");
}

static void the_longest_text_has_room(void **state)
{
    struct ranges ranges = {{0}}, read;
    char text[RANGES_BYTES_MAX];

    (void)state;
    for (int32_t i = RANGES_MAX - 1; i >= 0; i -= 2) {
        ranges_put(&ranges, i);
    }
    ranges_format(&ranges, text);
    assert_int_equal(ranges_count(&ranges), RANGES_MAX / 2);
    assert_int_equal(ranges_parse(text_of(text), RANGES_MAX, &read), HF_OK);
    assert_memory_equal(&ranges, &read, sizeof read);
    assert_false(ranges_has(&ranges, -1));
    assert_false(ranges_has(&ranges, RANGES_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges_are_read_and_written_in_order),
        cmocka_unit_test(text_that_is_no_list_of_ranges_is_refused),
        cmocka_unit_test(numbers_beyond_the_limit_are_refused_with_the_limit),
        cmocka_unit_test(the_longest_text_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
