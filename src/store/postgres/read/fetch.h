/*
 * fetch.h - one round trip to the log: its tail, its holes and large events.
 */
#ifndef HF_STORE_POSTGRES_READ_FETCH_H
#define HF_STORE_POSTGRES_READ_FETCH_H

#include "base/gap.h"
#include "store/postgres/read/queue.h"
#include "store/postgres/wire/row.h"
#include "store/postgres/wire/session.h"

#define READ_BYTES_COLUMN EVENT_COLUMNS /* of a row: how large its texts are; NULL: not wanted */

/* What is asked for, and the answers. Rows are as queries/read.sql says. */
struct fetch {
    struct text regex;          /* of wanted types; absent: all */
    struct partition_set owned; /* wanted partitions; total 0: all */
    int64_t limit;              /* of the rows of each answer */
    bool many;                  /* so many rows will probably come */
    bool asks_start;            /* when was the server started that answers this? */
    bool tail;                  /* 1. what is visible after `after` */
    int64_t after;
    const struct gap_hole *holes; /* 2. what is visible in these ranges */
    size_t hole_count;
    const int64_t *positions; /* 3. large events, as a whole */
    size_t position_count;
    struct fetched *start_row; /* the answers; NULL if not asked for */
    struct fetched *tail_rows;
    struct fetched *late_rows;
    struct fetched *large_rows;
};

/* Runs its queries in this order, in one transaction with a snapshot for each. The caller releases
 * the fetch in any case. A session that was lost is closed and not connected again. */
hf_status fetch_run(struct fetch *fetch, struct session *session);
void fetch_release(struct fetch *fetch);

/* ---- What was fetched ------------------------------------------------------------------------ */

static inline int64_t position_at(const PGresult *result, int row)
{
    return result_int8(result, row, EVENT_POSITION, 0);
}

static inline size_t rows_of(const struct fetched *fetched)
{
    return fetched ? (size_t)PQntuples(fetched->result) : 0;
}

/* The positions of the rows as runs, of which there are as many as rows at most. Answers how many
 * there are. */
size_t fetched_runs(const struct fetched *fetched, struct gap_run *ret_runs);
/* Queues the wanted rows up to `through`. There is room. */
void fetched_queue(struct fetched *fetched, struct queue *queue, int64_t through);
/* Puts the large events that were asked for where they can be handed up; all of them are among the
 * first `count` of the queue. */
void fetched_complete(const struct fetch *fetch, struct queue *queue, size_t count);
/* How large the texts are that came; those of events above `large` did not. */
int64_t fetched_bytes(const struct fetched *fetched, int64_t large);

#endif
