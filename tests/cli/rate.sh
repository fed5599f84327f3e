#!/usr/bin/env bash
# The rate of a subscription on the command line: sub create --rate, work, claim, and the file.
. "$(dirname "$0")/lib.sh"

# --- The option ---
exits 0 "a rate by the second" sub create jobs --on 'job.*' --from start --mode shared --rate 2/s
hf sub show jobs --json
is "is stored as two numbers" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "2 1000"
exits 0 "by the minute" sub create slow --on x --from now --rate 30/m
hf sub show slow --json
is "it is so" "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" \
    "30 60000"
exits 0 "by the hour" sub create slower --on x --from now --rate 10/h
hf sub show slower --json
is "too" "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "10 3600000"
exits 0 "in two options" sub create odd --on x --from now --rate-events 7 --rate-time 5s
hf sub show odd
has "shown for people" out '^ *--rate-events +7$'
exits 2 "not in both ways" sub create odd --on x --from now --rate 7/s --rate-time 5s
has "which it says" err '--rate is --rate-events and --rate-time in one'
exits 2 "nor what is no rate" sub create odd --on x --from now --rate fast
exits 2 "nor a rate without limits" sub create odd --on x --from now --rate 2000000/s
exits 0 "none is 0" sub create odd --on x --from now --rate-events 0

# --- Claims ---
for n in 1 2 3 4 5 6 7 8; do hf publish job.new "$n"; done
begin=${EPOCHREALTIME/./}
for n in 1 2 3 4; do
    exits 0 "claim $n gets what the rate allows" claim jobs --max 1 --wait 60s --json
    hf ack jobs "$(field out 1 '$.lease')"
done
true_that "which takes its time" test $((${EPOCHREALTIME/./} - begin)) -ge 900000

# --- work ---
begin=${EPOCHREALTIME/./}
exits 0 "work keeps to it" work jobs --exec 'cat >/dev/null' --concurrency 4 --until-empty
true_that "too" test $((${EPOCHREALTIME/./} - begin)) -ge 900000
hf sub show jobs --json
is "and does everything" "$(field out 1 '$.lag')" 0

# --- The file ---
cat >rate.yaml <<END
subscriptions:
  - name: jobs
    on: job.*
    from: start
    mode: shared
    rate: {events: 50, time: 2s}
    handler: {exec: cat >/dev/null}
END
exits 0 "a file says it with two keys" config check rate.yaml
exits 0 "which work applies" work --config rate.yaml --until-empty
hf sub show jobs --json
is "to the subscription" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "50 2000"

finish
