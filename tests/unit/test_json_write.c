/* Unit tests of base/json_write. */
#include "base/text/json_check.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "unit.h"

static void commas_are_written_between_members_and_elements(void **state)
{
    struct json_out out;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&out, &buf);
    json_object_begin(&out);
    json_key(&out, "a");
    json_int(&out, INT64_MIN);
    json_key(&out, "b");
    json_array_begin(&out);
    json_array_end(&out);
    json_key(&out, "c");
    json_array_begin(&out);
    json_bool(&out, true);
    json_bool(&out, false);
    json_null(&out);
    json_object_begin(&out);
    json_object_end(&out);
    json_string(&out, text_of("x"));
    json_string(&out, TEXT_ABSENT);
    json_raw(&out, text_of("{\"y\": 1}"));
    json_raw(&out, TEXT_ABSENT);
    json_double(&out, 0.5);
    json_double(&out, __builtin_nan(""));
    json_array_end(&out);
    json_key_text(&out, (struct text){"d\"", 2});
    json_int(&out, 0);
    json_object_end(&out);
    assert_ok(buf_status(&buf));
    assert_string_equal(buf_terminate(&buf),
                        "{\"a\":-9223372036854775808,\"b\":[],"
                        "\"c\":[true,false,null,{},\"x\",null,{\"y\": 1},null,0.5,null],"
                        "\"d\\\"\":0}");
    assert_int_equal(out.depth, 0);
    buf_release(&buf);
}

static void strings_are_escaped(void **state)
{
    static const struct {
        struct text in;
        const char *out;
    } table[] = {
        {TEXT_LITERAL("plain Grüße 😀"), "\"plain Grüße 😀\""},
        {TEXT_LITERAL("\"\\/"), "\"\\\"\\\\/\""},
        {TEXT_LITERAL("a\nb\rc\td"), "\"a\\nb\\rc\\td\""},
        {TEXT_LITERAL("\x01\x1f\x7f"), "\"\\u0001\\u001f\\u007f\""},
        {TEXT_LITERAL("\xC2\x80\xC2\x9F\xC2\xA0"), "\"\\u0080\\u009f\xC2\xA0\""},
        {TEXT_LITERAL("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA"), "\"\\u2028\\u2029\xE2\x80\xAA\""},
        {TEXT_LITERAL("a\xFF\xC3(\xED\xA0\x80"), "\"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\""},
        {TEXT_LITERAL("a\0b"), "\"a\\ufffdb\""},
        {TEXT_LITERAL(""), "\"\""},
    };
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct json_out out;

        buf_clear(&buf);
        json_out_init(&out, &buf);
        json_string(&out, table[i].in);
        assert_string_equal(buf_terminate(&buf), table[i].out);
    }
    buf_release(&buf);
}

static void what_needs_an_escape_is_found_at_every_offset(void **state)
{
    static const char special[] = "\"\\\x1f\x7f\xFF";
    static const char *const escapes[] = {"\\\"", "\\\\", "\\u001f", "\\u007f", "\\ufffd"};
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (int length = 1; length < 40; length++) {
        for (int at = 0; at < length; at++) {
            for (size_t i = 0; i < sizeof special - 1; i++) {
                char bytes[48];
                char expected[64];
                struct json_out out;

                memset(bytes, 'x', sizeof bytes);
                snprintf(expected, sizeof expected, "\"%.*s%s%.*s\"", at, bytes, escapes[i],
                         length - at - 1, bytes);
                bytes[at] = special[i];
                buf_clear(&buf);
                json_out_init(&out, &buf);
                json_string(&out, (struct text){bytes, (size_t)length});
                assert_string_equal(buf_terminate(&buf), expected);
            }
        }
    }
    buf_release(&buf);
}

static void integers_are_written_as_printf_writes_them(void **state)
{
    uint64_t seed = 44;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (int i = 0; i < 20000; i++) {
        int64_t value = (int64_t)(chance(&seed) >> chance_below(&seed, 64));
        char expected[24];
        struct json_out out;

        value = i == 0 ? INT64_MIN : i == 1 ? INT64_MAX : i % 2 ? -value : value;
        snprintf(expected, sizeof expected, "%" PRId64, value);
        buf_clear(&buf);
        json_out_init(&out, &buf);
        json_int(&out, value);
        assert_string_equal(buf_terminate(&buf), expected);
    }
    buf_release(&buf);
}

static void any_bytes_become_json_that_both_engines_take(void **state)
{
    uint64_t seed = 43;
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (int i = 0; i < 20000; i++) {
        char bytes[24];
        size_t length = chance_below(&seed, sizeof bytes + 1);
        struct json_out out;

        for (size_t j = 0; j < length; j++) {
            bytes[j] = (char)chance(&seed);
        }
        buf_clear(&buf);
        json_out_init(&out, &buf);
        json_string(&out, (struct text){bytes, length});
        assert_ok(buf_status(&buf));
        assert_ok(json_check(buf.bytes, buf.length, NULL, "output"));
    }
    buf_release(&buf);
}

static void the_buffer_reports_json_that_does_not_fit(void **state)
{
    struct json_out out;
    struct buf buf;

    (void)state;
    buf_init(&buf, 5);
    json_out_init(&out, &buf);
    json_array_begin(&out);
    json_string(&out, text_of("too long"));
    json_array_end(&out);
    assert_int_equal(buf_status(&buf), HF_INVALID);
    buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_are_written_between_members_and_elements),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(what_needs_an_escape_is_found_at_every_offset),
        cmocka_unit_test(integers_are_written_as_printf_writes_them),
        cmocka_unit_test(any_bytes_become_json_that_both_engines_take),
        cmocka_unit_test(the_buffer_reports_json_that_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
