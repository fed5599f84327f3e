/*
 * rig.h - what the torture programs share: seeded chance, the program started again as another
 * process, files of lines that survive a kill, and TAP.
 *
 * A run is decided by its seed: everything that looks random comes from one generator per process,
 * and a child's seed is drawn by its parent. Time is not replayed, so a seed replays the decisions
 * and not the exact moment of each kill.
 *
 * A line is written with one write() to a file opened with O_APPEND: what was written before a kill
 * -9 is there, and lines of several processes in one file are in the order of the writes. A kill in
 * the middle of a write() stops it between two pages of the file, and the half line would swallow
 * the next one, which another process wrote. So all lines are padded to one length that divides a
 * page: none lies in two pages, and each is there whole or not at all.
 */
#ifndef HF_TESTS_SUPPORT_RIG_H
#define HF_TESTS_SUPPORT_RIG_H

#include <holdfast.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RIG_PATH_BYTES 512
#define RIG_ARGS_MAX 12

/* ---- Chance ---------------------------------------------------------------------------------- */

struct chance {
    uint64_t state;
};

void chance_seed(struct chance *chance, uint64_t seed);
uint64_t chance_next(struct chance *chance);
/* 0 .. below - 1. */
uint64_t chance_below(struct chance *chance, uint64_t below);
/* True `percent` times of a hundred. */
bool chance_percent(struct chance *chance, int percent);
/* A UUID whose first digit is below 8; see rig_derived_id. */
void chance_id(struct chance *chance, char id[HF_ID_BYTES]);

/* The id of what a handler publishes for this event: the same with a first digit of 8 or more. */
void rig_derived_id(const char *id, char derived[HF_ID_BYTES]);
uint64_t rig_hash(const void *bytes, size_t count);
int64_t rig_mono_us(void);

/* ---- Processes ------------------------------------------------------------------------------- */

/* Starts this program again with these arguments, NULL at the end. It dies with its parent. */
pid_t rig_start(const char *first, ...) __attribute__((sentinel));
/* To be called first in a child. */
void rig_child(void);
/* The wait status; -1 and killed if it has not ended in time. */
int rig_wait(pid_t pid, int64_t timeout_ms);
/* SIGKILL, and waits for it. */
void rig_kill(pid_t pid);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Makes a directory below $TMPDIR; rig_remove removes it with everything inside. */
void rig_directory(char path[RIG_PATH_BYTES]);
void rig_remove(const char *path);
/* Opens for appending; aborts if it cannot. */
int rig_append_open(const char *path);
/* One line, one write. The line is padded with at least one space; what is too long is cut. */
#define RIG_LINE_BYTES 128
void rig_append(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rig_append_args(int fd, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* ---- Arguments and results ------------------------------------------------------------------- */

/* The value of "--name VALUE" among the arguments, or the default. */
int64_t rig_option(int argc, char **argv, const char *name, int64_t otherwise);
/* The seed: --seed, or drawn from the clock; printed as a comment. */
uint64_t rig_seed(int argc, char **argv);

/* One TAP result. */
void rig_ok(bool passed, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A TAP comment. */
void rig_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the plan; the exit status. */
int rig_done(void);

#endif
