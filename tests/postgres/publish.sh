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

is "the row of a new namespace has no older version that publishers pass, and has its months" \
    "SELECT ctid, months_from = date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC',
         months_to = (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months')
                     AT TIME ZONE 'UTC'
     FROM holdfast_private.namespaces WHERE id = 1" "(0,1)|t|t"
is "the server knows that the table of namespaces is short" "SELECT reltuples >= 0 FROM pg_class
    WHERE oid = 'holdfast_private.namespaces'::regclass" t
is "the first event of a namespace has position 1" \
    "$publish('default', 'user.created', '{\"a\": 1}', key => 'k')" "1|f|"
is "publish stores the payload byte for byte" \
    "SELECT payload FROM holdfast_private.events WHERE position = 1" \
    '{"a": 1}'
is "the time of a version 7 id is stored as guard_at" \
    "SELECT count(*) FROM holdfast_private.events WHERE guard_at = holdfast.id_time(id)" 1
is "a new id has the millisecond that it was made in, whatever year the clock shows" \
    "SELECT count(*), bool_and(holdfast.id_time(holdfast_private.new_id(t))
                               = date_trunc('milliseconds', t))
     FROM generate_series(0, 2999) i, unnest('{1970-01-01 00:00:00Z, 2001-09-09 01:46:39.5Z,
          2026-11-20 00:00:00Z, 2105-12-31 23:59:00Z}'::timestamptz[]) a,
          LATERAL (SELECT a + i * interval '333 microseconds' AS t) x" "12000|t"
is "publish with an id that is in the log returns the first position" \
    "$publish('default', 'other',
    id => (SELECT id FROM holdfast_private.events WHERE position = 1))" "1|t|"
is "publish with an id of version 4 that is in the log returns the first position" \
    "$publish('default', 'x', id => '$id4'); $publish('default', 'y', id => '$id4')" "3|f| 3|t|"
old=$(id_at '-3 days')
is "publish with an id of three days ago that is in the log returns the first position" \
    "$publish('default', 'x', id => '$old'); $publish('default', 'x', id => '$old')" "4|f| 4|t|"
for away in '-24 hours 1 second' '-23 hours -1 second' '-22 hours -59 minutes' \
    '23 hours 30 minutes' '24 hours 1 minute' '40 days'; do
    id=$(id_at "$away")
    is "publish with an id of $away from now finds it again" \
        "SELECT duplicate FROM holdfast.publish('default', 'x', id => '$id');
        SELECT duplicate, e.position = p.position
            FROM holdfast.publish('default', 'x', id => '$id') p, holdfast_private.events e
        WHERE e.id = p.id" "f t|t"
done
is "a namespace stores how far in the future ids were" \
    "SELECT ids_until > clock_timestamp() + interval '39 days' FROM holdfast_private.namespaces" "t"
future=$(id_at '-1 minute')
is "an id that was far ahead is found among the listed ids when its time comes" \
    "SELECT FROM holdfast.publish('default', 'x', id => '$id4');
     INSERT INTO holdfast_private.event_ids SELECT 1, '$future', position, guard_at
         FROM holdfast_private.events WHERE id = '$id4';
     UPDATE holdfast_private.events SET id = '$future' WHERE id = '$id4';
     SELECT duplicate, position FROM holdfast.publish('default', 'x', id => '$future')" "t|3"
is "an id may be published in two namespaces" "SELECT FROM holdfast_private.namespace_put('two');
    $publish('two', 'x', id => '$future')" "1|f|"
is "publish stores a missing payload as null" "SELECT FROM holdfast.publish('two', 'x', NULL);
    SELECT payload FROM holdfast_private.events WHERE namespace_id = 2 AND position = 2" "null"
is "the hash of an event is that of tenant, key or id" \
    "SELECT FROM holdfast_private.namespace_put('three');
    SELECT FROM holdfast.publish('three', 'x', tenant => 'tenant-1', key => 'a');
    SELECT FROM holdfast.publish('three', 'x', key => 'a');
    SELECT FROM holdfast.publish('three', 'x', id => '0065ca2f-94f9-5ec3-288d-f257bc2186eb');
    SELECT hash = holdfast_private.hash_of(coalesce(tenant, key, id::text)), hash
        FROM holdfast_private.events
        WHERE namespace_id = 3 AND key IS NULL" "t|3869542075510466593"
is "lane_of returns the lanes of C" \
    "SELECT holdfast_private.lane_of(NULL, NULL, '0065ca2f-94f9-5ec3-288d-f257bc2186eb'),
    holdfast_private.lane_of(NULL, '',
    '0065ca2f-94f9-5ec3-288d-f257bc2186eb')" "1296179673071404961|5462399562226229061"

