/*
 * flow.c - see flow.h.
 */
#include "server/live/flow.h"

#include "base/banned.h"
#include "base/text/glob.h"

#define SECOND_US INT64_C(1000000)

void flow_init(struct flow *flow)
{
    memset(flow, 0, sizeof *flow);
    flow->cursor = -1;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void forget_second(struct flow_type *type, int64_t second)
{
    float *count = &type->counts[second % FLOW_SECONDS];

    type->total -= (double)*count;
    type->total = type->total < 0 ? 0 : type->total;
    *count = 0;
}

/* Makes this the newest second, and forgets those that it pushes out. */
static void advance(struct flow *flow, int64_t second)
{
    if (second - flow->newest > FLOW_SECONDS) {
        flow->newest = second - FLOW_SECONDS;
    }
    while (flow->newest < second) {
        flow->newest++;
        flow->cursors[flow->newest % FLOW_SECONDS] = flow->cursor;
        for (size_t i = 0; i < FLOW_TYPES; i++) {
            forget_second(&flow->types[i], flow->newest);
        }
        forget_second(&flow->others, flow->newest);
    }
}

/* The entry of a type: its own, a free one, one whose type has not come for a while, or that of the
 * others. */
static struct flow_type *find_type(struct flow *flow, const char *name)
{
    struct flow_type *idle = NULL;

    for (size_t i = 0; i < FLOW_TYPES; i++) {
        struct flow_type *type = &flow->types[i];
        if (strcmp(type->name, name) == 0) {
            return type;
        }
        if (!idle && type->total < 0.001) {
            idle = type;
        }
    }
    if (!idle) {
        return &flow->others;
    }
    memset(idle, 0, sizeof *idle);
    snprintf(idle->name, sizeof idle->name, "%s", name);
    flow->renamed |= UINT64_C(1) << (idle - flow->types);
    return idle;
}

static void count_event(struct flow *flow, const char *name, int64_t second, double weight)
{
    struct flow_type *type;

    if (second > flow->newest) {
        second = flow->newest; /* the server's clock is ahead of ours */
    }
    if (second <= flow->newest - FLOW_SECONDS || second < 0) {
        return;
    }
    type = find_type(flow, name);
    type->counts[second % FLOW_SECONDS] += (float)weight;
    type->total += weight;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct reading {
    struct flow *flow;
    double weight; /* how many events one that is read stands for */
    size_t bytes;
};

static int see_event(const hf_event *event, void *ctx)
{
    struct reading *reading = ctx;
    struct flow *flow = reading->flow;
    int64_t second = event->entered_at_us / SECOND_US;

    count_event(flow, event->type, second, reading->weight);
    reading->bytes += event->payload_bytes;
    return reading->bytes > FLOW_READ_BYTES_MAX;
}

/* Counts from the newest events on. They stand for all that have come since the log was read last.
 * Types keep their places: the bits of sets stay theirs. */
static void begin(struct flow *flow, int64_t head, int64_t second)
{
    int64_t newest = head > FLOW_READ_MAX ? head - FLOW_READ_MAX : 0;
    int64_t from = flow->cursor < 0 ? newest : flow->cursor;

    for (size_t i = 0; i <= FLOW_TYPES; i++) {
        struct flow_type *type = i < FLOW_TYPES ? &flow->types[i] : &flow->others;
        memset(type->counts, 0, sizeof type->counts);
        type->total = 0;
    }
    for (size_t i = 0; i < FLOW_SECONDS; i++) {
        flow->cursors[i] = from;
    }
    flow->newest = second;
    flow->cursor = newest;
}

/* Whether so many have come in so long that it is not known when. */
static bool has_lost_track(const struct flow *flow, int64_t head, int64_t now_us)
{
    return head - flow->cursor > FLOW_READ_MAX &&
           now_us - flow->read_us > FLOW_GAP_SECONDS * SECOND_US;
}

hf_status flow_read(struct flow *flow, hf_bus *bus, const hf_stats *stats, int64_t now_us)
{
    int64_t head = stats->head;
    struct reading reading = {.flow = flow, .weight = 1};
    int64_t second = now_us / SECOND_US;
    int64_t behind;
    hf_status status;

    if (flow->cursor < 0 || has_lost_track(flow, head, now_us)) {
        begin(flow, head, second);
    }
    flow->read_us = now_us;
    flow->rate = stats->rate;
    advance(flow, second);
    behind = head - flow->cursor;
    if (behind <= 0) {
        return HF_OK;
    }
    if (behind > FLOW_READ_MAX) {
        reading.weight = (double)behind / FLOW_READ_MAX;
        flow->cursor = head - FLOW_READ_MAX;
    }
    status = hf_read(bus, NULL, FLOW_READ_MAX, 0, &flow->cursor, see_event, &reading);
    if (!status && reading.bytes > FLOW_READ_BYTES_MAX) {
        flow->cursor = head; /* the rest is too large to be looked at */
    }
    return status;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static double count_all(const struct flow *flow)
{
    double all = flow->others.total;

    for (size_t i = 0; i < FLOW_TYPES; i++) {
        all += flow->types[i].total;
    }
    return all;
}

double flow_rate(const struct flow *flow, size_t type)
{
    const struct flow_type *of = type < FLOW_TYPES ? &flow->types[type] : &flow->others;
    double all = count_all(flow);

    return flow->rate < 0 ? -1 : all > 0 ? flow->rate * of->total / all : 0;
}

uint64_t flow_match(const struct flow *flow, const char *const *patterns, size_t count,
                    uint64_t known, uint64_t before)
{
    uint64_t types = before & known;

    for (size_t i = 0; i < FLOW_TYPES; i++) {
        uint64_t bit = UINT64_C(1) << i;
        struct text type = text_of(flow->types[i].name);
        if ((known & bit) || type.length == 0) {
            continue;
        }
        for (size_t k = 0; k < count && !(types & bit); k++) {
            types |= glob_match(text_of(patterns[k]), type) ? bit : 0;
        }
    }
    return types;
}

double flow_share(const struct flow *flow, uint64_t types, int64_t position)
{
    int64_t first = flow->cursors[(flow->newest + 1) % FLOW_SECONDS];
    double all = count_all(flow);
    double of = 0;

    for (size_t i = 0; i < FLOW_TYPES; i++) {
        of += types & (UINT64_C(1) << i) ? flow->types[i].total : 0;
    }
    return all > 0 && position >= first ? of / all : -1;
}
