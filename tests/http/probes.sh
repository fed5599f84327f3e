#!/usr/bin/env bash
# /healthz and /readyz of `holdfast serve`: who may ask, what they say, and when they say no.
# shellcheck disable=SC2154,SC2183
. "$(dirname "$0")/lib.sh"

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
# probe PATH [HEADER]: the status; the answer is in the file out
probe() {
    curl -s -o out -w '%{http_code}' --max-time 30 --unix-socket http ${2:+-H "$2"} \
        "http://localhost$1"
}
not_ready() { [ "$(probe /readyz)" = 503 ]; }
is_ready() { [ "$(probe /readyz)" = 200 ]; }

# --- Without a token, and without information ---
echo "vera viewer default $(hash_of see)" >tokens
serve --tokens tokens --host bus.example
is "a request of the API needs a token" "$(probe /v1/stats 'Host: bus.example')" 401
for path in healthz readyz; do
    is "/$path needs no token" "$(probe /$path)" 200
    is "/$path takes every name of a host" "$(probe /$path 'Host: 10.1.2.3:7070')" 200
    true_that "the answer of /$path is a word" test "$(wc -c <out)" -lt 10
    is "/$path is not kept by caches" "$(curl -s -o out -D - --unix-socket http \
        "http://localhost/$path" | tr -d '\r' | grep -i '^Cache-Control')" \
        'Cache-Control: no-store'
    answers 405 "/$path takes GET only" POST "/$path" '{}'
    is "/$path answers a request with HEAD" "$(curl -s -I -o out -w '%{http_code}' \
        --unix-socket http "http://localhost/$path")" 200
done
is "a path that begins like a probe is none" "$(probe /healthz/x 'Host: bus.example')" 404
unserve

# --- A database that is locked ---
serve
is "a server with a database is ready" "$(probe /readyz)" 200
if on sqlite; then
    lock & locker=$!
    until_true 30 test -e locked
    true_that "a server whose database is locked is not ready" until_true 30 not_ready
    is "the answer of a server that is not ready says no more" "$(cat out)" "not ready"
    is "a server whose database is locked lives" "$(probe /healthz)" 200
    touch unlock
    wait "$locker"
    true_that "a server is ready again when the lock is gone" until_true 30 is_ready
fi
unserve

# --- A server that stops ---
rm -f log
cat >slow.yaml <<'END'
subscriptions:
  - name: slow
    on: x
    from: now
    handler: {exec: 'cat >/dev/null; touch began; while [ ! -e finish ]; do sleep 0.05; done'}
END
"$HOLDFAST" serve --listen 127.0.0.1:0 --threads 2 --config slow.yaml 2>log &
server_pid=$!
listening() { port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' log) && [ -n "$port" ]; }
until_true 30 listening
listening
api="http://127.0.0.1:$port/v1"
exec 9<>"/dev/tcp/127.0.0.1/$port"
request='GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n'
answer() {
    local line
    # shellcheck disable=SC2059
    printf "$request" >&9
    read -r -t 30 line <&9
    echo "${line:9:3}"
    while read -r -t 30 line <&9 && [ "$line" != $'\r' ]; do :; done
    [ "${1:-}" != whole ] || read -r -t 30 line <&9
}
is "a connection that stays open is answered" "$(answer whole)" 200
# A handler that runs keeps the server from ending.
curl -s "$api/events" -d '{"type":"x"}' -o out
true_that "setup: a handler of the server runs" until_true 30 test -e began
kill "$server_pid"
stops() { grep -q stops log; }
until_true 30 stops
is "a server that stops is not ready" "$(answer)" 503
exec 9>&-
touch finish
wait "$server_pid"
is "a server that was asked for readiness while it stopped ends with 0" $? 0
server_pid=

# --- A database that is gone ---
if on sqlite; then
    serve
    is "a server is ready before its file is removed" "$(probe /readyz)" 200
    rm -f bus.db*
    # it is not ready, or has found out by itself and ended
    isnt_ready() { [ "$(probe /readyz)" != 200 ]; }
    true_that "a server whose file was removed is not ready" until_true 30 isnt_ready
    kill "$server_pid" 2>/dev/null
    wait "$server_pid"
    server_pid=
fi
finish
