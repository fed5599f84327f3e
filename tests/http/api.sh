#!/usr/bin/env bash
# The HTTP API, noun by noun.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
exits 0 "setup: the namespace default has positions without gaps" namespace create default --gapless
serve

# --- Publishing ---
answers 201 "POST events publishes an event" POST /v1/events \
    '{"type":"order.placed","payload":{"n": 1.10},"key":"k1"}'
is "POST events answers position and duplicate" \
    "$(field out 1 '$.position') $(field out 1 '$.duplicate')" "1 0"
id=$(field out 1 '$.id')
answers 200 "POST events takes the id of an event that is in the log" \
    POST /v1/events "{\"type\":\"order.placed\",\"id\":\"$id\"}"
is "POST events answers the first position of an id that is in the log" \
    "$(field out 1 '$.position') $(field out 1 '$.duplicate')" "1 1"
answers 201 "POST events publishes an array of events" POST /v1/events \
    '[{"type":"a"},{"type":"b","payload":[1]}]'
is "POST events answers a receipt for each event of an array" "$(field out 1 '$[1].position')" 3
answers 400 "POST events refuses an array with a wrong event" \
    POST /v1/events '[{"type":"a"},{"typ":"b"}]'
has "the refusal of an array names the number and the field of the event" \
    out 'event 1: there is no field ."typ.";'
answers 400 "POST events refuses a body that is no JSON" POST /v1/events '{"type":'
has "a refusal is a problem with title, status and the byte of the mistake" out \
    '^\{"title":"Bad Request","status":400,"detail":"the body is not valid JSON at byte 8'
answers 400 "POST events refuses a type of 300 bytes" POST /v1/events \
    "{\"type\":\"$(printf %300s | tr ' ' a)\"}"
has "the refusal of a long type has the limit and HF_INVALID" out '255.*"code":"HF_INVALID"'
answers 400 "GET events refuses a parameter that is there twice" GET '/v1/events?limit=1&limit=2'
has "the refusal names the parameter that is there twice" out 'the parameter limit is there twice'
answers 400 "POST dead-letters/retry refuses a member that is there twice" \
    POST /v1/dead-letters/retry '{"all":true,"dry_run":true,"dr\u0079_run":false}'
has "the refusal names the member that is there twice" out '.dry_run.. is there twice'
# A body that the server takes may have millions of members.
{ echo '{"all":true'; yes ',"abcdef":1' | head -n 2000000; echo '}'; } | tr -d '\n' >wrong
spent() { awk '{ print $14 + $15 }' "/proc/$server_pid/stat"; } # hundredths of seconds
before=$(spent)
answers 400 "a body with two million wrong names is refused" POST /v1/dead-letters/retry @wrong
spent=$(($(spent) - before))
true_that "two million wrong names cost less than 3 s of processor time ($spent / 100 s)" \
    test "$spent" -lt 300
answers 202 "POST events takes an event for later" POST /v1/events \
    '{"type":"late","deliver_at":"2099-01-01T00:00:00Z","payload":{"x":1}}'
late=$(field out 1 '$.id')
is "POST events answers no position and the time of an event for later" \
    "$(field out 1 '$.position') $(field out 1 '$.deliver_at')" \
    " 2099-01-01T00:00:00.000000Z"
answers 200 "GET events answers after refused events" GET /v1/events
is "refused events are not stored" \
    "$(field out 1 '$.items[#-1].position') $(field out 1 '$.next')" "3 "

# --- Traces ---
trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
traced() {
    curl -s -o out --unix-socket http -H "traceparent: $1" -H 'tracestate: a=1' \
        http://localhost/v1/namespaces/traces/events --data-binary "$2"
    ask GET "/v1/namespaces/traces/events/$(field out 1 '$.id')"
}
exits 0 "setup: namespace create makes a namespace for traces" namespace create traces
traced "$trace" '{"type":"t","metadata":{"n":1}}'
is "the traceparent of a request goes into the metadata of its event" \
    "$(field out 1 '$.metadata')" \
    "{\"n\":1,\"traceparent\":\"$trace\",\"tracestate\":\"a=1\"}"
