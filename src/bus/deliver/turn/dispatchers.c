/*
 * dispatchers.c - a few threads that serve all runners of a bus. See dispatchers.h.
 *
 * Threads that take turns (hf-dispatch) take the first seat of the queue, perform its turn without
 * a lock, and put the seat back as the turn says: at the end of the queue, or into a heap by its
 * time. A turn is bounded, and the queue is in the order in which seats became ready, so a
 * subscription with much to do does not keep others waiting for more than a turn.
 *
 * The supervisor (hf-supervisor) is the one thread that never takes a turn. It sleeps until the
 * earliest time of the heap and puts the seats whose time has come into the queue. It also keeps
 * the time of handlers (timekeeper.c): it never waits for the store, so it is there when all
 * threads that take turns wait for a lock that a handler holds.
 *
 * How many threads there are
 *   A turn may last: it waits for the store, which may be slow, or locked by a handler's
 *   transaction. One slow subscription must not slow another, so a seat in the queue gets a thread:
 *
 *     there is no thread                     one is started
 *     fewer than DISPATCHERS_QUICK are       an idle one is called, if there is any. More would
 *     in turns, or called                    only share the cores
 *     the seat has waited for                the supervisor calls or starts another one, up to
 *     DISPATCHERS_LATE_US                    DISPATCHERS_QUICK;
 *     the seat has waited as long, and no    the supervisor calls or starts another one, up to
 *     seat was taken meanwhile: all threads  `busy_max`, as many as the store serves side by side:
 *     are in turns that last                 more would only wait for each other
 *     the same, and some of these turns      up to `busy_max` besides those that have not got on,
 *     have not got on for                    and to DISPATCHERS_MAX in all: the store does not
 *     DISPATCHERS_STUCK_US                   answer all calls
 *
 *   So with a store that answers there are never more than `busy_max` threads, also while a
 *   thousand subscriptions start or a thousand checkpoints are stored. Together with the other
 *   threads of a bus and the one that opened it these are 8. (Two more come when there is work for
 *   them: hf-retention for as long as its hourly run takes, and on PostgreSQL hf-prober after the
 *   first hole in the log.) That turns last says nothing about how many threads there should be:
 *   where the processor or the disk is the reason, turns last the longer the more of them there
 *   are, and each thread that is added calls for another one. A turn gets on with every answer of
 *   the store (dispatchers_moved), so one that makes many calls is not taken for one that is stuck.
 *
 *   The idle thread that is called is the one that has waited shortest. So those that are too many
 *   wait on, also when news makes hundreds of seats ready at once, and one that had nothing to do
 *   for DISPATCHERS_IDLE_MS ends, unless it is the last. A thread that ends a turn and finds that
 *   there are too many, because turns that were stuck are not any more, takes no other one. When no
 *   seat is left all threads end, the supervisor, too.
 *
 *   With DISPATCHERS_MAX threads in turns that are stuck, others wait.
 *
 * No deadlock
 *   A turn waits for the store only, and no call of the store waits for a turn: a handler's
 *   transaction ends without a dispatcher (worker.c, timekeeper.c), a session of the store is given
 *   back by the call that took it, a group's leader is a thread that has its turn already, and all
 *   of them end by their deadlines. So of the threads that are in turns one always gets on, or all
 *   that are stuck wait for something outside, and then the supervisor adds threads for seats that
 *   need not. What can happen while `busy_max` threads are in turns, and a seat is queued:
 *
 *     one of them ends its turn              its thread takes the seat, the first of the queue
 *     the same, but more threads are in      it goes idle, and the other threads that are not stuck
 *     turns than may be, because some were   take it: there are busy_max of them. The supervisor is
 *     stuck and are not any more             set to look, for the case that these get stuck
 *     all of them get stuck                  the supervisor looks every DISPATCHERS_LATE_US while
 *                                            seats are queued, and adds a thread
 *     the supervisor adds one, and a turn    one thread too many; see above
 *     that was stuck gets on
 *
 * No call is lost
 *   A caller first notes what it calls for, then looks at the state; a thread first changes the
 *   state to RUNNING, then looks at what was noted. Both are sequentially consistent.
 *
 *     the caller sees    then
 *     ---------------    ------------------------------------------------------------------------
 *     QUEUED             the turn has not begun: it sees what was noted
 *     RUNNING            RUNNING_AGAIN, by compare and swap. The thread leaves RUNNING by compare
 *                        and swap, too: one of the two is first. If it is the caller, the thread
 *                        queues the seat again; if it is the thread, the caller looks again
 *     RUNNING_AGAIN      the next turn has not begun: it sees what was noted
 *     IDLE               QUEUED, under the mutex. If its time came at that moment it is QUEUED, or
 *                        RUNNING: the caller looks again
 *     AWAY               no thread is to take a turn; dispatchers_add begins with one
 *
 * Failure: memory is allocated by dispatchers_add only. If no thread can be started the supervisor
 * tries again every DISPATCHERS_LATE_US while a seat is queued.
 */
