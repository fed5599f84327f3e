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
    true_that "($mode) the worker handles an event" until_true 60 checkpoint_is "frozen-$mode" 1
    signal STOP
    stop
    signal CONT
    is "($mode) with a frozen server the worker ends in peace" "$rc" 0
    true_that "($mode) without waiting for the server" test "$took" -lt "$limit"
    has "($mode) it says what it did" "said.frozen-$mode" ' 1 done, 0 failed attempts'
done
has "and what the server was not told" said.frozen-ordered \
    'what it has cannot be given back; others have it when'

# A command that only reads has nothing in hand at all.
"$HOLDFAST" tail --follow --from start >followed 2>said.tail &
worker=$!
true_that "(the log is followed)" until_true 60 test -s followed
signal STOP
sleep 2 # tail asks the server every second, and then waits for its answer
stop
signal CONT
true_that "with a frozen server tail is ended by the signal, or ends" test "$rc" = 143 -o "$rc" = 0
true_that "without waiting for the server, either" test "$took" -lt "$limit"

start gone --exec true
true_that "the worker handles an event" until_true 60 checkpoint_is gone 1
"$root/scripts/postgres-cluster" kill "$cluster"
true_that "the worker notices that the server is gone" until_true 60 grep -q 'cannot connect' \
    said.gone
stop
is "the worker ends in peace" "$rc" 0
true_that "although the server is gone" test "$took" -lt "$limit"
has "and says what it did" said.gone ' 1 done, 0 failed attempts'

# ---- A command that runs ------------------------------------------------------------------------

"$root/scripts/postgres-cluster" revive "$cluster"
start busy --drain 3s --exec 'echo $$ >running; exec sleep 600'
true_that "a command runs" until_true 60 test -s running
"$root/scripts/postgres-cluster" kill "$cluster"
stop
is "a worker that could not store what happened exits with 5" "$rc" 5
true_that "after the time of --drain" test "$took" -lt $((3 + limit))
true_that "its command is gone, too" test ! -e "/proc/$(cat running)"
has "it says that the event comes again" said.busy 'events after position 0 come again'
"$root/scripts/postgres-cluster" revive "$cluster"
hf work busy --until-empty --exec 'echo "again: $HOLDFAST_ID, attempt $HOLDFAST_ATTEMPT"'
is "the server is back, and so is the event: as a first attempt" "$(cut -d, -f2 out)" " attempt 1"
finish
