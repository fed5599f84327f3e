/*
 * test_flow.c - which types of events enter a log: a bus on a file, and times that the test
 * chooses.
 */
#include "server/live/flow.h"
#include "support/check.h"
#include "support/temp.h"

#include "base/time/clock.h"

#define SECOND_US INT64_C(1000000)
#define ALL_TYPES (~UINT64_C(0))

static char folder[TEMP_PATH_BYTES];
static hf_bus *bus;
static struct flow flow;

static int open_bus(void **state)
{
    char url[TEMP_PATH_BYTES + 32];

    (void)state;
    temp_open(folder);
    snprintf(url, sizeof url, "sqlite:%s", temp_file(folder, "bus.db"));
    assert_int_equal(hf_open(url, NULL, &bus), HF_OK);
    flow_init(&flow);
    return 0;
}

static int close_bus(void **state)
{
    (void)state;
    hf_close(&bus);
    temp_close(folder);
    return 0;
}

static void publish(const char *type, size_t count)
{
    static hf_new_event events[1000];

    for (size_t i = 0; i < count; i++) {
        events[i] = (hf_new_event)HF_NEW_EVENT_INIT;
        events[i].type = type;
    }
    assert_int_equal(hf_publish_many(bus, events, count, NULL), HF_OK);
}

/* Reads what has come, at a time so many seconds ago. */
static double read_log(int64_t ago_s)
{
    hf_stats stats = {.size = sizeof stats};

    assert_int_equal(hf_stats_get(bus, &stats), HF_OK);
    assert_int_equal(flow_read(&flow, bus, &stats, clock_wall_us() - ago_s * SECOND_US), HF_OK);
    return stats.rate;
}

static double rate_of(const char *type)
{
    for (size_t i = 0; i < FLOW_TYPES; i++) {
        if (strcmp(flow.types[i].name, type) == 0) {
            return flow_rate(&flow, i);
        }
    }
    return 0;
}

static void rates_of_types_are_parts_of_the_rate_of_the_log(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) { /* more than are read */
        publish("a", 3);
        publish("b", 1);
    }
    double rate = read_log(0);
    assert_float_equal(rate_of("a"), rate * 0.75, 1e-9);
    assert_float_equal(rate_of("b"), rate * 0.25, 1e-9);
}

static void after_a_time_without_reading_only_the_newest_events_count(void **state)
{
    (void)state;
    read_log(50);
    publish("a", 900);
    read_log(40);
    publish("b", FLOW_READ_MAX + 100);
    double rate = read_log(0);
    assert_float_equal(rate_of("b"), rate, 1e-9);
    assert_float_equal(rate_of("a"), 0, 1e-9);
}

static void the_newest_events_stand_for_all_since_the_log_was_read_last(void **state)
{
    (void)state;
    publish("a", 100);
    read_log(40);
    publish("b", FLOW_READ_MAX + 100);
    read_log(0);
    assert_true(flow_share(&flow, ALL_TYPES, 99) < 0);
    assert_float_equal(flow_share(&flow, ALL_TYPES, 100), 1, 1e-9);
}

static void of_events_that_came_before_those_that_count_no_share_is_known(void **state)
{
    (void)state;
    publish("a", FLOW_READ_MAX + 100);
    read_log(0);
    assert_true(flow_share(&flow, ALL_TYPES, 99) < 0);
    assert_float_equal(flow_share(&flow, ALL_TYPES, 100), 1, 1e-9);
}

static void of_a_log_in_which_nothing_has_come_no_share_is_known(void **state)
{
    (void)state;
    read_log(0);
    assert_true(flow_share(&flow, ALL_TYPES, 0) < 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bus, close_bus)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rates_of_types_are_parts_of_the_rate_of_the_log),
        TEST(after_a_time_without_reading_only_the_newest_events_count),
        TEST(the_newest_events_stand_for_all_since_the_log_was_read_last),
        TEST(of_events_that_came_before_those_that_count_no_share_is_known),
        TEST(of_a_log_in_which_nothing_has_come_no_share_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
