/*
 * Unit tests of bus/deliver/dispatchers: seats that count their turns instead of runners.
 *
 * With fault points each order of calls, times and turns is forced by stopping a thread where the
 * other one comes first; those tests are left out of builds without them.
 */
#include "unit.h"

#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "bus/deliver/turn/dispatchers.h"

#include <stdbool.h>
#include <unistd.h>

#define DEADLINE_MS 20000
#define SEATS 300

/* A seat, and what its turns do. */
struct subject {
    struct seat seat; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Atomic int wanted; /* noted before each call, as a runner's needs are */
    int seen;           /* of these, by turns */
    int turns;
    int by_clock;
    bool blocks; /* the next turn does not return before that is false */
    bool inside; /* a turn runs */
    bool leaves; /* the next turn is the last */
    bool left;
    int64_t wait_us;      /* between turns; INT64_MAX: until it is called */
    _Atomic int lasts_us; /* each call of a turn */
    int calls;            /* of a turn; 0: one */
};

static struct dispatchers dispatchers;
static atomic_int references;

static struct seat_next turn(struct seat *seat, bool by_clock)
{
    struct subject *subject = (struct subject *)seat;
    pthread_mutex_lock(&subject->mutex);
    assert_false(subject->inside);
    subject->inside = true;
    subject->seen += atomic_exchange(&subject->wanted, 0);
    subject->turns++;
    subject->by_clock += by_clock ? 1 : 0;
    pthread_cond_broadcast(&subject->changed);
    while (subject->blocks) {
        pthread_cond_wait(&subject->changed, &subject->mutex);
    }
    int64_t wait_us = subject->wait_us;
    int calls = subject->calls > 0 ? subject->calls : 1;
    pthread_mutex_unlock(&subject->mutex);
    for (int i = 0; i < calls && subject->lasts_us > 0; i++) {
        usleep((useconds_t)subject->lasts_us);
        dispatchers_moved(seat);
    }
    pthread_mutex_lock(&subject->mutex);
    bool leaves = subject->leaves;
    subject->inside = false;
    pthread_mutex_unlock(&subject->mutex);
    int64_t wake_us = wait_us == INT64_MAX ? INT64_MAX : clock_mono_us() + wait_us;
    return (struct seat_next){leaves ? SEAT_LEAVE : SEAT_WAIT, wake_us};
}

static void left(struct seat *seat)
{
    struct subject *subject = (struct subject *)seat;
    pthread_mutex_lock(&subject->mutex);
    subject->left = true;
    pthread_cond_broadcast(&subject->changed);
    pthread_mutex_unlock(&subject->mutex);
}

static void reference(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&references, 1);
}

static void unreference(void *ctx)
{
    (void)ctx;
    atomic_fetch_sub(&references, 1);
}

static _Atomic int64_t
    kept_us; /* when it was looked for handlers that are over their time; 0: never */
static _Atomic int64_t keep_next_us = INT64_MAX; /* what the next look answers, once */

static atomic_bool keeping_lasts; /* a look does not return before the last seat has left */

static int64_t keep_time(void *ctx)
{
    (void)ctx;
    atomic_store(&kept_us, clock_mono_us());
    while (atomic_load(&keeping_lasts) && dispatchers_seats(&dispatchers) > 0) {
        usleep(500);
    }
    return atomic_exchange(&keep_next_us, INT64_MAX);
}

static void begin(void)
{
    struct dispatchers_owner owner = {turn, left, keep_time, reference, unreference, NULL};
    assert_ok(dispatchers_init(&dispatchers, owner));
}

static void subject_init(struct subject *subject)
{
    *subject = (struct subject){.wait_us = INT64_MAX};
    assert_ok(mutex_init(&subject->mutex));
    assert_ok(cond_init(&subject->changed));
}

static void call(struct subject *subject)
{
    atomic_fetch_add(&subject->wanted, 1);
    dispatchers_call(&dispatchers, &subject->seat);
}

static void set_blocks(struct subject *subject, bool blocks)
{
    pthread_mutex_lock(&subject->mutex);
    subject->blocks = blocks;
    pthread_cond_broadcast(&subject->changed);
    pthread_mutex_unlock(&subject->mutex);
}

