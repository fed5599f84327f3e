/* Unit tests of base/err. */
#include "base/text/utf8.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>

static void fail_returns_the_status_and_keeps_the_sentence(void **state)
{
    (void)state;
    assert_int_equal((fail)(HF_INVALID, "type is %d bytes", 300), HF_INVALID);
    assert_string_equal(err_message(), "type is 300 bytes");
    err_set(HF_INVALID, "");
    assert_string_equal(err_message(), "");
}

static void a_sentence_may_quote_the_one_before(void **state)
{
    (void)state;
    (fail)(HF_IO, "disk on fire");
    (fail)(HF_IO, "bus: %s", err_message());
    assert_string_equal(err_message(), "bus: disk on fire");
    err_set(HF_IO, err_message());
    assert_string_equal(err_message(), "bus: disk on fire");
}

static void a_long_sentence_is_cut_between_characters_and_marked(void **state)
{
    (void)state;
    for (int shift = 0; shift < 3; shift++) {
        char text[3 * HF_ERR_BYTES_MAX + 4] = "xx";
        size_t length = (size_t)shift;

        while (length + 3 < sizeof text) {
            memcpy(text + length, "€", 3);
            length += 3;
        }
        text[length] = '\0';
        err_set(HF_INVALID, text);

        const char *message = err_message();

        assert_true(strlen(message) < HF_ERR_BYTES_MAX);
        assert_true(strlen(message) > HF_ERR_BYTES_MAX - 8);
        assert_true(utf8_is_valid(text_of(message)));
        assert_string_equal(message + strlen(message) - 3, "…");
    }
}

static void a_sentence_that_just_fits_is_not_cut(void **state)
{
    char text[HF_ERR_BYTES_MAX];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_set(HF_INVALID, text);
    assert_string_equal(err_message(), text);
}

static void fail_leaves_errno_alone(void **state)
{
    (void)state;
    errno = ENOSPC;
    (fail)(HF_NOSPACE, "%s", strerror(errno));
    assert_int_equal(errno, ENOSPC);
}

static void *fail_elsewhere(void *ctx)
{
    (void)ctx;
    assert_string_equal(err_message(), "");
    (fail)(HF_IO, "from the other thread");
    return NULL;
}

static void each_thread_has_its_own_sentence(void **state)
{
    pthread_t thread;

    (void)state;
    (fail)(HF_INVALID, "mine");
    pthread_create(&thread, NULL, fail_elsewhere, NULL);
    pthread_join(thread, NULL);
    assert_string_equal(err_message(), "mine");
}

static void every_status_has_a_name_a_text_and_a_retriable_mark(void **state)
{
    (void)state;
#define CHECK_STATUS(status, value, retriable, text)                                               \
    assert_string_equal(status_name(status), #status);                                             \
    assert_string_equal(status_text(status), text);                                                \
    assert_int_equal(status_retriable(status), retriable);
    HF_STATUS_MAP(CHECK_STATUS)
#undef CHECK_STATUS
    assert_string_equal(status_name((hf_status)999), "HF_?");
    assert_false(status_retriable((hf_status)999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_returns_the_status_and_keeps_the_sentence),
        cmocka_unit_test(a_sentence_may_quote_the_one_before),
        cmocka_unit_test(a_long_sentence_is_cut_between_characters_and_marked),
        cmocka_unit_test(a_sentence_that_just_fits_is_not_cut),
        cmocka_unit_test(fail_leaves_errno_alone),
        cmocka_unit_test(each_thread_has_its_own_sentence),
        cmocka_unit_test(every_status_has_a_name_a_text_and_a_retriable_mark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
