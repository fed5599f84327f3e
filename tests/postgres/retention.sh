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
    skip "everything" "there is no $HOLDFAST"
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
ok "a dry run says what would go" hf retention run --dry-run --json
ok "the two oldest months" like \
    '{"dry_run":true,"events":200,*"through":200,"by_size":false,"kept_by":null,*' "$(said)"
is "and takes nothing" "$months" "$(from 8)"

hf sub create slow --on '**' --from start
hf sub create swift --on '**' --from now
ok "a run beside a slow subscription" hf retention run --json
ok "takes nothing that it needs, and says whose it is" like \
    '{"dry_run":false,"events":0,*"through":0,*"kept_by":"slow",*' "$(said)"
is "so all stay" "$months" "$(from 8)"
hf sub seek slow --to 150 --yes
ok "half a month" hf retention run
is "is no month" "$months" "$(from 7)"
is "but the one before is gone" "SELECT min(position), count(*) FROM holdfast_private.events" \
    "101|700"
hf sub rm slow --yes

# A session publishes all the time.
: >"$cluster_dir.go"
(i=0; while [ -e "$cluster_dir.go" ]; do i=$((i + 1));
    sql "SELECT FROM holdfast.publish('default', 'new', id => gen_random_uuid())" ||
    echo "failed"; done >"$cluster_dir.pub"; echo "$i" >"$cluster_dir.count") &
publisher=$!
ok "(a session publishes)" becomes \
    "SELECT count(*) > 0 FROM holdfast_private.events WHERE type = 'new'" t
ok "a run beside a publisher" hf retention run --json
ok "takes the other old month" like '*"events":100,*"through":200,*' "$(said)"
is "and no more" "$months" "$(from 6)"
rm "$cluster_dir.go"
wait "$publisher"
ok "no publish failed" same '' "$(cat "$cluster_dir.pub")"
is "and none was lost" "SELECT count(*) FROM holdfast_private.events WHERE type = 'new'" \
    "$(cat "$cluster_dir.count")"
is "the log says where it begins" "SELECT to_char(months_from AT TIME ZONE 'UTC', 'YYYYMM')
    FROM holdfast_private.namespaces" "$(month 6)"
ok "verify finds nothing" hf verify
hf sub create late --on '**' --from start --mode shared
ok "a subscription that begins at the start claims" hf claim late --max 1 --json
ok "begins with what is left" like '*"position":201,*' "$(said)"
hf sub rm late --yes
ok "again there is nothing to do" hf retention run
ok "(it says so)" grep -q 'Nothing had to go' "$cluster_dir.err"
hf namespace set default --retain-age 0
past 20 10
ok "for ever" hf retention run
is "is for ever" \
    "SELECT count(*) FROM holdfast_private.events WHERE position > 800 AND type = 'old'" 10

# ---- Ids ----------------------------------------------------------------------------------------

begin
eight
sql "INSERT INTO holdfast_private.event_ids SELECT 1, gen_random_uuid(), 50,
    now() - interval '300 days' FROM generate_series(1, 12000);
     INSERT INTO holdfast_private.event_ids SELECT 1, gen_random_uuid(), 750, now()
         FROM generate_series(1, 100)" >/dev/null
ok "a run with many ids of old events" hf retention run
is "forgets those, and no others" "SELECT count(*), min(position) FROM holdfast_private.event_ids" \
    "100|750"
is "and remembers that" \
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
is "before a gap there is a month" \
    "SELECT months_from > now() - interval '2 months' FROM holdfast_private.namespaces" t
is "nothing is old enough to go" "SELECT holdfast.retain('default', 0)" 0
is "and the ids of what is there are known" "SELECT position, duplicate
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
is "a month stays while something in it is not old enough" \
    "SELECT holdfast.retain('default', 0), (SELECT count(*) FROM holdfast_private.events)" "0|1"
keep $((25 * 3600))
is "and goes when nothing is" "SELECT holdfast.retain('default', 0)" "1"
is "(it is gone)" "SELECT count(*) FROM holdfast_private.events" "0"

# ---- Size ---------------------------------------------------------------------------------------

