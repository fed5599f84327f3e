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
exits 0 "sub show succeeds for a subscription without events" sub show mailer --json
is "without events nothing is pending and nothing waits" \
    "$(sub pending pending_more oldest_waiting lag)" "0 0  0"
for n in 1 2 3; do
    hf publish other.x "{\"n\": $n}"
done
exits 0 "sub show succeeds if all events are of other types" sub show mailer --json
is "events of other types are lag, but not pending, and do not count as waiting" \
    "$(sub pending pending_more oldest_waiting not_moving lag)" "0 0   3"
exits 0 "sub show succeeds without --json" sub show mailer
has "sub show says that a subscription without pending events is up to date" out '^Up to date\.$'
for n in 1 2 3 4 5; do
    hf publish mail.sent "{\"n\": $n}"
done
hf publish order.a.b '{}'
exits 0 "sub show succeeds with pending events" sub show mailer --json
is "events that match the patterns are pending" "$(sub pending pending_more lag)" "5 0 9"
hf event show 4 --json
entered=$(field out 1 '$.entered_at')
hf sub show mailer --json
is "oldest_waiting is the time of the oldest event that matches" "$(sub oldest_waiting)" "$entered"
exits 0 "sub list succeeds with pending events" sub list
has "sub list has a column PENDING" out '^NAME +MODE +STATE +CHECKPOINT +PENDING +LAG '
has "sub list shows how many events of a shared subscription are pending" \
    out '^mailer +shared +[a-z ]+ 0 +5 +9 '
has "sub list shows how many events of an ordered subscription are pending" \
    out '^ledger +ordered +not moving +0 +1 +9 '
exits 0 "stats succeeds with pending events" stats
has "stats shows how many events of a subscription are pending" out '^mailer +[a-z0-9 ]+ 5 +9 '
exits 0 "stats --json succeeds with pending events" stats --json
json "stats --json prints one JSON object" out
is "stats --json has a row per subscription with its pending events" \
    "$(field out 1 '$.by_subscription[#-1].name') $(field out 1 '$.by_subscription[2].pending')" \
    "mailer 5"
is "stats --json names the mode of each subscription" \
    "$(field out 1 '$.by_subscription[1].mode')" ordered

# --- Leases ---
exits 0 "lease list succeeds before anything is claimed" lease list
is "lease list prints no row if there are no leases" "$(cat out)" ''
has "lease list says on stderr that there are no leases" err '^No leases\.$'
exits 1 "lease list refuses an ordered subscription" lease list ledger
has "the refusal says that only shared subscriptions hand out leases" \
    err 'ledger is ordered; only shared ones hand out leases \(handlers process .*holdfast work\)$'
exits 3 "lease list of an unknown subscription exits with not found" lease list nobody
exits 0 "claim --lease hands out two events" claim mailer --max 2 --lease 1h --json
lease=$(field out 1 '$.lease')
exits 0 "lease list succeeds after a claim" lease list
has "lease list prints titles" out '^SUBSCRIPTION +LEASE +NODE +SINCE +UNTIL +EVENTS +POSITIONS$'
has "lease list shows node, begin, end and positions of a lease" out \
    "^mailer +$lease +[^ ]+ +([0-9]+m?s ago|just now) +in 59m[0-9]+s +2  4-5$"
exits 0 "lease list SUB --json succeeds" lease list mailer --json
json "lease list --json prints JSON objects" out
is "lease list --json prints the documented fields" \
    "$(sed -n 1p out | grep -o '"[a-z_]*":' | tr -d '":' | paste -sd' ')" \
    "subscription lease node claimed_at expires_at kept ended count positions"
is "lease list --json prints every position of a lease" "$(field out 1 '$.positions')" "[4,5]"
is "lease list --json says that a new lease has neither ended nor is kept" \
    "$(field out 1 '$.ended') $(field out 1 '$.kept')" "0 0"
node=$(field out 1 '$.node')
since=$(field out 1 '$.claimed_at')
is "event show says that a claimed event is processing" "$(state 4 mailer state)" processing
is "event show names the node that has claimed an event" "$(state 4 mailer node)" "$node"
is "event show says since when an event is claimed" "$(state 4 mailer since)" "$since"
exits 0 "event show succeeds for a claimed event" event show 4
has "event show prints state, node and begin of a claim" \
    out "^mailer +processing +0 +1 +- +- +$node +([0-9]+m?s ago|just now)$"
exits 0 "sub show succeeds with claimed events" sub show mailer --json
is "claimed events are in flight and no longer pending" \
    "$(sub in_flight pending lease_ended claimed_at)" "2 3 0 $since"
exits 0 "lease list -n takes a limit" lease list -n 1
exits 0 "lease list --ended succeeds if no lease has ended" lease list --ended
has "lease list --ended says that no lease has ended" err '^No leases that have ended\.$'

