/*
 * migrate.h - the schema and its steps, and the namespace.
 */
#ifndef HF_STORE_POSTGRES_WRITE_MIGRATE_H
#define HF_STORE_POSTGRES_WRITE_MIGRATE_H

#include "store/postgres/postgres.h"

/* Brings the schema `holdfast` to this program's version, as open_mode allows, on the writer's
 * session. HF_SCHEMA: it is newer, or a migration is needed and not allowed. HF_NOTFOUND: there is
 * none and none may be made. */
hf_status postgres_migrate(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline);

/* Finds or makes the namespace and sets engine->namespace_id and the statements' texts.
 * HF_NOTFOUND. */
hf_status postgres_namespace(struct postgres_engine *engine, hf_open_mode open_mode,
                             struct deadline deadline);

#endif
