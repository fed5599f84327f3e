-- Dead letters of one kind agree in subscription, type, reason and error. How many of each kind are
-- open is counted along, so that groups of dead letters need not be counted by reading all of them.
ALTER TABLE holdfast_private.letters ADD COLUMN kind_hash bigint NOT NULL
    GENERATED ALWAYS AS (('x' || md5(subscription || E'\n' || type || E'\n' || reason || E'\n'
                                     || coalesce(error, '')))::bit(64)::bigint
                         & 9223372036854775807) STORED;

-- The first and the last letter of a kind.
CREATE INDEX letters_open_kind
    ON holdfast_private.letters (namespace_id, kind_hash, id) WHERE resolved_at IS NULL;

-- The letters of a kind are the sum of its rows. Rows are only inserted, and now and then replaced
-- by their sum: those who bury letters of one kind never wait for each other, and no row is updated
-- again and again while an old snapshot keeps all its versions.
CREATE TABLE holdfast_private.dead_kinds (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    kind_hash    bigint NOT NULL,
    letters      bigint NOT NULL
);
CREATE INDEX dead_kinds_by_kind ON holdfast_private.dead_kinds (namespace_id, kind_hash);
CREATE INDEX dead_kinds_largest ON holdfast_private.dead_kinds (namespace_id, letters, kind_hash);
INSERT INTO holdfast_private.dead_kinds (namespace_id, kind_hash, letters)
    SELECT l.namespace_id, l.kind_hash, count(*) FROM holdfast_private.letters l
    WHERE l.resolved_at IS NULL GROUP BY l.namespace_id, l.kind_hash;

ALTER TABLE holdfast_private.dead_kinds ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON holdfast_private.dead_kinds FOR SELECT
    USING (namespace_id = ANY ((SELECT holdfast.namespaces_of('viewer', 'consumer',
                                                              'owner'))::integer[]));
