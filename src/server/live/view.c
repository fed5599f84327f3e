/*
 * view.c - see view.h.
 */
#include "server/live/view.h"

#include "base/banned.h"
#include "base/mem.h"
#include "json/objects.h"

#include <ctype.h>
#include <math.h>

#define FLOW_TYPES_SHOWN 16
#define FLOW_SUBSCRIPTIONS_SHOWN 24

/* ---- Numbers --------------------------------------------------------------------------------- */

/* With two digits behind the point; null if it is not known. */
static void write_decimal(struct json_out *json, double value)
{
    if (isnan(value) || value < 0) {
        json_null(json);
    } else {
        json_double(json, round(value * 100) / 100);
    }
}

static void show_decimal(struct json_out *json, const char *key, double value)
{
    json_key(json, key);
    write_decimal(json, value);
}

/* ---- The namespace --------------------------------------------------------------------------- */

static void write_point(const struct point *point, void *ctx)
{
    struct json_out *json = ctx;

    json_array_begin(json);
    json_int(json, point->at_ms);
    write_decimal(json, (double)point->published);
    write_decimal(json, (double)point->delivered);
    write_decimal(json, (double)point->oldest_s);
    write_decimal(json, (double)point->dead);
    write_decimal(json, (double)point->died);
    json_array_end(json);
}

static void show_points(struct json_out *json, const struct live_source *source, int64_t range_ms)
{
    int64_t to_ms = source->sample->at_us / 1000;

    json_key(json, "points");
    json_array_begin(json);
    points_read(source->points, to_ms - range_ms, to_ms, VIEW_POINTS, write_point, json);
    json_array_end(json);
}

