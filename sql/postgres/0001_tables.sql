-- The tables: one append-only log, cursors, and rows only for exceptions.
--
-- Everything lives in the schema `holdfast`. Names of relations are built from the integer id of a
-- namespace only, never from its name. Ids and tokens are uuid, times timestamptz, payload and
-- metadata json (not jsonb: bytes come back as they were published). Text that only C reads
-- (patterns, options, stories) is text.
--
-- What is written often is never UPDATEd or DELETEd, because dead rows cannot go while any session
-- of the cluster holds an old snapshot, and whoever searches must step over them: events are
-- inserted, checkpoints and cursors are appended to a journal (below).

-- A role without the right to make schemas may be given an empty one that it owns (CREATE SCHEMA holdfast
-- AUTHORIZATION role). In a schema of another role that one could put code in the way of ours, and what
-- has been made would run it: see schema_fault (queries_core.sql), which says it with more words.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'holdfast') THEN
        CREATE SCHEMA holdfast;
    ELSIF EXISTS (SELECT FROM pg_namespace n
                  WHERE n.nspname = 'holdfast' AND n.nspowner::regrole <> quote_ident(current_user)::regrole)
    THEN
        RAISE EXCEPTION 'the schema holdfast belongs to another role' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database has encoding %; Holdfast needs UTF8',
            current_setting('server_encoding') USING ERRCODE = 'HF012';
    END IF;
END
$$;

-- ---- Who calls ----------------------------------------------------------------------------------

-- No role that has a part in a namespace (0023_grants.sql) may write a table. What writes is a function
-- that runs with its owner's rights, and such a function cannot ask who called it: current_user is its
-- owner there. But the default of a parameter is computed by the caller, before. So every such function
-- has the parameter p_ticket, which nobody gives: its default is ticket(), an answer that says which role
-- computed it and that nobody can forge. admit and enter (0023_grants.sql) read it.
--
-- secret: known to functions that run with their owner's rights alone. Row-level security hides it from
-- members of pg_read_all_data.
CREATE TABLE holdfast.secret (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret bytea NOT NULL
);
INSERT INTO holdfast.secret (secret)
    VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
ALTER TABLE holdfast.secret ENABLE ROW LEVEL SECURITY;

-- door: a view of nothing. Who inserts into it is told by the default of `caller`, for which no role has
-- the right to give another value; door_open runs with its owner's rights and answers the ticket.
--   Whoever may read all tables (pg_read_all_data) can put a view of its own above the door, with another
-- default there, and pg_write_all_data gives the right to every column. So the column has a type of its own,
-- whose only value is the role that computes it.
CREATE DOMAIN holdfast.caller AS oid
    CONSTRAINT caller_is_current CHECK (VALUE = quote_ident(current_user)::regrole::oid);
CREATE VIEW holdfast.door AS
    SELECT NULL::boolean AS ask, NULL::holdfast.caller AS caller, NULL::bytea AS ticket;
ALTER VIEW holdfast.door ALTER COLUMN caller SET DEFAULT quote_ident(current_user)::regrole::oid;

-- A ticket: the caller's number, and what only who knows the secret can compute of it. It is good in this
-- transaction of this session only.
CREATE FUNCTION holdfast.ticket_make(p_caller oid, p_secret bytea) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN oidsend(p_caller) || sha256(p_secret || oidsend(p_caller) || int4send(pg_backend_pid())
                                       || timestamptz_send(transaction_timestamp()));

CREATE FUNCTION holdfast.door_open() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
BEGIN
    IF tg_relid <> 'holdfast.door'::regclass THEN
        RAISE EXCEPTION 'door_open is the trigger of another table' USING ERRCODE = 'insufficient_privilege';
    END IF;
    new.ticket := ticket_make(new.caller, (SELECT s.secret FROM secret s));
    RETURN new;
END
$$;
CREATE TRIGGER door_open INSTEAD OF INSERT ON holdfast.door
    FOR EACH ROW EXECUTE FUNCTION holdfast.door_open();

