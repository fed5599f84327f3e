/*
 * early.h - events that are done, have left the window, and that no stored checkpoint tells yet.
 *
 * As long as the process lives it simply goes on behind them. They are for the moment at which a
 * partition is given up and the checkpoint may not move over them: then each is stored as done, so
 * that it does not come again. So they are added one behind the other, looked through now and then
 * for those that the checkpoint has reached meanwhile, and never searched.
 */
#ifndef HF_BUS_DELIVER_EARLY_H
#define HF_BUS_DELIVER_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EARLY_MAX 65536 /* what is not remembered comes again after a stop */
#define EARLY_LOOK 1024 /* so many more than at the last look, and it is time for another */

struct early_event {
    int64_t position;
    int32_t partition;
};

struct early {
    struct early_event *events;
    size_t count;
    size_t capacity;
    size_t kept; /* by the last look */
};

/* Without memory, or at EARLY_MAX, it is not remembered. */
void early_add(struct early *early, int64_t position, int32_t partition);
/* Have so many been added that many can probably go? */
bool early_is_long(const struct early *early);
/* The look: keeps those of which `keep` answers true. */
void early_sift(struct early *early, bool (*keep)(const struct early_event *event, void *ctx),
                void *ctx);
void early_clear(struct early *early);
void early_release(struct early *early);

#endif
