-- Statements of events that wait for their time (tables/0006_timers.sql).

-- name: later_list
SELECT id, due_at, number, emitted_at, type, NULL, length(CAST(payload AS BLOB)), key, tenant,
       metadata, producer
    FROM holdfast_delayed
    WHERE namespace_id = ?1 AND (due_at, number) > (?2, ?3) AND due_at < ?4
        AND (?5 IS NULL OR key = ?5)
    ORDER BY due_at, number;

-- name: later_get
SELECT id, due_at, number, emitted_at, type, payload, length(CAST(payload AS BLOB)), key, tenant,
       metadata, producer
    FROM holdfast_delayed WHERE namespace_id = ?1 AND id = ?2;

-- name: later_cancel
DELETE FROM holdfast_delayed WHERE namespace_id = ?1 AND id = ?2;

-- name: later_move
UPDATE holdfast_delayed SET due_at = ?3 WHERE namespace_id = ?1 AND id = ?2;

-- name: timers_count
SELECT (SELECT count(*) FROM holdfast_delayed WHERE namespace_id = ?1),
       (SELECT count(*) FROM holdfast_delayed WHERE namespace_id = ?1 AND due_at <= ?2),
       (SELECT min(due_at) FROM holdfast_delayed WHERE namespace_id = ?1),
       (SELECT count(*) FROM holdfast_schedules
            WHERE namespace_id = ?1 AND next_at <= ?2 AND paused_at IS NULL
                AND next_at IS NOT NULL),
       (SELECT min(next_at) FROM holdfast_schedules
            WHERE namespace_id = ?1 AND paused_at IS NULL AND next_at IS NOT NULL);
