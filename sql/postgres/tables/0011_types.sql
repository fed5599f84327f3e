-- An index on types, for namespaces that ask for one (docs/adr/0001-storage-model.md says what it
-- costs). type_index: enum type_index of src/store/namespace.h. Each month has its own index,
-- beside the two that all have: events_<id>_<yyyymm>_type, of (type, position).
ALTER TABLE holdfast_private.namespaces ADD COLUMN type_index smallint NOT NULL DEFAULT 0;

-- They take more: functions/schema/namespaces.sql makes them anew.
DROP FUNCTION IF EXISTS holdfast.change_namespace_put(text, json, boolean, boolean, bigint, bigint,
                                                      boolean);
DROP FUNCTION IF EXISTS holdfast.create_namespace(text, boolean, json, bigint, bigint, text);
DROP FUNCTION IF EXISTS holdfast.alter_namespace(text, json, bigint, bigint, text);
