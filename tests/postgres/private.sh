#!/usr/bin/env bash
# No role of one namespace holds up another with locks that the server gives before it looks at
# rights. In open transactions each role locks what it can name (PREPARE, LOCK, cursors); other
# sessions of it wait for strong locks on the same things (CREATE RULE, REFERENCES, TRUNCATE ...).
# Meanwhile everything of another namespace goes on.
. "$(dirname "$0")/lib.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
cluster
schema
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ] ||
    [ ! -x "$HOLDFAST" ]; then
    skip "all claims about locks of other roles" \
        "nothing can be granted before PostgreSQL 15, or there is no $HOLDFAST"
    done_testing
    exit
fi
work=$(mktemp -d)
parts="viewer publisher consumer owner"
roles="stranger $(for part in $parts; do echo "a_$part"; done)"
sql "CREATE ROLE stranger LOGIN; CREATE ROLE b_owner LOGIN;
    GRANT CREATE, TEMPORARY ON DATABASE $PGDATABASE TO PUBLIC;
     SELECT holdfast.create_namespace('a'); SELECT holdfast.create_namespace('b');
     SELECT holdfast.namespace_grant('owner', 'b', 'b_owner')" >/dev/null
for part in $parts; do
    sql "CREATE ROLE a_$part LOGIN;
        SELECT holdfast.namespace_grant('$part', 'a', 'a_$part')" >/dev/null
done
sql "SELECT holdfast.create_subscription(n, 'jobs', '{**}', 'start', mode => 'shared')
    FROM unnest('{a,b}'::text[]) n" >/dev/null

# What there is to be named, tables before views: those that everything needs first.
relations="SELECT c.oid::regclass::text AS name, c.relkind, c.relname, c.oid FROM pg_class c
    WHERE c.relnamespace IN (SELECT n.oid FROM pg_namespace n WHERE n.nspname LIKE 'holdfast%')
        AND c.relkind IN ('r', 'p', 'v', 'c')
    ORDER BY c.relkind = 'c', c.relkind = 'v',
    c.relname NOT IN ('processes', 'events', 'namespaces', 'leases', 'gates', 'meta'), c.relname"
held="SELECT format(s.text, r.name, r.oid) FROM ($relations) r, (VALUES
    ('PREPARE d_%2\$s AS DELETE FROM %1\$s;'), ('PREPARE u_%2\$s AS SELECT FROM %1\$s FOR UPDATE;'),
    ('PREPARE s_%2\$s AS SELECT FROM %1\$s;'), ('LOCK TABLE %1\$s IN ACCESS SHARE MODE;'),
    ('LOCK TABLE %1\$s IN ROW EXCLUSIVE MODE;'),
    ('DECLARE c_%2\$s CURSOR FOR SELECT * FROM %1\$s;'),
    ('CREATE TABLE mine.t_%2\$s OF %1\$s;'), ('CREATE TABLE mine.l_%2\$s (LIKE %1\$s);'),
    ('EXPLAIN INSERT INTO %1\$s DEFAULT VALUES;')) s (text)"
# A session for each kind of statement: it waits at the first thing that it can name and that is
# held.
kinds=("CREATE RULE mine AS ON INSERT TO %1\$s DO ALSO NOTHING" "CREATE TRIGGER mine BEFORE INSERT
    ON %1\$s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    "CREATE TRIGGER mine INSTEAD OF INSERT ON %1\$s FOR EACH ROW
        EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    "CREATE TABLE mine.r_%2\$s (i uuid REFERENCES %1\$s)" "LOCK TABLE %1\$s IN ACCESS EXCLUSIVE
        MODE" "TRUNCATE %1\$s" "ANALYZE %1\$s" "VACUUM %1\$s" "CLUSTER %1\$s" "REINDEX TABLE %1\$s"
    "COMMENT ON TABLE %1\$s IS 'x'" "COMMENT ON VIEW %1\$s IS 'x'" \
        "COMMENT ON COLUMN %1\$s.namespace IS 'x'" \
        "CREATE STATISTICS mine.s_%2\$s ON namespace, id FROM %1\$s" "CREATE INDEX ON %1\$s ((1))"
    "CREATE POLICY mine ON %1\$s" "ALTER TABLE %1\$s ADD mine integer" \
        "ALTER VIEW %1\$s RENAME TO mine" "CREATE OR REPLACE VIEW %1\$s AS SELECT 1" \
        "DROP TABLE %1\$s" "DROP VIEW %1\$s" "DROP TYPE %1\$s"
    "CREATE TABLE mine.i_%2\$s () INHERITS (%1\$s)" "ALTER TABLE mine.parent ATTACH PARTITION %1\$s
        DEFAULT" "REFRESH MATERIALIZED VIEW %1\$s" "CREATE PUBLICATION mine FOR TABLE %1\$s" \
        "GRANT SELECT ON %1\$s TO PUBLIC"
    "SECURITY LABEL ON TABLE %1\$s IS 'x'" "ALTER TYPE %1\$s ADD ATTRIBUTE mine integer" \
        "ALTER TABLE %1\$s OWNER TO CURRENT_USER" "ALTER TABLE %1\$s SET SCHEMA mine" \
        "MERGE INTO %1\$s t USING (SELECT) s ON true WHEN MATCHED THEN DELETE")
