-- Appending: checking events, writing them, waking the processes that wait for them.
--
-- SQLSTATEs of the functions that raise (those that people call): HF followed by the three digits
-- of the hf_status of include/holdfast.h.
--
--   HF001  an argument is outside its limits; the message names it and the limit
--   HF002  not allowed in this state
--   HF003  no such namespace, subscription ...
--   HF004  the expected version is not the key's, and the message says which it is; a live node has
--          the id
--   HF005  the lease was lost: another process has the work now
--   HF007  a transaction has published and does not end, so it is not known what "now" is
--   HF011  the namespace is being removed, or the target of a copy that is not complete
--   HF014  the log refuses an event, and has none with its id: a unique index is not ours
--   23514  ("no partition") from publish alone: another transaction was making the month at this
--          moment, or has made it while this one was open. Nothing is stored: try the transaction
--          again. publish_many, and append for C, do that by themselves (await_months, months.sql).
--
-- Idempotence. The log is cut into months so that old events can go, and a unique index of a
-- partitioned table has to contain what it is cut by. If that were the time of entering, an id
-- could be stored once at each moment. So the log has a column for nothing but this, guard_at, and
-- a month's unique index on (id, guard_at) guards an id if all who publish it write the same
-- guard_at: for a version 7 id whose time is less than a day away from the server's clock, that
-- time; for any other id the time of entering.
--   What people mean by time is entered_at, always by the server's clock: seeking, reading from a
-- time, age. guard_at is less than a day away from it, so a month's events have all entered the log
-- a day after the month's end.
--   Ids that are not version 7, and those that are 23 hours or more away, also get a row in
-- event_ids. The two bands overlap by an hour: of two publishes of one id that are judged by clocks
-- less than an hour apart (a transaction would have to stay open that long), both use the one guard
-- or both use the other. Looking for a repeated id asks both.
--   An id that is more than a day in the future when it is first published has a row in event_ids
-- only; when its time has come, it looks like an ordinary one. namespaces.ids_until remembers the
-- latest such time: ordinary ids that are not later ask event_ids too.
--   ON CONFLICT names the index that it means, everywhere but where the log is written through its
-- parent: that has no index, because it would need all columns by which the log is partitioned. A
-- month has one unique index, and an event counts as a duplicate only if find_id finds it.

-- id_near, id_listed: whether guard_at of an id is the time inside it, and whether it gets a row in
-- event_ids. p_away: how many seconds that time is away from the server's clock; NULL: there is
-- none. These are inlined.
CREATE OR REPLACE FUNCTION holdfast_private.id_near(p_away double precision) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce($1 < 24 * 3600, false);

CREATE OR REPLACE FUNCTION holdfast_private.id_listed(p_away double precision) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce($1 >= 23 * 3600, true);

