/*
 * moment.c - see moment.h.
 *
 * The zone is read for each call: a command asks once or twice. Without $TZ it is /etc/localtime,
 * and UTC if that is missing; a $TZ that is no name of the tz database ("CET-1CEST") is refused
 * rather than guessed.
 */
#include "cli/core/moment.h"

#include "base/banned.h"
#include "base/mem.h"
#include "base/time/time.h"
#include "base/time/zone.h"
#include "cli/core/cli.h"

#define LOCAL_FILE "/etc/localtime"
#define SECOND_US INT64_C(1000000)
#define DAY_S INT64_C(86400)
#define DATE_BYTES 10 /* 2026-11-20 */

/* NULL: it cannot be read. */
static struct zone *local_zone(void)
{
    const char *name = getenv("TZ");
    struct zone *zone = NULL;
    size_t length = 0;

    if (!name && access(LOCAL_FILE, R_OK) == 0) {
        char *bytes = cli_read_file(LOCAL_FILE, ZONE_FILE_BYTES_MAX, &length);
        if (bytes && zone_decode(text_of("local"), bytes, length, &zone) != HF_OK) {
            zone = NULL;
        }
        mem_free(bytes);
        return zone;
    }
    name = name ? name + (name[0] == ':') : "UTC";
    return zone_new(text_of(name[0] ? name : "UTC"), NULL, &zone) == HF_OK ? zone : NULL;
}

bool moment_has_zone(void)
{
    struct zone *zone = local_zone();
    bool known = zone != NULL;

    zone_free(zone);
    return known;
}

bool moment_is_date(const char *text)
{
    return strlen(text) == DATE_BYTES && text[4] == '-' && text[7] == '-';
}

/* The time of day, as text that follows a date: "T09:00:00Z" of "9:00". */
static bool complete_time(const char *text, char ret_text[16])
{
    bool short_hour = text[0] && text[1] == ':';
    size_t length = strlen(text) + short_hour;

    if (length != 5 && length != 8) {
        return false;
    }
    snprintf(ret_text, 16, "T%s%s%sZ", short_hour ? "0" : "", text, length == 5 ? ":00" : "");
    return true;
}

/* The wall time that the text means if today is `today`. */
static bool read_wall(const char *text, const char *today, bool *ret_dated, int64_t *ret_wall_us)
{
    size_t length = strlen(text);
    char time[16];
    char whole[DATE_BYTES + sizeof time];

    *ret_dated = moment_is_date(text) ||
                 (length > DATE_BYTES && (text[DATE_BYTES] == ' ' || text[DATE_BYTES] == 'T'));
    const char *of_day = moment_is_date(text) ? "00:00" : text + (*ret_dated ? DATE_BYTES + 1 : 0);
    if (!complete_time(of_day, time)) {
        return false;
    }
    snprintf(whole, sizeof whole, "%.*s%s", DATE_BYTES, *ret_dated ? text : today, time);
    return time_parse(text_of(whole), ret_wall_us) == HF_OK;
}

static int64_t instant_of(const struct zone *zone, int64_t wall_s)
{
    int64_t first_s;
    int64_t last_s;

    zone_locate(zone, wall_s, &first_s, &last_s);
    return first_s;
}

bool moment_parse(const char *text, int64_t now_us, enum moment_day day, int64_t *ret_us)
{
    struct zone *zone = local_zone();
    char today[TIME_TEXT_BYTES];
    int64_t now_s = now_us / SECOND_US;
    int64_t wall_us = 0;
    bool dated = false;

    if (!zone) {
        return false;
    }
    time_format((now_s + zone_span(zone, now_s).offset_s) * SECOND_US, today);
    bool good = read_wall(text, today, &dated, &wall_us);
    if (good) {
        int64_t wall_s = wall_us / SECOND_US;
        int64_t at_s = instant_of(zone, wall_s);

        if (!dated && day == MOMENT_NEXT && at_s <= now_s) {
            at_s = instant_of(zone, wall_s + DAY_S);
        } else if (!dated && day == MOMENT_LAST && at_s > now_s) {
            at_s = instant_of(zone, wall_s - DAY_S);
        }
        *ret_us = at_s * SECOND_US;
    }
    zone_free(zone);
    return good;
}

const char *moment_format(int64_t us, char ret_text[MOMENT_BYTES])
{
    struct zone *zone = local_zone();
    int64_t at_s = us / SECOND_US;
    char text[TIME_TEXT_BYTES];

    time_format((at_s + (zone ? zone_span(zone, at_s).offset_s : 0)) * SECOND_US, text);
    snprintf(ret_text, MOMENT_BYTES, "%.10s %.8s %.40s", text, text + DATE_BYTES + 1,
             zone ? zone_span(zone, at_s).abbreviation : "UTC");
    zone_free(zone);
    return ret_text;
}
