#!/usr/bin/env bash
# What clients may do to `holdfast serve` without harm: too much, too slowly, half, and lies.
# shellcheck disable=SC2183
. "$(dirname "$0")/lib.sh"
rm -f log
"$HOLDFAST" serve --listen 127.0.0.1:0 --max-body 64KiB --max-per-address 50 2>log &
server_pid=$!
port=
listening() { port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' log) && [ -n "$port" ]; }
true_that "a port is chosen and said" until_true 30 listening
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

is "headers that are too large are refused" "$(say "${get}X: $big\r\n\r\n" | code)" 431
is "a line that is too long is refused" \
    "$(say "GET /v1/$big HTTP/1.1\r\n$host\r\n" | code)" 414
is "a body that says it is too large is refused" \
    "$(say "${post}Content-Length: 70000\r\n$close\r\n" | code)" 413
is "so is a length that no number holds" \
    "$(say "${post}Content-Length: 99999999999999999999999\r\n\r\n" | code | cut -c 1)" 4
head -c 200000 /dev/zero | tr '\0' ' ' >body
curl -s -o out --max-time 10 -H 'Transfer-Encoding: chunked' --data-binary @body \
    "http://127.0.0.1:$port/v1/events" >/dev/null
is "one that does not say it ends its connection" "$(honest)" 200
oks() { grep -o 'HTTP/1.1 200' | wc -l; }
lies="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
is "a length and chunks at once are one request, and not two" \
    "$(say "$post$lies$close\r\n0\r\n\r\n$get\r\n" | oks)" 0
is "what is no HTTP ends its connection" "$(say 'nonsense\r\n\r\n' | oks)" 0
is "two requests in one packet get two answers" "$(say "$get\r\n$get$close\r\n" | oks)" 2
(say "${post}Content-Length: 100\r\n\r\n{\"type\":\"half\"}" >half.out) &
half=$!
sleep 1
is "half of a request stores nothing" "$(curl -s "http://127.0.0.1:$port/v1/events")" \
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
is "more connections of one address than it may have are not taken" "$(honest)" 000
# shellcheck disable=SC2086
kill $pids 2>/dev/null
again() { [ "$(honest)" = 200 ]; }
true_that "when they are gone it may come again" until_true 30 again
has "hostile text in a type is escaped" <(curl -s "http://127.0.0.1:$port/v1/events" \
    -d '{"type":"<script>\u001b[31m"}') 'HF_INVALID|position'

# --- kill -9 in the middle ---
acknowledged=0
for i in $(seq 40); do
    [ "$i" -ne 25 ] || kill -9 "$server_pid"
    curl -s --max-time 5 "http://127.0.0.1:$port/v1/events" -d '{"type":"counted"}' |
        grep -q '"position"' && acknowledged=$((acknowledged + 1))
done
wait "$server_pid" 2>/dev/null
server_pid=
exits 0 "the log can be read after kill -9" event list --type counted -n 100 --json
is "and has what was acknowledged" "$(grep -c . out)" "$acknowledged"
finish
