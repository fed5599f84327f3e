#!/usr/bin/env bash
# GET /v1/stream: events as server-sent events, in order, each once, however often the client or the
# server goes away.
# shellcheck disable=SC2154,SC2183
. "$(dirname "$0")/lib.sh"
tools=$(dirname "$HOLDFAST")/tests/tools
# The address sanitizer keeps freed memory for a while, which would count as memory of the server.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1
exits 0 "a namespace with positions without gaps is created" namespace create default --gapless
serve

# follow FILE QUERY [CURL OPTIONS]: a client in the background; its id is in $client.
follow() {
    local file=$1 query=$2
    shift 2
    : >"$file"
    curl -sN --unix-socket http "$@" -o "$file" "http://localhost/v1/$query" &
    client=$!
    true_that "a client follows $query" until_true 30 grep -q retry: "$file"
}
# A client that ends in the middle of an event has not had it.
ids() { awk '/^id:/ { id = $2 } /^data:.*"deliveries":null}$/ { print id }' "$1"; }
has_ids() { [ "$(ids "$1" | tr '\n' ' ')" = "$2 " ]; }
gets() { # CLAIM FILE IDS: the client gets these and no others
    until_true 30 has_ids "$2" "$3"
    is "$1" "$(ids "$2" | tr '\n' ' ')" "$3 "
}
leave_it() {
    kill "$client" 2>/dev/null
    wait "$client" 2>/dev/null
}

# --- Places and filters ---
answers 201 "an array of events is published" \
    POST /v1/events '[{"type":"a.one","key":"k1","payload":{"n": 1.10}},
    {"type":"b.one"},{"type":"a.two","key":"k2","payload":"\u001b[31m \u2028"},{"type":"a.b.c"}]'
follow quiet 'stream?type=never' # looked at in the end
quiet_client=$client
follow all 'stream?from=start'
gets "a stream from the start has all events in their order" all "1 2 3 4"
has "an event of a stream is the JSON that other answers have, on one line" all \
    '^data: \{"position":1,"id":"[0-9a-f-]{36}","type":"a.one","payload":\{"n": 1.10\},"key":"k1"'
hasnt "an event of a stream has no control characters and no U+2028" all $'\033|\xe2\x80\xa8'
answers 201 "an event is published while a client follows" POST /v1/events '{"type":"b.two"}'
gets "an event that is published later reaches the client that waits" all "1 2 3 4 5"
leave_it
follow some 'stream?from=0&type=a.*&type=b.two'
gets "patterns of types choose the events of a stream" some "1 3 5"
leave_it
follow keyed 'stream?from=start&key=k2&key=none'
gets "keys choose the events of a stream" keyed 3
leave_it
follow behind 'stream?from=3'
gets "a stream from a position begins behind it" behind "4 5"
leave_it
follow resumed 'stream?from=start' -H 'Last-Event-ID: 4'
gets "Last-Event-ID is stronger than the parameter from" resumed 5
leave_it
ask GET /v1/events/4
follow timed "stream?from=$(field out 1 '$.entered_at')"
four() { ids timed | grep -qx 4; }
true_that "a stream from a time has the events that entered the log then" until_true 30 four
leave_it
follow new stream
answers 201 "an event is published while a client of all events follows" \
    POST /v1/events '{"type":"c"}'
gets "a stream without parameters begins now" new 6
leave_it
exits 0 "another namespace is created" namespace create other --gapless
follow other namespaces/other/stream
other_client=$client
answers 201 "an event is published into another namespace" \
    POST /v1/namespaces/other/events '{"type":"o"}'
gets "the stream of another namespace has its events" other 1

# --- Damage ---
if on sqlite; then
    sql() { patiently bus.db "UPDATE holdfast_events SET $1"; }
else
    sql() { psql -qXAt "$HOLDFAST_URL" -c "UPDATE holdfast_private.events SET $1"; }
fi
exits 0 "a namespace for damaged events is created" namespace create hurt --gapless
answers 201 "three events are published, of which one will be damaged" \
    POST /v1/namespaces/hurt/events \
    '[{"type":"h"},{"type":"hurt","payload":1},{"type":"h"}]'
sql "payload = '2' WHERE type = 'hurt'"
follow hurt 'namespaces/hurt/stream?from=start&type=h'
gets "a damaged event is left out of a stream" hurt "1 3"
has "a stream says which event is damaged" hurt \
    '^data: \{"position":2,"detail":"the event at position 2 is damaged'
has "damage is told in a message named problem" hurt '^event: problem$'
is "the problem of a stream has the position of the damaged event as its id" \
    "$(awk '/^id/ { id = $2 } /^event/ { print id }' hurt)" 2
leave_it

# --- Refusals ---
answers 400 "a stream refuses a place that is none" GET '/v1/stream?from=never'
has "the refusal says which places there are" out \
    'the parameter from takes start, now, a position, or a time'
answers 400 "a stream refuses a pattern that is none" GET '/v1/stream?type=a..b'
answers 400 "a stream refuses an empty key" GET '/v1/stream?key='
has "the refusal of an empty key says so" out 'the parameter key takes a text'
answers 400 "a stream refuses more than 64 types" \
    GET "/v1/stream?from=now$(printf '&type=t%d' {1..65})"
is "a stream refuses a Last-Event-ID that is no position" \
    "$(curl -s -o out -w '%{http_code}' --unix-socket http -H 'Last-Event-ID: x' \
        http://localhost/v1/stream)" 400
