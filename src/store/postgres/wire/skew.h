/*
 * skew.h - this machine's wall clock and the server's.
 *
 * Many machines share the store, and what one of them stores for later, another one may have to
 * take up. So every time in the store that something waits for is the server's. The callers of the
 * store know only their own clock (`now_us`); what they pass is moved by the difference of the two,
 * and what they are told is moved back. A clock that is wrong, or is set while the process runs,
 * then neither strands nor hastens what waits, here or anywhere else.
 *
 * Less than SKEW_TOLERANCE_US of difference counts as none: it cannot be told from a slow network,
 * and clocks that agree should not be moved to and fro.
 */
#ifndef HF_STORE_POSTGRES_WIRE_SKEW_H
#define HF_STORE_POSTGRES_WIRE_SKEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct postgres_engine;

#define SKEW_TOLERANCE_US 1000000

struct skew {
    atomic_bool known;
    _Atomic int64_t server_us; /* the server's clock when our steady one stood at 0 */
    _Atomic int64_t shift_us;  /* the server's clock minus ours, as it is applied */
    _Atomic int64_t before_us; /* what shift_us was before the last jump */
};

/* The server's clock stood at `server_us` between two moments of our steady clock. True: it has
 * been set back since the last time. */
bool skew_see(struct postgres_engine *engine, int64_t server_us, int64_t from_us, int64_t to_us);

/* What must be added to times that belong to `now_us`, a recent reading of our wall clock, to make
 * them the server's. */
int64_t skew_shift(struct postgres_engine *engine, int64_t now_us);

/* A time of the server's as our wall clock would show it; -1 stays -1. */
int64_t skew_local(struct postgres_engine *engine, int64_t server_us);

#endif