/* Until it has had so many turns and seen so many calls. */
static bool await(struct subject *subject, int turns, int seen)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    bool in_time = true;
    pthread_mutex_lock(&subject->mutex);
    while ((subject->turns < turns || subject->seen < seen) && in_time) {
        in_time = cond_wait_until(&subject->changed, &subject->mutex, deadline);
    }
    pthread_mutex_unlock(&subject->mutex);
    return in_time;
}

static bool is_idle(struct subject *subject)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    while (atomic_load(&subject->seat.state) != SEAT_IDLE && !deadline_passed(deadline)) {
        usleep(500);
    }
    return atomic_load(&subject->seat.state) == SEAT_IDLE;
}

static int threads_now(void)
{
    pthread_mutex_lock(&dispatchers.mutex);
    int threads = dispatchers.threads;
    pthread_mutex_unlock(&dispatchers.mutex);
    return threads;
}

static bool come_down_to(int threads)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    while (threads_now() > threads && !deadline_passed(deadline)) {
        usleep(10000);
    }
    return threads_now() <= threads;
}

static void leave(struct subject *subject)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    bool in_time = true;
    pthread_mutex_lock(&subject->mutex);
    subject->leaves = true;
    pthread_mutex_unlock(&subject->mutex);
    call(subject);
    pthread_mutex_lock(&subject->mutex);
    while (!subject->left && in_time) {
        in_time = cond_wait_until(&subject->changed, &subject->mutex, deadline);
    }
    pthread_mutex_unlock(&subject->mutex);
    assert_true(in_time);
    assert_int_equal(atomic_load(&subject->seat.state), SEAT_AWAY);
    pthread_mutex_destroy(&subject->mutex);
    pthread_cond_destroy(&subject->changed);
}

/* All seats have left: so have the threads. */
static void end(void)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    dispatchers_join(&dispatchers);
    assert_int_equal(dispatchers.threads, 0);
    while (atomic_load(&references) > 0 && !deadline_passed(deadline)) {
        usleep(1000); /* a thread lets go of its reference after that */
    }
    assert_int_equal(atomic_load(&references), 0);
    dispatchers_release(&dispatchers);
}

static void a_seat_has_a_turn_at_once_and_one_for_each_call(void **state)
{
    (void)state;
    struct subject subject;
    begin();
    subject_init(&subject);
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(await(&subject, 1, 0));
    for (int i = 1; i <= 100; i++) {
        assert_true(is_idle(&subject));
        call(&subject);
        assert_true(await(&subject, 1 + i, i));
    }
    assert_int_equal(subject.turns, 101);
    assert_int_equal(subject.by_clock, 0);
    leave(&subject);
    end();
}

static void calls_during_a_turn_are_one_more_turn(void **state)
{
    (void)state;
    struct subject subject;
    begin();
    subject_init(&subject);
    subject.blocks = true;
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(await(&subject, 1, 0));
    for (int i = 0; i < 5; i++) {
        call(&subject);
    }
    set_blocks(&subject, false);
    assert_true(await(&subject, 2, 5));
    assert_true(is_idle(&subject));
    assert_int_equal(subject.turns, 2);
    leave(&subject);
    end();
}

static void turns_come_in_the_order_of_their_times(void **state)
{
    (void)state;
    static struct subject subjects[20];
    begin();
    clock_fake_set(1000000, 1000000);
    for (int i = 0; i < 20; i++) {
        subject_init(&subjects[i]);
        subjects[i].wait_us = 1000 * (1 + 7 * i % 20);
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
        assert_true(await(&subjects[i], 1, 0));
    }
    for (int i = 0; i < 20; i++) {
        assert_true(is_idle(&subjects[i]));
        pthread_mutex_lock(&subjects[i].mutex);
        subjects[i].wait_us = INT64_MAX;
        pthread_mutex_unlock(&subjects[i].mutex);
    }
    for (int ms = 1; ms <= 20; ms++) {
        clock_fake_advance(1000);
        for (int i = 0; i < 20; i++) {
            bool due = 1 + 7 * i % 20 <= ms;
            assert_true(!due || await(&subjects[i], 2, 0));
            pthread_mutex_lock(&subjects[i].mutex);
            assert_int_equal(subjects[i].by_clock, due);
            pthread_mutex_unlock(&subjects[i].mutex);
        }
    }
    clock_fake_off();
    for (int i = 0; i < 20; i++) {
        leave(&subjects[i]);
    }
    end();
}

