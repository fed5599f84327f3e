/*
 * point.h - named places where a test may stop, kill or count the program.
 *
 *     HF_POINT("after_commit_before_ack");
 *
 * compiles to nothing in a release build. With HF_FAULTS it reports to point_hit, and tests arm it:
 *
 *     point_arm("after_commit_before_ack", 3, POINT_KILL);
 *
 * An interleaving is forced by stopping one thread at a point, doing the other thing, and releasing
 * it; never by sleeping.
 */
#ifndef HF_BASE_POINT_H
#define HF_BASE_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef HF_FAULTS
#define HF_POINT(name) point_hit(name)
#else
#define HF_POINT(name) ((void)0)
#endif

#ifdef HF_FAULTS

/* The most different names; more are a mistake and abort. */
#define POINT_COUNT_MAX 256

enum point_action {
    POINT_COUNT,       /* nothing but counting, which happens anyway */
    POINT_KILL,        /* raise(SIGKILL) */
    POINT_STOP_THREAD, /* the thread that hits blocks until point_release(name) */
};

/* name must be a string literal. */
void point_hit(const char *name);

/* The nth hit from now on (1 is the next) performs the action, once. Replaces what was armed. */
void point_arm(const char *name, int64_t nth, enum point_action action);

/* Hits since the start of the process or the last point_reset. */
int64_t point_hits(const char *name);

/* Waits until a thread is stopped at the point; false if none is after timeout_ms. */
bool point_wait_blocked(const char *name, int64_t timeout_ms);

/* Disarms the point and lets every thread stopped there go on. */
void point_release(const char *name);

/* Disarms and releases all points and sets their counts to 0. */
void point_reset(void);

/* The names of all points ever hit or armed: how many there are; the first names_max of them are
 * stored in ret_names, which may be NULL. */
size_t point_list(const char **ret_names, size_t names_max);

#endif
#endif
