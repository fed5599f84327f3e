/*
 * guarded.c - see guarded.h.
 */
#include "server/access/guarded.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/time/clock.h"

#include <errno.h>
#include <fcntl.h>

#define LOOK_PERIOD_US 1000000 /* between two looks whether the file has changed */
#define SETTLE_US 100000       /* a file that was written later than that may not be complete */

static hf_status check_file(const struct guarded *file)
{
    const struct stat *found = &file->seen;

    if (!S_ISREG(found->st_mode)) {
        return fail(HF_INVALID, "%s is no file", file->path);
    }
    if (found->st_uid != geteuid() && found->st_uid != 0) {
        return fail(HF_DENIED, "%s belongs to another user, who could change what it grants",
                    file->path);
    }
    if (found->st_mode & (S_IWGRP | S_IWOTH)) {
        return fail(HF_DENIED,
                    "%s can be written by others, who could change what it grants; chmod go-w it",
                    file->path);
    }
    if (file->is_secret && (found->st_mode & S_IROTH)) {
        return fail(HF_DENIED, "%s holds secrets and can be read by all; chmod o-r it", file->path);
    }
    if (found->st_size > GUARDED_BYTES_MAX) {
        return fail(HF_INVALID, "%s is larger than %d bytes", file->path, GUARDED_BYTES_MAX);
    }
    return HF_OK;
}

/* All of it, with a NUL behind. */
static hf_status read_all(int fd, const struct guarded *file, char **ret_text)
{
    size_t size = (size_t)file->seen.st_size;
    char *text = mem_alloc(size + 1);
    ssize_t length = text ? read(fd, text, size) : 0;
    hf_status status = HF_OK;

    if (!text || length < 0) {
        status = fail(text ? HF_IO : HF_NOMEM, "%s cannot be read", file->path);
    } else {
        text[length] = '\0';
        if (strlen(text) != (size_t)length) {
            status = fail(HF_INVALID, "%s is no text: it has a NUL byte", file->path);
        }
    }
    if (status) {
        mem_free(text);
    } else {
        *ret_text = text;
    }
    return status;
}

hf_status guarded_read(struct guarded *file, char **ret_text)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    hf_status status;

    file->looked_us = clock_mono_us();
    if (fd < 0 || fstat(fd, &file->seen)) {
        status =
            fail(errno == EACCES ? HF_DENIED : HF_NOTFOUND, "%s: %s", file->path, strerror(errno));
        memset(&file->seen, 0, sizeof file->seen);
    } else {
        status = check_file(file);
    }
    if (!status) {
        status = read_all(fd, file, ret_text);
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_mode == b->st_mode && a->st_uid == b->st_uid;
}

/* Whether the file was written so late that its writer may go on: a half of it grants less. */
static bool is_fresh(const struct stat *found)
{
    int64_t written_us =
        found->st_mtim.tv_sec * INT64_C(1000000) + found->st_mtim.tv_nsec / INT64_C(1000);
    int64_t age_us = clock_wall_us() - written_us;

    return age_us >= 0 && age_us < SETTLE_US;
}

bool guarded_has_changed(struct guarded *file)
{
    int64_t now_us = clock_mono_us();
    struct stat found = {0};

    if (now_us - file->looked_us < LOOK_PERIOD_US) {
        return false;
    }
    file->looked_us = now_us;
    if (stat(file->path, &found)) {
        memset(&found, 0, sizeof found);
    }
    if (is_same(&found, &file->seen)) {
        return false;
    }
    if (is_fresh(&found)) {
        file->looked_us = now_us - LOOK_PERIOD_US + SETTLE_US; /* soon again */
        return false;
    }
    return true;
}

void guarded_tell(hf_log_fn log, void *ctx, hf_log_level level, const char *message)
{
    if (log) {
        hf_log_record record = {.level = level,
                                .at_us = clock_wall_us(),
                                .message = message,
                                .position = -1,
                                .attempt = -1,
                                .attempts_max = -1,
                                .delay_ms = -1};
        log(&record, ctx);
    }
}
