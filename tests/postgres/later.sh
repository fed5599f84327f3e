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
is "listed as they are due" "$list)" "job.a job.b other"
is "by type" "$list, type => 'job.*')" "job.a job.b"
is "by key" "$list, key => 'k13')" "other"
is "by time" "$list, due_before => now() + interval '90 minutes')" "job.a"
is "page by page" "SELECT n.type FROM (SELECT * FROM holdfast.later_list('default', max => 1)) l,
    holdfast.later_list('default', after_due_at => l.due_at, after_number => l.number) n" \
    "job.b other"
is "with payloads" \
    "SELECT payload, key, due_at > now() FROM holdfast.later_show('default', '$(id 12)')" \
    '{"n": 1.50}|k12|t'
is "what does not wait is no row" \
    "SELECT count(*) FROM holdfast.later_show('default', '$(id 99)')" 0
is "stats counts them" "SELECT later FROM holdfast.stats('default')" 3
fails "too many" "$list, max => 1001)" "HF001: max is 1001; it must be 1 to 1000"
for type in 'job..*' '' 'a b' '*x' '**.a'; do
    fails "by a type that is no pattern: $type" "$list, type => '$type')" \
        "HF001: type is no pattern: $type"
done
for type in 3:'*' 3:'**' 2:'job.**' 1:'*.a' 1:other; do
    is "by one that is: ${type#*:}" "SELECT count(*)
        FROM holdfast.later_list('default', type => '${type#*:}')" "${type%%:*}"
done
fails "of no namespace" "SELECT FROM holdfast.later_list('no')" "HF003: there is no namespace no"
plan=$(sql "SET enable_seqscan = off; EXPLAIN SELECT * FROM holdfast_private.delayed d
    WHERE d.namespace_id = 1 AND (d.due_at, d.number) > (now(), 0)
    ORDER BY d.due_at, d.number LIMIT 10")
ok "a page is read by the index" like "*Index Scan using delayed_due*" "$plan"

# --- Cancelling and moving ---
is "cancelled" "SELECT * FROM holdfast.later_cancel('default', '$(id 13)')" "t|"
fails "it is gone" "SELECT FROM holdfast.later_cancel('default', '$(id 13)')" \
    "HF003: no event with this id *"
is "moved" "SELECT * FROM holdfast.later_move('default', '$(id 12)', now() - interval '1 s')" "t|"
is "it comes then" "SELECT released, next_at > now() FROM holdfast.tick('default')" "1|t"
is "and cannot be moved any more" \
    "SELECT * FROM holdfast.later_move('default', '$(id 12)', now())" "f|1"
is "nor cancelled" "SELECT * FROM holdfast.later_cancel('default', '$(id 12)')" "f|1"
fails "no time" "SELECT FROM holdfast.later_move('default', '$(id 11)', NULL)" \
    "HF001: deliver_at is missing*"
fails "no real time" "SELECT FROM holdfast.later_move('default', '$(id 11)', 'infinity')" \
    "HF001: deliver_at is missing, or outside*"
fails "what others commit must be seen" "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT FROM holdfast.later_cancel('default', '$(id 11)')" \
    "HF002: to cancel needs a transaction that is READ COMMITTED*"

# --- At the same moment ---
open a
open b
tick="SELECT released FROM holdfast.tick('default')"
cancel() { echo "SELECT * FROM holdfast.later_cancel('default', '$(id "$1")')"; }
in_an_hour="now() + interval '1 h'"
move() { echo "SELECT * FROM holdfast.later_move('default', '$(id "$1")', $in_an_hour)"; }
keep 21 t
asks "a tick that is not committed" a "BEGIN; $tick" 1
tell b "$(cancel 21)"
ok "(a cancel waits for it)" blocked b
ask a COMMIT >/dev/null
hears "and finds the event in the log" b "f|2"
keep 22 t
asks "a tick that fails" a "BEGIN; $tick" 1
tell b "$(cancel 22)"
ok "(a cancel waits for it, too)" blocked b
ask a ROLLBACK >/dev/null
hears "and has cancelled it" b "t|"
is "so it never comes" "$tick" 0
keep 23 t
asks "a cancel that is not committed" a "BEGIN; $(cancel 23)" "t|"
is "a tick leaves it alone" "$tick" 0
ask a COMMIT >/dev/null
is "then it is gone" "$tick; $logged '$(id 23)'" "0 0"
keep 24 t
asks "a cancel that is rolled back" a "BEGIN; $(cancel 24)" "t|"
keep 25 t
is "keeps no other waiting" "$tick; $logged '$(id 25)'" "1 1"
ask a ROLLBACK >/dev/null
is "and the event comes" "$tick; $logged '$(id 24)'" "1 1"
keep 26 t
asks "a move that is not committed" a "BEGIN; $(move 26)" "t|"
is "keeps it from coming" "$tick" 0
ask a COMMIT >/dev/null
is "until its new time" \
    "$tick; SELECT due_at > now() FROM holdfast.later_show('default', '$(id 26)')" "0 t"
keep 27 t
asks "a tick that is not committed" a "BEGIN; $tick" 1
tell b "$(move 27)"
ok "(a move waits for it)" blocked b
ask a COMMIT >/dev/null
hears "and finds the event in the log" b "f|$(sql "SELECT max(position) FROM holdfast.event_log")"
keep 28 t
ask a "BEGIN" >/dev/null
asks "a move, in a transaction that looks" a \
    "$(move 28); SELECT count(*) FROM holdfast.later_show('default', '$(id 28)')" "t| 1"
tell b "$(cancel 28)"
ok "(a cancel waits for the move)" blocked b
ask a COMMIT >/dev/null
hears "and cancels it all the same" b "t|"

# --- Claims ---
shut a
shut b
schema
open a
hf sub create jobs --on 'job.*' --mode shared --from start >/dev/null
keep 31 job.late
claim="SELECT type, position FROM holdfast.claim('default', 'jobs')"
is "a claim brings what is due" "$claim" "job.late|1"
is "and hands it out once" "$claim" ""
sql "SELECT holdfast.create_schedule('default', 'beat', '@every 1s', 'job.beat', misfire => 'once');
     UPDATE holdfast_private.schedules SET next_at = next_at - interval '1 hour'" >/dev/null
is "also of a schedule" \
    "SELECT count(*) > 0 FROM holdfast.claim('default', 'jobs') WHERE type = 'job.beat'" t
sql "SELECT holdfast.drop_schedule('default', 'beat')" >/dev/null
keep 32 job.late
asks "a claim that is rolled back" a \
    "BEGIN; SELECT count(*) FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 32)'" 1
ask a ROLLBACK >/dev/null
is "has brought nothing" "SELECT count(*) FROM holdfast.later_list('default')" 1
is "the next one does" \
    "SELECT count(*) FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 32)'" 1
keep 33 job.held
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'job.now', '1', id => '$(id 33)')" >/dev/null
ok "(what is due cannot be brought now)" like "*WARNING*what is due cannot be brought now*" \
    "$(PGOPTIONS= sql "SELECT count(*) FROM holdfast.claim('default', 'jobs')")"
