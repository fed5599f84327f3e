-- Signs of life: which processes work in a namespace, and which of them are dead.
--
-- A process holds an advisory lock on a connection of its own and a row in processes. The lock's
-- absence means death; renewals that stop rising mean that it is frozen, which only a process that
-- watches it for a while can see.

-- The advisory lock that a process holds on a connection of its own as long as it lives, if no
-- other session has taken that key.
CREATE OR REPLACE FUNCTION holdfast.process_key(p_namespace_id integer, p_token uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hashtextextended($1 || ':' || $2, 0);

-- process_lock: takes an advisory lock for the process on this connection, and answers whether
-- there was one to be had. Which one it is its row says (process_held); any one will do.
CREATE OR REPLACE FUNCTION holdfast.process_lock(p_namespace_id integer, p_token uuid)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_tries_max constant integer := 100;
    v_key       bigint := process_key(p_namespace_id, p_token);
BEGIN
    FOR try IN 1 .. c_tries_max LOOP
        IF pg_try_advisory_lock(v_key) THEN
            PERFORM set_config('holdfast.process_lock', v_key::text, false);
            RETURN true;
        END IF;
        v_key := process_key(p_namespace_id, gen_random_uuid());
    END LOOP;
    RETURN false;
END
$$;

-- process_held: an advisory lock that this session holds, as process_lock noted it in the session:
-- to look for it among the locks of the server takes longer than all else that registering does.
-- Who notes another one is taken for dead. NULL: none, or the server hides its locks.
CREATE OR REPLACE FUNCTION holdfast_private.process_held() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_noted bigint := nullif(current_setting('holdfast.process_lock', true), '');
BEGIN
    IF v_noted IS NOT NULL OR NOT has_table_privilege('pg_catalog.pg_locks', 'SELECT') THEN
        RETURN v_noted;
    END IF;
    RETURN (SELECT l.classid::bigint << 32 | l.objid::bigint FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                AND l.mode = 'ExclusiveLock' AND l.pid = pg_backend_pid()
            ORDER BY 1 LIMIT 1);
END
$$;

-- Which of these processes are dead: not registered (any more), or registered with a lock that the
-- session which registered it does not hold. One that could take no lock (behind a transaction
-- pooler) is never called dead: it can only be seen to be frozen; nor is any on a server that hides
-- its locks. Reads pg_locks once.
CREATE OR REPLACE FUNCTION holdfast.dead_of(p_namespace_id integer, p_tokens uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_held text[]; -- sessions and the locks that they hold
    v_seen boolean;
BEGIN
    IF coalesce(cardinality(p_tokens), 0) = 0 THEN
        RETURN '{}';
    END IF;
    v_seen := has_table_privilege('pg_catalog.pg_locks', 'SELECT');
    IF v_seen THEN
        SELECT array_agg(concat(pid, ' ', classid::bigint << 32 | objid::bigint)) INTO v_held
            FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    END IF;
    RETURN coalesce((
        SELECT array_agg(t) FROM unnest(p_tokens) t LEFT JOIN read_processes() p ON p.token = t
            AND p.namespace_id = p_namespace_id
        WHERE p.token IS NULL
           OR v_seen AND p.locked
               AND concat(p.backend, ' ', p.lock_key) <> ALL (coalesce(v_held, '{}'))), '{}');
END
$$;

-- clock_mind: if the server's clock was set back since a process of the namespace was last seen,
-- what is stored for later would come later by as much. Then leases end lease_ms from now at the
-- latest, and retries that were recorded in the future are due now: early at worst. Rings if it was
-- so. A role that does not consume there (grants.sql) leaves it, and the signs of it, to those that
-- do.
CREATE OR REPLACE FUNCTION holdfast_private.clock_mind(p_namespace_id integer, p_caller oid)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_id  bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM processes p
                   WHERE p.namespace_id = p_namespace_id AND p.seen_at > v_now + interval '1 s')
       AND NOT EXISTS (SELECT 1 FROM namespaces n
                       WHERE n.id = p_namespace_id AND n.closed_at > v_now + interval '1 s') THEN
        RETURN;
    END IF;
    IF NOT caller_has(p_caller, p_namespace_id, 'consumer', 'owner') THEN
        RETURN;
    END IF;
    UPDATE processes p SET seen_at = v_now WHERE p.namespace_id = p_namespace_id
        AND p.seen_at > v_now;
    UPDATE namespaces n SET closed_at = NULL WHERE n.id = p_namespace_id AND n.closed_at > v_now;
    FOR v_id IN SELECT s.id FROM subscriptions s WHERE s.namespace_id = p_namespace_id
        ORDER BY 1 LOOP
        PERFORM leases_lower(v_id, false, v_now);
        PERFORM leases_lower(v_id, true, v_now);
        UPDATE leases l SET expires_at = v_now + l.lease_ms * interval '1 ms'
            WHERE l.subscription_id = v_id AND l.expires_at > v_now + l.lease_ms * interval '1 ms';
        UPDATE retries r SET next_attempt_at = v_now, last_retry_at = v_now
            WHERE r.subscription_id = v_id AND r.kind IN (RETRY_WAITING, RETRY_ALONE)
                AND r.next_attempt_at > v_now
                AND coalesce(r.last_retry_at, r.next_attempt_at) > v_now;
    END LOOP;
    PERFORM wake(p_namespace_id);
END
$$;

-- process_check: the process with this token is one of the namespace, or none that is registered;
-- and the caller may speak for it: a role that does not consume there may only for those that it
-- registered itself. 42501. p_caller: of admit.
CREATE OR REPLACE FUNCTION holdfast_private.process_check(p_namespace_id integer, p_token uuid,
                                                          p_caller oid)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND EXISTS (
           SELECT FROM processes p WHERE p.token = p_token
               AND (p.namespace_id <> p_namespace_id OR p.role_id <> p_caller
                    AND NOT caller_has(p_caller, p_namespace_id, 'consumer', 'owner'))) THEN
        RAISE EXCEPTION '% may not speak for the process with token %', p_caller::regrole, p_token
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

-- process_room: raises HF001 if the caller has registered more processes in the namespace than any
-- program could need: those of all namespaces are in one table, which each sign of life reads.
CREATE OR REPLACE FUNCTION holdfast_private.process_room(p_namespace_id integer, p_caller oid)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_processes_max constant integer := 10000;
BEGIN
    IF p_caller IS NOT NULL AND (
           SELECT count(*) FROM processes p
           WHERE p.namespace_id = p_namespace_id AND p.role_id = p_caller) >= c_processes_max THEN
        RAISE EXCEPTION 'role % has % processes in this namespace, which is the limit',
            p_caller::regrole, c_processes_max USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- process_beat: registers a process, or shows a sign of life: its renewals rise by one. p_locked:
-- this session holds its lock (process_lock). Answers a row for every other registered process of
-- the namespace, with its renewals and whether it is dead; renewals that stand still for a lease of
-- the observer's own clock mean that the process is frozen, and are handed to change_acquire and
-- change_claim.
CREATE OR REPLACE FUNCTION holdfast.process_beat(p_namespace_id integer, p_token uuid,
                                                 p_node_name text, p_locked boolean,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS TABLE (token uuid, node_name text, renewals bigint, dead boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_caller oid := admit(p_ticket, p_namespace_id, 'be a node of', 'viewer', 'publisher',
                          'consumer', 'owner');
    v_dead   uuid[];
BEGIN
    PERFORM process_check(p_namespace_id, p_token, v_caller);
    PERFORM text_check(v_caller, 'node name', p_node_name, HF_PRODUCER_BYTES_MAX);
    PERFORM clock_mind(p_namespace_id, v_caller);
    UPDATE processes p
        SET renewals = p.renewals + 1, seen_at = clock_timestamp(), locked = p_locked,
            backend = pg_backend_pid(),
            lock_key = CASE WHEN NOT p_locked OR p.locked AND p.backend = pg_backend_pid()
                                THEN p.lock_key
                            ELSE process_held() END
        WHERE p.token = p_token;
    IF NOT FOUND THEN
        PERFORM process_room(p_namespace_id, v_caller);
        INSERT INTO processes AS p (token, started_at, seen_at, namespace_id, locked, backend,
                                    lock_key, node_name, role_id)
            VALUES (p_token, clock_timestamp(), clock_timestamp(), p_namespace_id, p_locked,
                    pg_backend_pid(), CASE WHEN p_locked THEN process_held() END, p_node_name,
                    coalesce(v_caller, role_id()))
            ON CONFLICT (token) DO NOTHING;
    END IF;
    SELECT dead_of(p_namespace_id, array_agg(p.token)) INTO v_dead
        FROM processes p WHERE p.namespace_id = p_namespace_id AND p.token <> p_token;
    RETURN QUERY SELECT p.token, p.node_name, p.renewals, p.token = ANY (v_dead)
        FROM processes p WHERE p.namespace_id = p_namespace_id AND p.token <> p_token;
END
$$;

-- publishers: the virtual transactions that have published and are not over yet. NULL: the server
-- hides its locks, so it is not known. p_head is the newest position, which was read before.
CREATE OR REPLACE FUNCTION holdfast.publishers(p_namespace_id integer, p_head bigint) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege('pg_catalog.pg_locks', 'SELECT') THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT l.virtualtransaction FROM publishing_now(p_namespace_id) l);
END
$$;

-- company: a number that changes when a definition of the namespace or the set of its workers does,
-- when a process comes or goes, and when one dies: then there may be work of which no notification
-- was sent.
CREATE OR REPLACE FUNCTION holdfast.company(p_namespace_id integer, p_token uuid) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
    SELECT hashtextextended(concat_ws(' ',
        (SELECT sum(s.generation) + sum(s.members_version) FROM read_subscriptions() s
         WHERE s.namespace_id = p_namespace_id),
        (SELECT max(s.id) FROM read_subscriptions() s WHERE s.namespace_id = p_namespace_id),
        array_agg(p.token ORDER BY p.token),
        dead_of(p_namespace_id, array_agg(p.token ORDER BY p.token))), 0)
    FROM read_processes() p WHERE p.namespace_id = p_namespace_id AND p.token <> p_token
$$;

-- process_pass: what a process does that changes leases or retries and ends, without being
-- registered (brief): it minds the clock, as one that registers does, and records that it was here,
-- as the last one that closes does.
CREATE OR REPLACE FUNCTION holdfast.process_pass(p_namespace_id integer,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid := admit(p_ticket, p_namespace_id, 'change the subscriptions of', 'consumer',
                          'owner');
    v_now    timestamptz := clock_timestamp();
    v_last   record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT n.closed_at, EXISTS (SELECT FROM processes p WHERE p.namespace_id = n.id) AS others
        INTO v_last FROM namespaces n WHERE n.id = p_namespace_id;
    IF v_last.others OR v_last.closed_at > v_now + interval '1 s' THEN
        PERFORM clock_mind(p_namespace_id, v_caller);
    END IF;
    IF NOT v_last.others
       AND (v_last.closed_at BETWEEN v_now - interval '1 s' AND v_now) IS NOT TRUE THEN
        UPDATE namespaces n SET closed_at = v_now WHERE n.id IN (
            SELECT s.id FROM namespaces s WHERE s.id = p_namespace_id
            FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
END
$$;

-- process_sweep: forgets dead processes that no partition and no lease names any more, and those
-- that showed no sign of life for a day (or three heartbeats, if that is longer), after their nodes
-- were remembered. Answers how many. None if another transaction that goes on has locked one of
-- them: the next call does it; a process that waited here would be silent itself. Those that are
-- not the caller's to remove (grants.sql) stay.
CREATE OR REPLACE FUNCTION holdfast.process_sweep(p_namespace_id integer,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
    SET lock_timeout = '200ms'
AS $$
DECLARE
    v_caller oid := admit(p_ticket, p_namespace_id, 'see the nodes of', 'viewer', 'publisher',
                          'consumer', 'owner');
    v_all    boolean := caller_has(v_caller, p_namespace_id, 'consumer', 'owner');
    v_dead   uuid[];
    v_count  integer := 0;
BEGIN
    SELECT dead_of(p_namespace_id, array_agg(p.token))
               || coalesce(array_agg(p.token) FILTER (WHERE process_is_silent(p)), '{}')
        INTO v_dead FROM processes p WHERE p.namespace_id = p_namespace_id;
    IF v_dead <> '{}' THEN -- mostly all of them live
        v_dead := ARRAY(
            SELECT p.token FROM processes p
            WHERE p.namespace_id = p_namespace_id AND p.token = ANY (v_dead)
                AND (v_all OR p.role_id = v_caller)
                AND NOT EXISTS (SELECT 1 FROM partitions o
                                JOIN subscriptions s ON s.id = o.subscription_id
                                WHERE o.owner = p.token AND s.namespace_id = p_namespace_id)
                AND NOT EXISTS (SELECT 1 FROM leases l
                                JOIN subscriptions s ON s.id = l.subscription_id
                                WHERE l.owner = p.token AND s.namespace_id = p_namespace_id)
            FOR UPDATE OF p);
        PERFORM node_past(p_namespace_id, v_dead, false);
        DELETE FROM processes p WHERE p.token = ANY (v_dead);
        GET DIAGNOSTICS v_count = ROW_COUNT;
    END IF;
    PERFORM node_forget(p_namespace_id);
    RETURN v_count;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

-- process_give: what a process still owns is free: its partitions have no owner, its leases are for
-- the next claim. They end now, also those whose time was over and that were kept: no claim looks
-- for what ended before leases_from. Answers whether there was anything.
CREATE OR REPLACE FUNCTION holdfast_private.process_give(p_namespace_id integer, p_token uuid,
                                                         p_now timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_ours  bigint[];
    v_given boolean;
    v_id    bigint;
BEGIN
    -- Most processes own nothing, and many live for one command: they need no more than this.
    IF NOT EXISTS (SELECT FROM partitions p WHERE p.owner = p_token)
       AND NOT EXISTS (SELECT FROM members m WHERE m.token = p_token)
       AND NOT EXISTS (SELECT FROM leases l WHERE l.owner = p_token) THEN
        RETURN false;
    END IF;
    v_ours := ARRAY(SELECT s.id FROM subscriptions s WHERE s.namespace_id = p_namespace_id);
    UPDATE subscriptions s SET members_version = s.members_version + 1
        WHERE s.namespace_id = p_namespace_id
            AND s.id IN (SELECT p.subscription_id FROM partitions p WHERE p.owner = p_token
                         UNION SELECT m.subscription_id FROM members m WHERE m.token = p_token);
    -- Their runners have not given them back, so what was handed out of them is not known.
    UPDATE partitions SET owner = NULL, owner_name = NULL, doubt_through = head(p_namespace_id)
        WHERE owner = p_token AND subscription_id = ANY (v_ours);
    v_given := FOUND;
    DELETE FROM members WHERE token = p_token AND subscription_id = ANY (v_ours);
    FOR v_id IN SELECT DISTINCT l.subscription_id FROM leases l
                WHERE l.owner = p_token AND l.subscription_id = ANY (v_ours) ORDER BY 1 LOOP
        PERFORM leases_lower(v_id, false, p_now);
        UPDATE leases SET token = gen_random_uuid(), owner = NULL, bound = false, kept = false,
                          piece = 0, expires_at = p_now, claimed_at = NULL
            WHERE owner = p_token AND subscription_id = v_id;
        v_given := true;
    END LOOP;
    RETURN v_given;
END
$$;

-- process_close: gives back what the process still owns and forgets it, but for its node. Answers
-- whether anything was given back: then ring. A role that does not consume there (grants.sql) owns
-- nothing, and a viewer does not record when the last process left (clock_mind).
--   A transaction that stays open may have locked a row of it. That is waited for half a second:
-- what could not be given back goes to others as what a dead process leaves, when the connection
-- that holds the lock of the process ends.
CREATE OR REPLACE FUNCTION holdfast.process_close(p_namespace_id integer, p_token uuid,
                                                  p_now timestamptz,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
    SET lock_timeout = '500ms'
AS $$
DECLARE
    v_caller oid := admit(p_ticket, p_namespace_id, 'be a node of', 'viewer', 'publisher',
                          'consumer', 'owner');
    v_given  boolean := false;
BEGIN
    IF v_caller IS NOT NULL THEN
        PERFORM process_check(p_namespace_id, p_token, v_caller);
        PERFORM clock_check(v_caller, p_now);
    END IF;
    BEGIN
        IF v_caller IS NULL OR caller_has(v_caller, p_namespace_id, 'consumer', 'owner') THEN
            v_given := process_give(p_namespace_id, p_token, p_now);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        v_given := true; -- others are to look
    END;
    BEGIN
        IF EXISTS (SELECT FROM processes p
                   WHERE p.token = p_token AND node_is_kept(p, true, clock_timestamp())) THEN
            PERFORM node_past(p_namespace_id, ARRAY[p_token], true);
        END IF;
        DELETE FROM processes WHERE token = p_token AND namespace_id = p_namespace_id;
        IF v_caller IS NULL
           OR caller_has(v_caller, p_namespace_id, 'publisher', 'consumer', 'owner') THEN
            UPDATE namespaces n SET closed_at = clock_timestamp()
                WHERE n.id = p_namespace_id AND NOT EXISTS (
                    SELECT 1 FROM processes p WHERE p.namespace_id = p_namespace_id);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        NULL; -- it is removed as a dead one
    END;
    RETURN v_given;
END
$$;
