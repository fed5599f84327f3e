-- What stands before a subscription: pending events, who holds which lease, and what runs.

-- ---- Pending events -----------------------------------------------------------------------------

-- pending_<id>: how many events of the log are for a subscription and not begun: behind the
-- checkpoint of their partition (shared: the cursor, and in the holes before it), not settled
-- ahead, and without a row in retries. Counts up to p_max. more: at least so many; first_at: when
-- the oldest that was counted entered the log. count NULL: there is no such subscription.
--   It reads STORE_PENDING_ROWS_MIN rows of the log, if they are there, and then more, up to
-- STORE_PENDING_ROWS_MAX, as long as STORE_PENDING_MS are not over: one that wants a rare type and
-- is far behind would read all of the log. If there is an index on types, pending_typed counts
-- those. A type is compared with the patterns once for each portion of rows, because that takes
-- longer than to read a row.
--   Every namespace has this function for itself, as it has claim_<id>.
CREATE OR REPLACE FUNCTION holdfast.pending_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $pending$
CREATE OR REPLACE FUNCTION holdfast.pending_{namespace}(p_subscription_id bigint, p_max bigint,
                                                        OUT count bigint, OUT more boolean,
                                                        OUT first_at timestamptz)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    c_portion constant integer := 2500;
    s         record := pending_about({namespace}, p_subscription_id);
    v_until   timestamptz := clock_timestamp() + STORE_PENDING_MS * interval '1 ms';
    v_part    record;
    v_typed   record;
    v_portion integer := 100;                   -- the first events are often all that is needed
    v_rows    integer := 0;
BEGIN
    IF s.lowest IS NULL OR s.cut THEN
        count := CASE WHEN s.cut THEN 0 END;    -- too much runs ahead: nothing is known of the rest
        more := s.cut;
        RETURN;
    END IF;
    SELECT coalesce(sum(f.fits), 0), min(f.first_at), coalesce(bool_or(f.rows = c_portion), false)
        INTO count, first_at, more
        FROM unnest(s.lows, s.highs) h (low, high)
        CROSS JOIN LATERAL (
            SELECT pg_catalog.count(*) AS rows, pg_catalog.count(*) FILTER (WHERE e.fits) AS fits,
                   min(e.entered_at) FILTER (WHERE e.fits) AS first_at
            FROM (SELECT o.entered_at,
                         (s.regex IS NULL OR o.type ~ s.regex)
                         AND (s.ahead IS NULL OR NOT s.ahead @> o.position) AS fits
                  FROM log_{namespace}() o
                  WHERE o.position BETWEEN h.low AND h.high ORDER BY o.position
                  LIMIT c_portion) e) f;
    LOOP
        SELECT sum(t.rows) AS rows, max(t.last) AS last,
               coalesce(sum(t.fits) FILTER (WHERE s.regex IS NULL OR t.type ~ s.regex), 0) AS fits,
               min(t.first_at) FILTER (WHERE s.regex IS NULL OR t.type ~ s.regex) AS first_at
            INTO v_part
            FROM (SELECT e.type, pg_catalog.count(*) AS rows, max(e.position) AS last,
                         pg_catalog.count(*) FILTER (WHERE e.fits) AS fits,
                         min(e.entered_at) FILTER (WHERE e.fits) AS first_at
                  FROM (SELECT o.position, o.entered_at,
                               CASE WHEN s.regex IS NOT NULL THEN o.type END AS type,
                               (s.checkpoints IS NULL
                                OR o.position > s.checkpoints[o.hash % s.partitions + 1])
                               AND (s.ahead IS NULL OR NOT s.ahead @> o.position) AS fits
                        FROM log_{namespace}() o
                        WHERE o.position > s.lowest ORDER BY o.position LIMIT v_portion) e
                  GROUP BY e.type) t;
        count := count + v_part.fits;
        first_at := least(first_at, v_part.first_at);
        v_rows := v_rows + coalesce(v_part.rows, 0);
        EXIT WHEN coalesce(v_part.rows, 0) < v_portion;
        s.lowest := v_part.last;
        IF s.patterns IS NOT NULL AND v_rows > greatest(1000, 50 * count) THEN
            v_typed := pending_typed({namespace}, s.patterns, s.lowest, s.partitions,
                                     s.checkpoints, s.ahead, p_max - count);
            s.patterns := NULL;                 -- once
            IF v_typed.count IS NOT NULL THEN
                count := count + v_typed.count;
                more := more OR v_typed.more;
                first_at := least(first_at, v_typed.first_at);
                EXIT;
            END IF;
        END IF;
        more := more OR count > p_max OR v_rows >= STORE_PENDING_ROWS_MAX
                OR v_rows >= STORE_PENDING_ROWS_MIN AND clock_timestamp() >= v_until;
        EXIT WHEN more;
        v_portion := c_portion;
    END LOOP;
    more := more OR count > p_max;
    count := least(count, p_max);
END
$$;
$pending$;

