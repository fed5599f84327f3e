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

# --- Shared, while no worker runs ---
hf sub create jobs --on 'job.*' --mode shared --from start
hf sub create other --on '**' --mode shared --from start
for n in 1 2 3; do hf publish "job.$n" "{\"n\":$n}"; done
exits 0 "event cancel takes a position" event cancel 2 --subscription jobs \
    --by ann --reason 'sent by hand'
has "event cancel says for which subscription it cancelled the event" \
    err '^Event [0-9a-f-]{36} is cancelled for jobs\.$'
exits 0 "event show --json succeeds for a cancelled event" event show 2 --json
is "event show names the subscription, by whom and why an event is cancelled" "$(states)" \
    "jobs cancelled ann sent by hand, other pending - -"
has "event show --json says when an event was cancelled" out '"cancelled_at":"20[0-9-]+T'
exits 0 "event show succeeds for a cancelled event" event show 2
has "event show prints the state cancelled" out '^jobs +cancelled'
has "event show prints by whom and why an event was cancelled" \
    out '^jobs: cancelled .*, by ann: sent by hand$'
exits 0 "sub show succeeds with a cancelled event" sub show jobs --json
is "a cancelled event is not pending" "$(field out 1 '$.pending')" 2
exits 0 "event cancel of a cancelled event succeeds" event cancel 2 -s jobs --by bob --json
json "event cancel --json prints a JSON object" out
is "a second event cancel leaves the first one as it is" \
    "$(field out 1 '$.state') $(field out 1 '$.cancelled_by')" "cancelled ann"
exits 0 "event cancel without --json succeeds for a cancelled event" event cancel 2 -s jobs
has "a second event cancel says when and by whom it was cancelled before" \
    err 'was cancelled for jobs before, .* by ann'
hf claim jobs --max 10 --json --lease 1m
is "claim passes over a cancelled event" \
    "$(sed -E 's/.*"position":([0-9]+).*/\1/' out | tr '\n' ' ')" "1 3 "
lease=$(field out 1 '$.lease')
exits 0 "event cancel succeeds for an event that is claimed" event cancel "$(id_of 1)" -s jobs
exits 4 "ack that names an event cancelled meanwhile exits with a conflict" ack jobs "$lease" 1
exits 0 "ack of the other events of the lease succeeds" ack jobs "$lease"
exits 0 "event show --json succeeds for an event that was cancelled while claimed" \
    event show 1 --json
is "an event that was cancelled while claimed is not done" \
    "$(states | cut -d, -f1)" "jobs cancelled tester -"
exits 4 "event cancel of an event that is done exits with a conflict" event cancel 3 -s jobs
has "the conflict of event cancel says that the event is done" err 'is done in subscription jobs'
exits 0 "wait does not wait for a cancelled event" wait 2 --subscription jobs --timeout 1s

# --- What is refused ---
hf publish mail.x '{}'
exits 4 "event cancel of an event that no pattern matches exits with a conflict" \
    event cancel 4 -s jobs
has "the conflict says that the event is not for the subscription" \
    err 'is not for subscription jobs: no pattern'
exits 3 "event cancel of an unknown position exits with not found" event cancel 99 -s jobs
exits 3 "event cancel of an unknown id exits with not found" \
    event cancel 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 -s jobs
exits 3 "event cancel of an unknown subscription exits with not found" event cancel 4 -s nosuch
exits 2 "event cancel without a subscription is refused" event cancel 4
has "the refusal of event cancel names --subscription" err '--subscription'
hf publish job.later '{}' --delay 1h --json
exits 4 "event cancel of an event that waits for its time exits with a conflict" \
    event cancel "$(field out 1 '$.id')" -s jobs
