/* Unit tests of the command's parts that need no database. */
#include "base/err.h"
#include "base/mem.h"
#include "base/text/suggest.h"
#include "cli/bench/bench.h"
#include "cli/bench/histogram.h"
#include "cli/core/args.h"
#include "cli/core/url.h"
#include "cli/terminal/lines.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/work/deliver.h"
#include "json/new_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>

static void edit_distance_counts_edits_and_swaps(void **state)
{
    (void)state;
    assert_int_equal(suggest_distance("", ""), 0);
    assert_int_equal(suggest_distance("publish", "publish"), 0);
    assert_int_equal(suggest_distance("pubish", "publish"), 1);
    assert_int_equal(suggest_distance("publsih", "publish"), 1);
    assert_int_equal(suggest_distance("kitten", "sitting"), 3);
    assert_int_equal(suggest_distance("", "abc"), 3);
    assert_int_equal(suggest_distance("abc", ""), 3);
}

static void the_nearest_word_is_suggested_if_it_is_close_enough(void **state)
{
    struct suggest suggest;

    (void)state;
    suggest_init(&suggest, "lsit");
    suggest_offer(&suggest, "show");
    suggest_offer(&suggest, "list");
    suggest_offer(&suggest, "last");
    assert_string_equal(suggest.best, "list");
    suggest_init(&suggest, "zzzz");
    suggest_offer(&suggest, "show");
    assert_null(suggest.best);
    suggest_init(&suggest, "comp");
    suggest_offer(&suggest, "completion");
    assert_string_equal(suggest.best, "completion");
}

static int by_value(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void percentiles_are_at_most_one_bucket_too_high(void **state)
{
    static struct histogram histogram;
    static int64_t values[10000];
    static const double parts[] = {0.01, 0.5, 0.9, 0.99, 0.999};
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (size_t i = 0; i < 10000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        values[i] = (int64_t)(seed >> (seed % 40 + 20));
        histogram_add(&histogram, values[i]);
    }
    qsort(values, 10000, sizeof values[0], by_value);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        double exact = (double)values[(size_t)(parts[i] * 10000 + 0.5) - 1] / 1e6;
        double told = histogram_ms(&histogram, parts[i]);
        assert_true(told >= exact);
        assert_true(told <= exact * 1.008 + 1e-6);
    }
    assert_true(histogram_max_ms(&histogram) == (double)values[9999] / 1e6);
}

static void an_empty_histogram_answers_zero(void **state)
{
    static struct histogram histogram;

    (void)state;
    assert_true(histogram_ms(&histogram, 0.99) == 0);
    histogram_add(&histogram, -5);
    histogram_add(&histogram, INT64_MAX);
    assert_true(histogram_ms(&histogram, 1.0) == (double)INT64_MAX / 1e6);
}

static void commands_end_before_their_subscription_times_out(void **state)
{
    (void)state;
    for (int64_t timeout_ms = 1; timeout_ms < 100000; timeout_ms += timeout_ms / 7 + 1) {
        int64_t run_ms;
        int64_t grace_ms;
        deliver_times(timeout_ms, &run_ms, &grace_ms);
        assert_true(run_ms >= timeout_ms / 2);
        assert_true(grace_ms <= 1000);
        if (timeout_ms >= 60) {
            assert_true(run_ms + grace_ms < timeout_ms);
        }
    }
}

static void places_are_read(void **state)
{
    const int64_t now_us = INT64_C(1800000000000000);
    hf_place place;

    (void)state;
    assert_true(args_value_place("start", now_us, &place));
    assert_int_equal(place.kind, HF_PLACE_START);
    assert_true(args_value_place("end", now_us, &place));
    assert_int_equal(place.kind, HF_PLACE_NOW);
    assert_true(args_value_place("17", now_us, &place));
    assert_int_equal(place.kind, HF_PLACE_POSITION);
    assert_int_equal(place.value, 17);
    assert_true(args_value_place("2h", now_us, &place));
    assert_int_equal(place.kind, HF_PLACE_TIME);
    assert_int_equal(place.value, now_us - INT64_C(7200000000));
    assert_true(args_value_place("1970-01-02", now_us, &place));
    assert_int_equal(place.value, INT64_C(86400000000));
    assert_false(args_value_place("", now_us, &place));
    assert_false(args_value_place("-1", now_us, &place));
    assert_false(args_value_place("1.5", now_us, &place));
    assert_false(args_value_place("later", now_us, &place));
    assert_false(args_value_place("99999999999999999999", now_us, &place));
}

