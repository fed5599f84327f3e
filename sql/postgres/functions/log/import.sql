-- Importing: an events table that an application already has moves into the log, with positions in
-- a stated order.
--
-- The order is stated by the caller and must tell all rows apart: numbers given in the order in
-- which rows happen to lie in the table would be anything. All of an import is one statement: it
-- happens or it does not, and if the client dies it has not. The table is locked against writers
-- until the transaction ends, so what is imported is all that there is. An application is moved
-- over in one transaction: import, then take away the right to write to the old table, then commit.
--
-- Running it again imports what was added since, provided that it comes after what is there. An
-- imported event enters the log now (a month that retention drops must not swallow it) and keeps
-- its id, which guards it like every other id (append.sql), and emitted_at as it is in the table.

-- The columns of a table that stand for the members of an event, as expressions. HF001: a member
-- that events do not have, a column that the table does not have, or no id or type.
CREATE OR REPLACE FUNCTION holdfast_private.import_columns(p_source regclass, p_columns json)
    RETURNS TABLE (member text, expression text)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_fault text;
BEGIN
    IF json_typeof(p_columns) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'columns is not a JSON object of members and columns'
            USING ERRCODE = 'HF001';
    END IF;
    SELECT CASE WHEN k.key IS NULL
                THEN format('columns says nothing of %s, which every event needs', f.name)
                WHEN f.name IS NULL THEN format('columns has the unknown member %s', k.key)
                ELSE format('columns: %s has no column %s', p_source, k.value) END
        INTO v_fault
        FROM json_each_text(p_columns) k
        FULL JOIN (VALUES ('id'), ('type'), ('payload'), ('key'), ('tenant'), ('metadata'),
                          ('producer'), ('schedule_id'), ('emitted_at'), ('key_version')) f (name)
            ON f.name = k.key
        LEFT JOIN pg_attribute a ON a.attrelid = p_source AND a.attname = k.value AND a.attnum > 0
            AND NOT a.attisdropped
        WHERE CASE WHEN k.key IS NULL THEN f.name IN ('id', 'type')
                   ELSE f.name IS NULL OR a.attname IS NULL END
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING MESSAGE = v_fault, ERRCODE = 'HF001';
    END IF;
    RETURN QUERY
        SELECT f.name, coalesce('s.' || quote_ident(k.value) || '::' || f.type, 'NULL::' || f.type)
        FROM (VALUES ('id', 'text::uuid'), ('type', 'text'), ('payload', 'text::json'),
                     ('key', 'text'), ('tenant', 'text'), ('metadata', 'text::json'),
                     ('producer', 'text'), ('schedule_id', 'text'), ('emitted_at', 'timestamptz'),
                     ('key_version', 'bigint')) f (name, type)
        LEFT JOIN json_each_text(p_columns) k ON k.key = f.name;
END
$$;

-- The stated order as an ORDER BY list and as a row of its values. HF001: it is empty, or it names
-- a column that the table does not have.
CREATE OR REPLACE FUNCTION holdfast_private.import_order(p_source regclass, p_order_by text[],
                                                         OUT list text, OUT place text)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_missing text;
