/*
 * wanted.h - what a reader asks the server for, so that it sends no payload that the filter leaves
 * out.
 */
#ifndef HF_STORE_POSTGRES_READ_WANTED_H
#define HF_STORE_POSTGRES_READ_WANTED_H

#include "store/postgres/read/regex.h"
#include "store/store.h"

struct wanted {
    struct buf patterns;                    /* of types (regex.h); empty: all */
    struct buf regex;                       /* of the patterns; empty: all */
    int32_t partitions;                     /* 0: all of them, else how many there are */
    uint64_t owned[HF_PARTITIONS_MAX / 64]; /* which of them are wanted */
};

/* Has no memory yet. */
void wanted_init(struct wanted *wanted);
void wanted_release(struct wanted *wanted);
/* What this filter wants, but for the regular expression, which only the server makes. `plain`: it
 * is to leave out nothing by types. */
hf_status wanted_of(struct wanted *wanted, const struct filter *filter, bool plain);
bool wanted_equal(const struct wanted *a, const struct wanted *b);

#endif
