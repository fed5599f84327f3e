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
-- Functions run with the rights of their caller. The tables that all namespaces share have policies
-- (row-level security), which ask the table grants whose rows a statement may see or write, once per
-- statement. What belongs to one namespace alone, its log and its sequences, is granted as such. The
-- owner of the schema passes by all policies and pays nothing for them. Making and removing
-- namespaces, and granting, stay with that owner.
--   Views must ask in the name of their reader, which PostgreSQL does from version 15 on; before, nothing
-- can be granted. Not guarded, because the server has no rights for them: advisory locks and notifying,
-- with which a role that is connected may disturb, but neither read nor write. Nor is LOCK TABLE, of a
-- table that all namespaces share, by whoever may change rows of it: so a role can change rows only of
-- the tables that its parts need, which for a viewer are those of nodes.

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

-- Whether they may consume: everything that belongs to subscriptions is theirs to change. And whether
-- they may see subscriptions and dead letters. The policies say the same.
CREATE FUNCTION holdfast.may_consume(p_namespace_id integer) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN holdfast.has_part($1, 'consumer', 'owner');
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
-- Both are inlined; the owner of the schema pays next to nothing for them.
CREATE FUNCTION holdfast.may_see(p_namespace_id integer, p_what text, VARIADIC p_roles text[])
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT row_security_active('holdfast.namespaces'::regclass)
        OR holdfast.part_check($1, 'see the ' || $2, VARIADIC $3);