traced nonsense '{"type":"t","metadata":{"n":1}}'
is "a traceparent that is none does not go into the metadata" \
    "$(field out 1 '$.metadata')" '{"n":1}'
traced "$trace" '{"type":"t","metadata":{"traceparent":"own"}}'
is "a traceparent of the request does not replace one in the metadata" \
    "$(field out 1 '$.metadata')" '{"traceparent":"own"}'
# shellcheck disable=SC2016
exits 0 "a command works for events with and without a trace" work tracer --namespace traces \
    --on t --from start --exec 'echo "$TRACEPARENT|$TRACESTATE" >>traced' --until-empty \
    --max-time 60s
is "a command gets the trace of the request that published its event" "$(cat traced)" \
    "$(printf '%s\n' "$trace|a=1" '|' '|')"

# --- Looking at events ---
answers 200 "GET events takes a limit" GET '/v1/events?limit=2'
is "GET events with a limit answers where the next page begins" "$(field out 1 '$.next')" 2
answers 200 "GET events takes after" GET '/v1/events?limit=2&after=2'
is "GET events with after answers the rest" \
    "$(field out 1 '$.items[0].type') $(field out 1 '$.next')" "b "
answers 200 "GET events takes a type" GET '/v1/events?type=order.*'
is "GET events with a type answers only events that match" \
    "$(field out 1 '$.items[#-1].position')" 1
answers 400 "GET events refuses a limit of 1001" GET '/v1/events?limit=1001'
has "the refusal of a limit names parameter and limits" \
    out 'the parameter limit takes a number from 1 to 1000'
answers 200 "GET events/ID answers an event" GET "/v1/events/$id"
has "GET events/ID answers the payload byte for byte" out '"payload":\{"n": 1.10\}'
answers 200 "GET events/POSITION answers an event" GET /v1/events/1
is "GET events/POSITION answers the event of that position" "$(field out 1 '$.id')" "$id"
answers 200 "GET events/ID takes which states" GET "/v1/events/$id?states=all"
answers 400 "GET events/ID refuses an unknown choice of states" GET "/v1/events/$id?states=some"
answers 200 "GET events/ID/payload answers a payload" GET "/v1/events/$id/payload"
is "GET events/ID/payload answers the payload byte for byte" "$(cat out)" '{"n": 1.10}'
answers 404 "GET events of an unknown position is 404" GET /v1/events/99
answers 404 "GET events of an unknown id is 404" GET /v1/events/0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
answers 400 "GET events of what is neither id nor position is 400" GET /v1/events/x

# --- Subscriptions ---
hf sub create deaf --on nothing.at.all --from start
hf sub create keen --on '**' --from start
answers 200 "GET events/ID leaves out states on request" GET "/v1/events/$id?states=for_it"
is "GET events/ID has the states of the subscriptions that the event is for" \
    "$(field out 1 '$.states[0].subscription') $(field out 1 '$.states[1].subscription')" "keen "
is "GET events/ID counts the states of the subscriptions that the event is for" \
    "$(field out 1 '$.state_counts.pending') $(field out 1 '$.state_counts.not_for_it')" "1 0"
answers 200 "GET events/ID takes a number of states" GET "/v1/events/$id?states=all&states_max=1"
is "GET events/ID with a number of states has the one that matters most, and counts all" \
    "$(field out 1 '$.states[0].subscription') $(field out 1 '$.states[1]') $(field out 1 \
    '$.state_counts.pending')" "keen  1"
answers 200 "GET events/ID leaves out all states on request" GET "/v1/events/$id?states=none"
has "GET events/ID without states has an empty list" out '"states":\[\]'
hf sub rm deaf --yes
hf sub rm keen --yes
answers 201 "PUT subscriptions makes a subscription" PUT /v1/subscriptions/jobs \
    '{"patterns":["*"],"from":"start","mode":"shared","attempts_max":1}'
is "PUT subscriptions answers the new subscription" \
    "$(field out 1 '$.options.mode') $(field out 1 '$.pending')" "shared 3"
