/*
 * test_unique.c - unique keys of events: one event per key and window, also for later; and what
 * comes at the same moment as a publisher: another one, its rollback, its death, the end of the
 * window, the process that brings the event, one that cancels it.
 */
#include "base/point.h"
#include "base/time/clock.h"
#include "base/uuid.h"
#include "store/common/checksum.h"
#include "store/retention.h"
#include "support/crowd.h"
#include "support_timers.h"

#include <unistd.h>

#define HOUR (3600 * SECOND)
#define CROWD 32
#define ROUNDS 40
#define MOVED 9

static struct new_event unique_event(const char *key, int64_t unique_us)
{
    struct new_event event = event_of("t", NULL);
    event.unique = text_of(key);
    event.unique_us = unique_us;
    checksum_seal(&event);
    return event;
}

/* Publishes at the present time; the event with its answers. */
static struct new_event publish(struct store *store, const char *key, int64_t unique_us)
{
    struct new_event event = unique_event(key, unique_us);
    struct append append = append_of(&event, 1);
    append.change.now_us = clock_wall_us();
    must_answer(HF_OK, RUN(store, &append));
    return event;
}

/* Keeps one that is due so long from now. */
static struct new_event keep(struct store *store, const char *key, int64_t unique_us,
                             int64_t delay_us, bool replace)
{
    struct new_event event = unique_event(key, unique_us);
    int64_t now_us = clock_wall_us();
    struct delay delay = {
        .change = {.kind = CHANGE_DELAY, .now_us = now_us},
        .events = &event,
        .count = 1,
        .due_us = store_time(store, now_us) + delay_us,
        .replace = replace,
    };
    must_answer(HF_OK, RUN(store, &delay));
    return event;
}

static int64_t bring(struct store *store)
{
    struct release release = {
        .change = {.kind = CHANGE_RELEASE, .now_us = clock_wall_us()},
        .max = STORE_RELEASE_MAX,
    };
    must_answer(HF_OK, RUN(store, &release));
    return release.ret_count;
}

static hf_status cancel(struct store *store, const struct new_event *event)
{
    struct later_cancel cancel = {
        .change = {.kind = CHANGE_LATER_CANCEL, .now_us = clock_wall_us()}};
    memcpy(cancel.id, event->id, sizeof cancel.id);
    return RUN(store, &cancel);
}

static int64_t waiting(struct store *store)
{
    struct timers_count count;
    must_answer(HF_OK, store_timers_count(store, clock_wall_us(), &count));
    return count.later;
}

static void must_be_second(const struct new_event *second, const struct new_event *first,
                           int64_t position)
{
    must_equal(true, second->duplicate);
    must_equal(true, second->is_second);
    must_equal(false, second->replaced);
    must_equal(position, second->position);
    must_hold(memcmp(second->first_id, first->id, 16) == 0);
}

static void must_be_stored(const struct new_event *event)
{
    must_equal(false, event->duplicate);
    must_equal(false, event->is_second);
    must_hold(event->position > 0);
}

static void must_be_kept(const struct new_event *event, bool replaced)
{
    must_equal(false, event->duplicate);
    must_equal(false, event->is_second);
    must_equal(replaced, event->replaced);
    must_equal(0, event->position);
}

/* ---- The window ------------------------------------------------------------------------------ */

static void within_its_time_a_unique_key_returns_the_first_event(void **state)
{
    struct store *a = fixture_open(*state, "a");
    struct store *b = fixture_open(*state, "b");
    struct new_event first = publish(a, "k", HOUR);
    struct new_event second = publish(a, "k", HOUR);
    struct new_event third = publish(b, "k", 1);
    struct new_event other = publish(b, "l", HOUR);
    must_be_stored(&first);
    must_be_second(&second, &first, first.position);
    must_be_second(&third, &first, first.position);
    must_be_stored(&other);
    must_equal(2, log_count(*state, a));
}

