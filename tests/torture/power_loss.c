/*
 * power_loss.c - the power fails after each I/O operation, and what was acknowledged is there.
 *
 * The program has its own pwrite, write, fdatasync, fsync, ftruncate and unlink. While a workload
 * runs (publishers, consumers, checkpoints of the log, closing and opening again) they record what
 * is done to the database and its log, in order, together with every line of the ledgers.
 * Afterwards, for a moment between two operations, the disk is built as it may look when the power
 * comes back:
 *
 *   synced   what was written before the last sync of its file; nothing else
 *   subset   in addition a random half of the 512-byte sectors written since then
 *   torn     in addition everything written since then, but the last write only in part
 *
 * A file that was created or removed since the last sync of the directory is missing or there again
 * (synced), by chance (subset), or as the program saw it (torn). On this disk, with the ledgers up
 * to that moment, a fresh process recovers; then the ledger is judged and SQLite checks its file.
 *
 *     power_loss [--images 60] [--weak 0] [--seed N]
 *
 * --images 0 takes all operations in all three ways. --weak 1 works with HF_DURABILITY_PROCESS,
 * which promises nothing here: then something must be found, or this program would prove nothing.
 */
#include "support/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 40
#define SETTLE_MS 60000
#define SECTOR 512
#define OPS_MAX 200000

/* ---- The record ------------------------------------------------------------------------------ */

enum file { FILE_DB, FILE_WAL, FILE_PUBLISHER, FILE_CONSUMERS, FILES, FILE_DIRECTORY, FILE_OTHER };

enum op_kind { OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_UNLINK, OP_LINE };

struct op {
    enum op_kind kind;
    enum file file;
    int64_t at; /* offset, or the new size */
    size_t bytes;
    char *data;
};

