-- Leases: settling what a claim has handed out (claims.sql), and reading it again.
--
-- Whoever settles holds the lease's row to the end of the transaction. What a claim has handed on is
-- not found any more: then nothing is changed, and the caller is told.

-- Frees positions of a lease for the next claim: those that waited wait again, due now, with their
-- story; the others go into a lease that nobody has.
CREATE OR REPLACE FUNCTION holdfast_private.lease_free(p_lease holdfast_private.leases, p_positions int8multirange,
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
            UPDATE holdfast_private.retries r SET kind = RETRY_WAITING, next_attempt_at = p_now
                FROM unnest(p_positions) x (part)
                WHERE r.subscription_id = p_lease.subscription_id AND r.kind = RETRY_LEASED
                    AND r.position >= lower(x.part) AND r.position < upper(x.part)
                RETURNING r.position)
        SELECT v_fresh - coalesce(range_agg(int8range(a.position, a.position + 1)),
                                  '{}'::int8multirange) INTO v_fresh FROM again a;
    END IF;
    IF NOT isempty(v_fresh) THEN
        PERFORM holdfast_private.leases_lower(p_lease.subscription_id, false, p_now);
        INSERT INTO holdfast_private.leases (token, subscription_id, expires_at, lease_ms, bound, kept, piece,
                                     careful, has_retries, count, positions)
            VALUES (gen_random_uuid(), p_lease.subscription_id, p_now, p_lease.lease_ms, false, false,
                    0, p_lease.careful, false, holdfast_private.positions_count(v_fresh), v_fresh);
    END IF;
END
$$;

