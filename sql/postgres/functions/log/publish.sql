-- Publishing, for all clients: from psql and any driver. The SQLSTATEs are those of append.sql; C
-- does its own checks and calls append or inserts by itself.

-- publish_next: a checked event, with a unique key or without. The answer is that of append_one;
-- first: the id of the event that has the key already; NULL: none has.
CREATE OR REPLACE FUNCTION holdfast_private.publish_next(
    p_namespace holdfast_private.namespaces, p_id uuid, p_type text, p_payload json, p_key text,
    p_tenant text, p_metadata json, p_producer text, p_emitted_at timestamptz,
    p_expected_version bigint, p_unique text, p_unique_us bigint, OUT status integer,
    OUT message text, OUT "position" bigint, OUT key_version bigint, OUT duplicate boolean,
    OUT first uuid)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_hash bigint := hash_of(coalesce(p_tenant, p_key, p_id::text));
BEGIN
    IF p_unique IS NOT NULL THEN
        SELECT * INTO status, message, "position", key_version, duplicate, first
            FROM append_unique(p_namespace, p_unique, p_unique_us, p_id, p_type, p_payload, p_key,
                               p_tenant, p_metadata, p_producer, p_emitted_at, p_expected_version,
                               v_hash);
    ELSE
        SELECT * INTO status, message, "position", key_version, duplicate
            FROM append_one(p_namespace, p_id, p_type, p_payload, p_key, p_tenant, p_metadata,
                            p_producer, NULL, p_emitted_at, p_expected_version, v_hash);
    END IF;
END
$$;

-- publish, the long way: every check, every kind of id. position NULL: the event that has the
-- unique key waits for its time.
CREATE OR REPLACE FUNCTION holdfast_private.publish_checked(
    p_namespace text, p_type text, p_payload json, p_id uuid, p_key text, p_tenant text,
    p_metadata json, p_producer text, p_expected_version bigint, p_emitted_at timestamptz,
    p_unique text, p_unique_for interval, OUT "position" bigint, OUT duplicate boolean,
    OUT key_version bigint, OUT first uuid)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace namespaces := namespace_find(p_namespace);
    v_payload   json := coalesce(p_payload, 'null');
    v_emitted   timestamptz := coalesce(p_emitted_at, clock_timestamp());
    v_us        bigint := unique_us(p_unique_for);
    v_done      record;
BEGIN
    PERFORM fault_check(event_fault(v_namespace.id, p_type, v_payload, p_key, p_tenant, p_metadata,
                                    p_producer, p_expected_version, v_emitted));
    PERFORM fault_check(unique_fault(p_unique, v_us, false));
    PERFORM commit_durably();
    v_done := publish_next(v_namespace, p_id, p_type, v_payload, p_key, p_tenant, p_metadata,
                           p_producer, v_emitted, p_expected_version, p_unique, v_us);
    IF v_done.status <> HF_OK THEN
        RAISE EXCEPTION USING MESSAGE = v_done.message, ERRCODE = 'HF004';
    END IF;
    publish_checked."position" := nullif(v_done."position", 0);
    publish_checked.duplicate := v_done.duplicate;
    publish_checked.key_version := v_done.key_version;
    publish_checked.first := v_done.first;
    PERFORM ring(v_namespace.id, v_namespace.sleep);
END
$$;

-- publish_bytes: what content_of hashes of an event without metadata and schedule, for a client
-- whose encoding is that of the database. It is inlined; so are those that follow.
CREATE OR REPLACE FUNCTION holdfast_private.publish_bytes(
    p_id uuid, p_emitted_at timestamptz, p_type text, p_key text, p_tenant text, p_producer text,
    p_payload json)
    RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN overlay(array_send(ARRAY[$3, $4, $5, NULL, $6, NULL])
                   PLACING (uuid_send($1) || timestamptz_send($2)) FROM 1 FOR 20)
           || json_send($7);

-- is_long: whether an event could be nested too deep or have long texts. 48 bytes of p_bytes
-- (publish_bytes) are no characters of the event.
CREATE OR REPLACE FUNCTION holdfast_private.is_long(p_bytes bytea) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN octet_length($1) > 48 + 2 * HF_JSON_DEPTH_MAX;

