/*
 * faulty.h - an engine that forwards to another one and fails, stops or counts on the way.
 *
 *     faulty_install();
 *     store_open("faulty:sqlite:/path", ...)   or   hf_open("faulty:sqlite:/path", ...)
 *     faulty_fail(FAULTY_APPLY, 3, 1, HF_NOSPACE);
 *
 * Interleavings are forced by stopping a call with faulty_stop, waiting until a thread stands
 * there, doing the other thing, and letting it go on; never by sleeping. The settings are the
 * process's, for all stores that were opened through this engine. They exist in HF_FAULTS builds
 * only.
 */
#ifndef HF_TESTS_SUPPORT_FAULTY_H
#define HF_TESTS_SUPPORT_FAULTY_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>

/* What tests fail, stop and count. */
enum faulty_verb {
    FAULTY_OTHER, /* every query that is not among these */
    FAULTY_OPEN,
    FAULTY_APPLY,
    FAULTY_SUBSCRIPTION, /* by name, by id and the list */
    FAULTY_STANDING,
    FAULTY_NOW,
    FAULTY_RETRIES_DUE,
    FAULTY_LANES,
    FAULTY_TIMERS, /* schedules, their runs and when something is due */
    FAULTY_READER_OPEN,
    FAULTY_READER_NEXT,
    FAULTY_TX_BEGIN,
    FAULTY_TX_COMMIT,
    FAULTY_VERBS
};

/* Makes "faulty:" a URL scheme, and forgets all settings and counts. */
void faulty_install(void);

/*
 * The nth call of the verb from now on (1 is the next) and the times - 1 after it answer `status`
 * without reaching the engine. FAULTY_APPLY: with HF_TIMEOUT, HF_BUSY and HF_UNAVAILABLE no change
 * was begun; with any other status every change answers it.
 */
void faulty_fail(enum faulty_verb verb, int64_t nth, int64_t times, hf_status status);
/* The same, but the engine does its work first: the answer is lost, as by a cut connection. */
void faulty_lose(enum faulty_verb verb, int64_t nth, int64_t times, hf_status status);

/* The answers to the next list of changes are lost after the engine did its work, and when it asks
 * what became of them a lock is in the way: HF_BUSY, `doubtful` and `again`. */
void faulty_doubt(void);

/* From now on apply answers HF_TIMEOUT to a caller whose deadline has passed, as an engine
 * does that cannot have the database at once. */
void faulty_refuse_late(void);

/* The nth call from now on stops before it reaches the engine; who stands there goes on. */
void faulty_stop(enum faulty_verb verb, int64_t nth);
/* Waits until a thread stands there; false when the time is over. */
bool faulty_stopped(enum faulty_verb verb, int64_t timeout_ms);
/* Lets it go on and stops no thread any more. */
void faulty_go(enum faulty_verb verb);

/* Every call of the verb takes so much longer from now on, as with a store that is far away. */
void faulty_slow(enum faulty_verb verb, int64_t ms);

/* Calls of the verb so far, and the longest list of changes that apply was given. */
int64_t faulty_calls(enum faulty_verb verb);
int64_t faulty_changes_max(void);

/* Lets all threads go on and forgets all settings and counts. */
void faulty_reset(void);

#endif
