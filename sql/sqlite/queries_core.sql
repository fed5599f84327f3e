-- Statements of the connection, the schema, the log and the signs of life.
--
-- Queries marked `hot` run for every event or batch; a test asserts their plans.

-- Settings of a connection. Pragmas act while they are prepared, so they are run unprepared.

-- name: read_encoding
PRAGMA encoding;

-- name: read_page_count
PRAGMA page_count;

-- name: vacuum_incremental
PRAGMA auto_vacuum = INCREMENTAL;

-- name: set_wal
PRAGMA journal_mode = WAL;

-- name: read_journal_mode
PRAGMA journal_mode;

-- name: set_connection
PRAGMA trusted_schema = OFF;
PRAGMA secure_delete = FAST;
PRAGMA mmap_size = 0;
PRAGMA cell_size_check = ON;

-- name: set_writer
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -8192;

-- name: set_reader
PRAGMA query_only = ON;
PRAGMA cache_size = -2048;

-- name: sync_full
PRAGMA synchronous = FULL;

-- name: sync_normal
PRAGMA synchronous = NORMAL;

-- name: read_sync
PRAGMA synchronous;

-- name: data_version
PRAGMA data_version;

-- Transactions.

-- name: begin
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: save
SAVEPOINT holdfast_change;

-- name: release
RELEASE holdfast_change;

-- name: undo
ROLLBACK TO holdfast_change;

-- One delivery of a handler's transaction.

-- name: save_delivery
SAVEPOINT holdfast_delivery;

-- name: release_delivery
RELEASE holdfast_delivery;

-- name: undo_delivery
ROLLBACK TO holdfast_delivery;

-- The schema and the namespace.

-- name: schema_exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'holdfast_meta';

-- name: schema_version
SELECT value FROM holdfast_meta WHERE name = 'schema_version';

-- name: schema_version_put
INSERT INTO holdfast_meta (name, value) VALUES ('schema_version', ?1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: namespace_find
SELECT id FROM holdfast_namespaces WHERE name = ?1;

-- name: namespace_create
INSERT INTO holdfast_namespaces (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- The log.

-- hot
-- name: head
SELECT max(head, ifnull((SELECT place - (?1 << 44) FROM holdfast_events
                         WHERE place > ?1 << 44 AND place <= (?1 << 44) + 17592186044415
                         ORDER BY place DESC LIMIT 1), 0))
    FROM holdfast_namespaces WHERE id = ?1;

-- hot
-- name: append_event
INSERT INTO holdfast_events (place, id, type, payload, key, tenant, metadata, producer, key_version,
                             hash, emitted_at, entered_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- hot
-- name: event_by_id
SELECT place, key_version FROM holdfast_events WHERE id = ?1 AND place >> 44 = ?2;

-- name: key_version
SELECT version FROM holdfast_keys WHERE namespace_id = ?1 AND key = ?2;

-- name: key_version_put
INSERT INTO holdfast_keys (namespace_id, key, version) VALUES (?1, ?2, ?3)
    ON CONFLICT (namespace_id, key) DO UPDATE SET version = excluded.version;

-- hot
-- name: read_log
SELECT place, id, type, payload, key, tenant, metadata, producer, schedule_id, key_version, hash,
       emitted_at, entered_at
    FROM holdfast_events WHERE place > ?1 AND place <= ?2 ORDER BY place;

-- Signs of life.

-- name: token_is_named
SELECT EXISTS (SELECT 1 FROM holdfast_partitions WHERE owner = ?1)
    OR EXISTS (SELECT 1 FROM holdfast_leases WHERE owner = ?1);

-- Conditions that the doctor looks at.

-- name: read_page_size
PRAGMA page_size;

-- name: read_auto_vacuum
PRAGMA auto_vacuum;

-- name: read_freelist_count
PRAGMA freelist_count;
