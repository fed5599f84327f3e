/*
 * types.h - the state of the index on types of a namespace.
 */
#ifndef HF_STORE_SQLITE_WRITE_TYPES_H
#define HF_STORE_SQLITE_WRITE_TYPES_H

#include "store/namespace.h"
#include "store/sqlite/sqlite.h"

/* Of namespace `id`. *ret_through, while it is being built: up to where it is; untouched if there
 * is no such namespace. */
hf_status types_state(struct conn *conn, int64_t id, enum type_index *ret_state,
                      int64_t *ret_through);

#endif
