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

-- name: schema_count
SELECT count(*) FROM sqlite_schema;

-- name: schema_exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'holdfast_meta';

-- What the schema says of itself: its number, the oldest program that may use it, and the release
-- that made it so. Programs of all versions ask this of schemas of all versions.
-- name: schema_facts
SELECT max(CASE name WHEN 'schema_version' THEN CAST(value AS INTEGER) END),
       max(CASE name WHEN 'programs_from' THEN CAST(value AS INTEGER) END),
       max(CASE name WHEN 'schema_release' THEN value END)
    FROM holdfast_meta WHERE name IN ('schema_version', 'programs_from', 'schema_release');

-- name: meta_get
SELECT value FROM holdfast_meta WHERE name = ?1;

-- name: meta_put
INSERT INTO holdfast_meta (name, value) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: namespace_find
SELECT id, removing_at IS NOT NULL, copying IS NOT NULL FROM holdfast_namespaces WHERE name = ?1;

-- Numbers rise, also past those of namespaces that are gone.
-- name: namespace_create
INSERT INTO holdfast_namespaces (id, name, created_at)
    SELECT 1 + max(ifnull((SELECT max(id) FROM holdfast_namespaces), 0),
                   ifnull((SELECT CAST(value AS INTEGER) FROM holdfast_meta
                           WHERE name = 'last_namespace'), 0)), ?1, ?2;

-- name: namespace_list
SELECT n.name, n.metadata, n.created_at, n.removing_at,
       max(n.head, ifnull((SELECT e.place - (n.id << 44) FROM holdfast_events e
                           WHERE e.place > n.id << 44 AND e.place <= (n.id << 44) + 17592186044415
                           ORDER BY e.place DESC LIMIT 1), 0)),
       (SELECT count(*) FROM holdfast_subscriptions s WHERE s.namespace_id = n.id),
       n.retention_ms, n.retention_bytes, n.lagging_drop, n.copying IS NOT NULL, n.type_index
    FROM holdfast_namespaces n WHERE ?1 IS NULL OR n.name = ?1 ORDER BY n.name;

-- name: namespace_change
UPDATE holdfast_namespaces
    SET metadata = ifnull(?2, metadata), retention_ms = ifnull(?3, retention_ms),
        retention_bytes = ifnull(?4, retention_bytes), lagging_drop = ifnull(?5, lagging_drop),
        types_through = CASE WHEN ?6 AND type_index = TYPE_INDEX_DROPPING THEN 0
                             ELSE types_through END,
        type_index = CASE WHEN ?6 AND type_index IN (TYPE_INDEX_OFF, TYPE_INDEX_DROPPING)
                          THEN TYPE_INDEX_BUILDING
                          WHEN NOT ?6 AND type_index <> TYPE_INDEX_OFF THEN TYPE_INDEX_DROPPING
                          ELSE type_index END
    WHERE id = ?1;

-- Removing a namespace: ?1 is its number or that of a subscription, ?2 how many rows at most.

-- name: namespace_mark
UPDATE holdfast_namespaces SET removing_at = ?2 WHERE id = ?1;

-- name: remove_events
DELETE FROM holdfast_events
    WHERE place IN (SELECT place FROM holdfast_events
                    WHERE place > ?1 << 44 AND place <= (?1 << 44) + 17592186044415
                    ORDER BY place LIMIT ?2);

-- name: remove_keys
DELETE FROM holdfast_keys
    WHERE namespace_id = ?1
      AND key IN (SELECT key FROM holdfast_keys WHERE namespace_id = ?1 LIMIT ?2);

-- name: remove_dead_letters
DELETE FROM holdfast_dead_letters
    WHERE id IN (SELECT id FROM holdfast_dead_letters WHERE namespace_id = ?1 LIMIT ?2);

-- name: remove_dead_kinds
DELETE FROM holdfast_dead_kinds
    WHERE namespace_id = ?1
      AND kind_hash IN (SELECT kind_hash FROM holdfast_dead_kinds WHERE namespace_id = ?1
                        LIMIT ?2);

