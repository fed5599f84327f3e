/* Unit tests of base/number. */
#include "base/text/number.h"
#include "unit.h"

#include <locale.h>
#include <math.h>

static void numbers_read_back_as_themselves(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = chance(&seed);
        char text[NUMBER_TEXT_BYTES];
        double value, back;

        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        number_format(value, text);
        assert_true(number_parse(text_of(text), &back));
        assert_memory_equal(&back, &value, sizeof value);
    }
}

static void digits_are_the_shortest(void **state)
{
    static const struct {
        double value;
        const char *text;
    } table[] = {{2.0, "2"}, {0.1, "0.1"}, {1.5, "1.5"}, {-0.25, "-0.25"}, {1e300, "1e+300"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char text[NUMBER_TEXT_BYTES];

        number_format(table[i].value, text);
        assert_string_equal(text, table[i].text);
    }
}

static void text_that_is_no_decimal_number_is_refused(void **state)
{
    static const char *const table[] = {
        "",
        " 1",
        "1 ",
        "inf",
        "nan",
        "0x10",
        "1,5",
        "1e999",
        "-",
        "e5",
        "1.2.3",
        "1-2",
        "11111111111111111111111111111111111111111111111111111111111111111111111111",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        double value = 7.0;

        if (number_parse(text_of(table[i]), &value)) {
            fail_msg("\"%s\" was accepted", table[i]);
        }
        assert_true(value == 7.0);
    }
}

static void the_locale_of_the_program_does_not_matter(void **state)
{
    char text[NUMBER_TEXT_BYTES];
    double value;

    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        skip();
    } /* no locale with a decimal comma is installed */
    number_format(1.5, text);
    assert_string_equal(text, "1.5");
    assert_true(number_parse(text_of("2.5"), &value));
    assert_true(value == 2.5);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_read_back_as_themselves),
        cmocka_unit_test(digits_are_the_shortest),
        cmocka_unit_test(text_that_is_no_decimal_number_is_refused),
        cmocka_unit_test(the_locale_of_the_program_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
