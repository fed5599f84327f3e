-- The sources of a claim (claims.sql): what it takes from each of them, and how much.
--
--     retries    those that are due, the earliest first        retries_take
--     leases     that have ended without an answer             claim_orphans, lease_take
--     holes      what has become visible in them               claim_holes
--     the log    after the cursor                              claim_run, claim_log
--                by the index on types, if few events match    claim_typed
--
-- What one claim reads is bounded: STORE_CLAIM_ROWS_MAX rows of the log and of holes, 256 leases
-- that have ended, as many retries as it may hand out, STORE_BATCH_BYTES_MAX of payloads. The time
-- that it takes to compare a type with the patterns grows with the length of both, so a claim with
-- long patterns reads fewer rows (claim_rows_max).
--
-- A lease of several events that ends without an answer is suspect: one of them may be the reason.
-- It is handed out again in halves, each in a lease with nothing else in it, so that after some
-- rounds the guilty one is alone; one that is alone is recorded as a failed attempt and handed out
-- alone from then on (kind ALONE).
--
-- A process that keeps its leases alive (kept: the library's own workers) can do better: it records
-- an attempt before it runs (OUTCOME_BEGUN of change_settle_lease). What such a process leaves
-- behind when it dies is handed to the next of its kind in one piece, `careful`: from then on every
-- run is recorded, so only one was not, and no event is blamed that did not run.

-- ---- How much -----------------------------------------------------------------------------------

-- How many rows a claim may compare with an expression: STORE_CLAIM_ROWS_MAX, or fewer if it is
-- longer than 400 bytes. It is inlined.
CREATE OR REPLACE FUNCTION holdfast_private.claim_rows_max(p_regex text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN $1 IS NULL THEN STORE_CLAIM_ROWS_MAX
                ELSE least(STORE_CLAIM_ROWS_MAX,
                           greatest(50, STORE_CLAIM_ROWS_MAX * 400 / octet_length($1))) END;

-- Adds positions to what a claim hands out.
CREATE OR REPLACE FUNCTION holdfast_private.claim_add(p_claim holdfast_private.claiming,
                                                      p_part holdfast_private.log_part)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_part.count > 0 THEN
        p_claim.positions := p_claim.positions + p_part.taken;
        p_claim.count := p_claim.count + p_part.count;
        p_claim.bytes := p_claim.bytes + p_part.bytes;
    END IF;
    IF p_part.unhandled IS NOT NULL THEN
        p_claim.unhandled := p_claim.unhandled + p_part.unhandled;
    END IF;
    p_claim.reading := p_claim.reading AND p_claim.count < p_claim.max
                       AND p_claim.bytes < p_claim.bytes_max;
    RETURN p_claim;
END
$$;

-- Of these positions, in this order, those whose events there are, up to the one that makes it
-- p_bytes or more; cut: the first one behind that.
CREATE OR REPLACE FUNCTION holdfast_private.events_fit(
    p_namespace_id integer, p_subscription_id bigint, p_positions bigint[], p_bytes bigint,
    OUT positions bigint[], OUT bytes bigint, OUT cut bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_nestloop = off -- it expects 10 positions, and there may be 10,000
AS $$
BEGIN
    SELECT coalesce(array_agg(f.position) FILTER (WHERE f.fits), '{}'),
           coalesce(sum(f.bytes) FILTER (WHERE f.fits), 0),
           (array_agg(f.position ORDER BY f.i) FILTER (WHERE NOT f.fits))[1]
        INTO events_fit.positions, events_fit.bytes, cut
        FROM (SELECT s.position, s.i, s.bytes,
                     sum(s.bytes) OVER (ORDER BY s.i) - s.bytes < p_bytes AS fits
              FROM (SELECT e.position, given.i, octet_length(e.payload::text) AS bytes
                    FROM unnest(p_positions) WITH ORDINALITY given (position, i)
                    JOIN events_at(p_namespace_id, p_subscription_id, p_positions) e
                        ON e.position = given.position) s) f;
END
$$;

-- ---- Retries ------------------------------------------------------------------------------------

-- Hands out up to p_max due retries of a kind.
CREATE OR REPLACE FUNCTION holdfast_private.retries_take(p_claim holdfast_private.claiming,
                                                         p_kind integer, p_max integer)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_due  bigint[];
    v_fit  record;
    v_part log_part;
BEGIN
    SELECT array_agg(d.position) INTO v_due FROM (
        SELECT r.position FROM retries r
        WHERE r.subscription_id = p_claim.subscription_id AND r.partition = 0 AND r.kind = p_kind
            AND r.next_attempt_at <= p_claim.now
        ORDER BY r.next_attempt_at, r.position LIMIT p_max
        FOR UPDATE SKIP LOCKED) d;
    IF v_due IS NULL THEN
        RETURN p_claim;
    END IF;
    v_fit := events_fit(p_claim.namespace_id, p_claim.subscription_id, v_due,
                        p_claim.bytes_max - p_claim.bytes);
    UPDATE retries r SET kind = RETRY_LEASED, deliveries = r.deliveries + 1
        WHERE r.subscription_id = p_claim.subscription_id AND r.position = ANY (v_fit.positions);
    v_part.taken := positions_of(v_fit.positions);
    v_part.count := cardinality(v_fit.positions);
    v_part.bytes := v_fit.bytes;
    p_claim.has_retries := p_claim.has_retries OR v_part.count > 0;
    RETURN claim_add(p_claim, v_part);
END
$$;

-- When the first retry of a kind is due; NULL: there is none.
CREATE OR REPLACE FUNCTION holdfast_private.retries_first_due(p_subscription_id bigint,
                                                              p_kind integer)
    RETURNS timestamptz
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN (SELECT r.next_attempt_at FROM retries r
            WHERE r.subscription_id = p_subscription_id AND r.partition = 0 AND r.kind = p_kind
            ORDER BY r.next_attempt_at LIMIT 1);
END
$$;

-- ---- Leases that have ended ---------------------------------------------------------------------

-- The leases that have ended without an answer, at most 256, locked, in the order of their ends.
-- Those of one event are recorded as failed attempts on the way; free: those that no process holds;
-- suspect: the first of several events that a process held; careful: that one was kept, and so is
-- what the caller claims, so that it is handed over in one piece and nothing is recorded yet.
-- p_dead: owners that are dead; p_silent, p_silent_ms: others that stand still, and for how long;
-- p_kept: those that are kept are to be looked at.
CREATE OR REPLACE FUNCTION holdfast_private.claim_orphans(
    p_claim holdfast_private.claiming, p_dead uuid[], p_kept boolean, p_silent uuid[],
    p_silent_ms bigint[], OUT free uuid[], OUT suspect uuid, OUT suspect_since timestamptz,
    OUT careful boolean, OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c_leases_max constant integer := 256;
    v_until      timestamptz := CASE WHEN p_dead = '{}' THEN p_claim.now ELSE 'infinity' END;
    v_looked     integer := 0;
    v_whole      boolean;
    l            record;
BEGIN
    free := '{}';
    careful := false;
    FOR pass IN 0 .. p_kept::integer LOOP
        FOR l IN
            SELECT o.token, o.expires_at, o.piece, o.count, o.owner, o.owner_name, o.positions,
                   o.handed,
                   o.kept OR o.careful AS careful
            FROM leases o
            WHERE o.subscription_id = p_claim.subscription_id AND o.kept = (pass = 1)
                AND o.expires_at >= CASE pass WHEN 0 THEN p_claim.leases_from
                                              ELSE p_claim.kept_from END
                AND o.expires_at <= v_until
                AND (o.bound AND o.owner = ANY (p_dead)
                     OR o.expires_at <= p_claim.now
                        AND (pass = 0 OR o.owner = ANY (p_dead)
                             OR p_silent_ms[array_position(p_silent, o.owner)]
                                >= greatest(o.lease_ms, p_claim.lease_ms)))
            ORDER BY o.expires_at LIMIT c_leases_max - v_looked
            FOR UPDATE SKIP LOCKED
        LOOP
            v_looked := v_looked + 1;
            v_whole := l.careful AND p_claim.kept;
            IF l.piece = 0 AND NOT l.careful THEN
                free := free || l.token;
            ELSIF v_whole OR l.piece IS NOT NULL OR l.count > 1 THEN
                IF suspect IS NULL OR l.expires_at < suspect_since THEN
                    suspect := l.token;
                    suspect_since := l.expires_at;
                    careful := v_whole;
                END IF;
            ELSE
                PERFORM record_lost(
                    p_claim.namespace_id, p_claim.subscription_id, lower(l.positions),
                    CASE WHEN l.owner = ANY (p_dead) THEN CAUSE_DIED ELSE CAUSE_EXPIRED END,
                    l.owner_name, times_of(l.handed, lower(l.positions)), p_claim.now);
                DELETE FROM leases d WHERE d.token = l.token;
            END IF;
        END LOOP;
    END LOOP;
    more := v_looked = c_leases_max;
END
$$;

-- Moves events out of a lease that the claim has locked into what it hands out. p_suspect: by its
-- first piece, and what is left will be handed out in pieces.
CREATE OR REPLACE FUNCTION holdfast_private.lease_take(p_claim holdfast_private.claiming,
                                                       p_lease uuid, p_suspect boolean)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease leases;
    v_piece integer;
    v_first bigint[];
    v_fit   record;
    v_part  log_part;
    v_rest  int8multirange;
BEGIN
    SELECT * INTO v_lease FROM leases l WHERE l.token = p_lease;
    v_piece := CASE WHEN p_suspect THEN coalesce(nullif(v_lease.piece, 0), (v_lease.count + 1) / 2)
                    ELSE coalesce(v_lease.piece, 0) END;
    v_first := (positions_list(v_lease.positions))[
                   : least(p_claim.max - p_claim.count, CASE WHEN p_suspect THEN v_piece END)];
    v_fit := events_fit(p_claim.namespace_id,
                        CASE WHEN v_lease.has_retries THEN v_lease.subscription_id END, v_first,
                        p_claim.bytes_max - p_claim.bytes);
    v_part.taken := positions_of(v_fit.positions);
    v_part.count := cardinality(v_fit.positions);
    v_part.bytes := v_fit.bytes;
    IF v_lease.has_retries THEN
        UPDATE retries r SET deliveries = r.deliveries + 1
            WHERE r.subscription_id = v_lease.subscription_id
                AND r.position = ANY (v_fit.positions) AND r.kind = RETRY_LEASED;
        p_claim.has_retries := p_claim.has_retries OR FOUND;
    END IF;
    p_claim.handed := p_claim.handed || handed_again(v_lease.handed, v_part.taken);
    v_rest := v_lease.positions * int8multirange(
                  int8range(coalesce(v_fit.cut, v_first[cardinality(v_first)] + 1), NULL));
    IF isempty(v_rest) THEN
        DELETE FROM leases l WHERE l.token = p_lease;
    ELSIF v_lease.piece IS NOT NULL THEN
        UPDATE leases l SET positions = v_rest, count = positions_count(v_rest), piece = v_piece
            WHERE l.token = p_lease;
    ELSE
        DELETE FROM leases l WHERE l.token = p_lease;
        INSERT INTO leases (token, subscription_id, expires_at, lease_ms, bound, kept, piece,
                            careful, has_retries, count, owner_name, positions, handed)
            VALUES (gen_random_uuid(), v_lease.subscription_id,
                    least(v_lease.expires_at, p_claim.now), v_lease.lease_ms, false, false, v_piece,
                    v_lease.kept OR v_lease.careful, v_lease.has_retries, positions_count(v_rest),
                    v_lease.owner_name, v_rest, v_lease.handed);
    END IF;
    RETURN claim_add(p_claim, v_part);
END
$$;

-- ---- Holes and the log --------------------------------------------------------------------------

-- Rows of the log, in the order of their positions, with the sizes of their payloads and whether
-- the patterns match them: those up to the one that fills the batch. A retry that waits above the
-- cursor (a dead letter was retried after a seek back) is not handed out twice, and what is
-- cancelled (settled ahead) not at all.
CREATE OR REPLACE FUNCTION holdfast_private.claim_part(p_claim holdfast_private.claiming,
                                                       p_positions bigint[], p_bytes integer[],
                                                       p_matches boolean[])
    RETURNS holdfast_private.log_part
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_part log_part;
BEGIN
    SELECT count(*), max(f.p), coalesce(range_agg(int8range(f.p, f.p, '[]')), '{}'),
           range_agg(int8range(f.p, f.p, '[]')) FILTER (WHERE f.wanted),
           range_agg(int8range(f.p, f.p, '[]')) FILTER (WHERE f.wanted AND NOT f.matches),
           count(*) FILTER (WHERE f.wanted), coalesce(sum(f.bytes) FILTER (WHERE f.wanted), 0)
        INTO v_part
        FROM (SELECT w.*, count(*) FILTER (WHERE w.wanted) OVER before < p_claim.max - p_claim.count
                          AND coalesce(sum(w.bytes) FILTER (WHERE w.wanted) OVER before, 0)
                              < p_claim.bytes_max - p_claim.bytes AS fits
              FROM (SELECT r.p, r.bytes, r.matches, r.i,
                           (r.matches OR p_claim.unhandled_too) AND NOT (p_claim.ahead AND (
                               EXISTS (SELECT FROM retries t
                                       WHERE t.subscription_id = p_claim.subscription_id
                                           AND t.position = r.p)
                               OR EXISTS (SELECT FROM settled d
                                          WHERE d.subscription_id = p_claim.subscription_id
                                              AND d.partition = 0 AND d.position = r.p)))
                               AS wanted
                    FROM unnest(p_positions, p_bytes, p_matches) WITH ORDINALITY
                        r (p, bytes, matches, i)) w
              WINDOW before AS (ORDER BY w.i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) f
        WHERE f.fits;
    RETURN v_part;
END
$$;

-- Takes what the holes have shown, of which at most `portion` rows were read, after the look at the
-- holders (hole_look). If that was not all, the next portion is larger. The log is not read while
-- there are 4096 holes.
CREATE OR REPLACE FUNCTION holdfast_private.claim_holes(p_claim holdfast_private.claiming,
                                                        p_positions bigint[], p_bytes integer[],
                                                        p_matches boolean[], p_holders text[],
                                                        p_prepared boolean)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_part log_part;
    v_rows integer := coalesce(cardinality(p_positions), 0);
    v_all  boolean;                             -- all of the holes were read
BEGIN
    v_part := claim_part(p_claim, p_positions, p_bytes, p_matches);
    v_all := v_rows < p_claim.portion AND v_part.rows = v_rows;
    p_claim := claim_add(p_claim, v_part);
    p_claim.holes := holes_left(p_claim.holes, v_part.seen,
                                CASE WHEN v_all THEN 9223372036854775807 ELSE v_part.last END,
                                p_holders, p_prepared, p_claim.clock);
    p_claim.rows_left := p_claim.rows_left - v_rows;
    p_claim.more := p_claim.more OR NOT v_all AND p_claim.rows_left <= 0;
    p_claim.portion := CASE WHEN v_all THEN 0
                            ELSE least(4 * p_claim.portion, p_claim.rows_left) END;
    p_claim.reading := p_claim.reading AND p_claim.rows_left > 0
                       AND (cardinality(p_claim.holes) < STORE_GAPS_MAX OR NOT v_all);
    RETURN p_claim;
END
$$;

-- Takes the rows after the cursor as a whole, if none is missing between them, at least half of
-- them are wanted, and they fit. Usually they do. If not, claim_log reads them again; it also reads
-- on if there are more rows and the batch is not full, because some were not wanted. Of p_part,
-- `taken` is not known yet and `unhandled` is every row that no pattern matches: mostly there is
-- none, and then no set has to be made of the rows.
CREATE OR REPLACE FUNCTION holdfast_private.claim_run(p_claim holdfast_private.claiming,
                                                      p_part holdfast_private.log_part)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_taken int8multirange := int8multirange(int8range(p_claim.cursor + 1, p_part.last, '[]'));
    v_ended boolean := p_part.rows < least(p_claim.max - p_claim.count, p_claim.rows_left);
BEGIN
    IF p_part.rows = 0 THEN
        p_claim.reading := false;
    ELSIF p_part.last - p_claim.cursor = p_part.rows AND p_part.count * 2 >= p_part.rows
          AND p_claim.bytes + p_part.bytes < p_claim.bytes_max THEN
        IF p_part.unhandled IS NOT NULL THEN
            IF p_claim.unhandled_too THEN
                p_claim.unhandled := p_claim.unhandled + p_part.unhandled;
            ELSE
                v_taken := v_taken - p_part.unhandled;
            END IF;
        END IF;
        p_claim.positions := p_claim.positions + v_taken;
        p_claim.cursor := p_part.last;
        p_claim.count := p_claim.count + p_part.count;
        p_claim.bytes := p_claim.bytes + p_part.bytes;
        p_claim.rows_left := p_claim.rows_left - p_part.rows;
        p_claim.reading := NOT v_ended AND p_claim.count < p_claim.max AND p_claim.rows_left > 0;
        p_claim.more := p_claim.more OR NOT v_ended AND NOT p_claim.reading;
    END IF;
    RETURN p_claim;
END
$$;

-- How many rows claim_log gets next: as many as may be needed, and not so many that there would be
-- more than 4096 holes, for something may be missing before each of them.
CREATE OR REPLACE FUNCTION holdfast_private.claim_portion(p_claim holdfast_private.claiming)
    RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN least(greatest(4 * p_claim.portion, 2 * (p_claim.max - p_claim.count), 100),
                 p_claim.rows_left, STORE_GAPS_MAX - cardinality(p_claim.holes));
END
$$;

-- Takes rows after the cursor, of which at most `portion` were read. What is missing below them
-- becomes holes.
CREATE OR REPLACE FUNCTION holdfast_private.claim_log(p_claim holdfast_private.claiming,
                                                      p_positions bigint[], p_bytes integer[],
                                                      p_matches boolean[])
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_part    log_part;
    v_missing int8multirange;
BEGIN
    IF p_positions IS NULL THEN
        p_claim.reading := false;
        RETURN p_claim;
    END IF;
    v_part := claim_part(p_claim, p_positions, p_bytes, p_matches);
    v_missing := int8multirange(int8range(p_claim.cursor + 1, v_part.last, '[]')) - v_part.seen;
    IF NOT isempty(v_missing) THEN
        p_claim.holes := p_claim.holes || ARRAY(
            SELECT ROW(lower(r), upper(r) - 1, p_claim.clock, NULL, NULL, NULL)::hole
            FROM unnest(v_missing) r);
    END IF;
    p_claim.cursor := v_part.last;
    p_claim.rows_left := p_claim.rows_left - v_part.rows;
    p_claim := claim_add(p_claim, v_part);
    IF v_part.rows < p_claim.portion THEN       -- the log ends here, or the batch is full
        p_claim.reading := false;
    ELSIF p_claim.rows_left <= 0 OR cardinality(p_claim.holes) > STORE_GAPS_MAX - 96 THEN
        p_claim.more := true;
        p_claim.reading := false;
    END IF;
    RETURN p_claim;
END
$$;

-- Whether the log should be read by the index on types: many rows were read, and few of them are
-- wanted (filter_is_sparse of C).
CREATE OR REPLACE FUNCTION holdfast_private.claim_is_sparse(p_claim holdfast_private.claiming)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ($1).reading AND ($1).patterns IS NOT NULL AND ($1).typed IS NULL
        AND holdfast_private.claim_rows_max(($1).regex) - ($1).rows_left
            > greatest(1000, 50 * ($1).count);

-- Takes events by the index on types, if the namespace has one, and moves the cursor over all that
-- do not match: up to where nothing can become visible any more (decided_through), so that no holes
-- are needed for what is missing. The caller reads on from there.
CREATE OR REPLACE FUNCTION holdfast_private.claim_typed(p_claim holdfast_private.claiming)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_near      constant bigint := 5000;        -- that are read about as fast without the index
    v_room      integer := p_claim.max - p_claim.count;
    v_through   bigint;
    v_positions bigint[];
    v_rows      record;
    v_part      log_part;
BEGIN
    p_claim.typed := true;
    IF NOT EXISTS (SELECT FROM namespaces n
                   WHERE n.id = p_claim.namespace_id AND n.type_index = TYPE_INDEX_ON)
       OR head(p_claim.namespace_id) - p_claim.cursor < c_near THEN
        RETURN p_claim;
    END IF;
    v_through := decided_through(p_claim.namespace_id);
    IF v_through IS NULL OR v_through <= p_claim.cursor THEN
        RETURN p_claim;
    END IF;
    v_positions := type_positions(p_claim.namespace_id, p_claim.patterns, p_claim.cursor, v_through,
                                  v_room);
    IF v_positions IS NULL THEN
        RETURN p_claim;
    END IF;
    SELECT coalesce(array_agg(e.position), '{}') AS positions, array_agg(e.bytes) AS bytes,
           array_agg(true) AS matches INTO v_rows
        FROM (SELECT a.position, octet_length(a.payload::text) AS bytes
              FROM events_at(p_claim.namespace_id, NULL, v_positions) a
              ORDER BY a.position) e;
    v_part := claim_part(p_claim, v_rows.positions, v_rows.bytes, v_rows.matches);
    IF v_part.rows < cardinality(v_rows.positions) THEN -- it is full before the last of them
        p_claim.cursor := v_part.last;
    ELSIF cardinality(v_positions) = v_room THEN -- there may be more
        p_claim.cursor := v_positions[v_room];
    ELSE
        p_claim.cursor := v_through;
    END IF;
    RETURN claim_add(p_claim, v_part);
END
$$;