# ---- Versions -----------------------------------------------------------------------------------

schema
is "the first version of a key is 1" "$publish('default', 'x', key => 'k', expected_version => 0)" \
    "1|f|1"
is "the second version of a key is 2" \
    "$publish('default', 'x', key => 'k', expected_version => 1)" "2|f|2"
fails "publish with another expected_version is a conflict" \
    "$publish('default', 'x', key => 'k', expected_version => 0)" \
    "HF004: expected version 0 of key k, which has version 2"
fails "publish with an expected_version above 0 of a new key is a conflict" \
    "$publish('default', 'x', key => 'l', expected_version => 3)" \
    "HF004: expected version 3 of key l, which has version 0"
is "publish looks at the id before the version" \
    "$publish('default', 'x', key => 'k', expected_version => 7,
    id => (SELECT id FROM holdfast_private.events WHERE position = 2))" "2|t|2"
is "a key with a version may have 65536 bytes" \
    "$publish('default', 'x', key => repeat('k', 65536), expected_version => 0)" "3|f|1"
is "publish_many takes an expected version for each event" \
    "SELECT position, key_version FROM holdfast.publish_many('default', '{a,b}', NULL,
    keys => '{k,k}', expected_versions => '{2,3}')" "4|3 5|4"
fails "publish_many with one wrong version is a conflict" \
    "SELECT FROM holdfast.publish_many('default', '{a,b}', NULL, keys => '{k,k}',
    expected_versions => '{4,4}')" \
    "HF004: event 1: expected version 4 of key k, which has version 5"
is "publish_many with one wrong version stores nothing" \
    "SELECT version FROM holdfast_private.keys WHERE key = 'k'" 4
is "append with one wrong version returns status and index, and stores nothing" \
    "SELECT status, message, failed_index, positions FROM holdfast.append(1,
    ARRAY[gen_random_uuid(), gen_random_uuid()], '{a,b}', '{1,2}', '{k,k}', '{NULL,NULL}',
    '{NULL,NULL}', '{NULL,NULL}',
    ARRAY[now(), now()], '{4,7}', '{1,1}')" "4|expected version 7 of key k, which has version 5|1|"
is "append with two equal ids returns one position and a duplicate" \
    "SELECT status, positions[2] - positions[1], key_versions, duplicates FROM holdfast.append(1,
    ARRAY['$id4', '$id4']::uuid[], '{a,b}', '{1,2}', '{k,k}', '{NULL,NULL}', '{NULL,NULL}',
    '{NULL,NULL}',
    ARRAY[now(), now()], '{-1,-1}', '{1,1}')" "0|0|{NULL,NULL}|{f,t}"

# ---- Many ---------------------------------------------------------------------------------------

schema
is "publish_many gives positions in the order of the events" "SELECT index, position, duplicate
    FROM holdfast.publish_many('default', '{a,b,c}', '{1,2,3}')" \
    "0|1|f 1|2|f 2|3|f"
is "publish_many takes a thousand events" \
    "SELECT bool_and(position = index + 4), count(*) FROM holdfast.publish_many('default',
    array_fill('t'::text, ARRAY[1000]), NULL)" "t|1000"
is "publish_many stores equal ids among its events once" \
    "SELECT index, position - min(position) OVER (), duplicate
    FROM holdfast.publish_many('default', '{a,b,c}', NULL,
    ids => ARRAY['$(id_at 0s)', '$id4', '$id4']::uuid[]) ORDER BY 1" "0|0|f 1|1|f 2|1|t"
is "publish_many from JSON stores payload and metadata byte for byte" \
    "SELECT index, duplicate FROM holdfast.publish_many('default',
    '[{\"type\": \"j\", \"payload\": {\"b\":  1, \"a\":2}, \"metadata\": { \"m\": 1},
       \"key\": \"k\"}, {\"type\": \"j\", \"payload\": null}]');
    SELECT payload, metadata, key FROM holdfast_private.events WHERE type = 'j' ORDER BY position" \
    '0|f 1|f {"b":  1, "a":2}|{ "m": 1}|k null||'
is "publish_many takes an empty list" \
    "SELECT count(*) FROM holdfast.publish_many('default', '[]')" 0
again=$(sql "SELECT ARRAY[holdfast_private.new_id(now()), holdfast_private.new_id(now())]")
many="SELECT index, position - min(position) OVER (), duplicate
    FROM holdfast.publish_many('default', '{a,b}', NULL, '$again')"
