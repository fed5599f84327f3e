-- Checks of what comes from outside: the functions for C count on the library, which has checked
-- what it sends. What a role sends need not come from there, so it is checked here, as far as a
-- wrong value would harm more than the call itself. A caller that passes by all policies (p_caller
-- is NULL) is believed. All raise HF001.

-- A text of at most so many bytes.
CREATE OR REPLACE FUNCTION holdfast_private.text_check(p_caller oid, p_what text, p_text text,
                                                       p_bytes_max integer)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND octet_length(p_text) > p_bytes_max THEN
        RAISE EXCEPTION '% is % bytes; the limit is %', p_what, octet_length(p_text), p_bytes_max
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Times that can be stored and shown.
CREATE OR REPLACE FUNCTION holdfast_private.times_check(p_caller oid, p_what text,
                                                        VARIADIC p_times timestamptz[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND EXISTS (
        SELECT FROM unnest(p_times) t
        WHERE t < '0001-01-01 00:00:00+00' OR t >= '10000-01-01 00:00:00+00') THEN
        RAISE EXCEPTION '% is outside the years 0001 to 9999', p_what USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- The caller's clock (p_now of subscriptions.sql), which is the server's, but for a little.
CREATE OR REPLACE FUNCTION holdfast_private.clock_check(p_caller oid, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND (p_now BETWEEN clock_timestamp() - interval '1 day'
                                           AND clock_timestamp() + interval '1 day') IS FALSE THEN
        RAISE EXCEPTION 'p_now is %, which is more than a day from the clock of the server', p_now
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Positions of the log: 0 (before the first) up to the newest. NULL is none of them.
CREATE OR REPLACE FUNCTION holdfast_private.positions_check(p_caller oid, p_namespace_id integer,
                                                            p_positions bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_positions_max constant integer := 100000;
    v_head          bigint;
    v_bad           bigint;
BEGIN
    IF p_caller IS NULL OR coalesce(cardinality(p_positions), 0) = 0 THEN
        RETURN;
    END IF;
    IF cardinality(p_positions) > c_positions_max THEN
        RAISE EXCEPTION 'there are % positions; the limit is %', cardinality(p_positions),
            c_positions_max USING ERRCODE = 'HF001';
    END IF;
    v_head := head(p_namespace_id);
    SELECT p INTO v_bad FROM unnest(p_positions) p WHERE (p BETWEEN 0 AND v_head) IS NOT TRUE
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'position % is outside the log', coalesce(v_bad::text, 'NULL')
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Outcomes (settle.sql). p_partition NULL: those of a lease.
CREATE OR REPLACE FUNCTION holdfast_private.outcomes_check(
    p_caller oid, p_namespace_id integer, p_subscription_id bigint, p_partition integer,
    p_now timestamptz, p_kinds integer[], p_positions bigint[], p_lanes bigint[],
    p_attempts integer[], p_uncounted integer[], p_stories text[], p_next timestamptz[],
    p_reasons text[], p_errors text[], p_causes text[], p_unit_firsts bigint[],
    p_unit_events integer[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_kinds), 0);
    v_slice integer;
    v_bad   record;
BEGIN
    IF p_caller IS NULL OR v_count = 0 THEN
        RETURN;
    ELSIF (v_count = ALL (ARRAY[cardinality(p_positions), coalesce(cardinality(p_lanes), v_count),
              coalesce(cardinality(p_attempts), v_count),
              coalesce(cardinality(p_uncounted), v_count),
              coalesce(cardinality(p_stories), v_count), coalesce(cardinality(p_next), v_count),
              coalesce(cardinality(p_reasons), v_count), coalesce(cardinality(p_errors), v_count),
              coalesce(cardinality(p_causes), v_count),
              coalesce(cardinality(p_unit_firsts), v_count),
              coalesce(cardinality(p_unit_events), v_count)]))
          IS NOT TRUE THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    PERFORM lists_check(array_dims(p_kinds), array_dims(p_positions), array_dims(p_lanes),
                        array_dims(p_attempts), array_dims(p_uncounted), array_dims(p_stories),
                        array_dims(p_next), array_dims(p_reasons), array_dims(p_errors),
                        array_dims(p_causes), array_dims(p_unit_firsts),
                        array_dims(p_unit_events));
    PERFORM positions_check(p_caller, p_namespace_id, p_positions);
    SELECT CASE WHEN s.mode = HF_MODE_ORDERED THEN s.partitions END INTO v_slice
        FROM subscriptions s
        WHERE s.id = p_subscription_id;
    SELECT o.position, CASE
            WHEN o.kind IS NULL OR o.kind NOT BETWEEN OUTCOME_DONE AND OUTCOME_BEGUN
                THEN 'is of kind ' || coalesce(o.kind::text, 'NULL')
            WHEN e.position IS NULL
                AND o.kind IN (OUTCOME_RETRY, OUTCOME_HELD, OUTCOME_BLOCK, OUTCOME_BEGUN)
                THEN 'is not in the log'
            WHEN p_partition IS NOT NULL AND e.hash % v_slice <> p_partition
                THEN 'is of another partition'
            WHEN o.kind IN (OUTCOME_RETRY, OUTCOME_HELD, OUTCOME_BLOCK, OUTCOME_BEGUN)
                AND o.lane IS NULL THEN 'has no lane'
            WHEN o.attempts NOT BETWEEN 0 AND 1000000 OR o.uncounted NOT BETWEEN 0 AND 1000000
                THEN 'has an impossible number of attempts'
            WHEN (o.next BETWEEN p_now - interval '1 day' AND p_now + interval '367 days') IS FALSE
                THEN 'is to wait until ' || o.next
            WHEN octet_length(o.story) > 2097152 OR json_typeof(o.story::json) <> 'array'
                OR json_escapes_badly(o.story)
                THEN 'has a story that is none'
            WHEN octet_length(o.reason) > 64 OR octet_length(o.error) > 8192
                THEN 'has a long reason or error'
            WHEN o.cause NOT IN (CAUSE_ANY) THEN 'has a cause that is none'
            WHEN (o.unit_first IS NULL) <> (o.unit_events IS NULL)
                OR o.unit_first NOT BETWEEN 1 AND o.position
                OR o.unit_events NOT BETWEEN 2 AND 10000
                THEN 'has a unit that is none'
        END AS fault INTO v_bad
        FROM unnest(p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next,
                    p_reasons, p_errors, p_causes, p_unit_firsts, p_unit_events)
            o (kind, position, lane, attempts, uncounted, story, next, reason, error, cause,
               unit_first, unit_events)
        LEFT JOIN events_at(p_namespace_id, p_subscription_id, p_positions) e
            ON e.position = o.position
        ORDER BY fault NULLS LAST LIMIT 1;
    IF v_bad.fault IS NOT NULL THEN
        RAISE EXCEPTION 'the outcome of position % %', v_bad.position, v_bad.fault
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Options and patterns of a subscription, which are stored as they come, and which C must be able
-- to read: what the server takes for the same thing (a member that is there twice, 1.0 for 1, a
-- number in the place of a pattern) makes the subscription unreadable, and lists of all stop at it.
CREATE OR REPLACE FUNCTION holdfast_private.definition_check(p_patterns text, p_options text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_whole json;
    v_bad   text;
BEGIN
    IF json_typeof(p_patterns::json) <> 'array' THEN
        RAISE EXCEPTION 'patterns is not a JSON array' USING ERRCODE = 'HF001';
    ELSIF EXISTS (SELECT FROM json_array_elements(p_patterns::json) p
                  WHERE json_typeof(p) <> 'string') THEN
        RAISE EXCEPTION 'patterns has an element that is not a string' USING ERRCODE = 'HF001';
    ELSIF json_typeof(p_options::json) <> 'object' THEN
        RAISE EXCEPTION 'options is JSON but not an object' USING ERRCODE = 'HF001';
    END IF;
    v_whole := options_merge('{}', coalesce(p_options, '{}')::jsonb);
    SELECT o.key INTO v_bad
        FROM json_each(p_options::json) o LEFT JOIN json_each(v_whole) w ON w.key = o.key
        GROUP BY o.key HAVING count(*) > 1 OR bool_and(o.value::text = w.value::text) IS NOT TRUE
        ORDER BY o.key LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'options has % twice, or not as it is written, or does not know it',
            left(v_bad, 64) USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- A subscription. The partitions of all namespaces share a journal, and shortening it copies a row
-- of each while consumers wait: so a namespace has not more than its share.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_values(
    p_caller oid, p_namespace_id integer, p_name text, p_patterns text, p_options text,
    p_mode integer, p_partitions integer, p_start bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_partitions_max constant bigint := 10000;
    v_partitions     bigint;
BEGIN
    IF p_caller IS NULL THEN
        RETURN;
    END IF;
    PERFORM text_check(p_caller, 'patterns', p_patterns, 65536);
    PERFORM text_check(p_caller, 'options', p_options, 65536);
    PERFORM definition_check(p_patterns, p_options);
    PERFORM fault_check(coalesce(
        name_fault(p_name, 'subscription name', HF_NAME_BYTES_MAX),
        CASE WHEN p_patterns IS NOT NULL THEN
            patterns_fault(p_name, ARRAY(SELECT json_array_elements_text(p_patterns::json))) END,
        CASE WHEN p_mode IS NULL OR p_mode NOT IN (1, 2)
                 THEN format('mode is %s; it takes 1 or 2', p_mode)
             WHEN p_partitions IS NULL OR p_partitions NOT BETWEEN 1 AND HF_PARTITIONS_MAX
                 THEN format('partitions is %s; it must be 1 to '
                             'HF_PARTITIONS_MAX', p_partitions) END));
    PERFORM positions_check(p_caller, p_namespace_id, array_remove(ARRAY[p_start], NULL));
    v_partitions := p_partitions + coalesce(
        (SELECT sum(greatest(s.partitions, s.wanted)) FROM subscriptions s
         WHERE s.namespace_id = p_namespace_id AND s.name <> p_name), 0);
    IF v_partitions > c_partitions_max THEN
        RAISE EXCEPTION 'the subscriptions of the namespace would have % partitions; the limit is '
                        '%, but for the owner of the schema', v_partitions, c_partitions_max
            USING ERRCODE = 'HF001';
    END IF;
END
$$;
