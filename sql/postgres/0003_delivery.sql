-- Delivery: who works, how far they are, what became of deliveries. One function per change of
-- src/store/store.h, called change_<name>, whose contract is the one there.
--
-- Each answers `status` (a value of hf_status) and `message` instead of raising, so that a refused
-- change leaves no aborted transaction behind: anything but 0 has written nothing. Errors that come
-- from the server (40001, 40P01, 55P03 ...) are raised. Each is one statement and so one transaction
-- of its own, unless the caller has begun one; they count on READ COMMITTED. If the client dies before
-- its commit nothing has happened.
--
-- Locks, always taken in this order: the subscription's row (changes of it), the partition's row
-- (settles: FOR SHARE; what rearranges lanes, claims, acquisitions, seeks: FOR NO KEY UPDATE or more,
-- which waits for settles), leases, retries, dead letters. p_now is the caller's clock.

-- ---- Signs of life ------------------------------------------------------------------------------

-- The advisory lock that a process holds on a connection of its own as long as it lives.
CREATE FUNCTION holdfast.process_key(p_namespace_id integer, p_token uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT ('x' || substr(md5($1 || ':' || $2), 1, 16))::bit(64)::bigint $$;

-- Which of these processes are dead: not registered (any more), or registered with a lock that nobody
-- holds. One that could take no lock (behind a transaction pooler) is never called dead: it can only
-- be seen to be frozen. Reads pg_locks once.
CREATE FUNCTION holdfast.dead_of(p_namespace_id integer, p_tokens uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_keys bigint[];
BEGIN
    IF coalesce(cardinality(p_tokens), 0) = 0 THEN
        RETURN '{}';
    END IF;
    SELECT array_agg(classid::bigint << 32 | objid::bigint) INTO v_keys
        FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN coalesce((
        SELECT array_agg(t) FROM unnest(p_tokens) t LEFT JOIN processes p ON p.token = t
        WHERE p.token IS NULL
           OR p.locked AND process_key(p_namespace_id, t) <> ALL (coalesce(v_keys, '{}'))), '{}');
END
$$;

-- process_beat: registers a process, or shows a sign of life: its renewals rise by one. p_locked: it
-- holds the lock of process_key. Answers a row for every other registered process of the namespace,
-- with its renewals and whether it is dead; renewals that stand still for a lease of the observer's
-- own clock mean that the process is frozen, and are handed to change_acquire and change_claim.
CREATE FUNCTION holdfast.process_beat(p_namespace_id integer, p_token uuid, p_node_name text,
                                      p_locked boolean)
    RETURNS TABLE (token uuid, node_name text, renewals bigint, dead boolean)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_dead uuid[];
BEGIN
    INSERT INTO processes AS p (token, started_at, seen_at, namespace_id, locked, node_name)
        VALUES (p_token, clock_timestamp(), clock_timestamp(), p_namespace_id, p_locked, p_node_name)
        ON CONFLICT (token) DO UPDATE
        SET renewals = p.renewals + 1, seen_at = excluded.seen_at, locked = excluded.locked;
    SELECT dead_of(p_namespace_id, array_agg(p.token)) INTO v_dead
        FROM processes p WHERE p.namespace_id = p_namespace_id AND p.token <> p_token;
    RETURN QUERY SELECT p.token, p.node_name, p.renewals, p.token = ANY (v_dead)
        FROM processes p WHERE p.namespace_id = p_namespace_id AND p.token <> p_token;
END
$$;

-- process_sweep: forgets dead processes that no partition and no lease names any more, and those that
-- showed no sign of life for a day. Answers how many.
CREATE FUNCTION holdfast.process_sweep(p_namespace_id integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_dead  uuid[];
    v_count integer;
BEGIN
    SELECT dead_of(p_namespace_id, array_agg(p.token)) INTO v_dead
        FROM processes p WHERE p.namespace_id = p_namespace_id;
    DELETE FROM processes p
        WHERE p.namespace_id = p_namespace_id
            AND (p.token = ANY (v_dead) OR p.seen_at < clock_timestamp() - interval '1 day')
            AND NOT EXISTS (SELECT 1 FROM partitions o WHERE o.owner = p.token)
            AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.owner = p.token);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;

-- process_close: gives back what the process still owns (its partitions have no owner, its leases are
-- free for the next claim) and forgets it. Answers whether anything was given back: then ring.
CREATE FUNCTION holdfast.process_close(p_namespace_id integer, p_token uuid, p_now timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_given boolean;
    v_id    bigint;
BEGIN
    UPDATE partitions SET owner = NULL, owner_name = NULL WHERE owner = p_token;
    v_given := FOUND;
    FOR v_id IN SELECT DISTINCT l.subscription_id FROM leases l WHERE l.owner = p_token ORDER BY 1 LOOP
        PERFORM leases_lower(v_id, false, p_now);
        UPDATE leases SET token = gen_random_uuid(), owner = NULL, bound = false, kept = false,
                          piece = 0, expires_at = least(expires_at, p_now)
            WHERE owner = p_token AND subscription_id = v_id;
        v_given := true;
    END LOOP;
    DELETE FROM processes WHERE token = p_token;
    RETURN v_given;
END
$$;

-- ---- The journal --------------------------------------------------------------------------------

-- Appends a checkpoint, or a cursor with what belongs to it. Whoever calls has locked the partition's
-- row, so that a partition's seqs rise in the order of its changes.
CREATE FUNCTION holdfast.journal_add(p_subscription_id bigint, p_partition integer,
                                     p_checkpoint bigint, p_at timestamptz, p_last_event_id uuid,
                                     p_turn boolean DEFAULT false,
                                     p_leases_from timestamptz DEFAULT NULL,
                                     p_kept_from timestamptz DEFAULT NULL,
                                     p_holes holdfast.hole[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    IF (SELECT side FROM holdfast.turns) = 0 THEN
        INSERT INTO holdfast.checkpoints_0
            VALUES (p_subscription_id, p_partition, nextval('holdfast.journal_seq'), p_checkpoint,
                    p_at, p_last_event_id, p_turn, p_leases_from, p_kept_from, p_holes);
    ELSE
        INSERT INTO holdfast.checkpoints_1
            VALUES (p_subscription_id, p_partition, nextval('holdfast.journal_seq'), p_checkpoint,
                    p_at, p_last_event_id, p_turn, p_leases_from, p_kept_from, p_holes);
    END IF;
END
$$;

-- The newest row of a partition. 40001 if a side was truncated beneath an older snapshot. It is
-- VOLATILE so that its statement takes its snapshot after its locks. A plan that was made while the
-- journal was short must not scan it when it is long.
CREATE FUNCTION holdfast.journal_newest(p_subscription_id bigint, p_partition integer)
    RETURNS holdfast.checkpoints_0
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    v_row holdfast.checkpoints_0;
BEGIN
    SELECT * INTO v_row
        FROM ((SELECT * FROM holdfast.checkpoints_0 c
               WHERE c.subscription_id = p_subscription_id AND c.partition = p_partition
               ORDER BY c.seq DESC LIMIT 1)
              UNION ALL
              (SELECT * FROM holdfast.checkpoints_1 c
               WHERE c.subscription_id = p_subscription_id AND c.partition = p_partition
               ORDER BY c.seq DESC LIMIT 1)) n
        ORDER BY n.seq DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN v_row;
END
$$;

-- A lease that ends at p_at is about to be written: claims must not begin to look later than that.
-- Locks the subscription's partition for claims.
CREATE FUNCTION holdfast.leases_lower(p_subscription_id bigint, p_kept boolean, p_at timestamptz)
    RETURNS void
    LANGUAGE plpgsql
AS $$
DECLARE
    v_row holdfast.checkpoints_0;
BEGIN
    PERFORM 1 FROM holdfast.partitions p
        WHERE p.subscription_id = p_subscription_id AND p.partition = 0 FOR UPDATE;
    v_row := holdfast.journal_newest(p_subscription_id, 0);
    IF p_at < (CASE WHEN p_kept THEN v_row.kept_from ELSE v_row.leases_from END) THEN
        PERFORM holdfast.journal_add(p_subscription_id, 0, v_row.checkpoint, v_row.checkpoint_at,
            v_row.last_event_id, v_row.turn,
            CASE WHEN p_kept THEN v_row.leases_from ELSE p_at END,
            CASE WHEN p_kept THEN p_at ELSE v_row.kept_from END, v_row.holes);
    END IF;
END
$$;

-- rotate: if the journal's side in use is larger than p_bytes, the newest row of every partition goes
-- to the other side, which is used from now on, and this one is truncated. True: it was. False: it was
-- not necessary, or somebody is reading or writing there just now: try again later.
-- Locks: both sides ACCESS EXCLUSIVE, without waiting for them; but a side of more than 16 times
-- p_bytes may make everybody wait up to 200 ms.
CREATE FUNCTION holdfast.rotate(p_bytes bigint DEFAULT 1048576) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
    SET lock_timeout = '200ms'
AS $$
DECLARE
    v_side  smallint := (SELECT side FROM turns);
    v_from  text := 'checkpoints_' || v_side;
    v_to    text := 'checkpoints_' || 1 - v_side;
    v_bytes bigint := pg_relation_size('holdfast.' || v_from);
BEGIN
    IF v_bytes <= p_bytes THEN
        RETURN false;
    END IF;
    BEGIN
        EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', v_from, v_to)
            || CASE WHEN v_bytes > 16 * p_bytes THEN '' ELSE ' NOWAIT' END;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    IF (SELECT side FROM turns) <> v_side THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'INSERT INTO %I SELECT n.* FROM partitions p CROSS JOIN LATERAL (
             SELECT * FROM %I c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1) n
         WHERE NOT EXISTS (SELECT 1 FROM %I o WHERE o.subscription_id = p.subscription_id
                           AND o.partition = p.partition AND o.seq > n.seq)',
        v_to, v_from, v_to);
    EXECUTE format('TRUNCATE %I', v_from);
    UPDATE turns SET side = 1 - v_side;
    RETURN true;
END
$$;

-- ---- Subscriptions ------------------------------------------------------------------------------

-- change_subscription_put: `struct subscription_put`. p_patterns, p_options: NULL: absent.
-- p_expect_generation: NULL or -1: any. HF_CONFLICT (4). Two that create the same one at the same
-- moment: the second waits for the first and then only compares.
CREATE FUNCTION holdfast.change_subscription_put(
    p_namespace_id integer, p_name text, p_patterns text, p_options text, p_mode integer,
    p_partitions integer, p_start bigint, p_expect_generation bigint, p_now timestamptz,
    OUT status integer, OUT message text, OUT id bigint, OUT created boolean)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_stored subscriptions;
    v_expect bigint := nullif(p_expect_generation, -1);
BEGIN
    status := 0;
    created := false;
    IF v_expect IS NULL THEN
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
            FROM generate_series(0, CASE WHEN p_mode = 2 THEN 0 ELSE p_partitions - 1 END) i;
        PERFORM journal_add(change_subscription_put.id, i, p_start, NULL, NULL)
            FROM generate_series(0, CASE WHEN p_mode = 2 THEN 0 ELSE p_partitions - 1 END) i;
        RETURN;
    END IF;
    SELECT * INTO v_stored FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 4;
        message := format('subscription %s does not exist any more', p_name);
    ELSIF v_stored.mode <> p_mode THEN
        status := 4;
        message := format('subscription %s has mode %s, which cannot be changed', p_name,
                          CASE v_stored.mode WHEN 2 THEN 'shared' ELSE 'ordered' END);
    ELSIF v_stored.partitions <> p_partitions THEN
        status := 4;
        message := format('subscription %s has partitions %s, which cannot be changed to %s', p_name,
                          v_stored.partitions, p_partitions);
    ELSIF v_expect <> v_stored.generation THEN
        status := 4;
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
    END IF;
END
$$;

-- Everything of a subscription that a seek or its removal takes away.
CREATE FUNCTION holdfast.subscription_clear(p_subscription_id bigint) RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM holdfast.leases WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast.retries WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast.copies WHERE subscription_id = p_subscription_id;
    DELETE FROM holdfast.settled WHERE subscription_id = p_subscription_id;
END
$$;

-- change_subscription_remove: `struct subscription_remove`. HF_NOTFOUND (3). What the journal has of it
-- goes with the next rotation. Waits for settles and claims under way.
CREATE FUNCTION holdfast.change_subscription_remove(p_namespace_id integer, p_name text,
                                                    OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_id bigint;
BEGIN
    status := 0;
    SELECT s.id INTO v_id FROM subscriptions s
        WHERE s.namespace_id = p_namespace_id AND s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription %s', p_name);
        RETURN;
    END IF;
    DELETE FROM partitions WHERE subscription_id = v_id;
    PERFORM subscription_clear(v_id);
    DELETE FROM subscriptions WHERE id = v_id;
END
$$;

-- change_pause: `struct pause`. HF_NOTFOUND (3).
CREATE FUNCTION holdfast.change_pause(p_namespace_id integer, p_subscription_id bigint,
                                      p_paused boolean, p_by text, p_reason text,
                                      p_now timestamptz, OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
BEGIN
    status := 0;
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
            status := 3;
            message := format('there is no subscription with id %s', p_subscription_id);
        END IF;
    END IF;
END
$$;

-- change_breaker: `struct breaker_put`. HF_NOTFOUND (3).
CREATE FUNCTION holdfast.change_breaker(p_namespace_id integer, p_subscription_id bigint,
                                        p_state text, OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
BEGIN
    status := 0;
    UPDATE subscriptions SET breaker = p_state, generation = generation + 1
        WHERE id = p_subscription_id AND namespace_id = p_namespace_id
            AND breaker IS DISTINCT FROM p_state;
    IF NOT FOUND THEN
        PERFORM 1 FROM subscriptions
            WHERE id = p_subscription_id AND namespace_id = p_namespace_id;
        IF NOT FOUND THEN
            status := 3;
            message := format('there is no subscription with id %s', p_subscription_id);
        END IF;
    END IF;
END
$$;

-- change_seek: `struct seek`. HF_INVALID (1): beyond the head. HF_NOTFOUND (3). Waits for settles and
-- claims under way; they are refused afterwards.
CREATE FUNCTION holdfast.change_seek(p_namespace_id integer, p_subscription_id bigint,
                                     p_position bigint, p_now timestamptz,
                                     OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_head bigint := head(p_namespace_id);
BEGIN
    status := 0;
    IF p_position < 0 OR p_position > v_head THEN
        status := 1;
        message := format('position %s is outside the log, which ends at %s', p_position, v_head);
        RETURN;
    END IF;
    UPDATE subscriptions SET start = p_position, generation = generation + 1
        WHERE id = p_subscription_id AND namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription with id %s', p_subscription_id);
        RETURN;
    END IF;
    UPDATE partitions SET epoch = epoch + 1 WHERE subscription_id = p_subscription_id;
    PERFORM subscription_clear(p_subscription_id);
    PERFORM journal_add(p_subscription_id, p.partition, p_position, p_now, NULL)
        FROM partitions p WHERE p.subscription_id = p_subscription_id;
END
$$;

-- ---- Ownership ----------------------------------------------------------------------------------

-- change_acquire: `struct acquire`. p_frozen, p_frozen_renewals: processes that the caller has seen
-- standing still at this number for a lease of its own clock; NULL: none. unclean: the former owner
-- is dead or frozen, and nobody knows what it was doing. HF_BUSY (11): `owner`, `owner_name` and
-- `owner_renewals` say who is in the way. HF_NOTFOUND (3), HF_MISUSE (2): shared, HF_INVALID (1): no
-- such partition. Must be committed synchronously: an epoch must not fall back.
CREATE FUNCTION holdfast.change_acquire(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_token uuid,
    p_node_name text, p_force boolean, p_frozen uuid[], p_frozen_renewals bigint[],
    OUT status integer, OUT message text, OUT epoch bigint, OUT checkpoint bigint,
    OUT generation bigint, OUT unclean boolean, OUT owner uuid, OUT owner_name text,
    OUT owner_renewals bigint)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_subscription record;
    v_partition    partitions;
BEGIN
    status := 0;
    unclean := false;
    SELECT s.mode, s.partitions, s.generation INTO v_subscription FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription with id %s', p_subscription_id);
        RETURN;
    END IF;
    IF v_subscription.mode <> 1 THEN
        status := 2;
        message := 'partitions of a shared subscription cannot be owned';
        RETURN;
    END IF;
    SELECT * INTO v_partition FROM partitions p
        WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 1;
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
            status := 11;
            message := format('partition %s is owned by %s, which is alive', p_partition,
                              v_partition.owner_name);
            change_acquire.owner := v_partition.owner;
            change_acquire.owner_name := v_partition.owner_name;
            RETURN;
        END IF;
    END IF;
    UPDATE partitions p SET epoch = v_partition.epoch + 1, owner = p_token, owner_name = p_node_name
        WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition;
    change_acquire.epoch := v_partition.epoch + 1;
    change_acquire.checkpoint := (journal_newest(p_subscription_id, p_partition)).checkpoint;
    change_acquire.generation := v_subscription.generation;
    change_acquire.owner := p_token;
    change_acquire.owner_name := p_node_name;
END
$$;

-- change_give_back: `struct give_back`. HF_STALE (5).
CREATE FUNCTION holdfast.change_give_back(p_subscription_id bigint, p_partition integer,
                                          p_token uuid, p_epoch bigint,
                                          OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
BEGIN
    status := 0;
    UPDATE partitions SET owner = NULL, owner_name = NULL
        WHERE subscription_id = p_subscription_id AND partition = p_partition AND epoch = p_epoch
            AND owner = p_token;
    IF NOT FOUND THEN
        status := 5;
        message := format('partition %s is not ours any more', p_partition);
    END IF;
END
$$;

-- fence: is the partition still the caller's? p_lanes: rows of lanes are going to be rearranged, which
-- only one transaction may do at a time. The partition's row stays locked to the end of the
-- transaction, so that nobody can take it over before. status 0, HF_NOTFOUND (3), HF_STALE (5).
CREATE FUNCTION holdfast.fence(p_namespace_id integer, p_subscription_id bigint,
                               p_partition integer, p_token uuid, p_epoch bigint, p_lanes boolean,
                               OUT status integer, OUT message text, OUT generation bigint,
                               OUT name text)
    LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_partition holdfast.partitions;
BEGIN
    status := 0;
    IF p_lanes THEN
        SELECT * INTO v_partition FROM holdfast.partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
            FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO v_partition FROM holdfast.partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition
            FOR SHARE;
    END IF;
    SELECT s.generation, s.name INTO fence.generation, fence.name FROM holdfast.subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    IF NOT FOUND THEN
        status := 3;
        message := format('there is no subscription with id %s', p_subscription_id);
    ELSIF v_partition.subscription_id IS NULL THEN
        status := 5;
        message := format('there is no partition %s to be the owner of', p_partition);
    ELSIF v_partition.owner IS DISTINCT FROM p_token THEN
        status := 5;
        message := format('partition %s now belongs to %s', p_partition,
                          coalesce(v_partition.owner_name, 'nobody'));
    ELSIF v_partition.epoch <> p_epoch THEN
        status := 5;
        message := format('partition %s was acquired again or sought: its epoch is %s, not %s',
                          p_partition, v_partition.epoch, p_epoch);
    END IF;
END
$$;

-- ---- Events by position -------------------------------------------------------------------------

CREATE TYPE holdfast.event AS (
    position    bigint,
    id          uuid,
    type        text,
    payload     json,
    key         text,
    tenant      text,
    metadata    json,
    producer    text,
    schedule_id text,
    key_version bigint,
    hash        bigint,
    emitted_at  timestamptz,
    entered_at  timestamptz
);

-- The events at these positions, in any order: the copy that a dead letter left with the subscription,
-- else the log's. p_subscription_id NULL: the log's.
CREATE FUNCTION holdfast.events_at(p_namespace_id integer, p_subscription_id bigint,
                                   p_positions bigint[]) RETURNS SETOF holdfast.event
    LANGUAGE plpgsql STABLE
    SET search_path = holdfast, pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_copied bigint[];
BEGIN
    IF p_subscription_id IS NOT NULL THEN
        RETURN QUERY SELECT c.position, c.id, c.type, c.payload, c.key, c.tenant, c.metadata,
                            c.producer, c.schedule_id, c.key_version, c.hash, c.emitted_at,
                            c.entered_at
            FROM copies c
            WHERE c.subscription_id = p_subscription_id AND c.position = ANY (p_positions);
        IF FOUND THEN
            SELECT array_agg(c.position) INTO v_copied FROM copies c
                WHERE c.subscription_id = p_subscription_id AND c.position = ANY (p_positions);
        END IF;
    END IF;
    RETURN QUERY EXECUTE
        'SELECT position, id, type, payload, key, tenant, metadata, producer, schedule_id,
                key_version, hash, emitted_at, entered_at
         FROM holdfast.events_' || p_namespace_id
        || ' WHERE position = ANY ($1) AND position <> ALL (coalesce($2, ''{}''))'
        USING p_positions, v_copied;
END
$$;

-- ---- Outcomes -----------------------------------------------------------------------------------

-- story_add of C: the story with one more failed attempt.
CREATE FUNCTION holdfast.story_add(p_old text, p_attempt integer, p_at timestamptz, p_error text,
                                   p_node text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN octet_length(p_old) + 2048 * 6 > 1048576 THEN p_old
        ELSE coalesce(nullif(left(rtrim(p_old), -1), '['), '')
            || CASE WHEN coalesce(nullif(left(rtrim(p_old), -1), '['), '') = '' THEN '[' ELSE ',' END
            || '{"attempt":' || p_attempt
            || ',"at":"' || to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            || '","error":' || coalesce(to_json(p_error)::text, 'null')
            || ',"node":' || coalesce(to_json(p_node)::text, 'null') || '}]' END
$$;

-- Records an attempt of a shared subscription that nobody answered for: one more failed one, due now.
-- It is a guess that this event was the reason, so it will be handed out alone. False, and nothing was
-- written: the event is given up, or it is nowhere any more.
CREATE FUNCTION holdfast.record_lost(p_namespace_id integer, p_subscription_id bigint,
                                     p_position bigint, p_error text, p_node text,
                                     p_now timestamptz) RETURNS boolean
    LANGUAGE plpgsql
AS $$
DECLARE
    v_lane bigint;
BEGIN
    UPDATE holdfast.retries r
        SET kind = 5, attempts = r.attempts + 1, next_attempt_at = p_now, last_retry_at = p_now,
            story = holdfast.story_add(r.story, r.attempts + 1, p_now, p_error, p_node)
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position AND r.kind <> 3;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM 1 FROM holdfast.retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position;
    IF FOUND THEN
        RETURN false;
    END IF;
    SELECT holdfast.lane_of(e.tenant, e.key, e.id) INTO v_lane
        FROM holdfast.events_at(p_namespace_id, NULL, ARRAY[p_position]) e;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO holdfast.retries (subscription_id, position, kind, partition, lane, attempts,
                                  next_attempt_at, last_retry_at, story)
        VALUES (p_subscription_id, p_position, 5, 0, v_lane, 1, p_now, p_now,
                holdfast.story_add(NULL, 1, p_now, p_error, p_node));
    RETURN true;
END
$$;

-- Lets the first row of each of these lanes wait, due now, if it is held.
CREATE FUNCTION holdfast.lanes_promote(p_subscription_id bigint, p_partition integer,
                                       p_lanes bigint[], p_now timestamptz) RETURNS void
    LANGUAGE sql
AS $$
    UPDATE holdfast.retries r SET kind = 1, next_attempt_at = $4
        FROM (SELECT DISTINCT unnest($3) AS lane) l
        CROSS JOIN LATERAL (SELECT f.position, f.kind FROM holdfast.retries f
                            WHERE f.subscription_id = $1 AND f.partition = $2 AND f.lane = l.lane
                            ORDER BY f.position LIMIT 1) first
        WHERE r.subscription_id = $1 AND r.position = first.position AND first.kind = 2
$$;

-- outcomes_apply: what became of deliveries, in rows: the part that settle and settle_lease have in
-- common. Arrays of one length (their meaning: `struct outcome`; kind: 0 done, 1 retry, 2 held, 3 dead,
-- 4 block). p_ordered: false for leases. lane_busy: per outcome, `ret_lane_busy`. The caller has locked
-- the partition's row for rearranging lanes, or the lease. HF_MISUSE (2), HF_CORRUPT (14): a dead
-- one's event is not in the log.
CREATE FUNCTION holdfast.outcomes_apply(
    p_namespace_id integer, p_subscription_id bigint, p_name text, p_partition integer,
    p_ordered boolean, p_checkpoint bigint, p_now timestamptz, p_kinds integer[],
    p_positions bigint[], p_lanes bigint[], p_attempts integer[], p_uncounted integer[],
    p_stories text[], p_next timestamptz[], p_reasons text[], p_errors text[],
    OUT status integer, OUT message text, OUT lane_busy boolean[])
    LANGUAGE plpgsql
AS $$
DECLARE
    v_dead  bigint[];
    v_lost  bigint;
    v_gone  bigint[];
    v_left  bigint[];                           -- positions of rows that left a lane ...
    v_left_lanes bigint[];                      -- ... and their lanes
BEGIN
    status := 0;
    lane_busy := array_fill(false, ARRAY[cardinality(p_kinds)]);
    IF NOT p_ordered AND 2 = ANY (p_kinds) THEN
        status := 2;
        message := 'a shared subscription has no lanes to be held behind';
        RETURN;
    END IF;
    IF 5 = ANY (p_kinds) THEN
        status := 2;
        message := 'only events of a lease can be released';
        RETURN;
    END IF;
    SELECT array_agg(p_positions[i]) INTO v_dead FROM generate_subscripts(p_kinds, 1) i
        WHERE p_kinds[i] IN (3, 4);
    IF v_dead IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM generate_subscripts(p_kinds, 1) i
                   WHERE p_kinds[i] IN (3, 4) AND p_reasons[i] IS NULL) THEN
            status := 2;
            message := 'a dead letter needs a reason';
            RETURN;
        END IF;
        SELECT d INTO v_lost FROM unnest(v_dead) d
            WHERE d NOT IN (SELECT e.position FROM holdfast.events_at(p_namespace_id,
                                p_subscription_id, v_dead) e)
            ORDER BY d LIMIT 1;
        IF FOUND THEN
            status := 14;
            message := format('the event at position %s is not in the log, so it cannot become '
                              'a dead letter', v_lost);
            RETURN;
        END IF;
        DELETE FROM holdfast.dead_letters d
            USING holdfast.events_at(p_namespace_id, p_subscription_id, v_dead) e
            WHERE d.namespace_id = p_namespace_id AND d.subscription = p_name AND d.event_id = e.id;
        INSERT INTO holdfast.dead_letters
            (namespace_id, subscription, event_id, position, failed_at, attempts, reason, type, error,
             hash, emitted_at, entered_at, key_version, schedule_id, producer, key, tenant, metadata,
             payload, story)
            SELECT p_namespace_id, p_name, e.id, e.position, p_now, p_attempts[o.i], p_reasons[o.i],
                   e.type, p_errors[o.i], e.hash, e.emitted_at, e.entered_at, e.key_version,
                   e.schedule_id, e.producer, e.key, e.tenant, e.metadata, e.payload,
                   coalesce(p_stories[o.i], '[]')
            FROM generate_subscripts(p_kinds, 1) o (i)
            JOIN holdfast.events_at(p_namespace_id, p_subscription_id, v_dead) e
                ON e.position = p_positions[o.i]
            WHERE p_kinds[o.i] IN (3, 4) ORDER BY o.i;
    END IF;

    -- Done and dead ones leave, with their copies.
    SELECT array_agg(p_positions[i]) INTO v_gone FROM generate_subscripts(p_kinds, 1) i
        WHERE p_kinds[i] IN (0, 3);
    IF v_gone IS NOT NULL THEN
        WITH left_rows AS (
            DELETE FROM holdfast.retries r
                WHERE r.subscription_id = p_subscription_id AND r.position = ANY (v_gone)
                    AND (p_ordered OR r.kind = 4)
                RETURNING r.position, r.lane)
        SELECT array_agg(l.position), array_agg(l.lane) INTO v_left, v_left_lanes FROM left_rows l;
        IF v_left IS NOT NULL THEN
            DELETE FROM holdfast.copies c
                WHERE c.subscription_id = p_subscription_id AND c.position = ANY (v_left);
        END IF;
        IF p_ordered THEN
            INSERT INTO holdfast.settled (subscription_id, partition, position)
                SELECT p_subscription_id, p_partition, g FROM unnest(v_gone) g
                WHERE g > p_checkpoint
                ON CONFLICT DO NOTHING;
        END IF;
    END IF;

    -- Those that wait: retry, held, blocked. A held one that was tried before keeps its attempts.
    IF p_kinds && '{1,2,4}'::integer[] THEN
        INSERT INTO holdfast.retries AS r
            (subscription_id, position, kind, partition, lane, attempts, uncounted, next_attempt_at,
             last_retry_at, story)
            SELECT p_subscription_id, p_positions[i],
                   CASE p_kinds[i] WHEN 1 THEN 1 WHEN 2 THEN 2 ELSE 3 END, p_partition, p_lanes[i],
                   CASE p_kinds[i] WHEN 2 THEN 0 ELSE p_attempts[i] END,
                   CASE p_kinds[i] WHEN 2 THEN 0 ELSE coalesce(p_uncounted[i], 0) END,
                   CASE p_kinds[i] WHEN 1 THEN p_next[i] ELSE p_now END,
                   CASE p_kinds[i] WHEN 2 THEN NULL ELSE p_now END,
                   CASE p_kinds[i] WHEN 2 THEN NULL ELSE p_stories[i] END
            FROM generate_subscripts(p_kinds, 1) i WHERE p_kinds[i] IN (1, 2, 4)
            ON CONFLICT (subscription_id, position) DO UPDATE
            SET kind = excluded.kind, partition = excluded.partition, lane = excluded.lane,
                next_attempt_at = excluded.next_attempt_at,
                attempts = CASE excluded.kind WHEN 2 THEN r.attempts ELSE excluded.attempts END,
                uncounted = CASE excluded.kind WHEN 2 THEN r.uncounted ELSE excluded.uncounted END,
                last_retry_at = CASE excluded.kind WHEN 2 THEN r.last_retry_at
                                ELSE excluded.last_retry_at END,
                story = CASE excluded.kind WHEN 2 THEN r.story ELSE excluded.story END;
    END IF;

    -- In lanes that a row has left the first one goes on, if it is held; so it does where nothing moves
    -- though one was held: the lane was freed while the caller did not know.
    IF p_ordered AND (v_left IS NOT NULL OR 2 = ANY (p_kinds)) THEN
        PERFORM holdfast.lanes_promote(p_subscription_id, p_partition, v_left_lanes, p_now);
        PERFORM holdfast.lanes_promote(p_subscription_id, p_partition, array_agg(p_lanes[i]), p_now)
            FROM generate_subscripts(p_kinds, 1) i
            WHERE p_kinds[i] = 2
                AND NOT EXISTS (SELECT 1 FROM holdfast.retries r
                                WHERE r.subscription_id = p_subscription_id
                                    AND r.partition = p_partition AND r.lane = p_lanes[i]
                                    AND r.kind <> 2);
        SELECT array_agg(p_kinds[i] = 4 OR
                         l.lane IS NOT NULL
                         AND EXISTS (SELECT 1 FROM holdfast.retries r
                                     WHERE r.subscription_id = p_subscription_id
                                         AND r.partition = p_partition AND r.lane = l.lane)
                         ORDER BY i) INTO lane_busy
            FROM generate_subscripts(p_kinds, 1) i
            LEFT JOIN unnest(v_left, v_left_lanes) l (position, lane)
                ON l.position = p_positions[i] AND p_kinds[i] IN (0, 3);
    ELSIF 4 = ANY (p_kinds) THEN
        SELECT array_agg(p_kinds[i] = 4 ORDER BY i) INTO lane_busy
            FROM generate_subscripts(p_kinds, 1) i;
    END IF;
END
$$;

-- change_settle: `struct settle`. p_generation: NULL or 0: any. p_checkpoint: NULL or -1: unchanged.
-- p_last_event_id NULL: unchanged. p_kinds ... p_errors: the outcomes, NULL or arrays of one length
-- (see outcomes_apply); p_waited: they have rows in retries. p_pause_reason: the subscription is paused
-- too; NULL: it is not. lane_busy is NULL if there are no outcomes. HF_STALE (5), HF_NOTFOUND (3),
-- HF_CONFLICT (4), HF_MISUSE (2). Locks the partition's row: FOR SHARE, or for rearranging lanes if an
-- outcome does so; before it the subscription's, if that is paused. May be committed asynchronously:
-- what is lost is done again.
CREATE FUNCTION holdfast.change_settle(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_token uuid,
    p_epoch bigint, p_generation bigint, p_checkpoint bigint, p_last_event_id uuid,
    p_now timestamptz, p_kinds integer[] DEFAULT NULL, p_positions bigint[] DEFAULT NULL,
    p_lanes bigint[] DEFAULT NULL, p_attempts integer[] DEFAULT NULL,
    p_uncounted integer[] DEFAULT NULL, p_stories text[] DEFAULT NULL,
    p_next timestamptz[] DEFAULT NULL, p_reasons text[] DEFAULT NULL,
    p_errors text[] DEFAULT NULL, p_waited boolean[] DEFAULT NULL,
    p_pause_by text DEFAULT NULL, p_pause_reason text DEFAULT NULL,
    OUT status integer, OUT message text, OUT generation bigint, OUT lane_busy boolean[])
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_fence  record;
    v_stored record;
    v_new    bigint := nullif(p_checkpoint, -1);
    v_done   record;
    v_lanes  boolean := p_kinds && '{1,2,3,4}'::integer[] OR true = ANY (p_waited);
BEGIN
    IF p_pause_reason IS NOT NULL THEN
        PERFORM 1 FROM subscriptions s WHERE s.id = p_subscription_id FOR NO KEY UPDATE;
    END IF;
    v_fence := fence(p_namespace_id, p_subscription_id, p_partition, p_token, p_epoch,
                     coalesce(v_lanes, false));
    status := v_fence.status;
    message := v_fence.message;
    IF status <> 0 THEN
        RETURN;
    END IF;
    IF p_generation <> 0 AND p_generation <> v_fence.generation THEN
        status := 4;
        message := format('the subscription has been changed: its generation is %s, not %s',
                          v_fence.generation, p_generation);
        RETURN;
    END IF;
    v_stored := journal_newest(p_subscription_id, p_partition);
    IF v_new < v_stored.checkpoint THEN
        status := 2;
        message := format('checkpoint %s is below the stored one, %s', v_new, v_stored.checkpoint);
        RETURN;
    END IF;
    IF cardinality(p_kinds) > 0 THEN
        v_done := outcomes_apply(p_namespace_id, p_subscription_id, v_fence.name, p_partition, true,
                                 coalesce(v_new, v_stored.checkpoint), p_now, p_kinds, p_positions,
                                 p_lanes, p_attempts, p_uncounted, p_stories, p_next, p_reasons,
                                 p_errors);
        status := v_done.status;
        message := v_done.message;
        lane_busy := v_done.lane_busy;
        IF status <> 0 THEN
            RETURN;
        END IF;
    END IF;
    IF v_new IS NOT NULL THEN
        PERFORM journal_add(p_subscription_id, p_partition, v_new, p_now,
                            coalesce(p_last_event_id, v_stored.last_event_id));
        IF v_new > v_stored.checkpoint THEN
            DELETE FROM settled s
                WHERE s.subscription_id = p_subscription_id AND s.partition = p_partition
                    AND s.position > v_stored.checkpoint AND s.position <= v_new;
        END IF;
    END IF;
    IF p_pause_reason IS NOT NULL THEN
        PERFORM change_pause(p_namespace_id, p_subscription_id, true, p_pause_by, p_pause_reason,
                             p_now);
    END IF;
    generation := v_fence.generation;
END
$$;

-- ---- Deliveries in a handler's transaction ------------------------------------------------------

-- tx_enter: may the handler run? Looks only, and locks nothing: a process that is stopped in the middle
-- of a handler holds up nobody. tx_leave settles. p_leased: by lease, else by partition and epoch.
-- status 0, HF_STALE (5), HF_NOTFOUND (3), HF_CONFLICT (4): settled already.
CREATE FUNCTION holdfast.tx_enter(
    p_namespace_id integer, p_subscription_id bigint, p_leased boolean, p_partition integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_position bigint,
    OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_lease     leases;
    v_partition partitions;
BEGIN
    status := 0;
    IF p_leased THEN
        SELECT * INTO v_lease FROM leases l WHERE l.token = p_lease
            AND l.subscription_id = p_subscription_id AND l.piece IS NULL;
        IF NOT FOUND THEN
            status := 5;
            message := 'the lease has ended: its events were handed out again or are settled';
        ELSIF NOT v_lease.positions @> p_position THEN
            status := 4;
        END IF;
    ELSE
        SELECT * INTO v_partition FROM partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition;
        IF NOT FOUND THEN
            status := 3;
            message := format('there is no subscription with id %s', p_subscription_id);
        ELSIF v_partition.owner IS DISTINCT FROM p_token OR v_partition.epoch <> p_epoch THEN
            status := 5;
            message := format('partition %s now belongs to %s', p_partition,
                              coalesce(v_partition.owner_name, 'nobody'));
        ELSIF p_position <= (journal_newest(p_subscription_id, p_partition)).checkpoint THEN
            IF NOT EXISTS (SELECT 1 FROM retries r
                           WHERE r.subscription_id = p_subscription_id
                               AND r.position = p_position) THEN
                status := 4;
            END IF;
        ELSIF EXISTS (SELECT 1 FROM settled s
                      WHERE s.subscription_id = p_subscription_id AND s.partition = p_partition
                          AND s.position = p_position) THEN
            status := 4;
        END IF;
    END IF;
    IF status = 4 THEN
        message := format('the event at position %s is settled already', p_position);
    END IF;
END
$$;

-- tx_leave: settles a delivery within the transaction that its handler ran in, which is to be committed
-- soon: from now on it holds the partition's row (FOR SHARE; for rearranging lanes if it waited) or
-- the lease's. lane_busy: `ret_lane_busy`. Anything but status 0: the caller undoes the delivery. HF_STALE
-- (5), HF_NOTFOUND (3), HF_CONFLICT (4): somebody else has settled it meanwhile.
CREATE FUNCTION holdfast.tx_leave(
    p_namespace_id integer, p_subscription_id bigint, p_leased boolean, p_partition integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_position bigint, p_lane bigint,
    p_waited boolean, p_now timestamptz,
    OUT status integer, OUT message text, OUT lane_busy boolean)
    LANGUAGE plpgsql
    SET search_path = holdfast, pg_catalog, pg_temp
AS $$
DECLARE
    v_lease      leases;
    v_fence      record;
    v_checkpoint bigint;
    v_left       boolean := false;
    v_lane       bigint := p_lane;              -- of its row, if it has one: the stored one counts
BEGIN
    status := 0;
    lane_busy := false;
    IF p_leased THEN
        SELECT * INTO v_lease FROM leases l WHERE l.token = p_lease
            AND l.subscription_id = p_subscription_id AND l.piece IS NULL FOR UPDATE;
        IF NOT FOUND THEN
            status := 5;
            message := 'the lease has ended: its events were handed out again or are settled';
            RETURN;
        END IF;
        IF NOT v_lease.positions @> p_position THEN
            status := 4;
            message := format('the event at position %s is settled already', p_position);
            RETURN;
        END IF;
        IF v_lease.has_retries THEN
            DELETE FROM retries r WHERE r.subscription_id = p_subscription_id
                AND r.position = p_position AND r.kind = 4;
            IF FOUND THEN
                DELETE FROM copies c WHERE c.subscription_id = p_subscription_id
                    AND c.position = p_position;
            END IF;
        END IF;
        IF v_lease.count = 1 THEN
            DELETE FROM leases l WHERE l.token = p_lease;
        ELSE
            UPDATE leases l SET count = l.count - 1,
                    positions = l.positions - int8multirange(int8range(p_position, p_position + 1))
                WHERE l.token = p_lease;
        END IF;
        RETURN;
    END IF;

    v_fence := fence(p_namespace_id, p_subscription_id, p_partition, p_token, p_epoch, p_waited);
    status := v_fence.status;
    message := v_fence.message;
    IF status <> 0 THEN
        RETURN;
    END IF;
    v_checkpoint := (journal_newest(p_subscription_id, p_partition)).checkpoint;
    IF p_waited OR p_position <= v_checkpoint THEN
        DELETE FROM retries r WHERE r.subscription_id = p_subscription_id AND r.position = p_position
            RETURNING r.lane INTO v_lane;
        v_left := FOUND;
        IF v_left THEN
            DELETE FROM copies c
                WHERE c.subscription_id = p_subscription_id AND c.position = p_position;
        ELSIF p_position <= v_checkpoint THEN
            status := 4;
        END IF;
    END IF;
    IF p_position > v_checkpoint THEN
        INSERT INTO settled (subscription_id, partition, position)
            VALUES (p_subscription_id, p_partition, p_position) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            status := 4;
        END IF;
    END IF;
    IF status <> 0 THEN
        message := format('the event at position %s is settled already', p_position);
        RETURN;
    END IF;
    IF v_left THEN
        PERFORM lanes_promote(p_subscription_id, p_partition, ARRAY[v_lane], p_now);
        lane_busy := EXISTS (SELECT 1 FROM retries r WHERE r.subscription_id = p_subscription_id
                             AND r.partition = p_partition AND r.lane = v_lane);
    END IF;
END
$$;
