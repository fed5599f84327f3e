/* departures.c - the list, and what is sent of it. See departures.h. */
#include "bus/deliver/departures.h"

#include <time.h>

#include "base/err.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "bus/deliver/runner.h"

#define AGAIN_NS 10000000 /* between two tries for what others keep locked */

hf_status departures_init(struct departures *departures)
{
    *departures = (struct departures){0};
    return mutex_init(&departures->mutex);
}

void departures_release(struct departures *departures)
{
    pthread_mutex_destroy(&departures->mutex);
}

static void put(struct departures *departures, struct runner *runner)
{
    pthread_mutex_lock(&departures->mutex);
    runner->departed_next = departures->first;
    departures->first = runner;
    pthread_mutex_unlock(&departures->mutex);
}

/* All that are in the list. */
static struct runner *take(struct departures *departures)
{
    pthread_mutex_lock(&departures->mutex);
    struct runner *first = departures->first;
    departures->first = NULL;
    pthread_mutex_unlock(&departures->mutex);
    return first;
}

bool departures_add(struct runner *runner)
{
    if (dispatchers_seats(&runner->bus->dispatchers) < RUNNERS_MANY) {
        return false;
    }
    runner_reference(runner);
    put(&runner->bus->departures, runner);
    return true;
}

/* Gives back for the first ones of a list, as many as one change takes. *ret_rest: the others. */
static hf_status send_some(hf_bus *bus, struct runner *first, struct deadline deadline,
                           struct runner **ret_rest)
{
    int64_t ids[STORE_DEPART_MAX];
    struct depart depart = {
        .change = {.kind = CHANGE_DEPART, .now_us = clock_wall_us()},
        .subscription_ids = ids,
    };
    struct runner *rest = first;
    for (; rest && depart.count < STORE_DEPART_MAX; rest = rest->departed_next) {
        ids[depart.count++] = rest->definition.id;
    }
    HF_POINT("before_depart");
    hf_status status = store_run(bus->store, &depart.change, deadline);
    if (!status && depart.ret_left > 0) {
        status =
            fail(HF_BUSY, "%lld subscriptions are locked by others", (long long)depart.ret_left);
    }
    *ret_rest = rest;
    return status;
}

/* These are over, or stay in the list. */
static void end_some(hf_bus *bus, struct runner *first, const struct runner *rest, bool over)
{
    while (first != rest) {
        struct runner *runner = first;
        first = runner->departed_next;
        if (over) {
            runner_unreference(runner);
        } else {
            put(&bus->departures, runner);
        }
    }
}

hf_status departures_send(hf_bus *bus, struct deadline deadline)
{
    hf_status status = HF_OK;
    struct runner *rest;
    for (struct runner *first = take(&bus->departures); first; first = rest) {
        hf_status sent = send_some(bus, first, deadline, &rest);
        end_some(bus, first, rest, sent == HF_OK);
        status = status ? status : sent;
    }
    return status;
}

hf_status departures_end(hf_bus *bus, struct deadline deadline)
{
    hf_status status = departures_send(bus, deadline);
    while (status == HF_BUSY && !deadline_passed(deadline)) {
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        status = departures_send(bus, deadline);
    }
    return status;
}

void departures_forget(hf_bus *bus)
{
    end_some(bus, take(&bus->departures), NULL, true);
}
