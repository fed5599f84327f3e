#!/usr/bin/env bash
# CloudEvents 1.0: published in structured, batch and binary mode, and answered as they went in.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
exits 0 "a namespace with positions without gaps is created" namespace create default --gapless
serve

# send STATUS CLAIM BODY HEADERS...: publishes with these headers.
send() {
    local wanted=$1 claim=$2 body=$3 header words=()
    shift 3
    for header; do words+=(-H "$header"); done
    status=$(curl -s -o out -w '%{http_code}' --unix-socket http "${words[@]}" \
        --data-binary "$body" http://localhost/v1/events)
    is "$claim" "$status" "$wanted"
    [ "$status" = "$wanted" ] || cat out >&2
}
# as_cloudevent PATH [MEDIA TYPE]: leaves the answer in the file out, its type in the file head.
as_cloudevent() {
    curl -s -o out -D head --unix-socket http -H "Accept: ${2:-application/cloudevents+json}" \
        "http://localhost/v1/$1"
}
structured='Content-Type: application/cloudevents+json; charset=UTF-8'
batch='Content-Type: application/cloudevents-batch+json'

# --- Structured mode ---
full='{"specversion":"1.0","id":"A-1 é","source":"/shop?x=1","type":"order.placed","subject":"k1",
    "time":"2026-01-31T12:00:00.5Z","tenant":"t","producer":"till","dataschema":"http://s/1",
    "retries":3,"urgent":true,"datacontenttype":"application/vnd.order+json","empty":null,
    "traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","data":{"n": 1.10}}'
send 201 "a CloudEvent is published in structured mode" "$full" "$structured"
id=$(field out 1 '$.id')
send 200 "the same source and id again is the same event" "$full" "$structured"
is "the same CloudEvent again answers the first position" \
    "$(field out 1 '$.position') $(field out 1 '$.id')" "1 $id"
for twice in '"type":"o","type":"p"' '"type":"o","ext":1,"ext":2' '"type":"o","data":1,"data":2'; do
    send 400 "a CloudEvent with an attribute twice is refused: $twice" \
        "{\"specversion\":\"1.0\",\"id\":\"2\",\"source\":\"s\",$twice}" "$structured"
done
send 201 "the same id from another source is another event" \
    '{"specversion":"1.0","id":"A-1 é","source":"/other","type":"o"}' "$structured"
answers 200 "an event that was a CloudEvent is shown" GET /v1/events/1
is "subject, tenant, producer and time are fields of the event" \
    "$(field out 1 '$.key') $(field out 1 '$.tenant') $(field out 1 '$.producer') $(
        field out 1 '$.emitted_at')" "k1 t till 2026-01-31T12:00:00.500000Z"
has "the data of a CloudEvent are the payload byte for byte" out '"payload":\{"n": 1.10\}'
is "the trace of a CloudEvent is in the metadata" "$(field out 1 '$.metadata.traceparent')" \
    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
as_cloudevent events/1
has "an event is answered as a CloudEvent to a client that asks for it" head \
    '^Content-Type: application/cloudevents\+json'
is "a CloudEvent comes out as it went in" \
    "$(for name in id source type subject tenant producer dataschema retries urgent \
        datacontenttype data; do field out 1 "\$.$name"; done)" \
    "$(printf '%s\n' 'A-1 é' '/shop?x=1' order.placed k1 t till http://s/1 3 1 \
        application/vnd.order+json '{"n":1.10}')"
has "numbers and booleans of a CloudEvent stay what they are" out '"retries":3,"urgent":true'
send 201 "a UUID is the id of the event" '{"specversion":"1.0","source":"s","type":"u",
    "id":"0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55"}' "$structured"
is "the receipt has the id of the CloudEvent" "$(field out 1 '$.id')" \
    0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55
answers 201 "an event is published that is no CloudEvent" POST /v1/events '{"type":"plain"}'
as_cloudevent events/4
is "an event that was no CloudEvent has its namespace as source" \
    "$(field out 1 '$.source') $(field out 1 '$.position')" "/holdfast/default 4"

# --- Batches ---
send 201 "a batch is published as one" '[{"specversion":"1.0","id":"b1","source":"s","type":"b"},
    {"specversion":"1.0","id":"b2","source":"s","type":"b","data":[1]}]' "$batch"
is "a batch is answered with a receipt for each" "$(field out 1 '$[1].position')" 6
send 400 "a batch with a wrong event is refused as a whole" \
    '[{"specversion":"1.0","id":"b3","source":"s","type":"b"},{"specversion":"1.0","id":"b4"}]' \
    "$batch"
has "the refusal of a batch names the event and the attribute" out \
    'event 1: the attribute source is missing'
