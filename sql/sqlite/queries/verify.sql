-- Statements of `verify` (src/store/verify.h), which looks for damage in all namespaces at once.
-- They may read whole tables. None of them writes. What belongs to a namespace that is being
-- removed need not fit together any more.

-- ---- Checks: sentences, at most ?1 --------------------------------------------------------------

-- name: verify_file
SELECT integrity_check FROM pragma_integrity_check(?1) WHERE integrity_check <> 'ok';

-- Names are the same in upper and in lower case. What lies on a table of ours counts as ours; an
-- index without a statement of its own is part of its table's.
-- name: verify_schema
SELECT type, name, tbl_name, sql FROM sqlite_schema
WHERE (name LIKE 'holdfast\_%' ESCAPE '\' OR tbl_name LIKE 'holdfast\_%' ESCAPE '\')
    AND sql IS NOT NULL
ORDER BY rowid;

-- name: verify_orphan
WITH owned (what, owner) AS (
    SELECT 'partitions', subscription_id FROM holdfast_partitions
    UNION ALL SELECT 'members', subscription_id FROM holdfast_members
    UNION ALL SELECT 'leases', subscription_id FROM holdfast_leases
    UNION ALL SELECT 'retries', subscription_id FROM holdfast_retries
    UNION ALL SELECT 'outcomes', subscription_id FROM holdfast_outcomes
    UNION ALL SELECT 'cancels', subscription_id FROM holdfast_cancels
    UNION ALL SELECT 'copies', subscription_id FROM holdfast_copies
    UNION ALL SELECT 'settled', subscription_id FROM holdfast_settled
    UNION ALL SELECT 'rates', subscription_id FROM holdfast_rates),
spaced (what, owner) AS (
    SELECT 'subscriptions', namespace_id FROM holdfast_subscriptions
    UNION ALL SELECT 'keys', namespace_id FROM holdfast_keys
    UNION ALL SELECT 'dead_letters', namespace_id FROM holdfast_dead_letters
    UNION ALL SELECT 'dead_kinds', namespace_id FROM holdfast_dead_kinds
    UNION ALL SELECT 'schedules', namespace_id FROM holdfast_schedules
    UNION ALL SELECT 'delayed', namespace_id FROM holdfast_delayed
    UNION ALL SELECT 'uniques', namespace_id FROM holdfast_uniques),
-- From the log's first event of a namespace to that of the next one, without reading those between.
logged (owner) AS (
    SELECT min(place) >> 44 FROM holdfast_events
    UNION ALL
    SELECT (SELECT min(e.place) >> 44 FROM holdfast_events e WHERE e.place >= (l.owner + 1) << 44)
    FROM logged l WHERE l.owner IS NOT NULL)
SELECT printf('%d rows of %s belong to subscription %d, which does not exist', count(*), what,
              owner)
    FROM owned WHERE owner NOT IN (SELECT id FROM holdfast_subscriptions) GROUP BY what, owner
UNION ALL
SELECT printf('%d rows of %s belong to namespace %d, which does not exist', count(*), what, owner)
    FROM spaced WHERE owner NOT IN (SELECT id FROM holdfast_namespaces) GROUP BY what, owner
UNION ALL
SELECT printf('%d rows of schedule_runs belong to a schedule that does not exist', count(*))
    FROM holdfast_schedule_runs WHERE schedule_id NOT IN (SELECT id FROM holdfast_schedules)
    HAVING count(*) > 0
UNION ALL
SELECT printf('events in the log belong to namespace %d, which does not exist', owner)
    FROM logged WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM holdfast_namespaces)
LIMIT ?1;

-- Positions have no gaps: what is missing behind those that retention took (retained_through), up
-- to the newest that ever was in the log, was lost.
-- name: verify_lost
WITH logged AS (
    SELECT e.place >> 44 AS namespace_id, e.place & 17592186044415 AS position,
           lag(e.place) OVER (ORDER BY e.place) AS before
    FROM holdfast_events e),
