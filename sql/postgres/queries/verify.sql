-- Statements of `verify` (src/store/verify.h), which looks for damage in all namespaces at once.
-- They may read whole tables. None of them writes. What belongs to a namespace that is being
-- removed need not fit together any more.
--
-- An event is looked up by a subquery with LIMIT 1, which is no join: the log's index is searched
-- for each row, and the log is never read as a whole for the sake of a few rows.

-- ---- Checks: sentences, at most $1 --------------------------------------------------------------

-- Everything in the schema as one JSON object: what it is and its name, and a digest of its
-- definition. Rights and settings of storage are left to the administrator. What each namespace has
-- of its own is left out (verify_log looks at it), but not what lies on its tables: none of ours
-- does. Constraints of the kind n are those of NOT NULL columns, which only newer servers list. A
-- role that does not see all namespaces sees their tables. A view that is locked has no digest
-- (locked): any role that may use the schema holdfast can lock its views. `server`: definitions are
-- written by the server, and another version may write them otherwise.
--   How the server writes them depends on the session, too: on how times, intervals, bytes, names
-- and texts are written. `pinned` sets that for this transaction before anything is written.
-- name: schema_objects
WITH pinned AS MATERIALIZED (
    SELECT count(set_config(s.name, s.value, true)) AS settings
    FROM (VALUES ('timezone', 'UTC'), ('datestyle', 'ISO, MDY'), ('intervalstyle', 'postgres'),
                 ('bytea_output', 'hex'), ('extra_float_digits', '1'),
                 ('quote_all_identifiers', 'off'), ('standard_conforming_strings', 'on'))
        s (name, value)),
log AS MATERIALIZED (
    SELECT c.oid, c.relname FROM pg_partition_tree(holdfast.log_root()) t
    JOIN pg_class c ON c.oid = t.relid::oid WHERE t.parentrelid IS NOT NULL),
own AS MATERIALIZED (
    SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
           c.reloptions, c.oid IN (SELECT l.oid FROM log l) AS is_log
    FROM pinned, pg_class c
    WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)),
spaces (id) AS MATERIALIZED (
    SELECT n.id::text FROM holdfast.read_namespaces() n UNION SELECT substr(l.relname, 8)
    FROM log l),
listed (what, definition) AS (
    SELECT format('%s %s',
                  CASE o.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' WHEN 'c' THEN 'type'
                                 WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                                 ELSE 'table' END, o.relname),
           concat_ws(' ', o.relkind, o.relpersistence, o.relrowsecurity, o.relforcerowsecurity,
                     CASE WHEN o.relkind = 'v' THEN concat(o.reloptions, v.text) END,
                     CASE WHEN o.relkind = 'p' THEN pg_get_partkeydef(o.oid) END,
                     (SELECT concat_ws(' ', s.seqtypid::regtype, s.seqincrement, s.seqmin, s.seqmax,
                                       s.seqcycle)
                      FROM pg_sequence s WHERE s.seqrelid = o.oid),
                     (SELECT string_agg(concat_ws(' ', a.attname, format_type(
                         a.atttypid, a.atttypmod), a.attnotnull,
                                                  a.attidentity, a.attgenerated,
                                                  a.attcollation::regcollation,
                                                  pg_get_expr(d.adbin, d.adrelid)), ', '
                                        ORDER BY a.attnum)
                      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid
                          AND d.adnum = a.attnum
                      WHERE a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
                          AND o.relkind <> 'S'))
           || CASE WHEN o.relkind = 'v' AND v.text IS NULL THEN NULL ELSE '' END
    FROM own o CROSS JOIN LATERAL (SELECT CASE WHEN o.relkind = 'v'
                                                   THEN holdfast.view_text(o.oid) END AS text) v
    WHERE o.relkind NOT IN ('i', 'I') AND NOT o.is_log
        AND NOT (o.relkind = 'S' AND o.relname IN (SELECT 'events_' || s.id || v.name
                                                   FROM spaces s,
                                                       (VALUES ('_position'), ('_sleep')) v (name)))
    UNION ALL
    SELECT format('constraint %s on %s', k.conname, coalesce(o.relname, t.typname)),
           concat_ws(' ', pg_get_constraintdef(k.oid), k.convalidated)
    FROM pg_constraint k LEFT JOIN own o ON o.oid = k.conrelid
    LEFT JOIN pg_type t ON t.oid = k.contypid
    WHERE k.connamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND k.contype <> 'n' AND NOT coalesce(o.is_log, false)
    UNION ALL
    SELECT format('index %s on %s', x.relname, o.relname),
           concat_ws(' ', pg_get_indexdef(x.oid), i.indisvalid)
    FROM pg_index i JOIN own o ON o.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
    WHERE NOT o.is_log
    UNION ALL
    SELECT format('trigger %s on %s', t.tgname, o.relname),
           concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
    FROM pg_trigger t JOIN own o ON o.oid = t.tgrelid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT format('rule %s on %s', r.rulename, o.relname),
           concat_ws(' ', pg_get_ruledef(r.oid), r.ev_enabled)
    FROM pg_rewrite r JOIN own o ON o.oid = r.ev_class WHERE r.rulename <> '_RETURN'
    UNION ALL
    SELECT format('policy %s on %s', p.polname, o.relname),
           concat_ws(' ', p.polcmd, p.polpermissive, p.polroles::regrole[],
                     pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
    FROM pg_policy p JOIN own o ON o.oid = p.polrelid
    UNION ALL
    SELECT format('function %s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
           CASE WHEN p.prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) ELSE p.prokind::text END
    FROM pinned, pg_proc p
    WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND p.proname NOT IN (SELECT v.name || s.id
                              FROM spaces s, (VALUES ('append_'), ('claim_'), ('lease_events_'),
                                          ('pending_'), ('log_'), ('times_'), ('drawn_')) v (name))
    UNION ALL
    SELECT format('type %s', t.typname),
           concat_ws(' ', t.typtype, format_type(t.typbasetype, t.typtypmod), t.typnotnull,
                     t.typdefault)
    FROM pinned, pg_type t
    WHERE t.typnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND t.typelem = 0 AND t.typtype <> 'c'
    UNION ALL
    SELECT format('operator %s(%s, %s)', p.oprname, p.oprleft::regtype, p.oprright::regtype),
           p.oprcode::text
    FROM pinned, pg_operator p
    WHERE p.oprnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace))
