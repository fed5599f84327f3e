#!/usr/bin/env bash
# check: limits, the exit codes of Nagios, JSON, and metrics for Prometheus.
. "$(dirname "$0")/lib.sh"
past=2020-01-01T00:00:00Z

exits 3 "a database that is not there could not be checked" check
exits 3 "neither with a mistake on the command line" check --max-wait soon
exits 3 "nor with an option that there is not" check --max-weight 3
hf sub create mailer --on 'mail.*' --mode shared --from start
hf sub create ledger --on 'order.**' --from start
exits 0 "all is well" check
is "and says so" "$(cat out)" "OK: 2 subscriptions, nothing waits for too long"
exits 0 "as JSON" check --json
json "an object" out
is "with the status" "$(field out 1 '$.status') $(field out 1 '$.problems')" "ok []"

# --- Waiting ---
hf publish mail.sent '{}'
hf publish other.x '{}'
exits 0 "what has just come does not wait for too long" check
waits() { hf check --max-wait 1ms --json; [ "$rc" -eq 2 ]; }
until_true 60 waits
is "what waits longer than the limit is critical" "$(field out 1 '$.status')" critical
is "and named" "$(field out 1 '$.problems[0].check') $(field out 1 '$.problems[0].subscription')" \
    "wait mailer"
is "and nothing else" "$(field out 1 '$.problems[1]')" ''
exits 2 "for people" check --max-wait 1ms
has "the first line says it all" out \
    '^CRITICAL: mailer: the oldest event has waited for [0-9a-z]+, the limit is 1ms'
exits 0 "another subscription is not concerned" check ledger --max-wait 1ms
exits 3 "one that is not there is not known" check ledger nobody
has "and named" out '^UNKNOWN: nobody: there is no such subscription$'
exits 2 "it does not hide what is critical" check nobody mailer --max-wait 1ms
has "which comes first" out '^CRITICAL: mailer: the oldest event .* \(and 1 more\)$'
exits 2 "positions behind" check --max-lag 1
has "are told" out '^CRITICAL: (ledger|mailer): it is 2 positions behind, the limit is 1'
exits 0 "up to the limit" check --max-lag 2

# --- Dead letters ---
hf publish order.a '{}'
hf work ledger --exec 'exit 65' --until-empty
exits 2 "a dead letter" check
has "is one too many" out '^CRITICAL: ledger: 1 dead letter, the limit is 0$'
exits 0 "unless it may be there" check --max-dead 1
exits 2 "both problems" check --max-wait 1ms
has "are counted" out '^CRITICAL: ledger: .* \(and 1 more\)$'
is "and listed" "$(grep -c '^CRITICAL: ' out)" 3
exits 0 "a dead letter as a metric" check --prometheus
has "is counted" out '^holdfast_subscription_dead_letters\{.*,subscription="ledger"\} 1$'
has "of its subscription" out '^holdfast_subscription_dead_letters\{.*,subscription="mailer"\} 0$'
hf dlq purge --all --yes

# --- A breaker that is open ---
hf sub create fragile --on 'frag.*' --from start --breaker on --breaker-events 1 \
    --breaker-percent 0 --breaker-pause 1h --retry-base 1h --retry-max 1h
hf publish frag.x '{}'
"$HOLDFAST" work fragile --exec false >/dev/null 2>&1 </dev/null &
worker=$!
opened() { hf check fragile; [ "$rc" -eq 1 ]; }
until_true 60 opened
has "an open breaker is a warning" out '^WARNING: fragile: its circuit breaker is open: too many '
exits 2 "and what keeps an event from moving" check fragile --max-wait 1ms
has "is told with its age" out \
    '^CRITICAL: fragile: the oldest event .*, the limit is 1ms; its circuit breaker is open'
has "the worst comes first, the rest below" out '^WARNING: fragile: its circuit breaker is open'
exits 0 "as metrics" check fragile --prometheus
has "it does not move" out '^holdfast_subscription_not_moving\{.*,subscription="fragile"\} 1$'
has "and is not paused" out '^holdfast_subscription_paused\{.*,subscription="fragile"\} 0$'
has "what retries is counted" out '^holdfast_subscription_retrying_events\{.*"fragile"\} 1$'
hasnt "of others there is nothing" out 'subscription="mailer"'
kill "$worker"
wait "$worker"
hf sub pause fragile
hf check fragile --prometheus
has "until it is" out '^holdfast_subscription_paused\{.*,subscription="fragile"\} 1$'
hf sub rm fragile --yes

# --- Nodes ---
exits 2 "a node is missing" check --nodes 1
has "and said" out '^CRITICAL: 0 live nodes, at least 1 should be there$'
"$HOLDFAST" work ledger --exec true >/dev/null 2>&1 </dev/null &
worker=$!
node_there() { hf check --nodes 1; [ "$rc" -eq 0 ]; }
until_true 60 node_there
is "it is there when a worker is" "$rc" 0
kill "$worker"
wait "$worker"

