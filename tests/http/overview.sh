#!/usr/bin/env bash
# The HTTP API: checks, groups of dead letters, retention, and making and removing namespaces.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"
serve

# --- Checks ---
answers 200 "an empty namespace is checked" GET /v1/check
is "an empty namespace has no problems" "$(field out 1 '$.status') $(field out 1 '$.problems')" \
    "ok []"
answers 201 "events are published for a check" POST /v1/events '[{"type":"a"},{"type":"b"}]'
answers 201 "a shared subscription is made for a check" PUT /v1/subscriptions/jobs \
    '{"patterns":["*"],"from":"start","mode":"shared"}'
for error in timeout refused; do
    answers 200 "an event is claimed to die of $error" POST /v1/subscriptions/jobs/claim '{"max":1}'
    answers 204 "an event is buried with the error $error" POST /v1/subscriptions/jobs/bury \
        "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"$error\"}"
done
answers 200 "a namespace with dead letters is checked" GET /v1/check
cp out by_http
is "dead letters beyond the limit are critical" \
    "$(field out 1 '$.status') $(field out 1 '$.problems[0].message')" \
    "critical 2 dead letters, the limit is 0"
hf check --json
is "the route and the command say the same, of the server's node too" "$(cat by_http)" "$(cat out)"
answers 200 "a check wants one process, which the server is" GET '/v1/check?max_dead=2&nodes=1'
is "the server counts as a process of its own namespace" "$(field out 1 '$.status')" ok
answers 200 "GET stats answers numbers" GET /v1/stats
is "the numbers of the server's namespace count the server" "$(field out 1 '$.nodes')" 1
answers 200 "a check has other limits" GET '/v1/check?max_dead=2&max_wait_ms=60000'
is "a limit that is not passed is no problem" "$(field out 1 '$.status')" ok
answers 200 "a check is for certain subscriptions" GET '/v1/check?subscription=none&max_dead=2'
is "a subscription that is not there is not known" \
    "$(field out 1 '$.status') $(field out 1 '$.problems[0].subscription')" "unknown none"
answers 200 "a check wants many processes" GET '/v1/check?max_dead=2&nodes=1000'
is "missing processes are critical" "$(field out 1 '$.problems[0].check')" nodes

# --- Groups of dead letters ---
answers 201 "another event is published to die" POST /v1/events '{"type":"b"}'
answers 200 "another event is claimed to die" POST /v1/subscriptions/jobs/claim '{}'
answers 204 "another event is buried with an error that is there" POST \
    /v1/subscriptions/jobs/bury "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"refused\"}"
answers 200 "dead letters are grouped by error" GET /v1/dead-letters/groups
is "the largest group of dead letters comes first" \
    "$(field out 1 '$.items[0].error') $(field out 1 '$.items[0].count') $(
        field out 1 '$.items[1].error') $(field out 1 '$.items[1].count')" "refused 2 timeout 1"
hf dlq list --group-by error --json
sed -n 1p out >first
answers 200 "one group of dead letters is asked for" GET '/v1/dead-letters/groups?limit=1'
is "a group is what the command says of it" "$(field out 1 '$.items[0]')" "$(cat first)"
is "an answer with a part of the groups says how many there are" \
    "$(field out 1 '$.groups') $(field out 1 '$.dead_letters') $(field out 1 '$.more')" "2 3 0"
answers 200 "dead letters are grouped by type" GET '/v1/dead-letters/groups?by=type&error=timeout'
is "a filter chooses the dead letters that are grouped" "$(field out 1 '$.items[0].type') $(
    field out 1 '$.items[0].count')" "a 1"
answers 400 "dead letters are not grouped by another field" GET '/v1/dead-letters/groups?by=key'

# --- Rates ---
# What a worker passes at once is not for it, and the events that are stay in its hands.
hf sub create busy --on 'busy.*' --from start
answers 201 "events are published that a subscription passes" POST /v1/events \
    "[$(printf '{"type":"other.came"},%.0s' $(seq 40)){\"type\":\"busy.came\"}]"
is_seen() {
    ask GET '/v1/live?subscription=busy' && [ "$(field out 1 '$.subscription.pending')" = 1 ]
}
true_that "the dashboard has a sample of a new subscription" until_true 30 is_seen
"$HOLDFAST" work busy --exec 'exec sleep 3600' >/dev/null 2>&1 &
worker=$!
has_passed() {
    ask GET '/v1/live?subscription=busy' && [ "$(field out 1 '$.subscription.checkpoint')" -ge 40 ]
}
true_that "a worker passes the events that are not for it" until_true 30 has_passed
is "events that a subscription passes without settling any are no rate" \
    "$(field out 1 '$.subscription.now_rate')" 0
