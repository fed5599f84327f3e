-- The only partitions that a member wants, as "3,5-7"; NULL: whatever is its share.
ALTER TABLE holdfast_members ADD COLUMN assigned TEXT;