BEGIN
    IF coalesce(cardinality(p_order_by), 0) = 0 THEN
        RAISE EXCEPTION 'order_by names no column: say in which order the rows are to be numbered'
            USING ERRCODE = 'HF001';
    END IF;
    SELECT string_agg('s.' || quote_ident(a.attname)
                      || CASE WHEN o.column = a.attname THEN '' ELSE ' DESC' END, ', '
                      ORDER BY o.i),
           format('ROW(%s)', string_agg('s.' || quote_ident(a.attname), ', ' ORDER BY o.i)),
           min(o.column) FILTER (WHERE a.attname IS NULL)
        INTO list, place, v_missing
        FROM unnest(p_order_by) WITH ORDINALITY o ("column", i)
        LEFT JOIN pg_attribute a ON a.attrelid = p_source AND a.attnum > 0 AND NOT a.attisdropped
            AND (a.attname = o.column OR o.column = a.attname || ' desc');
    IF v_missing IS NOT NULL OR array_position(p_order_by, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'order_by: % has no column %', p_source, coalesce(v_missing, 'NULL')
            USING ERRCODE = 'HF001', HINT = 'an entry is a column, or a column and " desc"';
    END IF;
END
$$;

-- import_check: whether every row is an event with a place and an id of its own. p_rows: a query.
-- HF001.
CREATE OR REPLACE FUNCTION holdfast_private.import_check(p_source regclass, p_namespace_id integer,
                                                         p_rows text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_bad record;
BEGIN
    EXECUTE format(
        'SELECT r.n, r.twin, r.unplaced, r.id, r.fault
         FROM (SELECT t.n, t.twin AND t.n > 1 AS twin, t.unplaced, t.id,
                      holdfast_private.import_fault(%s, t.id, t.type, t.payload, t.key, t.tenant,
                                                    t.metadata, t.producer, t.emitted_at,
                                                    t.key_version) AS fault
               FROM (%s) t) r
         WHERE r.twin OR r.unplaced OR r.fault IS NOT NULL LIMIT 1', p_namespace_id, p_rows)
        INTO v_bad;
    IF v_bad.unplaced OR v_bad.twin THEN
        RAISE EXCEPTION 'order_by does not tell the rows of % apart: row % (id %) %', p_source,
            v_bad.n, v_bad.id, CASE WHEN v_bad.twin THEN 'has the same place as the row before it'
                                    ELSE 'has NULL in it' END
            USING ERRCODE = 'HF001', HINT = 'add a column that is unique, for example the id';
    ELSIF v_bad.n IS NOT NULL THEN
        RAISE EXCEPTION 'row % (id %) of %: %', v_bad.n, v_bad.id, p_source, v_bad.fault
            USING ERRCODE = 'HF001';
    END IF;
    EXECUTE format('SELECT t.id, count(*) AS times FROM (%s) t
                    GROUP BY t.id HAVING count(*) > 1 LIMIT 1', p_rows) INTO v_bad;
    IF v_bad.id IS NOT NULL THEN
        RAISE EXCEPTION 'id % occurs % times in %', v_bad.id, v_bad.times, p_source
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- import_store: the rows that are not known as events: their ids, positions, contents, the versions
-- of their keys, all by one statement.
CREATE OR REPLACE FUNCTION holdfast_private.import_store(
    p_source regclass, p_namespace holdfast_private.namespaces, p_rows text, p_now timestamptz,
    OUT imported bigint, OUT first_position bigint, OUT last_position bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM publishing(p_namespace.id);
    EXECUTE format(
        'WITH fresh AS MATERIALIZED (
             SELECT t.*, %s AS position, clock_timestamp() AS entered_at,
                    holdfast_private.hash_of(coalesce(t.tenant, t.key, t.id::text)) AS hash
             FROM (SELECT k.*, holdfast.id_time(k.id) AS id_at,
                          abs(extract(epoch FROM holdfast.id_time(k.id) - $1)) AS away
                   FROM (%s) k WHERE NOT k.known ORDER BY k.n) t),
         ids AS (
             INSERT INTO holdfast_private.event_ids (namespace_id, id, position, guard_at)
             SELECT %3$s, f.id, f.position,
                    CASE WHEN holdfast_private.id_near(f.away) THEN f.id_at ELSE $1 END
             FROM fresh f WHERE holdfast_private.id_listed(f.away)
             RETURNING 1),
         stored AS (
             INSERT INTO holdfast_private.events_%3$s
                 (position, hash, checksum, emitted_at, entered_at, guard_at, id, namespace_id,
                  type, key_version, schedule_id, producer, key, tenant, metadata, payload)
             SELECT f.position, f.hash,
                    holdfast_private.checksum_of(
                        holdfast_private.content_of(f.id, coalesce(f.emitted_at, $1), f.type, f.key,
                                            f.tenant, f.metadata, f.producer, f.schedule_id,
                                            coalesce(f.payload, ''null'')),
                        f.hash, f.position, f.entered_at, f.key_version),
                    coalesce(f.emitted_at, $1), f.entered_at,
                    CASE WHEN holdfast_private.id_near(f.away) THEN f.id_at ELSE $1 END,
                    f.id, %3$s, f.type, f.key_version, f.schedule_id, f.producer, f.key, f.tenant,
                    f.metadata, coalesce(f.payload, ''null'')
             FROM fresh f
             RETURNING position),
         versions AS (
             INSERT INTO holdfast_private.keys AS k (namespace_id, digest, version, key)
             SELECT %3$s, sha256(convert_to(f.key, ''UTF8'')), max(f.key_version), f.key
             FROM fresh f WHERE f.key_version IS NOT NULL GROUP BY f.key
             ON CONFLICT (namespace_id, digest) DO UPDATE
             SET version = greatest(k.version, excluded.version)),
         ahead AS (
             UPDATE holdfast_private.namespaces n SET ids_until = f.latest
             FROM (SELECT max(id_at) AS latest FROM fresh
                   WHERE id_at > $1 AND holdfast_private.id_listed(away)) f
             WHERE n.id = %3$s AND n.ids_until < f.latest)
         SELECT count(*), min(position), max(position) FROM stored',
        CASE WHEN p_namespace.gapless
             THEN format('(SELECT head FROM holdfast_private.heads WHERE namespace_id = %s) '
                         '+ row_number() OVER (ORDER BY t.n)', p_namespace.id)
             ELSE format('nextval(%L::regclass)', p_namespace.sequence) END,
        p_rows, p_namespace.id)
        INTO imported, first_position, last_position USING p_now;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'an event of % was published with its id meanwhile: import again', p_source
        USING ERRCODE = 'HF004';
END
$$;

-- import_table: the rows of a table (or view) as events of a namespace, with positions in the order
-- of order_by, whose entries are columns, or columns followed by " desc". columns: which column is
-- which member of an event, for example {"id": "event_id", "type": "kind", "payload": "data"}; id
-- and type are needed. key_version sets the versions of keys, so that publishing with
-- expected_version goes on from there.
--
-- imported: how many rows were; skipped: how many were in the log already. HF001: order_by does not
-- tell all rows apart, or has NULLs; a row is no event (the message names it and why); an id occurs
-- twice. HF002: the transaction is not READ COMMITTED. HF003: no such namespace. HF004: a row that
-- is new comes before one that is in the log already. Locks: the table against writers (SHARE), the
-- namespace's sequence or head as every publish does.
CREATE OR REPLACE FUNCTION holdfast.import_table(source regclass, namespace text, order_by text[],
                                                 columns anycompatible, OUT imported bigint,
                                                 OUT skipped bigint, OUT first_position bigint,
                                                 OUT last_position bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET jit = off
AS $$
DECLARE
    v_now       timestamptz := clock_timestamp();
    v_namespace namespaces := namespace_find(import_table.namespace);
    v_columns   json;
    v_order     record;
    v_rows      text;
    v_bad       record;
    v_month     timestamptz;
BEGIN
    PERFORM demand_read_committed('import_table needs');
    PERFORM json_check('columns', columns);
    v_columns := columns;
    IF source IS NULL THEN
        RAISE EXCEPTION 'source is NULL' USING ERRCODE = 'HF001';
    END IF;
    v_order := import_order(source, order_by);
    SELECT format('SELECT row_number() OVER w AS n,
                          lag(%2$s) OVER w IS NOT DISTINCT FROM %2$s AS twin,
                          num_nulls(%5$s) > 0 AS unplaced, %1$s
                   FROM %3$s s WINDOW w AS (ORDER BY %4$s)',
                  string_agg(c.expression || ' AS ' || c.member, ', '), v_order.place, source,
                  v_order.list, substr(v_order.place, 5, length(v_order.place) - 5))
        INTO v_rows FROM import_columns(source, v_columns) c;
    EXECUTE format('LOCK TABLE %s IN SHARE MODE', source);
    PERFORM commit_durably();
    PERFORM import_check(source, v_namespace.id, v_rows);

    -- What is there already is at the beginning.
    v_rows := format(
        'SELECT t.*, known.id IS NOT NULL AS known
         FROM (%s) t LEFT JOIN (
             SELECT i.id FROM holdfast_private.event_ids i WHERE i.namespace_id = %s
             UNION SELECT e.id FROM holdfast_private.events_%2$s e
                   WHERE e.guard_at = holdfast.id_time(e.id)) known
             ON known.id = t.id', v_rows, v_namespace.id);
    EXECUTE format('SELECT min(t.n) FILTER (WHERE NOT t.known) AS first_new,
                           max(t.n) FILTER (WHERE t.known) AS last_known,
                           count(*) FILTER (WHERE t.known) AS known
                    FROM (%s) t', v_rows) INTO v_bad;
    skipped := v_bad.known;
    IF v_bad.first_new < v_bad.last_known THEN
        RAISE EXCEPTION 'row % of % is new but comes before row %, which is in the log already',
            v_bad.first_new, source, v_bad.last_known USING ERRCODE = 'HF004';
    END IF;

    -- guard_at of fresh version 7 ids is the time inside them, up to a day from now.
    FOREACH v_month IN ARRAY ARRAY[v_now, v_now - interval '1 day', v_now + interval '1 day'] LOOP
        PERFORM ensure_month(v_namespace.id, v_month);
    END LOOP;
    IF v_namespace.gapless THEN
        PERFORM 1 FROM heads h WHERE h.namespace_id = v_namespace.id FOR UPDATE;
    END IF;
    SELECT i.imported, i.first_position, i.last_position
        INTO import_table.imported, import_table.first_position, import_table.last_position
        FROM import_store(source, v_namespace, v_rows, v_now) i;
    IF v_namespace.gapless AND imported > 0 THEN
        UPDATE heads h SET head = last_position WHERE h.namespace_id = v_namespace.id;
    END IF;
    PERFORM ring(v_namespace.id, v_namespace.sleep);
END
$$;

-- Why a row is no event; NULL if it is one.
CREATE OR REPLACE FUNCTION holdfast_private.import_fault(
    p_namespace_id integer, p_id uuid, p_type text, p_payload json, p_key text, p_tenant text,
    p_metadata json, p_producer text, p_emitted_at timestamptz, p_key_version bigint)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_id IS NULL THEN
        RETURN 'id is NULL';
    ELSIF p_key_version < 1 THEN
        RETURN format('key_version is %s; versions begin with 1', p_key_version);
    ELSIF p_key_version IS NOT NULL AND p_key IS NULL THEN
        RETURN format('key_version is %s but key is NULL: only a key has a version', p_key_version);
    END IF;
    RETURN event_fault(p_namespace_id, p_type, p_payload, p_key, p_tenant, p_metadata, p_producer,
                       NULL, p_emitted_at);
END
$$;
