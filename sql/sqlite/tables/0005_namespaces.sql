-- Since when a namespace is being removed, which takes several transactions. NULL: it is not. The
-- number of one that is gone is never given again: holdfast_meta keeps the highest as
-- last_namespace.
ALTER TABLE holdfast_namespaces ADD COLUMN removing_at INTEGER;