static void numbers_are_digits_and_nothing_else(void **state)
{
    static const char *const bad[] = {
        "", "-", "+5", " 5", "5 ", "5x", "0x5", "1e3", "9223372036854775808"};
    int64_t number = 0;

    (void)state;
    assert_true(args_value_number("9223372036854775807", 0, INT64_MAX, &number));
    assert_int_equal(number, INT64_MAX);
    assert_false(args_value_number("11", 0, 10, &number));
    assert_false(args_value_number("-1", 0, 10, &number));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(args_value_number(bad[i], INT64_MIN, INT64_MAX, &number));
    }
}

static void durations_and_sizes_are_printed_with_units(void **state)
{
    char words[OUT_WORDS_BYTES];

    (void)state;
    assert_string_equal(out_duration(0, words), "0ms");
    assert_string_equal(out_duration(999, words), "999ms");
    assert_string_equal(out_duration(1500, words), "1.5s");
    assert_string_equal(out_duration(30000, words), "30s");
    assert_string_equal(out_duration(90000, words), "1m30s");
    assert_string_equal(out_duration(9000000, words), "2h30m");
    assert_string_equal(out_duration(90000000, words), "1d1h");
    assert_string_equal(out_duration(-1, words), "-");
    assert_string_equal(out_bytes(1023, words), "1023 B");
    assert_string_equal(out_bytes(1536, words), "1.5 KiB");
    assert_string_equal(out_bytes(INT64_C(3) << 30, words), "3.0 GiB");
    assert_string_equal(out_ago(-1, 0, words), "-");
    assert_string_equal(out_ago(0, 500000, words), "just now");
    assert_string_equal(out_ago(0, 61500000, words), "1m1s ago");
    assert_string_equal(out_ago(20000000, 0, words), "just now");
    assert_string_equal(out_when(20000000, 0, words), "in 20s");
    assert_string_equal(out_when(0, 61500000, words), "1m1s ago");
    assert_string_equal(out_when(-1, 0, words), "-");
}

static void a_benchmark_payload_has_its_size_and_its_number(void **state)
{
    char payload[BENCH_SIZE_MIN];

    (void)state;
    bench_payload(payload, sizeof payload, INT64_MAX);
    assert_int_equal(payload[sizeof payload - 1], '}');
    assert_int_equal(bench_payload_number(payload, sizeof payload), INT64_MAX);
    assert_int_equal(bench_payload_number("{\"a\":1}", 7), -1);
}

static void published_json_is_one_harmless_line(void **state)
{
    static const char payload[] = "{\"a\":\n\t1.50,\r\n\"b\":\"\xc2\x9b\x7f\xe2\x80\xa8\"}";
    struct buf buf;
    struct json_out json;

    (void)state;
    buf_init(&buf, 1000);
    json_out_init(&json, &buf);
    json_object_begin(&json);
    show_raw(&json, "p", payload, sizeof payload - 1);
    json_object_end(&json);
    assert_string_equal(buf_terminate(&buf),
                        "{\"p\":{\"a\":  1.50,  \"b\":\"\\u009b\\u007f\\u2028\"}}");
    buf_release(&buf);
}

static void lines_are_read_whole_however_the_input_is_cut(void **state)
{
    struct lines lines;
    struct text line;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    lines_init(&lines, ends[0], 100);
    assert_int_equal(lines_next(&lines, 0, &line), LINES_NONE);
    assert_int_equal(write(ends[1], "one\r\n\ntw", 8), 8);
    assert_int_equal(lines_next(&lines, 0, &line), LINES_LINE);
    assert_true(text_equal(line, text_of("one")));
    assert_int_equal(lines_next(&lines, 0, &line), LINES_LINE);
    assert_int_equal(line.length, 0);
    assert_int_equal(lines_next(&lines, 0, &line), LINES_NONE);
    assert_int_equal(write(ends[1], "o\nlast", 6), 6);
    close(ends[1]);
    assert_int_equal(lines_next(&lines, 0, &line), LINES_LINE);
    assert_true(text_equal(line, text_of("two")));
    assert_int_equal(lines_next(&lines, 0, &line), LINES_LINE);
    assert_true(text_equal(line, text_of("last")));
    assert_int_equal(lines_next(&lines, 0, &line), LINES_END);
    close(ends[0]);
    lines_release(&lines);
}

