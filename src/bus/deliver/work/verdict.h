/*
 * verdict.h - what a handler's answer means for the delivery: pure policy, no store, no threads.
 */
#ifndef HF_BUS_DELIVER_WORK_VERDICT_H
#define HF_BUS_DELIVER_WORK_VERDICT_H

#include <holdfast.h>

#include "base/text/buf.h"
#include "store/common/story.h"
#include "store/store.h"

#define REASON_ATTEMPTS "attempts"     /* the last allowed attempt failed */
#define REASON_REJECTED "rejected"     /* the handler, or hf_bury, said so */
#define REASON_DECODE "decode"         /* the payload could not be understood */
#define REASON_NO_HANDLER "no_handler" /* outside the patterns, and the subscription asks for it */
#define REASON_CORRUPT "corrupt"       /* it is not the event that was published */
#define REASON_LEASE "lease"           /* the last allowed attempt ended with its lease */

#define ERROR_CORRUPT                                                                              \
    "the event is damaged: its checksum does not match what is stored. No handler has seen it; "   \
    "holdfast verify looks for more"

#define ERROR_NO_HANDLER "no pattern of the subscription matches the event's type"

#define UNCOUNTED_MAX 100 /* HF_RETRY_UNCOUNTED answers before they begin to count */

/* How an attempt ended. */
struct ending {
    hf_verdict verdict;
    enum cause cause;      /* CAUSE_NONE: the verdict says it */
    struct text error;     /* absent: a general sentence is used */
    int64_t delay_ms;      /* -1: by the retry policy */
    int64_t wait_ms;       /* by the retry policy, but at least this */
    bool last;             /* there is no other attempt, whatever attempts_max says */
    struct unit_mark unit; /* of a batch: what failed together */
};

/*
 * Turns a failed attempt at `entry` into an outcome: RETRY with its due time, or DEAD (BLOCK for
 * on_poison=block_key of an ordered subscription). Verdict HF_ACK gives DONE. `story` (cleared by
 * the caller) holds the outcome's attempts_json and must live as long as the outcome; the other
 * texts are the ending's or static. Attempts recorded so far are entry->attempts.
 */
hf_status verdict_outcome(const hf_subscription_options *options, const struct entry *entry,
                          const struct ending *ending, struct text node, int64_t now_us,
                          uint64_t random, struct buf *story, struct outcome *ret_outcome);

/* The outcome of an entry whose recorded attempts are used up before it is run again. */
bool verdict_is_spent(const hf_subscription_options *options, const struct entry *entry);
hf_status verdict_spent(const hf_subscription_options *options, const struct entry *entry,
                        struct buf *story, struct outcome *ret_outcome);

/* The outcome of a damaged entry, which is never run: dead, whatever its attempts. */
struct outcome verdict_damaged(const hf_subscription_options *options, const struct entry *entry);

/* The outcome of an entry outside the patterns that is to be a dead letter; it holds no key up. */
struct outcome verdict_unhandled(const struct entry *entry);

/* Tells the log of a failed attempt, once its outcome is stored: each one, the last included, makes
 * one record. `subscription` is NUL-terminated; `error` may be NULL. */
void verdict_log(const struct log *log, const char *subscription,
                 const hf_subscription_options *options, const struct entry *entry,
                 const struct outcome *outcome, const char *error, int64_t now_us);

/* Room for the reason of a halt. */
struct halt {
    char reason[128];
};

/* on_poison=halt: if one of the outcomes is a death, the pause that has to be stored with it; else
 * an absent reason. `halt` lives as long as the answer. */
struct pause_request verdict_halt(const hf_subscription_options *options,
                                  const struct outcome *outcomes, size_t count, const char *by,
                                  struct halt *halt);

#endif
