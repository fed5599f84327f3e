/*
 * migrate.h - the schema and its steps, and the namespace.
 */
#ifndef HF_STORE_POSTGRES_WRITE_MIGRATE_H
#define HF_STORE_POSTGRES_WRITE_MIGRATE_H

#include "store/postgres/postgres.h"

/* Makes the schema `holdfast`, or brings it to this program's version, as open_mode says, on the
 * writer's session; sets engine->schema. HF_SCHEMA: this program may not use it, or not without a
 * migration. HF_NOTFOUND: there is none and none may be made. */
hf_status postgres_migrate(struct postgres_engine *engine, hf_open_mode open_mode,
                           struct deadline deadline);

/* Finds or makes the namespace and sets engine->namespace_id and the statements' texts.
 * HF_NOTFOUND. */
hf_status postgres_namespace(struct postgres_engine *engine, hf_open_mode open_mode,
                             struct deadline deadline);

/* Tells what postgres_migrate would do with HF_OPEN_MIGRATE, on the writer's session. HF_SCHEMA,
 * HF_DENIED: it would be refused. */
hf_status postgres_migrate_plan(struct postgres_engine *engine, struct deadline deadline,
                                hf_migration_fn found, void *ctx);

/* HF_SCHEMA if the store was opened only to look, because the schema is too old to work on, or if a
 * migration has left this program behind. */
hf_status postgres_check_work(const struct postgres_engine *engine);

#endif