/* A slow subscription does not slow another: not the third one, and not the thirtieth. */
static void turns_that_last_keep_nothing_else_waiting(void **state)
{
    (void)state;
    static struct subject slow[30];
    struct subject quick;
    begin();
    for (int i = 0; i < 30; i++) {
        subject_init(&slow[i]);
        slow[i].blocks = true;
        assert_ok(dispatchers_add(&dispatchers, &slow[i].seat));
        assert_true(await(&slow[i], 1, 0));
    }
    subject_init(&quick);
    assert_ok(dispatchers_add(&dispatchers, &quick.seat));
    assert_true(await(&quick, 1, 0));
    assert_true(threads_now() >= 30);
    for (int i = 0; i < 30; i++) {
        set_blocks(&slow[i], false);
    }
    assert_true(come_down_to(DISPATCHERS_KEPT));
    call(&quick);
    assert_true(await(&quick, 2, 1));
    for (int i = 0; i < 30; i++) {
        leave(&slow[i]);
    }
    leave(&quick);
    end();
}

static void there_are_never_more_threads_than_the_maximum(void **state)
{
    (void)state;
    static struct subject slow[DISPATCHERS_MAX + 10];
    begin();
    for (int i = 0; i < DISPATCHERS_MAX + 10; i++) {
        subject_init(&slow[i]);
        slow[i].blocks = true;
        assert_ok(dispatchers_add(&dispatchers, &slow[i].seat));
    }
    for (int i = 0; i < DISPATCHERS_MAX; i++) {
        assert_true(await(&slow[i], 1, 0));
    }
    usleep(20 * DISPATCHERS_LATE_US);
    assert_int_equal(threads_now(), DISPATCHERS_MAX);
    assert_int_equal(slow[DISPATCHERS_MAX].turns, 0);
    set_blocks(&slow[0], false); /* one thread for all the others */
    for (int i = DISPATCHERS_MAX; i < DISPATCHERS_MAX + 10; i++) {
        set_blocks(&slow[i], false);
        assert_true(await(&slow[i], 1, 0));
    }
    for (int i = 1; i < DISPATCHERS_MAX; i++) {
        set_blocks(&slow[i], false);
    }
    for (int i = 0; i < DISPATCHERS_MAX + 10; i++) {
        leave(&slow[i]);
    }
    end();
}

/* Turns that last, each of them a little, with many behind them. If threads were added as long as
 * seats wait there would be DISPATCHERS_MAX of them. */
static void turns_that_get_on_have_as_many_threads_as_the_store_serves(void **state)
{
    (void)state;
    static struct subject subjects[SEATS];
    begin();
    dispatchers_limit(&dispatchers, 6);
    for (int i = 0; i < SEATS; i++) {
        subject_init(&subjects[i]);
        subjects[i].lasts_us = 4 * DISPATCHERS_LATE_US;
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
    }
    int most = 0;
    for (int i = 0; i < SEATS; i++) {
        assert_true(await(&subjects[i], 1, 0));
        int threads = threads_now();
        most = threads > most ? threads : most;
    }
    assert_int_equal(most, 6);
    for (int i = 0; i < SEATS; i++) {
        subjects[i].lasts_us = 0;
        leave(&subjects[i]);
    }
    end();
}

/* A turn of many calls, each of which is answered, is not stuck however long it takes. */
static void a_long_turn_that_gets_on_has_no_thread_beside_it(void **state)
{
    (void)state;
    static struct subject subjects[2 * DISPATCHERS_BUSY];
    begin();
    for (int i = 0; i < 2 * DISPATCHERS_BUSY; i++) {
        subject_init(&subjects[i]);
        subjects[i].lasts_us = DISPATCHERS_STUCK_US / 8;
        subjects[i].calls = 16;
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
    }
    assert_true(await(&subjects[DISPATCHERS_BUSY], 1, 0));
    assert_int_equal(threads_now(), DISPATCHERS_BUSY);
    for (int i = 0; i < 2 * DISPATCHERS_BUSY; i++) {
        assert_true(await(&subjects[i], 1, 0));
        leave(&subjects[i]);
    }
    end();
}

/* Many turns were stuck and are not any more, while seats wait: the threads that are too many do
 * not take these. */
