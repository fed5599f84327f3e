#!/usr/bin/env bash
# Nodes without the library, and events for later: heartbeat, goodbye and publish_later as SQL
# functions, what they refuse, and that C sees what SQL has done.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
database="postgresql:///$PGDATABASE?host=$PGHOST&user=holdfast"
hf() { "$HOLDFAST" --db "$database" "$@"; }
beat() { sql "SELECT holdfast.heartbeat('default', $1)"; }
# silent NODE TIME: it was last seen so long ago.
silent() {
    sql "UPDATE holdfast_private.processes SET seen_at = seen_at - interval '$2'
        WHERE node_id = '$1'" >/dev/null
}
state() {
    hf node list --all --json | sed -n "s/^{\"node_id\":\"$1\",\"state\":\"\([a-z]*\)\".*/\1/p" |
        paste -sd' ' -
}

# --- Signs of life ---
token=$(beat "'mail-1', description => 'sends mail', metadata => '{\"zone\": 1.50}',
        heartbeat_ms => 3600000")
ok "heartbeat returns a token to a new node" like '????????-????-4???-????-????????????' "$token"
ok "a node that has called heartbeat is live" same live "$(state mail-1)"
ok "node show prints description and metadata of heartbeat" like \
    '*"description":"sends mail","metadata":{"zone": 1.50}}' "$(hf node show mail-1 --json)"
silent mail-1 '4 h'
ok "a node that is silent for three heartbeats is stale" same stale "$(state mail-1)"
ok "heartbeat with the token of the node returns it again" \
    same "$token" "$(beat "'mail-1', '$token'")"
ok "a stale node is live again after heartbeat" same live "$(state mail-1)"
is "heartbeat keeps what the node does not give again" \
    "SELECT renewals, description, metadata, heartbeat_ms, locked FROM holdfast_private.processes
    WHERE node_id = 'mail-1'" '1|sends mail|{"zone": 1.50}|3600000|f'
beat "'mail-1', '$token', description => 'moved', heartbeat_ms => 7200000" >/dev/null
is "heartbeat stores what the node gives anew" \
    "SELECT description, metadata, heartbeat_ms FROM holdfast_private.processes
    WHERE node_id = 'mail-1'" 'moved|{"zone": 1.50}|7200000'
is "a node of heartbeat is not called dead" \
    "SELECT holdfast.dead_of(1, ARRAY['$token']::uuid[])" '{}'
is "heartbeat does not change the state that other processes see" \
    "SELECT a = b FROM (SELECT holdfast.company(1, gen_random_uuid()) AS a) x,
    LATERAL (SELECT holdfast.heartbeat('default', 'mail-1', '$token')) y (t),
    LATERAL (SELECT holdfast.company(1, gen_random_uuid()) AS b WHERE y.t IS NOT NULL) z" t
ok "heartbeat takes a node without options" like '????????-*' "$(beat "'plain'")"
is "a node without options has a heartbeat of 30 seconds" \
    "SELECT heartbeat_ms FROM holdfast_private.processes WHERE node_id = 'plain'" 30000

# --- Two with one id ---
fails "heartbeat without a token for a live node is a conflict" \
    "SELECT holdfast.heartbeat('default', 'mail-1')" \
    'HF004: node mail-1 is live already: by holdfast.heartbeat, since *Z'
fails "heartbeat with another token for a live node is a conflict" \
    "SELECT holdfast.heartbeat('default', 'mail-1', gen_random_uuid())" \
    'HF004: *'
ok "work with the --node-id of a live node is a conflict" \
    same 4 "$(hf work none --on none --from now --node-id mail-1 \
        --until-empty --exec true >/dev/null 2>&1; echo $?)"
silent mail-1 '7 h'
second=$(beat "'mail-1', heartbeat_ms => 3600000")
ok "heartbeat takes the id of a silent node" like '????????-*' "$second"
fails "a silent node whose id was taken is refused when it comes back" \
    "SELECT holdfast.heartbeat('default', 'mail-1', '$token')" 'HF004: node mail-1 is live already*'
ok "the node that took the id goes on" same "$second" "$(beat "'mail-1', '$second'")"
ok "node list shows both nodes with one id" same "live stale" "$(state mail-1)"
fails "heartbeat refuses the token of another node" \
    "SELECT holdfast.heartbeat('default', 'plain', '$second')" \
    'HF001: token is not one of node plain'
fails "goodbye refuses the token of another node" \
    "SELECT holdfast.goodbye('default', 'plain', '$second')" \
    'HF001: token is not one of node plain'
other=$(sql "SELECT id FROM holdfast_private.namespace_put('other')")
fails "heartbeat refuses the token of another namespace" \
    "SELECT holdfast.heartbeat('other', 'mail-1', '$second')" \
    'HF001: token is not one of node mail-1'
is "a node of another namespace may have the same id" \
    "SELECT holdfast.heartbeat('other', 'mail-1', heartbeat_ms => 3600000) IS NOT NULL" t
"$HOLDFAST" --db "$database" work jobs --on none --from now --node-id worker \
    --exec true >/dev/null 2>&1 &
worker=$!
trap 'kill "$worker" 2>/dev/null; cluster_stop' EXIT
is_live() { [ "$(state worker)" = live ]; }
ok "a process of the library is live" until_true 60 is_live
fails "heartbeat with the id of a process of the library is a conflict" \
    "SELECT holdfast.heartbeat('default', 'worker')" \
    "HF004: node worker is live already: process $worker on *"
fails "heartbeat refuses the token of a process of the library" \
    "SELECT holdfast.heartbeat('default', 'worker', token)
    FROM holdfast_private.processes WHERE node_id = 'worker'" \
    'HF001: token is not one of node worker'
fails "goodbye refuses the token of a process of the library" \
    "SELECT holdfast.goodbye('default', 'worker', token)
    FROM holdfast_private.processes WHERE node_id = 'worker'" 'HF001: *'
open a
open b
ask b "SET lock_timeout = '60s'" >/dev/null # it need not be waited for so long
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'twin')" >/dev/null
tell b "SELECT holdfast.heartbeat('default', 'twin')"
ok "a second heartbeat of one id waits for the first" blocked b
ask a COMMIT >/dev/null
hears "the second heartbeat of one id is refused" b 'ERROR:  HF004'
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'cuckoo',
    '00000000-0000-4000-8000-0000000000cc')" >/dev/null
