#!/usr/bin/env bash
# publish, whose connection is lost after the server has committed and before it has said so. Events
# that were stored by the first try are counted as what they are: published. A synchronous standby
# that is not there holds the commit's answer back; then the session of the publisher is ended.
. "$(dirname "$0")/../cli/lib.sh"

cluster=$("$root/scripts/postgres-cluster" start --with $$)
trap '"$root/scripts/postgres-cluster" stop "$cluster"; leave; rm -rf "$work"' EXIT
"$root/scripts/postgres-cluster" createdb "$cluster" lost
HOLDFAST_URL=$("$root/scripts/postgres-cluster" url "$cluster" lost)
sql() { psql -qXAt -h "$cluster" -U holdfast -d lost -c "$1"; }
# standby NAME: commits wait for it, if it has a name
standby() {
    sql "ALTER SYSTEM SET synchronous_standby_names = '$1'"
    sql "SELECT pg_reload_conf()" >/dev/null
    until_true 60 standby_is "$1"
}
standby_is() { [ "$(sql 'SHOW synchronous_standby_names')" = "$1" ]; }
# lose: ends the session whose commit of events waits for the standby
lose() {
    until_true 60 sql_says "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND pid IN (SELECT pid FROM pg_locks
            WHERE relation = 'holdfast_private.events_1_position'::regclass)"
}
sql_says() { [ "$(sql "$1")" = t ]; }
opened() { sql_says "SELECT count(*) > 0 FROM holdfast_private.processes WHERE locked"; }

hf publish first '{}' --id 00000000-0000-4000-8000-000000000001
mkfifo lines
"$HOLDFAST" publish --file lines >out 2>err &
publisher=$!
exec 3>lines
true_that "setup: the publisher is connected" until_true 60 opened
standby missing
printf '%s\n' '{"type":"a"}' '{"type":"b"}' \
    '{"type":"c","id":"00000000-0000-4000-8000-000000000001"}' '{"type":"d"}' >&3
true_that "setup: the answer to the commit is lost" lose
standby ''
exec 3>&-
wait "$publisher"
is "publish --file succeeds although the answer to its commit was lost" $? 0
is "each event of a lost commit is stored once" \
    "$(sql "SELECT string_agg(type, ' ' ORDER BY position)
        FROM holdfast_private.events")" "first a b d"
has "events of a lost commit count as published, one that was there as a duplicate" out \
    '^published 3, duplicates 1,'
finish
