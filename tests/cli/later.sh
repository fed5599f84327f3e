#!/usr/bin/env bash
# Events for later on the command line, and bringing what is due: later list, show, cancel and move,
# tick, and the commands that look for work.
. "$(dirname "$0")/lib.sh"
past=2020-01-01T00:00:00Z
later() { field out 1 '$.id'; }

# --- Listing and showing ---
exits 3 "later list without a database exits with not found" later list
exits 0 "publish --delay keeps an event for later" \
    publish reminder.mail '{"n": 1.50}' --key ann --delay 2h --json
second=$(later)
has "an event for later has no position before it is due" out '^\{"position":null,'
due=$(field out 1 '$.deliver_at')
exits 0 "publish --at keeps an event for a time that is past" \
    publish reminder.sms '{}' --at 2026-01-01T00:00:00Z --json
first=$(later)
exits 0 "publish --at keeps an event for a time long after" \
    publish invoice '{}' --at 2099-01-01T00:00:00Z --json
third=$(later)
exits 0 "later list succeeds with three events" later list
has "later list prints titles" out '^DUE +ID +TYPE +KEY +TENANT +SIZE$'
is "later list shows events in the order of their times" \
    "$(sed -n 's/.* \(invoice\|reminder[^ ]*\) .*/\1/p' out | paste -sd' ')" \
    "reminder.sms reminder.mail invoice"
exits 0 "later list takes the option --json" later list --json
json "later list --json prints JSON objects" out
is "later list --json prints the documented fields" \
    "$(sed -n 2p out | grep -o '"[a-z_]*":' | tr -d '":' | paste -sd' ')" \
    "due_at number id type key tenant producer emitted_at payload_bytes"
exits 0 "later list takes the option --type" later list --type 'reminder.*' --json
is "later list --type shows only events whose type matches" "$(wc -l <out)" 2
exits 0 "later list takes the option --key" later list --key ann --json
is "later list --key shows only events with that key" "$(later)" "$second"
exits 0 "later list takes the option --due-before" \
    later list --due-before 2098-01-01T00:00:00Z --json
is "later list --due-before leaves out later events" "$(wc -l <out)" 2
exits 0 "later list takes the option --overdue" later list --overdue --json
is "later list --overdue shows only events whose time is past" "$(wc -l <out) $(later)" "1 $first"
exits 0 "later list -n succeeds with more events than that" later list -n 2
has "later list -n says how to get the next page" \
    err '^There may be more: --after 20[0-9T:.-]+Z/[0-9]+$'
exits 0 "later list takes the --after of the page before" \
    later list -n 2 --json --after "$(sed 's/.*--after //' err)"
is "later list --after shows the rest" "$(later)" "$third"
exits 0 "later list succeeds if no event is like the filter" later list --type nothing
has "later list with a filter does not say that no event waits" \
    err '^No event that waits for its time is like that\.$'
exits 2 "later list refuses an --after that is no cursor" later list --after 17
exits 2 "later list refuses more than 1000 events per page" later list -n 1001
exits 0 "later show takes an id" later show "$second"
has "later show prints when an event is due and how long it waits" \
    out '^due_at: +20[0-9T:.-]+Z \(in 1h59m'
has "later show prints the payload of an event" out '^payload: +\{"n": 1.50\}$'
exits 0 "later show takes the option --json" later show "$second" --json
is "later show --json prints the time that publish printed" "$(field out 1 '$.due_at')" "$due"
has "later show --json prints position null" out '"position":null,'
has "later show --json prints the payload byte for byte" out '"payload":\{"n": 1.50\}'
exits 0 "later show takes the option --payload" later show "$second" --payload
is "later show --payload prints the payload byte for byte" "$(cat out)" '{"n": 1.50}'
exits 3 "later show of an event that does not wait exits with not found" \
    later show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 2 "later show refuses what is no id" later show x
exits 0 "event show finds an event that waits for its time" event show "$second"
has "event show prints when a waiting event is due" out '^due_at: +20'
exits 0 "event show --json finds an event that waits for its time" event show "$second" --json
is "event show --json prints neither states nor a position of a waiting event" \
    "$(field out 1 '$.states'):$(field out 1 '$.position')" "[]:"
exits 0 "stats succeeds with events for later" stats
has "stats prints how many events wait and when the first was due" \
    out '^for later: +3, the first due [0-9]+d.* ago$'
exits 0 "stats --json succeeds with events for later" stats --json
is "stats --json prints how many events wait and when the first is due" \
    "$(field out 1 '$.later') $(field out 1 '$.later_next')" "3 2026-01-01T00:00:00.000000Z"

# --- doctor ---
exits 7 "doctor warns if no process brings events that are due" doctor --json
has "doctor says since when an event is due" out \
    '"name":"later","value":"1 of 3 due since 2026-01-01T00:00:00.000000Z","level":"warn"'
has "doctor says that no other process has the namespace open" \
    out '"advice":"no other process has this namespace open; run '
exits 0 "setup: schedule add makes a schedule that fires every second" \
    schedule add beat '@every 1s' beat
exits 0 "tick succeeds with an event that is due" tick --json
json "tick --json prints a JSON object" out
is "tick brings the one event that was due" "$(field out 1 '$.released')" 1
hf doctor --json
hasnt "doctor has no warning after tick" out '"name":"(later|schedules)".*"level":"warn"'
has "doctor says how many events wait and when the first is due" \
    out '"name":"later","value":"2 wait, the first is due at 20'
has "doctor says when the next schedule fires" \
    out '"name":"schedules","value":"the next fires at 20'

