-- Partitions: who owns the partitions of an ordered subscription. The rules are those of
-- subscriptions.sql.

-- change_acquire: `struct acquire`. p_frozen, p_frozen_renewals: processes that the caller has seen
-- standing still at this number for a lease of its own clock; NULL: none. unclean: the former owner
-- is dead or frozen, and it is not known what it was doing. HF_BUSY: `owner`, `owner_name` and
-- `owner_renewals` say who is in the way. HF_NOTFOUND, HF_MISUSE: shared, HF_INVALID: no such
-- partition. Must be committed synchronously: an epoch must not fall back.
CREATE OR REPLACE FUNCTION holdfast.change_acquire(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_token uuid,
    p_node_name text, p_force boolean, p_frozen uuid[], p_frozen_renewals bigint[],
    OUT status integer, OUT message text, OUT epoch bigint, OUT checkpoint bigint,
    OUT generation bigint, OUT unclean boolean, OUT owner uuid, OUT owner_name text,
    OUT owner_renewals bigint, OUT doubt_through bigint,
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_subscription record;
    v_partition    partitions;
BEGIN
    status := HF_OK;
    PERFORM text_check(consumer_admit(p_ticket, p_namespace_id, p_token, NULL), 'node name',
                       p_node_name, 255);
    unclean := false;
    IF p_token IS NULL THEN
        status := HF_INVALID;
        message := 'a partition is acquired by a process, and no token was given';
        RETURN;
    END IF;
    SELECT s.mode, s.partitions, s.generation INTO v_subscription FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    END IF;
    IF v_subscription.mode <> HF_MODE_ORDERED THEN
        status := HF_MISUSE;
        message := 'partitions of a shared subscription cannot be owned';
        RETURN;
    END IF;
    SELECT * INTO v_partition FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := HF_INVALID;
        message := format('partition is %s; the subscription has %s', p_partition,
                          v_subscription.partitions);
        RETURN;
    END IF;
    IF v_partition.owner <> p_token THEN
        SELECT p.renewals INTO owner_renewals FROM processes p WHERE p.token = v_partition.owner;
        IF dead_of(p_namespace_id, ARRAY[v_partition.owner]) <> '{}'
           OR p_frozen_renewals[array_position(p_frozen, v_partition.owner)] = owner_renewals THEN
            unclean := true;
        ELSIF NOT p_force THEN
            status := HF_BUSY;
            message := format('partition %s is owned by %s, which is alive', p_partition,
                              v_partition.owner_name);
            change_acquire.owner := v_partition.owner;
            change_acquire.owner_name := v_partition.owner_name;
            RETURN;
        END IF;
    END IF;
    -- It has not been given back: what was handed out of the log is not known.
    change_acquire.doubt_through := greatest(
        v_partition.doubt_through,
        CASE WHEN v_partition.owner IS NOT NULL THEN head(p_namespace_id) END);
    UPDATE partitions p SET epoch = v_partition.epoch + 1, owner = p_token,
                            owner_name = p_node_name,
                            doubt_through = change_acquire.doubt_through
        WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition;
    change_acquire.epoch := v_partition.epoch + 1;
    change_acquire.checkpoint := (journal_newest(p_subscription_id, p_partition)).checkpoint;
    change_acquire.generation := v_subscription.generation;
    change_acquire.owner := p_token;
    change_acquire.owner_name := p_node_name;
END
$$;

-- change_give_back: `struct give_back`. HF_STALE.
CREATE OR REPLACE FUNCTION holdfast.change_give_back(p_subscription_id bigint, p_partition integer,
                                                     p_token uuid, p_epoch bigint,
                                                     OUT status integer, OUT message text,
                                                     p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace_id integer;
BEGIN
    status := HF_OK;
    -- A role that has no part in its namespace does not learn which one that is.
    v_namespace_id := (SELECT s.namespace_id FROM subscriptions s WHERE s.id = p_subscription_id);
    PERFORM admit(p_ticket, CASE WHEN caller_has(holder(p_ticket), v_namespace_id, 'viewer',
                                                 'publisher', 'consumer', 'owner')
                                 THEN v_namespace_id END,
                  'change the subscriptions of', 'consumer', 'owner');
    PERFORM 1 FROM subscriptions s WHERE s.id = p_subscription_id FOR NO KEY UPDATE;
    UPDATE partitions SET owner = NULL, owner_name = NULL
        WHERE subscription_id = p_subscription_id AND partition = p_partition AND epoch = p_epoch
            AND owner = p_token;
    IF NOT FOUND THEN
        status := HF_STALE;
        message := format('partition %s is not ours any more', p_partition);
        RETURN;
    END IF;
    UPDATE subscriptions s SET members_version = s.members_version + 1
        WHERE s.id = p_subscription_id;
END
$$;

-- change_depart: `struct depart`. The subscriptions are locked in the order of their numbers;
-- `remaining` of them, which others have locked, stay as they are.
CREATE OR REPLACE FUNCTION holdfast.change_depart(p_namespace_id integer, p_token uuid,
                                                  p_subscription_ids bigint[],
                                                  OUT status integer, OUT message text,
                                                  OUT remaining bigint,
                                                  p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_ours bigint[];
    v_ids  bigint[];
BEGIN
    status := HF_OK;
    PERFORM consumer_admit(p_ticket, p_namespace_id, p_token, NULL);
    v_ours := ARRAY(SELECT p.subscription_id FROM partitions p
                    WHERE p.owner = p_token AND p.subscription_id = ANY (p_subscription_ids)
                    UNION
                    SELECT m.subscription_id FROM members m
                    WHERE m.token = p_token AND m.subscription_id = ANY (p_subscription_ids));
    SELECT coalesce(array_agg(l.id), '{}') INTO v_ids
        FROM (SELECT s.id FROM subscriptions s
              WHERE s.namespace_id = p_namespace_id AND s.id = ANY (v_ours)
              ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) l;
    UPDATE partitions SET owner = NULL, owner_name = NULL
        WHERE subscription_id = ANY (v_ids) AND owner = p_token;
    DELETE FROM members m WHERE m.subscription_id = ANY (v_ids) AND m.token = p_token;
    UPDATE subscriptions s SET members_version = s.members_version + 1 WHERE s.id = ANY (v_ids);
    remaining := (SELECT count(*) FROM subscriptions s
                  WHERE s.namespace_id = p_namespace_id AND s.id = ANY (v_ours)
                      AND s.id <> ALL (v_ids));
END
$$;

-- fence: is the partition still the caller's? p_lanes: rows of lanes are going to be rearranged,
-- which only one transaction may do at a time. The partition's row stays locked to the end of the
-- transaction, so that no other process can take it over before. status 0, HF_NOTFOUND, HF_STALE,
-- also for a token or an epoch of NULL.
-- With it goes what every settle needs to know: `stored` is the journal's newest row, read after
-- the lock (40001 if it has moved on).
CREATE OR REPLACE FUNCTION holdfast_private.fence(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_token uuid,
    p_epoch bigint, p_lanes boolean, OUT status integer, OUT message text, OUT generation bigint,
    OUT name text, OUT stored holdfast_private.checkpoints_0)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_partition    holdfast_private.partitions;
    v_subscription record;
BEGIN
    status := HF_OK;
    IF p_lanes THEN
        SELECT * INTO v_partition FROM holdfast_private.partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
                AND EXISTS (SELECT FROM holdfast_private.subscriptions s
                            WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id)
            FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO v_partition FROM holdfast_private.partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
                AND EXISTS (SELECT FROM holdfast_private.subscriptions s
                            WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id)
            FOR SHARE;
    END IF;
    SELECT s.generation, s.name, j AS stored INTO v_subscription
        FROM holdfast_private.subscriptions s
        LEFT JOIN LATERAL journal_look(p_subscription_id, p_partition) j ON true
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
    ELSIF v_partition.subscription_id IS NULL THEN
        status := HF_STALE;
        message := format('there is no partition %s to be the owner of', p_partition);
    ELSIF p_token IS NULL OR v_partition.owner IS DISTINCT FROM p_token THEN
        status := HF_STALE;
        message := format('partition %s now belongs to %s', p_partition,
                          coalesce(v_partition.owner_name, 'no process'));
    ELSIF v_partition.epoch IS DISTINCT FROM p_epoch THEN
        status := HF_STALE;
        message := format('partition %s was acquired again or sought: its epoch is %s, not %s',
                          p_partition, v_partition.epoch, p_epoch);
    ELSE
        generation := v_subscription.generation;
        name := v_subscription.name;
        stored := v_subscription.stored;
        IF stored.seq IS NULL THEN
            RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
END
$$;
