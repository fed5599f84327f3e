#!/usr/bin/env bash
# How a worker ends whose server does not answer. With nothing in hand it has nothing to wait for.
# With a command that runs it waits for that, for the time of --drain, and the event comes again.
# The test has a cluster of its own, which it freezes and kills.
. "$(dirname "$0")/../cli/lib.sh"

# seconds; a stop with nothing in hand takes one, and took 12 to 60 when it waited for the server
limit=7
cluster=$("$root/scripts/postgres-cluster" start --with $$)
main=$(head -1 "$cluster/data/postmaster.pid")
# signal NAME: to every process of the server; to the main one first, which could make others
signal() {
    local child
    kill -"$1" "$main"
    for child in $(ps -o pid= --ppid "$main"); do
        kill -"$1" "$child" 2>/dev/null # it may end meanwhile
    done
}
trap 'signal CONT 2>/dev/null; "$root/scripts/postgres-cluster" stop "$cluster"; leave
    rm -rf "$work"' EXIT
"$root/scripts/postgres-cluster" createdb "$cluster" gone
HOLDFAST_URL=$("$root/scripts/postgres-cluster" url "$cluster" gone)

checkpoint_is() {
    "$HOLDFAST" sub show "$1" --json 2>/dev/null | grep -q "\"checkpoint\": *$2[,}]"
}
# start SUB OPTIONS...: a worker in the background; its process is $worker
start() {
    "$HOLDFAST" work "$1" --on '*' --from start "${@:2}" >"worked.$1" 2>"said.$1" &
    worker=$!
    until_true 60 grep -q "Working for" "said.$1"
}
# stop: ends it; $rc is its exit status, $took how many seconds it needed
stop() {
    local before=$SECONDS
    kill -TERM "$worker"
    wait "$worker"
    rc=$?
    took=$((SECONDS - before))
}

# ---- Nothing in hand ----------------------------------------------------------------------------

hf publish x '{}'
for mode in ordered shared; do
    start "frozen-$mode" --mode "$mode" --exec true
    true_that "setup: a worker of a $mode subscription handles an event" \
        until_true 60 checkpoint_is "frozen-$mode" 1
    signal STOP
    stop
    signal CONT
    is "a worker of a $mode subscription ends with 0 while the server is frozen" "$rc" 0
    true_that "a worker of a $mode subscription does not wait for the frozen server" \
        test "$took" -lt "$limit"
    has "a worker of a $mode subscription says what it did" \
        "said.frozen-$mode" ' 1 done, 0 failed attempts'
done
has "a worker of an ordered subscription says that partitions cannot be given back" \
    said.frozen-ordered \
    'what it has cannot be given back; others have it when'

# A command that only reads has nothing in hand at all.
"$HOLDFAST" tail --follow --from start >followed 2>said.tail &
worker=$!
true_that "setup: tail --follow prints an event" until_true 60 test -s followed
signal STOP
sleep 2 # tail asks the server every second, and then waits for its answer
stop
signal CONT
true_that "tail --follow ends after SIGTERM while the server is frozen" \
    test "$rc" = 143 -o "$rc" = 0
true_that "tail --follow does not wait for the frozen server" test "$took" -lt "$limit"

start gone --exec true
true_that "setup: a worker handles an event before the server is gone" \
    until_true 60 checkpoint_is gone 1
"$root/scripts/postgres-cluster" kill "$cluster"
true_that "a worker says that it cannot connect when the server is gone" \
    until_true 60 grep -q 'cannot connect' \
    said.gone
stop
is "a worker ends with 0 while the server is gone" "$rc" 0
true_that "a worker does not wait for a server that is gone" test "$took" -lt "$limit"
has "a worker says what it did while the server is gone" said.gone ' 1 done, 0 failed attempts'

# ---- A command that runs ------------------------------------------------------------------------

"$root/scripts/postgres-cluster" revive "$cluster"
start busy --drain 3s --exec 'echo $$ >running; exec sleep 600'
true_that "setup: a command of a worker runs" until_true 60 test -s running
"$root/scripts/postgres-cluster" kill "$cluster"
stop
is "a worker that could not store what happened exits with 5" "$rc" 5
true_that "a worker waits for its command for the time of --drain" test "$took" -lt $((3 + limit))
true_that "the command of a worker is ended after --drain" test ! -e "/proc/$(cat running)"
has "a worker says that its events come again" said.busy 'events after position 0 come again'
"$root/scripts/postgres-cluster" revive "$cluster"
hf work busy --until-empty --exec 'echo "again: $HOLDFAST_ID, attempt $HOLDFAST_ATTEMPT"'
is "an event whose end could not be stored comes again as a first attempt" \
    "$(cut -d, -f2 out)" " attempt 1"
finish
