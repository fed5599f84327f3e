#!/usr/bin/env bash
# `holdfast serve` with a configuration file: one process answers requests and works for what the
# file declares; several may run on one database.
# shellcheck disable=SC2016,SC2183
. "$(dirname "$0")/lib.sh"

tools=$(dirname "$HOLDFAST")/tests
mkdir -p got
"$tools/tools/http_receiver" got & receiver=$!
others=
trap 'kill $receiver $others 2>/dev/null; unserve 2>/dev/null; leave; rm -rf "$work"' EXIT
until_true 20 test -s got/port
port=$(cat got/port)

# ---- What the file says -------------------------------------------------------------------------

cat >bus.yaml <<END
subscriptions:
  - name: mailer
    on: user.*
    from: start
    handler: {exec: 'cat >>mails; printf "sent %s\n\033[31m" "\$HOLDFAST_KEY"; echo bad >&2'}
  - name: hook
    on: order.**
    from: start
    handler: {http: 'http://127.0.0.1:$port/ok', allow_private: on}
schedules:
  - name: tick
    cron: '* * * * * *'
    type: tick.due
retention: {age: 30d}
serve:
  listen: unix:http
  max_body: 4KiB
  hosts: [bus.example]
END
# serves CLAIM ARGS...: a server with these options answers on the socket `http`.
serves() {
    local claim=$1
    shift
    "$HOLDFAST" serve "$@" >>serve.out 2>>serve.err </dev/null &
    server_pid=$!
    true_that "$claim" until_true 30 curl -s -o serve.up --unix-socket http http://localhost/v1/
}
exits 0 "setup: config check accepts the file of this test" config check bus.yaml
serves "serve listens on the address of serve.listen" --config bus.yaml
has "serve logs how many subscriptions of the file it works for" serve.err \
    'works for 2 subscriptions of bus\.yaml'
answers 201 "setup: an event for the declared command is published" \
    POST /v1/events '{"type":"user.created","key":"ann"}'
true_that "serve runs the command of a declared subscription" \
    until_true 30 grep -q '"key":"ann"' mails
true_that "serve logs each line of a command's stdout with its time" \
    until_true 30 grep -aqE '^20[0-9-]+T[0-9:]+Z  mailer  \| sent ann' serve.err
true_that "serve logs each line of a command's stderr with its time" \
    until_true 30 grep -aqE 'Z  mailer  \| bad' serve.err
hasnt "no control character of a command's output reaches the log" serve.err $'\033'
is "serve writes nothing of a command to its own stdout" "$(wc -c <serve.out)" 0
answers 201 "setup: an event for the declared webhook is published" \
    POST /v1/events '{"type":"order.placed","payload":1}'
true_that "serve posts an event to a declared webhook" \
    until_true 30 grep -qs '^ce-type: order.placed' got/request.1
fired() { ask GET '/v1/events?type=tick.due' && grep -q '"type":"tick.due"' out; }
true_that "serve fires a schedule that the file declares" until_true 30 fired
ask POST /v1/events "{\"type\":\"user.later\",\"key\":\"bob\",\"deliver_at\":\"$(
    date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ)\"}"
is "publishing an event for later over HTTP answers 202" "$status" 202
true_that "serve delivers an event for later when it is due" \
    until_true 30 grep -q '"key":"bob"' mails
hf namespace show default --json
is "serve makes the retention of the namespace that of the file" \
    "$(field out 1 '$.retention_ms')" $((30 * 86400000))
answers 413 "a body above serve.max_body is refused with 413" POST /v1/events \
    "{\"type\":\"user.x\",\"payload\":\"$(printf '%5000s')\"}"
