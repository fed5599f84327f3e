-- Sets of positions, and holes: positions that were not visible when a claim passed them (the type
-- hole, tables/0003_subscriptions.sql).
--
-- How a hole ends. A transaction that draws a position declares it before, by a lock that it keeps
-- to its end (publishers.sql). So first the holders of that lock are read (hole_look), then the
-- hole; whatever it shows is handed out. The holders of the first such look are kept as witnesses.
-- When a later look finds none of them, and no prepared transaction (those change their name when
-- they are prepared), the transactions that had drawn the missing numbers had ended before the hole
-- was read, and what is still missing will never come. A hole is looked at for holders when it is
-- PROBE_DELAY_MS old, and then at most every PROBE_PERIOD_MS.
--   After a crash the witnesses of the former server are gone. A cursor that survives a crash was
-- written after the sequence's own record, so no number below it is given again.
--   docs/ordering.md has the proof, and says why readers of ordered subscriptions have it in C
-- (base/gap.h).

-- ---- Sets of positions --------------------------------------------------------------------------

-- How many positions these are.
CREATE OR REPLACE FUNCTION holdfast_private.positions_count(p_positions int8multirange)
    RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN (SELECT coalesce(sum(upper(r) - lower(r)), 0) FROM unnest(p_positions) r);
END
$$;

-- These positions as a set.
CREATE OR REPLACE FUNCTION holdfast_private.positions_of(p_positions bigint[])
    RETURNS int8multirange
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN (SELECT coalesce(range_agg(int8range(p, p + 1)), '{}') FROM unnest(p_positions) p);
END
$$;

-- The positions of a set, in order.
CREATE OR REPLACE FUNCTION holdfast_private.positions_list(p_positions int8multirange)
    RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT p FROM unnest(p_positions) r, generate_series(lower(r), upper(r) - 1) p
                 ORDER BY p);
END
$$;

-- ---- Holes --------------------------------------------------------------------------------------

-- Who may still fill holes: the virtual transactions that are publishing, and whether a prepared
-- one is among them. Holes must be read afterwards, in another statement. p_own: also the
-- transaction that asks.
CREATE OR REPLACE FUNCTION holdfast_private.hole_holders(p_namespace_id integer,
                                                         p_own boolean DEFAULT true,
                                                         OUT holders text[], OUT prepared boolean)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    SELECT coalesce(array_agg(l.virtualtransaction), '{}'), coalesce(bool_or(l.pid IS NULL), false)
        INTO holders, prepared
        FROM publishing_now(p_namespace_id) l
        WHERE p_own OR l.pid IS DISTINCT FROM pg_backend_pid();
END
$$;

-- Whether every transaction that a former look has found has ended: none of these witnesses is
-- among the holders, nor is any prepared transaction, which may be one of them under another name.
CREATE OR REPLACE FUNCTION holdfast_private.witnesses_gone(p_witnesses text[], p_holders text[],
                                                           p_prepared boolean)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN NOT $3 AND NOT $1 && $2;

-- hole_holders, if it is time to look and the server shows its locks; else holders is NULL.
CREATE OR REPLACE FUNCTION holdfast_private.hole_look(p_namespace_id integer,
                                                      p_holes holdfast_private.hole[],
                                                      p_clock timestamptz, OUT holders text[],
                                                      OUT prepared boolean)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    prepared := false;
    IF (SELECT bool_or(CASE WHEN h.probed_at IS NULL
                            THEN h.since < p_clock - PROBE_DELAY_MS * interval '1 ms'
                            ELSE h.probed_at < p_clock - PROBE_PERIOD_MS * interval '1 ms'
                                 OR h.probed_at > p_clock END)
        FROM unnest(p_holes) h)
       AND has_table_privilege('pg_catalog.pg_locks', 'SELECT') THEN
        SELECT h.holders, h.prepared INTO hole_look.holders, hole_look.prepared
            FROM hole_holders(p_namespace_id) h;
    END IF;
END
$$;

-- What is left of holes, which are in order and do not touch. p_found: the positions that were seen
-- in them; nothing is known above p_stop. p_holders NULL: there was no look, so nothing else can be
-- said. Else it was read before p_found, and a hole whose witnesses are gone will never be filled;
-- one that has no witnesses yet gets these. Witnesses of another server are all gone.
CREATE OR REPLACE FUNCTION holdfast_private.holes_left(p_holes holdfast_private.hole[],
                                                       p_found int8multirange, p_stop bigint,
                                                       p_holders text[], p_prepared boolean,
                                                       p_clock timestamptz)
    RETURNS holdfast_private.hole[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_start timestamptz := pg_postmaster_start_time();
    v_lows  bigint[] := ARRAY(SELECT h.low FROM unnest(p_holes) h);
BEGIN
    RETURN (
        WITH found AS (                         -- the positions of each hole, by its number
            SELECT width_bucket(lower(r), v_lows) AS number, range_agg(r) AS positions
            FROM unnest(p_found) r GROUP BY 1),
        holes AS (
            SELECT o.*, CASE WHEN o.witnesses IS NULL THEN p_holders
                             WHEN o.server_start = v_start THEN o.witnesses
                             ELSE '{}' END AS watched
            FROM unnest(p_holes) WITH ORDINALITY
                o (low, high, since, probed_at, server_start, witnesses, number))
        SELECT coalesce(array_agg(
                   CASE WHEN p_holders IS NULL
                        THEN ROW(lower(part), upper(part) - 1, h.since, h.probed_at, h.server_start,
                                 h.witnesses)::hole
                        ELSE ROW(lower(part), upper(part) - 1, h.since, p_clock, v_start,
                                 h.watched)::hole
                   END ORDER BY lower(part)), '{}')
        FROM holes h LEFT JOIN found f ON f.number = h.number
        CROSS JOIN LATERAL unnest(int8multirange(int8range(h.low, h.high, '[]'))
                                  - coalesce(f.positions, '{}')) part
        WHERE p_holders IS NULL OR h.high > p_stop
            OR NOT witnesses_gone(h.watched, p_holders, p_prepared));
END
$$;

-- decided_through: the newest position that was drawn, if nothing at or below it can become visible
-- after this: the transactions that were publishing when it was read have ended. Waits for them for
-- some milliseconds; NULL: one of them lasts longer, or it cannot be seen who publishes. What is
-- missing below it in a later statement was rolled back. The caller's own transaction sees its own
-- events.
CREATE OR REPLACE FUNCTION holdfast_private.decided_through(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_looks_max constant integer := 4;
    v_head      bigint := head(p_namespace_id); -- before the first look
    v_first     record;
    v_look      record;
BEGIN
    IF NOT has_table_privilege('pg_catalog.pg_locks', 'SELECT') THEN
        RETURN NULL;
    END IF;
    v_first := hole_holders(p_namespace_id, false);
    v_look := v_first;
    FOR look IN 2 .. c_looks_max LOOP
        EXIT WHEN witnesses_gone(v_first.holders, v_look.holders, v_look.prepared);
        PERFORM pg_sleep(0.003);
        v_look := hole_holders(p_namespace_id, false);
    END LOOP;
    RETURN CASE WHEN witnesses_gone(v_first.holders, v_look.holders, v_look.prepared)
                THEN v_head END;
END
$$;
