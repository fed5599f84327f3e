/*
 * live.c - signs of life, and notes of what runs. See live.h.
 *
 * The file is mapped, so a note costs a few stores and survives the death of the process: the pages
 * belong to the kernel. A note is written in an order that leaves, wherever the process is killed,
 * either a whole note or none: the position goes to 0 first, the rest follows, the position last.
 *
 * Whether a store lives is asked by looking at the lock on its file without taking it. Nothing else
 * tells as much: process ids are reused, and a time stamp says nothing about a stopped process. One
 * that is alive but does not move (stopped, swapped out, hung) is told by its counter: if it has
 * stood still for lease_ms of our own monotonic clock since we first saw that value, it is frozen.
 *
 * Files are made and swept under the gate, so that nobody takes a file that was just made, and is
 * not locked yet, for one of the dead. A process that dies while sweeping leaves a file that the
 * next sweep finds. A file that is still named by a partition or a lease stays: its notes are
 * needed by whoever takes that over.
 *
 * The card of the node is read by others without the gate. Its texts are written before the magic
 * number, which is what a reader asks for first, and never after; the two times are words.
 */
#include "store/sqlite/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite/sqlite.h"

#define LIVE_MAGIC UINT64_C(0x32306576696c6668) /* "hflive02" */
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_BYTES 36
#define TOKEN_HEX_BYTES ((size_t)2 * STORE_TOKEN_BYTES)

struct live_note {
    atomic_int_least64_t position; /* 0: none */
    atomic_int_least64_t subscription_id;
    atomic_int_least64_t attempt;
};

/* What the file holds. Written by its owner alone. */
struct live_file {
    atomic_uint_least64_t magic;
    char boot_id[BOOT_ID_BYTES + 4];
    atomic_uint_least64_t counter;
    struct live_card card;
    struct live_note notes[STORE_NOTES_MAX];
};

/* ---- Names and locks ------------------------------------------------------------------------- */

static char *live_path(const struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES])
{
    size_t prefix = strlen(engine->files.live);
    char *path = mem_alloc(prefix + TOKEN_HEX_BYTES + 1);
    if (path) {
        memcpy(path, engine->files.live, prefix);
        for (size_t i = 0; i < STORE_TOKEN_BYTES; i++) {
            snprintf(path + prefix + 2 * i, 3, "%02x", token[i]);
        }
    }
    return path;
}

static bool live_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool live_is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    /* If we cannot know we say that it lives: taking over from the living is the worse mistake. */
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

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

static hf_status live_map(struct sqlite_engine *engine, const struct node_facts *node, int fd)
{
    struct live *live = &engine->live;
    int code = posix_fallocate(fd, 0, sizeof(struct live_file));
    if (code != 0) {
        return fail(files_status(code), "cannot allocate %s: %s", live->path, strerror(code));
    }
    struct live_file *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        return fail(files_status(errno), "cannot map %s: %s", live->path, strerror(errno));
    }
    live_boot_id(file->boot_id);
    card_fill(engine, node, &file->card);
    atomic_store(&file->counter, 1);
    atomic_store_explicit(&file->magic, LIVE_MAGIC, memory_order_release);
    live->file = file;
    return HF_OK;
}

hf_status live_open(struct sqlite_engine *engine, const struct node_facts *node)
{
    struct live *live = &engine->live;
    live->fd = -1;
    hf_status status = mutex_init(&live->mutex);
    if (status != HF_OK) {
        return status;
    }
    live->path = live_path(engine, engine->token);
    if (!live->path) {
        status = fail(HF_NOMEM, "no memory for a file name");
        goto out;
    }
    int fd = files_open(&engine->files, live->path, true);
    if (fd < 0) {
        status = fail(files_status(errno), "cannot make %s: %s", live->path, strerror(errno));
        goto out;
    }
    if (!live_lock(fd)) {
        status = fail(HF_IO, "cannot lock %s: %s", live->path, strerror(errno));
    } else {
        status = live_map(engine, node, fd);
    }
    if (status == HF_OK) {
        live->fd = fd;
        return HF_OK;
    }
    unlink(live->path);
    close(fd);
out:
    mem_free(live->path);
    live->path = NULL;
    pthread_mutex_destroy(&live->mutex);
    return status;
}

void live_close(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    if (!live->file) {
        return;
    }
    munmap(live->file, sizeof *live->file);
    live->file = NULL;
    if (live->fd >= 0) { /* not in a forked child */
        unlink(live->path);
        close(live->fd);
        live->fd = -1;
    }
    mem_free(live->path);
    live->path = NULL;
    pthread_mutex_destroy(&live->mutex);
}

void live_abandon(struct live *live)
{
    if (live->file) {
        /* A mapping refers to the open file, and so to its lock, as a descriptor does. */
        munmap(live->file, sizeof *live->file);
        live->file = NULL;
    }
    if (live->fd >= 0) {
        close(live->fd);
        live->fd = -1;
    }
}

