/*
 * verify.h - examining a whole database for damage: what is asked of an engine, and the walk.
 *
 * There are two ways to find damage, and an engine offers both for all namespaces at once:
 *
 *   checks   relations between rows (a checkpoint beyond the log, a delivery whose event is gone).
 *            Each is one statement, so it sees one snapshot, and answers sentences.
 *   scans    what is inside rows (JSON, UTF-8, hashes). Rows come up in chunks by their keys and
 *            are examined in C, by the same code for every engine.
 *
 * Nothing is written. No transaction lasts longer than one check or one chunk, so publishers and
 * consumers go on meanwhile, and memory does not grow with the log. What is published while the
 * walk is under way may or may not be seen.
 */
#ifndef HF_STORE_VERIFY_H
#define HF_STORE_VERIFY_H

#include <holdfast.h>
#include <stdbool.h>

#include "base/text/text.h"

struct engine;
struct store;

#define VERIFY_TOLD_MAX 100    /* findings of one kind; the rest is only said to be there */
#define VERIFY_EVENTS_MAX 1000 /* rows of one chunk of the log */
#define VERIFY_ROWS_MAX 32     /* the same of tables whose rows may be larger than an event */

/* ---- Asked of an engine ---------------------------------------------------------------------- */

/* An engine to which a check means nothing answers that all is well. */
enum verify_check {
    VERIFY_FILE,       /* pages and indexes of the database itself */
    VERIFY_SCHEMA,     /* tables, indexes, triggers ... are those that this program makes */
    VERIFY_ORPHAN,     /* rows whose subscription, schedule or namespace does not exist */
    VERIFY_TIP,        /* positions in the log above the newest one ever given */
    VERIFY_MONTH,      /* tables of the log that should be there */
    VERIFY_LOST,       /* where positions have no gaps: what is missing was taken by retention */
    VERIFY_DOUBLED,    /* no id is stored twice in a namespace */
    VERIFY_PARTITIONS, /* exactly the rows that a subscription's number of partitions asks for */
    VERIFY_CHECKPOINT, /* start <= checkpoint <= newest position */
    VERIFY_RETRY,      /* a delivery that waits has an event; kind, cause and unit can be */
    VERIFY_HELD,       /* a held delivery has another one of its lane before it */
    VERIFY_SLICE,      /* the partition of a waiting or settled delivery is that of its hash */
    VERIFY_COPY,       /* a copy of an event has a delivery that needs it */
    VERIFY_SETTLED,    /* nothing is settled that was not published */
    VERIFY_LEASE,      /* the positions of a lease can be read, and have events */
    VERIFY_TYPES,      /* the index on types of a namespace has the events of its log, no others */
    VERIFY_UNIQUE,     /* a unique key names the event that was stored with it */
    VERIFY_RATE,       /* the rate of a subscription was not taken in the future */
    VERIFY_DEAD_KIND,  /* of each kind as many dead letters are counted as are there */
    VERIFY_RIGHTS,     /* the role that looks sees everything */
    VERIFY_CHECKS
};

/* Each finding is a sentence that names the row and what is wrong. Non-zero ends the check. */
typedef int (*verify_said_fn)(struct text sentence, void *ctx);

enum verify_table {
    VERIFY_EVENTS,
    VERIFY_COPIES,
    VERIFY_DEAD_LETTERS,
    VERIFY_RETRIES,
    VERIFY_OUTCOMES,
    VERIFY_SUBSCRIPTIONS,
    VERIFY_SCHEDULES,
    VERIFY_DELAYED,
    VERIFY_TABLES
};

/* Where a scan stands: the key of the last row. All 0: before the first. */
struct verify_cursor {
    int64_t first;  /* namespace, subscription, or the row's own id */
    int64_t second; /* position */
    uint8_t id[16]; /* of events: two may claim one position; of schedules */
};

/* What a row has inside; what its table does not have is absent. Lives until the callback
 * returns. */
struct verify_row {
    struct text subject; /* which row: 'namespace "default", event at position 7' */
    int64_t first;       /* of its key, as in the cursor */
    int64_t second;
    bool is_event; /* id, hash and what is below are set */
    struct text id;
    int64_t hash;
    struct text type;
    struct text tenant;
    struct text key;
    struct text payload;
    struct text metadata; /* a JSON object; of a subscription: its options */
    struct text story;    /* a JSON array; of a subscription: its patterns */
    struct text producer;
    struct text schedule_id;
    int64_t key_version; /* -1: none */
    int64_t emitted_at_us;
    int64_t entered_at_us; /* 0: it has not entered the log */
    int64_t checksum;
};

/* Every statement of a scan answers these columns, in this order, without those at the end that its
 * table does not have. */
enum verify_column {
    VERIFY_COLUMN_FIRST,
    VERIFY_COLUMN_SECOND,
    VERIFY_COLUMN_SUBJECT,
    VERIFY_COLUMN_ID,
    VERIFY_COLUMN_HASH,
    VERIFY_COLUMN_TYPE,
    VERIFY_COLUMN_TENANT,
    VERIFY_COLUMN_KEY,
    VERIFY_COLUMN_PAYLOAD,
    VERIFY_COLUMN_METADATA,
    VERIFY_COLUMN_STORY,
    VERIFY_COLUMN_PRODUCER, /* these six only of events */
    VERIFY_COLUMN_SCHEDULE_ID,
    VERIFY_COLUMN_KEY_VERSION,
    VERIFY_COLUMN_EMITTED_AT,
    VERIFY_COLUMN_ENTERED_AT,
    VERIFY_COLUMN_CHECKSUM
};

typedef void (*verify_row_fn)(const struct verify_row *row, void *ctx);

/* struct engine_class has, for these two:
 *   verify_check  runs a check and answers at most `max` findings;
 *   verify_scan   hands up the rows after the cursor in the order of their keys, at most `max` of
 *                 them, and moves the cursor. ret_more: there may be others.
 * HF_CORRUPT: what is stored cannot be read. */

/* ---- The walk -------------------------------------------------------------------------------- */

/*
 * Runs all checks and scans. `found` gets each finding: the kind ("checkpoint"), the sentence,
 * HF_LOG_ERROR, and what to do. `progress` (may be NULL) gets the number of rows that have been
 * examined, after each step. Non-zero of either ends the walk; that is no failure.
 */
hf_status store_verify(struct store *store, hf_finding_fn found, hf_verify_progress_fn progress,
                       void *ctx);

/* The same, of an engine. */
hf_status verify_engine(struct engine *engine, hf_finding_fn found, hf_verify_progress_fn progress,
                        void *ctx);

#endif
