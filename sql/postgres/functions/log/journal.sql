-- The journal: where progress is written down. See checkpoints_0 in tables/0003_subscriptions.sql.
--
-- Rows are only ever added; for each partition the newest counts. rotate makes it short again, by
-- TRUNCATE, which leaves no dead rows whatever old snapshots are held. If it dies nothing has
-- happened, and the next one does it.
--
-- Leases and what is settled ahead are rows that come and go. compact keeps those tables short in
-- the same way.

-- ---- Spans: how fast a checkpoint moves ---------------------------------------------------------

-- Time is cut into spans of half a minute of the server's clock, counted from 1970 on. A row of the
-- journal says in which of them it was written (`span`; 0: long ago), where the checkpoint was when
-- that span began (`span_from`), and where when the one before it began (`span_before`). So what it
-- has passed since the last span but one is a subtraction: the rate of the last 30 to 60 seconds,
-- for which no row is written that would not be anyway. After a seek, or when the clock was set
-- back, it is not known where it was (NULL); that is over when two more spans have begun.
--   p_ago: how many spans ago the row was written that the other arguments are of. These are
-- inlined, for which none may claim to be less volatile than what it calls: extract is STABLE.
CREATE OR REPLACE FUNCTION holdfast.span_of(p_at timestamptz) RETURNS integer
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN floor(extract(epoch FROM $1) / 30)::integer;

CREATE OR REPLACE FUNCTION holdfast.span_began(p_span integer) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp($1 * 30.0);

-- span_from and span_before of the row that comes next.
CREATE OR REPLACE FUNCTION holdfast_private.span_from(p_ago integer, p_from bigint,
                                                      p_checkpoint bigint)
    RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN $1 = 0 THEN $2 WHEN $1 > 0 THEN $3 END;

CREATE OR REPLACE FUNCTION holdfast_private.span_before(p_ago integer, p_from bigint,
                                                        p_before bigint, p_checkpoint bigint)
    RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN $1 = 0 THEN $3 WHEN $1 = 1 THEN $2 WHEN $1 > 1 THEN $4 END;

-- How many positions have been passed since the span before this one began.
CREATE OR REPLACE FUNCTION holdfast.span_passed(p_ago integer, p_from bigint, p_before bigint,
                                                p_checkpoint bigint)
    RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN $1 = 0 THEN $4 - $3 WHEN $1 = 1 THEN $4 - $2 WHEN $1 > 1 THEN 0 END;

-- ---- Rows ---------------------------------------------------------------------------------------