-- is_flat: whether a long event is within its limits, which the greater part of them can be seen to
-- be without a look at each character: nesting takes brackets, and texts are not too long if they
-- are not so together.
CREATE OR REPLACE FUNCTION holdfast_private.is_flat(p_bytes bytea, p_payload json,
                                                    p_bytes_max integer)
    RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN octet_length($1) <= least(65536, $3)
        AND octet_length($1) - octet_length($2::text) <= 48 + HF_TYPE_BYTES_MAX
        AND octet_length($2::text) - octet_length(replace(replace($2::text, '[', ''), '{', ''))
            <= HF_JSON_DEPTH_MAX;

-- is_ordinary: true if an event that is not long, or flat, is within all other limits, and if its
-- commit will be durable. The client's encoding has to be that of the database.
CREATE OR REPLACE FUNCTION holdfast_private.is_ordinary(p_bytes bytea, p_type text)
    RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN $2 COLLATE "C" ~ holdfast_private.type_regex()
        AND position('\x5c75'::bytea IN $1) = 0 -- \u
        AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
        AND pg_client_encoding() = 'UTF8';

-- is_secret: whether a ticket is the secret itself.
CREATE OR REPLACE FUNCTION holdfast_private.is_secret(p_ticket bytea) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN sha256($1) = holdfast_private.secret_digest();

-- is_awaited: whether a consumer has declared that it sleeps beyond p_us (bell.sql).
CREATE OR REPLACE FUNCTION holdfast_private.is_awaited(p_sleep regclass, p_us bigint)
    RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_sequence_last_value($1) > $2;

-- publish_guard: guard_at of an id that was given, if the time inside it is near; NULL: it is not.
CREATE OR REPLACE FUNCTION holdfast_private.publish_guard(p_time timestamptz, p_now timestamptz)
    RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN $1 > $2 - interval '23 hours' AND $1 < $2 + interval '23 hours' THEN $1 END;

-- publish_place: the namespace of this name, if publishing into it is ordinary for ids with a time
-- that is_guarded.
CREATE OR REPLACE FUNCTION holdfast_private.publish_place(p_name text)
    RETURNS TABLE (id integer, sequence regclass, sleep regclass, bytes_max integer,
                   months_from timestamptz, months_to timestamptz, ids_until timestamptz)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT n.id, n.sequence, n.sleep, n.payload_bytes_max, n.months_from, n.months_to,
           n.ids_until
    FROM holdfast_private.namespaces n
    WHERE n.name = $1 AND NOT n.gapless AND n.copying IS NULL AND n.removing_at IS NULL;
END;

-- is_guarded: whether the log has the month of this time, and no id of a later time is listed;
-- p_ids_until NULL: that does not matter, because the id is new.
CREATE OR REPLACE FUNCTION holdfast_private.is_guarded(
    p_guard timestamptz, p_months_from timestamptz, p_months_to timestamptz,
    p_ids_until timestamptz)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $1 >= $2 AND $1 < $3 AND ($4 IS NULL OR $1 > $4);

-- publish_draw: the next position, after it was declared that the transaction publishes; NULL:
-- another session has the first key for that (publishing_try).
CREATE OR REPLACE FUNCTION holdfast_private.publish_draw(p_secret bytea, p_namespace_id integer,
                                                         p_sequence regclass)
    RETURNS bigint
    LANGUAGE sql VOLATILE
    RETURN CASE WHEN holdfast_private.publishing_try($1, $2, 0) THEN nextval($3) END;

-- publish_sum: checksum_of an event without key_version that entered the log at p_us.
CREATE OR REPLACE FUNCTION holdfast_private.publish_sum(p_bytes bytea, p_hash bigint,
                                                        p_position bigint, p_us bigint)
    RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('x' || md5($1))::bit(64)::bigint # $2 # $3 # $4;

-- publish_enter: what a caller has to pass that is not the owner of the schema. Answers the secret.
CREATE OR REPLACE FUNCTION holdfast_private.publish_enter(p_ticket bytea, p_namespace text)
    RETURNS bytea
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM enter(p_ticket, p_namespace, 'publish into', 'publisher', 'owner');
    RETURN (SELECT s.secret FROM secret s);
