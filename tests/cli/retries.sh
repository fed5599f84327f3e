#!/usr/bin/env bash
# `retry list`: what waits for its next attempt and why, what is held behind it, pages; and what
# `sub show` says of events whose handlers run.
. "$(dirname "$0")/lib.sh"

hf sub create mailer --on 'mail.*' --from start --retry-base 1h --retry-max 1h
hf sub create jobs --on 'job.*' --from start --mode shared --retry-base 1h --retry-max 1h
exits 0 "retry list succeeds if nothing has failed" retry list mailer
is "retry list prints no row if nothing has failed" "$(cat out)" ''
has "retry list says on stderr that nothing waits" err \
    '^No event of mailer waits for another attempt\.$'
exits 3 "retry list of an unknown subscription exits with not found" retry list nobody
exits 2 "retry list needs a subscription" retry list

# Keys: ann fails at 1, which holds 2 and 4; bob fails at 3.
for key in ann ann bob ann; do
    hf publish mail.sent '{}' --key "$key"
done
timeout 60 "$HOLDFAST" work mailer --exec 'echo "no route to host" >&2; exit 75' >/dev/null 2>&1 &
worker=$!
failed() { hf retry list mailer --json && [ "$(wc -l <out)" = 2 ]; }
until_true 60 failed
kill "$worker"
wait "$worker" 2>/dev/null
exits 0 "retry list succeeds with retries" retry list mailer
has "retry list prints titles" out \
    '^NEXT ATTEMPT +POSITION +TYPE +KEY +FAILED +LAST +HELD +ERROR$'
has "retry list shows when, where, what failed, how many are held and the last error" out \
    '^in [56][0-9]m.* 1 +mail\.sent +ann +1 +.* 2 +exit status 75: no route to host$'
exits 0 "retry list --json succeeds" retry list mailer --json
json "retry list --json prints JSON objects" out
is "retry list --json prints the documented fields" \
    "$(sed -n 1p out | grep -o '"[a-z_]*":' | tr -d '":' | paste -sd' ')" "position event_id type \
tenant key partition state attempts cause error failed_at next_attempt_at behind held held_more \
cursor"
is "retry list lists as many as sub show counts" "$(wc -l <out)" \
    "$(hf sub show mailer --json && field out 1 '$.retrying')"
hf retry list mailer --json
is "retry list says the state and the cause of a retry" \
    "$(field out 1 '$.state') $(field out 1 '$.cause') $(field out 1 '$.error')" \
    "retrying handler exit status 75: no route to host"
exits 0 "retry list -n takes a limit" retry list mailer -n 1 --json
first=$(field out 1 '$.position')
cursor=$(field out 1 '$.cursor')
is "retry list -n 1 prints one" "$(wc -l <out)" 1
has "retry list -n says how to go on" err "^There may be more: --after $cursor\$"
exits 0 "retry list --after takes the cursor of the page before" \
    retry list mailer -n 1 --after "$cursor" --json
is "retry list --after lists the next one" "$((first + $(field out 1 '$.position')))" 4
cursor=$(field out 1 '$.cursor')
exits 0 "retry list --after succeeds behind the last one" retry list mailer --after "$cursor"
has "retry list --after says that there are no more" err '^No more\.$'
exits 2 "retry list refuses a cursor that is none" retry list mailer --after 17
has "the refusal of a cursor names it" err 'not the cursor of a retry: "17"'

# --- Behind one ---
exits 0 "retry list --behind succeeds" retry list mailer --behind 1
has "retry list --behind shows what is held behind an event" out '^behind 1 +2 +mail\.sent +ann +0 '
hf retry list mailer --behind 1 --json
is "retry list --behind lists the events of the key by position" \
    "$(field out 1 '$.position') $(field out 2 '$.position') $(wc -l <out)" "2 4 2"
is "retry list --behind says of a held event that it is held, behind what, and no time" \
    "$(field out 1 '$.state') $(field out 1 '$.behind') $(field out 1 '$.next_attempt_at')" \
    "held 1 "
exits 0 "retry list --behind succeeds if nothing is held" retry list mailer --behind 3
has "retry list --behind says that nothing is held" err '^Nothing is held behind it\.$'

# --- Shared ---
hf publish job.resize '{}'
hf publish job.resize '{}'
hf claim jobs --max 2 --json
lease=$(field out 1 '$.lease')
hf nack jobs "$lease" --error 'image is broken' --delay 10m
exits 0 "retry list succeeds for a shared subscription" retry list jobs --json
is "retry list lists what was nacked of a shared subscription" \
    "$(wc -l <out) $(field out 1 '$.error') $(field out 1 '$.held')" "2 image is broken 0"
exits 0 "retry list --behind succeeds for a shared subscription" retry list jobs --behind 5

# --- What runs ---
hf sub create slow --on 'mail.*' --from start
"$HOLDFAST" work slow --exec 'until [ -e go ]; do sleep 0.1; done' --concurrency 2 \
    >/dev/null 2>&1 &
worker=$!
running() { hf sub show slow --json && [ "$(field out 1 '$.in_flight')" = 2 ]; }
until_true 60 running
is "sub show --json lists the events that run with their keys" \
    "$(field out 1 '$.running[0].key') $(field out 1 '$.running[1].key')" "ann bob"
is "sub show --json names the process that has an event" "$(field out 1 '$.running[0].pid')" \
    "$worker"
is "sub show --json says that all events that run are listed" "$(field out 1 '$.running_more')" 0
exits 0 "sub show succeeds with events that run" sub show slow
has "sub show has a table of the events that run" out \
    '^IN FLIGHT +TYPE +KEY +PARTITION +NODE +PID +HOST +SINCE$'
has "sub show shows which event runs, and in which process" out \
    "^ +1 +mail\.sent +ann +0 +.* $worker +"
exits 0 "sub show --limit succeeds with events that run" sub show slow --limit 1
has "sub show --limit says how many events more run" out '… and 1 more events in flight'
touch go
wait_for_none() { hf sub show slow --json && [ "$(field out 1 '$.in_flight')" = 0 ]; }
until_true 60 wait_for_none
is "sub show --json lists no event when none runs" "$(field out 1 '$.running')" '[]'
kill "$worker"
wait "$worker" 2>/dev/null
finish
