-- How fast a partition's checkpoint (shared: the cursor) moves: src/store/sqlite/write/span.h says
-- how. span_from and span_before are NULL where they are not known, as of those that exist already.
ALTER TABLE holdfast_partitions ADD COLUMN span INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_partitions ADD COLUMN span_from INTEGER;
ALTER TABLE holdfast_partitions ADD COLUMN span_before INTEGER;
UPDATE holdfast_partitions SET span = strftime('%s') / 30;
