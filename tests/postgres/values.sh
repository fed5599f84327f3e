#!/usr/bin/env bash
# Values that no program of ours sends: arrays with other subscripts or dimensions than usual, and
# more elements or bytes than there may be. Each is refused before anything is stored: what is
# checked by its subscripts and written by unnest, or the other way round, would be two different
# things.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
sql "SELECT holdfast.create_subscription('default', 'jobs', '{**}', 'start', mode => 'shared');
     SELECT holdfast.create_subscription('default', 'line', '{**}', 'start', 'ordered')" >/dev/null
grants=$(sql "SELECT current_setting('server_version_num')::integer >= 150000")
role=holdfast
if [ "$grants" = t ]; then
    role=app
    sql "CREATE ROLE app LOGIN;
        SELECT holdfast.namespace_grant('owner', 'default', 'app')" >/dev/null
fi
refused() { # WHAT SQL
    fails "an array that is not as usual is refused: $1" "SET ROLE $role; $2" \
        "HF001: an array has the elements *; it takes one dimension, from 1"
}
long=$(printf 'k%.0s' $(seq 70000))

refused "publish_many with payloads that begin with the element 5" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '[5:6]={1,2}'::json[])"
refused "publish_many with types that begin with the element 0" \
    "SELECT FROM holdfast.publish_many('default', '[0:1]={x,y}', '{1,2}')"
refused "publish_many with keys in two dimensions" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '{1,2}', keys => '{{a,b}}')"
refused "publish_many with a long key at the element 0" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '{1,2}', keys => '[0:1]={$long,b}')"
refused "publish_many with metadata that is no object at the element 0" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '{1,2}',
    metadata => '[0:1]={5,\"{}\"}'::json[])"
refused "publish_many with an infinite time at the element 0" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '{1,2}',
    emitted_at => '[0:1]={infinity,2020-01-01}')"
refused "publish_many with expected versions that begin with the element 2" \
    "SELECT FROM holdfast.publish_many('default', '{x,y}', '{1,2}',
    keys => '{a,b}', expected_versions => '[2:3]={-5,-5}')"
if [ "$grants" = t ]; then
    ids="ARRAY[holdfast_private.new_id(now()), holdfast_private.new_id(now())]"
    ids=$(sql "SELECT quote_literal($ids)")
    hashes=$(sql "SELECT quote_literal(ARRAY[holdfast_private.hash_of('a'),
            holdfast_private.hash_of('b')])")
    times="ARRAY[now(), now()]"
    refused "append with keys that begin with the element 0" \
        "SELECT FROM holdfast.append(1, $ids, '{x,y}',
        '{1,2}', '[0:1]={a,b}', NULL, NULL, NULL, $times, NULL, $hashes)"
    refused "append with versions that begin with the element 2" \
        "SELECT FROM holdfast.append(1, $ids, '{x,y}', '{1,2}', '{a,b}', NULL,
        NULL, NULL, $times, '[2:3]={-7,-7}', $hashes)"
    refused "append_1 with keys that begin with the element 0" \
        "SELECT FROM holdfast.append_1($ids, '{x,y}', '{1,2}', '[0:1]={a,b}',
        NULL, NULL, NULL, $times, NULL, $hashes, NULL)"
    refused "change_delay with keys that begin with the element 0" \
        "SELECT FROM holdfast.change_delay(1, now() + interval '1 h', $ids, '{x,y}',
        '{1,2}', '[0:1]={a,b}', NULL, NULL, NULL, $times, $hashes)"
fi
is "refused arrays have stored nothing" "SELECT count(*) FROM holdfast.event_log" 0
is "publish_many takes the same values in arrays that begin with 1" \
    "SET ROLE $role; SELECT count(*) FROM holdfast.publish_many('default',
    '{x,y}', '{1,2}', keys => '{a,b}', metadata => '{NULL,\"{}\"}')" 2
if [ "$grants" = t ]; then
    line=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'line'")
    refused "change_settle with outcomes that begin with the element 0" \
        "SELECT FROM holdfast.change_settle(1, $line, 0, gen_random_uuid(), 1, 0, 2,
        NULL, now(), '[0:1]={1,1}'::integer[], '{1,2}'::bigint[], '{1,2}'::bigint[])"
    fails "tx_settle refuses a million positions before it looks at them" \
        "SET ROLE $role; SET statement_timeout = '5s';
        SELECT FROM holdfast.tx_settle(1, $line, false, 0, gen_random_uuid(), 1, NULL, NULL,
        array_fill(1::bigint, ARRAY[1000000]), array_fill(false, ARRAY[1000000]), now())" \
        "HF001: there are 1000000 positions; the limit is 100000"
