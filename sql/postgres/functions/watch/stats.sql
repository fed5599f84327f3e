-- Numbers: stats(), and what it is made of.
--
-- What is not known is NULL, never 0. Nothing here scans the log: positions are subtracted, first
-- and last events are found by an index, only what is exceptional (retries, leases, dead letters)
-- is counted, and pending events in a bounded part of the log (standing.sql).

-- A row for each of these subscriptions, in this order; none for what is no subscription of the
-- namespace. p_token: the calling process, which lives; NULL: none. p_now: leases that end up to
-- then have ended.
--   VOLATILE, so that its statement has a snapshot of its own, taken when its tables are locked:
-- with an older one leases that compact has written anew (journal.sql) would not be seen. Making
-- its plan takes several times as long as what it does, so there is one, which is kept: by index,
-- however small a table was.
CREATE OR REPLACE FUNCTION holdfast.progress_of(p_namespace_id integer, p_subscription_ids bigint[],
                                                p_token uuid,
                                                p_now timestamptz DEFAULT clock_timestamp())
    RETURNS SETOF holdfast.progress
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_span integer := span_of(v_now);
BEGIN
    RETURN QUERY
    WITH gone AS MATERIALIZED (
            SELECT dead_of(p_namespace_id, ARRAY(
                       SELECT o.owner
                       FROM (SELECT p.owner FROM read_partitions() p
                             WHERE p.subscription_id = ANY (p_subscription_ids)
                             UNION SELECT l.owner FROM read_leases() l
                             WHERE l.subscription_id = ANY (p_subscription_ids)) o
                       WHERE o.owner IS DISTINCT FROM p_token AND o.owner IS NOT NULL))
                AS tokens),
        buried AS MATERIALIZED (
            SELECT d.subscription, count(*) AS dead
            FROM read_letters() d
            WHERE d.namespace_id = p_namespace_id AND d.resolved_at IS NULL
                AND d.subscription = ANY (ARRAY(SELECT s.name FROM read_subscriptions() s
                                                WHERE s.id = ANY (p_subscription_ids)))
            GROUP BY d.subscription)
    SELECT s.id, s.name, s.mode, numbers.*
    FROM unnest(p_subscription_ids) WITH ORDINALITY o (id, place)
    CROSS JOIN LATERAL (SELECT * FROM read_subscriptions() s WHERE s.id = o.id LIMIT 1) s
    CROSS JOIN gone CROSS JOIN LATERAL (
        WITH parts AS MATERIALIZED (
                SELECT c.partition, c.checkpoint, c.checkpoint_at, c.last_event_id, c.owner,
                       c.owner_name, (SELECT min(h.low) FROM unnest(c.holes) h) AS hole,
                       c.claimed_at,
                       span_passed(v_span - c.span, c.span_from, c.span_before,
                                   c.checkpoint) AS passed
                FROM read_checkpoints() c WHERE c.subscription_id = s.id)
        SELECT low.checkpoint, low.checkpoint_at,
               CASE WHEN every.parts = 1 THEN low.last_event_id END, zero.owner, zero.owner_name,
               CASE WHEN s.mode = HF_MODE_SHARED THEN leased.in_flight ELSE runs.count END,
               waiting.retrying, waiting.held, waiting.blocked,
               coalesce((SELECT b.dead FROM buried b WHERE b.subscription = s.name), 0),
               least(waiting.lowest, leased.lowest, low.hole), open.lowest, low.checkpoint + 1,
               (SELECT c.entered_at FROM read_copies() c
                WHERE c.subscription_id = s.id AND c.position = open.lowest),
               zero.owner <> ALL (gone.tokens), every.unowned, every.rate::double precision,
               waiting.next_attempt_at, leased.ended, leased.ended_at, low.claimed_at
        FROM (SELECT * FROM parts p ORDER BY p.checkpoint NULLS FIRST, p.partition LIMIT 1) low,
            (SELECT p.owner, p.owner_name FROM parts p
             ORDER BY p.owner IS NULL, p.partition LIMIT 1) zero,
            (SELECT count(*) AS parts,
                    count(*) FILTER (
                        WHERE p.owner IS NULL OR p.owner = ANY (gone.tokens)) AS unowned,
                    CASE WHEN count(p.passed) = count(*) THEN avg(p.passed)
                        / extract(epoch FROM greatest(interval '1 s',
                            v_now - greatest(span_began(v_span - 1), s.created_at))) END AS rate
             FROM parts p) every,
            (SELECT count(*) FILTER (WHERE r.kind IN (RETRY_WAITING, RETRY_ALONE)) AS retrying,
                    min(r.next_attempt_at) FILTER (WHERE r.kind IN (RETRY_WAITING,
                        RETRY_ALONE)) AS next_attempt_at,
                    count(*) FILTER (WHERE r.kind = RETRY_HELD) AS held,
                    count(*) FILTER (WHERE r.kind = RETRY_BLOCKED) AS blocked,
                    min(r.position) AS lowest,
                    min(r.position) FILTER (WHERE r.kind <> RETRY_BLOCKED) AS lowest_open
             FROM read_retries() r WHERE r.subscription_id = s.id) waiting,
            (SELECT coalesce(sum(l.count) FILTER (WHERE NOT l.ended), 0)::bigint AS in_flight,
                    coalesce(sum(l.count) FILTER (WHERE l.ended), 0)::bigint AS ended,
                    min(least(l.expires_at, p_now)) FILTER (WHERE l.ended) AS ended_at,
                    min(lower(l.positions)) AS lowest
             FROM (SELECT l.count, l.positions, l.expires_at,
                          l.piece IS NOT NULL OR NOT l.kept AND l.expires_at <= p_now
                              OR (l.bound OR l.kept)
                                 AND coalesce(l.owner = ANY (gone.tokens), false) AS ended
                   FROM read_leases() l WHERE l.subscription_id = s.id) l) leased,
            (SELECT count(*) FROM read_processes() p
             CROSS JOIN LATERAL unnest(p.running_subscriptions) r (id)
             WHERE p.namespace_id = p_namespace_id AND r.id = s.id
                 AND p.token IN (SELECT o.owner FROM parts o)
                 AND p.token <> ALL (gone.tokens)) runs,
            LATERAL (SELECT least(waiting.lowest_open, leased.lowest) AS lowest) open) numbers
    WHERE s.namespace_id = p_namespace_id
    ORDER BY o.place;
