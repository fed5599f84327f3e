-- The log's house: namespaces, their months, the numbers and hashes of events.
--
-- A namespace has a table events_<id>, two sequences and a table per month. Months are made ahead, by
-- every process that opens and once an hour, and on demand, by whoever publishes into one that is
-- missing; so publishing never stops for want of a month, whatever the server's clock does.
--
-- Functions in SQL have bodies that were parsed when they were made, and all others name their
-- search_path: nobody's session decides what a name in them means. Those of one expression are not
-- STRICT: then the planner puts the expression in their place.

-- ---- Gates --------------------------------------------------------------------------------------

-- gate_holder: the session that has locked a gate, in the words of a message. It is not known if the session did
-- so inside of a savepoint, whose id is in no table of locks any more.
CREATE FUNCTION holdfast.gate_holder(p_namespace_id integer, p_gate integer) RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_holder text;
BEGIN
    IF has_table_privilege('pg_catalog.pg_locks', 'SELECT')
       AND has_table_privilege('pg_catalog.pg_stat_activity', 'SELECT') THEN
        SELECT format('process %s of role %s', l.pid, a.usename) INTO v_holder
            FROM gates g JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = g.xmax
                 AND l.mode = 'ExclusiveLock' AND l.granted
            JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate LIMIT 1;
    END IF;
    RETURN coalesce(v_holder, 'another session');
END
$$;

