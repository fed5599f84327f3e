#!/usr/bin/env bash
# holdfast.publish and publish_many: what is stored, what is refused, who waits for whom.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

publish="SELECT position, duplicate, key_version FROM holdfast.publish"
id4=11111111-1111-4111-8111-111111111111

# id_at INTERVAL: a version 7 id whose time is that far from now.
id_at() {
    sql "SELECT holdfast_private.new_id(clock_timestamp() + interval '$1')"
}

# ---- Values -------------------------------------------------------------------------------------

is "the first event has position 1" \
    "$publish('default', 'user.created', '{\"a\": 1}', key => 'k')" "1|f|"
is "payload bytes are kept" "SELECT payload FROM holdfast_private.events WHERE position = 1" \
    '{"a": 1}'
is "the time of a version 7 id guards it" \
    "SELECT count(*) FROM holdfast_private.events WHERE guard_at = holdfast.id_time(id)" 1
is "an id published again answers the first position" \
    "$publish('default', 'other',
    id => (SELECT id FROM holdfast_private.events WHERE position = 1))" "1|t|"
is "so does one that is not version 7" \
    "$publish('default', 'x', id => '$id4'); $publish('default', 'y', id => '$id4')" "3|f| 3|t|"
old=$(id_at '-3 days')
is "and an old one" \
    "$publish('default', 'x', id => '$old'); $publish('default', 'x', id => '$old')" "4|f| 4|t|"
for away in '-24 hours 1 second' '-23 hours -1 second' '-22 hours -59 minutes' \
    '23 hours 30 minutes' '24 hours 1 minute' '40 days'; do
    id=$(id_at "$away")
    is "and one of $away" "SELECT duplicate FROM holdfast.publish('default', 'x', id => '$id');
        SELECT duplicate, e.position = p.position
            FROM holdfast.publish('default', 'x', id => '$id') p, holdfast_private.events e
        WHERE e.id = p.id" "f t|t"
done
is "how far ahead ids were is remembered" \
    "SELECT ids_until > clock_timestamp() + interval '39 days' FROM holdfast_private.namespaces" "t"
future=$(id_at '-1 minute')
is "one that was far ahead and only has a row among the listed ids is found when its time comes" \
    "SELECT FROM holdfast.publish('default', 'x', id => '$id4');
     INSERT INTO holdfast_private.event_ids SELECT 1, '$future', position, guard_at
         FROM holdfast_private.events WHERE id = '$id4';
     UPDATE holdfast_private.events SET id = '$future' WHERE id = '$id4';
     SELECT duplicate, position FROM holdfast.publish('default', 'x', id => '$future')" "t|3"
is "an id lies in one namespace" "SELECT FROM holdfast_private.namespace_put('two');
    $publish('two', 'x', id => '$future')" "1|f|"
is "a missing payload is null" "SELECT FROM holdfast.publish('two', 'x', NULL);
    SELECT payload FROM holdfast_private.events WHERE namespace_id = 2 AND position = 2" "null"
is "the partition hash is that of tenant, key, id" \
    "SELECT FROM holdfast_private.namespace_put('three');
    SELECT FROM holdfast.publish('three', 'x', tenant => 'tenant-1', key => 'a');
    SELECT FROM holdfast.publish('three', 'x', key => 'a');
    SELECT FROM holdfast.publish('three', 'x', id => '0065ca2f-94f9-5ec3-288d-f257bc2186eb');
    SELECT hash = holdfast_private.hash_of(coalesce(tenant, key, id::text)), hash
        FROM holdfast_private.events
        WHERE namespace_id = 3 AND key IS NULL" "t|3869542075510466593"
is "lanes are those of C" \
    "SELECT holdfast_private.lane_of(NULL, NULL, '0065ca2f-94f9-5ec3-288d-f257bc2186eb'),
    holdfast_private.lane_of(NULL, '',
    '0065ca2f-94f9-5ec3-288d-f257bc2186eb')" "1296179673071404961|5462399562226229061"

# ---- Versions -----------------------------------------------------------------------------------

schema
is "a key's first version is 1" "$publish('default', 'x', key => 'k', expected_version => 0)" \
    "1|f|1"
is "then 2" "$publish('default', 'x', key => 'k', expected_version => 1)" "2|f|2"
fails "another version is a conflict" \
    "$publish('default', 'x', key => 'k', expected_version => 0)" \
    "HF004: expected version 0 of key k, which has version 2"
fails "also of a key without one" "$publish('default', 'x', key => 'l', expected_version => 3)" \
    "HF004: expected version 3 of key l, which has version 0"