-- name: remove_past_nodes
DELETE FROM holdfast_past_nodes
    WHERE namespace_id = ?1
      AND node_id IN (SELECT node_id FROM holdfast_past_nodes WHERE namespace_id = ?1 LIMIT ?2);

-- name: remove_next_subscription
SELECT id FROM holdfast_subscriptions WHERE namespace_id = ?1 LIMIT 1;

-- name: remove_retries
DELETE FROM holdfast_retries
    WHERE subscription_id = ?1
      AND position IN (SELECT position FROM holdfast_retries WHERE subscription_id = ?1 LIMIT ?2);

-- name: remove_copies
DELETE FROM holdfast_copies
    WHERE subscription_id = ?1
      AND position IN (SELECT position FROM holdfast_copies WHERE subscription_id = ?1 LIMIT ?2);

-- name: remove_settled
DELETE FROM holdfast_settled
    WHERE subscription_id = ?1
      AND (partition, position) IN (SELECT partition, position FROM holdfast_settled
                                    WHERE subscription_id = ?1 LIMIT ?2);

-- name: remove_outcomes
DELETE FROM holdfast_outcomes
    WHERE subscription_id = ?1
      AND number IN (SELECT number FROM holdfast_outcomes WHERE subscription_id = ?1 LIMIT ?2);

-- name: remove_leases
DELETE FROM holdfast_leases
    WHERE token IN (SELECT token FROM holdfast_leases WHERE subscription_id = ?1 LIMIT ?2);

-- name: remove_partitions
DELETE FROM holdfast_partitions
    WHERE subscription_id = ?1
      AND partition IN (SELECT partition FROM holdfast_partitions
                        WHERE subscription_id = ?1 LIMIT ?2);

-- name: namespace_number_keep
INSERT INTO holdfast_meta (name, value) VALUES ('last_namespace', CAST(?1 AS TEXT))
    ON CONFLICT (name) DO UPDATE SET value = CAST(max(CAST(value AS INTEGER), ?1) AS TEXT);

-- name: namespace_delete
DELETE FROM holdfast_namespaces WHERE id = ?1;

-- Hands free pages at the end of the file back to the disk, in files that were made for that.
-- name: vacuum_step
PRAGMA incremental_vacuum(2000);

-- The log.

-- hot
-- name: head
SELECT max(head, ifnull((SELECT place - (?1 << 44) FROM holdfast_events
                         WHERE place > ?1 << 44 AND place <= (?1 << 44) + 17592186044415
                         ORDER BY place DESC LIMIT 1), 0)),
       type_index
    FROM holdfast_namespaces WHERE id = ?1 AND removing_at IS NULL;

-- hot
-- name: append_event
INSERT INTO holdfast_events (place, id, type, payload, key, tenant, metadata, producer, key_version,
                             hash, emitted_at, entered_at, schedule_id, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- Sixteen of them. What a statement costs besides its rows is shared, and the second row is put
-- behind the first one without a search. A row that is refused leaves those before it in place.
-- hot
-- name: append_events
INSERT OR FAIL INTO holdfast_events (place, id, type, payload, key, tenant, metadata, producer,
                                     key_version, hash, emitted_at, entered_at, schedule_id,
                                     checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
           (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

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
       emitted_at, entered_at, checksum
    FROM holdfast_events WHERE place > ?1 AND place <= ?2 ORDER BY place;

-- Signs of life.

-- name: token_is_named
SELECT EXISTS (SELECT 1 FROM holdfast_partitions WHERE owner = ?1)
    OR EXISTS (SELECT 1 FROM holdfast_leases WHERE owner = ?1);

-- name: token_has_something
SELECT EXISTS (SELECT 1 FROM holdfast_partitions WHERE owner = ?1)
    OR EXISTS (SELECT 1 FROM holdfast_leases WHERE owner = ?1)
    OR EXISTS (SELECT 1 FROM holdfast_members WHERE token = ?1);

-- Conditions that the doctor looks at.

-- name: read_page_size
PRAGMA page_size;

-- name: read_auto_vacuum
PRAGMA auto_vacuum;

-- name: read_freelist_count
PRAGMA freelist_count;
