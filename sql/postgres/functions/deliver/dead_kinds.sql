-- How many open dead letters of each kind there are, counted along (src/store/dead.h), and the
-- groups that are made of it.

-- dead_kinds_fold: of the rows with numbers up to p_number those that belong together become one.
-- How far it looks back doubles with each second, fourth, eighth ... call, as in p_number the
-- zeros behind the last one: so a row is moved a few times, however many there are, and rows that
-- an old snapshot keeps are passed by as seldom. Rows that another transaction folds are left out.
CREATE OR REPLACE FUNCTION holdfast_private.dead_kinds_fold(p_namespace_id integer, p_number bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_back_max constant bigint := 65536;
    v_above    bigint := p_number - least(p_number & -p_number, c_back_max);
BEGIN
    WITH several AS (
        SELECT k.kind_hash FROM dead_kinds k
            WHERE k.number > v_above AND k.namespace_id = p_namespace_id
            GROUP BY k.kind_hash HAVING count(*) > 1),
    held AS MATERIALIZED (
        SELECT k.number FROM dead_kinds k
            WHERE k.number > v_above AND k.namespace_id = p_namespace_id
                AND k.kind_hash IN (SELECT s.kind_hash FROM several s)
            FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM dead_kinds k USING held h WHERE k.number = h.number
            RETURNING k.kind_hash, k.letters)
    INSERT INTO dead_kinds (namespace_id, kind_hash, letters)
        SELECT p_namespace_id, g.kind_hash, sum(g.letters) FROM gone g
        GROUP BY g.kind_hash HAVING sum(g.letters) <> 0;
END
$$;

-- dead_kinds_note: there are p_change more open letters (negative: fewer) of each of these kinds,
-- for every time that it is named; NULL: none. One call in a hundred folds.
CREATE OR REPLACE FUNCTION holdfast_private.dead_kinds_note(p_namespace_id integer,
                                                            p_kinds bigint[], p_change integer)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_fold_after constant bigint := 128;
    v_number     bigint;
BEGIN
    WITH noted AS (
        INSERT INTO dead_kinds (namespace_id, kind_hash, letters)
            SELECT p_namespace_id, k, p_change * count(*) FROM unnest(p_kinds) k
            WHERE k IS NOT NULL GROUP BY k
            RETURNING number)
    SELECT n.number INTO v_number FROM noted n
        WHERE n.number % c_fold_after = 0 ORDER BY n.number & -n.number DESC LIMIT 1;
    IF FOUND THEN
        PERFORM dead_kinds_fold(p_namespace_id, v_number);
    END IF;
END
$$;

-- letter_of: the newest letter of a delivery: the open one, if there is one. NULL: there is none.
CREATE OR REPLACE FUNCTION holdfast.letter_of(p_namespace_id integer, p_subscription text,
                                              p_event_id uuid)
    RETURNS bigint
    LANGUAGE sql STABLE
    RETURN coalesce(
        (SELECT l.id FROM holdfast.read_letters() l
         WHERE l.namespace_id = $1 AND l.subscription = $2 AND l.event_id = $3
             AND l.resolved_at IS NULL),
        (SELECT l.id FROM holdfast.read_letters() l
         WHERE l.namespace_id = $1 AND l.subscription = $2 AND l.event_id = $3
             AND l.resolved_at IS NOT NULL ORDER BY l.id DESC LIMIT 1));

-- ---- Groups -------------------------------------------------------------------------------------

-- dead_by: of these four the one that p_by names; none is ''.
CREATE OR REPLACE FUNCTION holdfast.dead_by(p_by text, p_error text, p_type text,
                                            p_subscription text, p_reason text)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE $1 WHEN 'error' THEN coalesce($2, '') WHEN 'type' THEN $3
                   WHEN 'subscription' THEN $4 WHEN 'reason' THEN $5 END;

-- dead_kind_parts: the kinds of letters that meet the conditions (NULL: any; p_type: a regular
-- expression), of the p_kinds_max with most letters. A kind is what its newest letter is.
--   The first and the last letter are asked for in an order that only one index has, so that the
-- planner takes it whatever it knows of the table. Such a letter is of the kind, because one is.
CREATE OR REPLACE FUNCTION holdfast.dead_kind_parts(
    p_namespace_id integer, p_by text, p_subscription text, p_type text, p_error text,
    p_reason text, p_kinds_max integer)
    RETURNS TABLE ("text" text, letters numeric, newest_id bigint, oldest_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH largest AS MATERIALIZED (
            SELECT DISTINCT p.kind_hash FROM (
                SELECT k.kind_hash FROM read_dead_kinds() k WHERE k.namespace_id = p_namespace_id
                ORDER BY k.letters DESC LIMIT p_kinds_max) p)
        SELECT dead_by(p_by, newest.error, newest.type, newest.subscription, newest.reason),
               counted.letters, newest.id, oldest.id
        FROM largest l
        CROSS JOIN LATERAL (
            SELECT sum(k.letters) AS letters FROM read_dead_kinds() k
            WHERE k.namespace_id = p_namespace_id AND k.kind_hash = l.kind_hash) counted
        CROSS JOIN LATERAL (
            SELECT d.id, d.error, d.type, d.subscription, d.reason FROM read_letters() d
            WHERE (d.namespace_id, d.kind_hash) <= (p_namespace_id, l.kind_hash)
                AND d.resolved_at IS NULL
            ORDER BY d.namespace_id DESC, d.kind_hash DESC, d.id DESC LIMIT 1) newest
        CROSS JOIN LATERAL (
            SELECT d.id FROM read_letters() d
            WHERE (d.namespace_id, d.kind_hash) >= (p_namespace_id, l.kind_hash)
                AND d.resolved_at IS NULL
            ORDER BY d.namespace_id, d.kind_hash, d.id LIMIT 1) oldest
        WHERE counted.letters > 0
            AND (p_subscription IS NULL OR newest.subscription = p_subscription)
            AND (p_type IS NULL OR newest.type ~ p_type)
            AND (p_error IS NULL OR strpos(newest.error, p_error) > 0)
            AND (p_reason IS NULL OR newest.reason = p_reason);
END
$$;

-- dead_letter_parts: the same of letters that are read one by one, with the conditions that hold
-- for some letters of a kind and not for others.
CREATE OR REPLACE FUNCTION holdfast.dead_letter_parts(
    p_namespace_id integer, p_by text, p_subscription text, p_type text, p_error text,
    p_reason text, p_failed_before timestamptz, p_failed_after timestamptz, p_after bigint,
    p_before bigint, p_resolved boolean)
    RETURNS TABLE ("text" text, letters numeric, newest_id bigint, oldest_id bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT dead_by(p_by, d.error, d.type, d.subscription, d.reason), count(*)::numeric,
               max(d.id), min(d.id)
        FROM read_letters() d
        WHERE d.namespace_id = p_namespace_id AND d.id > p_after AND d.id < p_before
            AND (p_resolved OR d.resolved_at IS NULL)
            AND (p_subscription IS NULL OR d.subscription = p_subscription)
            AND (p_type IS NULL OR d.type ~ p_type)
            AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
            AND (p_reason IS NULL OR d.reason = p_reason)
            AND (p_failed_before IS NULL OR d.failed_at <= p_failed_before)
            AND (p_failed_after IS NULL OR d.failed_at >= p_failed_after)
        GROUP BY 1;
END
$$;

-- dead_groups: `store_dead_groups`. p_type: a pattern. groups, all_letters and more are those of
-- all groups; if there is none on the page there is one row, whose text is NULL.
CREATE OR REPLACE FUNCTION holdfast.dead_groups(
    p_namespace_id integer, p_by text, p_after bigint, p_before bigint, p_subscription text,
    p_resolved boolean, p_type text, p_error text, p_reason text, p_failed_before timestamptz,
    p_failed_after timestamptz, p_of_kinds boolean, p_limit bigint, p_offset bigint)
    RETURNS TABLE ("text" text, letters bigint, newest_id bigint, newest_at timestamptz,
                   oldest_at timestamptz, groups bigint, all_letters bigint, more boolean)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c_kinds_max constant integer := STORE_DEAD_KINDS_MAX;
    v_type      text := CASE WHEN p_type IS NOT NULL THEN patterns_regex(ARRAY[p_type]) END;
    v_more      boolean := false;
BEGIN
    PERFORM may_see(p_namespace_id, 'dead letters', 'viewer', 'consumer', 'owner');
    IF p_of_kinds THEN
        v_more := EXISTS (SELECT FROM read_dead_kinds() k WHERE k.namespace_id = p_namespace_id
                          ORDER BY k.letters DESC OFFSET c_kinds_max LIMIT 1);
    END IF;
    RETURN QUERY
        WITH parts AS (
            SELECT * FROM dead_kind_parts(p_namespace_id, p_by, p_subscription, v_type, p_error,
                                          p_reason, c_kinds_max) WHERE p_of_kinds
            UNION ALL
            SELECT * FROM dead_letter_parts(p_namespace_id, p_by, p_subscription, v_type, p_error,
                                            p_reason, p_failed_before, p_failed_after, p_after,
                                            p_before, p_resolved) WHERE NOT p_of_kinds),
        grouped AS MATERIALIZED (
            SELECT p.text, sum(p.letters)::bigint AS letters, max(p.newest_id) AS newest_id,
                   min(p.oldest_id) AS oldest_id
            FROM parts p GROUP BY p.text),
        page AS (
            SELECT * FROM grouped g ORDER BY g.letters DESC, g.newest_id DESC
            LIMIT p_limit OFFSET p_offset)
        SELECT p.text, p.letters, p.newest_id,
               (SELECT d.failed_at FROM read_letters() d WHERE d.id = p.newest_id),
               (SELECT d.failed_at FROM read_letters() d WHERE d.id = p.oldest_id),
               t.groups, t.letters, v_more
        FROM (SELECT count(*) AS groups, coalesce(sum(g.letters), 0)::bigint AS letters
              FROM grouped g) t
        LEFT JOIN page p ON true
        ORDER BY p.letters DESC, p.newest_id DESC;
END
$$;

-- dead_letter_groups: the dead letters that meet all conditions (type: a pattern; error: a part of
-- its text; resolved: the resolved ones, too), counted by what they have in common: by is error,
-- type, subscription or reason. The largest groups first, at most max (1 to 10000). more: there are
-- so many different letters that all numbers are at least so large. HF001, HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.dead_letter_groups(
    namespace text, by text DEFAULT 'error', subscription text DEFAULT NULL,
    type text DEFAULT NULL, error text DEFAULT NULL, reason text DEFAULT NULL,
    failed_before timestamptz DEFAULT NULL, failed_after timestamptz DEFAULT NULL,
    resolved boolean DEFAULT false, max integer DEFAULT 100)
    RETURNS TABLE ("text" text, letters bigint, newest_dead_id bigint,
                   newest_failed_at timestamptz, oldest_failed_at timestamptz, more boolean)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace_id integer := reader_namespace(dead_letter_groups.namespace, 'dead letters',
                                               'viewer', 'consumer', 'owner');
BEGIN
    IF dead_letter_groups.max IS NULL OR dead_letter_groups.max NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'max is %; it must be 1 to 10000', dead_letter_groups.max
            USING ERRCODE = 'HF001';
    ELSIF by IS NULL OR by NOT IN ('error', 'type', 'subscription', 'reason') THEN
        RAISE EXCEPTION 'by is %; it must be error, type, subscription or reason', by
            USING ERRCODE = 'HF001';
    END IF;
    IF dead_letter_groups.type IS NOT NULL THEN
        PERFORM fault_check(glob_fault(dead_letter_groups.type, 'pattern'));
    END IF;
    RETURN QUERY
        SELECT g.text, g.letters, g.newest_id, g.newest_at, g.oldest_at, g.more
        FROM dead_groups(v_namespace_id, by, 0, 9223372036854775807,
                         dead_letter_groups.subscription, coalesce(resolved, false),
                         dead_letter_groups.type, dead_letter_groups.error,
                         dead_letter_groups.reason, failed_before, failed_after,
                         failed_before IS NULL AND failed_after IS NULL
                         AND NOT coalesce(resolved, false), dead_letter_groups.max, 0) g
        WHERE g.text IS NOT NULL;
END
$$;
