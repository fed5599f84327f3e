/*
 * live.h - signs of life, and notes of what runs.
 *
 * Each opened store has a file <db>-live-<token> that it keeps locked: a header with the machine's
 * boot id, a counter that rises with every sign of life, and where the notes are. The lock goes
 * with the process, so death is seen at once; the notes stay behind and tell which handlers ran (as
 * long as the machine has not rebooted: then it is not known what of the file reached the disk).
 *
 * It also holds the card of the node that the store is, with its last heartbeat.
 *
 * The file may be deleted, truncated or replaced by others while the store is open. That is
 * no death: a second lock, on the directory, says that the store lives, and with every sign of life
 * the store looks for its file and makes it again.
 *
 * A file is removed by its own store when it closes; files of the dead go when no partition and no
 * lease names their token any more: live_bury tells who they were, within a transaction that may
 * remember it, and live_sweep removes them after its commit.
 */
#ifndef HF_STORE_SQLITE_FILE_LIVE_H
#define HF_STORE_SQLITE_FILE_LIVE_H

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/sqlite/file/files.h"
#include "store/sqlite/file/notes.h"
#include "store/store.h"

#define LIVE_SEEN_MAX STORE_MEMBERS_MAX /* other stores whose counters are remembered */
#define LIVE_BURY_MAX 64                /* files of the dead that are removed at once */

struct sqlite_engine;
struct conn;
struct live_file;

enum live_state {
    LIVE_SELF,   /* it is this store */
    LIVE_ALIVE,  /* its process exists */
    LIVE_FROZEN, /* its process exists, but its counter has stood still for lease_ms: it may wake up
                    at any time, so its notes say nothing about a crash */
    LIVE_DEAD,   /* its process ended without closing: its notes can be read */
    LIVE_GONE    /* its process ended, and there is no file of it */
};

/* What this store has seen of another one's counter. Times are of our monotonic clock. */
struct live_seen {
    uint8_t token[STORE_TOKEN_BYTES];
    uint64_t counter;
    int64_t seen_us;  /* when we looked last; 0: the slot is free */
    int64_t still_us; /* how long we have watched this value; see live_stands_still */
};

/* What a node says about itself, as bytes of the file. An empty text is an absent one. */
struct live_card {
    int64_t namespace_id; /* 0: none; then it is no node */
    int64_t pid;
    int64_t heartbeat_ms;
    int64_t started_at_us;           /* wall clock */
    atomic_int_least64_t seen_at_us; /* the last sign of life by the wall clock, for people */
    atomic_int_least64_t seen_us;    /* the same by the machine's steady clock, to judge by */
    int64_t given;                   /* 1: the application chose the id */
    char id[HF_NODE_ID_BYTES_MAX + 1];
    char name[HF_PRODUCER_BYTES_MAX + 1];
    char host[STORE_HOST_BYTES_MAX + 1];
    char version[STORE_VERSION_BYTES_MAX + 1];
    char description[HF_NODE_DESCRIPTION_BYTES_MAX + 1];
    char metadata_json[HF_NODE_METADATA_BYTES_MAX + 1];
};

/* A dead store whose file goes. */
struct live_buried {
    uint8_t token[STORE_TOKEN_BYTES];
    struct file_identity identity; /* of the file that was looked at */
    int64_t segment_id;            /* of its notes, or NOTES_NO_SEGMENT */
};

struct live {
    int fd;                 /* locked; -1: none. Other threads may write notes to it at any time */
    int directory;          /* the second lock; -1: it cannot be had */
    struct live_file *file; /* what the file holds or should hold */
    struct notes notes;     /* of what runs */
    struct file_identity identity; /* of fd */
    char *path;
    char *new_path;        /* of the file while it is made again */
    atomic_bool sweep_due; /* a dead one was looked at: look for files to remove */
    size_t buried_count;   /* whose files go after the present commit; under the gate */
    struct live_buried buried[LIVE_BURY_MAX];
    pthread_mutex_t mutex; /* guards what follows, and one sign of life at a time */
    bool retired;          /* the store has given up: it shows no signs of life any more */
    bool unregistered;     /* the file could not be made again, and that was said */
    struct live_seen seen[LIVE_SEEN_MAX];
};

/* Makes this store's own file. */
hf_status live_open(struct sqlite_engine *engine, const struct node_facts *node);
/* Removes it. */
void live_close(struct sqlite_engine *engine);
/* In a forked child: lets go of it and changes nothing. */
void live_abandon(struct live *live);
/* To others the store is gone from now on, although its process exists. Any thread. */
void live_retire(struct sqlite_engine *engine);

/* lease_ms: how long a counter may stand still, INT64_MAX: for ever. Any thread. */
enum live_state live_state(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                           int64_t lease_ms);

/* One note of a store: this runs, or ran when it died. now_us: when it began; 0: not known. */
typedef hf_status (*live_note_fn)(const struct handler_note *note, void *ctx);

/*
 * Calls `found` for every note of `token` about the subscription, 0: about all (of a LIVE_DEAD
 * store; also of any other, if the caller wants to know what runs now). ret_exact: these are all;
 * false if it cannot be known: the file is gone or damaged, or from before a reboot; then `found`
 * is not called. A status other than HF_OK of `found` ends it and is answered. `found` may be
 * NULL. ret_running: how many handlers of all its subscriptions ran.
 */
hf_status live_notes(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                     int64_t subscription_id, live_note_fn found, void *ctx, bool *ret_exact,
                     int32_t *ret_running);

/* How many other living stores have this namespace open, and the names of the first few, separated
 * by commas. Under the gate, so that no store is about to open it. */
int32_t live_count(struct sqlite_engine *engine, int64_t namespace_id, char *names, size_t bytes);

/* A store's card, and how the store is: LIVE_SELF, LIVE_ALIVE or LIVE_DEAD. The card is valid until
 * the function returns. */
typedef void (*live_card_fn)(struct sqlite_engine *engine, const struct live_card *card,
                             enum live_state state, void *ctx);
/* Calls `found` for every store of the database that has a namespace. HF_NOMEM. */
hf_status live_cards(struct sqlite_engine *engine, live_card_fn found, void *ctx);
/* Where a store's process runs. */
struct live_place {
    char host[STORE_HOST_BYTES_MAX + 1]; /* "": not known */
    int64_t pid;                         /* -1: not known */
};
/* Reads it off the store's file. */
void live_place(struct sqlite_engine *engine, const uint8_t token[STORE_TOKEN_BYTES],
                struct live_place *ret_place);
const struct live_card *live_own_card(const struct live *live);
/* Whether a living node was not heard of for so long that it is stale. */
bool live_is_stale(const struct live_card *card);

/* Whether there is a file of a dead store. */
bool live_any_dead(struct sqlite_engine *engine);
/* Calls `found` for each of the dead whose token nothing names any more, as far as the transaction
 * on `conn` sees, and marks its file for live_sweep. At most LIVE_BURY_MAX; sweep_due if there are
 * more. Under the gate. */
void live_bury(struct sqlite_engine *engine, struct conn *conn, live_card_fn found, void *ctx);
/* Removes the files that were marked; under the gate, after the commit. */
void live_sweep(struct sqlite_engine *engine);
/* Removes files of the dead that never got their name. */
void live_sweep_unfinished(struct sqlite_engine *engine);

/* This store's own signs. */
void live_note(struct live *live, int32_t slot, const struct handler_note *note);
void live_note_clear(struct live *live, int32_t slot);
/* One thread at a time. */
void live_renew(struct sqlite_engine *engine);

#endif
