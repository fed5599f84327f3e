-- How long events stay (milliseconds; 0: for ever) and how large the log may become (bytes; 0: no
-- limit); lagging_drop 1: also events go that a subscription has not finished. retained_at: when a
-- process last took the turn to look. log_bytes: of the events that are in the log up to position
-- log_bytes_through; a process that needs the size of the log adds what came since.
ALTER TABLE holdfast_namespaces ADD COLUMN retention_ms INTEGER NOT NULL DEFAULT 15897600000;
ALTER TABLE holdfast_namespaces ADD COLUMN retention_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_namespaces ADD COLUMN lagging_drop INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_namespaces ADD COLUMN retained_at INTEGER;
ALTER TABLE holdfast_namespaces ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_namespaces ADD COLUMN log_bytes_through INTEGER NOT NULL DEFAULT 0;
-- Up to where, and how many positions, retention has taken what the subscription had not finished.
ALTER TABLE holdfast_subscriptions ADD COLUMN dropped_through INTEGER;
ALTER TABLE holdfast_subscriptions ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
