/*
 * watch.h - one thread per bus that waits for news for all other threads, and shows signs of life.
 */
#ifndef HF_BUS_WATCH_H
#define HF_BUS_WATCH_H

#include "bus/bus.h"

/* Starts the watch, when the bus is opened: at first it only shows signs of life. */
hf_status watch_begin(hf_bus *bus);
/* From now on it waits for news. */
void watch_want(hf_bus *bus);
/* A number that changes when there may be news. Read it, look, then watch_wait. */
uint64_t watch_seen(hf_bus *bus);
/* Waits until it differs from `seen` or the deadline passes. Answers false when it passed. */
bool watch_wait(hf_bus *bus, uint64_t seen, struct deadline deadline);
/* The descriptor of hf_fd. */
hf_status watch_fd(hf_bus *bus, int *ret_fd);
/* Something happened inside this process that waiters should look at (a checkpoint moved). */
void watch_poke(hf_bus *bus);
/* Signs of life at least every ms / 4 from now on. */
void watch_lease(hf_bus *bus, int64_t lease_ms);
/* Signs of life every ms / 4 and no more often: of all leases this is the shortest (INT64_MAX:
 * there is none). `seen` is what watch_leases_seen answered before the leases were looked at. If
 * watch_lease was called since, one of them may be shorter now: then the signs stay as frequent as
 * they are, which is never wrong. */
uint64_t watch_leases_seen(hf_bus *bus);
void watch_leases(hf_bus *bus, uint64_t seen, int64_t lease_ms);
/* The time between signs of life, for tests. */
int64_t watch_period_ms(hf_bus *bus);
/* Ends the thread and the waits of all others. May be called twice. */
void watch_stop(hf_bus *bus);
/* Frees what has been stopped. */
void watch_free(hf_bus *bus);

#endif
