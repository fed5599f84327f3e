-- Statements that copy a namespace to another database (src/store/transfer.h). Those that read a
-- table answer the columns that those that write it take, in the same order, on every engine.

-- name: transfer_identity
SELECT value FROM holdfast_private.meta WHERE name = 'identity'

-- The head is read before the holders of the sequence's lock: if there is none of them, every
-- position up to the head has committed, or never will. A gapless namespace's head is committed
-- with its events.
-- name: transfer_facts
WITH space AS MATERIALIZED (
    SELECT n.*, CASE WHEN n.removing_at IS NULL THEN holdfast.head(n.id) END AS head
    FROM holdfast_private.namespaces n WHERE n.name = $1)
SELECT s.id::bigint, s.head, s.removing_at IS NOT NULL, s.copying IS NOT NULL, s.gapless,
       o.count, o.names,
       (SELECT count(*) FROM holdfast_private.schedules c
        WHERE c.namespace_id = s.id AND c.job IS NOT NULL)
FROM space s CROSS JOIN LATERAL holdfast_private.nodes_present(s.id) o

-- name: transfer_holders
SELECT cardinality(h.holders)::bigint
FROM holdfast_private.hole_holders($1::bigint::integer) h

-- The locks come before the snapshot: what is truncated after it would be empty for it.
-- name: transfer_snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL row_security = off; -- what is hidden from the reader must not be missing in the copy
SET LOCAL enable_sort = off;
SET LOCAL jit = off;
LOCK TABLE holdfast_private.checkpoints_0, holdfast_private.checkpoints_1, holdfast_private.leases,
    holdfast_private.settled IN ACCESS SHARE MODE;

-- ---- Reading: $1 is the namespace's number; of events those above $2 up to $3 -------------------

-- name: transfer_read_events
SELECT e.position, e.id, e.type, e.hash, e.emitted_at, e.entered_at, e.key_version, e.schedule_id,
       e.producer, e.key, e.tenant, e.metadata, e.payload, e.checksum
FROM holdfast_private.events e
WHERE e.namespace_id = $1::bigint::integer AND e.position > $2::bigint AND e.position <= $3::bigint
ORDER BY e.position

-- name: transfer_read_keys
SELECT k.key, k.version FROM holdfast_private.keys k WHERE k.namespace_id = $1::bigint::integer
ORDER BY k.key

-- Without those that were reserved and not taken.
-- name: transfer_read_uniques
SELECT u.key, u.id, u.position, u.until, u.sweep_at FROM holdfast_private.uniques u
WHERE u.namespace_id = $1::bigint::integer AND isfinite(u.until) ORDER BY u.key

-- name: transfer_read_subscriptions
SELECT s.name, s.patterns, s.options, s.mode, s.partitions, s.wanted, s.generation, s.start,
       s.paused_at, s.paused_by, s.paused_reason, s.breaker, s.created_at, s.dropped_through,
       s.dropped
FROM holdfast_private.subscriptions s WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name

-- What the owner of one has in hand is not known to the copy: then all that is in it. (Not the
-- head, which is not of the snapshot.)
-- name: transfer_read_partitions
SELECT s.name, c.partition, c.checkpoint, c.checkpoint_at, c.last_event_id, c.epoch, c.turn,
       CASE WHEN p.owner IS NULL THEN p.doubt_through
            ELSE greatest(p.doubt_through, (
                SELECT e.position FROM holdfast_private.events e
                WHERE e.namespace_id = $1::bigint::integer ORDER BY e.position DESC LIMIT 1)) END,
       c.claimed_at
FROM holdfast_private.subscriptions s
JOIN holdfast_private.checkpoints c ON c.subscription_id = s.id
JOIN holdfast_private.partitions p ON p.subscription_id = s.id AND p.partition = c.partition
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, c.partition

