-- Sets of positions, and holes: positions that were not visible when a claim passed them. See the type hole
-- (tables/0003_subscriptions.sql).

-- How many positions these are.
CREATE OR REPLACE FUNCTION holdfast_private.positions_count(p_positions int8multirange) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(sum(upper(r) - lower(r)), 0)::integer FROM unnest($1) r;
END;

-- These positions as a set.
CREATE OR REPLACE FUNCTION holdfast_private.positions_of(p_positions bigint[]) RETURNS int8multirange
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(range_agg(int8range(p, p + 1)), '{}'::int8multirange) FROM unnest($1) p;
END;

-- Who may still fill holes: the virtual transactions that are publishing, and whether a prepared one is
-- among them. Whoever reads it must read the holes afterwards, in another statement.
CREATE OR REPLACE FUNCTION holdfast_private.hole_holders(p_namespace_id integer, OUT holders text[],
                                                 OUT prepared boolean)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT coalesce(array_agg(l.virtualtransaction), '{}'), coalesce(bool_or(l.pid IS NULL), false)
    FROM holdfast.publishing_now($1) l;
END;

-- What is left of holes. p_found: the positions that were seen in them; nothing is known above p_stop.
-- p_holders NULL: nobody looked for holders, so nothing else can be said. Else it was read before
-- p_found, and a hole none of whose witnesses is among them will never be filled; one that has no
-- witnesses yet gets these. Witnesses of another server are all gone.
CREATE OR REPLACE FUNCTION holdfast_private.holes_left(p_holes holdfast_private.hole[], p_found bigint[],
                                               p_stop bigint, p_holders text[], p_prepared boolean,
                                               p_clock timestamptz)
    RETURNS holdfast_private.hole[]
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(array_agg(ROW(lower(part), upper(part) - 1, h.since,
               CASE WHEN p_holders IS NULL THEN h.probed_at ELSE p_clock END,
               CASE WHEN p_holders IS NULL THEN h.server_start
                    ELSE pg_catalog.pg_postmaster_start_time() END,
               CASE WHEN p_holders IS NULL THEN h.witnesses ELSE h.watched END)::holdfast_private.hole
               ORDER BY lower(part)), '{}')
    FROM (SELECT o.*, CASE WHEN o.witnesses IS NULL THEN p_holders
                           WHEN o.server_start = pg_catalog.pg_postmaster_start_time() THEN o.witnesses
                           ELSE '{}' END AS watched
          FROM unnest(p_holes) o) h
    CROSS JOIN LATERAL unnest(int8multirange(int8range(h.low, h.high, '[]'))
                              - (SELECT holdfast_private.positions_of(coalesce(array_agg(f), '{}'))
                                 FROM unnest(p_found) f WHERE f BETWEEN h.low AND h.high)) part
    WHERE p_holders IS NULL OR p_prepared OR h.high > p_stop OR h.watched && p_holders;
END;
