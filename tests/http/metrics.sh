#!/usr/bin/env bash
# /metrics of `holdfast serve`: who may see it, what is in it, and what its examples name.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib.sh"

hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
# sample METRIC [LABELS]: the value in the file out; nothing if it is not there
sample() {
    WANTED=$1 awk '{ value = $NF; sub(/ [^ ]*$/, "") } $0 == ENVIRON["WANTED"] { print value }' out
}
# well_formed: the format, by our own reader and by that of Prometheus, if it is installed
well_formed() {
    awk -f "$here/../http/exposition.awk" out >mistakes
    [ ! -s mistakes ] || { head -5 mistakes; return 1; }
    ! command -v promtool >/dev/null || promtool check metrics <out
}
parse() { printf '%s\n' "$@" | awk -f "$here/../http/exposition.awk"; }

# --- The reader finds mistakes ---
has_mistake() { [ -n "$(parse "$@")" ]; }
true_that "the reader of the test accepts a counter" \
    test -z "$(parse '# HELP a_total A b.' '# TYPE a_total counter' 'a_total{namespace="x\"y"} 1')"
true_that "the reader of the test refuses a sample without TYPE" has_mistake 'a_total 1'
true_that "the reader of the test refuses a label that may not be" \
    has_mistake '# HELP a A b.' '# TYPE a gauge' 'a{id="7"} 1'
true_that "the reader of the test refuses a sample that is there twice" \
    has_mistake '# HELP a A b.' '# TYPE a gauge' 'a 1' 'a 2'
true_that "the reader of the test refuses a quote that is not escaped" \
    has_mistake '# HELP a A b.' '# TYPE a gauge' 'a{namespace="x"y"} 1'
true_that "the reader of the test refuses a bucket that falls" \
    has_mistake '# HELP a A b.' '# TYPE a histogram' 'a_bucket{le="1"} 2' \
    'a_bucket{le="+Inf"} 1'

# --- What is in it ---
serve
answers 200 "GET /metrics answers before anything has happened" GET /metrics
true_that "/metrics of an empty namespace is well formed" well_formed
curl -s -o out -D head --unix-socket http http://localhost/metrics
has "/metrics says the format that it has" head '^Content-Type: text/plain; version=0.0.4'
for _ in 1 2 3; do ask POST /v1/events '{"type":"a","payload":1,"key":"secret-key"}'; done
ask PUT '/v1/subscriptions/a%22b%5Cc' '{"patterns":["*"],"from":"start","mode":"shared"}'
ask POST '/v1/subscriptions/a%22b%5Cc/claim' '{"max":2}'
lease=$(field out 1 '$.lease')
ask POST '/v1/subscriptions/a%22b%5Cc/ack' "{\"lease\":\"$lease\",\"positions\":[1]}"
ask POST '/v1/subscriptions/a%22b%5Cc/bury' "{\"lease\":\"$lease\",\"error\":\"no\"}"
answers 200 "GET /metrics answers after deliveries" GET /metrics
true_that "/metrics with names that need escapes is well formed" well_formed
of='namespace="default",subscription="a\"b\\c"'
in='namespace="default"'
is "/metrics counts events of the log" "$(sample "holdfast_published_total{$in}")" 3
is "/metrics times calls that publish" "$(sample "holdfast_publish_duration_seconds_count{$in}")" 3
is "/metrics counts pending events" "$(sample "holdfast_pending_events{$of}")" 1
is "/metrics counts what was acknowledged" \
    "$(sample "holdfast_delivered_total{$of,result=\"done\"}")" 1
is "/metrics counts what died" "$(sample "holdfast_delivered_total{$of,result=\"dead\"}")" 1
is "/metrics counts dead letters by their reason" \
    "$(sample "holdfast_dead_letters_total{$in,reason=\"rejected\"}")" 1
is "/metrics counts dead letters that are open" "$(sample "holdfast_dead_letters{$of}")" 1
is "/metrics times events from the log to the acknowledgement" \
    "$(sample "holdfast_end_to_end_seconds_count{$of}")" 1
is "/metrics times claims until they are settled" \
    "$(sample "holdfast_handler_duration_seconds_count{$of}")" 2
is "/metrics counts live nodes" "$(sample "holdfast_nodes{$in,state=\"live\"}")" 1
is "/metrics says that the database takes changes" "$(sample holdfast_store_up)" 1
has "/metrics says version and engine" \
    out "^holdfast_build_info\{version=\"[0-9.]+\",engine=\"$engine\"\} 1$"