-- find_id: where the event with this id is, however it is guarded; position is NULL if it is not
-- visible. A plan that was made while the list of ids was short must not scan it when it is long.
CREATE OR REPLACE FUNCTION holdfast.find_id(p_namespace_id integer, p_id uuid,
                                            OUT "position" bigint, OUT guard_at timestamptz,
                                            OUT key_version bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_query text := 'SELECT position, guard_at, key_version FROM holdfast.log_'
                    || p_namespace_id || '() WHERE id = $1 AND guard_at = $2';
BEGIN
    EXECUTE v_query INTO find_id."position", find_id.guard_at, find_id.key_version
        USING p_id, id_time(p_id);
    IF find_id."position" IS NULL THEN
        SELECT e.position, e.guard_at INTO find_id."position", find_id.guard_at
            FROM read_event_ids() e WHERE e.namespace_id = p_namespace_id AND e.id = p_id;
        IF FOUND THEN
            EXECUTE v_query INTO find_id."position", find_id.guard_at, find_id.key_version
                USING p_id, find_id.guard_at;
        END IF;
    END IF;
END
$$;

-- append_find: the event that has this id already, as append_one answers it; duplicate false: there
-- is none.
CREATE OR REPLACE FUNCTION holdfast_private.append_find(
    p_namespace_id integer, p_id uuid, OUT status integer, OUT message text, OUT "position" bigint,
    OUT key_version bigint, OUT duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT f.position, f.key_version INTO append_find."position", append_find.key_version
        FROM find_id(p_namespace_id, p_id) f;
    status := HF_OK;
    duplicate := append_find."position" IS NOT NULL;
    IF duplicate THEN
        PERFORM commit_what_is_seen();
    END IF;
END
$$;

-- key_move: changes the version of a key from one to another; 0: the key has no row. False: it has
-- another version, and nothing was changed. Locks the key's row.
CREATE OR REPLACE FUNCTION holdfast_private.key_move(p_namespace_id integer, p_key text,
                                                     p_from bigint, p_to bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_digest bytea := sha256(convert_to(p_key, 'UTF8'));
BEGIN
    IF p_from = 0 THEN
        INSERT INTO keys (namespace_id, digest, version, key)
            VALUES (p_namespace_id, v_digest, p_to, p_key)
            ON CONFLICT (namespace_id, digest) DO NOTHING;
    ELSIF p_to = 0 THEN
        DELETE FROM keys k
            WHERE k.namespace_id = p_namespace_id AND k.digest = v_digest AND k.version = p_from;
    ELSE
        UPDATE keys k SET version = p_to
            WHERE k.namespace_id = p_namespace_id AND k.digest = v_digest AND k.version = p_from;
    END IF;
    RETURN FOUND;
END
$$;

-- key_refusal: why key_move has not raised a version.
CREATE OR REPLACE FUNCTION holdfast_private.key_refusal(p_namespace_id integer, p_key text,
                                                        p_expected bigint)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN format('expected version %s of key %s, which has version %s', p_expected,
                  left(p_key, 128),
                  coalesce((SELECT k.version FROM keys k
                            WHERE k.namespace_id = p_namespace_id
                                AND k.digest = sha256(convert_to(p_key, 'UTF8'))), 0));
END
$$;

-- append_undo: takes back what append_one has written for an event whose id was published by
-- another transaction meanwhile, and finds that one. HF014: there is none.
CREATE OR REPLACE FUNCTION holdfast_private.append_undo(
    p_namespace_id integer, p_id uuid, p_position bigint, p_key text, p_expected_version bigint,
    OUT "position" bigint, OUT key_version bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM event_ids e
        WHERE e.namespace_id = p_namespace_id AND e.id = p_id AND e.position = p_position;
    IF p_expected_version IS NOT NULL THEN
        PERFORM key_move(p_namespace_id, p_key, p_expected_version + 1, p_expected_version);
    END IF;
    SELECT f.position, f.key_version INTO append_undo."position", append_undo.key_version
        FROM append_find(p_namespace_id, p_id) f;
    IF append_undo."position" IS NULL THEN
        RAISE EXCEPTION 'the log refuses the event with id %, which it does not have: a unique '
                        'index of its tables is not Holdfast''s', p_id USING ERRCODE = 'HF014';
    END IF;
END
$$;

-- append_one: one checked event into the log. status 0, or HF_CONFLICT and a message: then nothing
-- was written. A repeated id answers the first one's position and key_version, duplicate = true.
-- p_content: content_of the event when it was published, if that was earlier; NULL: it is computed.
--
-- Locks, all to the end of the transaction: that of publishing (readers know by it that an event
-- may still come), and the row in heads of a gapless namespace; the row in keys of a versioned key.
-- A publish of an id that another open transaction is publishing waits for that transaction. If the
-- client dies, the transaction rolls back: a position may be lost, which readers prove by the lock.
CREATE OR REPLACE FUNCTION holdfast_private.append_one(
    p_namespace holdfast_private.namespaces, p_id uuid, p_type text, p_payload json, p_key text,
    p_tenant text, p_metadata json, p_producer text, p_schedule_id text, p_emitted_at timestamptz,
    p_expected_version bigint, p_hash bigint, p_content bigint DEFAULT NULL, OUT status integer,
    OUT message text, OUT "position" bigint, OUT key_version bigint, OUT duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_time    timestamptz := id_time(p_id);
    v_away    double precision := abs(extract(epoch FROM v_time - v_now));
    v_listed  boolean := id_listed(v_away);
    v_guard   timestamptz := CASE WHEN id_near(v_away) THEN v_time ELSE v_now END;
    v_entered timestamptz;
    v_found   record;
BEGIN
    status := HF_OK;
    duplicate := false;
    IF v_guard < p_namespace.months_from OR v_guard >= p_namespace.months_to THEN
        PERFORM ensure_month(p_namespace.id, v_guard);
    END IF;
    IF p_namespace.gapless THEN
        PERFORM 1 FROM heads h WHERE h.namespace_id = p_namespace.id FOR UPDATE;
    END IF;
    IF v_listed OR p_namespace.gapless OR p_expected_version IS NOT NULL
       OR v_time <= p_namespace.ids_until THEN
        v_found := append_find(p_namespace.id, p_id);
        duplicate := v_found.duplicate;
    END IF;
    IF NOT duplicate AND p_expected_version IS NOT NULL THEN
        IF key_move(p_namespace.id, p_key, p_expected_version, p_expected_version + 1) THEN
            append_one.key_version := p_expected_version + 1;
        ELSE
            -- The transaction that raised the version meanwhile may have published this very event.
            v_found := append_find(p_namespace.id, p_id);
            duplicate := v_found.duplicate;
            IF NOT duplicate THEN
                status := HF_CONFLICT;
                message := key_refusal(p_namespace.id, p_key, p_expected_version);
                RETURN;
            END IF;
        END IF;
    END IF;
    IF duplicate THEN
        append_one."position" := v_found."position";
        append_one.key_version := v_found.key_version;
        RETURN;
    END IF;

    PERFORM publishing(p_namespace.id);
    IF p_namespace.gapless THEN
        UPDATE heads h SET head = h.head + 1 WHERE h.namespace_id = p_namespace.id
            RETURNING h.head INTO append_one."position";
    ELSE
        append_one."position" := nextval(p_namespace.sequence);
    END IF;
    IF v_listed THEN
        INSERT INTO event_ids (namespace_id, id, position, guard_at)
            VALUES (p_namespace.id, p_id, append_one."position", v_guard)
            ON CONFLICT (namespace_id, id) DO NOTHING;
        duplicate := NOT FOUND;
    END IF;
    IF NOT duplicate THEN
        v_entered := clock_timestamp();
        INSERT INTO events (position, hash, checksum, emitted_at, entered_at, guard_at, id,
                            namespace_id, type, key_version, schedule_id, producer, key, tenant,
                            metadata, payload)
            VALUES (append_one."position", p_hash,
                    checksum_of(coalesce(p_content,
                                         content_of(p_id, p_emitted_at, p_type, p_key, p_tenant,
                                                    p_metadata, p_producer, p_schedule_id,
                                                    p_payload)),
                                p_hash, append_one."position", v_entered, append_one.key_version),
                    p_emitted_at, v_entered, v_guard, p_id,
                    p_namespace.id, p_type, append_one.key_version, p_schedule_id, p_producer,
                    p_key, p_tenant, p_metadata, p_payload)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            IF v_time > v_now AND v_listed AND v_time > p_namespace.ids_until THEN
                UPDATE namespaces n SET ids_until = v_time
                    WHERE n.id = p_namespace.id AND n.ids_until < v_time;
            END IF;
            RETURN;
        END IF;
    END IF;
    v_found := append_undo(p_namespace.id, p_id, append_one."position", p_key, p_expected_version);
    duplicate := true;
    append_one."position" := v_found."position";
    append_one.key_version := v_found.key_version;
END
$$;

-- repair_months: after the log has refused an event for want of a month: waits for the transaction
-- that makes it, and makes it if there is none. For ids whose guard_at is the time inside them,
-- their months, too.
CREATE OR REPLACE FUNCTION holdfast_private.repair_months(p_namespace_id integer, p_ids uuid[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_at  timestamptz;
BEGIN
    PERFORM await_months(p_namespace_id);
    FOR v_at IN SELECT v_now
                UNION SELECT date_trunc('month', id_time(u) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                      FROM unnest(p_ids) u
                      WHERE id_near(abs(extract(epoch FROM id_time(u) - v_now))) LOOP
        PERFORM ensure_month(p_namespace_id, v_at);
    END LOOP;
END
$$;

-- append: `struct append`, event by event, for C. Arrays of one length; expected_versions NULL or
-- -1: none. All or none: status HF_CONFLICT leaves nothing behind (it is undone by a savepoint) and
-- failed_index (from 0) says whose fault it is. p_uniques, p_unique_us: unique keys (uniques.sql);
-- firsts: the ids of the events that have those keys already; NULL: there are none. Raises HF003:
-- no such namespace. The quick ways without conflicts are append_<id> and append_listed. If the log
-- has no table for an event, although the namespace's row says that it has, that is put right and
-- everything is tried once more.
CREATE OR REPLACE FUNCTION holdfast.append(p_namespace_id integer, p_ids uuid[], p_types text[],
                                           p_payloads json[], p_keys text[], p_tenants text[],
                                           p_metadata json[], p_producers text[],
                                           p_emitted_at timestamptz[], p_expected_versions bigint[],
                                           p_hashes bigint[], p_uniques text[] DEFAULT NULL,
                                           p_unique_us bigint[] DEFAULT NULL, OUT status integer,
                                           OUT message text, OUT failed_index integer,
                                           OUT positions bigint[], OUT key_versions bigint[],
                                           OUT duplicates boolean[], OUT firsts uuid[],
                                           p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_count     integer := cardinality(p_ids);
    v_done      record;
BEGIN
    IF admit(p_ticket, p_namespace_id, 'publish into', 'publisher', 'owner') IS NOT NULL THEN
        PERFORM events_check(p_namespace_id, p_ids, p_types, p_payloads, p_keys, p_tenants,
                             p_metadata, p_producers, p_emitted_at, NULL, p_hashes);
        PERFORM lists_check(array_dims(p_expected_versions));
        PERFORM uniques_check(v_count, p_uniques, p_unique_us);
        PERFORM fault_check(format('event %s: expected_version is %s of key %s', i - 1,
                                   p_expected_versions[i], p_keys[i]))
            FROM generate_series(1, cardinality(p_expected_versions)) i
            WHERE p_expected_versions[i] NOT BETWEEN -1 AND 9223372036854775806
                OR p_expected_versions[i] >= 0 AND p_keys[i] IS NULL;
    END IF;
    v_namespace := namespace_of(p_namespace_id);
    FOR v_try IN 1 .. 2 LOOP
        status := HF_OK;
        positions := array_fill(0::bigint, ARRAY[v_count]);
        key_versions := array_fill(NULL::bigint, ARRAY[v_count]);
        duplicates := array_fill(false, ARRAY[v_count]);
        firsts := NULL;
        BEGIN
            IF v_count > 1 AND p_uniques IS NOT NULL THEN
                PERFORM uniques_reserve(p_namespace_id, p_uniques);
            END IF;
            FOR i IN 1 .. v_count LOOP
                IF p_uniques[i] IS NULL THEN
                    v_done := append_one(v_namespace, p_ids[i], p_types[i], p_payloads[i],
                                         p_keys[i], p_tenants[i], p_metadata[i], p_producers[i],
                                         NULL, p_emitted_at[i], nullif(p_expected_versions[i], -1),
                                         p_hashes[i]);
                ELSE
                    v_done := append_unique(v_namespace, p_uniques[i], p_unique_us[i], p_ids[i],
                                            p_types[i], p_payloads[i], p_keys[i], p_tenants[i],
                                            p_metadata[i], p_producers[i], p_emitted_at[i],
                                            nullif(p_expected_versions[i], -1), p_hashes[i]);
                    firsts := coalesce(firsts, array_fill(NULL::uuid, ARRAY[v_count]));
                    firsts[i] := v_done.first;
                END IF;
                IF v_done.status <> HF_OK THEN
                    status := v_done.status;
                    message := v_done.message;
                    failed_index := i - 1;
                    RAISE SQLSTATE 'HF004';
                END IF;
                positions[i] := v_done."position";
                key_versions[i] := v_done.key_version;
                duplicates[i] := v_done.duplicate;
            END LOOP;
            RETURN;
        EXCEPTION
            WHEN SQLSTATE 'HF004' THEN
                positions := NULL;
                key_versions := NULL;
                duplicates := NULL;
                RETURN;
            WHEN check_violation THEN
                IF v_try = 2 THEN
                    RAISE;
                END IF;
        END;
        PERFORM repair_months(p_namespace_id, p_ids);
        v_namespace := namespace_of(p_namespace_id);
    END LOOP;
END
$$;

-- contents_of: content_of each event of arrays; those of what is optional may be NULL.
CREATE OR REPLACE FUNCTION holdfast_private.contents_of(
    p_ids uuid[], p_emitted_at timestamptz[], p_types text[], p_keys text[], p_tenants text[],
    p_metadata json[], p_producers text[], p_payloads json[])
    RETURNS bigint[]
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT array_agg(holdfast_private.content_of(u.id, u.emitted_at, u.type, u.key, u.tenant,
                                                 u.metadata, u.producer, NULL, u.payload)
                     ORDER BY u.i)
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY
        u (id, emitted_at, type, key, tenant, metadata, producer, payload, i);
END;

-- append_listed: the plain way for events of which some have an id without a time inside. Such an
-- id is guarded by event_ids, and nowhere else, whenever it is published: so one statement that
-- fails if an id is there already does for all of them. guard_at of those is the time of entering.
-- They are listed in their order, so that two calls with the same ids wait for each other one way
-- only. An id with a time has to be as append_<id> wants it, and C is believed as much as there. A
-- row with its position for each event, in the order of the arrays.
CREATE OR REPLACE FUNCTION holdfast.append_listed(
    p_namespace_id integer, p_ids uuid[], p_types text[], p_payloads json[], p_keys text[],
    p_tenants text[], p_metadata json[], p_producers text[], p_emitted_at timestamptz[],
    p_guard_at timestamptz[], p_hashes bigint[], p_contents bigint[],
    p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now       timestamptz := clock_timestamp();
    v_namespace namespaces;
BEGIN
    IF is_secret(p_ticket) IS NOT TRUE THEN
        PERFORM admit(p_ticket, p_namespace_id, 'publish into', 'publisher', 'owner');
        PERFORM events_check(p_namespace_id, p_ids, p_types, p_payloads, p_keys, p_tenants,
                             p_metadata, p_producers, p_emitted_at, p_guard_at, p_hashes);
        p_contents := contents_of(p_ids, p_emitted_at, p_types, p_keys, p_tenants, p_metadata,
                                  p_producers, p_payloads);
    END IF;
    v_namespace := namespace_of(p_namespace_id);
    PERFORM publishing(p_namespace_id);
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.*, nextval(v_namespace.sequence) AS position, clock_timestamp() AS entered_at
        FROM (SELECT unnest(p_ids) AS id, unnest(p_types) AS type, unnest(p_payloads) AS payload,
                     unnest(p_keys) AS key, unnest(p_tenants) AS tenant,
                     unnest(p_metadata) AS metadata, unnest(p_producers) AS producer,
                     unnest(p_emitted_at) AS emitted_at, unnest(p_guard_at) AS time,
                     unnest(p_hashes) AS hash, unnest(p_contents) AS content) g),
    listed AS (
        INSERT INTO event_ids (namespace_id, id, position, guard_at)
        SELECT p_namespace_id, g.id, g.position, v_now FROM given g WHERE g.time IS NULL
        ORDER BY g.id)
    INSERT INTO events (position, hash, checksum, emitted_at, entered_at, guard_at, id,
                        namespace_id, type, producer, key, tenant, metadata, payload)
    SELECT g.position, g.hash, checksum_of(g.content, g.hash, g.position, g.entered_at, NULL),
           g.emitted_at, g.entered_at,
           CASE WHEN g.time IS NULL THEN v_now
                WHEN g.time > v_now - interval '23 hours' AND g.time < v_now + interval '23 hours'
                 AND g.time > v_namespace.ids_until THEN g.time END,
           g.id, p_namespace_id, g.type, g.producer, g.key, g.tenant, g.metadata, g.payload
    FROM given g
    RETURNING events.position;
END
$$;

-- append_<id>: the plain way for C, of the namespace of that number: many events that nothing but
-- the log's own index has to guard, by one statement. Every namespace has this function for itself,
-- as it has claim_<id> (claims.sql), so that the server keeps the plan. This is its text;
-- {namespace} stands for the number.
--
-- guard_at is the time inside the id. If one is not of that kind by the server's clock it gets no
-- guard_at, and so the statement fails. An array that is NULL stands for as many NULLs as there are
-- events. Of a caller that passes by all policies it is believed that the events are good, because
-- C has checked them, and that p_contents has content_of each; for others it is computed. (Not in
-- the INSERT: what an expression there has is prepared in every call, also if it is not computed.)
--
-- The arrays are unnested in a select list, not in FROM: there every row would be written into a
-- temporary store and read again before the first one is inserted. Rows come in the order of the
-- arrays, one by one: positions are drawn and returned in the order of the events. All of them
-- enter the log at one moment, so what is made of it is computed once: v_time, which checksum_of
-- would add to each checksum by the same #, and the limits of guard_at.
CREATE OR REPLACE FUNCTION holdfast.append_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $append$
CREATE OR REPLACE FUNCTION holdfast.append_{namespace}(
    p_ids uuid[], p_types text[], p_payloads json[], p_keys text[], p_tenants text[],
    p_metadata json[], p_producers text[], p_emitted_at timestamptz[], p_guard_at timestamptz[],
    p_hashes bigint[], p_contents bigint[], p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_entered_at timestamptz := clock_timestamp();
    v_time       bigint := checksum_of(0, 0, 0, v_entered_at, NULL);
    v_from       timestamptz := now() - interval '23 hours';
    v_to         timestamptz := now() + interval '23 hours';
BEGIN
    IF is_secret(p_ticket) IS NOT TRUE THEN
        PERFORM admit(p_ticket, {namespace}, 'publish into', 'publisher', 'owner');
        PERFORM events_check({namespace}, p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata,
                             p_producers, p_emitted_at, p_guard_at, p_hashes);
        p_contents := contents_of(p_ids, p_emitted_at, p_types, p_keys, p_tenants, p_metadata,
                                  p_producers, p_payloads);
        p_ticket := (SELECT s.secret FROM secret s);
    END IF;
    IF NOT publishing_try(p_ticket, {namespace}, 0) THEN
        PERFORM publishing(p_ticket, {namespace});
    END IF;
    RETURN QUERY
    INSERT INTO events_{namespace}
        (position, hash, checksum, emitted_at, entered_at, guard_at, id, namespace_id, type,
         producer, key, tenant, metadata, payload)
    SELECT e.position, e.hash, checksum_of(e.content, e.hash, e.position, NULL, NULL) # v_time,
           e.emitted_at, v_entered_at,
           CASE WHEN e.guard_at > v_from AND e.guard_at < v_to
                 AND e.guard_at > (SELECT n.ids_until FROM namespaces n WHERE n.id = {namespace})
                THEN e.guard_at END,
           e.id, {namespace}, e.type, e.producer, e.key, e.tenant, e.metadata, e.payload
    FROM (SELECT g.*, nextval('holdfast_private.events_{namespace}_position'::regclass) AS position
          FROM (SELECT unnest(p_ids) AS id, unnest(p_types) AS type, unnest(p_payloads) AS payload,
                       unnest(p_keys) AS key, unnest(p_tenants) AS tenant,
                       unnest(p_metadata) AS metadata, unnest(p_producers) AS producer,
                       unnest(p_emitted_at) AS emitted_at, unnest(p_guard_at) AS guard_at,
                       unnest(p_hashes) AS hash, unnest(p_contents) AS content) g) e
    RETURNING events_{namespace}.position;
END
$$;
$append$;

-- Makes append_<id>, or makes it anew. namespace_put does; so must a change of the text above.
CREATE OR REPLACE FUNCTION holdfast_private.append_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE replace(append_source(), '{namespace}', p_namespace_id::text);
    EXECUTE format('REVOKE ALL ON FUNCTION holdfast.%I FROM PUBLIC', 'append_' || p_namespace_id);
END
$$;