-- pending_typed: pending events after p_after by the index on types, and whether there are more;
-- count NULL: that index does not help. Goes on until STORE_PENDING_MS are over. The others: see
-- pending_about.
CREATE OR REPLACE FUNCTION holdfast.pending_typed(
    p_namespace_id integer, p_patterns text[], p_after bigint, p_partitions integer,
    p_checkpoints bigint[], p_ahead int8multirange, p_max bigint, OUT count bigint,
    OUT more boolean, OUT first_at timestamptz)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    c_portion   constant integer := 500;
    v_until     timestamptz := clock_timestamp() + STORE_PENDING_MS * interval '1 ms';
    v_positions bigint[];
    v_part      record;
BEGIN
    LOOP
        v_positions := type_positions(p_namespace_id, p_patterns, p_after, 9223372036854775807,
                                      c_portion);
        EXIT WHEN v_positions IS NULL;
        EXECUTE 'SELECT count(*) AS fits, min(e.entered_at) AS first_at
                 FROM holdfast.log_' || p_namespace_id || '() e
                 WHERE e.position = ANY ($1)
                     AND ($2 IS NULL OR e.position > $2[e.hash % $3 + 1])
                     AND ($4 IS NULL OR NOT $4 @> e.position)'
            INTO v_part USING v_positions, p_checkpoints, p_partitions, p_ahead;
        count := coalesce(count, 0) + v_part.fits;
        first_at := least(first_at, v_part.first_at);
        EXIT WHEN cardinality(v_positions) < c_portion;
        more := count > p_max OR clock_timestamp() >= v_until;
        EXIT WHEN more;
        p_after := v_positions[c_portion];
    END LOOP;
    more := coalesce(more, false);
END
$$;

-- pending_about: what pending_<id> must know of a subscription. regex NULL: every type is for it.
-- patterns: as stored, if the namespace has an index on types by which they may be found.
-- checkpoints: of its partitions, NULL if it has one; lowest: the lowest of them. ahead: positions
-- above it, or in holes, that are settled, or have rows of their own; cut: there are more of them
-- than are looked at. lows, highs: the holes of a shared one.
CREATE OR REPLACE FUNCTION holdfast.pending_about(p_namespace_id integer, p_subscription_id bigint,
                                                  OUT regex text, OUT patterns text[],
                                                  OUT partitions integer,
                                                  OUT checkpoints bigint[], OUT lowest bigint,
                                                  OUT ahead int8multirange, OUT cut boolean,
                                                  OUT lows bigint[], OUT highs bigint[])
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    c_tries_max constant integer := 10;         -- rotations of the journal in a row
    c_ahead_max constant integer := 20000;
    v_whole     boolean;
    v_rows      bigint;
    s           record;
BEGIN
    SELECT t.partitions, ARRAY(SELECT json_array_elements_text(t.patterns::json)) AS patterns,
           t.options::json ->> 'on_unhandled' = 'dead_letter' AS unhandled_too
        INTO s FROM read_subscriptions() t
        WHERE t.id = p_subscription_id AND t.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT coalesce(s.unhandled_too, false) AND NOT s.patterns && '{*,**}' THEN
        regex := patterns_regex(s.patterns);
        IF EXISTS (SELECT FROM read_namespaces() n
                   WHERE n.id = p_namespace_id AND n.type_index = TYPE_INDEX_ON) THEN
            patterns := s.patterns;
        END IF;
    END IF;
    FOR try IN 1 .. c_tries_max LOOP
        SELECT array_agg(c.checkpoint ORDER BY c.partition), min(c.checkpoint),
               bool_and(c.checkpoint IS NOT NULL)
            INTO checkpoints, lowest, v_whole
            FROM read_checkpoints() c WHERE c.subscription_id = p_subscription_id;
        EXIT WHEN v_whole;
    END LOOP;
    IF v_whole IS NOT TRUE THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    partitions := cardinality(checkpoints);
    IF partitions = 1 THEN
        checkpoints := NULL;
    END IF;
    SELECT range_agg(int8range(a.position, a.position + 1)), count(*) INTO ahead, v_rows
        FROM (SELECT d.position FROM read_settled() d
              WHERE d.subscription_id = p_subscription_id
              UNION ALL
              SELECT r.position FROM read_retries() r
              WHERE r.subscription_id = p_subscription_id AND r.position > lowest
              LIMIT c_ahead_max) a;
    cut := v_rows = c_ahead_max;
    SELECT array_agg(h.low), array_agg(h.high) INTO lows, highs
        FROM read_checkpoints() c CROSS JOIN LATERAL unnest(c.holes) h
        WHERE c.subscription_id = p_subscription_id;
END
$$;

-- pending_make: makes pending_<id>, or makes it anew.
CREATE OR REPLACE FUNCTION holdfast_private.pending_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE replace(pending_source(), '{namespace}', p_namespace_id::text);
END
$$;

-- ---- Leases -------------------------------------------------------------------------------------

