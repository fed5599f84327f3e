#!/usr/bin/env bash
# tail, event, stats, doctor, migrate: looking without touching.
. "$(dirname "$0")/lib.sh"

exits 0 "migrate creates the database" migrate --namespace default
has "and says so" out 'schema'
exits 0 "migrate --json is an object" migrate --json
json "a valid one" out
exits 0 "tail of an empty log is empty" tail
is "nothing at all" "$(cat out)" ''
exits 0 "event list of an empty log is empty" event list

for n in 1 2 3 4 5 6; do
    hf publish "order.$((n % 2 ? 1 : 2))" "{\"n\": $n}" --key "k$n"
done
exits 0 "tail shows the log" tail
is "one line per event" "$(wc -l <out)" 6
has "with position, time, id, type, key and payload" out \
    '^3  20..-..-..T..:..:..Z  [-0-9a-f]{36}  order\.1  key=k3  \{"n": 3\}$'
exits 0 "a pattern selects" tail order.2 --json
json "--json prints an object per line" out
is "three of six" "$(wc -l <out)" 3
exits 0 "--limit shows the last ones" tail --limit 2 --json
is "in the order of the log" "$(field out 1 '$.position') $(field out 2 '$.position')" "5 6"
exits 0 "of a type that is rare, too" tail order.2 -n 2 --json
is "these" "$(field out 1 '$.position') $(field out 2 '$.position')" "4 6"
exits 0 "more than there are is all" tail order.2 -n 7
is "three" "$(wc -l <out)" 3
exits 0 "with --from it shows the first ones" tail --from start --limit 2 --json
is "in this order" "$(field out 1 '$.position') $(field out 2 '$.position')" "1 2"
exits 0 "a limit of 0 is nothing" tail -n 0
is "nothing" "$(cat out)" ''
exits 0 "--from a position begins after it" tail --from 4 --json
is "at the next one" "$(field out 1 '$.position')" 5
exits 0 "--from now is empty" tail --from now
is "without --follow" "$(cat out)" ''
exits 0 "--from a time long ago is everything" tail --from 2020-01-01T00:00:00Z
is "all six" "$(wc -l <out)" 6
exits 0 "--from an hour ago is everything" tail --from 1h
is "all six again" "$(wc -l <out)" 6
exits 2 "a time to come is refused" tail --from 2999-01-01
is "nothing yet" "$(cat out)" ''
exits 2 "a bad pattern is refused" tail 'a.**.b'

# --- The end of a longer log ---
for n in $(seq 1500); do
    printf '{"type": "many", "payload": %d}\n' "$n"
done >many.ndjson
exits 0 "many events" publish --file many.ndjson
exits 0 "without a word tail shows the end" tail --json
is "ten events" "$(wc -l <out)" 10
is "the last ones" "$(field out 10 '$.payload')" 1500
exits 0 "a type that is far from the end is found" tail order.2 -n 2 --json
is "the last two of it" "$(field out 1 '$.payload.n') $(field out 2 '$.payload.n')" "4 6"
exits 0 "--from start shows all" tail --from start
is "each of them" "$(wc -l <out)" 1506
exits 0 "event show takes a position" event show 3
has "of this event" out 'order\.1'
exits 3 "one that is not there is not found" event show 99999
has "and named" err '99999'
exits 3 "0 is before the first one" event show 0

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
is "--follow shows what comes" "$?" 0
is "and only that" "$(grep -vc '"late": true' followed)" 0
kill -TERM $pid
wait $pid
is "SIGTERM ends it well" "$?" 0
"$HOLDFAST" tail --follow --limit 1 >followed &
pid=$!
ended() { ! kill -0 $pid; }
until_true 60 publish_late ended
wait $pid
is "--follow with --limit ends by itself" "$? $(wc -l <followed)" "0 1"
timeout 60 sh -c "'$HOLDFAST' tail --from start | head -1" >out
is "a reader that leaves is no trouble" "$(wc -l <out)" 1

# --- Events ---
exits 0 "event list is a table" event list --from 2 --limit 3
has "with titles" out '^POSITION +ID +TYPE +KEY'
is "and so many rows" "$(wc -l <out)" 4
has "and says how to go on" err -- '--from 5'
exits 0 "event list selects types" event list --type order.9 --json
is "all of them" "$(wc -l <out)" "$late"
id=$(field out 1 '$.id')
hf sub create watcher --on order.9 --from start
exits 0 "event show shows the event" event show "$id"
has "its fields" out '^type: +order.9$'
has "and its state in a subscription" out '^watcher +pending'
exits 0 "event show --json is an object" event show "$id" --json
json "a valid one" out
is "with the states" "$(field out 1 '$.states[0].state')" pending
exits 3 "an unknown id is not found" event show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 2 "an id that is none is refused" event show xyz
printf '{"a":\n\t1.0,\r\n "b": "\xc2\x9bx\x7f"}' >payload
"$HOLDFAST" publish odd.one - <payload >out
id=$(sed 's/.*id //' out)
exits 0 "event show --payload prints the payload" event show "$id" --payload
true_that "byte for byte" cmp out payload
exits 0 "a payload with line ends is one line of --json" tail odd.one --json
json "that is valid" out
is "with the same value" "$(field out 1 '$.payload.a')" 1.0

# --- Numbers ---
exits 0 "stats shows the numbers" stats
has "the oldest waiting first" out '^oldest waiting: '
is "it is the first line" "$(head -1 out | cut -d: -f1)" 'oldest waiting'
has "and the subscriptions" out '^watcher '
exits 0 "stats --json is an object" stats --json
json "a valid one" out
is "with the newest position" "$(field out 1 '$.head')" $((1507 + late))
true_that "and a rate" test -n "$(field out 1 '$.rate')"
hf doctor
true_that "doctor answers 0 or 7" test "$rc" -eq 0 -o "$rc" -eq 7
has "it names the engine" out "engine +$engine"
found=$rc
hf doctor --json
json "doctor --json prints objects" out
is "the exit code says whether there are findings" "$found" \
    "$(grep -qE '"level":"(warn|error)"' out && echo 7 || echo 0)"
exits 0 "--quiet keeps the data" stats --quiet
true_that "on stdout" test -s out

finish
