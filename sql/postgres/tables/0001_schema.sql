-- The tables: one append-only log, cursors, and rows only for exceptions.
--
-- Tables, sequences and functions for the inside live in the schema `holdfast_private`, which only
-- its owner may use; the schema `holdfast` has what people and programs call and read
-- (functions/schema/reading.sql says why). Names of relations are built from the integer id of a
-- namespace only, never from its name. Ids and tokens are uuid, times timestamptz, payload and
-- metadata json (not jsonb: bytes come back as they were published). Text that only C reads
-- (patterns, options, stories) is text.
--
-- What is written often is never UPDATEd or DELETEd, because dead rows cannot go while any session
-- of the cluster holds an old snapshot, and a search must step over them: events are inserted,
-- checkpoints and cursors are appended to a journal (below).

-- A role without the right to make schemas may be given two empty ones that it owns (CREATE SCHEMA
-- holdfast AUTHORIZATION role, and holdfast_private). In a schema of another role that one could
-- put code in the way of ours, and what has been made would run it: see schema_fault
-- (queries/core.sql), which says it with more words.
DO $$
DECLARE
    v_schema text;
BEGIN
    FOREACH v_schema IN ARRAY '{holdfast,holdfast_private}'::text[] LOOP
        IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = v_schema) THEN
            EXECUTE format('CREATE SCHEMA %I', v_schema);
        ELSIF EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = v_schema
                          AND n.nspowner::regrole <> quote_ident(current_user)::regrole) THEN
            RAISE EXCEPTION 'the schema % belongs to another role', v_schema
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END LOOP;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database has encoding %; Holdfast needs UTF8',
            current_setting('server_encoding') USING ERRCODE = 'HF012';
    END IF;
END
$$;

-- ---- Who calls ----------------------------------------------------------------------------------

-- No role that has a part in a namespace (functions/schema/grants.sql) may write a table. What
-- writes is a function that runs with its owner's rights, and such a function cannot ask who called
-- it: current_user is its owner there. But the default of a parameter is computed by the caller,
-- before. So every such function has the parameter p_ticket, which callers never give: its default
-- is ticket(), an answer that says which role computed it and that cannot be forged. admit and
-- enter (functions/base/tickets.sql) read it.
--
-- secret: known to functions that run with their owner's rights alone. Row-level security hides it
-- from members of pg_read_all_data.
CREATE TABLE holdfast_private.secret (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret bytea NOT NULL
);
INSERT INTO holdfast_private.secret (secret)
    VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
ALTER TABLE holdfast_private.secret ENABLE ROW LEVEL SECURITY;

CREATE TABLE holdfast_private.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Who this database is.
INSERT INTO holdfast_private.meta (name, value)
    VALUES ('identity', replace(gen_random_uuid()::text, '-', ''));
