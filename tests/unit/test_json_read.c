/* Unit tests of base/json_read. */
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "unit.h"

static void the_first_byte_decides_the_kind_of_a_value(void **state)
{
    static const struct {
        const char *raw;
        enum json_kind kind;
    } table[] = {
        {"", JSON_NOTHING},  {" \n", JSON_NOTHING}, {"x", JSON_NOTHING}, {"null", JSON_NULL},
        {"true", JSON_BOOL}, {"false", JSON_BOOL},  {"-1", JSON_NUMBER}, {"0.5", JSON_NUMBER},
        {"\"", JSON_STRING}, {" []", JSON_ARRAY},   {"{}", JSON_OBJECT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(json_kind(text_of(table[i].raw)), table[i].kind);
    }
    assert_int_equal(json_kind(TEXT_ABSENT), JSON_NOTHING);
}

static void members_are_walked_in_order(void **state)
{
    static const char *const keys[] = {"\"a\"", "\"b\\\"}\"", "\"c\"", "\"d\"", "\"e\""};
    static const char *const values[] = {"1", "\"x,]}\\\"\"", "[1,{\"z\":\"]\"}]", "null", "{ }"};
    const char *json =
        " { \"a\" : 1 , \"b\\\"}\":\"x,]}\\\"\",\"c\":[1,{\"z\":\"]\"}] ,\"d\":null,\"e\":{ }\n}";
    struct text key, value;
    struct json_iter iter;
    size_t count = 0;

    (void)state;
    assert_true(json_iter_init(&iter, text_of(json)));
    for (; json_iter_next(&iter, &key, &value); count++) {
        assert_true(text_equal(key, text_of(keys[count])));
        assert_true(text_equal(value, text_of(values[count])));
    }
    assert_int_equal(count, COUNT_OF(keys));
    assert_false(iter.broken);
    assert_false(json_iter_next(&iter, &key, &value));
}

static void elements_have_no_key(void **state)
{
    struct text key = text_of("untouched"), value;
    struct json_iter iter;

    (void)state;
    assert_true(json_iter_init(&iter, text_of("[1,[2],\"3\"]")));
    assert_true(json_iter_next(&iter, &key, &value));
    assert_true(text_is_absent(key));
    assert_true(text_equal(value, text_of("1")));
    assert_true(json_iter_next(&iter, NULL, &value));
    assert_true(text_equal(value, text_of("[2]")));
    assert_true(json_iter_next(&iter, NULL, &value));
    assert_true(text_equal(value, text_of("\"3\"")));
    assert_false(json_iter_next(&iter, NULL, &value));
    assert_false(json_iter_init(&iter, text_of("1")));
    assert_false(json_iter_init(&iter, TEXT_ABSENT));
}

static void a_key_is_found_however_it_is_escaped(void **state)
{
    struct text object = text_of("{\"ab\":1,\"\\u0061b\\n\":2,\"\\ud83d\\ude00\":3,\"ab\":4}");
    struct text raw = text_of("untouched");

    (void)state;
    assert_true(json_find(object, "ab", &raw));
    assert_true(text_equal(raw, text_of("1"))); /* the first one */
    assert_true(json_find(object, "ab\n", &raw));
    assert_true(text_equal(raw, text_of("2")));
    assert_true(json_find(object, "😀", &raw));
    assert_true(text_equal(raw, text_of("3")));
    assert_false(json_find(object, "a", &raw));
    assert_false(json_find(object, "abc", &raw));
    assert_false(json_find(object, "ab\nc", &raw));
    assert_false(json_find(text_of("[\"ab\"]"), "ab", &raw));
    assert_true(text_equal(raw, text_of("3")));
}

static void strings_are_decoded(void **state)
{
    static const struct {
        const char *raw;
        struct text decoded;
    } table[] = {
        {"\"\"", TEXT_LITERAL("")},
        {"\"plain é\"", TEXT_LITERAL("plain é")},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", TEXT_LITERAL("\"\\/\b\f\n\r\t")},
        {"\"a\\u0041\\u00e9\\u20AC\\ud83d\\ude00z\"", TEXT_LITERAL("aA\xC3\xA9€😀z")},
    };
    struct buf buf;

    (void)state;
    buf_init(&buf, 100);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        buf_clear(&buf);
        assert_ok(json_string_decode(text_of(table[i].raw), &buf));
        assert_true(text_equal(buf_text(&buf), table[i].decoded));
    }
    buf_clear(&buf);
    assert_int_equal(json_string_decode(text_of("1"), &buf), HF_INVALID);
    assert_int_equal(json_string_decode(text_of("\""), &buf), HF_INVALID);
    assert_int_equal(json_string_decode(TEXT_ABSENT, &buf), HF_INVALID);
    buf_release(&buf);
    buf_init(&buf, 2);
    assert_int_equal(json_string_decode(text_of("\"abc\""), &buf), HF_INVALID);
    assert_message("limit of 2 bytes");
    buf_release(&buf);
}

