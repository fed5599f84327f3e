/*
 * reader.h - reading the log forward; a part of the store's contract (store.h).
 */
#ifndef HF_STORE_READER_H
#define HF_STORE_READER_H

#include <holdfast.h>
#include <stdbool.h>

#include "store/event.h"

struct store;

/*
 * Reads the log forward. A reader hands up every event after its start once, in the order of
 * positions as far as the engine can see it; one that becomes visible late comes later. It hands up
 * the floor with every batch: everything at or below it has been handed up, does not match, or will
 * never exist. So a checkpoint never passes the floor.
 * One thread at a time. HF_STALE: it has lost what it knew (its connection went): open another one
 * at the checkpoint.
 */
struct reader;

hf_status store_reader_open(struct store *store, int64_t after, bool strict,
                            struct reader **ret_reader);
/* Appends up to `max` matching events to the batch (fewer if STORE_BATCH_BYTES_MAX is reached).
 * ret_floor as above. ret_more: there may be more to read right now. If not, every event that was
 * visible when the call began has been handed up, or waits for what is missing before it: the
 * caller may wait for news that come after it began to ask. Reads a bounded number of rows per
 * call, so an answer with no event and `more` is possible. */
hf_status store_reader_next(struct reader *reader, const struct filter *filter, int32_t max,
                            struct batch *batch, int64_t *ret_floor, bool *ret_more);
void store_reader_close(struct reader *reader);
/* For servers that hide who publishes, so that nothing proves that a missing position stays
 * missing: the reader passes it after this time, counts it and says so in the log; what a slow
 * transaction commits there later is not handed up. 0, as it is from the beginning: never. Nothing
 * happens where there is a proof. */
void store_reader_gap_timeout(struct reader *reader, int64_t timeout_ms);
/* What was read of a log is true for one life of one server: one that crashes may give positions
 * again. This is the life that a reader has read in; all is 0 before its first answer, and where
 * there is no server. */
struct reader_life {
    uint64_t era;
    int64_t started_us; /* behind a pooler: when the server was started */
};
struct reader_life store_reader_life(const struct reader *reader);
/* For a new reader whose `after` is known from one that has read in this life: it is over like that
 * one if its own answers are of another. */
void store_reader_continue(struct reader *reader, struct reader_life life);
/* Whether positions may become visible out of order, so that such a time means anything. */
bool store_has_gaps(const struct store *store);

#endif
