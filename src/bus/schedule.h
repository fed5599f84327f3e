/*
 * schedule.h - schedules of the bus: what fires now, and the thread that sees to it.
 */
#ifndef HF_BUS_SCHEDULE_H
#define HF_BUS_SCHEDULE_H

#include "bus/bus.h"
#include "store/agenda.h"

/* Fires what is due of a schedule at at_us, a time of the store's clock. HF_OK also if somebody
 * else has done it. */
hf_status schedule_fire(hf_bus *bus, const struct schedule_row *row, int64_t now_us, int64_t at_us);

/* The thread that fires schedules and releases delayed events while the bus is started. Both under
 * bus->life. Stopping what does not run is allowed. */
struct clockwork;
hf_status clockwork_start(hf_bus *bus);
void clockwork_stop(hf_bus *bus);

#endif
