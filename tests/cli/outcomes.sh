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
is "a first claim is delivery 1" "$(field deliveries)" 1
is "the event carries its namespace" "$(field namespace)" default
exits 0 "it fails" nack s "$lease" --error 'no stock'
claim
is "a second claim is delivery 2" "$(field deliveries)" 2
exits 0 "it is given back" release s "$lease"
claim
is "a third one is delivery 3, and attempt 2" "$(field deliveries) $(field attempt)" "3 2"
exits 0 "event show" event show 1 --json
is "in hand: three deliveries, one failed attempt" \
    "$(state state) $(state deliveries) $(state attempts)" "processing 3 1"
exits 0 "it succeeds" ack s "$lease"
exits 0 "event show" event show 1 --json
is "done after one failed attempt and three deliveries" \
    "$(state state) $(state attempts) $(state deliveries) $(state cause)" "done 1 3 handler"
has "its error is still there" out '"attempts_json":\[\{"attempt":1,.*"error":"no stock"'
exits 0 "event show as text" event show 1
has "the state has both numbers" out '^s +done +1 +3 '
has "the attempt is told" out 'no stock'
is "one outcome is kept" "$(rows outcomes)" 1

hf publish order.made '{"n":2}'
hf publish order.made '{"n":3}'
claim 30s 2
hf ack s "$lease"
exits 0 "event show" event show 2 --json
is "an event that succeeds at once has no story" "$(state state) $(state attempts_json)" "done null"
is "... and costs no row" "$(rows outcomes)" 1

hf publish order.made '{"n":4}'
exits 0 "event show" event show 4 --json
is "what waits was not handed out" "$(state state) $(state deliveries)" "pending 0"
claim
hf release s "$lease"
claim
is "a release is known of an event without a story" "$(field deliveries)" 2
hf release s "$lease"
claim
is "... and a second one, too" "$(field deliveries)" 3
hf publish order.made '{"n":5}'
hf release s "$lease"
claim 30s 2
is "events that are claimed together have their own numbers" \
    "$(sed -E 's/.*"deliveries":([0-9]+).*/\1/' out | tr '\n' ' ')" "4 1 "
hf nack s "$lease" --error both
claim 30s 2
is "... and keep them when they fail" \
    "$(sed -E 's/.*"deliveries":([0-9]+).*/\1/' out | tr '\n' ' ')" "5 2 "
hf ack s "$lease"
exits 0 "event show" event show 4 --json
is "the outcome has it" "$(state deliveries) $(state attempts)" "5 1"
is "two more outcomes are kept" "$(rows outcomes)" 3

for n in 6 7 8; do hf publish order.made "{\"n\":$n}"; done
claim 1ms 3
sleep 0.1
claim 30s 3
is "half of a lease that ended is handed out again" \
    "$(sed -E 's/.*"position":([0-9]+).*"deliveries":([0-9]+).*/\1:\2/' out | tr '\n' ' ')" \
    "6:2 7:2 "
hf ack s "$lease"
claim 1ms 3
is "the other half, too" "$(field position) $(field deliveries)" "8 2"
sleep 0.1
claim
is "a lease of one event that ended is an attempt" \
    "$(field position) $(field deliveries) $(field attempt)" "8 3 2"
hf bury s "$lease" --error 'enough'
exits 0 "event show" event show 8 --json
is "a dead one has its deliveries" "$(state state) $(state deliveries)" "dead 3"
exits 0 "dlq list" dlq list --json
is "so does the dead letter" "$(field deliveries)" 3
dead=$(field dead_id)
exits 0 "dlq show" dlq show "$dead"
has "also as text" out '^deliveries: +3$'
hf dlq retry "$dead"
claim
is "a retried dead letter has a clean record" "$(field deliveries) $(field attempt)" "1 1"
hf ack s "$lease"

exits 0 "seek back" sub seek s --to 1 --yes
is "what comes again has no outcome" "$(rows outcomes)" 1
claim
is "... and is delivery 1 again" "$(field position) $(field deliveries)" "2 1"
exits 0 "the subscription goes" sub rm s --yes
is "its outcomes go with it" "$(rows outcomes)" 0

# ---- Not more than 1000 -------------------------------------------------------------------------

fresh
hf sub create s --on '**' --mode shared --from start --retry-base 0ms
seq 1100 | sed 's/.*/{"type":"t","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null 2>&1
claim 30s 1100
hf nack s "$lease" --error once
claim 30s 1100
is "all come again" "$(wc -l <out)" 1100
hf ack s "$lease"
is "the last 1000 outcomes of a subscription are kept" "$(rows outcomes)" 1000
exits 0 "event show" event show 1100 --json
is "the newest one is" "$(state attempts)" 1
if on sqlite; then
    before=$(rows outcomes)
    hf namespace set default --retain-bytes 1
    exits 0 "retention" retention run
    true_that "takes outcomes along with their events" test "$(rows outcomes)" -lt "$before"
    is "all of them" "$(patiently bus.db "SELECT count(*) FROM holdfast_outcomes o
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
exits 0 "an ordered worker" work s --on '**' --from start --retry-base 0ms --exec 'sh once.sh' \
    --until-empty
is "its command is told namespace and deliveries" "$(tr '\n' ';' <numbers)" \
    "default 1 1;default 2 2;"
has "as JSON, too" seen '"namespace":"default","deliveries":2'
exits 0 "event show" event show 1 --json
is "done after a failed attempt" \
    "$(state state) $(state attempts) $(state deliveries)" "done 1 2"
has "with its error" out 'not yet'
hf publish order.made '{"n":2}'
exits 0 "a plain one" work s --exec true --until-empty
exits 0 "event show" event show 2 --json
is "nothing is kept of it" "$(state state) $(state attempts_json)" "done null"

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
is "the first run was delivery 1" "$(head -n 1 killed)" "1 1"
exits 0 "another worker" work s --exec 'sh kill.sh' --until-empty
if on sqlite; then
    is "the note tells which attempt died, so the number is known" "$(sed -n 2p killed)" "2 2"
else
    is "it is not known what the dead worker had handed out, so there is no number" \
        "$(sed -n 2p killed | cut -d ' ' -f 1)" none
fi
exits 0 "event show" event show 3 --json
is "and so it is shown" "$(state state) $(state deliveries)" \
    "done $(on sqlite && echo 2 || echo null)"
hf publish order.made '{"n":4}'
exits 0 "the next event" work s --exec 'sh kill.sh' --until-empty
is "what came later is known again" "$(tail -n 1 killed)" "1 1"
exits 0 "verify" verify
finish
