#!/usr/bin/env bash
# check: limits, the exit codes of Nagios, JSON, and metrics for Prometheus.
. "$(dirname "$0")/lib.sh"
past=2020-01-01T00:00:00Z


# --- What it cannot look at: a plugin of Nagios prints a line on stdout whatever happens ---
nowhere=sqlite:none.db missing='no database none.db'
if on postgres; then
    nowhere=$(sed 's,///[^?]*,///no_such_database,' <<<"$HOLDFAST_URL")
    missing='"no_such_database" does not exist'
fi
exits 3 "check exits with unknown (3) if the database does not exist" check --db "$nowhere"
has "check prints a line about the missing database on stdout" out "^UNKNOWN: .*$missing"
is "check prints one line about a missing database" "$(wc -l <out) $(cat err)" "1 "
exits 3 "check --json exits with unknown (3) if the database does not exist" \
    check --db "$nowhere" --json
json "check --json prints an object about a missing database" out
is "check --json names the missing database as its problem, and knows no numbers" \
    "$(field out 1 '$.status') $(field out 1 '$.problems[0].check') $(field out 1 '$.nodes')" \
    "unknown database "
exits 0 "check --prometheus exits with 0 if the database does not exist" \
    check --db "$nowhere" --prometheus
is "check --prometheus says that the missing database takes no changes, and nothing else" \
    "$(grep -v '^#' out | tr '\n' ' ')" \
    'holdfast_store_up 0 holdfast_check_status{namespace="default"} 3 '
has "check --prometheus says on stderr why there are no numbers" err "$missing"
away=(--db 'postgresql://127.0.0.1:1/nothing' --db-timeout 100ms)
exits 2 "check exits with critical (2) if the database does not answer" check "${away[@]}"
has "check prints a line about a database that does not answer" out '^CRITICAL: .*127\.0\.0\.1'
is "check prints one line about a database that does not answer" "$(wc -l <out) $(cat err)" "1 "
exits 2 "check --json exits with critical (2) if the database does not answer" \
    check "${away[@]}" --json
is "check --json is critical if the database does not answer" \
    "$(field out 1 '$.status') $(field out 1 '$.problems[0].check')" "critical database"
exits 0 "check --prometheus exits with 0 if the database does not answer" \
    check "${away[@]}" --prometheus
is "check --prometheus says that the database does not answer, and nothing else" \
    "$(grep -v '^#' out | tr '\n' ' ')" \
    'holdfast_store_up 0 holdfast_check_status{namespace="default"} 2 '
exits 3 "check exits with unknown (3) after a bad value of an option" check --max-wait soon
has "check prints a line about a bad value on stdout" out '^UNKNOWN: .*--max-wait'
exits 3 "check --json exits with unknown (3) after a bad value" check --max-wait soon --json
json "check --json prints an object about a bad value" out
is "check --json is unknown after a bad value" "$(field out 1 '$.status')" unknown
exits 3 "check exits with unknown (3) after an unknown option" check --max-weight 3
hf sub create mailer --on 'mail.*' --mode shared --from start
hf sub create ledger --on 'order.**' --from start
exits 0 "check exits with 0 if nothing is wrong" check
is "check prints OK and the number of subscriptions" \
    "$(cat out)" "OK: 2 subscriptions, nothing waits for too long"
exits 0 "check --json exits with 0 if nothing is wrong" check --json
json "check --json prints a JSON object" out
is "check --json has the status ok and no problems" \
    "$(field out 1 '$.status') $(field out 1 '$.problems')" "ok []"

# --- Waiting ---
hf publish mail.sent '{}'
hf publish other.x '{}'
exits 0 "check exits with 0 if an event has just come" check
waits() { hf check --max-wait 1ms --json; [ "$rc" -eq 2 ]; }
until_true 60 waits
is "an event that waits longer than --max-wait is critical" "$(field out 1 '$.status')" critical
is "a problem of check --json names its check and its subscription" \
    "$(field out 1 '$.problems[0].check') $(field out 1 '$.problems[0].subscription')" \
    "wait mailer"
is "check --json lists no problem of subscriptions without waiting events" \
    "$(field out 1 '$.problems[1]')" ''
exits 2 "check --max-wait exits with critical (2)" check --max-wait 1ms
has "check names subscription, age and limit in its first line" out \
    '^CRITICAL: mailer: the oldest event has waited for [0-9a-z]+, the limit is 1ms'
