-- The first schema. One append-only log, cursors, and rows only for exceptions.
--
-- The tables live in the application's own file, so every name begins with holdfast_, and
-- user_version and application_id are left alone. Times are microseconds since the epoch, ids and
-- tokens are 16-byte blobs, positions grow from 1 in each namespace.

CREATE TABLE holdfast_meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- head is the newest position that is not in the log any more: the newest ever given is the larger
-- of head and the last place in the log. So publishing does not touch this row (which would cost a
-- page per commit), and when retention has emptied a namespace positions do not begin again: the
-- trigger on holdfast_events sees to that.
CREATE TABLE holdfast_namespaces (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    head       INTEGER NOT NULL DEFAULT 0,
    metadata   TEXT,
    created_at INTEGER NOT NULL
) STRICT;

-- The log. `place` is namespace_id * 2^44 + position: one key that keeps every namespace's events
-- together and in order in a plain rowid table, without a second index. It leaves room for 524,287
-- namespaces of 17 million million events each. The columns that may be long come last, here and
-- below: SQLite reads a row from its front and walks through overflow pages to what lies behind.
-- checksum: of all other columns (src/store/checksum.h), here and wherever an event is kept.
CREATE TABLE holdfast_events (
    place       INTEGER PRIMARY KEY,
    id          BLOB NOT NULL,
    type        TEXT NOT NULL,
    hash        INTEGER NOT NULL,
    checksum    INTEGER NOT NULL,
    emitted_at  INTEGER NOT NULL,
    entered_at  INTEGER NOT NULL,
    key_version INTEGER,
    schedule_id TEXT,
    producer    TEXT,
    key         TEXT,
    tenant      TEXT,
    metadata    TEXT,
    payload     TEXT NOT NULL
) STRICT;

CREATE TRIGGER holdfast_events_forgotten AFTER DELETE ON holdfast_events BEGIN
    UPDATE holdfast_namespaces SET head = old.place & 17592186044415
        WHERE id = old.place >> 44 AND head < old.place & 17592186044415;
END;

-- Publishing an id again finds the first one. Ids are UUID v7 by default, so this index grows at
-- its end too. The namespace is part of it: the same id in two namespaces is two events.
CREATE UNIQUE INDEX holdfast_events_by_id ON holdfast_events (id, place >> 44);

-- Versions of keys, touched only by publishes that expect a version.
CREATE TABLE holdfast_keys (
    namespace_id INTEGER NOT NULL,
    key          TEXT NOT NULL,
    version      INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, key)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: the id of a removed subscription is never given again, so what still holds it (a
-- running process, a lease) can do no harm.
CREATE TABLE holdfast_subscriptions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id  INTEGER NOT NULL,
    name          TEXT NOT NULL,
    patterns      TEXT NOT NULL,               -- JSON array
    options       TEXT NOT NULL,               -- JSON object, the bus's business
    mode          INTEGER NOT NULL,            -- 1 ordered, 2 shared
    partitions    INTEGER NOT NULL,
    generation    INTEGER NOT NULL DEFAULT 1,  -- rises with every change of this row
    start         INTEGER NOT NULL,            -- it began, or was last sought, after this position
    paused_at     INTEGER,
    paused_by     TEXT,
    paused_reason TEXT,
    breaker       TEXT,
    created_at    INTEGER NOT NULL,
    UNIQUE (namespace_id, name)
) STRICT;

-- Progress and ownership. An ordered subscription has a row per partition. A shared one has a
-- single row without an owner, and its checkpoint is the cursor: handed out up to here. (The cursor
-- moves with every claim, so it lives in this small row and not beside patterns and options.)
-- `turn` is 1 if its last claim handed out a retry of kind 5: then it is the others' turn.
CREATE TABLE holdfast_partitions (
    subscription_id INTEGER NOT NULL,
    partition       INTEGER NOT NULL,
    checkpoint      INTEGER NOT NULL,
    checkpoint_at   INTEGER,
    last_event_id   BLOB,
    epoch           INTEGER NOT NULL DEFAULT 0,
    owner           BLOB,                      -- token of the owning process, NULL: none
    turn            INTEGER NOT NULL DEFAULT 0,
    owner_name      TEXT,
    PRIMARY KEY (subscription_id, partition)
) STRICT, WITHOUT ROWID;

-- Leases of shared subscriptions, and what is left of those that ended without an answer or were
-- given back: then no process has the token, and `piece` says how the next claims get the rest.
-- positions is the sorted list of what is left, as varint deltas.
CREATE TABLE holdfast_leases (
    token           BLOB PRIMARY KEY,
    subscription_id INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    lease_ms        INTEGER NOT NULL,          -- as requested: how long the owner may be silent
    owner           BLOB,                      -- process that claimed it; NULL: it does not matter
    bound           INTEGER NOT NULL,          -- 1: it ends when the owner dies
    kept            INTEGER NOT NULL,          -- 1: it does not expire while the owner is alive
    piece           INTEGER,                   -- NULL: held; 0: free for any claim; n: suspect,
                                               -- handed out n at a time and apart from all others
    has_retries     INTEGER NOT NULL,          -- some of them have rows in holdfast_retries
    count           INTEGER NOT NULL,
    first           INTEGER NOT NULL,          -- lowest position left
    owner_name      TEXT,                      -- node that claimed it
    positions       BLOB NOT NULL
) STRICT, WITHOUT ROWID;
-- Whatever is over is found by walking through the few owners: dead ones, frozen ones, and by time.
CREATE INDEX holdfast_leases_by_owner
    ON holdfast_leases (subscription_id, owner, kept, expires_at);

