#!/usr/bin/env bash
# Unique keys in SQL: in transactions of the caller, which commit or are rolled back while others
# wait; beside the process that brings an event or the upkeep that sweeps keys; for roles.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
# once KEY [ARGUMENTS]: publishes with this key; prints position and whether it is a duplicate
once() { echo "SELECT \"position\", duplicate FROM holdfast.publish('default', 't',
    unique_key => '$1', unique_for => '10 minutes'${2:+, $2})"; }
# later KEY [ARGUMENTS]: the same for later
later() { echo "SELECT \"position\", duplicate, replaced FROM holdfast.publish_later('default', 't',
    '1', now() + interval '1 h', unique_key => '$1'${2:+, $2})"; }
logged="SELECT count(*) FROM holdfast.event_log"

is "publish stores the first event of a unique key, the second is its duplicate" \
    "$(once a); $(once a)" "1|f 1|t"
is "a duplicate of a unique key returns the id of the first event" \
    "SELECT p.id = e.id FROM holdfast.publish('default', 't', unique_key => 'a',
    unique_for => '1 s') p, holdfast.event_log e WHERE e.position = 1" t
is "a unique key counts within one transaction" "BEGIN; $(once b); $(once b); COMMIT" "2|f 2|t"
is "publish stores an event after the time of its unique key is over" \
    "UPDATE holdfast_private.uniques
    SET until = clock_timestamp() - interval '1 us' WHERE key = 'a'; $(once a)" "3|f"

# --- Two at the same moment ---
open a
open b
asks "setup: a transaction publishes with a unique key and stays open" a "BEGIN; $(once c)" "4|f"
tell b "$(once c)"
ok "a publish with the same unique key waits for an open transaction" blocked b
ask a "ROLLBACK" >/dev/null
ok "a publish with the same unique key is stored after a rollback" like "[56]|f" "$(hear b)"
asks "setup: another transaction publishes with a unique key and stays open" \
    a "BEGIN; $(once d)" "$(sql "SELECT last_value + 1 FROM
    holdfast_private.events_1_position")|f"
tell b "$(once d)"
ok "a second publish with the same unique key waits for an open transaction" blocked b
ask a "COMMIT" >/dev/null
ok "a publish with the same unique key is a duplicate after a commit" like "*|t" "$(hear b)"
is "one of two transactions with the same unique key has stored an event" "$logged" 5
asks "setup: a savepoint with a unique key is rolled back" \
    a "BEGIN; SAVEPOINT s; $(once e); ROLLBACK TO s" \
    "$(sql "SELECT last_value + 1 FROM holdfast_private.events_1_position")|f"
tell b "$(once e)"
ok "a savepoint that is rolled back leaves its unique key to others" like "*|f" "$(hear b)"
ok "a transaction whose savepoint was rolled back gets a duplicate of the other event" \
    like "*|t" "$(ask a "$(once e)")"
ask a "COMMIT" >/dev/null

# --- An expiry at the same moment ---
over="UPDATE holdfast_private.uniques SET until = clock_timestamp() - interval '1 us',
    sweep_at = clock_timestamp() - interval '1 us'"
sql "$over WHERE key = 'e'" >/dev/null
ask a "BEGIN; $(once e)" >/dev/null
tell b "$(once e)"
ok "the second of two that find the time of a unique key over waits" blocked b
is "uniques_sweep passes over a unique key that is being taken" \
    "SELECT holdfast_private.uniques_sweep(1, 100); SELECT count(*) FROM holdfast_private.uniques
     WHERE key = 'e'" "f 1"
ask a "COMMIT" >/dev/null
ok "the second of two that find the time of a unique key over gets a duplicate" \
    like "*|t" "$(hear b)"
sql "$over WHERE key = 'e'" >/dev/null
ask a "BEGIN; SELECT holdfast_private.uniques_sweep(1, 100)" >/dev/null
tell b "$(once e)"
ok "a publisher waits while upkeep deletes its unique key" blocked b
ask a "COMMIT" >/dev/null
ok "a publisher publishes after upkeep has deleted its unique key" like "*|f" "$(hear b)"

# --- For later, and replaced ---
is "publish_later stores the first event of a unique key" "$(later l)" "|f|f"
is "publish_later of a unique key that waits is a duplicate" "$(later l)" "|t|f"
is "publish of a unique key that waits is a duplicate without a position" "$(once l)" "|t"
is "publish_later with replace takes the place of the event that waits" \
    "$(later l 'replace => true')" "|f|t"
is "one event of a replaced unique key waits" \
    "SELECT count(*) FROM holdfast.later_list('default')" 1
due="UPDATE holdfast_private.delayed SET due_at = now() - interval '1 s'"
sql "$due" >/dev/null
ask a "BEGIN; $(later l 'replace => true')" >/dev/null
is "tick passes over an event that is being replaced" \
    "SELECT released FROM holdfast.tick('default')" 0
