/*
 * notes.c - where the notes of running handlers are kept. See notes.h.
 *
 * A note must cost next to nothing, survive kill -9, and never harm the process that writes it. A
 * file cannot give all three: writing costs a system call for each handler (0.7 us, almost half of
 * what a delivery costs), and mapped pages of a file become a SIGBUS when it is truncated.
 * Memory of the process dies with the process. A System V segment is memory that outlives its
 * processes, has permissions, and cannot be made smaller. Its number is in the live file.
 *
 * The segment is removed when its store closes, and after a kill by the process that sweeps the
 * dead store's live file. If that is another user's process it may not remove the segment, and if
 * the database was deleted no process sweeps its files. So a segment also holds the path of its
 * live file, and whenever a database is opened those segments of the same user are removed that no
 * process has in memory and whose live file is gone. If the file is not gone but was moved together
 * with its directory, or is on a filesystem that is not mounted, the notes are lost, too.
 *
 * It is then not known which handlers ran, as after a reboot, and the next owner is careful. The
 * same holds for processes in different IPC namespaces (containers that share a directory), which
 * cannot read each other's segments, and for systems that are set to remove a segment with its last
 * process. The system may also have no segment to give: then the notes are memory of the process,
 * and live.c writes each of them to the live file.
 *
 * What is open: a process that is killed between shmget and the writing of the magic number, a few
 * instructions later, leaves a segment that cannot be recognised and stays.
 */
#include "store/sqlite/file/notes.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text/hex.h"
#include "base/uuid.h"
#include "store/sqlite/file/files.h"

#define NOTES_MAGIC UINT64_C(0x3130657469746e68) /* "hntite01" */
#define NOTES_AT 4096                            /* where the rows begin */
#define READ_BITS 0444                           /* of a file's permissions */
#define PATH_BYTES (NOTES_AT - sizeof(uint64_t) - STORE_TOKEN_BYTES)
#define SWEEP_LOOK_MAX 4096 /* segments of the system that one sweep looks at */

struct notes_segment {
    _Atomic uint64_t magic;           /* written last: then the token and the path are there */
    uint8_t token[STORE_TOKEN_BYTES]; /* of the store whose notes these are */
    char path[PATH_BYTES];            /* of its live file; "": it is too long */
    struct live_note rows[STORE_NOTES_MAX];
};

_Static_assert(offsetof(struct notes_segment, rows) == NOTES_AT && sizeof(struct live_note) == 32,
               "no note crosses a page");

/* How often segments were attached and detached. The kernel may give the address of a segment that
 * one thread has detached to another thread at once. What the first has done there comes before
 * what the second does, which this counter tells to tools that look for races and do not know
 * shmat. */
static atomic_uint changes;

static struct notes_segment *attach(int id, int flags)
{
    void *segment = shmat(id, NULL, flags);
    atomic_fetch_add(&changes, 1);
    return segment == (void *)-1 ? NULL : segment; /* NOLINT: shmat answers this for a failure */
}

static void detach(const struct notes_segment *segment)
{
    atomic_fetch_add(&changes, 1);
    shmdt(segment);
}

/* A new segment that those who may read the database may read; only its owner and we write it.
 * NULL: the system gives none. */
static struct notes_segment *segment_make(const struct files *files, int *ret_id)
{
    int id = shmget(IPC_PRIVATE, sizeof(struct notes_segment), IPC_CREAT | IPC_EXCL | 0600);
    if (id < 0) {
        return NULL;
    }
    struct notes_segment *segment = attach(id, 0);
    struct shmid_ds about;
    if (segment && shmctl(id, IPC_STAT, &about) == 0) {
        about.shm_perm.uid = files->owner;
        about.shm_perm.gid = files->group;
        about.shm_perm.mode = (unsigned short)(0600 | (files->mode & READ_BITS));
        shmctl(id, IPC_SET, &about); /* if it fails, others cannot read the notes */
    }
    if (!segment) {
        shmctl(id, IPC_RMID, NULL);
        return NULL;
    }
    *ret_id = id;
    return segment;
}

bool notes_open(struct notes *notes, const uint8_t token[STORE_TOKEN_BYTES], const char *path,
                const struct files *files)
{
    int id = NOTES_NO_SEGMENT;
    notes->segment = segment_make(files, &id);
    notes->segment_id = id;
    if (notes->segment) {
        memcpy(notes->segment->token, token, STORE_TOKEN_BYTES);
        if (strlen(path) < PATH_BYTES) {
            snprintf(notes->segment->path, PATH_BYTES, "%s", path);
        }
        atomic_store(&notes->segment->magic, NOTES_MAGIC);
        notes->rows = notes->segment->rows;
    } else {
        notes->rows = mem_calloc(STORE_NOTES_MAX, sizeof *notes->rows);
    }
    return notes->rows != NULL;
}

