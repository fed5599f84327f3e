-- The log: namespaces, their events, and what guards ids and keys.

-- ---- The log ------------------------------------------------------------------------------------
CREATE SEQUENCE holdfast_private.namespace_ids AS integer;

-- sequence gives the positions. sleep is a flag that needs no row: see holdfast.sleep. months_from,
-- months_to: the log has all months between them, so that publishing need not look for a month.
-- ids_until: the largest time inside an id that was about a day or more ahead of the clock when it
-- was published (see functions/log/append.sql). removing_at: since when it is being removed; NULL:
-- it is not.
--   Of retention (functions/timers/retention.sql): retention_ms, how long events stay, 0: for ever;
-- retention_bytes, how large the log may become, 0: no limit; lagging_drop, whether events go that
-- a subscription has not finished. retained_at: when a process last took the turn to look.
-- retained_through: the highest position that has gone. ids_from: ids whose guard_at is before have
-- been taken out of event_ids; ids_after: a sweep for a later time has got so far. copying: the
-- mark. While it is there no other process may use the namespace. copied_to: the events of the
-- source up to this position are all there.
-- Of a gapless namespace: positions above it have no gaps; those below came by a copy, maybe of a
-- log that had some.
CREATE TABLE holdfast_private.namespaces (
    id          integer PRIMARY KEY,
    gapless     boolean NOT NULL DEFAULT false,
    sequence    regclass NOT NULL,
    sleep       regclass NOT NULL,
    months_from timestamptz NOT NULL DEFAULT 'infinity',
    months_to   timestamptz NOT NULL DEFAULT '-infinity',
    ids_until   timestamptz NOT NULL DEFAULT '-infinity',
    created_at  timestamptz NOT NULL,
    closed_at   timestamptz,                    -- when its last process left: see clock_mind
    removing_at timestamptz,
    payload_bytes_max integer NOT NULL DEFAULT 1048576
        CHECK (payload_bytes_max BETWEEN 1024 AND 268435456), -- limit_payload
    retention_ms    bigint NOT NULL DEFAULT 15897600000, -- 184 days
    retention_bytes bigint NOT NULL DEFAULT 0,
    lagging_drop    boolean NOT NULL DEFAULT false,
    retained_at     timestamptz,
    retained_through bigint NOT NULL DEFAULT 0,
    ids_from        timestamptz NOT NULL DEFAULT '-infinity',
    ids_after       uuid,
    name        text COLLATE "C" NOT NULL UNIQUE,
    metadata    json,
    copying      text,
    gapless_after bigint NOT NULL DEFAULT 0,
    copied_to    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The newest position of gapless namespaces, which do not use their sequence: the row is locked
-- from the first publish of a transaction to its end.
CREATE TABLE holdfast_private.heads (
    namespace_id integer PRIMARY KEY,
    head         bigint NOT NULL
) WITH (fillfactor = 50);

-- The log: by namespace, then by month of guard_at (UTC). Each namespace has the table events_<id>,
-- each month of it events_<id>_<yyyymm> (holdfast_private.ensure_month). There is no default
-- partition. A month has two indexes, and nothing else is paid for: unique (id, guard_at) and
-- (position).
--   entered_at: when the event entered the log, by the server's clock. guard_at: less than a day
-- from that; it decides the month and means nothing else. It is the time inside the id where it can
-- be (functions/log/append.sql says why). checksum: of all that is delivered (checksum_of,
-- functions/base/hashes.sql), here and wherever an event is kept.
CREATE TABLE holdfast_private.events (
    position     bigint NOT NULL,
    hash         bigint NOT NULL,
    checksum     bigint NOT NULL,
    emitted_at   timestamptz NOT NULL,
    entered_at   timestamptz NOT NULL,
    guard_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    id           uuid NOT NULL,
    namespace_id integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    key_version  bigint,
    schedule_id  text,
    producer     text,
    key          text COLLATE "C",
    tenant       text COLLATE "C",
    metadata     json,
    payload      json NOT NULL
) PARTITION BY LIST (namespace_id);

-- Ids that the unique index of one month cannot guard: those that are not version 7, or whose time
-- is a day (minus one hour) or more away from the clock.
CREATE TABLE holdfast_private.event_ids (
    namespace_id integer NOT NULL,
    id           uuid NOT NULL,
    position     bigint NOT NULL,
    guard_at     timestamptz NOT NULL,          -- of the event
    PRIMARY KEY (namespace_id, id)
);

-- Versions of keys, touched only by publishes that expect a version. A key may be longer than an
-- index entry, so the index has its digest.
CREATE TABLE holdfast_private.keys (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL,                -- sha256 of the key
    version      bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, digest)
) WITH (fillfactor = 80);

-- What the processes of a namespace do one after the other, they do with one of these rows locked.
-- Only functions with their owner's rights reach them: an advisory lock could be held by any role
-- that may connect. gate: 0 declaring that one sleeps, 1 releasing delayed events, 2 to 65
-- registering a node, by its id. Those of namespace 0 are the schema's, and none but its owner
-- locks them: 0 making a namespace, 1 granting.
--   A lock on a table would not do: PREPARE locks a table, as DELETE does, before the server looks
-- at rights, so every role that may use the schema could keep others from it with a transaction
-- that stays open.
CREATE TABLE holdfast_private.gates (
    namespace_id integer NOT NULL,
    gate         integer NOT NULL,
    PRIMARY KEY (namespace_id, gate)
) WITH (fillfactor = 50);
INSERT INTO holdfast_private.gates (namespace_id, gate) VALUES (0, 0), (0, 1);
