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
ok "a node gets a token" like '????????-????-4???-????-????????????' "$token"
ok "and is live" same live "$(state mail-1)"
ok "the command shows what it says about itself" like \
    '*"description":"sends mail","metadata":{"zone": 1.50}}' "$(hf node show mail-1 --json)"
silent mail-1 '4 h'
ok "silent for three heartbeats it is stale" same stale "$(state mail-1)"
ok "with its token it is the same node" same "$token" "$(beat "'mail-1', '$token'")"
ok "and live again" same live "$(state mail-1)"
is "what it does not say again stays" \
    "SELECT renewals, description, metadata, heartbeat_ms, locked FROM holdfast_private.processes
    WHERE node_id = 'mail-1'" '1|sends mail|{"zone": 1.50}|3600000|f'
beat "'mail-1', '$token', description => 'moved', heartbeat_ms => 7200000" >/dev/null
is "what it does say is new" \
    "SELECT description, metadata, heartbeat_ms FROM holdfast_private.processes
    WHERE node_id = 'mail-1'" 'moved|{"zone": 1.50}|7200000'
is "it is not called dead" "SELECT holdfast.dead_of(1, ARRAY['$token']::uuid[])" '{}'
is "and heartbeats do not change what others see of the company" \
    "SELECT a = b FROM (SELECT holdfast.company(1, gen_random_uuid()) AS a) x,
    LATERAL (SELECT holdfast.heartbeat('default', 'mail-1', '$token')) y (t),
    LATERAL (SELECT holdfast.company(1, gen_random_uuid()) AS b WHERE y.t IS NOT NULL) z" t
ok "one without anything said" like '????????-*' "$(beat "'plain'")"
is "beats every 30 seconds" \
    "SELECT heartbeat_ms FROM holdfast_private.processes WHERE node_id = 'plain'" 30000

# --- Two with one id ---
fails "another one with the id of a live one" "SELECT holdfast.heartbeat('default', 'mail-1')" \
    'HF004: node mail-1 is live already: by holdfast.heartbeat, since *Z'
fails "or a token of its own" "SELECT holdfast.heartbeat('default', 'mail-1', gen_random_uuid())" \
    'HF004: *'
ok "or a process of the library" same 4 "$(hf work none --on none --from now --node-id mail-1 \
        --until-empty --exec true >/dev/null 2>&1; echo $?)"
silent mail-1 '7 h'
second=$(beat "'mail-1', heartbeat_ms => 3600000")
ok "takes the place of a silent one" like '????????-*' "$second"
fails "which hears of it when it comes back" \
    "SELECT holdfast.heartbeat('default', 'mail-1', '$token')" 'HF004: node mail-1 is live already*'
ok "the other one does not" same "$second" "$(beat "'mail-1', '$second'")"
ok "both are seen" same "live stale" "$(state mail-1)"
fails "a token of another node" "SELECT holdfast.heartbeat('default', 'plain', '$second')" \
    'HF001: token is not one of node plain'
fails "does not stop it, either" "SELECT holdfast.goodbye('default', 'plain', '$second')" \
    'HF001: token is not one of node plain'
other=$(sql "SELECT id FROM holdfast_private.namespace_put('other')")
fails "nor a node of another namespace" "SELECT holdfast.heartbeat('other', 'mail-1', '$second')" \
    'HF001: token is not one of node mail-1'
is "which may have the id" \
    "SELECT holdfast.heartbeat('other', 'mail-1', heartbeat_ms => 3600000) IS NOT NULL" t
"$HOLDFAST" --db "$database" work jobs --on none --from now --node-id worker \
    --exec true >/dev/null 2>&1 &
worker=$!
trap 'kill "$worker" 2>/dev/null; cluster_stop' EXIT
is_live() { [ "$(state worker)" = live ]; }
ok "a process of the library is live" until_true 60 is_live
fails "and keeps its id" "SELECT holdfast.heartbeat('default', 'worker')" \
    "HF004: node worker is live already: process $worker on *"
fails "and its token" "SELECT holdfast.heartbeat('default', 'worker', token)
    FROM holdfast_private.processes WHERE node_id = 'worker'" \
    'HF001: token is not one of node worker'
fails "with which no other stops it" "SELECT holdfast.goodbye('default', 'worker', token)
    FROM holdfast_private.processes WHERE node_id = 'worker'" 'HF001: *'
