/*
 * err.h - how a failure is reported: a status, and one sentence for the calling thread.
 *
 * The sentence is written where the failure is known, on the line that returns:
 *
 *     return fail(HF_INVALID, "type is %zu bytes; the limit is %d", length, HF_TYPE_BYTES_MAX);
 *
 * and context is added on the way up by quoting it:
 *
 *     return fail(status, "subscription %s: %s", name, err_message());
 *
 * The sentence stays until the same thread fails again or clears it. It says what happened, to
 * what, and what to do next. (cmocka has a macro named fail: in a test include this header before
 * cmocka.h, and write (fail)(...) to mean this one.)
 */
#ifndef HF_BASE_ERR_H
#define HF_BASE_ERR_H

#include "base/banned.h"

#include <holdfast.h>
#include <stdbool.h>

/* The longest sentence with its final NUL; what is longer is cut and ends in "…". */
#define HF_ERR_BYTES_MAX 1024

/* Keeps the sentence for the calling thread and returns status, which is not HF_OK. The arguments
 * may point into err_message(). Does not change errno. */
hf_status fail(hf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a sentence that exists already, typically made by another thread. */
hf_status err_set(hf_status status, const char *message);

/* The calling thread's last sentence; "" if there is none. Valid until its next failure. */
const char *err_message(void);

/* Where the calling thread's sentence is kept: HF_ERR_BYTES_MAX bytes. */
char *err_slot(void);

/* From now on this copy of the code keeps sentences where another copy's err_slot says. For a
 * module, which calls it once, before anything can fail in it. */
void err_share(char *(*slot)(void));

/* "HF_INVALID"; "HF_?" for a number that is no status. */
const char *status_name(hf_status status);

/* What the status means, in a few words. */
const char *status_text(hf_status status);

/* Whether the same call may succeed later without the caller changing anything. */
bool status_retriable(hf_status status);

#endif
