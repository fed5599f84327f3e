/*
 * regex.h - a filter's patterns as one regular expression of PostgreSQL.
 *
 * The server makes it (holdfast.patterns_regex), so that readers and claims compare types in the
 * same way. It is used only to leave out payloads that are not wanted; whether an event is for the
 * subscription is decided by filter_matches, in one place for all engines. So the expression may
 * match too much, but never too little.
 */
#ifndef HF_STORE_POSTGRES_READ_REGEX_H
#define HF_STORE_POSTGRES_READ_REGEX_H

#include "base/text/buf.h"
#include "store/postgres/wire/session.h"
#include "store/store.h"

#define REGEX_BYTES_MAX 8192  /* beyond this the server sends all types, and we choose */
#define REGEX_BUF_BYTES 20480 /* for a buffer that takes all patterns of a subscription */

/* Writes the patterns that the server has to compare types with into `out` (emptied before), each
 * followed by a newline. Writes nothing if the filter wants all types to be handed up. HF_NOMEM. */
hf_status regex_patterns(struct buf *out, const struct filter *filter);

/* Asks the server for the expression of these patterns. `out` (emptied before) stays empty if the
 * expression would be larger than REGEX_BYTES_MAX: then the server is to send everything. */
hf_status regex_ask(struct session *session, const struct filter *filter, struct buf *out);

#endif
