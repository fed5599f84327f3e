-- Deliveries that are not over: what waits for its next attempt, and what is held behind it.

-- retry_page: the positions of retries of a subscription, at most p_max. p_behind NULL: those that
-- wait for their next attempt, by when they are due, after the one at p_after that is due at
-- p_after_due (NULL: as soon as what is before it in its lane is over). Else all of its lane that
-- are behind that position and after p_after, in order.
--   Of each partition and kind the index gives the first ones; so a page costs what is on it, for
-- each partition.
CREATE OR REPLACE FUNCTION holdfast.retry_page(
    p_subscription_id bigint, p_partitions integer, p_behind bigint, p_after_due timestamptz,
    p_after bigint, p_max integer)
    RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_after_due timestamptz := coalesce(p_after_due, CASE WHEN p_after IS NULL THEN '-infinity'
                                                          ELSE to_timestamp(0) END);
BEGIN
    IF p_behind IS NOT NULL THEN
        RETURN ARRAY(
            SELECT r.position FROM read_retries() b
            CROSS JOIN LATERAL (
                SELECT r.position FROM read_retries() r
                WHERE r.subscription_id = p_subscription_id AND r.partition = b.partition
                    AND r.lane = b.lane AND r.position > greatest(p_behind, p_after)
                ORDER BY r.position LIMIT p_max) r
            WHERE b.subscription_id = p_subscription_id AND b.position = p_behind
            ORDER BY r.position);
    END IF;
    RETURN ARRAY(
        SELECT d.position
        FROM generate_series(0, p_partitions - 1) o (partition)
        CROSS JOIN unnest(ARRAY[RETRY_WAITING, RETRY_ALONE]) k (kind)
        CROSS JOIN LATERAL (
            SELECT r.next_attempt_at, r.position FROM read_retries() r
            WHERE r.subscription_id = p_subscription_id AND r.partition = o.partition
                AND r.kind = k.kind
                AND (r.next_attempt_at, r.position) > (v_after_due, coalesce(p_after, 0))
            ORDER BY r.next_attempt_at, r.position LIMIT p_max) d
        ORDER BY d.next_attempt_at, d.position LIMIT p_max);
END
$$;

-- retry_rows: those of retry_page, with their events. first: of an ordered subscription, the first
-- position of the same lane that has a row; held: how many are behind it there, at most one more
-- than p_held_max.
CREATE OR REPLACE FUNCTION holdfast.retry_rows(
    p_namespace_id integer, p_subscription_id bigint, p_behind bigint, p_after_due timestamptz,
    p_after bigint, p_max integer, p_held_max bigint)
    RETURNS TABLE ("position" bigint, partition integer, kind smallint, attempts integer,
                   cause text, story text, failed_at timestamptz, next_attempt_at timestamptz,
                   first bigint, held bigint, event_id uuid, type text, tenant text, key text)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_about     record;
    v_ordered   boolean;
    v_positions bigint[];
BEGIN
    SELECT s.mode, s.partitions INTO v_about FROM read_subscriptions() s
        WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id;
    v_ordered := v_about.mode = HF_MODE_ORDERED;
    IF v_ordered OR p_behind IS NULL THEN
        v_positions := retry_page(p_subscription_id,
                                  CASE WHEN v_ordered THEN v_about.partitions ELSE 1 END,
                                  p_behind, p_after_due, p_after, p_max);
    END IF;
    RETURN QUERY
        SELECT r.position, r.partition, r.kind, r.attempts, r.cause, r.story, r.last_retry_at,
               r.next_attempt_at,
               CASE WHEN v_ordered THEN (
                   SELECT f.position FROM read_retries() f
                   WHERE f.subscription_id = r.subscription_id AND f.partition = r.partition
                       AND f.lane = r.lane ORDER BY f.position LIMIT 1)
               ELSE r.position END,
               CASE WHEN v_ordered THEN (
                   SELECT count(*) FROM (
                       SELECT FROM read_retries() h
                       WHERE h.subscription_id = r.subscription_id AND h.partition = r.partition
                           AND h.lane = r.lane AND h.position > r.position
                       LIMIT p_held_max + 1) h)
               ELSE 0 END,
               e.id, e.type, e.tenant, e.key
        FROM unnest(v_positions) WITH ORDINALITY o ("position", place)
        JOIN read_retries() r
            ON r.subscription_id = p_subscription_id AND r.position = o.position
        LEFT JOIN events_at(p_namespace_id, p_subscription_id, v_positions) e
            ON e.position = o.position
        ORDER BY o.place;
END
$$;

-- retry_list: the events of a subscription that are retrying, those that are due first first, at
-- most max (1 to 1000); with behind, of an ordered one, those that are held behind the event at
-- that position. state: retrying, held (an earlier event of its key comes first), or, behind
-- another one, dead (it blocks the key). behind: that earlier event's position. held: how many of
-- its key wait behind it, up to 1001. after_next and after_position: next_attempt_at and position
-- of the last row of the page before. HF001, HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.retry_list(namespace text, subscription text,
                                               behind bigint DEFAULT NULL,
                                               after_next timestamptz DEFAULT NULL,
                                               after_position bigint DEFAULT NULL,
                                               max integer DEFAULT 100)
    RETURNS TABLE ("position" bigint, event_id uuid, type text, tenant text, key text,
                   partition integer, state text, attempts integer, cause text, error text,
                   failed_at timestamptz, next_attempt_at timestamptz, behind_position bigint,
                   held bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_namespace_id    integer := reader_namespace(retry_list.namespace, 'subscriptions', 'viewer',
                                                  'consumer', 'owner');
    v_subscription_id bigint;
BEGIN
    IF retry_list.max IS NULL OR retry_list.max NOT BETWEEN 1 AND HF_RETRY_LIST_MAX THEN
        RAISE EXCEPTION 'max is %; it must be 1 to %', retry_list.max, HF_RETRY_LIST_MAX
            USING ERRCODE = 'HF001';
    END IF;
    SELECT s.id INTO v_subscription_id FROM read_subscriptions() s
        WHERE s.namespace_id = v_namespace_id AND s.name = retry_list.subscription;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no subscription %',
            left(retry_list.subscription, HF_NAME_BYTES_MAX) USING ERRCODE = 'HF003';
    END IF;
    RETURN QUERY
        SELECT r.position, r.event_id, r.type, r.tenant, r.key, r.partition,
               CASE WHEN r.kind = RETRY_BLOCKED THEN 'dead'
                    WHEN r.kind = RETRY_HELD OR r.next_attempt_at = to_timestamp(0) THEN 'held'
                    ELSE 'retrying' END,
               r.attempts, r.cause, r.story::json -> -1 ->> 'error', r.failed_at,
               CASE WHEN r.kind NOT IN (RETRY_HELD, RETRY_BLOCKED)
                    THEN nullif(r.next_attempt_at, to_timestamp(0)) END,
               nullif(r.first, r.position), r.held
        FROM retry_rows(v_namespace_id, v_subscription_id, retry_list.behind,
                        retry_list.after_next, retry_list.after_position, retry_list.max,
                        HF_RETRY_HELD_MAX) r;
END
$$;
