#!/usr/bin/env bash
# Whatever roles of namespace a, and a role that may only connect, type: namespace b behaves as if
# they were not there, and the owner of a can go on. What they type is random: every table and
# column, every mode of locking, every function with bad arguments, in transactions that stay open.
# HOSTILE_SEED repeats a run.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/neighbours.sh"
seed=${HOSTILE_SEED:-$RANDOM}
echo "# seed $seed (HOSTILE_SEED)"
neighbours
work=$(mktemp -d)

# --- Without them ---
house quiet
for round in 1 2 3; do
    scenario "$round" b "$b_role" >"$work/quiet.$round"
done
ok "setup: the scenario succeeds in namespace b without hostile roles" \
    sh -c '! grep -q ERROR "$1" && [ "$(wc -l <"$1")" -gt 40 ]' sh \
    "$work/quiet.1"

# --- With them ---
house noisy
# Statements are made from the catalog, by a role that sees it all: test.hostile(ROLE, COUNT).
sql "CREATE SCHEMA test;
CREATE FUNCTION test.any(VARIADIC p text[]) RETURNS text
    LANGUAGE sql VOLATILE AS 'SELECT p[1 + floor(random() * cardinality(p))::integer]';
CREATE FUNCTION test.value(p_type text, p_name text) RETURNS text LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE
    a integer := (SELECT id FROM holdfast_private.namespaces WHERE name = 'a');
    b integer := (SELECT id FROM holdfast_private.namespaces WHERE name = 'b');
    v text;
BEGIN
    v := CASE
        WHEN p_name = 'p_ticket' THEN test.any('holdfast.ticket()', 'holdfast.ticket()',
            'holdfast.ticket()', quote_literal('\\x0000000a'), 'NULL')
        WHEN p_type = 'integer' AND p_name ~ 'namespace_id|^p_id\$|^id\$'
            THEN test.any(a::text, a::text, a::text, b::text, 'NULL', '-1', '2147483647')
        WHEN p_name ~ 'subscription_id' THEN coalesce((SELECT s.id::text
            FROM holdfast_private.subscriptions s ORDER BY random() LIMIT 1), '1')
            || test.any('', '', ' + 1', ' + 2')
        WHEN p_type IN ('smallint', 'integer')
            THEN test.any('0', '1', '2', '100', 'NULL', '-1', '32767')
        WHEN p_type = 'bigint' THEN test.any('0', '1', '3', '1000', 'NULL', '-1', '1000000000',
            '4000000000000000000', '9223372036854775807')
        WHEN p_type = 'boolean' THEN test.any('true', 'false', 'NULL')
        WHEN p_type = 'timestamp with time zone'
            THEN test.any('now()', 'now()', 'clock_timestamp()', 'NULL', quote_literal('infinity'),
            quote_literal('-infinity'), quote_literal('290000-01-01'), quote_literal('2000-01-01'))
        WHEN p_type = 'interval' THEN test.any(quote_literal('1 s'), quote_literal('-1 s'), 'NULL')
        WHEN p_type = 'uuid' THEN test.any('gen_random_uuid()', 'NULL',
            (SELECT quote_literal(token) FROM holdfast_private.processes ORDER BY random() LIMIT 1),
            (SELECT quote_literal(token) FROM holdfast_private.leases ORDER BY random() LIMIT 1),
            (SELECT quote_literal(id) FROM holdfast_private.schedules ORDER BY random() LIMIT 1),
            quote_literal('00000000-0000-4000-8000-000000000133'))
        WHEN p_type = 'text' AND p_name ~ 'namespace'
            THEN test.any(quote_literal('a'), quote_literal('a'), quote_literal('b'), 'NULL')
        WHEN p_type = 'text' AND p_name ~ 'lease'
            THEN coalesce((SELECT quote_literal(replace(token::text, '-', ''))
            FROM holdfast_private.leases ORDER BY random() LIMIT 1), 'NULL')
        WHEN p_type = 'text' AND p_name ~ 'name|subscription'
            THEN test.any(quote_literal('jobs0'), quote_literal('audit0'), quote_literal('jobs1'),
            quote_literal('clock0'), quote_literal('new'), 'NULL', quote_literal(E'\\n'), 'repeat('
            || quote_literal('x') || ', 300)')
        WHEN p_type = 'text' THEN test.any('NULL', quote_literal(''), quote_literal('x'),
            quote_literal('[\"**\"]'), quote_literal('{}'), quote_literal('['),
            quote_literal('start'), quote_literal('@hourly'), quote_literal('UTC'), 'repeat('
            || quote_literal('x') || ', 100000)')
        WHEN p_type IN ('json', 'jsonb') THEN test.any('NULL', quote_literal('{}'),
            quote_literal('1'), quote_literal('[]'), 'repeat(' || quote_literal('[')
            || ', 200) || repeat(' || quote_literal(']') || ', 200)')
        WHEN p_type = 'uuid[]' THEN test.any('NULL', quote_literal('{}'),
            'ARRAY[gen_random_uuid()]', 'ARRAY[holdfast_private.new_id(now()), NULL]',
            'ARRAY(SELECT token FROM holdfast_private.processes)')
        WHEN p_type = 'timestamp with time zone[]' THEN test.any('NULL', 'ARRAY[now()]', 'ARRAY['
            || quote_literal('infinity') || '::timestamptz]', quote_literal('{}'))
        WHEN p_type ~ '^(bigint|integer|smallint)..\$'
            THEN test.any('NULL', quote_literal('{}'), quote_literal('{0}'), quote_literal('{1}'),
            quote_literal('{1,NULL,-1}'), quote_literal('{2147483647}'), quote_literal('{1,2,3}'))
        WHEN p_type ~ '..\$' AND right(p_type, 2) = '[]' THEN test.any('NULL', quote_literal('{}'),
            quote_literal('{x}'), quote_literal('{1}'), quote_literal('{t,NULL}'))
        ELSE 'NULL' END;
    RETURN format('(%s)::%s', coalesce(v, 'NULL'), p_type);