static void show_totals(struct json_out *json, const struct sample *sample)
{
    json_key(json, "totals");
    json_object_begin(json);
    show_stats(json, &sample->stats);
    show_decimal(json, "published", sample->published);
    show_decimal(json, "delivered", sample->delivered);
    show_bool(json, "delivered_more", sample->delivered_more);
    show_decimal(json, "died", sample->died);
    show_int(json, "paused", sample->paused);
    show_int(json, "live_nodes", sample->nodes.live);
    show_int(json, "stale_nodes", sample->nodes.stale);
    show_time(json, "oldest_unpaused",
              sample->oldest ? sample->oldest->info.oldest_waiting_us : -1);
    show_string(json, "oldest_subscription", sample->oldest ? sample->oldest->info.name : NULL);
    json_object_end(json);
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

static void show_spark(struct json_out *json, const struct buckets *history)
{
    json_key(json, "spark");
    json_array_begin(json);
    for (size_t i = HISTORY_BUCKETS; history && i-- > 0;) {
        write_decimal(json, (double)buckets_get(history, i).rate);
    }
    json_array_end(json);
}

static void show_row(struct json_out *json, const struct live_subscription *one)
{
    const hf_subscription_info *info = &one->info;

    show_stats_row(json, info);
    show_string(json, "state", live_state_name(one->state));
    show_decimal(json, "now_rate", one->rate);
    show_decimal(json, "nearer", one->nearer);
    show_time(json, "still_since", one->still_since_us);
    show_time(json, "paused_at", info->paused_at_us);
    show_string(json, "paused_by", info->paused_by);
    show_string(json, "paused_reason", info->paused_reason);
    json_key(json, "patterns");
    json_array_begin(json);
    for (size_t i = 0; i < info->pattern_count; i++) {
        json_string(json, text_of(info->patterns[i]));
    }
    json_array_end(json);
}

static bool needs_attention(const struct live_subscription *one)
{
    return one->state <= LIVE_HELD_BACK || one->info.dead > 0 || one->info.blocked > 0;
}

static bool is_wanted(const struct live_view *view, const struct live_subscription *one)
{
    switch (view->only) {
    case VIEW_ALL:
        break;
    case VIEW_ATTENTION:
        if (!needs_attention(one)) {
            return false;
        }
        break;
    case VIEW_PAUSED:
        if (one->state != LIVE_PAUSED) {
            return false;
        }
        break;
    case VIEW_DEAD:
        if (one->info.dead <= 0) {
            return false;
        }
        break;
    }
    return !view->query[0] || strcasestr(one->info.name, view->query);
}

/* A small number first: what does not move, what has died, what is behind, the rest. */
static int attention(const struct live_subscription *one)
{
    if (one->state < LIVE_RETRYING) {
        return 0;
    }
    if (one->info.dead > 0 || one->info.blocked > 0) {
        return 1;
    }
    return 2 + (int)one->state;
}

static int by_attention(const void *a, const void *b)
{
    const struct live_subscription *one = *(const struct live_subscription *const *)a;
    const struct live_subscription *other = *(const struct live_subscription *const *)b;
    int order = attention(one) - attention(other);

    return order ? order : strcmp(one->info.name, other->info.name);
}

/* Those that are wanted, in order; *ret_count of them. NULL: there are none, or no memory. */
static const struct live_subscription **select_rows(const struct sample *sample,
                                                    const struct live_view *view, size_t *ret_count)
{
    const struct live_subscription **rows = mem_calloc(sample->count + 1, sizeof(void *));

    *ret_count = 0;
    for (size_t i = 0; rows && i < sample->count; i++) {
        if (is_wanted(view, &sample->subscriptions[i])) {
            rows[(*ret_count)++] = &sample->subscriptions[i];
        }
    }
    if (rows && !view->by_name) {
        qsort(rows, *ret_count, sizeof rows[0], by_attention);
    }
    return rows;
}

static void show_rows(struct json_out *json, const struct sample *sample,
                      const struct live_view *view, bool whole)
{
    size_t count;
    const struct live_subscription **rows = select_rows(sample, view, &count);

    json_key(json, "rows");
    json_array_begin(json);
    for (size_t i = (size_t)view->from; i < count && i < (size_t)(view->from + view->rows); i++) {
        json_object_begin(json);
        show_row(json, rows[i]);
        if (whole) {
            show_spark(json, rows[i]->history);
        }
        json_object_end(json);
    }
    json_array_end(json);
    show_int(json, "rows_from", view->from);
    show_int(json, "rows_total", (int64_t)count);
    mem_free(rows);
}

static void show_one(struct json_out *json, const struct sample *sample, const char *name)
{
    json_key(json, "subscription");
    for (size_t i = 0; i < sample->count; i++) {
        const struct live_subscription *one = &sample->subscriptions[i];
        if (strcmp(one->info.name, name) != 0) {
            continue;
        }
        json_object_begin(json);
        show_row(json, one);
        show_int(json, "bucket_ms", HISTORY_BUCKET_MS);
        json_key(json, "buckets");
        json_array_begin(json);
        for (size_t k = HISTORY_BUCKETS; one->history && k-- > 0;) {
            struct bucket bucket = buckets_get(one->history, k);
            json_array_begin(json);
            write_decimal(json, (double)bucket.rate);
            write_decimal(json, (double)bucket.waiting);
            write_decimal(json, (double)bucket.oldest_s);
            json_array_end(json);
        }
        json_array_end(json);
        json_object_end(json);
        return;
    }
    json_null(json);
}

/* ---- Trouble --------------------------------------------------------------------------------- */

static const char *const trouble_names[] = {
    [TROUBLE_STILL] = "still",         [TROUBLE_DEAD] = "dead",     [TROUBLE_BLOCKED] = "blocked",
    [TROUBLE_HELD_BACK] = "held_back", [TROUBLE_BEHIND] = "behind", [TROUBLE_LATER] = "later",
    [TROUBLE_SCHEDULES] = "schedules", [TROUBLE_NODE] = "node",
};

static void show_dead_trouble(struct json_out *json, const struct dead_group *group,
                              int64_t looked_at)
{
    show_string(json, "subscription", group->subscription);
    show_string(json, group->is_reason ? "reason" : "error", group->error);
    show_time(json, "last", group->last_us);
    show_int(json, "attempts_min", group->attempts_min);
    show_int(json, "attempts_max", group->attempts_max);
    show_id(json, "dead_id", group->dead_id);
    show_int(json, "looked_at", looked_at);
}

static void show_trouble(struct json_out *json, const struct sample *sample,
                         const struct trouble *trouble)
{
    json_object_begin(json);
    show_string(json, "kind", trouble_names[trouble->kind]);
    show_bool(json, "bad", trouble->bad);
    show_time(json, "since", trouble->since_us);
    show_int(json, "count", trouble->count);
    if (trouble->subscription) {
        json_key(json, "row");
        json_object_begin(json);
        show_row(json, trouble->subscription);
        json_object_end(json);
    }
    if (trouble->dead) {
        show_dead_trouble(json, trouble->dead, sample->dead.looked_at);
    }
    if (trouble->node) {
        show_string(json, "node", trouble->node->id);
    }
    json_object_end(json);
}

static void show_troubles(struct json_out *json, const struct sample *sample)
{
    json_key(json, "trouble");
    json_array_begin(json);
    for (size_t i = 0; i < sample->trouble_count; i++) {
        show_trouble(json, sample, &sample->troubles[i]);
    }
    json_array_end(json);
    show_int(json, "trouble_total", (int64_t)sample->trouble_total);
    show_int(json, "trouble_bad", (int64_t)sample->bad_total);
}

/* ---- Flow ------------------------------------------------------------------------------------ */

/* The types with the most events, by their rate; others are those that are left. */
static size_t select_types(const struct flow *flow, size_t ret_types[FLOW_TYPES_SHOWN],
                           double *ret_others)
{
    bool taken[FLOW_TYPES] = {false};
    size_t count = 0;

    *ret_others = flow_rate(flow, FLOW_TYPES);
    while (count < FLOW_TYPES_SHOWN) {
        size_t best = FLOW_TYPES;
        for (size_t i = 0; i < FLOW_TYPES; i++) {
            if (!taken[i] && flow->types[i].name[0] && flow_rate(flow, i) > 0 &&
                (best == FLOW_TYPES || flow_rate(flow, i) > flow_rate(flow, best))) {
                best = i;
            }
        }
        if (best == FLOW_TYPES) {
            break;
        }
        taken[best] = true;
        ret_types[count++] = best;
    }
    for (size_t i = 0; i < FLOW_TYPES; i++) {
        *ret_others += taken[i] ? 0 : flow_rate(flow, i);
    }
    return count;
}

/* What needs attention, then what moves most. */
static int by_movement(const void *a, const void *b)
{
    const struct live_subscription *one = *(const struct live_subscription *const *)a;
    const struct live_subscription *other = *(const struct live_subscription *const *)b;
    int order = (int)needs_attention(other) - (int)needs_attention(one);

    if (!order && one->rate != other->rate) {
        order = one->rate > other->rate ? -1 : 1;
    }
    return order ? order : strcmp(one->info.name, other->info.name);
}

static void show_target(struct json_out *json, const struct live_subscription *one,
                        const size_t *types, size_t type_count)
{
    json_object_begin(json);
    show_string(json, "name", one->info.name);
    show_string(json, "state", live_state_name(one->state));
    show_decimal(json, "rate", one->rate);
    show_int(json, "dead", one->info.dead);
    json_key(json, "types");
    json_array_begin(json);
    for (size_t i = 0; i < type_count; i++) {
        if (one->types & (UINT64_C(1) << types[i])) {
            json_int(json, (int64_t)i);
        }
    }
    json_array_end(json);
    json_object_end(json);
}

static void show_flow(struct json_out *json, const struct sample *sample, const struct flow *flow)
{
    const struct live_view all = {.by_name = true};
    size_t types[FLOW_TYPES_SHOWN];
    double others;
    size_t type_count = select_types(flow, types, &others);
    size_t count;
    const struct live_subscription **rows = select_rows(sample, &all, &count);

    json_key(json, "flow");
    json_object_begin(json);
    json_key(json, "types");
    json_array_begin(json);
    for (size_t i = 0; i < type_count; i++) {
        json_object_begin(json);
        show_string(json, "name", flow->types[types[i]].name);
        show_decimal(json, "rate", flow_rate(flow, types[i]));
        json_object_end(json);
    }
    json_array_end(json);
    show_decimal(json, "others", others);
    show_int(json, "seconds", FLOW_SECONDS);
    json_key(json, "subscriptions");
    json_array_begin(json);
    if (rows) {
        qsort(rows, count, sizeof rows[0], by_movement);
    }
    for (size_t i = 0; i < count && i < FLOW_SUBSCRIPTIONS_SHOWN; i++) {
        show_target(json, rows[i], types, type_count);
    }
    json_array_end(json);
    show_int(json, "subscriptions_total", (int64_t)count);
    json_object_end(json);
    mem_free(rows);
}

/* How old the sample is, in ms; -1: there is none. */
static int64_t age_of(const struct live_source *source)
{
    return source->sample ? (source->now_us - source->sample->at_us) / 1000 : -1;
}

/* ---- The headline ---------------------------------------------------------------------------- */

/* Small numbers as words, as sentences have them. */
static void write_count(size_t count, bool begins_sentence, char *ret_text, size_t bytes)
{
    static const char *const small[] = {"no",    "one",   "two",  "three", "four",   "five",  "six",
                                        "seven", "eight", "nine", "ten",   "eleven", "twelve"};

    if (count < sizeof small / sizeof small[0]) {
        snprintf(ret_text, bytes, "%s", small[count]);
        ret_text[0] = begins_sentence ? (char)toupper((unsigned char)ret_text[0]) : ret_text[0];
    } else {
        snprintf(ret_text, bytes, "%zu", count);
    }
}

void live_headline(const struct live_source *source, struct headline *ret_headline)
{
    const struct sample *sample = source->sample;
    const char *said = "";
    char count[24];
    char text[HEADLINE_BYTES];

    if (source->failure->message[0]) {
        said = "The database does not answer.";
    } else if (sample && sample->bad_total > 0) {
        write_count(sample->bad_total, true, count, sizeof count);
        snprintf(text, sizeof text, "%s %s you.", count,
                 sample->bad_total == 1 ? "thing needs" : "things need");
        said = text;
    } else if (sample && sample->trouble_total > 0) {
        write_count(sample->trouble_total, false, count, sizeof count);
        snprintf(text, sizeof text, "Nothing needs you; %s %s to watch.", count,
                 sample->trouble_total == 1 ? "thing" : "things");
        said = text;
    } else if (sample) {
        said = sample->count > 0 || sample->stats.head > 0 ? "All is well."
                                                           : "Ready for the first event.";
    }
    snprintf(ret_headline->sentence, sizeof ret_headline->sentence, "%s", said);
    ret_headline->age_ms = age_of(source);
}

/* ---- All of it ------------------------------------------------------------------------------- */

void live_write(const struct live_source *source, const struct live_view *view, bool whole,
                struct json_out *json)
{
    const struct sample *sample = source->sample;
    bool failing = source->failure->message[0] != '\0';
    struct headline headline;

    live_headline(source, &headline);
    json_object_begin(json);
    show_string(json, "headline", headline.sentence);
    show_time(json, "at", sample ? sample->at_us : -1);
    show_int(json, "age_ms", headline.age_ms);
    show_int(json, "period_ms", source->period_ms);
    show_string(json, "failure", failing ? source->failure->message : NULL);
    show_time(json, "failing_since", failing ? source->failure->since_us : -1);
    if (sample) {
        show_totals(json, sample);
        show_troubles(json, sample);
        if (whole && view->range_ms > 0) {
            show_points(json, source, view->range_ms);
        }
        if (view->rows > 0) {
            show_rows(json, sample, view, whole);
        }
        if (view->subscription[0]) {
            show_one(json, sample, view->subscription);
        }
        if (view->flow) {
            show_flow(json, sample, source->flow);
        }
    }
    json_object_end(json);
}