static void json_that_was_written_is_read_back(void **state)
{
    uint64_t seed = 47;
    struct buf written, decoded;

    (void)state;
    buf_init(&written, 1000);
    buf_init(&decoded, 1000);
    for (int i = 0; i < 20000; i++) {
        char bytes[20];
        size_t length = chance_below(&seed, sizeof bytes + 1);
        struct json_out out;

        for (size_t j = 0; j < length; j++) {
            bytes[j] = (char)(1 + chance_below(&seed, 127));
        } /* valid UTF-8 without NUL */
        buf_clear(&written);
        buf_clear(&decoded);
        json_out_init(&out, &written);
        json_string(&out, (struct text){bytes, length});
        assert_ok(json_string_decode(buf_text(&written), &decoded));
        assert_true(text_equal(buf_text(&decoded), (struct text){bytes, length}));
    }
    buf_release(&written);
    buf_release(&decoded);
}

static void whole_numbers_are_decoded_and_others_refused(void **state)
{
    static const struct {
        const char *raw;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"42", 42},
        {"-42", -42},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {
        "",      "-",    "1.0", "1e3", "9223372036854775808", "-9223372036854775809",
        "\"1\"", "null", "1 ",  "+1",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        int64_t value = 7;

        assert_ok(json_int_decode(text_of(good[i].raw), &value));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t value = 7;

        assert_int_equal(json_int_decode(text_of(bad[i]), &value), HF_INVALID);
        assert_int_equal(value, 7);
    }
}

static void values_are_found_by_key_and_kind(void **state)
{
    struct text object = text_of("{\"s\":\"x\\ny\",\"i\":-5,\"d\":2.5,\"b\":true,\"n\":null}");
    struct buf buf;
    int64_t number = 0;

    (void)state;
    buf_init(&buf, 100);
    assert_ok(json_find_string(object, "s", &buf));
    assert_string_equal(buf_terminate(&buf), "x\ny");
    assert_ok(json_find_int(object, "i", &number));
    assert_int_equal(number, -5);
    assert_int_equal(json_find_int(object, "x", &number), HF_NOTFOUND);
    assert_int_equal(json_find_int(object, "n", &number), HF_NOTFOUND);
    assert_int_equal(json_find_int(object, "s", &number), HF_INVALID);
    assert_message("\"s\": a whole number");
    assert_int_equal(json_find_int(object, "d", &number), HF_INVALID);
    assert_int_equal(json_find_string(object, "i", &buf), HF_INVALID);
    assert_int_equal(number, -5);
    buf_release(&buf);
}

static void text_that_is_not_json_breaks_the_walk(void **state)
{
    static const char *const table[] = {
        "[",       "[1",       "[1,",   "[\"a",   "[[1]", "{",         "{\"a\"",
        "{\"a\":", "{\"a\":1", "{1:2}", "{\"a\\", "[,,]", "{\"a\" 1}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct json_iter iter;
        struct text value;

        assert_true(json_iter_init(&iter, text_of(table[i])));
        while (json_iter_next(&iter, NULL, &value)) {
            continue;
        }
        assert_true(iter.broken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_byte_decides_the_kind_of_a_value),
        cmocka_unit_test(members_are_walked_in_order),
        cmocka_unit_test(elements_have_no_key),
        cmocka_unit_test(a_key_is_found_however_it_is_escaped),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(json_that_was_written_is_read_back),
        cmocka_unit_test(whole_numbers_are_decoded_and_others_refused),
        cmocka_unit_test(values_are_found_by_key_and_kind),
        cmocka_unit_test(text_that_is_not_json_breaks_the_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