begin
eight
hf namespace set default --retain-age 0 --retain-bytes 1K
hf sub create slow --on '**' --from 250
ok "a run by size" hf retention run --json
ok "says why" like '*"events":200,*"by_size":true,"kept_by":"slow",*' "$(said)"
is "stops at what is needed" "$months" "$(from 6)"
hf sub rm slow --yes
ok "without subscriptions" hf retention run
is "all go that are past" "SELECT count(*) FROM pg_partition_tree('holdfast_private.events_1')
    WHERE isleaf AND right(relid::regclass::text, 6) < '$(month 1)'" 0
ok "publishing goes on" hf publish x '{}'
is "with the next position" "SELECT max(position) FROM holdfast_private.events" 801

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
ok "a run that drops" hf retention run --json
ok "tells how many lost something" like \
    '*"events":100,*"through":100,*"kept_by":null,"dropped_subscriptions":2}*' "$(said)"
ok "and whom" grep -q 'subscription ordered lost' "$cluster_dir.err"
is "the month is gone" "$months" "$(from 7)"
is "they are moved, and it is written down" "SELECT name, dropped_through, dropped
    FROM holdfast_private.subscriptions ORDER BY name" "ahead||0 ordered|100|100 shared|100|100"
is "all partitions are past it" "SELECT s.name, min(c.checkpoint), max(c.checkpoint)
    FROM holdfast_private.checkpoints c JOIN holdfast_private.subscriptions s ON s.id
    = c.subscription_id GROUP BY 1 ORDER BY 1" "ahead|750|750 ordered|100|100 shared|100|100"
ok "sub show" hf sub show ordered
ok "shows it" grep -Eq '^dropped: +100' "$cluster_dir.out"
ok "a lease of what is gone is refused" same 4 "$(hf ack shared "$lease" >/dev/null; echo $?)"
ok "dead letters stay" hf dlq list --json
ok "(all five)" same 5 "$(wc -l <"$cluster_dir.out")"
ok "the next claim" hf claim shared --max 1 --json
ok "gets the first event that is left" like '*"position":101,*' "$(said)"
ok "a dead letter can be tried again though its event is gone" hf dlq retry --all
ok "verify finds nothing" hf verify
sql "UPDATE holdfast_private.namespaces SET retention_bytes = 1" >/dev/null
ok "the rest" hf retention run --json
is "goes past what waits with its copy" \
    "SELECT count(*), min(position) FROM holdfast_private.retries WHERE subscription_id = (SELECT id
    FROM holdfast_private.subscriptions WHERE name = 'shared')" "5|6"
is "which is counted, too" "SELECT name, dropped_through >= 700, dropped >= 600
    FROM holdfast_private.subscriptions WHERE name <> 'ahead' ORDER BY name" \
    "ordered|t|t shared|t|t"

begin
eight
hf sub create slow --on '**' --from start
hf namespace set default --lagging drop
ok "in SQL, too, a subscription that loses something is told of" like \
    "*WARNING: *retention moved subscription slow from position 0 to 200: what *is dropped*" \
    "$(sql "SELECT holdfast.retain('default', 0)")"
is "and moved" "SELECT dropped_through, dropped FROM holdfast_private.subscriptions" "200|200"
ok "verify finds nothing then" hf verify

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
fails "while a subscription is being moved nothing goes" "$step" "55P03: *lock timeout"
ask seeker "COMMIT" >/dev/null
shut seeker
is "then it goes" "$step" "t|t"

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
asks "the journal is being rotated" rotator "BEGIN; SELECT holdfast_private.rotate(0)" t
tell looker "$step"
ok "a step of retention waits for the rotation" blocked looker
ask rotator "COMMIT" >/dev/null
hears "then a month goes" looker "t|t"
shut rotator
shut looker
is "with one snapshot for all nothing goes" "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT holdfast.retain('default', 0); $months; COMMIT" "0 $(from 8)"

# ---- Death on the way ---------------------------------------------------------------------------

begin
eight
sql "SELECT holdfast_private.retention_ids(1, 1000)" >/dev/null
is "nothing goes above what was planned" \
    "SELECT more, command IS NULL FROM holdfast.change_retain(1, 99, NULL, 1000, false)" "f|t"
is "noted, and then nothing: as if the process had died" "SELECT more, command LIKE
    'ALTER TABLE % CONCURRENTLY' FROM holdfast.change_retain(1, 100, NULL, 1000, false)" "t|t"
