-- Leases: reading and settling what a claim has handed out (claims.sql).
--
-- A settle holds the lease's row to the end of its transaction. What a claim has handed on is not
-- found any more: then nothing is changed, and the answer is HF_STALE.

-- ---- Reading ------------------------------------------------------------------------------------

-- lease_events_<id>: the events that are left in a lease, by position; none, if it is not held any
-- more. What the log has lost is left out. Every namespace has this function for itself, as it has
-- claim_<id>.
CREATE OR REPLACE FUNCTION holdfast.lease_events_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $events$
CREATE OR REPLACE FUNCTION holdfast.lease_events_{namespace}(p_subscription_id bigint, p_lease uuid)
    RETURNS SETOF holdfast.leased_event
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_lease record;
BEGIN
    SELECT l.positions, l.has_retries, l.handed INTO v_lease
        FROM read_leases() l JOIN read_subscriptions() s ON s.id = l.subscription_id
        WHERE l.token = p_lease AND l.subscription_id = p_subscription_id AND l.piece IS NULL
            AND s.namespace_id = {namespace};
    IF v_lease.has_retries THEN
        RETURN QUERY SELECT * FROM leased_events({namespace}, p_subscription_id, v_lease.positions,
                                                 v_lease.handed);
    ELSIF FOUND THEN
        RETURN QUERY
            SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                   e.schedule_id, e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum,
                   0, 0, NULL::text, NULL::text, NULL::bigint, NULL::integer, false,
                   CASE WHEN v_lease.handed IS NULL THEN 1
                        ELSE times_of(v_lease.handed, e.position) END
            FROM unnest(v_lease.positions) x (part)
            CROSS JOIN LATERAL (SELECT * FROM log_{namespace}() o
                                WHERE o.position >= lower(x.part) AND o.position < upper(x.part)
                                ORDER BY o.position) e;
    END IF;
END
$$;
$events$;

-- leased_events: lease_events_<id> for a lease of which some events have waited, with their
-- stories: such an event is read from the copy that a dead letter has left, if there is one.
CREATE OR REPLACE FUNCTION holdfast.leased_events(p_namespace_id integer, p_subscription_id bigint,
                                                  p_positions int8multirange,
                                                  p_handed holdfast_private.handed[])
    RETURNS SETOF holdfast.leased_event
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_positions bigint[] := ARRAY(SELECT p FROM unnest(p_positions) r,
                                                generate_series(lower(r), upper(r) - 1) p);
    v_waited    bigint[];
BEGIN
    SELECT coalesce(array_agg(r.position), '{}') INTO v_waited FROM read_retries() r
        WHERE r.subscription_id = p_subscription_id AND r.position = ANY (v_positions)
            AND r.kind = RETRY_LEASED;
    RETURN QUERY
        SELECT e.*, coalesce(r.attempts, 0), coalesce(r.uncounted, 0), r.story, r.cause,
               r.unit_first, r.unit_events, r.position IS NOT NULL,
               CASE WHEN r.position IS NOT NULL THEN r.deliveries
                    ELSE times_of(p_handed, e.position) END
        FROM (SELECT * FROM events_at(p_namespace_id, p_subscription_id, v_waited)
              UNION ALL
              SELECT * FROM events_at(p_namespace_id, NULL,
                  ARRAY(SELECT p FROM unnest(v_positions) p WHERE p <> ALL (v_waited)))) e
        LEFT JOIN read_retries() r ON r.subscription_id = p_subscription_id
            AND r.position = e.position AND r.kind = RETRY_LEASED
        ORDER BY e.position;
END
$$;

-- lease_events: lease_events_<id> of a namespace.
CREATE OR REPLACE FUNCTION holdfast.lease_events(p_namespace_id integer, p_subscription_id bigint,
                                                 p_lease uuid)
    RETURNS SETOF holdfast.leased_event
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT * FROM holdfast.lease_events_' || p_namespace_id || '($1, $2)'
        USING p_subscription_id, p_lease;
END
$$;

