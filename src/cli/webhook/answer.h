/*
 * answer.h - what the answer of a webhook's receiver means for the delivery.
 *
 *     2xx                  done
 *     410                  the receiver wants no more: the subscription pauses, the event waits
 *     400, 413, 415, 422   this event will never be taken: dead letter
 *     429, 503             again, not before the time of Retry-After
 *     anything else        again by the retry policy; so are redirects, which are not followed
 *
 * Mistakes in an address or in credentials (401, 403, 404, 405) are repaired by people while
 * events wait, so they are no reason to give an event up.
 *
 * Pure: the time is passed in.
 */
#ifndef HF_CLI_WEBHOOK_ANSWER_H
#define HF_CLI_WEBHOOK_ANSWER_H

#include "base/text/text.h"

#include <stdint.h>

#define ANSWER_WAIT_MS_MAX (INT64_C(24) * 3600 * 1000) /* of Retry-After; what is more is this */

enum answer_meaning { ANSWER_DONE, ANSWER_AGAIN, ANSWER_REJECTED, ANSWER_GONE };

enum answer_meaning answer_meaning(int status);

/* How long the receiver asks to wait: the value of Retry-After, which is seconds or a date, as
 * milliseconds from 0 to ANSWER_WAIT_MS_MAX. -1: it is neither, or the status is not one that it
 * belongs to. */
int64_t answer_wait_ms(int status, struct text retry_after, int64_t now_us);

#endif
