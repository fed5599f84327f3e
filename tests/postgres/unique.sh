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

is "the first is stored, the second is its duplicate" "$(once a); $(once a)" "1|f 1|t"
is "with its id" "SELECT p.id = e.id FROM holdfast.publish('default', 't', unique_key => 'a',
    unique_for => '1 s') p, holdfast.event_log e WHERE e.position = 1" t
is "in one transaction" "BEGIN; $(once b); $(once b); COMMIT" "2|f 2|t"
is "when its time is over, the next is stored" "UPDATE holdfast_private.uniques
    SET until = clock_timestamp() - interval '1 us' WHERE key = 'a'; $(once a)" "3|f"

# --- Two at the same moment ---
open a
open b
asks "one publishes and stays open" a "BEGIN; $(once c)" "4|f"
tell b "$(once c)"
ok "the other waits" blocked b
ask a "ROLLBACK" >/dev/null
ok "after a rollback it publishes" like "[56]|f" "$(hear b)"
asks "one publishes and stays open" a "BEGIN; $(once d)" "$(sql "SELECT last_value + 1 FROM
    holdfast_private.events_1_position")|f"
tell b "$(once d)"
ok "the other waits" blocked b
ask a "COMMIT" >/dev/null
ok "after a commit it is second" like "*|t" "$(hear b)"
is "of two, one" "$logged" 5
asks "a savepoint that is rolled back" a "BEGIN; SAVEPOINT s; $(once e); ROLLBACK TO s" \
    "$(sql "SELECT last_value + 1 FROM holdfast_private.events_1_position")|f"
tell b "$(once e)"
ok "leaves the key to others" like "*|f" "$(hear b)"
ok "and its transaction is second then" like "*|t" "$(ask a "$(once e)")"
ask a "COMMIT" >/dev/null

# --- An expiry at the same moment ---
over="UPDATE holdfast_private.uniques SET until = clock_timestamp() - interval '1 us',
    sweep_at = clock_timestamp() - interval '1 us'"
sql "$over WHERE key = 'e'" >/dev/null
ask a "BEGIN; $(once e)" >/dev/null
tell b "$(once e)"
ok "two find that the time is over: the second waits" blocked b
is "upkeep passes over what is being taken" \
    "SELECT holdfast_private.uniques_sweep(1, 100); SELECT count(*) FROM holdfast_private.uniques
     WHERE key = 'e'" "f 1"
ask a "COMMIT" >/dev/null
ok "and is second" like "*|t" "$(hear b)"
sql "$over WHERE key = 'e'" >/dev/null
ask a "BEGIN; SELECT holdfast_private.uniques_sweep(1, 100)" >/dev/null
tell b "$(once e)"
ok "a publisher waits while upkeep deletes its unique key" blocked b
ask a "COMMIT" >/dev/null
ok "and publishes" like "*|f" "$(hear b)"

# --- For later, and replaced ---
is "one waits" "$(later l)" "|f|f"
is "the next does not" "$(later l)" "|t|f"
is "not even now" "$(once l)" "|t"
is "unless it takes its place" "$(later l 'replace => true')" "|f|t"
is "of which there is one" "SELECT count(*) FROM holdfast.later_list('default')" 1
due="UPDATE holdfast_private.delayed SET due_at = now() - interval '1 s'"
sql "$due" >/dev/null
ask a "BEGIN; $(later l 'replace => true')" >/dev/null
is "a tick passes over an event that is being replaced" \
    "SELECT released FROM holdfast.tick('default')" 0
ask a "COMMIT" >/dev/null
is "it was replaced" "SELECT count(*) FROM holdfast.later_list('default')" 1
sql "$due" >/dev/null
before=$(sql "$logged")
asks "one that is being brought" a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later l 'replace => true')"
ok "is waited for" blocked b
ask a "COMMIT" >/dev/null
hears "and is not replaced" b "|f|f"
is "it is in the log, the other waits" "$logged;
    SELECT count(*) FROM holdfast.later_list('default')" "$((before + 1)) 1"
sql "$due" >/dev/null
asks "one whose bringing" a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later l 'replace => true')"
ok "is waited for" blocked b
ask a "ROLLBACK" >/dev/null
hears "and rolled back is replaced" b "|f|t"
is "it is not in the log" "$logged" "$((before + 1))"
sql "SELECT FROM holdfast.publish_later('default', 't', '1', now() - interval '1 s',
         unique_key => 'm', unique_for => '1 h')" >/dev/null
asks "one with a time of its own" a "BEGIN; SELECT released FROM holdfast.tick('default')" 1
tell b "$(later m "unique_for => '1 h', replace => true")"
ok "is waited for" blocked b
ask a "COMMIT" >/dev/null
hears "and in the log it has its key for that time" b "$(sql "SELECT max(position)
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
is "of one key the first is stored" "$(many '{m1,m2,m1,NULL}' '{1 h,1 h,1 h,NULL}')" \
    "$((at + 1))|f $((at + 2))|f $((at + 1))|t $((at + 3))|f"
is "and not again" "$(many '{m2,m1}' '{1 h,1 h}')" "$((at + 2))|t $((at + 1))|t"
is "with its id" "SELECT p.id = e.id FROM holdfast.publish_many('default', '{t}', NULL::json[],
    unique_keys => '{m1}', unique_for => '{1 h}') p, holdfast.event_log e
    WHERE e.position = $((at + 1))" t
