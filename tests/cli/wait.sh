#!/usr/bin/env bash
# wait: until an event is done or dead, in one subscription or in all.
. "$(dirname "$0")/lib.sh"

exits 0 "a subscription" sub create good --on 'job.*' --from start --mode shared
exits 0 "and another" sub create bad --on 'job.two' --from start --mode shared --attempts-max 1
exits 0 "an event for one of them" publish job.one '{}'
exits 0 "and one for both" publish job.two '{}'
exits 0 "and one for none" publish other '{}'
exits 5 "what no process works on is not settled" wait 1 --timeout 200ms
has "and that is said" err 'not settled yet'
has "with its state" out '^good: pending$'

"$HOLDFAST" wait 1 >waited 2>&1 &
pid=$!
sleep 0.5
true_that "it waits" kill -0 $pid
exits 0 "a worker does what there is" work good --exec true --until-empty
wait $pid
is "and it ends well" "$?" 0
is "and says what became of it" "$(cat waited)" "good: done"

exits 0 "one subscription may be enough" wait 2 --subscription good
exits 5 "when the other one has not got it" wait 2 --timeout 0s
exits 7 "which fails" work bad --exec false --until-empty
exits 7 "a dead letter is told apart" wait 2
has "by its subscription" out '^bad: dead$'
id=$("$HOLDFAST" tail job.two --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
exits 7 "an event is named by its id as well" wait "$id" --json
json "--json prints an object" out
is "with the position" "$(field out 1 '$.position')" 2
is "and what it is about" "$(field out 1 '$.settled')" 1

exits 0 "an event for no subscription is settled" wait 3
has "which is said" err 'no subscription'
exits 3 "an event that is not there is not found" wait 99
exits 3 "nor is a subscription" wait 1 --subscription nobody
exits 2 "an id is an id" wait nonsense
"$HOLDFAST" publish job.one '{}' >/dev/null
"$HOLDFAST" wait 4 >waited 2>&1 &
pid=$!
sleep 0.5
kill -TERM $pid
wait $pid
is "SIGTERM ends it, and it is not settled" "$?" 5

# --- An event for later ---
hf publish other '{}' --delay 1h --json
id=$(field out 1 '$.id')
exits 5 "an event that waits for its time is not settled" wait "$id" --timeout 100ms
has "and that is said" err "waits for its time: .holdfast later show $id"
exits 5 "in JSON" wait "$id" --timeout 0s --json
is "too" "$(cat out)" "{\"id\":\"$id\",\"position\":null,\"states\":[],\"settled\":false}"
"$HOLDFAST" wait "$id" >waited 2>&1 &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid
wait $pid
is "SIGTERM ends that wait, too" "$?" 5
hf publish other '{}' --delay 1s --json
exits 0 "it is brought when it is due, and waited for" wait "$(field out 1 '$.id')" --timeout 60s
has "to its end" err 'no subscription'
finish
