-- Queries of the log's reading end. {namespace} stands for the number of the namespace.
--
-- Rows of events have the columns of row.h, then `bytes`: how large the texts are that have no
-- small limit of their own; NULL if the event is not wanted, and then all but its position is NULL.
-- Texts that are together larger than 16384 bytes are left out and fetched by read_large, so that
-- the memory for one answer is bounded. A payload that is not compressed is as large as its column,
-- to a few bytes: to make a text of it only to count that would be a tenth of the whole.

-- name: read_settings
-- For the statements that follow in the same transaction. A month without statistics, or one whose
-- statistics are old, must not be sorted or scanned as a whole. (The costs of what is switched off
-- would wake the compiler.) Many rows are worth a plan of their own, which knows whether there is a
-- regular expression at all.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true)

-- name: read_settings_few
-- The same, for few rows: making a plan takes longer than reading them, so the one plan is kept. It
-- is the same but for the parameters, and made under these settings too.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: read_tail
-- $1: after this position; $2: at most so many; $3: regular expression of the types that are
-- wanted, NULL: all are; $4: how many partitions there are, and $5: those that are wanted, a bit
-- each, NULL: all are.
SELECT t.position,
       CASE WHEN t.wanted THEN t.id END,
       CASE WHEN t.wanted THEN t.type END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.payload END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.key END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.tenant END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.metadata END,
       CASE WHEN t.wanted THEN t.producer END,
       CASE WHEN t.wanted THEN t.schedule_id END,
       CASE WHEN t.wanted THEN t.key_version END,
       CASE WHEN t.wanted THEN t.hash END,
       CASE WHEN t.wanted THEN t.emitted_at END,
       CASE WHEN t.wanted THEN t.entered_at END,
       CASE WHEN t.wanted THEN t.checksum END,
       CASE WHEN t.wanted THEN t.bytes END
FROM (SELECT e.*,
             ($4::integer IS NULL
              OR ($5::bigint[])[e.hash % $4 / 64 + 1] >> (e.hash % $4 % 64)::integer & 1 = 1)
                 AND ($3::text IS NULL OR e.type ~ $3::text) AS wanted,
             CASE WHEN pg_column_compression(e.payload) IS NULL THEN pg_column_size(e.payload)
                  ELSE octet_length(e.payload::text) END
                 + coalesce(octet_length(e.metadata::text), 0)
                 + coalesce(octet_length(e.key), 0) + coalesce(octet_length(e.tenant), 0) AS bytes
      FROM holdfast.log_{namespace}() e
      WHERE e.position > $1::bigint
      ORDER BY e.position LIMIT $2::bigint) t
ORDER BY t.position

-- name: read_tail_whole
-- The same for all types and partitions, which spares a comparison for each column. $1: after this
-- position; $2: at most so many.
SELECT t.position, t.id, t.type,
       CASE WHEN t.bytes <= 16384 THEN t.payload END,
       CASE WHEN t.bytes <= 16384 THEN t.key END,
       CASE WHEN t.bytes <= 16384 THEN t.tenant END,
       CASE WHEN t.bytes <= 16384 THEN t.metadata END,
       t.producer, t.schedule_id, t.key_version, t.hash, t.emitted_at, t.entered_at, t.checksum,
       t.bytes
FROM (SELECT e.*,
             CASE WHEN pg_column_compression(e.payload) IS NULL THEN pg_column_size(e.payload)
                  ELSE octet_length(e.payload::text) END
                 + coalesce(octet_length(e.metadata::text), 0)
                 + coalesce(octet_length(e.key), 0) + coalesce(octet_length(e.tenant), 0) AS bytes
      FROM holdfast.log_{namespace}() e
      WHERE e.position > $1::bigint
      ORDER BY e.position LIMIT $2::bigint) t
ORDER BY t.position

-- name: read_holes
-- $1, $2: first and last positions of ranges, in order; $3, $4, $5: as above; $6: at most so many.
-- Each range is read by itself, one after the other, so the rows come in the order of their
-- positions.
SELECT t.position,
       CASE WHEN t.wanted THEN t.id END,
       CASE WHEN t.wanted THEN t.type END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.payload END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.key END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.tenant END,
       CASE WHEN t.wanted AND t.bytes <= 16384 THEN t.metadata END,
       CASE WHEN t.wanted THEN t.producer END,
       CASE WHEN t.wanted THEN t.schedule_id END,
       CASE WHEN t.wanted THEN t.key_version END,
       CASE WHEN t.wanted THEN t.hash END,
       CASE WHEN t.wanted THEN t.emitted_at END,
       CASE WHEN t.wanted THEN t.entered_at END,
       CASE WHEN t.wanted THEN t.checksum END,
       CASE WHEN t.wanted THEN t.bytes END
FROM (SELECT e.*,
             ($4::integer IS NULL
              OR ($5::bigint[])[e.hash % $4 / 64 + 1] >> (e.hash % $4 % 64)::integer & 1 = 1)
                 AND ($3::text IS NULL OR e.type ~ $3::text) AS wanted,
             CASE WHEN pg_column_compression(e.payload) IS NULL THEN pg_column_size(e.payload)
                  ELSE octet_length(e.payload::text) END
                 + coalesce(octet_length(e.metadata::text), 0)
                 + coalesce(octet_length(e.key), 0) + coalesce(octet_length(e.tenant), 0) AS bytes
      FROM unnest($1::bigint[], $2::bigint[]) h (first, last)
      CROSS JOIN LATERAL (SELECT * FROM holdfast.log_{namespace}() e
                          WHERE e.position BETWEEN h.first AND h.last ORDER BY e.position) e
      LIMIT $6::bigint) t

-- name: read_regex
-- $1: patterns. Their regular expression, for $3 above.
SELECT holdfast.patterns_regex($1::text[])

-- name: read_large
-- $1: positions.
SELECT e.position, e.id, e.type, e.payload, e.key, e.tenant, e.metadata, e.producer, e.schedule_id,
       e.key_version, e.hash, e.emitted_at, e.entered_at, e.checksum
FROM holdfast.log_{namespace}() e
WHERE e.position = ANY ($1::bigint[])

-- name: read_server_start
SELECT pg_postmaster_start_time()

-- name: read_holders
-- Who is publishing (functions/log/append.sql): those that have drawn a position and have not
-- ended, prepared transactions (without a process) included. At least one row, whose transaction is
-- NULL if there is none.
SELECT s.start, split_part(l.virtualtransaction, '/', 1)::bigint,
       split_part(l.virtualtransaction, '/', 2)::bigint, l.pid
FROM (SELECT pg_postmaster_start_time()) s (start)
LEFT JOIN holdfast.publishing_now({namespace}) l ON true

-- name: read_head
SELECT holdfast.head({namespace})

-- name: node_list
-- $1: who asks; $2 NULL: all.
SELECT * FROM holdfast.node_list({namespace}, $1, $2)

-- ---- By type ------------------------------------------------------------------------------------

-- name: types_state
SELECT n.type_index, holdfast.head(n.id) FROM holdfast.read_namespaces() n
    WHERE n.id = {namespace}

-- name: read_types
SELECT (t.event).position, (t.event).id, (t.event).type, (t.event).payload, (t.event).key,
       (t.event).tenant, (t.event).metadata, (t.event).producer, (t.event).schedule_id,
       (t.event).key_version, (t.event).hash, (t.event).emitted_at, (t.event).entered_at,
       (t.event).checksum, t.known
    FROM holdfast.read_types({namespace}, $1, $2, $3, $4) t

-- name: type_positions
SELECT holdfast.type_positions({namespace}, $1, $2, $3, $4)