END \$\$;
CREATE FUNCTION test.hostile(p_seed double precision, p_count integer) RETURNS SETOF text
    LANGUAGE plpgsql AS \$\$
BEGIN
    PERFORM setseed(p_seed);
    RETURN QUERY SELECT s.text FROM (
        -- every table and column
        SELECT format(test.any('INSERT INTO %1\$s (%2\$I) OVERRIDING SYSTEM VALUE VALUES (%3\$s)',
            'INSERT INTO %1\$s (%2\$I) VALUES (%3\$s)', 'UPDATE %1\$s SET %2\$I = %3\$s',
                               'DELETE FROM %1\$s WHERE %2\$I IS NOT NULL',
                               'COPY (SELECT %2\$I FROM %1\$s) TO STDOUT',
                               'SELECT %2\$I FROM %1\$s FOR UPDATE',
                               'SELECT %2\$I FROM %1\$s FOR KEY SHARE'),
                      a.attrelid::regclass, a.attname,
                      test.value(format_type(a.atttypid, NULL), a.attname))
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
            AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT format(test.any('TRUNCATE %s', 'LOCK TABLE %s IN ' || m.mode || ' MODE NOWAIT',
            'DROP TABLE %s', 'ALTER TABLE %s DISABLE ROW LEVEL SECURITY', 'ANALYZE %s'),
            c.oid::regclass)
        FROM pg_class c,
            unnest('{ROW SHARE, ROW EXCLUSIVE, SHARE UPDATE EXCLUSIVE, SHARE, SHARE ROW EXCLUSIVE,
                EXCLUSIVE, ACCESS EXCLUSIVE}'::text[]) m (mode)
        WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
            AND c.relkind IN ('r', 'p')
        UNION ALL
        SELECT
            format(test.any('SELECT nextval(%s::regclass)', 'SELECT setval(%s::regclass, 1000000)',
            'SELECT setval(%s::regclass, 1)', 'SELECT FROM pg_sequence_last_value(%s)'), c.oid)
        FROM pg_class c, generate_series(1, 2) WHERE c.relnamespace IN ('holdfast'::regnamespace,
            'holdfast_private'::regnamespace) AND c.relkind = 'S'
        UNION ALL
        -- every function
        SELECT format('%s %s.%I(%s)', CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END,
            p.pronamespace::regnamespace, p.proname,
                      (SELECT string_agg(CASE WHEN p.proargmodes[i.n] = 'v' THEN 'VARIADIC '
                      ELSE '' END || test.value(format_type(i.t, NULL),
                      coalesce(p.proargnames[i.n], '')), ', ' ORDER BY i.n)
                       FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY
                           i (t, n) WHERE coalesce(p.proargmodes[i.n], 'i') IN ('i', 'b', 'v')))
        FROM pg_proc p, generate_series(1, 4) WHERE p.pronamespace IN ('holdfast'::regnamespace,
            'holdfast_private'::regnamespace) AND p.prorettype <> 'trigger'::regtype AND p.proname
            NOT IN ('now_find', 'namespace_drop_step', 'drop_namespace', 'is_held')) s (text)
        ORDER BY random() LIMIT p_count;