# --- Overdue ---
hf publish mail.later '{}' --at "$(date -u -d '-5 seconds' +%FT%TZ)"
exits 0 "what has just become due is not overdue" check --json
is "but counted" "$(field out 1 '$.later_due') $(field out 1 '$.problems')" "1 []"
hf tick
hf publish mail.later '{}' --at $past
exits 2 "an overdue event for later" check
has "is told, and that no process is there to bring it" out \
    '^CRITICAL: 1 event for later is overdue, the first [0-9]+d.* ago; no process has the '
"$HOLDFAST" top --count 1000 --interval 1s --json >/dev/null 2>&1 </dev/null &
watcher=$!
watched() { hf check --json; [ "$(field out 1 '$.nodes')" = 1 ]; }
until_true 60 watched
is "a process that looks is a node" "$(field out 1 '$.nodes')" 1
exits 2 "beside a process that only looks" check
has "it is told that none brings it" out \
    '^CRITICAL: 1 event for later is overdue, .*; processes have the namespace open, and none '
kill "$watcher"
wait "$watcher"
hf tick
exits 0 "until it is brought" check
hf schedule add nightly '@every 1s' night.fell
hf schedule pause nightly
exits 0 "a paused schedule is not overdue" check
hf schedule resume nightly
if on sqlite; then
    patiently bus.db "UPDATE holdfast_schedules SET next_at = next_at - 3600000000"
else
    psql -qX "$HOLDFAST_URL" \
        -c "UPDATE holdfast_private.schedules SET next_at = next_at - interval '1 h'"
fi
exits 2 "an overdue schedule" check
has "is told, too" out '^CRITICAL: 1 schedule is overdue, the first [0-9hms]+ ago; no process has '
exits 2 "in JSON" check --json
is "by its name" "$(field out 1 '$.problems[0].check')" schedules
hf schedule rm nightly --yes

# --- Prometheus ---
exits 0 "metrics" check --prometheus
hasnt "are lines of the format" out \
    -v '^(# (HELP|TYPE) holdfast_[a-z_]+ .*|holdfast_[a-z_]+\{[^}]*\} -?[0-9.]+)$'
is "each metric has one type" "$(grep '^# TYPE' out | sort | uniq -d)" ''
has "with the pending events" out \
    '^holdfast_subscription_pending_events\{namespace="default",subscription="mailer"\} 3$'
has "and their age" out \
    '^holdfast_subscription_oldest_waiting_seconds\{.*,subscription="mailer"\} [0-9]+$'
has "and the status" out '^holdfast_check_status\{namespace="default"\} 0$'
exits 0 "trouble is a metric, not an exit code" check --prometheus --max-wait 1ms
has "with its number" out '^holdfast_check_status\{namespace="default"\} 2$'
hf sub create 'say "hi" \n' --on zz --from now
exits 0 "a name with quotes" check --prometheus
has "is escaped" out 'subscription="say \\"hi\\" \\\\n"\} 0$'

# --- More than is looked at, and more than a page ---
if on sqlite; then
    hf sub create rare --on rare --from start
    awk 'BEGIN { for (i = 0; i < 100002; i++) print "{\"type\":\"common\",\"payload\":1}" }' |
        "$HOLDFAST" publish --file - >/dev/null 2>&1
    exits 1 "an age that is not known is a warning" check rare
    has "which says so" out '^WARNING: rare: it is not known how long its events wait: none was '
    exits 0 "as a metric" check rare --prometheus
    hasnt "it is left out, and not 0" out '^holdfast_subscription_oldest_waiting_seconds\{'
    has "and there may be more" out '^holdfast_subscription_pending_more\{.*"rare"\} 1$'
    fresh
    hf sub create s --on '*' --from now
    copies=4000
    for table in subscriptions partitions; do
        columns=$(patiently bus.db "SELECT group_concat(CASE
            WHEN name = 'id' OR name = 'subscription_id' THEN 'n.i'
            WHEN name = 'name' THEN '''a-subscription-with-a-name-of-its-own-'' || n.i'
            ELSE 't.' || name END) FROM pragma_table_info('holdfast_$table')")
        patiently bus.db "WITH RECURSIVE n (i) AS (
                SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < $copies)
            INSERT INTO holdfast_$table SELECT $columns
            FROM n, (SELECT * FROM holdfast_$table) t"
    done
    exits 0 "4000 subscriptions" check --prometheus
    is "are all in the metrics" "$(grep -c '^holdfast_subscription_dead_letters{' out)" $copies
    exits 0 "and in stats" stats --json
    json "as one object" out
    is "with all of them" "$(grep -o '"name":' out | wc -l)" $copies
fi
exits 2 "a database that does not answer is critical" check --db-timeout 100ms \
    --db 'postgresql://127.0.0.1:1/nothing'
finish
