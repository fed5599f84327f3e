-- Unique keys of events: of those with the same key only the first within its time is stored.
--
-- The row of a key is what its publishers meet at. Of two that come at the same moment the second
-- waits for the end of the first one's transaction, and finds the row, or, if that was rolled back,
-- takes the key itself. A publish that finds the key taken locks nothing.
--
-- An event for later has no position when it is stored. Where it is now is looked up when the key
-- is asked for: it waits, it is in the log, or it was cancelled and the key is free. So what
-- brings, cancels or moves events (timers.sql, later.sql) knows nothing of keys, and locks no row
-- of uniques: a session that holds one may wait for a row of delayed, and never the other way
-- round.

-- unique_us: a time in microseconds. A time out of all bounds is one that unique_fault refuses.
CREATE OR REPLACE FUNCTION holdfast_private.unique_us(p_for interval) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN $1 IS NOT NULL
                THEN least(greatest(extract(epoch FROM $1) * 1000000, 0), 1e18)::bigint END;

-- unique_fault: what is wrong with a unique key and its time; NULL: nothing. p_us: microseconds.
CREATE OR REPLACE FUNCTION holdfast_private.unique_fault(p_key text, p_us bigint, p_later boolean)
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN p_key IS NULL AND p_us IS NOT NULL THEN 'unique_for is given but unique_key is NULL'
        WHEN octet_length(p_key) NOT BETWEEN 1 AND HF_UNIQUE_BYTES_MAX
            THEN format('unique_key is %s bytes; it has 1 to HF_UNIQUE_BYTES_MAX',
                        octet_length(p_key))
        WHEN p_key IS NOT NULL AND p_us IS NULL AND NOT p_later
            THEN 'unique_for is missing: it says how long no other event with this unique key is '
                 'stored'
        WHEN p_us < 1000 OR p_us > 31622400000000
            THEN 'unique_for must be 1 millisecond to 366 days' END;
END
$$;