is "publish_many of ids that are in the log returns their positions as duplicates" \
    "$many; $many" "0|0|f 1|1|f 0|0|t 1|1|t"
fails "publish_many refuses an unknown member of an event" \
    "SELECT FROM holdfast.publish_many('default', '[{\"type\": \"j\"}, {\"typ\": \"j\"}]')" \
    "HF001: event 1 has the unknown member typ"
fails "publish_many refuses arrays of different lengths" \
    "SELECT FROM holdfast.publish_many('default', '{a,b}', '{1}')" \
    "HF001: the arrays are not of one length"
fails "the refusal of publish_many names the number of the event" \
    "SELECT FROM holdfast.publish_many('default', '{a,b..c}', NULL)" \
    "HF001: event 1: type has an empty segment at byte 2"

# ---- Refused ------------------------------------------------------------------------------------

fails "publish into an unknown namespace is not found" \
    "$publish('nowhere', 'x')" "HF003: there is no namespace nowhere"
ok "publish into an unknown namespace names the function that makes one" \
    like "*HINT:  holdfast.create_namespace makes one.*" "$(sql "$publish('nowhere', 'x')")"
fails "publish into a namespace that is being removed is not found" \
    "BEGIN; UPDATE holdfast_private.namespaces SET removing_at
    = now() WHERE id = 1; $publish('default', 'x')" "HF003: there is no namespace default"
refused() { # ARGUMENTS WANTED
    fails "publish refuses an event: $2" "$publish('default', $1)" "HF001: $2"
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
for size in 65 600; do # more than 128 bytes, and more than 1024
    fails "publish_many refuses a payload that is nested $size deep" \
        "SELECT holdfast.publish_many('default', '{a,b}',
            ARRAY['1', repeat('[', $size) || repeat(']', $size)]::json[])" \
        "HF001: event 1: payload has arrays and objects nested more than 64 deep"
done
ok "publish_many takes a payload of 64 nested arrays and of 70 beside each other" \
    sql "BEGIN; SELECT holdfast.publish_many('default', '{a,b}', ARRAY[repeat('[', 64)
        || repeat(']', 64), '[[]' || repeat(',[]', 69) || ']']::json[]); ROLLBACK"
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
is "publish takes values at their limits" "SELECT count(position) FROM (
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
ok "the error of a long namespace name is cut" same 277 \
    "$(sql "SELECT FROM holdfast.publish(repeat('n', 100000), 't')" |
        sed -n 's/^.*ERROR:  HF003: //p' | tr -d '\n' | wc -c)"
fails "a setting of the session does not raise the limit of the payload" \
    "SET holdfast.payload_bytes_max = 2000000;
    SELECT FROM holdfast.publish('default', 'x',
        to_json(repeat('p', 1500000)))" "HF001: payload is 1500002 bytes; the limit is 1048576 *"
is "limit_payload raises the limit of the payload" \
    "SELECT holdfast.limit_payload('default', 2000000);
    SELECT count(position)
        FROM holdfast.publish('default', 'x', to_json(repeat('p', 1500000)))" " 1"
fails "publish refuses a payload above the limit of limit_payload" \
    "SELECT FROM holdfast.publish('default', 'x',
    to_json(repeat('p', 1999999)))" "HF001: payload is 2000001 bytes; the limit is 2000000 *"
fails "publish_many refuses a payload above the limit of limit_payload" \
    "SELECT FROM holdfast.publish_many('default', '{x}',
    ARRAY[to_json(repeat('p', 1999999))])" "HF001: event 0: payload is 2000001 bytes; *"
fails "publish_later refuses a payload above the limit of limit_payload" \
    "SELECT FROM holdfast.publish_later('default', 'x',
    to_json(repeat('p', 1999999)), now())" "HF001: payload is 2000001 bytes; *"
sql "SELECT holdfast.limit_payload('default', 1024)" >/dev/null
fails "limit_payload lowers the limit of the payload" "SELECT FROM holdfast.publish('default', 'x',
    to_json(repeat('p', 1023)))" "HF001: payload is 1025 bytes; the limit is 1024 *"
is "publish takes a payload of exactly the limit" \
    "SELECT count(position) FROM holdfast.publish('default', 'x', to_json(repeat('p', 1022)))" 1
fails "limit_payload refuses less than 1024 bytes" \
    "SELECT holdfast.limit_payload('default', 1023)" \
    "HF001: bytes is 1023; it takes 1024 to 268435456"
fails "limit_payload refuses more than 256 MiB" \
    "SELECT holdfast.limit_payload('default', 268435457)" \
    "HF001: bytes is 268435457; *"