-- Deliveries that wait. kind: 1 waiting for next_attempt_at, 2 held behind its lane, 3 blocked with
-- its lane until an operator decides, 4 leased (shared: handed out again), 5 waiting as 1 does, but
-- its last attempt was lost with its lease, so it is handed out alone (shared). The partition is
-- stored, not the hash: a settling process has it, and every question is about one partition.
CREATE TABLE holdfast_retries (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    kind            INTEGER NOT NULL,
    partition       INTEGER NOT NULL,          -- shared: 0
    lane            INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    uncounted       INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL,
    last_retry_at   INTEGER,                   -- when the last failed attempt was recorded
    cause           TEXT,                      -- why the last attempt failed: handler, undecodable,
                                               -- timeout, transaction, process_died, lease_expired
    unit_first      INTEGER,                   -- failed in a unit: the position of its first event
    unit_events     INTEGER,                   -- and how many events it has; NULL: not in one
    story           TEXT,                      -- JSON array of attempts
    PRIMARY KEY (subscription_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_retries_by_kind
    ON holdfast_retries (subscription_id, partition, kind, next_attempt_at);
CREATE INDEX holdfast_retries_by_lane
    ON holdfast_retries (subscription_id, partition, lane, position);

-- Events of retries that came from dead letters: the log may have lost them, and the payload may
-- have been edited. Such a row goes with its retry.
CREATE TABLE holdfast_copies (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    id              BLOB NOT NULL,
    type            TEXT NOT NULL,
    hash            INTEGER NOT NULL,
    checksum        INTEGER NOT NULL,
    emitted_at      INTEGER NOT NULL,
    entered_at      INTEGER NOT NULL,
    key_version     INTEGER,
    schedule_id     TEXT,
    producer        TEXT,
    key             TEXT,
    tenant          TEXT,
    metadata        TEXT,
    payload         TEXT NOT NULL,
    PRIMARY KEY (subscription_id, position)
) STRICT;

-- Deliveries above a checkpoint that are done: transactional ones, and those that finished early.
-- The partition is part of the key because each has its own checkpoint, up to which they go.
CREATE TABLE holdfast_settled (
    subscription_id INTEGER NOT NULL,
    partition       INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, partition, position)
) STRICT, WITHOUT ROWID;

-- Dead letters are complete copies and refer to nothing: the log may forget the event, and the
-- subscription may go.
CREATE TABLE holdfast_dead_letters (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id  INTEGER NOT NULL,
    subscription  TEXT NOT NULL,
    event_id      BLOB NOT NULL,
    position      INTEGER NOT NULL,
    failed_at     INTEGER NOT NULL,
    resolved_at   INTEGER,
    attempts      INTEGER NOT NULL,
    reason        TEXT NOT NULL,
    cause         TEXT,                        -- as in retries
    type          TEXT NOT NULL,
    error         TEXT,
    resolved_by   TEXT,
    resolved_note TEXT,
    hash          INTEGER NOT NULL,
    checksum      INTEGER NOT NULL,
    emitted_at    INTEGER NOT NULL,
    entered_at    INTEGER NOT NULL,
    key_version   INTEGER,
    schedule_id   TEXT,
    producer      TEXT,
    key           TEXT,
    tenant        TEXT,
    metadata      TEXT,
    payload       TEXT NOT NULL,
    story         TEXT NOT NULL
) STRICT;
-- One open letter for a delivery. Resolved ones stay with their notes when the event dies again.
CREATE UNIQUE INDEX holdfast_dead_letters_open_event
    ON holdfast_dead_letters (namespace_id, subscription, event_id) WHERE resolved_at IS NULL;
CREATE INDEX holdfast_dead_letters_event
    ON holdfast_dead_letters (namespace_id, subscription, event_id);
-- Pages of a list are read in the order of ids: the open ones of a subscription, the open ones,
-- all. (resolved_at is in the first so that counting need not look at the rows.)
CREATE INDEX holdfast_dead_letters_open_of
    ON holdfast_dead_letters (namespace_id, subscription, id, resolved_at)
    WHERE resolved_at IS NULL;
CREATE INDEX holdfast_dead_letters_open
    ON holdfast_dead_letters (namespace_id, id) WHERE resolved_at IS NULL;
CREATE INDEX holdfast_dead_letters_all
    ON holdfast_dead_letters (namespace_id, id, subscription);
