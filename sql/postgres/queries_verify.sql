-- Statements of `verify` (src/store/verify.h), which looks for damage in all namespaces at once. They
-- may read whole tables. None of them writes. What belongs to a namespace that is being removed need not
-- fit together any more.
--
-- An event is looked up by a subquery with LIMIT 1, which is no join: the log's index is searched for
-- each row, and the log is never read as a whole for the sake of a few rows.

-- ---- Checks: sentences, at most $1 --------------------------------------------------------------

-- name: verify_orphan
WITH owned (what, owner) AS (
    SELECT 'partitions', subscription_id FROM holdfast.partitions
    UNION ALL SELECT 'leases', subscription_id FROM holdfast.leases
    UNION ALL SELECT 'retries', subscription_id FROM holdfast.retries
    UNION ALL SELECT 'copies', subscription_id FROM holdfast.copies
    UNION ALL SELECT 'settled', subscription_id FROM holdfast.settled),
spaced (what, owner) AS (
    SELECT 'subscriptions', namespace_id FROM holdfast.subscriptions
    UNION ALL SELECT 'keys', namespace_id FROM holdfast.keys
    UNION ALL SELECT 'event_ids', namespace_id FROM holdfast.event_ids
    UNION ALL SELECT 'dead_letters', namespace_id FROM holdfast.letters
    UNION ALL SELECT 'schedules', namespace_id FROM holdfast.schedules
    UNION ALL SELECT 'delayed', namespace_id FROM holdfast.delayed)
SELECT format('%s rows of %s belong to subscription %s, which does not exist', count(*), o.what, o.owner)
    FROM owned o
    WHERE NOT EXISTS (SELECT FROM holdfast.subscriptions s WHERE s.id = o.owner)
    GROUP BY o.what, o.owner
UNION ALL
SELECT format('%s rows of %s belong to namespace %s, which does not exist', count(*), o.what, o.owner)
    FROM spaced o
    WHERE NOT EXISTS (SELECT FROM holdfast.namespaces n WHERE n.id = o.owner)
    GROUP BY o.what, o.owner
UNION ALL
SELECT format('%s rows of schedule_runs belong to a schedule that does not exist', count(*))
    FROM holdfast.schedule_runs r
    WHERE NOT EXISTS (SELECT FROM holdfast.schedules s WHERE s.id = r.schedule_id)
    HAVING count(*) > 0
UNION ALL
SELECT format('the table %s of the log belongs to no namespace', c.relname)
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'holdfast.events'::regclass AND has_table_privilege(c.oid, 'SELECT')
        AND NOT EXISTS (SELECT FROM holdfast.namespaces n WHERE c.relname = 'events_' || n.id)
LIMIT $1::bigint;

-- Positions are read before the newest one, which only grows.
-- name: verify_tip
WITH lasts AS MATERIALIZED (
    SELECT n.id, n.name, (SELECT e.position FROM holdfast.events e WHERE e.namespace_id = n.id
                          ORDER BY e.position DESC LIMIT 1) AS last
    FROM holdfast.namespaces n WHERE n.removing_at IS NULL)
SELECT format('namespace "%s": the log has position %s, but the newest one given is %s', l.name, l.last,
              holdfast.head(l.id))
FROM lasts l WHERE l.last > holdfast.head(l.id)
LIMIT $1::bigint;

-- name: verify_month
SELECT format('namespace "%s": the table %s of the log is missing', n.name,
              holdfast.month_table(n.id, m.month AT TIME ZONE 'UTC'))
FROM holdfast.namespaces n
CROSS JOIN LATERAL generate_series(
    CASE WHEN isfinite(n.months_from) AND isfinite(n.months_to)
        THEN n.months_from AT TIME ZONE 'UTC' END,
    n.months_to AT TIME ZONE 'UTC' - interval '1 day', interval '1 month') m (month)
WHERE n.removing_at IS NULL
    AND to_regclass(holdfast.month_table(n.id, m.month AT TIME ZONE 'UTC')) IS NULL
LIMIT $1::bigint;

-- Only gapless namespaces have no gaps. The head is that of the same snapshot as the events.
-- name: verify_lost
WITH spaces AS (
    SELECT n.id, n.name, h.head, greatest(n.retained_through, n.gapless_after) AS floor
    FROM holdfast.namespaces n JOIN holdfast.heads h ON h.namespace_id = n.id
    WHERE n.gapless AND n.removing_at IS NULL AND n.copying IS NULL),
