/*
 * thread.h - threads that leave the host program's signals alone, and their waiting.
 *
 * Threads of the library block every signal, so that the host's handlers run on the host's threads.
 * Conditions wait on CLOCK_MONOTONIC, so that a step of the wall clock wakes no thread.
 */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include "base/time/deadline.h"

#include <holdfast.h>
#include <pthread.h>
#include <stdbool.h>

/* Starts run(ctx) with all signals blocked. The name is cut to the 15 bytes Linux has for it. If
 * this fails, run is never called. HF_NOMEM when the system has no thread left. */
hf_status thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *ctx), void *ctx);

hf_status mutex_init(pthread_mutex_t *mutex);
hf_status cond_init(pthread_cond_t *cond);

/* Waits once; false when the deadline has passed. As always with conditions, the caller loops over
 * its predicate. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, struct deadline deadline);

#endif
