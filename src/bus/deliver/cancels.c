/*
 * cancels.c - requests to cancel events that this process may have in hand (store/cancel.h).
 *
 * Another process, or another thread of this one, wants an event cancelled, and the store cannot
 * tell whether a handler runs for it. The runner can: what no worker has begun is taken out of the
 * window and stored as cancelled; what runs is left alone, and looked at again when it has ended.
 * If it has failed then, it waits in retries and is cancelled there; if it is done, the request
 * came too late.
 *
 * The requests are read when the generation of the definition has changed, which rises with each.
 * For each the window is looked at under the mutex, and the answer is stored without it. Between
 * the two no worker can begin the event: a slot that is to be cancelled has ENDED by then. If the
 * store does not take the answer the slot is READY again.
 *
 *     in the window:  READY              cancelled
 *                     RUNNING, ENDED     kept, until it is over
 *                     SETTLED            it is done: the request is left to its author
 *     not there:      ordered, ours      the mode says whether it was read (ordered_seek_out)
 *                     else               another process has it, or none
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "bus/deliver/runner.h"
#include "store/cancel.h"

/* What is done about a request. */
enum fate { FATE_KEPT, FATE_FORGOTTEN, FATE_TRIED };

/* Requests that are being read. */
struct reading {
    struct cancels *cancels;
    hf_status status; /* why it ended early */
};

static int add_request(int64_t position, int64_t hash, void *ctx)
{
    struct reading *reading = ctx;
    struct cancels *cancels = reading->cancels;
    if (!cancels->requests) {
        cancels->requests = mem_alloc(CANCELS_MAX * sizeof *cancels->requests);
    }
    if (!cancels->requests) {
        reading->status = fail(HF_NOMEM, "out of memory for requests to cancel");
        return 1;
    }
    cancels->requests[cancels->count++] = (struct cancel_request){position, hash};
    return 0;
}

static bool read_requests(struct runner *runner)
{
    struct cancels *cancels = &runner->cancels;
    struct reading reading = {.cancels = cancels};
    cancels->unread = false;
    cancels->count = 0;
    hf_status status = store_cancels(runner->bus->store, runner->definition.id, CANCELS_MAX,
                                     add_request, &reading);
    status = status ? status : reading.status;
    if (status) {
        cancels->count = 0;
        cancels->unread = true;
        runner_store_failed(runner, status, "reading requests to cancel");
    }
    return !status;
}

static struct slot *find_in(const struct queue *queue, int64_t position)
{
    for (struct slot *slot = queue->used.first; slot; slot = slot->next) {
        bool forgotten = slot->state == SLOT_SETTLED && slot_is(slot, TRAIT_FORGOTTEN);
        if (slot->entry->event.position == position && !forgotten) {
            return slot;
        }
    }
    return NULL;
}

/* The slot of the event; NULL: it is not in hand. One that has a row in retries is newer. */
static struct slot *find_slot(const struct window *window, int64_t position)
{
    struct slot *slot = find_in(&window->retries, position);
    return slot ? slot : find_in(&window->log, position);
}

/* Looks where the event is. FATE_TRIED: `cancel` is to be stored, and *ret_slot, if there is one,
 * is out of the workers' reach. The mutex is held. */
static enum fate look_at(struct runner *runner, struct cancel *cancel, struct slot **ret_slot)
{
    struct slot *slot = find_slot(&runner->window, cancel->position);
    *ret_slot = NULL;
    if (!slot && runner->ordered && ordered_seek_out(runner, cancel)) {
        return cancel->part == CANCEL_REQUEST ? FATE_KEPT : FATE_TRIED;
    }
    if (!slot) {
        return FATE_FORGOTTEN;
    }
    switch (slot->state) {
    case SLOT_READY:
        cancel->part = CANCEL_IN_HAND;
        cancel->hold = runner_hold(runner, slot);
        slot->ending = ENDED_CANCELLED;
        window_end(&runner->window, slot);
        *ret_slot = slot;
        return FATE_TRIED;
    case SLOT_RUNNING:
    case SLOT_ENDED:
        return FATE_KEPT;
    case SLOT_SETTLED:
    case SLOT_FREE:
        break;
    }
    return FATE_FORGOTTEN;
}