# --- All of them in flight ---
hf sub create handed --on 'order.**' --mode shared --from start
hf publish order.c '{}'
hf claim handed --max 9 --lease 1h
hf sub list
has "sub list says that all is in flight, and not that it is up to date" out \
    '^handed +shared +in flight +[0-9]+ +0 '
hf sub show handed
ago='(.* ago|just now)'
has "sub show says what is in flight and for how long, and not that it is up to date" out \
    "^In flight: 2 events, handed out $ago; the oldest entered the log $ago\.$"
hf top --count 1
has "top says that all is in flight" out '^handed .*in flight'
waits() { hf check handed --max-wait 1ms; [ "$rc" -eq 2 ]; }
until_true 60 waits
has "check says that the events that wait for too long are in flight" out \
    '^CRITICAL: handed: the oldest event .*; 2 events are in flight, handed out .*lease list handed'
hf release handed "$(hf lease list handed --json && field out 1 '$.lease')"
hf sub show handed
hasnt "sub show does not say that events which were given back are in flight" out '^In flight'
hf work handed --exec true --until-empty
hf sub show handed
has "sub show says that a subscription whose events are settled is up to date" out '^Up to date\.$'
hf sub rm handed --yes

# --- Ended leases ---
exits 0 "touch --lease 1ms shortens a lease" touch mailer "$lease" --lease 1ms
until_true 60 shown mailer in_flight 0
is "events of ended leases are pending, not in flight" "$(sub in_flight pending lease_ended)" \
    "0 5 2"
still() { hf sub show "$1" --json && grep -q '"not_moving":"no worker has claimed' out; }
until_true 60 still mailer # what has just ended may be about to be claimed
has "not_moving says since when no worker has claimed and that all leases have ended" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s; the leases of all 2 events that '
exits 0 "sub list succeeds with ended leases" sub list
has "sub list explains below the table why a subscription does not move" \
    err '^mailer: no worker has claimed anything for .* have ended\.$'
has "sub list shows that a subscription is not moving" out '^mailer +shared +not moving '
exits 0 "lease list --ended succeeds with an ended lease" lease list --ended
has "lease list --ended says when a lease has ended" \
    out "^mailer +$lease .* ended ([0-9]+m?s ago|just now) +2  4-5$"
is "event show says that an event of an ended lease is pending" \
    "$(state 4 mailer state) $(state 4 mailer node)" "pending "
exits 0 "ack with an ended lease succeeds while nothing has been claimed again" \
    ack mailer "$lease" 4
exits 0 "claim succeeds after a lease has ended" claim mailer --max 10 --lease 1h --json
is "claim hands out what an ended lease has left" "$(field out 1 '$.position')" 5
lease=$(field out 1 '$.lease')
attempt=$(field out 1 '$.attempt')

# --- Revoking ---
exits 2 "lease revoke needs a lease or an option" lease revoke mailer
exits 2 "lease revoke refuses a lease together with --all" lease revoke mailer "$lease" --all
exits 2 "lease revoke refuses what is no lease" lease revoke mailer abc
exits 3 "lease revoke of an unknown lease exits with not found" \
    lease revoke mailer 00000000000000000000000000000000
has "the error of lease revoke says that there is no such lease" \
    err 'subscription mailer has no lease 0+ \(any more\)'
hf sub show mailer --json
count=$(sub in_flight)
exits 0 "lease revoke takes a lease" lease revoke mailer "$lease"
has "lease revoke prints how many leases and events it revoked" \
    err "^1 lease revoked: $count events? (is|are) free for the next claim\.$"
exits 4 "ack with a revoked lease exits with a conflict" ack mailer "$lease"
exits 3 "a lease that was revoked is not found" lease revoke mailer "$lease"
exits 0 "claim succeeds after a lease is revoked" claim mailer --max 10 --json
is "claim hands out the events of a revoked lease again" "$(field out 1 '$.position')" 5
is "a revoked lease does not count as an attempt" "$(field out 1 '$.attempt')" "$attempt"
count=$(wc -l <out)
exits 2 "lease revoke --all without --yes and without a terminal is refused" \
    lease revoke mailer --all
exits 0 "lease revoke --all --yes succeeds" lease revoke mailer --all --yes --json
is "lease revoke --json prints how many leases and events it revoked" \
    "$(cat out)" "{\"leases\":1,\"events\":$count}"
exits 0 "lease revoke --all succeeds without leases" lease revoke mailer --all --yes
has "lease revoke --all without leases prints 0" err '^0 leases revoked: 0 events are free'
hf claim mailer --max 1 --json
exits 0 "lease revoke --node takes a node without leases" \
    lease revoke mailer --node nobody --yes --json
is "lease revoke --node leaves leases of other nodes alone" "$(cat out)" '{"leases":0,"events":0}'
node=$(hf lease list mailer --json; field out 1 '$.node')
exits 0 "lease revoke --node takes a node with a lease" \
    lease revoke mailer --node "$node" --yes --json