END \$\$" >/dev/null

# planted: what a name or an operator could be mistaken for, and where every role may make things,
# too.
psql -qX -d "$PGDATABASE" -c "GRANT CREATE ON SCHEMA public TO PUBLIC;
    GRANT CREATE, TEMPORARY ON DATABASE $PGDATABASE TO PUBLIC" || exit 1
number=0
for role in $hostile_roles; do
    number=$((number + 1))
    {
        echo "SET statement_timeout = '200ms'; SET lock_timeout = '100ms'; SET search_path = public,
            holdfast, pg_catalog;"
        echo "CREATE SCHEMA $role; CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz
            LANGUAGE sql AS 'SELECT NULL::timestamptz';"
        echo "CREATE FUNCTION public.${role}_add(double precision, integer) RETURNS double precision
            LANGUAGE sql AS 'SELECT 0::float8'; CREATE OPERATOR public.*
            (LEFTARG = double precision, RIGHTARG = integer, FUNCTION = public.${role}_add);"
        echo "CREATE TEMP TABLE namespaces (id integer); CREATE TEMP TABLE secret (secret bytea);
            CREATE TEMP TABLE door (ask boolean, caller oid, ticket bytea);"
        echo "CREATE TRIGGER door BEFORE INSERT ON door FOR EACH ROW
            EXECUTE FUNCTION holdfast_private.schedule_job();"
        # Rows under ids that others will be given, and positions that no publisher could get past.
        echo "INSERT INTO holdfast_private.subscriptions (id, namespace_id, name, patterns, options,
            mode, partitions, start, created_at) OVERRIDING SYSTEM VALUE SELECT i, 1, 'plant' || i,
            '[]', '{}', 2, 1, 0, now() FROM generate_series(3, 60) i;"
        echo "INSERT INTO holdfast_private.retries (subscription_id, position, lane,
            next_attempt_at, partition, attempts, kind) SELECT i, 1, 0, now(), 0, 0, 1
            FROM generate_series(3, 60) i;"
        echo "INSERT INTO holdfast_private.copies (subscription_id, position, hash, emitted_at,
            entered_at, id, type, payload) SELECT i, 1, 0, now(), now(), gen_random_uuid(),
            'forged', '1' FROM generate_series(3, 60) i;"
        echo "INSERT INTO holdfast_private.checkpoints_0 (subscription_id, partition, seq,
            checkpoint) SELECT i, 0, 1000000, 9 FROM generate_series(3, 60) i;"
        echo "DELETE FROM holdfast_private.subscriptions WHERE name LIKE 'plant%';"
        echo "INSERT INTO holdfast_private.letters (id, position, hash, emitted_at, entered_at,
            failed_at, event_id, namespace_id, attempts, subscription, reason, type, payload,
            story) OVERRIDING SYSTEM VALUE SELECT i, 1, 0, now(), now(), now(), gen_random_uuid(),
            1, 1, 's', 'r', 't', '1', '[]' FROM generate_series(2, 60) i;"
        echo "INSERT INTO holdfast_private.delayed (number, due_at, emitted_at, hash, id,
            namespace_id, type, payload) OVERRIDING SYSTEM VALUE SELECT i, now() + interval '1 d',
            now(), 0, gen_random_uuid(), 1, 't', '1' FROM generate_series(3, 60) i;"
        for position in 1000000000 4000000000000000000 -5; do
            echo "INSERT INTO holdfast_private.events_1 (position, hash, emitted_at, entered_at, id,
                namespace_id, type, payload)
                VALUES ($position, 0, now(), now(), gen_random_uuid(), 1, 't', '1');"
        done
        sql "SELECT CASE floor(random() * 4) WHEN 0 THEN 'BEGIN; SAVEPOINT s; ' || t
            || '; ROLLBACK TO s; ' || t || '; COMMIT;' WHEN 1 THEN 'BEGIN; ' || t || '; ROLLBACK;'
            ELSE t || ';' END
             FROM test.hostile(((($seed + $number) % 10007) / 10007.0)::double precision, 300) t"
    } >"$work/$role.sql"
