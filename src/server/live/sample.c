/*
 * sample.c - see sample.h.
 */
#include "server/live/sample.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>

#define HISTORIES_MAX 20000 /* subscriptions beyond have none */
#define LETTERS_MAX 500     /* dead letters that are looked at */
#define SMOOTH_S 4.0        /* rates follow within about so long */
#define CATCHING_UP_US INT64_C(30000000)
#define SECOND_US 1e6

/* ---- States ---------------------------------------------------------------------------------- */

static const char *const state_names[] = {
    [LIVE_NO_WORKER] = "no_worker",     [LIVE_OWNER_DEAD] = "owner_dead",
    [LIVE_BREAKER] = "breaker",         [LIVE_BLOCKED] = "blocked",
    [LIVE_RETRYING] = "retrying",       [LIVE_HELD_BACK] = "held_back",
    [LIVE_CATCHING_UP] = "catching_up", [LIVE_MOVING] = "moving",
    [LIVE_PAUSED] = "paused",           [LIVE_UP_TO_DATE] = "up_to_date",
};

const char *live_state_name(enum live_state state)
{
    return state_names[state];
}

static bool has_pending(const hf_subscription_info *info)
{
    return info->pending > 0 || info->pending_more == 1;
}

static enum live_state moving_state(const hf_subscription_info *info, int64_t now_us)
{
    if (has_pending(info)) {
        return info->blocked == 0 && /* else the oldest one may wait for a dead letter */
                       info->oldest_waiting_us >= 0 &&
                       now_us - info->oldest_waiting_us > CATCHING_UP_US
                   ? LIVE_CATCHING_UP
                   : LIVE_MOVING;
    }
    return info->in_flight + info->retrying + info->held > 0 ? LIVE_MOVING : LIVE_UP_TO_DATE;
}

/* Whether no process works for it. */
static bool is_alone(const hf_subscription_info *info)
{
    if (info->options.mode != HF_MODE_SHARED) {
        return !info->owner || !info->owner_alive;
    }
    return info->in_flight == 0 && (has_pending(info) || info->lease_ended > 0);
}

/* Of one for which the library has a reason. */
static enum live_state still_state(const hf_subscription_info *info)
{
    bool blocked = info->blocked > 0 && info->retrying == 0;

    if (info->breaker && strcmp(info->breaker, "open") == 0) {
        return LIVE_BREAKER;
    }
    if (blocked && !has_pending(info)) {
        return LIVE_BLOCKED; /* no process could help */
    }
    if (is_alone(info)) {
        return info->owner ? LIVE_OWNER_DEAD : LIVE_NO_WORKER;
    }
    if (blocked) {
        return LIVE_BLOCKED;
    }
    return info->retrying > 0 && !has_pending(info) ? LIVE_RETRYING : LIVE_HELD_BACK;
}

enum live_state live_state_of(const hf_subscription_info *info, int64_t now_us)
{
    if (info->paused_at_us != -1) {
        return LIVE_PAUSED;
    }
    return info->not_moving ? still_state(info) : moving_state(info, now_us);
}

/* ---- What the library says ------------------------------------------------------------------- */

/* A sample that is being taken. */
struct taking {
    struct sample *sample;
    size_t capacity;
    hf_status status;
};