# --- tick ---
exits 0 "tick succeeds without --json" tick
has "tick prints how many events it brought" out '^for later: +0$'
has "tick prints when the next is due" out '^next due: +(in|just|[0-9])'
exits 0 "setup: schedule rm removes the schedule" schedule rm beat --yes
exits 0 "tick succeeds without a schedule" tick --json
has "tick prints the time of the next waiting event as next_due_at" out '"next_due_at":"20'

# --- cancel and move ---
exits 4 "later cancel of an event in the log exits with a conflict" later cancel "$first"
has "the error of later cancel names the position of the event" \
    err "^Event $first is in the log already, at position [0-9]+\.$"
exits 4 "later move of an event in the log exits with a conflict" \
    later move "$first" --delay 1h --json
is "later move --json says that it did not move the event" \
    "$(field out 1 '$.moved') $(field out 1 '$.due_at')" "0 "
exits 0 "later move --at moves an event that waits" later move "$third" --at 2098-06-01T00:00:00Z
has "later move prints when the event enters the log" \
    err "^Event $third enters the log at 2098-0[56]-"
exits 0 "later show finds an event that was moved" later show "$third" --json
is "a moved event is due at its new time" "$(field out 1 '$.due_at')" 2098-06-01T00:00:00.000000Z
exits 2 "later move needs --delay or --at" later move "$third"
exits 2 "later move refuses --delay together with --at" later move "$third" --delay 1h --at 18:00
exits 0 "later cancel --json cancels an event that waits" later cancel "$third" --json
is "later cancel --json prints that the event is cancelled" \
    "$(cat out)" "{\"id\":\"$third\",\"cancelled\":true,\"position\":null}"
exits 3 "later cancel of a cancelled event exits with not found" later cancel "$third"
exits 0 "later cancel without --json cancels an event that waits" later cancel "$second"
has "later cancel prints that the event is cancelled" err "^Event $second is cancelled\.$"

# --- Events that are due at the same time ---
for n in 1 2 3; do
    hf publish together "$n" --at 2097-01-01T00:00:00Z
done
exits 0 "later list -n 2 succeeds with three events of the same time" later list -n 2 --json
cursor=$(sed -n 's/.*--after //p' err)
seen=$(grep -o '"number":[0-9]*' out)
exits 0 "later list --after succeeds in the middle of events of the same time" \
    later list -n 2 --json --after "$cursor"
is "later list shows each of three events of the same time on one page" \
    "$(printf '%s\n' "$seen" "$(grep -o '"number":[0-9]*' out)" | sort -u | wc -l) $(wc -l <out)" \
    "3 1"
exits 0 "later list --due-before succeeds at the time of events" \
    later list --due-before 2097-01-01T00:00:00Z
is "later list --due-before leaves out events of that time" "$(cat out)" ""
exits 0 "setup: an event of another type is due earlier" publish alone 1 --at 2096-01-01T00:00:00Z
exits 0 "later list -n counts only events whose type matches" later list -n 1 --type together --json
is "later list -n 1 --type shows one event whose type matches" "$(wc -l <out)" 1

# --- Other namespaces ---
exits 0 "setup: another namespace is made" namespace create other
exits 0 "setup: an event waits in the other namespace" \
    publish theirs '{}' --delay 1h --namespace other --json
theirs=$(later)
exits 3 "later show does not find an event of another namespace" later show "$theirs"
exits 3 "later cancel does not find an event of another namespace" later cancel "$theirs"
exits 3 "later move does not find an event of another namespace" later move "$theirs" --delay 2h
exits 0 "later show finds the event in its own namespace" later show "$theirs" --namespace other
has "an event that another namespace tried to move has its old time" out '\(in 59m'
hf later list --due-before 2098-01-01T00:00:00Z --json
for id in $(sed 's/.*"id":"\([^"]*\)".*/\1/' out); do
    hf later cancel "$id"
done

# --- Whatever looks for work ---
exits 0 "setup: a shared subscription for jobs is made" \
    sub create s --on 'job.*' --mode shared --from start
exits 0 "publish --at with a time in the past keeps an event" publish job.late '{}' --at $past
has "publish --at with a time in the past says that the event is due" \
    err '^It is due: it enters the log when a process brings it'
exits 0 "claim succeeds while an event for later is due" claim s --json
is "claim brings an event for later that is due and hands it out" "$(field out 1 '$.type')" job.late
exits 0 "setup: an event is due in one second" publish job.soon '{}' --delay 1s
exits 0 "claim --wait waits for an event that is due soon" claim s --wait 60s --json
is "claim --wait brings an event for later at its time and hands it out" \
    "$(field out 1 '$.type')" job.soon
"$HOLDFAST" tail 'seen.*' --follow --limit 1 --json >followed 2>/dev/null &
tail_pid=$!
exits 0 "setup: an event for later is published while tail --follow runs" \
    publish seen.later '{}' --delay 1s
until_true 60 test -s followed
wait "$tail_pid"
is "tail --follow brings an event for later at its time" "$(field followed 1 '$.type')" seen.later
exits 0 "setup: an event for later is published that is due" publish job.late '{}' --at $past
exits 0 "tail without --follow succeeds while an event is due" tail 'job.*' --json
is "tail without --follow does not bring an event that is due" "$(grep -c . out)" 2

# --- A schedule that is paused ---
hf tick
exits 0 "setup: a schedule fires every second" schedule add beat '@every 1s' beat
exits 0 "setup: the schedule is paused" schedule pause beat
sleep 1.1
hf stats --json
is "a paused schedule is never due" \
    "$(field out 1 '$.schedules_due') $(field out 1 '$.schedules_next')" "0 "
finish
