-- How fast a partition's checkpoint (shared: the cursor) moves, without a row per event. span: the half
-- minute in which it was last stored, counted from 1970 on; 0: long ago. span_from: where it was when that
-- began; span_before: when the one before began. NULL: not known, as of those that exist already.
ALTER TABLE holdfast_partitions ADD COLUMN span INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_partitions ADD COLUMN span_from INTEGER;
ALTER TABLE holdfast_partitions ADD COLUMN span_before INTEGER;
UPDATE holdfast_partitions SET span = strftime('%s') / 30;