SELECT (jsonb_object_agg(l.what, coalesce(md5(l.definition), 'locked'))
        || jsonb_build_object('server',
                              current_setting('server_version_num')::integer / 10000))::text
FROM listed l;

-- What schema_objects has answered ($2) and what it answered when the schema was migrated. On a
-- server of another version only names are compared. $3: the version of this program. A namespace
-- may have more of its own in a newer schema than this program knows: what is called like that
-- (extra_1) is not taken for a stranger's there.
-- name: verify_schema
WITH wanted AS MATERIALIZED (
    SELECT m.value::jsonb AS objects FROM holdfast.read_meta() m WHERE m.name = 'schema_objects'),
found AS MATERIALIZED (SELECT $2::text::jsonb AS objects),
compared AS (
    SELECT coalesce(w.key, f.key) AS what, w.value AS wanted, f.value AS found
    FROM (SELECT e.key, e.value FROM wanted, jsonb_each_text(wanted.objects) e) w
    FULL JOIN (SELECT e.key, e.value FROM found, jsonb_each_text(found.objects) e) f
        ON f.key = w.key)
SELECT format('%s %s', c.what, CASE WHEN c.found IS NULL THEN 'is missing'
                                    WHEN c.wanted IS NULL THEN 'does not belong to Holdfast'
                                    ELSE 'is not as this program made it' END)
FROM compared c, wanted w, found f
WHERE c.what <> 'server'
    AND (c.found IS NULL OR c.wanted IS NULL
         OR (c.found <> c.wanted AND 'locked' NOT IN (c.found, c.wanted)
             AND w.objects -> 'server' = f.objects -> 'server'))
    AND NOT (c.wanted IS NULL AND c.what ~ '_[0-9]+([_( ]|$)'
             AND EXISTS (SELECT FROM holdfast.read_meta() m
                         WHERE m.name = 'schema_version' AND m.value::bigint > $3::bigint))
UNION ALL
SELECT 'the schema was not made by a program of this version: what its objects have to be is '
       'not recorded'
WHERE NOT EXISTS (SELECT FROM wanted)
LIMIT $1::bigint;

