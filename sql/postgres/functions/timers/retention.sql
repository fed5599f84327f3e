-- Retention: which months of a log may go, what is written down before they do, and how they go.
--
-- The log is retained by whole months (guard_at). One goes when all in it is older than the
-- namespace's retention_ms, or the log is larger than its retention_bytes, and no subscription
-- needs it any more; or, if the namespace says lagging_drop, after the subscriptions that need it
-- have been moved past it. The oldest goes first, and what comes after one that stays, stays: a log
-- has no holes in its middle.
--
-- Publishers must not wait. To take a month out of the log in one transaction needs ACCESS
-- EXCLUSIVE on the log, and those who publish meanwhile wait behind the session that waits for that
-- lock. DETACH CONCURRENTLY needs only SHARE UPDATE EXCLUSIVE, which no publisher and no reader
-- minds, but it can run in no function. So retention is a chain of steps, and one that has to
-- detach answers the command for its caller to run:
--
--     move those who lag -> note where the log begins -> (DETACH CONCURRENTLY) -> DROP -> event_ids
--
-- Each step looks first at what is left of earlier ones (retention_left, ids_from): a process that
-- dies between any two leaves something that the next one ends. A user without a client for that
-- calls retain, which drops a month in its own transaction, with a bound on the wait.

-- ---- What is needed -----------------------------------------------------------------------------

-- subscription_floor: a position that the subscription needs nothing at or below of: everything
-- there is settled, or kept as a copy. NULL: not known now (the journal is being rotated): keep
-- everything. It is true if journal and leases were locked before the statement's snapshot was
-- taken: see change_retain.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_floor(p_subscription_id bigint)
    RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT CASE WHEN count(*) > 0 AND count(c.checkpoint) = count(*) THEN
        least(min(c.checkpoint),
              min((SELECT min(h.low) FROM unnest(c.holes) h)) - 1,
              (SELECT min(r.position) FROM holdfast_private.retries r
               WHERE r.subscription_id = p_subscription_id
                   AND NOT EXISTS (SELECT FROM holdfast_private.copies y
                                   WHERE y.subscription_id = r.subscription_id
                                       AND y.position = r.position)) - 1,
              (SELECT min(lower(l.positions)) FROM holdfast_private.leases l
               WHERE l.subscription_id = p_subscription_id) - 1) END
    FROM holdfast_private.checkpoints c WHERE c.subscription_id = p_subscription_id
$$;

-- lagging: the subscriptions of a namespace that need something at or below p_position, and from
-- where. Where lagging ones are dropped, one that has been dropped up to a position needs nothing
-- below it.
CREATE OR REPLACE FUNCTION holdfast_private.lagging(p_namespace_id integer, p_position bigint,
                                                    p_drop boolean)
    RETURNS TABLE (id bigint, name text, floor bigint)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT s.id, s.name, f.floor FROM holdfast_private.subscriptions s
    CROSS JOIN LATERAL (SELECT coalesce(holdfast_private.subscription_floor(s.id), 0) AS floor) f
    WHERE s.namespace_id = p_namespace_id AND f.floor < p_position
        AND NOT (p_drop AND coalesce(s.dropped_through, 0) >= p_position)
    ORDER BY s.name
$$;

-- retention_months: the months of the log that are past and are to go, oldest first, up to the
-- first one that a subscription keeps.
--   reason   'age' or 'size'
--   kept_by  a subscription that has not finished it; NULL: none
-- The events of a month entered the log less than a day after its end (guard_at, append.sql), so
-- age counts from then. A month is past two days after its end: no publisher can be about to write
-- into it. Size counts the log as a whole; months that are not past are never taken.
CREATE OR REPLACE FUNCTION holdfast_private.retention_months(p_namespace_id integer)
    RETURNS TABLE (month text, ends_at timestamptz, bytes bigint, lowest bigint, highest bigint,
                   reason text, kept_by text)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET datestyle = 'ISO, YMD' SET timezone = 'UTC'
AS $$
#variable_conflict use_column
DECLARE
    v_now       timestamptz := clock_timestamp();
    v_namespace namespaces%ROWTYPE;
    v_month     record;
    v_total     bigint;