tell b "SELECT holdfast.heartbeat('default', 'chick', '00000000-0000-4000-8000-0000000000cc')"
ok "a second heartbeat of one token waits for the first" blocked b
ask a COMMIT >/dev/null
hears "the second heartbeat of one token is refused" b 'ERROR:  HF001'
is "the first heartbeat of one token is stored as it was" \
    "SELECT node_id, renewals FROM holdfast_private.processes
    WHERE token = '00000000-0000-4000-8000-0000000000cc'" 'cuckoo|0'

# One registers in a transaction that goes on: whom does it keep waiting?
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'slow-1')" >/dev/null
ask b "SET statement_timeout = '30s'" >/dev/null
asks "a node that registers in a long transaction does not keep others from sleep" b \
    "SELECT holdfast.sleep(1, 1000) > 0" t
asks "a node that registers in a long transaction does not keep others from awake" \
    b "SELECT holdfast.awake(1, 0)" f
asks "a second node registers beside a long transaction" \
    b "SELECT holdfast.heartbeat('default', 'slow-2') IS NOT NULL" t
ok "a process registers beside a long transaction of a node" \
    timeout 60 "$HOLDFAST" --db "$database" work none --on none --from now \
    --node-id slow-3 --until-empty --exec true
holder="FROM holdfast_private.processes p JOIN pg_locks l ON l.locktype = 'advisory'
    AND l.objsubid = 1 AND l.granted
    AND l.classid::bigint << 32 | l.objid::bigint = p.lock_key AND l.pid = p.backend
    JOIN holdfast_private.namespaces n ON n.id = p.namespace_id WHERE p.node_id = 'worker'"
IFS='|' read -r backend renewals flag \
    <<<"$(sql "SELECT l.pid, p.renewals, pg_sequence_last_value(n.sleep) $holder")"
wanted="process ${session_backend[a]} of role holdfast (psql, idle in transaction for * s) is"
wanted="$wanted registering a node and has not ended its transaction; waited 10ms for it: another"
wanted="$wanted node may get the id slow-1, too"
ok "node_lock for the same id names the session that it waited for" like "$wanted" \
    "$(ask b "SET lock_timeout = '10ms'; SELECT holdfast_private.node_lock(1, false, 'slow-1')")"
ok "heartbeat for the same id registers with a warning after a while" \
    like "WARNING:  01000 ????????-*" \
    "$(ask b "SELECT holdfast.heartbeat('default', 'slow-1')")"
