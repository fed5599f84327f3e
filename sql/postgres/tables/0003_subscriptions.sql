-- Subscriptions: who reads the log how far, and rows for whatever is an exception. The types at the
-- end are what functions answer with.

-- ---- Subscriptions ------------------------------------------------------------------------------

-- The id of a removed subscription is never given again, so a process that still holds it can do no
-- harm.
CREATE TABLE holdfast_private.subscriptions (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id  integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    patterns      text NOT NULL,                -- JSON array
    options       text NOT NULL,                -- JSON object, the bus's business
    mode          smallint NOT NULL,            -- 1 ordered, 2 shared
    partitions    integer NOT NULL,
    generation    bigint NOT NULL DEFAULT 1,    -- rises with every change of this row
    members_version bigint NOT NULL DEFAULT 0,    -- rises when its members change, or a partition
                                                  -- is
                                                -- given back: then each looks at its share
    wanted        integer,                      -- another number of partitions is requested
    start         bigint NOT NULL,              -- it began, or was last sought, after this position
    paused_at     timestamptz,
    paused_by     text,
    paused_reason text,
    breaker       text,
    dropped_through bigint,                     -- retention has deleted unsettled events up to
                                                -- here
    dropped       bigint NOT NULL DEFAULT 0,    -- number of positions that it deleted
    created_at    timestamptz NOT NULL,
    UNIQUE (namespace_id, name)
);

-- Who works for an ordered subscription, in the order of joining. Its partitions are shared out
-- among the members; one that has died is struck off by the next process that looks.
CREATE TABLE holdfast_private.members (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    subscription_id bigint NOT NULL REFERENCES holdfast_private.subscriptions ON DELETE CASCADE,
    token           uuid NOT NULL,              -- of the process
    assigned        text,                       -- the only partitions that it wants, as "3,5-7";
                                                -- NULL: whatever is its share
    PRIMARY KEY (subscription_id, token)
);

-- What follows belongs to a subscription and goes with it: subscription_clear takes it away,
-- `verify` looks for rows that stayed. Only partitions refer to it, because their rows are made
-- once; every other row would lock the subscription's for a reference.

-- Ownership. An ordered subscription has a row per partition; a shared one has a single row without
-- an owner: claims lock it. Rows change only when the owner changes or on a seek; settles lock them
-- (which makes no dead rows).
CREATE TABLE holdfast_private.partitions (
    subscription_id bigint NOT NULL REFERENCES holdfast_private.subscriptions,
    partition       integer NOT NULL,
    epoch           bigint NOT NULL DEFAULT 0,
    owner           uuid,                       -- token of the owning process, NULL: none
    owner_name      text,
    PRIMARY KEY (subscription_id, partition)
) WITH (fillfactor = 50);
CREATE INDEX partitions_by_owner ON holdfast_private.partitions (owner) WHERE owner IS NOT NULL;

-- A range of positions that were not visible when a claim passed them: an open transaction may
-- still fill them. witnesses: the virtual transactions that held the lock of the namespace's
-- sequence at probed_at, after the range was seen; NULL: no claim has looked yet. server_start: of
-- the server that they ran on. holdfast.change_claim says how such a range comes to its end.
CREATE TYPE holdfast_private.hole AS (
    low          bigint,
    high         bigint,
    since        timestamptz,
    probed_at    timestamptz,
    server_start timestamptz,
    witnesses    text[]
);

-- The journal: progress is appended, and for each partition the row with the highest seq in both
-- tables counts. holdfast_private.rotate moves the newest rows to the other side and truncates this
-- one.
--   A shared subscription's checkpoint is its cursor: handed out up to here, but for the holes.
-- turn: its last claim handed out a retry of kind 5, so it is the others' turn. leases_from,
-- kept_from: no lease (that is not kept; that is kept) ends before, so that claims need not step
-- over the remains of those that did.
--   span, span_from, span_before: how fast it moves. functions/log/journal.sql says how.
CREATE SEQUENCE holdfast_private.journal_seq AS bigint;

