#!/usr/bin/env bash
# What stands before a subscription: pending events and the oldest of them, leases, what runs.
. "$(dirname "$0")/lib.sh"

# sub FIELD...: of the subscription that `sub show --json` has shown last.
sub() {
    local name
    for name in "$@"; do
        printf '%s ' "$(field out 1 "\$.$name")"
    done | sed 's/ $//'
}
# shown SUB FIELD VALUE: now.
shown() {
    hf sub show "$1" --json
    [ "$(field out 1 "\$.$2")" = "$3" ]
}
# state EVENT SUB FIELD: of an event in a subscription.
state() {
    hf event show "$1" --json
    field out 1 "\$.states" >states
    sqlite3 :memory: "SELECT json_extract(s.value, '\$.$3')
        FROM json_each(cast(readfile('states') AS text)) s
        WHERE json_extract(s.value, '\$.subscription') = '$2'"
}

# --- Pending ---
hf sub create mailer --on 'mail.*' --mode shared --from start
hf sub create ledger --on 'order.**' --from start
hf sub create all --on '**' --from start
exits 0 "nothing is pending" sub show mailer --json
is "and nothing waits" "$(sub pending pending_more oldest_waiting lag)" "0 0  0"
for n in 1 2 3; do
    hf publish other.x "{\"n\": $n}"
done
exits 0 "a subscription with events of other types is shown" sub show mailer --json
is "events of other types are lag, but not pending, and do not count as waiting" \
    "$(sub pending pending_more oldest_waiting not_moving lag)" "0 0   3"
exits 0 "people read" sub show mailer
has "that it is up to date" out '^Up to date\.$'
for n in 1 2 3 4 5; do
    hf publish mail.sent "{\"n\": $n}"
done
hf publish order.a.b '{}'
exits 0 "events that match" sub show mailer --json
is "are pending" "$(sub pending pending_more lag)" "5 0 9"
hf event show 4 --json
entered=$(field out 1 '$.entered_at')
hf sub show mailer --json
is "oldest_waiting is that of the first that matches" "$(sub oldest_waiting)" "$entered"
exits 0 "list has a column" sub list
has "for it" out '^NAME +MODE +STATE +CHECKPOINT +PENDING +LAG '
has "with the number" out '^mailer +shared +[a-z ]+ 0 +5 +9 '
has "and another one" out '^ledger +ordered +not moving +0 +1 +9 '
exits 0 "stats has it, too" stats
has "in a column" out '^mailer +[a-z0-9 ]+ 5 +9 '
exits 0 "stats --json" stats --json
json "is one object" out
is "with a row per subscription" \
    "$(field out 1 '$.by_subscription[#-1].name') $(field out 1 '$.by_subscription[2].pending')" \
    "mailer 5"
is "and their modes" "$(field out 1 '$.by_subscription[1].mode')" ordered

# --- Leases ---
exits 0 "before anything is claimed there are no leases" lease list
is "and none is shown" "$(cat out)" ''
has "but said" err '^No leases\.$'
exits 1 "an ordered subscription" lease list ledger
has "has none" err 'ledger is ordered; only shared ones hand out leases'
exits 3 "one that is not there" lease list nobody
exits 0 "a claim" claim mailer --max 2 --lease 1h --json
lease=$(field out 1 '$.lease')
exits 0 "is listed" lease list
has "with titles" out '^SUBSCRIPTION +LEASE +NODE +SINCE +UNTIL +EVENTS +POSITIONS$'
has "and who, since when, until when and which" out \
    "^mailer +$lease +[^ ]+ +([0-9]+m?s ago|just now) +in 59m[0-9]+s +2  4-5$"
exits 0 "as JSON" lease list mailer --json
json "it is an object" out
is "with these fields" "$(sed -n 1p out | grep -o '"[a-z_]*":' | tr -d '":' | paste -sd' ')" \
    "subscription lease node claimed_at expires_at kept ended count positions"
