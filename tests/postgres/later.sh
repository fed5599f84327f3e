#!/usr/bin/env bash
# Events for later in SQL: listed, cancelled and moved, also at the moment at which they enter the
# log; and claims and roles that may only consume bring what is due.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
hf() { "$HOLDFAST" --db "postgresql:///$PGDATABASE?host=$PGHOST&user=${role:-holdfast}" "$@"; }
id() { echo "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c$1"; }
# keep NUMBER TYPE [DELAY]: an event with the id of this number.
keep() {
    sql "SELECT FROM holdfast.publish_later('default', '$2', '{\"n\": 1.50}',
         now() + interval '${3:--1 s}', id => '$(id "$1")', key => 'k$1')" >/dev/null
}
logged="SELECT count(*) FROM holdfast.event_log WHERE id ="

# --- Looking ---
keep 11 job.b '2 h'
keep 12 job.a '1 h'
keep 13 other '3 h'
list="SELECT type FROM holdfast.later_list('default'"
is "later_list lists events in the order in which they are due" "$list)" "job.a job.b other"
is "later_list takes a pattern of types" "$list, type => 'job.*')" "job.a job.b"
is "later_list takes a key" "$list, key => 'k13')" "other"
is "later_list takes a time due_before" \
    "$list, due_before => now() + interval '90 minutes')" "job.a"
is "later_list takes the last row of a page to go on" \
    "SELECT n.type FROM (SELECT * FROM holdfast.later_list('default', max => 1)) l,
    holdfast.later_list('default', after_due_at => l.due_at, after_number => l.number) n" \
    "job.b other"
is "later_show returns payload, key and due_at" \
    "SELECT payload, key, due_at > now() FROM holdfast.later_show('default', '$(id 12)')" \
    '{"n": 1.50}|k12|t'
is "later_show of an event that does not wait returns no row" \
    "SELECT count(*) FROM holdfast.later_show('default', '$(id 99)')" 0
is "stats counts events for later" "SELECT later FROM holdfast.stats('default')" 3
fails "later_list refuses a max of 1001" \
    "$list, max => 1001)" "HF001: max is 1001; it must be 1 to 1000"
for type in 'job..*' '' 'a b' '*x' '**.a'; do
    fails "later_list refuses the pattern '$type'" "$list, type => '$type')" \
        "HF001: type is no pattern: $type"
done
for type in 3:'*' 3:'**' 2:'job.**' 1:'*.a' 1:other; do
    is "later_list takes the pattern ${type#*:}" "SELECT count(*)
        FROM holdfast.later_list('default', type => '${type#*:}')" "${type%%:*}"
done
fails "later_list of an unknown namespace is not found" \
    "SELECT FROM holdfast.later_list('no')" "HF003: there is no namespace no"