END
$$;

-- publish_once: stores an event of publish_as. False: its id is in the log.
CREATE OR REPLACE FUNCTION holdfast_private.publish_once(
    p_position bigint, p_hash bigint, p_checksum bigint, p_now timestamptz, p_guard timestamptz,
    p_id uuid, p_namespace_id integer, p_type text, p_producer text, p_key text, p_tenant text,
    p_payload json)
    RETURNS boolean
    LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, entered_at, guard_at,
                                         id, namespace_id, type, producer, key, tenant, payload)
        VALUES (p_position, p_hash, p_checksum, p_now, p_now, p_guard, p_id, p_namespace_id,
                p_type, p_producer, p_key, p_tenant, p_payload)
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- publish_as: publish for all callers and all events. It writes an ordinary event by one statement,
-- as publish does; if it is not ordinary, or its id exists, it goes the long way.
CREATE OR REPLACE FUNCTION holdfast.publish_as(
    p_namespace text, p_type text, p_payload json, p_id uuid, p_key text, p_tenant text,
    p_metadata json, p_producer text, p_expected_version bigint, p_emitted_at timestamptz,
    p_unique text, p_unique_for interval, p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS holdfast.published
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    v_now       timestamp with time zone := pg_catalog.clock_timestamp();
    v_us        bigint := holdfast_private.us_of(v_now);
    v_id        pg_catalog.uuid := coalesce(p_id, holdfast_private.id_at(v_us));
    v_guard     timestamp with time zone := pg_catalog.date_trunc('milliseconds', v_now);
    v_bytes     pg_catalog.bytea;
    v_hash      bigint;
    v_namespace integer; -- NULL: publishing into it is not ordinary
    v_sequence  pg_catalog.regclass;
    v_sleep     pg_catalog.regclass;
    v_bytes_max integer;
    v_from      timestamp with time zone;
    v_to        timestamp with time zone; -- NULL: the event may be outside its limits
    v_until     timestamp with time zone;
    v_position  bigint;
    v_done      record;
BEGIN
    IF p_id IS NOT NULL THEN
        v_guard := holdfast.id_time(p_id);
        v_guard := holdfast_private.publish_guard(v_guard, v_now);
    END IF;
    SELECT p.id, p.sequence, p.sleep, p.bytes_max, p.months_from, p.months_to, p.ids_until
        INTO v_namespace, v_sequence, v_sleep, v_bytes_max, v_from, v_to, v_until
        FROM holdfast_private.publish_place(p_namespace) p;
    IF holdfast_private.is_secret(p_ticket) IS NOT TRUE THEN
        p_ticket := holdfast_private.publish_enter(p_ticket, p_namespace);
    END IF; -- from here on the ticket is the secret
    v_bytes := holdfast_private.publish_bytes(v_id, v_now, p_type, p_key, p_tenant, p_producer,
                                              p_payload);
    IF holdfast_private.is_long(v_bytes) THEN
        v_to := CASE WHEN holdfast_private.is_flat(v_bytes, p_payload, v_bytes_max) THEN v_to END;
    END IF;
    v_position := CASE WHEN holdfast_private.is_guarded(v_guard, v_from, v_to, v_until)
            AND p_metadata IS NULL AND p_expected_version IS NULL AND p_emitted_at IS NULL
            AND p_unique IS NULL AND p_unique_for IS NULL
            AND holdfast_private.is_ordinary(v_bytes, p_type)
        THEN holdfast_private.publish_draw(p_ticket, v_namespace, v_sequence) END;
    IF v_position IS NOT NULL THEN
        v_hash := holdfast_private.hash_of(coalesce(p_tenant, p_key, v_id::pg_catalog.text));
        IF holdfast_private.publish_once(v_position, v_hash,
                holdfast_private.publish_sum(v_bytes, v_hash, v_position, v_us), v_now, v_guard,
                v_id, v_namespace, p_type, p_producer, p_key, p_tenant, p_payload) THEN
            IF holdfast_private.is_awaited(v_sleep, v_us) THEN
                PERFORM holdfast_private.publish_ring(v_namespace);
            END IF;
            RETURN ROW(v_id, v_position, false, NULL)::holdfast.published;
        END IF;
        v_done := holdfast_private.append_find(v_namespace, v_id);
        IF v_done.duplicate THEN
            RETURN ROW(v_id, v_done."position", true, v_done.key_version)::holdfast.published;
        END IF;
    END IF;
    v_done := holdfast_private.publish_checked(p_namespace, p_type, p_payload, v_id, p_key,
                                               p_tenant, p_metadata, p_producer,
                                               p_expected_version, p_emitted_at, p_unique,
                                               p_unique_for);
    RETURN ROW(coalesce(v_done.first, v_id), v_done."position", v_done.duplicate,
               v_done.key_version)::holdfast.published;
END
$$;

-- is_json_type: whether JSON may be given in this type.
CREATE OR REPLACE FUNCTION holdfast.is_json_type(p_type regtype) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN $1 = ANY (holdfast.json_types());

-- is_short: whether publish may go its short way: the owner of the schema calls it, with JSON in a
-- type for that and nothing that is rare (p_rare is 0).
CREATE OR REPLACE FUNCTION holdfast.is_short(p_type regtype, p_rare integer)
    RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN $2 = 0 AND holdfast.is_owner() AND holdfast.is_json_type($1);

-- publish: one event into the log of a namespace, in the caller's own transaction: it exists if and
-- only if that commits, and when the commit returns it is durable (synchronous_commit is switched
-- on for the transaction if it is weaker). Publishing an id again stores nothing and answers the
-- first position. unique_key: of the events with this key only the first within unique_for is
-- stored, and the others answer its position (NULL: it waits for its time) and id. Raises HF001,
-- HF003, HF004 (append.sql). Locks: see append_one. Consumers that sleep are notified with the
-- commit; a transaction that is to be prepared asks for silence (is_quiet).
--
-- It runs with its caller's rights. The short way is for the owner of the schema, who needs no
-- ticket and may have the secret in a plan: an ordinary event is checked by few expressions and
-- written by one statement. For all others there is publish_as.
--
-- What a transaction needs for the first time is prepared anew in each: an expression costs about
-- 1,500 instructions, and each function that it calls 1,100. So they are few and short, what they
-- call is inlined, and what only long events need stands apart. The function has no search_path of
-- its own, which would cost as much as all checks: every name has its schema, types that are no
-- keywords too, and there are no operators, nor what the server makes of them (NULLIF, IN, CASE
-- with a value). It answers a type that has a name, because columns of parameters are looked up in
-- every call. An id that is made here is in no log, so that INSERT need not be prepared for a
-- conflict, which is a sixth of its cost. One reading of the clock is both times of the event.
CREATE OR REPLACE FUNCTION holdfast.publish(
    namespace text, type text, payload anycompatible DEFAULT 'null', id uuid DEFAULT NULL,
    key text DEFAULT NULL, tenant text DEFAULT NULL, metadata anycompatible DEFAULT NULL,
    producer text DEFAULT NULL, expected_version bigint DEFAULT NULL,
    emitted_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL,
    unique_for interval DEFAULT NULL)
    RETURNS holdfast.published
    LANGUAGE plpgsql
AS $$
DECLARE
    v_now       timestamp with time zone;
    v_us        bigint;
    v_id        pg_catalog.uuid;
    v_payload   pg_catalog.json;
    v_bytes     pg_catalog.bytea;
    v_hash      bigint;
    v_checksum  bigint;
    v_namespace integer; -- NULL: publishing into it is not ordinary
    v_sequence  pg_catalog.regclass;
    v_sleep     pg_catalog.regclass;
    v_bytes_max integer;
    v_from      timestamp with time zone;
    v_to        timestamp with time zone; -- NULL: the event may be outside its limits
    v_position  bigint;  -- NULL: the event is not ordinary
BEGIN
    IF holdfast.is_short(pg_catalog.pg_typeof(publish.payload),
            pg_catalog.num_nonnulls(publish.id, publish.metadata, publish.expected_version,
                publish.emitted_at, publish.unique_key, publish.unique_for)) THEN
        v_now := pg_catalog.clock_timestamp();
        v_us := holdfast_private.us_of(v_now);
        v_id := holdfast_private.id_at(v_us);
        v_payload := publish.payload;
        v_bytes := holdfast_private.publish_bytes(v_id, v_now, publish.type, publish.key,
            publish.tenant, publish.producer, v_payload);
        SELECT p.id, p.sequence, p.sleep, p.bytes_max, p.months_from, p.months_to
            INTO v_namespace, v_sequence, v_sleep, v_bytes_max, v_from, v_to
            FROM holdfast_private.publish_place(publish.namespace) p;
        IF holdfast_private.is_long(v_bytes) THEN
            v_to := CASE WHEN holdfast_private.is_flat(v_bytes, v_payload, v_bytes_max)
                THEN v_to END;
        END IF;
        v_position := CASE WHEN holdfast_private.is_guarded(v_now, v_from, v_to, NULL)
                AND holdfast_private.is_ordinary(v_bytes, publish.type)
            THEN holdfast_private.publish_draw(holdfast_private.secret_value(), v_namespace,
                                               v_sequence) END;
        IF v_position IS NOT NULL THEN
            v_hash := holdfast_private.hash_of(coalesce(publish.tenant, publish.key,
                                                        v_id::pg_catalog.text));
            v_checksum := holdfast_private.publish_sum(v_bytes, v_hash, v_position, v_us);
            INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, entered_at,
                                                 guard_at, id, namespace_id, type, producer, key,
                                                 tenant, payload)
                VALUES (v_position, v_hash, v_checksum, v_now, v_now,
                        pg_catalog.date_trunc('milliseconds', v_now), v_id, v_namespace,
                        publish.type, publish.producer, publish.key, publish.tenant, v_payload);
            IF holdfast_private.is_awaited(v_sleep, v_us) THEN
                PERFORM holdfast_private.publish_ring(v_namespace);
            END IF;
            RETURN ROW(v_id, v_position, false, NULL)::holdfast.published;
        END IF;
    END IF;
    IF NOT holdfast.is_json_type(pg_catalog.pg_typeof(publish.payload)) THEN
        PERFORM holdfast.json_check('payload', publish.payload);
    END IF;
    RETURN holdfast.publish_as(publish.namespace, publish.type,
                               publish.payload::pg_catalog.json, publish.id, publish.key,
                               publish.tenant, publish.metadata::pg_catalog.json,
                               publish.producer, publish.expected_version, publish.emitted_at,
                               publish.unique_key, publish.unique_for);
