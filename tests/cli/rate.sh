#!/usr/bin/env bash
# The rate of a subscription on the command line: sub create --rate, work, claim, and the file.
. "$(dirname "$0")/lib.sh"

# --- The option ---
exits 0 "sub create --rate takes events per second" \
    sub create jobs --on 'job.*' --from start --mode shared --rate 2/s
hf sub show jobs --json
is "a rate is stored as a number of events and a time" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "2 1000"
exits 0 "sub create --rate takes events per minute" sub create slow --on x --from now --rate 30/m
hf sub show slow --json
is "a rate per minute is stored with 60000 ms" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" \
    "30 60000"
exits 0 "sub create --rate takes events per hour" sub create slower --on x --from now --rate 10/h
hf sub show slower --json
is "a rate per hour is stored with 3600000 ms" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "10 3600000"
exits 0 "sub create takes --rate-events and --rate-time" \
    sub create odd --on x --from now --rate-events 7 --rate-time 5s
hf sub show odd
has "sub show prints the rate by its option" out '^ *--rate-events +7$'
exits 2 "sub create refuses --rate together with --rate-time" \
    sub create odd --on x --from now --rate 7/s --rate-time 5s
has "the refusal says that --rate is both options in one" \
    err '--rate is --rate-events and --rate-time in one'
exits 2 "sub create --rate refuses what is no rate" sub create odd --on x --from now --rate fast
exits 2 "sub create --rate refuses a rate above the limit" \
    sub create odd --on x --from now --rate 2000000/s
exits 0 "sub create --rate-events 0 switches the rate off" \
    sub create odd --on x --from now --rate-events 0

# --- Claims ---
for n in 1 2 3 4 5 6 7 8; do hf publish job.new "$n"; done
begin=${EPOCHREALTIME/./}
for n in 1 2 3 4; do
    exits 0 "claim $n of a subscription with a rate gets an event" \
        claim jobs --max 1 --wait 60s --json
    hf ack jobs "$(field out 1 '$.lease')"
done
true_that "four claims at 2/s take at least 0.9 s" test $((${EPOCHREALTIME/./} - begin)) -ge 900000

# --- A clock that was set back: the bucket was empty at a time that has not come ---
hf sub create back --on 'job.*' --from start --mode shared --rate 5/s
exits 0 "a claim makes the bucket of a rate" claim back --max 1 --wait 60s
if on sqlite; then
    patiently "${HOLDFAST_URL#sqlite:}" \
        "UPDATE holdfast_rates SET empty_at = empty_at + 86400000000
         WHERE subscription_id = (SELECT id FROM holdfast_subscriptions WHERE name = 'back')"
else
    psql -qX "$HOLDFAST_URL" \
        -c "UPDATE holdfast_private.rates SET empty_at = empty_at + interval '1 day'
            WHERE subscription_id = (SELECT id FROM holdfast_private.subscriptions
                                     WHERE name = 'back')"
fi
exits 0 "a clock that was set back by a day does not stop a rate" claim back --max 1 --wait 30s

# --- work ---
begin=${EPOCHREALTIME/./}
exits 0 "work succeeds with a rate" work jobs --exec 'cat >/dev/null' --concurrency 4 --until-empty
true_that "work at 2/s takes at least 0.9 s for four events" \
    test $((${EPOCHREALTIME/./} - begin)) -ge 900000
hf sub show jobs --json
is "work with a rate handles every event" "$(field out 1 '$.lag')" 0

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
exits 0 "config check takes a rate of events and time" config check rate.yaml
exits 0 "work takes a file with a rate" work --config rate.yaml --until-empty
hf sub show jobs --json
is "work stores the rate of the file" \
    "$(field out 1 '$.options.rate_events') $(field out 1 '$.options.rate_ms')" "50 2000"

# --- What is removed ---
if on sqlite; then
    rates() { patiently "${HOLDFAST_URL#sqlite:}" "SELECT count(*) FROM holdfast_rates"; }
else
    rates() { psql -qXAt "$HOLDFAST_URL" -c "SELECT count(*) FROM holdfast_private.rates"; }
fi
is "setup: three subscriptions have used their rates" "$(hf publish x; hf publish job.new; \
    hf claim back --max 1 --wait 30s; hf work slow --exec true --until-empty; rates)" 3
exits 0 "sub rm removes a subscription with a rate" sub rm jobs --yes
is "sub rm removes what is stored of the subscription's rate" "$(rates)" 2
exits 0 "setup: a subscription of another namespace has a rate" \
    sub create theirs --on '*' --from start --mode shared --rate 1/h --namespace shop
hf publish x --namespace shop
exits 0 "setup: the rate of the other namespace is used" claim theirs --namespace shop
is "setup: the other namespace has what is stored of a rate" "$(rates)" 3
exits 0 "namespace rm removes a namespace with a rate" namespace rm shop --yes
is "namespace rm removes what is stored of its rates, and no others" "$(rates)" 2
finish
