-- The tables: one append-only log, cursors, and rows only for exceptions.
--
-- Everything lives in the schema `holdfast`. Names of relations are built from the integer id of a
-- namespace only, never from its name. Ids and tokens are uuid, times timestamptz, payload and
-- metadata json (not jsonb: bytes come back as they were published). Text that only C reads
-- (patterns, options, stories) is text.
--
-- What is written often is never UPDATEd or DELETEd, because dead rows cannot go while any session
-- of the cluster holds an old snapshot, and whoever searches must step over them: events are
-- inserted, checkpoints and cursors are appended to a journal (below).

-- A role without the right to make schemas may be given an empty one that it owns (CREATE SCHEMA holdfast
-- AUTHORIZATION role). In a schema of another role that one could put code in the way of ours, and what
-- has been made would run it: see schema_fault (queries/core.sql), which says it with more words.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'holdfast') THEN
        CREATE SCHEMA holdfast;
    ELSIF EXISTS (SELECT FROM pg_namespace n
                  WHERE n.nspname = 'holdfast' AND n.nspowner::regrole <> quote_ident(current_user)::regrole)
    THEN
        RAISE EXCEPTION 'the schema holdfast belongs to another role' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database has encoding %; Holdfast needs UTF8',
            current_setting('server_encoding') USING ERRCODE = 'HF012';
    END IF;
END
$$;

-- ---- Who calls ----------------------------------------------------------------------------------

-- No role that has a part in a namespace (functions/grants.sql) may write a table. What writes is a function
-- that runs with its owner's rights, and such a function cannot ask who called it: current_user is its
-- owner there. But the default of a parameter is computed by the caller, before. So every such function
-- has the parameter p_ticket, which nobody gives: its default is ticket(), an answer that says which role
-- computed it and that nobody can forge. admit and enter (functions/tickets.sql) read it.
--
-- secret: known to functions that run with their owner's rights alone. Row-level security hides it from
-- members of pg_read_all_data.
CREATE TABLE holdfast.secret (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret bytea NOT NULL
);
INSERT INTO holdfast.secret (secret)
    VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
ALTER TABLE holdfast.secret ENABLE ROW LEVEL SECURITY;

-- door: a view of nothing. Who inserts into it is told by the default of `caller`, for which no role has
-- the right to give another value; door_open runs with its owner's rights and answers the ticket.
--   Whoever may read all tables (pg_read_all_data) can put a view of its own above the door, with another
-- default there, and pg_write_all_data gives the right to every column. So the column has a type of its own,
-- whose only value is the role that computes it.
CREATE DOMAIN holdfast.caller AS oid
    CONSTRAINT caller_is_current CHECK (VALUE = quote_ident(current_user)::regrole::oid);
CREATE VIEW holdfast.door AS
    SELECT NULL::boolean AS ask, NULL::holdfast.caller AS caller, NULL::bytea AS ticket;
ALTER VIEW holdfast.door ALTER COLUMN caller SET DEFAULT quote_ident(current_user)::regrole::oid;

-- Declared here because the trigger needs it; functions/tickets.sql has its body.
CREATE FUNCTION holdfast.door_open() RETURNS trigger
    LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER door_open INSTEAD OF INSERT ON holdfast.door
    FOR EACH ROW EXECUTE FUNCTION holdfast.door_open();

CREATE TABLE holdfast.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Who this database is.
INSERT INTO holdfast.meta (name, value)
    VALUES ('identity', replace(gen_random_uuid()::text, '-', ''));