plan=$(sql "SET enable_seqscan = off; EXPLAIN SELECT * FROM holdfast_private.delayed d
    WHERE d.namespace_id = 1 AND (d.due_at, d.number) > (now(), 0)
    ORDER BY d.due_at, d.number LIMIT 10")
ok "a page of later_list is read by an index" like "*Index Scan using delayed_due*" "$plan"

# --- Cancelling and moving ---
is "later_cancel cancels an event that waits" \
    "SELECT * FROM holdfast.later_cancel('default', '$(id 13)')" "t|"
fails "later_cancel of a cancelled event is not found" \
    "SELECT FROM holdfast.later_cancel('default', '$(id 13)')" \
    "HF003: no event with this id *"
is "later_move moves an event that waits" \
    "SELECT * FROM holdfast.later_move('default', '$(id 12)', now() - interval '1 s')" "t|"
is "tick brings an event that was moved to the past" \
    "SELECT released, next_at > now() FROM holdfast.tick('default')" "1|t"
is "later_move of an event in the log returns its position" \
    "SELECT * FROM holdfast.later_move('default', '$(id 12)', now())" "f|1"
is "later_cancel of an event in the log returns its position" \
    "SELECT * FROM holdfast.later_cancel('default', '$(id 12)')" "f|1"
fails "later_move refuses a deliver_at that is NULL" \
    "SELECT FROM holdfast.later_move('default', '$(id 11)', NULL)" \
    "HF001: deliver_at is missing*"
fails "later_move refuses the time infinity" \
    "SELECT FROM holdfast.later_move('default', '$(id 11)', 'infinity')" \
    "HF001: deliver_at is missing, or outside*"
fails "later_cancel refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT FROM holdfast.later_cancel('default', '$(id 11)')" \
    "HF002: to cancel needs a transaction that is READ COMMITTED*"

fails "later_move refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT FROM holdfast.later_move('default', '$(id 11)', now())" \
    "HF002: to move needs a transaction that is READ COMMITTED*"

# --- Other namespaces ---
sql "SELECT holdfast.create_namespace('theirs');
     SELECT FROM holdfast.publish_later('theirs', 'job', '1', now() + interval '1 h',
         id => '$(id 14)')" >/dev/null
is "later_show does not find an event of another namespace" \
    "SELECT count(*) FROM holdfast.later_show('default', '$(id 14)')" 0
fails "later_cancel does not find an event of another namespace" \
    "SELECT FROM holdfast.later_cancel('default', '$(id 14)')" "HF003: no event with this id *"
fails "later_move does not find an event of another namespace" \
    "SELECT FROM holdfast.later_move('default', '$(id 14)', now())" "HF003: no event with this id *"
is "an event that another namespace asked for waits as before" "SELECT due_at > now()
    FROM holdfast.later_show('theirs', '$(id 14)')" t

# --- At the same moment ---
open a
open b
tick="SELECT released FROM holdfast.tick('default')"
cancel() { echo "SELECT * FROM holdfast.later_cancel('default', '$(id "$1")')"; }
in_an_hour="now() + interval '1 h'"
move() { echo "SELECT * FROM holdfast.later_move('default', '$(id "$1")', $in_an_hour)"; }
keep 21 t
asks "setup: a tick is not committed yet" a "BEGIN; $tick" 1
tell b "$(cancel 21)"
ok "later_cancel waits for a tick that has begun" blocked b
ask a COMMIT >/dev/null
hears "later_cancel after a tick returns the position of the event" b "f|2"
keep 22 t
asks "setup: a tick will be rolled back" a "BEGIN; $tick" 1
tell b "$(cancel 22)"
ok "later_cancel waits for a tick that will be rolled back" blocked b
ask a ROLLBACK >/dev/null
hears "later_cancel cancels the event after the tick was rolled back" b "t|"
is "an event that was cancelled after a tick was rolled back does not come" "$tick" 0
keep 23 t
asks "setup: a cancel is not committed yet" a "BEGIN; $(cancel 23)" "t|"
is "tick passes over an event that is being cancelled" "$tick" 0
ask a COMMIT >/dev/null
is "tick does not bring an event that was cancelled" "$tick; $logged '$(id 23)'" "0 0"
keep 24 t
asks "setup: a cancel will be rolled back" a "BEGIN; $(cancel 24)" "t|"
keep 25 t
is "tick brings other events beside a cancel that has not ended" "$tick; $logged '$(id 25)'" "1 1"
ask a ROLLBACK >/dev/null
is "tick brings an event whose cancel was rolled back" "$tick; $logged '$(id 24)'" "1 1"
keep 26 t
asks "setup: a move is not committed yet" a "BEGIN; $(move 26)" "t|"
is "tick passes over an event that is being moved" "$tick" 0
ask a COMMIT >/dev/null
is "tick does not bring a moved event before its new time" \
    "$tick; SELECT due_at > now() FROM holdfast.later_show('default', '$(id 26)')" "0 t"
keep 27 t
asks "setup: another tick is not committed yet" a "BEGIN; $tick" 1
tell b "$(move 27)"
ok "later_move waits for a tick that has begun" blocked b
ask a COMMIT >/dev/null
hears "later_move after a tick returns the position of the event" \
    b "f|$(sql "SELECT max(position) FROM holdfast.event_log")"
keep 28 t
ask a "BEGIN" >/dev/null
asks "later_show finds an event that its own transaction has moved" a \
    "$(move 28); SELECT count(*) FROM holdfast.later_show('default', '$(id 28)')" "t| 1"
tell b "$(cancel 28)"
ok "later_cancel waits for a move that has begun" blocked b
ask a COMMIT >/dev/null
hears "later_cancel cancels an event that was moved meanwhile" b "t|"

# --- Claims ---
shut a
shut b
schema
open a
hf sub create jobs --on 'job.*' --mode shared --from start >/dev/null
keep 31 job.late
claim="SELECT type, position FROM holdfast.claim('default', 'jobs')"
is "claim brings an event for later that is due" "$claim" "job.late|1"
is "claim hands out an event for later once" "$claim" ""
sql "SELECT holdfast.create_schedule('default', 'beat', '@every 1s', 'job.beat', misfire => 'once');
     UPDATE holdfast_private.schedules SET next_at = next_at - interval '1 hour'" >/dev/null
is "claim brings an event of a schedule that is due" \
    "SELECT count(*) > 0 FROM holdfast.claim('default', 'jobs') WHERE type = 'job.beat'" t
sql "SELECT holdfast.drop_schedule('default', 'beat')" >/dev/null
keep 32 job.late
asks "setup: a claim brings an event and will be rolled back" a \
    "BEGIN; SELECT count(*) FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 32)'" 1
ask a ROLLBACK >/dev/null
is "a claim that is rolled back has brought nothing" \
    "SELECT count(*) FROM holdfast.later_list('default')" 1
is "the next claim brings the event of a claim that was rolled back" \
    "SELECT count(*) FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 32)'" 1
keep 33 job.held
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'job.now', '1', id => '$(id 33)')" >/dev/null
ok "claim warns if what is due cannot be brought now" \
    like "*WARNING*what is due cannot be brought now*" \
    "$(PGOPTIONS= sql "SELECT count(*) FROM holdfast.claim('default', 'jobs')")"
