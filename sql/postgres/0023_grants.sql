-- Namespaces as boundaries: which role of the server may do what in which namespace.
--
-- Whoever owns the schema may do everything, and so may a superuser. Any other role is given one or
-- more of these, for a namespace each:
--
--   viewer     reads the log, subscriptions, dead letters and numbers
--   publisher  publishes, now or for later, and fires schedules; reads nothing of the log, but schedules
--              and what waits for its time
--   consumer   reads as a viewer, and subscribes, claims, settles, resolves dead letters, and clears up
--              after processes that are dead
--   owner      all of these
--
-- Each of them may be a node. A viewer or publisher changes and removes only what its own role has
-- registered, a consumer or owner every node of the namespace.
--
-- No role may write a table or a sequence of the schema, nor lock one against others. It may read the tables
-- that all namespaces share, whose policies (row-level security) ask the table grants whose rows a
-- statement may see, once per statement, and the log of its namespaces. What writes is a function that runs
-- with its owner's rights (SECURITY DEFINER); each begins with admit or enter, which read from the ticket
-- who called (0001_tables.sql) and refuse whoever has no such part in the namespace. All that such a
-- function is given comes from outside: ids of subscriptions, leases, processes are looked for in the
-- namespace that was admitted, before a row is locked, and numbers and times have limits.
--   The owner of the schema, and a superuser, pass by all of that and pay next to nothing for it. Making and
-- removing namespaces, granting, retention and upkeep stay with that owner.
--   Views must ask in the name of their reader, which PostgreSQL does from version 15 on; before, nothing
-- can be granted. Not guarded, because the server has no rights for it: notifying, with which a role that is
-- connected may wake others.

CREATE TABLE holdfast.grants (
    namespace_id integer NOT NULL,
    grantee      regrole NOT NULL,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'publisher', 'consumer', 'owner')),
    granted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace_id, grantee, role)
);

-- The namespaces where whoever asks has one of these.
CREATE FUNCTION holdfast.namespaces_of(VARIADIC p_roles text[]) RETURNS integer[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT g.namespace_id FROM grants g
                 WHERE g.role = ANY (p_roles) AND pg_has_role(g.grantee, 'USAGE'));
END
$$;

