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
is "work exits with 1 when its output is not read any more" "$(cat status)" 1
is "setup: the reader of the output has read a line" "$(cat out)" line
has "work says that no program reads its output any more" err 'no program reads the output any more'
has "a command that the closed output ended is no failed attempt" err ' 0 done, 0 failed attempts'
hf dlq list --subscription pipe --json
is "an event whose command the closed output ended is no dead letter" "$(cat out)" ''
hf work pipe --exec 'echo "$HOLDFAST_PAYLOAD $HOLDFAST_ATTEMPT"' --until-empty
is "events of a worker whose output was closed come again as the first attempt" \
    "$(sort -n out | tr '\n' ' ')" \
    "$(seq 1 20 | sed 's/$/ 1/' | tr '\n' ' ')"
hf publish pipe.x
hf publish pipe.x
# shellcheck disable=SC2016
timeout 300 bash -c '"$HOLDFAST" work pipe --exec "cat >/dev/null; echo done >>quiet" 2>err | :
    echo "${PIPESTATUS[0]}" >status'
is "work exits with 1 if its output is closed and its commands write nothing" "$(cat status)" 1
hf work pipe --exec true --until-empty

# --- timeout(1) sends SIGTERM twice ---
hf publish pipe.x
timeout 2 "$HOLDFAST" work pipe --exec 'sleep 4; echo finished' >out 2>err
is "SIGTERM of timeout(1) lets the command finish" "$(cat out)" finished
has "a command that finished after SIGTERM is no failed attempt" err ' 1 done, 0 failed attempts'

# --- Removed, paused ---
hf sub create gone --on 'gone.*' --from now
timeout 100 "$HOLDFAST" work gone --exec true >out 2>err &
pid=$!
until_true 60 grep -q 'Working for' err
hf sub rm gone --yes
wait $pid
is "work exits with 3 if its subscription is removed" "$?" 3
has "work says that its subscription was removed" err 'gone  the subscription was removed'
hf sub create gone --on 'gone.*' --from now
hf publish gone.x
hf sub pause gone --reason 'for a while'
timeout 100 "$HOLDFAST" work gone --exec true --until-empty >out 2>err &
pid=$!
wait $pid
is "work --until-empty exits with 5 if the subscription is paused" "$?" 5
has "work --until-empty says who paused the subscription and why" err \
    'gone  is paused by .*: for a while, and not everything is settled'
hf sub resume gone
exits 0 "work --until-empty exits with 0 after sub resume" work gone --exec true --until-empty
hf sub pause gone
exits 0 "work --until-empty exits with 0 if a paused subscription has no events" \
    work gone --exec true --until-empty

# --- Time limits ---
hf sub create free --on 'free.*' --from now
hf sub show free --json
is "sub create gives handlers the longest time limit by default" \
    "$(field out 1 '$.options.handler_timeout_ms')" 31622400000
hf sub create free --on 'free.*' --timeout 5s
hf sub create free --on 'free.*' --retries 2
hf sub show free --json
is "sub create keeps a --timeout that was given before" \
    "$(field out 1 '$.options.handler_timeout_ms')" 5000
hf work free2 --on 'free.*' --from now --exec true --until-empty
hf sub show free2 --json
is "work gives a new subscription the longest time limit by default" \
    "$(field out 1 '$.options.handler_timeout_ms')" 31622400000

# --- What it writes ---
hf publish free.x
hf work free2 --exec 'echo trouble >&2; exit 1' --retries 0 --until-empty
is "every line that work logs begins with a date" \
    "$(grep -vcE '^(20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:]{8}Z  .*|trouble)$' err)" 0
true_that "work names the database in its first line" grep \
    -qF "Working for free2 on $HOLDFAST_URL. Ctrl-C" <(head -1 err)
hf publish free.x --namespace elsewhere
hf work n --on 'free.*' --from start --exec true --until-empty --namespace elsewhere
has "work names the namespace in its first line" err 'Working for n on .*, namespace elsewhere\.'
hf publish free.x
hf work free2 --exec 'echo trouble >&2; printf "\377half" >&2; exit 1' --until-empty --json
json "work --json prints stderr of commands as JSON objects" err
has "work --json says of which subscription and event a line of stderr is" err \
    '"message":"trouble","subscription":"free2","event_id":"[0-9a-f-]{36}","stream":"stderr"'
is "work --json leaves stdout to the commands" "$(cat out)" ''
exits 2 "work --json refuses a mistyped option" work free2 --exec true --until-emty --json
json "work --json prints a usage error as a JSON object" err
if on postgres; then
    secret="${HOLDFAST_URL}&password=hunter2"
    hf work free2 --exec true --until-empty --db "$secret"
    hasnt "work does not print the password of its URL" err hunter2
fi

finish
