/* Unit tests of base/buf. */
#include "base/mem.h"
#include "base/text/buf.h"
#include "unit.h"

static void pieces_are_appended_in_order_and_terminated(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    assert_string_equal(buf_terminate(&buf), "");
    assert_true(text_equal(buf_text(&buf), text_of("")));
    buf_append(&buf, "a\0b", 3);
    buf_append_text(&buf, text_of("c"));
    buf_append_text(&buf, TEXT_ABSENT);
    buf_char(&buf, 'd');
    buf_printf(&buf, "%05d", 42);
    assert_ok(buf_status(&buf));
    assert_true(text_equal(buf_text(&buf), (struct text){"a\0bcd00042", 10}));
    assert_int_equal(buf_terminate(&buf)[10], '\0');
    buf_release(&buf);
}

static void printf_grows_the_buffer_as_needed(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 5000);
    for (int i = 0; i < 100; i++) {
        buf_printf(&buf, "%0*d", i % 50, i % 10);
    }
    buf_printf(&buf, "%s", "");
    assert_ok(buf_status(&buf));
    assert_int_equal(buf.length, strlen(buf_terminate(&buf)));
    assert_int_equal(buf.length, 2 * (1 + 49 * 50 / 2)); /* a width of 0 still prints a digit */
    buf_release(&buf);
}

static void the_maximum_is_exact_for_every_way_to_append(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 3);
    buf_append(&buf, "abc", 3);
    assert_ok(buf_status(&buf));
    buf_char(&buf, 'd');
    assert_int_equal(buf_status(&buf), HF_INVALID);
    assert_message("limit of 3 bytes");
    assert_string_equal(buf_terminate(&buf), "abc");

    buf_clear(&buf);
    buf_printf(&buf, "%d", 123);
    assert_ok(buf_status(&buf));
    buf_clear(&buf);
    buf_char(&buf, 'x');
    buf_printf(&buf, "%d", 123);
    assert_int_equal(buf_status(&buf), HF_INVALID);
    assert_string_equal(buf_terminate(&buf), "x");
    buf_release(&buf);
}

static void after_a_failure_nothing_is_appended_until_clear(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 4);
    buf_append(&buf, "too long", 8);
    buf_char(&buf, 'a');
    buf_printf(&buf, "b");
    assert_int_equal(buf_status(&buf), HF_INVALID);
    assert_int_equal(buf.length, 0);
    buf_clear(&buf);
    buf_char(&buf, 'a');
    assert_ok(buf_status(&buf));
    assert_string_equal(buf_terminate(&buf), "a");
    buf_release(&buf);
}

static void detach_gives_the_bytes_away(void **state)
{
    struct buf buf;
    size_t length = 99;

    (void)state;
    buf_init(&buf, 100);
    buf_append(&buf, "abc", 3);

    char *bytes = buf_detach(&buf, &length);

    assert_string_equal(bytes, "abc");
    assert_int_equal(length, 3);
    assert_null(buf.bytes);
    mem_free(bytes);

    bytes = buf_detach(&buf, &length);
    assert_string_equal(bytes, "");
    assert_int_equal(length, 0);
    mem_free(bytes);
}

static void reserved_room_is_written_in_place(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 200);
    buf_char(&buf, '<');
    memset(buf_reserve(&buf, 150), 'x', 150);
    buf_advance(&buf, 2);
    buf_char(&buf, '>');
    assert_string_equal(buf_terminate(&buf), "<xx>");
    assert_null(buf_reserve(&buf, 197));
    assert_int_equal(buf_status(&buf), HF_INVALID);
    buf_release(&buf);
}

#ifdef HF_FAULTS
static void out_of_memory_is_sticky_and_keeps_what_was_there(void **state)
{
    int64_t before = mem_live();
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    buf_append(&buf, "abc", 3);
    mem_fail_at(1, false);
    buf_printf(&buf, "%100d", 1);
    buf_char(&buf, 'd');
    assert_int_equal(buf_status(&buf), HF_NOMEM);
    assert_string_equal(buf_terminate(&buf), "abc");
    assert_null(buf_detach(&buf, NULL));
    buf_release(&buf);
    assert_int_equal(mem_live(), before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_appended_in_order_and_terminated),
        cmocka_unit_test(printf_grows_the_buffer_as_needed),
        cmocka_unit_test(the_maximum_is_exact_for_every_way_to_append),
        cmocka_unit_test(after_a_failure_nothing_is_appended_until_clear),
        cmocka_unit_test(detach_gives_the_bytes_away),
        cmocka_unit_test(reserved_room_is_written_in_place),
#ifdef HF_FAULTS
        cmocka_unit_test(out_of_memory_is_sticky_and_keeps_what_was_there),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