answers 200 "PUT subscriptions changes a subscription" \
    PUT /v1/subscriptions/jobs '{"patterns":["*"],"batch":7}'
is "PUT subscriptions changes one option and keeps others" \
    "$(field out 1 '$.options.batch') $(field out 1 '$.options.attempts_max')" "7 1"
answers 400 "PUT subscriptions refuses an unknown option" PUT /v1/subscriptions/x \
    '{"patterns":["*"],"atempts_max":1}'
has "the refusal of an unknown option suggests the right one" \
    out 'there is no ."atempts_max."; did you mean ."attempts_max."\?'
answers 400 "PUT subscriptions refuses an option outside its limits" PUT /v1/subscriptions/x \
    '{"patterns":["*"],"from":"start","batch":0}'
answers 400 "PUT subscriptions needs patterns" PUT /v1/subscriptions/x '{"from":"start"}'
answers 409 "PUT subscriptions with another mode is a conflict" \
    PUT /v1/subscriptions/jobs '{"patterns":["*"],"mode":"ordered"}'
answers 201 "PUT subscriptions takes a name with a slash and a blank" \
    PUT /v1/subscriptions/a%2Fb%20c \
    '{"patterns":["*"],"from":"now"}'
answers 200 "GET subscriptions takes a name with a slash and a blank" \
    GET /v1/subscriptions/a%2Fb%20c
is "GET subscriptions answers the whole name with a slash and a blank" \
    "$(field out 1 '$.name')" "a/b c"
answers 200 "GET subscriptions answers a list" GET /v1/subscriptions
is "GET subscriptions lists every subscription" "$(field out 1 '$.items[#-1].name')" jobs
answers 204 "POST pause pauses a subscription" \
    POST /v1/subscriptions/jobs/pause '{"reason":"lunch"}'
answers 200 "GET subscriptions answers a paused subscription" GET /v1/subscriptions/jobs
is "a paused subscription has the reason of POST pause" "$(field out 1 '$.paused_reason')" lunch
answers 204 "POST resume resumes a subscription" POST /v1/subscriptions/jobs/resume
answers 200 "POST seek takes dry_run" POST /v1/subscriptions/jobs/seek '{"to":2,"dry_run":true}'
is "POST seek with dry_run answers how many positions would come" "$(field out 1 '$.positions')" 1
answers 400 "POST seek without a place is refused" POST /v1/subscriptions/jobs/seek '{}'
answers 204 "DELETE subscriptions removes a subscription" DELETE /v1/subscriptions/a%2Fb%20c
answers 404 "GET of a removed subscription is 404" GET /v1/subscriptions/a%2Fb%20c

# --- Claims ---
answers 200 "POST claim takes max" POST /v1/subscriptions/jobs/claim '{"max":2}'
lease=$(field out 1 '$.lease')
is "POST claim answers events with attempt and position" \
    "$(field out 1 '$.events[0].attempt') $(field out 1 '$.events[1].position')" "1 2"
answers 200 "GET leases answers a list" GET /v1/leases
is "GET leases lists the lease of a claim" "$(field out 1 '$.items[0].lease')" "$lease"
answers 204 "POST touch prolongs a lease" \
    POST /v1/subscriptions/jobs/touch "{\"lease\":\"$lease\",\"lease_ms\":60000}"
answers 204 "POST ack takes positions" \
    POST /v1/subscriptions/jobs/ack "{\"lease\":\"$lease\",\"positions\":[1]}"
answers 409 "POST ack of an acknowledged position is a conflict" POST /v1/subscriptions/jobs/ack \
    "{\"lease\":\"$lease\",\"positions\":[1]}"
has "the conflict of a second ack has HF_STALE" out '"code":"HF_STALE"'
answers 204 "POST nack takes the rest of a lease and an error" POST /v1/subscriptions/jobs/nack \
    "{\"lease\":\"$lease\",\"error\":\"no <b>luck</b>\"}"
answers 201 "PUT subscriptions makes another shared subscription" PUT /v1/subscriptions/again \
    '{"patterns":["*"],"from":"start","mode":"shared"}'
