#!/usr/bin/env bash
# Cancelling in SQL: cancel_event, what it answers, what other sessions do at the same moment, and
# what roles may do.
. "$(dirname "$0")/lib.sh"
cluster
keep
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
is "cancel_event of an event that waits returns cancelled" \
    "$cancel, 'jobs', '$(id 12)', 'sent by hand')" cancelled
is "event_states says by whom and why an event is cancelled" \
    "$(state 12 jobs)" "cancelled|holdfast|sent by hand|t|f"
is "an event that is cancelled in one subscription is pending in another" \
    "$(state 12 line)" "pending||||f"
is "cancel_event takes a position of an ordered subscription" \
    "$cancel, 'line', \"position\" => 3)" cancelled
is "event_states shows a cancelled event without a reason" \
    "$(state 13 line)" "cancelled|holdfast||t|f"
is "cancel_event of a cancelled event returns cancelled" \
    "$cancel, 'jobs', '$(id 12)', 'other')" cancelled
is "a second cancel_event keeps the first reason" \
    "$(state 12 jobs)" "cancelled|holdfast|sent by hand|t|f"
is "cancelled positions are stored as settled for the next owner" \
    "SELECT position FROM holdfast_private.settled
    ORDER BY position" "2 3"
is "claim passes over a cancelled event" "$claim, 2)" "1,3"
is "claim removes the settled row of a cancelled event that it passes" \
    "SELECT position FROM holdfast_private.settled" 3
is "a cancelled event is not pending" "SELECT pending FROM holdfast.stats('default')
    WHERE subscription = 'jobs'" 3
is "cancel_event of a claimed event returns cancelled" "$cancel, 'jobs', '$(id 11)')" cancelled
lease=$(sql "SELECT encode(uuid_send(token), 'hex') FROM holdfast_private.leases")
fails "ack of a cancelled event is stale" "SELECT holdfast.ack('default', 'jobs', '$lease',
    ARRAY[1::bigint])" "HF005: position 1 is not in the lease"
sql "SELECT holdfast.nack('default', 'jobs', '$lease', delay_ms => 3600000, error => 'x')" \
    >/dev/null
is "cancel_event of an event that waits for a retry returns cancelled" \
    "$cancel, 'jobs', '$(id 13)')" cancelled
is "a cancelled event keeps its failed attempts" \
    "SELECT state, attempts, attempts_json -> 0 ->> 'error'
    FROM holdfast.event_states('default', '$(id 13)') WHERE subscription = 'jobs'" "cancelled|1|x"
is "cancel_event leaves no row among the retries" "SELECT count(*) FROM holdfast_private.retries" 0
sql "SELECT holdfast.ack('default', 'jobs', max(lease)) FROM holdfast.claim('default', 'jobs', 1)" \
    >/dev/null
fails "cancel_event of an event that is done is a conflict" "$cancel, 'jobs', '$(id 14)')" \
    "HF004: the event at position 4 is done in subscription jobs"
sql "SELECT holdfast.bury('default', 'jobs', max(lease))
     FROM holdfast.claim('default', 'jobs', 1)" >/dev/null
fails "cancel_event of a dead letter is a conflict" "$cancel, 'jobs', '$(id 15)')" \
    "HF004: the event at position 5 is a dead letter in subscription jobs"
publish 17 mail # position 7
fails "cancel_event of an event that no pattern matches is a conflict" \
    "$cancel, 'jobs', '$(id 17)')" \
    "HF004: the event at position 7 is not for subscription jobs"
fails "cancel_event of an unknown id is not found" \
    "$cancel, 'jobs', '$(id 99)')" "HF003: there is no event with id *"
fails "cancel_event of an unknown position is not found" "$cancel, 'jobs', \"position\" => 99)" \
    "HF003: there is no event at position 99"
fails "cancel_event of an unknown subscription is not found" \
    "$cancel, 'no', '$(id 16)')" "HF003: there is no subscription no"
fails "cancel_event of an unknown namespace is not found" \
    "SELECT holdfast.cancel_event('no', 'jobs', '$(id 16)')" \
    "HF003: there is no namespace no"
fails "cancel_event refuses neither id nor position" \
    "$cancel, 'jobs')" "HF001: the event is named by *"
fails "cancel_event refuses both id and position" \
    "$cancel, 'jobs', '$(id 16)', \"position\" => 6)" "HF001: the event is named by *"
fails "cancel_event of the subscription NULL is not found" \
    "$cancel, NULL, '$(id 16)')" "HF003: there is no subscription NULL"
fails "cancel_event of the namespace NULL is not found" \
    "SELECT holdfast.cancel_event(NULL, 'jobs', '$(id 16)')" "HF003: *"
fails "cancel_event refuses a reason of 100000 bytes" \
    "$cancel, 'jobs', '$(id 16)', repeat('x', 100000))" "HF001: reason is *"
sql "SELECT FROM holdfast.publish_later('default', 'job.b', '1', now() + interval '1 hour',
                                        id => '$(id 18)')" >/dev/null
fails "cancel_event of an event that waits for its time is a conflict" \
    "$cancel, 'jobs', '$(id 18)')" \
    "HF004: event * is not in the log yet: it waits for its time"