spaces AS (
    SELECT n.id, n.name, n.head, max(n.gapless_after, n.retained_through) AS floor,
           ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                   WHERE e.place > n.id << 44 AND e.place <= (n.id << 44) + 17592186044415
                   ORDER BY e.place DESC LIMIT 1), 0) AS newest
    FROM holdfast_namespaces n WHERE n.removing_at IS NULL AND n.copying IS NULL),
gaps AS (
    SELECT s.name, max(s.floor, CASE WHEN l.before >> 44 = s.id THEN l.before & 17592186044415
                                     ELSE 0 END) + 1 AS low, l.position - 1 AS high
    FROM logged l JOIN spaces s ON s.id = l.namespace_id
    UNION ALL
    SELECT s.name, max(s.floor, s.newest) + 1, s.head FROM spaces s)
SELECT printf('namespace "%s": the events at positions %d to %d are missing', name, low, high)
FROM gaps WHERE low <= high
LIMIT ?1;

-- name: verify_doubled
SELECT printf('namespace "%s": id %s is stored %d times', ifnull(n.name, '?'), lower(hex(d.id)),
              d.times)
FROM (SELECT e.id, e.place >> 44 AS namespace_id, count(*) AS times
      FROM holdfast_events e GROUP BY e.id, e.place >> 44 HAVING count(*) > 1) d
LEFT JOIN holdfast_namespaces n ON n.id = d.namespace_id
LIMIT ?1;

-- name: verify_partitions
SELECT printf('namespace "%s", subscription "%s": it has %d partitions, and rows for %d', n.name,
              s.name, s.wanted_rows, s.found_rows)
FROM (SELECT namespace_id, name, CASE mode WHEN 1 THEN partitions ELSE 1 END AS wanted_rows,
             (SELECT count(*) FROM holdfast_partitions p
              WHERE p.subscription_id = id) AS found_rows,
             (SELECT max(partition) FROM holdfast_partitions p
              WHERE p.subscription_id = id) AS highest
      FROM holdfast_subscriptions) s
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE s.found_rows <> s.wanted_rows OR s.highest <> s.wanted_rows - 1
LIMIT ?1;

-- name: verify_checkpoint
WITH tips AS MATERIALIZED (
    SELECT n.id, n.name,
           max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                               WHERE e.place > n.id << 44
                                   AND e.place <= (n.id << 44) + 17592186044415
                               ORDER BY e.place DESC LIMIT 1), 0)) AS tip
    FROM holdfast_namespaces n WHERE n.removing_at IS NULL)
SELECT printf('namespace "%s", subscription "%s", partition %d: the checkpoint is %d, but %s',
              t.name, s.name, p.partition, p.checkpoint,
              CASE WHEN p.checkpoint > t.tip THEN 'the newest position is ' || t.tip
                   ELSE 'it began after position ' || s.start END)
FROM holdfast_partitions p
JOIN holdfast_subscriptions s ON s.id = p.subscription_id
JOIN tips t ON t.id = s.namespace_id
WHERE p.checkpoint > t.tip OR p.checkpoint < s.start
LIMIT ?1;

-- name: verify_retry
SELECT printf('namespace "%s", subscription "%s": the delivery of position %d %s', n.name, s.name,
              r.position,
              CASE WHEN r.kind NOT BETWEEN RETRY_WAITING AND RETRY_ALONE
                  THEN 'is of kind ' || r.kind || ', which means nothing'
                   WHEN r.cause NOT IN (CAUSE_ANY)
                       THEN 'has the cause "' || r.cause || '", which means nothing'
                   WHEN (r.unit_first IS NULL) <> (r.unit_events IS NULL) OR r.unit_events < 2
                       OR r.unit_first > r.position
                       THEN 'failed in a unit that cannot be: ' || ifnull(r.unit_events, '?')
                            || ' events from position ' || ifnull(r.unit_first, '?') || ' on'
                   ELSE 'waits, but the event is neither in the log nor among the copies' END)