ask b "RESET lock_timeout" >/dev/null
ask a "SELECT holdfast_private.node_lock(1, false, 'worker')" >/dev/null \
    # as one that comes with its id does
is "setup: the session of a process is ended" "SELECT pg_terminate_backend($backend)" t
back="SELECT count(*) $holder AND l.pid <> $backend AND p.renewals > $renewals
    AND pg_sequence_last_value(n.sleep) > $flag"
ok "a process that lost its session registers again and waits for news" becomes "$back" 1
ask b "RESET statement_timeout" >/dev/null
tell b "SELECT status FROM holdfast_private.namespace_mark(1, 'default', false)"
ok "removing a namespace waits for a node that registers" blocked b
ask a COMMIT >/dev/null
hears "removing a namespace is a conflict after the node has registered" b 4

asks "heartbeat refuses a transaction that is REPEATABLE READ" \
    a "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT holdfast.heartbeat('default', 'twin-2')" 'ERROR:  HF002'
ask a ROLLBACK >/dev/null
asks "setup: a heartbeat is rolled back" a "BEGIN; SELECT holdfast.heartbeat('default', 'never',
    '00000000-0000-4000-8000-0000000000dd'); ROLLBACK" 00000000-0000-4000-8000-0000000000dd
is "a node whose heartbeat was rolled back does not exist" \
    "SELECT count(*) FROM holdfast_private.processes WHERE node_id = 'never'" 0

# --- The end ---
is "goodbye returns true for a node" "SELECT holdfast.goodbye('default', 'mail-1', '$second')" t
is "goodbye returns false for a node that has stopped" \
    "SELECT holdfast.goodbye('default', 'mail-1', '$second')" f
is "goodbye stores that the node has stopped" \
    "SELECT stopped_at IS NOT NULL, description FROM holdfast_private.past_nodes
    WHERE node_id = 'mail-1'" 't|'
ok "a stale node may beat again after the other one has stopped" \
    same "$token" "$(beat "'mail-1', '$token'")"
is "goodbye returns true for the stale node" \
    "SELECT holdfast.goodbye('default', 'mail-1', '$token')" t
ok "node list shows a node that has stopped as gone" same gone "$(state mail-1)"
ok "heartbeat takes the token of a node that has stopped" \
    same "$token" "$(beat "'mail-1', '$token'")"
ok "a node that has stopped is live again after heartbeat" same live "$(state mail-1)"
sql "SELECT holdfast.goodbye('default', 'mail-1', '$token')" >/dev/null
sql "SELECT FROM holdfast.heartbeat('other', 'quiet')" >/dev/null # no process clears up there
silent quiet '25 h'
is "a node that is silent for a day is stale before a tick" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'quiet')" 2
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "a node that is silent for a day is gone after a tick" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'quiet')" 3
is "a node that is gone after silence has no stopped_at" \
    "SELECT stopped_at IS NULL FROM holdfast_private.past_nodes WHERE node_id = 'quiet'" t
sql "SELECT FROM holdfast.heartbeat('other', 'slow', heartbeat_ms => 86400000)" >/dev/null
silent slow '2 d'
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "a node whose heart beats once a day is live for three" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'slow')" 1
silent slow '2 d'
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "a node whose heart beats once a day is gone after four days" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'slow')" 3
is "a tick keeps nodes that are not silent" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'mail-1')" 1

# A session that clears up waits for no transaction of another.
lazy=$(sql "SELECT holdfast.heartbeat('other', 'lazy')")
silent lazy '25 h'
ask a "BEGIN; SELECT FROM holdfast.heartbeat('other', 'lazy', '$lazy')" >/dev/null
ask b "SET statement_timeout = '30s'" >/dev/null
asks "process_sweep passes over a node that beats in a long transaction" b \
    "SELECT holdfast.process_sweep($other)" 0
ask a ROLLBACK >/dev/null
asks "process_sweep takes the node after the transaction was rolled back" \
    b "SELECT holdfast.process_sweep($other)" 1
first=$(sql "SELECT holdfast.heartbeat('other', 'bye-1')")
last=$(sql "SELECT holdfast.heartbeat('other', 'bye-2')")
sql "UPDATE holdfast_private.past_nodes SET ended_at = ended_at - interval '2 d'
    WHERE node_id = 'lazy'" >/dev/null
asks "goodbye succeeds in a long transaction" a \
    "BEGIN; SELECT holdfast.goodbye('other', 'bye-1', '$first')" t
asks "goodbye of another node does not wait for a long transaction" \
    b "SELECT holdfast.goodbye('other', 'bye-2', '$last')" t