done
pids=
for role in $hostile_roles; do
    PGUSER=$role psql -qXAt -v VERBOSITY=sqlstate \
        -f "$work/$role.sql" >"$work/$role.out" 2>&1 </dev/null &
    pids="$pids $!"
done
scenario 1 b "$b_role" >"$work/noisy.1"
# shellcheck disable=SC2086
wait $pids
ok "namespace b answers the same while hostile roles type" \
    same "" "$(diff "$work/quiet.1" "$work/noisy.1")"
for role in $hostile_roles; do
    ok "setup: $role was refused more than 100 times" \
        sh -c '[ "$(grep -c 42501 "$1")" -gt 100 ]' sh \
        "$work/$role.out"
    ok "$role did not end a process of the server" sh \
        -c '! grep -Eq "XX000|server closed|57P0" "$1"' sh "$work/$role.out"
done
scenario 2 b "$b_role" >"$work/noisy.2"
ok "namespace b answers the same after hostile roles have typed" \
    same "" "$(diff "$work/quiet.2" "$work/noisy.2")"

# --- Transactions that stay open, with all they can get hold of ---
for role in $hostile_roles; do
    PGUSER=$role open "$role"
    {
        echo "\\set ON_ERROR_ROLLBACK on"
        echo "SET statement_timeout = '500ms'; SET lock_timeout = '200ms'; BEGIN;"
        sql "SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT;', c.oid::regclass)
            FROM pg_class c WHERE c.relnamespace IN ('holdfast'::regnamespace,
            'holdfast_private'::regnamespace) AND c.relkind IN ('r', 'p')
             UNION ALL SELECT format('LOCK TABLE %s IN ACCESS SHARE MODE NOWAIT;', c.oid::regclass)
             FROM pg_class c WHERE c.relnamespace IN ('holdfast'::regnamespace,
             'holdfast_private'::regnamespace) AND c.relkind IN ('r', 'p')
             UNION ALL SELECT format('SELECT pg_try_advisory_xact_lock_shared(%s, %s);', k, n)
             FROM generate_series(1215253604, 1215253608) k, generate_series(-1, 3) n
             UNION ALL SELECT format('SELECT pg_try_advisory_xact_lock(%s);', l.classid::bigint <<
             32 | l.objid::bigint) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1"
        # Every node id's gate, and what PREPARE locks without any right.
        if [ "$role" = a_viewer ]; then
            echo "SET statement_timeout = '20s'; SELECT count(r.status) FROM (SELECT DISTINCT ON
                (hashtext('held' || i) & 63) i FROM generate_series(1, 1000) i) i,
                holdfast.node_register(1, gen_random_uuid(), false, false, 'held' || i.i, true, 'n',
                NULL, NULL, NULL, 1, 'v', 30000) r; SET statement_timeout = '500ms';"
        fi
        sql "SELECT format('PREPARE held_%s AS DELETE FROM %s;', c.oid, c.oid::regclass)
            FROM pg_class c WHERE c.relnamespace IN ('holdfast'::regnamespace,
            'holdfast_private'::regnamespace) AND c.relkind IN ('r', 'p')"
        echo "SAVEPOINT s; SELECT nextval('holdfast_private.events_2_position'); ROLLBACK TO s;"
        for call in "publish('a', 'open')" "publish_later('a', 'open', '1', now())" "tick()" \
            "claim('a', 'jobs0')" "heartbeat('a', 'node1')" "sleep(1, 1000)" "upkeep(1000000)" \
            "rotate(-1)" "process_sweep(1)" \
            "fire_schedule((SELECT id FROM holdfast_private.schedules LIMIT 1))" "try_months(1)" \
            "change_acquire(1, 1, 0, gen_random_uuid(), 'n', true, NULL, NULL)" \
            "change_settle(1, 5, 0, '00000000-0000-4000-8000-000000000011', 1, 0, 3, NULL, now(),
                p_pause_reason => 'x')" \
            "change_settle(2, 5, 0, '00000000-0000-4000-8000-000000000011', 1, 0, 3, NULL, now())" \
            "tx_settle(1, 5, false, 0, gen_random_uuid(), 1, NULL, NULL, '{1}', '{f}', now())" \
            "change_pause(1, 5, true, 'x', 'y', now())" "drop_subscription('a', 'audit0')"; do
            echo "SELECT FROM holdfast.$call;"
        done
    } >"$work/open.$role.sql"
    tell "$role" "\\i '$work/open.$role.sql'"