has "the refusal names the header Last-Event-ID" out 'the header Last-Event-ID takes a position'
answers 404 "a stream of a namespace that is not there is answered with 404" \
    GET /v1/namespaces/nowhere/stream

# --- Far behind, and slow ---
payload=$(printf '%2000s' | tr ' ' x)
yes "{\"type\":\"bulk\",\"payload\":\"$payload\"}" | head -n 8000 >bulk
exits 0 "16 MB of events are published" publish --file bulk
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server_pid/status"; }
ask GET /v1/stats
last=$(field out 1 '$.head')
before=$(rss)
mkfifo slow
curl -sN --unix-socket http "http://localhost/v1/stream?from=start" >slow &
slow_client=$!
exec 8<slow
follow far 'stream?from=start'
all_there() { [ "$(ids "$1" | wc -l)" -eq "$last" ]; }
true_that "a client that begins far back gets all events" until_true 60 all_there far
is "a client that begins far back gets each event once and in order" \
    "$(ids far | tr '\n' ' ')" "$(seq -s ' ' "$last") "
leave_it
# The client that takes nothing costs the server no more than its queue.
if [ "${TEST_VARIANT:-release}" = address ]; then
    skip "a client that takes nothing costs less than 8 MiB" "the sanitizer keeps what is freed"
else
    true_that "a client that takes nothing costs less than 8 MiB" \
        test $(($(rss) - before)) -lt 8192
fi
answers 201 "an event is published behind 16 MB of others" POST /v1/events '{"type":"last"}'
last=$((last + 1))
timeout 60 cat <&8 >slowly &
true_that "a client that takes its events late gets all" until_true 60 all_there slowly
is "a client that takes its events late gets each once and in order" \
    "$(ids slowly | tr '\n' ' ')" "$(seq -s ' ' "$last") "
kill "$slow_client"
exec 8<&-

# --- Many ---
"$tools/sse_clients" http 200 50 2 >many 2>&1
has "200 clients get all of 100 events in order" many '^events 100 fewest 100 most 100 disorder 0 '

# --- What ends ---
kill "$other_client"
wait "$other_client" 2>/dev/null
follow other namespaces/other/stream
exits 0 "a namespace that is followed is removed" namespace rm other --yes --force
over() { ! kill -0 "$client" 2>/dev/null; }
true_that "streams of a namespace end when it is removed" until_true 30 over
told() { grep -q '^id: [0-9]*$' quiet; }
true_that "a client for which nothing comes is told where it is" until_true 30 told
is "the place is told without an event" "$(grep -c '^data:' quiet)" 0
kill "$quiet_client"
unserve
is "the server ends without an error after streams" "$rc" 0

# --- A thousand ---
serve # one that has freed nothing yet which streams could take
before=$(rss)
"$tools/sse_clients" http 1000 5 4 >many 2>&1 &
clients=$!
a_thousand() { [ "$(find "/proc/$server_pid/fd" -lname 'socket:*' | wc -l)" -ge 1000 ]; }
true_that "a thousand clients follow" until_true 30 a_thousand
sleep 1 # until the server has answered them
if [ "${TEST_VARIANT:-release}" = address ]; then
    skip "a stream costs less than 28 KiB" "the sanitizer keeps what is freed"
else
    true_that "a stream costs less than 28 KiB" test $((($(rss) - before) / 1000)) -lt 28
fi
wait "$clients"
has "a thousand clients get all of 20 events in order" many \
    '^events 20 fewest 20 most 20 disorder 0 '
unserve

serve --max-streams 2
follow one stream
first=$client
follow two stream
curl -s -D head -o out --unix-socket http http://localhost/v1/stream
has "a stream beyond the limit is refused" head '^HTTP/1.1 503'
has "the refusal says that too many streams are open" out '"detail":"too many streams are open"'
has "the refusal says when to come again" head '^Retry-After: 5'
kill "$first" "$client"
wait "$first" "$client" 2>/dev/null

# --- A server that restarts, and one that is killed ---
rm -f connection.*
resume() { # connects again and again, as a browser does
    local last=$1 number=1000 file
    while [ ! -e enough ]; do
        number=$((number + 1)) file=connection.$number
        : >"$file"
        curl -sN --unix-socket http -H "Last-Event-ID: $last" -o "$file" \
            http://localhost/v1/stream
        last=$({ echo "$last"; ids "$file"; } | tail -n 1)
        sleep 0.05
    done
}
ask GET /v1/stats
last=$(field out 1 '$.head')
resume "$last" &
reader=$!
publish_some() { # through no server
    local i
    for i in $(seq 100); do
        "$HOLDFAST" publish durable "{\"i\":$i}" --quiet >/dev/null || echo "$i" >>unpublished
    done
}
publish_some &
publisher=$!
received() { for file in connection.*; do ids "$file"; done; }
got() { [ "$(received | wc -l)" -ge "$1" ]; }
true_that "a client follows what others publish" until_true 60 got 10
unserve
serve
true_that "a client goes on after a restart of the server" until_true 60 got 35
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
serve
wait "$publisher"
true_that "a client goes on after kill -9 of the server" until_true 60 got 100
touch enough
unserve
wait "$reader"
true_that "events are published while no server runs" test ! -e unpublished
is "each event came once and in order across restart and kill -9, and none is missing" \
    "$(received | tr '\n' ' ')" \
    "$(seq -s ' ' $((last + 1)) $((last + 100))) "
finish