BEGIN
    SELECT * INTO v_namespace FROM namespaces n
        WHERE n.id = p_namespace_id AND n.removing_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT sum(pg_total_relation_size(i.inhrelid)) INTO v_total FROM pg_inherits i
        WHERE i.inhparent = ('holdfast_private.events_' || p_namespace_id)::regclass
            AND NOT i.inhdetachpending;
    FOR v_month IN
        SELECT 'holdfast_private.' || c.relname AS month,
               (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month') AT TIME ZONE 'UTC'
                   AS ends_at
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = ('holdfast_private.events_' || p_namespace_id)::regclass
            AND NOT i.inhdetachpending
        ORDER BY 2 LOOP
        month := v_month.month;
        ends_at := v_month.ends_at;
        bytes := pg_total_relation_size(month::regclass);
        EXIT WHEN ends_at + interval '2 days' > v_now;
        reason := CASE
            WHEN v_namespace.retention_ms > 0
                AND ends_at + interval '1 day' <= v_now - v_namespace.retention_ms * interval '1 ms'
                THEN 'age'
            WHEN v_namespace.retention_bytes > 0 AND v_total > v_namespace.retention_bytes
                THEN 'size'
        END;
        EXIT WHEN reason IS NULL;
        EXECUTE format('SELECT (SELECT position FROM %s ORDER BY position LIMIT 1), '
                       '(SELECT position FROM %s ORDER BY position DESC LIMIT 1)', month, month)
            INTO lowest, highest;
        kept_by := (SELECT l.name FROM lagging(p_namespace_id, highest, v_namespace.lagging_drop) l
                    LIMIT 1);
        RETURN NEXT;
        EXIT WHEN kept_by IS NOT NULL AND NOT v_namespace.lagging_drop;
        v_total := v_total - bytes;
    END LOOP;
END
$$;

-- retention_plan: what retention would take now. due: there is something; through: the highest
-- position of it; kept_by: the subscription that keeps more from going, or with lagging_drop loses
-- something. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.retention_plan(p_namespace_id integer, OUT due boolean,
                                                   OUT through bigint, OUT events bigint,
                                                   OUT bytes bigint, OUT by_size boolean,
                                                   OUT kept_by text,
                                                   p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'see the retention of', 'viewer', 'publisher',
                  'consumer', 'owner');
    SELECT coalesce(bool_or(m.goes), false), coalesce(max(m.highest) FILTER (WHERE m.goes), 0),
           coalesce(sum(m.highest - m.lowest + 1) FILTER (WHERE m.goes), 0)::bigint,
           coalesce(sum(m.bytes) FILTER (WHERE m.goes), 0)::bigint,
           coalesce(bool_or(m.reason = 'size') FILTER (WHERE m.goes), false),
           (array_agg(m.kept_by ORDER BY m.ends_at) FILTER (WHERE m.kept_by IS NOT NULL))[1]
    INTO retention_plan.due, retention_plan.through, retention_plan.events, retention_plan.bytes,
         retention_plan.by_size, retention_plan.kept_by
    FROM (SELECT r.*, r.kept_by IS NULL OR n.lagging_drop AS goes
          FROM retention_months(p_namespace_id) r
          JOIN namespaces n ON n.id = p_namespace_id) m;
END
$$;

-- ---- What is done -------------------------------------------------------------------------------

-- Whether the caller may drop months at all. A role that only has a part in a namespace
-- (grants.sql) may not, nor may it read them by themselves. In a transaction that has one snapshot
-- for all no role may: what is needed could have been written anew since, where it does not show.
CREATE OR REPLACE FUNCTION holdfast.retention_may() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN has_column_privilege('holdfast_private.namespaces'::regclass, 'retained_at', 'UPDATE')
        AND holdfast_private.sees_commits();

-- retention_take: true if it is our turn: no process has run for p_every_ms. One row, one moment:
-- of two who ask at once the second waits for the first and finds that it is too early. A time in
-- the future was written by a clock that has been set back since.
CREATE OR REPLACE FUNCTION holdfast_private.retention_take(p_namespace_id integer,
                                                           p_every_ms bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    UPDATE namespaces n SET retained_at = clock_timestamp()
        WHERE n.id = p_namespace_id AND n.removing_at IS NULL
            AND (n.retained_at IS NULL
                 OR n.retained_at <= clock_timestamp() - p_every_ms * interval '1 ms'
                 OR n.retained_at > clock_timestamp() + interval '1 minute');
    RETURN FOUND;
END
$$;

-- subscription_drop: moves a subscription past p_through, and writes down what it loses. What waits
-- with a copy of its event stays, and so does everything above; an owner that is at work below is
-- refused.
CREATE OR REPLACE FUNCTION holdfast_private.subscription_drop(p_subscription_id bigint,
                                                              p_floor bigint, p_through bigint,
                                                              p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_copies int8multirange;
BEGIN
    PERFORM partitions_lock(p_subscription_id);
    UPDATE partitions p SET epoch = p.epoch + 1 WHERE p.subscription_id = p_subscription_id;
    SELECT range_agg(int8range(c.position, c.position, '[]')) INTO v_copies
        FROM copies c WHERE c.subscription_id = p_subscription_id;
    UPDATE leases l
        SET positions = l.positions - (int8multirange(int8range(NULL, p_through, '[]'))
                                       - coalesce(v_copies, '{}'))
        WHERE l.subscription_id = p_subscription_id AND lower(l.positions) <= p_through;
    DELETE FROM leases l WHERE l.subscription_id = p_subscription_id AND isempty(l.positions);
    UPDATE leases l
        SET count = (SELECT sum(upper(r) - lower(r)) FROM unnest(l.positions) r)
        WHERE l.subscription_id = p_subscription_id;
    DELETE FROM retries r
        WHERE r.subscription_id = p_subscription_id AND r.position <= p_through
            AND NOT EXISTS (SELECT FROM copies c WHERE c.subscription_id = r.subscription_id
                                AND c.position = r.position);
    -- What was held behind one that is gone is the first of its lane now.
    UPDATE retries r SET kind = RETRY_WAITING, next_attempt_at = p_now
        WHERE r.subscription_id = p_subscription_id AND r.kind = RETRY_HELD
            AND NOT EXISTS (SELECT FROM retries b
                            WHERE b.subscription_id = r.subscription_id
                                AND b.partition = r.partition
                                AND b.lane = r.lane AND b.position < r.position);
    DELETE FROM settled e WHERE e.subscription_id = p_subscription_id AND e.position <= p_through;
    PERFORM journal_add(p_subscription_id, c.partition, p_through, p_now, NULL)
        FROM checkpoints c
        WHERE c.subscription_id = p_subscription_id AND c.checkpoint < p_through;
    UPDATE subscriptions s
        SET dropped = s.dropped + p_through - greatest(p_floor, coalesce(s.dropped_through, 0)),
            dropped_through = p_through, generation = s.generation + 1
        WHERE s.id = p_subscription_id;
END
$$;

-- retention_left: what a run began and did not end: months whose detaching is pending, and detached
-- ones that are to be dropped.
CREATE OR REPLACE FUNCTION holdfast_private.retention_left(p_namespace_id integer)
    RETURNS TABLE (month text, pending boolean)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT 'holdfast_private.' || c.relname, i.inhrelid IS NOT NULL
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE c.relnamespace = 'holdfast_private'::regnamespace AND c.relkind = 'r'
        AND c.relname ~ ('^events_' || p_namespace_id || '_[0-9]{6}$')
        AND (i.inhrelid IS NULL OR i.inhdetachpending)
    ORDER BY c.relname
$$;

-- When the oldest month of a log begins; NULL: it has none. (months_from may be later: there are
-- months before it if the log was not used for some, or if it was copied.)
CREATE OR REPLACE FUNCTION holdfast_private.log_from(p_namespace_id integer) RETURNS timestamptz
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
    SELECT min(to_date(right(c.relname, 6), 'YYYYMM'))::timestamp AT TIME ZONE 'UTC'
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = ('holdfast_private.events_' || p_namespace_id)::regclass
        AND NOT i.inhdetachpending
$$;

-- retention_ids: forgets the ids of events that are gone, p_rows of event_ids at a time in the
-- order of ids. True: there may be more. An id whose event is gone and that is not forgotten yet
-- counts as published; nothing promises that it does not.
CREATE OR REPLACE FUNCTION holdfast_private.retention_ids(p_namespace_id integer, p_rows bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces%ROWTYPE;
    v_from      timestamptz := log_from(p_namespace_id);
    v_last      uuid;
BEGIN
    SELECT * INTO v_namespace FROM namespaces n WHERE n.id = p_namespace_id;
    IF v_from IS NULL OR v_namespace.ids_from >= v_from THEN
        RETURN false;
    END IF;
    SELECT e.id INTO v_last FROM event_ids e
        WHERE e.namespace_id = p_namespace_id
            AND (v_namespace.ids_after IS NULL OR e.id > v_namespace.ids_after)
        ORDER BY e.id OFFSET p_rows - 1 LIMIT 1;
    DELETE FROM event_ids e
        WHERE e.namespace_id = p_namespace_id AND e.guard_at < v_from
            AND (v_namespace.ids_after IS NULL OR e.id > v_namespace.ids_after)
            AND (v_last IS NULL OR e.id <= v_last);
    UPDATE namespaces n
        SET ids_after = v_last,
            ids_from = CASE WHEN v_last IS NULL THEN v_from ELSE n.ids_from END
        WHERE n.id = p_namespace_id;
    RETURN true;
END
$$;

-- change_retain: one step of `struct retain`. p_every_ms NULL: it need not be our turn. taken: it
-- is. p_plain: the caller cannot detach: a month is dropped here, which locks the log to the end of
-- the transaction. command: what the caller has to run, outside of any transaction, before the next
-- step. Locks are waited for only briefly: the caller comes again.
CREATE OR REPLACE FUNCTION holdfast.change_retain(
    p_namespace_id integer, p_through bigint, p_every_ms bigint, p_rows bigint, p_plain boolean,
    OUT status integer, OUT message text, OUT taken boolean, OUT more boolean, OUT command text,
    OUT events bigint, OUT bytes bigint, OUT dropped_name text, OUT dropped_from bigint,
    OUT dropped_through bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '50ms'
AS $$
DECLARE
    v_namespace record;
    v_left      record;
    v_month     record;
    v_lagging   record;
BEGIN
    status := HF_OK;
    taken := p_every_ms IS NULL OR retention_may();
    more := false;
    events := 0;
    bytes := 0;
    IF NOT taken THEN
        RETURN;
    END IF;
    PERFORM owner_check('shorten the log');
    SELECT * INTO v_namespace FROM namespaces n
        WHERE n.id = p_namespace_id AND n.removing_at IS NULL
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := HF_NOTFOUND;
        message := 'there is no such namespace, or it is being removed';
        RETURN;
    END IF;
    IF p_every_ms IS NOT NULL AND NOT retention_take(p_namespace_id, p_every_ms) THEN
        taken := false;
        RETURN;
    END IF;
    SELECT * INTO v_left FROM retention_left(p_namespace_id) LIMIT 1;
    IF FOUND THEN
        more := true;
        IF v_left.pending THEN
            command := format('ALTER TABLE holdfast_private.%I DETACH PARTITION %s FINALIZE',
                              'events_' || p_namespace_id, v_left.month);
            IF p_plain THEN
                EXECUTE command;
            END IF;
        ELSE
            EXECUTE format('DROP TABLE %s', v_left.month);
        END IF;
        RETURN;
    END IF;
    IF retention_ids(p_namespace_id, p_rows) OR uniques_sweep(p_namespace_id, 1000) THEN
        more := true;
        RETURN;
    END IF;
    -- No session seeks back while we look, and rotate and compact (journal.sql) do not write
    -- checkpoints and leases anew beneath a snapshot that is older: what a lease needs would go,
    -- and a subscription that has finished everything would seem to keep it.
    LOCK TABLE checkpoints_0, checkpoints_1, leases IN ACCESS SHARE MODE;
    PERFORM FROM subscriptions s WHERE s.namespace_id = p_namespace_id FOR SHARE;
    SELECT * INTO v_month FROM retention_months(p_namespace_id) m
        WHERE coalesce(m.highest, 0) <= p_through ORDER BY m.ends_at LIMIT 1;
    IF NOT FOUND OR (v_month.kept_by IS NOT NULL AND NOT v_namespace.lagging_drop) THEN
        RETURN;
    END IF;
    more := true;
    SELECT * INTO v_lagging FROM lagging(p_namespace_id, v_month.highest, v_namespace.lagging_drop)
        LIMIT 1;
    IF FOUND THEN
        PERFORM subscription_drop(v_lagging.id, v_lagging.floor, p_through, clock_timestamp());
        dropped_name := v_lagging.name;
        dropped_from := v_lagging.floor;
        dropped_through := p_through;
        PERFORM wake(p_namespace_id);
        RETURN;
    END IF;
    UPDATE namespaces n
        SET months_from = greatest(n.months_from, v_month.ends_at),
            retained_through = greatest(n.retained_through, v_month.highest)
        WHERE n.id = p_namespace_id;
    DELETE FROM outcomes o USING subscriptions s
        WHERE s.namespace_id = p_namespace_id AND o.subscription_id = s.id
            AND o.position <= v_month.highest;
    DELETE FROM cancels c USING subscriptions s
        WHERE s.namespace_id = p_namespace_id AND c.subscription_id = s.id
            AND c.position <= v_month.highest;
    events := coalesce(v_month.highest - v_month.lowest + 1, 0);
    bytes := v_month.bytes;
    IF p_plain THEN
        EXECUTE format('DROP TABLE %s', v_month.month);
    ELSE
        command := format('ALTER TABLE holdfast_private.%I DETACH PARTITION %s CONCURRENTLY',
                          'events_' || p_namespace_id, v_month.month);
    END IF;
END
$$;

-- ---- For those who run no process ---------------------------------------------------------------

-- retain: retention for those who run no process of the library, of one namespace (its name) or of
-- all; about hourly: a caller that comes more often finds that it is not the turn (p_every_ms; 0:
-- it always is). Answers how many months went: 0 or 1; then call it again. A month is the last
-- thing that it takes, whichever namespace it is of, because that locks the namespace's log: a
-- session that publishes or reads there waits for at most 50 ms until the lock is had or given up,
-- and then for the end of the caller's transaction, which should be this call alone. A log that is
-- in use is left alone for a tenth of that time. Of a role that only has a part in a namespace it
-- wants nothing, and in a transaction that is not READ COMMITTED it cannot do anything: 0, and the
-- months stay (retention_may). A warning tells of each subscription that loses something. It works
-- on a namespace for about a second: if there is more to do, it is the namespace's turn again at
-- once.
CREATE OR REPLACE FUNCTION holdfast.retain(p_namespace text DEFAULT NULL,
                                           p_every_ms bigint DEFAULT 3600000)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id      integer;
    v_through bigint;
    v_every   bigint;
    v_until   timestamptz;
    v_step    record;
BEGIN
    IF NOT retention_may() THEN
        RETURN 0;
    END IF;
    FOR v_id IN SELECT n.id FROM namespaces n
                WHERE (n.name = p_namespace OR p_namespace IS NULL) AND n.removing_at IS NULL
                    AND n.copying IS NULL
                    AND (n.retained_at BETWEEN clock_timestamp() - p_every_ms * interval '1 ms'
                                           AND clock_timestamp() + interval '1 minute') IS NOT TRUE
                ORDER BY n.retained_at NULLS FIRST, n.id LOOP
        BEGIN
            v_every := p_every_ms;
            v_through := (SELECT p.through FROM retention_plan(v_id) p);
            v_until := clock_timestamp() + interval '1 s';
            FOR v_round IN 1 .. 1000 LOOP
                SELECT * INTO v_step FROM change_retain(v_id, v_through, v_every, 5000, true);
                v_every := NULL;
                IF v_step.dropped_name IS NOT NULL THEN
                    RAISE WARNING 'retention moved subscription % from position % to %: what it '
                                  'had not finished there is dropped (lagging=drop)',
                        v_step.dropped_name, v_step.dropped_from, v_step.dropped_through;
                END IF;
                EXIT WHEN v_step.status <> HF_OK OR NOT v_step.taken OR NOT v_step.more;
                IF v_step.bytes > 0 THEN
                    RETURN 1;
                ELSIF clock_timestamp() > v_until THEN
                    UPDATE namespaces n
                        SET retained_at = clock_timestamp() - p_every_ms * interval '1 ms'
                        WHERE n.id = v_id;
                    EXIT;
                END IF;
            END LOOP;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            -- Not at once: publishers have waited for us. The row may be what is locked.
            UPDATE namespaces n
                SET retained_at = clock_timestamp() - p_every_ms * 0.9 * interval '1 ms'
                WHERE n.id = (SELECT f.id FROM namespaces f WHERE f.id = v_id
                              FOR NO KEY UPDATE SKIP LOCKED);
        END;
    END LOOP;
    RETURN 0;
END
$$;
