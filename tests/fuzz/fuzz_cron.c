/*
 * fuzz_cron.c - any bytes as a cron expression; 8 bytes before it are where the search begins.
 *
 * Properties: what is refused leaves the result untouched and says why; what is accepted has no
 * empty set and no bit outside its field, or is a period within its limits; what is found matches
 * and lies on the right side; looking back from what was found finds it again, and from the second
 * before it something before the beginning; in UTC the timetable says the same as the calendar, but
 * for the first and the last year, which it leaves out.
 */
#include "base/err.h"
#include "base/time/cron.h"
#include "base/time/time.h"
#include "base/time/timetable.h"
#include "fuzz.h"

#define SECOND_US INT64_C(1000000)
#define RANGE_S INT64_C(150000000000) /* about 4,700 years before and after 1970 */
#define YEAR_S (366 * INT64_C(86400))

static bool within(uint64_t set, int min, int max)
{
    uint64_t all = ((UINT64_C(1) << (max + 1)) - 1) & ~((UINT64_C(1) << min) - 1);

    return set != 0 && (set & ~all) == 0;
}

static void check_sets(const struct cron *cron)
{
    HOLDS(within(cron->seconds, 0, 59));
    HOLDS(within(cron->minutes, 0, 59));
    HOLDS(within(cron->hours, 0, 23));
    HOLDS(within(cron->days_of_month, 1, 31));
    HOLDS(within(cron->months, 1, 12));
    HOLDS(within(cron->days_of_week, 0, 6));
}

static void check_search(const struct cron *cron, int64_t from_s)
{
    int64_t next_s, previous_s;

    if (cron_next(cron, from_s, &next_s)) {
        HOLDS(next_s >= from_s);
        HOLDS(cron_matches(cron, next_s));
        HOLDS(next_s == from_s || !cron_matches(cron, from_s));
        HOLDS(cron_previous(cron, next_s, &previous_s) && previous_s == next_s);
        HOLDS(!cron_previous(cron, next_s - 1, &previous_s) || previous_s < from_s);
    }
    if (cron_previous(cron, from_s, &previous_s)) {
        HOLDS(previous_s <= from_s);
        HOLDS(cron_matches(cron, previous_s));
        HOLDS(cron_next(cron, previous_s, &next_s) && next_s == previous_s);
    }
}

/* Whether the timetable has this second of the calendar. */
static bool is_listed(int64_t wall_s)
{
    return wall_s >= TIME_US_MIN / SECOND_US + YEAR_S && wall_s <= TIME_US_MAX / SECOND_US - YEAR_S;
}

static void check_timetable(const struct cron *cron, int64_t from_s)
{
    struct zone *utc;
    int64_t wall_s, at_us;

    if (zone_new(text_of("UTC"), NULL, &utc) != HF_OK) {
        return;
    }
    if (cron_next(cron, from_s, &wall_s) && is_listed(wall_s) &&
        timetable_next(cron, utc, from_s * SECOND_US - 1, &at_us)) {
        HOLDS(at_us == wall_s * SECOND_US);
    }
    if (cron_previous(cron, from_s, &wall_s) && is_listed(wall_s) &&
        timetable_previous(cron, utc, from_s * SECOND_US + 1, &at_us)) {
        HOLDS(at_us == wall_s * SECOND_US);
    }
    zone_free(utc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t from_s;
    struct cron cron = {.seconds = UINT64_MAX};

    if (size < sizeof from_s) {
        return 0;
    }
    memcpy(&from_s, data, sizeof from_s);
    from_s %= RANGE_S;

    struct text text = {(const char *)data + sizeof from_s, size - sizeof from_s};

    err_set(HF_INVALID, "");
    if (cron_parse(text, &cron) != HF_OK) {
        HOLDS(cron.seconds == UINT64_MAX);
        HOLDS(strstr(err_message(), "cron expression"));
        return 0;
    }
    if (cron.every_s == 0) {
        check_sets(&cron);
    }
    HOLDS(cron.every_s >= 0 && cron.every_s <= CRON_EVERY_S_MAX);
    check_search(&cron, from_s);
    check_timetable(&cron, from_s);
    return 0;
}
