/* Unit tests of the configuration file: reading, checking, precedence, secrets. */
#include "base/err.h"
#include "base/mem.h"
#include "bus/options.h"
#include "cli/config/config.h"
#include "cli/config/secret.h"
#include "cli/config/setting.h"
#include "cli/config/yaml.h"
#include "cli/core/args_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW_US (INT64_C(1800000000) * 1000000)

static struct config config;
static struct config_problems problems;

/* The smallest file that is complete; more keys of the subscription may follow. */
#define COMPLETE                                                                                   \
    "subscriptions:\n"                                                                             \
    "  - name: a\n"                                                                                \
    "    on: user.*\n"                                                                             \
    "    from: start\n"                                                                            \
    "    handler: {exec: 'true'}\n"

static bool read_text(const char *text)
{
    return config_read(&config, text_of(text), NOW_US, &problems);
}

static const struct config_value *value_of(size_t subscription, const char *path)
{
    size_t index = config_key_known(CONFIG_SUBSCRIPTION, path);
    return &config.subscriptions[subscription]->values[index];
}

/* ---- What is good ---------------------------------------------------------------------------- */

static void a_complete_file_is_read_with_values_and_lines(void **state)
{
    (void)state;
    assert_true(read_text("database:\n"
                          "  url: sqlite:shop.db\n"
                          "  timeout: 5s\n"
                          "subscriptions:\n"
                          "- name: mailer\n"
                          "  on: [user.*, 'order.**', \"*\"]\n"
                          "  from: 2h\n"
                          "  mode: shared\n"
                          "  batch: 50\n"
                          "  retry:\n"
                          "    base: 250ms\n"
                          "    multiplier: 1.5\n"
                          "  handler:\n"
                          "    exec: |\n"
                          "      cat >/dev/null\n"
                          "      \techo done\n"
                          "- {name: b, on: x, from: 17, handler: {exec: [a, '']}}\n"));
    assert_int_equal(config.subscription_count, 2);
    assert_string_equal(config.subscriptions[0]->name, "mailer");
    assert_int_equal(value_of(0, "on")->item_count, 3);
    assert_string_equal(value_of(0, "on")->items[2], "*");
    assert_int_equal(value_of(0, "from")->value.place.kind, HF_PLACE_TIME);
    assert_true(value_of(0, "from")->value.place.value == NOW_US - INT64_C(7200000000));
    assert_int_equal(value_of(0, "mode")->value.number, HF_MODE_SHARED);
    assert_int_equal(value_of(0, "batch")->value.number, 50);
    assert_int_equal(value_of(0, "batch")->place.line, 9);
    assert_int_equal(value_of(0, "retry.base")->value.number, 250);
    assert_true(value_of(0, "retry.multiplier")->value.decimal == 1.5);
    assert_int_equal(value_of(0, "retry.max")->place.line, 0);
    assert_string_equal(value_of(0, "handler.exec")->value.text, "cat >/dev/null\n\techo done\n");
    assert_int_equal(value_of(1, "from")->value.place.kind, HF_PLACE_POSITION);
    assert_int_equal(value_of(1, "handler.exec")->item_count, 2);
    config_release(&config);
}

static void a_section_may_be_one_word(void **state)
{
    (void)state;
    assert_true(read_text(COMPLETE "    checkpoint: each\n    breaker: off\n"));
    assert_int_equal(value_of(0, "checkpoint.events")->value.number, 1);
    assert_int_equal(value_of(0, "breaker.enabled")->value.number, HF_OFF);
    config_release(&config);
}

static void a_breaker_that_is_described_is_on(void **state)
{
    (void)state;
    assert_true(read_text(COMPLETE "    breaker: {events: 5}\n"));
    assert_int_equal(value_of(0, "breaker.enabled")->value.number, HF_ON);
    config_release(&config);
    assert_true(read_text(COMPLETE "    breaker: {enabled: off, events: 5}\n"));
    assert_int_equal(value_of(0, "breaker.enabled")->value.number, HF_OFF);
    config_release(&config);
}

