/* Unit tests of base/utf8. */
#include "base/text/utf8.h"
#include "unit.h"

static void every_scalar_value_survives_encode_and_decode(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[4];
        uint32_t back = UINT32_MAX;

        if (code >= 0xD800 && code <= 0xDFFF) {
            continue;
        }

        size_t length = utf8_encode(code, bytes);

        assert_int_equal(utf8_decode(bytes, length, &back), length);
        assert_int_equal(back, code);
        if (length > 1) { /* cut short, it is invalid */
            assert_int_equal(utf8_decode(bytes, length - 1, &back), 0);
        }
    }
}

static void malformed_sequences_are_refused(void **state)
{
    static const struct text table[] = {
        TEXT_LITERAL("\x80"), /* a continuation byte alone */
        TEXT_LITERAL("\xBF"),
        TEXT_LITERAL("\xC0\x80"), /* overlong NUL */
        TEXT_LITERAL("\xC1\xBF"),
        TEXT_LITERAL("\xE0\x80\x80"),
        TEXT_LITERAL("\xE0\x9F\xBF"), /* overlong U+07FF */
        TEXT_LITERAL("\xF0\x80\x80\x80"),
        TEXT_LITERAL("\xF0\x8F\xBF\xBF"), /* overlong U+FFFF */
        TEXT_LITERAL("\xED\xA0\x80"),     /* U+D800 */
        TEXT_LITERAL("\xED\xBF\xBF"),     /* U+DFFF */
        TEXT_LITERAL("\xF4\x90\x80\x80"), /* U+110000 */
        TEXT_LITERAL("\xF5\x80\x80\x80"),
        TEXT_LITERAL("\xFE"),
        TEXT_LITERAL("\xFF"),
        TEXT_LITERAL("\xC3"),
        TEXT_LITERAL("\xC3\x28"),
        TEXT_LITERAL("\xE2\x82"),
        TEXT_LITERAL("\xE2\x28\xA1"),
        TEXT_LITERAL("\xF0\x9F\x98"),
        TEXT_LITERAL("\xF0\x9F\x98\x28"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint32_t code;

        assert_int_equal(utf8_decode(table[i].bytes, table[i].length, &code), 0);
        assert_false(utf8_is_valid(table[i]));
    }
}

static void valid_bytes_counts_up_to_the_first_bad_one(void **state)
{
    (void)state;
    assert_int_equal(utf8_valid_bytes(text_of("")), 0);
    assert_int_equal(utf8_valid_bytes(TEXT_ABSENT), 0);
    for (size_t at = 0; at < 40; at++) { /* at every offset from the words of eight */
        char bytes[44];

        memset(bytes, 'a', sizeof bytes);
        bytes[at] = '\xFF';
        assert_int_equal(utf8_valid_bytes((struct text){bytes, sizeof bytes}), at);
        memcpy(bytes + at, "\xE2\x82\xAC", 3);
        assert_true(utf8_is_valid((struct text){bytes, sizeof bytes}));
    }
}

static void control_characters_are_c0_del_and_c1(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x200; code++) {
        assert_int_equal(utf8_is_control(code), code <= 0x1F || (code >= 0x7F && code <= 0x9F));
    }
    assert_true(utf8_is_printable(text_of("Grüße €")));
    assert_false(utf8_is_printable(text_of("a\nb")));
    assert_false(utf8_is_printable(text_of("a\xC2\x85")));
    assert_false(utf8_is_printable(text_of("a\xFF")));
}

static void sanitized_text_is_harmless(void **state)
{
    static const struct {
        struct text in;
        const char *out;
    } table[] = {
        {TEXT_LITERAL("plain Grüße"), "plain Grüße"},
        {TEXT_LITERAL("a\tb\nc\rd"), "a b c d"},
        {TEXT_LITERAL("\x1b[31mred"), "\uFFFD[31mred"},
        {TEXT_LITERAL("a\0b\x7f"), "a\uFFFDb\uFFFD"},
        {TEXT_LITERAL("\xC2\x9B"), "\uFFFD"},
        {TEXT_LITERAL("\xFF\xFEx"), "\uFFFD\uFFFDx"},
        {TEXT_LITERAL("a\xE2\x80\xAE"), "a\uFFFD"}, /* right-to-left override */
        {TEXT_LITERAL("a\xE2\x80\xA8"), "a\uFFFD"}, /* line separator */
        {TEXT_LITERAL(""), ""},
        {{NULL, 0}, ""},
    };
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        buf_clear(&buf);
        utf8_sanitize(table[i].in, &buf);
        assert_string_equal(buf_terminate(&buf), table[i].out);
    }
    buf_release(&buf);
}

static void random_bytes_become_printable(void **state)
{
    uint64_t seed = 11;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (int i = 0; i < 20000; i++) {
        char bytes[24];
        size_t length = chance_below(&seed, sizeof bytes + 1);

        for (size_t j = 0; j < length; j++) {
            bytes[j] = (char)chance(&seed);
        }
        buf_clear(&buf);
        utf8_sanitize((struct text){bytes, length}, &buf);
        assert_ok(buf_status(&buf));
        assert_true(utf8_is_printable(buf_text(&buf)));
    }
    buf_release(&buf);
}

static void text_that_is_too_long_is_cut_between_two_characters(void **state)
{
    static const struct {
        struct text in;
        size_t bytes_max;
        size_t bytes;
    } table[] = {
        {TEXT_LITERAL("abc"), 3, 3},           {TEXT_LITERAL("abc"), 2, 2},
        {TEXT_LITERAL("a\xC3\xA4"), 3, 3},     {TEXT_LITERAL("a\xC3\xA4"), 2, 1},
        {TEXT_LITERAL("\xE2\x80\xA6x"), 3, 3}, {TEXT_LITERAL("\xE2\x80\xA6x"), 2, 0},
        {TEXT_LITERAL("abc"), 0, 0},           {{NULL, 0}, 5, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct text cut = utf8_cut(table[i].in, table[i].bytes_max);

        assert_ptr_equal(cut.bytes, table[i].in.bytes);
        assert_int_equal(cut.length, table[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_value_survives_encode_and_decode),
        cmocka_unit_test(malformed_sequences_are_refused),
        cmocka_unit_test(valid_bytes_counts_up_to_the_first_bad_one),
        cmocka_unit_test(control_characters_are_c0_del_and_c1),
        cmocka_unit_test(text_that_is_too_long_is_cut_between_two_characters),
        cmocka_unit_test(sanitized_text_is_harmless),
        cmocka_unit_test(random_bytes_become_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