/* The event is cancelled, and its slot, if it has one, is over. The mutex is held. */
static void end_cancelled(struct runner *runner, const struct cancel *cancel, struct slot *slot)
{
    struct window *window = &runner->window;
    if (slot && slot->lease) {
        lease_cancelled(slot->lease);
    }
    if (slot) {
        window_settle(window, slot);
    }
    if (slot && runner->ordered && slot_is(slot, TRAIT_WAITED) && !cancel->ret_lane_busy) {
        window_free_lane(window, slot->lane);
    }
    if (cancel->part == CANCEL_UNREAD) {
        ordered_pass_over(runner, cancel);
    }
    runner_need(runner, NEED_RETRIES | NEED_TURN); /* the next one of its lane may be due */
    window_reap(window, &runner->batch_pool);
    runner_signal_work(runner);
}

/* It is not cancelled after all. The mutex is held. */
static void end_refused(struct runner *runner, hf_status status, struct slot *slot)
{
    if (slot) {
        window_revive(&runner->window, slot);
        runner_signal_work(runner);
    }
    if (slot && status == HF_STALE) {
        runner_lose(runner, slot);
    }
    /* After HF_UNKNOWN it is not known what is stored: drop all, and load it again. */
    runner_raise(runner, status == HF_UNKNOWN ? BAR_LOST : 0);
}

/* Answers one request. *ret_failed: the store failed. */
static enum fate answer(struct runner *runner, const struct cancel_request *request, int64_t now_us,
                        bool *ret_failed)
{
    struct cancel cancel = {
        .change = {.kind = CHANGE_CANCEL, .now_us = now_us},
        .subscription_id = runner->definition.id,
        .position = request->position,
        .hash = request->hash,
        .by = TEXT_ABSENT,
        .reason = TEXT_ABSENT,
    };
    struct slot *slot;
    pthread_mutex_lock(&runner->mutex);
    enum fate fate = look_at(runner, &cancel, &slot);
    pthread_mutex_unlock(&runner->mutex);
    if (fate != FATE_TRIED) {
        return fate;
    }
    HF_POINT("before_cancel");
    hf_status status = runner_run(runner, &cancel.change);
    HF_POINT("after_cancel");
    bool marked = cancel.ret_state == CANCEL_MARKED || cancel.ret_state == CANCEL_BEFORE;
    pthread_mutex_lock(&runner->mutex);
    if (!status && marked) {
        end_cancelled(runner, &cancel, slot);
    } else {
        end_refused(runner, status, slot);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (status == HF_STALE || status == HF_NOTFOUND) {
        runner_need(runner, NEED_DEFINITION);
    } else if (status) {
        runner_store_failed(runner, status, "cancelling an event");
        *ret_failed = true;
    }
    return *ret_failed ? FATE_KEPT : FATE_FORGOTTEN;
}

bool cancels_answer(struct runner *runner, int64_t now_us)
{
    struct cancels *cancels = &runner->cancels;
    size_t kept = 0;
    bool failed = cancels->unread && !read_requests(runner);
    bool full = cancels->count == CANCELS_MAX;
    if (cancels->count == 0) {
        atomic_store(&cancels->open, false);
        return !failed;
    }
    atomic_store(&cancels->open, true); /* before the look: what ends behind it is told */
    pthread_mutex_lock(&runner->mutex);
    chunk_cut_all(runner);
    pthread_mutex_unlock(&runner->mutex);
    for (size_t i = 0; i < cancels->count; i++) {
        enum fate fate =
            failed ? FATE_KEPT : answer(runner, &cancels->requests[i], now_us, &failed);
        if (fate == FATE_KEPT) {
            cancels->requests[kept++] = cancels->requests[i];
        }
    }
    cancels->count = kept;
    atomic_store(&cancels->open, kept > 0);
    if (full && kept < CANCELS_MAX) { /* there may be more behind them */
        cancels->unread = true;
        runner_need(runner, NEED_TURN);
    }
    return !failed;
}