static void a_byte_order_mark_and_crlf_do_no_harm(void **state)
{
    (void)state;
    assert_true(read_text("\xEF\xBB\xBFsubscriptions:\r\n- name: a\r\n  on: x\r\n  from: now\r\n"
                          "  handler:\r\n    exec: ./x\r\n"));
    assert_string_equal(value_of(0, "handler.exec")->value.text, "./x");
    config_release(&config);
}

/* ---- What is bad ----------------------------------------------------------------------------- */

struct bad {
    const char *file;
    int line;
    int column;
    const char *words; /* in the first problem */
};

static const struct bad bad_files[] = {
    {"", 1, 1, "the file says nothing"},
    {"# only this\n", 1, 1, "the file says nothing"},
    {"--- ~\n", 1, 1, "the file says nothing"},
    {"- a\n", 1, 1, "here is a list"},
    {"nonsense", 1, 1, "here is a text"},
    {"database: {}\n", 1, 1, "subscriptions is missing"},
    {"subscriptions: []\n", 1, 16, "an empty one"},
    {"subscriptions: {}\n", 1, 16, "here is a mapping"},
    {"subscriptions:\n", 1, 15, "here is nothing"},
    {"subscriptions:\n- 5\n", 2, 3, "subscriptions[0] is a mapping with the keys name, on"},
    {"datbase: {}\n" COMPLETE, 1, 1, "datbase: there is no such key; did you mean database?"},
    {"zzz: {}\n" COMPLETE, 1, 1,
     "no such key (allowed: database, subscriptions, schedules, retention, serve)"},
    {"schedule: []\n" COMPLETE, 1, 1, "did you mean schedules?"},
    {"schedules: []\n" COMPLETE, 1, 12, "schedules is a list with at least one member"},
    {"schedules: {a: b}\n" COMPLETE, 1, 12, "here is a mapping"},
    {"schedules: [5]\n" COMPLETE, 1, 13, "schedules[0] is a mapping with the keys name, cron"},
    {"schedules: [{}]\n" COMPLETE, 1, 13, "schedules[0].name is missing"},
    {"schedules: [{name: a, cron: '@daily'}]\n" COMPLETE, 1, 13,
     "schedules[0].type is missing; it takes the type of an event"},
    {"schedules: [{name: a, crom: '@daily', type: t}]\n" COMPLETE, 1, 13, "schedules[0].cron is "},
    {"schedules: [{name: a, cron: '0 25 * * *', type: t}]\n" COMPLETE, 1, 29,
     "schedules[0].cron: cron expression: hour \"25\" at byte 2 is out of range"},
    {"schedules: [{name: a, cron: '0 0 30 2 *', type: t}]\n" COMPLETE, 1, 29, "never fires"},
    {"schedules: [{name: a, cron: [1], type: t}]\n" COMPLETE, 1, 29,
     "schedules[0].cron takes a cron expression, as '0 9 * * MON-FRI', not a list"},
    {"schedules: [{name: a, cron: '@daily', type: 'a b'}]\n" COMPLETE, 1, 45,
     "schedules[0].type: "},
    {"schedules: [{name: a, expression: '@daily', type: t}]\n" COMPLETE, 1, 13, "cron is missing"},
    {"schedules: [{name: '', cron: '@daily', type: t}]\n" COMPLETE, 1, 20, "the name is empty"},
    {"schedules:\n- {name: a, cron: '@daily', type: t}\n"
     "- {name: a, cron: '@daily', type: u}\n" COMPLETE,
     3, 10, "schedules[1].name: 'a' is also the name of the one in line 2"},
    {"retention: 5\n" COMPLETE, 1, 12, "retention is a mapping with the keys age, bytes, lagging"},
    {"retention: {age: 90}\n" COMPLETE, 1, 18, "retention.age"},
    {"retention: {bytes: huge}\n" COMPLETE, 1, 20, "retention.bytes"},
    {"retention: {lagging: skip}\n" COMPLETE, 1, 22, "keep|drop"},
    {"retention: {aeg: 90d}\n" COMPLETE, 1, 13, "did you mean age?"},
    {"- 5\n", 1, 1,
     "the keys database, subscriptions, schedules, retention and serve; here is a list"},
    {"database: 5\n" COMPLETE, 1, 11, "database is a mapping with the keys url"},
    {"database: {url: 'postgres://app@${HOST}/shop'}\n" COMPLETE, 1, 17,
     "database.url: variables (${HOST}) are not replaced"},
    {"database: {ulr: x}\n" COMPLETE, 1, 12, "database.ulr: there is no such key; did you mean u"},
    {"database: {url: }\n" COMPLETE, 1, 17, "database.url takes a text, not nothing"},
    {"database: {url: ''}\n" COMPLETE, 1, 17, "database.url: it must not be empty"},
    {"database: {url: ~}\n" COMPLETE, 1, 17, "not nothing"},
    {"database: {url: [a]}\n" COMPLETE, 1, 17, "not a list"},
    {"database: {url: a, url_file: b}\n" COMPLETE, 1, 30, "only one may be"},
    {"database: {password_file: b}\n" COMPLETE, 1, 27, "there is none"},
    {"database: {url: a, password_file: b}\n" COMPLETE, 1, 35, "has no password"},
    {"database: {password: b}\n" COMPLETE, 1, 12, "password_file"},
    {"database: {timeout: 5}\n" COMPLETE, 1, 21, "a time with its unit"},
    {"database: {timeout: 0s}\n" COMPLETE, 1, 21, "from 1ms to 1d"},
    {"database: {durability: powr}\n" COMPLETE, 1, 24, "not 'powr'; did you mean power"},
    {"database: {node: \"a\\tb\"}\n" COMPLETE, 1, 18, "database.node: "},
    {"database: {namespace: ' a'}\n" COMPLETE, 1, 23, "database.namespace: "},
    {"subscriptions: [{}]\n", 1, 17, "subscriptions[0].name is missing"},
    {"subscriptions: [{name: a, name: b, on: x, from: now, handler: {exec: x}}]\n", 1, 27,
     "the key 'name' is here for the second time; the first is in line 1"},
    {COMPLETE "    retyr: {}\n", 6, 5, "did you mean retry?"},
    {COMPLETE "    retry.base: 1s\n", 6, 5, "there is no such key"},
    {COMPLETE "    retry: 5\n", 6, 12, "retry is a mapping with the keys attempts, base"},
    {COMPLETE "    retry: {base: 1m}\n", 6, 19, "max is less than base"},
    {COMPLETE "    retry: {max: 10ms}\n", 6, 18, "max is less than base"},
    {COMPLETE "    retry: {attempts: 0}\n", 6, 23, "a whole number from 1 to 100, not '0'"},
    {COMPLETE "    retry: {multiplier: 1e3}\n", 6, 25, "a number from 1 to 100"},
    {COMPLETE "    retry: {multiplier: nan}\n", 6, 25, "a number from 1 to 100"},
    {COMPLETE "    total_partitions: 4\n", 6, 23,
     "subscriptions[0].total_partitions: it says of how many those of partition are, and there is"},
    {COMPLETE "    partition: 0-9\n    partitions: 4\n", 6, 16,
     "partition: '0-9' has a number above 3, the highest; partitions is 4 (line 7)"},
    {COMPLETE "    partition: '1'\n", 6, 16,
     "partition: '1' has a number above 0, the highest; partitions is 1 (the default)"},
    {COMPLETE "    partitions: 4\n    partition: 1\n    total_partitions: 8\n", 8, 23,
     "total_partitions: it is 8, and partitions is 4 (line 6); they must be the same"},
    {COMPLETE "    partition: 0\n    mode: shared\n", 6, 16,
     "partition: mode is shared (line 7), which has no partitions to assign"},
    {COMPLETE "    partition: 0\n    instance_mode: single\n", 6, 16,
     "partition: instance_mode is single (line 7)"},
    {COMPLETE "    partition: 1,x\n", 6, 16, "partition: '1,x' is not a list of numbers"},
    {COMPLETE "    batch: 10001\n", 6, 12, "from 1 to 10000"},
    {COMPLETE "    batch: 99999999999999999999\n", 6, 12, "from 1 to 10000"},
    {COMPLETE "    batch: -1\n", 6, 12, "from 1 to 10000"},
    {COMPLETE "    batch: [1]\n", 6, 12, "not a list"},
    {COMPLETE "    concurrency: 257\n", 6, 18, "from 1 to 256"},
    {COMPLETE "    checkpoint: eech\n", 6, 17, "did you mean each?"},
    {COMPLETE "    checkpoint: [each]\n", 6, 17, "here is a list"},
    {COMPLETE "    breaker: {percent: 100}\n", 6, 24, "from 0 to 99"},
    {COMPLETE "    lease: 8d\n", 6, 12, "from 10ms to 7d"},
    {COMPLETE "    transactional: off\n", 6, 5, "is not for commands"},
    {COMPLETE "    tx_max: 1s\n", 6, 5, "transactional handlers"},
    {COMPLETE "    exec: x\n", 6, 5, "belongs below handler"},
    {COMPLETE "    <<: {batch: 1}\n", 6, 5, "merge keys are not allowed"},
    {COMPLETE "  - {name: a, on: x, from: now, handler: {exec: x}}\n", 6, 12,
     "is also the name of the one in line 2"},
    {"subscriptions:\n- {name: a, on: [], from: now, handler: {exec: x}}\n", 2, 17, "here are 0"},
    {"subscriptions:\n- {name: a, on: [a..b], from: now, handler: {exec: x}}\n", 2, 18,
     "on: pattern has an empty segment"},
    {"subscriptions:\n- {name: a, on: [[a]], from: now, handler: {exec: x}}\n", 2, 18,
     "not a list"},
    {"subscriptions:\n- {name: a, on: x, from: soon, handler: {exec: x}}\n", 2, 26,
     "from takes start, now, a position"},
    {"subscriptions:\n- {name: a, on: x, from: now, handler: {http: 'https://x', exec: x}}\n", 2,
     47, "handler.http: there is also handler.exec in line 2; only one may be"},
    {"subscriptions:\n- {name: a, on: x, from: now, handler: {exec: []}}\n", 2, 47, "here are 0"},
    {"subscriptions:\n- {name: a, on: x, from: now, handler: ./x}\n", 2, 40,
     "handler is a mapping with the keys exec, output, http, http_format, "},
    {"subscriptions:\n- {name: '', on: x, from: now, handler: {exec: x}}\n", 2, 10, "name: "},
    /* YAML itself */
    {"a: [b\n", 2, 1, "this is no valid YAML"},
    {"a: 'b\n", 2, 1, "this is no valid YAML"},
    {"a: b: c\n", 1, 5, "this is no valid YAML"},
    {"database:\n\turl: x\n", 2, 1, "a tab in the indentation"},
    {"database:\n  \turl: x\n", 2, 3, "a tab in the indentation"},
    {"a: &x 1\n" COMPLETE, 1, 1, "a: there is no such key"},
    {"subscriptions: &x 1\n", 1, 16, "anchors (&x) and aliases are not allowed"},
    {"subscriptions: *x\n", 1, 16, "aliases (*x) are not allowed"},
    {"subscriptions:\n- {name: a, on: *, from: now}\n", 2, 18, "needs quotes: '*'"},
    {"subscriptions: !!seq []\n", 1, 16, "tags (tag:yaml.org,2002:seq) are not allowed"},
    {"--- {}\n--- {}\n", 2, 1, "a second document begins here"},
    {"? [a]\n: b\n", 1, 3, "a key must be a text, not a list"},
    {"*a : b\n", 1, 1, "aliases"},
    {"\xff\n", 1, 1, "byte 0xFF is not UTF-8"},
    {"a: b\nc: \xc3(\n", 2, 4, "byte 0xC3 is not UTF-8"},
    {"a: \x01\n", 1, 4, "control characters are not allowed"},
    {"subscriptions: \"a\\0b\"\n", 1, 16, "there is a NUL in the text"},
    {"\"a\\0b\": 1\n" COMPLETE, 1, 1, "there is a NUL in the key"},
    {"[[[[[[[[[[[[a]]]]]]]]]]]]", 1, 9, "nested more than 8 deep"},
};

