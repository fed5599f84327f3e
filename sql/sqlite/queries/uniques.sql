-- Statements of unique keys (tables/0012_uniques.sql).
--
-- Queries marked `hot` run for every event or batch; a test asserts their plans.

-- hot
-- name: unique_get
SELECT id, position, until FROM holdfast_uniques WHERE namespace_id = ?1 AND key = ?2;

-- hot
-- name: unique_put
INSERT INTO holdfast_uniques (namespace_id, key, id, position, until, sweep_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (namespace_id, key) DO UPDATE
    SET id = excluded.id, position = excluded.position, until = excluded.until,
        sweep_at = excluded.sweep_at;

-- hot
-- name: delayed_exists
SELECT number FROM holdfast_delayed WHERE namespace_id = ?1 AND id = ?2;

-- Of ?3 rows whose time to be looked at has come at ?2: those whose event waits are looked at again
-- when it is due, the others go.
-- hot
-- name: unique_postpone
UPDATE holdfast_uniques
    SET sweep_at = max(?2 + 60000000,
                       (SELECT d.due_at FROM holdfast_delayed d
                        WHERE d.namespace_id = ?1 AND d.id = holdfast_uniques.id))
    WHERE namespace_id = ?1
        AND key IN (SELECT u.key FROM holdfast_uniques u
                    WHERE u.namespace_id = ?1 AND u.sweep_at <= ?2 ORDER BY u.sweep_at LIMIT ?3)
        AND EXISTS (SELECT 1 FROM holdfast_delayed d
                    WHERE d.namespace_id = ?1 AND d.id = holdfast_uniques.id);

-- hot
-- name: unique_sweep
DELETE FROM holdfast_uniques
    WHERE namespace_id = ?1
        AND key IN (SELECT u.key FROM holdfast_uniques u
                    WHERE u.namespace_id = ?1 AND u.sweep_at <= ?2 ORDER BY u.sweep_at LIMIT ?3)
        AND NOT EXISTS (SELECT 1 FROM holdfast_delayed d
                        WHERE d.namespace_id = ?1 AND d.id = holdfast_uniques.id);

-- name: remove_uniques
DELETE FROM holdfast_uniques
    WHERE namespace_id = ?1
      AND key IN (SELECT key FROM holdfast_uniques WHERE namespace_id = ?1 LIMIT ?2);