-- gate_wait: locks a gate, to the end of the transaction. NULL: it is locked. If not: which session has it and
-- does what (p_deed), and how long it was waited for: as long as lock_timeout says, or p_wait if that says for ever.
CREATE FUNCTION holdfast.gate_wait(p_namespace_id integer, p_gate integer, p_wait text, p_deed text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
    v_wait   text := coalesce(nullif(v_before, '0'), p_wait);
BEGIN
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate FOR UPDATE SKIP LOCKED;
    IF FOUND OR p_gate IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', v_wait, true);
        PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate FOR UPDATE;
        PERFORM set_config('lock_timeout', v_before, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN format('%s is %s and has not ended its transaction; waited %s for it',
                      gate_holder(p_namespace_id, p_gate), p_deed, v_wait);
    END;
    RETURN NULL;
END
$$;

-- gate_take: locks a gate of the schema, to the end of the transaction. 55P03: another session has it and does
-- not end.
CREATE FUNCTION holdfast.gate_take(p_gate integer, p_deed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_fault text := gate_wait(0, p_gate, '5s', p_deed);
BEGIN
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = v_fault, ERRCODE = 'lock_not_available';
    END IF;
END
$$;

-- ---- Namespaces and months ----------------------------------------------------------------------

-- The name of the table of a month.
CREATE FUNCTION holdfast.month_table(p_namespace_id integer, p_at timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'holdfast.events_' || $1::text || '_' || to_char($2 AT TIME ZONE 'UTC', 'YYYYMM');

-- await_months: nobody else makes a month of this namespace until the caller's transaction ends, and all
-- that were made are there for it to write into.
--
-- The second needs the lock as well. A commit can be seen a moment before other sessions are told of
-- it, and nobody who publishes waits for one who attaches a month: meanwhile a session finds the table and
-- the row in namespaces, but its own idea of the log is older, and the log takes nothing ("no partition
-- of relation", 23514). Locks are given back after everybody has been told. To hear it, a session has to
-- open a table on which its transaction has no such lock yet, as the size of one does. The lock is the one
-- that ATTACH takes on the log: no publisher and no reader minds it. HF003.
CREATE FUNCTION holdfast.await_months(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE format('LOCK TABLE holdfast.%I IN SHARE UPDATE EXCLUSIVE MODE', 'events_' || p_namespace_id);
    PERFORM pg_relation_size('holdfast.namespace_ids');
EXCEPTION WHEN undefined_table THEN
    RAISE EXCEPTION 'there is no namespace with id %', p_namespace_id USING ERRCODE = 'HF003';
END
$$;

-- make_month: makes the month of p_at of a namespace's log, if it is not there. True: it was made
-- now. HF003: there is no such namespace.
--
-- A new table gets its indexes and is attached: ATTACH disturbs no publisher (CREATE ... PARTITION OF
-- would wait for every open transaction). Callers that come at the same moment wait for the first
-- one's transaction (await_months), then find the month.
-- If the caller's transaction rolls back, the month is gone and the next publisher makes it again.
CREATE FUNCTION holdfast.make_month(p_namespace_id integer, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
    SET datestyle = 'ISO, YMD' SET timezone = 'UTC'
AS $$
DECLARE
    v_table text := month_table(p_namespace_id, p_at);
    v_name  text := substr(v_table, 10);
    v_from  timestamptz := date_trunc('month', p_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    v_to    timestamptz := (date_trunc('month', p_at AT TIME ZONE 'UTC') + interval '1 month')
                           AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(v_table) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM await_months(p_namespace_id);
    IF to_regclass(v_table) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF to_regclass('holdfast.events_' || p_namespace_id) IS NULL THEN
        RAISE EXCEPTION 'there is no namespace with id %', p_namespace_id USING ERRCODE = 'HF003';
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (LIKE holdfast.events INCLUDING ALL)', 'holdfast', v_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON holdfast.%I (id, guard_at)', v_name || '_id', v_name);
    EXECUTE format('CREATE INDEX %I ON holdfast.%I (position)', v_name || '_position', v_name);
    EXECUTE format('ALTER TABLE holdfast.%I ATTACH PARTITION holdfast.%I FOR VALUES FROM (%L) TO (%L)',
                   'events_' || p_namespace_id, v_name, v_from, v_to);
    UPDATE namespaces n
        SET months_from = CASE WHEN v_to = n.months_from OR v_from > n.months_to THEN v_from
                               ELSE n.months_from END,
            months_to = greatest(n.months_to, v_to)
        WHERE n.id = p_namespace_id AND (v_to = n.months_from OR v_from >= n.months_to);
    RETURN true;
END
$$;

-- ensure_month: the same for whoever publishes and may need it. It makes the months that publishing needs
-- and no others: those of a day ago, of now and of in a day (guard_at, 0003_append.sql), and the next one,
-- which is made ahead. HF001: p_at is in another month. HF003: there is no such namespace.
CREATE FUNCTION holdfast.ensure_month(p_namespace_id integer, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF to_regclass(month_table(p_namespace_id, p_at)) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF p_at IS NULL
       OR p_at AT TIME ZONE 'UTC' < date_trunc('month', (v_now - interval '1 day') AT TIME ZONE 'UTC')
       OR p_at AT TIME ZONE 'UTC' >= date_trunc('month', v_now AT TIME ZONE 'UTC') + interval '2 months'
    THEN
        RAISE EXCEPTION 'month of % is not made: publishing needs this month, the next, and for a day '
                        'the last one', p_at USING ERRCODE = 'HF001';
    END IF;
    RETURN make_month(p_namespace_id, p_at);
END
$$;

-- ensure_months: makes this month and the next of every namespace, or of one, but of none that is being
-- removed. Answers how many were made. For every process that opens, once an hour, and at will.
CREATE FUNCTION holdfast.ensure_months(p_namespace_id integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_id   integer;
    v_made integer := 0;
    v_now  timestamptz := clock_timestamp();
    v_next timestamptz := (date_trunc('month', v_now AT TIME ZONE 'UTC') + interval '1 month')
                          AT TIME ZONE 'UTC';
BEGIN
    FOR v_id IN SELECT id FROM namespaces
                WHERE (id = p_namespace_id OR p_namespace_id IS NULL) AND removing_at IS NULL
                ORDER BY id LOOP
        v_made := v_made + ensure_month(v_id, v_now)::integer + ensure_month(v_id, v_next)::integer;
    END LOOP;
    RETURN v_made;
END
$$;

-- try_months: ensure_months for whoever must not wait for others' transactions, one of which may have
-- made the month and be open. NULL: it would have to. For every part of the namespace.
CREATE FUNCTION holdfast.try_months(p_namespace_id integer,
                                    p_ticket bytea DEFAULT holdfast.ticket()) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
    SET lock_timeout = '200ms'
AS $$
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'make months of', 'viewer', 'publisher', 'consumer', 'owner');
    RETURN ensure_months(p_namespace_id);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;

-- A control character of a text, as the sentence that refuses it. p_before: what comes before it.
CREATE FUNCTION holdfast.control_fault(p_text text, p_what text, p_before text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN format('%s has the control character U+%s at byte %s', $2,
                  lpad(upper(to_hex(ascii(substr($1, length($3) + 1)))), 4, '0'), octet_length($3));

-- Why a name of a namespace or subscription is refused; NULL if it is good. The rules, and the words,
-- are those of glob_check_name: 1 to p_bytes_max bytes, no control characters, no white space at either
-- end.
CREATE FUNCTION holdfast.name_fault(p_name text, p_what text, p_bytes_max integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN $1 IS NULL THEN $2 || ' is missing'
        WHEN $1 = '' THEN $2 || ' is empty'
        WHEN octet_length($1) > $3 THEN
            format('%s is %s bytes; the limit is %s', $2, octet_length($1), $3)
        WHEN $1 COLLATE "C" ~ '^[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' THEN
            $2 || ' begins with white space'
        WHEN $1 COLLATE "C" ~ '[\u0001-\u001f\u007f-\u009f]' THEN
            holdfast.control_fault($1, $2,
                                   substring($1 COLLATE "C", '^[^\u0001-\u001f\u007f-\u009f]*'))
        WHEN $1 COLLATE "C" ~ '[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$' THEN
            $2 || ' ends with white space'
    END;

-- namespace_find: the namespace of this name, for whoever is going to use it. HF003 if there is none, or
-- it is being removed; HF011 if it is a copy that is not complete (0022_copying.sql).
CREATE FUNCTION holdfast.namespace_find(p_name text) RETURNS holdfast.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
BEGIN
    SELECT * INTO v_namespace FROM namespaces n WHERE n.name = p_name AND n.removing_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no namespace %', left(p_name, 255) USING ERRCODE = 'HF003';
    ELSIF v_namespace.copying IS NOT NULL THEN
        RAISE EXCEPTION 'namespace % is a copy that is not complete', p_name USING ERRCODE = 'HF011';
    END IF;
    RETURN v_namespace;
END
$$;

-- namespace_of: the namespace with this id, for whoever has it open. HF003 if it is gone.
CREATE FUNCTION holdfast.namespace_of(p_id integer) RETURNS holdfast.namespaces
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
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
-- append_<id> and claim_<id>.
-- status 0; HF_INVALID (1) for a bad name; HF_NOTFOUND (3) if p_create is false and it does not
-- exist; HF_CONFLICT (4) if it exists and p_gapless (not NULL) is different. Locks: the gate of those
-- who make one, to the end of the transaction (55P03). If the client dies, nothing is left.
CREATE FUNCTION holdfast.namespace_put(p_name text, p_gapless boolean DEFAULT NULL,
                                       p_create boolean DEFAULT true,
                                       OUT status integer, OUT message text, OUT id integer,
                                       OUT gapless boolean, OUT created boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    status := 0;
    created := false;
    SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
        FROM namespaces n WHERE n.name = p_name;
    IF NOT FOUND THEN
        message := name_fault(p_name, 'namespace name', 128);
        IF message IS NOT NULL THEN
            status := 1;
            RETURN;
        END IF;
        IF NOT p_create THEN
            status := 3;
            message := format('there is no namespace %s', left(p_name, 255));
            RETURN;
        END IF;
        PERFORM gate_take(0, 'making a namespace');
        SELECT n.id, n.gapless INTO namespace_put.id, namespace_put.gapless
            FROM namespaces n WHERE n.name = p_name;
        created := NOT FOUND;
    END IF;
    IF created THEN
        namespace_put.id := nextval('holdfast.namespace_ids');
        namespace_put.gapless := coalesce(p_gapless, false);
        EXECUTE format('CREATE SEQUENCE holdfast.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_position');
        EXECUTE format('CREATE SEQUENCE holdfast.%I AS bigint CACHE 1',
                       'events_' || namespace_put.id || '_sleep');
        EXECUTE format('CREATE TABLE holdfast.%I (LIKE holdfast.events INCLUDING ALL) '
                       'PARTITION BY RANGE (guard_at)', 'events_' || namespace_put.id);
        EXECUTE format('ALTER TABLE holdfast.events ATTACH PARTITION holdfast.%I FOR VALUES IN (%s)',
                       'events_' || namespace_put.id, namespace_put.id);
        INSERT INTO namespaces (id, name, gapless, sequence, sleep, created_at)
            VALUES (namespace_put.id, p_name, namespace_put.gapless,
                    ('holdfast.events_' || namespace_put.id || '_position')::regclass,
                    ('holdfast.events_' || namespace_put.id || '_sleep')::regclass,
                    clock_timestamp());
        IF namespace_put.gapless THEN
            INSERT INTO heads (namespace_id, head) VALUES (namespace_put.id, 0);
        END IF;
        INSERT INTO gates (namespace_id, gate) SELECT namespace_put.id, g FROM generate_series(0, 65) g;
        PERFORM ensure_months(namespace_put.id);
        PERFORM append_make(namespace_put.id);
        PERFORM claim_make(namespace_put.id);
    ELSIF p_gapless <> namespace_put.gapless THEN
        status := 4;
        message := format('namespace %s is %sgapless, which cannot be changed', p_name,
                          CASE WHEN namespace_put.gapless THEN '' ELSE 'not ' END);
    END IF;
END
$$;

-- head: the newest position ever given in a namespace; 0 if none. After a crash of the server it may
-- be up to 32 more. It reads the sequence like a table: that takes no lock that a publisher takes, so
-- nobody is mistaken for one.
CREATE FUNCTION holdfast.head(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_head bigint;
BEGIN
    SELECT h.head INTO v_head FROM heads h WHERE h.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        EXECUTE 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END '
                'FROM holdfast.events_' || p_namespace_id || '_position' INTO v_head;
    END IF;
    RETURN v_head;
END
$$;

-- ---- Hashes -------------------------------------------------------------------------------------

-- hash_partition of C: the first 8 bytes of MD5 without the sign.
CREATE FUNCTION holdfast.hash_of(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('x' || substr(md5($1), 1, 16))::bit(64)::bigint & 9223372036854775807;

-- hash_content of C: 64 bits of MD5 over what the publisher gave. src/base/hash.h has the exact bytes.
CREATE FUNCTION holdfast.content_of(p_id uuid, p_emitted_at timestamptz, p_type text, p_key text,
                                    p_tenant text, p_metadata json, p_producer text,
                                    p_schedule_id text, p_payload json) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('x' || substr(md5(
        uuid_send($1) || timestamptz_send($2)
        || coalesce(int4send(octet_length($3)) || convert_to($3, 'UTF8'), '\xffffffff')
        || coalesce(int4send(octet_length($4)) || convert_to($4, 'UTF8'), '\xffffffff')
        || coalesce(int4send(octet_length($5)) || convert_to($5, 'UTF8'), '\xffffffff')
        || coalesce(int4send(octet_length($6::text)) || convert_to($6::text, 'UTF8'), '\xffffffff')
        || coalesce(int4send(octet_length($7)) || convert_to($7, 'UTF8'), '\xffffffff')
        || coalesce(int4send(octet_length($8)) || convert_to($8, 'UTF8'), '\xffffffff')
        || convert_to($9::text, 'UTF8')), 1, 16))::bit(64)::bigint;

-- hash_checksum of C: the content, and what the log has added to it. Of an event that is not in the log
-- yet p_position is 0 and p_entered_at NULL.
CREATE FUNCTION holdfast.checksum_of(p_content bigint, p_hash bigint, p_position bigint,
                                     p_entered_at timestamptz, p_key_version bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $1 # $2 # $3 # coalesce((extract(epoch FROM $4) * 1000000)::bigint, 0) # coalesce($5, 0);

-- The product of two 64-bit numbers without what overflows.
CREATE FUNCTION holdfast.hash_times(p_a bigint, p_b numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT (CASE WHEN low >= 9223372036854775808 THEN low - 18446744073709551616 ELSE low END)::bigint
    FROM (SELECT mod((CASE WHEN $1 < 0 THEN $1 + 18446744073709551616::numeric
                           ELSE $1::numeric END) * $2, 18446744073709551616) AS low) product;
END;

-- hash_mix of C.
CREATE FUNCTION holdfast.hash_mix(p_value bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v bigint := p_value;
BEGIN
    v := v # ((v >> 30) & 17179869183);
    v := holdfast.hash_times(v, 13787848793156543929);
    v := v # ((v >> 27) & 137438953471);
    v := holdfast.hash_times(v, 10723151780598845931);
    RETURN v # ((v >> 31) & 8589934591);
END
$$;

-- hash_lane of C: the unit of order of an event.
CREATE FUNCTION holdfast.lane_of(p_tenant text, p_key text, p_id uuid) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_bytes bytea := '';
    v_part  text;
    v_hex   text;
    v_size  integer;
BEGIN
    IF p_tenant IS NULL AND p_key IS NULL THEN
        v_hex := replace(p_id::text, '-', '');
        RETURN holdfast.hash_mix(('x' || substr(v_hex, 1, 16))::bit(64)::bigint
                                 # holdfast.hash_mix(('x' || substr(v_hex, 17, 16))::bit(64)::bigint));
    END IF;
    FOREACH v_part IN ARRAY ARRAY[p_tenant, p_key] LOOP
        IF v_part IS NULL THEN
            v_bytes := v_bytes || decode('00', 'hex');
        ELSE
            v_size := octet_length(v_part);
            v_bytes := v_bytes || decode('01', 'hex')
                || set_byte(set_byte(set_byte(set_byte(decode('0000000000000000', 'hex'), 0, v_size & 255),
                       1, v_size >> 8 & 255), 2, v_size >> 16 & 255), 3, v_size >> 24 & 255)
                || convert_to(v_part, 'UTF8');
        END IF;
    END LOOP;
    RETURN ('x' || substr(md5(v_bytes), 1, 16))::bit(64)::bigint;
END
$$;

-- A new UUID v7 for a time.
CREATE FUNCTION holdfast.new_id(p_at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (lpad(to_hex(floor(date_part('epoch', $1) * 1000)::bigint), 12, '0')
            || '7' || substr(gen_random_uuid()::text, 16))::uuid;

-- The time inside an id, to the millisecond; NULL if it is not version 7.
CREATE FUNCTION holdfast.id_time(p_id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN substr($1::text, 15, 1) = '7' AND substr($1::text, 20, 1) IN ('8', '9', 'a', 'b')
        THEN
        to_timestamp(('x' || substr($1::text, 1, 8) || substr($1::text, 10, 4))::bit(48)::bigint
                     / 1000::double precision) END;