-- name: transfer_read_retries
SELECT s.name, r.position, r.kind, r.partition, r.lane, r.attempts, r.uncounted, r.next_attempt_at,
       r.last_retry_at, r.story, r.cause, r.unit_first, r.unit_events, r.deliveries
FROM holdfast_private.subscriptions s JOIN holdfast_private.retries r ON r.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, r.position

-- name: transfer_read_copies
SELECT s.name, c.position, c.id, c.type, c.hash, c.emitted_at, c.entered_at, c.key_version,
       c.schedule_id, c.producer, c.key, c.tenant, c.metadata, c.payload, c.checksum
FROM holdfast_private.subscriptions s JOIN holdfast_private.copies c ON c.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, c.position

-- name: transfer_read_settled
SELECT s.name, d.partition, d.position
FROM holdfast_private.subscriptions s JOIN holdfast_private.settled d ON d.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, d.partition, d.position

-- name: transfer_read_outcomes
SELECT s.name, o.position, o.settled_at, o.attempts, o.deliveries, o.cause, o.story
FROM holdfast_private.subscriptions s JOIN holdfast_private.outcomes o ON o.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, o.number

-- name: transfer_read_cancels
SELECT s.name, c.position, c.hash, c.requested_at, c.cancelled_at, c.cancelled_by, c.reason
FROM holdfast_private.subscriptions s JOIN holdfast_private.cancels c ON c.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer AND c.cancelled_at IS NOT NULL
ORDER BY s.name, c.position

-- A copy has no holes. What those of the source show, a cursor has passed and no claim has taken
-- yet: it comes as leases without a holder, none larger than a claim may be. Their tokens are the
-- same whenever they are read, and no other database has them.
-- name: transfer_read_leases
WITH shared AS MATERIALIZED (
    SELECT s.id, s.name, c.holes,
           coalesce(s.options::json ->> 'on_unhandled' = 'dead_letter', false) AS unhandled_too,
           holdfast.patterns_regex(ARRAY(SELECT json_array_elements_text(s.patterns::json)))
               AS regex
    FROM holdfast_private.subscriptions s
    JOIN holdfast_private.checkpoints c ON c.subscription_id = s.id
    WHERE s.namespace_id = $1::bigint::integer AND s.mode = HF_MODE_SHARED AND c.holes IS NOT NULL),
late AS (
    SELECT s.id, s.name, e.position,
           (row_number() OVER (PARTITION BY s.id ORDER BY e.position) - 1) / 10000 AS part
    FROM shared s CROSS JOIN LATERAL unnest(s.holes) h
    JOIN holdfast_private.events e ON e.position BETWEEN h.low AND h.high
    WHERE e.namespace_id = $1::bigint::integer
        AND (s.regex IS NULL OR s.unhandled_too OR e.type ~ s.regex)
        AND NOT EXISTS (SELECT FROM holdfast_private.settled d
                        WHERE d.subscription_id = s.id AND d.position = e.position))
SELECT s.name, l.token, coalesce(l.piece, 0), l.has_retries, l.lease_ms, l.count, l.positions::text
FROM holdfast_private.subscriptions s JOIN holdfast_private.leases l ON l.subscription_id = s.id
WHERE s.namespace_id = $1::bigint::integer
UNION ALL
SELECT l.name, md5(concat_ws(' ', m.value, l.id, min(l.position)))::uuid, 0, false, 0,
       count(*)::integer, range_agg(int8range(l.position, l.position, '[]'))::text
FROM late l CROSS JOIN holdfast_private.meta m WHERE m.name = 'identity'
GROUP BY m.value, l.id, l.name, l.part
ORDER BY 1, 2

-- name: transfer_read_numbers
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('holdfast_private.letters',
                                                              'id')::regclass), 0)
FROM holdfast_private.namespaces n WHERE n.id = $1::bigint::integer