everything=("DROP SCHEMA holdfast" "COMMENT ON SCHEMA holdfast IS 'x'" \
    "ALTER SCHEMA holdfast RENAME TO mine" "DROP SCHEMA holdfast_private" \
    "DROP FUNCTION holdfast.ticket()" "COMMENT ON FUNCTION holdfast.head(integer) IS 'x'"
    "ALTER FUNCTION holdfast.head(integer) RENAME TO mine" "DROP FUNCTION holdfast.publish" \
        "ALTER DEFAULT PRIVILEGES IN SCHEMA holdfast GRANT SELECT ON TABLES TO PUBLIC" "VACUUM" \
        "ANALYZE")

# quick CLAIM COMMAND...: it succeeds within 10 seconds, of which most are spent on waiting for a
# processor.
quick() {
    local claim=$1
    shift
    ok "$claim" timeout 10 "$@"
}
b() { PGUSER=b_owner psql -qXAt -v ON_ERROR_STOP=1 -c "SET statement_timeout = '8s'; $1"; }
url() { echo "postgresql:///$PGDATABASE?host=$cluster_dir&user=$1"; }
export -f b url
export HOLDFAST cluster_dir
goes_on() { # ROLE: everything of b, and what the owner of the schema does
    quick "namespace b publishes while $1 holds locks" \
        bash -c "b \"SELECT FROM holdfast.publish('b', 't'),
        holdfast.publish_later('b', 'u', '1', now() + interval '1 h')\""
    quick "namespace b publishes by the library while $1 holds locks" \
        "$HOLDFAST" --db "$(url b_owner)" --namespace b publish t 1
    quick "namespace b shows signs of life while $1 holds locks" \
        bash -c "b \"SELECT holdfast.heartbeat('b', 'node_$1')\""
    quick "namespace b claims and settles while $1 holds locks" bash -c "b \"SELECT
        FROM (SELECT max(lease) AS lease FROM holdfast.claim('b', 'jobs', 5)) c,
        holdfast.ack('b', 'jobs', c.lease)\""
    quick "namespace b works by the library while $1 holds locks" \
        "$HOLDFAST" --db "$(url b_owner)" --namespace b work \
        "$1" --on '**' --from start --until-empty --exec true
    quick "namespace b fires what is due while $1 holds locks" \
        bash -c "b \"SELECT FROM holdfast.tick('b')\""
    quick "namespace b reads its numbers while $1 holds locks" \
        "$HOLDFAST" --db "$(url b_owner)" --namespace b sub list
    quick "the owner of the schema makes a namespace while $1 holds locks" \
        psql -qX -c "SELECT holdfast.create_namespace('$1')"
    quick "the owner of the schema grants and revokes while $1 holds locks" \
        psql -qX -c "SELECT holdfast.namespace_grant('viewer',
        '$1', 'b_owner'), holdfast.namespace_revoke('viewer', '$1', 'b_owner')"
    sql "UPDATE holdfast_private.meta SET value = 'other'
        WHERE name = 'functions_digest'" >/dev/null
    quick "the owner of the schema migrates while $1 holds locks" \
        "$HOLDFAST" --db "$(url holdfast)" migrate
    is "the functions were applied while $1 holds locks" \
        "SELECT value <> 'other' FROM holdfast_private.meta WHERE name = 'functions_digest'" t
}
goes_on none
for role in $roles; do
    PGUSER=$role psql -qX -c "CREATE SCHEMA mine_$role" \
        -c "CREATE TABLE mine_$role.parent (id integer) PARTITION BY LIST (id)" >/dev/null 2>&1
    # The holder: each statement that is refused is undone, all others keep their locks.
    {
        echo "\\set ON_ERROR_ROLLBACK on"
        echo "SET statement_timeout = '1s'; SET lock_timeout = '500ms'; BEGIN;"
        sql "$held" | sed "s/mine\\./mine_$role./g"
    } >"$work/holder.sql"
    PGUSER=$role open holder
    tell holder "\\i '$work/holder.sql'"
    hear holder >"$work/held.$role" 2>&1
    pids=
    number=0
    for kind in "${kinds[@]}" "${everything[@]}"; do
        number=$((number + 1))
        case $kind in
        *%1*) sql "SELECT format('$(printf '%s' "$kind" | sed "s/'/''/g")', r.name, r.oid) || ';'
            FROM ($relations) r" | sed "s/mine\\./mine_$role./g" ;;
        *) echo "$kind;" ;;
        esac >"$work/waiter.$number.sql"
        PGUSER=$role PGAPPNAME=waiter psql -qXAt -v VERBOSITY=sqlstate \
            -f "$work/waiter.$number.sql" >"$work/waiter.$number" 2>&1 </dev/null &
        pids="$pids $!"
    done
    [ "$role" = stranger ] || ok "setup: sessions wait for what $role holds" becomes \
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'waiter'
        AND wait_event_type = 'Lock'" t
    becomes "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'waiter'
        AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'" t >/dev/null
    is "sessions of $role wait only for views and types of the schema holdfast" \
        "SELECT string_agg(DISTINCT l.relation::regclass::text, ' ') FROM pg_locks l
        JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
         WHERE a.application_name = 'waiter' AND NOT l.granted AND c.relname <> 'parent'
             AND NOT (c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('v', 'c'))" ""
    goes_on "$role"
    # shellcheck disable=SC2086
    kill $pids 2>/dev/null
    sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'waiter'" >/dev/null
    # shellcheck disable=SC2086
    wait $pids 2>/dev/null
    ask holder "ROLLBACK" >/dev/null
    shut holder
    quick "the owner of the schema removes a namespace after $role has ended" psql \
        -qX -c "CALL holdfast.drop_namespace('$role')"
done
rm -rf "$work"
done_testing
