/*
 * live.c - signs of life, and notes of what runs. See live.h.
 *
 * Notes are kept in a segment of shared memory (notes.h), whose number the file holds. Where the
 * system gives no segment, each note is written to the file: its page belongs to the kernel and
 * survives the process. Notes do not cross pages, so wherever the process is killed there is a
 * whole note or none. The file is never mapped: truncating a file turns every access to its mapped
 * pages into a SIGBUS.
 *
 * Whether a store lives is asked by looking at the lock on its file without taking it. Nothing else
 * tells as much: process ids are reused, and a time stamp says nothing about a stopped process. One
 * that is alive but does not move (stopped, swapped out, hung) is told by its counter: if it has
 * stood still for lease_ms of our own monotonic clock since we first saw that value, it is frozen.
 *
 * A file speaks for its store only if it is genuine: it holds the number of its own inode. One that
 * was copied, or put there by another program, or truncated, says nothing, like one that is not
 * there. Then the lock on the directory tells whether the process exists (sign.h). The store itself
 * looks for its file with every sign of life and makes it again from memory: under another name
 * first, locked and filled, and then moved to its place, so that it is never seen unlocked.
 *
 * Files of the dead are swept under the gate. A process that dies while sweeping leaves a file that
 * the next sweep finds. A file that is still named by a partition or a lease stays: its notes are
 * needed by the process that takes that over.
 *
 * The card of the node is read by others without the gate. Its texts are written before the file
 * gets its name, and never after; the two times are words.
 */
#include "store/sqlite/file/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "store/sqlite/file/live_file.h"
#include "store/sqlite/file/sign.h"
#include "store/sqlite/sqlite.h"

#define LIVE_MAKE_TRIES 3
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* What changes with every sign of life is at the beginning. */
#define LIVE_SIGNS_BYTES (offsetof(struct live_head, card) + offsetof(struct live_card, given))

static void live_boot_id(char out[BOOT_ID_BYTES + 4])
{
    memset(out, 0, BOOT_ID_BYTES + 4);
    int fd = open(BOOT_ID_PATH, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t length = read(fd, out, BOOT_ID_BYTES);
        (void)length; /* a short or empty id equals no other, or only another unreadable one */
        close(fd);
    }
}

/* ---- Our own file ---------------------------------------------------------------------------- */

static void live_heartbeat(struct live_card *card)
{
    atomic_store_explicit(&card->seen_at_us, clock_wall_us(), memory_order_release);
    atomic_store_explicit(&card->seen_us, clock_steady_us(), memory_order_release);
}

static void card_write(char *out, size_t bytes, struct text text)
{
    snprintf(out, bytes, "%" TEXT_PRI, TEXT_ARG(text));
}

static void card_fill(struct sqlite_engine *engine, const struct node_facts *node,
                      struct live_card *card)
{
    card->namespace_id = engine->namespace_id;
    card->pid = node->pid;
    card->heartbeat_ms = node->heartbeat_ms;
    card->started_at_us = clock_wall_us();
    card->given = node->given ? 1 : 0;
    card_write(card->id, sizeof card->id, node->id);
    card_write(card->name, sizeof card->name, engine->node_name);
    card_write(card->host, sizeof card->host, node->host);
    card_write(card->version, sizeof card->version, text_of(HF_VERSION));
    card_write(card->description, sizeof card->description, node->description);
    card_write(card->metadata_json, sizeof card->metadata_json, node->metadata_json);
    live_heartbeat(card);
}