void live_note(struct live *live, int32_t slot, int64_t subscription_id, int64_t position,
               int32_t attempt)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    struct live_note *note = &live->file->notes[slot];
    atomic_store_explicit(&note->position, 0, memory_order_release);
    atomic_store_explicit(&note->subscription_id, subscription_id, memory_order_release);
    atomic_store_explicit(&note->attempt, attempt, memory_order_release);
    atomic_store_explicit(&note->position, position, memory_order_release);
}

void live_note_clear(struct live *live, int32_t slot)
{
    assert(slot >= 0 && slot < STORE_NOTES_MAX);
    atomic_store_explicit(&live->file->notes[slot].position, 0, memory_order_release);
}

void live_renew(struct live *live)
{
    atomic_fetch_add(&live->file->counter, 1);
    live_heartbeat(&live->file->card);
}

/* ---- Others' files --------------------------------------------------------------------------- */

/* Whether this counter has been the same for lease_ms since we first saw it. Of too many stores
 * those that were looked at longest ago are forgotten: they are gone. Who is still there and frozen
 * is looked at again and again. */
static bool live_stands_still(struct live *live, const uint8_t token[STORE_TOKEN_BYTES],
                              uint64_t counter, int64_t lease_ms)
{
    int64_t now_us = clock_mono_us();
    bool still = false;
    pthread_mutex_lock(&live->mutex);
    struct live_seen *oldest = &live->seen[0];
    struct live_seen *found = NULL;
    for (int i = 0; i < LIVE_SEEN_MAX && !found && oldest->since_us; i++) {
        struct live_seen *seen = &live->seen[i];
        if (seen->since_us && memcmp(seen->token, token, STORE_TOKEN_BYTES) == 0) {
            found = seen;
        } else if (!seen->since_us || seen->seen_us < oldest->seen_us) {
            oldest = seen;
        }
    }
    if (!found || found->counter != counter) {
        found = found ? found : oldest;
        memcpy(found->token, token, STORE_TOKEN_BYTES);
        found->counter = counter;
        found->since_us = now_us ? now_us : 1;
    } else {
        still = lease_ms < INT64_MAX / 1000 && now_us - found->since_us >= lease_ms * 1000;
    }
    found->seen_us = now_us;
    pthread_mutex_unlock(&live->mutex);
    return still;
}

enum live_state live_state(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                           int64_t lease_ms)
{
    if (memcmp(token, engine->token, STORE_TOKEN_BYTES) == 0) {
        return LIVE_SELF;
    }
    char *path = live_path(engine, token);
    if (!path) {
        return LIVE_ALIVE;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int error = errno;
    mem_free(path);
    if (fd < 0) {
        return error == ENOENT ? LIVE_GONE : LIVE_ALIVE;
    }
    enum live_state state = LIVE_DEAD;
    if (live_is_locked(fd)) {
        uint64_t counter = 0;
        ssize_t length = pread(fd, &counter, sizeof counter, offsetof(struct live_file, counter));
        bool still = length == (ssize_t)sizeof counter &&
                     live_stands_still(&engine->live, token, counter, lease_ms);
        state = still ? LIVE_FROZEN : LIVE_ALIVE;
    }
    close(fd);
    return state;
}

/* Reads the whole file; false if that is not possible or it is not whole. */
static bool live_read(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                      struct live_file *out)
{
    char *path = live_path(engine, token);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    mem_free(path);
    if (fd < 0) {
        return false;
    }
    size_t done = 0;
    ssize_t length;
    do {
        length = pread(fd, (char *)out + done, sizeof *out - done, (off_t)done);
        done += length > 0 ? (size_t)length : 0;
    } while (done < sizeof *out && (length > 0 || (length < 0 && errno == EINTR)));
    close(fd);
    return done == sizeof *out && atomic_load(&out->magic) == LIVE_MAGIC;
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
    char boot_id[BOOT_ID_BYTES + 4];
    live_boot_id(boot_id);
    *ret_running = 0;
    bool exact = live_read(engine, token, file) &&
                 memcmp(file->boot_id, boot_id, sizeof boot_id) == 0 && boot_id[0];
    for (int i = 0; exact && i < STORE_NOTES_MAX; i++) {
        *ret_running += atomic_load(&file->notes[i].position) > 0 ? 1 : 0;
    }
    for (int i = 0; exact && found && i < STORE_NOTES_MAX && status == HF_OK; i++) {
        struct live_note *note = &file->notes[i];
        int64_t position = atomic_load(&note->position);
        if (position > 0 && atomic_load(&note->subscription_id) == subscription_id) {
            status = found(position, (int32_t)atomic_load(&note->attempt), ctx);
        }
    }
    mem_free(file);
    engine->live.sweep_due = true;
    if (status == HF_OK) {
        *ret_exact = exact;
    }
    return status;
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

static bool token_parse(const char *hex, uint8_t out[STORE_TOKEN_BYTES])
{
    if (strlen(hex) != TOKEN_HEX_BYTES || strspn(hex, "0123456789abcdef") != TOKEN_HEX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < STORE_TOKEN_BYTES; i++) {
        unsigned byte = 0;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        out[i] = (uint8_t)byte;
    }
    return true;
}

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

/* What to do with the file `name` of another store in `directory`. */
typedef void (*live_file_fn)(struct sqlite_engine *engine, int directory, const char *name,
                             const uint8_t token[STORE_TOKEN_BYTES], void *ctx);

/* Calls `found` for the file of every other store, living or dead. */
static void live_each(struct sqlite_engine *engine, live_file_fn found, void *ctx)
{
    char *prefix = mem_dup(engine->files.live, strlen(engine->files.live));
    if (!prefix) {
        return;
    }
    char *slash = strrchr(prefix, '/'); /* SQLite's path is absolute */
    assert(slash);
    *slash = '\0';
    const char *base = slash + 1;
    size_t base_length = strlen(base);
    DIR *directory = opendir(prefix[0] ? prefix : "/");
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        uint8_t token[STORE_TOKEN_BYTES];
        if (strncmp(entry->d_name, base, base_length) == 0 &&
            token_parse(entry->d_name + base_length, token) &&
            memcmp(token, engine->token, STORE_TOKEN_BYTES) != 0) {
            found(engine, dirfd(directory), entry->d_name, token, ctx);
        }
    }
    if (directory) {
        closedir(directory);
    }
    mem_free(prefix);
}

static void note_dead(struct sqlite_engine *engine, int directory, const char *name,
                      const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    (void)engine;
    (void)token;
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        *(bool *)ctx = *(bool *)ctx || !live_is_locked(fd);
        close(fd);
    }
}