-- uniques_check: what a role gives to append and change_delay. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.uniques_check(p_count integer, p_keys text[],
                                                          p_us bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_count <> coalesce(cardinality(p_keys), p_count)
       OR p_count <> coalesce(cardinality(p_us), p_count) THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    PERFORM lists_check(array_dims(p_keys), array_dims(p_us));
    PERFORM fault_check(format('event %s: %s', i - 1,
                               unique_fault(p_keys[i], nullif(p_us[i], 0), true)))
        FROM generate_series(1, p_count) i
        WHERE p_keys[i] IS NOT NULL
            AND unique_fault(p_keys[i], nullif(p_us[i], 0), true) IS NOT NULL;
END
$$;

-- unique_holder: the event that has the key. has: it still does; waits: for its time; position:
-- where it is in the log. In this order: what is not in delayed any more is in the log.
CREATE OR REPLACE FUNCTION holdfast_private.unique_holder(p_row holdfast_private.uniques,
                                                          OUT has boolean, OUT waits boolean,
                                                          OUT "position" bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    waits := false;
    "position" := p_row.position;
    IF "position" IS NULL THEN
        waits := EXISTS (SELECT FROM delayed d
                         WHERE d.namespace_id = p_row.namespace_id AND d.id = p_row.id);
        IF NOT waits THEN
            "position" := (find_id(p_row.namespace_id, p_row.id))."position";
        END IF;
    END IF;
    has := waits OR coalesce("position" IS NOT NULL AND p_row.until > clock_timestamp(), false);
END
$$;

-- unique_take: whether the event with this id may be stored: the key is free, and it has it now,
-- to be told by unique_keep what became of it. Else first and position (0: it waits) are those of
-- the event that has the key. p_replace: one that waits goes, and replaced says so; if it is
-- brought at this moment, it is not replaced.
CREATE OR REPLACE FUNCTION holdfast_private.unique_take(
    p_namespace_id integer, p_key text, p_id uuid, p_replace boolean, OUT taken boolean,
    OUT first uuid, OUT "position" bigint, OUT replaced boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_row    uniques;
    v_holder record;
BEGIN
    taken := true;
    replaced := false;
    PERFORM demand_read_committed('a unique key needs');
    LOOP
        SELECT * INTO v_row FROM uniques u
            WHERE u.namespace_id = p_namespace_id AND u.key = p_key;
        IF NOT FOUND THEN
            INSERT INTO uniques (namespace_id, key, id, until, sweep_at)
                VALUES (p_namespace_id, p_key, p_id, 'infinity', 'infinity')
                ON CONFLICT (namespace_id, key) DO NOTHING;
            EXIT WHEN FOUND;
            CONTINUE;
        END IF;
        v_holder := unique_holder(v_row);
        IF NOT v_holder.has OR p_replace AND v_holder.waits THEN
            -- What is to be changed is locked first, and then looked at again.
            SELECT * INTO v_row FROM uniques u
                WHERE u.namespace_id = p_namespace_id AND u.key = p_key FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            v_holder := unique_holder(v_row);
        END IF;
        IF v_holder.has AND NOT (p_replace AND v_holder.waits) THEN
            taken := false;
            first := v_row.id;
            unique_take."position" := CASE WHEN v_holder.waits THEN 0 ELSE v_holder."position" END;
            PERFORM commit_what_is_seen();
            EXIT;
        END IF;
        IF v_holder.has THEN
            DELETE FROM delayed d WHERE d.namespace_id = p_namespace_id AND d.id = v_row.id;
            replaced := FOUND;
            CONTINUE WHEN NOT replaced; -- it was brought or cancelled while we waited
        END IF;
        UPDATE uniques u
            SET id = p_id, position = NULL, until = 'infinity', sweep_at = 'infinity'
            WHERE u.namespace_id = p_namespace_id AND u.key = p_key;
        EXIT;
    END LOOP;
END
$$;

-- uniques_reserve: locks the keys of many events that are free, in one order for all who call it,
-- so that two of them do not wait for each other. A key that has no row gets one that no event
-- has, and that upkeep removes if none takes it.
CREATE OR REPLACE FUNCTION holdfast_private.uniques_reserve(p_namespace_id integer, p_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c_none constant uuid := '00000000-0000-0000-0000-000000000000';
    v_key  text;
    v_row  uniques;
BEGIN
    PERFORM demand_read_committed('a unique key needs');
    FOR v_key IN SELECT DISTINCT k COLLATE "C" FROM unnest(p_keys) k WHERE k IS NOT NULL
                 ORDER BY 1 LOOP
        SELECT * INTO v_row FROM uniques u
            WHERE u.namespace_id = p_namespace_id AND u.key = v_key;
        IF NOT FOUND THEN
            INSERT INTO uniques (namespace_id, key, id, until, sweep_at)
                VALUES (p_namespace_id, v_key, c_none, '-infinity', clock_timestamp())
                ON CONFLICT (namespace_id, key) DO NOTHING;
        ELSIF NOT (unique_holder(v_row)).has THEN
            PERFORM FROM uniques u
                WHERE u.namespace_id = p_namespace_id AND u.key = v_key FOR UPDATE;
        END IF;
    END LOOP;
END
$$;

-- unique_keep: the event that has taken the key is stored, in the log or (position NULL) until
-- p_due; 0 or NULL for p_us: the key counts as long as it waits.
CREATE OR REPLACE FUNCTION holdfast_private.unique_keep(p_namespace_id integer, p_key text,
                                                        p_position bigint, p_us bigint,
                                                        p_due timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + coalesce(p_us, 0) * interval '1 microsecond';
BEGIN
    UPDATE uniques u SET position = p_position, until = v_until,
                         sweep_at = greatest(v_until, p_due)
        WHERE u.namespace_id = p_namespace_id AND u.key = p_key;
END
$$;

-- append_unique: append_one for an event with a unique key. first: the id of the event that has the
-- key already; NULL: none has.
CREATE OR REPLACE FUNCTION holdfast_private.append_unique(
    p_namespace holdfast_private.namespaces, p_unique text, p_us bigint, p_id uuid, p_type text,
    p_payload json, p_key text, p_tenant text, p_metadata json, p_producer text,
    p_emitted_at timestamptz, p_expected_version bigint, p_hash bigint, OUT status integer,
    OUT message text, OUT "position" bigint, OUT key_version bigint, OUT duplicate boolean,
    OUT first uuid)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_done record := append_find(p_namespace.id, p_id);
BEGIN
    IF NOT v_done.duplicate THEN
        SELECT HF_OK AS status, NULL::text AS message, t."position", NULL::bigint AS key_version,
               true AS duplicate, t.taken, t.first
            INTO v_done FROM unique_take(p_namespace.id, p_unique, p_id, false) t;
        append_unique.first := v_done.first;
        IF v_done.taken THEN
            v_done := append_one(p_namespace, p_id, p_type, p_payload, p_key, p_tenant, p_metadata,
                                 p_producer, NULL, p_emitted_at, p_expected_version, p_hash);
            IF v_done.duplicate THEN -- published by another transaction meanwhile
                DELETE FROM uniques u WHERE u.namespace_id = p_namespace.id AND u.key = p_unique;
            ELSE
                PERFORM unique_keep(p_namespace.id, p_unique, v_done."position", p_us, NULL);
            END IF;
        END IF;
    END IF;
    status := v_done.status;
    message := v_done.message;
    append_unique."position" := v_done."position";
    append_unique.key_version := v_done.key_version;
    duplicate := v_done.duplicate;
END
$$;

-- uniques_sweep: deletes keys whose time is over, of p_rows rows; those whose event waits are
-- looked at again when it is due. Whether there may be more. Passes over what others have locked.
CREATE OR REPLACE FUNCTION holdfast_private.uniques_sweep(p_namespace_id integer, p_rows bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_keys text[] := ARRAY(SELECT u.key FROM uniques u
                           WHERE u.namespace_id = p_namespace_id AND u.sweep_at <= v_now
                           ORDER BY u.sweep_at LIMIT p_rows FOR UPDATE SKIP LOCKED);
BEGIN
    UPDATE uniques u SET sweep_at = greatest(d.due_at, v_now + interval '1 minute')
        FROM delayed d
        WHERE u.namespace_id = p_namespace_id AND u.key = ANY (v_keys)
            AND d.namespace_id = p_namespace_id AND d.id = u.id;
    DELETE FROM uniques u
        WHERE u.namespace_id = p_namespace_id AND u.key = ANY (v_keys) AND u.sweep_at <= v_now;
    RETURN cardinality(v_keys) >= p_rows;
END
$$;