-- ticket: the default of p_ticket. Who passes by all policies has the secret itself for a ticket, which
-- costs less.
CREATE FUNCTION holdfast.ticket() RETURNS bytea
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, holdfast, pg_temp
AS $$
DECLARE
    v_ticket bytea;
BEGIN
    IF NOT row_security_active('holdfast.secret') AND has_table_privilege('holdfast.secret', 'SELECT') THEN
        RETURN (SELECT s.secret FROM secret s);
    END IF;
    INSERT INTO door (ask) VALUES (true) RETURNING door.ticket INTO v_ticket;
    RETURN v_ticket;
END
$$;

CREATE TABLE holdfast.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- ---- The log ------------------------------------------------------------------------------------

CREATE SEQUENCE holdfast.namespace_ids AS integer;

-- sequence gives the positions. sleep is a flag that needs no row: see holdfast.sleep. months_from,
-- months_to: the log has all months between them, so that publishing need not look for a month.
-- ids_until: the largest time inside an id that was about a day or more ahead of the clock when it was
-- published (see 0003_append.sql). removing_at: since when it is being removed; NULL: it is not.
--   Of retention (0021_retention.sql): retention_ms, how long events stay, 0: for ever; retention_bytes,
-- how large the log may become, 0: no limit; lagging_drop, whether events go that a subscription has not
-- finished. retained_at: when somebody last took the turn to look. retained_through: the highest position
-- that has gone. ids_from: ids whose guard_at is
-- before have been taken out of event_ids; ids_after: a sweep for a later time has got so far.
CREATE TABLE holdfast.namespaces (
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
    metadata    json
) WITH (fillfactor = 50);

-- The newest position of gapless namespaces, which do not use their sequence: the row is locked from
-- the first publish of a transaction to its end.
CREATE TABLE holdfast.heads (
    namespace_id integer PRIMARY KEY,
    head         bigint NOT NULL
) WITH (fillfactor = 50);

-- The log: by namespace, then by month of guard_at (UTC). Each namespace has the table events_<id>, each
-- month of it events_<id>_<yyyymm> (holdfast.ensure_month). There is no default partition. A month has
-- two indexes, and nothing else is paid for: unique (id, guard_at) and (position).
--   entered_at: when the event entered the log, by the server's clock. guard_at: less than a day from
-- that; it decides the month and means nothing else. It is the time inside the id where it can be
-- (0003_append.sql says why). checksum: of all that is delivered (checksum_of, 0002_log.sql), here and
-- wherever an event is kept.
CREATE TABLE holdfast.events (
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
CREATE TABLE holdfast.event_ids (
    namespace_id integer NOT NULL,
    id           uuid NOT NULL,
    position     bigint NOT NULL,
    guard_at     timestamptz NOT NULL,          -- of the event
    PRIMARY KEY (namespace_id, id)
);

-- Versions of keys, touched only by publishes that expect a version. A key may be longer than an
-- index entry, so the index has its digest.
CREATE TABLE holdfast.keys (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL,                -- sha256 of the key
    version      bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, digest)
) WITH (fillfactor = 80);

-- ---- Subscriptions ------------------------------------------------------------------------------

-- The id of a removed subscription is never given again, so whoever still holds it can do no harm.
CREATE TABLE holdfast.subscriptions (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id  integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    patterns      text NOT NULL,                -- JSON array
    options       text NOT NULL,                -- JSON object, the bus's business
    mode          smallint NOT NULL,            -- 1 ordered, 2 shared
    partitions    integer NOT NULL,
    generation    bigint NOT NULL DEFAULT 1,    -- rises with every change of this row
    crew          bigint NOT NULL DEFAULT 0,    -- rises when its members change, or a partition is
                                                -- given back: then each looks at its share
    wanted        integer,                      -- another number of partitions is wished for
    start         bigint NOT NULL,              -- it began, or was last sought, after this position
    paused_at     timestamptz,
    paused_by     text,
    paused_reason text,
    breaker       text,
    dropped_through bigint,                     -- up to here retention has taken what was not finished
    dropped       bigint NOT NULL DEFAULT 0,    -- ... so many positions altogether
    created_at    timestamptz NOT NULL,
    UNIQUE (namespace_id, name)
);

