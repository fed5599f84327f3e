-- Months: the log of a namespace is cut by the month, so that what is old can go.
--
-- Months are made ahead, by every process that opens and once an hour, and on demand, by the
-- session that publishes into one that is missing; so publishing never stops for want of a month,
-- whatever the server's clock does.

-- The name of the table of a month.
CREATE OR REPLACE FUNCTION holdfast.month_table(p_namespace_id integer, p_at timestamptz)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'holdfast_private.events_' || $1::text || '_'
        || to_char($2 AT TIME ZONE 'UTC', 'YYYYMM');

-- await_months: no other session makes a month of this namespace until the caller's transaction
-- ends, and all that were made are there for it to write into.
--
-- The second needs the lock as well. A commit can be seen a moment before other sessions are
-- notified of it, and no publisher waits for a session that attaches a month: meanwhile a session
-- finds the table and the row in namespaces, but its own idea of the log is older, and the log
-- takes nothing ("no partition of relation", 23514). Locks are given back after all sessions were
-- notified. To process that, a session has to open a table on which its transaction has no such
-- lock yet, as the size of one does. The lock is the one that ATTACH takes on the log: no publisher
-- and no reader conflicts with it. HF003; 55P03: another session makes one and does not end. It is
-- waited for as long as lock_timeout says, or for 5 seconds if that says for ever.
CREATE OR REPLACE FUNCTION holdfast_private.await_months(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
    v_wait   text := coalesce(nullif(v_before, '0'), '5s');
BEGIN
    PERFORM set_config('lock_timeout', v_wait, true);
    EXECUTE format('LOCK TABLE holdfast_private.%I IN SHARE UPDATE EXCLUSIVE MODE',
                   'events_' || p_namespace_id);
    PERFORM set_config('lock_timeout', v_before, true);
    PERFORM pg_relation_size('holdfast_private.namespace_ids');
EXCEPTION
    WHEN undefined_table THEN
        RAISE EXCEPTION 'there is no namespace with id %', p_namespace_id USING ERRCODE = 'HF003';
    WHEN lock_not_available THEN
        RAISE EXCEPTION '% has made a month of namespace %, or is removing one, and has not ended '
                        'its transaction; waited % for it',
            holders(NULL, ARRAY[to_regclass('holdfast_private.events_' || p_namespace_id)::oid],
                    '{AccessShareLock,RowShareLock,RowExclusiveLock}'),
            (SELECT n.name FROM namespaces n WHERE n.id = p_namespace_id), v_wait
            USING ERRCODE = 'lock_not_available';
END
$$;

-- await_row: locks the row of the namespace against other changes of it. 55P03, as await_months.
CREATE OR REPLACE FUNCTION holdfast_private.await_row(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_before  text := current_setting('lock_timeout');
    v_wait    text := coalesce(nullif(v_before, '0'), '5s');
    v_context text;
BEGIN
    PERFORM set_config('lock_timeout', v_wait, true);
    PERFORM FROM namespaces n WHERE n.id = p_namespace_id FOR NO KEY UPDATE;
    PERFORM set_config('lock_timeout', v_before, true);
EXCEPTION WHEN lock_not_available THEN
    GET STACKED DIAGNOSTICS v_context = PG_EXCEPTION_CONTEXT;
    RAISE EXCEPTION '% has changed the row of namespace % and has not ended its transaction; '
                    'waited % for it', holders(v_context, NULL, '{}'),
        (SELECT n.name FROM namespaces n WHERE n.id = p_namespace_id), v_wait
        USING ERRCODE = 'lock_not_available';
END
$$;

-- make_month: makes the month of p_at of a namespace's log, if it is not there. True: it was made
-- now. HF003: there is no such namespace.
--
-- A new table gets its indexes and is attached: ATTACH disturbs no publisher (CREATE ... PARTITION
-- OF would wait for every open transaction). Callers that come at the same moment wait for the
-- first one's transaction (await_months), then find the month.
-- If the caller's transaction rolls back, the month is gone and the next publisher makes it again.
-- 55P03: another session has changed the row of the namespace (ids_until, append.sql) and does not
-- end; it is waited for as in await_months.
CREATE OR REPLACE FUNCTION holdfast_private.make_month(p_namespace_id integer, p_at timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET datestyle = 'ISO, YMD' SET timezone = 'UTC'
AS $$
DECLARE
    v_table text := month_table(p_namespace_id, p_at);
    v_name  text := substr(v_table, 18);
    v_from  timestamptz := date_trunc('month', p_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    v_to    timestamptz := (date_trunc('month', p_at AT TIME ZONE 'UTC') + interval '1 month')
                           AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(v_table) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM await_months(p_namespace_id);
    IF to_regclass(v_table) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF to_regclass('holdfast_private.events_' || p_namespace_id) IS NULL THEN
        RAISE EXCEPTION 'there is no namespace with id %', p_namespace_id USING ERRCODE = 'HF003';
    END IF;
    PERFORM await_row(p_namespace_id);
    EXECUTE format('CREATE TABLE %I.%I (LIKE holdfast_private.events INCLUDING ALL)',
                   'holdfast_private', v_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON holdfast_private.%I (id, guard_at)', v_name || '_id',
                   v_name);
    EXECUTE format('CREATE INDEX %I ON holdfast_private.%I (position)', v_name || '_position',
                   v_name);
    IF EXISTS (SELECT FROM namespaces n WHERE n.id = p_namespace_id
                   AND n.type_index IN (TYPE_INDEX_BUILDING, TYPE_INDEX_ON)) THEN
        EXECUTE format('CREATE INDEX %I ON holdfast_private.%I (type, position)', v_name || '_type',
                       v_name);
    END IF;
    EXECUTE format('ALTER TABLE holdfast_private.%I ATTACH PARTITION holdfast_private.%I FOR '
                   'VALUES FROM (%L) TO (%L)',
                   'events_' || p_namespace_id, v_name, v_from, v_to);
    UPDATE namespaces n
        SET months_from = CASE WHEN v_to = n.months_from OR v_from > n.months_to THEN v_from
                               ELSE n.months_from END,
            months_to = greatest(n.months_to, v_to)
        WHERE n.id = p_namespace_id AND (v_to = n.months_from OR v_from >= n.months_to);
    RETURN true;
END
$$;

-- ensure_month: the same for a publisher that may need it. It makes the months that publishing
-- needs and no others: those of a day ago, of now and of in a day (guard_at, append.sql), and the
-- next one, which is made ahead. HF001: p_at is in another month. HF003: there is no such
-- namespace.
CREATE OR REPLACE FUNCTION holdfast_private.ensure_month(p_namespace_id integer, p_at timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF to_regclass(month_table(p_namespace_id, p_at)) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF p_at IS NULL
       OR p_at AT TIME ZONE 'UTC'
           < date_trunc('month', (v_now - interval '1 day') AT TIME ZONE 'UTC')
       OR p_at AT TIME ZONE 'UTC'
           >= date_trunc('month', v_now AT TIME ZONE 'UTC') + interval '2 months'
    THEN
        RAISE EXCEPTION 'month of % is not made: publishing needs this month, the next, and for a '
                        'day the last one', p_at USING ERRCODE = 'HF001';
    END IF;
    RETURN make_month(p_namespace_id, p_at);
END
$$;

-- ensure_months: makes this month and the next of every namespace, or of one, but of none that is
-- being removed. Answers how many were made. For every process that opens, once an hour, and at
-- will.
CREATE OR REPLACE FUNCTION holdfast.ensure_months(p_namespace_id integer DEFAULT NULL)
    RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_id   integer;
    v_made integer := 0;
    v_now  timestamptz := clock_timestamp();
    v_next timestamptz := (date_trunc('month', v_now AT TIME ZONE 'UTC') + interval '1 month')
                          AT TIME ZONE 'UTC';
BEGIN
    FOR v_id IN SELECT id FROM namespaces
                WHERE (id = p_namespace_id OR p_namespace_id IS NULL) AND removing_at IS NULL
                ORDER BY id LOOP
        v_made := v_made + ensure_month(v_id, v_now)::integer + ensure_month(v_id, v_next)::integer;
    END LOOP;
    RETURN v_made;
END
$$;

-- try_months: ensure_months for a session that must not wait for others' transactions, one of which
-- may have made the month and be open. NULL: it would have to. For every part of the namespace.
CREATE OR REPLACE FUNCTION holdfast.try_months(p_namespace_id integer,
                                               p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '200ms'
AS $$
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'make months of', 'viewer', 'publisher', 'consumer',
                  'owner');
    RETURN ensure_months(p_namespace_id);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;