-- What each namespace has of its own: months with the columns of the log and two indexes, functions
-- that are made of a text, sequences. Retention takes months away meanwhile: what is gone has no
-- definition.
-- name: verify_log
WITH months AS MATERIALIZED (
    SELECT c.oid, c.relname, c.relkind FROM pg_partition_tree(holdfast.log_root()) t
    JOIN pg_class c ON c.oid = t.relid::oid WHERE t.parentrelid IS NOT NULL),
indexes AS MATERIALIZED (
    SELECT m.relname, x.relname AS name, CASE
               WHEN NOT i.indisvalid OR i.indpred IS NOT NULL OR i.indexprs IS NOT NULL THEN ''
               ELSE concat(CASE WHEN i.indisunique THEN 'UNIQUE ' END,
                           (SELECT string_agg(a.attname, ', ' ORDER BY k.at)
                            FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k (number, at)
                            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number))
                                                  END AS columns
    FROM months m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class x ON x.oid = i.indexrelid),
columns AS MATERIALIZED (
    SELECT r.oid, r.relname,
           string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                                a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid)), ', '
                      ORDER BY a.attname) AS text
    FROM (SELECT m.oid, m.relname FROM months m UNION ALL SELECT holdfast.log_root()::oid,
                 'events') r
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    GROUP BY r.oid, r.relname)
SELECT format('the index (%s) of table %s is missing', lower(v.columns), m.relname)
    FROM months m CROSS JOIN (VALUES ('UNIQUE id, guard_at'), ('position')) v (columns)
    WHERE m.relkind = 'r'
        AND NOT EXISTS (SELECT FROM indexes i WHERE i.relname = m.relname AND i.columns = v.columns)
UNION ALL
SELECT format('the index (type, position) of table %s is missing', m.relname)
    FROM months m JOIN holdfast.read_namespaces() n
        ON n.id::text = split_part(m.relname, '_', 2) AND n.type_index = TYPE_INDEX_ON
    WHERE m.relkind = 'r' AND NOT EXISTS (SELECT FROM indexes i WHERE i.relname = m.relname
                                              AND i.columns = 'type, position')
UNION ALL
SELECT format('index %s on %s does not belong to Holdfast', i.name, i.relname)
    FROM indexes i WHERE i.columns NOT IN ('UNIQUE id, guard_at', 'position')
        -- one that is being built or dropped is not valid
        AND NOT (i.name = i.relname || '_type' AND i.columns IN ('type, position', '')
                 AND EXISTS (SELECT FROM holdfast.read_namespaces() n
                             WHERE n.id::text = split_part(i.relname, '_', 2)
                                 AND n.type_index <> TYPE_INDEX_OFF))
UNION ALL
SELECT format('table %s is not as this program made it: its columns are not those of the log',
              c.relname)
    FROM columns c WHERE c.text <> (SELECT e.text FROM columns e WHERE e.oid = holdfast.log_root())
UNION ALL
SELECT format('function %s %s', v.name,
              CASE WHEN p.oid IS NULL THEN 'is missing' ELSE 'is not as this program made it' END)
    FROM holdfast.read_namespaces() n
    CROSS JOIN (VALUES ('{' || 'namespace}')) mark (text) -- in one piece it would be filled in here
    CROSS JOIN LATERAL (VALUES ('append_', holdfast.append_source()),
                        ('claim_', holdfast.claim_source()),
                               ('lease_events_', holdfast.lease_events_source()),
                               ('pending_', holdfast.pending_source())) w (name, source)
    CROSS JOIN LATERAL (SELECT w.name || n.id,
                               replace(w.source, mark.text, n.id::text)) v (name, source)
    LEFT JOIN pg_proc p ON p.proname = v.name AND p.pronamespace = 'holdfast'::regnamespace
    WHERE n.removing_at IS NULL AND (p.oid IS NULL OR strpos(v.source, p.prosrc) = 0)
LIMIT $1::bigint;

-- name: verify_orphan
WITH owned (what, owner) AS (
    SELECT 'partitions', subscription_id FROM holdfast.read_partitions()
    UNION ALL SELECT 'leases', subscription_id FROM holdfast.read_leases()
    UNION ALL SELECT 'retries', subscription_id FROM holdfast.read_retries()
    UNION ALL SELECT 'outcomes', subscription_id FROM holdfast.read_outcomes()
    UNION ALL SELECT 'cancels', subscription_id FROM holdfast.read_cancels()
    UNION ALL SELECT 'copies', subscription_id FROM holdfast.read_copies()
    UNION ALL SELECT 'settled', subscription_id FROM holdfast.read_settled()
    UNION ALL SELECT 'rates', subscription_id FROM holdfast.read_rates()),
