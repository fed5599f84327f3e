#!/usr/bin/env bash
# Retention keeps its word: months that are not needed go, others stay; publishing never stops
# meanwhile; a session that dies on the way leaves nothing that the next one does not end.
#
# Eight months are simulated by making the tables of past months, with events that entered then.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
: "${HOLDFAST:=$ROOT/build/release/holdfast}"
if [ ! -x "$HOLDFAST" ]; then
    skip "all claims about retention" "there is no $HOLDFAST"
    done_testing
    exit
fi

# begin: a new database, a copy of the empty one.
empty=$PGDATABASE
begin() {
    begun=$((${begun:-0} + 1))
    keep_none
    psql -qX -d postgres -c "CREATE DATABASE begun$begun TEMPLATE $empty" || exit 1
    export PGDATABASE=begun$begun
    url="postgresql:///$PGDATABASE?host=$PGHOST&user=$PGUSER"
    : >"$cluster_dir.out"
}
hf() {
    local code=0
    "$HOLDFAST" --db "$url" "$@" >"$cluster_dir.out" 2>"$cluster_dir.err" || code=$?
    [ "$code" = 0 ] || cat "$cluster_dir.err"
    return "$code"
}
said() { cat "$cluster_dir.out"; }

# 100 events a month: positions 1 to 800. Retention is so long that those from six months ago on
# stay, whatever day it is (a month's events are old enough a day after those of its end are).
eight() {
    for month in 8 7 6 5 4 3 2 1; do past "$month" 100; done
    sql "SET timezone = 'UTC'; UPDATE holdfast_private.namespaces
        SET retention_ms = 1000 * (extract(epoch FROM
             now() - (date_trunc('month', now()) - interval '6 months')) - 90000)" >/dev/null
}
month() { date -u -d "$(date -u +%Y-%m-15) $((-$1)) month" +%Y%m; }
# from MONTHS: the months from so long ago to the next one.
from() {
    local list='' i
    for ((i = $1; i >= -1; i--)); do list="$list $(month "$i")"; done
    echo "${list# }"
}
months="SELECT string_agg(right(relid::regclass::text, 6), ' ' ORDER BY relid::regclass::text)
    FROM pg_partition_tree('holdfast_private.events_1') WHERE isleaf"
leftovers="SELECT count(*) FROM holdfast_private.retention_left(1)"

# ---- Age ----------------------------------------------------------------------------------------

begin
eight
ok "retention run --dry-run --json succeeds" hf retention run --dry-run --json
ok "retention run --dry-run says that the two oldest months would go" like \
    '{"dry_run":true,"events":200,*"through":200,"by_size":false,"kept_by":null,*' "$(said)"
is "retention run --dry-run removes nothing" "$months" "$(from 8)"

hf sub create slow --on '**' --from start
hf sub create swift --on '**' --from now
ok "retention run succeeds beside a slow subscription" hf retention run --json
ok "retention run removes nothing that a slow subscription needs, and names it" like \
    '{"dry_run":false,"events":0,*"through":0,*"kept_by":"slow",*' "$(said)"
is "all months stay that a slow subscription needs" "$months" "$(from 8)"
hf sub seek slow --to 150 --yes
ok "retention run succeeds if a subscription is in the middle of a month" hf retention run
is "a month that a subscription needs in part stays" "$months" "$(from 7)"
is "the month before that of the subscription is gone" \
    "SELECT min(position), count(*) FROM holdfast_private.events" \
    "101|700"
hf sub rm slow --yes

# A session publishes all the time.
: >"$cluster_dir.go"
(i=0; while [ -e "$cluster_dir.go" ]; do i=$((i + 1));
    sql "SELECT FROM holdfast.publish('default', 'new', id => gen_random_uuid())" ||
    echo "failed"; done >"$cluster_dir.pub"; echo "$i" >"$cluster_dir.count") &
publisher=$!
ok "setup: a session publishes all the time" becomes \
    "SELECT count(*) > 0 FROM holdfast_private.events WHERE type = 'new'" t
ok "retention run succeeds beside a publisher" hf retention run --json
ok "retention run beside a publisher removes the other old month" \
    like '*"events":100,*"through":200,*' "$(said)"