open a
open b
ask b "SET lock_timeout = '60s'" >/dev/null # it need not be waited for so long
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'twin')" >/dev/null
tell b "SELECT holdfast.heartbeat('default', 'twin')"
ok "two that come at once come one after the other" blocked b
ask a COMMIT >/dev/null
hears "and one is refused" b 'ERROR:  HF004'
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'cuckoo',
    '00000000-0000-4000-8000-0000000000cc')" >/dev/null
tell b "SELECT holdfast.heartbeat('default', 'chick', '00000000-0000-4000-8000-0000000000cc')"
ok "so do two with one token" blocked b
ask a COMMIT >/dev/null
hears "of which the second is refused" b 'ERROR:  HF001'
is "and the first is as it was" "SELECT node_id, renewals FROM holdfast_private.processes
    WHERE token = '00000000-0000-4000-8000-0000000000cc'" 'cuckoo|0'

# One registers in a transaction that goes on: whom does it keep waiting?
ask a "BEGIN; SELECT FROM holdfast.heartbeat('default', 'slow-1')" >/dev/null
ask b "SET statement_timeout = '30s'" >/dev/null
asks "one registers in a long transaction: others declare that they sleep" b \
    "SELECT holdfast.sleep(1, 1000) > 0" t
asks "and that they are awake" b "SELECT holdfast.awake(1, 0)" f
asks "another node registers" b "SELECT holdfast.heartbeat('default', 'slow-2') IS NOT NULL" t
ok "so does a process" timeout 60 "$HOLDFAST" --db "$database" work none --on none --from now \
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
ok "one with the same id waits for a while, and hears for whom" like "$wanted" \
    "$(ask b "SET lock_timeout = '10ms'; SELECT holdfast_private.node_lock(1, false, 'slow-1')")"
ok "then it is registered, with a warning" like "WARNING:  01000 ????????-*" \
    "$(ask b "SELECT holdfast.heartbeat('default', 'slow-1')")"
ask b "RESET lock_timeout" >/dev/null
ask a "SELECT holdfast_private.node_lock(1, false, 'worker')" >/dev/null \
    # as one that comes with its id does
is "a process that lost its connection" "SELECT pg_terminate_backend($backend)" t
back="SELECT count(*) $holder AND l.pid <> $backend AND p.renewals > $renewals
    AND pg_sequence_last_value(n.sleep) > $flag"
ok "registers again, shows signs of life, and waits for news" becomes "$back" 1
ask b "RESET statement_timeout" >/dev/null
tell b "SELECT status FROM holdfast_private.namespace_mark(1, 'default', false)"
ok "a removal of the namespace waits" blocked b
ask a COMMIT >/dev/null
hears "and hears who is there" b 4

asks "a snapshot of before would not show the other one" a "BEGIN ISOLATION LEVEL REPEATABLE READ;
    SELECT holdfast.heartbeat('default', 'twin-2')" 'ERROR:  HF002'
ask a ROLLBACK >/dev/null
asks "what is rolled back" a "BEGIN; SELECT holdfast.heartbeat('default', 'never',
    '00000000-0000-4000-8000-0000000000dd'); ROLLBACK" 00000000-0000-4000-8000-0000000000dd
is "was never there" "SELECT count(*) FROM holdfast_private.processes WHERE node_id = 'never'" 0

# --- The end ---
is "a node says goodbye" "SELECT holdfast.goodbye('default', 'mail-1', '$second')" t
is "once" "SELECT holdfast.goodbye('default', 'mail-1', '$second')" f
is "it has stopped" "SELECT stopped_at IS NOT NULL, description FROM holdfast_private.past_nodes
    WHERE node_id = 'mail-1'" 't|'
ok "the silent one is back, then" same "$token" "$(beat "'mail-1', '$token'")"
is "stopped, too" "SELECT holdfast.goodbye('default', 'mail-1', '$token')" t
ok "both are gone" same gone "$(state mail-1)"
ok "a token that is not registered any more is, again" same "$token" "$(beat "'mail-1', '$token'")"
ok "and is live" same live "$(state mail-1)"
sql "SELECT holdfast.goodbye('default', 'mail-1', '$token')" >/dev/null
sql "SELECT FROM holdfast.heartbeat('other', 'quiet')" >/dev/null # no process clears up there
silent quiet '25 h'
is "one that is silent for a day is stale" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'quiet')" 2
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "until a session ticks: it is gone" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'quiet')" 3
is "without a word" \
    "SELECT stopped_at IS NULL FROM holdfast_private.past_nodes WHERE node_id = 'quiet'" t
