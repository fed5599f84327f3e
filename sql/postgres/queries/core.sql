-- Queries of the engine's core: sessions, opening, appending, the keeper, the doctor.
-- {namespace} stands for the number of the namespace.

-- ---- Sessions -----------------------------------------------------------------------------------

-- name: hello
-- $1: the server's process as the connection named it. Behind a pooler it is another one, and
-- nothing is set. $2 lock_timeout, $4 statement_timeout (NULL: as it is), $5: not to wait for the
-- disk. $3: it only reads. Then plans are kept, so they must be right however large a table grows:
-- by index, also while the table is so small that the server would rather read it as a whole.
--   $6: it is not for a handler, whose statements find what the application's search_path says.
-- Then names and operators of all that follows are found in pg_catalog, and what others have put
-- into schemas of the role's search_path is never called. Until that is set every name here says
-- where it is. Policies show what there is to be seen (with row_security off reading fails).
-- Nothing is compiled (jit): statements are short, and the costs of what a role has switched off
-- would wake the compiler for each.
SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) $1,
       pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('synchronous_commit')
           OPERATOR(pg_catalog.=) ANY ('{off,local,remote_write}'::pg_catalog.text[]),
       CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1 THEN
           pg_catalog.concat(
               CASE WHEN $6 THEN
                   pg_catalog.concat(
                       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
                       pg_catalog.set_config('row_security', 'on', false),
                       pg_catalog.set_config('jit', 'off', false)) END,
               pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
               pg_catalog.set_config('lock_timeout',
                                     coalesce($2, pg_catalog.current_setting('lock_timeout')),
                                     false),
               CASE WHEN $3 THEN
                   pg_catalog.concat(pg_catalog.set_config('plan_cache_mode', 'auto', false),
                                     pg_catalog.set_config('enable_seqscan', 'off', false)) END,
               pg_catalog.set_config('statement_timeout',
                                     coalesce($4, pg_catalog.current_setting('statement_timeout')),
                                     false),
               CASE WHEN pg_catalog.current_setting('client_min_messages')
                         OPERATOR(pg_catalog.=) 'error'::pg_catalog.text
                    THEN pg_catalog.set_config('client_min_messages', 'warning', false) END,
               pg_catalog.set_config('synchronous_commit',
                   CASE WHEN $5 THEN 'off'
                        WHEN pg_catalog.current_setting('synchronous_commit')
                             OPERATOR(pg_catalog.=)
                             ANY ('{off,local,remote_write}'::pg_catalog.text[])
                        THEN 'on'
                        ELSE pg_catalog.current_setting('synchronous_commit') END, false))
       END

-- name: hello_path
-- Only asked behind a pooler, where the search_path is what it is: a schema of it in which a role
-- may create objects that is neither this one nor one that could do everything anyway. Planning
-- this takes a new session longer than all of `hello`. Every name says where it is.
SELECT n.nspname FROM pg_catalog.pg_namespace n
WHERE n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(false))
    AND EXISTS (
        SELECT FROM pg_catalog.aclexplode(coalesce(
            n.nspacl, pg_catalog.acldefault('n'::"char", n.nspowner))) a
        LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
        WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'::pg_catalog.text
            AND (r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) current_user
                 OR r.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'::pg_catalog.name
                 OR r.oid OPERATOR(pg_catalog.=) (
                     SELECT d.datdba FROM pg_catalog.pg_database d
                     WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))
                IS NOT TRUE)
LIMIT 1

-- name: become_reader
-- What `hello` sets otherwise for a session that reads than for the writer's.
SET lock_timeout = 0; SET plan_cache_mode = auto; SET enable_seqscan = off

-- name: become_writer
SET lock_timeout = WRITER_LOCK_MS; RESET plan_cache_mode; RESET enable_seqscan

-- name: session_at_work
-- Whether the server's process $1 has a statement to work on, as far as we may know.
SELECT EXISTS (SELECT FROM pg_stat_activity
               WHERE pid = $1 AND coalesce(state, 'hidden') NOT LIKE 'idle%')