static void a_line_needs_a_type_and_no_id(void **state)
{
    struct arena arena;
    hf_new_event event;

    (void)state;
    arena_init(&arena, 100000);
    assert_int_equal(
        new_event_read(text_of("{\"type\":\"a\",\"payload\":1.10}"), "it", &arena, &event), HF_OK);
    assert_int_equal(event.payload_bytes, 4);
    assert_memory_equal(event.payload, "1.10", 4);
    assert_null(event.id);
    assert_int_equal(event.expected_version, -1);
    assert_int_equal(new_event_read(text_of("{\"typ\":\"a\"}"), "it", &arena, &event), HF_INVALID);
    assert_non_null(strstr(err_message(), "did you mean \"type\""));
    arena_release(&arena);
}

/* Every option of the tables is well formed: what the parser, the help and completion rely on. */
static void a_shown_url_has_no_password(void **state)
{
    static const struct {
        const char *url;
        const char *shown;
    } cases[] = {
        {"sqlite:a:b@c.db", "sqlite:a:b@c.db"},
        {"plain.db", "plain.db"},
        {"postgres:///db", "postgres:///db"},
        {"postgres://h:5432/db?user=u", "postgres://h:5432/db?user=u"},
        {"postgres://u@h:5432/db", "postgres://u@h:5432/db"},
        {"postgres://u:secret@h/db", "postgres://u:***@h/db"},
        {"postgresql://u:se@c/r?et@h/db", "postgresql://u:***@h/db"},
        {"postgres://u:secret@h/db?password=se@cret&user=x",
         "postgres://u:***@h/db?password=***&user=x"},
        {"postgres:///db?sslpassword=secret", "postgres:///db?sslpassword=***"},
        {"postgres:///db?password=&x=1", "postgres:///db?password=***&x=1"},
        {"postgres:///db?pass%77ord=secret", "postgres:///db?pass%77ord=***"},
        {"postgres://?", "postgres://?"},
        {"postgres:", "postgres:"},
    };
    char shown[URL_SHOWN_BYTES];
    char engine[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(url_shown(cases[i].url, shown), cases[i].shown);
    }
    assert_string_equal(url_engine("postgresql://x", engine, sizeof engine), "postgres");
    assert_string_equal(url_engine("postgres://x", engine, sizeof engine), "postgres");
    assert_string_equal(url_engine("sqlite:x", engine, sizeof engine), "sqlite");
    assert_string_equal(url_engine("x.db", engine, sizeof engine), "sqlite");
}

static void check_rows(const struct option_row *row)
{
    for (; row && row->name; row++) {
        assert_non_null(row->help);
        assert_true((row->kind == OPTION_FLAG) == (row->argument == NULL));
        assert_true((row->kind == OPTION_CHOICE) == (row->choices != NULL));
        if (row->kind == OPTION_NUMBER || row->kind == OPTION_DECIMAL || row->kind == OPTION_SIZE) {
            assert_true(row->min <= row->max);
        }
    }
}

static void the_tables_are_well_formed(void **state)
{
    (void)state;
    check_rows(args_global);
    for (size_t i = 0; commands[i]; i++) {
        assert_non_null(commands[i]->name);
        assert_non_null(commands[i]->usage);
        assert_non_null(commands[i]->summary);
        assert_non_null(commands[i]->examples);
        assert_non_null(commands[i]->run);
        assert_true(commands[i]->words_min <= commands[i]->words_max);
        check_rows(commands[i]->options);
        check_rows(commands[i]->more);
    }
}

/* The last test: a failure of the output stays. */
static void a_line_without_memory_counts_as_failed_output(void **state)
{
    struct buf line;

    (void)state;
    assert_false(out_failed());
    buf_init(&line, 4);
    buf_append(&line, "12345", 5);
    out_json_line(&line);
    buf_release(&line);
    assert_true(out_failed());
    assert_false(out_finish());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edit_distance_counts_edits_and_swaps),
        cmocka_unit_test(the_nearest_word_is_suggested_if_it_is_close_enough),
        cmocka_unit_test(percentiles_are_at_most_one_bucket_too_high),
        cmocka_unit_test(an_empty_histogram_answers_zero),
        cmocka_unit_test(commands_end_before_their_subscription_times_out),
        cmocka_unit_test(places_are_read),
        cmocka_unit_test(numbers_are_digits_and_nothing_else),
        cmocka_unit_test(durations_and_sizes_are_printed_with_units),
        cmocka_unit_test(a_benchmark_payload_has_its_size_and_its_number),
        cmocka_unit_test(published_json_is_one_harmless_line),
        cmocka_unit_test(lines_are_read_whole_however_the_input_is_cut),
        cmocka_unit_test(a_line_needs_a_type_and_no_id),
        cmocka_unit_test(a_shown_url_has_no_password),
        cmocka_unit_test(the_tables_are_well_formed),
        cmocka_unit_test(a_line_without_memory_counts_as_failed_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