static void threads_of_turns_that_were_stuck_take_no_other_turns(void **state)
{
    (void)state;
    static struct subject slow[30];
    static struct subject subjects[SEATS];
    begin();
    for (int i = 0; i < 30; i++) {
        subject_init(&slow[i]);
        slow[i].blocks = true;
        assert_ok(dispatchers_add(&dispatchers, &slow[i].seat));
        assert_true(await(&slow[i], 1, 0));
    }
    assert_true(threads_now() >= 30);
    for (int i = 0; i < SEATS; i++) {
        subject_init(&subjects[i]);
        subjects[i].lasts_us = 4 * DISPATCHERS_LATE_US;
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
    }
    for (int i = 0; i < 30; i++) {
        set_blocks(&slow[i], false);
    }
    for (int i = 0; i < 30; i++) {
        assert_true(is_idle(&slow[i]));
    }
    usleep(8 * DISPATCHERS_LATE_US); /* turns that they may have taken are over */
    pthread_mutex_lock(&dispatchers.mutex);
    int32_t active = dispatchers.threads - dispatchers.idle;
    bool waiting = dispatchers.first != NULL;
    pthread_mutex_unlock(&dispatchers.mutex);
    assert_true(waiting);
    assert_in_range(active, 1, DISPATCHERS_BUSY);
    for (int i = 0; i < SEATS; i++) {
        assert_true(await(&subjects[i], 1, 0));
        leave(&subjects[i]);
    }
    for (int i = 0; i < 30; i++) {
        leave(&slow[i]);
    }
    end();
}

/* There are many threads because of turns that last. When these are over, news for all seats makes
 * only a few of them work: each would take few turns, and switching costs more than these. */
static void a_burst_of_calls_calls_few_of_many_idle_threads(void **state)
{
    (void)state;
    static struct subject subjects[SEATS];
    begin();
    for (int i = 0; i < SEATS; i++) {
        subject_init(&subjects[i]);
        subjects[i].blocks = i < 30;
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
        assert_true(await(&subjects[i], 1, 0));
    }
    for (int i = 0; i < 30; i++) {
        set_blocks(&subjects[i], false);
    }
    for (int i = 0; i < SEATS; i++) {
        assert_true(is_idle(&subjects[i]));
    }
    dispatchers_hold(&dispatchers);
    int32_t threads = dispatchers.threads;
    for (int i = 0; i < SEATS; i++) {
        atomic_fetch_add(&subjects[i].wanted, 1);
        dispatchers_call_held(&dispatchers, &subjects[i].seat);
    }
    int32_t active = dispatchers.threads - dispatchers.idle;
    dispatchers_let_go(&dispatchers);
    assert_true(threads >= 20); /* some may have ended */
    assert_true(active <= DISPATCHERS_QUICK);
    for (int i = 0; i < SEATS; i++) {
        assert_true(await(&subjects[i], 2, 1));
        leave(&subjects[i]);
    }
    end();
}

static bool is_kept_after(int64_t at_us)
{
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    while (atomic_load(&kept_us) < at_us && !deadline_passed(deadline)) {
        usleep(500);
    }
    return atomic_load(&kept_us) >= at_us;
}

/* The turn may wait for a lock that a handler holds: only the end of the handler helps. */
static void the_time_of_handlers_is_kept_while_turns_are_stuck(void **state)
{
    (void)state;
    struct subject subject;
    subject_init(&subject);
    subject.blocks = true;
    atomic_store(&kept_us, 0); /* by another test's supervisor */
    begin();
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(await(&subject, 1, 0));
    assert_true(is_kept_after(1)); /* when the supervisor begins: it knows of no time yet */
    int64_t later_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    int64_t due_us = clock_mono_us() + 30000;
    dispatchers_expect(&dispatchers, later_us);
    dispatchers_expect(&dispatchers, due_us); /* the earlier one counts */
    assert_true(is_kept_after(due_us));
    assert_true(atomic_load(&kept_us) < later_us);
    /* What a look answers is when the next one is. */
    due_us = clock_mono_us() + 60000;
    atomic_store(&keep_next_us, due_us);
    dispatchers_expect(&dispatchers, clock_mono_us());
    assert_true(is_kept_after(due_us));
    set_blocks(&subject, false);
    leave(&subject);
    end();
}

