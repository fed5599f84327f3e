-- Subscriptions and namespaces for everybody: made, changed, moved, paused and dropped from psql and any
-- driver.
--
-- They are what hf_subscription_create, hf_seek, hf_pause, hf_namespace_create and the others are in C,
-- on the same functions below (0007_subscriptions.sql, 0015_namespaces.sql). Names, patterns and options
-- have the rules, limits and words of src/base/text/glob.c and src/bus/options.c; what is stored is the same
-- to the byte (tests/postgres/test_subscribing.c compares). They raise HF001 (an argument is outside its
-- limits), HF002 (a transaction that is not READ COMMITTED), HF003 (no such namespace or subscription, or
-- the namespace is being removed), HF004 (it exists with another mode or order; somebody has the namespace
-- open), HF007 (a transaction that has published does not end, so nobody can say what "now" is) and HF011
-- (it is being copied into; it cannot be made anew yet, because it is being removed); then nothing was
-- changed. Who may not do it hears 42501 (0023_grants.sql).
--
-- Each works in the caller's transaction, and locks the subscription to its end; dropping a namespace
-- is many transactions, and so a procedure.

-- ---- Options ------------------------------------------------------------------------------------

-- The table of src/bus/options.c. words: the option is one of these, and initial is its number, from 1;
-- NULL: it is a number, of so many decimal places.
CREATE FUNCTION holdfast.option_rows()
    RETURNS TABLE (place integer, name text, initial numeric, low numeric, high numeric,
                   decimals integer, words text[])
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
    VALUES
        (1, 'mode', 1, 1, 2, 0, '{ordered,shared}'::text[]),
        (2, 'order', 1, 1, 2, 0, '{relaxed,strict}'),
        (3, 'instance_mode', 1, 1, 2, 0, '{coordinated,single}'),
        (4, 'on_unhandled', 1, 1, 2, 0, '{skip,dead_letter}'),
        (5, 'on_poison', 1, 1, 3, 0, '{skip,block_key,halt}'),
        (6, 'transactional', 1, 1, 2, 0, '{off,on}'),
        (7, 'breaker', 1, 1, 2, 0, '{off,on}'),
        (8, 'partitions', 1, 1, 1024, 0, NULL),
        (9, 'batch', 100, 1, 10000, 0, NULL),
        (10, 'concurrency', 1, 1, 256, 0, NULL),
        (11, 'inflight_max', 1000, 1, 100000, 0, NULL),
        (12, 'attempts_max', 4, 1, 100, 0, NULL),
        (13, 'retry_jitter_percent', 10, 0, 100, 0, NULL),
        (14, 'retry_base_ms', 1000, 0, 31622400000, 0, NULL),
        (15, 'retry_max_ms', 30000, 0, 31622400000, 0, NULL),
        (16, 'retry_multiplier', 2, 1, 100, 2, NULL),
        (17, 'handler_timeout_ms', 30000, 1, 86400000, 0, NULL),
        (18, 'lease_ms', 30000, 10, 604800000, 0, NULL),
        (19, 'checkpoint_events', 100, 1, 100000, 0, NULL),
        (20, 'checkpoint_ms', 1000, 0, 3600000, 0, NULL),
        (21, 'wait_period_ms', 1000, 1, 3600000, 0, NULL),
        (22, 'tx_max_ms', 1000, 1, 60000, 0, NULL),
        (23, 'gap_timeout_ms', 0, 0, 86400000, 0, NULL),
        (24, 'stuck_max', 16, 1, 256, 0, NULL),
        (25, 'breaker_events', 20, 1, 100000, 0, NULL),
        (26, 'breaker_percent', 50, 0, 99, 0, NULL),
        (27, 'breaker_window_ms', 60000, 10, 86400000, 0, NULL),
        (28, 'breaker_pause_ms', 30000, 1, 86400000, 0, NULL),
        (29, 'batch_by', 1, 1, 2, 0, '{none,key}'),
        (30, 'on_batch_failure', 1, 1, 2, 0, '{dead_letter_unit,split}'),
        (31, 'batch_extend_max', 1000, 0, 10000, 0, NULL)
$$;