FROM holdfast_retries r
JOIN holdfast_subscriptions s ON s.id = r.subscription_id
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind NOT BETWEEN RETRY_WAITING AND RETRY_ALONE
    OR r.cause NOT IN (CAUSE_ANY)
    OR (r.unit_first IS NULL) <> (r.unit_events IS NULL)
    OR r.unit_events < 2 OR r.unit_first > r.position
    OR (NOT EXISTS (SELECT 1 FROM holdfast_events e
                    WHERE e.place = (s.namespace_id << 44) + r.position)
        AND NOT EXISTS (SELECT 1 FROM holdfast_copies c
                        WHERE c.subscription_id = r.subscription_id AND c.position = r.position))
LIMIT ?1;

-- name: verify_held
SELECT printf('namespace "%s", subscription "%s": the delivery of position %d is held, but nothing '
              || 'of its lane is before it', n.name, s.name, r.position)
FROM holdfast_retries r
JOIN holdfast_subscriptions s ON s.id = r.subscription_id
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind = RETRY_HELD
    AND NOT EXISTS (SELECT 1 FROM holdfast_retries b
                    WHERE b.subscription_id = r.subscription_id AND b.partition = r.partition
                        AND b.lane = r.lane AND b.position < r.position)
LIMIT ?1;

-- name: verify_slice
WITH placed (what, subscription_id, position, partition) AS (
    SELECT 'waiting', subscription_id, position, partition FROM holdfast_retries
    UNION ALL SELECT 'settled', subscription_id, position, partition FROM holdfast_settled),
hashed AS (
    SELECT n.name AS namespace, s.name, s.partitions, p.*,
           ifnull((SELECT c.hash FROM holdfast_copies c
                   WHERE c.subscription_id = p.subscription_id AND c.position = p.position),
                  (SELECT e.hash FROM holdfast_events e
                   WHERE e.place = (s.namespace_id << 44) + p.position)) AS hash
    FROM placed p
    JOIN holdfast_subscriptions s ON s.id = p.subscription_id AND s.mode = HF_MODE_ORDERED
    JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL)
SELECT printf('namespace "%s", subscription "%s": the %s delivery of position %d is in partition '
              || '%d, its event belongs to %d', namespace, name, what, position, partition,
              hash % partitions)
FROM hashed WHERE partition <> hash % partitions
LIMIT ?1;

-- name: verify_copy
SELECT printf('namespace "%s", subscription "%s": the copy of the event at position %d belongs to '
              || 'no delivery', n.name, s.name, c.position)
FROM holdfast_copies c
JOIN holdfast_subscriptions s ON s.id = c.subscription_id
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE NOT EXISTS (SELECT 1 FROM holdfast_retries r
                  WHERE r.subscription_id = c.subscription_id AND r.position = c.position)
LIMIT ?1;

-- name: verify_settled
WITH tips AS MATERIALIZED (
    SELECT n.id, n.name,
           max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                               WHERE e.place > n.id << 44
                                   AND e.place <= (n.id << 44) + 17592186044415
                               ORDER BY e.place DESC LIMIT 1), 0)) AS tip
    FROM holdfast_namespaces n WHERE n.removing_at IS NULL)
SELECT printf('namespace "%s", subscription "%s": position %d is settled, but the newest '
              || 'position is %d', t.name, s.name, d.position, t.tip)
FROM holdfast_settled d
JOIN holdfast_subscriptions s ON s.id = d.subscription_id
JOIN tips t ON t.id = s.namespace_id
WHERE d.position > t.tip
LIMIT ?1;

-- All leases: what they belong to, the place of position 0, and what they say that they have.
-- name: verify_lease
SELECT printf('namespace "%s", subscription "%s", lease of "%s"', n.name, s.name,
              ifnull(l.owner_name, 'no process')),
       s.id, s.namespace_id << 44, l.count, l.first, l.positions
FROM holdfast_leases l
JOIN holdfast_subscriptions s ON s.id = l.subscription_id
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL;

