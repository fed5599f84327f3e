#!/usr/bin/env bash
# The owner of the schema migrates and removes namespaces, whatever others keep hold of: locks on
# relations that the server gives before it looks at rights, on whatever number nextval is given;
# views above functions, for which no right on them is needed.
. "$(dirname "$0")/lib.sh"
cluster max_prepared_transactions=5
keep
schema
psql -qX -c "CREATE ROLE stranger LOGIN; CREATE ROLE seer LOGIN" || exit 1
grants=$(sql "SELECT current_setting('server_version_num')::integer >= 150000")
if [ "$grants" = t ]; then
    sql "SELECT holdfast.namespace_grant('viewer', 'default', 'seer')" >/dev/null
fi

# --- Locks ---
{
    echo "\\set ON_ERROR_ROLLBACK on"
    echo "BEGIN;"
    sql "SELECT format('SELECT nextval(%s::regclass);', c.oid) FROM pg_class c
         WHERE c.relnamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)"
} >"$cluster_dir/open.sql"
PGUSER=stranger open stranger
tell stranger "\\i '$cluster_dir/open.sql'"
hear stranger >/dev/null 2>&1
is "setup: a role that may only connect has locked the tables and views" \
    "SELECT count(DISTINCT c.relname) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.mode = 'RowExclusiveLock'
        AND c.relname IN ('grants', 'tickets', 'checkpoints', 'event_log', 'meta')" 5
sql "UPDATE holdfast_private.meta SET value = CASE name WHEN 'functions_digest' THEN 'another'
    ELSE '0.0.1' END
     WHERE name IN ('functions_digest', 'functions_release')" >/dev/null
ok "the script of migrate does not wait for locks of other roles" same "" \
    "$(PGOPTIONS="$PGOPTIONS -c lock_timeout=5s" install_schema 2>&1 | head -n 1)"
is "the script of migrate has made the functions beside locks of other roles" \
    "SELECT value <> 'another' FROM holdfast_private.meta WHERE name = 'functions_digest'" t
if [ "$grants" = t ]; then
    PGUSER=seer open seer
    ask seer "BEGIN; SELECT length(holdfast.ticket())" >/dev/null
    sql "UPDATE holdfast_private.meta SET value = 'another'
        WHERE name = 'functions_digest'" >/dev/null
    ok "the script of migrate does not wait for a role that has a ticket" same "" \
        "$(PGOPTIONS="$PGOPTIONS -c lock_timeout=5s" install_schema 2>&1 | head -n 1)"
    ask seer "ROLLBACK" >/dev/null
fi
ask stranger "ROLLBACK" >/dev/null
shut stranger

# made VIEW: the transaction that made it anew.
made() { sql "SELECT r.xmin FROM pg_rewrite r WHERE r.ev_class = '$1'::regclass"; }
list=$(made holdfast.grant_list) log=$(made holdfast.event_log)
sql "UPDATE holdfast_private.meta SET value = 'another'
    WHERE name IN ('functions_digest', 'view holdfast.grant_list')" >/dev/null
ok "setup: the script of migrate runs once more" install_schema
ok "the script of migrate makes a view anew whose text has changed" \
    test "$list" != "$(made holdfast.grant_list)"
ok "the script of migrate leaves a view whose text has not changed" \
    test "$log" = "$(made holdfast.event_log)"

# --- Views above functions ---
if [ "$grants" = t ]; then
    sql "SELECT holdfast.create_namespace('gone')" >/dev/null
    id=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'gone'")
    for name in log times drawn append claim lease_events; do
        ask seer "CREATE TEMP VIEW above_$name AS SELECT 1
            FROM $(sql "SELECT format('%s(%s)', p.oid::regproc,
            (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY n)
            FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n)))
            FROM pg_proc p WHERE p.oid = to_regproc('holdfast.${name}_$id')")" >/dev/null
    done
    is "setup: a viewer of another namespace has views above its functions" \
        "SELECT count(*) FROM pg_views WHERE viewowner = 'seer'" 6
    ok "drop_namespace succeeds beside views above its functions" \
        same "" "$(sql "CALL holdfast.drop_namespace('gone')")"
    is "drop_namespace drops functions beside views above them" \
        "SELECT count(*) FROM pg_proc WHERE proname ~ '_$id\$'" 0
    shut seer
fi

# --- The session that is in the way is named ---
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
sql "SELECT holdfast.create_namespace('busy'); SELECT FROM holdfast.publish('busy', 'x');
     SELECT holdfast.create_subscription('busy', 'jobs', '{**}', 'start', mode => 'shared')" \
    >/dev/null
