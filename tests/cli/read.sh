#!/usr/bin/env bash
# tail, event, stats, doctor, migrate: looking without touching.
. "$(dirname "$0")/lib.sh"

exits 0 "migrate --namespace creates the database" migrate --namespace default
has "migrate prints the version of the schema" out 'schema'
exits 0 "migrate takes the option --json" migrate --json
json "migrate --json prints a JSON object" out
exits 0 "tail of an empty log succeeds" tail
is "tail of an empty log prints nothing" "$(cat out)" ''
has "tail of an empty log says that there are no events" err '^No events\.$'
exits 0 "event list of an empty log succeeds" event list

for n in 1 2 3 4 5 6; do
    hf publish "order.$((n % 2 ? 1 : 2))" "{\"n\": $n}" --key "k$n"
done
exits 0 "tail succeeds with six events" tail
is "tail prints one line per event" "$(wc -l <out)" 6
has "tail prints position, time, id, type, key and payload" out \
    '^3  20..-..-..T..:..:..Z  [-0-9a-f]{36}  order\.1  key=k3  \{"n": 3\}$'
exits 0 "tail takes a pattern" tail order.2 --json
json "tail --json prints a JSON object per line" out
is "tail with a pattern prints only events whose type matches" "$(wc -l <out)" 3
exits 0 "tail takes the option --limit" tail --limit 2 --json
is "tail --limit prints the newest events in the order of the log" \
    "$(field out 1 '$.position') $(field out 2 '$.position')" "5 6"
exits 0 "tail takes a pattern together with -n" tail order.2 -n 2 --json
is "tail with a pattern and -n prints the newest events that match" \
    "$(field out 1 '$.position') $(field out 2 '$.position')" "4 6"
exits 0 "tail takes a -n above the number of events" tail order.2 -n 7
is "tail with a -n above the number of events prints all of them" "$(wc -l <out)" 3
exits 0 "tail takes --from start together with --limit" tail --from start --limit 2 --json
is "tail --from start --limit prints the oldest events" \
    "$(field out 1 '$.position') $(field out 2 '$.position')" "1 2"
exits 0 "tail takes -n with --from" tail --from 2 -n 3 --json
is "tail -n counts from the end, also with --from" \
    "$(field out 1 '$.position') $(field out 3 '$.position')" "4 6"
exits 0 "tail takes -n with a place near the end" tail --from 4 -n 3
is "tail -n shows nothing before the place of --from" "$(wc -l <out)" 2
exits 0 "tail takes -n with --limit" tail -n 3 --limit 1 --json
is "tail -n 3 --limit 1 shows the first of the last three" \
    "$(wc -l <out) $(field out 1 '$.position')" "1 4"
exits 0 "tail takes the option -n 0" tail -n 0
is "tail -n 0 prints nothing" "$(cat out)" ''
exits 0 "tail --from takes a position" tail --from 4 --json
is "tail --from POSITION begins after that position" "$(field out 1 '$.position')" 5
exits 0 "tail takes the option --from now" tail --from now
is "tail --from now without --follow prints nothing" "$(cat out)" ''
exits 0 "tail --from takes a time" tail --from 2020-01-01T00:00:00Z
is "tail --from a time long ago prints everything" "$(wc -l <out)" 6
exits 0 "tail --from takes how long ago" tail --from 1h
is "tail --from 1h prints everything of the last hour" "$(wc -l <out)" 6
exits 2 "tail --from refuses a time to come" tail --from 2999-01-01
is "tail with a refused --from prints nothing" "$(cat out)" ''
exits 2 "tail refuses a bad pattern" tail 'a.**.b'

# --- The end of a longer log ---
for n in $(seq 1500); do
    printf '{"type": "many", "payload": %d}\n' "$n"
done >many.ndjson
exits 0 "setup: 1500 more events are published" publish --file many.ndjson
exits 0 "tail without arguments succeeds on a long log" tail --json
is "tail without arguments prints ten events" "$(wc -l <out)" 10
is "tail without arguments prints the newest events" "$(field out 10 '$.payload')" 1500
exits 0 "tail with a pattern succeeds if the events are far from the end" tail order.2 -n 2 --json
is "tail with a pattern finds the newest matches far from the end" \
    "$(field out 1 '$.payload.n') $(field out 2 '$.payload.n')" "4 6"
exits 0 "tail --from start succeeds on a long log" tail --from start
is "tail --from start prints every event" "$(wc -l <out)" 1506
exits 0 "event show takes a position" event show 3
has "event show POSITION prints the event at that position" out 'order\.1'
exits 3 "event show of a position above the newest exits with not found" event show 99999
has "the error of event show names the missing position" err '99999'
exits 3 "event show of position 0 exits with not found" event show 0

