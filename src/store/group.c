/*
 * group.c - group commit by leader and followers. See group.h for the idea.
 *
 * A thread that has a change links it into the queue. Then it is one of three things:
 *
 *     WAITING  another thread leads; the change is in the queue or being applied
 *     LEADING  it takes the queue (a bounded part of it) and applies it
 *     ANSWERED its change has its status; the thread goes home
 *
 * The state is one word in the waiting thread's own frame. Only the leader changes it, and only
 * from WAITING to one of the others, after which the thread may return at any moment: so the
 * leader's last touch of a follower is the store of that word.
 *
 * Waking
 *   Threads sleep at a bell, a futex of the group that counts how often it was rung. All that wait
 *   for the same commit sleep at the same one, so that one system call wakes them: a call for each
 *   would be interrupted again and again by those that it has woken. Those that wait for the commit
 *   after it sleep at the other one, and the first of the queue, which will lead, at a third. A
 *   thread that wakes up looks at its own word: a bell that was rung for others costs it another
 *   sleep and nothing else. A ring is not missed: the word is changed before the bell is rung, and
 *   a sleeper has read the bell's count before the word.
 *
 * Gathering
 *   Threads that were answered are about to come again. A leader that begins before them carries
 *   little, and they have to wait for all of its commit. So it waits for as many as took part last
 *   time or were waiting then, but not longer than a part of what a commit takes, and if they do
 *   not come, the next few leaders do not wait at all. A thread that is alone does not wait.
 *
 * A thread may also bring several changes. Each has its word, and the thread waits for one after
 * the other in the order of the queue: when it comes to one that was told to lead, those before it
 * have been answered.
 *
 * Deadlines: a thread whose deadline passes while its change is still queued takes it out and
 * answers HF_TIMEOUT; nothing has happened. A change that is being applied is past taking back: its
 * thread waits for the answer. The engine keeps the leader's deadline while it waits for the
 * database; if that passes, only the leader's own change fails, and the next in line leads with its
 * own deadline.
 */
#include "store/group.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/common/change.h"

#define GROUP_EVENTS_MAX 8192    /* events of one commit: bounds its duration */
#define GROUP_BYTES_MAX 16777216 /* bytes of one commit: bounds its memory (larger ones go alone) */
#define CHANGE_BYTES_FIXED 256   /* what a change weighs besides its texts */
#define GATHER_PART 3            /* a leader waits a third of what the last commit took */
#define GATHER_US_MAX 250        /* the longest that a leader waits */
#define GATHER_VAIN 8            /* leaders that do not wait after one that did so in vain */
#define GATHER_ALL 16            /* are waited for to the last one; of more, three quarters */

#define BELL_HEIR 2 /* the others are 0 and 1 */

enum waiter_state { WAITING, LEADING, ANSWERED };

struct waiter {
    _Atomic uint32_t state;
    uint32_t bell; /* where it sleeps */
    int64_t events;
    int64_t bytes;
};