/* Members of a schedule that is good without them. */
#define SCHEDULE "schedules: [{name: a, cron: '@daily', type: t, "

static const struct bad_member {
    const char *member;
    int column; /* within it */
    const char *words;
} bad_members[] = {
    {"zone: Europe/Atlantis", 7, "schedules[0].zone: there is no time zone Europe/Atlantis"},
    {"zone: ../etc/passwd", 7, "schedules[0].zone: "},
    {"payload: '{'", 10, "schedules[0].payload: it is not valid JSON at byte 1"},
    {"payload: {n: 1}", 10, "schedules[0].payload takes JSON as a text"},
    {"metadata: '5'", 11, "schedules[0].metadata: it "},
    {"misfire: onec", 10, "did you mean once?"},
    {"misfire_cap: 0", 14, "from 1 to 1000"},
    {"grace: 5", 8, "unit"},
    {"active: maybe", 9, "off"},
    {"driver: systemd", 9, "pg_cron"},
    {"driver: pg_cron, zone: Asia/Baku", 24,
     "schedules[0].zone: pg_cron knows none but UTC, and is the driver in line 1"},
    {"paused: on", 1, "schedules[0].paused is called active here"},
};

static void must_be_told(const char *file, int line, int column, const char *words)
{
    const struct config_problem *first = &problems.kept[0];

    if (read_text(file) || problems.count == 0) {
        fail_msg("this was taken: %s", file);
    }
    if (!strstr(first->text, words) || first->place.line != line || first->place.column != column) {
        fail_msg("%s: got %d:%d: %s; wanted %d:%d: %s", file, first->place.line,
                 first->place.column, first->text, line, column, words);
    }
}

