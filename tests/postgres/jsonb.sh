#!/usr/bin/env bash
# JSON may be given as json, jsonb or text wherever a function takes it; nothing else may.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
events="SELECT payload, metadata FROM holdfast.event_log ORDER BY position DESC LIMIT"
publish="SELECT FROM holdfast.publish('default', 't'"
for type in json jsonb text varchar; do
    json="'{\"a\":  1}'::$type"
    kept='{"a":  1}'
    [ $type != jsonb ] || kept='{"a": 1}'
    is "publish takes a payload of type $type" "$publish, $json); $events 1" "$kept|"
    is "publish takes payload and metadata of type $type" \
        "$publish, $json, metadata => $json); $events 1" "$kept|$kept"
    is "publish takes a literal as metadata beside a payload of type $type" \
        "$publish, $json, metadata => '{\"b\": 2}'); $events 1" \
        "$kept|{\"b\": 2}"
    is "publish_later takes payload and metadata of type $type" \
        "SELECT FROM holdfast.publish_later('default', 't', $json,
        now(), metadata => $json); SELECT released FROM holdfast.tick('default'); $events 1" \
        "1 $kept|$kept"
    is "publish_many takes payloads of type $type" \
        "SELECT FROM holdfast.publish_many('default', '{t,t}', ARRAY[$json, $json]); $events 2" \
        "$kept| $kept|"
    is "publish_many takes payloads and metadata of type $type" \
        "SELECT FROM holdfast.publish_many('default', '{t,t}', ARRAY[$json, $json],
                                           metadata => ARRAY[$json, NULL]); $events 2" \
        "$kept| $kept|$kept"
    is "publish_many takes metadata of type $type without payloads" \
        "SELECT FROM holdfast.publish_many('default', '{t}', NULL, metadata => ARRAY[$json]);
        $events 1" "null|$kept"
    is "publish_many takes literals as metadata beside payloads of type $type" \
        "SELECT FROM holdfast.publish_many('default', '{t}', ARRAY[$json],
                                           metadata => '{\"{\\\"b\\\": 2}\"}'); $events 1" \
        "$kept|{\"b\": 2}"
    is "publish_many with versions takes payloads and metadata of type $type" \
        "SELECT FROM holdfast.publish_many('default', '{t}', ARRAY[$json], keys => '{$type}',
            expected_versions => '{0}', metadata => ARRAY[$json]); $events 1" "$kept|$kept"
    is "publish_many takes events of type $type" \
        "SELECT FROM holdfast.publish_many('default',
                                           '[{\"type\": \"t\", \"payload\": 5}]'::$type);
        $events 1" "5|"
    is "create_schedule takes payload and metadata of type $type" \
        "SELECT FROM holdfast.create_schedule('default', 's', '0 0 1 1 *', 't', $json,
                                              metadata => $json);
        SELECT FROM holdfast.run_schedule('default', 's'); $events 1" "$kept|$kept"
    is "create_subscription and alter_subscription take options of type $type" \
        "SELECT FROM holdfast.create_subscription('default', 'sub', '{x}', 'start', 'shared',
                                                  options => '{\"batch\": 7}'::$type);
        SELECT FROM holdfast.alter_subscription('default', 'sub',
                                                options => '{\"lease_ms\": 1000}'::$type);
        SELECT options ->> 'batch', options ->> 'lease_ms' FROM holdfast.subscription_list;
        SELECT FROM holdfast.drop_subscription('default', 'sub')" "7|1000"
    is "heartbeat takes metadata of type $type" \
        "SELECT FROM holdfast.heartbeat('default', 'n-$type',
        metadata => $json); SELECT metadata FROM holdfast_private.processes
        WHERE node_id = 'n-$type'" "$kept"
    is "create_namespace and alter_namespace take metadata of type $type" \
        "SELECT FROM holdfast.create_namespace('other', metadata => $json);
        SELECT FROM holdfast.alter_namespace('other', metadata => $json);
        SELECT metadata FROM holdfast_private.namespaces WHERE name = 'other'" "$kept"
done
is "publish stores a literal byte for byte" "$publish, '{\"a\":   1}'); $events 1" '{"a":   1}|'
is "publish stores a parameter without a type byte for byte" \
    "PREPARE p AS $publish, \$1); EXECUTE p('[1,  2]'); $events 1" '[1,  2]|'
