/*
 * migrate.h - the schema and its steps, and the namespace.
 */
#ifndef HF_STORE_SQLITE_FILE_MIGRATE_H
#define HF_STORE_SQLITE_FILE_MIGRATE_H

#include "store/sqlite/sqlite.h"

/* Brings the file to WAL mode and the schema to this program's version, as open_mode allows. Under
 * the gate, on the writer. HF_SCHEMA: the file is newer, or a migration is needed and not allowed.
 * HF_NOTFOUND: there is no schema and none may be made. */
hf_status migrate_schema(struct sqlite_engine *engine, hf_open_mode open_mode,
                         struct deadline deadline);

/* Finds or makes the namespace and sets engine->namespace_id. Under the gate. HF_NOTFOUND. */
hf_status migrate_namespace(struct sqlite_engine *engine, hf_open_mode open_mode, int64_t now_us,
                            struct deadline deadline);

/* Whether nothing has to be written to open it: WAL mode, this program's schema, and the namespace
 * is there; engine->namespace_id is set then. Only reads, on the writer. */
bool migrate_is_done(struct sqlite_engine *engine, struct deadline deadline);

#endif