CREATE TABLE holdfast_private.checkpoints_0 (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    seq             bigint NOT NULL,
    checkpoint      bigint NOT NULL,
    checkpoint_at   timestamptz,
    last_event_id   uuid,
    turn            boolean NOT NULL DEFAULT false,
    leases_from     timestamptz,
    kept_from       timestamptz,
    holes           holdfast_private.hole[],
    span            integer NOT NULL DEFAULT 0,
    span_from       bigint,
    span_before     bigint
) WITH (autovacuum_enabled = false);

CREATE TABLE holdfast_private.checkpoints_1 (LIKE holdfast_private.checkpoints_0 INCLUDING ALL)
    WITH (autovacuum_enabled = false);
CREATE UNIQUE INDEX checkpoints_0_newest
    ON holdfast_private.checkpoints_0 (subscription_id, partition, seq);
CREATE UNIQUE INDEX checkpoints_1_newest
    ON holdfast_private.checkpoints_1 (subscription_id, partition, seq);

-- Which side is written to, and since when: doctor reports it if no process rotates.
CREATE TABLE holdfast_private.turns (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    side       smallint NOT NULL CHECK (side IN (0, 1)),
    rotated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO holdfast_private.turns (side) VALUES (0);

-- Leases of shared subscriptions, and what is left of those that ended without an answer or were
-- given back: then no process has the token, and `piece` says how the next claims get the rest.
CREATE TABLE holdfast_private.leases (
    token           uuid PRIMARY KEY,
    subscription_id bigint NOT NULL,
    expires_at      timestamptz NOT NULL,
    lease_ms        bigint NOT NULL,            -- as it was asked for: how long the owner may be
                                                -- still
    owner           uuid,                       -- process that claimed it; NULL: it does not matter
    bound           boolean NOT NULL,           -- it ends when the owner dies
    kept            boolean NOT NULL,           -- it does not expire while the owner is alive
    piece           integer,                    -- NULL: it is held; 0: free for any claim; n:
                                                -- suspect, handed out n at a time and apart from
                                                -- all others
    careful         boolean NOT NULL DEFAULT false, -- its holder died or stood still: a claim of it
                                                -- records each attempt before it runs
    has_retries     boolean NOT NULL,           -- some of them have rows in retries
    count           integer NOT NULL,
    owner_name      text,                       -- node that claimed it
    positions       int8multirange NOT NULL     -- what is left
);
CREATE INDEX leases_by_expiry ON holdfast_private.leases (subscription_id, kept, expires_at);

-- Deliveries that wait. kind: enum retry_kind of src/store/retry.h.
CREATE TABLE holdfast_private.retries (
    subscription_id bigint NOT NULL,
    position        bigint NOT NULL,
    lane            bigint NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    last_retry_at   timestamptz,                -- when the last failed attempt was recorded
    partition       integer NOT NULL,           -- shared: 0
    attempts        integer NOT NULL,
    uncounted       integer NOT NULL DEFAULT 0,
    kind            smallint NOT NULL,
    unit_events     integer,                    -- events of the unit that it failed in; NULL: in
                                                -- none
    unit_first      bigint,                     -- position of the unit's first event
    cause           text COLLATE "C",           -- why the last attempt failed: handler,
                                                -- undecodable, timeout, transaction, process_died,
                                                -- lease_expired
    story           text,                       -- JSON array of attempts, for people
    PRIMARY KEY (subscription_id, position)
);
CREATE INDEX retries_by_kind
    ON holdfast_private.retries (subscription_id, partition, kind, next_attempt_at, position);
CREATE INDEX retries_by_lane
    ON holdfast_private.retries (subscription_id, partition, lane, position);

-- Events of retries that came from dead letters: the log may have lost them, and the payload may
-- have been edited. Such a row goes with its retry.
CREATE TABLE holdfast_private.copies (
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
CREATE TABLE holdfast_private.settled (
    subscription_id bigint NOT NULL,
    partition       integer NOT NULL,
    position        bigint NOT NULL,
    PRIMARY KEY (subscription_id, partition, position)
);

-- Dead letters are complete copies and refer to nothing: the log may forget the event, and the
-- subscription may go.
CREATE TABLE holdfast_private.letters (
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
    ON holdfast_private.letters (namespace_id, subscription, event_id) WHERE resolved_at IS NULL;
CREATE INDEX letters_event
    ON holdfast_private.letters (namespace_id, subscription, event_id, id);

-- Pages of a list are read in the order of ids: the open ones of a subscription, the open ones,
-- all.
CREATE INDEX letters_open_of
    ON holdfast_private.letters (namespace_id, subscription, id) WHERE resolved_at IS NULL;
CREATE INDEX letters_open
    ON holdfast_private.letters (namespace_id, id) WHERE resolved_at IS NULL;
CREATE INDEX letters_all
    ON holdfast_private.letters (namespace_id, id);

-- ---- Events by position -------------------------------------------------------------------------
CREATE TYPE holdfast.event AS (
    position    bigint,
    id          uuid,
    type        text,
    payload     json,
    key         text,
    tenant      text,
    metadata    json,
    producer    text,
    schedule_id text,
    key_version bigint,
    hash        bigint,
    emitted_at  timestamptz,
    entered_at  timestamptz,
    checksum    bigint
);

-- An event of a lease, with what is known of its attempts. waited: it has a row in retries.
CREATE TYPE holdfast.leased_event AS (
    position    bigint,
    id          uuid,
    type        text,
    payload     json,
    key         text,
    tenant      text,
    metadata    json,
    producer    text,
    schedule_id text,
    key_version bigint,
    hash        bigint,
    emitted_at  timestamptz,
    entered_at  timestamptz,
    checksum    bigint,
    attempts    integer,
    uncounted   integer,
    story       text,
    cause       text,
    unit_first  bigint,
    unit_events integer,
    waited      boolean
);

-- What a claim answers. status: HF_NOTFOUND, HF_MISUSE, HF_INVALID, HF_CONFLICT, with a message.
-- lease NULL: an empty batch. wake_at: when to look again; NULL: not known, or there is more.
-- paused: the subscription is. more: the claim stopped at a limit. careful: record each attempt
-- before it runs (functions/deliver/claims.sql). owners, owner_renewals: those who have leases that
-- are over but kept, if it was looked for them: to be handed in as frozen if they are. unhandled:
-- positions that no pattern matches.
CREATE TYPE holdfast.claim_batch AS (
    status         integer,
    message        text,
    lease          uuid,
    expires_at     timestamptz,
    wake_at        timestamptz,
    paused         boolean,
    more           boolean,
    careful        boolean,
    owners         uuid[],
    owner_renewals bigint[],
    unhandled      bigint[]
);

-- A claim on its way through its steps (functions/deliver/claims.sql).
CREATE TYPE holdfast_private.claiming AS (
    -- what was asked for
    namespace_id    integer,
    subscription_id bigint,
    lease           uuid,
    token           uuid,                       -- of the process that claims
    node_name       text,
    regex           text,                       -- of the patterns; NULL: every type
    unhandled_too   boolean,
    max             integer,
    bytes_max       bigint,
    lease_ms        bigint,
    bound           boolean,
    kept            boolean,
    now             timestamptz,
    clock           timestamptz,                -- the server's, when the claim began
    -- where the subscription is
    stored          holdfast_private.checkpoints_0,     -- the journal's newest row
    cursor          bigint,
    holes           holdfast_private.hole[],
    turn            boolean,
    leases_from     timestamptz,
    kept_from       timestamptz,
    waiting         boolean,                    -- there are retries
    alone           boolean,                    -- one of kind ALONE is due
    ahead           boolean,                    -- one is above the cursor
    free            uuid[],                     -- leases that no process holds
    -- how far the claim has come
    reading         boolean,                    -- more may be handed out
    rows_left       integer,                    -- that may be read of the log and of holes
    portion         integer,                    -- how many rows are read at once
    positions       int8multirange,             -- what is handed out
    unhandled       int8multirange,             -- that of it which no pattern matches
    count           integer,
    bytes           bigint,
    has_retries     boolean,                    -- some of it has rows in retries
    -- the answer
    status          integer,
    message         text,
    paused          boolean,
    more            boolean,
    careful         boolean,
    expires_at      timestamptz,
    owners          uuid[],
    owner_renewals  bigint[]
);

-- Rows of the log that a claim has read: how many, up to which position, which; those that it
-- takes, how many that are, and the size of their payloads; and those of them that no pattern
-- matches.
CREATE TYPE holdfast_private.log_part AS (
    rows      bigint,
    last      bigint,
    seen      int8multirange,
    taken     int8multirange,
    unhandled int8multirange,
    count     bigint,
    bytes     bigint
);

-- ---- What is stored -----------------------------------------------------------------------------

-- A shared subscription with the options that matter here, or HF003, HF002.
CREATE TYPE holdfast_private.pull AS (
    namespace_id    integer,
    sleep           regclass,
    subscription_id bigint,
    name            text,
    options         json
);

-- ---- Outcomes -----------------------------------------------------------------------------------

-- `struct outcome` of C.
CREATE TYPE holdfast_private.pull_outcome AS (
    kind      integer,
    position  bigint,
    lane      bigint,
    attempts  integer,
    uncounted integer,
    story     text,
    next      timestamptz,
    reason    text,
    error     text,
    cause     text
);

-- Declared here because the trigger needs it; functions/schema/namespaces.sql has its body.
CREATE FUNCTION holdfast_private.subscription_check() RETURNS trigger
    LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER subscription_check BEFORE INSERT ON holdfast_private.subscriptions
    FOR EACH ROW EXECUTE FUNCTION holdfast_private.subscription_check();

-- ---- Numbers ------------------------------------------------------------------------------------

-- The numbers of a subscription, but for those that are read off the log. `checkpoint` is NULL if
-- the journal was rotated beneath the snapshot: read again. `lowest` is what a shared
-- subscription's cursor has passed and is not settled: leased, waiting, or not visible yet. The
-- oldest unsettled event is the one at first_open, if that is below first_unread (copied_at: when
-- it entered the log, if there is a copy of it), or the first at or after first_unread. rate:
-- positions per second that the checkpoint (shared: the cursor; the mean of all partitions) has
-- passed since the span before this one began (functions/log/journal.sql). next_attempt_at: when
-- the first of those that are retrying is due. last_event_id: the last event at or below the
-- checkpoint that was settled; each of several partitions knows only its own.
CREATE TYPE holdfast.progress AS (
    id            bigint,
    name          text,
    mode          smallint,
    checkpoint    bigint,
    checkpoint_at timestamptz,
    last_event_id uuid,
    owner         uuid,
    owner_name    text,
    in_flight     bigint,
    retrying      bigint,
    held          bigint,
    blocked       bigint,
    dead          bigint,
    lowest        bigint,
    first_open    bigint,
    first_unread  bigint,
    copied_at     timestamptz,
    owner_alive   boolean,
    unowned       bigint,
    rate          double precision,
    next_attempt_at timestamptz
);

-- A row of stats(). rate: events per second.
CREATE TYPE holdfast.stats AS (
    namespace      text,
    subscription   text,
    head           bigint,
    checkpoint     bigint,
    lag            bigint,
    oldest_waiting interval,
    in_flight      bigint,
    retrying       bigint,
    held           bigint,
    blocked        bigint,
    dead           bigint,
    rate           double precision
);