spaced (what, owner) AS (
    SELECT 'subscriptions', namespace_id FROM holdfast.read_subscriptions()
    UNION ALL SELECT 'keys', namespace_id FROM holdfast.read_keys()
    UNION ALL SELECT 'event_ids', namespace_id FROM holdfast.read_event_ids()
    UNION ALL SELECT 'dead_letters', namespace_id FROM holdfast.read_letters()
    UNION ALL SELECT 'dead_kinds', namespace_id FROM holdfast.read_dead_kinds()
    UNION ALL SELECT 'schedules', namespace_id FROM holdfast.read_schedules()
    UNION ALL SELECT 'delayed', namespace_id FROM holdfast.read_delayed()
    UNION ALL SELECT 'uniques', namespace_id FROM holdfast.read_uniques())
SELECT format('%s rows of %s belong to subscription %s, which does not exist', count(*), o.what,
              o.owner)
    FROM owned o
    WHERE NOT EXISTS (SELECT FROM holdfast.read_subscriptions() s WHERE s.id = o.owner)
    GROUP BY o.what, o.owner
UNION ALL
SELECT format('%s rows of %s belong to namespace %s, which does not exist', count(*), o.what,
              o.owner)
    FROM spaced o
    WHERE NOT EXISTS (SELECT FROM holdfast.read_namespaces() n WHERE n.id = o.owner)
    GROUP BY o.what, o.owner
UNION ALL
SELECT format('%s rows of schedule_runs belong to a schedule that does not exist', count(*))
    FROM holdfast.read_schedule_runs() r
    WHERE NOT EXISTS (SELECT FROM holdfast.read_schedules() s WHERE s.id = r.schedule_id)
    HAVING count(*) > 0
UNION ALL
SELECT format('the table %s of the log belongs to no namespace', c.relname)
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = holdfast.log_root() AND has_table_privilege(c.oid, 'SELECT')
        AND NOT EXISTS (SELECT FROM holdfast.read_namespaces() n
                        WHERE c.relname = 'events_' || n.id)
LIMIT $1::bigint;

-- Positions are read before the newest one, which only grows.
-- name: verify_tip
WITH lasts AS MATERIALIZED (
    SELECT n.id, n.name,
           (SELECT e.position FROM holdfast.read_events() e WHERE e.namespace_id = n.id
            ORDER BY e.position DESC LIMIT 1) AS last
    FROM holdfast.read_namespaces() n WHERE n.removing_at IS NULL)
SELECT format('namespace "%s": the log has position %s, but the newest one given is %s', l.name,
              l.last, holdfast.head(l.id))
FROM lasts l WHERE l.last > holdfast.head(l.id)
LIMIT $1::bigint;

-- name: verify_month
SELECT format('namespace "%s": the table %s of the log is missing', n.name,
              holdfast.month_table(n.id, m.month AT TIME ZONE 'UTC'))
FROM holdfast.read_namespaces() n
CROSS JOIN LATERAL generate_series(
    CASE WHEN isfinite(n.months_from) AND isfinite(n.months_to)
        THEN n.months_from AT TIME ZONE 'UTC' END,
    n.months_to AT TIME ZONE 'UTC' - interval '1 day', interval '1 month') m (month)
WHERE n.removing_at IS NULL
    AND NOT holdfast.month_exists(n.id, m.month AT TIME ZONE 'UTC')
LIMIT $1::bigint;

-- Only gapless namespaces have no gaps. The head is that of the same snapshot as the events.
-- name: verify_lost
WITH spaces AS (
    SELECT n.id, n.name, h.head, greatest(n.retained_through, n.gapless_after) AS floor
    FROM holdfast.read_namespaces() n JOIN holdfast.read_heads() h ON h.namespace_id = n.id
    WHERE n.gapless AND n.removing_at IS NULL AND n.copying IS NULL),
logged AS (
    SELECT s.name, coalesce(lag(e.position) OVER (PARTITION BY s.id ORDER BY e.position),
                            s.floor) + 1 AS low,
           e.position - 1 AS high
    FROM spaces s JOIN holdfast.read_events() e ON e.namespace_id = s.id AND e.position > s.floor),
