/*
 * wait.c - when `work` ends, and with which status.
 *
 * The main thread sleeps on four things: a signal, the end of a wait (below), the other end of our
 * stdout, and the clock. It ends when
 *
 *     a signal came                       0, with --until-empty 1
 *     no program reads our stdout         1: the output of the commands is lost
 *     --max-time has passed               0, with --until-empty 5, or 7 as below
 *     the database was replaced           the status of hf_check
 *     no subscription is left to work for, because each of them is
 *         removed                         3
 *         settled or paused (only         7 if this process made a dead letter, else
 *           --until-empty)                5 if one is paused: its events wait until it is resumed
 *
 * The first line of these that fits decides. Whatever the status is, everything that was found is
 * said: dead letters also beside a pause, and when the time is over.
 *
 * With --until-empty each subscription has a thread in hf_wait, so that one which cannot get on
 * keeps no other from being waited for. Those threads end with the bus. When all have answered,
 * those that were settled are asked once more: handlers of one may have published events for
 * another that was settled before.
 *
 * Whether a subscription is there is asked when the bus has warned about one, because a runner
 * whose subscription was removed does that; and whether it is paused, once a second by
 * --until-empty only. A worker that has nothing to do asks the database nothing.
 */
#include "base/banned.h"
#include "base/thread.h"
#include "base/time/deadline.h"
#include "cli/terminal/out.h"
#include "cli/terminal/stop.h"
#include "cli/work/work.h"

#include <poll.h>
#include <sys/eventfd.h>

#define JOIN_S 5
#define CHECK_MS 1000   /* between two looks whether the bus can go on */
#define REASONS_MS 5000 /* between two looks at why a backlog does not end */

/* ---- The threads of --until-empty ------------------------------------------------------------ */

static void *wait_until_settled(void *ctx)
{
    struct work_waiter *waiter = ctx;
    uint64_t one = 1;

    waiter->status = hf_wait(waiter->bus, waiter->name, -1, -1);
    snprintf(waiter->message, sizeof waiter->message, "%s", hf_errmsg());
    atomic_store(&waiter->answered, true);
    if (write(waiter->done_fd, &one, sizeof one) < 0) {
        /* The main thread looks once a second, too. */
    }
    return NULL;
}

/* Begins a wait for what is published now. */
static hf_status wait_for(struct work *work, struct work_item *item)
{
    struct work_waiter *waiter = &item->waiter;

    waiter->bus = work->cli->bus;
    waiter->name = item->name;
    waiter->done_fd = work->done_fd;
    atomic_store(&waiter->answered, false);
    hf_status status = thread_start(&waiter->thread, "wait", wait_until_settled, waiter);
    waiter->started = !status;
    return status;
}

int work_wait_begin(struct work *work)
{
    work->done_fd = -1;
    if (!args_given(&work->cli->args, "until-empty")) {
        return EXIT_OK;
    }
    work->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (size_t i = 0; i < work->count; i++) {
        hf_status status = wait_for(work, work->items[i]);
        if (status) {
            return cli_fail(status);
        }
    }
    return EXIT_OK;
}

void work_wait_end(struct work *work)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_S;
    for (size_t i = 0; i < work->count; i++) {
        struct work_waiter *waiter = &work->items[i]->waiter;

        if (waiter->started && pthread_timedjoin_np(waiter->thread, NULL, &until) != 0) {
            work->cli->bus = NULL;
            work->abandoned = true;
        }
        waiter->started = false;
    }
}

/* ---- What became of a subscription ----------------------------------------------------------- */

/* A look at one of them. */
struct look {
    struct work_item *item;
    bool reasons; /* say why it does not move, if that is new */
    bool paused;
    bool another; /* it was removed, and one with its name was created */
    char by[128];
    char reason[512];
};

static int note_look(const hf_subscription_info *info, void *ctx)
{
    struct look *look = ctx;
    struct work_item *item = look->item;

    look->another = info->created_at_us != item->stored.created_at_us;
    look->paused = info->paused_at_us >= 0;
    snprintf(look->by, sizeof look->by, "%s", info->paused_by ? info->paused_by : "");
    snprintf(look->reason, sizeof look->reason, "%s",
             info->paused_reason ? info->paused_reason : "");
    if (!look->reasons) {
        return 0;
    }
    if (info->not_moving && strcmp(info->not_moving, item->waits_for) != 0) {
        work_log_say(item->name, "waits: %s", info->not_moving);
    }
    snprintf(item->waits_for, sizeof item->waits_for, "%s",
             info->not_moving ? info->not_moving : "");
    return 0;
}

static void was_removed(struct work_item *item)
{
    item->fate = WORK_REMOVED;
    work_log_complain(item->name, "the subscription was removed: there is nothing to work for");
}

/* A pause keeps --until-empty from ending, unless nothing is left to do. */
static void is_paused(struct work *work, struct work_item *item, const struct look *look)
{
    if (hf_wait(work->cli->bus, item->name, -1, 0) != HF_TIMEOUT) {
        return;
    }
    item->fate = WORK_PAUSED;
    work_log_complain(
        item->name, "is paused%s%s%s%s, and not everything is settled: `holdfast sub resume %s`",
        look->by[0] ? " by " : "", look->by, look->reason[0] ? ": " : "", look->reason, item->name);
}

/* False: the store could not be asked. */
static bool look_at(struct work *work, struct work_item *item, bool reasons)
{
    struct look look = {.item = item, .reasons = reasons};
    hf_status status = hf_subscription_get(work->cli->bus, item->name, note_look, &look);

    if (status == HF_NOTFOUND || look.another) {
        was_removed(item);
    } else if (!status && work->done_fd >= 0 && look.paused) {
        is_paused(work, item, &look);
    }
    return !status || status == HF_NOTFOUND;
}