END
$$;

-- events_given_check: what publish_many is given. HF001, which names the first event that is
-- refused.
CREATE OR REPLACE FUNCTION holdfast_private.events_given_check(
    p_namespace_id integer, p_count integer, p_types text[], p_payloads json[], p_ids uuid[],
    p_keys text[], p_tenants text[], p_metadata json[], p_producers text[],
    p_expected_versions bigint[], p_emitted_at timestamptz[], p_uniques text[],
    p_unique_us bigint[], p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_fault record;
BEGIN
    IF p_count > HF_PUBLISH_MANY_MAX THEN
        RAISE EXCEPTION 'there are % events; the limit is HF_PUBLISH_MANY_MAX', p_count
            USING ERRCODE = 'HF001';
    END IF;
    IF p_count <> coalesce(cardinality(p_payloads), p_count)
       OR p_count <> coalesce(cardinality(p_ids), p_count)
       OR p_count <> coalesce(cardinality(p_keys), p_count)
       OR p_count <> coalesce(cardinality(p_tenants), p_count)
       OR p_count <> coalesce(cardinality(p_metadata), p_count)
       OR p_count <> coalesce(cardinality(p_producers), p_count)
       OR p_count <> coalesce(cardinality(p_expected_versions), p_count)
       OR p_count <> coalesce(cardinality(p_emitted_at), p_count)
       OR p_count <> coalesce(cardinality(p_uniques), p_count)
       OR p_count <> coalesce(cardinality(p_unique_us), p_count) THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    PERFORM lists_check(array_dims(p_types), array_dims(p_payloads), array_dims(p_ids),
                        array_dims(p_keys), array_dims(p_tenants), array_dims(p_metadata),
                        array_dims(p_producers), array_dims(p_expected_versions),
                        array_dims(p_emitted_at), array_dims(p_uniques), array_dims(p_unique_us));
    SELECT e.i - 1 AS at, f.fault INTO v_fault
        FROM (SELECT u.i, u.type, coalesce(u.payload, 'null') AS payload, u.key, u.tenant,
                     u.metadata, u.producer, u.expected_version,
                     coalesce(u.emitted_at, p_now) AS emitted_at, u.unique_key, u.unique_us
              FROM unnest(p_types, p_payloads, p_keys, p_tenants, p_metadata, p_producers,
                          p_expected_versions, p_emitted_at, p_uniques, p_unique_us)
                  WITH ORDINALITY u (type, payload, key, tenant, metadata, producer,
                                     expected_version, emitted_at, unique_key, unique_us, i)) e
        CROSS JOIN LATERAL (SELECT CASE
            WHEN e.expected_version IS NULL AND e.unique_key IS NULL AND e.unique_us IS NULL
                AND event_is_plain(e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                                   e.emitted_at)
                THEN NULL
            ELSE coalesce(event_fault(p_namespace_id, e.type, e.payload, e.key, e.tenant,
                                      e.metadata, e.producer, e.expected_version, e.emitted_at),
                          unique_fault(e.unique_key, e.unique_us, false)) END) f (fault)
        WHERE f.fault IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING MESSAGE = format('event %s: %s', v_fault.at, v_fault.fault),
            ERRCODE = 'HF001';
    END IF;
END
$$;

-- publish_plain: many checked events that nothing but the log's own index has to guard, by one
-- statement, and by another one those of their ids that have no time inside, which event_ids guards
-- (append_listed). Answers their positions; NULL: they have to be appended one by one. p_guard: the
-- time inside all ids; NULL: inside each of them.
CREATE OR REPLACE FUNCTION holdfast_private.publish_plain(
    p_namespace holdfast_private.namespaces, p_now timestamptz, p_ids uuid[], p_types text[],
    p_payloads json[], p_keys text[], p_tenants text[], p_metadata json[], p_producers text[],
    p_emitted_at timestamptz[], p_guard timestamptz)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_month     timestamp;
    v_positions bigint[];
BEGIN
    FOR v_month IN SELECT DISTINCT date_trunc('month', coalesce(p_guard, id_time(u), p_now)
                                                       AT TIME ZONE 'UTC')
                   FROM unnest(p_ids) u LOOP
        PERFORM ensure_month(p_namespace.id, v_month AT TIME ZONE 'UTC');
    END LOOP;
    BEGIN
        PERFORM publishing(p_namespace.id);
        WITH given AS MATERIALIZED (
            SELECT e.*, nextval(p_namespace.sequence) AS position, clock_timestamp() AS entered_at,
                   hash_of(coalesce(e.tenant, e.key, e.id::text)) AS hash
            FROM unnest(p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata, p_producers,
                        p_emitted_at) WITH ORDINALITY
                AS e (id, type, payload, key, tenant, metadata, producer, emitted_at, i)),
        stored AS (
            INSERT INTO events (position, hash, checksum, emitted_at, entered_at, guard_at, id,
                                namespace_id, type, producer, key, tenant, metadata, payload)
            SELECT g.position, g.hash,
                   checksum_of(content_of(g.id, coalesce(g.emitted_at, p_now), g.type, g.key,
                                          g.tenant, g.metadata, g.producer, NULL,
                                          coalesce(g.payload, 'null')),
                               g.hash, g.position, g.entered_at, NULL),
                   coalesce(g.emitted_at, p_now), g.entered_at,
                   coalesce(p_guard, id_time(g.id), p_now), g.id, p_namespace.id, g.type,
                   g.producer, g.key, g.tenant, g.metadata, coalesce(g.payload, 'null')
            FROM given g)
        SELECT array_agg(g.position ORDER BY g.i) INTO v_positions FROM given g;
        IF p_guard IS NULL THEN
            INSERT INTO event_ids (namespace_id, id, position, guard_at)
                SELECT p_namespace.id, u.id, u.position, p_now
                FROM unnest(p_ids, v_positions) u (id, position) WHERE id_time(u.id) IS NULL
                ORDER BY u.id;
        END IF;
    EXCEPTION
        WHEN unique_violation THEN
            RETURN NULL;
        WHEN check_violation THEN
            PERFORM repair_months(p_namespace.id, p_ids);
            RETURN NULL;
    END;
    RETURN v_positions;
END
$$;

-- publish_many: the same for many events, in order, all or none. Optional arrays may be NULL. A row
-- per event, in order. payloads and metadata are of one type: json[], jsonb[] or text[] (not
-- anycompatiblearray: such a parameter cannot have the default NULL). unique_keys, unique_for: as
-- of publish, for each event; also of two events of one call with the same key only the first is
-- stored.
CREATE OR REPLACE FUNCTION holdfast.publish_many(namespace text, types text[],
                                                 payloads anycompatible,
                                                 ids uuid[] DEFAULT NULL, keys text[] DEFAULT NULL,
                                                 tenants text[] DEFAULT NULL,
                                                 metadata anycompatible DEFAULT NULL,
                                                 producers text[] DEFAULT NULL,
                                                 expected_versions bigint[] DEFAULT NULL,
                                                 emitted_at timestamptz[] DEFAULT NULL,
                                                 unique_keys text[] DEFAULT NULL,
                                                 unique_for interval[] DEFAULT NULL,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS TABLE ("index" integer, id uuid, "position" bigint, duplicate boolean,
                   key_version bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace namespaces := enter(p_ticket, publish_many.namespace, 'publish into',
                                    'publisher', 'owner');
    v_done      record;
    v_now       timestamptz := clock_timestamp();
    v_count     integer := coalesce(cardinality(types), 0);
    v_payloads  json[];
    v_metadata  json[];
    v_unique_us bigint[];
    v_ids       uuid[];
    v_positions bigint[];
    v_plain     boolean;
    v_guard     timestamptz;
BEGIN
    PERFORM json_list_check('payloads', payloads);
    v_payloads := payloads;
    v_metadata := publish_many.metadata;
    IF unique_for IS NOT NULL THEN
        v_unique_us := ARRAY(SELECT unique_us(u) FROM unnest(unique_for) u);
    END IF;
    PERFORM events_given_check(v_namespace.id, v_count, types, v_payloads, ids, publish_many.keys,
                               tenants, v_metadata, producers, expected_versions,
                               publish_many.emitted_at, unique_keys, v_unique_us, v_now);
    PERFORM commit_durably();
    IF ids IS NULL AND v_count > 0 THEN -- their time need not be read out of each of them
        v_guard := date_trunc('milliseconds', v_now);
        v_ids := ARRAY(SELECT new_id(v_now) FROM generate_series(1, v_count));
        v_plain := v_guard > v_namespace.ids_until;
    ELSE
        SELECT array_agg(coalesce(ids[i], new_id(v_now)) ORDER BY i) INTO v_ids
            FROM generate_series(1, v_count) i;
        SELECT bool_and(t.time IS NULL OR abs(extract(epoch FROM t.time - v_now)) < 82800
                        AND t.time > v_namespace.ids_until) INTO v_plain
            FROM (SELECT id_time(u) AS time FROM unnest(v_ids) u) t;
    END IF;

    IF v_plain AND expected_versions IS NULL AND unique_keys IS NULL
       AND NOT v_namespace.gapless THEN
        v_positions := publish_plain(v_namespace, v_now, v_ids, types, v_payloads,
                                     publish_many.keys, tenants, v_metadata, producers,
                                     publish_many.emitted_at, v_guard);
        IF v_positions IS NOT NULL THEN
            RETURN QUERY SELECT (g.i - 1)::integer, g.id, g.position, false, NULL::bigint
                FROM unnest(v_ids, v_positions) WITH ORDINALITY AS g (id, position, i);
            PERFORM ring(v_namespace.id, v_namespace.sleep);
            RETURN;
        END IF;
    END IF;

    IF v_count > 1 AND unique_keys IS NOT NULL THEN
        PERFORM uniques_reserve(v_namespace.id, unique_keys);
    END IF;
    FOR i IN 1 .. v_count LOOP
        v_done := publish_next(v_namespace, v_ids[i], types[i], coalesce(v_payloads[i], 'null'),
                               publish_many.keys[i], tenants[i], v_metadata[i], producers[i],
                               coalesce(publish_many.emitted_at[i], v_now),
                               expected_versions[i], unique_keys[i], v_unique_us[i]);
        IF v_done.status <> HF_OK THEN
            RAISE EXCEPTION USING MESSAGE = format('event %s: %s', i - 1, v_done.message),
                ERRCODE = 'HF004';
        END IF;
        publish_many."index" := i - 1;
        publish_many.id := coalesce(v_done.first, v_ids[i]);
        publish_many."position" := nullif(v_done."position", 0);
        publish_many.duplicate := v_done.duplicate;
        publish_many.key_version := v_done.key_version;
        RETURN NEXT;
    END LOOP;
    PERFORM ring(v_namespace.id, v_namespace.sleep);
END
$$;

-- publish_many: the same for a JSON array of objects with the members type, payload, id, key,
-- tenant, metadata, producer, expected_version, emitted_at, unique (the unique key) and unique_for.
-- Payload and metadata are stored as the bytes that stand in the array. An unknown member is HF001.
CREATE OR REPLACE FUNCTION holdfast.publish_many(namespace text, events anycompatible)
    RETURNS TABLE ("index" integer, id uuid, "position" bigint, duplicate boolean,
                   key_version bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_events   json;
    v_types    text[];
    v_payloads json[];
    v_ids      uuid[];
    v_keys     text[];
    v_tenants  text[];
    v_metadata json[];
    v_producer text[];
    v_expected bigint[];
    v_emitted  timestamptz[];
    v_unique   text[];
    v_for      interval[];
    v_fault    text;
BEGIN
    v_events := publish_many.events; -- by casts of the caller's, which run with its own rights
    IF json_typeof(v_events) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'events is not a JSON array' USING ERRCODE = 'HF001';
    END IF;
    SELECT format('event %s is not an object', i - 1) INTO v_fault
        FROM json_array_elements(v_events) WITH ORDINALITY AS e (event, i)
        WHERE json_typeof(event) <> 'object' LIMIT 1;
    IF NOT FOUND THEN
        SELECT format('event %s has the unknown member %s', i - 1, left(name, 64)) INTO v_fault
            FROM json_array_elements(v_events) WITH ORDINALITY AS e (event, i),
                 json_object_keys(event) name
            WHERE name <> ALL ('{type, payload, id, key, tenant, metadata, producer,
                               expected_version, emitted_at, unique, unique_for}')
            LIMIT 1;
    END IF;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = v_fault, ERRCODE = 'HF001';
    END IF;
    SELECT array_agg(event ->> 'type' ORDER BY i), array_agg(event -> 'payload' ORDER BY i),
           array_agg((event ->> 'id')::uuid ORDER BY i), array_agg(event ->> 'key' ORDER BY i),
           array_agg(event ->> 'tenant' ORDER BY i),
           array_agg(CASE WHEN event ->> 'metadata' IS NOT NULL THEN event -> 'metadata' END
                     ORDER BY i),
           array_agg(event ->> 'producer' ORDER BY i),
           array_agg((event ->> 'expected_version')::bigint ORDER BY i),
           array_agg((event ->> 'emitted_at')::timestamptz ORDER BY i),
           array_agg(event ->> 'unique' ORDER BY i),
           array_agg((event ->> 'unique_for')::interval ORDER BY i)
        INTO v_types, v_payloads, v_ids, v_keys, v_tenants, v_metadata, v_producer, v_expected,
             v_emitted, v_unique, v_for
        FROM json_array_elements(v_events) WITH ORDINALITY AS e (event, i);
    -- Only what is given keeps the events from being stored by one statement.
    IF num_nonnulls(VARIADIC v_expected) = 0 THEN
        v_expected := NULL;
    END IF;
    IF num_nonnulls(VARIADIC v_unique) = 0 THEN
        v_unique := NULL;
    END IF;
    RETURN QUERY SELECT *
        FROM publish_many(publish_many.namespace, v_types, v_payloads, v_ids, v_keys,
                          v_tenants, v_metadata, v_producer, v_expected, v_emitted, v_unique,
                          v_for);
END
$$;
