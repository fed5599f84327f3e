/*
 * script.h - the SQL that makes the schema `holdfast` or brings it up to date.
 */
#ifndef HF_STORE_POSTGRES_WRITE_SCRIPT_H
#define HF_STORE_POSTGRES_WRITE_SCRIPT_H

#include "base/text/buf.h"
#include "store/postgres/postgres.h"

/* The release of this program, as it is written down beside its functions: "0.1.0". */
extern const char program_release[];

#define SCRIPT_BYTES_MAX (4 << 20) /* more than there is */

/* Appends what follows the settings and the lock in the transaction of a migration: the check, the
 * steps, the functions, and what is recorded. Each does nothing if there is nothing to do. */
void script_body(struct buf *out);

/* Appends only the checks: they refuse what the body would refuse, and change nothing. */
void script_checks(struct buf *out);

/* Appends the whole as a script for psql: the transaction with its settings, its lock and the body.
 */
void script_whole(struct buf *out);

#endif
