/*
 * attempt.h - one run of the handlers for one event, and what the running thread is doing.
 */
#ifndef HF_BUS_DELIVER_WORK_ATTEMPT_H
#define HF_BUS_DELIVER_WORK_ATTEMPT_H

#include "bus/bus.h"
#include "bus/deliver/work/handlers.h"

/* One attempt as the handler sees it; public as the opaque hf_delivery. */
struct hf_delivery {
    hf_bus *bus;
    const char *subscription;
    struct tx *tx; /* NULL unless transactional */
    int32_t attempt;
    int32_t attempts_max;
    atomic_bool *cancelled; /* set when the attempt has timed out or the bus is stopping */
    bool excused;           /* a call was refused because the bus is shut down */
    int64_t retry_in_ms;    /* the least wait before the next attempt; 0: by the retry policy */
    char error[HF_ERROR_BYTES_MAX + 1];
};

/* Runs the handlers that match the events of a unit, one after another, until one does not answer
 * HF_ACK; a batch handler gets, in order, those that match it, and other handlers are for one event
 * only. Its answer is the attempt's; its error is in delivery->error ("" if it gave none).
 * `scratch` has room for all events. False: some event matches no handler, so nothing was run and
 * nothing may be acknowledged. */
bool attempt_run(struct hf_delivery *delivery, const struct handlers *handlers,
                 const hf_event *const *events, size_t count, const hf_event **scratch,
                 hf_verdict *ret_verdict);

/* The transaction that publishing on this thread must join: that of the transactional handler which
 * is running on it for this bus. NULL: none. */
struct tx *attempt_tx(const hf_bus *bus);
/* True if the calling thread is running a handler of this bus. */
bool attempt_inside(const hf_bus *bus);
/* What fails in the handler of this bus that the calling thread is running, if any, is not its
 * fault: HF_RETRY becomes HF_RETRY_UNCOUNTED. */
void attempt_excuse(const hf_bus *bus);

#endif
