-- Schedules, the ledger of their firings, and events that enter the log when they are due. As in 0007:
-- one function per change of src/store/agenda.h.
--
-- Nobody leads. Of several processes that fire one planned time the first to lock the schedule's row
-- moves next_at on; the others wait for its commit, look at the row again, and find it moved. The events
-- and the ledger are written in the same transaction, so whoever dies before the commit has done nothing.

-- next_at: the planned time that it waits for; NULL: it never comes true again. policy, of missed times:
-- 1 skip, 2 once, 3 all. generation rises with every change of definition or pause.
CREATE TABLE holdfast.schedules (
    id            uuid PRIMARY KEY,
    generation    bigint NOT NULL DEFAULT 1,
    next_at       timestamptz,
    paused_at     timestamptz,
    created_at    timestamptz NOT NULL,
    grace_us      bigint NOT NULL,
    namespace_id  integer NOT NULL,
    policy        integer NOT NULL,
    cap           integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    expression    text NOT NULL,
    zone          text NOT NULL,
    paused_by     text,
    paused_reason text,
    type          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    tenant        text COLLATE "C",
    metadata      json,
    payload       json NOT NULL,
    UNIQUE (namespace_id, name)
) WITH (fillfactor = 50);
CREATE INDEX schedules_due ON holdfast.schedules (namespace_id, next_at)
    WHERE paused_at IS NULL AND next_at IS NOT NULL;

-- kind: 1 fired, 2 fired by hand, 3 left out, from planned_at to until_at.
CREATE TABLE holdfast.schedule_runs (
    schedule_id uuid NOT NULL,
    planned_at  timestamptz NOT NULL,
    until_at    timestamptz,
    fired_at    timestamptz NOT NULL,
    position    bigint,
    kind        integer NOT NULL,
    node        text,
    PRIMARY KEY (schedule_id, planned_at)
);

-- number: the order of arrival, for those that are due at the same time.
CREATE TABLE holdfast.delayed (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at       timestamptz NOT NULL,
    emitted_at   timestamptz NOT NULL,
    hash         bigint NOT NULL,
    id           uuid NOT NULL,
    namespace_id integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    producer     text,
    key          text COLLATE "C",
    tenant       text COLLATE "C",
    metadata     json,
    payload      json NOT NULL,
    UNIQUE (namespace_id, id)
);
CREATE INDEX delayed_due ON holdfast.delayed (namespace_id, due_at, number);

-- agenda: when the earliest schedule or delayed event of the namespace is due; NULL: nothing is.
CREATE FUNCTION holdfast.agenda(p_namespace_id integer) RETURNS timestamptz
    LANGUAGE sql STABLE
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
    SELECT least((SELECT min(s.next_at) FROM schedules s
                      WHERE s.namespace_id = p_namespace_id AND s.paused_at IS NULL
                          AND s.next_at IS NOT NULL),
                 (SELECT min(d.due_at) FROM delayed d WHERE d.namespace_id = p_namespace_id))
$$;

