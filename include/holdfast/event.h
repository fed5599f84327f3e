/*
 * holdfast/event.h - an event as it is stored, as it is published, and the receipt for it.
 */
#ifndef HOLDFAST_EVENT_H
#define HOLDFAST_EVENT_H

#include <holdfast/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An event as it was stored. Absent texts are NULL. Every text and the payload end with a NUL that
 * is not counted. */
typedef struct hf_event {
    const char *id;      /* UUID, 36 characters */
    const char *type;    /* "user.created" */
    const char *payload; /* JSON, the bytes that were published */
    size_t payload_bytes;
    const char *key;      /* ordering key */
    const char *tenant;   /* what partitions are hashed by */
    const char *metadata; /* JSON object */
    const char *producer; /* who published it */
    const char *schedule_id;
    int64_t position;      /* its place in the namespace's log, from 1 */
    int64_t key_version;   /* -1 unless published with an expected version */
    int64_t emitted_at_us; /* when the producer says that it happened */
    int64_t entered_at_us; /* when it entered the log */
    const char *namespace_name;
    /* How often it was handed out to a handler or a claimer of the subscription, this time included
     * (of a dead letter: in all); -1 if that is not known, and where it was read and not delivered.
     * See docs/delivery.md, "How often an event was handed out". */
    int32_t deliveries;
} hf_event;

/* An event to be published. */
typedef struct hf_new_event {
    size_t size;
    const char *type;     /* required: 1..255 bytes, segments separated by dots */
    const char *payload;  /* JSON; NULL is the JSON value null */
    size_t payload_bytes; /* HF_AUTO_LENGTH: up to the NUL */
    const char *id;       /* UUID; NULL: a new UUID v7 */
    const char *key;
    const char *tenant;
    const char *metadata;     /* a JSON object */
    const char *producer;     /* NULL: the node's name */
    int64_t emitted_at_us;    /* -1: now */
    int64_t expected_version; /* -1: any; 0: the key is new; n: the key's version is n (one in the
                                 namespace, whatever the tenant) */
    int64_t deliver_at_us;    /* -1: now. Else hf_publish keeps the event, durable at once, and it
                                 enters the log at this time by this machine's clock; it answers
                                 the id, and 0 for the position. Not with an expected version, and
                                 not in a transaction */
    const char *unique;       /* of the events of the namespace with the same unique key (1..255
                                 bytes) only the first within unique_for_ms is stored; the others
                                 are answered as duplicates of it. NULL: any number */
    int64_t unique_for_ms;    /* how long, from publishing on: up to 31 622 400 000, which is 366
                                 days. An event for later keeps its key at least as long as it
                                 waits: -1 is just that. A key is free again when such an event is
                                 cancelled. Else required with unique */
    int32_t replace;          /* 1: an event with this unique key that waits for its time is
                                 replaced by this one, which waits for its own. Only for later */
} hf_new_event;

#define HF_NEW_EVENT_INIT                                                                          \
    {                                                                                              \
        sizeof(hf_new_event), NULL, NULL, HF_AUTO_LENGTH, NULL, NULL, NULL, NULL, NULL, -1, -1,    \
            -1, NULL, -1, 0                                                                        \
    }

/* What publishing answers. */
typedef struct hf_receipt {
    int64_t position;
    int64_t key_version; /* -1 unless an expected version was given */
    int32_t duplicate;   /* 1: this id was in the log already; position is the first one's. If the
                            connection was lost on the way, a call that gave the id itself may
                            find what its own first try has stored. Never 1 for an id that was
                            made for the event. Or 1: an event with this unique key was stored
                            before; position and id are those of that one, and a position of 0 says
                            that it waits for its time */
    int32_t replaced;    /* 1: it has taken the place of one that waited for its time */
    char id[HF_ID_BYTES];
} hf_receipt;

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_EVENT_H */