busy=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'busy'")
step="SELECT FROM holdfast.change_namespace_remove(0, 'busy', true, 1000)"
PGAPPNAME=billing open holder
who="process ${session_backend[holder]} of role holdfast (billing, idle in transaction for * s)"
ask holder "BEGIN;
    SELECT FROM holdfast.create_subscription('busy', 'more', '{**}', 'start', 'ordered')" >/dev/null
fails "removing a namespace names the session that has locked its row" "$step" \
    "55P03: namespace busy is in use by $who"
ask holder "ROLLBACK; BEGIN; SELECT count(*) FROM holdfast.claim('busy', 'jobs')" >/dev/null
sql "$step" >/dev/null
fails "removing a namespace names the session that reads its log" \
    "$step" "55P03: namespace busy is in use by $who"
ask holder "SET LOCAL holdfast.notify = off; PREPARE TRANSACTION 'forgotten'" >/dev/null
prepared="the prepared transaction 'forgotten' of role holdfast"
fails "removing a namespace names a prepared transaction" \
    "$step" "55P03: namespace busy is in use by $prepared"
if [ -x "$HOLDFAST" ]; then
    ok "namespace rm prints the prepared transaction that is in the way" \
        like "*namespace busy is in use by $prepared*" \
        "$("$HOLDFAST" namespace rm busy --yes \
            --db "postgresql:///$PGDATABASE?host=$cluster_dir&user=holdfast" 2>&1)"
fi
sql "ROLLBACK PREPARED 'forgotten'" >/dev/null
ask holder "CREATE TEMP VIEW above AS SELECT 1 FROM holdfast.log_$busy(); BEGIN;
    SELECT FROM above" >/dev/null
for _ in 1 2 3; do sql "$step" >/dev/null; done
fails "removing a namespace names the session that uses a view above its function" "$step" \
    "55P03: namespace busy is in use by $who"
ask holder "ROLLBACK; BEGIN; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
for _ in 1 2 3; do sql "$step" >/dev/null; done
fails "removing a namespace names the session that has published into another one" "$step" \
    "55P03: namespace busy is in use by $who"
ask holder "ROLLBACK" >/dev/null
ok "drop_namespace succeeds when no session is in the way" \
    same "" "$(sql "CALL holdfast.drop_namespace('busy')")"

# --- Nothing waits for ever ---
sql "SELECT holdfast.create_namespace('late')" >/dev/null
late=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'late'")
sql "DO \$\$ DECLARE m regclass; BEGIN
        FOR m IN SELECT inhrelid::regclass FROM pg_inherits
                 WHERE inhparent = 'holdfast_private.events_$late'::regclass LOOP
            EXECUTE format('DROP TABLE %s', m);
        END LOOP; END \$\$;
     UPDATE holdfast_private.namespaces SET months_from = '-infinity', months_to = '-infinity'
         WHERE id = $late" >/dev/null
ask holder "BEGIN; SELECT FROM holdfast.publish('late', 'x')" >/dev/null
made="has made a month of namespace late, or is removing one, and has not ended its transaction"
fails "a publisher waits 5 s for a month that another transaction makes" \
    "SET statement_timeout = '30s'; SELECT FROM holdfast.publish('late', 'y')" \
    "55P03: $who $made; waited 5s for it"
fails "a publisher waits for a month as long as lock_timeout says" \
    "SET lock_timeout = '50ms'; SELECT FROM holdfast.publish('late', 'y')" \
    "55P03: $who $made; waited 50ms for it"
ask holder "COMMIT" >/dev/null
is "a publisher publishes when the month is made" \
    "SELECT duplicate FROM holdfast.publish('late', 'y')" f
# An id of tomorrow changes the row of the namespace, which has to know of a new month.
next=$(sql "SELECT holdfast.month_table($late, now() + interval '1 month')")
sql "SELECT holdfast.ensure_months($late); DROP TABLE $next;
     UPDATE holdfast_private.namespaces
         SET months_to = date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
             + interval '1 month' WHERE id = $late" >/dev/null
ask holder "BEGIN; SELECT FROM holdfast.publish('late', 'x',
    id => holdfast_private.new_id(now() + interval '30 h'))" >/dev/null
fails "making a month waits 5 s for a transaction that has changed the namespace" \
    "SET statement_timeout = '30s';
     SELECT holdfast_private.make_month($late, now() + interval '1 month')" \
    "55P03: $who has changed the row of namespace late and has not ended *; waited 5s for it"
ask holder "ROLLBACK" >/dev/null
is "making a month succeeds when the other transaction has ended" \
    "SELECT holdfast_private.make_month($late, now() + interval '1 month')" t

token=00000000-0000-4000-8000-000000000001
sql "SELECT FROM holdfast.create_subscription('late', 'line', '{**}', 'start', 'ordered')" \
    >/dev/null
sub=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'line'")
acquire() { # TOKEN
    echo "holdfast.change_acquire($late, $sub, 0, $1, 'node', true, NULL, NULL)"
}
close="SET statement_timeout = '30s';
    SELECT holdfast.process_close($late, '$token', clock_timestamp())"