static bool live_write(int fd, const void *bytes, size_t length, size_t at)
{
    size_t done = 0;
    while (done < length) {
        ssize_t written = pwrite(fd, (const char *)bytes + done, length - done, (off_t)(at + done));
        if (written < 0 && errno != EINTR) {
            return false;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* Without a segment: the note of a slot, into the file. */
static bool note_write(const struct live *live, int fd, int32_t slot)
{
    const struct live_note *note = &live->notes.rows[slot];
    int64_t words[] = {atomic_load(&note->position), atomic_load(&note->subscription_id),
                       atomic_load(&note->attempt), atomic_load(&note->since_us)};
    return live_write(fd, words, sizeof words, LIVE_NOTES_AT + (size_t)slot * sizeof *note);
}

/* Writes what the file holds. Workers may write notes meanwhile. */
static bool live_fill(const struct live *live, int fd)
{
    bool filled = ftruncate(fd, sizeof *live->file) == 0 &&
                  live_write(fd, &live->file->head, sizeof live->file->head, 0);
    for (int32_t i = 0; i < STORE_NOTES_MAX && filled && !live->notes.segment; i++) {
        filled = note_write(live, fd, i);
    }
    return filled;
}

/* Makes the file from what is in memory, locked, and puts it in its place. -1: see errno. */
static int live_make_once(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    files_unlink(&engine->files, live->new_path); /* of an attempt before */
    int fd = files_make(&engine->files, live->new_path);
    struct stat found;
    if (fd < 0) {
        return -1;
    }
    HF_POINT("live_file_unlocked");
    int code = live_file_lock(fd) && fstat(fd, &found) == 0
                   ? posix_fallocate(fd, 0, sizeof *live->file)
                   : errno;
    if (code == 0) {
        live->file->head.inode = found.st_ino;
        live->identity = (struct file_identity){found.st_ino, found.st_dev};
        bool filled = live_fill(live, fd);
        HF_POINT("live_file_unnamed");
        bool made = filled && files_rename(&engine->files, live->new_path, live->path) == 0;
        code = made ? 0 : errno;
    }
    if (code != 0) {
        files_unlink(&engine->files, live->new_path);
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

/* The same; another process, or a cleaner of temporary files, may remove the file before it has its
 * name. */
static int live_make(struct sqlite_engine *engine)
{
    int fd = live_make_once(engine);
    for (int i = 1; i < LIVE_MAKE_TRIES && fd < 0 && errno == ENOENT; i++) {
        fd = live_make_once(engine);
    }
    return fd;
}

static void live_free(struct live *live)
{
    notes_abandon(&live->notes);
    mem_free(live->file);
    mem_free(live->path);
    mem_free(live->new_path);
    live->file = NULL;
    live->path = NULL;
    live->new_path = NULL;
}

/* Everything that is in memory. */
static hf_status live_prepare(struct sqlite_engine *engine, const struct node_facts *node)
{
    struct live *live = &engine->live;
    live->path = live_file_path(engine, engine->token, "");
    live->new_path = live_file_path(engine, engine->token, LIVE_NEW);
    live->file = mem_calloc(1, sizeof *live->file);
    if (!live->path || !live->new_path || !live->file ||
        !notes_open(&live->notes, engine->token, live->path, &engine->files)) {
        live_free(live);
        return fail(HF_NOMEM, "no memory for signs of life");
    }
    live->file->head.segment_id = live->notes.segment_id;
    live->file->head.magic = LIVE_MAGIC;
    live_boot_id(live->file->head.boot_id);
    card_fill(engine, node, &live->file->head.card);
    atomic_store(&live->file->head.counter, 1);
    return HF_OK;
}

hf_status live_open(struct sqlite_engine *engine, const struct node_facts *node)
{
    struct live *live = &engine->live;
    live->fd = -1;
    live->directory = -1;
    hf_status status = mutex_init(&live->mutex);
    if (status) {
        return status;
    }
    status = live_prepare(engine, node);
    if (!status) {
        live->directory = sign_open(&engine->files, engine->token, 1);
        if (live->directory < 0) {
            log_about(engine->log, HF_LOG_WARN, NULL,
                      "cannot lock the directory of %s: %s. If "
                      "%s is deleted other processes will take this one for dead",
                      engine->files.db, strerror(errno), live->path);
        }
        live->fd = live_make(engine);
        status = live->fd >= 0
                     ? HF_OK
                     : fail(files_status(errno), "cannot make %s: %s", live->path, strerror(errno));
    }
    if (status) {
        notes_close(&live->notes);
        live_free(live);
        if (live->directory >= 0) {
            close(live->directory);
            live->directory = -1;
        }
        pthread_mutex_destroy(&live->mutex);
    }
    return status;
}

void live_close(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    if (!live->file) {
        return;
    }
    if (live->fd >= 0) { /* not in a forked child */
        files_unlink(&engine->files, live->path);
        notes_close(&live->notes);
    }
    live_abandon(live);
    live_free(live);
    pthread_mutex_destroy(&live->mutex);
}

void live_abandon(struct live *live)
{
    if (live->fd >= 0) {
        close(live->fd);
        live->fd = -1;
    }
    if (live->directory >= 0) {
        close(live->directory);
        live->directory = -1;
    }
}

void live_retire(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    pthread_mutex_lock(&live->mutex);
    if (live->file && !live->retired) {
        live->retired = true;
        files_unlink(&engine->files, live->path);
        sign_drop(live->directory, engine->token);
        files_lock_bytes(live->fd, 0, 0, F_UNLCK);
    }
    pthread_mutex_unlock(&live->mutex);
}

void live_note(struct live *live, int32_t slot, const struct handler_note *note)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    struct live_note *row = &live->notes.rows[slot];
    atomic_store(&row->position, 0);
    atomic_store(&row->subscription_id, note->subscription_id);
    atomic_store(&row->attempt, note->attempt);
    atomic_store_explicit(&row->since_us, note->now_us, memory_order_relaxed); /* for people */
    atomic_store(&row->position, note->position);
    if (!live->notes.segment) {
        note_write(live, live->fd, slot);
    }
}

void live_note_clear(struct live *live, int32_t slot)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    atomic_store(&live->notes.rows[slot].position, 0);
    if (!live->notes.segment) {
        note_write(live, live->fd, slot);
    }
}

/* ---- Showing that we live -------------------------------------------------------------------- */

/* Brings the note of a slot into the file again, whatever its worker does meanwhile: that one
 * changes memory first, so what is written last here is what memory has, or the worker writes after
 * it. */
static void note_carry(struct live *live, int32_t slot)
{
    const struct live_note *note = &live->notes.rows[slot];
    int64_t position;
    int64_t attempt;
    do {
        position = atomic_load(&note->position);
        attempt = atomic_load(&note->attempt);
        note_write(live, live->fd, slot);
    } while (position != atomic_load(&note->position) || attempt != atomic_load(&note->attempt));
}

static void carry_notes(struct live *live)
{
    for (int32_t i = 0; i < STORE_NOTES_MAX && !live->notes.segment; i++) {
        note_carry(live, i);
    }
}

/* The file has lost its name: makes it again. Workers write notes meanwhile, to the old file and
 * then to the new one: the descriptor stays the same. */
static void live_register_again(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    int fd = live_make(engine);
    if (fd < 0) {
        if (!live->unregistered) {
            log_about(engine->log, HF_LOG_WARN, NULL,
                      "%s was deleted or replaced and cannot be "
                      "made again: %s. If this process dies, it will not be known what ran",
                      live->path, strerror(errno));
        }
        live->unregistered = true;
        return;
    }
    if (dup3(fd, live->fd, O_CLOEXEC) < 0) {
        close(fd);
        return; /* the next sign of life finds a file that is not ours, and tries again */
    }
    close(fd);
    carry_notes(live);
    live->unregistered = false;
    log_about(engine->log, HF_LOG_WARN, NULL,
              "%s was deleted or replaced while in use, and was "
              "made again: leave it alone as long as its process runs",
              live->path);
}

static void renew(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    struct live_head *head = &live->file->head;
    uint64_t counter = atomic_fetch_add(&head->counter, 1) + 1;
    live_heartbeat(&head->card);
    sign_move(live->directory, engine->token, counter);
    struct file_identity found = {0};
    struct stat file;
    int error = files_identify(&engine->files, live->path, &found);
    if (error == ENOENT || (error == 0 && !file_identity_equal(found, live->identity))) {
        live_register_again(engine);
    } else if (fstat(live->fd, &file) == 0 && file.st_size < (off_t)sizeof *live->file) {
        live_fill(live, live->fd);
        carry_notes(live);
    } else {
        live_write(live->fd, head, LIVE_SIGNS_BYTES, 0);
    }
}

void live_renew(struct sqlite_engine *engine)
{
    pthread_mutex_lock(&engine->live.mutex);
    if (!engine->live.retired) {
        renew(engine);
    }
    pthread_mutex_unlock(&engine->live.mutex);
}

/* ---- Others' files --------------------------------------------------------------------------- */

/* What was seen of that process; if nothing was (`*ret_known` false), the place for it: an empty
 * one, or the one that was not looked at for the longest time. */
static struct live_seen *find_seen(struct live *live, const uint8_t token[STORE_TOKEN_BYTES],
                                   bool *ret_known)
{
    struct live_seen *oldest = &live->seen[0];
    for (int i = 0; i < LIVE_SEEN_MAX && oldest->seen_us; i++) {
        struct live_seen *seen = &live->seen[i];
        if (seen->seen_us && memcmp(seen->token, token, STORE_TOKEN_BYTES) == 0) {
            *ret_known = true;
            return seen;
        }
        if (seen->seen_us < oldest->seen_us) {
            oldest = seen;
        }
    }
    *ret_known = false;
    return oldest;
}

/*
 * Whether this counter has stood still for lease_ms while we watched. Between two looks we may not
 * have run ourselves, because the whole machine was stopped: then the other store had no chance to
 * show a sign either. So the time between two looks counts for half a lease at most, and after a
 * pause of ours the other one has time for its next sign before it is judged.
 *
 * Of too many stores those that were looked at longest ago are forgotten: they are gone. One that
 * is still there and frozen is looked at again and again.
 */
static bool live_stands_still(struct live *live, const uint8_t token[STORE_TOKEN_BYTES],
                              uint64_t counter, int64_t lease_ms)
{
    int64_t now_us = clock_mono_us();
    int64_t lease_us = lease_ms < INT64_MAX / 1000 ? lease_ms * 1000 : INT64_MAX;
    pthread_mutex_lock(&live->mutex);
    bool known = false;
    struct live_seen *found = find_seen(live, token, &known);
    known = known && found->counter == counter;
    int64_t passed_us = known ? now_us - found->seen_us : 0;
    found->still_us = known ? found->still_us : 0;
    found->still_us += passed_us < lease_us / 2 ? passed_us : lease_us / 2;
    memcpy(found->token, token, STORE_TOKEN_BYTES);
    found->counter = counter;
    found->seen_us = now_us ? now_us : 1;
    bool still = known && lease_us < INT64_MAX && found->still_us >= lease_us;
    pthread_mutex_unlock(&live->mutex);
    return still;
}

enum live_state live_state(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                           int64_t lease_ms)
{
    if (memcmp(token, engine->token, STORE_TOKEN_BYTES) == 0) {
        return LIVE_SELF;
    }
    char *path = live_file_path(engine, token, "");
    if (!path) {
        return LIVE_ALIVE;
    }
    int fd = files_open_read(&engine->files, path);
    int error = errno;
    mem_free(path);
    if (fd < 0 && error != ENOENT && error != ELOOP && error != ENXIO) {
        return LIVE_ALIVE; /* it cannot be known; the next look may tell */
    }
    struct live_head head;
    bool genuine = fd >= 0 && live_file_read_head(fd, &head);
    uint64_t counter = genuine ? atomic_load(&head.counter) : 0;
    bool alive =
        genuine ? live_file_is_locked(fd) : sign_read(engine->live.directory, token, &counter);
    if (fd >= 0) {
        close(fd);
    }
    if (!alive) {
        return genuine ? LIVE_DEAD : LIVE_GONE;
    }
    return live_stands_still(&engine->live, token, counter & SIGN_COUNTER_MASK, lease_ms)
               ? LIVE_FROZEN
               : LIVE_ALIVE;
}

/* Whether the file and its notes could be read, and are of this boot of the machine. */
static bool read_notes(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                       struct live_file *file)
{
    char boot_id[BOOT_ID_BYTES + 4];
    live_boot_id(boot_id);
    char *path = live_file_path(engine, token, "");
    int fd = path ? files_open_read(&engine->files, path) : -1;
    mem_free(path);
    bool exact = fd >= 0 && live_file_read(fd, file) &&
                 memcmp(file->head.boot_id, boot_id, sizeof boot_id) == 0 && boot_id[0] &&
                 (file->head.segment_id == NOTES_NO_SEGMENT ||
                  notes_read(file->head.segment_id, token, file->notes));
    if (fd >= 0) {
        close(fd);
    }
    return exact;
}

hf_status live_notes(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                     int64_t subscription_id, live_note_fn found, void *ctx, bool *ret_exact,
                     int32_t *ret_running)
{
    struct live_file *file = mem_calloc(1, sizeof *file);
    if (!file) {
        return fail(HF_NOMEM, "no memory for the notes of another process");
    }
    hf_status status = HF_OK;
    *ret_running = 0;
    bool exact = read_notes(engine, token, file);
    for (int i = 0; exact && i < STORE_NOTES_MAX; i++) {
        *ret_running += atomic_load(&file->notes[i].position) > 0 ? 1 : 0;
    }
    for (int i = 0; exact && found && i < STORE_NOTES_MAX && !status; i++) {
        struct live_note *row = &file->notes[i];
        struct handler_note note = {
            .subscription_id = atomic_load(&row->subscription_id),
            .position = atomic_load(&row->position),
            .attempt = (int32_t)atomic_load(&row->attempt),
            .now_us = atomic_load(&row->since_us),
        };
        bool wanted = subscription_id == 0 || note.subscription_id == subscription_id;
        if (note.position > 0 && wanted) {
            status = found(&note, ctx);
        }
    }
    mem_free(file);
    engine->live.sweep_due = true;
    if (!status) {
        *ret_exact = exact;
    }
    return status;
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

/* True also if we cannot know. */
static bool token_is_named(struct conn *conn, const uint8_t token[STORE_TOKEN_BYTES])
{
    sqlite3_stmt *stmt = conn_statement(conn, SQLITE_QUERY_TOKEN_IS_NAMED);
    bool found = false;
    if (!stmt) {
        return true;
    }
    bind_blob(stmt, 1, token, STORE_TOKEN_BYTES);
    if (conn_row(conn, stmt, &found) != HF_OK || !found) {
        return true;
    }
    bool named = sqlite3_column_int(stmt, 0) != 0;
    conn_done(stmt);
    return named;
}

/* Whether the file is of a store that is dead. A file that is not genuine says nothing: it may be a
 * copy in the place of a living store's file, which that store will notice with its next sign of
 * life. Then the lock on the directory tells. */
static bool is_of_the_dead(struct sqlite_engine *engine, int fd,
                           const uint8_t token[STORE_TOKEN_BYTES])
{
    struct live_head head;
    uint64_t counter;
    return !live_file_is_locked(fd) &&
           (live_file_read_head(fd, &head) || !sign_read(engine->live.directory, token, &counter));
}

static void note_dead(struct sqlite_engine *engine, int fd, const uint8_t token[STORE_TOKEN_BYTES],
                      void *ctx)
{
    *(bool *)ctx = *(bool *)ctx || is_of_the_dead(engine, fd, token);
}

bool live_any_dead(struct sqlite_engine *engine)
{
    bool dead = false;
    live_file_each(engine, "", note_dead, &dead);
    return dead;
}

/* What is looked for among the dead, and for whom. */
struct burial {
    struct conn *conn;
    live_card_fn found;
    void *ctx;
    struct live_file file; /* the one being looked at */
};

static void bury_one(struct sqlite_engine *engine, int fd, const uint8_t token[STORE_TOKEN_BYTES],
                     void *ctx)
{
    struct burial *burial = ctx;
    struct live *live = &engine->live;
    struct stat found;
    HF_POINT("bury_one");
    bool dead = is_of_the_dead(engine, fd, token) && fstat(fd, &found) == 0 &&
                !token_is_named(burial->conn, token);
    if (dead && live->buried_count == LIVE_BURY_MAX) {
        live->sweep_due = true;
    } else if (dead) {
        bool whole = live_file_read(fd, &burial->file);
        struct live_buried *buried = &live->buried[live->buried_count++];
        memcpy(buried->token, token, STORE_TOKEN_BYTES);
        buried->identity = (struct file_identity){found.st_ino, found.st_dev};
        buried->segment_id = whole ? burial->file.head.segment_id : NOTES_NO_SEGMENT;
        if (whole && burial->file.head.card.namespace_id != 0) {
            burial->found(engine, &burial->file.head.card, LIVE_DEAD, burial->ctx);
        }
    }
}

void live_bury(struct sqlite_engine *engine, struct conn *conn, live_card_fn found, void *ctx)
{
    struct burial *burial = mem_calloc(1, sizeof *burial);
    engine->live.buried_count = 0;
    engine->live.sweep_due = false;
    if (burial) {
        burial->conn = conn;
        burial->found = found;
        burial->ctx = ctx;
        live_file_each(engine, "", bury_one, burial);
        mem_free(burial);
    }
}

/* Removes the file that was looked at, if it still has its name. */
static bool sweep_one(struct sqlite_engine *engine, const struct live_buried *buried)
{
    char *path = live_file_path(engine, buried->token, "");
    struct file_identity found;
    bool removed = path && files_identify(&engine->files, path, &found) == 0 &&
                   file_identity_equal(found, buried->identity) &&
                   files_unlink(&engine->files, path) == 0;
    mem_free(path);
    return removed;
}

void live_sweep(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    size_t removed = 0;
    for (size_t i = 0; i < live->buried_count; i++) {
        if (sweep_one(engine, &live->buried[i])) {
            notes_remove(live->buried[i].segment_id, live->buried[i].token);
            removed++;
        }
    }
    if (removed < live->buried_count) {
        /* Files of another user in a directory with the sticky bit, say: trying again with every
         * commit would not help. The next opening tries again. */
        live->sweep_due = false;
    }
    live->buried_count = 0;
}

/*
 * A file that was being made when its process was killed. Its store is dead if it has neither the
 * lock on the file nor the one on the directory, which it takes before it makes the file. (If it
 * could not get that one, it finds its file gone when it wants to give it its name, and makes
 * another.) If the file holds nothing yet its segment stays, until notes_sweep finds it.
 */
static void sweep_unfinished_one(struct sqlite_engine *engine, int fd,
                                 const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    (void)ctx;
    struct live_head head;
    uint64_t counter;
    if (live_file_is_locked(fd) || sign_read(engine->live.directory, token, &counter)) {
        return;
    }
    bool genuine = live_file_read_head(fd, &head);
    char *path = live_file_path(engine, token, LIVE_NEW);
    if (path && files_unlink(&engine->files, path) == 0 && genuine) {
        notes_remove(head.segment_id, token);
    }
    mem_free(path);
}

void live_sweep_unfinished(struct sqlite_engine *engine)
{
    live_file_each(engine, LIVE_NEW, sweep_unfinished_one, NULL);
}

/* ---- Counting -------------------------------------------------------------------------------- */

struct live_tally {
    int64_t namespace_id;
    int32_t count;
    char *names;
    size_t bytes; /* of names */
    size_t length;
    struct live_file file; /* the one being looked at */
};

/* A file that cannot be read whole is another version's, or being made: it is counted, because it
 * may be of any namespace. */
static void live_count_one(struct sqlite_engine *engine, int fd,
                           const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    (void)engine;
    (void)token;
    struct live_tally *tally = ctx;
    bool whole = live_file_read(fd, &tally->file);
    if (live_file_is_locked(fd) &&
        (!whole || tally->file.head.card.namespace_id == tally->namespace_id)) {
        int length = snprintf(tally->names + tally->length, tally->bytes - tally->length, "%s%s",
                              tally->count ? ", " : "",
                              whole ? tally->file.head.card.name : "one of another version");
        tally->count++;
        tally->length += length > 0 ? (size_t)length : 0;
        tally->length = tally->length < tally->bytes ? tally->length : tally->bytes - 1;
    }
}

int32_t live_count(struct sqlite_engine *engine, int64_t namespace_id, char *names, size_t bytes)
{
    struct live_tally *tally = mem_calloc(1, sizeof *tally);
    names[0] = '\0';
    if (!tally) {
        snprintf(names, bytes, "no memory to find out");
        return 1;
    }
    tally->namespace_id = namespace_id;
    tally->names = names;
    tally->bytes = bytes;
    live_file_each(engine, "", live_count_one, tally);
    int32_t count = tally->count;
    mem_free(tally);
    return count;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

struct cards {
    live_card_fn found;
    void *ctx;
    struct live_file file; /* the one being looked at */
};

static void card_one(struct sqlite_engine *engine, int fd, const uint8_t token[STORE_TOKEN_BYTES],
                     void *ctx)
{
    (void)token;
    struct cards *cards = ctx;
    /* Before and after: a store that opens or closes meanwhile is seen alive, not as one that
     * died. */
    bool alive = live_file_is_locked(fd);
    bool whole = live_file_read(fd, &cards->file);
    alive = alive || live_file_is_locked(fd);
    if (whole && cards->file.head.card.namespace_id != 0) {
        cards->found(engine, &cards->file.head.card, alive ? LIVE_ALIVE : LIVE_DEAD, cards->ctx);
    }
}

hf_status live_cards(struct sqlite_engine *engine, live_card_fn found, void *ctx)
{
    struct cards *cards = mem_calloc(1, sizeof *cards);
    if (!cards) {
        return fail(HF_NOMEM, "no memory for the cards of nodes");
    }
    cards->found = found;
    cards->ctx = ctx;
    if (engine->live.file && engine->namespace_id != 0) {
        found(engine, &engine->live.file->head.card, LIVE_SELF, ctx);
    }
    live_file_each(engine, "", card_one, cards);
    mem_free(cards);
    return HF_OK;
}

void live_place(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                struct live_place *ret_place)
{
    struct live_head head;
    char *path = live_file_path(engine, token, "");
    int fd = path ? files_open_read(&engine->files, path) : -1;
    mem_free(path);
    bool known = fd >= 0 && live_file_read_head(fd, &head);
    if (fd >= 0) {
        close(fd);
    }
    *ret_place = (struct live_place){.pid = known ? head.card.pid : -1};
    if (known) {
        snprintf(ret_place->host, sizeof ret_place->host, "%.*s", STORE_HOST_BYTES_MAX,
                 head.card.host);
    }
}

const struct live_card *live_own_card(const struct live *live)
{
    return &live->file->head.card;
}

bool live_is_stale(const struct live_card *card)
{
    int64_t silent_us = clock_steady_us() - atomic_load(&card->seen_us);
    return silent_us > STORE_NODE_STALE_BEATS * card->heartbeat_ms * 1000;
}