is "publish_many stores literals of arrays byte for byte" \
    "SELECT FROM holdfast.publish_many('default', '{t}', '{\"[1,  2]\"}',
                                       metadata => '{\"{\\\"c\\\":  3}\"}'); $events 1" \
    '[1,  2]|{"c":  3}'
is "publish_many stores parameters without a type byte for byte" \
    "PREPARE q AS SELECT FROM holdfast.publish_many('default', '{t}', \$1, metadata => \$2);
    EXECUTE q('{\"[1]\"}', '{\"{\\\"d\\\":  4}\"}'); $events 1" '[1]|{"d":  4}'
fails "publish_many refuses payloads that are integers" \
    "SELECT FROM holdfast.publish_many('default', '{t}', '{5}'::int[])" \
    "HF001: payloads has the type integer*; it must be json*, jsonb* or text*"
fails "publish_many refuses metadata that is no object" \
    "SELECT FROM holdfast.publish_many('default', '{t}', NULL, metadata => ARRAY['[1]'::jsonb])" \
    "HF001: event 0: metadata is JSON but not an object"
is "publish without a payload stores null" "$publish); $events 1" 'null|'
is "publish takes metadata of type jsonb without a payload" \
    "$publish, metadata => '{\"b\": 2}'::jsonb); $events 1" \
    'null|{"b": 2}'
fails "publish refuses a text that is no JSON" \
    "$publish, 'plain')" "22P02: invalid input syntax for type json"
fails "publish refuses a payload that is an integer" "$publish, 5)" \
    "HF001: payload has the type integer; it must be json, jsonb or text"

# --- A type of one's own ---
sql "CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory" >/dev/null
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in publisher consumer; do
    sql "SELECT holdfast.namespace_grant('$part', 'default', 'mallory')" >/dev/null
done
as() { psql -qXAt -U mallory -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$1" 2>&1 |
       sed -n 's/^.*ERROR:  //p' | head -1; }
psql -qX -U mallory -v ON_ERROR_STOP=1 -c "CREATE TYPE public.evil AS (x integer)" \
    -c "CREATE TABLE public.seen (who text); GRANT INSERT ON public.seen TO PUBLIC"
for target in text json jsonb; do
    psql -qX -U mallory -v ON_ERROR_STOP=1 -c "CREATE FUNCTION public.evil_$target(public.evil)
        RETURNS $target LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN
            RAISE EXCEPTION 'ran as %', current_user;
        END \$\$" \
        -c "CREATE CAST (public.evil AS $target) WITH FUNCTION public.evil_$target AS ASSIGNMENT"
done
evil="ROW(1)::public.evil"
for call in "publish('default', 't', $evil)" "publish('default', 't', NULL, metadata => $evil)" \
    "publish_later('default', 't', $evil, now())" \
    "publish_many('default', '{t}', ARRAY[$evil])" \
    "publish_many('default', '{t}', NULL, metadata => ARRAY[$evil])" \
    "create_schedule('default', 's', '@daily', 't', $evil)" \
    "create_subscription('default', 'sub', '{x}', 'start', 'shared', options => $evil)" \
    "alter_subscription('default', 'sub', options => $evil)" \
    "retry_dead_letters('default', ARRAY[1], payload => $evil)" \
    "heartbeat('default', 'n', metadata => $evil)"; do
    ok "a cast of another role is not run: $call" \
        like "HF001: * has the type public.evil*; it must be *" "$(as "SELECT FROM holdfast.$call")"
done
ok "a cast of another role is not run with the rights of the owner" like "P0001: ran as mallory" \
    "$(as "SELECT FROM holdfast.publish_many('default', $evil)")"
event="{\"type\": \"t\", \"payload\": 1}"
for type in json jsonb text; do
    ok "a role may publish payloads of type $type" same "" \
        "$(as "SELECT FROM holdfast.publish('default', 't', '1'::$type);
        SELECT FROM holdfast.publish_many('default', '{t}', ARRAY['1'::$type]);
        SELECT FROM holdfast.publish_many('default', '[$event]'::$type)")"
done
done_testing