static void every_mistake_is_reported_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        const struct bad *bad = &bad_files[i];

        must_be_told(bad->file, bad->line, bad->column, bad->words);
    }
}

static void every_mistake_in_a_schedule_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_members / sizeof bad_members[0]; i++) {
        const struct bad_member *bad = &bad_members[i];
        char file[512];

        snprintf(file, sizeof file, SCHEDULE "%s}]\n" COMPLETE, bad->member);
        must_be_told(file, 1, (int)strlen(SCHEDULE) + bad->column, bad->words);
    }
}

static void a_nul_byte_is_reported(void **state)
{
    static const char bytes[] = "a: b\n\0c: d\n";

    (void)state;
    assert_false(config_read(&config, (struct text){bytes, sizeof bytes - 1}, NOW_US, &problems));
    assert_int_equal(problems.kept[0].place.line, 2);
    assert_non_null(strstr(problems.kept[0].text, "NUL byte"));
}

static void all_mistakes_are_reported_in_the_order_of_the_file(void **state)
{
    (void)state;
    assert_false(read_text("subscriptions:\n"
                           "- name: a\n"
                           "  batch: 0\n"
                           "  on: x\n"
                           "  modee: shared\n"
                           "  from: now\n"
                           "  handler: {exec: x}\n"
                           "database: {durability: x}\n"));
    assert_int_equal(problems.count, 3);
    assert_int_equal(problems.kept[0].place.line, 3);
    assert_int_equal(problems.kept[1].place.line, 5);
    assert_int_equal(problems.kept[2].place.line, 8);
}

