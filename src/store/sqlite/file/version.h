/*
 * version.h - the schema's number in a file, and whether this program goes with it
 * (store/schema/fit.h).
 */
#ifndef HF_STORE_SQLITE_FILE_VERSION_H
#define HF_STORE_SQLITE_FILE_VERSION_H

#include "store/schema/fit.h"
#include "store/sqlite/file/conn.h"

extern const struct fit_program sqlite_program;

/* What the file says of its schema; its number is 0 if it has none. */
hf_status version_read(struct conn *conn, struct fit_schema *ret_schema);

/* Inside a transaction that is to write: HF_SCHEMA if the schema does not allow this program to
 * work on it. It may have been migrated since the file was opened. Costs nothing while no other
 * connection has written. */
hf_status version_check(struct conn *conn);
/* Does the last check still hold: has no connection committed since? */
bool version_is_checked(struct conn *conn);
/* The connection has just committed, and before that the check held: it still does. No other one
 * can have committed in between, and what others do next changes the data version once more. */
void version_keep_check(struct conn *conn);

/* Whether a statement failed because the schema is not of this program's number; then the thread's
 * error says so. `why` are SQLite's words for an SQLITE_ERROR. */
bool version_explains(struct conn *conn, const char *why);

#endif
