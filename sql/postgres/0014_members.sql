-- Who works for an ordered subscription, and the checkpoints of many partitions at once. As in 0007:
-- one function per change of src/store/store.h.

-- change_muster: `struct muster`. p_frozen, p_frozen_renewals: as in change_acquire. `members` are
-- tokens in the order of joining; `owners` is a token per partition, NULL where nobody has it or
-- somebody who is dead or frozen; `seen` and `seen_renewals` are the signs of life of all others that
-- were met, to be remembered by the caller. Writes only if somebody joins, leaves or is struck off.
-- HF_NOTFOUND (3), HF_MISUSE (2), HF_BUSY (11).
CREATE FUNCTION holdfast.change_muster(
    p_namespace_id integer, p_subscription_id bigint, p_token uuid, p_leaves boolean,
    p_members_max integer, p_frozen uuid[], p_frozen_renewals bigint[],
    OUT status integer, OUT message text, OUT ring boolean, OUT crew bigint, OUT members uuid[],
    OUT owners uuid[], OUT seen uuid[], OUT seen_renewals bigint[], OUT other_name text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_mode smallint;
    v_gone uuid[];
BEGIN
    status := 0;
    ring := false;
    SELECT s.mode INTO v_mode FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription with id %s', p_subscription_id);
        RETURN;
    ELSIF v_mode <> 1 THEN
        status := 2;
        message := 'a shared subscription has no members';
        RETURN;
    END IF;
    SELECT coalesce(array_agg(o.token), '{}') INTO seen
        FROM (SELECT m.token FROM members m WHERE m.subscription_id = p_subscription_id
              UNION SELECT p.owner FROM partitions p WHERE p.subscription_id = p_subscription_id) o
        WHERE o.token <> p_token;
    v_gone := dead_of(p_namespace_id, seen) || ARRAY(
        SELECT f.token FROM unnest(p_frozen, p_frozen_renewals) f (token, renewals)
        JOIN processes p ON p.token = f.token AND p.renewals = f.renewals);
    DELETE FROM members m
        WHERE m.subscription_id = p_subscription_id
            AND (m.token = ANY (v_gone) OR (p_leaves AND m.token = p_token));
    ring := FOUND;
    members := ARRAY(SELECT m.token FROM members m WHERE m.subscription_id = p_subscription_id
                     ORDER BY m.id);
    IF NOT p_leaves AND p_token <> ALL (members) THEN
        IF cardinality(members) >= p_members_max THEN
            status := 11;
            message := format('%s processes work for this subscription already, which is the limit',
                              p_members_max);
            RETURN;
        END IF;
        INSERT INTO members (subscription_id, token) VALUES (p_subscription_id, p_token)
            ON CONFLICT DO NOTHING;
        members := members || p_token;
        ring := true;
    END IF;
    IF ring THEN
        UPDATE subscriptions s SET crew = s.crew + 1 WHERE s.id = p_subscription_id;
    END IF;
    SELECT s.crew INTO change_muster.crew FROM subscriptions s WHERE s.id = p_subscription_id;
    owners := ARRAY(SELECT CASE WHEN p.owner <> ALL (v_gone) THEN p.owner END FROM partitions p
                    WHERE p.subscription_id = p_subscription_id ORDER BY p.partition);
    SELECT p.owner_name INTO other_name FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.owner <> p_token
            AND p.owner <> ALL (v_gone)
        ORDER BY p.partition LIMIT 1;
    SELECT array_agg(p.token ORDER BY p.token), array_agg(p.renewals ORDER BY p.token)
        INTO seen, seen_renewals FROM processes p WHERE p.token = ANY (seen);
END
$$;

-- change_checkpoints: `struct checkpoints`. `stale`: of each mark, whether its partition is not the
-- caller's with its epoch. The partitions' rows are locked FOR SHARE in the order of their numbers.
-- HF_NOTFOUND (3), HF_CONFLICT (4), HF_MISUSE (2). May be committed asynchronously.
CREATE FUNCTION holdfast.change_checkpoints(
    p_namespace_id integer, p_subscription_id bigint, p_token uuid, p_generation bigint,
    p_partitions integer[], p_epochs bigint[], p_checkpoints bigint[], p_last_event_ids uuid[],
    p_now timestamptz,
    OUT status integer, OUT message text, OUT generation bigint, OUT stale boolean[])
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_mark record;
BEGIN
    status := 0;
    stale := array_fill(true, ARRAY[cardinality(p_partitions)]);
    SELECT s.generation INTO change_checkpoints.generation FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription with id %s', p_subscription_id);
        RETURN;
    ELSIF p_generation NOT IN (0, change_checkpoints.generation) THEN
        status := 4;
        message := format('the subscription has been changed: its generation is %s, not %s',
                          change_checkpoints.generation, p_generation);
        RETURN;
    END IF;
    PERFORM 1 FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.partition = ANY (p_partitions)
        ORDER BY p.partition FOR SHARE;
    FOR v_mark IN
        SELECT m.partition, m.checkpoint, m.last_event_id, m.ordinality, j.checkpoint AS stored,
               j.last_event_id AS stored_id
        FROM unnest(p_partitions, p_epochs, p_checkpoints, p_last_event_ids) WITH ORDINALITY
            m (partition, epoch, checkpoint, last_event_id, ordinality)
        JOIN partitions p ON p.subscription_id = p_subscription_id AND p.partition = m.partition
            AND p.owner = p_token AND p.epoch = m.epoch
        CROSS JOIN LATERAL journal_newest(p_subscription_id, m.partition) j
        ORDER BY m.partition
    LOOP
        IF v_mark.checkpoint < v_mark.stored THEN
            RAISE EXCEPTION 'checkpoint % is below the stored one, %', v_mark.checkpoint,
                v_mark.stored USING ERRCODE = 'HF002';
        END IF;
        stale[v_mark.ordinality] := false;
        PERFORM journal_add(p_subscription_id, v_mark.partition, v_mark.checkpoint, p_now,
                            coalesce(v_mark.last_event_id, v_mark.stored_id));
        DELETE FROM settled s
            WHERE s.subscription_id = p_subscription_id AND s.partition = v_mark.partition
                AND s.position > v_mark.stored AND s.position <= v_mark.checkpoint;
    END LOOP;
END
$$;
