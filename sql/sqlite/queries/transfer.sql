-- Statements that copy a namespace to another database (src/store/transfer.h). Those that read a
-- table answer the columns that those that write it take, in the same order, on every engine; times
-- are microseconds, subscriptions are named.

-- name: transfer_identity
SELECT value FROM holdfast_meta WHERE name = 'identity';

-- name: transfer_facts
SELECT n.id, max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                                 WHERE e.place > n.id << 44
                                     AND e.place <= (n.id << 44) + 17592186044415
                                 ORDER BY e.place DESC LIMIT 1), 0)),
       n.removing_at IS NOT NULL, n.copying IS NOT NULL
FROM holdfast_namespaces n WHERE n.name = ?1;

-- ---- Reading: ?1 is the namespace's number; of events those above ?2 up to ?3 -------------------

-- name: transfer_read_events
SELECT e.place & 17592186044415, e.id, e.type, e.hash, e.emitted_at, e.entered_at, e.key_version,
       e.schedule_id, e.producer, e.key, e.tenant, e.metadata, e.payload, e.checksum
FROM holdfast_events e
WHERE e.place > (?1 << 44) + ?2 AND e.place <= (?1 << 44) + min(?3, 17592186044415)
ORDER BY e.place;

-- name: transfer_read_keys
SELECT k.key, k.version FROM holdfast_keys k WHERE k.namespace_id = ?1 ORDER BY k.key;

-- name: transfer_read_uniques
SELECT u.key, u.id, u.position, u.until, u.sweep_at FROM holdfast_uniques u
WHERE u.namespace_id = ?1 ORDER BY u.key;

-- name: transfer_read_subscriptions
SELECT s.name, s.patterns, s.options, s.mode, s.partitions, s.wanted, s.generation, s.start,
       s.paused_at, s.paused_by, s.paused_reason, s.breaker, s.created_at, s.dropped_through,
       s.dropped
FROM holdfast_subscriptions s WHERE s.namespace_id = ?1 ORDER BY s.name;

-- What the owner of one has in hand is not known to the copy: then up to the head.
-- name: transfer_read_partitions
SELECT s.name, p.partition, p.checkpoint, p.checkpoint_at, p.last_event_id, p.epoch, p.turn,
       CASE WHEN p.owner IS NULL THEN p.doubt_through ELSE (
           SELECT max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                                      WHERE e.place > n.id << 44
                                          AND e.place <= (n.id << 44) + 17592186044415
                                      ORDER BY e.place DESC LIMIT 1), 0))
           FROM holdfast_namespaces n WHERE n.id = ?1) END, p.claimed_at
FROM holdfast_subscriptions s CROSS JOIN holdfast_partitions p ON p.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, p.partition;

-- name: transfer_read_retries
SELECT s.name, r.position, r.kind, r.partition, r.lane, r.attempts, r.uncounted, r.next_attempt_at,
       r.last_retry_at, r.story, r.cause, r.unit_first, r.unit_events, r.deliveries
FROM holdfast_subscriptions s CROSS JOIN holdfast_retries r ON r.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, r.position;

-- name: transfer_read_copies
SELECT s.name, c.position, c.id, c.type, c.hash, c.emitted_at, c.entered_at, c.key_version,
       c.schedule_id, c.producer, c.key, c.tenant, c.metadata, c.payload, c.checksum
FROM holdfast_subscriptions s CROSS JOIN holdfast_copies c ON c.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, c.position;

-- name: transfer_read_settled
SELECT s.name, d.partition, d.position
FROM holdfast_subscriptions s CROSS JOIN holdfast_settled d ON d.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, d.partition, d.position;

-- name: transfer_read_outcomes
SELECT s.name, o.position, o.settled_at, o.attempts, o.deliveries, o.cause, o.story
FROM holdfast_subscriptions s CROSS JOIN holdfast_outcomes o ON o.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, o.number;

-- name: transfer_read_cancels
SELECT s.name, c.position, c.hash, c.requested_at, c.cancelled_at, c.cancelled_by, c.reason
FROM holdfast_subscriptions s CROSS JOIN holdfast_cancels c ON c.subscription_id = s.id
WHERE s.namespace_id = ?1 AND c.cancelled_at IS NOT NULL ORDER BY s.name, c.position;

-- The positions are a blob here; src/store/sqlite/write/transfer.c makes a text of them.
-- name: transfer_read_leases
SELECT s.name, l.token, ifnull(l.piece, 0), l.has_retries, l.lease_ms, l.count, l.positions
FROM holdfast_subscriptions s CROSS JOIN holdfast_leases l ON l.subscription_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, l.token;

-- name: transfer_read_numbers
SELECT q.seq FROM sqlite_sequence q JOIN holdfast_namespaces n ON n.id = ?1
WHERE q.name = 'holdfast_dead_letters';

-- name: transfer_read_dead_letters
SELECT d.subscription, d.event_id, d.id, d.position, d.failed_at, d.resolved_at, d.attempts,
       d.reason,
       d.type, d.error, d.resolved_by, d.resolved_note, d.hash, d.emitted_at, d.entered_at,
       d.key_version, d.schedule_id, d.producer, d.key, d.tenant, d.metadata, d.payload, d.story,
       d.checksum, d.cause, d.deliveries