sql "SELECT FROM holdfast.publish('default', 'job.other', '1')" >/dev/null
is "claim hands out other events if what is due cannot be brought" "SET client_min_messages = error;
    SELECT type FROM holdfast.claim('default', 'jobs')" "job.other"
ask a COMMIT >/dev/null
is "an event for later that was published in another way is in the log once" \
    "SELECT type FROM holdfast.claim('default', 'jobs'); $logged '$(id 33)'" "job.now 1"
is "an event for later that was published in another way waits no more" \
    "SELECT count(*) FROM holdfast.later_list('default')" 0

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in viewer publisher consumer owner; do
    sql "CREATE ROLE $part LOGIN" >/dev/null
    sql "SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
as() { psql -qXAt -U "$1" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$2" 2>&1 | paste -sd' ' -; }
keep 41 job.late
ok "a viewer's tick of all namespaces passes over those that it only sees" same "0|0|" \
    "$(as viewer "SELECT released, fired, next_at FROM holdfast.tick()")"
ok "a viewer's tick of a namespace is refused" like "*42501*may not bring what is due in*" \
    "$(as viewer "SELECT released, fired, next_at FROM holdfast.tick('default')")"
ok "a viewer does not learn the next time" same "" "$(as viewer "SELECT holdfast.timers_next(1)")"
ok "a viewer does not see events for later" like "*42501*may not see the events for later*" \
    "$(as viewer "SELECT * FROM holdfast.later_list('default')")"
ok "a viewer cannot call change_bring" like "*42501*" \
    "$(as viewer "SELECT * FROM holdfast.change_bring(1, 10)")"
ok "a viewer cannot cancel an event for later" like "*42501*" \
    "$(as viewer "SELECT * FROM holdfast.later_cancel('default', '$(id 41)')")"
ok "a viewer's command tick does not say that nothing waits" \
    like "*permission denied for function change_bring*namespace grant*status 1" \
    "$(role=viewer hf tick 2>&1 || echo "status $?")"
url="postgresql:///$PGDATABASE?host=$PGHOST&user=viewer"
timeout 3 "$HOLDFAST" --db "$url" tail --follow >/dev/null 2>&1
is "tail --follow of a viewer brings nothing" \
    "SELECT count(*) FROM holdfast.later_list('default')" 1
ok "a consumer learns the next time" \
    same t "$(as consumer "SELECT holdfast.timers_next(1) <= now()")"
ok "a consumer does not see events for later" like "*42501*" \
    "$(as consumer "SELECT * FROM holdfast.later_list('default')")"
ok "a consumer cannot cancel an event for later" like "*42501*" \
    "$(as consumer "SELECT * FROM holdfast.later_cancel('default', '$(id 41)')")"
ok "a consumer's claim brings an event that is due" same "job.late" \
    "$(as consumer "SELECT type FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 41)'")"
keep 42 job.late
ok "a consumer's tick brings an event that is due" \
    same 1 "$(as consumer "SELECT released FROM holdfast.tick('default')")"
keep 43 job.late
ok "a consumer's command tick brings an event that is due" \
    like '*"released":1,*' "$(role=consumer hf tick --json)"
sql "SELECT holdfast.create_schedule('default', 'beat', '@every 1s', 'job.beat')" >/dev/null
sleep 1.1
ok "a consumer's command tick fires schedules" \
    like '*"fired":[1-9]*' "$(role=consumer hf tick --json)"
sql "SELECT holdfast.drop_schedule('default', 'beat')" >/dev/null
keep 44 job.late
ok "a consumer's command claim brings an event that is due" \
    like "*$(id 44)*" "$(role=consumer hf claim jobs --json)"
keep 47 job.late
"$HOLDFAST" --db "${url%viewer}consumer" work jobs --exec true >/dev/null 2>&1 &
ok "a consumer's worker brings an event that is due" \
    becomes "SELECT count(*) FROM holdfast.later_list('default')" 0
keep 48 job.late '1 s'
ok "a consumer's worker brings an event when its time comes" \
    becomes "SELECT count(*) FROM holdfast.later_list('default')" 0
kill $!
wait $!
keep 45 job.late '1 h'
ok "a publisher sees events for later" same job.late \
    "$(as publisher "SELECT type FROM holdfast.later_list('default')")"
ok "a publisher sees events for later by a pattern of types" same job.late \
    "$(as publisher "SELECT type FROM holdfast.later_list('default', type => 'job.*')")"
ok "a publisher cancels an event for later" same "t|" \
    "$(as publisher "SELECT * FROM holdfast.later_cancel('default', '$(id 45)')")"
stats="SELECT later FROM holdfast.stats('default') WHERE subscription IS NULL"
ok "stats counts events for later only for roles that see them" same "0 " \
    "$(as publisher "$stats") $(as viewer "$stats")"
done_testing
