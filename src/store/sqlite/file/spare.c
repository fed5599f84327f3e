/*
 * spare.c - space kept for settling when the disk is full. See spare.h.
 *
 * All stores of a database share the file. It is given and restored under the gate. A process that
 * finds it missing or short and cannot allocate it behaves as if it had spent it itself, so the
 * state needs no memory of its own: it is the size of the file.
 */
#include "store/sqlite/file/spare.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/sqlite/file/files.h"

int64_t spare_file_bytes_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur > INT64_MAX) {
        return INT64_MAX;
    }
    return (int64_t)limit.rlim_cur;
}

int64_t spare_bytes(void)
{
    int64_t share = spare_file_bytes_max() / 4;
    return share < SPARE_BYTES ? share : SPARE_BYTES;
}

static bool spare_allocate(struct spare *spare)
{
    int64_t bytes = spare_bytes();
    int fd;
    hf_status status = files_open(spare->files, spare->files->spare, FILES_REPLACE, &fd);
    snprintf(spare->trouble, sizeof spare->trouble, "%s", status == HF_DENIED ? err_message() : "");
    if (status) {
        return false;
    }
    struct stat found;
    bool done =
        fstat(fd, &found) == 0 && (found.st_size >= bytes || posix_fallocate(fd, 0, bytes) == 0);
    if (!done && ftruncate(fd, 0) != 0) {
        done = false; /* nothing more can be done; the next attempt will try again */
    }
    close(fd);
    return done;
}

void spare_open(struct spare *spare, const struct files *files)
{
    spare->files = files;
    spare->spent = !spare_allocate(spare);
    spare->tried_us = clock_mono_us();
}

void spare_look(struct spare *spare, const struct files *files)
{
    struct stat found;
    int fd = files_open_read(files, files->spare);
    spare->files = files;
    spare->spent = fd < 0 || fstat(fd, &found) != 0 || found.st_size < spare_bytes();
    spare->tried_us = 0; /* if it is not, the first append allocates it */
    if (fd >= 0) {
        close(fd);
    }
}

bool spare_spend(struct spare *spare)
{
    spare->spent = true;
    spare->tried_us = clock_mono_us();
    int fd;
    if (files_open(spare->files, spare->files->spare, FILES_REPLACE, &fd) != HF_OK) {
        return false;
    }
    struct stat found;
    bool given = fstat(fd, &found) == 0 && found.st_size > 0 && ftruncate(fd, 0) == 0;
    close(fd);
    return given;
}

bool spare_restore(struct spare *spare, bool now)
{
    if (!spare->spent) {
        return true;
    }
    int64_t now_us = clock_mono_us();
    if (!now && now_us - spare->tried_us < SPARE_RETRY_MS * INT64_C(1000)) {
        return false;
    }
    spare->tried_us = now_us;
    spare->spent = !spare_allocate(spare);
    return !spare->spent;
}

hf_status spare_refuse(const struct spare *spare)
{
    return spare->spent && spare->trouble[0]
               ? fail(HF_DENIED, "%s. Until then nothing can be published", spare->trouble)
               : fail(HF_NOSPACE, "the disk is full: nothing was published");
}

int64_t spare_disk_free(const struct spare *spare, int64_t *ret_disk_bytes)
{
    struct statvfs found;
    if (statvfs(spare->files->db, &found) != 0) {
        return -1;
    }
    if (ret_disk_bytes) {
        *ret_disk_bytes = (int64_t)(found.f_blocks * found.f_frsize);
    }
    return (int64_t)(found.f_bavail * found.f_frsize);
}