fails "limit_payload of an unknown namespace is not found" \
    "SELECT holdfast.limit_payload('none', 2000)" \
    "HF003: there is no namespace none"
sql "SELECT holdfast.limit_payload('default', 1048576)" >/dev/null
sql "SELECT FROM holdfast_private.namespace_put('sums');
    SELECT FROM holdfast.publish('sums', 'käse.a', '{\"ä\": 1}', key => 'k', tenant => 'ü');
    SELECT FROM holdfast.publish('sums', 'b', id => gen_random_uuid());
    SELECT FROM holdfast.publish('sums', 'b', producer => 'p');
    SELECT FROM holdfast.publish('sums', 'b', to_json(repeat('[', 300)), key => repeat('k', 300));
    SELECT FROM holdfast.publish('sums', 'b', to_json(repeat('x', 9000)));
    SELECT FROM holdfast.publish('sums', 'b', '1', metadata => '{}');
    SELECT holdfast.publish('sums', 'c') FROM generate_series(1, 1000)" >/dev/null
is "publish stores the checksum and the time of the id that the library computes" "SELECT count(*),
    count(*) FILTER (WHERE e.checksum = holdfast_private.checksum_of(holdfast_private.content_of(
        e.id, e.emitted_at, e.type, e.key, e.tenant, e.metadata, e.producer, e.schedule_id,
        e.payload), e.hash, e.position, e.entered_at, e.key_version)),
    count(*) FILTER (WHERE e.guard_at = holdfast.id_time(e.id))
    FROM holdfast_private.events e JOIN holdfast_private.namespaces n ON n.id = e.namespace_id
    WHERE n.name = 'sums'" "1006|1006|1005"
is "publish sets synchronous_commit on" "BEGIN; SET LOCAL synchronous_commit = off;
    SELECT FROM holdfast.publish('default', 'x'); SHOW synchronous_commit; COMMIT" "on"
is "publish keeps a stronger synchronous_commit" \
    "BEGIN; SET LOCAL synchronous_commit = remote_apply;
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
    hears "a publish of an id is a duplicate if the first transaction commits" b t
done
for id in "$(id_at 0s)" "$(id_at '-3 days')"; do
    ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
    tell b "SELECT duplicate FROM holdfast.publish('default', 'y', id => '$id')"
    blocked b >/dev/null
    ask a "ROLLBACK" >/dev/null
    hears "a publish of an id is stored if the first transaction is rolled back" b f
done

ask a "BEGIN;
    SELECT FROM holdfast.publish('default', 'x', key => 'v', expected_version => 0)" >/dev/null
tell b "SELECT FROM holdfast.publish('default', 'y', key => 'v', expected_version => 0)"
ok "a publish with a version waits for the transaction that changes it" blocked b
ask a "COMMIT" >/dev/null
hears "a publish with a version is a conflict after the other one has committed" b "ERROR:  HF004"
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
hears "a duplicate returns no new version of the key" b "t|"
is "a duplicate does not raise the version of the key" \
    "SELECT version FROM holdfast_private.keys WHERE key = 'v'" 2
id=$(id_at 0s)
ask a "BEGIN; SELECT FROM holdfast.publish('default', 'x', id => '$id')" >/dev/null
tell b "SELECT duplicate
    FROM holdfast.publish('default', 'x', key => 'w', expected_version => 0, id => '$id')"
blocked b >/dev/null
ask a "COMMIT" >/dev/null
hears "a duplicate with expected_version 0 is no conflict" b "t"
is "a duplicate does not make a version of the key" \
    "SELECT count(*) FROM holdfast_private.keys WHERE key = 'w'" 0