-- name: session_birth
-- When the server was started, when the process of this session began, and when process $1 began;
-- NULL: it is no process of this server now. A role that may not see when a process began (it is
-- not a member of the role that connected) sees instead when the server was started, or lost its
-- statistics, as it does in a crash. This asks the function below pg_stat_activity: to plan the
-- view's joins takes a new session longer than the rest of its opening.
SELECT pg_postmaster_start_time(),
       (SELECT coalesce(a.backend_start, greatest(pg_postmaster_start_time(),
                                                  pg_stat_get_bgwriter_stat_reset_time()))
        FROM pg_stat_get_activity(pg_backend_pid()) a),
       (SELECT coalesce(a.backend_start, greatest(pg_postmaster_start_time(),
                                                  pg_stat_get_bgwriter_stat_reset_time()))
        FROM pg_stat_get_activity($1) a)

-- name: session_kin
-- Whether one of the processes $1, which began at the times $2, is a process of this server now.
SELECT EXISTS (SELECT FROM unnest($1::integer[], $2::timestamptz[]) k (pid, birth),
                           pg_stat_get_activity(k.pid) a
               WHERE k.birth = coalesce(a.backend_start, hidden.birth))
FROM greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time()) hidden (birth)

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: begin_strong
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on

-- name: begin_relaxed
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: save
SAVEPOINT holdfast

-- name: release_save
RELEASE SAVEPOINT holdfast

-- name: undo
ROLLBACK TO SAVEPOINT holdfast; RELEASE SAVEPOINT holdfast

-- name: tx_settings
-- For one transaction: $1 synchronous_commit, $2 lock_timeout (NULL: as they are). The warning that
-- a commit may not be on the standby must reach us.
SELECT pg_catalog.set_config('synchronous_commit',
                             coalesce($1, pg_catalog.current_setting('synchronous_commit')), true),
       pg_catalog.set_config('lock_timeout',
                             coalesce($2, pg_catalog.current_setting('lock_timeout')), true),
       CASE WHEN pg_catalog.current_setting('client_min_messages')
                 OPERATOR(pg_catalog.=) 'error'::pg_catalog.text
            THEN pg_catalog.set_config('client_min_messages', 'warning', true) END

-- ---- Opening ------------------------------------------------------------------------------------

-- name: schema_look
-- Which of the schemas there are, whether this role owns each, and whether it has a table meta.
-- Every process that opens the database asks this, and mostly no more (migrate.c): the plan must be
-- small.
SELECT n.nspname OPERATOR(pg_catalog.=) 'holdfast_private'::pg_catalog.name,
       n.nspowner OPERATOR(pg_catalog.=)
           pg_catalog.quote_ident(current_user)::pg_catalog.regrole::pg_catalog.oid,
       EXISTS (SELECT FROM pg_catalog.pg_class c
               WHERE c.relname OPERATOR(pg_catalog.=) 'meta'::pg_catalog.name
                   AND c.relnamespace OPERATOR(pg_catalog.=) n.oid)
    FROM pg_catalog.pg_namespace n
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{holdfast,holdfast_private}'::pg_catalog.name[])

-- name: schema_exists
-- Asks the catalogue itself: to_regclass believes what its session has seen before, and a session
-- that waited for another one's migration has seen that there is nothing.
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
                   ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
               WHERE n.nspname OPERATOR(pg_catalog.=) 'holdfast_private'::pg_catalog.name
                   AND c.relname OPERATOR(pg_catalog.=) 'meta'::pg_catalog.name)

-- name: schema_use
-- Why the schemas that are there must not be used by this role, as a sentence; no row: it may. What
-- lies in a schema runs with the rights of the role that uses it, so a superuser uses no schema of
-- a role that is not one.
SELECT pg_catalog.format('the schema %s belongs to role %s, and %s is a superuser: what lies in it '
                         'would run with the rights of a superuser; connect as %s (or with '
                         'options=-crole=%s)',
                         n.nspname, o.rolname, current_user, o.rolname, o.rolname) AS fault,
       1 AS rank
    FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) n.nspowner
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{holdfast,holdfast_private}'::pg_catalog.name[])
        AND NOT o.rolsuper
        AND (SELECT m.rolsuper FROM pg_catalog.pg_roles m
             WHERE m.rolname OPERATOR(pg_catalog.=) current_user)