/* Sleeps until it is rung once more than `rung`. */
static void bell_wait(_Atomic uint32_t *bell, uint32_t rung, struct deadline deadline)
{
    struct timespec until = deadline_timespec(deadline);
    syscall(SYS_futex, bell, FUTEX_WAIT_BITSET_PRIVATE, rung, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void bell_ring(_Atomic uint32_t *bell)
{
    atomic_fetch_add_explicit(bell, 1, memory_order_release);
    syscall(SYS_futex, bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The last touch of a waiter; see above. Answers the bell to be rung. */
static uint32_t waiter_tell(struct waiter *waiter, enum waiter_state state)
{
    uint32_t bell = waiter->bell;
    atomic_store_explicit(&waiter->state, state, memory_order_release);
    return bell;
}

/* By the events it brings, so that what one commit carries is bounded, also for firings and
 * delays. */
static void weigh(const struct change *change, struct waiter *waiter)
{
    size_t count;
    (void)change_events(change, &count);
    waiter->events = count > 0 ? (int64_t)count : 1;
    waiter->bytes = CHANGE_BYTES_FIXED + change_bytes(change, CHANGE_BYTES_FIXED);
}

hf_status group_init(struct group *group, struct engine *engine, int64_t events_max,
                     int64_t bytes_max)
{
    *group = (struct group){.engine = engine, .events_max = events_max, .bytes_max = bytes_max};
    hf_status status = mutex_init(&group->mutex);
    if (status) {
        return status;
    }
    status = cond_init(&group->room);
    if (status) {
        pthread_mutex_destroy(&group->mutex);
        return status;
    }
    status = cond_init(&group->gathered);
    if (status) {
        pthread_cond_destroy(&group->room);
        pthread_mutex_destroy(&group->mutex);
    }
    return status;
}

void group_release(struct group *group)
{
    pthread_cond_destroy(&group->gathered);
    pthread_cond_destroy(&group->room);
    pthread_mutex_destroy(&group->mutex);
}

/* A change may enter an empty queue whatever its weight; otherwise the queue must have room. */
static bool has_room(const struct group *group, const struct waiter *waiter)
{
    return !group->first || (group->events + waiter->events <= group->events_max &&
                             group->bytes + waiter->bytes <= group->bytes_max);
}

static void add_weight(struct group *group, const struct change *change)
{
    const struct waiter *waiter = change->waiter;
    group->events += waiter->events;
    group->bytes += waiter->bytes;
    group->count++;
}

static void forget_weight(struct group *group, const struct change *change)
{
    const struct waiter *waiter = change->waiter;
    group->events -= waiter->events;
    group->bytes -= waiter->bytes;
    group->count--;
}

static void enqueue(struct group *group, struct change *change)
{
    struct waiter *waiter = change->waiter;
    change->next = NULL;
    waiter->bell = group->first ? (uint32_t)(group->shares % 2) : BELL_HEIR;
    if (group->last) {
        group->last->next = change;
    } else {
        group->first = change;
    }
    group->last = change;
    add_weight(group, change);
    if (group->wanted > 0 && group->count >= group->wanted) {
        group->wanted = 0;
        pthread_cond_signal(&group->gathered);
    }
}

/* Takes a change out of the queue; false if it is not there any more. */
static bool dequeue(struct group *group, struct change *change)
{
    struct change *before = NULL;
    for (struct change *at = group->first; at; before = at, at = at->next) {
        if (at != change) {
            continue;
        }
        if (before) {
            before->next = at->next;
        } else {
            group->first = at->next;
        }
        if (group->last == at) {
            group->last = before;
        }
        forget_weight(group, change);
        if (group->rooms_wanted > 0) {
            pthread_cond_broadcast(&group->room);
        }
        return true;
    }
    return false;
}

/* The part of the queue that one commit carries; at least the first. */
static struct change *take_share(struct group *group)
{
    struct change *share = group->first;
    struct change *end = NULL;
    group->shares++;
    int64_t events = 0;
    int64_t bytes = 0;
    for (struct change *at = share; at; at = at->next) {
        const struct waiter *waiter = at->waiter;
        events += waiter->events;
        bytes += waiter->bytes;
        if (end && (events > GROUP_EVENTS_MAX || bytes > GROUP_BYTES_MAX)) {
            break;
        }
        forget_weight(group, at);
        end = at;
    }
    group->first = end->next;
    if (!group->first) {
        group->last = NULL;
    }
    end->next = NULL;
    if (group->rooms_wanted > 0) {
        pthread_cond_broadcast(&group->room);
    }
    return share;
}

/* Puts changes that were not begun back in front of the queue. */
static void put_back(struct group *group, struct change *changes)
{
    struct change *last = changes;
    for (struct change *at = changes; at; at = at->next) {
        add_weight(group, at);
        last = at;
    }
    last->next = group->first;
    group->first = changes;
    if (!group->last) {
        group->last = last;
    }
}

static void answer(struct change *change, hf_status status, const char *message)
{
    change->status = status;
    snprintf(change->message, sizeof change->message, "%s", message);
}

/* Waits for the threads that are about to come; see above. While clocks stand still it does not
 * wait. */
static void gather(struct group *group)
{
    int64_t wanted = group->expected;
    if (wanted > GATHER_ALL) {
        wanted -= wanted / 4;
    }
    if (group->count >= wanted || group->rooms_wanted > 0 || clock_is_fake()) {
        return;
    }
    if (group->vain > 0) {
        group->vain--;
        return;
    }
    int64_t part_us = group->apply_us / GATHER_PART;
    struct deadline until = {clock_mono_us() + (part_us < GATHER_US_MAX ? part_us : GATHER_US_MAX)};
    bool in_time = true;
    group->wanted = wanted;
    while (group->wanted > 0 && in_time && !clock_is_fake()) {
        in_time = cond_wait_until(&group->gathered, &group->mutex, until);
    }
    group->vain = group->wanted > 0 ? GATHER_VAIN : 0;
    group->wanted = 0;
}

/* Tells all but the leader that they have their answers. */
static void answer_followers(struct group *group, struct change *share, const struct change *own)
{
    bool rung[GROUP_BELLS] = {false};
    for (struct change *at = share, *next; at; at = next) {
        next = at->next;
        if (at != own) {
            rung[waiter_tell(at->waiter, ANSWERED)] = true;
        }
    }
    for (size_t i = 0; i < GROUP_BELLS; i++) {
        if (rung[i]) {
            bell_ring(&group->bells[i]);
        }
    }
}

/* Leads once: `own` is first in the queue. The mutex is held on entry and not on return. */
static void lead(struct group *group, struct change *own, struct deadline deadline)
{
    gather(group);
    int64_t waited = group->count;
    struct change *share = take_share(group);
    int64_t taken = waited - group->count;
    pthread_mutex_unlock(&group->mutex);

    int64_t begun_us = clock_mono_us();
    hf_status status = group->engine->class->apply(group->engine, share, deadline);
    int64_t apply_us = clock_mono_us() - begun_us;
    struct change *undone = NULL;
    if (!status) {
        timing_add(&group->commits, apply_us);
    }
    if (status == HF_TIMEOUT || status == HF_BUSY || status == HF_UNAVAILABLE) {
        undone = own->next;
        own->next = NULL;
        answer(own, status, err_message());
    } else if (status) {
        for (struct change *at = share; at; at = at->next) {
            answer(at, status, err_message());
        }
    }

    pthread_mutex_lock(&group->mutex);
    group->expected = taken + group->count;
    group->apply_us = apply_us;
    pthread_mutex_unlock(&group->mutex);
    answer_followers(group, share, own);

    pthread_mutex_lock(&group->mutex);
    if (undone) {
        put_back(group, undone);
    }
    struct waiter *heir = group->first ? group->first->waiter : NULL;
    group->led = heir != NULL;
    if (heir) {
        bell_ring(&group->bells[waiter_tell(heir, LEADING)]);
    }
    pthread_mutex_unlock(&group->mutex);
}

/* Waits until the change is answered or its thread is told to lead. False: the deadline passed and
 * the change is out of the queue. */
static bool follow(struct group *group, struct change *change, struct deadline deadline,
                   enum waiter_state *ret_state)
{
    struct waiter *waiter = change->waiter;
    _Atomic uint32_t *bell = &group->bells[waiter->bell];
    for (;;) {
        uint32_t rung = atomic_load_explicit(bell, memory_order_acquire);
        uint32_t state = atomic_load_explicit(&waiter->state, memory_order_acquire);
        if (state != WAITING) {
            *ret_state = (enum waiter_state)state;
            return true;
        }
        bell_wait(bell, rung, deadline);
        if (!deadline_passed(deadline)) {
            continue;
        }
        pthread_mutex_lock(&group->mutex);
        state = atomic_load_explicit(&waiter->state, memory_order_acquire);
        bool gone = state == WAITING && dequeue(group, change);
        pthread_mutex_unlock(&group->mutex);
        if (gone) {
            return false;
        }
        deadline = DEADLINE_NEVER;
    }
}

static hf_status wait_for_room(struct group *group, const struct waiter *waiter,
                               struct deadline deadline)
{
    group->rooms_wanted++;
    bool in_time = true;
    while (!has_room(group, waiter) && in_time) {
        in_time = cond_wait_until(&group->room, &group->mutex, deadline);
    }
    group->rooms_wanted--;
    if (has_room(group, waiter)) {
        return HF_OK;
    }
    return fail(HF_BUSY,
                "the queue is full: %lld events and %lld bytes wait; the limits are %lld and %lld",
                (long long)group->events, (long long)group->bytes, (long long)group->events_max,
                (long long)group->bytes_max);
}

static void prepare(struct change *change, struct waiter *waiter)
{
    *waiter = (struct waiter){.state = WAITING};
    weigh(change, waiter);
    change->waiter = waiter;
    change->status = HF_OK;
    change->message[0] = '\0';
}

hf_status group_run(struct group *group, struct change *change, struct deadline deadline)
{
    struct waiter waiter;
    prepare(change, &waiter);

    pthread_mutex_lock(&group->mutex);
    if (!has_room(group, &waiter)) {
        hf_status status = wait_for_room(group, &waiter, deadline);
        if (status) {
            pthread_mutex_unlock(&group->mutex);
            return change->status = status;
        }
    }
    enqueue(group, change);
    enum waiter_state state = LEADING;
    if (group->led) {
        pthread_mutex_unlock(&group->mutex);
        if (!follow(group, change, deadline, &state)) {
            change->status = HF_TIMEOUT;
            return fail(HF_TIMEOUT, "the deadline passed before the database could be written");
        }
        if (state == LEADING) {
            pthread_mutex_lock(&group->mutex);
        }
    } else {
        group->led = true;
    }
    if (state == LEADING) {
        lead(group, change, deadline);
    }
    return change->status ? err_set(change->status, change->message) : HF_OK;
}

/* Waits for the answer of a change that was handed over, and leads if it is told to. */
static void await_answer(struct group *group, struct change *change, struct deadline deadline)
{
    enum waiter_state state;
    if (!follow(group, change, deadline, &state)) {
        answer(change, HF_TIMEOUT, "the deadline passed before the database could be written");
    } else if (state == LEADING) {
        pthread_mutex_lock(&group->mutex);
        lead(group, change, deadline);
    }
}

size_t group_run_together(struct group *group, struct change *const *changes, size_t count,
                          struct deadline deadline)
{
    struct waiter waiters[GROUP_TOGETHER_MAX];
    size_t entered = 0;
    assert(count >= 1 && count <= GROUP_TOGETHER_MAX);
    for (size_t i = 0; i < count; i++) {
        prepare(changes[i], &waiters[i]);
    }
    pthread_mutex_lock(&group->mutex);
    if (!has_room(group, &waiters[0])) {
        hf_status status = wait_for_room(group, &waiters[0], deadline);
        if (status) {
            pthread_mutex_unlock(&group->mutex);
            answer(changes[0], status, err_message());
            return 1;
        }
    }
    do {
        enqueue(group, changes[entered++]);
    } while (entered < count && has_room(group, &waiters[entered]));
    bool leads = !group->led;
    group->led = true;
    if (leads) {
        lead(group, changes[0], deadline);
    } else {
        pthread_mutex_unlock(&group->mutex);
    }
    for (size_t i = leads ? 1 : 0; i < entered; i++) {
        await_answer(group, changes[i], deadline);
    }
    return entered;
}