true_that "/metrics says how large the database is" test "$(sample holdfast_store_bytes)" -gt 0
true_that "/metrics counts requests by their status" \
    test "$(sample 'holdfast_http_requests_total{code="2xx"}')" -ge 8
hasnt "/metrics has no keys of events" out 'secret-key'
hasnt "/metrics leaves out a breaker where there is none" out 'breaker_open\{'
answers 405 "POST /metrics is not taken" POST /metrics '{}'
answers 400 "/metrics refuses a parameter that it does not have" GET '/metrics?namespaec=x'
answers 404 "/metrics of a missing namespace is 404" GET '/metrics?namespace=missing'
unserve
serve
answers 200 "GET /metrics answers after a restart" GET /metrics
is "events of the log survive a restart" "$(sample "holdfast_published_total{$in}")" 3
is "numbers of the process begin again" \
    "$(sample "holdfast_publish_duration_seconds_count{$in}")" 0
unserve

# --- Who may see it ---
{
    echo "vera viewer default $(hash_of see)"
    echo "otto operator other $(hash_of other)"
} >tokens
exits 0 "setup: namespace create makes another namespace" namespace create other
serve --tokens tokens
answers 401 "/metrics needs a token where there are tokens" GET /metrics
bearer see
answers 200 "a viewer of the namespace sees /metrics" GET /metrics
answers 403 "a viewer does not see another namespace" GET '/metrics?namespace=other'
bearer other
answers 403 "a token of another namespace does not see /metrics" GET /metrics
answers 200 "a token of another namespace sees that one" GET '/metrics?namespace=other'
has "/metrics of another namespace is about that one" \
    out 'holdfast_published_total\{namespace="other"\} 0'
hasnt "/metrics of another namespace says nothing of the first" out 'namespace="default"'
bearer ''
unserve

# --- A database that does not answer ---
if on sqlite; then
    serve
    lock & locker=$!
    until_true 30 test -e locked
    down() { ask GET /metrics; [ "$(sample holdfast_store_up)" = 0 ]; }
    true_that "/metrics answers while the database is locked" until_true 30 down
    is "/metrics has what the process knows then" "$(sample "holdfast_gap_timeouts_total{$in}")" 0
    hasnt "/metrics leaves out what is not known, and does not say 0" \
        out '^holdfast_(pending|published)'
    true_that "/metrics without a database is well formed" well_formed
    touch unlock
    wait "$locker"
    unserve
fi

# --- Documents and examples name what is there ---
sed -n 's/^METRIC([A-Z_]*, "\([a-z_]*\)".*/\1/p' "$root/src/cli/watch/metrics.def" | sort >known
true_that "metrics.def has more than thirty metrics" test "$(wc -l <known)" -gt 30
named() {
    grep -o '\(holdfast\|process\)_[a-z_]*[a-z]' "$1" | sed 's/_\(bucket\|sum\|count\)$//' | sort -u
}
sed -n 's/^| `\([a-z_]*\)`.*/\1/p' "$root/docs/metrics.md" | grep '^\(holdfast\|process\)_' |
    sort >told
is "docs/metrics.md has a row for each metric and no other" "$(diff known told)" ""
for file in examples/alerts.yml examples/grafana.json; do
    named "$root/$file" >used
    is "$file names metrics that exist" "$(comm -23 used known)" ""
    true_that "$file names several metrics" test "$(wc -l <used)" -gt 5
done
true_that "examples/grafana.json is valid JSON" \
    test "$(sqlite3 :memory: "SELECT json_valid(readfile('$root/examples/grafana.json'))")" = 1
count() { grep -c "^ *$1" "$root/examples/alerts.yml"; }
is "each alert of examples/alerts.yml has a sentence" "$(count summary:)" "$(count '- alert:')"
is "each alert of examples/alerts.yml has a remedy" "$(count remedy:)" "$(count '- alert:')"
unknown=
while read -r command; do
    # shellcheck disable=SC2086
    hf $command --help
    [ "$rc" = 0 ] || unknown="$unknown, $command"
done < <(grep -o '`[^`]*`' "$root/examples/alerts.yml" | tr -d '`' |
    sed 's/^holdfast //; s/ --.*//' | sort -u)
is "the remedies of examples/alerts.yml name commands that exist" "$unknown" ""
! command -v promtool >/dev/null ||
    true_that "promtool accepts the rules of examples/alerts.yml" \
        promtool check rules "$root/examples/alerts.yml"
finish
