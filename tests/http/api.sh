#!/usr/bin/env bash
# The HTTP API, noun by noun.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
exits 0 "positions without gaps" namespace create default --gapless
serve

# --- Publishing ---
answers 201 "an event is published" POST /v1/events \
    '{"type":"order.placed","payload":{"n": 1.10},"key":"k1"}'
is "its position and id are answered" \
    "$(field out 1 '$.position') $(field out 1 '$.duplicate')" "1 0"
id=$(field out 1 '$.id')
answers 200 "the same id again" POST /v1/events "{\"type\":\"order.placed\",\"id\":\"$id\"}"
is "answers the first position" "$(field out 1 '$.position') $(field out 1 '$.duplicate')" "1 1"
answers 201 "an array is published as one" POST /v1/events \
    '[{"type":"a"},{"type":"b","payload":[1]}]'
is "with a receipt each" "$(field out 1 '$[1].position')" 3
answers 400 "a wrong event in an array is refused" POST /v1/events '[{"type":"a"},{"typ":"b"}]'
has "and named" out 'event 1: there is no field ."typ.";'
answers 400 "what is no JSON is refused" POST /v1/events '{"type":'
has "as a problem" out \
    '^\{"title":"Bad Request","status":400,"detail":"the body is not valid JSON at byte 8'
answers 400 "a type that is too long is refused" POST /v1/events \
    "{\"type\":\"$(printf %300s | tr ' ' a)\"}"
has "with the limit and the library's status" out '255.*"code":"HF_INVALID"'
answers 202 "one for later waits" POST /v1/events \
    '{"type":"late","deliver_at":"2099-01-01T00:00:00Z","payload":{"x":1}}'
late=$(field out 1 '$.id')
is "without a position, with its time" "$(field out 1 '$.position') $(field out 1 '$.deliver_at')" \
    " 2099-01-01T00:00:00.000000Z"
answers 200 "refused ones have not been stored" GET /v1/events
is "three are" "$(field out 1 '$.items[#-1].position') $(field out 1 '$.next')" "3 "

# --- Traces ---
trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
traced() {
    curl -s -o out --unix-socket http -H "traceparent: $1" -H 'tracestate: a=1' \
        http://localhost/v1/namespaces/traces/events --data-binary "$2"
    ask GET "/v1/namespaces/traces/events/$(field out 1 '$.id')"
}
exits 0 "a namespace for traces" namespace create traces
traced "$trace" '{"type":"t","metadata":{"n":1}}'
is "the trace of a request goes into the metadata" "$(field out 1 '$.metadata')" \
    "{\"n\":1,\"traceparent\":\"$trace\",\"tracestate\":\"a=1\"}"
traced nonsense '{"type":"t","metadata":{"n":1}}'
is "what is no trace does not" "$(field out 1 '$.metadata')" '{"n":1}'
traced "$trace" '{"type":"t","metadata":{"traceparent":"own"}}'
is "nor does it replace one" "$(field out 1 '$.metadata')" '{"traceparent":"own"}'

# --- Looking at events ---
answers 200 "a page of events" GET '/v1/events?limit=2'
is "says where the next one begins" "$(field out 1 '$.next')" 2
answers 200 "the next page" GET '/v1/events?limit=2&after=2'
is "has the rest" "$(field out 1 '$.items[0].type') $(field out 1 '$.next')" "b "
answers 200 "by type" GET '/v1/events?type=order.*'
is "only those" "$(field out 1 '$.items[#-1].position')" 1
answers 400 "a limit that is too large" GET '/v1/events?limit=1001'
has "is named" out 'the parameter limit takes a number from 1 to 1000'
answers 200 "an event by id" GET "/v1/events/$id"
has "with its payload byte for byte" out '"payload":\{"n": 1.10\}'
answers 200 "by position" GET /v1/events/1
is "the same" "$(field out 1 '$.id')" "$id"
answers 200 "its payload alone" GET "/v1/events/$id/payload"
is "byte for byte" "$(cat out)" '{"n": 1.10}'
answers 404 "a position that is not there" GET /v1/events/99
answers 404 "an id that is not there" GET /v1/events/0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
answers 400 "what is no id" GET /v1/events/x

# --- Subscriptions ---
answers 201 "a subscription is made" PUT /v1/subscriptions/jobs \
    '{"patterns":["*"],"from":"start","mode":"shared","attempts_max":1}'
is "as it is then" "$(field out 1 '$.options.mode') $(field out 1 '$.pending')" "shared 3"
answers 200 "again, changed" PUT /v1/subscriptions/jobs '{"patterns":["*"],"batch":7}'
is "with the new option" \
    "$(field out 1 '$.options.batch') $(field out 1 '$.options.attempts_max')" "7 1"
