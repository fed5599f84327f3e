/*
 * sqlite.h - the SQLite engine as its own files see it.
 *
 *   engine.c   opening, closing, apply: one write transaction for a list of changes
 *   conn.c     a connection with its cached statements; SQLite's errors as ours
 *   pool.c     read-only connections for queries and readers
 *   gate.c     the lock that every writer of the file takes first
 *   bell.c     wake-ups across processes
 *   live.c     signs of life, and notes of what runs
 *   migrate.c  the schema and its steps
 *   append.c   the log's writing end         reader.c   its reading end
 *   tx.c       transactions for handlers      join.c     the application's own
 *   spare.c    space kept for settling when the disk is full
 *   subscription.c, partition.c, settle.c, lease.c, claim.c, dead.c   the other changes
 *   query.c, progress.c, doctor.c                                     the queries
 *
 * Lock order: gate, then SQLite's own locks. The writer connection is used only by whoever runs
 * apply (one thread at a time, see group.h) and only under the gate.
 *
 * A change is a function  hf_status sqlite_<change>(engine, conn, change)  that runs inside a write
 * transaction on `conn`. If it answers anything but HF_OK, its caller undoes what it wrote.
 */
#ifndef HF_STORE_SQLITE_SQLITE_H
#define HF_STORE_SQLITE_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>

#include "store/engine.h"

/* place = namespace_id * 2^44 + position; see sql/sqlite/0001_init.sql. */
#define PLACE_BITS 44
#define PLACE_POSITION_MAX (((int64_t)1 << PLACE_BITS) - 1)

#endif
