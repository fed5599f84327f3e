/*
 * retention.h - taking away what a namespace need not keep any more.
 */
#ifndef HF_BUS_TIMERS_RETENTION_H
#define HF_BUS_TIMERS_RETENTION_H

#include "bus/bus.h"

#define RETENTION_FIRST_MS 60000    /* after the start, the first look whose turn it is */
#define RETENTION_PERIOD_MS 3600000 /* between two looks */
#define RETENTION_TURN_MS 3300000   /* a process may take the turn if none had it for so long */

/* From start to stop_end there is retention; all but retention_look are called with bus->life held.
 * Starting twice is allowed. */
hf_status retention_start(hf_bus *bus);
/* By the scheduler, whenever it looks for work: starts a thread that takes the turn if it is time
 * for that and the last one has ended. Answers when it is time again. */
struct deadline retention_look(hf_bus *bus);
void retention_stop_begin(hf_bus *bus);
/* After the scheduler has ended. False: it still waits for the store. Then it is to be called
 * again, or retention_leave. */
bool retention_stop_end(hf_bus *bus, struct deadline deadline);
/* The bus is being closed, and no other thread uses it: if the thread still runs it gets a
 * reference. */
void retention_leave(hf_bus *bus);
/* With the last reference, or in a forked child. */
void retention_free(hf_bus *bus);

#endif