#include "bus/deliver/turn/dispatchers.h"

#include <assert.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/time/clock.h"

#define NO_PLACE SIZE_MAX

hf_status dispatchers_init(struct dispatchers *dispatchers, struct dispatchers_owner owner)
{
    *dispatchers = (struct dispatchers){.owner = owner,
                                        .alarm_us = INT64_MAX,
                                        .keep_us = INT64_MAX,
                                        .busy_max = DISPATCHERS_BUSY,
                                        .stuck_us = DISPATCHERS_STUCK_US};
    hf_status status = mutex_init(&dispatchers->mutex);
    if (!status) {
        status = cond_init(&dispatchers->alarm);
    }
    return status ? status : cond_init(&dispatchers->ended);
}

void dispatchers_release(struct dispatchers *dispatchers)
{
    pthread_cond_destroy(&dispatchers->ended);
    pthread_cond_destroy(&dispatchers->alarm);
    pthread_mutex_destroy(&dispatchers->mutex);
    mem_free(dispatchers->heap);
}

void dispatchers_limit(struct dispatchers *dispatchers, int32_t busy_max)
{
    int32_t most = busy_max < DISPATCHERS_MAX ? busy_max : DISPATCHERS_MAX;
    dispatchers->busy_max = most > DISPATCHERS_QUICK ? most : DISPATCHERS_QUICK;
}

void dispatchers_moved(struct seat *seat)
{
    atomic_store_explicit(&seat->moved_us, clock_real_us(), memory_order_relaxed);
}

/* ---- The heap -------------------------------------------------------------------------------- */

static void heap_set(struct dispatchers *dispatchers, size_t place, struct seat *seat)
{
    dispatchers->heap[place] = seat;
    seat->place = place;
}

