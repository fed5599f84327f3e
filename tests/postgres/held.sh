#!/usr/bin/env bash
# The owner of the schema migrates and removes namespaces, whatever others keep hold of: locks on
# relations that the server gives before it looks at rights, on whatever number nextval is given;
# views above functions, for which nobody needs a right on them.
. "$(dirname "$0")/lib.sh"
cluster
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
is "(a role that may only connect has locked the tables and views)" \
    "SELECT count(DISTINCT c.relname) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.mode = 'RowExclusiveLock'
        AND c.relname IN ('grants', 'tickets', 'checkpoints', 'event_log', 'meta')" 5
sql "UPDATE holdfast_private.meta SET value = CASE name WHEN 'functions_digest' THEN 'another'
    ELSE '0.0.1' END
     WHERE name IN ('functions_digest', 'functions_release')" >/dev/null
ok "migrating does not wait for it" same "" \
    "$(PGOPTIONS="$PGOPTIONS -c lock_timeout=5s" install_schema 2>&1 | head -n 1)"
is "(the functions were made)" \
    "SELECT value <> 'another' FROM holdfast_private.meta WHERE name = 'functions_digest'" t
if [ "$grants" = t ]; then
    PGUSER=seer open seer
    ask seer "BEGIN; SELECT length(holdfast.ticket())" >/dev/null
    sql "UPDATE holdfast_private.meta SET value = 'another'
        WHERE name = 'functions_digest'" >/dev/null
    ok "nor for one who has a ticket" same "" \
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
ok "(migrated once more)" install_schema
ok "a view whose text is another one is made anew" test "$list" != "$(made holdfast.grant_list)"
ok "and no other one" test "$log" = "$(made holdfast.event_log)"

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
    is "(a viewer of another namespace has views above its functions)" \
        "SELECT count(*) FROM pg_views WHERE viewowner = 'seer'" 6
    ok "a namespace is removed all the same" same "" "$(sql "CALL holdfast.drop_namespace('gone')")"
    is "with its functions" "SELECT count(*) FROM pg_proc WHERE proname ~ '_$id\$'" 0
    shut seer
fi
done_testing