answers 400 "an option that is not there" PUT /v1/subscriptions/x \
    '{"patterns":["*"],"atempts_max":1}'
has "gets a suggestion" out 'there is no ."atempts_max."; did you mean ."attempts_max."\?'
answers 400 "an option outside its limits" PUT /v1/subscriptions/x \
    '{"patterns":["*"],"from":"start","batch":0}'
answers 400 "patterns are needed" PUT /v1/subscriptions/x '{"from":"start"}'
answers 409 "another mode" PUT /v1/subscriptions/jobs '{"patterns":["*"],"mode":"ordered"}'
answers 201 "a name with a slash and a blank" PUT /v1/subscriptions/a%2Fb%20c \
    '{"patterns":["*"],"from":"now"}'
answers 200 "is found by it" GET /v1/subscriptions/a%2Fb%20c
is "whole" "$(field out 1 '$.name')" "a/b c"
answers 200 "the list" GET /v1/subscriptions
is "has both" "$(field out 1 '$.items[#-1].name')" jobs
answers 204 "pause" POST /v1/subscriptions/jobs/pause '{"reason":"lunch"}'
answers 200 "is shown" GET /v1/subscriptions/jobs
is "with its reason" "$(field out 1 '$.paused_reason')" lunch
answers 204 "resume" POST /v1/subscriptions/jobs/resume
answers 200 "a dry run of a seek" POST /v1/subscriptions/jobs/seek '{"to":2,"dry_run":true}'
is "counts" "$(field out 1 '$.positions')" 1
answers 400 "a seek to nowhere" POST /v1/subscriptions/jobs/seek '{}'
answers 204 "remove" DELETE /v1/subscriptions/a%2Fb%20c
answers 404 "then it is gone" GET /v1/subscriptions/a%2Fb%20c

# --- Claims ---
answers 200 "a claim" POST /v1/subscriptions/jobs/claim '{"max":2}'
lease=$(field out 1 '$.lease')
is "hands out events with their attempt" \
    "$(field out 1 '$.events[0].attempt') $(field out 1 '$.events[1].position')" "1 2"
answers 200 "leases" GET /v1/leases
is "show it" "$(field out 1 '$.items[0].lease')" "$lease"
answers 204 "touch" POST /v1/subscriptions/jobs/touch "{\"lease\":\"$lease\",\"lease_ms\":60000}"
answers 204 "ack of one" POST /v1/subscriptions/jobs/ack "{\"lease\":\"$lease\",\"positions\":[1]}"
answers 409 "ack of it again" POST /v1/subscriptions/jobs/ack \
    "{\"lease\":\"$lease\",\"positions\":[1]}"
has "is stale" out '"code":"HF_STALE"'
answers 204 "nack of the rest" POST /v1/subscriptions/jobs/nack \
    "{\"lease\":\"$lease\",\"error\":\"no <b>luck</b>\"}"
answers 200 "another claim" POST /v1/subscriptions/jobs/claim '{}'
lease=$(field out 1 '$.lease')
answers 204 "release" POST /v1/subscriptions/jobs/release "{\"lease\":\"$lease\"}"
answers 200 "and again" POST /v1/subscriptions/jobs/claim '{}'
lease=$(field out 1 '$.lease')
answers 200 "revoke" DELETE "/v1/leases/jobs/$lease"
is "says how many" "$(field out 1 '$.events')" 1
answers 200 "and again" POST /v1/subscriptions/jobs/claim '{}'
answers 204 "bury" POST /v1/subscriptions/jobs/bury \
    "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"bad\"}"
answers 200 "with nothing there" POST /v1/subscriptions/jobs/claim '{}'
is "a claim is empty" "$(field out 1 '$.lease') $(field out 1 '$.events')" " []"
(sleep 1; curl -s --unix-socket http http://localhost/v1/events -d '{"type":"news"}' >published) &
answers 200 "a claim that waits" POST /v1/subscriptions/jobs/claim '{"wait_ms":30000}'
is "gets what is published meanwhile" "$(field out 1 '$.events[0].type')" news


answers 201 "an event to be cancelled" POST /v1/events '{"type":"unwanted"}'
unwanted=$(field out 1 '$.id')
answers 400 "cancelled for whom?" POST "/v1/events/$unwanted/cancel" '{}'
answers 204 "cancel" POST "/v1/events/$unwanted/cancel" '{"subscription":"jobs","reason":"no"}'
answers 200 "is shown" GET "/v1/events/$unwanted"
is "with who and why" "$(for f in state cancelled_by cancel_reason; do
    field out 1 "\$.states[0].$f"
done | paste -sd' ')" "cancelled local no"

