-- Statements of retention. ?1 is the number of the namespace, or of a subscription.

-- name: retention_settings
SELECT retention_ms, retention_bytes, lagging_drop, log_bytes, log_bytes_through
    FROM holdfast_namespaces WHERE id = ?1 AND removing_at IS NULL;

-- It is our turn if no process has looked since ?3. A time after ?2 is of a clock that was set
-- back.
-- name: retention_take
UPDATE holdfast_namespaces SET retained_at = ?2
    WHERE id = ?1 AND removing_at IS NULL
      AND (retained_at IS NULL OR retained_at <= ?3 OR retained_at > ?2);

-- A position per subscription that it needs nothing at or below of: everything there is settled, or
-- kept as a copy. Of those that need something at or below ?2 the one that needs most. With ?3 one
-- that has been dropped up to a position needs nothing below it.
-- name: retention_lagging
SELECT id, name, floor FROM (
    SELECT s.id, s.name, s.dropped_through,
           min(ifnull((SELECT min(p.checkpoint) FROM holdfast_partitions p
                       WHERE p.subscription_id = s.id), 0),
               ifnull((SELECT r.position - 1 FROM holdfast_retries r
                       WHERE r.subscription_id = s.id
                         AND NOT EXISTS (SELECT 1 FROM holdfast_copies c
                                         WHERE c.subscription_id = s.id AND c.position = r.position)
                       ORDER BY r.position LIMIT 1), 9223372036854775807),
               ifnull((SELECT min(l.first) - 1 FROM holdfast_leases l
                       WHERE l.subscription_id = s.id), 9223372036854775807)) AS floor
        FROM holdfast_subscriptions s WHERE s.namespace_id = ?1)
    WHERE floor < ?2 AND NOT (?3 AND ifnull(dropped_through, 0) >= ?2)
    ORDER BY floor LIMIT 1;

-- The log from its oldest event after position ?2, at most ?3; with ?4 also how large each is: what
-- was published, and about 100 bytes for the other columns and the index.
-- name: retention_walk
SELECT place - (?1 << 44), entered_at,
       CASE WHEN ?4 THEN 100 + length(CAST(payload AS BLOB)) + length(CAST(type AS BLOB))
            + ifnull(length(CAST(metadata AS BLOB)), 0) + ifnull(length(CAST(key AS BLOB)), 0)
            + ifnull(length(CAST(tenant AS BLOB)), 0) ELSE 0 END
    FROM holdfast_events
    WHERE place > (?1 << 44) + ?2 AND place <= (?1 << 44) + 17592186044415
    ORDER BY place LIMIT ?3;

-- name: retention_measured
UPDATE holdfast_namespaces SET log_bytes = log_bytes + ?2, log_bytes_through = ?3 WHERE id = ?1;

-- name: retention_delete
DELETE FROM holdfast_events WHERE place > ?1 << 44 AND place <= (?1 << 44) + ?2;

-- ?3 bytes of what was measured are gone, up to position ?2.
-- name: retention_forget
UPDATE holdfast_namespaces
    SET log_bytes = max(log_bytes - ?3, 0), log_bytes_through = max(log_bytes_through, ?2),
        retained_through = max(retained_through, ?2)
    WHERE id = ?1;

-- Moving a subscription past position ?2. What waits with a copy of its event stays.

-- name: drop_retries
DELETE FROM holdfast_retries
    WHERE subscription_id = ?1 AND position <= ?2
      AND NOT EXISTS (SELECT 1 FROM holdfast_copies c
                      WHERE c.subscription_id = ?1 AND c.position = holdfast_retries.position);

-- What was held behind one that is gone is the first of its lane now.
-- name: drop_promote
UPDATE holdfast_retries SET kind = RETRY_WAITING, next_attempt_at = ?2
    WHERE subscription_id = ?1 AND kind = RETRY_HELD
      AND NOT EXISTS (SELECT 1 FROM holdfast_retries b
                      WHERE b.subscription_id = ?1 AND b.partition = holdfast_retries.partition
                        AND b.lane = holdfast_retries.lane
                        AND b.position < holdfast_retries.position);

-- name: drop_settled
DELETE FROM holdfast_settled WHERE subscription_id = ?1 AND position <= ?2;

-- name: drop_partitions
UPDATE holdfast_partitions
    SET checkpoint_at = CASE WHEN checkpoint < ?2 THEN ?3 ELSE checkpoint_at END,
        span = CASE WHEN checkpoint < ?2 THEN ?4 ELSE span END,
        span_from = CASE WHEN checkpoint >= ?2 THEN span_from END,
        span_before = CASE WHEN checkpoint >= ?2 THEN span_before END,
        checkpoint = max(checkpoint, ?2), epoch = epoch + 1
    WHERE subscription_id = ?1;

-- name: drop_next_lease
SELECT token FROM holdfast_leases WHERE token > ?3 AND +subscription_id = ?1 AND first <= ?2
    ORDER BY token LIMIT 1;

-- name: copy_exists
SELECT 1 FROM holdfast_copies WHERE subscription_id = ?1 AND position = ?2;

-- name: drop_note
UPDATE holdfast_subscriptions
    SET dropped = dropped + ?2 - max(?3, ifnull(dropped_through, 0)), dropped_through = ?2,
        generation = generation + 1
    WHERE id = ?1;

-- Hands free pages back to the disk, in files that were made for that, few enough not to hold up
-- others.
-- name: vacuum_some
PRAGMA incremental_vacuum(500);
