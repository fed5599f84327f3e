-- Transactions of the application: deliveries that are settled in the transaction of their handler.

-- An answer "it is stored already" must be as sure as that of the call that stored it. What a
-- transaction wrote is visible, but perhaps not on the synchronous standby, if its wait for that
-- was cancelled; a failover would take it back. A commit waits for everything before it, but only
-- if it has written something itself: so this writes something, which leaves no row behind.
CREATE OR REPLACE FUNCTION holdfast_private.commit_what_is_seen() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, 'holdfast', '');
END
$$;

-- Sees to it that the commit of this transaction waits for the disk (and for synchronous standbys),
-- however the session is set.
CREATE OR REPLACE FUNCTION holdfast.commit_durably() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- join_check: may the library publish in this transaction? It must be in the database that the
-- store was opened on: there the process with this token is registered. HF002 if not, or if it is
-- read-only. p_durably: as commit_durably.
CREATE OR REPLACE FUNCTION holdfast.join_check(p_token uuid, p_durably boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM read_processes() p WHERE p.token = p_token) THEN
        RAISE EXCEPTION 'the connection is open on another database than the bus, or its '
                        'transaction is older than the bus' USING ERRCODE = 'HF002';
    END IF;
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'the transaction is read-only' USING ERRCODE = 'HF002';
    END IF;
    IF p_durably THEN
        PERFORM commit_durably();
    END IF;
END
$$;

