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
is "a command past its time ends the wait, with a dead letter" "$rc" 7
true_that "after about that time" test $spent -ge 3000000 -a $spent -lt 240000000
true_that "it is really gone" gone leader
true_that "and so is what it started" gone member
hf dlq list --json --limit 1
is "the error says so, with its last words" \
    "$(field out 1 '$.error' |
        sed 's/SIGKILL/SIGTERM/')" 'timed out after 6s (--timeout): ended by SIGTERM: I wait'
slowly 'trap "" TERM; echo $$ >leader; : >ready; while :; do sleep 0.1; done'
true_that "one that ignores SIGTERM is killed" gone leader
hf dlq list --json --limit 1
has "and the error says how" out '"error":"timed out after 6s \(--timeout\): ended by SIGKILL'
slowly 'trap "exit 0" TERM; : >ready; sleep 300 & wait'
hf dlq list --json --limit 1
has "exit 0 after the time limit is no success" out \
    '"error":"timed out after 6s \(--timeout\): ended by SIG(TERM|KILL)'
hf publish slow.d
hf publish slow.e
hf work slow --exec 'exec sleep 300' --concurrency 2 --until-empty
hf dlq list --group-by error --type 'slow.*' --json
has "commands that run out of time are one error" out \
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
true_that "it says so, and waits for what runs" until_true 60 rests $pid # it says so just before
touch finish
wait $pid
is "after SIGTERM work ends well" "$?" 0
has "the running command finishes" out '^sig.a ends$'
hasnt "no other begins" out '^sig.b begins$'
hf work signals --exec 'echo "$HOLDFAST_TYPE"' --until-empty
is "what was finished does not come again, the rest does" "$(cat out)" sig.b
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
is "before the bus gives up waiting" "$code" 0
hasnt "which it does not say" err 'had not returned'
until_true 60 gone leader
is "after the drain a command that does not finish is killed" "$?" 0
hf work signals --exec 'echo "$HOLDFAST_TYPE $HOLDFAST_ATTEMPT"' --until-empty --retry-base 10ms \
    --max-time 60s
is "its attempt did not count" "$(cat out)" "sig.c 1"
rm -f begun
hf publish sig.d
"$HOLDFAST" work signals \
    --exec 'echo $$ >leader; sleep 61 & echo $! >member; : >begun; wait' >out 2>err &
pid=$!
until_true 60 test -e begun
kill -TERM $pid
until_true 60 grep -q Stopping err
kill -TERM $pid
true_that "SIGTERM twice within a second is one" kill -0 $pid
sleep 1.1
kill -TERM $pid
wait $pid
is "a later one ends at once" "$?" 143
until_true 60 gone leader
is "and kills the command" "$?" 0
until_true 60 gone member
is "with what it started" "$?" 0

# --- kill -9 of a worker ---
rm -f begun
"$HOLDFAST" work signals \
    --exec 'echo $$ >leader; sleep 62 & echo $! >member; : >begun; wait' >out 2>err &
pid=$!
until_true 60 test -e begun
is "the event is taken by another worker" "$?" 0
true_that "whose command runs" alive member
kill -9 $pid
wait $pid 2>/dev/null
until_true 60 gone leader
is "when a worker is killed its command dies" "$?" 0
until_true 60 gone member
is "and what that started, too" "$?" 0
exits 0 "another worker goes on at once" work signals --exec 'echo "$HOLDFAST_TYPE"' \
    --until-empty --max-time 60s --retry-base 10ms
has "with the event that was in work" out '^sig.d$'

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
exits 0 "the others finish" work crowd --exec 'echo "$HOLDFAST_POSITION" >>done_list' \
    --until-empty --max-time 60s
kill -TERM "${pids[2]}" "${pids[3]}"
wait 2>/dev/null
is "every event was handled" "$(sort -un done_list | wc -l)" 60
hf sub show crowd --json
is "and nothing died" "$(field out 1 '$.dead')" 0

# --- Output that is not read ---
hf sub create pipe --on 'pipe.*' --from now --mode shared --concurrency 2
seq 1 20 | sed 's/.*/{"type":"pipe.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
# The second command writes when the reader has left, and not before.
export HOLDFAST
# shellcheck disable=SC2016  # the variables of that shell
timeout 300 bash -c \
    '"$HOLDFAST" work pipe --exec "mkdir first 2>/dev/null || until [ -e left ]; do sleep 0.05; done
    echo line" 2>err | { head -1 >out; exec <&-; : >left; }; echo "${PIPESTATUS[0]}" >status'
is "a worker whose reader has left ends with an error" "$(cat status)" 1

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
    is "a worker whose database was replaced ends for its supervisor" "$?" 69
    has "it says why" err 'replaced.db, its -wal or -shm was replaced or deleted while in use'
    is "once" "$(grep -c 'nothing that this process does is stored' err)" 1
fi

finish
