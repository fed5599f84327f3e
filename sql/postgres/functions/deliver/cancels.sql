-- Cancelling: settling an event for one subscription without a handler (src/store/cancel.h).
--
-- Locks, in this order: the subscription's row; the lease that has the event; the partition's row.
-- A settle of a lease takes them in the same order, and claims never wait for a lease.

-- cancel_mark: no process has the event: it is cancelled from now on. p_holes: of a shared
-- subscription, below its cursor. waited: it had a row in retries; lane_busy: and its lane still
-- has some.
CREATE OR REPLACE FUNCTION holdfast_private.cancel_mark(
    p_subscription_id bigint, p_ordered boolean, p_partition integer, p_checkpoint bigint,
    p_holes holdfast_private.hole[], p_position bigint, p_hash bigint, p_by text, p_reason text,
    p_now timestamptz, OUT waited boolean, OUT lane_busy boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_lane bigint;
BEGIN
    lane_busy := false;
    -- As outcomes_keep, but that it was not handed out once more.
    INSERT INTO outcomes AS k (subscription_id, position, settled_at, attempts, deliveries, cause,
                               story)
        SELECT p_subscription_id, p_position, p_now, r.attempts,
               CASE WHEN p_ordered
                    THEN ordered_times(p_subscription_id, p_partition, p_position, r.deliveries,
                                       r.attempts + r.uncounted)
                    ELSE r.deliveries END,
               r.cause, r.story
        FROM retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position
            AND r.attempts + r.uncounted > 0
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET number = excluded.number, settled_at = excluded.settled_at,
            attempts = excluded.attempts, deliveries = excluded.deliveries,
            cause = excluded.cause, story = excluded.story;
    IF FOUND THEN
        PERFORM outcomes_trim(p_subscription_id);
    END IF;
    DELETE FROM retries r WHERE r.subscription_id = p_subscription_id AND r.position = p_position
        RETURNING r.lane INTO v_lane;
    waited := FOUND;
    IF waited THEN
        DELETE FROM copies c
            WHERE c.subscription_id = p_subscription_id AND c.position = p_position;
    END IF;
    IF waited AND p_ordered THEN
        PERFORM lanes_promote(p_subscription_id, p_partition, ARRAY[v_lane], p_now);
        lane_busy := EXISTS (SELECT FROM lane_first(p_subscription_id, p_partition, v_lane));
    END IF;
    INSERT INTO settled (subscription_id, partition, position)
        SELECT p_subscription_id, p_partition, p_position
        WHERE p_position > p_checkpoint
            OR EXISTS (SELECT FROM unnest(p_holes) h WHERE p_position BETWEEN h.low AND h.high)
        ON CONFLICT (subscription_id, partition, position) DO NOTHING;
    INSERT INTO cancels AS c (subscription_id, position, hash, requested_at, cancelled_at,
                              cancelled_by, reason)
        VALUES (p_subscription_id, p_position, p_hash, p_now, p_now, p_by, p_reason)
        ON CONFLICT (subscription_id, position) DO UPDATE SET cancelled_at = p_now;
END
$$;

-- cancel_ask: the process that may have the event is asked; once more, if it was before: another
-- one may have taken its place.
CREATE OR REPLACE FUNCTION holdfast_private.cancel_ask(p_subscription_id bigint, p_position bigint,
                                                       p_hash bigint, p_by text, p_reason text,
                                                       p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO cancels (subscription_id, position, hash, requested_at, cancelled_by, reason)
        VALUES (p_subscription_id, p_position, p_hash, p_now, p_by, p_reason)
        ON CONFLICT (subscription_id, position) DO NOTHING;
    UPDATE subscriptions s SET generation = s.generation + 1 WHERE s.id = p_subscription_id;
END
$$;

-- cancel_ordered: the part of change_cancel for ordered subscriptions.
CREATE OR REPLACE FUNCTION holdfast_private.cancel_ordered(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_position bigint,
    p_hash bigint, p_part integer, p_token uuid, p_epoch bigint, p_by text, p_reason text,
    p_now timestamptz, OUT status integer, OUT message text, OUT state integer, OUT waited boolean,
    OUT lane_busy boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_partition  partitions;
    v_fence      record;
    v_checkpoint bigint;
    v_kind       integer;
BEGIN
    status := HF_OK;
    IF p_part = CANCEL_REQUEST THEN
        SELECT * INTO v_partition FROM partitions p
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition FOR UPDATE;
    ELSE
        v_fence := fence(p_namespace_id, p_subscription_id, p_partition, p_token, p_epoch, true);
        status := v_fence.status;
        message := v_fence.message;
        IF status <> HF_OK THEN
            RETURN;
        END IF;
    END IF;
    v_checkpoint := (journal_newest(p_subscription_id, p_partition)).checkpoint;
    SELECT r.kind INTO v_kind FROM retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position;
    IF v_kind = RETRY_BLOCKED
       OR v_kind IS NULL
          AND (p_position <= v_checkpoint OR p_part = CANCEL_WAITING
               OR EXISTS (SELECT FROM settled d
                          WHERE d.subscription_id = p_subscription_id
                              AND d.partition = p_partition AND d.position = p_position)) THEN
        state := CANCEL_SETTLED;
        RETURN;
    END IF;
    IF v_partition.owner IS NOT NULL THEN
        IF v_partition.owner <> ALL (dead_of(p_namespace_id, ARRAY[v_partition.owner])) THEN
            state := CANCEL_ASKED;
            RETURN;
        END IF;
        -- What is still on its way from it is refused.
        UPDATE partitions p SET epoch = p.epoch + 1
            WHERE p.subscription_id = p_subscription_id AND p.partition = p_partition;
    END IF;
    SELECT m.waited, m.lane_busy INTO cancel_ordered.waited, cancel_ordered.lane_busy
        FROM cancel_mark(p_subscription_id, true, p_partition, v_checkpoint, NULL, p_position,
                         p_hash, p_by, p_reason, p_now) m;
    state := CANCEL_MARKED;
END
$$;

-- cancel_shared: the part of change_cancel for shared subscriptions.
CREATE OR REPLACE FUNCTION holdfast_private.cancel_shared(
    p_namespace_id integer, p_subscription_id bigint, p_position bigint, p_hash bigint,
    p_part integer, p_lease uuid, p_by text, p_reason text, p_now timestamptz, OUT status integer,
    OUT message text, OUT state integer, OUT waited boolean, OUT lane_busy boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_lease  leases;
    v_stored checkpoints_0;
    v_kind   integer;
BEGIN
    status := HF_OK;
    SELECT * INTO v_lease FROM leases l
        WHERE l.subscription_id = p_subscription_id AND l.positions @> p_position FOR UPDATE;
    PERFORM FROM partitions p WHERE p.subscription_id = p_subscription_id AND p.partition = 0
        FOR UPDATE;
    IF v_lease.token IS NULL THEN
        -- Was it claimed meanwhile? A settle that has locked the lease may wait for the partition.
        SELECT * INTO v_lease FROM leases l
            WHERE l.subscription_id = p_subscription_id AND l.positions @> p_position
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (
            SELECT FROM leases l
            WHERE l.subscription_id = p_subscription_id AND l.positions @> p_position) THEN
            RAISE EXCEPTION 'the event is being settled at this moment: try again'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    v_stored := journal_newest(p_subscription_id, 0);
    SELECT r.kind INTO v_kind FROM retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position;
    IF p_part <> CANCEL_REQUEST
       AND (v_lease.token = p_lease AND v_lease.piece IS NULL) IS NOT TRUE THEN
        status := HF_STALE;
        message := format('position %s is not in the lease', p_position);
        RETURN;
    END IF;
    IF v_lease.token IS NULL AND v_kind IS NULL
       AND (p_position <= v_stored.checkpoint
            AND NOT EXISTS (SELECT FROM unnest(v_stored.holes) h
                            WHERE p_position BETWEEN h.low AND h.high)
            OR EXISTS (SELECT FROM settled d
                       WHERE d.subscription_id = p_subscription_id AND d.partition = 0
                           AND d.position = p_position)) THEN
        state := CANCEL_SETTLED;
        RETURN;
    END IF;
    IF v_lease.kept AND v_lease.piece IS NULL AND p_part = CANCEL_REQUEST
       AND v_lease.owner <> ALL (dead_of(p_namespace_id, ARRAY[v_lease.owner])) THEN
        state := CANCEL_ASKED;
        RETURN;
    END IF;
    IF v_lease.token IS NOT NULL THEN
        PERFORM lease_cut(v_lease, int8multirange(int8range(p_position, p_position + 1)), 1, NULL);
    END IF;
    SELECT m.waited, m.lane_busy INTO cancel_shared.waited, cancel_shared.lane_busy
        FROM cancel_mark(p_subscription_id, false, 0, v_stored.checkpoint, v_stored.holes,
                         p_position, p_hash, p_by, p_reason, p_now) m;
    state := CANCEL_MARKED;
END
$$;

-- change_cancel: `struct cancel`. p_epoch, p_lease: the hold of one that answers a request, for
-- p_token. ring: something has changed. HF_NOTFOUND: no such subscription, or no such event in the
-- log; HF_STALE.
CREATE OR REPLACE FUNCTION holdfast.change_cancel(
    p_namespace_id integer, p_subscription_id bigint, p_position bigint, p_part integer,
    p_token uuid, p_epoch bigint, p_lease uuid, p_by text, p_reason text, p_now timestamptz,
    OUT status integer, OUT message text, OUT state integer, OUT waited boolean,
    OUT lane_busy boolean, OUT ring boolean, p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_caller oid := consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    v_s      record;
    v_hash   bigint;
    v_known  record;
    v_done   record;
BEGIN
    PERFORM text_check(v_caller, 'name of the one who cancels', p_by, HF_PRODUCER_BYTES_MAX);
    PERFORM text_check(v_caller, 'reason', p_reason, HF_ERROR_BYTES_MAX);
    IF (p_part BETWEEN CANCEL_REQUEST AND CANCEL_WAITING) IS NOT TRUE THEN
        RAISE EXCEPTION 'p_part is %', coalesce(p_part::text, 'NULL') USING ERRCODE = 'HF001';
    END IF;
    status := HF_OK;
    waited := false;
    lane_busy := false;
    ring := false;
    SELECT s.mode, s.partitions INTO v_s FROM subscriptions s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := missing_subscription(p_subscription_id);
        RETURN;
    END IF;
    SELECT e.hash INTO v_hash FROM events_at(p_namespace_id, NULL, ARRAY[p_position]) e;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := format('there is no event at position %s', coalesce(p_position::text, 'NULL'));
        RETURN;
    END IF;
    SELECT c.cancelled_at INTO v_known FROM cancels c
        WHERE c.subscription_id = p_subscription_id AND c.position = p_position FOR UPDATE;
    state := CASE WHEN v_known.cancelled_at IS NOT NULL THEN CANCEL_BEFORE ELSE CANCEL_NONE END;
    IF state = CANCEL_BEFORE OR NOT FOUND AND p_part <> CANCEL_REQUEST THEN
        RETURN;
    ELSIF p_part = CANCEL_WITHDRAW THEN
        DELETE FROM cancels c
            WHERE c.subscription_id = p_subscription_id AND c.position = p_position;
        RETURN;
    END IF;
    IF v_s.mode = HF_MODE_ORDERED THEN
        v_done := cancel_ordered(p_namespace_id, p_subscription_id,
                                 (v_hash % v_s.partitions)::integer, p_position, v_hash, p_part,
                                 p_token, p_epoch, p_by, p_reason, p_now);
    ELSE
        v_done := cancel_shared(p_namespace_id, p_subscription_id, p_position, v_hash, p_part,
                                p_lease, p_by, p_reason, p_now);
    END IF;
    status := v_done.status;
    message := v_done.message;
    state := v_done.state;
    waited := coalesce(v_done.waited, false);
    lane_busy := coalesce(v_done.lane_busy, false);
    IF state = CANCEL_ASKED THEN
        PERFORM cancel_ask(p_subscription_id, p_position, v_hash, p_by, p_reason, p_now);
    ELSIF state = CANCEL_SETTLED THEN
        DELETE FROM cancels c
            WHERE c.subscription_id = p_subscription_id AND c.position = p_position;
    END IF;
    ring := coalesce(state IN (CANCEL_ASKED, CANCEL_MARKED), false);
END
$$;

-- cancel_place: the position of the event that a call of cancel_event names. HF001, HF003; HF004:
-- it waits for its time.
CREATE OR REPLACE FUNCTION holdfast_private.cancel_place(p_namespace_id integer, p_id uuid,
                                                         p_position bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_place bigint := p_position;
BEGIN
    IF (p_id IS NULL) = (p_position IS NULL) THEN
        RAISE EXCEPTION 'the event is named by its id or by its position' USING ERRCODE = 'HF001';
    END IF;
    IF p_id IS NOT NULL THEN
        v_place := (find_id(p_namespace_id, p_id))."position";
        IF v_place IS NULL AND EXISTS (SELECT FROM delayed d
                                       WHERE d.namespace_id = p_namespace_id AND d.id = p_id) THEN
            RAISE EXCEPTION 'event % is not in the log yet: it waits for its time', p_id
                USING ERRCODE = 'HF004', HINT = 'holdfast.later_cancel takes it away.';
        END IF;
    END IF;
    IF NOT EXISTS (SELECT FROM events_at(p_namespace_id, NULL, ARRAY[v_place]) e) THEN
        RAISE EXCEPTION 'there is no event %', coalesce('with id ' || p_id,
                                                        'at position ' || p_position)
            USING ERRCODE = 'HF003';
    END IF;
    RETURN v_place;
END
$$;

-- cancel_event: settles an event for a subscription without a handler. cancelled: it is over;
-- requested: a process has it in hand, which gives it up unless its handler has begun, and then
-- unless that succeeds (event_states shows what became of it). HF003: no such subscription or
-- event; HF004: it is done, a dead letter, not for the subscription, or waits for its time.
CREATE OR REPLACE FUNCTION holdfast.cancel_event(
    namespace text, subscription text, id uuid DEFAULT NULL, reason text DEFAULT NULL,
    "position" bigint DEFAULT NULL, p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, cancel_event.namespace,
                                    'change the subscriptions of', 'consumer', 'owner');
    v_place     bigint := cancel_place(v_namespace.id, cancel_event.id, cancel_event."position");
    v_s         record;
    v_state     text;
    v_done      record;
BEGIN
    PERFORM demand_read_committed('to cancel needs');
    PERFORM commit_durably();
    PERFORM text_check(0::oid, 'reason', cancel_event.reason, HF_ERROR_BYTES_MAX);
    SELECT s.id, s.name INTO v_s FROM subscriptions s
        WHERE s.namespace_id = v_namespace.id AND s.name = cancel_event.subscription;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no subscription %',
            left(coalesce(cancel_event.subscription, 'NULL'), HF_NAME_BYTES_MAX)
            USING ERRCODE = 'HF003';
    END IF;
    v_state := delivery_state(v_namespace.id, v_s.id, v_place);
    IF v_state IN ('pending', 'processing', 'retrying', 'held', 'cancelled') THEN
        v_done := change_cancel(v_namespace.id, v_s.id, v_place, CANCEL_REQUEST, NULL, NULL, NULL,
                                session_user::text, cancel_event.reason, clock_timestamp(),
                                p_ticket);
        PERFORM answer_check(v_done.status, v_done.message);
        IF v_done.ring THEN
            PERFORM ring_all(v_namespace.id, v_namespace.sleep);
        END IF;
        IF v_done.state <> CANCEL_SETTLED THEN
            RETURN CASE v_done.state WHEN CANCEL_ASKED THEN 'requested' ELSE 'cancelled' END;
        END IF;
        v_state := 'done';
    END IF;
    RAISE EXCEPTION 'the event at position % is % subscription %', v_place,
        CASE v_state WHEN 'not_for_it' THEN 'not for' WHEN 'dead' THEN 'a dead letter in'
                     ELSE v_state || ' in' END, v_s.name
        USING ERRCODE = 'HF004',
              HINT = CASE v_state WHEN 'dead' THEN 'See holdfast.resolve_dead_letters.'
                                  ELSE '' END;
END
$$;
