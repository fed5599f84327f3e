-- Outcomes: what is kept of deliveries that failed first and then succeeded, and how often events
-- were handed out (docs/delivery.md).
--
--     shared     A lease counts. The row in retries has the number; of events without a row the
--                lease itself (`handed`), as far as it is more than 1.
--     ordered    The attempts count, because each that failed is stored. What an owner had in hand
--                when it died, or lost the partition, is not known: up to the partition's
--                doubt_through there is no number.

-- How often a position of a lease was handed out, if it has no row in retries; NULL: not known.
CREATE OR REPLACE FUNCTION holdfast.times_of(p_handed holdfast_private.handed[], p_position bigint)
    RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.times FROM (SELECT h.times, 1 AS place FROM unnest($1) h WHERE h.positions @> $2
                         UNION ALL SELECT 1, 2 ORDER BY 2 LIMIT 1) t;
END;

-- What the next lease has of it: these positions of a lease were handed out once more.
CREATE OR REPLACE FUNCTION holdfast_private.handed_again(p_handed holdfast_private.handed[],
                                                         p_taken int8multirange)
    RETURNS holdfast_private.handed[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_first int8multirange := p_taken - coalesce(
        (SELECT range_agg(r) FROM unnest(p_handed) h, unnest(h.positions) r), '{}'::int8multirange);
BEGIN
    RETURN ARRAY(SELECT ROW(h.times + 1, h.positions * p_taken)::handed FROM unnest(p_handed) h
                 WHERE h.positions && p_taken)
        || CASE WHEN NOT isempty(v_first) THEN ARRAY[ROW(2, v_first)::handed] END;
END
$$;

-- The same numbers together; NULL: there are none.
CREATE OR REPLACE FUNCTION holdfast_private.handed_merge(p_handed holdfast_private.handed[])
    RETURNS holdfast_private.handed[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(ROW(m.times, m.positions)::handed)
            FROM (SELECT h.times, range_agg(r) AS positions
                  FROM unnest(p_handed) h, unnest(h.positions) r GROUP BY h.times) m);
END
$$;

-- How often a delivery of an ordered partition was handed out that has so many attempts; NULL: not
-- known.
CREATE OR REPLACE FUNCTION holdfast_private.ordered_times(p_subscription_id bigint,
                                                          p_partition integer, p_position bigint,
                                                          p_stored integer, p_attempts integer)
    RETURNS integer
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN $4 IS NOT NULL OR $3 > (SELECT p.doubt_through
                                             FROM holdfast_private.partitions p
                                             WHERE p.subscription_id = $1 AND p.partition = $2)
                THEN $5 END;
END;

-- Of the outcomes of a subscription only the last HF_OUTCOMES_MAX stay.
CREATE OR REPLACE FUNCTION holdfast_private.outcomes_trim(p_subscription_id bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    DELETE FROM outcomes d
        USING (SELECT k.position FROM outcomes k WHERE k.subscription_id = p_subscription_id
               ORDER BY k.number DESC OFFSET HF_OUTCOMES_MAX FOR UPDATE SKIP LOCKED) old
        WHERE d.subscription_id = p_subscription_id AND d.position = old.position;
END
$$;

-- Keeps the stories of deliveries that are done, before their rows in retries go: of those that
-- have failed, other than by the attempt that was recorded before it ran. p_attempts: so many had
-- failed before it; NULL, or NULL of one: all that are recorded.
CREATE OR REPLACE FUNCTION holdfast_private.outcomes_keep(
    p_subscription_id bigint, p_ordered boolean, p_partition integer, p_positions bigint[],
    p_attempts integer[], p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO outcomes AS k (subscription_id, position, settled_at, attempts, deliveries, cause,
                               story)
        SELECT p_subscription_id, r.position, p_now, f.attempts,
               CASE WHEN p_ordered
                    THEN ordered_times(p_subscription_id, p_partition, r.position, r.deliveries,
                                       f.attempts + r.uncounted + 1)
                    ELSE r.deliveries END,
               r.cause,
               CASE WHEN r.attempts > f.attempts
                    THEN (SELECT json_agg(s.attempt ORDER BY s.i)
                          FROM json_array_elements(r.story::json) WITH ORDINALITY s (attempt, i)
                          WHERE s.i < json_array_length(r.story::json))::text
                    ELSE r.story END
        FROM unnest(p_positions, p_attempts) o (position, attempts)
        JOIN retries r ON r.subscription_id = p_subscription_id AND r.position = o.position
        CROSS JOIN LATERAL (SELECT least(r.attempts, CASE WHEN o.attempts >= 0 THEN o.attempts END)
                                   AS attempts) f
        WHERE f.attempts + r.uncounted > 0 AND (p_ordered OR r.kind = RETRY_LEASED)
        ORDER BY r.last_retry_at
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET number = excluded.number, settled_at = excluded.settled_at,
            attempts = excluded.attempts, deliveries = excluded.deliveries,
            cause = excluded.cause, story = excluded.story;
    IF FOUND THEN
        PERFORM outcomes_trim(p_subscription_id);
    END IF;
END
$$;
