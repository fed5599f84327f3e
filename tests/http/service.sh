#!/usr/bin/env bash
# `holdfast serve` as a service: what it tells systemd, the socket that systemd passes, and how it
# ends.
# shellcheck disable=SC2016
. "$(dirname "$0")/lib.sh"

tools=$(dirname "$HOLDFAST")/tests/tools
listener=
trap 'kill $listener 2>/dev/null; unserve 2>/dev/null; leave; rm -rf "$work"' EXIT
up() { curl -sk -o serve.up --unix-socket http "${scheme:-http}://localhost/v1/"; }
# service ENVIRONMENT... -- ARGS...: starts a server with these variables.
service() {
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    env "${variables[@]}" "$HOLDFAST" serve "$@" >>serve.out 2>>serve.err </dev/null &
    server_pid=$!
    until_true 30 up
}
# listen NAME: receives notifications into the file `notes`.
listen() {
    [ -z "$listener" ] || { kill "$listener"; wait "$listener"; } 2>/dev/null
    rm -f notes
    "$tools/notify_receiver" "$1" >notes & listener=$!
    until_true 10 grep -q listens notes
}
noted() { until_true 30 grep -qE "$1" notes; }
cat >env.yaml <<'END'
subscriptions:
  - name: env
    on: env.*
    from: start
    handler: {exec: 'cat >/dev/null; env >environment.part; mv environment.part environment'}
END

# ---- Notifications ------------------------------------------------------------------------------

listen "$PWD/notify"
service "NOTIFY_SOCKET=$PWD/notify" -- --listen unix:http --config env.yaml
true_that "serve sends READY=1 when it answers" noted '^READY=1'
has "READY=1 comes with a sentence for people" notes \
    'STATUS=serves .* on unix:http, works for 1 subscription$'
ask POST /v1/events '{"type":"env.x"}'
true_that "setup: the command has run" until_true 30 test -s environment
hasnt "commands do not get the variables of the service" environment \
    '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_)'
unserve
true_that "serve sends STOPPING=1 when it stops" noted '^STOPPING=1'
hasnt "serve without WATCHDOG_USEC sends no WATCHDOG=1" notes WATCHDOG

name="@holdfast-test-$$-$RANDOM"
listen "$name"
service "NOTIFY_SOCKET=$name" WATCHDOG_USEC=400000 -- --listen unix:http
true_that "a socket in the abstract namespace is told, too" noted '^READY=1'
beats() { [ "$(grep -c '^WATCHDOG=1' notes)" -ge 5 ]; }
true_that "the watchdog is told again and again" until_true 30 beats
# The server has 32 threads; when all of them hang, it does not answer. An array of events keeps
# one.
quiet() {
    local before
    before=$(grep -c '^WATCHDOG=1' notes)
    sleep 1.2
    [ "$(grep -c '^WATCHDOG=1' notes)" -eq "$before" ]
}
if on sqlite; then
    unserve
    service "NOTIFY_SOCKET=$name" WATCHDOG_USEC=400000 -- --listen unix:http --threads 2
    (lock) & locker=$!
    true_that "setup: the database is locked" until_true 30 test -e locked
    for i in 1 2 3 4; do
        curl -s -o "stuck.$i" --max-time 60 --unix-socket http http://localhost/v1/events \
            -d '[{"type":"x"}]' &
    done
    true_that "the watchdog is not told while no request is answered" until_true 20 quiet
    touch unlock
    wait "$locker"
    : >notes
    true_that "the watchdog is told again when requests are answered" noted '^WATCHDOG=1'
fi
unserve
service "NOTIFY_SOCKET=$name" WATCHDOG_USEC=400000 WATCHDOG_PID=1 -- --listen unix:http
: >notes
sleep 1
hasnt "a watchdog of another process is not told" notes WATCHDOG
unserve
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
    -subj /CN=localhost >openssl.out 2>&1
scheme=https
: >notes
service "NOTIFY_SOCKET=$name" WATCHDOG_USEC=400000 -- --listen unix:http --tls-cert cert.pem \
    --tls-key key.pem
true_that "the watchdog is told through TLS, too" noted '^WATCHDOG=1'
unserve
scheme=http
service "NOTIFY_SOCKET=$PWD/no/such/socket" -- --listen unix:http
is "a socket that is not there keeps no server from its work" $? 0
unserve

# ---- The socket of systemd ----------------------------------------------------------------------