-- Who works for an ordered subscription, in the order of joining. Its partitions are shared out among
-- the members; one that has died is struck off by whoever looks next.
CREATE TABLE holdfast.members (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    subscription_id bigint NOT NULL REFERENCES holdfast.subscriptions ON DELETE CASCADE,
    token           uuid NOT NULL,              -- of the process
    assigned        text,                       -- the only partitions that it wants, as "3,5-7";
                                                -- NULL: whatever is its share
    PRIMARY KEY (subscription_id, token)
);

-- What follows belongs to a subscription and goes with it: subscription_clear takes it away, `verify` looks for
-- rows that stayed. Only partitions refer to it, because their rows are made once; every other row would
-- lock the subscription's for a reference.

-- Ownership. An ordered subscription has a row per partition; a shared one has a single row, which
-- nobody owns: claims lock it. Rows change only when the owner changes or somebody seeks; settles
-- lock them (which makes no dead rows).
CREATE TABLE holdfast.partitions (
    subscription_id bigint NOT NULL REFERENCES holdfast.subscriptions,
    partition       integer NOT NULL,
    epoch           bigint NOT NULL DEFAULT 0,
    owner           uuid,                       -- token of the owning process, NULL: nobody
    owner_name      text,
    PRIMARY KEY (subscription_id, partition)
) WITH (fillfactor = 50);
CREATE INDEX partitions_by_owner ON holdfast.partitions (owner) WHERE owner IS NOT NULL;

-- A range of positions that were not visible when a claim passed them: an open transaction may still
-- fill them. witnesses: the virtual transactions that held the lock of the namespace's sequence at
-- probed_at, after the range was seen; NULL: nobody has looked yet. server_start: of the server that
-- they ran on. holdfast.change_claim says how such a range comes to its end.
CREATE TYPE holdfast.hole AS (
    low          bigint,
    high         bigint,
    since        timestamptz,
    probed_at    timestamptz,
    server_start timestamptz,
    witnesses    text[]
);

-- The journal: progress is appended, and for each partition the row with the highest seq in both
-- tables counts. holdfast.rotate moves the newest rows to the other side and truncates this one.
--   A shared subscription's checkpoint is its cursor: handed out up to here, but for the holes. turn:
-- its last claim handed out a retry of kind 5, so it is the others' turn. leases_from, kept_from: no
-- lease (that is not kept; that is kept) ends before, so that claims need not step over the remains
-- of those that did.
--   span, span_from, span_before: how fast it moves. 0006_journal.sql says how.
CREATE SEQUENCE holdfast.journal_seq AS bigint;
CREATE TABLE holdfast.checkpoints_0 (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    seq             bigint NOT NULL,
    checkpoint      bigint NOT NULL,
    checkpoint_at   timestamptz,
    last_event_id   uuid,
    turn            boolean NOT NULL DEFAULT false,
    leases_from     timestamptz,
    kept_from       timestamptz,
    holes           holdfast.hole[],
    span            integer NOT NULL DEFAULT 0,
    span_from       bigint,
    span_before     bigint
) WITH (autovacuum_enabled = false);
CREATE TABLE holdfast.checkpoints_1 (LIKE holdfast.checkpoints_0 INCLUDING ALL)
    WITH (autovacuum_enabled = false);
CREATE UNIQUE INDEX checkpoints_0_newest
    ON holdfast.checkpoints_0 (subscription_id, partition, seq);
CREATE UNIQUE INDEX checkpoints_1_newest
    ON holdfast.checkpoints_1 (subscription_id, partition, seq);