/* The answer of its thread. */
static void take_answer(struct work_item *item)
{
    if (item->waiter.status == HF_NOTFOUND) {
        was_removed(item);
    } else if (item->waiter.status) {
        item->fate = WORK_FAILED;
        work_log_complain(item->name, "%s", item->waiter.message);
    } else {
        item->fate = WORK_SETTLED;
    }
}

/* Looks at all of them; true while there is one to work for. */
static bool look_around(struct work *work, bool look, bool reasons)
{
    bool works = false;
    bool warned = atomic_exchange(&work->log->attention, false);

    for (size_t i = 0; i < work->count; i++) {
        struct work_item *item = work->items[i];

        if (item->fate != WORK_GOES_ON) {
            continue;
        }
        if (atomic_load(&item->waiter.answered)) {
            take_answer(item);
        } else if ((look || warned) && !look_at(work, item, reasons) && warned) {
            atomic_store(&work->log->attention, true);
        }
        works |= item->fate == WORK_GOES_ON;
    }
    return works;
}

/* After all were settled: those that have got something to do since are waited for again. */
static bool goes_on(struct work *work)
{
    bool works = false;

    for (size_t i = 0; i < work->count; i++) {
        struct work_item *item = work->items[i];

        if (item->fate != WORK_SETTLED ||
            hf_wait(work->cli->bus, item->name, -1, 0) != HF_TIMEOUT) {
            continue;
        }
        pthread_join(item->waiter.thread, NULL); /* it has answered */
        item->waiter.status = wait_for(work, item);
        if (item->waiter.status) {
            item->fate = WORK_FAILED;
            work_log_complain(item->name, "%s", hf_errmsg());
        } else {
            item->fate = WORK_GOES_ON;
            works = true;
        }
    }
    return works;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Until something happens, at most so long. */
static void sleep_for(const struct work *work, int64_t ms)
{
    struct pollfd fds[3] = {{.fd = stop_fd(), .events = POLLIN},
                            {.fd = work->done_fd, .events = POLLIN},
                            {.fd = STDOUT_FILENO}};
    uint64_t count;

    if (poll(fds, 3, (int)ms) > 0 && fds[1].revents &&
        read(work->done_fd, &count, sizeof count) < 0) {
        /* The flags of the threads say it all. */
    }
}

enum work_end work_wait(struct work *work)
{
    struct deadline deadline = deadline_after_ms(args_number(&work->cli->args, "max-time", -1));
    struct deadline reasons = deadline_after_ms(REASONS_MS);
    struct deadline check = deadline_after_ms(0);

    for (;;) {
        bool look = work->done_fd >= 0 && deadline_passed(check);
        bool say = look && deadline_passed(reasons);

        if (out_is_closed()) {
            return WORK_END_OUTPUT;
        }
        if (stop_requested()) {
            return WORK_END_SIGNAL;
        }
        if (hf_check(work->cli->bus)) {
            return WORK_END_STORE;
        }
        if (!look_around(work, look, say) && !goes_on(work)) {
            return WORK_END_NOTHING_LEFT;
        }
        if (deadline_passed(deadline)) {
            return WORK_END_TIME;
        }
        if (look) {
            check = deadline_after_ms(CHECK_MS);
        }
        if (say) {
            reasons = deadline_after_ms(REASONS_MS);
        }
        int64_t left_ms = deadline_left_ms(deadline);
        sleep_for(work, left_ms < 0 || left_ms > CHECK_MS ? CHECK_MS : left_ms);
    }
}

/* ---- The status ------------------------------------------------------------------------------ */

static bool any(const struct work *work, enum work_fate fate, const struct work_item **ret_item)
{
    for (size_t i = 0; i < work->count; i++) {
        if (work->items[i]->fate == fate) {
            *ret_item = work->items[i];
            return true;
        }
    }
    return false;
}

/* Says how many dead letters this process has made; true if there are any. */
static bool say_dead(const struct work *work)
{
    int64_t dead = atomic_load(&work->log->dead);

    if (dead > 0) {
        work_log_say(NULL, "%" PRId64 " event%s: see `holdfast dlq list`.", dead,
                     dead == 1 ? " became a dead letter" : "s became dead letters");
    }
    return dead > 0;
}

static int nothing_left_code(const struct work *work)
{
    const struct work_item *item = NULL;
    bool died = say_dead(work);

    if (any(work, WORK_FAILED, &item)) {
        return cli_exit_code(item->waiter.status);
    }
    if (any(work, WORK_REMOVED, &item)) {
        return EXIT_NOT_FOUND;
    }
    if (died) {
        return EXIT_FINDINGS;
    }
    return any(work, WORK_PAUSED, &item) ? EXIT_TIMEOUT : EXIT_OK;
}

int work_exit_code(const struct work *work, enum work_end end)
{
    bool until_empty = work->done_fd >= 0;

    switch (end) {
    case WORK_END_OUTPUT:
        return EXIT_ERROR;
    case WORK_END_NOTHING_LEFT:
        return nothing_left_code(work);
    case WORK_END_TIME:
        if (until_empty) {
            work_log_complain(NULL, "not everything was settled in time");
            return say_dead(work) ? EXIT_FINDINGS : EXIT_TIMEOUT;
        }
        break;
    case WORK_END_SIGNAL:
        if (until_empty) {
            return EXIT_ERROR;
        }
        break;
    case WORK_END_STORE:
        break; /* its status was the answer */
    }
    return out_failed() ? EXIT_ERROR : EXIT_OK;
}