-- ---- Settling -----------------------------------------------------------------------------------

-- Frees positions of a lease for the next claim: those that waited wait again, due now, with their
-- story; the others go into a lease that no process holds.
CREATE OR REPLACE FUNCTION holdfast_private.lease_free(p_lease holdfast_private.leases,
                                                       p_positions int8multirange,
                                                       p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_fresh int8multirange := p_positions;
BEGIN
    IF p_lease.has_retries THEN
        WITH again AS (
            UPDATE retries r SET kind = RETRY_WAITING, next_attempt_at = p_now
                FROM unnest(p_positions) x (part)
                WHERE r.subscription_id = p_lease.subscription_id AND r.kind = RETRY_LEASED
                    AND r.position >= lower(x.part) AND r.position < upper(x.part)
                RETURNING r.position)
        SELECT v_fresh - coalesce(range_agg(int8range(a.position, a.position + 1)),
                                  '{}'::int8multirange) INTO v_fresh FROM again a;
    END IF;
    IF NOT isempty(v_fresh) THEN
        PERFORM leases_lower(p_lease.subscription_id, false, p_now);
        INSERT INTO leases (token, subscription_id, expires_at, lease_ms, bound, kept, piece,
                            careful, has_retries, count, positions, handed)
            VALUES (gen_random_uuid(), p_lease.subscription_id, p_now, p_lease.lease_ms, false,
                    false, 0, p_lease.careful, false, positions_count(v_fresh), v_fresh,
                    p_lease.handed);
    END IF;
END
$$;

-- lease_begin: the outcomes of kind OUTCOME_BEGUN: attempts that begin.
CREATE OR REPLACE FUNCTION holdfast_private.lease_begin(
    p_lease holdfast_private.leases, p_now timestamptz, p_kinds integer[],
    p_positions bigint[], p_lanes bigint[], p_attempts integer[], p_uncounted integer[],
    p_stories text[], p_causes text[], p_unit_firsts bigint[], p_unit_events integer[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO retries AS r (subscription_id, position, kind, partition, lane, attempts,
                              uncounted, next_attempt_at, last_retry_at, story, cause,
                              unit_first, unit_events, deliveries)
        SELECT p_lease.subscription_id, p_positions[i], RETRY_LEASED, 0, p_lanes[i], p_attempts[i],
               coalesce(p_uncounted[i], 0), p_now, p_now, p_stories[i], p_causes[i],
               p_unit_firsts[i], p_unit_events[i], times_of(p_lease.handed, p_positions[i])
        FROM generate_subscripts(p_kinds, 1) i WHERE p_kinds[i] = OUTCOME_BEGUN
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET attempts = excluded.attempts, uncounted = excluded.uncounted,
            last_retry_at = excluded.last_retry_at, story = excluded.story,
            cause = excluded.cause, unit_first = excluded.unit_first,
            unit_events = excluded.unit_events;
    UPDATE leases l SET has_retries = true WHERE l.token = p_lease.token AND NOT l.has_retries;
END
$$;

-- lease_hold: the lease that a process holds, locked; token NULL: it has ended, or is none of this
-- subscription and namespace.
CREATE OR REPLACE FUNCTION holdfast_private.lease_hold(p_namespace_id integer,
                                                       p_subscription_id bigint, p_lease uuid)
    RETURNS holdfast_private.leases
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease leases;
BEGIN
    SELECT * INTO v_lease FROM leases l
        WHERE l.token = p_lease AND l.subscription_id = p_subscription_id
            AND EXISTS (SELECT FROM subscriptions s
                        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id)
        FOR UPDATE;
    IF v_lease.piece IS NOT NULL THEN
        v_lease := NULL;
    END IF;
    RETURN v_lease;
END
$$;

-- lease_done: all that is left in a lease is done, also what waited.
CREATE OR REPLACE FUNCTION holdfast_private.lease_done(p_lease holdfast_private.leases,
                                                       p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM outcomes_keep(p_lease.subscription_id, false, 0, array_agg(r.position), NULL, p_now)
        FROM retries r, unnest(p_lease.positions) x (part)
        WHERE r.subscription_id = p_lease.subscription_id AND r.kind = RETRY_LEASED
            AND r.position >= lower(x.part) AND r.position < upper(x.part)
        HAVING count(*) > 0;
    WITH gone AS (
        DELETE FROM retries r USING unnest(p_lease.positions) x (part)
            WHERE r.subscription_id = p_lease.subscription_id AND r.kind = RETRY_LEASED
                AND r.position >= lower(x.part) AND r.position < upper(x.part)
            RETURNING r.position)
    DELETE FROM copies c USING gone g
        WHERE c.subscription_id = p_lease.subscription_id AND c.position = g.position;
    DELETE FROM leases l WHERE l.token = p_lease.token;
END
$$;

-- lease_apply: those of the outcomes that need rows (retries, dead letters), or whose rows have to
-- go.
CREATE OR REPLACE FUNCTION holdfast_private.lease_apply(
    p_lease holdfast_private.leases, p_namespace_id integer, p_now timestamptz, p_kinds integer[],
    p_positions bigint[], p_lanes bigint[], p_attempts integer[], p_uncounted integer[],
    p_stories text[], p_next timestamptz[], p_reasons text[], p_errors text[], p_causes text[],
    p_unit_firsts bigint[], p_unit_events integer[], OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_rows record;
    v_done record;
BEGIN
    status := HF_OK;
    IF NOT p_lease.has_retries
       AND p_kinds <@ ARRAY[OUTCOME_DONE, OUTCOME_RELEASE, OUTCOME_BEGUN] THEN
        RETURN;
    END IF;
    SELECT array_agg(o.kind ORDER BY o.i) AS kinds, array_agg(o.position ORDER BY o.i) AS positions,
           array_agg(o.lane ORDER BY o.i) AS lanes, array_agg(o.attempts ORDER BY o.i) AS attempts,
           array_agg(o.uncounted ORDER BY o.i) AS uncounted,
           array_agg(o.story ORDER BY o.i) AS stories, array_agg(o.next ORDER BY o.i) AS next,
           array_agg(o.reason ORDER BY o.i) AS reasons, array_agg(o.error ORDER BY o.i) AS errors,
           array_agg(o.cause ORDER BY o.i) AS causes,
           array_agg(o.unit_first ORDER BY o.i) AS unit_firsts,
           array_agg(o.unit_events ORDER BY o.i) AS unit_events
        INTO v_rows
        FROM unnest(p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next,
                    p_reasons, p_errors, p_causes, p_unit_firsts, p_unit_events) WITH ORDINALITY
            o (kind, position, lane, attempts, uncounted, story, next, reason, error, cause,
               unit_first, unit_events, i)
        WHERE o.kind NOT IN (OUTCOME_RELEASE, OUTCOME_BEGUN)
            AND (o.kind <> OUTCOME_DONE OR p_lease.has_retries);
    IF v_rows.kinds IS NOT NULL THEN
        v_done := outcomes_apply(
            p_namespace_id, p_lease.subscription_id,
            (SELECT s.name FROM subscriptions s WHERE s.id = p_lease.subscription_id), 0, false, 0,
            p_now, v_rows.kinds, v_rows.positions, v_rows.lanes, v_rows.attempts, v_rows.uncounted,
            v_rows.stories, v_rows.next, v_rows.reasons, v_rows.errors, v_rows.causes,
            v_rows.unit_firsts, v_rows.unit_events, p_lease.handed);
        status := v_done.status;
        message := v_done.message;
    END IF;
END
$$;

-- lease_name: sorts the outcomes of a lease out. ended: the positions that leave it; released:
-- those of them that are freed; count: how many leave it; ring: something is due for others now.
-- HF_STALE: a position is not in the lease, or named twice. NULL is in none: as the bound of a
-- range it would stand for all positions.
CREATE OR REPLACE FUNCTION holdfast_private.lease_name(
    p_lease holdfast_private.leases, p_now timestamptz, p_kinds integer[], p_positions bigint[],
    p_next timestamptz[], OUT status integer, OUT message text, OUT ended int8multirange,
    OUT released int8multirange, OUT count integer, OUT ring boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_bad bigint;
BEGIN
    status := HF_OK;
    SELECT n.p INTO v_bad
        FROM (SELECT p, pg_catalog.count(*) AS times FROM unnest(p_positions) p GROUP BY p) n
        WHERE n.times > 1 OR (p_lease.positions @> n.p) IS NOT TRUE ORDER BY n.p LIMIT 1;
    IF FOUND THEN
        status := HF_STALE;
        message := format('position %s is not in the lease', coalesce(v_bad::text, 'NULL'));
        RETURN;
    END IF;
    SELECT range_agg(int8range(o.position, o.position + 1)) FILTER (WHERE o.kind <> OUTCOME_BEGUN),
           range_agg(int8range(o.position, o.position + 1)) FILTER (WHERE o.kind = OUTCOME_RELEASE),
           pg_catalog.count(*) FILTER (WHERE o.kind <> OUTCOME_BEGUN),
           coalesce(bool_or(o.kind = OUTCOME_RELEASE
                            OR o.kind = OUTCOME_RETRY AND (o.next <= p_now OR NOT p_lease.kept)),
                    false)
        INTO ended, released, lease_name.count, ring
        FROM unnest(p_kinds, p_positions, p_next) o (kind, position, next);
END
$$;

-- lease_cut: takes so many positions out of a lease, and lets it end at p_extend (NULL: as it
-- does). A lease with nothing left goes.
CREATE OR REPLACE FUNCTION holdfast_private.lease_cut(p_lease holdfast_private.leases,
                                                      p_ended int8multirange, p_count integer,
                                                      p_extend timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_count = p_lease.count THEN
        DELETE FROM leases l WHERE l.token = p_lease.token;
    ELSIF p_count > 0 OR p_extend IS NOT NULL THEN
        IF p_extend < p_lease.expires_at THEN
            PERFORM leases_lower(p_lease.subscription_id, p_lease.kept, p_extend);
        END IF;
        UPDATE leases l
            SET expires_at = coalesce(p_extend, l.expires_at), count = l.count - p_count,
                positions = l.positions - coalesce(p_ended, '{}'::int8multirange)
            WHERE l.token = p_lease.token;
    END IF;
END
$$;

-- settle_lease_values: what a role gives to change_settle_lease.
CREATE OR REPLACE FUNCTION holdfast_private.settle_lease_values(p_caller oid, p_now timestamptz,
                                                                p_extend timestamptz, p_pause text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM text_check(p_caller, 'reason', p_pause, 4096);
    IF p_extend > p_now + interval '8 days' OR p_extend < p_now - interval '1 day' THEN
        RAISE EXCEPTION 'p_extend is %; a lease lasts 7 days at most', p_extend
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- change_settle_lease: `struct settle_lease`. The outcomes as in change_settle; OUTCOME_RELEASE:
-- given back; OUTCOME_BEGUN: stays in the lease and stands with its attempts and story in retries
-- (RETRY_LEASED). p_extend NULL: the expiry stays. p_pause_reason: the subscription is paused too;
-- NULL: it is not (nor with p_all or p_release_all). HF_STALE. ring: something is due for others
-- now. Locks the lease's row; one that a claim has handed on is not found any more. Releasing, and
-- making a lease end earlier, also lock the partition: claims never wait for a lease, so there is
-- no circle of waits. p_commit: synchronous_commit for this transaction (NULL: as it is). May be
-- committed asynchronously.
CREATE OR REPLACE FUNCTION holdfast.change_settle_lease(
    p_namespace_id integer, p_subscription_id bigint, p_lease uuid, p_all boolean,
    p_release_all boolean, p_extend timestamptz, p_now timestamptz, p_kinds integer[] DEFAULT NULL,
    p_positions bigint[] DEFAULT NULL, p_lanes bigint[] DEFAULT NULL,
    p_attempts integer[] DEFAULT NULL, p_uncounted integer[] DEFAULT NULL,
    p_stories text[] DEFAULT NULL, p_next timestamptz[] DEFAULT NULL, p_reasons text[] DEFAULT NULL,
    p_errors text[] DEFAULT NULL, p_causes text[] DEFAULT NULL, p_unit_firsts bigint[] DEFAULT NULL,
    p_unit_events integer[] DEFAULT NULL, p_pause_by text DEFAULT NULL,
    p_pause_reason text DEFAULT NULL, p_commit text DEFAULT NULL, OUT status integer,
    OUT message text, OUT ring boolean, p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
    v_lease  leases;
    v_named  record;
    v_done   record;
BEGIN
    status := HF_OK;
    ring := false;
    IF (p_ticket = (SELECT s.secret FROM secret s)) IS NOT TRUE THEN -- else it is the owner
        v_caller := consumer_admit(p_ticket, p_namespace_id, NULL, p_now);
        PERFORM outcomes_check(v_caller, p_namespace_id, p_subscription_id, NULL, p_now, p_kinds,
                               p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next,
                               p_reasons, p_errors, p_causes, p_unit_firsts, p_unit_events);
        PERFORM settle_lease_values(v_caller, p_now, p_extend, concat(p_pause_by, p_pause_reason));
    END IF;
    IF p_commit IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', p_commit, true);
    END IF;
    IF p_all THEN                               -- mostly, and then this is all
        DELETE FROM leases l WHERE l.token = p_lease AND l.subscription_id = p_subscription_id
            AND l.piece IS NULL AND NOT l.has_retries
            AND EXISTS (SELECT FROM subscriptions s
                        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF p_pause_reason IS NOT NULL THEN
        PERFORM 1 FROM subscriptions s
            WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id FOR NO KEY UPDATE;
    END IF;
    v_lease := lease_hold(p_namespace_id, p_subscription_id, p_lease);
    IF v_lease.token IS NULL THEN
        status := HF_STALE;
        message := 'the lease has ended: its events were handed out again or are settled';
        RETURN;
    ELSIF p_all THEN
        PERFORM lease_done(v_lease, p_now);
        RETURN;
    ELSIF p_release_all THEN
        DELETE FROM leases l WHERE l.token = p_lease;
        PERFORM lease_free(v_lease, v_lease.positions, p_now);
        ring := true;
        RETURN;
    END IF;
    IF cardinality(p_kinds) > 0 THEN
        v_named := lease_name(v_lease, p_now, p_kinds, p_positions, p_next);
        v_done := v_named;
        IF v_done.status = HF_OK THEN
            v_done := lease_apply(v_lease, p_namespace_id, p_now, p_kinds, p_positions, p_lanes,
                                  p_attempts, p_uncounted, p_stories, p_next, p_reasons, p_errors,
                                  p_causes, p_unit_firsts, p_unit_events);
        END IF;
        status := v_done.status;
        message := v_done.message;
        IF status <> HF_OK THEN
            RETURN;
        END IF;
        IF v_named.released IS NOT NULL THEN
            PERFORM lease_free(v_lease, v_named.released, p_now);
        END IF;
        IF OUTCOME_BEGUN = ANY (p_kinds) THEN
            PERFORM lease_begin(v_lease, p_now, p_kinds, p_positions, p_lanes,
                                p_attempts, p_uncounted, p_stories, p_causes, p_unit_firsts,
                                p_unit_events);
        END IF;
        ring := v_named.ring;
        PERFORM lease_cut(v_lease, v_named.ended, v_named.count, p_extend);
    ELSE
        PERFORM lease_cut(v_lease, NULL, 0, p_extend);
    END IF;
    IF p_pause_reason IS NOT NULL THEN
        PERFORM change_pause(p_namespace_id, p_subscription_id, true, p_pause_by, p_pause_reason,
                             p_now);
        ring := true;
    END IF;
END
$$;
