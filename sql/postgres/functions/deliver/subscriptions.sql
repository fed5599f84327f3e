-- Subscriptions: what they are and who owns their partitions. One function per change of
-- src/store/store.h, called change_<name>, whose contract is the one there.
--
-- Each answers `status` (a value of hf_status) and `message` instead of raising, so that a refused
-- change leaves no aborted transaction behind: anything but 0 has written nothing. Errors that come
-- from the server (40001, 40P01, 55P03 ...) are raised, and so is 42501 where a role may not do it.
-- Each is one statement and so one transaction of its own, unless the caller has begun one; they
-- count on READ COMMITTED. If the client dies before its commit nothing has happened.
--
-- Locks, always taken in this order: the subscription's row (changes of it), the partition's row
-- (settles: FOR SHARE; what rearranges lanes, claims, acquisitions, seeks: FOR NO KEY UPDATE or
-- more, which waits for settles), leases, retries, dead letters. Of several partitions: in the
-- order of their numbers. p_now is the caller's clock.

-- change_subscription_put: `struct subscription_put`. p_patterns, p_options: NULL: absent.
-- p_expect_generation: NULL or -1: any; 0: there is none yet. HF_CONFLICT. Two that create the same
-- one at the same moment: the second waits for the first and then only compares.
CREATE OR REPLACE FUNCTION holdfast.change_subscription_put(
    p_namespace_id integer, p_name text, p_patterns text, p_options text, p_mode integer,
    p_partitions integer, p_start bigint, p_expect_generation bigint, p_now timestamptz,
    OUT status integer, OUT message text, OUT id bigint, OUT created boolean,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_stored subscriptions;
    v_expect bigint := nullif(p_expect_generation, -1);
BEGIN
    status := HF_OK;
    PERFORM subscription_values(consumer_admit(p_ticket, p_namespace_id, NULL, p_now),
                                p_namespace_id, p_name, p_patterns, p_options, p_mode,
                                p_partitions, p_start);
    created := false;
    IF coalesce(v_expect, 0) = 0 THEN
        INSERT INTO subscriptions (namespace_id, name, patterns, options, mode, partitions, start,
                                   created_at)
            VALUES (p_namespace_id, p_name, coalesce(p_patterns, '[]'), coalesce(p_options, '{}'),
                    p_mode, p_partitions, p_start, p_now)
            ON CONFLICT (namespace_id, name) DO NOTHING
            RETURNING subscriptions.id INTO change_subscription_put.id;
        created := FOUND;
    END IF;
    IF created THEN
        INSERT INTO partitions (subscription_id, partition)
            SELECT change_subscription_put.id, i
            FROM generate_series(0, CASE WHEN p_mode = HF_MODE_SHARED THEN 0
                ELSE p_partitions - 1 END) i;
        PERFORM journal_add(change_subscription_put.id, i, p_start, NULL, NULL)
            FROM generate_series(0, CASE WHEN p_mode = HF_MODE_SHARED THEN 0
                ELSE p_partitions - 1 END) i;
        RETURN;
    END IF;
    SELECT * INTO v_stored FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := HF_CONFLICT;
        message := format('subscription %s does not exist any more', p_name);
    ELSIF v_stored.mode <> p_mode THEN
        status := HF_CONFLICT;
        message := format('subscription %s has mode %s, which cannot be changed', p_name,
                          CASE v_stored.mode WHEN HF_MODE_SHARED THEN 'shared' ELSE 'ordered' END);
    ELSIF v_stored.mode = HF_MODE_SHARED AND v_stored.partitions <> p_partitions THEN
        status := HF_CONFLICT;
        message := format('subscription %s has partitions %s, which cannot be changed to %s',
                          p_name, v_stored.partitions, p_partitions);
    ELSIF v_expect <> v_stored.generation THEN
        status := HF_CONFLICT;
        message := format('subscription %s has been changed meanwhile: generation %s, expected %s',
                          p_name, v_stored.generation, v_expect);
    ELSE
        change_subscription_put.id := v_stored.id;
        IF p_patterns <> v_stored.patterns OR p_options <> v_stored.options THEN
            UPDATE subscriptions s
                SET patterns = coalesce(p_patterns, s.patterns),
                    options = coalesce(p_options, s.options), generation = s.generation + 1
                WHERE s.id = v_stored.id;
        END IF;
        IF nullif(p_partitions, v_stored.partitions) IS DISTINCT FROM v_stored.wanted THEN
            UPDATE subscriptions s
                SET wanted = nullif(p_partitions, s.partitions), generation = s.generation + 1
                WHERE s.id = v_stored.id;
        END IF;
    END IF;
END
$$;

-- Locks all partitions of a subscription. A statement that changes them all would come to them in
-- the order in which they lie, and meet a process that stores several checkpoints
-- (change_checkpoints) halfway.
CREATE OR REPLACE FUNCTION holdfast_private.partitions_lock(p_subscription_id bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM 1 FROM partitions p WHERE p.subscription_id = p_subscription_id
        ORDER BY p.partition FOR UPDATE;
END
$$;

-- Everything of a subscription that a seek or its removal takes away.
-- p_position: outcomes up to there stay, and so do marks of what is cancelled (cancels.sql); those
-- above it are passed once more and go, unless they lie ahead all the time, as their rows in
-- settled say.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_clear(p_subscription_id bigint,
                                                               p_position bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    DELETE FROM holdfast_private.leases WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast_private.retries WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast_private.copies WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast_private.cancels c
        WHERE c.subscription_id = p_subscription_id
            AND (c.cancelled_at IS NULL
                 OR c.position > p_position
                    AND NOT EXISTS (SELECT FROM holdfast_private.settled d
                                    WHERE d.subscription_id = p_subscription_id
                                        AND d.position = c.position));
    DELETE FROM holdfast_private.settled d
        WHERE d.subscription_id = p_subscription_id
            AND (d.position <= p_position
                 OR NOT EXISTS (SELECT FROM holdfast_private.cancels c
                                WHERE c.subscription_id = p_subscription_id
                                    AND c.position = d.position));
    DELETE FROM holdfast_private.outcomes
        WHERE subscription_id = p_subscription_id AND position > p_position;
END
$$;

-- change_subscription_remove: `struct subscription_remove`. HF_NOTFOUND. What the journal has of it
-- goes with the next rotation. Waits for settles and claims under way.
CREATE OR REPLACE FUNCTION holdfast.change_subscription_remove(
    p_namespace_id integer, p_name text, OUT status integer, OUT message text,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id bigint;
BEGIN
    status := HF_OK;
    PERFORM consumer_admit(p_ticket, p_namespace_id, NULL, NULL);
    SELECT s.id INTO v_id FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no subscription %s', left(p_name, HF_NAME_BYTES_MAX));
        RETURN;
    END IF;
    PERFORM partitions_lock(v_id);
    DELETE FROM partitions WHERE subscription_id = v_id;
    DELETE FROM rates WHERE subscription_id = v_id;
    DELETE FROM cancels WHERE subscription_id = v_id;
    PERFORM subscription_clear(v_id, 0);
    DELETE FROM subscriptions WHERE id = v_id;
END
$$;

-- change_pause: `struct pause`. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.change_pause(p_namespace_id integer, p_subscription_id bigint,
                                                 p_paused boolean, p_by text, p_reason text,
                                                 p_now timestamptz, OUT status integer,
                                                 OUT message text,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    status := HF_OK;
    PERFORM text_check(consumer_admit(p_ticket, p_namespace_id, NULL, p_now), 'reason',
                       concat(p_by, p_reason), 4096);
    IF p_paused THEN
        UPDATE subscriptions
            SET paused_at = p_now, paused_by = p_by, paused_reason = p_reason,
                generation = generation + 1
            WHERE id = p_subscription_id AND namespace_id = p_namespace_id AND paused_at IS NULL;
    ELSE
        UPDATE subscriptions
            SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, breaker = NULL,
                generation = generation + 1
            WHERE id = p_subscription_id AND namespace_id = p_namespace_id
                AND (paused_at IS NOT NULL OR breaker IS NOT NULL);
    END IF;
    IF NOT FOUND THEN
        PERFORM 1 FROM subscriptions
            WHERE id = p_subscription_id AND namespace_id = p_namespace_id;
        IF NOT FOUND THEN
            status := HF_NOTFOUND;
            message := missing_subscription(p_subscription_id);
        END IF;
    END IF;
END
$$;

-- change_breaker: `struct breaker_put`. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.change_breaker(p_namespace_id integer, p_subscription_id bigint,
                                                   p_state text, OUT status integer,
                                                   OUT message text,
                                                   p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    status := HF_OK;
    PERFORM text_check(consumer_admit(p_ticket, p_namespace_id, NULL, NULL), 'state',
                       p_state, 4096);
    UPDATE subscriptions SET breaker = p_state, generation = generation + 1
        WHERE id = p_subscription_id AND namespace_id = p_namespace_id
            AND breaker IS DISTINCT FROM p_state;
    IF NOT FOUND THEN
        PERFORM 1 FROM subscriptions
            WHERE id = p_subscription_id AND namespace_id = p_namespace_id;
        IF NOT FOUND THEN
            status := HF_NOTFOUND;
            message := missing_subscription(p_subscription_id);
        END IF;
    END IF;
END
$$;

-- change_seek: `struct seek`. HF_INVALID: beyond the head. HF_NOTFOUND. Waits for settles and
-- claims under way; they are refused afterwards.
CREATE OR REPLACE FUNCTION holdfast.change_seek(p_namespace_id integer, p_subscription_id bigint,
                                                p_position bigint, p_now timestamptz,
                                                OUT status integer, OUT message text,
                                                p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_head bigint;
BEGIN
    status := HF_OK;
    PERFORM consumer_admit(p_ticket, p_namespace_id, NULL, p_now);
    v_head := head(p_namespace_id);
    IF p_position < 0 OR p_position > v_head THEN
        status := HF_INVALID;
        message := format('position %s is outside the log, which ends at %s', p_position, v_head);
        RETURN;
    END IF;
    UPDATE subscriptions SET start = p_position, generation = generation + 1
        WHERE id = p_subscription_id AND namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    END IF;
    PERFORM partitions_lock(p_subscription_id);
    UPDATE partitions SET epoch = epoch + 1 WHERE subscription_id = p_subscription_id;
    PERFORM subscription_clear(p_subscription_id, p_position);
    PERFORM journal_add(p_subscription_id, p.partition, p_position, p_now, NULL)
        FROM partitions p WHERE p.subscription_id = p_subscription_id;
END
$$;