sql "SELECT FROM holdfast.heartbeat('other', 'slow', heartbeat_ms => 86400000)" >/dev/null
silent slow '2 d'
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "whose heart beats once a day is live for three" \
    "SELECT state FROM holdfast.node_list($other, NULL, 'slow')" 1
silent slow '2 d'
sql "SELECT FROM holdfast.tick('other')" >/dev/null
is "then it is gone" "SELECT state FROM holdfast.node_list($other, NULL, 'slow')" 3
is "those that are not stay" "SELECT state FROM holdfast.node_list($other, NULL, 'mail-1')" 1

# A session that clears up waits for no transaction of another.
lazy=$(sql "SELECT holdfast.heartbeat('other', 'lazy')")
silent lazy '25 h'
ask a "BEGIN; SELECT FROM holdfast.heartbeat('other', 'lazy', '$lazy')" >/dev/null
ask b "SET statement_timeout = '30s'" >/dev/null
asks "one that beats in a long transaction is passed over" b \
    "SELECT holdfast.process_sweep($other)" 0
ask a ROLLBACK >/dev/null
asks "until the next time" b "SELECT holdfast.process_sweep($other)" 1
first=$(sql "SELECT holdfast.heartbeat('other', 'bye-1')")
last=$(sql "SELECT holdfast.heartbeat('other', 'bye-2')")
sql "UPDATE holdfast_private.past_nodes SET ended_at = ended_at - interval '2 d'
    WHERE node_id = 'lazy'" >/dev/null
asks "one says goodbye in a long transaction" a \
    "BEGIN; SELECT holdfast.goodbye('other', 'bye-1', '$first')" t
asks "and keeps no other one from it" b "SELECT holdfast.goodbye('other', 'bye-2', '$last')" t
ask a COMMIT >/dev/null
ask b "RESET statement_timeout" >/dev/null
is "what is old is forgotten" \
    "SELECT count(*) FROM holdfast_private.past_nodes WHERE node_id = 'lazy'" 0

# --- Copying into its namespace ---
copy_begins="SELECT status FROM holdfast_private.copy_begin('target', 'source', 'run', false)"
target=$(sql "SELECT id FROM holdfast_private.namespace_put('target')")
ask a "BEGIN; SELECT FROM holdfast.heartbeat('target', 'guest',
    '00000000-0000-4000-8000-0000000000ee')" >/dev/null
tell b "$copy_begins"
ok "a copy into a namespace waits for a node that registers" blocked b
ask a COMMIT >/dev/null
hears "and hears who is there" b 4
sql "SELECT holdfast.goodbye('target', 'guest', '00000000-0000-4000-8000-0000000000ee')" >/dev/null
ask a "BEGIN; $copy_begins" >/dev/null
tell b "SELECT status, message FROM holdfast.node_register($target, gen_random_uuid(), false, false,
    'late', false, 'late', NULL, NULL, NULL, 1, NULL, 30000)"
ok "a node that registers waits for a copy into the namespace" blocked b
ask a COMMIT >/dev/null
hears "and is refused" b '11|the namespace is a copy that is not complete'

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
ok "one that is silent does not keep it, but a process that exists does" like \
    "*namespace other is open in 1 process: *" "$(remove)"
kill "$tail"
wait "$tail" 2>/dev/null
# If it was ended before it was ready to be told, its session ends a moment later.
removed() { same "Namespace other removed." "$(remove)"; }
ok "until it ends" until_true 60 removed
fails "and the silent one hears of it" "SELECT holdfast.heartbeat('other', 'mail-1')" \
    'HF003: there is no namespace other'

# --- What is refused ---
for id in "''" NULL "'a b'" "'a/b'" "'ä'" "E'a\\n'" "repeat('x', 129)"; do
    fails "node $id" "SELECT holdfast.heartbeat('default', $id)" 'HF001: node *'
done
is "the longest id" "SELECT holdfast.goodbye('default', n, holdfast.heartbeat('default', n))
    FROM (SELECT repeat('x', 128)) v (n)" t
fails "a long description" "SELECT holdfast.heartbeat('default', 'x',
    description => repeat('x', 1025))" 'HF001: description is 1025 bytes; the limit is 1024'
fails "one with control characters" "SELECT holdfast.heartbeat('default', 'x',
    description => E'a\\u001b')" 'HF001: description has a control character'
fails "metadata that is no object" "SELECT holdfast.heartbeat('default', 'x', metadata => '[]')" \
    'HF001: metadata is JSON but not an object'