void notes_close(struct notes *notes)
{
    if (notes->segment) {
        shmctl((int)notes->segment_id, IPC_RMID, NULL);
    }
    notes_abandon(notes);
}

void notes_abandon(struct notes *notes)
{
    if (notes->segment) {
        detach(notes->segment);
    } else {
        mem_free(notes->rows);
    }
    *notes = (struct notes){.segment_id = NOTES_NO_SEGMENT};
}

/* The segment, for reading, if it belongs to the store with this token. */
static const struct notes_segment *segment_find(int64_t segment_id,
                                                const uint8_t token[STORE_TOKEN_BYTES])
{
    struct shmid_ds about;
    if (segment_id < 0 || segment_id > INT32_MAX ||
        shmctl((int)segment_id, IPC_STAT, &about) != 0 ||
        about.shm_segsz != sizeof(struct notes_segment)) {
        return NULL;
    }
    const struct notes_segment *segment = attach((int)segment_id, SHM_RDONLY);
    if (segment && (atomic_load(&segment->magic) != NOTES_MAGIC ||
                    memcmp(segment->token, token, STORE_TOKEN_BYTES) != 0)) {
        detach(segment);
        return NULL;
    }
    return segment;
}

bool notes_read(int64_t segment_id, const uint8_t token[STORE_TOKEN_BYTES],
                struct live_note out[STORE_NOTES_MAX])
{
    const struct notes_segment *segment = segment_find(segment_id, token);
    if (!segment) {
        return false;
    }
    for (size_t i = 0; i < STORE_NOTES_MAX; i++) {
        const struct live_note *row = &segment->rows[i];
        atomic_store(&out[i].subscription_id, atomic_load(&row->subscription_id));
        atomic_store(&out[i].attempt, atomic_load(&row->attempt));
        atomic_store(&out[i].since_us, atomic_load(&row->since_us));
        atomic_store(&out[i].position, atomic_load(&row->position));
    }
    detach(segment);
    return true;
}

void notes_remove(int64_t segment_id, const uint8_t token[STORE_TOKEN_BYTES])
{
    const struct notes_segment *segment = segment_find(segment_id, token);
    if (segment) {
        shmctl((int)segment_id, IPC_RMID,
               NULL); /* before it is detached: until then the number is its own */
        detach(segment);
    }
}

/* ---- Segments whose live file is gone -------------------------------------------------------- */

/* Whether the path is that of a live file of the store with this token. */
static bool is_live_path(const char path[PATH_BYTES], const uint8_t token[STORE_TOKEN_BYTES])
{
    char end[sizeof "-live-" + (size_t)2 * STORE_TOKEN_BYTES] = "-live-";
    hex_write(end + strlen("-live-"), token, STORE_TOKEN_BYTES);
    size_t length = strnlen(path, PATH_BYTES);
    return length < PATH_BYTES && path[0] == '/' && length > strlen(end) &&
           strcmp(path + length - strlen(end), end) == 0;
}

/* Whether the segment is one of notes and its live file is certain to be gone. Its contents may be
 * anything: they are copied before they are looked at. */
static bool is_without_file(const struct notes_segment *segment)
{
    uint8_t token[STORE_TOKEN_BYTES];
    char path[PATH_BYTES];
    struct stat found;
    if (atomic_load(&segment->magic) != NOTES_MAGIC) {
        return false;
    }
    memcpy(token, segment->token, sizeof token);
    memcpy(path, segment->path, sizeof path);
    return is_live_path(path, token) &&
           fstatat(AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0 &&
           (errno == ENOENT || errno == ENOTDIR);
}

/* Whether no process has the segment attached but this one, which looks at it. */
static bool is_left(int id)
{
    struct shmid_ds about;
    return shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 1;
}

/* No process can have the number of a segment that no process has attached, unless its store is
 * dead: a store attaches its segment before it writes the magic number, and removes it before it
 * lets it go. A store that was about to attach it when the sweep began has it now, if it has
 * written the magic number meanwhile. */
static void sweep_one(int id, const struct shmid_ds *about)
{
    if (about->shm_segsz != sizeof(struct notes_segment) || about->shm_nattch != 0 ||
        about->shm_perm.cuid != geteuid()) {
        return;
    }
    const struct notes_segment *segment = attach(id, SHM_RDONLY);
    if (segment) {
        if (is_without_file(segment) && is_left(id)) {
            shmctl(id, IPC_RMID, NULL);
        }
        detach(segment);
    }
}

void notes_sweep(void)
{
    struct shm_info info;
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);
    if (last < 0) {
        return;
    }
    uint64_t count = (uint64_t)last + 1;
    uint64_t first = random_u64() % count; /* another part each time, if there are too many */
    for (uint64_t i = 0; i < count && i < SWEEP_LOOK_MAX; i++) {
        struct shmid_ds about;
        int id = shmctl((int)((first + i) % count), SHM_STAT, &about);
        if (id >= 0) {
            sweep_one(id, &about);
        }
    }
}