exits 0 "check SUB looks only at that subscription" check ledger --max-wait 1ms
exits 3 "check of an unknown subscription exits with unknown (3)" check ledger nobody
has "check names the unknown subscription" out '^UNKNOWN: nobody: there is no such subscription$'
exits 2 "an unknown subscription does not hide a critical one" check nobody mailer --max-wait 1ms
has "check prints critical problems before unknown subscriptions" \
    out '^CRITICAL: mailer: the oldest event .* \(and 1 more\)$'
exits 2 "a lag above --max-lag is critical" check --max-lag 1
has "check prints how many positions a subscription is behind" \
    out '^CRITICAL: (ledger|mailer): it is 2 positions behind, the limit is 1'
exits 0 "a lag equal to --max-lag is no problem" check --max-lag 2

# --- Dead letters ---
hf publish order.a '{}'
hf work ledger --exec 'exit 65' --until-empty
exits 2 "a dead letter is critical by default" check
has "check prints the number of dead letters and the limit" \
    out '^CRITICAL: ledger: 1 dead letter, the limit is 0$'
exits 0 "dead letters up to --max-dead are no problem" check --max-dead 1
exits 2 "check exits with critical (2) if there are two problems" check --max-wait 1ms
has "the first line of check says how many more problems there are" \
    out '^CRITICAL: ledger: .* \(and 1 more\)$'
is "check prints a line for each problem below the first" "$(grep -c '^CRITICAL: ' out)" 3
exits 0 "check --prometheus exits with 0 in spite of a dead letter" check --prometheus
has "check --prometheus counts the dead letters of a subscription" \
    out '^holdfast_dead_letters\{.*,subscription="ledger"\} 1$'
has "check --prometheus prints 0 for a subscription without dead letters" \
    out '^holdfast_dead_letters\{.*,subscription="mailer"\} 0$'
hf dlq purge --all --yes

# --- A breaker that is open ---
hf sub create fragile --on 'frag.*' --from start --breaker on --breaker-events 1 \
    --breaker-percent 0 --breaker-pause 1h --retry-base 1h --retry-max 1h
hf publish frag.x '{}'
"$HOLDFAST" work fragile --exec false >/dev/null 2>&1 </dev/null &
worker=$!
opened() { hf check fragile; [ "$rc" -eq 1 ]; }
until_true 60 opened
has "an open circuit breaker is a warning" \
    out '^WARNING: fragile: its circuit breaker is open: too many '
exits 2 "an event that waits behind an open breaker is critical above --max-wait" \
    check fragile --max-wait 1ms
has "check names the open breaker as the reason of the wait" out \
    '^CRITICAL: fragile: the oldest event .*, the limit is 1ms; its circuit breaker is open'
has "check prints the warning below the critical problem" \
    out '^WARNING: fragile: its circuit breaker is open'
exits 0 "check SUB --prometheus succeeds with an open breaker" check fragile --prometheus
has "check --prometheus says that a subscription does not move" \
    out '^holdfast_subscription_not_moving\{.*,subscription="fragile"\} 1$'
has "check --prometheus says that a subscription with an open breaker is not paused" \
    out '^holdfast_subscription_paused\{.*,subscription="fragile"\} 0$'
has "check --prometheus counts events that wait for a retry" \
    out '^holdfast_retrying_events\{.*"fragile"\} 1$'
hasnt "check SUB --prometheus prints no metrics of other subscriptions" out 'subscription="mailer"'
kill "$worker"
wait "$worker"
hf sub pause fragile
hf check fragile --prometheus
has "check --prometheus says that a subscription is paused" \
    out '^holdfast_subscription_paused\{.*,subscription="fragile"\} 1$'
hf sub rm fragile --yes

# --- Nodes ---
exits 2 "check --nodes is critical if no node is there" check --nodes 1
has "check --nodes prints how many nodes should be there" \
    out '^CRITICAL: 0 live nodes, at least 1 should be there$'
"$HOLDFAST" work ledger --exec true >/dev/null 2>&1 </dev/null &
worker=$!
node_there() { hf check --nodes 1; [ "$rc" -eq 0 ]; }
until_true 60 node_there
is "check --nodes 1 is satisfied while a worker runs" "$rc" 0
kill "$worker"
wait "$worker"

# --- A limit of less than a second ---
hf sub create hasty --on 'haste.*' --from now --mode shared
hf publish haste.now '{}'
hf check hasty --max-wait 1ms
has "check does not say that an event has waited for less than the limit" out \
    '^CRITICAL: hasty: the oldest event has waited for [1-9][0-9a-z]*, the limit is 1ms;'
hf sub rm hasty --yes