ends AS (
    SELECT s.name, coalesce((SELECT max(e.position) FROM holdfast.read_events() e
                             WHERE e.namespace_id = s.id AND e.position > s.floor),
                            s.floor) + 1 AS low,
           s.head AS high
    FROM spaces s)
SELECT format('namespace "%s": the events at positions %s to %s are missing', g.name, g.low, g.high)
FROM (SELECT * FROM logged UNION ALL SELECT * FROM ends) g WHERE g.low <= g.high
LIMIT $1::bigint;

-- name: verify_doubled
SELECT format('namespace "%s": id %s is stored %s times', n.name, d.id, d.times)
FROM (SELECT e.namespace_id, e.id, count(*) AS times FROM holdfast.read_events() e
      GROUP BY e.namespace_id, e.id HAVING count(*) > 1) d
JOIN holdfast.read_namespaces() n ON n.id = d.namespace_id AND n.removing_at IS NULL
LIMIT $1::bigint;

-- name: verify_partitions
SELECT format('namespace "%s", subscription "%s": it has %s partitions, and rows for %s', n.name,
              s.name, w.rows, f.rows)
FROM holdfast.read_subscriptions() s
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
CROSS JOIN LATERAL (SELECT CASE s.mode WHEN 1 THEN s.partitions ELSE 1 END AS rows) w
CROSS JOIN LATERAL (SELECT count(*) AS rows, max(p.partition) AS highest
                    FROM holdfast.read_partitions() p
                    WHERE p.subscription_id = s.id) f
WHERE f.rows <> w.rows OR f.highest <> w.rows - 1
LIMIT $1::bigint;

-- A partition without a checkpoint may be one whose journal was rotated at this moment: a check
-- that finds something asks again.
-- name: verify_checkpoint
WITH found AS MATERIALIZED (
    SELECT n.id, n.name AS namespace, s.name, s.start, c.partition, c.checkpoint
    FROM holdfast.read_checkpoints() c
    JOIN holdfast.read_subscriptions() s ON s.id = c.subscription_id
    JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL),
tips AS MATERIALIZED (SELECT n.id, holdfast.head(n.id) AS tip FROM holdfast.read_namespaces() n
                          WHERE n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s", partition %s: %s', f.namespace, f.name,
              f.partition,
              CASE WHEN f.checkpoint IS NULL THEN 'it has no checkpoint'
                   WHEN f.checkpoint > t.tip
                       THEN format('the checkpoint is %s, but the newest position is %s',
                                   f.checkpoint, t.tip)
                   ELSE format('the checkpoint is %s, but it began after position %s', f.checkpoint,
                               f.start) END)
FROM found f JOIN tips t ON t.id = f.id
WHERE f.checkpoint IS NULL OR f.checkpoint > t.tip OR f.checkpoint < f.start
LIMIT $1::bigint;

-- name: verify_retry
SELECT format('namespace "%s", subscription "%s": the delivery of position %s %s', n.name, s.name,
              r.position,
              CASE WHEN r.kind NOT BETWEEN RETRY_WAITING AND RETRY_ALONE
                       THEN format('is of kind %s, which means nothing', r.kind)
                   WHEN r.cause NOT IN (CAUSE_ANY)
                       THEN format('has the cause "%s", which means nothing', r.cause)
                   WHEN (r.unit_first IS NULL) <> (r.unit_events IS NULL) OR r.unit_events < 2
                       OR r.unit_first > r.position
                       THEN format('failed in a unit that cannot be: %s events from position %s on',
                                   coalesce(r.unit_events::text, '?'),
                                   coalesce(r.unit_first::text, '?'))
                   ELSE 'waits, but the event is neither in the log nor among the copies' END)
FROM holdfast.read_retries() r
JOIN holdfast.read_subscriptions() s ON s.id = r.subscription_id
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind NOT BETWEEN RETRY_WAITING AND RETRY_ALONE
    OR r.cause NOT IN (CAUSE_ANY)
    OR (r.unit_first IS NULL) <> (r.unit_events IS NULL)
    OR r.unit_events < 2 OR r.unit_first > r.position
    OR ((SELECT 1 FROM holdfast.read_events() e
         WHERE e.namespace_id = s.namespace_id AND e.position = r.position LIMIT 1) IS NULL
        AND (SELECT 1 FROM holdfast.read_copies() c
             WHERE c.subscription_id = r.subscription_id
                 AND c.position = r.position LIMIT 1) IS NULL)
