-- Processes that have a namespace open, and nodes that ended lately.

-- Processes that have a namespace open. locked: the session `backend` (its process on the server),
-- which registered it, holds the advisory lock `lock_key`, so the lock's absence means death; the
-- same lock in the hands of another session means nothing. renewals rises while the process runs; a
-- process that sees it unchanged for the time of a lease, by its own clock, calls the process
-- frozen. node_id NULL: it is of a version that had no nodes. given: the id was given.
CREATE TABLE holdfast_private.processes (
    token        uuid PRIMARY KEY,
    renewals     bigint NOT NULL DEFAULT 0,
    started_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    namespace_id integer NOT NULL,
    locked       boolean NOT NULL,
    backend      integer,
    lock_key     bigint,
    node_name    text NOT NULL,
    heartbeat_ms bigint NOT NULL DEFAULT 30000,
    pid          bigint,
    given        boolean NOT NULL DEFAULT false,
    node_id      text COLLATE "C",
    host         text,
    version      text,
    description  text,
    metadata     json,
    role_id      oid NOT NULL DEFAULT quote_ident(current_user)::regrole::oid
) WITH (fillfactor = 50);

-- Of each id the last one that ended. stopped_at NULL: it did not say that it stops. ended_at: when
-- it said so, or when another process noticed.
CREATE TABLE holdfast_private.past_nodes (
    namespace_id integer NOT NULL,
    started_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    stopped_at   timestamptz,
    ended_at     timestamptz NOT NULL,
    heartbeat_ms bigint NOT NULL,
    pid          bigint,
    node_id      text COLLATE "C" NOT NULL,
    node_name    text NOT NULL,
    host         text,
    version      text,
    description  text,
    metadata     json,
    PRIMARY KEY (namespace_id, node_id)
);
CREATE INDEX past_nodes_ended ON holdfast_private.past_nodes (namespace_id, ended_at);
