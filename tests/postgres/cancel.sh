#!/usr/bin/env bash
# Cancelling in SQL: cancel_event, what it answers, what other sessions do at the same moment, and
# what roles may do.
. "$(dirname "$0")/lib.sh"
cluster
schema

id() { echo "0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c$1"; }
publish() { # NUMBER TYPE [KEY]
    sql "SELECT FROM holdfast.publish('default', '$2', id => '$(id "$1")',
                                      key => nullif('${3-}', ''))" >/dev/null
}
cancel="SELECT holdfast.cancel_event('default'"
claim="SELECT string_agg(position::text, ',' ORDER BY position)
    FROM holdfast.claim('default', 'jobs'"
state() { # NUMBER SUBSCRIPTION
    echo "SELECT state, cancelled_by, cancel_reason, cancelled_at <= clock_timestamp(),
              cancel_requested
          FROM holdfast.event_states('default', '$(id "$1")') WHERE subscription = '$2'"
}
sql "SELECT holdfast.create_subscription('default', 'jobs', '{job.*}', 'start', 'shared');
     SELECT holdfast.create_subscription('default', 'line', '{**}', 'start', 'ordered',
                                         partitions => 4)" >/dev/null
for n in 11 12 13 14 15 16; do publish $n job.a k; done # positions 1 to 6

# --- What it answers ---
is "an event that waits" "$cancel, 'jobs', '$(id 12)', 'sent by hand')" cancelled
is "says so" "$(state 12 jobs)" "cancelled|holdfast|sent by hand|t|f"
is "and is pending elsewhere" "$(state 12 line)" "pending||||f"
is "by its position, of an ordered subscription" "$cancel, 'line', \"position\" => 3)" cancelled
is "says so, without a reason" "$(state 13 line)" "cancelled|holdfast||t|f"
is "once more" "$cancel, 'jobs', '$(id 12)', 'other')" cancelled
is "the first reason stays" "$(state 12 jobs)" "cancelled|holdfast|sent by hand|t|f"
is "the next owner passes over it" "SELECT position FROM holdfast_private.settled
    ORDER BY position" "2 3"
is "claims pass over it" "$claim, 2)" "1,3"
is "and fold its row" "SELECT position FROM holdfast_private.settled" 3
is "it is not pending" "SELECT pending FROM holdfast.stats('default')
    WHERE subscription = 'jobs'" 3
is "one that is claimed" "$cancel, 'jobs', '$(id 11)')" cancelled
lease=$(sql "SELECT encode(uuid_send(token), 'hex') FROM holdfast_private.leases")
fails "its claimer cannot settle it" "SELECT holdfast.ack('default', 'jobs', '$lease',
    ARRAY[1::bigint])" "HF005: position 1 is not in the lease"
sql "SELECT holdfast.nack('default', 'jobs', '$lease', delay_ms => 3600000, error => 'x')" \
    >/dev/null
is "one that waits for a retry" "$cancel, 'jobs', '$(id 13)')" cancelled
is "its attempt stays" "SELECT state, attempts, attempts_json -> 0 ->> 'error'
    FROM holdfast.event_states('default', '$(id 13)') WHERE subscription = 'jobs'" "cancelled|1|x"
is "no row is left of it" "SELECT count(*) FROM holdfast_private.retries" 0
sql "SELECT holdfast.ack('default', 'jobs', max(lease)) FROM holdfast.claim('default', 'jobs', 1)" \
    >/dev/null
fails "one that is done" "$cancel, 'jobs', '$(id 14)')" \
    "HF004: the event at position 4 is done in subscription jobs"
sql "SELECT holdfast.bury('default', 'jobs', max(lease))
     FROM holdfast.claim('default', 'jobs', 1)" >/dev/null
fails "a dead letter" "$cancel, 'jobs', '$(id 15)')" \
    "HF004: the event at position 5 is a dead letter in subscription jobs"
publish 17 mail # position 7
fails "one that is not for it" "$cancel, 'jobs', '$(id 17)')" \
    "HF004: the event at position 7 is not *"
fails "no such event" "$cancel, 'jobs', '$(id 99)')" "HF003: there is no event with id *"
fails "no such position" "$cancel, 'jobs', \"position\" => 99)" \
    "HF003: there is no event at position 99"
fails "no such subscription" "$cancel, 'no', '$(id 16)')" "HF003: there is no subscription no"
fails "no such namespace" "SELECT holdfast.cancel_event('no', 'jobs', '$(id 16)')" \
    "HF003: there is no namespace no"