send 400 "a batch that is no array is refused" '{}' "$batch"
send 400 "an array in structured mode is refused" '[]' "$structured"
send 415 "another format of CloudEvents is refused" x 'Content-Type: application/cloudevents+avro'
as_cloudevent 'events?type=b' application/cloudevents-batch+json
has "a list is answered as a batch" head '^Content-Type: application/cloudevents-batch\+json'
is "a batch of answers has the events" \
    "$(field out 1 '$[0].id') $(field out 1 '$[1].id') $(field out 1 '$[2].id')" "b1 b2 "

# --- Binary mode ---
binary=('ce-specversion: 1.0' 'CE-Type: bin.ary' 'ce-source: /b' 'ce-id: %E2%82%AC%20%22x%22'
    'ce-subject: "quoted \"key\""' 'ce-Other: a%2525b' 'Content-Type: application/json')
send 201 "a CloudEvent is published in binary mode" '{"n": 2.50}' "${binary[@]}"
as_cloudevent events/7
is "values of headers are unquoted and percent-decoded once" \
    "$(field out 1 '$.id')|$(field out 1 '$.subject')|$(field out 1 '$.other')" \
    '€ "x"|quoted "key"|a%25b'
has "the body in binary mode is the data byte for byte" out '"data":\{"n": 2.50\}'
send 201 "a CloudEvent without data is published in binary mode" '' \
    'ce-specversion: 1.0' 'ce-type: t' 'ce-source: /b' 'ce-id: none'
answers 200 "an event without data is shown" GET /v1/events/8
is "an event without data has the payload null" "$(field out 1 '$.payload')" ""

# --- Mistakes ---
for header in 'ce-Type: twice' "ce-: x" "ce-$(printf '%65s' | tr ' ' a): x"; do
    send 400 "binary mode refuses the header ${header:0:20}" '1' "${binary[@]}" "$header"
done
wrong() { # ATTRIBUTES SENTENCE: of structured mode, besides what is needed
    local needed='{"specversion":"1.0","id":"i","source":"s","type":"t"}'
    send 400 "structured mode refuses $1" "$(sqlite3 :memory: \
        "SELECT json_patch('$needed', '{${1//\'/\'\'}}')")" "$structured"
    has "the refusal of $1 says why" out "$2"
}
wrong '"specversion":"0.3"' "the attribute specversion is '0.3'; it must be 1.0"
wrong '"time":"noon"' "the attribute time is 'noon'"
wrong '"source":""' 'the attribute source is empty'
wrong '"ext":{"a":1}' 'the attribute ext must be a string, an integer of 32 bits or a boolean'
wrong '"ext":3000000000' 'the attribute ext must be a string'
wrong '"Ext":"x"' 'is no attribute: its name has 1 to 64 lower case letters and digits'
wrong '"data_base64":"AAAA"' 'data_base64 cannot be stored'
wrong '"datacontenttype":"text/xml"' "the attribute datacontenttype is 'text/xml'; data must be"
for name in specversion id source type; do
    send 400 "structured mode refuses an event without $name" "$(sqlite3 :memory: "SELECT
        json_remove('{\"specversion\":\"1.0\",\"id\":\"i\",\"source\":\"s\",\"type\":\"t\"}',
            '\$.$name')")" "$structured"
    has "the refusal names the missing $name" out "the attribute $name is missing"
done
send 400 "binary mode refuses data that are no JSON" '<x/>' "${binary[@]:0:6}" \
    'Content-Type: text/xml'
has "the refusal of other data names datacontenttype" out 'the attribute datacontenttype'
send 400 "binary mode refuses JSON that is none" '{"n":' "${binary[@]}"
send 400 "binary mode refuses a header that is no UTF-8" '1' "${binary[@]}" 'ce-x: %ff'
has "the refusal names the attribute of the header" out 'the attribute x is no UTF-8'
answers 200 "the log has only what was accepted" GET /v1/stats
is "the head of the log is the last event that was accepted" "$(field out 1 '$.head')" 8

# --- Streams ---
curl -sN --unix-socket http -o plain 'http://localhost/v1/stream?from=start' &
plain=$!
plain_there() { [ "$(grep -c '^data:' plain)" -ge "$1" ]; }
true_that "a stream has the events as the API has them" until_true 30 plain_there 8
curl -sN --unix-socket http -o cloudy -H 'Accept: text/event-stream, application/cloudevents+json' \
    'http://localhost/v1/stream?from=start' &
cloudy=$!
there() { [ "$(grep -c '^data: {"specversion":"1.0"' cloudy)" -eq "$1" ]; }
true_that "a stream has CloudEvents for a client that asks for them" until_true 30 there 8
answers 201 "an event is published while both streams are open" POST /v1/events '{"type":"new"}'
true_that "a stream has new events as CloudEvents" until_true 30 there 9
true_that "the other stream has new events as the API has them" until_true 30 plain_there 9
hasnt "the other stream has no CloudEvents" plain specversion
kill "$plain" "$cloudy"
unserve
is "the server ends without an error after CloudEvents" "$rc" 0
finish
