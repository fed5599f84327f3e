-- Namespaces as boundaries: which role of the server may do what in which namespace.
--
-- The owner of the schema may do everything, and so may a superuser. Any other role is given one or
-- more of these, for a namespace each:
--
--   viewer     reads the log, subscriptions, dead letters and numbers
--   publisher  publishes, now or for later, and fires schedules; reads nothing of the log, but
--              schedules and delayed events
--   consumer   reads as a viewer, and subscribes, claims, settles, resolves dead letters, and
--              clears up after processes that are dead
--   owner      all of these
--
-- Each of them may be a node. A viewer or publisher changes and removes only what its own role has
-- registered, a consumer or owner every node of the namespace.
--
-- No role may write a table or a sequence of the schema, nor lock one against others. It may read
-- the tables that all namespaces share, whose policies (row-level security) ask the table grants
-- whose rows a statement may see, once per statement, and the log of its namespaces. What writes is
-- a function that runs with its owner's rights (SECURITY DEFINER); each begins with admit or enter,
-- which read from the ticket who called (tables/0001_schema.sql) and refuse a role that has no such
-- part in the namespace. All that such a function is given comes from outside: ids of
-- subscriptions, leases, processes are looked for in the namespace that was admitted, before a row
-- is locked, and numbers and times have limits.
--   The owner of the schema, and a superuser, pass by all of that and pay next to nothing for it.
-- Making and removing namespaces, granting, retention and upkeep stay with that owner.
--   Views must ask in the name of their reader, which PostgreSQL does from version 15 on; before,
-- nothing can be granted. Not guarded, because the server has no rights for it: notifying, with
-- which a role that is connected may wake others.

-- The namespaces where the caller has one of these.
CREATE OR REPLACE FUNCTION holdfast.namespaces_of(VARIADIC p_roles text[]) RETURNS integer[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT g.namespace_id FROM read_grants() g
                 WHERE g.role = ANY (p_roles) AND pg_has_role(g.grantee, 'USAGE'));
END
$$;

