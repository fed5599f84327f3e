/*
 * span.h - how fast a checkpoint moves (shared: the cursor), told without a row per event.
 *
 * Time is cut into spans of half a minute. The row of a partition says in which of them its
 * checkpoint was last stored, where it was when that span began, and where when the one before it
 * began. So what it has passed since the last span but one is a subtraction: the rate of the last
 * 30 to 60 seconds. The columns are written with the checkpoint, so they cost no write.
 *
 * After a seek, or when the clock was set back, it is not known where it was, until two more spans
 * have begun. These are pure functions; partition.c keeps what they answer.
 */
#ifndef HF_STORE_SQLITE_WRITE_SPAN_H
#define HF_STORE_SQLITE_WRITE_SPAN_H

#include <stdint.h>

struct span {
    int64_t number; /* of the span that it was stored in, counted from 1970 on; 0: long ago */
    int64_t from;   /* where it was when that span began; -1: not known */
    int64_t before; /* where when the one before began; -1: not known */
};

/* The number of the span that a time lies in. */
int64_t span_number(int64_t at_us);
/* The span of a checkpoint that moves on now, from `checkpoint`, which was stored with `stored`. */
struct span span_move(struct span stored, int64_t checkpoint, int64_t now_us);
/* How many positions it has passed since the span before that of now_us began; -1: not known. */
int64_t span_passed(struct span stored, int64_t checkpoint, int64_t now_us);
/* How long that is, in seconds; for one that is younger, its age, a second at least. */
double span_seconds(int64_t now_us, int64_t created_at_us);

#endif
