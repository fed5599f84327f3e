-- Statements of the index on types.

-- name: types_state
SELECT type_index, types_through FROM holdfast_namespaces WHERE id = ?1;

-- hot
-- name: types_add
INSERT INTO holdfast_types (namespace_id, type, position) VALUES (?1, ?2, ?3);

-- Events after ?2, at most ?3 of them; those that were published meanwhile are there already.
-- name: types_build
INSERT OR IGNORE INTO holdfast_types (namespace_id, type, position)
    SELECT ?1, type, place - (?1 << 44) FROM holdfast_events
    WHERE place > (?1 << 44) + ?2 AND place <= (?1 << 44) + 17592186044415
    ORDER BY place LIMIT ?3;

-- Up to where types_build gets.
-- name: types_build_end
SELECT max(position), count(*) FROM (
    SELECT place - (?1 << 44) AS position FROM holdfast_events
    WHERE place > (?1 << 44) + ?2 AND place <= (?1 << 44) + 17592186044415
    ORDER BY place LIMIT ?3);

-- name: types_note
UPDATE holdfast_namespaces SET type_index = ?2, types_through = ?3 WHERE id = ?1;

-- name: types_remove
DELETE FROM holdfast_types
    WHERE namespace_id = ?1
      AND (type, position) IN (SELECT type, position FROM holdfast_types
                               WHERE namespace_id = ?1 LIMIT ?2);

-- The first type at or behind ?2.
-- hot
-- name: types_next
SELECT type FROM holdfast_types WHERE namespace_id = ?1 AND type >= ?2 ORDER BY type LIMIT 1;

-- hot
-- name: types_after
SELECT type FROM holdfast_types WHERE namespace_id = ?1 AND type > ?2 ORDER BY type LIMIT 1;

-- hot
-- name: types_positions
SELECT position FROM holdfast_types
    WHERE namespace_id = ?1 AND type = ?2 AND position > ?3 ORDER BY position LIMIT ?4;
