-- States: where one event is in each subscription.

-- delivery_facts: `struct delivery_facts` of C: what is known of an event in these subscriptions of
-- the namespace. p_now: the clock that leases end by; p_token: the process that asks, which lives.
-- checkpoint is NULL while the journal is moved: ask again. It is inlined. Which processes have the
-- event, and which of those are dead, is looked up once, however many subscriptions there are:
-- dead_of reads pg_locks.
CREATE OR REPLACE FUNCTION holdfast.delivery_facts(
    p_namespace_id integer, p_subscription_ids bigint[], p_id uuid, p_position bigint,
    p_hash bigint, p_now timestamptz, p_token uuid)
    RETURNS TABLE (subscription_id bigint, mode smallint, start bigint, checkpoint bigint,
                   settled boolean, leased boolean, lease_ended boolean, node text,
                   since timestamptz, kind smallint, attempts integer, next_attempt_at timestamptz,
                   story text, cause text, dead_id bigint, dead_attempts integer, dead_story text,
                   dead_cause text, deliveries integer, dead_deliveries integer, kept boolean,
                   kept_attempts integer, kept_story text, kept_cause text,
                   kept_deliveries integer, lease_times integer,
                   cancel_requested_at timestamptz, cancelled_at timestamptz, cancelled_by text,
                   cancel_reason text)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH gone AS MATERIALIZED (
            SELECT holdfast.dead_of($1, ARRAY(
                SELECT l.owner FROM holdfast.read_leases() l
                WHERE l.subscription_id = ANY ($2) AND l.positions @> $4
                    AND l.owner IS NOT NULL AND l.owner IS DISTINCT FROM $7
                UNION
                SELECT p.token FROM holdfast.read_processes() p
                WHERE p.namespace_id = $1 AND $4 = ANY (p.running_positions)
                    AND p.token IS DISTINCT FROM $7)) AS tokens),
        runs AS MATERIALIZED (
            SELECT u.id, p.token, p.node_name, u.since
            FROM gone CROSS JOIN holdfast.read_processes() p
            CROSS JOIN LATERAL unnest(p.running_subscriptions, p.running_positions,
                                      p.running_since) u (id, position, since)
            WHERE p.namespace_id = $1 AND u.position = $4 AND p.token <> ALL (gone.tokens))
    SELECT s.id, s.mode, s.start,
           CASE WHEN EXISTS (SELECT 1 FROM unnest(c.holes) h WHERE $4 BETWEEN h.low AND h.high)
                THEN $4 - 1 ELSE c.checkpoint END,
           EXISTS (SELECT 1 FROM holdfast.read_settled() d
                   WHERE d.subscription_id = s.id AND d.partition = c.partition
                       AND d.position = $4),
           coalesce(NOT h.ended, false) OR coalesce(u.runs, false), coalesce(h.ended, false),
           coalesce(h.node, u.node_name), coalesce(h.since, u.since),
           r.kind, r.attempts, r.next_attempt_at, r.story, r.cause, d.id, d.attempts, d.story,
           d.cause,
           CASE WHEN s.mode = HF_MODE_SHARED THEN r.deliveries
                WHEN r.deliveries IS NOT NULL OR $4 > p.doubt_through
                    THEN r.attempts + r.uncounted END,
           d.deliveries, o.position IS NOT NULL, o.attempts, o.story, o.cause, o.deliveries,
           h.times, CASE WHEN x.cancelled_at IS NULL THEN x.requested_at END, x.cancelled_at,
           x.cancelled_by, x.reason
    FROM holdfast.read_subscriptions() s
    JOIN holdfast.read_checkpoints() c ON c.subscription_id = s.id
        AND c.partition = CASE s.mode WHEN HF_MODE_ORDERED THEN $5 % s.partitions ELSE 0 END
    JOIN holdfast.read_partitions() p ON p.subscription_id = s.id AND p.partition = c.partition
    LEFT JOIN holdfast.read_retries() r ON r.subscription_id = s.id AND r.position = $4
    LEFT JOIN holdfast.read_outcomes() o ON o.subscription_id = s.id AND o.position = $4
    LEFT JOIN holdfast.read_cancels() x ON x.subscription_id = s.id AND x.position = $4
    LEFT JOIN LATERAL (
        SELECT l.owner_name AS node, l.claimed_at AS since,
               l.piece IS NOT NULL OR NOT l.kept AND l.expires_at <= $6
                   OR (l.bound OR l.kept) AND coalesce(l.owner = ANY (gone.tokens), false)
                   AS ended,
               holdfast.times_of(l.handed, $4) AS times
        FROM gone CROSS JOIN holdfast.read_leases() l
        WHERE s.mode = HF_MODE_SHARED AND l.subscription_id = s.id AND l.positions @> $4
        LIMIT 1) h ON true
    LEFT JOIN LATERAL (
        SELECT run.node_name, run.since, true AS runs FROM runs run
        WHERE s.mode = HF_MODE_ORDERED AND run.id = s.id AND run.token = c.owner
            AND ($4 > c.checkpoint OR r.position IS NOT NULL)
        LIMIT 1) u ON true
    LEFT JOIN LATERAL (
        SELECT l.id, l.attempts, l.story, l.cause, l.deliveries
        FROM unnest(ARRAY[holdfast.letter_of($1, s.name, $3)]) f (id)
        JOIN holdfast.read_letters() l ON l.id = f.id) d ON true
    WHERE s.id = ANY ($2) AND s.namespace_id = $1;
