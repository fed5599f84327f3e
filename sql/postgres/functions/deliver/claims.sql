-- Claims: handing out events of shared subscriptions under leases. sources.sql has where the events
-- come from, leases.sql reads and settles what was handed out.
--
--     log -- cursor, holes --> lease -- settled --> done, retries, dead letter
--                                |  ended without an answer
--                                v
--                              lease of the next claim, or retries
--
-- A claim is a chain of functions that hand on one value, holdfast_private.claiming: what was asked
-- for, what the journal says, and what is handed out so far. claim_<id>, of which every namespace
-- has its own, shows the chain as a whole:
--
--     claim_open     may it claim? locks the subscription's partition, reads the journal
--     claim_apart    a retry of kind ALONE in its turn, alone; a piece of a suspect lease, alone
--     claim_waiting  due retries, then free leases
--     claim_holes    what has become visible in the holes of earlier claims
--     claim_run      the log after the cursor, if nothing is missing in it
--     claim_log      the log after the cursor, with what is missing; that becomes holes
--     claim_typed    the log after the cursor by the index on types, if few events match
--     claim_close    the lease, the journal, and when to look again
--
-- Claims of a subscription come one after another: they lock its only partition. Whatever is handed
-- out is in the lease before the claim commits, so there is no moment at which an event is neither
-- before the cursor, nor in a hole, nor in a lease. Claims do not wait for locks of leases and
-- retries that another transaction is settling; they leave those alone.
--
-- A claim answers the batch: the lease, and when to look again. The events are read by the lease
-- (lease_events_<id>), in the same transaction or later.
--
-- Of a suspect lease (sources.sql) and due retries the one that has waited longer goes first;
-- retries of kind ALONE take turns with everything else (`turn`). So nothing starves.

-- ---- The steps of a claim -----------------------------------------------------------------------