static void after_its_time_a_unique_key_stores_the_next_event(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = publish(store, "k", 5000);
    struct new_event next = publish(store, "k", HOUR);
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    while (next.duplicate && clock_mono_us() < until_us) {
        must_be_second(&next, &first, first.position);
        next = publish(store, "k", HOUR);
    }
    must_be_stored(&next);
    must_hold(next.position > first.position);
    struct new_event last = publish(store, "k", HOUR);
    must_be_second(&last, &next, next.position);
}

static void two_events_with_one_unique_key_in_an_append_are_one(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event events[3] = {unique_event("k", HOUR), event_of("t", NULL),
                                  unique_event("k", HOUR)};
    struct append append = append_of(events, 3);
    append.change.now_us = clock_wall_us();
    must_answer(HF_OK, RUN(store, &append));
    must_be_stored(&events[0]);
    must_be_stored(&events[1]);
    must_be_second(&events[2], &events[0], events[0].position);
    must_equal(2, log_count(*state, store));
}

static void a_stored_id_counts_before_the_unique_key(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = publish(store, "k", HOUR);
    struct new_event again = unique_event("other", HOUR);
    memcpy(again.id, first.id, sizeof again.id);
    checksum_seal(&again);
    must_answer(HF_OK, append_event(store, &again));
    must_equal(true, again.duplicate);
    must_equal(false, again.is_second);
    must_equal(first.position, again.position);
    struct new_event free = publish(store, "other", HOUR); /* it has not taken that key */
    must_be_stored(&free);
}

static void a_unique_key_belongs_to_its_namespace(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct store *other = fixture_open_other(*state, "b");
    struct new_event here = publish(store, "k", HOUR);
    struct new_event there = publish(other, "k", HOUR);
    must_be_stored(&here);
    must_be_stored(&there);
}

static void a_publish_with_a_refused_version_takes_no_unique_key(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event event = unique_event("k", HOUR);
    event.key = text_of("versioned");
    event.expected_version = 7;
    must_answer(HF_CONFLICT, append_event(store, &event));
    struct new_event next = publish(store, "k", HOUR);
    must_be_stored(&next);
}

/* ---- At the same moment ---------------------------------------------------------------------- */

struct rush {
    struct store *stores[2];
    struct new_event events[CROWD];
    bool later;
};

static void rush_in(int index, void *ctx)
{
    struct rush *rush = ctx;
    struct store *store = rush->stores[index % 2];
    rush->events[index] =
        rush->later ? keep(store, "k", HOUR, HOUR, false) : publish(store, "k", HOUR);
}

static void one_is_first(struct fixture *f, bool later)
{
    struct rush rush = {.stores = {fixture_open(f, "a"), fixture_open(f, "b")}, .later = later};
    int first = -1;
    crowd_run(CROWD, rush_in, &rush);
    for (int i = 0; i < CROWD; i++) {
        if (!rush.events[i].duplicate) {
            must_equal(-1, first);
            first = i;
        }
    }
    must_hold(first >= 0);
    for (int i = 0; i < CROWD; i++) {
        if (i != first) {
            must_be_second(&rush.events[i], &rush.events[first], rush.events[first].position);
        }
    }
    must_equal(later ? 0 : 1, log_count(f, rush.stores[0]));
    must_equal(later ? 1 : 0, waiting(rush.stores[0]));
}

static void of_32_publishers_with_one_unique_key_one_stores_its_event(void **state)
{
    one_is_first(*state, false);
}

static void of_32_delayed_publishes_with_one_unique_key_one_is_stored(void **state)
{
    one_is_first(*state, true);
}

/* All find a window that has just ended: one of them begins the next. */
static void of_many_publishers_after_the_time_of_a_unique_key_one_stores(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct rush rush = {.stores = {store, fixture_open(*state, "b")}};
    struct new_event old = publish(store, "k", 1);
    usleep(1000);
    crowd_run(CROWD, rush_in, &rush);
    int stored = 0;
    for (int i = 0; i < CROWD; i++) {
        stored += !rush.events[i].duplicate;
        must_hold(rush.events[i].position > old.position);
    }
    must_equal(1, stored);
    must_equal(2, log_count(*state, store));
}

/* ---- Rolled back, killed --------------------------------------------------------------------- */

struct late {
    struct store *store;
    struct new_event event;
};

