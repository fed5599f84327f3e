#!/usr/bin/env bash
# doctor on PostgreSQL: what it knows, and what it says when something is not well.
. "$(dirname "$0")/../cli/lib.sh"

# One line of the last doctor: LEVEL NAME.
finding() { grep "\"name\":\"$2\"" out >found && grep -q "\"level\":\"$1\"" found; }
said() { # CLAIM LEVEL NAME PATTERN: of value and advice
    finding "$2" "$3" && grep -qE "$4" found
    result $? "$1" < <(cat found out 2>/dev/null | head -c 2000)
}
sql() { psql -qXAt "$HOLDFAST_URL" -c "$1"; }

hf publish a.b
hf doctor --json
json "doctor --json prints findings as JSON objects" out
said "doctor prints the version of the server" ok server_version '"value":"1[0-9]'
said "doctor prints the version of the schema" ok schema_version '"value":"[0-9]+"'
said "doctor prints the place without a password" ok place "$TEST_POSTGRES:5432/$base\""
said "doctor says that commits wait for the disk" ok synchronous_commit '"value":"on"'
said "doctor says that there is no pooler" ok pooler '"value":"no"'
said "doctor says that wake-ups come by LISTEN" ok wake_up '"value":"LISTEN"'
said "doctor says that locks can be read" ok locks_readable '"value":"yes"'
said "doctor says that next month's table is there" ok months_ahead '"value":"1"'
said "doctor says that the clocks agree" ok clock_skew_ms '"value":"-?[0-9]{1,5}"'
said "doctor prints how many prepared transactions are possible" \
    ok max_prepared_transactions '"value":"50"'
said "doctor says that autovacuum runs" ok autovacuum '"value":"on"'
said "doctor warns of a server without fsync" warn fsync 'switch fsync on'
said "doctor says that a Unix socket needs no encryption" ok encryption '"none: a Unix socket"'
is "doctor says nothing of publishers and transactions that are not there" \
    "$(grep -cE '"(open_publisher|forgotten_prepared|long_transaction|not_vacuumed)"' out)" 0

# --- The lock that docs/postgres.md speaks of ---
"$HOLDFAST" work s --on x --from now --exec true >/dev/null 2>&1 </dev/null &
worker=$!
locks() {
    sql "SELECT objsubid, classid::bigint << 32 | objid::bigint <> 0 FROM pg_locks WHERE locktype
        = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = '$base')"
}
one_lock() { [ "$(locks)" = '1|t' ]; }
until_true 60 one_lock
is "a process holds one advisory lock, of the form with one number" "$(locks)" '1|t'
kill -TERM "$worker"
wait "$worker"

# --- Settings ---
sql "ALTER DATABASE $base SET synchronous_commit = off"
sql "ALTER DATABASE $base SET idle_session_timeout = '1h'"
sql "ALTER TABLE holdfast_private.retries SET (autovacuum_enabled = false)"
exits 7 "doctor exits with 7 if there are findings" doctor --json
said "doctor says that commits wait for the disk in spite of a weak default" ok synchronous_commit \
    '"value":"on"'
said "doctor warns of an idle_session_timeout" warn idle_session_timeout \
    'idle_session_timeout = 0'
said "doctor names a table that is not vacuumed" warn not_vacuumed 'holdfast_private\.retries'
sql "ALTER DATABASE $base RESET idle_session_timeout"
sql "ALTER TABLE holdfast_private.retries RESET (autovacuum_enabled)"

# --- Who publishes and does not end ---
(printf "BEGIN; SELECT FROM holdfast.publish('default', 'a.b', '{}');\n"
 until_true 60 test -e told; echo 'COMMIT;') |
     PGAPPNAME=billing psql -qX "$HOLDFAST_URL" >/dev/null &
open_publisher() { hf doctor --json; finding warn open_publisher; }
until_true 60 open_publisher
said "doctor names a transaction that has published and stays open" warn open_publisher \
    'pid [0-9]+ \(billing\), idle in transaction for [0-9]+ s'
said "doctor says that checkpoints wait for an open publisher" \
    warn open_publisher 'checkpoints wait for it'
: >told
wait
hf doctor --json
is "doctor says nothing of a publisher that has ended" "$(grep -c open_publisher out)" 0
sql "BEGIN; SET LOCAL holdfast.notify = off; SELECT FROM holdfast.publish('default', 'a.b', '{}');
     PREPARE TRANSACTION 'it''s $base'"
until_true 60 open_publisher
said "doctor names a prepared publisher and its role" warn open_publisher \
    "\"prepared transaction 'it''s $base' of role holdfast, open for [0-9]+ s\""
said "doctor says how a prepared publisher is ended" warn open_publisher \
    'as that role or a superuser, in this database, ROLLBACK PREPARED'
sql "ROLLBACK PREPARED 'it''s $base'"

# --- Who does not keep the journal short ---
is "doctor says nothing of upkeep while it is done" "$(grep -c '"upkeep"' out)" 0
# The database is a copy, and perhaps of one that was made long ago.
sql "UPDATE holdfast_private.turns SET rotated_at = clock_timestamp()"
sql "INSERT INTO holdfast_private.checkpoints_0 (subscription_id, partition, seq, checkpoint)
    SELECT i, 0, i, 1 FROM generate_series(1000000, 1100000) i"
hf doctor --json
is "doctor says nothing of a journal that has grown lately" "$(grep -c '"upkeep"' out)" 0
sql "UPDATE holdfast_private.turns SET rotated_at = clock_timestamp() - interval '2 hours'"
hf doctor --json
said "doctor warns of a journal that was not rotated for two hours" warn upkeep \
    '"the journal of checkpoints has [0-9]+ bytes and was not rotated for 12[0-9] minutes"'
said "doctor says what to run to rotate the journal, and as whom" warn upkeep \
    'run SELECT \* FROM holdfast\.tick\(\) as role holdfast every minute'
sql "SELECT FROM holdfast.tick()" >/dev/null
hf doctor --json
is "doctor says nothing of upkeep after a tick of the owner" "$(grep -c '"upkeep"' out)" 0
sql "UPDATE holdfast_private.namespaces SET months_from = months_from - interval '8 months',
    created_at = created_at - interval '8 months',
    retained_at = clock_timestamp() - interval '25 hours'"
hf doctor --json
said "doctor warns of retention that has not run for a day" warn upkeep \
    'retention has not run for more than a day, and a month is due'
sql "SELECT FROM holdfast.tick()" >/dev/null
hf doctor --json
is "doctor says nothing of upkeep after retention has run" "$(grep -c '"upkeep"' out)" 0

# --- A role that may see little ---
role=${base}_role
server "CREATE ROLE $role LOGIN"
server "CREATE DATABASE ${base}_poor OWNER $role"
echo "${base}_poor" >>databases
poor="postgresql:///${base}_poor?host=$TEST_POSTGRES&user=$role"
exits 0 "publish succeeds for a role that owns its database" publish a.b --db "$poor"
hf doctor --json --db "$poor"
said "doctor says that a plain role can read locks" ok locks_readable '"value":"yes"'
said "doctor says that a plain role cannot see what others do" ok sees_other_sessions '"value":"no"'
server "DROP DATABASE ${base}_poor WITH (FORCE)"
server "DROP ROLE $role"

finish