UNION ALL
SELECT 'the schema holdfast was made by a build before its tables had a schema of their own '
       '(holdfast_private): this program cannot change it; make it anew in another database', 2
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE n.nspname OPERATOR(pg_catalog.=) 'holdfast'::pg_catalog.name
        AND c.relname OPERATOR(pg_catalog.=) 'meta'::pg_catalog.name
        AND c.relowner OPERATOR(pg_catalog.=) n.nspowner
ORDER BY rank LIMIT 1

-- name: schema_fault
-- Why the schemas must not be made or changed by this role, although it may use them (schema_use),
-- as a sentence; no row: it may. A role that makes or changes them owns them, is the only one that
-- may create anything in them or use the private one, and finds nothing of others there, nor, if
-- there is none of our tables yet ($1), anything at all.
WITH schema AS (
    SELECT n.oid, n.nspname, n.nspowner, n.nspacl, o.rolname AS owner, m.oid AS me,
           m.rolname AS my_name
    FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) n.nspowner
    JOIN pg_catalog.pg_roles m ON m.rolname OPERATOR(pg_catalog.=) current_user
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{holdfast,holdfast_private}'::pg_catalog.name[])),
objects (schema, kind, name, owner) AS (
    SELECT s.oid, 'relation'::pg_catalog.text, c.relname, c.relowner
        FROM pg_catalog.pg_class c, schema s
        WHERE c.relnamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT s.oid, 'function', p.proname, p.proowner FROM pg_catalog.pg_proc p, schema s
        WHERE p.pronamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT s.oid, 'type', t.typname, t.typowner FROM pg_catalog.pg_type t, schema s
        WHERE t.typnamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT s.oid, 'operator', o.oprname, o.oprowner
        FROM pg_catalog.pg_operator o, schema s
        WHERE o.oprnamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT s.oid, 'operator class', o.opcname, o.opcowner
        FROM pg_catalog.pg_opclass o, schema s
        WHERE o.opcnamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT s.oid, 'collation', c.collname, c.collowner
        FROM pg_catalog.pg_collation c, schema s
        WHERE c.collnamespace OPERATOR(pg_catalog.=) s.oid)
SELECT pg_catalog.format('the schema %s belongs to role %s: connect as %s to make or change it; an '
                         'administrator who makes it for a role says CREATE SCHEMA %s '
                         'AUTHORIZATION %s',
                         s.nspname, s.owner, s.owner, s.nspname, s.my_name) AS fault, 3 AS rank
    FROM schema s WHERE s.nspowner OPERATOR(pg_catalog.<>) s.me
UNION ALL
SELECT pg_catalog.format('role %s may create objects in the schema %s, so its owner must not make '
                         'tables and functions there: REVOKE CREATE ON SCHEMA %s FROM %s',
                         coalesce(g.rolname, 'PUBLIC'), s.nspname, s.nspname,
                         coalesce(g.rolname, 'PUBLIC')), 4
    FROM schema s CROSS JOIN LATERAL pg_catalog.aclexplode(s.nspacl) a
    LEFT JOIN pg_catalog.pg_roles g ON g.oid OPERATOR(pg_catalog.=) a.grantee
    WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'::pg_catalog.text
        AND a.grantee OPERATOR(pg_catalog.<>) s.nspowner
UNION ALL
SELECT pg_catalog.format('role %s may use the schema holdfast_private, and could block every '
                         'namespace by locks on what is in it: REVOKE USAGE ON SCHEMA '
                         'holdfast_private FROM %s',
                         coalesce(g.rolname, 'PUBLIC'), coalesce(g.rolname, 'PUBLIC')), 5
    FROM schema s CROSS JOIN LATERAL pg_catalog.aclexplode(s.nspacl) a
    LEFT JOIN pg_catalog.pg_roles g ON g.oid OPERATOR(pg_catalog.=) a.grantee
    WHERE s.nspname OPERATOR(pg_catalog.=) 'holdfast_private'::pg_catalog.name
        AND a.privilege_type OPERATOR(pg_catalog.=) 'USAGE'::pg_catalog.text
        AND a.grantee OPERATOR(pg_catalog.<>) s.nspowner
UNION ALL
SELECT pg_catalog.format('the schema %s has the %s %s, which is not Holdfast''s (role %s made it): '
                         'look at it, then drop it', s.nspname, o.kind, o.name,
                         pg_catalog.pg_get_userbyid(o.owner)), 6
    FROM objects o JOIN schema s ON s.oid OPERATOR(pg_catalog.=) o.schema
    WHERE ($1 OR o.owner OPERATOR(pg_catalog.<>) s.nspowner)