static void publish_late(int index, void *ctx)
{
    struct late *late = ctx;
    (void)index;
    late->event = publish(late->store, "k", HOUR);
}

/* A publisher that comes while another's transaction has the key waits for its end. */
static void end_while_another_waits(struct fixture *f, bool commit)
{
    struct store *store = fixture_open(f, "a");
    struct late late = {.store = fixture_open(f, "b")};
    struct new_event event = unique_event("k", HOUR);
    struct append append = append_of(&event, 1);
    struct crowd crowd;
    struct tx *tx = NULL;
    append.change.now_us = clock_wall_us();
    must_answer(HF_OK, store_tx_begin(store, deadline_after_ms(DEADLINE_MS), &tx));
    must_answer(HF_OK, tx_append(tx, &append));
    must_be_stored(&event);
    crowd_start(&crowd, 1, publish_late, &late);
    crowd_settle(&crowd);
    if (commit) {
        must_answer(HF_OK, tx_commit(tx));
    } else {
        tx_rollback(tx);
    }
    crowd_join(&crowd);
    if (commit) {
        must_be_second(&late.event, &event, event.position);
    } else {
        must_be_stored(&late.event);
    }
    must_equal(1, log_count(f, store));
}

static void a_publish_that_is_rolled_back_takes_no_unique_key(void **state)
{
    end_while_another_waits(*state, false);
}

static void a_publisher_that_waits_for_the_others_commit_gets_the_first_event(void **state)
{
    end_while_another_waits(*state, true);
}

#ifdef HF_FAULTS

static int publish_role(struct fixture *f, const char *argument)
{
    struct store *store = fixture_open(f, "mortal");
    point_arm(argument, 1, POINT_KILL);
    publish(store, "k", HOUR);
    role_report("alive", 0);
    return 0;
}

/* Killed before its commit, it has not published; killed after it, it has. */
static void a_killed_publisher_has_the_unique_key_only_if_it_has_committed(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *point;
        bool sqlite;
        bool stored; /* on SQLite it is known whether */
    } deaths[] = {
        {"after_append_before_commit", true, false},
        {"before_commit", true, false},
        {"after_commit_before_ack", true, true},
        {"after_commit_before_ack", false, true},
    };
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        if (deaths[i].sqlite != f->sqlite) {
            continue;
        }
        snprintf(f->namespace_name, sizeof f->namespace_name, "killed-%d-%zu", (int)getpid(), i);
        struct store *store = fixture_open(f, "a");
        struct child *child = fixture_child(f, "publish", deaths[i].point);
        char line[CHILD_LINE_BYTES];
        must_equal(false, child_line(child, line, DEADLINE_MS));
        child_kill(child);
        struct new_event next = publish(store, "k", HOUR);
        must_equal(deaths[i].stored, next.duplicate);
        must_equal(1, log_count(f, store));
    }
}

#endif

/* ---- For later ------------------------------------------------------------------------------- */

static void a_delayed_event_has_its_unique_key(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = keep(store, "k", 0, HOUR, false);
    must_be_kept(&first, false);
    struct new_event second = keep(store, "k", 0, 2 * HOUR, false);
    must_be_second(&second, &first, 0);
    struct new_event now = publish(store, "k", HOUR);
    must_be_second(&now, &first, 0);
    must_equal(1, waiting(store));
    must_equal(0, log_count(*state, store));
}

static void after_a_delayed_event_entered_the_log_the_time_of_its_key_counts(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event brief = keep(store, "brief", 0, -SECOND, false);
    struct new_event first = keep(store, "long", HOUR, -SECOND, false);
    must_equal(2, bring(store));
    struct new_event next = keep(store, "brief", 0, HOUR, false);
    must_be_kept(&next, false);
    must_hold(memcmp(next.id, brief.id, 16) != 0);
    struct new_event second = publish(store, "long", HOUR);
    must_equal(true, second.position > 0);
    must_be_second(&second, &first, second.position);
    must_hold(memcmp(entry_at(*state, store, second.position)->id, first.id, 16) == 0);
}

