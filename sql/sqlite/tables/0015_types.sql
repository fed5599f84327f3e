-- An index on types, for namespaces that ask for one (docs/adr/0001-storage-model.md says what it
-- costs).

-- type_index: enum type_index of src/store/namespace.h. types_through: while it is being built, all
-- events up to this position have their rows.
ALTER TABLE holdfast_namespaces ADD COLUMN type_index INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_namespaces ADD COLUMN types_through INTEGER NOT NULL DEFAULT 0;

-- Where the events of a type are. A table and not an index of the log: the namespaces of a file
-- share the log, and an index is built while all publishers wait.
CREATE TABLE holdfast_types (
    namespace_id INTEGER NOT NULL,
    type         TEXT NOT NULL,
    position     INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, type, position)
) STRICT, WITHOUT ROWID;

-- As before, and what goes from the log goes from here.
DROP TRIGGER holdfast_events_forgotten;
CREATE TRIGGER holdfast_events_forgotten AFTER DELETE ON holdfast_events BEGIN
    UPDATE holdfast_namespaces SET head = old.place & 17592186044415
        WHERE id = old.place >> 44 AND head < old.place & 17592186044415;
    DELETE FROM holdfast_types
        WHERE namespace_id = old.place >> 44 AND type = old.type
            AND position = old.place & 17592186044415;
END;
