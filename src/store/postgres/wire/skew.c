/*
 * skew.c - see skew.h.
 *
 * The keeper reads the server's clock when it registers the process and with every look, and notes
 * it against the steady clock, which cannot be set (it goes on while the machine sleeps). From then
 * on the server's time is known without asking, and so is, at every moment, how far the wall clock
 * is from it: a jump of the wall clock shows in the next call, not at the next look.
 *
 * Between reading `now_us` and handing it over the clock may be set; a change may also wait long
 * for its turn. So both differences, before and after the last jump, are at hand, and the one that
 * brings `now_us` nearer to the server's time is its own.
 *
 * A server whose clock is set back is another matter: what is stored would come later by as much.
 * Registering and every beat find that in the database itself and repair it there (clock_mind).
 */
#include "store/postgres/wire/skew.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "store/postgres/postgres.h"

#define SLOW_US (SKEW_TOLERANCE_US / 2) /* an answer that took longer says little about the time */

/* The difference that counts now. */
static int64_t update(struct postgres_engine *engine, int64_t server_us)
{
    struct skew *skew = &engine->skew;
    int64_t found_us = server_us - clock_wall_us();
    int64_t shift_us = atomic_load(&skew->shift_us);
    if (llabs(found_us - shift_us) <= SKEW_TOLERANCE_US) {
        return shift_us;
    }
    int64_t fresh_us = llabs(found_us) <= SKEW_TOLERANCE_US ? 0 : found_us;
    if (fresh_us != shift_us &&
        atomic_compare_exchange_strong(&skew->shift_us, &shift_us, fresh_us)) {
        atomic_store(&skew->before_us, shift_us);
        log_about(engine->log, fresh_us ? HF_LOG_WARN : HF_LOG_INFO, NULL,
                  fresh_us ? "the clocks of this machine and of the server %s differ by %lld s: "
                             "times are converted"
                           : "the clocks of this machine and of the server %s agree again (%lld s)",
                  engine->place, (long long)(fresh_us / 1000000));
    }
    return fresh_us;
}

bool skew_see(struct postgres_engine *engine, int64_t server_us, int64_t from_us, int64_t to_us)
{
    struct skew *skew = &engine->skew;
    bool known = atomic_load(&skew->known);
    if (known && to_us - from_us > SLOW_US) {
        return false;
    }
    int64_t fresh_us = server_us - (from_us + to_us) / 2;
    int64_t old_us = atomic_exchange(&skew->server_us, fresh_us);
    atomic_store(&skew->known, true);
    update(engine, clock_steady_us() + fresh_us);
    return known && fresh_us < old_us - SKEW_TOLERANCE_US;
}

int64_t skew_shift(struct postgres_engine *engine, int64_t now_us)
{
    struct skew *skew = &engine->skew;
    if (!atomic_load(&skew->known)) {
        return 0;
    }
    int64_t server_us = clock_steady_us() + atomic_load(&skew->server_us);
    int64_t shift_us = update(engine, server_us);
    int64_t before_us = atomic_load(&skew->before_us);
    bool older = llabs(now_us + before_us - server_us) < llabs(now_us + shift_us - server_us);
    return older ? before_us : shift_us;
}

int64_t skew_local(struct postgres_engine *engine, int64_t server_us)
{
    return server_us < 0 ? server_us : server_us - skew_shift(engine, clock_wall_us());
}
