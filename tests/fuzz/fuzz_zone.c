/*
 * fuzz_zone.c - any bytes as the file of a time zone, and as the rule at the end of one.
 *
 * Properties: what is refused is refused as damaged; in what is accepted each instant lies in its
 * span, the next span begins where this one ends, no offset is beyond the limit; a wall time is
 * reached at or before the instant that shows it, and shown by each instant that zone_locate names;
 * timetables go strictly forward, and back to where they came from.
 */
#include "base/err.h"
#include "base/time/timetable.h"
#include "base/time/zone_rule.h"
#include "fuzz.h"

#define SECOND_US INT64_C(1000000)
#define FIRST_S INT64_C(-5000000000) /* 1811 */
#define LAST_S INT64_C(8000000000)   /* 2223 */
#define STEP_S INT64_C(511111111)

static void check_span(struct zone_span span, int64_t at_s)
{
    HOLDS(span.begin_s <= at_s && at_s < span.end_s);
    HOLDS(span.offset_s < ZONE_OFFSET_S_MAX && span.offset_s > -ZONE_OFFSET_S_MAX);
    HOLDS(strlen(span.abbreviation) < 512);
}

static void check_wall(const struct zone *zone, int64_t at_s)
{
    int64_t wall_s = at_s + zone_span(zone, at_s).offset_s;
    int64_t first_s = 0, last_s = 0;

    HOLDS(zone_reached(zone, wall_s) <= at_s);
    HOLDS(zone_highest(zone, at_s) >= wall_s);
    HOLDS(zone_reached(zone, zone_highest(zone, at_s)) <= at_s);
    HOLDS(zone_reached(zone, zone_highest(zone, at_s) + 1) > at_s);
    HOLDS(zone_locate(zone, wall_s, &first_s, &last_s) != ZONE_NEVER);
    HOLDS(first_s <= at_s && at_s <= last_s);
    HOLDS(first_s + zone_span(zone, first_s).offset_s == wall_s);
    HOLDS(last_s + zone_span(zone, last_s).offset_s == wall_s);
}

static void check_timetable(const struct zone *zone, const char *expression, int64_t at_s)
{
    struct cron cron;
    int64_t next_us, back_us;

    HOLDS(cron_parse(text_of(expression), &cron) == HF_OK);
    HOLDS(timetable_next(&cron, zone, at_s * SECOND_US, &next_us));
    HOLDS(next_us > at_s * SECOND_US);
    HOLDS(timetable_previous(&cron, zone, next_us + 1, &back_us) && back_us == next_us);
    HOLDS(timetable_previous(&cron, zone, next_us, &back_us) && back_us <= at_s * SECOND_US);
}

static void check_zone(const struct zone *zone)
{
    for (int64_t at_s = FIRST_S; at_s < LAST_S; at_s += STEP_S) {
        struct zone_span span = zone_span(zone, at_s);

        check_span(span, at_s);
        check_wall(zone, at_s);
        check_timetable(zone, "30 2 * * *", at_s);
        check_timetable(zone, "15 * * * *", at_s);
        if (span.end_s < LAST_S) {
            HOLDS(zone_span(zone, span.end_s).begin_s == span.end_s);
            check_wall(zone, span.end_s - 1);
            check_wall(zone, span.end_s);
            check_timetable(zone, "30 2 * * *", span.end_s);
            check_timetable(zone, "15 * * * *", span.end_s);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text text = {size ? (const char *)data : "", size};
    struct zone *zone = NULL;
    struct zone_rule rule;

    hf_status status = zone_decode(text_of("Fuzz/Zone"), text.bytes, size, &zone);

    HOLDS(status == HF_OK || status == HF_CORRUPT);
    if (!status) {
        check_zone(zone);
    }
    zone_free(zone);
    if (zone_rule_parse(text, &rule)) {
        for (int64_t at_s = FIRST_S; at_s < LAST_S; at_s += STEP_S) {
            check_span(zone_rule_span(&rule, at_s), at_s);
        }
    }
    return 0;
}
