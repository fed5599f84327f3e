-- Statements of schedules, their ledger, and delayed events.
--
-- Queries marked `hot` run for every event or batch; a test asserts their plans.

-- Schedules.

-- name: schedule_get
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason
    FROM holdfast_schedules WHERE namespace_id = ?1 AND name = ?2;

-- name: schedule_list
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason
    FROM holdfast_schedules WHERE namespace_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3;

-- hot
-- name: schedules_due
SELECT id, name, generation, next_at, created_at, policy, cap, grace_us, expression, zone, type,
       payload, key, tenant, metadata, paused_at, paused_by, paused_reason
    FROM holdfast_schedules
    WHERE namespace_id = ?1 AND next_at <= ?2 AND paused_at IS NULL AND next_at IS NOT NULL
        AND (next_at, id) > (?4, ?5)
    ORDER BY next_at, id LIMIT ?3;

-- name: schedule_create
INSERT INTO holdfast_schedules (namespace_id, name, expression, zone, type, payload, key, tenant,
                                metadata, policy, cap, grace_us, next_at, id, created_at,
                                paused_at, paused_by, paused_reason)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18);

-- name: schedule_change
UPDATE holdfast_schedules
    SET expression = ?3, zone = ?4, type = ?5, payload = ?6, key = ?7, tenant = ?8, metadata = ?9,
        policy = ?10, cap = ?11, grace_us = ?12, next_at = ?13, generation = generation + 1
    WHERE namespace_id = ?1 AND name = ?2;

-- name: schedule_pause
UPDATE holdfast_schedules
    SET paused_at = ?3, paused_by = ?4, paused_reason = ?5, generation = generation + 1
    WHERE namespace_id = ?1 AND name = ?2 AND paused_at IS NULL;

-- name: schedule_resume
UPDATE holdfast_schedules
    SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, next_at = ?3,
        generation = generation + 1
    WHERE namespace_id = ?1 AND name = ?2 AND paused_at IS NOT NULL;

-- name: schedule_delete
DELETE FROM holdfast_schedules WHERE namespace_id = ?1 AND name = ?2 RETURNING id;

-- name: schedule_advance
UPDATE holdfast_schedules SET next_at = ?5
    WHERE id = ?1 AND namespace_id = ?2 AND generation = ?3 AND next_at = ?4 AND paused_at IS NULL;

-- name: schedule_exists
SELECT 1 FROM holdfast_schedules WHERE id = ?1 AND namespace_id = ?2;

-- The ledger of a namespace that is removed goes before its schedules. ?2: how many rows at most.
-- name: remove_runs
DELETE FROM holdfast_schedule_runs
    WHERE (schedule_id, planned_at) IN (
        SELECT r.schedule_id, r.planned_at
        FROM holdfast_schedules s JOIN holdfast_schedule_runs r ON r.schedule_id = s.id
        WHERE s.namespace_id = ?1 LIMIT ?2);

-- name: remove_schedules
DELETE FROM holdfast_schedules
    WHERE id IN (SELECT id FROM holdfast_schedules WHERE namespace_id = ?1 LIMIT ?2);

-- name: remove_delayed
DELETE FROM holdfast_delayed
    WHERE number IN (SELECT number FROM holdfast_delayed WHERE namespace_id = ?1 LIMIT ?2);

-- The ledger.

-- name: run_put
INSERT INTO holdfast_schedule_runs (schedule_id, planned_at, kind, until_at, fired_at, position,
                                    node)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (schedule_id, planned_at) DO NOTHING;

-- name: runs_prune
DELETE FROM holdfast_schedule_runs
    WHERE schedule_id = ?1 AND planned_at <= (
        SELECT planned_at FROM holdfast_schedule_runs WHERE schedule_id = ?1
            ORDER BY planned_at DESC LIMIT 1 OFFSET ?2);

-- name: runs_drop
DELETE FROM holdfast_schedule_runs WHERE schedule_id = ?1;

-- name: runs_list
SELECT kind, planned_at, until_at, fired_at, position, node FROM holdfast_schedule_runs
    WHERE schedule_id = ?1 AND planned_at < ?2 ORDER BY planned_at DESC LIMIT ?3;

-- Delayed events.

-- name: delayed_put
INSERT INTO holdfast_delayed (namespace_id, id, due_at, type, payload, key, tenant, metadata,
                              producer, hash, emitted_at, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (namespace_id, id) DO NOTHING;

-- hot
-- name: delayed_first
SELECT number, due_at, id, type, payload, key, tenant, metadata, producer, hash, emitted_at,
    checksum
    FROM holdfast_delayed WHERE namespace_id = ?1 ORDER BY due_at, number LIMIT 1;

-- hot
-- name: delayed_delete
DELETE FROM holdfast_delayed WHERE number = ?1;

-- hot
-- name: timers_next
SELECT min((SELECT ifnull(min(next_at), 9223372036854775807) FROM holdfast_schedules
                WHERE namespace_id = ?1 AND paused_at IS NULL AND next_at IS NOT NULL),
           (SELECT ifnull(min(due_at), 9223372036854775807) FROM holdfast_delayed
                WHERE namespace_id = ?1));
