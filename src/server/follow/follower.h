/*
 * follower.h - what the files of this folder share: followers, the records that they are sent, the
 * feed of a namespace, and the backlog of followers that are read for alone.
 *
 * Locks, in the order in which they may be taken: followers->mutex, feed->mutex, those of streams,
 * backlog->mutex. `place` of a follower is atomic, because the hook `room` must not wait: who has
 * changed it to QUEUED puts the follower into the backlog; what the follower is besides belongs to
 * the feed while it is AT_TAIL (feed->mutex), and to the thread that took it from the backlog while
 * it is QUEUED. A follower is freed by its feed, after the hook `gone`, and never while it is
 * QUEUED.
 */
#ifndef HF_SERVER_FOLLOW_FOLLOWER_H
#define HF_SERVER_FOLLOW_FOLLOWER_H

#include "server/buses/buses.h"
#include "server/follow/follow.h"
#include "server/http/stream.h"

#include <pthread.h>
#include <stdatomic.h>

#define FEEDS_MAX 64     /* namespaces that are followed at a time */
#define RING_RECORDS 512 /* that a feed keeps for those that come to the tail, and ... */
#define RING_BYTES 262144
#define FEED_READ_EVENTS 256 /* at once */

/* ---- Records --------------------------------------------------------------------------------- */

/* As the API has events elsewhere, and as CloudEvents. */
enum form { FORM_NATIVE, FORM_CLOUDEVENT, FORMS };

/* An event as followers are sent it. */
struct record {
    int64_t position;
    struct message *messages[FORMS]; /* NULL: not made, because no follower wants this form */
    const char *type;                /* NULL: it is for all of them, whatever they ask for */
    const char *key;                 /* NULL: the event has none */
    size_t bytes;                    /* of all this */
    char texts[];
};

/* In these forms: a bit each. NULL: no memory (err). */
struct record *record_new(const hf_event *event, unsigned forms);
/* What takes the place of an event that cannot be read, with the failure of that (err). */
struct record *record_of_damage(int64_t position, hf_status status);
void record_free(struct record *record);

/* ---- Followers ------------------------------------------------------------------------------- */

enum place {
    PLACE_QUEUED,  /* in the backlog, or being read for */
    PLACE_AT_TAIL, /* the feed sends it what comes */
    PLACE_WAITING, /* until its client has taken what was sent, or is gone */
    PLACE_IDLE,    /* until the feed puts it into the backlog again */
    PLACE_OVER     /* about to be freed */
};

struct follower {
    struct follower *next;     /* in the list of the feed */
    struct follower *after_it; /* in the backlog */
    struct feed *feed;
    struct stream *stream;
    enum form form;
    struct text *types; /* with their bytes behind them */
    size_t type_count;
    struct text *keys;
    size_t key_count;
    atomic_int place; /* enum place */
    atomic_bool gone; /* its connection has ended: no hook is called any more */
    int64_t cursor;   /* everything up to here was sent, or is not for it */
    int64_t told;     /* the last id that was sent */
    int64_t told_us;  /* when that was; monotonic */
};

/* NULL: no memory (err). */
struct follower *follower_new(const struct follow_wish *wish);
/* Frees one whose stream never began, or is gone. NULL is allowed. */
void follower_free(struct follower *follower);

/* Sends a record, if it is for this follower; it leaves when the stream is flushed. False: the
 * follower has become WAITING, after a flush, or IDLE because the record is not there in its
 * form. */
bool follower_send(struct follower *follower, const struct record *record);
/* Is it for one that has asked for types or keys? */
bool follower_wants(const struct follower *follower, const char *type, const char *key);
/* It waits until its client has taken what was sent. */
void follower_wait(struct follower *follower);
/* Puts it into the backlog, if it is at this place. */
void follower_queue(struct follower *follower, enum place from);

/* ---- The backlog ----------------------------------------------------------------------------- */

struct backlog {
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t filled;
    struct follower *first;
    struct follower **last; /* where the next one is put */
    bool stopping;
};

void backlog_init(struct backlog *backlog);
void backlog_push(struct backlog *backlog, struct follower *follower);
/* Reads for one after the other, until it is stopped. Several threads may. */
void *backlog_run(void *backlog);
void backlog_stop(struct backlog *backlog);
void backlog_release(struct backlog *backlog);

/* ---- Feeds ----------------------------------------------------------------------------------- */

enum feed_state { FEED_FREE, FEED_RUNS, FEED_ENDED };

/* The end of the log of one namespace. */
struct feed {
    struct followers *all;
    char name[HF_NAMESPACE_BYTES_MAX + 1];
    hf_bus *bus;
    pthread_t thread;
    enum feed_state state;                      /* protected by all->mutex, as are the next ones */
    int coming;                                 /* requests that are about to add a follower */
    int64_t used_us;                            /* when there was one last; monotonic */
    struct record *fresh[FEED_READ_EVENTS + 1]; /* what is being read; of the thread alone */
    size_t fresh_count;
    size_t fresh_bytes;
    bool short_of_memory;
    atomic_uint forms;     /* that followers want: a bit each */
    pthread_mutex_t mutex; /* protects what follows */
    struct follower *first;
    bool ready;     /* `cursor` and `low` are known */
    int64_t cursor; /* everything up to here was read */
    int64_t low;    /* everything behind this is in the ring */
    struct record *ring[RING_RECORDS];
    size_t ring_first;
    size_t ring_count;
    size_t ring_bytes;
};

struct followers {
    struct buses *buses;
    struct backlog backlog;
    pthread_t readers[2]; /* of the backlog */
    size_t reader_count;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    bool stopping;
    struct feed *feeds[FEEDS_MAX]; /* NULL: none was made yet */
};

/* Begins a feed that is FREE. all->mutex is held. */
hf_status feed_start(struct feed *feed, const char *name);
/* Its thread has ended, and all its followers are gone. */
void feed_join(struct feed *feed);
/* A follower that is QUEUED and in the list goes to the tail, if it is not behind. False: it is. */
bool feed_take(struct feed *feed, struct follower *follower);

#endif