FROM holdfast_dead_letters d WHERE d.namespace_id = ?1
ORDER BY d.subscription, d.event_id, d.id;

-- name: transfer_read_schedules
SELECT s.name, s.id, s.generation, s.next_at, s.paused_at, s.created_at, s.policy, s.cap,
       s.grace_us,
       s.expression, s.zone, s.paused_by, s.paused_reason, s.type, s.key, s.tenant, s.metadata,
       s.payload
FROM holdfast_schedules s WHERE s.namespace_id = ?1 ORDER BY s.name;

-- name: transfer_read_runs
SELECT s.name, r.planned_at, r.kind, r.until_at, r.fired_at, r.position, r.node
FROM holdfast_schedules s CROSS JOIN holdfast_schedule_runs r ON r.schedule_id = s.id
WHERE s.namespace_id = ?1 ORDER BY s.name, r.planned_at;

-- name: transfer_read_delayed
SELECT d.due_at, d.id, d.type, d.hash, d.emitted_at, d.producer, d.key, d.tenant, d.metadata,
       d.payload, d.checksum
FROM holdfast_delayed d WHERE d.namespace_id = ?1 ORDER BY d.due_at, d.number;

-- The last column: whether an index on types is wanted, be it complete or not.
-- name: transfer_read_namespace
SELECT max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                           WHERE e.place > n.id << 44 AND e.place <= (n.id << 44) + 17592186044415
                           ORDER BY e.place DESC LIMIT 1), 0)),
       n.created_at, n.metadata, n.retention_ms, n.retention_bytes, n.lagging_drop,
       n.type_index IN (TYPE_INDEX_BUILDING, TYPE_INDEX_ON)
FROM holdfast_namespaces n WHERE n.id = ?1;

-- ---- Writing: the columns from ?2 on, ?1 is the namespace's number ------------------------------

-- name: transfer_write_events
INSERT INTO holdfast_events (place, id, type, hash, emitted_at, entered_at, key_version,
                             schedule_id, producer, key, tenant, metadata, payload, checksum)
VALUES ((?1 << 44) + ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15);

-- name: transfer_write_keys
INSERT INTO holdfast_keys (namespace_id, key, version) VALUES (?1, ?2, ?3);