/* The same seat may be added again after it has left, and the threads come again. */
static void all_threads_end_with_the_last_seat(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 20; i++) {
        struct subject subject;
        subject_init(&subject);
        assert_ok(dispatchers_add(&dispatchers, &subject.seat));
        assert_true(await(&subject, 1, 0));
        leave(&subject);
        if (i % 2) {
            dispatchers_join(&dispatchers);
            assert_int_equal(dispatchers.threads, 0);
        }
    }
    end();
}

struct crowd {
    struct subject *subjects;
    uint64_t seed;
};

static void *call_many(void *ctx)
{
    struct crowd *crowd = ctx;
    for (int i = 0; i < 20000; i++) {
        call(&crowd->subjects[chance_below(&crowd->seed, SEATS)]);
    }
    return NULL;
}

static bool is_supervised(void)
{
    pthread_mutex_lock(&dispatchers.mutex);
    bool supervised = dispatchers.supervised;
    pthread_mutex_unlock(&dispatchers.mutex);
    return supervised;
}

static void the_last_seat_may_leave_while_the_time_of_handlers_is_kept(void **state)
{
    (void)state;
    struct subject subject;
    struct deadline deadline = deadline_after_ms(DEADLINE_MS);
    begin();
    subject_init(&subject);
    atomic_store(&keeping_lasts, true);
    atomic_store(&kept_us, 0);
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    while (atomic_load(&kept_us) == 0 && !deadline_passed(deadline)) {
        usleep(500);
    }
    leave(&subject);
    atomic_store(&keeping_lasts, false);
    while (is_supervised() && !deadline_passed(deadline)) {
        usleep(500);
    }
    assert_false(is_supervised());
    end();
}

