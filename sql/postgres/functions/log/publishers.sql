-- Publishers: who has drawn a position of the log and has not ended.

-- Readers have to know who may still fill a gap (docs/ordering.md): those that have drawn a
-- position and have not ended. nextval's own lock on the sequence does not tell: the server takes
-- it before it looks at the right, on whatever relation is named by its number, and a refused
-- nextval inside a savepoint keeps it; so a role that may connect can hold it, and ROW EXCLUSIVE on
-- every table as well. PREPARE takes the weak locks of tables without any right on them. What
-- cannot be had without the owner's rights is a number.
--   So a publisher takes an advisory lock, before it draws, whose key is computed of the secret
-- (tables/0001_schema.sql), the namespace and the transaction's id: publishing_key. Every role can
-- see the key in pg_locks and lock it, too, but then it is held by a transaction with another id,
-- for which it is wrong. It ends with the transaction, or with the savepoint whose rollback takes
-- the event away, and a prepared transaction keeps it.
--   p_try: another session that has seen the key may lock it exclusively when a rolled back
-- savepoint has freed it; then the next one is taken, up to 65535. Such a session must have seen
-- each of them held, so it can take one key for each savepoint that was rolled back, and the
-- server's table of locks is full long before there are no more. The try stands in the upper 16
-- bits of the key, so a look computes one hash for each advisory lock that is held, of whatever
-- session. It is inlined; of a try that is a constant most is computed when a plan is made.
CREATE OR REPLACE FUNCTION holdfast_private.publishing_key(p_secret bytea, p_namespace_id integer,
                                                           p_transaction xid, p_try integer)
    RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('x' || encode(substr(int4send($4), 3), 'hex')
            || encode(sha256($1 || int4send($2) || int4send($4) || byteain(xidout($3))),
                      'hex'))::bit(64)::bigint;

-- publishing_try: takes one of the keys of this transaction; false: another session has it. It is
-- inlined.
CREATE OR REPLACE FUNCTION holdfast_private.publishing_try(p_secret bytea, p_namespace_id integer,
                                                           p_try integer)
    RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_try_advisory_xact_lock_shared(
        holdfast_private.publishing_key($1, $2, pg_current_xact_id()::xid, $3));

-- publishing: declares that this transaction publishes. To be called before a position is drawn, in
-- the same transaction and not below a savepoint that is rolled back between the two. Its callers
-- have the search_path of all functions; with its own it would cost twice as much.
CREATE OR REPLACE FUNCTION holdfast_private.publishing(p_secret bytea, p_namespace_id integer)
    RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    FOR v_try IN 0 .. 65535 LOOP
        IF holdfast_private.publishing_try(p_secret, p_namespace_id, v_try) THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'other sessions hold the locks by which this transaction says that it publishes'
        USING ERRCODE = 'lock_not_available';
END
$$;

-- The same for callers that have not read the secret.
CREATE OR REPLACE FUNCTION holdfast_private.publishing(p_namespace_id integer) RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM holdfast_private.publishing((SELECT s.secret FROM holdfast_private.secret s),
                                        p_namespace_id);
END
$$;

-- draw: the next position, for the owner of the schema who writes into the log by hand: the event
-- must be inserted in the same transaction.
CREATE OR REPLACE FUNCTION holdfast_private.draw(p_namespace_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
BEGIN
    PERFORM publishing(p_namespace_id);
    RETURN nextval((SELECT n.sequence FROM namespaces n WHERE n.id = p_namespace_id));
END
$$;

-- publishing_now: the transactions that have declared it and are not over. pid NULL: prepared. Both
-- kinds of locks are in the table that pg_locks copies as a whole, so this is one moment. But
-- PREPARE TRANSACTION hands over the locks of one part of that table after the other: at that
-- moment one of the two may have a process and the other none. The name of the transaction is the
-- same, so that alone is compared.
--   Of the ids that a transaction has locked the oldest is its own; the others are of its
-- savepoints. For every part of the namespace.
CREATE OR REPLACE FUNCTION holdfast.publishing_now(p_namespace_id integer,
                                                   p_ticket bytea DEFAULT holdfast.ticket())
    RETURNS TABLE (virtualtransaction text, pid integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM admit(p_ticket, p_namespace_id, 'see who publishes into', 'viewer', 'publisher',
                  'consumer', 'owner');
    -- Most of the time no transaction has declared it, which this finds with less.
    IF NOT EXISTS (SELECT FROM pg_locks l
                   WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock') THEN
        RETURN;
    END IF;
    RETURN QUERY
        WITH locks AS MATERIALIZED (
                SELECT l.* FROM pg_locks l
                WHERE l.granted AND (l.locktype = 'advisory' OR l.locktype = 'transactionid')),
            held AS MATERIALIZED (
                SELECT l.virtualtransaction, l.pid,
                       (l.classid::bigint << 32) | l.objid::bigint AS key
                FROM locks l
                WHERE l.locktype = 'advisory' AND l.objsubid = 1
                    AND l.database = (SELECT d.oid FROM pg_database d
                                      WHERE d.datname = current_database())),
            ids AS MATERIALIZED (
                SELECT DISTINCT ON (x.virtualtransaction) x.virtualtransaction, x.transactionid
                FROM locks x
                WHERE x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
                ORDER BY x.virtualtransaction, age(x.transactionid) DESC)
        SELECT DISTINCT h.virtualtransaction, h.pid
        FROM secret s, held h JOIN ids i ON i.virtualtransaction = h.virtualtransaction
        WHERE h.key = publishing_key(s.secret, p_namespace_id, i.transactionid,
                                     (h.key >> 48)::integer & 65535);
END
$$;
