/*
 * migrate.h - the schema and its steps, and the namespace.
 */
#ifndef HF_STORE_SQLITE_FILE_MIGRATE_H
#define HF_STORE_SQLITE_FILE_MIGRATE_H

#include "store/sqlite/sqlite.h"

/* Brings the file to WAL mode and the schema to this program's version, as open_mode allows. Under
 * the gate, on the writer. HF_SCHEMA: the file is newer and does not take this program. An older
 * one that may not be migrated is left as it is. HF_NOTFOUND: there is no schema and none may be
 * made. */
hf_status migrate_schema(struct sqlite_engine *engine, hf_open_mode open_mode,
                         struct deadline deadline);

/* Finds or makes the namespace and sets engine->namespace_id. Under the gate. HF_NOTFOUND. */
hf_status migrate_namespace(struct sqlite_engine *engine, hf_open_mode open_mode, int64_t now_us,
                            struct deadline deadline);

/* Whether nothing has to be written to open it: WAL mode, a schema that need not be changed, and
 * the namespace is there; engine->namespace_id is set then. Only reads, on the writer. */
bool migrate_is_done(struct sqlite_engine *engine, hf_open_mode open_mode,
                     struct deadline deadline);

/* Tells what migrate_schema would do; engine NULL: there is no file, or no schema in it. HF_SCHEMA:
 * the schema has been changed by others. */
hf_status migrate_plan(struct sqlite_engine *engine, hf_migration_fn found, void *ctx);

#endif
