/*
 * trouble.c - what of a sample needs a person: facts, from which the page makes sentences.
 *
 * A subscription that does not move is trouble when its oldest event has waited for a moment, so
 * that one whose worker is just being replaced is not. What was asked for, a pause, is none.
 */
#include "server/live/sample.h"

#include "base/banned.h"

#define SECOND_US INT64_C(1000000)
#define STILL_AFTER_US (5 * SECOND_US)
#define RETRYING_AFTER_US (300 * SECOND_US)
#define BEHIND_AFTER_US (300 * SECOND_US)
#define OVERDUE_AFTER_US (60 * SECOND_US)
#define DEAD_IS_OLD_US (86400 * SECOND_US)
#define ALIKE_MAX 3

static void add(struct sample *sample, struct trouble trouble)
{
    sample->trouble_total++;
    sample->bad_total += trouble.bad;
    if (sample->trouble_count < TROUBLE_MAX) {
        sample->troubles[sample->trouble_count++] = trouble;
    } else if (trouble.bad) {
        for (size_t i = TROUBLE_MAX; i-- > 0;) { /* what is bad takes the place of what is not */
            if (!sample->troubles[i].bad) {
                sample->troubles[i] = trouble;
                return;
            }
        }
    }
}

static int64_t waited_us(const struct sample *sample, const struct live_subscription *one)
{
    return one->info.oldest_waiting_us < 0 ? -1 : sample->at_us - one->info.oldest_waiting_us;
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

/* What is wrong with one in its state. False: nothing, or not for long enough. */
static bool trouble_of_state(const struct sample *sample, const struct live_subscription *one,
                             struct trouble *ret_trouble)
{
    struct trouble trouble = {.kind = TROUBLE_STILL,
                              .bad = one->state <= LIVE_BREAKER,
                              .subscription = one,
                              .count = 1,
                              .since_us = one->still_since_us};
    int64_t waits_us = waited_us(sample, one);
    bool lasts = false;

    switch (one->state) {
    case LIVE_NO_WORKER:
    case LIVE_OWNER_DEAD:
    case LIVE_BREAKER:
        lasts = waits_us >= STILL_AFTER_US || sample->at_us - one->still_since_us >= STILL_AFTER_US;
        break;
    case LIVE_RETRYING:
        lasts = waits_us >= RETRYING_AFTER_US;
        break;
    case LIVE_CATCHING_UP:
        trouble.kind = TROUBLE_BEHIND;
        lasts = waits_us >= BEHIND_AFTER_US;
        break;
    case LIVE_BLOCKED:   /* trouble_of_keys */
    case LIVE_HELD_BACK: /* look_at_reasons */
    case LIVE_MOVING:
    case LIVE_PAUSED:
    case LIVE_UP_TO_DATE:
        break;
    }
    *ret_trouble = trouble;
    return lasts;
}

/* Whether the line of a group of dead letters says what there is to say of its blocked keys. */
static bool has_dead_line(const struct sample *sample, const struct live_subscription *one)
{
    for (size_t i = 0; i < sample->dead.count; i++) {
        if (strcmp(sample->dead.groups[i].subscription, one->info.name) == 0) {
            return true;
        }
    }
    return false;
}

static bool trouble_of_keys(const struct sample *sample, const struct live_subscription *one,
                            struct trouble *ret_trouble)
{
    *ret_trouble = (struct trouble){
        .kind = TROUBLE_BLOCKED, .bad = true, .subscription = one, .count = 1, .since_us = -1};
    return one->info.blocked > 0 && !has_dead_line(sample, one);
}

static bool waits_longer(const struct trouble *one, const struct trouble *other)
{
    int64_t one_us = one->subscription->info.oldest_waiting_us;
    int64_t other_us = other->subscription->info.oldest_waiting_us;

    return one_us >= 0 && (other_us < 0 || one_us < other_us);
}

/* Adds what `find` says of each subscription: a line for each, or for all in one state a line with
 * the one whose oldest event waits longest. */
static void look_at_each(struct sample *sample,
                         bool (*find)(const struct sample *, const struct live_subscription *,
                                      struct trouble *))
{
    struct trouble alike[LIVE_UP_TO_DATE + 1] = {{.count = 0}};
    struct trouble trouble;

    for (size_t i = 0; i < sample->count; i++) {
        if (find(sample, &sample->subscriptions[i], &trouble)) {
            struct trouble *all = &alike[trouble.subscription->state];
            trouble.count = all->count + 1;
            if (all->count == 0 || waits_longer(&trouble, all)) {
                *all = trouble;
            }
            all->count = trouble.count;
        }
    }
    for (size_t i = 0; i < sample->count; i++) {
        if (find(sample, &sample->subscriptions[i], &trouble) &&
            alike[trouble.subscription->state].count <= ALIKE_MAX) {
            add(sample, trouble);
        }
    }
    for (size_t state = 0; state <= LIVE_UP_TO_DATE; state++) {
        if (alike[state].count > ALIKE_MAX) {
            add(sample, alike[state]);
        }
    }
}

/* One transaction can hold back all subscriptions: one line for all that have the same reason. */
static void look_at_reasons(struct sample *sample)
{
    const struct live_subscription *first = NULL;
    int64_t count = 0;

    for (size_t i = 0; i < sample->count; i++) {
        const struct live_subscription *one = &sample->subscriptions[i];
        if (one->state != LIVE_HELD_BACK || sample->at_us - one->still_since_us < STILL_AFTER_US) {
            continue;
        }
        if (!first || strcmp(first->info.not_moving, one->info.not_moving) == 0) {
            first = first ? first : one;
            count++;
        } else {
            add(sample, (struct trouble){.kind = TROUBLE_HELD_BACK,
                                         .subscription = one,
                                         .count = 1,
                                         .since_us = one->still_since_us});
        }
    }
    if (first) {
        add(sample, (struct trouble){.kind = TROUBLE_HELD_BACK,
                                     .subscription = first,
                                     .count = count,
                                     .since_us = first->still_since_us});
    }
}

static int by_name(const void *name, const void *one)
{
    return strcmp(name, ((const struct live_subscription *)one)->info.name);
}

static void look_at_dead(struct sample *sample)
{
    for (size_t i = 0; i < sample->dead.count; i++) {
        const struct dead_group *group = &sample->dead.groups[i];
        const struct live_subscription *of =
            bsearch(group->subscription, sample->subscriptions, sample->count,
                    sizeof sample->subscriptions[0], by_name);
        bool blocks = of && of->info.blocked > 0;
        add(sample,
            (struct trouble){.kind = TROUBLE_DEAD,
                             .bad = blocks || sample->at_us - group->last_us < DEAD_IS_OLD_US,
                             .subscription = of,
                             .dead = group,
                             .count = group->count,
                             .since_us = group->first_us});
    }
}

static void look_at_overdue(struct sample *sample, enum trouble_kind kind, int64_t due,
                            int64_t next_us)
{
    if (due > 0 && next_us >= 0 && sample->at_us - next_us > OVERDUE_AFTER_US) {
        add(sample, (struct trouble){.kind = kind, .bad = true, .count = due, .since_us = next_us});
    }
}

static void look_at_nodes(struct sample *sample)
{
    for (int64_t i = 0; i < sample->nodes.stale && i < STALE_NODES_MAX; i++) {
        const struct stale_node *node = &sample->nodes.stale_nodes[i];
        add(sample,
            (struct trouble){.kind = TROUBLE_NODE, .node = node, .since_us = node->seen_us});
    }
}

static const char *name_of(const struct trouble *trouble)
{
    if (trouble->dead) {
        return trouble->dead->subscription;
    }
    return trouble->subscription ? trouble->subscription->info.name : "";
}

/* What is bad first, then by kind and by name, so that lines stay where they are. */
static int by_weight(const void *a, const void *b)
{
    const struct trouble *one = a;
    const struct trouble *other = b;
    int order = (int)other->bad - (int)one->bad;

    order = order ? order : (int)one->kind - (int)other->kind;
    order = order ? order : strcmp(name_of(one), name_of(other));
    order = order || !one->dead ? order : strcmp(one->dead->error, other->dead->error);
    return order;
}

void sample_find_trouble(struct sample *sample)
{
    look_at_each(sample, trouble_of_state);
    look_at_each(sample, trouble_of_keys);
    look_at_reasons(sample);
    look_at_dead(sample);
    look_at_overdue(sample, TROUBLE_LATER, sample->stats.later_due, sample->stats.later_next_us);
    look_at_overdue(sample, TROUBLE_SCHEDULES, sample->stats.schedules_due,
                    sample->stats.schedules_next_us);
    look_at_nodes(sample);
    if (sample->trouble_count > 1) {
        qsort(sample->troubles, sample->trouble_count, sizeof sample->troubles[0], by_weight);
    }
}
