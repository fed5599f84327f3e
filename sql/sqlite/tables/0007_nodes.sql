-- Nodes that ended lately. Who is there has a live file beside the database; when the file goes,
-- what it said goes on here for a day. Of each id the last one that ended. stopped_at NULL: it did
-- not say that it stops. ended_at: when it said so, or when another process noticed.
CREATE TABLE holdfast_past_nodes (
    namespace_id INTEGER NOT NULL,
    node_id      TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,
    stopped_at   INTEGER,
    ended_at     INTEGER NOT NULL,
    heartbeat_ms INTEGER NOT NULL,
    pid          INTEGER NOT NULL,
    node_name    TEXT NOT NULL,
    host         TEXT,
    version      TEXT,
    description  TEXT,
    metadata     TEXT,
    PRIMARY KEY (namespace_id, node_id)
) WITHOUT ROWID;

CREATE INDEX holdfast_past_nodes_ended ON holdfast_past_nodes (namespace_id, ended_at);
