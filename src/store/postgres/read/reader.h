/*
 * reader.h - what is not part of the contract of a reader (store.h): tests and options.
 */
#ifndef HF_STORE_POSTGRES_READ_READER_H
#define HF_STORE_POSTGRES_READ_READER_H

#include "store/store.h"

/* store_reader_gap_timeout. */
void postgres_reader_gap_timeout(struct reader *reader, int64_t timeout_ms);

struct reader_life postgres_reader_life(const struct reader *reader);
void postgres_reader_continue(struct reader *reader, struct reader_life life);

/* Open gaps, numbers that were proven dead, and numbers given up by the timeout. */
struct reader_gaps {
    size_t open;
    int64_t dead;
    int64_t skipped;
};
struct reader_gaps postgres_reader_gaps(const struct reader *reader);

#endif
