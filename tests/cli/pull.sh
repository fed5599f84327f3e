#!/usr/bin/env bash
# claim, ack, nack, release, bury, touch: pulling for scripts.
. "$(dirname "$0")/lib.sh"

for n in 1 2 3 4 5 6; do hf publish job.new "{\"n\":$n}"; done
hf sub create jobs --on 'job.*' --from start --mode shared --retries 1 --retry-base 0
exits 3 "claiming from nothing is not found" claim nothing
hf sub create line --on 'job.*' --from start
exits 1 "an ordered subscription cannot be claimed from" claim line

exits 0 "claim takes events" claim jobs --max 2 --json
json "an object per event" out
is "as many as asked for" "$(wc -l <out)" 2
is "in order" "$(field out 1 '$.position') $(field out 2 '$.position')" "1 2"
is "it is the first attempt" "$(field out 1 '$.attempt')" 1
first=$(field out 1 '$.lease')
is "under one lease" "$(field out 2 '$.lease')" "$first"
true_that "whose text is 32 digits" test ${#first} -eq 32
exits 0 "for people claim prints the lease" claim jobs --max 1 --lease 1m
has "and when it ends" out '^lease [0-9a-f]{32}  expires in '
second=$(sed -n 's/^lease \([0-9a-f]*\).*/\1/p' out)
exits 0 "a lease survives the process that claimed it" ack jobs "$first" 1
exits 4 "an event is acknowledged once" ack jobs "$first" 1
has "else the lease is stale" err 'lease'
exits 4 "a position of another lease is refused" ack jobs "$first" 3
exits 0 "without positions the rest is meant" ack jobs "$first"
exits 4 "then the lease is used up" ack jobs "$first"
exits 4 "a lease that never was is stale" ack jobs 00000000000000000000000000000000
exits 2 "a position is a number" ack jobs "$second" three
exits 2 "a lease is required" ack jobs

exits 0 "release gives back" release jobs "$second"
exits 0 "what was released comes again" claim jobs --max 1 --json
is "the same event" "$(field out 1 '$.position')" 3
is "as the same attempt" "$(field out 1 '$.attempt')" 1
lease=$(field out 1 '$.lease')
exits 0 "release --delay puts it off" release jobs "$lease" --delay 1500ms
exits 0 "others come meanwhile" claim jobs --max 1 --json
is "the next one" "$(field out 1 '$.position')" 4
hf release jobs "$(field out 1 '$.lease')"
hf event show 3 --json
has "it waits for its time" out '"state": ?"retrying"'
sleep 1.6
exits 0 "then it comes again" claim jobs --max 1 --json
is "the one that was put off" "$(field out 1 '$.position')" 3
is "and no attempt was counted" "$(field out 1 '$.attempt')" 1
lease=$(field out 1 '$.lease')
exits 0 "nack with an error" nack jobs "$lease" 3 --error 'not today' --delay 0
hf claim jobs --max 1 --json --wait 60s
is "it comes again" "$(field out 1 '$.position')" 3
is "as the second attempt" "$(field out 1 '$.attempt')" 2
lease=$(field out 1 '$.lease')
hf nack jobs "$lease" --error 'never again'
hf dlq list --json
is "after the last attempt it is dead" "$(field out 1 '$.reason')" attempts
is "with its last error" "$(field out 1 '$.error')" 'never again'
is "and all before" "$(field out 1 '$.attempts_json[0].error')" 'not today'

hf claim jobs --max 1 --json
lease=$(field out 1 '$.lease')
exits 0 "bury makes a dead letter now" bury jobs "$lease" --error 'no such address'
hf dlq list --json --limit 1
is "the reason is rejected" "$(field out 1 '$.reason')" rejected
is "the error is kept" "$(field out 1 '$.error')" 'no such address'

# --- Time ---
hf claim jobs --max 1 --lease 2s --json
lease=$(field out 1 '$.lease')
exits 0 "touch makes a lease last" touch jobs "$lease" --lease 1m
sleep 2.1
exits 0 "beyond its first end" ack jobs "$lease"
hf claim jobs --max 1 --lease 100ms --json
lease=$(field out 1 '$.lease')
exits 0 "after the end of its lease an event can be claimed again" claim jobs --json --wait 60s
is "the next claim gets the event of the ended lease" "$(field out 1 '$.position')" 6
newer=$(field out 1 '$.lease')
exits 4 "and the old lease is stale" ack jobs "$lease"
exits 0 "the new one is good" ack jobs "$newer"

exits 5 "when there is nothing, claim prints nothing and ends with 5" claim jobs
is "nothing at all" "$(cat out)" ''
begin=${EPOCHREALTIME/./}
exits 5 "--wait waits" claim jobs --wait 400ms
true_that "as long as asked" test $((${EPOCHREALTIME/./} - begin)) -ge 400000
"$HOLDFAST" claim jobs --wait 60s --json >waited 2>/dev/null &
pid=$!
sleep 0.2
hf publish job.late
until_true 60 test -s waited
is "and ends when an event comes" "$?" 0
wait $pid
"$HOLDFAST" claim jobs --wait 60s >/dev/null 2>&1 &
pid=$!
until_true 60 heeds $pid
kill -TERM $pid
wait $pid
is "SIGTERM ends the waiting: nothing was claimed" "$?" 5

hf publish job.x
hf sub pause jobs --reason 'for a test'
hf claim jobs
is "a paused subscription hands out nothing" "$(cat out)" ''
has "and says why" err '^Nothing to claim: it was paused at .*: for a test\.$'
hf sub resume jobs
"$HOLDFAST" claim jobs --json >/dev/full 2>err
is "a claim that cannot be printed fails" "$?" 1
is "which is told once" "$(grep -c 'cannot write the output' err)" 1
exits 0 "and was given back" claim jobs --json
is "so that it can be claimed" "$(wc -l <out)" 1

# --- Limits ---
exits 2 "a lease of no time is refused" claim jobs --lease 0
has "by its option and its limits" err '--lease takes a time .* from 1ms to 7d, not .0.'
exits 2 "so is a longer one for a lease" touch jobs x --lease 8d
has "in the same words" err '--lease takes a time .* from 1ms to 7d, not .8d.'
exits 2 "and a delay of more than a year" nack jobs x --delay 367d
has "with its limits" err '--delay takes a time .* from 0ms to 366d, not .367d.'
exits 2 "of a release, too" release jobs x --delay 367d

finish