-- For changes of what belongs to consumers, which would find nothing to change, or even seem to be done.
CREATE FUNCTION holdfast.may_change(p_namespace_id integer, p_what text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT row_security_active('holdfast.namespaces'::regclass)
        OR holdfast.part_check($1, 'change the ' || $2, 'consumer', 'owner');

-- Whose process it is. It counts as dead when its row is gone, so who does not consume removes none but
-- its own. A role is known by its number: its name may change while it runs. (A regrole would be
-- dumped as a name, and rows of processes that are long gone could keep a dump from being restored.)
CREATE FUNCTION holdfast.role_id() RETURNS oid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN quote_ident(current_user)::regrole::oid;
ALTER TABLE holdfast.processes ADD COLUMN role_id oid NOT NULL DEFAULT holdfast.role_id();

-- ---- Policies -----------------------------------------------------------------------------------

-- Who sees and who writes the rows of each table. Those of subscriptions and schedules go with them.
DO $$
DECLARE
    c_all        constant text := $f$'viewer', 'publisher', 'consumer', 'owner'$f$;
    c_readers    constant text := $f$'viewer', 'consumer', 'owner'$f$;
    c_publishers constant text := $f$'publisher', 'owner'$f$;
    c_consumers  constant text := $f$'consumer', 'owner'$f$;
    c_workers    constant text := $f$'publisher', 'consumer', 'owner'$f$;
    t            record;
    v_see        text;
    v_write      text;
BEGIN
    FOR t IN
        SELECT * FROM (VALUES
            ('namespaces', 'id', c_all, c_workers),
            ('processes', 'namespace_id', c_all, c_consumers),
            ('past_nodes', 'namespace_id', c_all, c_all),
            ('events', 'namespace_id', c_readers, c_publishers),
            ('heads', 'namespace_id', c_all, c_publishers),
            ('event_ids', 'namespace_id', c_all, c_publishers),
            ('keys', 'namespace_id', c_all, c_publishers),
            ('schedules', 'namespace_id', c_publishers, c_publishers),
            ('delayed', 'namespace_id', c_publishers, c_publishers),
            ('subscriptions', 'namespace_id', c_readers, c_consumers),
            ('letters', 'namespace_id', c_readers, c_consumers),
            ('members', NULL, NULL, NULL), ('partitions', NULL, NULL, NULL),
            ('checkpoints_0', NULL, NULL, NULL), ('checkpoints_1', NULL, NULL, NULL),
            ('leases', NULL, NULL, NULL), ('retries', NULL, NULL, NULL),
            ('copies', NULL, NULL, NULL), ('settled', NULL, NULL, NULL))
            v (name, "column", see, write)
    LOOP
        IF t."column" IS NOT NULL THEN
            v_see := format('%I = ANY ((SELECT holdfast.namespaces_of(%s))::integer[])',
                            t."column", t.see);
            v_write := format('%I = ANY ((SELECT holdfast.namespaces_of(%s))::integer[])',
                              t."column", t.write);
        ELSE
            v_see := 'EXISTS (SELECT FROM holdfast.subscriptions s WHERE s.id = subscription_id)';
            v_write := format('(SELECT s.namespace_id FROM holdfast.subscriptions s '
                              'WHERE s.id = subscription_id) '
                              '= ANY ((SELECT holdfast.namespaces_of(%s))::integer[])', c_consumers);
        END IF;
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('CREATE POLICY see ON holdfast.%I FOR SELECT USING (%s)', t.name, v_see);
        EXECUTE format('CREATE POLICY "add" ON holdfast.%I FOR INSERT WITH CHECK (%s)', t.name, v_write);
        EXECUTE format('CREATE POLICY change ON holdfast.%I FOR UPDATE USING (%s)', t.name, v_write);
        EXECUTE format('CREATE POLICY remove ON holdfast.%I FOR DELETE USING (%s)', t.name, v_write);
    END LOOP;
    -- In addition to the policies above: either is enough.
    CREATE POLICY own ON holdfast.processes
        USING (role_id = (SELECT holdfast.role_id()) AND namespace_id = ANY (
            (SELECT holdfast.namespaces_of('viewer', 'publisher', 'consumer', 'owner'))::integer[]));
    ALTER TABLE holdfast.schedule_runs ENABLE ROW LEVEL SECURITY;
    CREATE POLICY with_its_schedule ON holdfast.schedule_runs
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

-- They lock what all consumers use, to the end of the caller's transaction.
REVOKE ALL ON FUNCTION holdfast.rotate(bigint), holdfast.compact(regclass, bigint, bigint) FROM PUBLIC;

-- Makes the server's grants to a role what the table grants says, whatever they were: those that any
-- namespace needs, and those of one namespace, if it still has a log. A role that is gone has none.
--   The server refuses whoever writes a row of its catalogs that somebody else has written since
-- (XX000), so the caller has locked the table grants, and here are locked what rotate and compact
-- truncate.
CREATE FUNCTION holdfast.grants_apply(p_namespace_id integer, p_grantee regrole) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    c_read      constant text := 'meta, turns, grants, namespaces, event_log, dead_letters, checkpoints, events';
    c_nodes     constant text := 'processes, past_nodes';
    c_published constant text := 'heads, event_ids, keys, schedules, schedule_runs, delayed';
    c_consumed  constant text := 'subscriptions, letters, members, partitions, checkpoints_0, '
        'checkpoints_1, leases, retries, copies, settled';
    c_all       constant text := concat_ws(', ', c_read, c_nodes, c_published, c_consumed);
    c_upkeep    constant text := 'rotate(bigint), compact(regclass, bigint, bigint)';
    v_log       text := 'events_' || p_namespace_id;
    v_parts     text[] := ARRAY(SELECT DISTINCT g.role FROM grants g WHERE g.grantee = p_grantee);
    v_roles     text[] := ARRAY(SELECT g.role FROM grants g WHERE g.grantee = p_grantee
                                AND g.namespace_id = p_namespace_id);
    v_writes    boolean := v_roles && '{publisher,owner}';
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p_grantee) THEN
        RETURN;
    END IF;
    LOCK TABLE checkpoints_0, checkpoints_1, leases, settled IN ACCESS SHARE MODE;
    EXECUTE format('REVOKE ALL ON %s FROM %s', c_all, p_grantee);
    EXECUTE format('REVOKE ALL ON SEQUENCE journal_seq FROM %s', p_grantee);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', c_upkeep, p_grantee);
    EXECUTE format('REVOKE ALL ON SCHEMA holdfast FROM %s', p_grantee);
    IF v_parts <> '{}' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA holdfast TO %s', p_grantee);
        EXECUTE format('GRANT SELECT ON %s TO %s', c_all, p_grantee);
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON %s TO %s', c_nodes, p_grantee);
    END IF;
    IF v_parts && '{publisher,owner}' THEN
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON %s TO %s', c_published, p_grantee);
        EXECUTE format('GRANT INSERT ON events TO %s', p_grantee);
        EXECUTE format('GRANT UPDATE (ids_until, closed_at) ON namespaces TO %s', p_grantee);
    END IF;
    IF v_parts && '{consumer,owner}' THEN
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON %s TO %s', c_consumed, p_grantee);
        EXECUTE format('GRANT UPDATE (closed_at) ON namespaces TO %s', p_grantee);
        EXECUTE format('GRANT USAGE ON SEQUENCE journal_seq TO %s', p_grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', c_upkeep, p_grantee);
    END IF;
    IF to_regclass(v_log) IS NULL THEN
        RETURN;
    END IF;
    EXECUTE format('REVOKE ALL ON %s FROM %s', v_log, p_grantee);
    EXECUTE format('REVOKE ALL ON SEQUENCE %1$s_position, %1$s_sleep FROM %2$s', v_log, p_grantee);
    IF v_roles = '{}' THEN
        RETURN;
    END IF;
    EXECUTE format('GRANT SELECT%s ON %s TO %s',
                   CASE WHEN v_roles = '{publisher}' THEN ' (position, id, entered_at, guard_at, key_version)'
                        ELSE '' END, v_log, p_grantee);
    EXECUTE format('GRANT SELECT%s ON SEQUENCE %s_position TO %s',
                   CASE WHEN v_writes THEN ', USAGE' ELSE '' END, v_log, p_grantee);
    EXECUTE format('GRANT SELECT, USAGE, UPDATE ON SEQUENCE %s_sleep TO %s', v_log, p_grantee);
    IF v_writes THEN
        EXECUTE format('GRANT INSERT ON %s TO %s', v_log, p_grantee);
    END IF;
END
$$;

-- What both of the following need: the namespace's number and the role, or HF001, HF002, HF003. Who
-- grants, or takes back, has the table grants to itself to the end of the transaction; reading it goes on.
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
    LOCK TABLE grants IN SHARE ROW EXCLUSIVE MODE;
    SELECT n.id INTO grant_find.namespace_id FROM namespaces n
        WHERE n.name = p_namespace AND n.removing_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no namespace %', p_namespace USING ERRCODE = 'HF003';
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

-- The grants go with their namespace.
CREATE FUNCTION holdfast.grants_drop() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_grantee regrole;
BEGIN
    LOCK TABLE grants IN SHARE ROW EXCLUSIVE MODE;
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
