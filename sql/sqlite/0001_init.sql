-- The first schema. One append-only log, cursors, and rows only for exceptions.
--
-- The tables live in the application's own file, so every name begins with holdfast_, and
-- user_version and application_id are left alone. Times are microseconds since the epoch, ids and
-- tokens are 16-byte blobs, positions grow from 1 in each namespace.

CREATE TABLE holdfast_meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- head is the newest position ever given. It is stored and never computed: when retention has
-- emptied a namespace, positions must not begin again.
CREATE TABLE holdfast_namespaces (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    head       INTEGER NOT NULL DEFAULT 0,
    metadata   TEXT,
    created_at INTEGER NOT NULL
) STRICT;

-- The log. `place` is namespace_id * 2^44 + position: one key that keeps every namespace's events
-- together and in order in a plain rowid table, without a second index. It leaves room for 524,287
-- namespaces of 17 million million events each.
CREATE TABLE holdfast_events (
    place       INTEGER PRIMARY KEY,
    id          BLOB NOT NULL,
    type        TEXT NOT NULL,
    payload     TEXT NOT NULL,
    key         TEXT,
    tenant      TEXT,
    metadata    TEXT,
    producer    TEXT,
    schedule_id TEXT,
    key_version INTEGER,
    hash        INTEGER NOT NULL,
    emitted_at  INTEGER NOT NULL,
    entered_at  INTEGER NOT NULL
) STRICT;

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

-- AUTOINCREMENT: the id of a removed subscription is never given again, so whoever still holds it
-- (a running process, a lease) can do no harm.
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
    cursor        INTEGER NOT NULL,            -- shared: handed out up to here
    paused_at     INTEGER,
    paused_by     TEXT,
    paused_reason TEXT,
    breaker       TEXT,
    created_at    INTEGER NOT NULL,
    UNIQUE (namespace_id, name)
) STRICT;

-- Progress and ownership of ordered subscriptions.
CREATE TABLE holdfast_partitions (
    subscription_id INTEGER NOT NULL,
    partition       INTEGER NOT NULL,
    checkpoint      INTEGER NOT NULL,
    checkpoint_at   INTEGER,
    last_event_id   BLOB,
    epoch           INTEGER NOT NULL DEFAULT 0,
    owner           BLOB,                      -- token of the owning process, NULL: nobody
    owner_name      TEXT,
    PRIMARY KEY (subscription_id, partition)
) STRICT, WITHOUT ROWID;

-- Leases of shared subscriptions. positions is the sorted list of what is left, as varint deltas.
CREATE TABLE holdfast_leases (
    token           BLOB PRIMARY KEY,
    subscription_id INTEGER NOT NULL,
    positions       BLOB NOT NULL,
    count           INTEGER NOT NULL,
    first           INTEGER NOT NULL,          -- lowest position left
    has_retries     INTEGER NOT NULL,          -- some of them have rows in holdfast_retries
    expires_at      INTEGER NOT NULL,
    owner           BLOB,                      -- process that it is bound to; NULL: none
    kept            INTEGER NOT NULL           -- 1: does not expire while the owner is alive
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_leases_by_expiry ON holdfast_leases (subscription_id, kept, expires_at);
CREATE INDEX holdfast_leases_by_first ON holdfast_leases (subscription_id, first);

-- Deliveries that wait. kind: 1 waiting for next_attempt_at, 2 held behind its lane, 3 blocked with
-- its lane until an operator decides, 4 leased (shared: handed out again).
CREATE TABLE holdfast_retries (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    kind            INTEGER NOT NULL,
    lane            INTEGER NOT NULL,
    hash            INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    uncounted       INTEGER NOT NULL DEFAULT 0,
    story           TEXT,                      -- JSON array of attempts
    next_attempt_at INTEGER NOT NULL,
    last_retry_at   INTEGER,
    PRIMARY KEY (subscription_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_retries_due ON holdfast_retries (subscription_id, next_attempt_at)
    WHERE kind = 1;
CREATE INDEX holdfast_retries_by_lane ON holdfast_retries (subscription_id, lane, position);

-- Events of retries that came from dead letters: the log may have lost them, and the payload may
-- have been edited. Such a row goes with its retry.
CREATE TABLE holdfast_copies (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    id              BLOB NOT NULL,
    type            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    key             TEXT,
    tenant          TEXT,
    metadata        TEXT,
    producer        TEXT,
    schedule_id     TEXT,
    key_version     INTEGER,
    hash            INTEGER NOT NULL,
    emitted_at      INTEGER NOT NULL,
    entered_at      INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, position)
) STRICT;

-- Deliveries above a checkpoint that are done: transactional ones, and those that finished early.
CREATE TABLE holdfast_settled (
    subscription_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, position)
) STRICT, WITHOUT ROWID;

-- Dead letters are complete copies and refer to nothing: the log may forget the event, and the
-- subscription may go.
CREATE TABLE holdfast_dead_letters (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id  INTEGER NOT NULL,
    subscription  TEXT NOT NULL,
    event_id      BLOB NOT NULL,
    position      INTEGER NOT NULL,
    type          TEXT NOT NULL,
    payload       TEXT NOT NULL,
    key           TEXT,
    tenant        TEXT,
    metadata      TEXT,
    producer      TEXT,
    schedule_id   TEXT,
    key_version   INTEGER,
    hash          INTEGER NOT NULL,
    emitted_at    INTEGER NOT NULL,
    entered_at    INTEGER NOT NULL,
    reason        TEXT NOT NULL,
    error         TEXT,
    attempts      INTEGER NOT NULL,
    story         TEXT NOT NULL,
    failed_at     INTEGER NOT NULL,
    resolved_at   INTEGER,
    resolved_by   TEXT,
    resolved_note TEXT,
    UNIQUE (namespace_id, subscription, event_id)
) STRICT;
CREATE INDEX holdfast_dead_letters_by_subscription
    ON holdfast_dead_letters (namespace_id, subscription, resolved_at, id);
