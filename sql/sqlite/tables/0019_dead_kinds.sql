-- Dead letters of one kind agree in subscription, type, reason and error. How many of each kind are
-- open is counted along, so that groups of dead letters need not be counted by reading all of them.

-- kind_hash: of the four texts (hash_kind in src/base/hash.h). The function is the program's.
ALTER TABLE holdfast_dead_letters ADD COLUMN kind_hash INTEGER NOT NULL DEFAULT 0;
UPDATE holdfast_dead_letters SET kind_hash = holdfast_kind(subscription, type, reason, error);

-- The first and the last letter of a kind.
CREATE INDEX holdfast_dead_letters_open_kind
    ON holdfast_dead_letters (namespace_id, kind_hash, id) WHERE resolved_at IS NULL;

-- Open letters; a kind without any has no row.
CREATE TABLE holdfast_dead_kinds (
    namespace_id INTEGER NOT NULL,
    kind_hash    INTEGER NOT NULL,
    letters      INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, kind_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_dead_kinds_largest ON holdfast_dead_kinds (namespace_id, letters, kind_hash);
INSERT INTO holdfast_dead_kinds (namespace_id, kind_hash, letters)
    SELECT namespace_id, kind_hash, count(*) FROM holdfast_dead_letters
    WHERE resolved_at IS NULL GROUP BY namespace_id, kind_hash;
