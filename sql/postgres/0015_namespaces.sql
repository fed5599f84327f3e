-- Namespaces as people see them: settings, a list, and how one is removed.
--
-- Removing is a chain of small transactions. The first one marks the namespace, and from then on
-- nobody opens it; the log goes month by month, then row by row what other tables have of it. Whoever
-- dies in between leaves a marked namespace, and removing it again goes on from there.

-- change_namespace_put: `struct namespace_put`, and what opening does. What is NULL stays as it is.
-- Answers as namespace_put does; HF_BUSY (11) if it is being removed, or copied into.
CREATE FUNCTION holdfast.change_namespace_put(p_name text, p_metadata json, p_gapless boolean,
                                              p_create boolean, OUT status integer,
                                              OUT message text, OUT id integer,
                                              OUT gapless boolean, OUT created boolean,
                                              p_retention_ms bigint DEFAULT NULL,
                                              p_retention_bytes bigint DEFAULT NULL,
                                              p_lagging_drop boolean DEFAULT NULL)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT p.status, p.message, p.id, p.gapless, p.created
        INTO change_namespace_put.status, change_namespace_put.message, change_namespace_put.id,
             change_namespace_put.gapless, change_namespace_put.created
        FROM namespace_put(p_name, p_gapless, p_create) p;
    IF EXISTS (SELECT FROM namespaces n WHERE n.name = p_name AND n.removing_at IS NOT NULL) THEN
        change_namespace_put.status := 11;
        change_namespace_put.message := format('namespace %s is being removed', p_name);
    ELSIF EXISTS (SELECT FROM namespaces n WHERE n.name = p_name AND n.copying IS NOT NULL) THEN
        change_namespace_put.status := 11;
        change_namespace_put.message := format(
            'namespace %s is a copy that is not complete: run the same holdfast copy again, or remove it',
            p_name);
    ELSIF change_namespace_put.status = 0
        AND num_nonnulls(p_metadata, p_retention_ms, p_retention_bytes, p_lagging_drop) > 0 THEN
        UPDATE namespaces n
            SET metadata = coalesce(p_metadata, n.metadata),
                retention_ms = coalesce(p_retention_ms, n.retention_ms),
                retention_bytes = coalesce(p_retention_bytes, n.retention_bytes),
                lagging_drop = coalesce(p_lagging_drop, n.lagging_drop)
            WHERE n.id = change_namespace_put.id;
    END IF;
END
$$;

-- limit_payload: the largest payload, in bytes, that is published into a namespace in SQL, or by a role that has a
-- part in it; 1 MiB at first. A program of the library whose role owns the schema has its own (payload_bytes_max).
-- For the owner of the schema. HF001, HF003.
CREATE FUNCTION holdfast.limit_payload(namespace text, bytes integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
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

-- A subscription of a namespace that is gone, or going, would belong to nobody. Whoever makes one keeps the
-- namespace from being removed meanwhile: each step of removing waits for its row.
CREATE FUNCTION holdfast.subscription_check() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM FROM namespaces n WHERE n.id = new.namespace_id AND n.removing_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the namespace is gone' USING ERRCODE = 'HF003';
    END IF;
    RETURN new;
END
$$;
CREATE TRIGGER subscription_check BEFORE INSERT ON holdfast.subscriptions
    FOR EACH ROW EXECUTE FUNCTION holdfast.subscription_check();

-- The first step of removing: refuses while a process that is alive has it open, unless forced.
CREATE FUNCTION holdfast.namespace_mark(p_id integer, p_name text, p_force boolean,
                                        OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_open record;
BEGIN
    status := 0;
    PERFORM FROM namespaces n WHERE n.id = p_id FOR UPDATE; -- nobody registers meanwhile
    v_open := nodes_present(p_id);
    IF v_open.count > 0 AND NOT p_force THEN
        status := 4;
        message := format('namespace %s is open in %s process%s: %s', p_name, v_open.count,
                          CASE WHEN v_open.count = 1 THEN '' ELSE 'es' END, v_open.names);
        RETURN;
    END IF;
    UPDATE namespaces SET removing_at = clock_timestamp() WHERE id = p_id;
    PERFORM pg_notify('holdfast_' || p_id, '');
END
$$;

-- The log: a month, or at last the table and the sequences. True: something was left to do.
CREATE FUNCTION holdfast.namespace_drop_log(p_id integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_log   regclass := to_regclass('holdfast.events_' || p_id);
    v_month regclass;
BEGIN
    IF v_log IS NULL THEN
        RETURN false;
    END IF;
    PERFORM await_months(p_id); -- nobody makes a month meanwhile
    SELECT i.inhrelid::regclass INTO v_month FROM pg_inherits i WHERE i.inhparent = v_log LIMIT 1;
    IF FOUND THEN
        EXECUTE format('DROP TABLE %s', v_month);
    ELSE
        EXECUTE format('DROP TABLE %s', v_log);
        EXECUTE format('DROP SEQUENCE holdfast.%I', 'events_' || p_id || '_position');
        EXECUTE format('DROP SEQUENCE holdfast.%I', 'events_' || p_id || '_sleep');
    END IF;
    RETURN true;
END
$$;

-- What the subscriptions have, up to p_rows rows. Answers how many of these are left over.
CREATE FUNCTION holdfast.namespace_drop_subscriptions(p_id integer, p_rows bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
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
        FOREACH v_table IN ARRAY ARRAY['retries', 'copies', 'settled', 'leases', 'partitions'] LOOP
            EXECUTE format('DELETE FROM holdfast.%I WHERE ctid = ANY (ARRAY('
                           'SELECT ctid FROM holdfast.%I WHERE subscription_id = $1 LIMIT $2))',
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

-- change_namespace_remove: one step of `struct namespace_remove`, at most about p_rows rows or a month.
-- HF_NOTFOUND (3), HF_CONFLICT (4); HF_MISUSE (2) if it is p_own, the caller's. Locks are waited for only briefly: who publishes, here or in
-- another namespace, waits behind whoever waits for a lock on the log; so this gives up and is called
-- again.
CREATE FUNCTION holdfast.change_namespace_remove(p_own integer, p_name text, p_force boolean,
                                                 p_rows bigint, OUT status integer, OUT message text,
                                                 OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
    SET lock_timeout = '50ms'
AS $$
DECLARE
    v_left      bigint := p_rows;
    v_count     bigint;
    v_table     text;
    v_namespace namespaces%ROWTYPE;
BEGIN
    status := 0;
    more := true;
    SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no namespace %s', left(p_name, 255));
        RETURN;
    END IF;
    IF v_namespace.id = p_own THEN
        status := 2;
        message := format('namespace %s is open here', p_name);
        RETURN;
    END IF;
    IF v_namespace.removing_at IS NULL THEN
        SELECT m.status, m.message INTO change_namespace_remove.status, change_namespace_remove.message
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
    FOREACH v_table IN ARRAY ARRAY['event_ids', 'keys', 'letters', 'schedules', 'delayed'] LOOP
        EXECUTE format('DELETE FROM holdfast.%I WHERE ctid = ANY (ARRAY('
                       'SELECT ctid FROM holdfast.%I WHERE namespace_id = $1 LIMIT $2))',
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
        EXECUTE format('DROP FUNCTION IF EXISTS holdfast.%I, holdfast.%I', 'append_' || v_namespace.id,
                       'claim_' || v_namespace.id);
        more := false;
    END IF;
END
$$;