# --- Dead letters ---
answers 200 "dead letters" GET /v1/dead-letters
is "newest first, with error" "$(field out 1 '$.items[1].error')" 'no <b>luck</b>'
newest=$(field out 1 '$.items[0].dead_id') oldest=$(field out 1 '$.items[1].dead_id')
answers 200 "by error" GET '/v1/dead-letters?error=luck'
is "only that" "$(field out 1 '$.items[#-1].dead_id')" "$oldest"
answers 200 "one" GET "/v1/dead-letters/$oldest"
is "with its attempts" "$(field out 1 '$.attempts_json[0].error')" 'no <b>luck</b>'
answers 404 "one that is not there" GET /v1/dead-letters/999999
answers 400 "one that is no number" GET /v1/dead-letters/x
answers 204 "resolve" POST "/v1/dead-letters/$newest/resolve" '{"note":"seen"}'
answers 409 "twice" POST "/v1/dead-letters/$newest/resolve" '{}'
answers 200 "with resolved ones" GET '/v1/dead-letters?resolved=true'
is "it says by whom" \
    "$(field out 1 '$.items[0].resolved_by') $(field out 1 '$.items[0].resolved_note')" "local seen"
answers 400 "retry of which ones?" POST /v1/dead-letters/retry '{}'
answers 200 "a dry run" POST /v1/dead-letters/retry '{"all":true,"dry_run":true}'
is "counts" "$(field out 1 '$.dead_letters')" 1
answers 204 "retry with another payload" POST "/v1/dead-letters/$oldest/retry" \
    '{"payload":{"fixed":true}}'
answers 200 "it comes again" POST /v1/subscriptions/jobs/claim '{}'
has "with that payload" out '"payload":\{"fixed":true\}'
answers 200 "purge" POST /v1/dead-letters/purge '{"all":true,"resolved":true}'
is "deletes" "$(field out 1 '$.dead_letters')" 1

# --- Later and schedules ---
answers 200 "events for later" GET /v1/later
is "are listed" "$(field out 1 '$.items[0].id') $(field out 1 '$.next')" "$late "
answers 200 "one" GET "/v1/later/$late"
has "with its payload" out '"payload":\{"x":1\}'
answers 204 "it is moved" POST "/v1/later/$late/move" '{"deliver_at":"2098-01-01T00:00:00Z"}'
answers 204 "and cancelled" DELETE "/v1/later/$late"
answers 404 "then it is gone" GET "/v1/later/$late"
answers 200 "tick" POST /v1/tick
answers 201 "a schedule" PUT /v1/schedules/night \
    '{"expression":"0 3 * * *","type":"night","payload":{"a":1}}'
answers 400 "a wrong expression" PUT /v1/schedules/bad '{"expression":"61 * * * *","type":"x"}'
answers 204 "pause" POST /v1/schedules/night/pause '{"reason":"r"}'
answers 204 "resume" POST /v1/schedules/night/resume
answers 201 "run" POST /v1/schedules/night/run
answers 200 "show" GET /v1/schedules/night
is "has the run" "$(field out 1 '$.runs[0].kind')" by_hand
answers 200 "list" GET /v1/schedules
answers 204 "remove" DELETE /v1/schedules/night

# --- Namespaces, nodes, stats ---
answers 200 "stats" GET /v1/stats
is "have a row per subscription" "$(field out 1 '$.by_subscription[0].name')" jobs
answers 200 "nodes" GET /v1/nodes
answers 200 "namespaces" GET /v1/namespaces
is "name the own one" "$(field out 1 '$.items[0].name')" default
answers 200 "one" GET /v1/namespaces/default
answers 404 "another namespace is not made by looking" GET /v1/namespaces/other/stats
exits 0 "made by hand" namespace create other
answers 201 "it takes events" POST /v1/namespaces/other/events '{"type":"o"}'
is "at its own first position" "$(field out 1 '$.position')" 1
answers 200 "and not into the other" GET '/v1/events?type=o'
is "one" "$(field out 1 '$.items')" '[]'

# --- What is not there ---
answers 404 "a path that is not there" GET /v1/nothing
answers 404 "outside of the API" GET /etc/passwd
answers 404 "a path with dots" GET /v1/../v1/stats/..
answers 404 "what is no text" GET /v1/events/%ff
answers 404 "a NUL" GET /v1/events/%00
answers 405 "a method that it does not take" PATCH /v1/events
unserve
is "the server ends without an error" "$rc $(grep -c . serve.out)" "0 0"
hasnt "and complains of nothing" serve.err 'holdfast:'
finish
