#!/usr/bin/env bash
# What clients may do to `holdfast serve` without harm: too much, too slowly, half, and lies.
# shellcheck disable=SC2183
. "$(dirname "$0")/lib.sh"
rm -f log
"$HOLDFAST" serve --listen 127.0.0.1:0 --max-body 64KiB --max-per-address 50 --max-streams 1 2>log &
server_pid=$!
port=
listening() { port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' log) && [ -n "$port" ]; }
true_that "serve --listen with port 0 chooses a port and logs it" until_true 30 listening
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' log)

# say TEXT...: sends bytes (as printf has them) on a connection, and prints what comes back.
say() {
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    # shellcheck disable=SC2059
    printf "$@" >&9 2>/dev/null
    timeout 10 cat <&9 2>/dev/null
    exec 9>&-
}
honest() {
    curl -s -o honest.out -w '%{http_code}' --max-time 10 "http://127.0.0.1:$port/v1/stats"
}
first() { head -n 1 | tr -d '\r'; }
big=$(printf '%40000s' | tr ' ' a)

host='Host: localhost\r\n'
get="GET /v1/stats HTTP/1.1\r\n$host"
post="POST /v1/events HTTP/1.1\r\n$host"
close='Connection: close\r\n'
code() { first | cut -c 10-12; }
# refused TEXT: the status of the answer. A server that refuses what it has not read to its end
# resets the connection, which may overtake the answer: then it is asked again.
refused() {
    local answer=
    for _ in {1..20}; do
        answer=$(say "$1" | code)
        [ -z "$answer" ] || break
    done
    echo "$answer"
}

is "a request with headers that are too large is refused" \
    "$(refused "${get}X: $big\r\n\r\n")" 431
is "a request with a path that is too long is refused" \
    "$(refused "GET /v1/$big HTTP/1.1\r\n$host\r\n")" 414
is "a body whose Content-Length is above the limit is refused" \
    "$(say "${post}Content-Length: 70000\r\n$close\r\n" | code)" 413
is "a Content-Length that no number can hold is refused" \
    "$(say "${post}Content-Length: 99999999999999999999999\r\n\r\n" | code | cut -c 1)" 4
head -c 200000 /dev/zero | tr '\0' ' ' >body
curl -s -o out --max-time 10 -H 'Transfer-Encoding: chunked' --data-binary @body \
    "http://127.0.0.1:$port/v1/events" >/dev/null
is "a chunked body above the limit ends its connection and leaves others alone" "$(honest)" 200
oks() { grep -o 'HTTP/1.1 200' | wc -l; }
lies="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
is "a request with a length and chunks is not taken for two requests" \
    "$(say "$post$lies$close\r\n0\r\n\r\n$get\r\n" | oks)" 0
is "bytes that are no HTTP get no answer with status 200" "$(say 'nonsense\r\n\r\n' | oks)" 0
is "two requests in one packet get two answers" "$(say "$get\r\n$get$close\r\n" | oks)" 2
(say "${post}Content-Length: 100\r\n\r\n{\"type\":\"half\"}" >half.out) &
half=$!
sleep 1
is "half of a request stores no event" "$(curl -s "http://127.0.0.1:$port/v1/events")" \
    '{"items":[],"next":null}'
kill "$half" 2>/dev/null

# --- Slow ones and many ---
pids=
for _ in $(seq 30); do
    (exec 9<>"/dev/tcp/127.0.0.1/$port"; printf 'GET /v1/stats HTTP/1.1\r\n' >&9; sleep 20) &
    pids="$pids $!"
done
sleep 0.5
is "thirty slow clients leave an honest one alone" "$(honest)" 200
for _ in $(seq 40); do
    (exec 9<>"/dev/tcp/127.0.0.1/$port"; sleep 20) 2>/dev/null &
    pids="$pids $!"
done
sleep 0.5
is "an address gets no more connections than --max-per-address allows" "$(honest)" 000
# shellcheck disable=SC2086
kill $pids 2>/dev/null
again() { [ "$(honest)" = 200 ]; }
true_that "an address gets connections again when its others are closed" until_true 30 again
has "hostile text in a type is refused or escaped" <(curl -s "http://127.0.0.1:$port/v1/events" \
    -d '{"type":"<script>\u001b[31m"}') 'HF_INVALID|position'

# --- Streams whose clients have gone ---
streams() { # whether a stream begins; its connection is closed then
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    # shellcheck disable=SC2059
    printf "GET /v1/stream HTTP/1.1\r\n$host\r\n" >&9
    head -c 12 <&9 >stream.out
    exec 9>&-
    grep -q 200 stream.out
}
true_that "setup: a stream of events begins" streams
true_that "a stream whose client has closed the connection counts no more after some seconds" \
    until_true 8 streams

# --- kill -9 in the middle ---
acknowledged=0
for i in $(seq 40); do
    [ "$i" -ne 25 ] || kill -9 "$server_pid"
    curl -s --max-time 5 "http://127.0.0.1:$port/v1/events" -d '{"type":"counted"}' |
        grep -q '"position"' && acknowledged=$((acknowledged + 1))
done
wait "$server_pid" 2>/dev/null
server_pid=
exits 0 "the log can be read after kill -9 of the server" event list --type counted -n 100 --json
is "the log has every event that was acknowledged before kill -9" "$(grep -c . out)" "$acknowledged"
finish