-- name: transfer_write_uniques
INSERT INTO holdfast_uniques (namespace_id, key, id, position, until, sweep_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: transfer_write_subscriptions
INSERT INTO holdfast_subscriptions (namespace_id, name, patterns, options, mode, partitions, wanted,
                                    generation, start, paused_at, paused_by, paused_reason, breaker,
                                    created_at, dropped_through, dropped)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- How fast it moves is known when it has been here for a while.
-- name: transfer_write_partitions
INSERT INTO holdfast_partitions (subscription_id, partition, checkpoint, checkpoint_at,
                                 last_event_id, epoch, turn, span, doubt_through, claimed_at)
SELECT s.id, ?3, ?4, ?5, ?6, ?7, ?8, ?11, ?9, ?10 FROM holdfast_subscriptions s
WHERE s.namespace_id = ?1 AND s.name = ?2;

-- name: transfer_write_retries
INSERT INTO holdfast_retries (subscription_id, position, kind, partition, lane, attempts, uncounted,
                              next_attempt_at, last_retry_at, story, cause, unit_first, unit_events,
                              deliveries)
SELECT s.id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM holdfast_subscriptions s
WHERE s.namespace_id = ?1 AND s.name = ?2;

-- name: transfer_write_copies
INSERT INTO holdfast_copies (subscription_id, position, id, type, hash, emitted_at, entered_at,
                             key_version, schedule_id, producer, key, tenant, metadata, payload,
                             checksum)
SELECT s.id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16
FROM holdfast_subscriptions s
WHERE s.namespace_id = ?1 AND s.name = ?2;

-- name: transfer_write_settled
INSERT INTO holdfast_settled (subscription_id, partition, position)
SELECT s.id, ?3, ?4 FROM holdfast_subscriptions s WHERE s.namespace_id = ?1 AND s.name = ?2;

-- name: transfer_write_outcomes
INSERT INTO holdfast_outcomes (subscription_id, number, position, settled_at, attempts, deliveries,
                               cause, story)
SELECT s.id, 1 + ifnull((SELECT max(o.number) FROM holdfast_outcomes o
                         WHERE o.subscription_id = s.id), 0), ?3, ?4, ?5, ?6, ?7, ?8
FROM holdfast_subscriptions s WHERE s.namespace_id = ?1 AND s.name = ?2;

-- name: transfer_write_cancels
INSERT INTO holdfast_cancels (subscription_id, position, hash, requested_at, cancelled_at,
                              cancelled_by, reason)
SELECT s.id, ?3, ?4, ?5, ?6, ?7, ?8
FROM holdfast_subscriptions s WHERE s.namespace_id = ?1 AND s.name = ?2;

-- It has no holder, and its time was over long ago. ?9: the lowest position, beside those of a
-- lease. How often its events were handed out is not copied.
-- name: transfer_write_leases
INSERT INTO holdfast_leases (token, subscription_id, expires_at, lease_ms, bound, kept, piece,
                             has_retries, count, first, positions, times)
SELECT ?3, s.id, 0, ?6, 0, 0, ?4, ?5, ?7, ?9, ?8, x'' FROM holdfast_subscriptions s
WHERE s.namespace_id = ?1 AND s.name = ?2;

-- New dead letters get higher ids than any of the source ever had. Before the dead letters come, so
-- that one that cannot keep its id takes no other's.
-- name: transfer_write_numbers
UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = 'holdfast_dead_letters' AND ?1 > 0;

-- The id stays if no other dead letter of the file has it.
-- name: transfer_write_dead_letters
INSERT INTO holdfast_dead_letters (id, namespace_id, subscription, event_id, position, failed_at,
                                   resolved_at, attempts, reason, type, error, resolved_by,
                                   resolved_note, hash, emitted_at, entered_at, key_version,
                                   schedule_id, producer, key, tenant, metadata, payload, story,
                                   checksum, cause, deliveries, kind_hash)
VALUES (CASE WHEN EXISTS (SELECT 1 FROM holdfast_dead_letters d WHERE d.id = ?4) THEN NULL
        ELSE ?4 END,
        ?1, ?2, ?3, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
        ?22, ?23, ?24, ?25, ?26, ?27, holdfast_kind(?2, ?10, ?9, ?11));

-- name: transfer_write_schedules
INSERT INTO holdfast_schedules (namespace_id, name, id, generation, next_at, paused_at, created_at,
                                policy, cap, grace_us, expression, zone, paused_by, paused_reason,
                                type, key, tenant, metadata, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19);

-- name: transfer_write_runs
INSERT INTO holdfast_schedule_runs (schedule_id, planned_at, kind, until_at, fired_at, position,
                                    node)
SELECT s.id, ?3, ?4, ?5, ?6, ?7, ?8 FROM holdfast_schedules s
WHERE s.namespace_id = ?1 AND s.name = ?2;

-- Those of one time keep their order.
-- name: transfer_write_delayed
INSERT INTO holdfast_delayed (namespace_id, due_at, id, type, hash, emitted_at, producer, key,
                              tenant, metadata, payload, checksum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- The head is stored only if no event is there. An index on types is built after the copy, from
-- the first event on, or dropped: the copied events are in none.
-- name: transfer_write_namespace
UPDATE holdfast_namespaces
SET head = CASE WHEN EXISTS (SELECT 1 FROM holdfast_events e WHERE e.place = (?1 << 44) + ?2) THEN 0
                ELSE ?2 END,
    created_at = ?3, metadata = ?4, retention_ms = ?5, retention_bytes = ?6, lagging_drop = ?7,
    gapless_after = ?2, types_through = 0,
    type_index = CASE WHEN ?8 THEN TYPE_INDEX_BUILDING
                      WHEN type_index = TYPE_INDEX_OFF THEN TYPE_INDEX_OFF
                      ELSE TYPE_INDEX_DROPPING END
WHERE id = ?1;

-- ---- The mark -----------------------------------------------------------------------------------

-- What is in a namespace, and whose copy it is. ?1: its number.
-- name: transfer_mark_read
SELECT n.copying, n.copied_to,
       EXISTS (SELECT 1 FROM holdfast_subscriptions s WHERE s.namespace_id = n.id)
       OR EXISTS (SELECT 1 FROM holdfast_keys k WHERE k.namespace_id = n.id)
       OR EXISTS (SELECT 1 FROM holdfast_dead_letters d WHERE d.namespace_id = n.id)
       OR EXISTS (SELECT 1 FROM holdfast_schedules c WHERE c.namespace_id = n.id)
       OR EXISTS (SELECT 1 FROM holdfast_delayed l WHERE l.namespace_id = n.id)
       OR EXISTS (SELECT 1 FROM holdfast_events e
                  WHERE e.place > n.id << 44 AND e.place <= (n.id << 44) + 17592186044415)
       OR n.head > 0
FROM holdfast_namespaces n WHERE n.id = ?1;

-- name: transfer_mark_put
UPDATE holdfast_namespaces SET copying = ?2 WHERE id = ?1;

-- name: transfer_floor_put
UPDATE holdfast_namespaces SET copied_to = ?2 WHERE id = ?1 AND copied_to <> ?2;

-- name: transfer_end
UPDATE holdfast_namespaces SET copying = NULL, copied_to = 0
    WHERE copying = ?1 AND (?2 IS NULL OR name = ?2);

-- Events above ?3, at most ?2 of them.
-- name: transfer_clear_events
DELETE FROM holdfast_events
    WHERE place IN (SELECT place FROM holdfast_events
                    WHERE place > (?1 << 44) + ?3 AND place <= (?1 << 44) + 17592186044415
                    ORDER BY place LIMIT ?2);
