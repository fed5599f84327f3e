-- Settling: what became of the deliveries of ordered subscriptions, and the parts of it that leases
-- have in common (leases.sql). The rules of the functions called change_<name>, and the order of
-- locks, are those of subscriptions.sql.

-- The events at these positions, in any order: the copy that a dead letter left with the
-- subscription, else the log's. p_subscription_id NULL: the log's.
CREATE OR REPLACE FUNCTION holdfast.events_at(p_namespace_id integer, p_subscription_id bigint,
                                              p_positions bigint[])
    RETURNS SETOF holdfast.event
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    v_copied bigint[];
BEGIN
    IF p_subscription_id IS NOT NULL THEN
        RETURN QUERY SELECT c.position, c.id, c.type, c.payload, c.key, c.tenant, c.metadata,
                            c.producer, c.schedule_id, c.key_version, c.hash, c.emitted_at,
                            c.entered_at, c.checksum
            FROM read_copies() c
            WHERE c.subscription_id = p_subscription_id AND c.position = ANY (p_positions);
        IF FOUND THEN
            SELECT array_agg(c.position) INTO v_copied FROM read_copies() c
                WHERE c.subscription_id = p_subscription_id AND c.position = ANY (p_positions);
        END IF;
    END IF;
    RETURN QUERY EXECUTE
        'SELECT position, id, type, payload, key, tenant, metadata, producer, schedule_id,
                key_version, hash, emitted_at, entered_at, checksum
         FROM holdfast.log_' || p_namespace_id
        || '() WHERE position = ANY ($1) AND position <> ALL (coalesce($2, ''{}''))'
        USING p_positions, v_copied;
END
$$;

-- story_add of C: the story with one more failed attempt.
CREATE OR REPLACE FUNCTION holdfast_private.story_add(p_old text, p_attempt integer,
                                                      p_at timestamptz, p_error text, p_node text)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN octet_length(p_old) + HF_ERROR_BYTES_MAX * 6 > STORY_BYTES_MAX THEN p_old
        ELSE coalesce(nullif(left(rtrim(p_old), -1), '['), '')
            || CASE WHEN coalesce(nullif(left(rtrim(p_old), -1), '['), '') = '' THEN '['
                    ELSE ',' END
            || '{"attempt":' || p_attempt
            || ',"at":"' || to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            || '","error":' || coalesce(to_json(p_error)::text, 'null')
            || ',"node":' || coalesce(to_json(p_node)::text, 'null') || '}]' END;

