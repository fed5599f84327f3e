-- Subscriptions and namespaces for all clients: made, changed, moved, paused and dropped from psql
-- and any driver.
--
-- They are what hf_subscription_create, hf_seek, hf_pause, hf_namespace_create and the others are
-- in C, on the same functions below (subscriptions.sql, namespaces.sql). Names, patterns and
-- options have the rules, limits and words of src/base/text/glob.c and src/bus/options.c; what is
-- stored is the same to the byte (tests/postgres/test_subscribing.c compares). They raise HF001 (an
-- argument is outside its limits), HF002 (a transaction that is not READ COMMITTED), HF003 (no such
-- namespace or subscription, or the namespace is being removed), HF004 (it exists with another mode
-- or order; a process has the namespace open), HF007 (a transaction that has published does not
-- end, so it is not known what "now" is) and HF011 (it is being copied into; it cannot be made anew
-- yet, because it is being removed); then nothing was changed. A role that may not do it gets 42501
-- (grants.sql).
--
-- Each works in the caller's transaction, and locks the subscription to its end; dropping a
-- namespace is many transactions, and so a procedure.

-- A subscription by its name. HF001, HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_find(p_namespace_id integer, p_name text)
    RETURNS holdfast_private.subscriptions
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_subscription subscriptions;
BEGIN
    PERFORM fault_check(name_fault(p_name, 'subscription name', HF_NAME_BYTES_MAX));
    SELECT * INTO v_subscription FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no subscription %', left(p_name, HF_NAME_BYTES_MAX)
            USING ERRCODE = 'HF003';
    END IF;
    RETURN v_subscription;
END
$$;

-- The options of a stored subscription with those that are given, of which mode and order must be
-- what they are. HF001, HF004.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_options(
    p_stored holdfast_private.subscriptions, p_given jsonb)
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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
            RAISE EXCEPTION 'subscription % exists with % %; the % cannot be changed',
                p_stored.name, v_name, v_value, v_name USING ERRCODE = 'HF004';
        END IF;
    END LOOP;
    RETURN options_merge(v_stored, p_given);
END
$$;

-- Makes a subscription, or changes the one of this name. p_patterns NULL: they stay; p_create: it
-- need not exist. True: it is new. A caller that finds that another has made it meanwhile changes
-- it.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_put(
    p_namespace holdfast_private.namespaces, p_name text, p_patterns text[], p_place text,
    p_given jsonb, p_create boolean, p_ticket bytea)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
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
            RAISE EXCEPTION 'there is no subscription %', left(p_name, HF_NAME_BYTES_MAX)
                USING ERRCODE = 'HF003';
        ELSE
            v_options := options_merge('{"wait_period_ms": 10000}', p_given);
            IF p_place IS NULL THEN
                RAISE EXCEPTION 'subscription % is new: say where it starts (place: start, now, a '
                                'position or a time)', p_name USING ERRCODE = 'HF001';
            ELSIF NOT p_given ? 'mode' THEN
                RAISE EXCEPTION 'subscription % is new: say its mode (shared: handed out by '
                                'claim; ordered: delivered in order by workers of the library)',
                    p_name USING ERRCODE = 'HF001';
            END IF;
        END IF;
        v_done := change_subscription_put(
            p_namespace.id, p_name, v_patterns, v_options,
            CASE WHEN v_options::jsonb ->> 'mode' = 'shared' THEN 2 ELSE 1 END,
            (v_options::jsonb ->> 'partitions')::integer,
            CASE WHEN v_stored.id IS NULL THEN (place_find(p_namespace, p_place))."position" END,
            coalesce(v_stored.generation, 0), clock_timestamp(), p_ticket);
        EXIT WHEN v_done.status <> HF_CONFLICT;
    END LOOP;
    PERFORM answer_check(v_done.status, v_done.message);
    -- If no process works for it and all partitions are equally far another number need not wait.
    PERFORM change_repartition(p_namespace.id, v_done.id, '00000000-0000-0000-0000-000000000000',
                               clock_timestamp(), NULL, NULL);
    PERFORM ring_all(p_namespace.id, p_namespace.sleep);
    RETURN v_done.created;
END
$$;