-- name: transfer_read_dead_letters
SELECT d.subscription, d.event_id, d.id, d.position, d.failed_at, d.resolved_at, d.attempts,
       d.reason, d.type, d.error, d.resolved_by, d.resolved_note, d.hash, d.emitted_at,
       d.entered_at, d.key_version, d.schedule_id, d.producer, d.key, d.tenant, d.metadata,
       d.payload, d.story, d.checksum, d.cause, d.deliveries
FROM holdfast_private.letters d WHERE d.namespace_id = $1::bigint::integer
ORDER BY d.subscription, d.event_id, d.id

-- name: transfer_read_schedules
SELECT s.name, s.id, s.generation, s.next_at, s.paused_at, s.created_at, s.policy, s.cap,
       s.grace_us, s.expression, s.zone, s.paused_by, s.paused_reason, s.type, s.key, s.tenant,
       s.metadata, s.payload
FROM holdfast_private.schedules s WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name

-- name: transfer_read_runs
SELECT s.name, r.planned_at, r.kind, r.until_at, r.fired_at, r.position, r.node
FROM holdfast_private.schedules s JOIN holdfast_private.schedule_runs r ON r.schedule_id = s.id
WHERE s.namespace_id = $1::bigint::integer ORDER BY s.name, r.planned_at

-- name: transfer_read_delayed
SELECT d.due_at, d.id, d.type, d.hash, d.emitted_at, d.producer, d.key, d.tenant, d.metadata,
       d.payload, d.checksum
FROM holdfast_private.delayed d WHERE d.namespace_id = $1::bigint::integer
ORDER BY d.due_at, d.number

-- The last column: whether an index on types is wanted, be it complete or not.
-- name: transfer_read_namespace
SELECT holdfast.head(n.id), n.created_at, n.metadata, n.retention_ms, n.retention_bytes,
       n.lagging_drop, n.type_index IN (TYPE_INDEX_BUILDING, TYPE_INDEX_ON)
FROM holdfast_private.namespaces n WHERE n.id = $1::bigint::integer

-- ---- Steps: $1 is the namespace's name, $2 the mark ---------------------------------------------

-- name: transfer_check
SELECT status, message FROM holdfast_private.copy_check($1, $2, $3::text::boolean)

-- name: transfer_begin
SELECT status, message, resumed, copied_to
FROM holdfast_private.copy_begin($1, $2, $4, $3::text::boolean)

-- name: transfer_clear
SELECT status, message, more FROM holdfast_private.copy_clear($1, $2, $3, $4)

-- name: transfer_end
SELECT status, message FROM holdfast_private.copy_end($1, $2)

-- ---- Writing: an array for each column from $3 on -----------------------------------------------
--
-- copy_answer says what became of them.

-- $17: the times inside the ids. $18: the floor.
-- name: transfer_write_events
SELECT status, message
FROM holdfast_private.copy_events($1, $2, $18, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                                  $15, $16, $17)

-- name: transfer_write_keys
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.keys (namespace_id, digest, version, key)
    SELECT t.id, sha256(convert_to(r.key, 'UTF8')), r.version, r.key
    FROM target t, unnest($3::text[], $4::bigint[]) r (key, version) WHERE t.id IS NOT NULL
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the keys') a

-- name: transfer_write_uniques
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.uniques (namespace_id, key, id, position, until, sweep_at)
    SELECT t.id, r.*
    FROM target t, unnest($3::text[], $4::uuid[], $5::bigint[], $6::timestamptz[],
                          $7::timestamptz[]) r
    WHERE t.id IS NOT NULL
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the unique keys') a

-- name: transfer_write_subscriptions
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.subscriptions (namespace_id, name, patterns, options, mode,
                                                partitions, wanted, generation, start, paused_at,
                                                paused_by, paused_reason, breaker, created_at,
                                                dropped_through, dropped)
    SELECT t.id, r.*
    FROM target t,
         unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::bigint[], $10::bigint[], $11::timestamptz[], $12::text[], $13::text[],
                $14::text[], $15::timestamptz[], $16::bigint[], $17::bigint[]) r
    WHERE t.id IS NOT NULL
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the subscriptions') a