sql "SELECT FROM holdfast.publish('default', 'job.other', '1')" >/dev/null
is "does not keep a claim from others" "SET client_min_messages = error;
    SELECT type FROM holdfast.claim('default', 'jobs')" "job.other"
ask a COMMIT >/dev/null
is "what came in another way is published once" \
    "SELECT type FROM holdfast.claim('default', 'jobs'); $logged '$(id 33)'" "job.now 1"
is "nothing due: a claim writes nothing for it" \
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
ok "a viewer brings nothing" same "0|0|" \
    "$(as viewer "SELECT released, fired, next_at FROM holdfast.tick('default')")"
ok "and learns no time" same "" "$(as viewer "SELECT holdfast.timers_next(1)")"
ok "nor what waits" like "*42501*may not see the events for later*" \
    "$(as viewer "SELECT * FROM holdfast.later_list('default')")"
ok "it may not make the server do it" like "*42501*" \
    "$(as viewer "SELECT * FROM holdfast.change_bring(1, 10)")"
ok "nor cancel" like "*42501*" \
    "$(as viewer "SELECT * FROM holdfast.later_cancel('default', '$(id 41)')")"
role=viewer hf tick >/dev/null
url="postgresql:///$PGDATABASE?host=$PGHOST&user=viewer"
timeout 3 "$HOLDFAST" --db "$url" tail --follow >/dev/null 2>&1
is "tail --follow of a viewer writes nothing" \
    "SELECT count(*) FROM holdfast.later_list('default')" 1
ok "a consumer learns the time" same t "$(as consumer "SELECT holdfast.timers_next(1) <= now()")"
ok "but not what waits" like "*42501*" \
    "$(as consumer "SELECT * FROM holdfast.later_list('default')")"
ok "it may not cancel" like "*42501*" \
    "$(as consumer "SELECT * FROM holdfast.later_cancel('default', '$(id 41)')")"
ok "a claim of it brings what is due" same "job.late" \
    "$(as consumer "SELECT type FROM holdfast.claim('default', 'jobs') WHERE id = '$(id 41)'")"
keep 42 job.late
ok "so does its tick" same 1 "$(as consumer "SELECT released FROM holdfast.tick('default')")"
keep 43 job.late
ok "and its command" like '*"released":1,*' "$(role=consumer hf tick --json)"
sql "SELECT holdfast.create_schedule('default', 'beat', '@every 1s', 'job.beat')" >/dev/null
sleep 1.1
ok "with schedules" like '*"fired":[1-9]*' "$(role=consumer hf tick --json)"
sql "SELECT holdfast.drop_schedule('default', 'beat')" >/dev/null
keep 44 job.late
ok "and a claim of the command" like "*$(id 44)*" "$(role=consumer hf claim jobs --json)"
keep 47 job.late
"$HOLDFAST" --db "${url%viewer}consumer" work jobs --exec true >/dev/null 2>&1 &
ok "and so does its worker" becomes "SELECT count(*) FROM holdfast.later_list('default')" 0
keep 48 job.late '1 s'
ok "when the time comes" becomes "SELECT count(*) FROM holdfast.later_list('default')" 0
kill $!
wait $!
keep 45 job.late '1 h'
ok "a publisher sees what waits" same job.late \
    "$(as publisher "SELECT type FROM holdfast.later_list('default')")"
ok "also by type" same job.late \
    "$(as publisher "SELECT type FROM holdfast.later_list('default', type => 'job.*')")"
ok "and cancels it" same "t|" \
    "$(as publisher "SELECT * FROM holdfast.later_cancel('default', '$(id 45)')")"
stats="SELECT later FROM holdfast.stats('default') WHERE subscription IS NULL"
ok "in stats it is for those who see it" same "0 " \
    "$(as publisher "$stats") $(as viewer "$stats")"
done_testing