is "retention run beside a publisher removes no other month" "$months" "$(from 6)"
rm "$cluster_dir.go"
wait "$publisher"
ok "no publish fails beside a retention run" same '' "$(cat "$cluster_dir.pub")"
is "no event is lost that was published beside a retention run" \
    "SELECT count(*) FROM holdfast_private.events WHERE type = 'new'" \
    "$(cat "$cluster_dir.count")"
is "months_from of the namespace is the first month that is left" \
    "SELECT to_char(months_from AT TIME ZONE 'UTC', 'YYYYMM')
    FROM holdfast_private.namespaces" "$(month 6)"
ok "verify finds nothing after retention" hf verify
hf sub create late --on '**' --from start --mode shared
ok "claim succeeds for a subscription that begins at the start after retention" \
    hf claim late --max 1 --json
ok "a subscription that begins at the start gets the first event that is left" \
    like '*"position":201,*' "$(said)"
hf sub rm late --yes
ok "a second retention run succeeds" hf retention run
ok "a second retention run says that nothing had to go" \
    grep -q 'Nothing had to go' "$cluster_dir.err"
hf namespace set default --retain-age 0
past 20 10
ok "retention run succeeds with --retain-age 0" hf retention run
is "--retain-age 0 keeps events for ever" \
    "SELECT count(*) FROM holdfast_private.events WHERE position > 800 AND type = 'old'" 10

# ---- Ids ----------------------------------------------------------------------------------------

begin
eight
sql "INSERT INTO holdfast_private.event_ids SELECT 1, gen_random_uuid(), 50,
    now() - interval '300 days' FROM generate_series(1, 12000);
     INSERT INTO holdfast_private.event_ids SELECT 1, gen_random_uuid(), 750, now()
         FROM generate_series(1, 100)" >/dev/null
ok "retention run succeeds with 12000 ids of old events" hf retention run
is "retention removes ids of old events, and no others" \
    "SELECT count(*), min(position) FROM holdfast_private.event_ids" \
    "100|750"
is "retention stores up to where it has removed ids" \
    "SELECT ids_from = months_from, ids_after IS NULL FROM holdfast_private.namespaces" "t|t"

# Months that are not in a row: make_month calls those before a gap none of its own. As after a
# copy, or when no process has used the log for some months.
begin
hf publish first >/dev/null
sql "SELECT holdfast_private.make_month(1, now() - interval '3 months');
     INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, entered_at,
         guard_at, id, namespace_id, type, payload)
         SELECT 1000, 0, 0, t, t, t, '00000000-0000-4000-8000-000000000001', 1, 'old', '1'
             FROM (SELECT now() - interval '3 months') e (t);
     INSERT INTO holdfast_private.event_ids SELECT 1, id, position, guard_at
         FROM holdfast_private.events WHERE position = 1000" >/dev/null
is "setup: there is a month before a gap" \
    "SELECT months_from > now() - interval '2 months' FROM holdfast_private.namespaces" t
is "retain removes no month before a gap that is not old enough" \
    "SELECT holdfast.retain('default', 0)" 0
is "ids of events before a gap are still known" "SELECT position, duplicate
    FROM holdfast.publish('default', 'old', id => '00000000-0000-4000-8000-000000000001')" "1000|t"

