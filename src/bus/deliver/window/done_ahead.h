/*
 * done_ahead.h - events that are done, have left the window, and that no stored checkpoint tells
 * yet.
 *
 * As long as the process lives it simply goes on behind them. They are for the moment at which a
 * partition is given up and the checkpoint may not move over them: then each is stored as done, so
 * that it does not come again. So they are added one behind the other, looked through now and then
 * for those that the checkpoint has reached meanwhile, and never searched.
 */
#ifndef HF_BUS_DELIVER_WINDOW_DONE_AHEAD_H
#define HF_BUS_DELIVER_WINDOW_DONE_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DONE_AHEAD_MAX 65536 /* what is not remembered comes again after a stop */
#define DONE_AHEAD_LOOK 1024 /* so many more than at the last look, and it is time for another */

struct done_ahead_event {
    int64_t position;
    int32_t partition;
};

struct done_ahead {
    struct done_ahead_event *events;
    size_t count;
    size_t capacity;
    size_t kept; /* by the last look */
};

/* Without memory, or at DONE_AHEAD_MAX, it is not remembered. */
void done_ahead_add(struct done_ahead *done_ahead, int64_t position, int32_t partition);
/* Have so many been added that many can probably go? */
bool done_ahead_is_long(const struct done_ahead *done_ahead);
/* The look: keeps those of which `keep` answers true. */
void done_ahead_sift(struct done_ahead *done_ahead,
                     bool (*keep)(const struct done_ahead_event *event, void *ctx), void *ctx);
void done_ahead_clear(struct done_ahead *done_ahead);
void done_ahead_release(struct done_ahead *done_ahead);

#endif
