/*
 * types.c - building the index on types of a namespace, and dropping it. See types.h.
 *
 * A loop of small changes, each of which other writers may come before. It has no memory of its
 * own: if it ends early, however it ends, the next one goes on from what is left. The call that
 * changes the setting runs it, and the thread of retention looks after it about hourly.
 */
#include "bus/timers/types.h"

#include "base/err.h"
#include "base/point.h"
#include "base/time/clock.h"
#include "store/namespace.h"

#define BUSY_TRIES 20 /* of a step that others are in the way of */
#define BUSY_PAUSE_MS 250

static hf_status take_step(hf_bus *bus, struct text name, bool *ret_more)
{
    struct type_steps steps;
    hf_status status = HF_BUSY;
    for (int tries = 0; tries < BUSY_TRIES && status == HF_BUSY; tries++) {
        if (tries > 0) {
            nanosleep(&(struct timespec){.tv_nsec = BUSY_PAUSE_MS * 1000000}, NULL);
        }
        steps = (struct type_steps){
            .change = {.kind = CHANGE_TYPE_STEPS, .now_us = clock_wall_us()},
            .name = name,
        };
        status = store_type_steps(bus->store, &steps, bus_deadline(bus));
    }
    *ret_more = steps.ret_more;
    return status;
}

hf_status types_run(hf_bus *bus, struct text name, bool (*stops)(void *ctx), void *ctx)
{
    hf_status status = HF_OK;
    bool more = true;
    while (!status && more && !(stops && stops(ctx))) {
        status = take_step(bus, name, &more);
        HF_POINT("mid_types");
    }
    return status;
}
