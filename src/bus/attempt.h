/*
 * attempt.h - one run of the handlers for one event, and the transaction of the calling thread.
 */
#ifndef HF_BUS_ATTEMPT_H
#define HF_BUS_ATTEMPT_H

#include "bus/bus.h"

/* The transaction that publishing on this thread must join: that of the transactional handler which
 * is running on it for this bus. NULL: none. */
struct tx *attempt_tx(const hf_bus *bus);

#endif
