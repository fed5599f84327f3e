/*
 * coming.c - see coming.h.
 */
#include "base/time/coming.h"

#include "base/banned.h"
#include "base/time/time.h"

#define SECOND_US INT64_C(1000000)

/* Offsets with seconds belong to the time before zones; then they are written, too. */
static void format_local(int64_t wall_s, int32_t offset_s, char out[COMING_LOCAL_BYTES])
{
    char wall[TIME_TEXT_BYTES];
    unsigned offset = (unsigned)(offset_s < 0 ? -offset_s : offset_s);
    int length;

    time_format(wall_s * SECOND_US, wall);
    length = snprintf(out, COMING_LOCAL_BYTES, "%.19s%c%02u:%02u", wall, offset_s < 0 ? '-' : '+',
                      offset / 3600, offset / 60 % 60);
    if (offset % 60) {
        snprintf(out + length, COMING_LOCAL_BYTES - (size_t)length, ":%02u", offset % 60);
    }
}

/* What the clocks do at this time, if that explains it. */
static void explain(const struct cron *cron, const struct zone *zone, int64_t at_s, int64_t wall_s,
                    char note[COMING_NOTE_BYTES])
{
    char before[TIME_TEXT_BYTES], after[TIME_TEXT_BYTES];
    int64_t first_s, last_s;
    enum zone_fit fit = zone_locate(zone, wall_s, &first_s, &last_s);

    note[0] = '\0';
    if (!cron->hours_run && !cron_matches(cron, wall_s)) {
        time_format((at_s + zone_span(zone, at_s - 1).offset_s) * SECOND_US, before);
        time_format(wall_s * SECOND_US, after);
        bool one_day = memcmp(before, after, 10) == 0; /* a zone may leave a whole day out */
        int begin = one_day ? 11 : 0;
        before[10] = after[10] = ' ';
        snprintf(note, COMING_NOTE_BYTES, "the clocks jump from %.*s to %.*s over the planned time",
                 16 - begin, before + begin, 16 - begin, after + begin);
    } else if (fit == ZONE_TWICE && !cron->hours_run) {
        snprintf(note, COMING_NOTE_BYTES, "the clocks show this twice; it runs the first time");
    } else if (fit == ZONE_TWICE) {
        snprintf(note, COMING_NOTE_BYTES, "the clocks show this twice; %s time",
                 at_s == first_s ? "first" : "second");
    }
}

bool coming_next(const struct cron *cron, const struct zone *zone, int64_t after_us,
                 struct coming *ret_coming)
{
    struct coming coming;
    int64_t at_s;

    if (!timetable_next(cron, zone, after_us, &coming.at_us)) {
        return false;
    }
    at_s = coming.at_us / SECOND_US;
    struct zone_span span = zone_span(zone, at_s);
    coming.abbreviation = span.abbreviation;
    format_local(at_s + span.offset_s, span.offset_s, coming.local);
    explain(cron, zone, at_s, at_s + span.offset_s, coming.note);
    *ret_coming = coming;
    return true;
}