-- create_subscription: makes a subscription, or changes the one of this name: its patterns become
-- these, and the options that are given replace the stored ones; mode and order cannot change.
-- place: where a new one starts: 'start', 'now', a position (it starts after it) or a time. mode:
-- of a new one: 'shared' or 'ordered'. True: it is new.
CREATE OR REPLACE FUNCTION holdfast.create_subscription(namespace text, name text, patterns text[],
                                                        place text DEFAULT NULL,
                                                        mode text DEFAULT NULL,
                                                        partitions integer DEFAULT NULL,
                                                        options anycompatible DEFAULT '{}',
                                                        p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
    v_options   jsonb;
BEGIN
    PERFORM json_check('options', options);
    v_options := options;
    PERFORM fault_check(coalesce(name_fault(name, 'subscription name', HF_NAME_BYTES_MAX),
                                 patterns_fault(name, patterns)));
    RETURN subscription_put(v_namespace, name, patterns, place,
                            options_given(v_options, mode, partitions), true, p_ticket);
END
$$;

-- alter_subscription: changes one that exists. What is not given stays.
CREATE OR REPLACE FUNCTION holdfast.alter_subscription(namespace text, name text,
                                                       patterns text[] DEFAULT NULL,
                                                       partitions integer DEFAULT NULL,
                                                       options anycompatible DEFAULT '{}',
                                                       p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
    v_options   jsonb;
BEGIN
    PERFORM json_check('options', options);
    v_options := options;
    PERFORM fault_check(coalesce(
        name_fault(name, 'subscription name', HF_NAME_BYTES_MAX),
        CASE WHEN patterns IS NOT NULL THEN patterns_fault(name, patterns) END));
    PERFORM subscription_put(v_namespace, name, patterns, NULL,
                             options_given(v_options, NULL, partitions), false, p_ticket);
END
$$;

-- drop_subscription: with its progress, its retries and its leases; its dead letters stay. Waits
-- for claims and settles under way.
CREATE OR REPLACE FUNCTION holdfast.drop_subscription(namespace text, name text,
                                                      p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace, 'change the subscriptions of',
                                    'consumer', 'owner');
    v_done      record;
BEGIN
    PERFORM fault_check(name_fault(name, 'subscription name', HF_NAME_BYTES_MAX));
    PERFORM demand_read_committed('subscriptions need');
    PERFORM commit_durably();
    v_done := change_subscription_remove(v_namespace.id, name);
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;

-- Pauses or resumes.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_pause(p_ticket bytea, p_namespace text,
                                                               p_name text, p_paused boolean,
                                                               p_reason text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace    namespaces := enter(p_ticket, p_namespace, 'change the subscriptions of',
                                       'consumer', 'owner');
    v_subscription subscriptions := subscription_find(v_namespace.id, p_name);
    v_done         record;
BEGIN
    IF octet_length(p_reason) > HF_ERROR_BYTES_MAX THEN
        RAISE EXCEPTION 'reason is % bytes; the limit is HF_ERROR_BYTES_MAX', octet_length(p_reason)
            USING ERRCODE = 'HF001';
    END IF;
    PERFORM commit_durably();
    v_done := change_pause(v_namespace.id, v_subscription.id, p_paused,
                           CASE WHEN p_paused THEN session_user::text END, p_reason,
                           clock_timestamp());
    PERFORM answer_check(v_done.status, v_done.message);
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;

-- pause_subscription: nothing is handed out until resume_subscription; what is at work may finish.
CREATE OR REPLACE FUNCTION holdfast.pause_subscription(namespace text, name text,
                                                       reason text DEFAULT NULL,
                                                       p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM subscription_pause(p_ticket, namespace, name, true, reason);
END
$$;

-- resume_subscription: ends a pause, and closes an open breaker.
CREATE OR REPLACE FUNCTION holdfast.resume_subscription(namespace text, name text,
                                                        p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM subscription_pause(p_ticket, namespace, name, false, NULL);
END
$$;

-- seek_subscription: moves it to another place, as create_subscription has them. Leases end,
-- waiting retries and held events go, dead letters stay. Answers the position and how many
-- positions come after it. dry_run: only answers. Waits for claims and settles under way.
CREATE OR REPLACE FUNCTION holdfast.seek_subscription(namespace text, name text, place text,
                                                      dry_run boolean DEFAULT false,
                                                      OUT "position" bigint, OUT count bigint,
                                                      p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace    namespaces;
    v_subscription subscriptions;
    v_found        record;
    v_done         record;
BEGIN
    IF coalesce(dry_run, false) THEN
        v_namespace := enter(p_ticket, namespace, 'see the subscriptions of', 'viewer', 'consumer',
                             'owner');
    ELSE
        v_namespace := enter(p_ticket, namespace, 'change the subscriptions of', 'consumer',
                             'owner');
    END IF;
    v_subscription := subscription_find(v_namespace.id, name);
    PERFORM demand_read_committed('subscriptions need');
    v_found := place_find(v_namespace, place);
    IF NOT coalesce(dry_run, false) THEN
        PERFORM commit_durably();
        v_done := change_seek(v_namespace.id, v_subscription.id, v_found."position",
                              clock_timestamp());
        PERFORM answer_check(v_done.status, v_done.message);
        PERFORM ring_all(v_namespace.id, v_namespace.sleep);
    END IF;
    "position" := v_found."position";
    count := v_found.count;
END
$$;
