/*
 * output.h - keeps what commands print: in a directory, a file for each stream of each run.
 *
 *     mailer-17-1.out     stdout of the first attempt at the event with position 17
 *     mailer-17-1.err     its stderr
 *     totals-17+5-1.out   of a batch of 5 events, of which the first has position 17
 *     mailer-17-1-2.out   the same attempt, which ran again because it did not count
 */
#ifndef HF_CLI_WORK_OUTPUT_H
#define HF_CLI_WORK_OUTPUT_H

#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define OUTPUT_NAME_BYTES 256 /* of a file, with its NUL: what filesystems allow */

/* The directory. It is opened once, and a later rename or link changes nothing. */
struct output_dir {
    const char *path; /* NULL: nothing is kept */
    int fd;
    atomic_bool has_failed; /* a file could not be written, which was said */
};

/* Opens `path`, and makes it if it is not there. False after a complaint. NULL: nothing is kept. */
bool output_open(struct output_dir *dir, const char *path);
void output_close(struct output_dir *dir);

/* One stream of one run. The file is made when something is printed. */
struct output_file {
    struct output_dir *dir;
    const char *subscription; /* for messages */
    char name[OUTPUT_NAME_BYTES];
    int fd; /* -1: not made yet, or given up */
    size_t bytes;
    bool is_over; /* it could not be written, or is as long as it may be */
};

/* Both streams of a run, under a name that no earlier run has taken. */
void output_begin(struct output_file *out, struct output_file *err, struct output_dir *dir,
                  const hf_event *const *events, size_t count, const hf_delivery *delivery);
/* `file` NULL, or of no directory: nothing. */
void output_write(struct output_file *file, const char *bytes, size_t length);
void output_end(struct output_file *file);

#endif