is "lease revoke --node revokes the leases of that node" "$(cat out)" '{"leases":1,"events":1}'

# --- What handlers run ---
mkfifo pipe
exec 9<>pipe # what reads it waits until this is closed
"$HOLDFAST" work ledger --exec 'touch begun; cat pipe >/dev/null' --node accountant \
    >/dev/null 2>work.err </dev/null 9>&- &
worker=$!
until_true 60 test -e begun
until_true 60 shown ledger in_flight 1
is "in_flight of an ordered subscription counts what its handlers run" "$(sub in_flight)" 1
is "event show says that an event is processing while its handler runs" \
    "$(state 9 ledger state)" processing
is "event show names the node whose handler runs" "$(state 9 ledger node)" accountant
has "event show says since when a handler runs" out '"node":"accountant","since":"20[0-9T:.-]+Z"'
kill -9 "$worker"
wait "$worker" 2>/dev/null
until_true 60 shown ledger in_flight 0
is "in_flight does not count what a dead process ran" "$(sub in_flight)" 0
is "event show says that an event of a dead process is pending" "$(state 9 ledger state)" pending
"$HOLDFAST" work mailer --exec 'touch mailing; cat pipe >/dev/null' --node postman \
    >/dev/null 2>work.err </dev/null 9>&- &
worker=$!
until_true 60 test -e mailing
exits 0 "lease list succeeds while a worker runs" lease list mailer
has "lease list says that a lease of a worker lasts until its node stops" \
    out '^mailer +[0-9a-f]{32} +postman +.* its node stops +[0-9]'
kill -9 "$worker"
wait "$worker" 2>/dev/null
until_true 60 shown mailer in_flight 0
exits 0 "lease list --ended succeeds after a worker has died" lease list mailer --ended --json
is "the lease of a worker ends with its process" \
    "$(field out 1 '$.node') $(field out 1 '$.ended')" "postman 1"
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
is "a subscription with an event in flight moves, however long the others wait" \
    "$(sub in_flight pending):$(sub not_moving)" "1 1:"
hf touch jobs "$lease" --lease 1ms
until_true 60 still jobs
has "not_moving speaks of one ended lease in the singular" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s; the lease of the 1 event that was h'
hf claim jobs --max 1 --json # what an ended lease had is handed out alone
hf ack jobs "$(field out 1 '$.lease')"
hf claim jobs --max 5 --json
hf nack jobs "$(field out 1 '$.lease')"
until_true 60 still jobs
has "not_moving says that no worker has claimed a retry that is due" out \
    '"not_moving":"no worker has claimed anything for [0-9]+ s"'
is "a retry that is due is not counted as pending" "$(sub pending retrying)" "0 1"

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
exits 0 "lease list succeeds with two leases" lease list
has "lease list prints positions that are not next to each other apart" out "$kept .* 3  2,4-5$"
exits 0 "lease list -n 1 succeeds with two leases" lease list -n 1 --json
is "lease list -n 1 prints one lease" "$(wc -l <out)" 1
has "lease list -n says that there are more leases" err '^There are more: --limit\.$'
exits 0 "stats --json succeeds with an ended lease" stats --json
is "stats --json counts the events of ended leases" "$(field out 1 '$.lease_ended')" 1
exits 0 "lease revoke --ended --yes succeeds" lease revoke jobs --ended --yes --json
is "lease revoke --ended revokes the leases that have ended" "$(cat out)" '{"leases":1,"events":1}'
exits 0 "lease list succeeds after lease revoke --ended" lease list --json
is "lease revoke --ended leaves a lease that has not ended" \
    "$(field out 1 '$.lease') $(wc -l <out)" "$kept 1"
hf ack jobs "$kept"
hf claim jobs --max 9 --json
hf ack jobs "$(field out 1 '$.lease')"
hf publish job.h '{}'
hf tail -n 1 --json
entered=$(field out 1 '$.entered_at')
hf stats --json
is "oldest_waiting of stats is the time of the only event that waits" \
    "$(field out 1 '$.oldest_waiting')" "$entered"
hf claim jobs --max 1 --json
hf ack jobs "$(field out 1 '$.lease')"
if on sqlite; then
    hf publish job.i '{}'
    until_true 60 still jobs
    for ago in 600:'10 min' 10800:'3 h' 259200:'3 d'; do
        patiently bus.db "UPDATE holdfast_partitions
            SET claimed_at = (strftime('%s', 'now') - ${ago%%:*}) * 1000000"
        hf sub show jobs --json
        has "not_moving tells ${ago%%:*} seconds as ${ago#*:}" \
            out "claimed anything for ${ago#*:}\""
    done
    seq 10005 | sed 's/.*/{"type":"job.c","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
    hf claim jobs --max 10 --lease 1ms --json
    until_true 60 shown jobs in_flight 0
    is "pending stops at its limit also with events of ended leases" "$(sub pending pending_more)" \
        "10000 1"
fi
finish