-- lease_begin: the outcomes of kind 6 (see change_settle_lease): attempts that begin.
CREATE OR REPLACE FUNCTION holdfast_private.lease_begin(
    p_subscription_id bigint, p_lease uuid, p_now timestamptz, p_kinds integer[], p_positions bigint[],
    p_lanes bigint[], p_attempts integer[], p_uncounted integer[], p_stories text[], p_causes text[],
    p_unit_firsts bigint[], p_unit_events integer[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO retries AS r (subscription_id, position, kind, partition, lane, attempts,
                              uncounted, next_attempt_at, last_retry_at, story, cause,
                              unit_first, unit_events)
        SELECT p_subscription_id, p_positions[i], 4, 0, p_lanes[i], p_attempts[i],
               coalesce(p_uncounted[i], 0), p_now, p_now, p_stories[i], p_causes[i],
               p_unit_firsts[i], p_unit_events[i]
        FROM generate_subscripts(p_kinds, 1) i WHERE p_kinds[i] = 6
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET attempts = excluded.attempts, uncounted = excluded.uncounted,
            last_retry_at = excluded.last_retry_at, story = excluded.story,
            cause = excluded.cause, unit_first = excluded.unit_first,
            unit_events = excluded.unit_events;
    UPDATE leases l SET has_retries = true WHERE l.token = p_lease AND NOT l.has_retries;
END
$$;

-- change_settle_lease: `struct settle_lease`. The outcomes as in change_settle; kind 5: released; kind
-- 6: begun, which stays in the lease and stands with its attempts and story in retries (kind 4).
-- p_extend NULL: the expiry stays. p_pause_reason: the subscription is paused too; NULL: it is not
-- (nor with p_all or p_release_all). HF_STALE. ring: something is due for others now. Locks the
-- lease's row; one that a claim has handed on is not found any more. Releasing, and making a lease
-- end earlier, also lock the partition: claims never wait for a lease, so nobody waits in a circle.
-- p_commit: synchronous_commit for this transaction (NULL: as it is). May be committed asynchronously.
CREATE OR REPLACE FUNCTION holdfast.change_settle_lease(
    p_namespace_id integer, p_subscription_id bigint, p_lease uuid, p_all boolean,
    p_release_all boolean, p_extend timestamptz, p_now timestamptz,
    p_kinds integer[] DEFAULT NULL, p_positions bigint[] DEFAULT NULL,
    p_lanes bigint[] DEFAULT NULL, p_attempts integer[] DEFAULT NULL,
    p_uncounted integer[] DEFAULT NULL, p_stories text[] DEFAULT NULL,
    p_next timestamptz[] DEFAULT NULL, p_reasons text[] DEFAULT NULL,
    p_errors text[] DEFAULT NULL, p_causes text[] DEFAULT NULL, p_unit_firsts bigint[] DEFAULT NULL,
    p_unit_events integer[] DEFAULT NULL, p_pause_by text DEFAULT NULL, p_pause_reason text DEFAULT NULL,
    p_commit text DEFAULT NULL,
    OUT status integer, OUT message text, OUT ring boolean,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller   oid;
    v_lease    leases;
    v_name     text;
    v_count    integer := coalesce(cardinality(p_kinds), 0);
    v_named    int8multirange;
    v_released int8multirange;
    v_bad      bigint;
    v_done     record;
    v_rows     record;                          -- the outcomes that need rows
BEGIN
    status := HF_OK;
    ring := false;
    v_caller := consumer_admit(p_ticket, p_namespace_id, NULL, p_now);
    IF v_caller IS NOT NULL THEN
        PERFORM outcomes_check(v_caller, p_namespace_id, p_subscription_id, NULL, p_now, p_kinds, p_positions,
                               p_lanes, p_attempts, p_uncounted, p_stories, p_next, p_reasons, p_errors, p_causes,
                               p_unit_firsts, p_unit_events);
        PERFORM text_check(v_caller, 'reason', concat(p_pause_by, p_pause_reason), 4096);
        IF p_extend > p_now + interval '8 days' OR p_extend < p_now - interval '1 day' THEN
            RAISE EXCEPTION 'p_extend is %; a lease lasts 7 days at most', p_extend USING ERRCODE = 'HF001';
        END IF;
    END IF;
    IF p_commit IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', p_commit, true);
    END IF;
    IF p_all THEN
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
    SELECT * INTO v_lease FROM leases l
        WHERE l.token = p_lease AND l.subscription_id = p_subscription_id
            AND EXISTS (SELECT FROM subscriptions s
                        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id)
        FOR UPDATE;
    SELECT s.name INTO v_name FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF v_name IS NULL OR v_lease.token IS NULL OR v_lease.subscription_id <> p_subscription_id
       OR v_lease.piece IS NOT NULL THEN
        status := HF_STALE;
        message := 'the lease has ended: its events were handed out again or are settled';
        RETURN;
    END IF;
    IF p_all THEN
        WITH gone AS (
            DELETE FROM retries r USING unnest(v_lease.positions) x (part)
                WHERE r.subscription_id = p_subscription_id AND r.kind = RETRY_LEASED
                    AND r.position >= lower(x.part) AND r.position < upper(x.part)
                RETURNING r.position)
        DELETE FROM copies c USING gone g
            WHERE c.subscription_id = p_subscription_id AND c.position = g.position;
        DELETE FROM leases l WHERE l.token = p_lease;
        RETURN;
    END IF;
    IF p_release_all THEN
        DELETE FROM leases l WHERE l.token = p_lease;
        PERFORM lease_free(v_lease, v_lease.positions, p_now);
        ring := true;
        RETURN;
    END IF;

    IF v_count > 0 THEN
        SELECT p INTO v_bad FROM (SELECT p, count(*) AS times FROM unnest(p_positions) p GROUP BY p) n
            WHERE times > 1 OR NOT v_lease.positions @> p ORDER BY p LIMIT 1;
        IF FOUND THEN
            status := HF_STALE;
            message := format('position %s is not in the lease', v_bad);
            RETURN;
        END IF;
        SELECT range_agg(int8range(o.position, o.position + 1))
            FILTER (WHERE o.kind <> OUTCOME_BEGUN),
               range_agg(int8range(o.position, o.position + 1))
                   FILTER (WHERE o.kind = OUTCOME_RELEASE),
               count(*) FILTER (WHERE o.kind <> OUTCOME_BEGUN),
               coalesce(bool_or(o.kind = OUTCOME_RELEASE
                                OR o.kind = OUTCOME_RETRY
                                   AND (o.next <= p_now OR NOT v_lease.kept)), false)
            INTO v_named, v_released, v_count, ring
            FROM unnest(p_kinds, p_positions, p_next) o (kind, position, next);
        SELECT NULL::integer[] AS kinds INTO v_rows;
        IF v_lease.has_retries
           OR NOT p_kinds <@ ARRAY[OUTCOME_DONE, OUTCOME_RELEASE, OUTCOME_BEGUN] THEN
            SELECT array_agg(o.kind ORDER BY o.i) AS kinds, array_agg(o.position ORDER BY o.i) AS positions,
                   array_agg(o.lane ORDER BY o.i) AS lanes, array_agg(o.attempts ORDER BY o.i) AS attempts,
                   array_agg(o.uncounted ORDER BY o.i) AS uncounted,
                   array_agg(o.story ORDER BY o.i) AS stories, array_agg(o.next ORDER BY o.i) AS next,
                   array_agg(o.reason ORDER BY o.i) AS reasons, array_agg(o.error ORDER BY o.i) AS errors,
                   array_agg(o.cause ORDER BY o.i) AS causes, array_agg(o.unit_first ORDER BY o.i) AS unit_firsts,
                   array_agg(o.unit_events ORDER BY o.i) AS unit_events
                INTO v_rows
                FROM unnest(p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next,
                            p_reasons, p_errors, p_causes, p_unit_firsts, p_unit_events) WITH ORDINALITY
                    o (kind, position, lane, attempts, uncounted, story, next, reason, error, cause,
                       unit_first, unit_events, i)
                WHERE o.kind NOT IN (OUTCOME_RELEASE, OUTCOME_BEGUN)
                    AND (o.kind <> OUTCOME_DONE OR v_lease.has_retries);
        END IF;
        IF v_rows.kinds IS NOT NULL THEN
            v_done := outcomes_apply(p_namespace_id, p_subscription_id, v_name, 0, false, 0, p_now,
                                     v_rows.kinds, v_rows.positions, v_rows.lanes, v_rows.attempts,
                                     v_rows.uncounted, v_rows.stories, v_rows.next, v_rows.reasons,
                                     v_rows.errors, v_rows.causes, v_rows.unit_firsts,
                                     v_rows.unit_events);
            status := v_done.status;
            message := v_done.message;
            IF status <> HF_OK THEN
                ring := false;
                RETURN;
            END IF;
        END IF;
        IF v_released IS NOT NULL THEN
            PERFORM lease_free(v_lease, v_released, p_now);
        END IF;
        IF OUTCOME_BEGUN = ANY (p_kinds) THEN
            PERFORM lease_begin(p_subscription_id, p_lease, p_now, p_kinds, p_positions, p_lanes,
                                p_attempts, p_uncounted, p_stories, p_causes, p_unit_firsts,
                                p_unit_events);
        END IF;
    END IF;
    IF v_count = v_lease.count THEN
        DELETE FROM leases l WHERE l.token = p_lease;
    ELSIF v_count > 0 OR p_extend IS NOT NULL THEN
        IF p_extend < v_lease.expires_at THEN
            PERFORM leases_lower(p_subscription_id, v_lease.kept, p_extend);
        END IF;
        UPDATE leases l
            SET expires_at = coalesce(p_extend, l.expires_at), count = l.count - v_count,
                positions = l.positions - coalesce(v_named, '{}'::int8multirange)
            WHERE l.token = p_lease;
    END IF;
    IF p_pause_reason IS NOT NULL THEN
        PERFORM change_pause(p_namespace_id, p_subscription_id, true, p_pause_by, p_pause_reason,
                             p_now);
        ring := true;
    END IF;
END
$$;

-- lease_read: store_lease_read. The events that are left in a lease, then a last row with status
-- (HF_STALE 5), as in change_claim.
CREATE OR REPLACE FUNCTION holdfast.lease_read(p_namespace_id integer, p_subscription_id bigint,
                                               p_lease uuid)
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease  record;
    v_answer claimed;
BEGIN
    v_answer.status := HF_OK;
    SELECT l.* INTO v_lease FROM read_leases() l JOIN read_subscriptions() s ON s.id = l.subscription_id
        WHERE l.token = p_lease AND l.subscription_id = p_subscription_id AND l.piece IS NULL
            AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        v_answer.status := HF_STALE;
        v_answer.message := 'the lease has ended: its events were handed out again or are settled';
    ELSE
        RETURN QUERY SELECT * FROM leased_events(p_namespace_id, p_subscription_id,
                                                 v_lease.positions, v_lease.has_retries, NULL);
        v_answer.lease := p_lease;
        v_answer.expires_at := v_lease.expires_at;
    END IF;
    RETURN NEXT v_answer;
END
$$;