ask a COMMIT >/dev/null
ask b "RESET statement_timeout" >/dev/null
is "goodbye deletes past nodes that are old" \
    "SELECT count(*) FROM holdfast_private.past_nodes WHERE node_id = 'lazy'" 0

# --- Copying into its namespace ---
copy_begins="SELECT status FROM holdfast_private.copy_begin('target', 'source', 'run', false)"
target=$(sql "SELECT id FROM holdfast_private.namespace_put('target')")
ask a "BEGIN; SELECT FROM holdfast.heartbeat('target', 'guest',
    '00000000-0000-4000-8000-0000000000ee')" >/dev/null
tell b "$copy_begins"
ok "a copy into a namespace waits for a node that registers" blocked b
ask a COMMIT >/dev/null
hears "a copy into a namespace with a live node is a conflict" b 4
sql "SELECT holdfast.goodbye('target', 'guest', '00000000-0000-4000-8000-0000000000ee')" >/dev/null
ask a "BEGIN; $copy_begins" >/dev/null
tell b "SELECT status, message FROM holdfast.node_register($target, gen_random_uuid(), false, false,
    'late', false, 'late', NULL, NULL, NULL, 1, NULL, 30000)"
ok "a node that registers waits for a copy into the namespace" blocked b
ask a COMMIT >/dev/null
hears "a node is refused while the namespace is a copy that is not complete" \
    b '11|the namespace is a copy that is not complete'

# --- Removing its namespace ---
remove() { hf namespace rm other --yes "$@" 2>&1 | head -1; }
"$HOLDFAST" --db "$database" --namespace other tail --follow >/dev/null 2>&1 &
tail=$!
trap 'kill "$worker" "$tail" 2>/dev/null; cluster_stop' EXIT
becomes "SELECT count(*) FROM holdfast_private.processes WHERE namespace_id = $other AND locked" 1
ok "a namespace is not removed while nodes are live" like \
    "*namespace other is open in 2 processes: *mail-1*" "$(remove)"
silent mail-1 '4 h'
sql "UPDATE holdfast_private.processes SET seen_at = seen_at - interval '4 h'
    WHERE namespace_id = $other AND locked" >/dev/null
ok "a namespace is not removed while a process has it open, but a silent node is ignored" like \
    "*namespace other is open in 1 process: *" "$(remove)"
kill "$tail"
wait "$tail" 2>/dev/null
# If it was ended before it was ready to be told, its session ends a moment later.
removed() { same "Namespace other removed." "$(remove)"; }
ok "a namespace is removed after its processes have ended" until_true 60 removed
fails "heartbeat in a removed namespace is not found" \
    "SELECT holdfast.heartbeat('other', 'mail-1')" \
    'HF003: there is no namespace other'

# --- What is refused ---
for id in "''" NULL "'a b'" "'a/b'" "'ä'" "E'a\\n'" "repeat('x', 129)"; do
    fails "heartbeat refuses the node id $id" \
        "SELECT holdfast.heartbeat('default', $id)" 'HF001: node *'
done
is "heartbeat takes a node id of 128 bytes" \
    "SELECT holdfast.goodbye('default', n, holdfast.heartbeat('default', n))
    FROM (SELECT repeat('x', 128)) v (n)" t
fails "heartbeat refuses a description of 1025 bytes" "SELECT holdfast.heartbeat('default', 'x',
    description => repeat('x', 1025))" 'HF001: description is 1025 bytes; the limit is 1024'
fails "heartbeat refuses a description with a control character" \
    "SELECT holdfast.heartbeat('default', 'x',
    description => E'a\\u001b')" 'HF001: description has a control character'
fails "heartbeat refuses metadata that is no object" \
    "SELECT holdfast.heartbeat('default', 'x', metadata => '[]')" \
    'HF001: metadata is JSON but not an object'
fails "heartbeat refuses metadata above 4096 bytes" \
    "SELECT holdfast.heartbeat('default', 'x', metadata => json_build_object('x',
    repeat('x', 4096)))" 'HF001: metadata is 41?? bytes; the limit is 4096'
fails "heartbeat refuses metadata with a NUL" "SELECT holdfast.heartbeat('default', 'x',
    metadata => '{\"x\": \"\\u0000\"}')" 'HF001: metadata has *'
fails "heartbeat refuses a heartbeat_ms of 999" \
    "SELECT holdfast.heartbeat('default', 'x', heartbeat_ms => 999)" \
    'HF001: heartbeat_ms is 999; it takes 1000 to 86400000'