-- How fast it moves is known when it has been here for a while: the row before says when, and
-- nothing else.
-- name: transfer_write_partitions
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
rows AS MATERIALIZED (
    SELECT s.id AS subscription_id, r.*
    FROM target t, unnest($3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::uuid[],
                          $8::bigint[], $9::bigint[], $10::bigint[], $11::timestamptz[])
                   r (subscription, partition, checkpoint, checkpoint_at, last_event_id,
                      epoch, turn, doubt_through, claimed_at)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id),
put AS (
    INSERT INTO holdfast_private.partitions (subscription_id, partition, epoch, doubt_through)
    SELECT r.subscription_id, r.partition, r.epoch, r.doubt_through FROM rows r
    RETURNING 1),
journal AS MATERIALIZED (
    SELECT holdfast_private.journal_add(r.subscription_id, r.partition::integer, r.checkpoint,
                                        r.checkpoint_at, r.last_event_id, r.turn <> 0, p_stored =>
                                        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         holdfast.span_of(clock_timestamp()), NULL,
                                         NULL, NULL)::holdfast_private.checkpoints_0,
                                        p_claimed_at => r.claimed_at)
    FROM rows r)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, least((SELECT count(*) FROM put),
                                             (SELECT count(*) FROM journal)),
                                 cardinality($3), 'the checkpoints') a

-- name: transfer_write_retries
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.retries (subscription_id, position, kind, partition, lane,
                                          attempts, uncounted, next_attempt_at, last_retry_at,
                                          story, cause, unit_first, unit_events, deliveries)
    SELECT s.id, r.position, r.kind, r.partition, r.lane, r.attempts, r.uncounted,
           r.next_attempt_at, r.last_retry_at, r.story, r.cause, r.unit_first, r.unit_events,
           r.deliveries
    FROM target t, unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                          $8::bigint[], $9::bigint[], $10::timestamptz[], $11::timestamptz[],
                          $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[])
                   r (subscription, position, kind, partition, lane, attempts, uncounted,
                      next_attempt_at, last_retry_at, story, cause, unit_first, unit_events,
                      deliveries)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the waiting deliveries') a

-- name: transfer_write_copies
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.copies (subscription_id, position, id, type, hash, emitted_at,
                                         entered_at, key_version, schedule_id, producer, key,
                                         tenant, metadata, payload, checksum)
    SELECT s.id, r.position, r.id, r.type, r.hash, r.emitted_at, r.entered_at, r.key_version,
           r.schedule_id, r.producer, r.key, r.tenant, r.metadata, r.payload, r.checksum
    FROM target t, unnest($3::text[], $4::bigint[], $5::uuid[], $6::text[], $7::bigint[],
                          $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::text[],
                          $12::text[], $13::text[], $14::text[], $15::json[], $16::json[],
                          $17::bigint[])
                   r (subscription, position, id, type, hash, emitted_at, entered_at, key_version,
                      schedule_id, producer, key, tenant, metadata, payload, checksum)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the copies of events') a

-- name: transfer_write_settled
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.settled (subscription_id, partition, position)
    SELECT s.id, r.partition, r.position
    FROM target t,
         unnest($3::text[], $4::bigint[], $5::bigint[]) r (subscription, partition, position)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'what is settled') a