-- Records an attempt of a shared subscription without an answer: one more failed one, due now. It
-- is a guess that this event was the reason, so it will be handed out alone. p_cause: process_died
-- or lease_expired. p_deliveries: how often it was handed out, if it has no row. False, and nothing
-- was written: the event is given up, or it is nowhere any more.
CREATE OR REPLACE FUNCTION holdfast_private.record_lost(
    p_namespace_id integer, p_subscription_id bigint, p_position bigint, p_cause text, p_node text,
    p_deliveries integer, p_now timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_error text := CASE p_cause WHEN CAUSE_DIED THEN 'the process died during this attempt'
                                 ELSE 'the lease expired without an answer' END;
    v_lane  bigint;
BEGIN
    UPDATE holdfast_private.retries r
        SET kind = RETRY_ALONE, attempts = r.attempts + 1, next_attempt_at = p_now,
            last_retry_at = p_now,
            story = holdfast_private.story_add(r.story, r.attempts + 1, p_now, v_error, p_node),
            cause = p_cause, unit_first = NULL, unit_events = NULL
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position
            AND r.kind <> RETRY_BLOCKED;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM 1 FROM holdfast_private.retries r
        WHERE r.subscription_id = p_subscription_id AND r.position = p_position;
    IF FOUND THEN
        RETURN false;
    END IF;
    SELECT holdfast_private.lane_of(e.tenant, e.key, e.id) INTO v_lane
        FROM holdfast.events_at(p_namespace_id, NULL, ARRAY[p_position]) e;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO holdfast_private.retries (subscription_id, position, kind, partition, lane,
                                          attempts, next_attempt_at, last_retry_at, story, cause,
                                          deliveries)
        VALUES (p_subscription_id, p_position, RETRY_ALONE, 0, v_lane, 1, p_now, p_now,
                holdfast_private.story_add(NULL, 1, p_now, v_error, p_node), p_cause,
                p_deliveries);
    RETURN true;
END
$$;

-- The first row of a lane. It is looked for as the first at or after the lane's place in its index,
-- so there is only one plan for it: whatever statistics say, it does not read all that waits. It is
-- inlined.
CREATE OR REPLACE FUNCTION holdfast.lane_first(p_subscription_id bigint, p_partition integer,
                                               p_lane bigint)
    RETURNS SETOF holdfast_private.retries
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT * FROM (SELECT * FROM holdfast_private.retries r
                   WHERE (r.subscription_id, r.partition, r.lane) >= ($1, $2, $3)
                   ORDER BY r.subscription_id, r.partition, r.lane, r.position LIMIT 1) r
        WHERE r.subscription_id = $1 AND r.partition = $2 AND r.lane = $3;
END;

-- Lets the first row of each of these lanes wait, due now, if it is held.
CREATE OR REPLACE FUNCTION holdfast_private.lanes_promote(p_subscription_id bigint,
                                                          p_partition integer, p_lanes bigint[],
                                                          p_now timestamptz)
    RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    UPDATE holdfast_private.retries r SET kind = RETRY_WAITING, next_attempt_at = $4
        FROM (SELECT DISTINCT unnest($3) AS lane) l
        CROSS JOIN LATERAL holdfast.lane_first($1, $2, l.lane) f
        WHERE r.subscription_id = $1 AND r.position = f.position AND f.kind = RETRY_HELD;
END;

-- Stores events that wait behind others of their lanes, in rows of their own; one that was tried
-- before keeps its attempts. p_kinds: only those that are HELD are meant; NULL: all are. Those of
-- other partitions than p_ours, whose rows are locked for rearranging lanes, are passed over.
-- Answers of each whether it is to wait and is due: in a lane where nothing moves, because it was
-- freed while the caller did not know, the first one goes on.
CREATE OR REPLACE FUNCTION holdfast_private.lanes_hold(
    p_subscription_id bigint, p_ours integer[], p_partitions integer[], p_positions bigint[],
    p_lanes bigint[], p_kinds integer[], p_now timestamptz, OUT due boolean[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO holdfast_private.retries
        (subscription_id, position, kind, partition, lane, attempts, next_attempt_at)
        SELECT p_subscription_id, h.position, RETRY_HELD, h.partition, h.lane, 0, p_now
        FROM unnest(p_partitions, p_positions, p_lanes, p_kinds) h (partition, position, lane, kind)
        WHERE coalesce(h.kind, OUTCOME_HELD) = OUTCOME_HELD AND h.partition = ANY (p_ours)
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET kind = RETRY_HELD, partition = excluded.partition, lane = excluded.lane,
            next_attempt_at = p_now;
    -- Most often the first of a lane moves; then that is all there is to look at.
    SELECT array_agg(coalesce(h.kind, OUTCOME_HELD) = OUTCOME_HELD AND h.partition = ANY (p_ours)
                     AND (SELECT f.kind = RETRY_HELD
                          FROM holdfast.lane_first(p_subscription_id, h.partition, h.lane) f)
                     AND NOT EXISTS (SELECT 1 FROM holdfast_private.retries r
                                     WHERE r.subscription_id = p_subscription_id
                                         AND r.partition = h.partition AND r.lane = h.lane
                                         AND r.kind <> RETRY_HELD)
                     ORDER BY h.i)
        INTO due
        FROM unnest(p_partitions, p_lanes, p_kinds) WITH ORDINALITY h (partition, lane, kind, i);
    IF true = ANY (due) THEN
        PERFORM holdfast_private.lanes_promote(p_subscription_id, f.partition, f.lanes, p_now)
            FROM (SELECT h.partition, array_agg(h.lane) AS lanes
                  FROM unnest(p_partitions, p_lanes, due) h (partition, lane, due)
                  WHERE h.due GROUP BY h.partition) f;
    END IF;
END
$$;

-- letters_add: makes dead letters of those outcomes (see outcomes_apply) that are dead or blocked.
-- p_partition NULL: those of a lease, with the numbers p_handed.
CREATE OR REPLACE FUNCTION holdfast_private.letters_add(
    p_namespace_id integer, p_subscription_id bigint, p_name text, p_partition integer,
    p_handed holdfast_private.handed[], p_now timestamptz, p_kinds integer[], p_positions bigint[],
    p_attempts integer[], p_uncounted integer[], p_stories text[], p_reasons text[],
    p_errors text[], p_causes text[], OUT status integer, OUT message text)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_dead       bigint[];
    v_unreasoned boolean;
    v_lost       bigint;
    v_replaced   bigint[];
    v_kinds      bigint[];
BEGIN
    status := HF_OK;
    SELECT array_agg(o.position), bool_or(o.reason IS NULL) INTO v_dead, v_unreasoned
        FROM unnest(p_kinds, p_positions, p_reasons) o (kind, position, reason)
        WHERE o.kind IN (OUTCOME_DEAD, OUTCOME_BLOCK);
    IF v_unreasoned THEN
        status := HF_MISUSE;
        message := 'a dead letter needs a reason';
        RETURN;
    END IF;
    SELECT d INTO v_lost FROM unnest(v_dead) d
        WHERE d NOT IN (SELECT e.position FROM events_at(p_namespace_id, p_subscription_id,
                                                         v_dead) e)
        ORDER BY d LIMIT 1;
    IF FOUND THEN
        status := HF_CORRUPT;
        message := format('the event at position %s is not in the log, so it cannot become '
                          'a dead letter', v_lost);
        RETURN;
    END IF;
    -- An open letter of the same delivery leaves its place to the new one; a resolved one stays.
    WITH replaced AS (
        DELETE FROM letters d
            USING events_at(p_namespace_id, p_subscription_id, v_dead) e
            WHERE d.namespace_id = p_namespace_id AND d.subscription = p_name
                AND d.event_id = e.id AND d.resolved_at IS NULL
            RETURNING d.kind_hash)
    SELECT array_agg(r.kind_hash) INTO v_replaced FROM replaced r;
    WITH added AS (
        INSERT INTO letters
        (namespace_id, subscription, event_id, position, failed_at, attempts, reason, type, error,
         hash, checksum, emitted_at, entered_at, key_version, schedule_id, producer, key, tenant,
         metadata, payload, story, cause, deliveries)
        SELECT p_namespace_id, p_name, e.id, e.position, p_now, o.attempts, o.reason, e.type,
               o.error, e.hash, e.checksum, e.emitted_at, e.entered_at, e.key_version,
               e.schedule_id, e.producer, e.key, e.tenant, e.metadata, e.payload,
               coalesce(o.story, '[]'), o.cause,
               CASE WHEN p_partition IS NOT NULL
                    THEN ordered_times(p_subscription_id, p_partition, o.position, r.deliveries,
                                       o.attempts + coalesce(o.uncounted, 0))
                    WHEN r.position IS NOT NULL THEN r.deliveries
                    ELSE times_of(p_handed, o.position) END
        FROM unnest(p_kinds, p_positions, p_attempts, p_reasons, p_errors, p_stories, p_causes,
                    p_uncounted)
            WITH ORDINALITY o (kind, position, attempts, reason, error, story, cause, uncounted, i)
        JOIN events_at(p_namespace_id, p_subscription_id, v_dead) e ON e.position = o.position
        LEFT JOIN retries r ON r.subscription_id = p_subscription_id AND r.position = o.position
        WHERE o.kind IN (OUTCOME_DEAD, OUTCOME_BLOCK) ORDER BY o.i
        RETURNING kind_hash)
    SELECT array_agg(a.kind_hash) INTO v_kinds FROM added a;
    PERFORM dead_kinds_note(p_namespace_id, v_kinds, 1);
    IF v_replaced IS NOT NULL THEN
        PERFORM dead_kinds_note(p_namespace_id, v_replaced, -1);
    END IF;
END
$$;

-- retries_put: the rows of outcomes that wait for another attempt, or with their lane for an
-- operator. p_ordered: false for leases, with the numbers p_handed.
CREATE OR REPLACE FUNCTION holdfast_private.retries_put(
    p_subscription_id bigint, p_partition integer, p_ordered boolean,
    p_handed holdfast_private.handed[], p_now timestamptz, p_kinds integer[],
    p_positions bigint[], p_lanes bigint[], p_attempts integer[], p_uncounted integer[],
    p_stories text[], p_next timestamptz[], p_causes text[], p_unit_firsts bigint[],
    p_unit_events integer[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    INSERT INTO retries
        (subscription_id, position, kind, partition, lane, attempts, uncounted, next_attempt_at,
         last_retry_at, story, cause, unit_first, unit_events, deliveries)
        SELECT p_subscription_id, o.position,
               CASE o.kind WHEN OUTCOME_RETRY THEN RETRY_WAITING ELSE RETRY_BLOCKED END,
               p_partition, o.lane, o.attempts, coalesce(o.uncounted, 0),
               CASE o.kind WHEN OUTCOME_RETRY THEN o.next ELSE p_now END, p_now, o.story, o.cause,
               o.unit_first, o.unit_events,
               CASE WHEN NOT p_ordered THEN times_of(p_handed, o.position) END
        FROM unnest(p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_next, p_stories,
                    p_causes, p_unit_firsts, p_unit_events)
            o (kind, position, lane, attempts, uncounted, next, story, cause, unit_first,
               unit_events)
        WHERE o.kind IN (OUTCOME_RETRY, OUTCOME_BLOCK)
        ON CONFLICT (subscription_id, position) DO UPDATE
        SET kind = excluded.kind, partition = excluded.partition, lane = excluded.lane,
            next_attempt_at = excluded.next_attempt_at, attempts = excluded.attempts,
            uncounted = excluded.uncounted, last_retry_at = excluded.last_retry_at,
            story = excluded.story, cause = excluded.cause, unit_first = excluded.unit_first,
            unit_events = excluded.unit_events,
            deliveries = CASE WHEN NOT p_ordered THEN retries.deliveries END;
END
$$;

-- outcomes_apply: what became of deliveries, in rows: the part that settle and settle_lease have in
-- common. Arrays of one length (their meaning: `struct outcome`; kind: OUTCOME_DONE, RETRY, HELD,
-- DEAD or BLOCK). p_ordered: false for leases, with the numbers p_handed. lane_busy: per outcome,
-- `ret_lane_busy`, or if it is held `ret_due`. The caller has locked the partition's row for
-- rearranging lanes, or the lease. HF_MISUSE, HF_CORRUPT: a dead one's event is not in the log.
CREATE OR REPLACE FUNCTION holdfast_private.outcomes_apply(
    p_namespace_id integer, p_subscription_id bigint, p_name text, p_partition integer,
    p_ordered boolean, p_checkpoint bigint, p_now timestamptz, p_kinds integer[],
    p_positions bigint[], p_lanes bigint[], p_attempts integer[], p_uncounted integer[],
    p_stories text[], p_next timestamptz[], p_reasons text[], p_errors text[], p_causes text[],
    p_unit_firsts bigint[], p_unit_events integer[], p_handed holdfast_private.handed[],
    OUT status integer, OUT message text, OUT lane_busy boolean[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_buried     record;
    v_gone       bigint[];
    v_left       bigint[];                      -- positions of rows that left a lane
    v_left_lanes bigint[];                      -- lanes of those rows
    v_due        boolean[];                     -- of each: it is held, and due
BEGIN
    status := HF_OK;
    lane_busy := array_fill(false, ARRAY[cardinality(p_kinds)]);
    IF NOT p_ordered AND OUTCOME_HELD = ANY (p_kinds) THEN
        status := HF_MISUSE;
        message := 'a shared subscription has no lanes to be held behind';
        RETURN;
    END IF;
    IF OUTCOME_RELEASE = ANY (p_kinds) THEN
        status := HF_MISUSE;
        message := 'only events of a lease can be released';
        RETURN;
    END IF;
    IF p_kinds && ARRAY[OUTCOME_DEAD, OUTCOME_BLOCK] THEN
        v_buried := letters_add(p_namespace_id, p_subscription_id, p_name,
                                CASE WHEN p_ordered THEN p_partition END, p_handed, p_now, p_kinds,
                                p_positions, p_attempts, p_uncounted, p_stories, p_reasons,
                                p_errors, p_causes);
        status := v_buried.status;
        message := v_buried.message;
        IF status <> HF_OK THEN
            RETURN;
        END IF;
    END IF;

    -- Done and dead ones leave, with their copies.
    IF p_kinds && ARRAY[OUTCOME_DONE, OUTCOME_DEAD] THEN
        SELECT array_agg(o.position) INTO v_gone
            FROM unnest(p_kinds, p_positions) o (kind, position)
                WHERE o.kind IN (OUTCOME_DONE, OUTCOME_DEAD);
        PERFORM outcomes_keep(p_subscription_id, p_ordered, p_partition, array_agg(o.position),
                              array_agg(o.attempts), p_now)
            FROM unnest(p_kinds, p_positions, p_attempts) o (kind, position, attempts)
            WHERE o.kind = OUTCOME_DONE HAVING count(*) > 0;
        WITH left_rows AS (
            DELETE FROM retries r
                WHERE r.subscription_id = p_subscription_id AND r.position = ANY (v_gone)
                    AND (p_ordered OR r.kind = RETRY_LEASED)
                RETURNING r.position, r.lane)
        SELECT array_agg(l.position), array_agg(l.lane) INTO v_left, v_left_lanes FROM left_rows l;
        IF v_left IS NOT NULL THEN
            DELETE FROM copies c
                WHERE c.subscription_id = p_subscription_id AND c.position = ANY (v_left);
        END IF;
        IF p_ordered THEN
            INSERT INTO settled (subscription_id, partition, position)
                SELECT p_subscription_id, p_partition, g FROM unnest(v_gone) g
                WHERE g > p_checkpoint
                ON CONFLICT (subscription_id, partition, position) DO NOTHING;
        END IF;
    END IF;

    -- Those that wait: retry, blocked, and those behind them.
    IF p_kinds && ARRAY[OUTCOME_RETRY, OUTCOME_BLOCK] THEN
        PERFORM retries_put(p_subscription_id, p_partition, p_ordered, p_handed, p_now, p_kinds,
                            p_positions, p_lanes, p_attempts, p_uncounted, p_stories, p_next,
                            p_causes, p_unit_firsts, p_unit_events);
    END IF;
    IF OUTCOME_HELD = ANY (p_kinds) THEN
        v_due := lanes_hold(p_subscription_id, ARRAY[p_partition],
                            array_fill(p_partition, ARRAY[cardinality(p_kinds)]), p_positions,
                            p_lanes, p_kinds, p_now);
    END IF;

    -- In lanes that a row has left the first one goes on, if it is held.
    IF p_ordered AND v_left IS NOT NULL THEN
        PERFORM lanes_promote(p_subscription_id, p_partition, v_left_lanes, p_now);
    END IF;
    IF true = ANY (v_due) OR p_ordered AND v_left IS NOT NULL OR OUTCOME_BLOCK = ANY (p_kinds) THEN
        SELECT array_agg(CASE o.kind WHEN OUTCOME_BLOCK THEN true
                         WHEN OUTCOME_HELD THEN o.due
                         ELSE p_ordered AND l.lane IS NOT NULL
                              AND EXISTS (SELECT FROM lane_first(p_subscription_id, p_partition,
                                                                 l.lane)) END
                         ORDER BY o.i) INTO lane_busy
            FROM unnest(p_kinds, p_positions, v_due) WITH ORDINALITY o (kind, position, due, i)
            LEFT JOIN unnest(v_left, v_left_lanes) l (position, lane)
                ON l.position = o.position AND o.kind IN (OUTCOME_DONE, OUTCOME_DEAD);
    END IF;
END
$$;

-- change_settle: `struct settle`. p_generation: NULL or 0: any. p_checkpoint: NULL or -1:
-- unchanged. p_last_event_id NULL: unchanged. p_kinds ... p_unit_events: the outcomes, NULL or
-- arrays of one length (see outcomes_apply); p_waited: they have rows in retries. p_pause_reason:
-- the subscription is paused too; NULL: it is not. lane_busy is NULL if there are no outcomes.
-- HF_STALE, HF_NOTFOUND, HF_CONFLICT, HF_MISUSE. Locks the partition's row: FOR SHARE, or for
-- rearranging lanes if an outcome does so; before it the subscription's, if that is paused. May be
-- committed asynchronously: what is lost is done again. As in change_checkpoints, plans are made
-- once, whatever it calls. (The cost of a scan that is off makes a plan look worth compiling.)
CREATE OR REPLACE FUNCTION holdfast.change_settle(
    p_namespace_id integer, p_subscription_id bigint, p_partition integer, p_token uuid,
    p_epoch bigint, p_generation bigint, p_checkpoint bigint, p_last_event_id uuid,
    p_now timestamptz, p_kinds integer[] DEFAULT NULL, p_positions bigint[] DEFAULT NULL,
    p_lanes bigint[] DEFAULT NULL, p_attempts integer[] DEFAULT NULL,
    p_uncounted integer[] DEFAULT NULL, p_stories text[] DEFAULT NULL,
    p_next timestamptz[] DEFAULT NULL, p_reasons text[] DEFAULT NULL,
    p_errors text[] DEFAULT NULL, p_causes text[] DEFAULT NULL,
    p_unit_firsts bigint[] DEFAULT NULL, p_unit_events integer[] DEFAULT NULL,
    p_waited boolean[] DEFAULT NULL,
    p_pause_by text DEFAULT NULL, p_pause_reason text DEFAULT NULL,
    OUT status integer, OUT message text, OUT generation bigint, OUT lane_busy boolean[],
    p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_caller oid;
    v_fence  record;
    v_stored checkpoints_0;
    v_new    bigint := nullif(p_checkpoint, -1);
    v_done   record;
    v_lanes  boolean := p_kinds && ARRAY[OUTCOME_RETRY, OUTCOME_HELD, OUTCOME_DEAD, OUTCOME_BLOCK]
                        OR true = ANY (p_waited);
BEGIN
    v_caller := consumer_admit(p_ticket, p_namespace_id, p_token, p_now);
    IF v_caller IS NOT NULL THEN
        PERFORM positions_check(v_caller, p_namespace_id, array_remove(ARRAY[v_new], NULL));
        PERFORM outcomes_check(v_caller, p_namespace_id, p_subscription_id, p_partition, p_now,
                               p_kinds, p_positions, p_lanes, p_attempts, p_uncounted, p_stories,
                               p_next, p_reasons, p_errors, p_causes, p_unit_firsts, p_unit_events);
        PERFORM text_check(v_caller, 'reason', concat(p_pause_by, p_pause_reason), 4096);
    END IF;
    IF p_pause_reason IS NOT NULL THEN
        PERFORM 1 FROM subscriptions s
            WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id FOR NO KEY UPDATE;
    END IF;
    v_fence := fence(p_namespace_id, p_subscription_id, p_partition, p_token, p_epoch,
                     coalesce(v_lanes, false));
    status := v_fence.status;
    message := v_fence.message;
    IF status <> HF_OK THEN
        RETURN;
    END IF;
    IF p_generation <> 0 AND p_generation <> v_fence.generation THEN
        status := HF_CONFLICT;
        message := format('the subscription has been changed: its generation is %s, not %s',
                          v_fence.generation, p_generation);
        RETURN;
    END IF;
    v_stored := v_fence.stored;
    IF v_new < v_stored.checkpoint THEN
        status := HF_MISUSE;
        message := format('checkpoint %s is below the stored one, %s', v_new, v_stored.checkpoint);
        RETURN;
    END IF;
    IF cardinality(p_kinds) > 0 THEN
        v_done := outcomes_apply(p_namespace_id, p_subscription_id, v_fence.name, p_partition, true,
                                 coalesce(v_new, v_stored.checkpoint), p_now, p_kinds, p_positions,
                                 p_lanes, p_attempts, p_uncounted, p_stories, p_next, p_reasons,
                                 p_errors, p_causes, p_unit_firsts, p_unit_events, NULL);
        status := v_done.status;
        message := v_done.message;
        lane_busy := v_done.lane_busy;
        IF status <> HF_OK THEN
            RETURN;
        END IF;
    END IF;
    IF v_new IS NOT NULL THEN
        PERFORM journal_add(p_subscription_id, p_partition, v_new, p_now,
                            coalesce(p_last_event_id, v_stored.last_event_id),
                            p_stored => v_stored);
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
