/*
 * async.h - publishing without waiting: a bounded queue and the one thread that empties it.
 */
#ifndef HF_BUS_API_ASYNC_H
#define HF_BUS_API_ASYNC_H

#include "bus/bus.h"

/* For hf_shutdown, in this order; calling them again, or at once from two threads, is safe. Not
 * from a completion callback. bus->mutex is not held. */

/* The bus is BUS_DRAINING: only handlers publish from now on. Threads that wait for room and are
 * none get HF_CLOSED. What could not be tried before the deadline is answered HF_CLOSED too, so no
 * callback is ever left out. */
void async_drain(hf_bus *bus, struct deadline deadline);
/* The bus is BUS_CLOSED: nothing more is published. Waits until the thread has answered everything
 * and ended: past the deadline only for what was being stored when that passed, which has the time
 * of a call. */
void async_stop(hf_bus *bus, struct deadline deadline);

/* Frees what has been stopped. Called when no thread uses the bus any more and before the store is
 * closed. In a forked child it only frees memory. */
void async_free(hf_bus *bus);

/* True on the thread of this bus that runs completion callbacks: what waits for that thread must
 * refuse to be called there. */
bool async_inside_callback(const hf_bus *bus);

#endif