sql "SELECT FROM holdfast.process_beat($late, '$token', 'node', false)" >/dev/null
sql "SELECT FROM $(acquire "'$token'")" >/dev/null
ask holder "BEGIN; SELECT FROM holdfast_private.partitions WHERE subscription_id = $sub
    FOR UPDATE" >/dev/null
is "process_close does not wait for a transaction that has locked a partition" "$close" t
is "a process that closed beside a locked partition is gone" \
    "SELECT count(*) FROM holdfast_private.processes WHERE token = '$token'" 0
ask holder "ROLLBACK" >/dev/null
is "the partition of a closed process is acquired at once" \
    "SELECT status FROM $(acquire 'gen_random_uuid()')" 0
sql "SELECT FROM holdfast.process_beat($late, '$token', 'node', false)" >/dev/null
ask holder "BEGIN; SELECT FROM holdfast_private.processes WHERE token = '$token' FOR UPDATE" \
    >/dev/null
is "process_close does not wait for a transaction that has locked its row" "$close" f
ask holder "ROLLBACK" >/dev/null
shut holder

# --- Rows of the server's catalogs ---
# A role writes those of what it has rights on, even if it has nothing to revoke; TRUNCATE waits for
# it, with the table locked against all.
if [ "$grants" = t ]; then
    sql "CREATE ROLE other LOGIN; SELECT FROM holdfast.publish('late', 'x');
         SELECT FROM holdfast.create_subscription('late', 'jobs', '{**}', 'start',
                                                  mode => 'shared');
         SELECT FROM holdfast.claim('late', 'jobs')" >/dev/null
    for savepoint in "" "SAVEPOINT s;"; do
        PGUSER=seer PGAPPNAME=bad open seer
        ask seer "SET client_min_messages = error; BEGIN; $savepoint DROP OWNED BY CURRENT_USER" \
            >/dev/null
        [ -z "$savepoint" ] || ask seer "RELEASE SAVEPOINT s" >/dev/null
        is "the journal is not locked while a role changes rights${savepoint:+ below a savepoint}" \
            "BEGIN; SELECT holdfast_private.rotate(-1); SELECT count(*) FROM pg_locks
             WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'" "f 0"
        is "leases are not locked while a role changes rights${savepoint:+ below a savepoint}" \
            "BEGIN; SELECT holdfast_private.compact('holdfast_private.leases', -1, 1000000);
             SELECT count(*) FROM pg_locks
             WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'" "f 0"
        who="process ${session_backend[seer]} of role seer (bad, idle in transaction for * s)"
        [ -z "$savepoint" ] || who="another session"
        fails "a grant waits 5 s for a role that changes rights${savepoint:+ below a savepoint}" \
            "SET statement_timeout = '30s';
             SELECT holdfast.namespace_grant('viewer', 'late', 'other')" \
            "55P03: $who has changed rights and has not ended its transaction; waited 5s for it"
        ask seer "ROLLBACK" >/dev/null
        shut seer
        is "the journal is rotated after rights were changed${savepoint:+ below a savepoint}" \
            "SELECT holdfast_private.rotate(-1)" t
    done
    is "leases are compacted after rights were changed" \
        "SELECT holdfast_private.compact('holdfast_private.leases', -1, 1000000)" t
    is "namespace_grant succeeds after rights were changed" \
        "SELECT holdfast.namespace_grant('viewer', 'late', 'other')" t
    # One that begins to write such a row a moment later, and commits: the server answers XX000.
    # Here the look that comes before is made to find nothing, and there is time to be slow.
    sql "CREATE OR REPLACE FUNCTION holdfast_private.is_written(p_tables regclass[]) RETURNS boolean
             LANGUAGE plpgsql AS 'BEGIN RETURN false; END';
         ALTER FUNCTION holdfast_private.rotate(bigint) SET lock_timeout = '30s';
         ALTER FUNCTION holdfast_private.compact(regclass, bigint, bigint)
             SET lock_timeout = '30s'" >/dev/null
    open upkeep
    for call in "rotate(-1)" "compact('holdfast_private.leases', -1, 1000000)"; do
        PGUSER=seer open seer
        ask seer "SET client_min_messages = error; BEGIN; DROP OWNED BY CURRENT_USER" >/dev/null
        tell upkeep "SELECT holdfast_private.$call"
        ok "setup: ${call%%(*} waits for a role that changes rights" blocked upkeep
        ask seer "COMMIT" >/dev/null
        hears "${call%%(*} is put off when rights were changed meanwhile" upkeep f
        shut seer
        asks "${call%%(*} succeeds the next time" upkeep "SELECT holdfast_private.$call" t
    done
    shut upkeep
fi
done_testing