-- What comes from a role: patterns as subscriptions have them, and no more processes than there may
-- be.
CREATE OR REPLACE FUNCTION holdfast_private.claim_values(p_caller oid, p_node_name text,
                                                         p_patterns text[], p_frozen uuid[],
                                                         p_frozen_renewals bigint[],
                                                         p_frozen_ms bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM text_check(p_caller, 'node name', p_node_name, HF_PRODUCER_BYTES_MAX);
    IF p_patterns IS NOT NULL THEN
        PERFORM fault_check(patterns_fault('of the claim', p_patterns));
    END IF;
    IF greatest(cardinality(p_frozen), cardinality(p_frozen_renewals), cardinality(p_frozen_ms))
       > STORE_MEMBERS_MAX THEN
        RAISE EXCEPTION 'p_frozen names more than STORE_MEMBERS_MAX processes'
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Begins a claim: checks, locks the subscription's partition, and reads the journal. Unless status
-- is HF_OK, or if it is paused, the other steps do nothing.
CREATE OR REPLACE FUNCTION holdfast_private.claim_open(
    p_namespace_id integer, p_subscription_id bigint, p_generation bigint, p_lease uuid,
    p_token uuid, p_node_name text, p_patterns text[], p_unhandled_too boolean, p_max integer,
    p_lease_ms bigint, p_bound boolean, p_kept boolean, p_now timestamptz)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_claim claiming;
    v_s     record;
BEGIN
    v_claim.clock := clock_timestamp();
    v_claim.reading := false;
    v_claim.status := HF_INVALID;
    SELECT s.mode, s.generation, s.paused_at, s.patterns INTO v_s FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF v_s.mode IS NULL THEN
        v_claim.status := HF_NOTFOUND;
        v_claim.message := missing_subscription(p_subscription_id);
    ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- One snapshot for all: the cursor may have moved since, and a transaction that was under
        -- way then may have committed, and would be taken for rolled back.
        v_claim.status := HF_MISUSE;
        v_claim.message := 'events can only be claimed in a READ COMMITTED transaction';
    ELSIF v_s.mode <> HF_MODE_SHARED THEN
        v_claim.status := HF_MISUSE;
        v_claim.message := 'events of an ordered subscription cannot be claimed';
    ELSIF p_max IS NULL OR p_max < 1 OR p_max > HF_CLAIM_MAX THEN
        v_claim.message := format('max is %s; the limits are 1 and HF_CLAIM_MAX', p_max);
    ELSIF p_lease_ms IS NULL OR p_lease_ms < 0 OR p_lease_ms > STORE_LEASE_MS_MAX THEN
        v_claim.message := format('lease_ms is %s; the limits are 0 and STORE_LEASE_MS_MAX',
                                  p_lease_ms);
    ELSIF p_generation <> 0 AND p_generation <> v_s.generation THEN
        v_claim.status := HF_CONFLICT;
        v_claim.message := format('the subscription has been changed: its generation is %s, not %s',
                                  v_s.generation, p_generation);
    ELSE
        v_claim.status := HF_OK;
    END IF;
    v_claim.paused := v_claim.status = HF_OK AND v_s.paused_at IS NOT NULL;
    IF v_claim.status <> HF_OK OR v_claim.paused THEN
        RETURN v_claim;
    END IF;
    PERFORM FROM partitions p WHERE p.subscription_id = p_subscription_id AND p.partition = 0
        FOR UPDATE;
    IF NOT FOUND THEN
        v_claim.status := HF_NOTFOUND;
        v_claim.message := missing_subscription(p_subscription_id);
        RETURN v_claim;
    END IF;
    SELECT j, EXISTS (SELECT FROM retries r WHERE r.subscription_id = p_subscription_id)
              OR EXISTS (SELECT FROM settled d WHERE d.subscription_id = p_subscription_id)
        INTO v_claim.stored, v_claim.waiting FROM journal_look(p_subscription_id, 0) j;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    v_claim.namespace_id := p_namespace_id;
    v_claim.subscription_id := p_subscription_id;
    v_claim.max := p_max;
    v_claim.bytes_max := STORE_BATCH_BYTES_MAX;
    v_claim.lease_ms := p_lease_ms;
    v_claim.lease := p_lease;
    v_claim.token := p_token;
    v_claim.node_name := p_node_name;
    v_claim.bound := p_bound;
    v_claim.kept := p_kept;
    v_claim.now := p_now;
    v_claim.unhandled_too := p_unhandled_too;
    v_claim.cursor := (v_claim.stored).checkpoint;
    v_claim.holes := coalesce((v_claim.stored).holes, '{}');
    v_claim.turn := (v_claim.stored).turn;
    v_claim.leases_from := coalesce((v_claim.stored).leases_from, '-infinity');
    v_claim.kept_from := coalesce((v_claim.stored).kept_from, '-infinity');
    IF (p_patterns && '{*,**}') IS NOT TRUE THEN
        v_claim.patterns := coalesce(p_patterns,
                                     ARRAY(SELECT json_array_elements_text(v_s.patterns::json)));
        v_claim.regex := patterns_regex(v_claim.patterns);
    END IF;
    IF v_claim.regex IS NULL OR p_unhandled_too THEN
        v_claim.patterns := NULL;
    END IF;
    v_claim.rows_left := claim_rows_max(v_claim.regex);
    v_claim.positions := '{}';
    v_claim.unhandled := '{}';
    v_claim.count := 0;
    v_claim.bytes := 0;
    v_claim.has_retries := false;
    v_claim.careful := false;
    v_claim.more := false;
    v_claim.free := '{}';
    v_claim.alone := false;
    v_claim.ahead := false;
    v_claim.reading := true;
    RETURN v_claim;
END
$$;

-- What is handed out apart from all others: a retry of kind ALONE in its turn (claim_close takes
-- it), or a piece of a suspect lease. p_look: looks for leases whose owner is dead or stands still.
-- p_frozen, p_frozen_renewals, p_frozen_ms: see change_claim.
CREATE OR REPLACE FUNCTION holdfast_private.claim_apart(p_claim holdfast_private.claiming,
                                                        p_look boolean, p_frozen uuid[],
                                                        p_frozen_renewals bigint[],
                                                        p_frozen_ms bigint[])
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_dead      uuid[] := '{}';
    v_silent    uuid[];
    v_silent_ms bigint[];
    v_found     record;
    v_suspect   uuid;
BEGIN
    IF p_look THEN
        SELECT dead_of(p_claim.namespace_id, array_agg(DISTINCT l.owner)) INTO v_dead FROM leases l
            WHERE l.subscription_id = p_claim.subscription_id AND l.owner <> p_claim.token
                AND l.piece IS NULL
                AND (NOT l.kept AND l.expires_at >= p_claim.leases_from
                     OR l.kept AND l.expires_at >= p_claim.kept_from);
        SELECT array_agg(f.token), array_agg(f.ms) INTO v_silent, v_silent_ms
            FROM unnest(p_frozen, p_frozen_renewals, p_frozen_ms) f (token, renewals, ms)
            JOIN processes p ON p.token = f.token AND p.renewals = f.renewals;
        SELECT array_agg(p.token), array_agg(p.renewals)
            INTO p_claim.owners, p_claim.owner_renewals
            FROM processes p
            WHERE p.token <> ALL (v_dead) AND p.token IN (
                SELECT l.owner FROM leases l
                WHERE l.subscription_id = p_claim.subscription_id AND l.kept
                    AND l.expires_at >= p_claim.kept_from AND l.expires_at <= p_claim.now
                    AND l.owner <> p_claim.token);
    END IF;
    IF p_look OR p_claim.leases_from <= p_claim.now THEN
        v_found := claim_orphans(p_claim, v_dead, p_look, v_silent, v_silent_ms);
        p_claim.free := v_found.free;
        p_claim.more := v_found.more;
        p_claim.waiting := p_claim.waiting OR EXISTS ( -- a lost attempt was recorded
            SELECT FROM retries r WHERE r.subscription_id = p_claim.subscription_id);
        v_suspect := v_found.suspect;
    END IF;
    IF p_claim.waiting THEN
        p_claim.alone := coalesce(
            retries_first_due(p_claim.subscription_id, RETRY_ALONE) <= p_claim.now, false);
        p_claim.more := p_claim.more OR p_claim.alone;
    END IF;
    IF p_claim.alone AND NOT p_claim.turn THEN
        p_claim.reading := false;
    ELSIF v_suspect IS NOT NULL THEN
        p_claim.more := true;
        IF (retries_first_due(p_claim.subscription_id, RETRY_WAITING)
            <= least(p_claim.now, v_found.suspect_since)) IS NOT TRUE THEN
            -- least: where the rest of the lease ends
            p_claim.leases_from := least(p_claim.leases_from, v_found.suspect_since, p_claim.now);
            p_claim.careful := v_found.careful;
            p_claim := lease_take(p_claim, v_suspect, NOT v_found.careful);
            p_claim.reading := false;
        END IF;
    END IF;
    RETURN p_claim;
END
$$;

-- Due retries, then free leases. Says how many rows of the holes are read first.
CREATE OR REPLACE FUNCTION holdfast_private.claim_waiting(p_claim holdfast_private.claiming)
    RETURNS holdfast_private.claiming
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease uuid;
BEGIN
    IF p_claim.waiting THEN
        p_claim := retries_take(p_claim, RETRY_WAITING, p_claim.max);
        p_claim.ahead := coalesce((SELECT r.position > p_claim.cursor FROM retries r
                                   WHERE r.subscription_id = p_claim.subscription_id
                                   ORDER BY r.position DESC LIMIT 1), false)
                         OR EXISTS (SELECT FROM settled d
                                    WHERE d.subscription_id = p_claim.subscription_id);
    END IF;
    FOREACH v_lease IN ARRAY p_claim.free LOOP
        EXIT WHEN NOT p_claim.reading;
        p_claim := lease_take(p_claim, v_lease, false);
    END LOOP;
    p_claim.portion := least(greatest(p_claim.max - p_claim.count, 1000), p_claim.rows_left);
    RETURN p_claim;
END
$$;

-- When to look again, if not at once; NULL: not known.
CREATE OR REPLACE FUNCTION holdfast_private.claim_wake(p_claim holdfast_private.claiming)
    RETURNS timestamptz
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN (SELECT least(
        (SELECT l.expires_at FROM leases l
         WHERE l.subscription_id = p_claim.subscription_id AND NOT l.kept
             AND l.expires_at >= p_claim.leases_from AND l.expires_at > p_claim.now
         ORDER BY l.expires_at LIMIT 1),
        (SELECT l.expires_at FROM leases l
         WHERE l.subscription_id = p_claim.subscription_id AND l.kept AND l.owner <> p_claim.token
             AND l.expires_at >= p_claim.kept_from AND l.expires_at > p_claim.now
         ORDER BY l.expires_at LIMIT 1),
        (SELECT r.next_attempt_at FROM retries r
         WHERE r.subscription_id = p_claim.subscription_id AND r.partition = 0
             AND r.kind = RETRY_WAITING AND r.next_attempt_at > p_claim.now
         ORDER BY r.next_attempt_at LIMIT 1),
        CASE WHEN p_claim.holes <> '{}' THEN p_claim.now + interval '100 ms' END,
        -- Others may die: also without p_look, for this may be the last claim for long.
        CASE WHEN EXISTS (
                 SELECT FROM leases l
                 WHERE l.subscription_id = p_claim.subscription_id AND NOT l.kept
                     AND l.expires_at >= p_claim.leases_from AND l.bound
                     AND l.owner <> p_claim.token)
             OR EXISTS (
                 SELECT FROM leases l
                 WHERE l.subscription_id = p_claim.subscription_id AND l.kept
                     AND l.expires_at >= p_claim.kept_from AND l.bound
                     AND l.owner <> p_claim.token)
             THEN p_claim.now + interval '800 ms' END));
END
$$;

-- Ends a claim: makes the lease of all that is handed out, and takes a retry of kind ALONE if it is
-- its turn or if there is nothing else; writes into the journal what has changed (where leases
-- begin now, cursor, holes, turn); answers the batch.
CREATE OR REPLACE FUNCTION holdfast_private.claim_close(p_claim holdfast_private.claiming)
    RETURNS holdfast.claim_batch
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_stored checkpoints_0 := p_claim.stored;
    v_more   boolean;
BEGIN
    IF p_claim.alone AND p_claim.count = 0 THEN
        p_claim := retries_take(p_claim, RETRY_ALONE, 1);
        p_claim.turn := true;
    ELSIF p_claim.count > 0 THEN
        p_claim.turn := false;
    END IF;
    IF p_claim.count > 0 THEN
        p_claim.lease := coalesce(p_claim.lease, gen_random_uuid());
        p_claim.expires_at := p_claim.now + p_claim.lease_ms * interval '1 ms';
        INSERT INTO leases (token, subscription_id, expires_at, lease_ms, owner, bound, kept,
                            careful, has_retries, count, owner_name, positions, handed,
                            claimed_at)
            VALUES (p_claim.lease, p_claim.subscription_id, p_claim.expires_at, p_claim.lease_ms,
                    CASE WHEN p_claim.bound OR p_claim.kept THEN p_claim.token END, p_claim.bound,
                    p_claim.kept, p_claim.careful, p_claim.has_retries, p_claim.count,
                    p_claim.node_name, p_claim.positions,
                    CASE WHEN p_claim.handed IS NOT NULL THEN handed_merge(p_claim.handed) END,
                    p_claim.now);
    ELSE
        p_claim.lease := NULL;
    END IF;
    IF p_claim.leases_from < 'infinity' OR p_claim.count > 0 AND NOT p_claim.kept THEN
        p_claim.leases_from := coalesce((
            SELECT l.expires_at FROM leases l
            WHERE l.subscription_id = p_claim.subscription_id AND NOT l.kept
                AND l.expires_at >= least(p_claim.leases_from, p_claim.expires_at)
            ORDER BY l.expires_at LIMIT 1), 'infinity');
    END IF;
    IF p_claim.kept_from < 'infinity' OR p_claim.count > 0 AND p_claim.kept THEN
        p_claim.kept_from := coalesce((
            SELECT l.expires_at FROM leases l
            WHERE l.subscription_id = p_claim.subscription_id AND l.kept
                AND l.expires_at >= least(p_claim.kept_from, p_claim.expires_at)
            ORDER BY l.expires_at LIMIT 1), 'infinity');
    END IF;
    IF p_claim.count > 0 OR p_claim.cursor <> v_stored.checkpoint OR p_claim.turn <> v_stored.turn
       OR p_claim.holes <> coalesce(v_stored.holes, '{}')
       OR p_claim.leases_from < coalesce(v_stored.leases_from, '-infinity')
       OR p_claim.kept_from < coalesce(v_stored.kept_from, '-infinity') THEN
        PERFORM journal_add(p_claim.subscription_id, 0, p_claim.cursor, v_stored.checkpoint_at,
                            NULL, p_claim.turn, p_claim.leases_from, p_claim.kept_from,
                            nullif(p_claim.holes, '{}'), v_stored,
                            CASE WHEN p_claim.count > 0 THEN p_claim.now END);
    END IF;
    IF p_claim.ahead THEN                       -- what is cancelled, and has been passed
        DELETE FROM settled d
            WHERE d.subscription_id = p_claim.subscription_id AND d.partition = 0
                AND d.position <= p_claim.cursor
                AND NOT EXISTS (SELECT FROM unnest(p_claim.holes) h
                                WHERE d.position BETWEEN h.low AND h.high);
    END IF;
    v_more := p_claim.more OR p_claim.count >= p_claim.max OR p_claim.bytes >= p_claim.bytes_max;
    RETURN ROW(HF_OK, NULL, p_claim.lease, p_claim.expires_at,
               CASE WHEN NOT v_more THEN claim_wake(p_claim) END, false, v_more, p_claim.careful,
               p_claim.owners, p_claim.owner_renewals,
               CASE WHEN p_claim.unhandled <> '{}' THEN positions_list(p_claim.unhandled) END
               )::claim_batch;
END
$$;

-- ---- The log of a namespace ---------------------------------------------------------------------

-- claim_<id>: `struct claim`, in the namespace of that number. Every namespace has this function
-- for itself, with the name of its log in it: so the server keeps its plans, and making them would
-- take longer than running them. This is its text; {namespace} stands for the number. change_claim
-- calls the one of a namespace that is only known when it runs.
--
-- p_generation: NULL or 0: any. p_lease: the token to use; NULL: it makes one. p_patterns NULL: the
-- stored ones. p_frozen, p_frozen_renewals, p_frozen_ms: processes that the caller has seen
-- standing still, at which number, and for how long of its own clock. p_look: look for leases whose
-- owner is dead or stands still (reads pg_locks; a busy caller need not do so more than a few times
-- a second). p_commit: synchronous_commit for this transaction (NULL: as it is). Answers the batch
-- (tables/0003_subscriptions.sql). Locks the subscription's partition. May be committed
-- asynchronously: what is lost is handed out again.
--
-- A claim passes only what lies below a visible position; what is missing there becomes a hole,
-- kept in the journal with the cursor. holes.sql says how it ends.
--
-- The statements read positions, sizes of payloads, and whether the patterns match; the events
-- themselves are read by their lease.
CREATE OR REPLACE FUNCTION holdfast.claim_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $claim$
CREATE OR REPLACE FUNCTION holdfast.claim_{namespace}(
    p_namespace_id integer, p_subscription_id bigint, p_generation bigint, p_lease uuid,
    p_token uuid, p_node_name text, p_patterns text[], p_unhandled_too boolean, p_max integer,
    p_lease_ms bigint, p_bound boolean, p_kept boolean, p_frozen uuid[],
    p_frozen_renewals bigint[], p_frozen_ms bigint[], p_look boolean, p_now timestamptz,
    p_commit text, p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS holdfast.claim_batch
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    c    claiming;
    seen record;                                -- the holders of publishers' locks
    part log_part;
    rows record;
BEGIN
    IF (p_ticket = (SELECT s.secret FROM secret s)) IS NOT TRUE THEN -- else it is the owner
        PERFORM claim_values(consumer_admit(p_ticket, {namespace}, p_token, p_now), p_node_name,
                             p_patterns, p_frozen, p_frozen_renewals, p_frozen_ms);
    END IF;
    IF p_commit IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', p_commit, true);
    END IF;
    c := claim_open(CASE p_namespace_id WHEN {namespace} THEN {namespace} END, p_subscription_id,
                    p_generation, p_lease, p_token, p_node_name, p_patterns, p_unhandled_too, p_max,
                    p_lease_ms, p_bound, p_kept, p_now);
    IF NOT c.reading THEN
        RETURN ROW(c.status, c.message, NULL, NULL, NULL, c.paused, false, false, NULL, NULL,
                   NULL)::claim_batch;
    END IF;
    IF p_look OR c.waiting OR c.leases_from <= c.now THEN
        c := claim_apart(c, p_look, p_frozen, p_frozen_renewals, p_frozen_ms);
    END IF;
    IF c.reading AND (c.waiting OR c.holes <> '{}' OR c.free <> '{}') THEN
        c := claim_waiting(c);
    END IF;
    IF c.reading AND c.holes <> '{}' THEN
        seen := hole_look({namespace}, c.holes, c.clock);
    END IF;
    WHILE c.reading AND c.holes <> '{}' AND c.portion > 0 LOOP
        SELECT array_agg(e.position) AS positions, array_agg(e.bytes) AS bytes,
               array_agg(e.matches) AS matches INTO rows
            FROM (SELECT o.position, octet_length(o.payload::text) AS bytes,
                         c.regex IS NULL OR o.type ~ c.regex AS matches
                  FROM unnest(c.holes) h
                  CROSS JOIN LATERAL (SELECT position, type, payload FROM events_{namespace}
                                      WHERE position BETWEEN h.low AND h.high ORDER BY position) o
                  LIMIT c.portion) e;
        c := claim_holes(c, rows.positions, rows.bytes, rows.matches, seen.holders, seen.prepared);
    END LOOP;
    IF c.reading AND NOT c.ahead THEN
        SELECT count(*), max(e.position), NULL, NULL,
               range_agg(int8range(e.position, e.position, '[]')) FILTER (WHERE NOT e.matches),
               count(*) FILTER (WHERE e.matches OR c.unhandled_too), sum(e.bytes)
            INTO part
            FROM (SELECT position, octet_length(payload::text) AS bytes,
                         c.regex IS NULL OR type ~ c.regex AS matches
                  FROM events_{namespace}
                  WHERE position > c.cursor
                  ORDER BY position LIMIT least(c.max - c.count, c.rows_left)) e;
        c := claim_run(c, part);
    END IF;
    c.portion := 0;
    WHILE c.reading LOOP
        c.portion := claim_portion(c);
        SELECT array_agg(e.position) AS positions, array_agg(e.bytes) AS bytes,
               array_agg(e.matches) AS matches INTO rows
            FROM (SELECT position, octet_length(payload::text) AS bytes,
                         c.regex IS NULL OR type ~ c.regex AS matches
                  FROM events_{namespace}
                  WHERE position > c.cursor ORDER BY position LIMIT c.portion) e;
        c := claim_log(c, rows.positions, rows.bytes, rows.matches);
        IF claim_is_sparse(c) THEN
            c := claim_typed(c);
        END IF;
    END LOOP;
    RETURN claim_close(c);
END
$$;
$claim$;

-- Makes claim_<id> and lease_events_<id>, or makes them anew. namespace_put does; so must a change
-- of the texts above.
CREATE OR REPLACE FUNCTION holdfast_private.claim_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE replace(claim_source(), '{namespace}', p_namespace_id::text);
    EXECUTE replace(lease_events_source(), '{namespace}', p_namespace_id::text);
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
    RETURNS holdfast.claim_batch
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
    v_batch  claim_batch;
BEGIN
    v_caller := consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    IF v_caller IS NOT NULL THEN
        PERFORM claim_values(v_caller, p_node_name, p_patterns, p_frozen, p_frozen_renewals,
                             p_frozen_ms);
    END IF;
    IF NOT EXISTS (SELECT FROM namespaces n WHERE n.id = p_namespace_id) THEN
        v_batch.status := HF_NOTFOUND;
        v_batch.message := format('there is no namespace with id %s', p_namespace_id);
        RETURN v_batch;
    END IF;
    EXECUTE 'SELECT * FROM holdfast.claim_' || p_namespace_id
            || '($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, NULL)'
        INTO v_batch
        USING p_namespace_id, p_subscription_id, p_generation, p_lease, p_token, p_node_name,
              p_patterns, p_unhandled_too, p_max, p_lease_ms, p_bound, p_kept, p_frozen,
              p_frozen_renewals, p_frozen_ms, p_look, p_now;
    RETURN v_batch;
END
$$;
