/*
 * event.h - events as they cross the store's contract (store.h): checked ones on their way into the
 * log, and batches of those that come out of it for a subscription.
 *
 * Nothing here is behaviour: batch.h and filter.h work with what comes out.
 */
#ifndef HF_STORE_EVENT_H
#define HF_STORE_EVENT_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/text/text.h"
#include "store/cause.h"

/* ---- Events on their way in ------------------------------------------------------------------ */

/* A checked event, ready to be appended. */
struct new_event {
    uint8_t id[16];
    struct text type;
    struct text payload;
    struct text key; /* these five may be absent */
    struct text tenant;
    struct text metadata;
    struct text producer;
    struct text schedule_id;
    int64_t emitted_at_us;
    int64_t expected_version; /* -1: none */
    bool made_id;             /* the caller gave none, so no other event can have it */
    struct text unique;       /* absent: none */
    int64_t unique_us;        /* how long no other with this unique key is stored; 0: as long as it
                                 waits for its time */
    int64_t hash;             /* checksum_seal() sets these two when the others are there */
    int64_t content;
    /* answers */
    int64_t position;
    int64_t key_version; /* -1 unless a version was expected */
    bool duplicate;
    bool is_second;       /* a duplicate because of its unique key: of this one */
    uint8_t first_id[16]; /* only then */
    bool replaced;        /* struct delay */
};

/* ---- Events on their way out ----------------------------------------------------------------- */

/* One event as an engine hands it up. All texts live in the batch's arena. */
struct entry {
    hf_event event;
    uint8_t id[16];
    uint64_t lane;             /* hash_lane(): the unit of order; checksum_check() sets it */
    int64_t hash;              /* as stored at publish; decides the partition */
    int64_t checksum;          /* as stored */
    int32_t attempts;          /* recorded failed attempts; 0 for what comes from the log */
    int32_t uncounted;         /* failed attempts that did not count */
    int32_t handed;            /* how often it was handed out before; -1: not known. Of an ordered
                                  subscription: unless its partition has doubts (struct acquire) */
    struct text attempts_json; /* the story so far, a JSON array; absent if none */
    enum cause cause;          /* why the last attempt failed */
    struct unit_mark unit;     /* what failed together in it */
    bool waited;               /* it has a row in retries (it came from there) */
    bool certain;              /* `handed` is right even if its partition has doubts */
    bool unhandled;            /* outside the patterns; only if the filter asked for those */
    bool damaged; /* its checksum does not match, or was not looked at: it must not be handed out
                     as an event */
};

/* Entries and the memory of their texts. batch_init / batch_clear / batch_release in batch.h. */
struct batch {
    struct arena arena;
    struct entry *entries;
    size_t count;
    size_t capacity;
};

/* Some partitions of a subscription: bit `p % 64` of bits[p / 64] says whether p is in it. */
struct partition_set {
    int32_t total; /* partitions of the subscription */
    const uint64_t *bits;
};

/* Which events of the log a subscription wants. */
struct filter {
    const struct text *patterns;
    size_t count;
    bool unhandled_too;                /* hand up the others as well, marked `unhandled` */
    const struct partition_set *owned; /* only events of these partitions; NULL: of all */
    int64_t through; /* readers: nothing beyond this position for now; 0: no such limit */
};

#endif