-- Which side is written to, and since when: doctor tells if nobody rotates.
CREATE TABLE holdfast.turns (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    side       smallint NOT NULL CHECK (side IN (0, 1)),
    rotated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO holdfast.turns (side) VALUES (0);

-- The newest row of each partition. To be read in a transaction that is READ COMMITTED: TRUNCATE
-- empties a side for older snapshots too, and a partition without a row means just that: read again.
CREATE VIEW holdfast.checkpoints AS
    SELECT p.subscription_id, p.partition, p.epoch, p.owner, p.owner_name,
           j.seq, j.checkpoint, j.checkpoint_at, j.last_event_id, j.turn, j.leases_from, j.kept_from,
           j.holes, j.span, j.span_from, j.span_before
    FROM holdfast.partitions p
    LEFT JOIN LATERAL (
        SELECT * FROM (
            (SELECT * FROM holdfast.checkpoints_0 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)
            UNION ALL
            (SELECT * FROM holdfast.checkpoints_1 c
             WHERE c.subscription_id = p.subscription_id AND c.partition = p.partition
             ORDER BY c.seq DESC LIMIT 1)) both_sides
        ORDER BY both_sides.seq DESC LIMIT 1) j ON true;

-- Leases of shared subscriptions, and what is left of those that ended without an answer or were
-- given back: then nobody knows the token, and `piece` says how the next claims get the rest.
CREATE TABLE holdfast.leases (
    token           uuid PRIMARY KEY,
    subscription_id bigint NOT NULL,
    expires_at      timestamptz NOT NULL,
    lease_ms        bigint NOT NULL,            -- as it was asked for: how long the owner may be still
    owner           uuid,                       -- process that claimed it; NULL: it does not matter
    bound           boolean NOT NULL,           -- it ends when the owner dies
    kept            boolean NOT NULL,           -- it does not expire while the owner is alive
    piece           integer,                    -- NULL: it is held; 0: free for any claim; n: suspect,
                                                -- handed out n at a time and apart from all others
    careful         boolean NOT NULL DEFAULT false, -- its holder died or stood still: who takes it over
                                                -- records each attempt before it runs
    has_retries     boolean NOT NULL,           -- some of them have rows in retries
    count           integer NOT NULL,
    owner_name      text,                       -- node that claimed it
    positions       int8multirange NOT NULL     -- what is left
);
CREATE INDEX leases_by_expiry ON holdfast.leases (subscription_id, kept, expires_at);

-- Deliveries that wait. kind: 1 waiting for next_attempt_at, 2 held behind its lane, 3 blocked with
-- its lane until an operator decides, 4 leased (shared: handed out again), 5 waiting as 1 does, but
-- its last attempt was lost with its lease, so it is handed out alone (shared).
CREATE TABLE holdfast.retries (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    lane            bigint NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    last_retry_at   timestamptz,                -- when the last failed attempt was recorded
    partition       integer NOT NULL,           -- shared: 0
    attempts        integer NOT NULL,
    uncounted       integer NOT NULL DEFAULT 0,
    kind            smallint NOT NULL,
    unit_events     integer,                    -- events of the unit that it failed in; NULL: in none
    unit_first      bigint,                     -- position of the unit's first event
    cause           text COLLATE "C",           -- why the last attempt failed: handler, undecodable,
                                                -- timeout, transaction, process_died, lease_expired
    story           text,                       -- JSON array of attempts, for people
    PRIMARY KEY (subscription_id, position)
);
CREATE INDEX retries_by_kind
    ON holdfast.retries (subscription_id, partition, kind, next_attempt_at, position);
CREATE INDEX retries_by_lane
    ON holdfast.retries (subscription_id, partition, lane, position);

-- Events of retries that came from dead letters: the log may have lost them, and the payload may
-- have been edited. Such a row goes with its retry.
CREATE TABLE holdfast.copies (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    hash            bigint NOT NULL,
    checksum        bigint NOT NULL,
    emitted_at      timestamptz NOT NULL,
    entered_at      timestamptz NOT NULL,
    id              uuid NOT NULL,
    type            text COLLATE "C" NOT NULL,
    key_version     bigint,
    schedule_id     text,
    producer        text,
    key             text COLLATE "C",
    tenant          text COLLATE "C",
    metadata        json,
    payload         json NOT NULL,
    PRIMARY KEY (subscription_id, position)
);

-- Deliveries above a checkpoint that are done: transactional ones, and those that finished early.
CREATE TABLE holdfast.settled (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    position        bigint NOT NULL,
    PRIMARY KEY (subscription_id, partition, position)
);

-- Dead letters are complete copies and refer to nothing: the log may forget the event, and the
-- subscription may go.
CREATE TABLE holdfast.letters (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position      bigint NOT NULL,
    hash          bigint NOT NULL,
    checksum      bigint NOT NULL,
    emitted_at    timestamptz NOT NULL,
    entered_at    timestamptz NOT NULL,
    failed_at     timestamptz NOT NULL,
    resolved_at   timestamptz,
    event_id      uuid NOT NULL,
    namespace_id  integer NOT NULL,
    attempts      integer NOT NULL,
    subscription  text COLLATE "C" NOT NULL,
    reason        text COLLATE "C" NOT NULL,
    cause         text COLLATE "C",             -- as in retries
    type          text COLLATE "C" NOT NULL,
    key_version   bigint,
    schedule_id   text,
    producer      text,
    resolved_by   text,
    resolved_note text,
    error         text COLLATE "C",
    key           text COLLATE "C",
    tenant        text COLLATE "C",
    metadata      json,
    payload       json NOT NULL,
    story         text NOT NULL
);
-- One open letter for a delivery. Resolved ones stay with their notes when the event dies again.
CREATE UNIQUE INDEX letters_open_event
    ON holdfast.letters (namespace_id, subscription, event_id) WHERE resolved_at IS NULL;
CREATE INDEX letters_event
    ON holdfast.letters (namespace_id, subscription, event_id, id);
-- Pages of a list are read in the order of ids: the open ones of a subscription, the open ones, all.
CREATE INDEX letters_open_of
    ON holdfast.letters (namespace_id, subscription, id) WHERE resolved_at IS NULL;
CREATE INDEX letters_open
    ON holdfast.letters (namespace_id, id) WHERE resolved_at IS NULL;
CREATE INDEX letters_all
    ON holdfast.letters (namespace_id, id);

-- Processes that have a namespace open. locked: the session `backend` (its process on the server), which
-- registered it, holds the advisory lock `lock_key`, so the lock's absence means death; the same lock in
-- the hands of another session means nothing. renewals rises while the process runs;
-- whoever watches it stand still for a lease of its own clock calls the process frozen.
CREATE TABLE holdfast.processes (
    token        uuid PRIMARY KEY,
    renewals     bigint NOT NULL DEFAULT 0,
    started_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    namespace_id integer NOT NULL,
    locked       boolean NOT NULL,
    backend      integer,
    lock_key     bigint,
    node_name    text NOT NULL
) WITH (fillfactor = 50);

-- What the processes of a namespace do one after the other, they do with one of these rows locked. Only
-- functions with their owner's rights reach them: an advisory lock could be held by whoever may connect.
-- gate: 0 declaring that one sleeps, 1 releasing delayed events, 2 to 65 registering a node, by its id. Those of
-- namespace 0 are the schema's, and none but its owner locks them: 0 making a namespace, 1 granting.
--   A lock on a table would not do: PREPARE locks a table, as DELETE does, before the server looks at rights, so
-- every role that may use the schema could keep others from it with a transaction that stays open.
CREATE TABLE holdfast.gates (
    namespace_id integer NOT NULL,
    gate         integer NOT NULL,
    PRIMARY KEY (namespace_id, gate)
) WITH (fillfactor = 50);
INSERT INTO holdfast.gates (namespace_id, gate) VALUES (0, 0), (0, 1);