/* Moves the seat, which belongs at this place or above, to where it belongs. */
static void heap_rise(struct dispatchers *dispatchers, size_t place, struct seat *seat)
{
    while (place > 0 && dispatchers->heap[(place - 1) / 2]->wake_us > seat->wake_us) {
        heap_set(dispatchers, place, dispatchers->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_set(dispatchers, place, seat);
}

/* The same, at this place or below. */
static void heap_sink(struct dispatchers *dispatchers, size_t place, struct seat *seat)
{
    for (;;) {
        size_t child = 2 * place + 1;
        if (child + 1 < dispatchers->heap_count &&
            dispatchers->heap[child + 1]->wake_us < dispatchers->heap[child]->wake_us) {
            child++;
        }
        if (child >= dispatchers->heap_count ||
            dispatchers->heap[child]->wake_us >= seat->wake_us) {
            break;
        }
        heap_set(dispatchers, place, dispatchers->heap[child]);
        place = child;
    }
    heap_set(dispatchers, place, seat);
}

static void heap_put(struct dispatchers *dispatchers, struct seat *seat)
{
    assert(dispatchers->heap_count < dispatchers->heap_room);
    dispatchers->heap_count++;
    heap_rise(dispatchers, dispatchers->heap_count - 1, seat);
}

static void heap_remove(struct dispatchers *dispatchers, struct seat *seat)
{
    size_t place = seat->place;
    struct seat *moved = dispatchers->heap[--dispatchers->heap_count];
    seat->place = NO_PLACE;
    if (moved == seat) {
        return;
    }
    if (place > 0 && dispatchers->heap[(place - 1) / 2]->wake_us > moved->wake_us) {
        heap_rise(dispatchers, place, moved);
    } else {
        heap_sink(dispatchers, place, moved);
    }
}

/* ---- Threads for the queue ------------------------------------------------------------------- */

/* A thread that takes turns, while it waits. */
struct idler {
    struct idler *next;
    pthread_cond_t changed;
    bool called;
};

static void *dispatch_main(void *ctx);

/* False: it could not be started. */
static bool start_thread(struct dispatchers *dispatchers)
{
    pthread_t thread;
    dispatchers->owner.reference(dispatchers->owner.ctx);
    dispatchers->threads++;
    if (thread_start(&thread, "hf-dispatch", dispatch_main, dispatchers)) {
        dispatchers->threads--;
        dispatchers->owner.unreference(dispatchers->owner.ctx);
        return false;
    }
    pthread_detach(thread);
    return true;
}

/* The supervisor is to look at this time, or earlier. */
static void set_alarm(struct dispatchers *dispatchers, int64_t at_us)
{
    if (at_us < dispatchers->alarm_us) {
        dispatchers->alarm_us = at_us;
        pthread_cond_signal(&dispatchers->alarm);
    }
}

/* Calls the thread that has waited shortest. False: none is idle. */
static bool call_idler(struct dispatchers *dispatchers)
{
    struct idler *idler = dispatchers->idlers;
    if (!idler) {
        return false;
    }
    dispatchers->idlers = idler->next;
    dispatchers->idle--;
    dispatchers->calls++;
    idler->called = true;
    pthread_cond_signal(&idler->changed);
    return true;
}

/* Threads that are in turns, or come to take one. */
static int32_t count_active(const struct dispatchers *dispatchers)
{
    return dispatchers->threads - dispatchers->idle;
}

/* How many threads may be in turns while these last. */
static int32_t most_active(const struct dispatchers *dispatchers)
{
    int64_t before_us = clock_real_us() - dispatchers->stuck_us;
    int32_t most = dispatchers->busy_max;
    for (struct seat *seat = dispatchers->running; seat; seat = seat->next) {
        most += atomic_load_explicit(&seat->moved_us, memory_order_relaxed) <= before_us ? 1 : 0;
    }
    return most < DISPATCHERS_MAX ? most : DISPATCHERS_MAX;
}

/* There is one seat more in the queue: who takes it? */
static void find_thread(struct dispatchers *dispatchers)
{
    if (count_active(dispatchers) < DISPATCHERS_QUICK && call_idler(dispatchers)) {
        return;
    }
    if (dispatchers->threads > 0 || !start_thread(dispatchers)) {
        set_alarm(dispatchers, clock_mono_us() + DISPATCHERS_LATE_US);
    }
}

/* The seat is QUEUED from now on. */
static void enqueue(struct dispatchers *dispatchers, struct seat *seat, bool by_clock)
{
    seat->by_clock = by_clock;
    seat->next = NULL;
    seat->queued_us = clock_real_us();
    if (dispatchers->first) {
        dispatchers->last->next = seat;
    } else {
        dispatchers->first = seat;
    }
    dispatchers->last = seat;
    atomic_store(&seat->state, SEAT_QUEUED);
}

/* The first seat of the queue is RUNNING from now on. */
static struct seat *take(struct dispatchers *dispatchers)
{
    struct seat *seat = dispatchers->first;
    dispatchers->first = seat->next;
    dispatchers->progress_us = clock_real_us();
    atomic_store_explicit(&seat->moved_us, dispatchers->progress_us, memory_order_relaxed);
    seat->next = dispatchers->running;
    dispatchers->running = seat;
    atomic_store(&seat->state, SEAT_RUNNING);
    return seat;
}

/* Its turn is over. */
static void put_down(struct dispatchers *dispatchers, const struct seat *seat)
{
    struct seat **at = &dispatchers->running;
    while (*at != seat) {
        at = &(*at)->next;
    }
    *at = seat->next;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* The seat leaves; with the last one all threads end. */
static void leave(struct dispatchers *dispatchers, struct seat *seat)
{
    atomic_store(&seat->state, SEAT_AWAY);
    dispatchers->seats--;
    if (dispatchers->seats == 0) {
        for (struct idler *idler = dispatchers->idlers; idler; idler = idler->next) {
            pthread_cond_signal(&idler->changed);
        }
        pthread_cond_signal(&dispatchers->alarm);
    }
}

/* The seat waits for its time, or a call. False: it was called during its turn. */
static bool sit_down(struct dispatchers *dispatchers, struct seat *seat, int64_t wake_us)
{
    enum seat_state running = SEAT_RUNNING;
    seat->wake_us = wake_us;
    seat->place = NO_PLACE;
    if (wake_us < INT64_MAX) {
        heap_put(dispatchers, seat);
    }
    if (!atomic_compare_exchange_strong(&seat->state, &running, SEAT_IDLE)) {
        if (wake_us < INT64_MAX) {
            heap_remove(dispatchers, seat);
        }
        return false;
    }
    set_alarm(dispatchers, wake_us);
    return true;
}

/* One turn of a seat that is RUNNING, and what becomes of it. The mutex is held, and is given up
 * meanwhile. */
static void serve(struct dispatchers *dispatchers, struct seat *seat)
{
    bool by_clock = seat->by_clock;
    pthread_mutex_unlock(&dispatchers->mutex);
    HF_POINT("dispatch_taken");
    struct seat_next next = dispatchers->owner.turn(seat, by_clock);
    HF_POINT("dispatch_turned");
    pthread_mutex_lock(&dispatchers->mutex);
    put_down(dispatchers, seat);
    switch (next.kind) {
    case SEAT_LEAVE:
        leave(dispatchers, seat);
        pthread_mutex_unlock(&dispatchers->mutex);
        HF_POINT("dispatch_left");
        dispatchers->owner.left(seat);
        pthread_mutex_lock(&dispatchers->mutex);
        return;
    case SEAT_WAIT:
        if (sit_down(dispatchers, seat, next.wake_us)) {
            return;
        }
        break;
    case SEAT_AGAIN:
        break;
    }
    enqueue(dispatchers, seat, false); /* this thread is there to take it, or one before it */
}

/* Waits for a call. False: it did not come for so long that the thread is to end. */
static bool wait_for_call(struct dispatchers *dispatchers, struct idler *idler)
{
    struct deadline deadline = deadline_after_ms(DISPATCHERS_IDLE_MS);
    bool in_time = true;
    idler->called = false;
    idler->next = dispatchers->idlers;
    dispatchers->idlers = idler;
    dispatchers->idle++;
    while (!idler->called && dispatchers->seats > 0 &&
           (in_time || dispatchers->threads <= DISPATCHERS_KEPT)) {
        in_time = cond_wait_until(&idler->changed, &dispatchers->mutex,
                                  in_time ? deadline : DEADLINE_NEVER);
    }
    if (idler->called) {
        dispatchers->calls--;
        return true;
    }
    struct idler **at = &dispatchers->idlers;
    while (*at != idler) {
        at = &(*at)->next;
    }
    *at = idler->next;
    dispatchers->idle--;
    return false;
}

/* A seat is queued: are there more threads in turns than may be, so that this one, which has none,
 * is to leave it to them? The supervisor looks whether they take it. */
static bool is_surplus(struct dispatchers *dispatchers)
{
    int32_t active = count_active(dispatchers);
    if (active <= dispatchers->busy_max || active <= most_active(dispatchers)) {
        return false;
    }
    set_alarm(dispatchers, clock_mono_us() + DISPATCHERS_LATE_US);
    return true;
}

/* A thread is about to end. The mutex is held. */
static void say_ended(struct dispatchers *dispatchers)
{
    if (dispatchers->threads == 0 && !dispatchers->supervised) {
        pthread_cond_broadcast(&dispatchers->ended);
    }
}

static void *dispatch_main(void *ctx)
{
    struct dispatchers *dispatchers = ctx;
    struct dispatchers_owner owner = dispatchers->owner;
    struct idler idler = {0};
    bool goes_on = cond_init(&idler.changed) == HF_OK;
    pthread_mutex_lock(&dispatchers->mutex);
    while (goes_on && dispatchers->seats > 0) {
        if (dispatchers->first && !is_surplus(dispatchers)) {
            serve(dispatchers, take(dispatchers));
        } else {
            goes_on = wait_for_call(dispatchers, &idler);
        }
    }
    dispatchers->threads--;
    say_ended(dispatchers);
    pthread_mutex_unlock(&dispatchers->mutex);
    pthread_cond_destroy(&idler.changed);
    owner.unreference(owner.ctx);
    return NULL;
}

/* ---- The supervisor -------------------------------------------------------------------------- */

/* Puts the seats whose time has come into the queue. */
static void promote(struct dispatchers *dispatchers, int64_t mono_us)
{
    while (dispatchers->heap_count > 0 && dispatchers->heap[0]->wake_us <= mono_us) {
        struct seat *seat = dispatchers->heap[0];
        heap_remove(dispatchers, seat);
        enqueue(dispatchers, seat, true);
        find_thread(dispatchers);
    }
}

/* Finds one more thread if the first seat of the queue is late. */
static void relieve(struct dispatchers *dispatchers)
{
    int64_t late_us = clock_real_us() - DISPATCHERS_LATE_US;
    bool late = dispatchers->first->queued_us <= late_us;
    bool lasts = dispatchers->progress_us <= late_us;
    int32_t most = lasts ? most_active(dispatchers) : DISPATCHERS_QUICK;
    if (dispatchers->calls == 0 && count_active(dispatchers) < most &&
        (late || dispatchers->threads == 0) &&
        (call_idler(dispatchers) || start_thread(dispatchers))) {
        dispatchers->progress_us = clock_real_us();
    }
}

/* The time of handlers, if it is due. The mutex is held, and is given up meanwhile. What is
 * expected meanwhile is not lost: keep_us is switched off before the look. */
static void keep_time(struct dispatchers *dispatchers)
{
    if (dispatchers->keep_us > clock_mono_us()) {
        return;
    }
    dispatchers->keep_us = INT64_MAX;
    pthread_mutex_unlock(&dispatchers->mutex);
    int64_t next_us = dispatchers->owner.keep_time(dispatchers->owner.ctx);
    pthread_mutex_lock(&dispatchers->mutex);
    if (next_us < dispatchers->keep_us) {
        dispatchers->keep_us = next_us;
    }
}

static void *supervise(void *ctx)
{
    struct dispatchers *dispatchers = ctx;
    struct dispatchers_owner owner = dispatchers->owner;
    pthread_mutex_lock(&dispatchers->mutex);
    while (dispatchers->seats > 0) {
        dispatchers->alarm_us = 0; /* no thread need wake it */
        keep_time(dispatchers);
        if (dispatchers->seats == 0) {
            continue; /* the last one left meanwhile: its signal came before the wait */
        }
        int64_t mono_us = clock_mono_us();
        promote(dispatchers, mono_us);
        if (dispatchers->first) {
            relieve(dispatchers);
        }
        int64_t next_us = dispatchers->heap_count > 0 ? dispatchers->heap[0]->wake_us : INT64_MAX;
        if (dispatchers->first && next_us > mono_us + DISPATCHERS_LATE_US) {
            next_us = mono_us + DISPATCHERS_LATE_US;
        }
        next_us = dispatchers->keep_us < next_us ? dispatchers->keep_us : next_us;
        dispatchers->alarm_us = next_us;
        cond_wait_until(&dispatchers->alarm, &dispatchers->mutex, (struct deadline){next_us});
    }
    dispatchers->supervised = false;
    say_ended(dispatchers);
    pthread_mutex_unlock(&dispatchers->mutex);
    owner.unreference(owner.ctx);
    return NULL;
}

static hf_status start_supervisor(struct dispatchers *dispatchers)
{
    pthread_t thread;
    dispatchers->owner.reference(dispatchers->owner.ctx);
    dispatchers->keep_us = 0; /* what was expected before it was there */
    hf_status status = thread_start(&thread, "hf-supervisor", supervise, dispatchers);
    if (status) {
        dispatchers->owner.unreference(dispatchers->owner.ctx);
        return status;
    }
    dispatchers->supervised = true;
    pthread_detach(thread);
    return HF_OK;
}

/* ---- Its owner ------------------------------------------------------------------------------- */

/* Room in the heap for one more seat. */
static hf_status make_room(struct dispatchers *dispatchers)
{
    if ((size_t)dispatchers->seats < dispatchers->heap_room) {
        return HF_OK;
    }
    size_t room = dispatchers->heap_room > 0 ? 2 * dispatchers->heap_room : 16;
    struct seat **heap = mem_realloc(dispatchers->heap, room * sizeof *heap);
    if (!heap) {
        return fail(HF_NOMEM, "out of memory for a subscription");
    }
    dispatchers->heap = heap;
    dispatchers->heap_room = room;
    return HF_OK;
}

hf_status dispatchers_add(struct dispatchers *dispatchers, struct seat *seat)
{
    assert(atomic_load(&seat->state) == SEAT_AWAY);
    pthread_mutex_lock(&dispatchers->mutex);
    hf_status status = make_room(dispatchers);
    dispatchers->seats++; /* threads that were about to end go on */
    if (!status && !dispatchers->supervised) {
        status = start_supervisor(dispatchers);
    }
    if (!status && dispatchers->threads == 0 && !start_thread(dispatchers)) {
        status = fail(HF_NOMEM, "there is no thread for a subscription");
    }
    if (status) {
        dispatchers->seats--;
        pthread_cond_signal(&dispatchers->alarm);
    } else {
        enqueue(dispatchers, seat, false);
        find_thread(dispatchers);
    }
    pthread_mutex_unlock(&dispatchers->mutex);
    return status;
}

/* A seat that was IDLE is QUEUED. False: it is not IDLE any more. The mutex is held. */
static bool stand_up(struct dispatchers *dispatchers, struct seat *seat)
{
    bool idle = atomic_load(&seat->state) == SEAT_IDLE;
    if (idle) {
        if (seat->place != NO_PLACE) {
            heap_remove(dispatchers, seat);
        }
        enqueue(dispatchers, seat, false);
        find_thread(dispatchers);
    }
    return idle;
}

/* `held`: the caller has the mutex. */
static void call(struct dispatchers *dispatchers, struct seat *seat, bool held)
{
    for (;;) {
        enum seat_state state = atomic_load(&seat->state);
        switch (state) {
        case SEAT_AWAY:
        case SEAT_QUEUED:
        case SEAT_RUNNING_AGAIN:
            return;
        case SEAT_RUNNING:
            if (atomic_compare_exchange_strong(&seat->state, &state, SEAT_RUNNING_AGAIN)) {
                return;
            }
            break;
        case SEAT_IDLE: {
            if (!held) {
                HF_POINT("dispatch_call_idle");
                pthread_mutex_lock(&dispatchers->mutex);
            }
            bool stood_up = stand_up(dispatchers, seat);
            if (!held) {
                pthread_mutex_unlock(&dispatchers->mutex);
            }
            if (stood_up) {
                return;
            }
            break;
        }
        }
    }
}

void dispatchers_call(struct dispatchers *dispatchers, struct seat *seat)
{
    call(dispatchers, seat, false);
}

void dispatchers_hold(struct dispatchers *dispatchers)
{
    pthread_mutex_lock(&dispatchers->mutex);
}

void dispatchers_call_held(struct dispatchers *dispatchers, struct seat *seat)
{
    call(dispatchers, seat, true);
}

void dispatchers_let_go(struct dispatchers *dispatchers)
{
    pthread_mutex_unlock(&dispatchers->mutex);
}

void dispatchers_expect(struct dispatchers *dispatchers, int64_t due_us)
{
    if (due_us >= atomic_load(&dispatchers->keep_us)) {
        return;
    }
    pthread_mutex_lock(&dispatchers->mutex);
    if (due_us < dispatchers->keep_us) {
        dispatchers->keep_us = due_us;
        set_alarm(dispatchers, due_us);
    }
    pthread_mutex_unlock(&dispatchers->mutex);
}

int32_t dispatchers_seats(struct dispatchers *dispatchers)
{
    return atomic_load(&dispatchers->seats);
}

void dispatchers_join(struct dispatchers *dispatchers)
{
    pthread_mutex_lock(&dispatchers->mutex);
    while (dispatchers->seats == 0 && (dispatchers->threads > 0 || dispatchers->supervised)) {
        pthread_cond_wait(&dispatchers->ended, &dispatchers->mutex);
    }
    pthread_mutex_unlock(&dispatchers->mutex);
}