answers 200 "POST claim of another subscription takes max" POST /v1/subscriptions/again/claim \
    '{"max":3}'
again=$(field out 1 '$.lease')
answers 204 "POST nack takes a delay" POST /v1/subscriptions/again/nack \
    "{\"lease\":\"$again\",\"error\":\"no <b>luck</b>\",\"delay_ms\":3600000}"
answers 200 "GET retries answers a list" GET '/v1/subscriptions/again/retries?limit=2'
is "GET retries lists what waits with its error" \
    "$(field out 1 '$.items[0].position') $(field out 1 '$.items[0].error')" "1 no <b>luck</b>"
next=$(field out 1 '$.next')
answers 200 "GET retries goes on behind next" GET "/v1/subscriptions/again/retries?after=$next"
is "GET retries lists the rest on the next page, which has no next" \
    "$(field out 1 '$.items[0].position') $(field out 1 '$.items[1]')/$(field out 1 '$.next')" "3 /"
answers 200 "GET retries takes behind" GET '/v1/subscriptions/again/retries?behind=1'
answers 400 "GET retries refuses an after that is none" GET \
    '/v1/subscriptions/again/retries?after=1-x'
answers 404 "GET retries of an unknown subscription is 404" GET /v1/subscriptions/nobody/retries
answers 204 "DELETE subscriptions removes the other subscription" DELETE /v1/subscriptions/again
answers 200 "POST claim takes an empty body" POST /v1/subscriptions/jobs/claim '{}'
lease=$(field out 1 '$.lease')
answers 204 "POST release takes a lease" \
    POST /v1/subscriptions/jobs/release "{\"lease\":\"$lease\"}"
answers 200 "POST claim answers after a release" POST /v1/subscriptions/jobs/claim '{}'
lease=$(field out 1 '$.lease')
answers 200 "DELETE leases revokes a lease" DELETE "/v1/leases/jobs/$lease"
is "DELETE leases answers how many events it revoked" "$(field out 1 '$.events')" 1
answers 200 "POST claim answers after a lease is revoked" POST /v1/subscriptions/jobs/claim '{}'
answers 204 "POST bury takes a lease and an error" POST /v1/subscriptions/jobs/bury \
    "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"bad\"}"
answers 200 "POST claim answers 200 if there is nothing to claim" \
    POST /v1/subscriptions/jobs/claim '{}'
is "POST claim answers no lease and no events if there are none" \
    "$(field out 1 '$.lease') $(field out 1 '$.events')" " []"
(sleep 1; curl -s --unix-socket http http://localhost/v1/events -d '{"type":"news"}' >published) &
answers 200 "POST claim takes wait_ms" POST /v1/subscriptions/jobs/claim '{"wait_ms":30000}'
is "POST claim with wait_ms answers an event that is published meanwhile" \
    "$(field out 1 '$.events[0].type')" news


answers 201 "setup: an event is published to be cancelled" POST /v1/events '{"type":"unwanted"}'
unwanted=$(field out 1 '$.id')
answers 400 "POST cancel needs a subscription" POST "/v1/events/$unwanted/cancel" '{}'
answers 204 "POST cancel cancels an event for a subscription" \
    POST "/v1/events/$unwanted/cancel" '{"subscription":"jobs","reason":"no"}'
answers 200 "GET events/ID answers a cancelled event" GET "/v1/events/$unwanted"
is "a cancelled event has by whom and why it was cancelled" \
    "$(for f in state cancelled_by cancel_reason; do
    field out 1 "\$.states[0].$f"
done | paste -sd' ')" "cancelled local no"

# --- Dead letters ---
answers 200 "GET dead-letters answers a list" GET /v1/dead-letters
is "GET dead-letters lists the newest first with their errors" \
    "$(field out 1 '$.items[1].error')" 'no <b>luck</b>'
newest=$(field out 1 '$.items[0].dead_id') oldest=$(field out 1 '$.items[1].dead_id')
answers 200 "GET dead-letters takes a part of an error" GET '/v1/dead-letters?error=luck'
is "GET dead-letters by error lists only those that match" \
    "$(field out 1 '$.items[#-1].dead_id')" "$oldest"
