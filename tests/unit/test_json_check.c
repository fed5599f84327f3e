/* Unit tests of base/json_check: what is JSON for us, what is not, and what is said about it. */
#include "base/text/json_check.h"
#include "unit.h"

static hf_status check(struct text json)
{
    return json_check(json.bytes, json.length, NULL, "payload");
}

static void valid_texts_are_accepted(void **state)
{
    static const struct text table[] = {
        TEXT_LITERAL("null"),
        TEXT_LITERAL("true"),
        TEXT_LITERAL("false"),
        TEXT_LITERAL("0"),
        TEXT_LITERAL("-0"),
        TEXT_LITERAL("1"),
        TEXT_LITERAL("-1"),
        TEXT_LITERAL("1234567890123456789012345678901234567890"),
        TEXT_LITERAL("0.0"),
        TEXT_LITERAL("-0.5"),
        TEXT_LITERAL("1e5"),
        TEXT_LITERAL("1E+5"),
        TEXT_LITERAL("1.5e-10"),
        TEXT_LITERAL("0e0"),
        TEXT_LITERAL("1e999999"),
        TEXT_LITERAL("\"\""),
        TEXT_LITERAL("\"a\""),
        TEXT_LITERAL("\" \""),
        TEXT_LITERAL("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
        TEXT_LITERAL("\"\\u0001\\u00e9\\uABCD\\uffff\""),
        TEXT_LITERAL("\"\\uD834\\udd1e\""),
        TEXT_LITERAL("\"\\uDBFF\\uDFFF\""),
        TEXT_LITERAL("\"\x7f\""),
        TEXT_LITERAL("\"Grüße € 😀\""),
        TEXT_LITERAL("\"\xEF\xBF\xBF\xF4\x8F\xBF\xBF\""),
        TEXT_LITERAL("\"\xE2\x80\xA8\""),
        TEXT_LITERAL("\"\\u005C\""),
        TEXT_LITERAL("\"\\\\u0000\""),
        TEXT_LITERAL("[]"),
        TEXT_LITERAL("[ ]"),
        TEXT_LITERAL("[1]"),
        TEXT_LITERAL("[1,2 , 3]"),
        TEXT_LITERAL("[[],[[]],{}]"),
        TEXT_LITERAL("[null,\"\",0,{\"a\":[]}]"),
        TEXT_LITERAL("{}"),
        TEXT_LITERAL("{ }"),
        TEXT_LITERAL("{\"\":0}"),
        TEXT_LITERAL("{\"a\":1,\"a\":2}"),
        TEXT_LITERAL("{\"a\" : {\"b\" : [ true ] } }"),
        TEXT_LITERAL(" \t\r\n{}\n "),
        TEXT_LITERAL("\n1\n"),
        TEXT_LITERAL("{\"\\u0061\":\"\\u0062\"}"),
        TEXT_LITERAL("\"12345678\""),
        TEXT_LITERAL("\"1234567\\n\""),
        TEXT_LITERAL("\"123456é8\""),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (check(table[i]) != HF_OK) {
            fail_msg("%s: %s", table[i].bytes, err_message());
        }
    }
}

static const struct text invalid[] = {
    TEXT_LITERAL(" "),
    TEXT_LITERAL("\n"),
    TEXT_LITERAL("nul"),
    TEXT_LITERAL("nulll"),
    TEXT_LITERAL("Null"),
    TEXT_LITERAL("TRUE"),
    TEXT_LITERAL("tru"),
    TEXT_LITERAL("fals"),
    TEXT_LITERAL("undefined"),
    TEXT_LITERAL("NaN"),
    TEXT_LITERAL("Infinity"),
    TEXT_LITERAL("-Infinity"),
    TEXT_LITERAL("+1"),
    TEXT_LITERAL("-"),
    TEXT_LITERAL("--1"),
    TEXT_LITERAL("01"),
    TEXT_LITERAL("-01"),
    TEXT_LITERAL("1."),
    TEXT_LITERAL(".5"),
    TEXT_LITERAL("1.e5"),
    TEXT_LITERAL("1e"),
    TEXT_LITERAL("1e+"),
    TEXT_LITERAL("0x1"),
    TEXT_LITERAL("1_000"),
    TEXT_LITERAL("1 2"),
    TEXT_LITERAL("1,"),
    TEXT_LITERAL("- 1"),
    TEXT_LITERAL("1a"),
    TEXT_LITERAL("\""),
    TEXT_LITERAL("\"a"),
    TEXT_LITERAL("'a'"),
    TEXT_LITERAL("a"),
    TEXT_LITERAL("\"\\\""),
    TEXT_LITERAL("\"\\"),
    TEXT_LITERAL("\"\\x41\""),
    TEXT_LITERAL("\"\\a\""),
    TEXT_LITERAL("\"\\U0041\""),
    TEXT_LITERAL("\"\\u\""),
    TEXT_LITERAL("\"\\u004\""),
    TEXT_LITERAL("\"\\u00g0\""),
    TEXT_LITERAL("\"\\u 041\""),
    TEXT_LITERAL("\"\\u0000\""),
    TEXT_LITERAL("{\"\\u0000\":1}"),
    TEXT_LITERAL("\"\\ud800\""),
    TEXT_LITERAL("\"\\udc00\""),
    TEXT_LITERAL("\"\\ud800x\""),
    TEXT_LITERAL("\"\\ud800\\n\""),
    TEXT_LITERAL("\"\\ud800\\ud800\""),
    TEXT_LITERAL("\"\\ud800\\u0041\""),
    TEXT_LITERAL("\"\\udc00\\ud800\""),
    TEXT_LITERAL("\"\\ud800\\udc0\""),
    TEXT_LITERAL("\"\\ud834\\udd1"),
    TEXT_LITERAL("\"a\nb\""),
    TEXT_LITERAL("\"a\tb\""),
    TEXT_LITERAL("\"a\0b\""),
    TEXT_LITERAL("\"1234567\x1f\""),
    TEXT_LITERAL("\"12345678\x01\""),
    TEXT_LITERAL("\"\x80\""),
    TEXT_LITERAL("\"\xC0\x80\""),
    TEXT_LITERAL("\"\xE0\x80\x80\""),
    TEXT_LITERAL("\"\xED\xA0\x80\""),
    TEXT_LITERAL("\"\xF4\x90\x80\x80\""),
    TEXT_LITERAL("\"\xC3\""),
    TEXT_LITERAL("\"\xE2\x82\""),
    TEXT_LITERAL("\"\xFF\""),
    TEXT_LITERAL("\"abcdefg\xFF\""),
    TEXT_LITERAL("\xEF\xBB\xBF{}"),
    TEXT_LITERAL("\xC3\xA9"),
    TEXT_LITERAL("["),
    TEXT_LITERAL("]"),
    TEXT_LITERAL("[1"),
    TEXT_LITERAL("[1,"),
    TEXT_LITERAL("[1,]"),
    TEXT_LITERAL("[,1]"),
    TEXT_LITERAL("[1,,2]"),
    TEXT_LITERAL("[1 2]"),
    TEXT_LITERAL("[1}"),
    TEXT_LITERAL("[1]]"),
    TEXT_LITERAL("[:1]"),
    TEXT_LITERAL("[\"a\":1]"),
    TEXT_LITERAL("{"),
    TEXT_LITERAL("}"),
    TEXT_LITERAL("{]"),
    TEXT_LITERAL("{\"a\""),
    TEXT_LITERAL("{\"a\":"),
    TEXT_LITERAL("{\"a\":1"),
    TEXT_LITERAL("{\"a\":1,"),
    TEXT_LITERAL("{\"a\":1,}"),
    TEXT_LITERAL("{,\"a\":1}"),
    TEXT_LITERAL("{\"a\" 1}"),
    TEXT_LITERAL("{\"a\"::1}"),
    TEXT_LITERAL("{a:1}"),
    TEXT_LITERAL("{1:1}"),
    TEXT_LITERAL("{\"a\":1]"),
    TEXT_LITERAL("{\"a\"}"),
    TEXT_LITERAL("{\"a\":1 \"b\":2}"),
    TEXT_LITERAL("{'a':1}"),
    TEXT_LITERAL("{null:1}"),
    TEXT_LITERAL("{}{}"),
    TEXT_LITERAL("{} x"),
    TEXT_LITERAL("{}\0"),
    TEXT_LITERAL("\0"),
    TEXT_LITERAL("1\0"),
    TEXT_LITERAL("[1]//"),
    TEXT_LITERAL("/**/1"),
    TEXT_LITERAL("#1"),
    TEXT_LITERAL("1\f"),
    TEXT_LITERAL("\v1"),
    TEXT_LITERAL("\xC2\xA0"
                 "1"),
};

static void invalid_texts_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        if (check(invalid[i]) != HF_INVALID) {
            fail_msg("%s was accepted", invalid[i].bytes);
        }
        assert_message("payload is not valid JSON at byte");
    }
}

