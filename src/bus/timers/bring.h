/*
 * bring.h - calls that look for work bring what is due, so that nothing waits for ever where no bus
 * is started and only scripts claim.
 */
#ifndef HF_BUS_TIMERS_BRING_H
#define HF_BUS_TIMERS_BRING_H

#include "bus/bus.h"

/* Who asks. */
enum bring_when {
    BRING_BEFORE,  /* a call that is about to look for work: the store is asked once in a while */
    BRING_NOTHING, /* one that has found nothing and will return: it is asked */
    BRING_WAITING  /* one that has found nothing and waits: it is asked when timers may have
                      changed, or one is due */
};

struct brought {
    bool looked;     /* the store was asked */
    int64_t count;   /* so much was brought: look for work again */
    int64_t wait_ms; /* until something is due; INT64_MAX: not known, or nothing */
};

/* Does a portion of what is due, unless the scheduler of this bus does so. What fails is logged,
 * not returned: it stays due, and the call goes on without it. */
struct brought timers_bring(hf_bus *bus, enum bring_when when);

#endif