static void the_first_ten_of_many_mistakes_are_kept(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, CONFIG_BYTES_MAX);
    buf_printf(&text, COMPLETE);
    for (int i = 0; i < 30; i++) {
        buf_printf(&text, "    wrong%d: 1\n", i);
    }
    assert_false(read_text(buf_terminate(&text)));
    buf_release(&text);
    assert_int_equal(problems.count, 30);
    for (int i = 0; i < CONFIG_PROBLEMS_MAX; i++) {
        assert_int_equal(problems.kept[i].place.line, 6 + i);
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void repeat(struct buf *text, const char *piece, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_append(text, piece, strlen(piece));
    }
}

static void a_configuration_file_that_is_too_large_is_refused(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, CONFIG_BYTES_MAX * 2);
    repeat(&text, "#", CONFIG_BYTES_MAX + 1);
    assert_false(read_text(buf_terminate(&text)));
    assert_non_null(strstr(problems.kept[0].text, "larger than"));
    buf_clear(&text);
    buf_printf(&text, "subscriptions: [");
    repeat(&text, "1,", CONFIG_MEMBERS_MAX + 1);
    buf_printf(&text, "]\n");
    assert_false(read_text(buf_terminate(&text)));
    assert_non_null(strstr(problems.kept[0].text, "more than 256 members"));
    buf_clear(&text);
    for (int i = 0; i < CONFIG_NODES_MAX / CONFIG_MEMBERS_MAX + 1; i++) {
        buf_printf(&text, "k%d: [", i);
        repeat(&text, "1,", CONFIG_MEMBERS_MAX - 1);
        buf_printf(&text, "]\n");
    }
    assert_false(read_text(buf_terminate(&text)));
    assert_non_null(strstr(problems.kept[0].text, "more than 20000 values"));
    buf_clear(&text);
    repeat(&text, "[", CONFIG_BYTES_MAX);
    assert_false(read_text(buf_terminate(&text)));
    assert_non_null(strstr(problems.kept[0].text, "nested more than"));
    buf_release(&text);
}

