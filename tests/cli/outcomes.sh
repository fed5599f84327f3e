#!/bin/bash
# outcomes.sh - what stays visible of deliveries that failed first, and how often events were handed
# out.
. "$(dirname "$0")/lib.sh"

# field NAME [FILE]: the value of a JSON field, of the first line that has it.
field() { sed -nE 's/.*"'"$1"'":("[^"]*"|[^,}]*).*/\1/p' "${2:-out}" | head -n 1 | tr -d '"'; }
# state NAME: a field of the state in subscription s, of what event show --json has printed.
state() { sed -E 's/.*"states":\[//' out | field "$1" /dev/stdin; }
# rows TABLE: how many rows it has.
rows() {
    if on sqlite; then
        sqlite3 bus.db "SELECT count(*) FROM holdfast_$1"
    else
        psql -qXAt "$HOLDFAST_URL" -c "SELECT count(*) FROM holdfast_private.$1"
    fi
}
claim() { hf claim s --json --lease "${1:-30s}" --max "${2:-1}"; lease=$(field lease); }

# ---- Shared -------------------------------------------------------------------------------------

hf sub create s --on '**' --mode shared --from start --retry-base 0ms
hf publish order.made '{"n":1}'
claim
is "the first claim of an event is delivery 1" "$(field deliveries)" 1
is "claim --json prints the namespace of the event" "$(field namespace)" default
exits 0 "nack --error takes a lease" nack s "$lease" --error 'no stock'
claim
is "the claim after a failed attempt is delivery 2" "$(field deliveries)" 2
exits 0 "release takes a lease" release s "$lease"
claim
is "the claim after a release is delivery 3, but attempt 2" \
    "$(field deliveries) $(field attempt)" "3 2"
exits 0 "event show succeeds for a claimed event" event show 1 --json
is "event show of a claimed event counts deliveries and failed attempts apart" \
    "$(state state) $(state deliveries) $(state attempts)" "processing 3 1"
exits 0 "ack takes the lease of a third delivery" ack s "$lease"
exits 0 "event show succeeds for an event that is done" event show 1 --json
is "event show of a done event counts its failed attempts and deliveries" \
    "$(state state) $(state attempts) $(state deliveries) $(state cause)" "done 1 3 handler"
has "event show of a done event keeps the error of its failed attempt" \
    out '"attempts_json":\[\{"attempt":1,.*"error":"no stock"'
exits 0 "event show without --json succeeds for an event that is done" event show 1
has "event show prints attempts and deliveries of the state" out '^s +done +1 +3 '
has "event show prints the error of the failed attempt" out 'no stock'
is "an event that failed first leaves one outcome" "$(rows outcomes)" 1

hf publish order.made '{"n":2}'
hf publish order.made '{"n":3}'
claim 30s 2
hf ack s "$lease"
exits 0 "event show succeeds for an event that was done at once" event show 2 --json
is "an event that succeeds at once has no record of attempts" \
    "$(state state) $(state attempts_json)" "done null"
is "an event that succeeds at once leaves no outcome" "$(rows outcomes)" 1

hf publish order.made '{"n":4}'
exits 0 "event show succeeds for an event that waits" event show 4 --json
is "an event that waits has no deliveries" "$(state state) $(state deliveries)" "pending 0"
claim
hf release s "$lease"
claim
is "a released event without failed attempts counts its deliveries" "$(field deliveries)" 2
hf release s "$lease"
claim
is "a second release of an event counts, too" "$(field deliveries)" 3
hf publish order.made '{"n":5}'
hf release s "$lease"
claim 30s 2
is "events that are claimed together have their own numbers of deliveries" \
    "$(sed -E 's/.*"deliveries":([0-9]+).*/\1/' out | tr '\n' ' ')" "4 1 "
hf nack s "$lease" --error both
claim 30s 2
is "events that are claimed together keep their deliveries when they fail" \
    "$(sed -E 's/.*"deliveries":([0-9]+).*/\1/' out | tr '\n' ' ')" "5 2 "
hf ack s "$lease"
exits 0 "event show succeeds for an event that was released and failed" event show 4 --json
is "event show of a done event counts released deliveries and failed attempts" \
    "$(state deliveries) $(state attempts)" "5 1"
is "two more events that failed first leave two more outcomes" "$(rows outcomes)" 3

for n in 6 7 8; do hf publish order.made "{\"n\":$n}"; done
claim 1ms 3
sleep 0.1
claim 30s 3
is "the first half of an ended lease is handed out again as delivery 2" \
    "$(sed -E 's/.*"position":([0-9]+).*"deliveries":([0-9]+).*/\1:\2/' out | tr '\n' ' ')" \
    "6:2 7:2 "
hf ack s "$lease"
claim 1ms 3
is "the second half of an ended lease is handed out again as delivery 2" \
    "$(field position) $(field deliveries)" "8 2"
sleep 0.1
claim
is "a lease of one event that ended counts as an attempt" \
    "$(field position) $(field deliveries) $(field attempt)" "8 3 2"
