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

# --- A pause beside dead letters ---
hf sub pause gone
hf publish gone.x
hf sub create dies --on 'dies.*' --from now
hf publish dies.x
cat >both.yaml <<END
database: {url: "$HOLDFAST_URL"}
subscriptions:
  - {name: gone, on: gone.*, from: now, handler: {exec: "true"}}
  - {name: dies, on: dies.*, from: now, handler: {exec: "exit 65"}}
END
hf work --config both.yaml --until-empty
is "work --until-empty exits with 7 if an event died, also if another subscription is paused" \
    "$rc" 7
has "work --until-empty counts dead letters beside a paused subscription" err \
    '1 event became a dead letter: see `holdfast dlq list`'
is "work --until-empty says once that a subscription is paused" \
    "$(grep -c 'gone  .*paused' err)" 1
hasnt "a pause without a reason is logged without a colon" err 'paused by [^ ]*: *$'
hf sub rm dies --yes
hf sub create halts --on 'halts.*' --from now --on-poison halt
hf publish halts.x
hf publish halts.x
exits 7 "work --until-empty exits with 7 if a dead letter halts its subscription" \
    work halts --exec 'exit 65' --until-empty
has "work --until-empty counts the dead letter that halts its subscription" err \
    '1 event became a dead letter'
has "work --until-empty says that the dead letter has paused its subscription" err \
    'halts  is paused by .*, and not everything is settled'
hf sub create late --on 'late.*' --from now --concurrency 1
hf publish late.dies
hf publish late.stays
hf work late --until-empty --max-time 2s \
    --exec '[ "$HOLDFAST_TYPE" = late.stays ] && sleep 600 || exit 65' --drain 1s
is "work --until-empty exits with 7 if an event died and the time is over" "$rc" 7
has "work --until-empty counts dead letters when the time is over" err \
    '1 event became a dead letter'
has "work --until-empty says that the time is over beside dead letters" err \
    'not everything was settled in time'
timeout 2 "$HOLDFAST" work gone --exec true >out 2>err
has "work says that its subscription is paused" err 'gone  paused by [^ ]*$'

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
wrong_first_line() {
    for _ in $(seq 40); do
        "$HOLDFAST" work free2 --exec true --until-empty 2>&1 >/dev/null | head -1 |
            grep -v 'Working for free2' && return
    done
    return 1
}
is "no other line of work comes before the one that names the database" "$(wrong_first_line)" ''
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
