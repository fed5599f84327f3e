#!/usr/bin/env bash
# work: how it ends, and what scripts and logs read of that.
. "$(dirname "$0")/lib.sh"

# --- Its output is closed ---
hf sub create pipe --on 'pipe.*' --from now --retries 0
seq 1 20 | sed 's/.*/{"type":"pipe.x","payload":&}/' | "$HOLDFAST" publish --file - >/dev/null
# The command goes on writing until its reader has left; then what it writes ends it.
export HOLDFAST
# shellcheck disable=SC2016  # the variables of that shell
timeout 300 bash -c \
    '"$HOLDFAST" work pipe --exec "yes line" 2>err | head -1 >out; echo "${PIPESTATUS[0]}" >status'
is "a worker whose reader has left ends with 1" "$(cat status)" 1
is "the reader had what it wanted" "$(cat out)" line
has "the worker says why it stops" err 'no program reads the output any more'
has "what ran is not counted as failed" err ' 0 done, 0 failed attempts'
hf dlq list --subscription pipe --json
is "so it is no dead letter, without a second attempt" "$(cat out)" ''
hf work pipe --exec 'echo "$HOLDFAST_PAYLOAD $HOLDFAST_ATTEMPT"' --until-empty
is "everything comes again as the first attempt" "$(sort -n out | tr '\n' ' ')" \
    "$(seq 1 20 | sed 's/$/ 1/' | tr '\n' ' ')"
hf publish pipe.x
hf publish pipe.x
# shellcheck disable=SC2016
timeout 300 bash -c '"$HOLDFAST" work pipe --exec "cat >/dev/null; echo done >>quiet" 2>err | :
    echo "${PIPESTATUS[0]}" >status'
is "also if its commands write nothing" "$(cat status)" 1
hf work pipe --exec true --until-empty

# --- timeout(1) sends SIGTERM twice ---
hf publish pipe.x
timeout 2 "$HOLDFAST" work pipe --exec 'sleep 4; echo finished' >out 2>err
is "timeout stops a worker politely" "$(cat out)" finished
has "and nothing failed" err ' 1 done, 0 failed attempts'

# --- Removed, paused ---
hf sub create gone --on 'gone.*' --from now
timeout 100 "$HOLDFAST" work gone --exec true >out 2>err &
pid=$!
until_true 60 grep -q 'Working for' err
hf sub rm gone --yes
wait $pid
is "a worker whose subscription was removed ends with 3" "$?" 3
has "and says so" err 'gone  the subscription was removed'
hf sub create gone --on 'gone.*' --from now
hf publish gone.x
hf sub pause gone --reason 'for a while'
timeout 100 "$HOLDFAST" work gone --exec true --until-empty >out 2>err &
pid=$!
wait $pid
is "--until-empty ends with 5 if it is paused" "$?" 5
has "and says who paused it, and why" err \
    'gone  is paused by .*: for a while, and not everything is settled'
hf sub resume gone
exits 0 "without a pause it ends with 0" work gone --exec true --until-empty
hf sub pause gone
exits 0 "a paused one that has nothing to do is empty" work gone --exec true --until-empty

# --- Time limits ---
hf sub create free --on 'free.*' --from now
hf sub show free --json
is "a subscription for commands has no time limit but the longest" \
    "$(field out 1 '$.options.handler_timeout_ms')" 86400000
hf sub create free --on 'free.*' --timeout 5s
hf sub create free --on 'free.*' --retries 2
hf sub show free --json
is "one that was given stays" "$(field out 1 '$.options.handler_timeout_ms')" 5000
hf work free2 --on 'free.*' --from now --exec true --until-empty
hf sub show free2 --json
is "so is one that work makes" "$(field out 1 '$.options.handler_timeout_ms')" 86400000

# --- What it writes ---
hf publish free.x
hf work free2 --exec 'echo trouble >&2; exit 1' --retries 0 --until-empty
is "every line of the log has a date" \
    "$(grep -vcE '^(20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:]{8}Z  .*|trouble)$' err)" 0
true_that "the first line names the database" grep \
    -qF "Working for free2 on $HOLDFAST_URL. Ctrl-C" <(head -1 err)
hf publish free.x --namespace elsewhere
hf work n --on 'free.*' --from start --exec true --until-empty --namespace elsewhere
has "and the namespace" err 'Working for n on .*, namespace elsewhere\.'
hf publish free.x
hf work free2 --exec 'echo trouble >&2; printf "\377half" >&2; exit 1' --until-empty --json
json "with --json all of it is JSON, the words of commands, too" err
has "which say whose they are" err \
    '"message":"trouble","subscription":"free2","event_id":"[0-9a-f-]{36}","stream":"stderr"'
is "but stdout is the commands' own" "$(cat out)" ''
exits 2 "a mistake in the command line" work free2 --exec true --until-emty --json
json "is JSON as well" err
if on postgres; then
    secret="${HOLDFAST_URL}&password=hunter2"
    hf work free2 --exec true --until-empty --db "$secret"
    hasnt "no password is shown" err hunter2
fi

finish