fi
fails "publish_many refuses a million events before it looks at them" \
    "SET ROLE $role; SET statement_timeout = '5s';
    SELECT FROM holdfast.publish_many('default', array_fill('x'::text, ARRAY[1000000]), NULL)" \
    "HF001: there are 1000000 events; the limit is *"
for value in "type => repeat('x', 20000000)" "type => 'x', key => repeat('x', 20000000)" \
    "type => 'x', tenant => repeat('x', 20000000)" \
    "type => 'x', producer => repeat('x', 20000000)" \
    "type => 'x', payload => to_json(repeat('x', 20000000))" \
    "type => 'x', metadata => json_build_object('x', repeat('x', 20000000))" \
    "type => 'x', payload => (repeat('[', 1000) || repeat(']', 1000))::json" \
    "type => 'x', emitted_at => 'infinity'" "type => 'x', emitted_at => '0044-03-15 BC'" \
    "type => 'x', key => 'k', expected_version => 9223372036854775807"; do
    fails "publish refuses the arguments $value" \
        "SET ROLE $role; SELECT FROM holdfast.publish('default', $value)" \
        "HF001: *"
done

# --- What is stored as it comes, and read by C and SQL later ---
if [ "$grants" = t ]; then
    put() { # PATTERNS OPTIONS
        echo "SET ROLE $role; SELECT status FROM holdfast.change_subscription_put(1, 'put', '$1',
            '$2', 1, 1, 0, -1, now())"
    }
    for options in '{"batch":"x","batch":10}' '{"batch":1.0}' '{"batch":1e1}' '{"nothing":1}' '[]' \
        null 5 '{"batch":null}'; do
        fails "change_subscription_put refuses options that C cannot read: $options" \
            "$(put '["**"]' "$options")" "HF001: *"
    done
    for patterns in '["**",1]' '[["a"]]' '[{}]' '"a"' '{}' '[]' '["a",null]'; do
        fails "change_subscription_put refuses patterns that C cannot read: $patterns" \
            "$(put "$patterns" '{}')" "HF001: *"
    done
    is "change_subscription_put takes options and patterns that C can read" \
        "$(put '["a.*","b"]' '{"batch":10,"retry_multiplier":1.5}');
        SELECT holdfast.drop_subscription('default', 'put')" "0 "
    schedule="1, gen_random_uuid(), 'put', '@hourly', 'UTC', 't', '1', NULL, NULL, NULL, 1, 1"
    fails "change_schedule_put refuses a negative grace" "SET ROLE $role; SELECT
        FROM holdfast.change_schedule_put($schedule, -1, now(), now(), NULL, false, NULL, NULL)" \
        "HF001: grace_ms is -1; it takes 0 to 86400000"
    jobs=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'jobs'")
    lease=$(sql "SET ROLE $role; SELECT lease FROM holdfast.claim('default', 'jobs', 1)")
    # shellcheck disable=SC1003
    for story in '[{"error":"\u0000"}]' '[{"error":"\ud800"}]' '{}' 5; do
        fails "change_settle_lease refuses attempts that cannot be read: $story" "SET ROLE $role;
            SELECT FROM holdfast.change_settle_lease(1, $jobs, '$lease', false, false, NULL, now(),
            '{1}', '{1}', '{1}', '{1000}', NULL, ARRAY['$story'], ARRAY[now()])" \
            "HF001: the outcome of position 1 has a story that is none"
    done
    running() { # SINCE
        echo "SET ROLE $role; SELECT FROM holdfast.process_beat(1, '$token', 'n', false);
            SELECT FROM holdfast.process_running(1, '$token', ARRAY[$jobs], '{1}', '$1')"
    }
    token=$(sql "SELECT gen_random_uuid()")
    for since in '{infinity}' '{-infinity}' '{20000-01-01}' '{0044-03-15 BC}'; do
        fails "process_running refuses a handler that runs since $since" \
            "$(running "$since")" "HF001: the time at which *"
    done
    fails "process_running refuses 1025 handlers" "SET ROLE $role;
        SELECT FROM holdfast.process_running(1, '$token', array_fill(1::bigint, ARRAY[1025]),
        array_fill(1::bigint, ARRAY[1025]), array_fill(now(), ARRAY[1025]))" \
        "HF001: a process runs at most 1024 *"
    refused "process_running with times that begin with the element 0" \
        "$(running '[0:0]={2020-01-01}')"
    is "refused settles have left the lease as it was" \
        "SET ROLE $role; SELECT holdfast.ack('default', 'jobs', '$lease', '{1}')" ""
