-- Namespaces as people see them: settings, a list, and how one is removed.
--
-- Removing is a chain of small transactions. The first one marks the namespace, and from then on no
-- process opens it; the log goes month by month, then row by row what other tables have of it. A
-- process that dies in between leaves a marked namespace, and removing it again goes on from there.

-- ---- Who is in the way --------------------------------------------------------------------------

-- session_words: these sessions in the words of a message: process, role, what it does as far as
-- this role may see it. p_ids: of prepared transactions. NULL: there are none of them.
CREATE OR REPLACE FUNCTION holdfast_private.session_words(p_pids integer[], p_ids xid[])
    RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT string_agg(w.told, ', ' ORDER BY w.told) FROM (
        SELECT format('process %s of role %s', a.pid, a.usename)
               || coalesce(' (' || nullif(concat_ws(', ', nullif(a.application_name, ''), a.state
                   || format(' for %s s', extract(epoch FROM clock_timestamp()
                                                             - a.xact_start)::bigint)), '') || ')',
                   '') AS told
        FROM pg_stat_activity a WHERE a.pid = ANY (p_pids) AND a.pid <> pg_backend_pid()
        UNION ALL
        SELECT format('the prepared transaction %L of role %s', p.gid, p.owner)
        FROM pg_prepared_xacts p WHERE p.transaction = ANY (p_ids)) w
$$;

-- row_holders: the sessions that have locked the row for which a statement has waited in vain, by
-- the context of its error, which names table and place in every language. The table is one of ours
-- or of the server's catalogs, where a role writes the rows of what it may use (DROP OWNED BY,
-- GRANT): the session that truncates, replaces or grants waits. NULL: the statement did not wait
-- for a row, or the row is free by now, or was locked below a savepoint, whose number no lock has.
CREATE OR REPLACE FUNCTION holdfast_private.row_holders(p_context text) RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_place text[] := regexp_match(p_context, '([(][0-9]+,[0-9]+[)])[^"]*"([a-z0-9_]+)"');
    v_table regclass;
    v_xmax  xid;
    v_ids   xid[];
BEGIN
    SELECT c.oid::regclass INTO v_table
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = v_place[2] AND c.relkind = 'r'
            AND n.nspname IN ('holdfast_private', 'pg_catalog');
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT xmax FROM %s WHERE ctid = %L', v_table, v_place[1]) INTO v_xmax;
    BEGIN -- a number of several that share the row, or that of one
        v_ids := v_xmax || ARRAY(SELECT m.xid FROM pg_get_multixact_members(v_xmax) m);
    EXCEPTION WHEN OTHERS THEN
        v_ids := ARRAY[v_xmax];
    END;
    RETURN (SELECT session_words(array_agg(l.pid), array_agg(l.transactionid)
                                                   FILTER (WHERE l.pid IS NULL))
            FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.granted
                AND l.mode = 'ExclusiveLock' AND l.transactionid = ANY (v_ids));
END
$$;

-- table_holders: the sessions that have locked one of these tables, or views, in another mode than
-- p_harmless, which do not conflict with the one that is wanted. NULL: there is none.
CREATE OR REPLACE FUNCTION holdfast_private.table_holders(p_tables oid[], p_harmless text[])
    RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT session_words(array_agg(l.pid), array_agg(x.transactionid))
    FROM pg_locks l LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL
        AND x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
    WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY (p_tables)
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.mode <> ALL (p_harmless)
$$;

-- holders: who is in the way of a statement that got no lock in time (55P03): by the context of the
-- error, or because it has locked one of these tables (table_holders).
CREATE OR REPLACE FUNCTION holdfast_private.holders(p_context text, p_tables oid[],
                                                    p_harmless text[])
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN coalesce(row_holders(p_context), table_holders(p_tables, p_harmless),
                    'another session');
EXCEPTION WHEN insufficient_privilege THEN -- the server hides its locks
    RETURN 'another session';
END
$$;

-- ---- Gates --------------------------------------------------------------------------------------