sql "SELECT FROM holdfast_private.namespace_put('gapless', true)" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('gapless', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('gapless', 'x')"
ok "publishers of a gapless namespace come one after another" blocked b
ask a "ROLLBACK" >/dev/null
hears "a publish that is rolled back leaves no gap in a gapless namespace" b 1
is "a duplicate leaves no gap in a gapless namespace" "SELECT position, duplicate
    FROM holdfast.publish('gapless', 'x', id => (SELECT id FROM holdfast_private.events_2));
    SELECT position FROM holdfast.publish('gapless', 'x'); SELECT holdfast.head(2)" "1|t 2 2"
is "namespace_put cannot change gapless" \
    "SELECT status, message FROM holdfast_private.namespace_put('gapless', false)" \
    "4|namespace gapless is gapless, which cannot be changed"

# ---- Months -------------------------------------------------------------------------------------

month=$(date -u +%Y%m)
sql "SELECT FROM holdfast_private.namespace_put('months')" >/dev/null
lose="DROP TABLE holdfast_private.events_3_$month; UPDATE holdfast_private.namespaces
    SET months_from = 'infinity', months_to = '-infinity' WHERE id = 3"
sql "$lose" >/dev/null
is "publish makes a missing month" "SELECT position FROM holdfast.publish('months', 'x');
    SELECT tableoid::regclass FROM holdfast_private.events
        WHERE namespace_id = 3" "1 holdfast_private.events_3_$month"
sql "$lose" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('months', 'x')"
ok "the second of two that make a month waits for the first" blocked b
asks "publish into another namespace does not wait for a month that is being made" a \
    "SELECT FROM holdfast.publish('default', 'x'); COMMIT" ""
hears "a publish that waited for a month goes on" b 3
sql "$lose" >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
tell b "SELECT position FROM holdfast.publish('months', 'x')"
blocked b >/dev/null
ask a "ROLLBACK" >/dev/null
hears "a publish that waited makes the month if the first is rolled back" b 5
sql "DROP TABLE holdfast_private.events_3_$(date -u -d "$(date -u +%Y-%m-15) +1 month" +%Y%m)" \
    >/dev/null
ask a "BEGIN; SELECT FROM holdfast.publish('months', 'x')" >/dev/null
asks "ensure_months makes months beside open transactions" b "SELECT holdfast.ensure_months(3)" 1
ask a "COMMIT" >/dev/null
fails "ensure_month refuses a month of any time" \
    "SELECT holdfast_private.ensure_month(3, '2001-01-01')" \
    "HF001: month of 2001-01-01 * is not made*"
is "the log has two indexes per month" "SELECT count(*) FROM pg_indexes
    WHERE schemaname = 'holdfast_private' AND tablename = 'events_3_$month'" 2

# ---- Waking -------------------------------------------------------------------------------------

ask a "LISTEN holdfast_1" >/dev/null
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "publish sends no NOTIFY while no process sleeps" a "SELECT 1" "1"
flag=$(sql "SELECT holdfast.sleep(1, 60000)")
notified='1 Asynchronous notification "holdfast_1" with payload "events" received*'
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
ok "publish sends NOTIFY while a process sleeps" \
    like "$notified" \
    "$(ask a "SELECT 1")"
ask b "SELECT FROM holdfast.publish_many('default', '{x}', NULL)" >/dev/null
ok "publish_many sends NOTIFY while a process sleeps" \
    like "$notified" "$(ask a "SELECT 1")"
ask b "SELECT FROM holdfast.publish('gapless', 'x')" >/dev/null
asks "publish into another namespace sends no NOTIFY to this one" a "SELECT 1" "1"
later=$(sql "SELECT holdfast.sleep(1, 60000)")
is "awake takes back only the newest declaration of sleep" \
    "SELECT holdfast.awake(1, $flag), holdfast.awake(1, $later)" "f|t"
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "publish sends no NOTIFY after awake" a "SELECT 1" "1"
sql "SELECT holdfast.sleep(1, 0)" >/dev/null
ask b "SELECT FROM holdfast.publish('default', 'x')" >/dev/null
asks "publish sends no NOTIFY after a declaration of sleep has expired" a "SELECT 1" "1"
is "sleep takes no lock that a publisher takes" \
    "BEGIN; SELECT FROM holdfast.sleep(1, 1000);
    SELECT count(*) FROM pg_locks WHERE relation = 'holdfast_private.events_1_position'::regclass;
    COMMIT" "0"

# ---- Names --------------------------------------------------------------------------------------

is "namespace_put takes a name that looks like SQL" \
    "SELECT status, id FROM holdfast_private.namespace_put('Robert''); DROP TABLE \"x\" --')" "0|4"
is "namespace_put refuses a name of 129 bytes" \
    "SELECT status, message FROM holdfast_private.namespace_put(repeat('n', 129))" \
    "1|namespace name is 129 bytes; the limit is 128"
is "namespace_put refuses a name with a control character" \
    "SELECT status, message FROM holdfast_private.namespace_put(E'a\tb')" \
    "1|namespace name has the control character U+0009 at byte 1"
is "namespace_put refuses a name with white space at its ends" \
    "SELECT (holdfast_private.namespace_put(' a')).message,
    (holdfast_private.namespace_put(U&'a\\00a0')).message" \
    "namespace name begins with white space|namespace name ends with white space"
is "namespace_put without p_create does not find a missing namespace" "SELECT status, message
    FROM holdfast_private.namespace_put('no', p_create => false)" "3|there is no namespace no"

done_testing
