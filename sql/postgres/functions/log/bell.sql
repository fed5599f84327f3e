-- The bell: how those who wait for events are woken, and the gates where processes wait for each
-- other.

-- The flag of a namespace that says "a consumer sleeps" is the value of a sequence: until when, in
-- microseconds. All sessions see it at once, whatever their snapshots, and writing it leaves no
-- dead row behind.

-- gate_lock: locks a gate of the namespace for a moment, to the end of the caller's transaction. A
-- session that has locked it needs it for a moment only; if its transaction goes on all the same,
-- no other waits longer than this.
CREATE OR REPLACE FUNCTION holdfast_private.gate_lock(p_namespace_id integer, p_gate integer)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '100ms'
AS $$
BEGIN
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = p_gate FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- sleep: declares that a consumer of the namespace is going to wait for a NOTIFY on the channel
-- holdfast_<id>, for p_ms (up to an hour) at most. Answers the flag's value: to be handed to
-- holdfast.awake. To be declared before the log is looked at for the last time.
CREATE OR REPLACE FUNCTION holdfast.sleep(p_namespace_id integer, p_ms integer,
                                          p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_flag  regclass;
    v_until bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                      + least(greatest(p_ms, 0), 3600000)::bigint * 1000;
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'wait for', 'viewer', 'publisher', 'consumer', 'owner');
    SELECT n.sleep INTO v_flag FROM namespaces n WHERE n.id = p_namespace_id;
    PERFORM gate_lock(p_namespace_id, 0);
    RETURN setval(v_flag, greatest(v_until, coalesce(pg_sequence_last_value(v_flag), 0) + 1));
END
$$;

-- awake: takes the declaration back, if it is still the latest one (p_flag, from holdfast.sleep):
-- for a consumer that has work for a while, so that publishers need not notify. True: taken back.
-- False, too, if another session is declaring something just now.
-- A consumer that sleeps was woken by the same NOTIFY and declares anew before it sleeps again.
CREATE OR REPLACE FUNCTION holdfast.awake(p_namespace_id integer, p_flag bigint,
                                          p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_flag regclass;
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'wait for', 'viewer', 'publisher', 'consumer', 'owner');
    SELECT n.sleep INTO v_flag FROM namespaces n WHERE n.id = p_namespace_id;
    PERFORM FROM gates g WHERE g.namespace_id = p_namespace_id AND g.gate = 0
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR pg_sequence_last_value(v_flag) IS DISTINCT FROM p_flag THEN
        RETURN false;
    END IF;
    PERFORM setval(v_flag, 1);
    RETURN true;
END
$$;

-- prepare_wait: for clients that wait without polling. They LISTEN on the channel, and when a claim
-- has found nothing they call this, each time in a transaction of its own, then claim once more,
-- and if that finds nothing either wait for a notification, for wait_ms at most.
--   A transaction that publishes from now on sees the declaration, and notifies when it commits.
-- One that was publishing already may not have seen it: while there is such a one, wait_ms is
-- short. What was committed before is seen by the claim that follows. HF001, HF003, 42501.
CREATE OR REPLACE FUNCTION holdfast.prepare_wait(namespace text,
                                                 INOUT wait_ms integer DEFAULT 10000,
                                                 OUT channel text,
                                                 p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_short_ms  constant integer := 100;
    v_namespace namespaces := enter(p_ticket, namespace, 'wait for', 'viewer', 'publisher',
                                    'consumer', 'owner');
BEGIN
    IF wait_ms IS NULL OR wait_ms NOT BETWEEN 1 AND 3600000 THEN
        RAISE EXCEPTION 'wait_ms is %; it must be 1 to 3600000', wait_ms USING ERRCODE = 'HF001';
    END IF;
    channel := 'holdfast_' || v_namespace.id;
    -- Publishers compare with the clock, and the client begins to wait a little later.
    PERFORM sleep(v_namespace.id, wait_ms + c_short_ms, p_ticket);
    IF EXISTS (SELECT FROM publishing_now(v_namespace.id)) THEN
        wait_ms := least(wait_ms, c_short_ms);
    END IF;
END
$$;

-- A transaction that has notified cannot be prepared for a two-phase commit. One that is to be says
-- SET LOCAL holdfast.notify = off before it publishes; then consumers look by themselves.
CREATE OR REPLACE FUNCTION holdfast.is_quiet() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(current_setting('holdfast.notify', true), '') IN ('off', 'false', 'no', '0');

-- bell_works: whether the server's queue has room for notifications. It is one queue for all
-- databases of the server, and a session that listens and stays in a transaction keeps everything
-- in it that was sent since. When it is full, no transaction that has notified can commit.
CREATE OR REPLACE FUNCTION holdfast.bell_works() RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_notification_queue_usage() < 0.5;

-- wake: notifies the consumers of a namespace, unless that could keep the transaction from being
-- committed: then they find what there is when they look by themselves, after 10 seconds at most.
-- It is inlined.
CREATE OR REPLACE FUNCTION holdfast.wake(p_namespace_id integer) RETURNS void
    LANGUAGE sql VOLATILE
    RETURN CASE WHEN holdfast.bell_works() THEN pg_notify('holdfast_' || $1::text, '') END;

-- publish_ring: the same for new events, of which the notification says that it is about them and
-- nothing else; for consumers one of which sleeps, unless the transaction asks for silence.
CREATE OR REPLACE FUNCTION holdfast_private.publish_ring(p_namespace_id integer) RETURNS void
    LANGUAGE sql VOLATILE
    RETURN CASE WHEN NOT holdfast.is_quiet() AND holdfast.bell_works()
                THEN pg_notify('holdfast_' || $1::text, 'events') END;

-- ring: notifies the consumers of a namespace of new events, if one of them has declared itself
-- asleep. To be called after what they are to see was written: the NOTIFY goes out with the commit.
-- (Notifying always would serialise the commits of the whole cluster.)
CREATE OR REPLACE FUNCTION holdfast.ring(p_namespace_id integer, p_sleep regclass) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF pg_sequence_last_value(p_sleep) > extract(epoch FROM clock_timestamp()) * 1000000
       AND NOT is_quiet() AND bell_works() THEN
        PERFORM pg_notify('holdfast_' || p_namespace_id, 'events');
    END IF;
END
$$;

-- ring_all: the same of anything else that they are to look at.
CREATE OR REPLACE FUNCTION holdfast_private.ring_all(p_namespace_id integer, p_sleep regclass)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF pg_sequence_last_value(p_sleep) > extract(epoch FROM clock_timestamp()) * 1000000
       AND NOT is_quiet() THEN
        PERFORM wake(p_namespace_id);
    END IF;
END
$$;