kill "$worker"
wait "$worker" 2>/dev/null
hf sub rm busy --yes
hf sub create grave --on 'grave.*' --from now --mode shared
answers 201 "very many events are published to die" POST /v1/events \
    "[$(printf '{"type":"grave.dug"},%.0s' $(seq 999)){\"type\":\"grave.dug\"}]"
answers 200 "very many events are claimed" POST /v1/subscriptions/grave/claim '{"max":1000}'
answers 204 "very many events die at once" POST /v1/subscriptions/grave/bury \
    "{\"lease\":\"$(field out 1 '$.lease')\",\"error\":\"e\"}"
# What the chart of the dead adds up to: each point's rate for the time since the one before.
died() {
    ask GET '/v1/live?range=900'
    sqlite3 :memory: "SELECT cast(coalesce(sum(d * (t - b) / 1000), 0) AS integer) FROM (
        SELECT json_extract(value, '\$[5]') AS d, json_extract(value, '\$[0]') AS t,
            lag(json_extract(value, '\$[0]')) OVER (ORDER BY key) AS b
        FROM json_each(cast(readfile('out') AS text), '\$.points'))"
}
counts_all() { [ "$(died)" -ge 990 ]; }
true_that "the chart of the dead counts more that die at once than the list of trouble looks at" \
    until_true 20 counts_all
hf dlq purge --subscription grave --yes
hf sub rm grave --yes

# --- Namespaces and retention ---
answers 201 "a namespace is made" PUT /v1/namespaces/shop \
    '{"metadata":{"team":"web"},"retention_ms":1,"lagging":"drop","gapless":true}'
is "a new namespace has the settings that were given" \
    "$(field out 1 '$.metadata.team') $(field out 1 '$.retention_ms') $(
        field out 1 '$.lagging') $(field out 1 '$.gapless')" "web 1 drop 1"
answers 200 "a namespace is changed" PUT /v1/namespaces/shop '{"type_index":"on"}'
is "a changed namespace keeps what was not given" \
    "$(field out 1 '$.type_index') $(field out 1 '$.retention_ms')" "on 1"
on sqlite || answers 409 "a namespace stays gapless" PUT /v1/namespaces/shop '{"gapless":false}'
answers 400 "a setting with a wrong value is refused" PUT /v1/namespaces/shop '{"lagging":"wait"}'
has "the refusal names the setting and its values" out 'lagging.* takes one of keep.drop'
answers 201 "an event is published into a new namespace" POST /v1/namespaces/shop/events \
    '{"type":"x"}'
answers 200 "a dry run of retention is made" POST /v1/namespaces/shop/retention/run \
    '{"dry_run":true}'
is "a dry run of retention says so" "$(field out 1 '$.dry_run')" 1
answers 200 "retention of a namespace is run" POST /v1/namespaces/shop/retention/run '{}'
cp out by_http
hf retention run --namespace shop --json
is "retention answers the fields of the command" \
    "$(sqlite3 :memory: "SELECT group_concat(key) FROM json_each(readfile('by_http'))")" \
    "$(sqlite3 :memory: "SELECT group_concat(key) FROM json_each(readfile('out'))")"
answers 204 "a namespace that only the server has open is removed" DELETE /v1/namespaces/shop
answers 404 "a namespace that was removed is gone" GET /v1/namespaces/shop/stats
answers 404 "a namespace is removed once" DELETE /v1/namespaces/shop
answers 201 "a namespace is made again" PUT /v1/namespaces/shop
answers 201 "a namespace that was made again takes events" POST /v1/namespaces/shop/events \
    '{"type":"x"}'
is "a namespace that was made again begins anew" "$(field out 1 '$.position')" 1
answers 409 "the server's own namespace is not removed" DELETE '/v1/namespaces/default?force=true'
curl -sN --unix-socket http -o following http://localhost/v1/namespaces/shop/stream &
client=$!
true_that "a client follows the namespace" until_true 30 grep -q retry: following
answers 409 "a namespace that is followed is not removed" DELETE /v1/namespaces/shop
answers 204 "a namespace that is followed is removed by force" DELETE \
    '/v1/namespaces/shop?force=true'
over() { ! kill -0 "$client" 2>/dev/null; }
true_that "a stream of a namespace that was removed ends" until_true 30 over
unserve
is "the server ends without an error after namespaces were removed" "$rc" 0
finish
