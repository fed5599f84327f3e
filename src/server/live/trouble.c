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

static void look_at_state(struct sample *sample, const struct live_subscription *one)
{
    struct trouble trouble = {
        .kind = TROUBLE_STILL, .bad = true, .subscription = one, .since_us = one->still_since_us};
    int64_t waits_us = waited_us(sample, one);

    switch (one->state) {
    case LIVE_NO_WORKER:
    case LIVE_OWNER_DEAD:
    case LIVE_BREAKER:
        if (waits_us >= STILL_AFTER_US || sample->at_us - one->still_since_us >= STILL_AFTER_US) {
            add(sample, trouble);
        }
        return;
    case LIVE_RETRYING:
        trouble.bad = false;
        if (waits_us >= RETRYING_AFTER_US) {
            add(sample, trouble);
        }
        return;
    case LIVE_CATCHING_UP:
        trouble.kind = TROUBLE_BEHIND;
        trouble.bad = false;
        if (waits_us >= BEHIND_AFTER_US) {
            add(sample, trouble);
        }
        return;
    case LIVE_BLOCKED:   /* look_at_keys */
    case LIVE_HELD_BACK: /* look_at_reasons */
    case LIVE_MOVING:
    case LIVE_PAUSED:
    case LIVE_UP_TO_DATE:
        return;
    }
}

static void look_at_keys(struct sample *sample, const struct live_subscription *one)
{
    if (one->info.blocked > 0) {
        add(sample, (struct trouble){.kind = TROUBLE_BLOCKED,
                                     .bad = one->state == LIVE_BLOCKED,
                                     .subscription = one,
                                     .count = one->info.blocked,
                                     .since_us = -1});
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

static void look_at_dead(struct sample *sample)
{
    for (size_t i = 0; i < sample->dead.count; i++) {
        const struct dead_group *group = &sample->dead.groups[i];
        add(sample, (struct trouble){.kind = TROUBLE_DEAD,
                                     .bad = sample->at_us - group->last_us < DEAD_IS_OLD_US,
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
    for (size_t i = 0; i < sample->count; i++) {
        look_at_state(sample, &sample->subscriptions[i]);
        look_at_keys(sample, &sample->subscriptions[i]);
    }
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
