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

static void text_can_be_printed_and_absent_prints_nothing(void **state)
{
    char out[32];
    static const struct text literal = TEXT_LITERAL("ordered");

    (void)state;
    snprintf(out, sizeof out, "<%" TEXT_PRI "|%" TEXT_PRI ">", TEXT_ARG(literal),
             TEXT_ARG(TEXT_ABSENT));
    assert_string_equal(out, "<ordered|>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_and_empty_are_not_the_same),
        cmocka_unit_test(equal_compares_length_and_all_bytes),
        cmocka_unit_test(text_can_be_printed_and_absent_prints_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