static void the_message_names_the_thing_the_place_and_the_reason(void **state)
{
    static const struct {
        const char *json;
        const char *message;
    } table[] = {
        {"{\"a\":1,}", "payload is not valid JSON at byte 7: a key in double quotes was expected"},
        {"[1 2]", "payload is not valid JSON at byte 3: ',' or ']' was expected"},
        {"{\"a\":1]", "payload is not valid JSON at byte 6: ',' or '}' was expected"},
        {"{\"a\"}", "payload is not valid JSON at byte 4: ':' was expected after the key"},
        {"\"12345678\\u0000\"", "payload is not valid JSON at byte 10: \\u0000 cannot be stored"},
        {"\"ab", "payload is not valid JSON at byte 3: the string has no end"},
        {"01", "payload is not valid JSON at byte 1: a number must not begin with 0"},
        {"{} x", "payload is not valid JSON at byte 3: something follows the value"},
        {"nope", "payload is not valid JSON at byte 0: a value was expected"},
        {"\"a\xFF\"", "payload is not valid JSON at byte 2: not valid UTF-8"},
        {"", "payload is empty; JSON was expected"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(check(text_of(table[i].json)), HF_INVALID);
        assert_string_equal(err_message(), table[i].message);
    }
    assert_int_equal(check(TEXT_ABSENT), HF_INVALID);
    assert_string_equal(err_message(), "payload is missing; JSON was expected");
}

/* depth levels, arrays and objects by turns, well formed. */
static size_t nest(int depth, char *out)
{
    size_t length = 0;

    for (int i = 0; i < depth; i++) {
        const char *open = i % 2 ? "{\"a\":" : "[";

        memcpy(out + length, open, strlen(open));
        length += strlen(open);
    }
    out[length++] = '1';
    for (int i = depth - 1; i >= 0; i--) {
        out[length++] = i % 2 ? '}' : ']';
    }
    return length;
}

static void the_depth_limit_is_exact(void **state)
{
    static const int limits[] = {1, 2, 63, 64, 65, 128, 1000, JSON_DEPTH_MAX};
    static char json[8 * JSON_DEPTH_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct json_limits limit = {.depth_max = limits[i]};

        assert_ok(json_check(json, nest(limits[i], json), &limit, "payload"));
        assert_int_equal(json_check(json, nest(limits[i] + 1, json), &limit, "payload"),
                         HF_INVALID);
        assert_message("nested too deeply");
    }
    assert_ok(json_check(json, nest(JSON_DEPTH_DEFAULT, json), NULL, "payload"));
    assert_int_equal(json_check(json, nest(JSON_DEPTH_DEFAULT + 1, json), NULL, "payload"),
                     HF_INVALID);
}

static void closed_levels_do_not_count(void **state)
{
    struct json_limits limits = {.depth_max = 2};
    const char *json = "[[],[],{},[],{}]";

    (void)state;
    assert_ok(json_check(json, strlen(json), &limits, "payload"));
}

static void the_byte_limit_is_exact(void **state)
{
    struct json_limits limits = {.bytes_max = 4};

    (void)state;
    assert_ok(json_check("null", 4, &limits, "metadata"));
    assert_int_equal(json_check("null ", 5, &limits, "metadata"), HF_INVALID);
    assert_string_equal(err_message(), "metadata is 5 bytes; the limit is 4");
}

static void a_string_is_checked_at_every_offset(void **state)
{
    (void)state;
    for (size_t length = 0; length < 40; length++) {
        for (size_t at = 0; at < length; at++) {
            char json[48];

            memset(json, 'x', sizeof json);
            json[0] = json[length + 1] = '"';
            assert_ok(json_check(json, length + 2, NULL, "payload"));
            json[1 + at] = '\x1f';
            assert_int_equal(json_check(json, length + 2, NULL, "payload"), HF_INVALID);
            json[1 + at] = '"';
            assert_int_equal(json_check(json, length + 2, NULL, "payload"), HF_INVALID);
            json[1 + at] = '\xFF';
            assert_int_equal(json_check(json, length + 2, NULL, "payload"), HF_INVALID);
            json[1 + at] = '\x20';
            assert_ok(json_check(json, length + 2, NULL, "payload"));
        }
    }
}

static void an_object_is_asked_for_by_name(void **state)
{
    (void)state;
    assert_ok(json_check_object(" \n{}", 4, NULL, "metadata"));
    assert_int_equal(json_check_object("[]", 2, NULL, "metadata"), HF_INVALID);
    assert_message("metadata is JSON but not an object");
    assert_int_equal(json_check_object("{", 1, NULL, "metadata"), HF_INVALID);
    assert_message("metadata is not valid JSON at byte 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_are_accepted),
        cmocka_unit_test(invalid_texts_are_refused),
        cmocka_unit_test(the_message_names_the_thing_the_place_and_the_reason),
        cmocka_unit_test(the_depth_limit_is_exact),
        cmocka_unit_test(closed_levels_do_not_count),
        cmocka_unit_test(the_byte_limit_is_exact),
        cmocka_unit_test(a_string_is_checked_at_every_offset),
        cmocka_unit_test(an_object_is_asked_for_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
