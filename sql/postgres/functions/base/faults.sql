-- Faults: why a name, a type, a piece of JSON or an event is refused, in the words of the C
-- library.

-- What HF_NOTFOUND says of a subscription: store/common/missing.c has the same words.
CREATE OR REPLACE FUNCTION holdfast_private.missing_subscription(p_id bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN format('there is no subscription with id %s', $1);

-- A control character of a text, as the sentence that refuses it. p_before: what comes before it.
CREATE OR REPLACE FUNCTION holdfast_private.control_fault(p_text text, p_what text, p_before text)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN format('%s has the control character U+%s at byte %s', $2,
                  lpad(upper(to_hex(ascii(substr($1, length($3) + 1)))), 4, '0'), octet_length($3));

-- type_regex: what a type looks like. visible_regex: characters up to the first that is a space or
-- a control character. Texts with backslashes stand in bodies that were parsed when they were made,
-- or have an E: what others mean depends on standard_conforming_strings of the calling session.
CREATE OR REPLACE FUNCTION holdfast_private.type_regex() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '^[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+(\.'
        '[^*.\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*\Z';

CREATE OR REPLACE FUNCTION holdfast_private.visible_regex() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '^[^\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*';

-- lists_check: raises HF001 unless these arrays have one dimension and begin with the element 1;
-- any other is not the same by its subscripts and by unnest. It is given their array_dims, which is
-- NULL for NULL and for {}.
CREATE OR REPLACE FUNCTION holdfast_private.lists_check(VARIADIC p_dims text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_bad text := (SELECT d FROM unnest(p_dims) d WHERE d !~ '^[[]1:[0-9]+[]]$' LIMIT 1);
BEGIN
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'an array has the elements %; it takes one dimension, from 1',
            left(v_bad, 64) USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- Why a name of a namespace or subscription is refused; NULL if it is good. The rules, and the
-- words, are those of glob_check_name: 1 to p_bytes_max bytes, no control characters, no white
-- space at either end.
CREATE OR REPLACE FUNCTION holdfast_private.name_fault(p_name text, p_what text,
                                                       p_bytes_max integer)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN $1 IS NULL THEN $2 || ' is missing'
        WHEN $1 = '' THEN $2 || ' is empty'
        WHEN octet_length($1) > $3 THEN
            format('%s is %s bytes; the limit is %s', $2, octet_length($1), $3)
        WHEN $1 COLLATE "C" ~ '^[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
            THEN $2 || ' begins with white space'
        WHEN $1 COLLATE "C" ~ '[\u0001-\u001f\u007f-\u009f]' THEN
            holdfast_private.control_fault($1, $2,
                                           substring($1 COLLATE "C",
                                                     '^[^\u0001-\u001f\u007f-\u009f]*'))
        WHEN $1 COLLATE "C" ~ '[\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$'
            THEN $2 || ' ends with white space'
    END;

-- answer_check: raises what a change_... function has answered, if it is not 0.
CREATE OR REPLACE FUNCTION holdfast_private.answer_check(p_status integer, p_message text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_status <> HF_OK THEN
        RAISE EXCEPTION USING MESSAGE = p_message, ERRCODE = 'HF' || lpad(p_status::text, 3, '0');
    END IF;
END
$$;

-- json_types: the types that JSON may be given in.
CREATE OR REPLACE FUNCTION holdfast.json_types() RETURNS regtype[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{json, jsonb, text, varchar}'::regtype[];

-- json_check: whether a caller gave a value as JSON: json, jsonb, or a text, which is looked at
-- when it is used. Parameters for JSON of functions that all clients call are anycompatible for
-- this. Another type is refused before anything else is done with the value, in a statement of its
-- own: a role can make types, and casts by functions of its own, which would run with the rights of
-- the function that uses one, also while a statement is planned. HF001.
CREATE OR REPLACE FUNCTION holdfast.json_check(p_field text, p_value anyelement)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF pg_typeof(p_value) <> ALL (json_types()) THEN
        RAISE EXCEPTION '% has the type %; it must be json, jsonb or text', p_field,
            pg_typeof(p_value) USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- json_list_check: the same for an array of such values. A text is what a literal becomes whose
-- type nothing else says.
CREATE OR REPLACE FUNCTION holdfast_private.json_list_check(p_field text, p_value anyelement)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF pg_typeof(p_value) <> ALL ('{json[], jsonb[], text[], varchar[], text}'::regtype[]) THEN
        RAISE EXCEPTION '% has the type %; it must be json[], jsonb[] or text[]', p_field,
            pg_typeof(p_value) USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- fault_check: raises what a ..._fault function has found, if it is not NULL. HF001.
CREATE OR REPLACE FUNCTION holdfast_private.fault_check(p_fault text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_fault IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = p_fault, ERRCODE = 'HF001';
    END IF;
END
$$;

-- Whether JSON has \u0000 or half a surrogate pair, which cannot be stored as text later.
CREATE OR REPLACE FUNCTION holdfast_private.json_escapes_badly(p_json text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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

-- Whether arrays and objects are nested deeper than 64. Counting the opening brackets settles it
-- for most texts; else strings and all but brackets go, and pairs are taken away level by level
-- from the inside.
CREATE OR REPLACE FUNCTION holdfast_private.json_too_deep(p_json text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_text text := p_json;
BEGIN
    IF octet_length(p_json) - octet_length(replace(replace(p_json, '[', ''), '{', ''))
            <= HF_JSON_DEPTH_MAX THEN
        RETURN false;
    END IF;
    v_text := replace(replace(v_text, E'\\\\', ''), E'\\"', '');
    v_text := regexp_replace(v_text, '"[^"]*"|[^][{}"]+', '', 'g');
    v_text := translate(v_text, '{}', '[]');
    FOR i IN 1 .. HF_JSON_DEPTH_MAX LOOP
        v_text := replace(v_text, '[]', '');
        EXIT WHEN v_text = '';
    END LOOP;
    RETURN v_text <> '';
END
$$;

-- Why a type, or a pattern, is refused; NULL if it is good. p_what: 'type' or 'pattern'. The rules,
-- and the words, are those of glob_check_type and glob_check_pattern.
CREATE OR REPLACE FUNCTION holdfast_private.glob_fault(p_text text, p_what text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_before text;
    v_code   integer;
    v_parts  text[];
    v_at     integer := 0; -- where the segment begins, then its first star; in bytes, from 0
    v_star   integer;
BEGIN
    IF p_text = '' OR p_text IS NULL OR octet_length(p_text) > HF_TYPE_BYTES_MAX THEN
        RETURN name_fault(p_text, p_what, HF_TYPE_BYTES_MAX);
    END IF;
    v_before := substring(p_text COLLATE "C", visible_regex());
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
                RETURN format('pattern has ''**'' at byte %s; it may only be the last segment',
                              v_at);
            ELSIF v_parts[i] NOT IN ('*', '**') THEN
                RETURN format('pattern has ''*'' inside a segment at byte %s; ''*'' stands for a '
                              'whole segment', v_at);
            END IF;
        END IF;
        v_at := v_at + octet_length(v_parts[i]) + 1;
    END LOOP;
    RETURN NULL;
END
$$;

-- Why a type is refused; NULL if it is good, which one expression tells.
CREATE OR REPLACE FUNCTION holdfast_private.type_fault(p_type text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF octet_length(p_type) <= HF_TYPE_BYTES_MAX AND p_type COLLATE "C" ~ type_regex() THEN
        RETURN NULL;
    ELSIF p_type IS NULL THEN
        RETURN 'type is missing; every event needs one';
    END IF;
    RETURN glob_fault(p_type, 'type');
END
$$;

-- Why metadata is refused; NULL if it is good, or absent.
CREATE OR REPLACE FUNCTION holdfast_private.metadata_fault(p_metadata json, p_bytes_max integer)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN octet_length($1::text) > $2
            THEN format('metadata is %s bytes; the limit is %s', octet_length($1::text), $2)
        WHEN json_typeof($1) <> 'object' THEN 'metadata is JSON but not an object'
        WHEN holdfast_private.json_escapes_badly($1::text)
            THEN E'metadata has \\u0000 or an unpaired surrogate, which cannot be stored'
        WHEN holdfast_private.json_too_deep($1::text)
            THEN 'metadata has arrays and objects nested more than HF_JSON_DEPTH_MAX deep' END;

-- Why an event of a namespace is refused; NULL if it is good. The limits are those of
-- include/holdfast.h; that of the payload is the namespace's (limit_payload, namespaces.sql).
CREATE OR REPLACE FUNCTION holdfast_private.event_fault(
    p_namespace_id integer, p_type text, p_payload json, p_key text, p_tenant text, p_metadata json,
    p_producer text, p_expected_version bigint, p_emitted_at timestamptz)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_fault text := holdfast_private.type_fault(p_type);
    v_text  text := p_payload::text;
    v_max   integer;
BEGIN
    IF v_fault IS NOT NULL THEN
        RETURN v_fault;
    END IF;
    IF octet_length(v_text) > 1024 THEN
        v_max := coalesce((SELECT n.payload_bytes_max FROM namespaces n
                           WHERE n.id = p_namespace_id),
                          1048576);
        IF octet_length(v_text) > v_max THEN
            RETURN format('payload is %s bytes; the limit is %s (of the namespace; the owner of '
                          'the schema changes it by holdfast.limit_payload)', octet_length(v_text),
                          v_max);
        END IF;
    END IF;
    IF strpos(v_text, E'\\u') > 0 AND holdfast_private.json_escapes_badly(v_text) THEN
        RETURN E'payload has \\u0000 or an unpaired surrogate, which cannot be stored';
    END IF;
    IF octet_length(v_text) > 128 AND holdfast_private.json_too_deep(v_text) THEN
        RETURN 'payload has arrays and objects nested more than HF_JSON_DEPTH_MAX deep';
    END IF;
    IF octet_length(p_key) > HF_KEY_BYTES_MAX THEN
        RETURN format('key is %s bytes; the limit is HF_KEY_BYTES_MAX', octet_length(p_key));
    END IF;
    IF octet_length(p_tenant) > HF_KEY_BYTES_MAX THEN
        RETURN format('tenant is %s bytes; the limit is HF_KEY_BYTES_MAX', octet_length(p_tenant));
    END IF;
    IF p_metadata IS NOT NULL THEN
        v_fault := metadata_fault(p_metadata, HF_METADATA_BYTES_MAX);
        IF v_fault IS NOT NULL THEN
            RETURN v_fault;
        END IF;
    END IF;
    IF octet_length(p_producer) > HF_PRODUCER_BYTES_MAX THEN
        RETURN format('producer is %s bytes; the limit is HF_PRODUCER_BYTES_MAX',
                      octet_length(p_producer));
    END IF;
    IF p_expected_version IS NOT NULL THEN
        IF p_expected_version < 0 OR p_expected_version = 9223372036854775807 THEN
            RETURN format('expected_version is %s; it must be NULL (any) or 0 to '
                          '9223372036854775806',
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

-- Whether an event is good by one expression; if not, or NULL, event_fault tells. No namespace has
-- a lower limit for payloads than 1024 bytes. It is inlined.
CREATE OR REPLACE FUNCTION holdfast_private.event_is_plain(
    p_type text, p_payload json, p_key text, p_tenant text, p_metadata json, p_producer text,
    p_emitted_at timestamptz)
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN octet_length($1) <= HF_TYPE_BYTES_MAX
        AND $1 COLLATE "C" ~ holdfast_private.type_regex()
        AND (octet_length($2::text) <= 128
             OR octet_length($2::text) <= 1024
                AND octet_length($2::text)
                    - octet_length(replace(replace($2::text, '[', ''), '{', ''))
                    <= HF_JSON_DEPTH_MAX)
        AND strpos($2::text, E'\\u') = 0
        AND ($3 IS NULL OR octet_length($3) <= HF_KEY_BYTES_MAX)
        AND ($4 IS NULL OR octet_length($4) <= HF_KEY_BYTES_MAX)
        AND $5 IS NULL AND ($6 IS NULL OR octet_length($6) <= HF_PRODUCER_BYTES_MAX)
        AND $7 >= '0001-01-01 00:00:00+00' AND $7 < '10000-01-01 00:00:00+00';

-- events_check: raises what is wrong with events that a role sends the way C does, which says
-- itself what follows from them: their hashes and, unless it is NULL, the times inside their ids.
-- HF001.
CREATE OR REPLACE FUNCTION holdfast_private.events_check(
    p_namespace_id integer, p_ids uuid[], p_types text[], p_payloads json[], p_keys text[],
    p_tenants text[], p_metadata json[], p_producers text[], p_emitted_at timestamptz[],
    p_times timestamptz[], p_hashes bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_ids), 0);
    v_found record;
BEGIN
    IF v_count > HF_PUBLISH_MANY_MAX THEN
        RAISE EXCEPTION 'there are % events; the limit is HF_PUBLISH_MANY_MAX', v_count
            USING ERRCODE = 'HF001';
    ELSIF (v_count, v_count, v_count, v_count, v_count, v_count, v_count, v_count, v_count)
          IS DISTINCT FROM (
              coalesce(cardinality(p_types), 0), coalesce(cardinality(p_payloads), 0),
              coalesce(cardinality(p_keys), v_count), coalesce(cardinality(p_tenants), v_count),
              coalesce(cardinality(p_metadata), v_count),
              coalesce(cardinality(p_producers), v_count), coalesce(cardinality(p_emitted_at), 0),
              coalesce(cardinality(p_times), v_count), coalesce(cardinality(p_hashes), 0)) THEN
        RAISE EXCEPTION 'the arrays are not of one length' USING ERRCODE = 'HF001';
    END IF;
    PERFORM lists_check(array_dims(p_ids), array_dims(p_types), array_dims(p_payloads),
                        array_dims(p_keys), array_dims(p_tenants), array_dims(p_metadata),
                        array_dims(p_producers), array_dims(p_emitted_at), array_dims(p_times),
                        array_dims(p_hashes));
    SELECT e.i, f.fault INTO v_found
        FROM unnest(p_ids, p_types, p_payloads, p_keys, p_tenants, p_metadata, p_producers,
                    p_emitted_at, p_times, p_hashes) WITH ORDINALITY
            e (id, type, payload, key, tenant, metadata, producer, emitted_at, time, hash, i)
        CROSS JOIN LATERAL (SELECT CASE
            WHEN e.id IS NULL THEN 'id is missing'
            WHEN e.payload IS NULL THEN 'payload is missing'
            WHEN e.emitted_at IS NULL THEN 'emitted_at is missing'
            WHEN e.hash IS DISTINCT FROM hash_of(coalesce(e.tenant, e.key, e.id::text))
                THEN 'hash is not that of the event'
            WHEN p_times IS NOT NULL AND e.time IS DISTINCT FROM id_time(e.id)
                THEN 'the time is not that inside the id'
            WHEN event_is_plain(e.type, e.payload, e.key, e.tenant, e.metadata, e.producer,
                                e.emitted_at)
                THEN NULL
            ELSE event_fault(p_namespace_id, e.type, e.payload, e.key, e.tenant, e.metadata,
                             e.producer, NULL, e.emitted_at) END) f (fault)
        WHERE f.fault IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING MESSAGE = format('event %s: %s', v_found.i - 1, v_found.fault),
            ERRCODE = 'HF001';
    END IF;
END
$$;