code_for() { curl -s -o out -w '%{http_code}' --unix-socket http -H "Host: $1" http://x/v1/stats; }
is "a Host that serve.hosts lists is answered" "$(code_for bus.example)" 200
is "a Host that serve.hosts does not list is refused with 421" "$(code_for evil.example)" 421
unserve
is "serve exits with 0 after SIGTERM" "$rc" 0
true_that "serve removes its unix socket when it ends" test ! -e http

# ---- What counts --------------------------------------------------------------------------------

cp bus.yaml holdfast.yaml
exits 0 "config show --origin shows the settings of serve" config show --origin --json
has "config show --origin names the line of serve.max_body" out \
    '"key":"serve.max_body",.*"value":"4KiB","origin":"file","file":"holdfast.yaml","line":17'
has "config show --origin says that serve.threads is a default" out \
    '"key":"serve.threads",.*"value":"32","origin":"default"'
export HOLDFAST_LISTEN=unix:env
exits 0 "setup: config show runs with HOLDFAST_LISTEN" config show --origin --json
has "HOLDFAST_LISTEN wins over serve.listen of the file" out \
    '"key":"serve.listen",.*"value":"unix:env","origin":"environment"'
exits 0 "config show takes the options of serve" config show --listen unix:flag --origin --json
has "--listen wins over HOLDFAST_LISTEN and the file" out \
    '"key":"serve.listen",.*"value":"unix:flag","origin":"flag"'
serves "serve listens where --listen says, against environment and file" \
    --listen unix:http --max-body 8KiB
has "serve without --config takes holdfast.yaml of the folder" serve.err \
    'works for 2 subscriptions of holdfast\.yaml'
answers 201 "--max-body wins over serve.max_body of the file" POST /v1/events \
    "{\"type\":\"x\",\"payload\":\"$(printf '%5000s')\"}"
unset HOLDFAST_LISTEN
unserve
printf 'serve: {listen: "unix:http", max_bdoy: 1}\n' >bad.yaml
exits 2 "serve refuses a file with an unknown key in the section serve" serve --config bad.yaml
has "the message names line, column, key and the key that was meant" err \
    'bad\.yaml:1:30: serve\.max_bdoy: there is no such key; did you mean max_body\?'
printf 'serve: {listen: nowhere, tls: {cert: a}, hosts: ["a b"]}\n' >bad.yaml
exits 2 "config check refuses a section serve with three mistakes" config check bad.yaml
has "config check names a serve.listen that is no address" err 'serve\.listen: it is no address'
has "config check names a certificate without a key" err 'serve\.tls: cert and key go together'
has "config check names a host that is none" err 'serve\.hosts: it is no name'
printf 'serve: {listen: "0.0.0.0:0"}\n' >open.yaml
exits 1 "serve.listen beyond this machine is refused without tokens" serve --config open.yaml
has "the message about missing tokens says what to do" err 'give a file of tokens'
printf 'serve: {port: 1}\n' >bad.yaml
exits 2 "config check refuses serve.port" config check bad.yaml
has "the message about serve.port names serve.listen" err 'is a part of listen here'
printf 'serve: {listen: "unix:http"}\n' >plain.yaml
exits 2 "work refuses a file without subscriptions" work --config plain.yaml
has "work says that the file has no subscriptions" err \
    'plain\.yaml has no subscriptions to work for'
serves "serve takes a file without subscriptions" --config plain.yaml
kill -9 "$server_pid"; wait "$server_pid" 2>/dev/null
true_that "setup: a killed server leaves its socket file behind" test -S http
serves "serve replaces the socket file of a killed server" --config plain.yaml
exits 69 "serve leaves a socket alone that another server listens on" serve --listen unix:http
unserve

# ---- Two on one database ------------------------------------------------------------------------

fresh
rm -f mails
cat >two.yaml <<'END'
subscriptions:
  - name: shared
    on: job.*
    from: start
    mode: shared
    concurrency: 4
    lease: 2s
    handler: {exec: 'cat >/dev/null; sleep 0.02; echo "$HOLDFAST_POSITION" >>shared.done'}
  - name: ordered
    on: job.*
    from: start
    partitions: 4
    lease: 2s
    handler: {exec: 'cat >/dev/null; echo "$HOLDFAST_KEY $HOLDFAST_POSITION" >>ordered.done'}
END
serves "setup: the first of two servers answers" --config two.yaml --listen unix:http
"$HOLDFAST" serve --config two.yaml --listen unix:second 2>second.err >second.out & second=$!
others=$second
up() { curl -s -o serve.up --unix-socket second http://localhost/v1/; }
true_that "a second server with the same file serves beside the first" until_true 30 up
publish() { # FROM TO: through both, by turns
    local i socket
    for i in $(seq "$1" "$2"); do
        socket=http
        [ $((i % 2)) -eq 0 ] || socket=second
        [ -n "$others" ] || socket=http
        curl -sf -o /dev/null --unix-socket $socket http://localhost/v1/events \
            -d "{\"type\":\"job.run\",\"key\":\"k$((i % 8))\"}" || return
    done
}
true_that "setup: events are published through both servers" publish 1 60
working() { [ "$(sort -u shared.done 2>/dev/null | wc -l)" -ge 5 ]; }
true_that "setup: handlers of the two servers run" until_true 30 working
kill -9 "$second"; wait "$second" 2>/dev/null
others=
true_that "after kill -9 of one server the other takes events" publish 61 100
all_done() { [ "$(sort -u "$1" | wc -l)" -eq 100 ]; }
true_that "the server that is left finishes all events of the shared subscription" \
    until_true 60 all_done shared.done
true_that "the server that is left finishes all partitions of the ordered one" \
    until_true 60 all_done ordered.done
ask GET /v1/dead-letters
is "kill -9 of a server makes no dead letter" "$(cat out)" '{"items":[],"next":null}'
# At least once: what the killed process had in hand may come again, and nothing else.
doubled=$(sort shared.done | uniq -d | wc -l)
true_that "at most the events in hand of the killed server run twice" test "$doubled" -le 4
doubled=$(sort ordered.done | uniq -d | wc -l)
true_that "at most the ordered events after the checkpoint run twice" \
    test "$doubled" -le 60
first_of_each() { awk '!seen[$0]++' ordered.done | sort -s -k1,1 | sort -c -k1,1 -k2,2n; }
true_that "the order of each key is kept across kill -9" first_of_each
unserve
is "the server that is left exits with 0 after SIGTERM" "$rc" 0
finish
