-- Appending: checking events, writing them, waking whoever waits for them.
--
-- SQLSTATEs of the functions that raise (those that people call): HF followed by the three digits of
-- the hf_status of include/holdfast.h.
--
--   HF001  an argument is outside its limits; the message names it and the limit
--   HF002  not allowed in this state
--   HF003  no such namespace, subscription ...
--   HF004  the expected version is not the key's, and the message says which it is; a live node has the id
--   HF005  the lease was lost: somebody else has the work now
--   HF007  somebody has published and does not end, so nobody can say what "now" is
--   HF011  the namespace is being removed, or the target of a copy that is not complete
--   HF014  the log refuses an event, and has none with its id: a unique index is not ours
--   23514  ("no partition") from publish alone: the month was made by somebody else at this moment, or
--          while the transaction was open. Nothing is stored: try the transaction again. publish_many, and
--          append for C, do that by themselves (await_months, 0002_log.sql).
--
-- Idempotence. The log is cut into months so that old events can go, and a unique index of a partitioned
-- table has to contain what it is cut by. If that were the time of entering, an id could be stored once at
-- each moment. So the log has a column for nothing but this, guard_at, and a month's unique index on
-- (id, guard_at) guards an id if all who publish it write the same guard_at: for a version 7 id whose time
-- is less than a day away from the server's clock, that time; for any other id the time of entering.
--   What people mean by time is entered_at, always by the server's clock: seeking, reading from a time,
-- age. guard_at is less than a day away from it, so a month's events have all entered the log a day after
-- the month's end.
--   Ids that are not version 7, and those that are 23 hours or more away,
-- also get a row in event_ids. The two bands overlap by an hour: of two publishes of one id that are
-- judged by clocks less than an hour apart (a transaction would have to stay open that long), both
-- use the one guard or both use the other. Looking for a repeated id asks both.
--   An id that is more than a day in the future when it is first published has a row in event_ids
-- only; when its time has come, it looks like an ordinary one. namespaces.ids_until remembers the
-- latest such time: ordinary ids that are not later ask event_ids too.
--   ON CONFLICT names the index that it means, everywhere but where the log is written through its parent:
-- that has no index, because it would need all columns by which the log is partitioned. A month has one
-- unique index, and an event counts as a duplicate only if find_id finds it.