has "the conflict of a waiting event names later cancel" err 'later cancel'
hf publish job.bad '{}'
hf claim jobs --json
hf bury jobs "$(field out 1 '$.lease')"
exits 4 "event cancel of a dead letter exits with a conflict" event cancel 5 -s jobs
has "the conflict of a dead letter names dlq resolve" err 'dead letter [0-9]+ .*dlq resolve'
exits 0 "setup: the dead letter is retried" dlq retry --all
exits 0 "event cancel succeeds for a dead letter that is retried" event cancel 5 -s jobs
is "a cancelled event that was a dead letter leaves no copy" "$(rows copies)" 0

# --- Ordered, with a worker ---
hf sub create line --on 'line.*' --from start --retry-base 1h --retry-max 1h
for n in 1 2 3 4; do hf publish line.x "{\"n\":$n}" --key k; done # positions 6 to 9
# shellcheck disable=SC2016
"$HOLDFAST" work line --concurrency 1 --exec 'echo "$HOLDFAST_POSITION" >>begun
    until [ -e "go$HOLDFAST_POSITION" ]; do sleep 0.05; done
    [ "$HOLDFAST_POSITION" != 6 ]' >work.out 2>work.err &
pid=$!
until_true 60 test -s begun
exits 0 "event cancel succeeds for an event that waits behind a running handler" \
    event cancel 7 -s line --wait 60s
exits 5 "event cancel --wait of a running event exits with 5 after its time" \
    event cancel 6 -s line --wait 300ms
has "event cancel names the node that runs the event" err 'was not cancelled: .* has (had )?it'
exits 0 "event show --json succeeds for an event whose cancelling timed out" event show 6 --json
hasnt "an event whose cancelling timed out is not cancelled" out '"state":"cancelled"'
hasnt "an event whose cancelling timed out has no request left" out '"cancel_requested":true'
"$HOLDFAST" event cancel 6 -s line --wait 60s --reason 'gave up' >cancel.out 2>cancel.err &
canceller=$!
requested() { hf event show 6 --json; grep -q '"cancel_requested":true' out; }
true_that "event show says that cancelling is requested while a handler runs" \
    until_true 60 requested
touch go6 go8 go9
wait $canceller
is "event cancel --wait succeeds when the running attempt has failed" "$?" 0
exits 0 "events behind a cancelled one are delivered" wait 9 --subscription line --timeout 60s
is "each event but the cancelled one is run once" "$(tr '\n' ' ' <begun)" "6 8 9 "
exits 0 "event show --json succeeds for an event that was cancelled after an attempt" \
    event show 6 --json
has "a cancelled event keeps its failed attempt" out '"state":"cancelled","attempts":1'
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
exits 0 "event cancel succeeds for an event that a killed worker ran" \
    event cancel 10 -s line --wait 60s
exits 0 "event cancel succeeds for an event that a killed worker had not begun" \
    event cancel 11 -s line --wait 60s
hf work line --exec 'echo "$HOLDFAST_POSITION" >>after' --until-empty
is "a worker finds nothing to do after the events of a killed one are cancelled" \
    "$rc $(cat after 2>/dev/null)" "0 "

# --- Seek, retention, verify, removal ---
exits 0 "sub seek moves back behind cancelled events" sub seek line --to 9 --yes
exits 0 "work succeeds after sub seek over cancelled events" \
    work line --exec 'echo "$HOLDFAST_POSITION" >>again' --until-empty
is "sub seek delivers cancelled events again" "$(tr '\n' ' ' <again)" "10 11 "
exits 0 "verify finds nothing wrong with cancelled events" verify
is "cancelled events of other subscriptions keep their marks" \
    "$([ "$(rows cancels)" -gt 0 ] && echo some)" some
exits 0 "an event that is cancelled for one subscription is delivered to others" \
    work other --exec 'true' --until-empty
for sub in jobs line other; do hf sub rm "$sub" --yes; done
is "sub rm deletes the marks of cancelled events" "$(rows cancels) $(rows settled)" "0 0"
exits 0 "help of event cancel succeeds" help event cancel
has "help of event cancel has an example" out 'event cancel 4711 --subscription mailer'
finish