ask a "COMMIT" >/dev/null
is "one event waits after it was replaced beside a tick" \
    "SELECT count(*) FROM holdfast.later_list('default')" 1
sql "$due" >/dev/null
before=$(sql "$logged")
asks "setup: a tick brings an event and stays open" \
    a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later l 'replace => true')"
ok "publish_later with replace waits for the tick that brings the event" blocked b
ask a "COMMIT" >/dev/null
hears "publish_later with replace stores a new event after the tick" b "|f|f"
is "the brought event is in the log and the new one waits" "$logged;
    SELECT count(*) FROM holdfast.later_list('default')" "$((before + 1)) 1"
sql "$due" >/dev/null
asks "setup: a tick brings an event and will be rolled back" \
    a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later l 'replace => true')"
ok "publish_later with replace waits for a tick that will be rolled back" blocked b
ask a "ROLLBACK" >/dev/null
hears "publish_later with replace takes the place after the tick was rolled back" b "|f|t"
is "an event whose tick was rolled back is not in the log" "$logged" "$((before + 1))"
sql "SELECT FROM holdfast.publish_later('default', 't', '1', now() - interval '1 s',
         unique_key => 'm', unique_for => '1 h')" >/dev/null
asks "setup: a tick brings an event whose key is taken for an hour" \
    a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later m "unique_for => '1 h', replace => true")"
ok "publish_later with replace waits for an event whose key outlives it" blocked b
ask a "COMMIT" >/dev/null
hears "publish_later with replace gets a duplicate of the event in the log" \
    b "$(sql "SELECT max(position)
    FROM holdfast.event_log")|t|f"
shut a
shut b

# --- Many at once ---
# many KEYS TIMES [ARGUMENTS]: publishes an event for each
many() { echo "SELECT \"position\", duplicate FROM holdfast.publish_many('default',
    array_fill('t'::text, ARRAY[cardinality('$1'::text[])]), NULL::json[], unique_keys => '$1',
    unique_for => '$2'${3:+, $3})"; }
tip="SELECT last_value FROM holdfast_private.events_1_position"
tip() { sql "$tip"; }
at=$(tip)
is "publish_many stores the first event of each unique key" \
    "$(many '{m1,m2,m1,NULL}' '{1 h,1 h,1 h,NULL}')" \
    "$((at + 1))|f $((at + 2))|f $((at + 1))|t $((at + 3))|f"
is "publish_many of unique keys that are taken returns duplicates" \
    "$(many '{m2,m1}' '{1 h,1 h}')" "$((at + 2))|t $((at + 1))|t"
is "publish_many returns the id of the first event of a unique key" \
    "SELECT p.id = e.id FROM holdfast.publish_many('default', '{t}', NULL::json[],
    unique_keys => '{m1}', unique_for => '{1 h}') p, holdfast.event_log e
    WHERE e.position = $((at + 1))" t
is "publish_many of a unique key that waits returns no position" \
    "$(later m3); $(many '{m3}' '{1 h}')" "|f|f |t"
