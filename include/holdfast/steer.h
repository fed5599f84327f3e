/*
 * holdfast/steer.h - moving, pausing and waiting for a subscription.
 */
#ifndef HOLDFAST_STEER_H
#define HOLDFAST_STEER_H

#include <holdfast/subscription.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Moves a subscription to another place: the checkpoint is set, leases end, waiting retries and
 * held events go, dead letters stay. What was cancelled and had been passed comes again
 * (holdfast/cancel.h). Works while it is being processed; results of what ran before the seek are
 * refused. A process that has read events ahead learns of the seek a moment later (a lost
 * notification: with its next look, wait_period_ms), and may begin some of them until then.
 * ret_count (may be NULL): how many log positions will come (again). With dry_run HF_ON nothing is
 * changed.
 */
HF_API hf_status hf_seek(hf_bus *bus, const char *subscription, hf_place to, hf_toggle dry_run,
                         int64_t *ret_count);
/* Stops handing out events everywhere until hf_resume; running handlers finish. */
HF_API hf_status hf_pause(hf_bus *bus, const char *subscription, const char *reason);
/* Also closes an open breaker. HF_OK if it was not paused. */
HF_API hf_status hf_resume(hf_bus *bus, const char *subscription);

/*
 * Waits until the event at `position` is settled (done, dead, cancelled, or not for it) in the
 * subscription, or, with subscription NULL, in all of the namespace. position -1: everything
 * published before the call (not what handlers publish meanwhile), and no retry is waiting.
 * HF_TIMEOUT (timeout_ms -1: as long as it takes). What is due enters the log meanwhile
 * (holdfast/later.h).
 */
HF_API hf_status hf_wait(hf_bus *bus, const char *subscription, int64_t position,
                         int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_STEER_H */