-- Whether the caller has one of these in a namespace, or passes by all policies.
CREATE OR REPLACE FUNCTION holdfast.has_part(p_namespace_id integer, VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN passes()
        OR p_namespace_id = ANY (namespaces_of(VARIADIC p_roles));
END
$$;

-- Whether they may see subscriptions and dead letters. The policies say the same.
CREATE OR REPLACE FUNCTION holdfast.may_read(p_namespace_id integer) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN holdfast.has_part($1, 'viewer', 'consumer', 'owner');

-- True if they have one of these, or 42501: who, and what they may not do.
CREATE OR REPLACE FUNCTION holdfast.part_check(p_namespace_id integer, p_deed text,
                                               VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT has_part(p_namespace_id, VARIADIC p_roles) THEN
        RAISE EXCEPTION '% may not % of namespace %', current_user, p_deed,
            (SELECT n.name FROM read_namespaces() n WHERE n.id = p_namespace_id)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN true;
END
$$;

-- For callers that look for something that the policies hide from them: it would seem not to exist.
-- It is inlined; the owner of the schema pays next to nothing for it.
CREATE OR REPLACE FUNCTION holdfast.may_see(p_namespace_id integer, p_what text,
                                            VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN holdfast.passes()
        OR holdfast.part_check($1, 'see the ' || $2, VARIADIC $3);

-- The tables that all namespaces share and that roles read: each has policies, and its function
-- read_<name> (reading.sql).
CREATE OR REPLACE FUNCTION holdfast_private.read_tables() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{meta, turns, grants, namespaces, events, processes, past_nodes, heads, event_ids,
        keys, schedules, schedule_runs, delayed, uniques, subscriptions, letters, members,
        partitions, checkpoints_0, checkpoints_1, leases, retries, copies, settled,
        outcomes, rates, cancels, dead_kinds}'::text[];

-- The functions that run with their owner's rights and that roles may call, and which parts may:
-- the only list of them. Each part's rights are told in docs/postgres.md, and
-- tests/postgres/privileges.sh compares. append_<id> and claim_<id> go with their namespace.
CREATE OR REPLACE FUNCTION holdfast_private.entries() RETURNS TABLE (name text, roles text[])
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT n, '{viewer,publisher,consumer,owner}'::text[] FROM unnest('{
        try_months, sleep, awake, prepare_wait, publishing_now, process_beat, process_sweep,
        process_close, node_register, heartbeat, goodbye, timers_next, tick, seek_subscription,
        retention_plan, cron_next}'::text[]) n
    UNION ALL SELECT 'change_bring', '{publisher,consumer,owner}'
    UNION ALL SELECT n, '{publisher,owner}' FROM unnest('{
        append, append_listed, publish_as, publish_many, publish_later, change_schedule_put,
        change_schedule_remove, change_schedule_pause, change_fire, change_delay, change_release,
        create_schedule, drop_schedule, pause_schedule, resume_schedule, run_schedule,
        fire_schedule,
        change_later_cancel, change_later_move, later_cancel, later_move}'::text[]) n
    UNION ALL SELECT n, '{consumer,owner}' FROM unnest('{
        change_subscription_put, change_subscription_remove, change_pause, change_breaker,
        change_seek, change_acquire, change_give_back, change_depart, change_settle, tx_settle,
        change_claim, change_settle_lease, change_rate_take, change_dead_retry, change_dead_resolve,
        change_dead_purge, claim, ack, nack, release, bury, extend, change_members_refresh,
        change_checkpoints, change_repartition, create_subscription, alter_subscription,
        drop_subscription, pause_subscription, resume_subscription, retry_dead_letters,
        resolve_dead_letters, purge_dead_letters, lease_revoke, process_running, process_pass,
        change_cancel, cancel_event}'::text[]) n
$$;

-- The functions that run with their caller's rights and are for the owner of the schema: no other
-- role has the right to execute them.
CREATE OR REPLACE FUNCTION holdfast_private.owner_functions() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{create_namespace, alter_namespace, drop_namespace, namespace_grant,
        namespace_revoke, limit_payload, import_table, mend_sequences, ensure_months,
        change_namespace_remove}'::text[];

-- These functions of the schema that run with their owner's rights, as GRANT names them; all, if
-- p_roles is NULL, else those of these parts. NULL: there are none.
CREATE OR REPLACE FUNCTION holdfast_private.entry_list(p_roles text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT string_agg(format('%s.%I(%s)', p.pronamespace::regnamespace, p.proname,
                             pg_get_function_identity_arguments(p.oid)), ', ')
    FROM pg_proc p
    WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND p.prosecdef
        AND (p_roles IS NULL OR EXISTS (SELECT FROM entries() e
                                        WHERE e.name = p.proname AND e.roles && p_roles))
$$;

-- grants_write: what grants_apply does, if it gets the locks.
CREATE OR REPLACE FUNCTION holdfast_private.grants_write(p_namespace_id integer, p_grantee regrole)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_read  text := array_to_string(read_tables() ||
        '{checkpoints,tickets,event_log,dead_letters,outcome_list,subscription_list,
          schedule_list,grant_list}', ', ');
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
    EXECUTE format('REVOKE ALL ON %s FROM %s', v_read, p_grantee);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s',
                   entry_list('{viewer,publisher,consumer,owner}'), p_grantee);
    EXECUTE format('REVOKE ALL ON SCHEMA holdfast, holdfast_private FROM %s', p_grantee);
    IF v_parts <> '{}' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA holdfast TO %s', p_grantee);
        EXECUTE format('GRANT SELECT ON %s TO %s', v_read, p_grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', entry_list(v_parts), p_grantee);
    END IF;
    FOR v_own IN SELECT f.name, f.roles FROM (VALUES ('append_', '{publisher,owner}'::text[]),
                                                     ('claim_', '{consumer,owner}')) f (name, roles)
                 WHERE to_regproc('holdfast.' || f.name || p_namespace_id) IS NOT NULL LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s%s FROM %s', v_own.name, p_namespace_id,
                       p_grantee);
        IF v_roles && v_own.roles THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s%s TO %s', v_own.name, p_namespace_id,
                           p_grantee);
        END IF;
    END LOOP;
    IF to_regclass(v_log) IS NULL THEN
        RETURN;
    END IF;
    EXECUTE format('REVOKE ALL ON %s FROM %s', v_log, p_grantee);
    EXECUTE format('REVOKE ALL ON SEQUENCE %1$s_position, %1$s_sleep FROM %2$s', v_log, p_grantee);
    IF v_roles <> '{}' THEN
        EXECUTE format('GRANT SELECT%s ON %s TO %s',
                       CASE WHEN v_roles = '{publisher}' THEN ' (position, entered_at)' ELSE '' END,
                       v_log, p_grantee);
        EXECUTE format('GRANT SELECT ON SEQUENCE %1$s_position, %1$s_sleep TO %2$s', v_log,
                       p_grantee);
    END IF;
END
$$;

-- grants_apply: makes the server's grants to a role what the table grants says, whatever they were:
-- those that any namespace needs, and those of one namespace, if it still has a log. A role that is
-- gone has none.
--   The server refuses to write a row of its catalogs that another session has written since
-- (XX000), so the caller has locked the gate of granting, and the tables that rotate and compact
-- truncate are locked here. A role that has a right can write such rows, too, in a transaction that
-- stays open (DROP OWNED BY, GRANT): that is waited for as long as lock_timeout says, or for 5
-- seconds if that says for ever. 55P03 names the session.
CREATE OR REPLACE FUNCTION holdfast_private.grants_apply(p_namespace_id integer, p_grantee regrole)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_before  text := current_setting('lock_timeout');
    v_wait    text := coalesce(nullif(v_before, '0'), '5s');
    v_context text;
BEGIN
    PERFORM set_config('lock_timeout', v_wait, true);
    PERFORM grants_write(p_namespace_id, p_grantee);
    PERFORM set_config('lock_timeout', v_before, true);
EXCEPTION
    WHEN lock_not_available THEN
        GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
        RAISE EXCEPTION '% has changed rights and has not ended its transaction; waited % for it',
            holders(v_context, NULL, '{}'), v_wait USING ERRCODE = 'lock_not_available',
            HINT = 'End it, or the session (pg_terminate_backend), and repeat.';
    WHEN internal_error THEN
        RAISE EXCEPTION 'another session has changed the same rights meanwhile: repeat it'
            USING ERRCODE = 'lock_not_available', DETAIL = sqlerrm;
END
$$;

-- What both of the following need: the namespace's number and the role, or HF001, HF002, HF003;
-- 55P03: another session grants and does not end. Of those who grant, or take back, one comes after
-- the other has ended. The lock on the namespace keeps it from being removed, and waits for no role
-- that has only a part in it: whatever their transactions hold, what they have can be taken back.
CREATE OR REPLACE FUNCTION holdfast_private.grant_find(p_role text, p_namespace text,
                                                       p_grantee text, OUT namespace_id integer,
                                                       OUT grantee regrole)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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
        RAISE EXCEPTION '% owns the schema holdfast and has every right in all namespaces; a part '
                        'in one would take them away', p_grantee USING ERRCODE = 'HF002';
    END IF;
    -- What a role had that is gone must not be had by another that gets its number one day.
    DELETE FROM grants g WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.grantee);
END
$$;

-- namespace_grant: from now on the server's role `grantee`, with its members, is `role` in
-- a namespace. True: it was not before. For the owner of the schema. HF001, HF002, HF003.
CREATE OR REPLACE FUNCTION holdfast.namespace_grant(role text, namespace text, grantee text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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
CREATE OR REPLACE FUNCTION holdfast.namespace_revoke(role text, namespace text, grantee text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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

-- The grants go with their namespace. Removing it waits as briefly for them as for everything else.
CREATE OR REPLACE FUNCTION holdfast_private.grants_drop() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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