is "the id is looked at before the version" \
    "$publish('default', 'x', key => 'k', expected_version => 7,
    id => (SELECT id FROM holdfast_private.events WHERE position = 2))" "2|t|2"
is "a key may be longer than an index entry" \
    "$publish('default', 'x', key => repeat('k', 65536), expected_version => 0)" "3|f|1"
is "many with versions" \
    "SELECT position, key_version FROM holdfast.publish_many('default', '{a,b}', NULL,
    keys => '{k,k}', expected_versions => '{2,3}')" "4|3 5|4"
fails "all or none" "SELECT FROM holdfast.publish_many('default', '{a,b}', NULL, keys => '{k,k}',
    expected_versions => '{4,4}')" \
    "HF004: event 1: expected version 4 of key k, which has version 5"
is "nothing is left of it" "SELECT version FROM holdfast_private.keys WHERE key = 'k'" 4
is "append undoes by itself" \
    "SELECT status, message, failed_index, positions FROM holdfast.append(1,
    ARRAY[gen_random_uuid(), gen_random_uuid()], '{a,b}', '{1,2}', '{k,k}', '{NULL,NULL}',
    '{NULL,NULL}', '{NULL,NULL}',
    ARRAY[now(), now()], '{4,7}', '{1,1}')" "4|expected version 7 of key k, which has version 5|1|"
is "and says where they are" \
    "SELECT status, positions[2] - positions[1], key_versions, duplicates FROM holdfast.append(1,
    ARRAY['$id4', '$id4']::uuid[], '{a,b}', '{1,2}', '{k,k}', '{NULL,NULL}', '{NULL,NULL}',
    '{NULL,NULL}',
    ARRAY[now(), now()], '{-1,-1}', '{1,1}')" "0|0|{NULL,NULL}|{f,t}"

# ---- Many ---------------------------------------------------------------------------------------

schema
is "many get positions in order" "SELECT index, position, duplicate
    FROM holdfast.publish_many('default', '{a,b,c}', '{1,2,3}')" \
    "0|1|f 1|2|f 2|3|f"
is "also a thousand" \
    "SELECT bool_and(position = index + 4), count(*) FROM holdfast.publish_many('default',
    array_fill('t'::text, ARRAY[1000]), NULL)" "t|1000"
is "equal ids among them are one event" "SELECT index, position - min(position) OVER (), duplicate
    FROM holdfast.publish_many('default', '{a,b,c}', NULL,
    ids => ARRAY['$(id_at 0s)', '$id4', '$id4']::uuid[]) ORDER BY 1" "0|0|f 1|1|f 2|1|t"
is "from JSON, byte for byte" "SELECT index, duplicate FROM holdfast.publish_many('default',
    '[{\"type\": \"j\", \"payload\": {\"b\":  1, \"a\":2}, \"metadata\": { \"m\": 1},
       \"key\": \"k\"}, {\"type\": \"j\", \"payload\": null}]');
    SELECT payload, metadata, key FROM holdfast_private.events WHERE type = 'j' ORDER BY position" \
    '0|f 1|f {"b":  1, "a":2}|{ "m": 1}|k null||'
is "none at all" "SELECT count(*) FROM holdfast.publish_many('default', '[]')" 0
again=$(sql "SELECT ARRAY[holdfast_private.new_id(now()), holdfast_private.new_id(now())]")
many="SELECT index, position - min(position) OVER (), duplicate
    FROM holdfast.publish_many('default', '{a,b}', NULL, '$again')"
is "many that are published again are a row each, with what the first time has given" \
    "$many; $many" "0|0|f 1|1|f 0|0|t 1|1|t"
fails "an unknown member is refused" \
    "SELECT FROM holdfast.publish_many('default', '[{\"type\": \"j\"}, {\"typ\": \"j\"}]')" \
    "HF001: event 1 has the unknown member typ"
fails "arrays of different lengths are refused" \
    "SELECT FROM holdfast.publish_many('default', '{a,b}', '{1}')" \
    "HF001: the arrays are not of one length"
fails "a fault names the event" "SELECT FROM holdfast.publish_many('default', '{a,b..c}', NULL)" \
    "HF001: event 1: type has an empty segment at byte 2"

# ---- Refused ------------------------------------------------------------------------------------

fails "no such namespace" "$publish('nowhere', 'x')" "HF003: there is no namespace nowhere"
fails "none that is being removed" "BEGIN; UPDATE holdfast_private.namespaces SET removing_at
    = now() WHERE id = 1; $publish('default', 'x')" "HF003: there is no namespace default"
