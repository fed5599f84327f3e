/*
 * holdfast.h - the public interface of Holdfast, a durable event bus.
 *
 * You publish an event; every subscription that wants it either processes it or holds it in its
 * dead letters with the whole story of what went wrong. This header and its parts, one per noun,
 * are the API and its documentation of record. They compile as C11 and as C++. Include this one
 * only: which part declares what may change.
 *
 * The life of a program
 *
 *     hf_open -> hf_subscribe (handlers) -> hf_start -> hf_publish ... -> hf_close
 *
 * Conventions
 *   - Every call that can fail returns hf_status. hf_errmsg() is the calling thread's last message:
 *     what happened, to what, and the limit that was passed.
 *   - Out-parameters are named ret_... and are untouched on failure; most may be NULL.
 *   - Options structs start with their own size and are initialised with their _INIT macro. In them
 *     a number of -1, an enum of 0 and a pointer of NULL mean "not given": the default, or, for a
 *     subscription that exists, what is stored.
 *   - Strings passed in are NUL-terminated UTF-8 and are copied. Payloads carry a length.
 *   - Timestamps (..._us) are microseconds since 1970-01-01T00:00:00Z; durations are milliseconds.
 *   - A callback gets memory that is valid until it returns. If a call that takes a callback fails
 *     before it begins, the callback never runs. Returning non-zero from a listing callback stops
 *     the listing, which is not an error.
 *
 * Threads
 *   An hf_bus may be used by any number of threads. Handlers and completion callbacks run on
 *   threads of the bus, which block all signals. hf_close is the exception: no thread may use the
 *   handle during or after it. After fork() the child must not use the parent's handle: every call
 *   there answers HF_MISUSE; hf_close in the child only frees memory. On SQLite such a child cannot
 *   open a bus of its own either (HF_MISUSE); fork first, or exec.
 *
 * Blocking
 *   Calls that touch the database wait at most `timeout_ms` of hf_options and then answer
 *   HF_TIMEOUT (nothing was done) or HF_UNKNOWN (it may have been done; ask by id). The library
 *   never prints, never exits, and reads no environment variables (libpq reads PG...).
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <holdfast/common.h>
#include <holdfast/log.h>
#include <holdfast/status.h>

#include <holdfast/bus.h>
#include <holdfast/event.h>
#include <holdfast/later.h>
#include <holdfast/publish.h>
#include <holdfast/schedule.h>
#include <holdfast/subscription.h>

/* Publishing in a transaction of the application. */
#include <holdfast/postgres.h>
#include <holdfast/sqlite.h>

/* Two ways to get events: the bus calls, or the program asks. */
#include <holdfast/handler.h>
#include <holdfast/pull.h>

#include <holdfast/cancel.h>
#include <holdfast/copy.h>
#include <holdfast/deadletter.h>
#include <holdfast/delivery.h>
#include <holdfast/inspect.h>
#include <holdfast/metrics.h>
#include <holdfast/namespace.h>
#include <holdfast/node.h>
#include <holdfast/partition.h>
#include <holdfast/steer.h>

#endif /* HOLDFAST_H */