-- Whoever keeps something for later keeps its namespace from being removed meanwhile.
CREATE FUNCTION holdfast.namespace_hold(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM namespaces n WHERE n.id = p_namespace_id AND n.removing_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the namespace is gone' USING ERRCODE = 'HF003';
    END IF;
END
$$;

-- ---- Schedules ----------------------------------------------------------------------------------

-- change_schedule_put: `struct schedule_put`. p_driver: 'pg_cron', or NULL; its job is made, changed and
-- removed here (schedule_drive). One that loses its job loses it first, because it may get what the job
-- could not have.
CREATE FUNCTION holdfast.change_schedule_put(
    p_namespace_id integer, p_id uuid, p_name text, p_expression text, p_zone text, p_type text,
    p_payload json, p_key text, p_tenant text, p_metadata json, p_policy integer, p_cap integer,
    p_grace_us bigint, p_next timestamptz, p_now timestamptz, p_driver text,
    OUT status integer, OUT message text, OUT created boolean)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_schedule schedules;
BEGIN
    status := 0;
    PERFORM namespace_hold(p_namespace_id);
    INSERT INTO schedules (id, namespace_id, name, expression, zone, type, payload, key, tenant,
                           metadata, policy, cap, grace_us, next_at, created_at)
        VALUES (p_id, p_namespace_id, p_name, p_expression, p_zone, p_type, p_payload, p_key,
                p_tenant, p_metadata, p_policy, p_cap, p_grace_us, p_next, p_now)
        ON CONFLICT (namespace_id, name) DO NOTHING;
    created := FOUND;
    SELECT * INTO v_schedule FROM schedules s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name FOR UPDATE;
    IF p_driver IS NULL AND v_schedule.job IS NOT NULL THEN
        PERFORM schedule_drive(v_schedule, NULL);
    END IF;
    IF NOT created THEN
        UPDATE schedules s
            SET expression = p_expression, zone = p_zone, type = p_type, payload = p_payload,
                key = p_key, tenant = p_tenant, metadata = p_metadata, policy = p_policy,
                cap = p_cap, grace_us = p_grace_us, next_at = p_next,
                generation = s.generation + 1
            WHERE s.namespace_id = p_namespace_id AND s.name = p_name
            RETURNING s.* INTO v_schedule;
    END IF;
    IF p_driver IS NOT NULL AND v_schedule.job IS NULL THEN
        PERFORM schedule_drive(v_schedule, p_driver);
    END IF;
END
$$;

-- change_schedule_remove: `struct schedule_remove`. HF_NOTFOUND (3).
CREATE FUNCTION holdfast.change_schedule_remove(p_namespace_id integer, p_name text,
                                                OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_id uuid;
BEGIN
    status := 0;
    DELETE FROM schedules s WHERE s.namespace_id = p_namespace_id AND s.name = p_name
        RETURNING s.id INTO v_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no schedule %s', p_name);
        RETURN;
    END IF;
    DELETE FROM schedule_runs r WHERE r.schedule_id = v_id;
END
$$;

-- change_schedule_pause: `struct schedule_pause`. HF_NOTFOUND (3).
CREATE FUNCTION holdfast.change_schedule_pause(p_namespace_id integer, p_name text,
                                               p_paused boolean, p_by text, p_reason text,
                                               p_next timestamptz, p_now timestamptz,
                                               OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
BEGIN
    status := 0;
    IF p_paused THEN
        UPDATE schedules s
            SET paused_at = p_now, paused_by = p_by, paused_reason = p_reason,
                generation = s.generation + 1
            WHERE s.namespace_id = p_namespace_id AND s.name = p_name AND s.paused_at IS NULL;
    ELSE
        UPDATE schedules s
            SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, next_at = p_next,
                generation = s.generation + 1
            WHERE s.namespace_id = p_namespace_id AND s.name = p_name;
    END IF;
    IF NOT FOUND THEN
        PERFORM 1 FROM schedules s WHERE s.namespace_id = p_namespace_id AND s.name = p_name;
        IF NOT FOUND THEN
            status := 3;
            message := format('there is no schedule %s', p_name);
        END IF;
    END IF;
END
$$;

-- change_fire: `struct fire`. Arrays of one length. HF_STALE (5): nothing was done. HF_NOTFOUND (3): no
-- such namespace. Locks: the schedule's row, to the end of the transaction; then as append_one does.
CREATE FUNCTION holdfast.change_fire(
    p_namespace_id integer, p_schedule_id uuid, p_generation bigint, p_waited timestamptz,
    p_next timestamptz, p_by_hand boolean, p_skipped_first timestamptz, p_skipped_last timestamptz,
    p_node text, p_now timestamptz, p_kept integer, p_planned timestamptz[], p_ids uuid[],
    p_types text[], p_payloads json[], p_keys text[], p_tenants text[], p_metadata json[],
    p_producers text[], p_schedule_ids text[], p_emitted_at timestamptz[], p_hashes bigint[],
    OUT status integer, OUT message text, OUT positions bigint[], OUT duplicates boolean[])
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_done      record;
    v_count     integer := cardinality(p_ids);
BEGIN
    status := 0;
    SELECT * INTO v_namespace FROM namespaces n WHERE n.id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no namespace with id %s', p_namespace_id);
        RETURN;
    END IF;
    IF p_by_hand THEN
        PERFORM 1 FROM schedules s
            WHERE s.id = p_schedule_id AND s.namespace_id = p_namespace_id FOR UPDATE;
    ELSE
        UPDATE schedules s SET next_at = p_next
            WHERE s.id = p_schedule_id AND s.namespace_id = p_namespace_id
                AND s.generation = p_generation AND s.next_at = p_waited AND s.paused_at IS NULL;
    END IF;
    IF NOT FOUND THEN
        status := 5;
        message := 'somebody else has fired the schedule, or it was changed';
        RETURN;
    END IF;
    positions := array_fill(0::bigint, ARRAY[v_count]);
    duplicates := array_fill(false, ARRAY[v_count]);
    IF p_skipped_first IS NOT NULL THEN
        INSERT INTO schedule_runs (schedule_id, planned_at, until_at, fired_at, kind, node)
            VALUES (p_schedule_id, p_skipped_first, p_skipped_last, p_now, 3, p_node)
            ON CONFLICT DO NOTHING;
    END IF;
    FOR i IN 1 .. v_count LOOP
        v_done := append_one(v_namespace, p_ids[i], p_types[i], p_payloads[i], p_keys[i],
                             p_tenants[i], p_metadata[i], p_producers[i], p_schedule_ids[i],
                             p_emitted_at[i], NULL, p_hashes[i]);
        positions[i] := v_done."position";
        duplicates[i] := v_done.duplicate;
        INSERT INTO schedule_runs (schedule_id, planned_at, fired_at, position, kind, node)
            VALUES (p_schedule_id, p_planned[i], p_now, v_done."position",
                    CASE WHEN p_by_hand THEN 2 ELSE 1 END, p_node)
            ON CONFLICT DO NOTHING;
    END LOOP;
    DELETE FROM schedule_runs r WHERE r.schedule_id = p_schedule_id AND r.planned_at <= (
        SELECT o.planned_at FROM schedule_runs o WHERE o.schedule_id = p_schedule_id
        ORDER BY o.planned_at DESC OFFSET p_kept LIMIT 1);
END
$$;

-- ---- Delayed events -----------------------------------------------------------------------------

-- change_delay: `struct delay`. Arrays of one length. An id that is in the log answers its position, one
-- that waits already 0.
CREATE FUNCTION holdfast.change_delay(
    p_namespace_id integer, p_due timestamptz, p_ids uuid[], p_types text[], p_payloads json[],
    p_keys text[], p_tenants text[], p_metadata json[], p_producers text[],
    p_emitted_at timestamptz[], p_hashes bigint[],
    OUT status integer, OUT message text, OUT positions bigint[], OUT duplicates boolean[])
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_count integer := cardinality(p_ids);
    v_found record;
BEGIN
    status := 0;
    PERFORM namespace_hold(p_namespace_id);
    positions := array_fill(0::bigint, ARRAY[v_count]);
    duplicates := array_fill(false, ARRAY[v_count]);
    FOR i IN 1 .. v_count LOOP
        v_found := find_id(p_namespace_id, p_ids[i]);
        IF v_found."position" IS NOT NULL THEN
            positions[i] := v_found."position";
            duplicates[i] := true;
            PERFORM commit_what_is_seen();
            CONTINUE;
        END IF;
        INSERT INTO delayed (namespace_id, id, due_at, type, payload, key, tenant, metadata,
                             producer, emitted_at, hash)
            VALUES (p_namespace_id, p_ids[i], p_due, p_types[i], p_payloads[i], p_keys[i],
                    p_tenants[i], p_metadata[i], p_producers[i], p_emitted_at[i], p_hashes[i])
            ON CONFLICT DO NOTHING;
        duplicates[i] := NOT FOUND;
    END LOOP;
END
$$;

-- change_release: `struct release`. One transaction at a time moves events of a namespace, or two could
-- commit in the wrong order; who comes second moves nothing and hears that nothing is left to do now.
CREATE FUNCTION holdfast.change_release(p_namespace_id integer, p_max integer, p_bytes_max bigint,
                                        p_now timestamptz,
                                        OUT status integer, OUT message text, OUT count bigint,
                                        OUT next_at timestamptz)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_row       record;
    v_bytes     bigint := 0;
BEGIN
    status := 0;
    count := 0;
    SELECT * INTO v_namespace FROM namespaces n WHERE n.id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no namespace with id %s', p_namespace_id);
        RETURN;
    END IF;
    IF pg_try_advisory_xact_lock(1215253606, p_namespace_id) THEN
        FOR v_row IN
            SELECT * FROM delayed d WHERE d.namespace_id = p_namespace_id AND d.due_at <= p_now
            ORDER BY d.due_at, d.number LIMIT p_max
        LOOP
            EXIT WHEN v_bytes >= p_bytes_max;
            PERFORM append_one(v_namespace, v_row.id, v_row.type, v_row.payload, v_row.key,
                               v_row.tenant, v_row.metadata, v_row.producer, NULL,
                               v_row.emitted_at, NULL, v_row.hash);
            DELETE FROM delayed d WHERE d.number = v_row.number;
            v_bytes := v_bytes + octet_length(v_row.payload::text)
                       + coalesce(octet_length(v_row.metadata::text), 0);
            count := count + 1;
        END LOOP;
    END IF;
    SELECT d.due_at INTO next_at FROM delayed d WHERE d.namespace_id = p_namespace_id
        ORDER BY d.due_at, d.number LIMIT 1;
END
$$;
