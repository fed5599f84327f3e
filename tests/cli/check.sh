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
hf dlq purge --all --yes

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
hf publish mail.later '{}' --at $past
exits 2 "an overdue event for later" check
has "is told, and that no process is there to bring it" out \
    '^CRITICAL: 1 event for later is overdue, the first [0-9]+d.* ago; no process has the '
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
    '^holdfast_subscription_pending_events\{namespace="default",subscription="mailer"\} 2$'
has "and their age" out \
    '^holdfast_subscription_oldest_waiting_seconds\{.*,subscription="mailer"\} [0-9]+$'
has "and the status" out '^holdfast_check_status\{namespace="default"\} 0$'
exits 0 "trouble is a metric, not an exit code" check --prometheus --max-wait 1ms
has "with its number" out '^holdfast_check_status\{namespace="default"\} 2$'
exits 2 "a database that does not answer is critical" check --db-timeout 100ms \
    --db 'postgresql://127.0.0.1:1/nothing'
finish