fails "cancel_event refuses a transaction that is REPEATABLE READ" \
    "BEGIN ISOLATION LEVEL REPEATABLE READ; $cancel, 'jobs', '$(id 16)')" \
    "HF002: *READ COMMITTED*"
is "refused calls of cancel_event have changed nothing" "$(state 16 jobs)" "pending||||f"

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
is "cancel_event of an event that a process runs returns requested" \
    "$cancel, 'jobs', '$(id 16)', 'please')" requested
is "event_states shows that cancelling is requested" \
    "$(state 16 jobs)" "processing|holdfast|please||t"
is "a requested cancel leaves the lease as it is" \
    "SELECT positions FROM holdfast_private.leases" "{[6,7)}"
generation="SELECT generation FROM holdfast_private.subscriptions WHERE id = 1"
before=$(sql "$generation")
is "a second request to cancel returns requested" "$cancel, 'jobs', '$(id 16)')" requested
ok "each request to cancel raises the generation" test "$(sql "$generation")" -gt "$before"
sql "DELETE FROM holdfast_private.processes" >/dev/null
is "cancel_event of an event whose process is dead returns cancelled" \
    "$cancel, 'jobs', '$(id 16)')" cancelled
is "an event keeps the reason of the first request" \
    "$(state 16 jobs)" "cancelled|holdfast|please|t|f"
is "the lease of a cancelled event is gone" "SELECT count(*) FROM holdfast_private.leases" 0

# --- At the same moment ---
for n in 21 22 23 24; do publish $n job.c; done # positions 9 to 12, or thereabouts
p=$(sql "SELECT position FROM holdfast.event_log WHERE id = '$(id 21)'")
open one
open two
ask one "BEGIN; SELECT holdfast.cancel_event('default', 'jobs', '$(id 21)')" >/dev/null
tell two "SELECT string_agg(position::text, ',') FROM holdfast.claim('default', 'jobs', 1)"
blocked two
ask one COMMIT >/dev/null
ok "a claim waits for a cancel and passes over the event" same "$((p + 1))" "$(hear two)"
ask one "BEGIN; SELECT count(*) FROM holdfast.claim('default', 'jobs', 1)" >/dev/null
tell two "SELECT holdfast.cancel_event('default', 'jobs', '$(id 23)')"
blocked two
ask one COMMIT >/dev/null
ok "cancel_event waits for a claim and takes the event out of its lease" \
    same cancelled "$(hear two)"
is "a lease whose only event was cancelled has ended" "SELECT count(*) FROM holdfast_private.leases
    WHERE positions @> $((p + 2))::bigint" 0
lease=$(sql "SELECT encode(uuid_send(token), 'hex') FROM holdfast_private.leases
    WHERE positions @> $((p + 1))::bigint")
ask one "BEGIN; SELECT holdfast.ack('default', 'jobs', '$lease')" >/dev/null
tell two "SELECT holdfast.cancel_event('default', 'jobs', '$(id 22)')"
blocked two
ask one COMMIT >/dev/null
ok "cancel_event waits for an ack, after which it is a conflict" same "ERROR:  HF004" "$(hear two)"
ask one "BEGIN; SELECT holdfast.cancel_event('default', 'jobs', '$(id 24)')" >/dev/null
ask one ROLLBACK >/dev/null
is "a cancel that is rolled back has not happened" "$(state 24 jobs)" "pending||||f"
shut one
shut two

# --- In a hole ---
# The cursor has passed a position whose transaction had not ended; it ends, and the event is there.
sql "SELECT holdfast.create_subscription('default', 'holes', '{hole.*}', 'now', 'shared')" \
    >/dev/null
open one
open two
ask one "BEGIN; SELECT FROM holdfast.publish('default', 'hole.a', id => '$(id 41)')" >/dev/null
ask two "BEGIN; SELECT FROM holdfast.publish('default', 'hole.b', id => '$(id 42)')" >/dev/null
publish 43 hole.c
taken="SELECT string_agg(type, ',' ORDER BY position) FROM holdfast.claim('default', 'holes')"
is "claim passes positions that it cannot see" "$taken" hole.c
fails "cancel_event does not find an event that is not committed" \
    "$cancel, 'holes', '$(id 41)')" "HF003: there is no event with id *"
ask one COMMIT >/dev/null
is "cancel_event of an event that fills a hole returns cancelled" \
    "$cancel, 'holes', '$(id 41)')" cancelled
is "an event that was cancelled in a hole says so" \
    "$(state 41 holes)" "cancelled|holdfast||t|f"
is "an event that was cancelled in a hole is not pending" "SELECT pending
    FROM holdfast.stats('default') WHERE subscription = 'holes'" 0
is "claim does not hand out what was cancelled in a hole" "$taken" ""
ask two COMMIT >/dev/null
is "claim hands out the event that fills another hole" "$taken" hole.b
is "an event that was cancelled in a hole stays cancelled" \
    "$(state 41 holes)" "cancelled|holdfast||t|f"
is "nothing is left of a hole in which an event was cancelled" "SELECT
    (SELECT count(*) FROM holdfast_private.settled d WHERE d.subscription_id = s.id),
    (SELECT coalesce(cardinality(c.holes), 0) FROM holdfast_private.checkpoints c
     WHERE c.subscription_id = s.id)
    FROM holdfast_private.subscriptions s WHERE s.name = 'holes'" "0|0"
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
sql "CREATE ROLE stranger LOGIN" >/dev/null
as() { echo "SET SESSION AUTHORIZATION $1; $2"; } # ROLE SQL
theirs=$(sql "SELECT id FROM holdfast_private.subscriptions WHERE name = 'theirs'")
shop=$(sql "SELECT id FROM holdfast_private.namespaces WHERE name = 'shop'")
change() { # NAMESPACE SUBSCRIPTION POSITION PART [TOKEN EPOCH LEASE]: the call
    echo "SELECT status, state FROM holdfast.change_cancel($1, $2, $3, $4, ${5-NULL}, ${6-NULL},
              ${7-NULL}, 'x', NULL, clock_timestamp())"
}
request=0 withdraw=1 unread=2 in_hand=3
for part in viewer publisher; do
    fails "a $part cannot call cancel_event" "$(as $part "$cancel, 'jobs', '$(id 24)')")" "42501: *"
    fails "a $part cannot call change_cancel" \
        "$(as $part "$(change 1 1 1 $request)")" "42501: *"