ORDER BY rank LIMIT 1

-- name: schema_state
-- $1: the digest of this program's functions; $2: its release. The version of the tables; whose
-- functions it has (hf_functions); of which release they are; the oldest program that may use the
-- schema; the release that made it so. Programs of all versions ask this of schemas of all
-- versions: read_meta and its two columns stay.
SELECT (SELECT m.value::bigint FROM holdfast.read_meta() m WHERE m.name = 'schema_version'),
       CASE WHEN f.digest = $1::text THEN HF_FUNCTIONS_SAME
            WHEN f.release > string_to_array($2::text, '.')::integer[] THEN HF_FUNCTIONS_NEWER
            WHEN f.release = string_to_array($2::text, '.')::integer[] THEN HF_FUNCTIONS_OTHER
            ELSE HF_FUNCTIONS_OLDER END,
       array_to_string(f.release, '.'),
       (SELECT m.value::bigint FROM holdfast.read_meta() m WHERE m.name = 'programs_from'),
       (SELECT m.value FROM holdfast.read_meta() m WHERE m.name = 'schema_release')
FROM (SELECT (SELECT m.value FROM holdfast.read_meta() m
              WHERE m.name = 'functions_digest') AS digest,
             (SELECT string_to_array(m.value, '.')::integer[] FROM holdfast.read_meta() m
              WHERE m.name = 'functions_release') AS release) f

-- name: schema_deadline
-- $1: how long the transaction that makes or changes the schema waits for a lock.
SELECT pg_catalog.set_config('lock_timeout', $1, true)