refused() { # ARGUMENTS WANTED
    fails "$2" "$publish('default', $1)" "HF001: $2"
}
refused "NULL" "type is missing; every event needs one"
refused "''" "type is empty"
refused "repeat('t', 256)" "type is 256 bytes; the limit is 255"
refused "'a..b'" "type has an empty segment at byte 2"
refused "'.a'" "type has an empty segment at byte 0"
refused "'a.'" "type has an empty segment at byte 2"
refused "'a.*'" "type has '[*]' at byte 2; only patterns may"
refused "'a b'" "type has white space at byte 1"
refused "U&'a\\2003b'" "type has white space at byte 1"
refused "U&'a\\0085b'" "type has the control character U+0085 at byte 1"
refused "E'a\\nb'" "type has the control character U+000A at byte 1"
refused "'x', to_json(repeat('p', 1048575))" \
    "payload is 1048577 bytes; the limit is 1048576 (*changes it by holdfast.limit_payload)"
refused "'x', '\"\\u0000\"'" \
    "payload has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', '\"\\\\\\u0000\"'" \
    "payload has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', '\"\\ud83d\"'" \
    "payload has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', '\"\\ude00\\ud83d\"'" \
    "payload has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', '\"\\ud83d\\\\\\ude00\"'" \
    "payload has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', (repeat('[', 65) || repeat(']', 65))::json" \
    "payload has arrays and objects nested more than 64 deep"
refused "'x', (repeat('{\"a\":[', 33) || repeat(']}', 33))::json" \
    "payload has arrays and objects nested more than 64 deep"
refused "'x', key => repeat('k', 65537)" "key is 65537 bytes; the limit is 65536"
refused "'x', tenant => repeat('k', 65537)" "tenant is 65537 bytes; the limit is 65536"
refused "'x', producer => repeat('k', 256)" "producer is 256 bytes; the limit is 255"
refused "'x', metadata => '[]'" "metadata is JSON but not an object"
refused "'x', metadata => json_build_object('m', repeat('m', 65536))" \
    "metadata is 65546 bytes; the limit is 65536"
refused "'x', metadata => '{\"m\": \"\\u0000\"}'" \
    "metadata has \\\\u0000 or an unpaired surrogate, which cannot be stored"
refused "'x', expected_version => 0" \
    "expected_version is 0 but key is NULL: only a key has a version"
refused "'x', key => 'k', expected_version => -1" \
    "expected_version is -1; it must be NULL (any) or 0 to 9223372036854775806"
refused "'x', emitted_at => 'infinity'" "emitted_at is outside the years 0001 to 9999"
refused "'x', emitted_at => '0001-01-01 00:00:00+00 BC'" \
    "emitted_at is outside the years 0001 to 9999"
is "limits themselves are good" "SELECT count(position) FROM (
    SELECT position FROM holdfast.publish('default', repeat('t', 255)) UNION ALL
    SELECT position FROM holdfast.publish('default', 'käse.日本') UNION ALL
    SELECT position FROM holdfast.publish('default', 'x', to_json(repeat('p', 1048574))) UNION ALL
    SELECT position FROM holdfast.publish('default', 'x', '\"\\ud83d\\ude00 \\\\u0000\"') UNION ALL
    SELECT position
        FROM holdfast.publish('default', 'x', (repeat('[', 64) || repeat(']', 64))::json) UNION ALL
    SELECT position FROM holdfast.publish('default', 'x', to_json(repeat('[\"\\', 100))) UNION ALL
    SELECT position FROM holdfast.publish('default', 'x',
        json_build_array(repeat('[', 65), repeat('{}', 100))) UNION ALL
    SELECT position FROM holdfast.publish('default', 'x', key => repeat('k', 65536), tenant => '',
        producer => '') UNION ALL
    SELECT position FROM holdfast.publish('default', 'x', metadata => '{}') UNION ALL
    SELECT position
        FROM holdfast.publish('default', 'x', emitted_at => '0001-01-01 00:00:00+00')) p" 10
ok "a name that is too long is not repeated in full" same 277 \
    "$(sql "SELECT FROM holdfast.publish(repeat('n', 100000), 't')" |
        sed -n 's/^.*ERROR:  HF003: //p' | tr -d '\n' | wc -c)"
fails "a setting of the session does not raise the payload's limit" \
    "SET holdfast.payload_bytes_max = 2000000;
    SELECT FROM holdfast.publish('default', 'x',
        to_json(repeat('p', 1500000)))" "HF001: payload is 1500002 bytes; the limit is 1048576 *"
