-- When a lease was claimed, and when a shared subscription last handed something out: what people
-- ask first when nothing moves. NULL: not known, or never.
ALTER TABLE holdfast_leases ADD COLUMN claimed_at INTEGER;
ALTER TABLE holdfast_partitions ADD COLUMN claimed_at INTEGER;