is "and every position" "$(field out 1 '$.positions')" "[4,5]"
is "it has not ended" "$(field out 1 '$.ended') $(field out 1 '$.kept')" "0 0"
node=$(field out 1 '$.node')
since=$(field out 1 '$.claimed_at')
is "event show says processing" "$(state 4 mailer state)" processing
is "with the node" "$(state 4 mailer node)" "$node"
is "and since when" "$(state 4 mailer since)" "$since"
exits 0 "for people" event show 4
has "too" out "^mailer +processing +0 +1 +- +- +$node +([0-9]+m?s ago|just now)$"
exits 0 "what is claimed" sub show mailer --json
is "is in flight" "$(sub in_flight pending lease_ended claimed_at)" "2 3 0 $since"
exits 0 "a page" lease list -n 1
exits 0 "none has ended" lease list --ended
has "and that is said" err '^No leases that have ended\.$'

# --- Ended leases ---
exits 0 "a short lease" touch mailer "$lease" --lease 1ms
until_true 60 shown mailer in_flight 0
is "ended leases are not in flight, they are pending" "$(sub in_flight pending lease_ended)" \
    "0 5 2"
still() { hf sub show "$1" --json && grep -q '"not_moving":"no worker has claimed' out; }
until_true 60 still mailer # what has just ended may be about to be claimed
has "then not moving says since when, and why" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s; the leases of all 2 events that '
exits 0 "sub list" sub list
has "says it below" err '^mailer: no worker has claimed anything for .* have ended\.$'
has "and in a word" out '^mailer +shared +not moving '
exits 0 "they are listed" lease list --ended
has "as ended" out "^mailer +$lease .* ended ([0-9]+m?s ago|just now) +2  4-5$"
is "event show says pending" "$(state 4 mailer state) $(state 4 mailer node)" "pending "
exits 0 "an answer that comes late is still good" ack mailer "$lease" 4
exits 0 "the next claim" claim mailer --max 10 --lease 1h --json
is "gets what was left" "$(field out 1 '$.position')" 5
lease=$(field out 1 '$.lease')
attempt=$(field out 1 '$.attempt')

# --- Revoking ---
exits 2 "revoke needs a lease" lease revoke mailer
exits 2 "or one of the options, not both" lease revoke mailer "$lease" --all
exits 2 "that is one" lease revoke mailer abc
exits 3 "that is there" lease revoke mailer 00000000000000000000000000000000
has "and says so" err 'subscription mailer has no lease 0+ \(any more\)'
hf sub show mailer --json
count=$(sub in_flight)
exits 0 "revoke" lease revoke mailer "$lease"
has "says what it did" err "^1 lease revoked: $count events? (is|are) free for the next claim\.$"
exits 4 "what the worker says afterwards is refused" ack mailer "$lease"
exits 3 "it is gone" lease revoke mailer "$lease"
exits 0 "its events" claim mailer --max 10 --json
is "are handed out again" "$(field out 1 '$.position')" 5
is "and the attempt did not count" "$(field out 1 '$.attempt')" "$attempt"
count=$(wc -l <out)
exits 2 "many are not revoked without a yes" lease revoke mailer --all
exits 0 "with a yes" lease revoke mailer --all --yes --json
is "they are" "$(cat out)" "{\"leases\":1,\"events\":$count}"
exits 0 "then none is left" lease revoke mailer --all --yes
has "and that is said" err '^0 leases revoked: 0 events are free'
hf claim mailer --max 1 --json
exits 0 "those of another node" lease revoke mailer --node nobody --yes --json
is "are left alone" "$(cat out)" '{"leases":0,"events":0}'
node=$(hf lease list mailer --json; field out 1 '$.node')
exits 0 "those of one node" lease revoke mailer --node "$node" --yes --json
is "go" "$(cat out)" '{"leases":1,"events":1}'

# --- What handlers run ---
mkfifo pipe
exec 9<>pipe # what reads it waits until this is closed
"$HOLDFAST" work ledger --exec 'touch begun; cat pipe >/dev/null' --node accountant \
    >/dev/null 2>work.err </dev/null 9>&- &