-- answer_check: raises what a change_... function has answered, if it is not 0.
CREATE FUNCTION holdfast.answer_check(p_status integer, p_message text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_status <> 0 THEN
        RAISE EXCEPTION USING MESSAGE = p_message, ERRCODE = 'HF' || lpad(p_status::text, 3, '0');
    END IF;
END
$$;

-- fault_check: raises what a ..._fault function has found, if it is not NULL. HF001.
CREATE FUNCTION holdfast.fault_check(p_fault text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_fault IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = p_fault, ERRCODE = 'HF001';
    END IF;
END
$$;

-- ---- Checking -----------------------------------------------------------------------------------

-- Whether JSON has \u0000 or half a surrogate pair, which nobody can store as text later.
CREATE FUNCTION holdfast.json_escapes_badly(p_json text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_text text;
BEGIN
    IF strpos(p_json, E'\\u') = 0 THEN
        RETURN false;
    END IF;
    v_text := replace(p_json, E'\\\\', '..');
    RETURN strpos(v_text, E'\\u0000') > 0
        OR regexp_replace(v_text,
               $pair$\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}$pair$, '..', 'g')
           ~ $half$\\u[dD][89a-fA-F]$half$;
END
$$;

-- Whether arrays and objects are nested deeper than 64. Counting the opening brackets settles it for
-- most texts; else strings and all but brackets go, and pairs are taken away level by level from the
-- inside.
CREATE FUNCTION holdfast.json_too_deep(p_json text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_text text := p_json;
BEGIN
    IF octet_length(p_json) - octet_length(replace(replace(p_json, '[', ''), '{', '')) <= 64 THEN
        RETURN false;
    END IF;
    v_text := replace(replace(v_text, E'\\\\', ''), E'\\"', '');
    v_text := regexp_replace(v_text, '"[^"]*"|[^][{}"]+', '', 'g');
    v_text := translate(v_text, '{}', '[]');
    FOR i IN 1 .. 64 LOOP
        v_text := replace(v_text, '[]', '');
        EXIT WHEN v_text = '';
    END LOOP;
    RETURN v_text <> '';
END
$$;

-- Why a type, or a pattern, is refused; NULL if it is good. p_what: 'type' or 'pattern'. The rules, and
-- the words, are those of glob_check_type and glob_check_pattern.
CREATE FUNCTION holdfast.glob_fault(p_text text, p_what text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_before text;
    v_code   integer;
    v_parts  text[];
    v_at     integer := 0; -- where the segment begins, then its first star; in bytes, from 0
    v_star   integer;
BEGIN
    IF p_text = '' OR p_text IS NULL OR octet_length(p_text) > 255 THEN
        RETURN name_fault(p_text, p_what, 255);
    END IF;
    v_before := substring(p_text COLLATE "C", $good$^[^\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$good$);
    v_code := ascii(substr(p_text, length(v_before) + 1));
    IF v_code BETWEEN 1 AND 31 OR v_code BETWEEN 127 AND 159 THEN
        RETURN control_fault(p_text, p_what, v_before);
    ELSIF v_code > 0 THEN
        RETURN format('%s has white space at byte %s', p_what, octet_length(v_before));
    END IF;
    v_parts := string_to_array(p_text, '.');
    FOR i IN 1 .. cardinality(v_parts) LOOP
        v_star := strpos(v_parts[i], '*');
        IF v_parts[i] = '' THEN
            RETURN format('%s has an empty segment at byte %s', p_what, v_at);
        ELSIF v_star > 0 THEN
            v_at := v_at + octet_length(left(v_parts[i], v_star - 1));
            IF p_what = 'type' THEN
                RETURN format('type has ''*'' at byte %s; only patterns may', v_at);
            ELSIF v_parts[i] = '**' AND i < cardinality(v_parts) THEN
                RETURN format('pattern has ''**'' at byte %s; it may only be the last segment', v_at);
            ELSIF v_parts[i] NOT IN ('*', '**') THEN
                RETURN format('pattern has ''*'' inside a segment at byte %s; ''*'' stands for a whole '
                              'segment', v_at);
            END IF;
        END IF;
        v_at := v_at + octet_length(v_parts[i]) + 1;
    END LOOP;
    RETURN NULL;
END
$$;

-- Why a type is refused; NULL if it is good, which one expression tells.
CREATE FUNCTION holdfast.type_fault(p_type text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF octet_length(p_type) <= 255 AND p_type COLLATE "C" ~
       $type$^[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+(\.[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*\Z$type$ THEN
        RETURN NULL;
    ELSIF p_type IS NULL THEN
        RETURN 'type is missing; every event needs one';
    END IF;
    RETURN glob_fault(p_type, 'type');
END
$$;

-- Why metadata is refused; NULL if it is good, or absent.
CREATE FUNCTION holdfast.metadata_fault(p_metadata json, p_bytes_max integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN octet_length($1::text) > $2
            THEN format('metadata is %s bytes; the limit is %s', octet_length($1::text), $2)
        WHEN json_typeof($1) <> 'object' THEN 'metadata is JSON but not an object'
        WHEN holdfast.json_escapes_badly($1::text)
            THEN E'metadata has \\u0000 or an unpaired surrogate, which cannot be stored'
        WHEN holdfast.json_too_deep($1::text)
            THEN 'metadata has arrays and objects nested more than 64 deep' END;

-- Why an event of a namespace is refused; NULL if it is good. The limits are those of include/holdfast.h;
-- that of the payload is the namespace's (limit_payload, 0015_namespaces.sql).
CREATE FUNCTION holdfast.event_fault(p_namespace_id integer, p_type text, p_payload json, p_key text,
                                     p_tenant text, p_metadata json, p_producer text,
                                     p_expected_version bigint, p_emitted_at timestamptz) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_fault text := holdfast.type_fault(p_type);
    v_text  text := p_payload::text;
    v_max   integer;
BEGIN
    IF v_fault IS NOT NULL THEN
        RETURN v_fault;
    END IF;
    IF octet_length(v_text) > 1024 THEN
        v_max := coalesce((SELECT n.payload_bytes_max FROM namespaces n WHERE n.id = p_namespace_id),
                          1048576);
        IF octet_length(v_text) > v_max THEN
            RETURN format('payload is %s bytes; the limit is %s (of the namespace; the owner of the schema '
                          'changes it by holdfast.limit_payload)', octet_length(v_text), v_max);
        END IF;
    END IF;
    IF strpos(v_text, E'\\u') > 0 AND holdfast.json_escapes_badly(v_text) THEN
        RETURN E'payload has \\u0000 or an unpaired surrogate, which cannot be stored';
    END IF;
    IF octet_length(v_text) > 128 AND holdfast.json_too_deep(v_text) THEN
        RETURN 'payload has arrays and objects nested more than 64 deep';
    END IF;
    IF octet_length(p_key) > 65536 THEN
        RETURN format('key is %s bytes; the limit is 65536', octet_length(p_key));
    END IF;
    IF octet_length(p_tenant) > 65536 THEN
        RETURN format('tenant is %s bytes; the limit is 65536', octet_length(p_tenant));
    END IF;
    IF p_metadata IS NOT NULL THEN
        v_fault := metadata_fault(p_metadata, 65536);
        IF v_fault IS NOT NULL THEN
            RETURN v_fault;
        END IF;
    END IF;
    IF octet_length(p_producer) > 255 THEN
        RETURN format('producer is %s bytes; the limit is 255', octet_length(p_producer));
    END IF;
    IF p_expected_version IS NOT NULL THEN
        IF p_expected_version < 0 OR p_expected_version = 9223372036854775807 THEN
            RETURN format('expected_version is %s; it must be NULL (any) or 0 to 9223372036854775806',
                          p_expected_version);
        END IF;
        IF p_key IS NULL THEN
            RETURN format('expected_version is %s but key is NULL: only a key has a version',
                          p_expected_version);
        END IF;
    END IF;
    IF p_emitted_at < '0001-01-01 00:00:00+00' OR p_emitted_at >= '10000-01-01 00:00:00+00' THEN
        RETURN 'emitted_at is outside the years 0001 to 9999';
    END IF;
    RETURN NULL;
END
$$;

-- Whether an event is good by one expression; if not, or NULL, event_fault tells. It is inlined.
CREATE FUNCTION holdfast.event_is_plain(p_type text, p_payload json, p_key text, p_tenant text,
                                        p_metadata json, p_producer text, p_emitted_at timestamptz)
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN octet_length($1) <= 255 AND $1 COLLATE "C" ~ $type$^[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+(\.[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*\Z$type$
        AND octet_length($2::text) <= 128 AND strpos($2::text, E'\\u') = 0
        AND ($3 IS NULL OR octet_length($3) <= 65536) AND ($4 IS NULL OR octet_length($4) <= 65536)
        AND $5 IS NULL AND ($6 IS NULL OR octet_length($6) <= 255)
        AND $7 >= '0001-01-01 00:00:00+00' AND $7 < '10000-01-01 00:00:00+00';

-- events_check: raises what is wrong with events that a role sends the way C does, which says itself what
-- follows from them: their hashes and, unless it is NULL, the times inside their ids. HF001.
CREATE FUNCTION holdfast.events_check(p_namespace_id integer, p_ids uuid[], p_types text[],
                                      p_payloads json[], p_keys text[], p_tenants text[],
                                      p_metadata json[], p_producers text[], p_emitted_at timestamptz[],
                                      p_times timestamptz[], p_hashes bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_ids), 0);
    v_found record;
BEGIN
    IF v_count > 100000 THEN
        RAISE EXCEPTION 'there are % events; the limit is 100000', v_count USING ERRCODE = 'HF001';
    ELSIF (v_count, v_count, v_count, v_count, v_count, v_count, v_count, v_count, v_count)
          IS DISTINCT FROM (
              coalesce(cardinality(p_types), 0), coalesce(cardinality(p_payloads), 0),
              coalesce(cardinality(p_keys), v_count), coalesce(cardinality(p_tenants), v_count),
              coalesce(cardinality(p_metadata), v_count), coalesce(cardinality(p_producers), v_count),
              coalesce(cardinality(p_emitted_at), 0), coalesce(cardinality(p_times), v_count),
              coalesce(cardinality(p_hashes), 0)) THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    SELECT e.i, f.fault INTO v_found
        FROM unnest(p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata, p_producers, p_emitted_at,
                    p_times, p_hashes) WITH ORDINALITY
            e (id, type, payload, key, tenant, metadata, producer, emitted_at, time, hash, i)
        CROSS JOIN LATERAL (SELECT CASE
            WHEN e.id IS NULL THEN 'id is missing'
            WHEN e.payload IS NULL THEN 'payload is missing'
            WHEN e.emitted_at IS NULL THEN 'emitted_at is missing'
            WHEN e.hash IS DISTINCT FROM hash_of(coalesce(e.tenant, e.key, e.id::text))
                THEN 'hash is not that of the event'
            WHEN p_times IS NOT NULL AND e.time IS DISTINCT FROM id_time(e.id)
                THEN 'the time is not that inside the id'
            WHEN event_is_plain(e.type, e.payload, e.key, e.tenant, e.metadata, e.producer, e.emitted_at)
                THEN NULL
            ELSE event_fault(p_namespace_id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                             NULL, e.emitted_at) END) f (fault)
        WHERE f.fault IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING MESSAGE = format('event %s: %s', v_found.i - 1, v_found.fault),
            ERRCODE = 'HF001';
    END IF;
END
$$;

-- ---- Appending ----------------------------------------------------------------------------------

-- Where the event with this id is, however it is guarded; position is NULL if it is not visible. A plan
-- that was made while the list of ids was short must not scan it when it is long.
CREATE FUNCTION holdfast.find_id(p_namespace_id integer, p_id uuid, OUT "position" bigint,
                                 OUT guard_at timestamptz, OUT key_version bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
    SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_query text := 'SELECT position, guard_at, key_version FROM holdfast.events_'
                    || p_namespace_id || ' WHERE id = $1 AND guard_at = $2';
BEGIN
    EXECUTE v_query INTO find_id."position", find_id.guard_at, find_id.key_version
        USING p_id, id_time(p_id);
    IF find_id."position" IS NULL THEN
        SELECT e.position, e.guard_at INTO find_id."position", find_id.guard_at
            FROM event_ids e WHERE e.namespace_id = p_namespace_id AND e.id = p_id;
        IF FOUND THEN
            EXECUTE v_query INTO find_id."position", find_id.guard_at, find_id.key_version
                USING p_id, find_id.guard_at;
        END IF;
    END IF;
END
$$;

-- ---- Who is publishing --------------------------------------------------------------------------

-- Readers have to know who may still fill a gap (docs/ordering.md): whoever has drawn a position and has
-- not ended. nextval's own lock on the sequence does not tell: the server takes it before it looks at the
-- right, on whatever relation is named by its number, and a refused nextval inside a savepoint keeps it;
-- so whoever may connect can hold it, and ROW EXCLUSIVE on every table as well. PREPARE takes the weak
-- locks of tables without any right on them. What cannot be had without the owner's rights is a number.
--   So who publishes takes an advisory lock, before it draws, whose key is computed of the secret
-- (0001_tables.sql), the namespace and the transaction's id: publishing_key. Anybody can see the key in
-- pg_locks and lock it, too, but then it is held by a transaction with another id, for which it is wrong.
-- It ends with the transaction, or with the savepoint whose rollback takes the event away, and a
-- prepared transaction keeps it.
--   p_try: another session that has seen the key may lock it exclusively when a rolled back savepoint has freed
-- it; then the next one is taken, up to 65535. Such a session must have seen each of them held, so it can take one
-- key for each savepoint that was rolled back, and the server's table of locks is full long before there are
-- no more. The try stands in the upper 16 bits of the key, so a look computes one hash for each advisory lock
-- that is held, of whatever session.
CREATE FUNCTION holdfast.publishing_key(p_secret bytea, p_namespace_id integer, p_transaction xid,
                                        p_try integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('x' || encode(substr(int4send($4), 3)
                          || substr(sha256($1 || int4send($2) || int4send($4)
                                           || convert_to($3::text, 'UTF8')), 1, 6), 'hex'))::bit(64)::bigint;

-- publishing: declares that this transaction publishes. To be called before a position is drawn, in the
-- same transaction and not below a savepoint that is rolled back between the two.
CREATE FUNCTION holdfast.publishing(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_secret bytea := (SELECT s.secret FROM secret s);
    v_id     xid := pg_current_xact_id()::xid;
BEGIN
    FOR v_try IN 0 .. 65535 LOOP
        IF pg_try_advisory_xact_lock_shared(publishing_key(v_secret, p_namespace_id, v_id, v_try)) THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'other sessions hold the locks by which this transaction says that it publishes'
        USING ERRCODE = 'lock_not_available';
END
$$;

-- draw: the next position, for the owner of the schema who writes into the log by hand: the event must be
-- inserted in the same transaction.
CREATE FUNCTION holdfast.draw(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM publishing(p_namespace_id);
    RETURN nextval((SELECT n.sequence FROM namespaces n WHERE n.id = p_namespace_id));
END
$$;

-- publishing_now: the transactions that have declared it and are not over. pid NULL: prepared. Both kinds
-- of locks are in the table that pg_locks copies as a whole, so this is one moment. But PREPARE TRANSACTION
-- hands over the locks of one part of that table after the other: at that moment one of the two may have a
-- process and the other none. The name of the transaction is the same, so that alone is compared.
--   Of the ids that a transaction has locked the oldest is its own; the others are of its savepoints.
CREATE FUNCTION holdfast.publishing_now(p_namespace_id integer)
    RETURNS TABLE (virtualtransaction text, pid integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH locks AS MATERIALIZED (
                SELECT l.* FROM pg_locks l
                WHERE l.granted AND (l.locktype = 'advisory' OR l.locktype = 'transactionid')),
            held AS MATERIALIZED (
                SELECT l.virtualtransaction, l.pid, (l.classid::bigint << 32) | l.objid::bigint AS key
                FROM locks l
                WHERE l.locktype = 'advisory' AND l.objsubid = 1
                    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),
            ids AS MATERIALIZED (
                SELECT DISTINCT ON (x.virtualtransaction) x.virtualtransaction, x.transactionid
                FROM locks x
                WHERE x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
                ORDER BY x.virtualtransaction, age(x.transactionid) DESC)
        SELECT DISTINCT h.virtualtransaction, h.pid
        FROM secret s, held h JOIN ids i ON i.virtualtransaction = h.virtualtransaction
        WHERE h.key = publishing_key(s.secret, p_namespace_id, i.transactionid,
                                     (h.key >> 48)::integer & 65535);
END
$$;

-- append_one: one checked event into the log. status 0, or HF_CONFLICT (4) and a message: then nothing
-- was written. A repeated id answers the first one's position and key_version, duplicate = true.
-- p_content: content_of the event when it was published, if that was earlier; NULL: it is computed.
--
-- Locks, all to the end of the transaction: that of publishing (readers know by it that an event may still
-- come), and the row in heads of a gapless namespace; the row in keys of a
-- versioned key. A publish of an id that somebody else is publishing in an open transaction waits
-- for that transaction. If the client dies, the transaction rolls back: a position may be lost, which
-- readers prove by the lock.
CREATE FUNCTION holdfast.append_one(p_namespace holdfast.namespaces, p_id uuid, p_type text,
                                    p_payload json, p_key text, p_tenant text, p_metadata json,
                                    p_producer text, p_schedule_id text, p_emitted_at timestamptz,
                                    p_expected_version bigint, p_hash bigint,
                                    p_content bigint DEFAULT NULL,
                                    OUT status integer, OUT message text, OUT "position" bigint,
                                    OUT key_version bigint, OUT duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_time     timestamptz := id_time(p_id);
    v_away     double precision := abs(extract(epoch FROM v_time - v_now));
    v_listed   boolean := v_away IS NULL OR v_away >= 82800;
    v_entered  timestamptz;
    v_guard    timestamptz := CASE WHEN v_away < 86400 THEN v_time ELSE v_now END;
    v_found    record;
    v_version  bigint;
    v_digest   bytea;
BEGIN
    status := 0;
    duplicate := false;
    IF v_guard < p_namespace.months_from OR v_guard >= p_namespace.months_to THEN
        PERFORM ensure_month(p_namespace.id, v_guard);
    END IF;
    IF p_namespace.gapless THEN
        PERFORM 1 FROM heads h WHERE h.namespace_id = p_namespace.id FOR UPDATE;
    END IF;
    IF v_listed OR p_namespace.gapless OR p_expected_version IS NOT NULL
       OR v_time <= p_namespace.ids_until THEN
        v_found := find_id(p_namespace.id, p_id);
        IF v_found."position" IS NOT NULL THEN
            append_one."position" := v_found."position";
            append_one.key_version := v_found.key_version;
            duplicate := true;
            PERFORM commit_what_is_seen();
            RETURN;
        END IF;
    END IF;

    IF p_expected_version IS NOT NULL THEN
        v_digest := sha256(convert_to(p_key, 'UTF8'));
        IF p_expected_version = 0 THEN
            INSERT INTO keys (namespace_id, digest, version, key)
                VALUES (p_namespace.id, v_digest, 1, p_key)
                ON CONFLICT (namespace_id, digest) DO NOTHING;
        ELSE
            UPDATE keys k SET version = k.version + 1
                WHERE k.namespace_id = p_namespace.id AND k.digest = v_digest
                    AND k.version = p_expected_version;
        END IF;
        IF NOT FOUND THEN
            -- Whoever raised the version meanwhile may have published this very event.
            v_found := find_id(p_namespace.id, p_id);
            IF v_found."position" IS NOT NULL THEN
                append_one."position" := v_found."position";
                append_one.key_version := v_found.key_version;
                duplicate := true;
                PERFORM commit_what_is_seen();
                RETURN;
            END IF;
            SELECT k.version INTO v_version FROM keys k
                WHERE k.namespace_id = p_namespace.id AND k.digest = v_digest;
            status := 4;
            message := format('expected version %s of key %s, which has version %s',
                              p_expected_version, left(p_key, 128), coalesce(v_version, 0));
            RETURN;
        END IF;
        append_one.key_version := p_expected_version + 1;
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
        INSERT INTO events (position, hash, checksum, emitted_at, entered_at, guard_at, id, namespace_id,
                            type, key_version, schedule_id, producer, key, tenant, metadata, payload)
            VALUES (append_one."position", p_hash,
                    checksum_of(coalesce(p_content,
                                         content_of(p_id, p_emitted_at, p_type, p_key, p_tenant,
                                                    p_metadata, p_producer, p_schedule_id,
                                                    p_payload)),
                                p_hash, append_one."position", v_entered, append_one.key_version),
                    p_emitted_at, v_entered, v_guard, p_id,
                    p_namespace.id, p_type, append_one.key_version, p_schedule_id, p_producer, p_key,
                    p_tenant, p_metadata, p_payload)
            ON CONFLICT DO NOTHING;
        duplicate := NOT FOUND;
        IF duplicate AND v_listed THEN
            DELETE FROM event_ids e WHERE e.namespace_id = p_namespace.id AND e.id = p_id
                AND e.position = append_one."position";
        END IF;
    END IF;
    IF duplicate THEN
        IF p_expected_version = 0 THEN
            DELETE FROM keys k WHERE k.namespace_id = p_namespace.id AND k.digest = v_digest;
        ELSIF p_expected_version IS NOT NULL THEN
            UPDATE keys k SET version = k.version - 1
                WHERE k.namespace_id = p_namespace.id AND k.digest = v_digest;
        END IF;
        v_found := find_id(p_namespace.id, p_id);
        IF v_found."position" IS NULL THEN
            RAISE EXCEPTION 'the log refuses the event with id %, which it does not have: a unique '
                            'index of its tables is not Holdfast''s', p_id USING ERRCODE = 'HF014';
        END IF;
        append_one."position" := v_found."position";
        append_one.key_version := v_found.key_version;
        PERFORM commit_what_is_seen();
    ELSIF v_time > v_now AND v_away >= 82800 AND v_time > p_namespace.ids_until THEN
        UPDATE namespaces n SET ids_until = v_time
            WHERE n.id = p_namespace.id AND n.ids_until < v_time;
    END IF;
END
$$;

-- repair_months: after the log has refused an event for want of a month: waits for whoever is making it,
-- and makes it if nobody was. For ids whose guard_at is the time inside them, their months, too.
CREATE FUNCTION holdfast.repair_months(p_namespace_id integer, p_ids uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_at  timestamptz;
BEGIN
    PERFORM await_months(p_namespace_id);
    FOR v_at IN SELECT v_now
                UNION SELECT date_trunc('month', id_time(u) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                      FROM unnest(p_ids) u
                      WHERE abs(extract(epoch FROM id_time(u) - v_now)) < 86400 LOOP
        PERFORM ensure_month(p_namespace_id, v_at);
    END LOOP;
END
$$;

-- append: `struct append`, event by event, for C. Arrays of one length; expected_versions NULL or -1:
-- none. All or none: status HF_CONFLICT (4) leaves nothing behind (it is undone by a savepoint) and
-- failed_index (from 0) says whose fault it is. Raises HF003: no such namespace. The quick way
-- without conflicts is append_<id>. If the log has no table for an event, although
-- the namespace's row says that it has, that is put right and everything is tried once more.
CREATE FUNCTION holdfast.append(p_namespace_id integer, p_ids uuid[], p_types text[],
                                p_payloads json[], p_keys text[], p_tenants text[],
                                p_metadata json[], p_producers text[], p_emitted_at timestamptz[],
                                p_expected_versions bigint[], p_hashes bigint[],
                                OUT status integer, OUT message text, OUT failed_index integer,
                                OUT positions bigint[], OUT key_versions bigint[],
                                OUT duplicates boolean[],
                                p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_count     integer := cardinality(p_ids);
    v_done      record;
BEGIN
    IF admit(p_ticket, p_namespace_id, 'publish into', 'publisher', 'owner') IS NOT NULL THEN
        PERFORM events_check(p_namespace_id, p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata,
                             p_producers, p_emitted_at, NULL, p_hashes);
        PERFORM fault_check(format('event %s: expected_version is %s of key %s', i - 1,
                                   p_expected_versions[i], p_keys[i]))
            FROM generate_series(1, cardinality(p_expected_versions)) i
            WHERE p_expected_versions[i] NOT BETWEEN -1 AND 9223372036854775806
                OR p_expected_versions[i] >= 0 AND p_keys[i] IS NULL;
    END IF;
    v_namespace := namespace_of(p_namespace_id);
    FOR v_try IN 1 .. 2 LOOP
        status := 0;
        positions := array_fill(0::bigint, ARRAY[v_count]);
        key_versions := array_fill(NULL::bigint, ARRAY[v_count]);
        duplicates := array_fill(false, ARRAY[v_count]);
        BEGIN
            FOR i IN 1 .. v_count LOOP
                v_done := append_one(v_namespace, p_ids[i], p_types[i], p_payloads[i], p_keys[i],
                                     p_tenants[i], p_metadata[i], p_producers[i], NULL,
                                     p_emitted_at[i], nullif(p_expected_versions[i], -1), p_hashes[i]);
                IF v_done.status <> 0 THEN
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

-- append_<id>: the plain way for C, of the namespace of that number: many events that nothing but the log's
-- own index has to guard, by one statement. Every namespace has this function for itself, as it has
-- claim_<id> (0009_claims.sql), so that the server keeps the plan. This is its text; {namespace} stands for
-- the number.
--
-- guard_at is the time inside the id. If one is not of that kind by the server's clock it gets no
-- guard_at, and so the statement fails. An array that is NULL stands for as many NULLs as there are events.
-- Who passes by all policies is believed that the events are good, because C has checked them, and that
-- p_contents has content_of each; for others it is computed.
--
-- The arrays are unnested in a select list, not in FROM: there every row would be written into a
-- temporary store and read again before the first one is inserted. Rows come in the order of the
-- arrays, one by one: positions are drawn and returned in the order of the events.
CREATE FUNCTION holdfast.append_source() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $append$
CREATE OR REPLACE FUNCTION holdfast.append_{namespace}(
    p_ids uuid[], p_types text[], p_payloads json[], p_keys text[], p_tenants text[],
    p_metadata json[], p_producers text[], p_emitted_at timestamptz[], p_guard_at timestamptz[],
    p_hashes bigint[], p_contents bigint[], p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF admit(p_ticket, {namespace}, 'publish into', 'publisher', 'owner') IS NOT NULL THEN
        PERFORM events_check({namespace}, p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata,
                             p_producers, p_emitted_at, p_guard_at, p_hashes);
        p_contents := NULL;
    END IF;
    PERFORM publishing({namespace});
    RETURN QUERY
    INSERT INTO events_{namespace}
        (position, hash, checksum, emitted_at, entered_at, guard_at, id, namespace_id, type, producer,
         key, tenant, metadata, payload)
    SELECT e.position, e.hash,
           checksum_of(coalesce(e.content, content_of(e.id, e.emitted_at, e.type, e.key, e.tenant,
                                                      e.metadata, e.producer, NULL, e.payload)),
                       e.hash, e.position, e.entered_at, NULL), e.emitted_at, e.entered_at,
           CASE WHEN e.guard_at > now() - interval '23 hours'
                 AND e.guard_at < now() + interval '23 hours'
                 AND e.guard_at > (SELECT n.ids_until FROM namespaces n WHERE n.id = {namespace})
                THEN e.guard_at END,
           e.id, {namespace}, e.type, e.producer, e.key, e.tenant, e.metadata, e.payload
    FROM (SELECT g.*, nextval('holdfast.events_{namespace}_position'::regclass) AS position,
                 clock_timestamp() AS entered_at
          FROM (SELECT unnest(p_ids) AS id, unnest(p_types) AS type, unnest(p_payloads) AS payload,
                       unnest(p_keys) AS key, unnest(p_tenants) AS tenant,
                       unnest(p_metadata) AS metadata, unnest(p_producers) AS producer,
                       unnest(p_emitted_at) AS emitted_at, unnest(p_guard_at) AS guard_at,
                       unnest(p_hashes) AS hash, unnest(p_contents) AS content) g) e
    RETURNING events_{namespace}.position;
END
$$;
$append$;

-- Makes append_<id>, or makes it anew. namespace_put does; so must whoever changes the text above.
CREATE FUNCTION holdfast.append_make(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    EXECUTE replace(append_source(), '{namespace}', p_namespace_id::text);
    EXECUTE format('REVOKE ALL ON FUNCTION holdfast.%I FROM PUBLIC', 'append_' || p_namespace_id);
END
$$;

-- ---- Wake-up ------------------------------------------------------------------------------------

-- The flag of a namespace that says "somebody sleeps" is the value of a sequence: until when, in
-- microseconds. It is seen at once, by everybody, whatever their snapshots, and writing it leaves no
-- dead row behind.

-- gate_lock: locks a gate of the namespace for a moment, to the end of the caller's transaction. Whoever has
-- locked it is through with it in no time; if its transaction goes on all the same, nobody waits longer than
-- this.
CREATE FUNCTION holdfast.gate_lock(p_namespace_id integer, p_gate integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
    SET lock_timeout = '100ms'
AS $$
BEGIN
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- sleep: declares that a consumer of the namespace is going to wait for a NOTIFY on the channel
-- holdfast_<id>, for p_ms (up to an hour) at most. Answers the flag's value: to be handed to holdfast.awake. To be
-- declared before the log is looked at for the last time.
CREATE FUNCTION holdfast.sleep(p_namespace_id integer, p_ms integer,
                               p_ticket bytea DEFAULT holdfast.ticket()) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_flag  regclass;
    v_until bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                      + least(greatest(p_ms, 0), 3600000)::bigint * 1000;
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'wait for', 'viewer', 'publisher', 'consumer', 'owner');
    SELECT n.sleep INTO v_flag FROM namespaces n WHERE n.id = p_namespace_id;
    PERFORM gate_lock(p_namespace_id, 0);
    RETURN setval(v_flag, greatest(v_until, coalesce(pg_sequence_last_value(v_flag), 0) + 1));
END
$$;

-- awake: takes the declaration back, if it is still the latest one (p_flag, from holdfast.sleep):
-- for a consumer that has work for a while, so that publishers need not notify. True: taken back. False, too, if
-- somebody is declaring something just now.
-- Whoever sleeps was woken by the same NOTIFY and declares anew before it sleeps again.
CREATE FUNCTION holdfast.awake(p_namespace_id integer, p_flag bigint,
                               p_ticket bytea DEFAULT holdfast.ticket()) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_flag regclass;
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'wait for', 'viewer', 'publisher', 'consumer', 'owner');
    SELECT n.sleep INTO v_flag FROM namespaces n WHERE n.id = p_namespace_id;
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = 0 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR pg_sequence_last_value(v_flag) IS DISTINCT FROM p_flag THEN
        RETURN false;
    END IF;
    PERFORM setval(v_flag, 1);
    RETURN true;
END
$$;

-- A transaction that has notified cannot be prepared for a two-phase commit. One that is to be says
-- SET LOCAL holdfast.notify = off before it publishes; then consumers look by themselves.
CREATE FUNCTION holdfast.is_quiet() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(current_setting('holdfast.notify', true), '') IN ('off', 'false', 'no', '0');

-- ring: notifies the consumers of a namespace, if one of them has declared itself asleep. To be called
-- after what they are to see was written: the NOTIFY goes out with the commit. (Notifying always would
-- serialise the commits of the whole cluster.)
CREATE FUNCTION holdfast.ring(p_namespace_id integer, p_sleep regclass) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF pg_sequence_last_value(p_sleep) > extract(epoch FROM clock_timestamp()) * 1000000
       AND NOT is_quiet() THEN
        PERFORM pg_notify('holdfast_' || p_namespace_id, '');
    END IF;
END
$$;

-- Whoever answers "it is stored already" must be as sure of it as whoever stored it. What a
-- transaction wrote is visible, but perhaps not on the synchronous standby, if its wait for that was
-- cancelled; a failover would take it back. A commit waits for everything before it, but only if it
-- has written something itself: so this writes something, which leaves no row behind.
CREATE FUNCTION holdfast.commit_what_is_seen() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, 'holdfast', '');
END
$$;

-- Sees to it that the commit of this transaction waits for the disk (and for synchronous standbys),
-- however the session is set.
CREATE FUNCTION holdfast.commit_durably() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- join_check: may the library publish in this transaction? It must be in the database that the store
-- was opened on: there the process with this token is registered. HF002 if not, or if it is read-only.
-- p_durably: as commit_durably.
CREATE FUNCTION holdfast.join_check(p_token uuid, p_durably boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM processes p WHERE p.token = p_token) THEN
        RAISE EXCEPTION 'the connection is open on another database than the bus, or its transaction '
                        'is older than the bus' USING ERRCODE = 'HF002';
    END IF;
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'the transaction is read-only' USING ERRCODE = 'HF002';
    END IF;
    IF p_durably THEN
        PERFORM commit_durably();
    END IF;
END
$$;
