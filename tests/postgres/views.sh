#!/usr/bin/env bash
# What people look at from SQL: event_log, dead_letters, stats().
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
now=clock_timestamp\(\)

# --- The log ---
sql "SELECT FROM holdfast.publish('default', 'user.created', '{\"a\":  1}', key => 'k',
    tenant => 't', metadata => '{\"m\": 2}', producer => 'p', expected_version => 0);
     SELECT FROM holdfast.publish('default', 'user.renamed')" >/dev/null
sql "SELECT FROM holdfast_private.namespace_put('it''s \"other\"')" >/dev/null
sql "SELECT FROM holdfast.publish('it''s \"other\"', 'x')" >/dev/null
is "event_log has a row per event, with the bytes that were published" \
    "SELECT position, type, key, tenant, key_version, payload, metadata, producer, schedule_id
    FROM holdfast.event_log WHERE namespace = 'default' ORDER BY position" \
    '1|user.created|k|t|1|{"a":  1}|{"m": 2}|p| 2|user.renamed||||null|||'
is "event_log has the namespace by its name, whatever that is" \
    "SELECT namespace, position FROM holdfast.event_log ORDER BY 1,
    2" "default|1 default|2 it's \"other\"|1"
wanted=namespace,position,id,type,key,tenant,key_version,payload,metadata,producer,schedule_id
is "event_log has no number or hash of ours" \
    "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = 'holdfast.event_log'::regclass AND attnum > 0" \
    "$wanted,emitted_at,entered_at"

# --- Dead letters ---
sql "SELECT FROM holdfast.change_subscription_put(1, 'jobs', '[\"**\"]', '{\"attempts_max\": 2}', 2,
    1, 0, -1, now())" >/dev/null
lease=$(sql "SELECT lease FROM holdfast.claim('default', 'jobs', 1)")
sql "SELECT holdfast.bury('default', 'jobs', '$lease', error => 'no good', node => 'me')" >/dev/null
is "dead_letters has a row per dead letter, with every attempt" \
    "SELECT dead_id, namespace, subscription, position, type, payload, reason, error, attempts,
    attempts_json -> 0 ->> 'error', attempts_json -> 0 ->> 'node', resolved_at
    FROM holdfast.dead_letters" \
    '1|default|jobs|1|user.created|{"a":  1}|rejected|no good|1|no good|me|'
is "dead_letters has resolved ones, too" \
    "SELECT status FROM holdfast.change_dead_resolve(1, 1, 'ada', 'fixed', now());
    SELECT resolved_at IS NULL, resolved_by, resolved_note FROM holdfast.dead_letters" \
    "0 f|ada|fixed"

# --- Numbers ---
sql "SELECT FROM holdfast.publish_many('default', array_fill('t'::text, ARRAY[118]), NULL);
     SELECT FROM holdfast.change_subscription_put(1, 'audit', '[\"**\"]', '{}', 1, 4, 20, -1,
         now())" >/dev/null
figures="namespace, subscription, head, checkpoint, lag, oldest_waiting > '0', in_flight, retrying,
    held, blocked, dead, rate > 0"
wanted="default||120|||t|0|0|0|0|0|t default|audit|120|20|100|t|0|0|0|0|0|f"
wanted="$wanted default|jobs|120|1|119|t|0|0|0|0|0|t it's \"other\"||1||||0|0|0|0|0|t"
is "stats has a row per namespace, then one per subscription; what is not known is NULL" \
    "SELECT $figures FROM holdfast.stats()" "$wanted"
lease=$(sql "SELECT DISTINCT lease FROM holdfast.claim('default', 'jobs', 10)")
sql "SELECT holdfast.ack('default', 'jobs', '$lease', '{2,3}');
    SELECT holdfast.nack('default', 'jobs', '$lease', '{4}', delay_ms => 60000);
    SELECT holdfast.bury('default', 'jobs', '$lease', '{5}')" >/dev/null