hf bury s "$lease" --error 'enough'
exits 0 "event show succeeds for a buried event" event show 8 --json
is "event show of a dead event counts its deliveries" "$(state state) $(state deliveries)" "dead 3"
exits 0 "dlq list --json succeeds with a buried event" dlq list --json
is "dlq list --json counts the deliveries of a dead letter" "$(field deliveries)" 3
dead=$(field dead_id)
exits 0 "dlq show succeeds for a buried event" dlq show "$dead"
has "dlq show prints the deliveries of a dead letter" out '^deliveries: +3$'
hf dlq retry "$dead"
claim
is "a dead letter that is retried begins with delivery 1 and attempt 1" \
    "$(field deliveries) $(field attempt)" "1 1"
hf ack s "$lease"

exits 0 "sub seek moves a subscription back" sub seek s --to 1 --yes
is "sub seek deletes the outcomes of events that will come again" "$(rows outcomes)" 1
claim
is "an event that comes again after sub seek is delivery 1" \
    "$(field position) $(field deliveries)" "2 1"
exits 0 "sub rm removes a subscription with outcomes" sub rm s --yes
is "sub rm deletes the outcomes of the subscription" "$(rows outcomes)" 0

# ---- Not more than 1000 -------------------------------------------------------------------------

fresh
hf sub create s --on '**' --mode shared --from start --retry-base 0ms
seq 1100 | sed 's/.*/{"type":"t","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null 2>&1
claim 30s 1100
hf nack s "$lease" --error once
claim 30s 1100
is "1100 events that failed once are handed out again" "$(wc -l <out)" 1100
hf ack s "$lease"
is "the last 1000 outcomes of a subscription are kept" "$(rows outcomes)" 1000
exits 0 "event show succeeds for the newest of 1100 events" event show 1100 --json
is "the newest of 1100 outcomes is kept" "$(state attempts)" 1
if on sqlite; then
    before=$(rows outcomes)
    hf namespace set default --retain-bytes 1
    exits 0 "retention run succeeds with outcomes" retention run
    true_that "retention deletes outcomes along with their events" \
        test "$(rows outcomes)" -lt "$before"
    is "retention leaves no outcome whose event is gone" \
        "$(patiently bus.db "SELECT count(*) FROM holdfast_outcomes o
        WHERE NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.place & 17592186044415 =
            o.position)")" 0
fi

# ---- Ordered ------------------------------------------------------------------------------------

fresh
cat >once.sh <<'END'
cat >>seen
echo "$HOLDFAST_NAMESPACE ${HOLDFAST_DELIVERIES-none} $HOLDFAST_ATTEMPT" >>numbers
[ "$HOLDFAST_ATTEMPT" -gt 1 ] || { echo 'not yet' >&2; exit 1; }
END
hf publish order.made '{"n":1}'
exits 0 "an ordered worker ends with --until-empty after a retry" \
    work s --on '**' --from start --retry-base 0ms --exec 'sh once.sh' \
    --until-empty
is "work --exec sets HOLDFAST_NAMESPACE and HOLDFAST_DELIVERIES" "$(tr '\n' ';' <numbers)" \
    "default 1 1;default 2 2;"
has "work --exec passes namespace and deliveries as JSON on stdin" \
    seen '"namespace":"default","deliveries":2'
exits 0 "event show succeeds for an event of an ordered subscription" event show 1 --json
is "event show of an ordered subscription counts attempts and deliveries" \
    "$(state state) $(state attempts) $(state deliveries)" "done 1 2"
has "event show of an ordered subscription keeps the error" out 'not yet'
hf publish order.made '{"n":2}'
exits 0 "an ordered worker ends with --until-empty without a retry" work s --exec true --until-empty
exits 0 "event show succeeds for an event that an ordered worker did at once" event show 2 --json
is "an ordered subscription keeps nothing of an event that succeeds at once" \
    "$(state state) $(state attempts_json)" "done null"

# ---- A worker that is killed --------------------------------------------------------------------

cat >kill.sh <<'END'
cat >/dev/null
echo "${HOLDFAST_DELIVERIES-none} $HOLDFAST_ATTEMPT" >>killed
if [ ! -e dead ]; then
    touch dead
    kill -9 "$(cat worker)"
fi
END
hf publish order.made '{"n":3}'
sh -c 'echo $$ >worker; exec "$0" work s --exec "sh kill.sh" --until-empty' "$HOLDFAST" \
    >/dev/null 2>&1
is "setup: a worker is killed at delivery 1" "$(head -n 1 killed)" "1 1"
exits 0 "a second worker processes the event of a killed worker" \
    work s --exec 'sh kill.sh' --until-empty
if on sqlite; then
    is "the delivery after the death of a worker is number 2 on SQLite" "$(sed -n 2p killed)" "2 2"
else
    is "the delivery after the death of a worker has no number on PostgreSQL" \
        "$(sed -n 2p killed | cut -d ' ' -f 1)" none
fi
exits 0 "event show succeeds for an event whose worker died" event show 3 --json
is "event show of an event whose worker died has the same deliveries" \
    "$(state state) $(state deliveries)" \
    "done $(on sqlite && echo 2 || echo null)"
hf publish order.made '{"n":4}'
exits 0 "a worker processes the next event after the death of another one" \
    work s --exec 'sh kill.sh' --until-empty
is "an event after the death of a worker is delivery 1 again" "$(tail -n 1 killed)" "1 1"
exits 0 "verify finds nothing wrong with outcomes" verify
finish
