-- older programs: work
-- older schema: works
--
-- The rows are there to make the step take a moment, so that a test can kill it midway.
CREATE TABLE holdfast_next (
    next_id INTEGER PRIMARY KEY,
    note    TEXT NOT NULL
) STRICT;
CREATE INDEX holdfast_next_note ON holdfast_next (note);
ALTER TABLE holdfast_subscriptions ADD COLUMN next_note TEXT;
INSERT INTO holdfast_next (note)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
    SELECT i FROM n;
DELETE FROM holdfast_next;
