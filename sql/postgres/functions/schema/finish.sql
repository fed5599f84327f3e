-- What is done after all functions have been made, anew or for the first time. This is the last
-- file.

-- What each namespace has of its own (append_<id>, claim_<id>, lease_events_<id>, pending_<id>) is
-- made of texts that may be new.
DO $$
BEGIN
    PERFORM holdfast_private.gate_take(1, 'granting');
    PERFORM holdfast_private.append_make(n.id), holdfast_private.claim_make(n.id),
            holdfast_private.log_make(n.id), holdfast_private.pending_make(n.id)
        FROM holdfast_private.namespaces n
        WHERE to_regclass('holdfast_private.events_' || n.id) IS NOT NULL;
END
$$;

-- A function that is in no file any more goes: its row is older than this transaction. All others
-- were written by it, or below a savepoint of it, whose number is higher than that of finish_mark.
-- Rights are changed after this, because that writes the rows of functions, too. If something of
-- the application depends on one that goes, the server says so, and nothing is changed.
CREATE OR REPLACE FUNCTION holdfast_private.finish_mark() RETURNS void
    LANGUAGE sql
    RETURN NULL::void;
DO $$
DECLARE
    v_gone text;
BEGIN
    SELECT string_agg(p.oid::regprocedure::text, ', ') INTO v_gone
        FROM pg_proc p
        WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
            AND age(p.xmin) > (SELECT age(m.xmin) FROM pg_proc m
                               WHERE m.oid = 'holdfast_private.finish_mark()'::regprocedure);
    IF v_gone IS NOT NULL THEN
        EXECUTE 'DROP ROUTINE ' || v_gone;
    END IF;
END
$$;
DROP FUNCTION holdfast_private.finish_mark();

-- What runs with its owner's rights is for the roles that grants.sql grants it to, and for no
-- others; the functions of triggers are for none. A function that is new here has to be granted to
-- those who have a part in a namespace.
DO $$
DECLARE
    v_grant record;
BEGIN
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', holdfast_private.entry_list(NULL));
    EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC',
                   (SELECT string_agg(format('holdfast.%I', name), ', ')
                    FROM unnest(holdfast_private.owner_functions()) name));
    FOR v_grant IN SELECT DISTINCT g.namespace_id, g.grantee FROM holdfast_private.grants g LOOP
        PERFORM holdfast_private.grants_apply(v_grant.namespace_id, v_grant.grantee);
    END LOOP;
END
$$;

-- The server takes a table for one of ten pages until it has been analysed, and would look for the
-- row of a namespace, which every publisher reads, in an index: that costs more than to read the
-- few rows that there are. From here on it counts the pages whenever it makes a plan.
ANALYZE holdfast_private.namespaces;
