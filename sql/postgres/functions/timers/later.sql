-- Events for later, and bringing what is due: for claims in SQL, for roles that may only consume,
-- and for people who look at what waits. Delayed events and schedules themselves are in timers.sql.

-- ---- Bringing what is due -----------------------------------------------------------------------

-- bring_due: releases and fires what is due at p_now, of at most p_max schedules and 1000 events.
-- next_at: when the next one is due; NULL: nothing waits. more: there is more that could be
-- brought.
CREATE OR REPLACE FUNCTION holdfast_private.bring_due(p_namespace_id integer, p_max integer,
                                                      p_now timestamptz, OUT fired bigint,
                                                      OUT released bigint, OUT next_at timestamptz,
                                                      OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces;
    v_released  record;
    v_fired     record;
BEGIN
    fired := 0;
    released := 0;
    more := false;
    next_at := timers_next_of(p_namespace_id);
    IF next_at <= p_now THEN
        v_namespace := namespace_of(p_namespace_id);
        PERFORM commit_durably();
        v_released := change_release(p_namespace_id, 1000, 4194304, p_now);
        v_fired := fire_due(p_namespace_id, p_max, p_now);
        released := v_released.count;
        fired := v_fired.fired;
        more := v_fired.more OR coalesce(released > 0 AND v_released.next_at <= p_now, false);
        next_at := timers_next_of(p_namespace_id);
        IF released > 0 THEN
            PERFORM ring_all(p_namespace_id, v_namespace.sleep);
        END IF;
    END IF;
END
$$;

-- bring_aside: bring_due for a caller that has something else to do. It waits for no other session,
-- and what fails is passed over with a warning.
CREATE OR REPLACE FUNCTION holdfast_private.bring_aside(p_namespace_id integer, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '200ms'
AS $$
BEGIN
    PERFORM bring_due(p_namespace_id, 100, p_now);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'what is due cannot be brought now: %', sqlerrm;
END
$$;

-- change_bring: `struct bring`. The caller gives nothing that could be published, not even a time,
-- so a role that may only consume may do it.
CREATE OR REPLACE FUNCTION holdfast.change_bring(p_namespace_id integer, p_max integer,
                                                 OUT status integer, OUT message text,
                                                 OUT fired bigint, OUT released bigint,
                                                 OUT next_at timestamptz,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_done record;
BEGIN
    status := HF_OK;
    PERFORM admit(p_ticket, p_namespace_id, 'bring what is due in', 'publisher', 'consumer',
                  'owner');
    v_done := bring_due(p_namespace_id, least(p_max, 1000), clock_timestamp());
    fired := v_done.fired;
    released := v_done.released;
    next_at := v_done.next_at;
END
$$;

-- ---- Cancelling and moving ----------------------------------------------------------------------

-- later_found: where the event is, if nothing waits under its id any more: its position in the log,
-- or HF_NOTFOUND. Called after a statement that would have waited for the session that moves it
-- there just now.
CREATE OR REPLACE FUNCTION holdfast_private.later_found(p_namespace_id integer, p_id uuid,
                                                        OUT status integer, OUT message text,
                                                        OUT "position" bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    status := HF_OK;
    "position" := (find_id(p_namespace_id, p_id))."position";
    IF "position" IS NULL THEN
        status := HF_NOTFOUND;
        message := 'no event with this id waits for its time or is in the log';
    ELSE
        PERFORM commit_what_is_seen();
    END IF;
END
$$;

-- change_later_cancel: `struct later_cancel`. position: 0, or where it is in the log.
--   change_release locks a row before it moves it, and passes over a row that is locked. So of the
-- two that come at the same moment the second waits for the first here, or passes over its row
-- there; and what is not there any more when the wait is over is in the log, which a new statement
-- sees.
CREATE OR REPLACE FUNCTION holdfast.change_later_cancel(p_namespace_id integer, p_id uuid,
                                                        OUT status integer, OUT message text,
                                                        OUT "position" bigint,
                                                        p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_found record;
BEGIN
    status := HF_OK;
    "position" := 0;
    PERFORM admit(p_ticket, p_namespace_id,
                  'change schedules and delayed events of', 'publisher', 'owner');
    DELETE FROM delayed d WHERE d.namespace_id = p_namespace_id AND d.id = p_id;
    IF NOT FOUND THEN
        v_found := later_found(p_namespace_id, p_id);
        status := v_found.status;
        message := v_found.message;
        "position" := v_found."position";
    END IF;
END
$$;

-- change_later_move: `struct later_move`.
CREATE OR REPLACE FUNCTION holdfast.change_later_move(p_namespace_id integer, p_id uuid,
                                                      p_due timestamptz, OUT status integer,
                                                      OUT message text, OUT "position" bigint,
                                                      p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_found record;
BEGIN
    status := HF_OK;
    "position" := 0;
    PERFORM times_check(admit(p_ticket, p_namespace_id,
                              'change schedules and delayed events of', 'publisher', 'owner'),
                        'the time that it waits for', p_due);
    UPDATE delayed d SET due_at = p_due WHERE d.namespace_id = p_namespace_id AND d.id = p_id;
    IF NOT FOUND THEN
        v_found := later_found(p_namespace_id, p_id);
        status := v_found.status;
        message := v_found.message;
        "position" := v_found."position";
    END IF;
END
$$;

-- ---- Looking ------------------------------------------------------------------------------------

-- timers_count: `struct timers_count`. 42501 for a role that may not see what waits.
CREATE OR REPLACE FUNCTION holdfast.timers_count(p_namespace_id integer, p_now timestamptz,
                                                 OUT later bigint, OUT later_due bigint,
                                                 OUT later_next timestamptz,
                                                 OUT schedules_due bigint,
                                                 OUT schedules_next timestamptz)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM may_see(p_namespace_id, 'events for later', 'publisher', 'owner');
    SELECT count(*), count(*) FILTER (WHERE d.due_at <= p_now), min(d.due_at)
        INTO later, later_due, later_next
        FROM read_delayed() d WHERE d.namespace_id = p_namespace_id;
    SELECT count(*) FILTER (WHERE s.next_at <= p_now), min(s.next_at)
        INTO schedules_due, schedules_next
        FROM read_schedules() s
        WHERE s.namespace_id = p_namespace_id AND s.paused_at IS NULL AND s.next_at IS NOT NULL;
END
$$;

-- ---- For applications ---------------------------------------------------------------------------

-- reader_namespace: the namespace of this name, for a caller that only looks and has one of these
-- parts in it. p_what: what it wants to see. HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.reader_namespace(p_namespace text, p_what text,
                                                     VARIADIC p_roles text[])
    RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id integer := (SELECT n.id FROM read_namespaces() n
                     WHERE n.name = p_namespace AND n.removing_at IS NULL);
BEGIN
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'there is no namespace %', left(p_namespace, 255) USING ERRCODE = 'HF003';
    END IF;
    PERFORM may_see(v_id, p_what, VARIADIC p_roles);
    RETURN v_id;
END
$$;

-- later_list: events that wait for their time, in the order in which they are due, at most max (1
-- to 1000). type: a pattern. after_due_at and after_number: those of the last row of the page
-- before. HF001, HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.later_list(namespace text, type text DEFAULT NULL,
                                               key text DEFAULT NULL,
                                               due_before timestamptz DEFAULT NULL,
                                               after_due_at timestamptz DEFAULT NULL,
                                               after_number bigint DEFAULT 0,
                                               max integer DEFAULT 100)
    RETURNS SETOF holdfast.later
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace_id integer := reader_namespace(later_list.namespace, 'events for later',
                                               'publisher', 'owner');
BEGIN
    IF later_list.max IS NULL OR later_list.max NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max is %; it must be 1 to 1000', later_list.max USING ERRCODE = 'HF001';
    ELSIF octet_length(later_list.type) > HF_TYPE_BYTES_MAX OR later_list.type <> '**'
          AND later_list.type
              !~ '^([^*.[:space:]]+|[*])([.]([^*.[:space:]]+|[*]))*([.][*][*])?$' THEN
        -- What says why (faults.sql) is not for callers, with whose rights this runs.
        RAISE EXCEPTION 'type is no pattern: %', left(later_list.type, 64) USING ERRCODE = 'HF001';
    END IF;
    RETURN QUERY SELECT d.due_at, d.number, d.id, d.type, d.payload, d.key, d.tenant, d.metadata,
                        d.producer, d.emitted_at
        FROM read_delayed() d
        WHERE d.namespace_id = v_namespace_id
            AND (d.due_at, d.number) > (coalesce(later_list.after_due_at, '-infinity'),
                                        coalesce(later_list.after_number, 0))
            AND (later_list.due_before IS NULL OR d.due_at < later_list.due_before)
            AND (later_list.key IS NULL OR d.key = later_list.key)
            AND (later_list.type IS NULL
                 OR coalesce(d.type ~ patterns_regex(ARRAY[later_list.type]), true))
        ORDER BY d.due_at, d.number LIMIT later_list.max;
END
$$;

-- later_show: the event with this id, if it waits for its time; else no row. HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.later_show(namespace text, id uuid) RETURNS SETOF holdfast.later
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace_id integer := reader_namespace(later_show.namespace, 'events for later',
                                               'publisher', 'owner');
BEGIN
    RETURN QUERY SELECT d.due_at, d.number, d.id, d.type, d.payload, d.key, d.tenant, d.metadata,
                        d.producer, d.emitted_at
        FROM read_delayed() d
        WHERE d.namespace_id = v_namespace_id AND d.id = later_show.id;
END
$$;

-- later_cancel: takes an event that waits for its time away, in the caller's transaction.
-- cancelled: whether it did; if not, the event is in the log, at this position. It waits for the
-- session that moves it there just now. HF003: neither, or no such namespace.
CREATE OR REPLACE FUNCTION holdfast.later_cancel(namespace text, id uuid, OUT cancelled boolean,
                                                 OUT "position" bigint,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace,
                                    'change schedules and delayed events of', 'publisher', 'owner');
    v_done      record;
BEGIN
    PERFORM demand_read_committed('to cancel needs');
    PERFORM commit_durably();
    v_done := change_later_cancel(v_namespace.id, later_cancel.id);
    PERFORM answer_check(v_done.status, v_done.message);
    "position" := nullif(v_done."position", 0);
    cancelled := "position" IS NULL;
END
$$;

-- later_move: gives an event that waits for its time another one, as later_cancel. HF001: no time,
-- or outside the years 0001 to 9999.
CREATE OR REPLACE FUNCTION holdfast.later_move(namespace text, id uuid, deliver_at timestamptz,
                                               OUT moved boolean, OUT "position" bigint,
                                               p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_namespace namespaces := enter(p_ticket, namespace,
                                    'change schedules and delayed events of', 'publisher', 'owner');
    v_done      record;
BEGIN
    IF (deliver_at >= '0001-01-01 00:00:00+00'
        AND deliver_at < '10000-01-01 00:00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION 'deliver_at is missing, or outside the years 0001 to 9999'
            USING ERRCODE = 'HF001';
    END IF;
    PERFORM demand_read_committed('to move needs');
    PERFORM commit_durably();
    v_done := change_later_move(v_namespace.id, later_move.id, deliver_at);
    PERFORM answer_check(v_done.status, v_done.message);
    "position" := nullif(v_done."position", 0);
    moved := "position" IS NULL;
    PERFORM ring_all(v_namespace.id, v_namespace.sleep);
END
$$;
