/*
 * holdfast/cancel.h - cancelling an event for one subscription: it is settled without a handler.
 */
#ifndef HOLDFAST_CANCEL_H
#define HOLDFAST_CANCEL_H

#include <holdfast/inspect.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_CANCEL_WAIT_MS 5000 /* see wait_ms */

typedef struct hf_cancel_options {
    size_t size;
    int64_t position;   /* the event at this position, if `id` is NULL; -1 */
    const char *by;     /* who cancels it, for people; NULL: the name of the node */
    const char *reason; /* why; NULL: no reason is stored */
    int64_t wait_ms;    /* how long a process that has the event in hand may take to answer; default
                           HF_CANCEL_WAIT_MS */
} hf_cancel_options;

#define HF_CANCEL_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(hf_cancel_options), -1, NULL, NULL, -1                                              \
    }

/*
 * Cancels an event for a subscription, durably: it is settled, is not (or no longer) delivered to
 * it, and its state there is HF_STATE_CANCELLED with the time, `by` and `reason`. Other
 * subscriptions get it as before. A following event of its key goes on. `options` may be NULL.
 *
 * When it answers HF_OK no handler runs for the event, and none will. What becomes of it, by its
 * state in the subscription:
 *
 *   pending, retrying, held   HF_OK. Also if the subscription is paused. If a process has it in
 *                             hand and has not begun with it, that process gives it up first
 *   leased by hf_claim        HF_OK, and the lease has it no more: settling it there answers
 *                             HF_STALE, whatever the claimer has done with it
 *   in a handler now          the call waits up to wait_ms. If the handler succeeds meanwhile:
 *                             HF_CONFLICT, it is done. If it fails: HF_OK, instead of another
 *                             attempt. Else HF_BUSY: nothing is changed, and the sentence says
 *                             which node has it, and since when. HF_BUSY also if a process that may
 *                             have it in hand does not answer (it stands still)
 *   cancelled                 HF_OK. The first time, `by` and `reason` stay
 *   done                      HF_CONFLICT
 *   dead                      HF_CONFLICT: resolve its dead letter (hf_dead_resolve)
 *   not for it                HF_CONFLICT: no pattern matches it, or it is before the start
 *
 * HF_CONFLICT also if the event waits for its time (hf_later_cancel). HF_NOTFOUND: no such
 * subscription, or no such event in the log: it was not published, or retention has deleted it.
 * HF_UNKNOWN: call it again, or look (hf_event_states).
 *
 * hf_seek back to before the event delivers it again, as everything after that place, if the
 * subscription had passed it. One that lies ahead of it all the time stays cancelled.
 */
HF_API hf_status hf_cancel(hf_bus *bus, const char *subscription, const char *id,
                           const hf_cancel_options *options);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_CANCEL_H */
