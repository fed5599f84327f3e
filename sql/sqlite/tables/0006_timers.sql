-- Schedules, the ledger of their firings, and events that enter the log when they are due.

-- next_at: the planned time that it waits for; NULL: it never fires again. Firing is
-- conditional on it, so it is what makes a planned time fire once.
CREATE TABLE holdfast_schedules (
    id            BLOB PRIMARY KEY,
    namespace_id  INTEGER NOT NULL,
    name          TEXT NOT NULL,
    generation    INTEGER NOT NULL DEFAULT 1,  -- rises with every change of definition or pause
    next_at       INTEGER,
    paused_at     INTEGER,
    created_at    INTEGER NOT NULL,
    policy        INTEGER NOT NULL,            -- of missed times: 1 skip, 2 once, 3 all
    cap           INTEGER NOT NULL,
    grace_us      INTEGER NOT NULL,
    expression    TEXT NOT NULL,
    zone          TEXT NOT NULL,
    paused_by     TEXT,
    paused_reason TEXT,
    type          TEXT NOT NULL,
    key           TEXT,
    tenant        TEXT,
    metadata      TEXT,
    payload       TEXT NOT NULL,
    UNIQUE (namespace_id, name)
) STRICT;
CREATE INDEX holdfast_schedules_due ON holdfast_schedules (namespace_id, next_at, id)
    WHERE paused_at IS NULL AND next_at IS NOT NULL;

-- The ledger. kind: 1 fired, 2 fired by hand, 3 left out, from planned_at to until_at.
CREATE TABLE holdfast_schedule_runs (
    schedule_id BLOB NOT NULL,
    planned_at  INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    until_at    INTEGER,
    fired_at    INTEGER NOT NULL,
    position    INTEGER,
    node        TEXT,
    PRIMARY KEY (schedule_id, planned_at)
) STRICT, WITHOUT ROWID;

-- Events for later. number: the order of arrival, for those that are due at the same time.
-- checksum: as in the log, with 0 for the position and the time of entering it.
CREATE TABLE holdfast_delayed (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    id           BLOB NOT NULL,
    type         TEXT NOT NULL,
    hash         INTEGER NOT NULL,
    checksum     INTEGER NOT NULL,
    emitted_at   INTEGER NOT NULL,
    producer     TEXT,
    key          TEXT,
    tenant       TEXT,
    metadata     TEXT,
    payload      TEXT NOT NULL,
    UNIQUE (namespace_id, id)
) STRICT;
CREATE INDEX holdfast_delayed_due ON holdfast_delayed (namespace_id, due_at, number);
