#!/usr/bin/env bash
# Long answers of `holdfast serve`: pages that end early, and clients that do not read.
# shellcheck disable=SC2183
. "$(dirname "$0")/lib.sh"

serve --max-body 1MiB
printf '{"type":"big","payload":"%900000s"}' | tr ' ' x >event
for _ in {1..12}; do
    ask POST /v1/events @event
done
is "setup: events of 900 KB are published" "$status" 201

items() { sqlite3 :memory: "SELECT json_array_length(readfile('out'), '$1')"; }
behind() { sqlite3 :memory: "SELECT readfile('out') ->> '$1'"; }

# pages WHAT PATH ITEMS NEXT: a page of such lists ends above 8 MiB, and the next one has the rest.
pages() {
    local first
    ask GET "$2?limit=1000"
    first=$(items "$3")
    ask GET "$2?limit=1000&after=$(behind "$4")"
    is "a page of $1 ends early if it is large, and the next one has the rest" \
        "$first and $(items "$3")" "10 and 2"
}
pages events /v1/events '$.items' '$.next'
is "the last page of events that are large has no next" "$(behind '$.next')" ""
header='Accept: application/cloudevents-batch+json'
pages CloudEvents /v1/events '$' '$[#-1].position'
header=
ask PUT /v1/subscriptions/s '{"patterns":["big"],"mode":"shared","from":"start"}'
for _ in {1..12}; do
    ask POST /v1/subscriptions/s/claim '{"max":1}'
    lease=$(behind '$.lease')
    ask POST /v1/subscriptions/s/bury "{\"lease\":\"$lease\",\"error\":\"no\"}"
done
pages "dead letters" /v1/dead-letters '$.items' '$.next'

# --- Clients that do not read ---
curl -s -o slow --limit-rate 1 --unix-socket http 'http://localhost/v1/events?limit=1000' &
slow=$!
list_is() { ask GET '/v1/events?limit=1000' && [ "$status" = "$1" ]; }
true_that "a long answer is refused while clients do not read what they have asked for" \
    until_true 30 list_is 503
has "the refusal of a long answer says why" out 'too many clients have long answers to read'
curl -s -o out -D head --unix-socket http 'http://localhost/v1/events?limit=1000'
has "the refusal of a long answer says when to ask again" head '^Retry-After: 1'
answers 200 "a short answer is given while clients do not read long ones" GET /v1/stats
answers 201 "a publish is answered while clients do not read long answers" POST /v1/events @event
kill "$slow"
true_that "long answers are given again when the clients are gone" until_true 30 list_is 200
unserve
finish
