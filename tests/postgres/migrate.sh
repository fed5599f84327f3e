#!/usr/bin/env bash
# Migrating with real processes: several at once, killed midway, with few rights, in a database
# whose settings are hostile.
. "$(dirname "$0")/lib.sh"
cluster
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "all claims about migrating" "the command is not built"
    done_testing
    exit
fi

number=0
# new [OWNER]: a new, empty database.
new() {
    number=$((number + 1))
    export PGDATABASE=postgres
    sql "CREATE DATABASE m$number${1:+ OWNER $1}" >/dev/null
    export PGDATABASE=m$number
}
url() { # [ROLE]
    echo "postgresql:///$PGDATABASE?host=$PGHOST&user=${1:-$PGUSER}"
}
publishes() { # [ROLE]
    "$HOLDFAST" --db "$(url "${1:-}")" publish user.created '{"id": 1}' --key k
}
version="SELECT value FROM holdfast_private.meta WHERE name = 'schema_version'"
latest=$(find "$ROOT/sql/postgres/tables" -name '0*.sql' | wc -l)

# ---- Several at once ----------------------------------------------------------------------------

# all_publish COUNT: so many processes open the empty database and publish.
all_publish() {
    local pids=() pid bad=0 i
    for ((i = 0; i < $1; i++)); do
        publishes >/dev/null 2>"$TMP/error.$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || bad=$((bad + 1))
    done
    [ "$bad" -eq 0 ] || { cat "$TMP"/error.*; return 1; }
}
TMP=$(mktemp -d)
for count in 2 8; do
    new
    ok "$count processes that migrate at once all succeed" all_publish "$count"
    is "$count processes that migrate at once make the schema once" \
        "$version; SELECT count(*), max(position)
        FROM holdfast_private.events" "$latest $count|$count"
done
rm -rf "$TMP"

# ---- Killed midway ------------------------------------------------------------------------------

# The first step is held up by a lock on a name that it makes; then its process is killed.
new
open other
ask other "BEGIN; CREATE SCHEMA holdfast_private;
    CREATE TABLE holdfast_private.turns (i integer)" >/dev/null
publishes >/dev/null 2>&1 &
pid=$!
ok "setup: a process is in the middle of migrating" a_session_waits
kill -KILL "$pid"
{ wait "$pid"; } 2>/dev/null
ask other "ROLLBACK" >/dev/null
shut other
ok "setup: the session of a killed process ends" becomes "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()" 0
whole() { # the schema is either not there or complete
    same t "$(sql "SELECT to_regnamespace('holdfast') IS NULL OR (SELECT count(*) FROM pg_proc
            WHERE pronamespace = to_regnamespace('holdfast')) > 40")"
}
ok "a migration that is killed midway leaves all or nothing" whole
ok "publish succeeds after a migration was killed midway" publishes

# ---- Few rights ---------------------------------------------------------------------------------

sql "CREATE ROLE maker LOGIN; CREATE ROLE tenant LOGIN; CREATE ROLE nobody_much LOGIN" >/dev/null
new
sql "REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE TEMPORARY ON DATABASE $PGDATABASE FROM PUBLIC;
    GRANT CREATE ON DATABASE $PGDATABASE TO maker" >/dev/null
ok "CREATE on the database is enough to migrate" publishes maker
is "setup: the role is no superuser and there is no extension" \
    "SELECT rolsuper FROM pg_roles WHERE rolname = 'maker'; SELECT count(*) FROM pg_extension" "f 1"
new
sql "CREATE SCHEMA holdfast AUTHORIZATION tenant;
    CREATE SCHEMA holdfast_private AUTHORIZATION tenant" >/dev/null
ok "schemas that an administrator has made for the role are enough to migrate" publishes tenant
new
refused() {
    local said
    said=$(publishes nobody_much 2>&1) && return 1
    like '*GRANT CREATE ON DATABASE*' "$said"
}
ok "a role without rights is refused with the GRANT that is missing" refused
is "a refused migration leaves nothing" \
    "SELECT coalesce(to_regnamespace('holdfast'), to_regnamespace('holdfast_private')) IS NULL" t

# ---- Hostile settings ---------------------------------------------------------------------------

new
sql "CREATE SCHEMA evil; CREATE FUNCTION evil.md5(text) RETURNS text
    LANGUAGE sql AS 'SELECT ''evil''';
     CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
     CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same)" >/dev/null
for setting in "default_transaction_isolation = 'serializable'" "search_path = evil, pg_catalog" \
    "standard_conforming_strings = off" \
    "bytea_output = 'escape'" "datestyle = 'SQL, DMY'" "intervalstyle = 'sql_standard'" \
    "timezone = 'Asia/Kathmandu'" "synchronous_commit = off" \
    "lock_timeout = '1ms'" "statement_timeout = '20s'" "row_security = off" "array_nulls = off" \
    "escape_string_warning = off" \
    "transform_null_equals = on" "check_function_bodies = off" "quote_all_identifiers = on" \
    "extra_float_digits = -15"; do
    sql "ALTER DATABASE $PGDATABASE SET $setting" >/dev/null
done
ok "a database with hostile settings is migrated and published to" publishes
export PGOPTIONS='-c client_min_messages=error' # from here on psql has them, too
is "SQL publishes in a database with hostile settings" \
    "SELECT position FROM holdfast.publish('default', 'x', '{\"a\": \"\\\\u00e4\"}', key => 'k');
    SELECT position FROM holdfast.publish('default', 'x')" "2 3"
fails "SQL refuses a wrong type in a database with hostile settings" \
    "SELECT holdfast.publish('default', 'a..b')" \
    "HF001: type has an empty segment at byte 2"
hash=$((0x$(printf k | md5sum | cut -c1-16) & 0x7fffffffffffffff))
is "the hash of an event is the same in a database with hostile settings" \
    "SET search_path = public; SELECT count(*) FROM holdfast_private.events WHERE hash = $hash" 2
is "commits are durable in a database with hostile settings" \
    "BEGIN; SELECT FROM holdfast.publish('default', 'x'); SHOW synchronous_commit; COMMIT" on
# Their names have schemas, and they have no operators: tests/postgres/planted.sh calls them.
bare="'drop_namespace', 'publish', 'publish_as', 'publish_once', 'publishing', 'ticket'"
is "all functions but six say what their names mean" "SELECT count(*) FROM pg_proc
    WHERE pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
    AND prosqlbody IS NULL
    AND NOT coalesce(array_to_string(proconfig, ',') LIKE '%search_path=%', false)
    AND proname NOT IN ($bare)" 0
new
sql "ALTER DATABASE $PGDATABASE SET default_transaction_read_only = on" >/dev/null
said=$(publishes 2>&1)
ok "a database that is read-only by default is refused with a sentence" like '*read-only*' "$said"

done_testing
