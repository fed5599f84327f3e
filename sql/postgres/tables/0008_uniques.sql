-- Unique keys of events: the first event with the key, and until when no other is stored. position
-- is NULL if the event was for later: then it is in delayed, or in the log, or cancelled. sweep_at:
-- when to look whether the row may go: not before `until`, and not while the event waits.
CREATE TABLE holdfast_private.uniques (
    position     bigint,
    until        timestamptz NOT NULL,
    sweep_at     timestamptz NOT NULL,
    id           uuid NOT NULL,
    namespace_id integer NOT NULL,
    key          text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, key)
) WITH (fillfactor = 80);
CREATE INDEX uniques_sweep ON holdfast_private.uniques (namespace_id, sweep_at);

ALTER TABLE holdfast_private.uniques ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON holdfast_private.uniques FOR SELECT
    USING (namespace_id = ANY ((SELECT holdfast.namespaces_of('publisher', 'owner'))::integer[]));

-- They take more: functions/ makes them anew.
DROP FUNCTION IF EXISTS holdfast.append(integer, uuid[], text[], json[], text[], text[], json[],
    text[], timestamptz[], bigint[], bigint[], bytea);
DROP FUNCTION IF EXISTS holdfast.change_delay(integer, timestamptz, uuid[], text[], json[], text[],
    text[], json[], text[], timestamptz[], bigint[], bytea);
DROP FUNCTION IF EXISTS holdfast.publish(text, text, json, uuid, text, text, json, text, bigint,
    timestamptz, bytea);
DROP FUNCTION IF EXISTS holdfast.publish_later(text, text, json, timestamptz, uuid, text, text,
    json, text, timestamptz, bytea);
DROP FUNCTION IF EXISTS holdfast.release(text, text, text, bigint[], bytea);