done
for role in $hostile_roles; do
    hear "$role" >"$work/open.$role.out" 2>&1
done
scenario 3 b "$b_role" >"$work/noisy.3"
ok "namespace b answers the same beside open transactions of hostile roles" \
    same "" "$(diff "$work/quiet.3" "$work/noisy.3")"
if [ -n "${HOLDFAST:-}" ]; then
    database="postgresql:///$PGDATABASE?host=$cluster_dir&user=$b_role"
    ok "a process opens namespace b beside open transactions of hostile roles" \
        same 0 "$("$HOLDFAST" publish a.b \
            '{}' --namespace b --db "$database" </dev/null >"$work/said" 2>&1; echo $?)"
    ok "a process works in b with a node id beside open transactions of hostile roles" same 0 \
        "$("$HOLDFAST" work new --on 'a.b' --from start --until-empty --node-id node7 --exec true \
            --namespace b --db "$database" </dev/null >"$work/said" 2>&1; echo $?)"
fi
if [ "$grants" = t ]; then
    # boss SQL: as the owner of the schema, who waits for none of them.
    boss() {
        PGUSER=boss PGOPTIONS="$PGOPTIONS -c statement_timeout=20s" psql -qXAt -v ON_ERROR_STOP=1 \
            -c "$1" 2>&1
    }
    ok "setup: a viewer holds the gates of all node ids" same 64 \
        "$(sql "SELECT 64 - count(*) FROM (SELECT FROM holdfast_private.gates WHERE namespace_id = 1
            AND gate > 1 FOR UPDATE SKIP LOCKED) g")"
    ok "a viewer that holds all gates has no lock on the table grants" same f \
        "$(sql "SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE l.relation = 'holdfast_private.grants'::regclass AND l.mode = 'RowExclusiveLock'
            AND a.usename = 'a_viewer'")"
    ok "the owner of the schema makes a namespace beside open transactions" same "t" \
        "$(boss "SELECT holdfast.create_namespace('c')")"
    ok "the owner of the schema grants beside open transactions" \
        same "t" "$(boss "SELECT holdfast.namespace_grant('viewer', 'a', 'b_owner')")"
    ok "the owner of the schema revokes beside open transactions" \
        same "t" "$(boss "SELECT holdfast.namespace_revoke('viewer', 'a', 'b_owner')")"
    ok "the owner of the schema runs copy_numbers beside open transactions" same "" \
        "$(boss "SELECT FROM holdfast_private.copy_numbers(1000000)")"
    is "numbers of dead letters go on above those of copy_numbers" \
        "SELECT nextval(pg_get_serial_sequence('holdfast_private.letters', 'id')) > 1000000" t
    if [ -n "${HOLDFAST:-}" ]; then
        database="postgresql:///$PGDATABASE?host=$cluster_dir&user=boss"
        ok "the owner of the schema works in a with a node id beside open transactions" same 0 \
            "$("$HOLDFAST" work new --on 'a.b' --from start --until-empty --max-time 2m \
                --node-id node7 --exec true --namespace a --db "$database" </dev/null \
                >"$work/said" 2>&1; echo $?)"
        sed 's/^/# work: /' "$work/said" # what it waits for, if it does
        ok "work warns which session is registering a node and was waited for" like \
            "* is registering a node and *; waited 2s for it: another node may get the id node7*" \
            "$(cat "$work/said")"
        # Of the steps that are repeated the first, 0008, makes a table.
        version=$(sql "SELECT value FROM holdfast_private.meta WHERE name = 'schema_version'")
        sql "UPDATE holdfast_private.meta SET value = '7' WHERE name = 'schema_version'" >/dev/null
        ok "migrate gets as far as the step itself beside open transactions" like \
            "*cannot migrate the schema from version*already exists*" \
            "$("$HOLDFAST" migrate --db "$database" </dev/null 2>&1)"
        sql "UPDATE holdfast_private.meta SET value = '$version'
            WHERE name = 'schema_version'" >/dev/null
    fi
    # Among themselves those with the owner's rights do wait, but not for ever.
    PGUSER=boss open granter
    ask granter "BEGIN; SELECT holdfast.namespace_grant('viewer', 'a', 'b_owner');
        SELECT holdfast.create_namespace('d')" >/dev/null
    holder=$(sql "SELECT pid FROM pg_stat_activity WHERE usename = 'boss'
            AND state LIKE 'idle in%'")
    ok "a grant waits for another grant for 5 s and names its session" like \
        "*process $holder of role boss (* is granting and has not ended *; waited 5s for it*" \
        "$(boss "SELECT holdfast.namespace_grant('owner', 'a', 'b_owner')")"
    ok "create_namespace waits for another one as long as lock_timeout says" like \
        "*ERROR:*is making a namespace and has not ended its transaction; waited 50ms for it*" \
        "$(boss "SET lock_timeout = '50ms'; SELECT holdfast.create_namespace('e')")"
    ask granter ROLLBACK >/dev/null
    shut granter
fi
for role in $hostile_roles; do
    ok "setup: the transaction of $role was open all the time" same 1 "$(sql "SELECT count(*)
            FROM pg_stat_activity WHERE usename = '$role' AND state LIKE 'idle in transaction%'")"
    shut "$role"
done

# --- Who does what is due in all namespaces ---
# A transaction of a holds the id of an event that is due, and the row of the namespace.
if [ "$grants" = t ]; then
    PGUSER=a_publisher open publisher
    event=$(sql "SELECT holdfast_private.new_id(now())")
    ahead=$(sql "SELECT holdfast_private.new_id(now() + interval '30 hours')")
    ask publisher "SELECT FROM holdfast.publish_later('a', 'due', '1', now() - interval '1 s',
        id => '$event')" >/dev/null
    ask publisher "BEGIN; SELECT FROM holdfast.publish('a', 'due', id => '$event');
        SELECT FROM holdfast.publish('a', 'ahead', id => '$ahead')" >/dev/null
    PGUSER=$b_role sql \
        "SELECT FROM holdfast.publish_later('b', 'due', '1', now() - interval '1 s')" >/dev/null
    ok "a tick for all passes over what is locked in namespace a" like \
        "*namespace a is passed over: canceling statement due to lock timeout*" \
        "$(PGUSER=boss PGOPTIONS="$PGOPTIONS -c statement_timeout=20s" psql \
            -qXAt -c "SELECT FROM holdfast.tick()" 2>&1)"
    is "a tick for all releases what is due in b beside a lock in a" \
        "SELECT count(*) FROM holdfast.event_log WHERE namespace = 'b' AND type = 'due'" 1
    ok "retention of all namespaces does not wait for a lock in a" same 0 \
        "$(PGUSER=boss PGOPTIONS="$PGOPTIONS -c statement_timeout=20s" sql \
            "SELECT holdfast.retain(NULL, 0)" 2>&1)"
    ask publisher "ROLLBACK" >/dev/null
    shut publisher
    is "what a tick passed over is released by the next one" "SELECT FROM holdfast.tick();
        SELECT count(*) FROM holdfast.event_log WHERE namespace = 'a' AND type = 'due'" 1
    # Large events take long to be written; here a trigger does. All is one transaction, and readers
    # of every namespace that it has published into wait for its end.
    PGUSER=a_publisher sql "SELECT FROM generate_series(1, 20) i,
        LATERAL holdfast.create_schedule('a', 'slow' || i, '@every 1s', 'slow')" >/dev/null
    PGUSER=$b_role sql \
        "SELECT FROM holdfast.create_schedule('b', 'quick', '@every 1s', 'quick')" >/dev/null
    sql "CREATE FUNCTION public.slowly() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN PERFORM pg_sleep(0.3); RETURN new; END';
         CREATE TRIGGER slowly BEFORE UPDATE ON holdfast_private.schedules FOR EACH ROW
             WHEN (new.type = 'slow') EXECUTE FUNCTION public.slowly()" >/dev/null
    becomes "SELECT bool_and(next_at <= now()) FROM holdfast_private.schedules
        WHERE type IN ('slow', 'quick')" t
    ok "a tick for all spends at most a second on the schedules of one namespace" same t \
        "$(PGUSER=boss sql "SELECT more FROM holdfast.tick()")"
    is "a tick that was cut short has fired some schedules of the slow namespace" \
        "SELECT count(DISTINCT schedule_id) BETWEEN 1 AND 6
        FROM holdfast_private.events WHERE type = 'slow'" t
    is "a tick that was cut short has fired the schedules of other namespaces" \
        "SELECT count(*) > 0 FROM holdfast.event_log WHERE namespace = 'b' AND type = 'quick'" t
    sql "DROP TRIGGER slowly ON holdfast_private.schedules" >/dev/null
    PGUSER=a_publisher sql "SELECT FROM generate_series(1, 20) i,
        LATERAL holdfast.drop_schedule('a', 'slow' || i)" >/dev/null
