/*
 * support_takers.h - followers of the log that remember what they were handed, and check what holds
 * at every step.
 */
#ifndef HF_TESTS_BUS_SUPPORT_TAKERS_H
#define HF_TESTS_BUS_SUPPORT_TAKERS_H

#include "base/set64.h"
#include "bus/deliver/tail/tail.h"
#include "support/make.h"

struct taker {
    struct follower *follower;
    struct text pattern;
    bool strict;
    int64_t floor;
    int64_t last;        /* the highest position so far */
    struct set64 handed; /* position -> 1 */
    int64_t at_tail;     /* its steps that took from the tail */
    int64_t alone;       /* its steps that read by a reader of its own */
};

struct taker taker_of(struct tail *tail, const char *pattern, bool strict);
void taker_end(struct taker *taker);
/* Takes once. Nothing comes that is at or below the floor or came before; in strict order nothing
 * comes below what came before; the floor does not sink. `alone`: it is not to use the tail.
 * *ret_more as follower_next says. */
hf_status taker_step(struct taker *taker, int32_t max, bool alone, bool *ret_more);
/* Takes until there is no more. */
void taker_drain(struct taker *taker, int32_t max);
/* Was everything in the log that matches its pattern handed up? */
bool taker_is_complete(const struct taker *taker, struct store *store);

#endif