logged AS (
    SELECT s.name, coalesce(lag(e.position) OVER (PARTITION BY s.id ORDER BY e.position), s.floor) + 1 AS low,
           e.position - 1 AS high
    FROM spaces s JOIN holdfast.events e ON e.namespace_id = s.id AND e.position > s.floor),
ends AS (
    SELECT s.name, coalesce((SELECT max(e.position) FROM holdfast.events e
                             WHERE e.namespace_id = s.id AND e.position > s.floor), s.floor) + 1 AS low,
           s.head AS high
    FROM spaces s)
SELECT format('namespace "%s": the events at positions %s to %s are missing', g.name, g.low, g.high)
FROM (SELECT * FROM logged UNION ALL SELECT * FROM ends) g WHERE g.low <= g.high
LIMIT $1::bigint;

-- name: verify_doubled
SELECT format('namespace "%s": id %s is stored %s times', n.name, d.id, d.times)
FROM (SELECT e.namespace_id, e.id, count(*) AS times FROM holdfast.events e
      GROUP BY e.namespace_id, e.id HAVING count(*) > 1) d
JOIN holdfast.namespaces n ON n.id = d.namespace_id AND n.removing_at IS NULL
LIMIT $1::bigint;

-- name: verify_partitions
SELECT format('namespace "%s", subscription "%s": it has %s partitions, and rows for %s', n.name, s.name,
              w.rows, f.rows)
FROM holdfast.subscriptions s
JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
CROSS JOIN LATERAL (SELECT CASE s.mode WHEN 1 THEN s.partitions ELSE 1 END AS rows) w
CROSS JOIN LATERAL (SELECT count(*) AS rows, max(p.partition) AS highest FROM holdfast.partitions p
                    WHERE p.subscription_id = s.id) f
WHERE f.rows <> w.rows OR f.highest <> w.rows - 1
LIMIT $1::bigint;

-- A partition without a checkpoint may be one whose journal was rotated at this moment: whoever finds
-- something asks again.
-- name: verify_checkpoint
WITH found AS MATERIALIZED (
    SELECT n.id, n.name AS namespace, s.name, s.start, c.partition, c.checkpoint
    FROM holdfast.checkpoints c
    JOIN holdfast.subscriptions s ON s.id = c.subscription_id
    JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL),
tips AS MATERIALIZED (SELECT n.id, holdfast.head(n.id) AS tip FROM holdfast.namespaces n
                          WHERE n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s", partition %s: %s', f.namespace, f.name, f.partition,
              CASE WHEN f.checkpoint IS NULL THEN 'it has no checkpoint'
                   WHEN f.checkpoint > t.tip
                       THEN format('the checkpoint is %s, but the newest position is %s', f.checkpoint,
                                   t.tip)
                   ELSE format('the checkpoint is %s, but it began after position %s', f.checkpoint,
                               f.start) END)
FROM found f JOIN tips t ON t.id = f.id
WHERE f.checkpoint IS NULL OR f.checkpoint > t.tip OR f.checkpoint < f.start
LIMIT $1::bigint;

-- name: verify_retry
SELECT format('namespace "%s", subscription "%s": the delivery of position %s %s', n.name, s.name,
              r.position,
              CASE WHEN r.kind NOT BETWEEN 1 AND 5
                       THEN format('is of kind %s, which means nothing', r.kind)
                   ELSE 'waits, but the event is neither in the log nor among the copies' END)
FROM holdfast.retries r
JOIN holdfast.subscriptions s ON s.id = r.subscription_id
JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind NOT BETWEEN 1 AND 5
    OR ((SELECT 1 FROM holdfast.events e
         WHERE e.namespace_id = s.namespace_id AND e.position = r.position LIMIT 1) IS NULL
        AND (SELECT 1 FROM holdfast.copies c
             WHERE c.subscription_id = r.subscription_id AND c.position = r.position LIMIT 1) IS NULL)
LIMIT $1::bigint;

-- name: verify_held
SELECT format('namespace "%s", subscription "%s": the delivery of position %s is held, but nothing of '
              'its lane is before it', n.name, s.name, r.position)
