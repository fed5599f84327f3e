-- Unique keys of events: the first event with the key, and until when no other is stored. position
-- is NULL if the event was for later: then it is in holdfast_delayed, or in the log, or cancelled.
-- sweep_at: when to look whether the row may go: not before `until`, and not while the event waits.
CREATE TABLE holdfast_uniques (
    namespace_id INTEGER NOT NULL,
    key          TEXT NOT NULL,
    id           BLOB NOT NULL,
    position     INTEGER,
    until        INTEGER NOT NULL,
    sweep_at     INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_uniques_sweep ON holdfast_uniques (namespace_id, sweep_at);