fails "long metadata" "SELECT holdfast.heartbeat('default', 'x', metadata => json_build_object('x',
    repeat('x', 4096)))" 'HF001: metadata is 41?? bytes; the limit is 4096'
fails "metadata that cannot be stored" "SELECT holdfast.heartbeat('default', 'x',
    metadata => '{\"x\": \"\\u0000\"}')" 'HF001: metadata has *'
fails "a heart that is too fast" "SELECT holdfast.heartbeat('default', 'x', heartbeat_ms => 999)" \
    'HF001: heartbeat_ms is 999; it takes 1000 to 86400000'
fails "or too slow" "SELECT holdfast.heartbeat('default', 'x', heartbeat_ms => 86400001)" \
    'HF001: heartbeat_ms *'
fails "a namespace that is none" "SELECT holdfast.heartbeat('no', 'x')" \
    'HF003: there is no namespace no'
fails "for a goodbye, too" "SELECT holdfast.goodbye('no', 'x', gen_random_uuid())" \
    'HF003: there is no namespace no'
is "and nothing is left of it" \
    "SELECT count(*) FROM holdfast_private.processes WHERE node_id = 'x'" 0

# --- For later ---
later() { echo "SELECT position, duplicate FROM holdfast.publish_later('default', $1)"; }
one=00000000-0000-4000-8000-000000000001
is "an event is kept" "$(later "'later.on', '{\"n\": 1.50}', now() + interval '1 h', id => '$one',
        key => 'k', tenant => 't', metadata => '{\"m\": 1}', producer => 'p'")" '|f'
is "once" "$(later "'later.on', '2', now(), id => '$one'")" '|t'
is "it is not in the log" "SELECT count(*) FROM holdfast.event_log" 0
is "and the namespace waits for it" \
    "SELECT holdfast.timers_next(1) = due_at FROM holdfast_private.delayed" t
is "it gets an id of version 7" "SELECT id::text LIKE '________-____-7%'
    FROM holdfast.publish_later('default', 'much.later', NULL, now() + interval '1 d')" t
asks "what is rolled back" a "BEGIN; $(later "'never', '1', now()"); ROLLBACK" '|f'
sql "$(later "'soon', '1', clock_timestamp() + interval '1 s',
        id => '00000000-0000-4000-8000-000000000002'")" >/dev/null
becomes "SELECT count(*) > 0 FROM holdfast.event_log" t
is "a process brings into the log what is due, and nothing else" \
    "SELECT type FROM holdfast.event_log" soon
is "its id answers its position" \
    "$(later "'soon', '1', now() + interval '1 d', id => '00000000-0000-4000-8000-000000000002'")" \
    '1|t'
kill "$worker"
wait "$worker" 2>/dev/null
sql "UPDATE holdfast_private.delayed SET due_at = now() WHERE id = '$one'" >/dev/null
is "so does tick" "SELECT released FROM holdfast.tick('default')" 1
is "as it was given" "SELECT type, key, tenant, metadata, producer, payload, schedule_id IS NULL
    FROM holdfast.event_log WHERE id = '$one'" 'later.on|k|t|{"m": 1}|p|{"n": 1.50}|t'
is "with the hash that publishing gives" "SELECT count(DISTINCT hash) FROM holdfast_private.events,
    holdfast.publish('default', 'now', tenant => 't') p WHERE tenant = 't'" 1
sql "$(later "'past', '1', '2001-01-01'")" >/dev/null
is "a time that is past is due at once" "SELECT released FROM holdfast.tick('default')" 1
fails "no time" "$(later "'t', '1', NULL")" 'HF001: deliver_at is missing; publish needs none'
fails "no time of the calendar" "$(later "'t', '1', 'infinity'")" \
    'HF001: deliver_at is outside the years 0001 to 9999'
fails "a type with a star" "$(later "'*', '1', now()")" 'HF001: type has*'
fails "a payload that cannot be stored" "$(later "'t', '\"\\u0000\"', now()")" \
    'HF001: payload has *'
fails "metadata that is no object" "$(later "'t', '1', now(), metadata => '1'")" \
    'HF001: metadata is JSON but not an object'
fails "a namespace that is none" "SELECT holdfast.publish_later('no', 't', '1', now())" \
    'HF003: there is no namespace no'
is "and only one is left" "SELECT type, payload FROM holdfast_private.delayed" 'much.later|null'
is "and verify finds nothing" "SELECT '$(hf verify 2>&1 | grep -c ' 0 findings')'" 1
shut a
shut b
done_testing
