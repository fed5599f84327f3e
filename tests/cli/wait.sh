#!/usr/bin/env bash
# wait: until an event is done or dead, in one subscription or in all.
. "$(dirname "$0")/lib.sh"

exits 0 "setup: sub create makes a subscription for two types" \
    sub create good --on 'job.*' --from start --mode shared
exits 0 "setup: sub create makes a subscription for one type" \
    sub create bad --on 'job.two' --from start --mode shared --attempts-max 1
exits 0 "setup: an event for one subscription is published" publish job.one '{}'
exits 0 "setup: an event for both subscriptions is published" publish job.two '{}'
exits 0 "setup: an event for no subscription is published" publish other '{}'
exits 5 "wait exits with 5 if no worker runs within --timeout" wait 1 --timeout 200ms
has "wait says which event is not settled yet, and how to find out why" \
    err '^holdfast: event [0-9a-f-]{36} is not settled yet: .holdfast event show 1. says why$'
has "wait prints the state of the event in the subscription" out '^good: pending$'

"$HOLDFAST" wait 1 >waited 2>&1 &
pid=$!
sleep 0.5
true_that "wait without --timeout waits for the event" kill -0 $pid
exits 0 "setup: a worker handles all events of the first subscription" \
    work good --exec true --until-empty
wait $pid
is "wait exits with 0 when the event is done" "$?" 0
is "wait prints that the event is done in the subscription" "$(cat waited)" "good: done"

exits 0 "wait -s exits with 0 if the event is done in the subscription" wait 2 -s good
exits 5 "wait exits with 5 if the event is pending in another subscription" wait 2 --timeout 0s
exits 7 "setup: a worker makes a dead letter in the second subscription" \
    work bad --exec false --until-empty
exits 7 "wait exits with 7 if the event is a dead letter" wait 2
has "wait prints in which subscription the event is dead" out '^bad: dead$'
id=$("$HOLDFAST" tail job.two --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
exits 7 "wait takes the id of an event" wait "$id" --json
json "wait --json prints a JSON object" out
is "wait --json prints the position of the event" "$(field out 1 '$.position')" 2
is "wait --json prints that the event is settled" "$(field out 1 '$.settled')" 1

exits 0 "wait exits with 0 for an event of no subscription" wait 3
has "wait says that the event is for no subscription" err 'no subscription'
exits 3 "wait of an unknown position exits with not found" wait 99
exits 3 "wait --subscription of an unknown one exits with not found" wait 1 --subscription nobody
exits 2 "wait refuses what is neither an id nor a position" wait nonsense
"$HOLDFAST" publish job.one '{}' >/dev/null
"$HOLDFAST" wait 4 >waited 2>&1 &
pid=$!
sleep 0.5
kill -TERM $pid
wait $pid
is "SIGTERM ends wait with 5" "$?" 5

# --- An event for later ---
hf publish other '{}' --delay 1h --json
id=$(field out 1 '$.id')
exits 5 "wait exits with 5 if the event waits for its time" wait "$id" --timeout 100ms
has "wait says that the event waits for its time" err "waits for its time: .holdfast later show $id"
exits 5 "wait --json exits with 5 if the event waits for its time" wait "$id" --timeout 0s --json
is "wait --json prints an event that waits without a position" \
    "$(cat out)" "{\"id\":\"$id\",\"position\":null,\"states\":[],\"settled\":false}"
"$HOLDFAST" wait "$id" >waited 2>&1 &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid
wait $pid
is "SIGTERM ends wait for an event that waits for its time with 5" "$?" 5
hf publish other '{}' --delay 1s --json
exits 0 "wait brings an event that is due and waits for it" \
    wait "$(field out 1 '$.id')" --timeout 60s
has "wait says that the event that it brought is for no subscription" err 'no subscription'
finish