-- lease_rows: the leases that claims hold, of a subscription (NULL: of all), those that end first
-- first. ended: its time is over, or its process is dead, and no claim has taken what is left. A
-- process that is only frozen counts as alive. p_token: the calling process, which lives.
CREATE OR REPLACE FUNCTION holdfast.lease_rows(p_namespace_id integer, p_subscription_id bigint,
                                               p_now timestamptz, p_token uuid)
    RETURNS SETOF holdfast.lease
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_dead uuid[] := dead_of(p_namespace_id, ARRAY(
        SELECT DISTINCT l.owner FROM read_leases() l
        JOIN read_subscriptions() s ON s.id = l.subscription_id
        WHERE s.namespace_id = p_namespace_id AND l.owner <> coalesce(p_token, gen_random_uuid())));
BEGIN
    RETURN QUERY
        SELECT s.name, replace(l.token::text, '-', ''), l.owner_name, l.claimed_at, l.expires_at,
               l.kept,
               NOT l.kept AND l.expires_at <= p_now
                   OR (l.bound OR l.kept) AND coalesce(l.owner = ANY (v_dead), false),
               l.count, ARRAY(SELECT p FROM unnest(l.positions) r,
                                            generate_series(lower(r), upper(r) - 1) p)
        FROM read_subscriptions() s JOIN read_leases() l ON l.subscription_id = s.id
        WHERE s.namespace_id = p_namespace_id AND l.piece IS NULL
            AND (p_subscription_id IS NULL OR s.id = p_subscription_id)
        ORDER BY s.name, l.expires_at, l.token;
END
$$;

-- lease_list: what is claimed and not settled, of a shared subscription (NULL: of all of the
-- namespace): who has it, since when, until when, which events. `lease` is what ack and the others
-- take. kept: handlers of a process have it, and it lasts while that is alive. HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.lease_list(namespace text, subscription text DEFAULT NULL)
    RETURNS SETOF holdfast.lease
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace_id    integer := (SELECT n.id FROM read_namespaces() n
                                  WHERE n.name = lease_list.namespace AND n.removing_at IS NULL);
    v_subscription_id bigint;
BEGIN
    IF v_namespace_id IS NULL THEN
        RAISE EXCEPTION 'there is no namespace %', left(lease_list.namespace, 255)
            USING ERRCODE = 'HF003';
    END IF;
    PERFORM may_see(v_namespace_id, 'leases', 'viewer', 'consumer', 'owner');
    IF lease_list.subscription IS NOT NULL THEN
        SELECT s.id INTO v_subscription_id FROM read_subscriptions() s
            WHERE s.namespace_id = v_namespace_id AND s.name = lease_list.subscription;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no subscription %',
                left(lease_list.subscription, HF_NAME_BYTES_MAX) USING ERRCODE = 'HF003';
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM lease_rows(v_namespace_id, v_subscription_id, clock_timestamp(),
                                          NULL);
END
$$;

-- lease_revoke: takes a lease away from its holder: its events are free for the next claim, and the
-- attempt does not count. Answers how many they are. HF003: no such lease (any more).
CREATE OR REPLACE FUNCTION holdfast.lease_revoke(namespace text, subscription text, lease text,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_pull  pull := pull_find(p_ticket, lease_revoke.namespace, lease_revoke.subscription);
    v_token uuid := lease_token(lease_revoke.lease);
    v_lease leases := lease_hold(v_pull.namespace_id, v_pull.subscription_id, v_token);
BEGIN
    IF v_lease.token IS NULL THEN
        RAISE EXCEPTION 'subscription % has no lease % (any more)', v_pull.name, lease_revoke.lease
            USING ERRCODE = 'HF003';
    END IF;
    PERFORM pull_settle(v_pull, v_token, NULL, OUTCOME_RELEASE, NULL, clock_timestamp());
    RETURN v_lease.count;
END
$$;

-- ---- What runs ----------------------------------------------------------------------------------

-- process_running: which handlers of a process have run for a while: subscriptions, positions of
-- events and since when. It is for people, and may be a second or two old.
CREATE OR REPLACE FUNCTION holdfast.process_running(p_namespace_id integer, p_token uuid,
                                                    p_subscriptions bigint[], p_positions bigint[],
                                                    p_since timestamptz[],
                                                    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid := consumer_admit(p_ticket, p_namespace_id, p_token, clock_timestamp());
    v_count  integer := coalesce(cardinality(p_subscriptions), 0);
BEGIN
    IF v_count > STORE_NOTES_MAX OR v_count <> coalesce(cardinality(p_positions), 0)
       OR v_count <> coalesce(cardinality(p_since), 0) THEN
        RAISE EXCEPTION 'a process runs at most STORE_NOTES_MAX handlers, and each has a '
            'subscription, a position and a time' USING ERRCODE = 'HF001';
    END IF;
    PERFORM lists_check(array_dims(p_subscriptions), array_dims(p_positions), array_dims(p_since));
    PERFORM times_check(v_caller, 'the time at which a handler began', VARIADIC p_since);
    UPDATE processes p
        SET running_subscriptions = nullif(p_subscriptions, '{}'),
            running_positions = nullif(p_positions, '{}'), running_since = nullif(p_since, '{}')
        WHERE p.token = p_token AND p.namespace_id = p_namespace_id;
END
$$;
