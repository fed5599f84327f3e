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
json "findings are objects" out
said "the server's version" ok server_version '"value":"1[0-9]'
said "the schema's version" ok schema_version '"value":"[0-9]+"'
said "the place has no password" ok place "$TEST_POSTGRES:5432/$base\""
said "commits wait for the disk" ok synchronous_commit '"value":"on"'
said "no pooler" ok pooler '"value":"no"'
said "wake-ups come by LISTEN" ok wake_up '"value":"LISTEN"'
said "locks can be read" ok locks_readable '"value":"yes"'
said "next month's table is there" ok months_ahead '"value":"1"'
said "the clocks agree" ok clock_skew_ms '"value":"-?[0-9]{1,5}"'
said "prepared transactions are possible" ok max_prepared_transactions '"value":"50"'
said "autovacuum runs" ok autovacuum '"value":"on"'
said "a server without fsync is a warning" warn fsync 'switch fsync on'
said "a Unix socket needs no encryption" ok encryption '"none: a Unix socket"'
is "nothing is told of what is not there" \
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
exits 7 "findings have an exit code of their own" doctor --json
said "a weak default is not ours: commits still wait for the disk" ok synchronous_commit \
    '"value":"on"'
said "sessions that are ended when they are idle" warn idle_session_timeout \
    'idle_session_timeout = 0'
said "a table that is not vacuumed is named" warn not_vacuumed 'holdfast_private\.retries'
sql "ALTER DATABASE $base RESET idle_session_timeout"
sql "ALTER TABLE holdfast_private.retries RESET (autovacuum_enabled)"

# --- Who publishes and does not end ---
(printf "BEGIN; SELECT FROM holdfast.publish('default', 'a.b', '{}');\n"
 until_true 60 test -e told; echo 'COMMIT;') |
     PGAPPNAME=billing psql -qX "$HOLDFAST_URL" >/dev/null &
open_publisher() { hf doctor --json; finding warn open_publisher; }
until_true 60 open_publisher
said "a transaction that has published and stays open is named" warn open_publisher \
    'pid [0-9]+ \(billing\), idle in transaction for [0-9]+ s'
said "with what it does" warn open_publisher 'checkpoints wait for it'
: >told
wait
hf doctor --json
is "when it has ended nothing is said" "$(grep -c open_publisher out)" 0
sql "BEGIN; SET LOCAL holdfast.notify = off; SELECT FROM holdfast.publish('default', 'a.b', '{}');
     PREPARE TRANSACTION 'it''s $base'"
until_true 60 open_publisher
said "a prepared one by its name and role" warn open_publisher \
    "\"prepared transaction 'it''s $base' of role holdfast, open for [0-9]+ s\""
said "with how it is ended" warn open_publisher \
    'as that role or a superuser, in this database, ROLLBACK PREPARED'
sql "ROLLBACK PREPARED 'it''s $base'"

# --- Who does not keep the journal short ---
is "(nothing is said of upkeep while it is done)" "$(grep -c '"upkeep"' out)" 0
sql "INSERT INTO holdfast_private.checkpoints_0 (subscription_id, partition, seq, checkpoint)
    SELECT i, 0, i, 1 FROM generate_series(1000000, 1100000) i"
hf doctor --json
is "a journal that has grown lately is no finding" "$(grep -c '"upkeep"' out)" 0
sql "UPDATE holdfast_private.turns SET rotated_at = clock_timestamp() - interval '2 hours'"
hf doctor --json
said "one that was not rotated for long is" warn upkeep \
    '"the journal of checkpoints has [0-9]+ bytes and was not rotated for 12[0-9] minutes"'
said "with what to run, as whom" warn upkeep \
    'run SELECT \* FROM holdfast\.tick\(\) as role holdfast every minute'
sql "SELECT FROM holdfast.tick()" >/dev/null
hf doctor --json
is "after a tick of the owner nothing is said" "$(grep -c '"upkeep"' out)" 0
sql "UPDATE holdfast_private.namespaces SET months_from = months_from - interval '8 months',
    created_at = created_at - interval '8 months',
    retained_at = clock_timestamp() - interval '25 hours'"
hf doctor --json
said "retention that does not run is a finding, too" warn upkeep \
    'retention has not run for more than a day, and a month is due'
sql "SELECT FROM holdfast.tick()" >/dev/null
hf doctor --json
is "until it has" "$(grep -c '"upkeep"' out)" 0

# --- A role that may see little ---
role=${base}_role
server "CREATE ROLE $role LOGIN"
server "CREATE DATABASE ${base}_poor OWNER $role"
echo "${base}_poor" >>databases
poor="postgresql:///${base}_poor?host=$TEST_POSTGRES&user=$role"
exits 0 "a role that owns its database needs nothing else" publish a.b --db "$poor"
hf doctor --json --db "$poor"
said "it can read locks" ok locks_readable '"value":"yes"'
said "it cannot see what others do" ok sees_other_sessions '"value":"no"'
server "DROP DATABASE ${base}_poor WITH (FORCE)"
server "DROP ROLE $role"

finish
