#!/usr/bin/env bash
# Events for later on the command line, and bringing what is due: later list, show, cancel and move,
# tick, and the commands that look for work.
. "$(dirname "$0")/lib.sh"
past=2020-01-01T00:00:00Z
later() { field out 1 '$.id'; }

# --- Listing and showing ---
exits 3 "without a database there are none" later list
exits 0 "one is kept" publish reminder.mail '{"n": 1.50}' --key ann --delay 2h --json
second=$(later)
has "without a position, which it gets when it comes" out '^\{"position":null,'
due=$(field out 1 '$.deliver_at')
exits 0 "and one before it" publish reminder.sms '{}' --at 2026-01-01T00:00:00Z --json
first=$(later)
exits 0 "and one long after" publish invoice '{}' --at 2099-01-01T00:00:00Z --json
third=$(later)
exits 0 "list shows them" later list
has "with titles" out '^DUE +ID +TYPE +KEY +TENANT +SIZE$'
is "in the order of their times" \
    "$(sed -n 's/.* \(invoice\|reminder[^ ]*\) .*/\1/p' out | paste -sd' ')" \
    "reminder.sms reminder.mail invoice"
exits 0 "as JSON" later list --json
json "a line each" out
is "with these fields" "$(sed -n 2p out | grep -o '"[a-z_]*":' | tr -d '":' | paste -sd' ')" \
    "due_at number id type key tenant producer emitted_at payload_bytes"
exits 0 "by type" later list --type 'reminder.*' --json
is "two" "$(wc -l <out)" 2
exits 0 "by key" later list --key ann --json
is "one" "$(later)" "$second"
exits 0 "by time" later list --due-before 2098-01-01T00:00:00Z --json
is "without the last" "$(wc -l <out)" 2
exits 0 "overdue ones" later list --overdue --json
is "the first" "$(later)" "$first"
exits 0 "a page" later list -n 2
has "says how to go on" err '^There may be more: --after 20[0-9T:.-]+Z/[0-9]+$'
exits 0 "the next page" later list -n 2 --json --after "$(sed 's/.*--after //' err)"
is "has the rest" "$(later)" "$third"
exits 0 "a list that leaves all out" later list --type nothing
has "does not say that nothing waits" err '^No event that waits for its time is like that\.$'
exits 2 "another cursor is refused" later list --after 17
exits 2 "and more than a page" later list -n 1001
exits 0 "show" later show "$second"
has "says when" out '^due_at: +20[0-9T:.-]+Z \(in 1h59m'
has "and what" out '^payload: +\{"n": 1.50\}$'
exits 0 "as JSON" later show "$second" --json
is "the time is the one that publish answered" "$(field out 1 '$.due_at')" "$due"
has "there is no position yet" out '"position":null,'
has "byte for byte" out '"payload":\{"n": 1.50\}'
exits 0 "the payload alone" later show "$second" --payload
is "byte for byte" "$(cat out)" '{"n": 1.50}'
exits 3 "what does not wait" later show 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
exits 2 "what is no id" later show x
exits 0 "event show finds it" event show "$second"
has "and says when it is due" out '^due_at: +20'
exits 0 "as JSON" event show "$second" --json
is "without states" "$(field out 1 '$.states'):$(field out 1 '$.position')" "[]:"
exits 0 "stats counts them" stats
has "with the first" out '^for later: +3, the first due [0-9]+d.* ago$'
exits 0 "in JSON" stats --json
is "too" "$(field out 1 '$.later') $(field out 1 '$.later_next')" "3 2026-01-01T00:00:00.000000Z"

# --- doctor ---
exits 7 "doctor finds that nothing brings them" doctor --json
has "says since when" out \
    '"name":"later","value":"1 of 3 due since 2026-01-01T00:00:00.000000Z","level":"warn"'
has "and what was looked at" out '"advice":"no other process has this namespace open; run '
exits 0 "a schedule" schedule add beat '@every 1s' beat
exits 0 "tick brings them" tick --json
json "an object" out
is "the one that was due" "$(field out 1 '$.released')" 1
hf doctor --json
hasnt "then doctor has nothing to say against them" out '"name":"(later|schedules)".*"level":"warn"'
has "it says what waits" out '"name":"later","value":"2 wait, the first is due at 20'
has "and with schedules" out '"name":"schedules","value":"the next fires at 20'

# --- tick ---
exits 0 "in words" tick
has "how many" out '^for later: +0$'
has "and when the next is due" out '^next due: +(in|just|[0-9])'
exits 0 "without the schedule" schedule rm beat --yes
exits 0 "the next" tick --json
has "is the next event" out '"next_due_at":"20'

# --- cancel and move ---
exits 4 "what is in the log is not cancelled" later cancel "$first"
has "and the position is said" err "^Event $first is in the log already, at position [0-9]+\.$"
exits 4 "nor moved" later move "$first" --delay 1h --json
is "in JSON" "$(field out 1 '$.moved') $(field out 1 '$.due_at')" "0 "
exits 0 "move" later move "$third" --at 2098-06-01T00:00:00Z
has "says when" err "^Event $third enters the log at 2098-0[56]-"
exits 0 "it is moved" later show "$third" --json
is "to that time" "$(field out 1 '$.due_at')" 2098-06-01T00:00:00.000000Z
exits 2 "a time is needed" later move "$third"
exits 2 "one" later move "$third" --delay 1h --at 18:00
exits 0 "cancel" later cancel "$third" --json
is "in JSON" "$(cat out)" "{\"id\":\"$third\",\"cancelled\":true,\"position\":null}"
exits 3 "then it is gone" later cancel "$third"
exits 0 "cancel in words" later cancel "$second"
has "says so" err "^Event $second is cancelled\.$"

# --- Whatever looks for work ---
exits 0 "a subscription" sub create s --on 'job.*' --mode shared --from start
exits 0 "a late job" publish job.late '{}' --at $past
has "is due" err '^It is due: it enters the log when a process brings it'
exits 0 "is brought by a claim" claim s --json
is "and handed out" "$(field out 1 '$.type')" job.late
exits 0 "a job that is due soon" publish job.soon '{}' --delay 1s
exits 0 "is waited for" claim s --wait 60s --json
is "and handed out, too" "$(field out 1 '$.type')" job.soon
"$HOLDFAST" tail 'seen.*' --follow --limit 1 --json >followed 2>/dev/null &
tail_pid=$!
exits 0 "an event for later while tail follows" publish seen.later '{}' --delay 1s
until_true 60 test -s followed
wait "$tail_pid"
is "is brought by it" "$(field followed 1 '$.type')" seen.later
exits 0 "a late job" publish job.late '{}' --at $past
exits 0 "tail that does not follow" tail 'job.*' --json
is "writes nothing" "$(grep -c . out)" 2
finish
