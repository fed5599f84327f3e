/*
 * async.h - publishing without waiting: a bounded queue and the one thread that empties it.
 */
#ifndef HF_BUS_ASYNC_H
#define HF_BUS_ASYNC_H

#include "bus/bus.h"

/* Asks the thread to answer everything that waits, and to end; later publishes answer HF_CLOSED.
 * What could not be tried before the deadline is answered HF_CLOSED too, so no callback is ever
 * left out. Called by hf_shutdown after bus->closed was set; calling it again, or at once from two
 * threads, is safe. Not from a completion callback. bus->mutex is not held. */
void async_stop_begin(hf_bus *bus, struct deadline deadline);
/* Waits until it has: past the deadline only for what was being stored when that passed, which has
 * the time of a call. */
void async_stop_end(hf_bus *bus);

/* Frees what has been stopped. Called when nobody uses the bus any more and before the store
 * is closed. In a forked child it only frees memory. */
void async_free(hf_bus *bus);

/* True on the thread of this bus that runs completion callbacks: what waits for that thread must
 * refuse to be called there. */
bool async_inside_callback(const hf_bus *bus);

#endif
