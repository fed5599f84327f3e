/*
 * guarded.h - a file that others must not be able to change: tokens, secrets.
 *
 * It is read only if it belongs to this process's user or root and no other may write it (nor, if
 * it holds secrets, read it). It is looked at once a second, and read again when it has changed, so
 * that what it grants comes and goes without a restart.
 */
#ifndef HF_SERVER_ACCESS_GUARDED_H
#define HF_SERVER_ACCESS_GUARDED_H

#include <holdfast.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define GUARDED_BYTES_MAX 1048576

struct guarded {
    const char *path;
    bool is_secret;    /* all users reading it is a reason not to use it, too */
    struct stat seen;  /* the file as it was when it was read, or could not be */
    int64_t looked_us; /* monotonic */
};

/* All of the file; the caller frees it by mem_free. HF_NOTFOUND, HF_DENIED, HF_INVALID name it. */
hf_status guarded_read(struct guarded *file, char **ret_text);

/* Whether it is another than when guarded_read was called last, whatever that answered, and its
 * writer has ended as far as one can see. */
bool guarded_has_changed(struct guarded *file);

/* Tells the log something about such a file. log NULL: nothing. */
void guarded_tell(hf_log_fn log, void *ctx, hf_log_level level, const char *message);

#endif
