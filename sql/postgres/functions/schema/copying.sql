-- Copying a bus into this database (src/store/transfer.h).
--
-- The mark of a namespace that is being copied into is "<identity of the source> <run>". Every step
-- locks the namespace's row and compares all of it, so of two runs only the later one writes, and a
-- run that dies leaves a marked namespace that a later run goes on with.

-- The number of the namespace that this run copies into, whose row is locked then; NULL: another
-- run has taken over.
CREATE OR REPLACE FUNCTION holdfast_private.copy_target(p_name text, p_mark text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id integer;
BEGIN
    SELECT n.id INTO v_id FROM namespaces n WHERE n.name = p_name AND n.copying = p_mark FOR UPDATE;
    RETURN v_id;
END
$$;

-- What a statement answers that has written p_put of p_rows rows into what copy_target answered. A
-- row is missing if what it belongs to is.
CREATE OR REPLACE FUNCTION holdfast_private.copy_answer(p_target integer, p_put bigint,
                                                        p_rows integer, p_what text,
                                                        OUT status integer, OUT message text)
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    status := CASE WHEN p_target IS NULL THEN HF_STALE
                   WHEN p_put <> p_rows THEN HF_CORRUPT
                   ELSE HF_OK END;
    message := p_what || ' could not be written';
END
$$;

-- copy_check: TRANSFER_CHECK. HF_INVALID, HF_CONFLICT, HF_BUSY.
CREATE OR REPLACE FUNCTION holdfast_private.copy_check(p_name text, p_source text,
                                                       p_gapless boolean, OUT status integer,
                                                       OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_space namespaces%ROWTYPE;
    v_open  record;
BEGIN
    status := HF_OK;
    SELECT * INTO v_space FROM namespaces n WHERE n.name = p_name;
    IF NOT FOUND THEN
        message := name_fault(p_name, 'namespace name', HF_NAMESPACE_BYTES_MAX);
        status := CASE WHEN message IS NULL THEN HF_OK ELSE HF_INVALID END;
    ELSIF v_space.removing_at IS NOT NULL THEN
        status := HF_BUSY;
        message := format('namespace %s of the target is being removed', p_name);
    ELSIF p_gapless <> v_space.gapless THEN
        status := HF_CONFLICT;
        message := format('namespace %s of the target is %sgapless, which cannot be changed',
                          p_name,
                          CASE WHEN v_space.gapless THEN '' ELSE 'not ' END);
    ELSIF v_space.copying IS NOT NULL THEN
        IF split_part(v_space.copying, ' ', 1) <> p_source THEN
            status := HF_CONFLICT;
            message :=
                format('namespace %s of the target is the unfinished copy of another database',
                       p_name);
        END IF;
    ELSIF head(v_space.id) > 0
          OR EXISTS (SELECT FROM subscriptions s WHERE s.namespace_id = v_space.id)
          OR EXISTS (SELECT FROM keys k WHERE k.namespace_id = v_space.id)
          OR EXISTS (SELECT FROM letters d WHERE d.namespace_id = v_space.id)
          OR EXISTS (SELECT FROM schedules c WHERE c.namespace_id = v_space.id)
          OR EXISTS (SELECT FROM delayed l WHERE l.namespace_id = v_space.id) THEN
        status := HF_CONFLICT;
        message := format('namespace %s of the target is not empty', p_name);
    ELSE
        v_open := nodes_present(v_space.id);
        IF v_open.count > 0 THEN
            status := HF_CONFLICT;
            message := format('namespace %s of the target is open in %s process%s: %s', p_name,
                              v_open.count, CASE WHEN v_open.count = 1 THEN '' ELSE 'es' END,
                              v_open.names);
        END IF;
    END IF;
END
$$;

-- copy_begin: TRANSFER_BEGIN. HF_INVALID, HF_CONFLICT, HF_BUSY. A namespace that is refused
-- was there before: one that this call makes is empty.
CREATE OR REPLACE FUNCTION holdfast_private.copy_begin(
    p_name text, p_source text, p_run text, p_gapless boolean, OUT status integer, OUT message text,
    OUT resumed boolean, OUT copied_to bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_space namespaces%ROWTYPE;
BEGIN
    SELECT p.status, p.message INTO copy_begin.status, copy_begin.message
        FROM namespace_put(p_name, p_gapless, true) p;
    IF copy_begin.status <> HF_OK THEN
        RETURN;
    END IF;
    SELECT * INTO v_space FROM namespaces n WHERE n.name = p_name FOR UPDATE;
    SELECT c.status, c.message INTO copy_begin.status, copy_begin.message
        FROM copy_check(p_name, p_source, p_gapless) c;
    IF copy_begin.status = HF_OK THEN
        resumed := v_space.copying IS NOT NULL;
        copy_begin.copied_to := v_space.copied_to;
        UPDATE namespaces n SET copying = p_source || ' ' || p_run WHERE n.id = v_space.id;
    END IF;
END
$$;

-- copy_clear: TRANSFER_CLEAR, at most about p_rows rows.
CREATE OR REPLACE FUNCTION holdfast_private.copy_clear(p_name text, p_mark text, p_floor bigint,
                                                       p_rows bigint, OUT status integer,
                                                       OUT message text, OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id    integer := copy_target(p_name, p_mark);
    v_left  bigint := p_rows;
    v_count bigint;
    v_table text;
    v_where text;
BEGIN
    status := HF_OK;
    more := true;
    IF v_id IS NULL THEN
        status := HF_STALE;
        message := 'another run of the copy has taken over';
        RETURN;
    END IF;
    DELETE FROM schedule_runs WHERE ctid = ANY (ARRAY(
        SELECT r.ctid FROM schedules s JOIN schedule_runs r ON r.schedule_id = s.id
        WHERE s.namespace_id = v_id LIMIT v_left));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_left := v_left - v_count;
    IF v_left <= 0 THEN
        RETURN;
    END IF;
    FOREACH v_table IN ARRAY ARRAY['events_' || v_id, 'event_ids', 'keys', 'letters', 'dead_kinds',
                                   'schedules', 'delayed', 'uniques'] LOOP
        v_where := CASE WHEN v_table LIKE 'event%' THEN 'namespace_id = $1 AND position > $3'
                        ELSE 'namespace_id = $1 AND $3 IS NOT NULL' END;
        EXECUTE format('DELETE FROM holdfast_private.%I WHERE (tableoid, ctid) IN ('
                       'SELECT tableoid, ctid FROM holdfast_private.%I WHERE %s LIMIT $2)',
                       v_table, v_table, v_where) USING v_id, v_left, p_floor;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_left := v_left - v_count;
        IF v_left <= 0 THEN
            RETURN;
        END IF;
    END LOOP;
    more := namespace_drop_subscriptions(v_id, v_left) <= 0;
END
$$;

-- copy_months: makes the months of these times, whenever they are.
CREATE OR REPLACE FUNCTION holdfast_private.copy_months(p_namespace_id integer, p_at timestamptz[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_month timestamptz;
BEGIN
    FOR v_month IN SELECT DISTINCT date_trunc('month', t AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                   FROM unnest(p_at) t ORDER BY 1 DESC LOOP
        PERFORM make_month(p_namespace_id, v_month);
    END LOOP;
END
$$;

-- copy_events: TRANSFER_PUT of events. p_times: the times inside the ids, NULL where there is none.
-- guard_at is found as for a publish at the moment of entering; ids that need it go into event_ids,
-- and ids_until makes sure that they are looked for there. Arrays are unnested in select lists, row
-- by row: in FROM every row would be stored and read again first.
CREATE OR REPLACE FUNCTION holdfast_private.copy_events(
    p_name text, p_mark text, p_floor bigint, p_positions bigint[], p_ids uuid[], p_types text[],
    p_hashes bigint[], p_emitted timestamptz[], p_entered timestamptz[], p_key_versions bigint[],
    p_schedule_ids text[], p_producers text[], p_keys text[], p_tenants text[], p_metadata json[],
    p_payloads json[], p_checksums bigint[], p_times timestamptz[], OUT status integer,
    OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET jit = off
AS $$
DECLARE
    v_id     integer := copy_target(p_name, p_mark);
    v_guards timestamptz[];
    v_until  timestamptz;
BEGIN
    status := HF_OK;
    IF v_id IS NULL THEN
        status := HF_STALE;
        message := 'another run of the copy has taken over';
        RETURN;
    END IF;
    v_guards := ARRAY(SELECT CASE WHEN abs(extract(epoch FROM e.time - e.entered_at)) < 86400
                                  THEN e.time ELSE e.entered_at END
                      FROM (SELECT unnest(p_entered) AS entered_at, unnest(p_times) AS time) e);
    PERFORM copy_months(v_id, v_guards);
    INSERT INTO events (position, hash, emitted_at, entered_at, guard_at, id, namespace_id, type,
                        key_version, schedule_id, producer, key, tenant, metadata, payload,
                        checksum)
        SELECT unnest(p_positions), unnest(p_hashes), unnest(p_emitted), unnest(p_entered),
               unnest(v_guards), unnest(p_ids), v_id, unnest(p_types), unnest(p_key_versions),
               unnest(p_schedule_ids), unnest(p_producers), unnest(p_keys), unnest(p_tenants),
               unnest(p_metadata), unnest(p_payloads), unnest(p_checksums);
    INSERT INTO event_ids (namespace_id, id, position, guard_at)
        SELECT v_id, e.id, e.position, e.guard_at
        FROM (SELECT unnest(p_ids) AS id, unnest(p_positions) AS position,
                     unnest(p_entered) AS entered_at, unnest(v_guards) AS guard_at,
                     unnest(p_times) AS time) e
        WHERE (abs(extract(epoch FROM e.time - e.entered_at)) < 82800) IS NOT TRUE;
    SELECT max(e.time) INTO v_until
        FROM (SELECT unnest(p_entered) AS entered_at, unnest(p_times) AS time) e
        WHERE abs(extract(epoch FROM e.time - e.entered_at)) >= 82800;
    UPDATE namespaces n
        SET copied_to = p_floor, ids_until = greatest(n.ids_until, v_until)
        WHERE n.id = v_id;
END
$$;

-- copy_head: the newest position of a namespace that no process uses.
CREATE OR REPLACE FUNCTION holdfast_private.copy_head(p_namespace_id integer, p_head bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    UPDATE heads h SET head = p_head WHERE h.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        PERFORM setval(('holdfast_private.events_' || p_namespace_id || '_position')::regclass,
                       greatest(p_head, 1), p_head > 0);
    END IF;
END
$$;

-- copy_numbers: from now on dead letters, of all namespaces, get higher ids than p_highest. Who
-- inserts one has locked the table before it draws the id, so with a lock on the table none is
-- drawn between the look and the change. But a transaction of any consumer can hold up that lock as
-- long as it likes. Then the numbers go on so far above p_highest that those which are drawn
-- between the look and the change do not get there.
CREATE OR REPLACE FUNCTION holdfast_private.copy_numbers(p_highest bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_distance constant bigint := 1048576;
    v_ids      regclass := pg_get_serial_sequence('holdfast_private.letters', 'id');
BEGIN
    IF p_highest <= coalesce(pg_sequence_last_value(v_ids), 0) THEN
        RETURN;
    END IF;
    BEGIN
        LOCK TABLE letters IN SHARE ROW EXCLUSIVE MODE NOWAIT;
        PERFORM setval(v_ids, greatest(p_highest, pg_sequence_last_value(v_ids)));
    EXCEPTION WHEN lock_not_available THEN
        PERFORM setval(v_ids, greatest(p_highest, pg_sequence_last_value(v_ids)) + c_distance);
    END;
END
$$;

-- mend_sequences: moves every sequence of the schema that is behind its table up to the highest
-- number there, and answers their names. A restore of rows alone leaves sequences behind; then
-- whatever draws a number fails (23505), or, in the log, gives a position that an older event has.
-- Locks the tables of those sequences, and no others, until the transaction ends. For the owner of
-- the schema. 55P03: another session has not ended, and has such a table in use; nothing was
-- changed.
CREATE OR REPLACE FUNCTION holdfast.mend_sequences() RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_row  record;
    v_high bigint;
    v_set  text := current_setting('lock_timeout');
    v_wait text := coalesce(nullif(v_set, '0'), '5s');
BEGIN
    PERFORM set_config('lock_timeout', v_wait, true);
    FOR v_row IN
        SELECT s.name::regclass AS name, s.tables, s.highest
        FROM (VALUES
            (pg_get_serial_sequence('holdfast_private.letters', 'id'), 'letters',
             'SELECT max(id) FROM letters'),
            (pg_get_serial_sequence('holdfast_private.subscriptions', 'id'), 'subscriptions',
             'SELECT max(id) FROM subscriptions'),
            (pg_get_serial_sequence('holdfast_private.members', 'id'), 'members',
             'SELECT max(id) FROM members'),
            (pg_get_serial_sequence('holdfast_private.delayed', 'number'), 'delayed',
             'SELECT max(number) FROM delayed'),
            ('holdfast_private.namespace_ids', 'namespaces', 'SELECT max(id) FROM namespaces'),
            ('holdfast_private.journal_seq', 'checkpoints_0, checkpoints_1',
             'SELECT greatest((SELECT max(seq) FROM checkpoints_0), (SELECT max(seq) FROM '
             'checkpoints_1))'))
            s (name, tables, highest)
        UNION ALL
        SELECT n.sequence, 'events_' || n.id,
               format('SELECT position FROM events_%s ORDER BY position DESC LIMIT 1', n.id)
        FROM namespaces n WHERE NOT n.gapless AND n.removing_at IS NULL
    LOOP
        EXECUTE v_row.highest INTO v_high;
        IF v_high > coalesce(pg_sequence_last_value(v_row.name), 0) THEN
            BEGIN
                EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', v_row.tables);
            EXCEPTION WHEN lock_not_available THEN
                RAISE EXCEPTION '% in use: waited % for %', v_row.tables, v_wait,
                    holders(NULL, string_to_array(v_row.tables, ', ')::regclass[]::oid[],
                            '{AccessShareLock,RowShareLock}')
                    USING ERRCODE = 'lock_not_available',
                          HINT = 'End those transactions, or sessions, and call '
                                 'mend_sequences again.';
            END;
            EXECUTE v_row.highest INTO v_high;
            PERFORM setval(v_row.name, greatest(v_high, pg_sequence_last_value(v_row.name)));
            RETURN NEXT 'holdfast_private.' || v_row.name::text;
        END IF;
    END LOOP;
    PERFORM set_config('lock_timeout', v_set, true);
END
$$;

-- copy_end: TRANSFER_END.
CREATE OR REPLACE FUNCTION holdfast_private.copy_end(p_name text, p_mark text, OUT status integer,
                                                     OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    status := HF_OK;
    UPDATE namespaces n SET copying = NULL, copied_to = 0
        WHERE n.copying = p_mark AND (n.name = p_name OR p_name IS NULL);
    IF NOT FOUND THEN
        status := HF_STALE;
        message := 'another run of the copy has taken over';
    END IF;
END
$$;