-- tx_enter: may the handler run? Looks only, and locks nothing: a process that is stopped in the
-- middle of a handler holds up no other process. tx_leave settles. p_leased: by lease, else by
-- partition and epoch. status 0, HF_STALE, HF_NOTFOUND, HF_CONFLICT: settled already.
CREATE OR REPLACE FUNCTION holdfast.tx_enter(
    p_namespace_id integer, p_subscription_id bigint, p_leased boolean, p_partition integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_position bigint,
    OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lease      record;
    v_partition  record;
    v_checkpoint bigint;
BEGIN
    status := HF_OK;
    IF p_leased THEN
        SELECT * INTO v_lease FROM read_leases() l WHERE l.token = p_lease
            AND l.subscription_id = p_subscription_id AND l.piece IS NULL;
        IF NOT FOUND THEN
            status := HF_STALE;
            message := 'the lease has ended: its events were handed out again or are settled';
        ELSIF NOT v_lease.positions @> p_position THEN
            status := HF_CONFLICT;
        END IF;
    ELSE
        SELECT * INTO v_partition FROM read_partitions() p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition;
        IF FOUND THEN
            SELECT j.checkpoint INTO v_checkpoint
                FROM journal_look(p_subscription_id, p_partition) j;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
            END IF;
        END IF;
        IF v_partition IS NULL THEN
            status := HF_NOTFOUND;
            message := missing_subscription(p_subscription_id);
        ELSIF (v_partition.owner = p_token AND v_partition.epoch = p_epoch) IS NOT TRUE THEN
            status := HF_STALE;
            message := format('partition %s now belongs to %s', p_partition,
                              coalesce(v_partition.owner_name, 'no process'));
        ELSIF p_position <= v_checkpoint THEN
            IF NOT EXISTS (SELECT 1 FROM read_retries() r
                           WHERE r.subscription_id = p_subscription_id
                               AND r.position = p_position) THEN
                status := HF_CONFLICT;
            END IF;
        ELSIF EXISTS (SELECT 1 FROM read_settled() s
                      WHERE s.subscription_id = p_subscription_id AND s.partition = p_partition
                          AND s.position = p_position) THEN
            status := HF_CONFLICT;
        END IF;
    END IF;
    IF status = HF_CONFLICT THEN
        message := format('the event at position %s is settled already', p_position);
    END IF;
END
$$;

-- tx_leave: settles deliveries of one partition or lease within the transaction that their handler
-- ran in, which is to be committed soon: from now on it holds the partition's row (FOR SHARE; for
-- rearranging lanes if one of them waited) or the lease's. lane_busy: `ret_lane_busy` of each.
-- p_attempts: see outcomes_keep. Anything but status 0: the caller undoes all of them. HF_STALE,
-- HF_NOTFOUND, HF_CONFLICT: another process has settled one meanwhile, that at `position`.
CREATE OR REPLACE FUNCTION holdfast_private.tx_leave(
    p_namespace_id integer, p_subscription_id bigint, p_leased boolean, p_partition integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_positions bigint[], p_waited boolean[],
    p_now timestamptz, p_attempts integer[] DEFAULT NULL,
    OUT status integer, OUT message text, OUT "position" bigint, OUT lane_busy boolean[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_lease      leases;
    v_fence      record;
    v_checkpoint bigint;
    v_left       bigint[];                      -- positions that had rows in retries
    v_left_lanes bigint[];                      -- lanes of those rows
    v_new        bigint[];
BEGIN
    status := HF_OK;
    lane_busy := array_fill(false, ARRAY[cardinality(p_positions)]);
    IF p_leased THEN
        SELECT * INTO v_lease FROM leases l WHERE l.token = p_lease
            AND l.subscription_id = p_subscription_id AND l.piece IS NULL
            AND EXISTS (SELECT FROM subscriptions s
                        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id)
            FOR UPDATE;
        IF NOT FOUND THEN
            status := HF_STALE;
            message := 'the lease has ended: its events were handed out again or are settled';
            RETURN;
        END IF;
        tx_leave.position := (SELECT min(coalesce(p, 0)) FROM unnest(p_positions) p
                              WHERE (v_lease.positions @> p) IS NOT TRUE);
    ELSE
        v_fence := fence(p_namespace_id, p_subscription_id, p_partition, p_token, p_epoch,
                         true = ANY (p_waited));
        status := v_fence.status;
        message := v_fence.message;
        IF status <> HF_OK THEN
            RETURN;
        END IF;
        v_checkpoint := (v_fence.stored).checkpoint;
    END IF;

    IF p_leased AND tx_leave.position IS NULL THEN
        IF v_lease.has_retries THEN
            PERFORM outcomes_keep(p_subscription_id, false, 0, p_positions, p_attempts, p_now);
            WITH gone AS (
                DELETE FROM retries r WHERE r.subscription_id = p_subscription_id
                    AND r.position = ANY (p_positions)
                        AND r.kind = RETRY_LEASED RETURNING r.position)
            DELETE FROM copies c USING gone g
                WHERE c.subscription_id = p_subscription_id AND c.position = g.position;
        END IF;
        IF v_lease.count = cardinality(p_positions) THEN
            DELETE FROM leases l WHERE l.token = p_lease;
        ELSE
            UPDATE leases l SET count = l.count - cardinality(p_positions),
                                positions = l.positions - positions_of(p_positions)
                WHERE l.token = p_lease;
        END IF;
    ELSIF NOT p_leased THEN
        IF true = ANY (p_waited) THEN
            PERFORM outcomes_keep(p_subscription_id, true, p_partition, p_positions, p_attempts,
                                  p_now);
        END IF;
        WITH gone AS (
            DELETE FROM retries r
                USING unnest(p_positions, p_waited) o (position, waited)
                WHERE r.subscription_id = p_subscription_id AND r.position = o.position
                    AND (o.waited OR o.position <= v_checkpoint)
                RETURNING r.position, r.lane)
        SELECT array_agg(g.position), array_agg(g.lane) INTO v_left, v_left_lanes FROM gone g;
        IF v_left IS NOT NULL THEN
            DELETE FROM copies c
                WHERE c.subscription_id = p_subscription_id AND c.position = ANY (v_left);
        END IF;
        WITH put AS (
            INSERT INTO settled (subscription_id, partition, position)
                SELECT p_subscription_id, p_partition, p FROM unnest(p_positions) p
                WHERE p > v_checkpoint
                ON CONFLICT ON CONSTRAINT settled_pkey DO NOTHING RETURNING position)
        SELECT array_agg(p.position) INTO v_new FROM put p;
        tx_leave.position := (
            SELECT min(p) FROM unnest(p_positions) p
            WHERE (p = ANY (CASE WHEN p > v_checkpoint THEN v_new ELSE v_left END)) IS NOT TRUE);
    END IF;
    IF tx_leave.position IS NOT NULL THEN
        status := HF_CONFLICT;
        message := format('the event at position %s is settled already', tx_leave.position);
        RETURN;
    END IF;
    IF v_left IS NOT NULL THEN
        PERFORM lanes_promote(p_subscription_id, p_partition, v_left_lanes, p_now);
        SELECT array_agg(EXISTS (SELECT FROM lane_first(p_subscription_id, p_partition, l.lane))
                         ORDER BY o.i) INTO lane_busy
            FROM unnest(p_positions) WITH ORDINALITY o (position, i)
            LEFT JOIN unnest(v_left, v_left_lanes) l (position, lane) ON l.position = o.position;
    END IF;
END
$$;

-- tx_check: raises HF002 unless this is the transaction whose mark is p_mark, which ends with it.
-- What is sent behind it, a COMMIT above all, does not happen then.
CREATE OR REPLACE FUNCTION holdfast.tx_check(p_mark text) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF current_setting('holdfast.tx', true) IS DISTINCT FROM p_mark THEN
        RAISE EXCEPTION 'the handler ended the transaction that it runs in' USING ERRCODE = 'HF002';
    END IF;
END
$$;

-- tx_settle: tx_check and tx_leave. Raises whatever is wrong: HF002 as above, else HF and
-- tx_leave's status, with the position as the detail if there is one. Answers lane_busy.
CREATE OR REPLACE FUNCTION holdfast.tx_settle(
    p_namespace_id integer, p_subscription_id bigint, p_leased boolean, p_partition integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_mark text, p_positions bigint[],
    p_waited boolean[], p_now timestamptz, p_attempts integer[] DEFAULT NULL,
    p_ticket bytea DEFAULT holdfast.ticket()) RETURNS boolean[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_done record;
BEGIN
    PERFORM positions_check(consumer_admit(p_ticket, p_namespace_id, p_token, p_now),
                            p_namespace_id, p_positions);
    PERFORM tx_check(p_mark);
    v_done := tx_leave(p_namespace_id, p_subscription_id, p_leased, p_partition, p_token, p_epoch,
                       p_lease, p_positions, p_waited, p_now, p_attempts);
    IF v_done.status <> HF_OK THEN
        RAISE EXCEPTION USING MESSAGE = v_done.message,
            DETAIL = coalesce(v_done.position::text, ''),
            ERRCODE = 'HF' || lpad(v_done.status::text, 3, '0');
    END IF;
    RETURN v_done.lane_busy;
END
$$;
