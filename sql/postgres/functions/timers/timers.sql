-- Schedules, the ledger of their firings, and events that enter the log when they are due. As in
-- subscriptions.sql: one function per change of src/store/timers.h.
--
-- No process leads. Of several processes that fire one planned time the first to lock the
-- schedule's row moves next_at on; the others wait for its commit, look at the row again, and find
-- it moved. The events and the ledger are written in the same transaction, so a process that dies
-- before the commit has done nothing.

-- timers_next_of: the time at which the earliest schedule or delayed event of the namespace is due.
-- NULL: there is none. Looks at the ends of two indexes.
CREATE OR REPLACE FUNCTION holdfast_private.timers_next_of(p_namespace_id integer)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    RETURN least((SELECT min(s.next_at) FROM schedules s
                      WHERE s.namespace_id = p_namespace_id AND s.paused_at IS NULL
                          AND s.next_at IS NOT NULL),
                 (SELECT min(d.due_at) FROM delayed d WHERE d.namespace_id = p_namespace_id));
END
$$;

-- timers_next: timers_next_of for a role that may bring due events into the log. A role that may
-- not (viewer) gets NULL.
CREATE OR REPLACE FUNCTION holdfast.timers_next(p_namespace_id integer,
                                                p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF caller_has(holder(p_ticket), p_namespace_id, 'publisher', 'consumer', 'owner') THEN
        RETURN timers_next_of(p_namespace_id);
    END IF;
    RETURN NULL;
END
$$;

-- A caller that keeps something for later keeps its namespace from being removed meanwhile. HF003.
CREATE OR REPLACE FUNCTION holdfast_private.namespace_hold(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM FROM namespaces n WHERE n.id = p_namespace_id AND n.removing_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the namespace is gone' USING ERRCODE = 'HF003';
    END IF;
END
$$;

-- ---- Schedules ----------------------------------------------------------------------------------

-- change_schedule_put: `struct schedule_put`. p_driver: 'pg_cron', or NULL; its job is made,
-- changed and removed here (schedule_drive). One that loses its job loses it first, because it may
-- get what the job could not have. p_paused: from the beginning, if it is made.
CREATE OR REPLACE FUNCTION holdfast.change_schedule_put(
    p_namespace_id integer, p_id uuid, p_name text, p_expression text, p_zone text, p_type text,
    p_payload json, p_key text, p_tenant text, p_metadata json, p_policy integer, p_cap integer,
    p_grace_us bigint, p_next timestamptz, p_now timestamptz, p_driver text, p_paused boolean,
    p_paused_by text, p_paused_reason text,
    OUT status integer, OUT message text, OUT created boolean,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller   oid;
    v_schedule schedules;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id,
                      'change schedules and delayed events of', 'publisher', 'owner');
    IF v_caller IS NOT NULL THEN
        PERFORM cron_parse(p_expression);
        PERFORM fault_check(schedule_fault(p_namespace_id, p_name, p_zone, p_type, p_payload, p_key,
                                           p_tenant, p_metadata,
                                           ('{skip,once,all}'::text[])[p_policy], p_cap,
                                           floor(p_grace_us / 1000.0)::bigint));
        PERFORM times_check(v_caller, 'next time', p_next);
        PERFORM clock_check(v_caller, p_now);
        PERFORM text_check(v_caller, 'reason', concat(p_paused_by, p_paused_reason), 4096);
    END IF;
    PERFORM namespace_hold(p_namespace_id);
    INSERT INTO schedules (id, namespace_id, name, expression, zone, type, payload, key, tenant,
                           metadata, policy, cap, grace_us, next_at, created_at, paused_at,
                           paused_by, paused_reason)
        VALUES (p_id, p_namespace_id, p_name, p_expression, p_zone, p_type, p_payload, p_key,
                p_tenant, p_metadata, p_policy, p_cap, p_grace_us, p_next, p_now,
                CASE WHEN p_paused THEN p_now END, CASE WHEN p_paused THEN p_paused_by END,
                CASE WHEN p_paused THEN p_paused_reason END)
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

-- change_schedule_remove: `struct schedule_remove`. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.change_schedule_remove(p_namespace_id integer, p_name text,
                                                           OUT status integer, OUT message text,
                                                           p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id uuid;
BEGIN
    status := HF_OK;
    PERFORM admit(p_ticket, p_namespace_id,
                  'change schedules and delayed events of', 'publisher', 'owner');
    DELETE FROM schedules s WHERE s.namespace_id = p_namespace_id AND s.name = p_name
        RETURNING s.id INTO v_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no schedule %s', left(p_name, HF_SCHEDULE_NAME_BYTES_MAX));
        RETURN;
    END IF;
    DELETE FROM schedule_runs r WHERE r.schedule_id = v_id;
END
$$;

-- change_schedule_pause: `struct schedule_pause`. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.change_schedule_pause(p_namespace_id integer, p_name text,
                                                          p_paused boolean, p_by text,
                                                          p_reason text, p_next timestamptz,
                                                          p_now timestamptz, OUT status integer,
                                                          OUT message text,
                                                          p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id,
                      'change schedules and delayed events of', 'publisher', 'owner');
    PERFORM times_check(v_caller, 'next time', p_next);
    PERFORM clock_check(v_caller, p_now);
    PERFORM text_check(v_caller, 'reason', concat(p_by, p_reason), 4096);
    IF p_paused THEN
        UPDATE schedules s
            SET paused_at = p_now, paused_by = p_by, paused_reason = p_reason,
                generation = s.generation + 1
            WHERE s.namespace_id = p_namespace_id AND s.name = p_name AND s.paused_at IS NULL;
    ELSE
        UPDATE schedules s
            SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, next_at = p_next,
                generation = s.generation + 1
            WHERE s.namespace_id = p_namespace_id AND s.name = p_name AND s.paused_at IS NOT NULL;
    END IF;
    IF NOT FOUND THEN
        PERFORM 1 FROM schedules s WHERE s.namespace_id = p_namespace_id AND s.name = p_name;
        IF NOT FOUND THEN
            status := HF_NOTFOUND;
            message := format('there is no schedule %s', left(p_name, HF_SCHEDULE_NAME_BYTES_MAX));
        END IF;
    END IF;
END
$$;

-- ---- Firing -------------------------------------------------------------------------------------

-- Which of these firings are ours: of a schedule that no other transaction has locked, fired or
-- changed. Those now wait for what they are to wait for next. By hand: all whose schedule exists.
--
-- A schedule that another transaction has locked is passed over, so no caller waits here while it
-- holds other schedules.
CREATE OR REPLACE FUNCTION holdfast_private.fire_take(p_namespace_id integer, p_by_hand boolean,
                                                      p_schedules uuid[], p_generations bigint[],
                                                      p_waited timestamptz[], p_nexts timestamptz[])
    RETURNS boolean[]
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_ours boolean[] := array_fill(false, ARRAY[cardinality(p_schedules)]);
    v_at   bigint;
BEGIN
    IF p_by_hand THEN
        FOR v_at IN
            SELECT f.at FROM unnest(p_schedules) WITH ORDINALITY f (id, at)
            JOIN schedules s ON s.id = f.id
            WHERE s.namespace_id = p_namespace_id FOR UPDATE OF s
        LOOP
            v_ours[v_at] := true;
        END LOOP;
        RETURN v_ours;
    END IF;
    FOR v_at IN
        WITH free AS (
            SELECT s.id, f.next_at, f.at
            FROM unnest(p_schedules, p_generations, p_waited, p_nexts)
                 WITH ORDINALITY f (id, generation, waited, next_at, at),
                LATERAL (SELECT * FROM schedules s
                         -- Those of other namespaces are not locked. By id: no index has "+ 0".
                         WHERE s.id = f.id AND s.namespace_id + 0 = p_namespace_id
                         OFFSET 0 -- by id, whatever other index would do for what follows
                         FOR UPDATE SKIP LOCKED) s
            WHERE s.generation = f.generation
                AND s.next_at = f.waited AND s.paused_at IS NULL)
        UPDATE schedules s SET next_at = free.next_at FROM free WHERE s.id = free.id
            RETURNING free.at
    LOOP
        v_ours[v_at] := true;
    END LOOP;
    RETURN v_ours;
END
$$;

-- Appends those of the events whose firing is ours. Positions in the order of the events, NULL for
-- the others. Where the log's own index guards all ids this is one INSERT, as that of append_<id>
-- (append.sql); else event by event. Locks as append_one does.
CREATE OR REPLACE FUNCTION holdfast_private.fire_append(
    p_namespace holdfast_private.namespaces, p_ours boolean[], p_firings integer[], p_ids uuid[],
    p_types text[], p_payloads json[], p_keys text[], p_tenants text[], p_metadata json[],
    p_producers text[], p_schedule_ids text[], p_emitted_at timestamptz[], p_hashes bigint[],
    OUT positions bigint[], OUT duplicates boolean[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_from    timestamptz := greatest(v_now - interval '23 hours', p_namespace.months_from,
                                      p_namespace.ids_until + interval '1 microsecond');
    v_to      timestamptz := least(v_now + interval '23 hours', p_namespace.months_to);
    v_guards  timestamptz[] := ARRAY(SELECT id_time(i) FROM unnest(p_ids) u (i));
    v_count   bigint;
    v_done    record;
BEGIN
    positions := array_fill(NULL::bigint, ARRAY[cardinality(p_ids)]);
    duplicates := array_fill(false, ARRAY[cardinality(p_ids)]);
    IF NOT p_namespace.gapless AND NOT EXISTS (
        SELECT FROM unnest(v_guards) u (t) WHERE (t >= v_from AND t < v_to) IS NOT TRUE)
    THEN
        PERFORM publishing(p_namespace.id);
        positions := ARRAY(SELECT CASE WHEN p_ours[f] THEN nextval(p_namespace.sequence) END
                           FROM unnest(p_firings) u (f));
        v_now := clock_timestamp();
        INSERT INTO events (position, hash, checksum, emitted_at, entered_at, guard_at, id,
                            namespace_id, type, schedule_id, producer, key, tenant, metadata,
                            payload)
            SELECT e.position, e.hash,
                   checksum_of(content_of(e.id, e.emitted_at, e.type, e.key, e.tenant, e.metadata,
                                          e.producer, e.schedule_id, e.payload),
                               e.hash, e.position, v_now, NULL), e.emitted_at, v_now,
                   e.guard_at, e.id, p_namespace.id, e.type, e.schedule_id, e.producer, e.key,
                   e.tenant, e.metadata, e.payload
            FROM (SELECT unnest(positions) AS position, unnest(p_hashes) AS hash,
                         unnest(p_emitted_at) AS emitted_at, unnest(v_guards) AS guard_at,
                         unnest(p_ids) AS id, unnest(p_types) AS type,
                         unnest(p_schedule_ids) AS schedule_id, unnest(p_producers) AS producer,
                         unnest(p_keys) AS key, unnest(p_tenants) AS tenant,
                         unnest(p_metadata) AS metadata, unnest(p_payloads) AS payload) e
            WHERE e.position IS NOT NULL
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count = cardinality(array_remove(positions, NULL)) THEN
            RETURN;
        END IF;
    END IF;
    -- What has just been inserted is found, and is no duplicate.
    FOR i IN 1 .. cardinality(p_ids) LOOP
        CONTINUE WHEN NOT p_ours[p_firings[i]];
        v_done := append_one(p_namespace, p_ids[i], p_types[i], p_payloads[i], p_keys[i],
                             p_tenants[i], p_metadata[i], p_producers[i], p_schedule_ids[i],
                             p_emitted_at[i], NULL, p_hashes[i]);
        duplicates[i] := v_done.duplicate AND v_done."position" IS DISTINCT FROM positions[i];
        positions[i] := v_done."position";
    END LOOP;
END
$$;

-- change_fire: `struct fire`, of many schedules. p_schedules, p_generations, p_waited, p_nexts and
-- p_skipped_... have one element for each firing; the other arrays one for each event, p_firings
-- saying of which firing (from 1). `ours` is false where struct fire answers HF_STALE: nothing was
-- done. Raises HF003: no such namespace. Locks: the schedules' rows, to the end of the transaction;
-- then as append_one does. A plan that was made while there were few schedules must not scan them
-- when there are many.
CREATE OR REPLACE FUNCTION holdfast.change_fire(
    p_namespace_id integer, p_by_hand boolean, p_node text, p_now timestamptz, p_kept integer,
    p_schedules uuid[], p_generations bigint[], p_waited timestamptz[], p_nexts timestamptz[],
    p_skipped_first timestamptz[], p_skipped_last timestamptz[], p_firings integer[],
    p_planned timestamptz[], p_ids uuid[], p_types text[], p_payloads json[], p_keys text[],
    p_tenants text[], p_metadata json[], p_producers text[], p_schedule_ids text[],
    p_emitted_at timestamptz[], p_hashes bigint[],
    OUT status integer, OUT message text, OUT ours boolean[], OUT positions bigint[],
    OUT duplicates boolean[],
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_caller    oid;
    v_namespace namespaces;
    v_done      record;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id,
                      'change schedules and delayed events of', 'publisher', 'owner');
    IF v_caller IS NOT NULL THEN
        PERFORM events_check(p_namespace_id, p_ids, p_types, p_payloads, p_keys, p_tenants,
                             p_metadata, p_producers, p_emitted_at, NULL, p_hashes);
        PERFORM times_check(v_caller, 'a time of a firing', VARIADIC
                            p_nexts || p_planned || p_skipped_first || p_skipped_last);
        PERFORM clock_check(v_caller, p_now);
        PERFORM text_check(v_caller, 'node', p_node, 512);
        PERFORM text_check(v_caller, 'schedule_id', i, 64) FROM unnest(p_schedule_ids) i;
    END IF;
    v_namespace := namespace_of(p_namespace_id);
    ours := fire_take(p_namespace_id, p_by_hand, p_schedules, p_generations, p_waited, p_nexts);
    v_done := fire_append(v_namespace, ours, p_firings, p_ids, p_types, p_payloads, p_keys,
                          p_tenants, p_metadata, p_producers, p_schedule_ids, p_emitted_at,
                          p_hashes);
    positions := v_done.positions;
    duplicates := v_done.duplicates;
    INSERT INTO schedule_runs (schedule_id, planned_at, until_at, fired_at, kind, node)
        SELECT s.id, s.first, s.last, p_now, HF_RUN_SKIPPED, p_node
        FROM unnest(p_schedules, p_skipped_first, p_skipped_last, ours) s (id, first, last, ours)
        WHERE s.ours AND s.first IS NOT NULL
        ON CONFLICT (schedule_id, planned_at) DO NOTHING;
    INSERT INTO schedule_runs (schedule_id, planned_at, fired_at, position, kind, node)
        SELECT p_schedules[e.firing], e.planned, p_now, e.position,
               CASE WHEN p_by_hand THEN HF_RUN_BY_HAND ELSE HF_RUN_FIRED END,
               p_node
        FROM unnest(p_firings, p_planned, positions) e (firing, planned, position)
        WHERE ours[e.firing]
        ON CONFLICT (schedule_id, planned_at) DO NOTHING;
    -- Looking for a ledger's oldest rows takes longer than the rest. Of many schedules a few have
    -- their turn, whichever they are: a ledger is somewhat longer for a while.
    DELETE FROM schedule_runs r
        USING (SELECT s.id, (SELECT o.planned_at FROM schedule_runs o WHERE o.schedule_id = s.id
                             ORDER BY o.planned_at DESC OFFSET p_kept LIMIT 1) AS upto
               FROM unnest(p_schedules, ours) s (id, ours)
               WHERE s.ours AND random() * cardinality(p_schedules) < 4) old
        WHERE r.schedule_id = old.id AND r.planned_at <= old.upto;
END
$$;

-- ---- Delayed events -----------------------------------------------------------------------------

-- delay_keep: keeps one event until p_due. false: its id waits already.
CREATE OR REPLACE FUNCTION holdfast_private.delay_keep(
    p_namespace_id integer, p_due timestamptz, p_id uuid, p_type text, p_payload json, p_key text,
    p_tenant text, p_metadata json, p_producer text, p_emitted_at timestamptz, p_hash bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO delayed (namespace_id, id, due_at, type, payload, key, tenant, metadata, producer,
                         emitted_at, hash, checksum)
        VALUES (p_namespace_id, p_id, p_due, p_type, p_payload, p_key, p_tenant, p_metadata,
                p_producer, p_emitted_at, p_hash,
                checksum_of(content_of(p_id, p_emitted_at, p_type, p_key, p_tenant, p_metadata,
                                       p_producer, NULL, p_payload), p_hash, 0, NULL, NULL))
        ON CONFLICT (namespace_id, id) DO NOTHING;
    RETURN FOUND;
END
$$;

-- delay_find: where an event is that must not be kept: its id is in the log or waits, or its unique
-- key is taken (first). duplicate false: it may be, and has the key now.
CREATE OR REPLACE FUNCTION holdfast_private.delay_find(
    p_namespace_id integer, p_id uuid, p_unique text, p_replace boolean, OUT "position" bigint,
    OUT duplicate boolean, OUT first uuid, OUT replaced boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_taken record;
BEGIN
    replaced := false;
    "position" := (find_id(p_namespace_id, p_id))."position";
    duplicate := "position" IS NOT NULL;
    IF duplicate THEN
        PERFORM commit_what_is_seen();
        RETURN;
    END IF;
    "position" := 0;
    IF p_unique IS NOT NULL THEN
        duplicate := EXISTS (SELECT FROM delayed d
                             WHERE d.namespace_id = p_namespace_id AND d.id = p_id);
        IF NOT duplicate THEN
            v_taken := unique_take(p_namespace_id, p_unique, p_id, p_replace);
            duplicate := NOT v_taken.taken;
            first := v_taken.first;
            replaced := v_taken.replaced;
            "position" := coalesce(v_taken."position", 0);
        END IF;
    END IF;
END
$$;

-- change_delay: `struct delay`. Arrays of one length. An id that is in the log answers its
-- position, one that waits already 0. p_uniques, p_unique_us, firsts: as append; p_replace: see
-- unique_take.
CREATE OR REPLACE FUNCTION holdfast.change_delay(
    p_namespace_id integer, p_due timestamptz, p_ids uuid[], p_types text[], p_payloads json[],
    p_keys text[], p_tenants text[], p_metadata json[], p_producers text[],
    p_emitted_at timestamptz[], p_hashes bigint[], p_uniques text[] DEFAULT NULL,
    p_unique_us bigint[] DEFAULT NULL, p_replace boolean DEFAULT false,
    OUT status integer, OUT message text, OUT positions bigint[], OUT duplicates boolean[],
    OUT firsts uuid[], OUT replaced boolean[],
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_caller oid;
    v_count integer := cardinality(p_ids);
    v_found record;
BEGIN
    status := HF_OK;
    v_caller := admit(p_ticket, p_namespace_id,
                      'change schedules and delayed events of', 'publisher', 'owner');
    IF v_caller IS NOT NULL THEN
        PERFORM events_check(p_namespace_id, p_ids, p_types, p_payloads, p_keys, p_tenants,
                             p_metadata, p_producers, p_emitted_at, NULL, p_hashes);
        PERFORM times_check(v_caller, 'the time that it waits for', p_due);
        PERFORM uniques_check(v_count, p_uniques, p_unique_us);
    END IF;
    PERFORM namespace_hold(p_namespace_id);
    positions := array_fill(0::bigint, ARRAY[v_count]);
    duplicates := array_fill(false, ARRAY[v_count]);
    firsts := array_fill(NULL::uuid, ARRAY[v_count]);
    replaced := array_fill(false, ARRAY[v_count]);
    FOR i IN 1 .. v_count LOOP
        v_found := delay_find(p_namespace_id, p_ids[i], p_uniques[i], p_replace);
        positions[i] := v_found."position";
        firsts[i] := v_found.first;
        replaced[i] := v_found.replaced;
        duplicates[i] := v_found.duplicate
            OR NOT delay_keep(p_namespace_id, p_due, p_ids[i], p_types[i], p_payloads[i], p_keys[i],
                              p_tenants[i], p_metadata[i], p_producers[i], p_emitted_at[i],
                              p_hashes[i]);
        IF p_uniques[i] IS NOT NULL AND NOT duplicates[i] THEN
            PERFORM unique_keep(p_namespace_id, p_uniques[i], NULL, p_unique_us[i], p_due);
        ELSIF p_uniques[i] IS NOT NULL AND NOT v_found.duplicate THEN
            -- Another transaction keeps the same id with another key: nothing of it may stay.
            RAISE EXCEPTION 'the event % is being published by another transaction', p_ids[i]
                USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
END
$$;

-- change_release: `struct release`. One transaction at a time moves events of a namespace, or two
-- could commit in the wrong order; the second one moves nothing and is answered that nothing is
-- left to do now. The checksum goes along, so an event that was damaged while it waited is one that
-- is damaged in the log.
-- A row that another transaction cancels or moves just now (later.sql) is passed over; while a row
-- is locked here, those wait.
CREATE OR REPLACE FUNCTION holdfast.change_release(p_namespace_id integer, p_max integer,
                                                   p_bytes_max bigint, p_now timestamptz,
                                                   OUT status integer, OUT message text,
                                                   OUT count bigint, OUT next_at timestamptz,
                                                   p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_row       record;
    v_bytes     bigint := 0;
BEGIN
    status := HF_OK;
    PERFORM clock_check(admit(p_ticket, p_namespace_id,
                              'change schedules and delayed events of', 'publisher', 'owner'),
                        p_now);
    v_namespace := namespace_of(p_namespace_id);
    count := 0;
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = 1
        FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        FOR v_row IN
            SELECT * FROM delayed d WHERE d.namespace_id = p_namespace_id AND d.due_at <= p_now
            ORDER BY d.due_at, d.number LIMIT p_max FOR UPDATE SKIP LOCKED
        LOOP
            EXIT WHEN v_bytes >= p_bytes_max;
            PERFORM append_one(v_namespace, v_row.id, v_row.type, v_row.payload, v_row.key,
                               v_row.tenant, v_row.metadata, v_row.producer, NULL,
                               v_row.emitted_at, NULL, v_row.hash, v_row.checksum # v_row.hash);
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