-- The known option that has most pairs of letters in common with a mistyped one; NULL: none has many.
CREATE FUNCTION holdfast.option_near(p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
    WITH pairs AS (
            SELECT DISTINCT w.name, substr(w.name, i, 2) AS pair
            FROM (SELECT lower(left(p_name, 64)) UNION SELECT r.name FROM option_rows() r) w (name),
                 generate_series(1, length(w.name) - 1) i),
        near AS (
            SELECT k.name, count(g.pair) * 2.0 / (count(*) + (
                       SELECT count(*) FROM pairs p WHERE p.name = lower(left(p_name, 64)))) AS near
            FROM pairs k JOIN option_rows() r ON r.name = k.name
            LEFT JOIN pairs g ON g.name = lower(left(p_name, 64)) AND g.pair = k.pair
            GROUP BY k.name)
    SELECT n.name FROM near n WHERE n.near >= 0.5 ORDER BY n.near DESC, n.name LIMIT 1
$$;

-- What a caller gives: options, and two of them that have arguments of their own. HF001.
CREATE FUNCTION holdfast.options_given(p_options jsonb, p_mode text, p_partitions integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_options jsonb := coalesce(p_options, '{}');
    v_apart   jsonb := jsonb_strip_nulls(jsonb_build_object('mode', p_mode, 'partitions', p_partitions));
    v_name    text;
BEGIN
    IF jsonb_typeof(v_options) <> 'object' THEN
        RAISE EXCEPTION 'options is JSON but not an object' USING ERRCODE = 'HF001';
    END IF;
    SELECT k.name INTO v_name FROM jsonb_object_keys(v_options) k (name)
        WHERE k.name NOT IN (SELECT r.name FROM option_rows() r) ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = concat(
            'there is no option ', left(v_name, 64), '; did you mean ' || option_near(v_name) || '?');
    END IF;
    SELECT k.name INTO v_name FROM jsonb_object_keys(v_apart) k (name) WHERE v_options ? k.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is given twice: as an argument, and among the options', v_name
            USING ERRCODE = 'HF001';
    END IF;
    RETURN v_options || v_apart;
END
$$;

-- Why a value of an option is refused; NULL if it is good.
CREATE FUNCTION holdfast.option_fault(p_name text, p_value jsonb, p_low numeric, p_high numeric,
                                      p_decimals integer, p_words text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_shown text := left(p_value #>> '{}', 64);
BEGIN
    IF p_words IS NOT NULL THEN
        RETURN CASE WHEN jsonb_typeof(p_value) = 'string' AND p_value #>> '{}' = ANY (p_words) THEN NULL
                    ELSE format('%s is %s; it must be one of %s', p_name, coalesce(v_shown, 'null'),
                                array_to_string(p_words, ', ')) END;
    ELSIF jsonb_typeof(p_value) <> 'number' THEN
        v_shown := left(p_value::text, 64);
    ELSIF p_value::numeric BETWEEN p_low AND p_high
          AND (p_decimals > 0 OR p_value::numeric = trunc(p_value::numeric)) THEN
        RETURN NULL;
    ELSIF p_decimals > 0 THEN
        v_shown := left(round(p_value::numeric, p_decimals)::text, 64);
    END IF;
    RETURN format('%s is %s; it must be %s to %s', p_name, v_shown, round(p_low, p_decimals),
                  round(p_high, p_decimals));
END
$$;

-- What does not go together, as options_check of C has it; NULL if all is good.
CREATE FUNCTION holdfast.options_clash(p_options jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
    SELECT CASE
        WHEN retry_max_ms < retry_base_ms THEN
            format('retry_max_ms is %s; it must be at least retry_base_ms (%s)', retry_max_ms,
                   retry_base_ms)
        WHEN partitions > 1 AND mode = 'shared' THEN
            format('partitions is %s; a shared subscription has 1: any number of processes work for it '
                   'as it is', partitions)
        WHEN "order" = 'strict' AND mode = 'shared' THEN
            'order is strict, and a shared subscription has no order: its workers take batches at the '
            'same time'
        WHEN partitions > 1 AND "order" = 'strict' THEN
            format('partitions is %s; in strict order there can only be 1, because all events come one '
                   'after another', partitions)
        WHEN on_batch_failure = 'split' AND on_poison = 'block_key' THEN
            'on_batch_failure is split, which goes with on_poison skip or halt: the neighbours of a '
            'poison event live, and block_key would keep them back'
        WHEN on_poison = 'block_key' AND mode = 'shared' THEN
            'on_poison is block_key, and a shared subscription has no order of keys to keep: use skip '
            'or halt, or an ordered subscription' END
    FROM jsonb_to_record(p_options) o (retry_max_ms bigint, retry_base_ms bigint, partitions integer,
                                       mode text, "order" text, on_batch_failure text, on_poison text)
$$;

-- Options that are stored, or none, with those that are given: complete, as JSON the way C writes it.
-- HF001.
CREATE FUNCTION holdfast.options_merge(p_stored jsonb, p_given jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
    SET extra_float_digits = 1
AS $$
DECLARE
    v_options jsonb;
    v_fault   text;
    v_text    text;
BEGIN
    SELECT jsonb_object_agg(r.name, coalesce(p_given -> r.name, p_stored -> r.name,
                                             to_jsonb(r.words[r.initial::integer]), to_jsonb(r.initial)))
        INTO v_options FROM option_rows() r;
    SELECT f.fault INTO v_fault
        FROM option_rows() r, LATERAL option_fault(r.name, v_options -> r.name, r.low, r.high, r.decimals,
                                                   r.words) f (fault)
        WHERE f.fault IS NOT NULL ORDER BY r.place LIMIT 1;
    PERFORM fault_check(coalesce(v_fault, options_clash(v_options)));
    SELECT '{' || string_agg(concat('"', r.name, '":', CASE
                WHEN r.words IS NOT NULL THEN (v_options -> r.name)::text
                WHEN r.decimals > 0 THEN (v_options ->> r.name)::double precision::text
                ELSE (v_options ->> r.name)::numeric::bigint::text END), ',' ORDER BY r.place) || '}'
        INTO v_text FROM option_rows() r;
    RETURN v_text;
END
$$;

-- ---- Patterns and places ------------------------------------------------------------------------

-- Why patterns are refused; NULL if they are good.
CREATE FUNCTION holdfast.patterns_fault(p_name text, p_patterns text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_count integer := coalesce(cardinality(p_patterns), 0);
    v_fault text;
BEGIN
    IF v_count NOT BETWEEN 1 AND 64 THEN
        RETURN format('subscription %s: %s patterns; it takes 1 to 64', p_name, v_count);
    END IF;
    SELECT f.fault INTO v_fault
        FROM unnest(p_patterns) WITH ORDINALITY p (pattern, place),
             LATERAL (SELECT CASE WHEN p.pattern IS NULL
                                  THEN format('subscription %s: pattern is NULL', p_name)
                                  ELSE glob_fault(p.pattern, 'pattern') END) f (fault)
        WHERE f.fault IS NOT NULL ORDER BY p.place LIMIT 1;
    RETURN v_fault;
END
$$;

-- The newest position that was ever drawn, when nobody is left who may have drawn it or one below and
-- has not ended, as postgres_now of C: whatever is at or below it is decided, but for what the caller's
-- own transaction has published. Whoever has drawn one has declared it (publishing); one that is prepared
-- meanwhile changes its name, so those are waited for in any case. HF007.
CREATE FUNCTION holdfast.now_find(p_namespace holdfast.namespaces) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    c_wait    constant interval := '10 s';
    v_until   timestamptz := clock_timestamp() + c_wait;
    v_head    bigint := head(p_namespace.id);
    v_first   text[]; -- whom the first look has seen
    v_pid     integer;
    v_holders text[];
BEGIN
    LOOP
        SELECT array_agg(l.virtualtransaction), min(l.pid) INTO v_holders, v_pid
            FROM publishing_now(p_namespace.id) l
            WHERE l.pid IS DISTINCT FROM pg_backend_pid()
                AND (v_first IS NULL OR l.virtualtransaction = ANY (v_first) OR l.pid IS NULL);
        EXIT WHEN v_holders IS NULL;
        v_first := coalesce(v_first, v_holders);
        IF clock_timestamp() > v_until THEN
            RAISE EXCEPTION USING ERRCODE = 'HF007', MESSAGE = coalesce(
                'a transaction of the server''s process ' || v_pid, 'a prepared transaction')
                || ' has published and does not end';
        END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN v_head;
END
$$;

-- What a place says, whatever there is in the log: one of three words, a position, or a time; NULL is none
-- of them. HF001.
CREATE FUNCTION holdfast.place_read(p_place text, OUT word text, OUT "position" numeric,
                                    OUT "time" timestamptz)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF p_place IN ('start', 'now', 'end') THEN
        word := p_place;
    ELSIF p_place ~ '^-[0-9]{1,100}$' THEN
        RAISE EXCEPTION 'position is %; it must be 0 or more', p_place USING ERRCODE = 'HF001';
    ELSIF p_place ~ '^[0-9]{1,100}$' THEN
        "position" := p_place;
    ELSE
        BEGIN
            "time" := p_place;
        EXCEPTION WHEN data_exception THEN
            RAISE EXCEPTION 'place is %; it takes start, now, a position or a time', left(p_place, 64)
                USING ERRCODE = 'HF001';
        END;
        IF "time" < '0001-01-01 00:00:00+00' OR "time" >= '10000-01-01 00:00:00+00' THEN
            RAISE EXCEPTION 'place is the time %, which is outside the years 0001 to 9999', "time"
                USING ERRCODE = 'HF001';
        END IF;
    END IF;
END
$$;

-- A place as the position after which reading begins. count: how many positions come after it. HF001,
-- HF007.
CREATE FUNCTION holdfast.place_find(p_namespace holdfast.namespaces, p_place text,
                                    OUT "position" bigint, OUT count bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_place record := place_read(p_place);
    v_head  bigint := head(p_namespace.id);
    v_first bigint;
BEGIN
    EXECUTE format('SELECT least($1, (SELECT e.position FROM holdfast.events_%s e '
                   'ORDER BY e.position LIMIT 1))', p_namespace.id)
        INTO v_first USING p_namespace.retained_through + 1;
    IF p_place IS NULL THEN
        RAISE EXCEPTION 'no place is given: say start, now, a position or a time'
            USING ERRCODE = 'HF001';
    ELSIF v_place.word = 'start' THEN
        "position" := v_first - 1;
    ELSIF v_place.word IN ('now', 'end') THEN
        "position" := now_find(p_namespace);
    ELSIF v_place."position" > v_head THEN
        RAISE EXCEPTION 'position % is beyond the end of the log, which is %', p_place, v_head
            USING ERRCODE = 'HF001';
    ELSIF v_place."position" IS NOT NULL THEN
        "position" := v_place."position";
    ELSE
        "position" := position_before(p_namespace.id, v_place."time");
    END IF;
    count := greatest(0, v_head - greatest("position", v_first - 1));
END
$$;

-- ---- Subscriptions ------------------------------------------------------------------------------

-- A subscription by its name. HF001, HF003, 42501.
CREATE FUNCTION holdfast.subscription_find(p_namespace_id integer, p_name text)
    RETURNS holdfast.subscriptions
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_subscription subscriptions;
BEGIN
    PERFORM fault_check(name_fault(p_name, 'subscription name', 255));
    SELECT * INTO v_subscription FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no subscription %', left(p_name, 255) USING ERRCODE = 'HF003';
    END IF;
    RETURN v_subscription;
END
$$;

-- The options of a stored subscription with those that are given, of which mode and order must be what
-- they are. HF001, HF004.
CREATE FUNCTION holdfast.subscription_options(p_stored holdfast.subscriptions, p_given jsonb)
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_stored jsonb := p_stored.options::jsonb || jsonb_build_object(
        'mode', (ARRAY['ordered', 'shared'])[p_stored.mode],
        'partitions', coalesce(p_stored.wanted, p_stored.partitions));
    v_name   text;
    v_value  text;
BEGIN
    FOREACH v_name IN ARRAY ARRAY['mode', 'order'] LOOP
        v_value := coalesce(v_stored ->> v_name, 'relaxed');
        IF p_given ->> v_name <> v_value THEN
            RAISE EXCEPTION 'subscription % exists with % %; the % cannot be changed', p_stored.name,
                v_name, v_value, v_name USING ERRCODE = 'HF004';
        END IF;
    END LOOP;
    RETURN options_merge(v_stored, p_given);
END
$$;

-- Makes a subscription, or changes the one of this name. p_patterns NULL: they stay; p_create: it need
-- not exist. True: it is new. Whoever finds that another has made it meanwhile changes it.
CREATE FUNCTION holdfast.subscription_put(p_namespace holdfast.namespaces, p_name text,
                                          p_patterns text[], p_place text, p_given jsonb,
                                          p_create boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c_tries_max constant integer := 10;
    v_patterns  text;
    v_options   text;
    v_stored    subscriptions;
    v_done      record;
BEGIN
    PERFORM demand_read_committed('subscriptions need');
    PERFORM place_read(p_place); -- one that cannot be is refused, though it is not needed
    PERFORM commit_durably();
    SELECT '[' || string_agg(to_json(p.pattern)::text, ',' ORDER BY p.place) || ']' INTO v_patterns
        FROM unnest(p_patterns) WITH ORDINALITY p (pattern, place);
    FOR try IN 1 .. c_tries_max LOOP
        SELECT * INTO v_stored FROM subscriptions s
            WHERE s.namespace_id = p_namespace.id AND s.name = p_name FOR NO KEY UPDATE;
        IF FOUND THEN
            v_options := subscription_options(v_stored, p_given);
        ELSIF NOT p_create THEN
            RAISE EXCEPTION 'there is no subscription %', left(p_name, 255) USING ERRCODE = 'HF003';
        ELSE
            v_options := options_merge('{"wait_period_ms": 10000}', p_given);
            IF p_place IS NULL THEN
                RAISE EXCEPTION 'subscription % is new: say where it starts (place: start, now, a '
                                'position or a time)', p_name USING ERRCODE = 'HF001';
            END IF;
        END IF;
        v_done := change_subscription_put(
            p_namespace.id, p_name, v_patterns, v_options,
            CASE WHEN v_options::jsonb ->> 'mode' = 'shared' THEN 2 ELSE 1 END,
            (v_options::jsonb ->> 'partitions')::integer,
            CASE WHEN v_stored.id IS NULL THEN (place_find(p_namespace, p_place))."position" END,
            coalesce(v_stored.generation, 0), clock_timestamp());
        EXIT WHEN v_done.status <> 4;
    END LOOP;
    PERFORM answer_check(v_done.status, v_done.message);
    -- If nobody works for it and all partitions are equally far another number need not wait.
    PERFORM change_repartition(p_namespace.id, v_done.id, '00000000-0000-0000-0000-000000000000',
                               clock_timestamp(), NULL, NULL);
    PERFORM ring(p_namespace.id, p_namespace.sleep);
    RETURN v_done.created;
END
$$;

-- create_subscription: makes a subscription, or changes the one of this name: its patterns become these,
-- and the options that are given replace the stored ones; mode and order cannot change. place: where a
-- new one starts: 'start', 'now', a position (it starts after it) or a time. True: it is new.
CREATE FUNCTION holdfast.create_subscription(namespace text, name text, patterns text[],
                                             place text DEFAULT NULL, mode text DEFAULT NULL,
                                             partitions integer DEFAULT NULL,
                                             options jsonb DEFAULT '{}',
                                             p_ticket bytea DEFAULT holdfast.ticket()) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
BEGIN
    PERFORM fault_check(coalesce(name_fault(name, 'subscription name', 255),
                                 patterns_fault(name, patterns)));
    RETURN subscription_put(v_namespace, name, patterns, place,
                            options_given(options, mode, partitions), true);
END
$$;

-- alter_subscription: changes one that exists. What is not given stays.
CREATE FUNCTION holdfast.alter_subscription(namespace text, name text, patterns text[] DEFAULT NULL,
                                            partitions integer DEFAULT NULL,
                                            options jsonb DEFAULT '{}',
                                            p_ticket bytea DEFAULT holdfast.ticket()) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
BEGIN
    PERFORM fault_check(coalesce(
        name_fault(name, 'subscription name', 255),
        CASE WHEN patterns IS NOT NULL THEN patterns_fault(name, patterns) END));
    PERFORM subscription_put(v_namespace, name, patterns, NULL,
                             options_given(options, NULL, partitions), false);
END
$$;

-- drop_subscription: with its progress, its retries and its leases; its dead letters stay. Waits for
-- claims and settles under way.
CREATE FUNCTION holdfast.drop_subscription(namespace text, name text,
                                           p_ticket bytea DEFAULT holdfast.ticket()) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
    v_done      record;
BEGIN
    PERFORM fault_check(name_fault(name, 'subscription name', 255));
    PERFORM demand_read_committed('subscriptions need');
    PERFORM commit_durably();
    v_done := change_subscription_remove(v_namespace.id, name);
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring(v_namespace.id, v_namespace.sleep);
END
$$;

-- Pauses or resumes.
CREATE FUNCTION holdfast.subscription_pause(p_ticket bytea, p_namespace text, p_name text, p_paused boolean,
                                            p_reason text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace    namespaces := enter(p_ticket, p_namespace, 'change the subscriptions of',
                                       'consumer', 'owner');
    v_subscription subscriptions := subscription_find(v_namespace.id, p_name);
    v_done         record;
BEGIN
    IF octet_length(p_reason) > 2048 THEN
        RAISE EXCEPTION 'reason is % bytes; the limit is 2048', octet_length(p_reason)
            USING ERRCODE = 'HF001';
    END IF;
    PERFORM commit_durably();
    v_done := change_pause(v_namespace.id, v_subscription.id, p_paused,
                           CASE WHEN p_paused THEN session_user::text END, p_reason, clock_timestamp());
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring(v_namespace.id, v_namespace.sleep);
END
$$;

-- pause_subscription: nothing is handed out until resume_subscription; what is at work may finish.
CREATE FUNCTION holdfast.pause_subscription(namespace text, name text, reason text DEFAULT NULL,
                                            p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM subscription_pause(p_ticket, namespace, name, true, reason);
END
$$;

-- resume_subscription: ends a pause, and closes an open breaker.
CREATE FUNCTION holdfast.resume_subscription(namespace text, name text,
                                             p_ticket bytea DEFAULT holdfast.ticket()) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM subscription_pause(p_ticket, namespace, name, false, NULL);
END
$$;

-- seek_subscription: moves it to another place, as create_subscription has them. Leases end, waiting
-- retries and held events go, dead letters stay. Answers the position and how many positions come after
-- it. dry_run: only answers. Waits for claims and settles under way.
CREATE FUNCTION holdfast.seek_subscription(namespace text, name text, place text,
                                           dry_run boolean DEFAULT false,
                                           OUT "position" bigint, OUT count bigint,
                                           p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_namespace    namespaces;
    v_subscription subscriptions;
    v_found        record;
    v_done         record;
BEGIN
    IF coalesce(dry_run, false) THEN
        v_namespace := enter(p_ticket, namespace, 'see the subscriptions of', 'viewer', 'consumer', 'owner');
    ELSE
        v_namespace := enter(p_ticket, namespace, 'change the subscriptions of', 'consumer', 'owner');
    END IF;
    v_subscription := subscription_find(v_namespace.id, name);
    PERFORM demand_read_committed('subscriptions need');
    v_found := place_find(v_namespace, place);
    IF NOT coalesce(dry_run, false) THEN
        PERFORM commit_durably();
        v_done := change_seek(v_namespace.id, v_subscription.id, v_found."position", clock_timestamp());
        PERFORM answer_check(v_done.status, v_done.message);
        PERFORM ring(v_namespace.id, v_namespace.sleep);
    END IF;
    "position" := v_found."position";
    count := v_found.count;
END
$$;

-- ---- Namespaces ---------------------------------------------------------------------------------

-- Makes a namespace, or changes it. What is NULL stays. HF001, HF003, HF004, HF011.
CREATE FUNCTION holdfast.namespace_set(p_name text, p_gapless boolean, p_metadata json,
                                       p_retention_ms bigint, p_retention_bytes bigint, p_lagging text,
                                       p_create boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_done record;
BEGIN
    PERFORM fault_check(coalesce(
        name_fault(p_name, 'namespace name', 128),
        metadata_fault(p_metadata, 65536),
        CASE WHEN p_retention_ms NOT BETWEEN 0 AND 31622400000000
                 THEN format('retention_ms is %s; it takes 0 to 31622400000000', p_retention_ms)
             WHEN p_retention_bytes < 0
                 THEN format('retention_bytes is %s; it takes 0 and more', p_retention_bytes)
             WHEN p_lagging NOT IN ('keep', 'drop')
                 THEN format('lagging is %s; it takes keep or drop', left(p_lagging, 64)) END));
    PERFORM demand_read_committed('namespaces need');
    PERFORM commit_durably();
    v_done := change_namespace_put(p_name, p_metadata, p_gapless, p_create, p_retention_ms,
                                   p_retention_bytes, p_lagging = 'drop');
    PERFORM answer_check(v_done.status, v_done.message);
    RETURN v_done.created;
END
$$;

-- create_namespace: makes a namespace, or changes the one of this name. gapless, which cannot change:
-- positions have no gaps, and publishers queue. retention_ms: how long events stay, 0: for ever;
-- retention_bytes: how large the log may become, 0: no limit; lagging: whether what a subscription has
-- not finished is kept or dropped then. True: it is new. For the owner of the schema.
CREATE FUNCTION holdfast.create_namespace(namespace text, gapless boolean DEFAULT NULL,
                                          metadata json DEFAULT NULL, retention_ms bigint DEFAULT NULL,
                                          retention_bytes bigint DEFAULT NULL,
                                          lagging text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    RETURN namespace_set(namespace, gapless, metadata, retention_ms, retention_bytes, lagging, true);
END
$$;

-- alter_namespace: changes one that exists. What is not given stays. For the owner of the schema.
CREATE FUNCTION holdfast.alter_namespace(namespace text, metadata json DEFAULT NULL,
                                         retention_ms bigint DEFAULT NULL,
                                         retention_bytes bigint DEFAULT NULL,
                                         lagging text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    PERFORM namespace_set(namespace, NULL, metadata, retention_ms, retention_bytes, lagging, false);
END
$$;

-- One step of dropping a namespace. It gives way to whoever uses the log, and tries again; if that takes
-- longer than 10 s, 55P03. True: call it again, in another transaction.
CREATE FUNCTION holdfast.namespace_drop_step(p_name text, p_force boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    c_wait  constant interval := '10 s';
    v_until timestamptz := clock_timestamp() + c_wait;
    v_done  record;
BEGIN
    PERFORM fault_check(name_fault(p_name, 'namespace name', 128));
    -- It may wait long; who opens the namespace meanwhile must be seen.
    PERFORM demand_read_committed('namespaces need');
    LOOP
        BEGIN
            v_done := change_namespace_remove(0, p_name, coalesce(p_force, false), 1000);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > v_until THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(0.05);
    END LOOP;
    PERFORM answer_check(v_done.status, v_done.message);
    RETURN v_done.more;
END
$$;

-- drop_namespace: with everything in it, by many small transactions: CALL it outside of one. If it does
-- not get to its end, calling it again goes on. force: although a process that is alive has it open
-- (HF004). The session's transactions must be READ COMMITTED. A procedure that ends transactions cannot
-- name a search_path, so it says where everything is, and has no operators. For the owner of the schema.
CREATE PROCEDURE holdfast.drop_namespace(namespace text, force boolean DEFAULT false)
    LANGUAGE plpgsql
AS $$
BEGIN
    COMMIT; -- in somebody's transaction this fails, and nothing is done
    WHILE holdfast.namespace_drop_step(drop_namespace.namespace, drop_namespace.force) LOOP
        COMMIT;
    END LOOP;
END
$$;

-- ---- Rights -------------------------------------------------------------------------------------

-- What runs with its owner's rights is for the roles that 0023_grants.sql grants it to, and for nobody else;
-- the functions of triggers are for none. This stands at the end of all that makes functions.
DO $$
BEGIN
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', holdfast.entry_list(NULL));
END
$$;