# What lies in a month may have entered the log up to a day after its end.
begin
past 3 1
ends=$(sql "SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') - interval '2 months') AT TIME
        ZONE 'UTC'")
sql "UPDATE holdfast_private.events SET entered_at = timestamptz '$ends' + interval '20 hours'
    WHERE type = 'old'" >/dev/null
keep() { # SECONDS: events that are older than these seconds after the month's end may go
    sql "UPDATE holdfast_private.namespaces SET retained_at = NULL, retention_ms =
             extract(epoch FROM clock_timestamp() - timestamptz '$ends')::bigint * 1000 - $1 *
             1000" >/dev/null
}
keep $((12 * 3600))
is "a month stays while an event in it is not old enough" \
    "SELECT holdfast.retain('default', 0), (SELECT count(*) FROM holdfast_private.events)" "0|1"
keep $((25 * 3600))
is "a month goes when every event in it is old enough" "SELECT holdfast.retain('default', 0)" "1"
is "the events of a removed month are gone" "SELECT count(*) FROM holdfast_private.events" "0"

# ---- Size ---------------------------------------------------------------------------------------

begin
eight
hf namespace set default --retain-age 0 --retain-bytes 1K
hf sub create slow --on '**' --from 250
ok "retention run by size succeeds" hf retention run --json
ok "retention run by size says so, and names the subscription that keeps events" \
    like '*"events":200,*"by_size":true,"kept_by":"slow",*' "$(said)"
is "retention run by size stops at what a subscription needs" "$months" "$(from 6)"
hf sub rm slow --yes
ok "retention run by size succeeds without subscriptions" hf retention run
is "retention run by size removes all past months without subscriptions" \
    "SELECT count(*) FROM pg_partition_tree('holdfast_private.events_1')
    WHERE isleaf AND right(relid::regclass::text, 6) < '$(month 1)'" 0
ok "publish succeeds after all past months are removed" hf publish x '{}'
is "publish after retention goes on with the next position" \
    "SELECT max(position) FROM holdfast_private.events" 801

# ---- Lagging ------------------------------------------------------------------------------------

begin
eight
hf sub create ordered --on '**' --from start --partitions 2
hf sub create shared --on '**' --from start --mode shared
hf claim shared --max 5 --lease 1h --json
lease=$(sed -n '1s/.*"lease":"\([^"]*\)".*/\1/p' "$cluster_dir.out")
hf claim shared --max 5 --lease 1h --json
hf bury shared "$(sed -n '1s/.*"lease":"\([^"]*\)".*/\1/p' "$cluster_dir.out")"
hf sub create ahead --on '**' --from 750
hf namespace set default --retain-bytes 1K --retain-age 0 --lagging drop
sql "UPDATE holdfast_private.namespaces
    SET retention_bytes = (SELECT sum(pg_total_relation_size(i.inhrelid)) - 1 FROM pg_inherits i
    WHERE i.inhparent = 'holdfast_private.events_1'::regclass)" >/dev/null
ok "retention run with lagging drop succeeds" hf retention run --json
ok "retention run with lagging drop says how many subscriptions lost events" like \
    '*"events":100,*"through":100,*"kept_by":null,"dropped_subscriptions":2}*' "$(said)"
ok "retention run with lagging drop names subscriptions that lost events" \
    grep -q 'subscription ordered lost' "$cluster_dir.err"
is "retention run with lagging drop removes the month" "$months" "$(from 7)"
is "subscriptions that lost events have dropped_through and dropped" \
    "SELECT name, dropped_through, dropped
    FROM holdfast_private.subscriptions ORDER BY name" "ahead||0 ordered|100|100 shared|100|100"
is "all partitions of lagging subscriptions are past the removed month" \
    "SELECT s.name, min(c.checkpoint), max(c.checkpoint)
    FROM holdfast_private.checkpoints c JOIN holdfast_private.subscriptions s ON s.id
    = c.subscription_id GROUP BY 1 ORDER BY 1" "ahead|750|750 ordered|100|100 shared|100|100"
ok "sub show succeeds for a subscription that lost events" hf sub show ordered
ok "sub show says how many events were dropped" grep -Eq '^dropped: +100' "$cluster_dir.out"
ok "ack with a lease of removed events is stale" \
    same 4 "$(hf ack shared "$lease" >/dev/null; echo $?)"
ok "dlq list succeeds after events were dropped" hf dlq list --json
ok "retention with lagging drop keeps dead letters" same 5 "$(wc -l <"$cluster_dir.out")"
ok "claim succeeds after events were dropped" hf claim shared --max 1 --json
ok "claim after events were dropped gets the first event that is left" \
    like '*"position":101,*' "$(said)"
ok "dlq retry succeeds if the event is gone from the log" hf dlq retry --all
ok "verify finds nothing after events were dropped" hf verify
sql "UPDATE holdfast_private.namespaces SET retention_bytes = 1" >/dev/null
ok "retention run succeeds with deliveries that wait with a copy" hf retention run --json
is "retention keeps deliveries that wait with a copy of their event" \
    "SELECT count(*), min(position) FROM holdfast_private.retries WHERE subscription_id = (SELECT id
    FROM holdfast_private.subscriptions WHERE name = 'shared')" "5|6"
is "dropped counts events of all past months" "SELECT name, dropped_through >= 700, dropped >= 600
    FROM holdfast_private.subscriptions WHERE name <> 'ahead' ORDER BY name" \
    "ordered|t|t shared|t|t"

begin
eight
hf sub create slow --on '**' --from start
hf namespace set default --lagging drop
ok "holdfast.retain warns of a subscription that loses events" like \
    "*WARNING: *retention moved subscription slow from position 0 to 200: what *is dropped*" \
    "$(sql "SELECT holdfast.retain('default', 0)")"
is "holdfast.retain moves a subscription that loses events" \
    "SELECT dropped_through, dropped FROM holdfast_private.subscriptions" "200|200"
ok "verify finds nothing after holdfast.retain has dropped events" hf verify

# ---- Beside a seek ------------------------------------------------------------------------------

# A session moves a subscription back at this moment: what it will need is not known yet.
begin
eight
hf sub create moving --on '**' --from now
sql "SELECT holdfast_private.retention_ids(1, 1000)" >/dev/null
step="SELECT more, command IS NOT NULL FROM holdfast.change_retain(1, 100, NULL, 1000, false)"
open seeker
ask seeker "BEGIN; SELECT FROM holdfast_private.subscriptions WHERE name = 'moving' FOR NO KEY
    UPDATE" >/dev/null
fails "retention removes no month while a subscription is being moved" \
    "$step" "55P03: *lock timeout"
ask seeker "COMMIT" >/dev/null
shut seeker
is "retention removes a month after the subscription was moved" "$step" "t|t"

# ---- Beside a rotation --------------------------------------------------------------------------

# The journal is written anew while a session looks: beneath an older snapshot it is unknown where
# the subscription is, and it would seem to keep everything.
begin
eight
hf sub create ahead --on '**' --from now
sql "SELECT holdfast_private.retention_ids(1, 1000);
     ALTER FUNCTION holdfast.change_retain SET lock_timeout = '60s'" >/dev/null
open rotator
open looker
asks "setup: the journal is being rotated" rotator "BEGIN; SELECT holdfast_private.rotate(0)" t
tell looker "$step"
ok "a step of retention waits for the rotation" blocked looker
ask rotator "COMMIT" >/dev/null
hears "a step of retention removes a month after the rotation" looker "t|t"
shut rotator
shut looker
is "retain in a transaction that is REPEATABLE READ removes nothing" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT holdfast.retain('default', 0); $months; COMMIT" "0 $(from 8)"

# ---- Death on the way ---------------------------------------------------------------------------

begin
eight
sql "SELECT holdfast_private.retention_ids(1, 1000)" >/dev/null
is "retention removes nothing above what was planned" \
    "SELECT more, command IS NULL FROM holdfast.change_retain(1, 99, NULL, 1000, false)" "f|t"
is "setup: a month is noted, and the process dies before it is detached" "SELECT more, command LIKE
    'ALTER TABLE % CONCURRENTLY' FROM holdfast.change_retain(1, 100, NULL, 1000, false)" "t|t"
is "a month whose process died is still there" "$months" "$(from 8)"
open holder
ask holder "BEGIN; SELECT count(*) FROM holdfast_private.events_1" >/dev/null
PGOPTIONS="$PGOPTIONS -c lock_timeout=100ms" sql "ALTER TABLE holdfast_private.events_1 DETACH
    PARTITION holdfast_private.events_1_$(month 8) CONCURRENTLY" >/dev/null
is "setup: a month is half detached" \
    "SELECT month, pending FROM holdfast_private.retention_left(1)" \
    "holdfast_private.events_1_$(month 8)|t"
is "a new session does not see a month that is half detached" \
    "SELECT count(*) FROM holdfast_private.events_1" 700
ok "publish succeeds while a month is half detached" hf publish x '{}'
exits_busy() { ! hf retention run; }
ok "retention run is refused while an old transaction is in the way" exits_busy
ok "the refusal of retention run says that the month is in use" grep -q 'in use' "$cluster_dir.err"
ok "publish succeeds while an old transaction is in the way" hf publish x '{}'
ask holder "COMMIT" >/dev/null
shut holder
ok "retention run succeeds after the old transaction has ended" hf retention run
is "retention run finishes a month that was half detached" "$leftovers; $months" "0 $(from 6)"
sql "ALTER TABLE holdfast_private.events_1 DETACH PARTITION holdfast_private.events_1_$(month 6)" \
    >/dev/null
ok "retention run succeeds after a month was detached, but not dropped" hf retention run
is "retention run drops a month that was detached" \
    "$leftovers; SELECT to_regclass('holdfast_private.events_1_$(month 6)') IS NULL" \
    "0 t"

# ---- In SQL alone -------------------------------------------------------------------------------

begin
eight
is "holdfast.retain removes one month per call" \
    "SELECT holdfast.retain('default', 0); SELECT holdfast.retain('default', 0)" "1 1"
is "holdfast.retain returns 0 when no old month is left" \
    "SELECT holdfast.retain('default', 0); $months" "0 $(from 6)"
is "holdfast.retain without arguments waits for its turn" "SELECT holdfast.retain()" 0
sql "UPDATE holdfast_private.namespaces SET retention_ms = 86400000,
    retained_at = now() - interval '2 hours'" >/dev/null
open publisher
ask publisher "BEGIN; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
is "holdfast.retain leaves a log alone that is in use" \
    "SELECT holdfast.retain(); $months" "0 $(from 6)"
asks "a publisher goes on beside holdfast.retain" publisher \
    "SELECT duplicate FROM holdfast.publish('default', 'x'); COMMIT" "f"
shut publisher
is "holdfast.retain leaves a log alone for a while after it was in use" \
    "SELECT holdfast.retain(); $months" "0 $(from 6)"
sql "UPDATE holdfast_private.namespaces SET retained_at = now() - interval '2 hours'" >/dev/null
is "holdfast.tick removes a month when it is its turn again" \
    "SELECT count(*) FROM holdfast.tick(); $months" "1 $(from 5)"

begin
eight
sql "UPDATE holdfast_private.namespaces SET copying = 'source run'" >/dev/null
is "holdfast.retain keeps the months of the target of a copy" \
    "SELECT holdfast.retain('default', 0); $months" \
    "0 $(from 8)"
sql "UPDATE holdfast_private.namespaces SET copying = NULL,
    retained_at = now() + interval '1 day'" >/dev/null
is "holdfast.retain ignores a turn in the future after a clock was set back" \
    "SELECT holdfast.retain(); $months" \
    "1 $(from 7)"

# Months of all namespaces fall due at once.
begin
sql "SELECT holdfast_private.namespace_put('other')" >/dev/null
past 20 10
past 20 10 2
logs="SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'
    AND relation IN ('holdfast_private.events_1'::regclass, 'holdfast_private.events_2'::regclass)"
is "holdfast.retain locks one log at a time" \
    "BEGIN; SELECT holdfast.retain(); $logs; COMMIT" "1 1"
is "holdfast.retain goes on with the log of the next namespace" \
    "BEGIN; SELECT holdfast.retain(); $logs; COMMIT" "1 1"
is "holdfast.retain returns 0 when no namespace has an old month" \
    "SELECT holdfast.retain(); SELECT count(*) FROM holdfast_private.events" \
    "0 0"

# ---- Names and turns ----------------------------------------------------------------------------

is "retention has one turn an hour" "SELECT holdfast_private.retention_take(1, 3600000),
    holdfast_private.retention_take(1, 3600000), holdfast_private.retention_take(1, 0)" "f|f|t"
for name in "o'ne \"two\"" '$$; DROP' 'a%sb' 'Ünïcode \ x'; do
    hf publish --namespace "$name" x '{}'
    ok "retention run takes the namespace $name" hf retention run --namespace "$name" --dry-run
    ok "namespace set takes the namespace $name" \
        hf namespace set "$name" --retain-age 1d --lagging drop
done
rm -f "$cluster_dir".*
done_testing
