/* Unit tests of base/json_scan: a walk that checks what it walks over. */
#include "base/text/json_scan.h"
#include "unit.h"

static void a_scan_takes_the_members_that_a_walk_over_checked_text_takes(void **state)
{
    static const char *const table[] = {
        "{}",
        " { } ",
        "[]",
        "[ ]",
        "[1]",
        "[1 , \"a\" ,[],{},null ]",
        "{\"a\":1}",
        " {\"a\\\"\" : [1,{\"b\":[]}] , \"\":\"12345678901234567\" , \"c\":-1.5e3,\"d\":{} }\n",
        "[[[[1],2],3],{\"a\":{\"b\":{\"c\":[{}]}}}]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct text text = text_of(table[i]);
        struct text key, value, scanned_key, scanned_value;
        struct json_scan scan;
        struct json_iter iter;

        json_scan_begin(&scan, text, 0);
        assert_true(json_iter_init(&iter, text));
        assert_true(json_scan_enter(&scan, iter.object ? JSON_OBJECT : JSON_ARRAY));
        while (json_iter_next(&iter, &key, &value)) {
            assert_true(json_scan_next(&scan, &scanned_key, &scanned_value));
            assert_true(text_equal(key, scanned_key));
            assert_true(text_equal(value, scanned_value));
            assert_ptr_equal(value.bytes, scanned_value.bytes);
        }
        assert_false(json_scan_next(&scan, &scanned_key, &scanned_value));
        assert_true(json_scan_end(&scan));
    }
}

static void levels_are_entered_one_after_the_other(void **state)
{
    struct text key, value;
    struct json_scan scan;
    int members = 0;

    (void)state;
    json_scan_begin(&scan, text_of("[ {\"a\":1,\"b\":[2]} , {} ,{\"c\":3}]"), 0);
    assert_false(json_scan_enter(&scan, JSON_OBJECT));
    assert_true(json_scan_enter(&scan, JSON_ARRAY));
    for (int i = 0; i < 3; i++) {
        assert_true(json_scan_more(&scan, &key));
        assert_true(text_is_absent(key));
        assert_ok(json_scan_object(&scan, "it"));
        while (json_scan_next(&scan, &key, &value)) {
            members++;
        }
    }
    assert_false(json_scan_more(&scan, &key));
    assert_true(json_scan_end(&scan));
    assert_int_equal(members, 3);
}

static void what_is_no_object_is_refused_as_such(void **state)
{
    struct json_scan scan;

    (void)state;
    json_scan_begin(&scan, text_of(" [1]"), 0);
    assert_int_equal(json_scan_object(&scan, "it"), HF_INVALID);
    assert_string_equal(err_message(), "it is JSON but not an object; it must begin with '{'");
    json_scan_begin(&scan, text_of("[1"), 0);
    assert_int_equal(json_scan_object(&scan, "it"), HF_INVALID);
    assert_message("it is not valid JSON at byte 2");
}

/* Walks as a reader of an array of objects does. False: refused, with a message. */
static bool walk(struct text text)
{
    struct text key, value;
    struct json_scan scan;

    json_scan_begin(&scan, text, 3);
    json_scan_enter(&scan, JSON_ARRAY);
    while (json_scan_more(&scan, &key)) {
        if (!json_scan_enter(&scan, JSON_OBJECT)) {
            json_scan_value(&scan, &value);
            continue;
        }
        while (json_scan_next(&scan, &key, &value)) {
        }
    }
    if (json_scan_end(&scan)) {
        return true;
    }
    assert_int_equal(json_scan_failure(&scan, "input"), HF_INVALID);
    return false;
}

/* Valid text with a byte changed, removed or added: mostly wrong in one place. */
static void a_scan_refuses_what_a_check_refuses_with_the_same_sentence(void **state)
{
    static const char whole[] =
        "[{\"a\":1,\"bc\":[true,null]} , {\"d\\u0041\":\"12345678\xC3\xA9\"},"
        "{},[],-0.5e1,\"x\"]";
    static const char bytes[] = "[]{},:\"\\ 0a-.\x1f\x7f\x80";
    const struct json_limits limits = {.depth_max = 3};
    char refusal[HF_ERR_BYTES_MAX];
    int valid = 0;

    (void)state;
    for (size_t at = 0; at < sizeof whole - 1; at++) {
        for (size_t i = 0; i < 3 * (sizeof bytes - 1); i++) {
            char text[sizeof whole + 1];
            size_t kept = at + (i % 3 != 0); /* 0: put in, 1: in place of, 2: removed */
            size_t length = at;

            memcpy(text, whole, at);
            if (i % 3 != 2) {
                text[length++] = bytes[i / 3];
            }
            memcpy(text + length, whole + kept, sizeof whole - 1 - kept);
            length += sizeof whole - 1 - kept;

            bool right = json_check(text, length, &limits, "input") == HF_OK;
            snprintf(refusal, sizeof refusal, "%s", err_message());
            assert_int_equal(walk((struct text){text, length}), right);
            if (!right) {
                assert_string_equal(err_message(), refusal);
            }
            valid += right;
        }
    }
    assert_true(valid > 100);
}

static void nothing_is_said_of_empty_and_missing_text_but_that(void **state)
{
    struct json_scan scan;

    (void)state;
    json_scan_begin(&scan, text_of(""), 0);
    assert_false(json_scan_end(&scan));
    assert_int_equal(json_scan_failure(&scan, "the body"), HF_INVALID);
    assert_string_equal(err_message(), "the body is empty; JSON was expected");
    json_scan_begin(&scan, TEXT_ABSENT, 0);
    assert_false(json_scan_enter(&scan, JSON_OBJECT));
    assert_false(json_scan_end(&scan));
    assert_int_equal(json_scan_failure(&scan, "the body"), HF_INVALID);
    assert_string_equal(err_message(), "the body is missing; JSON was expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_takes_the_members_that_a_walk_over_checked_text_takes),
        cmocka_unit_test(levels_are_entered_one_after_the_other),
        cmocka_unit_test(what_is_no_object_is_refused_as_such),
        cmocka_unit_test(a_scan_refuses_what_a_check_refuses_with_the_same_sentence),
        cmocka_unit_test(nothing_is_said_of_empty_and_missing_text_but_that),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