-- Whether the event of a delivery is anywhere. ?1: its place, ?2: the subscription, ?3: the
-- position.
-- name: verify_lease_event
SELECT EXISTS (SELECT 1 FROM holdfast_events WHERE place = ?1)
    OR EXISTS (SELECT 1 FROM holdfast_copies WHERE subscription_id = ?2 AND position = ?3);

-- name: verify_types
SELECT printf('namespace "%s": the index on types lacks the event at position %d', n.name,
              e.place & 17592186044415)
FROM holdfast_events e
JOIN holdfast_namespaces n ON n.id = e.place >> 44 AND n.removing_at IS NULL
    AND n.type_index = TYPE_INDEX_ON
WHERE NOT EXISTS (SELECT 1 FROM holdfast_types t
                  WHERE t.namespace_id = n.id AND t.type = e.type
                      AND t.position = e.place & 17592186044415)
UNION ALL
SELECT printf('namespace "%s": the index on types has "%s" at position %d, where no such event is',
              n.name, t.type, t.position)
FROM holdfast_types t
JOIN holdfast_namespaces n ON n.id = t.namespace_id AND n.removing_at IS NULL
WHERE NOT EXISTS (SELECT 1 FROM holdfast_events e
                  WHERE e.place = (t.namespace_id << 44) + t.position AND e.type = t.type)
LIMIT ?1;

-- The event of a key may be gone: by retention, or because it waited and was cancelled.
-- name: verify_unique
WITH tips AS MATERIALIZED (
    SELECT n.id, n.name,
           max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                               WHERE e.place > n.id << 44
                                   AND e.place <= (n.id << 44) + 17592186044415
                               ORDER BY e.place DESC LIMIT 1), 0)) AS tip
    FROM holdfast_namespaces n WHERE n.removing_at IS NULL),
found AS (
    SELECT t.name, u.key,
           CASE WHEN length(u.id) <> 16 THEN 'its id is not 16 bytes'
                WHEN u.position < 1 OR u.position > t.tip
                    THEN printf('it has position %d, but the newest position is %d', u.position,
                                t.tip)
                WHEN u.sweep_at < u.until THEN 'it is removed before its time is over'
                WHEN (SELECT e.id FROM holdfast_events e
                      WHERE e.place = (u.namespace_id << 44) + u.position) <> u.id
                    THEN printf('the event at position %d is another one', u.position) END AS fault
    FROM holdfast_uniques u JOIN tips t ON t.id = u.namespace_id)
SELECT printf('namespace "%s", unique key "%s": %s', f.name, f.key, f.fault)
FROM found f WHERE f.fault IS NOT NULL
LIMIT ?1;

-- name: verify_rate
SELECT printf('namespace "%s", subscription "%s": its rate was taken at %s, which has not come yet',
              n.name, s.name, strftime('%Y-%m-%dT%H:%M:%SZ', r.empty_at / 1000000, 'unixepoch'))
FROM holdfast_rates r
JOIN holdfast_subscriptions s ON s.id = r.subscription_id
JOIN holdfast_namespaces n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.empty_at / 1000000 > CAST(strftime('%s', 'now') AS INTEGER) + 60
LIMIT ?1;

-- A letter that is counted as another kind is missing there.
-- name: verify_dead_kind
WITH counted AS (
    SELECT namespace_id, kind_hash, letters, 0 AS stored FROM holdfast_dead_kinds
    UNION ALL
    SELECT namespace_id, holdfast_kind(subscription, type, reason, error), 0, count(*)
    FROM holdfast_dead_letters WHERE resolved_at IS NULL GROUP BY 1, 2),
compared AS (
    SELECT namespace_id, sum(letters) AS letters, sum(stored) AS stored
    FROM counted GROUP BY namespace_id, kind_hash HAVING sum(letters) <> sum(stored))
SELECT printf('namespace "%s": dead letters of one kind are counted as %d and are %d', n.name,
              c.letters, c.stored)
FROM compared c JOIN holdfast_namespaces n
    ON n.id = c.namespace_id AND n.removing_at IS NULL AND n.copying IS NULL
UNION ALL
SELECT printf('dead letter %d of subscription "%s" is counted as one of another kind', d.id,
              d.subscription)