-- name: schema_lock
-- One process at a time makes or changes the schema; to the end of the transaction. The lock is one
-- of a row, because every role that may use the schema can lock its tables (PREPARE). If there is
-- no schema yet, there is no lock that needs a right either: who waited for a moment goes on
-- without one, and of two that make the schema at the same time the server refuses the second.
DO $$
DECLARE
    v_timeout text := pg_catalog.current_setting('lock_timeout');
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_class c
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'holdfast_private' AND c.relname = 'meta') THEN
        BEGIN
            PERFORM FROM holdfast_private.meta m WHERE m.name = 'schema_version' FOR UPDATE;
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION 'another session makes or changes the schema and has not ended its '
                            'transaction; waited % for it', v_timeout
                            USING ERRCODE = 'lock_not_available';
        END;
        RETURN;
    END IF;
    BEGIN
        PERFORM pg_catalog.set_config('lock_timeout', '5s', true);
        PERFORM pg_catalog.pg_advisory_xact_lock(1215253604, -1);
        PERFORM pg_catalog.set_config('lock_timeout', v_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
END
$$

-- name: namespace_open
-- A namespace that can be used; no row: namespace_put makes it, or says why not.
SELECT n.id, n.gapless FROM holdfast.read_namespaces() n
    WHERE n.name = $1 AND n.removing_at IS NULL AND n.copying IS NULL

-- name: namespace_put
SELECT status, message, id, gapless FROM holdfast.change_namespace_put($1, NULL, NULL, $2)

-- name: namespace_list
SELECT n.name, n.metadata::text, n.created_at, n.removing_at, n.gapless,
       CASE WHEN n.removing_at IS NULL THEN holdfast.head(n.id) END,
       CASE WHEN holdfast.may_read(n.id)
            THEN (SELECT count(*) FROM holdfast.read_subscriptions() s
                  WHERE s.namespace_id = n.id) END,
       n.retention_ms, n.retention_bytes, n.lagging_drop,
       (SELECT json_agg(json_build_object('role', g.role, 'to', r.rolname)
                        ORDER BY r.rolname, g.role)::text
        FROM holdfast.read_grants() g JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
        WHERE g.namespace_id = n.id), n.copying IS NOT NULL, n.type_index
    FROM holdfast.read_namespaces() n WHERE $1::text IS NULL OR n.name = $1 ORDER BY n.name

-- name: change_namespace_put
SELECT status, message, created
    FROM holdfast.change_namespace_put($1, $2::text::json, $3::text::boolean, $4, $5, $6,
                                       $7::text::boolean, $8::text::boolean)

-- name: change_type_steps
SELECT status, message, more, command FROM holdfast.change_type_steps($1, $2)

-- Building an index waits for every transaction that could still see rows without it.
-- name: type_steps_deadline
SELECT set_config('lock_timeout', '10min', false), set_config('statement_timeout', '0', false)

-- name: change_namespace_grant
SELECT 0, NULL::text, holdfast.namespace_grant($1, $2, $3)

-- name: change_namespace_revoke
SELECT 0, NULL::text, holdfast.namespace_revoke($1, $2, $3)

-- name: change_namespace_remove
SELECT status, message, more FROM holdfast.change_namespace_remove($1, $2, $3, $4)

-- $1: the name of the namespace; NULL: it is $2.
-- name: change_retain
SELECT status, message, taken, more, command, events, bytes, dropped_name, dropped_from,
       dropped_through
    FROM holdfast.change_retain(
        CASE WHEN $1::text IS NULL THEN $2
             ELSE coalesce((SELECT n.id FROM holdfast.read_namespaces() n WHERE n.name = $1),
                           0) END,
        $3, $4, $5, false)

-- name: retention_plan
SELECT p.due, p.through, p.events, p.bytes, p.by_size, n.lagging_drop, p.kept_by
    FROM holdfast.read_namespaces() n CROSS JOIN LATERAL holdfast.retention_plan(n.id) p
    WHERE n.removing_at IS NULL
        AND CASE WHEN $1::text IS NULL THEN n.id = $2 ELSE n.name = $1 END

-- For a command that waits for others' transactions: no publisher waits behind it.
-- name: retain_deadline
SELECT set_config('lock_timeout', '2s', false), set_config('statement_timeout', '0', false)

-- name: try_months
-- Mostly this month and the next are there.
SELECT CASE WHEN n.months_from <= now()
                 AND n.months_to AT TIME ZONE 'UTC'
                     >= date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months' THEN 0
            ELSE holdfast.try_months(n.id) END
    FROM holdfast.read_namespaces() n WHERE n.id = $1

-- ---- Appending ----------------------------------------------------------------------------------

-- name: append_plain
-- A row with its position for each event.
SELECT * FROM holdfast.append_{namespace}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: append_listed
-- The same, if some have ids without a time inside.
SELECT * FROM holdfast.append_listed({namespace}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: append
SELECT status, message, failed_index, positions, key_versions, duplicates, firsts
    FROM holdfast.append({namespace}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- ---- The keeper ---------------------------------------------------------------------------------

-- name: keeper_listen
LISTEN holdfast_{namespace}

-- name: keeper_lock
SELECT holdfast.process_lock({namespace}, $1)

-- name: process_pass
SELECT holdfast.process_pass({namespace})

-- name: keeper_register
-- $1 the process; $2: it holds its lock; $3: not for the first time. With the server's clock.
SELECT r.status, r.message, clock_timestamp()
    FROM holdfast.node_register({namespace}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) r

-- name: keeper_look
-- If $4, shows a sign of life of process $1 named $2, which holds its lock or not ($3). If $5 is
-- not NULL, declares that a consumer sleeps, for so many ms. Then reads, in this order, the newest
-- position, and the publishers whose transactions are open: each step refers to the one before, so
-- that they happen in this order. At last it reads the server's clock, the number of company(), the
-- time of timers_next(), and the version of the schema with the oldest program that may use it,
-- since the schema may have been migrated.
SELECT f.flag, h.head, holdfast.publishers({namespace}, h.head),
       clock_timestamp(), holdfast.company({namespace}, $1), holdfast.timers_next({namespace}),
       (SELECT m.value::bigint FROM holdfast.read_meta() m WHERE m.name = 'schema_version'),
       (SELECT m.value::bigint FROM holdfast.read_meta() m WHERE m.name = 'programs_from')
FROM (SELECT CASE WHEN $4::boolean THEN
                 (SELECT count(*) FROM holdfast.process_beat({namespace}, $1, $2, $3)) END AS others
      OFFSET 0) b,
     LATERAL (SELECT CASE WHEN $5::integer IS NOT NULL THEN
                         holdfast.sleep({namespace},
                                        $5::integer + 0 * coalesce(b.others, 0)::integer)
                     END AS flag OFFSET 0) f,
     LATERAL (SELECT holdfast.head(({namespace} + 0 * coalesce(f.flag, 0))::integer) AS head
              OFFSET 0) h

-- name: keeper_running
-- Which handlers of process $1 have run for a while: $2 their subscriptions, $3 the positions of
-- their events, $4 since when.
SELECT holdfast.process_running({namespace}, $1, $2, $3, $4)

-- name: keeper_glance
-- The newest position, and nothing else.
SELECT holdfast.head({namespace})

-- name: keeper_awake
SELECT holdfast.awake({namespace}, $1)

-- name: keeper_ring
-- Notifies if a consumer sleeps, and answers whether one does.
SELECT holdfast.ring(n.id, n.sleep),
       pg_sequence_last_value(n.sleep) > date_part('epoch', clock_timestamp()) * 1000000
    FROM holdfast.read_namespaces() n WHERE n.id = {namespace}

-- name: keeper_ring_all
-- Notifies whether a consumer sleeps or not.
SELECT holdfast.wake({namespace})

-- name: keeper_rotate
-- $1: how many commits there were since the last time.
SELECT holdfast.upkeep($1)

-- name: keeper_sweep
-- $1: the token of this process. If there is no other one nothing is to be swept.
SELECT holdfast.process_sweep({namespace})
    WHERE EXISTS (SELECT FROM holdfast.read_processes() p
                  WHERE p.namespace_id = {namespace} AND p.token <> $1)

-- ---- The doctor ---------------------------------------------------------------------------------

-- name: sizes
-- The log of the namespace; the server's WAL only if we may see it.
SELECT (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint
        FROM pg_partition_tree(holdfast.log_of({namespace})) t WHERE t.isleaf),
       holdfast.wal_bytes()

-- name: doctor
-- $1: the time here; $2, $3: seconds after which a prepared transaction and any other is worth
-- telling. A value that is NULL is not told; advice that is not NULL is a warning.
WITH sessions AS MATERIALIZED (
        SELECT a.pid, a.xact_start,
               format('pid %s (%s), %s for %s s', a.pid, a.application_name, a.state,
                      extract(epoch FROM clock_timestamp() - a.xact_start)::bigint) AS told
        FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.backend_type = 'client backend'
          AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()),
    prepared AS MATERIALIZED (
        SELECT p.prepared,
               format('%L of role %s, prepared for %s s', p.gid, p.owner,
                      extract(epoch FROM clock_timestamp() - p.prepared)::bigint) AS told,
               format('it keeps its locks until it is ended. As %I or a superuser, in database %I: '
                      'ROLLBACK PREPARED %L; or COMMIT PREPARED %3$L if its transaction manager '
                      'has decided so',
                      p.owner, p.database, p.gid) AS advice
        FROM pg_prepared_xacts p WHERE p.database = current_database()),
    forgotten AS MATERIALIZED (
        SELECT p.told, p.advice FROM prepared p
        WHERE p.prepared < clock_timestamp() - make_interval(secs => $2::bigint)
        ORDER BY p.prepared LIMIT 1),
    upkeep AS MATERIALIZED ( -- what only the owner of the schema does, and has not done
        SELECT CASE WHEN u.journal > 4194304
                        AND u.rotated < clock_timestamp() - interval '10 minutes'
                   THEN format('the journal of checkpoints has %s bytes and was not rotated '
                               'for %s minutes',
                               u.journal,
                               (extract(epoch FROM clock_timestamp() - u.rotated) / 60)::bigint)
                   WHEN u.month_due
                       THEN 'retention has not run for more than a day, and a month is due' END
               AS told,
               format('it is for the owner of the schema: run SELECT * FROM holdfast.tick() as '
                      'role %s every minute, or a process of that role; if there is one, something '
                      'holds a lock on the journal', u.owner) AS advice
        FROM (SELECT holdfast.journal_bytes() AS journal,
                     (SELECT t.rotated_at FROM holdfast.read_turns() t) AS rotated,
                     EXISTS (SELECT FROM holdfast.read_namespaces() n
                             WHERE n.id = {namespace} AND n.retention_ms > 0
                                 AND n.months_from + interval '1 month 1 day'
                                     < clock_timestamp() - n.retention_ms * interval '1 ms'
                                 AND (n.retained_at > clock_timestamp() - interval '1 day')
                                     IS NOT TRUE
                                 AND n.created_at < clock_timestamp() - interval '1 day')
                         AS month_due,
                     (SELECT pg_get_userbyid(s.nspowner) FROM pg_namespace s
                      WHERE s.nspname = 'holdfast') AS owner) u)
SELECT s.name, s.value, coalesce(f.advice, u.advice)
FROM (VALUES ('server_version', current_setting('server_version')),
             ('schema_version',
              (SELECT value FROM holdfast.read_meta() WHERE name = 'schema_version')),
             ('schema_functions',
              (SELECT format('%s of %s', left(d.value, 8), r.value)
               FROM holdfast.read_meta() d, holdfast.read_meta() r
               WHERE d.name = 'functions_digest' AND r.name = 'functions_release')),
             ('server_encoding', current_setting('server_encoding')),
             ('fsync', current_setting('fsync')),
             ('full_page_writes', current_setting('full_page_writes')),
             ('synchronous_commit', current_setting('synchronous_commit')),
             ('synchronous_standby_names',
              nullif(current_setting('synchronous_standby_names'), '')),
             ('autovacuum', current_setting('autovacuum')),
             ('search_path', current_setting('search_path')),
             ('not_vacuumed',
              (SELECT string_agg('holdfast_private.' || c.relname, ', ' ORDER BY c.relname)
               FROM pg_class c
               WHERE c.relnamespace = 'holdfast_private'::regnamespace
                 AND c.relname NOT SIMILAR TO 'checkpoints_[01]'
                 AND c.reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'])),
             ('dead_rows', (SELECT sum(t.n_dead_tup)::text FROM pg_stat_user_tables t
                            WHERE t.schemaname = 'holdfast_private')),
             ('idle_session_timeout', current_setting('idle_session_timeout')),
             ('sees_other_sessions',
              CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN 'yes' ELSE 'no' END),
             ('max_connections', current_setting('max_connections')),
             ('connections', (SELECT count(*)::text FROM pg_stat_activity
                              WHERE backend_type = 'client backend')),
             ('connections_percent',
              (SELECT (count(*) * 100 / current_setting('max_connections')::bigint)::text
               FROM pg_stat_activity WHERE backend_type = 'client backend')),
             ('max_prepared_transactions', current_setting('max_prepared_transactions')),
             ('prepared_transactions', (SELECT count(*)::text FROM prepared)),
             ('forgotten_prepared',
              (SELECT f.told FROM forgotten f)),
             ('notify_queue_percent', floor(pg_notification_queue_usage() * 100)::bigint::text),
             ('long_transaction',
              (SELECT a.told FROM sessions a
               WHERE a.xact_start < clock_timestamp() - make_interval(secs => $3::bigint)
               ORDER BY a.xact_start LIMIT 1)),
             ('clock_skew_ms',
              (extract(epoch FROM clock_timestamp() - $1::timestamptz) * 1000)::bigint::text),
             -- What is said of a namespace is NULL for the database as a whole, which has the
             -- number 0.
             ('months', (SELECT nullif(count(*), 0)::text
                         FROM pg_partition_tree(holdfast.log_of({namespace})) t
                         WHERE t.isleaf)),
             ('months_ahead',
              CASE WHEN {namespace} > 0 THEN
                  holdfast.month_exists({namespace},
                      (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')
                          AT TIME ZONE 'UTC')::integer::text END),
             ('upkeep', (SELECT u.told FROM upkeep u)),
             ('journal_bytes', holdfast.journal_bytes()::text),
             ('transaction_ids_left',
              (2147483648 - (SELECT age(datfrozenxid) FROM pg_database
                             WHERE datname = current_database())::bigint)::text),
             ('processes',
              CASE WHEN {namespace} > 0 THEN
                  (SELECT count(*)::text FROM holdfast.read_processes()
                   WHERE namespace_id = {namespace})
              END))
     AS s (name, value)
LEFT JOIN forgotten f ON s.name = 'forgotten_prepared'
LEFT JOIN upkeep u ON s.name = 'upkeep' AND u.told IS NOT NULL