is "stats counts what is leased, waits and died" \
    "SELECT checkpoint, lag, in_flight, retrying, dead FROM holdfast.stats('default')
    WHERE subscription = 'jobs'" "3|117|6|1|1"
is "stats of a namespace adds up its subscriptions" \
    "SELECT in_flight, retrying, dead FROM holdfast.stats('default')
    WHERE subscription IS NULL" "6|1|1"
is "oldest_waiting of stats is the age of the oldest event that waits" \
    "UPDATE holdfast_private.events_1 SET entered_at = entered_at - interval '1 ms'
    WHERE position = 4;
     SELECT s.oldest_waiting BETWEEN now() - e.entered_at AND $now - e.entered_at
         FROM holdfast.stats('default') s, holdfast.event_log e WHERE s.subscription = 'jobs'
         AND e.namespace = 'default' AND e.position = 4" "t"
is "stats of a subscription without waiting events has no oldest_waiting" \
    "SELECT FROM holdfast.change_seek(1, (SELECT id FROM holdfast_private.subscriptions
    WHERE name = 'audit'), 120, now()); SELECT checkpoint, lag, oldest_waiting IS NULL
    FROM holdfast.stats('default') WHERE subscription = 'audit'" "120|0|t"
is "stats has a row for a namespace without events" \
    "SELECT FROM holdfast_private.namespace_put('empty');
    SELECT $figures FROM holdfast.stats('empty')" "empty||0||||0|0|0|0|0|f"
fails "stats of an unknown namespace is not found" \
    "SELECT FROM holdfast.stats('nope')" "HF003: there is no namespace nope"

# --- Rate ---
sql "SELECT FROM holdfast_private.namespace_put('fast')" >/dev/null
sql "SELECT holdfast.publish('fast', 't') FROM generate_series(1, 600);
     UPDATE holdfast_private.events SET entered_at = entered_at - interval '5 min',
         checksum = checksum # (extract(epoch FROM entered_at) * 1000000)::bigint #
         (extract(epoch FROM entered_at - interval '5 min') * 1000000)::bigint
         WHERE namespace_id = (SELECT id FROM holdfast_private.namespaces WHERE name = 'fast');
     SELECT holdfast.publish('fast', 't') FROM generate_series(1, 300)" >/dev/null
is "rate of stats is that of the last minute" "SELECT rate FROM holdfast.stats('fast')" "5"
is "position_before finds the position of a time" \
    "SELECT holdfast.position_before(id, now() - interval '1 min'), holdfast.position_before(id,
    now() - interval '1 h'), holdfast.position_before(id, now() + interval '1 h')
    FROM holdfast_private.namespaces WHERE name = 'fast'" "600|0|900"