static struct op *ops;
static size_t op_count;
static bool recording;
static char recorded_dir[RIG_PATH_BYTES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char *const file_names[FILES] = {"bus.db", "bus.db-wal", "publisher0.ledger",
                                              "consumers.ledger"};

static enum file file_of_path(const char *path)
{
    size_t length = strlen(recorded_dir);

    if (strncmp(path, recorded_dir, length) != 0) {
        return FILE_OTHER;
    }
    if (path[length] == '\0') {
        return FILE_DIRECTORY;
    }
    for (int i = 0; i < FILES; i++) {
        if (strcmp(path + length + 1, file_names[i]) == 0) {
            return (enum file)i;
        }
    }
    return FILE_OTHER;
}

static enum file file_of(int fd)
{
    char link[40], path[RIG_PATH_BYTES + 64];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return file_of_path(path);
}

/* Under the mutex. */
static void record(enum op_kind kind, enum file file, int64_t at, const void *data, size_t bytes)
{
    struct op *op;

    if (op_count == OPS_MAX) {
        abort();
    }
    op = &ops[op_count++];
    *op = (struct op){.kind = kind, .file = file, .at = at, .bytes = bytes};
    if (data) {
        op->data = malloc(bytes + 1);
        if (!op->data) {
            abort();
        }
        memcpy(op->data, data, bytes);
    }
}

#define VISIBLE __attribute__((visibility("default")))

VISIBLE ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    enum file file;
    ssize_t done;

    if (!recording || (file = file_of(fd)) > FILE_WAL) {
        return syscall(SYS_pwrite64, fd, data, bytes, at);
    }
    pthread_mutex_lock(&mutex);
    done = syscall(SYS_pwrite64, fd, data, bytes, at);
    if (done > 0) {
        record(OP_WRITE, file, at, data, (size_t)done);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

VISIBLE ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
    return pwrite(fd, data, bytes, at);
}

/* Nothing but the ledgers is written with write(). */
VISIBLE ssize_t write(int fd, const void *data, size_t bytes)
{
    enum file file = recording && fd > 2 ? file_of(fd) : FILE_OTHER;
    ssize_t done;

    if (file >= FILES) {
        return syscall(SYS_write, fd, data, bytes);
    }
    if (file <= FILE_WAL) {
        abort();
    }
    pthread_mutex_lock(&mutex);
    done = syscall(SYS_write, fd, data, bytes);
    if (done > 0) {
        record(OP_LINE, file, 0, data, (size_t)done);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

static int sync_file(int fd, long call)
{
    enum file file = recording ? file_of(fd) : FILE_OTHER;
    int done;

    if (file == FILE_OTHER) {
        return (int)syscall(call, fd);
    }
    pthread_mutex_lock(&mutex);
    done = (int)syscall(call, fd);
    if (done == 0) {
        record(OP_SYNC, file, 0, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

VISIBLE int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

VISIBLE int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

VISIBLE int ftruncate(int fd, off_t bytes)
{
    enum file file = recording ? file_of(fd) : FILE_OTHER;
    int done;

    if (file > FILE_WAL) {
        return (int)syscall(SYS_ftruncate, fd, bytes);
    }
    pthread_mutex_lock(&mutex);
    done = (int)syscall(SYS_ftruncate, fd, bytes);
    if (done == 0) {
        record(OP_TRUNCATE, file, bytes, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

VISIBLE int ftruncate64(int fd, off64_t bytes)
{
    return ftruncate(fd, bytes);
}

VISIBLE int unlink(const char *path)
{
    enum file file = recording ? file_of_path(path) : FILE_OTHER;
    int done;

    if (file > FILE_WAL) {
        return (int)syscall(SYS_unlink, path);
    }
    pthread_mutex_lock(&mutex);
    done = (int)syscall(SYS_unlink, path);
    if (done == 0) {
        record(OP_UNLINK, file, 0, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

/* ---- The disk -------------------------------------------------------------------------------- */

enum way { WAY_SYNCED, WAY_SUBSET, WAY_TORN, WAYS };

static const char *const way_names[WAYS] = {"synced", "subset", "torn"};

/* What is safely on the disk of one name, and what is not yet. */
struct body {
    char *data;
    size_t bytes, capacity;
    bool exists;     /* on the disk, when the power fails now */
    bool created;    /* the program has it: a name that may be missing */
    size_t *pending; /* operations since the last sync of the file */
    size_t pending_count, pending_capacity;
};

/* `old` is what the name led to before an unlink that the directory may have forgotten. */
struct disk {
    struct body body[2]; /* database, log */
    struct body old[2];
    char *lines[FILES];
    size_t line_bytes[FILES];
    bool weak; /* breaches are expected */
};

static void body_clear(struct body *body)
{
    free(body->data);
    free(body->pending);
    memset(body, 0, sizeof *body);
}

static void body_put(struct body *body, size_t at, const char *data, size_t bytes)
{
    if (at + bytes > body->capacity) {
        body->capacity = (at + bytes) * 2;
        body->data = realloc(body->data, body->capacity);
        if (!body->data) {
            abort();
        }
    }
    if (at > body->bytes) {
        memset(body->data + body->bytes, 0, at - body->bytes);
    }
    memcpy(body->data + at, data, bytes);
    if (at + bytes > body->bytes) {
        body->bytes = at + bytes;
    }
}

static void body_apply(struct body *body, const struct op *op, size_t bytes)
{
    if (op->kind == OP_WRITE) {
        body_put(body, (size_t)op->at, op->data, bytes);
    } else if ((size_t)op->at < body->bytes) {
        body->bytes = (size_t)op->at;
    } else {
        body_put(body, (size_t)op->at, "", 0);
    }
}

static void body_copy(struct body *to, const struct body *from)
{
    memset(to, 0, sizeof *to);
    to->exists = from->exists;
    if (from->bytes) {
        body_put(to, 0, from->data, from->bytes);
    }
}

static void disk_line(struct disk *disk, const struct op *op)
{
    char **lines = &disk->lines[op->file];

    *lines = realloc(*lines, disk->line_bytes[op->file] + op->bytes + 1);
    if (!*lines) {
        abort();
    }
    memcpy(*lines + disk->line_bytes[op->file], op->data, op->bytes);
    disk->line_bytes[op->file] += op->bytes;
}

static void disk_sync_directory(struct disk *disk)
{
    for (int i = 0; i < 2; i++) {
        disk->body[i].exists = disk->body[i].created;
        body_clear(&disk->old[i]);
    }
}

static void disk_sync(struct disk *disk, enum file file)
{
    struct body *body = &disk->body[file];

    for (size_t i = 0; i < body->pending_count; i++) {
        body_apply(body, &ops[body->pending[i]], ops[body->pending[i]].bytes);
    }
    body->pending_count = 0;
}

/* Does one operation. */
static void disk_do(struct disk *disk, size_t index)
{
    const struct op *op = &ops[index];
    struct body *body = &disk->body[op->file & 1];

    switch (op->kind) {
    case OP_LINE:
        disk_line(disk, op);
        return;
    case OP_SYNC:
        if (op->file == FILE_DIRECTORY) {
            disk_sync_directory(disk);
        } else if (op->file <= FILE_WAL) {
            disk_sync(disk, op->file);
        }
        return;
    case OP_UNLINK:
        if (body->exists) {
            body_clear(&disk->old[op->file]);
            disk->old[op->file] = *body;
            disk->old[op->file].pending = NULL;
            disk->old[op->file].pending_count = 0;
            free(body->pending);
        } else {
            free(body->data);
            free(body->pending);
        }
        memset(body, 0, sizeof *body);
        return;
    case OP_WRITE:
    case OP_TRUNCATE:
        body->created = true;
        if (body->pending_count == body->pending_capacity) {
            body->pending_capacity = body->pending_capacity ? body->pending_capacity * 2 : 64;
            body->pending = realloc(body->pending, body->pending_capacity * sizeof *body->pending);
            if (!body->pending) {
                abort();
            }
        }
        body->pending[body->pending_count++] = index;
        return;
    }
}

/* A random half of the sectors of a write. */
static void put_sectors(struct body *to, const struct op *op, struct chance *chance)
{
    for (size_t at = 0; at < op->bytes; at += SECTOR) {
        size_t bytes = op->bytes - at < SECTOR ? op->bytes - at : SECTOR;

        if (chance_percent(chance, 50)) {
            body_put(to, (size_t)op->at + at, op->data + at, bytes);
        }
    }
}

/* How one file looks when the power is back. False: it is not there. */
static bool body_after(const struct disk *disk, enum file file, enum way way, struct chance *chance,
                       struct body *ret_body)
{
    const struct body *body = &disk->body[file];
    const struct body *old = &disk->old[file];
    bool named = way == WAY_TORN     ? body->created
                 : way == WAY_SUBSET ? body->exists || (body->created && chance_percent(chance, 50))
                                     : body->exists;

    if (!named) {
        bool back =
            old->exists && (way == WAY_SYNCED || (way == WAY_SUBSET && chance_percent(chance, 50)));

        if (back) {
            body_copy(ret_body, old);
        }
        return back;
    }
    body_copy(ret_body, body);
    for (size_t i = 0; i < body->pending_count && way != WAY_SYNCED; i++) {
        const struct op *op = &ops[body->pending[i]];
        bool last = i + 1 == body->pending_count;

        if (way == WAY_SUBSET && op->kind == OP_WRITE) {
            put_sectors(ret_body, op, chance);
        } else if (way == WAY_SUBSET && chance_percent(chance, 50)) {
            body_apply(ret_body, op, 0);
        } else if (way == WAY_TORN) {
            body_apply(ret_body, op,
                       last ? chance_below(chance, op->bytes / SECTOR + 1) * SECTOR : op->bytes);
        }
    }
    return true;
}

static void write_file(const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[RIG_PATH_BYTES + 32];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (size_t done = 0; fd >= 0 && done < bytes;) {
        ssize_t step = write(fd, (const char *)data + done, bytes - done);

        if (step <= 0) {
            abort();
        }
        done += (size_t)step;
    }
    if (fd < 0) {
        abort();
    }
    close(fd);
}

static void disk_write(const struct disk *disk, enum way way, struct chance *chance,
                       const char *dir)
{
    char gone[32];
    int length;

    for (int i = 0; i < 2; i++) {
        struct body body;

        memset(&body, 0, sizeof body);
        if (body_after(disk, (enum file)i, way, chance, &body)) {
            write_file(dir, file_names[i], body.data, body.bytes);
        }
        body_clear(&body);
    }
    write_file(dir, file_names[FILE_PUBLISHER], disk->lines[FILE_PUBLISHER],
               disk->line_bytes[FILE_PUBLISHER]);
    write_file(dir, file_names[FILE_CONSUMERS], disk->lines[FILE_CONSUMERS],
               disk->line_bytes[FILE_CONSUMERS]);
    /* All processes are gone. */
    length = snprintf(gone, sizeof gone, "K %d\n", (int)getpid());
    {
        char path[RIG_PATH_BYTES + 32];
        int fd;

        snprintf(path, sizeof path, "%s/%s", dir, file_names[FILE_CONSUMERS]);
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd < 0 || write(fd, gone, (size_t)length) != length) {
            abort();
        }
        close(fd);
    }
}

/* ---- After the power is back ----------------------------------------------------------------- */

static bool integrity_ok(const char *path)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;
    bool good = false;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        good = strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return good;
}

static bool check_image(const struct disk *disk, enum way way, struct chance *chance, size_t index)
{
    struct workload workload;
    char dir[RIG_PATH_BYTES];
    const char *wrong = NULL;
    int status;

    rig_directory(dir);
    workload_init(&workload, dir);
    disk_write(disk, way, chance, dir);
    status = rig_wait(rig_start("recover", dir, NULL), 3 * SETTLE_MS);
    if (status != 0) {
        wrong = "it is not recovered";
    } else if (workload_judge(&workload, 1, NULL) != 0) {
        wrong = "a promise was broken";
    } else if (!integrity_ok(workload.path)) {
        wrong = "the file is damaged";
    }
    if (wrong) {
        rig_say("after operation %zu (%s): %s; kept: %s", index, way_names[way], wrong, dir);
    }
    if (!wrong || disk->weak) {
        rig_remove(dir);
    }
    return !wrong;
}

/* ---- The run --------------------------------------------------------------------------------- */

static hf_status work(struct workload *workload, uint64_t seed, int round)
{
    static struct publisher publisher;
    static struct consumer consumer;
    hf_status status = publisher_open(&publisher, workload, 0, seed + (uint64_t)round);

    publisher.poison_percent = 10;
    if (!status) {
        status = consumer_open(&consumer, workload);
    }
    for (int i = 0; i < STEPS && status == HF_OK; i++) {
        status = publisher_step(&publisher);
    }
    if (!status) {
        status = publisher_bulk(&publisher, 12, 200000);
    }
    for (int i = 0; i < STEPS / 4 && status == HF_OK; i++) {
        status = publisher_step(&publisher);
    }
    if (!status) {
        status = workload_settled(consumer.bus, SETTLE_MS);
    }
    if (!status) {
        status = consumer_close(&consumer);
    }
    return status == HF_OK ? publisher_close(&publisher) : status;
}

static hf_status record_work(uint64_t seed, bool weak)
{
    struct workload workload;
    hf_status status;

    ops = calloc(OPS_MAX, sizeof *ops);
    if (!ops) {
        abort();
    }
    rig_directory(recorded_dir);
    workload_init(&workload, recorded_dir);
    workload.durability = weak ? HF_DURABILITY_PROCESS : HF_DURABILITY_POWER;
    recording = true;
    status = workload_prepare(&workload);
    for (int round = 0; round < 2 && status == HF_OK; round++) {
        status = work(&workload, seed, round);
    }
    recording = false;
    rig_remove(recorded_dir);
    return status;
}

static size_t count_ops(enum op_kind kind, enum file file)
{
    size_t count = 0;

    for (size_t i = 0; i < op_count; i++) {
        count += ops[i].kind == kind && ops[i].file == file;
    }
    return count;
}

static int torture(int argc, char **argv)
{
    static struct disk disk;
    int64_t images = rig_option(argc, argv, "--images", 60);
    struct chance chance;
    size_t bad[WAYS] = {0}, tried[WAYS] = {0};
    uint64_t seed = rig_seed(argc, argv);
    bool weak = rig_option(argc, argv, "--weak", 0) != 0;
    hf_status status = record_work(seed, weak);

    disk.weak = weak;
    chance_seed(&chance, seed);
    rig_ok(status == HF_OK, "setup: the workload runs to its end: %s", hf_status_name(status));
    rig_say("%zu operations: database %zu writes, %zu syncs; log %zu writes, %zu syncs, %zu lines",
            op_count, count_ops(OP_WRITE, FILE_DB), count_ops(OP_SYNC, FILE_DB),
            count_ops(OP_WRITE, FILE_WAL), count_ops(OP_SYNC, FILE_WAL),
            count_ops(OP_LINE, FILE_PUBLISHER) + count_ops(OP_LINE, FILE_CONSUMERS));
    rig_ok(count_ops(OP_WRITE, FILE_DB) > 50 && count_ops(OP_SYNC, FILE_DB) > 1 &&
               count_ops(OP_SYNC, FILE_WAL) > 2,
           "setup: the log was folded back into the database on the way");
    for (size_t i = 0; i < op_count && status == HF_OK; i++) {
        disk_do(&disk, i);
        if (ops[i].kind == OP_LINE && ops[i].data[0] != 'A') {
            continue;
        } /* nothing has changed */
        for (int way = 0; way < WAYS; way++) {
            if (images > 0 && chance_below(&chance, op_count * WAYS) >= (uint64_t)images) {
                continue;
            }
            tried[way]++;
            bad[way] += !check_image(&disk, (enum way)way, &chance, i);
        }
    }
    for (int way = 0; way < WAYS && !weak; way++) {
        rig_ok(bad[way] == 0 && tried[way] > 0,
               "power losses of kind %s break no promise: %zu images, %zu went wrong",
               way_names[way], tried[way], bad[way]);
    }
    if (weak) {
        rig_ok(bad[WAY_SYNCED] > 0,
               "a power loss without syncs is noticed: %zu of %zu images went wrong",
               bad[WAY_SYNCED], tried[WAY_SYNCED]);
    }
    return rig_done();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "recover") == 0) {
        return workload_recover(argc, argv, SETTLE_MS);
    }
    return torture(argc, argv);
}
