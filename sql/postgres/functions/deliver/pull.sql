-- Pulling, for all clients: claim, ack, nack, release, bury, extend, from psql and any driver.
--
-- They are what hf_claim and the others are in C (src/bus/api/pull.c, lease.c), on the same
-- functions below: change_claim and change_settle_lease. Rules and limits are the same, and so are
-- leases: what one language has claimed another one may settle. They raise HF001 (an argument is
-- outside its limits), HF002 (an ordered subscription, or a transaction that is not READ
-- COMMITTED), HF003 (no such namespace or subscription), HF005 (the lease was lost); then nothing
-- was changed.
--
-- Each works in the caller's transaction. A claim that is rolled back has not happened. One that
-- stays open holds up the other claims of its subscription, so commit it before the work is done;
-- or do the work and the ack in one transaction after it, which makes them happen together or not
-- at all.
--   Leases end by the database's clock, and the death of a client does not end them earlier.

-- A statement that waits for others and then looks again must see what they did. p_who: "leases
-- need". HF002.
CREATE OR REPLACE FUNCTION holdfast_private.demand_read_committed(p_who text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT sees_commits() THEN
        RAISE EXCEPTION '% a transaction that is READ COMMITTED, not %', p_who,
            upper(current_setting('transaction_isolation')) USING ERRCODE = 'HF002';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION holdfast_private.pull_find(p_ticket bytea, p_namespace text,
                                                      p_subscription text)
    RETURNS holdfast_private.pull
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, p_namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
    v_pull      pull;
    v_mode      smallint;
BEGIN
    v_pull.namespace_id := v_namespace.id;
    v_pull.sleep := v_namespace.sleep;
    SELECT s.id, s.name, s.options::json, s.mode
        INTO v_pull.subscription_id, v_pull.name, v_pull.options, v_mode
        FROM subscriptions s WHERE s.namespace_id = v_namespace.id AND s.name = p_subscription;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no subscription %', left(p_subscription, HF_NAME_BYTES_MAX)
            USING ERRCODE = 'HF003';
    ELSIF v_mode <> HF_MODE_SHARED THEN
        RAISE EXCEPTION 'subscription % is ordered; only shared ones hand out leases',
            p_subscription USING ERRCODE = 'HF002',
                  HINT = 'Handlers process its events, or holdfast work.';
    END IF;
    PERFORM demand_read_committed('leases need');
    RETURN v_pull;
END
$$;

-- A lease's text as its token, as lease_parse of C. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.lease_token(p_lease text) RETURNS uuid
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_lease IS NULL THEN
        RAISE EXCEPTION 'lease is NULL' USING ERRCODE = 'HF001';
    ELSIF length(p_lease) <> 32 THEN
        RAISE EXCEPTION 'lease is % characters; it has 32 hexadecimal digits', length(p_lease)
            USING ERRCODE = 'HF001';
    ELSIF p_lease !~ '^[0-9a-f]{32}$' THEN
        RAISE EXCEPTION 'lease has a character that is no lower-case hexadecimal digit'
            USING ERRCODE = 'HF001';
    END IF;
    RETURN p_lease::uuid;
END
$$;

-- The delay before attempt p_attempt, as retry_delay_ms of C.
CREATE OR REPLACE FUNCTION holdfast_private.retry_delay_ms(p_options json, p_attempt integer)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_base   double precision := coalesce((p_options ->> 'retry_base_ms')::double precision, 1000);
    v_max    double precision := coalesce((p_options ->> 'retry_max_ms')::double precision, 30000);
    v_factor double precision := coalesce((p_options ->> 'retry_multiplier')::double precision, 2);
    v_jitter double precision :=
        coalesce((p_options ->> 'retry_jitter_percent')::double precision, 10);
    v_delay  double precision;
BEGIN
    IF p_attempt = 1 OR v_base = 0 THEN
        RETURN 0;
    END IF;
    -- A power that does not fit is more than the maximum.
    v_delay := CASE WHEN ln(v_base) + ln(v_factor) * (p_attempt - 2) > ln(v_max + 1) THEN v_max
                    ELSE least(v_base * power(v_factor, p_attempt - 2), v_max) END;
    v_delay := v_delay * (1 + (random() * 2 - 1) * v_jitter / 100);
    RETURN round(greatest(0, least(v_delay, v_max)))::bigint;
END
$$;

-- Settles these, all or none, and pauses the subscription if one dies and its on_poison says halt.
-- Records of failures are made durable whatever the session is set to.
CREATE OR REPLACE FUNCTION holdfast_private.pull_apply(p_pull holdfast_private.pull, p_lease uuid,
                                                       p_node text, p_now timestamptz,
                                                       p_outcomes holdfast_private.pull_outcome[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_dead bigint;
    a      record;
    v_done record;
BEGIN
    PERFORM commit_durably();
    SELECT array_agg(o.kind) AS kinds, array_agg(o.position) AS positions,
           array_agg(o.lane) AS lanes, array_agg(o.attempts) AS attempts,
           array_agg(o.uncounted) AS uncounted, array_agg(o.story) AS stories,
           array_agg(o.next) AS next, array_agg(o.reason) AS reasons, array_agg(o.error) AS errors,
           array_agg(o.cause) AS causes
        INTO a FROM unnest(p_outcomes) o;
    IF p_pull.options ->> 'on_poison' = 'halt' THEN
        SELECT o.position INTO v_dead FROM unnest(p_outcomes) o WHERE o.kind = OUTCOME_DEAD LIMIT 1;
    END IF;
    v_done := change_settle_lease(
        p_pull.namespace_id, p_pull.subscription_id, p_lease, false, false, NULL, p_now, a.kinds,
        a.positions, a.lanes, a.attempts, a.uncounted, a.stories, a.next, a.reasons, a.errors,
        a.causes, NULL, NULL, p_node,
        'the event at position ' || v_dead || ' died (on_poison=halt)');
    PERFORM pull_answer(p_pull, v_done.status, v_done.message, v_done.ring);
END
$$;

-- Raises what went wrong, or rings.
CREATE OR REPLACE FUNCTION holdfast_private.pull_answer(p_pull holdfast_private.pull,
                                                        p_status integer, p_message text,
                                                        p_ring boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM answer_check(p_status, p_message);
    IF p_ring THEN
        PERFORM ring_all(p_pull.namespace_id, p_pull.sleep);
    END IF;
END
$$;

-- An error's text, cut to 2048 bytes at a character's beginning.
CREATE OR REPLACE FUNCTION holdfast_private.error_cut(p_error text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_bytes bytea;
    v_size  integer := 2048;
BEGIN
    IF octet_length(p_error) <= v_size THEN
        RETURN p_error;
    END IF;
    v_bytes := convert_to(p_error, 'UTF8');
    WHILE get_byte(v_bytes, v_size) & 192 = 128 LOOP
        v_size := v_size - 1;
    END LOOP;
    RETURN convert_from(substr(v_bytes, 1, v_size), 'UTF8');
END
$$;

-- ---- Claiming -----------------------------------------------------------------------------------

-- Whether an event is not what was published.
CREATE OR REPLACE FUNCTION holdfast_private.event_damaged(p_row holdfast.leased_event)
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN p_row.checksum <> checksum_of(
        content_of(p_row.id, p_row.emitted_at, p_row.type, p_row.key, p_row.tenant, p_row.metadata,
                   p_row.producer, p_row.schedule_id, p_row.payload),
        p_row.hash, p_row.position, p_row.entered_at, p_row.key_version);
END
$$;

-- Buries what a claim has handed out and no worker should run: events outside the patterns
-- (p_unhandled), where the subscription wants them as dead letters, those whose recorded attempts
-- are used up, and those that are damaged.
CREATE OR REPLACE FUNCTION holdfast_private.pull_weed(p_pull holdfast_private.pull, p_lease uuid,
                                                      p_node text, p_weeds holdfast.leased_event[],
                                                      p_unhandled bigint[], p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM pull_apply(p_pull, p_lease, p_node, p_now, array_agg(ROW(
                OUTCOME_DEAD, w.position, lane_of(w.tenant, w.key, w.id), w.attempts, w.uncounted,
                coalesce(w.story, '[]'), p_now,
                CASE WHEN event_damaged(w) THEN 'corrupt'
                     WHEN w.position = ANY (p_unhandled) THEN 'no_handler'
                     WHEN w.cause = CAUSE_EXPIRED THEN 'lease'
                     ELSE 'attempts' END,
                CASE WHEN event_damaged(w)
                         THEN 'the event is damaged: its checksum does not match what '
                              'is stored. No handler has seen it; holdfast verify looks for more'
                     WHEN w.position = ANY (p_unhandled)
                         THEN 'no pattern of the subscription matches the event''s type'
                     ELSE last.error END, w.cause)::pull_outcome ORDER BY w.position))
        FROM unnest(p_weeds) w
        CROSS JOIN LATERAL (SELECT coalesce(w.story, '[]')::json -> -1 ->> 'error') last (error);
END
$$;

-- How many of p_want events a claim may take by the subscription's rate; a negative number gives so
-- many back. Without a rate: all.
CREATE OR REPLACE FUNCTION holdfast_private.pull_rate(p_pull holdfast_private.pull, p_want integer)
    RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_events bigint := coalesce((p_pull.options ->> 'rate_events')::bigint, 0);
    v_ms     bigint := coalesce((p_pull.options ->> 'rate_ms')::bigint, 1000);
BEGIN
    IF v_events = 0 OR p_want = 0 THEN
        RETURN p_want;
    END IF;
    RETURN (rate_take(p_pull.subscription_id, v_events, v_ms * 1000, p_want)).granted;
END
$$;

-- claim: up to `max` events (1 to 10000; NULL: the subscription's batch) of a shared subscription:
-- for lease_ms (1 to 604800000; NULL: the subscription's) they are the caller's, and then, unless
-- settled, free for the next claim. A row per event, by position; all have the same lease. No rows:
-- there is nothing to do now, the subscription is paused, or its rate is used up. `attempt` counts
-- from 1, and so does `deliveries`, how often the event was handed out (NULL: not known). node: who
-- this is, for stories.
-- What is due of the namespace enters the log first, in the caller's transaction (later.sql).
CREATE OR REPLACE FUNCTION holdfast.claim(namespace text, subscription text,
                                          max integer DEFAULT NULL, lease_ms bigint DEFAULT NULL,
                                          node text DEFAULT NULL,
                                          p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS TABLE (lease text, expires_at timestamptz, "position" bigint, id uuid, type text,
                   payload json, key text, tenant text, metadata json, producer text,
                   schedule_id text, key_version bigint, emitted_at timestamptz, attempt integer,
                   deliveries integer, event_namespace text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c_tries_max constant integer := 100;        -- batches of which all had to be weeded out
    v_pull      pull := pull_find(p_ticket, claim.namespace, claim.subscription);
    v_max       integer := coalesce(claim.max, (v_pull.options ->> 'batch')::integer, 100);
    v_lease_ms  bigint := coalesce(claim.lease_ms, (v_pull.options ->> 'lease_ms')::bigint, 30000);
    v_attempts  integer := coalesce((v_pull.options ->> 'attempts_max')::integer, 4);
    v_unhandled boolean := coalesce(v_pull.options ->> 'on_unhandled' = 'dead_letter', false);
    v_node      text := coalesce(claim.node, 'sql:' || pg_backend_pid());
    v_now       timestamptz;
    v_batch     claim_batch;
    v_found     record;
BEGIN
    IF v_max < 1 OR v_max > HF_CLAIM_MAX THEN
        RAISE EXCEPTION 'max is %; it must be 1 to HF_CLAIM_MAX', v_max USING ERRCODE = 'HF001';
    ELSIF v_lease_ms < 1 OR v_lease_ms > STORE_LEASE_MS_MAX THEN
        RAISE EXCEPTION 'lease_ms is %; it must be 1 to STORE_LEASE_MS_MAX', v_lease_ms
            USING ERRCODE = 'HF001';
    ELSIF octet_length(v_node) > HF_PRODUCER_BYTES_MAX THEN
        RAISE EXCEPTION 'node is % bytes; the limit is HF_PRODUCER_BYTES_MAX', octet_length(v_node)
            USING ERRCODE = 'HF001';
    END IF;
    v_now := clock_timestamp();
    IF timers_next_of(v_pull.namespace_id) <= v_now THEN
        PERFORM bring_aside(v_pull.namespace_id, v_now);
    END IF;
    v_max := pull_rate(v_pull, v_max);
    IF v_max = 0 THEN
        RETURN;
    END IF;
    FOR try IN 1 .. c_tries_max LOOP
        v_now := clock_timestamp();
        v_batch := change_claim(
            v_pull.namespace_id, v_pull.subscription_id, 0, NULL,
            '00000000-0000-0000-0000-000000000000', v_node, NULL, v_unhandled, v_max, v_lease_ms,
            false, false, NULL, NULL, NULL,
            EXISTS (SELECT 1 FROM leases l WHERE l.subscription_id = v_pull.subscription_id
                    AND l.owner IS NOT NULL), v_now);
        PERFORM pull_answer(v_pull, v_batch.status, v_batch.message, false);
        IF v_batch.lease IS NULL THEN
            PERFORM pull_rate(v_pull, -v_max);
            RETURN;
        END IF;
        SELECT array_agg(e) AS events,
               array_agg(e) FILTER (WHERE e.position = ANY (v_batch.unhandled)
                                        OR e.attempts >= v_attempts
                                        OR event_damaged(e)) AS weeds
            INTO v_found
            FROM lease_events(v_pull.namespace_id, v_pull.subscription_id, v_batch.lease) e;
        IF v_found.weeds IS NOT NULL THEN
            PERFORM pull_weed(v_pull, v_batch.lease, v_node, v_found.weeds, v_batch.unhandled,
                              v_now);
        END IF;
        EXIT WHEN v_found.events IS NULL
            OR coalesce(cardinality(v_found.weeds), 0) < cardinality(v_found.events);
    END LOOP;
    PERFORM pull_rate(v_pull, coalesce(cardinality(v_found.events), 0) - v_max);
    RETURN QUERY SELECT replace(v_batch.lease::text, '-', ''), v_batch.expires_at, e.position, e.id,
                        e.type, e.payload, e.key, e.tenant, e.metadata, e.producer, e.schedule_id,
                        e.key_version, e.emitted_at, e.attempts + 1, e.deliveries, claim.namespace
        FROM unnest(v_found.events) e
        WHERE e.position
            <> ALL (coalesce((SELECT array_agg(w.position) FROM unnest(v_found.weeds) w), '{}'))
        ORDER BY e.position;
END
$$;

-- ---- Settling -----------------------------------------------------------------------------------

-- Settles positions of a lease (NULL: all that are left) the same way, as 0 done or 5 released.
CREATE OR REPLACE FUNCTION holdfast_private.pull_settle(p_pull holdfast_private.pull, p_lease uuid,
                                                        p_positions bigint[], p_kind integer,
                                                        p_extend timestamptz, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_positions bigint[] := ARRAY(SELECT DISTINCT p FROM unnest(p_positions) p ORDER BY p);
    v_done      record;
BEGIN
    IF cardinality(p_positions) > HF_CLAIM_MAX THEN
        RAISE EXCEPTION 'there are % positions; the limit is HF_CLAIM_MAX', cardinality(p_positions)
            USING ERRCODE = 'HF001';
    END IF;
    v_done := change_settle_lease(
        p_pull.namespace_id, p_pull.subscription_id, p_lease,
        p_positions IS NULL AND p_kind = OUTCOME_DONE AND p_extend IS NULL,
        p_positions IS NULL AND p_kind = OUTCOME_RELEASE,
        p_extend, p_now, array_fill(p_kind, ARRAY[cardinality(v_positions)]), v_positions);
    PERFORM pull_answer(p_pull, v_done.status, v_done.message, v_done.ring);
END
$$;

-- ack: done. positions NULL: all that are left in the lease. All of a call happens or nothing.
CREATE OR REPLACE FUNCTION holdfast.ack(namespace text, subscription text, lease text,
                                        positions bigint[] DEFAULT NULL,
                                        p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM pull_settle(pull_find(p_ticket, ack.namespace, ack.subscription),
                        lease_token(ack.lease), ack.positions, OUTCOME_DONE, NULL,
                        clock_timestamp());
END
$$;

-- extend (hf_touch of C): the lease lasts lease_ms (1 to 604800000; NULL: the subscription's) from
-- now. Answers its end.
CREATE OR REPLACE FUNCTION holdfast.extend(namespace text, subscription text, lease text,
                                           lease_ms bigint DEFAULT NULL,
                                           p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_pull  pull := pull_find(p_ticket, extend.namespace, extend.subscription);
    v_token uuid := lease_token(extend.lease);
    v_ms    bigint := coalesce(extend.lease_ms, (v_pull.options ->> 'lease_ms')::bigint, 30000);
    v_now   timestamptz := clock_timestamp();
BEGIN
    IF v_ms < 1 OR v_ms > STORE_LEASE_MS_MAX THEN
        RAISE EXCEPTION 'lease_ms is %; it must be NULL (as stored) or 1 to STORE_LEASE_MS_MAX',
            v_ms USING ERRCODE = 'HF001';
    END IF;
    PERFORM pull_settle(v_pull, v_token, NULL, OUTCOME_DONE, v_now + v_ms * interval '1 ms', v_now);
    RETURN v_now + v_ms * interval '1 ms';
END
$$;

-- The events of a lease at these positions (NULL: all that are left), with their stories. The lease
-- is locked, so that no other session settles between reading and settling. HF001, HF005.
CREATE OR REPLACE FUNCTION holdfast_private.pull_left(p_pull holdfast_private.pull, p_lease uuid,
                                                      p_positions bigint[])
    RETURNS holdfast.leased_event[]
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_left  leased_event[];
    v_fault text;
BEGIN
    IF cardinality(p_positions) > HF_CLAIM_MAX THEN
        RAISE EXCEPTION 'there are % positions; the limit is HF_CLAIM_MAX', cardinality(p_positions)
            USING ERRCODE = 'HF001';
    END IF;
    IF (lease_hold(p_pull.namespace_id, p_pull.subscription_id, p_lease)).token IS NULL THEN
        v_fault := 'the lease has ended: its events were handed out again or are settled';
    END IF;
    v_left := ARRAY(SELECT e
                    FROM lease_events(p_pull.namespace_id, p_pull.subscription_id, p_lease) e);
    IF v_fault IS NULL THEN
        SELECT format('position %s is not in the lease (any more)', coalesce(p::text, 'NULL'))
            INTO v_fault FROM unnest(p_positions) p
            WHERE (p IN (SELECT e.position FROM unnest(v_left) e)) IS NOT TRUE ORDER BY p LIMIT 1;
    END IF;
    PERFORM pull_answer(p_pull, CASE WHEN v_fault IS NULL THEN HF_OK ELSE HF_STALE END, v_fault,
                        false);
    RETURN ARRAY(SELECT e FROM unnest(v_left) e
                 WHERE p_positions IS NULL OR e.position = ANY (p_positions));
END
$$;

-- Gives positions of a lease (NULL: all that are left) back for later: they wait with the stories
-- that they have.
CREATE OR REPLACE FUNCTION holdfast_private.pull_put_off(p_pull holdfast_private.pull,
                                                         p_lease uuid, p_positions bigint[],
                                                         p_delay_ms bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_left     leased_event[] := pull_left(p_pull, p_lease, p_positions);
    v_outcomes pull_outcome[];
BEGIN
    SELECT array_agg(ROW(OUTCOME_RETRY, c.position, lane_of(c.tenant, c.key, c.id), c.attempts,
                         c.uncounted, c.story, v_now + p_delay_ms * interval '1 ms', NULL, NULL,
                         c.cause)::pull_outcome ORDER BY c.position)
        INTO v_outcomes FROM unnest(v_left) c;
    PERFORM pull_apply(p_pull, p_lease, NULL, v_now, coalesce(v_outcomes, '{}'));
END
$$;

-- Fails positions of a lease (NULL: all that are left): one more attempt in their stories, and they
-- wait, or are dead if it was the last one, or if p_bury.
CREATE OR REPLACE FUNCTION holdfast_private.pull_fail(p_pull holdfast_private.pull, p_lease uuid,
                                                      p_positions bigint[], p_bury boolean,
                                                      p_delay_ms bigint, p_error text, p_node text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_max      integer := coalesce((p_pull.options ->> 'attempts_max')::integer, 4);
    v_node     text := coalesce(p_node, 'sql:' || pg_backend_pid());
    v_error    text := error_cut(p_error);
    v_now      timestamptz := clock_timestamp();
    v_left     leased_event[];
    v_outcomes pull_outcome[];
BEGIN
    IF octet_length(v_node) > HF_PRODUCER_BYTES_MAX THEN
        RAISE EXCEPTION 'node is % bytes; the limit is HF_PRODUCER_BYTES_MAX', octet_length(v_node)
            USING ERRCODE = 'HF001';
    END IF;
    v_left := pull_left(p_pull, p_lease, p_positions);
    SELECT array_agg(ROW(
               CASE WHEN p_bury OR c.attempts + 1 >= v_max THEN OUTCOME_DEAD ELSE OUTCOME_RETRY END,
               c.position,
               lane_of(c.tenant, c.key, c.id), c.attempts + 1, c.uncounted,
               story_add(c.story, c.attempts + 1, v_now, v_error, v_node),
               v_now + coalesce(p_delay_ms, retry_delay_ms(p_pull.options, c.attempts + 2))
                       * interval '1 ms',
               CASE WHEN p_bury THEN 'rejected' WHEN c.attempts + 1 >= v_max THEN 'attempts' END,
               v_error, CAUSE_HANDLER)::pull_outcome ORDER BY c.position)
        INTO v_outcomes
        FROM unnest(v_left) c;
    PERFORM pull_apply(p_pull, p_lease, v_node, v_now, coalesce(v_outcomes, '{}'));
END
$$;

-- nack: failed: again after delay_ms (0 to 31622400000; NULL: by the subscription's retry policy),
-- or dead if it was the last attempt. error: why; node: who this is; both are kept with the
-- attempt.
CREATE OR REPLACE FUNCTION holdfast.nack(namespace text, subscription text, lease text,
                                         positions bigint[] DEFAULT NULL, error text DEFAULT NULL,
                                         delay_ms bigint DEFAULT NULL, node text DEFAULT NULL,
                                         p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF nack.delay_ms < 0 OR nack.delay_ms > 31622400000 THEN
        RAISE EXCEPTION 'delay_ms is %; it must be NULL (by the retry policy) or 0 to 31622400000',
            nack.delay_ms USING ERRCODE = 'HF001';
    END IF;
    PERFORM pull_fail(pull_find(p_ticket, nack.namespace, nack.subscription),
                      lease_token(nack.lease), nack.positions, false, nack.delay_ms,
                      coalesce(nullif(nack.error, ''), 'nack was called without an error text'),
                      nack.node);
END
$$;

-- bury: dead letters now, reason "rejected".
CREATE OR REPLACE FUNCTION holdfast.bury(namespace text, subscription text, lease text,
                                         positions bigint[] DEFAULT NULL, error text DEFAULT NULL,
                                         node text DEFAULT NULL,
                                         p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM pull_fail(pull_find(p_ticket, bury.namespace, bury.subscription),
                      lease_token(bury.lease), bury.positions, true, NULL,
                      coalesce(nullif(bury.error, ''), 'bury was called without an error text'),
                      bury.node);
END
$$;

-- release: given back; the attempt does not count. delay_ms (0 to 31622400000): the events come
-- again after it, and wait as retries do; NULL: at once.
CREATE OR REPLACE FUNCTION holdfast.release(namespace text, subscription text, lease text,
                                            positions bigint[] DEFAULT NULL,
                                            delay_ms bigint DEFAULT NULL,
                                            p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_pull  pull := pull_find(p_ticket, release.namespace, release.subscription);
    v_token uuid := lease_token(release.lease);
BEGIN
    IF release.delay_ms < 0 OR release.delay_ms > 31622400000 THEN
        RAISE EXCEPTION 'delay_ms is %; it must be NULL (at once) or 0 to 31622400000',
            release.delay_ms USING ERRCODE = 'HF001';
    ELSIF release.delay_ms IS NOT NULL THEN
        PERFORM pull_put_off(v_pull, v_token, release.positions, release.delay_ms);
    ELSE
        PERFORM pull_settle(v_pull, v_token, release.positions, OUTCOME_RELEASE, NULL,
                            clock_timestamp());
    END IF;
END
$$;
