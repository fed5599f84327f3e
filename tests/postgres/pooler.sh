#!/usr/bin/env bash
# Everything works through pgbouncer in transaction mode, and nothing is left behind in the server's
# sessions that others will get next.
#
# The programs of tests/store and tests/bus that do not depend on a session of their own (a killed
# process is noticed by its lease there, not at once) run through a pgbouncer of this test's own,
# with few server connections. Then every one of those is looked at: prepared statements, LISTEN,
# advisory locks, settings.
set -u
ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
. "$ROOT/scripts/tap.sh"
unset "${!PG@}"

finish() {
    done_testing
    exit
}
pgbouncer=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v pgbouncer) || {
    skip "all claims about a pooler" "pgbouncer is not installed; run: scripts/deps postgres"
    finish
}
[ -n "${TEST_POSTGRES:-}" ] || {
    skip "all claims about a pooler" "there is no cluster; run: make test POSTGRES=1"
    finish
}
programs=${BUILD%/*}/faults/tests
[ -x "$programs/store/test_append" ] || programs=$BUILD/tests
[ -x "$programs/store/test_append" ] || {
    skip "all claims about a pooler" "the test programs are not built"
    finish
}

# ---- A pgbouncer of our own ---------------------------------------------------------------------

PORT=6432
dir=$(mktemp -d /tmp/holdfast-pool.XXXXXX)
as=()
if [ "$(id -u)" -eq 0 ]; then
    user=$(id -u postgres >/dev/null 2>&1 && echo postgres || echo nobody)
    chown "$user" "$dir"
    as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi
# Before PostgreSQL 15 every role may create in `public`: there the search_path is set as the
# library demands.
path=
if [ "$(psql -qXAt -h "$TEST_POSTGRES" -U holdfast -d postgres -c "SHOW server_version_num")" \
    -lt 150000 ]; then
    path=" connect_query='SET search_path = pg_catalog'"
fi
cat >"$dir/ini" <<END
[databases]
* = host=$TEST_POSTGRES$path
[pgbouncer]
pool_mode = transaction
listen_addr =
listen_port = $PORT
unix_socket_dir = $dir
auth_type = trust
auth_file = $dir/users
logfile = $dir/log
admin_users = holdfast
max_client_conn = 400
default_pool_size = 4
server_round_robin = 1
server_idle_timeout = 600
server_check_delay = 600
END
echo '"holdfast" ""' >"$dir/users"
chmod -R a+rX "$dir"

stop() {
    kill "$pooler" 2>/dev/null
    rm -rf "$dir"
}
# Not as a daemon (-d): it stays in this test's process group, so that it ends with the test.
(cd / && exec "${as[@]}" "$pgbouncer" -q "$dir/ini") >"$dir/out" 2>&1 &
pooler=$!
trap stop EXIT

through() { # DATABASE SQL
    psql -qXAt -v ON_ERROR_STOP=1 -h "$dir" -p $PORT -U holdfast -d "$1" -c "$2"
}
answers() {
    until_true 60 through postgres "SELECT 1" || { cat "$dir/out" "$dir/log" && return 1; }
}
ok "setup: pgbouncer serves the cluster" answers

# ---- The programs -------------------------------------------------------------------------------

# One database for the stores, so that its four server connections have seen everything in the end;
# a new one for every test of the bus.
database=pool_$$
psql -qX -h "$TEST_POSTGRES" -U holdfast -d postgres -c "CREATE DATABASE $database" || exit 1

run() { # NAME DATABASE [PATTERN]
    HOLDFAST_TEST_URLS="postgresql:///$2?host=$dir&port=$PORT&user=holdfast" "$programs/$1" \
        ${3:+"$3"}
}
for name in test_append test_claim test_settle; do
    ok "store/$name passes through a pooler" run "store/$name" "$database"
done
# Every way of delivering; with POOLER_ALL=1 all claims of these programs, in two minutes.
while read -r name pattern; do
    ok "bus/$name passes through a pooler${POOLER_ALL-: $pattern}" \
        run "bus/$name" '{database}' "${POOLER_ALL-$pattern}"
done <<'END'
test_delivery what_*
test_shared every_event_*
test_shared failures_*
test_retry an_event_is_dead_*
test_retry a_retry_and_its_story_*
test_deadletter a_retried_letter_*
test_transactional each_effect_*
test_transactional what_*
test_transactional *does_not_count*
END

# ---- What is left -------------------------------------------------------------------------------

# All server connections of the pool, in turns.
left() { # SQL: what is found in any of them
    local i
    for ((i = 0; i < 16; i++)); do
        through "$database" "$1" || return 1
    done | sort -u
}
nothing() { # SQL
    local found
    found=$(left "$1") || return 1
    [ -z "$found" ] || { echo "found: $found" && return 1; }
}
several() {
    local pids
    pids=$(left "SELECT pg_backend_pid()") && [ "$(wc -l <<<"$pids")" -ge 2 ] || {
        echo "$pids"
        through pgbouncer "SHOW SERVERS"
        return 1
    }
}
ok "setup: several sessions of the pooler are looked at" several
ok "no prepared statement is left in a session of the pooler" \
    nothing "SELECT name FROM pg_prepared_statements"
ok "no session of the pooler listens" nothing "SELECT pg_listening_channels()"
ok "no advisory lock is left in a session of the pooler" nothing \
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
# What pgbouncer itself sets for each client is no leak.
ok "no setting is left in a session of the pooler" \
    nothing "SELECT name, setting, reset_val FROM pg_settings
    WHERE source = 'session' AND setting IS DISTINCT FROM reset_val
      AND name NOT IN (${path:+'search_path',} 'application_name', 'client_encoding', 'DateStyle',
          'TimeZone',
                       'standard_conforming_strings')"
ok "no temporary table is left in a session of the pooler" nothing \
    "SELECT relname FROM pg_class WHERE relpersistence = 't' AND relnamespace = pg_my_temp_schema()"

# ---- The search_path, which cannot be set here -------------------------------------------------

url="postgresql:///$database?host=$dir&port=$PORT&user=holdfast"
hf() { "$BUILD/holdfast" "$@" --db "$url" </dev/null 2>&1; }
says() { # PATTERN COMMAND ...
    local said
    said=$(hf "${@:2}")
    # shellcheck disable=SC2254
    case $said in $1) ;; *) echo "$said" && return 1 ;; esac
}
server() { psql -qX -h "$TEST_POSTGRES" -U holdfast -d "$database" -c "$1"; }
if [ -x "$BUILD/holdfast" ] && [ -z "$path" ]; then
    hf publish a.b "{}" >/dev/null
    ok "doctor says that there is a pooler" says '*"name":"pooler"*"value":"yes"*' doctor --json
    server "GRANT CREATE ON SCHEMA public TO PUBLIC"
    ok "a search_path in which others may create functions is refused behind a pooler" \
        says "*is a transaction pooler, where search_path cannot be set*schema public, in which $(
            )other roles may create functions: ALTER ROLE holdfast SET search_path = pg_catalog*" \
        publish a.b '{}'
    server "ALTER ROLE holdfast IN DATABASE $database SET search_path = pg_catalog"
    through pgbouncer "RECONNECT" >/dev/null
    ok "publish works behind a pooler with a safe search_path" \
        says "*position*" publish a.b '{}' --json
fi

psql -qX -h "$TEST_POSTGRES" -U holdfast -d postgres -c "DROP DATABASE $database WITH (FORCE)"
finish
