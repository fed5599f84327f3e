#!/usr/bin/env bash
# claim, ack, nack, release, bury, touch: pulling for scripts.
. "$(dirname "$0")/lib.sh"

for n in 1 2 3 4 5 6; do hf publish job.new "{\"n\":$n}"; done
hf sub create jobs --on 'job.*' --from start --mode shared --retries 1 --retry-base 0
exits 3 "claim from an unknown subscription exits with not found" claim nothing
hf sub create line --on 'job.*' --from start
exits 1 "an ordered subscription cannot be claimed from" claim line

exits 0 "claim takes --max and --json" claim jobs --max 2 --json
json "claim --json prints a JSON object per event" out
is "claim --max 2 hands out two events" "$(wc -l <out)" 2
is "claim hands out events in the order of the log" \
    "$(field out 1 '$.position') $(field out 2 '$.position')" "1 2"
is "the first claim of an event is attempt 1" "$(field out 1 '$.attempt')" 1
first=$(field out 1 '$.lease')
is "events that are claimed together have one lease" "$(field out 2 '$.lease')" "$first"
true_that "the text of a lease has 32 digits" test ${#first} -eq 32
exits 0 "claim without --json hands out an event" claim jobs --max 1 --lease 1m
has "claim prints the lease and when it ends" out '^lease [0-9a-f]{32}  expires in '
second=$(sed -n 's/^lease \([0-9a-f]*\).*/\1/p' out)
exits 0 "ack takes a lease of a process that has ended" ack jobs "$first" 1
exits 4 "ack of an event that is acknowledged exits with a conflict" ack jobs "$first" 1
has "the error of a second ack names the lease" err 'lease'
exits 4 "ack of a position of another lease exits with a conflict" ack jobs "$first" 3
exits 0 "ack without positions acknowledges the rest of the lease" ack jobs "$first"
exits 4 "ack with a lease that is used up exits with a conflict" ack jobs "$first"
exits 4 "ack with a lease that never was exits with a conflict" \
    ack jobs 00000000000000000000000000000000
exits 2 "ack refuses a position that is no number" ack jobs "$second" three
exits 2 "ack needs a lease" ack jobs

exits 0 "release takes a lease" release jobs "$second"
exits 0 "claim succeeds after a release" claim jobs --max 1 --json
is "claim hands out the released event again" "$(field out 1 '$.position')" 3
is "a released event comes again as the same attempt" "$(field out 1 '$.attempt')" 1
lease=$(field out 1 '$.lease')
exits 0 "release takes the option --delay" release jobs "$lease" --delay 1500ms
exits 0 "claim succeeds while a released event is delayed" claim jobs --max 1 --json
is "claim hands out the next event while a released one is delayed" "$(field out 1 '$.position')" 4
hf release jobs "$(field out 1 '$.lease')"
hf event show 3 --json
has "an event that is released with a delay is shown as retrying" out '"state": ?"retrying"'
sleep 1.6
exits 0 "claim succeeds after the delay of a release" claim jobs --max 1 --json
is "release --delay hands the event out again after its time" "$(field out 1 '$.position')" 3
is "release --delay does not count an attempt" "$(field out 1 '$.attempt')" 1
lease=$(field out 1 '$.lease')
exits 0 "nack takes --error and --delay" nack jobs "$lease" 3 --error 'not today' --delay 0
hf claim jobs --max 1 --json --wait 60s
is "nack --delay 0 hands the event out again at once" "$(field out 1 '$.position')" 3
is "an event comes again after nack as attempt 2" "$(field out 1 '$.attempt')" 2
lease=$(field out 1 '$.lease')
hf nack jobs "$lease" --error 'never again'
hf dlq list --json
is "an event whose last attempt failed is a dead letter with reason attempts" \
    "$(field out 1 '$.reason')" attempts
is "a dead letter has the error of the last nack" "$(field out 1 '$.error')" 'never again'
is "a dead letter has the errors of all attempts" \
    "$(field out 1 '$.attempts_json[0].error')" 'not today'

hf claim jobs --max 1 --json
lease=$(field out 1 '$.lease')
exits 0 "bury takes a lease and an error" bury jobs "$lease" --error 'no such address'
hf dlq list --json --limit 1
is "a buried event is a dead letter with reason rejected" "$(field out 1 '$.reason')" rejected
is "a buried event keeps the error of bury" "$(field out 1 '$.error')" 'no such address'

# --- Time ---
hf claim jobs --max 1 --lease 2s --json
lease=$(field out 1 '$.lease')
exits 0 "touch --lease takes a longer time" touch jobs "$lease" --lease 1m
sleep 2.1
exits 0 "ack succeeds after the first end of a lease that touch prolonged" ack jobs "$lease"
hf claim jobs --max 1 --lease 100ms --json
lease=$(field out 1 '$.lease')
exits 0 "after the end of its lease an event can be claimed again" claim jobs --json --wait 60s
is "the next claim gets the event of the ended lease" "$(field out 1 '$.position')" 6
newer=$(field out 1 '$.lease')
exits 4 "ack with a lease whose event was claimed again exits with a conflict" ack jobs "$lease"
exits 0 "ack with the newer lease of an event succeeds" ack jobs "$newer"

exits 5 "claim exits with 5 if there is nothing to claim" claim jobs
is "claim prints nothing if there is nothing to claim" "$(cat out)" ''
begin=${EPOCHREALTIME/./}
exits 5 "claim --wait exits with 5 if no event comes" claim jobs --wait 400ms
true_that "claim --wait waits for as long as asked" test $((${EPOCHREALTIME/./} - begin)) -ge 400000
"$HOLDFAST" claim jobs --wait 60s --json >waited 2>/dev/null &
pid=$!
sleep 0.2
hf publish job.late
until_true 60 test -s waited
is "claim --wait ends when an event comes" "$?" 0
wait $pid
"$HOLDFAST" claim jobs --wait 60s >/dev/null 2>&1 &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid
wait $pid
is "SIGTERM ends claim --wait with 5" "$?" 5

hf publish job.x
hf sub pause jobs --reason 'for a test'
hf claim jobs
is "claim hands out nothing of a paused subscription" "$(cat out)" ''
has "claim says when and why a subscription was paused" \
    err '^Nothing to claim: it was paused at .*: for a test\.$'
hf sub resume jobs
"$HOLDFAST" claim jobs --json >/dev/full 2>err
is "claim fails if it cannot print the event" "$?" 1
is "claim says once that it cannot write its output" "$(grep -c 'cannot write the output' err)" 1
exits 0 "claim succeeds after a claim that could not be printed" claim jobs --json
is "an event that claim could not print is handed out again" "$(wc -l <out)" 1

# --- Limits ---
exits 2 "claim refuses a lease of 0" claim jobs --lease 0
has "the refusal of claim --lease names its limits" \
    err '--lease takes a time .* from 1ms to 7d, not .0.'
exits 2 "touch refuses a lease of 8 days" touch jobs x --lease 8d
has "the refusal of touch --lease names its limits" \
    err '--lease takes a time .* from 1ms to 7d, not .8d.'
exits 2 "nack refuses a delay of 367 days" nack jobs x --delay 367d
has "the refusal of nack --delay names its limits" \
    err '--delay takes a time .* from 0ms to 366d, not .367d.'
exits 2 "release refuses a delay of 367 days" release jobs x --delay 367d


# --- What is put off has not failed ---
hf sub create snoozed --on 'nap.*' --from start --mode shared
hf publish nap.taken
hf claim snoozed --json
hf release snoozed "$(field out 1 '$.lease')" --delay 1h
exits 5 "claim finds nothing but an event that was put off" claim snoozed
has "claim does not call an event failed that was put off" \
    err '^Nothing to claim: 1 event waits for its next attempt; it is due at 20'
finish
