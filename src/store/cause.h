/*
 * cause.h - what is known of the last failed attempt at a delivery: why it failed, and which events
 * failed together with it.
 *
 * These are stored in columns of their own, beside the story (story.h). The bus decides by them and
 * never by the story, whose errors are texts for people: a handler can write anything there.
 */
#ifndef HF_STORE_CAUSE_H
#define HF_STORE_CAUSE_H

#include <stdint.h>

#include "base/text/text.h"

/* Each with its name, by which it is stored and shown. */
#define CAUSES(X)                                                                                  \
    X(HANDLER, "handler")         /* the handler, hf_nack or hf_bury said so */                    \
    X(UNDECODABLE, "undecodable") /* the handler could not understand the payload */               \
    X(TIMEOUT, "timeout")         /* the handler did not return in time */                         \
    X(TRANSACTION, "transaction") /* what the handler wrote could not be committed */              \
    X(DIED, "process_died")       /* its process died during the attempt */                        \
    X(EXPIRED, "lease_expired")   /* its lease expired without an answer */

enum cause {
    CAUSE_NONE, /* no attempt has failed */
#define CAUSE(name, text) CAUSE_##name,
    CAUSES(CAUSE)
#undef CAUSE
};

/* The name; absent for CAUSE_NONE. */
struct text cause_name(enum cause cause);
/* The cause of this name; CAUSE_NONE if there is none. */
enum cause cause_of(struct text name);

/* The events that failed together, as one unit: the position of the first, and how many. Fewer
 * than two events: the attempt was not at a unit. */
struct unit_mark {
    int64_t first;
    int32_t events;
};

#endif