static void the_unique_key_of_a_cancelled_event_is_free(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = keep(store, "k", HOUR, HOUR, false);
    must_answer(HF_OK, cancel(store, &first));
    struct new_event next = publish(store, "k", HOUR);
    must_be_stored(&next);
}

static void the_id_of_a_delayed_event_counts_before_the_unique_key(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = keep(store, "k", 0, HOUR, false);
    struct new_event old = keep(store, "l", 0, HOUR, false);
    struct new_event again = unique_event("l", 0);
    struct delay delay = {
        .change = {.kind = CHANGE_DELAY, .now_us = clock_wall_us()},
        .events = &again,
        .count = 1,
        .due_us = store_time(store, clock_wall_us()) + HOUR,
        .replace = true,
    };
    memcpy(again.id, first.id, sizeof again.id);
    checksum_seal(&again);
    must_answer(HF_OK, RUN(store, &delay));
    must_equal(true, again.duplicate);
    must_equal(false, again.replaced);
    must_equal(2, waiting(store)); /* nothing went for what was not stored */
    struct new_event second = keep(store, "l", 0, HOUR, false);
    must_be_second(&second, &old, 0);
}

/* ---- Replacing ------------------------------------------------------------------------------- */

static void a_delayed_event_is_replaced_by_its_unique_key_and_its_time_moved(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = keep(store, "k", 0, -SECOND, true);
    must_be_kept(&first, false);
    struct new_event second = keep(store, "k", 0, HOUR, true);
    must_be_kept(&second, true);
    must_equal(1, waiting(store));
    must_equal(0, bring(store)); /* the first would be due */
    must_answer(HF_NOTFOUND, cancel(store, &first));
    struct new_event third = keep(store, "k", 0, -SECOND, true);
    must_be_kept(&third, true);
    must_equal(1, bring(store));
    must_equal(1, log_count(*state, store));
    must_hold(memcmp(entry_at(*state, store, last_of(store))->id, third.id, 16) == 0);
}

static void an_event_in_the_log_is_not_replaced_by_its_unique_key(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = keep(store, "k", HOUR, -SECOND, true);
    must_equal(1, bring(store));
    struct new_event second = keep(store, "k", HOUR, HOUR, true);
    must_be_second(&second, &first, last_of(store));
    struct new_event brief = keep(store, "l", 0, -SECOND, true);
    must_equal(1, bring(store));
    struct new_event next = keep(store, "l", 0, HOUR, true);
    must_be_kept(&next, false);
    must_hold(memcmp(next.id, brief.id, 16) != 0);
}

struct duel {
    struct store *stores[2];
    struct new_event event;
    int64_t brought;
};

static void fight(int index, void *ctx)
{
    struct duel *duel = ctx;
    if (index == 0) {
        duel->brought = bring(duel->stores[0]);
    } else {
        duel->event = keep(duel->stores[1], "k", 0, HOUR, true);
    }
}

/* Whichever comes first: the old one is in the log or replaced, and the new one waits. */
static void a_delayed_event_enters_the_log_or_is_replaced_and_never_both(void **state)
{
    struct duel duel = {.stores = {fixture_open(*state, "a"), fixture_open(*state, "b")}};
    int64_t logged = 0;
    int replaced = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct new_event old = keep(duel.stores[0], "k", 0, -SECOND, false);
        must_be_kept(&old, false);
        crowd_run(2, fight, &duel);
        must_be_kept(&duel.event, duel.event.replaced);
        must_equal(duel.event.replaced ? 0 : 1, duel.brought);
        must_equal(1, waiting(duel.stores[0]));
        logged += duel.brought;
        replaced += duel.event.replaced;
        must_answer(HF_OK, cancel(duel.stores[0], &duel.event));
    }
    must_equal(logged, log_count(*state, duel.stores[0]));
    must_equal(ROUNDS, logged + replaced);
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

static void retain(struct store *store)
{
    struct retain retain = {.change = {.kind = CHANGE_RETAIN, .now_us = clock_wall_us()}};
    do {
        retain.change.now_us = clock_wall_us();
        must_answer(HF_OK, store_retain(store, &retain, deadline_after_ms(DEADLINE_MS)));
    } while (retain.ret_more);
}

