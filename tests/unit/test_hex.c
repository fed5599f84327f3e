/* Unit tests of base/hex. */
#include "base/text/hex.h"
#include "unit.h"

static void only_the_22_digits_are_digits(void **state)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        const char *at = byte ? strchr(digits, byte) : NULL;
        int value = at ? (int)(at - digits) : -1;
        assert_int_equal(hex_digit((char)byte), value >= 16 ? value - 6 : value);
    }
}

static void bytes_survive_writing_and_reading(void **state)
{
    uint8_t bytes[256];
    uint8_t back[256];
    char text[513];
    (void)state;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
    }
    char *end = hex_write(text, bytes, sizeof bytes);
    assert_ptr_equal(end, text + 512);
    assert_memory_equal(text + 2 * 0xa7, "a7", 2);
    assert_true(hex_read(text, sizeof bytes, back));
    assert_memory_equal(back, bytes, sizeof bytes);
}

static void what_is_no_digit_makes_no_number(void **state)
{
    uint8_t byte;
    (void)state;
    assert_int_equal(hex_number("00E9", 4), 0xE9);
    assert_int_equal(hex_number("fFfF", 4), 0xFFFF);
    assert_int_equal(hex_number("00\x11"
                                "9",
                                4),
                     -1);
    assert_int_equal(hex_number("g000", 4), -1);
    assert_int_equal(hex_number("1", 4), -1);
    assert_true(hex_read("7F", 1, &byte));
    assert_int_equal(byte, 127);
    assert_false(hex_read("\x10"
                          "f",
                          1, &byte));
    assert_false(hex_read("f", 1, &byte));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_22_digits_are_digits),
        cmocka_unit_test(bytes_survive_writing_and_reading),
        cmocka_unit_test(what_is_no_digit_makes_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