bool live_any_dead(struct sqlite_engine *engine)
{
    bool dead = false;
    live_each(engine, note_dead, &dead);
    return dead;
}

/* What is looked for among the dead, and for whom. */
struct burial {
    struct conn *conn;
    live_card_fn found;
    void *ctx;
    struct live_file file; /* the one being looked at */
};

static void bury_one(struct sqlite_engine *engine, int directory, const char *name,
                     const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    struct burial *burial = ctx;
    struct live *live = &engine->live;
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    bool dead = !live_is_locked(fd) && !token_is_named(burial->conn, token);
    close(fd);
    if (dead && live->buried_count == LIVE_BURY_MAX) {
        live->sweep_due = true;
    } else if (dead) {
        memcpy(live->buried[live->buried_count++], token, STORE_TOKEN_BYTES);
        if (live_read(engine, token, &burial->file) && burial->file.card.namespace_id != 0) {
            burial->found(engine, &burial->file.card, LIVE_DEAD, burial->ctx);
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
        live_each(engine, bury_one, burial);
        mem_free(burial);
    }
}

void live_sweep(struct sqlite_engine *engine)
{
    struct live *live = &engine->live;
    for (size_t i = 0; i < live->buried_count; i++) {
        char *path = live_path(engine, live->buried[i]);
        if (path) {
            unlink(path);
        }
        mem_free(path);
    }
    live->buried_count = 0;
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
 * may be anybody's. */
static void live_count_one(struct sqlite_engine *engine, int directory, const char *name,
                           const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    struct live_tally *tally = ctx;
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    bool whole = live_read(engine, token, &tally->file);
    if (live_is_locked(fd) && (!whole || tally->file.card.namespace_id == tally->namespace_id)) {
        int length = snprintf(tally->names + tally->length, tally->bytes - tally->length, "%s%s",
                              tally->count ? ", " : "",
                              whole ? tally->file.card.name : "one of another version");
        tally->count++;
        tally->length += length > 0 ? (size_t)length : 0;
        tally->length = tally->length < tally->bytes ? tally->length : tally->bytes - 1;
    }
    close(fd);
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
    live_each(engine, live_count_one, tally);
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

static void card_one(struct sqlite_engine *engine, int directory, const char *name,
                     const uint8_t token[STORE_TOKEN_BYTES], void *ctx)
{
    struct cards *cards = ctx;
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    /* Before and after: whoever opens or closes meanwhile is seen alive, not as one that died. */
    bool alive = live_is_locked(fd);
    bool whole = live_read(engine, token, &cards->file);
    alive = alive || live_is_locked(fd);
    close(fd);
    if (whole && cards->file.card.namespace_id != 0) {
        cards->found(engine, &cards->file.card, alive ? LIVE_ALIVE : LIVE_DEAD, cards->ctx);
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
        found(engine, &engine->live.file->card, LIVE_SELF, ctx);
    }
    live_each(engine, card_one, cards);
    mem_free(cards);
    return HF_OK;
}

const struct live_card *live_own_card(const struct live *live)
{
    return &live->file->card;
}

bool live_is_stale(const struct live_card *card)
{
    int64_t silent_us = clock_steady_us() - atomic_load(&card->seen_us);
    return silent_us > STORE_NODE_STALE_BEATS * card->heartbeat_ms * 1000;
}
