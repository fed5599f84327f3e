#!/usr/bin/env bash
# Functions and the command give the same answers whatever a role has set for its sessions (ALTER
# ROLE ... SET), or refuse and say why: functions with their owner's rights run with the settings of
# their caller.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/neighbours.sh"
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
neighbours
work=$(mktemp -d)
house still
scenario 1 b "$b_role" >"$work/still"
ok "setup: the scenario succeeds without settings" \
    sh -c '! grep -q ERROR "$1" && [ "$(wc -l <"$1")" -gt 40 ]' sh \
    "$work/still"
house first

# with NAME=VALUE ...: a new database, and the role of b with these settings.
count=0
with() {
    local setting
    count=$((count + 1))
    psql -qX -d postgres -c "ALTER ROLE $b_role RESET ALL" \
        -c "CREATE DATABASE with$count TEMPLATE first" || return 1
    for setting in "$@"; do
        psql -qX -d postgres -c "ALTER ROLE $b_role SET ${setting%%=*} = ${setting#*=}" || return 1
    done
    export PGDATABASE=with$count
}
# works: the command publishes, consumes and looks as this role.
works() {
    local url="postgresql:///$PGDATABASE?host=$cluster_dir&user=$b_role" answer
    [ -x "$HOLDFAST" ] || return 0
    "$HOLDFAST" --db "$url" --namespace b publish command.run '{"n": 1}' --key k || return 1
    # shellcheck disable=SC2016
    answer=$("$HOLDFAST" --db "$url" --namespace b work reader --on 'command.**' --from start \
            --until-empty --exec 'echo "got $HOLDFAST_KEY"') || return 1
    same "got k" "$answer" || return 1
    "$HOLDFAST" --db "$url" --namespace b sub show reader >"$work/show"
}
# answers WHAT NAME=VALUE ...: two tests. To find out which setting it is, give them one by one.
answers() {
    local claim=$1
    shift
    with "$@" || exit 1
    scenario 1 b "$b_role" >"$work/answer"
    ok "SQL answers the same whatever a role sets for $claim" \
        same "" "$(diff "$work/still" "$work/answer")"
    ok "the command works whatever a role sets for $claim" works
}

# --- The same answers ---
answers "reading and writing texts and values" "TimeZone='Asia/Kathmandu'" \
    "DateStyle='SQL,DMY'" "IntervalStyle='sql_standard'" \
    "bytea_output='escape'" extra_float_digits=-15 \
    standard_conforming_strings=off escape_string_warning=off transform_null_equals=on \
    quote_all_identifiers=on "xmloption='document'" "client_encoding='LATIN1'" \
    "search_path='pg_temp,public'"
answers "planning statements" \
    "plan_cache_mode='force_generic_plan'" enable_indexscan=off enable_bitmapscan=off \
    enable_hashjoin=off enable_nestloop=off enable_sort=off enable_hashagg=off \
    enable_partition_pruning=off join_collapse_limit=1 geqo_threshold=2 constraint_exclusion=on \
    "work_mem='64kB'" jit_above_cost=0 parallel_setup_cost=0 min_parallel_table_scan_size=0 \
    cursor_tuple_fraction=0
answers "ending transactions" synchronous_commit=off default_transaction_deferrable=on \
    "idle_in_transaction_session_timeout='1ms'" holdfast.notify=off "temp_tablespaces='nowhere'" \
    "default_toast_compression='pglz'"

# --- A reason ---
with "default_transaction_isolation='serializable'"
ok "the command works although the role's transactions are SERIALIZABLE" works
scenario 1 b boss >"$work/answer"
is "publish works in a transaction that is SERIALIZABLE" \
    "SET ROLE $b_role; SET SESSION CHARACTERISTICS AS
    TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT duplicate FROM holdfast.publish('b', 'x')" f
for call in "claim('b', 'jobs1')" "create_subscription('b', 'new', '{**}', 'start', 'ordered')" \
    "heartbeat('b', 'node')" "drop_subscription('b', 'reader')"; do
    fails "${call%%(*} refuses a transaction that is SERIALIZABLE" \
        "BEGIN ISOLATION LEVEL SERIALIZABLE;
        SELECT FROM holdfast.$call" "HF002: *READ COMMITTED, not SERIALIZABLE*"
done
if [ "$grants" = t ]; then
    with row_security=off
    ok "the command works although the role has row_security off" works
    ok "a view is refused to a role that has row_security off" \
        like "ERROR:  query would be affected by row-level security policy*" \
        "$(speak "$b_role" <<<"SELECT count(*) FROM holdfast.event_log")"
fi
with
for setting in "session_replication_role = replica" "lc_messages = 'C'" "log_statement = 'all'" \
    "zero_damaged_pages = on" "session_authorization = boss" "role = boss"; do
    ok "a role cannot SET $setting" like "ERROR:*" "$(speak "$b_role" <<<"SET $setting")"
done
ok "a role cannot set anything for the database" like "ERROR:  must be owner*" \
    "$(speak "$b_role" <<<"ALTER DATABASE $PGDATABASE SET work_mem = '64kB'")"
ok "a role cannot set anything for another role" \
    like "ERROR:*" "$(speak "$b_role" <<<"ALTER ROLE boss SET work_mem = '64kB'")"

# --- Literals ---
# Bodies between quotes are read by the session that calls them; a backslash in an ordinary literal
# means something else if standard_conforming_strings is off. The server warns of each.
is "patterns_regex means the same with standard_conforming_strings off" \
    "SET standard_conforming_strings = off; SET client_min_messages = error;
    SELECT holdfast.patterns_regex('{order-line.*,a.**}')" '^(?:order\-line\.[^.]+|a\..+)$'
ok "no function has a backslash in an ordinary literal" same "" "$(sql "SET check_function_bodies
        = on; SET standard_conforming_strings = off; SET escape_string_warning = on; BEGIN;
    DO \$do\$ DECLARE f record; BEGIN
        FOR f IN SELECT p.oid, p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
                 WHERE p.pronamespace IN ('holdfast'::regnamespace,
                     'holdfast_private'::regnamespace) AND p.prosqlbody IS NULL LOOP
            EXECUTE pg_get_functiondef(f.oid);
        END LOOP;
    END \$do\$; ROLLBACK" | grep -v '^LOCATION\|^HINT\|^CONTEXT' | head -20)"

# --- The owner of the schema ---
# What is recorded of the schema when it is migrated is compared with what is there later, perhaps
# with other settings: both are texts that the server writes.
if [ -x "$HOLDFAST" ]; then
    url="postgresql:///$PGDATABASE?host=$cluster_dir&user=boss"
    for setting in quote_all_identifiers=on "DateStyle='German'" "TimeZone='Asia/Kathmandu'" \
        "IntervalStyle='iso_8601'" "bytea_output='escape'" standard_conforming_strings=off \
        "search_path='public'" row_security=off; do
        sql "ALTER ROLE boss RESET ALL; ALTER ROLE boss SET ${setting%%=*} = ${setting#*=};
             UPDATE holdfast_private.meta SET value = 'x'
                 WHERE name = 'functions_digest'" >/dev/null
        ok "an owner of the schema with $setting migrates" "$HOLDFAST" --db "$url" migrate
        ok "verify finds nothing for an owner with $setting" \
            like "*0 findings." "$("$HOLDFAST" --db "$url" verify 2>&1)"
    done
    sql "ALTER ROLE boss RESET ALL" >/dev/null
    ok "verify finds nothing for an owner without settings" \
        like "*0 findings." "$("$HOLDFAST" --db "$url" verify 2>&1)"
fi
rm -rf "$work"
done_testing