END;

-- state_of: the state that follows from the facts, as inspect_state of C: the first rule that fits.
CREATE OR REPLACE FUNCTION holdfast.state_of(
    p_facts record, p_position bigint, p_wanted boolean, p_unhandled_too boolean)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_ordinary boolean := p_facts.kind IN (RETRY_WAITING, RETRY_ALONE);
    v_past     boolean := p_facts.settled OR p_position <= p_facts.checkpoint;
BEGIN
    RETURN CASE
        WHEN p_facts.leased OR p_facts.kind = RETRY_LEASED AND NOT p_facts.lease_ended
            THEN 'processing'
        WHEN p_facts.lease_ended THEN 'pending'
        WHEN v_ordinary AND p_facts.next_attempt_at <> to_timestamp(0) THEN 'retrying'
        WHEN p_facts.kind = RETRY_HELD OR p_facts.kind = RETRY_WAITING THEN 'held'
        WHEN p_facts.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN p_facts.kind = RETRY_BLOCKED OR p_facts.dead_id IS NOT NULL THEN 'dead'
        WHEN p_position <= p_facts.start THEN 'not_for_it'
        WHEN NOT p_wanted AND (v_past OR NOT p_unhandled_too) THEN 'not_for_it'
        WHEN v_past THEN 'done'
        ELSE 'pending' END;
END
$$;

-- facts_state: state_of for the facts with the definition of their subscription: name, patterns and
-- options.
CREATE OR REPLACE FUNCTION holdfast.facts_state(p_facts record, p_position bigint, p_type text)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_facts.checkpoint IS NULL THEN
        RAISE EXCEPTION 'the journal of checkpoints has just moved: try again'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN state_of(
        p_facts, p_position,
        coalesce(p_type ~ patterns_regex(ARRAY(
            SELECT json_array_elements_text(p_facts.patterns::json))), true),
        coalesce(p_facts.options::json ->> 'on_unhandled' = 'dead_letter', false));
END
$$;

-- delivery_state: the state of the event at a position in one subscription; NULL: there is no such
-- event, or no such subscription.
CREATE OR REPLACE FUNCTION holdfast_private.delivery_state(
    p_namespace_id integer, p_subscription_id bigint, p_position bigint)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_event record;
    f       record;
BEGIN
    SELECT e.id, e.type, e.hash INTO v_event FROM events_at(p_namespace_id, NULL,
                                                            ARRAY[p_position]) e;
    SELECT s.patterns, s.options, d.* INTO f
        FROM subscriptions s
        JOIN delivery_facts(p_namespace_id, ARRAY[p_subscription_id], v_event.id, p_position,
                            v_event.hash, clock_timestamp(), NULL) d ON d.subscription_id = s.id;
    RETURN CASE WHEN FOUND THEN facts_state(f, p_position, v_event.type) END;
