/*
 * schema.h - whether the tables, indexes and triggers of a file are those that its migrations make.
 */
#ifndef HF_STORE_SQLITE_FILE_SCHEMA_H
#define HF_STORE_SQLITE_FILE_SCHEMA_H

#include "store/sqlite/file/conn.h"
#include "store/verify.h"

/* Compares what the file has with what the migrations make that it has gone through, or with what a
 * newer program has recorded: a sentence for each object that is missing, that is another, or that
 * is not ours although it bears our name or lies on a table of ours. At most `max`. Only reads.
 * HF_OK also if there are differences. */
hf_status schema_compare(struct conn *conn, int32_t max, verify_said_fn said, void *ctx);

/* The same as an error: HF_SCHEMA with the first difference. */
hf_status schema_expect(struct conn *conn, const char *path);

/* Stores a fact of the schema. */
hf_status schema_put(struct conn *conn, const char *name, struct text value);

/* Records what the first `steps` migrations make, for programs that do not know them all; or, if
 * that is not wanted, that there is no record. */
hf_status schema_record(struct conn *conn, int64_t steps, bool is_wanted);

#endif