static void subscriptions_and_commands_have_a_limit(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, CONFIG_BYTES_MAX);
    buf_printf(&text, "subscriptions:\n");
    for (int i = 0; i <= CONFIG_SUBSCRIPTIONS_MAX; i++) {
        buf_printf(&text, "- {name: s%d, on: x, from: now, handler: {exec: x}}\n", i);
    }
    assert_false(read_text(buf_terminate(&text)));
    assert_non_null(strstr(problems.kept[0].text, "there are 65 subscriptions; 64 is the limit"));
    buf_clear(&text);
    buf_printf(&text, "subscriptions:\n");
    for (int i = 0; i < 6; i++) {
        buf_printf(&text,
                   "- {name: s%d, on: x, from: now, handler: {exec: x}, "
                   "concurrency: 256}\n",
                   i);
    }
    assert_false(read_text(buf_terminate(&text)));
    assert_int_equal(problems.count, 1);
    assert_int_equal(problems.kept[0].place.line, 6);
    assert_non_null(strstr(problems.kept[0].text, "more than 1024 commands"));
    buf_release(&text);
}

static void without_memory_reading_a_configuration_fails_and_leaks_nothing(void **state)
{
#ifdef HF_FAULTS
    int64_t before = mem_live();

    (void)state;
    for (int64_t nth = 1; nth < 1000; nth++) {
        bool good;

        mem_fail_at(nth, false);
        good = read_text("database: {url: x}\n" COMPLETE "    retry: {base: 2s}\n");
        mem_fail_at(0, false);
        if (good) {
            assert_true(nth > 1);
            config_release(&config);
            assert_int_equal(mem_live(), before);
            return;
        }
        assert_true(problems.count > 0);
        assert_int_equal(mem_live(), before);
    }
    fail_msg("it never succeeded");
#else
    (void)state;
    skip();
#endif
}

/* ---- The table ------------------------------------------------------------------------------- */

static double field_value(const hf_subscription_options *options, const struct suboption *field)
{
    const char *at = (const char *)options + field->offset;
    int32_t small;
    int64_t large;
    double real;

    switch (field->kind) {
    case FIELD_ENUM:
    case FIELD_INT32:
        memcpy(&small, at, sizeof small);
        return small;
    case FIELD_INT64:
    case FIELD_DURATION:
        memcpy(&large, at, sizeof large);
        return (double)large;
    case FIELD_DOUBLE:
        memcpy(&real, at, sizeof real);
        return real;
    }
    return 0;
}

static void defaults_are_those_of_the_library(void **state)
{
    hf_subscription_options library;

    (void)state;
    options_default(&library);
    for (size_t i = 0; i < suboptions_count; i++) {
        const struct suboption *field = &suboptions_fields[i];
        hf_subscription_options options = library;
        struct arg_value value = {.row = suboptions_row(field->option), .text = field->initial};
        struct value_form form;

        assert_true(args_value_check(&value, NOW_US, &form));
        suboptions_set(&options, field, &value);
        if (field->offset == offsetof(hf_subscription_options, handler_timeout_ms)) {
            assert_int_equal(options.handler_timeout_ms, INT64_C(31622400000)); /* commands' own */
            continue;
        }
        if (field_value(&options, field) != field_value(&library, field)) {
            fail_msg("%s: the table says %s", field->name, field->initial);
        }
    }
}