END
$$;

-- event_states: the state of an event in every subscription of the namespace, by name. attempts:
-- that failed; node, since: of one that is being processed, who has it and since when; deliveries:
-- how often it was handed out, NULL: not known; cancelled_at, cancelled_by, cancel_reason: of one
-- that is cancelled, and the last two of one that is to be (cancel_requested).
-- HF003: no such namespace or event. 42501.
CREATE OR REPLACE FUNCTION holdfast.event_states(namespace text, id uuid)
    RETURNS TABLE (subscription text, state text, attempts integer, attempts_json json,
                   next_attempt_at timestamptz, cause text, dead_id bigint, node text,
                   since timestamptz, deliveries integer, cancelled_at timestamptz,
                   cancelled_by text, cancel_reason text, cancel_requested boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace_id integer := reader_namespace(event_states.namespace, 'events', 'viewer',
                                               'consumer', 'owner');
    v_now          timestamptz := clock_timestamp();
    v_place        bigint := (find_id(v_namespace_id, event_states.id))."position";
    v_event        record;
    f              record;
BEGIN
    SELECT e.type, e.hash INTO v_event FROM events_at(v_namespace_id, NULL, ARRAY[v_place]) e;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no event with id %', event_states.id USING ERRCODE = 'HF003';
    END IF;
    FOR f IN
        SELECT s.name, s.patterns, s.options, d.*
        FROM read_subscriptions() s
        JOIN delivery_facts(v_namespace_id,
                            ARRAY(SELECT n.id FROM read_subscriptions() n
                                  WHERE n.namespace_id = v_namespace_id),
                            event_states.id, v_place, v_event.hash, v_now, NULL) d
            ON d.subscription_id = s.id
        ORDER BY s.name COLLATE "C" LOOP
        event_states.subscription := f.name;
        event_states.state := facts_state(f, v_place, v_event.type);
        IF f.kind IS NULL AND NOT f.leased AND NOT f.lease_ended AND f.dead_id IS NOT NULL THEN
            f.attempts := f.dead_attempts;
            f.story := f.dead_story;
            f.cause := f.dead_cause;
            f.deliveries := f.dead_deliveries;
        ELSIF f.kind IS NULL AND NOT f.leased AND NOT f.lease_ended AND f.kept THEN
            f.attempts := f.kept_attempts;
            f.story := f.kept_story;
            f.cause := f.kept_cause;
            f.deliveries := f.kept_deliveries;
        ELSIF f.kind IS NULL THEN
            f.deliveries := CASE WHEN f.leased OR f.lease_ended THEN f.lease_times
                                 WHEN f.mode = HF_MODE_SHARED AND v_place > f.checkpoint THEN 0 END;
        END IF;
        event_states.attempts := coalesce(f.attempts, 0);
        event_states.attempts_json := f.story::json;
        event_states.cause := f.cause;
        event_states.next_attempt_at := CASE WHEN state = 'retrying' THEN f.next_attempt_at END;
        event_states.dead_id := CASE WHEN state = 'dead' THEN f.dead_id END;
        event_states.node := CASE WHEN state = 'processing' THEN f.node END;
        event_states.since := CASE WHEN state = 'processing' THEN f.since END;
        event_states.cancel_requested := f.cancel_requested_at IS NOT NULL;
        event_states.cancelled_at := CASE WHEN state = 'cancelled' THEN f.cancelled_at END;
        event_states.cancelled_by := CASE WHEN state = 'cancelled' OR cancel_requested
                                          THEN f.cancelled_by END;
        event_states.cancel_reason := CASE WHEN state = 'cancelled' OR cancel_requested
                                           THEN f.cancel_reason END;
        event_states.deliveries := CASE
            WHEN NOT (state = 'retrying' AND f.mode = HF_MODE_ORDERED
                      AND f.next_attempt_at <= v_now) THEN f.deliveries END;
        RETURN NEXT;
    END LOOP;
END
$$;
