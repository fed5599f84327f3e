-- Reading: how a role that has no right to use the schema holdfast_private reads what its parts let
-- it see.
--
-- A table is named in a statement only by a role that may use its schema; to lock it the server
-- asks for no other right before it waits. So nothing that a role can name is a table. It reads a
-- table by its function, read_<name>: a body that was parsed when the function was made has no
-- names any more, and the planner puts it in the place of the call, so the statement is the one
-- that it would be with the table. It runs with its caller's rights: SELECT on the table, and the
-- policies (tables/0006_grants.sql).
--   A view would do the same and can be locked like a table. So functions and the library's
-- statements read by these functions, and the views (views.sql) are for people.
--   A variable in a function that roles call is a record: the row type of a table has a name of the
-- schema holdfast_private, too.
DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY holdfast_private.read_tables() || '{checkpoints}'::text[] LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION holdfast.read_%1$s() RETURNS SETOF '
                       'holdfast_private.%1$s LANGUAGE sql STABLE BEGIN ATOMIC SELECT * FROM '
                       'holdfast_private.%1$s; END', v_table);
    END LOOP;
END
$$;

-- log_make: makes what reads the log of one namespace, or makes it anew.
--   log_<id>    the events, for those who may see them
--   times_<id>  positions and times alone, for publishers, too
--   drawn_<id>  the sequence of positions
CREATE OR REPLACE FUNCTION holdfast_private.log_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION holdfast.log_%1$s() RETURNS SETOF '
                   'holdfast_private.events LANGUAGE sql STABLE BEGIN ATOMIC SELECT * FROM '
                   'holdfast_private.events_%1$s; END',
                   p_namespace_id);
    EXECUTE format('CREATE OR REPLACE FUNCTION holdfast.times_%1$s() '
                   'RETURNS TABLE ("position" bigint, entered_at timestamptz) LANGUAGE sql STABLE '
                   'BEGIN ATOMIC SELECT e.position, e.entered_at FROM '
                   'holdfast_private.events_%1$s e; END',
                   p_namespace_id);
    EXECUTE format('CREATE OR REPLACE FUNCTION holdfast.drawn_%1$s() '
                   'RETURNS TABLE (last_value bigint, is_called boolean) LANGUAGE sql STABLE BEGIN '
                   'ATOMIC SELECT s.last_value, s.is_called FROM '
                   'holdfast_private.events_%1$s_position s; END',
                   p_namespace_id);
END
$$;

-- log_root: the log of all namespaces. log_of: that of one; NULL: there is none.
CREATE OR REPLACE FUNCTION holdfast.log_root() RETURNS regclass
    LANGUAGE sql STABLE
    RETURN 'holdfast_private.events'::regclass;

CREATE OR REPLACE FUNCTION holdfast.log_of(p_namespace_id integer) RETURNS regclass
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.oid::regclass FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'holdfast_private.events'::regclass AND c.relname = 'events_' || $1::text;
END;

-- month_exists: whether the log of a namespace has the month of p_at.
CREATE OR REPLACE FUNCTION holdfast.month_exists(p_namespace_id integer, p_at timestamptz)
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = 'holdfast_private'
                       AND n.nspname || '.' || c.relname = holdfast.month_table($1, $2));

-- journal_bytes: how large the journal of checkpoints is.
CREATE OR REPLACE FUNCTION holdfast.journal_bytes() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN pg_relation_size('holdfast_private.checkpoints_0'::regclass)
        + pg_relation_size('holdfast_private.checkpoints_1'::regclass);