is "the namespace's limit does" "SELECT holdfast.limit_payload('default', 2000000);
    SELECT count(position)
        FROM holdfast.publish('default', 'x', to_json(repeat('p', 1500000)))" " 1"
fails "up to what it says" "SELECT FROM holdfast.publish('default', 'x',
    to_json(repeat('p', 1999999)))" "HF001: payload is 2000001 bytes; the limit is 2000000 *"
fails "so does publish_many" "SELECT FROM holdfast.publish_many('default', '{x}',
    ARRAY[to_json(repeat('p', 1999999))])" "HF001: event 0: payload is 2000001 bytes; *"
fails "and publish_later" "SELECT FROM holdfast.publish_later('default', 'x',
    to_json(repeat('p', 1999999)), now())" "HF001: payload is 2000001 bytes; *"
sql "SELECT holdfast.limit_payload('default', 1024)" >/dev/null
fails "a limit that is lower counts, too" "SELECT FROM holdfast.publish('default', 'x',
    to_json(repeat('p', 1023)))" "HF001: payload is 1025 bytes; the limit is 1024 *"
is "to the byte" \
    "SELECT count(position) FROM holdfast.publish('default', 'x', to_json(repeat('p', 1022)))" 1
fails "limits have limits" "SELECT holdfast.limit_payload('default', 1023)" \
    "HF001: bytes is 1023; it takes 1024 to 268435456"
fails "above, too" "SELECT holdfast.limit_payload('default', 268435457)" \
    "HF001: bytes is 268435457; *"
fails "and a namespace" "SELECT holdfast.limit_payload('none', 2000)" \
    "HF003: there is no namespace none"
sql "SELECT holdfast.limit_payload('default', 1048576)" >/dev/null
is "the commit is made durable" "BEGIN; SET LOCAL synchronous_commit = off;
    SELECT FROM holdfast.publish('default', 'x'); SHOW synchronous_commit; COMMIT" "on"
is "a stronger setting is kept" "BEGIN; SET LOCAL synchronous_commit = remote_apply;
    SELECT FROM holdfast.publish('default', 'x'); SHOW synchronous_commit; COMMIT" "remote_apply"

# ---- At the same time ---------------------------------------------------------------------------

schema
open a
open b
for id in "$(id_at 0s)" "$(id_at '-23 hours -30 minutes')" $id4; do
    ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
    tell b "SELECT duplicate FROM holdfast.publish('default', 'y', id => '$id')"
    ok "a publish of an id waits for the transaction that publishes it" blocked b
    ask a "COMMIT" >/dev/null
    hears "and is a duplicate if it commits" b t
done
for id in "$(id_at 0s)" "$(id_at '-3 days')"; do
    ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
    tell b "SELECT duplicate FROM holdfast.publish('default', 'y', id => '$id')"
    blocked b >/dev/null
    ask a "ROLLBACK" >/dev/null
    hears "and is stored if it does not" b f
done

ask a "BEGIN;
    SELECT FROM holdfast.publish('default', 'x', key => 'v', expected_version => 0)" >/dev/null
tell b "SELECT FROM holdfast.publish('default', 'y', key => 'v', expected_version => 0)"
ok "a version is waited for" blocked b
ask a "COMMIT" >/dev/null
hears "and then a conflict" b "ERROR:  HF004"
id=$(id_at 0s)
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', key => 'v', expected_version => 1,
    id => '$id')" >/dev/null
tell b "SELECT duplicate, key_version
    FROM holdfast.publish('default', 'x', key => 'v', expected_version => 1, id => '$id')"
blocked b >/dev/null
ask a "COMMIT" >/dev/null
hears "the same event with its version is a duplicate, not a conflict" b "t|2"
id=$(id_at 0s)
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
tell b "SELECT duplicate, key_version
    FROM holdfast.publish('default', 'x', key => 'v', expected_version => 2, id => '$id')"
blocked b >/dev/null
ask a "COMMIT" >/dev/null
hears "a duplicate does not raise the version" b "t|"
is "it is as it was" "SELECT version FROM holdfast_private.keys WHERE key = 'v'" 2
id=$(id_at 0s)
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
tell b "SELECT duplicate
    FROM holdfast.publish('default', 'x', key => 'w', expected_version => 0, id => '$id')"
blocked b >/dev/null
ask a "COMMIT" >/dev/null
hears "nor make one" b "t"
is "(none)" "SELECT count(*) FROM holdfast_private.keys WHERE key = 'w'" 0