# --- Overdue ---
hf publish mail.later '{}' --at "$(date -u -d '-5 seconds' +%FT%TZ)"
exits 0 "check exits with 0 if an event for later is due for some seconds" check --json
is "check --json counts events for later that are due" \
    "$(field out 1 '$.later_due') $(field out 1 '$.problems')" "1 []"
hf tick
hf publish note.later '{}' --at "$(date -u -d '-70 seconds' +%FT%TZ)"
exits 2 "an event for later is overdue after a minute" check
hf tick
hf publish mail.later '{}' --at $past
exits 2 "an event for later that is overdue is critical" check
has "check says that no process is there to bring the overdue event" out \
    '^CRITICAL: 1 event for later is overdue, the first [0-9]+d.* ago; no process has the '
"$HOLDFAST" top --count 1000 --interval 1s --json >/dev/null 2>&1 </dev/null &
watcher=$!
watched() { hf check --json; [ "$(field out 1 '$.nodes')" = 1 ]; }
until_true 60 watched
is "check --json counts a process that only looks as a node" "$(field out 1 '$.nodes')" 1
exits 2 "an overdue event is critical while a process only looks" check
has "check says that none of the open processes brings the overdue event" out \
    '^CRITICAL: 1 event for later is overdue, .*; processes have the namespace open, and none '
kill "$watcher"
wait "$watcher"
hf tick
exits 0 "check exits with 0 after tick has brought the overdue event" check
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
exits 2 "an overdue schedule is critical" check
has "check prints how long a schedule is overdue" \
    out '^CRITICAL: 1 schedule is overdue, the first [0-9hms]+ ago; no process has '
exits 2 "check --json is critical with an overdue schedule" check --json
is "check --json names the problem schedules" "$(field out 1 '$.problems[0].check')" schedules
hf schedule rm nightly --yes

# --- Prometheus ---
exits 0 "check --prometheus succeeds with pending events" check --prometheus
has "check --prometheus says that the database takes changes" out '^holdfast_store_up 1$'
is "check --prometheus prints only lines of the Prometheus format" "$(grep -cvE \
    '^(# (HELP|TYPE) holdfast_[a-z_]+ .*|holdfast_[a-z_]+(\{[^}]*\})? -?[0-9.]+)$' \
    out)" 0
is "check --prometheus gives each metric one type" "$(grep '^# TYPE' out | sort | uniq -d)" ''
has "check --prometheus prints the pending events of a subscription" out \
    '^holdfast_pending_events\{namespace="default",subscription="mailer"\} 3$'
has "check --prometheus prints the age of the oldest waiting event" out \
    '^holdfast_oldest_pending_age_seconds\{.*,subscription="mailer"\} [0-9.]+$'
has "check --prometheus prints the status as a number" \
    out '^holdfast_check_status\{namespace="default"\} 0$'
exits 0 "check --prometheus exits with 0 in spite of a critical problem" \
    check --prometheus --max-wait 1ms
has "check --prometheus prints the status of a critical problem as 2" \
    out '^holdfast_check_status\{namespace="default"\} 2$'
hf sub create 'say "hi" \n' --on zz --from now
exits 0 "check --prometheus takes a subscription with quotes in its name" check --prometheus
has "check --prometheus escapes quotes and backslashes of a name" \
    out 'subscription="say \\"hi\\" \\\\n"\} 0$'

# --- More than is looked at, and more than a page ---
if on sqlite; then
    hf sub create rare --on rare --from start
    awk 'BEGIN { for (i = 0; i < 100002; i++) print "{\"type\":\"common\",\"payload\":1}" }' |
        "$HOLDFAST" publish --file - >/dev/null 2>&1
    exits 1 "check warns if the age of the oldest event is not known" check rare
    has "check says that it is not known how long the events wait" \
        out '^WARNING: rare: it is not known how long its events wait: none was '
    exits 0 "check --prometheus succeeds if an age is not known" check rare --prometheus
    hasnt "check --prometheus leaves out an age that is not known" \
        out '^holdfast_oldest_pending_age_seconds\{'
    has "check --prometheus says that more events may be pending" \
        out '^holdfast_pending_more\{.*"rare"\} 1$'
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
    exits 0 "check --prometheus succeeds with 4000 subscriptions" check --prometheus
    is "check --prometheus prints metrics of all 4000 subscriptions" \
        "$(grep -c '^holdfast_dead_letters{' out)" $copies
    exits 0 "stats --json succeeds with 4000 subscriptions" stats --json
    json "stats --json with 4000 subscriptions prints one JSON object" out
    is "stats --json lists all 4000 subscriptions" "$(grep -o '"name":' out | wc -l)" $copies
fi
finish