/* Copies a text to *at and moves it on; NULL stays NULL. */
static const char *keep_text(char **at, const char *text)
{
    size_t bytes = text ? strlen(text) + 1 : 0;
    char *to = *at;

    if (!text) {
        return NULL;
    }
    memcpy(to, text, bytes);
    *at += bytes;
    return to;
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* The texts of an info in one block, which begins with the pointers to the patterns. */
static hf_status keep_info(const hf_subscription_info *info, struct live_subscription *ret_kept)
{
    size_t bytes = info->pattern_count * sizeof(char *) + text_bytes(info->name) +
                   text_bytes(info->paused_by) + text_bytes(info->paused_reason) +
                   text_bytes(info->owner) + text_bytes(info->not_moving);
    const char **patterns;
    char *at;

    for (size_t i = 0; i < info->pattern_count; i++) {
        bytes += text_bytes(info->patterns[i]);
    }
    *ret_kept = (struct live_subscription){.info = *info, .still_since_us = -1, .rate = -1};
    ret_kept->texts = mem_alloc(bytes + 1);
    if (!ret_kept->texts) {
        return fail(HF_NOMEM, "out of memory");
    }
    patterns = (const char **)(void *)ret_kept->texts;
    at = ret_kept->texts + info->pattern_count * sizeof(char *);
    for (size_t i = 0; i < info->pattern_count; i++) {
        patterns[i] = keep_text(&at, info->patterns[i]);
    }
    ret_kept->info.patterns = patterns;
    ret_kept->info.name = keep_text(&at, info->name);
    ret_kept->info.paused_by = keep_text(&at, info->paused_by);
    ret_kept->info.paused_reason = keep_text(&at, info->paused_reason);
    ret_kept->info.owner = keep_text(&at, info->owner);
    ret_kept->info.not_moving = keep_text(&at, info->not_moving);
    ret_kept->info.checkpoint_event_id = NULL;
    return HF_OK;
}

static int take_subscription(const hf_subscription_info *info, void *ctx)
{
    struct taking *taking = ctx;
    struct sample *sample = taking->sample;

    if (sample->count == taking->capacity) {
        size_t capacity = taking->capacity ? taking->capacity * 2 : 64;
        struct live_subscription *larger =
            mem_realloc(sample->subscriptions, capacity * sizeof *larger);
        if (!larger) {
            taking->status = fail(HF_NOMEM, "out of memory");
            return 1;
        }
        sample->subscriptions = larger;
        taking->capacity = capacity;
    }
    struct live_subscription *kept = &sample->subscriptions[sample->count];
    taking->status = keep_info(info, kept);
    if (taking->status) {
        return 1;
    }
    kept->state = live_state_of(info, sample->at_us);
    sample->paused += kept->state == LIVE_PAUSED;
    sample->count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct live_subscription *one = a;
    const struct live_subscription *other = b;

    return strcmp(one->info.name, other->info.name);
}

static void cut_text(char *to, size_t bytes, const char *text)
{
    size_t length = strnlen(text, bytes - 1);

    while (length > 0 && text[length] && ((unsigned char)text[length] & 0xC0) == 0x80) {
        length--; /* not within a character */
    }
    memcpy(to, text, length);
    to[length] = '\0';
}

/* ---- Dead letters and nodes ------------------------------------------------------------------ */

static struct dead_group *find_group(struct dead_groups *dead, const hf_dead_letter *letter)
{
    char error[DEAD_ERROR_BYTES];
    bool is_reason = !letter->error;
    struct dead_group *group;

    cut_text(error, sizeof error, is_reason ? letter->reason : letter->error);
    for (size_t i = 0; i < dead->count; i++) {
        group = &dead->groups[i];
        if (strcmp(group->subscription, letter->subscription) == 0 &&
            group->is_reason == is_reason && strcmp(group->error, error) == 0) {
            return group;
        }
    }
    if (dead->count == DEAD_GROUPS_MAX) {
        return NULL;
    }
    group = &dead->groups[dead->count++];
    *group = (struct dead_group){.is_reason = is_reason,
                                 .first_us = letter->failed_at_us,
                                 .last_us = letter->failed_at_us,
                                 .attempts_min = letter->attempts,
                                 .attempts_max = letter->attempts,
                                 .dead_id = letter->dead_id};
    memcpy(group->error, error, sizeof error);
    snprintf(group->subscription, sizeof group->subscription, "%s", letter->subscription);
    return group;
}

/* Grouping the newest dead letters. */
struct grouping {
    struct dead_groups *dead;
    int64_t before; /* the number of the newest one of the sample before; -1: there is none */
};

static int group_letter(const hf_dead_letter *letter, void *ctx)
{
    struct grouping *grouping = ctx;
    struct dead_groups *dead = grouping->dead;
    struct dead_group *group = find_group(dead, letter);

    dead->died += grouping->before >= 0 && letter->dead_id > grouping->before;

    if (!group) {
        return 0;
    }
    group->count++;
    group->first_us =
        letter->failed_at_us < group->first_us ? letter->failed_at_us : group->first_us;
    group->last_us = letter->failed_at_us > group->last_us ? letter->failed_at_us : group->last_us;
    if (letter->attempts < group->attempts_min) {
        group->attempts_min = letter->attempts;
    }
    if (letter->attempts > group->attempts_max) {
        group->attempts_max = letter->attempts;
    }
    return 0;
}

static int note_newest(const hf_dead_letter *letter, void *ctx)
{
    *(int64_t *)ctx = letter->dead_id;
    return 1;
}

/* Dead letters are grouped again only if their number is another, or the newest of them is. The
 * newest number is kept while there are none, so that one that has come is known to be new. */
static hf_status take_dead(hf_bus *bus, const struct sample *before, struct sample *sample)
{
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    struct dead_groups *dead = &sample->dead;
    struct grouping grouping = {.dead = dead, .before = before ? before->dead.newest : -1};
    hf_status status;

    dead->looked_at = -1;
    dead->newest = before ? before->dead.newest : 0;
    if (sample->stats.dead == 0) {
        return HF_OK;
    }
    filter.limit = 1;
    status = hf_dead_list(bus, &filter, note_newest, &dead->newest);
    if (!status && before && before->stats.dead == sample->stats.dead &&
        before->dead.newest == dead->newest) {
        *dead = before->dead;
        dead->died = 0;
        return HF_OK;
    }
    filter.limit = LETTERS_MAX;
    dead->looked_at = sample->stats.dead > LETTERS_MAX ? LETTERS_MAX : -1;
    if (!status) {
        status = hf_dead_list(bus, &filter, group_letter, &grouping);
    }
    if (dead->died == LETTERS_MAX && sample->stats.dead - before->stats.dead > dead->died) {
        dead->died = sample->stats.dead - before->stats.dead; /* all that were looked at are new */
    }
    return status;
}

static int see_node(const hf_node_info *info, void *ctx)
{
    struct live_nodes *nodes = ctx;

    nodes->live += info->state == HF_NODE_LIVE;
    if (info->state == HF_NODE_STALE) {
        if (nodes->stale < STALE_NODES_MAX) {
            struct stale_node *node = &nodes->stale_nodes[nodes->stale];
            cut_text(node->id, sizeof node->id, info->node_id);
            node->seen_us = info->seen_at_us;
        }
        nodes->stale++;
    }
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

hf_status sample_take(hf_bus *bus, const struct sample *before, int64_t now_us,
                      struct sample **ret_sample)
{
    struct sample *sample = mem_calloc(1, sizeof *sample);
    struct taking taking = {.sample = sample};
    hf_status status;

    if (!sample) {
        return fail(HF_NOMEM, "out of memory");
    }
    sample->at_us = now_us;
    sample->published = -1;
    sample->delivered = -1;
    sample->died = -1;
    sample->stats.size = sizeof sample->stats;
    status = hf_stats_get(bus, &sample->stats);
    if (!status) {
        status = hf_subscription_list(bus, take_subscription, &taking);
        status = status ? status : taking.status;
    }
    if (!status) {
        status = hf_node_list(bus, see_node, &sample->nodes);
    }
    if (!status) {
        status = take_dead(bus, before, sample);
    }
    if (status) {
        sample_free(sample);
        return status;
    }
    if (sample->count > 1) {
        qsort(sample->subscriptions, sample->count, sizeof sample->subscriptions[0], by_name);
    }
    *ret_sample = sample;
    return HF_OK;
}

/* How far it is: what was handed out of a shared one, what is settled of an ordered one. */
static int64_t passed(const hf_subscription_info *info)
{
    return info->options.mode == HF_MODE_SHARED ? info->cursor : info->checkpoint;
}

static double smooth(double before, double now, double seconds)
{
    double part = before < 0 ? 1 : 1 - exp(-seconds / SMOOTH_S);
    double value = before < 0 ? now : before + (now - before) * part;

    return value < 0.005 ? 0 : value;
}

/* Whether every event is for it. */
static bool takes_all(const hf_subscription_info *info)
{
    for (size_t i = 0; i < info->pattern_count; i++) {
        if (strcmp(info->patterns[i], "**") == 0) {
            return true;
        }
    }
    return false;
}

/* How many events an ordered subscription can have settled since: what was open, less what is open
 * now, and what has come. It may have passed many that are not for it. */
static double settled_most(const hf_subscription_info *info, const hf_subscription_info *before)
{
    bool counted = info->options.mode == HF_MODE_ORDERED && info->pending_more == 0 &&
                   before->pending_more == 0 && info->pending >= 0 && before->pending >= 0;
    int64_t open = info->pending + info->retrying + info->held;
    int64_t most =
        before->pending + before->retrying + before->held - open + info->head - before->head;

    return !counted ? INFINITY : most > 0 ? (double)most : 0;
}

/* How many of the events that it has passed were for it is not known of those that came before the
 * counts of types. */
static void follow_one(struct live_subscription *one, struct live_subscription *before,
                       double seconds, const struct flow *flow)
{
    int64_t from = passed(&before->info);
    int64_t steps = passed(&one->info) - from;
    double share = takes_all(&one->info) || steps == 0 ? 1 : flow_share(flow, one->types, from);

    one->history = before->history;
    before->history = NULL;
    if (steps < 0 || one->info.start_position != before->info.start_position) {
        return; /* it was sought */
    }
    double settled = fmin((double)steps * share, settled_most(&one->info, &before->info));
    one->rate = share < 0 ? -1 : smooth(before->rate, settled / seconds, seconds);
    one->moves_unseen = share < 0;
    if (one->info.lag > 0) {
        double nearer = (double)(before->info.lag - one->info.lag) / seconds;
        one->nearer = before->nearer + (nearer - before->nearer) * (1 - exp(-seconds / 30));
    }
}

/* What is left of it may wait, for a dead letter or for the next attempt, while others pass. */
static void note_movement(struct live_subscription *one)
{
    double rate = one->rate < 0 ? one->info.rate : one->rate;

    if ((one->state == LIVE_BLOCKED || one->state == LIVE_RETRYING) && rate > 0) {
        one->state = LIVE_MOVING;
    }
}

/* Since when it does not move: since it was first seen so. */
static void note_stillness(struct live_subscription *one, const struct live_subscription *before,
                           int64_t now_us)
{
    if (one->state <= LIVE_HELD_BACK) {
        one->still_since_us =
            before && before->still_since_us >= 0 ? before->still_since_us : now_us;
    }
}

static void keep_history(struct live_subscription *one, size_t index, int64_t at_us)
{
    const hf_subscription_info *info = &one->info;
    struct bucket sample = {
        .rate = one->rate < 0 ? NAN : (float)one->rate,
        .waiting = info->pending < 0 ? NAN : (float)info->pending,
        .oldest_s = info->oldest_waiting_us < 0
                        ? (has_pending(info) ? NAN : 0)
                        : (float)((double)(at_us - info->oldest_waiting_us) / SECOND_US),
    };

    if (!one->history && index < HISTORIES_MAX) {
        one->history = mem_calloc(1, sizeof *one->history);
    }
    if (one->history) {
        buckets_add(one->history, at_us / 1000, sample);
    }
}

/* Of the two lists, both by name, the entry of `before` with this name; NULL: there is none. */
static struct live_subscription *find_before(struct sample *before, size_t *at, const char *name)
{
    while (before && *at < before->count) {
        int order = strcmp(before->subscriptions[*at].info.name, name);
        if (order >= 0) {
            return order == 0 ? &before->subscriptions[*at] : NULL;
        }
        ++*at;
    }
    return NULL;
}

static void note_oldest(struct sample *sample, const struct live_subscription *one)
{
    int64_t oldest_us = sample->oldest ? sample->oldest->info.oldest_waiting_us : INT64_MAX;

    if (one->state != LIVE_PAUSED && one->info.oldest_waiting_us >= 0 &&
        one->info.oldest_waiting_us < oldest_us) {
        sample->oldest = one;
    }
}

void sample_follow(struct sample *sample, struct sample *before, struct flow *flow)
{
    double seconds = before ? (double)(sample->at_us - before->at_us) / SECOND_US : 0;
    uint64_t known = ~flow->renamed;
    size_t at = 0;

    flow->renamed = 0;
    if (seconds > 0 && sample->stats.head >= before->stats.head) {
        sample->published = (double)(sample->stats.head - before->stats.head) / seconds;
    }
    if (seconds > 0) {
        sample->died = (double)sample->dead.died / seconds;
    }
    for (size_t i = 0; i < sample->count; i++) {
        struct live_subscription *one = &sample->subscriptions[i];
        struct live_subscription *old = find_before(before, &at, one->info.name);
        one->types = flow_match(flow, one->info.patterns, one->info.pattern_count, old ? known : 0,
                                old ? old->types : 0);
        if (old && seconds > 0) {
            follow_one(one, old, seconds, flow);
        }
        note_movement(one);
        note_stillness(one, old, sample->at_us);
        keep_history(one, i, sample->at_us);
        note_oldest(sample, one);
        sample->delivered_more = sample->delivered_more || one->moves_unseen;
        if (one->rate >= 0) {
            sample->delivered = one->rate + (sample->delivered < 0 ? 0 : sample->delivered);
        }
    }
    if (sample->count == 0) {
        sample->delivered = 0;
    }
}

void sample_free(struct sample *sample)
{
    if (!sample) {
        return;
    }
    for (size_t i = 0; i < sample->count; i++) {
        mem_free(sample->subscriptions[i].texts);
        mem_free(sample->subscriptions[i].history);
    }
    mem_free(sample->subscriptions);
    mem_free(sample);
}
