/* Unit tests of base/text. */
#include "unit.h"

static void absent_and_empty_are_not_the_same(void **state)
{
    struct text empty = text_of("");

    (void)state;
    assert_true(text_is_absent(text_of(NULL)));
    assert_true(text_is_absent(TEXT_ABSENT));
    assert_false(text_is_absent(empty));
    assert_false(text_equal(empty, TEXT_ABSENT));
    assert_false(text_equal(TEXT_ABSENT, empty));
    assert_true(text_equal(TEXT_ABSENT, TEXT_ABSENT));
    assert_true(text_equal(empty, text_of("")));
}

static void equal_compares_length_and_all_bytes(void **state)
{
    (void)state;
    assert_true(text_equal((struct text){"a\0b", 3}, (struct text){"a\0b", 3}));
    assert_false(text_equal((struct text){"a\0b", 3}, (struct text){"a\0c", 3}));
    assert_false(text_equal(text_of("a"), text_of("ab")));
}

static void compare_orders_absent_then_bytes_then_length(void **state)
{
    const struct text ascending[] = {
        TEXT_ABSENT, text_of(""), text_of("A"), text_of("AB"), text_of("B"), text_of("\xC3\xA9"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ascending); i++) {
        for (size_t j = 0; j < COUNT_OF(ascending); j++) {
            int order = text_compare(ascending[i], ascending[j]);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

static void text_can_be_printed_and_absent_prints_nothing(void **state)
{
    char out[32];
    static const struct text literal = TEXT_LITERAL("ordered");

    (void)state;
    snprintf(out, sizeof(out), "<%" TEXT_PRI "|%" TEXT_PRI ">", TEXT_ARG(literal),
             TEXT_ARG(TEXT_ABSENT));
    assert_string_equal(out, "<ordered|>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_and_empty_are_not_the_same),
        cmocka_unit_test(equal_compares_length_and_all_bytes),
        cmocka_unit_test(compare_orders_absent_then_bytes_then_length),
        cmocka_unit_test(text_can_be_printed_and_absent_prints_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