# --- Following ---
# What is published before it is up it need not show, so there may be more than one.
late=0
publish_late() { # CONDITION...
    hf publish order.9 '{"late": true}'
    late=$((late + 1))
    sleep 0.3
    "$@"
}
"$HOLDFAST" tail 'order.*' --follow --json >followed 2>/dev/null &
pid=$!
until_true 60 publish_late test -s followed
is "tail --follow prints new events" "$?" 0
is "tail --follow prints no old events" "$(grep -vc '"late": true' followed)" 0
kill -TERM $pid
wait $pid
is "tail --follow exits with 0 after SIGTERM" "$?" 0
"$HOLDFAST" tail --follow --limit 1 >followed &
pid=$!
ended() { ! kill -0 $pid; }
until_true 60 publish_late ended
wait $pid
is "tail --follow --limit ends after so many events" "$? $(wc -l <followed)" "0 1"
hf tail -n 2 --json
before=$(cat out)
"$HOLDFAST" tail -n 2 --follow --limit 3 --json >followed &
pid=$!
has_lines() { [ "$(wc -l <followed)" -ge "$1" ]; }
until_true 60 has_lines 2
hf publish order.9 '{"late": true}'
late=$((late + 1))
wait $pid
is "tail -n 2 --follow begins with the last two events" "$(head -2 followed)" "$before"
is "tail -n 2 --follow goes on with new events" \
    "$(wc -l <followed) $(grep -c '"late": true' followed)" "3 3"
timeout 60 sh -c "'$HOLDFAST' tail --from start | head -1" >out
is "tail ends well when the reader of its output goes away" "$(wc -l <out)" 1

# --- Events ---
exits 0 "event list takes --from and --limit" event list --from 2 --limit 3
has "event list prints titles" out '^POSITION +ID +TYPE +KEY'
is "event list prints as many rows as --limit allows" "$(wc -l <out)" 4
has "event list says how to go on" err '--from 5'
exits 0 "event list takes the option --type" event list --type order.9 --json
is "event list --type prints every event of the type" "$(wc -l <out)" "$late"
id=$(field out 1 '$.id')
hf sub create watcher --on order.9 --from start
exits 0 "event show takes an id" event show "$id"
has "event show prints the fields of the event" out '^type: +order.9$'
has "event show prints the state of the event in each subscription" out '^watcher +pending'
exits 0 "event show takes the option --json" event show "$id" --json
json "event show --json prints a JSON object" out
is "event show --json has the states of the event" "$(field out 1 '$.states[0].state')" pending
exits 3 "event show of an unknown id exits with not found" \
    event show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 2 "event show refuses what is no id" event show xyz
printf '{"a":\n\t1.0,\r\n "b": "\xc2\x9bx\x7f"}' >payload
"$HOLDFAST" publish odd.one - <payload >out
id=$(sed 's/.*id //' out)
exits 0 "event show takes the option --payload" event show "$id" --payload
true_that "event show --payload prints the payload byte for byte" cmp out payload
exits 0 "tail --json succeeds with a payload that has line ends" tail odd.one --json
json "tail --json prints a payload with line ends as one line of JSON" out
is "tail --json keeps the values of a payload with line ends" "$(field out 1 '$.payload.a')" 1.0

# --- Numbers ---
exits 0 "stats succeeds with events" stats
has "stats prints how long the oldest event has waited" out '^oldest waiting: '
is "stats prints the oldest waiting event in its first line" \
    "$(head -1 out | cut -d: -f1)" 'oldest waiting'
has "stats has a line for each subscription" out '^watcher '
exits 0 "stats takes the option --json" stats --json
json "stats --json prints a JSON object" out
is "stats --json has the newest position as head" "$(field out 1 '$.head')" $((1507 + late))
true_that "stats --json has the rate" test -n "$(field out 1 '$.rate')"
hf doctor
true_that "doctor exits with 0 or 7" test "$rc" -eq 0 -o "$rc" -eq 7
has "doctor names the engine" out "engine +$engine"
found=$rc
hf doctor --json
json "doctor --json prints JSON objects" out
is "doctor exits with 7 exactly if there is a warning or an error" "$found" \
    "$(grep -qE '"level":"(warn|error)"' out && echo 7 || echo 0)"
exits 0 "stats takes the option --quiet" stats --quiet
true_that "stats --quiet still prints the numbers on stdout" test -s out

finish