answers 200 "GET dead-letters/ID answers a dead letter" GET "/v1/dead-letters/$oldest"
is "GET dead-letters/ID answers the attempts" \
    "$(field out 1 '$.attempts_json[0].error')" 'no <b>luck</b>'
answers 404 "GET dead-letters of an unknown number is 404" GET /v1/dead-letters/999999
answers 400 "GET dead-letters of what is no number is 400" GET /v1/dead-letters/x
answers 204 "POST resolve resolves a dead letter" \
    POST "/v1/dead-letters/$newest/resolve" '{"note":"seen"}'
answers 409 "POST resolve of a resolved dead letter is a conflict" \
    POST "/v1/dead-letters/$newest/resolve" '{}'
answers 200 "GET dead-letters takes resolved=true" GET '/v1/dead-letters?resolved=true'
is "GET dead-letters says who resolved a dead letter and the note" \
    "$(field out 1 '$.items[0].resolved_by') $(field out 1 '$.items[0].resolved_note')" "local seen"
answers 400 "POST dead-letters/retry needs all or a filter" POST /v1/dead-letters/retry '{}'
answers 200 "POST dead-letters/retry takes dry_run" \
    POST /v1/dead-letters/retry '{"all":true,"dry_run":true}'
is "POST dead-letters/retry with dry_run answers how many there are" \
    "$(field out 1 '$.dead_letters')" 1
answers 400 "POST dead-letters/retry refuses a rate that is none" \
    POST /v1/dead-letters/retry '{"all":true,"rate":"fast"}'
answers 400 "POST dead-letters/retry refuses a rate that is too slow for a request" \
    POST /v1/dead-letters/retry '{"all":true,"rate":"1/h"}'
answers 204 "POST retry of one dead letter takes another payload" \
    POST "/v1/dead-letters/$oldest/retry" \
    '{"payload":{"fixed":true}}'
answers 200 "POST claim answers after a dead letter is retried" \
    POST /v1/subscriptions/jobs/claim '{}'
has "a retried dead letter comes again with the other payload" out '"payload":\{"fixed":true\}'
answers 200 "POST dead-letters/purge takes resolved" \
    POST /v1/dead-letters/purge '{"all":true,"resolved":true}'
is "POST dead-letters/purge answers how many it deleted" "$(field out 1 '$.dead_letters')" 1

# A rate: what dies again meanwhile is left for another request.
hf sub create paced --on 'paced.*' --from now --attempts-max 1 --mode shared
yes '{"type":"paced.x"}' | head -n 30 >thirty
hf publish --file thirty --quiet
die() { # as often as it is said
    local lease
    ask POST /v1/subscriptions/paced/claim '{"max":100}' && lease=$(field out 1 '$.lease') &&
        ask POST /v1/subscriptions/paced/bury "{\"lease\":\"$lease\",\"error\":\"bad\"}" &&
        [ "$status" = 204 ]
}
true_that "setup: 30 events die" die
begun=$(date +%s%N)
answers 200 "POST dead-letters/retry takes a rate" POST /v1/dead-letters/retry \
    '{"subscription":"paced","rate":"10/s","work_ms":1500}'
took=$((($(date +%s%N) - begun) / 1000000))
true_that "a request with a rate works for the time it is given" test "$took" -ge 1450
some=$(field out 1 '$.dead_letters') bound=$(field out 1 '$.before_dead_id')
true_that "a request with a rate retries no more than the rate allows" \
    test "$some" -ge 1 -a $((some * 1000)) -le $((took * 10))
is "a request with a rate answers how many are left" "$(field out 1 '$.left')" $((30 - some))
true_that "setup: those die again" die
answers 200 "POST dead-letters/retry goes on with before_dead_id" POST /v1/dead-letters/retry \
    "{\"subscription\":\"paced\",\"rate\":\"1000/s\",\"before_dead_id\":\"$bound\"}"
is "a request that has retried all ends before its time" \
    "$(field out 1 '$.dead_letters') $(field out 1 '$.left')" "$((30 - some)) 0"