worker=$!
until_true 60 test -e begun
until_true 60 shown ledger in_flight 1
is "in flight of an ordered subscription is a number" "$(sub in_flight)" 1
is "its event is processing" "$(state 9 ledger state)" processing
is "by the node" "$(state 9 ledger node)" accountant
has "since a time" out '"node":"accountant","since":"20[0-9T:.-]+Z"'
kill -9 "$worker"
wait "$worker" 2>/dev/null
until_true 60 shown ledger in_flight 0
is "what a dead process ran is not in flight" "$(sub in_flight)" 0
is "nor processing" "$(state 9 ledger state)" pending
"$HOLDFAST" work mailer --exec 'touch mailing; cat pipe >/dev/null' --node postman \
    >/dev/null 2>work.err </dev/null 9>&- &
worker=$!
until_true 60 test -e mailing
exits 0 "a lease of a worker" lease list mailer
has "lasts until its node stops" out '^mailer +[0-9a-f]{32} +postman +.* its node stops +[0-9]'
kill -9 "$worker"
wait "$worker" 2>/dev/null
until_true 60 shown mailer in_flight 0
exits 0 "then it has ended" lease list mailer --ended --json
is "with its process" "$(field out 1 '$.node') $(field out 1 '$.ended')" "postman 1"
exec 9>&-

# --- Why a shared one does not move ---
fresh
hf sub create jobs --on 'job.*' --mode shared --from start --retry-base 0ms
hf publish job.a '{}'
hf publish job.b '{}'
hf claim jobs --max 1 --lease 1h --json
lease=$(field out 1 '$.lease')
sleep 1.2
hf sub show jobs --json
is "with an event in hand it moves, however long the others wait" \
    "$(sub in_flight pending):$(sub not_moving)" "1 1:"
hf touch jobs "$lease" --lease 1ms
until_true 60 still jobs
has "one lease that has ended is told as one" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s; the lease of the 1 event that was h'
hf claim jobs --max 1 --json # what an ended lease had is handed out alone
hf ack jobs "$(field out 1 '$.lease')"
hf claim jobs --max 5 --json
hf nack jobs "$(field out 1 '$.lease')"
until_true 60 still jobs
has "a retry that is due is not claimed either" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s"'
is "although nothing is pending" "$(sub pending retrying)" "0 1"

# --- Several leases ---
hf publish job.d '{}'
hf publish job.e '{}'
hf publish job.f '{}'
hf claim jobs --max 4 --lease 1h --json
kept=$(field out 1 '$.lease')
hf ack jobs "$kept" 3
hf publish job.g '{}'
hf claim jobs --max 1 --lease 1ms --json
until_true 60 shown jobs lease_ended 1
exits 0 "two leases" lease list
has "positions that are apart are told apart" out "$kept .* 3  2,4-5$"
exits 0 "a page of them" lease list -n 1 --json
is "has one" "$(wc -l <out)" 1
has "and says that there are more" err '^There are more: --limit\.$'
exits 0 "stats" stats --json
is "counts what ended leases have left" "$(field out 1 '$.lease_ended')" 1
exits 0 "those that ended" lease revoke jobs --ended --yes --json
is "are taken away" "$(cat out)" '{"leases":1,"events":1}'
exits 0 "the other one" lease list --json
is "is left" "$(field out 1 '$.lease') $(wc -l <out)" "$kept 1"
hf ack jobs "$kept"
hf claim jobs --max 9 --json
hf ack jobs "$(field out 1 '$.lease')"
hf publish job.h '{}'
hf tail -n 1 --json
entered=$(field out 1 '$.entered_at')
hf stats --json
is "what only waits is the oldest of the namespace" "$(field out 1 '$.oldest_waiting')" "$entered"
hf claim jobs --max 1 --json
hf ack jobs "$(field out 1 '$.lease')"
if on sqlite; then
    hf publish job.i '{}'
    until_true 60 still jobs
    for ago in 600:'10 min' 10800:'3 h' 259200:'3 d'; do
        patiently bus.db "UPDATE holdfast_partitions
            SET claimed_at = (strftime('%s', 'now') - ${ago%%:*}) * 1000000"
        hf sub show jobs --json
        has "long times are told in larger units" out "claimed anything for ${ago#*:}\""
    done
    seq 10005 | sed 's/.*/{"type":"job.c","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
    hf claim jobs --max 10 --lease 1ms --json
    until_true 60 shown jobs in_flight 0
    is "what ended leases have left counts up to the limit, too" "$(sub pending pending_more)" \
        "10000 1"
fi
finish
