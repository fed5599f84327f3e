/*
 * copy_rows.h - rows on their way to another database: a portion of them, and the digest that
 * proves that they have arrived.
 */
#ifndef HF_BUS_API_COPY_ROWS_H
#define HF_BUS_API_COPY_ROWS_H

#include "base/arena.h"
#include "base/text/buf.h"
#include "store/transfer.h"

/* Rows of one table that are written at once. */
struct portion {
    struct transfer_value *values; /* owned */
    size_t rows;
    int columns;
    struct arena arena; /* their texts */
};

hf_status portion_init(struct portion *portion);
void portion_release(struct portion *portion);
/* Forgets the rows, keeps the memory. */
void portion_clear(struct portion *portion);
/* Copies a row, of which all in a portion have the same number of columns. */
hf_status portion_add(struct portion *portion, const struct transfer_value *values, int columns);
bool portion_is_full(const struct portion *portion);

/* What a table of a database comes to: equal for equal rows in the same order. */
struct digest {
    enum transfer_table table;
    uint64_t hash;
    int64_t rows;
    int64_t first; /* number in the first column of the first row, if it is one; else 0 */
    struct buf row;
};

void digest_init(struct digest *digest, enum transfer_table table);
void digest_release(struct digest *digest);
hf_status digest_add(struct digest *digest, const struct transfer_value *values, int columns);

#endif
