/*
 * node.h - nodes: who is there, by the live files, and who was, by a table.
 *
 * All of these are called under the gate. Remembering who ended is for people: where it fails,
 * nothing else does.
 */
#ifndef HF_STORE_SQLITE_WRITE_NODE_H
#define HF_STORE_SQLITE_WRITE_NODE_H

#include "store/sqlite/sqlite.h"

/* Before the own live file is made: HF_CONFLICT if the id was given and another node has it. */
hf_status node_check_id(struct sqlite_engine *engine, const struct node_facts *node);
/* Outside a transaction: remembers the dead that nothing names any more and removes their files. */
void node_sweep(struct sqlite_engine *engine);
/* The same in two halves: this in the writer's transaction, and live_sweep after its commit.
 * False: it failed so badly that SQLite has rolled the transaction back, with all that was in
 * it. */
bool node_bury(struct sqlite_engine *engine, struct conn *conn);
/* Undoes node_bury, if the commit failed. */
void node_exhume(struct sqlite_engine *engine);
/* Whether this store is remembered when it closes: its id was given, or it was there for a whole
 * heartbeat. */
bool node_is_remembered(struct sqlite_engine *engine);
/* In the transaction that closes the store: remembers that it stopped. */
void node_stop(struct sqlite_engine *engine, struct conn *conn);

#endif