-- gate_wait: locks a gate, to the end of the transaction. NULL: it is locked. If not: which session
-- has it and does what (p_deed), and how long it was waited for: as long as lock_timeout says, or
-- p_wait if that says for ever.
CREATE OR REPLACE FUNCTION holdfast_private.gate_wait(p_namespace_id integer, p_gate integer,
                                                      p_wait text, p_deed text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_before  text := current_setting('lock_timeout');
    v_wait    text := coalesce(nullif(v_before, '0'), p_wait);
    v_context text;
BEGIN
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate
        FOR UPDATE SKIP LOCKED;
    IF FOUND OR p_gate IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', v_wait, true);
        PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate FOR UPDATE;
        PERFORM set_config('lock_timeout', v_before, true);
    EXCEPTION WHEN lock_not_available THEN
        GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
        RETURN format('%s is %s and has not ended its transaction; waited %s for it',
                      holders(v_context, NULL, '{}'), p_deed, v_wait);
    END;
    RETURN NULL;
END
$$;

-- gate_take: locks a gate of the schema, to the end of the transaction. 55P03: another session has
-- it and does not end.
CREATE OR REPLACE FUNCTION holdfast_private.gate_take(p_gate integer, p_deed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_fault text := gate_wait(0, p_gate, '5s', p_deed);
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = v_fault, ERRCODE = 'lock_not_available';
    END IF;
END
$$;

-- namespace_find: the namespace of this name, for a caller that is going to use it. HF003 if there
-- is none, or it is being removed; HF011 if it is a copy that is not complete (copying.sql).
CREATE OR REPLACE FUNCTION holdfast_private.namespace_find(p_name text)
    RETURNS holdfast_private.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
BEGIN
    SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no namespace %', left(p_name, 255)
            USING ERRCODE = 'HF003', HINT = 'holdfast.create_namespace makes one.';
    ELSIF v_namespace.removing_at IS NOT NULL THEN
        RAISE EXCEPTION 'there is no namespace %', left(p_name, 255) USING ERRCODE = 'HF003';
    ELSIF v_namespace.copying IS NOT NULL THEN
        RAISE EXCEPTION 'namespace % is a copy that is not complete', p_name
            USING ERRCODE = 'HF011';
    END IF;
    RETURN v_namespace;
END
$$;

-- namespace_of: the namespace with this id, for a caller that has it open. HF003 if it is gone.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_of(p_id integer)
    RETURNS holdfast_private.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
BEGIN
    SELECT * INTO v_namespace FROM namespaces n WHERE n.id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no namespace with id %', p_id USING ERRCODE = 'HF003';
    END IF;
    RETURN v_namespace;
END
$$;

-- namespace_put: finds the namespace, or creates it with its sequence, its log, two months and its
-- append_<id>, claim_<id> and lease_events_<id>. Its row is written once, when it has the months:
-- every publisher reads the row, and would look at each older version of it.
-- status 0; HF_INVALID for a bad name; HF_NOTFOUND if p_create is false and it does not
-- exist; HF_CONFLICT if it exists and p_gapless (not NULL) is different. Locks: the gate of those
-- who make one, to the end of the transaction (55P03). If the client dies, nothing is left.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_put(
    p_name text, p_gapless boolean DEFAULT NULL, p_create boolean DEFAULT true, OUT status integer,
    OUT message text, OUT id integer, OUT gapless boolean, OUT created boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_month timestamp := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC');
BEGIN
    status := HF_OK;
    created := false;
    SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
        FROM namespaces n WHERE n.name = p_name;
    IF NOT FOUND THEN
        message := name_fault(p_name, 'namespace name', HF_NAMESPACE_BYTES_MAX);
        IF message IS NOT NULL THEN
            status := HF_INVALID;
            RETURN;
        END IF;
        IF NOT p_create THEN
            status := HF_NOTFOUND;
            message := format('there is no namespace %s', left(p_name, 255));
            RETURN;
        END IF;
        PERFORM gate_take(0, 'making a namespace');
        SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
            FROM namespaces n WHERE n.name = p_name;
        created := NOT FOUND;
    END IF;
    IF created THEN
        namespace_put.id := nextval('holdfast_private.namespace_ids');
        namespace_put.gapless := coalesce(p_gapless, false);
        EXECUTE format('CREATE SEQUENCE holdfast_private.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_position');
        EXECUTE format('CREATE SEQUENCE holdfast_private.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_sleep');
        EXECUTE format('CREATE TABLE holdfast_private.%I (LIKE holdfast_private.events INCLUDING '
                       'ALL) PARTITION BY RANGE (guard_at)', 'events_' || namespace_put.id);
        EXECUTE format('ALTER TABLE holdfast_private.events ATTACH PARTITION holdfast_private.%I '
                       'FOR VALUES IN (%s)',
                       'events_' || namespace_put.id, namespace_put.id);
        PERFORM make_month(namespace_put.id, v_month AT TIME ZONE 'UTC');
        PERFORM make_month(namespace_put.id, (v_month + interval '1 month') AT TIME ZONE 'UTC');
        INSERT INTO namespaces (id, name, gapless, sequence, sleep, months_from, months_to,
                                created_at)
            VALUES (namespace_put.id, p_name, namespace_put.gapless,
                    ('holdfast_private.events_' || namespace_put.id || '_position')::regclass,
                    ('holdfast_private.events_' || namespace_put.id || '_sleep')::regclass,
                    v_month AT TIME ZONE 'UTC', (v_month + interval '2 months') AT TIME ZONE 'UTC',
                    clock_timestamp());
        IF namespace_put.gapless THEN
            INSERT INTO heads (namespace_id, head) VALUES (namespace_put.id, 0);
        END IF;
        INSERT INTO gates (namespace_id, gate)
            SELECT namespace_put.id, g FROM generate_series(0, 65) g;
        PERFORM append_make(namespace_put.id);
        PERFORM claim_make(namespace_put.id);
        PERFORM log_make(namespace_put.id);
        PERFORM pending_make(namespace_put.id);
    ELSIF p_gapless <> namespace_put.gapless THEN
        status := HF_CONFLICT;
        message := format('namespace %s is %sgapless, which cannot be changed', p_name,
                          CASE WHEN namespace_put.gapless THEN '' ELSE 'not ' END);
    END IF;
END
$$;

-- namespace_opened: what opening finds of a namespace that exists, in the answers of
-- change_namespace_put, for a role that has a part in it and makes none.
CREATE OR REPLACE FUNCTION holdfast.namespace_opened(p_name text, OUT status integer,
                                                     OUT message text, OUT id integer,
                                                     OUT gapless boolean)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace record;
BEGIN
    status := HF_OK;
    SELECT n.id, n.gapless, n.removing_at, n.copying INTO v_namespace
        FROM read_namespaces() n WHERE n.name = p_name;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no namespace %s', left(p_name, 255));
        RETURN;
    ELSIF v_namespace.removing_at IS NOT NULL THEN
        status := HF_BUSY;
        message := format('namespace %s is being removed', p_name);
    ELSIF v_namespace.copying IS NOT NULL THEN
        status := HF_BUSY;
        message := format(
            'namespace %s is a copy that is not complete: run the same holdfast copy again, '
            'or remove it',
            p_name);
    END IF;
    namespace_opened.id := v_namespace.id;
    namespace_opened.gapless := v_namespace.gapless;
END
$$;

-- change_namespace_put: `struct namespace_put`, and what opening does. What is NULL stays as it is.
-- Answers as namespace_put does; HF_BUSY if it is being removed, or copied into.
CREATE OR REPLACE FUNCTION holdfast.change_namespace_put(p_name text, p_metadata json,
                                                         p_gapless boolean, p_create boolean,
                                                         OUT status integer, OUT message text,
                                                         OUT id integer, OUT gapless boolean,
                                                         OUT created boolean,
                                                         p_retention_ms bigint DEFAULT NULL,
                                                         p_retention_bytes bigint DEFAULT NULL,
                                                         p_lagging_drop boolean DEFAULT NULL,
                                                         p_type_index boolean DEFAULT NULL)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_changes boolean := num_nonnulls(p_metadata, p_retention_ms, p_retention_bytes,
                                      p_lagging_drop, p_type_index) > 0;
BEGIN
    SELECT n.status, n.message, n.id, n.gapless, false
        INTO change_namespace_put.status, change_namespace_put.message, change_namespace_put.id,
             change_namespace_put.gapless, change_namespace_put.created
        FROM namespace_opened(p_name) n;
    IF change_namespace_put.id IS NOT NULL AND p_gapless IS NULL AND NOT v_changes THEN
        RETURN; -- what opening finds nearly always
    END IF;
    IF NOT passes() THEN
        IF change_namespace_put.id IS NULL AND p_create OR v_changes THEN
            PERFORM owner_check(format('make or change namespace %s', left(p_name, 255)));
        END IF;
        RETURN;
    END IF;
    SELECT p.status, p.message, p.id, p.gapless, p.created
        INTO change_namespace_put.status, change_namespace_put.message, change_namespace_put.id,
             change_namespace_put.gapless, change_namespace_put.created
        FROM namespace_put(p_name, p_gapless, p_create) p;
    IF EXISTS (SELECT FROM namespaces n WHERE n.name = p_name AND n.removing_at IS NOT NULL) THEN
        change_namespace_put.status := HF_BUSY;
        change_namespace_put.message := format('namespace %s is being removed', p_name);
    ELSIF EXISTS (SELECT FROM namespaces n WHERE n.name = p_name AND n.copying IS NOT NULL) THEN
        change_namespace_put.status := HF_BUSY;
        change_namespace_put.message := format(
            'namespace %s is a copy that is not complete: run the same holdfast copy again, '
            'or remove it',
            p_name);
    ELSIF change_namespace_put.status = HF_OK AND v_changes THEN
        UPDATE namespaces n
            SET metadata = coalesce(p_metadata, n.metadata),
                retention_ms = coalesce(p_retention_ms, n.retention_ms),
                retention_bytes = coalesce(p_retention_bytes, n.retention_bytes),
                lagging_drop = coalesce(p_lagging_drop, n.lagging_drop),
                type_index = CASE
                    WHEN p_type_index AND n.type_index IN (TYPE_INDEX_OFF, TYPE_INDEX_DROPPING)
                        THEN TYPE_INDEX_BUILDING
                    WHEN NOT p_type_index AND n.type_index <> TYPE_INDEX_OFF
                        THEN TYPE_INDEX_DROPPING
                    ELSE n.type_index END
            WHERE n.id = change_namespace_put.id;
    END IF;
END
$$;

-- limit_payload: the largest payload, in bytes, that is published into a namespace in SQL, or by a
-- role that has a part in it; 1 MiB at first. A program of the library whose role owns the schema
-- has its own (payload_bytes_max). For the owner of the schema. HF001, HF003.
CREATE OR REPLACE FUNCTION holdfast.limit_payload(namespace text, bytes integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF bytes IS NULL OR bytes NOT BETWEEN 1024 AND 268435456 THEN
        RAISE EXCEPTION 'bytes is %; it takes 1024 to 268435456', bytes USING ERRCODE = 'HF001';
    END IF;
    UPDATE namespaces n SET payload_bytes_max = bytes
        WHERE n.id = (namespace_find(limit_payload.namespace)).id;
END
$$;

-- A subscription of a namespace that is gone, or going, would belong to nothing. A session that
-- makes one keeps the namespace from being removed meanwhile: each step of removing waits for its
-- row.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_check() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM FROM namespaces n WHERE n.id = new.namespace_id AND n.removing_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the namespace is gone' USING ERRCODE = 'HF003';
    END IF;
    RETURN new;
END
$$;

-- The first step of removing: refuses while a process that is alive has it open, unless forced.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_mark(p_id integer, p_name text,
                                                           p_force boolean, OUT status integer,
                                                           OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_open record;
BEGIN
    status := HF_OK;
    PERFORM FROM namespaces n WHERE n.id = p_id FOR UPDATE; -- no process registers meanwhile
    v_open := nodes_present(p_id);
    IF v_open.count > 0 AND NOT p_force THEN
        status := HF_CONFLICT;
        message := format('namespace %s is open in %s process%s: %s', p_name, v_open.count,
                          CASE WHEN v_open.count = 1 THEN '' ELSE 'es' END, v_open.names);
        RETURN;
    END IF;
    UPDATE namespaces SET removing_at = clock_timestamp() WHERE id = p_id;
    PERFORM wake(p_id);
END
$$;

-- The log: a month, or at last the table and the sequences. True: something was left to do.
-- Functions go with what others have made of them: a view needs no right on a function that it
-- calls, and could keep it for ever.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_drop_log(p_id integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_log   regclass := to_regclass('holdfast_private.events_' || p_id);
    v_month regclass;
BEGIN
    IF v_log IS NULL THEN
        RETURN false;
    END IF;
    PERFORM await_months(p_id); -- no session makes a month meanwhile
    SELECT i.inhrelid::regclass INTO v_month FROM pg_inherits i WHERE i.inhparent = v_log LIMIT 1;
    IF FOUND THEN
        EXECUTE format('DROP TABLE %s', v_month);
    ELSE
        EXECUTE format('DROP FUNCTION IF EXISTS holdfast.log_%1$s(), holdfast.times_%1$s(), '
                       'holdfast.drawn_%1$s() CASCADE', p_id);
        EXECUTE format('DROP TABLE %s', v_log);
        EXECUTE format('DROP SEQUENCE holdfast_private.%I', 'events_' || p_id || '_position');
        EXECUTE format('DROP SEQUENCE holdfast_private.%I', 'events_' || p_id || '_sleep');
    END IF;
    RETURN true;
END
$$;

-- What the subscriptions have, up to p_rows rows. Answers how many of these are left over.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_drop_subscriptions(p_id integer,
                                                                         p_rows bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_left  bigint := p_rows;
    v_count bigint;
    v_sub   bigint;
    v_table text;
BEGIN
    WHILE v_left > 0 LOOP
        SELECT s.id INTO v_sub FROM subscriptions s WHERE s.namespace_id = p_id
            ORDER BY s.id LIMIT 1 FOR UPDATE;
        EXIT WHEN NOT FOUND;
        FOREACH v_table IN ARRAY ARRAY['retries', 'copies', 'settled', 'outcomes', 'leases',
                                       'partitions', 'rates', 'cancels'] LOOP
            EXECUTE format('DELETE FROM holdfast_private.%I WHERE ctid = ANY (ARRAY('
                           'SELECT ctid FROM holdfast_private.%I WHERE subscription_id = '
                           '$1 LIMIT $2))',
                           v_table, v_table) USING v_sub, v_left;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            v_left := v_left - v_count;
            IF v_left <= 0 THEN
                RETURN 0;
            END IF;
        END LOOP;
        DELETE FROM subscriptions WHERE id = v_sub;
        v_left := v_left - 1;
    END LOOP;
    RETURN v_left;
END
$$;

-- namespace_remove_step: what change_namespace_remove does, if it gets the locks.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_remove_step(
    p_own integer, p_name text, p_force boolean, p_rows bigint, OUT status integer,
    OUT message text, OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_left      bigint := p_rows;
    v_count     bigint;
    v_table     text;
    v_namespace namespaces%ROWTYPE;
BEGIN
    status := HF_OK;
    more := true;
    SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no namespace %s', left(p_name, 255));
        RETURN;
    END IF;
    IF v_namespace.id = p_own THEN
        status := HF_MISUSE;
        message := format('namespace %s is open here', p_name);
        RETURN;
    END IF;
    IF v_namespace.removing_at IS NULL THEN
        SELECT m.status, m.message INTO namespace_remove_step.status, namespace_remove_step.message
            FROM namespace_mark(v_namespace.id, p_name, p_force) m;
        RETURN;
    END IF;
    IF namespace_drop_log(v_namespace.id) THEN
        RETURN;
    END IF;
    DELETE FROM schedule_runs WHERE ctid = ANY (ARRAY(
        SELECT r.ctid FROM schedules s JOIN schedule_runs r ON r.schedule_id = s.id
        WHERE s.namespace_id = v_namespace.id LIMIT v_left));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_left := v_left - v_count;
    IF v_left <= 0 THEN
        RETURN;
    END IF;
    FOREACH v_table IN ARRAY ARRAY['event_ids', 'keys', 'letters', 'dead_kinds', 'schedules',
                                   'delayed', 'uniques'] LOOP
        EXECUTE format('DELETE FROM holdfast_private.%I WHERE ctid = ANY (ARRAY('
                       'SELECT ctid FROM holdfast_private.%I WHERE namespace_id = $1 LIMIT $2))',
                       v_table, v_table) USING v_namespace.id, v_left;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_left := v_left - v_count;
        IF v_left <= 0 THEN
            RETURN;
        END IF;
    END LOOP;
    v_left := namespace_drop_subscriptions(v_namespace.id, v_left);
    IF v_left > 0 THEN
        DELETE FROM heads WHERE namespace_id = v_namespace.id;
        DELETE FROM gates WHERE namespace_id = v_namespace.id;
        DELETE FROM processes WHERE namespace_id = v_namespace.id;
        DELETE FROM past_nodes WHERE namespace_id = v_namespace.id;
        DELETE FROM namespaces n WHERE n.id = v_namespace.id;
        EXECUTE format('DROP FUNCTION IF EXISTS holdfast.append_%1$s, holdfast.claim_%1$s, '
                       'holdfast.lease_events_%1$s, holdfast.pending_%1$s CASCADE',
                       v_namespace.id);
        more := false;
    END IF;
END
$$;

-- namespace_relations: what is locked when the log of a namespace goes: its tables, sequences, the
-- views that others have made above its functions, and the log of all namespaces, of which it is a
-- part.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_relations(p_id integer) RETURNS oid[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT ARRAY(
        SELECT t.relid::oid
        FROM pg_partition_tree(to_regclass('holdfast_private.events_' || p_id)) t
        UNION
        SELECT 'holdfast_private.events'::regclass::oid
        UNION
        SELECT to_regclass(format('holdfast_private.events_%s_%s', p_id, s))::oid
        FROM unnest('{position,sleep}'::text[]) s
        UNION
        SELECT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_proc'::regclass
            AND d.refobjid = ANY (ARRAY(
                SELECT to_regproc(format('holdfast.%s_%s', f, p_id))::oid
                FROM unnest('{log,times,drawn,append,claim,lease_events}'::text[]) f)))
$$;

-- change_namespace_remove: one step of `struct namespace_remove`, at most about p_rows rows or a
-- month. HF_NOTFOUND, HF_CONFLICT; HF_MISUSE if it is p_own, the caller's. Locks are waited for
-- only briefly: a publisher, here or in another namespace, waits behind a session that waits for a
-- lock on the log; so this gives up, says who is in the way (55P03), and is called again.
CREATE OR REPLACE FUNCTION holdfast.change_namespace_remove(p_own integer, p_name text,
                                                            p_force boolean, p_rows bigint,
                                                            OUT status integer, OUT message text,
                                                            OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '50ms'
AS $$
DECLARE
    v_context text;
BEGIN
    SELECT s.status, s.message, s.more INTO change_namespace_remove.status,
        change_namespace_remove.message, change_namespace_remove.more
        FROM namespace_remove_step(p_own, p_name, p_force, p_rows) s;
EXCEPTION WHEN lock_not_available THEN
    GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
    RAISE EXCEPTION 'namespace % is in use by %', left(p_name, 255), holders(v_context,
        (SELECT namespace_relations(n.id) FROM namespaces n WHERE n.name = p_name), '{}')
        USING ERRCODE = 'lock_not_available',
              HINT = 'End its transaction, or the session (pg_terminate_backend); one that is '
                     'prepared with ROLLBACK PREPARED.';
END
$$;

-- ---- Namespaces ---------------------------------------------------------------------------------

-- Makes a namespace, or changes it. What is NULL stays. HF001, HF003, HF004, HF011.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_set(
    p_name text, p_gapless boolean, p_metadata json, p_retention_ms bigint,
    p_retention_bytes bigint, p_lagging text, p_type_index boolean, p_create boolean)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_done record;
BEGIN
    PERFORM fault_check(coalesce(
        name_fault(p_name, 'namespace name', HF_NAMESPACE_BYTES_MAX),
        metadata_fault(p_metadata, HF_METADATA_BYTES_MAX),
        CASE WHEN p_retention_ms NOT BETWEEN 0 AND 31622400000000
                 THEN format('retention_ms is %s; it takes 0 to 31622400000000', p_retention_ms)
             WHEN p_retention_bytes < 0
                 THEN format('retention_bytes is %s; it takes 0 and more', p_retention_bytes)
             WHEN p_lagging NOT IN ('keep', 'drop')
                 THEN format('lagging is %s; it takes keep or drop', left(p_lagging, 64)) END));
    PERFORM demand_read_committed('namespaces need');
    PERFORM commit_durably();
    v_done := change_namespace_put(p_name, p_metadata, p_gapless, p_create, p_retention_ms,
                                   p_retention_bytes, p_lagging = 'drop', p_type_index);
    PERFORM answer_check(v_done.status, v_done.message);
    RETURN v_done.created;
END
$$;

-- create_namespace: makes a namespace, or changes the one of this name. gapless, which cannot
-- change: positions have no gaps, and publishers queue. retention_ms: how long events stay, 0: for
-- ever; retention_bytes: how large the log may become, 0: no limit; lagging: whether what a
-- subscription has not finished is kept or dropped then; type_index: whether events of rare types
-- can be found without reading the log. True: it is new. For the owner of the schema.
CREATE OR REPLACE FUNCTION holdfast.create_namespace(namespace text, gapless boolean DEFAULT NULL,
                                                     metadata anycompatible DEFAULT NULL,
                                                     retention_ms bigint DEFAULT NULL,
                                                     retention_bytes bigint DEFAULT NULL,
                                                     lagging text DEFAULT NULL,
                                                     type_index boolean DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_metadata json;
BEGIN
    PERFORM json_check('metadata', metadata);
    v_metadata := metadata;
    RETURN namespace_set(namespace, gapless, v_metadata, retention_ms, retention_bytes, lagging,
                         type_index, true);
END
$$;

-- alter_namespace: changes one that exists. What is not given stays. Months that are there get the
-- index on types, or lose it, by a client that can run commands outside of a function: a started
-- bus within about an hour, or `holdfast namespace set` at once. For the owner of the schema.
CREATE OR REPLACE FUNCTION holdfast.alter_namespace(namespace text,
                                                    metadata anycompatible DEFAULT NULL,
                                                    retention_ms bigint DEFAULT NULL,
                                                    retention_bytes bigint DEFAULT NULL,
                                                    lagging text DEFAULT NULL,
                                                    type_index boolean DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_metadata json;
BEGIN
    PERFORM json_check('metadata', metadata);
    v_metadata := metadata;
    PERFORM namespace_set(namespace, NULL, v_metadata, retention_ms, retention_bytes, lagging,
                          type_index, false);
END
$$;

-- One step of dropping a namespace. It gives way to sessions that use the log, and tries again; if
-- that takes longer than 10 s, 55P03. True: call it again, in another transaction.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_drop_step(p_name text, p_force boolean)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_wait  constant interval := '10 s';
    v_until timestamptz := clock_timestamp() + c_wait;
    v_done  record;
BEGIN
    PERFORM fault_check(name_fault(p_name, 'namespace name', HF_NAMESPACE_BYTES_MAX));
    -- It may wait long; a process that opens the namespace meanwhile must be seen.
    PERFORM demand_read_committed('namespaces need');
    LOOP
        BEGIN
            v_done := change_namespace_remove(0, p_name, coalesce(p_force, false), 1000);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > v_until THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(0.05);
    END LOOP;
    PERFORM answer_check(v_done.status, v_done.message);
    RETURN v_done.more;
END
$$;

-- drop_namespace: with everything in it, by many small transactions: CALL it outside of one. If it
-- does not get to its end, calling it again goes on. force: although a process that is alive has it
-- open (HF004). The session's transactions must be READ COMMITTED. A procedure that ends
-- transactions cannot name a search_path, so it says where everything is, and has no operators. For
-- the owner of the schema.
CREATE OR REPLACE PROCEDURE holdfast.drop_namespace(namespace text, force boolean DEFAULT false)
    LANGUAGE plpgsql
AS $$
BEGIN
    COMMIT; -- inside a transaction of the caller this fails, and nothing is done
    WHILE holdfast_private.namespace_drop_step(drop_namespace.namespace, drop_namespace.force) LOOP
        COMMIT;
    END LOOP;
END
$$;
