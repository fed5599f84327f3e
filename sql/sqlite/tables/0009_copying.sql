-- Copying a bus into this file. copying: the namespace is the target of a copy that is not
-- complete: the identity of the database that it comes from and the run that is at it; no other
-- process may use it. copied_to: the events of the source up to this position are all there.
ALTER TABLE holdfast_namespaces ADD COLUMN copying TEXT;
ALTER TABLE holdfast_namespaces ADD COLUMN copied_to INTEGER NOT NULL DEFAULT 0;
-- Positions above it have no gaps; those below came by a copy, maybe of a log that had some.
ALTER TABLE holdfast_namespaces ADD COLUMN gapless_after INTEGER NOT NULL DEFAULT 0;
-- Who this database is.
INSERT INTO holdfast_meta (name, value) VALUES ('identity', lower(hex(randomblob(16))));