FROM holdfast.retries r
JOIN holdfast.subscriptions s ON s.id = r.subscription_id
JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind = 2
    AND (SELECT 1 FROM holdfast.retries b
         WHERE b.subscription_id = r.subscription_id AND b.partition = r.partition
             AND b.lane = r.lane AND b.position < r.position LIMIT 1) IS NULL
LIMIT $1::bigint;

-- name: verify_slice
WITH placed (what, subscription_id, position, partition) AS (
    SELECT 'waiting', subscription_id, position, partition FROM holdfast.retries
    UNION ALL SELECT 'settled', subscription_id, position, partition FROM holdfast.settled),
hashed AS (
    SELECT n.name AS namespace, s.name, s.partitions, p.what, p.position, p.partition,
           coalesce((SELECT c.hash FROM holdfast.copies c
                     WHERE c.subscription_id = p.subscription_id AND c.position = p.position LIMIT 1),
                    (SELECT e.hash FROM holdfast.events e
                     WHERE e.namespace_id = s.namespace_id AND e.position = p.position LIMIT 1)) AS hash
    FROM placed p
    JOIN holdfast.subscriptions s ON s.id = p.subscription_id AND s.mode = 1
    JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s": the %s delivery of position %s is in partition %s, '
              'its event belongs to %s', h.namespace, h.name, h.what, h.position, h.partition,
              h.hash % h.partitions)
FROM hashed h WHERE h.partition <> h.hash % h.partitions
LIMIT $1::bigint;

-- name: verify_copy
SELECT format('namespace "%s", subscription "%s": the copy of the event at position %s belongs to no '
              'delivery', n.name, s.name, c.position)
FROM holdfast.copies c
JOIN holdfast.subscriptions s ON s.id = c.subscription_id
JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE NOT EXISTS (SELECT FROM holdfast.retries r
                  WHERE r.subscription_id = c.subscription_id AND r.position = c.position)
LIMIT $1::bigint;

-- name: verify_settled
WITH found AS MATERIALIZED (
    SELECT n.id, n.name AS namespace, s.name, d.position
    FROM holdfast.settled d
    JOIN holdfast.subscriptions s ON s.id = d.subscription_id
    JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL),
tips AS MATERIALIZED (SELECT n.id, holdfast.head(n.id) AS tip FROM holdfast.namespaces n
                          WHERE n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s": position %s is settled, but the newest position is %s',
              f.namespace, f.name, f.position, t.tip)
FROM found f JOIN tips t ON t.id = f.id
WHERE f.position > t.tip
LIMIT $1::bigint;

-- A lease whose number is wrong is not looked into: it may claim any number of positions.
-- name: verify_lease
SELECT format('namespace "%s", subscription "%s", lease of "%s": %s', n.name, s.name,
              coalesce(l.owner_name, 'nobody'),
              CASE WHEN k.count IS DISTINCT FROM l.count THEN 'the list of its positions is damaged'
                   ELSE format('the event at position %s is neither in the log nor among the copies',
                               m.position) END)
FROM holdfast.leases l
JOIN holdfast.subscriptions s ON s.id = l.subscription_id
JOIN holdfast.namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
CROSS JOIN LATERAL (SELECT sum(upper(r) - lower(r)) AS count FROM unnest(l.positions) r) k
LEFT JOIN LATERAL (
    SELECT p AS position
    FROM unnest(CASE WHEN k.count = l.count THEN l.positions END) r,
         generate_series(lower(r), upper(r) - 1) p
    WHERE (SELECT 1 FROM holdfast.events e
           WHERE e.namespace_id = s.namespace_id AND e.position = p LIMIT 1) IS NULL
        AND (SELECT 1 FROM holdfast.copies c
             WHERE c.subscription_id = l.subscription_id AND c.position = p LIMIT 1) IS NULL
    LIMIT 1) m ON true
WHERE k.count IS DISTINCT FROM l.count OR m.position IS NOT NULL
LIMIT $1::bigint;

-- ---- Scans: rows after the key ($1, $2, $3), at most $4 -----------------------------------------
--
-- first, second (the key; of what is an event the position), subject, id, hash, type, tenant, key,
-- payload, metadata, story; of events then producer, schedule_id, key_version, emitted_at, entered_at,
-- checksum