is "publish_many takes unique keys as JSON" \
    "SELECT \"position\", duplicate FROM holdfast.publish_many('default',
    '[{\"type\": \"t\", \"unique\": \"m1\", \"unique_for\": \"10m\"},
      {\"type\": \"t\", \"unique\": \"m4\", \"unique_for\": \"10m\"}, {\"type\": \"t\"},
      {\"type\": \"t\", \"unique\": \"m4\", \"unique_for\": \"10m\"}]')" \
    "$((at + 1))|t $((at + 4))|f $((at + 5))|f $((at + 4))|t"
versions="keys => '{k,k}', expected_versions => '{0,7}'"
fails "publish_many with a wrong version stores nothing" \
    "$(many '{m5,m6}' '{1 h,1 h}' "$versions")" "HF004: event 1: *"
is "publish_many with a wrong version takes no unique key" \
    "SELECT count(*) FROM holdfast_private.uniques WHERE key IN ('m5', 'm6')" 0
open a
ask a "BEGIN; $(many '{m7}' '{1 h}')" >/dev/null
open b
tell b "$(many '{m8,m7}' '{1 h,1 h}')"
ok "publish_many waits for a transaction that takes one of its unique keys" blocked b
ask a "ROLLBACK" >/dev/null
ok "publish_many publishes after the other transaction was rolled back" like "*|f *|f" "$(hear b)"
ask a "BEGIN; $(many '{m9}' '{1 h}')" >/dev/null
ask b "BEGIN; $(many '{m10}' '{1 h}')" >/dev/null
tell a "$(many '{m10}' '{1 h}')"
ok "setup: a transaction waits for the unique key of another" blocked a
tell b "$(many '{m9}' '{1 h}')"
ok "transactions that take unique keys crosswise end with a deadlock error" \
    like "*40P01*" "$(hear a)$(hear b)"
shut a
shut b
fails "publish_many refuses a unique key without a time" "$(many '{k}' '{NULL}')" \
    "HF001: event 0: unique_for is missing*"
fails "publish_many refuses a time without a unique key" \
    "$(many '{k,NULL}' '{1 h,1 h}')" "HF001: event 1: unique_for is given*"
fails "publish_many refuses fewer unique keys than events" \
    "SELECT FROM holdfast.publish_many('default', '{t,t}',
    NULL::json[], unique_keys => '{k}', unique_for => '{1 h}')" \
    "HF001: the arrays are not of one length"

# --- Many whose time is over ---
sql "INSERT INTO holdfast_private.uniques (namespace_id, key, id, until, sweep_at)
     SELECT 1, 'flood' || i, gen_random_uuid(), now() - interval '1 h', now() - interval '1 h'
     FROM generate_series(1, 300000) i" >/dev/null
flood="SELECT count(*) FROM holdfast_private.uniques WHERE key LIKE 'flood%'"
is "retain deletes some of 300000 old unique keys per call" \
    "SELECT holdfast.retain('default', 0); SELECT ($flood) BETWEEN 1 AND 299999" "0 t"
is "retain goes on with old unique keys at the next call" \
    "SELECT holdfast.retain('default', 0); SELECT ($flood) < $(sql "$flood")" "0 t"
sql "DELETE FROM holdfast_private.uniques WHERE key LIKE 'flood%'" >/dev/null

# --- What is refused ---
fails "publish refuses a unique_key without unique_for" \
    "SELECT FROM holdfast.publish('default', 't', unique_key => 'k')" \
    "HF001: unique_for is missing*"
fails "publish refuses a unique_for without unique_key" \
    "SELECT FROM holdfast.publish('default', 't', unique_for => '1 s')" \
    "HF001: unique_for is given but unique_key is NULL"
fails "publish refuses a unique_for of 367 days" \
    "SELECT FROM holdfast.publish('default', 't', unique_key => 'k',
    unique_for => '367 days')" "HF001: unique_for must be 1 millisecond to 366 days"
for time in '178000000 years' '-178000000 years' '-1 s' '0' '1 us'; do
    fails "publish refuses a unique_for of $time" \
        "SELECT FROM holdfast.publish('default', 't', unique_key => 'k',
        unique_for => '$time')" "HF001: unique_for must be 1 millisecond to 366 days"
    fails "publish_later refuses a unique_for of $time" \
        "SELECT FROM holdfast.publish_later('default', 't', '1', now(),
        unique_key => 'k', unique_for => '$time')" "HF001: unique_for must be 1 *"
done
fails "publish refuses a unique_key of 256 bytes" "SELECT FROM holdfast.publish('default', 't',
    unique_key => repeat('k', 256), unique_for => '1 s')" "HF001: unique_key is 256 bytes*"
fails "publish_later refuses replace without unique_key" \
    "SELECT FROM holdfast.publish_later('default', 't', '1', now(),
    replace => true)" "HF001: replace is given but unique_key is NULL"
fails "publish with a unique_key refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ; $(once k)" \
    "HF002: a unique key needs a transaction that is READ COMMITTED*"
fails "uniques_check refuses arrays of different lengths" \
    "SELECT holdfast_private.uniques_check(1, '{}'::text[], NULL)" \
    "HF001: the arrays are not of one length"

# --- Roles and namespaces ---
sql "SELECT FROM holdfast_private.namespace_put('other'); CREATE ROLE pub LOGIN;
     GRANT CONNECT ON DATABASE $PGDATABASE TO pub;
     SELECT holdfast.namespace_grant('publisher', 'default', 'pub')" >/dev/null
as() { PGUSER=pub sql "$1"; }
ok "a publisher publishes with a unique key" like "*|f" "$(as "$(once role)")"
ok "a publisher gets a duplicate of a unique key that others have taken" \
    like "*|t" "$(as "$(once a)")"
ok "a publisher does not see unique keys of another namespace" same "0" \
    "$(sql "SELECT FROM holdfast.publish('other', 't', unique_key => 'a', unique_for => '1 h')" \
        >/dev/null; as "SELECT count(*) FROM holdfast.read_uniques() WHERE namespace_id <> 1")"
is "the same unique key may be taken in two namespaces" \
    "SELECT count(*) FROM holdfast_private.uniques
    WHERE key = 'a'" 2
sql "CALL holdfast.drop_namespace('other')" >/dev/null
is "removing a namespace removes its unique keys" \
    "SELECT count(*) FROM holdfast_private.uniques WHERE namespace_id <> 1" 0

done_testing