-- name: transfer_write_outcomes
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.outcomes (subscription_id, position, settled_at, attempts,
                                           deliveries, cause, story)
    SELECT s.id, r.position, r.settled_at, r.attempts, r.deliveries, r.cause, r.story
    FROM target t, unnest($3::text[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
                          $8::text[], $9::text[]) WITH ORDINALITY
                   r (subscription, position, settled_at, attempts, deliveries, cause, story, i)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id ORDER BY r.i
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the outcomes') a

-- name: transfer_write_cancels
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.cancels (subscription_id, position, hash, requested_at,
                                          cancelled_at, cancelled_by, reason)
    SELECT s.id, r.position, r.hash, r.requested_at, r.cancelled_at, r.cancelled_by, r.reason
    FROM target t, unnest($3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                          $7::timestamptz[], $8::text[], $9::text[])
                   r (subscription, position, hash, requested_at, cancelled_at, cancelled_by,
                      reason)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the cancelled events') a

-- It has no holder, and its time was over long ago. One that was under suspicion is handed out
-- carefully. How often its events were handed out is not copied.
-- name: transfer_write_leases
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.leases (token, subscription_id, expires_at, lease_ms, bound, kept,
                                         piece, careful, has_retries, count, positions, handed)
    SELECT r.token, s.id, to_timestamp(0), r.lease_ms, false, false, r.piece, r.piece > 0,
           r.has_retries <> 0, r.count, r.positions::int8multirange,
           ARRAY[ROW(NULL, r.positions::int8multirange)::holdfast_private.handed]
    FROM target t, unnest($3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[],
                          $8::bigint[], $9::text[])
                   r (subscription, token, piece, has_retries, lease_ms, count, positions)
    JOIN holdfast_private.subscriptions s ON s.name = r.subscription
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the leases') a

-- Before the dead letters come, so that one that cannot keep its id takes no other's.
-- name: transfer_write_numbers
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS MATERIALIZED (
    SELECT holdfast_private.copy_numbers(r.highest) FROM target t, unnest($3::bigint[]) r (highest)
    WHERE t.id IS NOT NULL)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the numbers') a

-- The id stays if no other dead letter of the database has it.
-- name: transfer_write_dead_letters
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
rows AS MATERIALIZED (
    SELECT t.id AS namespace_id, r.*,
           EXISTS (SELECT FROM holdfast_private.letters d WHERE d.id = r.id) AS taken
    FROM target t, unnest($3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::timestamptz[],
                          $8::timestamptz[], $9::bigint[], $10::text[], $11::text[], $12::text[],
                          $13::text[], $14::text[], $15::bigint[], $16::timestamptz[],
                          $17::timestamptz[], $18::bigint[], $19::text[], $20::text[], $21::text[],
                          $22::text[], $23::json[], $24::json[], $25::text[],
                          $26::bigint[], $27::text[], $28::bigint[])
                   r (subscription, event_id, id, position, failed_at, resolved_at, attempts,
                      reason, type, error, resolved_by, resolved_note, hash, emitted_at, entered_at,
                      key_version, schedule_id, producer, key, tenant, metadata, payload, story,
                      checksum, cause, deliveries)
    WHERE t.id IS NOT NULL),
put AS (
    INSERT INTO holdfast_private.letters (id, namespace_id, subscription, event_id, position,
                                          failed_at, resolved_at, attempts, reason, type, error,
                                          resolved_by, resolved_note, hash, emitted_at, entered_at,
                                          key_version, schedule_id, producer, key, tenant, metadata,
                                          payload, story, checksum, cause, deliveries)
    OVERRIDING SYSTEM VALUE
    SELECT CASE WHEN r.taken THEN nextval(pg_get_serial_sequence('holdfast_private.letters', 'id'))
                ELSE r.id END,
           r.namespace_id, r.subscription, r.event_id, r.position, r.failed_at, r.resolved_at,
           r.attempts, r.reason, r.type, r.error, r.resolved_by, r.resolved_note, r.hash,
           r.emitted_at, r.entered_at, r.key_version, r.schedule_id, r.producer, r.key, r.tenant,
           r.metadata, r.payload, r.story, r.checksum, r.cause, r.deliveries
    FROM rows r
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the dead letters') a

-- name: transfer_write_schedules
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.schedules (namespace_id, name, id, generation, next_at, paused_at,
                                            created_at, policy, cap, grace_us, expression, zone,
                                            paused_by, paused_reason, type, key, tenant, metadata,
                                            payload)
    SELECT t.id, r.*
    FROM target t,
         unnest($3::text[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::timestamptz[],
                $8::timestamptz[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[],
                $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[],
                $19::json[], $20::json[]) r
    WHERE t.id IS NOT NULL
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the schedules') a

-- name: transfer_write_runs
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.schedule_runs (schedule_id, planned_at, kind, until_at, fired_at,
                                                position, node)
    SELECT s.id, r.planned_at, r.kind, r.until_at, r.fired_at, r.position, r.node
    FROM target t, unnest($3::text[], $4::timestamptz[], $5::bigint[], $6::timestamptz[],
                          $7::timestamptz[], $8::bigint[], $9::text[])
                   r (schedule, planned_at, kind, until_at, fired_at, position, node)
    JOIN holdfast_private.schedules s ON s.name = r.schedule
    WHERE s.namespace_id = t.id
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the runs of schedules') a

-- Those of one time keep their order.
-- name: transfer_write_delayed
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    INSERT INTO holdfast_private.delayed (namespace_id, due_at, id, type, hash, emitted_at,
                                          producer, key, tenant, metadata, payload, checksum)
    SELECT t.id, r.due_at, r.id, r.type, r.hash, r.emitted_at, r.producer, r.key, r.tenant,
           r.metadata, r.payload, r.checksum
    FROM target t,
         unnest($3::timestamptz[], $4::uuid[], $5::text[], $6::bigint[], $7::timestamptz[],
                $8::text[], $9::text[], $10::text[], $11::json[], $12::json[], $13::bigint[])
                   WITH ORDINALITY r (due_at, id, type, hash, emitted_at, producer, key, tenant,
                                      metadata, payload, checksum, i)
    WHERE t.id IS NOT NULL
    ORDER BY r.i
    RETURNING 1)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the delayed events') a

-- All events are there: nothing comes below the first of them any more. An index on types is built
-- after the copy, or dropped if the target had one.
-- name: transfer_write_namespace
WITH target AS MATERIALIZED (SELECT holdfast_private.copy_target($1, $2) AS id),
put AS (
    UPDATE holdfast_private.namespaces n
    SET created_at = r.created_at, metadata = r.metadata, retention_ms = r.retention_ms,
        retention_bytes = r.retention_bytes, lagging_drop = r.lagging_drop <> 0,
        gapless_after = r.head,
        type_index = CASE WHEN r.type_index <> 0 THEN TYPE_INDEX_BUILDING
                          WHEN n.type_index = TYPE_INDEX_OFF THEN TYPE_INDEX_OFF
                          ELSE TYPE_INDEX_DROPPING END,
        retained_through = coalesce((SELECT e.position FROM holdfast_private.events e
                                     WHERE e.namespace_id = n.id
                                     ORDER BY e.position LIMIT 1) - 1, r.head)
    FROM target t, unnest($3::bigint[], $4::timestamptz[], $5::json[], $6::bigint[], $7::bigint[],
                          $8::bigint[], $9::bigint[])
                   r (head, created_at, metadata, retention_ms, retention_bytes, lagging_drop,
                      type_index)
    WHERE n.id = t.id
    RETURNING holdfast_private.copy_head(n.id, r.head)),
counted AS (
    INSERT INTO holdfast_private.dead_kinds (namespace_id, kind_hash, letters)
    SELECT t.id, l.kind_hash, count(*)
    FROM target t JOIN holdfast_private.letters l ON l.namespace_id = t.id
    WHERE l.resolved_at IS NULL GROUP BY t.id, l.kind_hash)
SELECT a.status, a.message
FROM target t CROSS JOIN LATERAL
    holdfast_private.copy_answer(t.id, (SELECT count(*) FROM put), cardinality($3),
                                 'the namespace') a
