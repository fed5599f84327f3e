/*
 * hf_verify: how it walks. What it finds is tested in tests/cli/verify.sh.
 */
#include "support_scene.h"

#define EVENTS 2500 /* more than two chunks */

struct examined {
    int findings;
    int calls;
    int64_t rows;
};

static int count_finding(const char *name, const char *value, hf_log_level level,
                         const char *advice, void *ctx)
{
    (void)name, (void)value, (void)advice;
    assert_int_equal(level, HF_LOG_ERROR);
    ((struct examined *)ctx)->findings++;
    return 0;
}

static int count_rows(int64_t rows, void *ctx)
{
    struct examined *examined = ctx;
    assert_true(rows >= examined->rows);
    examined->rows = rows;
    examined->calls++;
    return 0;
}

static int enough(int64_t rows, void *ctx)
{
    (void)rows;
    ((struct examined *)ctx)->calls++;
    return 1;
}

/* The payload of every hundredth is large, so that chunks also end by their bytes. */
static void publish_all(hf_bus *bus)
{
    static hf_new_event events[EVENTS];
    static char large[200000];
    memset(large, ' ', sizeof large - 1);
    large[0] = '1';
    for (size_t i = 0; i < EVENTS; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = "t";
        events[i].payload = i % 100 == 0 ? large : "1";
    }
    assert_ok(hf_publish_many(bus, events, EVENTS, NULL));
}

static void verifying_reads_every_event_once(void **state)
{
    struct scene *scene = *state;
    struct examined examined = {0};
    publish_all(scene->bus);
    assert_ok(hf_verify(scene->bus, count_finding, count_rows, &examined));
    assert_int_equal(examined.findings, 0);
    assert_int_equal(examined.rows, EVENTS);
    assert_true(examined.calls > EVENTS / 1000);
    assert_ok(hf_verify(scene->bus, count_finding, NULL, &examined));
    assert_int_equal(examined.findings, 0);
}

static void verifying_ends_when_the_callback_has_had_enough(void **state)
{
    struct scene *scene = *state;
    struct examined examined = {0};
    assert_ok(hf_verify(scene->bus, count_finding, enough, &examined));
    assert_int_equal(examined.calls, 1);
}

static void verifying_without_a_bus_or_a_callback_is_refused(void **state)
{
    struct scene *scene = *state;
    struct examined examined = {0};
    assert_status(hf_verify(scene->bus, NULL, NULL, NULL), HF_INVALID);
    assert_status(hf_verify(NULL, count_finding, NULL, &examined), HF_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(verifying_reads_every_event_once),
        scene_test(verifying_ends_when_the_callback_has_had_enough),
        scene_test(verifying_without_a_bus_or_a_callback_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