/* Whether the library takes the options with one field set to `number`. */
static bool is_taken(const struct suboption *field, int64_t number)
{
    hf_subscription_options options;
    struct arg_value value = {.number = number, .decimal = (double)number};

    options_default(&options);
    options.retry_base_ms = 0;
    if (field->offset != offsetof(hf_subscription_options, retry_max_ms)) {
        options.retry_max_ms = INT64_C(366) * 86400000;
    }
    suboptions_set(&options, field, &value);
    return options_check(&options) == HF_OK;
}

static void limits_are_those_of_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < suboptions_count; i++) {
        const struct suboption *field = &suboptions_fields[i];
        const struct option_row *row = suboptions_row(field->option);
        int64_t max = row->max;
        int64_t min = row->min;

        if (field->kind == FIELD_ENUM) {
            min = 1;
            max = 1;
            for (const char *at = row->choices; *at; at++) {
                max += *at == '|';
            }
        }
        if (!is_taken(field, min) || is_taken(field, min - 1)) {
            fail_msg("%s: the least is not %" PRId64, field->name, min);
        }
        if (!is_taken(field, max) || is_taken(field, max + 1)) {
            fail_msg("%s: the most is not %" PRId64, field->name, max);
        }
    }
}

static void every_field_of_the_options_is_in_the_table(void **state)
{
    struct buf json;
    size_t members = 0;

    hf_subscription_options library;

    (void)state;
    options_default(&library);
    buf_init(&json, 65536);
    assert_int_equal(options_write(&library, &json), HF_OK);
    for (size_t i = 0; i < json.length; i++) {
        members += json.bytes[i] == ':';
    }
    assert_int_equal(members, suboptions_count);
    for (size_t i = 0; i < suboptions_count; i++) {
        assert_non_null(strstr(buf_terminate(&json), suboptions_fields[i].name));
    }
    buf_release(&json);
}

static void every_key_is_found_and_has_a_default_that_is_allowed(void **state)
{
    (void)state;
    for (int scope = CONFIG_DATABASE; scope <= CONFIG_SUBSCRIPTION; scope++) {
        for (size_t i = 0; i < config_key_count(scope); i++) {
            struct config_key key = config_key_at(scope, i);
            size_t index;

            if (!key.path) {
                continue;
            }
            assert_true(config_key_find(scope, key.path, &index));
            assert_int_equal(index, i);
            assert_null(config_refusal(scope, key.path));
            config_initial(&key); /* asserts */
        }
    }
}

/* ---- Precedence ------------------------------------------------------------------------------ */

static struct args args;

static void parse(int argc, const char *const *argv)
{
    char *words[16];

    assert_true(argc <= 16);
    for (int i = 0; i < argc; i++) {
        memcpy(&words[i], &argv[i], sizeof words[i]);
    }
    assert_int_equal(args_parse(&args, argc, words, NOW_US), 0);
}

#define PARSE(...)                                                                                 \
    do {                                                                                           \
        const char *const argv_[] = {"holdfast", "work", __VA_ARGS__};                             \
        parse((int)(sizeof(argv_) / sizeof(argv_[0])), argv_);                                     \
    } while (0)

static struct config_setting database(const char *path)
{
    return config_setting_of(&config, config.database, &args, CONFIG_DATABASE, path);
}

static void a_flag_wins_over_the_environment_the_file_and_the_default(void **state)
{
    const char *url = NULL;

    (void)state;
    unsetenv("HOLDFAST_URL");
    PARSE("--quiet");
    assert_true(read_text(COMPLETE));
    assert_int_equal(database("url").origin, CONFIG_BY_DEFAULT);
    assert_string_equal(database("url").value.text, "sqlite:holdfast.db");
    config_release(&config);
    assert_true(read_text("database:\n  url: sqlite:file.db\n" COMPLETE));
    assert_int_equal(database("url").origin, CONFIG_BY_FILE);
    assert_int_equal(database("url").line, 2);
    setenv("HOLDFAST_URL", "sqlite:environment.db", 1);
    assert_int_equal(database("url").origin, CONFIG_BY_ENVIRONMENT);
    assert_string_equal(database("url").value.text, "sqlite:environment.db");
    PARSE("--db", "sqlite:flag.db");
    assert_int_equal(database("url").origin, CONFIG_BY_FLAG);
    assert_int_equal(config_url(&config, &args, &url), 0);
    assert_string_equal(url, "sqlite:flag.db");
    setenv("HOLDFAST_URL", "", 1);
    PARSE("--quiet");
    assert_int_equal(database("url").origin, CONFIG_BY_FILE);
    unsetenv("HOLDFAST_URL");
    config_release(&config);
}