/* What retention takes are only keys whose time is over, and none whose event waits. */
static void retention_deletes_no_unique_key_that_counts(void **state)
{
    struct store *store = fixture_open(*state, "a");
    struct new_event first = publish(store, "k", HOUR);
    struct new_event later = keep(store, "l", 1, -SECOND, false);
    for (int i = 0; i < 20; i++) {
        char key[32];
        snprintf(key, sizeof key, "over %d", i);
        publish(store, key, 1);
    }
    usleep(1000);
    retain(store);
    struct new_event second = publish(store, "k", HOUR);
    must_be_second(&second, &first, first.position);
    second = publish(store, "l", HOUR);
    must_be_second(&second, &later, 0);
    second = publish(store, "over 7", HOUR);
    must_be_stored(&second);
}

/* More of them than one publish looks at, and all of them past the time that they had first. */
static void a_delayed_event_that_was_moved_keeps_its_unique_key(void **state)
{
    static const char *const keys[MOVED] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct store *store = fixture_open(*state, "a");
    struct new_event kept[MOVED];
    int64_t due_us = clock_wall_us() + SECOND / 5;
    for (int i = 0; i < MOVED; i++) {
        kept[i] = keep(store, keys[i], 1, due_us - clock_wall_us(), false);
    }
    for (int i = 0; i < MOVED; i++) {
        int64_t now_us = clock_wall_us();
        struct later_move move = {.change = {.kind = CHANGE_LATER_MOVE, .now_us = now_us},
                                  .due_us = store_time(store, now_us) + HOUR};
        memcpy(move.id, kept[i].id, sizeof move.id);
        must_answer(HF_OK, RUN(store, &move));
    }
    while (clock_wall_us() <= due_us) {
        usleep(10000);
    }
    publish(store, "another", HOUR);
    retain(store);
    for (int i = 0; i < MOVED; i++) {
        struct new_event second = publish(store, keys[i], HOUR);
        must_be_second(&second, &kept[i], 0);
    }
}

static const struct CMUnitTest claims[] = {
    CLAIM(within_its_time_a_unique_key_returns_the_first_event),
    CLAIM(after_its_time_a_unique_key_stores_the_next_event),
    CLAIM(two_events_with_one_unique_key_in_an_append_are_one),
    CLAIM(a_stored_id_counts_before_the_unique_key),
    CLAIM(a_unique_key_belongs_to_its_namespace),
    CLAIM(a_publish_with_a_refused_version_takes_no_unique_key),
    CLAIM(of_32_publishers_with_one_unique_key_one_stores_its_event),
    CLAIM(of_32_delayed_publishes_with_one_unique_key_one_is_stored),
    CLAIM(of_many_publishers_after_the_time_of_a_unique_key_one_stores),
    CLAIM(a_publish_that_is_rolled_back_takes_no_unique_key),
    CLAIM(a_publisher_that_waits_for_the_others_commit_gets_the_first_event),
#ifdef HF_FAULTS
    CLAIM(a_killed_publisher_has_the_unique_key_only_if_it_has_committed),
#endif
    CLAIM(a_delayed_event_has_its_unique_key),
    CLAIM(after_a_delayed_event_entered_the_log_the_time_of_its_key_counts),
    CLAIM(the_unique_key_of_a_cancelled_event_is_free),
    CLAIM(the_id_of_a_delayed_event_counts_before_the_unique_key),
    CLAIM(a_delayed_event_is_replaced_by_its_unique_key_and_its_time_moved),
    CLAIM(an_event_in_the_log_is_not_replaced_by_its_unique_key),
    CLAIM(a_delayed_event_enters_the_log_or_is_replaced_and_never_both),
    CLAIM(retention_deletes_no_unique_key_that_counts),
    CLAIM(a_delayed_event_that_was_moved_keeps_its_unique_key),
};

static const struct role roles[] = {
#ifdef HF_FAULTS
    {"publish", publish_role},
#endif
    {NULL, NULL},
};

FIXTURE_MAIN("unique keys", claims, roles)