-- Appends a checkpoint, or a cursor with what belongs to it. The caller has locked the partition's
-- row, so that a partition's seqs rise in the order of its changes. p_stored: the newest row, if
-- the checkpoint has moved on from there. NULL: it was put to where it is now; how fast it moves is
-- known again later, or at once if it never moved (p_at is NULL). p_claimed_at: something was
-- handed out; NULL: as it was.
CREATE OR REPLACE FUNCTION holdfast_private.journal_add(
    p_subscription_id bigint, p_partition integer, p_checkpoint bigint, p_at timestamptz,
    p_last_event_id uuid, p_turn boolean DEFAULT false, p_leases_from timestamptz DEFAULT NULL,
    p_kept_from timestamptz DEFAULT NULL, p_holes holdfast_private.hole[] DEFAULT NULL,
    p_stored holdfast_private.checkpoints_0 DEFAULT NULL, p_claimed_at timestamptz DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_span   integer := CASE WHEN p_stored.span IS NULL THEN coalesce(span_of(p_at), 0)
                             ELSE span_of(clock_timestamp()) END;
    v_ago    integer := v_span - p_stored.span;
    v_from   bigint := holdfast_private.span_from(v_ago, p_stored.span_from, p_stored.checkpoint);
    v_before bigint := holdfast_private.span_before(v_ago, p_stored.span_from, p_stored.span_before,
                                                    p_stored.checkpoint);
    v_claimed timestamptz := coalesce(p_claimed_at, p_stored.claimed_at);
BEGIN
    IF p_stored.span IS NULL AND p_at IS NOT NULL THEN -- it was put elsewhere
        v_claimed := (SELECT c.claimed_at FROM holdfast_private.checkpoints c
                      WHERE c.subscription_id = p_subscription_id AND c.partition = p_partition);
    END IF;
    IF (SELECT side FROM holdfast_private.turns) = 0 THEN
        INSERT INTO holdfast_private.checkpoints_0
            VALUES (p_subscription_id, p_partition, nextval('holdfast_private.journal_seq'),
                    p_checkpoint, p_at, p_last_event_id, p_turn, p_leases_from, p_kept_from,
                    p_holes, v_span, v_from, v_before, v_claimed);
    ELSE
        INSERT INTO holdfast_private.checkpoints_1
            VALUES (p_subscription_id, p_partition, nextval('holdfast_private.journal_seq'),
                    p_checkpoint, p_at, p_last_event_id, p_turn, p_leases_from, p_kept_from,
                    p_holes, v_span, v_from, v_before, v_claimed);
    END IF;
END
$$;

-- The newest row of a partition; none, if a side was truncated beneath an older snapshot: so this
-- belongs into a statement that takes its snapshot after its locks, a VOLATILE function's. It is
-- inlined there. A plan that was made while the journal was short must not scan it when it is long:
-- enable_seqscan is off.
CREATE OR REPLACE FUNCTION holdfast.journal_look(p_subscription_id bigint, p_partition integer)
    RETURNS SETOF holdfast_private.checkpoints_0
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT * FROM ((SELECT * FROM holdfast_private.checkpoints_0 c
                    WHERE c.subscription_id = $1 AND c.partition = $2
                    ORDER BY c.seq DESC LIMIT 1)
                   UNION ALL
                   (SELECT * FROM holdfast_private.checkpoints_1 c
                    WHERE c.subscription_id = $1 AND c.partition = $2
                    ORDER BY c.seq DESC LIMIT 1)) both_sides
        ORDER BY both_sides.seq DESC LIMIT 1;
END;

-- The same for those who have nothing else to ask. 40001 if there is none.
CREATE OR REPLACE FUNCTION holdfast.journal_newest(p_subscription_id bigint, p_partition integer)
    RETURNS holdfast_private.checkpoints_0
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_row holdfast_private.checkpoints_0;
BEGIN
    SELECT * INTO v_row FROM journal_look(p_subscription_id, p_partition);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN v_row;
END
$$;

-- Moves the checkpoints of several partitions on, as journal_add does it for one; their rows are
-- locked. Answers where they were. HF002 if one would go back; 40001 as journal_newest. One
-- statement for all, because a process with many partitions does it a hundred times a second. (The
-- cost of a scan that is off makes a plan look worth compiling.)
CREATE OR REPLACE FUNCTION holdfast_private.journal_move(
    p_subscription_id bigint, p_partitions integer[], p_checkpoints bigint[],
    p_last_event_ids uuid[], p_at timestamptz)
    RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET enable_seqscan = off
    SET jit = off
AS $$
DECLARE
    v_span   integer := span_of(clock_timestamp());
    v_stored bigint[];
    v_low    integer;
BEGIN
    WITH newest AS MATERIALIZED (
        SELECT m.ordinality, m.partition, m.checkpoint, n.checkpoint AS stored,
               coalesce(m.last_event_id, n.last_event_id) AS last_event_id,
               v_span - n.span AS ago, n.span_from, n.span_before
        FROM unnest(p_partitions, p_checkpoints, p_last_event_ids) WITH ORDINALITY
            m (partition, checkpoint, last_event_id, ordinality)
        CROSS JOIN LATERAL journal_look(p_subscription_id, m.partition) n
    ), moved AS MATERIALIZED (
        SELECT p_subscription_id, partition, nextval('holdfast_private.journal_seq'),
               checkpoint, p_at, last_event_id, false, NULL::timestamptz, NULL::timestamptz,
               NULL::holdfast_private.hole[], v_span, span_from(ago, span_from, stored),
               span_before(ago, span_from, span_before, stored)
        FROM newest
    ), side_0 AS (
        INSERT INTO checkpoints_0 SELECT * FROM moved WHERE (SELECT side FROM turns) = 0
    ), side_1 AS (
        INSERT INTO checkpoints_1 SELECT * FROM moved WHERE (SELECT side FROM turns) = 1
    )
    SELECT array_agg(stored ORDER BY ordinality),
           (array_agg(ordinality) FILTER (WHERE checkpoint < stored))[1]
        INTO v_stored, v_low FROM newest;
    IF v_low IS NOT NULL THEN
        RAISE EXCEPTION 'checkpoint % is below the stored one, %', p_checkpoints[v_low],
            v_stored[v_low] USING ERRCODE = 'HF002';
    ELSIF cardinality(v_stored) IS DISTINCT FROM cardinality(p_partitions) THEN
        RAISE EXCEPTION 'the journal has moved on' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN v_stored;
END
$$;

-- A lease that ends at p_at is about to be written: claims must not begin to look later than that.
-- Locks the subscription's partition for claims.
CREATE OR REPLACE FUNCTION holdfast_private.leases_lower(p_subscription_id bigint, p_kept boolean,
                                                         p_at timestamptz)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_row holdfast_private.checkpoints_0;
BEGIN
    PERFORM 1 FROM holdfast_private.partitions p
        WHERE p.subscription_id = p_subscription_id AND p.partition = 0 FOR UPDATE;
    v_row := holdfast.journal_newest(p_subscription_id, 0);
    IF p_at < (CASE WHEN p_kept THEN v_row.kept_from ELSE v_row.leases_from END) THEN
        PERFORM holdfast_private.journal_add(
            p_subscription_id, 0, v_row.checkpoint, v_row.checkpoint_at, v_row.last_event_id,
            v_row.turn,
            CASE WHEN p_kept THEN v_row.leases_from ELSE p_at END,
            CASE WHEN p_kept THEN p_at ELSE v_row.kept_from END, v_row.holes, v_row);
    END IF;
END
$$;

-- is_held: whether another transaction that is older than a second has locked one of these tables.
-- Waiting for it would be of no use, and all others would wait behind the session that waits. Of
-- the transactions of other roles only a role that has pg_read_all_stats sees how old they are;
-- else one is old if it does not end within p_moment.
CREATE OR REPLACE FUNCTION holdfast_private.is_held(p_tables regclass[],
                                                    p_moment interval DEFAULT '50 ms')
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_until   timestamptz := clock_timestamp() + p_moment;
    v_held    boolean;
    v_unknown text[]; -- whose age is not told
BEGIN
    SELECT bool_or(l.pid IS NULL OR a.xact_start < clock_timestamp() - interval '1 s'),
           array_agg(l.virtualtransaction) FILTER (WHERE a.xact_start IS NULL)
        INTO v_held, v_unknown
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'relation' AND l.relation = ANY (p_tables) AND l.granted
            AND l.pid IS DISTINCT FROM pg_backend_pid();
    WHILE v_held IS NOT TRUE AND EXISTS (
              SELECT 1 FROM pg_locks l
              WHERE l.locktype = 'relation' AND l.relation = ANY (p_tables)
                  AND l.virtualtransaction = ANY (v_unknown)) LOOP
        PERFORM pg_sleep(0.01);
        v_held := clock_timestamp() > v_until;
    END LOOP;
    RETURN v_held IS TRUE;
END
$$;

-- is_written: whether a transaction that has not ended has written the row of one of these tables
-- in the server's catalog. Every role that may read a table can (DROP OWNED BY), and TRUNCATE waits
-- for it, with the table locked against all.
CREATE OR REPLACE FUNCTION holdfast_private.is_written(p_tables regclass[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    c_epoch constant bigint := 4294967296;
    v_next  bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    v_id    bigint;
BEGIN
    FOR v_id IN SELECT c.xmax::text::bigint FROM pg_class c
                WHERE c.oid = ANY (p_tables) AND c.xmax::text <> '0' LOOP
        v_id := v_next / c_epoch * c_epoch + v_id;
        v_id := v_id - CASE WHEN v_id > v_next + c_epoch / 2 THEN c_epoch ELSE 0 END;
        IF v_id > 0 AND pg_xact_status(v_id::text::xid8) = 'in progress' THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- Whether each statement of this transaction sees what was committed before it. If one snapshot
-- counts for all of them, what others wrote since is not seen, and no session may truncate what it
-- has only half read.
CREATE OR REPLACE FUNCTION holdfast_private.sees_commits() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');

-- rotate: if the journal's side in use is larger than p_bytes and, unless that is 0, much larger
-- than what is to stay, the newest row of every partition goes to the other side, which is used
-- from now on, and this one is truncated. True: it was.
-- False: it was not necessary, or another session is reading or writing there just now, or has
-- changed rights on it (which the server answers with XX000): try again later; or the transaction
-- is not READ COMMITTED.
-- For the owner of the schema: its locks are held to the end of the caller's transaction, and all
-- consumers would wait.
-- Locks: both sides ACCESS EXCLUSIVE, without waiting for them; but for a side of more than 16
-- times p_bytes all may have to wait up to 200 ms, unless a session has been holding one for so
-- long that waiting is no use.
CREATE OR REPLACE FUNCTION holdfast_private.rotate(p_bytes bigint DEFAULT 1048576) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '200ms'
AS $$
DECLARE
    v_side  smallint := (SELECT side FROM turns);
    v_from  text := 'checkpoints_' || v_side;
    v_to    text := 'checkpoints_' || 1 - v_side;
    v_bytes bigint := pg_relation_size('holdfast_private.' || v_from);
    -- Eight times what a row of each partition takes: shortening it more often does not pay.
    c_row_bytes constant bigint := 640;
BEGIN
    IF v_bytes <= p_bytes OR NOT sees_commits()
       OR p_bytes > 0 AND v_bytes < pg_stat_get_live_tuples('partitions'::regclass) * c_row_bytes
       OR is_written(ARRAY['checkpoints_0', 'checkpoints_1']::regclass[]) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', v_from, v_to)
        || CASE WHEN v_bytes > 16 * p_bytes
                     AND NOT is_held(ARRAY['checkpoints_0', 'checkpoints_1']::regclass[])
                THEN '' ELSE ' NOWAIT' END;
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
    UPDATE turns SET side = 1 - v_side, rotated_at = clock_timestamp();
    RETURN true;
EXCEPTION WHEN lock_not_available OR internal_error THEN
    RETURN false; -- and nothing is locked any more
END
$$;

-- compact: takes the dead rows out of a small table whose rows come and go all the time: the living
-- ones are put aside, the table is truncated and gets them back. (Vacuum cannot while a session
-- holds an old snapshot.) True: it was done. False: there are not more than p_dead dead rows, or
-- too many living ones, or too large ones (a lease of events that lie apart), or another session
-- has locked it just now, or changed rights on it: try again later; or the transaction is not READ
-- COMMITTED. p_commits: how many commits of this process may have left some. For the owner of the
-- schema, as rotate. Locks: the table ACCESS EXCLUSIVE, without waiting; if there are four times
-- p_dead all may have to wait up to 50 ms, unless a session has been holding the table for so long
-- that waiting is no use. A session that read it with an older snapshot would find nothing there;
-- so none does: claims and settles are READ COMMITTED and take their snapshots after their locks.
CREATE OR REPLACE FUNCTION holdfast_private.compact(p_table regclass, p_dead bigint DEFAULT 250,
                                                    p_commits bigint DEFAULT 0)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
    SET lock_timeout = '50ms'
AS $$
DECLARE
    c_living_max constant bigint := 10000;
    c_bytes_max  constant bigint := 2097152;
    v_dead       bigint := pg_stat_get_dead_tuples(p_table);
    v_living     bigint := pg_stat_get_live_tuples(p_table);
    v_found      record;
    v_patient    boolean;
    v_leases     leases[];
    v_settled    settled[];
BEGIN
    IF p_table NOT IN ('leases'::regclass, 'settled'::regclass) THEN
        RAISE EXCEPTION '% is not a table whose rows come and go', p_table USING ERRCODE = 'HF001';
    END IF;
    -- Statistics come late: a table that is much larger than its rows has dead ones, too, and so
    -- has one that is not empty after many commits.
    v_dead := greatest(v_dead, pg_relation_size(p_table) / 256 - v_living,
                       CASE WHEN pg_relation_size(p_table) > 0 THEN p_commits / 2 END);
    IF v_dead <= p_dead OR v_dead < v_living OR NOT sees_commits()
       OR is_written(ARRAY[p_table]) THEN
        RETURN false;
    END IF;
    v_patient := v_dead > 4 * p_dead AND NOT is_held(ARRAY[p_table]);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', p_table)
        || CASE WHEN v_patient THEN '' ELSE ' NOWAIT' END;
    EXECUTE format('SELECT count(*) AS count, sum(%s) AS bytes FROM (SELECT * FROM %s LIMIT %s) t',
                   CASE p_table WHEN 'leases'::regclass THEN 'pg_column_size(t.positions)'
                                ELSE '0' END, p_table, c_living_max + 1) INTO v_found;
    IF v_found.count > c_living_max OR v_found.bytes > c_bytes_max THEN
        RETURN false;
    END IF;
    IF p_table = 'leases'::regclass THEN
        v_leases := ARRAY(SELECT l FROM leases l);
        TRUNCATE leases;
        INSERT INTO leases SELECT * FROM unnest(v_leases);
    ELSE
        v_settled := ARRAY(SELECT s FROM settled s);
        TRUNCATE settled;
        INSERT INTO settled SELECT * FROM unnest(v_settled);
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available OR internal_error THEN
    RETURN false; -- and nothing is locked any more
END
$$;

-- upkeep: rotates the journal and compacts what needs it, at most one of them, because each holds
-- its locks until the transaction ends. For every process, a few times a second while it works;
-- those who only use SQL call it themselves now and then, outside of any transaction. True:
-- something was done. False, too, for a role that may not (grants.sql).
CREATE OR REPLACE FUNCTION holdfast.upkeep(p_commits bigint DEFAULT 0) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    IF NOT passes() THEN
        RETURN false;
    END IF;
    RETURN rotate() OR compact('leases', p_commits => p_commits)
        OR compact('settled', p_commits => p_commits);
END
$$;