has "before_dead_id of an answer is a text, as dead_id is" out "\"before_dead_id\":\"$bound\""
for wrong in 1 '"0"' '"x"'; do
    answers 400 "POST dead-letters/retry refuses $wrong as before_dead_id" \
        POST /v1/dead-letters/retry "{\"all\":true,\"before_dead_id\":$wrong}"
done
answers 200 "GET dead-letters lists what died again" GET '/v1/dead-letters?subscription=paced'
is "what died again meanwhile is not retried a second time" \
    "$(grep -o '"dead_id"' out | wc -l)" "$some"

# --- Later and schedules ---
answers 200 "GET later answers a list" GET /v1/later
is "GET later lists an event for later" \
    "$(field out 1 '$.items[0].id') $(field out 1 '$.next')" "$late "
answers 200 "GET later/ID answers an event for later" GET "/v1/later/$late"
has "GET later/ID answers the payload of an event for later" out '"payload":\{"x":1\}'
answers 204 "POST later/ID/move moves an event for later" \
    POST "/v1/later/$late/move" '{"deliver_at":"2098-01-01T00:00:00Z"}'
answers 204 "DELETE later/ID cancels an event for later" DELETE "/v1/later/$late"
answers 404 "GET of a cancelled event for later is 404" GET "/v1/later/$late"
answers 200 "POST tick answers 200" POST /v1/tick
answers 201 "PUT schedules makes a schedule" PUT /v1/schedules/night \
    '{"expression":"0 3 * * *","type":"night","payload":{"a":1}}'
answers 400 "PUT schedules refuses a wrong expression" \
    PUT /v1/schedules/bad '{"expression":"61 * * * *","type":"x"}'
answers 204 "POST pause pauses a schedule" POST /v1/schedules/night/pause '{"reason":"r"}'
answers 204 "POST resume resumes a schedule" POST /v1/schedules/night/resume
answers 201 "POST run publishes the event of a schedule" POST /v1/schedules/night/run
answers 200 "GET schedules/NAME answers a schedule" GET /v1/schedules/night
is "GET schedules/NAME lists a run by hand" "$(field out 1 '$.runs[0].kind')" by_hand
answers 200 "GET schedules answers a list" GET /v1/schedules
answers 204 "DELETE schedules removes a schedule" DELETE /v1/schedules/night

# --- Namespaces, nodes, stats ---
answers 200 "GET stats answers the numbers" GET /v1/stats
is "GET stats has a row per subscription" "$(field out 1 '$.by_subscription[0].name')" jobs
answers 200 "GET nodes answers a list" GET /v1/nodes
answers 200 "GET namespaces answers a list" GET /v1/namespaces
is "GET namespaces lists the namespace of the server" "$(field out 1 '$.items[0].name')" default
answers 200 "GET namespaces/NAME answers a namespace" GET /v1/namespaces/default
answers 404 "a request for a missing namespace does not make it" GET /v1/namespaces/other/stats
exits 0 "setup: namespace create makes another namespace" namespace create other
answers 201 "POST events publishes into another namespace" \
    POST /v1/namespaces/other/events '{"type":"o"}'
is "an event of another namespace gets its first position" "$(field out 1 '$.position')" 1
answers 200 "GET events takes the type of an event in another namespace" GET '/v1/events?type=o'
is "an event of another namespace is not in the namespace of the server" \
    "$(field out 1 '$.items')" '[]'

# --- What is not there ---
answers 404 "GET of an unknown path of the API is 404" GET /v1/nothing
answers 404 "GET of a path outside of the API is 404" GET /etc/passwd
answers 404 "GET of a path with dots is 404" GET /v1/../v1/stats/..
answers 404 "GET of a path that is not UTF-8 is 404" GET /v1/events/%ff
answers 404 "GET of a path with a NUL is 404" GET /v1/events/%00
answers 405 "a method that a path does not take is 405" PATCH /v1/events
unserve
is "the server ends with 0 and prints nothing on stdout" "$rc $(grep -c . serve.out)" "0 0"
hasnt "the server logs no error" serve.err 'holdfast:'
finish
