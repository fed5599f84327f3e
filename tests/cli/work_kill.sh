#!/usr/bin/env bash
# work: time limits, signals, and workers that are killed.
. "$(dirname "$0")/lib.sh"

gone() { # FILE: the process whose number is in the file does not run
    local pid
    pid=$(cat "$1")
    [ ! -d "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status"
}
alive() { [ -s "$1" ] && ! gone "$1"; }
rests() { # PID: its first thread has nothing to do, at twenty looks
    local i state
    for ((i = 0; i < 20; i++)); do
        read -r _ _ state _ <"/proc/$1/stat"
        [ "$state" = S ] || return 1
        sleep 0.02
    done
}

# --- Time limits ---
# Long enough for a command to begin, mostly. Whether SIGTERM is enough to end it depends on how
# soon it gets to run, so no claim is made of that.
hf sub create slow --on 'slow.*' --from start --retries 0 --timeout 6s
# slowly COMMAND: an event for it, until it got as far as to make the file `ready` in its time.
slowly() {
    local i
    rm -f ready
    for i in 1 2 3 4 5; do
        hf publish slow.x
        begin=${EPOCHREALTIME/./}
        hf work slow --exec "$1" --until-empty
        spent=$((${EPOCHREALTIME/./} - begin))
        [ ! -e ready ] || break
    done
}
slowly 'echo $$ >leader; sleep 300 & echo $! >member; echo "I wait" >&2; : >ready; wait'
is "work --until-empty exits with 7 after a command past its --timeout" "$rc" 7
true_that "a command past its --timeout is ended after about that time" \
    test $spent -ge 3000000 -a $spent -lt 240000000
true_that "a command past its --timeout does not run any more" gone leader
true_that "a process that the command started does not run any more" gone member
hf dlq list --json --limit 1
is "the error of a command past its --timeout has the limit, the signal and its stderr" \
    "$(field out 1 '$.error' |
        sed 's/SIGKILL/SIGTERM/')" 'timed out after 6s (--timeout): ended by SIGTERM: I wait'
slowly 'trap "" TERM; echo $$ >leader; : >ready; while :; do sleep 0.1; done'
true_that "a command that ignores SIGTERM after its --timeout is killed" gone leader
hf dlq list --json --limit 1
has "the error of a killed command says SIGKILL" \
    out '"error":"timed out after 6s \(--timeout\): ended by SIGKILL'
slowly 'trap "exit 0" TERM; : >ready; sleep 300 & wait'
hf dlq list --json --limit 1
has "exit 0 after the --timeout is no success" out \
    '"error":"timed out after 6s \(--timeout\): ended by SIG(TERM|KILL)'
hf publish slow.d
hf publish slow.e
hf work slow --exec 'exec sleep 300' --concurrency 2 --until-empty
hf dlq list --group-by error --type 'slow.*' --json
has "commands past their --timeout are one group of errors" out \
    '"count":[2-9],"error":"timed out after 6s \(--timeout\): ended by SIG(TERM|KILL)"'

# --- Signals ---
hf sub create signals --on 'sig.*' --from now --timeout 30s
hf publish sig.a
hf publish sig.b
"$HOLDFAST" work signals --exec 'echo "$HOLDFAST_TYPE begins"; : >begun
    until [ -e finish ]; do sleep 0.05; done; echo "$HOLDFAST_TYPE ends"' >out 2>err &
pid=$!
until_true 60 test -e begun
kill -TERM $pid
until_true 60 grep -q Stopping err
true_that "work says that it stops after SIGTERM and waits for the command" \
    until_true 60 rests $pid # it says so just before
touch finish
wait $pid
is "work exits with 0 after SIGTERM" "$?" 0
has "the running command finishes after SIGTERM" out '^sig.a ends$'
hasnt "no other command begins after SIGTERM" out '^sig.b begins$'
hf work signals --exec 'echo "$HOLDFAST_TYPE"' --until-empty
is "a command that finished after SIGTERM is done, the next event comes later" "$(cat out)" sig.b
# Half a second before the drain's end it is killed. A machine may stand still for longer: again
# then.
for _ in 1 2 3 4 5; do
    rm -f begun
    hf publish sig.c
    "$HOLDFAST" work signals --drain 6s \
        --exec 'echo $$ >leader; trap "" TERM; : >begun; while :; do sleep 0.1; done' >out 2>err &
    pid=$!
    until_true 60 test -e begun
    kill -TERM $pid
    wait $pid
    code=$?
    grep -q 'had not returned' err || break
    until_true 60 gone leader
    "$HOLDFAST" work signals --exec true --until-empty --retry-base 10ms --max-time 60s 2>/dev/null
