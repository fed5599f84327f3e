-- Who works for an ordered subscription, and the checkpoints of many partitions at once. As in
-- subscriptions.sql: one function per change of src/store/store.h.

-- members_of: those who work for a subscription at this moment, in the order of joining.
CREATE OR REPLACE FUNCTION holdfast_private.members_of(p_subscription_id bigint) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT m.token FROM members m WHERE m.subscription_id = p_subscription_id
                 ORDER BY m.id);
END
$$;

-- members_refresh_check: what a role says when it joins (checks.sql). HF001.
CREATE OR REPLACE FUNCTION holdfast_private.members_refresh_check(p_members_max integer,
                                                                  p_assigned text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF p_members_max IS NULL OR p_members_max NOT BETWEEN 1 AND 1024
       OR octet_length(p_assigned) > 8192
       OR p_assigned !~ '^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$' THEN
        RAISE EXCEPTION 'assigned is not a list of partitions, or members_max not 1 to '
                        'STORE_MEMBERS_MAX'
            USING ERRCODE = 'HF001';
    END IF;
END
$$;

-- change_members_refresh: `struct members_refresh`. p_frozen, p_frozen_renewals: as change_acquire.
-- `members` are tokens in the order of joining, `assigned` what each of them wants; `owners` is a
-- token per partition, NULL where no process has it or one that is dead or frozen; `seen` and
-- `seen_renewals` are the signs of life of all others that were met, to be remembered by the
-- caller; `lowest` and `highest` are set only if another number of partitions is requested.
-- Writes only if a member joins, leaves or is struck off. HF_NOTFOUND, HF_MISUSE, HF_BUSY.
CREATE OR REPLACE FUNCTION holdfast.change_members_refresh(
    p_namespace_id integer, p_subscription_id bigint, p_token uuid, p_leaves boolean,
    p_members_max integer, p_assigned text, p_frozen uuid[], p_frozen_renewals bigint[],
    OUT status integer, OUT message text, OUT ring boolean, OUT members_version bigint,
    OUT members uuid[], OUT assigned text[], OUT owners uuid[], OUT seen uuid[],
    OUT seen_renewals bigint[], OUT other_name text, OUT lowest bigint, OUT highest bigint,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_full   constant text := format(
        '%s processes work for this subscription already, which is the limit', p_members_max);
    v_mode   smallint;
    v_wanted integer;
    v_gone   uuid[];
    v_joined boolean := false;
BEGIN
    status := HF_OK;
    IF consumer_admit(p_ticket, p_namespace_id, p_token, NULL) IS NOT NULL THEN
        PERFORM members_refresh_check(p_members_max, p_assigned);
    END IF;
    -- Read before the members: one that joins after this has a higher version, so it is not missed.
    SELECT s.mode, s.wanted, s.members_version
        INTO v_mode, v_wanted, change_members_refresh.members_version FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    ELSIF v_mode <> HF_MODE_ORDERED THEN
        status := HF_MISUSE;
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
    -- Before anything is written: what is refused changes nothing.
    IF NOT p_leaves
       AND NOT EXISTS (SELECT FROM members m
                       WHERE m.subscription_id = p_subscription_id AND m.token = p_token)
       AND (SELECT count(*) FROM members m WHERE m.subscription_id = p_subscription_id
                AND m.token <> ALL (v_gone)) >= p_members_max THEN
        status := HF_BUSY;
        message := c_full;
        RETURN;
    END IF;
    DELETE FROM members m
        WHERE m.subscription_id = p_subscription_id
            AND (m.token = ANY (v_gone)
                 OR (m.token = p_token AND (p_leaves OR m.assigned IS DISTINCT FROM p_assigned)));
    ring := FOUND;
    members := members_of(p_subscription_id);
    IF NOT p_leaves AND p_token <> ALL (members) THEN
        INSERT INTO members (subscription_id, token, assigned)
            VALUES (p_subscription_id, p_token, p_assigned)
            ON CONFLICT (subscription_id, token) DO NOTHING;
        v_joined := true;
        ring := true;
    END IF;
    IF ring THEN
        -- The row is locked from here on, and what changed the members before has committed.
        UPDATE subscriptions s SET members_version = s.members_version + 1
            WHERE s.id = p_subscription_id
            RETURNING s.members_version INTO change_members_refresh.members_version;
        members := members_of(p_subscription_id);
        ring := members <> '{}' AND members <> ARRAY[p_token];
        IF v_joined AND cardinality(members) > p_members_max THEN
            -- Others joined since we counted, and were faster.
            DELETE FROM members m
                WHERE m.subscription_id = p_subscription_id AND m.token = p_token;
            status := HF_BUSY;
            message := c_full;
            RETURN;
        END IF;
    END IF;
    assigned := ARRAY(SELECT m.assigned FROM unnest(members) WITH ORDINALITY o (token, place)
                      LEFT JOIN members m ON m.subscription_id = p_subscription_id
                          AND m.token = o.token
                      ORDER BY o.place);
    owners := ARRAY(SELECT CASE WHEN p.owner <> ALL (v_gone) THEN p.owner END FROM partitions p
                    WHERE p.subscription_id = p_subscription_id ORDER BY p.partition);
    SELECT p.owner_name INTO other_name FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.owner <> p_token
            AND p.owner <> ALL (v_gone)
        ORDER BY p.partition LIMIT 1;
    IF v_wanted IS NOT NULL THEN
        SELECT min(j.checkpoint), max(j.checkpoint) INTO lowest, highest FROM partitions p
            CROSS JOIN LATERAL journal_newest(p_subscription_id, p.partition) j
            WHERE p.subscription_id = p_subscription_id;
    END IF;
    SELECT array_agg(p.token ORDER BY p.token), array_agg(p.renewals ORDER BY p.token)
        INTO seen, seen_renewals FROM processes p WHERE p.token = ANY (seen);
END
$$;

-- change_checkpoints: `struct checkpoints`. p_held_partitions ... p_held_lanes: the held ones of
-- all marks. `stale`: of each mark, whether its partition is not the caller's with its epoch;
-- nothing of it is stored. `due`: of each held one, as in lanes_hold; NULL: none is. The
-- partitions' rows are locked in the order of their numbers: FOR SHARE, or for rearranging lanes if
-- an event is held. HF_NOTFOUND, HF_CONFLICT, HF_MISUSE. May be committed asynchronously. Its plans
-- are made once: making them takes longer than what it does.
CREATE OR REPLACE FUNCTION holdfast.change_checkpoints(
    p_namespace_id integer, p_subscription_id bigint, p_token uuid, p_generation bigint,
    p_partitions integer[], p_epochs bigint[], p_checkpoints bigint[], p_last_event_ids uuid[],
    p_now timestamptz, p_held_partitions integer[] DEFAULT '{}',
    p_held_positions bigint[] DEFAULT '{}', p_held_lanes bigint[] DEFAULT '{}',
    OUT status integer, OUT message text, OUT generation bigint, OUT stale boolean[],
    OUT due boolean[],
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_caller     oid;
    v_ours       integer[];  -- of the marks: the places of those that are the caller's
    v_partitions integer[];
    v_moved      bigint[];
    v_ids        uuid[];
    v_stored     bigint[];
    v_place      integer;
BEGIN
    status := HF_OK;
    v_caller := consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    IF v_caller IS NOT NULL THEN
        PERFORM positions_check(v_caller, p_namespace_id, p_checkpoints);
        PERFORM outcomes_check(v_caller, p_namespace_id, p_subscription_id, h.partition, p_now,
                               array_fill(2, ARRAY[cardinality(h.positions)]), h.positions,
                               h.lanes, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
            FROM (SELECT u.partition, array_agg(u.position) AS positions, array_agg(u.lane) AS lanes
                  FROM unnest(p_held_partitions, p_held_positions, p_held_lanes)
                      u (partition, position, lane)
                  GROUP BY u.partition) h;
    END IF;
    stale := array_fill(true, ARRAY[cardinality(p_partitions)]);
    SELECT s.generation INTO change_checkpoints.generation FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    ELSIF p_generation NOT IN (0, change_checkpoints.generation) THEN
        status := HF_CONFLICT;
        message := format('the subscription has been changed: its generation is %s, not %s',
                          change_checkpoints.generation, p_generation);
        RETURN;
    END IF;
    IF cardinality(p_held_positions) > 0 THEN
        PERFORM 1 FROM partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = ANY (p_partitions)
            ORDER BY p.partition FOR NO KEY UPDATE;
    ELSE
        PERFORM 1 FROM partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = ANY (p_partitions)
            ORDER BY p.partition FOR SHARE;
    END IF;
    SELECT array_agg(m.ordinality ORDER BY m.partition),
           array_agg(m.partition ORDER BY m.partition),
           array_agg(m.checkpoint ORDER BY m.partition),
           array_agg(m.last_event_id ORDER BY m.partition)
        INTO v_ours, v_partitions, v_moved, v_ids
        FROM unnest(p_partitions, p_epochs, p_checkpoints, p_last_event_ids) WITH ORDINALITY
            m (partition, epoch, checkpoint, last_event_id, ordinality)
        JOIN partitions p ON p.subscription_id = p_subscription_id AND p.partition = m.partition
            AND p.owner = p_token AND p.epoch = m.epoch;
    IF v_ours IS NULL THEN
        RETURN;
    END IF;
    FOREACH v_place IN ARRAY v_ours LOOP
        stale[v_place] := false;
    END LOOP;
    IF cardinality(p_held_positions) > 0 THEN
        due := lanes_hold(p_subscription_id, v_partitions, p_held_partitions, p_held_positions,
                          p_held_lanes, NULL, p_now);
    END IF;
    v_stored := journal_move(p_subscription_id, v_partitions, v_moved, v_ids, p_now);
    IF EXISTS (SELECT 1 FROM settled s WHERE s.subscription_id = p_subscription_id) THEN
        FOR i IN 1 .. cardinality(v_partitions) LOOP
            DELETE FROM settled s
                WHERE s.subscription_id = p_subscription_id AND s.partition = v_partitions[i]
                    AND s.position > v_stored[i] AND s.position <= v_moved[i];
        END LOOP;
    END IF;
END
$$;

-- change_repartition: `struct repartition`. p_frozen, p_frozen_renewals: as in change_acquire. New
-- partitions of which a former owner is dead or frozen keep its name, so that the process that
-- acquires one finds it so. HF_BUSY: `owner` and `owner_renewals` say who is in the way.
-- HF_NOTFOUND. Must be committed synchronously.
CREATE OR REPLACE FUNCTION holdfast.change_repartition(
    p_namespace_id integer, p_subscription_id bigint, p_token uuid, p_now timestamptz,
    p_frozen uuid[], p_frozen_renewals bigint[],
    OUT status integer, OUT message text, OUT changed boolean, OUT owner uuid,
    OUT owner_renewals bigint,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_subscription subscriptions;
    v_lowest       bigint;
    v_highest      bigint;
    v_gone         uuid[];
    v_owner        partitions;
    v_doubt        bigint;
    v_epoch        bigint;
BEGIN
    status := HF_OK;
    PERFORM consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    changed := false;
    SELECT * INTO v_subscription FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    ELSIF v_subscription.wanted IS NULL THEN
        RETURN;
    END IF;
    PERFORM partitions_lock(p_subscription_id);
    SELECT min(j.checkpoint), max(j.checkpoint), max(p.epoch) INTO v_lowest, v_highest, v_epoch
        FROM partitions p CROSS JOIN LATERAL journal_newest(p_subscription_id, p.partition) j
        WHERE p.subscription_id = p_subscription_id;
    IF v_lowest < v_highest THEN
        status := HF_BUSY;
        message := format('the slowest partition is at position %s, and has to come to %s',
                          v_lowest, v_highest);
        RETURN;
    END IF;
    v_gone := dead_of(p_namespace_id,
                      ARRAY(SELECT DISTINCT p.owner FROM partitions p
                            WHERE p.subscription_id = p_subscription_id AND p.owner <> p_token))
        || ARRAY(SELECT f.token FROM unnest(p_frozen, p_frozen_renewals) f (token, renewals)
                 JOIN processes p ON p.token = f.token AND p.renewals = f.renewals);
    SELECT * INTO v_owner FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.owner IS NOT NULL
            AND p.owner <> ALL (v_gone)
        ORDER BY p.partition LIMIT 1;
    IF FOUND THEN
        status := HF_BUSY;
        message := format('partition %s is still in the hands of %s', v_owner.partition,
                          v_owner.owner_name);
        change_repartition.owner := v_owner.owner;
        SELECT p.renewals INTO owner_renewals FROM processes p WHERE p.token = v_owner.owner;
        RETURN;
    END IF;
    SELECT * INTO v_owner FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.owner IS NOT NULL LIMIT 1;
    SELECT CASE WHEN v_owner.owner IS NOT NULL THEN head(p_namespace_id)
                ELSE max(p.doubt_through) END INTO v_doubt
        FROM partitions p WHERE p.subscription_id = p_subscription_id;
    DELETE FROM partitions p WHERE p.subscription_id = p_subscription_id;
    INSERT INTO partitions (subscription_id, partition, epoch, owner, owner_name, doubt_through)
        SELECT p_subscription_id, i, v_epoch + 1, v_owner.owner, v_owner.owner_name, v_doubt
        FROM generate_series(0, v_subscription.wanted - 1) i;
    PERFORM journal_add(p_subscription_id, i, v_highest, p_now, NULL)
        FROM generate_series(0, v_subscription.wanted - 1) i;
    UPDATE retries r SET partition = e.hash % v_subscription.wanted
        FROM events_at(p_namespace_id, p_subscription_id,
                       ARRAY(SELECT o.position FROM retries o
                             WHERE o.subscription_id = p_subscription_id)) e
        WHERE r.subscription_id = p_subscription_id AND r.position = e.position;
    UPDATE settled s SET partition = e.hash % v_subscription.wanted
        FROM events_at(p_namespace_id, NULL,
                       ARRAY(SELECT o.position FROM settled o
                             WHERE o.subscription_id = p_subscription_id)) e
        WHERE s.subscription_id = p_subscription_id AND s.position = e.position;
    UPDATE subscriptions s
        SET partitions = v_subscription.wanted, wanted = NULL,
            generation = s.generation + 1, members_version = s.members_version + 1
        WHERE s.id = p_subscription_id;
    changed := true;
END
$$;