LIMIT $1::bigint;

-- name: verify_held
SELECT format('namespace "%s", subscription "%s": the delivery of position %s is held, but '
              'nothing of its lane is before it', n.name, s.name, r.position)
FROM holdfast.read_retries() r
JOIN holdfast.read_subscriptions() s ON s.id = r.subscription_id
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.kind = RETRY_HELD
    AND (SELECT 1 FROM holdfast.read_retries() b
         WHERE b.subscription_id = r.subscription_id AND b.partition = r.partition
             AND b.lane = r.lane AND b.position < r.position LIMIT 1) IS NULL
LIMIT $1::bigint;

-- name: verify_slice
WITH placed (what, subscription_id, position, partition) AS (
    SELECT 'waiting', subscription_id, position, partition FROM holdfast.read_retries()
    UNION ALL SELECT 'settled', subscription_id, position, partition FROM holdfast.read_settled()),
hashed AS (
    SELECT n.name AS namespace, s.name, s.partitions, p.what, p.position, p.partition,
           coalesce((SELECT c.hash FROM holdfast.read_copies() c
                     WHERE c.subscription_id = p.subscription_id
                         AND c.position = p.position LIMIT 1),
                    (SELECT e.hash FROM holdfast.read_events() e
                     WHERE e.namespace_id = s.namespace_id AND e.position = p.position LIMIT 1))
        AS hash
    FROM placed p
    JOIN holdfast.read_subscriptions() s ON s.id = p.subscription_id AND s.mode = HF_MODE_ORDERED
    JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s": the %s delivery of position %s is in partition '
              '%s, its event belongs to %s', h.namespace, h.name, h.what, h.position, h.partition,
              h.hash % h.partitions)
FROM hashed h WHERE h.partition <> h.hash % h.partitions
LIMIT $1::bigint;

-- name: verify_copy
SELECT format('namespace "%s", subscription "%s": the copy of the event at position %s belongs '
              'to no delivery', n.name, s.name, c.position)
FROM holdfast.read_copies() c
JOIN holdfast.read_subscriptions() s ON s.id = c.subscription_id
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE NOT EXISTS (SELECT FROM holdfast.read_retries() r
                  WHERE r.subscription_id = c.subscription_id AND r.position = c.position)
LIMIT $1::bigint;

-- name: verify_settled
WITH found AS MATERIALIZED (
    SELECT n.id, n.name AS namespace, s.name, d.position
    FROM holdfast.read_settled() d
    JOIN holdfast.read_subscriptions() s ON s.id = d.subscription_id
    JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL),
tips AS MATERIALIZED (SELECT n.id, holdfast.head(n.id) AS tip FROM holdfast.read_namespaces() n
                          WHERE n.removing_at IS NULL)
SELECT format('namespace "%s", subscription "%s": position %s is settled, but the newest '
              'position is %s',
              f.namespace, f.name, f.position, t.tip)
FROM found f JOIN tips t ON t.id = f.id
WHERE f.position > t.tip
LIMIT $1::bigint;

-- A lease whose number is wrong is not looked into: it may claim any number of positions.
-- name: verify_lease
SELECT format('namespace "%s", subscription "%s", lease of "%s": %s', n.name, s.name,
              coalesce(l.owner_name, 'no process'),
              CASE WHEN k.count IS DISTINCT FROM l.count THEN 'the list of its positions is damaged'
                   ELSE format('the event at position %s is neither in the log nor '
                               'among the copies',
                               m.position) END)
FROM holdfast.read_leases() l
JOIN holdfast.read_subscriptions() s ON s.id = l.subscription_id
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
CROSS JOIN LATERAL (SELECT sum(upper(r) - lower(r)) AS count FROM unnest(l.positions) r) k
LEFT JOIN LATERAL (
    SELECT p AS position
    FROM unnest(CASE WHEN k.count = l.count THEN l.positions END) r,
         generate_series(lower(r), upper(r) - 1) p
    WHERE (SELECT 1 FROM holdfast.read_events() e
           WHERE e.namespace_id = s.namespace_id AND e.position = p LIMIT 1) IS NULL
        AND (SELECT 1 FROM holdfast.read_copies() c
             WHERE c.subscription_id = l.subscription_id AND c.position = p LIMIT 1) IS NULL
    LIMIT 1) m ON true