done
fails "a role without a part cannot call cancel_event" \
    "$(as stranger "$cancel, 'jobs', '$(id 24)')")" "42501: *"
is "a consumer may call cancel_event" "$(as consumer "$cancel, 'jobs', '$(id 24)')")" cancelled
is "cancelled_by is the name of the role" "$(state 24 jobs)" "cancelled|consumer||t|f"
is "a viewer sees by whom an event is cancelled" \
    "$(as viewer "$(state 24 jobs)")" "cancelled|consumer||t|f"
for part in consumer owner; do
    fails "a $part of another namespace does not find the namespace" \
        "$(as $part "SELECT holdfast.cancel_event('shop', 'theirs', '$(id 31)')")" \
        "HF003: there is no namespace shop"
    fails "a $part of another namespace cannot call change_cancel with its number" \
        "$(as $part "$(change "$shop" "$theirs" 1 $request)")" "42501: *"
    is "a $part cannot cancel a subscription of another namespace by its number" \
        "$(as $part "$(change 1 "$theirs" 1 $request)")" "3|"
    is "a $part cannot withdraw a request of another namespace" \
        "$(as $part "$(change 1 "$theirs" 1 $withdraw)")" "3|"
done
is "the event of another namespace is as before" "SELECT state, cancel_requested
    FROM holdfast.event_states('shop', '$(id 31)')" "pending|f"
is "a consumer sees no cancels of other namespaces" "$(as consumer 'SELECT count(*) FROM
    holdfast.read_cancels() c JOIN holdfast.read_subscriptions() s ON s.id = c.subscription_id
    WHERE s.namespace_id <> 1')" 0
fails "change_cancel refuses an unknown p_part" \
    "$(as consumer "$(change 1 1 1 7)")" "HF001: p_part is 7"
fails "change_cancel refuses a p_part that is NULL" \
    "$(as consumer "$(change 1 1 1 NULL)")" "HF001: p_part is NULL"
is "change_cancel of a position that is NULL is not found" \
    "$(as consumer "$(change 1 1 NULL $request)")" "3|"
is "change_cancel of a negative position is not found" \
    "$(as consumer "$(change 1 1 -5 $request)")" "3|"
is "change_cancel of a subscription that is NULL is not found" \
    "$(as consumer "$(change 1 NULL 1 $request)")" "3|"
publish 25 job.d
p=$(sql "SELECT position FROM holdfast.event_log WHERE id = '$(id 25)'")
is "an answer to a request that was not made cancels nothing" \
    "$(as consumer "$(change 1 1 "$p" $in_hand NULL 0 NULL)"); $(state 25 jobs)" "0|0 pending||||f"
is "an answer for an ordered subscription without a request cancels nothing" \
    "$(as consumer "$(change 1 2 "$p" $unread NULL 0 NULL)"); $(state 25 line)" "0|0 pending||||f"
sql "INSERT INTO holdfast_private.cancels (subscription_id, position, hash, requested_at)
     SELECT s, position, hash, now() FROM holdfast_private.events, unnest('{1,2}'::bigint[]) s
     WHERE position = $p AND namespace_id = 1" >/dev/null
is "an answer without the lease is stale" \
    "$(as consumer "$(change 1 1 "$p" $in_hand NULL 0 NULL)")" \
    "5|"
is "an answer without the partition is stale" \
    "$(as consumer "$(change 1 2 "$p" $unread NULL 0 NULL)")" "5|"
is "stale answers have cancelled nothing" "SELECT count(*) FROM holdfast_private.cancels
    WHERE position = $p AND cancelled_at IS NOT NULL" 0
fails "a consumer cannot write the table of cancels" \
    "$(as consumer "UPDATE holdfast_private.cancels SET
    reason = 'x'")" "42501: *"
done_testing