fails "neither id nor position" "$cancel, 'jobs')" "HF001: the event is named by *"
fails "both" "$cancel, 'jobs', '$(id 16)', \"position\" => 6)" "HF001: the event is named by *"
fails "no subscription at all" "$cancel, NULL, '$(id 16)')" "HF003: there is no subscription NULL"
fails "no namespace at all" "SELECT holdfast.cancel_event(NULL, 'jobs', '$(id 16)')" "HF003: *"
fails "too long a reason" "$cancel, 'jobs', '$(id 16)', repeat('x', 100000))" "HF001: reason is *"
sql "SELECT FROM holdfast.publish_later('default', 'job.b', '1', now() + interval '1 hour',
                                        id => '$(id 18)')" >/dev/null
fails "one that waits for its time" "$cancel, 'jobs', '$(id 18)')" \
    "HF004: event * is not in the log yet: it waits for its time"
fails "in one snapshot" "BEGIN ISOLATION LEVEL REPEATABLE READ; $cancel, 'jobs', '$(id 16)')" \
    "HF002: *READ COMMITTED*"
is "what failed has changed nothing" "$(state 16 jobs)" "pending||||f"

# --- A process has it in hand ---
me="'11111111-1111-1111-1111-111111111111'"
sql "INSERT INTO holdfast_private.processes (token, namespace_id, started_at, seen_at, locked,
                                             node_name)
     VALUES ($me, 1, now(), now(), false, 'n')" >/dev/null
kept="INSERT INTO holdfast_private.leases (token, subscription_id, expires_at, lease_ms, owner,
          bound, kept, careful, has_retries, count, positions, owner_name)
      SELECT $me, 1, now() + interval '1 hour', 60000, $me, true, true, false, false, 1,
             '{[6,7)}', 'n'"
sql "SELECT FROM holdfast.claim('default', 'jobs', 1);
     DELETE FROM holdfast_private.leases; $kept" >/dev/null
is "it is asked" "$cancel, 'jobs', '$(id 16)', 'please')" requested
is "which can be seen" "$(state 16 jobs)" "processing|holdfast|please||t"
is "nothing is cancelled yet" "SELECT positions FROM holdfast_private.leases" "{[6,7)}"
generation="SELECT generation FROM holdfast_private.subscriptions WHERE id = 1"
before=$(sql "$generation")
is "and once more" "$cancel, 'jobs', '$(id 16)')" requested
ok "the generation rises with each" test "$(sql "$generation")" -gt "$before"
sql "DELETE FROM holdfast_private.processes" >/dev/null
is "if it is dead the event is cancelled" "$cancel, 'jobs', '$(id 16)')" cancelled
is "by the first reason" "$(state 16 jobs)" "cancelled|holdfast|please|t|f"
is "its lease is gone" "SELECT count(*) FROM holdfast_private.leases" 0

# --- At the same moment ---
for n in 21 22 23 24; do publish $n job.c; done # positions 9 to 12, or thereabouts
p=$(sql "SELECT position FROM holdfast.event_log WHERE id = '$(id 21)'")
open one
open two
ask one "BEGIN; SELECT holdfast.cancel_event('default', 'jobs', '$(id 21)')" >/dev/null
tell two "SELECT string_agg(position::text, ',') FROM holdfast.claim('default', 'jobs', 1)"
blocked two
ask one COMMIT >/dev/null
ok "a claim waits for the one that cancels, and passes over it" same "$((p + 1))" "$(hear two)"
ask one "BEGIN; SELECT count(*) FROM holdfast.claim('default', 'jobs', 1)" >/dev/null
tell two "SELECT holdfast.cancel_event('default', 'jobs', '$(id 23)')"
blocked two
ask one COMMIT >/dev/null
ok "one that was claimed meanwhile is taken out of that lease" same cancelled "$(hear two)"
is "which has ended so" "SELECT count(*) FROM holdfast_private.leases
    WHERE positions @> $((p + 2))::bigint" 0