is "one that waits has no position" "$(later m3); $(many '{m3}' '{1 h}')" "|f|f |t"
is "as JSON" "SELECT \"position\", duplicate FROM holdfast.publish_many('default',
    '[{\"type\": \"t\", \"unique\": \"m1\", \"unique_for\": \"10m\"},
      {\"type\": \"t\", \"unique\": \"m4\", \"unique_for\": \"10m\"}, {\"type\": \"t\"},
      {\"type\": \"t\", \"unique\": \"m4\", \"unique_for\": \"10m\"}]')" \
    "$((at + 1))|t $((at + 4))|f $((at + 5))|f $((at + 4))|t"
versions="keys => '{k,k}', expected_versions => '{0,7}'"
fails "all or none" "$(many '{m5,m6}' '{1 h,1 h}' "$versions")" "HF004: event 1: *"
is "nor is a key taken" "SELECT count(*) FROM holdfast_private.uniques WHERE key IN ('m5', 'm6')" 0
open a
ask a "BEGIN; $(many '{m7}' '{1 h}')" >/dev/null
open b
tell b "$(many '{m8,m7}' '{1 h,1 h}')"
ok "another waits for the end of the first" blocked b
ask a "ROLLBACK" >/dev/null
ok "and publishes after a rollback" like "*|f *|f" "$(hear b)"
ask a "BEGIN; $(many '{m9}' '{1 h}')" >/dev/null
ask b "BEGIN; $(many '{m10}' '{1 h}')" >/dev/null
tell a "$(many '{m10}' '{1 h}')"
ok "transactions that take keys crosswise" blocked a
tell b "$(many '{m9}' '{1 h}')"
ok "do not wait for ever" like "*40P01*" "$(hear a)$(hear b)"
shut a
shut b
fails "a key needs a time here, too" "$(many '{k}' '{NULL}')" \
    "HF001: event 0: unique_for is missing*"
fails "a time needs a key" "$(many '{k,NULL}' '{1 h,1 h}')" "HF001: event 1: unique_for is given*"
fails "as many of them as events" "SELECT FROM holdfast.publish_many('default', '{t,t}',
    NULL::json[], unique_keys => '{k}', unique_for => '{1 h}')" \
    "HF001: the arrays are not of one length"

# --- Many whose time is over ---
sql "INSERT INTO holdfast_private.uniques (namespace_id, key, id, until, sweep_at)
     SELECT 1, 'flood' || i, gen_random_uuid(), now() - interval '1 h', now() - interval '1 h'
     FROM generate_series(1, 300000) i" >/dev/null
flood="SELECT count(*) FROM holdfast_private.uniques WHERE key LIKE 'flood%'"
is "those of one namespace do not keep retain() from the others for long" \
    "SELECT holdfast.retain('default', 0); SELECT ($flood) BETWEEN 1 AND 299999" "0 t"
is "it goes on with the next call" \
    "SELECT holdfast.retain('default', 0); SELECT ($flood) < $(sql "$flood")" "0 t"
sql "DELETE FROM holdfast_private.uniques WHERE key LIKE 'flood%'" >/dev/null

# --- What is refused ---
fails "a key needs a time" "SELECT FROM holdfast.publish('default', 't', unique_key => 'k')" \
    "HF001: unique_for is missing*"
fails "a time needs a key" \
    "SELECT FROM holdfast.publish('default', 't', unique_for => '1 s')" \
    "HF001: unique_for is given but unique_key is NULL"
fails "a time has its limits" "SELECT FROM holdfast.publish('default', 't', unique_key => 'k',
    unique_for => '367 days')" "HF001: unique_for must be 1 millisecond to 366 days"
for time in '178000000 years' '-178000000 years' '-1 s' '0' '1 us'; do
    fails "of which $time is none" "SELECT FROM holdfast.publish('default', 't', unique_key => 'k',
        unique_for => '$time')" "HF001: unique_for must be 1 millisecond to 366 days"
    fails "for later, too: $time" "SELECT FROM holdfast.publish_later('default', 't', '1', now(),
        unique_key => 'k', unique_for => '$time')" "HF001: unique_for must be 1 *"
done
fails "a key has its limits" "SELECT FROM holdfast.publish('default', 't',
    unique_key => repeat('k', 256), unique_for => '1 s')" "HF001: unique_key is 256 bytes*"
fails "to replace needs a key" "SELECT FROM holdfast.publish_later('default', 't', '1', now(),
    replace => true)" "HF001: replace is given but unique_key is NULL"
fails "what others commit must be seen" "BEGIN ISOLATION LEVEL REPEATABLE READ; $(once k)" \
    "HF002: a unique key needs a transaction that is READ COMMITTED*"
fails "the library's way is checked for roles, too" \
    "SELECT holdfast_private.uniques_check(1, '{}'::text[], NULL)" \
    "HF001: the arrays are not of one length"

# --- Roles and namespaces ---
sql "SELECT FROM holdfast_private.namespace_put('other'); CREATE ROLE pub LOGIN;
     GRANT CONNECT ON DATABASE $PGDATABASE TO pub;
     SELECT holdfast.namespace_grant('publisher', 'default', 'pub')" >/dev/null
as() { PGUSER=pub sql "$1"; }
ok "a publisher publishes by key" like "*|f" "$(as "$(once role)")"
ok "and finds what others published by it" like "*|t" "$(as "$(once a)")"
ok "but not the keys of another namespace" same "0" \
    "$(sql "SELECT FROM holdfast.publish('other', 't', unique_key => 'a', unique_for => '1 h')" \
        >/dev/null; as "SELECT count(*) FROM holdfast.read_uniques() WHERE namespace_id <> 1")"
is "where the same key is another one" "SELECT count(*) FROM holdfast_private.uniques
    WHERE key = 'a'" 2
sql "CALL holdfast.drop_namespace('other')" >/dev/null
is "a namespace takes its keys along" \
    "SELECT count(*) FROM holdfast_private.uniques WHERE namespace_id <> 1" 0

done_testing