static void options_are_complete_and_flags_override_them(void **state)
{
    hf_subscription_options options;
    hf_subscription_options library;

    (void)state;
    options_default(&library);
    assert_true(read_text(COMPLETE "    batch: 7\n    concurrency: 3\n"));
    PARSE("--concurrency", "5", "--retries", "0");
    options = config_options(&config, config.subscriptions[0], &args);
    assert_int_equal(options.batch, 7);
    assert_int_equal(options.concurrency, 5);
    assert_int_equal(options.attempts_max, 1);
    assert_int_equal(options.from.kind, HF_PLACE_START);
    assert_int_equal(options.lease_ms, library.lease_ms);
    assert_int_equal(options.mode, library.mode);
    assert_true(options.retry_multiplier == library.retry_multiplier);
    assert_int_equal(options.transactional, HF_TOGGLE_DEFAULT);
    config_release(&config);
}

static void a_command_given_as_a_list_is_quoted(void **state)
{
    struct config_setting setting;

    (void)state;
    PARSE("--quiet");
    assert_true(read_text("subscriptions:\n- {name: a, on: x, from: now, handler: "
                          "{exec: [echo, \"it's\", '$HOME', '']}}\n"));
    setting = config_setting_of(&config, config.subscriptions[0]->values, &args,
                                CONFIG_SUBSCRIPTION, "handler.exec");
    assert_string_equal(config_command(&config, &setting), "exec 'echo' 'it'\\''s' '$HOME' ''");
    config_release(&config);
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static void a_password_is_added_once_and_encoded(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 65536);
    assert_string_equal(config_secret_add(&arena, "postgresql://a@h/db", "x&1"),
                        "postgresql://a@h/db?password=%78%26%31");
    assert_string_equal(config_secret_add(&arena, "postgresql:///db?host=/s", "x"),
                        "postgresql:///db?host=/s&password=%78");
    assert_null(config_secret_add(&arena, "postgresql://a:b@h/db", "x"));
    assert_null(config_secret_add(&arena, "sqlite:x.db", "x"));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_file_is_read_with_values_and_lines),
        cmocka_unit_test(a_section_may_be_one_word),
        cmocka_unit_test(a_breaker_that_is_described_is_on),
        cmocka_unit_test(a_byte_order_mark_and_crlf_do_no_harm),
        cmocka_unit_test(every_mistake_is_reported_with_its_place),
        cmocka_unit_test(every_mistake_in_a_schedule_is_reported),
        cmocka_unit_test(a_nul_byte_is_reported),
        cmocka_unit_test(all_mistakes_are_reported_in_the_order_of_the_file),
        cmocka_unit_test(the_first_ten_of_many_mistakes_are_kept),
        cmocka_unit_test(a_configuration_file_that_is_too_large_is_refused),
        cmocka_unit_test(subscriptions_and_commands_have_a_limit),
        cmocka_unit_test(without_memory_reading_a_configuration_fails_and_leaks_nothing),
        cmocka_unit_test(defaults_are_those_of_the_library),
        cmocka_unit_test(limits_are_those_of_the_library),
        cmocka_unit_test(every_field_of_the_options_is_in_the_table),
        cmocka_unit_test(every_key_is_found_and_has_a_default_that_is_allowed),
        cmocka_unit_test(a_flag_wins_over_the_environment_the_file_and_the_default),
        cmocka_unit_test(options_are_complete_and_flags_override_them),
        cmocka_unit_test(a_command_given_as_a_list_is_quoted),
        cmocka_unit_test(a_password_is_added_once_and_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