fi

# --- Not more than one's share of what all namespaces have in common ---
if [ "$grants" = t ]; then
    many="SELECT holdfast.create_subscription('default', 'w' || i, '{**}', 'start',
              'ordered', 1024)"
    is "a role may make 9 subscriptions of 1024 partitions" \
        "SET ROLE app; SELECT count(*) FROM ($many FROM generate_series(1, 9) i) s" 9
    limited="partitions; the limit is 10000, but for the owner of the schema"
    fails "a role may not have more than 10000 partitions by a new subscription" \
        "SET ROLE app; $many FROM generate_series(10, 10) i" "HF001: *would have 10242 $limited"
    fails "a role may not have more than 10000 partitions by changing one" \
        "SET ROLE app; SELECT holdfast.alter_subscription('default', 'line', partitions => 1024)" \
        "HF001: *would have 10241 $limited"
    is "the owner of the schema may have more than 10000 partitions" \
        "$many FROM generate_series(10, 10) i" t
    ok "setup: the server has counted more than 10000 partitions" becomes \
        "SELECT pg_stat_get_live_tuples('holdfast_private.partitions'::regclass) > 10000" t
    is "rotate does not copy a journal of which all has to stay" \
        "SELECT holdfast_private.rotate(8192)" f
    is "rotate(0) copies a journal of which all has to stay" "SELECT holdfast_private.rotate(0)" t
    sql "INSERT INTO holdfast_private.processes (token, started_at, seen_at, namespace_id, locked,
                                                 node_name, role_id)
         SELECT gen_random_uuid(), now(), now(), 1, false, 'n', 'app'::regrole
         FROM generate_series(1, 10000)" >/dev/null
    limited="HF001: role app has 10000 processes in this namespace, which is the limit"
    fails "process_beat refuses the 10001st process of a role" \
        "SET ROLE app; SELECT FROM holdfast.process_beat(1, gen_random_uuid(), 'n', false)" \
        "$limited"
    fails "heartbeat refuses the 10001st process of a role" \
        "SET ROLE app; SELECT FROM holdfast.heartbeat('default', 'node')" "$limited"
    sql "CREATE ROLE second LOGIN; SELECT holdfast.namespace_grant('viewer', 'default', 'second')" \
        >/dev/null
    is "a second role may register a process beside 10000 of another" "SET ROLE second;
        SELECT holdfast.heartbeat('default', 'other') IS NOT NULL" t
    sql "SELECT FROM holdfast_private.namespace_put('next')" >/dev/null
    next=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'next'")
    for call in "process_beat($next, gen_random_uuid(), 'n', false)" "process_sweep($next)" \
        "process_close($next, gen_random_uuid(), now())" "company($next, gen_random_uuid())" \
        "node_list($next, NULL, NULL)"; do
        is "${call%%(*} in another namespace does not read the processes" \
            "BEGIN; SELECT FROM holdfast.$call;
            SELECT pg_stat_get_xact_tuples_returned('holdfast_private.processes'::regclass)" 0
    done

    # --- Leases, which are moved as a whole while all consumers wait ---
    living="SELECT count(*), sum(pg_column_size(positions)) > 2097152 FROM holdfast_private.leases"
    sql "INSERT INTO holdfast_private.leases (token, subscription_id, expires_at, lease_ms, bound,
                                              kept, has_retries, count, positions)
         SELECT gen_random_uuid(), 1, now() + interval '1 day', 1000, false, false, false, 10000,
                (SELECT range_agg(int8range(3 * p + i, 3 * p + i + 1))
                 FROM generate_series(1, 10000) p)
         FROM generate_series(1, 100) i" >/dev/null
    is "setup: a hundred leases of events that lie apart are large" "$living" "100|t"
    is "compact leaves large leases where they are" \
        "SELECT holdfast_private.compact('holdfast_private.leases', -1, 1000000)" f
    sql "DELETE FROM holdfast_private.leases WHERE token NOT IN
        (SELECT token FROM holdfast_private.leases LIMIT 10)" >/dev/null
    is "compact moves a few leases" \
        "SELECT holdfast_private.compact('holdfast_private.leases', -1, 1000000)" t
    is "compact has kept all leases" "$living" "10|f"
fi
done_testing
