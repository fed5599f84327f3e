#!/usr/bin/env bash
# SIGHUP: `holdfast serve` carries out the configuration file as it is now, as a whole or not at
# all, while it works.
# shellcheck disable=SC2016
. "$(dirname "$0")/lib.sh"

tools=$(dirname "$HOLDFAST")/tests
mkdir -p got
"$tools/tools/http_receiver" got & receiver=$!
listener=
trap 'kill $receiver $listener 2>/dev/null; unserve 2>/dev/null; leave; rm -rf "$work"' EXIT
until_true 20 test -s got/port
port=$(cat got/port)

ends() { [ "$(grep -cE "$1" serve.err)" -gt "$2" ]; }
# reloads CLAIM: the file is taken.
reloads() {
    local before
    before=$(grep -c 'was read again' serve.err)
    kill -HUP "$server_pid"
    true_that "$1" until_true 30 ends 'was read again' "$before"
}
# refuses CLAIM PATTERN: it is not, and the log says why.
refuses() {
    local before
    before=$(grep -c 'everything stays as it was' serve.err)
    kill -HUP "$server_pid"
    true_that "$1" until_true 30 ends 'everything stays as it was' "$before"
    has "the log says why: $2" serve.err "$2"
}
publish() { hf publish "$1" "${2:-null}" --key "${3:-k}" --quiet; }
line() { grep -qx "$1" done.txt 2>/dev/null; }
does() { true_that "$1" until_true 30 line "$2"; }

cat >start.yaml <<END
subscriptions:
  - name: a
    on: a.*
    from: start
    handler: {exec: 'cat >/dev/null; echo "first \$HOLDFAST_TYPE" >>done.txt'}
  - name: b
    on: b.*
    from: start
    handler: {exec: 'cat >/dev/null; echo "b \$HOLDFAST_TYPE" >>done.txt'}
  - name: hook
    on: hook.*
    from: start
    handler: {http: 'http://127.0.0.1:$port/one', allow_private: on}
schedules:
  - {name: yearly, cron: '0 0 1 1 *', type: year.began}
retention: {age: 30d}
END
cp start.yaml bus.yaml
"$HOLDFAST" serve --config bus.yaml --listen unix:http >>serve.out 2>>serve.err </dev/null &
server_pid=$!
true_that "setup: the server answers" \
    until_true 30 curl -s -o serve.up --unix-socket http http://localhost/v1/
publish a.1
does "setup: the first command runs" 'first a.1'

# ---- What is not taken --------------------------------------------------------------------------

with() { sed "$@" start.yaml >bus.yaml; } # the first file, changed
# refused_as_whole CLAIM PATTERN: and the command, which has changed, too, is the one before.
count=0
refused_as_whole() {
    sed -i 's/"first /"changed /' bus.yaml
    refuses "$1 is not taken" "$2"
    count=$((count + 1))
    publish "a.same$count"
    does "after that, the command is the one before: $1" "first a.same$count"
}
with 's/on: b/onn: b/'
refused_as_whole "a file with a mistake" \
    'bus\.yaml:7:5: subscriptions\[1\]\.onn: there is no such key; did you mean on\?'
sed -n 1p start.yaml >bus.yaml
echo '  - {name: a, on: a.*, from: start, partition: "0", handler: {exec: "true"}}' >>bus.yaml
refuses "a file with other partitions is not taken" \
    'bus\.yaml:2: subscriptions\.a\.partition: it cannot change while the server runs; restart it'
with '$a serve: {max_body: 4KiB}'
refused_as_whole "a file with other limits of the server" \
    'bus\.yaml:17: serve\.max_body: it cannot change while the server runs'
with '$a database: {drain: 3s}'
refused_as_whole "a file with other settings of the database" \
    'bus\.yaml:17: database\.drain: it cannot change while the server runs'
with 's/on: b/mode: shared\n    on: b/'
refused_as_whole "a file with another mode" 'subscriptions\.b\.mode: it cannot change'
exits 0 "setup: a shared subscription is made" sub create taken --on 't.*' --from now --mode shared
with 's/^schedules:/  - {name: fresh, on: x.*, from: start, handler: {exec: "true"}}\
  - {name: taken, on: t.*, from: now, handler: {exec: "true"}}\nschedules:/'
refused_as_whole "a file that does not fit what is stored" 'subscription taken: .*(mode|shared)'
ask GET /v1/subscriptions/fresh
is "a subscription of a file that was not taken is not left behind" "$status" 404
with 's/^schedules:/  - {name: fresh, on: x.*, from: start, handler: {exec: "true"}}\nschedules:/
    s/yearly, cron/yearly, driver: pg_cron, cron/'
refused_as_whole "a file with a schedule that the database refuses" 'schedule yearly: .*pg_cron'
ask GET /v1/subscriptions/fresh
is "what was stored before a failure is undone" "$status" 404
with 's/one/two/; s/allow_private: on/allow_private: on, secret_file: nowhere/'
refused_as_whole "a file with a webhook that cannot be opened" 'nowhere'
rm bus.yaml
refuses "a file that is not there is not taken" 'bus\.yaml'
hasnt "a failure is undone without a trace" serve.err 'could not all be undone'

# ---- What is taken ------------------------------------------------------------------------------

