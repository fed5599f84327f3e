/*
 * types.h - building the index on types of a namespace, and dropping it.
 */
#ifndef HF_BUS_TIMERS_TYPES_H
#define HF_BUS_TIMERS_TYPES_H

#include "bus/bus.h"

/* Does what the setting of the namespace (absent: the bus's own) asks for, by steps, until that is
 * done or `stops` (may be NULL) says so. HF_BUSY: others were in the way for too long. */
hf_status types_run(hf_bus *bus, struct text name, bool (*stops)(void *ctx), void *ctx);

#endif
