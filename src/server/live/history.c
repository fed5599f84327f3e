/*
 * history.c - see history.h.
 */
#include "server/live/history.h"

#include "base/banned.h"

#include <math.h>
#include <stdbool.h>

#define BUCKETS_BETWEEN_MAX 12

/* ---- Points ---------------------------------------------------------------------------------- */

void points_add(struct points *points, struct point point)
{
    points->ring[points->next] = point;
    points->next = (points->next + 1) % HISTORY_POINTS;
    points->count += points->count < HISTORY_POINTS;
}

/* A mean of what is known. */
struct mean {
    double sum;
    int count;
};

static void mean_add(struct mean *mean, float value)
{
    if (!isnan(value)) {
        mean->sum += (double)value;
        mean->count++;
    }
}

static float mean_take(struct mean *mean)
{
    float value = mean->count ? (float)(mean->sum / mean->count) : NAN;

    *mean = (struct mean){0};
    return value;
}

/* Up to the end of a part. */
struct part {
    int64_t last_ms;
    int points;
    struct mean published;
    struct mean delivered;
    struct mean oldest_s;
    struct mean dead;
    struct mean died;
};

static void part_add(struct part *part, const struct point *point)
{
    part->last_ms = point->at_ms;
    part->points++;
    mean_add(&part->published, point->published);
    mean_add(&part->delivered, point->delivered);
    mean_add(&part->oldest_s, point->oldest_s);
    mean_add(&part->dead, point->dead);
    mean_add(&part->died, point->died);
}

static void part_end(struct part *part, point_fn found, void *ctx)
{
    if (part->points > 0) {
        struct point mean = {
            .at_ms = part->last_ms,
            .published = mean_take(&part->published),
            .delivered = mean_take(&part->delivered),
            .oldest_s = mean_take(&part->oldest_s),
            .dead = mean_take(&part->dead),
            .died = mean_take(&part->died),
        };
        part->points = 0;
        found(&mean, ctx);
    }
}

void points_read(const struct points *points, int64_t from_ms, int64_t to_ms, size_t count,
                 point_fn found, void *ctx)
{
    int64_t length_ms = (to_ms - from_ms) / (int64_t)count + 1;
    int64_t number = -1;
    struct part part = {.last_ms = 0};
    size_t first = (points->next + HISTORY_POINTS - points->count) % HISTORY_POINTS;

    for (size_t i = 0; i < points->count; i++) {
        const struct point *point = &points->ring[(first + i) % HISTORY_POINTS];
        if (point->at_ms < from_ms || point->at_ms > to_ms) {
            continue;
        }
        if ((point->at_ms - from_ms) / length_ms != number) {
            part_end(&part, found, ctx);
            number = (point->at_ms - from_ms) / length_ms;
        }
        part_add(&part, point);
    }
    part_end(&part, found, ctx);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

/* Goes on to a later bucket. Those in between are not known, unless they are few: samples of a
 * large namespace that no page shows may be farther apart than buckets. Then the sample's rate,
 * which is the mean since the one before, is theirs, too, and nothing else is known to have
 * changed. */
static void advance(struct buckets *buckets, int64_t number, float rate)
{
    bool first = buckets->newest == 0;
    int64_t steps = first ? HISTORY_BUCKETS : number - buckets->newest;
    struct bucket between = {NAN, NAN, NAN};

    if (!first && steps <= BUCKETS_BETWEEN_MAX) {
        between = buckets->ring[buckets->newest % HISTORY_BUCKETS];
        between.rate = rate;
    }
    for (int64_t i = 0; i < steps && i < HISTORY_BUCKETS; i++) {
        buckets->ring[(number - i) % HISTORY_BUCKETS] = between;
    }
    buckets->ring[number % HISTORY_BUCKETS].rate = NAN;
    buckets->newest = number;
    buckets->samples = 0;
}

void buckets_add(struct buckets *buckets, int64_t at_ms, struct bucket sample)
{
    int64_t number = at_ms / HISTORY_BUCKET_MS;
    struct bucket *bucket = &buckets->ring[number % HISTORY_BUCKETS];

    if (number < buckets->newest) {
        return; /* the clock was set back: the newest stays until it is reached again */
    }
    if (number > buckets->newest) {
        advance(buckets, number, sample.rate);
    }
    if (!isnan(sample.rate)) {
        double sum = isnan(bucket->rate) ? 0 : (double)bucket->rate * buckets->samples;
        buckets->samples++;
        bucket->rate = (float)((sum + (double)sample.rate) / buckets->samples);
    }
    bucket->waiting = sample.waiting;
    bucket->oldest_s = sample.oldest_s;
}

struct bucket buckets_get(const struct buckets *buckets, size_t before)
{
    if (buckets->newest == 0 || before >= HISTORY_BUCKETS) {
        return (struct bucket){NAN, NAN, NAN};
    }
    return buckets->ring[(buckets->newest - (int64_t)before) % HISTORY_BUCKETS];
}