END
$$;

-- The position before the first event that entered the log of a namespace at p_at or later, by a
-- binary search: see src/store/postgres/read/query.c. Each step looks at up to 32 events from the
-- middle on, and goes up only if all of them entered before. In the end p_disorder positions below
-- are looked at for events that are late all the same. It is one statement, so that there is one
-- plan to be made.
CREATE OR REPLACE FUNCTION holdfast.position_before(p_namespace_id integer, p_at timestamptz,
                                                    p_disorder bigint DEFAULT STORE_DISORDER)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_position bigint;
BEGIN
    EXECUTE replace('
        WITH RECURSIVE search (low, high) AS (
            SELECT 0::bigint, $1 + 1
            UNION ALL
            SELECT CASE WHEN seen.late IS NULL THEN coalesce(seen.last, s.low) ELSE s.low END,
                   coalesce(seen.late, CASE WHEN seen.last IS NULL THEN m.middle ELSE s.high END)
            FROM search s
            CROSS JOIN LATERAL (SELECT s.low + (s.high - s.low) / 2 AS middle) m
            CROSS JOIN LATERAL (
                SELECT max(w.position) AS last,
                       min(w.position) FILTER (WHERE w.entered_at >= $2) AS late
                FROM (SELECT e.position, e.entered_at FROM holdfast.times_{namespace}() e
                      WHERE e.position >= m.middle AND e.position < s.high
                      ORDER BY e.position LIMIT 32) w) seen
            WHERE s.low + 1 < s.high)
        SELECT coalesce((SELECT e.position - 1 FROM holdfast.times_{namespace}() e
                         WHERE e.position > s.low - $3 AND e.position <= s.low
                             AND e.entered_at >= $2
                         ORDER BY e.position LIMIT 1), s.low)
        FROM search s WHERE s.low + 1 >= s.high', '{namespace}', p_namespace_id::text)
        INTO v_position USING head(p_namespace_id), p_at, p_disorder;
    RETURN v_position;
END
$$;

-- How many events entered the log per second during the last minute: they are not counted as they
-- come, but what lies above the last position of a minute ago has come since. Positions that were
-- drawn in between and never committed count too; what retention has taken out of the log does not.
CREATE OR REPLACE FUNCTION holdfast.rate_of(p_namespace_id integer) RETURNS double precision
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_oldest bigint;
    v_newest bigint;
BEGIN
    EXECUTE replace('
        SELECT (SELECT e.position FROM holdfast.times_{namespace}() e ORDER BY e.position LIMIT 1),
               (SELECT e.position FROM holdfast.times_{namespace}() e
                ORDER BY e.position DESC LIMIT 1)', '{namespace}', p_namespace_id::text)
        INTO v_oldest, v_newest;
    RETURN coalesce(v_newest - greatest(v_oldest - 1, position_before(
                        p_namespace_id, clock_timestamp() - interval '60 s', 0)), 0)
           / 60::double precision;
END
$$;

-- How large the server's write-ahead log is; NULL if the caller may not see it.
CREATE OR REPLACE FUNCTION holdfast.wal_bytes() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE') THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT sum(w.size)::bigint FROM pg_ls_waldir() w);
END
$$;

-- A row for each subscription of a namespace, in their order. The log is read for all of them by
-- one statement, so that there is one plan to be made.
CREATE OR REPLACE FUNCTION holdfast.stats_of(p_namespace_id integer, p_progress holdfast.progress[])
    RETURNS SETOF holdfast.stats
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
BEGIN
    RETURN QUERY EXECUTE replace('
        SELECT n.name, p.name, m.head, m.checkpoint, m.head - m.checkpoint,
               clock_timestamp() - least(coalesce(p.copied_at, e.entered_at), w.first_at),
               p.in_flight, p.retrying, p.held, p.blocked, p.dead, p.rate, NULL::bigint,
               least(w.count + p.lease_ended, HF_PENDING_MAX),
               w.more OR w.count + p.lease_ended > HF_PENDING_MAX,
               CASE WHEN p.mode = HF_MODE_SHARED THEN p.lease_ended END, p.claimed_at
        FROM read_namespaces() n CROSS JOIN unnest($1) WITH ORDINALITY p
        CROSS JOIN (SELECT (SELECT e.position FROM holdfast.times_{namespace}() e
                            ORDER BY e.position DESC LIMIT 1) AS newest) l
        CROSS JOIN LATERAL (
            SELECT greatest(p.checkpoint, l.newest) AS head,
                   CASE WHEN p.mode = HF_MODE_SHARED THEN least(p.checkpoint, p.lowest - 1)
                        ELSE p.checkpoint END AS checkpoint) m
        CROSS JOIN LATERAL holdfast.pending_{namespace}(p.id, HF_PENDING_MAX) w
        LEFT JOIN LATERAL (
            SELECT e.position, e.entered_at FROM holdfast.times_{namespace}() e
            WHERE e.position >= p.first_open ORDER BY e.position LIMIT 1) e
            ON e.position = p.first_open
        WHERE n.id = {namespace}
        ORDER BY p.ordinality', '{namespace}', p_namespace_id::text) USING p_progress;
END
$$;

-- stats: for each namespace (or the one that is named; HF003) a row of its own, whose subscription
-- is NULL, then a row for each of its subscriptions, by name.
--   head: the newest position. checkpoint: everything up to here is settled; lag: how far it is
-- behind the head. pending: events that match and are not begun, exact up to HF_PENDING_MAX unless
-- pending_more: then at least so many. oldest_waiting: for how long the oldest unsettled event that
-- matches has been in the log; NULL: nothing waits, or, with pending_more, none was found.
-- in_flight: leased and unsettled, without leases that ended (lease_ended); of an ordered one
-- handlers that have run for a while. claimed_at: when a shared one last handed out events. dead:
-- unresolved dead letters. rate: of a namespace, events that entered the log per second, over the
-- last minute; of a subscription, events that were settled (shared: handed out), over the last 30
-- to 60 seconds; NULL for so long after it was put elsewhere, or the clock was.
-- The namespace's own row adds up the others of its subscriptions; they are NULL for roles that may
-- not see these (grants.sql).
CREATE OR REPLACE FUNCTION holdfast.stats(namespace text DEFAULT NULL) RETURNS SETOF holdfast.stats
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    c_tries_max constant integer := 10;         -- rotations of the journal in a row
    v_namespace record;
    v_progress  progress[];
    v_whole     boolean;
    v_rows      stats[];
    v_row       stats;
BEGIN
    FOR v_namespace IN SELECT n.id, n.name FROM read_namespaces() n
                       WHERE n.removing_at IS NULL
                           AND (stats.namespace IS NULL OR n.name = stats.namespace)
                       ORDER BY n.name LOOP
        FOR try IN 1 .. c_tries_max LOOP
            SELECT array_agg(p), bool_and(p.checkpoint IS NOT NULL) INTO v_progress, v_whole
                FROM progress_of(v_namespace.id, ARRAY(SELECT s.id FROM read_subscriptions() s
                                                       WHERE s.namespace_id = v_namespace.id
                                                       ORDER BY s.name), NULL) p;
            EXIT WHEN v_whole IS NOT FALSE;
        END LOOP;
        v_rows := ARRAY(SELECT r FROM stats_of(v_namespace.id, v_progress) r);
        IF may_read(v_namespace.id) THEN
            SELECT max(r.oldest_waiting), coalesce(sum(r.in_flight), 0),
                   coalesce(sum(r.retrying), 0), coalesce(sum(r.held), 0),
                   coalesce(sum(r.blocked), 0), coalesce(sum(r.lease_ended), 0)
                INTO v_row.oldest_waiting, v_row.in_flight, v_row.retrying, v_row.held,
                    v_row.blocked, v_row.lease_ended
                FROM unnest(v_rows) r;
            v_row.dead := (SELECT count(*) FROM read_letters() l
                           WHERE l.namespace_id = v_namespace.id AND l.resolved_at IS NULL);
        END IF;
        IF has_part(v_namespace.id, 'publisher', 'owner') THEN
            v_row.later := (SELECT count(*) FROM read_delayed() d
                            WHERE d.namespace_id = v_namespace.id);
        END IF;
        v_row.namespace := v_namespace.name;
        v_row.head := head(v_namespace.id);
        v_row.rate := rate_of(v_namespace.id);
        RETURN NEXT v_row;
        RETURN QUERY SELECT * FROM unnest(v_rows);
        v_row := NULL;
    END LOOP;
    IF v_namespace.id IS NULL AND stats.namespace IS NOT NULL THEN
        RAISE EXCEPTION 'there is no namespace %', left(stats.namespace, 255)
            USING ERRCODE = 'HF003';
    END IF;
END
$$;
