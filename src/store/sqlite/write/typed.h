/*
 * typed.h - where the events of some types are, by the index on types (types.c).
 */
#ifndef HF_STORE_SQLITE_WRITE_TYPED_H
#define HF_STORE_SQLITE_WRITE_TYPED_H

#include "store/sqlite/sqlite.h"
#include "store/store.h"

/* What was found. */
struct typed {
    int64_t *positions; /* ascending; owned */
    size_t count;
    int64_t through; /* all that match up to there are among them */
    bool cut;        /* there may be more behind it */
};

/*
 * Finds up to `max` events after position `after`, and not beyond the filter's `through`, that the
 * patterns match. All statements must see one snapshot, or be of a write transaction. *ret_used is
 * false, and ret_typed untouched, if the namespace has no complete index, if the patterns match
 * more than STORE_TYPES_MAX types, or if more than STORE_TYPES_WALK_MAX would have to be compared
 * with them.
 */
hf_status typed_find(struct sqlite_engine *engine, struct conn *conn, const struct filter *filter,
                     int64_t after, int32_t max, struct typed *ret_typed, bool *ret_used);
void typed_release(struct typed *typed);

#endif
