/*
 * regex.h - a filter's patterns as one regular expression of PostgreSQL.
 */
#ifndef HF_STORE_POSTGRES_READ_REGEX_H
#define HF_STORE_POSTGRES_READ_REGEX_H

#include "base/text/buf.h"
#include "store/store.h"

#define REGEX_BYTES_MAX 8192  /* beyond this the server sends all types, and we choose */
#define REGEX_BUF_BYTES 16384 /* for a buffer that is long enough to find that out */

/*
 * Writes into `out` (emptied before) an expression that matches exactly the types that the filter
 * wants to be handed up. Writes nothing if it wants all, or if the expression would be larger than
 * REGEX_BYTES_MAX: then the server is to send everything. HF_NOMEM.
 */
hf_status regex_of(struct buf *out, const struct filter *filter);

#endif