# activated WHAT: starts a server with a socket that is passed on.
activated() {
    rm -f http
    "$tools/socket_activate" "$@" 2>>serve.err </dev/null &
    server_pid=$!
    until_true 30 up
}
activated http "$HOLDFAST" serve --listen 127.0.0.1:1
is "serve listens on the socket that systemd passes" $? 0
has "serve names the socket that was passed" serve.err 'on http://unix:http'
unserve
is "a server with a passed socket exits with 0" "$rc" 0
true_that "a socket that was passed stays for the next start" test -S http
activated http "$HOLDFAST" serve --config env.yaml
rm -f environment
ask POST /v1/events '{"type":"env.y"}'
true_that "setup: the command has run again" until_true 30 test -s environment
hasnt "commands do not get the variables of the passed socket" environment '^LISTEN_'
unserve
refused() { # WHAT ARGS...
    rm -f http
    "$tools/socket_activate" "$1" "$HOLDFAST" serve "${@:2}" >out 2>err </dev/null
    rc=$?
}
refused two:http
is "serve refuses two sockets" "$rc" 2
has "the message counts the sockets" err 'LISTEN_FDS has 2 sockets'
refused deaf:http
has "serve refuses a socket that does not listen" err 'no stream socket that listens'
refused any:0
has "serve refuses a passed socket of the network without tokens" err 'give a file of tokens'
refused other-pid:deaf --listen nowhere
has "a socket for another process is not taken" err "'nowhere': it is no address"

# ---- The end ------------------------------------------------------------------------------------

cat >slow.yaml <<'END'
database: {drain: 20s}
subscriptions:
  - name: slow
    on: slow.*
    from: start
    handler:
      exec: 'cat >/dev/null; touch began; while [ ! -e finish ]; do sleep 0.05; done; touch ended'
END
rm -f http
service -- --config slow.yaml --listen unix:http
ask POST /v1/events '{"type":"slow.x"}'
true_that "setup: a handler runs" until_true 30 test -e began
hf sub create pulled --on 'none.*' --from start --mode shared
curl -s -o claim.out -w '%{http_code}' --unix-socket http -d '{"wait_ms":50000}' \
    http://localhost/v1/subscriptions/pulled/claim >claim.code & claim=$!
curl -sN -o live.out --unix-socket http -H 'Accept: text/event-stream' \
    http://localhost/v1/live & live=$!
true_that "setup: a stream is open" until_true 30 test -s live.out
sleep 0.5 # nothing outside shows that a request waits in the server
kill "$server_pid"
wait "$live"
is "a stream ends as a whole when the server stops" $? 0
wait "$claim"
is "a request that waits for events is answered when the server stops" "$(cat claim.code)" 200
refuses() { ! curl -s -o serve.up --unix-socket http http://localhost/v1/; }
true_that "a server that stops takes no new connections" until_true 10 refuses
true_that "a server that stops lets a running handler go on" kill -0 "$server_pid"
touch finish
wait "$server_pid"
is "a server that has drained exits with 0" $? 0
server_pid=
true_that "the handler has finished before the server ended" test -e ended
service -- --config slow.yaml --listen unix:http
ask GET /v1/subscriptions/slow
has "what the handler did while the server stopped is settled" out '"pending":0'
unserve

rm -f began ended finish
service -- --config slow.yaml --listen unix:http --drain 1s
ask POST /v1/events '{"type":"slow.y"}'
true_that "setup: another handler runs" until_true 30 test -e began
kill "$server_pid"
wait "$server_pid"
is "a server whose handler does not end exits with 0 after the drain" $? 0
server_pid=
hf dlq list --json
is "a handler that was ended by the drain makes no dead letter" "$(wc -c <out)" 0

rm -f began
service -- --config slow.yaml --listen unix:http
true_that "setup: the same event runs again" until_true 30 test -e began
kill "$server_pid"
sleep 1.2 # a signal that follows within a second is taken for the same
kill "$server_pid"
wait "$server_pid" 2>/dev/null
is "a second SIGTERM ends the server at once" $? $((128 + 15))
server_pid=

# ---- Requests under way -------------------------------------------------------------------------

if on sqlite; then
    rm -f locked unlock http
    service -- --listen unix:http --drain 20s
    (lock) & locker=$!
    true_that "setup: the database is locked again" until_true 30 test -e locked
    curl -s -o under.out -w '%{http_code}' --unix-socket http http://localhost/v1/events \
        -d '{"type":"under.way"}' >under.code & under=$!
    sleep 0.5
    kill "$server_pid"
    sleep 0.5
    touch unlock
    wait "$under" "$locker"
    is "a request that is under way is answered when the server stops" "$(cat under.code)" 201
    wait "$server_pid"
    is "a server that has answered what was under way exits with 0" $? 0
    server_pid=
    rm -f locked unlock
    service -- --listen unix:http --drain 1s --db-timeout 60s
    (lock) & locker=$!
    true_that "setup: the database stays locked" until_true 30 test -e locked
    curl -s -o under.out --max-time 60 --unix-socket http http://localhost/v1/events \
        -d '{"type":"cut.off"}' & under=$!
    sleep 0.5
    kill "$server_pid"
    wait "$server_pid"
    is "a server exits with 0 when requests do not end within the drain" $? 0
    server_pid=
    has "requests that are cut off are logged" serve.err 'requests have not ended in time'
    touch unlock
    wait "$under" "$locker"
fi
finish
