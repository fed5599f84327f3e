/*
 * follow.h - clients that follow the log: GET stream.
 *
 * A follower is a client with a stream (http/stream.h) and a place in the log. Those that have
 * caught up are served by the feed of their namespace, which reads the end of the log once for all
 * of them. One that is behind, because it begins far back or takes its events slowly, is read for
 * alone, a piece at a time, whenever its client has taken what was sent to it before:
 *
 *     QUEUED ----- has everything that the feed has dropped ---------------> AT_TAIL
 *       |  ^                                                                   |
 *       |  +-- room --- WAITING <--- too much waits for its client -----------+
 *       |  +-- news --- IDLE                                                    |
 *       +--> WAITING: too much waits for its client; IDLE: nothing to read now  |
 *
 * Every event is sent once, in the order of positions, and its position is the id of its message.
 * So a client that connects again with Last-Event-ID goes on behind its last event, whichever
 * process answers. What a follower costs is bounded: FOLLOW_QUEUE_BYTES and one event.
 */
#ifndef HF_SERVER_FOLLOW_FOLLOW_H
#define HF_SERVER_FOLLOW_FOLLOW_H

#include "server/buses/buses.h"
#include "server/http/exchange.h"

#define FOLLOW_QUEUE_BYTES 65536 /* that may wait for a client before it is behind */
#define FOLLOW_WORDS_MAX 64      /* types and keys that a client may ask for, each */

struct followers;

/* NULL: no memory or thread (err). */
struct followers *followers_open(struct buses *buses);
/* Nothing is read from now on. Does not wait. */
void followers_stop(struct followers *followers);
/* All streams have ended. NULL is allowed. */
void followers_free(struct followers *followers);

/* Of the server that the exchange is for. */
struct followers *followers_of(struct exchange *exchange);

/* What a client asks for. */
struct follow_wish {
    const char *types[FOLLOW_WORDS_MAX]; /* patterns; one must match */
    size_t type_count;                   /* 0: all */
    const char *keys[FOLLOW_WORDS_MAX];  /* one must be the event's */
    size_t key_count;                    /* 0: all */
    int64_t after;                       /* a position: it begins behind it */
    bool cloudevents;                    /* events as CloudEvents */
};

/* Makes the answer a stream of the events of the exchange's namespace, or refuses. */
void followers_answer(struct followers *followers, struct exchange *exchange,
                      const struct follow_wish *wish);

#endif