done
is "work exits with 0 after --drain" "$code" 0
hasnt "work kills a command before the bus gives up waiting for it" err 'had not returned'
until_true 60 gone leader
is "a command that does not finish is killed after --drain" "$?" 0
hf work signals --exec 'echo "$HOLDFAST_TYPE $HOLDFAST_ATTEMPT"' --until-empty --retry-base 10ms \
    --max-time 60s
is "an attempt that --drain ended does not count" "$(cat out)" "sig.c 1"
rm -f begun
hf publish sig.d
"$HOLDFAST" work signals \
    --exec 'echo $$ >leader; sleep 61 & echo $! >member; : >begun; wait' >out 2>err &
pid=$!
until_true 60 test -e begun
kill -TERM $pid
until_true 60 grep -q Stopping err
kill -TERM $pid
true_that "SIGTERM twice within a second counts as one" kill -0 $pid
sleep 1.1
kill -TERM $pid
wait $pid
is "a second SIGTERM after a second ends work at once" "$?" 143
until_true 60 gone leader
is "a second SIGTERM kills the command" "$?" 0
until_true 60 gone member
is "a second SIGTERM kills what the command started" "$?" 0

# --- kill -9 of a worker ---
rm -f begun
"$HOLDFAST" work signals \
    --exec 'echo $$ >leader; sleep 62 & echo $! >member; : >begun; wait' >out 2>err &
pid=$!
until_true 60 test -e begun
is "another worker takes the event of an interrupted one" "$?" 0
true_that "setup: a process that the command started runs" alive member
kill -9 $pid
wait $pid 2>/dev/null
until_true 60 gone leader
is "the command of a killed worker dies" "$?" 0
until_true 60 gone member
is "a process that the command of a killed worker started dies" "$?" 0
exits 0 "a second worker goes on after the first was killed" \
    work signals --exec 'echo "$HOLDFAST_TYPE"' \
    --until-empty --max-time 60s --retry-base 10ms
has "a second worker gets the event of the killed one" out '^sig.d$'

# --- A crowd, one of which is killed: nothing is lost ---
hf sub create crowd --on 'crowd.*' --from now --mode shared --batch 3 --concurrency 2
seq 1 60 | sed 's/.*/{"type":"crowd.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
for n in 1 2 3; do
    "$HOLDFAST" work crowd \
        --exec 'sleep 0.02; echo "$HOLDFAST_POSITION" >>done_list' >/dev/null 2>&1 &
    pids[n]=$!
done
until_true 60 test -s done_list
kill -9 "${pids[1]}"
exits 0 "workers of a shared subscription finish after one was killed" \
    work crowd --exec 'echo "$HOLDFAST_POSITION" >>done_list' \
    --until-empty --max-time 60s
kill -TERM "${pids[2]}" "${pids[3]}"
wait 2>/dev/null
is "every event is handled although a worker was killed" "$(sort -un done_list | wc -l)" 60
hf sub show crowd --json
is "a killed worker leaves no dead letter" "$(field out 1 '$.dead')" 0

# --- Output that is not read ---
hf sub create pipe --on 'pipe.*' --from now --mode shared --concurrency 2
seq 1 20 | sed 's/.*/{"type":"pipe.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
# The second command writes when the reader has left, and not before.
export HOLDFAST
# shellcheck disable=SC2016  # the variables of that shell
timeout 300 bash -c \
    '"$HOLDFAST" work pipe --exec "mkdir first 2>/dev/null || until [ -e left ]; do sleep 0.05; done
    echo line" 2>err | { head -1 >out; exec <&-; : >left; }; echo "${PIPESTATUS[0]}" >status'
is "work ends with 1 when its output is not read any more" "$(cat status)" 1

# --- A database that is replaced ---
if on sqlite; then
    HOLDFAST_URL=sqlite:replaced.db "$HOLDFAST" publish rep.a 2>/dev/null
    HOLDFAST_URL=sqlite:replaced.db "$HOLDFAST" work rep --on 'rep.*' --from start \
        --exec true >out 2>err &
    pid=$!
    until_true 60 grep -q 'Working for rep' err
    cp replaced.db copy.db
    mv copy.db replaced.db # as a restore does; the worker is idle and commits nothing
    wait $pid
    is "work exits with unavailable when its database is replaced" "$?" 69
    has "work says that the database was replaced while in use" \
        err 'replaced.db, its -wal or -shm was replaced or deleted while in use'
    is "work says once that nothing is stored any more" \
        "$(grep -c 'nothing that this process does is stored' err)" 1
fi

finish