-- Whether whoever asks has one of these in a namespace, or passes by all policies.
CREATE FUNCTION holdfast.has_part(p_namespace_id integer, VARIADIC p_roles text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    RETURN NOT row_security_active('holdfast.namespaces')
        OR p_namespace_id = ANY (namespaces_of(VARIADIC p_roles));
END
$$;

-- Whether they may see subscriptions and dead letters. The policies say the same.
CREATE FUNCTION holdfast.may_read(p_namespace_id integer) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN holdfast.has_part($1, 'viewer', 'consumer', 'owner');

-- True if they have one of these, or 42501: who, and what they may not do.
CREATE FUNCTION holdfast.part_check(p_namespace_id integer, p_deed text, VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF NOT has_part(p_namespace_id, VARIADIC p_roles) THEN
        RAISE EXCEPTION '% may not % of namespace %', current_user, p_deed,
            (SELECT n.name FROM namespaces n WHERE n.id = p_namespace_id)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN true;
END
$$;

-- For whoever looks for something, which would seem not to exist to those from whom the policies hide it.
-- It is inlined; the owner of the schema pays next to nothing for it.
CREATE FUNCTION holdfast.may_see(p_namespace_id integer, p_what text, VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT row_security_active('holdfast.namespaces'::regclass)
        OR holdfast.part_check($1, 'see the ' || $2, VARIADIC $3);

-- ---- Admission ----------------------------------------------------------------------------------
--
-- For functions that run with their owner's rights. A caller is the number of a role; NULL: one who passes by
-- all policies.

-- holder: the caller whose ticket this is. 42501: it is none of this transaction.
CREATE FUNCTION holdfast.holder(p_ticket bytea) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_secret bytea := (SELECT s.secret FROM secret s);
    v_caller oid;
BEGIN
    IF p_ticket = v_secret THEN
        RETURN NULL;
    END IF;
    v_caller := ('x' || encode(substr(p_ticket, 1, 4), 'hex'))::bit(32)::bigint::oid;
    IF (ticket_make(v_caller, v_secret) = p_ticket) IS NOT TRUE THEN -- NULL is no ticket either
        RAISE EXCEPTION 'p_ticket is not a ticket of this transaction: leave the parameter out'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN v_caller;
END
$$;

-- caller_has: whether the caller has one of these in a namespace.
CREATE FUNCTION holdfast.caller_has(p_caller oid, p_namespace_id integer, VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    RETURN p_caller IS NULL OR EXISTS (
        SELECT FROM grants g
        WHERE g.namespace_id = p_namespace_id AND g.role = ANY (p_roles)
            AND pg_has_role(p_caller, g.grantee::oid, 'USAGE'));
END
$$;

-- admit: the caller, if it has one of these in the namespace with this id. 42501: who may not do what. The
-- name of a namespace is told only to those who have a part in it.
CREATE FUNCTION holdfast.admit(p_ticket bytea, p_namespace_id integer, p_deed text,
                               VARIADIC p_roles text[]) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
BEGIN
    IF p_ticket = (SELECT s.secret FROM secret s) THEN
        RETURN NULL; -- as holder, but at once
    END IF;
    v_caller := holder(p_ticket);
    IF NOT caller_has(v_caller, p_namespace_id, VARIADIC p_roles) THEN
        RAISE EXCEPTION '% may not % namespace %', pg_get_userbyid(v_caller), p_deed, coalesce(
            (SELECT n.name FROM namespaces n WHERE n.id = p_namespace_id
                 AND caller_has(v_caller, n.id, 'viewer', 'publisher', 'consumer', 'owner')),
            format('with id %s', p_namespace_id)) USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN v_caller;
END
$$;

-- enter: the namespace of this name, as namespace_find has it, if the caller has one of these in it. For who
-- has no part in it at all there is none (HF003). 42501 as admit.
CREATE FUNCTION holdfast.enter(p_ticket bytea, p_namespace text, p_deed text, VARIADIC p_roles text[])
    RETURNS holdfast.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_caller    oid := holder(p_ticket);
    v_namespace namespaces;
BEGIN
    IF v_caller IS NOT NULL THEN
        SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_namespace;
        IF NOT caller_has(v_caller, v_namespace.id, 'viewer', 'publisher', 'consumer', 'owner') THEN
            RAISE EXCEPTION 'there is no namespace %', left(p_namespace, 255)
                USING ERRCODE = 'HF003';
        END IF;
        PERFORM admit(p_ticket, v_namespace.id, p_deed, VARIADIC p_roles);
    END IF;
    RETURN namespace_find(p_namespace);
END
$$;

-- consumer_admit: admit for a consumer that works as the process with this token, which is one of the
-- namespace, or none that is registered; NULL: as none. p_now: its clock; NULL: it does not matter.
CREATE FUNCTION holdfast.consumer_admit(p_ticket bytea, p_namespace_id integer, p_token uuid,
                                        p_now timestamptz) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
BEGIN
    IF p_ticket = (SELECT s.secret FROM secret s) THEN
        RETURN NULL; -- as admit, but at once
    END IF;
    v_caller := admit(p_ticket, p_namespace_id, 'change the subscriptions of', 'consumer', 'owner');
    PERFORM process_check(p_namespace_id, p_token, v_caller);
    PERFORM clock_check(v_caller, p_now);
    RETURN v_caller;
END
$$;

-- ---- What comes from outside --------------------------------------------------------------------
--
-- The functions for C count on the library, which has checked what it sends. What a role sends need not come
-- from there, so it is checked here, as far as a wrong value would harm more than the call itself. Who passes
-- by all policies (p_caller is NULL) is believed. All raise HF001.

-- A text of at most so many bytes.
CREATE FUNCTION holdfast.text_check(p_caller oid, p_what text, p_text text, p_bytes_max integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND octet_length(p_text) > p_bytes_max THEN
        RAISE EXCEPTION '% is % bytes; the limit is %', p_what, octet_length(p_text), p_bytes_max
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Times that can be stored and shown.
CREATE FUNCTION holdfast.times_check(p_caller oid, p_what text, VARIADIC p_times timestamptz[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND EXISTS (
        SELECT FROM unnest(p_times) t
        WHERE t < '0001-01-01 00:00:00+00' OR t >= '10000-01-01 00:00:00+00') THEN
        RAISE EXCEPTION '% is outside the years 0001 to 9999', p_what USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- The caller's clock (p_now of 0007_subscriptions.sql), which is the server's, but for a little.
CREATE FUNCTION holdfast.clock_check(p_caller oid, p_now timestamptz) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NOT NULL AND (p_now BETWEEN clock_timestamp() - interval '1 day'
                                           AND clock_timestamp() + interval '1 day') IS FALSE THEN
        RAISE EXCEPTION 'p_now is %, which is more than a day from the clock of the server', p_now
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Positions of the log: 0 (before the first) up to the newest.
CREATE FUNCTION holdfast.positions_check(p_caller oid, p_namespace_id integer, p_positions bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_bad bigint;
BEGIN
    IF p_caller IS NULL OR coalesce(cardinality(p_positions), 0) = 0 THEN
        RETURN;
    END IF;
    SELECT p INTO v_bad FROM unnest(p_positions) p
        WHERE p < 0 OR p > head(p_namespace_id) LIMIT 1;
    IF FOUND OR cardinality(p_positions) > 100000 THEN
        RAISE EXCEPTION 'position % is outside the log, or there are more than 100000', v_bad
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Outcomes (0008_settle.sql). p_partition NULL: those of a lease.
CREATE FUNCTION holdfast.outcomes_check(
    p_caller oid, p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_now timestamptz,
    p_kinds integer[], p_positions bigint[], p_lanes bigint[], p_attempts integer[],
    p_uncounted integer[], p_stories text[], p_next timestamptz[], p_reasons text[], p_errors text[],
    p_causes text[], p_unit_firsts bigint[], p_unit_events integer[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_kinds), 0);
    v_slice integer;
    v_bad   record;
BEGIN
    IF p_caller IS NULL OR v_count = 0 THEN
        RETURN;
    ELSIF (v_count = ALL (ARRAY[cardinality(p_positions), coalesce(cardinality(p_lanes), v_count),
              coalesce(cardinality(p_attempts), v_count), coalesce(cardinality(p_uncounted), v_count),
              coalesce(cardinality(p_stories), v_count), coalesce(cardinality(p_next), v_count),
              coalesce(cardinality(p_reasons), v_count), coalesce(cardinality(p_errors), v_count),
              coalesce(cardinality(p_causes), v_count), coalesce(cardinality(p_unit_firsts), v_count),
              coalesce(cardinality(p_unit_events), v_count)]))
          IS NOT TRUE THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    PERFORM positions_check(p_caller, p_namespace_id, p_positions);
    SELECT CASE WHEN s.mode = 1 THEN s.partitions END INTO v_slice FROM subscriptions s
        WHERE s.id = p_subscription_id;
    SELECT o.position, CASE
            WHEN o.kind IS NULL OR o.kind NOT BETWEEN 0 AND 6 THEN 'is of kind ' || coalesce(o.kind::text, 'NULL')
            WHEN e.position IS NULL AND o.kind IN (1, 2, 4, 6) THEN 'is not in the log'
            WHEN p_partition IS NOT NULL AND e.hash % v_slice <> p_partition THEN 'is of another partition'
            WHEN o.kind IN (1, 2, 4, 6) AND o.lane IS NULL THEN 'has no lane'
            WHEN o.attempts NOT BETWEEN 0 AND 1000000 OR o.uncounted NOT BETWEEN 0 AND 1000000
                THEN 'has an impossible number of attempts'
            WHEN (o.next BETWEEN p_now - interval '1 day' AND p_now + interval '367 days') IS FALSE
                THEN 'is to wait until ' || o.next
            WHEN octet_length(o.story) > 2097152 OR json_typeof(o.story::json) <> 'array'
                THEN 'has a story that is none'
            WHEN octet_length(o.reason) > 64 OR octet_length(o.error) > 8192 THEN 'has a long reason or error'
            WHEN o.cause NOT IN ('handler', 'undecodable', 'timeout', 'transaction', 'process_died',
                                 'lease_expired') THEN 'has a cause that is none'
            WHEN (o.unit_first IS NULL) <> (o.unit_events IS NULL)
                OR o.unit_first NOT BETWEEN 1 AND o.position OR o.unit_events NOT BETWEEN 2 AND 10000
                THEN 'has a unit that is none'
        END AS fault INTO v_bad
        FROM unnest(p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next, p_reasons,
                    p_errors, p_causes, p_unit_firsts, p_unit_events)
            o (kind, position, lane, attempts, uncounted, story, next, reason, error, cause, unit_first,
               unit_events)
        LEFT JOIN events_at(p_namespace_id, p_subscription_id, p_positions) e ON e.position = o.position
        ORDER BY fault NULLS LAST LIMIT 1;
    IF v_bad.fault IS NOT NULL THEN
        RAISE EXCEPTION 'the outcome of position % %', v_bad.position, v_bad.fault USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- A subscription.
CREATE FUNCTION holdfast.subscription_values(p_caller oid, p_namespace_id integer, p_name text,
                                            p_patterns text, p_options text, p_mode integer,
                                            p_partitions integer, p_start bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_caller IS NULL THEN
        RETURN;
    END IF;
    PERFORM fault_check(coalesce(
        name_fault(p_name, 'subscription name', 255),
        CASE WHEN p_patterns IS NOT NULL THEN
            patterns_fault(p_name, ARRAY(SELECT json_array_elements_text(p_patterns::json))) END,
        CASE WHEN p_mode IS NULL OR p_mode NOT IN (1, 2) THEN format('mode is %s; it takes 1 or 2', p_mode)
             WHEN p_partitions IS NULL OR p_partitions NOT BETWEEN 1 AND 1024
                 THEN format('partitions is %s; it must be 1 to 1024', p_partitions) END));
    PERFORM positions_check(p_caller, p_namespace_id, ARRAY[p_start]);
    PERFORM options_merge('{}', coalesce(p_options, '{}')::jsonb);
    PERFORM text_check(p_caller, 'options', p_options, 65536);
END
$$;

-- Whose process it is. It counts as dead when its row is gone, so who does not consume removes none but
-- its own. A role is known by its number: its name may change while it runs. (A regrole would be
-- dumped as a name, and rows of processes that are long gone could keep a dump from being restored.)
CREATE FUNCTION holdfast.role_id() RETURNS oid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN quote_ident(current_user)::regrole::oid;
ALTER TABLE holdfast.processes ADD COLUMN role_id oid NOT NULL DEFAULT holdfast.role_id();

-- ---- Policies -----------------------------------------------------------------------------------

-- Who sees the rows of each table. Those of subscriptions and schedules go with them. Nobody but the owner
-- of the schema writes any.
DO $$
DECLARE
    c_all        constant text := $f$'viewer', 'publisher', 'consumer', 'owner'$f$;
    c_readers    constant text := $f$'viewer', 'consumer', 'owner'$f$;
    c_publishers constant text := $f$'publisher', 'owner'$f$;
    t            record;
BEGIN
    FOR t IN
        SELECT * FROM (VALUES
            ('namespaces', 'id', c_all), ('processes', 'namespace_id', c_all),
            ('past_nodes', 'namespace_id', c_all), ('events', 'namespace_id', c_readers),
            ('heads', 'namespace_id', c_all), ('event_ids', 'namespace_id', c_all),
            ('keys', 'namespace_id', c_all), ('schedules', 'namespace_id', c_publishers),
            ('delayed', 'namespace_id', c_publishers), ('subscriptions', 'namespace_id', c_readers),
            ('letters', 'namespace_id', c_readers), ('members', NULL, NULL), ('partitions', NULL, NULL),
            ('checkpoints_0', NULL, NULL), ('checkpoints_1', NULL, NULL), ('leases', NULL, NULL),
            ('retries', NULL, NULL), ('copies', NULL, NULL), ('settled', NULL, NULL))
            v (name, "column", see)
    LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('CREATE POLICY see ON holdfast.%I FOR SELECT USING (%s)', t.name,
            CASE WHEN t."column" IS NOT NULL THEN
                format('%I = ANY ((SELECT holdfast.namespaces_of(%s))::integer[])', t."column", t.see)
            ELSE 'EXISTS (SELECT FROM holdfast.subscriptions s WHERE s.id = subscription_id)' END);
    END LOOP;
    ALTER TABLE holdfast.schedule_runs ENABLE ROW LEVEL SECURITY;
    CREATE POLICY see ON holdfast.schedule_runs FOR SELECT
        USING (EXISTS (SELECT FROM holdfast.schedules s WHERE s.id = schedule_id));
    ALTER TABLE holdfast.grants ENABLE ROW LEVEL SECURITY;
    CREATE POLICY see ON holdfast.grants FOR SELECT USING (pg_has_role(grantee, 'USAGE'));
    IF current_setting('server_version_num')::integer >= 150000 THEN
        ALTER VIEW holdfast.checkpoints SET (security_invoker = on);
        ALTER VIEW holdfast.event_log SET (security_invoker = on);
        ALTER VIEW holdfast.dead_letters SET (security_invoker = on);
    END IF;
END
$$;

-- ---- Granting -----------------------------------------------------------------------------------

-- The functions that run with their owner's rights and that roles may call, and which parts may: the only
-- list of them. Each part's rights are told in docs/postgres.md, and tests/postgres/privileges.sh compares.
-- append_<id> and claim_<id> go with their namespace.
CREATE FUNCTION holdfast.entries() RETURNS TABLE (name text, roles text[])
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
    SELECT n, '{viewer,publisher,consumer,owner}'::text[] FROM unnest('{
        try_months, sleep, awake, publishing_now, process_beat, process_sweep, process_close, node_register,
        heartbeat, goodbye, tick, seek_subscription}'::text[]) n
    UNION ALL SELECT n, '{publisher,owner}' FROM unnest('{
        append, publish, publish_many, publish_later, change_schedule_put, change_schedule_remove,
        change_schedule_pause, change_fire, change_delay, change_release, create_schedule, drop_schedule,
        pause_schedule, resume_schedule, run_schedule, fire_schedule}'::text[]) n
    UNION ALL SELECT n, '{consumer,owner}' FROM unnest('{
        change_subscription_put, change_subscription_remove, change_pause, change_breaker, change_seek,
        change_acquire, change_give_back, change_settle, tx_settle, change_claim, change_settle_lease,
        change_dead_retry, change_dead_resolve, change_dead_purge, claim, ack, nack, release, bury, extend,
        change_muster, change_checkpoints, change_repartition, create_subscription, alter_subscription,
        drop_subscription, pause_subscription, resume_subscription}'::text[]) n
$$;

-- These functions of the schema that run with their owner's rights, as GRANT names them; all, if p_roles is
-- NULL, else those of these parts. NULL: there are none.
CREATE FUNCTION holdfast.entry_list(p_roles text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
    SELECT string_agg(format('holdfast.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), ', ')
    FROM pg_proc p
    WHERE p.pronamespace = 'holdfast'::regnamespace AND p.prosecdef
        AND (p_roles IS NULL OR EXISTS (SELECT FROM entries() e
                                        WHERE e.name = p.proname AND e.roles && p_roles))
$$;

-- Makes the server's grants to a role what the table grants says, whatever they were: those that any
-- namespace needs, and those of one namespace, if it still has a log. A role that is gone has none.
--   The server refuses whoever writes a row of its catalogs that somebody else has written since
-- (XX000), so the caller has locked the gate of those who grant, and here are locked what rotate and
-- compact truncate.
CREATE FUNCTION holdfast.grants_apply(p_namespace_id integer, p_grantee regrole) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    c_read  constant text := 'meta, turns, grants, namespaces, event_log, dead_letters, checkpoints, events, '
        'processes, past_nodes, heads, event_ids, keys, schedules, schedule_runs, delayed, subscriptions, '
        'letters, members, partitions, checkpoints_0, checkpoints_1, leases, retries, copies, settled';
    v_log   text := 'events_' || p_namespace_id;
    v_own   record;
    v_parts text[] := ARRAY(SELECT DISTINCT g.role FROM grants g WHERE g.grantee = p_grantee);
    v_roles text[] := ARRAY(SELECT g.role FROM grants g WHERE g.grantee = p_grantee
                            AND g.namespace_id = p_namespace_id);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p_grantee) THEN
        RETURN;
    END IF;
    LOCK TABLE checkpoints_0, checkpoints_1, leases, settled IN ACCESS SHARE MODE;
    EXECUTE format('REVOKE ALL ON %s, door FROM %s', c_read, p_grantee);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s',
                   entry_list('{viewer,publisher,consumer,owner}'), p_grantee);
    EXECUTE format('REVOKE ALL ON SCHEMA holdfast FROM %s', p_grantee);
    IF v_parts <> '{}' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA holdfast TO %s', p_grantee);
        EXECUTE format('GRANT SELECT ON %s TO %s', c_read, p_grantee);
        EXECUTE format('GRANT INSERT (ask), SELECT (ticket) ON door TO %s', p_grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', entry_list(v_parts), p_grantee);
    END IF;
    FOR v_own IN SELECT f.name, f.roles FROM (VALUES ('append_', '{publisher,owner}'::text[]),
                                                     ('claim_', '{consumer,owner}')) f (name, roles)
                 WHERE to_regproc(f.name || p_namespace_id) IS NOT NULL LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s%s FROM %s', v_own.name, p_namespace_id, p_grantee);
        IF v_roles && v_own.roles THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s%s TO %s', v_own.name, p_namespace_id, p_grantee);
        END IF;
    END LOOP;
    IF to_regclass(v_log) IS NULL THEN
        RETURN;
    END IF;
    EXECUTE format('REVOKE ALL ON %s FROM %s', v_log, p_grantee);
    EXECUTE format('REVOKE ALL ON SEQUENCE %1$s_position, %1$s_sleep FROM %2$s', v_log, p_grantee);
    IF v_roles <> '{}' THEN
        EXECUTE format('GRANT SELECT%s ON %s TO %s',
                       CASE WHEN v_roles = '{publisher}' THEN ' (position, entered_at)' ELSE '' END, v_log,
                       p_grantee);
        EXECUTE format('GRANT SELECT ON SEQUENCE %1$s_position, %1$s_sleep TO %2$s', v_log, p_grantee);
    END IF;
END
$$;

-- What both of the following need: the namespace's number and the role, or HF001, HF002, HF003; 55P03: another
-- session grants and does not end. Of those who grant, or take back, one comes after the other has ended. The
-- lock on the namespace keeps it from being removed, and waits for nobody who has only a part in it: whatever
-- their transactions hold, what they have can be taken back.
CREATE FUNCTION holdfast.grant_find(p_role text, p_namespace text, p_grantee text,
                                    OUT namespace_id integer, OUT grantee regrole)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF p_role IS NULL OR p_role NOT IN ('viewer', 'publisher', 'consumer', 'owner') THEN
        RAISE EXCEPTION 'role is %; it must be viewer, publisher, consumer or owner', p_role
            USING ERRCODE = 'HF001';
    ELSIF current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION 'granting needs PostgreSQL 15 or newer; this is %',
            current_setting('server_version') USING ERRCODE = 'HF002';
    END IF;
    PERFORM gate_take(1, 'granting');
    SELECT n.id INTO grant_find.namespace_id FROM namespaces n
        WHERE n.name = p_namespace AND n.removing_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no namespace %', left(p_namespace, 255)
                USING ERRCODE = 'HF003';
    END IF;
    SELECT r.oid::regrole INTO grant_find.grantee FROM pg_roles r WHERE r.rolname = p_grantee;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the server has no role %', p_grantee USING ERRCODE = 'HF003';
    ELSIF EXISTS (SELECT FROM pg_namespace s
                  WHERE s.nspname = 'holdfast' AND s.nspowner = grant_find.grantee) THEN
        RAISE EXCEPTION '% owns the schema holdfast and has every right in all namespaces; a part in one '
                        'would take them away', p_grantee USING ERRCODE = 'HF002';
    END IF;
    -- What a role had that is gone must not be had by another that gets its number one day.
    DELETE FROM grants g WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.grantee);
END
$$;

-- namespace_grant: from now on the server's role `grantee`, and who is a member of it, is `role` in a
-- namespace. True: it was not before. For the owner of the schema. HF001, HF002, HF003.
CREATE FUNCTION holdfast.namespace_grant(role text, namespace text, grantee text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_found record := grant_find(namespace_grant.role, namespace_grant.namespace,
                                 namespace_grant.grantee);
    v_new   boolean;
BEGIN
    INSERT INTO grants (namespace_id, grantee, role)
        VALUES (v_found.namespace_id, v_found.grantee, namespace_grant.role)
        ON CONFLICT ON CONSTRAINT grants_pkey DO NOTHING;
    v_new := FOUND;
    PERFORM grants_apply(v_found.namespace_id, v_found.grantee);
    RETURN v_new;
END
$$;

-- namespace_revoke: takes it back. False: there was nothing to be taken back.
CREATE FUNCTION holdfast.namespace_revoke(role text, namespace text, grantee text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_found record := grant_find(namespace_revoke.role, namespace_revoke.namespace,
                                 namespace_revoke.grantee);
    v_gone  boolean;
BEGIN
    DELETE FROM grants g WHERE g.namespace_id = v_found.namespace_id
        AND g.grantee = v_found.grantee AND g.role = namespace_revoke.role;
    v_gone := FOUND;
    IF v_gone THEN
        PERFORM grants_apply(v_found.namespace_id, v_found.grantee);
    END IF;
    RETURN v_gone;
END
$$;

-- The grants go with their namespace. Who removes it waits as briefly as for everything else.
CREATE FUNCTION holdfast.grants_drop() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_grantee regrole;
BEGIN
    PERFORM gate_take(1, 'granting');
    FOR v_grantee IN WITH gone AS (DELETE FROM grants g WHERE g.namespace_id = old.id
                                   RETURNING g.grantee)
                     SELECT DISTINCT gone.grantee FROM gone LOOP
        PERFORM grants_apply(old.id, v_grantee);
    END LOOP;
    RETURN NULL;
END
$$;
CREATE TRIGGER grants_drop AFTER DELETE ON holdfast.namespaces
    FOR EACH ROW EXECUTE FUNCTION holdfast.grants_drop();
