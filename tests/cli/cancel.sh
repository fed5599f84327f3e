#!/usr/bin/env bash
# event cancel: an event is settled for one subscription without a handler, and says so.
. "$(dirname "$0")/lib.sh"
export USER=tester

# states FILE: "subscription state by reason" of each state that event show --json has printed.
states() {
    sqlite3 :memory: "SELECT group_concat(json_extract(s.value, '\$.subscription') || ' '
            || json_extract(s.value, '\$.state') || ' '
            || ifnull(json_extract(s.value, '\$.cancelled_by'), '-') || ' '
            || ifnull(json_extract(s.value, '\$.cancel_reason'), '-'), ', ')
        FROM json_each(cast(readfile('out') AS text), '\$.states') s"
}
rows() { # TABLE: how many rows it has
    if on sqlite; then
        sqlite3 bus.db "SELECT count(*) FROM holdfast_$1"
    else
        psql -qXAt "$HOLDFAST_URL" -c "SELECT count(*) FROM holdfast_private.$1"
    fi
}
id_of() { hf event list --json; field out "$1" '$.id'; } # POSITION

# --- Shared, with nobody at work ---
hf sub create jobs --on 'job.*' --mode shared --from start
hf sub create other --on '**' --mode shared --from start
for n in 1 2 3; do hf publish "job.$n" "{\"n\":$n}"; done
exits 0 "an event is cancelled by its position" event cancel 2 --subscription jobs \
    --by ann --reason 'sent by hand'
has "the command says so" err '^Event [0-9a-f-]{36} is cancelled for jobs\.$'
exits 0 "event show --json" event show 2 --json
is "it is cancelled in one subscription, by whom and why" "$(states)" \
    "jobs cancelled ann sent by hand, other pending - -"
has "with the time" out '"cancelled_at":"20[0-9-]+T'
exits 0 "event show as text" event show 2
has "the table says it" out '^jobs +cancelled'
has "and below it by whom and why" out '^jobs: cancelled .*, by ann: sent by hand$'
exits 0 "sub show" sub show jobs --json
is "it is not pending" "$(field out 1 '$.pending')" 2
exits 0 "once more" event cancel 2 -s jobs --by bob --json
json "the answer is an object" out
is "the first one stays" "$(field out 1 '$.state') $(field out 1 '$.cancelled_by')" "cancelled ann"
exits 0 "once more, as text" event cancel 2 -s jobs
has "it was cancelled before" err 'was cancelled for jobs before, .* by ann'
hf claim jobs --max 10 --json --lease 1m
is "a claim passes it over" "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "1 3 "
lease=$(field out 1 '$.lease')
exits 0 "what is claimed can be cancelled" event cancel "$(id_of 1)" -s jobs
exits 4 "an ack that names it is refused" ack jobs "$lease" 1
exits 0 "an ack of what is left is not" ack jobs "$lease"
exits 0 "event show" event show 1 --json
is "it is cancelled, and not done" "$(states | cut -d, -f1)" "jobs cancelled tester -"
exits 4 "what is done cannot be cancelled" event cancel 3 -s jobs
has "that is said" err 'is done in subscription jobs'
exits 0 "wait does not wait for it" wait 2 --subscription jobs --timeout 1s

# --- What is refused ---
hf publish mail.x '{}'
exits 4 "one that is not for it" event cancel 4 -s jobs
has "that is said" err 'is not for subscription jobs: no pattern'
exits 3 "no such event" event cancel 99 -s jobs
exits 3 "no such id" event cancel 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 -s jobs
exits 3 "no such subscription" event cancel 4 -s nosuch
exits 2 "without a subscription" event cancel 4
has "that is said" err -- '--subscription'
hf publish job.later '{}' --delay 1h --json
exits 4 "one that waits for its time" event cancel "$(field out 1 '$.id')" -s jobs
has "the hint is later cancel" err 'later cancel'
hf publish job.bad '{}'
hf claim jobs --json
hf bury jobs "$(field out 1 '$.lease')"
exits 4 "a dead letter" event cancel 5 -s jobs
has "the hint is dlq resolve" err 'dead letter [0-9]+ .*dlq resolve'

# --- Ordered, with a worker ---
hf sub create line --on 'line.*' --from start --retry-base 1h --retry-max 1h
for n in 1 2 3 4; do hf publish line.x "{\"n\":$n}" --key k; done # positions 6 to 9
# shellcheck disable=SC2016
"$HOLDFAST" work line --concurrency 1 --exec 'echo "$HOLDFAST_POSITION" >>begun
    until [ -e "go$HOLDFAST_POSITION" ]; do sleep 0.05; done
    [ "$HOLDFAST_POSITION" != 6 ]' >work.out 2>work.err &
pid=$!
until_true 60 test -s begun
exits 0 "what waits behind the handler is cancelled" event cancel 7 -s line --wait 60s
exits 5 "what runs is not, and says so in time" event cancel 6 -s line --wait 300ms
has "the sentence says who is at it" err 'was not cancelled: .* has (had )?it'
exits 0 "event show" event show 6 --json
hasnt "it is not cancelled" out '"state":"cancelled"'
hasnt "nor requested to be" out '"cancel_requested":true'
"$HOLDFAST" event cancel 6 -s line --wait 60s --reason 'gave up' >cancel.out 2>cancel.err &
canceller=$!
requested() { hf event show 6 --json; grep -q '"cancel_requested":true' out; }
true_that "the request can be seen" until_true 60 requested
touch go6 go8 go9
wait $canceller
is "when the attempt has failed it is cancelled" "$?" 0
exits 0 "all else goes on" wait 9 --subscription line --timeout 60s
is "each was run once, but for the cancelled one" "$(tr '\n' ' ' <begun)" "6 8 9 "
exits 0 "event show" event show 6 --json
has "the failed attempt is still told" out '"state":"cancelled","attempts":1'
kill -TERM $pid
wait $pid

# --- A worker that was killed ---
for n in 1 2; do hf publish line.y "{\"n\":$n}" --key k; done # positions 10 and 11
"$HOLDFAST" work line --concurrency 1 --exec 'exec sleep 20' >/dev/null 2>&1 &
pid=$!
running() { hf event show 10 --json; grep -q '"state":"processing"' out; }
until_true 60 running
kill -KILL $pid
wait $pid 2>/dev/null
exits 0 "of a process that is dead everything can be cancelled" event cancel 10 -s line --wait 60s
exits 0 "also what it had not begun" event cancel 11 -s line --wait 60s
hf work line --exec 'echo "$HOLDFAST_POSITION" >>after' --until-empty
is "the next worker finds nothing to do" "$rc $(cat after 2>/dev/null)" "0 "

# --- Seek, retention, verify, removal ---
exits 0 "a seek back" sub seek line --to 9 --yes
exits 0 "work" work line --exec 'echo "$HOLDFAST_POSITION" >>again' --until-empty
is "delivers what was cancelled again" "$(tr '\n' ' ' <again)" "10 11 "
exits 0 "verify finds nothing wrong" verify
is "marks are rows" "$([ "$(rows cancels)" -gt 0 ] && echo some)" some
exits 0 "other gets everything" work other --exec 'true' --until-empty
for sub in jobs line other; do hf sub rm "$sub" --yes; done
is "nothing is left of them when the subscriptions go" "$(rows cancels) $(rows settled)" "0 0"
exits 0 "help" help event cancel
has "it has examples" out 'event cancel 4711 --subscription mailer'
finish
