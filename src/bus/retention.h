/*
 * retention.h - taking away what a namespace need not keep any more.
 */
#ifndef HF_BUS_RETENTION_H
#define HF_BUS_RETENTION_H

#include "bus/bus.h"

#define RETENTION_FIRST_MS 60000   /* after the start, the first look whose turn it is */
#define RETENTION_PERIOD_MS 3600000 /* between two looks */
#define RETENTION_TURN_MS 3300000  /* it is somebody's turn if nobody had it for so long */

/* The thread that looks; both are called with bus->life held. Starting twice is allowed. */
hf_status retention_start(hf_bus *bus);
void retention_stop(hf_bus *bus);
/* Frees what a stop has not, in a forked child. */
void retention_free(hf_bus *bus);

#endif