is "so the month is there" "$months" "$(from 8)"
open holder
ask holder "BEGIN; SELECT count(*) FROM holdfast_private.events_1" >/dev/null
PGOPTIONS="$PGOPTIONS -c lock_timeout=100ms" sql "ALTER TABLE holdfast_private.events_1 DETACH
    PARTITION holdfast_private.events_1_$(month 8) CONCURRENTLY" >/dev/null
is "half detached" "SELECT month, pending FROM holdfast_private.retention_left(1)" \
    "holdfast_private.events_1_$(month 8)|t"
is "no new session sees it" "SELECT count(*) FROM holdfast_private.events_1" 700
ok "publishing goes on" hf publish x '{}'
exits_busy() { ! hf retention run; }
ok "an old transaction is in the way" exits_busy
ok "(it says so)" grep -q 'in use' "$cluster_dir.err"
ok "publishing goes on even so" hf publish x '{}'
ask holder "COMMIT" >/dev/null
shut holder
ok "the next run" hf retention run
is "ends it" "$leftovers; $months" "0 $(from 6)"
sql "ALTER TABLE holdfast_private.events_1 DETACH PARTITION holdfast_private.events_1_$(month 6)" \
    >/dev/null
ok "detached, and then nothing" hf retention run
is "is ended too" "$leftovers; SELECT to_regclass('holdfast_private.events_1_$(month 6)') IS NULL" \
    "0 t"

# ---- In SQL alone -------------------------------------------------------------------------------

begin
eight
is "retain takes a month per call" \
    "SELECT holdfast.retain('default', 0); SELECT holdfast.retain('default', 0)" "1 1"
is "until none is left" "SELECT holdfast.retain('default', 0); $months" "0 $(from 6)"
is "and waits for its turn" "SELECT holdfast.retain()" 0
sql "UPDATE holdfast_private.namespaces SET retention_ms = 86400000,
    retained_at = now() - interval '2 hours'" >/dev/null
open publisher
ask publisher "BEGIN; SELECT FROM holdfast.publish('default', 'x')" >/dev/null
is "a log that is in use is left alone" "SELECT holdfast.retain(); $months" "0 $(from 6)"
asks "a session that publishes goes on" publisher \
    "SELECT duplicate FROM holdfast.publish('default', 'x'); COMMIT" "f"
shut publisher
is "and for a while" "SELECT holdfast.retain(); $months" "0 $(from 6)"
sql "UPDATE holdfast_private.namespaces SET retained_at = now() - interval '2 hours'" >/dev/null
is "then it goes" "SELECT count(*) FROM holdfast.tick(); $months" "1 $(from 5)"

begin
eight
sql "UPDATE holdfast_private.namespaces SET copying = 'source run'" >/dev/null
is "the target of a copy keeps its months" "SELECT holdfast.retain('default', 0); $months" \
    "0 $(from 8)"
sql "UPDATE holdfast_private.namespaces SET copying = NULL,
    retained_at = now() + interval '1 day'" >/dev/null
is "a turn in the future was a clock's that has been set back" "SELECT holdfast.retain(); $months" \
    "1 $(from 7)"

# Months of all namespaces fall due at once.
begin
sql "SELECT holdfast_private.namespace_put('other')" >/dev/null
past 20 10
past 20 10 2
logs="SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'
    AND relation IN ('holdfast_private.events_1'::regclass, 'holdfast_private.events_2'::regclass)"
is "retain locks no log while it looks at another" \
    "BEGIN; SELECT holdfast.retain(); $logs; COMMIT" "1 1"
is "whose turn is next" "BEGIN; SELECT holdfast.retain(); $logs; COMMIT" "1 1"
is "until none is left" "SELECT holdfast.retain(); SELECT count(*) FROM holdfast_private.events" \
    "0 0"

# ---- Names and turns ----------------------------------------------------------------------------

is "one turn an hour" "SELECT holdfast_private.retention_take(1, 3600000),
    holdfast_private.retention_take(1, 3600000), holdfast_private.retention_take(1, 0)" "f|f|t"
for name in "o'ne \"two\"" '$$; DROP' 'a%sb' 'Ünïcode \ x'; do
    hf publish --namespace "$name" x '{}'
    ok "a namespace called $name is retained" hf retention run --namespace "$name" --dry-run
    ok "and set" hf namespace set "$name" --retain-age 1d --lagging drop
done
rm -f "$cluster_dir".*
done_testing
