/*
 * transfer.h - the part of the store's contract (store.h) that moves a namespace into another
 * database, row by row as it is.
 *
 *   export   the rows of a namespace, table by table, from one snapshot of the database
 *   import   struct transfer: a change that brings such rows into a database of any engine
 *
 * Rows are in a form that belongs to no engine: numbers, texts and bytes in an order that is the
 * same everywhere. Times are microseconds since 1970, a subscription is named and not numbered. So
 * the same rows of two databases are the same values, which is how a copy is proved.
 * docs/adr/0019 says in which order a copy uses all this, and what it promises.
 */
#ifndef HF_STORE_TRANSFER_H
#define HF_STORE_TRANSFER_H

#include "store/store.h"

#define TRANSFER_COLUMNS_MAX 32
#define TRANSFER_ROWS_MAX 5000 /* of one import; it also ends at STORE_BATCH_BYTES_MAX */
#define TRANSFER_CLEAR_ROWS_MAX 5000
#define TRANSFER_IDENTITY_BYTES 33 /* of a database: 32 hexadecimal digits and a NUL */
#define TRANSFER_NAMES_BYTES 256   /* of those who have a namespace open, told for people */

/* In the order in which they are imported. What each row has is in sql/ENGINE/queries/transfer.sql:
 * the statements that read a table answer the columns that those that write it take. */
enum transfer_table {
    TRANSFER_EVENTS,
    TRANSFER_KEYS,
    TRANSFER_UNIQUES,
    TRANSFER_SUBSCRIPTIONS,
    TRANSFER_PARTITIONS, /* checkpoints; a shared one's cursor. Without owners */
    TRANSFER_RETRIES,
    TRANSFER_COPIES,
    TRANSFER_SETTLED,
    TRANSFER_OUTCOMES,
    TRANSFER_CANCELS, /* marks; requests are not copied */
    TRANSFER_LEASES,  /* as they are when they have no holder any more */
    TRANSFER_NUMBERS, /* one row: the highest number that a dead letter has ever had */
    TRANSFER_DEAD_LETTERS,
    TRANSFER_SCHEDULES,
    TRANSFER_RUNS, /* the ledger of schedules */
    TRANSFER_DELAYED,
    TRANSFER_NAMESPACE, /* one row: its settings, and its newest position */
    TRANSFER_TABLES
};

/* "events", "keys" ...: the tables' names for people. */
const char *transfer_table_name(enum transfer_table table);

enum transfer_kind { TRANSFER_NULL, TRANSFER_NUMBER, TRANSFER_TEXT, TRANSFER_BYTES };

struct transfer_value {
    enum transfer_kind kind;
    int64_t number;
    struct text text; /* TEXT, BYTES */
};

/* ---- Export ---------------------------------------------------------------------------------- */

/* Who a database is: a random number that it got with its schema. */
hf_status store_identity(struct store *store, char ret_identity[TRANSFER_IDENTITY_BYTES]);

/* What is going on in a namespace, outside of any snapshot. */
struct transfer_facts {
    int64_t namespace_id;
    int64_t head;      /* the newest position ever given */
    int64_t floor;     /* nothing can come at or below it any more; -1: not known just now */
    int32_t processes; /* processes that are alive and have it open */
    char names[TRANSFER_NAMES_BYTES]; /* the names of some of them */
    int64_t driven; /* schedules with a job in the database, which is not copied */
    bool copying;   /* it is the target of a copy that is not complete */
};

/* HF_NOTFOUND; HF_BUSY: it is being removed. */
hf_status store_transfer_facts(struct store *store, struct text name,
                               struct transfer_facts *ret_facts);

/* Anything but HF_OK ends the export, which answers it. */
typedef hf_status (*transfer_row_fn)(const struct transfer_value *values, int count, void *ctx);

/*
 * An exporter sees the database as it was when it was opened. While one is open on PostgreSQL what
 * is kept short by truncating (the journal of checkpoints, leases) grows, so it must not be kept
 * open for long while others work. One thread at a time.
 */
struct exporter;
hf_status store_export_open(struct store *store, struct exporter **ret_exporter);
/* Hands up the rows of a table, always in the same order; of the events those above `after` up to
 * `upto`. Memory does not grow with the number of rows. Never writes. HF_CORRUPT: a row cannot be
 * read. HF_UNAVAILABLE: the snapshot was lost with its connection. */
hf_status store_export_rows(struct exporter *exporter, int64_t namespace_id,
                            enum transfer_table table, int64_t after, int64_t upto,
                            transfer_row_fn row, void *ctx);
void store_export_close(struct exporter *exporter);

/* ---- Import ---------------------------------------------------------------------------------- */

enum transfer_step { TRANSFER_CHECK, TRANSFER_BEGIN, TRANSFER_CLEAR, TRANSFER_PUT, TRANSFER_END };

/*
 * One step of copying into a namespace (`name`) of the store's database. `source` is the identity
 * of the database that it comes from, `run` names this run of the copy.
 *
 *   CHECK  answers what BEGIN would answer, and changes nothing. A copy checks all namespaces
 *          before it begins with the first, so that a refused copy leaves the target as it was.
 *   BEGIN  makes the namespace, or takes one that is empty, and marks it: until END it cannot be
 *          opened, published to or claimed from. One that carries the mark of `source` already is a
 *          copy that was interrupted: this run takes it over, and the one before cannot go on
 *          (HF_STALE). ret_resumed; ret_floor: up to where the events of the source are all there.
 *          HF_CONFLICT: it has something in it, or is open somewhere, or is the copy of another
 *          database.
 *   CLEAR  takes everything out but the events up to `floor`: at most about TRANSFER_CLEAR_ROWS_MAX
 *          rows; ret_more: call it again.
 *   PUT    writes rows of one table. Of events `floor` is where ret_floor will be next time.
 *          HF_CONFLICT: something is there already that cannot be twice.
 *   END    takes the mark away; `name` absent: from all namespaces that have the mark of `source`
 *          and this run. Rings.
 *
 * All but CHECK and BEGIN answer HF_STALE if another run has taken over. Each is atomic and durable
 * when it answers HF_OK. After HF_UNKNOWN a new run finds out what is there.
 */
struct transfer {
    struct change change;
    enum transfer_step step;
    struct text name;
    struct text source;
    struct text run;
    hf_toggle gapless; /* CHECK, BEGIN: of a namespace that is made, if the engine has both kinds */
    int64_t floor;
    enum transfer_table table;
    const struct transfer_value *values; /* `rows` times `columns` */
    size_t rows;
    int columns;
    bool ret_resumed;
    bool ret_more;
    int64_t ret_floor;
};

#endif