-- The events of namespace $1, from the next position that there is on so many positions at the most: a
-- month without statistics must not be sorted as a whole for each chunk. Ends after the row that makes
-- more than 4 MiB of them.
-- name: verify_events
SELECT t.namespace_id::bigint, t.position,
       format('namespace "%s", event at position %s', t.name, t.position),
       t.id, t.hash, t.type, t.tenant, t.key, t.payload, t.metadata, NULL::text,
       t.producer, t.schedule_id, t.key_version, t.emitted_at, t.entered_at, t.checksum
FROM (SELECT w.*, n.name, sum(w.bytes) OVER (ORDER BY w.position, w.id) - w.bytes AS before
      FROM (SELECT e.*, octet_length(e.payload::text)
                        + coalesce(octet_length(e.metadata::text), 0)
                        + coalesce(octet_length(e.key), 0)
                        + coalesce(octet_length(e.tenant), 0) AS bytes
            FROM holdfast.events e
            WHERE e.namespace_id = $1::bigint::integer AND e.position >= $2::bigint
                AND (e.position > $2::bigint OR e.id > $3::uuid)
                AND e.position < $4::bigint + coalesce(
                    (SELECT x.position FROM holdfast.events x
                     WHERE x.namespace_id = $1::bigint::integer AND x.position > $2::bigint
                     ORDER BY x.position LIMIT 1), $2::bigint)
            ORDER BY e.position, e.id LIMIT $4::bigint) w
      JOIN holdfast.namespaces n ON n.id = w.namespace_id) t
WHERE t.before <= 4194304
ORDER BY t.position, t.id;

-- name: verify_next_namespace
SELECT min(n.id)::bigint FROM holdfast.namespaces n WHERE n.id > $1::bigint;

-- name: verify_copies
SELECT c.subscription_id, c.position,
       format('copy of the event at position %s for subscription "%s"', c.position,
              coalesce((SELECT s.name FROM holdfast.subscriptions s WHERE s.id = c.subscription_id),
                       '?')),
       c.id, c.hash, c.type, c.tenant, c.key, c.payload, c.metadata, NULL::text,
       c.producer, c.schedule_id, c.key_version, c.emitted_at, c.entered_at, c.checksum
FROM holdfast.copies c
WHERE (c.subscription_id, c.position) > ($1::bigint, $2::bigint) AND $3::uuid IS NOT NULL
ORDER BY c.subscription_id, c.position LIMIT $4::bigint;

-- name: verify_dead_letters
SELECT d.id, d.position,
       format('dead letter %s of subscription "%s"', d.id, d.subscription),
       d.event_id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, d.story,
       d.producer, d.schedule_id, d.key_version, d.emitted_at, d.entered_at, d.checksum
FROM holdfast.letters d
WHERE d.id > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY d.id LIMIT $4::bigint;

-- name: verify_retries
SELECT r.subscription_id, r.position,
       format('delivery of position %s that waits for subscription "%s"', r.position,
              coalesce((SELECT s.name FROM holdfast.subscriptions s WHERE s.id = r.subscription_id),
                       '?')),
       NULL::uuid, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::json, NULL::json, r.story
FROM holdfast.retries r
WHERE (r.subscription_id, r.position) > ($1::bigint, $2::bigint) AND $3::uuid IS NOT NULL
ORDER BY r.subscription_id, r.position LIMIT $4::bigint;

-- name: verify_subscriptions
SELECT s.id, 0::bigint, format('subscription "%s"', s.name),
       NULL::uuid, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::json, s.options, s.patterns
FROM holdfast.subscriptions s
WHERE s.id > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY s.id LIMIT $4::bigint;

-- name: verify_schedules
SELECT 0::bigint, 0::bigint, format('schedule "%s"', s.name),
       s.id, NULL::bigint, s.type, s.tenant, s.key, s.payload, s.metadata, NULL::text
FROM holdfast.schedules s
WHERE s.id > $3::uuid AND $1::bigint IS NOT NULL AND $2::bigint IS NOT NULL
ORDER BY s.id LIMIT $4::bigint;

-- name: verify_delayed
SELECT d.number, 0::bigint, format('event for later, number %s', d.number),
       d.id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, NULL::text,
       d.producer, NULL::text, NULL::bigint, d.emitted_at, NULL::timestamptz, d.checksum
FROM holdfast.delayed d
WHERE d.number > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY d.number LIMIT $4::bigint;