fails "heartbeat refuses a heartbeat_ms above a day" \
    "SELECT holdfast.heartbeat('default', 'x', heartbeat_ms => 86400001)" \
    'HF001: heartbeat_ms *'
fails "heartbeat in an unknown namespace is not found" "SELECT holdfast.heartbeat('no', 'x')" \
    'HF003: there is no namespace no'
fails "goodbye in an unknown namespace is not found" \
    "SELECT holdfast.goodbye('no', 'x', gen_random_uuid())" \
    'HF003: there is no namespace no'
is "a refused heartbeat stores no node" \
    "SELECT count(*) FROM holdfast_private.processes WHERE node_id = 'x'" 0

# --- For later ---
later() { echo "SELECT position, duplicate FROM holdfast.publish_later('default', $1)"; }
one=00000000-0000-4000-8000-000000000001
is "publish_later keeps an event" \
    "$(later "'later.on', '{\"n\": 1.50}', now() + interval '1 h', id => '$one',
        key => 'k', tenant => 't', metadata => '{\"m\": 1}', producer => 'p'")" '|f'
is "publish_later with the same id returns a duplicate" \
    "$(later "'later.on', '2', now(), id => '$one'")" '|t'
is "an event of publish_later is not in the log" "SELECT count(*) FROM holdfast.event_log" 0
is "timers_next returns the time of the event that waits" \
    "SELECT holdfast.timers_next(1) = due_at FROM holdfast_private.delayed" t
is "publish_later without an id gives one of version 7" "SELECT id::text LIKE '________-____-7%'
    FROM holdfast.publish_later('default', 'much.later', NULL, now() + interval '1 d')" t
asks "setup: publish_later is rolled back" a "BEGIN; $(later "'never', '1', now()"); ROLLBACK" '|f'
sql "$(later "'soon', '1', clock_timestamp() + interval '1 s',
        id => '00000000-0000-4000-8000-000000000002'")" >/dev/null
becomes "SELECT count(*) > 0 FROM holdfast.event_log" t
is "a process brings into the log what is due, and nothing else" \
    "SELECT type FROM holdfast.event_log" soon
is "publish_later with the id of an event in the log returns its position" \
    "$(later "'soon', '1', now() + interval '1 d', id => '00000000-0000-4000-8000-000000000002'")" \
    '1|t'
kill "$worker"
wait "$worker" 2>/dev/null
sql "UPDATE holdfast_private.delayed SET due_at = now() WHERE id = '$one'" >/dev/null
is "tick brings an event that is due" "SELECT released FROM holdfast.tick('default')" 1
is "an event of publish_later enters the log as it was given" \
    "SELECT type, key, tenant, metadata, producer, payload, schedule_id IS NULL
    FROM holdfast.event_log WHERE id = '$one'" 'later.on|k|t|{"m": 1}|p|{"n": 1.50}|t'
is "an event of publish_later has the hash that publish gives" \
    "SELECT count(DISTINCT hash) FROM holdfast_private.events,
    holdfast.publish('default', 'now', tenant => 't') p WHERE tenant = 't'" 1
sql "$(later "'past', '1', '2001-01-01'")" >/dev/null
is "publish_later with a time in the past is due at once" \
    "SELECT released FROM holdfast.tick('default')" 1
fails "publish_later refuses a deliver_at that is NULL" \
    "$(later "'t', '1', NULL")" 'HF001: deliver_at is missing; publish needs none'
fails "publish_later refuses the time infinity" "$(later "'t', '1', 'infinity'")" \
    'HF001: deliver_at is outside the years 0001 to 9999'
fails "publish_later refuses a type with a star" "$(later "'*', '1', now()")" 'HF001: type has*'
fails "publish_later refuses a payload with a NUL" "$(later "'t', '\"\\u0000\"', now()")" \
    'HF001: payload has *'
fails "publish_later refuses metadata that is no object" \
    "$(later "'t', '1', now(), metadata => '1'")" \
    'HF001: metadata is JSON but not an object'
fails "publish_later in an unknown namespace is not found" \
    "SELECT holdfast.publish_later('no', 't', '1', now())" \
    'HF003: there is no namespace no'
is "refused and rolled back calls of publish_later leave nothing" \
    "SELECT type, payload FROM holdfast_private.delayed" 'much.later|null'
is "verify finds nothing after heartbeats and publish_later" \
    "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1
shut a
shut b
done_testing