fi

# --- The owner of a ---
a_role=$([ "$grants" = t ] && echo a_owner || echo boss)
scenario 4 a "$a_role" >"$work/after"
ok "the owner of a publishes, subscribes, claims, fails and delays after the attack" same "" \
    "$(grep ERROR "$work/after")"
is "the owner of a gets every event that is in the log after the attack" "SET ROLE $a_role;
    SELECT holdfast.create_subscription('a', 'all', '{**}', 'start', mode => 'shared');
    SELECT count(*) = (SELECT count(*) FROM holdfast.event_log WHERE namespace = 'a')
        FROM holdfast.claim('a', 'all', 10000)" "t t"
if [ -n "${HOLDFAST:-}" ]; then
    for command in "sub list" "dlq list" "schedule list" stats "tail --from start --limit 5" \
        "node list"; do
        # shellcheck disable=SC2086
        ok "the owner of a runs holdfast $command after the attack" \
            same 0 "$("$HOLDFAST" $command --namespace a \
                --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=$a_role" </dev/null \
                >"$work/said" 2>&1; echo $?)"
    done
    "$HOLDFAST" verify --namespace a \
        --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=$a_role" </dev/null \
        >"$work/said" 2>&1
    ok "verify by the owner of a finds nothing after the attack but what it does not see" \
        same "" "$(grep -v "^rights: \|examined, " "$work/said")"
    ok "verify by the owner of the schema exits with 0 after the attack" \
        same 0 "$("$HOLDFAST" verify \
            --namespace a --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=boss" </dev/null \
            >"$work/said" 2>&1; echo $?)"
    ok "verify by the owner of the schema finds nothing after the attack" \
        same "" "$(grep -i 'namespace "' "$work/said")"
fi
is "functions that hostile roles planted are not used" \
    "SELECT count(*) FROM holdfast_private.namespaces WHERE name <> 'c'" 2
rm -rf "$work"
done_testing