WHERE k.count IS DISTINCT FROM l.count OR m.position IS NOT NULL
LIMIT $1::bigint;

-- The event of a key may be gone: by retention, or because it waited and was cancelled. Keys are
-- read before the newest position, which only grows.
-- name: verify_unique
WITH found AS MATERIALIZED (
    SELECT n.id, n.name, u.key, u.position, u.id AS event_id, u.sweep_at < u.until AS early,
           u.until = 'infinity' AS endless
    FROM holdfast.read_uniques() u
    JOIN holdfast.read_namespaces() n ON n.id = u.namespace_id AND n.removing_at IS NULL),
tips AS MATERIALIZED (SELECT n.id, holdfast.head(n.id) AS tip FROM holdfast.read_namespaces() n
                          WHERE n.removing_at IS NULL),
faults AS (
    SELECT f.name, f.key,
           CASE WHEN f.position < 1 OR f.position > t.tip
                    THEN format('it has position %s, but the newest position is %s', f.position,
                                t.tip)
                WHEN f.endless THEN 'its time never ends'
                WHEN f.early THEN 'it is removed before its time is over'
                WHEN (SELECT e.id FROM holdfast.read_events() e
                      WHERE e.namespace_id = f.id AND e.position = f.position LIMIT 1)
                     <> f.event_id
                    THEN format('the event at position %s is another one', f.position) END AS fault
    FROM found f JOIN tips t ON t.id = f.id)
SELECT format('namespace "%s", unique key "%s": %s', f.name, f.key, f.fault)
FROM faults f WHERE f.fault IS NOT NULL
LIMIT $1::bigint;