/* Every call is followed by a turn that sees it, whatever the threads do. */
static void no_call_is_lost_in_a_crowd(void **state)
{
    (void)state;
    static struct subject subjects[SEATS];
    struct crowd crowds[4];
    pthread_t threads[4];
    begin();
    for (int i = 0; i < SEATS; i++) {
        subject_init(&subjects[i]);
        subjects[i].wait_us = i % 3 == 0 ? INT64_MAX : 200 * i;
        assert_ok(dispatchers_add(&dispatchers, &subjects[i].seat));
    }
    for (int i = 0; i < 4; i++) {
        crowds[i] = (struct crowd){subjects, (uint64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, &crowds[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    int seen = 0;
    for (int i = 0; i < SEATS; i++) {
        struct deadline deadline = deadline_after_ms(DEADLINE_MS);
        while (atomic_load(&subjects[i].wanted) > 0 && !deadline_passed(deadline)) {
            usleep(500);
        }
        leave(&subjects[i]);
        seen += subjects[i].seen;
    }
    assert_int_equal(seen, 4 * 20000 + SEATS); /* leaving is a call, too */
    end();
}

#ifdef HF_FAULTS

static void without_memory_a_seat_stays_away(void **state)
{
    (void)state;
    struct subject subject;
    begin();
    subject_init(&subject);
    mem_fail_at(1, true);
    hf_status status = dispatchers_add(&dispatchers, &subject.seat);
    mem_fail_at(0, false);
    assert_int_equal(status, HF_NOMEM);
    assert_int_equal(atomic_load(&subject.seat.state), SEAT_AWAY);
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(await(&subject, 1, 0));
    leave(&subject);
    end();
}

/* The turn has decided to wait; before it does, it is called. */
static void a_call_between_the_turn_and_the_wait_is_not_lost(void **state)
{
    (void)state;
    struct subject subject;
    begin();
    subject_init(&subject);
    point_arm("dispatch_turned", 1, POINT_STOP_THREAD);
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(point_wait_blocked("dispatch_turned", DEADLINE_MS));
    call(&subject);
    assert_int_equal(atomic_load(&subject.seat.state), SEAT_RUNNING_AGAIN);
    point_release("dispatch_turned");
    assert_true(await(&subject, 2, 1));
    leave(&subject);
    end();
    point_reset();
}

/* It was taken, and has not begun: the call is for this turn, or for one more. */
static void a_call_before_the_turn_begins_is_not_lost(void **state)
{
    (void)state;
    struct subject subject;
    begin();
    subject_init(&subject);
    point_arm("dispatch_taken", 1, POINT_STOP_THREAD);
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(point_wait_blocked("dispatch_taken", DEADLINE_MS));
    call(&subject);
    point_release("dispatch_taken");
    assert_true(await(&subject, 1, 1));
    leave(&subject);
    end();
    point_reset();
}

static void *call_one(void *ctx)
{
    call(ctx);
    return NULL;
}

/* The caller has seen that it is idle; before it can call, its time comes. */
static void a_call_and_the_clock_at_once_are_not_two_places_in_the_queue(void **state)
{
    (void)state;
    struct subject subject;
    pthread_t caller;
    begin();
    clock_fake_set(1000000, 1000000);
    subject_init(&subject);
    subject.wait_us = 5000;
    assert_ok(dispatchers_add(&dispatchers, &subject.seat));
    assert_true(await(&subject, 1, 0));
    assert_true(is_idle(&subject));
    point_arm("dispatch_call_idle", 1, POINT_STOP_THREAD);
    assert_int_equal(pthread_create(&caller, NULL, call_one, &subject), 0);
    assert_true(point_wait_blocked("dispatch_call_idle", DEADLINE_MS));
    set_blocks(&subject, true); /* the turn that the clock begins lasts, and sees what was noted */
    clock_fake_advance(5000);
    assert_true(await(&subject, 2, 1));
    assert_int_equal(subject.by_clock, 1);
    point_release("dispatch_call_idle");
    pthread_join(caller, NULL);
    assert_int_equal(atomic_load(&subject.seat.state), SEAT_RUNNING_AGAIN);
    set_blocks(&subject, false);
    assert_true(await(&subject, 3, 1));
    clock_fake_off();
    leave(&subject);
    end();
    point_reset();
}

/* The last seat has left, and its thread is about to end: a new one is served all the same. */
static void a_seat_that_comes_while_the_last_one_leaves_is_served(void **state)
{
    (void)state;
    struct subject first;
    struct subject second;
    begin();
    subject_init(&first);
    subject_init(&second);
    assert_ok(dispatchers_add(&dispatchers, &first.seat));
    assert_true(await(&first, 1, 0));
    point_arm("dispatch_left", 1, POINT_STOP_THREAD);
    pthread_mutex_lock(&first.mutex);
    first.leaves = true;
    pthread_mutex_unlock(&first.mutex);
    call(&first);
    assert_true(point_wait_blocked("dispatch_left", DEADLINE_MS));
    assert_ok(dispatchers_add(&dispatchers, &second.seat));
    assert_true(await(&second, 1, 0));
    call(&second);
    assert_true(await(&second, 2, 1));
    point_release("dispatch_left");
    leave(&second);
    end();
    point_reset();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_has_a_turn_at_once_and_one_for_each_call),
        cmocka_unit_test(calls_during_a_turn_are_one_more_turn),
        cmocka_unit_test(turns_come_in_the_order_of_their_times),
        cmocka_unit_test(turns_that_last_keep_nothing_else_waiting),
        cmocka_unit_test(there_are_never_more_threads_than_the_maximum),
        cmocka_unit_test(turns_that_get_on_have_as_many_threads_as_the_store_serves),
        cmocka_unit_test(a_long_turn_that_gets_on_has_no_thread_beside_it),
        cmocka_unit_test(threads_of_turns_that_were_stuck_take_no_other_turns),
        cmocka_unit_test(a_burst_of_calls_calls_few_of_many_idle_threads),
        cmocka_unit_test(the_time_of_handlers_is_kept_while_turns_are_stuck),
        cmocka_unit_test(all_threads_end_with_the_last_seat),
        cmocka_unit_test(the_last_seat_may_leave_while_the_time_of_handlers_is_kept),
        cmocka_unit_test(no_call_is_lost_in_a_crowd),
#ifdef HF_FAULTS
        cmocka_unit_test(without_memory_a_seat_stays_away),
        cmocka_unit_test(a_call_between_the_turn_and_the_wait_is_not_lost),
        cmocka_unit_test(a_call_before_the_turn_begins_is_not_lost),
        cmocka_unit_test(a_call_and_the_clock_at_once_are_not_two_places_in_the_queue),
        cmocka_unit_test(a_seat_that_comes_while_the_last_one_leaves_is_served),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
