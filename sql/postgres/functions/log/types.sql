-- The index on types of a namespace: what is left to do for it, and reading by it.
--
-- Months get it when they are made (months.sql). Those that are there get it one by one, by CREATE
-- INDEX CONCURRENTLY, for which no publisher waits and which no function can run: a step answers
-- the command, and the client runs it outside of a transaction. What such a command leaves when it
-- is interrupted is an index that is not valid; the next step drops it.

-- The name of a month's index.
CREATE OR REPLACE FUNCTION holdfast_private.type_index_name(p_month oid) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT c.relname || '_type' FROM pg_class c WHERE c.oid = $1);

-- change_type_steps: `struct type_steps`. p_name NULL: the namespace p_own. command: to be run
-- next; NULL: nothing is. HF_BUSY: another session builds one. For the owner of the schema.
CREATE OR REPLACE FUNCTION holdfast.change_type_steps(p_name text, p_own integer,
                                                      OUT status integer, OUT message text,
                                                      OUT more boolean, OUT command text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace record;
    v_month     record;
BEGIN
    status := HF_OK;
    more := false;
    PERFORM owner_check('build the index on types of a namespace');
    SELECT n.id, n.type_index INTO v_namespace FROM namespaces n
        WHERE CASE WHEN p_name IS NULL THEN n.id = p_own ELSE n.name = p_name END
            AND n.removing_at IS NULL;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no namespace %s', coalesce(left(p_name, 255), p_own::text));
        RETURN;
    END IF;
    -- Of months to index the first that has no index, or a broken one; of those to free any that
    -- has one.
    SELECT t.relname AS month, type_index_name(t.oid) AS name, i.indexrelid, i.indisvalid
        INTO v_month
        FROM pg_inherits h JOIN pg_class t ON t.oid = h.inhrelid
        LEFT JOIN (pg_index i JOIN pg_class x ON x.oid = i.indexrelid)
            ON i.indrelid = t.oid AND x.relname = type_index_name(t.oid)
        WHERE h.inhparent = log_of(v_namespace.id) AND NOT h.inhdetachpending
            AND CASE WHEN v_namespace.type_index IN (TYPE_INDEX_BUILDING, TYPE_INDEX_ON)
                     THEN i.indisvalid IS NOT TRUE ELSE i.indexrelid IS NOT NULL END
        ORDER BY t.relname LIMIT 1;
    IF FOUND THEN
        more := true;
        IF EXISTS (SELECT FROM pg_stat_progress_create_index p
                   WHERE p.index_relid = v_month.indexrelid) THEN
            status := HF_BUSY;
            message := format('another session builds the index on types of %s', v_month.month);
        ELSIF v_month.indexrelid IS NOT NULL THEN
            command := format('DROP INDEX CONCURRENTLY IF EXISTS holdfast_private.%I',
                              v_month.name);
        ELSE
            command := format('CREATE INDEX CONCURRENTLY IF NOT EXISTS %I '
                              'ON holdfast_private.%I (type, position)',
                              v_month.name, v_month.month);
        END IF;
        RETURN;
    END IF;
    UPDATE namespaces n
        SET type_index = CASE n.type_index WHEN TYPE_INDEX_BUILDING THEN TYPE_INDEX_ON
                                           WHEN TYPE_INDEX_DROPPING THEN TYPE_INDEX_OFF END
        WHERE n.id = v_namespace.id AND n.type_index = v_namespace.type_index
            AND n.type_index IN (TYPE_INDEX_BUILDING, TYPE_INDEX_DROPPING);
END
$$;

-- type_positions: positions of up to p_max events of a namespace that the patterns match, after
-- p_after and up to p_through, in order. NULL: the patterns match more than STORE_TYPES_MAX types,
-- or more than STORE_TYPES_WALK_MAX would have to be compared with one of them. It runs with its
-- caller's rights, and is right without the index, too, but reads all of the log then.
--   A pattern without a star is a type. Of the others, types are found by going from one to the
-- next behind it in the index, from what stands before the star on.
CREATE OR REPLACE FUNCTION holdfast.type_positions(p_namespace_id integer, p_patterns text[],
                                                   p_after bigint, p_through bigint, p_max integer)
    RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_exact     text[] := ARRAY(SELECT p FROM unnest(p_patterns) p WHERE strpos(p, '*') = 0);
    v_prefixes  text[] := ARRAY(SELECT DISTINCT split_part(p, '*', 1) FROM unnest(p_patterns) p
                                WHERE strpos(p, '*') > 0);
    v_positions bigint[];
BEGIN
    EXECUTE replace($query$
        WITH RECURSIVE walk (prefix, type, steps) AS (
            SELECT p.prefix, (SELECT e.type FROM holdfast.log_{namespace}() e
                              WHERE e.type >= p.prefix ORDER BY e.type LIMIT 1), 1
            FROM unnest($4::text[]) p (prefix)
            UNION ALL
            SELECT w.prefix, (SELECT e.type FROM holdfast.log_{namespace}() e
                              WHERE e.type > w.type ORDER BY e.type LIMIT 1), w.steps + 1
            FROM walk w
            WHERE starts_with(w.type, w.prefix) AND w.steps <= STORE_TYPES_WALK_MAX),
        found AS MATERIALIZED (
            SELECT t.type FROM (
                SELECT unnest($3::text[]) COLLATE "C" AS type
                UNION
                SELECT w.type FROM walk w WHERE starts_with(w.type, w.prefix) AND w.type ~ $5) t
            LIMIT STORE_TYPES_MAX + 1),
        fit AS MATERIALIZED (
            SELECT (SELECT count(*) FROM found) <= STORE_TYPES_MAX AND NOT EXISTS (
                SELECT FROM walk w
                WHERE w.steps > STORE_TYPES_WALK_MAX AND starts_with(w.type, w.prefix)) AS whole)
        SELECT CASE WHEN (SELECT f.whole FROM fit f) THEN ARRAY(
            SELECT p.position FROM found f
            CROSS JOIN LATERAL (
                SELECT e.position FROM holdfast.log_{namespace}() e
                WHERE e.type = f.type AND e.position > $1 AND e.position <= $2
                ORDER BY e.position LIMIT $6) p
            ORDER BY p.position LIMIT $6) END
        $query$, '{namespace}', p_namespace_id::text)
        INTO v_positions
        USING p_after, p_through, v_exact, v_prefixes, patterns_regex(p_patterns), p_max;
    RETURN v_positions;
END
$$;

-- read_types: the events that type_positions finds. known: whether it finds them. At least one row:
-- position NULL if there is no event.
CREATE OR REPLACE FUNCTION holdfast.read_types(p_namespace_id integer, p_patterns text[],
                                               p_after bigint, p_through bigint, p_max integer)
    RETURNS TABLE (known boolean, event holdfast.event)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_positions bigint[] := type_positions(p_namespace_id, p_patterns, p_after, p_through, p_max);
BEGIN
    RETURN QUERY SELECT v_positions IS NOT NULL, e
        FROM (SELECT) one
        LEFT JOIN events_at(p_namespace_id, NULL, v_positions) e ON true
        ORDER BY e.position;
END
$$;