FROM holdfast_dead_letters d
WHERE d.kind_hash <> holdfast_kind(d.subscription, d.type, d.reason, d.error)
LIMIT ?1;

-- ---- Scans: rows after the key (?1, ?2), at most ?4 ---------------------------------------------
--
-- first, second (the key; of what is an event the position), subject, id, hash, type, tenant, key,
-- payload, metadata, story; of events then producer, schedule_id, key_version, emitted_at,
-- entered_at, checksum

-- name: verify_events
SELECT e.place >> 44, e.place & 17592186044415,
       printf('namespace "%s", event at position %d',
              ifnull((SELECT n.name FROM holdfast_namespaces n WHERE n.id = e.place >> 44), '?'),
              e.place & 17592186044415),
       e.id, e.hash, e.type, e.tenant, e.key, e.payload, e.metadata, NULL,
       e.producer, e.schedule_id, e.key_version, e.emitted_at, e.entered_at, e.checksum
FROM holdfast_events e WHERE e.place > (?1 << 44) + ?2
ORDER BY e.place LIMIT ?4;

-- name: verify_copies
SELECT c.subscription_id, c.position,
       printf('copy of the event at position %d for subscription "%s"', c.position,
              ifnull((SELECT s.name FROM holdfast_subscriptions s WHERE s.id = c.subscription_id),
                     '?')),
       c.id, c.hash, c.type, c.tenant, c.key, c.payload, c.metadata, NULL,
       c.producer, c.schedule_id, c.key_version, c.emitted_at, c.entered_at, c.checksum
FROM holdfast_copies c WHERE (c.subscription_id, c.position) > (?1, ?2)
ORDER BY c.subscription_id, c.position LIMIT ?4;

-- name: verify_dead_letters
SELECT d.id, d.position,
       printf('dead letter %d of subscription "%s"', d.id, d.subscription),
       d.event_id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, d.story,
       d.producer, d.schedule_id, d.key_version, d.emitted_at, d.entered_at, d.checksum
FROM holdfast_dead_letters d WHERE d.id > ?1
ORDER BY d.id LIMIT ?4;

-- name: verify_retries
SELECT r.subscription_id, r.position,
       printf('delivery of position %d that waits for subscription "%s"', r.position,
              ifnull((SELECT s.name FROM holdfast_subscriptions s WHERE s.id = r.subscription_id),
                     '?')),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.story
FROM holdfast_retries r WHERE (r.subscription_id, r.position) > (?1, ?2)
ORDER BY r.subscription_id, r.position LIMIT ?4;

-- name: verify_outcomes
SELECT o.subscription_id, o.position,
       printf('delivery of position %d that failed before it was done for subscription "%s"',
              o.position,
              ifnull((SELECT s.name FROM holdfast_subscriptions s WHERE s.id = o.subscription_id),
                     '?')),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, o.story
FROM holdfast_outcomes o INDEXED BY holdfast_outcomes_by_position
WHERE (o.subscription_id, o.position) > (?1, ?2)
ORDER BY o.subscription_id, o.position LIMIT ?4;

-- name: verify_subscriptions
SELECT s.id, 0, printf('subscription "%s"', s.name),
       NULL, NULL, NULL, NULL, NULL, NULL, s.options, s.patterns
FROM holdfast_subscriptions s WHERE s.id > ?1
ORDER BY s.id LIMIT ?4;

-- name: verify_schedules
SELECT s.rowid, 0, printf('schedule "%s"', s.name),
       NULL, NULL, s.type, s.tenant, s.key, s.payload, s.metadata, NULL
FROM holdfast_schedules s WHERE s.rowid > ?1
ORDER BY s.rowid LIMIT ?4;

-- name: verify_delayed
SELECT d.number, 0, printf('event for later, number %d', d.number),
       d.id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, NULL,
       d.producer, NULL, NULL, d.emitted_at, 0, d.checksum
FROM holdfast_delayed d WHERE d.number > ?1
ORDER BY d.number LIMIT ?4;
