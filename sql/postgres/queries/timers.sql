-- Statements of schedules, their ledger, and delayed events (functions/timers/timers.sql).

-- name: change_schedule_put
SELECT status, message, created
    FROM holdfast.change_schedule_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                                      $14, $15, $16, $17, $18, $19);

-- name: change_schedule_remove
SELECT status, message FROM holdfast.change_schedule_remove($1, $2);

-- name: change_schedule_pause
SELECT status, message FROM holdfast.change_schedule_pause($1, $2, $3, $4, $5, $6, $7);

-- name: change_fire
SELECT status, message, ours, positions, duplicates
    FROM holdfast.change_fire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                              $17, $18, $19, $20, $21, $22, $23);

-- name: change_delay
SELECT status, message, positions, duplicates, firsts, replaced
    FROM holdfast.change_delay($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: change_release
SELECT status, message, count, next_at FROM holdfast.change_release($1, $2, $3, $4);

-- name: schedule_get
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason,
       job IS NOT NULL
    FROM holdfast.read_schedules()
    WHERE namespace_id = $1 AND name = $2
        AND holdfast.may_see($1, 'schedules', 'publisher', 'owner');

-- Pages: at most so many rows and about so many bytes, but one; the last column is how many bytes
-- there are up to the row. The length of a value that is stored elsewhere or compressed is known
-- without fetching it, so what is behind the cut costs little.

-- Those behind the name $2: at most $3, about $4 bytes.
-- name: schedule_list
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason,
       job IS NOT NULL, upto
    FROM (SELECT *, sum(bytes) OVER (ORDER BY name) AS upto
          FROM (SELECT *, 1024 + octet_length(payload::text)
                          + coalesce(octet_length(metadata::text), 0)
                          + coalesce(octet_length(paused_reason), 0) AS bytes
                FROM holdfast.read_schedules()
                WHERE namespace_id = $1 AND name > $2
                    AND holdfast.may_see($1, 'schedules', 'publisher', 'owner')
                ORDER BY name LIMIT $3) s) s
    WHERE upto - bytes < $4
    ORDER BY name;

-- Those that are due at $2, behind the one with the time $3 (NULL: from the first) and the id $4:
-- at most $5, about $6 bytes.
-- name: schedules_due
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason,
       job IS NOT NULL, upto
    FROM (SELECT *, sum(bytes) OVER (ORDER BY next_at, id) AS upto
          FROM (SELECT *, 1024 + octet_length(payload::text)
                          + coalesce(octet_length(metadata::text), 0) AS bytes
                FROM holdfast.read_schedules()
                WHERE namespace_id = $1 AND next_at <= $2 AND paused_at IS NULL
                    AND next_at IS NOT NULL
                    AND (next_at, id) > (coalesce($3, '-infinity'::timestamptz), $4)
                ORDER BY next_at, id LIMIT $5) s) s
    WHERE upto - bytes < $6
    ORDER BY next_at, id;

-- name: runs_list
SELECT kind, planned_at, until_at, fired_at, position, node FROM holdfast.read_schedule_runs()
    WHERE schedule_id = $1 AND planned_at < coalesce($2, 'infinity')
    ORDER BY planned_at DESC LIMIT $3;

-- name: timers_next
SELECT holdfast.timers_next($1);