sql "SELECT FROM holdfast_private.namespace_put('gapless', true)" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('gapless', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('gapless', 'x')"
ok "publishers of a gapless namespace come one after another" blocked b
ask a "ROLLBACK" >/dev/null
hears "and leave no gap" b 1
is "nor does a duplicate" "SELECT position, duplicate
    FROM holdfast.publish('gapless', 'x', id => (SELECT id FROM holdfast_private.events_2));
    SELECT position FROM holdfast.publish('gapless', 'x'); SELECT holdfast.head(2)" "1|t 2 2"
is "gapless stays what it is" \
    "SELECT status, message FROM holdfast_private.namespace_put('gapless', false)" \
    "4|namespace gapless is gapless, which cannot be changed"

# ---- Months -------------------------------------------------------------------------------------

month=$(date -u +%Y%m)
sql "SELECT FROM holdfast_private.namespace_put('months')" >/dev/null
lose="DROP TABLE holdfast_private.events_3_$month; UPDATE holdfast_private.namespaces
    SET months_from = 'infinity', months_to = '-infinity' WHERE id = 3"
sql "$lose" >/dev/null
is "a missing month is made by publishing" "SELECT position FROM holdfast.publish('months', 'x');
    SELECT tableoid::regclass FROM holdfast_private.events
        WHERE namespace_id = 3" "1 holdfast_private.events_3_$month"
sql "$lose" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('months', 'x')"
ok "of two that make it one waits" blocked b
asks "(the other is not held up by a session that publishes elsewhere)" a \
    "SELECT FROM holdfast.publish('default', 'x'); COMMIT" ""
hears "and goes on" b 3
sql "$lose" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('months', 'x')"
blocked b >/dev/null
ask a "ROLLBACK" >/dev/null
hears "or makes it, if the first one rolls back" b 5
sql "DROP TABLE holdfast_private.events_3_$(date -u -d "$(date -u +%Y-%m-15) +1 month" +%Y%m)" \
    >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
asks "months are made beside open transactions" b "SELECT holdfast.ensure_months(3)" 1
ask a "COMMIT" >/dev/null
fails "not of any time" "SELECT holdfast_private.ensure_month(3, '2001-01-01')" \
    "HF001: month of 2001-01-01 * is not made*"
is "the log has two indexes per month" "SELECT count(*) FROM pg_indexes
    WHERE schemaname = 'holdfast_private' AND tablename = 'events_3_$month'" 2

# ---- Waking -------------------------------------------------------------------------------------

ask a "LISTEN holdfast_1" >/dev/null
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "no process sleeps: no NOTIFY" a "SELECT 1" "1"
flag=$(sql "SELECT holdfast.sleep(1, 60000)")
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
ok "a process sleeps: NOTIFY" like '1 Asynchronous notification "holdfast_1" received*' \
    "$(ask a "SELECT 1")"
ask b "SELECT FROM holdfast.publish_many('default', '{x}', NULL)" >/dev/null
ok "also of many" like '1 Asynchronous notification "holdfast_1" received*' "$(ask a "SELECT 1")"
ask b "SELECT FROM holdfast.publish('gapless', 'x')" >/dev/null
asks "not of another namespace" a "SELECT 1" "1"
later=$(sql "SELECT holdfast.sleep(1, 60000)")
is "an older declaration is not taken back" \
    "SELECT holdfast.awake(1, $flag), holdfast.awake(1, $later)" "f|t"
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "awake again: no NOTIFY" a "SELECT 1" "1"
sql "SELECT holdfast.sleep(1, 0)" >/dev/null
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "a declaration expires" a "SELECT 1" "1"
is "declaring takes no lock that a publisher of events takes" \
    "BEGIN; SELECT FROM holdfast.sleep(1, 1000);
    SELECT count(*) FROM pg_locks WHERE relation = 'holdfast_private.events_1_position'::regclass;
    COMMIT" "0"

# ---- Names --------------------------------------------------------------------------------------

is "names of namespaces are values" \
    "SELECT status, id FROM holdfast_private.namespace_put('Robert''); DROP TABLE \"x\" --')" "0|4"
is "their length" "SELECT status, message FROM holdfast_private.namespace_put(repeat('n', 129))" \
    "1|namespace name is 129 bytes; the limit is 128"
is "no control characters" "SELECT status, message FROM holdfast_private.namespace_put(E'a\tb')" \
    "1|namespace name has the control character U+0009 at byte 1"
is "no white space at the ends" "SELECT (holdfast_private.namespace_put(' a')).message,
    (holdfast_private.namespace_put(U&'a\\00a0')).message" \
    "namespace name begins with white space|namespace name ends with white space"
is "one that is missing can be asked for" "SELECT status, message
    FROM holdfast_private.namespace_put('no', p_create => false)" "3|there is no namespace no"

done_testing