cp start.yaml bus.yaml
reloads "a file that has not changed is taken"
has "the log says that nothing is new" serve.err \
    'bus\.yaml was read again: works for 3 subscriptions \(0 new, 0 changed, 0 gone\)'
with 's/"first /"second /'
reloads "a file with another command is taken"
publish a.2
does "the next event runs the new command" 'second a.2'
with 's/one/two/'
reloads "a file with another URL is taken"
publish hook.1
posted() { grep -qs "^POST $1 " got/request.*; }
true_that "the next event goes to the new URL" until_true 30 posted /two
is "no event went to the old URL" "$(cat got/request.* | grep -c '^POST /one ')" 0
printf '%s\n' '#!/bin/sh' 'cat >/dev/null; echo "c $HOLDFAST_TYPE" >>done.txt' >c.sh
chmod +x c.sh
with '/name: b/,/handler/d
    s/^schedules:/  - {name: c, on: [c.*, d.*], from: start, handler: {exec: .\/c.sh}}\
schedules:/; s/on: a\.\*/on: [aa.*, a.more]/; s/30d/20d/; s/yearly/annual/'
reloads "a file with other subscriptions, patterns, schedules and retention is taken"
has "the log counts what is new, changed and gone" serve.err \
    'works for 3 subscriptions \(1 new, 2 changed, 1 gone\)'
publish c.1 && publish d.1 && publish b.1 && publish aa.1 && publish a.3 && publish a.more
does "a new subscription is worked for" 'c c.1'
does "a new subscription has all its patterns" 'c d.1'
does "a pattern that is new is worked for" 'first aa.1'
does "a second pattern that is new is worked for" 'first a.more'
ask GET /v1/subscriptions/a
has "the stored patterns are those of the file" out '"patterns":\["aa\.\*","a\.more"\]'
ask GET /v1/subscriptions/b
has "a subscription that the file does not have any more stays" out '"pending":1'
is "a subscription that is gone from the file is not worked for" "$(grep -c '^b ' done.txt)" 0
is "a pattern that is gone is not worked for" "$(grep -c 'first a.3' done.txt)" 0
ask GET /v1/schedules/annual
is "a schedule that is new is made" "$status" 200
ask GET /v1/namespaces/default
has "retention is that of the file" out "\"retention_ms\":$((20 * 86400000))"
cp start.yaml bus.yaml
reloads "a subscription that was gone comes back"
does "what was published while it was gone is worked for" 'b b.1'

# ---- While handlers run -------------------------------------------------------------------------

with 's/echo "first/touch began; while [ ! -e go ]; do sleep 0.05; done; echo "slow/'
reloads "a file with a slow command is taken"
publish a.slow
true_that "setup: the slow command runs" until_true 30 test -e began
with 's/"first /"quick /'
reloads "a file is taken while a command of the one before runs"
publish a.quick '' other
touch go
does "a command that had begun finishes" 'slow a.slow'
does "the next event runs the changed command" 'quick a.quick'
is "no event was run by both" "$(grep -c 'a\.slow' done.txt)" 1

rm -f done.txt
cat >even.yaml <<'END'
subscriptions:
  - name: a
    on: [a.*, n.*]
    from: start
    concurrency: 4
    handler: {exec: 'cat >/dev/null; echo "$HOLDFAST_POSITION" >>done.txt'}
END
sed 's/a\.\*, n\.\*/n.**, m.*/; s/cat/: odd; cat/' even.yaml >odd.yaml # the patterns overlap
some() { # 100 events, while the file changes again and again
    for i in $(seq 100); do
        echo "{\"type\":\"n.x\",\"key\":\"k$((i % 10))\"}"
    done >some
    hf publish --file some --quiet
}
for i in $(seq 8); do
    cp "$([ $((i % 2)) -eq 0 ] && echo even || echo odd).yaml" bus.yaml
    kill -HUP "$server_pid"
    some
done
all_done() { [ "$(sort -u done.txt | wc -l)" -eq 800 ]; }
true_that "no event is left out while the file changes" until_true 60 all_done
is "no event is run twice while the file changes" "$(sort done.txt | uniq -d | wc -l)" 0
ask GET /v1/dead-letters
is "nothing died of it" "$(cat out)" '{"items":[],"next":null}'
unserve
is "the server exits with 0 after it was reloaded" "$rc" 0

# ---- What systemd is told -----------------------------------------------------------------------

"$tools/tools/notify_receiver" "$PWD/notify" >notes & listener=$!
until_true 10 grep -q listens notes
cp start.yaml bus.yaml
NOTIFY_SOCKET=$PWD/notify "$HOLDFAST" serve --config bus.yaml --listen unix:http \
    >>serve.out 2>>serve.err </dev/null &
server_pid=$!
true_that "setup: the server is ready" until_true 30 grep -q '^READY=1' notes
reloads "a service reads its file again"
true_that "systemd is told when a reload begins, with the time" \
    until_true 30 grep -qE '^RELOADING=1 MONOTONIC_USEC=[0-9]+$' notes
ready() { [ "$(grep -c '^READY=1' notes)" -eq 2 ]; }
true_that "systemd is told when a reload has ended" until_true 30 ready
unserve
rm -f http
serve
kill -HUP "$server_pid"
told() { grep -q 'there is no configuration file to read again' serve.err; }
true_that "a server without a file says so" until_true 30 told
unserve
finish