# at HALVES SQL: runs it, so many half minutes after the last change of a checkpoint, and not at the
# end of one.
at() {
    local side moved="SET span = span + holdfast.span_of($now) - $1 - (SELECT max(span)
        FROM holdfast_private.checkpoints) WHERE span > 0"
    sql "SELECT FROM pg_sleep(CASE WHEN extract(epoch FROM $now)::numeric % 30 > 25 THEN 5.1
        ELSE 0 END)
         $(for side in 0 1; do echo "; UPDATE holdfast_private.checkpoints_$side $moved"; done); $2"
}
# paces CLAIM HALVES WANTED: the rates, as what was settled since the half minute before this one
# began. When they were computed we know only roughly, so of what is wanted it is seen whether it
# may be: between the clock before it and the clock after it.
paces() {
    local pace="rate * extract(epoch FROM t - holdfast.span_began(holdfast.span_of($now) - 1))"
    ok "$1" same "$3" "$(at "$2" "SELECT FROM set_config('test.before', $now::text, false);
        SELECT s.subscription, CASE WHEN w.settled BETWEEN s.least - 0.001 AND s.most + 0.001
            THEN w.settled ELSE s.most END
        FROM (SELECT subscription, ${pace/t -/current_setting(\'test.before\')::timestamptz -} AS
            least, ${pace/t -/$now -} AS most
              FROM holdfast.stats('fast') WHERE subscription IS NOT NULL OFFSET 0) s
            LEFT JOIN (VALUES
            $(sed "s/\([a-z]*\)|\([0-9]*\) */('\1', nullif('\2', '')::numeric),/g; s/,\$//" \
                    <<<"$3")) w (subscription, settled)
            ON w.subscription = s.subscription ORDER BY 1" | paste -sd' ' -)"
}
halves="(SELECT id FROM holdfast_private.subscriptions WHERE name = 'halves')"
owner=00000000-0000-4000-8000-0000000000aa
settle() { # PARTITION CHECKPOINT
    echo "SELECT FROM holdfast_private.namespaces n, holdfast.change_checkpoints(n.id, $halves,
        '$owner', 0, ARRAY[$1], '{0}', '{$2}', '{NULL}', now())
          WHERE n.name = 'fast' AND status = 0"
}
sql "SELECT FROM holdfast_private.namespaces n, holdfast.change_subscription_put(n.id, 'halves',
    '[\"**\"]', '{}', 1, 2, 0, -1, now() - interval '1 h') WHERE n.name = 'fast';
     SELECT FROM holdfast_private.namespaces n, holdfast.change_subscription_put(n.id, 'pull',
         '[\"**\"]', '{}', 2, 1, 0, -1, now() - interval '1 h') WHERE n.name = 'fast';
     UPDATE holdfast_private.partitions SET owner = '$owner'
         WHERE subscription_id = $halves" >/dev/null
paces "a subscription that never moved has a rate of 0" 0 "halves|0 pull|0"
at 2 "$(settle 0 600); SELECT FROM holdfast.claim('fast', 'pull', 10)" >/dev/null
paces "the rate of a subscription is the mean of its partitions, or that of its cursor" 0 \
    "halves|300 pull|10"
at 1 "$(settle 1 600)" >/dev/null
paces "the rate counts what was settled in the half minute before" 0 "halves|600 pull|10"
paces "the rate does not count what was settled two half minutes before" 1 "halves|300 pull|0"
paces "the rate is 0 three half minutes after the last settle" 2 "halves|0 pull|0"
at 2 "$(settle 0 900)" >/dev/null
is "setup: the journal is rotated" "SELECT holdfast_private.rotate(0)" t
paces "rotating the journal keeps the rate" 0 "halves|150 pull|0"
sql "SELECT FROM holdfast_private.namespaces n, holdfast.change_seek(n.id, $halves, 100, $now)
    WHERE n.name = 'fast'" >/dev/null
paces "the rate is not known after a seek, which is not 0" 0 "halves| pull|0"

# --- A caller cannot change what a name means ---
without="FROM pg_proc p WHERE p.prosqlbody IS NULL
    AND p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
    AND NOT coalesce(p.proconfig, '{}')::text ~
        'search_path=pg_catalog, (holdfast_private, holdfast, )?pg_temp'"
is "all functions pin their search_path, have parsed bodies, or name everything" \
    "SELECT string_agg(p.proname, ',' ORDER BY p.proname) $without" \
    "drop_namespace,publish,publish_as,publish_once,publishing,publishing,ticket"
# An operator has no schema before it; := and :: are none. Some words are operators to the server.
words='nullif|between|like|ilike|similar|distinct|any|all|(not|case)\s+\w+\s+(in|when)'
is "functions without a search_path have no operators" \
    "SELECT string_agg(p.proname, ',') $without
         AND regexp_replace(p.prosrc, '--[^\n]*|''[^'']*''|:=|::|USING ERRCODE =', '', 'g')
             ~* '[-+*/<>=~!@#%^&|\`?]|\min\s*[(]|\m($words)\M'" ""

# --- Another release ---
is "a view whose columns get other names is made anew" \
    "SELECT holdfast_private.view_make('holdfast.dead_letters', '', 'SELECT 1 AS one, 2 AS two');
    SELECT one, two FROM holdfast.dead_letters" " 1|2"

done_testing