lease=$(sql "SELECT encode(uuid_send(token), 'hex') FROM holdfast_private.leases
    WHERE positions @> $((p + 1))::bigint")
ask one "BEGIN; SELECT holdfast.ack('default', 'jobs', '$lease')" >/dev/null
tell two "SELECT holdfast.cancel_event('default', 'jobs', '$(id 22)')"
blocked two
ask one COMMIT >/dev/null
ok "an ack that commits first has done it" same "ERROR:  HF004" "$(hear two)"
ask one "BEGIN; SELECT holdfast.cancel_event('default', 'jobs', '$(id 24)')" >/dev/null
ask one ROLLBACK >/dev/null
is "what is rolled back has not happened" "$(state 24 jobs)" "pending||||f"
shut one
shut two

# --- Roles ---
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
sql "SELECT holdfast.create_namespace('shop');
     SELECT holdfast.create_subscription('shop', 'theirs', '{**}', 'start', 'shared');
     SELECT FROM holdfast.publish('shop', 'secret', '{}', id => '$(id 31)')" >/dev/null
for part in viewer publisher consumer owner; do
    sql "CREATE ROLE $part LOGIN; SELECT holdfast.namespace_grant('$part', 'default', '$part')" \
        >/dev/null
done
sql "CREATE ROLE nobody LOGIN" >/dev/null
as() { echo "SET SESSION AUTHORIZATION $1; $2"; } # ROLE SQL
theirs=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'theirs'")
shop=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'shop'")
change() { # NAMESPACE SUBSCRIPTION POSITION PART [TOKEN EPOCH LEASE]: the call
    echo "SELECT status, state FROM holdfast.change_cancel($1, $2, $3, $4, ${5-NULL}, ${6-NULL},
              ${7-NULL}, 'x', NULL, clock_timestamp())"
}
request=0 withdraw=1 unread=2 in_hand=3
for part in viewer publisher; do
    fails "a $part cancels nothing" "$(as $part "$cancel, 'jobs', '$(id 24)')")" "42501: *"
    fails "a $part cancels nothing by the inner function" \
        "$(as $part "$(change 1 1 1 $request)")" "42501: *"
done
fails "one that has no part sees nothing" "$(as nobody "$cancel, 'jobs', '$(id 24)')")" "42501: *"
is "a consumer cancels" "$(as consumer "$cancel, 'jobs', '$(id 24)')")" cancelled
is "by its name" "$(state 24 jobs)" "cancelled|consumer||t|f"
is "a viewer sees that" "$(as viewer "$(state 24 jobs)")" "cancelled|consumer||t|f"
for part in consumer owner; do
    fails "a $part of another namespace" \
        "$(as $part "SELECT holdfast.cancel_event('shop', 'theirs', '$(id 31)')")" \
        "HF003: there is no namespace shop"
    fails "a $part with the number of the other namespace" \
        "$(as $part "$(change "$shop" "$theirs" 1 $request)")" "42501: *"
    is "a $part with the other's subscription in its own namespace" \
        "$(as $part "$(change 1 "$theirs" 1 $request)")" "3|"
    is "a $part takes back nothing of the other's" \
        "$(as $part "$(change 1 "$theirs" 1 $withdraw)")" "3|"
done
is "the other namespace has its event as before" "SELECT state, cancel_requested
    FROM holdfast.event_states('shop', '$(id 31)')" "pending|f"
is "a consumer sees no marks of others" "$(as consumer 'SELECT count(*) FROM
    holdfast.read_cancels() c JOIN holdfast.read_subscriptions() s ON s.id = c.subscription_id
    WHERE s.namespace_id <> 1')" 0
fails "a part that is none" "$(as consumer "$(change 1 1 1 7)")" "HF001: p_part is 7"
fails "NULL for it" "$(as consumer "$(change 1 1 1 NULL)")" "HF001: p_part is NULL"
is "a position that is NULL" "$(as consumer "$(change 1 1 NULL $request)")" "3|"
is "a negative one" "$(as consumer "$(change 1 1 -5 $request)")" "3|"
is "a subscription that is NULL" "$(as consumer "$(change 1 NULL 1 $request)")" "3|"
publish 25 job.d
p=$(sql "SELECT position FROM holdfast.event_log WHERE id = '$(id 25)'")
is "an answer that was not asked for cancels nothing" \
    "$(as consumer "$(change 1 1 "$p" $in_hand NULL 0 NULL)"); $(state 25 jobs)" "0|0 pending||||f"
is "nor does one for an ordered subscription" \
    "$(as consumer "$(change 1 2 "$p" $unread NULL 0 NULL)"); $(state 25 line)" "0|0 pending||||f"
sql "INSERT INTO holdfast_private.cancels (subscription_id, position, hash, requested_at)
     SELECT s, position, hash, now() FROM holdfast_private.events, unnest('{1,2}'::bigint[]) s
     WHERE position = $p AND namespace_id = 1" >/dev/null
is "one without the lease is refused" "$(as consumer "$(change 1 1 "$p" $in_hand NULL 0 NULL)")" \
    "5|"
is "one without the partition is refused" \
    "$(as consumer "$(change 1 2 "$p" $unread NULL 0 NULL)")" "5|"
is "so nothing was cancelled" "SELECT count(*) FROM holdfast_private.cancels
    WHERE position = $p AND cancelled_at IS NOT NULL" 0
fails "a role does not write the table" "$(as consumer "UPDATE holdfast_private.cancels SET
    reason = 'x'")" "42501: *"
done_testing
