/*
 * schedule.h - schedules of the bus: what fires now, and the thread that sees to it.
 */
#ifndef HF_BUS_TIMERS_SCHEDULE_H
#define HF_BUS_TIMERS_SCHEDULE_H

#include "base/arena.h"
#include "base/uuid.h"
#include "bus/bus.h"
#include "store/timers.h"

/* A firing that is to be carried out. It lives in the arena that it was made in. */
struct due {
    struct fire fire;
    struct text name; /* of the schedule */
};

/* Works out what is due of a schedule at at_us, a time of the store's clock. NULL: nothing. Of many
 * planned times the first: as many as make STORE_BATCH_BYTES_MAX, and at least one. */
hf_status schedule_due(hf_bus *bus, const struct schedule_row *row, int64_t now_us, int64_t at_us,
                       struct arena *arena, struct due **ret_due);

/*
 * Lets schedules that wait for a time more than SCHEDULE_AHEAD_US later than the next one after
 * at_us wait for that one instead: they were planned while the clock was ahead. A process whose own
 * clock is behind by as much would do so wrongly; what is fired because of that is in the log
 * already, by its id. *stopping: no further call of the store. What it cannot read it leaves alone.
 */
hf_status schedules_plan_anew(hf_bus *bus, int64_t now_us, int64_t at_us,
                              const atomic_bool *stopping);
#define SCHEDULE_AHEAD_US (7 * INT64_C(86400000000))

/* The bus is open, and this could be a schedule's name. */
hf_status schedule_check_name(hf_bus *bus, const char *name);

/* The id of the event of a planned time: version 7 with that time, the rest made of both. */
void schedule_event_id(const uint8_t schedule_id[UUID_BYTES], int64_t planned_us,
                       uint8_t out[UUID_BYTES]);

/* The thread that fires schedules and releases delayed events while the bus is started. All under
 * bus->life. Stopping what does not run is allowed. */
struct scheduler;
hf_status scheduler_start(hf_bus *bus);
void scheduler_stop_begin(hf_bus *bus);
/* False: it still waits for the store. Then it is to be called again, or scheduler_leave. */
bool scheduler_stop_end(hf_bus *bus, struct deadline deadline);
/* The bus is being closed, and no other thread uses it: if the thread still runs it gets a
 * reference. */
void scheduler_leave(hf_bus *bus);
/* With the last reference, or in a forked child. */
void scheduler_free(hf_bus *bus);

#endif
