-- Views: the log, dead letters, subscriptions, schedules and grants for people, the checkpoints for
-- functions.
--
-- Each is read with the rights of its reader. Those for people can be locked by every role that may
-- use the schema holdfast (CREATE RULE waits for a lock before the server looks at rights), so no
-- function and no statement of the library reads them: reading.sql.

-- The newest row of each partition. To be read in a transaction that is READ COMMITTED: TRUNCATE
-- empties a side for older snapshots too, and a partition without a row means just that: read
-- again.
SELECT holdfast_private.view_make(
    'holdfast_private.checkpoints', holdfast_private.reader_rights(), $view$
    SELECT p.subscription_id, p.partition, p.epoch, p.owner, p.owner_name,
           j.seq, j.checkpoint, j.checkpoint_at, j.last_event_id, j.turn, j.leases_from,
           j.kept_from, j.holes, j.span, j.span_from, j.span_before, j.claimed_at
    FROM holdfast_private.partitions p
    LEFT JOIN LATERAL (
        SELECT * FROM (
            (SELECT * FROM holdfast_private.checkpoints_0 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)
            UNION ALL
            (SELECT * FROM holdfast_private.checkpoints_1 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)) both_sides
        ORDER BY both_sides.seq DESC LIMIT 1) j ON true
$view$);

-- A row per event. Give it a namespace: then only that one's months are looked at.
SELECT holdfast_private.view_make('holdfast.event_log', holdfast_private.reader_rights(), $view$
    SELECT n.name AS namespace, e.position, e.id, e.type, e.key, e.tenant, e.key_version, e.payload,
           e.metadata, e.producer, e.schedule_id, e.emitted_at, e.entered_at
    FROM holdfast_private.namespaces n JOIN holdfast_private.events e ON e.namespace_id = n.id
$view$);

-- A row per dead letter, the resolved ones too. reason: why it is one; cause: why its last attempt
-- failed (handler, undecodable, timeout, transaction, process_died, lease_expired; NULL: none
-- failed). attempts_json: every attempt with its time, error and node.
SELECT holdfast_private.view_make('holdfast.dead_letters', holdfast_private.reader_rights(), $view$
    SELECT l.id AS dead_id, n.name AS namespace, l.subscription, l.event_id AS id, l.position,
           l.type, l.key, l.tenant, l.key_version, l.payload, l.metadata, l.producer, l.schedule_id,
           l.emitted_at, l.entered_at, l.reason, l.cause, l.error, l.attempts,
           l.story::json AS attempts_json, l.failed_at, l.resolved_at, l.resolved_by,
           l.resolved_note, l.deliveries
    FROM holdfast_private.namespaces n JOIN holdfast_private.letters l ON l.namespace_id = n.id
$view$);

-- A row per delivery that failed first and then succeeded, of each subscription the last
-- HF_OUTCOMES_MAX. attempts: those that failed; deliveries: how often it was handed out (NULL: not
-- known).
SELECT holdfast_private.view_make('holdfast.outcome_list', holdfast_private.reader_rights(), $view$
    SELECT n.name AS namespace, s.name AS subscription, o.position, o.settled_at, o.attempts,
           o.deliveries, o.cause, o.story::json AS attempts_json
    FROM holdfast_private.namespaces n
    JOIN holdfast_private.subscriptions s ON s.namespace_id = n.id
    JOIN holdfast_private.outcomes o ON o.subscription_id = s.id
$view$);

-- A row per subscription.
SELECT holdfast_private.view_make(
    'holdfast.subscription_list', holdfast_private.reader_rights(), $view$
    SELECT n.name AS namespace, s.name,
           CASE s.mode WHEN HF_MODE_ORDERED THEN 'ordered' ELSE 'shared' END AS mode, s.partitions,
           s.patterns::json AS patterns, s.options::json AS options, s.paused_at, s.paused_by,
           s.paused_reason, s.created_at
    FROM holdfast_private.namespaces n
    JOIN holdfast_private.subscriptions s ON s.namespace_id = n.id
$view$);

-- A row per schedule, for publishers and owners of its namespace.
SELECT holdfast_private.view_make('holdfast.schedule_list', holdfast_private.reader_rights(), $view$
    SELECT n.name AS namespace, s.name, s.id, s.expression, s.zone, s.next_at, s.type, s.payload,
           s.key, s.tenant, s.metadata,
           CASE s.policy WHEN HF_MISFIRE_ONCE THEN 'once' WHEN HF_MISFIRE_ALL THEN 'all'
                         ELSE 'skip' END AS misfire,
           s.cap AS misfire_cap, s.grace_us / 1000 AS grace_ms,
           CASE WHEN s.job IS NULL THEN 'own' ELSE 'pg_cron' END AS driver, s.paused_at,
           s.paused_by, s.paused_reason, s.created_at
    FROM holdfast_private.namespaces n
    JOIN holdfast_private.schedules s ON s.namespace_id = n.id
$view$);

-- A row per part that a role has in a namespace.
SELECT holdfast_private.view_make('holdfast.grant_list', holdfast_private.reader_rights(), $view$
    SELECT n.name AS namespace, g.grantee, g.role, g.granted_at
    FROM holdfast_private.namespaces n JOIN holdfast_private.grants g ON g.namespace_id = n.id
$view$);