-- name: verify_rate
SELECT format('namespace "%s", subscription "%s": its rate was taken at %s, which has not come yet',
              n.name, s.name,
              to_char(r.empty_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
FROM holdfast.read_rates() r
JOIN holdfast.read_subscriptions() s ON s.id = r.subscription_id
JOIN holdfast.read_namespaces() n ON n.id = s.namespace_id AND n.removing_at IS NULL
WHERE r.empty_at > clock_timestamp() + interval '1 minute'
LIMIT $1::bigint;

-- name: verify_dead_kind
WITH counted AS (
    SELECT namespace_id, kind_hash, letters, 0 AS stored FROM holdfast.read_dead_kinds()
    UNION ALL
    SELECT namespace_id, kind_hash, 0, count(*) FROM holdfast.read_letters()
    WHERE resolved_at IS NULL GROUP BY namespace_id, kind_hash),
compared AS (
    SELECT namespace_id, sum(letters) AS letters, sum(stored) AS stored
    FROM counted GROUP BY namespace_id, kind_hash HAVING sum(letters) <> sum(stored))
SELECT format('namespace "%s": dead letters of one kind are counted as %s and are %s', n.name,
              c.letters, c.stored)
FROM compared c JOIN holdfast.read_namespaces() n
    ON n.id = c.namespace_id AND n.removing_at IS NULL AND n.copying IS NULL
LIMIT $1::bigint;

-- name: verify_rights
SELECT format('%s sees only what was granted to it', current_user)
WHERE NOT holdfast.passes() LIMIT $1::bigint;

-- ---- Scans: rows after the key ($1, $2, $3), at most $4 -----------------------------------------
--
-- first, second (the key; of what is an event the position), subject, id, hash, type, tenant, key,
-- payload, metadata, story; of events then producer, schedule_id, key_version, emitted_at,
-- entered_at, checksum

-- The events of namespace $1, from the next position that there is on so many positions at the
-- most: a month without statistics must not be sorted as a whole for each chunk. Ends after the row
-- that makes more than 4 MiB of them.
-- name: verify_events
SELECT t.namespace_id::bigint, t.position,
       format('namespace "%s", event at position %s', t.name, t.position),
       t.id, t.hash, t.type, t.tenant, t.key, t.payload, t.metadata, NULL::text,
       t.producer, t.schedule_id, t.key_version, t.emitted_at, t.entered_at, t.checksum
FROM (SELECT w.*, n.name, sum(w.bytes) OVER (ORDER BY w.position, w.id) - w.bytes AS before
      FROM (SELECT e.*, octet_length(e.payload::text)
                        + coalesce(octet_length(e.metadata::text), 0)
                        + coalesce(octet_length(e.key), 0)
                        + coalesce(octet_length(e.tenant), 0) AS bytes
            FROM holdfast.read_events() e
            WHERE e.namespace_id = $1::bigint::integer AND e.position >= $2::bigint
                AND (e.position > $2::bigint OR e.id > $3::uuid)
                AND e.position < $4::bigint + coalesce(
                    (SELECT x.position FROM holdfast.read_events() x
                     WHERE x.namespace_id = $1::bigint::integer AND x.position > $2::bigint
                     ORDER BY x.position LIMIT 1), $2::bigint)
            ORDER BY e.position, e.id LIMIT $4::bigint) w
      JOIN holdfast.read_namespaces() n ON n.id = w.namespace_id) t
WHERE t.before <= 4194304
ORDER BY t.position, t.id;

-- name: verify_next_namespace
SELECT min(n.id)::bigint FROM holdfast.read_namespaces() n WHERE n.id > $1::bigint;

-- name: verify_copies
SELECT c.subscription_id, c.position,
       format('copy of the event at position %s for subscription "%s"', c.position,
              coalesce((SELECT s.name FROM holdfast.read_subscriptions() s
                        WHERE s.id = c.subscription_id),
                       '?')),
       c.id, c.hash, c.type, c.tenant, c.key, c.payload, c.metadata, NULL::text,
       c.producer, c.schedule_id, c.key_version, c.emitted_at, c.entered_at, c.checksum
FROM holdfast.read_copies() c
WHERE (c.subscription_id, c.position) > ($1::bigint, $2::bigint) AND $3::uuid IS NOT NULL
ORDER BY c.subscription_id, c.position LIMIT $4::bigint;

-- name: verify_dead_letters
SELECT d.id, d.position,
       format('dead letter %s of subscription "%s"', d.id, d.subscription),
       d.event_id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, d.story,
       d.producer, d.schedule_id, d.key_version, d.emitted_at, d.entered_at, d.checksum
FROM holdfast.read_letters() d
WHERE d.id > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY d.id LIMIT $4::bigint;

-- name: verify_retries
SELECT r.subscription_id, r.position,
       format('delivery of position %s that waits for subscription "%s"', r.position,
              coalesce((SELECT s.name FROM holdfast.read_subscriptions() s
                        WHERE s.id = r.subscription_id),
                       '?')),
       NULL::uuid, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::json, NULL::json, r.story
FROM holdfast.read_retries() r
WHERE (r.subscription_id, r.position) > ($1::bigint, $2::bigint) AND $3::uuid IS NOT NULL
ORDER BY r.subscription_id, r.position LIMIT $4::bigint;

-- name: verify_outcomes
SELECT o.subscription_id, o.position,
       format('delivery of position %s that failed before it was done for subscription "%s"',
              o.position,
              coalesce((SELECT s.name FROM holdfast.read_subscriptions() s
                        WHERE s.id = o.subscription_id),
                       '?')),
       NULL::uuid, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::json, NULL::json, o.story
FROM holdfast.read_outcomes() o
WHERE (o.subscription_id, o.position) > ($1::bigint, $2::bigint) AND $3::uuid IS NOT NULL
ORDER BY o.subscription_id, o.position LIMIT $4::bigint;

-- name: verify_subscriptions
SELECT s.id, 0::bigint, format('subscription "%s"', s.name),
       NULL::uuid, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::json, s.options,
       s.patterns
FROM holdfast.read_subscriptions() s
WHERE s.id > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY s.id LIMIT $4::bigint;

-- name: verify_schedules
SELECT 0::bigint, 0::bigint, format('schedule "%s"', s.name),
       s.id, NULL::bigint, s.type, s.tenant, s.key, s.payload, s.metadata, NULL::text
FROM holdfast.read_schedules() s
WHERE s.id > $3::uuid AND $1::bigint IS NOT NULL AND $2::bigint IS NOT NULL
ORDER BY s.id LIMIT $4::bigint;

-- name: verify_delayed
SELECT d.number, 0::bigint, format('event for later, number %s', d.number),
       d.id, d.hash, d.type, d.tenant, d.key, d.payload, d.metadata, NULL::text,
       d.producer, NULL::text, NULL::bigint, d.emitted_at, NULL::timestamptz, d.checksum
FROM holdfast.read_delayed() d
WHERE d.number > $1::bigint AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL
ORDER BY d.number LIMIT $4::bigint;
