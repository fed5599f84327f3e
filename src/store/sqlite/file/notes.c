/*
 * notes.c - where the notes of running handlers are kept. See notes.h.
 *
 * A note must cost next to nothing, survive kill -9, and never harm the process that writes it. A
 * file cannot give all three: writing costs a system call for each handler (0.7 us, almost half of
 * what a delivery costs), and mapped pages of a file become a SIGBUS when somebody truncates it.
 * Memory of the process dies with the process. A System V segment is memory that outlives its
 * processes, has permissions, and cannot be made smaller. Its number is in the live file.
 *
 * The segment is removed when its store closes, and after a kill by the process that sweeps the
 * dead store's live file. If the database is deleted before that, the segment (36 KiB) stays until
 * the machine is started anew, or `ipcrm`. Processes in different IPC namespaces (containers that
 * share a directory) cannot read each other's segments, and some systems are set to remove a
 * segment with its last process: then it is not known which handlers ran, as after a reboot, and
 * the next owner is careful. The system may also have no segment to give: then the notes are memory
 * of the process, and live.c writes each of them to the live file.
 */
#include "store/sqlite/file/notes.h"

#include <stddef.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "base/mem.h"
#include "store/sqlite/file/files.h"

#define NOTES_MAGIC UINT64_C(0x3130657469746e68) /* "hntite01" */
#define NOTES_AT 4096                            /* where the rows begin */
#define ACCESS_BITS 0666                         /* read and write, of a file's permissions */

struct notes_segment {
    uint64_t magic;
    uint8_t token[STORE_TOKEN_BYTES]; /* of the store whose notes these are */
    char unused[NOTES_AT - sizeof(uint64_t) - STORE_TOKEN_BYTES];
    struct live_note rows[STORE_NOTES_MAX];
};

_Static_assert(offsetof(struct notes_segment, rows) == NOTES_AT && sizeof(struct live_note) == 32,
               "no note crosses a page");

static struct notes_segment *attach(int id, int flags)
{
    void *segment = shmat(id, NULL, flags);
    return segment == (void *)-1 ? NULL : segment; /* NOLINT: shmat answers this for a failure */
}

/* A new segment that those who may use the database may read. NULL: the system gives none. */
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
        about.shm_perm.mode = (unsigned short)(files->mode & ACCESS_BITS);
        shmctl(id, IPC_SET, &about); /* if it fails, others cannot read the notes */
    }
    if (!segment) {
        shmctl(id, IPC_RMID, NULL);
        return NULL;
    }
    *ret_id = id;
    return segment;
}

bool notes_open(struct notes *notes, const uint8_t token[STORE_TOKEN_BYTES],
                const struct files *files)
{
    int id = NOTES_NO_SEGMENT;
    notes->segment = segment_make(files, &id);
    notes->segment_id = id;
    if (notes->segment) {
        notes->segment->magic = NOTES_MAGIC;
        memcpy(notes->segment->token, token, STORE_TOKEN_BYTES);
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
        shmdt(notes->segment);
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
    if (segment &&
        (segment->magic != NOTES_MAGIC || memcmp(segment->token, token, STORE_TOKEN_BYTES) != 0)) {
        shmdt(segment);
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
        atomic_store(&out[i].position, atomic_load(&row->position));
    }
    shmdt(segment);
    return true;
}

void notes_remove(int64_t segment_id, const uint8_t token[STORE_TOKEN_BYTES])
{
    const struct notes_segment *segment = segment_find(segment_id, token);
    if (segment) {
        shmdt(segment);
        shmctl((int)segment_id, IPC_RMID, NULL);
    }
}
