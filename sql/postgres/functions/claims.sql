-- Shared subscriptions: handing out events under leases. leases.sql settles them.
--
--     log -- cursor, holes --> lease -- settled --> done, retries, dead letter
--                                |  ended without an answer
--                                v
--                              lease of the next claim, or retries
--
-- Claims of a subscription come one after another: they lock its only partition. Whatever is handed
-- out is in the lease before the claim commits, so there is no moment at which an event is neither
-- before the cursor, nor in a hole, nor in anybody's hands. Claims do not wait for locks of leases and
-- retries that somebody is settling; they leave those alone.
--
-- A lease of several events that ends without an answer is suspect: one of them may be the reason. It
-- is handed out again in halves, each in a lease with nothing else in it, so that after some rounds
-- the guilty one is alone; one that is alone is recorded as a failed attempt and handed out alone
-- from then on (kind ALONE). Of a suspect and due retries the one that has waited longer goes first;
-- retries of kind ALONE take turns with everything else (`turn`). So nothing starves.
--
-- Whoever keeps its leases alive (kept: the library's own workers) can do better: it records an attempt
-- before it runs (OUTCOME_BEGUN of change_settle_lease). What such a process leaves behind when it dies is
-- handed to the next of its kind in one piece, `careful`: from then on every run is recorded, so only
-- one was not, and nobody is blamed for what did not run.

-- Patterns as one regular expression; NULL: they match every type.
CREATE OR REPLACE FUNCTION holdfast.patterns_regex(p_patterns text[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN bool_or(p IN ('*', '**')) THEN NULL
        ELSE coalesce('^(?:' || string_agg((
            SELECT string_agg(CASE WHEN s = '*' THEN '[^.]+' WHEN s = '**' THEN '.+'
                ELSE regexp_replace(s, '([!-/:-@[-`{-~])', '\\\1', 'g') END, '\.' ORDER BY i)
            FROM unnest(string_to_array(p, '.')) WITH ORDINALITY segments (s, i)), '|') || ')$', '^$')
        END
    FROM unnest($1) p;
END;

-- The first p_limit (NULL: all) positions of a lease as events, by position, with the stories of those
-- that waited. What the log has lost is left out.
CREATE OR REPLACE FUNCTION holdfast.leased_events(p_namespace_id integer, p_subscription_id bigint,
                                                  p_positions int8multirange, p_has_retries boolean,
                                                  p_limit integer)
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_positions bigint[];
    v_waited    bigint[];
BEGIN
    SELECT array_agg(p) INTO v_positions FROM (
        SELECT p FROM unnest(p_positions) r, generate_series(lower(r), upper(r) - 1) p
        ORDER BY p LIMIT p_limit) list;
    IF p_has_retries THEN
        SELECT array_agg(r.position) INTO v_waited FROM read_retries() r
            WHERE r.subscription_id = p_subscription_id AND r.position = ANY (v_positions)
                AND r.kind = RETRY_LEASED;
    END IF;
    IF v_waited IS NULL THEN
        RETURN QUERY SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata,
                            e.producer, e.schedule_id, e.key_version, e.hash, e.emitted_at,
                            e.entered_at, e.checksum, 0, 0, NULL::text, NULL::text, NULL::bigint,
                            NULL::integer, false, false, NULL::integer, NULL::text, NULL::uuid,
                            NULL::timestamptz, NULL::timestamptz, NULL::boolean, NULL::boolean,
                            NULL::uuid[], NULL::bigint[], NULL::boolean
            FROM events_at(p_namespace_id, NULL, v_positions) e ORDER BY e.position;
    ELSE
        RETURN QUERY SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata,
                            e.producer, e.schedule_id, e.key_version, e.hash, e.emitted_at,
                            e.entered_at, e.checksum, coalesce(r.attempts, 0),
                            coalesce(r.uncounted, 0), r.story, r.cause, r.unit_first, r.unit_events,
                            r.position IS NOT NULL, false, NULL::integer, NULL::text, NULL::uuid,
                            NULL::timestamptz, NULL::timestamptz, NULL::boolean, NULL::boolean,
                            NULL::uuid[], NULL::bigint[], NULL::boolean
            FROM (SELECT * FROM events_at(p_namespace_id, p_subscription_id, v_waited)
                  UNION ALL
                  SELECT * FROM events_at(p_namespace_id, NULL,
                      ARRAY(SELECT p FROM unnest(v_positions) p WHERE p <> ALL (v_waited)))) e
            LEFT JOIN read_retries() r ON r.subscription_id = p_subscription_id AND r.position = e.position
                AND r.kind = RETRY_LEASED
            ORDER BY e.position;
    END IF;
END
$$;

-- Takes up to p_max events, of which the last one makes it p_bytes or more, out of a lease that the
-- claim has locked. p_suspect: by its first piece, and what is left will be handed out in pieces.
CREATE OR REPLACE FUNCTION holdfast_private.lease_take(p_namespace_id integer, p_lease uuid, p_max integer,
                                               p_bytes bigint, p_suspect boolean, p_now timestamptz)
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease holdfast_private.leases;
    v_out   holdfast.claimed;
    v_piece integer;
    v_bytes bigint := 0;
    v_rest  int8multirange;
BEGIN
    SELECT * INTO v_lease FROM holdfast_private.leases l WHERE l.token = p_lease;
    v_piece := CASE WHEN p_suspect THEN coalesce(nullif(v_lease.piece, 0), (v_lease.count + 1) / 2)
                    ELSE coalesce(v_lease.piece, 0) END;
    SELECT v_lease.positions - holdfast_private.positions_of(array_agg(p)) INTO v_rest FROM (
        SELECT p FROM unnest(v_lease.positions) r, generate_series(lower(r), upper(r) - 1) p
        ORDER BY p LIMIT CASE WHEN p_suspect THEN least(v_piece, p_max) ELSE p_max END) taken;
    FOR v_out IN SELECT * FROM holdfast.leased_events(p_namespace_id, v_lease.subscription_id,
                                   v_lease.positions - v_rest, v_lease.has_retries, NULL) LOOP
        IF v_bytes >= p_bytes THEN
            v_rest := v_lease.positions * int8multirange(int8range(v_out.position, NULL));
            EXIT;
        END IF;
        RETURN NEXT v_out;
        v_bytes := v_bytes + octet_length(v_out.payload::text);
    END LOOP;
    IF isempty(v_rest) THEN
        DELETE FROM holdfast_private.leases l WHERE l.token = p_lease;
    ELSIF v_lease.piece IS NOT NULL THEN
        UPDATE holdfast_private.leases l SET positions = v_rest, count = holdfast_private.positions_count(v_rest),
                                     piece = v_piece
            WHERE l.token = p_lease;
    ELSE
        DELETE FROM holdfast_private.leases l WHERE l.token = p_lease;
        INSERT INTO holdfast_private.leases (token, subscription_id, expires_at, lease_ms, bound, kept, piece,
                                     careful, has_retries, count, owner_name, positions)
            VALUES (gen_random_uuid(), v_lease.subscription_id, least(v_lease.expires_at, p_now),
                    v_lease.lease_ms, false, false, v_piece, v_lease.kept OR v_lease.careful,
                    v_lease.has_retries,
                    holdfast_private.positions_count(v_rest), v_lease.owner_name, v_rest);
    END IF;
END
$$;

-- Takes up to p_max due retries of a kind, of which the last one makes it p_bytes or more.
CREATE OR REPLACE FUNCTION holdfast_private.retries_take(p_namespace_id integer, p_subscription_id bigint,
                                                 p_kind integer, p_max integer, p_bytes bigint,
                                                 p_now timestamptz)
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_due   bigint[];
    v_taken bigint[] := '{}';
    v_out   holdfast.claimed;
    v_bytes bigint := 0;
BEGIN
    SELECT array_agg(d.position) INTO v_due FROM (
        SELECT r.position FROM holdfast_private.retries r
        WHERE r.subscription_id = p_subscription_id AND r.partition = 0 AND r.kind = p_kind
            AND r.next_attempt_at <= p_now
        ORDER BY r.next_attempt_at, r.position LIMIT p_max
        FOR UPDATE SKIP LOCKED) d;
    IF v_due IS NULL THEN
        RETURN;
    END IF;
    FOR v_out IN
        SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
               e.schedule_id, e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum,
               r.attempts, r.uncounted, r.story, r.cause, r.unit_first, r.unit_events, true, false
        FROM holdfast.events_at(p_namespace_id, p_subscription_id, v_due) e
        JOIN holdfast_private.retries r ON r.subscription_id = p_subscription_id AND r.position = e.position
        ORDER BY r.next_attempt_at, r.position
    LOOP
        EXIT WHEN v_bytes >= p_bytes;
        RETURN NEXT v_out;
        v_taken := v_taken || v_out.position;
        v_bytes := v_bytes + octet_length(v_out.payload::text);
    END LOOP;
    UPDATE holdfast_private.retries r SET kind = RETRY_LEASED
        WHERE r.subscription_id = p_subscription_id AND r.position = ANY (v_taken);
END
$$;

-- The leases that have ended without an answer, at most 256, locked, in the order of their ends. Those
-- of one event are recorded as failed attempts on the way; free: those that nobody has; suspect: the
-- first of several events that somebody had; careful: that one was kept, and so is what the caller
-- claims (p_careful), so that it is handed over in one piece and nothing is recorded yet. p_from,
-- p_kept_from: see the journal. p_dead: owners that are dead; p_silent, p_silent_ms: others that stand
-- still, and for how long; p_kept: those that are kept are to be looked at.
CREATE OR REPLACE FUNCTION holdfast_private.claim_orphans(
    p_namespace_id integer, p_subscription_id bigint, p_from timestamptz, p_kept_from timestamptz,
    p_dead uuid[], p_kept boolean, p_silent uuid[], p_silent_ms bigint[], p_lease_ms bigint,
    p_careful boolean, p_now timestamptz,
    OUT free uuid[], OUT suspect uuid, OUT suspect_since timestamptz, OUT careful boolean,
    OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_until  timestamptz := CASE WHEN p_dead = '{}' THEN p_now ELSE 'infinity' END;
    v_looked integer := 0;
    v_whole  boolean;
    l        record;
BEGIN
    free := '{}';
    careful := false;
    FOR pass IN 0 .. p_kept::integer LOOP
        FOR l IN
            SELECT o.token, o.expires_at, o.piece, o.count, o.owner, o.owner_name, o.positions,
                   o.kept OR o.careful AS careful
            FROM holdfast_private.leases o
            WHERE o.subscription_id = p_subscription_id AND o.kept = (pass = 1)
                AND o.expires_at >= CASE pass WHEN 0 THEN p_from ELSE p_kept_from END
                AND o.expires_at <= v_until
                AND (o.bound AND o.owner = ANY (p_dead)
                     OR o.expires_at <= p_now
                        AND (pass = 0 OR o.owner = ANY (p_dead)
                             OR p_silent_ms[array_position(p_silent, o.owner)]
                                >= greatest(o.lease_ms, p_lease_ms)))
            ORDER BY o.expires_at LIMIT 256 - v_looked
            FOR UPDATE SKIP LOCKED
        LOOP
            v_looked := v_looked + 1;
            v_whole := l.careful AND p_careful;
            IF l.piece = 0 AND NOT l.careful THEN
                free := free || l.token;
            ELSIF v_whole OR l.piece IS NOT NULL OR l.count > 1 THEN
                IF suspect IS NULL OR l.expires_at < suspect_since THEN
                    suspect := l.token;
                    suspect_since := l.expires_at;
                    careful := v_whole;
                END IF;
            ELSE
                PERFORM holdfast_private.record_lost(p_namespace_id, p_subscription_id, lower(l.positions),
                    CASE WHEN l.owner = ANY (p_dead) THEN 'process_died' ELSE 'lease_expired' END,
                    l.owner_name, p_now);
                DELETE FROM holdfast_private.leases d WHERE d.token = l.token;
            END IF;
        END LOOP;
    END LOOP;
    more := v_looked = 256;
END
$$;

-- claim_<id>: `struct claim`, in the namespace of that number. Every namespace has this function for
-- itself, with the name of its log in it: so the server keeps its plans, and making them would take
-- longer than running them. This is its text; {namespace} stands for the number. change_claim calls the
-- one of a namespace that is only known when it runs.
--
-- p_generation: NULL or 0: any. p_lease: the token to use; NULL: it makes
-- one. p_patterns NULL: the stored ones. p_frozen, p_frozen_renewals, p_frozen_ms: processes that the
-- caller has seen standing still, at which number, and for how long of its own clock. p_look: look for
-- leases whose owner is dead or stands still (reads pg_locks; a busy caller need not do so more than
-- a few times a second). A row per event, then a last row with the answer, whose position is NULL:
-- status (HF_NOTFOUND 3, HF_MISUSE 2, HF_INVALID 1, HF_CONFLICT 4), lease (NULL: an empty batch),
-- expires_at, wake_at (NULL: not known), paused, more, careful (run these carefully: see above), and
-- with p_look in owners, owner_renewals those who have leases that are over but kept: to be handed in as
-- frozen if they are. wake_at is not asked for when there is more. p_commit: synchronous_commit for this
-- transaction (NULL: as it is). Locks the subscription's partition. May be committed asynchronously: what
-- is lost is handed out again.
--
-- Order: a retry of kind ALONE in its turn, alone; a suspect lease's piece, alone; due retries; free leases;
-- holes of earlier claims; the log after the cursor. A claim passes only what lies below a visible
-- position; what is missing there becomes a hole, kept in the journal with the cursor.
--
-- How a hole ends. Whoever draws a position holds a lock on the sequence until its transaction ends.
-- So first the holders of that lock are read, then the hole: whatever it shows is handed out. The
-- holders of the first such look are kept as witnesses. When a later look finds none of them, and no
-- prepared transaction (those change their name when they are prepared), whoever had drawn the
-- missing numbers had ended before the hole was read, and what is still missing will never come. A
-- hole is looked at for holders when it is 5 ms old, and then at most every 40 ms.
--   After a crash the witnesses of the former server are gone. A cursor that survives a crash was
-- written after the sequence's own record, so no number below it is given again.
CREATE OR REPLACE FUNCTION holdfast.claim_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $claim$
CREATE OR REPLACE FUNCTION holdfast.claim_{namespace}(
    p_namespace_id integer, p_subscription_id bigint, p_generation bigint, p_lease uuid,
    p_token uuid, p_node_name text, p_patterns text[], p_unhandled_too boolean, p_max integer,
    p_lease_ms bigint, p_bound boolean, p_kept boolean, p_frozen uuid[],
    p_frozen_renewals bigint[], p_frozen_ms bigint[], p_look boolean, p_now timestamptz,
    p_commit text,
    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    c_bytes_max constant bigint := 4194304;
    c_rows_max  constant integer := 10000;
    c_holes_max constant integer := 4096;
    v_answer    claimed;
    v_out       claimed;
    v_s         record;
    v_stored    checkpoints_0;
    v_row       record;
    v_probe     record;
    v_clock     timestamptz := clock_timestamp();
    v_from      timestamptz;
    v_kept_from timestamptz;
    v_dead      uuid[] := '{}';
    v_silent    uuid[];
    v_silent_ms bigint[];
    v_free      uuid[] := '{}';                 -- leases that ended without an answer
    v_suspect   uuid;
    v_since     timestamptz;
    v_careful   boolean := false;
    v_waiting   boolean;                        -- there are retries
    v_regex     text;
    v_alone     boolean := false;
    v_ahead     boolean := false;
    v_turn      boolean;
    v_more      boolean := false;
    v_retries   boolean := false;               -- some events have rows in retries
    v_log       boolean := true;                -- the log may be read
    v_list      bigint[] := '{}';               -- what this claim hands out ...
    v_run       int8multirange := '{}';         -- ... and what it takes of the log at once
    v_run_rows  integer := 0;
    v_run_bytes bigint;
    v_last      bigint;
    v_count     integer := 0;                   -- of both
    v_bytes     bigint := 0;
    v_seen      bigint[] := '{}';
    v_stop      bigint := 9223372036854775807;
    v_cursor    bigint;
    v_holes     hole[];
BEGIN
    PERFORM text_check(consumer_admit(p_ticket, {namespace}, p_token, p_now), 'node name', p_node_name, 255);
    IF p_commit IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', p_commit, true);
    END IF;
    v_answer.status := HF_OK;
    v_answer.paused := false;
    v_answer.more := false;
    v_answer.careful := false;
    SELECT s.mode, s.generation, s.paused_at, s.patterns INTO v_s
        FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = {namespace}
            AND p_namespace_id = {namespace};
    IF NOT FOUND THEN
        v_answer.status := HF_NOTFOUND;
        v_answer.message := format('there is no subscription with id %s', p_subscription_id);
    ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- One snapshot for all: the cursor may have moved since, and whoever was under way then may
        -- have committed, and would be taken for rolled back.
        v_answer.status := HF_MISUSE;
        v_answer.message := 'events can only be claimed in a READ COMMITTED transaction';
    ELSIF v_s.mode <> HF_MODE_SHARED THEN
        v_answer.status := HF_MISUSE;
        v_answer.message := 'events of an ordered subscription cannot be claimed';
    ELSIF p_max IS NULL OR p_max < 1 OR p_max > 10000 THEN
        v_answer.status := HF_INVALID;
        v_answer.message := format('max is %s; the limits are 1 and 10000', p_max);
    ELSIF p_lease_ms IS NULL OR p_lease_ms < 0 OR p_lease_ms > 604800000 THEN
        v_answer.status := HF_INVALID;
        v_answer.message := format('lease_ms is %s; the limits are 0 and 604800000', p_lease_ms);
    ELSIF p_generation <> 0 AND p_generation <> v_s.generation THEN
        v_answer.status := HF_CONFLICT;
        v_answer.message := format('the subscription has been changed: its generation is %s, not %s',
                                   v_s.generation, p_generation);
    ELSIF v_s.paused_at IS NOT NULL THEN
        v_answer.paused := true;
    ELSE
        PERFORM 1 FROM partitions p WHERE p.subscription_id = p_subscription_id AND p.partition = 0
            FOR UPDATE;
        IF NOT FOUND THEN
            v_answer.status := HF_NOTFOUND;
            v_answer.message := format('there is no subscription with id %s', p_subscription_id);
        END IF;
    END IF;
    IF v_answer.status <> HF_OK OR v_answer.paused THEN
        RETURN NEXT v_answer;
        RETURN;
    END IF;
    SELECT c.subscription_id, c.partition, c.seq, c.checkpoint, c.checkpoint_at, c.last_event_id, c.turn,
           c.leases_from, c.kept_from, c.holes, c.span, c.span_from, c.span_before INTO v_stored
        FROM checkpoints c WHERE c.subscription_id = p_subscription_id AND c.partition = 0;
    IF v_stored.checkpoint IS NULL THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    v_cursor := v_stored.checkpoint;
    v_holes := coalesce(v_stored.holes, '{}');
    v_turn := v_stored.turn;
    v_from := coalesce(v_stored.leases_from, '-infinity');
    v_kept_from := coalesce(v_stored.kept_from, '-infinity');

    -- Leases that have ended without an answer.
    IF p_look THEN
        SELECT dead_of(p_namespace_id, array_agg(DISTINCT l.owner)) INTO v_dead FROM leases l
            WHERE l.subscription_id = p_subscription_id AND l.owner <> p_token AND l.piece IS NULL
                AND (NOT l.kept AND l.expires_at >= v_from OR l.kept AND l.expires_at >= v_kept_from);
        SELECT array_agg(f.token), array_agg(f.ms) INTO v_silent, v_silent_ms
            FROM unnest(p_frozen, p_frozen_renewals, p_frozen_ms) f (token, renewals, ms)
            JOIN processes p ON p.token = f.token AND p.renewals = f.renewals;
        SELECT array_agg(p.token), array_agg(p.renewals)
            INTO v_answer.owners, v_answer.owner_renewals
            FROM processes p
            WHERE p.token <> ALL (v_dead) AND p.token IN (
                SELECT l.owner FROM leases l
                WHERE l.subscription_id = p_subscription_id AND l.kept AND l.expires_at >= v_kept_from
                    AND l.expires_at <= p_now AND l.owner <> p_token);
    END IF;
    IF p_look OR v_from <= p_now THEN
        SELECT o.free, o.suspect, o.suspect_since, o.careful, o.more
            INTO v_free, v_suspect, v_since, v_careful, v_more
            FROM claim_orphans(p_namespace_id, p_subscription_id, v_from, v_kept_from, v_dead, p_look,
                               v_silent, v_silent_ms, p_lease_ms, p_kept, p_now) o;
    END IF;
    v_waiting := EXISTS (SELECT FROM retries r WHERE r.subscription_id = p_subscription_id);

    -- What is handed out apart from all others: a retry of kind ALONE, or a piece of a suspect lease.
    IF v_waiting THEN
        v_alone := coalesce((SELECT r.next_attempt_at <= p_now FROM retries r
                             WHERE r.subscription_id = p_subscription_id AND r.partition = 0
                                 AND r.kind = RETRY_ALONE
                                 ORDER BY r.next_attempt_at LIMIT 1), false);
        v_more := v_more OR v_alone;
    END IF;
    IF v_alone AND NOT v_turn THEN
        v_log := false;
    ELSIF v_suspect IS NOT NULL THEN
        v_more := true;
        v_log := coalesce((SELECT r.next_attempt_at <= least(p_now, v_since)
                           FROM retries r
                           WHERE r.subscription_id = p_subscription_id AND r.partition = 0
                               AND r.kind = RETRY_WAITING
                               ORDER BY r.next_attempt_at LIMIT 1), false);
        IF NOT v_log THEN
            v_from := least(v_from, v_since, p_now);    -- where its rest ends
            v_answer.careful := v_careful;
            FOR v_out IN SELECT * FROM lease_take(p_namespace_id, v_suspect, p_max, c_bytes_max,
                                                  NOT v_careful, p_now) LOOP
                RETURN NEXT v_out;
                v_list := v_list || v_out.position;
                v_retries := v_retries OR v_out.waited;
            END LOOP;
        END IF;
    END IF;

    -- Due retries, then what nobody has.
    IF v_log AND v_waiting THEN
        FOR v_out IN SELECT * FROM retries_take(p_namespace_id, p_subscription_id, RETRY_WAITING,
                                                p_max, c_bytes_max, p_now) LOOP
            RETURN NEXT v_out;
            v_list := v_list || v_out.position;
            v_bytes := v_bytes + octet_length(v_out.payload::text);
            v_retries := true;
        END LOOP;
    END IF;
    IF v_log THEN
        FOR i IN 1 .. cardinality(v_free) LOOP
            EXIT WHEN cardinality(v_list) >= p_max OR v_bytes >= c_bytes_max;
            FOR v_out IN SELECT * FROM lease_take(p_namespace_id, v_free[i],
                                           p_max - cardinality(v_list), c_bytes_max - v_bytes,
                                           false, p_now) LOOP
                RETURN NEXT v_out;
                v_list := v_list || v_out.position;
                v_bytes := v_bytes + octet_length(v_out.payload::text);
                v_retries := v_retries OR v_out.waited;
            END LOOP;
        END LOOP;
    END IF;

    -- Holes: first who might still fill them, then what they show.
    v_log := v_log AND cardinality(v_list) < p_max AND v_bytes < c_bytes_max;
    IF v_log AND (p_patterns && '{*,**}') IS NOT TRUE THEN
        v_regex := patterns_regex(coalesce(p_patterns,
                       ARRAY(SELECT json_array_elements_text(v_s.patterns::json))));
    END IF;
    IF v_log AND v_holes <> '{}' THEN
        IF (SELECT bool_or(CASE WHEN h.probed_at IS NULL THEN h.since < v_clock - interval '5 ms'
                           ELSE h.probed_at < v_clock - interval '40 ms' OR h.probed_at > v_clock END)
            FROM unnest(v_holes) h)
           AND has_table_privilege('pg_catalog.pg_locks', 'SELECT') THEN
            v_probe := hole_holders({namespace});
        ELSE
            SELECT NULL::text[] AS holders, false AS prepared INTO v_probe;
        END IF;
        FOR v_row IN
            SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                   e.schedule_id, e.key_version, e.hash, e.emitted_at, e.entered_at,
                   e.checksum, v_regex IS NULL OR e.type ~ v_regex AS wanted
            FROM unnest(v_holes) h
            CROSS JOIN LATERAL (SELECT * FROM events_{namespace} o
                                WHERE o.position BETWEEN h.low AND h.high ORDER BY o.position) e
        LOOP
            IF cardinality(v_list) >= p_max OR v_bytes >= c_bytes_max THEN
                v_stop := v_row.position - 1;
                EXIT;
            END IF;
            v_seen := v_seen || v_row.position;
            CONTINUE WHEN NOT v_row.wanted AND NOT p_unhandled_too;
            v_out := ROW(v_row.position, v_row.id, v_row.type, v_row.payload, v_row.key, v_row.tenant,
                         v_row.metadata, v_row.producer, v_row.schedule_id, v_row.key_version,
                         v_row.hash, v_row.emitted_at, v_row.entered_at, v_row.checksum, 0, 0, NULL,
                         NULL, NULL, NULL, false, NOT v_row.wanted, NULL, NULL, NULL, NULL, NULL,
                         NULL, NULL, NULL, NULL, NULL);
            RETURN NEXT v_out;
            v_list := v_list || v_row.position;
            v_bytes := v_bytes + octet_length(v_row.payload::text);
        END LOOP;
        v_holes := holes_left(v_holes, v_seen, v_stop, v_probe.holders, v_probe.prepared, v_clock);
        v_log := cardinality(v_list) < p_max AND v_bytes < c_bytes_max;
    END IF;

    -- The log after the cursor: usually what is wanted is all there, with nothing missing before it.
    -- Then it is taken at once; else row by row, below.
    v_log := v_log AND cardinality(v_holes) < c_holes_max;
    IF v_log AND v_waiting THEN
        v_ahead := coalesce((SELECT r.position > v_cursor FROM retries r
                             WHERE r.subscription_id = p_subscription_id
                             ORDER BY r.position DESC LIMIT 1), false);
    END IF;
    IF v_log AND NOT v_ahead THEN
        SELECT count(*), count(*) FILTER (WHERE w), max(p), coalesce(sum(b), 0),
               CASE WHEN bool_and(w) THEN int8multirange(int8range(min(p), max(p), '[]'))
                    ELSE range_agg(int8range(p, p, '[]')) FILTER (WHERE w AND v_regex IS NOT NULL)
               END
            INTO v_run_rows, v_count, v_last, v_run_bytes, v_run
            FROM (SELECT e.position AS p, octet_length(e.payload::text) AS b,
                         v_regex IS NULL OR p_unhandled_too OR e.type ~ v_regex AS w
                  FROM events_{namespace} e
                  WHERE e.position > v_cursor
                  ORDER BY e.position LIMIT p_max - cardinality(v_list)) log;
    END IF;
    IF v_run_rows > 0 AND v_last - v_cursor = v_run_rows AND v_count * 2 >= v_run_rows
       AND v_bytes + v_run_bytes < c_bytes_max THEN
        v_log := false;
        v_more := v_more OR cardinality(v_list) + v_run_rows >= p_max;
        RETURN QUERY
            SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                   e.schedule_id, e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum, 0, 0,
                   NULL::text, NULL::text, NULL::bigint, NULL::integer, false,
                   v_regex IS NOT NULL AND NOT e.type ~ v_regex, NULL::integer, NULL::text, NULL::uuid,
                   NULL::timestamptz, NULL::timestamptz, NULL::boolean, NULL::boolean, NULL::uuid[],
                   NULL::bigint[], NULL::boolean
            FROM events_{namespace} e
            WHERE e.position > v_cursor AND e.position <= v_last
                AND (v_regex IS NULL OR p_unhandled_too OR e.type ~ v_regex)
            ORDER BY e.position;
        v_cursor := v_last;
    ELSE
        v_run := '{}';
        v_count := 0;
    END IF;

    -- Rows that are not wanted come along only if something is missing before them, or as the last
    -- one.
    IF v_log THEN
        FOR v_row IN
            SELECT * FROM (
                SELECT e.*, v_regex IS NULL OR e.type ~ v_regex AS wanted,
                       lag(e.position, 1, v_cursor) OVER w AS before,
                       lead(e.position) OVER w IS NULL AS last, row_number() OVER w AS number
                FROM (SELECT position, id, type, payload, key, tenant, metadata, producer,
                             schedule_id, key_version, hash, emitted_at, entered_at, checksum
                      FROM events_{namespace}
                      WHERE position > v_cursor ORDER BY position LIMIT c_rows_max) e
                WINDOW w AS (ORDER BY e.position)) log
            WHERE wanted OR p_unhandled_too OR last OR before < position - 1
        LOOP
            IF cardinality(v_list) >= p_max OR v_bytes >= c_bytes_max
               OR cardinality(v_holes) >= c_holes_max THEN
                v_more := true;
                EXIT;
            END IF;
            IF v_row.before < v_row.position - 1 THEN
                v_holes := v_holes || ROW(v_row.before + 1, v_row.position - 1, v_clock, NULL, NULL,
                                          NULL)::hole;
            END IF;
            v_cursor := v_row.position;
            v_more := v_more OR v_row.number = c_rows_max;
            CONTINUE WHEN NOT v_row.wanted AND NOT p_unhandled_too;
            CONTINUE WHEN v_ahead AND EXISTS (SELECT 1 FROM retries r
                WHERE r.subscription_id = p_subscription_id AND r.position = v_row.position);
            v_out := ROW(v_row.position, v_row.id, v_row.type, v_row.payload, v_row.key, v_row.tenant,
                         v_row.metadata, v_row.producer, v_row.schedule_id, v_row.key_version,
                         v_row.hash, v_row.emitted_at, v_row.entered_at, v_row.checksum, 0, 0, NULL,
                         NULL, NULL, NULL, false, NOT v_row.wanted, NULL, NULL, NULL, NULL, NULL,
                         NULL, NULL, NULL, NULL, NULL);
            RETURN NEXT v_out;
            v_list := v_list || v_row.position;
            v_bytes := v_bytes + octet_length(v_row.payload::text);
        END LOOP;
    END IF;

    -- A retry of kind ALONE: in its turn, or if there is nothing else.
    v_count := v_count + cardinality(v_list);
    IF v_alone AND v_count = 0 THEN
        FOR v_out IN SELECT * FROM retries_take(p_namespace_id, p_subscription_id, RETRY_ALONE, 1,
                                                c_bytes_max, p_now) LOOP
            RETURN NEXT v_out;
            v_list := v_list || v_out.position;
            v_count := v_count + 1;
            v_retries := true;
        END LOOP;
        v_turn := true;
    ELSIF v_count > 0 THEN
        v_turn := false;
    END IF;

    -- The lease.
    IF v_count > 0 THEN
        v_answer.lease := coalesce(p_lease, gen_random_uuid());
        v_answer.expires_at := p_now + p_lease_ms * interval '1 ms';
        INSERT INTO leases (token, subscription_id, expires_at, lease_ms, owner, bound, kept, careful,
                            has_retries, count, owner_name, positions)
            VALUES (v_answer.lease, p_subscription_id, v_answer.expires_at, p_lease_ms,
                    CASE WHEN p_bound OR p_kept THEN p_token END, p_bound, p_kept, v_answer.careful,
                    v_retries, v_count, p_node_name,
                    CASE WHEN v_list = '{}' THEN v_run ELSE positions_of(v_list) + v_run END);
    END IF;

    -- Where leases begin now.
    IF v_from < 'infinity' OR v_count > 0 AND NOT p_kept THEN
        v_from := coalesce((SELECT l.expires_at FROM leases l
                            WHERE l.subscription_id = p_subscription_id AND NOT l.kept
                                AND l.expires_at >= least(v_from, v_answer.expires_at)
                            ORDER BY l.expires_at LIMIT 1), 'infinity');
    END IF;
    IF v_kept_from < 'infinity' OR v_count > 0 AND p_kept THEN
        v_kept_from := coalesce((SELECT l.expires_at FROM leases l
                                 WHERE l.subscription_id = p_subscription_id AND l.kept
                                     AND l.expires_at >= least(v_kept_from, v_answer.expires_at)
                                 ORDER BY l.expires_at LIMIT 1), 'infinity');
    END IF;
    IF v_cursor <> v_stored.checkpoint OR v_turn <> v_stored.turn
       OR v_holes <> coalesce(v_stored.holes, '{}')
       OR v_from < coalesce(v_stored.leases_from, '-infinity')
       OR v_kept_from < coalesce(v_stored.kept_from, '-infinity') THEN
        PERFORM journal_add(p_subscription_id, 0, v_cursor, v_stored.checkpoint_at, NULL, v_turn,
                            v_from, v_kept_from, nullif(v_holes, '{}'), v_stored);
    END IF;

    -- When to look again, if not at once.
    v_answer.more := v_more OR v_count >= p_max OR v_bytes >= c_bytes_max;
    IF NOT v_answer.more THEN
        SELECT least((SELECT l.expires_at FROM leases l
                      WHERE l.subscription_id = p_subscription_id AND NOT l.kept
                          AND l.expires_at >= v_from AND l.expires_at > p_now
                      ORDER BY l.expires_at LIMIT 1),
                     (SELECT l.expires_at FROM leases l
                      WHERE l.subscription_id = p_subscription_id AND l.kept AND l.owner <> p_token
                          AND l.expires_at >= v_kept_from AND l.expires_at > p_now
                      ORDER BY l.expires_at LIMIT 1),
                     (SELECT r.next_attempt_at FROM retries r
                      WHERE r.subscription_id = p_subscription_id AND r.partition = 0
                          AND r.kind = RETRY_WAITING
                          AND r.next_attempt_at > p_now
                      ORDER BY r.next_attempt_at LIMIT 1),
                     CASE WHEN v_holes <> '{}' THEN p_now + interval '100 ms' END,
                     -- Others may die: also without p_look, for this may be the last claim for long.
                     CASE WHEN EXISTS (
                              SELECT 1 FROM leases l
                              WHERE l.subscription_id = p_subscription_id AND NOT l.kept
                                  AND l.expires_at >= v_from AND l.bound AND l.owner <> p_token)
                          OR EXISTS (
                              SELECT 1 FROM leases l
                              WHERE l.subscription_id = p_subscription_id AND l.kept
                                  AND l.expires_at >= v_kept_from AND l.bound
                                  AND l.owner <> p_token) THEN p_now + interval '800 ms' END)
            INTO v_answer.wake_at;
    END IF;
    RETURN NEXT v_answer;
END
$$;
$claim$;

-- Makes claim_<id>, or makes it anew. namespace_put does; so must whoever changes the text above.
CREATE OR REPLACE FUNCTION holdfast_private.claim_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE replace(claim_source(), '{namespace}', p_namespace_id::text);
    EXECUTE format('REVOKE ALL ON FUNCTION holdfast.%I FROM PUBLIC', 'claim_' || p_namespace_id);
END
$$;

-- change_claim: claim_<id> of a namespace.
CREATE OR REPLACE FUNCTION holdfast.change_claim(
    p_namespace_id integer, p_subscription_id bigint, p_generation bigint, p_lease uuid,
    p_token uuid, p_node_name text, p_patterns text[], p_unhandled_too boolean, p_max integer,
    p_lease_ms bigint, p_bound boolean, p_kept boolean, p_frozen uuid[],
    p_frozen_renewals bigint[], p_frozen_ms bigint[], p_look boolean, p_now timestamptz,
    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS SETOF holdfast.claimed
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_answer claimed;
BEGIN
    PERFORM consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    IF NOT EXISTS (SELECT FROM namespaces n WHERE n.id = p_namespace_id) THEN
        v_answer.status := HF_NOTFOUND;
        v_answer.message := format('there is no namespace with id %s', p_namespace_id);
        RETURN NEXT v_answer;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE
        'SELECT * FROM holdfast.claim_' || p_namespace_id
        || '($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, NULL)'
        USING p_namespace_id, p_subscription_id, p_generation, p_lease, p_token, p_node_name,
              p_patterns, p_unhandled_too, p_max, p_lease_ms, p_bound, p_kept, p_frozen,
              p_frozen_renewals, p_frozen_ms, p_look, p_now;
END
$$;
